package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"grattoir/cmd/internal/cli"
	"grattoir/sync/central"
	"grattoir/sync/wire"
)

func packMoveCommand() *cobra.Command {
	var f folder
	var to string
	var force bool
	cmd := &cobra.Command{
		Use:   "move GAME-CODE PACKS --to TERMINAL",
		Short: "Give packs of one terminal to another",
		Long: `Give packs to another terminal, at a raised owner epoch. Their owner releases them first
(terminalctl pack release there), and central must have heard of it. With --force it need
not have: then nobody pays these packs until that terminal's journal has arrived, or
central pack write-off gives it up.`,
		Example: `  central pack move 399 120-179 --to shop-0043
  central pack move 399 120 --to shop-0043 --force`,
		Args: cli.Args(cobra.ExactArgs(2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if to == "" {
				return cli.Usagef("--to is missing: name the terminal (central terminal list)")
			}
			first, last, err := wire.ParseRange(args[1])
			if err != nil {
				return cli.Usagef("%w", err)
			}
			return f.act(cmd, false, func(ctx context.Context, c *central.Central) (any, func(io.Writer) error, error) {
				runs, err := c.MovePacks(ctx, args[0], first, last, to, force)
				return runs, func(w io.Writer) error {
					for _, r := range runs {
						text := fmt.Sprintf("are %s's (owner epoch %d)", r.Owner, r.Epoch)
						if r.Owner == "" {
							text = fmt.Sprintf("go to %s (owner epoch %d); nobody pays them with no network: central pack rights", to, r.Epoch)
						}
						if _, err := fmt.Fprintf(w, "packs %d-%d of game code %s %s\n", r.First, r.Last, r.GameCode, text); err != nil {
							return err
						}
					}
					return nil
				}, err
			})
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "the `terminal` that gets them")
	cmd.Flags().BoolVar(&force, "force", false, "although the owner has not released them")
	f.flags(cmd)
	return cmd
}

func packWriteOffCommand() *cobra.Command {
	var f folder
	var note string
	cmd := &cobra.Command{
		Use:   "write-off GAME-CODE PACKS --note WORDS",
		Short: "Stop waiting for the old owner of packs that were moved by force",
		Long: `From now on central decides about each ticket of these packs. What their old owner claims
later is kept as conflicts. The loss is at most the allowance that it had: it is printed.`,
		Example: `  central pack write-off 399 120-179 --note "anne: burnt down, no card found"`,
		Args:    cli.Args(cobra.ExactArgs(2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			first, last, err := wire.ParseRange(args[1])
			if err != nil {
				return cli.Usagef("%w", err)
			}
			return f.act(cmd, false, func(ctx context.Context, c *central.Central) (any, func(io.Writer) error, error) {
				loss, err := c.WriteOff(ctx, args[0], first, last, note)
				return loss, func(w io.Writer) error {
					_, err := fmt.Fprintf(w, "%d packs are written off; each of %s may have paid up to %d claims, %d minor units, that nobody hears of (0 is no bound)\n",
						loss.Packs, strings.Join(loss.Of, ", "), loss.Claims, loss.Minor)
					return err
				}, err
			})
		},
	}
	cmd.Flags().StringVar(&note, "note", "", "who decided it and why, in `words`")
	f.flags(cmd)
	return cmd
}

func packRightsCommand() *cobra.Command {
	var f folder
	cmd := &cobra.Command{
		Use:   "rights",
		Short: "List the packs that their owners do not pay with no network, and why",
		Example: `  central pack rights
  central pack rights --json`,
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.act(cmd, false, func(ctx context.Context, c *central.Central) (any, func(io.Writer) error, error) {
				list, err := c.PackRights(ctx)
				return list, func(w io.Writer) error {
					var rows [][]string
					for _, p := range list {
						rows = append(rows, []string{p.GameCode, fmt.Sprint(p.Number), p.Owner, fmt.Sprint(p.Epoch), p.Kind, p.Holder, when(p.Since), p.Note})
					}
					return table(w, "GAME-CODE PACK OWNER EPOCH RIGHT HOLDER SINCE NOTE", rows)
				}, err
			})
		},
	}
	f.flags(cmd)
	return cmd
}

func packRisksCommand() *cobra.Command {
	var f folder
	cmd := &cobra.Command{
		Use:     "risks",
		Short:   "What was paid at a booked risk, who bears it, and what it cost",
		Example: `  central pack risks --json`,
		Args:    cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.act(cmd, false, func(ctx context.Context, c *central.Central) (any, func(io.Writer) error, error) {
				list, err := c.BookedRisks(ctx)
				return list, func(w io.Writer) error {
					var rows [][]string
					for _, r := range list {
						rows = append(rows, []string{r.Party, r.Currency, fmt.Sprint(r.Claims), fmt.Sprint(r.Minor), fmt.Sprint(r.Lost), fmt.Sprint(r.LostMinor)})
					}
					return table(w, "PARTY CURRENCY CLAIMS MINOR LOST LOST-MINOR", rows)
				}, err
			})
		},
	}
	f.flags(cmd)
	return cmd
}

func terminalReplaceCommand() *cobra.Command {
	var f folder
	cmd := &cobra.Command{
		Use:   "replace OLD NEW",
		Short: "Give all packs of a terminal that is gone to another one",
		Long: `Move all packs of OLD to NEW by force. Nobody pays them until OLD's journal has arrived
(when it comes on the line once more, they pass on by themselves) or was written off
(central pack write-off). How much of OLD's journal is missing is noted and printed.`,
		Example: `  central terminal replace shop-0042 shop-0042b`,
		Args:    cli.Args(cobra.ExactArgs(2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.act(cmd, false, func(ctx context.Context, c *central.Central) (any, func(io.Writer) error, error) {
				r, err := c.Replace(ctx, args[0], args[1])
				return r, func(w io.Writer) error {
					_, err := fmt.Fprintf(w, "%d packs of %s go to %s; its journal is here up to %v, it last told of %v, %d entries are missing as far as is known\n",
						r.Packs, r.Old, r.New, r.Acked, r.Told, r.Unsent)
					return err
				}, err
			})
		},
	}
	f.flags(cmd)
	return cmd
}
