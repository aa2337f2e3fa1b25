package report

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// growing are the tables that have rows for what happens every day at every counter.
const growing = `claims|entries|feed|acks|looks|sightings|online_claims`

// TestReportsOfSomeDaysReadNoGrowingTableWhole, nor those of one block, on either database:
// what was chosen is found by an index.
func TestReportsOfSomeDaysReadNoGrowingTableWhole(t *testing.T) {
	f := makeFleet(fleetPlan{seed: 1, claims: 2})
	day := Filter{From: Day{2026, 11, 20}, To: Day{2026, 11, 20}}
	block := Filter{Block: f.blocks[0].id}
	chosen := map[string]Filter{"sync": {}, "prizes": block, "liability": block, "inventory": block}
	for name, open := range map[string]func(*testing.T) *store{"sqlite": newStore, "postgres": newPostgresStore} {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			f.fill(t, s)
			if name == "postgres" { // which does it by itself; a SQLite file is never analysed
				s.exec("ANALYZE")
			}
			ear := &listener{db: s.read}
			db := sql.OpenDB(ear)
			defer db.Close()
			for _, a := range Kinds() {
				filter, ok := chosen[a.Name]
				if !ok {
					filter = day
				}
				if _, err := Make(t.Context(), db, a.Name, filter, fleetNow); err != nil {
					t.Fatal(err)
				}
			}
			explained := 0
			for _, q := range ear.heard {
				if !regexp.MustCompile(`\b(` + growing + `)\b`).MatchString(q.text) {
					continue
				}
				explained++
				if whole := readsWhole(t, s.read, name, q); len(whole) > 0 {
					t.Errorf("it reads all of a table, as %q:\n%s", whole, q.text)
				}
			}
			if explained < 15 {
				t.Errorf("%d statements explained", explained)
			}
		})
	}
}

// readsWhole gives the steps of a statement's plan that go over a growing table from its
// first row to its last. PostgreSQL is told to avoid them, as it would by itself where
// tables are large.
func readsWhole(t *testing.T, db *sql.DB, database string, q question) (steps []string) {
	t.Helper()
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	explain, scan, found := "EXPLAIN QUERY PLAN ", regexp.MustCompile(`^SCAN `), regexp.MustCompile(`^$`)
	if database == "postgres" {
		explain, scan, found = "EXPLAIN (COSTS OFF) ", regexp.MustCompile(`((Seq|Index|Only) Scan (using \w+ )?on (`+growing+`)|Bitmap Index Scan on (`+growing+`)_\w+)\b`), regexp.MustCompile(`Index Cond:`)
		if _, err := conn.ExecContext(t.Context(), "SET enable_seqscan = off"); err != nil {
			t.Fatal(err)
		}
	}
	rows, err := conn.QueryContext(t.Context(), explain+q.text, q.args...)
	if err != nil {
		t.Fatalf("%v: %s", err, q.text)
	}
	defer rows.Close()
	var plan []string
	for rows.Next() {
		var step string
		into := []any{&step}
		if database == "sqlite" {
			var n [3]int
			into = []any{&n[0], &n[1], &n[2], &step}
		}
		if err := rows.Scan(into...); err != nil {
			t.Fatal(err)
		}
		plan = append(plan, step)
	}
	if rows.Err() != nil || len(plan) == 0 {
		t.Fatalf("%v: no plan of %s", rows.Err(), q.text)
	}
	names := aliases(q.text)
	for i, step := range plan {
		if !scan.MatchString(step) {
			continue
		}
		if database == "sqlite" && !slices.Contains(names, strings.Fields(step)[1]) {
			continue
		}
		if i+1 == len(plan) || !found.MatchString(plan[i+1]) {
			steps = append(steps, step)
		}
	}
	return steps
}

// aliases are the names under which a statement reads growing tables: SQLite's plan has
// no others.
func aliases(text string) (names []string) {
	for _, m := range regexp.MustCompile(`\b(`+growing+`)( (AS )?([a-z]))?\b`).FindAllStringSubmatch(text, -1) {
		names = append(names, m[1])
		if m[4] != "" {
			names = append(names, m[4])
		}
	}
	return names
}

// question is a statement that a report asked.
type question struct {
	text string
	args []any
}

// listener connects to a database through another one's pool, and keeps what is asked.
type listener struct {
	db    *sql.DB
	mu    sync.Mutex
	heard []question
}

func (l *listener) Driver() driver.Driver { return nil }

func (l *listener) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := l.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	return &listening{listener: l, conn: conn}, nil
}

type listening struct {
	*listener
	conn *sql.Conn
	tx   *sql.Tx
}

func (c *listening) Prepare(string) (driver.Stmt, error) { return nil, driver.ErrSkip }

func (c *listening) Close() error { return c.conn.Close() }

func (c *listening) Begin() (driver.Tx, error) { return nil, driver.ErrSkip }

func (c *listening) BeginTx(ctx context.Context, opt driver.TxOptions) (_ driver.Tx, err error) {
	c.tx, err = c.conn.BeginTx(ctx, &sql.TxOptions{Isolation: sql.IsolationLevel(opt.Isolation), ReadOnly: opt.ReadOnly})
	return c.tx, err
}

func (c *listening) QueryContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Rows, error) {
	q := question{text: text}
	for _, a := range args {
		q.args = append(q.args, a.Value)
	}
	c.mu.Lock()
	c.heard = append(c.heard, q)
	c.mu.Unlock()
	rows, err := c.tx.QueryContext(ctx, text, q.args...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", text, err)
	}
	return passed{rows}, nil
}

// passed gives rows on as they come.
type passed struct{ rows *sql.Rows }

func (p passed) Columns() []string {
	names, _ := p.rows.Columns()
	return names
}

func (p passed) Close() error { return p.rows.Close() }

func (p passed) Next(into []driver.Value) error {
	if !p.rows.Next() {
		if err := p.rows.Err(); err != nil {
			return err
		}
		return io.EOF
	}
	values, places := make([]any, len(into)), make([]any, len(into))
	for i := range values {
		places[i] = &values[i]
	}
	err := p.rows.Scan(places...)
	for i := range values {
		into[i] = values[i]
	}
	return err
}
