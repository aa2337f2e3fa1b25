package screen

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"grattoir/device/terminal"
	"grattoir/validate"
	"grattoir/validate/money"
)

// look is the family of a view: its colours and its shape. A meaning is never carried
// by the colour alone; the shape and the word say the same.
type look string

const (
	lookIdle   look = "idle"
	lookWin    look = "win"    // check mark: pay
	lookDone   look = "done"   // check mark in a circle: this payment is recorded
	lookLose   look = "lose"   // dash: proven, no prize
	lookPaid   look = "paid"   // double tick: paid before
	lookStop   look = "stop"   // cross: known, and the answer is no
	lookCentre look = "centre" // arrow: somebody else pays, or later
	lookError  look = "error"  // warning sign: nothing is known of the prize
	lookAgain  look = "again"  // turning arrow: the same act once more
	lookAsk    look = "ask"    // question mark: the clerk answers first
)

// lookOf sorts the reasons by what the clerk does. A reason that it does not know is an error.
func lookOf(r validate.Reason) look {
	switch r {
	case validate.Winner:
		return lookWin
	case validate.NotAWinner:
		return lookLose
	case validate.AlreadyPaidHere, validate.AlreadyPaidElsewhere:
		return lookPaid
	case validate.PackStolen, validate.TicketVoid, validate.ClaimPeriodOver:
		return lookStop
	case validate.AboveShopLimit, validate.PrizeNotMoney, validate.NeedsCentral, validate.OwnerSilent, validate.AllowanceSpent,
		validate.ClockNotTrusted, validate.PrinterNotReady, validate.CreditedToAccount, validate.GameSuspended:
		return lookCentre
	case validate.CodeMisread, validate.WaitingForCentral:
		return lookAgain
	}
	return lookError
}

// view is everything the templates write, in one language.
type view struct {
	W           words
	Look        look
	Boot, Token string
	Seq         uint64
	Key         string // changes when the view does, and not when only the status line does
	ID          string // of the check, which every press carries
	Name, Shop  string
	Banner      string // said on every view: training, demonstration
	Read        int64  // number of central's message that is shown and waits to be read, 0 for none
	Alone       bool   // the message stands alone, with no ticket
	Switch      bool
	Notice      string
	Silence     int64 // milliseconds
	Guard       int64

	Word, WordSize     string
	Amount, AmountSize string // "" where no amount is shown big
	InWords            string
	Clerk, NextStep    string
	Player, PlayerTwo  string // the customer's text in both languages
	PlayerTwoLang      string
	Code               string
	Details            []string
	When               []string // of an earlier payment
	CanPay, CashFirst  bool
	CanAsk             bool // central may allow the payment
	CanSlip            bool // a slip of the check may be printed
	CanIdentify        bool // the winner's identity may be taken, and then he is paid
	CanNote            bool // a fault of the paper may be entered
	CanActivate        bool // the pack on the counter may be put on sale
	ActivateFirst      bool // the clerk is asked whether it is meant
	Receipt            *receiptView
	Batch              *batchView
	Acts               []button   // of the page without a ticket, and those that come before a payment
	Sheet              *sheetView // in the place of the counter
	Serial             uint64     // of the sheet
	Line               []item
	Crowded            bool // the status line takes much room: the page has no more than it must
}

// batchView is the tickets of one customer.
type batchView struct {
	ID    string // with what it comes to, for a payment
	Plain string // its own id
	Rows  []batchRow
	Count string
	Total string
	Full  bool
	Empty bool // nothing of it can be paid
	Paid  bool
}

// batchRow is one ticket of it.
type batchRow struct {
	Look   look
	Name   string
	Word   string
	Amount string
	Now    bool // it is the one on the counter
}

// receiptView is the slip of the claim on the counter.
type receiptView struct {
	Image   string // address of the preview, "" for none
	State   string
	Trouble string // what holds the slip, in the clerk's words
	Copy    string
	Copies  int
	Again   bool // another copy may be asked for
}

// waiting shows the first message of central's that waits to be read: on a page of its own
// while no ticket is on the counter, and in the place of the payment where it must be read
// first. The verdict stays.
func (v *view) waiting(list []validate.Message, l money.Language) {
	if len(list) == 0 {
		return
	}
	m := list[0]
	switch {
	case v.Look == lookIdle:
		v.Look, v.Word, v.NextStep, v.Alone, v.Acts = lookAsk, v.W.FromCentre(), v.W.ReadIt(), true, nil
		if len(list) > 1 {
			v.NextStep = v.W.ReadMore(len(list) - 1)
		}
	case (v.CanPay || v.CanIdentify) && m.Mandatory:
		v.CanPay, v.CashFirst, v.CanIdentify, v.NextStep = false, false, false, v.W.ReadFirst()
		v.Code, v.Details = "", nil // there is no room for both
	default:
		return
	}
	v.Clerk, v.Read = m.Text(l), m.Number
}

// item is one fact in the status line. Bad ones are marked in words, sign and colour.
type item struct {
	Text string
	Bad  bool
}

// viewOf says everything about a snapshot in one language.
func (s *Screen) viewOf(now snapshot, l money.Language) view {
	w, bad := wordsOf(l), 0
	on := now.state.View
	v := view{W: w, Look: lookIdle, Boot: s.boot, Token: s.token, Seq: now.seq, ID: on.ID, Name: s.opt.Name, Shop: s.opt.Shop,
		Switch: len(s.opt.Languages) > 1, Notice: s.opt.Notice,
		Silence: s.silence.Milliseconds(), Guard: s.guard.Milliseconds(), Line: s.line(now.state, w, l)}
	switch {
	case now.state.Training:
		v.Banner = w.Training()
	case s.opt.Demonstration:
		v.Banner = w.Demonstration()
	}
	switch on.Stage {
	case terminal.Typing:
		n := on.Code.TypedDigits()
		text := validate.TypeDigits(n, l)
		v.Look, v.Word, v.Clerk, v.NextStep = lookAsk, text.Word, oneLine(text.Clerk), oneLine(text.Next)
		v.bilingual(l, func(m money.Language) string { return validate.TypeDigits(n, m).Player })
		v.ticket(on)
		if now.clerk {
			v.lie(typing(on, w, text), 0)
		}
	case terminal.Verdict:
		s.verdict(&v, on, now.asking, l)
		v.CanSlip, v.CanNote = now.clerk && s.opt.Terminal.CanSlip(on), now.clerk && !now.asking && on.CanNote()
		if on.Slip {
			v.Details = append(v.Details, w.SlipSent())
		}
		if f := now.state.Printer; f != nil && on.Verdict.Reason == validate.PrinterNotReady {
			v.Clerk = f.Code + "\u00a0: " + oneLine(f.Clerk(l))
		}
		if now.clerk {
			s.misprinted(&v, on, now.state, l)
			v.offerSlip(on)
		}
	case terminal.Paid:
		s.paid(&v, on, l)
		if paidTogether(now.state) && (on.Receipt == nil || on.Receipt.Copies <= 1) { // a duplicate pays nothing
			b := now.state.Batch
			v.Word, v.NextStep = w.BatchDone(), w.BatchPaidNext(money.Text(b.Total, b.Currency, l, money.Screen))
			v.Amount, v.InWords = money.Text(b.Total, b.Currency, l, money.Screen), money.Words(b.Total, b.Currency, l)
		}
	case terminal.OnPack:
		v.pack(on, now.asking, l)
		if s := now.state; v.CanActivate && s.SignOn && (s.Session == nil || s.Session.Locked) {
			v.CanActivate, v.ActivateFirst, v.NextStep = false, false, w.ActivateSignOn()
		}
	case terminal.Trained:
		v.Look, v.Word, v.NextStep = lookDone, w.TrainedWord(), w.TrainedNext()
		v.bilingual(l, func(m money.Language) string { return wordsOf(m).Training() })
		v.ticket(on)
	default:
		v.Word, v.Player, v.PlayerTwo, v.PlayerTwoLang = w.Idle(), w.IdlePlayer(), other(l).IdlePlayer(), other(l).Lang()
		if now.state.Scanner != nil { // a scan would not come; the status line says why
			v.Word = w.NoScanner()
		}
		if now.clerk {
			v.Acts = idleActs(now.state, w)
		}
	}
	if why := mayNotPay(now.state, w); why != "" && (v.CanPay || v.CanAsk || v.CanIdentify) {
		v.CanPay, v.CashFirst, v.CanAsk, v.CanIdentify, v.NextStep = false, false, false, false, why
		if b, needed := signing(now.state, w); needed && now.clerk {
			v.Acts = []button{b}
		}
	}
	if now.clerk {
		v.batch(now, s.opt.Terminal.CanIdentify() == nil, l)
		v.waiting(now.state.Messages, l)
		if now.sheet.name != noSheet {
			s.laid(&v, now, l)
		}
	}
	for _, i := range v.Line {
		if i.Bad {
			bad++
		}
	}
	v.Crowded = bad > 3
	v.WordSize, v.AmountSize = wordSize(v.Word), amountSize(v.Amount)
	if len(v.When) > 0 && v.WordSize == "l" {
		v.WordSize = "m" // what is said of the earlier payment stands below it
	}
	_, nobody := signing(now.state, w)
	v.CanNote = v.CanNote && v.Read == 0 && !nobody
	v.CanSlip = v.CanSlip && !v.CanPay && !v.CashFirst && v.Read == 0
	v.Key = fmt.Sprintf("%s/%s/%s/%d/%t/%d", v.Look, on.ID, v.Code, v.Read, v.ActivateFirst || v.Receipt != nil && v.Receipt.Again, v.Serial)
	if b := v.Batch; b != nil {
		v.Key += "/" + b.ID
	}
	return v
}

func other(l money.Language) words {
	if l == money.English {
		return words{money.French}
	}
	return words{money.English}
}

// mayNotPay is why no payment can be pressed on the page now, "" where one can.
func mayNotPay(state terminal.State, w words) string {
	switch {
	case state.SignOn && state.Session == nil:
		return w.SignOnFirst()
	case state.SignOn && state.Session.Locked:
		return w.UnlockFirst(state.Session.Operator)
	case state.Batch != nil && !state.Batch.Paid:
		return w.BatchFirst()
	}
	return ""
}

// paidTogether says that the ticket on the counter is one of a batch that was just paid:
// the money to hand out is the batch's, not this ticket's.
func paidTogether(state terminal.State) bool {
	b := state.Batch
	return b != nil && b.Paid && b.Prizes > 0 && !state.Training && b.Holds(state.View)
}

// batch shows the tickets of one customer beside the verdict of the newest. While it is
// open its payment takes the place of a ticket's.
func (v *view) batch(now snapshot, canIdentify bool, l money.Language) {
	b, on, w := now.state.Batch, now.state.View, v.W
	if b == nil || b.Paid && !paidTogether(now.state) || !b.Paid && on.Stage != terminal.Idle && on.Stage != terminal.Verdict {
		return
	}
	p := &batchView{ID: batchAsked(*b), Plain: b.ID, Count: fmt.Sprintf("%d / %d", len(b.Views), terminal.MaxBatch), Total: money.Text(b.Total, b.Currency, l, money.Screen), Full: len(b.Views) == terminal.MaxBatch, Empty: b.Prizes == 0, Paid: b.Paid}
	for _, x := range b.Views {
		row := batchRow{Look: lookOf(x.Verdict.Reason), Name: x.Code.PackText() + "-" + x.Code.NumberText(), Word: x.Verdict.Reason.Text(l).Word, Now: x.ID == on.ID}
		if x.Stage == terminal.Paid || x.Stage == terminal.Trained {
			row.Look, row.Word = lookDone, w.PaidWord()
		}
		if a := x.Verdict.AmountMinor; a != nil && *a > 0 && (row.Look == lookWin || row.Look == lookDone) {
			row.Amount = money.Text(*a, x.Verdict.Currency, l, money.Screen)
		}
		p.Rows = append(p.Rows, row)
	}
	v.Batch, v.Details, v.Acts = p, nil, nil
	if b.Paid {
		v.Receipt = nil // there are several; the history has them
		return
	}
	v.CanPay, v.CashFirst, v.CanAsk, v.CanIdentify = b.Prizes > 0, false, false, false
	switch {
	case on.Stage == terminal.Idle:
		v.Look, v.Word, v.NextStep = lookAsk, w.BatchWord(), w.BatchScan()
	case on.Stage == terminal.Verdict && p.Full && !b.Holds(on):
		v.NextStep = w.BatchFull()
	case v.Look == lookWin:
		v.NextStep = w.BatchScan()
	}
	if sign, needed := signing(now.state, w); needed {
		v.CanPay, v.Acts, v.NextStep = false, []button{sign}, mayNotPay(now.state, w)
	}
	switch {
	case slices.Contains(b.Needs, validate.Identity) && v.CanPay && canIdentify:
		v.CanPay, v.CanIdentify, v.NextStep = false, true, w.IdentityTake()
	case slices.Contains(b.Needs, validate.Identity) && b.Prizes > 0:
		v.CanPay, v.Clerk, v.NextStep = false, w.Identity(), w.IdentityNext()
	case now.asking && v.CanPay:
		v.Look, v.Word, v.CashFirst, v.Clerk, v.NextStep = lookAsk, w.BatchAsk(), true, "", w.CashTake()
		v.Amount, v.InWords = p.Total, money.Words(b.Total, b.Currency, l)
	}
}

// duty says who is at the counter.
func duty(state terminal.State, w words) item {
	switch x := state.Session; {
	case x == nil:
		return item{w.NoOneOnDuty(), true}
	case x.Locked:
		return item{w.LockedDuty(x.Operator), true}
	default:
		return item{w.OnDuty(x.Operator), false}
	}
}

// verdict fills in what a check answered.
func (s *Screen) verdict(v *view, on terminal.View, asking bool, l money.Language) {
	w, d := v.W, on.Verdict
	text := d.Reason.Text(l)
	v.Look, v.Word, v.Code = lookOf(d.Reason), text.Word, d.Reason.Code()
	v.Clerk, v.NextStep = oneLine(text.Clerk), oneLine(text.Next)
	v.bilingual(l, func(m money.Language) string { return d.Reason.Text(m).Player })
	v.ticket(on)
	if a := d.AmountMinor; a != nil && *a > 0 {
		figures := money.Text(*a, d.Currency, l, money.Screen)
		switch v.Look {
		case lookPaid, lookStop: // a big amount on a ticket that is not paid invites to pay it
			v.Details = append(v.Details, w.Won(figures))
		default:
			v.Amount, v.InWords = figures, money.Words(*a, d.Currency, l)
		}
	}
	if d.Paid != nil {
		v.When = s.earlier(*d.Paid, w)
	}
	v.CanAsk = on.CanAsk()
	if d.Outcome != validate.Pay {
		return
	}
	switch {
	case slices.Contains(d.Needs, validate.Identity) && s.opt.Terminal.CanIdentify() == nil:
		v.CanIdentify, v.Clerk, v.NextStep = true, "", w.IdentityTake()
	case slices.Contains(d.Needs, validate.Identity):
		v.Look, v.Word, v.Clerk, v.NextStep = lookCentre, validate.AboveShopLimit.Text(l).Word, w.Identity(), w.IdentityNext()
		v.bilingual(l, func(m money.Language) string { return validate.AboveShopLimit.Text(m).Player })
	case asking:
		v.Look, v.Word, v.CanPay, v.CashFirst = lookAsk, w.CashAsk(), true, true
		v.Clerk, v.NextStep = "", w.CashTake()
	default:
		v.CanPay, v.Clerk = true, "" // the word says it already
	}
}

// paid fills in a payment that is recorded, and how far its slip is.
func (s *Screen) paid(v *view, on terminal.View, l money.Language) {
	w := v.W
	v.Look, v.Word, v.NextStep = lookDone, w.PaidWord(), w.PaidNext()
	v.bilingual(l, func(m money.Language) string { return wordsOf(m).PaidPlayer() })
	v.ticket(on)
	r := on.Receipt
	if r == nil { // a paid view always has one
		return
	}
	v.Amount, v.InWords = money.Text(r.Amount, r.Currency, l, money.Screen), money.Words(r.Amount, r.Currency, l)
	v.Details = append(v.Details, w.Entry()+"\u00a0"+r.Number.String())
	if on.Linked > 0 {
		v.Details = append(v.Details, w.Linked(money.Text(on.Linked, r.Currency, l, money.Screen)))
	}
	p := &receiptView{Copies: r.Copies}
	p.State, p.Again = w.slipState(r.Print)
	if on.Holding != nil && !p.Again {
		p.State, p.Trouble = w.Held(), on.Holding.Code+"\u00a0: "+oneLine(on.Holding.Clerk(l))
	}
	if r.Copies > 1 {
		p.Copy, v.NextStep = w.Copy(r.Copies-1), w.CopyNext()
	}
	if s.opt.Render != nil {
		p.Image = fmt.Sprintf("/slip/%s.png?copy=%d", r.Number, r.Copies)
	}
	v.Receipt = p
}

// pack fills in what a public code says: how the pack stands, and never a prize.
func (v *view) pack(on terminal.View, asking bool, l money.Language) {
	if on.Pack == nil { // a view of a pack always has one
		return
	}
	note := on.Pack.Note(on.Code.Number)
	text := note.Text(l)
	v.Look, v.Word, v.Code, v.Clerk, v.NextStep = lookOfPack(note), text.Word, note.Code(), oneLine(text.Clerk), oneLine(text.Next)
	v.bilingual(l, func(m money.Language) string { return note.Text(m).Player })
	v.ticket(on)
	v.CanActivate = on.Pack.Activatable() && note == validate.NotePackDelivered
	if asking && v.CanActivate {
		v.Look, v.Word, v.ActivateFirst, v.Clerk, v.NextStep = lookAsk, v.W.ActivateAsk(), true, v.W.ActivateWhich(on.Code.PackText()), v.W.ActivateCheck()
	}
}

// lookOfPack sorts the notes by what the clerk does.
func lookOfPack(n validate.PackNote) look {
	switch n {
	case validate.NotePackActive, validate.NotePackSettled:
		return lookDone
	case validate.NotePackDelivered:
		return lookAsk
	case validate.NotePackStolen, validate.NoteTicketStolen:
		return lookStop
	case validate.NotePackElsewhere, validate.NotePackReturned, validate.NoteTicketReturned:
		return lookCentre
	}
	return lookError
}

func (v *view) bilingual(l money.Language, text func(money.Language) string) {
	two := money.Language(other(l).Lang())
	v.Player, v.PlayerTwo, v.PlayerTwoLang = text(l), text(two), string(two)
}

// ticket names the ticket by its public part.
func (v *view) ticket(on terminal.View) {
	if on.Opened.GameName != "" {
		v.Details = append(v.Details, on.Opened.GameName)
	}
	if on.Code.Game != "" {
		v.Details = append(v.Details, v.W.Ticket()+" "+on.Code.Game+"-"+on.Code.PackText()+"-"+on.Code.NumberText())
	}
}

// earlier tells when and where the ticket was paid before.
func (s *Screen) earlier(p validate.Payment, w words) []string {
	now := s.opt.Now()
	var lines []string
	if !p.At.IsZero() { // the other terminal's clock may have said nothing of use
		lines = append(lines, w.Earlier(w.moment(p.At, now, s.opt.Zone)))
	}
	var where []string
	if p.Shop != "" {
		where = append(where, w.Shop()+" "+p.Shop)
	}
	if p.Terminal != "" {
		where = append(where, w.Terminal()+" "+p.Terminal)
	}
	if len(where) > 0 {
		lines = append(lines, strings.Join(where, ", "))
	}
	if p.Number != "" {
		lines = append(lines, w.Entry()+"\u00a0"+p.Number)
	}
	if !p.AsOf.IsZero() {
		lines = append(lines, w.AsOf(w.moment(p.AsOf, now, s.opt.Zone)))
	}
	return lines
}

// maxBoard is how many faults of the wires the status line has room for; the others are
// in the terminal's status.
const maxBoard = 2

// line is the status line, the same on every view.
func (s *Screen) line(state terminal.State, w words, l money.Language) []item {
	now := s.opt.Now()
	clock := item{Text: now.In(s.opt.Zone).Format("15:04")}
	switch {
	case state.Clock != nil: // its own words are long, and it stops nothing
		clock = item{state.Clock.Code + " " + clock.Text + " " + w.ClockWrong(), true}
	case s.opt.Trusted().IsZero():
		// A terminal on its own can never verify its clock: what cannot be mended is no alarm.
		clock = item{clock.Text + " " + w.ClockDoubt(), !s.opt.StandAlone}
	}
	data := item{w.NoData(), true}
	if date := s.opt.DataDate(); !date.IsZero() {
		data = item{w.Data(w.moment(date, now, s.opt.Zone)), false}
	}
	items := []item{{w.unsent(state.Unsent, s.opt.StandAlone, s.opt.Currency, l, now, s.opt.Zone), false}, data,
		device(w.PrinterReady(), cmp.Or(state.Printer, state.Paper), l), device(w.ScannerReady(), state.Scanner, l)}
	if state.Restarting != nil {
		items = append(items, device("", state.Restarting, l))
	}
	if state.Ledger != nil {
		items = append(items, device("", state.Ledger, l))
	}
	if state.Limits != nil {
		items = append(items, device("", state.Limits, l))
	}
	for i := range min(len(state.Board), maxBoard) {
		items = append(items, device("", &state.Board[i], l))
	}
	if len(state.Reprint) > 0 {
		items = append(items, item{w.ToReprint(state.Reprint[0]), true})
	}
	if state.SignOn {
		items = append(items, duty(state, w))
	}
	if b := state.Batch; b != nil && !b.Paid {
		items = append(items, item{w.InBatch(len(b.Views), money.Text(b.Total, b.Currency, l, money.Screen)), false})
	} else if paidTogether(state) {
		items = append(items, item{w.BatchPaid(b.Prizes, money.Text(b.Total, b.Currency, l, money.Screen)), false})
	}
	return append(items, clock)
}

func device(ready string, f *terminal.Fault, l money.Language) item {
	if f == nil {
		return item{ready, false}
	}
	return item{f.Code + " " + oneLine(f.Clerk(l)), true}
}

// amountSize and wordSize choose among the sizes of the style sheet by what has to fit
// on a line. The widths of the letters were measured at the smallest screen.
func amountSize(figures string) string {
	switch n := utf8.RuneCountInString(figures); {
	case n <= 6:
		return "l"
	case n <= 8:
		return "m"
	case n <= 11:
		return "s"
	}
	return "xs"
}

// wordSize goes by the longest word, because a line breaks between words only.
func wordSize(word string) string {
	longest := 0
	for w := range strings.FieldsSeq(word) {
		longest = max(longest, utf8.RuneCountInString(w))
	}
	switch {
	case longest <= 8 && utf8.RuneCountInString(word) <= 13:
		return "l"
	case longest <= 11:
		return "m"
	}
	return "s"
}
