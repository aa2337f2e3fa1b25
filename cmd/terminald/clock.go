package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"grattoir/device/health"
	"grattoir/device/terminal"
	"grattoir/sync/ledger"
)

const (
	// tolerated is how far a clock may be from central's time.
	tolerated = 5 * time.Minute
	// steppedBy is what a clock must go back by at once to be told; less is its setting.
	steppedBy = 5 * time.Second
)

// clockWatch looks at the device's clock. It is a hint on slips and in entries and decides
// nothing, so whatever is wrong with it is told and stops no payment.
type clockWatch struct {
	now, trusted func() time.Time
	boot         func() time.Duration
	floor        time.Time // newest time known to be over at the start

	mu      sync.Mutex
	started time.Time // what the clock showed when the machine was started, as it shows it now
	back    string    // when and by how much it went back, "" for never
}

func newClockWatch(now func() time.Time, boot func() time.Duration, trusted func() time.Time, floor time.Time) *clockWatch {
	if floor.Before(health.Written()) {
		floor = health.Written()
	}
	return &clockWatch{now: now, trusted: trusted, boot: boot, floor: floor, started: now().Round(0).Add(-boot())}
}

// signedFloor is the newest time that central has signed, as the ledger keeps it; zero
// for none, or where it cannot be read.
func signedFloor(ctx context.Context, book *ledger.Ledger) time.Time {
	t, err := book.SignedTime(ctx)
	if err != nil {
		return time.Time{}
	}
	return t
}

// fault is what is wrong with the clock now, nil for nothing.
func (w *clockWatch) fault() *terminal.Fault {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.now().Round(0)
	started := now.Add(-w.boot())
	if by := w.started.Sub(started); by > steppedBy {
		w.back = fmt.Sprintf("by %s, to %s", by.Round(time.Second), shown(now))
	}
	w.started = started
	if t := w.trusted(); !t.IsZero() {
		switch off := now.Sub(t); {
		case off > tolerated:
			return health.Clock(health.ClockAhead, fmt.Sprintf("it shows %s, central's time is %s", shown(now), shown(t)))
		case off < -tolerated:
			return health.Clock(health.ClockBehind, fmt.Sprintf("it shows %s, central's time is %s", shown(now), shown(t)))
		}
		w.back = "" // central's time confirms it
		return nil
	}
	switch {
	case now.Before(w.floor):
		return health.Clock(health.ClockBehind, fmt.Sprintf("it shows %s, it is after %s", shown(now), shown(w.floor)))
	case now.After(w.floor.Add(health.Plausible)):
		return health.Clock(health.ClockAhead, fmt.Sprintf("it shows %s, the newest time known to be over is %s", shown(now), shown(w.floor)))
	case w.back != "":
		return health.Clock(health.ClockStepped, w.back)
	}
	return nil
}

func shown(t time.Time) string { return t.UTC().Format(time.DateTime + " UTC") }
