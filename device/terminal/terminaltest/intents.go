package terminaltest

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"grattoir/validate"
)

// ErrRight means that the terminal may not pay the ticket in this way now.
var ErrRight = errors.New("this terminal may not pay the ticket now")

// Intend keeps an intent, or gives the live one of the ticket.
func (l *Ledger) Intend(_ context.Context, c validate.Claim) (validate.Intent, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := cmp.Or(l.writing, l.reading); err != nil {
		return validate.Intent{}, err
	}
	for i := range l.intents {
		if w := &l.intents[i]; w.Ticket == c.Ticket && w.State.Live() {
			w.Silent = false
			l.intentChanged()
			return *w, nil
		}
	}
	l.intents = append(l.intents, validate.Intent{Claim: c.ID, Ticket: c.Ticket, Round: c.Round, Amount: c.Amount, Currency: c.Currency, State: validate.IntentAsking, Next: -1, Asked: l.now()})
	l.intentChanged()
	return l.intents[len(l.intents)-1], nil
}

// GiveBack ends a live intent.
func (l *Ledger) GiveBack(_ context.Context, claim string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.intents {
		if w := &l.intents[i]; w.Claim == claim && (w.State == validate.IntentAsking || w.State == validate.IntentApproved) {
			w.State = validate.IntentReturning
			l.intentChanged()
		}
	}
	return l.writing
}

// Answer edits the intent of a claim, as central's answer does.
func (l *Ledger) Answer(claim string, edit func(*validate.Intent)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.intents {
		if l.intents[i].Claim == claim {
			edit(&l.intents[i])
			l.intentChanged()
		}
	}
}

// Intent is the newest intent of a ticket.
func (l *Ledger) Intent(_ context.Context, t validate.TicketKey) (*validate.Intent, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, i := range slices.Backward(l.intents) {
		if i.Ticket == t {
			return &i, l.reading
		}
	}
	return nil, l.reading
}

// Intents are the live ones, oldest first.
func (l *Ledger) Intents(context.Context) ([]validate.Intent, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var live []validate.Intent
	for _, i := range l.intents {
		if i.State.Live() {
			live = append(live, i)
		}
	}
	return live, l.reading
}

// IntentsChanged is closed at the next change of an intent.
func (l *Ledger) IntentsChanged() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed
}

func (l *Ledger) intentChanged() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// mayPay is nil when a claim has its right: a grant only its very own, and without one
// neither a later round nor a ticket that central is asked about.
func (l *Ledger) mayPay(c validate.Claim) error {
	approved, live := false, false
	for _, i := range l.intents {
		if i.Ticket == c.Ticket && i.State.Live() {
			live = true
			approved = approved || i.Claim == c.ID && i.State == validate.IntentApproved
		}
	}
	if c.Right == validate.RightRisk && live && c.Risk != nil && c.Round == 0 {
		return nil
	}
	if c.Right == validate.RightGrant && !approved || c.Right != validate.RightGrant && (live || c.Round > 0) {
		return ErrRight
	}
	return nil
}

// spend ends the intent of a recorded claim.
func (l *Ledger) spend(c validate.Claim) {
	for i := range l.intents {
		if l.intents[i].Claim == c.ID && l.intents[i].State.Live() {
			l.intents[i].State = validate.IntentUsed
			l.intentChanged()
		}
	}
}

// ReleasePacks counts as one run, until TakeBack.
func (l *Ledger) ReleasePacks(context.Context, string, bool) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.writing != nil || l.released {
		return 0, l.writing
	}
	l.released = true
	return 1, nil
}

// TakeBack ends a release.
func (l *Ledger) TakeBack(context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.released = l.released && l.writing != nil
	return l.writing
}

// Released tells whether the packs are given up.
func (l *Ledger) Released() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.released
}
