package report

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// goldenCheats are the terminals of the golden fleet that cheat, one a signal.
func goldenCheats() map[string]string {
	return map[string]string{"t-0010": ManualEntry, "t-0020": UnsoldCheck, "t-0030": PaidOrStolen, "t-0040": CheckedElsewhere, "t-0050": MiddleMissing, "t-0060": OddHours, "t-0070": Cancelled}
}

func goldenFleet() *madeFleet {
	return makeFleet(fleetPlan{seed: 20261128, claims: 10, cheats: goldenCheats()})
}

// goldenViews are selections that a person can read; the digests beside them are over all
// rows of each kind, in each form.
func goldenViews() map[string]Filter {
	return map[string]Filter{
		"sync": {Shop: "tabac-002"}, "settlement": {Region: "cor", From: Day{2026, 10, 1}, To: Day{2026, 10, 31}}, "payouts": {By: "game,block"}, "prizes": {}, "liability": {},
		"inventory": {Shop: "tabac-003"}, "conflicts": {Region: "naq"}, "refusals": {By: "reason"}, "signals": {}, "outages": {Shop: "tabac-004", From: Day{2026, 10, 1}},
	}
}

// TestGoldenFleetReportsTheSameOnBothDatabases: the files in testdata/fleet, from either.
func TestGoldenFleetReportsTheSameOnBothDatabases(t *testing.T) {
	f := goldenFleet()
	for _, name := range []string{"sqlite", "postgres"} {
		open := map[string]func(*testing.T) *store{"sqlite": newStore, "postgres": newPostgresStore}[name]
		t.Run(name, func(t *testing.T) {
			s := open(t)
			f.fill(t, s)
			if name == "sqlite" {
				t.Run("balances", func(t *testing.T) { testFleetBalances(t, s, f) })
				t.Run("forms", func(t *testing.T) { testFormsAgree(t, s) })
			}
			t.Run("pages", func(t *testing.T) { testFleetPages(t, s) })
			t.Run("curve", func(t *testing.T) { testPayoutCurve(t, s, f) })
			var digests strings.Builder
			for _, a := range Kinds() {
				view, err := Make(t.Context(), s.read, a.Name, goldenViews()[a.Name], fleetNow)
				view = must(t, view, err)
				if len(view.Rows) == 0 {
					t.Errorf("%s: the view is empty", a.Name)
				}
				checkGolden(t, a.Name+".table", written(t, view, Table))
				checkGolden(t, a.Name+".fr.csv", written(t, view, CSVFrench))
				whole, err := Make(t.Context(), s.read, a.Name, Filter{}, fleetNow)
				whole = must(t, whole, err)
				forms := []Format{JSON} // which holds every value
				if name == "sqlite" {
					forms = []Format{JSON, Table, CSV, CSVFrench}
				}
				for _, form := range forms {
					sum := sha256.Sum256(written(t, whole, form))
					fmt.Fprintf(&digests, "%s %s rows %d sha256 %s\n", a.Name, form, len(whole.Rows), hex.EncodeToString(sum[:]))
				}
			}
			checkDigests(t, digests.String())
			if name == "sqlite" {
				t.Run("streams", func(t *testing.T) { testStreamsAndPages(t, s) })
				t.Run("sums", func(t *testing.T) { testSumsTellWhatTheClaimsDo(t, s) })
			}
		})
	}
}

func written(t *testing.T, r Report, f Format) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := r.Write(&b, f); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func checkGolden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", "fleet", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs; run with -update and look at the difference. Got:\n%.4000s", path, got)
	}
}

// checkDigests holds lines against those of the golden file, which has them all.
func checkDigests(t *testing.T, got string) {
	t.Helper()
	path := filepath.Join("testdata", "fleet", "digests.txt")
	if *update && strings.Contains(got, " csv-fr ") {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(got) {
		if !strings.Contains(string(want), line) {
			t.Errorf("%s has no line %s", path, line)
		}
	}
}

// make1 makes a report of the fleet.
func make1(t *testing.T, s *store, name string, f Filter) Report {
	t.Helper()
	r, err := Make(t.Context(), s.read, name, f, fleetNow)
	return must(t, r, err)
}

// testFleetBalances adds up the fleet as it was made, without a database, and holds the
// reports against it, to the cent.
func testFleetBalances(t *testing.T, s *store, f *madeFleet) {
	t.Run("payouts", func(t *testing.T) { f.payoutsBalance(t, s) })
	t.Run("settlement", func(t *testing.T) { f.settlementBalances(t, s) })
	t.Run("prizes", func(t *testing.T) { f.prizesBalance(t, s) })
	t.Run("inventory", func(t *testing.T) { f.inventoryBalances(t, s) })
	t.Run("states", func(t *testing.T) {
		r := make1(t, s, "sync", Filter{})
		all := 0
		for _, p := range r.Parts {
			all += p.Count
		}
		if all != fleetTerminals || len(r.Rows) != fleetTerminals {
			t.Errorf("states of %d terminals, %d rows", all, len(r.Rows))
		}
	})
	t.Run("conflicts", func(t *testing.T) {
		var amount int64
		for _, c := range f.conflicts {
			if f.blocks[c.block].currency == "EUR" {
				amount += c.amount
			}
		}
		r := make1(t, s, "conflicts", Filter{})
		for _, row := range r.Totals {
			if cell(t, r, row, "currency").Text == "EUR" && cell(t, r, row, "amount").Int != amount {
				t.Errorf("%+v, want %d", row, amount)
			}
		}
		if len(r.Rows) != len(f.conflicts) {
			t.Errorf("%d rows of %d conflicts", len(r.Rows), len(f.conflicts))
		}
	})
}

func (f *madeFleet) payoutsBalance(t *testing.T, s *store) {
	type key struct{ day, game, shop, currency string }
	want := map[key][2]int64{}
	for _, c := range f.claims {
		b := f.blocks[c.block]
		k := key{dayOf(c.paid.In(Paris())).String(), b.game, f.shopOf(c.terminal), b.currency}
		sums := want[k]
		sums[0] += c.amount
		if c.reversal == "accepted" {
			sums[1] += c.amount
		}
		want[k] = sums
	}
	r := make1(t, s, "payouts", Filter{By: "day,game,shop"})
	got := map[key][2]int64{}
	for _, row := range r.Rows {
		k := key{cell(t, r, row, "day").Text, cell(t, r, row, "game").Text, cell(t, r, row, "shop").Text, cell(t, r, row, "currency").Text}
		if sums := [2]int64{cell(t, r, row, "amount").Int, cell(t, r, row, "reversed_amount").Int}; sums != [2]int64{} {
			got[k] = sums
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("%d rows, %d by hand, and they differ", len(got), len(want))
	}
}

func (f *madeFleet) shopOf(terminal int) string {
	if t := f.terminals[terminal]; t.shop != "" {
		return t.shop
	}
	return f.terminals[terminal].name
}

// settlementBalances settles October by hand, line by line.
func (f *madeFleet) settlementBalances(t *testing.T, s *store) {
	from, to := Day{2026, 10, 1}.begin(Paris(), 0), Day{2026, 10, 31}.begin(Paris(), 1)
	change := Day(f.policies[1].ValidFrom).begin(Paris(), 0)
	type half struct {
		terminal int
		currency string
		second   bool
	}
	accounts := map[half]account{}
	add := func(terminal, block int, at []int64, change bool) {
		b := f.blocks[block]
		if b.scaled == 1 {
			return
		}
		k := half{terminal, b.currency, change}
		a := accounts[k]
		a.sales, a.paid, a.reversed, a.borne = a.sales+at[0], a.paid+at[1], a.reversed+at[2], a.borne+at[3]
		accounts[k] = a
	}
	for _, p := range f.packs {
		if p.settled.IsZero() || p.settled.Before(from) || !p.settled.Before(to) || p.state == validateDelivered || p.state == "stolen" && p.was != "settled" {
			continue
		}
		b := f.blocks[p.block]
		tickets := min(b.size, b.tickets-p.pack*b.size)
		if p.unsoldRuns != nil {
			tickets -= 8 // 40 to 47
		}
		add(p.owner, p.block, []int64{tickets * b.price, 0, 0, 0}, !p.settled.Before(change))
	}
	for _, c := range f.claims {
		if !c.received.Before(from) && c.received.Before(to) {
			add(c.terminal, c.block, []int64{0, c.amount, 0, 0}, !c.received.Before(change))
		}
		if c.reversal == "accepted" && !c.decided.Before(from) && c.decided.Before(to) {
			add(c.terminal, c.block, []int64{0, 0, c.amount, 0}, !c.decided.Before(change))
		}
	}
	for _, c := range f.conflicts {
		if (c.liable == "lottery" || c.liable == "printer") && !c.settled.Before(from) && c.settled.Before(to) {
			add(c.terminal, c.block, []int64{0, 0, 0, c.amount}, !c.settled.Before(change))
		}
	}
	want := map[string]int64{}
	for k, a := range accounts {
		p := f.policies[0]
		if k.second {
			p = f.policies[1]
		}
		round := func(n int64, rate int) int64 { // half away from zero, the other way than the report does it
			if n < 0 {
				return -((-n*int64(rate)*2 + 10000) / 20000)
			}
			return (n*int64(rate)*2 + 10000) / 20000
		}
		due := a.sales - a.paid + a.reversed - a.borne - round(a.sales, p.CommissionSale) - round(a.paid-a.reversed, p.CommissionPaid)
		want[f.shopOf(k.terminal)+" "+k.currency] += due
	}
	r := make1(t, s, "settlement", Filter{From: Day{2026, 10, 1}, To: Day{2026, 10, 31}})
	seen, fees := 0, int64(0)
	for _, row := range r.Rows {
		k := cell(t, r, row, "shop").Text + " " + cell(t, r, row, "currency").Text
		due := cell(t, r, row, "due").Int - cell(t, r, row, "correction").Int // what was before October was never closed
		if due != want[k] {
			t.Errorf("%s owes %d, by hand %d", k, due, want[k])
		}
		if _, ok := want[k]; ok {
			seen++
		}
		fees += cell(t, r, row, "commission").Int
	}
	if seen != len(want) || seen < 200 || fees == 0 {
		t.Errorf("%d accounts of %d, commissions %d", seen, len(want), fees)
	}
}

const validateDelivered = "delivered"

func (f *madeFleet) prizesBalance(t *testing.T, s *store) {
	net := map[string]int64{}
	for _, c := range f.claims {
		if c.reversal != "accepted" {
			net[fmt.Sprint(f.blocks[c.block].id, " ", c.tier)]++
		}
	}
	r := make1(t, s, "prizes", Filter{})
	for _, row := range r.Rows {
		k := fmt.Sprint(cell(t, r, row, "block_id").Text, " ", cell(t, r, row, "tier").Int)
		paid, left, printed, uncertain := cell(t, r, row, "paid").Int, cell(t, r, row, "left").Int, cell(t, r, row, "printed").Int, cell(t, r, row, "uncertain").Int
		if paid != net[k] || left != printed-paid || uncertain > left || uncertain < 0 {
			t.Errorf("%s: paid %d (by hand %d), left %d of %d, %d uncertain", k, paid, net[k], left, printed, uncertain)
		}
		if top := cell(t, r, row, "amount").Int > 30000; top != (uncertain == 0 && left > 0) && left > 0 {
			t.Errorf("%s: %d uncertain; no shop pays above 300", k, uncertain)
		}
	}
}

func (f *madeFleet) inventoryBalances(t *testing.T, s *store) {
	r := make1(t, s, "inventory", Filter{})
	tickets := map[string]int64{}
	for _, row := range r.Rows {
		for _, state := range []string{"printed", "delivered", "active", "settled", "returned", "stolen"} {
			tickets[cell(t, r, row, "block_id").Text] += cell(t, r, row, state+"_tickets").Int
		}
	}
	for _, b := range f.blocks {
		if tickets[b.id.String()] != b.tickets {
			t.Errorf("block %v: %d tickets in all places, it has %d", b.id, tickets[b.id.String()], b.tickets)
		}
	}
	if i := slices.IndexFunc(r.Rows, func(row []Value) bool { return !cell(t, r, row, "terminal").Known }); i < 0 {
		t.Error("nothing is at the printer's")
	}
}

// testSumsTellWhatTheClaimsDo: whatever the rows are about and whichever are chosen, the
// payouts out of the kept sums are those that the claims themselves add up to. In Madrid,
// where a day begins when it does in Paris, they are read from the claims.
func testSumsTellWhatTheClaimsDo(t *testing.T, s *store) {
	s.exec("UPDATE claims SET paid = 'no time' WHERE terminal = 't-0033' AND amount_minor = 200")
	s.exec("UPDATE claims SET paid = '2026-10-20T99:99' WHERE terminal = 't-0034' AND amount_minor = 200")
	madrid, err := time.LoadLocation("Europe/Madrid")
	if err != nil {
		t.Fatal(err)
	}
	sources := map[string]bool{}
	some := []Filter{{}, {From: Day{2026, 10, 3}}, {Region: "bzh"}, {From: Day{2026, 9, 20}, To: Day{2026, 11, 2}}, {Game: "bingo"}, {Shop: "tabac-003", To: Day{2026, 11, 2}}, {Terminal: "t-0033"}}
	for i, by := range []string{"day", "game", "block", "shop", "terminal", "day,game", "day,shop", "day,game,terminal", "game,shop", "block,terminal", "day,game,block,shop,terminal"} {
		for _, f := range []Filter{some[i%3], some[3+i%4]} {
			f.By, f.Zone = by, Paris()
			g := gathering{filter: f}
			if !f.From.IsZero() || !f.To.IsZero() {
				g.from = "some"
			}
			sources[g.source()] = true
			kept := make1(t, s, "payouts", f)
			f.Zone = madrid
			counted := make1(t, s, "payouts", f)
			if g.timeless() { // then no zone is asked for, and the claims are not read
				counted = s.fromClaims(t, f)
			}
			if !reflect.DeepEqual(kept.Rows, counted.Rows) || !reflect.DeepEqual(kept.Totals, counted.Totals) || len(kept.Rows) == 0 {
				t.Errorf("by %s, %+v: %d rows from the sums, %d from the claims, or others", by, f.set(), len(kept.Rows), len(counted.Rows))
			}
		}
	}
	if len(sources) != 5 {
		t.Errorf("read from %v", sources)
	}
	for _, f := range []Filter{{}, {From: Day{2026, 9, 20}, To: Day{2026, 11, 2}}, {From: Day{2026, 10, 5}, To: Day{2026, 10, 9}}} {
		f.By = "terminal"
		kept := make1(t, s, "settlement", f)
		f.Zone = madrid
		counted := make1(t, s, "settlement", f)
		paid := kept.column("paid")
		if !reflect.DeepEqual(kept.Totals[0][paid], counted.Totals[0][paid]) {
			t.Errorf("%+v: paid %+v in Paris, %+v in Madrid", f.set(), kept.Totals[0][paid], counted.Totals[0][paid])
		}
	}
}

// fromClaims makes the payouts out of the claims alone.
func (s *store) fromClaims(t *testing.T, f Filter) Report {
	t.Helper()
	a, _ := KindOf("payouts")
	a.read = func(r *Report, ctx context.Context, tx *sql.Tx) error {
		g := gathering{filter: r.Filter.payoutsBy(), extra: map[payoutKey]*payout{}}
		var err error
		if g.blocks, err = readBlocks(ctx, tx); err != nil {
			return err
		}
		if g.places, err = readPlaces(ctx, tx); err != nil {
			return err
		}
		for _, step := range []func(context.Context, *sql.Tx) error{g.readConflicts, g.readClaims, g.readReversed} {
			if err := step(ctx, tx); err != nil {
				return err
			}
		}
		if err := g.flush(r, nil); err != nil {
			return err
		}
		r.addTotals("claims", "amount", "reversed", "reversed_amount", "conflicts", "conflict_amount")
		return nil
	}
	r, err := a.make(t.Context(), s.read, f, fleetNow)
	return must(t, r, err)
}
