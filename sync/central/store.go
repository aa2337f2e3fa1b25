package central

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"sync"

	"github.com/mattn/go-sqlite3"
	"github.com/pressly/goose/v3"
)

const (
	applicationID = 0x47524354 // "GRCT"

	// minSQLite is the first version without the race that loses commits when a
	// write-ahead log is reset.
	minSQLite = 3051003

	readers = 4
)

//go:embed schema/sqlite/*.sql
var schema embed.FS

// store is central.db: one writing connection, taken in turn, and readers beside it.
type store struct {
	mu    sync.Mutex
	write *sql.DB
	read  *sql.DB
}

func openStore(ctx context.Context, path string) (*store, error) {
	if version, number, _ := sqlite3.Version(); number < minSQLite {
		return nil, fmt.Errorf("SQLite %s can lose commits; build with 3.51.3 or newer", version)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600) // SQLite would let the umask decide
	if err != nil {
		return nil, err
	}
	if err := f.Close(); err != nil {
		return nil, err
	}
	s := &store{write: sql.OpenDB(connector{path: path}), read: sql.OpenDB(connector{path: path, reads: true})}
	s.write.SetMaxOpenConns(1)
	s.read.SetMaxOpenConns(readers)
	if err := s.migrate(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", filepath.Base(path), err), s.close())
	}
	return s, nil
}

func (s *store) close() error { return errors.Join(s.read.Close(), s.write.Close()) }

func (s *store) migrate(ctx context.Context) error {
	var id int
	var tables int
	if err := s.write.QueryRowContext(ctx, "SELECT application_id, (SELECT count(*) FROM sqlite_schema) FROM pragma_application_id").Scan(&id, &tables); err != nil {
		return err
	}
	if id != applicationID {
		if tables > 0 {
			return fmt.Errorf("not central's database (application id %#x): name another folder", id)
		}
		if _, err := s.write.ExecContext(ctx, fmt.Sprintf("PRAGMA application_id = %d", applicationID)); err != nil {
			return err
		}
	}
	steps, err := fs.Sub(schema, "schema/sqlite")
	if err != nil {
		return err
	}
	// The provider keeps no global state; closing it would close the connection, which is ours.
	p, err := goose.NewProvider(goose.DialectSQLite3, s.write, steps, goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return fmt.Errorf("migrations: %w", err)
	}
	has, known, err := p.GetVersions(ctx)
	if err != nil {
		return fmt.Errorf("migrations: %w", err)
	}
	if has > known {
		return fmt.Errorf("schema %d is of a newer program, this one knows %d: install the newer program again", has, known)
	}
	if _, err := p.Up(ctx); err != nil {
		return fmt.Errorf("migrations: %w", err)
	}
	return nil
}

// change runs act in the one writing transaction. Act may run again when the database
// asks for it, so it has no effect outside tx. Once begun the transaction is not tied to
// ctx: a caller who left must not leave doubt behind.
func (s *store) change(ctx context.Context, act func(ctx context.Context, tx *sql.Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx = context.WithoutCancel(ctx)
	tx, err := s.write.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if err := act(ctx, tx); err != nil {
		return err
	}
	return tx.Commit()
}

// errBusy means that a report still reads what is to be forgotten.
var errBusy = errors.New("somebody reads it")

// forget begins the write-ahead log anew: it still holds pages as they were before
// something was erased.
func (s *store) forget(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var busy, log, moved int
	err := s.write.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &log, &moved)
	if err == nil && busy != 0 {
		err = errBusy
	}
	if err != nil {
		return fmt.Errorf("erased, but the database's log holds the bytes until it is begun anew: %w", err)
	}
	return nil
}

// busy tells whether another process held the database for too long.
func busy(err error) bool {
	var e sqlite3.Error
	return errors.As(err, &e) && (e.Code == sqlite3.ErrBusy || e.Code == sqlite3.ErrLocked)
}

// connector opens connections with the pragmas that make a commit durable, and reads
// each of them back: the driver ignores a key it does not know.
type connector struct {
	path  string
	reads bool
}

// Synchronous 2 is FULL: in WAL mode the log is synced at each commit, so an upload that
// was acknowledged survives a power cut.
func (c connector) pragmas() map[string]string {
	query := "0"
	if c.reads {
		query = "1"
	}
	return map[string]string{
		"journal_mode":       "wal",
		"synchronous":        "2",
		"foreign_keys":       "1",
		"trusted_schema":     "0",
		"cell_size_check":    "1",
		"mmap_size":          "0",
		"journal_size_limit": "67108864",
		"cache_size":         "-16384",
		"query_only":         query,
		"secure_delete":      "1", // an erased identity is overwritten
	}
}

func (c connector) Connect(context.Context) (driver.Conn, error) {
	abs, err := filepath.Abs(c.path)
	if err != nil {
		return nil, err
	}
	lock := "immediate"
	if c.reads {
		lock = "deferred"
	}
	dsn := (&url.URL{Scheme: "file", Path: abs,
		RawQuery: "_journal_mode=WAL&_synchronous=FULL&_busy_timeout=5000&_foreign_keys=1&_stmt_cache_size=64&_cache_size=-16384&_txlock=" + lock}).String()
	d := sqlite3.SQLiteDriver{ConnectHook: func(conn *sqlite3.SQLiteConn) error {
		want := c.pragmas()
		for _, p := range []string{"trusted_schema = OFF", "cell_size_check = ON", "mmap_size = 0", "journal_size_limit = 67108864", "secure_delete = ON", "query_only = " + want["query_only"]} {
			if _, err := conn.Exec("PRAGMA "+p, nil); err != nil {
				return fmt.Errorf("PRAGMA %s: %w", p, err)
			}
		}
		for name, value := range want {
			if got, err := readPragma(conn, name); err != nil || got != value {
				return errors.Join(fmt.Errorf("PRAGMA %s is %q, must be %q", name, got, value), err)
			}
		}
		return nil
	}}
	return d.Open(dsn)
}

func (c connector) Driver() driver.Driver { return &sqlite3.SQLiteDriver{} }

func readPragma(conn *sqlite3.SQLiteConn, name string) (string, error) {
	rows, err := conn.Query("PRAGMA "+name, nil)
	if err != nil {
		return "", err
	}
	defer rows.Close()
	values := make([]driver.Value, len(rows.Columns()))
	if err := rows.Next(values); err != nil {
		return "", err
	}
	return fmt.Sprint(values[0]), nil
}
