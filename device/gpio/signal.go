package gpio

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"grattoir/device/terminal"
	"grattoir/validate"
)

// Signal is what lamps and buzzer say of the view on the counter.
type Signal string

// The signals. NoWin is proven; Stop is anything that is not paid here and now.
const (
	Quiet    Signal = ""
	Winning  Signal = "win"
	Paying   Signal = "paid" // lamps as for a win, whose sound was heard already
	NoWin    Signal = "no-win"
	Refusing Signal = "stop"   // known, and the answer is no
	Asking   Signal = "unsure" // somebody else decides, or the same act once more
)

// SignalOf is the signal of a view. No signal tells how much was won.
func SignalOf(v terminal.View) Signal {
	switch {
	case v.Stage == terminal.Paid, v.Stage == terminal.Trained:
		return Paying
	case v.Stage != terminal.Verdict:
		return Quiet
	case v.Verdict.Outcome == validate.Pay:
		return Winning
	case v.Verdict.Reason == validate.NotAWinner:
		return NoWin
	case v.Verdict.Outcome == validate.Refuse:
		return Refusing
	}
	return Asking
}

// Sound is what the buzzer does: on, off, on and so on.
//
// The player must know the three apart without looking, and no shape may tell how much was
// won. A buzzer of one pitch cannot rise: a win's second tone is longer instead. None is
// longer than 600 ms.
func (s Signal) Sound() []time.Duration {
	const ms = time.Millisecond
	switch s {
	case Winning:
		return []time.Duration{100 * ms, 80 * ms, 350 * ms}
	case NoWin:
		return []time.Duration{120 * ms}
	case Refusing, Asking:
		return []time.Duration{120 * ms, 100 * ms, 120 * ms, 100 * ms, 120 * ms}
	}
	return nil
}

// Signals are all of them, as a technician's table lists them.
func Signals() []Signal { return []Signal{Winning, Paying, NoWin, Refusing, Asking, Quiet} }

// Lit tells whether a signal lights a lamp. A device that keeps the counter from its work
// lights the fault lamp beside any of them.
func (s Signal) Lit(lamp Part) bool {
	switch lamp {
	case Win:
		return s == Winning || s == Paying
	case Refuse:
		return s == NoWin || s == Refusing
	case Alarm:
		return s == Asking
	}
	return false
}

// retryOutputs is how often an output that failed is tried again.
const retryOutputs = 5 * time.Second

// lamps follow the counter: they are one goroutine's, which is Board.follow.
type lamps struct {
	b     *Board
	shown string          // names the view whose sound was begun
	batch string          // the last batch that was paid
	rest  []time.Duration // of the sound that is on
	step  <-chan time.Time
	loud  bool
}

// follow shows each view, sounds it once, and opens the drawer for a payment that is
// recorded. What the counter shows at the start was shown before, and makes no sound.
func (b *Board) follow(ctx context.Context, counter Counter) {
	l := lamps{b: b}
	for first := true; ctx.Err() == nil; first = false {
		state, changed := counter.State()
		b.note(state)
		l.light(state)
		if paid := l.paid(state); paid && !first {
			b.payDrawer(ctx)
		}
		if key := NameOf(state.View); key != l.shown {
			l.shown = key
			if !first {
				l.play(SignalOf(state.View).Sound())
			}
		}
		l.await(ctx, changed)
	}
}

// NameOf names what a view shows, so that it is signalled once.
func NameOf(v terminal.View) string {
	return fmt.Sprintf("%s %s %s", v.ID, v.Stage, v.Verdict.Reason)
}

// paid says that a payment was recorded since the last state. A paid batch stays in the
// state while the next tickets are shown.
func (l *lamps) paid(s terminal.State) bool {
	now := false
	if b := s.Batch; b != nil && b.Paid && b.ID != l.batch {
		l.batch = b.ID
		now = slices.ContainsFunc(b.Views, func(v terminal.View) bool { return v.Stage == terminal.Paid })
	}
	return now || s.View.Stage == terminal.Paid && NameOf(s.View) != l.shown
}

// light sets the lamps. The alarm is also lit while a device keeps the counter from its work.
func (l *lamps) light(s terminal.State) {
	b, sign := l.b, SignalOf(s.View)
	if !b.lighting.TryLock() {
		return // a technician looks at them, and the drawer must not wait: await comes back to it
	}
	defer b.lighting.Unlock()
	b.set(b.win, sign.Lit(Win))
	b.set(b.refuse, sign.Lit(Refuse))
	b.set(b.alarm, sign.Lit(Alarm) || s.Scanner != nil || s.Printer != nil || s.Ledger != nil)
}

// play begins a sound; one that is still on ends. A payment leaves it: its ticket's sound
// may still be on.
func (l *lamps) play(sound []time.Duration) {
	if len(sound) == 0 && l.step != nil {
		return
	}
	l.rest, l.loud = sound, false
	l.next()
}

// next goes to the next part of the sound.
func (l *lamps) next() {
	if len(l.rest) == 0 {
		l.loud, l.step = false, nil
	} else {
		l.loud, l.step, l.rest = !l.loud, time.After(l.rest[0]), l.rest[1:]
	}
	l.b.set(l.b.buzzer, l.loud)
}

// await lets the sound go on until the counter changes, or a lamp that failed is due.
func (l *lamps) await(ctx context.Context, changed <-chan struct{}) {
	again := time.NewTimer(retryOutputs)
	defer again.Stop()
	for {
		select {
		case <-l.step:
			l.next()
		case <-changed:
			return
		case <-again.C:
			l.b.set(l.b.buzzer, l.loud)
			return
		case <-ctx.Done():
			return
		}
	}
}

// payDrawer opens the drawer for a payment. It does not wait: a pulse takes longer than
// lamps may be late.
func (b *Board) payDrawer(ctx context.Context) {
	if b.drawer.out == nil {
		return
	}
	b.opening.Go(func() {
		if err := b.OpenDrawer(ctx); err != nil && !errors.Is(err, ErrDrawerBusy) {
			b.log.Error("the drawer was not opened for a payment", "err", err)
		}
	})
}
