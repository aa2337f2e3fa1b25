package screen

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"grattoir/device/terminal"
	"grattoir/validate"
	"grattoir/validate/money"
	"grattoir/validate/ticket"
)

// lookSheet is the family of what lies over the counter: no verdict, in neutral colours.
const lookSheet look = "sheet"

// sheetView is a sheet in one language.
type sheetView struct {
	Name    string
	Title   string
	Text    []string
	Trouble string // why the last press was not followed
	Keypad  *keypad
	Tiles   []button // pressed, side by side
	Rows    []button // pressed or read, one below the other
	Lines   []line
	Image   string   // of a slip
	Pages   string   // "page 1 of 3", "" for a single one
	Turn    []button // to the other pages
	Side    []button
}

// keypad takes digits. The page keeps them until they are entered; the server never writes
// them back.
type keypad struct {
	Action       string
	Max          int
	Secret       bool     // shown as dots
	Groups       int      // digits are shown in groups of so many, 0 for none
	Point        string   // the decimal point of an amount in minor units, "" for other digits
	Date         bool     // day, month and year
	Keys         []padKey // with letters, nil for digits alone
	Second       bool     // its second page is shown first: the field begins with digits as a rule
	Value, Shown string   // what was entered before and is looked at again, "" of what is secret
}

// padKey is one of a keypad with letters. Its digit is what it types, "back" of the one that
// erases, "page" of the one that shows the other page.
type padKey struct {
	Digit, Label, Spoken string
	Second               bool // on the second page
}

// letters are a keypad with letters: two pages of three rows of ten, so that each key is as
// wide as a thumb.
func letters(w words) []padKey {
	var list []padKey
	for page, keys := range []string{w.Letters(), moreKeys} {
		for _, r := range keys {
			k := padKey{string(r), string(r), "", page == 1}
			switch r {
			case ' ':
				k.Label, k.Spoken = "␣", w.Space()
			case '<':
				k.Digit, k.Label, k.Spoken = "back", "⌫", w.Erase()
			case '*':
				k.Digit, k.Label, k.Spoken = "page", []string{"1É", "AB"}[page], w.OtherKeys()
			}
			list = append(list, k)
		}
	}
	return list
}

// button is a form of one button.
type button struct {
	ID     string
	Action string // "" for a row that only tells
	Label  string
	More   []string // of a row: what else it says
	Fields []field
	Main   bool
	Bad    bool
}

type field struct{ Name, Value string }

// line is a line of a report.
type line struct {
	Label, Value string
	Head         bool
}

// The room of a sheet at the smallest screen.
const (
	rowsAPage  = 3
	linesAPage = 9
	tilesAPage = 6
)

// opens is a button that lays a sheet over the counter.
func opens(name sheetName, label string, more ...field) button {
	return button{ID: "open-" + string(name), Action: "/open", Label: label, Fields: append([]field{{"sheet-name", string(name)}}, more...)}
}

// idleActs are the buttons of the page without a ticket. Signing on comes first where
// nothing is paid before.
func idleActs(state terminal.State, w words) []button {
	acts := []button{}
	if b, needed := signing(state, w); needed {
		acts = append(acts, b)
	}
	acts = append(acts, opens(codeSheet, w.TypeCode()))
	if len(acts) == 1 {
		acts = append(acts, button{ID: "batch", Action: "/batch", Label: w.NewBatch()})
	}
	return append(acts, opens(menuSheet, w.Menu()))
}

// signing is the button of whoever must sign on, or unlock, before anything is paid.
func signing(state terminal.State, w words) (b button, needed bool) {
	switch {
	case !state.SignOn:
		return button{}, false
	case state.Session == nil:
		b = opens(whoSheet, w.SignOn(), field{"purpose", string(toSignOn)})
	case state.Session.Locked:
		b = opens(whoSheet, w.Unlock(), field{"purpose", string(toUnlock)})
	default:
		return button{}, false
	}
	b.ID, b.Main = "sign", true
	return b, true
}

// laid fills in the sheet that lies over the counter. The counter is not shown then, but
// its status line is.
func (s *Screen) laid(v *view, now snapshot, l money.Language) {
	x, w := now.sheet, v.W
	p := &sheetView{Name: string(x.name), Trouble: troubleOf(x.err, w, l)}
	switch x.name {
	case menuSheet:
		p.Tiles = s.menu(now.state, w) // they name themselves, and need the room
	case workshopSheet:
		p.Tiles = s.workshop(now.state, w)
	case codeSheet:
		p.Title, p.Text = w.CodeTitle(), []string{w.CodeHint()}
		p.Keypad = &keypad{Action: "/sheet/code", Max: ticket.MaxLength, Groups: 5}
		if x.err != nil {
			p.Trouble = w.DigitsWrong()
		}
	case findSheet:
		p.Title, p.Text = w.FindTitle(), []string{w.FindHint()}
		p.Keypad = &keypad{Action: "/sheet/number", Max: maxNumber}
		if x.err != nil {
			p.Trouble = w.FindNone()
		}
	case historySheet:
		s.listed(p, x, w, l)
	case slipSheet:
		p.slip(x, w)
		p.reversed(x, now.state, w)
	case whoSheet:
		p.who(x, w)
	case floatSheet:
		p.Title, p.Text, p.Keypad = w.FloatTitle(), []string{w.FloatHint()}, &keypad{Action: "/sheet/float", Max: maxFloat, Point: w.Point()}
	case pinSheet:
		p.Title, p.Text, p.Keypad = w.PINTitle(x.operator.label()), []string{w.PINHint()}, &keypad{Action: "/sheet/pin", Max: maxPIN, Secret: true}
	case sureSheet:
		p.sure(x, now.state, w, l)
	case closingsSheet:
		p.Title, p.Tiles = w.ClosingsTitle(), closings(now.state, w)
	case reportSheet:
		s.report(p, x, w, l)
	case messagesSheet:
		s.messages(p, x, w, l)
	case whySheet:
		p.whyBack(x, w, l)
	case wordsSheet:
		p.ownWords(x, w)
	case identitySheet:
		p.identity(x, now.state, w, l)
	case paperSheet:
		p.paper(now.state.View, w)
	case doctorSheet, trialSheet, addressSheet:
		s.technician(p, x, w)
	}
	if p.Keypad != nil && p.Keypad.Keys != nil && p.Trouble != "" { // there is no room for both
		p.Title, p.Pages, p.Trouble = "", "", p.Title+"\u00a0: "+p.Trouble
	}
	if len(p.Side) == 0 || x.name == historySheet { // there is room for them
		p.Side, p.Turn = append(p.Turn, p.Side...), nil
	}
	p.Side = append(p.Side, button{ID: "leave", Action: "/sheet/leave", Label: w.Back()})
	v.lie(p, x.serial)
}

// lie puts a sheet in the place of the counter.
func (v *view) lie(p *sheetView, serial uint64) {
	v.Look, v.Sheet, v.Serial = lookSheet, p, serial
	v.Word, v.Amount, v.InWords, v.Clerk, v.NextStep, v.Code, v.Details, v.When = "", "", "", "", "", "", nil, nil
	v.CanPay, v.CashFirst, v.CanAsk, v.CanActivate, v.ActivateFirst, v.CanSlip, v.Receipt, v.Batch, v.Acts = false, false, false, false, false, false, nil, nil, nil
	v.CanIdentify, v.CanNote = false, false
}

// maxPIN is the longest PIN that operators have.
const maxPIN = 8

// troubleOf words why a press was not followed, "" for nothing.
func troubleOf(err error, w words, l money.Language) string {
	if err == nil {
		return ""
	}
	if d, ok := errors.AsType[*terminal.Denied](err); ok {
		return d.Code + "\u00a0: " + oneLine(d.Clerk(l))
	}
	return w.NotDone()
}

// typing is the keypad of a code that only lacks its hidden digits.
func typing(on terminal.View, w words, text validate.Text) *sheetView {
	p := &sheetView{Name: "typing", Title: text.Word, Text: []string{oneLine(text.Next)}, Keypad: &keypad{Action: "/complete", Max: on.Code.TypedDigits(), Groups: 5},
		Side: []button{{ID: "next", Action: "/next", Label: w.Next()}}}
	if on.Detail != "" {
		p.Trouble = w.DigitsWrong()
	}
	return p
}

// menu are the acts that need no ticket.
func (s *Screen) menu(state terminal.State, w words) []button {
	list := []button{opens(historySheet, w.History()), opens(closingsSheet, w.Closings()), opens(messagesSheet, w.Messages())}
	train := w.TrainOn()
	if state.Training {
		train = w.TrainOff()
	}
	b := opens(whoSheet, train, field{"purpose", string(toTrain)})
	b.ID = "train"
	list = append(list, b)
	if sign, needed := signing(state, w); needed {
		list = append(list, sign)
	}
	if state.Session != nil {
		off := opens(whoSheet, w.SignOff(), field{"purpose", string(toSignOff)})
		off.ID = "sign-off"
		list = append(list, off)
		if !state.Session.Locked {
			list = append(list, button{ID: "lock", Action: "/lock", Label: w.Lock()})
		}
	}
	if len(s.workshop(state, w)) > 0 {
		list = append(list, opens(workshopSheet, w.Technician()))
	}
	return list
}

// closings are the periods that can be read and closed.
func closings(state terminal.State, w words) (list []button) {
	for _, kind := range validate.ClosingKinds() {
		if kind == validate.ShiftClosing && !state.SignOn {
			continue
		}
		b := opens(reportSheet, ofKind(kind, w), field{"kind", string(kind)})
		b.ID = "report-" + string(kind)
		list = append(list, b)
	}
	return list
}

func ofKind(kind validate.ClosingKind, w words) string {
	switch kind {
	case validate.ShiftClosing:
		return w.OfShift()
	case validate.DayClosing:
		return w.OfDay()
	case validate.MonthClosing:
		return w.OfMonth()
	}
	return w.OfYear()
}

// pageOf gives the part of a list that is shown, and the buttons to the others.
func pageOf[T any](p *sheetView, list []T, page, size int, w words) []T {
	pages := max(1, (len(list)+size-1)/size)
	page = min(page, pages-1)
	if pages > 1 {
		p.Pages = w.PageOf(page+1, pages)
	}
	turn := func(id, label string, to int) {
		if to >= 0 && to < pages {
			p.Turn = append(p.Turn, button{ID: id, Action: "/sheet/page", Label: label, Fields: []field{{"page", strconv.Itoa(to)}}})
		}
	}
	turn("before", w.Before(), page-1)
	turn("after", w.After(), page+1)
	return list[page*size : min(len(list), (page+1)*size)]
}

// who offers the operators.
func (p *sheetView) who(x sheet, w words) {
	p.Title = w.WhoAllows()
	if x.purpose == toSignOn {
		p.Title = w.WhoSignsOn()
	}
	if len(x.choice) == 0 {
		p.Text = []string{w.NoOperators()}
	}
	for _, o := range pageOf(p, x.choice, x.page, tilesAPage, w) {
		p.Tiles = append(p.Tiles, button{ID: "who-" + o.ID, Action: "/sheet/pick", Label: o.label(), Fields: []field{{"operator", o.ID}}})
	}
}

// sure asks for a yes.
func (p *sheetView) sure(x sheet, state terminal.State, w words, l money.Language) {
	switch {
	case x.purpose == toSignOff:
		p.Title, p.Text = w.SignOffAsk(), []string{w.SignOffTold()}
	case x.purpose == toTakeIn:
		p.Title, p.Text = w.remedyOf(x.remedy, state.View.Opened, l)+w.Question(), []string{w.TakeInTold()}
	case x.purpose == toTrain && state.Training:
		p.Title = w.TrainOff()
	case x.purpose == toTrain:
		p.Title, p.Text = w.TrainOn(), []string{w.TrainTold()}
	default:
		p.Title, p.Text = w.CloseAsk()+" "+ofKind(x.kind, w), []string{w.CloseTold()}
	}
	p.Side = append(p.Side, button{ID: "confirm", Action: "/sheet/sure", Label: w.Confirm(), Main: true})
}

// listed shows what was done, the newest first.
func (s *Screen) listed(p *sheetView, x sheet, w words, l money.Language) {
	p.Title = w.HistoryAll()
	if x.report != nil {
		p.Title = w.HistoryTitle()
		for _, t := range x.report.Totals {
			if t.Currency == x.report.Currency || len(x.report.Totals) == 1 {
				p.Text = []string{w.HistorySum(t.Paid.Count, money.Text(t.Paid.Money, t.Currency, l, money.Screen), money.Text(x.report.Cash, x.report.Currency, l, money.Screen))}
			}
		}
	}
	if len(x.acts) == 0 {
		p.Text = append(p.Text, w.NothingYet())
	}
	find := opens(findSheet, w.Find())
	find.ID = "find"
	p.Side = append(p.Side, find)
	for _, a := range pageOf(p, x.acts, x.page, rowsAPage, w) {
		b := button{ID: "act-" + a.Entry.String(), More: []string{a.At.In(s.opt.Zone).Format("15:04"), "n°\u00a0" + a.Entry.String()}}
		switch {
		case a.Claim != nil:
			state, _ := w.slipState(a.Claim.Print)
			b.Action, b.Fields = "/open", []field{{"sheet-name", string(slipSheet)}, {"entry", a.Entry.String()}}
			b.Label, b.Bad = w.PaidAct()+" "+money.Text(a.Claim.Amount, a.Claim.Currency, l, money.Screen), a.Claim.Print == validate.Unknown || a.Claim.Print == validate.Held
			b.More = append(b.More, a.Claim.Slip.Game, state)
		case a.Reversal != nil:
			b.Label, b.Bad = w.reversalState(a.Reversal.State)+" "+money.Text(a.Reversal.Amount, a.Reversal.Currency, l, money.Screen), a.Reversal.State == validate.ReversalRefused
			b.More = []string{b.More[0], "n°\u00a0" + a.Reversal.Number.String(), w.reversalReason(a.Reversal.Reason)}
			if slices.ContainsFunc(x.acts, func(c validate.Transaction) bool { return c.Claim != nil && c.Entry == a.Reversal.Number }) {
				b.ID, b.Action, b.Fields = "reversal-"+a.Reversal.Number.String(), "/open", []field{{"sheet-name", string(slipSheet)}, {"entry", a.Reversal.Number.String()}}
			}
		case a.Reprint != nil:
			b.Label = w.ReprintAct()
			b.More = []string{b.More[0], "n°\u00a0" + a.Reprint.Number.String(), w.Copy(a.Reprint.Copy - 1)}
		case a.Misprint != nil:
			b.Label = w.takenIn(*a.Misprint, l)
			b.More = append(b.More, a.Misprint.Slip.Game)
		case a.Closing != nil:
			b.Label = w.ClosingAct() + " " + ofKind(a.Closing.Kind, w)
		}
		p.Rows = append(p.Rows, b)
	}
}

// slip shows one payment's slip.
func (p *sheetView) slip(x sheet, w words) {
	r := x.receipt
	p.Title = w.SlipTitle(r.Number.String())
	state, again := w.slipState(r.Print)
	p.Text = append(p.Text, state)
	if r.Copies > 1 {
		p.Text = append(p.Text, w.Copy(r.Copies-1))
	}
	p.Image = fmt.Sprintf("/slip/%s.png?copy=%d", r.Number, r.Copies)
	if again && !x.said {
		p.Side = append(p.Side, button{ID: "again", Action: "/sheet/again", Label: w.Reprint(), Main: true})
	}
	if x.said {
		p.Text = append(p.Text, w.ToPrinter())
	}
}

// report shows what a period comes to.
func (s *Screen) report(p *sheetView, x sheet, w words, l money.Language) {
	c := x.report
	p.Title = w.Reading(ofKind(c.Kind, w))
	if c.Z() {
		p.Title = w.ClosingN(ofKind(c.Kind, w), c.Number)
	}
	lines := []line{}
	for _, r := range c.Lines() {
		value := r.Value(l)
		if r.Kind == validate.TextLine && r.Text == "" && !r.Time.IsZero() {
			value = w.moment(r.Time, s.opt.Now(), s.opt.Zone)
		}
		if r.Kind == validate.TextLine {
			value = w.date(value) // a day's period is its date
		}
		if r.Kind != validate.RuleLine && r.Kind != validate.TitleLine {
			lines = append(lines, line{r.Label(l), value, r.Kind == validate.HeadLine})
		}
	}
	p.Lines = pageOf(p, lines, x.page, linesAPage, w)
	switch {
	case x.said:
		p.Text = []string{w.ToPrinter()}
	default:
		p.Side = append(p.Side, button{ID: "print", Action: "/sheet/print", Label: w.Print()})
	}
	if c.Z() {
		return
	}
	b := opens(whoSheet, w.CloseIt(), field{"purpose", string(toClose)}, field{"kind", string(c.Kind)})
	if c.Kind == validate.ShiftClosing {
		b = opens(whoSheet, w.SignOff(), field{"purpose", string(toSignOff)})
	}
	b.ID = "close"
	p.Side = append(p.Side, b)
}

// messages lists what central says, one a page: they may be long.
func (s *Screen) messages(p *sheetView, x sheet, w words, l money.Language) {
	p.Title = w.MessagesTitle()
	if len(x.messages) == 0 {
		p.Text = []string{w.NothingYet()}
		return
	}
	for _, m := range pageOf(p, x.messages, x.page, 1, w) {
		state := w.MessageNew()
		if m.Read {
			state = w.MessageRead()
		}
		p.Text = []string{w.date(m.From) + ", " + state, m.Text(l)}
	}
}
