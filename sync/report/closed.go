package report

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"

	"grattoir/sync/wire"
	"grattoir/validate/policy"
)

// Closed is a period of the settlement as it was closed: what is signed, and the lines
// that it names by their hash. Its archive is one text, whole and readable without central:
//
//	grattoir settlement v1        the signed head: key and value a line
//	number 3
//	...
//	                              an empty line, and central's signatures over the head
//	— central+... ...
//
//	grattoir settlement lines v1  one line a terminal and currency
//	shop-0001 shop-0001 EUR 2 120 120000 ...
//
// The head names the head before by its hash, so that archives form a chain; each line
// carries what was due up to its end since the first period, so that a line's due follows
// from two archives as well as from its own figures.
type Closed struct {
	Number      int64
	Previous    string // SHA-256 of the note before, "" for the first
	First, Last policy.Date
	Operator    string
	At          time.Time
	Totals      []ClosedLine // one a currency, with no terminal and no shop
	lines       []ClosedLine
}

// ClosedLine is what was closed for one terminal in one currency. Amounts are minor units.
type ClosedLine struct {
	Terminal, Shop, Currency string
	Packs, Tickets           int64
	Claims, Reversals        int64
	Sales, Paid              int64
	Reversed, Borne          int64
	Commission, Correction   int64
	Due                      int64 // sales - paid + reversed - borne - commission + correction
	ToDate                   int64 // due since the first period, this one included
}

// Lines are the closed accounts, by terminal and currency.
func (c Closed) Lines() []ClosedLine { return slices.Clone(c.lines) }

const (
	closedFirst = "grattoir settlement v1"
	linesFirst  = "grattoir settlement lines v1"
	maxArchive  = 64 << 20 // bytes; a line has about 120
)

// ErrClosed means an archive of a settlement that does not prove itself: damaged, changed,
// or of another kind. The words say what of it.
var ErrClosed = errors.New("the settlement does not prove itself")

// figures are a line's numbers in the order in which they are written.
func (l *ClosedLine) figures() []*int64 {
	return []*int64{&l.Packs, &l.Tickets, &l.Sales, &l.Claims, &l.Paid, &l.Reversals, &l.Reversed, &l.Borne, &l.Commission, &l.Correction, &l.Due, &l.ToDate}
}

func (l ClosedLine) text(names ...string) string {
	for _, n := range l.figures() {
		names = append(names, strconv.FormatInt(*n, 10))
	}
	return strings.Join(names, " ") + "\n"
}

// balances tells whether the line's due is what its figures say.
func (l ClosedLine) balances() bool {
	return l.Due == account{sales: l.Sales, paid: l.Paid, reversed: l.Reversed, borne: l.Borne, fee: l.Commission, correction: l.Correction}.due()
}

// Texts are what is signed and the lines.
func (c Closed) Texts() (head, lines string) {
	var h, l strings.Builder
	l.WriteString(linesFirst + "\n")
	for _, x := range c.lines {
		l.WriteString(x.text(x.Terminal, x.Shop, x.Currency))
	}
	sum := sha256.Sum256([]byte(l.String()))
	previous := c.Previous
	if previous == "" {
		previous = "-"
	}
	fmt.Fprintf(&h, "%s\nnumber %d\nprevious %s\nfirst %v\nlast %v\noperator %s\nclosed %s\nlines %d\nsha256 %s\n", closedFirst, c.Number, previous, c.First, c.Last,
		c.Operator, wire.FormatTime(c.At), len(c.lines), hex.EncodeToString(sum[:]))
	for _, x := range c.Totals {
		h.WriteString("total " + x.text(x.Currency))
	}
	return h.String(), l.String()
}

// ParseClosed reads a head and lines whose signature somebody else has verified. It takes
// only what Texts writes, with every sum right.
func ParseClosed(head, lines string) (Closed, error) {
	fail := func(format string, args ...any) (Closed, error) {
		return Closed{}, fmt.Errorf("%w: "+format, append([]any{ErrClosed}, args...)...)
	}
	var c Closed
	rows := strings.Split(head, "\n")
	var count, first, last, at, sum string
	fields := []struct {
		key  string
		into *string
	}{{"number", &count}, {"previous", &c.Previous}, {"first", &first}, {"last", &last}, {"operator", &c.Operator}, {"closed", &at}, {"lines", new(string)}, {"sha256", &sum}}
	if len(head)+len(lines) > maxArchive || len(rows) < len(fields)+2 || rows[0] != closedFirst {
		return fail("it does not begin with %q: another kind of file, or of a newer program", closedFirst)
	}
	for i, f := range fields {
		value, ok := strings.CutPrefix(rows[i+1], f.key+" ")
		if !ok {
			return fail("line %d: want %q", i+2, f.key)
		}
		*f.into = value
	}
	if c.Previous == "-" {
		c.Previous = ""
	}
	var errs [4]error
	c.Number, errs[0] = strconv.ParseInt(count, 10, 64)
	c.First, errs[1] = policy.ParseDate(first)
	c.Last, errs[2] = policy.ParseDate(last)
	c.At, errs[3] = wire.ParseTime(at)
	if err := errors.Join(errs[:]...); err != nil {
		return fail("%w", err)
	}
	for _, row := range rows[len(fields)+1 : len(rows)-1] {
		l, err := parseLine(row, 2)
		if err != nil {
			return fail("%w", err)
		}
		c.Totals = append(c.Totals, l)
	}
	for i, row := range strings.Split(strings.TrimSuffix(lines, "\n"), "\n") {
		if i == 0 {
			continue
		}
		l, err := parseLine(row, 3)
		if err != nil {
			return fail("%w", err)
		}
		c.lines = append(c.lines, l)
	}
	if h, l := c.Texts(); h != head || l != lines {
		return fail("its lines are not those that its head was signed over, or it is not in the form that is written")
	}
	return c, c.adds()
}

// parseLine reads a line of so many names and the figures.
func parseLine(row string, names int) (ClosedLine, error) {
	var l ClosedLine
	words := strings.Split(row, " ")
	if len(words) != names+len(l.figures()) {
		return l, fmt.Errorf("a line of %d words, want %d", len(words), names+len(l.figures()))
	}
	if l.Currency = words[names-1]; names == 3 {
		l.Terminal, l.Shop = words[0], words[1]
	} else if words[0] != "total" {
		return l, fmt.Errorf("a line that begins %.20q, want a total", words[0])
	}
	for i, n := range l.figures() {
		var err error
		if *n, err = strconv.ParseInt(words[names+i], 10, 64); err != nil || *n > maxAccount || *n < -maxAccount {
			return l, fmt.Errorf("%.30q is no figure of an account", words[names+i])
		}
	}
	return l, nil
}

// adds is nil when each due follows from its figures and the totals are those of the lines.
func (c Closed) adds() error {
	sums, err := totalsOf(c.lines)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrClosed, err)
	}
	for _, l := range c.lines {
		if !l.balances() {
			return fmt.Errorf("%w: terminal %s: what is due does not follow from its figures", ErrClosed, l.Terminal)
		}
	}
	if !slices.Equal(sums, c.Totals) {
		return fmt.Errorf("%w: its totals are not the sums of its lines", ErrClosed)
	}
	return nil
}

// totalsOf adds lines up, one total a currency.
func totalsOf(lines []ClosedLine) ([]ClosedLine, error) {
	var list []ClosedLine
	for _, l := range lines {
		i := slices.IndexFunc(list, func(t ClosedLine) bool { return t.Currency == l.Currency })
		if i < 0 {
			i, list = len(list), append(list, ClosedLine{Currency: l.Currency})
		}
		for k, n := range list[i].figures() {
			if *n += *l.figures()[k]; *n > maxAccount || *n < -maxAccount {
				return nil, fmt.Errorf("the total in %s is too large", l.Currency)
			}
		}
	}
	slices.SortFunc(list, func(a, b ClosedLine) int { return strings.Compare(a.Currency, b.Currency) })
	return list, nil
}

// Close makes the settlement of a period out of what a transaction sees, to be signed. The
// period begins on the day after the last closed one.
func Close(ctx context.Context, tx *sql.Tx, number int64, previous string, first, last policy.Date, operator string, at time.Time) (Closed, error) {
	c := Closed{Number: number, Previous: previous, First: first, Last: last, Operator: operator, At: at}
	r := Report{Made: at, Filter: Filter{From: Day(first), To: Day(last), Zone: Paris()}}
	s, err := r.settle(ctx, tx)
	if err != nil {
		return c, err
	}
	if !s.known {
		return c, fmt.Errorf("%w: the period does not begin where the last closed one ended", ErrFilter)
	}
	places, err := readPlaces(ctx, tx)
	if err != nil {
		return c, err
	}
	// Also the accounts in which nothing moved: each line carries on what is due to date.
	all := map[accountKey]bool{}
	for _, k := range s.keys() {
		all[k] = true
	}
	for k := range s.closed {
		all[k] = true
	}
	for _, k := range sortedKeys(all, compareAccounts) {
		a := s.account(k)
		shop := places[k.terminal].shop
		if shop == "" {
			shop = k.terminal
		}
		l := ClosedLine{Terminal: k.terminal, Shop: shop, Currency: k.currency, Packs: a.packs, Tickets: a.tickets, Sales: a.sales, Claims: a.claims, Paid: a.paid,
			Reversals: a.reversals, Reversed: a.reversed, Borne: a.borne, Commission: a.fee, Correction: a.correction, Due: a.due(), ToDate: s.closed[k] + a.due()}
		c.lines = append(c.lines, l)
	}
	c.Totals, err = totalsOf(c.lines)
	return c, err
}

// Archive is the one text of a closed settlement, of its signed head and its lines.
func Archive(signed, lines string) string { return signed + "\n" + lines }

// OpenArchive verifies an archive by itself: that one of the keys signed its head, that the
// lines are those of the head, and that every figure adds up. Errors include ErrClosed.
func OpenArchive(archive []byte, keys ...string) (c Closed, signed string, err error) {
	fail := func(err error) (Closed, string, error) { return Closed{}, "", err }
	var verifiers []note.Verifier
	for _, k := range keys {
		v, err := note.NewVerifier(strings.TrimSpace(k))
		if err != nil {
			return fail(fmt.Errorf("key %.20q...: %w", k, err))
		}
		verifiers = append(verifiers, v)
	}
	if len(archive) > maxArchive {
		return fail(fmt.Errorf("%w: %d bytes, at most %d", ErrClosed, len(archive), maxArchive))
	}
	signed, lines, found := strings.Cut(string(archive), "\n"+linesFirst+"\n")
	if !found {
		return fail(fmt.Errorf("%w: it has no lines: it was cut, or is of another kind", ErrClosed))
	}
	n, err := note.Open([]byte(signed), note.VerifierList(verifiers...))
	if err != nil {
		return fail(fmt.Errorf("%w: %w", ErrClosed, err))
	}
	if c, err = ParseClosed(n.Text, linesFirst+"\n"+lines); err != nil {
		return fail(err)
	}
	return c, signed, nil
}

// Follows is nil when c is the period right after before, whose signed head is given, and
// carries on what was due to date.
func (c Closed) Follows(before Closed, signed string) error {
	sum := sha256.Sum256([]byte(signed))
	switch {
	case c.Number != before.Number+1:
		return fmt.Errorf("%w: settlement %d stands after %d", ErrClosed, c.Number, before.Number)
	case c.Previous != hex.EncodeToString(sum[:]):
		return fmt.Errorf("%w: settlement %d goes on from another settlement %d", ErrClosed, c.Number, before.Number)
	case c.First != before.Last.Add(1):
		return fmt.Errorf("%w: settlement %d begins on %v, the one before ended on %v", ErrClosed, c.Number, c.First, before.Last)
	}
	due := map[accountKey]int64{}
	for _, l := range before.lines {
		due[accountKey{l.Terminal, l.Currency}] = l.ToDate
	}
	for _, l := range c.lines {
		k := accountKey{l.Terminal, l.Currency}
		if l.ToDate != due[k]+l.Due {
			return fmt.Errorf("%w: settlement %d, terminal %s: what is due to date does not go on from the period before", ErrClosed, c.Number, l.Terminal)
		}
		delete(due, k)
	}
	if len(due) > 0 {
		return fmt.Errorf("%w: settlement %d leaves out %d accounts of the period before", ErrClosed, c.Number, len(due))
	}
	return nil
}
