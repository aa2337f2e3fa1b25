package main

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"grattoir/cmd/internal/cli"
	"grattoir/sync/central"
)

func messageCommand() *cobra.Command {
	return cli.Group("message", "Say something to the people at counters, see who has read it", messageSendCommand(), messageListCommand(), messageReadersCommand(), messageWithdrawCommand())
}

func messageSendCommand() *cobra.Command {
	var f folder
	var m central.Message
	cmd := &cobra.Command{
		Use:   "send --fr TEXT --en TEXT --operator NAME [--to TERMINAL | --region R] [--mandatory] [--from DATE] [--until DATE]",
		Short: "Say something at one terminal, at those of a region, or at all",
		Long: `Say something to whoever is at the counter of one terminal, of those that stand in a
region now, or of all. It stands on the page on its days, in the page's language, until
somebody there has read it. While one that is mandatory was not read, nothing is paid
there; tickets are still checked.`,
		Example: `  central message send --fr "Nouveau jeu lundi" --en "New game on Monday" --operator anne --until 2026-12-07
  central message send --region bzh --mandatory --fr "Refusez les faux billets de 50" --en "Beware of false 50 notes" --operator anne`,
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case m.Operator == "":
				return cli.Usagef("--operator is missing: central keeps who said it")
			case m.French == "" || m.English == "":
				return cli.Usagef("--fr and --en are both needed: the clerk chooses the language")
			case m.Terminal != "" && m.Region != "":
				return cli.Usagef("--to and --region: name one of them, or none for all terminals")
			}
			return f.act(cmd, false, func(ctx context.Context, c *central.Central) (any, func(io.Writer) error, error) {
				sent, err := c.Send(ctx, m)
				return sent, func(w io.Writer) error {
					_, err := fmt.Fprintf(w, "message %d is on its way to %s\n", sent.Number, audience(sent))
					return err
				}, err
			})
		},
	}
	cmd.Flags().StringVar(&m.Terminal, "to", "", "one `terminal`")
	cmd.Flags().StringVar(&m.Region, "region", "", "the terminals of one `region`")
	cmd.Flags().StringVar(&m.French, "fr", "", "the message in French, `text`")
	cmd.Flags().StringVar(&m.English, "en", "", "the message in English, `text`")
	cmd.Flags().BoolVar(&m.Mandatory, "mandatory", false, "nothing is paid until somebody has read it")
	cmd.Flags().StringVar(&m.From, "from", "", "first `day` in Paris, as 2026-12-01; today without it")
	cmd.Flags().StringVar(&m.Until, "until", "", "last `day`; no end without it")
	operatorFlag(cmd, &m.Operator)
	f.flags(cmd)
	return cmd
}

// audience names whom a message is for.
func audience(m central.Message) string {
	switch {
	case m.Terminal != "":
		return m.Terminal
	case m.Region != "":
		return "region " + m.Region
	}
	return "all terminals"
}

func messageListCommand() *cobra.Command {
	var f folder
	var all bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the messages that are out, and at how many terminals each was read",
		Example: `  central message list
  central message list --all --json`,
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.act(cmd, false, func(ctx context.Context, c *central.Central) (any, func(io.Writer) error, error) {
				list, err := c.Messages(ctx, all)
				return list, func(w io.Writer) error {
					var rows [][]string
					for _, m := range list {
						kind := "may be read"
						if m.Mandatory {
							kind = "mandatory"
						}
						if !m.Withdrawn.IsZero() {
							kind = "withdrawn"
						}
						rows = append(rows, []string{fmt.Sprint(m.Number), audience(m), kind, m.From, orDash(m.Until), fmt.Sprint(m.Readers), m.Operator, m.French})
					}
					return table(w, "NUMBER TO KIND FROM UNTIL READERS OPERATOR FRENCH", rows)
				}, err
			})
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "the withdrawn ones and those whose days are over, too")
	f.flags(cmd)
	return cmd
}

// messageNumber reads the number of a message.
func messageNumber(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 {
		return 0, cli.Usagef("%.20q: want a message's number (central message list)", text)
	}
	return n, nil
}

func messageReadersCommand() *cobra.Command {
	var f folder
	cmd := &cobra.Command{
		Use:     "readers NUMBER",
		Short:   "List the terminals at which a message was read, and by whom",
		Example: `  central message readers 12 --json`,
		Args:    cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			number, err := messageNumber(args[0])
			if err != nil {
				return err
			}
			return f.act(cmd, false, func(ctx context.Context, c *central.Central) (any, func(io.Writer) error, error) {
				list, err := c.MessageReaders(ctx, number)
				return list, func(w io.Writer) error {
					var rows [][]string
					for _, r := range list {
						rows = append(rows, []string{r.Terminal, printable(r.Operator), when(r.Received)})
					}
					return table(w, "TERMINAL OPERATOR RECEIVED", rows)
				}, err
			})
		},
	}
	f.flags(cmd)
	return cmd
}

func messageWithdrawCommand() *cobra.Command {
	var f folder
	cmd := &cobra.Command{
		Use:     "withdraw NUMBER",
		Short:   "Take a message back from every counter",
		Example: `  central message withdraw 12`,
		Args:    cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			number, err := messageNumber(args[0])
			if err != nil {
				return err
			}
			return f.act(cmd, false, func(ctx context.Context, c *central.Central) (any, func(io.Writer) error, error) {
				err := c.Withdraw(ctx, number)
				return struct {
					Withdrawn int64 `json:"withdrawn"`
				}{number}, func(w io.Writer) error { _, err := fmt.Fprintf(w, "message %d is withdrawn\n", number); return err }, err
			})
		},
	}
	f.flags(cmd)
	return cmd
}
