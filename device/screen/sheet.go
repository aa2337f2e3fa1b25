package screen

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"grattoir/device/terminal"
	"grattoir/validate"
	"grattoir/validate/money"
)

// sheetName names what the clerk has laid over the counter.
type sheetName string

const (
	noSheet       sheetName = ""
	menuSheet     sheetName = "menu"
	codeSheet     sheetName = "code"     // a ticket's code is typed
	historySheet  sheetName = "history"  // of the shift
	findSheet     sheetName = "find"     // the number of an earlier slip is typed
	slipSheet     sheetName = "slip"     // of one payment of the history
	whoSheet      sheetName = "who"      // an operator is chosen
	floatSheet    sheetName = "float"    // the cash in the till is typed
	pinSheet      sheetName = "pin"      // the chosen operator's PIN is typed
	sureSheet     sheetName = "sure"     // an act that needs no PIN is confirmed
	closingsSheet sheetName = "closings" // the kinds of closings
	reportSheet   sheetName = "report"   // what a period comes to
	messagesSheet sheetName = "messages" // all of central's
	whySheet      sheetName = "why"      // a reason to take a payment back is chosen
	wordsSheet    sheetName = "words"    // ... and written, where it is none of those
	identitySheet sheetName = "identity" // a winner's identity is taken
	paperSheet    sheetName = "paper"    // a fault of the ticket's paper is entered
)

// purpose is what an operator is chosen, or something confirmed, for.
type purpose string

const (
	toSignOn  purpose = "sign-on"
	toSignOff purpose = "sign-off"
	toUnlock  purpose = "unlock"
	toClose   purpose = "close"
	toTrain   purpose = "train" // switches training on or off
	toReverse purpose = "reverse"
	toTakeIn  purpose = "take-in" // a misprinted ticket
)

// sheet is what the clerk has laid over the counter. The server keeps it, so that a page
// that loads anew shows it again, and a scan takes it away from every page at once.
type sheet struct {
	name   sheetName
	serial uint64    // names this sheet: a press carries it, and one for an older sheet does nothing
	over   string    // id of the view that it lies over, and since when that is shown:
	since  time.Time // another view takes it away
	page   int       // of its list, from 0
	err    error     // why the last press was not followed
	said   bool      // what was asked for went to the printer

	purpose  purpose
	operator Operator // chosen
	choice   []Operator
	float    money.Amount
	kind     validate.ClosingKind
	report   *validate.Closing
	acts     []validate.Transaction
	receipt  *validate.Receipt
	messages []validate.Message
	found    *inspection     // a technician's
	sought   bool            // the payment was found by its number, its ticket or its slip, not in the history
	remedy   validate.Remedy // for a misprint
	reason   validate.ReversalReason
	words    string  // of the clerk's own, for it
	winner   *winner // who is paid
}

// Operator is somebody who may be chosen on the page.
type Operator struct {
	ID   string
	Name string // "" where only the id is known
	Role string // clerk, manager or technician
}

// label is how the page names him.
func (o Operator) label() string {
	if o.Name != "" {
		return o.Name
	}
	return o.ID
}

// historyActs bounds what the history reads of the ledger.
const historyActs = 200

// lay puts a sheet over the counter as it is now, noSheet takes it away. s.act is held.
func (s *Screen) lay(x sheet) {
	state, _ := s.opt.Terminal.State()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.serial++
	x.serial, x.over, x.since = s.serial, state.View.ID, state.View.At
	s.sheet = x
	s.turn()
}

// keep changes the sheet that lies there, if it does.
func (s *Screen) keep(x sheet) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sheet.serial != x.serial {
		return // a scan took it away meanwhile
	}
	s.serial++
	x.serial = s.serial
	s.sheet = x
	s.turn()
}

// turn wakes the streams. s.mu is held.
func (s *Screen) turn() {
	close(s.asked)
	s.asked = make(chan struct{})
	s.seq++
}

// lifted takes the sheet away when another view came than the one it lies over. s.mu is held.
func (s *Screen) lifted(state terminal.State) {
	s.forgets(state)
	on := state.View
	if s.sheet.name != noSheet && (s.sheet.over != on.ID || !s.sheet.since.Equal(on.At)) {
		s.sheet = sheet{}
		s.seq++
	}
}

// lying gives the sheet that a press was made on.
func (s *Screen) lying(f url.Values) (sheet, error) {
	s.take("clerk") // a scan may have taken it away
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sheet.name == noSheet || strconv.FormatUint(s.sheet.serial, 10) != f.Get("sheet") {
		return sheet{}, terminal.ErrStale
	}
	return s.sheet, nil
}

// on makes a press out of an act on the sheet that lies there. What the act refuses is
// said on the sheet.
func (s *Screen) on(act func(ctx context.Context, x sheet, f url.Values) error) http.HandlerFunc {
	return s.press(func(_ http.ResponseWriter, r *http.Request) error {
		x, err := s.lying(r.PostForm)
		if err != nil {
			return err
		}
		if err := act(context.WithoutCancel(r.Context()), x, r.PostForm); err != nil {
			x.err = err
			s.keep(x)
			return err
		}
		return nil
	})
}

// open lays a sheet over the view that the press was made on.
func (s *Screen) open(_ http.ResponseWriter, r *http.Request) error {
	state, _ := s.opt.Terminal.State()
	if state.View.ID != r.PostForm.Get("id") {
		return terminal.ErrStale
	}
	ctx := context.WithoutCancel(r.Context())
	x := sheet{name: sheetName(r.PostForm.Get("sheet-name"))}
	switch x.name {
	case noSheet, menuSheet, codeSheet, findSheet, closingsSheet, workshopSheet:
	case paperSheet:
		if !state.View.CanNote() {
			return terminal.ErrNotNoted
		}
	case identitySheet:
		return s.identify(state)
	case historySheet:
		return s.openHistory(ctx)
	case messagesSheet:
		list, err := s.opt.Terminal.Messages(ctx)
		if err != nil {
			return err
		}
		x.messages = list
	case slipSheet:
		return s.openSlip(ctx, r.PostForm)
	case doctorSheet, trialSheet, addressSheet:
		return s.openTechnician(x.name)
	case reportSheet:
		kind := validate.ClosingKind(r.PostForm.Get("kind"))
		c, err := s.opt.Terminal.Report(ctx, kind)
		if err != nil {
			return err
		}
		x.kind, x.report = kind, &c
	case whoSheet:
		x.purpose, x.kind = purpose(r.PostForm.Get("purpose")), validate.ClosingKind(r.PostForm.Get("kind"))
		x.remedy = validate.Remedy(r.PostForm.Get("remedy"))
		if x.purpose == toTakeIn && (!state.View.CanTakeIn() || state.Training || x.remedy != validate.Refunded && x.remedy != validate.Exchanged) {
			return terminal.ErrNotNoted
		}
		return s.choose(ctx, state, x)
	default:
		return fmt.Errorf("no sheet has the name %.20q", x.name)
	}
	s.lay(x)
	return nil
}

// turnPage goes to another page of the sheet's list. The view bounds it.
func (s *Screen) turnPage(_ context.Context, x sheet, f url.Values) error {
	page, err := strconv.Atoi(f.Get("page"))
	if err != nil || page < 0 {
		return fmt.Errorf("page %.10q: want its number", f.Get("page"))
	}
	x.page, x.err = page, nil
	s.keep(x)
	return nil
}

// enterCode checks a code that was typed: the verdict takes the sheet away.
func (s *Screen) enterCode(ctx context.Context, x sheet, f url.Values) error {
	if x.name != codeSheet {
		return terminal.ErrStale
	}
	digits := strings.ReplaceAll(f.Get("digits"), " ", "")
	if digits == "" || strings.Trim(digits, "0123456789") != "" {
		return errDigits
	}
	s.opt.Terminal.Check(ctx, terminal.Scan{Text: digits, Entered: validate.Typed})
	return nil
}

// errDigits are typed digits that cannot be meant.
var errDigits = errors.New("want the code's digits")

// complete adds the hidden digits to the code on the counter.
func (s *Screen) complete(_ http.ResponseWriter, r *http.Request) error {
	digits := strings.ReplaceAll(r.PostForm.Get("digits"), " ", "")
	if _, err := s.opt.Terminal.Complete(r.Context(), r.PostForm.Get("id"), digits); err != nil {
		return fmt.Errorf("typed digits: %w", err)
	}
	return nil
}

// openHistory shows what was done since the shift began, or the latest acts where nobody
// signs on.
func (s *Screen) openHistory(ctx context.Context) error {
	x, err := s.history(ctx)
	if err == nil {
		s.lay(x)
	}
	return err
}

// history reads the ledger for the sheet of the shift.
func (s *Screen) history(ctx context.Context) (sheet, error) {
	acts, err := s.opt.Terminal.History(ctx, historyActs)
	if err != nil {
		return sheet{}, err
	}
	x := sheet{name: historySheet}
	if c, err := s.opt.Terminal.Report(ctx, validate.ShiftClosing); err == nil {
		x.report = &c
		acts = slices.DeleteFunc(acts, func(a validate.Transaction) bool { return before(a.Entry, c.From) })
	}
	x.acts = acts
	return x, nil
}

func before(a, b validate.EntryNumber) bool {
	return a.Epoch < b.Epoch || a.Epoch == b.Epoch && a.Seq < b.Seq
}

// openSlip shows the slip of one payment of the history.
func (s *Screen) openSlip(ctx context.Context, f url.Values) error {
	if state, _ := s.opt.Terminal.State(); f.Get("entry") != "" && f.Get("entry") == slipOn(state.View) {
		return s.laySlip(ctx, f.Get("entry"), sheet{})
	}
	x, err := s.lying(f)
	if err != nil {
		return err
	}
	for _, a := range x.acts {
		if a.Claim == nil || a.Entry.String() != f.Get("entry") {
			continue
		}
		r, err := s.opt.Terminal.Receipt(ctx, a.Entry)
		if err != nil {
			return err
		}
		x.name, x.receipt = slipSheet, &r
		s.keep(x)
		return nil
	}
	return terminal.ErrStale
}

// again asks for another copy of the slip on the sheet.
func (s *Screen) again(ctx context.Context, x sheet, _ url.Values) error {
	if x.name != slipSheet || x.receipt == nil {
		return terminal.ErrStale
	}
	r, err := s.opt.Terminal.Reprint(ctx, x.receipt.Number)
	if err != nil {
		return err
	}
	x.receipt, x.said, x.err = &r, true, nil
	s.keep(x)
	return nil
}

// printReport prints the report on the sheet.
func (s *Screen) printReport(ctx context.Context, x sheet, _ url.Values) error {
	if x.name != reportSheet || x.report == nil {
		return terminal.ErrStale
	}
	if x.report.Z() {
		if _, err := s.opt.Terminal.ReprintClosing(ctx, x.report.Entry); err != nil {
			return err
		}
	} else {
		s.opt.Terminal.PrintClosing(*x.report)
	}
	x.said, x.err = true, nil
	s.keep(x)
	return nil
}

// choose begins an act that somebody must allow: whoever may is chosen, then types his
// PIN. Where nobody signs on, and for one's own sign-off, a yes is enough.
func (s *Screen) choose(ctx context.Context, state terminal.State, x sheet) error {
	switch {
	case x.purpose == toUnlock && state.Session != nil:
		x.name, x.operator = pinSheet, Operator{ID: state.Session.Operator, Name: state.Session.Name}
	case !state.SignOn, x.purpose == toSignOff && state.Session != nil && !state.Session.Locked:
		x.name = sureSheet
	default:
		x.name = whoSheet
		list, err := s.operators(ctx, x.purpose)
		if err != nil {
			return err
		}
		x.choice = list
	}
	s.lay(x)
	return nil
}

// operators are those who may do an act.
func (s *Screen) operators(ctx context.Context, p purpose) ([]Operator, error) {
	if s.opt.Operators == nil {
		return nil, nil
	}
	list, err := s.opt.Operators(ctx)
	return slices.DeleteFunc(list, func(o Operator) bool {
		switch p {
		case toSignOn:
			return false
		case toTrain:
			return o.Role != "manager" && o.Role != "technician"
		}
		return o.Role != "manager"
	}), err
}

// pick takes the operator who was chosen.
func (s *Screen) pick(_ context.Context, x sheet, f url.Values) error {
	i := slices.IndexFunc(x.choice, func(o Operator) bool { return o.ID == f.Get("operator") })
	if x.name != whoSheet || i < 0 {
		return terminal.ErrStale
	}
	x.operator, x.err, x.name = x.choice[i], nil, pinSheet
	if x.purpose == toSignOn {
		x.name = floatSheet
	}
	s.keep(x)
	return nil
}

// enterFloat takes the cash that was counted into the till, in minor units.
func (s *Screen) enterFloat(_ context.Context, x sheet, f url.Values) error {
	if x.name != floatSheet {
		return terminal.ErrStale
	}
	n := int64(0)
	if text := f.Get("digits"); text != "" {
		var err error
		if n, err = strconv.ParseInt(text, 10, 64); err != nil || n < 0 || len(text) > maxFloat {
			return errDigits
		}
	}
	x.float, x.err, x.name = money.Amount(n), nil, pinSheet
	s.keep(x)
	return nil
}

// maxFloat is how many digits a float may have: a million euros less a cent.
const maxFloat = 8

// sure does what needed only a yes.
func (s *Screen) sure(ctx context.Context, x sheet, _ url.Values) error {
	if x.name != sureSheet {
		return terminal.ErrStale
	}
	return s.allowed(ctx, x, terminal.Credentials{})
}

// allowed does the act of a sheet's purpose.
func (s *Screen) allowed(ctx context.Context, x sheet, by terminal.Credentials) error {
	counter := s.opt.Terminal
	switch x.purpose {
	case toSignOn:
		if _, err := counter.SignOn(ctx, by, x.float); err != nil {
			return err
		}
	case toUnlock:
		if err := counter.Unlock(ctx, by.PIN); err != nil {
			return err
		}
	case toTrain:
		state, _ := counter.State()
		if err := counter.SetTraining(ctx, !state.Training, by); err != nil {
			return err
		}
	case toSignOff:
		return s.ended(counter.SignOff(ctx, by))
	case toReverse:
		return s.reverse(ctx, x, by)
	case toTakeIn:
		if _, err := counter.TakeIn(ctx, x.over, x.remedy, by); err != nil {
			return err
		}
	case toClose:
		return s.ended(counter.Close(ctx, x.kind, by))
	default:
		return terminal.ErrStale
	}
	s.lay(sheet{})
	return nil
}

// ended shows a closing that was made; its slip is on its way.
func (s *Screen) ended(z validate.Closing, err error) error {
	if err != nil {
		return err
	}
	s.lay(sheet{name: reportSheet, kind: z.Kind, report: &z, said: true})
	return nil
}

// lock locks the counter.
func (s *Screen) lock(http.ResponseWriter, *http.Request) error {
	s.lay(sheet{})
	return s.opt.Terminal.Lock()
}

// leave takes the sheet away, or goes back to the one that it came from; nothing is done.
func (s *Screen) leave(ctx context.Context, x sheet, _ url.Values) error {
	switch {
	case x.sought && x.purpose != toReverse:
		s.lay(sheet{})
	case x.name == slipSheet: // what was done of the payment stands in the list
		back, err := s.history(ctx)
		if err != nil {
			return err
		}
		back.serial, back.over, back.since, back.page = x.serial, x.over, x.since, x.page
		s.keep(back)
	case x.purpose == toReverse:
		x.name, x.purpose, x.err, x.choice, x.reason, x.words = slipSheet, "", nil, nil, "", ""
		s.keep(x)
	case x.name == identitySheet && x.winner.step > 0:
		w := *x.winner
		w.step--
		w.at = time.Now()
		x.winner, x.err = &w, nil
		s.keep(x)
	default:
		s.lay(sheet{})
	}
	return nil
}

// beginBatch starts collecting the tickets of one customer.
func (s *Screen) beginBatch(http.ResponseWriter, *http.Request) error {
	s.lay(sheet{})
	_, err := s.opt.Terminal.BeginBatch()
	return err
}

// endBatch gives the batch up; its tickets stay what they are.
func (s *Screen) endBatch(_ http.ResponseWriter, r *http.Request) error {
	return s.opt.Terminal.EndBatch(r.PostForm.Get("batch"))
}

// batchAsked names a batch with what it comes to: a yes to another sum is no yes.
func batchAsked(b terminal.Batch) string { return fmt.Sprintf("%s/%d/%d", b.ID, len(b.Views), b.Total) }

// payBatch pays the batch as the page showed it, the question about the cash included.
func (s *Screen) payBatch(_ http.ResponseWriter, r *http.Request) error {
	state, _ := s.opt.Terminal.State()
	b := state.Batch
	if b == nil || b.Paid || batchAsked(*b) != r.PostForm.Get("batch") {
		return terminal.ErrStale
	}
	sure := r.PostForm.Get("cash") == "yes" && s.askingFor(batchAsked(*b))
	paid, err := s.opt.Terminal.PayBatch(context.WithoutCancel(r.Context()), b.ID, terminal.Confirmed{Cash: sure})
	switch {
	case errors.Is(err, terminal.ErrNeeds) && slices.Contains(paid.Needs, validate.ConfirmCash) && !slices.Contains(paid.Needs, validate.Identity) && !sure:
		s.ask(batchAsked(paid))
		return nil
	case err != nil:
		return fmt.Errorf("pay the batch: %w", err)
	}
	s.ask("")
	return nil
}
