package control

import (
	"context"
	"net/http"
	"time"

	"grattoir/device/terminal"
)

// Readiness is how the daemon is, for whoever must know whether its program is sound. It
// says nothing of the network.
type Readiness struct {
	ActiveMS int64    `json:"active_ms"` // since it was ready
	Ledger   string   `json:"ledger"`    // what is wrong with it, "" for open, written to and verified
	Pending  bool     `json:"pending"`   // the ledger is still being verified
	Devices  []string `json:"devices"`   // configured devices that are there, by name
}

// maxPause bounds for how long acts can be refused.
const maxPause = 5 * time.Minute

type restartRequest struct {
	ForMS int64 `json:"for_ms"`
	Must  bool  `json:"must"` // a program that is to be replaced at once
}

// Leave is the answer to who asks to restart the machine.
type Leave struct {
	Granted bool   `json:"granted"`
	Why     string `json:"why,omitempty"` // what is in the way
}

func (s *server) readiness(w http.ResponseWriter, _ *http.Request) {
	r := s.opt.Ready()
	if r.Devices == nil {
		r.Devices = []string{}
	}
	write(w, http.StatusOK, r)
}

// restart gives leave to restart the machine: the counter takes no act from then on.
func (s *server) restart(w http.ResponseWriter, r *http.Request) {
	var q restartRequest
	if !read(w, r, &q) {
		return
	}
	why := s.opt.Terminal.Pause(r.Context(), terminal.Restart{For: min(maxPause, max(time.Second, time.Duration(q.ForMS)*time.Millisecond)), Quiet: s.opt.Quiet(), Must: q.Must})
	write(w, http.StatusOK, Leave{why == "", why})
}

func (s *server) resume(w http.ResponseWriter, _ *http.Request) {
	s.opt.Terminal.Resume()
	write(w, http.StatusOK, struct{}{})
}

// Ready tells how the daemon is. The error is ErrNoDaemon where none answers.
func (c *Client) Ready(ctx context.Context) (Readiness, error) {
	return call[Readiness](ctx, c, "GET", "/v1/readiness", nil)
}

// AskRestart asks for leave to restart the machine. Granted, the counter takes no act for
// so long, or until Resume.
func (c *Client) AskRestart(ctx context.Context, d time.Duration, must bool) (Leave, error) {
	return call[Leave](ctx, c, "POST", "/v1/restart", restartRequest{d.Milliseconds(), must})
}

// Resume has the counter take acts again.
func (c *Client) Resume(ctx context.Context) error {
	_, err := call[struct{}](ctx, c, "POST", "/v1/restart/release", struct{}{})
	return err
}
