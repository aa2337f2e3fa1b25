package report

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	_ "github.com/mattn/go-sqlite3"

	"grattoir/sync/central"
	"grattoir/sync/central/pgtest"
	"grattoir/sync/ledger"
	"grattoir/sync/wire"
	"grattoir/validate"
	"grattoir/validate/money"
)

var update = flag.Bool("update", false, "rewrite the golden files")

var now = time.Date(2026, 11, 28, 11, 3, 4, 0, time.UTC) // 12:03:04 in Paris

// store is a real central's store that the test writes rows into, past central's own rules.
type store struct {
	t    *testing.T
	db   *sql.DB // writes
	read *sql.DB // as reports get it

	central *central.Central
}

// server is this binary's PostgreSQL, started by the test that wants it.
var server pgtest.Shared

func TestMain(m *testing.M) { os.Exit(server.Main(m)) }

func newStore(t *testing.T) *store {
	t.Helper()
	dir := t.TempDir()
	return openStore(t, central.Options{Dir: dir}, "sqlite3", "file:"+filepath.Join(dir, "central.db")+"?_busy_timeout=5000")
}

func newPostgresStore(t *testing.T) *store {
	t.Helper()
	database := server.Fresh(t)
	return openStore(t, central.Options{Dir: t.TempDir(), Database: database}, "pgx", database)
}

// openStore opens a central and, by a driver, what its tables are written with.
func openStore(t *testing.T, opt central.Options, driver, name string) *store {
	t.Helper()
	opt.Now = func() time.Time { return now.Add(-48 * time.Hour) } // so that nothing of its own is as new as what tests write
	c, err := central.Open(t.Context(), opt)
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open(driver, name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(db.Close(), c.Close()); err != nil {
			t.Error(err)
		}
	})
	s := &store{t, db, c.Reader(), c}
	s.exec("DELETE FROM snapshots") // the first one is central's, made at start
	return s
}

func (s *store) exec(query string, args ...any) {
	s.t.Helper()
	if _, err := s.db.ExecContext(s.t.Context(), query, args...); err != nil {
		s.t.Fatalf("%s: %v", query, err)
	}
	if regexp.MustCompile(`(INTO|UPDATE) (claims|reversals|blocks|block_tiers)\b`).MatchString(query) {
		s.count()
	}
}

// count makes the sums of claims that were written past central.
func (s *store) count() {
	s.t.Helper()
	if err := s.central.CountClaims(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
}

func at(ago time.Duration) string { return wire.FormatTime(now.Add(-ago)) }

// add puts in an enrolled terminal; contact "" is none.
func (s *store) add(name, state, contact string) {
	s.exec("INSERT INTO terminals(name, state, added, contact, ack_hash, cert_expires) VALUES($1, $2, $3, $4, $5, $6)", name, state, at(90*24*time.Hour), contact,
		strings.Repeat("0", 64), wire.FormatTime(now.Add(60*24*time.Hour)))
}

func (s *store) hello(name string, snapshot, feed, unsent, skew, disk int64, faults string) {
	s.exec("UPDATE terminals SET program = 'terminald 0.2', head_seq = ack_seq + $1, snapshot = $2, feed = $3, unsent = $4, skew_ms = $5, disk_free = $6, faults = $7 WHERE name = $8",
		unsent, snapshot, feed, unsent, skew, disk, faults, name)
}

func id(n byte) validate.BlockID { return validate.BlockID{15: n} }

func (s *store) block(n byte, serial int64, game, emission, currency string, number, scaled int) {
	b := id(n)
	sum := sha256.Sum256([]byte{n, byte(serial)})
	s.exec(`INSERT INTO blocks(block_id, serial, sha256, size, game, name, emission, number, game_code, tickets, first_pack, last_pack, pack_size, price_minor, currency, scaled, min_reader, published)
		VALUES($1, $2, $3, 1, $4, $5, $6, $7, '00399', 1000, 1, 20, 50, 200, $8, $9, 1, $10)`, b[:], serial, hex.EncodeToString(sum[:]), game, game, emission, number, currency, scaled, at(time.Hour))
}

var seqs int64 // of entries, over all tests; only their difference counts

func (s *store) claim(block byte, terminal, paid, currency string, amount int64) {
	seqs++
	b := id(block)
	s.exec(`INSERT INTO claims(block_id, pack, ticket, round, claim, terminal, epoch, seq, tier, amount_minor, currency, operator, paid, received)
		VALUES($1, $2, 1, 0, $3, $4, 1, $5, 1, $6, $7, 'op', $8, $9)`, b[:], seqs, fmt.Sprintf("%032x", seqs), terminal, seqs, amount, currency, paid, at(0))
}

// conflict stores a claim that was not credited; block 0 is an entry that names none.
func (s *store) conflict(block byte, terminal, paid, currency string, amount any) {
	seqs++
	line, err := json.Marshal(ledger.Entry{Version: ledger.EntryVersion, Terminal: terminal, Epoch: 1, Seq: seqs, Time: paid, Kind: ledger.KindClaim, Body: json.RawMessage("{}")})
	if err != nil {
		s.t.Fatal(err)
	}
	var b any
	if block > 0 {
		raw := id(block)
		b = raw[:]
	}
	s.exec(`INSERT INTO conflicts(terminal, epoch, seq, kind, text, block_id, pack, ticket, round, amount_minor, currency, line, received)
		VALUES($1, 1, $2, 'double-claim', 'paid twice', $3, 1, 1, 0, $4, $5, $6, $7)`, terminal, seqs, b, amount, currency, line, at(0))
}

func (s *store) snapshot(version int64, ago time.Duration) {
	s.exec("INSERT INTO snapshots(version, issued, note) VALUES($1, $2, '')", version, at(ago))
}

func (s *store) feed(seq int64, audience string, ago time.Duration) {
	s.exec("INSERT INTO feed(seq, kind, audience, item, at) VALUES($1, 'pack', $2, '{}', $3)", seq, audience, at(ago))
}

// fleet is one small fleet with a terminal in each state and each kind of claim.
func fleet(t *testing.T) *store { return newStore(t).fleet() }

func (s *store) fleet() *store {
	s.snapshot(1, 40*time.Hour)
	s.snapshot(2, 3*time.Hour)
	s.feed(1, "", 30*time.Hour)
	s.feed(2, "shop-0001", 20*time.Hour)
	s.feed(3, "shop-0002", 2*time.Hour)
	s.feed(4, "", time.Minute)
	s.add("shop-0001", "enrolled", at(30*time.Second))
	s.exec("UPDATE terminals SET ack_seq = 41 WHERE name = 'shop-0001'")
	s.hello("shop-0001", 2, 4, 0, -250, 12_000_000_000, "[]")
	s.add("shop-0002", "enrolled", at(5*time.Hour))
	s.hello("shop-0002", 1, 2, 7, 4100, 800_000_000, `["P2","=cmd"]`)
	s.add("shop-0003", "enrolled", at(9*24*time.Hour))
	s.hello("shop-0003", 0, 0, 3, 0, 0, `["C1"]`)
	s.add("shop-0004", "suspended", at(time.Minute))
	s.exec("UPDATE terminals SET reason = 'same number, other bytes', head_seq = 5 WHERE name = 'shop-0004'")
	s.add("shop-0005", "never-seen", "")
	s.block(1, 1, "bingo", "1", "EUR", 1, 0)
	s.block(2, 1, "crossingo", "7", "EUR", 2, 0)
	s.block(3, 1, "bingo", "1", "EUR", 9, 1)
	s.block(4, 1, "francs", "1", "XPF", 1, 0)
	s.claim(1, "shop-0001", "2026-11-27T09:00:00.000Z", "EUR", 2000)
	s.claim(1, "shop-0001", "2026-11-27T09:20:00.000Z", "EUR", 50)
	s.claim(1, "shop-0002", "2026-11-27T22:59:59.999Z", "EUR", 500) // the last moment of the 27th in Paris
	s.claim(1, "shop-0002", "2026-11-27T23:00:00.000Z", "EUR", 700) // the first of the 28th
	s.claim(2, "shop-0001", "2026-11-28T10:00:00.000Z", "EUR", 100000)
	s.claim(3, "shop-0001", "2026-11-28T10:05:00.000Z", "EUR", 300)
	s.claim(4, "shop-0003", "1970-01-01T00:00:09.000Z", "XPF", 12345) // a clock that was never set
	s.claim(1, "shop-0003", "yesterday", "EUR", 1)
	s.conflict(1, "shop-0002", "2026-11-27T12:00:00.000Z", "EUR", 2000)
	s.conflict(2, "shop-0003", "2026-11-28T10:00:00.000Z", "", int64(math.MaxInt64))
	s.conflict(2, "shop-0003", "2026-11-28T10:00:00.000Z", "", int64(math.MaxInt64))
	s.conflict(0, "shop-0003", "2026-11-28T10:00:00.000Z", "", nil)
	return s
}

func must(t *testing.T, r Report, err error) Report {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// cell finds a value by its column.
func cell(t *testing.T, r Report, row []Value, key string) Value {
	t.Helper()
	i := slices.IndexFunc(r.Columns, func(c Column) bool { return c.Key == key })
	if i < 0 {
		t.Fatalf("no column %s", key)
	}
	return row[i]
}

// rowOf finds the row of a terminal.
func rowOf(t *testing.T, r Report, terminal string) []Value {
	t.Helper()
	for _, row := range r.Rows {
		if cell(t, r, row, "terminal").Text == terminal {
			return row
		}
	}
	t.Fatalf("no row of %s", terminal)
	return nil
}

// TestReportsAreWrittenAsAgreed: the same bytes from either database.
func TestReportsAreWrittenAsAgreed(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) { testReports(t, newStore(t).fleet()) })
	t.Run("postgres", func(t *testing.T) { testReports(t, newPostgresStore(t).fleet()) })
}

func testReports(t *testing.T, s *store) {
	for name, make := range map[string]func(context.Context, *sql.DB, Filter, time.Time) (Report, error){"sync": Sync, "payouts": Payouts} {
		r, err := make(t.Context(), s.read, Filter{}, now)
		r = must(t, r, err)
		for _, f := range []Format{Table, JSON, CSV} {
			var got bytes.Buffer
			if err := r.Write(&got, f); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join("testdata", name+"."+string(f))
			if *update {
				if err := os.WriteFile(path, got.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got.Bytes(), want) {
				t.Errorf("%s differs; run with -update and look at the difference. Got:\n%s", path, got.Bytes())
			}
		}
	}
}

func TestStatesAreAPartition(t *testing.T) {
	s := newStore(t)
	cases := []struct{ name, state, contact, want string }{
		{"never", "never-seen", "", StateNeverSeen},
		{"enrolled-only", "enrolled", "", StateNeverSeen},
		{"now", "enrolled", at(0), StateInContact},
		{"fresh", "enrolled", at(10*time.Minute - time.Millisecond), StateInContact},
		{"ten", "enrolled", at(10 * time.Minute), StateLate},
		{"day-less", "enrolled", at(24*time.Hour - time.Millisecond), StateLate},
		{"day", "enrolled", at(24 * time.Hour), StateMissing},
		{"suspended", "suspended", at(0), StateSuspended},
		{"suspended-unseen", "suspended", "", StateSuspended},
		{"little-ahead", "enrolled", at(-time.Second), StateInContact},
		{"far-ahead", "enrolled", at(-25 * time.Hour), StateMissing},
	}
	for _, c := range cases {
		s.add(c.name, c.state, c.contact)
	}
	r, err := Sync(t.Context(), s.read, Filter{}, now)
	r = must(t, r, err)
	for _, c := range cases {
		if got := cell(t, r, rowOf(t, r, c.name), "state").Text; got != c.want {
			t.Errorf("%s is %s, want %s", c.name, got, c.want)
		}
	}
	sum := 0
	counted := map[string]int{}
	for _, row := range r.Rows {
		counted[cell(t, r, row, "state").Text]++
	}
	for _, p := range r.Parts {
		sum += p.Count
		if p.Count != counted[p.Key] {
			t.Errorf("%s: %d counted, %d rows", p.Key, p.Count, counted[p.Key])
		}
	}
	if sum != len(cases) || len(r.Rows) != len(cases) {
		t.Errorf("parts add up to %d, %d rows, want %d", sum, len(r.Rows), len(cases))
	}
}

func TestSyncShowsWhatIsNotKnownAsUnknown(t *testing.T) {
	s := fleet(t)
	r, err := Sync(t.Context(), s.read, Filter{}, now)
	r = must(t, r, err)
	for _, name := range []string{"shop-0004", "shop-0005"} { // uploaded without a hello; never seen
		for _, key := range []string{"unsent", "snapshot", "snapshot_behind", "feed", "feed_behind", "data_lag", "skew", "disk_free", "faults"} {
			if v := cell(t, r, rowOf(t, r, name), key); v.Known {
				t.Errorf("%s %s: %+v, want unknown", name, key, v)
			}
		}
	}
	if v := cell(t, r, rowOf(t, r, "shop-0003"), "disk_free"); !v.Known || v.Int != 0 {
		t.Errorf("a full disk: %+v, want a known 0", v)
	}
	if v := cell(t, r, r.Totals[0], "unsent"); v.Int != 10 || v.Holes != 2 {
		t.Errorf("unsent in all: %+v, want 10 and 2 unknown", v)
	}
}

func TestSyncCountsOnlyFeedItemsOfTheTerminal(t *testing.T) {
	s := fleet(t)
	r, err := Sync(t.Context(), s.read, Filter{}, now)
	r = must(t, r, err)
	for name, want := range map[string]struct {
		snapshots, items int64
		lag              time.Duration
	}{
		"shop-0001": {0, 0, 0},
		"shop-0002": {1, 2, 3 * time.Hour},  // items 3 and 4, snapshot 2
		"shop-0003": {2, 2, 40 * time.Hour}, // items 1 and 4, snapshots 1 and 2
	} {
		row := rowOf(t, r, name)
		if got := cell(t, r, row, "snapshot_behind").Int; got != want.snapshots {
			t.Errorf("%s: %d snapshots behind, want %d", name, got, want.snapshots)
		}
		if got := cell(t, r, row, "feed_behind").Int; got != want.items {
			t.Errorf("%s: %d items behind, want %d", name, got, want.items)
		}
		if got := cell(t, r, row, "data_lag").Int; got != want.lag.Milliseconds() {
			t.Errorf("%s: lag %d ms, want %v", name, got, want.lag)
		}
	}
}

func TestSyncOfOneTerminalShowsNoOther(t *testing.T) {
	s := fleet(t)
	r, err := Sync(t.Context(), s.read, Filter{Terminal: "shop-0003"}, now)
	r = must(t, r, err)
	count := 0
	for _, p := range r.Parts {
		count += p.Count
	}
	if len(r.Rows) != 1 || count != 1 || cell(t, r, r.Totals[0], "unsent").Int != 3 {
		t.Fatalf("%d rows, parts add up to %d, totals %v", len(r.Rows), count, r.Totals)
	}
	if row := rowOf(t, r, "shop-0003"); cell(t, r, row, "conflicts").Int != 3 {
		t.Errorf("conflicts %+v, want 3", cell(t, r, row, "conflicts"))
	}
}

// sums are a report's numbers as one form shows them.
type sums struct {
	rows             int
	claims, amount   int64
	conflicts        int64
	conflictsUnknown int
}

func TestEveryFormHasTheSameNumbers(t *testing.T) {
	s := fleet(t)
	for _, f := range []Filter{{}, {Game: "bingo"}, {Terminal: "shop-0002"}, {From: Day{2026, 11, 28}}, {To: Day{2026, 11, 27}}, {Game: "crossingo", Terminal: "shop-0001", From: Day{2026, 11, 28}, To: Day{2026, 11, 28}}} {
		r, err := Payouts(t.Context(), s.read, f, now)
		r = must(t, r, err)
		fromCSV, fromJSON, totals, fromTable := csvSums(t, r), jsonSums(t, r, "rows"), jsonSums(t, r, "totals"), tableSums(t, r)
		if fromCSV != fromJSON || fromTable != fromJSON {
			t.Errorf("%+v: csv %+v, table %+v, json %+v", f, fromCSV, fromTable, fromJSON)
		}
		totals.rows, totals.conflictsUnknown, fromJSON.conflictsUnknown = fromJSON.rows, 0, 0
		if totals != fromJSON {
			t.Errorf("%+v: totals %+v, rows %+v", f, totals, fromJSON)
		}
		if fromJSON.rows == 0 || fromJSON.claims == 0 {
			t.Errorf("%+v: nothing was compared", f)
		}
	}
}

func csvSums(t *testing.T, r Report) (s sums) {
	var b bytes.Buffer
	if err := r.WriteCSV(&b); err != nil {
		t.Fatal(err)
	}
	lines, err := csv.NewReader(&b).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range lines[1:] {
		row := map[string]string{}
		for i, key := range lines[0] {
			row[key] = line[i]
		}
		s.rows++
		s.claims += number(t, row["claims"])
		s.amount += number(t, strings.ReplaceAll(row["amount"], ".", ""))
		s.conflicts += number(t, row["conflicts"])
		if row["conflict_amount"] == "" {
			s.conflictsUnknown++
		}
	}
	return s
}

func jsonSums(t *testing.T, r Report, part string) (s sums) {
	var b bytes.Buffer
	if err := r.WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	var parsed map[string]json.RawMessage
	var rows []struct {
		Claims, Conflicts int64
		Amount            int64  `json:"amount_minor"`
		ConflictAmount    *int64 `json:"conflict_amount_minor"`
	}
	if err := errors.Join(json.Unmarshal(b.Bytes(), &parsed), json.Unmarshal(parsed[part], &rows)); err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		s.rows++
		s.claims, s.amount, s.conflicts = s.claims+row.Claims, s.amount+row.Amount, s.conflicts+row.Conflicts
		if row.ConflictAmount == nil {
			s.conflictsUnknown++
		}
	}
	return s
}

// tableSums reads the last columns, which no payout leaves empty here, from the right.
func tableSums(t *testing.T, r Report) (s sums) {
	var b bytes.Buffer
	if err := r.WriteTable(&b, money.English); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(b.String()) {
		cells := strings.Fields(strings.ReplaceAll(line, "XPF ", "XPF"))
		if n := len(cells); n > 8 && (len(cells[0]) == 10 || cells[0] == "-") && cells[0] != "TOTAL" {
			s.rows++
			s.claims += number(t, cells[n-6])
			s.amount += minor(t, cells[n-5])
			s.conflicts += number(t, cells[n-2])
			if cells[n-1] == "-" {
				s.conflictsUnknown++
			}
		}
	}
	return s
}

func number(t *testing.T, text string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// minor reads "€20.50", "€1,000" and "XPF12,345".
func minor(t *testing.T, text string) int64 {
	t.Helper()
	text = strings.ReplaceAll(text, ",", "")
	if francs, ok := strings.CutPrefix(text, "XPF"); ok {
		return number(t, strings.TrimSpace(francs))
	}
	whole, cents, _ := strings.Cut(strings.TrimPrefix(text, "€"), ".")
	return 100*number(t, whole) + number(t, cents+"00"[len(cents):])
}

func TestPayoutDayIsTheTerminalsDayInParis(t *testing.T) {
	s := fleet(t)
	for day, want := range map[string]map[string]int64{
		"2026-11-27": {"shop-0001": 2050, "shop-0002": 500},
		"2026-11-28": {"shop-0001": 100300, "shop-0002": 700, "shop-0003": 0},
	} {
		d, err := ParseDay(day)
		if err != nil {
			t.Fatal(err)
		}
		r, err := Payouts(t.Context(), s.read, Filter{From: d, To: d}, now)
		r = must(t, r, err)
		got := map[string]int64{}
		for _, row := range r.Rows {
			if v := cell(t, r, row, "day").Text; v != day {
				t.Errorf("a row of %q in the report of %s", v, day)
			}
			got[cell(t, r, row, "terminal").Text] += cell(t, r, row, "amount").Int
		}
		if !maps.Equal(got, want) {
			t.Errorf("%s: %v, want %v", day, got, want)
		}
	}
}

// TestSummerTimeDayHasTwentyFiveHours: the night in which clocks go back belongs to one day.
func TestSummerTimeDayHasTwentyFiveHours(t *testing.T) {
	s := newStore(t)
	s.add("shop-0001", "enrolled", at(0))
	s.block(1, 1, "bingo", "1", "EUR", 1, 0)
	for _, paid := range []string{"2026-10-24T21:59:59.999Z", "2026-10-24T22:00:00.000Z", "2026-10-25T22:59:59.999Z", "2026-10-25T23:00:00.000Z"} {
		s.claim(1, "shop-0001", paid, "EUR", 100)
	}
	r, err := Payouts(t.Context(), s.read, Filter{From: Day{2026, 10, 25}, To: Day{2026, 10, 25}}, now)
	r = must(t, r, err)
	if len(r.Rows) != 1 || cell(t, r, r.Rows[0], "claims").Int != 2 {
		t.Errorf("rows %v, want the two claims of 25 October", r.Rows)
	}
	r, err = Payouts(t.Context(), s.read, Filter{}, now)
	if r = must(t, r, err); len(r.Rows) != 3 {
		t.Errorf("%d days, want 3", len(r.Rows))
	}
}

func TestConflictsAreNeverAddedToPayouts(t *testing.T) {
	s := fleet(t)
	r, err := Payouts(t.Context(), s.read, Filter{Game: "crossingo"}, now)
	r = must(t, r, err)
	total := r.Totals[0]
	if len(r.Totals) != 1 || cell(t, r, total, "amount").Int != 100000 || cell(t, r, total, "claims").Int != 1 || cell(t, r, total, "conflicts").Int != 2 {
		t.Errorf("totals %+v", r.Totals)
	}
	// Two amounts that overflow are no amount, and spoil nothing else.
	if v := cell(t, r, rowOf(t, r, "shop-0003"), "conflict_amount"); v.Known {
		t.Errorf("conflict amount %+v, want unknown", v)
	}
	// A negative amount would hide the others.
	s.conflict(1, "shop-0002", "2026-11-27T12:00:00.000Z", "EUR", int64(-1500))
	r, err = Payouts(t.Context(), s.read, Filter{Terminal: "shop-0002", To: Day{2026, 11, 27}}, now)
	r = must(t, r, err)
	if v := cell(t, r, rowOf(t, r, "shop-0002"), "conflict_amount"); v.Known {
		t.Errorf("conflict amount with a negative one: %+v, want unknown", v)
	}
}

func TestDemonstrationsAndCurrenciesHaveTheirOwnTotals(t *testing.T) {
	s := fleet(t)
	r, err := Payouts(t.Context(), s.read, Filter{}, now)
	r = must(t, r, err)
	var got []string
	for _, row := range r.Totals {
		got = append(got, fmt.Sprint(cell(t, r, row, "currency").Text, " ", cell(t, r, row, "demonstration").Text, " ", cell(t, r, row, "amount").Int))
	}
	if want := []string{"EUR no 103251", "EUR yes 300", "XPF no 12345"}; !slices.Equal(got, want) {
		t.Errorf("totals %q, want %q", got, want)
	}
	for _, c := range r.Columns {
		if c.Currency != "" {
			t.Errorf("column %s has currency %s, though the rows have two", c.Key, c.Currency)
		}
	}
}

func TestBlockPublishedAgainIsCountedOnce(t *testing.T) {
	s := fleet(t)
	s.block(1, 2, "bingo", "1b", "EUR", 1, 0)
	r, err := Payouts(t.Context(), s.read, Filter{Game: "bingo", Terminal: "shop-0001", To: Day{2026, 11, 27}}, now)
	r = must(t, r, err)
	if len(r.Rows) != 1 || cell(t, r, r.Rows[0], "claims").Int != 2 || cell(t, r, r.Rows[0], "emission").Text != "1b" {
		t.Errorf("rows %+v", r.Rows)
	}
}

func TestFilterIsStrict(t *testing.T) {
	s := fleet(t)
	for name, try := range map[string]func() error{
		"unknown terminal": func() error { _, err := Sync(t.Context(), s.read, Filter{Terminal: "shop-9"}, now); return err },
		"terminal's case":  func() error { _, err := Payouts(t.Context(), s.read, Filter{Terminal: "SHOP-0001"}, now); return err },
		"unknown game":     func() error { _, err := Payouts(t.Context(), s.read, Filter{Game: "bing"}, now); return err },
		"days in the wrong order": func() error {
			_, err := Payouts(t.Context(), s.read, Filter{From: Day{2026, 11, 28}, To: Day{2026, 11, 27}}, now)
			return err
		},
		"sync by game": func() error { _, err := Sync(t.Context(), s.read, Filter{Game: "bingo"}, now); return err },
		"sync by day":  func() error { _, err := Sync(t.Context(), s.read, Filter{To: Day{2026, 11, 28}}, now); return err },
		"day":          func() error { _, err := ParseDay("28/11/2026"); return err },
		"no such day":  func() error { _, err := ParseDay("2026-02-30"); return err },
		"empty day":    func() error { _, err := ParseDay(""); return err },
	} {
		if err := try(); !errors.Is(err, ErrFilter) {
			t.Errorf("%s: %v, want ErrFilter", name, err)
		}
	}
}

func TestReportThatWouldNotFitIsRefused(t *testing.T) {
	g := gathering{extra: map[payoutKey]*payout{}}
	key := payoutKey{day: Day{2026, 11, 28}}
	for i := range MaxRows {
		key.terminal = strconv.Itoa(i)
		if _, err := g.at(key); err != nil {
			t.Fatalf("row %d: %v", i, err)
		}
	}
	if _, err := g.at(key); err != nil {
		t.Errorf("a row that is there: %v", err)
	}
	key.terminal = "one more"
	if _, err := g.at(key); !errors.Is(err, ErrTooLarge) {
		t.Errorf("one row more: %v, want ErrTooLarge", err)
	}
}

func TestCSVGuardsAgainstFormulas(t *testing.T) {
	for text, want := range map[string]string{"=1+1": "'=1+1", "+1": "'+1", "-1": "'-1", "@x": "'@x", "\tx": "'\tx", "\rx": "'\rx", "a=b": "a=b", "": "", "'x": "'x"} {
		if got := textValue(text).csv(); got != want {
			t.Errorf("%q is written %q, want %q", text, got, want)
		}
	}
	if got := durationValue(-250 * time.Millisecond).csv(); got != "-0.250" {
		t.Errorf("a negative number is written %q", got)
	}
}

func TestTableKeepsControlCharactersOut(t *testing.T) {
	s := newStore(t)
	s.add("shop-0001", "enrolled", at(0))
	s.hello("shop-0001", 0, 0, 0, 0, 0, `["\u001b[2J\u202ex\ny"]`)
	s.exec("UPDATE terminals SET program = 'a' || char(27) || '[31m' || char(9) || 'b'")
	r, err := Sync(t.Context(), s.read, Filter{}, now)
	r = must(t, r, err)
	var b bytes.Buffer
	if err := r.WriteTable(&b, money.French); err != nil {
		t.Fatal(err)
	}
	if text := b.String(); strings.ContainsAny(text, "\x1b\u202e\t") || !strings.Contains(text, "a?[31m?b") || !strings.Contains(text, "?[2J?x?y") {
		t.Errorf("table:\n%q", text)
	}
}

func TestEmptyStoreIsAnEmptyReport(t *testing.T) {
	s := newStore(t)
	for name, make := range map[string]func(context.Context, *sql.DB, Filter, time.Time) (Report, error){"sync": Sync, "payouts": Payouts} {
		r, err := make(t.Context(), s.read, Filter{}, now)
		r = must(t, r, err)
		for _, f := range []Format{Table, JSON, CSV} {
			var b bytes.Buffer
			if err := r.Write(&b, f); err != nil || b.Len() == 0 || len(r.Rows) != 0 {
				t.Errorf("%s %s: %d bytes, %v", name, f, b.Len(), err)
			}
		}
	}
	var b bytes.Buffer
	if err := (Report{}).Write(&b, "xml"); !errors.Is(err, ErrFormat) {
		t.Errorf("xml: %v", err)
	}
}

func TestDurationsAreRoundedDown(t *testing.T) {
	for d, want := range map[time.Duration]string{0: "0 ms", -250 * time.Millisecond: "-250 ms", 59*time.Second + 999*time.Millisecond: "59 s", 599 * time.Second: "9 min",
		24*time.Hour - time.Millisecond: "23 h 59", 47 * time.Hour: "47 h 00", 71 * time.Hour: "2 j"} {
		if got := durationWords(d, money.French); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}

// TestFiltersChooseTheSameOnBothDatabases: each condition, alone and with others.
func TestFiltersChooseTheSameOnBothDatabases(t *testing.T) {
	lite, postgres := newStore(t), newPostgresStore(t)
	for _, s := range []*store{lite, postgres} {
		seqs = 0 // the same numbers in both
		s.fleet()
	}
	day := dayOf(now)
	chosen := 0
	for _, f := range []Filter{{}, {Terminal: "shop-0001"}, {Game: "bingo"}, {From: day}, {To: day}, {From: day, To: day, Game: "bingo", Terminal: "shop-0001"}} {
		for name, make := range map[string]func(context.Context, *sql.DB, Filter, time.Time) (Report, error){"sync": Sync, "payouts": Payouts} {
			if name == "sync" && (f.Game != "" || !f.From.IsZero() || !f.To.IsZero()) {
				continue
			}
			a, err := make(t.Context(), lite.read, f, now)
			a = must(t, a, err)
			b, err := make(t.Context(), postgres.read, f, now)
			b = must(t, b, err)
			if !reflect.DeepEqual(a.Rows, b.Rows) || !reflect.DeepEqual(a.Totals, b.Totals) {
				t.Errorf("%s of %+v: SQLite %v, PostgreSQL %v", name, f, a.Rows, b.Rows)
			}
			chosen += len(a.Rows)
		}
	}
	if chosen < 10 {
		t.Errorf("%d rows: the test proves nothing", chosen)
	}
}
