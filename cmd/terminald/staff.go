package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"grattoir/cmd/internal/cli"
	"grattoir/cmd/internal/uptime"
	"grattoir/configs"
	"grattoir/device/control"
	"grattoir/device/terminal"
	"grattoir/sync/ledger"
	"grattoir/sync/ledger/people"
	"grattoir/sync/uplink"
	"grattoir/validate"
	"grattoir/validate/money"
)

// journal is the ledger as the counter takes it.
type journal struct {
	*ledger.Ledger
	shut error // why nobody can sign on, nil where anybody may or need not
}

// Writable leaves training to the counter, which plays payments then; Record refuses them
// all the same. Where the operators cannot be read nobody pays.
func (j journal) Writable() error {
	if err := j.Ledger.Writable(); err != nil && !errors.Is(err, ledger.ErrTraining) {
		return err
	}
	return j.shut
}

// ReleasePacks gives up all packs of this terminal.
func (j journal) ReleasePacks(ctx context.Context, operator string, closing bool) (int, error) {
	why := ledger.ReleaseAsked
	if closing {
		why = ledger.ReleaseClosing
	}
	return j.Release(ctx, operator, why)
}

// Z ends a period, named by the device's date.
func (j journal) Z(ctx context.Context, kind validate.ClosingKind, operator string) (validate.Closing, error) {
	return j.Ledger.Z(ctx, kind, ledger.Ending{Operator: operator})
}

// crew are the operators and the register of identities, as far as the configuration has them.
type crew struct {
	staff    *people.Staff    // nil without sign_on
	register *people.Register // nil without a register key
	keep     people.Keep      // how long records stay
	shut     error            // why the operators cannot be read: nobody signs on, nothing is paid
	noRecord error            // why the register cannot be opened: nobody can be identified
	sends    bool             // there is a central that takes the records
	log      *slog.Logger
}

const (
	// unsentLate is how long records may wait for central before people are told.
	unsentLate = 3 * 24 * time.Hour
	// unsentGrace is how long one stays beyond its term that central never took.
	unsentGrace = 30 * 24 * time.Hour
)

// records are the register as the uplink takes it, nil where none is kept or it is shut.
func (w *crew) records() uplink.Register {
	if w.register == nil {
		return nil
	}
	return w.register
}

// late words that central does not take the records, nil while it does.
func (w *crew) late(ctx context.Context) *terminal.Fault {
	if w.register == nil || !w.sends {
		return nil
	}
	err := w.register.Overdue(ctx, w.keep, unsentLate)
	if err == nil || ctx.Err() != nil {
		return nil
	}
	m := people.Explain(err)
	return &terminal.Fault{Code: m.Code, ClerkFR: m.ClerkFR, ClerkEN: m.ClerkEN, Technician: m.Technician + " (" + err.Error() + ")"}
}

// shutFile is a file of operators or identities that cannot be used. It does not end the
// program: tickets are checked all the same, and the counter says why nothing is paid.
type shutFile struct{ err error }

func (s *shutFile) Error() string { return s.err.Error() }
func (s *shutFile) Unwrap() error { return s.err }

// shut is an error of opening such a file as the counter meets it, or the error itself
// where the program must not go on: another one has the file.
func shut(err error, log *slog.Logger) (*shutFile, error) {
	if errors.Is(err, people.ErrInUse) {
		return nil, err
	}
	if !errors.Is(err, people.ErrDamaged) && !errors.Is(err, ledger.ErrMode) && !errors.Is(err, people.ErrLinkKey) {
		err = fmt.Errorf("%w: %w", people.ErrNotWritable, err)
	}
	s := &shutFile{err}
	log.Error("a file cannot be used: tickets are checked, what needs it is not paid", "code", people.Explain(err).Code, "err", s)
	return s, nil
}

func openCrew(ctx context.Context, c configs.Terminal, trusted func() time.Time, log *slog.Logger) (*crew, error) {
	boot, err := uptime.Boot()
	if err != nil {
		return nil, err
	}
	moment := func() ledger.Moment {
		return ledger.Moment{Boot: boot, Mono: uptime.Since(), Device: time.Now(), Trusted: trusted()}
	}
	w := &crew{keep: people.Keep{Span: time.Duration(c.Register.SpanHours) * time.Hour, Term: time.Duration(c.Register.KeepDays) * 24 * time.Hour}, log: log}
	if !c.StandAlone { // on its own a record has nowhere to go
		w.keep.Grace, w.sends = unsentGrace, true
	}
	if c.SignOn {
		w.staff, err = people.Open(ctx, people.Options{Path: c.People(), Terminal: c.Name, Moment: moment, AutoLock: time.Duration(c.AutoLockMinutes) * time.Minute})
		if err != nil {
			s, stop := shut(err, log)
			if stop != nil {
				return nil, stop
			}
			w.staff, w.shut = nil, s
		}
	}
	if c.Register.Key == "" {
		return w, nil
	}
	text, err := cli.ReadBounded(c.Register.Key, 4<<10)
	if err != nil {
		return nil, errors.Join(cli.Exit(cli.Usage, fmt.Errorf("register.key: %w", err)), w.close())
	}
	key, err := people.ParseRegisterKey(string(text))
	if err != nil {
		return nil, errors.Join(cli.Exit(cli.Usage, fmt.Errorf("register.key %s: %w", c.Register.Key, err)), w.close())
	}
	w.register, err = people.OpenRegister(ctx, people.RegisterOptions{Path: c.RegisterFile(), Terminal: c.Name, Moment: moment, Key: key})
	if err != nil {
		s, stop := shut(err, log)
		if stop != nil {
			return nil, errors.Join(stop, w.close())
		}
		w.register, w.noRecord = nil, s
	}
	return w, nil
}

// lateOnSocket is late as the socket tells it.
func (w *crew) lateOnSocket(ctx context.Context, l money.Language) *control.Fault {
	f := w.late(ctx)
	if f == nil {
		return nil
	}
	return &control.Fault{Code: f.Code, Clerk: f.Clerk(l), Technician: f.Technician}
}

// audits are how far the audits of operators and identities have come, for the journal to
// note. One that cannot be read is left out: it must not stop a closing.
func (w *crew) audits(ctx context.Context) []ledger.AuditHead {
	if w == nil { // before they are opened
		return nil
	}
	var list []ledger.AuditHead
	take := func(h ledger.AuditHead, err error) {
		if err != nil {
			w.log.Error("the journal cannot note an audit's end", "audit", h.Audit, "err", err)
			return
		}
		list = append(list, h)
	}
	if w.staff != nil {
		take(w.staff.AuditHead(ctx))
	}
	if w.register != nil {
		take(w.register.AuditHead(ctx))
	}
	return list
}

func (w *crew) close() error {
	if w == nil {
		return nil
	}
	var errs []error
	if w.staff != nil {
		errs = append(errs, w.staff.Close())
	}
	if w.register != nil {
		errs = append(errs, w.register.Close())
	}
	return errors.Join(errs...)
}

// join gives the counter its staff and register; a nil of theirs must stay a nil of the counter's.
func (w *crew) join(o *terminal.Options) {
	switch {
	case w.shut != nil:
		o.Staff = shutStaff{w.shut}
	case w.staff != nil:
		o.Staff = deskStaff{w.staff}
	}
	switch {
	case w.noRecord != nil:
		o.Register = shutRegister{w.noRecord}
	case w.register != nil:
		o.Register = deskRegister{w.register, w.keep.Span}
	}
}

// shutStaff lets nobody sign on.
type shutStaff struct{ err error }

// Session is nobody's, and stays so.
func (s shutStaff) Session() (*terminal.Session, <-chan struct{}) { return nil, nil }

// Acting is nobody.
func (s shutStaff) Acting() (terminal.Session, error) { return terminal.Session{}, denied(s.err) }

// SignOn is refused.
func (s shutStaff) SignOn(context.Context, terminal.Credentials, money.Amount, string) (terminal.Session, error) {
	return terminal.Session{}, denied(s.err)
}

// SignOff is refused.
func (s shutStaff) SignOff(context.Context) (terminal.Session, error) {
	return terminal.Session{}, denied(s.err)
}

// EndSession is refused.
func (s shutStaff) EndSession(context.Context, terminal.Credentials) (terminal.Session, error) {
	return terminal.Session{}, denied(s.err)
}

// Lock locks what is shut.
func (s shutStaff) Lock() {}

// Unlock is refused.
func (s shutStaff) Unlock(context.Context, string) (terminal.Session, error) {
	return terminal.Session{}, denied(s.err)
}

// Approve is refused.
func (s shutStaff) Approve(context.Context, terminal.Approval, string, terminal.Credentials) (string, error) {
	return "", denied(s.err)
}

// shutRegister records nobody, so what needs an identity is not paid.
type shutRegister struct{ err error }

// Record is refused.
func (r shutRegister) Record(context.Context, string, validate.Identification, []validate.Identified) (money.Amount, error) {
	return 0, denied(r.err)
}

// Ready says why not.
func (r shutRegister) Ready() error { return denied(r.err) }

// run locks the idle counter, and erases records whose term has passed, until ctx ends.
func (w *crew) run(ctx context.Context) error {
	ended := make(chan error, 1)
	if w.staff != nil {
		go func() { ended <- w.staff.Run(ctx) }()
	} else {
		ended <- nil
	}
	for w.register != nil && ctx.Err() == nil {
		if n, err := w.register.Erase(ctx, w.keep); err != nil && ctx.Err() == nil {
			w.log.Error("register of identities", "err", err)
		} else if n > 0 {
			w.log.Info("identities erased", "records", n)
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Hour):
		}
	}
	if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// wrongPIN is people's refusal of a wrong PIN, which the counter knows as its own.
type wrongPIN struct{ error }

// Is tells that it is terminal.ErrPIN too.
func (wrongPIN) Is(target error) bool { return target == terminal.ErrPIN }

// Unwrap gives the refusal.
func (w wrongPIN) Unwrap() error { return w.error }

// denied words an error of the people package for the counter.
func denied(err error) error {
	if err == nil {
		return nil
	}
	m := people.Explain(err)
	if errors.Is(err, people.ErrWrong) {
		err = wrongPIN{err}
	}
	return &terminal.Denied{Fault: terminal.Fault{Code: m.Code, ClerkFR: m.ClerkFR, ClerkEN: m.ClerkEN, Technician: m.Technician}, Err: err}
}

// deskStaff is the operators as the counter takes them.
type deskStaff struct{ *people.Staff }

func session(x people.Session) terminal.Session {
	return terminal.Session{Operator: x.Operator, Name: x.Name, Role: string(x.Role), Since: x.Since, Locked: x.Locked, Float: x.Float, Currency: x.Currency}
}

func credentials(c terminal.Credentials) (people.Credentials, error) {
	pin, err := people.ParsePIN(c.PIN)
	return people.Credentials{Operator: c.Operator, PIN: pin}, err
}

// Session is who is signed on.
func (s deskStaff) Session() (*terminal.Session, <-chan struct{}) {
	x, changed := s.Staff.Session()
	if x == nil {
		return nil, changed
	}
	out := session(*x)
	return &out, changed
}

// Acting is who may act now.
func (s deskStaff) Acting() (terminal.Session, error) {
	x, err := s.Staff.Acting()
	return session(x), denied(err)
}

// SignOn begins a session.
func (s deskStaff) SignOn(ctx context.Context, who terminal.Credentials, float money.Amount, currency string) (terminal.Session, error) {
	c, err := credentials(who)
	if err != nil {
		return terminal.Session{}, denied(err)
	}
	x, err := s.Staff.SignOn(ctx, c, float, currency)
	return session(x), denied(err)
}

// SignOff ends the session of whoever may act.
func (s deskStaff) SignOff(ctx context.Context) (terminal.Session, error) {
	x, err := s.Staff.SignOff(ctx)
	return session(x), denied(err)
}

// EndSession ends the session with a manager's PIN.
func (s deskStaff) EndSession(ctx context.Context, manager terminal.Credentials) (terminal.Session, error) {
	c, err := credentials(manager)
	if err != nil {
		return terminal.Session{}, denied(err)
	}
	x, err := s.Staff.EndSession(ctx, c)
	return session(x), denied(err)
}

// Unlock opens the counter with the PIN of whoever is signed on.
func (s deskStaff) Unlock(ctx context.Context, pin string) (terminal.Session, error) {
	p, err := people.ParsePIN(pin)
	if err != nil {
		return terminal.Session{}, denied(err)
	}
	x, err := s.Reopen(ctx, p)
	return session(x), denied(err)
}

// Approve takes a manager's PIN for one act. The machine's owner is nobody here.
func (s deskStaff) Approve(ctx context.Context, act terminal.Approval, about string, by terminal.Credentials) (string, error) {
	c, err := credentials(by)
	if err != nil {
		return "", denied(err)
	}
	id, err := s.Staff.Approve(ctx, people.Act(act), about, c)
	return id, denied(err)
}

// deskRegister is the register as the counter takes it.
type deskRegister struct {
	*people.Register
	span time.Duration
}

// Ready is nil: the register was opened with central's key.
func (r deskRegister) Ready() error { return nil }

// Record stores whom the payments are made to, after it has looked what the same person
// was paid before.
func (r deskRegister) Record(ctx context.Context, operator string, who validate.Identification, payments []validate.Identified) (money.Amount, error) {
	id := people.Identity{Surname: who.Surname, FirstNames: who.FirstNames, Born: who.Born, BirthPlace: who.BirthPlace, Address: who.Address,
		Document: people.Kind(strings.TrimSpace(who.Document)), Number: who.Number, IssuedBy: who.IssuedBy, ValidTo: who.ValidTo}
	if operator == "" {
		operator = "nobody" // a terminal without sign-on
	}
	person, err := r.Person(id)
	if err != nil {
		return 0, denied(err)
	}
	var list []people.Payment
	for _, p := range payments {
		list = append(list, people.Payment{Claim: p.Claim, Amount: p.Amount, Currency: p.Currency})
	}
	linked, err := r.Linked(ctx, operator, person, payments[0].Currency, r.span)
	if err != nil {
		return 0, denied(err)
	}
	_, err = r.Register.Record(ctx, operator, id, list)
	return linked.Sum, denied(err)
}
