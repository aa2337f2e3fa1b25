package rules

import (
	"fmt"
	"math/big"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"
)

// How Draw makes every ticket of a way equally likely.
//
// A ticket is twenty different balls in order, five cards of twenty-four different
// numbers in order, and the symbols and the box of game 2. A way names the lines of all
// cards together, whether the bonus is won, and what game 2 wins: on which cards is left
// to chance. Uniform means that each of the tickets that Evaluate gives these parts, and
// no other, has the same chance; each choice is exact to within 2^-63 of its share.
//
// Whatever the balls are, a card whose covered cells are a given set of m cells can be
// filled in P(20,m) P(55,24-m) ways, where P(n,k) is the number of ordered choices of k
// out of n. So the number of tickets of a way is a sum of products over the cards, and
// the cards depend on each other only by the lines and bonuses that are still owed. Both
// sums are made once in whole numbers, backwards: bingoCardTable over the rows of a
// card, bingoMaker over the cards. Draw walks them forwards with the exact shares and
// fills the cells at random. Throwing tickets away until one wins in the way would do
// the same, but of 5 x 10^18 tickets one has eight lines.
//
// With RepeatedBalls the drawn balls stay different ones: the other tickets are never
// drawn. With DifferentCards equal cards are drawn again, which is just as uniform and
// hardly ever happens: no class has fewer than 2^84 cards.

// bingoClass is what a card adds: whole lines, and whether its yellow numbers are found.
type bingoClass struct {
	lines  int
	yellow bool
}

const bingoClasses = 2 * (bingoRows + 1)

// bingoClassAt is the class number i: two for each number of lines.
func bingoClassAt(i int) bingoClass { return bingoClass{i / 2, i%2 == 1} }

// bingoGroup are the covered cells that a row may have with the same effect.
type bingoGroup struct {
	line, yellow bool // yellow: all yellow cells of the row are covered
	count        int
	cells        []uint32
}

// bingoStep is where a card stands before a row.
type bingoStep struct {
	row, covered, lines int
	yellow              bool
}

const bingoSteps = bingoRows * (bingoCells + 1) * (bingoRows + 1) * 2

// index is under bingoSteps for every row of a card.
func (s bingoStep) index() int {
	i := 2 * ((s.row*(bingoCells+1)+s.covered)*(bingoRows+1) + s.lines)
	if s.yellow {
		i++
	}
	return i
}

// bingoCardTable draws the covered cells of a card of a class.
type bingoCardTable struct {
	groups [bingoRows][]bingoGroup
	total  [bingoClasses]*big.Int    // cards of each class, for one set of balls
	picks  [bingoClasses][]*weighted // over the row's groups, by the index of a step
}

func newBingoCardTable(b *Bingo) *bingoCardTable {
	t := &bingoCardTable{}
	for r := range bingoRows {
		t.groups[r] = bingoGroups(bingoRow(r), b.rows[r], b.yellow)
	}
	var fill [bingoCells + 1]*big.Int
	for m := range fill {
		fill[m] = new(big.Int).Mul(falling(bingoBalls, m), falling(bingoNumbers-bingoBalls, bingoCells-m))
	}
	for i := range t.total {
		t.picks[i] = make([]*weighted, bingoSteps)
		t.total[i] = t.count(bingoClassAt(i), bingoStep{yellow: true}, fill[:], make([]*big.Int, bingoSteps), t.picks[i])
	}
	return t
}

// bingoGroups groups the subsets of a row's cells.
func bingoGroups(row, line, yellow uint32) (groups []bingoGroup) {
	for cells := row; ; cells = (cells - 1) & row {
		whole, n := line != 0 && cells&line == line, bits.OnesCount32(cells)
		found := cells&yellow == row&yellow
		at := 0
		for at < len(groups) && (groups[at].line != whole || groups[at].yellow != found || groups[at].count != n) {
			at++
		}
		if at == len(groups) {
			groups = append(groups, bingoGroup{whole, found, n, nil})
		}
		groups[at].cells = append(groups[at].cells, cells)
		if cells == 0 {
			return groups
		}
	}
}

// count is the number of ways to finish a card from a step so that it is of the class,
// and remembers the shares of the next row's groups.
func (t *bingoCardTable) count(class bingoClass, at bingoStep, fill, known []*big.Int, picks []*weighted) *big.Int {
	if at.row == bingoRows {
		if at.lines == class.lines && at.yellow == class.yellow {
			return fill[at.covered]
		}
		return new(big.Int)
	}
	if n := known[at.index()]; n != nil {
		return n
	}
	sum := new(big.Int)
	weights := make([]*big.Int, len(t.groups[at.row]))
	for i, g := range t.groups[at.row] {
		weights[i] = new(big.Int)
		next := at.then(g)
		if next.lines <= class.lines && (next.yellow || !class.yellow) {
			weights[i].Mul(big.NewInt(int64(len(g.cells))), t.count(class, next, fill, known, picks))
		}
		sum.Add(sum, weights[i])
	}
	known[at.index()], picks[at.index()] = sum, newWeighted(weights)
	return sum
}

// then is the step after a row with the cells of a group.
func (s bingoStep) then(g bingoGroup) bingoStep {
	s.row++
	s.covered += g.count
	s.yellow = s.yellow && g.yellow
	if g.line {
		s.lines++
	}
	return s
}

// draw returns the covered cells of a card of the class.
func (t *bingoCardTable) draw(class int, rng *rand.Rand) (cells uint32) {
	at := bingoStep{yellow: true}
	for at.row < bingoRows {
		g := t.groups[at.row][t.picks[class][at.index()].pick(rng)]
		cells |= g.cells[below(rng, len(g.cells))]
		at = at.then(g)
	}
	return cells
}

// bingoOwed is what the cards before have: lines, and cards with a bonus, of which the
// first alone counts without BonusPerCard.
type bingoOwed struct{ card, lines, bonus int }

const bingoOwes = bingoCards * (bingoCards*bingoRows + 1) * (bingoCards + 1)

// index is under bingoOwes for every card.
func (o bingoOwed) index() int {
	return (o.card*(bingoCards*bingoRows+1)+o.lines)*(bingoCards+1) + o.bonus
}

// then is what the cards have with one more of a class.
func (b *Bingo) then(o bingoOwed, class int) bingoOwed {
	c := bingoClassAt(class)
	o.card++
	o.lines += c.lines
	if c.yellow && (o.bonus == 0 || b.settings.BonusPerCard) {
		o.bonus++
	}
	return o
}

// bingoMaker draws the classes of the five cards of a way.
type bingoMaker struct {
	way   BingoWay
	picks []*weighted // over the classes, by the index of what is owed
}

// newBingoMaker needs the card table. Up to eight lines go with any number of bonuses, so
// that every way has tickets.
func (b *Bingo) newBingoMaker(w BingoWay) bingoMaker {
	m := bingoMaker{w, make([]*weighted, bingoOwes)}
	m.count(b, bingoOwed{}, make([]*big.Int, bingoOwes))
	return m
}

// accepts reports whether cards with these lines and bonuses win in the way.
func (b *Bingo) accepts(w BingoWay, lines, bonus int) bool {
	none := w.Lines == 0 && b.settings.NineLinesLose && lines > bingoMost
	if !b.settings.BonusPerCard {
		bonus = min(bonus, 1)
	}
	return (lines == w.Lines || none) && bonus == w.BonusCards
}

// count is the number of ways to finish the cards in the maker's way, for one set of
// balls, and remembers the shares of the next card's classes.
func (m *bingoMaker) count(b *Bingo, at bingoOwed, known []*big.Int) *big.Int {
	lose := m.way.Lines == 0 && b.settings.NineLinesLose // with too many lines
	if at.bonus > m.way.BonusCards || at.lines > m.way.Lines && !lose {
		return new(big.Int)
	}
	if at.card == bingoCards {
		if b.accepts(m.way, at.lines, at.bonus) {
			return big.NewInt(1)
		}
		return new(big.Int)
	}
	if n := known[at.index()]; n != nil {
		return n
	}
	sum := new(big.Int)
	weights := make([]*big.Int, bingoClasses)
	for i := range weights {
		weights[i] = new(big.Int)
		if b.card.total[i].Sign() > 0 {
			weights[i].Mul(b.card.total[i], m.count(b, b.then(at, i), known))
		}
		sum.Add(sum, weights[i])
	}
	known[at.index()], m.picks[at.index()] = sum, newWeighted(weights)
	return sum
}

// prepare makes the ways and what draws them. The losing way comes first.
func (b *Bingo) prepare() error {
	b.card = newBingoCardTable(b)
	made := map[BingoWay]bingoMaker{}
	ways := append([]BingoWay{{Share: 1}}, b.settings.Ways...)
	for i, w := range ways {
		prize, err := b.settings.sum(w)
		switch {
		case err != nil:
			return fmt.Errorf("ways: number %d: %w", i, err)
		case i > 0 && prize == 0:
			return fmt.Errorf("ways: number %d wins nothing: losing tickets need no way", i)
		case i > 0 && !slices.Contains(b.prizes, prize):
			return fmt.Errorf("ways: number %d wins %d minor units: %w", i, prize, ErrPrize)
		case w.Share < 1 || w.Share > 1<<32:
			return fmt.Errorf("ways: number %d: share %d: want 1 to 2^32; leave a way out that is never won", i, w.Share)
		}
		for j, other := range ways[:i] {
			if other.Lines == w.Lines && other.BonusCards == w.BonusCards && other.Game2 == w.Game2 {
				return fmt.Errorf("ways: numbers %d and %d are the same way", j, i)
			}
		}
		key := BingoWay{Lines: w.Lines, BonusCards: w.BonusCards} // game 2 is drawn apart
		m, ok := made[key]
		if !ok {
			m = b.newBingoMaker(key)
			made[key] = m
		}
		m.way = w
		b.makers = append(b.makers, m)
		b.ways = append(b.ways, Way{Name: b.wayName(w), Prize: prize, Share: w.Share})
	}
	return nil
}

func (b *Bingo) wayName(w BingoWay) string {
	var parts []string
	if w.Lines > 0 {
		parts = append(parts, count(w.Lines, "line"))
	}
	if w.BonusCards > 0 {
		parts = append(parts, "bonus on "+count(w.BonusCards, "card"))
		if !b.settings.BonusPerCard {
			parts[len(parts)-1] = "bonus"
		}
	}
	if w.Game2 > 0 {
		parts = append(parts, fmt.Sprintf("game 2 for %d minor units", w.Game2))
	}
	if len(parts) == 0 {
		return "no win"
	}
	return strings.Join(parts, ", ")
}

// Ways implements Maker. Ways()[0] is the losing one.
func (b *Bingo) Ways() []Way { return b.ways }

// Draw implements Maker: every ticket of the way is equally likely, to within 2^-63 a
// choice. A ticket is its balls and cards in order and game 2; on which cards the lines
// and the bonus are, and the box of a lost game 2, is left to chance. It allocates
// nothing when dst has room.
func (b *Bingo) Draw(dst []byte, way int, rng *rand.Rand) []byte {
	var numbers [bingoNumbers]uint8
	for i := range numbers {
		numbers[i] = uint8(i + 1)
	}
	shuffle(rng, numbers[:], bingoBalls)
	var t bingoTicket
	copy(t.balls[:], numbers[:])
	balls, others := numbers[:bingoBalls], numbers[bingoBalls:]
	m := &b.makers[way]
	for again := true; again; _, _, again = t.sameCards() {
		owed := bingoOwed{}
		for c := range t.cards {
			class := m.picks[owed.index()].pick(rng)
			owed = b.then(owed, class)
			t.fill(c, b.card.draw(class, rng), balls, others, rng)
		}
		if !b.settings.DifferentCards {
			break
		}
	}
	b.drawGame2(&t, m.way, rng)
	return b.append(dst, &t)
}

// fill puts balls into the covered cells of a card and other numbers into the rest.
func (t *bingoTicket) fill(card int, covered uint32, balls, others []uint8, rng *rand.Rand) {
	m := bits.OnesCount32(covered)
	shuffle(rng, balls, m)
	shuffle(rng, others, bingoCells-m)
	ball, other := 0, 0
	for i := range t.cards[card] {
		if covered&(1<<i) != 0 {
			t.cards[card][i] = balls[ball]
			ball++
		} else {
			t.cards[card][i] = others[other]
			other++
		}
	}
}

// drawGame2 draws the symbols and the box of game 2.
func (b *Bingo) drawGame2(t *bingoTicket, w BingoWay, rng *rand.Rand) {
	n := len(b.settings.Game2Symbols)
	winning := below(rng, n*n*n)
	yours := winning
	t.box = w.Game2
	if w.Game2 == 0 {
		if yours = below(rng, n*n*n-1); yours >= winning {
			yours++
		}
		t.box = b.settings.Game2Amounts[below(rng, len(b.settings.Game2Amounts))]
	}
	for k := range 3 {
		t.winning[k], t.yours[k] = uint8(winning%n), uint8(yours%n)
		winning, yours = winning/n, yours/n
	}
}

// shuffle makes the first k items a uniform ordered choice out of all.
func shuffle[T any](rng *rand.Rand, items []T, k int) {
	for i := range min(k, len(items)-1) {
		j := i + below(rng, len(items)-i)
		items[i], items[j] = items[j], items[i]
	}
}
