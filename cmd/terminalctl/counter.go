package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"grattoir/cmd/internal/cli"
	"grattoir/device/control"
	"grattoir/device/terminal"
	"grattoir/validate"
	"grattoir/validate/money"
)

// The commands of this file are the acts of the counter beside a single payment. They go
// through the daemon's socket; PINs are typed without echo or read from --pin-file.

func identityFlag(cmd *cobra.Command, path *string) {
	cmd.Flags().StringVar(path, "identity", "", "`file` with the winner's identity as JSON, - for standard input: surname, first_names, born (1970-02-03), birth_place, address, document (identity-card, passport, residence-permit or driving-licence), number, issued_by, valid_to")
}

// maxIdentity bounds a file with an identity.
const maxIdentity = 8 << 10

func readIdentity(cmd *cobra.Command, path string) (*validate.Identification, error) {
	if path == "" {
		return nil, nil
	}
	in := cmd.InOrStdin()
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	dec := json.NewDecoder(io.LimitReader(in, maxIdentity))
	dec.DisallowUnknownFields()
	var who validate.Identification
	if err := dec.Decode(&who); err != nil { // its words may quote the document
		return nil, cli.Usagef("--identity %s: want one JSON object of surname, first_names, born, birth_place, address, document, number, issued_by, valid_to, all texts", path)
	}
	return &who, nil
}

// acts are the flags of an act that needs a PIN.
type acts struct {
	socket, manager, pinFile string
	json                     bool
}

func (a *acts) add(cmd *cobra.Command, manager string) {
	if manager != "" {
		cmd.Flags().StringVar(&a.manager, "manager", "", manager)
	}
	cmd.Flags().StringVar(&a.pinFile, "pin-file", "", "read the PIN from this `file`, or - for standard input, in place of asking for it")
	socketFlag(cmd, &a.socket)
	jsonFlag(cmd, &a.json)
}

// managerPIN asks for the PIN of the manager whom --manager names, if it does.
func (a *acts) managerPIN(cmd *cobra.Command) (string, error) {
	if a.manager == "" {
		return "", nil
	}
	return a.pin(cmd, "PIN of "+a.manager)
}

// pin asks for the PIN of somebody.
func (a *acts) pin(cmd *cobra.Command, what string) (string, error) {
	pins := pinSource{cmd: cmd, file: a.pinFile}
	text, err := pins.line(what)
	if err == nil {
		err = pins.end()
	}
	return strings.TrimSpace(text), err
}

// deny gives a refusal its exit code: a rule has refused, and a person is needed.
func deny(err error) error {
	var d *terminal.Denied
	if errors.As(err, &d) {
		return cli.Exit(cli.Refused, fmt.Errorf("%s (%w)", strings.ReplaceAll(d.ClerkEN, "\n", " "), err))
	}
	if errors.Is(err, terminal.ErrManager) {
		return cli.Usagef("%w: add --manager ID", err)
	}
	if errors.Is(err, terminal.ErrBatch) || errors.Is(err, terminal.ErrNoBatch) {
		return cli.Exit(cli.Refused, fmt.Errorf("%w (terminalctl batch)", err))
	}
	return err
}

// said prints what an act without an answer of its own has done.
func said(cmd *cobra.Command, done string, err error) error {
	if err != nil {
		return deny(err)
	}
	_, err = fmt.Fprintln(cmd.OutOrStdout(), done)
	return err
}

func signOnCommand() *cobra.Command {
	var a acts
	var float string
	cmd := &cobra.Command{
		Use:   "sign-on OPERATOR",
		Short: "Begin an operator's shift with the cash counted into the till",
		Example: `  terminalctl sign-on anne --float 150.00
  terminalctl sign-on anne --float 150.00 --pin-file -`,
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			minor, err := parseFloat(float)
			if err != nil {
				return err
			}
			pin, err := a.pin(cmd, "PIN of "+args[0])
			if err != nil {
				return err
			}
			shift, err := newClient(a.socket).SignOn(cmd.Context(), args[0], pin, minor)
			if err != nil {
				return deny(err)
			}
			if a.json {
				return cli.JSON(cmd.OutOrStdout(), shift)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s is signed on: shift %d, float %s\n", shift.Operator, shift.Number, money.Text(shift.Float, shift.Currency, money.English, money.Receipt))
			return err
		},
	}
	cmd.Flags().StringVar(&float, "float", "0.00", "`cash` in the till, as 150.00")
	a.add(cmd, "")
	return cmd
}

// parseFloat reads an amount with two decimals, a point or a comma, as minor units.
func parseFloat(text string) (int64, error) {
	whole, cents, ok := strings.Cut(strings.ReplaceAll(text, ",", "."), ".")
	if !ok {
		cents = "00"
	}
	var n int64
	for _, d := range whole + cents {
		if d < '0' || d > '9' {
			n = -1
			break
		}
		n = n*10 + int64(d-'0')
	}
	if n < 0 || whole == "" || len(whole) > 9 || len(cents) != 2 {
		return 0, cli.Usagef("--float %.20q: want an amount as 150.00", text)
	}
	return n, nil
}

func signOffCommand() *cobra.Command {
	var a acts
	cmd := &cobra.Command{
		Use:   "sign-off",
		Short: "End the shift: its Z is recorded and printed",
		Long: `End the shift of whoever is signed on: its closing (Z) is recorded in the ledger and
printed. With --manager a manager ends the shift of somebody who has left.`,
		Example: `  terminalctl sign-off
  terminalctl sign-off --manager max`,
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			pin, err := a.managerPIN(cmd)
			if err != nil {
				return err
			}
			z, err := newClient(a.socket).SignOff(cmd.Context(), a.manager, pin)
			if err != nil {
				return deny(err)
			}
			return printClosing(cmd.OutOrStdout(), z, a.json)
		},
	}
	a.add(cmd, "`id` of a manager who ends the shift of somebody who has left")
	return cmd
}

func lockCommand() *cobra.Command {
	var socket string
	cmd := &cobra.Command{
		Use:     "lock",
		Short:   "Lock the counter: tickets are checked, nothing is paid",
		Example: `  terminalctl lock`,
		Args:    cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return said(cmd, "the counter is locked", newClient(socket).Lock(cmd.Context()))
		},
	}
	socketFlag(cmd, &socket)
	return cmd
}

func unlockCommand() *cobra.Command {
	var a acts
	cmd := &cobra.Command{
		Use:     "unlock",
		Short:   "Open the counter with the PIN of whoever is signed on",
		Example: `  terminalctl unlock`,
		Args:    cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			pin, err := a.pin(cmd, "PIN")
			if err != nil {
				return err
			}
			return said(cmd, "the counter is open", newClient(a.socket).Unlock(cmd.Context(), pin))
		},
	}
	a.add(cmd, "")
	return cmd
}

func closingCommand() *cobra.Command {
	return cli.Group("closing", "Report a period (x) or end it (z)", closingXCommand(), closingZCommand())
}

// parseKind reads a kind of closing.
func parseKind(text string) (validate.ClosingKind, error) {
	for _, k := range validate.ClosingKinds() {
		if string(k) == text {
			return k, nil
		}
	}
	return "", cli.Usagef("%.20q: want shift, day, month or year", text)
}

func closingXCommand() *cobra.Command {
	var socket string
	var print, asJSON bool
	cmd := &cobra.Command{
		Use:     "x shift|day|month|year",
		Short:   "Report what the open period comes to; nothing changes",
		Example: `  terminalctl closing x day --print`,
		Args:    cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			kind, err := parseKind(args[0])
			if err != nil {
				return err
			}
			x, err := newClient(socket).X(cmd.Context(), kind, print)
			if err != nil {
				return deny(err)
			}
			return printClosing(cmd.OutOrStdout(), x, asJSON)
		},
	}
	cmd.Flags().BoolVar(&print, "print", false, "print its slip too")
	socketFlag(cmd, &socket)
	jsonFlag(cmd, &asJSON)
	return cmd
}

func closingZCommand() *cobra.Command {
	var a acts
	cmd := &cobra.Command{
		Use:   "z day|month|year",
		Short: "End a period: its totals are recorded for ever and printed",
		Long: `End a day, a month or a year: its totals become an entry of the ledger, the journal's end
is signed, the slip is printed. A day needs its shift ended before (sign-off), a month its
day, a year its month.`,
		Example: `  terminalctl closing z day --manager max`,
		Args:    cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			kind, err := parseKind(args[0])
			if err != nil {
				return err
			}
			pin, err := a.managerPIN(cmd)
			if err != nil {
				return err
			}
			z, err := newClient(a.socket).Z(cmd.Context(), kind, a.manager, pin)
			if err != nil {
				return deny(err)
			}
			return printClosing(cmd.OutOrStdout(), z, a.json)
		},
	}
	a.add(cmd, "`id` of the manager who ends it, where operators sign on")
	return cmd
}

// closingWidth is how wide a closing is written here, in columns.
const closingWidth = 48

func printClosing(out io.Writer, c validate.Closing, asJSON bool) error {
	if asJSON {
		return cli.JSON(out, c)
	}
	var b strings.Builder
	for _, l := range c.Lines() {
		label, value := l.Label(money.English), l.Value(money.English)
		switch {
		case l.Kind == validate.RuleLine:
			b.WriteString(strings.Repeat("-", closingWidth) + "\n")
			continue
		case l.Kind == validate.TextLine && l.Text == "" && !l.Time.IsZero():
			value = l.Time.Local().Format(withZone)
		}
		fmt.Fprintln(&b, strings.TrimRight(fmt.Sprintf("%-24s%*s", label, closingWidth-24, value), " "))
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// reasons are the words that --reason knows.
func reasons() string {
	var list []string
	for _, r := range validate.ReversalReasons() {
		list = append(list, string(r))
	}
	return strings.Join(list, ", ")
}

func reverseCommand() *cobra.Command {
	var a acts
	var reason, text string
	cmd := &cobra.Command{
		Use:   "reverse NUMBER --reason REASON --manager M",
		Short: "Ask central to take a payment back; the ticket is free when it accepts",
		Long: `Record that a payment is to be taken back, with a reason and a manager's PIN. The ticket
stays paid until central has accepted it, and can then be paid again only with central's
word. Reasons: paid-by-mistake, wrong-ticket, player-left, other (with --text).`,
		Example: `  terminalctl reverse 1-000017 --reason player-left --manager max
  terminalctl reverse 1-000017 --reason other --text "till was empty" --manager max`,
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if a.manager == "" || reason == "" {
				return cli.Usagef("--reason and --manager are both needed\nTry: %s --help", cmd.CommandPath())
			}
			if !slices.Contains(validate.ReversalReasons(), validate.ReversalReason(reason)) {
				return cli.Usagef("--reason %.40q: want %s", reason, reasons())
			}
			pin, err := a.pin(cmd, "PIN of "+a.manager)
			if err != nil {
				return err
			}
			r, err := newClient(a.socket).Reverse(cmd.Context(), args[0], validate.ReversalReason(reason), text, a.manager, pin)
			if err != nil {
				return deny(err)
			}
			if a.json {
				return cli.JSON(cmd.OutOrStdout(), r)
			}
			until := "until central accepts it"
			if st, err := newClient(a.socket).Status(cmd.Context()); err == nil && st.StandAlone {
				until = "for good: this terminal stands alone, and no central answers"
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "reversal of %s, %s: %s (ledger number %s); the ticket stays paid %s\n", r.Number, money.Text(r.Amount, r.Currency, money.English, money.Receipt), r.State, r.Entry, until)
			return err
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "`why`: paid-by-mistake, wrong-ticket, player-left or other")
	cmd.Flags().StringVar(&text, "text", "", "the reason in `words`, needed for other")
	a.add(cmd, "`id` of the manager who allows it")
	return cmd
}

func trainingCommand() *cobra.Command {
	var a acts
	cmd := &cobra.Command{
		Use:     "training on|off",
		Short:   "Training mode: payments are played, and nothing is recorded or printed",
		Example: `  terminalctl training on --manager max`,
		Args:    cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if args[0] != "on" && args[0] != "off" {
				return cli.Usagef("%.20q: want on or off", args[0])
			}
			pin, err := a.managerPIN(cmd)
			if err != nil {
				return err
			}
			if err := newClient(a.socket).SetTraining(cmd.Context(), args[0] == "on", a.manager, pin); err != nil {
				return deny(err)
			}
			if a.json {
				return cli.JSON(cmd.OutOrStdout(), map[string]bool{"training": args[0] == "on"})
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "training is %s\n", args[0])
			return err
		},
	}
	a.add(cmd, "`id` of a manager or technician, where operators sign on")
	return cmd
}

func historyCommand() *cobra.Command {
	var socket string
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "history",
		Short:   "The newest acts of the counter: payments, reversals, reprints, closings",
		Example: `  terminalctl history`,
		Args:    cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			list, err := newClient(socket).History(cmd.Context())
			if err != nil {
				return err
			}
			if asJSON {
				return cli.JSON(cmd.OutOrStdout(), list)
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "NUMBER\tTIME\tACT\tWHAT")
			for _, t := range list {
				act, what := describe(t)
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", t.Number, t.At.Local().Format(withZone), act, what)
			}
			return w.Flush()
		},
	}
	socketFlag(cmd, &socket)
	jsonFlag(cmd, &asJSON)
	return cmd
}

func describe(t control.Transaction) (act, what string) {
	amount := func(a money.Amount, currency string) string {
		return money.Text(a, currency, money.English, money.Receipt)
	}
	switch {
	case t.Claim != nil:
		return "paid", fmt.Sprintf("%s, %s %s-%s, slip %s", amount(money.Amount(t.Claim.AmountMinor), t.Claim.Currency), t.Claim.Game, t.Claim.Pack, t.Claim.Ticket, slipWord(t.Claim.Print))
	case t.Reversal != nil:
		return "reversal", fmt.Sprintf("of %s, %s, %s, %s", t.Reversal.Number, amount(t.Reversal.Amount, t.Reversal.Currency), t.Reversal.Reason, t.Reversal.State)
	case t.Reprint != nil:
		return "copy", fmt.Sprintf("DUPLICATA %d of %s", t.Reprint.Copy-1, t.Reprint.Number)
	case t.Closing != nil:
		return "closing", fmt.Sprintf("%s %d, %s", t.Closing.Kind, t.Closing.Number, t.Closing.Period)
	}
	return "?", ""
}

func batchCommand() *cobra.Command {
	return cli.Group("batch", "Pay several tickets of one customer together", batchBeginCommand(), batchShowCommand(), batchPayCommand(), batchEndCommand())
}

func batchBeginCommand() *cobra.Command {
	var socket string
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "begin",
		Short:   "Collect the tickets that are scanned from now on, at most 10",
		Example: `  terminalctl batch begin`,
		Args:    cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			b, err := newClient(socket).BeginBatch(cmd.Context())
			if err != nil {
				return deny(err)
			}
			return printBatch(cmd.OutOrStdout(), b, asJSON)
		},
	}
	socketFlag(cmd, &socket)
	jsonFlag(cmd, &asJSON)
	return cmd
}

func batchShowCommand() *cobra.Command {
	var socket string
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "show",
		Short:   "The batch: each ticket's verdict, and the total",
		Example: `  terminalctl batch show --json`,
		Args:    cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			b, err := newClient(socket).Batch(cmd.Context())
			if err != nil {
				return deny(err)
			}
			return printBatch(cmd.OutOrStdout(), b, asJSON)
		},
	}
	socketFlag(cmd, &socket)
	jsonFlag(cmd, &asJSON)
	return cmd
}

func batchPayCommand() *cobra.Command {
	var socket, identity string
	var cash, asJSON bool
	cmd := &cobra.Command{
		Use:   "pay",
		Short: "Pay what can be paid of the batch, each ticket by a claim of its own",
		Example: `  terminalctl batch pay
  terminalctl batch pay --confirm-cash --identity winner.json`,
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			who, err := readIdentity(cmd, identity)
			if err != nil {
				return err
			}
			client := newClient(socket)
			b, err := client.Batch(cmd.Context())
			if err != nil {
				return deny(err)
			}
			b, err = client.PayBatch(cmd.Context(), b.ID, cash, who)
			if errors.Is(err, terminal.ErrNeeds) {
				return cli.Exit(cli.Person, errors.Join(printBatch(cmd.OutOrStdout(), b, asJSON), fmt.Errorf("nothing was paid: %s", needsText(b.Needs))))
			}
			if err != nil {
				return deny(err)
			}
			return printBatch(cmd.OutOrStdout(), b, asJSON)
		},
	}
	cmd.Flags().BoolVar(&cash, "confirm-cash", false, "the till holds enough")
	identityFlag(cmd, &identity)
	socketFlag(cmd, &socket)
	jsonFlag(cmd, &asJSON)
	return cmd
}

func batchEndCommand() *cobra.Command {
	var socket string
	cmd := &cobra.Command{
		Use:     "end",
		Short:   "Give the batch up; what it paid stays paid",
		Example: `  terminalctl batch end`,
		Args:    cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			client := newClient(socket)
			b, err := client.Batch(cmd.Context())
			if err != nil {
				return deny(err)
			}
			return said(cmd, "the batch is ended", client.EndBatch(cmd.Context(), b.ID))
		},
	}
	socketFlag(cmd, &socket)
	return cmd
}

func printBatch(out io.Writer, b control.Batch, asJSON bool) error {
	if asJSON {
		return cli.JSON(out, b)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for n, a := range b.Tickets {
		what := a.Message.Word
		if a.Stage == terminal.Trained {
			what += ", TRAINING: nothing recorded"
		}
		if a.Receipt != nil {
			what = "PAID, ledger number " + a.Receipt.Number
		}
		amount := ""
		if a.Verdict.AmountMinor != nil {
			amount = money.Text(*a.Verdict.AmountMinor, a.Verdict.Currency, money.English, money.Receipt)
		}
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\n", n+1, a.Ticket, amount, what)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	state := "to pay"
	if b.Paid {
		state = "done"
	}
	_, err := fmt.Fprintf(out, "%d tickets, %d prizes %s, %s\n", len(b.Tickets), b.Prizes, state, money.Text(money.Amount(b.TotalMinor), b.Currency, money.English, money.Receipt))
	if err == nil && b.Linked > 0 {
		_, err = fmt.Fprintf(out, "the same person was paid %s before\n", money.Text(money.Amount(b.Linked), b.Currency, money.English, money.Receipt))
	}
	return err
}
