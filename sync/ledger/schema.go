package ledger

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"sync"
)

// migrations[n] brings a file from schema version n to n+1; version 0 is an empty file,
// so a new ledger and an old one that was carried forward are the same. A step that was
// released is never changed: the next version is a step appended, with the rows that its
// tables begin with, and testdata/vN.db made by the program before it.
//
// Entries are append-only by trigger as well as by this package.
var migrations = [][]string{
	{
		`CREATE TABLE meta(terminal TEXT NOT NULL, epoch INTEGER NOT NULL) STRICT`,
		`CREATE TABLE entries(epoch INTEGER NOT NULL, seq INTEGER NOT NULL, kind TEXT NOT NULL, line BLOB NOT NULL, hash BLOB NOT NULL,
		PRIMARY KEY(epoch, seq)) STRICT, WITHOUT ROWID`,
		// Which entry pays a ticket. No other index: each one is another page to sync in every payment.
		`CREATE TABLE claims(block BLOB NOT NULL, pack INTEGER NOT NULL, ticket INTEGER NOT NULL, round INTEGER NOT NULL,
		epoch INTEGER NOT NULL, seq INTEGER NOT NULL, PRIMARY KEY(block, pack, ticket, round),
		FOREIGN KEY(epoch, seq) REFERENCES entries(epoch, seq)) STRICT, WITHOUT ROWID`,
		// One row for each claim: its paper, and its amount for the count of what is unsent.
		`CREATE TABLE prints(epoch INTEGER NOT NULL, seq INTEGER NOT NULL, state TEXT NOT NULL, copies INTEGER NOT NULL, amount INTEGER NOT NULL, slip BLOB NOT NULL,
		PRIMARY KEY(epoch, seq), FOREIGN KEY(epoch, seq) REFERENCES entries(epoch, seq)) STRICT, WITHOUT ROWID`,
		// What central has countersigned, one row a journal epoch: the position, central's
		// signed time, and the allowance above it, null before the first.
		`CREATE TABLE acks(epoch INTEGER PRIMARY KEY, seq INTEGER NOT NULL, time TEXT NOT NULL DEFAULT '', claims INTEGER, minor INTEGER) STRICT`,
		`CREATE TABLE link(one INTEGER PRIMARY KEY CHECK(one = 1), cursor INTEGER NOT NULL, snapshot INTEGER NOT NULL, issued TEXT NOT NULL,
		refused TEXT NOT NULL DEFAULT '') STRICT`,
		`CREATE TABLE packs(game_code TEXT NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL CHECK(last >= first), state TEXT NOT NULL, owner TEXT NOT NULL,
		epoch INTEGER NOT NULL, PRIMARY KEY(game_code, first)) STRICT, WITHOUT ROWID`,
		`CREATE TABLE paid_elsewhere(block BLOB NOT NULL, pack INTEGER NOT NULL, ticket INTEGER NOT NULL, terminal TEXT NOT NULL, number TEXT NOT NULL,
		at TEXT NOT NULL, as_of TEXT NOT NULL, PRIMARY KEY(block, pack, ticket)) STRICT, WITHOUT ROWID`,
		`CREATE TABLE attempts(block BLOB NOT NULL, pack INTEGER NOT NULL, ticket INTEGER NOT NULL, failed INTEGER NOT NULL,
		PRIMARY KEY(block, pack, ticket)) STRICT, WITHOUT ROWID`,
		`CREATE TRIGGER entries_stay BEFORE UPDATE ON entries BEGIN SELECT raise(ABORT, 'entries are never changed'); END`,
		`CREATE TRIGGER entries_kept BEFORE DELETE ON entries BEGIN SELECT raise(ABORT, 'entries are never removed'); END`,
		`CREATE TRIGGER claims_stay BEFORE UPDATE ON claims BEGIN SELECT raise(ABORT, 'claims are never changed'); END`,
		`CREATE TRIGGER claims_kept BEFORE DELETE ON claims BEGIN SELECT raise(ABORT, 'claims are never removed'); END`,
	},
	{
		// What central signed for the position in acks, whole, and what the device signed: all
		// heads of closings, and of the others the newest.
		`ALTER TABLE acks ADD COLUMN note TEXT NOT NULL DEFAULT ''`,
		`CREATE TABLE heads(epoch INTEGER NOT NULL, seq INTEGER NOT NULL, hash BLOB NOT NULL, signature BLOB NOT NULL, why TEXT NOT NULL,
		PRIMARY KEY(epoch, seq)) STRICT, WITHOUT ROWID`,
	},
	closingTables,
	slices.Concat(rightsTables, packLifeTables, attemptTables, salesTables, lookTables),
}

// runSteps brings a file of one schema version to that of the last step.
func runSteps(ctx context.Context, tx execer, from int, steps [][]string) error {
	for n := from; n < len(steps); n++ {
		for _, s := range steps[n] {
			if _, err := tx.ExecContext(ctx, s); err != nil {
				return fmt.Errorf("schema %d to %d: %.40s: %w", n, n+1, s, err)
			}
		}
	}
	_, err := tx.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", len(steps)))
	return err
}

type execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// verifySchema holds the tables and triggers of a file against those that the steps
// make: a trigger that was added could undo a payment when the next one is made.
func verifySchema(ctx context.Context, q querier, steps [][]string) error {
	want, err := presentSchema()
	if len(steps) != len(migrations) { // half-way through a migration, or in a test of one
		want, err = schemaOf(ctx, steps)
	}
	if err != nil {
		return err
	}
	got, err := readSchema(ctx, q)
	if err != nil {
		return fmt.Errorf("%w: its schema: %w", ErrDamaged, err)
	}
	for name, text := range want {
		if got[name] != text {
			return fmt.Errorf("%w: its schema: %s is not as this program makes it, or is gone", ErrDamaged, name)
		}
	}
	for name := range got {
		if _, known := want[name]; !known {
			return fmt.Errorf("%w: its schema: %.80q was added to it", ErrDamaged, name)
		}
	}
	return nil
}

// presentSchema is what all steps make. It is the same at each open.
var presentSchema = sync.OnceValues(func() (map[string]string, error) { return schemaOf(context.Background(), migrations) })

// schemaOf is what the steps make, in memory.
func schemaOf(ctx context.Context, steps [][]string) (map[string]string, error) {
	db, err := sql.Open("sqlite3", ":memory:")
	if err != nil {
		return nil, err
	}
	defer db.Close()
	db.SetMaxOpenConns(1) // each connection would have a memory of its own
	if err := runSteps(ctx, db, 0, steps); err != nil {
		return nil, err
	}
	return readSchema(ctx, db)
}

// readSchema gives the text of each table, index, trigger and view but SQLite's own.
func readSchema(ctx context.Context, q querier) (map[string]string, error) {
	rows, err := q.QueryContext(ctx, "SELECT type || ' ' || name || ' on ' || tbl_name, coalesce(sql, '') FROM sqlite_schema WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\'")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	list := map[string]string{}
	for rows.Next() {
		var name, text string
		if err := rows.Scan(&name, &text); err != nil {
			return nil, err
		}
		list[name] = text
	}
	return list, rows.Err()
}
