package control

import (
	"context"
	"net/http"

	"grattoir/device/terminal"
)

// Roster is who may work at the terminal, as the socket takes it. Its errors are
// *terminal.Denied. The daemon gives nobody the right of the machine's owner: every act
// needs an operator's PIN.
type Roster interface {
	Operators(ctx context.Context) ([]Operator, error)
	Change(ctx context.Context, c OperatorChange) error
}

// Operator is one person who works at the terminal.
type Operator struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Role      string `json:"role"` // clerk, manager or technician
	Suspended bool   `json:"suspended"`
	LockedOut bool   `json:"locked_out"`
	Failed    int    `json:"failed"` // wrong PINs since the last right one
}

// OperatorAct is something done to an operator by another one, or to oneself.
type OperatorAct string

const (
	AddOperator     OperatorAct = "add"
	SuspendOperator OperatorAct = "suspend"
	ResumeOperator  OperatorAct = "resume"
	UnlockOperator  OperatorAct = "unlock"
	SetOperatorPIN  OperatorAct = "pin"
)

// OperatorChange is such an act. PINs are in it, so it is never printed.
type OperatorChange struct {
	Act   OperatorAct `json:"act"`
	ID    string      `json:"id"`
	Name  string      `json:"name,omitempty"` // of one who is added
	Role  string      `json:"role,omitempty"`
	PIN   string      `json:"pin,omitempty"` // the new one, to add or pin
	By    string      `json:"by"`            // who does it
	ByPIN string      `json:"by_pin"`
}

// Credentials are who does it.
func (c OperatorChange) Credentials() terminal.Credentials {
	return terminal.Credentials{Operator: c.By, PIN: c.ByPIN}
}

func (s *server) operators(w http.ResponseWriter, r *http.Request) {
	if s.opt.Roster == nil {
		fail(w, http.StatusNotFound, terminal.ErrNoStaff)
		return
	}
	list, err := s.opt.Roster.Operators(r.Context())
	if list == nil {
		list = []Operator{}
	}
	s.done(w, list, err)
}

func (s *server) changeOperator(w http.ResponseWriter, r *http.Request) {
	var q OperatorChange
	if !read(w, r, &q) {
		return
	}
	if s.opt.Roster == nil {
		fail(w, http.StatusNotFound, terminal.ErrNoStaff)
		return
	}
	s.done(w, struct{}{}, s.opt.Roster.Change(r.Context(), q))
}

// Operators lists who may work at the terminal, by id. The error is terminal.ErrNoStaff
// where nobody signs on.
func (c *Client) Operators(ctx context.Context) ([]Operator, error) {
	return call[[]Operator](ctx, c, "GET", "/v1/operators", nil)
}

// ChangeOperator does one act to one operator.
func (c *Client) ChangeOperator(ctx context.Context, q OperatorChange) error {
	_, err := call[struct{}](ctx, c, "POST", "/v1/operators", q)
	return err
}
