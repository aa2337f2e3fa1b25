package rules

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"grattoir/validate/money"
)

// CashSettings are the data of Cash 20 000 (règlement particulier of 23 May 2006,
// JO no 129 of 4 June 2006). The official text on the web prints neither the table of
// combinations (4.4.1) nor the prize tables (3.1 to 3.3), so nothing of them is here:
// operations fill them in from the printed Journal officiel.
type CashSettings struct {
	// Symbols are the eleven of 4.1, in capital letters; Chance and Character name the
	// two that have rules of their own.
	Symbols   []string `toml:"symbols"`
	Chance    string   `toml:"chance"`
	Character string   `toml:"character"`
	// Stakes are those of article 2 in minor units; each combination has one amount
	// for each of them.
	Stakes       []money.Amount    `toml:"stakes_minor"`
	Combinations []CashCombination `toml:"combinations"`

	// Ordered takes a combination only in the printed order of its symbols. 4.4.1
	// speaks of a combinaison on a line, which has no order, so ours is false.
	Ordered bool `toml:"ordered"`
	// MoreCharacters opens the bonus for four Character symbols and more. 4.4.2 and 4.6
	// speak of three ("une séquence de 3 symboles"), so ours refuses more: such a unit
	// is none that the text foresees.
	MoreCharacters bool `toml:"more_characters"`
}

// CashCombination is a line of 4.4.1's table.
type CashCombination struct {
	Symbols []string       `toml:"symbols"`       // three
	Amounts []money.Amount `toml:"amounts_minor"` // one for each stake
}

// Cash are the rules of Cash 20 000 for one stake.
//
// A unit is three lines of three symbols (4.1). A line that is one of the listed
// combinations wins its amount, one combination a line, and the lines add (4.4.1).
// Chance completes nothing by itself: it counts only in combinations that list it
// (4.1). Three Character symbols anywhere open the bonus, whose three shelves each
// give an amount of the prize table (4.4.2, 4.6); a direct win and the bonus exclude
// each other (4.5). Every other unit loses (4.8).
//
// Text form: three lines and the bonus joined by "/", the symbols of a line joined by
// "-", the three amounts of the bonus in minor units joined by a space, empty without
// one: "TRAIN-CHANCE-TRAIN/AIGLE-TIPI-TRAIN/SERPENT-AIGLE-TIPI/".
type Cash struct {
	settings  CashSettings
	character uint8
	direct    map[[3]uint8]money.Amount
	prizes    []money.Amount
}

// ErrNoCombinations means that the settings hold no table of combinations.
var ErrNoCombinations = errors.New("the table of winning combinations is missing")

const cashSymbols = 11

// NewCash makes the rules for a stake. Prizes are the amounts of that stake's prize
// table. It returns ErrNoCombinations as long as the table of 4.4.1 is not filled in.
func NewCash(s CashSettings, stake money.Amount, prizes []money.Amount) (*Cash, error) {
	at := slices.Index(s.Stakes, stake)
	switch {
	case at < 0:
		return nil, fmt.Errorf("stake of %d minor units: stakes_minor (article 2) has %d", stake, s.Stakes)
	case len(s.Symbols) != cashSymbols:
		return nil, fmt.Errorf("symbols: %d, article 4.1 has %d", len(s.Symbols), cashSymbols)
	case len(s.Combinations) == 0:
		return nil, fmt.Errorf("combinations: %w: copy article 4.4.1 from the printed text", ErrNoCombinations)
	case len(prizes) == 0:
		return nil, errors.New("the prize table of this stake is unknown (article 3): no sum can be proven")
	}
	for i, name := range s.Symbols {
		if !capitals(name) || slices.Contains(s.Symbols[:i], name) {
			return nil, fmt.Errorf("symbols: %.20q: want %d different words of 1 to 20 letters A to Z", name, cashSymbols)
		}
	}
	character := slices.Index(s.Symbols, s.Character)
	if chance := slices.Index(s.Symbols, s.Chance); chance < 0 || character < 0 || chance == character {
		return nil, fmt.Errorf("chance %.20q and character %.20q: want two of the symbols", s.Chance, s.Character)
	}
	c := &Cash{settings: s, character: uint8(character), direct: map[[3]uint8]money.Amount{}, prizes: slices.Clone(prizes)}
	for n, row := range s.Combinations {
		line, err := c.combination(row, at)
		if err != nil {
			return nil, fmt.Errorf("combinations: number %d: %w", n+1, err)
		}
		c.direct[line] = row.Amounts[at]
	}
	return c, nil
}

// combination checks a row of the table and gives the key of its line.
func (c *Cash) combination(row CashCombination, stake int) (line [3]uint8, err error) {
	if len(row.Symbols) != len(line) || len(row.Amounts) != len(c.settings.Stakes) {
		return line, fmt.Errorf("%d symbols and %d amounts: want 3 and %d, one for each stake", len(row.Symbols), len(row.Amounts), len(c.settings.Stakes))
	}
	for i, name := range row.Symbols {
		n := slices.Index(c.settings.Symbols, name)
		switch {
		case n < 0:
			return line, fmt.Errorf("%.20q is none of the symbols", name)
		case uint8(n) == c.character:
			return line, fmt.Errorf("%s only opens the bonus (article 4.1)", name)
		}
		line[i] = uint8(n)
	}
	line = c.key(line)
	if _, ok := c.direct[line]; ok {
		return line, fmt.Errorf("%s stands twice: a line has one combination (article 4.4.1)", strings.Join(row.Symbols, "-"))
	}
	if row.Amounts[stake] <= 0 {
		return line, fmt.Errorf("amount %d: want more than 0", row.Amounts[stake])
	}
	return line, nil
}

// key is what a line is looked up by.
func (c *Cash) key(line [3]uint8) [3]uint8 {
	if !c.settings.Ordered {
		slices.Sort(line[:])
	}
	return line
}

// cashUnit is a parsed unit.
type cashUnit struct {
	lines   [3][3]uint8
	bonus   [3]money.Amount
	shelves int // 0 or 3
}

// Evaluate implements Rules.
func (c *Cash) Evaluate(symbols []byte) (Result, error) {
	unit, err := c.parse(symbols)
	if err != nil {
		return Result{}, err
	}
	var out Result
	characters := 0
	for i, line := range unit.lines {
		for _, s := range line {
			if s == c.character {
				characters++
			}
		}
		if amount, ok := c.direct[c.key(line)]; ok {
			words := strings.Join([]string{c.settings.Symbols[line[0]], c.settings.Symbols[line[1]], c.settings.Symbols[line[2]]}, "-")
			if err := out.add(Win{"4.4.1", amount, fmt.Sprintf("ligne %d, %s", i+1, words), fmt.Sprintf("line %d, %s", i+1, words)}); err != nil {
				return Result{}, err
			}
		}
	}
	if err := c.bonus(&out, unit, characters); err != nil {
		return Result{}, err
	}
	if out.Prize > 0 && !slices.Contains(c.prizes, out.Prize) {
		return Result{}, fmt.Errorf("wins of %d minor units in all (article 4.7): %w", out.Prize, ErrPrize)
	}
	return out, nil
}

// bonus adds the three shelves and refuses what 4.4.2, 4.5 and 4.6 exclude.
func (c *Cash) bonus(out *Result, unit cashUnit, characters int) error {
	opens := characters == 3 || characters > 3 && c.settings.MoreCharacters
	switch {
	case characters > 3 && !opens:
		return fmt.Errorf("%d symbols %s: %w (article 4.4.2: 3 open the bonus)", characters, c.settings.Character, ErrExcluded)
	case opens && len(out.Wins) > 0:
		return fmt.Errorf("a winning line beside a bonus: %w (article 4.5)", ErrExcluded)
	case opens != (unit.shelves > 0):
		return fmt.Errorf("%d symbols %s and %d shelves: %w (article 4.6: 3 symbols open 3 shelves)", characters, c.settings.Character, unit.shelves, ErrExcluded)
	}
	for i := range unit.shelves {
		amount := unit.bonus[i]
		if !slices.Contains(c.prizes, amount) {
			return fmt.Errorf("bonus, shelf %d: %d minor units: %w (article 4.6: amounts of the prize table only)", i+1, amount, ErrExcluded)
		}
		if err := out.add(Win{"4.6", amount, fmt.Sprintf("bonus, étagère %d", i+1), fmt.Sprintf("bonus, shelf %d", i+1)}); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cash) parse(text []byte) (unit cashUnit, err error) {
	for i := range unit.lines {
		line, rest, ok := bytes.Cut(text, []byte("/"))
		if !ok {
			return unit, fmt.Errorf("line %d: no / behind it: %w", i+1, ErrForm)
		}
		text = rest
		for k := range unit.lines[i] {
			word, rest, more := bytes.Cut(line, []byte("-"))
			if more != (k < 2) {
				return unit, fmt.Errorf("line %d: want 3 symbols joined by -: %w", i+1, ErrForm)
			}
			line = rest
			n := slices.IndexFunc(c.settings.Symbols, func(name string) bool { return name == string(word) })
			if n < 0 {
				return unit, fmt.Errorf("line %d, symbol %d: %.20q is none of the eleven: %w (article 4.1)", i+1, k+1, word, ErrExcluded)
			}
			unit.lines[i][k] = uint8(n)
		}
	}
	if len(text) == 0 {
		return unit, nil
	}
	for unit.shelves = range unit.bonus {
		word, rest, more := bytes.Cut(text, []byte(" "))
		amount, ok := minor(word)
		if more != (unit.shelves < 2) || !ok {
			return unit, fmt.Errorf("bonus: want 3 amounts in minor units joined by spaces: %w", ErrForm)
		}
		unit.bonus[unit.shelves], text = amount, rest
	}
	unit.shelves = len(unit.bonus)
	return unit, nil
}

// append writes the unit in the form that parse reads.
func (c *Cash) append(dst []byte, unit cashUnit) []byte {
	for _, line := range unit.lines {
		for k, s := range line {
			if k > 0 {
				dst = append(dst, '-')
			}
			dst = append(dst, c.settings.Symbols[s]...)
		}
		dst = append(dst, '/')
	}
	for i := range unit.shelves {
		if i > 0 {
			dst = append(dst, ' ')
		}
		dst = fmt.Appendf(dst, "%d", unit.bonus[i])
	}
	return dst
}

// capitals reports whether text is a word of 1 to 20 letters A to Z.
func capitals(text string) bool {
	for _, r := range text {
		if r < 'A' || r > 'Z' {
			return false
		}
	}
	return len(text) >= 1 && len(text) <= 20
}

// minor reads an amount of 1 to 15 digits, more than 0, with no leading zero.
func minor(text []byte) (money.Amount, bool) {
	if len(text) < 1 || len(text) > 15 || text[0] == '0' {
		return 0, false
	}
	n := money.Amount(0)
	for _, d := range text {
		if d < '0' || d > '9' {
			return 0, false
		}
		n = n*10 + money.Amount(d-'0')
	}
	return n, true
}
