package terminal_test

import (
	"errors"
	"testing"
	"testing/synctest"

	"grattoir/device/terminal"
	"grattoir/validate"
)

// TestTicketWithAFaultOnItsPaperIsNeverPaid: what the clerk sees overrules a winner and what
// central has allowed, leaves the sum of a batch, and can be taken back; a loser stays one.
func TestTicketWithAFaultOnItsPaperIsNeverPaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCounter()
		stop := c.runs(t)
		defer stop()
		note := func(v terminal.View, what terminal.Seen, want validate.Reason) terminal.View {
			t.Helper()
			v, err := c.Note(ctx, v.ID, what)
			if err != nil {
				t.Fatal(err)
			}
			wantReason(t, v, want)
			return v
		}
		v := c.check(c.ticket(t, 1, 3, 2000))
		v = note(v, terminal.Misprinted, validate.Misprint)
		if v.Verdict.AmountMinor != nil || !c.CanSlip(v) {
			t.Errorf("a misprint names its prize, or has no slip: %+v", v)
		}
		if v = c.pay(t, v); v.Receipt != nil {
			t.Fatal("a misprint was paid")
		}
		v = note(v, terminal.VoidBox, validate.TicketVoid)
		if v = c.pay(t, v); v.Receipt != nil || len(c.ledger.Claims()) != 0 {
			t.Fatal("a void ticket was paid")
		}
		v = note(v, terminal.Sound, validate.Winner)
		if _, err := c.Note(ctx, "another", terminal.VoidBox); !errors.Is(err, terminal.ErrStale) {
			t.Errorf("of another view: %v", err)
		}
		if _, err := c.Note(ctx, v.ID, "dog-eared"); !errors.Is(err, terminal.ErrNotNoted) {
			t.Errorf("an unknown fault: %v", err)
		}
		if v = c.pay(t, v); v.Receipt == nil || v.CanNote() {
			t.Fatalf("taken back, and not paid: %+v", v)
		}
		if again := c.check(c.ticket(t, 1, 3, 2000)); again.CanNote() {
			t.Error("of a ticket that was paid before")
		}
		lost := c.check(c.ticket(t, 2, 0, 0))
		if _, err := c.Note(ctx, lost.ID, terminal.Misprinted); !errors.Is(err, terminal.ErrNotNoted) {
			t.Errorf("of a loser: %v", err)
		}

		c.collect(t, 2000, 500)
		b, _ := c.State()
		note(b.View, terminal.VoidBox, validate.TicketVoid)
		if b, _ = c.State(); b.Batch.Prizes != 1 || b.Batch.Total != 2000 || len(b.Batch.Views) != 2 {
			t.Errorf("the batch: %+v", b.Batch)
		}
		if err := c.EndBatch(b.Batch.ID); err != nil {
			t.Fatal(err)
		}

		c.foreign()
		code := c.ticket(t, 30, 8, 2000)
		v = c.ask(t, c.check(code))
		c.ledger.Answer(v.ID, approve)
		synctest.Wait()
		wantReason(t, c.view(), validate.Winner)
		note(c.view(), terminal.Misprinted, validate.Misprint)
		if v = c.pay(t, c.view()); v.Receipt != nil {
			t.Fatal("central's leave has paid a misprint")
		}
		c.Dismiss(v.ID)
		if i, err := c.ledger.Intent(ctx, v.Opened.Key()); err != nil || i.State != validate.IntentReturning {
			t.Errorf("central's leave is kept: %+v %v", i, err)
		}
	})
}
