package central

import (
	"context"
	"database/sql"
	"time"

	"grattoir/sync/wire"
)

// keepChanges is how long a terminal's changes of program and publication are kept.
const keepChanges = 180 * 24 * time.Hour

// noteChange keeps when a terminal began to run its program and to have its publication,
// before its row is told.
func noteChange(ctx context.Context, tx *sql.Tx, name string, now time.Time, h wire.Hello) error {
	done, err := tx.ExecContext(ctx, `INSERT INTO terminal_changes(terminal, at, program, snapshot)
		SELECT name, CAST($1 AS TEXT), CAST($2 AS TEXT), CAST($3 AS BIGINT) FROM terminals WHERE name = $4 AND (program <> $5 OR snapshot <> $6) ON CONFLICT(terminal, at) DO NOTHING`,
		wire.FormatTime(now), h.Program, h.Snapshot, name, h.Program, h.Snapshot)
	if err != nil {
		return err
	}
	if n, err := done.RowsAffected(); err != nil || n == 0 {
		return err
	}
	_, err = tx.ExecContext(ctx, "DELETE FROM terminal_changes WHERE terminal = $1 AND at < (SELECT max(c.at) FROM terminal_changes c WHERE c.terminal = $2 AND c.at < $3)",
		name, name, wire.FormatTime(now.Add(-keepChanges)))
	return err
}
