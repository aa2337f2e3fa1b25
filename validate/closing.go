package validate

import (
	"fmt"
	"strconv"
	"time"

	"grattoir/validate/money"
)

// ClosingKind is the period that a closing ends.
type ClosingKind string

const (
	ShiftClosing ClosingKind = "shift"
	DayClosing   ClosingKind = "day"
	MonthClosing ClosingKind = "month"
	YearClosing  ClosingKind = "year"
)

// ClosingKinds lists the kinds; each needs the ones before it closed first.
func ClosingKinds() []ClosingKind {
	return []ClosingKind{ShiftClosing, DayClosing, MonthClosing, YearClosing}
}

// Sum is how many, and how much together.
type Sum struct {
	Count int64        `json:"count"`
	Money money.Amount `json:"minor"`
}

// Add adds o, or returns money.ErrOverflow.
func (s Sum) Add(o Sum) (Sum, error) {
	m, err := s.Money.Add(o.Money)
	return Sum{s.Count + o.Count, m}, err
}

// sizeBounds are the upper ends of the size classes of prizes, in minor units, each
// included: in euros 10, 50, 300 (more of several prizes in one request identify the
// winner) and 2 000 (identified from there on). Entries of the ledger hold sums by these
// classes, so they never change.
var sizeBounds = [...]money.Amount{1_000, 5_000, 30_000, 200_000}

// SizeClasses is the number of size classes; the last one has no upper end.
const SizeClasses = len(sizeBounds) + 1

// SizeClass is the class of a prize, from 0.
func SizeClass(prize money.Amount) int {
	for i, bound := range sizeBounds {
		if prize <= bound {
			return i
		}
	}
	return len(sizeBounds)
}

// SizeBound is the upper end of a class, included; 0 for the last, which has none.
func SizeBound(class int) money.Amount {
	if class < len(sizeBounds) {
		return sizeBounds[class]
	}
	return 0
}

// Totals are what a period comes to in one currency.
type Totals struct {
	Currency  string           `json:"currency"`
	Paid      Sum              `json:"paid"`
	Requested Sum              `json:"requested"` // reversals asked for
	Reversed  Sum              `json:"reversed"`  // reversals that central accepted
	Sizes     [SizeClasses]Sum `json:"sizes"`     // of Paid, by SizeClass
	// Of misprints. They came later than the others, and are absent where there were none.
	Refunded  Sum   `json:"refunded,omitzero"`   // the sale price was given back; its money counts those whose price is known
	Exchanged int64 `json:"exchanged,omitempty"` // another ticket was given
}

// GameTotals are what a period comes to for one game.
type GameTotals struct {
	Game          string             `json:"game"` // the game's name for people; OtherGames for what a long list leaves out
	Currency      string             `json:"currency"`
	Demonstration bool               `json:"demonstration"` // of blocks that are worth nothing
	Paid          Sum                `json:"paid"`
	Requested     Sum                `json:"requested"`
	Reversed      Sum                `json:"reversed"`
	Reprints      int64              `json:"reprints"`
	AutoCopies    int64              `json:"auto_copies"`
	Sizes         [SizeClasses]int64 `json:"sizes"` // counts of Paid, by SizeClass
	Refunded      Sum                `json:"refunded,omitzero"`
	Exchanged     int64              `json:"exchanged,omitempty"`
}

// OtherGames is the name of the games that did not fit the list of a closing.
const OtherGames = "+"

// Perpetual is everything since the terminal's first entry; it is never reset.
type Perpetual struct {
	Currency string `json:"currency"`
	Paid     Sum    `json:"paid"`
	Reversed Sum    `json:"reversed"`
}

// ClosingFacts are what a closing says of its period: the content of its entry.
type ClosingFacts struct {
	Kind     ClosingKind `json:"kind"`
	Number   int64       `json:"number"` // rises by one for each closing of the kind; a shift's is the shift's own
	Period   string      `json:"period"` // by the device's clock, a name: From and To are what counts
	Operator string      `json:"operator"`
	From     EntryNumber `json:"from"`  // first entry of the period
	To       EntryNumber `json:"to"`    // last one, the closing itself not included
	Begun    string      `json:"begun"` // device time of the entry From, RFC 3339, "" for none

	// Of a shift only. The cash that the till should hold is the float less what was
	// paid and refunded and more what was taken back, in the float's currency.
	Currency string       `json:"currency"`
	Float    money.Amount `json:"float_minor"`
	Cash     money.Amount `json:"cash_minor"`

	Reprints   int64        `json:"reprints"`    // copies that somebody asked for
	AutoCopies int64        `json:"auto_copies"` // copies after a crash
	Totals     []Totals     `json:"totals"`      // by currency, in its order
	Games      []GameTotals `json:"games"`       // by game, currency, demonstration
	Perpetual  []Perpetual  `json:"perpetual"`   // by currency, the period included
}

// Closing is a report of a period: an X, which ends nothing, or a Z, which is an entry
// of the ledger.
type Closing struct {
	ClosingFacts
	Terminal string      `json:"terminal"`
	Entry    EntryNumber `json:"entry"`   // zero for an X
	Hash     string      `json:"hash"`    // of the entry, "" for an X
	At       time.Time   `json:"at"`      // device time
	Trusted  time.Time   `json:"trusted"` // newest trusted time known then, zero for none
}

// Z tells whether it ended its period.
func (c Closing) Z() bool { return c.Entry != EntryNumber{} }

// LineKind is how a line of a closing's slip is set.
type LineKind string

const (
	TitleLine LineKind = "title" // the label alone, large
	HeadLine  LineKind = "head"  // the label alone, above the lines it names
	RuleLine  LineKind = "rule"
	TextLine  LineKind = "text"
	CountLine LineKind = "count"
	MoneyLine LineKind = "money"
	SumLine   LineKind = "sum" // count and money
)

// ClosingLine is one line of a closing's slip: a label and a value, as plain data.
type ClosingLine struct {
	Kind     LineKind
	FR, EN   string // label, at most 20 columns beside a value
	Text     string
	Time     time.Time // of a TextLine without Text, for the printer's zone
	Sum      Sum       // Count, Money or both, by Kind
	Currency string
}

// Label is the line's label.
func (l ClosingLine) Label(lang money.Language) string {
	if lang == money.English {
		return l.EN
	}
	return l.FR
}

// Value is the line's value as a receipt shows it; times are the printer's to write.
func (l ClosingLine) Value(lang money.Language) string {
	amount := money.Text(l.Sum.Money, l.Currency, lang, money.Receipt)
	switch l.Kind {
	case TextLine:
		return l.Text
	case CountLine:
		return strconv.FormatInt(l.Sum.Count, 10)
	case MoneyLine:
		return amount
	case SumLine:
		return fmt.Sprintf("%d / %s", l.Sum.Count, amount)
	}
	return ""
}

// Lines are the content of the closing's slip, from its title to the perpetual totals.
func (c Closing) Lines() []ClosingLine {
	list := c.headLines()
	for _, t := range c.Totals {
		list = append(list, totalLines(t)...)
	}
	list = append(list, ClosingLine{Kind: RuleLine}, count("Duplicatas demandés", "Reprints asked for", c.Reprints),
		count("Duplicatas auto", "Automatic copies", c.AutoCopies))
	if c.Kind == ShiftClosing {
		list = append(list, ClosingLine{Kind: RuleLine}, amount("Fond de caisse", "Float", c.Float, c.Currency),
			amount("Caisse attendue", "Cash expected", c.Cash, c.Currency))
	}
	for _, g := range c.Games {
		list = append(list, gameLines(g)...)
	}
	list = append(list, ClosingLine{Kind: RuleLine}, ClosingLine{Kind: HeadLine, FR: "Total perpétuel", EN: "Perpetual total"})
	for _, p := range c.Perpetual {
		list = append(list, amount("Payé", "Paid", p.Paid.Money, p.Currency), count("Paiements", "Payments", p.Paid.Count),
			amount("Annulé", "Reversed", p.Reversed.Money, p.Currency), count("Annulations", "Reversals", p.Reversed.Count))
	}
	return list
}

func (c Closing) headLines() []ClosingLine {
	kinds := map[ClosingKind][2]string{ShiftClosing: {"SERVICE", "SHIFT"}, DayClosing: {"JOUR", "DAY"}, MonthClosing: {"MOIS", "MONTH"}, YearClosing: {"ANNÉE", "YEAR"}}
	word := kinds[c.Kind]
	title := ClosingLine{Kind: TitleLine, FR: "RAPPORT X " + word[0], EN: "X REPORT " + word[1]}
	if c.Z() {
		title.FR, title.EN = "CLÔTURE Z "+word[0], "Z CLOSING "+word[1]
	}
	list := []ClosingLine{title}
	for _, g := range c.Games {
		if g.Demonstration {
			list = append(list, ClosingLine{Kind: TitleLine, FR: "DÉMONSTRATION", EN: "DEMONSTRATION"})
			break
		}
	}
	list = append(list, ClosingLine{Kind: RuleLine}, text("Période", "Period", c.Period), text("N°", "Number", strconv.FormatInt(c.Number, 10)),
		text("Registre, de", "Ledger, from", c.From.String()), text("Registre, à", "Ledger, to", c.To.String()))
	if begun, err := time.Parse(time.RFC3339, c.Begun); err == nil {
		list = append(list, ClosingLine{Kind: TextLine, FR: "Depuis", EN: "Since", Time: begun})
	}
	if c.Z() {
		list = append(list, text("N° de registre", "Ledger number", c.Entry.String()))
	}
	list = append(list, text("Terminal", "Terminal", c.Terminal), ClosingLine{Kind: TextLine, FR: "Date", EN: "Date", Time: c.At})
	if c.Trusted.IsZero() {
		list = append(list, ClosingLine{Kind: HeadLine, FR: "Heure du terminal, non vérifiée", EN: "Time of the terminal, not verified"})
	}
	return append(list, text("Opérateur", "Clerk", c.Operator))
}

func totalLines(t Totals) []ClosingLine {
	list := []ClosingLine{{Kind: RuleLine}, sum("Paiements", "Payments", t.Paid, t.Currency), sum("Annul. demandées", "Reversals asked", t.Requested, t.Currency),
		sum("Annul. acceptées", "Reversals accepted", t.Reversed, t.Currency)}
	list = append(list, misprintLines(t.Refunded, t.Exchanged, t.Currency)...)
	for class, s := range t.Sizes {
		if s.Count == 0 {
			continue
		}
		bound := SizeBound(class)
		if bound == 0 {
			fr := money.Text(SizeBound(class-1), t.Currency, money.French, money.Receipt)
			en := money.Text(SizeBound(class-1), t.Currency, money.English, money.Receipt)
			list = append(list, sum("Plus de "+fr, "Above "+en, s, t.Currency))
			continue
		}
		fr, en := money.Text(bound, t.Currency, money.French, money.Receipt), money.Text(bound, t.Currency, money.English, money.Receipt)
		list = append(list, sum("Jusqu'à "+fr, "Up to "+en, s, t.Currency))
	}
	return list
}

func gameLines(g GameTotals) []ClosingLine {
	name := g.Game
	if name == OtherGames {
		return append([]ClosingLine{{Kind: RuleLine}, {Kind: HeadLine, FR: "Autres jeux", EN: "Other games"}}, gameSums(g)...)
	}
	return append([]ClosingLine{{Kind: RuleLine}, {Kind: HeadLine, FR: name, EN: name}}, gameSums(g)...)
}

func gameSums(g GameTotals) []ClosingLine {
	list := []ClosingLine{sum("Paiements", "Payments", g.Paid, g.Currency)}
	if g.Requested.Count > 0 {
		list = append(list, sum("Annul. demandées", "Reversals asked", g.Requested, g.Currency))
	}
	if g.Reversed.Count > 0 {
		list = append(list, sum("Annul. acceptées", "Reversals accepted", g.Reversed, g.Currency))
	}
	return append(list, misprintLines(g.Refunded, g.Exchanged, g.Currency)...)
}

// misprintLines are those of misprints, where there were any.
func misprintLines(refunded Sum, exchanged int64, currency string) (list []ClosingLine) {
	if refunded.Count > 0 {
		list = append(list, sum("Remboursements", "Refunds", refunded, currency))
	}
	if exchanged > 0 {
		list = append(list, count("Échanges", "Exchanges", exchanged))
	}
	return list
}

func text(fr, en, value string) ClosingLine {
	return ClosingLine{Kind: TextLine, FR: fr, EN: en, Text: value}
}

func count(fr, en string, n int64) ClosingLine {
	return ClosingLine{Kind: CountLine, FR: fr, EN: en, Sum: Sum{Count: n}}
}

func amount(fr, en string, a money.Amount, currency string) ClosingLine {
	return ClosingLine{Kind: MoneyLine, FR: fr, EN: en, Sum: Sum{Money: a}, Currency: currency}
}

func sum(fr, en string, s Sum, currency string) ClosingLine {
	return ClosingLine{Kind: SumLine, FR: fr, EN: en, Sum: s, Currency: currency}
}
