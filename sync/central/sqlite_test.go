package central

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// openTable is a SQLite store with a table x of one column.
func openTable(t *testing.T) *sqliteStore {
	t.Helper()
	s, err := openSQLite(t.Context(), filepath.Join(t.TempDir(), "x.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.close() })
	if err := s.change(t.Context(), put("CREATE TABLE x(n INTEGER PRIMARY KEY)")); err != nil {
		t.Fatal(err)
	}
	return s.(*sqliteStore)
}

type act = func(ctx context.Context, tx *sql.Tx) error

func put(statement string) act {
	return func(ctx context.Context, tx *sql.Tx) error { _, err := tx.ExecContext(ctx, statement); return err }
}

// group runs the acts so that all of them wait while the first is under way, and gives
// their errors.
func (s *sqliteStore) together(t *testing.T, acts ...act) []error {
	t.Helper()
	errs := make([]error, len(acts))
	running, all := make(chan struct{}), make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		errs[0] = s.change(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
			close(running)
			<-all
			return acts[0](ctx, tx)
		})
	})
	<-running
	for i := range acts[1:] {
		group.Go(func() { errs[i+1] = s.change(t.Context(), acts[i+1]) })
	}
	for s.waiting.Load() < int64(len(acts)-1) {
		runtime.Gosched()
	}
	close(all)
	group.Wait()
	return errs
}

func (s *sqliteStore) rows(t *testing.T) (n int) {
	t.Helper()
	if err := s.read.QueryRowContext(t.Context(), "SELECT count(*) FROM x").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestWaitingChangesShareACommit: up to maxGroup of them, and one that fails takes back
// its own writes alone.
func TestWaitingChangesShareACommit(t *testing.T) {
	s := openTable(t)
	const n = maxGroup + 3
	var mu sync.Mutex
	groups := map[*sql.Tx]int{}
	refused := errors.New("refused by a rule")
	var acts []act
	for i := range n {
		acts = append(acts, func(ctx context.Context, tx *sql.Tx) error {
			mu.Lock()
			groups[tx]++
			mu.Unlock()
			if err := put(fmt.Sprintf("INSERT INTO x VALUES(%d)", i))(ctx, tx); err != nil || i%5 == 1 {
				return errors.Join(err, refused)
			}
			return nil
		})
	}
	good := 0
	for i, err := range s.together(t, acts...) {
		if want := i%5 == 1; errors.Is(err, refused) != want || (err != nil) != want {
			t.Errorf("change %d: %v", i, err)
		}
		if err == nil {
			good++
		}
	}
	if got := s.rows(t); got != good {
		t.Errorf("%d rows of %d changes that were told so", got, good)
	}
	// A slow machine closes groups early by their time; at least some must be shared.
	if len(groups) > n/2 || len(groups) < 2 {
		t.Errorf("%d commits for %d changes that waited, want 2 or a few", len(groups), n)
	}
	for _, size := range groups {
		if size > maxGroup {
			t.Errorf("%d changes in one commit", size)
		}
	}
}

// TestLostCommitIsToldToAllWhoShareIt: SQLite undoes the whole transaction when the disk
// is full; nobody may believe that his part was kept.
func TestLostCommitIsToldToAllWhoShareIt(t *testing.T) {
	s := openTable(t)
	full := func(ctx context.Context, tx *sql.Tx) error {
		return errors.Join(put("ROLLBACK")(ctx, tx), errors.New("database or disk is full"))
	}
	told := 0
	for _, err := range s.together(t, put("INSERT INTO x VALUES(1)"), put("INSERT INTO x VALUES(2)"), full, put("INSERT INTO x VALUES(3)")) {
		if err == nil {
			told++
		}
	}
	if n := s.rows(t); n != told || told == 4 {
		t.Errorf("%d changes were told that they are kept, %d are", told, n)
	}
	if err := s.change(t.Context(), put("INSERT INTO x VALUES(9)")); err != nil {
		t.Errorf("after it: %v", err)
	}
}

// TestChangeThatPanicsKeepsNobodyWaiting: the server's handler survives it, and so must
// the store.
func TestChangeThatPanicsKeepsNobodyWaiting(t *testing.T) {
	s := openTable(t)
	panics := func(ctx context.Context, tx *sql.Tx) (err error) {
		if err := put("INSERT INTO x VALUES(2)")(ctx, tx); err != nil {
			return err
		}
		panic("a bug")
	}
	caught := ""
	func() {
		defer func() { caught = fmt.Sprint(recover()) }()
		_ = s.change(t.Context(), panics)
	}()
	if caught != "a bug" {
		t.Errorf("caught %q", caught)
	}
	if err := s.change(t.Context(), put("INSERT INTO x VALUES(3)")); err != nil || s.rows(t) != 1 {
		t.Errorf("after it: %v, %d rows", err, s.rows(t))
	}
}

func TestChangeOfACallerWhoHasLeftIsNotBegun(t *testing.T) {
	s := openTable(t)
	gone, leave := context.WithCancel(t.Context())
	leave()
	if err := s.change(gone, put("INSERT INTO x VALUES(1)")); !errors.Is(err, context.Canceled) || s.rows(t) != 0 {
		t.Errorf("%v", err)
	}
	// Who leaves while it runs is too late: it is whole, or nothing.
	here, leave := context.WithCancel(t.Context())
	err := s.change(here, func(ctx context.Context, tx *sql.Tx) error {
		leave()
		return put("INSERT INTO x VALUES(1)")(ctx, tx)
	})
	if err != nil || s.rows(t) != 1 {
		t.Errorf("%v, %d rows", err, s.rows(t))
	}
}

// TestBusyIsToldApart: a lock of another process passes, a missing table does not.
func TestBusyIsToldApart(t *testing.T) {
	s := openTable(t)
	err := s.change(t.Context(), put("INSERT INTO nowhere VALUES(1)"))
	if err == nil || s.busy(err) || !strings.Contains(err.Error(), "nowhere") {
		t.Errorf("%v", err)
	}
}
