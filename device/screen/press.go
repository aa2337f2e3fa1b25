package screen

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"grattoir/device/terminal"
	"grattoir/validate"
	"grattoir/validate/money"
)

// pay passes the press on. A verdict that wants the cash confirmed turns into the
// question first; only the answer to that question, for the same view, carries the yes.
func (s *Screen) pay(_ http.ResponseWriter, r *http.Request) error {
	id := r.PostForm.Get("id")
	return s.payView(r.Context(), id, r.PostForm.Get("cash") == "yes" && s.askingFor(id))
}

// PressPay is a press of the pay button at the counter, made for view id: what the PAY
// button on the clerk's page would do, the question about the cash included, which a
// second press answers with yes once it has been on the page for long enough to be read.
// Where the page offers to ask the centre, or to take the winner's identity, that is what it
// does; while something lies over the counter, there is nothing that it could mean.
// Whoever watches the button makes sure that the view itself was. A press that is not
// followed is an error, and nothing was paid by it.
func (s *Screen) PressPay(ctx context.Context, id string) error {
	s.act.Lock()
	defer s.act.Unlock()
	asking, since := s.question(id)
	if asking && time.Since(since) < s.guard {
		return errTooSoon
	}
	now := s.take("clerk")
	switch on := now.state.View; {
	case now.sheet.name != noSheet && on.ID == id:
		return errCovered
	case on.ID == id && on.CanAsk():
		_, err := s.opt.Terminal.Ask(context.WithoutCancel(ctx), id)
		return err
	case on.ID == id && on.Stage == terminal.Verdict && slices.Contains(on.Verdict.Needs, validate.Identity):
		return s.identify(now.state)
	}
	return s.payView(ctx, id, asking)
}

// errCovered is a press while the page shows no verdict.
var errCovered = errors.New("the page shows something else over the ticket: finish that, or go back")

// errTooSoon is a press that cannot have been meant as an answer.
var errTooSoon = errors.New("pressed too soon after the question about the cash")

// payView pays view id, or asks about the cash first.
func (s *Screen) payView(ctx context.Context, id string, sure bool) error {
	// A browser that leaves must not end a payment half way: the counter finishes it.
	v, err := s.opt.Terminal.Pay(context.WithoutCancel(ctx), id, terminal.Confirmed{Cash: sure})
	switch {
	case errors.Is(err, terminal.ErrNeeds) && slices.Contains(v.Verdict.Needs, validate.ConfirmCash) && !sure:
		s.ask(id)
		return nil
	case err != nil:
		return fmt.Errorf("pay: %w", err)
	}
	s.ask("")
	return nil
}

// askCentral asks central to allow the payment of a view. The answer comes as the view's next.
func (s *Screen) askCentral(_ http.ResponseWriter, r *http.Request) error {
	if _, err := s.opt.Terminal.Ask(context.WithoutCancel(r.Context()), r.PostForm.Get("id")); err != nil {
		return fmt.Errorf("ask the centre: %w", err)
	}
	return nil
}

// activate puts the pack on the counter on sale: the first press asks, the answer to that
// question, for the same view, does it.
func (s *Screen) activate(_ http.ResponseWriter, r *http.Request) error {
	id := r.PostForm.Get("id")
	if r.PostForm.Get("sure") != "yes" || !s.askingFor(id) {
		s.ask(id)
		return nil
	}
	if _, err := s.opt.Terminal.ActivateShown(r.Context(), id); err != nil {
		return fmt.Errorf("activate: %w", err)
	}
	s.ask("")
	return nil
}

// back takes the question away; nothing is paid, and no pack put on sale.
func (s *Screen) back(_ http.ResponseWriter, r *http.Request) error {
	if s.askingFor(r.PostForm.Get("id")) || s.askingFor(r.PostForm.Get("batch")) {
		s.ask("")
	}
	return nil
}

// next clears the counter if it still shows the view the clerk saw. A batch that is paid
// ends with it.
func (s *Screen) next(_ http.ResponseWriter, r *http.Request) error {
	state, _ := s.opt.Terminal.State()
	if b := state.Batch; b != nil && b.Paid && b.ID == r.PostForm.Get("batch") && state.View.ID == r.PostForm.Get("id") {
		return s.opt.Terminal.EndBatch(b.ID)
	}
	s.opt.Terminal.Dismiss(r.PostForm.Get("id"))
	return nil
}

// reprint asks for one more copy of the slip on the counter. The form names how many
// there were when it was written, so a press sent twice gives one copy.
func (s *Screen) reprint(_ http.ResponseWriter, r *http.Request) error {
	state, _ := s.opt.Terminal.State()
	v := state.View
	if v.ID != r.PostForm.Get("id") || v.Receipt == nil || strconv.Itoa(v.Receipt.Copies) != r.PostForm.Get("copies") {
		return fmt.Errorf("reprint: %w", terminal.ErrStale)
	}
	if _, err := s.opt.Terminal.Reprint(context.WithoutCancel(r.Context()), v.Receipt.Number); err != nil {
		return fmt.Errorf("reprint: %w", err)
	}
	return nil
}

// printResult prints a slip of the check on the counter.
func (s *Screen) printResult(_ http.ResponseWriter, r *http.Request) error {
	if err := s.opt.Terminal.PrintResult(r.PostForm.Get("id")); err != nil {
		return fmt.Errorf("slip of a check: %w", err)
	}
	return nil
}

// readMessage records that a message was read.
func (s *Screen) readMessage(_ http.ResponseWriter, r *http.Request) error {
	number, err := strconv.ParseInt(r.PostForm.Get("message"), 10, 64)
	if err != nil {
		return fmt.Errorf("message %.20q: want its number", r.PostForm.Get("message"))
	}
	return s.opt.Terminal.ReadMessage(r.Context(), number)
}

// language keeps the clerk's choice in the browser for a year.
func (s *Screen) language(w http.ResponseWriter, r *http.Request) error {
	l := money.Language(r.PostForm.Get("lang"))
	if !slices.Contains(s.opt.Languages, l) {
		return fmt.Errorf("language %.10q is not offered", l)
	}
	http.SetCookie(w, &http.Cookie{Name: "lang", Value: string(l), Path: "/", MaxAge: 365 * 24 * 3600, HttpOnly: true, SameSite: http.SameSiteStrictMode})
	return nil
}

func (s *Screen) ask(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asking == id {
		return
	}
	s.asking, s.askedAt = id, time.Now()
	s.turn()
}

func (s *Screen) askingFor(id string) bool {
	asking, _ := s.question(id)
	return asking
}

// question says whether view id is asked about, and since when.
func (s *Screen) question(id string) (asking bool, since time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return id != "" && s.asking == id, s.askedAt
}
