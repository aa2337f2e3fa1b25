package central

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"grattoir/sync/wire"
)

// TestLookAtTheFeedReadsNothingOfOthers: a terminal that was off while a thousand others had
// items gets its own and those of all, in their order and at most so many, by an index.
func TestLookAtTheFeedReadsNothingOfOthers(t *testing.T) {
	for _, s := range stores()[:2] {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			w := newWorldOn(t, s.database(t))
			// First the two by turns, then thirty times as many of others.
			w.exec(t, `INSERT INTO feed(seq, kind, audience, item, at) WITH RECURSIVE s(i) AS (SELECT 100 UNION ALL SELECT i + 1 FROM s WHERE i < 20000)
				SELECT i, 'pack', CASE WHEN i >= 700 THEN 'P-' || i WHEN i % 2 = 0 THEN 'T-1' ELSE '' END, '{"seq":' || i || ',"kind":"pack"}', '2026-11-30T12:00:00.000Z' FROM s`)
			w.exec(t, "ANALYZE feed")
			var got []int64
			for after := int64(99); ; {
				items, err := w.feedAfter(t.Context(), "T-1", after)
				if err != nil || len(items) > wire.MaxFeed {
					t.Fatalf("%d items: %v", len(items), err)
				}
				if len(items) == 0 {
					break
				}
				for _, i := range items {
					got = append(got, i.Seq)
				}
				after = got[len(got)-1]
			}
			if len(got) != 600 || !slices.IsSorted(got) || got[0] != 100 || got[599] != 699 {
				t.Errorf("%d items from %v on", len(got), got[:min(len(got), 5)])
			}
			explain := map[string]string{"sqlite": "EXPLAIN QUERY PLAN ", "postgres": "EXPLAIN (COSTS OFF) "}[s.name]
			plan := strings.Join(w.steps(t, explain+itemsAfter, everyone, 100, wire.MaxFeed, "T-1"), "\n")
			if strings.Count(plan, "feed_audience") != 2 || strings.Contains(plan, "SCAN feed") || strings.Contains(plan, "Seq Scan") {
				t.Errorf("an index finds each of the two:\n%s", plan)
			}
		})
	}
}

// steps are the lines of a plan, the last column of each row.
func (w *world) steps(t *testing.T, query string, args ...any) (lines []string) {
	t.Helper()
	rows, err := w.Reader().QueryContext(t.Context(), query, args...)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		cells, places := make([]any, len(names)), make([]any, len(names))
		for i := range cells {
			places[i] = &cells[i]
		}
		if err := rows.Scan(places...); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, fmt.Sprint(cells[len(cells)-1]))
	}
	if rows.Err() != nil {
		t.Fatal(rows.Err())
	}
	return lines
}
