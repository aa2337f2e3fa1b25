package rules

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"grattoir/validate/money"
)

var bingoSwitches = map[string]func(*BingoSettings){
	"our reading":    nil,
	"star breaks":    func(s *BingoSettings) { s.StarBreaksMiddleLine = true },
	"corners":        func(s *BingoSettings) { s.YellowAtCorners = true },
	"bonus per card": func(s *BingoSettings) { s.BonusPerCard = true },
	"nine lines":     func(s *BingoSettings) { s.NineLinesLose = true },
	"repeated balls": func(s *BingoSettings) { s.RepeatedBalls = true },
	"cards differ":   func(s *BingoSettings) { s.DifferentCards = true },
}

// settingsWay is what was set for Ways()[i].
func (b *Bingo) settingsWay(i int) BingoWay { return b.makers[i].way }

// drawn is a drawn ticket, read back.
func (b *Bingo) drawn(t testing.TB, way int, rng *rand.Rand) (x bingoTicket) {
	t.Helper()
	if err := b.parse(b.Draw(nil, way, rng), &x); err != nil {
		t.Fatal(err)
	}
	return x
}

func TestBingoDrawsWhatTheWayWins(t *testing.T) {
	for name, change := range bingoSwitches {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, rng := newBingo(t, change), fixed(3)
			draws := 2000
			if change != nil {
				draws = 400
			}
			var text []byte
			for i, way := range b.Ways() {
				for range draws {
					text = b.Draw(text[:0], i, rng)
					got, err := b.Evaluate(text)
					if err != nil || got.Prize != way.Prize || !b.wins(got, b.settingsWay(i)) {
						t.Fatalf("%s: %+v, %v\n%s", way.Name, got, err, text)
					}
				}
			}
		})
	}
}

// wins reports whether the parts of the way won, and no other.
func (b *Bingo) wins(got Result, w BingoWay) bool {
	var lines, game2 money.Amount
	cards := 0
	for _, win := range got.Wins {
		switch win.Article {
		case "4.2.7":
			lines += win.Amount
		case "4.2.11":
			cards++
		case "4.3.4":
			game2 += win.Amount
		}
	}
	want := money.Amount(0)
	if w.Lines > 0 {
		want = b.settings.LinePrizes[w.Lines-1]
	}
	return lines == want && cards == w.BonusCards && game2 == w.Game2
}

func TestBingoDrawsDifferentBallsEvenWhereTheyMayRepeat(t *testing.T) {
	b, strict, rng := newBingo(t, bingoSwitches["repeated balls"]), newBingo(t, nil), fixed(10)
	for range 1000 {
		if _, err := strict.Evaluate(b.Draw(nil, 0, rng)); err != nil {
			t.Fatal(err)
		}
	}
}

// checkPooled is checkShares with the classes that are too rare for it put together. A
// class that has no share and was drawn fails.
func checkPooled(t *testing.T, what string, counts []int, shares []float64) {
	t.Helper()
	all, n := 0.0, 0
	for i := range counts {
		all += shares[i]
		n += counts[i]
		if shares[i] == 0 && counts[i] > 0 {
			t.Errorf("%s: class %d was drawn %d times, and there is none", what, i, counts[i])
		}
	}
	order := make([]int, len(counts))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return cmp.Compare(shares[i], shares[j]) })
	var pooled []int
	var pooledShares []float64
	count, share := 0, 0.0
	for _, i := range order {
		count, share = count+counts[i], share+shares[i]
		if share*float64(n)/all >= 5 {
			pooled, pooledShares = append(pooled, count), append(pooledShares, share)
			count, share = 0, 0
		}
	}
	if share > 0 { // the largest class was alone too rare: the draws are too few
		t.Fatalf("%s: draw more than %d", what, n)
	}
	if len(pooled) > 1 {
		checkShares(t, what, pooled, pooledShares)
	}
}

func TestBingoDrawsEveryNumberPlaceAndSymbolEqually(t *testing.T) {
	b, rng := newBingo(t, nil), fixed(5)
	for i, way := range b.Ways() {
		var ball, cell [bingoNumbers]int
		var winning, lost [64]int
		var place [bingoBalls]int
		var order [2]int
		boxes := make([]int, len(b.settings.Game2Amounts))
		for k := range 5000 {
			x := b.drawn(t, i, rng)
			ball[x.balls[k%bingoBalls]-1]++
			cell[x.cards[k%bingoCards][k/bingoCards%bingoCells]-1]++
			winning[16*x.winning[0]+4*x.winning[1]+x.winning[2]]++
			lost[16*x.yours[0]+4*x.yours[1]+x.yours[2]]++
			boxes[slices.Index(b.settings.Game2Amounts, x.box)]++
			var on []int // the balls that cover a card, in the order of its cells
			for _, n := range x.cards[k%bingoCards] {
				if at := slices.Index(x.balls[:], n); at >= 0 {
					on = append(on, at)
				}
			}
			if len(on) > 1 {
				place[on[len(on)-1]]++
				if on[0] < on[1] {
					order[0]++
				} else {
					order[1]++
				}
			}
		}
		checkUniform(t, way.Name+": numbers on balls", ball[:])
		checkUniform(t, way.Name+": numbers on cards", cell[:])
		checkUniform(t, way.Name+": ball that covers a cell", place[:])
		checkUniform(t, way.Name+": order of two such balls", order[:])
		checkUniform(t, way.Name+": winning symbols", winning[:])
		checkUniform(t, way.Name+": the player's symbols", lost[:])
		if b.settingsWay(i).Game2 == 0 {
			checkUniform(t, way.Name+": box of a lost game 2", boxes)
		}
	}
}

// TestBingoDrawsLostCombinationsAndCoveredCellsEqually looks at what tells a lost game 2
// from a won one, at which ball covers a cell, and at losers that no sample would show.
func TestBingoDrawsLostCombinationsAndCoveredCellsEqually(t *testing.T) {
	b, rng := newBingo(t, nil), fixed(19)
	apart, ball := make([]int, 63), make([]int, bingoBalls)
	cards := 0
	alone := slices.IndexFunc(b.makers, func(m bingoMaker) bool { return m.way == BingoWay{BonusCards: 1, Share: 1} })
	for range 12_000 {
		var x bingoTicket
		if err := b.parse(b.Draw(nil, alone, rng), &x); err != nil {
			t.Fatal(err)
		}
		n := func(c [3]uint8) int { return int(16*c[0]+4*c[1]) + int(c[2]) }
		apart[(n(x.yours)-n(x.winning)+64)%64-1]++
		balls, _ := b.balls(&x)
		won := 0
		for c := range x.cards {
			covered, _ := x.covered(c, balls)
			if covered&b.yellow != b.yellow {
				continue
			}
			won++
			for k, have := range x.balls {
				if have == x.cards[c][7] {
					ball[k]++
				}
			}
		}
		if won > 1 {
			cards++
		}
	}
	checkUniform(t, "how far apart the combinations are", apart)
	checkUniform(t, "ball of a yellow cell", ball)
	if cards == 0 {
		t.Error("a bonus on two cards was never drawn")
	}
	loses := newBingo(t, func(s *BingoSettings) { s.NineLinesLose = true })
	if !loses.accepts(BingoWay{}, 9, 0) || b.accepts(BingoWay{}, 9, 0) || loses.accepts(BingoWay{Lines: 8}, 9, 0) || !b.accepts(BingoWay{BonusCards: 1}, 0, 2) {
		t.Error("losing tickets with nine lines, or a bonus on two cards")
	}
}

// TestBingoLosesGame2WithEveryOtherCombinationEqually has two symbols: eight
// combinations, and seven that lose against each.
func TestBingoLosesGame2WithEveryOtherCombinationEqually(t *testing.T) {
	b, rng := newBingo(t, func(s *BingoSettings) { s.Game2Symbols = s.Game2Symbols[:2] }), fixed(13)
	var pairs [64]int
	shares := make([]float64, 64)
	for range 50_000 {
		x := b.drawn(t, 0, rng)
		at := 0
		for _, s := range slices.Concat(x.winning[:], x.yours[:]) {
			at = 2*at + int(s)
		}
		pairs[at]++
	}
	for at := range shares {
		if at/8 != at%8 {
			shares[at] = 1
		}
	}
	checkPooled(t, "combinations", pairs[:], shares)
}

// TestBingoNearMissesWinNothing breaks each winning part of drawn winners by one number
// or one symbol.
func TestBingoNearMissesWinNothing(t *testing.T) {
	b, rng := newBingo(t, nil), fixed(6)
	for i, way := range b.Ways() {
		for k := range 300 {
			x := b.drawn(t, i, rng)
			for c := range x.cards {
				for _, cells := range append([][]int{bingoSides}, bingoLineCells...) {
					x.breakCells(c, cells, rng)
				}
			}
			if b.settingsWay(i).Game2 > 0 {
				x.breakGame2(k, rng)
			}
			if got, err := b.Evaluate(b.append(nil, &x)); err != nil || got.Prize != 0 || got.Wins != nil {
				t.Fatalf("%s: %+v, %v", way.Name, got, err)
			}
		}
	}
}

// TestBingoOneNumberLessIsOneLineLess breaks one line of drawn winners of game 1.
func TestBingoOneNumberLessIsOneLineLess(t *testing.T) {
	b, rng := newBingo(t, nil), fixed(14)
	for i, way := range b.Ways() {
		w := b.settingsWay(i)
		if w.Lines == 0 || w.BonusCards > 0 || w.Game2 > 0 {
			continue
		}
		for range 300 {
			x := b.drawn(t, i, rng)
			for broken, at := false, 0; !broken; at++ {
				broken = x.breakCells(at/5, bingoLineCells[at%5], rng)
			}
			want := append([]money.Amount{0}, b.settings.LinePrizes...)[w.Lines-1]
			if got, err := b.Evaluate(b.append(nil, &x)); err != nil || got.Prize != want {
				t.Fatalf("%s: %+v, %v", way.Name, got, err)
			}
		}
	}
}

// breakCells puts a number that is on no ball into one of a card's cells if all of them
// are covered.
func (t *bingoTicket) breakCells(card int, cells []int, rng *rand.Rand) bool {
	for _, i := range cells {
		if !slices.Contains(t.balls[:], t.cards[card][i]) {
			return false
		}
	}
	n := uint8(1)
	for slices.Contains(t.balls[:], n) || slices.Contains(t.cards[card][:], n) {
		n = uint8(1 + below(rng, bingoNumbers))
	}
	t.cards[card][cells[below(rng, len(cells))]] = n
	return true
}

// breakGame2 swaps two symbols, or changes one where they are all alike.
func (t *bingoTicket) breakGame2(k int, rng *rand.Rand) {
	a, b := k%3, (k+1)%3
	t.yours[a], t.yours[b] = t.yours[b], t.yours[a]
	if t.yours == t.winning {
		t.yours[a] = (t.yours[a] + 1 + uint8(below(rng, 3))) % 4
	}
}

// TestBingoFourOfFiveIsNoLine completes a losing ticket's line but for one cell.
func TestBingoFourOfFiveIsNoLine(t *testing.T) {
	b, rng := newBingo(t, nil), fixed(15)
	for k := range 3000 {
		x := losingBingo()
		card, line := k%5, slices.Clone(bingoLineCells[k/5%5])
		rng.Shuffle(len(line), func(i, j int) { line[i], line[j] = line[j], line[i] })
		for n, cell := range line[1:] {
			x.cards[card][cell] = x.balls[(k+n)%bingoBalls]
		}
		if got, err := b.Evaluate(b.append(nil, &x)); err != nil || got.Prize != 0 {
			t.Fatalf("all but one of a line: %+v, %v", got, err)
		}
		x.cards[card][line[0]] = x.balls[(k+5)%bingoBalls]
		if got, err := b.Evaluate(b.append(nil, &x)); err != nil || got.Prize != 2000 {
			t.Fatalf("all of a line: %+v, %v", got, err)
		}
	}
}

func TestBingoDrawsInConstantMemory(t *testing.T) {
	b, rng := newBingo(t, nil), fixed(16)
	dst := b.Draw(nil, 0, rng)
	dst = make([]byte, 0, 2*len(dst))
	for i, way := range b.Ways() {
		if n := testing.AllocsPerRun(100, func() { b.Draw(dst, i, rng) }); n > 0 {
			t.Errorf("%s: %v allocations", way.Name, n)
		}
	}
}

func BenchmarkBingoDraw(b *testing.B) {
	r, rng := newBingo(b, nil), fixed(8)
	for _, way := range []int{0, len(r.Ways()) - 1} {
		b.Run(r.Ways()[way].Name, func(b *testing.B) {
			var dst []byte
			for b.Loop() {
				dst = r.Draw(dst[:0], way, rng)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tickets/s")
		})
	}
}

func BenchmarkBingoEvaluate(b *testing.B) {
	r, rng := newBingo(b, nil), fixed(9)
	for _, way := range []int{0, len(r.Ways()) - 1} {
		text := r.Draw(nil, way, rng)
		b.Run(r.Ways()[way].Name, func(b *testing.B) {
			for b.Loop() {
				if _, err := r.Evaluate(text); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tickets/s")
		})
	}
}

func BenchmarkBingoNew(b *testing.B) {
	for b.Loop() {
		newBingo(b, nil)
	}
}
