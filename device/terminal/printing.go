package terminal

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"grattoir/validate"
	"grattoir/validate/proof"
)

// Run prints the slips of committed claims, oldest first, until ctx ends. A payment
// never waits for it. At the end, slips that were never begun are stored as held, so
// that the next run prints them as originals.
func (t *Terminal) Run(ctx context.Context) {
	var asked sync.WaitGroup
	asked.Go(func() { t.heed(ctx) }) // beside the printing, which paper can hold up
	defer asked.Wait()
	for ctx.Err() == nil {
		printerChanged := t.opt.Printer.Changed()
		t.printAll(ctx)
		t.printPapers(ctx)
		t.refresh(ctx)
		t.reconsider(ctx)
		select {
		case <-ctx.Done():
		case <-t.queue:
		case <-printerChanged:
		case <-time.After(lookAgain):
		}
	}
	t.letGo(context.WithoutCancel(ctx))
}

// lookAgain is how soon the ledger is asked again with nothing having happened: a disk
// may have been freed, and a print mark that could not be stored can be tried again.
const lookAgain = 3 * time.Second

// reconsider decides anew about a ticket that only the printer kept from being paid,
// once the printer is ready: the clerk need not scan it again.
func (t *Terminal) reconsider(ctx context.Context) {
	t.act.Lock()
	defer t.act.Unlock()
	state, _ := t.State()
	v := state.View
	if v.Stage != Verdict || v.Verdict.Reason != validate.PrinterNotReady || t.opt.Printer.Ready() != nil {
		return
	}
	v.policy = t.policy()
	v.Verdict = t.decide(ctx, &v, false)
	t.change(func(s *State) { s.View = v })
}

func (t *Terminal) wakePrinting() {
	select {
	case t.queue <- struct{}{}:
	default: // it is awake already
	}
}

// printAll prints every slip that waits. A slip held by a fault keeps its place, so
// slips come out in the order of the ledger.
func (t *Terminal) printAll(ctx context.Context) {
	waiting, err := t.opt.Ledger.Unprinted(ctx)
	if t.say("cannot read the slips that wait", err); err != nil {
		return
	}
	for _, r := range waiting {
		if ctx.Err() != nil || !t.printOne(ctx, r) {
			return
		}
	}
}

// printOne prints one slip and stores the level reached. It is false when the slip waits on.
func (t *Terminal) printOne(ctx context.Context, r validate.Receipt) bool {
	if state, out := t.unmarked[r.Number]; out { // printed already: only its mark is missing
		return t.mark(ctx, r, state)
	}
	if fault := t.opt.Printer.Ready(); fault != nil {
		t.hold(r, fault)
		return false
	}
	r, ok := t.begin(ctx, r)
	if !ok {
		return false
	}
	t.show(r, nil)
	t.opt.Step("sending")
	state, err := t.opt.Printer.Print(ctx, r, t.opens(r), func(f *Fault) { t.hold(r, f) })
	t.opt.Step("sent")
	if err != nil {
		t.opt.Log.Warn("slip", "seq", r.Number.Seq, "state", state, "err", err)
	}
	if ctx.Err() != nil && !state.Done() && state != validate.Held {
		return false // stopping: the next start treats it like a power cut
	}
	return t.mark(ctx, r, state)
}

// owed is the drawer's opening that a payment is still owed. One act opens it once, however
// many tickets it pays.
type owed struct {
	claims []string
	since  time.Time
}

// drawerPatience is how long after the payment its slip may still open the drawer. Later, once
// paper is found or another slip is out, nobody may be at the till.
const drawerPatience = 10 * time.Second

// owe lets the slip of a payment open the drawer. It comes before the claim is recorded:
// the slip may be under way as soon as it is. A claim of an earlier run is never owed.
func (t *Terminal) owe(claims ...string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.owed = owed{claims, time.Now()}
}

// opens says whether a slip opens the drawer, and counts it as opened.
func (t *Terminal) opens(r validate.Receipt) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !slices.Contains(t.owed.claims, r.ID) {
		return false
	}
	fresh := time.Since(t.owed.since) < drawerPatience
	t.owed = owed{}
	return fresh
}

// begin makes durable, before the first byte, what a crash from now on must find: that
// only a DUPLICATA may follow.
func (t *Terminal) begin(ctx context.Context, r validate.Receipt) (validate.Receipt, bool) {
	var err error
	switch {
	case t.doubtful[r.Number]:
		if r, err = t.opt.Ledger.BeginCopy(ctx, r.Number); err == nil {
			delete(t.doubtful, r.Number)
		}
	case r.Print == validate.Held:
		err = t.opt.Ledger.Mark(ctx, r.Number, validate.Sending)
		r.Print = validate.Sending
	}
	if err != nil {
		t.opt.Log.Error("slip not begun", "seq", r.Number.Seq, "err", err)
		return r, false
	}
	t.begun[r.Number] = true
	return r, true
}

// mark stores how far a slip has come. What cannot be stored is remembered: the slip is
// out, and printing it again for want of a mark would make a second original.
func (t *Terminal) mark(ctx context.Context, r validate.Receipt, state validate.PrintState) bool {
	if err := t.opt.Ledger.Mark(context.WithoutCancel(ctx), r.Number, state); err != nil {
		t.opt.Log.Error("slip not marked", "seq", r.Number.Seq, "state", state, "err", err)
		t.unmarked[r.Number] = state
		return false
	}
	t.opt.Step("marked")
	delete(t.unmarked, r.Number)
	delete(t.begun, r.Number)
	if state == validate.Unknown {
		t.unsure[r.Number] = true
	}
	r.Print = state
	t.show(r, nil)
	return state != validate.Held
}

// letGo stores slips that were never begun as held, at an orderly stop.
func (t *Terminal) letGo(ctx context.Context) {
	waiting, err := t.opt.Ledger.Unprinted(ctx)
	if err != nil {
		return
	}
	for _, r := range waiting {
		if r.Print == validate.Sending && !t.begun[r.Number] && !t.doubtful[r.Number] {
			if err := t.opt.Ledger.Mark(ctx, r.Number, validate.Held); err != nil {
				t.opt.Log.Error("slip not released", "seq", r.Number.Seq, "err", err)
			}
		}
	}
}

// hold shows what keeps a slip from coming out.
func (t *Terminal) hold(r validate.Receipt, f *Fault) { t.show(r, f) }

// show updates the counter if it still shows the claim.
func (t *Terminal) show(r validate.Receipt, holding *Fault) {
	t.change(func(s *State) {
		s.Printer = t.opt.Printer.Ready()
		if s.View.Receipt != nil && s.View.Receipt.Number == r.Number {
			s.View.Receipt, s.View.Holding = &r, holding
		}
		if s.Batch == nil {
			return
		}
		b := *s.Batch
		b.Views = slices.Clone(b.Views)
		for i, v := range b.Views {
			if v.Receipt != nil && v.Receipt.Number == r.Number {
				b.Views[i].Receipt, b.Views[i].Holding = &r, holding
			}
		}
		s.Batch = &b
	})
}

// Reprint prints another copy of a slip. It is marked DUPLICATA and counted. While a copy
// waits there is no further one: who asks twice at once gets one.
func (t *Terminal) Reprint(ctx context.Context, n validate.EntryNumber) (validate.Receipt, error) {
	if err := t.enter(); err != nil {
		return validate.Receipt{}, err
	}
	defer t.act.Unlock()
	r, err := t.opt.Ledger.Receipt(ctx, n)
	if err != nil {
		return r, err
	}
	if r.Print == validate.Sending || r.Print == validate.Held {
		return r, fmt.Errorf("entry %v: its slip is still waiting to be printed", n)
	}
	operator, err := t.acting()
	if err != nil {
		return r, err
	}
	r, err = t.opt.Ledger.AppendReprint(ctx, n, operator, "")
	if err == nil {
		t.opt.Log.Info("reprint", "seq", n.Seq, "copy", r.Copies)
		t.show(r, nil)
		t.change(func(s *State) { // the printing loop may be long in looking again
			s.Reprint = slices.DeleteFunc(slices.Clone(s.Reprint), func(other validate.EntryNumber) bool { return other == n })
		})
		t.wakePrinting()
	}
	return r, err
}

// Receipt returns the claim of an entry.
func (t *Terminal) Receipt(ctx context.Context, n validate.EntryNumber) (validate.Receipt, error) {
	return t.opt.Ledger.Receipt(ctx, n)
}

// ReversalOf is what became of the wish to take the payment of an entry back, nil where
// nobody asked.
func (t *Terminal) ReversalOf(ctx context.Context, n validate.EntryNumber) (*validate.Reversal, error) {
	return t.opt.Ledger.ReversalOf(ctx, n)
}

// slipOf is the payment of this terminal's that the control code of a slip names, zero for
// none. The code is not verified: it finds an entry, and what that says comes from the ledger.
func (t *Terminal) slipOf(ctx context.Context, scan string) validate.EntryNumber {
	code, err := proof.Parse(scan)
	if err != nil || code.Terminal != t.opt.Name {
		return validate.EntryNumber{}
	}
	r, err := t.opt.Ledger.Receipt(ctx, code.Number)
	if err != nil || !strings.HasPrefix(r.Hash, code.Hash) {
		return validate.EntryNumber{}
	}
	return code.Number
}

// Last returns the newest claims, newest first.
func (t *Terminal) Last(ctx context.Context, n int) ([]validate.Receipt, error) {
	return t.opt.Ledger.Last(ctx, n)
}

// A stop waits stopGrace for each slip, and stopLimit for all of them.
const (
	stopGrace = 5 * time.Second
	stopLimit = 30 * time.Second
)

// Drain waits until no slip waits, a closing's included, or none comes out any more. It is
// for an orderly stop: scans have ended before.
func (t *Terminal) Drain(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, stopLimit)
	defer cancel()
	still := time.NewTimer(stopGrace)
	defer still.Stop()
	for left := -1; ; {
		_, changed := t.State()
		waiting, err := t.opt.Ledger.Unprinted(ctx)
		now := len(waiting) + t.papersWait()
		if err != nil || now == 0 || t.opt.Printer.Ready() != nil {
			return
		}
		if now != left {
			left = now
			still.Reset(stopGrace)
		}
		select {
		case <-ctx.Done():
			return
		case <-still.C:
			return
		case <-changed:
		}
	}
}
