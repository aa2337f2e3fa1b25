package control

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"grattoir/device/terminal"
	"grattoir/validate"
	"grattoir/validate/money"
)

// Session is who is signed on.
type Session struct {
	Operator   string    `json:"operator"`
	Name       string    `json:"name"`
	Role       string    `json:"role"`
	Since      time.Time `json:"since"`
	Locked     bool      `json:"locked"`
	FloatMinor int64     `json:"float_minor"`
	Currency   string    `json:"currency"`
}

// Batch is several tickets of one customer.
type Batch struct {
	ID         string          `json:"id"`
	Tickets    []Answer        `json:"tickets"`
	Prizes     int             `json:"prizes"` // how many can be paid
	TotalMinor int64           `json:"total_minor"`
	Currency   string          `json:"currency"`
	Needs      []validate.Need `json:"needs"`
	Paid       bool            `json:"paid"`
	Linked     int64           `json:"linked_minor,omitempty"` // what the same identified person was paid before
	Error      string          `json:"error,omitempty"`        // needs, when nothing was paid
}

// Transaction is one act of the counter; exactly one pointer is set.
type Transaction struct {
	Number   string             `json:"number"` // the act's own place in the ledger
	At       time.Time          `json:"at"`     // device time
	Claim    *Receipt           `json:"claim,omitempty"`
	Reversal *validate.Reversal `json:"reversal,omitempty"`
	Reprint  *validate.Reprint  `json:"reprint,omitempty"`
	Closing  *validate.Closing  `json:"closing,omitempty"`
}

type signOnRequest struct {
	Operator   string `json:"operator"`
	PIN        string `json:"pin"`
	FloatMinor int64  `json:"float_minor"`
}

// PINRequest names an operator and his PIN, where an act asks for one.
type pinRequest struct {
	Operator string `json:"operator"`
	PIN      string `json:"pin"`
}

func (q pinRequest) credentials() terminal.Credentials { return terminal.Credentials(q) }

type closingRequest struct {
	pinRequest
	Kind validate.ClosingKind `json:"kind"`
	Z    bool                 `json:"z"`
	// Print also puts an X on paper; a Z always is.
	Print bool `json:"print"`
}

type reverseRequest struct {
	pinRequest
	Number string                  `json:"number"`
	Reason validate.ReversalReason `json:"reason"`
	Text   string                  `json:"text"`
}

type trainingRequest struct {
	pinRequest
	On bool `json:"on"`
}

// packRightRequest releases this terminal's packs, or takes them back.
type packRightRequest struct {
	pinRequest
	Act string `json:"act"` // release or take
}

// PackRight is what became of the packs.
type PackRight struct {
	Released int `json:"released"` // runs of packs that were given up by this act
}

type batchRequest struct {
	ID          string                   `json:"id"`
	ConfirmCash bool                     `json:"confirm_cash"`
	Identity    *validate.Identification `json:"identity,omitempty"`
}

func (s *server) acts(mux *http.ServeMux) {
	mux.HandleFunc("POST /v1/sign-on", s.signOn)
	mux.HandleFunc("POST /v1/sign-off", s.signOff)
	mux.HandleFunc("POST /v1/lock", s.lock)
	mux.HandleFunc("POST /v1/unlock", s.unlock)
	mux.HandleFunc("POST /v1/closing", s.closing)
	mux.HandleFunc("POST /v1/closing/reprint", s.reprintClosing)
	mux.HandleFunc("POST /v1/reverse", s.reverse)
	mux.HandleFunc("POST /v1/training", s.training)
	mux.HandleFunc("POST /v1/packs/right", s.packRight)
	mux.HandleFunc("GET /v1/history", s.history)
	mux.HandleFunc("GET /v1/operators", s.operators)
	mux.HandleFunc("POST /v1/operators", s.changeOperator)
	mux.HandleFunc("POST /v1/batch/begin", s.beginBatch)
	mux.HandleFunc("POST /v1/batch/pay", s.payBatch)
	mux.HandleFunc("POST /v1/batch/end", s.endBatch)
	mux.HandleFunc("GET /v1/batch", s.batch)
	mux.HandleFunc("GET /v1/messages", s.messages)
	mux.HandleFunc("POST /v1/messages/read", s.readMessage)
	mux.HandleFunc("GET /v1/packs", s.packs)
	mux.HandleFunc("GET /v1/packs/{game}/{pack}", s.packStatus)
	mux.HandleFunc("POST /v1/packs/activate", s.activate)
}

// done answers an act: v, or why it was not done. PINs and identities are in no answer.
func (s *server) done(w http.ResponseWriter, v any, err error) {
	if err != nil {
		s.refuse(w, err)
		return
	}
	write(w, http.StatusOK, v)
}

// refuse says why an act was not done, in the clerk's words where there are some.
func (s *server) refuse(w http.ResponseWriter, err error) {
	f := failure{Error: err.Error()}
	var d *terminal.Denied
	if errors.As(err, &d) {
		f.Code, f.Clerk, f.Technician = d.Code, d.Clerk(s.opt.Language), d.Technician
		f.Error = strings.TrimPrefix(f.Error, d.Code+": ") // the code is said beside it
	}
	write(w, http.StatusConflict, f)
}

func (s *server) signOn(w http.ResponseWriter, r *http.Request) {
	var q signOnRequest
	if !read(w, r, &q) {
		return
	}
	shift, err := s.opt.Terminal.SignOn(r.Context(), terminal.Credentials{Operator: q.Operator, PIN: q.PIN}, money.Amount(q.FloatMinor))
	s.done(w, shift, err)
}

func (s *server) signOff(w http.ResponseWriter, r *http.Request) {
	var q pinRequest
	if !read(w, r, &q) {
		return
	}
	z, err := s.opt.Terminal.SignOff(r.Context(), q.credentials())
	s.done(w, z, err)
}

func (s *server) lock(w http.ResponseWriter, r *http.Request) {
	var q struct{}
	if !read(w, r, &q) {
		return
	}
	s.done(w, struct{}{}, s.opt.Terminal.Lock())
}

func (s *server) unlock(w http.ResponseWriter, r *http.Request) {
	var q pinRequest
	if !read(w, r, &q) {
		return
	}
	s.done(w, struct{}{}, s.opt.Terminal.Unlock(r.Context(), q.PIN))
}

func (s *server) closing(w http.ResponseWriter, r *http.Request) {
	var q closingRequest
	if !read(w, r, &q) {
		return
	}
	if q.Z {
		z, err := s.opt.Terminal.Close(r.Context(), q.Kind, q.credentials())
		s.done(w, z, err)
		return
	}
	x, err := s.opt.Terminal.Report(r.Context(), q.Kind)
	if err == nil && q.Print {
		s.opt.Terminal.PrintClosing(x)
	}
	s.done(w, x, err)
}

func (s *server) packRight(w http.ResponseWriter, r *http.Request) {
	var q packRightRequest
	if !read(w, r, &q) {
		return
	}
	switch q.Act {
	case "release":
		n, err := s.opt.Terminal.ReleasePacks(r.Context(), q.credentials())
		s.done(w, PackRight{n}, err)
	case "take":
		s.done(w, PackRight{}, s.opt.Terminal.TakePacks(r.Context()))
	default:
		fail(w, http.StatusBadRequest, fmt.Errorf("act %.20q: want release or take", q.Act))
	}
}

func (s *server) reprintClosing(w http.ResponseWriter, r *http.Request) {
	var q reprintRequest
	if !read(w, r, &q) {
		return
	}
	n, err := ParseNumber(q.Number)
	if err != nil {
		fail(w, http.StatusBadRequest, err)
		return
	}
	c, err := s.opt.Terminal.ReprintClosing(r.Context(), n)
	s.done(w, c, err)
}

func (s *server) reverse(w http.ResponseWriter, r *http.Request) {
	var q reverseRequest
	if !read(w, r, &q) {
		return
	}
	n, err := ParseNumber(q.Number)
	if err != nil {
		fail(w, http.StatusBadRequest, err)
		return
	}
	out, err := s.opt.Terminal.Reverse(r.Context(), validate.Reversal{Number: n, Reason: q.Reason, Text: q.Text}, q.credentials())
	s.done(w, out, err)
}

func (s *server) training(w http.ResponseWriter, r *http.Request) {
	var q trainingRequest
	if !read(w, r, &q) {
		return
	}
	s.done(w, struct{}{}, s.opt.Terminal.SetTraining(r.Context(), q.On, q.credentials()))
}

// historyLength is how many acts of the counter are told.
const historyLength = 10

func (s *server) history(w http.ResponseWriter, r *http.Request) {
	list, err := s.opt.Terminal.History(r.Context(), historyLength)
	out := make([]Transaction, 0, len(list))
	for _, x := range list {
		t := Transaction{Number: x.Entry.String(), At: x.At, Reversal: x.Reversal, Reprint: x.Reprint, Closing: x.Closing}
		if x.Claim != nil {
			t.Claim = s.receipt(*x.Claim, nil)
		}
		out = append(out, t)
	}
	s.done(w, out, err)
}

func (s *server) beginBatch(w http.ResponseWriter, r *http.Request) {
	var q struct{}
	if !read(w, r, &q) {
		return
	}
	b, err := s.opt.Terminal.BeginBatch()
	s.done(w, s.batchAnswer(b, nil), err)
}

func (s *server) payBatch(w http.ResponseWriter, r *http.Request) {
	var q batchRequest
	if !read(w, r, &q) {
		return
	}
	b, err := s.opt.Terminal.PayBatch(r.Context(), q.ID, terminal.Confirmed{Cash: q.ConfirmCash, Identity: q.Identity})
	if errors.Is(err, terminal.ErrNeeds) {
		write(w, http.StatusConflict, s.batchAnswer(b, err))
		return
	}
	s.done(w, s.batchAnswer(b, nil), err)
}

func (s *server) endBatch(w http.ResponseWriter, r *http.Request) {
	var q batchRequest
	if !read(w, r, &q) {
		return
	}
	s.done(w, struct{}{}, s.opt.Terminal.EndBatch(q.ID))
}

func (s *server) batch(w http.ResponseWriter, _ *http.Request) {
	state, _ := s.opt.Terminal.State()
	if state.Batch == nil {
		fail(w, http.StatusNotFound, terminal.ErrNoBatch)
		return
	}
	write(w, http.StatusOK, s.batchAnswer(*state.Batch, nil))
}

func (s *server) batchAnswer(b terminal.Batch, err error) Batch {
	out := Batch{ID: b.ID, Tickets: []Answer{}, Prizes: b.Prizes, TotalMinor: int64(b.Total), Currency: b.Currency, Needs: b.Needs, Paid: b.Paid, Linked: int64(b.Linked)}
	if out.Needs == nil {
		out.Needs = []validate.Need{}
	}
	for _, v := range b.Views {
		out.Tickets = append(out.Tickets, s.answer(v, nil))
	}
	if err != nil {
		out.Error = "needs"
	}
	return out
}
