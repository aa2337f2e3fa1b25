package screen

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"grattoir/device/terminal"
	"grattoir/validate"
	"grattoir/validate/money"
)

// pay passes the press on. A verdict that wants the cash confirmed turns into the
// question first; only the answer to that question, for the same view, carries the yes.
func (s *Screen) pay(_ http.ResponseWriter, r *http.Request) error {
	id := r.PostForm.Get("id")
	sure := r.PostForm.Get("cash") == "yes" && s.askingFor(id)
	// A browser that leaves must not end a payment half way: the counter finishes it.
	v, err := s.opt.Terminal.Pay(context.WithoutCancel(r.Context()), id, terminal.Confirmed{Cash: sure})
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

// back takes the cash question away; nothing is paid.
func (s *Screen) back(_ http.ResponseWriter, r *http.Request) error {
	if s.askingFor(r.PostForm.Get("id")) {
		s.ask("")
	}
	return nil
}

// next clears the counter if it still shows the view the clerk saw.
func (s *Screen) next(_ http.ResponseWriter, r *http.Request) error {
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
	s.asking = id
	close(s.asked)
	s.asked = make(chan struct{})
	s.seq++
}

func (s *Screen) askingFor(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return id != "" && s.asking == id
}
