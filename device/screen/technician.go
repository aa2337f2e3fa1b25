package screen

import (
	"context"
	"errors"
	"fmt"
	"image/png"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/boombuler/barcode"
	"github.com/boombuler/barcode/qr"

	"grattoir/device/health"
	"grattoir/device/terminal"
	"grattoir/validate"
)

// The technician's sheets. What they show is what terminalctl doctor and selftest tell, in
// the technician's English; only the page around it is the clerk's.
const (
	workshopSheet sheetName = "workshop"
	doctorSheet   sheetName = "doctor"
	trialSheet    sheetName = "trial"
	addressSheet  sheetName = "address"
)

// Workshop is what a technician's pages need. A nil part is not offered.
type Workshop struct {
	// Examine makes the doctor's checks. It may take a minute, and ends with ctx.
	Examine func(ctx context.Context) (health.Report, error)
	// Bench are the devices as a self-test reaches them.
	Bench *health.Bench
	// Addresses are the names by which the terminal and its central are reached, each with
	// what it is of, in English.
	Addresses func() []Address
}

// Address is one of them.
type Address struct{ Of, Text string }

// inspection is what a technician has found on a sheet.
type inspection struct {
	busy   bool
	report *health.Report
	mark   string // of the self-test's slip
	tried  *health.Check
	list   []Address
}

// workshop are the technician's tiles. Whoever opens the drawer without a sale
// must be on duty.
func (s *Screen) workshop(state terminal.State, w words) (list []button) {
	if s.opt.Workshop.Examine != nil {
		list = append(list, opens(doctorSheet, w.Doctor()))
	}
	if s.opt.Workshop.Bench != nil && (!state.SignOn || state.Session != nil && !state.Session.Locked) {
		list = append(list, opens(trialSheet, w.SelfTest()))
	}
	if s.opt.Workshop.Addresses != nil {
		list = append(list, opens(addressSheet, w.Addresses()))
	}
	return list
}

// openTechnician lays one of the technician's sheets.
func (s *Screen) openTechnician(name sheetName) error {
	x := sheet{name: name, found: &inspection{}}
	switch {
	case name == doctorSheet && s.opt.Workshop.Examine != nil:
		x.found.busy = true
		s.lay(x)
		s.aside(func(ctx context.Context, found *inspection) error {
			r, err := s.opt.Workshop.Examine(ctx)
			found.report = &r
			return err
		})
	case name == trialSheet && s.opt.Workshop.Bench != nil:
		mark, err := health.NewMark()
		if err != nil {
			return err
		}
		x.found.mark = mark
		s.lay(x)
	case name == addressSheet && s.opt.Workshop.Addresses != nil:
		x.found.list = s.opt.Workshop.Addresses()
		s.lay(x)
	default:
		return fmt.Errorf("this terminal has no page %.20q", name)
	}
	return nil
}

// aside does what takes long beside the page, and shows the result if the sheet still
// lies there.
func (s *Screen) aside(do func(context.Context, *inspection) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.sheet
	if s.closed.Err() != nil {
		return
	}
	s.working.Go(func() {
		found := *x.found
		found.busy = false
		x.err = do(s.closed, &found)
		x.found = &found
		s.keep(x)
	})
}

var errTrying = errors.New("another step of the self-test is at work")

// try makes one step of the self-test. A customer comes first: while a ticket is on the
// counter nothing is tried.
func (s *Screen) try(_ context.Context, x sheet, f url.Values) error {
	state, _ := s.opt.Terminal.State()
	step := f.Get("step")
	switch {
	case x.name != trialSheet || !slices.ContainsFunc(health.Trials(), func(m health.Meaning) bool { return m.Code == step }):
		return terminal.ErrStale
	case state.SignOn && (state.Session == nil || state.Session.Locked):
		return terminal.ErrStale
	case selling(state):
		return &terminal.Denied{Fault: *health.Sale(), Err: terminal.ErrBusy}
	case x.found.busy:
		return errTrying
	}
	found := *x.found
	found.busy, found.tried = true, nil
	x.found, x.err = &found, nil
	s.keep(x)
	s.aside(func(ctx context.Context, found *inspection) error {
		c := s.opt.Workshop.Bench.Try(ctx, step, found.mark)
		s.opt.Log.Info("self-test", "step", c.Name, "state", c.State, "detail", c.Detail)
		found.tried = &c
		return nil
	})
	return nil
}

// selling tells whether the counter is in the middle of a sale.
func selling(s terminal.State) bool {
	return s.Batch != nil && !s.Batch.Paid || s.View.Stage == terminal.Typing || s.View.Stage == terminal.Verdict && s.View.Verdict.Outcome == validate.Pay
}

// maxDetail is how much of a check's text the page has room for; terminalctl has the rest.
const maxDetail = 90

func short(text string) string {
	if utf8.RuneCountInString(text) <= maxDetail {
		return text
	}
	return string([]rune(text)[:maxDetail-1]) + "…"
}

// technician shows what was found.
func (s *Screen) technician(p *sheetView, x sheet, w words) {
	found := x.found
	if found.busy {
		p.Text = []string{w.AtWork()}
	}
	switch x.name {
	case doctorSheet:
		p.Title = w.Doctor()
		if found.report != nil && x.err == nil {
			p.doctor(*found.report, x.page, w)
		}
	case trialSheet:
		p.Title = w.SelfTest()
		if c := found.tried; c != nil {
			p.Title = "" // what was found needs the room
			p.Text = []string{c.Code + " " + c.Name + ": " + strings.ToUpper(string(c.State)) + ". " + short(c.Detail)}
			if c.Hint != "" {
				p.Text = append(p.Text, short(c.Hint))
			}
		}
		for _, m := range health.Trials() {
			p.Tiles = append(p.Tiles, button{ID: "try-" + m.Code, Action: "/sheet/try", Label: m.Code + " " + m.Name, Fields: []field{{"step", m.Code}}})
		}
	case addressSheet:
		p.Title, p.Image = w.Addresses(), "/address.png"
		for _, a := range found.list {
			p.Text = append(p.Text, a.Of+": "+a.Text)
		}
	}
}

// doctor lists what a person should look at, the rest in one line.
func (p *sheetView) doctor(r health.Report, page int, w words) {
	var bad []health.Check
	good := 0
	for _, c := range r.Checks {
		switch c.State {
		case health.Warn, health.Fail:
			bad = append(bad, c)
		case health.OK:
			good++
		}
	}
	p.Text = []string{w.Examined(len(r.Checks), good, len(bad))}
	for _, c := range pageOf(p, bad, page, checksAPage, w) {
		p.Rows = append(p.Rows, button{Label: c.Code + " " + c.Name + ": " + strings.ToUpper(string(c.State)), More: []string{short(c.Detail), short(c.Hint)}})
	}
}

const checksAPage = 2

// addressPicture is the addresses as one QR code, for a technician's telephone.
func (s *Screen) addressPicture(w http.ResponseWriter, r *http.Request) {
	x := s.take("clerk").sheet
	if x.name != addressSheet {
		http.NotFound(w, r)
		return
	}
	lines := []string{s.opt.Name + " " + s.opt.Shop}
	for _, a := range x.found.list {
		lines = append(lines, a.Of+": "+a.Text)
	}
	code, err := qr.Encode(strings.Join(lines, "\n"), qr.M, qr.Auto)
	if err == nil {
		side := code.Bounds().Dx()
		code, err = barcode.Scale(code, side*max(1, 400/side), side*max(1, 400/side))
	}
	if err != nil {
		s.fail(w, r, fmt.Errorf("addresses as a QR code: %w", err))
		return
	}
	w.Header().Set("Content-Type", "image/png")
	_ = png.Encode(w, code) // a browser that left has nothing to be told
}
