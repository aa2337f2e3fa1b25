package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"grattoir/cmd/internal/cli"
	"grattoir/sync/central"
)

// salesFlags name a block, and who acts.
type salesFlags struct {
	folder
	e central.SalesEnd
}

func (f *salesFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.e.Emission, "emission", "", "`number` of the emission")
	cmd.Flags().IntVar(&f.e.Block, "block", 0, "`number` of the block in the emission")
	operatorFlag(cmd, &f.e.Operator)
	f.flags(cmd)
}

func (f *salesFlags) check(game string) error {
	f.e.Game = game
	if f.e.Operator == "" || f.e.Emission == "" || f.e.Block < 1 {
		return cli.Usagef("--emission, --block and --operator are needed: sales end block by block, and central keeps who did it")
	}
	return nil
}

// do does one of the two acts and says what holds then.
func (f *salesFlags) do(cmd *cobra.Command, act func(*central.Central, context.Context) error, words string) error {
	return f.act(cmd, false, func(ctx context.Context, c *central.Central) (any, func(io.Writer) error, error) {
		err := act(c, ctx)
		return f.e, func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "%s, emission %s, block %d: %s\n", f.e.Game, f.e.Emission, f.e.Block, words)
			return err
		}, err
	})
}

func gameEndSalesCommand() *cobra.Command {
	var f salesFlags
	cmd := &cobra.Command{
		Use:   "end-sales GAME --emission E --block N --reason TEXT --operator NAME",
		Short: "Let no more packs of a block be put on sale, at every terminal",
		Long: `Let no more packs of a block be put on sale, because its last top prize was paid, or for another reason. Packs
that are on sale stay so, and are paid. With end_after_top_prize in the section [sales] of the server's
configuration central does it by itself when the last top prize of a block is paid.`,
		Example: `  central game end-sales bingo --emission 1 --block 3 --reason "both top prizes are paid" --operator anne`,
		Args:    cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(args[0]); err != nil {
				return err
			}
			if f.e.Reason == "" {
				return cli.Usagef("--reason is missing: technicians read why")
			}
			return f.do(cmd, func(c *central.Central, ctx context.Context) error { return c.EndSales(ctx, f.e) }, "no more packs are put on sale")
		},
	}
	cmd.Flags().StringVar(&f.e.Reason, "reason", "", "why, in `words` that technicians read")
	f.add(cmd)
	return cmd
}

func gameResumeSalesCommand() *cobra.Command {
	var f salesFlags
	cmd := &cobra.Command{
		Use:     "resume-sales GAME --emission E --block N --operator NAME",
		Short:   "Let packs of a block be put on sale again",
		Example: `  central game resume-sales bingo --emission 1 --block 3 --operator anne`,
		Args:    cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(args[0]); err != nil {
				return err
			}
			return f.do(cmd, func(c *central.Central, ctx context.Context) error { return c.ResumeSales(ctx, f.e) }, "packs are put on sale again")
		},
	}
	f.add(cmd)
	return cmd
}

func gameSalesCommand() *cobra.Command {
	var f folder
	cmd := &cobra.Command{
		Use:   "sales",
		Short: "List the blocks of which no more packs are put on sale",
		Example: `  central game sales
  central game sales --json`,
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.act(cmd, false, func(ctx context.Context, c *central.Central) (any, func(io.Writer) error, error) {
				list, err := c.SalesEnds(ctx)
				return list, func(w io.Writer) error {
					var rows [][]string
					for _, e := range list {
						rows = append(rows, []string{e.Game, e.Emission, fmt.Sprint(e.Block), e.GameCode, when(e.Since), e.Operator, e.Reason})
					}
					return table(w, "GAME EMISSION BLOCK CODE SINCE OPERATOR REASON", rows)
				}, err
			})
		},
	}
	f.flags(cmd)
	return cmd
}
