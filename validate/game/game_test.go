package game

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"grattoir/validate/money"
)

func ptr[T any](v T) *T { return &v }

func bingo() Table {
	table := Table{BlockSize: ptr(int64(9_000_000)), Unit: UnitTicket, Price: ptr(money.Amount(1000)), Currency: "EUR",
		PrintedCount: ptr(int64(2_253_916)), PrintedTotal: ptr(money.Amount(6_390_000_000))}
	for _, row := range [][2]int64{{2, 100_000_000}, {4, 2_000_000}, {10, 200_000}, {17_900, 20_000},
		{60_000, 10_000}, {250_000, 5000}, {120_000, 3000}, {1_806_000, 2000}} {
		table.Rows = append(table.Rows, Row{Count: row[0], Amount: money.Amount(row[1]), PrintedTotal: ptr(money.Amount(row[0] * row[1]))})
	}
	return table
}

func TestScaleGivesTheDesignsDemonstrationBlock(t *testing.T) {
	rows, err := bingo().Scale(90_000)
	if err != nil {
		t.Fatal(err)
	}
	var counts []int64
	for _, row := range rows {
		counts = append(counts, row.Count)
	}
	if want := []int64{1, 1, 1, 179, 600, 2500, 1200, 18060}; !slices.Equal(counts, want) {
		t.Errorf("counts %v, want %v", counts, want)
	}
}

func TestScaleToTheWholeBlockChangesNothing(t *testing.T) {
	rows, err := bingo().Scale(9_000_000)
	if err != nil {
		t.Fatal(err)
	}
	for i, row := range rows {
		if row.Count != bingo().Rows[i].Count {
			t.Errorf("row %d: %d", i+1, row.Count)
		}
	}
}

func TestScaleRefusesMorePrizesThanTickets(t *testing.T) {
	if _, err := bingo().Scale(7); !errors.Is(err, ErrScale) {
		t.Errorf("8 tiers in 7 tickets: %v", err)
	}
	if _, err := bingo().Scale(8); err != nil {
		t.Errorf("8 tiers in 8 tickets: %v", err)
	}
	for _, tickets := range []int64{-1, 0, 9_000_001} {
		if _, err := bingo().Scale(tickets); err == nil {
			t.Errorf("%d tickets were accepted", tickets)
		}
	}
	amended := bingo()
	amended.BlockSize = nil
	if _, err := amended.Scale(90_000); err == nil {
		t.Error("a table with no block size was scaled")
	}
}

func TestScaleNeverHoldsMorePrizesThanTickets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.Int64Range(1, math.MaxInt64).Draw(t, "size")
		table := Table{BlockSize: &size}
		for range rapid.IntRange(1, 12).Draw(t, "tiers") {
			table.Rows = append(table.Rows, Row{Count: rapid.Int64Range(1, size).Draw(t, "count"), Amount: 100})
		}
		tickets := rapid.Int64Range(1, size).Draw(t, "tickets")
		rows, err := table.Scale(tickets)
		if err != nil {
			return
		}
		if sum, err := (Table{Rows: rows}).Count(); err != nil || sum > tickets {
			t.Fatalf("%d prizes in %d tickets, %v", sum, tickets, err)
		}
	})
}

func TestAuditAcceptsTheBingoTable(t *testing.T) {
	if found := bingo().Audit(0); len(found) > 0 {
		t.Errorf("findings: %+v", found)
	}
}

func TestAuditNamesEveryDisagreement(t *testing.T) {
	codes := func(change func(*Table)) string {
		table := bingo()
		change(&table)
		var codes []string
		for _, f := range table.Audit(0) {
			codes = append(codes, string(f.Code))
		}
		return strings.Join(codes, " ")
	}
	tests := []struct {
		name   string
		change func(*Table)
		want   string
	}{
		{"row total", func(t *Table) { t.Rows[3].PrintedTotal = ptr(money.Amount(1)) }, "row-total"},
		{"count", func(t *Table) { t.Rows[1].Count = 5 }, "row-total count-sum total-sum count-misprint"},
		{"amount", func(t *Table) { t.Rows[1].Amount = 100 }, "row-total total-sum"},
		{"printed count", func(t *Table) { t.PrintedCount = ptr(int64(3)) }, "count-sum"},
		{"printed total", func(t *Table) { t.PrintedTotal = ptr(money.Amount(3)) }, "total-sum"},
		{"more prizes than tickets", func(t *Table) { t.BlockSize = ptr(int64(9)) }, "count-sum"},
		{"overflow", func(t *Table) { t.Rows[0].Amount = math.MaxInt64 }, "row-total total-sum"},
		{"totals only", func(t *Table) { t.Rows = nil }, ""},
	}
	for _, test := range tests {
		if got := codes(test.change); got != test.want {
			t.Errorf("%s: findings %q, want %q", test.name, got, test.want)
		}
	}
}

func TestJSONHasNullsAndEmptyListsForTheUnknown(t *testing.T) {
	text, err := json.Marshal(Game{Kind: Other, Status: NoTable, Tables: []Table{{Unit: UnitTicket}}})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"id":null,"name":null,"kind":"other","channel":null,"status":"no-table","emissions":[],"offer":null,` +
		`"tables":[{"block_size":null,"unit":"ticket","price_minor":null,"stake_minor":null,"currency":null,"rows":[],"non_cash":[],` +
		`"printed_count":null,"printed_total_minor":null}],"findings":[]}`
	if string(text) != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
}

func TestValidateRefusesAStatusBetterThanTheFigures(t *testing.T) {
	good := Game{ID: "bingo", Name: "Bingo", Kind: Regulation, Channel: Ticket, Status: Complete, Tables: []Table{bingo()}}
	if err := good.Validate(); err != nil {
		t.Fatalf("the Bingo game: %v", err)
	}
	tests := []struct {
		change func(*Game)
		want   string
	}{
		{func(g *Game) { g.ID = "bongo" }, `"bingo"`},
		{func(g *Game) { g.Kind = "law" }, "kind"},
		{func(g *Game) { g.Channel = "post" }, "channel"},
		{func(g *Game) { g.Tables = nil }, "no-table"},
		{func(g *Game) { g.Tables[0].Rows[0].Count = 3 }, "no finding"},
		{func(g *Game) { g.Tables[0].Rows = nil }, "incomplete"},
		{func(g *Game) { g.Tables[0].Unit = "box" }, "unit"},
		{func(g *Game) { g.Findings = []Finding{{Code: "odd", Message: "x"}} }, "odd"},
		{func(g *Game) { g.Findings = []Finding{{Code: NotMoney, Table: ptr(4)}} }, "table 4"},
		{func(g *Game) { g.Emissions = []Emission{{GameCode: ptr("12")}} }, "game code"},
	}
	for _, test := range tests {
		g := good
		g.Tables = []Table{bingo()}
		test.change(&g)
		if err := g.Validate(); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("want an error with %q, got %v", test.want, err)
		}
	}
}

func TestSlugKeepsGroupedDigitsTogether(t *testing.T) {
	for name, want := range map[string]string{
		"Bingo": "bingo", "Cash 20 000": "cash-20000", "Cash 20\u00a0000": "cash-20000", "COCO'TRIO": "coco-trio",
		"L'ARBRE AUX TRESORS": "l-arbre-aux-tresors", "7Extra": "7extra", "Numéro Fétiche": "numero-fetiche",
		"La Française des jeux fête l'an 2000": "la-francaise-des-jeux-fete-l-an-2000", "Cœur": "coeur",
		"Tac o Tac Gagnant à vie !": "tac-o-tac-gagnant-a-vie", "": "", "« »": "", "Les 7 2 5": "les-7-2-5",
	} {
		if got := Slug(name); got != want {
			t.Errorf("Slug(%q) = %q, want %q", name, got, want)
		}
	}
}
