package ledger

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"grattoir/sync/wire"
	"grattoir/validate"
	"grattoir/validate/money"
)

// granted makes a claim one that central has allowed.
func granted(t testing.TB, l *Ledger, c validate.Claim) validate.Claim {
	t.Helper()
	if _, err := l.Intend(context.Background(), c); err != nil {
		t.Fatal(err)
	}
	answered(t, l, wire.ClaimAnswer{Claim: c.ID, State: wire.ClaimApproved, OwnerEpoch: 3})
	c.Right = validate.RightGrant
	return c
}

func answered(t testing.TB, l *Ledger, a wire.ClaimAnswer) {
	t.Helper()
	if err := l.ClaimAnswered(context.Background(), a); err != nil {
		t.Fatal(err)
	}
}

// intentOf is the newest intent of a claim's ticket.
func intentOf(t testing.TB, l *Ledger, c validate.Claim) validate.Intent {
	t.Helper()
	i, err := l.Intent(context.Background(), c.Ticket)
	if err != nil {
		t.Fatal(err)
	}
	if i == nil {
		return validate.Intent{}
	}
	return *i
}

func holdOf(c validate.Claim, seq int64) []wire.FeedItem {
	return []wire.FeedItem{{Seq: seq, Kind: wire.FeedHold, Hold: &wire.HoldItem{Block: c.Ticket.Block, Pack: c.Ticket.Pack, Ticket: c.Ticket.Number, OwnerEpoch: 3}}}
}

func wantRight(t testing.TB, l *Ledger, c validate.Claim) {
	t.Helper()
	if r, err := l.Record(context.Background(), c); !errors.Is(err, ErrRight) {
		t.Fatalf("paid as %v, or refused otherwise: %v", r.Number, err)
	}
}

// TestOnlyTheVeryClaimThatCentralAllowedIsPaid: not before its answer, not another id, not
// by the owner's right beside it, and once.
func TestOnlyTheVeryClaimThatCentralAllowedIsPaid(t *testing.T) {
	ctx := context.Background()
	l := openTest(t, options(t.TempDir()))
	c, other := claim(t, 1), claim(t, 1)
	other.ID = fmt.Sprintf("%032x", 99)
	asked := c
	asked.Right = validate.RightGrant
	wantRight(t, l, asked)
	if i, err := l.Intend(ctx, c); err != nil || i.State != validate.IntentAsking || i.Claim != c.ID {
		t.Fatalf("%+v %v", i, err)
	}
	wantRight(t, l, asked)
	wantRight(t, l, other) // by the owner's right, while central decides
	l = reopen(t, l)
	answered(t, l, wire.ClaimAnswer{Claim: c.ID, State: wire.ClaimApproved, OwnerEpoch: 3})
	l = reopen(t, l)
	other.Right = validate.RightGrant
	wantRight(t, l, other)
	other.Right = validate.RightOwner
	wantRight(t, l, other)
	if i := intentOf(t, l, c); i.State != validate.IntentApproved || i.OwnerEpoch != 3 || i.Amount != c.Amount {
		t.Fatalf("%+v", i)
	}
	first := record(t, l, asked)
	if again := record(t, l, asked); again.Number != first.Number {
		t.Fatalf("entry %v, then %v", first.Number, again.Number)
	}
	l = reopen(t, l)
	if i := intentOf(t, l, c); i.State != validate.IntentUsed {
		t.Errorf("a paid intent is %s", i.State)
	}
	if _, err := l.Record(ctx, other); !errors.Is(err, ErrPaid) {
		t.Errorf("paid twice: %v", err)
	}
	if _, err := l.Verify(ctx); err != nil {
		t.Error(err)
	}
}

// TestFirstAnswerStands: what central says later, or twice, changes nothing.
func TestFirstAnswerStands(t *testing.T) {
	l := openTest(t, options(t.TempDir()))
	for n, first := range []wire.ClaimState{wire.ClaimApproved, wire.ClaimDenied} {
		c := claim(t, n+1)
		if _, err := l.Intend(context.Background(), c); err != nil {
			t.Fatal(err)
		}
		answered(t, l, wire.ClaimAnswer{Claim: c.ID, State: wire.ClaimPending})
		if i := intentOf(t, l, c); i.State != validate.IntentAsking || !i.Silent {
			t.Fatalf("the owner is silent: %+v", i)
		}
		if list, err := l.OpenClaims(context.Background()); err != nil || len(list) != 0 {
			t.Fatalf("%d asked by themselves: %v", len(list), err)
		}
		answered(t, l, wire.ClaimAnswer{Claim: c.ID, State: first, Why: wire.WhyPaid, Paid: &wire.PaidItem{Terminal: "T-9", Number: "1-000042", At: wire.FormatTime(noon)}})
		want := intentOf(t, l, c)
		for _, late := range []wire.ClaimState{wire.ClaimPending, wire.ClaimApproved, wire.ClaimDenied, wire.ClaimReturned} {
			answered(t, l, wire.ClaimAnswer{Claim: c.ID, State: late})
		}
		l = reopen(t, l)
		got := intentOf(t, l, c)
		if got.State != want.State || got.Why != want.Why || got.Paid == nil || *got.Paid != *want.Paid || got.Paid.Terminal != "T-9" || !got.Paid.At.Equal(noon.Truncate(time.Millisecond)) {
			t.Errorf("%+v, was %+v", got, want)
		}
	}
}

// TestGivenBackClaimPaysNothing: from the moment on which it is given up, whatever central
// had answered or still answers; its ticket is free once central has heard.
func TestGivenBackClaimPaysNothing(t *testing.T) {
	ctx := context.Background()
	l := openTest(t, options(t.TempDir()))
	c := granted(t, l, claim(t, 1))
	if err := l.GiveBack(ctx, c.ID); err != nil {
		t.Fatal(err)
	}
	l = reopen(t, l)
	wantRight(t, l, c)
	answered(t, l, wire.ClaimAnswer{Claim: c.ID, State: wire.ClaimApproved}) // late
	wantRight(t, l, c)
	own := claim(t, 1)
	own.ID = fmt.Sprintf("%032x", 99)
	wantRight(t, l, own) // central may still think that it is paid by the other id
	list, err := l.OpenClaims(ctx)
	if err != nil || len(list) != 1 || !list[0].Return || list[0].Claim != c.ID {
		t.Fatalf("central is to hear %+v: %v", list, err)
	}
	answered(t, l, wire.ClaimAnswer{Claim: c.ID, State: wire.ClaimReturned})
	if list, err := l.OpenClaims(ctx); err != nil || len(list) != 0 {
		t.Fatalf("%+v: %v", list, err)
	}
	record(t, l, own)
}

// TestHeldTicketIsNeverAgainPaidByTheOwnerAlone, over restarts and whatever its pack
// becomes; central's word pays it.
func TestHeldTicketIsNeverAgainPaidByTheOwnerAlone(t *testing.T) {
	ctx := context.Background()
	l := openTest(t, options(t.TempDir()))
	c := claim(t, 1)
	if err := l.ApplyFeed(ctx, append([]wire.FeedItem{packItem(1, 120, 179, 3)}, holdOf(c, 2)...), 2); err != nil {
		t.Fatal(err)
	}
	wantRight(t, l, c)
	if err := l.ApplyFeed(ctx, []wire.FeedItem{packItem(3, 120, 179, 4)}, 3); err != nil {
		t.Fatal(err)
	}
	l = reopen(t, l)
	wantRight(t, l, c)
	if held, err := l.Held(ctx, c.Ticket); err != nil || !held {
		t.Fatalf("held %v, %v", held, err)
	}
	record(t, l, claim(t, 2)) // its neighbour
	acks, head, err := l.HoldsWaiting(ctx, 10)
	if err != nil || len(acks) != 1 || acks[0].Hold != 2 || acks[0].Paid != (validate.EntryNumber{}) || head.Seq != 1 {
		t.Fatalf("%+v at %+v: %v", acks, head, err)
	}
	if err := l.HoldsStored(ctx, []int64{2}); err != nil {
		t.Fatal(err)
	}
	if acks, _, err := l.HoldsWaiting(ctx, 10); err != nil || len(acks) != 0 {
		t.Fatalf("told again: %+v %v", acks, err)
	}
	record(t, l, granted(t, l, c))
}

// TestHoldNamesThePaymentThatWasBefore: the owner had been quicker.
func TestHoldNamesThePaymentThatWasBefore(t *testing.T) {
	ctx := context.Background()
	l := openTest(t, options(t.TempDir()))
	r := record(t, l, claim(t, 1))
	if err := l.ApplyFeed(ctx, holdOf(r.Claim, 1), 1); err != nil {
		t.Fatal(err)
	}
	l = reopen(t, l)
	acks, _, err := l.HoldsWaiting(ctx, 10)
	if err != nil || len(acks) != 1 || acks[0].Paid != r.Number || acks[0].At == "" {
		t.Fatalf("%+v %v", acks, err)
	}
}

// TestWhatCentralAllowsNeedsNoAllowance: the allowance bounds what is paid without it.
func TestWhatCentralAllowsNeedsNoAllowance(t *testing.T) {
	opt := options(t.TempDir())
	opt.Allowance = Allowance{Claims: 1}
	l := openTest(t, opt)
	record(t, l, claim(t, 1))
	if _, err := l.Record(context.Background(), claim(t, 2)); !errors.Is(err, ErrAllowance) {
		t.Fatal(err)
	}
	record(t, l, granted(t, l, claim(t, 2)))
}

// TestAnySequenceOfRightsPaysByOneOfThemOnly holds holds, intents, restarts and the
// allowance against a plain model of who may pay.
func TestAnySequenceOfRightsPaysByOneOfThemOnly(t *testing.T) {
	dir := t.TempDir()
	runs := 0
	rapid.Check(t, func(rt *rapid.T) {
		runs++
		opt := options(dir)
		opt.Path = fmt.Sprintf("%s/%d.db", dir, runs)
		opt.Allowance = Allowance{Claims: 3}
		m := rightsModel{t: t, l: openTest(t, opt), tickets: map[int]*rightModel{}}
		defer func() { _ = m.l.Close() }()
		rt.Repeat(map[string]func(*rapid.T){
			"intend": m.intend, "answer": m.answer, "give back": m.giveBack, "hold": m.hold, "pay": m.pay, "pay by grant": m.payGranted,
			"ack": m.ack, "restart": m.restart,
		})
		if _, err := m.l.Verify(context.Background()); err != nil {
			rt.Fatal(err)
		}
	})
}

// rightModel is one ticket as a reader of the contract would keep it on paper.
type rightModel struct {
	held, paid bool
	live       string // id of the live intent
	state      validate.IntentState
}

type rightsModel struct {
	t       *testing.T
	l       *Ledger
	next    int
	feed    int64
	unsent  int64
	tickets map[int]*rightModel
}

func (m *rightsModel) draw(rt *rapid.T) (int, *rightModel) {
	n := rapid.IntRange(1, 3).Draw(rt, "ticket")
	if m.tickets[n] == nil {
		m.tickets[n] = &rightModel{}
	}
	return n, m.tickets[n]
}

func (m *rightsModel) claim(n int) validate.Claim {
	m.next++
	c := claim(m.t, n)
	c.ID = fmt.Sprintf("%032x", 1000+m.next)
	return c
}

func (m *rightsModel) intend(rt *rapid.T) {
	n, w := m.draw(rt)
	c := m.claim(n)
	i, err := m.l.Intend(context.Background(), c)
	switch {
	case w.live == "" && w.paid:
		if !errors.Is(err, ErrPaid) {
			rt.Fatalf("an intent of a paid ticket: %v", err)
		}
		return
	case w.live == "":
		w.live, w.state = c.ID, validate.IntentAsking
	}
	if err != nil || i.Claim != w.live || i.State != w.state {
		rt.Fatalf("%+v %v, want %s %s", i, err, w.live, w.state)
	}
}

func (m *rightsModel) answer(rt *rapid.T) {
	_, w := m.draw(rt)
	state := rapid.SampledFrom([]wire.ClaimState{wire.ClaimPending, wire.ClaimApproved, wire.ClaimDenied, wire.ClaimReturned}).Draw(rt, "answer")
	answered(m.t, m.l, wire.ClaimAnswer{Claim: w.live, State: state})
	final := state == wire.ClaimDenied || state == wire.ClaimReturned
	switch {
	case w.state == validate.IntentAsking && state == wire.ClaimApproved:
		w.state = validate.IntentApproved
	case w.state == validate.IntentAsking && final, w.state == validate.IntentReturning && final:
		w.live, w.state = "", ""
	}
}

func (m *rightsModel) giveBack(rt *rapid.T) {
	_, w := m.draw(rt)
	if err := m.l.GiveBack(context.Background(), w.live); err != nil {
		rt.Fatal(err)
	}
	if w.live != "" {
		w.state = validate.IntentReturning
	}
}

func (m *rightsModel) hold(rt *rapid.T) {
	n, w := m.draw(rt)
	m.feed++
	if err := m.l.ApplyFeed(context.Background(), holdOf(m.claim(n), m.feed), m.feed); err != nil {
		rt.Fatal(err)
	}
	w.held = true
	acks, _, err := m.l.HoldsWaiting(context.Background(), 100)
	if err != nil || len(acks) == 0 || (acks[len(acks)-1].Paid.Seq > 0) != w.paid {
		rt.Fatalf("%+v, paid %v: %v", acks, w.paid, err)
	}
}

// record gives what stands in the way of a claim, and counts it where nothing does.
func (m *rightsModel) record(c validate.Claim, w *rightModel) error {
	_, err := m.l.Record(context.Background(), c)
	if err == nil {
		w.paid = true
		m.unsent++
	}
	return err
}

func (m *rightsModel) pay(rt *rapid.T) {
	n, w := m.draw(rt)
	want := error(nil)
	switch {
	case w.paid:
		want = ErrPaid
	case w.held, w.live != "":
		want = ErrRight
	case m.unsent >= 3:
		want = ErrAllowance
	}
	if err := m.record(m.claim(n), w); !errors.Is(err, want) || (want == nil) != (err == nil) {
		rt.Fatalf("the owner pays: %v, want %v; %+v", err, want, w)
	}
}

func (m *rightsModel) payGranted(rt *rapid.T) {
	n, w := m.draw(rt)
	c := m.claim(n)
	c.Right = validate.RightGrant
	if w.live != "" {
		c.ID = w.live
	}
	want := ErrRight
	switch {
	case w.paid:
		want = ErrPaid
	case w.state == validate.IntentApproved:
		want = nil
	}
	if err := m.record(c, w); !errors.Is(err, want) || (want == nil) != (err == nil) {
		rt.Fatalf("by central's word: %v, want %v; %+v", err, want, w)
	}
	if want == nil {
		w.live, w.state = "", ""
	}
}

// restart is rarer than the other acts, for it costs more than all of them.
func (m *rightsModel) restart(rt *rapid.T) {
	if rapid.IntRange(0, 5).Draw(rt, "restart") == 5 {
		m.l = reopen(m.t, m.l)
	}
}

func (m *rightsModel) ack(*rapid.T) {
	head := m.l.Head()
	ackTo(m.t, m.l, head.Seq)
	m.unsent = 0
}

// ackTo acknowledges up to an entry, with an allowance of three claims.
func ackTo(t testing.TB, l *Ledger, seq int64) {
	t.Helper()
	a := ackAt(t, l, seq, noon)
	a.AllowanceClaims, a.AllowanceMinor = 3, int64(money.Amount(1<<40))
	if err := l.Ack(context.Background(), a); err != nil {
		t.Fatal(err)
	}
}

// TestBookedRiskStandsBeforeItsClaim: named in the journal with who bears it, only for a
// claim that central was asked about, within its limit and the allowance.
func TestBookedRiskStandsBeforeItsClaim(t *testing.T) {
	opt := options(t.TempDir())
	opt.Allowance = Allowance{Claims: 1}
	l := openTest(t, opt)
	c := claim(t, 1)
	c.Right, c.Risk = validate.RightRisk, &validate.Risk{Party: "lottery", Limit: 2000, Why: "owner-silent"}
	wantRight(t, l, c)
	if _, err := l.Intend(context.Background(), c); err != nil {
		t.Fatal(err)
	}
	for name, edit := range map[string]func(*validate.Claim){
		"nobody bears it": func(c *validate.Claim) { c.Risk = nil }, "above the limit": func(c *validate.Claim) { c.Risk = &validate.Risk{Party: "lottery", Limit: 1999, Why: "owner-silent"} },
		"another id": func(c *validate.Claim) { c.ID = fmt.Sprintf("%032x", 99) },
	} {
		bad := c
		edit(&bad)
		if r, err := l.Record(context.Background(), bad); !errors.Is(err, ErrRight) {
			t.Errorf("%s: %v %v", name, r.Number, err)
		}
	}
	r := record(t, l, c)
	list := entriesOf(t, l, KindBookedRisk)
	if len(list) != 1 || list[0].Seq != r.Number.Seq-1 {
		t.Fatalf("%+v before %v", list, r.Number)
	}
	if b, err := list[0].BookedRisk(); err != nil || b.Claim != c.ID || b.Party != "lottery" || b.AmountMinor != 2000 || b.Why != "owner-silent" || b.Policy != "p1" {
		t.Fatalf("%+v %v", b, err)
	}
	l = reopen(t, l)
	if i := intentOf(t, l, c); i.State != validate.IntentUsed {
		t.Errorf("%s", i.State)
	}
	second := claim(t, 2)
	second.Right, second.Risk = c.Right, c.Risk
	if _, err := l.Intend(context.Background(), second); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Record(context.Background(), second); !errors.Is(err, ErrAllowance) {
		t.Errorf("beyond the allowance: %v", err)
	}
	if _, err := l.Verify(context.Background()); err != nil {
		t.Error(err)
	}
}
