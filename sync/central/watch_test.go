package central

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"grattoir/sync/wire"
	"grattoir/validate"
	"grattoir/validate/policy"
)

// rows joins the columns of a query's rows with blanks.
func (w *world) rows(t testing.TB, query string, args ...any) []string {
	t.Helper()
	list := []string{}
	err := eachRow(t.Context(), w.Reader(), query, func(row scanner) error {
		var text string
		err := row.Scan(&text)
		list = append(list, text)
		return err
	}, args...)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestSilencesAndFaultsAreKeptWithTheirCause: whoever was not heard for long enough has it
// written down when it is heard again, be it by a hello or by an upload before it.
func TestSilencesAndFaultsAreKeptWithTheirCause(t *testing.T) {
	onEachStore(t, testSilencesAndFaultsAreKeptWithTheirCause)
}

func testSilencesAndFaultsAreKeptWithTheirCause(t *testing.T, w *world) {
	d := w.enrolled(t, "T-1")
	w.give(t, "T-1", 10, 12)
	first, second := strings.Repeat("a", 32), strings.Repeat("b", 32)
	says := func(run string, count int64, faults ...string) func(*wire.Hello) {
		return func(h *wire.Hello) { h.Run, h.Count, h.Faults = run, count, faults }
	}
	start := w.clock.now()
	d.hello(t, says(first, 1))
	w.clock.advance(wire.SilentAfter - time.Millisecond) // not long enough
	d.hello(t, says(first, 2, "P2"))
	w.clock.advance(time.Hour)
	d.hello(t, says(first, 3, "P2", "C1")) // the same run: the line was away
	w.clock.advance(time.Hour)
	lots := w.winners(10, 12)
	d.pay(t, lots[0])
	d.send(t, 1, 1) // an upload knows no cause
	d.hello(t, says(second, 1, "C1"))
	after := func(d time.Duration) string { return wire.FormatTime(start.Add(d)) }
	ten := wire.SilentAfter - time.Millisecond
	want := []string{
		"C1 " + after(ten+time.Hour) + " ",
		"P2 " + after(ten) + " " + after(ten+2*time.Hour),
		"no-contact link " + after(ten) + " " + after(ten+time.Hour),
		"no-contact stopped " + after(ten+time.Hour) + " " + after(ten+2*time.Hour),
	}
	got := w.rows(t, "SELECT CASE WHEN cause = '' THEN code ELSE code || ' ' || cause END || ' ' || began || ' ' || ended FROM outages WHERE terminal = 'T-1' ORDER BY 1")
	if !slices.Equal(got, want) {
		t.Errorf("outages\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if got := w.rows(t, "SELECT entered FROM claims"); !slices.Equal(got, []string{"scan"}) {
		t.Errorf("claims were entered by %q, want scan", got)
	}
}

// TestLooksAndSightingsAreKeptOnce: a count only rises, and what is told again is there once.
func TestLooksAndSightingsAreKeptOnce(t *testing.T) {
	onEachStore(t, testLooksAndSightingsAreKeptOnce)
}

func testLooksAndSightingsAreKeptOnce(t *testing.T, w *world) {
	d := w.enrolled(t, "T-1")
	tell := func(number int64, sightings ...int64) func(*wire.Hello) {
		return func(h *wire.Hello) {
			h.Looks = []wire.Look{{Day: "2026-11-30", Reason: validate.NotAWinner, Entered: validate.Scanned, Number: number}}
			for _, n := range sightings {
				h.Sightings = append(h.Sightings, wire.Sighting{Number: n, Block: w.block.ID, Pack: 10, Ticket: uint16(n), Reason: validate.Winner, Entered: validate.Typed, Seen: wire.FormatTime(noon)})
			}
		}
	}
	for _, x := range []struct {
		number    int64
		sightings []int64
		want      int64
	}{{3, nil, 0}, {5, []int64{1, 2}, 2}, {4, []int64{2, 7}, 7}, {5, nil, 7}} {
		a, e := d.hello(t, tell(x.number, x.sightings...))
		if e != nil || a.Sighted != x.want {
			t.Fatalf("sighted %d %v, want %d", a.Sighted, e, x.want)
		}
	}
	if got := w.rows(t, "SELECT CAST(number AS TEXT) FROM looks"); !slices.Equal(got, []string{"5"}) {
		t.Errorf("looks %q, want the highest, 5", got)
	}
	if n := w.count(t, "SELECT count(*) FROM sightings"); n != 3 {
		t.Errorf("%d sightings, want 3", n)
	}
	if _, e := d.hello(t, tell(0)); e == nil || e.Kind != wire.KindBadRequest {
		t.Errorf("a count of none: %v, want bad-request", e)
	}
}

// TestPrizeTablesAreThereForReports: of a block published now and of one that an earlier
// program published.
func TestPrizeTablesAreThereForReports(t *testing.T) {
	onEachStore(t, func(t *testing.T, w *world) {
		tiers := "SELECT CAST(tier AS TEXT) || ' ' || CAST(tickets AS TEXT) || ' ' || CAST(amount_minor AS TEXT) FROM block_tiers ORDER BY tier"
		want := []string{"1 2 20000", "2 20 2000"}
		if got := w.rows(t, tiers); !slices.Equal(got, want) {
			t.Errorf("published: %q, want %q", got, want)
		}
		err := w.store.change(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "DELETE FROM block_tiers")
			return err
		})
		if err == nil {
			err = w.tiersOfAll(t.Context())
		}
		if got := w.rows(t, tiers); err != nil || !slices.Equal(got, want) {
			t.Errorf("of an earlier program: %q %v, want %q", got, err, want)
		}
	})
}

// TestSettlementsAreClosedInTurnAndOnce: without a gap, after their last day, and nothing
// is kept of one that could not be made.
func TestSettlementsAreClosedInTurnAndOnce(t *testing.T) {
	onEachStore(t, testSettlementsAreClosedInTurnAndOnce)
}

func testSettlementsAreClosedInTurnAndOnce(t *testing.T, w *world) {
	day := func(d int) policy.Date { return policy.Date{Year: 2026, Month: time.November, Day: d} }
	broken := errors.New("cannot be made")
	var seen Closing
	closing := func(first, last policy.Date, fails error) (Settlement, error) {
		return w.CloseSettlement(t.Context(), first, last, "anne", func(_ context.Context, _ *sql.Tx, x Closing) (string, string, error) {
			seen = x
			return "head of " + x.First.String() + " after " + x.Previous + "\n", "lines\n", fails
		})
	}
	if _, err := closing(day(1), day(10), broken); !errors.Is(err, broken) {
		t.Fatal(err)
	}
	one, err := closing(day(1), day(10), nil)
	if err != nil || one.Number != 1 || seen.Previous != "" {
		t.Fatalf("%+v %v", one, err)
	}
	for name, x := range map[string][2]policy.Date{"again": {day(1), day(10)}, "a gap": {day(12), day(13)}, "overlapping": {day(10), day(13)},
		"backwards": {day(11), day(10)}, "today": {day(11), day(30)}} {
		if _, err := closing(x[0], x[1], nil); !errors.Is(err, ErrRefused) {
			t.Errorf("%s: %v, want ErrRefused", name, err)
		}
	}
	two, err := closing(day(11), day(29), nil)
	if err != nil || two.Number != 2 || seen.Before.Note != one.Note || len(seen.Previous) != 64 {
		t.Fatalf("%+v %v", two, err)
	}
	verifier, err := note.NewVerifier(w.PublicKey())
	if err != nil {
		t.Fatal(err)
	}
	if n, err := note.Open([]byte(two.Note), note.VerifierList(verifier)); err != nil || !strings.HasPrefix(n.Text, "head of 2026-11-11 after "+seen.Previous) {
		t.Errorf("%v %+v", err, n)
	}
	list, err := w.Settlements(t.Context())
	if err != nil || len(list) != 2 || list[0].Number != 2 || list[1].Note != one.Note {
		t.Errorf("%+v %v", list, err)
	}
	if got, err := w.Settlement(t.Context(), 1); err != nil || got.Lines != "lines\n" {
		t.Errorf("%+v %v", got, err)
	}
	if _, err := w.Settlement(t.Context(), 3); !errors.Is(err, ErrNotFound) {
		t.Errorf("%v", err)
	}
}
