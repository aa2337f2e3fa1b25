package rules

import (
	"fmt"
	"math/big"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"

	"grattoir/validate/money"
)

// How Draw makes units, and what it calls uniform.
//
// The way fixes which amounts are won. Drawn first, each uniformly and with no thought of
// the rest, are: the mix by its share, which lines win, the places of the kinds of
// elements, the order of each exchanger, the sums of the lines that are not won. So
// within a mix nothing of these tells a winner; what the way itself puts into a unit, its
// sums and stages, does, unless the mixes put the like into losers. Given them, every choice of numbers with which exactly
// these lines win, doubled where the way says so, is equally likely, and so is every
// losing or winning stage.
//
// The numbers: n places of numbers hold an ordered choice of n out of 1..Numbers. The
// exchangers cut a unit into epochs; a line is won when for some epoch the five cells
// that stand in it then are found before the epoch ends. For a choice of one epoch for
// each winning line the required cells have deadlines, and the choices of numbers that
// meet them can be counted: the product of the places left before each deadline, times
// the ordered choices for the other places. Draw picks the epochs by that count, puts the
// required cells, fills the rest, and accepts with one over the number of epoch choices
// that the result meets, so that none is counted twice (the method of Karp and Luby for
// unions). A unit where another line wins, or the doubling is another, is drawn again.
// Counts are whole numbers of 128 bits, so that nothing is rounded. With SymbolsStay the
// cells of a line are not known before, so units with exchangers are drawn blindly: just
// as uniform, but ways that are rare are refused.
//
// It ends: fits admits a mix only where units of the way exist, prepare refuses settings
// where they are hardly ever found, and places for which crossTries choices of numbers
// did not do are drawn again. In the worst of 48,000 units made to be hard (three lines,
// exchangers in the last cases) it took 6,118.

const (
	crossMostLines      = 3 // of a way
	crossMostExchangers = 3
	crossMostChoices    = (crossMostExchangers + 1) * (crossMostExchangers + 1) * (crossMostExchangers + 1)
	crossTries          = 1 << 16 // choices of numbers for given places
	crossTrials         = 16      // units of each way and mix that prepare draws
	crossTrialTries     = 1 << 13 // choices of numbers for each of them
	// crossBlocking is how many cells without a symbol keep all lines but the winning
	// ones from being whole, whichever these are: a test tries all.
	crossBlocking = 5
)

// prepare makes the ways. The losing one comes first.
func (c *Crossingo) prepare() error {
	c.stage = newCrossStageTable(c.settings)
	if len(c.settings.Mixes) == 0 {
		return fmt.Errorf("mixes: none")
	}
	for i, m := range c.settings.Mixes {
		if m.Golden < 0 || m.Golden > crossElements || m.Exchangers < 0 || m.Exchangers > crossMostExchangers || m.Extra < 0 || m.Extra > crossElements || m.Share > 1<<32 {
			return fmt.Errorf("mixes: number %d: want golden and extra of 0 to %d, exchangers of 0 to %d, a share of at most 2^32", i+1, crossElements, crossMostExchangers)
		}
	}
	c.settings.Ways = append([]CrossingoWay{{Share: 1}}, c.settings.Ways...)
	for i, w := range c.settings.Ways {
		prize, err := w.prize()
		if err == nil && i > 0 {
			err = c.checkWay(w, prize)
		}
		if err != nil {
			return fmt.Errorf("ways: number %d: %w", i, err)
		}
		shares := make([]*big.Int, len(c.settings.Mixes))
		for k, m := range c.settings.Mixes {
			shares[k] = new(big.Int)
			if m.Share == 0 || !m.fits(w, c.settings.Numbers) {
				continue
			}
			if !c.found(w, m) {
				return fmt.Errorf("ways: number %d: mixes: number %d: hardly any choice of numbers wins exactly this way: want fewer golden numbers, fewer numbers in the unit, or more in the game", i, k+1)
			}
			shares[k].SetUint64(m.Share)
		}
		mix := newWeighted(shares)
		if mix == nil {
			return fmt.Errorf("ways: number %d: no mix has room for it (golden numbers for its doubled lines, %d numbers for each line and one for each other golden number, %d fewer than the game has)", i, crossSide, crossBlocking)
		}
		c.mixes = append(c.mixes, mix)
		c.ways = append(c.ways, Way{Name: w.name(), Prize: prize, Share: w.Share})
	}
	return nil
}

// checkWay refuses a way that this game cannot have.
func (c *Crossingo) checkWay(w CrossingoWay, prize money.Amount) error {
	switch {
	case prize == 0:
		return fmt.Errorf("wins nothing: losing units need no way")
	case !slices.Contains(c.prizes, prize):
		return fmt.Errorf("wins %d minor units: %w", prize, ErrPrize)
	case len(w.Lines)+len(w.Doubled) > crossMostLines:
		return fmt.Errorf("%d lines: want at most %d", len(w.Lines)+len(w.Doubled), crossMostLines)
	case w.Share > 1<<32:
		return fmt.Errorf("share %d: want at most 2^32", w.Share)
	}
	for _, a := range slices.Concat(w.Lines, w.Doubled) {
		if !slices.Contains(c.settings.LineSums, a) {
			return fmt.Errorf("line of %d minor units: none of line_sums_minor", a)
		}
	}
	for _, a := range w.Extra {
		if !slices.Contains(c.settings.ExtraSums, a) {
			return fmt.Errorf("stage for %d minor units: none of extra_sums_minor", a)
		}
	}
	return nil
}

// prize is what the way wins.
func (w CrossingoWay) prize() (sum money.Amount, err error) {
	for _, a := range slices.Concat(w.Lines, w.Doubled, w.Doubled, w.Sums, w.Extra) {
		if a <= 0 || a > 1e15-1 {
			return 0, fmt.Errorf("amount of %d minor units: want more than 0 and 15 digits", a)
		}
		if sum, err = sum.Add(a); err != nil {
			return 0, err
		}
	}
	return sum, nil
}

func (w CrossingoWay) name() string {
	var parts []string
	for _, part := range []struct {
		what    string
		amounts []money.Amount
	}{{"line", w.Lines}, {"doubled line", w.Doubled}, {"sum", w.Sums}, {"EXTRA", w.Extra}} {
		for _, a := range part.amounts {
			parts = append(parts, fmt.Sprintf("%s of %d", part.what, a))
		}
	}
	if len(parts) == 0 {
		return "no win"
	}
	return strings.Join(parts, ", ") + " minor units"
}

// numbers is how many numbers a unit of the way has in the mix.
func (m CrossingoMix) numbers(w CrossingoWay) int {
	return crossElements - len(w.Sums) - len(w.Extra) - m.Extra - m.Exchangers
}

// fits says whether units of the way exist in the mix, whichever lines win. Put the
// exchangers first; then take the winning lines' cells, a golden number in each doubled
// one, and leave at least crossBlocking cells out. The other golden numbers must not stand
// in these lines.
func (m CrossingoMix) fits(w CrossingoWay, numbers int) bool {
	needed, n := crossSide*(len(w.Lines)+len(w.Doubled)), m.numbers(w)
	return m.Golden >= len(w.Doubled) && n >= needed+m.Golden-len(w.Doubled) && n >= m.Golden &&
		numbers >= n+crossBlocking
}

// found draws some units of a way in a mix, always the same ones, and says whether each
// was found at the first places drawn for it.
func (c *Crossingo) found(w CrossingoWay, mix CrossingoMix) bool {
	rng := rand.New(rand.NewPCG(0, 0))
	for range crossTrials {
		var u crossUnit
		want := c.drawLines(&u, w, rng)
		u.drawKinds(w, mix, c.settings.AllMove, rng)
		if !c.drawNumbers(&u, want, crossTrialTries, rng) {
			return false
		}
	}
	return true
}

// Ways implements Maker. Ways()[0] is the losing one.
func (c *Crossingo) Ways() []Way { return c.ways }

// Draw implements Maker.
func (c *Crossingo) Draw(dst []byte, way int, rng *rand.Rand) []byte {
	w := c.settings.Ways[way]
	mix := c.settings.Mixes[c.mixes[way].pick(rng)]
	var u crossUnit
	want := c.drawLines(&u, w, rng)
	u.drawKinds(w, mix, c.settings.AllMove, rng)
	for !c.drawNumbers(&u, want, crossTries, rng) {
		u.drawKinds(w, mix, c.settings.AllMove, rng)
	}
	c.drawStages(&u, w, rng)
	return c.append(dst, &u)
}

// drawLines says which lines win, and by how much their sum is multiplied, and draws the
// sums beside the lines.
func (c *Crossingo) drawLines(u *crossUnit, w CrossingoWay, rng *rand.Rand) (want [crossLines]int64) {
	for i := range u.sums {
		u.sums[i] = c.settings.LineSums[below(rng, len(c.settings.LineSums))]
	}
	place := func(amounts []money.Amount, among int, factor int64) {
		for _, a := range amounts {
			line := below(rng, among)
			for want[line] != 0 {
				line = below(rng, among)
			}
			want[line], u.sums[line] = factor, a
		}
	}
	place(w.Doubled, 2*crossSide, 2) // never a diagonal
	place(w.Lines, crossLines, 1)
	return want
}

// drawKinds puts the kinds of elements into the 25 places and draws what the exchangers do.
func (u *crossUnit) drawKinds(w CrossingoWay, mix CrossingoMix, all bool, rng *rand.Rand) {
	u.elements, u.extras = [crossElements]crossElement{}, len(w.Extra)+mix.Extra
	at := 0
	for _, part := range []struct {
		kind crossKind
		n    int
	}{{crossGolden, mix.Golden}, {crossExchanger, mix.Exchangers}, {crossExtra, u.extras}, {crossSum, len(w.Sums)}} {
		for range part.n {
			u.elements[at].kind = part.kind
			at++
		}
	}
	shuffle(rng, u.elements[:], crossElements)
	var sums [crossElements]money.Amount
	left := sums[:copy(sums[:], w.Sums)]
	shuffle(rng, left, len(left))
	for i := range u.elements {
		switch e := &u.elements[i]; e.kind {
		case crossSum:
			e.amount, left = left[0], left[1:]
		case crossExchanger:
			e.from = [crossSide]uint8{0, 1, 2, 3, 4}
			for n := 0; n == 0 || all && n < crossSide; n = e.moved() {
				shuffle(rng, e.from[:], crossSide)
			}
		}
	}
}

// moved is how many cells an exchanger moves.
func (e *crossElement) moved() (n int) {
	for row, from := range e.from {
		if int(from) != row {
			n++
		}
	}
	return n
}

// drawStages draws the winning stages and the others, in any order.
func (c *Crossingo) drawStages(u *crossUnit, w CrossingoWay, rng *rand.Rand) {
	for i := range u.extras {
		s := &u.stages[i]
		for k := range s.sums {
			s.sums[k] = c.settings.ExtraSums[below(rng, len(c.settings.ExtraSums))]
		}
		wins := -1
		if i < len(w.Extra) {
			wins = below(rng, crossWinning)
			s.sums[wins] = w.Extra[i]
		}
		c.stage.draw(s.cells[:c.settings.ExtraCells], wins, rng)
	}
	shuffle(rng, u.stages[:u.extras], u.extras)
}

// crossEpoch is the time between two exchangers.
type crossEpoch struct {
	lines [crossLines]uint32 // the cells that stand in each line
	until int                // number places before its end
}

// crossChoice is an epoch for each winning line: required cells with their deadlines.
type crossChoice struct {
	cells  [crossMostLines * crossSide]uint8 // the earliest deadline first
	until  [crossMostLines * crossSide]uint8
	needed int
	upTo   crossCount // cumulative count of choices of numbers
}

// crossPlan is what drawNumbers knows before it draws a number.
type crossPlan struct {
	numbers int // 1..numbers
	slots   [crossElements]uint8
	n       int // number places in slots
	epochs  [crossElements + 1]crossEpoch
	last    int // number of the last epoch
	first   int // first epoch in which a line can win
	lines   [crossMostLines]uint8
	k       int // winning lines
	choices [crossMostChoices]crossChoice
	m       int // choices in use
}

// crossCount is a whole number of 128 bits. The largest sum is crossMostChoices times
// 99^15, under 2^106.
type crossCount struct{ hi, lo uint64 }

func (n crossCount) times(k int) crossCount {
	hi, lo := bits.Mul64(n.lo, uint64(k))
	return crossCount{hi + n.hi*uint64(k), lo}
}

func (n crossCount) plus(m crossCount) crossCount {
	lo, carry := bits.Add64(n.lo, m.lo, 0)
	hi, _ := bits.Add64(n.hi, m.hi, carry)
	return crossCount{hi, lo}
}

func (n crossCount) less(m crossCount) bool {
	return n.hi < m.hi || n.hi == m.hi && n.lo < m.lo
}

// below draws a count under n > 0, uniformly: as many random bits as n has, again while
// they are not under n.
func (n crossCount) below(rng *rand.Rand) crossCount {
	mask := crossCount{0, 1<<bits.Len64(n.lo) - 1}
	if n.hi > 0 {
		mask = crossCount{1<<bits.Len64(n.hi) - 1, 1<<64 - 1}
	}
	for {
		r := crossCount{0, rng.Uint64() & mask.lo}
		if mask.hi > 0 {
			r.hi = rng.Uint64() & mask.hi
		}
		if r.less(n) {
			return r
		}
	}
}

// drawNumbers draws the grid and the numbers so that exactly the wanted lines win. It
// returns false when so many tries did not do.
func (c *Crossingo) drawNumbers(u *crossUnit, want [crossLines]int64, tries int, rng *rand.Rand) bool {
	var p crossPlan
	p.prepare(c, u, want)
	var values [99]uint8 // the first 25 stand in the grid
	for i := range p.numbers {
		values[i] = uint8(i + 1)
	}
	shuffle(rng, values[:p.numbers], p.numbers)
	copy(u.grid[:], values[:crossCells])
	var found [crossElements]uint8
	for range tries {
		p.draw(found[:p.n], rng)
		for i, slot := range p.slots[:p.n] {
			u.elements[slot].number = values[found[i]]
		}
		if c.play(u) == want && below(rng, p.met(found[:p.n])) == 0 {
			return true
		}
	}
	return false
}

// prepare finds the places of numbers, the epochs, and counts the choices.
func (p *crossPlan) prepare(c *Crossingo, u *crossUnit, want [crossLines]int64) {
	p.numbers = c.settings.Numbers
	b := newCrossBoard()
	for _, i := range c.order(u) {
		switch e := &u.elements[i]; e.kind {
		case crossNumber, crossGolden:
			p.slots[p.n] = i
			p.n++
		case crossExchanger:
			p.epochs[p.last] = crossEpoch{b.lines, p.n}
			p.last++
			b.exchange(int(i)%crossSide, e.from, 0)
		}
	}
	p.epochs[p.last] = crossEpoch{b.lines, p.n}
	if c.settings.LinesAtEnd {
		p.first = p.last
	}
	for line, factor := range want {
		if c.settings.SymbolsStay && p.last > 0 {
			break // which cells a line needs depends on what is found: numbers are drawn blindly
		}
		if factor != 0 {
			p.lines[p.k] = uint8(line)
			p.k++
		}
	}
	epochs := p.last - p.first + 1
	all := 1
	for range p.k {
		all *= epochs
	}
	var sum crossCount
	for n := range all {
		choice := &p.choices[p.m]
		count := choice.require(p, n, epochs)
		if count != (crossCount{}) {
			sum = sum.plus(count)
			choice.upTo = sum
			p.m++
		}
	}
}

// require fills in the cells that the n-th choice of epochs requires and counts the
// choices of numbers that meet it, up to a factor that all choices share.
func (ch *crossChoice) require(p *crossPlan, n, epochs int) crossCount {
	*ch = crossChoice{}
	var cells [crossMostExchangers + 1]uint32 // by epoch: due at its end
	for _, line := range p.lines[:p.k] {
		cells[n%epochs] |= p.epochs[p.first+n%epochs].lines[line]
		n /= epochs
	}
	count := crossCount{0, 1}
	seen := uint32(0)
	for e := range epochs {
		until := p.epochs[p.first+e].until
		for due := cells[e] &^ seen; due != 0; due &= due - 1 {
			count = count.times(max(0, until-ch.needed))
			ch.cells[ch.needed], ch.until[ch.needed] = uint8(bits.TrailingZeros32(due)), uint8(until)
			ch.needed++
		}
		seen |= cells[e]
	}
	for i := ch.needed; i < crossMostLines*crossSide; i++ { // the other places: P(numbers-needed, n-needed)
		count = count.times(p.numbers - i)
	}
	return count
}

// draw fills the number places with cells (0 to 24) and numbers outside the grid (25 and up).
func (p *crossPlan) draw(found []uint8, rng *rand.Rand) {
	at := 0
	if p.m > 1 {
		for r := p.choices[p.m-1].upTo.below(rng); !r.less(p.choices[at].upTo); {
			at++
		}
	}
	ch := &p.choices[at]
	const free = 0xff
	for i := range found {
		found[i] = free
	}
	var used [99]bool
	for i, cell := range ch.cells[:ch.needed] {
		r := below(rng, int(ch.until[i])-i)
		slot := 0
		for ; r > 0 || found[slot] != free; slot++ {
			if found[slot] == free {
				r--
			}
		}
		found[slot] = cell
		used[cell] = true
	}
	var rest [99]uint8
	n := 0
	for v := range p.numbers {
		if !used[v] {
			rest[n] = uint8(v)
			n++
		}
	}
	shuffle(rng, rest[:n], len(found)-ch.needed)
	next := 0
	for i := range found {
		if found[i] == free {
			found[i] = rest[next]
			next++
		}
	}
}

// met is how many choices of epochs the numbers meet: for each winning line the epochs
// at whose end it is whole.
func (p *crossPlan) met(found []uint8) int {
	met := 1
	for _, line := range p.lines[:p.k] {
		whole := 0
		symbols, at := uint32(0), 0
		for e := 0; e <= p.last; e++ {
			for ; at < p.epochs[e].until; at++ {
				if found[at] < crossCells {
					symbols |= 1 << found[at]
				}
			}
			if cells := p.epochs[e].lines[line]; e >= p.first && symbols&cells == cells {
				whole++
			}
		}
		met *= max(whole, 1)
	}
	return met
}

// crossStageTable draws stages: how often each winning symbol stands in it, by the number
// of stages with these counts.
type crossStageTable struct {
	others int      // kinds of symbols that win nothing
	counts [][3]int // of A, B, C
	none   *weighted
	first  *weighted // A wins, B and C do not
}

func newCrossStageTable(s CrossingoSettings) *crossStageTable {
	wins := func(n int) bool { return n == crossAlike || n > crossAlike && !s.FourExactly }
	t := &crossStageTable{others: s.ExtraSymbols - crossWinning}
	var none, first []*big.Int
	for a := range s.ExtraCells + 1 {
		for b := range s.ExtraCells + 1 - a {
			for c := range s.ExtraCells + 1 - a - b {
				rest := s.ExtraCells - a - b - c
				n := new(big.Int).Exp(big.NewInt(int64(t.others)), big.NewInt(int64(rest)), nil)
				left := s.ExtraCells
				for _, k := range []int{a, b, c} {
					n.Mul(n, new(big.Int).Binomial(int64(left), int64(k)))
					left -= k
				}
				t.counts = append(t.counts, [3]int{a, b, c})
				none, first = append(none, new(big.Int)), append(first, new(big.Int))
				switch {
				case wins(b) || wins(c):
				case wins(a):
					first[len(first)-1] = n
				default:
					none[len(none)-1] = n
				}
			}
		}
	}
	t.none, t.first = newWeighted(none), newWeighted(first)
	return t
}

// draw fills a stage in which one winning symbol wins, or none for -1.
func (t *crossStageTable) draw(cells []uint8, wins int, rng *rand.Rand) {
	table, turn := t.none, 0
	if wins >= 0 {
		table, turn = t.first, wins
	}
	at := 0
	for k, n := range t.counts[table.pick(rng)] {
		for range n {
			cells[at] = uint8((k + turn) % crossWinning)
			at++
		}
	}
	for ; at < len(cells); at++ {
		cells[at] = uint8(crossWinning + below(rng, t.others))
	}
	shuffle(rng, cells, len(cells))
}
