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
// its head fits its chain. It refuses a file of another terminal or a newer program with
// ErrNotOurs, and a second process with ErrLocked; for the rest there is Salvage.
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
	l := &Ledger{opt: opt, lock: lock, changed: make(chan struct{}), intents: make(chan struct{})}
	if !opt.ClaimKey.IsZero() {
		if l.prepared.sealer, err = NewSealer(opt.ClaimKey); err != nil {
			return nil, errors.Join(err, lock.release())
		}
	}
	if f, err := os.OpenFile(opt.Path, os.O_CREATE|os.O_RDWR, 0o600); err != nil { // SQLite would let the umask decide
		return nil, errors.Join(err, lock.release())
	} else if l.file, err = f.Stat(); err != nil {
		return nil, errors.Join(err, f.Close(), lock.release())
	} else if err := f.Close(); err != nil {
		return nil, errors.Join(err, lock.release())
	}
	l.db, l.read = sql.OpenDB(connector{opt.Path, false, opt.hooks}), sql.OpenDB(connector{opt.Path, true, opt.hooks})
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
		return fmt.Errorf("%w: put it back from its copy; only to begin a journal anew, with every earlier payment forgotten, take %s away", ErrGone, l.lock.f.Name())
	case version == 0 && id == 0:
		if err := l.create(ctx); err != nil {
			return fmt.Errorf("create: %w", err)
		}
	case id != applicationID:
		return fmt.Errorf("%w: not a ledger (application id %#x)", ErrDamaged, id)
	case version < 1: // a flipped bit of it; no program writes one
		return fmt.Errorf("%w: its schema is numbered %d", ErrDamaged, version)
	case version > len(migrations):
		return fmt.Errorf("%w: schema %d is of a newer program, this one knows %d: install the newer program again", ErrNotOurs, version, len(migrations))
	}
	var terminal string
	if err := l.db.QueryRowContext(ctx, "SELECT terminal, epoch FROM meta").Scan(&terminal, &l.epoch); err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if terminal != l.opt.Terminal {
		return fmt.Errorf("%w: it is the ledger of terminal %q, not of %q", ErrNotOurs, clean(terminal), l.opt.Terminal)
	}
	if err := l.settle(ctx); err != nil {
		return err
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
	if err := errors.Join(l.loadCounts(ctx), l.loadTraining(ctx)); err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return l.lock.remember(terminal)
}

// settle makes durable whatever is readable, and begins the write-ahead log anew. A
// program killed between a commit's last write and its sync leaves a claim that the next
// one reads, prints and sends, and that a power cut could still take away. A new log also
// keeps the next commit out of the sector in which the last one may end. On a full disk
// the log is synced before the first page would need room, which is what counts.
func (l *Ledger) settle(ctx context.Context) error {
	var busy, frames, moved int64
	err := l.db.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &frames, &moved)
	if code, is := errors.AsType[sqlite3.Error](err); is && code.Code == sqlite3.ErrFull {
		return nil
	}
	if err == nil && busy != 0 {
		err = errors.New("somebody reads it")
	}
	if err != nil {
		return fmt.Errorf("%w: make its log durable: %w", ErrNotWritable, err)
	}
	return nil
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
	hooks    hooks
}

// hooks let the tests of this package put another disk under a ledger, and weaken it.
// The zero hooks are the real thing.
type hooks struct {
	vfs         string // of SQLite, by name
	synchronous string // in place of FULL
	believing   bool   // in powersafe overwrites, as SQLite does by default
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
	only, lock := "0", "immediate"
	if c.readOnly {
		only, lock = "1", "deferred"
	}
	dsn := (&url.URL{Scheme: "file", Path: abs,
		RawQuery: "_query_only=" + only + "&_journal_mode=WAL&_synchronous=FULL&_busy_timeout=5000&_foreign_keys=1&_stmt_cache_size=96&_cache_size=-1024&_txlock=" + lock + c.hooks.query()}).String()
	d := sqlite3.SQLiteDriver{ConnectHook: func(conn *sqlite3.SQLiteConn) error {
		for _, p := range []string{"trusted_schema = OFF", "cell_size_check = ON", "mmap_size = 0", "wal_autocheckpoint = 200", "journal_size_limit = 4194304"} {
			if _, err := conn.Exec("PRAGMA "+p, nil); err != nil {
				return fmt.Errorf("PRAGMA %s: %w", p, err)
			}
		}
		for name, want := range pragmas {
			if name == "synchronous" && c.hooks.synchronous != "" {
				continue
			}
			if got, err := ReadPragma(conn, name); err != nil || got != want {
				return fmt.Errorf("PRAGMA %s is %q, must be %q: %w", name, got, want, errors.Join(err, ErrNotWritable))
			}
		}
		return nil
	}}
	return d.Open(dsn)
}

func (h hooks) query() (q string) {
	if h.vfs != "" {
		q += "&vfs=" + url.QueryEscape(h.vfs)
	}
	if h.synchronous != "" {
		q += "&_sync=" + h.synchronous
	}
	if !h.believing {
		// A card may spoil the whole sector that it is writing when the power goes. SQLite
		// then begins each commit on a sector of its own, for one or two more frames.
		q += "&psow=0"
	}
	return q
}

func (c connector) Driver() driver.Driver { return &sqlite3.SQLiteDriver{} }

// ReadPragma is what a connection has for a pragma, as text. Whoever opens a file sets its
// pragmas and reads them back: SQLite passes over what it does not know without a word.
func ReadPragma(conn *sqlite3.SQLiteConn, name string) (string, error) {
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
	return l.note("ledger of terminal " + terminal)
}

func (l *lockFile) note(what string) error {
	if l.remembers() {
		return nil
	}
	if _, err := l.f.WriteString(what + " exists\n"); err != nil {
		return err
	}
	return l.f.Sync()
}

// release lets another process in. No lock is none to release.
func (l *lockFile) release() error {
	if l == nil {
		return nil
	}
	return unlock(l.f)
}

// unlock gives a lock back and closes its file. Closing alone would leave it held while a
// child process that is just being started still has the descriptor.
func unlock(f *os.File) error {
	return errors.Join(unix.Flock(int(f.Fd()), unix.LOCK_UN), f.Close())
}
