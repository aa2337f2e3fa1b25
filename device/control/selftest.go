package control

import (
	"context"
	"errors"
	"net/http"

	"grattoir/device/health"
	"grattoir/device/terminal"
	"grattoir/validate"
)

// trialRequest asks for one step of the self-test.
type trialRequest struct {
	Step string `json:"step"` // T1 ...
	Mark string `json:"mark"` // what the slip carries and the scanner reads back
}

var (
	errNoMark  = errors.New("mark: want the code of a self-test, and no ticket's")
	errTesting = errors.New("another self-test is at work: end it first")
)

// selfTest makes one step of the self-test with the devices that the daemon has open. A
// customer comes first: while a ticket is on the counter nothing is tried. What opens the
// drawer without a sale is told to the log.
func (s *server) selfTest(w http.ResponseWriter, r *http.Request) {
	var q trialRequest
	if !read(w, r, &q) {
		return
	}
	if !health.IsMark(q.Mark) {
		fail(w, http.StatusBadRequest, errNoMark)
		return
	}
	if state, _ := s.opt.Terminal.State(); selling(state) {
		s.refuse(w, &terminal.Denied{Fault: *health.Sale(), Err: terminal.ErrBusy})
		return
	}
	if !s.testing.TryLock() {
		fail(w, http.StatusConflict, errTesting)
		return
	}
	defer s.testing.Unlock()
	c := s.opt.Bench.Try(r.Context(), q.Step, q.Mark)
	s.opt.Log.Info("self-test", "step", c.Name, "state", c.State, "detail", c.Detail)
	write(w, http.StatusOK, c)
}

// selling tells whether the counter is in the middle of a sale: a ticket that may be paid,
// one whose digits are still to be typed, or a batch that is not paid. A verdict that pays nothing may stay
// on the counter for hours and is none.
func selling(s terminal.State) bool {
	return s.Batch != nil && !s.Batch.Paid || s.View.Stage == terminal.Typing || s.View.Stage == terminal.Verdict && s.View.Verdict.Outcome == validate.Pay
}

// SelfTest makes one step of the self-test, see health.Bench. The scan's step answers when
// the mark was read, or after health.Patience.
func (c *Client) SelfTest(ctx context.Context, step, mark string) (health.Check, error) {
	return call[health.Check](ctx, c, "POST", "/v1/selftest", trialRequest{step, mark})
}
