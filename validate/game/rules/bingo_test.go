package rules

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"grattoir/validate/money"
)

var bingoPrizes = []money.Amount{100_000_000, 2_000_000, 200_000, 20_000, 10_000, 5000, 3000, 2000}

func bingoSettings() BingoSettings {
	return BingoSettings{LinePrizes: []money.Amount{2000, 3000, 5000, 10_000, 20_000, 200_000, 2_000_000, 100_000_000}, Bonus: 2000,
		Game2Amounts: []money.Amount{2000, 3000, 5000, 10_000, 20_000, 200_000}, Game2Symbols: []string{"CLE", "FER", "OR", "TREFLE"}}
}

func newBingo(t testing.TB, change func(*BingoSettings)) *Bingo {
	t.Helper()
	s := bingoSettings()
	if change != nil {
		change(&s)
	}
	b, err := NewBingo(s, bingoPrizes)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// losingBingo has the balls 1 to 20, five cards of the numbers 21 to 44, and a losing
// game 2 for 20 €.
func losingBingo() bingoTicket {
	t := bingoTicket{winning: [3]uint8{0, 1, 2}, yours: [3]uint8{0, 2, 1}, box: 2000}
	for i := range t.balls {
		t.balls[i] = uint8(i + 1)
	}
	for c := range t.cards {
		for i := range t.cards[c] {
			t.cards[c][i] = uint8(21 + i)
		}
	}
	return t
}

// cover puts balls, from the first on, into cells of a card.
func (t *bingoTicket) cover(card int, cells ...int) {
	for k, cell := range cells {
		t.cards[card][cell] = t.balls[k]
	}
}

var (
	bingoLineCells = [][]int{{0, 1, 2, 3, 4}, {5, 6, 7, 8, 9}, {10, 11, 12, 13}, {14, 15, 16, 17, 18}, {19, 20, 21, 22, 23}}
	bingoSides     = []int{7, 11, 12, 16}
	bingoCorners   = []int{6, 8, 15, 17}
)

// coverLines makes n whole lines, three to a card, from the first card on. No card has
// the middle one, and so no bonus.
func (t *bingoTicket) coverLines(n int) {
	for card := 0; n > 0; card++ {
		var cells []int
		for _, line := range [][]int{bingoLineCells[0], bingoLineCells[4], bingoLineCells[1]} {
			if n > 0 {
				cells = append(cells, line...)
				n--
			}
		}
		t.cover(card, cells...)
	}
}

func TestBingoFollowsItsArticles(t *testing.T) {
	win2 := func(x *bingoTicket) { x.yours = x.winning }
	lines := func(n int) func(*bingoTicket) { return func(x *bingoTicket) { x.coverLines(n) } }
	both := func(all ...func(*bingoTicket)) func(*bingoTicket) {
		return func(x *bingoTicket) {
			for _, f := range all {
				f(x)
			}
		}
	}
	bonus := func(card int) func(*bingoTicket) { return func(x *bingoTicket) { x.cover(card, bingoSides...) } }
	box := func(a money.Amount) func(*bingoTicket) { return func(x *bingoTicket) { x.box = a } }
	middle := func(x *bingoTicket) { x.cover(2, bingoLineCells[2]...) }
	tests := []struct {
		name   string
		change func(*BingoSettings)
		ticket func(*bingoTicket)
		prize  money.Amount
		words  string
		err    error
	}{
		{"4.5 loses", nil, lines(0), 0, "no win", nil},
		{"4.2.7 one line", nil, lines(1), 2000, "€20: Game 1, 1 line (€20)", nil},
		{"4.2.7 two lines, not twice one", nil, lines(2), 3000, "€30: Game 1, 2 lines (€30)", nil},
		{"4.2.7 three lines", nil, lines(3), 5000, "", nil},
		{"4.2.7 four lines on two cards", nil, lines(4), 10_000, "", nil},
		{"4.2.7 five lines", nil, lines(5), 20_000, "", nil},
		{"4.2.7 six lines", nil, lines(6), 200_000, "", nil},
		{"4.2.7 seven lines", nil, lines(7), 2_000_000, "", nil},
		{"4.2.7 eight lines", nil, lines(8), 100_000_000, "€1,000,000: Game 1, 8 lines (€1,000,000)", nil},
		{"4.2.7 nine lines", nil, lines(9), 0, "", ErrExcluded},
		{"switch: nine lines lose", func(s *BingoSettings) { s.NineLinesLose = true }, lines(9), 0, "no win", nil},
		{"4.2.7 the middle line with its star", nil, middle, 2000, "", nil},
		{"switch: the star breaks it", func(s *BingoSettings) { s.StarBreaksMiddleLine = true }, middle, 0, "", nil},
		{"4.2.7 a column is no line", nil, func(x *bingoTicket) { x.cover(1, 0, 5, 10, 14, 19) }, 0, "", nil},
		{"4.2.7 four of five", nil, func(x *bingoTicket) { x.cover(1, 0, 1, 2, 3) }, 0, "", nil},
		{"4.2.7 no diagonal either", nil, func(x *bingoTicket) { x.cover(1, 0, 6, 17, 23) }, 0, "", nil},
		{"4.2.7 a line over two cards", nil, func(x *bingoTicket) { x.cover(1, 0, 1, 2); x.cover(2, 3, 4) }, 0, "", nil},
		{"4.2.11 the bonus", nil, bonus(2), 2000, "€20: Bonus, card 3 (€20)", nil},
		{"4.2.11 three of four", nil, func(x *bingoTicket) { x.cover(2, 7, 11, 12) }, 0, "", nil},
		{"4.2.11 over two cards", nil, func(x *bingoTicket) { x.cover(2, 7, 11); x.cover(3, 12, 16) }, 0, "", nil},
		{"4.2.11 two cards win once", nil, both(bonus(1), bonus(4)), 2000, "€20: Bonus, cards 2, 5 (€20)", nil},
		{"switch: each card", func(s *BingoSettings) { s.BonusPerCard = true }, both(bonus(1), box(5000)), 2000, "", nil},
		{"switch: each card, a sum that is no prize", func(s *BingoSettings) { s.BonusPerCard = true }, both(bonus(1), bonus(4)), 0, "", ErrPrize},
		{"switch: each card wins its bonus", func(s *BingoSettings) { s.BonusPerCard = true }, both(lines(2), bonus(3), bonus(4), win2, box(3000)), 10_000,
			"€100: Game 1, 2 lines (€30) + Bonus, card 4 (€20) + Bonus, card 5 (€20) + Game 2 (€30)", nil},
		{"4.2.2 corners are not yellow", nil, func(x *bingoTicket) { x.cover(2, bingoCorners...) }, 0, "", nil},
		{"switch: corners are", func(s *BingoSettings) { s.YellowAtCorners = true }, func(x *bingoTicket) { x.cover(2, bingoCorners...) }, 2000, "", nil},
		{"switch: sides are not", func(s *BingoSettings) { s.YellowAtCorners = true }, bonus(2), 0, "", nil},
		{"4.3.4 game 2", nil, both(win2, box(200_000)), 200_000, "€2,000: Game 2 (€2,000)", nil},
		{"4.3.4 another order", nil, func(x *bingoTicket) { x.yours = [3]uint8{1, 0, 2} }, 0, "", nil},
		{"4.3.4 two of three", nil, func(x *bingoTicket) { x.yours = [3]uint8{0, 1, 3} }, 0, "", nil},
		{"4.4 the wins add", nil, both(lines(2), bonus(3)), 5000, "€50: Game 1, 2 lines (€30) + Bonus, card 4 (€20)", nil},
		{"4.4 three parts", nil, both(lines(3), bonus(3), win2, box(3000)), 10_000, "€100: Game 1, 3 lines (€50) + Bonus, card 4 (€20) + Game 2 (€30)", nil},
		{"4.4 a sum that is no prize", nil, both(lines(1), bonus(3)), 0, "", ErrPrize},
		{"4.2.2 a number twice on a card", nil, func(x *bingoTicket) { x.cards[3][7] = x.cards[3][8] }, 0, "", ErrExcluded},
		{"4.2.2 a number on two cards", nil, func(x *bingoTicket) { x.cards[3][7] = 75 }, 0, "", nil},
		{"4.2.2 equal cards are separate ones", nil, func(x *bingoTicket) {}, 0, "no win", nil},
		{"switch: cards differ", func(s *BingoSettings) { s.DifferentCards = true }, func(x *bingoTicket) {}, 0, "", ErrExcluded},
		{"switch: the last two alike", func(s *BingoSettings) { s.DifferentCards = true }, func(x *bingoTicket) {
			for c := range 4 {
				x.cards[c][c] = 75
			}
			x.cards[4] = x.cards[3]
		}, 0, "", ErrExcluded},
		{"switch: and they do", func(s *BingoSettings) { s.DifferentCards = true }, func(x *bingoTicket) {
			for c := range x.cards {
				x.cards[c][c] = 75
			}
		}, 0, "no win", nil},
		{"switch: nine lines, and a bonus", func(s *BingoSettings) { s.NineLinesLose = true }, both(lines(9), bonus(4)), 2000, "€20: Bonus, card 5 (€20)", nil},
		{"4.2.3 a ball twice", nil, func(x *bingoTicket) { x.balls[3] = x.balls[9] }, 0, "", ErrExcluded},
		{"switch: a ball twice", func(s *BingoSettings) { s.RepeatedBalls = true }, func(x *bingoTicket) { x.balls[3] = x.balls[9] }, 0, "", nil},
		{"4.2.3 ball 76", nil, func(x *bingoTicket) { x.balls[3] = 76 }, 0, "", ErrExcluded},
		{"4.2.2 number 0", nil, func(x *bingoTicket) { x.cards[0][3] = 0 }, 0, "", ErrExcluded},
		{"4.3.2 an amount not listed", nil, box(2500), 0, "", ErrExcluded},
		{"4.3.2 a million in the box", nil, box(100_000_000), 0, "", ErrExcluded},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			b := newBingo(t, test.change)
			x := losingBingo()
			test.ticket(&x)
			got, err := b.Evaluate(b.append(nil, &x))
			if !errors.Is(err, test.err) || got.Prize != test.prize {
				t.Errorf("%d, %v; want %d, %v", got.Prize, err, test.prize, test.err)
			}
			if words := got.Text("EUR", money.English); test.words != "" && words != test.words {
				t.Errorf("%q, want %q", words, test.words)
			}
		})
	}
}

func TestBingoSaysInFrenchWhichPartsWon(t *testing.T) {
	b, x := newBingo(t, nil), losingBingo()
	x.coverLines(3)
	x.cover(3, bingoSides...)
	x.yours, x.box = x.winning, 3000
	got, err := b.Evaluate(b.append(nil, &x))
	if want := "100 € : Jeu 1, 3 lignes (50 €) + Bonus, carte 4 (20 €) + Jeu 2 (30 €)"; err != nil || got.Text("EUR", money.French) != want {
		t.Errorf("%q, %v", got.Text("EUR", money.French), err)
	}
}

func TestBingoNamesThePlaceOfWhatItCannotRead(t *testing.T) {
	b, x := newBingo(t, nil), losingBingo()
	good := string(b.append(nil, &x))
	card3 := strings.Index(good, "/") + 1 + 2*49
	tests := []struct {
		text, want string
		err        error
	}{
		{"", "balls, want 40 digits", ErrForm},
		{good[:20], "balls", ErrForm},
		{good[:card3] + "99" + good[card3+2:], "card 3, number 1: 99: excluded by the regulation (article 4.2.2", ErrExcluded},
		{good[:card3+12] + "76" + good[card3+14:], "card 3, number 7: 76", ErrExcluded},
		{good[:card3+2] + good[card3:card3+2] + good[card3+4:], "card 3, number 2: 21 stands twice", ErrExcluded},
		{"00" + good[2:], "balls, number 1: 00: excluded by the regulation (article 4.2.3", ErrExcluded},
		{good[:4] + "02" + good[6:], "balls, number 3: 02 stands twice", ErrExcluded},
		{good[:card3] + "x1" + good[card3+2:], "card 3, number 1", ErrForm},
		{good[:card3] + " " + good[card3:], "card 3", ErrForm},
		{strings.Replace(good, "CLE-FER-OR", "CLE-FER", 1), "winning combination", ErrForm},
		{strings.Replace(good, "CLE-FER-OR", "CLE-FER-LUNE", 1), "symbol 3: \"LUNE\"", ErrExcluded},
		{strings.Replace(good, "CLE-FER-OR", "CLE-fer-OR", 1), "symbol 2: want a word", ErrForm},
		{strings.Replace(good, "CLE-FER-OR", "CLE-FER-"+strings.Repeat("A", 5000), 1), "winning combination", ErrForm},
		{strings.Replace(good, "CLE-OR-FER", "CLE-OR-FER-OR", 1), "your combination", ErrForm},
		{strings.Replace(good, "/2000", "/", 1), "box", ErrForm},
		{strings.Replace(good, "/2000", "/02000", 1), "box", ErrForm},
		{strings.Replace(good, "/2000", "/2000/", 1), "box", ErrForm},
		{strings.Replace(good, "/2000", "/20.00", 1), "box", ErrForm},
	}
	for _, test := range tests {
		_, err := b.Evaluate([]byte(test.text))
		if !errors.Is(err, test.err) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v; want %q", err, test.want)
		} else if len(err.Error()) > 160 {
			t.Errorf("an error of %d bytes", len(err.Error()))
		}
	}
}

func TestBingoRefusesSettingsThatItsRegulationExcludes(t *testing.T) {
	for want, change := range map[string]func(*BingoSettings){
		"article 4.2.7 has 8":   func(s *BingoSettings) { s.LinePrizes = s.LinePrizes[:7] },
		"want 2 to 64":          func(s *BingoSettings) { s.Game2Symbols = s.Game2Symbols[:1] },
		"different words":       func(s *BingoSettings) { s.Game2Symbols[1] = "CLE" },
		"article 4.3.2 lists":   func(s *BingoSettings) { s.Game2Amounts = nil },
		"bonus_minor: 0":        func(s *BingoSettings) { s.Bonus = 0 },
		"line_prizes_minor: 10": func(s *BingoSettings) { s.LinePrizes[7] = 1e13 },
		"2000 stands twice":     func(s *BingoSettings) { s.Game2Amounts[3] = 2000 },
		"can win just that":     func(s *BingoSettings) { s.LinePrizes[3] = 777 },
		"share 0":               func(s *BingoSettings) { s.Ways = []BingoWay{{Lines: 1}} },
		"want 0 to 8":           func(s *BingoSettings) { s.Ways = []BingoWay{{Lines: 9, Share: 1}} },
		"want 0 or 1":           func(s *BingoSettings) { s.Ways = []BingoWay{{BonusCards: 2, Share: 1}} },
		"game2_minor":           func(s *BingoSettings) { s.Ways = []BingoWay{{Game2: 1, Share: 1}} },
		"no prize of the table": func(s *BingoSettings) { s.Ways = []BingoWay{{Lines: 1, BonusCards: 1, Share: 1}} },
		"need no way":           func(s *BingoSettings) { s.Ways = []BingoWay{{Share: 1}} },
		"the same way":          func(s *BingoSettings) { s.Ways = []BingoWay{{Lines: 1, Share: 1}, {Lines: 1, Share: 2}} },
		"want 1 to 2^32":        func(s *BingoSettings) { s.Ways = []BingoWay{{Lines: 1, Share: 1 << 40}} },
	} {
		s := bingoSettings()
		change(&s)
		if b, err := NewBingo(s, bingoPrizes); err == nil || b != nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if _, err := NewBingo(bingoSettings(), nil); err == nil {
		t.Error("a game with no prize table was accepted")
	}
}

func TestBingoWaysWinSomething(t *testing.T) {
	for _, w := range BingoWays(bingoSettings(), append([]money.Amount{0}, bingoPrizes...)) {
		if w.Lines == 0 && w.BonusCards == 0 && w.Game2 == 0 {
			t.Error("a losing way among the winning ones")
		}
	}
}

func TestBingoKnowsEveryWayToEachPrize(t *testing.T) {
	got := map[money.Amount]int{}
	for _, w := range newBingo(t, nil).Ways() {
		got[w.Prize]++
	}
	// 20: a line, the bonus, game 2. 30: 2 lines, game 2. 50: 3 lines; game 2; 30 + bonus in
	// game 1 or 2; 20 + 30 and 30 + 20 of the games. 100: one game; 50 + 50; 50 + 30 + bonus
	// and 30 + 50 + bonus. 200: one game, 100 + 100. 2 000: one game. Above: game 1 alone.
	want := map[money.Amount]int{0: 1, 2000: 3, 3000: 2, 5000: 6, 10_000: 5, 20_000: 3, 200_000: 2, 2_000_000: 1, 100_000_000: 1}
	for prize, n := range want {
		if got[prize] != n {
			t.Errorf("%d: %d ways, want %d", prize, got[prize], n)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%v", got)
	}
}

func TestBingoKeepsItsSettingsFromWhoGaveThem(t *testing.T) {
	s, prizes := bingoSettings(), append([]money.Amount(nil), bingoPrizes...)
	b, err := NewBingo(s, prizes)
	if err != nil {
		t.Fatal(err)
	}
	s.LinePrizes[0], s.Game2Amounts[0], s.Game2Symbols[0], prizes[7] = 1, 1, "X", 1
	x := losingBingo()
	x.coverLines(1)
	if got, err := b.Evaluate(b.append(nil, &x)); err != nil || got.Prize != 2000 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestBingoEvaluatesALoserWithoutAllocating(t *testing.T) {
	b := newBingo(t, nil)
	x := losingBingo()
	text := b.append(nil, &x)
	if n := testing.AllocsPerRun(100, func() {
		if r, err := b.Evaluate(text); err != nil || r.Prize != 0 {
			t.Fatal(r, err)
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzBingoSymbols(f *testing.F) {
	b := newBingo(f, nil)
	rng := fixed(7)
	for i := range b.Ways() {
		f.Add(b.Draw(nil, i, rng))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var x bingoTicket
		if err := b.parse(text, &x); err != nil {
			return
		}
		if back := b.append(nil, &x); !bytes.Equal(back, text) {
			t.Errorf("%q is read and written as %q", text, back)
		}
		if got, err := b.Evaluate(text); err == nil && (got.Prize < 0 || (got.Prize > 0) != (len(got.Wins) > 0)) {
			t.Errorf("%q wins %+v", text, got)
		}
	})
}
