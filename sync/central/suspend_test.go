package central

import (
	"strings"
	"testing"

	"grattoir/sync/wire"
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

// TestRefusedTerminalComesBackWithItsCertificate, and one that was frozen does not.
func TestRefusedTerminalComesBackWithItsCertificate(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	d := w.enrolled(t, "T-1")
	if _, err := w.AddTerminal(ctx, "T-2"); err != nil {
		t.Fatal(err)
	}
	wantErr(t, w.Suspend(ctx, "T-1", "stolen"), nil)
	wantErr(t, w.Suspend(ctx, "T-2", "stolen"), nil)
	var a wire.HelloAnswer
	wantKind(t, post(t, d.client, wire.PathHello, wire.Hello{Protocol: 1}, &a), wire.KindForbidden)
	if _, err := w.AddTerminal(ctx, "T-1"); err != nil {
		t.Fatal(err)
	}
	wantErr(t, w.Resume(ctx, "T-1"), nil)
	wantErr(t, w.Resume(ctx, "T-2"), nil)
	if e := post(t, d.client, wire.PathHello, wire.Hello{Protocol: 1}, &a); e != nil {
		t.Error(e)
	}
	if n := w.count(t, "SELECT count(*) FROM enrol_codes"); n != 0 {
		t.Errorf("%d codes that lie about let another device in", n)
	}
	if got, err := w.Terminal(ctx, "T-2"); err != nil || got.State != NeverSeen {
		t.Errorf("%+v %v", got, err)
	}
	w.give(t, "T-1", 10, 19)
	won := w.winners(10, 19)
	d.pay(t, won[0], won[1])
	d.send(t, 1, 2)
	d.lines = d.lines[:1]
	d.pay(t, won[2])
	wantKind(t, d.refused(t, d.upload(t, 2, 2)), wire.KindFork)
	wantErr(t, w.Resume(ctx, "T-1"), ErrRefused)
}
