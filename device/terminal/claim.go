package terminal

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"grattoir/validate"
	"grattoir/validate/money"
	"grattoir/validate/policy"
)

// Scan is what came over the glass or the keypad.
type Scan struct {
	Text    string
	AIM     byte // AIM symbology letter, 0 where the scanner reports none
	Entered validate.Entered
}

// Check reads a code, opens its tag, asks the ledger and central's word, decides, and
// shows the verdict. It commits nothing: checking is one act, paying another.
func (t *Terminal) Check(ctx context.Context, s Scan) View {
	ctx = context.WithoutCancel(ctx)  // who asked may leave; the counter shows a true answer all the same
	if err := t.enter(); err != nil { // the counter says why
		return t.shown()
	}
	defer t.act.Unlock()
	v := View{ID: t.newID(), Stage: Verdict, At: t.opt.Now(), Entered: s.Entered}

	// From glass to code. A misread is not a loser and not a forgery: scan again.
	code, err := t.opt.Shelf.Read(s.Text, s.AIM)
	if err == nil && !code.Layout.Pays() {
		if t.opt.Packs != nil {
			return t.showPack(ctx, v, code)
		}
		err = fmt.Errorf("layout %s is the public code on the back: scan the hidden code", code.Layout.Name)
	}
	if err != nil {
		v.Detail, v.OfSlip = err.Error(), t.slipOf(ctx, s.Text)
	} else {
		v.Code = code
	}
	return t.judge(ctx, v)
}

// Complete adds the typed digits to the code that view id shows, and goes on as Check
// does. Digits that cannot be the missing ones leave the view as it is, with the fault
// as its detail.
func (t *Terminal) Complete(ctx context.Context, id, digits string) (View, error) {
	ctx = context.WithoutCancel(ctx)
	if err := t.enter(); err != nil {
		return t.shown(), err
	}
	defer t.act.Unlock()
	state, _ := t.State()
	v := state.View
	if v.ID != id || id == "" || v.Stage != Typing {
		return v, ErrStale
	}
	code, err := v.Code.Complete(digits)
	if err != nil {
		v.Detail = err.Error()
		t.change(func(st *State) { st.View = v })
		return v, nil
	}
	v.Code, v.Stage, v.Detail, v.Entered = code, Verdict, "", validate.TwoPart
	return t.judge(ctx, v), nil
}

// judge opens the code, where one was read, decides, and shows the view. A code that
// only lacks its hidden digits waits for them.
func (t *Terminal) judge(ctx context.Context, v View) View {
	v.Opened, v.policy = validate.Opened{Finding: validate.Misread}, t.policy()
	if v.Code.Game != "" {
		v.Opened = t.open(ctx, &v)
	}
	if v.Code.Partial() && v.Opened.Finding == validate.Misread {
		v.Stage, v.Detail = Typing, ""
	}
	t.opt.Step("opened")

	v.Verdict = t.decide(ctx, &v, false)
	t.join(&v)
	t.opt.Log.Info("checked", "ticket", v.Code, "outcome", v.Verdict.Outcome, "reason", v.Verdict.Reason, "stage", v.Stage, "detail", v.Detail, "entered", v.Entered)
	v.Slip = t.resultSlips(v) == policy.SlipsEach && v.Stage == Verdict && v.Code.Game != ""
	t.change(func(st *State) { st.View = v })
	t.opt.Step("shown")
	t.looks(v)
	if v.Slip {
		t.printResult(v)
	}
	if v.Verdict.Outcome == validate.Pay {
		t.opt.Ledger.Prepare(t.claim(v, "")) // while the clerk counts the money
	}
	return v
}

// looks tells of an answer that was shown. One that still waits for digits is none yet.
func (t *Terminal) looks(v View) {
	if t.opt.Looked == nil || v.Stage == Typing {
		return
	}
	t.opt.Looked(validate.Looked{Ticket: v.Opened.Key(), Reason: v.Verdict.Reason, Entered: v.Entered, Operator: t.present(), At: v.At})
}

// open asks the manifest, and counts a failed secret before anybody learns of it.
func (t *Terminal) open(ctx context.Context, v *View) validate.Opened {
	o, err := t.opt.Shelf.Open(ctx, v.Code)
	if err != nil {
		v.Detail = err.Error()
	}
	return o
}

// Why a payment is not even tried.
var (
	// ErrStale means that the page shows another ticket than the one it wants to pay.
	ErrStale = errors.New("another ticket is on the counter now")
	// ErrNeeds means that the clerk has not done what the verdict asks for first.
	ErrNeeds = errors.New("the verdict asks for more before it is paid")
)

var errNoRegister = fmt.Errorf("%w: this terminal keeps no identities, the payment centre does", ErrNeeds)

// Confirmed is what the clerk has done before paying.
type Confirmed struct {
	Cash     bool                     // the till holds enough
	Identity *validate.Identification // of the winner, from his document; nil for none
}

// Pay commits the payment of the ticket that view id shows, then shows it and queues
// its slip. When it returns a paid view the claim is durable. A second call with the
// same id, from a double tap or a page that lost the first answer, gets the same view.
// A verdict that no longer says pay comes back as a view of that verdict, and no error.
func (t *Terminal) Pay(ctx context.Context, id string, c Confirmed) (View, error) {
	ctx = context.WithoutCancel(ctx)
	if err := t.enter(); err != nil {
		return t.shown(), err
	}
	defer t.act.Unlock()
	state, _ := t.State()
	v := state.View
	switch paid, known := t.receipts[id]; {
	case known: // paid in this run; what the counter shows now does not change that
		if v.ID == id {
			paid = v
		}
		return paid, nil
	case v.ID != id || id == "":
		return v, ErrStale
	case v.Stage == OnPack:
		return v, ErrPackHere
	case state.Batch != nil && !state.Batch.Paid:
		return v, ErrBatch // its thresholds are those of the total
	}
	operator, err := t.serving(ctx)
	if err == nil {
		err = t.heard(ctx) // a message that must be read first
	}
	if err != nil {
		return v, err
	}

	// Everything is asked again: seconds or minutes have passed since the check.
	v.policy = t.policy()
	if v.Verdict = t.decide(ctx, &v, true); v.Verdict.Outcome == validate.Pay {
		if err := unmet(v.Verdict.Needs, c); err != nil {
			t.change(func(st *State) { st.View = v }) // a new policy may ask for more than the page shows
			return v, err
		}
		if v.Linked, err = t.identify(ctx, operator, v.Verdict.Needs, c, []View{v}); err != nil {
			return v, err
		}
		t.owe(v.ID)
		t.commit(ctx, &v, operator)
	}
	t.change(func(st *State) { st.View = v })
	t.opt.Step("paid-shown")
	t.wakePrinting()
	return v, nil
}

// commit records the claim of a view that is to be paid, or says why it was not. In
// training nothing is recorded, and the view says that too.
func (t *Terminal) commit(ctx context.Context, v *View, operator string) {
	if state, _ := t.State(); state.Training {
		v.Stage, v.Detail = Trained, ""
		t.opt.Log.Info("training", "ticket", v.Code, "operator", operator)
		return
	}
	receipt, err := t.opt.Ledger.Record(ctx, t.claim(*v, operator))
	if err == nil {
		t.opt.Step("recorded")
		v.Stage, v.Receipt, v.Detail = Paid, &receipt, ""
		t.remember(*v)
		t.change(func(st *State) { st.Unsent = plus(st.Unsent, receipt) }) // the ledger's own count follows
	} else {
		v.Verdict, v.Detail = t.refused(ctx, v), err.Error()
	}
	t.opt.Log.Info("pay", "ticket", v.Code, "outcome", v.Verdict.Outcome, "reason", v.Verdict.Reason, "stage", v.Stage, "operator", operator, "detail", v.Detail)
}

// identify records whom the views that are to be paid are paid to, where that is needed,
// before anything is paid: a payment that fails afterwards was recorded for nothing, one
// that is made was never recorded too late.
func (t *Terminal) identify(ctx context.Context, operator string, needs []validate.Need, c Confirmed, views []View) (linked money.Amount, err error) {
	if state, _ := t.State(); state.Training || !slices.Contains(needs, validate.Identity) {
		return 0, nil
	}
	if t.opt.Register == nil {
		return 0, errNoRegister
	}
	var payments []validate.Identified
	for _, v := range views {
		if v.Verdict.Outcome == validate.Pay {
			payments = append(payments, validate.Identified{Claim: v.ID, Amount: v.Opened.Amount, Currency: v.Opened.Currency})
		}
	}
	return t.opt.Register.Record(ctx, operator, *c.Identity, payments)
}

// remember keeps the answer to a payment for whoever asks again, for the newest ones.
func (t *Terminal) remember(v View) {
	if len(t.receipts) >= 100 {
		for id, old := range t.receipts {
			if old.Receipt.Number.Seq+50 < v.Receipt.Number.Seq {
				delete(t.receipts, id)
			}
		}
	}
	t.receipts[v.ID] = v
}

func plus(u validate.Unsent, r validate.Receipt) validate.Unsent {
	if u.Oldest.IsZero() {
		u.Oldest = r.At
	}
	u.Claims++
	u.Money += r.Amount
	return u
}

func unmet(needs []validate.Need, c Confirmed) error {
	for _, n := range needs {
		if n == validate.ConfirmCash && c.Cash || n == validate.Identity && c.Identity != nil {
			continue
		}
		return fmt.Errorf("%w: %s", ErrNeeds, n)
	}
	return nil
}

// claim writes down what is paid. Its id is the view's, made at the check, or at the one
// after which central was asked.
func (t *Terminal) claim(v View, operator string) validate.Claim {
	o := v.Opened
	return validate.Claim{ID: v.ID, Ticket: o.Key(), Secret: v.Code, Round: v.round, Tier: o.Tier, Amount: o.Amount, Currency: o.Currency,
		Right: v.right, Risk: v.risk, OwnerEpoch: v.ownerEpoch, Policy: v.policy.Version, Operator: operator, Entered: v.Entered, FirstCheck: v.At,
		Slip: validate.SlipFacts{Game: o.GameName, Emission: o.Emission, BlockNumber: o.Number, GameCode: v.Code.Game, Pack: v.Code.PackText(),
			Ticket: v.Code.NumberText(), SecretTail: v.Code.SecretTail(), Demonstration: o.Scaled}}
}

// refused decides again after the ledger would not take a claim: another till of the
// same program was quicker, the allowance ran out, or the disk failed.
func (t *Terminal) refused(ctx context.Context, v *View) validate.Verdict {
	verdict := t.decide(ctx, v, true)
	if verdict.Outcome == validate.Pay { // nothing explains it but the ledger itself
		verdict = validate.Decide(v.Opened, validate.Facts{Paying: true}, v.policy, validate.Clock{})
	}
	return verdict
}

// decide collects the facts and asks validate. What cannot be learned counts against paying.
func (t *Terminal) decide(ctx context.Context, v *View, paying bool) validate.Verdict {
	f := validate.Facts{Paying: paying, AcceptScaled: t.opt.AcceptScaled, LedgerWritable: true, PrinterReady: t.opt.Printer.Ready() == nil,
		VoidBox: v.Seen == VoidBox, Misprint: v.Seen == Misprinted}
	if paying {
		if err := t.opt.Ledger.Writable(); err != nil {
			f.LedgerWritable, v.Detail = false, err.Error()
		}
	}
	if v.Opened.Block != (validate.BlockID{}) {
		if err := t.ticketFacts(ctx, v, &f); err != nil {
			// Without the ledger nobody knows whether the ticket is paid already.
			f.Paying, f.LedgerWritable, v.Detail = true, false, err.Error()
		}
	}
	verdict := validate.Decide(v.Opened, f, v.policy, validate.Clock{Trusted: t.opt.Trusted()})
	if verdict.Reason == validate.PackStolen || verdict.Reason == validate.TooManyAttempts {
		t.report(ctx, v, verdict.Reason)
	}
	return verdict
}

// report tells central that such a ticket was presented. A ledger that cannot take it keeps
// nobody from the verdict.
func (t *Terminal) report(ctx context.Context, v *View, why validate.Reason) {
	err := t.opt.Ledger.Report(ctx, validate.Attempt{Ticket: v.Opened.Key(), Reason: why, Operator: t.present(), Entered: v.Entered})
	if err != nil {
		t.opt.Log.Error("central is not told of an attempt", "ticket", v.Code, "reason", why, "err", err)
	}
}

// ticketFacts asks the ledger and central's word about one ticket.
func (t *Terminal) ticketFacts(ctx context.Context, v *View, f *validate.Facts) error {
	o := v.Opened
	attempts, err := t.opt.Ledger.Attempts(ctx, o.Key())
	if err != nil {
		return err
	}
	f.TooManyAttempts = attempts >= validate.MaxAttempts
	if o.Finding == validate.Counterfeit && !f.TooManyAttempts && !f.Paying {
		if _, err := t.opt.Ledger.Failed(ctx, o.Key()); err != nil {
			return err
		}
	}
	s, err := t.opt.Central.Standing(ctx, o)
	if err != nil {
		return err
	}
	f.TerminalSuspended, f.GameSuspended, f.Pack, f.Right = s.TerminalSuspended, s.GameSuspended, s.Pack, s.Right
	f.PaidElsewhere, f.Closed, v.ownerEpoch = s.PaidElsewhere, s.Closed, s.OwnerEpoch
	if f.AllowanceLeft, err = t.opt.Ledger.Allows(ctx, o.Amount); err != nil {
		return err
	}
	if v.round, err = t.opt.Ledger.Round(ctx, o.Key()); err != nil {
		return err
	}
	if v.round > 0 && f.Right == validate.RightOwner {
		f.Right = validate.RightNone // a ticket that was paid once is paid again with central's grant only
	}
	if v.TakenIn, err = t.opt.Ledger.TakenIn(ctx, o.Key()); err != nil {
		return err
	}
	f.Misprint = f.Misprint || v.TakenIn != nil // the player has his money, or another ticket
	v.asks = s.Asks
	if err := t.intended(ctx, v, f, s); err != nil {
		return err
	}
	v.right = f.Right
	paid, err := t.opt.Ledger.Paid(ctx, o.Key())
	if paid != nil {
		f.PaidHere = &validate.Payment{At: paid.At, Terminal: paid.Terminal, Number: paid.Number.String()}
	}
	return err
}

// Dismiss clears the counter for the next ticket, if it still shows view id. What central
// was asked about it alone, or has allowed, is given back.
func (t *Terminal) Dismiss(id string) {
	t.act.Lock()
	defer t.act.Unlock()
	state, _ := t.State()
	if state.View.ID != id {
		return
	}
	if v := state.View; v.begun() && (state.Batch == nil || state.Batch.Paid || !state.Batch.Holds(v)) {
		t.giveBack(context.Background(), id)
	}
	t.change(func(s *State) { s.View = View{Stage: Idle, At: t.opt.Now()} })
}
