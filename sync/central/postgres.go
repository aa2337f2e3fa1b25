package central

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
)

const (
	postgresWriters = 16 // transactions at a time
	postgresReaders = 8

	// A transaction that lost against another one is run again, after a random pause of at
	// most firstPause, then twice that and so on up to lastPause.
	maxTries   = 50
	firstPause = 2 * time.Millisecond
	lastPause  = 200 * time.Millisecond

	// forgetWait is how long readers may keep the erased rows from being removed, and how
	// long other readers then wait behind it.
	forgetWait = 2 * time.Second
)

// SQLSTATE codes, from PostgreSQL's manual, appendix A; CockroachDB and YugabyteDB
// answer the first two alike.
const (
	serializationFailure = "40001"
	deadlockDetected     = "40P01"
	lockNotAvailable     = "55P03"
)

// postgresStore is a PostgreSQL, or what speaks its protocol. It works at any isolation
// from read committed on; the URL may ask for another one with
// default_transaction_isolation.
type postgresStore struct {
	write, read *sql.DB
	again       atomic.Int64 // transactions that were run again
}

// openPostgres connects to a URL. What it may hold stands in pgx's manual; a password is
// better kept in a passfile or in PGPASSWORD.
func openPostgres(ctx context.Context, database string) (store, error) {
	cfg, err := pgx.ParseConfig(database)
	if err != nil {
		return nil, err // without the password
	}
	set := func(cfg *pgx.ConnConfig, name, value string) {
		if _, given := cfg.RuntimeParams[name]; !given {
			cfg.RuntimeParams[name] = value
		}
	}
	set(cfg, "application_name", "grattoir-central")
	set(cfg, "synchronous_commit", "on") // what was acknowledged survives a power cut
	if s := cfg.RuntimeParams["synchronous_commit"]; s == "off" {
		return nil, errors.New("synchronous_commit=off loses acknowledged uploads in a power cut: leave it out of the database's URL")
	}
	reads := cfg.Copy()
	reads.RuntimeParams["default_transaction_read_only"] = "on"
	reads.RuntimeParams["default_transaction_isolation"] = "read committed" // one statement sees one state, and is never refused
	s := &postgresStore{write: stdlib.OpenDB(*cfg), read: stdlib.OpenDB(*reads)}
	s.write.SetMaxOpenConns(postgresWriters)
	s.write.SetMaxIdleConns(postgresWriters)
	s.read.SetMaxOpenConns(postgresReaders)
	s.read.SetMaxIdleConns(postgresReaders)
	if err := s.migrate(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("database %.63s on %.255s: %w", cfg.Database, cfg.Host, err), s.close())
	}
	return s, nil
}

func (s *postgresStore) close() error { return errors.Join(s.read.Close(), s.write.Close()) }

func (s *postgresStore) reader() *sql.DB { return s.read }

// stirred cannot be known for less than the question that follows it.
func (*postgresStore) stirred() (bool, error) { return true, nil }

func (s *postgresStore) migrate(ctx context.Context) error {
	var bytewise bool
	var ours, tables int
	err := s.write.QueryRowContext(ctx, `SELECT 'B' < 'a', (SELECT count(*) FROM information_schema.tables WHERE table_schema = current_schema() AND table_name = 'terminals'),
		(SELECT count(*) FROM information_schema.tables WHERE table_schema = current_schema() AND table_name <> 'goose_db_version')`).Scan(&bytewise, &ours, &tables)
	switch {
	case err != nil:
		return err
	case !bytewise:
		return errors.New("it sorts texts by a language, and reports need them by their bytes: CREATE DATABASE ... TEMPLATE template0 ENCODING 'UTF8' LOCALE 'C'")
	case tables > 0 && ours == 0:
		return errors.New("not central's database: it has tables of something else; name an empty one")
	}
	return migrate(ctx, s.write, goose.DialectPostgres, "postgres")
}

func (s *postgresStore) change(ctx context.Context, act func(ctx context.Context, tx *sql.Tx) error) error {
	pause := firstPause
	act, durable := witnessed(ctx, act)
	for try := 1; ; try++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := s.try(context.WithoutCancel(ctx), act)
		if err == nil {
			durable()
		}
		if !lostRace(err) {
			return err
		}
		if try == maxTries {
			return fmt.Errorf("given up after %d tries: %w", try, err)
		}
		s.again.Add(1)
		timer := time.NewTimer(rand.N(pause))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
		pause = min(2*pause, lastPause)
	}
}

func (s *postgresStore) try(ctx context.Context, act func(ctx context.Context, tx *sql.Tx) error) error {
	tx, err := s.write.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing
	if err := act(ctx, tx); err != nil {
		return err
	}
	return tx.Commit()
}

// insert sends each column as one array. Rows written out as VALUES cost more on both sides,
// for each value is then a parameter by itself, and every number of rows a statement of its
// own to prepare; COPY costs the same as arrays, and knows no conflict.
func (*postgresStore) insert(ctx context.Context, tx *sql.Tx, b batch) (*sql.Rows, error) {
	var args []any
	return tx.QueryContext(ctx, b.fromArrays(&args), args...)
}

// fromArrays is the statement that inserts a batch; args gets its values.
func (b batch) fromArrays(args *[]any) string {
	var from []string
	place := func(value any) string {
		*args = append(*args, value)
		return fmt.Sprintf("$%d::%s", len(*args), sqlTypeOf(value))
	}
	statement := "INSERT INTO " + b.into + "(" + b.columns() + ") SELECT "
	for _, c := range b.fixed {
		statement += place(c.values) + ", "
	}
	for _, c := range b.each {
		from = append(from, place(c.values))
	}
	return statement + "r.* FROM unnest(" + strings.Join(from, ", ") + ") AS r" + b.then
}

// addRows writes all but the last as common table expressions, which the server runs whether
// or not they are asked for.
func (*postgresStore) addRows(ctx context.Context, tx *sql.Tx, list []batch) error {
	var args []any
	var with []string
	for i, b := range list[:len(list)-1] {
		with = append(with, fmt.Sprintf("w%d AS (%s)", i, b.fromArrays(&args)))
	}
	statement := list[len(list)-1].fromArrays(&args)
	if len(with) > 0 {
		statement = "WITH " + strings.Join(with, ", ") + " " + statement
	}
	_, err := tx.ExecContext(ctx, statement, args...)
	return err
}

func sqlTypeOf(value any) string {
	switch value.(type) {
	case int64:
		return "bigint"
	case []int64:
		return "bigint[]"
	case []string:
		return "text[]"
	case [][]byte:
		return "bytea[]"
	}
	return "text"
}

// sqlState is the code of an error that the server answered, "" for any other.
func sqlState(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	return ""
}

// lostRace tells whether a transaction was undone because of another one.
func lostRace(err error) bool {
	code := sqlState(err)
	return code == serializationFailure || code == deadlockDetected || errors.Is(err, errAgain)
}

// forget writes the table anew: rows as they were before they were erased lie in its
// file until then. The server's log and its copies are not central's to change.
func (s *postgresStore) forget(ctx context.Context) (err error) {
	conn, err := s.write.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if _, err := conn.ExecContext(ctx, fmt.Sprintf("SET lock_timeout = %d", forgetWait.Milliseconds())); err != nil {
		return err
	}
	_, err = conn.ExecContext(ctx, "VACUUM (FULL) identities")
	if sqlState(err) == lockNotAvailable {
		err = errBusy
	}
	if err != nil {
		err = fmt.Errorf("erased, but the table's file holds the bytes until it is written anew: %w", err)
	}
	_, reset := conn.ExecContext(context.WithoutCancel(ctx), "RESET lock_timeout")
	return errors.Join(err, reset)
}

// busy: a race lost too often, no connection, a server that starts, stops or is full.
func (*postgresStore) busy(err error) bool {
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return true
	}
	code := sqlState(err)
	return lostRace(err) || strings.HasPrefix(code, "08") || strings.HasPrefix(code, "53") || strings.HasPrefix(code, "57P")
}

// copyTo reads all tables in one transaction, which sees one state.
func (s *postgresStore) copyTo(ctx context.Context, path string) (err error) {
	lite, err := openSQLite(ctx, path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lite.close()) }()
	tables, err := tablesOf(ctx, lite.reader())
	if err != nil {
		return err
	}
	tx, err := s.read.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	return lite.change(ctx, func(ctx context.Context, into *sql.Tx) error { return copyTables(ctx, tx, into, tables) })
}
