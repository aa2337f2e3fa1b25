package terminal_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"grattoir/device/terminal"
	"grattoir/device/terminal/terminaltest"
)

// TestPaymentsSlipOpensTheDrawerOnceAndNoOther: neither a copy, nor a batch's further
// slips, nor one that an earlier run left, nor one that waited too long for paper.
func TestPaymentsSlipOpensTheDrawerOnceAndNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCounter()
		stop := c.runs(t)
		var want []string
		v := c.pay(t, c.check(c.ticket(t, 1, 3, 2000)))
		want = append(want, v.ID)
		synctest.Wait()
		if _, err := c.Reprint(ctx, v.Receipt.Number); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		c.Dismiss(v.ID)
		b := c.collect(t, 0, 2000, 500)
		if _, err := c.PayBatch(ctx, b.ID, terminal.Confirmed{}); err != nil {
			t.Fatal(err)
		}
		want = append(want, b.Views[1].ID)
		if err := c.EndBatch(b.ID); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := c.printer.Opened(); !slices.Equal(got, want) {
			t.Fatalf("opened for %v, want %v", got, want)
		}

		// A copy that was asked for before comes out before it.
		c.printer.Pause()
		c.pay(t, c.check(c.ticket(t, 5, 3, 2000)))
		synctest.Wait()
		if _, err := c.Reprint(ctx, v.Receipt.Number); err != nil {
			t.Fatal(err)
		}
		behind := c.pay(t, c.check(c.ticket(t, 6, 3, 2000)))
		c.printer.Resume()
		synctest.Wait()
		if got := c.printer.Opened(); len(got) != 4 || got[3] != behind.ID {
			t.Errorf("opened for %v, the last time not for %s", got, behind.ID)
		}

		// The roll ends in a slip, and the next payment's waits behind it.
		c.printer.Pause()
		c.pay(t, c.check(c.ticket(t, 2, 3, 2000)))
		synctest.Wait()
		late := c.pay(t, c.check(c.ticket(t, 3, 3, 2000)))
		time.Sleep(time.Minute)
		c.printer.Resume()
		synctest.Wait()
		if slices.Contains(c.printer.Opened(), late.ID) {
			t.Error("the drawer opened a minute after the payment")
		}

		// The power goes between a payment and its slip.
		c.printer.Break(terminaltest.PaperOut())
		stop()
		c.printer.Break(nil)
		cut := c.pay(t, c.check(c.ticket(t, 4, 3, 2000)))
		c.restart()
		before := len(c.printer.Slips())
		defer c.runs(t)()
		synctest.Wait()
		if len(c.printer.Slips()) != before+1 || slices.Contains(c.printer.Opened(), cut.ID) {
			t.Errorf("%d slips after the restart, the drawer opened for it: %v", len(c.printer.Slips())-before, slices.Contains(c.printer.Opened(), cut.ID))
		}
	})
}
