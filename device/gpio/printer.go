package gpio

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Printer is the printer's two lines. Whoever owns the printer calls it; a line that is
// not wired is never busy and always powered. It is safe for concurrent use, Idle from one
// goroutine at a time.
type Printer struct {
	busy         *sensor
	power        *relay
	offFor       time.Duration
	settles      time.Duration
	fault        func(error) // of power
	mu           sync.Mutex
	on           bool
	since        time.Time // when power was last switched
	switchedOnce bool
}

// Busy says whether the printer asks to wait. An error means that nobody knows.
func (p *Printer) Busy() (bool, error) {
	if p == nil || p.busy == nil {
		return false, nil
	}
	return p.busy.active()
}

// busyLook is how often a busy line is looked at when no edge comes: an edge wakes at
// once, but one may have been lost, and the wait may not wait.
const busyLook = 20 * time.Millisecond

// Idle waits until the printer takes data. The error is that of the line, or of ctx.
func (p *Printer) Idle(ctx context.Context) error {
	for {
		busy, err := p.Busy()
		if err != nil || !busy {
			return err
		}
		if ctx.Err() != nil {
			return fmt.Errorf("printer busy line: %w", context.Cause(ctx))
		}
		began := time.Now()
		p.busy.line.wait(busyLook)
		if time.Since(began) < time.Millisecond {
			pause(ctx, time.Millisecond) // old edges, or a driver that does not wait
		}
	}
}

// PowerOn switches the printer on after it was off for long enough to forget, and returns
// when it may be sent its first byte. Of a printer that is on it returns at once, or when
// that moment has come.
func (p *Printer) PowerOn(ctx context.Context) error {
	if p == nil || p.power == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.on {
		if err := p.set(false); err != nil {
			return err
		}
		if err := pauseUntil(ctx, p.since.Add(p.offFor)); err != nil {
			return err
		}
		if err := p.set(true); err != nil {
			return err
		}
	}
	return pauseUntil(ctx, p.since.Add(p.settles))
}

// Lines gives the lines as the printer's driver takes them, nil for one that is not wired.
// Busy does not block; power returns when the printer may be sent its first byte.
func (p *Printer) Lines() (busy func() (bool, error), power func(ctx context.Context, on bool) error) {
	if p.busy != nil {
		busy = p.Busy
	}
	if p.power != nil {
		power = func(ctx context.Context, on bool) error {
			if on {
				return p.PowerOn(ctx)
			}
			return p.PowerOff()
		}
	}
	return busy, power
}

// PowerOff switches the printer off.
func (p *Printer) PowerOff() error {
	if p == nil || p.power == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.set(false)
}

// set switches, and knows since when. The lock is held.
func (p *Printer) set(on bool) error {
	err := p.power.set(on)
	p.fault(err)
	if err != nil {
		p.on = false // unknown: the next PowerOn begins at the beginning
		return err
	}
	if on != p.on || !p.switchedOnce {
		p.since = time.Now()
	}
	p.on, p.switchedOnce = on, true
	return nil
}

func pauseUntil(ctx context.Context, t time.Time) error {
	if d := time.Until(t); d > 0 {
		pause(ctx, d)
	}
	if ctx.Err() != nil {
		return fmt.Errorf("printer power: %w", context.Cause(ctx))
	}
	return nil
}
