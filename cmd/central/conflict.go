package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"grattoir/cmd/internal/cli"
	"grattoir/sync/central"
	"grattoir/validate"
	"grattoir/validate/money"
)

func conflictCommand() *cobra.Command {
	return cli.Group("conflict", "See entries that were not credited, and settle who bears them", conflictListCommand(), conflictShowCommand(),
		conflictActCommand(central.Inquire, "Say that somebody is at a conflict", ""),
		conflictActCommand(central.SettleConflict, "Decide who bears a conflict, which ends it", `Decide who bears a conflict. A settled one is opened again only by central conflict reopen.`),
		conflictActCommand(central.Reopen, "Open a settled conflict again, with the reason", ""), conflictRecalledCommand(), conflictAttemptsCommand())
}

// entryNumber reads a ledger number as slips and lists show it.
func entryNumber(text string) (n validate.EntryNumber, err error) {
	if _, err := fmt.Sscanf(text, "%d-%d", &n.Epoch, &n.Seq); err != nil || n.Epoch < 1 || n.Seq < 1 {
		return n, cli.Usagef("%.40q: want a ledger number as the list shows it, like 1-000017", text)
	}
	return n, nil
}

func conflictListCommand() *cobra.Command {
	var f folder
	var state, terminal string
	cmd := &cobra.Command{
		Use:   "list [--state open|inquiry|settled] [--terminal NAME]",
		Short: "List the entries that central stored and did not credit",
		Example: `  central conflict list --state open
  central conflict list --terminal shop-0042 --json`,
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			states := []central.ConflictState{"", central.ConflictOpen, central.ConflictInquiry, central.ConflictSettled}
			if !slices.Contains(states, central.ConflictState(state)) {
				return cli.Usagef("--state %.20q: want one of %v", state, states[1:])
			}
			return f.act(cmd, false, func(ctx context.Context, c *central.Central) (any, func(io.Writer) error, error) {
				list, err := c.Conflicts(ctx, central.ConflictState(state), terminal)
				return list, func(w io.Writer) error {
					var rows [][]string
					for _, x := range list {
						rows = append(rows, []string{x.Terminal, x.Number, when(x.Received), string(x.Kind), conflictTicket(x), conflictAmount(x), string(x.State), orDash(x.Liable), printable(x.Text)})
					}
					return table(w, "TERMINAL NUMBER RECEIVED KIND TICKET AMOUNT STATE LIABLE TEXT", rows)
				}, err
			})
		},
	}
	cmd.Flags().StringVar(&state, "state", "", "only conflicts of this `state`")
	cmd.Flags().StringVar(&terminal, "terminal", "", "only conflicts of this `terminal`")
	f.flags(cmd)
	return cmd
}

func conflictTicket(x central.Conflict) string {
	switch {
	case x.Pack == nil:
		return "-"
	case x.Ticket == nil:
		return fmt.Sprintf("pack %d", *x.Pack)
	}
	return fmt.Sprintf("%d-%03d", *x.Pack, *x.Ticket)
}

func conflictAmount(x central.Conflict) string {
	if x.Minor == nil {
		return "-"
	}
	return printable(money.Text(money.Amount(*x.Minor), x.Currency, money.English, money.Receipt))
}

func conflictShowCommand() *cobra.Command {
	var f folder
	cmd := &cobra.Command{
		Use:   "show TERMINAL NUMBER",
		Short: "Show a conflict, what was done with it, and the proofs of both sides",
		Long: `Show a conflict, what operators did with it, and how each entry that claims the ticket is
proven. With --json the proofs themselves: each entry's bytes with its opening, the lines
from it to the head that the device signed, that signature and its key, and central's
acknowledgement.`,
		Example: `  central conflict show shop-0042 1-000017
  central conflict show shop-0042 1-000017 --json > conflict.json`,
		Args: cli.Args(cobra.ExactArgs(2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			n, err := entryNumber(args[1])
			if err != nil {
				return err
			}
			return f.act(cmd, false, func(ctx context.Context, c *central.Central) (any, func(io.Writer) error, error) {
				file, err := c.ConflictFile(ctx, args[0], n)
				return file, func(w io.Writer) error { return printConflict(w, file) }, err
			})
		},
	}
	f.flags(cmd)
	return cmd
}

func printConflict(w io.Writer, f central.ConflictFile) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s: %s, %s\n", f.Terminal, f.Number, f.Kind, printable(f.Text))
	fmt.Fprintf(&b, "received %s, ticket %s, amount %s\n", when(f.Received), conflictTicket(f.Conflict), conflictAmount(f.Conflict))
	fmt.Fprintf(&b, "state    %s, borne by %s\n", f.State, orDash(f.Liable))
	for _, s := range f.Steps {
		fmt.Fprintf(&b, "%s  %s: %s %s: %s\n", when(s.At), s.Operator, s.State, orDash(s.Liable), printable(s.Note))
	}
	for _, e := range f.Evidence {
		credited := "not credited"
		if e.Credited {
			credited = "credited"
		}
		signed := "no signature is kept"
		if e.Signature != "" {
			signed = "the device's signature is kept"
		}
		fmt.Fprintf(&b, "entry %s of %s, %s: received %s, SHA-256 %s; %s\n", e.Number, e.Terminal, credited, e.Received, e.Hash, signed)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func conflictActCommand(act central.ConflictAct, short, long string) *cobra.Command {
	var f folder
	var liable, note, operator string
	use, example := string(act)+" TERMINAL NUMBER --note TEXT --operator NAME", ""
	if act == central.SettleConflict {
		use += " --liable WHO"
		example = " --liable shop"
	}
	cmd := &cobra.Command{
		Use:     use,
		Short:   short,
		Long:    long,
		Example: fmt.Sprintf(`  central conflict %s shop-0042 1-000017 --note "slips compared" --operator anne%s`, act, example),
		Args:    cli.Args(cobra.ExactArgs(2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			n, err := entryNumber(args[1])
			switch {
			case err != nil:
				return err
			case operator == "" || note == "":
				return cli.Usagef("--operator and --note are needed: who did it and why is kept for ever")
			case act == central.SettleConflict && !slices.Contains(central.Liable(), liable):
				return cli.Usagef("--liable %.20q: want one of %s", liable, strings.Join(central.Liable(), ", "))
			}
			return f.act(cmd, false, func(ctx context.Context, c *central.Central) (any, func(io.Writer) error, error) {
				x, err := c.ActOnConflict(ctx, args[0], n, act, liable, note, operator)
				return x, func(w io.Writer) error {
					_, err := fmt.Fprintf(w, "%s %s: %s, borne by %s\n", x.Terminal, x.Number, x.State, orDash(x.Liable))
					return err
				}, err
			})
		},
	}
	if act == central.SettleConflict {
		cmd.Flags().StringVar(&liable, "liable", "", "`who` bears it: "+strings.Join(central.Liable(), ", "))
	}
	cmd.Flags().StringVar(&note, "note", "", "why, in `words` that are kept")
	operatorFlag(cmd, &operator)
	f.flags(cmd)
	return cmd
}

func conflictRecalledCommand() *cobra.Command {
	var f folder
	cmd := &cobra.Command{
		Use:   "recalled",
		Short: "List payments that were credited although their tickets are reported",
		Long: `List payments of tickets that are reported stolen, or went back, and were credited all the same: the
terminal had not heard of the report when it paid, or its program does not say. What a terminal paid after it had
heard is a conflict, with that reason.`,
		Example: `  central conflict recalled
  central conflict recalled --json`,
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.act(cmd, false, func(ctx context.Context, c *central.Central) (any, func(io.Writer) error, error) {
				list, err := c.Recalled(ctx)
				return list, func(w io.Writer) error {
					var rows [][]string
					for _, x := range list {
						rows = append(rows, []string{x.Terminal, x.Number, x.GameCode, fmt.Sprintf("%d-%03d", x.Pack, x.Ticket), printable(money.Text(money.Amount(x.Minor), x.Currency, money.English, money.Receipt)), x.Words()})
					}
					return table(w, "TERMINAL NUMBER GAME TICKET AMOUNT WHAT-IT-KNEW", rows)
				}, err
			})
		},
	}
	f.flags(cmd)
	return cmd
}

func conflictAttemptsCommand() *cobra.Command {
	var f folder
	var terminal string
	cmd := &cobra.Command{
		Use:   "attempts [--terminal NAME]",
		Short: "List stolen tickets that were presented, tickets whose secrets somebody tried, and misprints",
		Long: `List tickets that terminals did not pay and told central of: reported stolen, with too many wrong secrets,
or misprinted and refunded or exchanged at the counter.
A terminal tells of a ticket once for each reason.`,
		Example: `  central conflict attempts
  central conflict attempts --terminal shop-0042 --json`,
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.act(cmd, false, func(ctx context.Context, c *central.Central) (any, func(io.Writer) error, error) {
				list, err := c.Attempts(ctx, terminal)
				return list, func(w io.Writer) error {
					var rows [][]string
					for _, x := range list {
						rows = append(rows, []string{x.Terminal, x.Number, printable(string(x.Reason)), orDash(x.GameCode), fmt.Sprintf("%d-%03d", x.Pack, x.Ticket), fmt.Sprint(x.Failed), orDash(printable(x.Operator)), printable(x.Entered), printable(x.Tried), x.Received})
					}
					return table(w, "TERMINAL NUMBER REASON GAME TICKET FAILED OPERATOR ENTERED TRIED RECEIVED", rows)
				}, err
			})
		},
	}
	cmd.Flags().StringVar(&terminal, "terminal", "", "only attempts at this `terminal`")
	f.flags(cmd)
	return cmd
}
