package rules

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"grattoir/validate/money"
)

// BingoSettings are the data of Bingo. The amounts are the regulation's; the symbols of
// game 2 and the shares of the ways to a prize are the printer's. A switch left out is
// our reading of an article that can be read in two ways.
type BingoSettings struct {
	LinePrizes   []money.Amount `toml:"line_prizes_minor"`   // 4.2.7: for 1 line, 2 lines, ... 8 lines
	Bonus        money.Amount   `toml:"bonus_minor"`         // 4.2.11
	Game2Amounts []money.Amount `toml:"game2_amounts_minor"` // 4.3.2: what the box "Gain" may hold
	// Game2Symbols are the transcriptions in capital letters. 4.3.2 has symbols with
	// their transcription, but lists none.
	Game2Symbols []string `toml:"game2_symbols"`

	// StarBreaksMiddleLine: the middle line never counts. 4.2.7 wants whole lines of
	// numbers, and 4.2.2 puts a star among the cells of the middle one; it also says that
	// the star is scratched with the numbers (4.2.4) and never has a ball of its own. In
	// every bingo the middle cell is free, so for us the line is whole with its four
	// numbers.
	StarBreaksMiddleLine bool `toml:"star_breaks_middle_line"`
	// YellowAtCorners: the four yellow cells touch the star's corners. 4.2.2 says that
	// they surround it ("entourent"); for us they touch its sides.
	YellowAtCorners bool `toml:"yellow_at_corners"`
	// BonusPerCard: each card whose yellow numbers are found wins the bonus. 4.2.11
	// speaks of one card and of "le montant de 20 €", so for us a ticket wins it once.
	BonusPerCard bool `toml:"bonus_per_card"`
	// RepeatedBalls: a number may stand on two balls. 4.2.3 has "vingt numéros" as 4.2.2
	// has twenty-four on a card; for us both are different ones. Draw makes different
	// balls all the same, so that it is not uniform over all tickets then.
	RepeatedBalls bool `toml:"repeated_balls"`
	// DifferentCards: two cards with the same numbers in the same cells are excluded. 4.2.2
	// has "cinq cartes distinctes, numérotées de 1 à 5": for us five separate ones.
	DifferentCards bool `toml:"different_cards"`
	// NineLinesLose: more than eight lines lose game 1, as 4.2.9 reads to the letter; the
	// bonus and game 2 still win. No player would accept that, and no such ticket can be
	// meant: for us it is excluded.
	NineLinesLose bool `toml:"nine_lines_lose"`

	// Ways share a prize's tickets out among the ways to win it; empty for every way
	// with the share 1 (BingoWays).
	Ways []BingoWay `toml:"ways"`
}

// BingoWay is a way to a prize: the sum of its parts.
type BingoWay struct {
	Lines      int          `toml:"lines"`       // 0 to 8
	BonusCards int          `toml:"bonus_cards"` // 0 or 1; the number of cards where each one wins
	Game2      money.Amount `toml:"game2_minor"` // 0: game 2 is lost
	Share      uint64       `toml:"share"`
}

const (
	bingoBalls   = 20
	bingoCards   = 5
	bingoCells   = 24 // numbers of a card
	bingoNumbers = 75
	bingoRows    = 5
	bingoMost    = 8 // lines that have a prize

	bingoMostAmounts = 64                // in the box of game 2
	bingoMostMinor   = 1_000_000_000_000 // of one amount: all parts together fit 15 digits
)

// bingoRow are the cells of each row of a card, as bits of its numbers in reading order;
// the star stands in the middle of the third row and has no bit.
func bingoRow(row int) uint32 {
	switch {
	case row < 2:
		return 0x1f << (5 * row)
	case row == 2:
		return 0xf << 10
	}
	return 0x1f << (14 + 5*(row-3))
}

// Bingo are the rules of Bingo (règlement particulier of the scratch game, articles 3
// and 4). A card's twenty-five cells (4.2.2) are taken as five rows of five with the star
// in the middle, as every bingo card has them; the text does not say so.
//
// Game 1 (4.2.5 to 4.2.9): the twenty balls cover their numbers on five cards; the
// whole horizontal lines of all cards are counted together, and the number of lines has
// one prize, not one for each line. Bonus (4.2.10 to 4.2.12): the four yellow numbers of
// a card are all among the balls. Game 2 (4.3): the three symbols are the winning ones in
// the same order; it wins the amount of its box. The wins add up to one indivisible
// prize (4.4), which is one of the table (3).
//
// Text form, one line with no comma: the balls, five cards, the winning symbols, the
// player's symbols and the box of game 2, joined by "/". A number is two digits, and the
// numbers of a part run together: 20 balls, 24 numbers of a card in reading order
// without the star. Symbols are joined by "-", the box is in minor units:
// "0117...75/(48 digits)/(48)/(48)/(48)/(48)/CLE-FER-OR/CLE-OR-FER/2000". Text that is
// accepted is the only one for its ticket.
type Bingo struct {
	settings BingoSettings
	rows     [bingoRows]uint32 // rows that can be lines, 0 for one that cannot
	yellow   uint32
	prizes   []money.Amount
	ways     []Way
	makers   []bingoMaker // parallel to ways
	card     *bingoCardTable
}

// bingoTicket is a parsed ticket. Symbols are indexes into Game2Symbols.
type bingoTicket struct {
	balls          [bingoBalls]uint8
	cards          [bingoCards][bingoCells]uint8
	winning, yours [3]uint8
	box            money.Amount
}

// NewBingo makes the rules. Prizes are the amounts of the prize table. It keeps copies
// of what it is given. Errors name the setting and what to write; ErrPrize is an amount,
// or the sum of a way, that the table lacks.
func NewBingo(s BingoSettings, prizes []money.Amount) (*Bingo, error) {
	if len(prizes) == 0 || slices.Contains(prizes, 0) {
		return nil, errors.New("the prize table is unknown, or has a prize of 0 (article 3)")
	}
	if err := s.validate(prizes); err != nil {
		return nil, err
	}
	s.LinePrizes, s.Game2Amounts = slices.Clone(s.LinePrizes), slices.Clone(s.Game2Amounts)
	s.Game2Symbols, s.Ways = slices.Clone(s.Game2Symbols), slices.Clone(s.Ways)
	if len(s.Ways) == 0 {
		s.Ways = BingoWays(s, prizes)
	}
	b := &Bingo{settings: s, prizes: slices.Clone(prizes), yellow: 1<<7 | 1<<11 | 1<<12 | 1<<16}
	for r := range b.rows {
		b.rows[r] = bingoRow(r)
	}
	if s.StarBreaksMiddleLine {
		b.rows[2] = 0
	}
	if s.YellowAtCorners {
		b.yellow = 1<<6 | 1<<8 | 1<<15 | 1<<17
	}
	if err := b.prepare(); err != nil {
		return nil, err
	}
	return b, nil
}

// validate checks the settings alone and against the prize table.
func (s BingoSettings) validate(prizes []money.Amount) error {
	if len(s.LinePrizes) != bingoMost {
		return fmt.Errorf("line_prizes_minor: %d amounts, article 4.2.7 has %d", len(s.LinePrizes), bingoMost)
	}
	if n := len(s.Game2Symbols); n < 2 || n > 64 {
		return fmt.Errorf("game2_symbols: %d, want 2 to 64", n)
	}
	if n := len(s.Game2Amounts); n == 0 || n > bingoMostAmounts {
		return fmt.Errorf("game2_amounts_minor: %d, want 1 to %d: article 4.3.2 lists them", n, bingoMostAmounts)
	}
	for _, setting := range []struct {
		name    string
		amounts []money.Amount
	}{{"line_prizes_minor", s.LinePrizes}, {"bonus_minor", []money.Amount{s.Bonus}}, {"game2_amounts_minor", s.Game2Amounts}} {
		for i, a := range setting.amounts {
			switch {
			case a <= 0 || a > bingoMostMinor:
				return fmt.Errorf("%s: %d: want 1 to %d minor units", setting.name, a, money.Amount(bingoMostMinor))
			case slices.Contains(setting.amounts[:i], a):
				return fmt.Errorf("%s: %d stands twice", setting.name, a)
			case !slices.Contains(prizes, a):
				return fmt.Errorf("%s: %d minor units: %w (article 3), though a ticket can win just that", setting.name, a, ErrPrize)
			}
		}
	}
	for i, name := range s.Game2Symbols {
		if !capitals(name) || slices.Contains(s.Game2Symbols[:i], name) {
			return fmt.Errorf("game2_symbols: %.20q: want different words of 1 to 20 letters A to Z", name)
		}
	}
	return nil
}

// BingoWays lists every way whose sum is one of the prizes, each with the share 1, by
// lines, bonuses and the box of game 2. A file of settings starts from it.
func BingoWays(s BingoSettings, prizes []money.Amount) []BingoWay {
	cards := 1
	if s.BonusPerCard {
		cards = bingoCards
	}
	var out []BingoWay
	for lines := range bingoMost + 1 {
		for bonus := range cards + 1 {
			for _, game2 := range append([]money.Amount{0}, s.Game2Amounts...) {
				w := BingoWay{lines, bonus, game2, 1}
				if sum, err := s.sum(w); err == nil && sum > 0 && slices.Contains(prizes, sum) {
					out = append(out, w)
				}
			}
		}
	}
	return out
}

// sum is what a way wins, checked.
func (s BingoSettings) sum(w BingoWay) (sum money.Amount, err error) {
	switch {
	case w.Lines < 0 || w.Lines > len(s.LinePrizes):
		return 0, fmt.Errorf("lines %d: want 0 to %d", w.Lines, len(s.LinePrizes))
	case w.BonusCards < 0 || w.BonusCards > bingoCards || w.BonusCards > 1 && !s.BonusPerCard:
		return 0, fmt.Errorf("bonus_cards %d: want 0 or 1 (0 to %d with bonus_per_card)", w.BonusCards, bingoCards)
	case w.Game2 != 0 && !slices.Contains(s.Game2Amounts, w.Game2):
		return 0, fmt.Errorf("game2_minor %d: article 4.3.2 lists %d", w.Game2, s.Game2Amounts)
	}
	if w.Lines > 0 {
		sum = s.LinePrizes[w.Lines-1]
	}
	bonus, err := s.Bonus.Times(int64(w.BonusCards))
	if err == nil {
		sum, err = sum.Add(bonus)
	}
	if err == nil {
		sum, err = sum.Add(w.Game2)
	}
	return sum, err
}

// Evaluate implements Rules. It allocates nothing for a losing ticket.
func (b *Bingo) Evaluate(symbols []byte) (Result, error) {
	var t bingoTicket
	if err := b.parse(symbols, &t); err != nil {
		return Result{}, err
	}
	balls, err := b.balls(&t)
	if err != nil {
		return Result{}, err
	}
	if b.settings.DifferentCards {
		if one, two, same := t.sameCards(); same {
			return Result{}, fmt.Errorf("cards %d and %d are the same: %w (article 4.2.2, different_cards)", one, two, ErrExcluded)
		}
	}
	lines := 0
	var bonus uint8 // bit of each card
	for c := range t.cards {
		covered, err := t.covered(c, balls)
		if err != nil {
			return Result{}, err
		}
		lines += b.lines(covered)
		if covered&b.yellow == b.yellow {
			bonus |= 1 << c
		}
	}
	if lines > bingoMost && !b.settings.NineLinesLose {
		return Result{}, fmt.Errorf("game 1: %d lines: %w (article 4.2.7: 1 to %d)", lines, ErrExcluded, bingoMost)
	}
	var out Result
	if err := b.add(&out, lines, bonus, &t); err != nil {
		return Result{}, err
	}
	if out.Prize > 0 && !slices.Contains(b.prizes, out.Prize) {
		return Result{}, fmt.Errorf("wins of %d minor units in all (article 4.4): %w", out.Prize, ErrPrize)
	}
	return out, nil
}

// add adds the wins in the regulation's order.
func (b *Bingo) add(out *Result, lines int, bonus uint8, t *bingoTicket) error {
	if lines >= 1 && lines <= bingoMost {
		fr := "Jeu 1, " + count(lines, "ligne")
		en := "Game 1, " + count(lines, "line")
		if err := out.add(Win{"4.2.7", b.settings.LinePrizes[lines-1], fr, en}); err != nil {
			return err
		}
	}
	for cards := bonus; cards != 0; {
		named := cards
		if b.settings.BonusPerCard {
			named = cards & -cards
		}
		fr, en := bingoCardWords(named)
		if err := out.add(Win{"4.2.11", b.settings.Bonus, fr, en}); err != nil {
			return err
		}
		cards &^= named
	}
	if t.winning == t.yours {
		return out.add(Win{"4.3.4", t.box, "Jeu 2", "Game 2"})
	}
	return nil
}

func bingoCardWords(cards uint8) (fr, en string) {
	var names []string
	for c := range bingoCards {
		if cards&(1<<c) != 0 {
			names = append(names, strconv.Itoa(c+1))
		}
	}
	if len(names) == 1 {
		return "Bonus, carte " + names[0], "Bonus, card " + names[0]
	}
	return "Bonus, cartes " + strings.Join(names, ", "), "Bonus, cards " + strings.Join(names, ", ")
}

// bingoSet holds numbers 1 to 75.
type bingoSet [2]uint64

func (s *bingoSet) has(n uint8) bool { return s[n/64]&(1<<(n%64)) != 0 }
func (s *bingoSet) add(n uint8)      { s[n/64] |= 1 << (n % 64) }

// sameCards finds two cards that are the same in every cell, counted from 1.
func (t *bingoTicket) sameCards() (one, two int, same bool) {
	for i := range t.cards {
		for k := range i {
			if t.cards[i] == t.cards[k] {
				return k + 1, i + 1, true
			}
		}
	}
	return 0, 0, false
}

func (b *Bingo) balls(t *bingoTicket) (set bingoSet, err error) {
	for i, n := range t.balls {
		if set.has(n) && !b.settings.RepeatedBalls {
			return set, fmt.Errorf("balls, number %d: %02d stands twice: %w (article 4.2.3, repeated_balls)", i+1, n, ErrExcluded)
		}
		set.add(n)
	}
	return set, nil
}

// covered are the cells of a card whose numbers are on the balls.
func (t *bingoTicket) covered(card int, balls bingoSet) (cells uint32, err error) {
	var set bingoSet
	for i, n := range t.cards[card] {
		if set.has(n) {
			return 0, fmt.Errorf("card %d, number %d: %02d stands twice: %w (article 4.2.2)", card+1, i+1, n, ErrExcluded)
		}
		set.add(n)
		if balls.has(n) {
			cells |= 1 << i
		}
	}
	return cells, nil
}

// lines counts the whole lines of a card.
func (b *Bingo) lines(covered uint32) (n int) {
	for _, row := range b.rows {
		if row != 0 && covered&row == row {
			n++
		}
	}
	return n
}

// parse reads the text form. It keeps nothing of text.
func (b *Bingo) parse(text []byte, t *bingoTicket) error {
	text, err := bingoPart(text, t.balls[:], "4.2.3")
	if err != nil {
		return fmt.Errorf("balls, %w", err)
	}
	for c := range t.cards {
		if text, err = bingoPart(text, t.cards[c][:], "4.2.2"); err != nil {
			return fmt.Errorf("card %d, %w", c+1, err)
		}
	}
	for i, to := range []*[3]uint8{&t.winning, &t.yours} {
		word, rest, ok := bytes.Cut(text, []byte("/"))
		if !ok {
			return fmt.Errorf("game 2: no / behind its symbols: %w", ErrForm)
		}
		text = rest
		if err := b.parseSymbols(word, to); err != nil {
			return fmt.Errorf("game 2, %s: %w", [2]string{"winning combination", "your combination"}[i], err)
		}
	}
	var ok bool
	if t.box, ok = minor(text); !ok {
		return fmt.Errorf("game 2, box: want an amount in minor units: %w", ErrForm)
	}
	if !slices.Contains(b.settings.Game2Amounts, t.box) {
		return fmt.Errorf("game 2, box: %d minor units: %w (article 4.3.2)", t.box, ErrExcluded)
	}
	return nil
}

// bingoPart reads numbers of two digits up to the next "/" and returns what follows it.
// The article is the one that limits the numbers.
func bingoPart(text []byte, to []uint8, article string) ([]byte, error) {
	if len(text) <= 2*len(to) || text[2*len(to)] != '/' {
		return nil, fmt.Errorf("want %d digits and a /: %w", 2*len(to), ErrForm)
	}
	for i := range to {
		tens, units := text[2*i]-'0', text[2*i+1]-'0'
		if tens > 9 || units > 9 {
			return nil, fmt.Errorf("number %d: want two digits: %w", i+1, ErrForm)
		}
		n := 10*tens + units
		if n < 1 || n > bingoNumbers {
			return nil, fmt.Errorf("number %d: %02d: %w (article %s: 1 to %d)", i+1, n, ErrExcluded, article, bingoNumbers)
		}
		to[i] = n
	}
	return text[2*len(to)+1:], nil
}

func (b *Bingo) parseSymbols(text []byte, to *[3]uint8) error {
	for k := range to {
		word, rest, more := bytes.Cut(text, []byte("-"))
		if more != (k < 2) {
			return fmt.Errorf("want 3 symbols joined by -: %w", ErrForm)
		}
		text = rest
		n := -1
		for i, name := range b.settings.Game2Symbols {
			if name == string(word) {
				n = i
				break
			}
		}
		switch {
		case n < 0 && !capitals(string(word)):
			return fmt.Errorf("symbol %d: want a word of letters A to Z: %w", k+1, ErrForm)
		case n < 0:
			return fmt.Errorf("symbol %d: %.20q is none of game2_symbols: %w (article 4.3.2)", k+1, word, ErrExcluded)
		}
		to[k] = uint8(n)
	}
	return nil
}

// append writes a ticket in the form that parse reads.
func (b *Bingo) append(dst []byte, t *bingoTicket) []byte {
	dst = appendNumbers(dst, t.balls[:])
	for c := range t.cards {
		dst = appendNumbers(dst, t.cards[c][:])
	}
	for _, combination := range [2][3]uint8{t.winning, t.yours} {
		for k, s := range combination {
			if k > 0 {
				dst = append(dst, '-')
			}
			dst = append(dst, b.settings.Game2Symbols[s]...)
		}
		dst = append(dst, '/')
	}
	return strconv.AppendInt(dst, int64(t.box), 10)
}

func appendNumbers(dst []byte, numbers []uint8) []byte {
	for _, n := range numbers {
		dst = append(dst, '0'+n/10, '0'+n%10)
	}
	return append(dst, '/')
}
