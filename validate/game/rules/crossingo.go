package rules

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"grattoir/validate/money"
)

// CrossingoSettings are the data of CROSSINGO. The sums are those that Draw prints:
// Evaluate takes any, since the regulation limits none (5.3). The regulation names no range of numbers,
// no list of sums and no size of the EXTRA stage: they are the game's programme. A switch
// left out is our reading of an article that can be read in two ways.
type CrossingoSettings struct {
	Numbers      int            `toml:"numbers"`          // the largest, 25 to 99
	LineSums     []money.Amount `toml:"line_sums_minor"`  // that may stand beside a line (5.3)
	ExtraSums    []money.Amount `toml:"extra_sums_minor"` // that may stand in a stage's table (5.11.2)
	ExtraCells   int            `toml:"extra_cells"`      // of a stage, 4 to 32
	ExtraSymbols int            `toml:"extra_symbols"`    // kinds in a stage, the 3 winning ones among them, 4 to 26

	// GoldenStays: the doubling stays with the row and column in which a golden number was
	// found. 5.7 doubles those "dans lesquelles se trouve ce numéro", and 5.8 moves the
	// numbers; for us the mark is the number's and moves with it.
	GoldenStays bool `toml:"golden_stays"`
	// LinesAtEnd: only lines that are whole after the fifth round win. 5.5 says "gagne
	// alors": for us a line is won when it becomes whole, once, and no exchanger takes
	// it back.
	LinesAtEnd bool `toml:"lines_at_end"`
	// GoldenCompounds: each golden number of a line doubles it again. 5.7 has one
	// multiplication by 2, so for us it is one however many there are.
	GoldenCompounds bool `toml:"golden_compounds"`
	// GoldenLate: a golden number found in a line, or brought into it, after the line was
	// won still doubles it. 5.7 sets no time for finding it, but for making the line; for
	// us a line is settled when it is won.
	GoldenLate bool `toml:"golden_late"`
	// ExchangersLast: in a round the numbers are found before the exchangers move anything.
	// One click reveals five elements (5.4), and 5.5 to 5.7 come before 5.8; nothing says
	// that their order is that of the articles, so for us it is the one on the screen,
	// from left to right.
	ExchangersLast bool `toml:"exchangers_last"`
	// AllMove: an exchanger that leaves a number in its place is excluded. 5.8 says that
	// the numbers of the column change places; for us it is enough that some do.
	AllMove bool `toml:"all_move"`
	// SymbolsStay: an exchanger moves only what is still a number; found cells keep their
	// place, and the numbers take theirs among themselves in the order of the element. 5.5
	// changes a found number into a symbol, and 5.8 moves numbers; for us the column moves
	// whole, as its five-fold order says.
	SymbolsStay bool `toml:"symbols_stay"`
	// FourExactly: five alike in a stage win nothing. 5.11.4 has "découvre 4 symboles",
	// which whoever finds five has done; for us four and more win once.
	FourExactly bool `toml:"four_exactly"`

	// Mixes are how units are composed besides what their way needs.
	Mixes []CrossingoMix `toml:"mixes"`
	Ways  []CrossingoWay `toml:"ways"`
}

// CrossingoMix is a composition of the 25 elements: what is not named here or by the way
// is plain numbers. A way with doubled lines takes mixes with as many golden numbers.
type CrossingoMix struct {
	Golden     int    `toml:"golden"`
	Exchangers int    `toml:"exchangers"` // 0 to 3
	Extra      int    `toml:"extra"`      // EXTRA stages that win nothing
	Share      uint64 `toml:"share"`
}

// CrossingoWay is a way to a prize: the sum of its parts.
type CrossingoWay struct {
	Lines   []money.Amount `toml:"lines_minor"`   // printed beside each whole line that is not doubled
	Doubled []money.Amount `toml:"doubled_minor"` // printed beside each doubled row or column
	Sums    []money.Amount `toml:"sums_minor"`    // found as such
	Extra   []money.Amount `toml:"extra_minor"`   // won in a stage
	Share   uint64         `toml:"share"`
}

const (
	crossSide     = 5
	crossCells    = crossSide * crossSide
	crossElements = 25 // 5 rounds of 5 cases
	crossLines    = 12 // rows from the top, columns from the left, diagonal from top left, from top right
	crossWinning  = 3  // kinds of winning symbols in a stage
	crossAlike    = 4
	crossMaxCells = 32
)

// crossKind is a kind of element (5.3).
type crossKind uint8

const (
	crossNumber crossKind = iota
	crossGolden
	crossSum
	crossExtra
	crossExchanger
)

type crossElement struct {
	kind   crossKind
	number uint8            // of a number or golden number
	from   [crossSide]uint8 // of an exchanger: the row, from 0, whose cell comes into each row
	amount money.Amount     // of a sum
}

// crossStage is an EXTRA stage. Symbols 0 to 2 are the winning ones.
type crossStage struct {
	sums  [crossWinning]money.Amount
	cells [crossMaxCells]uint8
}

// crossUnit is a parsed unit.
type crossUnit struct {
	grid     [crossCells]uint8
	sums     [crossLines]money.Amount
	elements [crossElements]crossElement
	stages   [crossElements]crossStage
	extras   int // stages in use, one for each EXTRA
}

// Crossingo are the rules of CROSSINGO (règlement particulier, articles 4 and 5).
//
// Five rounds of five elements are revealed, in each round from left to right, each in
// the case of its column (5.3, 5.4). A number changes its number in the grid into a
// symbol; a row, column or diagonal of five symbols wins the sum beside it (5.5). A sum
// is won (5.6). A golden number doubles the gain of its row and of its column, not of a
// diagonal (5.7). An exchanger moves the cells of its column (5.8). EXTRA opens a stage
// (5.9), where four winning symbols alike win their sum (5.11.4). All wins add up to one
// indivisible prize (5.12), which is one of the table (4).
//
// Text form, one line with no comma: GRID/SUMS/ELEMENTS/STAGES. GRID is 25 numbers of
// two digits run together, row by row. SUMS are 12 amounts in minor units joined by
// spaces: rows from the top, columns from the left, the diagonal from the top left, the
// one from the top right. ELEMENTS are 25 joined by spaces, round after round: "17" a
// number, "17*" a golden one, "=500" a sum, "X" EXTRA, "~31425" an exchanger, whose
// digits say for each row, from the top, from which row its cell comes. STAGES, one for
// each EXTRA in order, are joined by ";": three sums joined by spaces and one letter for
// each cell, A to C the winning symbols in the order of the sums: "500 200 100 ADBAAC".
type Crossingo struct {
	settings CrossingoSettings
	prizes   []money.Amount
	ways     []Way
	mixes    []*weighted // over settings.Mixes, parallel to ways
	stage    *crossStageTable
}

// NewCrossingo makes the rules. Prizes are the amounts of the prize table.
func NewCrossingo(s CrossingoSettings, prizes []money.Amount) (*Crossingo, error) {
	switch {
	case s.Numbers < crossCells || s.Numbers > 99:
		return nil, fmt.Errorf("numbers %d: want 25 to 99", s.Numbers)
	case s.ExtraCells < crossAlike || s.ExtraCells > crossMaxCells:
		return nil, fmt.Errorf("extra_cells %d: want %d to %d", s.ExtraCells, crossAlike, crossMaxCells)
	case s.ExtraSymbols <= crossWinning || s.ExtraSymbols > 26:
		return nil, fmt.Errorf("extra_symbols %d: want %d to 26", s.ExtraSymbols, crossWinning+1)
	case len(s.LineSums) == 0 || len(s.ExtraSums) == 0:
		return nil, errors.New("line_sums_minor and extra_sums_minor: none")
	case len(prizes) == 0:
		return nil, errors.New("the prize table is unknown (article 4)")
	}
	for _, a := range slices.Concat(s.LineSums, s.ExtraSums) {
		if a <= 0 || a > 1e15-1 {
			return nil, fmt.Errorf("sum of %d minor units: want 1 to 15 digits", a)
		}
	}
	c := &Crossingo{settings: s, prizes: slices.Clone(prizes)}
	if err := c.prepare(); err != nil {
		return nil, err
	}
	return c, nil
}

// Evaluate implements Rules. It allocates nothing for a losing unit.
func (c *Crossingo) Evaluate(symbols []byte) (Result, error) {
	var u crossUnit
	if err := c.parse(symbols, &u); err != nil {
		return Result{}, err
	}
	var out Result
	for line, factor := range c.play(&u) {
		if factor == 0 {
			continue
		}
		if err := out.addLine(line, factor, u.sums[line]); err != nil {
			return Result{}, err
		}
	}
	for i := range u.elements {
		if e := &u.elements[i]; e.kind == crossSum {
			w := Win{"5.6", e.amount, fmt.Sprintf("somme du tour %d, case %d", i/5+1, i%5+1), fmt.Sprintf("sum of round %d, case %d", i/5+1, i%5+1)}
			if err := out.add(w); err != nil {
				return Result{}, err
			}
		}
	}
	for i := range u.extras {
		if err := c.addStage(&out, i, &u.stages[i]); err != nil {
			return Result{}, err
		}
	}
	if out.Prize > 0 && !slices.Contains(c.prizes, out.Prize) {
		return Result{}, fmt.Errorf("wins of %d minor units in all (article 5.12): %w", out.Prize, ErrPrize)
	}
	return out, nil
}

func (r *Result) addLine(line int, factor int64, sum money.Amount) error {
	fr, en := crossLineName(line)
	article := "5.5"
	if factor > 1 {
		article, fr, en = "5.7", fr+" x "+strconv.FormatInt(factor, 10), en+" x "+strconv.FormatInt(factor, 10)
	}
	amount, err := sum.Times(factor)
	if err != nil {
		return fmt.Errorf("%s: %w", en, err)
	}
	return r.add(Win{article, amount, fr, en})
}

func crossLineName(line int) (fr, en string) {
	n := strconv.Itoa(line%crossSide + 1)
	switch line / crossSide {
	case 0:
		return "ligne " + n, "row " + n
	case 1:
		return "colonne " + n, "column " + n
	}
	return "diagonale " + n, "diagonal " + n
}

// addStage adds the winning symbols of an EXTRA stage.
func (c *Crossingo) addStage(out *Result, n int, s *crossStage) error {
	var found [26]int
	for _, symbol := range s.cells[:c.settings.ExtraCells] {
		found[symbol]++
	}
	for k := range crossWinning {
		if found[k] < crossAlike || found[k] > crossAlike && c.settings.FourExactly {
			continue
		}
		letter := string(rune('A' + k))
		w := Win{"5.11.4", s.sums[k], fmt.Sprintf("EXTRA %d, 4 symboles %s", n+1, letter), fmt.Sprintf("EXTRA %d, 4 symbols %s", n+1, letter)}
		if err := out.add(w); err != nil {
			return err
		}
	}
	return nil
}

// crossBoard is the grid while a unit is played. A cell keeps its bit while exchangers
// move it: bit i is the cell that stood at place i (5*row+column) at the beginning.
type crossBoard struct {
	place  [crossCells]uint8     // which cell stands at each place
	lines  [crossLines]uint32    // cells of each line
	symbol uint32                // cells changed into a symbol
	golden [crossElements]uint32 // cells changed by each golden number
	n      int                   // golden numbers so far
	found  [2 * crossSide]uint8  // golden numbers found in each row and column
}

func newCrossBoard() (b crossBoard) {
	for i := range b.place {
		b.place[i] = uint8(i)
	}
	b.align()
	return b
}

// align computes the lines' cells from where the cells stand.
func (b *crossBoard) align() {
	b.lines = [crossLines]uint32{}
	for i, cell := range b.place {
		row, column, bit := i/crossSide, i%crossSide, uint32(1)<<cell
		b.lines[row] |= bit
		b.lines[crossSide+column] |= bit
		if row == column {
			b.lines[10] |= bit
		}
		if row+column == crossSide-1 {
			b.lines[11] |= bit
		}
	}
}

// exchange moves the cells of a column (5.8), those in fixed not.
func (b *crossBoard) exchange(column int, from [crossSide]uint8, fixed uint32) {
	old := b.place
	row := 0 // the next one whose cell may move
	for _, source := range from {
		cell := old[crossSide*int(source)+column]
		if fixed&(1<<cell) != 0 {
			continue
		}
		for fixed&(1<<old[crossSide*row+column]) != 0 {
			row++
		}
		b.place[crossSide*row+column] = cell
		row++
	}
	b.align()
}

// play reveals the elements and returns by how much each line's sum is multiplied: 0 for
// a line that is not won.
func (c *Crossingo) play(u *crossUnit) (factor [crossLines]int64) {
	var cells [100]uint32 // with each number
	for i, n := range u.grid {
		cells[n] |= 1 << i
	}
	b := newCrossBoard()
	for _, i := range c.order(u) {
		e := &u.elements[i]
		switch e.kind {
		case crossNumber, crossGolden:
			changed := cells[e.number] &^ b.symbol
			if changed == 0 {
				continue
			}
			b.symbol |= changed
			if e.kind == crossGolden {
				b.find(changed)
			}
		case crossExchanger:
			fixed := uint32(0)
			if c.settings.SymbolsStay {
				fixed = b.symbol
			}
			b.exchange(int(i)%crossSide, e.from, fixed)
		default:
			continue
		}
		if !c.settings.LinesAtEnd {
			c.score(&b, &factor)
		}
	}
	if c.settings.LinesAtEnd {
		c.score(&b, &factor)
	}
	return factor
}

// order is the order in which the elements take effect.
func (c *Crossingo) order(u *crossUnit) (order [crossElements]uint8) {
	at := 0
	for first := 0; first < crossElements; first += crossSide {
		for pass := range 2 {
			for i := first; i < first+crossSide; i++ {
				last := c.settings.ExchangersLast && u.elements[i].kind == crossExchanger
				if last == (pass == 1) {
					order[at] = uint8(i)
					at++
				}
			}
		}
	}
	return order
}

// find notes a golden number: its cells, and the rows and columns in which they stand.
func (b *crossBoard) find(cells uint32) {
	b.golden[b.n] = cells
	b.n++
	for line := range b.found {
		if cells&b.lines[line] != 0 {
			b.found[line]++
		}
	}
}

// score wins the lines that are whole and not yet won.
func (c *Crossingo) score(b *crossBoard, factor *[crossLines]int64) {
	for line, cells := range b.lines {
		switch won := factor[line] != 0; {
		case !won && b.symbol&cells != cells, won && !c.settings.GoldenLate:
			continue
		case !won:
			factor[line] = 1
		}
		if line >= 2*crossSide {
			continue // 5.7: not the diagonals
		}
		golden := int(b.found[line])
		if !c.settings.GoldenStays {
			golden = 0
			for _, number := range b.golden[:b.n] {
				if number&cells != 0 {
					golden++
				}
			}
		}
		if golden > 1 && !c.settings.GoldenCompounds {
			golden = 1
		}
		factor[line] = max(factor[line], 1<<golden)
	}
}

// parse reads the text form. It keeps nothing of text.
func (c *Crossingo) parse(text []byte, u *crossUnit) error {
	var parts [4][]byte
	for i := range parts {
		part, rest, more := bytes.Cut(text, []byte("/"))
		if more != (i < len(parts)-1) {
			return fmt.Errorf("want grid/sums/elements/stages: %w", ErrForm)
		}
		parts[i], text = part, rest
	}
	if err := c.parseGrid(parts[0], u); err != nil {
		return fmt.Errorf("grid, %w", err)
	}
	for i := range u.sums {
		word, rest, more := bytes.Cut(parts[1], []byte(" "))
		amount, ok := minor(word)
		if more != (i < crossLines-1) || !ok {
			return fmt.Errorf("sums, number %d: want %d amounts in minor units joined by spaces: %w", i+1, crossLines, ErrForm)
		}
		u.sums[i], parts[1] = amount, rest
	}
	for i := range u.elements {
		word, rest, more := bytes.Cut(parts[2], []byte(" "))
		err := c.parseElement(word, u, i)
		if more != (i < crossElements-1) {
			err = fmt.Errorf("want %d elements joined by spaces: %w", crossElements, ErrForm)
		}
		if err != nil {
			return fmt.Errorf("round %d, case %d: %w", i/5+1, i%5+1, err)
		}
		parts[2] = rest
	}
	return c.parseStages(parts[3], u)
}

func (c *Crossingo) parseGrid(text []byte, u *crossUnit) error {
	if len(text) != 2*crossCells {
		return fmt.Errorf("want %d digits: %w", 2*crossCells, ErrForm)
	}
	for i := range u.grid {
		n, err := c.parseNumber(text[2*i : 2*i+2])
		if err != nil {
			return fmt.Errorf("number %d: %w", i+1, err)
		}
		u.grid[i] = n
	}
	return nil
}

func (c *Crossingo) parseNumber(text []byte) (uint8, error) {
	if len(text) != 2 || text[0]-'0' > 9 || text[1]-'0' > 9 {
		return 0, fmt.Errorf("%.6q: want two digits: %w", text, ErrForm)
	}
	n := 10*(text[0]-'0') + text[1] - '0'
	if n < 1 || int(n) > c.settings.Numbers {
		return 0, fmt.Errorf("%02d: %w (the game has 1 to %d)", n, ErrExcluded, c.settings.Numbers)
	}
	return n, nil
}

func (c *Crossingo) parseElement(word []byte, u *crossUnit, i int) error {
	e := &u.elements[i]
	switch {
	case len(word) == 0:
		return fmt.Errorf("no element: %w", ErrForm)
	case word[0] == 'X' && len(word) == 1:
		e.kind = crossExtra
		u.extras++
		return nil
	case word[0] == '=':
		amount, ok := minor(word[1:])
		if !ok {
			return fmt.Errorf("want = and an amount in minor units: %w", ErrForm)
		}
		e.kind, e.amount = crossSum, amount
		return nil
	case word[0] == '~':
		return e.parseExchanger(word[1:], c.settings.AllMove)
	case word[len(word)-1] == '*':
		e.kind = crossGolden
		word = word[:len(word)-1]
	}
	n, err := c.parseNumber(word)
	e.number = n
	return err
}

func (e *crossElement) parseExchanger(text []byte, all bool) error {
	e.kind = crossExchanger
	if len(text) != crossSide {
		return fmt.Errorf("want ~ and %d rows: %w", crossSide, ErrForm)
	}
	seen, moved := 0, 0
	for row, digit := range text {
		if digit < '1' || digit > '0'+crossSide || seen&(1<<(digit-'1')) != 0 {
			return fmt.Errorf("want ~ and the rows 1 to %d, each once: %w", crossSide, ErrForm)
		}
		seen |= 1 << (digit - '1')
		e.from[row] = digit - '1'
		if int(digit-'1') != row {
			moved++
		}
	}
	switch {
	case moved == 0:
		return fmt.Errorf("an exchanger that moves nothing: %w (article 5.8)", ErrExcluded)
	case all && moved < crossSide:
		return fmt.Errorf("an exchanger that leaves a number in its place: %w (article 5.8, all_move)", ErrExcluded)
	}
	return nil
}

func (c *Crossingo) parseStages(text []byte, u *crossUnit) error {
	stages := 0
	for more := len(text) > 0; more; stages++ {
		var stage []byte
		stage, text, more = bytes.Cut(text, []byte(";"))
		if stages == u.extras {
			return fmt.Errorf("more stages than the %d EXTRA: %w (article 5.9)", u.extras, ErrExcluded)
		}
		if err := c.parseStage(stage, &u.stages[stages]); err != nil {
			return fmt.Errorf("EXTRA %d: %w", stages+1, err)
		}
	}
	if stages < u.extras {
		return fmt.Errorf("%d stages for %d EXTRA: %w (article 5.9)", stages, u.extras, ErrExcluded)
	}
	return nil
}

func (c *Crossingo) parseStage(text []byte, s *crossStage) error {
	for k := range s.sums {
		word, rest, more := bytes.Cut(text, []byte(" "))
		amount, ok := minor(word)
		if !more || !ok {
			return fmt.Errorf("want %d sums in minor units: %w", crossWinning, ErrForm)
		}
		s.sums[k], text = amount, rest
	}
	if len(text) != c.settings.ExtraCells {
		return fmt.Errorf("%d cells: %w (the game has %d)", len(text), ErrExcluded, c.settings.ExtraCells)
	}
	for i, letter := range text {
		if letter < 'A' || int(letter-'A') >= c.settings.ExtraSymbols {
			return fmt.Errorf("cell %d: %q: %w (the game has %d symbols)", i+1, letter, ErrExcluded, c.settings.ExtraSymbols)
		}
		s.cells[i] = letter - 'A'
	}
	return nil
}

// append writes a unit in the form that parse reads.
func (c *Crossingo) append(dst []byte, u *crossUnit) []byte {
	dst = appendNumbers(dst, u.grid[:])
	for i, a := range u.sums {
		if i > 0 {
			dst = append(dst, ' ')
		}
		dst = strconv.AppendInt(dst, int64(a), 10)
	}
	for i := range u.elements {
		dst = append(dst, "/ "[min(i, 1)])
		dst = u.elements[i].append(dst)
	}
	for i := range u.extras {
		dst = append(dst, "/;"[min(i, 1)])
		for _, a := range u.stages[i].sums {
			dst = append(strconv.AppendInt(dst, int64(a), 10), ' ')
		}
		for _, symbol := range u.stages[i].cells[:c.settings.ExtraCells] {
			dst = append(dst, 'A'+symbol)
		}
	}
	if u.extras == 0 {
		dst = append(dst, '/')
	}
	return dst
}

func (e *crossElement) append(dst []byte) []byte {
	switch e.kind {
	case crossSum:
		return strconv.AppendInt(append(dst, '='), int64(e.amount), 10)
	case crossExtra:
		return append(dst, 'X')
	case crossExchanger:
		dst = append(dst, '~')
		for _, row := range e.from {
			dst = append(dst, '1'+row)
		}
		return dst
	}
	dst = append(dst, '0'+e.number/10, '0'+e.number%10)
	if e.kind == crossGolden {
		dst = append(dst, '*')
	}
	return dst
}
