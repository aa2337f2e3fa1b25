package central

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"

	"grattoir/sync/wire"
)

// What reports need to have been written down at its time: when a terminal was not heard
// and when it had which fault, and what it tells of the tickets that were looked at.

// CodeSilent is, in the table outages, the code of the outages in which a terminal was not heard.
const CodeSilent = "no-contact"

// Causes of a silence, as far as the hello after it tells.
const (
	causeLink    = "link"    // the program before and after it is the same run: the line was away
	causeStopped = "stopped" // another run: the device was off, or its program was started again
)

// watch compares a hello with the one before, and keeps what began and what ended.
func watch(ctx context.Context, tx *sql.Tx, name, now string, h wire.Hello) error {
	var contact string
	var runs, before []byte
	// The row is held: two hellos of one terminal come one after the other.
	err := tx.QueryRowContext(ctx, "UPDATE terminals SET state = state WHERE name = $1 RETURNING contact, runs, faults", name).Scan(&contact, &runs, &before)
	if err != nil {
		return err
	}
	var known []run
	var had []string
	if err := json.Unmarshal(runs, &known); err != nil {
		return fmt.Errorf("terminal %s: its programs: %w", name, err)
	}
	if err := json.Unmarshal(before, &had); err != nil {
		return fmt.Errorf("terminal %s: its faults: %w", name, err)
	}
	cause := ""
	if len(known) > 0 && h.Run != "" {
		if cause = causeStopped; known[0].Name == h.Run {
			cause = causeLink
		}
		// An upload that came before this hello has ended the silence, and knew no cause.
		if _, err := tx.ExecContext(ctx, "UPDATE outages SET cause = $1 WHERE terminal = $2 AND code = $3 AND cause = ''", cause, name, CodeSilent); err != nil {
			return err
		}
	}
	if err := silence(ctx, tx, name, contact, now, cause); err != nil {
		return err
	}
	return faultsChanged(ctx, tx, name, now, had, h.Faults)
}

// silence keeps that a terminal was not heard from its last contact until now, where that
// was long enough to count.
func silence(ctx context.Context, tx *sql.Tx, name, contact, now, cause string) error {
	if contact == "" {
		return nil
	}
	from, err := wire.ParseTime(contact)
	if err != nil {
		return fmt.Errorf("terminal %s: last contact: %w", name, err)
	}
	to, err := wire.ParseTime(now)
	if err != nil || to.Sub(from) < wire.SilentAfter {
		return err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO outages(terminal, code, began, ended, cause) VALUES($1, $2, $3, $4, $5) ON CONFLICT(terminal, code, began) DO NOTHING`,
		name, CodeSilent, contact, now, cause)
	return err
}

// faultsChanged keeps which faults began with this hello and which are gone.
func faultsChanged(ctx context.Context, tx *sql.Tx, name, now string, had, has []string) error {
	for _, code := range has {
		if slices.Contains(had, code) || code == CodeSilent {
			continue
		}
		_, err := tx.ExecContext(ctx, `INSERT INTO outages(terminal, code, began) VALUES($1, $2, $3) ON CONFLICT(terminal, code, began) DO NOTHING`, name, code, now)
		if err != nil {
			return err
		}
	}
	for _, code := range had {
		if slices.Contains(has, code) {
			continue
		}
		if _, err := tx.ExecContext(ctx, "UPDATE outages SET ended = $1 WHERE terminal = $2 AND code = $3 AND ended = ''", now, name, code); err != nil {
			return err
		}
	}
	return nil
}

// keepLooks keeps what a hello tells of the tickets that were looked at. Told again, it
// changes nothing.
func keepLooks(ctx context.Context, tx *sql.Tx, name, now string, h wire.Hello) error {
	for _, l := range h.Looks {
		_, err := tx.ExecContext(ctx, `INSERT INTO looks(terminal, day, reason, entered, number) VALUES($1, $2, $3, $4, $5)
			ON CONFLICT(terminal, day, reason, entered) DO UPDATE SET number = excluded.number WHERE looks.number < excluded.number`,
			name, l.Day, l.Reason, l.Entered, l.Number)
		if err != nil {
			return fmt.Errorf("looks of %s: %w", l.Day, err)
		}
	}
	for _, s := range h.Sightings {
		_, err := tx.ExecContext(ctx, `INSERT INTO sightings(block_id, pack, ticket, terminal, number, reason, entered, operator, seen, received) VALUES($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
			ON CONFLICT(block_id, pack, ticket, terminal, number) DO NOTHING`, s.Block[:], s.Pack, s.Ticket, name, s.Number, s.Reason, s.Entered, plain(s.Operator), s.Seen, now)
		if err != nil {
			return fmt.Errorf("sighting %d: %w", s.Number, err)
		}
	}
	return nil
}
