package ledger

import (
	"context"
	"slices"
	"testing"
	"time"

	"grattoir/sync/wire"
	"grattoir/validate"
)

func look(reason validate.Reason, ticket uint16, at time.Time) validate.Looked {
	return validate.Looked{Ticket: validate.TicketKey{Block: validate.BlockID{7}, Pack: 12, Number: ticket}, Reason: reason, Entered: validate.Scanned, Operator: "marie", At: at}
}

func looksOf(t *testing.T, l *Ledger) ([]wire.Look, []int64) {
	t.Helper()
	looks, sightings, err := l.Looks(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if err := (wire.Hello{Looks: looks, Sightings: sightings}).CheckLooks(); err != nil {
		t.Fatal(err)
	}
	numbers := []int64{}
	for _, s := range sightings {
		numbers = append(numbers, s.Number)
	}
	return looks, numbers
}

// TestLooksAreCountedOverRestartsAndSightingsUntilCentralHoldsThem: counts of a day go on
// after a restart, a number never comes twice, and a ledger that began anew goes on behind
// what central holds.
func TestLooksAreCountedOverRestartsAndSightingsUntilCentralHoldsThem(t *testing.T) {
	ctx := context.Background()
	opt := options(t.TempDir())
	l, err := Open(ctx, opt)
	if err != nil {
		t.Fatal(err)
	}
	night := time.Date(2026, 11, 30, 23, 30, 0, 0, time.UTC) // 00:30 of the next day in Paris
	for range 3 {
		l.Looked(look(validate.NotAWinner, 1, night.Add(-time.Hour)))
	}
	l.Looked(look(validate.Winner, 2, night))
	l.Looked(look(validate.PackReturned, 3, night))
	l.Looked(look(validate.PackStolen, 6, night)) // the journal tells of it
	misread := look(validate.PackReturned, 4, night)
	misread.Ticket = validate.TicketKey{}
	l.Looked(misread)
	want := []wire.Look{{Day: "2026-12-01", Reason: validate.PackReturned, Entered: validate.Scanned, Number: 2}, {Day: "2026-12-01", Reason: validate.PackStolen, Entered: validate.Scanned, Number: 1},
		{Day: "2026-12-01", Reason: validate.Winner, Entered: validate.Scanned, Number: 1},
		{Day: "2026-11-30", Reason: validate.NotAWinner, Entered: validate.Scanned, Number: 3}}
	if looks, numbers := looksOf(t, l); !slices.Equal(looks, want) || !slices.Equal(numbers, []int64{1, 2}) {
		t.Errorf("%+v %v", looks, numbers)
	}
	if l.Head().Seq != 0 {
		t.Errorf("%d entries: a look is no money", l.Head().Seq)
	}
	if err := l.Sighted(ctx, 1); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l = openTest(t, opt)
	l.Looked(look(validate.NotAWinner, 1, night.Add(-time.Hour)))
	if looks, numbers := looksOf(t, l); looks[3].Number != 4 || !slices.Equal(numbers, []int64{2}) {
		t.Errorf("after a restart: %+v %v", looks, numbers)
	}
	if err := l.Sighted(ctx, 2); err != nil {
		t.Fatal(err)
	}
	l.Looked(look(validate.Winner, 5, night))
	if _, numbers := looksOf(t, l); !slices.Equal(numbers, []int64{3}) {
		t.Errorf("after all was told: %v, want 3, which is new", numbers)
	}
	if err := l.Sighted(ctx, 1000); err != nil { // an earlier ledger of this terminal told them
		t.Fatal(err)
	}
	l.Looked(look(validate.Winner, 6, night))
	if _, numbers := looksOf(t, l); !slices.Equal(numbers, []int64{1001}) {
		t.Errorf("behind an earlier ledger: %v, want 1001", numbers)
	}
	if err := l.SetTraining(ctx, true, "marie"); err != nil {
		t.Fatal(err)
	}
	l.Looked(look(validate.Winner, 7, night))
	if looks, numbers := looksOf(t, l); len(numbers) != 1 || looks[2].Number != 3 {
		t.Errorf("training was counted: %+v %v", looks, numbers)
	}
	if _, err := l.Verify(ctx); err != nil {
		t.Error(err)
	}
}

// TestLooksAreBounded: in memory, on disk and in a hello.
func TestLooksAreBounded(t *testing.T) {
	l := openTest(t, options(t.TempDir()))
	at := time.Date(2026, 11, 1, 10, 0, 0, 0, time.UTC)
	for i := range maxBuffered + 100 {
		l.Looked(look(validate.Winner, uint16(i), at.AddDate(0, 0, i%9)))
	}
	looks, numbers := looksOf(t, l)
	if len(looks) != lookDays || looks[0].Day != "2026-11-09" || len(numbers) != wire.MaxSightings || numbers[0] != 1 {
		t.Errorf("%d counts from %s, %d sightings from %d", len(looks), looks[0].Day, len(numbers), numbers[0])
	}
	for i := range 150 {
		l.Looked(look(validate.Winner, uint16(i), at))
	}
	if _, numbers := looksOf(t, l); numbers[0] != 151 {
		t.Errorf("the oldest are kept: from %d, want 151", numbers[0])
	}
}
