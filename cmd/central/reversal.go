package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"grattoir/cmd/internal/cli"
	"grattoir/sync/central"
	"grattoir/validate"
	"grattoir/validate/money"
)

func reversalCommand() *cobra.Command {
	return cli.Group("reversal", "Decide payments that terminals ask to take back", reversalListCommand(),
		reversalDecideCommand("accept", true, "Take the payment back: the ticket may be paid again, online only"),
		reversalDecideCommand("refuse", false, "Let the payment stand"))
}

func reversalListCommand() *cobra.Command {
	var f folder
	var all bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the requests that wait for a decision",
		Example: `  central reversal list
  central reversal list --all --json`,
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.act(cmd, false, func(ctx context.Context, c *central.Central) (any, func(io.Writer) error, error) {
				list, err := c.Reversals(ctx, all)
				return list, func(w io.Writer) error {
					var rows [][]string
					for _, r := range list {
						rows = append(rows, []string{r.Terminal, r.Number, when(r.Received), fmt.Sprintf("%d-%03d", r.Pack, r.Ticket),
							money.Text(money.Amount(r.Minor), r.Currency, money.English, money.Receipt), printable(string(r.Reason)), printable(r.Operator), printable(r.Manager),
							string(r.State), printable(strings.TrimSpace(r.Text + " " + r.Answer))})
					}
					return table(w, "TERMINAL NUMBER RECEIVED TICKET AMOUNT REASON CLERK MANAGER STATE WORDS", rows)
				}, err
			})
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "the decided ones too")
	f.flags(cmd)
	return cmd
}

// printable takes out of a terminal's words what could move a cursor.
func printable(s string) string {
	return orDash(strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return -1
	}, s))
}

func reversalDecideCommand(word string, accepted bool, short string) *cobra.Command {
	var f folder
	var reason string
	cmd := &cobra.Command{
		Use:   word + " TERMINAL NUMBER",
		Short: short,
		Long: short + `. NUMBER is the payment's ledger number, as the list and its
slip show it. The terminal hears of it in its feed. It is decided once.`,
		Example: fmt.Sprintf(`  central reversal %s shop-0042 1-000017 --reason "slip seen"`, word),
		Args:    cli.Args(cobra.ExactArgs(2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			var n validate.EntryNumber
			if _, err := fmt.Sscanf(args[1], "%d-%d", &n.Epoch, &n.Seq); err != nil || n.Epoch < 1 || n.Seq < 1 {
				return cli.Usagef("%.40q: want a ledger number as the slip shows it, like 1-000017", args[1])
			}
			if !accepted && reason == "" {
				return cli.Usagef("--reason is missing: the clerk is told why")
			}
			return f.act(cmd, false, func(ctx context.Context, c *central.Central) (any, func(io.Writer) error, error) {
				r, err := c.Decide(ctx, args[0], n, accepted, reason)
				return r, func(w io.Writer) error {
					_, err := fmt.Fprintf(w, "%s of terminal %s, %s: %s\n", r.Number, r.Terminal, money.Text(money.Amount(r.Minor), r.Currency, money.English, money.Receipt), r.State)
					return err
				}, err
			})
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "central's `words`, which the terminal keeps")
	f.flags(cmd)
	return cmd
}
