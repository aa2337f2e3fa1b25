package gpio

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// relay is an output: on or off, whatever level that is. A nil one is not wired.
type relay struct {
	part      Part
	line      *line
	activeLow bool
}

func (r *relay) set(on bool) error {
	if r == nil {
		return nil
	}
	if err := r.line.drive(on != r.activeLow); err != nil {
		return fmt.Errorf("gpio: output %s: %w", r.part, err)
	}
	return nil
}

var (
	// ErrNoDrawer means that no drawer is wired here, or that its line is not usable.
	ErrNoDrawer = errors.New("no drawer is wired to a pin of this terminal")
	// ErrDrawerBusy means that the drawer is being opened by another call.
	ErrDrawerBusy = errors.New("the drawer is being opened already")
	// ErrDrawerStuck means that the coil could not be switched off and may be burning.
	ErrDrawerStuck = errors.New("the drawer's coil could not be switched off")
)

// How often and how soon the coil is switched off again when that fails.
const (
	offTries = 20
	offEvery = 5 * time.Millisecond
)

// drawer opens the cash drawer through a transistor. The pin never carries the coil's
// current, and a coil burns when it stays on: everything here is about switching it off.
type drawer struct {
	out   *relay
	pulse time.Duration
	fault func(error)

	turn chan struct{} // holds one token while the drawer is being opened

	mu    sync.Mutex
	ended time.Time // when the last pulse ended
	stuck bool
}

func newDrawer(out *relay, pulse time.Duration, fault func(error)) *drawer {
	return &drawer{out: out, pulse: pulse, fault: fault, turn: make(chan struct{}, 1)}
}

// open waits until the coil has cooled, then pulses it once. A second call meanwhile is
// ErrDrawerBusy, not a second pulse.
func (d *drawer) open(ctx context.Context) (err error) {
	if d == nil || d.out == nil {
		return ErrNoDrawer
	}
	select {
	case d.turn <- struct{}{}:
		defer func() { <-d.turn }()
	default:
		return ErrDrawerBusy
	}
	d.mu.Lock()
	stuck, wait := d.stuck, time.Until(d.ended.Add(pausePulses*d.pulse))
	d.mu.Unlock()
	if stuck {
		return ErrDrawerStuck
	}
	if wait > 0 {
		pause(ctx, wait)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("drawer not opened: %w", context.Cause(ctx))
	}
	// Deferred before the coil is switched on: it runs after an error, at the end of ctx,
	// and while a panic passes.
	defer func() { err = errors.Join(err, d.off()) }()
	if err := d.out.set(true); err != nil {
		return err
	}
	pause(ctx, d.pulse)
	if ctx.Err() != nil {
		return fmt.Errorf("drawer pulse cut short: %w", context.Cause(ctx))
	}
	return nil
}

// off switches the coil off, and again until it is. It takes no context: there is no
// reason to leave a coil on.
func (d *drawer) off() error {
	var err error
	for try := range offTries {
		if try > 0 {
			pause(context.Background(), offEvery)
		}
		if err = d.out.set(false); err == nil {
			break
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended = time.Now()
	if was := d.stuck; was != (err != nil) {
		d.stuck = err != nil
		d.fault(err)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDrawerStuck, err)
	}
	return nil
}

// mend goes on trying to switch off a coil that would not, until ctx ends.
func (d *drawer) mend(ctx context.Context) {
	if d == nil || d.out == nil {
		return
	}
	for ; ctx.Err() == nil; pause(ctx, lookEvery) {
		d.mu.Lock()
		stuck := d.stuck
		d.mu.Unlock()
		if !stuck {
			continue
		}
		select {
		case d.turn <- struct{}{}:
			_ = d.off() // told by its fault already
			<-d.turn
		default:
		}
	}
}
