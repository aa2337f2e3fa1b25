package screen

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"grattoir/device/terminal"
	"grattoir/validate"
	"grattoir/validate/money"
)

// maxReason bounds a clerk's own words for a reversal, to what a keypad's display shows.
const maxReason = 72

// reversalOf is what became of the wish to take a payment back, nil where nobody asked.
func reversalOf(acts []validate.Transaction, n validate.EntryNumber) *validate.Reversal {
	for _, a := range acts {
		if a.Reversal != nil && a.Reversal.Number == n {
			return a.Reversal
		}
	}
	return nil
}

// why asks for the reason for which the payment on the sheet is to be taken back.
func (s *Screen) why(_ context.Context, x sheet, _ url.Values) error {
	if x.name != slipSheet || x.receipt == nil || reversalOf(x.acts, x.receipt.Number) != nil {
		return terminal.ErrStale
	}
	x.name, x.purpose, x.err, x.said = whySheet, toReverse, nil, false
	s.keep(x)
	return nil
}

// because takes the reason; one of the clerk's own wants words.
func (s *Screen) because(ctx context.Context, x sheet, f url.Values) error {
	if x.name != whySheet {
		return terminal.ErrStale
	}
	x.reason = validate.ReversalReason(f.Get("reason"))
	if !slices.Contains(validate.ReversalReasons(), x.reason) {
		return terminal.ErrStale
	}
	if x.reason == validate.OtherReason {
		x.name, x.err = wordsSheet, nil
		s.keep(x)
		return nil
	}
	return s.askManager(ctx, x)
}

// enterWords takes the clerk's own words.
func (s *Screen) enterWords(ctx context.Context, x sheet, f url.Values) error {
	if x.name != wordsSheet {
		return terminal.ErrStale
	}
	x.words = strings.Join(strings.Fields(f.Get("digits")), " ")
	if x.words == "" || utf8.RuneCountInString(x.words) > maxReason {
		return errField
	}
	return s.askManager(ctx, x)
}

// askManager goes on to whoever may allow the reversal.
func (s *Screen) askManager(ctx context.Context, x sheet) error {
	list, err := s.operators(ctx, toReverse)
	if err != nil {
		return err
	}
	x.name, x.choice, x.page, x.err = whoSheet, list, 0, nil
	s.keep(x)
	return nil
}

// reverse asks central to take the payment back, and shows it among the payment's acts.
func (s *Screen) reverse(ctx context.Context, x sheet, by terminal.Credentials) error {
	r, err := s.opt.Terminal.Reverse(ctx, validate.Reversal{Number: x.receipt.Number, Reason: x.reason, Text: x.words}, by)
	if err != nil {
		return err
	}
	x.name, x.err, x.reason, x.words, x.choice = slipSheet, nil, "", "", nil
	x.acts = append([]validate.Transaction{{Entry: r.Entry, At: r.At, Reversal: &r}}, x.acts...)
	s.keep(x)
	return nil
}

// whyBack are the reasons to choose among.
func (p *sheetView) whyBack(x sheet, w words, l money.Language) {
	p.Title = w.ReverseAsk(money.Text(x.receipt.Amount, x.receipt.Currency, l, money.Screen))
	if x.err == nil { // there is no room for both
		p.Text = []string{w.ReverseTold()}
	}
	for _, r := range validate.ReversalReasons() {
		p.Tiles = append(p.Tiles, button{ID: "reason-" + string(r), Action: "/sheet/because", Label: w.reversalReason(r), Fields: []field{{"reason", string(r)}}})
	}
}

// ownWords is the keypad for the reason of the clerk's own.
func (p *sheetView) ownWords(x sheet, w words) {
	p.Title, p.Keypad = w.ReverseWords(), &keypad{Action: "/sheet/words", Max: maxReason, Keys: letters(w), Value: x.words, Shown: x.words}
	if errors.Is(x.err, errField) {
		p.Trouble = w.FieldWrong()
	}
}

// reversed says beside a slip how far the wish to take its payment back has come, or offers it.
func (p *sheetView) reversed(x sheet, state terminal.State, w words) {
	r := reversalOf(x.acts, x.receipt.Number)
	switch {
	case r != nil:
		p.Text = append(p.Text, w.reversalState(r.State)+" "+w.reversalTold(r.State))
		if r.Answer != "" {
			p.Text = append(p.Text, w.CentreSays(short(r.Answer)))
		}
	case state.SignOn && state.Session != nil && !state.Session.Locked && !state.Training:
		p.Side = append(p.Side, button{ID: "reverse", Action: "/sheet/why", Label: w.Reverse()})
	}
}

// tries counts the PINs that were wrong on the page since the last right one, over all
// operators: beside the count that each operator has, which a page that is loaded anew, or
// another operator's name, would begin again. s.act guards it.
type tries struct {
	wrong int
	until time.Time // when the next PIN is looked at
}

// freeTries are how many wrong PINs cost no time.
const freeTries = 2

// wait is how long the next PIN is not looked at yet.
func (t *tries) wait(now time.Time) time.Duration { return max(0, t.until.Sub(now)) }

// note counts what came of a PIN. What failed for another reason is no try.
func (t *tries) note(err error, now time.Time) {
	switch {
	case err == nil:
		*t = tries{}
	case errors.Is(err, terminal.ErrPIN):
		t.wrong++
		if over := t.wrong - freeTries; over > 0 {
			t.until = now.Add(min(5*time.Second<<min(over-1, 10), time.Minute))
		}
	}
}

// enterPIN does what the PIN was asked for. The PIN goes to the counter and is kept nowhere.
func (s *Screen) enterPIN(ctx context.Context, x sheet, f url.Values) error {
	if x.name != pinSheet {
		return terminal.ErrStale
	}
	if wait := s.tries.wait(time.Now()); wait > 0 {
		return terminal.Hasty(wait)
	}
	err := s.allowed(ctx, x, terminal.Credentials{Operator: x.operator.ID, PIN: f.Get("digits")})
	s.tries.note(err, time.Now())
	if err != nil {
		return fmt.Errorf("PIN: %w", err)
	}
	return nil
}
