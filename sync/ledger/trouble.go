package ledger

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"

	"github.com/mattn/go-sqlite3"
	"golang.org/x/sys/unix"

	"grattoir/validate"
)

// Trouble is what keeps a ledger from committing, as a class that has words for people.
type Trouble string

// The troubles there are.
const (
	TroubleFull     Trouble = "full"      // no room on its disk, or less than the reserve
	TroubleReadOnly Trouble = "read-only" // its file or file system cannot be written
	TroubleDamaged  Trouble = "damaged"   // it does not hold what it should
	TroubleGone     Trouble = "gone"      // empty or away, though there was one
	TroubleDoubt    Trouble = "doubt"     // a commit ended in an error: only a new start tells what is on disk
	TroubleDisk     Trouble = "disk"      // its disk fails
	TroubleAudit    Trouble = "audit"     // its claims are being looked through after the start
	TroubleTraining Trouble = "training"  // training is on
)

// Troubles are all of them.
func Troubles() []Trouble {
	return []Trouble{TroubleFull, TroubleReadOnly, TroubleDamaged, TroubleGone, TroubleDoubt, TroubleDisk, TroubleAudit, TroubleTraining}
}

var (
	// ErrNotOurs means a whole ledger that this terminal's program must not touch: of
	// another terminal, or of a newer program.
	ErrNotOurs = errors.New("not this terminal's ledger")
	// ErrDoubt means that a commit ended in an error and may have reached the disk.
	ErrDoubt = errors.New("an earlier commit ended in doubt")
	// ErrUnaudited means that Audit has not found every claim yet.
	ErrUnaudited = errors.New("its claims are being looked through")
)

// TroubleOf is the class of an error of Open, Record or Writable. What nothing else
// explains is the disk's.
func TroubleOf(err error) Trouble {
	code, _ := errors.AsType[sqlite3.Error](err)
	errno, found := errors.AsType[unix.Errno](err)
	if !found {
		errno = code.SystemErrno
	}
	switch {
	case errors.Is(err, ErrGone):
		return TroubleGone
	case damage(err):
		return TroubleDamaged
	case errno == unix.ENOSPC, errno == unix.EDQUOT, code.Code == sqlite3.ErrFull, errors.Is(err, errNoRoom):
		return TroubleFull
	case errno == unix.EROFS, errors.Is(err, fs.ErrPermission), code.Code == sqlite3.ErrReadonly, code.Code == sqlite3.ErrPerm:
		return TroubleReadOnly
	case errors.Is(err, ErrDoubt):
		return TroubleDoubt
	case errors.Is(err, ErrUnaudited):
		return TroubleAudit
	case errors.Is(err, ErrTraining):
		return TroubleTraining
	}
	return TroubleDisk
}

// errNoRoom means less free space than the reserve.
var errNoRoom = errors.New("its disk is nearly full")

// damage tells whether an error says that the file is damaged, by us or by SQLite.
func damage(err error) bool {
	code, _ := errors.AsType[sqlite3.Error](err)
	return errors.Is(err, ErrDamaged) || code.Code == sqlite3.ErrCorrupt || code.Code == sqlite3.ErrNotADB
}

// seen passes an error on, and remembers one that says that the file is damaged. Where
// one page is, others may be, and a claim that cannot be found is a ticket that would be
// paid again: from then on nothing is paid, whatever can still be read.
func (l *Ledger) seen(err error) error {
	if err != nil && damage(err) && !errors.Is(err, context.Canceled) {
		l.sick.CompareAndSwap(nil, &err)
	}
	return err
}

// sickness is why this ledger takes no claim until it was seen to, nil when it is well.
func (l *Ledger) sickness() error {
	if err := l.sick.Load(); err != nil {
		return fmt.Errorf("%w: %w", ErrNotWritable, *err)
	}
	return nil
}

// onDisk looks at the file and its file system: whether it is still the file that was
// opened, on a disk that can be written and has the reserve free.
func (l *Ledger) onDisk() error {
	info, err := os.Stat(l.opt.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && !os.SameFile(info, l.file):
		return fmt.Errorf("%w: %w: somebody took the file away or put another in its place while it was in use", ErrNotWritable, ErrGone)
	case err != nil:
		return fmt.Errorf("%w: %w", ErrNotWritable, err)
	}
	var at unix.Statfs_t
	if err := unix.Statfs(l.opt.Path, &at); err != nil {
		return fmt.Errorf("%w: %w", ErrNotWritable, err)
	}
	if at.Flags&unix.ST_RDONLY != 0 {
		return fmt.Errorf("%w: its file system is mounted read-only: %w", ErrNotWritable, unix.EROFS)
	}
	if free := int64(at.Bavail) * int64(at.Bsize); free < l.opt.Reserve {
		return fmt.Errorf("%w: %w: %d MB free, paying stops below %d MB: free some space", ErrNotWritable, errNoRoom, free>>20, l.opt.Reserve>>20)
	}
	return nil
}

// Audit verifies the whole file, for which Open has no time. What it finds stops all
// payments. First, and within seconds for a year of claims, it looks at every page and
// that each claim's ticket is where Record looks for it: with Options.AuditFirst nothing
// is paid before that.
func (l *Ledger) Audit(ctx context.Context) error {
	err := l.sickness()
	if err == nil {
		err = l.findable(ctx)
	}
	if err == nil {
		l.audited.Store(true)
		_, err = l.Verify(ctx)
	}
	if ctx.Err() != nil {
		return ctx.Err() // what a stop has cut off says nothing of the file
	}
	return l.seen(err)
}

// findable is nil when every page is whole and every claim's row names its entry's
// ticket. A row that does not would let the ticket be paid again.
func (l *Ledger) findable(ctx context.Context) error {
	if err := sound(ctx, l.read); err != nil {
		return err
	}
	var entries, rows, agree int64
	err := l.read.QueryRowContext(ctx, `SELECT (SELECT count(*) FROM entries WHERE kind IN ('claim', 'carried-claim')), (SELECT count(*) FROM claims),
		(SELECT count(*) FROM claims c JOIN entries e ON e.epoch = c.epoch AND e.seq = c.seq
		WHERE json_extract(CASE e.kind WHEN 'carried-claim' THEN json_extract(e.line, '$.body.line') ELSE e.line END, '$.body.block', '$.body.pack', '$.body.ticket', '$.body.round') = json_array(lower(hex(c.block)), c.pack, c.ticket, c.round))`).
		Scan(&entries, &rows, &agree)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if entries != rows || agree != rows {
		return fmt.Errorf("%w: %d entries of claims, %d rows of claims, of which %d name their entry's ticket: run terminalctl journal verify", ErrDamaged, entries, rows, agree)
	}
	return nil
}

// held is why nothing is paid yet.
func (l *Ledger) held() error {
	if l.opt.AuditFirst && !l.audited.Load() {
		return fmt.Errorf("%w: %w", ErrNotWritable, ErrUnaudited)
	}
	return nil
}

// Salvage opens for reading a ledger that Open would not open, because of cause. Tickets
// can be checked with what is left of it, and its entries can be sent; every payment and
// mark fails with ErrNotWritable and the cause, until the program is started again. What
// cannot be read answers with an error. The only error is ErrLocked.
func Salvage(ctx context.Context, opt Options, cause error) (*Ledger, error) {
	lock, err := acquire(opt.Path + ".lock")
	if errors.Is(err, ErrLocked) {
		return nil, fmt.Errorf("ledger %s: %w", opt.Path, err)
	}
	// Where no lock can be made, nothing can be written: a second reader does no harm.
	l := &Ledger{opt: opt, lock: lock, changed: make(chan struct{}), intents: make(chan struct{}), waiting: map[int64]*validate.Receipt{}, epoch: 1, inDoubt: true}
	l.sick.Store(&cause)
	reader := salvager{opt.Path}
	l.db, l.read = sql.OpenDB(reader), sql.OpenDB(reader)
	l.db.SetMaxOpenConns(1)
	l.read.SetMaxOpenConns(2)
	if err := l.db.QueryRowContext(ctx, "SELECT epoch FROM meta WHERE terminal = ?", opt.Terminal).Scan(&l.epoch); err != nil {
		return l, nil
	}
	// Each of these may find a damaged page; what was read before it is of use all the same.
	l.inDoubt = l.loadHead(ctx) != nil
	if u, err := l.unsent(ctx, l.db); err == nil {
		l.counts = u
	}
	return l, nil
}

// salvager connects to a file for reading only, and changes nothing beside it where that
// is possible.
type salvager struct{ path string }

func (s salvager) Connect(context.Context) (driver.Conn, error) {
	abs, err := filepath.Abs(s.path)
	if err != nil {
		return nil, err
	}
	var first error
	for _, mode := range []string{"mode=ro", "mode=ro&immutable=1"} {
		if wal, err := os.Stat(abs + "-wal"); mode != "mode=ro" && (err == nil && wal.Size() > 0) {
			break // immutable leaves the log out, and with it the newest claims
		}
		dsn := (&url.URL{Scheme: "file", Path: abs, RawQuery: mode + "&_query_only=1&_busy_timeout=5000"}).String()
		conn, err := (&sqlite3.SQLiteDriver{ConnectHook: func(c *sqlite3.SQLiteConn) error {
			_, err := ReadPragma(c, "schema_version") // opening alone looks at nothing
			return err
		}}).Open(dsn)
		if err == nil {
			return conn, nil
		}
		first = errors.Join(first, err)
	}
	return nil, first
}

func (s salvager) Driver() driver.Driver { return &sqlite3.SQLiteDriver{} }
