package terminal_test

import (
	"errors"
	"slices"
	"testing"

	"grattoir/device/terminal"
	"grattoir/device/terminal/terminaltest"
	"grattoir/validate"
)

func TestOneActSeesOnePolicy(t *testing.T) {
	c := newCounter()
	v := c.check(c.ticket(t, 7, 8, 2000))
	if v = c.pay(t, v); v.Stage != terminal.Paid || c.asked != 2 {
		t.Fatalf("a check and a payment asked the policy %d times, %s", c.asked, v.Stage)
	}

	// The ledger refuses the claim at the last moment: the second decision is the same act's.
	v = c.check(c.ticket(t, 8, 8, 2000))
	c.ledger.Break(errors.New("disk full"))
	if c.asked = 0; c.pay(t, v).Stage == terminal.Paid || c.asked != 1 {
		t.Fatalf("one payment asked the policy %d times", c.asked)
	}
}

func TestClaimCarriesThePolicyThatItWasPaidUnder(t *testing.T) {
	c := newCounter()
	v := c.check(c.ticket(t, 8, 8, 2000))
	c.limits.Version = "p2"
	if v = c.pay(t, v); v.Verdict.Policy != "p2" || c.ledger.Claims()[0].Policy != "p2" {
		t.Fatalf("decided by %s, claimed under %s", v.Verdict.Policy, c.ledger.Claims()[0].Policy)
	}
	v = c.check(c.ticket(t, 9, 8, 2000))
	c.limits.ShopLimit = 1999
	if v = c.pay(t, v); v.Verdict.Reason != validate.AboveShopLimit {
		t.Fatalf("a limit that fell since the check: %s", v.Verdict.Reason)
	}
}

func TestPolicyThatAsksForMoreIsShownBeforeItIsPaid(t *testing.T) {
	c := newCounter()
	v := c.check(c.ticket(t, 6, 8, 2000))
	c.limits.ConfirmCashPrize = 2000
	if _, err := c.Pay(ctx, v.ID, terminal.Confirmed{}); !errors.Is(err, terminal.ErrNeeds) || len(c.ledger.Claims()) != 0 {
		t.Fatalf("%v", err)
	}
	if state, _ := c.State(); !slices.Equal(state.View.Verdict.Needs, []validate.Need{validate.ConfirmCash}) {
		t.Fatalf("the page still asks for %v: the clerk could never pay", state.View.Verdict.Needs)
	}
}

func TestBatchIsPaidUnderOnePolicy(t *testing.T) {
	c := newCounter()
	b, err := c.BeginBatch()
	if err != nil {
		t.Fatal(err)
	}
	for n := range 3 {
		c.check(c.ticket(t, n, 8, 2000))
	}
	c.limits.Version, c.limits.ConfirmCashTotal, c.asked = "p2", 6000, 0
	if b, err = c.PayBatch(ctx, b.ID, terminal.Confirmed{}); !errors.Is(err, terminal.ErrNeeds) || !slices.Equal(b.Needs, []validate.Need{validate.ConfirmCash}) {
		t.Fatalf("%v %v", b.Needs, err)
	}
	if b, err = c.PayBatch(ctx, b.ID, terminal.Confirmed{Cash: true}); err != nil || !b.Paid || c.asked != 2 {
		t.Fatalf("two requests asked the policy %d times: %v", c.asked, err)
	}
	for _, claim := range c.ledger.Claims() {
		if claim.Policy != "p2" {
			t.Errorf("claimed under %s", claim.Policy)
		}
	}
}

func TestTicketThatWaitedForPaperIsShownUnderThePolicyOfThatMoment(t *testing.T) {
	c := newCounter()
	c.printer.Break(terminaltest.PaperOut())
	v := c.pay(t, c.check(c.ticket(t, 1, 8, 2000)))
	if v.Verdict.Reason != validate.PrinterNotReady {
		t.Fatalf("%s", v.Verdict.Reason)
	}
	c.limits.Version, c.limits.ConfirmCashPrize = "p2", 2000
	c.runs(t)
	c.printer.Break(nil)
	for {
		state, changed := c.State()
		if v := state.View.Verdict; v.Reason == validate.Winner {
			if v.Policy != "p2" || !slices.Equal(v.Needs, []validate.Need{validate.ConfirmCash}) {
				t.Errorf("shown under %s, needs %v", v.Policy, v.Needs)
			}
			return
		}
		<-changed
	}
}
