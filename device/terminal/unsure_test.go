package terminal_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"grattoir/validate"
)

// TestSlipThatMayBeLostIsRememberedBehindLaterPayments: a printer tells late that a slip
// was lost, when ten others were paid. It stays on the status line until its copy is asked for, over a
// restart too.
func TestSlipThatMayBeLostIsRememberedBehindLaterPayments(t *testing.T) {
	c := newCounter()
	stop := c.runs(t)
	c.printer.Reach(validate.Unknown)
	lost := c.pay(t, c.check(c.ticket(t, 1, 8, 2000))).Receipt.Number
	slips(t, c, 1)
	settled(t, c)
	c.printer.Reach(validate.Printed)
	for n := range 12 {
		c.pay(t, c.check(c.ticket(t, 2+n, 8, 2000)))
	}
	slips(t, c, 13)
	settled(t, c)
	reminded(t, c, lost)
	stop()
	c.restart()
	c.runs(t)
	reminded(t, c, lost)
	if _, err := c.Reprint(context.Background(), lost); err != nil {
		t.Fatal(err)
	}
	reminded(t, c)
}

// reminded waits until the counter names just these slips.
func reminded(t *testing.T, c *counter, want ...validate.EntryNumber) {
	t.Helper()
	over := time.After(30 * time.Second)
	for {
		state, changed := c.State()
		if slices.Equal(state.Reprint, want) {
			return
		}
		select {
		case <-changed:
		case <-over:
			t.Fatalf("reminded of %v, want %v", state.Reprint, want)
		}
	}
}

// TestSlipThatWasTornBeforeTheStopIsAnnouncedToThePrinter: its picture may still be
// waiting for bytes, and would swallow the head of the next slip, DUPLICATA included.
func TestSlipThatWasTornBeforeTheStopIsAnnouncedToThePrinter(t *testing.T) {
	c := newCounter()
	stop := c.runs(t)
	c.printer.Reach(validate.Unknown)
	c.pay(t, c.check(c.ticket(t, 1, 8, 2000)))
	slips(t, c, 1)
	settled(t, c)
	stop()
	c.restart()
	if cut, err := c.Recover(context.Background()); err != nil || cut != 1 {
		t.Errorf("%d slips may lie cut off, want 1: %v", cut, err)
	}
	stop = c.runs(t)
	c.printer.Reach(validate.Printed)
	c.pay(t, c.check(c.ticket(t, 2, 8, 2000)))
	slips(t, c, 2)
	settled(t, c)
	stop()
	c.restart()
	if cut, err := c.Recover(context.Background()); err != nil || cut != 0 {
		t.Errorf("%d slips may lie cut off, though a whole one came out after it: %v", cut, err)
	}
}
