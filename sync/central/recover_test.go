package central

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"grattoir/sync/ledger"
	"grattoir/sync/wire"
)

// hello says hello as the device is.
func (d *device) hello(t *testing.T, edit func(*wire.Hello)) (a wire.HelloAnswer, e *wire.Error) {
	t.Helper()
	h := wire.Hello{Protocol: wire.Protocol, Head: wire.Position{Epoch: 1, Hash: noHash}}
	if edit != nil {
		edit(&h)
	}
	e = post(t, d.client, wire.PathHello, h, &a)
	return a, e
}

// own reads the device's journal back, run by run.
func (d *device) own(t *testing.T, epoch, after int64) (lines []string, acked string) {
	t.Helper()
	for {
		var r wire.JournalRun
		if e := get(t, d.client, fmt.Sprintf("%s?epoch=%d&after=%d", wire.PathJournal, epoch, after), &r); e != nil {
			t.Fatal(e)
		}
		if len(r.Lines) == 0 {
			return lines, r.Acked
		}
		lines = append(lines, r.Lines...)
		last, err := ledger.ParseEntry([]byte(r.Lines[len(r.Lines)-1]))
		if err != nil || last.Epoch != r.Epoch {
			t.Fatal(err, last.Epoch, r.Epoch)
		}
		epoch, after = last.Epoch, last.Seq
	}
}

// TestHeadBehindIsNamedAndComesBackOnlyWhenAPersonAgrees: the terminal says that central
// holds more of its journal; nothing happens before somebody agrees, and then a new epoch.
func TestHeadBehindIsNamedAndComesBackOnlyWhenAPersonAgrees(t *testing.T) {
	w := newWorld(t)
	d := w.enrolled(t, "T-1")
	w.give(t, "T-1", 10, 19)
	d.pay(t, w.winners(10, 19)[:4]...)
	d.send(t, 1, 4)
	if _, err := w.Recover(t.Context(), "T-1"); err == nil {
		t.Fatal("a terminal that nothing stops comes back from something")
	}
	behind := func(h *wire.Hello) { h.Stopped = wire.StopHeadBehind }
	if a, e := d.hello(t, behind); e != nil || a.Recover != 0 {
		t.Fatalf("before anybody agreed: %+v %v", a, e)
	}
	at, err := w.Terminal(t.Context(), "T-1")
	if err != nil || at.Frozen != wire.StopHeadBehind || !at.FrozenAt.Equal(noon) || at.State != Enrolled {
		t.Fatalf("%+v %v", at, err)
	}
	lines := d.lines
	d.pay(t, w.winners(10, 19)[4]) // 1-5, of the journal that goes on elsewhere
	if epoch, err := w.Recover(t.Context(), "T-1"); err != nil || epoch != 2 {
		t.Fatal(epoch, err)
	}
	if a, e := d.hello(t, behind); e != nil || a.Recover != 2 {
		t.Fatalf("after a person agreed: %+v %v", a, e)
	}
	got, acked := d.own(t, 1, 2)
	if strings.Join(got, "\n") != strings.Join(lines[2:4], "\n") || !strings.Contains(acked, "\nepoch 1\nseq 4\n") {
		t.Errorf("its own lines: %d\n%s", len(got), acked)
	}
	carried := d.lines[4]
	d.restart(2)
	d.record(t, ledger.KindCarriedClaim, ledger.CarriedBody{Line: carried})
	ack, answer := d.send(t, 1, 1)
	if ack.Position.Epoch != 2 || len(answer.Exceptions) != 0 {
		t.Errorf("%+v %+v", ack, answer.Exceptions)
	}
	if n := w.count(t, "SELECT count(*) FROM claims WHERE terminal = 'T-1' AND epoch = 2 AND seq = 1"); n != 1 {
		t.Errorf("%d carried claims are credited", n)
	}
	if at, err := w.Terminal(t.Context(), "T-1"); err != nil || at.Frozen != "" || at.Recover != 0 {
		t.Errorf("%+v %v", at, err)
	}
	// A second epoch was not agreed to.
	d.restart(3)
	d.record(t, ledger.KindTraining, ledger.TrainingBody{})
	wantKind(t, d.refused(t, d.upload(t, 1, 1)), wire.KindFork)
}

// TestSecondPaymentOfACarriedTicketIsAConflict: counted for nothing by the terminal, it is
// a conflict here.
func TestSecondPaymentOfACarriedTicketIsAConflict(t *testing.T) {
	w := newWorld(t)
	d := w.enrolled(t, "T-1")
	w.give(t, "T-1", 10, 19)
	d.pay(t, w.winners(10, 19)[0])
	d.send(t, 1, 1)
	d.pay(t, w.winners(10, 19)[0])
	carried := d.lines[1]
	if _, e := d.hello(t, func(h *wire.Hello) { h.Stopped = wire.StopFork }); e != nil {
		t.Fatal(e)
	}
	if _, err := w.Recover(t.Context(), "T-1"); err != nil {
		t.Fatal(err)
	}
	d.restart(2)
	d.record(t, ledger.KindCarriedLine, ledger.CarriedBody{Line: carried})
	d.record(t, ledger.KindCarriedLine, ledger.CarriedBody{SHA256: noHash})
	_, a := d.send(t, 1, 2)
	wantException(t, a, 1, wire.DoubleClaim)
	if len(a.Exceptions) != 1 {
		t.Errorf("%+v", a.Exceptions)
	}
}

// TestForkKeepsTheLinesThatCameAndNamesItself: both lines stand, for a person to look at,
// and the terminal is let in again without a new key when that person agrees.
func TestForkKeepsTheLinesThatCameAndNamesItself(t *testing.T) {
	w := newWorld(t)
	d := w.enrolled(t, "T-1")
	w.give(t, "T-1", 10, 19)
	d.pay(t, w.winners(10, 19)[:2]...)
	d.send(t, 1, 2)
	d.lines = d.lines[:1]
	d.pay(t, w.winners(10, 19)[2:4]...)
	e := d.refused(t, d.upload(t, 1, 3))
	wantKind(t, e, wire.KindFork)
	if e.Stop != wire.StopFork {
		t.Errorf("%+v", e)
	}
	if n := w.count(t, "SELECT count(*) FROM strays WHERE terminal = 'T-1' AND seq IN (2, 3)"); n != 2 {
		t.Errorf("%d lines are kept", n)
	}
	if at, err := w.Terminal(t.Context(), "T-1"); err != nil || at.State != Suspended || at.Frozen != wire.StopFork {
		t.Fatalf("%+v %v", at, err)
	}
	if _, e := d.hello(t, nil); e == nil {
		t.Fatal("a frozen terminal is heard")
	}
	if _, err := w.Recover(t.Context(), "T-1"); err != nil {
		t.Fatal(err)
	}
	if a, e := d.hello(t, func(h *wire.Hello) { h.Stopped = wire.StopFork }); e != nil || a.Recover != 2 {
		t.Errorf("%+v %v", a, e)
	}
	if err := w.Suspend(t.Context(), "T-1", "stolen"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Recover(t.Context(), "T-1"); err == nil {
		t.Error("what a person suspended comes back without a new code")
	}
}

// TestTwoDevicesThatTakeTurnsAreFrozen, and late and doubled hellos of one device are not.
func TestTwoDevicesThatTakeTurnsAreFrozen(t *testing.T) {
	w := newWorld(t)
	d := w.enrolled(t, "T-1")
	say := func(run string, count int64) *wire.Error {
		w.clock.advance(time.Minute)
		_, e := d.hello(t, func(h *wire.Hello) { h.Run, h.Count = strings.Repeat(run, 32), count })
		return e
	}
	for _, h := range []struct {
		run   string
		count int64
	}{{"a", 1}, {"a", 2}, {"a", 2}, {"a", 1}, {"b", 1}, {"a", 3}, {"b", 2}, {"a", 3}, {"b", 3}, {"c", 1}, {"b", 3}, {"c", 2}} {
		if e := say(h.run, h.count); e != nil {
			t.Fatalf("%+v: %v", h, e)
		}
	}
	e := say("b", 4)
	wantKind(t, e, wire.KindFork)
	if e.Stop != wire.StopTwoHeads {
		t.Errorf("%+v", e)
	}
	if at, err := w.Terminal(t.Context(), "T-1"); err != nil || at.State != Suspended || at.Frozen != wire.StopTwoHeads {
		t.Errorf("%+v %v", at, err)
	}
}

// TestNewDeviceOfAKnownTerminalMayReadItsJournal: whoever made its code has agreed.
func TestNewDeviceOfAKnownTerminalMayReadItsJournal(t *testing.T) {
	w := newWorld(t)
	d := w.enrolled(t, "T-1")
	w.give(t, "T-1", 10, 19)
	d.pay(t, w.winners(10, 19)[:2]...)
	d.send(t, 1, 2)
	if err := w.Suspend(t.Context(), "T-1", "its card is broken"); err != nil {
		t.Fatal(err)
	}
	fresh := w.enrolled(t, "T-1")
	a, e := fresh.hello(t, func(h *wire.Hello) { h.Stopped = wire.StopHeadBehind })
	if e != nil || a.Recover != 2 {
		t.Fatalf("%+v %v", a, e)
	}
	if lines, _ := fresh.own(t, 0, 0); len(lines) != 2 {
		t.Errorf("%d lines", len(lines))
	}
	if other := w.enrolled(t, "T-2"); true {
		if lines, _ := other.own(t, 0, 0); len(lines) != 0 {
			t.Error("another's journal is given")
		}
	}
}

// restart begins a journal epoch.
func (d *device) restart(epoch int64) { d.epoch, d.lines = epoch, nil }
