package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"

	"github.com/mattn/go-sqlite3"
	"golang.org/x/sys/unix"

	"grattoir/sync/wire"
	"grattoir/validate"
)

// Access is how Inspect reaches what a ledger holds.
type Access string

const (
	// InPlace reads the file itself: nobody has it open, and no log lies beside it.
	InPlace Access = "in-place"
	// WithLog reads a private copy with the log that lies beside the file: the program was
	// cut off, and its newest entries may be in the log only.
	WithLog Access = "copy-with-log"
	// Live reads a private copy of the moment, taken while a program has the ledger open.
	Live Access = "copy-of-running"
)

// Inspection is a ledger opened to be looked at: nothing is written beside or into it,
// whatever state it is in, so it may lie on a medium that cannot be written. The ledger
// may be of an earlier schema version; it is not carried forward.
type Inspection struct {
	Access  Access
	look    *Ledger // with a reader only
	version int     // of the schema
	lock    *os.File
	private string // folder of the copy, "" for none
}

// Inspect opens the ledger at path. A program that has it open is not disturbed. While a
// ledger that nobody has open is inspected, no program can open it.
//
// A log beside the file (path-wal) holds entries that are not yet in the file. Both are
// copied into a private folder below os.TempDir and read there, so every entry that was
// durable is seen. Somebody who copied the file without its log has lost those entries,
// and nothing in the file tells; a slip's number or central does.
func Inspect(ctx context.Context, path string) (*Inspection, error) {
	i, err := inspect(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("ledger %s: %w", path, err)
	}
	return i, nil
}

func inspect(ctx context.Context, path string) (_ *Inspection, err error) {
	if _, err := os.Stat(path); err != nil {
		return nil, err
	}
	i := &Inspection{look: &Ledger{opt: Options{Path: path}}}
	defer func() {
		if err != nil {
			err = errors.Join(err, i.Close())
		}
	}()
	if err := i.reach(ctx, path); err != nil {
		return nil, err
	}
	db := i.look.read
	var id int
	if err := db.QueryRowContext(ctx, "SELECT user_version, application_id FROM pragma_user_version, pragma_application_id").Scan(&i.version, &id); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	switch {
	case id != applicationID || i.version < 1:
		return nil, fmt.Errorf("%w: not a ledger (application id %#x)", ErrDamaged, id)
	case i.version > len(migrations):
		return nil, fmt.Errorf("schema %d is of a newer program, this one knows %d: use the newer program", i.version, len(migrations))
	}
	if err := db.QueryRowContext(ctx, "SELECT terminal, epoch FROM meta").Scan(&i.look.opt.Terminal, &i.look.epoch); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return i, i.readHead(ctx)
}

// openToLook opens a regular file, and waits for nobody, as opening a pipe would.
func openToLook(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%w: %s is no file", ErrDamaged, path)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// isDatabase looks before SQLite does: to it an empty file is an empty database.
func isDatabase(path string) error {
	f, err := openToLook(path)
	if err != nil {
		return err
	}
	defer f.Close()
	var magic [16]byte
	if _, err := io.ReadFull(f, magic[:]); err != nil || string(magic[:]) != "SQLite format 3\x00" {
		return fmt.Errorf("%w: it is no ledger: name the terminal's ledger.db", ErrDamaged)
	}
	return nil
}

// reach decides what can be read and opens it.
func (i *Inspection) reach(ctx context.Context, path string) error {
	var err error
	if i.lock, err = share(path + ".lock"); errors.Is(err, ErrLocked) {
		i.Access = Live
		return i.readCopy(ctx, func(to string) error { return backUp(ctx, path, to) })
	} else if err != nil {
		return err
	}
	// Only of a file that nobody has open: a close here would drop SQLite's locks on it, if
	// it were this process that had.
	if err := isDatabase(path); err != nil {
		return err
	}
	log, err := os.Stat(path + "-wal")
	switch {
	case err == nil && log.Size() > 0:
		i.Access = WithLog
		return i.readCopy(ctx, func(to string) error { return copyWithLog(ctx, path, to) })
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	i.Access = InPlace
	return i.openStill(path)
}

// share takes the ledger's lock in a way that lets others look too; nil when there is no
// lock file, as beside a copy. ErrLocked means that a program has the ledger open.
func share(path string) (*os.File, error) {
	f, err := openToLook(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = ErrLocked
		}
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (i *Inspection) openStill(path string) error {
	db, err := sql.Open("sqlite3", still(path))
	if err != nil {
		return err
	}
	i.look.read = db
	db.SetMaxOpenConns(2)
	return nil
}

// readCopy has a private copy made and opens it.
func (i *Inspection) readCopy(ctx context.Context, fill func(to string) error) error {
	dir, err := os.MkdirTemp("", "grattoir-inspect-*")
	if err != nil {
		return fmt.Errorf("it can be read in a private copy only, and there is no place for one (TMPDIR names another): %w", err)
	}
	i.private = dir
	copied := filepath.Join(dir, "ledger.db")
	if err := fill(copied); err != nil {
		return fmt.Errorf("it can be read in a private copy only, and making one in %s failed (TMPDIR names another place): %w", dir, err)
	}
	return i.openStill(copied)
}

// backUp copies what a running program has committed, in one read that does not disturb
// it. Pages are taken as they are, so that damage stays to be seen.
func backUp(ctx context.Context, from, to string) error {
	source, closeSource, err := rawConn(ctx, from, "mode=ro&_query_only=1&_busy_timeout=5000")
	if err != nil {
		return err
	}
	defer closeSource()
	target, closeTarget, err := rawConn(ctx, to, "mode=rwc&_synchronous=OFF")
	if err != nil {
		return err
	}
	defer closeTarget()
	b, err := target.Backup("main", source, "main")
	if err != nil {
		return err
	}
	done, err := b.Step(-1)
	if err == nil && !done {
		err = errors.New("the running program does not let it be read: try again")
	}
	if err := errors.Join(err, b.Finish()); err != nil {
		return err
	}
	// The copy is marked as one with a log; folded in, it is read as it lies.
	_, err = target.Exec("PRAGMA wal_checkpoint(TRUNCATE)", nil)
	return err
}

func rawConn(ctx context.Context, path, query string) (*sqlite3.SQLiteConn, func(), error) {
	c, err := (&sqlite3.SQLiteDriver{}).Open(fileURI(path, query))
	if err != nil {
		return nil, nil, err
	}
	conn, ok := c.(*sqlite3.SQLiteConn)
	if !ok || ctx.Err() != nil {
		return nil, nil, errors.Join(ctx.Err(), c.Close())
	}
	return conn, func() { _ = conn.Close() }, nil
}

// copyWithLog copies file and log, and has SQLite fold what was committed into the copy.
func copyWithLog(ctx context.Context, from, to string) error {
	for _, suffix := range []string{"", "-wal"} {
		if err := copyFile(from+suffix, to+suffix); err != nil {
			return err
		}
	}
	conn, done, err := rawConn(ctx, to, "mode=rw&_synchronous=OFF")
	if err != nil {
		return err
	}
	defer done()
	if _, err := conn.Exec("PRAGMA wal_checkpoint(TRUNCATE)", nil); err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return nil
}

func copyFile(from, to string) error {
	source, err := openToLook(from)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(target, source)
	return errors.Join(err, target.Close())
}

// fileURI names a database for SQLite, whatever is in its path.
func fileURI(path, query string) string {
	return (&url.URL{Scheme: "file", Opaque: (&url.URL{Path: path}).EscapedPath(), RawQuery: query}).String()
}

// still names a database that nobody changes while it is read: it is only read, with no
// lock and no log beside it.
func still(path string) string { return fileURI(path, "mode=ro&immutable=1&_query_only=1") }

// readHead reads where the journal ends, without holding it against anything.
func (i *Inspection) readHead(ctx context.Context) error {
	seq, err := newest(ctx, i.look.read, i.look.epoch)
	if err != nil || seq == 0 {
		return err
	}
	list, err := page(ctx, i.look.read, i.look.epoch, seq-1, seq)
	if err != nil {
		return err
	}
	if len(list) != 1 {
		return fmt.Errorf("%w: its newest entry cannot be read", ErrDamaged)
	}
	i.look.seq, i.look.prev = seq, hashLine(list[0].line)
	return nil
}

// Terminal is whose ledger it is.
func (i *Inspection) Terminal() string { return i.look.opt.Terminal }

// Head is where the journal ended when it was opened.
func (i *Inspection) Head() Head { return i.look.Head() }

// Verify is Ledger.Verify.
func (i *Inspection) Verify(ctx context.Context) (Check, error) {
	w, err := verify(ctx, i.look.read, migrations[:i.version])
	return w.check, err
}

// Prove is Ledger.Prove.
func (i *Inspection) Prove(ctx context.Context, k Keys) (Proof, error) {
	return prove(ctx, i.look.read, migrations[:i.version], k)
}

// Lines is Ledger.Lines.
func (i *Inspection) Lines(ctx context.Context, epoch, from int64, use func(seq int64, line []byte) error) error {
	return i.look.Lines(ctx, epoch, from, use)
}

// Receipt is Ledger.Receipt.
func (i *Inspection) Receipt(ctx context.Context, n validate.EntryNumber) (validate.Receipt, error) {
	return i.look.Receipt(ctx, n)
}

// Last is Ledger.Last.
func (i *Inspection) Last(ctx context.Context, n int) ([]validate.Receipt, error) {
	return i.look.Last(ctx, n)
}

// OwnPacks is Ledger.OwnPacks.
func (i *Inspection) OwnPacks(ctx context.Context) ([]wire.PackItem, error) {
	return i.look.OwnPacks(ctx)
}

// Close ends the inspection and removes its private copy.
func (i *Inspection) Close() error {
	var err error
	if i.look.read != nil {
		err = i.look.read.Close()
	}
	if i.lock != nil {
		err = errors.Join(err, unlock(i.lock))
	}
	if i.private != "" {
		err = errors.Join(err, os.RemoveAll(i.private))
	}
	return err
}
