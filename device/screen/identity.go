package screen

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"grattoir/device/terminal"
	"grattoir/validate"
	"grattoir/validate/money"
)

// winner is somebody whose identity is being taken, field by field, before he is paid. It
// lies in memory alone, and goes with its sheet.
type winner struct {
	view  string // id of the view that is paid, or
	batch string // of the batch, with its sum
	step  int    // of identitySteps; their number is the look at the whole
	who   validate.Identification
	at    time.Time // of the last press
}

// identityFor is how long a half-taken identity stays on a screen that nobody touches.
const identityFor = 5 * time.Minute

// inputKind is how a field is taken.
type inputKind int

const (
	byTile inputKind = iota // one of a few
	byLetters
	byDate // day, month and year; 00 for a day or month that the document does not have
)

// identityStep is one field of an identity, in the order in which a document is read.
type identityStep struct {
	kind inputKind
	max  int  // characters
	none bool // may be left out
	of   func(*validate.Identification) *string
}

// The longest fields that the look at the whole has room for. A person is compared by the
// first of his first names, so that none but the first is lost by a document with more.
const (
	maxName    = 40
	maxAddress = 72
)

// The steps whose field begins with digits as a rule.
const (
	numberStep  = 1
	addressStep = 8
)

func identitySteps() []identityStep {
	return []identityStep{
		{byTile, 0, false, func(i *validate.Identification) *string { return &i.Document }},
		{byLetters, maxName, false, func(i *validate.Identification) *string { return &i.Number }},
		{byLetters, maxName, false, func(i *validate.Identification) *string { return &i.IssuedBy }},
		{byDate, 8, true, func(i *validate.Identification) *string { return &i.ValidTo }},
		{byLetters, maxName, false, func(i *validate.Identification) *string { return &i.Surname }},
		{byLetters, maxName, false, func(i *validate.Identification) *string { return &i.FirstNames }},
		{byDate, 8, false, func(i *validate.Identification) *string { return &i.Born }},
		{byLetters, maxName, false, func(i *validate.Identification) *string { return &i.BirthPlace }},
		{byLetters, maxAddress, false, func(i *validate.Identification) *string { return &i.Address }},
	}
}

// documents are the kinds that prove an identity, as the register names them.
func documents() []string {
	return []string{"identity-card", "passport", "residence-permit", "driving-licence"}
}

var (
	errField = errors.New("the field is empty or too long")
	errDate  = errors.New("no such date: want its day, month and year as digits, 00 for a day or month that the document does not have")
)

// identify begins to take the identity of whoever is paid the view, or the open batch.
func (s *Screen) identify(state terminal.State) error {
	if err := s.opt.Terminal.CanIdentify(); err != nil {
		return err
	}
	if list := state.Messages; len(list) > 0 && list[0].Mandatory { // nobody types nine fields to be told then
		return terminal.ErrUnread
	}
	x := sheet{name: identitySheet, winner: &winner{view: state.View.ID, at: time.Now()}}
	needs := state.View.Verdict.Needs
	if b := state.Batch; b != nil && !b.Paid {
		x.winner.view, x.winner.batch, needs = "", batchAsked(*b), b.Needs
	}
	if !slices.Contains(needs, validate.Identity) || mayNotPay(state, words{}) != "" && x.winner.batch == "" {
		return terminal.ErrStale
	}
	s.lay(x)
	return nil
}

// forgets takes a half-taken identity off the screen when the counter is locked, or nobody
// has touched it for long. s.mu is held.
func (s *Screen) forgets(state terminal.State) {
	w := s.sheet.winner
	if w == nil {
		return
	}
	if locked := state.SignOn && (state.Session == nil || state.Session.Locked); locked || time.Since(w.at) >= identityFor {
		s.sheet = sheet{}
		s.seq++
	}
}

// enterField takes one field of an identity. The document's own spelling is the clerk's; only
// what cannot be that field is refused here.
func (s *Screen) enterField(_ context.Context, x sheet, f url.Values) error {
	steps := identitySteps()
	if x.name != identitySheet || x.winner.step >= len(steps) {
		return terminal.ErrStale
	}
	w, step := *x.winner, steps[x.winner.step]
	text := strings.Join(strings.Fields(f.Get("digits")), " ")
	switch step.kind {
	case byTile:
		if text = f.Get("document"); !slices.Contains(documents(), text) {
			return terminal.ErrStale
		}
	case byDate:
		var err error
		if text, err = dateOf(text, step.none); err != nil {
			return err
		}
	default:
		if text == "" || utf8.RuneCountInString(text) > step.max {
			return errField
		}
	}
	*step.of(&w.who) = text
	w.step++
	w.at = time.Now()
	x.winner, x.err = &w, nil
	s.keep(x)
	return nil
}

// dateOf reads the digits of a date, 12051970, as the register takes it: 1970-05-12, and
// 1970-05 or 1970 where the document has no day or month.
func dateOf(digits string, none bool) (string, error) {
	if digits == "" && none {
		return "", nil
	}
	if len(digits) != 8 || strings.Trim(digits, "0123456789") != "" {
		return "", errDate
	}
	day, month, year := digits[:2], digits[2:4], digits[4:]
	text, layout := year+"-"+month+"-"+day, time.DateOnly
	switch {
	case none: // the end of a document's validity is a day
	case day == "00" && month == "00":
		text, layout = year, "2006"
	case day == "00":
		text, layout = year+"-"+month, "2006-01"
	}
	if t, err := time.Parse(layout, text); err != nil || t.Year() < 1850 {
		return "", errDate
	}
	return text, nil
}

// digitsOf is dateOf's inverse, for a field that is looked at again.
func digitsOf(date string) string {
	part := strings.Split(date, "-")
	switch len(part) {
	case 3:
		return part[2] + part[1] + part[0]
	case 2:
		return "00" + part[1] + part[0]
	}
	if date == "" {
		return ""
	}
	return "0000" + date
}

// slashed writes the digits of a date as people do.
func slashed(digits string) string {
	if len(digits) != 8 {
		return digits
	}
	return digits[:2] + "/" + digits[2:4] + "/" + digits[4:]
}

// payIdentified pays what the identity was taken for: the counter records whom before it
// pays. The press that pays is also the yes to the question about the cash, which stands
// beside it.
func (s *Screen) payIdentified(ctx context.Context, x sheet, _ url.Values) error {
	if x.name != identitySheet || x.winner.step < len(identitySteps()) {
		return terminal.ErrStale
	}
	who := x.winner.who
	yes := terminal.Confirmed{Cash: true, Identity: &who}
	var err error
	if x.winner.batch == "" {
		_, err = s.opt.Terminal.Pay(ctx, x.winner.view, yes)
	} else {
		state, _ := s.opt.Terminal.State()
		if b := state.Batch; b == nil || b.Paid || batchAsked(*b) != x.winner.batch {
			return terminal.ErrStale
		}
		_, err = s.opt.Terminal.PayBatch(ctx, (*state.Batch).ID, yes)
	}
	if err != nil {
		return fmt.Errorf("pay an identified winner: %w", err)
	}
	s.lay(sheet{})
	return nil
}

// identity shows the field that is to be taken, or at the end all of them.
func (p *sheetView) identity(x sheet, state terminal.State, w words, l money.Language) {
	steps, who := identitySteps(), x.winner.who
	if x.winner.step >= len(steps) {
		p.identified(who, state, x.winner.batch != "", w, l)
		return
	}
	step := steps[x.winner.step]
	value := *step.of(&who)
	p.Title, p.Pages = w.field(x.winner.step), strconv.Itoa(x.winner.step+1)+"\u00a0/\u00a0"+strconv.Itoa(len(steps))
	switch step.kind {
	case byTile:
		p.Text = []string{w.IdentityTold()}
		for _, d := range documents() {
			p.Tiles = append(p.Tiles, button{ID: "document-" + d, Action: "/sheet/field", Label: w.document(d), Fields: []field{{"document", d}}, Main: d == value})
		}
	case byDate:
		p.Text = []string{w.DateHint()}
		if step.none {
			p.Text = []string{w.EndHint()}
		}
		p.Keypad = &keypad{Action: "/sheet/field", Max: step.max, Date: true, Value: digitsOf(value), Shown: slashed(digitsOf(value))}
	default:
		p.Keypad = &keypad{Action: "/sheet/field", Max: step.max, Keys: letters(w), Value: value, Shown: value, Second: x.winner.step == numberStep || x.winner.step == addressStep}
	}
	switch {
	case errors.Is(x.err, errDate):
		p.Trouble = w.DateWrong()
	case errors.Is(x.err, errField):
		p.Trouble = w.FieldWrong()
	}
}

// identified shows a whole identity beside what is paid.
func (p *sheetView) identified(who validate.Identification, state terminal.State, batch bool, w words, l money.Language) {
	p.Title = w.IdentityCheck()
	for i, step := range identitySteps() {
		value := *step.of(&who)
		switch step.kind {
		case byTile:
			value = w.document(value)
		case byDate:
			if value = slashed(digitsOf(value)); value == "" {
				value = w.NoEnd()
			}
		}
		p.Lines = append(p.Lines, line{w.field(i), value, false})
	}
	amount, currency, needs := money.Amount(0), state.View.Verdict.Currency, state.View.Verdict.Needs
	if a := state.View.Verdict.AmountMinor; a != nil {
		amount = *a
	}
	if b := state.Batch; batch && b != nil {
		amount, currency, needs = b.Total, b.Currency, b.Needs
	}
	if slices.Contains(needs, validate.ConfirmCash) {
		p.Text = []string{w.CashTake()}
	}
	p.Side = []button{{ID: "identified", Action: "/sheet/identified", Label: w.Pay() + " " + money.Text(amount, currency, l, money.Screen), Main: true}}
}
