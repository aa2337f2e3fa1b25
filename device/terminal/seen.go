package terminal

import (
	"context"
	"errors"
	"slices"

	"grattoir/validate"
	"grattoir/validate/policy"
)

// Seen is what a clerk sees on a ticket's paper and no code can tell.
type Seen string

const (
	Sound      Seen = ""         // nothing is wrong with it
	VoidBox    Seen = "void-box" // the box "nul si découvert" was uncovered, in part or whole, before the ticket was presented
	Misprinted Seen = "misprint" // figures or words are missing or disagree: no prize, refund or exchange
)

// ErrNotNoted means that the counter shows nothing of which a fault of the paper could be entered.
var ErrNotNoted = errors.New("no fault of the paper can be entered for what is on the counter")

// CanNote tells whether a fault of the paper would change the view's verdict. That of a
// ticket that is proven to win nothing, or was paid before, stays what it is; one that was
// entered by mistake can be taken back.
func (v View) CanNote() bool {
	if v.Stage != Verdict || v.Code.Game == "" || v.TakenIn != nil {
		return false
	}
	return v.Seen != Sound || slices.Index(validate.Reasons(), v.Verdict.Reason) > slices.Index(validate.Reasons(), validate.Misprint)
}

// Note enters what whoever is at the counter sees on the paper of the ticket that view id
// shows, and decides anew. Nothing is paid of a ticket with a fault; what central has allowed
// of it is given back with the ticket, by Dismiss. The errors are ErrStale, ErrNotNoted and *Denied.
func (t *Terminal) Note(ctx context.Context, id string, what Seen) (View, error) {
	ctx = context.WithoutCancel(ctx)
	if err := t.enter(); err != nil {
		return t.shown(), err
	}
	defer t.act.Unlock()
	state, _ := t.State()
	v := state.View
	switch {
	case v.ID != id || id == "":
		return v, ErrStale
	case !v.CanNote() || !slices.Contains([]Seen{Sound, VoidBox, Misprinted}, what):
		return v, ErrNotNoted
	}
	operator, err := t.acting()
	if err != nil {
		return v, err
	}
	v.policy = t.policy()
	v.Seen, v.Detail, v.Slip = what, "", t.resultSlips(v) == policy.SlipsEach
	v.Verdict = t.decide(ctx, &v, false)
	t.join(&v)
	t.opt.Log.Info("seen on the paper", "ticket", v.Code, "seen", what, "operator", operator, "outcome", v.Verdict.Outcome, "reason", v.Verdict.Reason)
	t.change(func(st *State) { st.View = v })
	t.looks(v)
	if v.Slip {
		t.printResult(v)
	}
	return v, nil
}

// CanTakeIn tells whether the view's ticket may be refunded or exchanged: the clerk has entered
// a misprint, and nothing stands before it.
func (v View) CanTakeIn() bool {
	return v.Stage == Verdict && v.Verdict.Reason == validate.Misprint && v.Seen == Misprinted && v.TakenIn == nil
}

// TakeIn records what the player got for the misprinted ticket that view id shows: by whoever
// is at the counter, with a manager's PIN. It is then never paid here. A second call gives the
// first one's entry. The errors are ErrStale, ErrNotNoted, *Denied and the ledger's.
func (t *Terminal) TakeIn(ctx context.Context, id string, what validate.Remedy, manager Credentials) (View, error) {
	ctx = context.WithoutCancel(ctx)
	operator, err := t.acting()
	if err != nil {
		return View{}, err
	}
	state, _ := t.State()
	switch v := state.View; {
	case v.ID != id || id == "":
		return v, ErrStale
	case v.TakenIn != nil:
		return v, nil
	case !v.CanTakeIn() || state.Training:
		return v, ErrNotNoted
	}
	allowed, err := t.approve(ctx, ApproveReversal, "misprint "+state.View.Code.PackText()+"-"+state.View.Code.NumberText(), manager)
	if err != nil {
		return state.View, err
	}
	t.act.Lock()
	defer t.act.Unlock()
	state, _ = t.State() // looking at a PIN takes long
	v := state.View
	if v.ID != id || !v.CanTakeIn() {
		return v, ErrStale
	}
	claim := t.claim(v, operator)
	m := validate.Misprinted{Ticket: claim.Ticket, Slip: claim.Slip, Remedy: what, Currency: v.Opened.Currency, Entered: v.Entered, Operator: operator, Manager: allowed}
	if what == validate.Refunded {
		m.Amount = v.Opened.Price
	}
	if m, err = t.opt.Ledger.TakeIn(ctx, m); err != nil {
		return v, err
	}
	v.TakenIn = &m
	t.opt.Log.Info("misprint taken in", "ticket", v.Code, "seq", m.Entry.Seq, "remedy", what, "operator", operator, "manager", allowed)
	t.change(func(st *State) { st.View = v })
	return v, nil
}

// CanIdentify is nil where a winner can be identified here, or says why not: ErrNeeds where
// this terminal keeps no identities, *Denied where it cannot now.
func (t *Terminal) CanIdentify() error {
	if t.opt.Register == nil {
		return errNoRegister
	}
	return t.opt.Register.Ready()
}
