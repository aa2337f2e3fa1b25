package ledger

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"github.com/mattn/go-sqlite3"
	"golang.org/x/sys/unix"
)

const (
	applicationID = 0x47524c44 // "GRLD"

	// minSQLite is the first version without the race that loses commits when a
	// write-ahead log is reset.
	minSQLite = 3051003
)

// Open opens the ledger at opt.Path, creating it when there is none, and checks that
// its head fits its chain. It refuses a file of another terminal or a newer program,
// and a second process.
func Open(ctx context.Context, opt Options) (*Ledger, error) {
	l, err := open(ctx, opt)
	if err != nil {
		return nil, fmt.Errorf("ledger %s: %w", opt.Path, err)
	}
	return l, nil
}

func open(ctx context.Context, opt Options) (*Ledger, error) {
	if opt.Terminal == "" || len(opt.Terminal) > 64 {
		return nil, errors.New("a terminal's name has 1 to 64 bytes")
	}
	if version, number, _ := sqlite3.Version(); number < minSQLite {
		return nil, fmt.Errorf("SQLite %s can lose commits; build with 3.51.3 or newer", version)
	}
	lock, err := acquire(opt.Path + ".lock")
	if err != nil {
		return nil, err
	}
	l := &Ledger{opt: opt, lock: lock, changed: make(chan struct{})}
	if f, err := os.OpenFile(opt.Path, os.O_CREATE|os.O_RDWR, 0o600); err != nil { // SQLite would let the umask decide
		return nil, errors.Join(err, lock.release())
	} else if err := f.Close(); err != nil {
		return nil, errors.Join(err, lock.release())
	}
	l.db, l.read = sql.OpenDB(connector{opt.Path, false}), sql.OpenDB(connector{opt.Path, true})
	l.db.SetMaxOpenConns(1)
	l.read.SetMaxOpenConns(2)
	if err := l.load(ctx); err != nil {
		return nil, errors.Join(err, l.read.Close(), l.db.Close(), lock.release())
	}
	return l, nil
}

func (l *Ledger) load(ctx context.Context) error {
	var version, id int
	if err := l.db.QueryRowContext(ctx, "SELECT user_version, application_id FROM pragma_user_version, pragma_application_id").Scan(&version, &id); err != nil {
		return err
	}
	switch {
	case version == 0 && id == 0 && l.lock.remembers():
		return fmt.Errorf("%w: it is empty or gone, though this terminal had one: put it back from its copy; only to begin a journal anew, with every earlier payment forgotten, take %s away",
			ErrDamaged, l.lock.f.Name())
	case version == 0 && id == 0:
		if err := l.create(ctx); err != nil {
			return fmt.Errorf("create: %w", err)
		}
	case id != applicationID:
		return fmt.Errorf("%w: not a ledger (application id %#x)", ErrDamaged, id)
	case version > len(migrations):
		return fmt.Errorf("schema %d is of a newer program, this one knows %d: install the newer program again", version, len(migrations))
	}
	var terminal string
	if err := l.db.QueryRowContext(ctx, "SELECT terminal, epoch FROM meta").Scan(&terminal, &l.epoch); err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if terminal != l.opt.Terminal {
		return fmt.Errorf("it is the ledger of terminal %q, not of %q", clean(terminal), l.opt.Terminal)
	}
	if 0 < version && version < len(migrations) {
		if err := l.migrate(ctx, version, migrations); err != nil {
			return err
		}
	}
	if err := l.loadAllowance(ctx); err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if err := l.loadHead(ctx); err != nil {
		return err
	}
	if err := l.loadCounts(ctx); err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return l.lock.remember(terminal)
}

// loadHead reads the newest entry and holds it against the hash stored beside it and
// the entry before. The whole chain is Verify's.
func (l *Ledger) loadHead(ctx context.Context) error {
	rows, err := l.db.QueryContext(ctx, "SELECT seq, line, hash FROM entries WHERE epoch = ? ORDER BY seq DESC LIMIT 2", l.epoch)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	defer rows.Close()
	var wantPrev string
	for n := 0; rows.Next(); n++ {
		var seq int64
		var line, hash []byte
		if err := rows.Scan(&seq, &line, &hash); err != nil {
			return fmt.Errorf("%w: %w", ErrDamaged, err)
		}
		e, err := ParseEntry(line)
		if err != nil {
			return fmt.Errorf("%w: entry %d: %w", ErrDamaged, seq, err)
		}
		h := hashLine(line)
		if string(hash) != string(h[:]) || e.Seq != seq || (n > 0 && wantPrev != h.String()) {
			return fmt.Errorf("%w: the chain breaks at entry %d: run terminalctl journal verify", ErrDamaged, seq)
		}
		if n == 0 {
			l.seq, l.prev, wantPrev = seq, h, e.Prev
		}
	}
	return rows.Err()
}

// create makes the tables. The file appears whole or not at all: it is one transaction.
func (l *Ledger) create(ctx context.Context) error {
	tx, err := l.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(ctx, fmt.Sprintf("PRAGMA application_id = %d", applicationID)); err != nil {
		return err
	}
	if err := runSteps(ctx, tx, 0, migrations); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "INSERT INTO meta(terminal, epoch) VALUES(?, 1)", l.opt.Terminal); err != nil {
		return err
	}
	for _, s := range []string{"INSERT INTO acks(epoch, seq) VALUES(1, 0)", "INSERT INTO link(one, cursor, snapshot, issued) VALUES(1, 0, 0, '')"} {
		if _, err := tx.ExecContext(ctx, s); err != nil {
			return err
		}
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	return syncDir(filepath.Dir(l.opt.Path))
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// connector opens connections with the pragmas that make a commit durable, and reads
// each of them back: the driver ignores a key it does not know.
type connector struct {
	path     string
	readOnly bool
}

// pragmas are read back on every connection. Synchronous 2 is FULL: in WAL mode the
// log is synced at each commit, so an acknowledged claim survives a power cut.
var pragmas = map[string]string{
	"journal_mode":       "wal",
	"synchronous":        "2",
	"foreign_keys":       "1",
	"trusted_schema":     "0",
	"cell_size_check":    "1",
	"mmap_size":          "0",
	"wal_autocheckpoint": "200",
	"journal_size_limit": "4194304",
	"cache_size":         "-1024",
}

func (c connector) Connect(context.Context) (driver.Conn, error) {
	abs, err := filepath.Abs(c.path)
	if err != nil {
		return nil, err
	}
	only := "0"
	if c.readOnly {
		only = "1"
	}
	dsn := (&url.URL{Scheme: "file", Path: abs,
		RawQuery: "_query_only=" + only + "&_journal_mode=WAL&_synchronous=FULL&_busy_timeout=5000&_txlock=immediate&_foreign_keys=1&_stmt_cache_size=32&_cache_size=-1024"}).String()
	d := sqlite3.SQLiteDriver{ConnectHook: func(conn *sqlite3.SQLiteConn) error {
		for _, p := range []string{"trusted_schema = OFF", "cell_size_check = ON", "mmap_size = 0", "wal_autocheckpoint = 200", "journal_size_limit = 4194304"} {
			if _, err := conn.Exec("PRAGMA "+p, nil); err != nil {
				return fmt.Errorf("PRAGMA %s: %w", p, err)
			}
		}
		for name, want := range pragmas {
			if got, err := readPragma(conn, name); err != nil || got != want {
				return fmt.Errorf("PRAGMA %s is %q, must be %q: %w", name, got, want, errors.Join(err, ErrNotWritable))
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

// lockFile keeps a second process out for as long as this one lives, however it ends.
type lockFile struct{ f *os.File }

func acquire(path string) (*lockFile, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("%w (lock %s): terminald runs on it, or terminalctl journal reads it: stop the one or let the other end", ErrLocked, path)
		}
		return nil, err
	}
	return &lockFile{f}, nil
}

// remembers tells whether a ledger was made beside this file before. A ledger that is
// gone must not be taken for a terminal's first start: every paid ticket would win again.
func (l *lockFile) remembers() bool {
	info, err := l.f.Stat()
	return err != nil || info.Size() > 0
}

// remember notes, once and durably, that the ledger exists.
func (l *lockFile) remember(terminal string) error {
	if l.remembers() {
		return nil
	}
	if _, err := l.f.WriteString("ledger of terminal " + terminal + " exists\n"); err != nil {
		return err
	}
	return l.f.Sync()
}

func (l *lockFile) release() error { return l.f.Close() }
