package central

import (
	"strings"
	"testing"

	"grattoir/sync/ledger"
	"grattoir/sync/wire"
)

// TestPaymentOfAStolenTicketSaysWhetherItsTerminalKnew: whoever had heard of the report has
// a conflict; whoever had not is credited, and the record says so. A recovered ticket is as any other.
func TestPaymentOfAStolenTicketSaysWhetherItsTerminalKnew(t *testing.T) {
	onEachStore(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		d := w.enrolled(t, "T-1")
		w.give(t, "T-1", 10, 19)
		won := w.winners(10, 19)
		last := won[len(won)-1]
		if _, err := w.ReportStolen(ctx, "399", 10, last.code.Pack-1); err != nil {
			t.Fatal(err)
		}
		items := d.feed(t, 0)
		stolen := items[len(items)-1].Seq
		if _, err := w.MarkTickets(ctx, "399", last.code.Pack, last.code.Number, last.code.Number, StealPack); err != nil {
			t.Fatal(err)
		}
		pay := func(l lot, heard int64) {
			c := d.claim(t, l)
			c.Feed = heard
			d.record(t, ledger.KindClaim, d.sealed(t, c, l.code.Secret()))
		}
		pay(won[0], stolen-1)
		pay(won[1], stolen)
		pay(won[2], 0)
		pay(last, stolen) // of its own report, which came after, it had not heard
		_, answer := d.send(t, 1, 4)
		wantException(t, answer, 2, wire.NoRight)
		if !strings.Contains(answer.Exceptions[0].Text, "after it had heard that it is stolen") {
			t.Errorf("%q", answer.Exceptions[0].Text)
		}
		list, err := w.Recalled(ctx)
		if err != nil || len(list) != 3 {
			t.Fatalf("%+v %v", list, err)
		}
		for i, want := range []Recalled{{Number: "1-000001", Knew: "before", Heard: stolen - 1, Report: stolen}, {Number: "1-000003", Knew: "unknown", Report: stolen},
			{Number: "1-000004", Knew: "before", Heard: stolen, Report: stolen + 1}} {
			if got := list[i]; got.Number != want.Number || got.Knew != want.Knew || got.Heard != want.Heard || got.Report != want.Report || got.Words() == "" {
				t.Errorf("%+v, want %+v", got, want)
			}
		}

		if _, err := w.RecoverPacks(ctx, "399", 10, last.code.Pack-1); err != nil {
			t.Fatal(err)
		}
		pay(won[3], stolen+2)
		if _, answer := d.send(t, 5, 5); len(answer.Exceptions) > 0 {
			t.Errorf("%+v", answer.Exceptions)
		}
		if list, err := w.Recalled(ctx); err != nil || len(list) != 3 {
			t.Errorf("%+v %v", list, err)
		}
	})
}
