package terminaltest

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"grattoir/validate"
	"grattoir/validate/money"
	"grattoir/validate/ticket"
)

var (
	// ErrPaid means that the ticket has a claim of this round already.
	ErrPaid = errors.New("the ticket is paid already")
	// ErrAllowance means that the claim would exceed the allowance.
	ErrAllowance = errors.New("the allowance is spent")
	// ErrShift means that a shift is open, or none.
	ErrShift = errors.New("a shift is open, or none is")
	// ErrNotFound means that the ledger has no such entry.
	ErrNotFound = errors.New("no such entry")
)

// Ledger keeps claims in memory as the real one keeps them on disk. A new terminal
// over the same Ledger is that terminal after a power cut.
type Ledger struct {
	terminal string
	now      func() time.Time

	mu        sync.Mutex
	entries   []validate.Receipt // entry n has the sequence number n+1
	acked     int64
	allowance int64 // claims above acked, 0 for no bound
	attempts  map[validate.TicketKey]int
	reported  []validate.Attempt
	takenIn   []validate.Misprinted
	rounds    map[validate.TicketKey]int
	shift     *validate.Shift
	closings  []validate.Closing
	reversals []validate.Reversal
	intents   []validate.Intent
	released  bool
	changed   chan struct{} // closed at the next change of an intent
	training  bool
	writing   error // what Writable and Record answer
	reading   error // what every question answers
}

// NewLedger makes an empty ledger of journal epoch 1. Now is the device's clock.
func NewLedger(name string, now func() time.Time) *Ledger {
	return &Ledger{terminal: name, now: now, attempts: map[validate.TicketKey]int{}, rounds: map[validate.TicketKey]int{}, changed: make(chan struct{})}
}

// Break makes the ledger refuse to commit with err; nil mends it.
func (l *Ledger) Break(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writing = err
}

// BreakReads makes every question fail with err; nil mends it.
func (l *Ledger) BreakReads(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reading = err
}

// Ack acknowledges every entry up to seq, as central does.
func (l *Ledger) Ack(seq int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.acked = max(l.acked, seq)
}

// SetAllowance bounds the claims above the acknowledged entry; 0 is no bound.
func (l *Ledger) SetAllowance(claims int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.allowance = claims
}

// Reverse accepts a reversal of the ticket's claim, as central does: the ticket is free
// for its next round.
func (l *Ledger) Reverse(t validate.TicketKey) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rounds[t]++
}

// Claims lists every entry, oldest first.
func (l *Ledger) Claims() []validate.Receipt {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.entries)
}

// TakeIn keeps that a ticket was refunded or exchanged, once.
func (l *Ledger) TakeIn(_ context.Context, m validate.Misprinted) (validate.Misprinted, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := cmp.Or(l.writing, l.reading); err != nil {
		return m, err
	}
	for _, r := range l.entries {
		if r.Ticket == m.Ticket && r.Round >= l.rounds[m.Ticket] {
			return m, fmt.Errorf("%w: entry %v", ErrPaid, r.Number)
		}
	}
	if slices.ContainsFunc(l.takenIn, func(o validate.Misprinted) bool { return o.Ticket == m.Ticket }) {
		return m, errors.New("the ticket was refunded or exchanged before")
	}
	m.Entry, m.At = validate.EntryNumber{Epoch: 1, Seq: int64(900 + len(l.takenIn))}, l.now()
	l.takenIn = append(l.takenIn, m)
	return m, nil
}

// TakenIn is what TakeIn kept of a ticket, nil for nothing.
func (l *Ledger) TakenIn(_ context.Context, t validate.TicketKey) (*validate.Misprinted, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range l.takenIn {
		if m.Ticket == t {
			return &m, l.reading
		}
	}
	return nil, l.reading
}

// Misprints lists what was taken in, oldest first.
func (l *Ledger) Misprints() []validate.Misprinted {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.takenIn)
}

// Writable is nil unless Break said otherwise.
func (l *Ledger) Writable() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.writing
}

// Allows tells whether one more claim fits the allowance.
func (l *Ledger) Allows(context.Context, money.Amount) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.allows(), l.reading
}

func (l *Ledger) allows() bool {
	return l.allowance == 0 || int64(len(l.entries))-l.acked < l.allowance
}

// Round is the number of accepted reversals of the ticket.
func (l *Ledger) Round(_ context.Context, t validate.TicketKey) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rounds[t], l.reading
}

// Paid returns the claim of the ticket that no accepted reversal has taken back, nil when
// it has none.
func (l *Ledger) Paid(_ context.Context, t validate.TicketKey) (*validate.Receipt, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.reading != nil {
		return nil, l.reading
	}
	var found *validate.Receipt
	for _, r := range l.entries {
		if r.Ticket == t && r.Round >= l.rounds[t] {
			found = &r
		}
	}
	return found, nil
}

// Prepare does nothing.
func (l *Ledger) Prepare(validate.Claim) {}

// Record commits a claim: the same id again gets the first receipt, another claim of
// the ticket and round ErrPaid. The secret is not kept.
func (l *Ledger) Record(_ context.Context, c validate.Claim) (validate.Receipt, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := cmp.Or(l.writing, l.reading); err != nil {
		return validate.Receipt{}, err
	}
	if len(c.ID) != 32 || c.Ticket.Block == (validate.BlockID{}) || c.Tier < 1 || c.Amount <= 0 {
		return validate.Receipt{}, fmt.Errorf("claim %q of tier %d and %d minor units: not a whole claim", c.ID, c.Tier, c.Amount)
	}
	for _, r := range l.entries {
		if r.Ticket != c.Ticket || r.Round != c.Round {
			continue
		}
		if r.ID == c.ID {
			return r, nil
		}
		return r, fmt.Errorf("%w: entry %v", ErrPaid, r.Number)
	}
	if err := l.mayPay(c); err != nil {
		return validate.Receipt{}, err
	}
	if c.Round > l.rounds[c.Ticket] && c.Right != validate.RightGrant {
		return validate.Receipt{}, fmt.Errorf("round %d of a ticket with %d accepted reversals", c.Round, l.rounds[c.Ticket])
	}
	if !l.allows() && c.Right != validate.RightGrant {
		return validate.Receipt{}, ErrAllowance
	}
	r := validate.Receipt{Claim: c, Number: validate.EntryNumber{Epoch: 1, Seq: int64(len(l.entries)) + 1}, Terminal: l.terminal,
		At: l.now(), Print: validate.Sending, Copies: 1}
	r.Secret = ticket.Code{} // a ledger forgets it too
	hash := sha256.Sum256(fmt.Appendf(nil, "%v %+v", r.Number, r.Claim))
	r.Hash = hex.EncodeToString(hash[:])
	l.entries = append(l.entries, r)
	l.spend(c)
	return r, nil
}

// Unprinted lists the claims in the states sending and held, oldest first.
func (l *Ledger) Unprinted(context.Context) ([]validate.Receipt, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var list []validate.Receipt
	for _, r := range l.entries {
		if r.Print == validate.Sending || r.Print == validate.Held {
			list = append(list, r)
		}
	}
	return list, l.reading
}

// Mark stores how far the paper has come. A state that says the slip is out is never
// taken back.
func (l *Ledger) Mark(_ context.Context, n validate.EntryNumber, s validate.PrintState) error {
	return l.edit(n, func(r *validate.Receipt) error {
		if r.Print.Done() {
			return fmt.Errorf("mark entry %v %s: %w", n, s, ErrNotFound)
		}
		r.Print = s
		return nil
	})
}

// BeginCopy counts another copy and puts its slip in the state sending.
func (l *Ledger) BeginCopy(_ context.Context, n validate.EntryNumber) (validate.Receipt, error) {
	var out validate.Receipt
	err := l.edit(n, func(r *validate.Receipt) error {
		r.Print = validate.Sending
		r.Copies++
		out = *r
		return nil
	})
	return out, err
}

// AppendReprint is BeginCopy: the fake keeps no journal of who asked.
func (l *Ledger) AppendReprint(ctx context.Context, n validate.EntryNumber, _, _ string) (validate.Receipt, error) {
	return l.BeginCopy(ctx, n)
}

// Shift is the open shift.
func (l *Ledger) Shift(context.Context) (*validate.Shift, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.shift, l.reading
}

// OpenShift opens a shift where none is open.
func (l *Ledger) OpenShift(_ context.Context, operator string, float money.Amount, currency string) (validate.Shift, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := cmp.Or(l.writing, l.reading); err != nil {
		return validate.Shift{}, err
	}
	if l.shift != nil {
		return *l.shift, ErrShift
	}
	l.shift = &validate.Shift{Number: int64(len(l.closings)) + 1, Operator: operator, Float: float, Currency: currency, Opened: l.now()}
	return *l.shift, nil
}

// X reports the claims of the ledger, whatever the kind.
func (l *Ledger) X(_ context.Context, kind validate.ClosingKind) (validate.Closing, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if kind == validate.ShiftClosing && l.shift == nil {
		return validate.Closing{}, ErrShift
	}
	c := validate.Closing{ClosingFacts: validate.ClosingFacts{Kind: kind, Number: int64(len(l.closings)) + 1}, Terminal: l.terminal, At: l.now()}
	var paid validate.Sum
	for _, r := range l.entries {
		paid.Count, paid.Money = paid.Count+1, paid.Money+r.Amount
	}
	c.Totals = []validate.Totals{{Currency: "EUR", Paid: paid}}
	return c, l.reading
}

// Z keeps the report as a closing, and ends the shift where it is of one.
func (l *Ledger) Z(ctx context.Context, kind validate.ClosingKind, operator string) (validate.Closing, error) {
	c, err := l.X(ctx, kind)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := cmp.Or(err, l.writing); err != nil {
		return c, err
	}
	c.Operator, c.Entry = operator, validate.EntryNumber{Epoch: 1, Seq: int64(len(l.entries) + len(l.closings) + 1)}
	l.closings = append(l.closings, c)
	if kind == validate.ShiftClosing {
		l.shift = nil
	}
	return c, nil
}

// RequestReversal keeps the request.
func (l *Ledger) RequestReversal(_ context.Context, r validate.Reversal) (validate.Reversal, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.Number.Seq < 1 || r.Number.Seq > int64(len(l.entries)) {
		return r, ErrNotFound
	}
	if l.writing != nil {
		return r, l.writing
	}
	if slices.ContainsFunc(l.reversals, func(o validate.Reversal) bool { return o.Number == r.Number }) {
		return r, fmt.Errorf("entry %v has a reversal already", r.Number)
	}
	c := l.entries[r.Number.Seq-1]
	r.Claim, r.Ticket, r.Amount, r.Currency, r.State, r.At = c.ID, c.Ticket, c.Amount, c.Currency, validate.ReversalRequested, l.now()
	l.reversals = append(l.reversals, r)
	return r, nil
}

// AnswerReversal is central's answer to the reversal of an entry.
func (l *Ledger) AnswerReversal(n validate.EntryNumber, state validate.ReversalState, words string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.reversals {
		if r := &l.reversals[i]; r.Number == n {
			r.State, r.Answer = state, words
		}
	}
}

// ReversalOf is the reversal of an entry, nil for none.
func (l *Ledger) ReversalOf(_ context.Context, n validate.EntryNumber) (*validate.Reversal, error) {
	for _, r := range l.Reversals() {
		if r.Number == n {
			return &r, nil
		}
	}
	return nil, nil
}

// Reversals lists what was asked for.
func (l *Ledger) Reversals() []validate.Reversal {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.reversals)
}

// Training tells what SetTraining said last.
func (l *Ledger) Training() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.training
}

// SetTraining stores the mode.
func (l *Ledger) SetTraining(_ context.Context, on bool, _ string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.writing == nil {
		l.training = on
	}
	return l.writing
}

// Closing returns a Z by its entry.
func (l *Ledger) Closing(_ context.Context, n validate.EntryNumber) (validate.Closing, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.closings {
		if c.Entry == n {
			return c, nil
		}
	}
	return validate.Closing{}, ErrNotFound
}

// History gives the newest claims, each reversal before its claim.
func (l *Ledger) History(ctx context.Context, n int) ([]validate.Transaction, error) {
	list, err := l.Last(ctx, n)
	var out []validate.Transaction
	reversals := l.Reversals()
	for _, r := range list {
		if i := slices.IndexFunc(reversals, func(o validate.Reversal) bool { return o.Number == r.Number }); i >= 0 {
			x := reversals[i]
			out = append(out, validate.Transaction{Entry: r.Number, At: x.At, Reversal: &x})
		}
		out = append(out, validate.Transaction{Entry: r.Number, At: r.At, Claim: &r})
	}
	for _, m := range l.Misprints() {
		out = append([]validate.Transaction{{Entry: m.Entry, At: m.At, Misprint: &m}}, out...)
	}
	return out, err
}

func (l *Ledger) edit(n validate.EntryNumber, change func(*validate.Receipt) error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n.Epoch != 1 || n.Seq < 1 || n.Seq > int64(len(l.entries)) {
		return fmt.Errorf("entry %v: %w", n, ErrNotFound)
	}
	if err := cmp.Or(l.writing, l.reading); err != nil {
		return err
	}
	return change(&l.entries[n.Seq-1])
}

// Receipt returns the claim of an entry, or ErrNotFound.
func (l *Ledger) Receipt(_ context.Context, n validate.EntryNumber) (validate.Receipt, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n.Epoch != 1 || n.Seq < 1 || n.Seq > int64(len(l.entries)) {
		return validate.Receipt{}, fmt.Errorf("entry %v: %w", n, ErrNotFound)
	}
	return l.entries[n.Seq-1], l.reading
}

// Last returns the newest claims, newest first.
func (l *Ledger) Last(_ context.Context, n int) ([]validate.Receipt, error) {
	list := l.Claims()
	slices.Reverse(list)
	return list[:min(n, len(list))], l.readError()
}

func (l *Ledger) readError() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.reading
}

// Unsent counts the claims above the acknowledged entry.
func (l *Ledger) Unsent(context.Context) (validate.Unsent, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	u := validate.Unsent{Acked: l.acked}
	for _, r := range l.entries[min(l.acked, int64(len(l.entries))):] {
		if u.Claims == 0 {
			u.Oldest = r.At
		}
		u.Claims++
		u.Money += r.Amount
	}
	return u, l.reading
}

// Report keeps an attempt once.
func (l *Ledger) Report(_ context.Context, a validate.Attempt) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.ContainsFunc(l.reported, func(b validate.Attempt) bool { return b.Ticket == a.Ticket && b.Reason == a.Reason }) {
		l.reported = append(l.reported, a)
	}
	return nil
}

// Reported are the attempts that central is told of.
func (l *Ledger) Reported() []validate.Attempt {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.reported)
}

// Attempts counts the failed secrets of a ticket.
func (l *Ledger) Attempts(_ context.Context, t validate.TicketKey) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.attempts[t], l.reading
}

// Failed adds one failed secret.
func (l *Ledger) Failed(_ context.Context, t validate.TicketKey) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := cmp.Or(l.writing, l.reading); err != nil {
		return 0, err
	}
	l.attempts[t]++
	return l.attempts[t], nil
}
