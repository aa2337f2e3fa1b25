package report

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"testing"

	"grattoir/sync/central"
	"grattoir/validate/money"
)

// testStreamsAndPages: what is streamed is what a report held in memory writes, and a first
// page has its first rows and all of its totals.
func testStreamsAndPages(t *testing.T, s *store) {
	for _, a := range Kinds() {
		for _, f := range []Filter{{}, goldenViews()[a.Name]} {
			whole := make1(t, s, a.Name, f)
			for _, form := range Formats() {
				if form == XLSX && len(whole.Rows) > 600 {
					continue
				}
				var b bytes.Buffer
				r, n, err := Stream(t.Context(), s.read, a.Name, f, fleetNow, &b, form, money.English)
				if err != nil || n != len(whole.Rows) || r.Rows != nil || !reflect.DeepEqual(r.Totals, whole.Totals) {
					t.Fatalf("%s %s: %d rows, want %d, or other totals: %v", a.Name, form, n, len(whole.Rows), err)
				}
				if form != XLSX && // whose bytes have no order
					!bytes.Equal(b.Bytes(), written(t, whole, form)) {
					t.Errorf("%s %s: another text than of the report in memory", a.Name, form)
				}
			}
			for _, n := range []int{1, 40} {
				r, all, err := First(t.Context(), s.read, a.Name, f, fleetNow, n)
				want := whole.Rows[:min(n, len(whole.Rows))]
				if err != nil || !reflect.DeepEqual(r.Rows, want) || !reflect.DeepEqual(r.Totals, whole.Totals) || !reflect.DeepEqual(r.Parts, whole.Parts) {
					t.Errorf("%s, %d rows: others, or %+v, want %+v: %v", a.Name, n, r.Totals, whole.Totals, err)
				}
				if all != len(whole.Rows) && all != -1 {
					t.Errorf("%s: %d rows in all, want %d", a.Name, all, len(whole.Rows))
				}
			}
		}
	}
}

// TestStreamHoldsNoRows: ten times the rows take no more memory.
func TestStreamHoldsNoRows(t *testing.T) {
	dir := t.TempDir()
	db := openCountry(t, central.Options{Dir: dir}, "sqlite3", "file:"+filepath.Join(dir, "central.db")+"?_busy_timeout=5000", fleetTerminals, 225_000)
	forms := []Format{CSV}
	if os.Getenv("GRATTOIR_SOAK") != "" {
		forms = Formats()
	}
	for _, form := range forms {
		live := func(f Filter) (rows int, most uint64) {
			w := &watched{}
			_, rows, err := Stream(t.Context(), db, "payouts", f, countryNow, w, form, money.French)
			if err != nil {
				t.Fatal(err)
			}
			return rows, w.most
		}
		few, before := live(Filter{From: dayOf(countryNow.AddDate(0, 0, -9))})
		many, after := live(Filter{})
		t.Logf("%s: %d rows %d kB, %d rows %d kB", form, few, before>>10, many, after>>10)
		if few < 18_000 || many < 180_000 || float64(after) > 1.2*float64(before) {
			t.Errorf("%s: %d rows keep %d bytes, %d rows %d", form, few, before, many, after)
		}
	}
}

// watched keeps the most memory that was in use after a collection, at some of the writes.
type watched struct {
	writes int
	most   uint64
}

func (w *watched) Write(p []byte) (int, error) {
	if w.writes++; w.writes%64 == 1 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		w.most = max(w.most, m.HeapAlloc)
	}
	return len(p), nil
}

// TestStreamStopsWithItsReader: whoever goes away ends the reading, and the words say it.
func TestStreamStopsWithItsReader(t *testing.T) {
	s := newStore(t)
	for i := range 20 {
		s.add(fmt.Sprintf("shop-%04d", i), "enrolled", at(0))
	}
	gone := errors.New("gone")
	for _, form := range Formats() {
		if _, _, err := Stream(t.Context(), s.read, "sync", Filter{}, now, failing{gone}, form, money.English); !errors.Is(err, gone) {
			t.Errorf("%s: %v", form, err)
		}
	}
	if _, _, err := Stream(t.Context(), s.read, "sync", Filter{}, now, io.Discard, "pdf", money.English); !errors.Is(err, ErrFormat) {
		t.Errorf("%v", err)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }
