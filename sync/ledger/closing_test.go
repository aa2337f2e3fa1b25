package ledger

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"grattoir/sync/wire"
	"grattoir/validate"
	"grattoir/validate/money"
)

// fataler is a test, or one draw of a property test, which then shows what was drawn.
type fataler interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// act is what the model knows of one thing that counts.
type act struct {
	block    byte
	currency string
	amount   money.Amount
	what     string // claim, requested, reversed, reprint, auto
	inShift  bool
}

// till is a ledger beside a model of it that adds up in the plainest way: it keeps every
// act and the number of acts at each closing.
type till struct {
	t       testing.TB
	l       *Ledger
	clock   time.Time
	next    int
	acts    []act
	since   map[validate.ClosingKind]int   // acts before the open period
	numbers map[validate.ClosingKind]int64 // closings so far
	to      map[validate.ClosingKind]int64 // end of the newest closing's range
	shift   bool
	float   money.Amount
	claims  []validate.Receipt
	pending map[string]validate.Reversal
	asked   map[validate.EntryNumber]bool
	rounds  map[validate.TicketKey]int
	days    []validate.Closing
	audits  []AuditHead
}

func newTill(t testing.TB) *till {
	tl := &till{t: t, clock: noon, since: map[validate.ClosingKind]int{}, numbers: map[validate.ClosingKind]int64{}, to: map[validate.ClosingKind]int64{},
		pending: map[string]validate.Reversal{}, asked: map[validate.EntryNumber]bool{}, rounds: map[validate.TicketKey]int{}}
	opt := options(t.TempDir())
	opt.Moment = func() Moment { return Moment{Boot: "b", Device: tl.clock} }
	opt.Audits = func(context.Context) []AuditHead { return tl.audits }
	tl.l = openTest(t, opt)
	tl.hurry()
	return tl
}

// hurry leaves the syncing to the tests that are about it: thousands of commits follow.
func (tl *till) hurry() {
	if _, err := tl.l.db.Exec("PRAGMA synchronous = OFF"); err != nil {
		tl.t.Fatal(err)
	}
}

func (tl *till) restart() {
	tl.l = reopen(tl.t, tl.l)
	tl.hurry()
}

func (tl *till) id() string { tl.next++; return fmt.Sprintf("%032x", tl.next) }

func (tl *till) add(a act) { a.inShift = tl.shift; tl.acts = append(tl.acts, a) }

// pay pays a new ticket of a block, or one again in a later round.
func (tl *till) pay(t fataler, key validate.TicketKey, round int, amount money.Amount, currency string) validate.Receipt {
	t.Helper()
	c := claim(tl.t, int(key.Number))
	c.ID, c.Ticket, c.Round, c.Amount, c.Currency = tl.id(), key, round, amount, currency
	c.Slip.Game, c.Slip.Pack, c.Slip.Ticket = fmt.Sprintf("Game %c", 'A'+key.Block[0]%2), fmt.Sprintf("%07d", key.Pack), fmt.Sprintf("%03d", key.Number)
	if round > 0 {
		c = granted(tl.t, tl.l, c)
	}
	r := record(tl.t, tl.l, c)
	tl.claims = append(tl.claims, r)
	tl.add(act{key.Block[0], currency, amount, "claim", false})
	return r
}

func (tl *till) newKey(block byte) validate.TicketKey {
	return validate.TicketKey{Block: validate.BlockID{block}, Pack: uint32(1 + len(tl.claims)/900), Number: uint16(len(tl.claims) % 900)}
}

// want is what the model says of an open period.
func (tl *till) want(kind validate.ClosingKind) string {
	paid, requested, reversed := map[string]validate.Sum{}, map[string]validate.Sum{}, map[string]validate.Sum{}
	games := map[string]int64{}
	var reprints, auto int64
	cash := tl.float
	for _, a := range tl.acts[tl.since[kind]:] {
		if kind == validate.ShiftClosing && !a.inShift {
			continue
		}
		one := validate.Sum{Count: 1, Money: a.amount}
		game := fmt.Sprintf("Game %c %s", 'A'+a.block%2, a.currency)
		games[game] += 0
		switch a.what {
		case "claim":
			paid[a.currency], _ = paid[a.currency].Add(one)
			games[game]++
			if a.currency == "EUR" {
				cash -= a.amount
			}
		case "requested":
			requested[a.currency], _ = requested[a.currency].Add(one)
		case "reversed":
			reversed[a.currency], _ = reversed[a.currency].Add(one)
			if a.currency == "EUR" {
				cash += a.amount
			}
		case "reprint":
			reprints++
		case "auto":
			auto++
		}
	}
	if kind != validate.ShiftClosing {
		cash = 0
	}
	return fmt.Sprint(paid, requested, reversed, games, reprints, auto, cash)
}

// got is a closing in the model's words.
func got(t fataler, c validate.Closing) string {
	t.Helper()
	paid, requested, reversed := map[string]validate.Sum{}, map[string]validate.Sum{}, map[string]validate.Sum{}
	put := func(to map[string]validate.Sum, currency string, s validate.Sum) {
		if s.Count > 0 {
			to[currency] = s
		}
	}
	for _, x := range c.Totals {
		put(paid, x.Currency, x.Paid)
		put(requested, x.Currency, x.Requested)
		put(reversed, x.Currency, x.Reversed)
		var sizes validate.Sum
		for _, s := range x.Sizes {
			sizes, _ = sizes.Add(s)
		}
		if sizes != x.Paid {
			t.Fatalf("the size classes come to %v, paid are %v", sizes, x.Paid)
		}
	}
	games := map[string]int64{}
	for _, g := range c.Games {
		games[g.Game+" "+g.Currency] = g.Paid.Count
	}
	return fmt.Sprint(paid, requested, reversed, games, c.Reprints, c.AutoCopies, c.Cash)
}

// z closes, and holds the answer and the refusals against the model.
func (tl *till) z(t fataler, kind validate.ClosingKind) {
	t.Helper()
	var want error
	switch open := func(k validate.ClosingKind) bool { return tl.since[k] < len(tl.acts) }; {
	case kind == validate.ShiftClosing && !tl.shift:
		want = ErrNoShift
	case kind != validate.ShiftClosing && tl.shift:
		want = ErrShiftOpen
	case kind != validate.ShiftClosing && kind != validate.DayClosing && open(validate.DayClosing),
		kind == validate.YearClosing && open(validate.MonthClosing):
		want = ErrClosingOrder
	}
	text := tl.want(kind)
	c, err := tl.l.Z(context.Background(), kind, Ending{Operator: "marie"})
	if !errors.Is(err, want) {
		t.Fatalf("Z of the %s: %v, want %v", kind, err, want)
	}
	if err != nil {
		return
	}
	if g := got(t, c); g != text {
		t.Fatalf("Z of the %s\n%s\nwant\n%s", kind, g, text)
	}
	tl.numbers[kind]++
	if c.Number != tl.numbers[kind] || c.To.Seq != c.Entry.Seq-1 || kind != validate.ShiftClosing && c.From.Seq != tl.to[kind]+1 {
		t.Fatalf("Z of the %s: number %d from %v to %v at %v; want number %d from %d on", kind, c.Number, c.From, c.To, c.Entry, tl.numbers[kind], tl.to[kind]+1)
	}
	tl.since[kind], tl.to[kind] = len(tl.acts), c.To.Seq
	switch kind {
	case validate.ShiftClosing:
		tl.shift = false
	case validate.DayClosing:
		tl.days = append(tl.days, c)
	}
}

func (tl *till) ask(t fataler, n int) {
	t.Helper()
	if len(tl.claims) == 0 {
		return
	}
	r := tl.claims[n%len(tl.claims)]
	answer, err := tl.l.RequestReversal(context.Background(), validate.Reversal{ID: tl.id(), Number: r.Number, Reason: validate.WrongTicket, Operator: "marie", Manager: "paul"})
	if tl.asked[r.Number] {
		if !errors.Is(err, ErrReversalExists) || answer.Number != r.Number {
			t.Fatalf("a second reversal of entry %v: %v", r.Number, err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	tl.asked[r.Number] = true
	tl.pending[answer.ID] = answer
	tl.add(act{r.Ticket.Block[0], r.Currency, r.Amount, "requested", false})
}

func (tl *till) answer(t fataler, accepted bool) {
	t.Helper()
	for id, r := range tl.pending {
		if err := tl.l.ReversalAnswer(context.Background(), id, accepted, "seen"); err != nil {
			t.Fatal(err)
		}
		delete(tl.pending, id)
		if accepted {
			tl.rounds[r.Ticket]++
			tl.add(act{r.Ticket.Block[0], r.Currency, r.Amount, "reversed", false})
			tl.pay(t, r.Ticket, tl.rounds[r.Ticket], r.Amount, r.Currency) // the right ticket, this time
		}
		return
	}
}

func (tl *till) reprint(t fataler, n int, auto bool) {
	t.Helper()
	if len(tl.claims) == 0 {
		return
	}
	r := tl.claims[n%len(tl.claims)]
	var err error
	a := act{r.Ticket.Block[0], r.Currency, 0, "reprint", false}
	if auto {
		a.what = "auto"
		_, err = tl.l.BeginCopy(context.Background(), r.Number)
	} else {
		_, err = tl.l.AppendReprint(context.Background(), r.Number, "marie", "the player asked")
	}
	if err != nil {
		t.Fatal(err)
	}
	tl.add(a)
}

func (tl *till) begin(t fataler, float money.Amount) {
	t.Helper()
	s, err := tl.l.OpenShift(context.Background(), "marie", float, "EUR")
	if tl.shift {
		if !errors.Is(err, ErrShiftOpen) {
			t.Fatalf("a second shift: %v", err)
		}
		return
	}
	if err != nil || s.Number != tl.numbers[validate.ShiftClosing]+1 {
		t.Fatalf("%+v %v", s, err)
	}
	tl.shift, tl.float, tl.since[validate.ShiftClosing] = true, float, len(tl.acts)
}

// checkX holds the X of some kinds against the model.
func (tl *till) checkX(t fataler, kinds ...validate.ClosingKind) {
	t.Helper()
	ctx := context.Background()
	for _, kind := range kinds {
		x, err := tl.l.X(ctx, kind)
		if kind == validate.ShiftClosing && !tl.shift {
			if !errors.Is(err, ErrNoShift) {
				t.Fatalf("X of no shift: %v", err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if g, w := got(t, x), tl.want(kind); g != w || x.Z() {
			t.Fatalf("X of the %s\n%s\nwant\n%s", kind, g, w)
		}
	}
}

// verify adds the whole journal up again.
func (tl *till) verify(t fataler) {
	t.Helper()
	c, err := tl.l.Verify(context.Background())
	var closings int64
	for _, n := range tl.numbers {
		closings += n
	}
	if err != nil || c.Closings != closings {
		t.Fatalf("%d closings, want %d: %v", c.Closings, closings, err)
	}
}

// perpetualOf is a closing's perpetual total of a currency.
func perpetualOf(c validate.Closing, currency string) validate.Perpetual {
	for _, p := range c.Perpetual {
		if p.Currency == currency {
			return p
		}
	}
	return validate.Perpetual{Currency: currency}
}

// step does one act or another, and gives the number that it drew for it.
func (tl *till) step(rt *rapid.T) int {
	n := rapid.IntRange(0, 1000).Draw(rt, "n")
	switch rapid.SampledFrom([]string{"pay", "pay", "pay", "ask", "answer", "reprint", "shift", "z", "z", "clock", "reopen", "training", "audit"}).Draw(rt, "act") {
	case "pay":
		amount := rapid.SampledFrom([]money.Amount{100, 1000, 1001, 5000, 30_000, 200_000, 200_001}).Draw(rt, "amount")
		tl.pay(rt, tl.newKey(byte(1+n%4)), 0, amount, []string{"EUR", "EUR", "XPF"}[n%3])
	case "ask":
		tl.ask(rt, n)
	case "answer":
		tl.answer(rt, n%3 > 0)
	case "reprint":
		tl.reprint(rt, n, n%2 == 0)
	case "shift":
		tl.begin(rt, money.Amount(n)*100)
	case "z":
		tl.z(rt, validate.ClosingKinds()[n%4])
	case "clock":
		tl.clock = rapid.SampledFrom([]time.Time{time.Unix(0, 0), noon.AddDate(20, 0, 0), noon.Add(-time.Hour), {}}).Draw(rt, "clock")
	case "reopen":
		tl.restart()
	case "audit":
		tl.audits = []AuditHead{auditHead("operators", int64(1+n))}
	case "training":
		if err := errors.Join(tl.l.SetTraining(context.Background(), true, "marie"), tl.l.SetTraining(context.Background(), false, "marie")); err != nil {
			rt.Fatal(err)
		}
	}
	return n
}

// TestAnySequenceOfActsSumsRight: whatever is done in whatever order, with restarts and a
// clock that jumps between, each period comes to what a plain list of the acts comes to,
// and the days are what the perpetual total grew by.
func TestAnySequenceOfActsSumsRight(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		tl := newTill(t)
		steps := rapid.IntRange(5, 30).Draw(rt, "steps")
		for range steps {
			n := tl.step(rt)
			tl.checkX(rt, validate.ClosingKinds()[n/4%4])
		}
		tl.verify(rt)
		if tl.shift {
			tl.z(rt, validate.ShiftClosing)
		}
		for _, kind := range validate.ClosingKinds()[1:] {
			tl.z(rt, kind)
		}
		tl.checkX(rt, validate.ClosingKinds()...)
		tl.verify(rt)
		tl.checkPerpetual(rt)
	})
}

// checkPerpetual: what the perpetual total grew by from day to day is what each day came to.
func (tl *till) checkPerpetual(t fataler) {
	t.Helper()
	before := map[string]validate.Perpetual{}
	for _, day := range tl.days {
		for _, currency := range []string{"EUR", "XPF"} {
			var paid, reversed validate.Sum
			for _, x := range day.Totals {
				if x.Currency == currency {
					paid, reversed = x.Paid, x.Reversed
				}
			}
			now, was := perpetualOf(day, currency), before[currency]
			if now.Paid.Money-was.Paid.Money != paid.Money || now.Paid.Count-was.Paid.Count != paid.Count || now.Reversed.Money-was.Reversed.Money != reversed.Money {
				t.Fatalf("day %d: the perpetual total of %s went from %+v to %+v, the day came to %+v and %+v", day.Number, currency, was, now, paid, reversed)
			}
			before[currency] = now
		}
	}
}

func TestClosingsTileTheJournal(t *testing.T) {
	tl := newTill(t)
	for day := range 3 {
		tl.clock = noon.AddDate(0, 0, -day) // backwards: ranges go by numbers
		for range 2 {
			tl.pay(t, tl.newKey(1), 0, 500, "EUR")
		}
		tl.z(t, validate.DayClosing)
	}
	var end int64
	for _, d := range tl.days {
		if d.From.Seq != end+1 {
			t.Errorf("day %d begins at %v, the one before ended at %d", d.Number, d.From, end)
		}
		end = d.To.Seq
	}
	if p := []string{tl.days[0].Period, tl.days[1].Period, tl.days[2].Period}; !slices.Equal(p, []string{"2026-11-30", "2026-11-29", "2026-11-28"}) {
		t.Errorf("periods %v", p)
	}
}

// TestClosingAfterMidnightIsCalledWhatItClosed: a day by its last act, a month and a year
// by their last day, in the shop's zone; with nothing in it, by the clock.
func TestClosingAfterMidnightIsCalledWhatItClosed(t *testing.T) {
	tl := newTill(t)
	zone := time.FixedZone("CET", 3600)
	called := func(kind validate.ClosingKind, want string) {
		t.Helper()
		tl.l.opt.Zone = zone
		x, err1 := tl.l.X(context.Background(), kind)
		z, err2 := tl.l.Z(context.Background(), kind, Ending{Operator: "marie"})
		if err := errors.Join(err1, err2); err != nil || x.Period != want || z.Period != want {
			t.Fatalf("%s: %q and %q, want %q: %v", kind, x.Period, z.Period, want, err)
		}
	}
	tl.clock = time.Date(2026, 12, 31, 22, 50, 0, 0, time.UTC) // 23:50
	tl.pay(t, tl.newKey(1), 0, 500, "EUR")
	tl.clock = time.Date(2027, 1, 2, 8, 0, 0, 0, time.UTC)
	called(validate.DayClosing, "2026-12-31")
	tl.restart()
	called(validate.MonthClosing, "2026-12")
	tl.restart()
	called(validate.YearClosing, "2026")
	for _, kind := range validate.ClosingKinds()[1:] {
		called(kind, "2027-01-02"[:map[validate.ClosingKind]int{validate.DayClosing: 10, validate.MonthClosing: 7, validate.YearClosing: 4}[kind]])
	}
	tl.clock = time.Date(12_000, 1, 1, 0, 0, 0, 0, time.UTC)
	called(validate.DayClosing, "0001-01-01")
	if _, err := tl.l.Verify(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// TestBlocksAreNamedOnceAYear: the first closing that counts a block names it, no other of
// that year does.
func TestBlocksAreNamedOnceAYear(t *testing.T) {
	tl := newTill(t)
	for year := range 2 {
		for day := range 3 {
			for block := range byte(2) {
				tl.pay(t, tl.newKey(1+block), 0, 500, "EUR")
			}
			tl.z(t, validate.DayClosing)
			var n int
			if err := tl.l.db.QueryRow("SELECT count(*) FROM entries WHERE kind = 'blocks'").Scan(&n); err != nil || n != year+1 {
				t.Fatalf("year %d, day %d: %d entries name blocks: %v", year, day, n, err)
			}
		}
		tl.z(t, validate.MonthClosing)
		tl.z(t, validate.YearClosing)
	}
}

func TestEmptyClosingsAreAllowedInARow(t *testing.T) {
	tl := newTill(t)
	for range 2 {
		for _, kind := range validate.ClosingKinds()[1:] {
			tl.z(t, kind)
		}
	}
	tl.checkX(t, validate.ClosingKinds()...)
	tl.verify(t)
}

// TestPerpetualTotalGoesOnAcrossJournalEpochs: an epoch raised after a restore begins
// its numbers anew, not its totals.
func TestPerpetualTotalGoesOnAcrossJournalEpochs(t *testing.T) {
	tl := newTill(t)
	tl.pay(t, tl.newKey(1), 0, 700, "EUR")
	tl.z(t, validate.DayClosing)
	tl.pay(t, tl.newKey(1), 0, 300, "EUR")
	if _, err := tl.l.db.Exec("UPDATE meta SET epoch = 2"); err != nil {
		t.Fatal(err)
	}
	if _, err := tl.l.db.Exec("INSERT INTO acks(epoch, seq) VALUES(2, 0)"); err != nil {
		t.Fatal(err)
	}
	tl.restart()
	tl.pay(t, tl.newKey(2), 0, 11, "EUR")
	c, err := tl.l.Z(context.Background(), validate.DayClosing, Ending{Operator: "marie"})
	if err != nil {
		t.Fatal(err)
	}
	if p := perpetualOf(c, "EUR"); p.Paid != (validate.Sum{Count: 3, Money: 1011}) || c.Number != 2 || c.From != (validate.EntryNumber{Epoch: 1, Seq: 3}) || c.To.Epoch != 2 || c.Totals[0].Paid.Money != 311 {
		t.Fatalf("%+v", c.ClosingFacts)
	}
	if _, err := tl.l.Verify(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// TestClosingOfManyGamesFitsAnEntry: long names and large sums, and more games than the
// list holds.
func TestClosingOfManyGamesFitsAnEntry(t *testing.T) {
	l := openTest(t, options(t.TempDir()))
	const games = 70
	for i := range games {
		c := claim(t, i)
		c.Ticket.Block, c.Amount = validate.BlockID{byte(i + 1)}, 99_999_999_999
		c.Slip.Game = strings.Repeat("É", 30) + fmt.Sprint(i%10) + strings.Repeat("x", i)
		c.Slip.Game = fmt.Sprintf("%02d", i) + c.Slip.Game
		record(t, l, c)
	}
	for _, kind := range validate.ClosingKinds()[1:] {
		c, err := l.Z(context.Background(), kind, Ending{Operator: strings.Repeat("m", 64)})
		if err != nil {
			t.Fatal(err)
		}
		var sum validate.Sum
		for _, g := range c.Games {
			sum, _ = sum.Add(g.Paid)
		}
		if last := c.Games[len(c.Games)-1]; len(c.Games) != maxGames+1 || last.Game != validate.OtherGames || sum != c.Totals[0].Paid || sum.Count != games {
			t.Fatalf("%s: %d games, the last %+v, together %v", kind, len(c.Games), last, sum)
		}
	}
	if c, err := l.Verify(context.Background()); err != nil || c.Closings != 3 {
		t.Fatalf("%+v %v", c, err)
	}
}

func TestTrainingKeepsPaymentsOut(t *testing.T) {
	ctx := context.Background()
	l := openTest(t, options(t.TempDir()))
	if err := l.SetTraining(ctx, true, "marie"); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time after a restart
		if _, err := l.Record(ctx, claim(t, 1)); !errors.Is(err, ErrTraining) {
			t.Fatalf("a claim in training: %v", err)
		}
		l = reopen(t, l)
	}
	if err := l.SetTraining(ctx, false, "marie"); err != nil {
		t.Fatal(err)
	}
	record(t, l, claim(t, 1))
	if n := len(lines(t, l)); n != 3 {
		t.Fatalf("%d entries", n)
	}
}

// TestAnswerFromTheFeedIsTakenOnceAndNeverStopsIt: answers that fit nothing here, or come
// again, or contradict the first, are stepped over; one that is not whole is refused.
func TestAnswerFromTheFeedIsTakenOnceAndNeverStopsIt(t *testing.T) {
	ctx := context.Background()
	tl := newTill(t)
	r := tl.pay(t, tl.newKey(1), 0, 500, "EUR")
	tl.ask(t, 0)
	asked, err := tl.l.Reversal(ctx, r.Number)
	if err != nil {
		t.Fatal(err)
	}
	item := func(edit func(*wire.ReversalItem)) wire.FeedItem {
		x := wire.ReversalItem{Reversal: asked.ID, Claim: asked.Claim, Accepted: true, Reason: "seen \"it\"\n"}
		edit(&x)
		return wire.FeedItem{Kind: wire.FeedReversal, Reversal: &x}
	}
	for n, step := range []struct {
		item    wire.FeedItem
		state   validate.ReversalState
		entries int
	}{
		{item(func(x *wire.ReversalItem) { x.Reversal = strings.Repeat("e", 32) }), validate.ReversalRequested, 2},
		{item(func(x *wire.ReversalItem) { x.Claim = strings.Repeat("e", 32) }), validate.ReversalRequested, 2},
		{item(func(*wire.ReversalItem) {}), validate.ReversalAccepted, 3},
		{item(func(*wire.ReversalItem) {}), validate.ReversalAccepted, 3},
		{item(func(x *wire.ReversalItem) { x.Accepted = false }), validate.ReversalAccepted, 3},
	} {
		step.item.Seq = int64(n + 1)
		if err := tl.l.ApplyFeed(ctx, []wire.FeedItem{step.item}, step.item.Seq); err != nil {
			t.Fatalf("step %d: %v", n, err)
		}
		tl.restart()
		got, err := tl.l.Reversal(ctx, r.Number)
		cursor, err2 := tl.l.FeedCursor(ctx)
		if err := errors.Join(err, err2); err != nil || got.State != step.state || cursor != int64(n+1) || len(lines(t, tl.l)) != step.entries {
			t.Fatalf("step %d: %s, cursor %d, %d entries: %v", n, got.State, cursor, len(lines(t, tl.l)), err)
		}
	}
	if got, err := tl.l.Reversal(ctx, r.Number); err != nil || got.Answer != "seen it" {
		t.Errorf("%q %v", got.Answer, err)
	}
	if err := tl.l.ApplyFeed(ctx, []wire.FeedItem{{Seq: 9, Kind: wire.FeedReversal}}, 9); !errors.Is(err, ErrFeed) {
		t.Errorf("an answer without its content: %v", err)
	}
	if _, err := tl.l.Verify(ctx); err != nil {
		t.Error(err)
	}
}

// TestHistoryIsRebuiltFromTheLedgerAlone: newest first, each kind, the same after a restart.
func TestHistoryIsRebuiltFromTheLedgerAlone(t *testing.T) {
	ctx := context.Background()
	tl := newTill(t)
	tl.begin(t, 100)
	tl.pay(t, tl.newKey(1), 0, 500, "EUR")
	tl.reprint(t, 0, false)
	tl.ask(t, 0)
	tl.z(t, validate.ShiftClosing)
	before, err := tl.l.History(ctx, 10)
	if err != nil {
		t.Fatal(err)
	}
	tl.restart()
	after, err := tl.l.History(ctx, 10)
	if err != nil || len(after) != 4 {
		t.Fatalf("%d acts: %v", len(after), err)
	}
	if c, r, p, k := after[0].Closing, after[1].Reversal, after[2].Reprint, after[3].Claim; c == nil || c.Kind != validate.ShiftClosing || r == nil || r.State != validate.ReversalRequested ||
		p == nil || p.Copy != 2 || p.Auto || k == nil || k.Copies != 2 {
		t.Fatalf("%+v", after)
	}
	one, err1 := encodeJSON(before)
	two, err2 := encodeJSON(after)
	if err := errors.Join(err1, err2); err != nil || string(one) != string(two) {
		t.Errorf("before the restart\n%s\nafter\n%s\n%v", one, two, err)
	}
	if two, err := tl.l.History(ctx, 2); err != nil || len(two) != 2 {
		t.Errorf("%d acts, want the newest 2: %v", len(two), err)
	}
	if z, err := tl.l.Closing(ctx, after[0].Entry); err != nil || !reflect.DeepEqual(z, *after[0].Closing) {
		t.Errorf("by its number %+v, %v", z, err)
	}
	if z, err := tl.l.Closing(ctx, after[3].Entry); !errors.Is(err, ErrNotFound) {
		t.Errorf("a payment is the closing %+v: %v", z, err)
	}
}

// TestEveryActIsWholeAfterAKill: the files as they lie at each step, as a process that is
// killed there leaves them, open to the same state, and the work goes on from it.
func TestEveryActIsWholeAfterAKill(t *testing.T) {
	ctx := context.Background()
	p := newParties(t)
	p.l = reopen(t, p.l) // with every commit synced
	steps := []func(){
		func() { p.begin(t, 100) }, func() { p.pay(t, p.newKey(1), 0, 500, "EUR") }, func() { p.ask(t, 0) }, func() { p.answer(t, true) },
		func() { p.reprint(t, 0, false) }, func() { p.reprint(t, 0, true) }, func() { p.z(t, validate.ShiftClosing) }, func() { p.z(t, validate.DayClosing) },
		func() { p.z(t, validate.MonthClosing) }, func() { p.z(t, validate.YearClosing) },
		func() {
			if err := p.l.SetTraining(ctx, true, "marie"); err != nil {
				t.Fatal(err)
			}
		},
	}
	for n, step := range steps {
		step()
		opt := p.l.opt
		opt.Path = filepath.Join(t.TempDir(), "ledger.db")
		for _, ending := range []string{"", "-wal", ".lock"} {
			raw, err := os.ReadFile(p.l.opt.Path + ending)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(opt.Path+ending, raw, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		killed := openTest(t, opt)
		if killed.Head() != p.l.Head() || killed.Training() != p.l.Training() {
			t.Fatalf("step %d: head %+v, want %+v", n, killed.Head(), p.l.Head())
		}
		if proof, err := killed.Prove(ctx, p.keys); err != nil || n >= 9 && !proof.Epochs[0].Device.Verified {
			t.Fatalf("step %d: %+v %v", n, proof, err)
		}
		x := *p.till
		x.l = killed
		x.checkX(t, validate.ClosingKinds()...)
		one, err1 := p.l.History(ctx, 20)
		two, err2 := x.l.History(ctx, 20)
		if err := errors.Join(err1, err2); err != nil || len(one) != len(two) {
			t.Fatalf("step %d: %d acts, %d after the kill: %v", n, len(one), len(two), err)
		}
		if !killed.Training() {
			record(t, killed, claim(t, 600))
		}
	}
}

func TestOpenShiftOutlivesARestart(t *testing.T) {
	ctx := context.Background()
	l := openTest(t, options(t.TempDir()))
	want, err := l.OpenShift(ctx, "marie", 15_000, "EUR")
	if err != nil {
		t.Fatal(err)
	}
	l = reopen(t, l)
	if s, err := l.Shift(ctx); err != nil || s == nil || *s != want {
		t.Fatalf("%+v %v, want %+v", s, err, want)
	}
	record(t, l, claim(t, 1))
	c, err := l.CloseShift(ctx, Ending{Operator: "marie"})
	if err != nil || c.Float != 15_000 || c.Cash != 13_000 || c.Number != 1 {
		t.Fatalf("%+v %v", c.ClosingFacts, err)
	}
	if s, err := l.Shift(ctx); err != nil || s != nil {
		t.Fatalf("%+v %v", s, err)
	}
}

func TestVerifyFindsEveryChangedClosingAndReversal(t *testing.T) {
	for name, sabotage := range map[string]string{
		"a closing's row removed": "DELETE FROM closings WHERE kind = 'day'",
		"a closing's row moved":   "UPDATE closings SET seq = 1",
		"a closing's row added":   "INSERT INTO closings(kind, number, period, epoch, seq) VALUES('day', 9, '2026-11-30', 1, 1)",
		"a closing renamed":       "UPDATE closings SET period = '2026-12-24'",
		"a reversal accepted":     "UPDATE reversals SET state = 'accepted'",
		"a reversal removed":      "DELETE FROM reversals",
		"a reversal of another":   "UPDATE reversals SET claim_seq = 2",
	} {
		ctx := context.Background()
		tl := newTill(t)
		tl.pay(t, tl.newKey(1), 0, 500, "EUR")
		tl.pay(t, tl.newKey(1), 0, 500, "EUR")
		tl.ask(t, 0)
		tl.z(t, validate.DayClosing)
		if _, err := tl.l.Verify(ctx); err != nil {
			t.Fatal(err)
		}
		texts := dropTriggers(t, tl.l)
		for _, q := range append(slices.Insert(texts.drop, len(texts.drop), sabotage), texts.create...) {
			if _, err := tl.l.db.Exec(q); err != nil {
				t.Fatalf("%s: %v", q, err)
			}
		}
		if _, err := tl.l.Verify(ctx); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// triggers are how a thief with the file opened takes the triggers away and puts them back.
type triggers struct{ drop, create []string }

func dropTriggers(t testing.TB, l *Ledger) (x triggers) {
	t.Helper()
	rows, err := l.db.Query("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var name, text string
		if err := rows.Scan(&name, &text); err != nil {
			t.Fatal(err)
		}
		x.drop, x.create = append(x.drop, "DROP TRIGGER "+name), append(x.create, text)
	}
	return x
}

// TestClosingThatLiesIsFoundFromItsLinesAlone: a chain made anew around other totals,
// with every hash right, does not add up.
func TestClosingThatLiesIsFoundFromItsLinesAlone(t *testing.T) {
	tl := newTill(t)
	tl.pay(t, tl.newKey(1), 0, 500, "EUR")
	honest, err := tl.l.X(context.Background(), validate.DayClosing)
	if err != nil {
		t.Fatal(err)
	}
	b := newBooks()
	if err := tl.l.Lines(context.Background(), 1, 1, func(_ int64, line []byte) error {
		e, err := ParseEntry(line)
		if err != nil {
			return err
		}
		return b.add(e)
	}); err != nil {
		t.Fatal(err)
	}
	b.names[validate.BlockID{1}] = NamedBlock{Game: "Game B"}
	for name, lie := range map[string]func(*validate.ClosingFacts){
		"the truth":        func(*validate.ClosingFacts) {},
		"less paid":        func(f *validate.ClosingFacts) { f.Totals[0].Paid.Money-- },
		"another game":     func(f *validate.ClosingFacts) { f.Games[0].Game = "Game A" },
		"a lower total":    func(f *validate.ClosingFacts) { f.Perpetual[0].Paid.Money-- },
		"an entry left":    func(f *validate.ClosingFacts) { f.To.Seq = 0 },
		"a number skipped": func(f *validate.ClosingFacts) { f.Number++ },
		"a copy forgotten": func(f *validate.ClosingFacts) { f.AutoCopies++ },
	} {
		f := honest.ClosingFacts
		f.Totals, f.Games, f.Perpetual = slices.Clone(f.Totals), slices.Clone(f.Games), slices.Clone(f.Perpetual)
		lie(&f)
		if err := b.check(f); (err == nil) != (name == "the truth") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestClosingIsSignedWithItsEntry(t *testing.T) {
	opt := options(t.TempDir())
	var signed string
	opt.Sign = func(text []byte) ([]byte, error) { signed = string(text); return []byte("signature"), nil }
	l := openTest(t, opt)
	record(t, l, claim(t, 1))
	c, err := l.Z(context.Background(), validate.DayClosing, Ending{Operator: "marie", Period: "2026-11-29"})
	if err != nil || signed != HeadText(c) || c.Period != "2026-11-29" {
		t.Fatalf("%q, want %q: %v", signed, HeadText(c), err)
	}
	if h := l.Head(); c.Hash != h.Hash.String() || c.Entry.Seq != h.Seq {
		t.Fatalf("the closing is %v %s, the head %+v", c.Entry, c.Hash, h)
	}
	failing := errors.New("no key")
	l.opt.Sign = func([]byte) ([]byte, error) { return nil, failing }
	before := l.Head()
	if _, err := l.Z(context.Background(), validate.DayClosing, Ending{Operator: "marie"}); !errors.Is(err, failing) || l.Head() != before {
		t.Fatalf("a closing without its signature: %v", err)
	}
	record(t, l, claim(t, 2))
}
