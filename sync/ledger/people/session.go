package people

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"grattoir/validate/money"
)

// Session is somebody's shift at the counter. It outlives a restart, locked.
type Session struct {
	Number   int64 // rising, never used again at this terminal
	Operator string
	Name     string
	Role     Role
	Since    time.Time // device time, a hint
	Trusted  time.Time // newest trusted time then, zero for none
	Float    money.Amount
	Currency string
	Locked   bool
	Failed   int // wrong PINs between the right one and the one before: tell the operator, somebody else may have tried
}

// maxFloat bounds a cash float: more is a slip of the finger.
const maxFloat money.Amount = 100_000_00

func (s *Staff) loadSession(ctx context.Context) error {
	var x Session
	var since, trusted string
	err := s.file.DB.QueryRowContext(ctx, `SELECT s.number, s.operator, o.name, o.role, s.since, s.trusted, s.float_minor, s.currency
		FROM session s JOIN operators o ON o.id = s.operator`).Scan(&x.Number, &x.Operator, &x.Name, &x.Role, &since, &trusted, &x.Float, &x.Currency)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err == nil {
		x.Since, err = parseTime(since)
	}
	if err == nil {
		x.Trusted, err = parseTime(trusted)
	}
	if err != nil {
		return fmt.Errorf("%w: session: %w", ErrDamaged, err)
	}
	x.Locked = true
	s.session = &x
	return nil
}

// SignOn begins a session of a clerk or a manager with a cash float in a currency's
// minor units. The errors are ErrSignedOn, ErrRole, ErrSuspended, a Refusal and ErrNotWritable.
func (s *Staff) SignOn(ctx context.Context, c Credentials, float money.Amount, currency string) (Session, error) {
	if float < 0 || float > maxFloat || len(currency) != 3 {
		return Session{}, fmt.Errorf("a float of %d minor units of %.3q: want 0 to %d and a currency as EUR", float, currency, maxFloat)
	}
	if err := s.enter(ctx); err != nil {
		return Session{}, err
	}
	defer s.leave()
	if x, _ := s.Session(); x != nil {
		return *x, fmt.Errorf("%w: %s", ErrSignedOn, x.Operator)
	}
	o, err := s.prove(ctx, c, func(o Operator) bool { return o.Role == Clerk || o.Role == Manager })
	if err != nil {
		return Session{}, err
	}
	m := s.opt.Moment()
	x := Session{Operator: o.ID, Name: o.Name, Role: o.Role, Since: m.Device.UTC().Truncate(time.Millisecond), Trusted: m.Trusted.UTC().Truncate(time.Millisecond),
		Float: float, Currency: currency, Failed: o.Failed}
	err = s.file.write(ctx, func(tx *sql.Tx) error {
		if err := tx.QueryRowContext(ctx, "UPDATE numbers SET session = session + 1 RETURNING session").Scan(&x.Number); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "INSERT INTO session(one, number, operator, since, trusted, float_minor, currency) VALUES(1, ?, ?, ?, ?, ?, ?)",
			x.Number, x.Operator, timeText(x.Since), timeText(x.Trusted), int64(float), currency); err != nil {
			return err
		}
		return s.file.note(ctx, tx, "sign-on", o.ID, fmt.Sprintf("session %d, float %d %s", x.Number, float, currency))
	})
	if err != nil {
		return Session{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.session, s.active = &x, m.Mono
	s.tell()
	return x, nil
}

// Session gives a copy of the session, nil when nobody is signed on, and a channel that
// is closed when this changes. A counter that was left idle is locked by the asking.
func (s *Staff) Session() (*Session, <-chan struct{}) {
	now := s.opt.Moment().Mono
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lockIdle(now)
	if s.session == nil {
		return nil, s.changed
	}
	x := *s.session
	return &x, s.changed
}

// Acting gives the session of whoever may act now, and counts as an act: the idle time
// begins anew. The errors are ErrNobody and ErrSessionLocked.
func (s *Staff) Acting() (Session, error) {
	now := s.opt.Moment().Mono
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lockIdle(now)
	switch {
	case s.session == nil:
		return Session{}, ErrNobody
	case s.session.Locked:
		return *s.session, fmt.Errorf("%w: it waits for the PIN of %s", ErrSessionLocked, s.session.Operator)
	}
	s.active = now
	return *s.session, nil
}

// Lock locks the counter: tickets are still checked, nothing is paid until Resumed.
func (s *Staff) Lock() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lock()
}

func (s *Staff) lock() {
	if s.session != nil && !s.session.Locked {
		s.session.Locked = true
		s.tell()
	}
}

func (s *Staff) lockIdle(now time.Duration) {
	if idle := s.opt.AutoLock; idle > 0 && (now-s.active >= idle || now < s.active) {
		s.lock()
	}
}

func (s *Staff) tell() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// Run locks the idle counter at the moment it is due, so that pages which wait for a
// change show it. It returns ctx's error.
func (s *Staff) Run(ctx context.Context) error {
	for {
		x, changed := s.Session()
		var due <-chan time.Time
		if x != nil && !x.Locked && s.opt.AutoLock > 0 {
			now := s.opt.Moment().Mono
			s.mu.Lock()
			left := s.opt.AutoLock - (now - s.active)
			s.mu.Unlock()
			timer := time.NewTimer(max(left, time.Millisecond))
			defer timer.Stop()
			due = timer.C
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		case <-due:
		}
	}
}

// Reopen unlocks the counter with the PIN of whoever is signed on. The errors are
// ErrNobody, ErrSuspended, a Refusal and ErrNotWritable.
func (s *Staff) Reopen(ctx context.Context, pin PIN) (Session, error) {
	if err := s.enter(ctx); err != nil {
		return Session{}, err
	}
	defer s.leave()
	x, _ := s.Session()
	if x == nil {
		return Session{}, ErrNobody
	}
	o, err := s.prove(ctx, Credentials{Operator: x.Operator, PIN: pin}, func(Operator) bool { return true })
	if err != nil {
		return *x, err
	}
	now := s.opt.Moment().Mono
	s.mu.Lock()
	defer s.mu.Unlock()
	s.session.Locked, s.session.Failed, s.active = false, o.Failed, now
	s.tell()
	return *s.session, nil
}

// SignOff ends the session of whoever may act now. The caller has closed the shift in
// the ledger before. The errors are ErrNobody, ErrSessionLocked and ErrNotWritable.
func (s *Staff) SignOff(ctx context.Context) (Session, error) {
	if err := s.enter(ctx); err != nil {
		return Session{}, err
	}
	defer s.leave()
	x, err := s.Acting()
	if err != nil {
		return x, err
	}
	return x, s.end(ctx, "sign-off", x.Operator, x)
}

// EndSession ends the session of somebody who has left without signing off, with a manager's PIN.
func (s *Staff) EndSession(ctx context.Context, by Credentials) (Session, error) {
	if err := s.enter(ctx); err != nil {
		return Session{}, err
	}
	defer s.leave()
	x, _ := s.Session()
	if x == nil {
		return Session{}, ErrNobody
	}
	o, err := s.prove(ctx, by, func(o Operator) bool { return o.Role == Manager })
	if err != nil {
		return *x, err
	}
	return *x, s.end(ctx, "end-session", o.ID, *x)
}

func (s *Staff) end(ctx context.Context, act, actor string, x Session) error {
	err := s.file.write(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, "DELETE FROM session"); err != nil {
			return err
		}
		return s.file.note(ctx, tx, act, actor, fmt.Sprintf("session %d of %s", x.Number, x.Operator))
	})
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.session = nil
	s.tell()
	return nil
}

// Act is something that needs more than whoever is signed on.
type Act string

const (
	ActReversal Act = "reversal" // take a payment back
	ActClosing  Act = "closing"  // close a day, a month, a year
	ActTraining Act = "training" // switch training mode
	ActIdentity Act = "identity" // look at whom the register links
	ActService  Act = "service"  // test, update and enrol the machine
)

// approvers are the roles that approve an act. Technicians approve nothing about money.
func (a Act) approvers() []Role {
	switch a {
	case ActReversal, ActClosing, ActIdentity:
		return []Role{Manager}
	case ActTraining:
		return []Role{Manager, Technician}
	case ActService:
		return []Role{Technician}
	}
	return nil
}

// Approve approves one act upon one thing, as a claim's number, with the PIN of somebody
// who need not be signed on, and gives that operator's id. The approval stands in the
// audit and serves no other act: the caller does it at once. The errors are ErrRole,
// ErrSuspended, a Refusal and ErrNotWritable.
func (s *Staff) Approve(ctx context.Context, act Act, about string, by Credentials) (string, error) {
	roles := act.approvers()
	if roles == nil || len(about) > maxAbout/2 {
		return "", fmt.Errorf("%w: nobody approves the act %.20q about %d bytes", ErrRole, act, len(about))
	}
	if err := s.enter(ctx); err != nil {
		return "", err
	}
	defer s.leave()
	o, err := s.prove(ctx, by, func(o Operator) bool { return slices.Contains(roles, o.Role) })
	if err != nil {
		return "", err
	}
	return o.ID, s.file.write(ctx, func(tx *sql.Tx) error {
		return s.file.note(ctx, tx, "approve", o.ID, string(act)+" "+about)
	})
}
