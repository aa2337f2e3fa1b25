package central

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"grattoir/sync/wire"
)

// Suspension is a game, an emission or a block that no terminal pays for now.
type Suspension struct {
	Game     string    `json:"game"`
	Emission string    `json:"emission"` // "" for all
	Block    int       `json:"block"`    // number in the emission, 0 for all
	Reason   string    `json:"reason"`
	Operator string    `json:"operator"`
	Since    time.Time `json:"since"`
}

// Suspensions lists what is suspended, by game, emission and block.
func (c *Central) Suspensions(ctx context.Context) ([]Suspension, error) {
	list := []Suspension{}
	return list, eachRow(ctx, c.store.reader(), "SELECT game, emission, block, reason, operator, since FROM suspensions ORDER BY game, emission, block", func(row scanner) error {
		var s Suspension
		var since string
		err := row.Scan(&s.Game, &s.Emission, &s.Block, &s.Reason, &s.Operator, &since)
		if err == nil {
			s.Since, err = wire.ParseTime(since)
		}
		list = append(list, s)
		return err
	})
}

// SuspendGame stops the payments of a game, an emission or one block, whichever s names
// with its reason and operator, at every terminal that hears of it. The errors include
// ErrNotFound, where nothing published is meant, and ErrRefused.
func (c *Central) SuspendGame(ctx context.Context, s Suspension) (Suspension, error) {
	if err := checkAct(s.Operator, s.Reason); err != nil {
		return s, fmt.Errorf("suspend %s: %w", s.what(), err)
	}
	s.Since = c.opt.Now().UTC().Truncate(time.Millisecond)
	err := c.suspendGame(ctx, s, true, func(tx *sql.Tx) error {
		done, err := tx.ExecContext(ctx, `INSERT INTO suspensions(game, emission, block, reason, operator, since) VALUES($1, $2, $3, $4, $5, $6)
			ON CONFLICT(game, emission, block) DO NOTHING`, s.Game, s.Emission, s.Block, s.Reason, s.Operator, wire.FormatTime(s.Since))
		return changedOne(done, err, BecauseSuspendedAlready, "it is suspended already; legal now: resume")
	})
	if err != nil {
		return s, fmt.Errorf("suspend %s: %w", s.what(), err)
	}
	c.opt.Log.Info("suspended", "what", s.what(), "reason", s.Reason, "operator", s.Operator)
	return s, nil
}

// ResumeGame lifts exactly such a suspension.
func (c *Central) ResumeGame(ctx context.Context, s Suspension) error {
	err := c.suspendGame(ctx, s, false, func(tx *sql.Tx) error {
		done, err := tx.ExecContext(ctx, "DELETE FROM suspensions WHERE game = $1 AND emission = $2 AND block = $3", s.Game, s.Emission, s.Block)
		return changedOne(done, err, BecauseNotSuspended, "it is not suspended by itself (central game suspensions)")
	})
	if err != nil {
		return fmt.Errorf("resume %s: %w", s.what(), err)
	}
	c.opt.Log.Info("resumed", "what", s.what(), "operator", s.Operator)
	return nil
}

func (c *Central) suspendGame(ctx context.Context, s Suspension, on bool, store func(*sql.Tx) error) error {
	var newest int64
	err := c.store.change(ctx, func(ctx context.Context, tx *sql.Tx) error {
		var n int
		err := tx.QueryRowContext(ctx, "SELECT count(*) FROM blocks WHERE game = $1 AND $2 IN ('', emission) AND (number = $3 OR $4)", s.Game, s.Emission, s.Block, s.Block == 0).Scan(&n)
		switch {
		case err != nil:
			return err
		case s.Block != 0 && s.Emission == "":
			return because(BecauseEmissionMissing, fmt.Errorf("%w: a block's number counts in its emission: name the emission too", ErrRefused))
		case n == 0:
			return because(BecauseBlockUnknown, fmt.Errorf("%w: no block of it is published (central block publish FILE.manifest)", ErrNotFound))
		}
		if err := store(tx); err != nil {
			return err
		}
		newest, err = addFeed(ctx, tx, everyone, c.now(), wire.FeedItem{Kind: wire.FeedSuspension,
			Suspension: &wire.SuspensionItem{Game: s.Game, Emission: s.Emission, Block: s.Block, Suspended: on, Reason: s.Reason}})
		return err
	})
	c.feed.added(newest)
	return err
}

func (s Suspension) what() string {
	text := fmt.Sprintf("game %.40q", s.Game)
	if s.Emission != "" {
		text += fmt.Sprintf(", emission %.20q", s.Emission)
	}
	if s.Block != 0 {
		text += fmt.Sprintf(", block %d", s.Block)
	}
	return text
}

// changedOne is ErrRefused, with why, when a statement changed no row.
func changedOne(done sql.Result, err error, kind Because, why string) error {
	if err != nil {
		return err
	}
	n, err := done.RowsAffected()
	if err == nil && n == 0 {
		err = because(kind, fmt.Errorf("%w: %s", ErrRefused, why))
	}
	return err
}

// checkAct bounds who does an act, and what he says of it.
func checkAct(operator, words string) error {
	switch {
	case operator == "" || len(operator) > 64:
		return because(BecauseOperatorMissing, fmt.Errorf("%w: an act needs the name of its operator, at most 64 bytes", ErrRefused))
	case words == "" || len(words) > wire.MaxReason:
		return because(BecauseReasonBounds, fmt.Errorf("%w: an act needs a reason of 1 to %d bytes", ErrRefused, wire.MaxReason), wire.MaxReason)
	}
	return nil
}

// StopPayments keeps a terminal from paying from the moment it hears of it, also with no
// network and over restarts. It goes on sending its journal and hearing the feed, which
// one whose every request is refused (Suspend) cannot. Resume lets it pay again.
func (c *Central) StopPayments(ctx context.Context, name, reason string) error {
	if reason == "" || len(reason) > wire.MaxReason {
		return because(BecauseReasonBounds, fmt.Errorf("stop the payments of %.64q: %w: a reason has 1 to %d bytes", name, ErrRefused, wire.MaxReason), wire.MaxReason)
	}
	var newest int64
	err := c.store.change(ctx, func(ctx context.Context, tx *sql.Tx) error {
		stopped, _, err := holdTerminal(ctx, tx, name)
		if err == nil && stopped != "" {
			err = because(BecauseStoppedAlready, fmt.Errorf("%w: they are stopped already (%s); legal now: resume", ErrRefused, stopped), stopped)
		}
		if err == nil {
			_, err = tx.ExecContext(ctx, "UPDATE terminals SET stopped = $1 WHERE name = $2", reason, name)
		}
		if err == nil {
			newest, err = c.tellStopped(ctx, tx, name, true, reason)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("stop the payments of %.64q: %w", name, err)
	}
	c.feed.added(newest)
	c.opt.Log.Info("payments stopped", "terminal", name, "reason", reason)
	return nil
}

// Resume lets a terminal pay again whose payments were stopped. One whose every request
// is refused comes back by a new enrolment only: its certificate is revoked.
func (c *Central) Resume(ctx context.Context, name string) error {
	var newest int64
	err := c.store.change(ctx, func(ctx context.Context, tx *sql.Tx) error {
		stopped, state, err := holdTerminal(ctx, tx, name)
		switch {
		case err != nil:
			return err
		case stopped == "" && state == Suspended:
			return because(BecauseTerminalShutOut, fmt.Errorf("%w: every request of it is refused: to let a device in again, central terminal add %s", ErrRefused, name), name)
		case stopped == "":
			return because(BecauseNotStopped, fmt.Errorf("%w: it is %s and its payments are not stopped", ErrRefused, state), state)
		}
		if _, err := tx.ExecContext(ctx, "UPDATE terminals SET stopped = '' WHERE name = $1", name); err != nil {
			return err
		}
		newest, err = c.tellStopped(ctx, tx, name, false, "")
		return err
	})
	if err != nil {
		return fmt.Errorf("resume terminal %.64q: %w", name, err)
	}
	c.feed.added(newest)
	c.opt.Log.Info("terminal resumed", "terminal", name)
	return nil
}

func (c *Central) tellStopped(ctx context.Context, tx *sql.Tx, name string, on bool, reason string) (int64, error) {
	return addFeed(ctx, tx, name, c.now(), wire.FeedItem{Kind: wire.FeedSuspension, Suspension: &wire.SuspensionItem{Suspended: on, Reason: reason}})
}

// holdTerminal reads why a terminal may not pay and the state it is in, and keeps others
// from changing them.
func holdTerminal(ctx context.Context, tx *sql.Tx, name string) (stopped string, state TerminalState, err error) {
	err = tx.QueryRowContext(ctx, "UPDATE terminals SET state = state WHERE name = $1 RETURNING stopped, state", name).Scan(&stopped, &state)
	if errors.Is(err, sql.ErrNoRows) {
		err = because(BecauseTerminalUnknownHere, fmt.Errorf("%w: central terminal list shows the names", ErrNotFound))
	}
	return stopped, state, err
}
