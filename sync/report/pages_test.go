package report

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"grattoir/sync/ledger"
	"grattoir/validate"
)

// testFleetPages: the pages of a fleet agree with the sync report, in every order.
func testFleetPages(t *testing.T, s *store) {
	whole := make1(t, s, "sync", Filter{})
	states := map[string]string{}
	for _, row := range whole.Rows {
		states[row[0].Text] = row[1].Text
	}
	for i, sort := range FleetSorts() {
		for _, down := range []bool{false, true} {
			if sort != "contact" && down == (i%2 == 0) { // the two ways are one piece of code
				continue
			}
			rows := allPages(t, s, FleetQuery{Sort: sort, Down: down, Limit: 97})
			seen := map[string]bool{}
			for _, r := range rows {
				if seen[r.Name] {
					t.Fatalf("by %s, down %v: %s is on two pages", sort, down, r.Name)
				}
				seen[r.Name] = true
				if r.State != states[r.Name] {
					t.Errorf("%s is %s, in the sync report %s", r.Name, r.State, states[r.Name])
				}
			}
			if len(seen) != fleetTerminals {
				t.Errorf("by %s, down %v: %d terminals on all pages, want %d", sort, down, len(seen), fleetTerminals)
			}
			ordered := slices.IsSortedFunc(rows, func(a, b FleetRow) int {
				if down {
					a, b = b, a
				}
				return a.Contact.Compare(b.Contact)
			})
			if sort == "contact" && !ordered {
				t.Errorf("by contact, down %v: not in order", down)
			}
		}
	}
	t.Run("counts", func(t *testing.T) { testFleetCounts(t, s, whole) })
}

func allPages(t *testing.T, s *store, q FleetQuery) []FleetRow {
	t.Helper()
	var rows []FleetRow
	for range 100 {
		p, err := Fleet(t.Context(), s.read, q, fleetNow)
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, p.Rows...)
		if q.After = p.Next; q.After == "" {
			return rows
		}
	}
	t.Fatalf("by %s: the pages do not end", q.Sort)
	return nil
}

// testFleetCounts: every count is the number of rows that its filter gives, and the states
// add up, with and without another filter.
func testFleetCounts(t *testing.T, s *store, whole Report) {
	for _, q := range []FleetQuery{{}, {Region: "idf"}, {Name: "tabac-00"}, {Trouble: TroubleUnsent}, {Trouble: TroubleFaults, Region: "bzh"}} {
		p, err := Fleet(t.Context(), s.read, q, fleetNow)
		if err != nil {
			t.Fatal(err)
		}
		sum := 0
		for i, part := range p.Parts {
			sum += part.Count
			only := q
			only.State = part.Key
			if n := len(allPages(t, s, only)); n != part.Count {
				t.Errorf("%+v: %s says %d and has %d rows", q, part.Key, part.Count, n)
			}
			if q == (FleetQuery{}) && part.Count != whole.Parts[i].Count {
				t.Errorf("%s: %d, in the sync report %d", part.Key, part.Count, whole.Parts[i].Count)
			}
		}
		r, err := FleetReport(t.Context(), s.read, q, fleetNow)
		if err != nil || len(r.Rows) != p.All {
			t.Fatalf("%+v: %d rows as a report, %d in all: %v", q, len(r.Rows), p.All, err)
		}
		for i, row := range allPages(t, s, q) {
			if !reflect.DeepEqual(r.Rows[i], row.values(fleetNow)) {
				t.Fatalf("%+v: a row of the report is %+v, of the page %+v", q, r.Rows[i], row)
			}
		}
		if n := len(allPages(t, s, q)); sum != p.All || n != p.All || sum == 0 {
			t.Errorf("%+v: states add up to %d, %d in all, %d rows", q, sum, p.All, n)
		}
		for _, trouble := range Troubles() {
			only := q
			only.Trouble = trouble
			if n := len(allPages(t, s, only)); n != p.Troubles[trouble] {
				t.Errorf("%+v: %s says %d and has %d rows", q, trouble, p.Troubles[trouble], n)
			}
		}
	}
	for _, r := range allPages(t, s, FleetQuery{Name: "t-001"}) {
		for _, row := range whole.Rows {
			if row[0].Text == r.Name && row[7].Known != r.Told || row[0].Text == r.Name && row[7].Int != r.Lag.Milliseconds() {
				t.Errorf("%s lags %v, in the sync report %v ms", r.Name, r.Lag, row[7].Int)
			}
		}
	}
}

// testPayoutCurve: the curve ends at what the liability report says was paid, and the
// expectation of a block that is on sale whole is its table.
func testPayoutCurve(t *testing.T, s *store, f *madeFleet) {
	liability := make1(t, s, "liability", Filter{})
	for _, row := range liability.Rows {
		b := f.blocks[slices.IndexFunc(f.blocks, func(b fleetBlock) bool { return b.id.String() == row[3].Text })]
		c, err := PayoutCurve(t.Context(), s.read, b.id, fleetNow)
		if err != nil {
			t.Fatal(err)
		}
		last := c.Points[len(c.Points)-1]
		if last.Paid != row[11].Int || last.Day != dayOf(fleetNow) {
			t.Errorf("block %v: the curve ends on %v at %d, the liability report says %d", b.id, last.Day, last.Paid, row[11].Int)
		}
		for i, p := range c.Points {
			if p.Low > p.Expected || p.Expected > p.High || p.OnSale > c.Tickets || i > 0 && p.OnSale < c.Points[i-1].OnSale {
				t.Fatalf("block %v: %+v", b.id, p)
			}
		}
		whole := CurvePoint{OnSale: b.tickets}
		whole.expect(b.tiers, b.tickets)
		if got := [2]int64{whole.Low, whole.High}; got != [2]int64{c.Table, c.Table} {
			t.Errorf("block %v sold whole: %v, its table is %d", b.id, got, c.Table)
		}
	}
}

// TestClosingsAreTheNewestOfAJournal: those that a terminal's journal holds, newest first.
func TestClosingsAreTheNewestOfAJournal(t *testing.T) {
	s := newStore(t)
	s.add("t-1", "enrolled", at(time.Minute))
	s.exec("UPDATE terminals SET ack_seq = 30 WHERE name = 't-1'")
	for n := range int64(3) {
		body, err := json.Marshal(validate.ClosingFacts{Kind: validate.DayClosing, Number: n, Period: fmt.Sprintf("2026-11-2%d", n), Operator: "lea",
			From: validate.EntryNumber{Epoch: 1, Seq: 10*n + 1}, To: validate.EntryNumber{Epoch: 1, Seq: 10*n + 9}, Totals: []validate.Totals{}, Games: []validate.GameTotals{}, Perpetual: []validate.Perpetual{}})
		if err != nil {
			t.Fatal(err)
		}
		line, err := json.Marshal(ledger.Entry{Version: ledger.EntryVersion, Terminal: "t-1", Epoch: 1, Seq: 10 * (n + 1), Boot: "b", Time: at(time.Hour), Kind: ledger.KindClosing, Body: body, Prev: strings.Repeat("0", 64)})
		if err != nil {
			t.Fatal(err)
		}
		s.exec("INSERT INTO entries(terminal, epoch, seq, kind, line, hash, received) VALUES('t-1', 1, $1, $2, $3, $4, $5)", 10*(n+1), string(ledger.KindClosing), line, []byte{1}, at(time.Hour))
	}
	list, err := Closings(t.Context(), s.read, "t-1", 2)
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 2 || list[0].Number != (validate.EntryNumber{Epoch: 1, Seq: 30}) || list[1].Facts.Number != 1 || list[0].Facts.Operator != "lea" {
		t.Errorf("%+v", list)
	}
}
