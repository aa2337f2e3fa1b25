package ledger

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"grattoir/validate"
	"grattoir/validate/money"
)

// books add up a journal, entry by entry, into the periods that are open. They read
// nothing but entries and know no clock and no database, so that another machine comes
// to the same sums from the same lines.
//
// The shift and the day are added up from entries, by block; a month from its days'
// closings and a year from its months', so that an X of a year need not read a year's
// entries. Entries between two closings of a day belong to exactly one day.
type books struct {
	last  validate.EntryNumber // newest entry added
	time  string               // device time of the newest entry that counts, "" for none
	names map[validate.BlockID]NamedBlock

	shift     *ShiftOpenBody // nil when none is open
	open      map[validate.ClosingKind]*period
	perpetual map[string]*validate.Perpetual // by currency
}

// period is an open period: where it began, and what came since.
type period struct {
	number int64  // of the newest closing of its kind
	called string // that closing's label
	from   validate.EntryNumber
	begun  string
	byCoin map[blockCoin]*validate.GameTotals // from entries: of shift and day
	sizes  map[string]*[validate.SizeClasses]validate.Sum
	closed sums // from closings: of month and year
	// adopt: the newest closing of the kind is not among the lines at hand, so the next
	// one's number and beginning are taken as they are. Its sums are not.
	adopt bool
}

// blockCoin is a block and a currency: what is known of an entry before its block is named.
type blockCoin struct {
	block    validate.BlockID
	currency string
}

// sums are the totals of a closing, in its order.
type sums struct {
	reprints, autoCopies int64
	totals               []validate.Totals
	games                []validate.GameTotals
}

func (s sums) empty() bool {
	return s.reprints == 0 && s.autoCopies == 0 && len(s.totals) == 0 && len(s.games) == 0
}

func newBooks() *books {
	b := &books{names: map[validate.BlockID]NamedBlock{}, open: map[validate.ClosingKind]*period{}, perpetual: map[string]*validate.Perpetual{}}
	for _, kind := range validate.ClosingKinds() {
		b.open[kind] = newPeriod()
	}
	return b
}

func newPeriod() *period {
	return &period{byCoin: map[blockCoin]*validate.GameTotals{}, sizes: map[string]*[validate.SizeClasses]validate.Sum{}}
}

// add takes the next entry. Closings are taken by close, kinds of a later program count
// nothing.
func (b *books) add(e Entry) error {
	b.begin(e)
	switch e.Kind {
	case KindClaim, KindCarriedClaim, KindReversal, KindReversalAnswer, KindReprint, KindMisprint:
		b.time = e.Time
	}
	switch e.Kind {
	case KindClaim, KindCarriedClaim:
		return b.addClaim(e)
	case KindReversal:
		r, err := e.Reversal()
		if err != nil {
			return err
		}
		return b.each(blockCoin{r.Block, r.Currency}, func(g *validate.GameTotals) error {
			return plus(&g.Requested, r.AmountMinor)
		})
	case KindReversalAnswer:
		return b.addAnswer(e)
	case KindReprint:
		r, err := e.Reprint()
		if err != nil {
			return err
		}
		return b.each(blockCoin{r.Block, r.Currency}, func(g *validate.GameTotals) error {
			if r.Kind == ReprintAuto {
				g.AutoCopies++
			} else {
				g.Reprints++
			}
			return nil
		})
	case KindMisprint:
		return b.addMisprint(e)
	case KindShiftOpen:
		return b.addShift(e)
	case KindBlocks:
		list, err := e.Blocks()
		for _, n := range list.Blocks {
			b.names[n.Block] = n
		}
		return err
	case KindClosing:
		c, err := e.Closing()
		if err != nil {
			return err
		}
		return b.close(c, e.Time)
	}
	return nil
}

// start says which entry is the journal's first, before it is added.
func (b *books) start(first validate.EntryNumber) {
	if (b.last != validate.EntryNumber{}) {
		return
	}
	b.last = validate.EntryNumber{Epoch: first.Epoch, Seq: first.Seq - 1}
	for _, p := range b.open {
		p.from = first
	}
}

// begin notes the place, and when the periods began that begin here.
func (b *books) begin(e Entry) {
	at := validate.EntryNumber{Epoch: e.Epoch, Seq: e.Seq}
	b.start(at)
	b.last = at
	for _, p := range b.open {
		if p.from == at {
			p.begun = e.Time
		}
	}
}

// each edits the line of a block in the open shift and the open day.
func (b *books) each(k blockCoin, edit func(*validate.GameTotals) error) error {
	for _, kind := range []validate.ClosingKind{validate.ShiftClosing, validate.DayClosing} {
		if kind == validate.ShiftClosing && b.shift == nil {
			continue
		}
		g := b.open[kind].byCoin[k]
		if g == nil {
			g = &validate.GameTotals{Currency: k.currency}
			b.open[kind].byCoin[k] = g
		}
		if err := edit(g); err != nil {
			return err
		}
	}
	return nil
}

func plus(s *validate.Sum, amount money.Amount) (err error) {
	*s, err = s.Add(validate.Sum{Count: 1, Money: amount})
	return err
}

func (b *books) addClaim(e Entry) error {
	c, err := e.Claim()
	if err != nil {
		return err
	}
	amount := money.Amount(c.AmountMinor)
	class := validate.SizeClass(amount)
	err = b.each(blockCoin{c.Block, c.Currency}, func(g *validate.GameTotals) error {
		g.Sizes[class]++
		return plus(&g.Paid, amount)
	})
	if err != nil {
		return err
	}
	for _, kind := range []validate.ClosingKind{validate.ShiftClosing, validate.DayClosing} {
		if kind == validate.ShiftClosing && b.shift == nil {
			continue
		}
		sizes := b.open[kind].sizes[c.Currency]
		if sizes == nil {
			sizes = &[validate.SizeClasses]validate.Sum{}
			b.open[kind].sizes[c.Currency] = sizes
		}
		if err := plus(&sizes[class], amount); err != nil {
			return err
		}
	}
	return plus(&b.ever(c.Currency).Paid, amount)
}

func (b *books) addAnswer(e Entry) error {
	a, err := e.ReversalAnswer()
	if err != nil || !a.Accepted {
		return err
	}
	err = b.each(blockCoin{a.Block, a.Currency}, func(g *validate.GameTotals) error { return plus(&g.Reversed, a.AmountMinor) })
	if err != nil {
		return err
	}
	return plus(&b.ever(a.Currency).Reversed, a.AmountMinor)
}

// ever is the perpetual total of a currency.
func (b *books) ever(currency string) *validate.Perpetual {
	p := b.perpetual[currency]
	if p == nil {
		p = &validate.Perpetual{Currency: currency}
		b.perpetual[currency] = p
	}
	return p
}

func (b *books) addShift(e Entry) error {
	s, err := e.ShiftOpen()
	if err != nil {
		return err
	}
	p := b.open[validate.ShiftClosing]
	switch {
	case b.shift != nil:
		return fmt.Errorf("%w: shift %d begins while %d is open", ErrEntry, s.Shift, b.shift.Shift)
	case s.Shift != p.number+1 && !p.adopt:
		return fmt.Errorf("%w: shift %d follows %d", ErrEntry, s.Shift, p.number)
	}
	fresh := newPeriod()
	fresh.number, fresh.called, fresh.from, fresh.begun = s.Shift-1, p.called, b.last, e.Time
	b.shift, b.open[validate.ShiftClosing] = &s, fresh
	return nil
}

// The periods in which nothing may be left open before another is closed.
var (
	// ErrNoShift means that no shift is open.
	ErrNoShift = errors.New("no shift is open")
	// ErrShiftOpen means that a shift is open, which must be closed first.
	ErrShiftOpen = errors.New("a shift is open")
	// ErrClosingOrder means that a shorter period must be closed first.
	ErrClosingOrder = errors.New("a shorter period must be closed first")
)

// mayClose tells what stands against a Z of a kind now.
func (b *books) mayClose(kind validate.ClosingKind) error {
	if kind == validate.ShiftClosing {
		if b.shift == nil {
			return fmt.Errorf("%w: open one first", ErrNoShift)
		}
		return nil
	}
	if b.shift != nil {
		return fmt.Errorf("%w: close shift %d of %.64q first, then the %s", ErrShiftOpen, b.shift.Shift, b.shift.Operator, kind)
	}
	if kind != validate.DayClosing && len(b.open[validate.DayClosing].byCoin) > 0 {
		return fmt.Errorf("%w: close the day, then the %s", ErrClosingOrder, kind)
	}
	if kind == validate.YearClosing && !b.open[validate.MonthClosing].closed.empty() {
		return fmt.Errorf("%w: close the month, then the year", ErrClosingOrder)
	}
	return nil
}

// unnamed lists the blocks that are counted and have no name in this year yet, in order.
func (b *books) unnamed() []validate.BlockID {
	list := map[validate.BlockID]bool{}
	for _, p := range b.open {
		for k := range p.byCoin {
			if _, known := b.names[k.block]; !known {
				list[k.block] = true
			}
		}
	}
	return slices.SortedFunc(maps.Keys(list), func(x, y validate.BlockID) int { return slices.Compare(x[:], y[:]) })
}

// facts are what a closing of a kind says now, but for its label and who makes it.
func (b *books) facts(kind validate.ClosingKind) (validate.ClosingFacts, error) {
	p := b.open[kind]
	f := validate.ClosingFacts{Kind: kind, Number: p.number + 1, From: p.from, To: b.last, Begun: p.begun, Perpetual: []validate.Perpetual{}}
	s, err := b.sums(kind)
	if err != nil {
		return f, err
	}
	f.Reprints, f.AutoCopies, f.Totals = s.reprints, s.autoCopies, s.totals
	if f.Games, err = fold(s.games); err != nil {
		return f, err
	}
	for _, currency := range slices.Sorted(maps.Keys(b.perpetual)) {
		f.Perpetual = append(f.Perpetual, *b.perpetual[currency])
	}
	if kind == validate.ShiftClosing && b.shift != nil {
		f.Currency, f.Float, f.Cash = b.shift.Currency, b.shift.FloatMinor, b.shift.FloatMinor
		for _, t := range s.totals {
			if t.Currency == f.Currency {
				f.Cash += t.Reversed.Money - t.Paid.Money - t.Refunded.Money
			}
		}
	}
	return f, nil
}

// call names the open period of a kind: by its last act that counts, so that a day that
// is closed after midnight, or a year in January, is called what it was; a month as its
// last day, a year as its last month. With nothing in it, it is called by now.
func (b *books) call(kind validate.ClosingKind, now time.Time, zone *time.Location) string {
	if y := now.Year(); y < 1 || y > 9998 {
		now = time.Time{} // a clock gone wild
	}
	name := now.In(zone).Format(periodLayout(kind))
	switch p := b.open[kind]; {
	case len(b.open[validate.DayClosing].byCoin) > 0 && kind != validate.ShiftClosing, kind == validate.ShiftClosing && len(p.byCoin) > 0:
		if at, err := parseTime(b.time); err == nil && !at.IsZero() {
			name = at.In(zone).Format(periodLayout(kind))
		}
	case kind == validate.MonthClosing && !p.closed.empty():
		name = b.open[validate.DayClosing].called[:len("2026-11")]
	case kind == validate.YearClosing && !b.open[validate.MonthClosing].closed.empty():
		name = b.open[validate.DayClosing].called[:len("2026")]
	case kind == validate.YearClosing && !p.closed.empty():
		name = b.open[validate.MonthClosing].called[:len("2026")]
	}
	return name
}

// sums are what an open period comes to: a year's are its closed months', its open
// month's closed days' and its open day's.
func (b *books) sums(kind validate.ClosingKind) (sums, error) {
	name := func(id validate.BlockID) (NamedBlock, bool) { n, known := b.names[id]; return n, known }
	if kind == validate.ShiftClosing {
		return b.open[kind].named(name)
	}
	s, err := b.open[validate.DayClosing].named(name)
	if err == nil && kind != validate.DayClosing {
		s, err = s.with(b.open[validate.MonthClosing].closed)
	}
	if err == nil && kind == validate.YearClosing {
		s, err = s.with(b.open[validate.YearClosing].closed)
	}
	return s, err
}

// named sums a period's entries by game and by currency.
func (p *period) named(name func(validate.BlockID) (NamedBlock, bool)) (sums, error) {
	s := sums{totals: []validate.Totals{}, games: []validate.GameTotals{}}
	for k, g := range p.byCoin {
		n, known := name(k.block)
		if !known {
			return s, fmt.Errorf("%w: block %v is counted and was not named", ErrEntry, k.block)
		}
		row := *g
		row.Game, row.Demonstration = n.Game, n.Demonstration
		one := sums{reprints: g.Reprints, autoCopies: g.AutoCopies, games: []validate.GameTotals{row},
			totals: []validate.Totals{{Currency: k.currency, Paid: g.Paid, Requested: g.Requested, Reversed: g.Reversed, Refunded: g.Refunded, Exchanged: g.Exchanged}}}
		var err error
		if s, err = s.with(one); err != nil {
			return s, err
		}
	}
	for i := range s.totals {
		if sizes := p.sizes[s.totals[i].Currency]; sizes != nil {
			s.totals[i].Sizes = *sizes
		}
	}
	return s, nil
}

// with adds other sums, keeping the order.
func (s sums) with(o sums) (sums, error) {
	out := sums{reprints: s.reprints + o.reprints, autoCopies: s.autoCopies + o.autoCopies, totals: slices.Clone(s.totals), games: slices.Clone(s.games)}
	for _, t := range o.totals {
		at, found := slices.BinarySearchFunc(out.totals, t, func(x, y validate.Totals) int { return cmp.Compare(x.Currency, y.Currency) })
		if !found {
			out.totals = slices.Insert(out.totals, at, t)
			continue
		}
		if err := addTotals(&out.totals[at], t); err != nil {
			return out, err
		}
	}
	for _, g := range o.games {
		at, found := slices.BinarySearchFunc(out.games, g, compareGames)
		if !found {
			out.games = slices.Insert(out.games, at, g)
			continue
		}
		if err := addGame(&out.games[at], g); err != nil {
			return out, err
		}
	}
	return out, nil
}

// compareGames orders by name, with what is left out of a list at its end.
func compareGames(x, y validate.GameTotals) int {
	return cmp.Or(compareBools(x.Game == validate.OtherGames, y.Game == validate.OtherGames), cmp.Compare(x.Game, y.Game), cmp.Compare(x.Currency, y.Currency), compareBools(x.Demonstration, y.Demonstration))
}

func compareBools(x, y bool) int {
	switch {
	case x == y:
		return 0
	case y:
		return -1
	}
	return 1
}

func addTotals(t *validate.Totals, o validate.Totals) error {
	t.Exchanged += o.Exchanged
	errs := []error{addSum(&t.Paid, o.Paid), addSum(&t.Requested, o.Requested), addSum(&t.Reversed, o.Reversed), addSum(&t.Refunded, o.Refunded)}
	for i := range t.Sizes {
		errs = append(errs, addSum(&t.Sizes[i], o.Sizes[i]))
	}
	return errors.Join(errs...)
}

func addGame(g *validate.GameTotals, o validate.GameTotals) error {
	g.Reprints += o.Reprints
	g.AutoCopies += o.AutoCopies
	g.Exchanged += o.Exchanged
	for i := range g.Sizes {
		g.Sizes[i] += o.Sizes[i]
	}
	return errors.Join(addSum(&g.Paid, o.Paid), addSum(&g.Requested, o.Requested), addSum(&g.Reversed, o.Reversed), addSum(&g.Refunded, o.Refunded))
}

func addSum(s *validate.Sum, o validate.Sum) (err error) {
	*s, err = s.Add(o)
	return err
}

// maxGames bounds the games of a closing, so that its line fits an entry. What is left
// out is one row for each currency.
const maxGames = 40

// fold keeps the first games and puts the others together.
func fold(games []validate.GameTotals) ([]validate.GameTotals, error) {
	if len(games) <= maxGames {
		return games, nil
	}
	out := sums{games: slices.Clone(games[:maxGames])}
	var err error
	for _, g := range games[maxGames:] {
		g.Game = validate.OtherGames
		if out, err = out.with(sums{games: []validate.GameTotals{g}}); err != nil {
			return nil, err
		}
	}
	return out.games, nil
}

// close takes a closing that is an entry: its period ends, the next one begins, and a
// day's sums are its month's, a month's its year's.
func (b *books) close(c validate.ClosingFacts, at string) (err error) {
	if b.open[c.Kind] == nil || c.Period == "" || checkPeriod(c.Kind, c.Period) != nil {
		return fmt.Errorf("%w: a closing of a %.40q called %.40q", ErrEntry, c.Kind, c.Period)
	}
	next := newPeriod()
	next.number, next.called, next.from, next.begun = c.Number, c.Period, b.last, at
	b.open[c.Kind] = next
	s := sums{reprints: c.Reprints, autoCopies: c.AutoCopies, totals: c.Totals, games: c.Games}
	switch c.Kind {
	case validate.ShiftClosing:
		b.shift = nil
	case validate.DayClosing:
		m := b.open[validate.MonthClosing]
		m.closed, err = m.closed.with(s)
	case validate.MonthClosing:
		y := b.open[validate.YearClosing]
		y.closed, err = y.closed.with(s)
	case validate.YearClosing:
		// A year's lines name their blocks themselves, so that an archive needs no other year.
		b.names = map[validate.BlockID]NamedBlock{}
	}
	return err
}

// check holds a closing of the journal against what the entries before it come to.
func (b *books) check(c validate.ClosingFacts) error {
	if b.open[c.Kind] == nil {
		return fmt.Errorf("%w: a closing of a %.40q", ErrEntry, c.Kind)
	}
	if err := b.mayClose(c.Kind); err != nil {
		return err
	}
	want, err := b.facts(c.Kind)
	if err != nil {
		return err
	}
	if b.open[c.Kind].adopt {
		want.Number, want.From, want.Begun = c.Number, c.From, c.Begun
	}
	want.Period, want.Operator = c.Period, c.Operator
	mine, err1 := encodeJSON(want)
	theirs, err2 := encodeJSON(c)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	if string(mine) != string(theirs) {
		return fmt.Errorf("%w: the closing of the %s, number %d, says %s, its entries come to %s", ErrEntry, c.Kind, c.Number, theirs, mine)
	}
	return nil
}

// resumeYear brings empty books to where they stood after the closing of a year, which
// leaves nothing open. When the shorter periods began is not known from it.
func (b *books) resumeYear(e Entry, c validate.ClosingFacts) {
	b.last = validate.EntryNumber{Epoch: e.Epoch, Seq: e.Seq}
	for kind, p := range b.open {
		p.adopt = kind != validate.YearClosing
	}
	y := b.open[validate.YearClosing]
	y.number, y.from, y.begun = c.Number, b.last, e.Time
	for _, p := range c.Perpetual {
		b.perpetual[p.Currency] = &p
	}
}
