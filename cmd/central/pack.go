package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"grattoir/cmd/internal/cli"
	"grattoir/sync/central"
	"grattoir/sync/wire"
)

func packCommand() *cobra.Command {
	return cli.Group("pack", "Deliver packs to terminals and put them on sale", packDeliverCommand(), packActivateCommand(), packListCommand())
}

func packDeliverCommand() *cobra.Command {
	var f folder
	var terminal string
	cmd := &cobra.Command{
		Use:   "deliver GAME-CODE PACKS --to TERMINAL",
		Short: "Give printed packs to a terminal, which owns them from now on",
		Example: `  central pack deliver 399 120-179 --to shop-0042
  central pack deliver 399 120 --to shop-0042 --json`,
		Args: cli.Args(cobra.ExactArgs(2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if terminal == "" {
				return cli.Usagef("--to is missing: name the terminal (central terminal list)")
			}
			return f.movePacks(cmd, args, func(ctx context.Context, c *central.Central, first, last uint32) ([]wire.PackItem, error) {
				return c.Deliver(ctx, args[0], first, last, terminal)
			})
		},
	}
	cmd.Flags().StringVar(&terminal, "to", "", "the `terminal` that receives them")
	f.flags(cmd)
	return cmd
}

func packActivateCommand() *cobra.Command {
	var f folder
	cmd := &cobra.Command{
		Use:   "activate GAME-CODE PACKS",
		Short: "Put delivered packs on sale: their tickets may be paid",
		Example: `  central pack activate 399 120-179
  central pack activate 399 120 --data /srv/central`,
		Args: cli.Args(cobra.ExactArgs(2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.movePacks(cmd, args, func(ctx context.Context, c *central.Central, first, last uint32) ([]wire.PackItem, error) {
				return c.Activate(ctx, args[0], first, last)
			})
		},
	}
	f.flags(cmd)
	return cmd
}

func (f *folder) movePacks(cmd *cobra.Command, args []string, move func(context.Context, *central.Central, uint32, uint32) ([]wire.PackItem, error)) error {
	first, last, err := wire.ParseRange(args[1])
	if err != nil {
		return cli.Usagef("%w", err)
	}
	return f.act(cmd, false, func(ctx context.Context, c *central.Central) (any, func(io.Writer) error, error) {
		runs, err := move(ctx, c, first, last)
		return runs, func(w io.Writer) error {
			for _, r := range runs {
				if _, err := fmt.Fprintf(w, "packs %d-%d of game code %s are %s, owned by %s (owner epoch %d)\n", r.First, r.Last, r.GameCode, r.State, r.Owner, r.Epoch); err != nil {
					return err
				}
			}
			return nil
		}, err
	})
}

func packListCommand() *cobra.Command {
	var f folder
	cmd := &cobra.Command{
		Use:   "list [GAME-CODE]",
		Short: "List the packs that were delivered, their state and owner",
		Example: `  central pack list
  central pack list 399 --json`,
		Args: cli.Args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.act(cmd, false, func(ctx context.Context, c *central.Central) (any, func(io.Writer) error, error) {
				gameCode := ""
				if len(args) == 1 {
					gameCode = args[0]
				}
				list, err := c.Packs(ctx, gameCode)
				return list, func(w io.Writer) error {
					var rows [][]string
					for _, p := range list {
						rows = append(rows, []string{p.GameCode, fmt.Sprint(p.Number), string(p.State), p.Owner, fmt.Sprint(p.Epoch), when(p.Changed)})
					}
					return table(w, "GAME-CODE PACK STATE OWNER EPOCH CHANGED", rows)
				}, err
			})
		},
	}
	f.flags(cmd)
	return cmd
}
