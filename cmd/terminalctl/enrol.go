package main

import (
	"errors"
	"fmt"
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
}

func enrolCommand() *cobra.Command {
	var central, data string
	var again, asJSON bool
	cmd := &cobra.Command{
		Use:   "enrol CODE --central URL --data DIR",
		Short: "Make this terminal known to central, with the code that central printed",
		Long: `Make the terminal's key on this machine and have central certify it. The code names
central as well as the terminal: a server that is not the central which printed it never
hears it. When the answer was lost, the same command with the same code is the cure.`,
		Example: `  terminalctl enrol ABCD-EFGH-IJKL-MNOP-QRST-UVWX-YZ23-4567 --central https://central.example:8443 --data /var/lib/grattoir`,
		Args:    cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if central == "" || data == "" {
				return cli.Usagef("--central and --data are needed: whom to enrol with, and where the identity is kept\nTry: %s --help", cmd.CommandPath())
			}
			dir := filepath.Join(data, identityFolder)
			id, err := uplink.Enrol(cmd.Context(), uplink.EnrolOptions{URL: central, Code: args[0], Dir: dir, Again: again})
			if err != nil {
				return enrolError(err)
			}
			a := enrolAnswer{true, id.Terminal, id.Central, id.Expires().UTC().Format(time.RFC3339), dir, len(id.SealKeys)}
			if asJSON {
				return cli.JSON(cmd.OutOrStdout(), a)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "this terminal is %s at %s\nits certificate ends on %s, its identity is in %s\n", a.Terminal, a.Central, a.Expires[:10], a.Identity)
			return err
		},
	}
	cmd.Flags().StringVar(&central, "central", "", "central's `URL`, https")
	cmd.Flags().StringVar(&data, "data", "", "the terminal's data `folder`")
	cmd.Flags().BoolVar(&again, "again", false, "replace the identity that is there")
	jsonFlag(cmd, &asJSON)
	return cmd
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
