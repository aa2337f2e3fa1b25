package report

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"grattoir/sync/wire"
)

// Change is since when a terminal has run a program and had a publication, as it told at its
// hellos, by central's clock.
type Change struct {
	At       time.Time
	Program  string
	Snapshot int64
}

// Issued is when a publication became the newest.
type Issued struct {
	Version int64
	At      time.Time
}

// Changes gives a terminal's changes since an instant, oldest first, with the one that held
// then before them; and the publications of that time, with the newest of before.
func Changes(ctx context.Context, db *sql.DB, terminal string, since time.Time) (changes []Change, issued []Issued, err error) {
	err = reading(ctx, db, func(tx *sql.Tx) error {
		err := each(ctx, tx, `SELECT at, program, snapshot FROM terminal_changes WHERE terminal = $1
			AND at >= (SELECT coalesce(max(c.at), '') FROM terminal_changes c WHERE c.terminal = $1 AND c.at <= $2) ORDER BY at`, []any{terminal, wire.FormatTime(since)}, func(rows *sql.Rows) error {
			var c Change
			var at string
			err := rows.Scan(&at, &c.Program, &c.Snapshot)
			if err == nil {
				c.At, err = wire.ParseTime(at)
			}
			changes = append(changes, c)
			return err
		})
		if err != nil {
			return fmt.Errorf("changes of terminal %s: %w", terminal, err)
		}
		err = each(ctx, tx, "SELECT version, issued FROM snapshots WHERE issued >= (SELECT coalesce(max(s.issued), '') FROM snapshots s WHERE s.issued <= $1) ORDER BY version", []any{wire.FormatTime(since)}, func(rows *sql.Rows) error {
			var i Issued
			var at string
			err := rows.Scan(&i.Version, &at)
			if err == nil {
				i.At, err = wire.ParseTime(at)
			}
			issued = append(issued, i)
			return err
		})
		if err != nil {
			return fmt.Errorf("snapshots: %w", err)
		}
		return nil
	})
	return changes, issued, err
}
