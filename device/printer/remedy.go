package printer

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrCleared ends a slip that was given up with Clear: the printer keeps nothing of it.
// What was on the paper already is.
var ErrCleared = errors.New("the slip was dropped from the printer on request")

// remedy is what a person does about a printer that is stuck.
type remedy struct {
	ctx    context.Context
	drop   bool // what the printer keeps; otherwise it is to go on
	result chan error
}

// Clear makes the printer forget what it keeps: a slip held for paper, or one that ended
// as StateUnknown, will not come out when paper is loaded. The slip in hand ends as
// StateUnknown with ErrCleared, since a part of it may be on the paper; the next one is cut
// apart from it. A model that cannot clear is switched off and on, where a pin can. An
// error means that nobody knows, or that this model needs a hand at its switch.
func (d *Device) Clear(ctx context.Context) error {
	if d.err == nil && !d.cfg.Profile.Clears && d.cfg.Power == nil {
		return fmt.Errorf("printer profile %q cannot clear its buffer: switch the printer off and on", d.cfg.Profile.Name)
	}
	return d.remedy(ctx, true)
}

// Recover makes a printer whose cutter jammed go on, once the blade is free: the line it
// stopped at may be on the paper twice. It is refused for any other cause, which the
// printer takes back by itself when it is cured.
func (d *Device) Recover(ctx context.Context) error {
	if d.err == nil && !d.cfg.Profile.Recovers {
		return fmt.Errorf("printer profile %q has no command to go on: free the cutter with the power off", d.cfg.Profile.Name)
	}
	return d.remedy(ctx, false)
}

func (d *Device) remedy(ctx context.Context, drop bool) error {
	if d.err != nil {
		return d.err
	}
	r := &remedy{ctx: ctx, drop: drop, result: make(chan error, 1)}
	for {
		d.mu.Lock()
		changed, connected, fault := d.changed, d.status.Connected, d.status.Fault
		d.mu.Unlock()
		if !connected {
			return *fault
		}
		select {
		case d.cure <- r:
			return <-r.result // the owner always answers
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("the printer is not ready for it: %w", context.Cause(ctx))
		}
	}
}

// apply is a remedy on the owner's goroutine, between two slips or with one wholly sent.
func (r *remedy) apply(d *Device, l *link) error {
	limit := attempts * d.cfg.AnswerTimeout
	if r.drop {
		if err := r.clear(d, l, limit); err != nil {
			d.torn = d.torn || d.dark() != nil
			return fmt.Errorf("clear the printer: %w", err)
		}
		d.torn = true // a line or picture may be half printed
		return nil
	}
	if err := l.survey(r.ctx, d.cfg.AnswerTimeout, true); err != nil {
		return fmt.Errorf("printer status: %w", err)
	}
	if f := l.fault(); f == nil || f.Code != cutterJam().Code {
		if f == nil {
			return errors.New("the printer names no fault: there is nothing to recover from")
		}
		return fmt.Errorf("only a jammed cutter is recovered from: %w", *f)
	}
	if _, err := l.port.Write(recoverRequest(), time.Now().Add(limit)); err != nil {
		return err
	}
	if err := l.survey(r.ctx, d.cfg.AnswerTimeout, true); err != nil {
		return fmt.Errorf("printer status: %w", err)
	}
	d.publish(l.status())
	if f := l.fault(); f != nil && f.Stops {
		return fmt.Errorf("the printer does not go on: %w", *f)
	}
	return nil
}

// clear drops the printer's buffers by command, or by its supply.
func (r *remedy) clear(d *Device, l *link, limit time.Duration) error {
	if d.cfg.Profile.Clears {
		return l.clear(r.ctx, limit)
	}
	d.powered = false
	if err := d.cfg.Power(r.ctx, false); err != nil {
		return &pinError{err}
	}
	// From here on whoever asked may leave: a printer that is off prints nothing.
	on := context.WithoutCancel(r.ctx)
	if err := d.cfg.Power(on, true); err != nil {
		return &pinError{err}
	}
	d.powered = true
	l.empty()
	return wait(on, d.cfg.Profile.Wake)
}

// asked looks for a remedy while a slip is out. It is true when the slip has been dropped.
// In the middle of a slip only dropping is possible: what is sent between two halves of a
// command would be taken for its data, and after it the rest must not follow.
func (s *sending) asked(midway bool) bool {
	select {
	case r := <-s.d.cure:
		if midway && !r.drop {
			r.result <- errors.New("the slip is not wholly in the printer yet: free the cutter by hand")
			return false
		}
		var err error
		if midway { // the rest must not push its way in behind
			err = s.l.port.Discard()
		}
		err = errors.Join(err, r.apply(s.d, s.l))
		r.result <- err
		return r.drop && (midway || err == nil || s.d.dark() != nil) // with its supply the slip went
	default:
		return false
	}
}
