package main

import (
	"fmt"
	"strconv"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"grattoir/cmd/internal/cli"
)

func messageCommand() *cobra.Command {
	return cli.Group("message", "See what central says to this counter, and record that it was read", messageListCommand(), messageReadCommand())
}

func messageListCommand() *cobra.Command {
	var socket string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the messages that are in their days, read ones too",
		Example: `  terminalctl message list
  terminalctl message list --json`,
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			list, err := newClient(socket).Messages(cmd.Context())
			if err != nil {
				return deny(err)
			}
			if asJSON {
				return cli.JSON(cmd.OutOrStdout(), list)
			}
			t := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(t, "NUMBER\tSTATE\tUNTIL\tMESSAGE")
			for _, m := range list {
				state, until := "waits", m.Until
				switch {
				case m.Read:
					state = "read"
				case m.Mandatory:
					state = "MUST BE READ"
				}
				if until == "" {
					until = "-"
				}
				fmt.Fprintf(t, "%d\t%s\t%s\t%s\n", m.Number, state, until, cli.Line(m.English))
			}
			return t.Flush()
		},
	}
	socketFlag(cmd, &socket)
	jsonFlag(cmd, &asJSON)
	return cmd
}

func messageReadCommand() *cobra.Command {
	var socket string
	cmd := &cobra.Command{
		Use:     "read NUMBER",
		Short:   "Record that whoever is at the counter has read a message",
		Example: `  terminalctl message read 12`,
		Args:    cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			n, err := strconv.ParseInt(args[0], 10, 64)
			if err != nil || n < 1 {
				return cli.Usagef("%.20q: want a message's number (terminalctl message list)", args[0])
			}
			return said(cmd, fmt.Sprintf("message %d is read", n), newClient(socket).ReadMessage(cmd.Context(), n))
		},
	}
	socketFlag(cmd, &socket)
	return cmd
}
