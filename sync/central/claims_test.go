package central

import (
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"grattoir/sync/ledger"
	"grattoir/sync/wire"
	"grattoir/validate"
)

// request is the question about a claim, whose journal entry would have the same body.
func request(c ledger.ClaimBody) wire.ClaimRequest {
	return wire.ClaimRequest{Protocol: 1, Claim: c.Claim, Block: c.Block, Pack: c.Pack, Ticket: c.Ticket, Round: c.Round, Tier: c.Tier, AmountMinor: c.AmountMinor,
		Currency: c.Currency, Opening: c.Opening}
}

// wanted is the body of a claim of a ticket under an id of its own.
func (d *device) wanted(t testing.TB, l lot, id, round int) ledger.ClaimBody {
	t.Helper()
	c := d.claim(t, l)
	c.Claim, c.Round = fmt.Sprintf("%032x", id), round
	return d.sealed(t, c, l.code.Secret())
}

func (d *device) ask(t testing.TB, q wire.ClaimRequest) wire.ClaimAnswer {
	t.Helper()
	var a wire.ClaimAnswer
	if e := post(t, d.client, wire.PathClaim, q, &a); e != nil {
		t.Fatal(e)
	}
	if a.Claim != q.Claim || a.Protocol != 1 {
		t.Fatalf("an answer to another question: %+v", a)
	}
	return a
}

// asks asks beside the test.
func (d *device) asks(t testing.TB, q wire.ClaimRequest) <-chan wire.ClaimAnswer {
	t.Helper()
	out := make(chan wire.ClaimAnswer, 1)
	go func() {
		var a wire.ClaimAnswer
		if e := post(t, d.client, wire.PathClaim, q, &a); e != nil {
			t.Error(e)
		}
		out <- a
	}()
	return out
}

// hear waits for a hold in the feed after a cursor.
func (d *device) hear(t testing.TB, after int64) wire.FeedItem {
	t.Helper()
	for {
		var f wire.Feed
		if e := get(t, d.client, fmt.Sprintf("%s?after=%d&wait=20", wire.PathFeed, after), &f); e != nil {
			t.Fatal(e)
		}
		if len(f.Items) == 0 {
			t.Fatal("no hold came")
		}
		for _, item := range f.Items {
			if after = item.Seq; item.Hold != nil {
				return item
			}
		}
	}
}

// holds answers a hold: paid by an entry of the journal, 0 for none.
func (d *device) holds(t testing.TB, item wire.FeedItem, paid int64) *wire.Error {
	t.Helper()
	var a wire.HoldAnswer
	e := post(t, d.client, wire.PathHolds, d.gives(t, item, paid), &a)
	if e == nil && !reflect.DeepEqual(a.Stored, []int64{item.Seq}) {
		t.Fatalf("stored %v of hold %d", a.Stored, item.Seq)
	}
	return e
}

// gives is the message of it.
func (d *device) gives(t testing.TB, item wire.FeedItem, paid int64) wire.HoldUpload {
	t.Helper()
	ack := wire.HoldAck{Hold: item.Seq, Block: item.Hold.Block, Pack: item.Hold.Pack, Ticket: item.Hold.Ticket}
	if paid > 0 {
		ack.Paid, ack.At = validate.EntryNumber{Epoch: d.epoch, Seq: paid}, "2026-11-30T11:59:00.000Z"
	}
	u := wire.HoldUpload{Protocol: 1, Head: d.head(int64(len(d.lines))), Holds: []wire.HoldAck{ack}}
	sum := sha256.Sum256([]byte(wire.HeadText(d.name, u.Head)))
	raw, err := ecdsa.SignASN1(rand.Reader, d.key, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	u.Signature = base64.StdEncoding.EncodeToString(raw)
	return u
}

// two are a pack's owner and another terminal, and a winner of the pack.
func two(t *testing.T, w *world) (a, b *device, won lot) {
	t.Helper()
	a, b = w.enrolled(t, "T-A"), w.enrolled(t, "T-B")
	w.give(t, "T-A", 10, 19)
	return a, b, w.winners(10, 19)[0]
}

func wantState(t testing.TB, a wire.ClaimAnswer, state wire.ClaimState, why wire.ClaimWhy) {
	t.Helper()
	if a.State != state || a.Why != why {
		t.Fatalf("answer %+v, want %s %s", a, state, why)
	}
}

// TestForeignTicketIsPaidOnceItsOwnerHoldsIt: the owner is asked over its feed, gives way,
// and only then is the other terminal allowed; whatever comes afterwards is a conflict.
func TestForeignTicketIsPaidOnceItsOwnerHoldsIt(t *testing.T) {
	onEachStore(t, testForeignTicketIsPaidOnceItsOwnerHoldsIt)
}

func testForeignTicketIsPaidOnceItsOwnerHoldsIt(t *testing.T, w *world) {
	a, b, won := two(t, w)
	w.patience = time.Minute // the owner is there; its answer ends the wait
	body := b.wanted(t, won, 0xb1, 0)
	answer := b.asks(t, request(body))
	hold := a.hear(t, 0)
	if hold.Hold.Ticket != won.code.Number || hold.Hold.OwnerEpoch != 1 {
		t.Fatalf("%+v", hold.Hold)
	}
	select {
	case got := <-answer:
		t.Fatalf("answered before the owner has: %+v", got)
	default:
	}
	if e := a.holds(t, hold, 0); e != nil {
		t.Fatal(e)
	}
	first := <-answer
	wantState(t, first, wire.ClaimApproved, "")
	if first.OwnerEpoch != 1 {
		t.Errorf("owner epoch %d", first.OwnerEpoch)
	}
	if again := b.ask(t, request(body)); !reflect.DeepEqual(again, first) {
		t.Errorf("%+v, was %+v", again, first)
	}
	other := b.wanted(t, won, 0xb2, 0)
	wantState(t, b.ask(t, request(other)), wire.ClaimDenied, wire.WhyGranted)
	wantState(t, a.ask(t, request(a.wanted(t, won, 0xa1, 0))), wire.ClaimDenied, wire.WhyGranted)

	// A broken owner pays it all the same, and its journal comes first.
	a.pay(t, won)
	_, up := a.send(t, 1, 1)
	wantException(t, up, 1, wire.NoRight)
	b.record(t, ledger.KindClaim, body)
	if _, up := b.send(t, 1, 1); len(up.Exceptions) != 0 {
		t.Fatalf("the allowed claim was not credited: %+v", up.Exceptions)
	}
	if n := w.count(t, "SELECT count(*) FROM claims WHERE terminal = 'T-B'"); n != 1 {
		t.Fatalf("%d credited", n)
	}
	if again := b.ask(t, request(body)); !reflect.DeepEqual(again, first) {
		t.Errorf("after it was paid %+v, was %+v", again, first)
	}
	back := request(body)
	back.Return = true
	wantState(t, b.ask(t, back), wire.ClaimApproved, "") // what is paid is not given back
	late := b.ask(t, request(b.wanted(t, won, 0xb3, 0)))
	wantState(t, late, wire.ClaimDenied, wire.WhyPaid)
	if late.Paid == nil || late.Paid.Terminal != "T-B" || late.Paid.Number != "1-000001" {
		t.Errorf("%+v", late.Paid)
	}
	if n := w.count(t, "SELECT count(*) FROM holds WHERE state = 'held' AND head_seq = 0 AND signature <> ''"); n != 1 {
		t.Errorf("%d holds with the owner's signed head", n)
	}
}

// TestSilentOwnerIsToldAndMayAnswerLater: pending is no final answer, and the hold stays.
func TestSilentOwnerIsToldAndMayAnswerLater(t *testing.T) {
	onEachStore(t, testSilentOwnerIsToldAndMayAnswerLater)
}

func testSilentOwnerIsToldAndMayAnswerLater(t *testing.T, w *world) {
	a, b, won := two(t, w)
	w.patience = time.Millisecond
	q := request(b.wanted(t, won, 0xb1, 0))
	for range 3 {
		wantState(t, b.ask(t, q), wire.ClaimPending, wire.WhyOwnerSilent)
	}
	if n := w.count(t, "SELECT count(*) FROM holds"); n != 1 {
		t.Fatalf("the owner was asked %d times", n)
	}
	if e := a.holds(t, a.hear(t, 0), 0); e != nil {
		t.Fatal(e)
	}
	wantState(t, b.ask(t, q), wire.ClaimApproved, "")
}

// TestOwnerThatHadPaidSaysSo: the other terminal hears where and when, before the owner's
// journal has come and after; a claim of it that proves nothing stands in nobody's way.
func TestOwnerThatHadPaidSaysSo(t *testing.T) {
	onEachStore(t, testOwnerThatHadPaidSaysSo)
}

func testOwnerThatHadPaidSaysSo(t *testing.T, w *world) {
	a, b, won := two(t, w)
	w.patience = time.Millisecond
	a.pay(t, won)
	wantState(t, b.ask(t, request(b.wanted(t, won, 0xb1, 0))), wire.ClaimPending, wire.WhyOwnerSilent)
	if e := a.holds(t, a.hear(t, 0), 1); e != nil {
		t.Fatal(e)
	}
	for i := range 2 {
		got := b.ask(t, request(b.wanted(t, won, 0xb1+i, 0)))
		wantState(t, got, wire.ClaimDenied, wire.WhyPaid)
		if got.Paid == nil || got.Paid.Terminal != "T-A" || got.Paid.Number != "1-000001" || got.Paid.At != "2026-11-30T11:59:00.000Z" {
			t.Errorf("%+v", got.Paid)
		}
		if _, up := a.send(t, 1, 1); len(up.Exceptions) != 0 {
			t.Fatalf("%+v", up.Exceptions)
		}
	}
	second := w.winners(10, 19)[1]
	c := a.claim(t, second)
	a.record(t, ledger.KindClaim, a.sealed(t, c, strings.Repeat("9", len(second.code.Secret()))))
	q := request(b.wanted(t, second, 0xb9, 0))
	wantState(t, b.ask(t, q), wire.ClaimPending, wire.WhyOwnerSilent)
	if e := a.holds(t, a.hear(t, int64(w.count(t, "SELECT max(feed) - 1 FROM holds"))), 2); e != nil {
		t.Fatal(e)
	}
	_, up := a.send(t, 2, 2)
	wantException(t, up, 2, wire.ClaimUnproven)
	wantState(t, b.ask(t, q), wire.ClaimApproved, "")
	third := w.winners(10, 19)[2]
	b.pay(t, third) // scratched, and without a right
	_, up = b.send(t, 1, 1)
	wantException(t, up, 1, wire.NoRight)
	wantState(t, a.ask(t, request(a.wanted(t, third, 0xa9, 0))), wire.ClaimDenied, wire.WhyPaid)
}

// TestGivenBackApprovalFreesTheTicket, and an id that was given back before it was ever
// heard is not approved when its request comes late.
func TestGivenBackApprovalFreesTheTicket(t *testing.T) {
	onEachStore(t, testGivenBackApprovalFreesTheTicket)
}

func testGivenBackApprovalFreesTheTicket(t *testing.T, w *world) {
	a, b, won := two(t, w)
	own := a.wanted(t, won, 0xa1, 0)
	wantState(t, a.ask(t, request(own)), wire.ClaimApproved, "") // the owner needs no hold
	back := request(own)
	back.Return = true
	for range 2 {
		wantState(t, a.ask(t, back), wire.ClaimReturned, "")
	}
	wantState(t, a.ask(t, request(own)), wire.ClaimReturned, "")
	if n := w.count(t, "SELECT count(*) FROM reservations"); n != 0 {
		t.Fatalf("%d tickets are kept from everybody by a claim that was given back", n)
	}
	never := request(a.wanted(t, won, 0xa2, 0))
	never.Return = true
	wantState(t, a.ask(t, never), wire.ClaimReturned, "")
	never.Return = false
	wantState(t, a.ask(t, never), wire.ClaimReturned, "")
	a.record(t, ledger.KindClaim, own)
	if _, up := a.send(t, 1, 1); len(up.Exceptions) != 0 {
		t.Fatalf("the owner pays it by its own right: %+v", up.Exceptions)
	}
	w.patience = time.Millisecond
	second := w.winners(10, 19)[1]
	foreign := b.wanted(t, second, 0xb1, 0)
	wantState(t, b.ask(t, request(foreign)), wire.ClaimPending, wire.WhyOwnerSilent)
	back = request(foreign)
	back.Return = true
	wantState(t, b.ask(t, back), wire.ClaimReturned, "")
	if e := a.holds(t, a.hear(t, 0), 0); e != nil {
		t.Fatal(e)
	}
	wantState(t, b.ask(t, request(foreign)), wire.ClaimReturned, "")
	wantState(t, b.ask(t, request(b.wanted(t, second, 0xb2, 0))), wire.ClaimApproved, "")
	b.record(t, ledger.KindClaim, foreign)
	_, up := b.send(t, 1, 1)
	wantException(t, up, 1, wire.NoRight)
}

// TestClaimIsDeniedForAReasonOfItsOwn: each denial names what stands in the way, is the
// same for ever, and asks no owner.
func TestClaimIsDeniedForAReasonOfItsOwn(t *testing.T) {
	onEachStore(t, testClaimIsDeniedForAReasonOfItsOwn)
}

func testClaimIsDeniedForAReasonOfItsOwn(t *testing.T, w *world) {
	a, b := w.enrolled(t, "T-A"), w.enrolled(t, "T-B")
	w.give(t, "T-A", 10, 14)
	if _, err := w.Deliver(t.Context(), "399", 15, 15, "T-A"); err != nil {
		t.Fatal(err)
	}
	won := w.winners(10, 14)[0]
	id := 0xb0
	for name, c := range map[string]struct {
		body func() ledger.ClaimBody
		why  wire.ClaimWhy
	}{
		"a pack that is not on sale": {func() ledger.ClaimBody { return b.wanted(t, w.winners(15, 15)[0], id, 0) }, wire.WhyPack},
		"a pack nobody has":          {func() ledger.ClaimBody { return b.wanted(t, w.winners(16, 19)[0], id, 0) }, wire.WhyPack},
		"a higher prize": {func() ledger.ClaimBody {
			c := b.wanted(t, won, id, 0)
			c.AmountMinor++
			return c
		}, wire.WhyWrongPrize},
		"a round that no reversal opened": {func() ledger.ClaimBody { return b.wanted(t, won, id, 1) }, wire.WhyRound},
		"a made up secret": {func() ledger.ClaimBody {
			c := b.wanted(t, won, id, 0)
			return b.sealed(t, c, strings.Repeat("9", len(won.code.Secret())))
		}, wire.WhyUnproven},
	} {
		id++
		q := request(c.body())
		first := b.ask(t, q)
		if first.State != wire.ClaimDenied || first.Why != c.why || first.Text == "" {
			t.Errorf("%s: %+v", name, first)
		}
		if strings.Contains(first.Text, won.code.Secret()) {
			t.Errorf("%s: the answer shows a secret", name)
		}
		if again := b.ask(t, q); !reflect.DeepEqual(again, first) {
			t.Errorf("%s: %+v, was %+v", name, again, first)
		}
	}
	s := Suspension{Game: "bingo", Reason: "a fault of the press", Operator: "anne"}
	if _, err := w.SuspendGame(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	wantState(t, b.ask(t, request(b.wanted(t, won, 0xbe, 0))), wire.ClaimDenied, wire.WhySuspended)
	if err := w.ResumeGame(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if n := w.count(t, "SELECT count(*) FROM holds"); n != 0 {
		t.Errorf("%d holds asked for", n)
	}
	for range validate.MaxAttempts {
		id++
		b.ask(t, request(b.sealed(t, b.wanted(t, won, id, 0), strings.Repeat("8", len(won.code.Secret())))))
	}
	wantState(t, b.ask(t, request(b.wanted(t, won, 0xbf, 0))), wire.ClaimDenied, wire.WhyAttempts)
	wantState(t, a.ask(t, request(a.wanted(t, won, 0xaf, 0))), wire.ClaimApproved, "") // nobody locks another's ticket
}

// TestClaimThatIsNoneIsRefused: shapes that are not asked, an id of another terminal, and
// holds that are not signed by the owner.
func TestClaimThatIsNoneIsRefused(t *testing.T) {
	w := newWorld(t)
	a, b, won := two(t, w)
	w.patience = time.Millisecond
	honest := request(b.wanted(t, won, 0xb1, 0))
	wantState(t, b.ask(t, honest), wire.ClaimPending, wire.WhyOwnerSilent)
	for name, edit := range map[string]func(*wire.ClaimRequest){
		"no id": func(q *wire.ClaimRequest) { q.Claim = "" }, "capitals": func(q *wire.ClaimRequest) { q.Claim = strings.Repeat("A", 32) },
		"no block": func(q *wire.ClaimRequest) { q.Block = validate.BlockID{} }, "a round below": func(q *wire.ClaimRequest) { q.Round = -1 },
		"no tier": func(q *wire.ClaimRequest) { q.Tier = 0 }, "nothing": func(q *wire.ClaimRequest) { q.AmountMinor = 0 },
		"a long opening": func(q *wire.ClaimRequest) { q.Opening = strings.Repeat("A", wire.MaxOpening+1) }, "a currency": func(q *wire.ClaimRequest) { q.Currency = "EURO" },
		"another amount under the id": func(q *wire.ClaimRequest) { q.AmountMinor++ },
	} {
		q := honest
		edit(&q)
		var got wire.ClaimAnswer
		if e := post(t, b.client, wire.PathClaim, q, &got); e == nil || e.Kind != wire.KindBadRequest {
			t.Errorf("%s: %+v %v", name, got, e)
		}
	}
	var got wire.ClaimAnswer
	wantKind(t, post(t, a.client, wire.PathClaim, honest, &got), wire.KindBadRequest)
	hold := a.hear(t, 0)
	stranger := *a
	stranger.key = newKey(t)
	wantKind(t, stranger.holds(t, hold, 0), wire.KindBadRequest)
	if e := b.holds(t, hold, 0); e != nil { // well signed, and not its pack
		t.Fatal(e)
	}
	wantState(t, b.ask(t, honest), wire.ClaimPending, wire.WhyOwnerSilent)
	if err := w.Suspend(t.Context(), "T-B", "lost"); err != nil {
		t.Fatal(err)
	}
	wantKind(t, post(t, b.client, wire.PathClaim, honest, &got), wire.KindForbidden)
}
