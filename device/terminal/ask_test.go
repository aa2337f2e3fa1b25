package terminal_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"grattoir/device/terminal"
	"grattoir/validate"
)

func (c *counter) ask(t testing.TB, v terminal.View) terminal.View {
	t.Helper()
	v, err := c.Ask(context.Background(), v.ID)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// foreign makes every pack another terminal's, and central one that can be asked.
func (c *counter) foreign() {
	c.central.Set(func(s *terminal.Standing) { s.Right, s.OwnerEpoch, s.Asks = validate.RightNone, 4, true })
}

func (c *counter) view() terminal.View {
	s, _ := c.State()
	return s.View
}

func wantReason(t testing.TB, v terminal.View, want validate.Reason) {
	t.Helper()
	if v.Verdict.Reason != want {
		t.Fatalf("%s, want %s: %+v", v.Verdict.Reason, want, v)
	}
}

func approve(i *validate.Intent) { i.State, i.OwnerEpoch = validate.IntentApproved, 5 }

// TestForeignTicketIsCheckedAskedAndPaid is the whole story at the counter: a check asks
// nobody, the intent is there before the page waits, the answer comes to the page by
// itself, and what is paid is what was allowed.
func TestForeignTicketIsCheckedAskedAndPaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCounter()
		c.foreign()
		code := c.ticket(t, 1, 8, 2000)
		stop := c.runs(t)
		defer stop()
		v := c.check(code)
		wantReason(t, v, validate.NeedsCentral)
		if live, _ := c.ledger.Intents(t.Context()); len(live) != 0 || !v.CanAsk() {
			t.Fatalf("a check has asked: %+v, or nobody can: %v", live, v.CanAsk())
		}
		v = c.ask(t, v)
		wantReason(t, v, validate.WaitingForCentral)
		if v.CanAsk() || c.pay(t, v).Receipt != nil {
			t.Fatal("asked twice, or paid before the answer")
		}
		c.ledger.Answer(v.ID, approve)
		synctest.Wait()
		v = c.view()
		wantReason(t, v, validate.Winner)
		v = c.pay(t, v)
		if v.Stage != terminal.Paid || v.Receipt.ID != v.ID || v.Receipt.Right != validate.RightGrant || v.Receipt.OwnerEpoch != 5 {
			t.Fatalf("%s %+v", v.Stage, v.Receipt)
		}
		if live, _ := c.ledger.Intents(t.Context()); len(live) != 0 {
			t.Errorf("it lives on: %+v", live)
		}
		order := []string{"intended", "answer-shown", "recorded", "paid-shown"}
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, s := range c.steps {
			if len(order) > 0 && s == order[0] {
				order = order[1:]
			}
		}
		if len(order) > 0 {
			t.Errorf("steps %v lack %v in this order", c.steps, order)
		}
	})
}

// TestAskingSurvivesARestart: the same id waits, is allowed and pays, whoever scans it.
func TestAskingSurvivesARestart(t *testing.T) {
	c := newCounter()
	c.foreign()
	code := c.ticket(t, 1, 8, 2000)
	first := c.ask(t, c.check(code))
	c.restart()
	v := c.check(code)
	wantReason(t, v, validate.WaitingForCentral)
	if v.ID != first.ID {
		t.Fatalf("another claim: %s, was %s", v.ID, first.ID)
	}
	c.ledger.Answer(first.ID, approve)
	c.restart()
	if v = c.pay(t, c.check(code)); v.Stage != terminal.Paid || v.Receipt.ID != first.ID {
		t.Fatalf("%+v", v)
	}
	wantReason(t, c.check(code), validate.AlreadyPaidHere)
}

// TestDenialSaysWhy: paid elsewhere, with where and when; a silent owner, who may be asked
// about again; a round that was opened elsewhere.
func TestDenialSaysWhy(t *testing.T) {
	c := newCounter()
	c.foreign()
	paid := c.ask(t, c.check(c.ticket(t, 1, 8, 2000)))
	c.ledger.Answer(paid.ID, func(i *validate.Intent) {
		i.State, i.Paid = validate.IntentDenied, &validate.Payment{Terminal: "T-9", Number: "1-000042", At: noon}
	})
	v := c.check(paid.Code)
	wantReason(t, v, validate.AlreadyPaidElsewhere)
	if v.Verdict.Paid.Terminal != "T-9" || !v.Verdict.Paid.At.Equal(noon) {
		t.Errorf("%+v", v.Verdict.Paid)
	}
	silent := c.ask(t, c.check(c.ticket(t, 2, 8, 2000)))
	c.ledger.Answer(silent.ID, func(i *validate.Intent) { i.Silent = true })
	v = c.check(silent.Code)
	wantReason(t, v, validate.OwnerSilent)
	if v.ID != silent.ID || !v.CanAsk() {
		t.Fatalf("%+v", v)
	}
	wantReason(t, c.ask(t, v), validate.WaitingForCentral)
	later := c.ask(t, c.check(c.ticket(t, 3, 8, 2000)))
	c.ledger.Answer(later.ID, func(i *validate.Intent) { i.State, i.Next, i.Text = validate.IntentDenied, 2, "reversed twice" })
	v = c.ask(t, c.check(later.Code))
	wantReason(t, v, validate.WaitingForCentral)
	c.ledger.Answer(v.ID, approve)
	if v = c.pay(t, c.check(later.Code)); v.Stage != terminal.Paid || v.Receipt.Round != 2 || v.Receipt.ID == later.ID {
		t.Fatalf("%+v", v.Receipt)
	}
}

// TestUnusedClaimIsGivenBack: when the ticket is cleared away, and when nobody deals with
// it for a long time, after a restart too; never while the page shows it.
func TestUnusedClaimIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCounter()
		c.foreign()
		state := func(v terminal.View) validate.IntentState {
			i, err := c.ledger.Intent(t.Context(), v.Opened.Key())
			if err != nil || i == nil {
				t.Fatalf("%v %v", i, err)
			}
			return i.State
		}
		stop := c.runs(t)
		cleared := c.ask(t, c.check(c.ticket(t, 1, 8, 2000)))
		c.ledger.Answer(cleared.ID, approve)
		c.Dismiss(cleared.ID)
		if s := state(cleared); s != validate.IntentReturning {
			t.Errorf("cleared away it is %s", s)
		}
		left := c.ask(t, c.check(c.ticket(t, 2, 8, 2000)))
		shown := c.ask(t, c.check(c.ticket(t, 3, 8, 2000)))
		c.ledger.Answer(left.ID, approve)
		time.Sleep(9 * time.Minute)
		if s := state(left); s != validate.IntentApproved {
			t.Errorf("too soon: %s", s)
		}
		time.Sleep(2 * time.Minute)
		if s := state(left); s != validate.IntentReturning {
			t.Errorf("nobody used it, and it is %s", s)
		}
		if s := state(shown); s != validate.IntentAsking {
			t.Errorf("the page shows it, and it is %s", s)
		}
		stop()
		c.restart()
		stop = c.runs(t)
		defer stop()
		time.Sleep(11 * time.Minute)
		if s := state(shown); s != validate.IntentReturning {
			t.Errorf("from before the restart: %s", s)
		}
	})
}

// TestCentralIsAskedOnlyWhereItCanHelp: not in training, not about what no word of its
// changes, not on a terminal that has none.
func TestCentralIsAskedOnlyWhereItCanHelp(t *testing.T) {
	c := newCounter()
	c.foreign()
	code := c.ticket(t, 1, 8, 2000)
	asked := func() int {
		live, err := c.ledger.Intents(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return len(live)
	}
	loser := c.check(c.ticket(t, 2, 0, 0))
	wantReason(t, c.ask(t, loser), validate.NotAWinner)
	wantReason(t, c.ask(t, c.check(c.ticket(t, 3, 1, 40000))), validate.AboveShopLimit)
	if _, err := c.Ask(context.Background(), loser.ID); !errors.Is(err, terminal.ErrStale) {
		t.Errorf("another ticket is on the counter: %v", err)
	}
	c.central.Set(func(s *terminal.Standing) { s.Asks = false })
	wantReason(t, c.ask(t, c.check(code)), validate.NeedsCentral)
	c.foreign()
	if err := c.ledger.SetTraining(t.Context(), true, "marie"); err != nil {
		t.Fatal(err)
	}
	c.restart()
	wantReason(t, c.ask(t, c.check(code)), validate.NeedsCentral)
	if n := asked(); n != 0 {
		t.Errorf("%d intents", n)
	}
}

// TestOwnTicketBeyondTheAllowanceIsPaidByCentralsWord, and only that one.
func TestOwnTicketBeyondTheAllowanceIsPaidByCentralsWord(t *testing.T) {
	c := newCounter()
	c.central.Set(func(s *terminal.Standing) { s.Asks = true })
	c.ledger.SetAllowance(1)
	c.pay(t, c.check(c.ticket(t, 1, 8, 2000)))
	v := c.check(c.ticket(t, 2, 8, 2000))
	wantReason(t, v, validate.AllowanceSpent)
	v = c.ask(t, v)
	c.ledger.Answer(v.ID, approve)
	if v = c.pay(t, c.check(v.Code)); v.Stage != terminal.Paid {
		t.Fatalf("%+v", v.Verdict)
	}
	wantReason(t, c.check(c.ticket(t, 3, 8, 2000)), validate.AllowanceSpent)
}

// TestTicketOfABatchIsAllowedBesideTheOthers: the batch counts it once the answer is there,
// and giving the batch up gives it back.
func TestTicketOfABatchIsAllowedBesideTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCounter()
		c.foreign()
		stop := c.runs(t)
		defer stop()
		b, err := c.BeginBatch()
		if err != nil {
			t.Fatal(err)
		}
		one := c.ask(t, c.check(c.ticket(t, 1, 8, 2000)))
		two := c.ask(t, c.check(c.ticket(t, 2, 8, 2000)))
		c.ledger.Answer(one.ID, approve)
		c.ledger.Answer(two.ID, approve)
		synctest.Wait()
		state, _ := c.State()
		if state.Batch == nil || len(state.Batch.Views) != 2 || state.Batch.Prizes != 2 {
			t.Fatalf("%+v", state.Batch)
		}
		if err := c.EndBatch(b.ID); err != nil {
			t.Fatal(err)
		}
		live, err := c.ledger.Intents(t.Context())
		if err != nil || slices.ContainsFunc(live, func(i validate.Intent) bool { return i.State != validate.IntentReturning }) {
			t.Errorf("%+v %v", live, err)
		}
	})
}

// TestDaysEndReleasesThePacks, where that is wanted, and the next sign-on takes them back.
func TestDaysEndReleasesThePacks(t *testing.T) {
	for _, wanted := range []bool{false, true} {
		c, _ := signing(t)
		c.releases = wanted
		c.restart()
		if _, err := c.SignOn(t.Context(), who("anne", "4711"), 0); err != nil {
			t.Fatal(err)
		}
		if _, err := c.SignOff(t.Context(), terminal.Credentials{}); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Close(t.Context(), validate.DayClosing, who("max", "9073")); err != nil {
			t.Fatal(err)
		}
		if c.ledger.Released() != wanted {
			t.Errorf("wanted %v, released %v", wanted, c.ledger.Released())
		}
		if _, err := c.SignOn(t.Context(), who("anne", "4711"), 0); err != nil {
			t.Fatal(err)
		}
		if c.ledger.Released() {
			t.Error("the packs are not asked for at the opening")
		}
		if n, err := c.ReleasePacks(t.Context(), terminal.Credentials{}); !errors.Is(err, terminal.ErrManager) || n != 0 {
			t.Errorf("released by anybody: %v", err)
		}
		if n, err := c.ReleasePacks(t.Context(), who("max", "9073")); err != nil || n != 1 || !c.ledger.Released() {
			t.Errorf("%d: %v", n, err)
		}
		if err := c.TakePacks(t.Context()); err != nil || c.ledger.Released() {
			t.Errorf("%v", err)
		}
	}
}

// TestSmallPrizeIsPaidAtABookedRisk: where the policy says so, of a foreign pack, in its
// first round, when the owner or central was asked and does not answer; never above the
// limit, and not before somebody was asked.
func TestSmallPrizeIsPaidAtABookedRisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCounter()
		c.foreign()
		c.central.Set(func(s *terminal.Standing) { s.Foreign = true })
		c.limits.BookedRisk, c.limits.BookedRiskParty = 2000, "lottery"
		stop := c.runs(t)
		defer stop()
		wantReason(t, c.check(c.ticket(t, 1, 8, 2000)), validate.NeedsCentral)
		v := c.ask(t, c.view())
		wantReason(t, v, validate.WaitingForCentral)
		c.ledger.Answer(v.ID, func(i *validate.Intent) { i.Silent = true })
		synctest.Wait()
		v = c.pay(t, c.view())
		if v.Stage != terminal.Paid || v.Receipt.Right != validate.RightRisk || v.Receipt.Risk == nil || *v.Receipt.Risk != (validate.Risk{Party: "lottery", Limit: 2000, Why: "owner-silent"}) {
			t.Fatalf("%s %+v", v.Stage, v.Verdict)
		}
		v = c.ask(t, c.check(c.ticket(t, 2, 8, 2000)))
		c.central.Set(func(s *terminal.Standing) { s.Unheard = true })
		time.Sleep(5 * time.Second)
		if v = c.pay(t, c.view()); v.Stage != terminal.Paid || v.Receipt.Risk.Why != "central-silent" {
			t.Fatalf("%s %+v", v.Stage, v.Verdict)
		}
		v = c.ask(t, c.check(c.ticket(t, 3, 7, 2001)))
		c.ledger.Answer(v.ID, func(i *validate.Intent) { i.Silent = true })
		synctest.Wait()
		wantReason(t, c.view(), validate.OwnerSilent)
		v = c.ask(t, c.check(c.ticket(t, 4, 8, 2000)))
		c.ledger.Answer(v.ID, func(i *validate.Intent) { i.Silent = true })
		c.central.Set(func(s *terminal.Standing) { s.Foreign = false })
		wantReason(t, c.check(v.Code), validate.OwnerSilent) // its own, which central holds
	})
}
