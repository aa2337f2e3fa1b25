//go:build !race

package rules

// These tests compare what Draw counts and draws with all choices of covered cells and of
// five cards, one by one. No goroutine is in the code under test, and the race detector
// would make them ten times slower: the Makefile runs them without it.

import (
	"fmt"
	"maps"
	"math/big"
	"math/bits"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
)

// bingoCensus counts all 2^24 choices of covered cells of a card, with the cells of the
// tests and nothing of the code under test. A class is 2 x lines + bonus.
type bingoCensus struct {
	cells [12][25]int64          // by class and number of covered cells
	rows  [5][32][12][25]float64 // the same for each choice of a row's cells
}

// bingoCensuses are made once for each reading of a card: they take a second.
var bingoCensuses = map[string]func() *bingoCensus{
	"our reading": sync.OnceValue(func() *bingoCensus { return newBingoCensus(bingoLineCells, bingoSides) }),
	"star breaks": sync.OnceValue(func() *bingoCensus {
		return newBingoCensus(slices.Delete(slices.Clone(bingoLineCells), 2, 3), bingoSides)
	}),
	"corners": sync.OnceValue(func() *bingoCensus { return newBingoCensus(bingoLineCells, bingoCorners) }),
}

func newBingoCensus(lineCells [][]int, yellowCells []int) *bingoCensus {
	mask := func(cells []int) (m uint32) {
		for _, i := range cells {
			m |= 1 << i
		}
		return m
	}
	var lines []uint32
	for _, cells := range lineCells {
		lines = append(lines, mask(cells))
	}
	yellow, c := mask(yellowCells), &bingoCensus{}
	for covered := range uint32(1 << 24) {
		class := 0
		for _, line := range lines {
			if covered&line == line {
				class += 2
			}
		}
		if covered&yellow == yellow {
			class++
		}
		n := bits.OnesCount32(covered)
		c.cells[class][n]++
		for r, cells := range bingoRowPatterns(covered) {
			c.rows[r][cells][class][n]++
		}
	}
	return c
}

// bingoRowPatterns are the covered cells of each row, the first cell in bit 0.
func bingoRowPatterns(covered uint32) [5]uint32 {
	return [5]uint32{covered & 31, covered >> 5 & 31, covered >> 10 & 15, covered >> 14 & 31, covered >> 19 & 31}
}

// bingoFill is the number of cards whose covered cells are m given ones: their balls in
// order, and other numbers in order.
func bingoFill(m int) *big.Int {
	n := big.NewInt(1)
	for i := range m {
		n.Mul(n, big.NewInt(int64(20-i)))
	}
	for i := range 24 - m {
		n.Mul(n, big.NewInt(int64(55-i)))
	}
	return n
}

// cards is the number of cards of a class for given balls.
func (c *bingoCensus) cards(class int) *big.Int {
	sum := new(big.Int)
	for m := range 21 {
		sum.Add(sum, new(big.Int).Mul(big.NewInt(c.cells[class][m]), bingoFill(m)))
	}
	return sum
}

// class is the census's class of a card of a ticket.
func (t *bingoTicket) class(b *Bingo, card int) int {
	balls, _ := b.balls(t)
	covered, _ := t.covered(card, balls)
	class := 2 * b.lines(covered)
	if covered&b.yellow == b.yellow {
		class++
	}
	return class
}

// TestBingoCountsEveryCardOnce compares the table that Draw uses with the census, to the
// last of 10^43 cards.
func TestBingoCountsEveryCardOnce(t *testing.T) {
	for name, census := range bingoCensuses {
		b, all := newBingo(t, bingoSwitches[name]), new(big.Int)
		for class, got := range b.card.total {
			if want := census().cards(class); got.Cmp(want) != 0 {
				t.Errorf("%s: %d cards of class %d, want %d", name, got, class, want)
			} else if want.Sign() > 0 && want.BitLen() <= 84 {
				t.Errorf("%s: class %d has under 2^84 cards", name, class)
			}
			all.Add(all, got)
		}
		want := big.NewInt(1)
		for i := range 24 {
			want.Mul(want, big.NewInt(int64(75-i)))
		}
		if all.Cmp(want) != 0 {
			t.Errorf("%s: %d cards in all, want 75 x 74 x ... x 52 = %d", name, all, want)
		}
	}
}

// bingoFive calls visit with all choices of the classes of five cards. Five lines of a
// card would need 24 balls, so that a card has four at most.
func bingoFive(visit func(classes [5]int, lines, bonus int)) {
	for n := range 10 * 10 * 10 * 10 * 10 {
		var classes [5]int
		lines, bonus := 0, 0
		for c := range classes {
			classes[c] = n % 10
			n /= 10
			lines += classes[c] / 2
			bonus += classes[c] % 2
		}
		visit(classes, lines, bonus)
	}
}

// TestBingoCountsEveryTicketOfItsWays adds up all choices of five cards, one by one.
func TestBingoCountsEveryTicketOfItsWays(t *testing.T) {
	var cards [12]*big.Int
	for class := range cards {
		cards[class] = bingoCensuses["our reading"]().cards(class)
	}
	var tickets [26][6]big.Int // by lines and cards with a bonus
	bingoFive(func(classes [5]int, lines, bonus int) {
		n := big.NewInt(1)
		for _, class := range classes {
			n.Mul(n, cards[class])
		}
		tickets[lines][bonus].Add(&tickets[lines][bonus], n)
	})
	for _, name := range []string{"our reading", "bonus per card", "nine lines"} {
		b := newBingo(t, bingoSwitches[name])
		most := 1
		if b.settings.BonusPerCard {
			most = 5
		}
		for lines := range 9 {
			for bonus := range most + 1 {
				want := new(big.Int)
				for l := range tickets {
					for n := range tickets[l] {
						if (l == lines || name == "nine lines" && lines == 0 && l > 8) && min(n, most) == bonus {
							want.Add(want, &tickets[l][n])
						}
					}
				}
				m := b.newBingoMaker(BingoWay{Lines: lines, BonusCards: bonus})
				if got := m.count(b, bingoOwed{}, make([]*big.Int, bingoOwes)); got.Cmp(want) != 0 || got.Sign() == 0 {
					t.Errorf("%s: %d lines, bonus %d: %d, want %d", name, lines, bonus, got, want)
				}
			}
		}
	}
}

// TestBingoCoversCellsInTheirExactShares draws cards of every class, the rarest too, and
// compares the covered cells of each row and their number with the census.
func TestBingoCoversCellsInTheirExactShares(t *testing.T) {
	var fill [25]float64
	for m := range 21 {
		fill[m], _ = new(big.Float).SetInt(bingoFill(m)).Float64()
	}
	for name, census := range bingoCensuses {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, all, rng := newBingo(t, bingoSwitches[name]), census(), fixed(11)
			for class := range 12 {
				if b.card.total[class].Sign() == 0 {
					continue
				}
				var rows [5][32]int
				var cells [25]int
				for range 20_000 {
					covered := b.card.draw(class, rng)
					cells[bits.OnesCount32(covered)]++
					for r, pattern := range bingoRowPatterns(covered) {
						rows[r][pattern]++
					}
				}
				var shares [25]float64
				for m := range shares {
					shares[m] = float64(all.cells[class][m]) * fill[m]
				}
				what := fmt.Sprintf("%d lines, bonus %d", class/2, class%2)
				checkPooled(t, what+": covered cells", cells[:], shares[:])
				for r := range rows {
					var shares [32]float64
					for pattern := range shares {
						for m, n := range all.rows[r][pattern][class] {
							shares[pattern] += n * fill[m]
						}
					}
					checkPooled(t, fmt.Sprintf("%s: row %d", what, r+1), rows[r][:], shares[:])
				}
			}
		})
	}
}

// TestBingoSpreadsTheWinsOverTheCardsInTheirExactShares compares which cards have which
// lines and bonuses, on tickets of every way, with all choices of five cards.
func TestBingoSpreadsTheWinsOverTheCardsInTheirExactShares(t *testing.T) {
	var cards [12]float64
	for class := range cards {
		cards[class], _ = new(big.Float).SetInt(bingoCensuses["our reading"]().cards(class)).Float64()
		cards[class] /= 1e43 // five of them are multiplied
	}
	for _, name := range []string{"our reading", "bonus per card", "nine lines"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, rng := newBingo(t, bingoSwitches[name]), fixed(12)
			seen := map[BingoWay]bool{}
			for i := range b.Ways() {
				w := BingoWay{Lines: b.settingsWay(i).Lines, BonusCards: b.settingsWay(i).BonusCards}
				if !seen[w] {
					seen[w] = true
					checkBingoCards(t, b, i, cards, rng)
				}
			}
		})
	}
}

func checkBingoCards(t *testing.T, b *Bingo, way int, cards [12]float64, rng *rand.Rand) {
	t.Helper()
	w, what := b.settingsWay(way), b.Ways()[way].Name
	// The classes of each card alone, of two neighbours, and of all five without order.
	var alone [5][12]float64
	var pair [144]float64
	five := map[[5]int]float64{}
	bingoFive(func(classes [5]int, lines, bonus int) {
		if !b.settings.BonusPerCard {
			bonus = min(bonus, 1)
		}
		if bonus != w.BonusCards || lines != w.Lines && (w.Lines > 0 || !b.settings.NineLinesLose || lines <= 8) {
			return
		}
		share := 1.0
		for _, class := range classes {
			share *= cards[class]
		}
		for c, class := range classes {
			alone[c][class] += share
		}
		pair[12*classes[1]+classes[2]] += share
		slices.Sort(classes[:])
		five[classes] += share
	})
	var drawnAlone [5][12]int
	var drawnPair [144]int
	drawnFive := map[[5]int]int{}
	for range 5000 {
		x := b.drawn(t, way, rng)
		var classes [5]int
		for c := range classes {
			classes[c] = x.class(b, c)
			drawnAlone[c][classes[c]]++
		}
		drawnPair[12*classes[1]+classes[2]]++
		slices.Sort(classes[:])
		drawnFive[classes]++
	}
	for c := range alone {
		checkPooled(t, fmt.Sprintf("%s: card %d", what, c+1), drawnAlone[c][:], alone[c][:])
	}
	checkPooled(t, what+": cards 2 and 3", drawnPair[:], pair[:])
	var counts []int
	var shares []float64
	keys := slices.SortedFunc(maps.Keys(five), func(a, b [5]int) int { return slices.Compare(a[:], b[:]) })
	for _, key := range keys {
		counts, shares = append(counts, drawnFive[key]), append(shares, five[key])
		delete(drawnFive, key)
	}
	checkPooled(t, what+": all cards", counts, shares)
	if len(drawnFive) > 0 {
		t.Errorf("%s: cards that do not win so: %v", what, drawnFive)
	}
}
