package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"grattoir/cmd/internal/cli"
	"grattoir/sync/ledger"
	"grattoir/sync/uplink"
	"grattoir/validate"
	"grattoir/validate/money"
)

// till is who does what a shift needs: the ledger of a terminal that is stopped. A
// running terminal is the same acts through its socket.
type till interface {
	OpenShift(ctx context.Context, operator string, float money.Amount, currency string) (validate.Shift, error)
	Shift(ctx context.Context) (*validate.Shift, error)
	X(ctx context.Context, kind validate.ClosingKind) (validate.Closing, error)
	Z(ctx context.Context, kind validate.ClosingKind, end ledger.Ending) (validate.Closing, error)
	History(ctx context.Context, n int) ([]validate.Transaction, error)
	Close() error
}

// tillFlags name the ledger, and who acts.
type tillFlags struct {
	ledger, terminal, operator string
	asJSON                     bool
}

func (f *tillFlags) add(cmd *cobra.Command, acts bool) {
	cmd.Flags().StringVar(&f.ledger, "ledger", "/var/lib/grattoir/ledger.db", "the terminal's ledger, a `file`; terminald must be stopped")
	cmd.Flags().StringVar(&f.terminal, "terminal", "", "the terminal's `name`")
	if acts {
		cmd.Flags().StringVar(&f.operator, "operator", "", "`who` does it")
	}
	jsonFlag(cmd, &f.asJSON)
}

// open opens the ledger with the device's key where the terminal has one: closings are
// signed by it.
func (f *tillFlags) open(cmd *cobra.Command) (*ledger.Ledger, error) {
	if f.terminal == "" {
		return nil, cli.Usagef("--terminal is missing: whose ledger is it?")
	}
	if cmd.Flags().Lookup("operator") != nil && f.operator == "" {
		return nil, cli.Usagef("--operator is missing: who does it?")
	}
	if err := isDatabase(f.ledger); err != nil {
		return nil, err
	}
	var sign func([]byte) ([]byte, error)
	id, err := uplink.LoadIdentity(filepath.Join(filepath.Dir(f.ledger), identityFolder))
	switch {
	case err == nil && id.Terminal == f.terminal:
		sign = id.Sign
	case err == nil:
		return nil, cli.Usagef("--terminal %s: the identity beside the ledger is %s's", f.terminal, id.Terminal)
	case !errors.Is(err, uplink.ErrNoIdentity):
		return nil, fmt.Errorf("closings are signed with the terminal's key: %w", err)
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		boot = nil // a hint, like the time
	}
	moment := func() ledger.Moment {
		return ledger.Moment{Boot: strings.TrimSpace(string(boot)), Device: time.Now()}
	}
	return ledger.Open(cmd.Context(), ledger.Options{Path: f.ledger, Terminal: f.terminal, Moment: moment, Sign: sign, Zone: time.Local})
}

// with opens the till for one act.
func (f *tillFlags) with(cmd *cobra.Command, act func(till) error) (err error) {
	l, err := f.open(cmd)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	return tillError(act(l))
}

// tillError gives a refusal its exit code.
func tillError(err error) error {
	for _, rule := range []error{ledger.ErrNoShift, ledger.ErrShiftOpen, ledger.ErrClosingOrder, ledger.ErrNoClosing} {
		if errors.Is(err, rule) {
			return cli.Exit(cli.Refused, err)
		}
	}
	return err
}

func closingCommand() *cobra.Command {
	return cli.Group("closing", "What a shift, a day, a month or a year comes to", closingXCommand(), closingZCommand())
}

func kindOf(word string) (validate.ClosingKind, error) {
	if kind := validate.ClosingKind(word); slices.Contains(validate.ClosingKinds(), kind) {
		return kind, nil
	}
	return "", cli.Usagef("%.40q: want shift, day, month or year", word)
}

func closingXCommand() *cobra.Command {
	var f tillFlags
	cmd := &cobra.Command{
		Use:     "x shift|day|month|year --terminal NAME",
		Short:   "Say what the open period comes to now, and end nothing",
		Example: `  terminalctl closing x day --terminal T-0001`,
		Args:    cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			kind, err := kindOf(args[0])
			if err != nil {
				return err
			}
			return f.with(cmd, func(t till) error {
				c, err := t.X(cmd.Context(), kind)
				if err != nil {
					return err
				}
				return printClosing(cmd.OutOrStdout(), c, f.asJSON)
			})
		},
	}
	f.add(cmd, false)
	return cmd
}

func closingZCommand() *cobra.Command {
	var f tillFlags
	var period string
	cmd := &cobra.Command{
		Use:   "z shift|day|month|year --terminal NAME --operator WHO",
		Short: "End the open period: its totals become an entry of the journal, signed",
		Long: `End the open period. Its totals are written into the journal and signed with the
terminal's key; they can be added up again from the entries before, by anybody. A day
needs its shift closed first, a month its day, a year its month. --period names it where
the date of this machine's clock is not the right name, as after midnight.`,
		Example: `  terminalctl closing z day --terminal T-0001 --operator marie
  terminalctl closing z year --terminal T-0001 --operator marie --period 2026`,
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			kind, err := kindOf(args[0])
			if err != nil {
				return err
			}
			return f.with(cmd, func(t till) error {
				c, err := t.Z(cmd.Context(), kind, ledger.Ending{Operator: f.operator, Period: period})
				if err != nil {
					return err
				}
				return printClosing(cmd.OutOrStdout(), c, f.asJSON)
			})
		},
	}
	cmd.Flags().StringVar(&period, "period", "", "what it is called: 2026-11-30, 2026-11 or 2026")
	f.add(cmd, true)
	return cmd
}

func shiftCommand() *cobra.Command {
	return cli.Group("shift", "Begin and end a shift at the counter", shiftOpenCommand(), shiftCloseCommand())
}

func shiftOpenCommand() *cobra.Command {
	var f tillFlags
	var float, currency string
	cmd := &cobra.Command{
		Use:     "open --terminal NAME --operator WHO --float AMOUNT",
		Short:   "Begin a shift with the cash that was counted into the till",
		Example: `  terminalctl shift open --terminal T-0001 --operator marie --float 150.00`,
		Args:    cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			amount, err := parseAmount(float, currency)
			if err != nil {
				return err
			}
			return f.with(cmd, func(t till) error {
				s, err := t.OpenShift(cmd.Context(), f.operator, amount, currency)
				if err != nil {
					return err
				}
				if f.asJSON {
					return cli.JSON(cmd.OutOrStdout(), s)
				}
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "shift %d of %s, float %s, ledger number %v\n", s.Number, s.Operator,
					money.Text(s.Float, s.Currency, money.English, money.Receipt), s.Entry)
				return err
			})
		},
	}
	cmd.Flags().StringVar(&float, "float", "", "cash in the till, as an `amount` like 150 or 150.00")
	cmd.Flags().StringVar(&currency, "currency", "EUR", "its currency, three `letters`")
	f.add(cmd, true)
	return cmd
}

func shiftCloseCommand() *cobra.Command {
	var f tillFlags
	cmd := &cobra.Command{
		Use:     "close --terminal NAME --operator WHO",
		Short:   "End the open shift with its Z",
		Example: `  terminalctl shift close --terminal T-0001 --operator marie`,
		Args:    cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.with(cmd, func(t till) error {
				c, err := t.Z(cmd.Context(), validate.ShiftClosing, ledger.Ending{Operator: f.operator})
				if err != nil {
					return err
				}
				return printClosing(cmd.OutOrStdout(), c, f.asJSON)
			})
		},
	}
	f.add(cmd, true)
	return cmd
}

// parseAmount reads an amount that a person typed: 150, 150.00 or 150,00.
func parseAmount(text, currency string) (money.Amount, error) {
	if text == "" {
		return 0, cli.Usagef("--float is missing: count the till first")
	}
	whole, part, cut := strings.Cut(strings.Replace(text, ",", ".", 1), ".")
	digits := money.Exponent(currency)
	if !cut {
		part = strings.Repeat("0", digits)
	}
	n, err := strconv.ParseUint(whole+part, 10, 53)
	if err != nil || whole == "" || len(part) != digits {
		return 0, cli.Usagef("--float %.20q: want an amount like 150 or %s", text, money.Text(15_000, currency, money.English, money.Plain))
	}
	return money.Amount(n), nil
}

// printClosing writes a closing as its slip has it.
func printClosing(out io.Writer, c validate.Closing, asJSON bool) error {
	if asJSON {
		return cli.JSON(out, c)
	}
	const width = 42
	var b strings.Builder
	for _, l := range c.Lines() {
		label, value := l.Label(money.English), l.Value(money.English)
		if !l.Time.IsZero() {
			value = l.Time.Local().Format(withZone)
		}
		switch l.Kind {
		case validate.RuleLine:
			b.WriteString(strings.Repeat("-", width))
		case validate.TitleLine, validate.HeadLine:
			b.WriteString(label)
		default:
			gap := width - utf8.RuneCountInString(label) - utf8.RuneCountInString(value)
			b.WriteString(label + strings.Repeat(" ", max(1, gap)) + value)
		}
		b.WriteByte('\n')
	}
	_, err := io.WriteString(out, b.String())
	return err
}

func historyCommand() *cobra.Command {
	var f tillFlags
	var n int
	cmd := &cobra.Command{
		Use:     "history --terminal NAME",
		Short:   "List the newest payments, reversals, reprints and closings from the journal",
		Example: `  terminalctl history --terminal T-0001 -n 20`,
		Args:    cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if n < 1 || n > 1000 {
				return cli.Usagef("-n %d: want 1 to 1000", n)
			}
			return f.with(cmd, func(t till) error {
				list, err := t.History(cmd.Context(), n)
				if err != nil {
					return err
				}
				return printHistory(cmd.OutOrStdout(), list, f.asJSON)
			})
		},
	}
	cmd.Flags().IntVarP(&n, "n", "n", 10, "how `many`")
	f.add(cmd, false)
	return cmd
}

type actAnswer struct {
	Number string `json:"number"`
	Time   string `json:"time"`
	What   string `json:"what"` // claim, reversal, reprint, closing
	Of     string `json:"of"`   // ledger number of the claim, "" for a closing
	Minor  int64  `json:"amount_minor"`
	Text   string `json:"text"`
}

func printHistory(out io.Writer, list []validate.Transaction, asJSON bool) error {
	answers := make([]actAnswer, 0, len(list))
	for _, x := range list {
		a := actAnswer{Number: x.Entry.String(), Time: x.At.UTC().Format(time.RFC3339), Text: actText(x)}
		switch {
		case x.Claim != nil:
			a.What, a.Of, a.Minor = "claim", x.Entry.String(), int64(x.Claim.Amount)
		case x.Reversal != nil:
			a.What, a.Of, a.Minor = "reversal", x.Reversal.Number.String(), int64(x.Reversal.Amount)
		case x.Reprint != nil:
			a.What, a.Of = "reprint", x.Reprint.Number.String()
		case x.Closing != nil:
			a.What = "closing"
		}
		answers = append(answers, a)
	}
	if asJSON {
		return cli.JSON(out, answers)
	}
	for i, a := range answers {
		if _, err := fmt.Fprintf(out, "%s  %s  %s\n", a.Number, list[i].At.Local().Format(withZone), a.Text); err != nil {
			return err
		}
	}
	return nil
}

// actText says what an act was, in one line.
func actText(x validate.Transaction) string {
	text := func(a money.Amount, currency string) string {
		return money.Text(a, currency, money.English, money.Receipt)
	}
	switch {
	case x.Claim != nil:
		return fmt.Sprintf("paid %s, %s %s-%s", text(x.Claim.Amount, x.Claim.Currency), x.Claim.Slip.Game, x.Claim.Slip.Pack, x.Claim.Slip.Ticket)
	case x.Reversal != nil:
		return fmt.Sprintf("reversal of %v, %s, %s: %s", x.Reversal.Number, text(x.Reversal.Amount, x.Reversal.Currency), x.Reversal.Reason, x.Reversal.State)
	case x.Reprint != nil:
		return fmt.Sprintf("copy %d of %v", x.Reprint.Copy, x.Reprint.Number)
	case x.Closing != nil:
		return fmt.Sprintf("closing of the %s, number %d, %s", x.Closing.Kind, x.Closing.Number, x.Closing.Period)
	}
	return ""
}
