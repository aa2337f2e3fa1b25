package central

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mattn/go-sqlite3"
	"github.com/pressly/goose/v3"

	"grattoir/sync/ledger"
)

const (
	applicationID = 0x47524354 // "GRCT"

	// minSQLite is the first version without the race that loses commits when a
	// write-ahead log is reset.
	minSQLite = 3051003

	sqliteReaders = 4

	// A group of changes that commit together is closed at its maxGroup-th change, or at
	// the first one that ends groupTime after its begin: the first caller of a group waits
	// for all of it.
	maxGroup  = 64
	groupTime = 20 * time.Millisecond
)

// sqliteStore is a file: one writing connection, taken in turn, and readers beside it.
//
// Callers that wait for their turn share a commit, because syncing the disk costs more
// than all that an upload writes. Each change runs in a savepoint of its own and on its
// caller's goroutine; the last of a group commits it, and none returns before.
type sqliteStore struct {
	write, read *sql.DB
	pulse       *pulse

	waiting atomic.Int64 // callers before mu
	mu      sync.Mutex
	group   *group // the one that the next caller joins, nil for none
}

// group is a transaction that several changes share.
type group struct {
	tx    *sql.Tx
	begun time.Time
	size  int
	lost  error         // why none of it can be committed
	ended chan struct{} // closed when it was committed, or lost
}

func openSQLite(ctx context.Context, path string) (store, error) {
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
	s := &sqliteStore{write: sql.OpenDB(connector{path: path}), read: sql.OpenDB(connector{path: path, reads: true})}
	s.write.SetMaxOpenConns(1)
	s.read.SetMaxOpenConns(sqliteReaders)
	if err := s.migrate(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", filepath.Base(path), err), s.close())
	}
	if s.pulse, err = openPulse(ctx, path); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *sqliteStore) close() error {
	return errors.Join(s.pulse.close(), s.read.Close(), s.write.Close())
}

func (s *sqliteStore) stirred() (bool, error) { return s.pulse.beat() }

// pulse watches the file's data_version, which changes with each commit of any other
// connection. It has a connection of its own, and one statement prepared once: asked twice a
// second for ever, a query through database/sql would cost more than an idle central does.
type pulse struct {
	conn driver.Conn
	stmt *sqlite3.SQLiteStmt
	last int64
}

func openPulse(ctx context.Context, path string) (*pulse, error) {
	conn, err := connector{path: path, reads: true}.Connect(ctx)
	if err != nil {
		return nil, err
	}
	stmt, err := conn.Prepare("PRAGMA data_version")
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return &pulse{conn: conn, stmt: stmt.(*sqlite3.SQLiteStmt)}, nil
}

// beat tells whether the version is another than at the last call.
func (p *pulse) beat() (bool, error) {
	// With no context to end it: it reads one number of the file's head.
	rows, err := p.stmt.QueryContext(context.Background(), nil)
	if err != nil {
		return false, fmt.Errorf("data version: %w", err)
	}
	row := make([]driver.Value, 1)
	if err := errors.Join(rows.Next(row), rows.Close()); err != nil {
		return false, fmt.Errorf("data version: %w", err)
	}
	now, _ := row[0].(int64)
	was := p.last
	p.last = now
	return now != was, nil
}

// close is safe on nil.
func (p *pulse) close() error {
	if p == nil {
		return nil
	}
	return errors.Join(p.stmt.Close(), p.conn.Close())
}

func (s *sqliteStore) reader() *sql.DB { return s.read }

func (s *sqliteStore) migrate(ctx context.Context) error {
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
	return migrate(ctx, s.write, goose.DialectSQLite3, "sqlite")
}

func (s *sqliteStore) change(ctx context.Context, act func(ctx context.Context, tx *sql.Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	act, durable := witnessed(ctx, act)
	g, err := s.join(context.WithoutCancel(ctx), act)
	if g == nil {
		return err
	}
	<-g.ended
	if g.lost != nil {
		return g.lost // err may tell of what another change of the group had written
	}
	if err == nil {
		durable()
	}
	return err
}

// join runs act in the group that is open, and commits the group when nobody else waits
// to join it. Without a group, err is why there is none.
func (s *sqliteStore) join(ctx context.Context, act func(ctx context.Context, tx *sql.Tx) error) (_ *group, err error) {
	s.waiting.Add(1)
	s.mu.Lock()
	s.waiting.Add(-1)
	defer s.mu.Unlock()
	g := s.group
	if g == nil {
		tx, err := s.write.BeginTx(ctx, nil)
		if err != nil {
			return nil, err
		}
		g = &group{tx: tx, begun: time.Now(), ended: make(chan struct{})}
		s.group = g
	}
	defer func() {
		if g.lost != nil || s.waiting.Load() == 0 || g.size >= maxGroup || time.Since(g.begun) >= groupTime {
			s.group = nil
			g.end()
		}
	}()
	err = g.run(ctx, act)
	return g, err
}

// run runs one act. When it fails, what it wrote is taken back and the group goes on.
func (g *group) run(ctx context.Context, act func(ctx context.Context, tx *sql.Tx) error) error {
	g.size++
	if _, g.lost = g.tx.ExecContext(ctx, "SAVEPOINT act"); g.lost != nil {
		return g.lost
	}
	end := "RELEASE act"
	g.lost = errors.New("a change ended half-way") // should act panic
	err := act(ctx, g.tx)
	g.lost = nil
	if err != nil {
		end = "ROLLBACK TO act; RELEASE act"
	}
	// A full disk, and what is like it, has undone the transaction already; then this fails.
	if _, lost := g.tx.ExecContext(ctx, end); lost != nil {
		g.lost = errors.Join(err, lost)
	}
	return err
}

// insert writes the rows out: SQLite knows no arrays.
func (*sqliteStore) insert(ctx context.Context, tx *sql.Tx, b batch) (*sql.Rows, error) {
	var args []any
	statement := []byte("INSERT INTO " + b.into + "(" + b.columns() + ") VALUES")
	for _, c := range b.fixed {
		args = append(args, c.values)
	}
	for i := range lengthOf(b.each[0].values) {
		if i > 0 {
			statement = append(statement, ',')
		}
		statement = append(statement, '(')
		for n := range b.fixed {
			statement = fmt.Appendf(statement, "$%d, ", n+1)
		}
		for n, c := range b.each {
			args = append(args, valueAt(c.values, i))
			statement = fmt.Appendf(statement, "$%d", len(args))
			if n < len(b.each)-1 {
				statement = append(statement, ", "...)
			}
		}
		statement = append(statement, ')')
	}
	return tx.QueryContext(ctx, string(statement)+b.then, args...)
}

// addRows writes them one after the other: a statement costs no round trip here.
func (s *sqliteStore) addRows(ctx context.Context, tx *sql.Tx, list []batch) error {
	for _, b := range list {
		if err := writeAll(ctx, s, tx, b); err != nil {
			return err
		}
	}
	return nil
}

func lengthOf(values any) int {
	switch list := values.(type) {
	case []int64:
		return len(list)
	case []string:
		return len(list)
	case [][]byte:
		return len(list)
	}
	return 0
}

func valueAt(values any, i int) any {
	switch list := values.(type) {
	case []int64:
		return list[i]
	case []string:
		return list[i]
	case [][]byte:
		return list[i]
	}
	return nil
}

func (g *group) end() {
	defer close(g.ended)
	if g.lost != nil {
		_ = g.tx.Rollback()
		return
	}
	g.lost = g.tx.Commit()
}

// forget begins the write-ahead log anew: it still holds pages as they were before
// something was erased.
func (s *sqliteStore) forget(ctx context.Context) error {
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

// copyTo is one statement, which reads one state.
func (s *sqliteStore) copyTo(ctx context.Context, path string) error {
	_, err := s.write.ExecContext(ctx, "VACUUM INTO $1", path)
	return err
}

// busy tells whether another process held the database for too long.
func (*sqliteStore) busy(err error) bool {
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
		RawQuery: "_journal_mode=WAL&_synchronous=FULL&_busy_timeout=5000&_foreign_keys=1&_stmt_cache_size=256&_cache_size=-16384&_txlock=" + lock}).String()
	d := sqlite3.SQLiteDriver{ConnectHook: func(conn *sqlite3.SQLiteConn) error {
		want := c.pragmas()
		for _, p := range []string{"trusted_schema = OFF", "cell_size_check = ON", "mmap_size = 0", "journal_size_limit = 67108864", "secure_delete = ON", "query_only = " + want["query_only"]} {
			if _, err := conn.Exec("PRAGMA "+p, nil); err != nil {
				return fmt.Errorf("PRAGMA %s: %w", p, err)
			}
		}
		for name, value := range want {
			if got, err := ledger.ReadPragma(conn, name); err != nil || got != value {
				return errors.Join(fmt.Errorf("PRAGMA %s is %q, must be %q", name, got, value), err)
			}
		}
		return nil
	}}
	return d.Open(dsn)
}

// openImmutable reads a file that nobody writes, and changes nothing beside it.
func openImmutable(path string) (*sql.DB, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	return sql.Open("sqlite3", (&url.URL{Scheme: "file", Path: abs, RawQuery: "mode=ro&immutable=1"}).String())
}

// tablesOf are the tables of a SQLite file of central's with their columns, but for what the
// migrations keep.
func tablesOf(ctx context.Context, db *sql.DB) (map[string][]string, error) {
	rows, err := db.QueryContext(ctx, `SELECT m.name, c.name FROM sqlite_schema m JOIN pragma_table_info(m.name) c
		WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite\_%' ESCAPE '\' AND m.name <> 'goose_db_version' ORDER BY m.name, c.cid`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	tables := map[string][]string{}
	for rows.Next() {
		var table, column string
		if err := rows.Scan(&table, &column); err != nil {
			return nil, err
		}
		tables[table] = append(tables[table], column)
	}
	return tables, rows.Err()
}

func (c connector) Driver() driver.Driver { return &sqlite3.SQLiteDriver{} }
