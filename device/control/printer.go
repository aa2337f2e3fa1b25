package control

import (
	"context"
	"errors"
	"net/http"
	"time"
)

// PrinterActs are what a technician does about a printer that is stuck.
type PrinterActs struct {
	Clear   func(context.Context) error // drops the slip that the printer keeps
	Recover func(context.Context) error // goes on after a jammed cutter
}

type printerRequest struct {
	Act string `json:"act"` // clear or recover
}

// actLimit is how long a printer is given to do as it is told.
const actLimit = 8 * time.Second

// printer makes the printer drop what it keeps, or go on. Neither touches the ledger: a
// dropped slip is marked unknown there, and its next copy is a DUPLICATA.
func (s *server) printer(w http.ResponseWriter, r *http.Request) {
	var q printerRequest
	if !read(w, r, &q) {
		return
	}
	act := map[string]func(context.Context) error{"clear": s.opt.Printer.Clear, "recover": s.opt.Printer.Recover}[q.Act]
	if act == nil {
		fail(w, http.StatusBadRequest, errors.New("act: want clear or recover"))
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), actLimit)
	defer cancel()
	err := act(ctx)
	s.opt.Log.Info("printer", "act", q.Act, "err", err)
	s.done(w, struct{}{}, err)
}

// ClearPrinter makes the printer drop what it keeps, the slip in hand included.
func (c *Client) ClearPrinter(ctx context.Context) error { return c.printer(ctx, "clear") }

// RecoverPrinter makes the printer go on after a jammed cutter.
func (c *Client) RecoverPrinter(ctx context.Context) error { return c.printer(ctx, "recover") }

func (c *Client) printer(ctx context.Context, act string) error {
	_, err := call[struct{}](ctx, c, "POST", "/v1/printer", printerRequest{act})
	return err
}
