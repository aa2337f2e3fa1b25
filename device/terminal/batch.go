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

// MaxBatch is how many tickets of one customer are paid together.
const MaxBatch = 10

// Batch is several tickets of one customer: each has its own verdict and claim, and they
// share one total, whose thresholds count beside those of each prize.
type Batch struct {
	ID       string
	Views    []View       // in the order of their scans
	Prizes   int          // how many of them can be paid; when Paid, how many were
	Total    money.Amount // what these come to
	Currency string
	Needs    []validate.Need
	Paid     bool         // done: what could be paid is paid
	Linked   money.Amount // what the same person was paid before, once identified
}

var (
	// ErrBatch means that tickets are being collected, and are paid or given up together.
	ErrBatch = errors.New("a batch is open: pay it, or end it")
	// ErrNoBatch means that no batch of this name is open.
	ErrNoBatch = errors.New("no such batch is open")
)

// BeginBatch starts collecting: every ticket that is checked from now on joins the batch,
// until it is paid or ended.
func (t *Terminal) BeginBatch() (Batch, error) {
	if err := t.enter(); err != nil {
		return Batch{}, err
	}
	defer t.act.Unlock()
	state, _ := t.State()
	if b := state.Batch; b != nil && !b.Paid && len(b.Views) > 0 {
		return *b, ErrBatch
	}
	b := Batch{ID: t.newID(), Currency: t.opt.Currency, Needs: []validate.Need{}}
	t.change(func(s *State) { s.Batch, s.View = &b, View{Stage: Idle, At: t.opt.Now()} })
	return b, nil
}

// EndBatch gives the batch up. What it paid stays paid.
func (t *Terminal) EndBatch(id string) error {
	t.act.Lock()
	defer t.act.Unlock()
	state, _ := t.State()
	if state.Batch == nil || state.Batch.ID != id {
		return ErrNoBatch
	}
	for _, v := range state.Batch.Views {
		if v.begun() && !state.Batch.Paid {
			t.giveBack(context.Background(), v.ID)
		}
	}
	t.change(func(s *State) { s.Batch, s.View = nil, View{Stage: Idle, At: t.opt.Now()} })
	return nil
}

// join adds a checked ticket to the open batch. The same ticket again takes its earlier
// place; a misread joins nothing. The lock of acts is held.
func (t *Terminal) join(v *View) {
	state, _ := t.State()
	b := state.Batch
	if b == nil || b.Paid || v.Stage != Verdict || v.Code.Game == "" {
		return
	}
	views := slices.Clone(b.Views)
	at := slices.IndexFunc(views, func(o View) bool {
		return o.Code.Game == v.Code.Game && o.Code.Pack == v.Code.Pack && o.Code.Number == v.Code.Number && o.Code.Layout.Equal(v.Code.Layout)
	})
	switch {
	case at >= 0:
		views[at] = *v
	case len(views) == MaxBatch:
		v.Detail = fmt.Sprintf("the batch has its %d tickets: pay it first, then scan this one again", MaxBatch)
		return
	default:
		views = append(views, *v)
	}
	next := *b
	next.Views = views
	t.showBatch(sum(next, v.policy))
}

// sum works out what a batch comes to under a policy. One that does not add up needs everything.
func sum(b Batch, p policy.Policy) Batch {
	var prizes []money.Amount
	for _, v := range b.Views {
		if v.Stage == Verdict && v.Verdict.Outcome == validate.Pay {
			prizes = append(prizes, *v.Verdict.AmountMinor)
		}
	}
	b.Prizes = len(prizes)
	var err error
	if b.Needs, b.Total, err = validate.BatchNeeds(prizes, p); err != nil {
		b.Needs = []validate.Need{validate.ConfirmCash, validate.Identity}
	}
	return b
}

// showBatch shows a batch as it is now; who shows it may go on with its views. A slip that
// came out meanwhile is not shown as waiting again.
func (t *Terminal) showBatch(b Batch) { t.change(func(s *State) { s.putBatch(b) }) }

func (s *State) putBatch(b Batch) {
	b.Views = slices.Clone(b.Views)
	if old := s.Batch; old != nil && old.ID == b.ID {
		for i, v := range b.Views {
			if i < len(old.Views) && v.Receipt != nil && old.Views[i].Receipt != nil && old.Views[i].Receipt.Number == v.Receipt.Number {
				b.Views[i].Receipt, b.Views[i].Holding = old.Views[i].Receipt, old.Views[i].Holding
			}
		}
	}
	s.Batch = &b
}

// PayBatch pays what can be paid of the batch: each ticket is decided again and has a
// claim of its own, and one that no longer may be paid keeps its verdict and stops no
// other. It answers a second call with the first one's result. The errors are
// ErrNoBatch, ErrNeeds and *Denied; nothing was paid then.
func (t *Terminal) PayBatch(ctx context.Context, id string, c Confirmed) (Batch, error) {
	ctx = context.WithoutCancel(ctx)
	if err := t.enter(); err != nil {
		return Batch{}, err
	}
	defer t.act.Unlock()
	state, _ := t.State()
	if state.Batch == nil || state.Batch.ID != id || id == "" {
		return Batch{}, ErrNoBatch
	}
	b := *state.Batch
	if b.Paid {
		return b, nil
	}
	operator, err := t.serving(ctx)
	if err == nil {
		err = t.heard(ctx)
	}
	if err != nil {
		return b, err
	}
	b.Views = slices.Clone(b.Views)
	limits := t.policy()
	for i := range b.Views {
		v := &b.Views[i]
		v.policy = limits
		v.Verdict = t.decide(ctx, v, true)
	}
	b = sum(b, limits)
	t.showBatch(b)
	if err := unmet(b.Needs, c); err != nil {
		return b, err
	}
	if b.Linked, err = t.identify(ctx, operator, b.Needs, c, b.Views); err != nil {
		return b, err
	}
	t.owe(ids(b.Views)...)
	for i := range b.Views {
		if v := &b.Views[i]; v.Verdict.Outcome == validate.Pay {
			t.commit(ctx, v, operator)
			t.showBatch(b)
		}
	}
	b = settle(b)
	t.showPaid(b)
	t.opt.Step("batch-paid")
	t.wakePrinting()
	return b, nil
}

func ids(views []View) []string {
	list := make([]string, len(views))
	for i, v := range views {
		list[i] = v.ID
	}
	return list
}

// settle says of a batch that was gone through what was paid of it: a claim that the
// ledger refused on the way is no money to hand out.
func settle(b Batch) Batch {
	b.Paid, b.Prizes, b.Total = true, 0, 0
	for _, v := range b.Views {
		if v.Stage == Paid || v.Stage == Trained {
			b.Prizes++
			b.Total += v.Opened.Amount // cannot overflow: BatchNeeds has added more of them up
		}
	}
	return b
}

// showPaid shows a batch that is done. The ticket on the counter is one of its own as a
// rule, and must not go on asking to be paid. Both change at once, for the drawer to open once.
func (t *Terminal) showPaid(b Batch) {
	t.change(func(s *State) {
		s.putBatch(b)
		for _, v := range s.Batch.Views {
			if v.ID == s.View.ID {
				s.View = v
			}
		}
	})
}

// Holds says that a view is of one of the batch's tickets.
func (b Batch) Holds(v View) bool {
	return v.ID != "" && slices.ContainsFunc(b.Views, func(own View) bool { return own.ID == v.ID })
}
