package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"grattoir/cmd/internal/cli"
)

func packReleaseCommand() *cobra.Command {
	var a acts
	cmd := &cobra.Command{
		Use:   "release",
		Short: "Give up the right to pay this terminal's packs without central",
		Long: `From now on central decides about every ticket of this terminal's packs, so that other
shops can pay them while this one is closed. It is an entry of the journal, and reaches
central with it. pack take ends it.`,
		Example: `  terminalctl pack release --manager max`,
		Args:    cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			pin, err := a.managerPIN(cmd)
			if err != nil {
				return err
			}
			done, err := newClient(a.socket).ReleasePacks(cmd.Context(), a.manager, pin)
			if err != nil {
				return deny(err)
			}
			if a.json {
				return cli.JSON(cmd.OutOrStdout(), done)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%d runs of packs are released: central decides about their tickets\n", done.Released)
			return err
		},
	}
	a.add(cmd, "`id` of a manager, where operators sign on")
	return cmd
}

func packTakeCommand() *cobra.Command {
	var socket string
	cmd := &cobra.Command{
		Use:     "take",
		Short:   "Ask central for the packs that were released",
		Long:    "They are this terminal's again within seconds when the network works.",
		Example: `  terminalctl pack take`,
		Args:    cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := newClient(socket).TakePacks(cmd.Context()); err != nil {
				return deny(err)
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), "the packs are asked for")
			return err
		},
	}
	socketFlag(cmd, &socket)
	return cmd
}
