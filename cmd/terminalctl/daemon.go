package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"grattoir/cmd/internal/cli"
	"grattoir/device/control"
	"grattoir/device/terminal"
	"grattoir/validate"
	"grattoir/validate/money"
)

// withZone is how times are written here: never without saying whose.
const withZone = time.DateTime + " MST"

func newClient(socket string) *control.Client { return control.NewClient(socket) }

func scanCommand() *cobra.Command {
	var socket, digits string
	var typed, asJSON bool
	cmd := &cobra.Command{
		Use:   "scan CODE|-",
		Short: "Show a code to the running terminal, as if it had been scanned",
		Long: `Show a code to the running terminal, as if it had been scanned. A code in two parts is
completed with --digits, or afterwards with terminalctl digits.`,
		Example: `  terminalctl scan 1003990000123017...
  terminalctl scan - < code.txt
  terminalctl scan 0399000123017 --digits 04711`,
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			code, err := readCode(cmd.InOrStdin(), args[0])
			if err != nil {
				return err
			}
			client := newClient(socket)
			a, err := client.Check(cmd.Context(), code, typed)
			if err == nil && a.Stage == terminal.Typing && digits != "" {
				a, err = client.Complete(cmd.Context(), a.ID, digits)
			}
			if err != nil {
				return err
			}
			if err := printAnswer(cmd.OutOrStdout(), a, asJSON); err != nil || a.Stage == terminal.OnPack {
				return err
			}
			return cli.Exit(cli.VerdictCode(a.Verdict), nil)
		},
	}
	cmd.Flags().BoolVar(&typed, "typed", false, "note that a person typed the code")
	cmd.Flags().StringVar(&digits, "digits", "", "the hidden `digits` of a code in two parts")
	socketFlag(cmd, &socket)
	jsonFlag(cmd, &asJSON)
	return cmd
}

func digitsCommand() *cobra.Command {
	var socket string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "digits DIGITS|-",
		Short: "Type the hidden digits of the code that the terminal shows",
		Example: `  terminalctl digits 04711
  terminalctl digits - < digits.txt`,
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			digits, err := readCode(cmd.InOrStdin(), args[0])
			if err != nil {
				return err
			}
			client := newClient(socket)
			before, err := client.View(cmd.Context())
			if err != nil {
				return err
			}
			if before.Stage != terminal.Typing {
				return cli.Exit(cli.Person, errors.New("the counter waits for no digits: scan the ticket's barcode first"))
			}
			a, err := client.Complete(cmd.Context(), before.ID, digits)
			if errors.Is(err, terminal.ErrStale) {
				return cli.Exit(cli.Person, errors.Join(printAnswer(cmd.OutOrStdout(), a, asJSON), errors.New("another ticket is on the counter now: the digits were not used")))
			}
			if err != nil {
				return err
			}
			if err := printAnswer(cmd.OutOrStdout(), a, asJSON); err != nil {
				return err
			}
			return cli.Exit(cli.VerdictCode(a.Verdict), nil)
		},
	}
	socketFlag(cmd, &socket)
	jsonFlag(cmd, &asJSON)
	return cmd
}

func payCommand() *cobra.Command {
	var socket, id, identity string
	var cash, asJSON bool
	cmd := &cobra.Command{
		Use:   "pay",
		Short: "Pay the ticket that the terminal shows",
		Long: `Pay the ticket on the counter: the claim is durable when this returns with status 0.
--id pays only the ticket of that check, so that a ticket scanned in between is not
paid by accident.`,
		Example: `  terminalctl pay
  terminalctl pay --id 5d41402abc4b2a76b9719d911017c592 --confirm-cash
  terminalctl pay --confirm-cash --identity winner.json`,
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			who, err := readIdentity(cmd, identity)
			if err != nil {
				return err
			}
			client := newClient(socket)
			before, err := client.View(cmd.Context())
			if err != nil {
				return err
			}
			if id == "" {
				if before.Stage == terminal.Idle || before.Stage == terminal.OnPack {
					return cli.Exit(cli.Person, errors.New("there is no ticket on the counter: scan one first"))
				}
				id = before.ID
			}
			a, err := client.PayIdentified(cmd.Context(), id, cash, who)
			switch {
			case errors.Is(err, terminal.ErrStale):
				return cli.Exit(cli.Person, errors.Join(printAnswer(cmd.OutOrStdout(), a, asJSON), errors.New("another ticket is on the counter now: this request has paid nothing")))
			case errors.Is(err, terminal.ErrNeeds):
				return cli.Exit(cli.Person, errors.Join(printAnswer(cmd.OutOrStdout(), a, asJSON),
					fmt.Errorf("nothing was paid: %s", needsText(a.Verdict.Needs))))
			case err != nil:
				return deny(err)
			}
			if err := printAnswer(cmd.OutOrStdout(), a, asJSON); err != nil {
				return err
			}
			if before.Stage == terminal.Paid && before.ID == a.ID {
				fmt.Fprintln(cmd.ErrOrStderr(), "terminalctl: this check was paid before: nothing new was paid")
			}
			return cli.Exit(cli.VerdictCode(a.Verdict), nil)
		},
	}
	cmd.Flags().StringVar(&id, "id", "", "pay only the check of this `id`")
	cmd.Flags().BoolVar(&cash, "confirm-cash", false, "the till holds enough")
	identityFlag(cmd, &identity)
	socketFlag(cmd, &socket)
	jsonFlag(cmd, &asJSON)
	return cmd
}

func askCommand() *cobra.Command {
	var socket, id string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "ask",
		Short: "Ask central to allow the payment of the ticket that the terminal shows",
		Long: `Ask central about the ticket on the counter: one of another terminal's pack, one that was
paid and taken back, or one beyond what this terminal pays without central. It waits for
the answer, which comes within seconds; with no network the question stays, and is asked
again when the network is back. Status 0 says that terminalctl pay can follow.`,
		Example: `  terminalctl ask
  terminalctl ask --id 5d41402abc4b2a76b9719d911017c592 && terminalctl pay`,
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			client := newClient(socket)
			if id == "" {
				before, err := client.View(cmd.Context())
				if err != nil {
					return err
				}
				if before.Stage == terminal.Idle {
					return cli.Exit(cli.Person, errors.New("there is no ticket on the counter: scan one first"))
				}
				id = before.ID
			}
			a, err := client.Ask(cmd.Context(), id)
			if err == nil && a.Verdict.Reason == validate.WaitingForCentral {
				a, err = client.Answered(cmd.Context(), a)
			}
			switch {
			case errors.Is(err, terminal.ErrStale):
				return cli.Exit(cli.Person, errors.Join(printAnswer(cmd.OutOrStdout(), a, asJSON), errors.New("another ticket is on the counter now: nothing was asked")))
			case err != nil:
				return deny(err)
			}
			if err := printAnswer(cmd.OutOrStdout(), a, asJSON); err != nil {
				return err
			}
			return cli.Exit(cli.VerdictCode(a.Verdict), nil)
		},
	}
	cmd.Flags().StringVar(&id, "id", "", "ask about the check of this `id` only")
	socketFlag(cmd, &socket)
	jsonFlag(cmd, &asJSON)
	return cmd
}

// needsText says what the clerk does before this payment.
func needsText(needs []validate.Need) string {
	if slices.Contains(needs, validate.Identity) {
		return "the winner must be identified: see his document and pay with --identity; a terminal that keeps no identities sends the player to the payment centre"
	}
	return "count the till; when it holds enough, pay again with --confirm-cash"
}

func reprintCommand() *cobra.Command {
	var socket string
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "reprint NUMBER",
		Short:   "Print another copy of a slip, marked DUPLICATA, or of a closing",
		Example: `  terminalctl reprint 1-000017`,
		Args:    cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := control.ParseNumber(args[0]); err != nil {
				return cli.Exit(cli.Usage, err)
			}
			client := newClient(socket)
			r, err := client.Reprint(cmd.Context(), args[0])
			if err != nil {
				if z, none := client.ReprintClosing(cmd.Context(), args[0]); none == nil {
					return saidClosing(cmd.OutOrStdout(), z, asJSON)
				}
				return deny(fmt.Errorf("%s: %w", args[0], err))
			}
			if asJSON {
				return cli.JSON(cmd.OutOrStdout(), r)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: another copy is being printed, marked DUPLICATA %d\n", r.Number, r.Copies-1)
			return err
		},
	}
	socketFlag(cmd, &socket)
	jsonFlag(cmd, &asJSON)
	return cmd
}

func saidClosing(out io.Writer, z validate.Closing, asJSON bool) error {
	if asJSON {
		return cli.JSON(out, z)
	}
	_, err := fmt.Fprintf(out, "%s: the closing of the %s, number %d, is being printed again\n", z.Entry, z.Kind, z.Number)
	return err
}

func lastCommand() *cobra.Command {
	var socket string
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "last",
		Short:   "List the newest payments",
		Example: `  terminalctl last --json`,
		Args:    cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			list, err := newClient(socket).Last(cmd.Context())
			if err != nil {
				return err
			}
			if asJSON {
				return cli.JSON(cmd.OutOrStdout(), list)
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "NUMBER\tTIME\tGAME\tTICKET\tAMOUNT\tSLIP\tCOPIES")
			for _, r := range list {
				fmt.Fprintf(w, "%s\t%s\t%s\t%s-%s\t%s\t%s\t%d\n", r.Number, r.At.Local().Format(withZone), r.Game, r.Pack, r.Ticket,
					money.Text(money.Amount(r.AmountMinor), r.Currency, money.English, money.Receipt), slipWord(r.Print), r.Copies)
			}
			return w.Flush()
		},
	}
	socketFlag(cmd, &socket)
	jsonFlag(cmd, &asJSON)
	return cmd
}

// ailing says that a person is needed at the terminal.
func ailing(s control.Status) bool {
	for _, f := range []*control.Fault{s.Scanner, s.Printer, s.Paper, s.Ledger, s.Clock, s.Register} {
		if f != nil {
			return true
		}
	}
	return len(s.Board) > 0 || s.Limits.Source == "none" || len(s.Limits.Unusable) > 0 || len(s.Damaged) > 0
}

func statusCommand() *cobra.Command {
	var socket string
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "status",
		Short:   "Say how the terminal is: devices, unsent payments, blocks",
		Example: `  terminalctl status`,
		Args:    cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			st, err := newClient(socket).Status(cmd.Context())
			if err != nil {
				return err
			}
			if asJSON {
				err = cli.JSON(cmd.OutOrStdout(), st)
			} else {
				err = printStatus(cmd.OutOrStdout(), st)
			}
			if err == nil && ailing(st) {
				return cli.Exit(cli.Person, nil)
			}
			return err
		},
	}
	socketFlag(cmd, &socket)
	jsonFlag(cmd, &asJSON)
	return cmd
}

// slipWord says how far a slip is.
func slipWord(s validate.PrintState) string {
	switch s {
	case validate.Sending:
		return "printing"
	case validate.Held:
		return "waiting for the printer"
	case validate.Sent:
		return "sent"
	case validate.Consumed, validate.Printed:
		return "printed"
	}
	return "perhaps printed"
}

func printStatus(out io.Writer, st control.Status) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	device := func(f *control.Fault) string {
		if f == nil {
			return "ready"
		}
		return cli.Line(f.Code + " " + f.Clerk + " (" + f.Technician + ")")
	}
	ledger := "writable"
	if st.Ledger != nil {
		ledger = device(st.Ledger)
	}
	fmt.Fprintf(w, "Terminal\t%s, %s (%s)\n", st.Terminal, st.Shop, st.Program)
	fmt.Fprintf(w, "Page\t%s\n", st.Page)
	printCounter(w, st)
	fmt.Fprintf(w, "Scanner\t%s\n", device(st.Scanner))
	fmt.Fprintf(w, "Printer\t%s\n", device(cmp.Or(st.Printer, st.Paper)))
	for i := range st.Board {
		fmt.Fprintf(w, "Pins\t%s\n", device(&st.Board[i]))
	}
	fmt.Fprintf(w, "Ledger\t%s, head %s\n", ledger, st.Head)
	unsent := fmt.Sprintf("%d payments, %s", st.Unsent.Claims, money.Text(money.Amount(st.Unsent.MoneyMinor), "EUR", money.English, money.Receipt))
	if !st.Unsent.Oldest.IsZero() {
		unsent += ", entries since " + st.Unsent.Oldest.Local().Format(withZone)
	}
	if st.StandAlone {
		unsent += " (this terminal stands alone: nothing is sent)"
	}
	fmt.Fprintf(w, "Unsent\t%s\n", unsent)
	if len(st.Reprint) > 0 {
		fmt.Fprintf(w, "Slips\tperhaps not printed: %s; terminalctl reprint NUMBER\n", strings.Join(st.Reprint, ", "))
	}
	if l := st.Link; l != nil {
		contact := "no answer since the start"
		if !l.Contact.IsZero() {
			contact = "last answer " + l.Contact.Local().Format(withZone)
		}
		fmt.Fprintf(w, "Central\t%s; acknowledged up to %s, snapshot %d, feed %d\n", contact, l.Acked, l.Snapshot, l.Feed)
		for _, f := range l.Faults {
			fmt.Fprintf(w, "\t%s\n", cli.Line(f.Code+" "+f.Clerk+": "+f.Technician))
		}
		if l.Exceptions > 0 {
			fmt.Fprintf(w, "\t%d payments were not credited: call central operations\n", l.Exceptions)
		}
		for _, x := range l.NotCredited {
			if x.Settled == "" {
				fmt.Fprintf(w, "\t%s %s: %s\n", x.Number, x.Kind, cli.Line(x.Text))
			}
		}
		for _, s := range l.Suspended {
			fmt.Fprintf(w, "\tSUSPENDED by central, nothing of it is paid: %s: %s\n", suspendedWhat(s), cli.Line(s.Reason))
		}
		printQuota(w, l)
	}
	printLimits(w, st)
	if st.Register != nil {
		fmt.Fprintf(w, "Register\t%s\n", device(st.Register))
	}
	if st.Clock != nil {
		fmt.Fprintf(w, "Clock\t%s\n", device(st.Clock))
	} else if st.Trusted.IsZero() {
		fmt.Fprintf(w, "Clock\t%s, not verified\n", st.Now.Local().Format(withZone))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return printBlocks(out, st)
}

// printCounter says who may pay, and that nothing is recorded while people are trained.
func printCounter(w io.Writer, st control.Status) {
	switch x := st.Session; {
	case !st.SignOn:
	case x == nil:
		fmt.Fprintln(w, "Operator\tnobody is signed on, nothing is paid: terminalctl sign-on OPERATOR")
	case x.Locked:
		fmt.Fprintf(w, "Operator\t%s, counter LOCKED: terminalctl unlock\n", x.Operator)
	default:
		fmt.Fprintf(w, "Operator\t%s, since %s\n", x.Operator, x.Since.Local().Format(withZone))
	}
	if st.Training {
		fmt.Fprintln(w, "Training\tON: payments are played, nothing is recorded")
	}
}

// printQuota says what the blocks take and which are not here, one line for each that
// this terminal has packs of.
func printQuota(w io.Writer, l *control.Link) {
	region := ""
	if l.Region != "" {
		region = ", region " + l.Region
	}
	fmt.Fprintf(w, "Blocks\t%d MB of %d MB%s\n", l.TakenBytes>>20, l.QuotaBytes>>20, region)
	others := map[string]int{}
	for _, m := range l.Missing {
		if m.Own {
			fmt.Fprintf(w, "\tNOT HERE, though packs of it are: game code %s, packs %d-%d: %s\n", m.GameCode, m.FirstPack, m.LastPack, whyMissing(m.Why))
		} else {
			others[m.Why]++
		}
	}
	for _, why := range slices.Sorted(maps.Keys(others)) {
		fmt.Fprintf(w, "\tnot here: %d blocks of other packs: %s\n", others[why], whyMissing(why))
	}
}

// suspendedWhat names what is suspended.
func suspendedWhat(s control.Suspension) string {
	switch {
	case s.Game == "":
		return "this terminal"
	case s.Block != 0:
		return fmt.Sprintf("game %s, emission %s, block %d", s.Game, s.Emission, s.Block)
	case s.Emission != "":
		return fmt.Sprintf("game %s, emission %s", s.Game, s.Emission)
	}
	return "game " + s.Game
}

func whyMissing(why string) string {
	switch why {
	case "coming":
		return "on the way"
	case "quota":
		return "no room in quota_mb"
	case "disk":
		return "no room on the disk: free some space"
	case "program":
		return "it needs a newer program: update"
	}
	return why
}

func printBlocks(out io.Writer, st control.Status) error {
	if len(st.Blocks) == 0 {
		fmt.Fprintln(out, "No block lies here: every ticket is an unknown game. Bring one with terminalctl manifest import.")
		if len(st.Damaged) == 0 {
			return nil
		}
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "GAME\tCODE\tEMISSION\tBLOCK\tTICKETS\tSTATE")
	for _, b := range st.Blocks {
		state := "ready"
		if b.Scaled {
			state = "demonstration"
		}
		if b.Locked {
			state = "LOCKED: its pepper is not here"
		}
		if b.Damaged {
			state = "DAMAGED: fetch it again"
		}
		if b.Overlaps != "" {
			state = cli.Line(fmt.Sprintf("%s OVERLAPS %s: take the wrong file away", b.File, b.Overlaps))
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%s\n", b.Game, b.GameCode, b.Emission, b.Number, b.Tickets, state)
	}
	for _, name := range st.Damaged {
		fmt.Fprintf(w, "?\t\t\t\t\tNOT USABLE: %s\n", cli.Line(name))
	}
	return w.Flush()
}

func printAnswer(out io.Writer, a control.Answer, asJSON bool) error {
	if asJSON {
		return cli.JSON(out, a)
	}
	if a.Stage == terminal.Idle {
		_, err := fmt.Fprintln(out, "no ticket on the counter")
		return err
	}
	if a.Pack != nil {
		return printPack(out, *a.Pack, false)
	}
	var b strings.Builder
	b.WriteString(a.Message.Word)
	if a.Verdict.AmountMinor != nil && *a.Verdict.AmountMinor > 0 {
		fmt.Fprintf(&b, "  %s", money.Text(*a.Verdict.AmountMinor, a.Verdict.Currency, money.English, money.Receipt))
	}
	if a.Stage == terminal.Typing {
		fmt.Fprintf(&b, "  (%d digits)\n", a.Digits)
	} else {
		fmt.Fprintf(&b, "  (%s, %s, %s)\n", a.Verdict.Outcome, a.Verdict.Reason, a.Message.Code)
	}
	if a.Ticket != "" {
		fmt.Fprintf(&b, "Ticket %s\n", a.Ticket)
	}
	if p := a.Verdict.Paid; p != nil {
		fmt.Fprintf(&b, "Paid before: %s, terminal %s, ledger number %s\n", p.At.Local().Format(withZone), p.Terminal, p.Number)
	}
	switch {
	case a.Stage == terminal.Trained:
		b.WriteString("TRAINING: nothing was recorded, hand out no money\n")
	case a.Receipt != nil:
		fmt.Fprintf(&b, "PAID, ledger number %s, slip %s\n", a.Receipt.Number, slipWord(a.Receipt.Print))
	default:
		fmt.Fprintf(&b, "%s %s\n", strings.ReplaceAll(a.Message.Clerk, "\n", " "), strings.ReplaceAll(a.Message.Next, "\n", " "))
	}
	if a.Detail != "" {
		fmt.Fprintf(&b, "Detail: %s\n", a.Detail)
	}
	_, err := io.WriteString(out, b.String())
	return err
}
