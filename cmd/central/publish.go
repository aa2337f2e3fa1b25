package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"grattoir/cmd/internal/cli"
	"grattoir/sync/central"
)

func blockPublishCommand() *cobra.Command {
	var f folder
	var key string
	var trust bool
	cmd := &cobra.Command{
		Use:   "publish FILE.manifest --key PUB",
		Short: "Verify a sealed block and list it for every terminal",
		Long: `Verify a manifest whole, copy it into central's folder and list it in the next
snapshot, from which terminals fetch it. The key must be one that central trusts; --trust
makes it one, and terminals that enrol from then on accept what it signs.`,
		Example: `  central block publish bingo-1-1.manifest --key keys/example-lottery.pub --trust
  central block publish bingo-1-2.manifest --key keys/example-lottery.pub`,
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if key == "" {
				return cli.Usagef("--key is missing: name the public key that the manifest is signed with (central key new made it)")
			}
			public, err := os.ReadFile(key)
			if err != nil {
				return err
			}
			return f.act(cmd, true, func(ctx context.Context, c *central.Central) (any, func(io.Writer) error, error) {
				if err := trustKey(c, key, string(public), trust); err != nil {
					return nil, nil, err
				}
				b, err := c.Publish(ctx, args[0])
				return b, func(w io.Writer) error {
					_, err := fmt.Fprintf(w, "%s, emission %s, block %d: game code %s, packs %d-%d, %d tickets\nsha256 %s\n",
						b.Name, b.Emission, b.Number, b.GameCode, b.FirstPack, b.LastPack, b.Tickets, b.SHA256)
					return err
				}, err
			})
		},
	}
	cmd.Flags().StringVar(&key, "key", "", "`file` of the public key that the manifest is signed with")
	cmd.Flags().BoolVar(&trust, "trust", false, "trust the key from now on, where it is new")
	f.flags(cmd)
	return cmd
}

// trustKey holds the key against those that are trusted: a new one takes a decision.
func trustKey(c *central.Central, path, public string, trust bool) error {
	if trust {
		_, err := c.TrustSealKey(public)
		return err
	}
	keys, err := c.SealKeys()
	if err == nil && !slices.Contains(keys, strings.TrimSpace(public)) {
		err = fmt.Errorf("%w: central does not trust the key in %s yet: add --trust if it is the lottery's own", central.ErrRefused, path)
	}
	return err
}
