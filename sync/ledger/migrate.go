package ledger

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// migrate carries the file from an older schema version forward, in one transaction that
// is committed only when everything in the file has been checked. A copy of the file as
// it was lies beside it before the first change, so that the older program can go on
// with it. When anything fails the file stays as it was, and the error says so.
func (l *Ledger) migrate(ctx context.Context, from int, steps [][]string) error {
	// The reads are of a file that nobody else has open: its lock is held.
	aside, err := l.copyAside(ctx, from)
	if err != nil {
		return fmt.Errorf("schema %d to %d: no copy can be made beside it, so nothing was changed: %w", from, len(steps), err)
	}
	if err := l.stepUp(ctx, from, steps); err != nil {
		return fmt.Errorf("it is left at schema %d, and its copy is %s: %w", from, aside, err)
	}
	return nil
}

func (l *Ledger) stepUp(ctx context.Context, from int, steps [][]string) error {
	tx, err := l.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if err := runSteps(ctx, tx, from, steps); err != nil {
		return err
	}
	if _, err := verify(ctx, tx, steps); err != nil {
		return fmt.Errorf("after the step to schema %d: %w", len(steps), err)
	}
	return tx.Commit()
}

// copyAside makes a whole, synced copy of the file beside it and gives its path. The
// name carries the schema version and what the copy's bytes hash to: no other copy is
// ever overwritten, and a terminal that fails and starts again and again does not fill
// its card with copies of the same.
func (l *Ledger) copyAside(ctx context.Context, version int) (path string, err error) {
	part := l.opt.Path + ".copying"
	defer func() {
		if err != nil {
			_ = os.Remove(part)
		}
	}()
	// SQLite writes into an empty file; made here, it is readable by nobody else.
	f, err := os.OpenFile(part, os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return "", err
	}
	defer f.Close()
	// On the machine's own disk, where the file just made lies, whatever is under the ledger.
	if _, err := l.db.ExecContext(ctx, "VACUUM INTO ?", fileURI(part, "vfs=unix")); err != nil {
		return "", err
	}
	if err := f.Sync(); err != nil {
		return "", err
	}
	if err := checkCopy(ctx, part, version); err != nil {
		return "", err
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	path = fmt.Sprintf("%s.v%d-%x", l.opt.Path, version, sum.Sum(nil)[:6])
	if err := os.Rename(part, path); err != nil {
		return "", err
	}
	return path, syncDir(filepath.Dir(path))
}

// checkCopy proves that a copy is whole before it is relied on.
func checkCopy(ctx context.Context, path string, version int) error {
	db, err := sql.Open("sqlite3", still(path))
	if err != nil {
		return err
	}
	defer db.Close()
	var got, id int
	if err := db.QueryRowContext(ctx, "SELECT user_version, application_id FROM pragma_user_version, pragma_application_id").Scan(&got, &id); err != nil {
		return err
	}
	if got != version || id != applicationID {
		return fmt.Errorf("%w: the copy is of schema %d, not %d", ErrDamaged, got, version)
	}
	return sound(ctx, db)
}
