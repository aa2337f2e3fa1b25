package terminal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"grattoir/validate"
	"grattoir/validate/money"
)

// Staff says who is at the counter, and looks at PINs. It may take half a second to look
// at one, and never does it for a check. Its errors are *Denied.
type Staff interface {
	// Session is whoever is signed on, nil for nobody; the channel is closed when this changes.
	Session() (*Session, <-chan struct{})
	// Acting is whoever may act now, and counts as an act: the idle time begins anew.
	Acting() (Session, error)
	SignOn(ctx context.Context, who Credentials, float money.Amount, currency string) (Session, error)
	SignOff(ctx context.Context) (Session, error)
	// EndSession ends the session of somebody who has left, with a manager's PIN.
	EndSession(ctx context.Context, manager Credentials) (Session, error)
	Lock()
	Unlock(ctx context.Context, pin string) (Session, error)
	// Approve gives the id of who allowed an act, by his PIN.
	Approve(ctx context.Context, act Approval, about string, by Credentials) (string, error)
}

// Session is who is at the counter.
type Session struct {
	Operator string
	Name     string
	Role     string
	Since    time.Time // device time
	Locked   bool      // nothing is paid until the PIN is typed
	Float    money.Amount
	Currency string
}

// Credentials are an operator's id and PIN. However they are printed, the PIN is not shown.
type Credentials struct{ Operator, PIN string }

// Format writes the operator alone.
func (c Credentials) Format(s fmt.State, _ rune) { _, _ = s.Write([]byte(c.Operator)) }

// Approval is an act that needs somebody else's PIN.
type Approval string

const (
	ApproveReversal Approval = "reversal"
	ApproveClosing  Approval = "closing"
	ApproveTraining Approval = "training"
)

// Register keeps the identities of winners that the law has recorded.
type Register interface {
	// Record stores, before a payment, whom it is made to, and returns what the same person
	// was paid here before within the policy's span, this payment not included.
	Record(ctx context.Context, operator string, who validate.Identification, payments []validate.Identified) (linked money.Amount, err error)
	// Ready is nil where a winner could be recorded now, or says why not: nobody is asked for
	// an identity that has nowhere to go.
	Ready() error
}

// Denied is an act that was not done, in words for the counter.
type Denied struct {
	Fault
	Err error
}

func (d *Denied) Error() string { return d.Code + ": " + d.Err.Error() }
func (d *Denied) Unwrap() error { return d.Err }

// Hasty refuses a PIN that comes too soon after wrong ones, in the words of the count of
// people's own (O7): whoever waits need not know which of the two counts he has met.
func Hasty(wait time.Duration) *Denied {
	return &Denied{Fault: Fault{Code: "O7", ClerkFR: "Codes faux : attendez avant de\nréessayer.", ClerkEN: "Wrong PINs: wait before you\ntry again.",
		Technician: "The page's own delay after wrong PINs is running. A right PIN ends it, and so does a restart."},
		Err: fmt.Errorf("wrong PINs on the page: the next one is looked at in %v", wait.Round(time.Second))}
}

var (
	// ErrPIN means that an operator and a PIN do not belong together. A Denied carries it for
	// whoever counts wrong ones.
	ErrPIN = errors.New("operator or PIN is wrong")
	// ErrNoStaff means a terminal whose configuration has no sign-on.
	ErrNoStaff = errors.New("this terminal has no sign-on: set sign_on = true in its configuration")
	// ErrManager means an act that somebody else must allow, and nobody was named.
	ErrManager = errors.New("a manager must allow this, with his PIN: nobody was named")
	// ErrBusy means that the counter is in the middle of something else.
	ErrBusy = errors.New("the counter is busy with something else")
)

// acting is the operator of what is done now. Without a Staff it is the configuration's.
func (t *Terminal) acting() (string, error) {
	if t.opt.Staff == nil {
		return t.opt.Operator, nil
	}
	s, err := t.opt.Staff.Acting()
	return s.Operator, err
}

// present is whoever is signed on, "" for nobody. To be asked is no act: somebody else's
// ticket under the scanner does not keep the counter unlocked.
func (t *Terminal) present() string {
	if t.opt.Staff == nil {
		return t.opt.Operator
	}
	if s, _ := t.opt.Staff.Session(); s != nil {
		return s.Operator
	}
	return ""
}

// serving is the operator of a payment. A session's shift is opened where it has none yet:
// the payment may come between sign-on and its shift, or the disk may have refused one. What
// is paid outside a shift would be in no shift's Z. The lock of acts is held.
func (t *Terminal) serving(ctx context.Context) (string, error) {
	if t.opt.Staff == nil {
		return t.opt.Operator, nil
	}
	s, err := t.opt.Staff.Acting()
	if err != nil {
		return "", err
	}
	if state, _ := t.State(); state.Training {
		return s.Operator, nil // nothing is recorded
	}
	if err := t.opt.Ledger.Writable(); err != nil {
		return s.Operator, nil // and nothing will be paid, in the verdict's own words
	}
	_, err = t.openShift(ctx, s)
	return s.Operator, err
}

// approve asks for a manager's PIN. Without a Staff nobody can be asked, and what the
// configuration's operator does counts as allowed by himself.
func (t *Terminal) approve(ctx context.Context, act Approval, about string, by Credentials) (string, error) {
	if t.opt.Staff == nil {
		return t.opt.Operator, nil
	}
	if by.Operator == "" {
		return "", ErrManager // an empty PIN would be called a wrong one
	}
	return t.opt.Staff.Approve(ctx, act, about, by)
}

// Watch shows who is signed on until ctx ends; an idle counter locks by itself.
func (t *Terminal) Watch(ctx context.Context) {
	if t.opt.Staff == nil {
		return
	}
	for ctx.Err() == nil {
		s, changed := t.opt.Staff.Session()
		t.change(func(st *State) { st.Session = s })
		select {
		case <-ctx.Done():
		case <-changed:
		}
	}
}

// SignOn begins a shift: who is at the counter, and the cash counted into the till.
func (t *Terminal) SignOn(ctx context.Context, who Credentials, float money.Amount) (validate.Shift, error) {
	if t.opt.Staff == nil {
		return validate.Shift{}, ErrNoStaff
	}
	if err := t.opt.Ledger.Writable(); err != nil { // a session without its shift would have to be undone
		return validate.Shift{}, &Denied{Fault: *t.opt.LedgerFault(err), Err: err}
	}
	if err := t.leaving(); err != nil {
		return validate.Shift{}, err
	}
	s, err := t.opt.Staff.SignOn(ctx, who, float, t.opt.Currency)
	if err != nil {
		return validate.Shift{}, err
	}
	if err := t.enter(); err != nil {
		return validate.Shift{}, err
	}
	defer t.act.Unlock()
	shift, err := t.openShift(context.WithoutCancel(ctx), s)
	t.opt.Log.Info("sign-on", "operator", s.Operator, "shift", shift.Number, "err", err)
	if t.opt.ReleaseAtClose {
		if err := t.opt.Ledger.TakeBack(context.WithoutCancel(ctx)); err != nil {
			t.opt.Log.Error("released packs are not asked for", "err", err)
		}
	}
	return shift, err
}

// openShift makes the ledger's shift agree with who is signed on. One that a lost file of
// operators has left open is closed first.
func (t *Terminal) openShift(ctx context.Context, s Session) (validate.Shift, error) {
	open, err := t.opt.Ledger.Shift(ctx)
	if err != nil {
		return validate.Shift{}, err
	}
	if open != nil {
		if open.Operator == s.Operator {
			return *open, nil
		}
		if _, err := t.opt.Ledger.Z(ctx, validate.ShiftClosing, open.Operator); err != nil {
			return validate.Shift{}, err
		}
	}
	return t.opt.Ledger.OpenShift(ctx, s.Operator, s.Float, s.Currency)
}

// SignOff ends the shift with its Z, then the session; a batch that is open is given up,
// or the next operator's tickets would join it. With credentials a manager ends
// the session of somebody who has left.
func (t *Terminal) SignOff(ctx context.Context, manager Credentials) (validate.Closing, error) {
	if t.opt.Staff == nil {
		return validate.Closing{}, ErrNoStaff
	}
	ctx = context.WithoutCancel(ctx)
	end := t.opt.Staff.SignOff
	operator := manager.Operator
	if operator == "" {
		s, err := t.opt.Staff.Acting()
		if err != nil {
			return validate.Closing{}, err
		}
		operator = s.Operator
	} else {
		if _, err := t.opt.Staff.Approve(ctx, ApproveClosing, "shift", manager); err != nil {
			return validate.Closing{}, err
		}
		end = func(ctx context.Context) (Session, error) { return t.opt.Staff.EndSession(ctx, manager) }
	}
	if err := t.enter(); err != nil {
		return validate.Closing{}, err
	}
	defer t.act.Unlock()
	z, err := t.opt.Ledger.Z(ctx, validate.ShiftClosing, operator)
	if err != nil {
		return z, err
	}
	t.opt.Step("shift-closed")
	// What this customer's tickets are worth the next one at the counter finds out anew.
	t.change(func(s *State) { s.Batch, s.View = nil, View{Stage: Idle, At: t.opt.Now()} })
	t.printClosing(z)
	_, err = end(ctx)
	t.opt.Log.Info("sign-off", "operator", operator, "shift", z.Number, "err", err)
	return z, err
}

// Lock locks the counter: tickets are still checked, nothing is paid until Unlock.
func (t *Terminal) Lock() error {
	if t.opt.Staff == nil {
		return ErrNoStaff
	}
	t.opt.Staff.Lock()
	return nil
}

// Unlock opens the counter with the PIN of whoever is signed on. A session that lost its
// shift in a power cut gets one.
func (t *Terminal) Unlock(ctx context.Context, pin string) error {
	if t.opt.Staff == nil {
		return ErrNoStaff
	}
	if err := t.leaving(); err != nil {
		return err
	}
	s, err := t.opt.Staff.Unlock(ctx, pin)
	if err != nil {
		return err
	}
	if err := t.enter(); err != nil {
		return err
	}
	defer t.act.Unlock()
	_, err = t.openShift(context.WithoutCancel(ctx), s)
	return err
}

// Report is an X: what the open period comes to. It changes nothing.
func (t *Terminal) Report(ctx context.Context, kind validate.ClosingKind) (validate.Closing, error) {
	return t.opt.Ledger.X(ctx, kind)
}

// Close is the Z of a day, a month or a year, by a manager. A shift ends with SignOff.
func (t *Terminal) Close(ctx context.Context, kind validate.ClosingKind, manager Credentials) (validate.Closing, error) {
	if kind == validate.ShiftClosing && t.opt.Staff != nil {
		return validate.Closing{}, fmt.Errorf("a shift ends when its operator signs off: %w", ErrBusy)
	}
	who, err := t.approve(ctx, ApproveClosing, string(kind), manager)
	if err != nil {
		return validate.Closing{}, err
	}
	if err := t.enter(); err != nil {
		return validate.Closing{}, err
	}
	defer t.act.Unlock()
	z, err := t.opt.Ledger.Z(context.WithoutCancel(ctx), kind, who)
	if err == nil {
		t.opt.Log.Info("closing", "kind", kind, "number", z.Number, "operator", who)
		t.printClosing(z)
		if kind == validate.DayClosing && t.opt.ReleaseAtClose {
			if _, err := t.release(context.WithoutCancel(ctx), who, true); err != nil {
				t.opt.Log.Error("the day is closed, its packs are not released: other shops wait for this terminal", "err", err)
			}
		}
	}
	return z, err
}

// printClosing queues the slip of a closing. It is not durable: the closing is, and its
// slip can be printed again.
func (t *Terminal) printClosing(c validate.Closing) {
	t.queuePaper(paper{what: "closing", args: []any{"kind", c.Kind, "number", c.Number, "entry", c.Entry},
		print: func(ctx context.Context) (validate.PrintState, error) { return t.opt.Printer.PrintClosing(ctx, c) }})
}

// ReprintClosing prints the slip of a Z again: paper that ran out, or a stop, may have cut
// it off. It hands out no money, and its ledger number tells it from every other Z.
func (t *Terminal) ReprintClosing(ctx context.Context, n validate.EntryNumber) (validate.Closing, error) {
	c, err := t.opt.Ledger.Closing(ctx, n)
	if err == nil {
		t.opt.Log.Info("closing printed again", "kind", c.Kind, "number", c.Number, "entry", n)
		t.printClosing(c)
	}
	return c, err
}

// PrintClosing prints the slip of an X.
func (t *Terminal) PrintClosing(c validate.Closing) { t.printClosing(c) }

// SetTraining switches training mode, by a manager or a technician: tickets are checked,
// and a payment is played and never recorded.
func (t *Terminal) SetTraining(ctx context.Context, on bool, by Credentials) error {
	who, err := t.approve(ctx, ApproveTraining, fmt.Sprint(on), by)
	if err != nil {
		return err
	}
	if err := t.enter(); err != nil {
		return err
	}
	defer t.act.Unlock()
	if state, _ := t.State(); state.Batch != nil && !state.Batch.Paid {
		return ErrBatch
	}
	if err := t.opt.Ledger.SetTraining(context.WithoutCancel(ctx), on, who); err != nil {
		return err
	}
	t.opt.Log.Info("training", "on", on, "operator", who)
	t.change(func(s *State) { s.Training, s.Batch, s.View = on, nil, View{Stage: Idle, At: t.opt.Now()} })
	return nil
}

// Reverse asks for a payment to be taken back: by whoever is at the counter, with a
// reason and a manager's PIN. It frees the ticket only when central has accepted it.
func (t *Terminal) Reverse(ctx context.Context, r validate.Reversal, manager Credentials) (validate.Reversal, error) {
	if t.opt.Staff == nil {
		return r, ErrNoStaff // nobody's PIN could allow it
	}
	operator, err := t.acting()
	if err != nil {
		return r, err
	}
	if r.Manager, err = t.approve(ctx, ApproveReversal, r.Number.String(), manager); err != nil {
		return r, err
	}
	if err := t.enter(); err != nil {
		return validate.Reversal{}, err
	}
	defer t.act.Unlock()
	r.ID, r.Operator = t.newID(), operator
	if r, err = t.opt.Ledger.RequestReversal(context.WithoutCancel(ctx), r); err == nil {
		t.opt.Log.Info("reversal asked for", "seq", r.Number.Seq, "reason", r.Reason, "operator", r.Operator, "manager", r.Manager)
	}
	return r, err
}

// History gives the newest acts of the counter, newest first, from the ledger alone.
func (t *Terminal) History(ctx context.Context, n int) ([]validate.Transaction, error) {
	return t.opt.Ledger.History(ctx, n)
}
