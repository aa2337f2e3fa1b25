package validate

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"grattoir/validate/money"
)

// shiftClosing is a closing with something in every part.
func shiftClosing() Closing {
	sum := func(n int64, minor money.Amount) Sum { return Sum{n, minor} }
	return Closing{Terminal: "T-1", Entry: EntryNumber{1, 58}, Hash: "ab", At: time.Date(2026, 11, 30, 18, 0, 0, 0, time.UTC),
		ClosingFacts: ClosingFacts{Kind: ShiftClosing, Number: 12, Period: "2026-11-30", Operator: "marie", From: EntryNumber{1, 41}, To: EntryNumber{1, 57},
			Begun: "2026-11-30T08:00:00.000Z", Currency: "EUR", Float: 15_000, Cash: 9_000, Reprints: 1, AutoCopies: 2,
			Totals: []Totals{{Currency: "EUR", Paid: sum(4, 8_000), Requested: sum(1, 2_000), Reversed: sum(1, 2_000), Sizes: [SizeClasses]Sum{sum(1, 500), {}, sum(2, 4_500), {}, sum(1, 3_000)}}},
			Games: []GameTotals{{Game: "Bingo", Currency: "EUR", Paid: sum(3, 5_000), Requested: sum(1, 2_000), Reversed: sum(1, 2_000)},
				{Game: OtherGames, Currency: "EUR", Demonstration: true, Paid: sum(1, 3_000)}},
			Perpetual: []Perpetual{{"EUR", sum(1_234, 123_456_700), sum(1, 2_000)}}}}
}

// TestClosingSlipSaysEverythingInTwoColumns: the lines of a Z as a 32-column receipt
// would set them.
func TestClosingSlipSaysEverythingInTwoColumns(t *testing.T) {
	var b strings.Builder
	for _, l := range shiftClosing().Lines() {
		switch l.Kind {
		case TitleLine, HeadLine:
			fmt.Fprintln(&b, l.Label(money.French))
		case RuleLine:
			fmt.Fprintln(&b, "-")
		default:
			value := l.Value(money.French)
			if !l.Time.IsZero() {
				value = l.Time.Format(time.DateTime)
			}
			fmt.Fprintf(&b, "%s | %s\n", l.Label(money.French), value)
		}
	}
	const want = `CLÔTURE Z SERVICE
DÉMONSTRATION
-
Période | 2026-11-30
N° | 12
Registre, de | 1-000041
Registre, à | 1-000057
Depuis | 2026-11-30 08:00:00
N° de registre | 1-000058
Terminal | T-1
Date | 2026-11-30 18:00:00
Heure du terminal, non vérifiée
Opérateur | marie
-
Paiements | 4 / 80 €
Annul. demandées | 1 / 20 €
Annul. acceptées | 1 / 20 €
Jusqu'à 10 € | 1 / 5 €
Jusqu'à 300 € | 2 / 45 €
Plus de 2 000 € | 1 / 30 €
-
Duplicatas demandés | 1
Duplicatas auto | 2
-
Fond de caisse | 150 €
Caisse attendue | 90 €
-
Bingo
Paiements | 3 / 50 €
Annul. demandées | 1 / 20 €
Annul. acceptées | 1 / 20 €
-
Autres jeux
Paiements | 1 / 30 €
-
Total perpétuel
Payé | 1 234 567 €
Paiements | 1234
Annulé | 20 €
Annulations | 1
`
	if got := b.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestClosingLinesFitAReceiptInBothLanguages(t *testing.T) {
	c := shiftClosing()
	for _, kind := range ClosingKinds() {
		c.Kind = kind
		for _, z := range []bool{true, false} {
			if !z {
				c.Entry = EntryNumber{}
			}
			for _, l := range c.Lines() {
				for _, lang := range []money.Language{money.French, money.English} {
					label, value := l.Label(lang), l.Value(lang)
					if l.Kind != RuleLine && label == "" {
						t.Errorf("%s: a line without a label: %+v", lang, l)
					}
					if n := utf8.RuneCountInString(label); n > 20 && value != "" || n > 36 || n+utf8.RuneCountInString(value) > 31 && value != "" {
						t.Errorf("%s: %q %q does not fit", lang, label, value)
					}
				}
			}
		}
	}
}

func TestSizeClassesHoldTheirUpperEnd(t *testing.T) {
	for _, c := range []struct {
		prize money.Amount
		class int
	}{{1, 0}, {1_000, 0}, {1_001, 1}, {5_000, 1}, {5_001, 2}, {30_000, 2}, {30_001, 3}, {200_000, 3}, {200_001, 4}, {1 << 60, 4}} {
		if got := SizeClass(c.prize); got != c.class {
			t.Errorf("%d is of class %d, want %d", c.prize, got, c.class)
		}
		if bound := SizeBound(c.class); bound != 0 && c.prize > bound {
			t.Errorf("%d is above its class's end %d", c.prize, bound)
		}
	}
}
