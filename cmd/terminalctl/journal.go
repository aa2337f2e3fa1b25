package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"grattoir/cmd/internal/cli"
	"grattoir/device/control"
	"grattoir/sync/ledger"
	"grattoir/sync/uplink"
	"grattoir/validate"
	"grattoir/validate/money"
)

func journalCommand() *cobra.Command {
	return cli.Group("journal", "Prove a terminal's journal, write it as a text, take it over on a new card", journalVerifyCommand(), journalExportCommand(), journalImportCommand())
}

// openJournal opens the ledger of a terminal that is not running. An existing file is
// wanted: looking must not make an empty one.
func openJournal(cmd *cobra.Command, path, terminal string) (*ledger.Ledger, error) {
	if terminal == "" {
		return nil, cli.Usagef("--terminal is missing: whose ledger is it?")
	}
	if _, err := os.Stat(path); err != nil {
		return nil, err
	}
	return ledger.Open(cmd.Context(), ledgerOptions(path, terminal))
}

func ledgerOptions(path, terminal string) ledger.Options {
	return ledger.Options{Path: path, Terminal: terminal, Moment: func() ledger.Moment { return ledger.Moment{Device: time.Now()} }}
}

// inspectJournal opens a ledger to look at it, running or not. A name, where one is
// given, must be its terminal's.
func inspectJournal(ctx context.Context, path, terminal string) (*ledger.Inspection, error) {
	i, err := ledger.Inspect(ctx, path)
	if err != nil {
		return nil, err
	}
	if terminal != "" && terminal != i.Terminal() {
		return nil, errors.Join(fmt.Errorf("%s is the ledger of terminal %.64q, not of %q", path, i.Terminal(), terminal), i.Close())
	}
	return i, nil
}

// Where the keys of a proof came from.
const (
	keysGiven  = "given"
	keysBeside = "beside" // from the identity on the ledger's own disk
	keysNone   = "none"
)

type journalAnswer struct {
	OK       bool          `json:"ok"`
	Terminal string        `json:"terminal"`
	Entries  int64         `json:"entries"`
	Claims   int64         `json:"claims"`
	Closings int64         `json:"closings"`
	Minor    int64         `json:"money_minor"`
	Head     string        `json:"head"`
	Hash     string        `json:"hash"`
	Access   string        `json:"access"` // in-place, copy-with-log, copy-of-running, or export
	Keys     string        `json:"keys"`   // given, beside or none
	Epochs   []epochAnswer `json:"epochs"`
	Audits   []auditAnswer `json:"audits"` // of operators and identities, beside a ledger
	Slip     *slipPlace    `json:"slip,omitempty"`
}

type epochAnswer struct {
	Epoch   int64        `json:"epoch"`
	Head    string       `json:"head"`
	Central signedAnswer `json:"countersigned"`
	Device  signedAnswer `json:"signed"`
	Covered string       `json:"covered"` // up to there a verified signature covers it, "" for nothing
}

type signedAnswer struct {
	Number   string `json:"number"` // "" for none
	Verified bool   `json:"verified"`
	Time     string `json:"time,omitempty"`
	Why      string `json:"why,omitempty"`
	Kept     bool   `json:"kept"` // the signature itself is in the file
}

type slipPlace struct {
	Number string `json:"number"`
	There  bool   `json:"there"`
	Kind   string `json:"kind,omitempty"`
	Minor  int64  `json:"amount_minor,omitempty"`
	Time   string `json:"time,omitempty"`

	currency string
}

func journalVerifyCommand() *cobra.Command {
	var terminal, slip string
	var flags keyFlags
	var audits auditFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "verify LEDGER|EXPORT",
		Short: "Say what of a journal is proven, and what is not",
		Long: `Walk the whole journal, of a ledger or of what journal export wrote: every line is an entry
of this terminal, numbers run without a gap, each carries the hash of the one before, claims,
slips, closings and reversals agree with their entries. Then verify the signatures that are
kept: central's over what it holds, and the device's, of closings, of uploads that failed and
of clean stops.

Up to the newest signature that verifies, every change is found. What lies above can be changed
by whoever can write the file. Entries cut off at the end, with their signatures, do not show:
--slip holds the number of a slip against the journal's end.

The audits of operators and identities beside a ledger are held against what the journal notes
of them, so that lines cut off or written anew show.

Nothing is written, terminald may run, and the medium may be read-only. Keys come from
--central-key and --device-key, both from central (central terminal key); without them, from the
identity beside the ledger, which somebody who changed the ledger could have changed too.

Exit status: 0 whole, 3 a person is needed (the slip is not there, an audit does not fit, or no
key was given for a signature that is kept), 1 damaged or changed.`,
		Example: `  terminalctl journal verify /var/lib/grattoir/ledger.db
  terminalctl journal verify journal.jsonl --central-key central.pub --device-key T-0001.pem
  terminalctl journal verify /mnt/card/ledger.db --slip 1-000123 --central-key central.pub --device-key T-0001.pem`,
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := verifyJournal(cmd, args[0], terminal, slip, &flags, &audits)
			if err != nil {
				return err
			}
			return printJournal(cmd.OutOrStdout(), a, asJSON)
		},
	}
	cmd.Flags().StringVar(&terminal, "terminal", "", "refuse the journal of a terminal of another `name`")
	cmd.Flags().StringVar(&slip, "slip", "", "also look for the entry of this ledger `number`, as 1-000123")
	flags.add(cmd)
	audits.add(cmd)
	jsonFlag(cmd, &asJSON)
	return cmd
}

func verifyJournal(cmd *cobra.Command, path, terminal, slip string, flags *keyFlags, audits *auditFlags) (a journalAnswer, err error) {
	keys, err := flags.read()
	if err != nil {
		return a, err
	}
	source := keysNone
	if flags.given() {
		source = keysGiven
	}
	if isExport(path) {
		if slip != "" {
			return a, cli.Usagef("--slip is for ledgers: terminalctl slip verify CODE --journal %s looks into an export", path)
		}
		return verifyExport(cmd.Context(), path, terminal, source, keys)
	}
	i, err := inspectJournal(cmd.Context(), path, terminal)
	if err != nil {
		return a, err
	}
	defer func() { err = errors.Join(err, i.Close()) }()
	if source == keysNone {
		_, beside, err := identityBeside(path)
		switch {
		case err == nil:
			keys, source = beside, keysBeside
		case !errors.Is(err, uplink.ErrNoIdentity):
			fmt.Fprintf(cmd.ErrOrStderr(), "the identity beside it gives no keys: %v\n", err)
		}
	}
	p, err := i.Prove(cmd.Context(), keys)
	if err != nil {
		return a, err
	}
	a = journalFacts(i.Terminal(), string(i.Access), source, p)
	if a.Audits, err = audits.check(cmd.Context(), path, i); err != nil {
		return a, err
	}
	for _, x := range a.Audits {
		a.OK = a.OK && x.Finding == ""
	}
	if slip != "" {
		a.Slip, err = findSlip(cmd.Context(), i, slip)
		a.OK = a.OK && a.Slip != nil && a.Slip.There
	}
	return a, err
}

// isExport tells an export from a ledger by its first byte.
func isExport(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false // Inspect says why
	}
	defer f.Close()
	first := make([]byte, 1)
	_, err = io.ReadFull(f, first)
	return err == nil && first[0] == '{'
}

func verifyExport(ctx context.Context, path, terminal, source string, keys ledger.Keys) (journalAnswer, error) {
	f, err := os.Open(path)
	if err != nil {
		return journalAnswer{}, err
	}
	defer f.Close()
	p, err := ledger.VerifyExport(ctx, f, keys)
	if err != nil {
		return journalAnswer{}, fmt.Errorf("%s: %w", path, err)
	}
	if terminal != "" && terminal != p.Terminal {
		return journalAnswer{}, fmt.Errorf("%s is the journal of terminal %.64q, not of %q", path, p.Terminal, terminal)
	}
	return journalFacts(p.Terminal, "export", source, p), nil
}

func journalFacts(terminal, access, source string, p ledger.Proof) journalAnswer {
	a := journalAnswer{OK: true, Terminal: terminal, Entries: p.Entries, Claims: p.Claims, Closings: p.Closings, Minor: int64(p.Money),
		Head: numberText(p.Head.Epoch, p.Head.Seq), Hash: p.Head.Hash.String(), Access: access, Keys: source, Epochs: []epochAnswer{}, Audits: []auditAnswer{}}
	for _, e := range p.Epochs {
		x := epochAnswer{Epoch: e.Epoch, Head: numberText(e.Epoch, e.Seq), Central: signedFacts(e.Epoch, e.Central), Device: signedFacts(e.Epoch, e.Device)}
		if covered := e.Covered(); covered > 0 {
			x.Covered = numberText(e.Epoch, covered)
		}
		a.Epochs = append(a.Epochs, x)
	}
	return a
}

func signedFacts(epoch int64, s ledger.Signed) signedAnswer {
	if s.Seq == 0 {
		return signedAnswer{}
	}
	a := signedAnswer{Number: numberText(epoch, s.Seq), Verified: s.Verified, Why: string(s.Why), Kept: !s.Unsigned}
	if !s.Time.IsZero() {
		a.Time = s.Time.UTC().Format(time.RFC3339)
	}
	return a
}

func numberText(epoch, seq int64) string {
	return validate.EntryNumber{Epoch: epoch, Seq: seq}.String()
}

// errFound ends a walk that has found what it looks for.
var errFound = errors.New("found")

// findSlip looks for the entry that a slip names.
func findSlip(ctx context.Context, i *ledger.Inspection, text string) (*slipPlace, error) {
	n, err := control.ParseNumber(text)
	if err != nil {
		return nil, cli.Usagef("--slip: %w", err)
	}
	found := &slipPlace{Number: n.String()}
	err = i.Lines(ctx, n.Epoch, n.Seq, func(seq int64, line []byte) error {
		if seq != n.Seq {
			return errFound
		}
		e, err := ledger.ParseEntry(line)
		if err != nil {
			return err
		}
		found.There, found.Kind, found.Time = true, string(e.Kind), e.Time
		if e.IsClaim() {
			c, err := e.Claim()
			if err != nil {
				return err
			}
			found.Minor, found.currency = c.AmountMinor, c.Currency
		}
		return errFound
	})
	if errors.Is(err, errFound) {
		err = nil
	}
	return found, err
}

// printJournal prints the answer and gives the exit status that goes with it.
func printJournal(out io.Writer, a journalAnswer, asJSON bool) error {
	status := cli.Done
	if !a.OK || a.unchecked() {
		status = cli.Person
	}
	var err error
	if asJSON {
		err = cli.JSON(out, a)
	} else {
		_, err = io.WriteString(out, a.text())
	}
	return errors.Join(err, cli.Exit(status, nil))
}

// unchecked tells whether a signature is kept that no key was there for.
func (a journalAnswer) unchecked() bool {
	for _, e := range a.Epochs {
		for _, s := range []signedAnswer{e.Central, e.Device} {
			if s.Kept && !s.Verified {
				return true
			}
		}
	}
	return false
}

// text says what is proven and what is not, and nothing else.
func (a journalAnswer) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "the chain is whole: terminal %s, %d entries, %d payments of %s, %d closings that add up\nhead %s, hash %s\n",
		a.Terminal, a.Entries, a.Claims, money.Text(money.Amount(a.Minor), "EUR", money.English, money.Receipt), a.Closings, a.Head, a.Hash)
	switch ledger.Access(a.Access) {
	case ledger.WithLog:
		b.WriteString("the program was cut off: the file was read with the log that lies beside it, in a copy\n")
	case ledger.Live:
		b.WriteString("the program is running: a copy of the moment was read\n")
	}
	for _, e := range a.Epochs {
		b.WriteString(e.text())
	}
	if a.Keys == keysBeside {
		b.WriteString("The keys come from the identity beside the ledger, which whoever changed the ledger could have changed\ntoo: for an inquest give --central-key and --device-key, from central.\n")
	}
	b.WriteString("Entries cut off at the end, with the signatures over them, do not show: hold the newest slip against\nthe journal (--slip), or central's copy.\n")
	for _, x := range a.Audits {
		b.WriteString(x.text())
	}
	if s := a.Slip; s != nil {
		b.WriteString(s.text(a.Head))
	}
	return b.String()
}

func (e epochAnswer) text() string {
	var b strings.Builder
	if e.Head == numberText(e.Epoch, 0) {
		return fmt.Sprintf("epoch %d: it has no entries yet\n", e.Epoch)
	}
	switch c := e.Central; {
	case c.Number == "":
		fmt.Fprintf(&b, "epoch %d: central has countersigned nothing\n", e.Epoch)
	case c.Verified:
		fmt.Fprintf(&b, "epoch %d: central countersigned it up to %s on %s: nothing up to there was changed since\n", e.Epoch, c.Number, c.Time)
	case c.Kept:
		fmt.Fprintf(&b, "epoch %d: central's signature over it up to %s is NOT verified (--central-key)\n", e.Epoch, c.Number)
	default:
		fmt.Fprintf(&b, "epoch %d: central acknowledged it up to %s, but no signature was kept then: that proves nothing\n", e.Epoch, c.Number)
	}
	switch d := e.Device; {
	case d.Number == "":
		fmt.Fprintf(&b, "epoch %d: the device has signed nothing\n", e.Epoch)
	case d.Verified:
		fmt.Fprintf(&b, "epoch %d: the device signed it up to %s (%s): nothing up to there was changed without its key\n", e.Epoch, d.Number, d.Why)
	default:
		fmt.Fprintf(&b, "epoch %d: the device's signature over it up to %s (%s) is NOT verified (--device-key)\n", e.Epoch, d.Number, d.Why)
	}
	switch e.Covered {
	case e.Head:
	case "":
		fmt.Fprintf(&b, "epoch %d: NOTHING of it is covered by a verified signature: whoever can write the file could have made it anew\n", e.Epoch)
	default:
		fmt.Fprintf(&b, "epoch %d: NOT covered by a verified signature: what is above %s, up to %s\n", e.Epoch, e.Covered, e.Head)
	}
	return b.String()
}

func (s slipPlace) text(head string) string {
	switch {
	case !s.There:
		return fmt.Sprintf("SLIP %s IS NOT IN THE JOURNAL, which ends at %s: entries were cut off, or the slip is of another journal.\nKeep slip and card, call the centre.\n", s.Number, head)
	case s.Kind == string(ledger.KindClaim), s.Kind == string(ledger.KindCarriedClaim):
		return fmt.Sprintf("slip %s is there: a payment of %s, device time %s. Compare it with the paper.\n",
			s.Number, money.Text(money.Amount(s.Minor), s.currency, money.English, money.Receipt), s.Time)
	}
	return fmt.Sprintf("%s is there, and is no payment but a %s, device time %s. Compare it with the paper.\n", s.Number, s.Kind, s.Time)
}
