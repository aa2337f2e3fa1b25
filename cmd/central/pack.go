package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"grattoir/cmd/internal/cli"
	"grattoir/sync/central"
	"grattoir/sync/wire"
	"grattoir/validate"
)

func packCommand() *cobra.Command {
	return cli.Group("pack", "Deliver packs, put them on sale, settle them, take them back, stop stolen ones", packListCommand(), packDeliverCommand(), packActivateCommand(), packSettleCommand(), packMoveCommand(), packWriteOffCommand(), packRightsCommand(), packRisksCommand(),
		packTicketsCommand(central.ReturnPack, "Take packs back of which nothing was paid, or unsold tickets of one pack", (*central.Central).Return),
		packTicketsCommand(central.StealPack, "Stop stolen packs, or stolen tickets of one pack: nobody pays them", (*central.Central).ReportStolen),
		packTicketsCommand(central.RecoverPack, "Give stolen packs, or tickets, back the state they had before", (*central.Central).RecoverPacks))
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

func packSettleCommand() *cobra.Command {
	var f folder
	var operator string
	cmd := &cobra.Command{
		Use:   "settle GAME-CODE PACKS --operator NAME",
		Short: "Settle active packs: the shop owes their sale price; their tickets are still paid",
		Example: `  central pack settle 399 120-125 --operator anne
  central pack settle 399 120 --operator anne --json`,
		Args: cli.Args(cobra.ExactArgs(2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if operator == "" {
				return cli.Usagef("--operator is missing: central keeps who settled a pack")
			}
			return f.movePacks(cmd, args, func(ctx context.Context, c *central.Central, first, last uint32) ([]wire.PackItem, error) {
				return c.Settle(ctx, args[0], first, last, operator)
			})
		},
	}
	operatorFlag(cmd, &operator)
	f.flags(cmd)
	return cmd
}

// operatorFlag names who acts, for what central keeps of the act.
func operatorFlag(cmd *cobra.Command, operator *string) {
	cmd.Flags().StringVar(operator, "operator", "", "`name` of who does this, which is kept with it")
}

// packTicketsCommand is an act on packs, or with --tickets on single tickets of one.
func packTicketsCommand(act central.PackAct, short string, whole func(*central.Central, context.Context, string, uint32, uint32) ([]wire.PackItem, error)) *cobra.Command {
	var f folder
	var tickets string
	cmd := &cobra.Command{
		Use:   string(act) + " GAME-CODE PACKS [--tickets A-B]",
		Short: short,
		Long: short + `. Terminals hear of it in their feed and hold
to it with no network. An act that is not legal as the pack stands is refused, with what is.`,
		Example: fmt.Sprintf(`  central pack %[1]s 399 120-125
  central pack %[1]s 399 120 --tickets 40-59 --json`, act),
		Args: cli.Args(cobra.ExactArgs(2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if tickets == "" {
				return f.movePacks(cmd, args, func(ctx context.Context, c *central.Central, first, last uint32) ([]wire.PackItem, error) {
					return whole(c, ctx, args[0], first, last)
				})
			}
			pack, other, err := wire.ParseRange(args[1])
			if err != nil || pack != other {
				return cli.Usagef("%.40q: --tickets wants one pack", args[1])
			}
			first, last, err := wire.ParseRange(tickets)
			if err != nil || last > math.MaxUint16 {
				return cli.Usagef("--tickets %.40q: want a number or a run, like 40-59", tickets)
			}
			return f.act(cmd, false, func(ctx context.Context, c *central.Central) (any, func(io.Writer) error, error) {
				item, err := c.MarkTickets(ctx, args[0], pack, uint16(first), uint16(last), act)
				return item, func(w io.Writer) error {
					_, err := fmt.Fprintf(w, "pack %d of game code %s: stolen tickets: %s; returned tickets: %s\n", item.Pack, item.GameCode, runsText(item.Stolen), runsText(item.Returned))
					return err
				}, err
			})
		},
	}
	cmd.Flags().StringVar(&tickets, "tickets", "", "`run` of tickets of the one pack, like 40-59")
	f.flags(cmd)
	return cmd
}

// runsText writes runs of tickets as people read them.
func runsText(runs []wire.TicketRun) string {
	var list []string
	for _, r := range runs {
		if r.First == r.Last {
			list = append(list, fmt.Sprint(r.First))
		} else {
			list = append(list, fmt.Sprintf("%d-%d", r.First, r.Last))
		}
	}
	return orDash(strings.Join(list, ","))
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
				if _, err := fmt.Fprintf(w, "packs %d-%d of game code %s are %s, owned by %s (owner epoch %d)\n", r.First, r.Last, r.GameCode, r.State, orDash(r.Owner), r.Epoch); err != nil {
					return err
				}
			}
			return nil
		}, err
	})
}

func packListCommand() *cobra.Command {
	var f folder
	var filter central.PackFilter
	cmd := &cobra.Command{
		Use:   "list [GAME-CODE] [--state STATE] [--owner TERMINAL]",
		Short: "List the packs that left the printer's store, their state and owner",
		Example: `  central pack list
  central pack list 399 --state active --owner shop-0042 --json`,
		Args: cli.Args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				filter.GameCode = args[0]
			}
			states := []validate.PackState{validate.PackPrinted, validate.PackDelivered, validate.PackActive, validate.PackSettled, validate.PackReturn, validate.PackStolenNow}
			if filter.State != "" && !slices.Contains(states, filter.State) {
				return cli.Usagef("--state %.20q: want one of %v", filter.State, states)
			}
			return f.act(cmd, false, func(ctx context.Context, c *central.Central) (any, func(io.Writer) error, error) {
				list, err := c.Packs(ctx, filter)
				return list, func(w io.Writer) error {
					var rows [][]string
					for _, p := range list {
						rows = append(rows, []string{p.GameCode, fmt.Sprint(p.Number), string(p.State), orDash(p.Owner), fmt.Sprint(p.Epoch), when(p.Changed),
							runsText(p.Stolen), runsText(p.Returned), orDash(p.SettledBy)})
					}
					return table(w, "GAME-CODE PACK STATE OWNER EPOCH CHANGED STOLEN-TICKETS RETURNED-TICKETS SETTLED-BY", rows)
				}, err
			})
		},
	}
	cmd.Flags().StringVar((*string)(&filter.State), "state", "", "only packs of this `state`")
	cmd.Flags().StringVar(&filter.Owner, "owner", "", "only packs of this `terminal`")
	f.flags(cmd)
	return cmd
}
