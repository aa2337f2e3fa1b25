package terminaltest

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"grattoir/device/terminal"
	"grattoir/validate"
	"grattoir/validate/money"
)

var (
	_ terminal.Staff    = (*Staff)(nil)
	_ terminal.Register = (*Register)(nil)
)

// The reasons why the fake Staff denies an act.
var (
	ErrPIN    = terminal.ErrPIN
	ErrNobody = errors.New("nobody is signed on, or the counter is locked")
)

// Staff knows operators by their PINs. One whose id begins with "m" is a manager. It
// counts no wrong PINs: that is the real one's.
type Staff struct {
	mu      sync.Mutex
	pins    map[string]string
	session *terminal.Session
	changed chan struct{}
}

// NewStaff makes a Staff of ids and PINs, with nobody signed on.
func NewStaff(pins map[string]string) *Staff {
	return &Staff{pins: pins, changed: make(chan struct{})}
}

func denied(err error) error {
	return &terminal.Denied{Fault: terminal.Fault{Code: "O1", ClerkFR: "Refusé.", ClerkEN: "Refused.", Technician: err.Error()}, Err: err}
}

func (s *Staff) set(x *terminal.Session) {
	s.session = x
	close(s.changed)
	s.changed = make(chan struct{})
}

// Session is a copy of the session.
func (s *Staff) Session() (*terminal.Session, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.session == nil {
		return nil, s.changed
	}
	x := *s.session
	return &x, s.changed
}

// Acting is the session, unless it is locked.
func (s *Staff) Acting() (terminal.Session, error) {
	x, _ := s.Session()
	if x == nil || x.Locked {
		return terminal.Session{}, denied(ErrNobody)
	}
	return *x, nil
}

// SignOn begins a session.
func (s *Staff) SignOn(_ context.Context, who terminal.Credentials, float money.Amount, currency string) (terminal.Session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pins[who.Operator] != who.PIN || who.PIN == "" || s.session != nil {
		return terminal.Session{}, denied(ErrPIN)
	}
	s.set(&terminal.Session{Operator: who.Operator, Float: float, Currency: currency})
	return *s.session, nil
}

// SignOff ends the session of whoever may act.
func (s *Staff) SignOff(context.Context) (terminal.Session, error) {
	x, err := s.Acting()
	if err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.set(nil)
	}
	return x, err
}

// EndSession ends the session with a manager's PIN.
func (s *Staff) EndSession(ctx context.Context, manager terminal.Credentials) (terminal.Session, error) {
	if _, err := s.Approve(ctx, terminal.ApproveClosing, "", manager); err != nil {
		return terminal.Session{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set(nil)
	return terminal.Session{}, nil
}

// Lock locks the session.
func (s *Staff) Lock() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.session != nil {
		x := *s.session
		x.Locked = true
		s.set(&x)
	}
}

// Unlock opens it with its operator's PIN.
func (s *Staff) Unlock(_ context.Context, pin string) (terminal.Session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.session == nil || s.pins[s.session.Operator] != pin {
		return terminal.Session{}, denied(ErrPIN)
	}
	x := *s.session
	x.Locked = false
	s.set(&x)
	return x, nil
}

// Approve takes a manager's PIN.
func (s *Staff) Approve(_ context.Context, act terminal.Approval, _ string, by terminal.Credentials) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if by.PIN == "" || s.pins[by.Operator] != by.PIN || by.Operator[0] != 'm' {
		return "", denied(fmt.Errorf("%s: %w", act, ErrPIN))
	}
	return by.Operator, nil
}

// Register keeps identities in memory.
type Register struct {
	mu      sync.Mutex
	records []validate.Identified
	fault   error
}

// Break makes Record fail with err; nil mends it.
func (r *Register) Break(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fault = err
}

// Record keeps the payments, and links all of them to one person.
func (r *Register) Record(_ context.Context, _ string, _ validate.Identification, payments []validate.Identified) (linked money.Amount, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fault != nil {
		return 0, r.fault
	}
	for _, p := range r.records {
		linked += p.Amount
	}
	r.records = append(r.records, payments...)
	return linked, nil
}

// Ready is nil unless Break said otherwise.
func (r *Register) Ready() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.fault
}

// Records lists the payments that were recorded.
func (r *Register) Records() []validate.Identified {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]validate.Identified{}, r.records...)
}
