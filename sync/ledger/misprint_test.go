package ledger

import (
	"context"
	"errors"
	"testing"

	"grattoir/validate"
)

// TestMisprintIsTakenInOnceAndCountedByClosings: as an entry, over restarts, of no ticket that
// was paid; a refund leaves the till, and the block needs no claim to be named.
func TestMisprintIsTakenInOnceAndCountedByClosings(t *testing.T) {
	ctx := context.Background()
	l := openTest(t, options(t.TempDir()))
	if _, err := l.OpenShift(ctx, "anne", 5000, "EUR"); err != nil {
		t.Fatal(err)
	}
	paid := claim(t, 1)
	if _, err := l.Record(ctx, paid); err != nil {
		t.Fatal(err)
	}
	refund := func(n int) validate.Misprinted {
		c := claim(t, n)
		c.Ticket.Block[0] ^= 0xff // of a block that nothing was paid of
		return validate.Misprinted{Ticket: c.Ticket, Slip: c.Slip, Remedy: validate.Refunded, Amount: 1000, Currency: "EUR", Entered: validate.Scanned, Operator: "anne", Manager: "max"}
	}
	exchange, unknown := refund(3), refund(4)
	exchange.Remedy, exchange.Amount, unknown.Amount = validate.Exchanged, 0, 0
	for _, m := range []validate.Misprinted{refund(2), exchange, unknown} {
		if got, err := l.TakeIn(ctx, m); err != nil || got.Entry.Seq == 0 {
			t.Fatal(got, err)
		}
	}
	l = reopen(t, l)
	if _, err := l.TakeIn(ctx, refund(2)); !errors.Is(err, ErrTakenIn) {
		t.Errorf("a second time: %v", err)
	}
	of := refund(2)
	of.Ticket = paid.Ticket
	if _, err := l.TakeIn(ctx, of); !errors.Is(err, ErrPaid) {
		t.Errorf("of a ticket that was paid: %v", err)
	}
	wrong := exchange
	wrong.Amount, wrong.Ticket.Number = 1000, 9
	if _, err := l.TakeIn(ctx, wrong); !errors.Is(err, ErrEntry) {
		t.Errorf("an exchange for money: %v", err)
	}
	if m, err := l.TakenIn(ctx, refund(2).Ticket); err != nil || m == nil || m.Amount != 1000 || m.Manager != "max" || m.Slip.Game != paid.Slip.Game {
		t.Errorf("%+v %v", m, err)
	}
	if m, err := l.TakenIn(ctx, paid.Ticket); err != nil || m != nil {
		t.Errorf("of another ticket: %+v %v", m, err)
	}
	if list, err := l.History(ctx, 9); err != nil || len(list) != 4 || list[0].Misprint == nil || list[1].Misprint.Remedy != validate.Exchanged {
		t.Errorf("the history: %+v %v", list, err)
	}

	z, err := l.Z(ctx, validate.ShiftClosing, Ending{Operator: "anne"})
	if err != nil {
		t.Fatal(err)
	}
	if got := z.Totals[0]; got.Refunded != (validate.Sum{Count: 2, Money: 1000}) || got.Exchanged != 1 || z.Cash != 5000-paid.Amount-1000 {
		t.Errorf("the shift: %+v, cash %d", got, z.Cash)
	}
	for _, kind := range []validate.ClosingKind{validate.DayClosing, validate.MonthClosing, validate.YearClosing} {
		if z, err = l.Z(ctx, kind, Ending{Operator: "max"}); err != nil || z.Totals[0].Refunded.Count != 2 || z.Totals[0].Exchanged != 1 {
			t.Errorf("the %s: %+v %v", kind, z.Totals, err)
		}
	}
	texts := map[string]string{}
	for _, line := range z.Lines() {
		texts[line.FR] = line.Value("fr")
	}
	if texts["Remboursements"] == "" || texts["Échanges"] != "1" {
		t.Errorf("the slip: %q", texts)
	}
	if z, err = l.Z(ctx, validate.DayClosing, Ending{Operator: "max"}); err != nil || len(z.Totals) != 0 {
		t.Errorf("the day after: %+v %v", z.Totals, err)
	}
	if err := l.Audit(ctx); err != nil {
		t.Error(err)
	}
	if err := l.SetTraining(ctx, true, "max"); err != nil {
		t.Fatal(err)
	}
	if _, err := l.TakeIn(ctx, refund(7)); !errors.Is(err, ErrTraining) {
		t.Errorf("in training: %v", err)
	}
}
