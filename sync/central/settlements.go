package central

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	"grattoir/sync/wire"
	"grattoir/validate/policy"
)

// Settlement is a period of the shops' accounts that was closed. It never changes.
type Settlement struct {
	Number   int64       `json:"number"` // from 1, without a gap
	First    policy.Date `json:"-"`
	Last     policy.Date `json:"-"` // both included; days of central's clock in Paris
	Note     string      `json:"note"`
	Lines    string      `json:"-"`
	Operator string      `json:"operator"`
	Closed   time.Time   `json:"closed"`
}

// Closing is what the text of a settlement that is about to be closed is made from.
type Closing struct {
	Number      int64
	First, Last policy.Date
	Operator    string
	Closed      time.Time
	Before      Settlement // the one before, zero for none
	Previous    string     // SHA-256 of its head's note, "" for none
}

// CloseSettlement closes the period from first to last. Make makes its head and lines from
// the state that tx sees, and writes nothing; central signs the head with the key that
// signs snapshots. Periods are closed in turn, each from the day after the one before, and
// only when their last day is over. Errors include ErrRefused.
func (c *Central) CloseSettlement(ctx context.Context, first, last policy.Date, operator string, make func(ctx context.Context, tx *sql.Tx, x Closing) (head, lines string, err error)) (Settlement, error) {
	fail := func(err error) (Settlement, error) {
		return Settlement{}, fmt.Errorf("settlement %v to %v: %w", first, last, err)
	}
	now := c.opt.Now().UTC().Truncate(time.Millisecond)
	switch {
	case operator == "" || len(operator) > 64:
		return fail(fmt.Errorf("%w: an act needs the name of its operator, at most 64 bytes", ErrRefused))
	case strings.ContainsFunc(operator, func(r rune) bool { return !unicode.IsPrint(r) }):
		return fail(fmt.Errorf("%w: the operator's name has a character that does not print", ErrRefused))
	case last.Before(first):
		return fail(fmt.Errorf("%w: the last day comes before the first", ErrRefused))
	case !last.Before(policy.DayInParis(now)):
		return fail(fmt.Errorf("%w: its last day is not over: close it from %v on", ErrRefused, last.Add(1)))
	}
	s := Settlement{First: first, Last: last, Operator: operator, Closed: now}
	err := c.store.change(ctx, func(ctx context.Context, tx *sql.Tx) error {
		number, err := take(ctx, tx, settlementsMade) // and no other is closed meanwhile
		if err != nil {
			return err
		}
		x := Closing{Number: number, First: first, Last: last, Operator: operator, Closed: now}
		if number > 1 {
			if x.Before, err = scanSettlement(tx.QueryRowContext(ctx, settlementQuery+" WHERE number = $1", number-1)); err != nil {
				return err
			}
			if want := x.Before.Last.Add(1); first != want {
				return fmt.Errorf("%w: settlement %d ended on %v: the next one begins on %v", ErrRefused, number-1, x.Before.Last, want)
			}
			sum := sha256.Sum256([]byte(x.Before.Note))
			x.Previous = hex.EncodeToString(sum[:])
		}
		head, lines, err := make(ctx, tx, x)
		if err != nil {
			return err
		}
		if s.Note, err = c.keys.sign(head); err != nil {
			return fmt.Errorf("sign it: %w", err)
		}
		s.Number, s.Lines = number, lines
		_, err = tx.ExecContext(ctx, "INSERT INTO settlements(number, first_day, last_day, note, lines, operator, closed) VALUES($1, $2, $3, $4, $5, $6, $7)",
			number, first.String(), last.String(), s.Note, lines, operator, wire.FormatTime(now))
		return err
	})
	if err != nil {
		return fail(err)
	}
	c.opt.Log.Info("settlement closed", "number", s.Number, "first", first, "last", last, "operator", operator)
	return s, nil
}

const settlementQuery = "SELECT number, first_day, last_day, note, lines, operator, closed FROM settlements"

func scanSettlement(row scanner) (Settlement, error) {
	var s Settlement
	var first, last, closed string
	if err := row.Scan(&s.Number, &first, &last, &s.Note, &s.Lines, &s.Operator, &closed); err != nil {
		return s, err
	}
	var err1, err2, err3 error
	s.First, err1 = policy.ParseDate(first)
	s.Last, err2 = policy.ParseDate(last)
	s.Closed, err3 = wire.ParseTime(closed)
	return s, errors.Join(err1, err2, err3)
}

// Settlements lists the closed periods, the newest first, without their lines.
func (c *Central) Settlements(ctx context.Context) ([]Settlement, error) {
	list := []Settlement{}
	err := eachRow(ctx, c.store.reader(), "SELECT number, first_day, last_day, note, '', operator, closed FROM settlements ORDER BY number DESC", func(row scanner) error {
		s, err := scanSettlement(row)
		list = append(list, s)
		return err
	})
	return list, err
}

// Settlement gives one closed period with its lines, or ErrNotFound.
func (c *Central) Settlement(ctx context.Context, number int64) (Settlement, error) {
	s, err := scanSettlement(c.store.reader().QueryRowContext(ctx, settlementQuery+" WHERE number = $1", number))
	if errors.Is(err, sql.ErrNoRows) {
		return s, fmt.Errorf("settlement %d: %w: central settlement list shows the numbers", number, ErrNotFound)
	}
	return s, err
}
