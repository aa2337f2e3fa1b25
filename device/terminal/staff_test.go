package terminal_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"grattoir/device/terminal"
	"grattoir/device/terminal/terminaltest"
	"grattoir/validate"
	"grattoir/validate/money"
	"grattoir/validate/policy"
)

// signing makes a counter where operators sign on.
func signing(t *testing.T) (*counter, *terminaltest.Staff) {
	t.Helper()
	c := newCounter()
	c.staff = terminaltest.NewStaff(map[string]string{"anne": "4711", "bob": "2580", "max": "9073"})
	c.restart()
	return c, c.staff
}

var ctx = context.Background()

func who(id, pin string) terminal.Credentials { return terminal.Credentials{Operator: id, PIN: pin} }

func TestNothingIsPaidBeforeSomebodySignsOn(t *testing.T) {
	c, _ := signing(t)
	v := c.check(c.ticket(t, 1, 3, 2000))
	if v.Verdict.Reason != validate.Winner {
		t.Fatalf("a check needs nobody: %s", v.Verdict.Reason)
	}
	var denied *terminal.Denied
	if _, err := c.Pay(ctx, v.ID, terminal.Confirmed{}); !errors.As(err, &denied) || len(c.ledger.Claims()) != 0 {
		t.Fatalf("paid by nobody: %v", err)
	}
	if _, err := c.SignOn(ctx, who("anne", "0000"), 5000); err == nil {
		t.Fatal("a wrong PIN signed on")
	}
	shift, err := c.SignOn(ctx, who("anne", "4711"), 5000)
	if err != nil || shift.Operator != "anne" || shift.Float != 5000 || shift.Currency != "EUR" {
		t.Fatalf("%+v %v", shift, err)
	}
	if v = c.pay(t, v); v.Receipt == nil || v.Receipt.Operator != "anne" {
		t.Fatalf("%+v", v)
	}
	if strings.Contains(c.log.String(), "4711") {
		t.Error("the log shows a PIN")
	}
}

func TestLockedCounterChecksAndPaysNothingUntilItsPIN(t *testing.T) {
	c, _ := signing(t)
	if _, err := c.SignOn(ctx, who("anne", "4711"), 0); err != nil {
		t.Fatal(err)
	}
	if err := c.Lock(); err != nil {
		t.Fatal(err)
	}
	v := c.check(c.ticket(t, 1, 3, 2000))
	if _, err := c.Pay(ctx, v.ID, terminal.Confirmed{}); err == nil || v.Verdict.Reason != validate.Winner {
		t.Fatalf("locked: %s, %v", v.Verdict.Reason, err)
	}
	if err := c.Unlock(ctx, "2580"); err == nil {
		t.Fatal("another's PIN unlocked")
	}
	if err := c.Unlock(ctx, "4711"); err != nil {
		t.Fatal(err)
	}
	c.pay(t, v)
}

func TestSignOffClosesTheShiftAndPrintsIt(t *testing.T) {
	c, staff := signing(t)
	c.runs(t)
	if _, err := c.SignOn(ctx, who("anne", "4711"), 5000); err != nil {
		t.Fatal(err)
	}
	c.pay(t, c.check(c.ticket(t, 1, 3, 2000)))
	z, err := c.SignOff(ctx, terminal.Credentials{})
	if err != nil || z.Operator != "anne" || z.Totals[0].Paid.Money != 2000 {
		t.Fatalf("%+v %v", z, err)
	}
	c.until(t, func() bool { return len(c.printer.Closings()) == 1 })
	if s, _ := staff.Session(); s != nil {
		t.Errorf("still signed on: %+v", s)
	}
	if _, err := c.SignOn(ctx, who("bob", "2580"), 0); err != nil {
		t.Errorf("the next shift: %v", err)
	}
}

func TestSignOffLeavesNoTicketAndNoBatchToTheNextOperator(t *testing.T) {
	c, _ := signing(t)
	if _, err := c.SignOn(ctx, who("anne", "4711"), 0); err != nil {
		t.Fatal(err)
	}
	c.collect(t, 2000, 500)
	if _, err := c.SignOff(ctx, terminal.Credentials{}); err != nil {
		t.Fatal(err)
	}
	if s, _ := c.State(); s.Batch != nil || s.View.Stage != terminal.Idle {
		t.Errorf("the counter shows %s, batch %v", s.View.Stage, s.Batch != nil)
	}
}

// TestClosingIsPrintedAgainByItsLedgerNumber: its slip is not durable, the closing is.
func TestClosingIsPrintedAgainByItsLedgerNumber(t *testing.T) {
	c, _ := signing(t)
	c.runs(t)
	if _, err := c.SignOn(ctx, who("anne", "4711"), 5000); err != nil {
		t.Fatal(err)
	}
	paid := c.pay(t, c.check(c.ticket(t, 1, 3, 2000)))
	z, err := c.SignOff(ctx, terminal.Credentials{})
	if err != nil {
		t.Fatal(err)
	}
	again, err := c.ReprintClosing(ctx, z.Entry)
	if err != nil || again.Number != z.Number {
		t.Fatalf("%+v %v", again, err)
	}
	c.until(t, func() bool { return len(c.printer.Closings()) == 2 })
	if _, err := c.ReprintClosing(ctx, paid.Receipt.Number); !errors.Is(err, terminaltest.ErrNotFound) {
		t.Errorf("a payment printed as a closing: %v", err)
	}
}

// TestStopWaitsForTheSlipOfAClosing: the day's end is when a terminal is switched off.
func TestStopWaitsForTheSlipOfAClosing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := signing(t)
		if _, err := c.Close(ctx, validate.DayClosing, who("max", "9073")); err != nil {
			t.Fatal(err)
		}
		drained := make(chan time.Time, 1)
		go func() { c.Drain(ctx); drained <- time.Now() }()
		synctest.Wait()
		if len(drained) > 0 {
			t.Fatal("stopped with the closing's slip still to print")
		}
		began := time.Now()
		stop := c.runs(t)
		if at := <-drained; at.After(began) || len(c.printer.Closings()) != 1 {
			t.Errorf("waited until %v, %d slips", at.Sub(began), len(c.printer.Closings()))
		}
		stop()
	})
}

// TestStopWaitsForEveryClosingThatStillComesOut: each slip gets its time, and a printer that
// does nothing more ends the wait.
func TestStopWaitsForEveryClosingThatStillComesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCounter()
		c.printer.Takes(4 * time.Second)
		c.runs(t)
		for range 4 {
			c.PrintClosing(validate.Closing{})
		}
		time.AfterFunc(11*time.Second, c.printer.Pause) // in the third
		began := time.Now()
		c.Drain(ctx)
		if took := time.Since(began); took != 17*time.Second || len(c.printer.Closings()) != 3 {
			t.Errorf("stopped after %v with %d slips", took, len(c.printer.Closings()))
		}
		c.printer.Resume()
	})
}

// until waits for a condition that changes with the counter's or the printer's state.
func (c *counter) until(t *testing.T, ok func() bool) {
	t.Helper()
	for {
		_, changed := c.State()
		printed := c.printer.Changed()
		if ok() {
			return
		}
		select {
		case <-changed:
		case <-printed:
		case <-t.Context().Done():
			t.Fatal("it never came")
		}
	}
}

func TestManagerEndsTheShiftOfSomebodyWhoHasLeft(t *testing.T) {
	c, staff := signing(t)
	if _, err := c.SignOn(ctx, who("anne", "4711"), 0); err != nil {
		t.Fatal(err)
	}
	_ = c.Lock()
	if _, err := c.SignOff(ctx, who("bob", "2580")); err == nil {
		t.Fatal("a clerk ended another's shift")
	}
	if z, err := c.SignOff(ctx, who("max", "9073")); err != nil || z.Operator != "max" {
		t.Fatalf("%+v %v", z, err)
	}
	if s, _ := staff.Session(); s != nil {
		t.Error("still signed on")
	}
}

func TestShiftCutBetweenItsZAndTheSessionsEndIsMadeWholeByUnlocking(t *testing.T) {
	c, _ := signing(t)
	if _, err := c.SignOn(ctx, who("anne", "4711"), 700); err != nil {
		t.Fatal(err)
	}
	if _, err := c.ledger.Z(ctx, validate.ShiftClosing, "anne"); err != nil { // and then the power went
		t.Fatal(err)
	}
	c.staff.Lock() // as after every start
	c.restart()
	if err := c.Unlock(ctx, "4711"); err != nil {
		t.Fatal(err)
	}
	if s, _ := c.ledger.Shift(ctx); s == nil || s.Operator != "anne" || s.Float != 700 {
		t.Errorf("%+v", s)
	}
}

func TestReversalNeedsAReasonAndAManagersPIN(t *testing.T) {
	c, _ := signing(t)
	if _, err := c.SignOn(ctx, who("anne", "4711"), 0); err != nil {
		t.Fatal(err)
	}
	v := c.pay(t, c.check(c.ticket(t, 1, 3, 2000)))
	ask := validate.Reversal{Number: v.Receipt.Number, Reason: validate.PaidByMistake}
	if _, err := c.Reverse(ctx, ask, who("anne", "4711")); err == nil {
		t.Fatal("a clerk's own PIN took a payment back")
	}
	r, err := c.Reverse(ctx, ask, who("max", "9073"))
	if err != nil || r.State != validate.ReversalRequested || r.Operator != "anne" || r.Manager != "max" || len(r.ID) != 32 {
		t.Fatalf("%+v %v", r, err)
	}
	if again := c.check(c.ticket(t, 1, 3, 2000)); again.Verdict.Reason != validate.AlreadyPaidHere {
		t.Errorf("before central accepted it: %s", again.Verdict.Reason)
	}
	alone := newCounter()
	if _, err := alone.Reverse(ctx, ask, who("", "")); !errors.Is(err, terminal.ErrNoStaff) {
		t.Errorf("a terminal without sign-on: %v", err)
	}
}

func TestTrainingPlaysPaymentsAndRecordsNone(t *testing.T) {
	c, _ := signing(t)
	if _, err := c.SignOn(ctx, who("anne", "4711"), 0); err != nil {
		t.Fatal(err)
	}
	if err := c.SetTraining(ctx, true, who("bob", "2580")); err == nil {
		t.Fatal("a clerk switched training on")
	}
	if err := c.SetTraining(ctx, true, who("max", "9073")); err != nil {
		t.Fatal(err)
	}
	code := c.ticket(t, 1, 3, 2000)
	v, err := c.Pay(ctx, c.check(code).ID, terminal.Confirmed{})
	if err != nil || v.Stage != terminal.Trained || v.Receipt != nil || len(c.ledger.Claims()) != 0 {
		t.Fatalf("%s %+v %v", v.Stage, v.Receipt, err)
	}
	c.restart() // training outlives a restart
	if s, _ := c.State(); !s.Training {
		t.Error("a restart ended training in silence")
	}
	if err := c.SetTraining(ctx, false, who("max", "9073")); err != nil {
		t.Fatal(err)
	}
	if v := c.pay(t, c.check(code)); v.Stage != terminal.Paid {
		t.Errorf("after training: %s", v.Stage)
	}
}

// collect scans tickets of the given prizes into a new batch.
func (c *counter) collect(t *testing.T, prizes ...money.Amount) terminal.Batch {
	t.Helper()
	if _, err := c.BeginBatch(); err != nil {
		t.Fatal(err)
	}
	for i, p := range prizes {
		tier := 3
		if p == 0 {
			tier = 0
		}
		c.check(c.ticket(t, 100+i, tier, p))
	}
	s, _ := c.State()
	return *s.Batch
}

func TestBatchPaysEachTicketByItsOwnClaimAndOneTotal(t *testing.T) {
	c := newCounter()
	b := c.collect(t, 2000, 0, 500, 100000) // the third is above the shop's limit
	if len(b.Views) != 4 || b.Prizes != 2 || b.Total != 2500 || len(b.Needs) != 0 {
		t.Fatalf("%d tickets, %d prizes, %d, needs %v", len(b.Views), b.Prizes, b.Total, b.Needs)
	}
	if _, err := c.Pay(ctx, b.Views[3].ID, terminal.Confirmed{}); !errors.Is(err, terminal.ErrBatch) {
		t.Fatalf("one of a batch paid apart: %v", err)
	}
	done, err := c.PayBatch(ctx, b.ID, terminal.Confirmed{})
	if err != nil || !done.Paid {
		t.Fatal(err)
	}
	again, err := c.PayBatch(ctx, b.ID, terminal.Confirmed{})
	if err != nil || len(c.ledger.Claims()) != 2 || len(again.Views) != 4 {
		t.Fatalf("%d claims: %v", len(c.ledger.Claims()), err)
	}
	var stages []string
	for _, v := range again.Views {
		stages = append(stages, fmt.Sprintf("%s %s", v.Stage, v.Verdict.Reason))
	}
	if want := []string{"paid winner", "verdict not-a-winner", "paid winner", "verdict above-shop-limit"}; !slices.Equal(stages, want) {
		t.Errorf("%q, want %q", stages, want)
	}
	if c.ledger.Claims()[0].ID == c.ledger.Claims()[1].ID {
		t.Error("two claims with one id")
	}
	if err := c.EndBatch(b.ID); err != nil {
		t.Fatal(err)
	}
	if s, _ := c.State(); s.Batch != nil || s.View.Stage != terminal.Idle {
		t.Error("the batch still stands")
	}
}

// TestActWithoutAManagerSaysThatOneIsMissing: an empty PIN is not called a wrong one, and no
// try is counted for it.
func TestActWithoutAManagerSaysThatOneIsMissing(t *testing.T) {
	c, _ := signing(t)
	if err := c.SetTraining(ctx, true, terminal.Credentials{}); !errors.Is(err, terminal.ErrManager) {
		t.Errorf("training: %v", err)
	}
	if _, err := c.Close(ctx, validate.DayClosing, terminal.Credentials{}); !errors.Is(err, terminal.ErrManager) {
		t.Errorf("Z of the day: %v", err)
	}
}

// TestTicketOfAPaidBatchAsksForNoMoreMoney: the counter shows the last ticket of a batch
// while it is paid, and the total is what was paid, not what was asked for.
func TestTicketOfAPaidBatchAsksForNoMoreMoney(t *testing.T) {
	c := newCounter()
	b := c.collect(t, 2000, 500)
	if _, err := c.PayBatch(ctx, b.ID, terminal.Confirmed{}); err != nil {
		t.Fatal(err)
	}
	s, _ := c.State()
	if s.View.ID != b.Views[1].ID || s.View.Stage != terminal.Paid || s.View.Receipt == nil || !s.Batch.Holds(s.View) {
		t.Errorf("the counter shows %s, %s", s.View.Stage, s.View.Verdict.Reason)
	}
	if v := c.check(c.ticket(t, 300, 3, 2000)); s.Batch.Holds(v) {
		t.Error("the next ticket is in the batch that is paid")
	}
	if err := c.SetTraining(ctx, true, terminal.Credentials{}); err != nil {
		t.Errorf("training after a paid batch: %v", err)
	}

	c = newCounter()
	b = c.collect(t, 2000, 500, 600)
	c.ledger.SetAllowance(1)
	done, err := c.PayBatch(ctx, b.ID, terminal.Confirmed{})
	if s, _ := c.State(); err != nil || done.Prizes != 1 || done.Total != 2000 || s.View.Verdict.Reason != validate.AllowanceSpent {
		t.Errorf("%d prizes, %d: %v; the counter shows %s", done.Prizes, done.Total, err, s.View.Verdict.Reason)
	}
}

func TestThresholdsOfABatchHoldForEachPrizeAndForTheTotal(t *testing.T) {
	for _, tc := range []struct {
		name   string
		prizes []money.Amount
		needs  []validate.Need
	}{
		{"below all", []money.Amount{2000, 2000}, nil},
		{"one prize at the cash limit", []money.Amount{10000, 100}, []validate.Need{validate.ConfirmCash}},
		{"the total at its cash limit", []money.Amount{6000, 6000}, []validate.Need{validate.ConfirmCash}},
		{"several over the identity total", []money.Amount{20000, 10100}, []validate.Need{validate.ConfirmCash, validate.Identity}},
		{"several at the identity total", []money.Amount{20000, 10000}, []validate.Need{validate.ConfirmCash}},
		{"one alone at the shop's limit", []money.Amount{30000}, []validate.Need{validate.ConfirmCash}},
	} {
		c := newCounter()
		c.register = &terminaltest.Register{}
		c.restart()
		b := c.collect(t, tc.prizes...)
		if !slices.Equal(b.Needs, tc.needs) {
			t.Errorf("%s: needs %v, want %v", tc.name, b.Needs, tc.needs)
		}
		if len(tc.needs) > 0 {
			if _, err := c.PayBatch(ctx, b.ID, terminal.Confirmed{}); !errors.Is(err, terminal.ErrNeeds) || len(c.ledger.Claims()) > 0 {
				t.Errorf("%s: paid all the same: %v", tc.name, err)
			}
		}
		if _, err := c.PayBatch(ctx, b.ID, terminal.Confirmed{Cash: true, Identity: &validate.Identification{}}); err != nil || len(c.ledger.Claims()) != len(tc.prizes) {
			t.Errorf("%s: %d of %d paid: %v", tc.name, len(c.ledger.Claims()), len(tc.prizes), err)
		}
		if recorded := len(c.register.Records()); recorded > 0 != slices.Contains(tc.needs, validate.Identity) {
			t.Errorf("%s: %d payments recorded with an identity", tc.name, recorded)
		}
	}
}

func TestIdentityThatCannotBeStoredPaysNothing(t *testing.T) {
	c := newCounter()
	c.register = &terminaltest.Register{}
	c.restart()
	b := c.collect(t, 20000, 20000)
	c.register.Break(errors.New("no key"))
	all := terminal.Confirmed{Cash: true, Identity: &validate.Identification{}}
	if _, err := c.PayBatch(ctx, b.ID, all); err == nil || len(c.ledger.Claims()) > 0 {
		t.Fatalf("%v, %d claims", err, len(c.ledger.Claims()))
	}
	c.register.Break(nil)
	if done, err := c.PayBatch(ctx, b.ID, all); err != nil || !done.Paid || len(c.register.Records()) != 2 {
		t.Fatal(err)
	}
	none := newCounter()
	b = none.collect(t, 20000, 20000)
	if _, err := none.PayBatch(ctx, b.ID, all); !errors.Is(err, terminal.ErrNeeds) {
		t.Errorf("a terminal without a register: %v", err)
	}
}

func TestSameTicketTwiceInABatchCountsOnce(t *testing.T) {
	c := newCounter()
	b := c.collect(t, 2000, 500)
	c.check(c.ticket(t, 100, 3, 2000))
	s, _ := c.State()
	if len(s.Batch.Views) != 2 || s.Batch.Total != 2500 {
		t.Fatalf("%d tickets, %d", len(s.Batch.Views), s.Batch.Total)
	}
	if _, err := c.PayBatch(ctx, b.ID, terminal.Confirmed{}); err != nil || len(c.ledger.Claims()) != 2 {
		t.Fatalf("%d claims: %v", len(c.ledger.Claims()), err)
	}
}

func TestEleventhTicketOfABatchIsToldToWait(t *testing.T) {
	c := newCounter()
	c.collect(t, slices.Repeat([]money.Amount{500}, terminal.MaxBatch)...)
	v := c.check(c.ticket(t, 300, 3, 2000))
	s, _ := c.State()
	if len(s.Batch.Views) != terminal.MaxBatch || !strings.Contains(v.Detail, "pay it first") || v.Verdict.Reason != validate.Winner {
		t.Errorf("%d tickets, %q", len(s.Batch.Views), v.Detail)
	}
}

func TestAllowanceThatEndsInABatchLeavesTheRestUnpaid(t *testing.T) {
	c := newCounter()
	b := c.collect(t, 2000, 500, 600)
	c.ledger.SetAllowance(1)
	done, err := c.PayBatch(ctx, b.ID, terminal.Confirmed{})
	if err != nil || len(c.ledger.Claims()) != 1 {
		t.Fatalf("%d claims: %v", len(c.ledger.Claims()), err)
	}
	for _, v := range done.Views[1:] {
		if v.Stage != terminal.Verdict || v.Verdict.Reason != validate.AllowanceSpent {
			t.Errorf("%s %s", v.Stage, v.Verdict.Reason)
		}
	}
}

// hasty signs on and lets the clerk press PAY before anybody has opened the shift.
type hasty struct {
	*terminaltest.Staff
	pay func()
}

func (h hasty) SignOn(ctx context.Context, who terminal.Credentials, float money.Amount, currency string) (terminal.Session, error) {
	s, err := h.Staff.SignOn(ctx, who, float, currency)
	h.pay()
	return s, err
}

// TestNothingIsPaidOutsideAShift: what is paid between sign-on and the shift's beginning
// would be in no shift's Z, and the clerk's till would not agree.
func TestNothingIsPaidOutsideAShift(t *testing.T) {
	c := newCounter()
	c.staff = terminaltest.NewStaff(map[string]string{"marie": "2468"})
	h := hasty{Staff: c.staff}
	var paid, open bool
	var v terminal.View
	h.pay = func() {
		got, _ := c.Pay(context.Background(), v.ID, terminal.Confirmed{})
		s, _ := c.ledger.Shift(context.Background())
		paid, open = got.Stage == terminal.Paid, s != nil
	}
	c.Terminal = terminal.New(terminal.Options{Name: "T-1", Shelf: c.shelf, Ledger: c.ledger, Printer: c.printer, Central: c.central, Staff: h, Currency: "EUR",
		Policy: func() policy.Policy { return c.limits }, Now: func() time.Time { return noon }, Trusted: func() time.Time { return noon }, Log: slog.New(slog.DiscardHandler)})
	v = c.check(c.ticket(t, 1, 8, 2000))
	if _, err := c.SignOn(context.Background(), terminal.Credentials{Operator: "marie", PIN: "2468"}, 5000); err != nil {
		t.Fatal(err)
	}
	if paid && !open {
		t.Error("paid while no shift was open")
	}
}

// TestStolenTicketIsToldWithWhoeverIsSignedOn: also on a locked counter, which a ticket
// under the scanner does not keep unlocked.
func TestStolenTicketIsToldWithWhoeverIsSignedOn(t *testing.T) {
	c, staff := signing(t)
	c.central.Set(func(s *terminal.Standing) { s.Pack = validate.PackStolenNow })
	c.check(c.ticket(t, 1, 8, 2000))
	if _, err := c.SignOn(ctx, who("anne", "4711"), 0); err != nil {
		t.Fatal(err)
	}
	c.check(c.ticket(t, 2, 8, 2000))
	staff.Lock()
	c.check(c.ticket(t, 3, 8, 2000))
	list := c.ledger.Reported()
	if len(list) != 3 || list[0].Operator != "" || list[1].Operator != "anne" || list[2].Operator != "anne" {
		t.Errorf("%+v", list)
	}
}
