package reglement

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"grattoir/validate/game"
	"grattoir/validate/money"
)

// truth is a regulation's figures, from which a text is written in one of the ways that
// regulations are written.
type truth struct {
	size, price int64 // price in whole units
	rows        [][2]int64
	unit        game.Unit
}

// style is how a text writes its figures.
type style struct {
	group, sign string
	layout      int
}

var styleLayouts = []string{"one line", "lines", "third column", "cell to a line", "inline", "list", "spaces"}

func drawTruth(t *rapid.T) truth {
	x := truth{price: rapid.Int64Range(1, 20).Draw(t, "price"), unit: rapid.SampledFrom([]game.Unit{game.UnitTicket, game.UnitGame}).Draw(t, "unit")}
	n := rapid.IntRange(2, 9).Draw(t, "rows")
	amount, count, prizes := rapid.Int64Range(20_000, 1_000_000).Draw(t, "top"), int64(1), int64(0)
	for range n {
		x.rows = append(x.rows, [2]int64{count, amount})
		prizes += count
		count = count*rapid.Int64Range(2, 9).Draw(t, "more") + rapid.Int64Range(0, 3).Draw(t, "some")
		if amount = amount / rapid.Int64Range(2, 8).Draw(t, "less"); amount < 1 {
			break
		}
	}
	x.size = prizes*4 + rapid.Int64Range(0, 1000).Draw(t, "blanks")
	return x
}

func drawStyle(t *rapid.T) style {
	return style{rapid.SampledFrom([]string{" ", "\u00a0", "\u202f", ".", ""}).Draw(t, "group"),
		rapid.SampledFrom([]string{" €", "€", " EUR", " euros", "\u00a0€", " Euros"}).Draw(t, "sign"), rapid.IntRange(0, len(styleLayouts)-1).Draw(t, "layout")}
}

func (s style) number(n int64) string {
	digits := strconv.FormatInt(n, 10)
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = digits[:at] + s.group + digits[at:]
	}
	return digits
}

func (s style) sum(n int64) string {
	if n == 1 {
		return "1" + strings.TrimSuffix(s.sign, "s") // un euro
	}
	return s.number(n) + s.sign
}

func lotsWord(n int64) string {
	if n == 1 {
		return "lot"
	}
	return "lots"
}

// figuresOf are a table's figures as printed, one of which a test may change.
type figuresOf struct {
	counts, amounts, totals []int64
	count, total            int64
}

func (x truth) figures() (f figuresOf) {
	for _, r := range x.rows {
		f.counts, f.amounts, f.totals = append(f.counts, r[0]), append(f.amounts, r[1]), append(f.totals, r[0]*r[1])
		f.count += r[0]
		f.total += r[0] * r[1]
	}
	return f
}

func (s style) render(x truth, f figuresOf) string {
	units, unit := "tickets", "du ticket"
	if x.unit == game.UnitGame {
		units, unit = "unités de jeu", "de l'unité de jeu"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Règlement particulier du jeu « Essai »\n\nArticle 2\nChaque émission est répartie en blocs de %s %s. Le prix de vente %s est fixé à %s.\n\nArticle 3\nLots\nPour chaque bloc, le tableau de lots est le suivant :\n\n",
		s.number(x.size), units, unit, s.sum(x.price))
	row, last, head := s.forms()
	b.WriteString(head)
	for i := range f.counts {
		fmt.Fprintf(&b, row, s.number(f.counts[i])+" "+lotsWord(f.counts[i])+" de", s.sum(f.amounts[i]), s.sum(f.totals[i]))
	}
	fmt.Fprintf(&b, last, s.number(f.count)+" lots formant un total de", s.sum(f.total))
	b.WriteString("\n\nArticle 4\nLe joueur gratte 3 cases et découvre 3 symboles.\n")
	return b.String()
}

// forms are the formats of a row, of the total row, and the head.
func (s style) forms() (row, last, head string) {
	switch styleLayouts[s.layout] {
	case "one line":
		return "| %s | %s |%s| ", "|%s| %s | |", "| Nombre de lots |Montant du lot| Total | |---|---|---| "
	case "lines":
		return "| %s | %s | %s |\n", "| %s | %s | |\n", "| Nombre de lots | Montant du lot | Total |\n|---|---|---|\n"
	case "third column":
		return "| %s | %s | %s |\n", "| %s | | %s |\n", "| NOMBRE DE LOTS | MONTANT DU LOT | TOTAL |\n|---|---|---|\n"
	case "cell to a line":
		return "%s\n\n%s\n\n%s\n\n", "Soit %s\n\n%s\n", "NOMBRE DE LOTS\n\nMONTANT DU LOT\n\nTOTAL\n\n"
	case "inline":
		return "%s %s : %s\n", "%s %s\n", ""
	case "list":
		return "- %s %s, soit %s ;\n", "- soit %s %s.\n", ""
	}
	return "   %s      %s      %s\n", "   %s      %s\n", "  Nombre de lots      Montant du lot      Total\n"
}

func TestParseReadsBackWhatIsWrittenInAnyStyle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x, s := drawTruth(t), drawStyle(t)
		text := s.render(x, x.figures())
		g, err := Parse(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if len(g.Tables) != 1 || g.Status != game.Complete || len(g.Findings) > 0 {
			t.Fatalf("%s, %d tables, findings %s\n%s", g.Status, len(g.Tables), codes(g), text)
		}
		checkTruth(t, x, x.figures(), g.Tables[0], text)
	})
}

func checkTruth(t *rapid.T, x truth, f figuresOf, got game.Table, text string) {
	t.Helper()
	if got.BlockSize == nil || got.Price == nil || got.PrintedCount == nil || got.PrintedTotal == nil {
		t.Fatalf("%+v\n%s", got, text)
	}
	if *got.BlockSize != x.size || int64(*got.Price) != 100*x.price || got.Currency != "EUR" || got.Unit != x.unit || len(got.Rows) != len(f.counts) {
		t.Fatalf("%+v\n%s", got, text)
	}
	for i, r := range got.Rows {
		if r.Count != f.counts[i] || int64(r.Amount) != 100*f.amounts[i] || r.PrintedTotal == nil || int64(*r.PrintedTotal) != 100*f.totals[i] {
			t.Fatalf("row %d: %+v\n%s", i, r, text)
		}
	}
	if *got.PrintedCount != f.count || int64(*got.PrintedTotal) != 100*f.total {
		t.Fatalf("%d prizes, %d\n%s", *got.PrintedCount, *got.PrintedTotal, text)
	}
}

// TestParseNamesEveryPlantedMisprint changes one printed figure: it is kept as printed,
// and a finding of the right kind says so.
func TestParseNamesEveryPlantedMisprint(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x, s := drawTruth(t), drawStyle(t)
		f := x.figures()
		i := rapid.IntRange(0, len(f.counts)-1).Draw(t, "row")
		by := rapid.Int64Range(2, 999).Draw(t, "by")
		kind := rapid.SampledFrom([]string{"count", "amount", "row total", "prizes", "total"}).Draw(t, "kind")
		var want []game.FindingCode
		switch kind {
		case "count":
			f.counts[i] += by
			want = []game.FindingCode{game.RowTotal, game.CountSum, game.TotalSum, game.CountMisprint}
		case "amount":
			f.amounts[i] += by
			want = []game.FindingCode{game.RowTotal, game.TotalSum}
		case "row total":
			f.totals[i] += by
			want = []game.FindingCode{game.RowTotal}
		case "prizes":
			f.count += by
			want = []game.FindingCode{game.CountSum}
		default:
			f.total += by
			want = []game.FindingCode{game.TotalSum}
		}
		text := s.render(x, f)
		g, err := Parse(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if len(g.Tables) != 1 || g.Status != game.Inconsistent {
			t.Fatalf("%s: %s, findings %s\n%s", kind, g.Status, codes(g), text)
		}
		checkTruth(t, x, f, g.Tables[0], text)
		var got []string
		for _, c := range want {
			got = append(got, string(c))
		}
		if codes(g) != strings.Join(got, " ") {
			t.Fatalf("%s: findings %q, want %q\n%s", kind, codes(g), strings.Join(got, " "), text)
		}
		if f := g.Findings[0]; f.Table == nil || f.Printed == nil || f.Computed == nil || !strings.Contains(f.Message, "line ") {
			t.Fatalf("a finding with no place: %+v", f)
		}
	})
}

// TestParseNeverInventsAFigureThatWasTakenOut blanks one figure: it is unknown or its row
// is gone and named, and every row that is left is a true one.
func TestParseNeverInventsAFigureThatWasTakenOut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x, s := drawTruth(t), drawStyle(t)
		f := x.figures()
		text := s.render(x, f)
		marks := []string{s.number(x.size) + " ", " " + s.sum(x.price)}
		for i := range f.counts {
			marks = append(marks, s.number(f.counts[i])+" "+lotsWord(f.counts[i])+" de", s.sum(f.amounts[i]))
		}
		mark := rapid.SampledFrom(marks).Draw(t, "mark")
		cut := strings.Replace(text, mark, "", 1)
		g, err := Parse(strings.NewReader(cut))
		if err != nil {
			t.Fatal(err)
		}
		real := map[[2]int64]bool{}
		for i := range f.counts {
			real[[2]int64{f.counts[i], 100 * f.amounts[i]}] = true
		}
		for _, table := range g.Tables {
			wrong := table.BlockSize != nil && *table.BlockSize != x.size || table.Price != nil && *table.Price != money.Amount(100*x.price)
			for _, r := range table.Rows {
				wrong = wrong || !real[[2]int64{r.Count, int64(r.Amount)}]
			}
			if wrong && len(g.Findings) == 0 {
				t.Fatalf("without %q: %+v and no finding\n%s", mark, table, cut)
			}
		}
	})
}
