package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"grattoir/cmd/internal/cli"
	"grattoir/sync/central"
	"grattoir/validate/money"
)

func claimsListCommand() *cobra.Command {
	var f folder
	var freed bool
	cmd := &cobra.Command{
		Use:   "list [TERMINAL]",
		Short: "List tickets that a terminal was allowed to pay and has not paid",
		Long: `List tickets that a terminal was allowed to pay and has not paid, nor given back: nobody else is allowed
them. --freed lists those that were given up, by whom and why.`,
		Example: `  central claims list shop-0042
  central claims list --freed --json`,
		Args: cli.Args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.act(cmd, false, func(ctx context.Context, c *central.Central) (any, func(io.Writer) error, error) {
				var list []central.Permit
				var err error
				switch {
				case freed:
					list, err = c.FreedPermits(ctx)
				case len(args) == 1:
					list, err = c.Permits(ctx, args[0])
				default:
					list, err = c.Permits(ctx, "")
				}
				return list, func(w io.Writer) error { return permitTable(w, list) }, err
			})
		},
	}
	f.flags(cmd)
	cmd.Flags().BoolVar(&freed, "freed", false, "those that were given up")
	return cmd
}

func permitTable(w io.Writer, list []central.Permit) error {
	var rows [][]string
	for _, p := range list {
		rows = append(rows, []string{p.Terminal, p.GameCode, fmt.Sprintf("%d-%03d", p.Pack, p.Ticket), printable(money.Text(money.Amount(p.Minor), p.Currency, money.English, money.Receipt)),
			when(p.Made), orDash(p.Operator), orDash(printable(p.Why))})
	}
	return table(w, "TERMINAL GAME TICKET AMOUNT ALLOWED FREED-BY WHY", rows)
}

func claimsFreeCommand() *cobra.Command {
	var f folder
	var operator, why string
	cmd := &cobra.Command{
		Use:   "free TERMINAL --operator NAME --why TEXT",
		Short: "Give up what a lost terminal was allowed to pay",
		Long: `Give up what a lost terminal was allowed to pay and has not, as far as central has heard, so that its tickets
can be allowed elsewhere. It may have paid them: whoever frees them answers for that. The terminal was suspended before.
What its card claims later is a conflict, and the tickets stay ones that are paid by central's word only.`,
		Example: `  central claims free shop-0042 --operator martin --why 'burnt down on 30 November, police report 118'`,
		Args:    cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.act(cmd, false, func(ctx context.Context, c *central.Central) (any, func(io.Writer) error, error) {
				list, err := c.Free(ctx, args[0], operator, why)
				return list, func(w io.Writer) error { return permitTable(w, list) }, err
			})
		},
	}
	f.flags(cmd)
	cmd.Flags().StringVar(&operator, "operator", "", "`name` of who decides it")
	cmd.Flags().StringVar(&why, "why", "", "`why`")
	return cmd
}
