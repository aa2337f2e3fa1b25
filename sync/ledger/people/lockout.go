package people

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"grattoir/sync/ledger"
)

// Tries is how many wrong PINs an operator has until somebody else must unlock.
const Tries = 10

// Delay is how long after a wrong PIN the next one is not looked at, by how many were
// wrong since the last right one. It is the same for an operator and for the terminal
// as a whole, over all operators. After Tries an operator is locked out, and at the
// terminal only managers and technicians are heard, after the longest delay each time.
func Delay(failed int) time.Duration {
	switch {
	case failed < 3:
		return 0
	case failed == 3:
		return 30 * time.Second
	case failed == 4:
		return time.Minute
	case failed == 5:
		return 5 * time.Minute
	}
	return 15 * time.Minute
}

// tally counts the wrong PINs of one subject.
type tally struct {
	failed int
	boot   string        // of the last count, or of the first look after a restart
	mono   time.Duration // since that boot
}

// begun gives the tally as of now: where the boot is another one, or the time since boot
// ran backwards, nothing proves that any of the delay has passed, and it begins anew.
func (t tally) begun(now ledger.Moment) tally {
	if t.boot != now.Boot || now.Mono < t.mono {
		t.boot, t.mono = now.Boot, now.Mono
	}
	return t
}

// left is what remains of the delay. The tally must have begun.
func (t tally) left(now ledger.Moment) time.Duration {
	return max(0, Delay(t.failed)-(now.Mono-t.mono))
}

// Subjects of tallies. Ids that do not exist share one, so that typing them fills no disk.
const (
	ofTerminal = "terminal"
	ofUnknown  = "unknown"
)

func subjectOf(operator string) string { return "operator " + operator }

// Refusal is why a PIN was not accepted. errors.Is tells ErrWrong, ErrWait, ErrLockedOut
// and ErrTerminalLocked.
type Refusal struct {
	Reason error
	Wait   time.Duration // until the next PIN is looked at
	Left   int           // tries left to the operator, 0 when locked out
}

func (r *Refusal) Error() string {
	switch {
	case r.Wait > 0:
		return fmt.Sprintf("%v (next try in %v)", r.Reason, r.Wait.Round(time.Second))
	case r.Left > 0:
		return fmt.Sprintf("%v (%d tries left)", r.Reason, r.Left)
	}
	return r.Reason.Error()
}

func (r *Refusal) Unwrap() error { return r.Reason }

// prove looks at an operator's PIN. The try is counted, durably, before the PIN is
// looked at, and taken back when it was right: a power cut between gives no try back.
// Failed of the answer is what the count was before. Whether the operator may do the act
// at all is asked first, so that nobody spends tries on what is refused anyway.
func (s *Staff) prove(ctx context.Context, c Credentials, may func(Operator) bool) (Operator, error) {
	if len(c.PIN.digits) < minPIN {
		return Operator{}, ErrPIN
	}
	ctx = context.WithoutCancel(ctx) // a caller who leaves must not leave a counted try unanswered
	o, stored, err := operator(ctx, s.file.DB, c.Operator)
	known := err == nil
	if err != nil && !errors.Is(err, ErrUnknown) {
		return o, damage(err)
	}
	if known && !may(o) {
		return o, fmt.Errorf("%w: %s is a %s", ErrRole, o.ID, o.Role)
	}
	subject, who := subjectOf(c.Operator), c.Operator
	if !known {
		// What was typed is not written down: it may be a PIN in the wrong field.
		subject, who, stored = ofUnknown, "?", s.opt.cost.Nobody()
	}
	counted, err := s.count(ctx, subject, known && o.Role.rank() >= Manager.rank())
	if err != nil {
		return o, err
	}
	s.passing("counted")
	right, was, err := c.PIN.matches(stored)
	if err != nil {
		return o, err
	}
	s.passing("answered")
	if !right || !known {
		err := s.file.write(ctx, func(tx *sql.Tx) error { return s.file.note(ctx, tx, "refused", who, "") })
		return o, errors.Join(&Refusal{ErrWrong, Delay(counted), max(0, Tries-counted)}, err)
	}
	if err := s.giveBack(ctx, o, c.PIN, was); err != nil {
		return o, err
	}
	if o.Suspended {
		return o, fmt.Errorf("%w: %s", ErrSuspended, o.ID)
	}
	return o, nil
}

// passing lets a test follow an attempt.
func (s *Staff) passing(step string) {
	if s.opt.step != nil {
		s.opt.step(step)
	}
}

// count takes one try from the subject and from the terminal, or refuses it.
func (s *Staff) count(ctx context.Context, subject string, senior bool) (failed int, err error) {
	var refusal error
	err = s.file.write(ctx, func(tx *sql.Tx) error {
		now := s.opt.Moment()
		own, err := begin(ctx, tx, subject, now)
		if err != nil {
			return err
		}
		all, err := begin(ctx, tx, ofTerminal, now)
		if err != nil {
			return err
		}
		left := max(0, Tries-own.failed)
		switch wait := max(own.left(now), all.left(now)); {
		case left == 0:
			refusal = &Refusal{Reason: ErrLockedOut}
		case all.failed >= Tries && !senior:
			refusal = &Refusal{Reason: ErrTerminalLocked}
		case wait > 0:
			refusal = &Refusal{ErrWait, wait, left}
		default:
			failed = own.failed + 1
			return errors.Join(store(ctx, tx, subject, tally{failed, now.Boot, now.Mono}), store(ctx, tx, ofTerminal, tally{all.failed + 1, now.Boot, now.Mono}))
		}
		return nil // and what begin has stored stays
	})
	return failed, errors.Join(refusal, err)
}

// begin reads a tally as of now and stores it where its delay has begun anew.
func begin(ctx context.Context, tx *sql.Tx, subject string, now ledger.Moment) (tally, error) {
	t := tally{boot: now.Boot, mono: now.Mono}
	err := tx.QueryRowContext(ctx, "SELECT failed, boot, mono_ns FROM tries WHERE subject = ?", subject).Scan(&t.failed, &t.boot, &t.mono)
	if errors.Is(err, sql.ErrNoRows) {
		return t, nil
	}
	if err != nil {
		return t, err
	}
	if fresh := t.begun(now); fresh != t {
		t = fresh
		return t, store(ctx, tx, subject, t)
	}
	return t, nil
}

func store(ctx context.Context, tx *sql.Tx, subject string, t tally) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO tries(subject, failed, boot, mono_ns) VALUES(?, ?, ?, ?) ON CONFLICT(subject) DO UPDATE SET failed = excluded.failed, boot = excluded.boot, mono_ns = excluded.mono_ns",
		subject, t.failed, t.boot, t.mono)
	return err
}

func forget(ctx context.Context, tx *sql.Tx, subject string) error {
	_, err := tx.ExecContext(ctx, "DELETE FROM tries WHERE subject = ?", subject)
	return err
}

// giveBack forgets the wrong tries after a right PIN, and makes the hash again when its
// cost is not today's. A suspended operator's right PIN frees nobody but himself.
func (s *Staff) giveBack(ctx context.Context, o Operator, p PIN, was Cost) error {
	hash := ""
	if was != s.opt.cost {
		hash = s.opt.cost.hash(p)
	}
	return s.file.write(ctx, func(tx *sql.Tx) error {
		subjects := []string{subjectOf(o.ID)}
		if !o.Suspended {
			subjects = append(subjects, ofTerminal, ofUnknown)
		}
		for _, subject := range subjects {
			if err := forget(ctx, tx, subject); err != nil {
				return err
			}
		}
		if hash == "" {
			return nil
		}
		_, err := tx.ExecContext(ctx, "UPDATE operators SET pin = ? WHERE id = ?", hash, o.ID)
		return err
	})
}

// restartDelays begins the delays of an earlier boot anew, at the start and not only at
// the next try.
func (s *Staff) restartDelays(ctx context.Context) error {
	return s.file.write(ctx, func(tx *sql.Tx) error {
		now := s.opt.Moment()
		_, err := tx.ExecContext(ctx, "UPDATE tries SET boot = ?1, mono_ns = ?2 WHERE boot <> ?1 OR mono_ns > ?2", now.Boot, now.Mono)
		return err
	})
}
