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
	if v.Stage != Verdict || v.Code.Game == "" {
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

// CanIdentify is nil where a winner can be identified here, or says why not: ErrNeeds where
// this terminal keeps no identities, *Denied where it cannot now.
func (t *Terminal) CanIdentify() error {
	if t.opt.Register == nil {
		return errNoRegister
	}
	return t.opt.Register.Ready()
}
