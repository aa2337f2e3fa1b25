package central

import (
	"strings"
	"testing"

	"grattoir/sync/wire"
	"grattoir/validate"
)

func TestSuspendedGameIsToldAndLifted(t *testing.T) { onEachStore(t, testSuspendedGameIsToldAndLifted) }

func testSuspendedGameIsToldAndLifted(t *testing.T, w *world) {
	ctx := t.Context()
	d := newDesk(t, w, "T-1")
	is := func(want bool) {
		t.Helper()
		d.sync(t)
		if terminal, game, err := d.book.Suspended(ctx, "bingo", "1", 1); err != nil || terminal || game != want {
			t.Fatalf("at the terminal: %v %v %v, want %v", terminal, game, err, want)
		}
	}
	suspend := func(want error, s Suspension) {
		t.Helper()
		_, err := w.SuspendGame(ctx, s)
		wantErr(t, err, want)
	}
	is(false)
	suspend(ErrNotFound, Suspension{Game: "loto", Reason: "x", Operator: "anne"})
	suspend(ErrNotFound, Suspension{Game: "bingo", Emission: "2", Reason: "x", Operator: "anne"})
	suspend(ErrNotFound, Suspension{Game: "bingo", Emission: "1", Block: 2, Reason: "x", Operator: "anne"})
	suspend(ErrRefused, Suspension{Game: "bingo", Block: 1, Reason: "x", Operator: "anne"})
	suspend(ErrRefused, Suspension{Game: "bingo", Operator: "anne"})
	suspend(ErrRefused, Suspension{Game: "bingo", Reason: "x"})
	suspend(ErrRefused, Suspension{Game: "bingo", Reason: strings.Repeat("x", wire.MaxReason+1), Operator: "anne"})
	is(false)
	block, all := Suspension{Game: "bingo", Emission: "1", Block: 1, Reason: "misprint", Operator: "anne"}, Suspension{Game: "bingo", Reason: "court", Operator: "anne"}
	suspend(nil, block)
	suspend(ErrRefused, block)
	is(true)
	suspend(nil, all)
	list, err := w.Suspensions(ctx)
	if err != nil || len(list) != 2 || list[0].Reason != "court" || list[1].Block != 1 || !list[1].Since.Equal(noon) {
		t.Fatalf("%+v %v", list, err)
	}
	wantErr(t, w.ResumeGame(ctx, Suspension{Game: "bingo", Emission: "1"}), ErrRefused)
	wantErr(t, w.ResumeGame(ctx, all), nil)
	is(true)
	wantErr(t, w.ResumeGame(ctx, block), nil)
	is(false)
}

// TestPackOfASuspendedBlockIsNotPutOnSale, neither by operations nor by a shop that has not
// heard of it: its activation is a conflict.
func TestPackOfASuspendedBlockIsNotPutOnSale(t *testing.T) {
	ctx := t.Context()
	w := newWorld(t)
	d := newDesk(t, w, "T-1")
	if _, err := w.Deliver(ctx, "399", 10, 12, "T-1"); err != nil {
		t.Fatal(err)
	}
	d.sync(t)
	game := Suspension{Game: "bingo", Emission: "1", Reason: "misprint", Operator: "anne"}
	if _, err := w.SuspendGame(ctx, game); err != nil {
		t.Fatal(err)
	}
	_, err := w.Activate(ctx, "399", 10, 10)
	if wantErr(t, err, ErrRefused); !strings.Contains(err.Error(), "misprint") {
		t.Errorf("it does not say why: %v", err)
	}
	if _, err := d.book.Activate(ctx, "00399", 11, "marie", validate.Scanned); err != nil {
		t.Fatal(err)
	}
	if x := d.sync(t); len(x) != 1 || x[0].Kind != wire.PackRefused || !strings.Contains(x[0].Text, "suspended") {
		t.Errorf("%+v", x)
	}
	if p, err := d.book.PackFacts(ctx, "00399", 11); err != nil || p.State != validate.PackDelivered {
		t.Errorf("at the shop it is %s: %v", p.State, err)
	}
	if err := w.ResumeGame(ctx, game); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Activate(ctx, "399", 10, 12); err != nil {
		t.Error(err)
	}
}

func TestTerminalWhosePaymentsAreStoppedGoesOnSendingItsJournal(t *testing.T) {
	onEachStore(t, testTerminalWhosePaymentsAreStoppedGoesOnSendingItsJournal)
}

func testTerminalWhosePaymentsAreStoppedGoesOnSendingItsJournal(t *testing.T, w *world) {
	ctx := t.Context()
	d, other := newDesk(t, w, "T-1"), newDesk(t, w, "T-2")
	w.give(t, "T-1", 10, 19)
	d.sync(t)
	if _, err := d.record(t, w.winners(10, 19)[0], 0, 1); err != nil {
		t.Fatal(err)
	}
	wantErr(t, w.StopPayments(ctx, "T-1", ""), ErrRefused)
	wantErr(t, w.StopPayments(ctx, "T-9", "audit"), ErrNotFound)
	wantErr(t, w.Resume(ctx, "T-1"), ErrRefused)
	wantErr(t, w.StopPayments(ctx, "T-1", "audit"), nil)
	wantErr(t, w.StopPayments(ctx, "T-1", "audit"), ErrRefused)
	d.sync(t)
	other.sync(t)
	if n := w.count(t, "SELECT count(*) FROM claims"); n != 1 {
		t.Errorf("%d claims arrived", n)
	}
	for _, x := range []struct {
		d    *desk
		want bool
	}{{d, true}, {other, false}} {
		if terminal, _, err := x.d.book.Suspended(ctx, "bingo", "1", 1); err != nil || terminal != x.want {
			t.Errorf("%s: %v %v", x.d.name, terminal, err)
		}
	}
	if got, err := w.Terminal(ctx, "T-1"); err != nil || got.Stopped != "audit" || got.State != Enrolled {
		t.Errorf("%+v %v", got, err)
	}
	wantErr(t, w.Resume(ctx, "T-1"), nil)
	d.sync(t)
	if terminal, _, err := d.book.Suspended(ctx, "bingo", "1", 1); err != nil || terminal {
		t.Errorf("resumed: %v %v", terminal, err)
	}
}

// TestRefusedTerminalIsNotResumed: its certificate is revoked, and comes back by no word.
func TestRefusedTerminalIsNotResumed(t *testing.T) {
	w := newWorld(t)
	d := w.enrolled(t, "T-1")
	wantErr(t, w.StopPayments(t.Context(), "T-1", "inquiry"), nil)
	wantErr(t, w.Suspend(t.Context(), "T-1", "stolen"), nil)
	wantErr(t, w.Resume(t.Context(), "T-1"), nil) // of its payments alone
	wantErr(t, w.Resume(t.Context(), "T-1"), ErrRefused)
	var a wire.HelloAnswer
	wantKind(t, post(t, d.client, wire.PathHello, wire.Hello{Protocol: 1}, &a), wire.KindForbidden)
}
