package terminal

import (
	"context"
	"errors"
	"time"

	"grattoir/validate"
	"grattoir/validate/policy"
	"grattoir/validate/ticket"
)

// Result is a check as a slip states it: what the terminal found out about a ticket, for
// a player who takes it to the payment centre, or does not take the clerk's word. It pays
// nothing, is no entry of the ledger, and is not kept.
type Result struct {
	At       time.Time // device time of the check
	Trusted  time.Time // newest trusted time known then, zero for none
	Terminal string
	Code     ticket.Code // prints without its secret
	Game     string      // its name, "" for none known
	Emission string      // "" for none known
	Verdict  validate.Verdict
	Training bool
}

// resultSlips says for which checks a slip is printed: the policy that the check saw, or the configuration where
// the policy says nothing of it.
func (t *Terminal) resultSlips(v View) policy.ResultSlips {
	if said := v.policy.ResultSlips; said != "" {
		return said
	}
	return t.opt.ResultSlips
}

// ErrNoResult means that there is nothing on the counter of which a slip could be printed.
var ErrNoResult = errors.New("no checked ticket is on the counter of which a slip could be printed, or it was printed")

// ForCentre tells whether the payment centre must see the view's ticket: the player is
// given a slip to take there.
func (v View) ForCentre() bool {
	if v.Stage != Verdict || v.Code.Game == "" {
		return false
	}
	switch v.Verdict.Reason {
	case validate.AboveShopLimit, validate.PrizeNotMoney, validate.NeedsCentral, validate.OwnerSilent, validate.AllowanceSpent, validate.TooManyAttempts, validate.NotAuthentic,
		validate.TicketNotInBlock, validate.Misprint, validate.GameSuspended:
		return true
	}
	for _, n := range v.Verdict.Needs {
		if n == validate.Identity {
			return true
		}
	}
	return false
}

// CanSlip tells whether a slip of the view's check can be asked for now.
func (t *Terminal) CanSlip(v View) bool {
	if v.Stage != Verdict || v.Code.Game == "" || v.Slip {
		return false
	}
	slips := t.resultSlips(v)
	return slips == policy.SlipsAsked || slips != policy.SlipsEach && v.ForCentre()
}

// PrintResult prints a slip of the check that view id shows, once. It says no more than
// the page, so nobody need be signed on.
func (t *Terminal) PrintResult(id string) error {
	if err := t.enter(); err != nil {
		return err
	}
	defer t.act.Unlock()
	state, _ := t.State()
	v := state.View
	if v.ID != id || id == "" {
		return ErrStale
	}
	if !t.CanSlip(v) {
		return ErrNoResult
	}
	v.Slip = true
	t.change(func(s *State) { s.View = v })
	t.printResult(v)
	return nil
}

// printResult queues the slip of a check.
func (t *Terminal) printResult(v View) {
	r := Result{At: v.At, Trusted: t.opt.Trusted(), Terminal: t.opt.Name, Code: v.Code, Game: v.Opened.GameName, Emission: v.Opened.Emission, Verdict: v.Verdict}
	state, _ := t.State()
	r.Training = state.Training
	t.queuePaper(paper{what: "result of a check", print: func(ctx context.Context) (validate.PrintState, error) { return t.opt.Printer.PrintResult(ctx, r) }})
}

// paper is a slip that is no payment's. It is not durable: what it states is elsewhere, or
// can be found out again.
type paper struct {
	what  string // for the log
	args  []any  // for the log
	print func(context.Context) (validate.PrintState, error)
}

// maxPapers bounds the queue: a counter that prints each check may go on without paper.
const maxPapers = 20

// queuePaper puts a slip behind those that wait. The oldest makes room.
func (t *Terminal) queuePaper(p paper) {
	t.mu.Lock()
	t.papers = append(t.papers, p)
	if over := len(t.papers) - maxPapers; over > 0 {
		t.papers = t.papers[over:]
	}
	t.mu.Unlock()
	t.wakePrinting()
}

// printPapers prints what waits, after the slips of claims. One that may have come out is
// not printed again.
func (t *Terminal) printPapers(ctx context.Context) {
	for ctx.Err() == nil && t.opt.Printer.Ready() == nil {
		t.mu.Lock()
		if len(t.papers) == 0 {
			t.mu.Unlock()
			return
		}
		next := t.papers[0]
		t.papers = t.papers[1:]
		t.printing++
		t.mu.Unlock()
		state, err := next.print(ctx)
		if err != nil {
			t.opt.Log.Warn("slip of a "+next.what+" may not be out", append(next.args, "state", state, "err", err)...)
		}
		t.change(func(*State) { // a stop waits for it
			t.printing--
			if state == validate.Held {
				t.papers = append([]paper{next}, t.papers...)
			}
		})
		if state == validate.Held {
			return
		}
	}
}

func (t *Terminal) papersWait() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.papers) + t.printing
}
