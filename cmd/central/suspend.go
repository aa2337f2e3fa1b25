package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"grattoir/cmd/internal/cli"
	"grattoir/sync/central"
)

// suspensionFlags name what of a game is meant, and who does it.
type suspensionFlags struct {
	folder
	s central.Suspension
}

func (f *suspensionFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.s.Emission, "emission", "", "only this `emission` of the game")
	cmd.Flags().IntVar(&f.s.Block, "block", 0, "only the block of this `number` in the emission")
	operatorFlag(cmd, &f.s.Operator)
	f.flags(cmd)
}

func (f *suspensionFlags) check() error {
	if f.s.Operator == "" {
		return cli.Usagef("--operator is missing: central keeps who did it")
	}
	if f.s.Block < 0 || f.s.Block > 0 && f.s.Emission == "" {
		return cli.Usagef("--block %d: a block's number counts from 1 in its emission: name it with --emission", f.s.Block)
	}
	return nil
}

func (f *suspensionFlags) what() string {
	switch {
	case f.s.Block > 0:
		return fmt.Sprintf("%s, emission %s, block %d", f.s.Game, f.s.Emission, f.s.Block)
	case f.s.Emission != "":
		return fmt.Sprintf("%s, emission %s", f.s.Game, f.s.Emission)
	}
	return f.s.Game
}

func gameSuspendCommand() *cobra.Command {
	var f suspensionFlags
	cmd := &cobra.Command{
		Use:   "suspend GAME [--emission E [--block N]] --reason TEXT --operator NAME",
		Short: "Stop the payments of a game, of one emission or of one block, at every terminal",
		Long: `Stop the payments of a game, of one of its emissions or of one block. Terminals refer its
tickets to the centre from the moment they hear of it, and hold to it with no network,
until central game resume names the same.`,
		Example: `  central game suspend bingo --reason "misprint in block 3" --operator anne
  central game suspend bingo --emission 1 --block 3 --reason "misprint" --operator anne --json`,
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.s.Game = args[0]
			if err := f.check(); err != nil {
				return err
			}
			if f.s.Reason == "" {
				return cli.Usagef("--reason is missing: technicians read why")
			}
			return f.act(cmd, false, func(ctx context.Context, c *central.Central) (any, func(io.Writer) error, error) {
				s, err := c.SuspendGame(ctx, f.s)
				return s, func(w io.Writer) error {
					_, err := fmt.Fprintf(w, "%s is suspended: %s\n", f.what(), s.Reason)
					return err
				}, err
			})
		},
	}
	cmd.Flags().StringVar(&f.s.Reason, "reason", "", "why, in `words` that technicians read")
	f.add(cmd)
	return cmd
}

func gameResumeCommand() *cobra.Command {
	var f suspensionFlags
	cmd := &cobra.Command{
		Use:   "resume GAME [--emission E [--block N]] --operator NAME",
		Short: "Lift a suspension: the same game, emission or block is paid again",
		Example: `  central game resume bingo --operator anne
  central game resume bingo --emission 1 --block 3 --operator anne`,
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.s.Game = args[0]
			if err := f.check(); err != nil {
				return err
			}
			return f.act(cmd, false, func(ctx context.Context, c *central.Central) (any, func(io.Writer) error, error) {
				err := c.ResumeGame(ctx, f.s)
				return struct {
						Resumed central.Suspension `json:"resumed"`
					}{f.s}, func(w io.Writer) error {
						_, err := fmt.Fprintf(w, "%s is not suspended any more\n", f.what())
						return err
					}, err
			})
		},
	}
	f.add(cmd)
	return cmd
}

func gameSuspensionsCommand() *cobra.Command {
	var f folder
	cmd := &cobra.Command{
		Use:   "suspensions",
		Short: "List the games, emissions and blocks that are suspended",
		Example: `  central game suspensions
  central game suspensions --json`,
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.act(cmd, false, func(ctx context.Context, c *central.Central) (any, func(io.Writer) error, error) {
				list, err := c.Suspensions(ctx)
				return list, func(w io.Writer) error {
					var rows [][]string
					for _, s := range list {
						block := "-"
						if s.Block > 0 {
							block = fmt.Sprint(s.Block)
						}
						rows = append(rows, []string{s.Game, orDash(s.Emission), block, when(s.Since), s.Operator, s.Reason})
					}
					return table(w, "GAME EMISSION BLOCK SINCE OPERATOR REASON", rows)
				}, err
			})
		},
	}
	f.flags(cmd)
	return cmd
}

func terminalResumeCommand() *cobra.Command {
	var f folder
	cmd := &cobra.Command{
		Use:   "resume NAME",
		Short: "Let a terminal pay again whose payments were stopped",
		Long: `Let a terminal pay again whose payments were stopped with central terminal suspend
--payments-only. One whose every request is refused is enrolled again in place of that
(central terminal add).`,
		Example: `  central terminal resume shop-0042`,
		Args:    cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.act(cmd, false, func(ctx context.Context, c *central.Central) (any, func(io.Writer) error, error) {
				if err := c.Resume(ctx, args[0]); err != nil {
					return nil, nil, err
				}
				t, err := c.Terminal(ctx, args[0])
				return t, func(w io.Writer) error {
					_, err := fmt.Fprintf(w, "the payments of %s, which is %s, are not stopped any more\n", t.Name, t.State)
					return err
				}, err
			})
		},
	}
	f.flags(cmd)
	return cmd
}
