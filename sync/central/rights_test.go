package central

import (
	"testing"
	"time"

	"grattoir/sync/ledger"
	"grattoir/sync/wire"
)

// releases writes a release of packs 10 to 19 at an owner epoch into the journal.
func (d *device) releases(t testing.TB, epoch int64) {
	t.Helper()
	d.record(t, ledger.KindRelease, ledger.ReleaseBody{Reason: ledger.ReleaseClosing, Operator: "marie",
		Packs: []ledger.ReleasedPacks{{GameCode: "00399", First: 10, Last: 19, OwnerEpoch: epoch}}})
}

// paying pays a ticket by the owner's right at an owner epoch.
func (d *device) paying(t testing.TB, l lot, epoch int64) {
	t.Helper()
	c := d.claim(t, l)
	c.OwnerEpoch = epoch
	d.record(t, ledger.KindClaim, c)
}

func (d *device) take(t testing.TB) wire.TakeAnswer {
	t.Helper()
	var a wire.TakeAnswer
	if e := post(t, d.client, wire.PathTake, wire.TakeRequest{Protocol: 1}, &a); e != nil {
		t.Fatal(e)
	}
	return a
}

// TestClosedShopHoldsNobodyUp: once its release is here central asks no owner; at the
// opening the packs come back at a raised epoch, behind what was paid and allowed meanwhile.
func TestClosedShopHoldsNobodyUp(t *testing.T) {
	onEachStore(t, testClosedShopHoldsNobodyUp)
}

func testClosedShopHoldsNobodyUp(t *testing.T, w *world) {
	a, b, first := two(t, w)
	won := w.winners(10, 19)
	w.patience = time.Millisecond
	a.pay(t, first)
	a.releases(t, 1)
	a.paying(t, won[1], 1) // a broken terminal goes on
	if got := a.take(t); got.Packs != 0 || got.Feed != 0 {
		t.Fatalf("given back before it was released: %+v", got)
	}
	_, up := a.send(t, 1, 3)
	wantException(t, up, 3, wire.NoRight)
	wantState(t, b.ask(t, request(b.wanted(t, first, 0xb1, 0))), wire.ClaimDenied, wire.WhyPaid)
	paid, allowed := b.wanted(t, won[2], 0xb2, 0), b.wanted(t, won[3], 0xb3, 0)
	wantState(t, b.ask(t, request(paid)), wire.ClaimApproved, "")
	wantState(t, b.ask(t, request(allowed)), wire.ClaimApproved, "")
	b.record(t, ledger.KindClaim, paid)
	if _, up := b.send(t, 1, 1); len(up.Exceptions) != 0 {
		t.Fatalf("%+v", up.Exceptions)
	}
	if n := w.count(t, "SELECT count(*) FROM holds"); n != 0 {
		t.Fatalf("a closed shop was asked %d times", n)
	}
	before := int64(w.count(t, "SELECT max(seq) FROM feed"))
	got := a.take(t)
	if got.Packs != 10 || got.Feed <= before {
		t.Fatalf("%+v", got)
	}
	if again := a.take(t); again.Packs != 0 {
		t.Fatalf("given twice: %+v", again)
	}
	var order []string
	for _, item := range a.feed(t, before) {
		switch {
		case item.Paid != nil && item.Paid.Ticket == won[2].code.Number && item.Paid.Pack == won[2].code.Pack:
			order = append(order, "paid")
		case item.Hold != nil && item.Hold.OwnerEpoch == 2 && (item.Hold.Ticket == won[3].code.Number || item.Hold.Ticket == won[2].code.Number):
			order = append(order, "hold")
		case item.Pack != nil && item.Pack.Owner == "T-A" && item.Pack.Epoch == 2:
			order = append(order, "pack")
		}
	}
	if len(order) != 4 || order[len(order)-1] != "pack" {
		t.Fatalf("the feed brings %v", order)
	}
	wantState(t, b.ask(t, request(b.wanted(t, won[4], 0xb4, 0))), wire.ClaimPending, wire.WhyOwnerSilent) // it is open again
	a.paying(t, won[5], 2)
	if _, up := a.send(t, 4, 4); len(up.Exceptions) != 0 {
		t.Fatalf("%+v", up.Exceptions)
	}
	a.paying(t, won[6], 1) // of the epoch that was given up
	_, up = a.send(t, 5, 5)
	wantException(t, up, 5, wire.NoRight)
}
