// Package people knows who works at a terminal and, where the law asks, whom it paid.
//
// Staff is the operators with their roles and PINs, the lock-out that bounds guessing,
// and the session: who is signed on, with which float, and whether the counter is locked.
// Register is the identities of winners, sealed to central's key so that the terminal
// itself cannot read them back, with keyed hashes that link the payments of one person.
// Each has an SQLite file of its own beside the ledger, for its owner only, and a chained
// audit of every act.
//
// The package moves no money and prints nothing. It believes no clock: delays and spans
// are counted by the time since boot, and a delay cut by a restart runs again whole.
// Start at Staff.SignOn and at Register.Record.
package people

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"grattoir/sync/ledger"
)

var (
	// ErrInUse means that another process, mostly the daemon, has the file open.
	ErrInUse = errors.New("another process has the file open: if terminald is running, stop it first")
	// ErrDamaged means that a file does not hold what it should.
	ErrDamaged = errors.New("the file is damaged")
	// ErrNotWritable means that nothing can be stored now, so no PIN is answered either.
	ErrNotWritable = errors.New("the file cannot be written")

	// ErrWrong means that operator and PIN do not belong together. Which of the two is wrong is not told.
	ErrWrong = errors.New("operator or PIN is wrong")
	// ErrWait means that wrong PINs came before and the next one is not looked at yet.
	ErrWait = errors.New("too many wrong PINs: wait")
	// ErrLockedOut means that the operator's tries are used up until somebody else gives new ones.
	ErrLockedOut = errors.New("the operator is locked out")
	// ErrTerminalLocked means that the terminal's tries are used up: only the PIN of a manager or technician is looked at.
	ErrTerminalLocked = errors.New("the terminal is locked")
	// ErrSuspended means that the operator may do nothing here. It is told to those who know the PIN.
	ErrSuspended = errors.New("the operator is suspended")
	// ErrRole means that the operator's role does not allow the act.
	ErrRole = errors.New("the operator's role does not allow this")
	// ErrOwner means that the machine's owner may not act, because an operator can.
	ErrOwner = errors.New("an operator can do this, with a PIN")

	// ErrOperator means an id, a name or a role that cannot be.
	ErrOperator = errors.New("not an operator")
	// ErrExists means that the operator is there already.
	ErrExists = errors.New("the operator exists already")
	// ErrUnknown means that there is no such operator.
	ErrUnknown = errors.New("no such operator")

	// ErrSignedOn means that somebody is signed on.
	ErrSignedOn = errors.New("somebody is signed on")
	// ErrNobody means that nobody is signed on.
	ErrNobody = errors.New("nobody is signed on")
	// ErrSessionLocked means that the counter waits for the PIN of whoever is signed on.
	ErrSessionLocked = errors.New("the counter is locked")
)

// Role is what an operator is for. A clerk serves the counter; a manager does too,
// approves what a clerk may not do alone, and looks after clerks; a technician looks
// after the machine, managers and other technicians, and takes no money.
type Role string

const (
	Clerk      Role = "clerk"
	Manager    Role = "manager"
	Technician Role = "technician"
)

// ParseRole reads a role. The error is ErrOperator.
func ParseRole(text string) (Role, error) {
	switch r := Role(text); r {
	case Clerk, Manager, Technician:
		return r, nil
	}
	return "", fmt.Errorf("%w: role %.20q: want clerk, manager or technician", ErrOperator, text)
}

func (r Role) rank() int {
	switch r {
	case Clerk:
		return 1
	case Manager:
		return 2
	case Technician:
		return 3
	}
	return 0
}

// mayAdd tells whether an operator of role r adds one of role other.
func (r Role) mayAdd(other Role) bool { return r.rank() >= Manager.rank() && r.rank() >= other.rank() }

// looksAfter tells whether an operator of role r unlocks, suspends and gives new PINs to
// those of role other. Managers do not look after each other: one alone could lock out the rest.
func (r Role) looksAfter(other Role) bool { return r.rank() > other.rank() || r == Technician }

// Operator is one person who works at the terminal.
type Operator struct {
	ID        string // 1 to 16 of a-z, 0-9 and "-", as slips show it
	Name      string // 1 to 40 characters, as pages show it
	Role      Role
	Suspended bool
	Failed    int // wrong PINs since the last right one
}

// LockedOut tells whether the tries are used up.
func (o Operator) LockedOut() bool { return o.Failed >= Tries }

// reserved ids mean something else where operators are named.
func reserved(id string) bool { return id == ownerID || id == "terminal" || id == "system" }

// Validate checks id, name and role. The error is ErrOperator.
func (o Operator) Validate() error {
	if o.ID == "" || len(o.ID) > 16 || strings.Trim(o.ID, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" || o.ID[0] == '-' || reserved(o.ID) {
		return fmt.Errorf("%w: id: want 1 to 16 of a-z, 0-9 and \"-\", as marie or 07, and none of owner, system, terminal", ErrOperator)
	}
	if n := utf8.RuneCountInString(o.Name); n == 0 || n > 40 || !utf8.ValidString(o.Name) || strings.TrimSpace(o.Name) != o.Name || strings.ContainsFunc(o.Name, unicode.IsControl) {
		return fmt.Errorf("%w: name: want 1 to 40 characters on one line", ErrOperator)
	}
	_, err := ParseRole(string(o.Role))
	return err
}

// Credentials are what an operator shows.
type Credentials struct {
	Operator string
	PIN      PIN
	owner    bool
}

// ownerID stands in the audit for the machine's owner.
const ownerID = "owner"

// Owner are the credentials of whoever owns the files, at the machine itself: the
// daemon must never give them to a caller. They count only where no operator could act:
// for the first operator, and when everybody who could help is locked out or suspended.
func Owner() Credentials { return Credentials{Operator: ownerID, owner: true} }

// IsOwner tells whether they are the owner's.
func (c Credentials) IsOwner() bool { return c.owner }

// Options open a Staff.
type Options struct {
	Path     string
	Terminal string               // whose file it is; another name than the file's is refused
	Moment   func() ledger.Moment // asked once for each act
	AutoLock time.Duration        // idle time after which the counter locks; 0 is never

	cost Cost              // zero for the one that operators' PINs deserve
	step func(step string) // tests follow and cut an attempt here
	disk disk
}

// Staff is the operators of a terminal and the session at its counter. It is safe for
// concurrent use; PINs are looked at one by one, which also bounds memory.
type Staff struct {
	opt  Options
	file *file
	gate chan struct{} // holds a token while an act runs

	mu      sync.Mutex // of what follows
	session *Session
	active  time.Duration // last act at the counter, since boot
	changed chan struct{}
}

// Open opens the operators' file, creating it when there is none. A session that was
// open is open again, locked. The errors are ErrInUse, ErrDamaged and ledger.ErrMode.
func Open(ctx context.Context, opt Options) (*Staff, error) {
	if opt.cost == (Cost{}) {
		opt.cost = shippedCost
	}
	f, err := openFile(ctx, opt.Path, staffKind(), opt.Terminal, opt.Moment, opt.disk)
	if err != nil {
		return nil, fmt.Errorf("operators %s: %w", opt.Path, err)
	}
	s := &Staff{opt: opt, file: f, gate: make(chan struct{}, 1), changed: make(chan struct{})}
	if err := errors.Join(s.restartDelays(ctx), s.loadSession(ctx)); err != nil {
		return nil, errors.Join(fmt.Errorf("operators %s: %w", opt.Path, err), f.Close())
	}
	return s, nil
}

// Close closes the file. The session stays for the next Open.
func (s *Staff) Close() error { return s.file.Close() }

// Verify walks the audit's chain. The error is ErrDamaged.
func (s *Staff) Verify(ctx context.Context) error { return s.file.verify(ctx) }

// Audit hands every line to each, oldest first. Each must not call the Staff.
func (s *Staff) Audit(ctx context.Context, each func(AuditLine) error) error {
	return s.file.lines(ctx, each)
}

// AuditHead is how far the audit has come, for the journal to note; line 0 is none yet.
func (s *Staff) AuditHead(ctx context.Context) (ledger.AuditHead, error) { return s.file.head(ctx) }

// staffKind is the operators' file, version by version.
func staffKind() fileKind {
	return fileKind{name: "operators", id: 0x4752504f, steps: [][]string{{
		`CREATE TABLE operators(id TEXT PRIMARY KEY, name TEXT NOT NULL, role TEXT NOT NULL CHECK(role IN ('clerk', 'manager', 'technician')),
			suspended INTEGER NOT NULL DEFAULT 0, pin TEXT NOT NULL) STRICT, WITHOUT ROWID`,
		// Wrong PINs since the last right one, with the moment the last was counted: of
		// each operator, of ids that do not exist, and of the terminal as a whole.
		`CREATE TABLE tries(subject TEXT PRIMARY KEY, failed INTEGER NOT NULL CHECK(failed >= 0), boot TEXT NOT NULL, mono_ns INTEGER NOT NULL) STRICT, WITHOUT ROWID`,
		`CREATE TABLE session(one INTEGER PRIMARY KEY CHECK(one = 1), number INTEGER NOT NULL, operator TEXT NOT NULL REFERENCES operators(id),
			since TEXT NOT NULL, trusted TEXT NOT NULL, float_minor INTEGER NOT NULL CHECK(float_minor >= 0), currency TEXT NOT NULL) STRICT`,
		`CREATE TABLE numbers(one INTEGER PRIMARY KEY CHECK(one = 1), session INTEGER NOT NULL) STRICT`,
		`INSERT INTO numbers(one, session) VALUES(1, 0)`,
	}}}
}

// enter waits for the act before this one. A context can leave the queue.
func (s *Staff) enter(ctx context.Context) error {
	select {
	case s.gate <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *Staff) leave() { <-s.gate }

// Operators lists everybody by id.
func (s *Staff) Operators(ctx context.Context) ([]Operator, error) {
	rows, err := s.file.DB.QueryContext(ctx, operatorQuery+" ORDER BY id")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	list := []Operator{}
	for rows.Next() {
		var o Operator
		var pin string
		if err := scanOperator(rows, &o, &pin); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
		}
		list = append(list, o)
	}
	return list, rows.Err()
}

const operatorQuery = "SELECT id, name, role, suspended, pin, coalesce((SELECT failed FROM tries WHERE subject = 'operator ' || id), 0) FROM operators"

type scanner interface{ Scan(...any) error }

func scanOperator(row scanner, o *Operator, pin *string) error {
	return row.Scan(&o.ID, &o.Name, &o.Role, &o.Suspended, pin, &o.Failed)
}

// operator reads one, with the hash of the PIN. The error is ErrUnknown.
func operator(ctx context.Context, q querier, id string) (o Operator, pin string, err error) {
	err = scanOperator(q.QueryRowContext(ctx, operatorQuery+" WHERE id = ?", id), &o, &pin)
	if errors.Is(err, sql.ErrNoRows) {
		err = ErrUnknown
	}
	return o, pin, err
}

// Add adds an operator. A manager adds clerks and managers, a technician anybody; the
// first operator is added by the machine's owner. The errors are ErrOperator, ErrPIN,
// ErrWeakPIN, ErrExists and those of a PIN that is not accepted.
func (s *Staff) Add(ctx context.Context, by Credentials, o Operator, pin PIN) error {
	if err := o.Validate(); err != nil {
		return err
	}
	if err := pin.fit(o.ID); err != nil {
		return err
	}
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	if _, _, err := operator(ctx, s.file.DB, o.ID); !errors.Is(err, ErrUnknown) {
		return fmt.Errorf("operator %s: %w", o.ID, errors.Join(err, errIf(err == nil, ErrExists)))
	}
	actor, err := s.authorise(ctx, by, func(p Operator) bool { return p.Role.mayAdd(o.Role) })
	if err != nil {
		return err
	}
	hash := s.opt.cost.hash(pin)
	return s.file.write(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, "INSERT INTO operators(id, name, role, pin) VALUES(?, ?, ?, ?)", o.ID, o.Name, o.Role, hash); err != nil {
			return err
		}
		return s.file.note(ctx, tx, "operator-add", actor, o.ID+" "+string(o.Role))
	})
}

func errIf(is bool, err error) error {
	if is {
		return err
	}
	return nil
}

// SetPIN gives an operator another PIN and new tries. Operators change their own;
// managers change those of clerks, technicians those of anybody. The old hash is wiped.
func (s *Staff) SetPIN(ctx context.Context, by Credentials, id string, pin PIN) error {
	if err := pin.fit(id); err != nil {
		return err
	}
	if by.Operator == id && by.PIN == pin {
		return fmt.Errorf("%w: it is the one in use", ErrWeakPIN)
	}
	self := func(p Operator) bool { return p.ID == id }
	return s.change(ctx, by, id, "pin", self, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, "UPDATE operators SET pin = ? WHERE id = ?", s.opt.cost.hash(pin), id); err != nil {
			return err
		}
		return errors.Join(forget(ctx, tx, subjectOf(id)), s.file.soil(ctx, tx))
	}, s.file.scrub)
}

// Unlock gives an operator new tries after a lock-out: a clerk by a manager, a manager
// by a technician, a technician by another one.
func (s *Staff) Unlock(ctx context.Context, by Credentials, id string) error {
	return s.change(ctx, by, id, "unlock", nil, func(tx *sql.Tx) error { return forget(ctx, tx, subjectOf(id)) })
}

// Suspend takes from an operator the right to do anything here; Resume gives it back.
// If the operator is signed on, the counter locks.
func (s *Staff) Suspend(ctx context.Context, by Credentials, id string) error {
	err := s.change(ctx, by, id, "suspend", nil, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE operators SET suspended = 1 WHERE id = ?", id)
		return err
	})
	if err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.session != nil && s.session.Operator == id {
			s.lock()
		}
	}
	return err
}

// Resume ends a suspension.
func (s *Staff) Resume(ctx context.Context, by Credentials, id string) error {
	return s.change(ctx, by, id, "resume", nil, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE operators SET suspended = 0 WHERE id = ?", id)
		return err
	})
}

// change runs an act of one operator upon another, then what must follow it. Nobody acts
// upon himself but where self allows it.
func (s *Staff) change(ctx context.Context, by Credentials, id, act string, self func(Operator) bool,
	do func(*sql.Tx) error, then ...func(context.Context) error) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	o, _, err := operator(ctx, s.file.DB, id)
	if err != nil {
		return fmt.Errorf("whom the act is upon: %w", err) // what was typed may be a PIN in the wrong field
	}
	may := func(p Operator) bool {
		return p.ID != id && p.Role.looksAfter(o.Role) || self != nil && self(p)
	}
	actor, err := s.authorise(ctx, by, may)
	if err != nil {
		return err
	}
	err = s.file.write(ctx, func(tx *sql.Tx) error {
		if err := do(tx); err != nil {
			return err
		}
		return s.file.note(ctx, tx, act, actor, id)
	})
	for _, f := range then {
		if err == nil {
			err = f(ctx)
		}
	}
	return err
}

// authorise proves who acts and that this one may. The owner may where nobody else could.
func (s *Staff) authorise(ctx context.Context, by Credentials, may func(Operator) bool) (string, error) {
	if !by.owner {
		p, err := s.prove(ctx, by, may)
		return p.ID, err
	}
	list, err := s.Operators(ctx)
	if err != nil {
		return "", err
	}
	for _, o := range list {
		if may(o) && !o.Suspended && !o.LockedOut() {
			return "", fmt.Errorf("%w: ask %s (%s)", ErrOwner, o.ID, o.Role)
		}
	}
	return ownerID, nil
}
