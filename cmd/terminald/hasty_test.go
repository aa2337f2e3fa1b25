package main

import (
	"errors"
	"testing"
	"time"

	"grattoir/device/terminal"
	"grattoir/sync/ledger/people"
)

// TestPageAndPeopleRefuseHastyPINsInTheSameWords: a clerk who waits meets one count, not two;
// and a wrong PIN is known to the counter for what it is, nothing else is.
func TestPageAndPeopleRefuseHastyPINsInTheSameWords(t *testing.T) {
	page, own := terminal.Hasty(time.Second), people.Explain(people.ErrWait)
	if page.Code != own.Code || page.ClerkFR != own.ClerkFR || page.ClerkEN != own.ClerkEN {
		t.Errorf("the page says %+v, people %+v", page.Fault, own)
	}
	if err := denied(&people.Refusal{Reason: people.ErrWrong, Left: 3}); !errors.Is(err, terminal.ErrPIN) || !errors.Is(err, people.ErrWrong) {
		t.Errorf("a wrong PIN is no wrong PIN: %v", err)
	}
	for _, other := range []error{people.ErrWait, people.ErrLockedOut, people.ErrRole, people.ErrNotWritable} {
		if errors.Is(denied(other), terminal.ErrPIN) {
			t.Errorf("%v is taken for a wrong PIN", other)
		}
	}
}
