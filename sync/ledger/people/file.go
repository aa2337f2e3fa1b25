package people

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/mattn/go-sqlite3"

	"grattoir/sync/ledger"
)

// fileKind is one of the package's files: steps[n] leads from version n to n+1.
type fileKind struct {
	name  string
	id    int // SQLite's application_id
	steps [][]string
}

// common begins every file's first version. A file is dirty between a removal and the
// scrub that makes the removed bytes unreadable.
var common = [...]string{
	`CREATE TABLE meta(one INTEGER PRIMARY KEY CHECK(one = 1), terminal TEXT NOT NULL, dirty INTEGER NOT NULL DEFAULT 0) STRICT`,
	`CREATE TABLE audit(seq INTEGER PRIMARY KEY, line TEXT NOT NULL, hash BLOB NOT NULL) STRICT`,
	`CREATE TRIGGER audit_stays BEFORE UPDATE ON audit BEGIN SELECT raise(ABORT, 'the audit is never changed'); END`,
	`CREATE TRIGGER audit_kept BEFORE DELETE ON audit BEGIN SELECT raise(ABORT, 'the audit is never shortened'); END`,
}

// file is an open file with its audit.
type file struct {
	*ledger.Beside
	kind     fileKind
	path     string
	terminal string
	moment   func() ledger.Moment
}

// disk is what lies under a file: the zero disk is the machine's own, as a terminal has it.
type disk struct{ vfs, synchronous string }

type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// openFile opens, creates or brings forward a file, and checks it whole: it is small.
func openFile(ctx context.Context, path string, kind fileKind, terminal string, moment func() ledger.Moment, under disk) (*file, error) {
	if terminal == "" || len(terminal) > 64 {
		return nil, errors.New("a terminal's name has 1 to 64 bytes")
	}
	// Removed bytes are overwritten, and nothing of the file is copied to a temporary one.
	b, err := ledger.OpenBeside(path, ledger.BesideOptions{Pragmas: map[string]string{"secure_delete": "1", "temp_store": "2"}, VFS: under.vfs, Synchronous: under.synchronous})
	if errors.Is(err, ledger.ErrLocked) {
		return nil, ErrInUse
	}
	if err != nil {
		return nil, err
	}
	f := &file{b, kind, path, terminal, moment}
	if err := f.load(ctx); err != nil {
		return nil, errors.Join(damage(err), f.Close())
	}
	return f, nil
}

// damage names what SQLite finds wrong with the bytes of a file.
func damage(err error) error {
	var code sqlite3.Error
	if errors.As(err, &code) && (code.Code == sqlite3.ErrCorrupt || code.Code == sqlite3.ErrNotADB) {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return err
}

func (f *file) load(ctx context.Context) error {
	var version, id int
	if err := f.DB.QueryRowContext(ctx, "SELECT user_version, application_id FROM pragma_user_version, pragma_application_id").Scan(&version, &id); err != nil {
		return err
	}
	switch {
	case version == 0 && id == 0 && f.Remembered():
		return fmt.Errorf("%w: it is empty or gone, though this terminal had one: put it back from its copy; only to begin anew take %s away", ErrDamaged, f.LockPath())
	case version == 0 && id == 0:
		if err := f.create(ctx); err != nil {
			return fmt.Errorf("create: %w", err)
		}
	case id != f.kind.id:
		return fmt.Errorf("%w: it is no file of %s (application id %#x)", ErrDamaged, f.kind.name, id)
	case version < 1: // a flipped bit of it; no program writes one
		return fmt.Errorf("%w: its version is %d", ErrDamaged, version)
	case version > len(f.kind.steps):
		return fmt.Errorf("version %d is of a newer program, this one knows %d: install the newer program again", version, len(f.kind.steps))
	case version < len(f.kind.steps):
		if err := f.forward(ctx, version); err != nil {
			return fmt.Errorf("bring version %d forward: %w", version, err)
		}
	}
	if err := f.check(ctx, f.DB); err != nil {
		return err
	}
	if err := f.cleanUp(ctx); err != nil {
		return err
	}
	return f.Remember(f.kind.name + " of terminal " + f.terminal)
}

// create makes all tables in one transaction: the file appears whole or not at all.
func (f *file) create(ctx context.Context) error {
	err := f.write(ctx, func(tx *sql.Tx) error {
		if err := f.run(ctx, tx, append([]string{fmt.Sprintf("PRAGMA application_id = %d", f.kind.id)}, common[:]...)); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "INSERT INTO meta(one, terminal) VALUES(1, ?)", f.terminal); err != nil {
			return err
		}
		return f.steps(ctx, tx, 0)
	})
	return errors.Join(err, syncDir(filepath.Dir(f.path)))
}

func (f *file) steps(ctx context.Context, tx *sql.Tx, from int) error {
	for _, step := range f.kind.steps[from:] {
		if err := f.run(ctx, tx, step); err != nil {
			return err
		}
	}
	return f.run(ctx, tx, []string{fmt.Sprintf("PRAGMA user_version = %d", len(f.kind.steps))})
}

func (f *file) run(ctx context.Context, tx *sql.Tx, statements []string) error {
	for _, s := range statements {
		if _, err := tx.ExecContext(ctx, s); err != nil {
			return fmt.Errorf("%.40s: %w", s, err)
		}
	}
	return nil
}

func (f *file) copyPath(version int) string { return fmt.Sprintf("%s.v%d-copy", f.path, version) }

// forward migrates the file. A copy of it lies beside until the migrated file was
// checked; what fails leaves both the file and the copy as they were.
func (f *file) forward(ctx context.Context, version int) error {
	if err := f.check(ctx, f.DB); err != nil {
		return err
	}
	spare := f.copyPath(version)
	if err := os.Remove(spare); err != nil && !errors.Is(err, os.ErrNotExist) { // of a migration that was cut
		return err
	}
	dst, err := os.OpenFile(spare, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer dst.Close()
	if _, err := f.DB.ExecContext(ctx, "VACUUM INTO ?", spare); err != nil {
		return fmt.Errorf("copy to %s: %w", spare, err)
	}
	if err := errors.Join(dst.Sync(), syncDir(filepath.Dir(spare))); err != nil {
		return fmt.Errorf("copy to %s: %w", spare, err)
	}
	err = f.write(ctx, func(tx *sql.Tx) error {
		if err := f.steps(ctx, tx, version); err != nil {
			return err
		}
		return f.check(ctx, tx)
	})
	if err != nil {
		return fmt.Errorf("%w (nothing is lost: the file is as it was, a copy is %s)", err, spare)
	}
	return nil
}

// check looks at every page and reference, and at the newest audit lines.
func (f *file) check(ctx context.Context, q querier) error {
	var answer string
	if err := q.QueryRowContext(ctx, "PRAGMA integrity_check(1)").Scan(&answer); err != nil || answer != "ok" {
		return fmt.Errorf("%w: %s: %w", ErrDamaged, answer, errors.Join(err, errIf(err == nil, errors.New("put it back from its copy"))))
	}
	var broken int
	if err := q.QueryRowContext(ctx, "SELECT count(*) FROM pragma_foreign_key_check").Scan(&broken); err != nil || broken > 0 {
		return fmt.Errorf("%w: %d broken references: %w", ErrDamaged, broken, errors.Join(err, errIf(err == nil, errors.New("put it back from its copy"))))
	}
	var terminal string
	if err := q.QueryRowContext(ctx, "SELECT terminal FROM meta").Scan(&terminal); err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if terminal != f.terminal {
		return fmt.Errorf("it is the file of terminal %q, not of %q", terminal, f.terminal)
	}
	var newest int64
	if err := q.QueryRowContext(ctx, "SELECT coalesce(max(seq), 0) FROM audit").Scan(&newest); err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return walk(ctx, q, f.terminal, max(0, newest-tail), nil)
}

// cleanUp takes away copies that a migration has left, and ends a scrub that was cut.
func (f *file) cleanUp(ctx context.Context) error {
	for v := 1; v < len(f.kind.steps); v++ {
		if err := os.Remove(f.copyPath(v)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	var dirty bool
	if err := f.DB.QueryRowContext(ctx, "SELECT dirty FROM meta").Scan(&dirty); err != nil {
		return err
	}
	if !dirty {
		return nil
	}
	return f.scrub(ctx)
}

// write runs do in a transaction that is durable when write returns nil. It is not tied
// to ctx: once begun it ends by itself, and a caller who left must not leave doubt behind.
// What do returns is returned as it is; the disk's own errors are ErrNotWritable.
func (f *file) write(ctx context.Context, do func(*sql.Tx) error) error {
	tx, err := f.DB.BeginTx(context.WithoutCancel(ctx), nil)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNotWritable, err)
	}
	defer func() { _ = tx.Rollback() }()
	if err := do(tx); err != nil {
		var code sqlite3.Error
		if errors.As(err, &code) {
			return fmt.Errorf("%w: %w", ErrNotWritable, damage(err))
		}
		return err
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("%w: %w", ErrNotWritable, err)
	}
	return nil
}

// soil notes, in the transaction that removes something, that a scrub is owed.
func (f *file) soil(ctx context.Context, tx *sql.Tx) error {
	_, err := tx.ExecContext(ctx, "UPDATE meta SET dirty = 1")
	return err
}

// scrub makes removed bytes unreadable: secure_delete has overwritten them in the pages,
// VACUUM rewrites pages whose slack may still hold some, and the truncated log forgets
// the earlier states of both. A cut between is made good at the next open.
func (f *file) scrub(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	if _, err := f.DB.ExecContext(ctx, "VACUUM"); err != nil {
		return fmt.Errorf("%w: removed, but its bytes are wiped only at the next start: %w", ErrNotWritable, err)
	}
	var busy, log, moved int
	if err := f.DB.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &log, &moved); err != nil || busy != 0 {
		return fmt.Errorf("%w: removed, but its bytes are wiped only at the next start (busy %d): %w", ErrNotWritable, busy, errors.Join(err, errIf(err == nil, ErrInUse)))
	}
	return f.write(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE meta SET dirty = 0")
		return err
	})
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// timeLayout is RFC 3339 in UTC with milliseconds, as in the journal.
const timeLayout = "2006-01-02T15:04:05.000Z"

// timeText is empty for no time, and for a clock gone wild: it is a hint only.
func timeText(t time.Time) string {
	t = t.UTC()
	if t.IsZero() || t.Year() < 0 || t.Year() > 9999 {
		return ""
	}
	return t.Format(timeLayout)
}

func parseTime(s string) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	return time.Parse(timeLayout, s)
}

func hashLine(line []byte) [sha256.Size]byte { return sha256.Sum256(line) }
