package main

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"grattoir/cmd/internal/cli"
	"grattoir/device/control"
	"grattoir/validate"
	"grattoir/validate/ticket"
)

func packCommand() *cobra.Command {
	return cli.Group("pack", "See this terminal's packs, put them on sale, give them up over night", packListCommand(), packStatusCommand(), packActivateCommand(), packReleaseCommand(), packTakeCommand())
}

// namedPack reads a public code, or a game code and a pack. The code of a ticket's prize
// is refused without repeating it.
func namedPack(in io.Reader, args []string) (gameCode string, pack uint32, err error) {
	if len(args) == 1 {
		code, err := readCode(in, args[0])
		if err != nil {
			return "", 0, err
		}
		c, err := ticket.Parse(code, 0, []ticket.Layout{ticket.G18()})
		if err != nil {
			return "", 0, cli.Usagef("no public code of a pack, which is on the back and begins with 2: %w", err)
		}
		return c.Game, c.Pack, nil
	}
	if gameCode, err = ticket.PadGame(ticket.G18(), args[0]); err != nil {
		return "", 0, cli.Usagef("%w", err)
	}
	n, err := strconv.ParseUint(args[1], 10, 32)
	if err != nil {
		return "", 0, cli.Usagef("pack %.20q: want its number", args[1])
	}
	return gameCode, uint32(n), nil
}

func packListCommand() *cobra.Command {
	var socket string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the packs that central has delivered to this terminal",
		Example: `  terminalctl pack list
  terminalctl pack list --json`,
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			list, err := newClient(socket).Packs(cmd.Context())
			if err != nil {
				return deny(err)
			}
			if asJSON {
				return cli.JSON(cmd.OutOrStdout(), list)
			}
			t := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(t, "GAME-CODE\tPACKS\tSTATE")
			for _, r := range list {
				packs := fmt.Sprint(r.First)
				if r.Last > r.First {
					packs += fmt.Sprintf("-%d", r.Last)
				}
				fmt.Fprintf(t, "%s\t%s\t%s\n", r.GameCode, packs, r.State)
			}
			return t.Flush()
		},
	}
	socketFlag(cmd, &socket)
	jsonFlag(cmd, &asJSON)
	return cmd
}

func packStatusCommand() *cobra.Command {
	var socket string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status CODE|- | GAME-CODE PACK",
		Short: "Say how a pack stands, by the public code on its back or by its number",
		Example: `  terminalctl pack status 200399000012301714
  terminalctl pack status 399 123 --json`,
		Args: cli.Args(cobra.RangeArgs(1, 2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			game, pack, err := namedPack(cmd.InOrStdin(), args)
			if err != nil {
				return err
			}
			p, err := newClient(socket).Pack(cmd.Context(), game, pack)
			if err != nil {
				return deny(err)
			}
			return printPack(cmd.OutOrStdout(), p, asJSON)
		},
	}
	socketFlag(cmd, &socket)
	jsonFlag(cmd, &asJSON)
	return cmd
}

func packActivateCommand() *cobra.Command {
	var socket string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "activate CODE|- | GAME-CODE PACK",
		Short: "Put a delivered pack of this terminal on sale: its tickets are paid from now on",
		Long: `Put a delivered pack of this terminal on sale. It takes effect at once, with no network,
and is an entry of the journal; central decides when it arrives there. A pack that is
on sale already stays so.`,
		Example: `  terminalctl pack activate 200399000012301714
  terminalctl pack activate 399 123`,
		Args: cli.Args(cobra.RangeArgs(1, 2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			game, pack, err := namedPack(cmd.InOrStdin(), args)
			if err != nil {
				return err
			}
			p, err := newClient(socket).Activate(cmd.Context(), game, pack)
			if err != nil {
				return deny(err)
			}
			if err := printPack(cmd.OutOrStdout(), p, asJSON); err != nil {
				return err
			}
			if p.State != validate.PackActive || !p.Own {
				return cli.Exit(cli.Refused, errors.New("the pack was not put on sale: only delivered packs of this terminal can be"))
			}
			return nil
		},
	}
	socketFlag(cmd, &socket)
	jsonFlag(cmd, &asJSON)
	return cmd
}

func printPack(out io.Writer, p control.Pack, asJSON bool) error {
	if asJSON {
		return cli.JSON(out, p)
	}
	_, err := fmt.Fprintf(out, "%s  (%s)\nPack %d of game code %s\n%s %s\n", p.Message.Word, p.Message.Code, p.Number, p.GameCode,
		strings.ReplaceAll(p.Message.Clerk, "\n", " "), strings.ReplaceAll(p.Message.Next, "\n", " "))
	return err
}
