package terminal

import (
	"context"
	"fmt"
	"time"

	"grattoir/validate"
)

// A ticket that only central can allow is paid in three acts instead of two: it is
// checked, central is asked, it is paid. What the terminal means to pay is durable before
// central hears of it, and central's answer before the page shows it, so that a restart at
// any moment finds the same claim id and gets the same answer. The asking itself is the
// link's: here the intent is written down and the answer awaited.

// unusedAfter is how long an intent waits that nobody deals with any more. Central keeps
// the ticket from everybody else meanwhile, and its player may be in another shop.
const unusedAfter = 10 * time.Minute

// CanAsk tells whether central can be asked to allow the payment of the view's ticket.
func (v View) CanAsk() bool {
	if v.Stage != Verdict || !v.asks {
		return false
	}
	switch v.Verdict.Reason {
	case validate.NeedsCentral, validate.OwnerSilent, validate.AllowanceSpent:
		return true
	}
	return false
}

// begun tells whether an intent of the view's ticket may be live.
func (v View) begun() bool {
	return v.Stage == Verdict && (v.right == validate.RightAsking || v.right == validate.RightSilent || v.right == validate.RightGrant || v.right == validate.RightRisk)
}

// Ask asks central to allow the payment of the ticket that view id shows. It returns as
// soon as the intent is durable, with a view that waits; the answer comes as another view
// of the same id. A verdict that central cannot change comes back as it is now.
func (t *Terminal) Ask(ctx context.Context, id string) (View, error) {
	ctx = context.WithoutCancel(ctx)
	if err := t.enter(); err != nil {
		return t.shown(), err
	}
	defer t.act.Unlock()
	state, _ := t.State()
	v := state.View
	if v.ID != id || id == "" {
		return v, ErrStale
	}
	operator, err := t.serving(ctx)
	if err != nil {
		return v, err
	}
	v.policy = t.policy()
	v.Verdict = t.decide(ctx, &v, false)
	if v.CanAsk() && !state.Training {
		intent, err := t.opt.Ledger.Intend(ctx, t.claim(v, operator))
		if err == nil {
			t.opt.Step("intended")
			t.opt.Log.Info("central is asked", "ticket", v.Code, "claim", intent.Claim, "operator", operator)
			v.Detail = ""
		}
		v.Verdict = t.decide(ctx, &v, false)
		if err != nil {
			v.Detail = err.Error()
		}
	}
	t.join(&v)
	t.change(func(st *State) { st.View = v })
	return v, nil
}

// intended lays what central was asked about a ticket over the facts. A live intent gives
// the view its own id: whatever is paid of the ticket is paid by that.
func (t *Terminal) intended(ctx context.Context, v *View, f *validate.Facts, s Standing) error {
	v.risk = nil
	i, err := t.opt.Ledger.Intent(ctx, v.Opened.Key())
	if err != nil || i == nil {
		return err
	}
	switch {
	case i.State == validate.IntentApproved:
		f.Right, f.PaidElsewhere = validate.RightGrant, nil // it knows of all payments there
		v.ownerEpoch, v.round = i.OwnerEpoch, i.Round
	case i.State == validate.IntentAsking && i.Silent:
		f.Right = validate.RightSilent
	case i.State.Live():
		f.Right = validate.RightAsking
	case i.State == validate.IntentDenied && i.Next > v.round:
		v.round = i.Next
	case i.State == validate.IntentDenied && i.Round == v.round && f.PaidElsewhere == nil:
		f.PaidElsewhere = i.Paid
	}
	if i.State == validate.IntentDenied && i.Text != "" {
		v.Detail = fmt.Sprintf("central, %s: %s", i.Why, i.Text)
	}
	if i.State.Live() {
		v.ID = i.Claim
	}
	v.atRisk(i, f, s)
	return nil
}

// atRisk lets the policy pay a small prize that nobody answers about: the owner of its pack
// does not, or central cannot be reached. Which party bears that goes into the journal.
func (v *View) atRisk(i *validate.Intent, f *validate.Facts, s Standing) {
	why := "owner-silent"
	if !i.Silent {
		why = "central-silent"
	}
	if i.State != validate.IntentAsking || !i.Silent && !s.Unheard || !s.Foreign || i.Round > 0 || !v.policy.BooksRisk(v.Opened.Amount) {
		return
	}
	f.Right = validate.RightRisk
	v.risk = &validate.Risk{Party: v.policy.BookedRiskParty, Limit: v.policy.BookedRisk, Why: why}
}

// heed shows what central answers, and gives back what nobody uses, until ctx ends.
func (t *Terminal) heed(ctx context.Context) {
	touched := map[string]time.Time{} // live intents: when the counter last had to do with them
	for ctx.Err() == nil {
		changed := t.opt.Ledger.IntentsChanged() // before looking
		t.answered(context.WithoutCancel(ctx))
		next := t.tidy(context.WithoutCancel(ctx), touched)
		if state, _ := t.State(); state.View.waits() {
			next = min(next, lookAgain) // central may be found to be out of reach
		}
		alarm := time.NewTimer(next)
		select {
		case <-ctx.Done():
		case <-changed:
		case <-alarm.C:
		}
		alarm.Stop()
	}
}

// answered decides anew about the tickets on the counter that wait for central.
func (t *Terminal) answered(ctx context.Context) {
	t.act.Lock()
	defer t.act.Unlock()
	state, _ := t.State()
	if v := state.View; v.waits() {
		if t.again(ctx, &v); !v.waits() {
			t.join(&v)
			t.change(func(s *State) { s.View = v })
			t.opt.Step("answer-shown")
		}
	}
	if b := state.Batch; b != nil && !b.Paid {
		for _, v := range b.Views {
			if v.waits() && v.ID != state.View.ID {
				t.again(ctx, &v)
				t.join(&v)
			}
		}
	}
}

func (v View) waits() bool {
	return v.Stage == Verdict && v.Verdict.Reason == validate.WaitingForCentral
}

func (t *Terminal) again(ctx context.Context, v *View) {
	v.policy = t.policy()
	v.Verdict = t.decide(ctx, v, false)
	if v.waits() {
		return
	}
	t.opt.Log.Info("central has answered", "ticket", v.Code, "claim", v.ID, "outcome", v.Verdict.Outcome, "reason", v.Verdict.Reason, "detail", v.Detail)
	if v.Verdict.Outcome == validate.Pay {
		t.opt.Ledger.Prepare(t.claim(*v, ""))
	}
}

// tidy gives back live intents that the counter has not shown for unusedAfter, those of an
// earlier run included, and tells when to look again.
func (t *Terminal) tidy(ctx context.Context, touched map[string]time.Time) (next time.Duration) {
	t.act.Lock()
	defer t.act.Unlock()
	live, err := t.opt.Ledger.Intents(ctx)
	if err != nil {
		t.opt.Log.Error("cannot read what central was asked", "err", err)
		return unusedAfter
	}
	state, _ := t.State()
	now := time.Now()
	known := map[string]bool{}
	next = unusedAfter
	for _, i := range live {
		known[i.Claim] = true
		shown := state.View.ID == i.Claim || state.Batch != nil && !state.Batch.Paid && state.Batch.Holds(View{ID: i.Claim})
		if touched[i.Claim].IsZero() || shown {
			touched[i.Claim] = now
		}
		left := unusedAfter - now.Sub(touched[i.Claim])
		if left <= 0 && i.State != validate.IntentReturning {
			t.giveBack(ctx, i.Claim)
			continue
		}
		if left > 0 {
			next = min(next, left)
		}
	}
	for id := range touched {
		if !known[id] {
			delete(touched, id)
		}
	}
	return next
}

// ReleasePacks gives up the right to pay this terminal's packs with no network, by a
// manager where operators sign on. Every other shop is then allowed to pay their tickets
// without waiting for this terminal, and this one asks central too.
func (t *Terminal) ReleasePacks(ctx context.Context, manager Credentials) (runs int, err error) {
	who, err := t.approve(ctx, ApproveClosing, "release", manager)
	if err != nil {
		return 0, err
	}
	if err := t.enter(); err != nil {
		return 0, err
	}
	defer t.act.Unlock()
	return t.release(context.WithoutCancel(ctx), who, false)
}

func (t *Terminal) release(ctx context.Context, who string, closing bool) (int, error) {
	runs, err := t.opt.Ledger.ReleasePacks(ctx, who, closing)
	if err == nil {
		t.opt.Step("released")
		t.opt.Log.Info("packs released", "runs", runs, "operator", who)
	}
	return runs, err
}

// TakePacks asks central for the released packs. They are this terminal's again when the
// feed says so.
func (t *Terminal) TakePacks(ctx context.Context) error {
	if _, err := t.serving(ctx); err != nil {
		return err
	}
	return t.opt.Ledger.TakeBack(context.WithoutCancel(ctx))
}

// giveBack ends the intents that views have begun, if they are live. The lock of acts is held.
func (t *Terminal) giveBack(ctx context.Context, claims ...string) {
	for _, id := range claims {
		if err := t.opt.Ledger.GiveBack(ctx, id); err != nil {
			t.opt.Log.Error("a claim that is not used cannot be given back", "claim", id, "err", err)
			continue
		}
		t.opt.Step("given-back")
		t.opt.Log.Info("a claim that is not used is given back", "claim", id)
	}
}
