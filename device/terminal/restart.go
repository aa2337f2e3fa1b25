package terminal

import (
	"context"
	"errors"
	"time"

	"grattoir/validate"
)

// ErrRestarting means that the machine is about to restart: no act begins before.
var ErrRestarting = errors.New("the terminal restarts for an update")

// restarting words it for the counter.
var restarting = Fault{Code: "U1", ClerkFR: "Mise à jour : le terminal\nredémarre, patientez.", ClerkEN: "Update: the terminal\nrestarts, please wait.",
	Technician: "The update agent has leave to restart. It ends by itself after two minutes, where no restart comes."}

// Restart is how a restart is asked for.
type Restart struct {
	For   time.Duration // how long acts are refused, unless the machine restarts or Resume is called
	Quiet bool          // it is the hour in which nobody is expected, also at a counter that is open
	// Must is for a program that is to be replaced at once: it waits for a payment and its slip alone.
	Must bool
}

// Pause refuses every act from now on, or says in words for operations why it does not:
// something is under way. It is the leave to restart the machine.
func (t *Terminal) Pause(ctx context.Context, r Restart) (why string) {
	t.act.Lock() // an act that runs ends first
	defer t.act.Unlock()
	if why := t.underWay(ctx, r); why != "" {
		return why
	}
	t.opt.Log.Info("acts are refused until the machine restarts", "for", r.For)
	until := time.Now().Add(r.For)
	t.change(func(s *State) { s.Restarting = &restarting })
	t.paused.Store(&until)
	time.AfterFunc(r.For, func() {
		if t.paused.CompareAndSwap(&until, nil) {
			t.opt.Log.Warn("no restart came: acts are taken again")
			t.change(func(s *State) { s.Restarting = nil })
		}
	})
	return ""
}

// Resume takes acts again.
func (t *Terminal) Resume() {
	if t.paused.Swap(nil) != nil {
		t.change(func(s *State) { s.Restarting = nil })
	}
}

// forgotten is after how long a ticket that was checked and not paid is nobody's at the
// counter any more. What central has allowed of it is durable.
const forgotten = 10 * time.Minute

// underWay says what a restart would interrupt, "" for nothing. The lock of acts is held.
func (t *Terminal) underWay(ctx context.Context, r Restart) string {
	waiting, err := t.opt.Ledger.Unprinted(ctx)
	if err != nil && !r.Must {
		return "which slips wait cannot be read"
	}
	t.mu.Lock()
	papers, s := len(t.papers)+t.printing, t.state
	t.mu.Unlock()
	switch {
	case len(waiting) > 0 && (s.Printer == nil || !r.Must): // without a printer they stay, and come out as originals after the restart
		return "a slip waits to be printed"
	case papers > 0 && s.Printer == nil:
		return "paper waits to be printed"
	case s.Batch != nil && !s.Batch.Paid:
		return "a batch is open"
	case t.opt.Now().Sub(s.View.At) < forgotten && (s.View.Stage == Typing || s.View.Stage == Verdict && (s.View.Verdict.Outcome == validate.Pay || s.View.begun())):
		return "a ticket is on the counter"
	case r.Must || r.Quiet:
		return ""
	case t.opt.Staff == nil:
		return "nobody signs on here: it waits for the quiet hours"
	}
	if who, _ := t.opt.Staff.Session(); who != nil && !who.Locked {
		return "somebody is signed on"
	}
	return ""
}

// enter begins an act: it takes the lock of acts, which the caller gives back, unless the
// machine is about to restart.
func (t *Terminal) enter() error {
	t.act.Lock()
	err := t.leaving()
	if err != nil {
		t.act.Unlock()
	}
	return err
}

// leaving refuses what a restart would end at once.
func (t *Terminal) leaving() error {
	if t.paused.Load() == nil {
		return nil
	}
	return &Denied{Fault: restarting, Err: ErrRestarting}
}

// shown is the view on the counter.
func (t *Terminal) shown() View { s, _ := t.State(); return s.View }
