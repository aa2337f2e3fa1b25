package main

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"grattoir/cmd/internal/cli"
	"grattoir/sync/uplink"
	"grattoir/sync/wire"
)

// identityFolder is where the identity lies below a terminal's data folder.
const identityFolder = "identity"

type enrolAnswer struct {
	OK       bool   `json:"ok"`
	Terminal string `json:"terminal"`
	Central  string `json:"central"`
	Expires  string `json:"expires"`
	Identity string `json:"identity"`
	SealKeys int    `json:"seal_keys"`
	Waiting  bool   `json:"waiting"` // for its first contact with central, which certifies its key
}

func enrolCommand() *cobra.Command {
	var central, data, file, key, proxy string
	var again, asJSON bool
	cmd := &cobra.Command{
		Use:   "enrol CODE --central URL --data DIR | enrol --file FILE --data DIR",
		Short: "Make this terminal known to central, with the code or the file that central made",
		Long: `Make the terminal's key on this machine and have central certify it. The code names
central as well as the terminal: a server that is not the central which printed it never
hears it. When the answer was lost, the same command with the same code is the cure.

With --file no network is needed: the file (central terminal enrol-file) says whom to believe, and
central certifies the key as soon as the terminal can reach it. With --key the file must be signed
by that key of central's; without, whoever could write the file is believed. Take the file
off the card afterwards: it is used up.`,
		Example: `  terminalctl enrol ABCD-EFGH-IJKL-MNOP-QRST-UVWX-YZ23-4567 --central https://central.example:8443 --data /var/lib/grattoir
  terminalctl enrol --file /boot/shop-0042.enrol --data /var/lib/grattoir`,
		Args: cli.Args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := filepath.Join(data, identityFolder)
			var id uplink.Identity
			var err error
			switch {
			case (file == "") != (len(args) == 1):
				return cli.Usagef("a code or --file, one of the two\nTry: %s --help", cmd.CommandPath())
			case file != "" && data != "":
				id, err = enrolFromFile(file, key, dir, again)
			case file == "" && central != "" && data != "":
				o := uplink.EnrolOptions{URL: central, Code: args[0], Dir: dir, Again: again}
				if proxy != "" {
					if o.Dial, err = uplink.ThroughProxy(proxy, nil); err != nil {
						return cli.Usagef("--%w", err)
					}
				}
				id, err = uplink.Enrol(cmd.Context(), o)
			case file != "":
				return cli.Usagef("--data is needed: where the identity is kept\nTry: %s --help", cmd.CommandPath())
			default:
				return cli.Usagef("--central and --data are needed: whom to enrol with, and where the identity is kept\nTry: %s --help", cmd.CommandPath())
			}
			if err != nil {
				return enrolError(err)
			}
			return printEnrolled(cmd.OutOrStdout(), id, dir, asJSON)
		},
	}
	cmd.Flags().StringVar(&central, "central", "", "central's `URL`, https")
	cmd.Flags().StringVar(&proxy, "proxy", "", "proxy on the way there, a `URL` as http://HOST:PORT")
	cmd.Flags().StringVar(&data, "data", "", "the terminal's data `folder`")
	cmd.Flags().StringVar(&file, "file", "", "enrolment `file` that central made")
	cmd.Flags().StringVar(&key, "key", "", "`file` with central's public key, which must have signed the enrolment file")
	cmd.Flags().BoolVar(&again, "again", false, "replace the identity that is there")
	jsonFlag(cmd, &asJSON)
	return cmd
}

func enrolFromFile(file, key, dir string, again bool) (uplink.Identity, error) {
	text, err := cli.ReadBounded(file, wire.MaxEnrolFile)
	if err != nil {
		return uplink.Identity{}, err
	}
	o := uplink.FileOptions{Text: text, Dir: dir, Again: again}
	if key != "" {
		if o.Key, err = cli.ReadPublicKey(key); err != nil {
			return uplink.Identity{}, err
		}
	}
	return uplink.EnrolFromFile(o)
}

func printEnrolled(w io.Writer, id uplink.Identity, dir string, asJSON bool) error {
	a := enrolAnswer{OK: true, Terminal: id.Terminal, Central: id.Central, Identity: dir, SealKeys: len(id.SealKeys), Waiting: id.Waiting()}
	end := "central certifies it as soon as it can be reached"
	if !a.Waiting {
		a.Expires = id.Expires().UTC().Format(time.RFC3339)
		end = "its certificate ends on " + a.Expires[:10]
	}
	if asJSON {
		return cli.JSON(w, a)
	}
	_, err := fmt.Fprintf(w, "this terminal is %s at %s\n%s, its identity is in %s\n", a.Terminal, a.Central, end, a.Identity)
	return err
}

// enrolError gives a failed enrolment its exit code and, where there is one, its cure.
func enrolError(err error) error {
	var refused *wire.Error
	switch {
	case errors.Is(err, wire.ErrEnrolCode):
		return cli.Usagef("%w: type it as central printed it", err)
	case errors.Is(err, uplink.ErrEnrolled):
		return cli.Exit(cli.Refused, fmt.Errorf("%w: --again replaces it", err))
	case errors.Is(err, uplink.ErrNotPinned), errors.As(err, &refused) && (refused.Kind == wire.KindBadCode || refused.Kind == wire.KindForbidden):
		return cli.Exit(cli.Refused, err)
	}
	return err
}
