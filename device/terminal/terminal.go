// Package terminal is the counter: one ticket from the scan to the slip. claim.go
// tells that story, recover.go what a restart must finish. It decides by validate,
// records by a ledger and prints by a printer, all behind interfaces it declares here;
// it imports no driver and never touches a file. Start at claim.go.
package terminal

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"io"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"grattoir/validate"
	"grattoir/validate/money"
	"grattoir/validate/policy"
	"grattoir/validate/ticket"
)

// Shelf holds the manifests.
type Shelf interface {
	// Read reads a scan. Its errors all mean that nothing is known of the ticket.
	Read(scan string, aim byte) (ticket.Code, error)
	// Open says what is proven about a code. The error is a technician's detail.
	Open(ctx context.Context, c ticket.Code) (validate.Opened, error)
}

// Ledger is the record of money.
type Ledger interface {
	// Writable is nil when a claim could be committed now.
	Writable() error
	// Allows tells whether a claim of amount fits the allowance now.
	Allows(ctx context.Context, amount money.Amount) (bool, error)
	// Paid returns the claim that stands on the ticket, nil when it has none.
	Paid(ctx context.Context, t validate.TicketKey) (*validate.Receipt, error)
	// Round is the ticket's accepted reversals so far; a claim above 0 needs central's grant.
	Round(ctx context.Context, t validate.TicketKey) (int, error)
	// Prepare is told of a claim that may be recorded next. It commits nothing.
	Prepare(c validate.Claim)
	// Record commits a claim. When it returns nil the claim is durable.
	Record(ctx context.Context, c validate.Claim) (validate.Receipt, error)
	// Intend stores that a claim is to be made once central allows it; a live intent of the
	// ticket is the answer where there is one. GiveBack ends one for good.
	Intend(ctx context.Context, c validate.Claim) (validate.Intent, error)
	GiveBack(ctx context.Context, claim string) error
	// Intent is the newest intent of a ticket, nil for none; Intents are those that live.
	Intent(ctx context.Context, t validate.TicketKey) (*validate.Intent, error)
	Intents(ctx context.Context) ([]validate.Intent, error)
	// IntentsChanged is closed at the next change of an intent.
	IntentsChanged() <-chan struct{}
	// ReleasePacks gives up all packs of this terminal until central gives them back, and
	// tells how many runs; TakeBack asks for that.
	ReleasePacks(ctx context.Context, operator string, closing bool) (runs int, err error)
	TakeBack(ctx context.Context) error
	// Unprinted lists claims in the states sending and held, oldest first.
	Unprinted(ctx context.Context) ([]validate.Receipt, error)
	// Mark stores how far the paper has come.
	Mark(ctx context.Context, n validate.EntryNumber, s validate.PrintState) error
	// BeginCopy stores that the terminal prints another copy by itself, before its first
	// byte; AppendReprint that somebody asked for one.
	BeginCopy(ctx context.Context, n validate.EntryNumber) (validate.Receipt, error)
	AppendReprint(ctx context.Context, n validate.EntryNumber, operator, why string) (validate.Receipt, error)
	// Receipt returns the claim of an entry; Last the newest claims, newest first.
	Receipt(ctx context.Context, n validate.EntryNumber) (validate.Receipt, error)
	Last(ctx context.Context, n int) ([]validate.Receipt, error)
	Unsent(ctx context.Context) (validate.Unsent, error)
	// Attempts counts the failed secrets of a ticket; Failed adds one, durably.
	// Shift is the open shift, nil for none; a Z is a closing that becomes an entry, an X
	// is the same report of the open period and writes nothing.
	Shift(ctx context.Context) (*validate.Shift, error)
	OpenShift(ctx context.Context, operator string, float money.Amount, currency string) (validate.Shift, error)
	X(ctx context.Context, kind validate.ClosingKind) (validate.Closing, error)
	Z(ctx context.Context, kind validate.ClosingKind, operator string) (validate.Closing, error)
	// Closing returns the Z of an entry.
	Closing(ctx context.Context, n validate.EntryNumber) (validate.Closing, error)
	RequestReversal(ctx context.Context, r validate.Reversal) (validate.Reversal, error)
	// ReversalOf is the reversal of a claim's entry, nil for none.
	ReversalOf(ctx context.Context, claim validate.EntryNumber) (*validate.Reversal, error)
	Training() bool
	SetTraining(ctx context.Context, on bool, operator string) error
	History(ctx context.Context, n int) ([]validate.Transaction, error)
	Attempts(ctx context.Context, t validate.TicketKey) (int, error)
	Failed(ctx context.Context, t validate.TicketKey) (int, error)
	// TakeIn records that a misprinted ticket was refunded or exchanged, once for a ticket;
	// TakenIn is that entry, nil for none.
	TakeIn(ctx context.Context, m validate.Misprinted) (validate.Misprinted, error)
	TakenIn(ctx context.Context, t validate.TicketKey) (*validate.Misprinted, error)
	// Report tells central of a ticket that was presented: durably, once a ticket and reason.
	Report(ctx context.Context, a validate.Attempt) error
}

// Printer puts slips on paper.
type Printer interface {
	// Ready is nil, or what keeps a slip from being printed now.
	Ready() *Fault
	// Warning is nil, or what will keep slips from being printed soon: the roll is nearly
	// used up.
	Warning() *Fault
	// Print prints the slip of a receipt and returns the level reached. Held means that
	// a fault came before the first byte: nothing was sent, the same copy may be tried
	// again. Watch is told what holds the job meanwhile, and nil when it goes on.
	// Drawer asks for the cash drawer at the printer's socket, where there is one, to be opened
	// before the slip's first byte; with a slip that is held it stays shut.
	Print(ctx context.Context, r validate.Receipt, drawer bool, watch func(*Fault)) (validate.PrintState, error)
	// PrintClosing prints the slip of a closing, PrintResult that of a check, as Print does.
	PrintClosing(ctx context.Context, c validate.Closing) (validate.PrintState, error)
	PrintResult(ctx context.Context, r Result) (validate.PrintState, error)
	// Changed is closed at the next change of Ready or Warning.
	Changed() <-chan struct{}
}

// Central is what central has said about a ticket, as far as it has arrived here.
type Central interface {
	Standing(ctx context.Context, o validate.Opened) (Standing, error)
}

// Standing is central's word on one ticket.
type Standing struct {
	TerminalSuspended bool
	GameSuspended     bool
	Pack              validate.PackState
	Right             validate.Right
	OwnerEpoch        int64
	Asks              bool // central can be asked to allow a payment
	Foreign           bool // another terminal owns the pack
	Unheard           bool // central was asked about a claim, and no answer comes through
	PaidElsewhere     *validate.Payment
	Closed            policy.Date
}

// StandAlone is the Central of a terminal that has none: every pack of a block that
// lies here is active and this terminal's own. Only a configuration that says
// standalone = true gets it.
type StandAlone struct{}

// Standing gives the right to pay.
func (StandAlone) Standing(context.Context, validate.Opened) (Standing, error) {
	return Standing{Pack: validate.PackActive, Right: validate.RightOwner}, nil
}

// Fault is a device's trouble in words: for the clerk, and its technician's twin with a code.
type Fault struct {
	Code       string // printed and read out by phone
	ClerkFR    string // at most two lines of 32 columns
	ClerkEN    string
	Technician string
}

// Clerk gives the clerk's words.
func (f Fault) Clerk(l money.Language) string {
	if l == money.English {
		return f.ClerkEN
	}
	return f.ClerkFR
}

// Options make a terminal.
type Options struct {
	Name         string // the terminal's own name
	Shelf        Shelf
	Ledger       Ledger
	Printer      Printer
	Central      Central
	Packs        Packs                // nil for a terminal that has no central
	Messages     Messages             // nil for a terminal that has no central
	Policy       func() policy.Policy // what is in force now; asked once per act, so that one act sees one policy
	AcceptScaled bool                 // pay demonstration blocks
	Operator     string               // who pays where nobody signs on
	Staff        Staff                // who signs on; nil for a terminal without sign-on
	Register     Register             // of winners' identities; nil for a terminal that keeps none
	ResultSlips  policy.ResultSlips   // for which checks a slip of the result is printed where the policy does not say it, "" is SlipsCentre
	Currency     string               // of floats and totals
	Now          func() time.Time     // the device's clock, a hint
	Trusted      func() time.Time     // newest trusted time, zero for none
	Rand         io.Reader            // of claim ids; nil is the system's randomness, a simulation gives its own
	Log          *slog.Logger
	// LedgerFault words an error of Ledger.Writable; nil gives the verdict's words.
	LedgerFault func(error) *Fault
	// Clock words what is wrong with the device's clock now, nil for nothing.
	Clock func() *Fault
	// ReleaseAtClose gives this terminal's packs up with each Z of a day, so that other
	// shops can pay their tickets over night. The next sign-on takes them back.
	ReleaseAtClose bool
	// Looked, when set, is told of each answer to a code. It must not block.
	Looked func(validate.Looked)
	// Limits words what is wrong with the signed policies now, nil for nothing.
	Limits func() *Fault
	// Step, when set, is called after each durable or visible step of a claim, with its
	// name. Crash tests kill the program there.
	Step func(name string)
}

// Terminal is one counter. It is safe for concurrent use; acts on tickets run one at a time.
type Terminal struct {
	opt    Options
	act    sync.Mutex                // held over one act: a check or a payment
	paused atomic.Pointer[time.Time] // until when acts are refused at most, nil while they are taken
	queue  chan struct{}

	// Of Recover and then of Run's goroutine only.
	said     map[string]string                            // what the log was told of a read that fails again and again
	doubtful map[validate.EntryNumber]bool                // their next copy is a DUPLICATA
	begun    map[validate.EntryNumber]bool                // given to the printer in this run
	unmarked map[validate.EntryNumber]validate.PrintState // out, but not stored as such
	unsure   map[validate.EntryNumber]bool                // may not have come out, and no copy was asked for
	looked   bool                                         // for those of earlier runs

	papers   []paper // slips that are no payment's and wait, guarded by mu
	printing int     // of them, guarded by mu

	receipts map[string]View // paid views of this run by id, guarded by act

	mu      sync.Mutex // guards what follows
	state   State
	changed chan struct{}
	owed    owed
}

// State is what screens show, whole.
type State struct {
	View    View
	Scanner *Fault // nil when the scanner works
	Printer *Fault // nil when the printer is ready
	Unsent  validate.Unsent
	Ledger  *Fault                 // what keeps the ledger from taking payments, nil for nothing
	Clock   *Fault                 // what is wrong with the clock, nil for nothing; it stops no payment
	Limits  *Fault                 // what is wrong with the signed policies, nil for nothing
	Paper   *Fault                 // what the printer will soon need, nil for nothing; it stops no payment
	Board   []Fault                // of lamps, drawer, switches and buttons, the worst first; they stop no payment
	Reprint []validate.EntryNumber // payments whose slip may not have come out, newest first

	Messages []validate.Message // of central's that wait to be read, mandatory ones first

	Restarting *Fault // acts are refused because the machine is about to restart, nil while they are taken

	SignOn   bool     // somebody must be signed on before anything is paid
	Session  *Session // who is signed on, nil for nobody or no sign-on
	Training bool     // nothing is recorded
	Batch    *Batch   // the tickets being collected, nil for none
}

// Stage is what the counter shows.
type Stage string

const (
	Idle    Stage = "idle"
	Typing  Stage = "typing" // the code's hidden digits have still to be typed
	Verdict Stage = "verdict"
	Paid    Stage = "paid"
	Trained Stage = "trained" // a payment that was played in training mode
	OnPack  Stage = "pack"    // a public code was scanned: its pack is shown
)

// View is the ticket on the counter.
type View struct {
	ID      string // names this check; a payment of it carries it as its claim id
	Stage   Stage
	At      time.Time
	Code    ticket.Code // prints without its secret
	Verdict validate.Verdict
	Opened  validate.Opened
	Detail  string // for the technician: what exactly was wrong
	Receipt *validate.Receipt
	Holding *Fault // what holds the slip now
	Entered validate.Entered
	Linked  money.Amount         // what the same identified person was paid before
	Pack    *validate.Pack       // at the stage OnPack
	Slip    bool                 // a slip of the check was printed, or is about to be
	OfSlip  validate.EntryNumber // the payment of this terminal's whose slip's code was scanned in a ticket's place, zero for none
	Seen    Seen                 // what the clerk entered of the paper
	TakenIn *validate.Misprinted // by this terminal, as a misprint; nil for not

	policy     policy.Policy // of the act that made the verdict
	ownerEpoch int64         // the right by which a claim of it is made
	round      int           // the round that a claim of it would have
	right      validate.Right
	risk       *validate.Risk // by which it is paid, nil for none
	asks       bool           // central can be asked about it
}

// New makes a terminal that shows the idle page. Run starts its printing.
func New(opt Options) *Terminal {
	if opt.Step == nil {
		opt.Step = func(string) {}
	}
	if opt.LedgerFault == nil {
		opt.LedgerFault = notWritable
	}
	if opt.Clock == nil {
		opt.Clock = func() *Fault { return nil }
	}
	if opt.Limits == nil {
		opt.Limits = func() *Fault { return nil }
	}
	if opt.Rand == nil {
		opt.Rand = rand.Reader
	}
	return &Terminal{opt: opt, queue: make(chan struct{}, 1), changed: make(chan struct{}),
		said: map[string]string{}, doubtful: map[validate.EntryNumber]bool{}, begun: map[validate.EntryNumber]bool{}, unmarked: map[validate.EntryNumber]validate.PrintState{}, unsure: map[validate.EntryNumber]bool{},
		receipts: map[string]View{},
		state:    State{View: View{Stage: Idle, At: opt.Now()}, Printer: opt.Printer.Ready(), Training: opt.Ledger.Training(), SignOn: opt.Staff != nil}}
}

// policy is what is in force now. An act asks it once and keeps the answer in its view.
func (t *Terminal) policy() policy.Policy { return t.opt.Policy() }

// Currency is what floats and totals are counted in.
func (t *Terminal) Currency() string { return t.opt.Currency }

// State gives a snapshot and a channel that is closed at the next change.
func (t *Terminal) State() (State, <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.state, t.changed
}

// change edits the state and wakes the screens.
func (t *Terminal) change(edit func(*State)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	edit(&t.state)
	close(t.changed)
	t.changed = make(chan struct{})
}

// ScannerFault reports what is wrong with the scanner, nil when it works.
func (t *Terminal) ScannerFault(f *Fault) { t.change(func(s *State) { s.Scanner = f }) }

// BoardFaults reports what is wrong with the wires, the worst first.
func (t *Terminal) BoardFaults(list []Fault) { t.change(func(s *State) { s.Board = list }) }

// refresh reads again what the status line shows. It is no part of what a stop cuts off.
func (t *Terminal) refresh(ctx context.Context) {
	ctx = context.WithoutCancel(ctx)
	unsent, err := t.opt.Ledger.Unsent(ctx)
	t.say("cannot count unsent claims", err)
	var trouble *Fault
	if err := t.opt.Ledger.Writable(); err != nil {
		trouble = t.opt.LedgerFault(err)
		t.say("nothing can be paid", err)
	} else {
		t.say("nothing can be paid", nil)
	}
	reprint, waiting := t.unsureSlips(ctx), t.messages(ctx)
	ready, soon, clock, limits := t.opt.Printer.Ready(), t.opt.Printer.Warning(), t.opt.Clock(), t.opt.Limits()
	t.change(func(s *State) {
		s.Unsent, s.Ledger, s.Clock, s.Limits, s.Printer, s.Paper, s.Reprint, s.Messages = unsent, trouble, clock, limits, ready, soon, reprint, waiting
	})
}

// unsureSlips are the payments whose slip may not have come out, newest first. One stays
// until another copy is asked for, however many payments come after it: a slip can turn
// out to be lost long after its customer's turn.
func (t *Terminal) unsureSlips(ctx context.Context) []validate.EntryNumber {
	if !t.looked {
		t.lookBack(ctx)
	}
	var unsure []validate.EntryNumber
	for n := range t.unsure {
		if r, err := t.opt.Ledger.Receipt(ctx, n); err == nil && r.Print != validate.Unknown {
			delete(t.unsure, n)
			continue
		}
		unsure = append(unsure, n)
	}
	slices.SortFunc(unsure, func(a, b validate.EntryNumber) int {
		return cmp.Or(cmp.Compare(b.Epoch, a.Epoch), cmp.Compare(b.Seq, a.Seq))
	})
	return unsure
}

// say tells the log of an error that is met every few seconds, once: a disk that is in
// trouble must not be filled with words about it. No error makes the next one new.
func (t *Terminal) say(what string, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if was := t.said[what]; text != was && err != nil {
		t.opt.Log.Error(what, "err", err)
	} else if text != was {
		t.opt.Log.Info("over: "+what, "err", was)
	}
	t.said[what] = text
}

// notWritable words an error of the ledger as the verdict does.
func notWritable(err error) *Fault {
	r := validate.LedgerNotWritable
	return &Fault{Code: r.Code(), ClerkFR: r.Text(money.French).Clerk, ClerkEN: r.Text(money.English).Clerk, Technician: r.Technician() + " (" + err.Error() + ")"}
}

// newID makes a claim id: 128 random bits.
func (t *Terminal) newID() string {
	var b [16]byte
	if _, err := io.ReadFull(t.opt.Rand, b[:]); err != nil {
		_, _ = rand.Read(b[:]) // never fails: without randomness the program ends
	}
	return hex.EncodeToString(b[:])
}
