package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"grattoir/cmd/internal/cli"
	"grattoir/sync/central"
	"grattoir/validate/policy"
)

// notAny takes a closing notice back.
const notAny = "none"

func gameCloseCommand() *cobra.Command {
	var f folder
	var emission, on string
	var days int
	var past bool
	cmd := &cobra.Command{
		Use:   "close GAME --emission E --on DATE|none",
		Short: "Enter an emission's closing notice: when terminals may drop its blocks",
		Long: `Enter an emission's closing notice at central. Terminals keep its blocks over the claim
period, to the next working day where it ends on a Sunday or a public holiday, and 60
days more; then they drop them. A date entered again replaces the earlier one, "none"
opens the emission again. The catalogue entry of the game has the date for people
(central game import); this is what the terminals act on.`,
		Example: `  central game close bingo --emission 1 --on 2026-11-27
  central game close bingo --emission 1 --on none`,
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case emission == "":
				return cli.Usagef("--emission is missing: name the emission, as central block publish told it")
			case on == "":
				return cli.Usagef("--on is missing: give the closing notice's date, or none")
			}
			var date policy.Date
			if on != notAny {
				var err error
				if date, err = policy.ParseDate(on); err != nil {
					return cli.Usagef("--on: %w", err)
				}
			}
			return f.act(cmd, false, func(ctx context.Context, c *central.Central) (any, func(io.Writer) error, error) {
				n, err := c.CloseEmission(ctx, args[0], emission, date, days, past)
				return n, func(w io.Writer) error { return printClosing(w, n) }, err
			})
		},
	}
	cmd.Flags().StringVar(&emission, "emission", "", "the `emission`'s number")
	cmd.Flags().StringVar(&on, "on", "", "`date` of the notice, as 2001-04-01, or none")
	cmd.Flags().IntVar(&days, "claim-days", 30, "`days` of the claim period, from the notice on (règlement général, article 10)")
	cmd.Flags().BoolVar(&past, "past", false, "the date is meant, though terminals drop the blocks at once")
	f.flags(cmd)
	return cmd
}

func printClosing(w io.Writer, n central.ClosingNotice) error {
	if n.Closed == "" {
		_, err := fmt.Fprintf(w, "%s, emission %s is open: terminals keep its blocks\n", n.Game, n.Emission)
		return err
	}
	_, err := fmt.Fprintf(w, "%s, emission %s closed on %s; prizes can be claimed until %s, terminals keep its blocks (%d) until %s\n",
		n.Game, n.Emission, n.Closed, n.LastClaim, n.Blocks, n.DropAfter)
	return err
}
