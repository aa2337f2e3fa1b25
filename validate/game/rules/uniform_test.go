//go:build !race

package rules

// These tests pick hundreds of thousands of tickets blindly and hold Draw against them.
// No goroutine is in them, and the race detector would make them ten times slower: the
// Makefile runs them without it.

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"testing"
)

// bingoShape is what tells tickets of one way apart but for the names of the numbers.
type bingoShape struct{ covered, widest, first int }

func (b *Bingo) shape(x *bingoTicket) (w BingoWay, s bingoShape) {
	balls, _ := b.balls(x)
	s.first = -1
	for c := range x.cards {
		covered, _ := x.covered(c, balls)
		n := bits.OnesCount32(covered)
		s.covered += n
		s.widest = max(s.widest, n)
		lines := b.lines(covered)
		if w.Lines += lines; lines > 0 && s.first < 0 {
			for r, row := range b.rows {
				if row != 0 && covered&row == row {
					s.first = r
				}
			}
		}
		if covered&b.yellow == b.yellow {
			w.BonusCards++
			if !b.settings.BonusPerCard {
				w.BonusCards = 1
			}
		}
	}
	return w, s
}

// TestBingoDrawsLikeTicketsPickedFromAllTickets makes tickets at random with no thought
// of prizes, keeps those of each way, and compares their shapes with Draw's. It knows
// nothing of Draw's arithmetic.
func TestBingoDrawsLikeTicketsPickedFromAllTickets(t *testing.T) {
	for _, name := range []string{"our reading", "star breaks", "corners"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, rng := newBingo(t, bingoSwitches[name]), fixed(4)
			free := map[BingoWay]map[bingoShape]int{}
			for range 300_000 {
				x := freeBingo(rng)
				w, s := b.shape(&x)
				if free[w] == nil {
					free[w] = map[bingoShape]int{}
				}
				free[w][s]++
			}
			for i := range b.Ways() {
				w := b.settingsWay(i)
				all := 0
				for _, n := range free[BingoWay{Lines: w.Lines, BonusCards: w.BonusCards}] {
					all += n
				}
				if w.Game2 > 0 || all < 200 {
					continue
				}
				drawn := map[bingoShape]int{}
				for range 20_000 {
					var x bingoTicket
					if err := b.parse(b.Draw(nil, i, rng), &x); err != nil {
						t.Fatal(err)
					}
					_, s := b.shape(&x)
					drawn[s]++
				}
				checkSame(t, b.Ways()[i].Name, free[BingoWay{Lines: w.Lines, BonusCards: w.BonusCards}], drawn)
			}
		})
	}
}

// freeBingo is one of all tickets.
func freeBingo(rng *rand.Rand) (x bingoTicket) {
	var numbers [bingoNumbers]uint8
	for i := range numbers {
		numbers[i] = uint8(i + 1)
	}
	rng.Shuffle(bingoNumbers, func(i, j int) { numbers[i], numbers[j] = numbers[j], numbers[i] })
	copy(x.balls[:], numbers[:])
	for c := range x.cards {
		rng.Shuffle(bingoNumbers, func(i, j int) { numbers[i], numbers[j] = numbers[j], numbers[i] })
		copy(x.cards[c][:], numbers[:])
	}
	return x
}

// crossShape is what tells units of one way apart but for the names of the numbers.
type crossShape struct{ matched, at, goldenIn int }

// shape says how many numbers match, when the line became whole, and how many of its
// numbers are golden.
func (c *Crossingo) shape(u *crossUnit, line int) (s crossShape) {
	cell := map[uint8]int{}
	for i, n := range u.grid {
		cell[n] = i
	}
	b := newCrossBoard()
	s.at = -1
	for i := range u.elements {
		switch e := &u.elements[i]; e.kind {
		case crossExchanger:
			b.exchange(i%crossSide, e.from, 0)
		case crossNumber, crossGolden:
			k, ok := cell[e.number]
			if !ok {
				continue
			}
			s.matched++
			b.symbol |= 1 << k
			if e.kind == crossGolden {
				s.goldenIn++
			}
		}
		if s.at < 0 && b.symbol&b.lines[line] == b.lines[line] {
			s.at = i
		}
	}
	return s
}

// TestCrossingoDrawsLikeUnitsPickedFromAllUnits fixes the places of the kinds and the
// exchangers, draws numbers with no thought of prizes, keeps the units in which one line
// wins and no other, and compares with what Draw makes of the same places.
func TestCrossingoDrawsLikeUnitsPickedFromAllUnits(t *testing.T) {
	for name, change := range crossSwitches {
		if name == "four exactly" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCross(t, func(s *CrossingoSettings) {
				s.Numbers, s.Ways = 30, nil
				s.Mixes = []CrossingoMix{{Extra: 8, Share: 1}} // the places are this test's own
				if change != nil {
					change(s)
				}
			})
			rng := fixed(11)
			base := losingCross()
			base.exchange(17, 1, 0, 3, 2, 4) // late, so that lines of both epochs are won, and share cells
			base.exchange(20, 2, 0, 1, 4, 3)
			base.exchange(23, 1, 0, 2, 4, 3)
			base.elements[3].kind, base.elements[14].kind = crossGolden, crossGolden
			free := map[[crossLines]int64]map[crossShape]int{}
			for range 120_000 {
				u := base
				u.freeNumbers(c.settings.Numbers, rng)
				want := c.play(&u)
				if free[want] == nil {
					free[want] = map[crossShape]int{}
				}
				free[want][c.shape(&u, crossLast(want))]++
			}
			for _, want := range [][crossLines]int64{{}, {0: 1}, {1: 2}, {7: 1}, {10: 1}, {1: 1, 7: 1}, {0: 1, 1: 1}} {
				drawn := map[crossShape]int{}
				for range 4000 {
					u := base
					if !c.drawNumbers(&u, want, crossTries, rng) {
						t.Fatalf("%v: no numbers for these places", want)
					}
					drawn[c.shape(&u, crossLast(want))]++
				}
				checkSame(t, fmt.Sprint(name, want), free[want], drawn)
			}
		})
	}
}

// crossLast is the last line that wins.
func crossLast(won [crossLines]int64) (line int) {
	for l, f := range won {
		if f > 0 {
			line = l
		}
	}
	return line
}

func (u *crossUnit) freeNumbers(numbers int, rng *rand.Rand) {
	var grid, found [99]uint8
	for i := range numbers {
		grid[i], found[i] = uint8(i+1), uint8(i+1)
	}
	shuffle(rng, grid[:numbers], crossCells)
	shuffle(rng, found[:numbers], crossElements)
	copy(u.grid[:], grid[:])
	for i := range u.elements {
		if e := &u.elements[i]; e.kind == crossNumber || e.kind == crossGolden {
			e.number = found[i]
		}
	}
}
