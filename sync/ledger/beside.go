package ledger

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"os"

	"github.com/mattn/go-sqlite3"
)

// ErrMode means that others than the file's owner may read or write it.
var ErrMode = errors.New("others can read or write the file")

// Beside is another SQLite file of the terminal, such as its operators: opened with the
// ledger's care, by one process at a time, for its owner only, through one connection
// whose pragmas were read back.
type Beside struct {
	DB   *sql.DB
	lock *lockFile
}

// BesideOptions open such a file.
type BesideOptions struct {
	// Pragmas come on top of the ledger's own and are read back like them; each is given as
	// PRAGMA answers it, "1" rather than "ON".
	Pragmas map[string]string
	// VFS names SQLite's disk under the file, "" for the machine's own: tests put one there
	// that loses its power.
	VFS string
	// Synchronous weakens the file, for tests that must see it lose something; "" is FULL.
	Synchronous string
}

// OpenBeside opens the file at path, making an empty one with mode 0600 when there is
// none. The errors are ErrLocked, ErrMode, and those of the disk; the content is not looked at.
func OpenBeside(path string, opt BesideOptions) (*Beside, error) {
	if version, number, _ := sqlite3.Version(); number < minSQLite {
		return nil, fmt.Errorf("SQLite %s can lose commits; build with 3.51.3 or newer", version)
	}
	lock, err := acquire(path + ".lock")
	if err != nil {
		return nil, err
	}
	if err := ownersOnly(path); err != nil {
		return nil, errors.Join(err, lock.release())
	}
	b := &Beside{sql.OpenDB(withPragmas{connector{path: path, hooks: hooks{vfs: opt.VFS, synchronous: opt.Synchronous}}, opt.Pragmas}), lock}
	b.DB.SetMaxOpenConns(1)
	return b, nil
}

// ownersOnly makes the file, or refuses one that the umask or a copy has opened to
// others: closing it again would hide that somebody may have read it.
func ownersOnly(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return fmt.Errorf("%w: %s has mode %04o; find out who may have read it, then: chmod 600 %s", ErrMode, path, mode, path)
	}
	return nil
}

// Remembered tells whether such a file was in use here before. One that is empty all
// the same was lost, and must not be taken for a first start.
func (b *Beside) Remembered() bool { return b.lock.remembers() }

// Remember notes, once and durably, that the file exists.
func (b *Beside) Remember(what string) error { return b.lock.note(what) }

// LockPath names the file that remembers.
func (b *Beside) LockPath() string { return b.lock.f.Name() }

// Close closes the file and lets other processes in.
func (b *Beside) Close() error { return errors.Join(b.DB.Close(), b.lock.release()) }

// BesideInspection is such a file opened to be looked at.
type BesideInspection struct {
	DB *sql.DB // reads only
	i  *Inspection
}

// InspectBeside opens the file at path to be looked at, as Inspect does a ledger: a program
// that has it open is not disturbed, and nothing is written beside or into it.
func InspectBeside(ctx context.Context, path string) (*BesideInspection, error) {
	if _, err := os.Stat(path); err != nil {
		return nil, err
	}
	i := &Inspection{look: &Ledger{opt: Options{Path: path}}}
	if err := i.reach(ctx, path); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), i.Close())
	}
	return &BesideInspection{i.look.read, i}, nil
}

// Close ends the inspection and removes its private copy.
func (b *BesideInspection) Close() error { return b.i.Close() }

// withPragmas is a connector with more pragmas.
type withPragmas struct {
	connector
	pragmas map[string]string
}

func (s withPragmas) Connect(ctx context.Context) (driver.Conn, error) {
	c, err := s.connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	conn, ok := c.(*sqlite3.SQLiteConn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("a connection of type %T", c), c.Close())
	}
	for name, want := range s.pragmas {
		if _, err := conn.Exec("PRAGMA "+name+" = "+want, nil); err != nil {
			return nil, errors.Join(fmt.Errorf("PRAGMA %s: %w", name, err), conn.Close())
		}
		if got, err := ReadPragma(conn, name); err != nil || got != want {
			return nil, errors.Join(fmt.Errorf("PRAGMA %s is %q, must be %q", name, got, want), err, conn.Close())
		}
	}
	return conn, nil
}
