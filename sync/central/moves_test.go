package central

import (
	"testing"
	"time"

	"grattoir/sync/ledger"
	"grattoir/sync/wire"
	"grattoir/validate"
)

// ownerOf is what the feed last said of pack 10.
func (d *device) ownerOf(t testing.TB) (string, int64) {
	t.Helper()
	owner, epoch := "", int64(0)
	for _, item := range d.feed(t, 0) {
		if p := item.Pack; p != nil && p.First <= 10 && p.Last >= 10 {
			owner, epoch = p.Owner, p.Epoch
		}
	}
	return owner, epoch
}

func (w *world) moves(t testing.TB, to string, force bool) {
	t.Helper()
	if _, err := w.MovePacks(t.Context(), "399", 10, 19, to, force); err != nil {
		t.Fatal(err)
	}
}

// TestReleasedPackMovesWithItsWholeRight, and one that is not released moves by force only.
func TestReleasedPackMovesWithItsWholeRight(t *testing.T) {
	onEachStore(t, testReleasedPackMovesWithItsWholeRight)
}

func testReleasedPackMovesWithItsWholeRight(t *testing.T, w *world) {
	a, b, first := two(t, w)
	for _, to := range []string{"T-A", "T-B", "nobody"} {
		if _, err := w.MovePacks(t.Context(), "399", 10, 19, to, false); err == nil {
			t.Fatalf("moved to %s though nobody released it", to)
		}
	}
	a.pay(t, first)
	a.releases(t, 1)
	a.send(t, 1, 2)
	w.moves(t, "T-B", false)
	if owner, epoch := b.ownerOf(t); owner != "T-B" || epoch != 2 {
		t.Fatalf("owned by %q at %d", owner, epoch)
	}
	known := false
	for _, item := range b.feed(t, 0) {
		known = known || item.Paid != nil && item.Paid.Ticket == first.code.Number && item.Paid.Terminal == "T-A"
		if item.Pack != nil && item.Pack.Owner == "T-B" && !known {
			t.Fatal("the new owner owns the pack before it knows what was paid of it")
		}
	}
	b.paying(t, w.winners(10, 19)[1], 2)
	if _, up := b.send(t, 1, 1); len(up.Exceptions) != 0 {
		t.Fatalf("%+v", up.Exceptions)
	}
}

// TestForcedPackIsPaidByNobodyUntilItsOldOwnerIsHeard: not by the new owner, not by
// central's word; the old owner's late payments count, and its last word passes the pack on.
func TestForcedPackIsPaidByNobodyUntilItsOldOwnerIsHeard(t *testing.T) {
	onEachStore(t, testForcedPackIsPaidByNobodyUntilItsOldOwnerIsHeard)
}

func testForcedPackIsPaidByNobodyUntilItsOldOwnerIsHeard(t *testing.T, w *world) {
	a, b, first := two(t, w)
	won := w.winners(10, 19)
	w.patience = time.Millisecond
	w.moves(t, "T-B", true)
	if owner, epoch := b.ownerOf(t); owner != "" || epoch != 2 {
		t.Fatalf("the feed gives it to %q at %d", owner, epoch)
	}
	if _, err := w.Settle(t.Context(), "399", 10, 10, "anne"); err != nil {
		t.Fatal(err)
	}
	if owner, epoch := b.ownerOf(t); owner != "" || epoch != 2 {
		t.Fatalf("after another act the feed gives it to %q at %d", owner, epoch)
	}
	q := request(b.wanted(t, won[1], 0xb1, 0))
	wantState(t, b.ask(t, q), wire.ClaimPending, wire.WhyOwnerSilent)
	wantState(t, a.ask(t, request(a.wanted(t, won[1], 0xa1, 0))), wire.ClaimPending, wire.WhyOwnerSilent)
	b.paying(t, won[2], 2)
	_, up := b.send(t, 1, 1)
	wantException(t, up, 1, wire.NoRight)
	a.pay(t, first) // before it heard of the move
	a.send(t, 1, 1)
	if n := w.count(t, "SELECT count(*) FROM claims WHERE terminal = 'T-A'"); n != 1 {
		t.Fatalf("%d late payments count", n)
	}
	wantState(t, b.ask(t, q), wire.ClaimPending, wire.WhyOwnerSilent) // it may have paid more
	a.record(t, ledger.KindRelease, ledger.ReleaseBody{Reason: ledger.ReleaseMoved, Packs: []ledger.ReleasedPacks{{GameCode: "00399", First: 10, Last: 19, OwnerEpoch: 1}}})
	a.paying(t, won[3], 1)
	_, up = a.send(t, 2, 3)
	wantException(t, up, 3, wire.NoRight)
	if owner, epoch := b.ownerOf(t); owner != "T-B" || epoch != 3 {
		t.Fatalf("owned by %q at %d", owner, epoch)
	}
	b.paying(t, won[4], 3)
	if _, up := b.send(t, 2, 2); len(up.Exceptions) != 0 {
		t.Fatalf("%+v", up.Exceptions)
	}
	if list, err := w.PackRights(t.Context()); err != nil || len(list) != 0 {
		t.Fatalf("%+v %v", list, err)
	}
}

// TestWrittenOffPackIsPaidByCentralsWordAlone, for ever; what its old owner claims later is
// a conflict.
func TestWrittenOffPackIsPaidByCentralsWordAlone(t *testing.T) {
	onEachStore(t, testWrittenOffPackIsPaidByCentralsWordAlone)
}

func testWrittenOffPackIsPaidByCentralsWordAlone(t *testing.T, w *world) {
	a, b, first := two(t, w)
	won := w.winners(10, 19)
	w.patience = time.Millisecond
	if _, err := w.WriteOff(t.Context(), "399", 10, 19, "anne: stolen"); err == nil {
		t.Fatal("written off though nobody waits")
	}
	w.moves(t, "T-B", true)
	if _, err := w.WriteOff(t.Context(), "399", 10, 19, ""); err == nil {
		t.Fatal("written off by nobody")
	}
	loss, err := w.WriteOff(t.Context(), "399", 10, 19, "anne: stolen")
	if err != nil || loss.Packs != 10 || len(loss.Of) != 1 || loss.Of[0] != "T-A" || loss.Claims != 50 || loss.Minor != 100000 {
		t.Fatalf("%+v %v", loss, err)
	}
	body := b.wanted(t, first, 0xb1, 0)
	wantState(t, b.ask(t, request(body)), wire.ClaimApproved, "")
	a.pay(t, first, won[1])
	_, up := a.send(t, 1, 2)
	if len(up.Exceptions) != 2 {
		t.Fatalf("late payments of a pack that was written off: %+v", up.Exceptions)
	}
	b.record(t, ledger.KindClaim, body)
	b.paying(t, won[2], 2) // by no right of its own
	_, up = b.send(t, 1, 2)
	wantException(t, up, 2, wire.NoRight)
	wantState(t, b.ask(t, request(b.wanted(t, won[1], 0xb2, 0))), wire.ClaimDenied, wire.WhyPaid) // the player has the money
	if owner, _ := b.ownerOf(t); owner != "" {
		t.Errorf("the feed gives it to %q", owner)
	}
	if got := b.take(t); got.Packs != 0 {
		t.Errorf("%+v", got)
	}
	w.enrolled(t, "T-C")
	w.moves(t, "T-C", false) // from hand to hand, and never offline
	wantState(t, b.ask(t, request(b.wanted(t, won[3], 0xb3, 0))), wire.ClaimApproved, "")
	list, err := w.PackRights(t.Context())
	if err != nil || len(list) != 10 || list[0].Kind != rightOnline || list[0].Owner != "T-C" || list[0].Holder != "T-A" {
		t.Fatalf("%+v %v", list, err)
	}
}

// TestReplacedTerminalLeavesAllItsPacks, and what is known of its journal is noted.
func TestReplacedTerminalLeavesAllItsPacks(t *testing.T) {
	onEachStore(t, testReplacedTerminalLeavesAllItsPacks)
}

func testReplacedTerminalLeavesAllItsPacks(t *testing.T, w *world) {
	a, b, first := two(t, w)
	a.pay(t, first)
	a.send(t, 1, 1)
	var answer wire.HelloAnswer
	if e := post(t, a.client, wire.PathHello, wire.Hello{Protocol: 1, Head: wire.Position{Epoch: 1, Seq: 4, Hash: a.head(1).Hash}, Unsent: 3}, &answer); e != nil {
		t.Fatal(e)
	}
	if _, err := w.Replace(t.Context(), "T-A", "T-A"); err == nil {
		t.Fatal("a terminal took its own place")
	}
	r, err := w.Replace(t.Context(), "T-A", "T-B")
	if err != nil || r.Packs != 10 || r.Acked != (validate.EntryNumber{Epoch: 1, Seq: 1}) || r.Told != (validate.EntryNumber{Epoch: 1, Seq: 4}) || r.Unsent != 3 || r.Made.IsZero() {
		t.Fatalf("%+v %v", r, err)
	}
	if owner, epoch := b.ownerOf(t); owner != "" || epoch != 2 {
		t.Errorf("%q %d", owner, epoch)
	}
	if n := w.count(t, "SELECT count(*) FROM packs WHERE owner = 'T-A'"); n != 0 {
		t.Errorf("%d packs left behind", n)
	}
	if n := w.count(t, "SELECT count(*) FROM replacements WHERE old = 'T-A' AND new = 'T-B' AND unsent = 3"); n != 1 {
		t.Errorf("%d notes", n)
	}
}
