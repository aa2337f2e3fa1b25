package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"grattoir/cmd/internal/cli"
	"grattoir/device/control"
	"grattoir/device/printer"
)

func printerCommand() *cobra.Command {
	return cli.Group("printer", "Look after the receipt printer", printerProfilesCommand(),
		printerActCommand("clear", "Drop the slip that the printer keeps", `Make the printer forget the slip it keeps, so that it does not come out when paper is
loaded. The payment stands; its slip can be asked for again (terminalctl reprint) and is
then a DUPLICATA. Models without such a command must be switched off and on by hand.`,
			"Dropped. The payment stands; terminalctl reprint prints a DUPLICATA.", (*control.Client).ClearPrinter),
		printerActCommand("recover", "Go on after a jammed cutter", `Make a printer whose cutter jammed go on, once the blade is free. The line at which it
stopped may be on the paper twice. Paper and cover need no command: the printer goes on by
itself.`, "The printer goes on.", (*control.Client).RecoverPrinter))
}

func printerActCommand(name, short, long, done string, act func(*control.Client, context.Context) error) *cobra.Command {
	var socket string
	cmd := &cobra.Command{
		Use:     name,
		Short:   short,
		Long:    long,
		Example: "  terminalctl printer " + name,
		Args:    cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := act(newClient(socket), cmd.Context()); err != nil {
				return deny(err)
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), done)
			return err
		},
	}
	socketFlag(cmd, &socket)
	return cmd
}

func printerProfilesCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "profiles",
		Short: "Print the shipped profiles, to copy from",
		Long: `Print the file of the shipped printer profiles. terminald.toml names one of them
(printer.profile). For a model that is not there, write a file of the same form, begin with
"like", say what is different, and name it in printer.profiles.`,
		Example: `  terminalctl printer profiles > printers.toml`,
		Args:    cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := cmd.OutOrStdout().Write(printer.ShippedProfiles)
			return err
		},
	}
}
