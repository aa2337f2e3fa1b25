package rules

import (
	"bytes"
	"errors"
	"fmt"
	"math/big"
	"math/bits"
	"strings"
	"testing"

	"grattoir/validate/money"
)

var crossPrizes = []money.Amount{1_000_000, 100_000, 10_000, 5000, 1000, 500, 200, 100}

func crossSettings() CrossingoSettings {
	e := func(amounts ...money.Amount) []money.Amount { return amounts }
	return CrossingoSettings{Numbers: 60, LineSums: crossPrizes, ExtraSums: crossPrizes, ExtraCells: 9, ExtraSymbols: 6,
		Mixes: []CrossingoMix{{Share: 3}, {Golden: 1, Share: 3}, {Golden: 2, Exchangers: 1, Share: 2}, {Golden: 1, Exchangers: 2, Extra: 1, Share: 2}, {Golden: 2, Exchangers: 3, Extra: 2, Share: 1}},
		Ways: []CrossingoWay{
			{Lines: e(100), Share: 4}, {Sums: e(100), Share: 2}, {Extra: e(100), Share: 1},
			{Lines: e(200), Share: 3}, {Doubled: e(100), Share: 2}, {Lines: e(100, 100), Share: 1}, {Lines: e(100), Sums: e(100), Share: 1},
			{Lines: e(500), Share: 3}, {Lines: e(200, 200, 100), Share: 1}, {Lines: e(100), Doubled: e(100), Extra: e(200), Share: 1},
			{Doubled: e(500), Share: 1}, {Extra: e(500, 500), Share: 1}, {Doubled: e(100, 200), Sums: e(200, 100, 100), Share: 1},
			{Lines: e(5000), Share: 1}, {Lines: e(10_000), Share: 1}, {Lines: e(100_000), Share: 1}, {Extra: e(1_000_000), Share: 1},
		}}
}

func newCross(t testing.TB, change func(*CrossingoSettings)) *Crossingo {
	t.Helper()
	s := crossSettings()
	if change != nil {
		change(&s)
	}
	c, err := NewCrossingo(s, crossPrizes)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// losingCross has the grid 1 to 25, all sums 1 €, and the numbers 26 to 50.
func losingCross() (u crossUnit) {
	for i := range u.grid {
		u.grid[i] = uint8(i + 1)
		u.elements[i].number = uint8(26 + i)
	}
	for i := range u.sums {
		u.sums[i] = 100
	}
	return u
}

// find puts numbers into the elements from place at on; a negative one is golden.
func (u *crossUnit) find(at int, numbers ...int) {
	for k, n := range numbers {
		e := &u.elements[at+k]
		if *e = (crossElement{number: uint8(max(n, -n))}); n < 0 {
			e.kind = crossGolden
		}
	}
}

func (u *crossUnit) exchange(at int, from ...uint8) {
	u.elements[at] = crossElement{kind: crossExchanger}
	copy(u.elements[at].from[:], from)
}

func (u *crossUnit) extra(at int, cells string, sums ...money.Amount) {
	u.elements[at] = crossElement{kind: crossExtra}
	s := &u.stages[u.extras]
	copy(s.sums[:], sums)
	for i := range cells {
		s.cells[i] = cells[i] - 'A'
	}
	u.extras++
}

func TestCrossingoFollowsItsArticles(t *testing.T) {
	type change = func(*CrossingoSettings)
	stays := func(s *CrossingoSettings) { s.GoldenStays = true }
	atEnd := func(s *CrossingoSettings) { s.LinesAtEnd = true }
	compounds := func(s *CrossingoSettings) { s.GoldenCompounds = true }
	exactly := func(s *CrossingoSettings) { s.FourExactly = true }
	sum := func(u *crossUnit, line int, a money.Amount) { u.sums[line] = a }
	// goldenMoves completes row 1 with a golden 3, after an exchanger has swapped the
	// column's rows 1 and 2: the mark has moved away and 8 has come.
	goldenMoves := func(u *crossUnit) { u.find(0, -3); u.exchange(7, 1, 0, 2, 3, 4); u.find(10, 1, 2, 8, 4, 5) }
	// broken completes row 1 and moves one of its symbols away.
	broken := func(u *crossUnit) { u.find(0, 1, 2, 3, 4, 5); u.exchange(7, 1, 0, 2, 3, 4) }
	symbolsStay := func(s *CrossingoSettings) { s.SymbolsStay = true; s.Ways = s.Ways[:3] }
	// sameRound completes row 1 in the round in which an exchanger stands before its end.
	sameRound := func(u *crossUnit) { u.find(0, 3); u.find(5, 1, 2); u.exchange(7, 1, 0, 2, 3, 4); u.find(8, 4, 5) }
	tests := []struct {
		name   string
		change change
		unit   func(*crossUnit)
		prize  money.Amount
		words  string
		err    error
	}{
		{"5.13 loses", nil, func(u *crossUnit) {}, 0, "no win", nil},
		{"5.5 a row", nil, func(u *crossUnit) { u.find(3, 6, 7, 8, 9, 10); sum(u, 1, 500) }, 500, "€5: row 2 (€5)", nil},
		{"5.5 a column", nil, func(u *crossUnit) { u.find(3, 3, 8, 13, 18, 23); sum(u, 7, 1000) }, 1000, "€10: column 3 (€10)", nil},
		{"5.5 the first diagonal", nil, func(u *crossUnit) { u.find(3, 1, 7, 13, 19, 25); sum(u, 10, 200) }, 200, "€2: diagonal 1 (€2)", nil},
		{"5.5 the second diagonal", nil, func(u *crossUnit) { u.find(3, 5, 9, 13, 17, 21); sum(u, 11, 200) }, 200, "€2: diagonal 2 (€2)", nil},
		{"5.5 four of five", nil, func(u *crossUnit) { u.find(3, 6, 7, 8, 9) }, 0, "", nil},
		{"5.5 a broken line of five", nil, func(u *crossUnit) { u.find(3, 4, 5, 6, 7, 8) }, 0, "", nil},
		{"5.5 lines add", nil, func(u *crossUnit) { u.find(0, 1, 2, 3, 4, 5, 6, 11, 16, 21) }, 200, "€2: row 1 (€1) + column 1 (€1)", nil},
		{"5.5 a number of the grid that stands twice", nil, func(u *crossUnit) { u.grid[1] = 1; u.find(0, 1, 3, 4, 5) }, 100, "", nil},
		{"5.6 a sum", nil, func(u *crossUnit) { u.elements[12] = crossElement{kind: crossSum, amount: 500} }, 500, "€5: sum of round 3, case 3 (€5)", nil},
		{"5.6 sums add", nil, func(u *crossUnit) {
			u.elements[12] = crossElement{kind: crossSum, amount: 100}
			u.elements[20] = crossElement{kind: crossSum, amount: 100}
		}, 200, "", nil},
		{"5.7 a golden number doubles its row", nil, func(u *crossUnit) { u.find(0, 1, -2, 3, 4, 5) }, 200, "€2: row 1 x 2 (€2)", nil},
		{"5.7 and its column", nil, func(u *crossUnit) { u.find(0, 3, -8, 13, 18, 23); sum(u, 7, 500) }, 1000, "", nil},
		{"5.7 not its diagonal", nil, func(u *crossUnit) { u.find(0, 1, -7, 13, 19, 25) }, 100, "", nil},
		{"5.7 not other lines", nil, func(u *crossUnit) { u.find(0, 1, 2, 3, 4, 5, -8) }, 100, "", nil},
		{"5.7 a golden number that is not in the grid", nil, func(u *crossUnit) { u.find(0, 1, 2, 3, 4, 5, -55) }, 100, "", nil},
		{"5.7 golden after a plain one has changed it", nil, func(u *crossUnit) { u.find(0, 1, 2, 3, -3, 4, 5) }, 100, "", nil},
		{"5.7 two golden numbers double once", nil, func(u *crossUnit) { u.find(0, 1, -2, -3, 4, 5) }, 200, "", nil},
		{"switch: each doubles", compounds, func(u *crossUnit) { u.find(0, 1, -2, -3, -4, 5); sum(u, 0, 125) }, 1000, "€10: row 1 x 8 (€10)", nil},
		{"5.7 at the crossing it doubles both", nil, func(u *crossUnit) { u.find(0, -1, 2, 3, 4, 5, 6, 11, 16, 21); sum(u, 0, 50); sum(u, 5, 50) }, 200, "", nil},
		{"5.8 the mark moves with its number", nil, goldenMoves, 100, "", nil},
		{"switch: it stays", stays, goldenMoves, 200, "", nil},
		{"5.8 a moved number completes a line", nil, func(u *crossUnit) { u.find(0, 1, 2, 8, 4, 5); u.exchange(7, 1, 0, 2, 3, 4) }, 100, "", nil},
		{"5.8 a moved number is missing", nil, func(u *crossUnit) { u.find(0, 1, 2); u.exchange(2, 1, 0, 2, 3, 4); u.find(3, 3, 4, 5) }, 0, "", nil},
		{"5.8 only the column of its case moves", nil, func(u *crossUnit) { u.find(0, 1, 2, 8, 4, 5); u.exchange(8, 1, 0, 2, 3, 4) }, 0, "", nil},
		{"5.8 the order is from which row", nil, func(u *crossUnit) { u.find(0, 1, 2, 13, 4, 5); u.exchange(7, 2, 0, 1, 3, 4) }, 100, "", nil},
		{"5.5 a line that was whole is won", nil, broken, 100, "", nil},
		{"switch: whole at the end", atEnd, broken, 0, "", nil},
		{"switch: whole at the end, and it is", atEnd, func(u *crossUnit) { u.find(0, 1, 2, 3, 4, 5) }, 100, "", nil},
		{"5.5 a line is won once", nil, func(u *crossUnit) {
			u.find(0, 1, 2, 3, 4, 5)
			u.exchange(7, 1, 0, 2, 3, 4)
			u.exchange(12, 1, 0, 2, 3, 4)
		}, 100, "", nil},
		{"5.7 golden after the line is won", nil, func(u *crossUnit) { broken(u); u.find(10, -8) }, 100, "", nil},
		{"switch: it still doubles", func(s *CrossingoSettings) { s.GoldenLate = true }, func(u *crossUnit) { broken(u); u.find(10, -8) }, 200, "", nil},
		{"5.4 from left to right", nil, sameRound, 0, "", nil},
		{"switch: exchangers last", func(s *CrossingoSettings) { s.ExchangersLast = true }, sameRound, 100, "", nil},
		{"5.8 a found cell moves too", nil, func(u *crossUnit) { u.find(0, 1, 2, 3); u.exchange(7, 1, 0, 2, 3, 4); u.find(10, 4, 5) }, 0, "", nil},
		{"switch: symbols stay", symbolsStay, func(u *crossUnit) { u.find(0, 1, 2, 3); u.exchange(7, 1, 0, 2, 3, 4); u.find(10, 4, 5) }, 100, "", nil},
		{"5.8 and completes a line", nil, func(u *crossUnit) { u.find(0, 1, 2, 8); u.exchange(7, 1, 0, 2, 3, 4); u.find(10, 4, 5) }, 100, "", nil},
		{"switch: nor then", symbolsStay, func(u *crossUnit) { u.find(0, 1, 2, 8); u.exchange(7, 1, 0, 2, 3, 4); u.find(10, 4, 5) }, 0, "", nil},
		{"switch: the numbers take their places among themselves", symbolsStay, func(u *crossUnit) {
			u.find(0, 8)
			u.exchange(7, 2, 1, 0, 4, 3) // from the top: 13, 8 (found), 3, 23, 18
			u.find(10, 11, 12, 3, 14, 15)
		}, 100, "", nil},
		{"5.8 some numbers stay", nil, func(u *crossUnit) { u.exchange(7, 1, 0, 2, 3, 4) }, 0, "", nil},
		{"switch: all must move", func(s *CrossingoSettings) { s.AllMove = true }, func(u *crossUnit) { u.exchange(7, 1, 0, 2, 3, 4) }, 0, "", ErrExcluded},
		{"switch: and they do", func(s *CrossingoSettings) { s.AllMove = true }, func(u *crossUnit) { u.exchange(7, 1, 2, 3, 4, 0) }, 0, "", nil},
		{"switches: two golden numbers found at one place", func(s *CrossingoSettings) { s.GoldenStays, s.GoldenCompounds = true, true }, func(u *crossUnit) {
			u.find(0, -3)
			u.exchange(7, 1, 0, 2, 3, 4)
			u.find(8, -8)
			u.find(10, 1, 2, 4, 5)
			sum(u, 0, 50)
		}, 200, "", nil},
		{"switch: a golden number that stands twice doubles once", compounds, func(u *crossUnit) { u.grid[1] = 1; u.find(0, -1, 3, 4, 5); sum(u, 0, 50) }, 100, "", nil},
		{"5.11.4 four alike", nil, func(u *crossUnit) { u.extra(4, "BADBEBFAB", 100, 500, 1000) }, 500, "€5: EXTRA 1, 4 symbols B (€5)", nil},
		{"5.11.4 three alike", nil, func(u *crossUnit) { u.extra(4, "BADBEBFAC", 100, 500, 1000) }, 0, "", nil},
		{"5.11.4 four that do not win", nil, func(u *crossUnit) { u.extra(4, "DADBDBDAC", 100, 500, 1000) }, 0, "", nil},
		{"5.11.4 five alike", nil, func(u *crossUnit) { u.extra(4, "BABBEBFAB", 100, 500, 1000) }, 500, "", nil},
		{"switch: four exactly", exactly, func(u *crossUnit) { u.extra(4, "BABBEBFAB", 100, 500, 1000) }, 0, "", nil},
		{"5.12 two kinds of four add", nil, func(u *crossUnit) { u.extra(4, "AABBAABBF", 100, 100, 1000) }, 200, "", nil},
		{"5.12 two stages add", nil, func(u *crossUnit) { u.extra(4, "AADEAAEEF", 100, 100, 1000); u.extra(9, "CCDECCEEF", 100, 200, 100) }, 200, "", nil},
		{"5.12 all parts add", nil, func(u *crossUnit) {
			u.find(0, 1, -2, 3, 4, 5)
			u.elements[12] = crossElement{kind: crossSum, amount: 100}
			u.extra(14, "AADEAAEEF", 200, 100, 1000)
		}, 500, "€5: row 1 x 2 (€2) + sum of round 3, case 3 (€1) + EXTRA 1, 4 symbols A (€2)", nil},
		{"5.12 a sum that is no prize", nil, func(u *crossUnit) { u.find(0, 1, 2, 3, 4, 5); sum(u, 0, 300) }, 0, "", ErrPrize},
		{"5.3 a number above the range", nil, func(u *crossUnit) { u.grid[3] = 61 }, 0, "", ErrExcluded},
		{"5.8 an exchanger that moves nothing", nil, func(u *crossUnit) { u.exchange(3, 0, 1, 2, 3, 4) }, 0, "", ErrExcluded},
		{"5.9 EXTRA without its stage", nil, func(u *crossUnit) { u.elements[4].kind = crossExtra }, 0, "", ErrExcluded},
		{"5.9 a stage without EXTRA", nil, func(u *crossUnit) {
			u.extra(4, "BADBEBFAC", 100, 500, 1000)
			u.elements[4] = crossElement{number: 55}
		}, 0, "", ErrExcluded},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c, u := newCross(t, test.change), losingCross()
			test.unit(&u)
			text := c.append(nil, &u)
			got, err := c.Evaluate(text)
			if !errors.Is(err, test.err) || got.Prize != test.prize {
				t.Errorf("%d, %v; want %d, %v\n%s", got.Prize, err, test.prize, test.err, text)
			}
			if words := got.Text("EUR", money.English); test.words != "" && words != test.words {
				t.Errorf("%q, want %q", words, test.words)
			}
		})
	}
}

func TestCrossingoSaysInFrenchWhichPartsWon(t *testing.T) {
	c, u := newCross(t, nil), losingCross()
	u.find(0, 1, -2, 3, 4, 5)
	u.elements[12] = crossElement{kind: crossSum, amount: 100}
	u.extra(14, "AADEAAEEF", 200, 100, 1000)
	got, err := c.Evaluate(c.append(nil, &u))
	if want := "5 € : ligne 1 x 2 (2 €) + somme du tour 3, case 3 (1 €) + EXTRA 1, 4 symboles A (2 €)"; err != nil || got.Text("EUR", money.French) != want {
		t.Errorf("%q, %v", got.Text("EUR", money.French), err)
	}
}

func TestCrossingoNamesThePlaceOfWhatItCannotRead(t *testing.T) {
	c, u := newCross(t, nil), losingCross()
	u.exchange(7, 1, 0, 2, 3, 4)
	u.elements[8] = crossElement{kind: crossSum, amount: 100}
	u.extra(9, "BADBEBFAC", 100, 500, 1000)
	good := string(c.append(nil, &u))
	replace := func(old, with string) string {
		if !strings.Contains(good, old) {
			t.Fatalf("%q is not in %s", old, good)
		}
		return strings.Replace(good, old, with, 1)
	}
	tests := []struct {
		text, want string
		err        error
	}{
		{"", "want grid/sums/elements/stages", ErrForm},
		{good + "/", "want grid/sums/elements/stages", ErrForm},
		{replace("0102", "01020"), "grid, want 50 digits", ErrForm},
		{replace("0102", "0002"), "grid, number 1", ErrExcluded},
		{replace("0102", "0x02"), "grid, number 1", ErrForm},
		{replace("/100 100", "/100 0"), "sums, number 2", ErrForm},
		{replace("/100 100", "/100 100 100"), "sums, number 12", ErrForm},
		{replace(" 28 29", " 28 61"), "round 1, case 4: 61", ErrExcluded},
		{replace(" 28 29", " 28 2"), "round 1, case 4", ErrForm},
		{replace(" 28 29", " 28 29 30"), "round", ErrForm},
		{replace("~21345", "~21344"), "round 2, case 3", ErrForm},
		{replace("~21345", "~2134"), "round 2, case 3", ErrForm},
		{replace("~21345", "~213456"), "round 2, case 3", ErrForm},
		{replace("~21345", "~12345"), "article 5.8", ErrExcluded},
		{replace("=100", "=0"), "round 2, case 4", ErrForm},
		{replace("=100", "=1.00"), "round 2, case 4", ErrForm},
		{replace("/100 500 1000 B", "/100 500 B"), "EXTRA 1", ErrForm},
		{replace("BADBEBFAC", "BADBEBFA"), "EXTRA 1: 8 cells", ErrExcluded},
		{replace("BADBEBFAC", "BADBEBFAG"), "EXTRA 1: cell 9", ErrExcluded},
		{good + ";100 500 1000 BADBEBFAC", "more stages", ErrExcluded},
		{good + ";", "more stages", ErrExcluded},
	}
	for _, test := range tests {
		if _, err := c.Evaluate([]byte(test.text)); !errors.Is(err, test.err) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v; want %q in it", err, test.want)
		}
	}
}

func TestCrossingoRefusesSettingsThatNoUnitCanMeet(t *testing.T) {
	one := func(w CrossingoWay) func(*CrossingoSettings) {
		w.Share = 1
		return func(s *CrossingoSettings) { s.Ways = []CrossingoWay{w} }
	}
	e := func(amounts ...money.Amount) []money.Amount { return amounts }
	for want, change := range map[string]func(*CrossingoSettings){
		"want 25 to 99":               func(s *CrossingoSettings) { s.Numbers = 24 },
		"extra_cells":                 func(s *CrossingoSettings) { s.ExtraCells = 3 },
		"extra_symbols":               func(s *CrossingoSettings) { s.ExtraSymbols = 3 },
		"extra_sums_minor: none":      func(s *CrossingoSettings) { s.ExtraSums = nil },
		"1 to 15 digits":              func(s *CrossingoSettings) { s.LineSums = e(0) },
		"mixes: none":                 func(s *CrossingoSettings) { s.Mixes = nil },
		"golden and extra of 0 to 25": func(s *CrossingoSettings) { s.Mixes[0].Extra = 1 << 62 },
		"15 digits":                   one(CrossingoWay{Sums: e(1e15)}),
		"exchangers of 0 to 3":        func(s *CrossingoSettings) { s.Mixes[0].Exchangers = 4 },
		"no prize of the table":       one(CrossingoWay{Sums: e(300)}),
		"need no way":                 one(CrossingoWay{}),
		"want at most 3":              one(CrossingoWay{Lines: e(100, 100, 100), Doubled: e(100)}),
		"none of line_sums_minor":     one(CrossingoWay{Lines: e(150), Sums: e(50)}),
		"none of extra_sums":          one(CrossingoWay{Extra: e(150), Sums: e(50)}),
		"more than 0":                 one(CrossingoWay{Lines: e(-100), Sums: e(200)}),
		"5 fewer than the game": func(s *CrossingoSettings) { // 25 numbers of 29: a line is always whole
			s.Numbers, s.Mixes, s.Ways = 29, []CrossingoMix{{Share: 1}}, nil
		},
		"one for each other golden": func(s *CrossingoSettings) { // every row and column is doubled
			s.Mixes = []CrossingoMix{{Golden: 25, Share: 1}}
			one(CrossingoWay{Lines: e(100)})(s)
		},
		"hardly any choice of numbers": func(s *CrossingoSettings) { // ten golden numbers outside three lines
			s.Mixes = []CrossingoMix{{Golden: 10, Share: 1}}
			one(CrossingoWay{Lines: e(200, 200, 100)})(s)
		},
		"no mix has room": func(s *CrossingoSettings) {
			s.Mixes = []CrossingoMix{{Share: 1}}
			one(CrossingoWay{Doubled: e(100)})(s)
		},
	} {
		s := crossSettings()
		change(&s)
		if _, err := NewCrossingo(s, crossPrizes); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestCrossingoFiveMissingCellsStopEveryOtherLine tries every set of up to three winning
// lines: what fits relies on.
func TestCrossingoFiveMissingCellsStopEveryOtherLine(t *testing.T) {
	b := newCrossBoard()
	stopped := map[uint32]bool{} // by the lines, as bits, that stay whole
	for cells := uint32(1)<<crossBlocking - 1; cells < 1<<crossCells; {
		whole := uint32(0)
		for line, places := range b.lines {
			if places&cells == 0 {
				whole |= 1 << line
			}
		}
		stopped[whole] = true
		low := cells & -cells // the next set of as many cells
		high := cells + low
		cells = high | (cells^high)/low>>2
	}
	for lines := range uint32(1 << crossLines) {
		if bits.OnesCount32(lines) <= crossMostLines && !stopped[lines] {
			t.Errorf("no %d cells leave exactly the lines %012b whole", crossBlocking, lines)
		}
	}
}

func TestCrossingoDrawsAtTheEdgeOfWhatItsSettingsAllow(t *testing.T) {
	c := newCross(t, func(s *CrossingoSettings) {
		s.Numbers, s.Mixes, s.Ways = 36, []CrossingoMix{{Golden: 2, Share: 1}}, []CrossingoWay{{Lines: crossPrizes[7:], Share: 1}}
	})
	rng := fixed(19)
	for i, way := range c.Ways() {
		for range 10 {
			if got, err := c.Evaluate(c.Draw(nil, i, rng)); err != nil || got.Prize != way.Prize {
				t.Errorf("%s: %d, %v", way.Name, got.Prize, err)
			}
		}
	}
}

func TestCrossingoGivesUpPlacesThatNoNumbersFit(t *testing.T) {
	c, u := newCross(t, nil), losingCross()
	for i := range u.elements {
		u.elements[i].kind = crossGolden
	}
	if c.drawNumbers(&u, [crossLines]int64{0: 1}, crossTries, fixed(20)) {
		t.Error("a row of golden numbers is not doubled")
	}
}

// TestCrossingoCountsTheChoicesOfNumbersThatMeetEachChoiceOfEpochs compares each count
// with how many of blindly drawn numbers have its cells before their deadlines.
func TestCrossingoCountsTheChoicesOfNumbersThatMeetEachChoiceOfEpochs(t *testing.T) {
	c := newCross(t, func(s *CrossingoSettings) {
		s.Numbers, s.Ways, s.Mixes = 26, nil, []CrossingoMix{{Extra: 12, Share: 1}}
	})
	rng, u := fixed(21), losingCross()
	u.exchange(17, 1, 0, 2, 3, 4)
	u.exchange(22, 2, 1, 0, 3, 4)
	var p crossPlan
	p.prepare(c, &u, [crossLines]int64{0: 1, 1: 1})
	const units = 400_000
	met := make([]int, p.m)
	needs := map[int]bool{}
	for range units {
		place := rng.Perm(c.settings.Numbers) // of each cell among the numbers; from p.n on it is not found
		for k, choice := range p.choices[:p.m] {
			needs[choice.needed] = true
			in := 1
			for i, cell := range choice.cells[:choice.needed] {
				if place[cell] >= int(choice.until[i]) {
					in = 0
				}
			}
			met[k] += in
		}
	}
	if len(needs) < 2 {
		t.Fatalf("all choices need as many cells: %v", needs)
	}
	all := new(big.Float).SetInt(falling(c.settings.Numbers, crossMostLines*crossSide))
	last := new(big.Int)
	for k, n := range met {
		upTo := p.choices[k].upTo
		sum := new(big.Int).SetUint64(upTo.hi)
		sum.Lsh(sum, 64).Add(sum, new(big.Int).SetUint64(upTo.lo))
		share, _ := new(big.Float).Quo(new(big.Float).SetInt(new(big.Int).Sub(sum, last)), all).Float64()
		last = sum
		checkShares(t, fmt.Sprintf("choice %d", k), []int{n, units - n}, []float64{share, 1 - share})
	}
}

func TestCrossingoDrawsCountsOf128BitsUniformly(t *testing.T) {
	rng := fixed(22)
	for _, n := range []crossCount{{0, 1}, {0, 7}, {0, 1 << 63}, {1, 0}, {2, 1 << 63}, {1 << 41, 12345}} {
		all := new(big.Float).SetInt(new(big.Int).Add(new(big.Int).Lsh(new(big.Int).SetUint64(n.hi), 64), new(big.Int).SetUint64(n.lo)))
		counts := make([]int, 7)
		for range 70_000 {
			r := n.below(rng)
			if !r.less(n) {
				t.Fatalf("%v is not below %v", r, n)
			}
			part, _ := new(big.Float).Quo(new(big.Float).SetInt(new(big.Int).Add(new(big.Int).Lsh(new(big.Int).SetUint64(r.hi), 64), new(big.Int).SetUint64(r.lo))), all).Float64()
			counts[min(int(part*7+1e-9), 6)]++
		}
		if n != (crossCount{0, 1}) {
			checkUniform(t, fmt.Sprint(n), counts)
		}
	}
	if got := (crossCount{0, 1<<64 - 1}).plus(crossCount{0, 1}); got != (crossCount{1, 0}) {
		t.Errorf("the carry is lost: %v", got)
	}
	if got := (crossCount{3, 1 << 63}).times(6); got != (crossCount{21, 0}) {
		t.Errorf("a product of %v", got)
	}
}

var crossSwitches = map[string]func(*CrossingoSettings){
	"our reading":      nil,
	"golden stays":     func(s *CrossingoSettings) { s.GoldenStays = true },
	"lines at end":     func(s *CrossingoSettings) { s.LinesAtEnd = true },
	"golden compounds": func(s *CrossingoSettings) { s.GoldenCompounds = true },
	"golden late":      func(s *CrossingoSettings) { s.GoldenLate = true },
	"exchangers last":  func(s *CrossingoSettings) { s.ExchangersLast = true },
	"symbols stay": func(s *CrossingoSettings) {
		s.SymbolsStay, s.Numbers, s.Ways = true, 30, s.Ways[:min(3, len(s.Ways))]
		s.Mixes = []CrossingoMix{{Golden: 1, Exchangers: 2, Extra: 6, Share: 1}}
	},
	"all move": func(s *CrossingoSettings) { s.AllMove = true },
	"all at once": func(s *CrossingoSettings) {
		s.GoldenStays, s.GoldenCompounds, s.GoldenLate, s.ExchangersLast, s.AllMove, s.FourExactly = true, true, true, true, true, true
	},
	"four exactly": func(s *CrossingoSettings) { s.FourExactly = true },
}

func TestCrossingoDrawsWhatTheWayWins(t *testing.T) {
	for name, change := range crossSwitches {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, rng := newCross(t, change), fixed(10)
			for i, way := range c.Ways() {
				for range 1000 {
					text := c.Draw(nil, i, rng)
					got, err := c.Evaluate(text)
					if err != nil || got.Prize != way.Prize {
						t.Fatalf("%s: %d, %v\n%s", way.Name, got.Prize, err, text)
					}
					if parts, want := crossParts(got), crossWayParts(c.settings.Ways[i]); parts != want {
						t.Fatalf("%s: parts %s, want %s", way.Name, parts, want)
					}
				}
			}
		})
	}
}

// crossParts counts the winning parts by article.
func crossParts(r Result) string {
	n := map[string]int{}
	for _, w := range r.Wins {
		n[w.Article]++
	}
	return fmt.Sprint(n["5.5"], n["5.7"], n["5.6"], n["5.11.4"])
}

func crossWayParts(w CrossingoWay) string {
	return fmt.Sprint(len(w.Lines), len(w.Doubled), len(w.Sums), len(w.Extra))
}

func TestCrossingoDrawsEveryNumberLinePlaceAndSymbolEqually(t *testing.T) {
	c, rng := newCross(t, nil), fixed(12)
	for i, way := range c.Ways() {
		w := c.settings.Ways[i]
		cell, lines := make([]int, c.settings.Numbers), make([]int, crossLines)
		golden, exchanged, order := make([]int, crossElements), make([]int, crossElements), map[[crossSide]uint8]int{}
		letters := make([]int, c.settings.ExtraSymbols-crossWinning)
		for range 8000 {
			var u crossUnit
			if err := c.parse(c.Draw(nil, i, rng), &u); err != nil {
				t.Fatal(err)
			}
			cell[u.grid[7]-1]++
			for line, factor := range c.play(&u) {
				if factor > 0 {
					lines[line]++
				}
			}
			for k, e := range u.elements {
				switch e.kind {
				case crossGolden:
					golden[k]++
				case crossExchanger:
					exchanged[k]++
					order[e.from]++
				}
			}
			for k := range u.extras {
				if s := u.stages[k].cells[4]; s >= crossWinning {
					letters[s-crossWinning]++
				}
			}
		}
		checkUniform(t, way.Name+": number of a cell", cell)
		checkUniform(t, way.Name+": places of golden numbers", golden)
		checkUniform(t, way.Name+": places of exchangers", exchanged)
		checkUniform(t, way.Name+": other symbols", letters)
		var orders []int
		for _, n := range order {
			orders = append(orders, n)
		}
		if len(orders) != 119 {
			t.Errorf("%s: %d orders of a column, want 119", way.Name, len(orders))
		}
		checkUniform(t, way.Name+": orders", orders)
		switch {
		case len(w.Lines) == 1 && len(w.Doubled) == 0:
			checkUniform(t, way.Name+": winning line", lines)
		case len(w.Doubled) == 1 && len(w.Lines) == 0:
			checkUniform(t, way.Name+": doubled line", lines[:2*crossSide])
		}
	}
}

// TestCrossingoStagesAreLikeThosePickedFromAll compares how often each winning symbol
// stands in a stage with blind draws.
func TestCrossingoStagesAreLikeThosePickedFromAll(t *testing.T) {
	c, rng := newCross(t, nil), fixed(13)
	counts := func(cells []uint8) (n [3]int) {
		for _, s := range cells {
			if s < crossWinning {
				n[s]++
			}
		}
		return n
	}
	free := map[int]map[[3]int]int{}
	cells := make([]uint8, c.settings.ExtraCells)
	for range 400_000 {
		for i := range cells {
			cells[i] = uint8(below(rng, c.settings.ExtraSymbols))
		}
		n := counts(cells)
		wins, which := 0, -1
		for k := range n {
			if n[k] >= crossAlike {
				wins, which = wins+1, k
			}
		}
		if wins > 1 {
			continue
		}
		if free[which] == nil {
			free[which] = map[[3]int]int{}
		}
		free[which][n]++
	}
	for which := -1; which < crossWinning; which++ {
		drawn := map[[3]int]int{}
		for range 50_000 {
			c.stage.draw(cells, which, rng)
			drawn[counts(cells)]++
		}
		checkSame(t, fmt.Sprint("stage ", which), free[which], drawn)
	}
}

// TestCrossingoNearMissesWinNothing takes one needed number of a drawn line, or one
// symbol of a stage, away.
func TestCrossingoNearMissesWinNothing(t *testing.T) {
	c, rng := newCross(t, nil), fixed(14)
	for i, way := range c.Ways() {
		w := c.settings.Ways[i]
		if len(w.Sums) > 0 {
			continue // a sum that is found is won
		}
		for range 200 {
			var u crossUnit
			if err := c.parse(c.Draw(nil, i, rng), &u); err != nil {
				t.Fatal(err)
			}
			var spare []uint8
			used := map[uint8]bool{}
			for k := range u.grid {
				used[u.grid[k]], used[u.elements[k].number] = true, true
			}
			for n := uint8(1); n <= uint8(c.settings.Numbers); n++ {
				if !used[n] {
					spare = append(spare, n)
				}
			}
			for c.play(&u) != [crossLines]int64{} { // the last number that made a line whole
				for k := crossElements - 1; k >= 0; k-- {
					cut := u
					if e := &cut.elements[k]; e.kind <= crossGolden {
						e.number = spare[0]
					}
					if c.play(&cut) != c.play(&u) {
						u = cut
						break
					}
				}
			}
			for k := range u.extras {
				s := &u.stages[k]
				for n := range crossWinning {
					alike := 0
					for m := range c.settings.ExtraCells {
						if int(s.cells[m]) != n {
							continue
						}
						if alike++; alike >= crossAlike {
							s.cells[m] = crossWinning
						}
					}
				}
			}
			if got, err := c.Evaluate(c.append(nil, &u)); err != nil || got.Prize != 0 {
				t.Fatalf("%s: %+v, %v", way.Name, got, err)
			}
		}
	}
}

func TestCrossingoEvaluatesALoserWithoutAllocating(t *testing.T) {
	c := newCross(t, nil)
	text := c.Draw(nil, 0, fixed(15))
	if n := testing.AllocsPerRun(100, func() {
		if r, err := c.Evaluate(text); err != nil || r.Prize != 0 {
			t.Fatal(r, err)
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzCrossingoSymbols(f *testing.F) {
	c, rng := newCross(f, nil), fixed(16)
	for i := range c.Ways() {
		f.Add(c.Draw(nil, i, rng))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var u crossUnit
		if err := c.parse(text, &u); err != nil {
			return
		}
		if back := c.append(nil, &u); !bytes.Equal(back, text) {
			t.Errorf("%q is read and written as %q", text, back)
		}
		if got, err := c.Evaluate(text); err == nil && (got.Prize < 0 || (got.Prize > 0) != (len(got.Wins) > 0)) {
			t.Errorf("%q wins %+v", text, got)
		}
	})
}

func BenchmarkCrossingoDraw(b *testing.B) {
	c, rng := newCross(b, nil), fixed(17)
	for i, way := range c.Ways() {
		b.Run(strings.ReplaceAll(way.Name, " ", "_"), func(b *testing.B) {
			var dst []byte
			for b.Loop() {
				dst = c.Draw(dst[:0], i, rng)
			}
		})
	}
}

func BenchmarkCrossingoEvaluate(b *testing.B) {
	c := newCross(b, nil)
	text := c.Draw(nil, 0, fixed(18))
	for b.Loop() {
		if _, err := c.Evaluate(text); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCrossingoNew(b *testing.B) {
	for b.Loop() {
		newCross(b, nil)
	}
}
