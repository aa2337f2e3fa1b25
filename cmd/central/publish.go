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
	"grattoir/validate"
	"grattoir/validate/manifest"
)

func blockPublishCommand() *cobra.Command {
	var f folder
	var key, pepperFile string
	var trust bool
	cmd := &cobra.Command{
		Use:   "publish FILE.manifest --key PUB",
		Short: "Verify a sealed block and list it for every terminal",
		Long: `Verify a manifest whole, copy it into central's folder and list it in the next
snapshot, from which terminals fetch it. The key must be one that central trusts; --trust
makes it one, and terminals that enrol from then on accept what it signs.

A block with short secrets comes with its pepper, which central keeps and gives, sealed to
the terminal's key, to the terminals that own packs of it.`,
		Example: `  central block publish bingo-1-1.manifest --key keys/example-lottery.pub --trust
  central block publish bingo-1-2.manifest --key keys/example-lottery.pub
  central block publish old-1.manifest --key keys/example-lottery.pub --pepper old-1.pepper`,
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
				var pepper manifest.Pepper
				if pepperFile != "" {
					text, err := cli.ReadBounded(pepperFile, 1<<10)
					if err != nil {
						return nil, nil, err
					}
					if pepper, err = manifest.ParsePepper(string(text)); err != nil {
						return nil, nil, fmt.Errorf("%s: %w", pepperFile, err)
					}
				}
				b, err := c.PublishWithPepper(ctx, args[0], pepper)
				return b, func(w io.Writer) error {
					_, err := fmt.Fprintf(w, "%s, emission %s, block %d: game code %s, packs %d-%d, %d tickets\nsha256 %s\n",
						b.Name, b.Emission, b.Number, b.GameCode, b.FirstPack, b.LastPack, b.Tickets, b.SHA256)
					return err
				}, err
			})
		},
	}
	cmd.Flags().StringVar(&key, "key", "", "`file` of the public key that the manifest is signed with")
	cmd.Flags().StringVar(&pepperFile, "pepper", "", "`file` of the block's pepper, for layouts with less than 60 bits of secret")
	cmd.Flags().BoolVar(&trust, "trust", false, "trust the key from now on, where it is new")
	f.flags(cmd)
	return cmd
}

type pepperAnswer struct {
	File     string `json:"file"`
	BlockID  string `json:"block_id"`
	Terminal string `json:"terminal"`
}

func blockPepperCommand() *cobra.Command {
	var f folder
	var terminal, out string
	cmd := &cobra.Command{
		Use:   "pepper BLOCK-ID --terminal T --out FILE.pepper",
		Short: "Write a block's pepper, sealed to one terminal, to carry it there on a stick",
		Long: `Write the pepper of a block so that one enrolled terminal alone can open it. A terminal
with a network fetches it by itself. It must own a pack of the block.`,
		Example: `  central block pepper f4f0c2d1a0b94c3e8d7f6a5b4c3d2e1f --terminal shop-0042 --out /media/usb/old-1.pepper
  terminalctl manifest import /media/usb/old-1.pepper --into /var/lib/grattoir/manifests`,
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			var block validate.BlockID
			if err := block.UnmarshalText([]byte(args[0])); err != nil {
				return cli.Usagef("%v", err)
			}
			if terminal == "" || !strings.HasSuffix(out, ".pepper") {
				return cli.Usagef("--terminal and --out are both needed, and --out ends in .pepper\nTry: %s --help", cmd.CommandPath())
			}
			return f.act(cmd, false, func(ctx context.Context, c *central.Central) (any, func(io.Writer) error, error) {
				sealed, err := c.SealedPepper(ctx, terminal, block)
				if err == nil {
					err = writeNew(out, []byte(sealed.Text()), 0o600)
				}
				return pepperAnswer{out, block.String(), terminal}, func(w io.Writer) error {
					_, err := fmt.Fprintf(w, "%s: for terminal %s alone\n", out, terminal)
					return err
				}, err
			})
		},
	}
	cmd.Flags().StringVar(&terminal, "terminal", "", "the `terminal` that may open it")
	cmd.Flags().StringVar(&out, "out", "", "the `file` to write, which must not exist")
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
