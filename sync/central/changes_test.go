package central

import (
	"context"
	"database/sql"
	"slices"
	"testing"
	"time"

	"grattoir/sync/wire"
)

// TestChangesOfProgramAndDataAreKept: a hello that tells the same writes nothing; of what is
// older than half a year the newest row is kept, for it says what held then.
func TestChangesOfProgramAndDataAreKept(t *testing.T) { onEachStore(t, testChangesAreKept) }

func testChangesAreKept(t *testing.T, w *world) {
	d := w.enrolled(t, "T-1")
	tell := func(program string, snapshot int64) { // as hello does it, without a certificate that ends meanwhile
		if err := w.store.change(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
			if err := noteChange(ctx, tx, "T-1", w.clock.now(), wire.Hello{Program: program, Snapshot: snapshot}); err != nil {
				return err
			}
			_, err := tx.ExecContext(ctx, "UPDATE terminals SET program = $1, snapshot = $2 WHERE name = 'T-1'", program, snapshot)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	var want []string
	d.hello(t, func(h *wire.Hello) { h.Program, h.Snapshot = "one", 1 })
	if n := len(w.rows(t, "SELECT at FROM terminal_changes WHERE terminal = 'T-1'")); n != 1 {
		t.Errorf("%d rows after a hello", n)
	}
	for _, x := range []struct {
		after    time.Duration
		program  string
		snapshot int64
		kept     string // "" for no row, or one that is gone at the end
	}{
		{time.Hour, "one", 1, ""}, {24 * time.Hour, "one", 2, "one 2 "}, {100 * 24 * time.Hour, "two", 2, "two 2 "},
		{100 * 24 * time.Hour, "two", 2, ""}, {time.Hour, "two", 3, "two 3 "},
	} {
		w.clock.advance(x.after)
		tell(x.program, x.snapshot)
		if x.kept != "" {
			want = append(want, x.kept+wire.FormatTime(w.clock.now()))
		}
	}
	// 201 days on, the rows of the first two days lie behind the half year: the newer one is kept.
	got := w.rows(t, "SELECT program || ' ' || CAST(snapshot AS TEXT) || ' ' || at FROM terminal_changes WHERE terminal = 'T-1' ORDER BY at")
	if !slices.Equal(got, want) {
		t.Errorf("%q, want\n%q", got, want)
	}
}
