package central

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pressly/goose/v3"
)

// store holds central's tables, in a SQLite file or in PostgreSQL. Both read the same
// statements: the subset of SQL that they share with the distributed databases which
// speak PostgreSQL's protocol. schema/ has the tables, once for each; RUNNING.md tells
// what each database needs.
type store interface {
	// change runs act in one transaction. It is durable when change returns nil. Act may
	// run again when the database asks for it, so it has no effect outside tx. Once begun
	// the transaction is not tied to ctx: a caller who left must not leave doubt behind.
	//
	// Other transactions may run beside it, here or in another process. Act sees what was
	// committed before each of its statements; what it reads and then decides by, it holds
	// first: hold, take, an UPDATE that gives the row back, or an INSERT that conflicts.
	change(ctx context.Context, act func(ctx context.Context, tx *sql.Tx) error) error
	// insert writes the rows of b in one statement of a change's transaction, and gives what
	// the statement returns.
	insert(ctx context.Context, tx *sql.Tx, b batch) (*sql.Rows, error)
	// addRows writes batches, of which nothing is returned, in their order; in one statement
	// where the database can.
	addRows(ctx context.Context, tx *sql.Tx, list []batch) error
	// reader gives connections that cannot write. Each query sees one state.
	reader() *sql.DB
	// stirred tells whether anything may have been committed since it was last asked, by
	// this process or another. It is cheaper than a query; one goroutine asks it.
	stirred() (bool, error)
	// forget removes what the database still holds of erased rows. The errors include
	// errBusy.
	forget(ctx context.Context) error
	// copyTo makes a SQLite file of all tables, as they are at one moment, while others
	// write. The file must not exist.
	copyTo(ctx context.Context, path string) error
	// busy tells whether err passes when the same is asked a little later.
	busy(err error) bool
	close() error
}

// errBusy means that a report still reads what is to be forgotten.
var errBusy = errors.New("somebody reads it")

// errAgain asks change to run an act again: another transaction was committed between
// what it read and what it wrote.
var errAgain = errors.New("changed meanwhile by another transaction")

// batch is rows of a table, column by column.
type batch struct {
	into  string
	fixed []column // one value for all rows: int64 or string
	each  []column // one value a row: []int64, []string or [][]byte, all of one length, which is not 0
	then  string   // what stands behind the rows: a conflict, what is returned
}

type column struct {
	name   string
	values any
}

// columns lists the names of all columns, the fixed ones first.
func (b batch) columns() string {
	var names []string
	for _, c := range slices.Concat(b.fixed, b.each) {
		names = append(names, c.name)
	}
	return strings.Join(names, ", ")
}

// writeAll inserts a batch of which nothing is returned.
func writeAll(ctx context.Context, s store, tx *sql.Tx, b batch) error {
	rows, err := s.insert(ctx, tx, b)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() { // the drivers tell of an error where its row would be
	}
	return rows.Err()
}

//go:embed schema
var schema embed.FS

// openStore opens the database that the options name.
func openStore(ctx context.Context, opt Options) (store, error) {
	if isPostgres(opt.Database) {
		return openPostgres(ctx, opt.Database)
	}
	return openSQLite(ctx, opt.Database)
}

// isPostgres tells whether a database is a URL of PostgreSQL and no file.
func isPostgres(database string) bool {
	return strings.HasPrefix(database, "postgres://") || strings.HasPrefix(database, "postgresql://")
}

// findDatabase gives the database of a folder: the one that is asked for, the one that is
// noted there, or central.db. New means that it is to be noted once it was opened, for
// every later start and every tool: with an empty one in its place, all that was paid
// could be paid again.
func findDatabase(opt Options) (database string, isNew bool, err error) {
	usual, err := filepath.Abs(filepath.Join(opt.Dir, "central.db"))
	if err != nil {
		return "", false, err
	}
	want := opt.Database
	if want != "" && !isPostgres(want) {
		if strings.Contains(want, "://") {
			return "", false, fmt.Errorf("database %.12q...: want a file, or postgres://user@host/name", want)
		}
		if want, err = filepath.Abs(want); err != nil {
			return "", false, err
		}
	}
	text, err := readKeyFile(notePath(opt)) // the URL may hold a password
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", false, err
	}
	noted := strings.TrimSpace(string(text))
	if noted == "" {
		if _, err := os.Stat(usual); err == nil || want == "" {
			noted = usual
		} else if !errors.Is(err, fs.ErrNotExist) {
			return "", false, err
		}
	}
	switch want {
	case "", noted:
		return noted, false, nil
	}
	if noted == "" {
		return want, true, nil
	}
	return "", false, fmt.Errorf("%w: its tables are in another database than the one asked for: to move them, stop every process, move them, and write the new place into %s", ErrRefused, notePath(opt))
}

func notePath(opt Options) string { return filepath.Join(opt.Dir, "database") }

// Exists tells whether a folder is a central's that knows its tables: whoever mistypes it,
// or looks before its disk is mounted, must not begin an empty one.
func Exists(dir string) (bool, error) {
	for _, name := range []string{"central.db", "database"} {
		if _, err := os.Stat(filepath.Join(dir, name)); !errors.Is(err, fs.ErrNotExist) {
			return err == nil, err
		}
	}
	return false, nil
}

// migrate brings the tables to what this program knows, by the steps of one folder of schema/.
func migrate(ctx context.Context, db *sql.DB, dialect goose.Dialect, folder string) error {
	steps, err := fs.Sub(schema, "schema/"+folder)
	if err != nil {
		return err
	}
	// The provider keeps no global state; closing it would close the connections, which are ours.
	p, err := goose.NewProvider(dialect, db, steps, goose.WithDisableGlobalRegistry(true))
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

// counter is a row of the table counters: the last number given to a row of a table
// whose numbers have no gaps. It is a lock as well, until the transaction ends, so
// numbers become visible in their order and a cursor never steps over one.
type counter string

const (
	feedItems       counter = "feed"
	snapshotsIssued counter = "snapshots" // held by every act that changes what a snapshot lists
	identityAsked   counter = "identity_requests"
	auditLines      counter = "identity_audit"
	messagesSent    counter = "messages"
	revoked         counter = "revocations"
	settlementsMade counter = "settlements"
	claimsCounted   counter = "sums" // 1 once the sums hold every claim
)

// take gives the counter's next number.
func take(ctx context.Context, tx *sql.Tx, c counter) (n int64, err error) {
	err = tx.QueryRowContext(ctx, "UPDATE counters SET value = value + 1 WHERE name = $1 RETURNING value", c).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("counter %s: %w", c, err)
	}
	return n, nil
}

// hold gives the counter's last number.
func hold(ctx context.Context, tx *sql.Tx, c counter) (n int64, err error) {
	err = tx.QueryRowContext(ctx, "UPDATE counters SET value = value WHERE name = $1 RETURNING value", c).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("counter %s: %w", c, err)
	}
	return n, nil
}

// once is errAgain when an INSERT that does nothing on conflict met a row.
func once(done sql.Result, err error) error {
	if err != nil {
		return err
	}
	n, err := done.RowsAffected()
	if err == nil && n == 0 {
		return errAgain
	}
	return err
}

// plain is a text that comes from a terminal as it can be stored: PostgreSQL holds no
// zero byte in a text. The entry's own bytes are kept as they are.
func plain[T ~string](s T) string { return strings.ReplaceAll(string(s), "\x00", "\uFFFD") }
