package central

import (
	"context"
	"database/sql"
)

// revoke notes that a terminal is refused from now on, for every process that serves it.
func revoke(ctx context.Context, tx *sql.Tx, name, now, reason string) error {
	number, err := take(ctx, tx, revoked)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, "INSERT INTO revocations(number, terminal, reason, at) VALUES($1, $2, $3, $4)", number, name, reason, now)
	return err
}
