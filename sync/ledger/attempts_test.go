package ledger

import (
	"context"
	"errors"
	"testing"

	"grattoir/validate"
)

// TestAttemptIsToldOncePerTicketAndReason, over restarts, and never in training.
func TestAttemptIsToldOncePerTicketAndReason(t *testing.T) {
	ctx := context.Background()
	l := openTest(t, options(t.TempDir()))
	stolen := validate.Attempt{Ticket: claim(t, 1).Ticket, Reason: validate.PackStolen, Operator: "marie", Entered: validate.Scanned}
	tried := stolen
	tried.Reason = validate.TooManyAttempts
	report := func(a validate.Attempt) {
		t.Helper()
		if err := l.Report(ctx, a); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.SetTraining(ctx, true, "marie"); err != nil {
		t.Fatal(err)
	}
	report(stolen)
	if err := l.SetTraining(ctx, false, "marie"); err != nil {
		t.Fatal(err)
	}
	before := l.Head().Seq
	for range validate.MaxAttempts {
		if _, err := l.Failed(ctx, tried.Ticket); err != nil {
			t.Fatal(err)
		}
	}
	report(stolen)
	report(tried)
	l = reopen(t, l)
	report(stolen)
	report(tried)
	other := tried
	other.Reason = validate.NotAWinner
	if err := l.Report(ctx, other); !errors.Is(err, ErrEntry) {
		t.Errorf("a verdict that nobody is told of: %v", err)
	}
	_, lines, _, err := l.Since(ctx, before, 9)
	if err != nil || len(lines) != 2 {
		t.Fatalf("%d entries, want 2: %v", len(lines), err)
	}
	for i, want := range []AttemptBody{{Reason: validate.PackStolen}, {Reason: validate.TooManyAttempts}} {
		e, err := ParseEntry([]byte(lines[i]))
		if err != nil {
			t.Fatal(err)
		}
		got, err := e.Attempt()
		if err != nil || got.Reason != want.Reason || got.Failed != validate.MaxAttempts || got.Operator != "marie" || got.Ticket != stolen.Ticket.Number {
			t.Errorf("%+v %v", got, err)
		}
	}
	if err := l.Audit(ctx); err != nil {
		t.Error(err)
	}
}
