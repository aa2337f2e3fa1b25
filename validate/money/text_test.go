package money

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
)

func TestTextFollowsTheMedium(t *testing.T) {
	tests := []struct {
		amount   Amount
		currency string
		lang     Language
		medium   Medium
		want     string
	}{
		{100_000_000, "EUR", French, Screen, "1\u202f000\u202f000\u00a0€"},
		{100_000_000, "EUR", French, Receipt, "1 000 000 €"},
		{100_000_000, "EUR", English, Screen, "€1,000,000"},
		{100_000_000, "EUR", English, Receipt, "€1,000,000"},
		{2050, "EUR", French, Screen, "20,50\u00a0€"},
		{2050, "EUR", French, Receipt, "20,50 €"},
		{2050, "EUR", English, Screen, "€20.50"},
		{2050, "EUR", French, Plain, "20.50"},
		{2000, "EUR", English, Plain, "20.00"},
		{2000, "EUR", French, Receipt, "20 €"},
		{0, "EUR", French, Receipt, "0 €"},
		{5, "EUR", French, Receipt, "0,05 €"},
		{99_900, "EUR", French, Receipt, "999 €"},
		{100_000, "EUR", French, Receipt, "1 000 €"},
		{-2050, "EUR", French, Receipt, "-20,50 €"},
		{-2050, "EUR", English, Receipt, "-€20.50"},
		{-5, "EUR", French, Plain, "-0.05"},
		{1000, "FRF", French, Receipt, "10 F"},
		{1000, "CHF", French, Screen, "10\u00a0CHF"},
		{1050, "CHF", English, Receipt, "CHF 10.50"},
		{1050, "JPY", French, Receipt, "1 050 JPY"},
		{1050, "JPY", French, Plain, "1050"},
		{1050, "KWD", French, Receipt, "1,050 KWD"},
		{1050, "", French, Receipt, "10,50"},
		{math.MinInt64, "EUR", French, Plain, "-92233720368547758.08"},
		{math.MaxInt64, "EUR", English, Screen, "€92,233,720,368,547,758.07"},
	}
	for _, test := range tests {
		if got := Text(test.amount, test.currency, test.lang, test.medium); got != test.want {
			t.Errorf("Text(%d, %q, %s, %d) = %q, want %q", test.amount, test.currency, test.lang, test.medium, got, test.want)
		}
	}
}

func TestReceiptTextHasOnlyPlainSpaces(t *testing.T) {
	for _, lang := range []Language{French, English} {
		for _, currency := range []string{"EUR", "CHF", "FRF", "JPY", ""} {
			text := Text(123_456_789_01, currency, lang, Receipt)
			if strings.ContainsAny(text, "\u202f\u00a0") {
				t.Errorf("%s %s: %q holds a space no code page has", lang, currency, text)
			}
		}
	}
}

func TestWordsFollowTheSpellingOf1990(t *testing.T) {
	tests := []struct{ euros, want string }{
		{"0", "zéro euro"}, {"1", "un euro"}, {"16", "seize euros"}, {"17", "dix-sept euros"},
		{"20", "vingt euros"}, {"21", "vingt-et-un euros"}, {"70", "soixante-dix euros"},
		{"71", "soixante-et-onze euros"}, {"77", "soixante-dix-sept euros"}, {"80", "quatre-vingts euros"},
		{"81", "quatre-vingt-un euros"}, {"90", "quatre-vingt-dix euros"}, {"91", "quatre-vingt-onze euros"},
		{"99", "quatre-vingt-dix-neuf euros"}, {"100", "cent euros"}, {"101", "cent-un euros"},
		{"180", "cent-quatre-vingts euros"}, {"200", "deux-cents euros"}, {"201", "deux-cent-un euros"},
		{"280", "deux-cent-quatre-vingts euros"}, {"1000", "mille euros"}, {"1001", "mille-un euros"},
		{"2000", "deux-mille euros"}, {"80000", "quatre-vingt-mille euros"}, {"200000", "deux-cent-mille euros"},
		{"1000000", "un million d'euros"}, {"1200000", "un million deux-cent-mille euros"},
		{"80000000", "quatre-vingts millions d'euros"}, {"2000000000", "deux milliards d'euros"},
		{"200000000", "deux-cents millions d'euros"}, {"0.50", "cinquante centimes"}, {"0.01", "un centime"},
		{"1.01", "un euro et un centime"}, {"20.50", "vingt euros et cinquante centimes"},
	}
	for _, test := range tests {
		if got := Words(parseEuros(t, test.euros), "EUR", French); got != test.want {
			t.Errorf("%s: %q, want %q", test.euros, got, test.want)
		}
	}
}

func TestWordsInEnglishAndOtherCurrencies(t *testing.T) {
	tests := []struct {
		amount   Amount
		currency string
		lang     Language
		want     string
	}{
		{0, "EUR", English, "zero euros"},
		{100, "EUR", English, "one euro"},
		{101, "EUR", English, "one euro and one cent"},
		{2050, "EUR", English, "twenty euros and fifty cents"},
		{2100, "EUR", English, "twenty-one euros"},
		{20_100, "EUR", English, "two hundred and one euros"},
		{100_100, "EUR", English, "one thousand and one euros"},
		{123_400_000, "EUR", English, "one million two hundred and thirty-four thousand euros"},
		{-2000, "EUR", English, "minus twenty euros"},
		{-2000, "EUR", French, "moins vingt euros"},
		{100_000_000, "FRF", French, "un million de francs"},
		{50, "CHF", French, "cinquante centièmes"},
		{2050, "CHF", English, "twenty CHF and fifty hundredths"},
		{1001, "KWD", French, "un KWD et un millième"},
		{80, "JPY", French, "quatre-vingts JPY"},
		{math.MinInt64, "EUR", English, "minus ninety-two quadrillion two hundred and thirty-three trillion seven hundred and twenty billion " +
			"three hundred and sixty-eight million five hundred and forty-seven thousand seven hundred and fifty-eight euros and eight cents"},
	}
	for _, test := range tests {
		if got := Words(test.amount, test.currency, test.lang); got != test.want {
			t.Errorf("Words(%d, %s, %s) = %q, want %q", test.amount, test.currency, test.lang, got, test.want)
		}
	}
}

// TestWordsReadBackToTheSameNumber reads every number up to 999 999 back with a
// reader that knows only the words, so no two numbers share a text.
func TestWordsReadBackToTheSameNumber(t *testing.T) {
	t.Parallel()
	for n := range uint64(1_000_000) {
		if got, err := readFrench(frenchNumber(n)); err != nil || got != n {
			t.Fatalf("%d is written %q, which reads as %d (%v)", n, frenchNumber(n), got, err)
		}
		if got, err := readEnglish(englishNumber(n)); err != nil || got != n {
			t.Fatalf("%d is written %q, which reads as %d (%v)", n, englishNumber(n), got, err)
		}
	}
}

func TestArithmeticRefusesToOverflow(t *testing.T) {
	if _, err := Amount(math.MaxInt64).Add(1); !errors.Is(err, ErrOverflow) {
		t.Errorf("MaxInt64 + 1: %v", err)
	}
	if _, err := Amount(math.MinInt64).Add(-1); !errors.Is(err, ErrOverflow) {
		t.Errorf("MinInt64 - 1: %v", err)
	}
	if _, err := Amount(math.MaxInt64 / 2).Times(3); !errors.Is(err, ErrOverflow) {
		t.Errorf("product: %v", err)
	}
	if _, err := Amount(-1).Times(3); err == nil {
		t.Error("a negative factor was accepted")
	}
	if sum, err := Amount(2).Times(1_000_000); err != nil || sum != 2_000_000 {
		t.Errorf("2 x 1000000 = %d, %v", sum, err)
	}
}

func parseEuros(t *testing.T, text string) Amount {
	t.Helper()
	whole, part, _ := strings.Cut(text, ".")
	var euros, cents Amount
	if _, err := fmt.Sscan(whole, &euros); err != nil {
		t.Fatal(err)
	}
	if part != "" {
		if _, err := fmt.Sscan(strings.TrimPrefix(part, "0"), &cents); err != nil {
			t.Fatal(err)
		}
	}
	return euros*100 + cents
}

func readFrench(text string) (uint64, error) {
	var total, group uint64
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return r == '-' || r == ' ' }) {
		switch word {
		case "et", "zéro":
		case "mille":
			total, group = total+max(group, 1)*1000, 0
		case "cent", "cents":
			group = max(group, 1) * 100
		case "vingt", "vingts":
			if group%100 == 4 { // quatre-vingt
				group += 76
			} else {
				group += 20
			}
		default:
			value, ok := frenchWords[word]
			if !ok {
				return 0, fmt.Errorf("word %q", word)
			}
			group += value
		}
	}
	return total + group, nil
}

func readEnglish(text string) (uint64, error) {
	var total, group uint64
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return r == '-' || r == ' ' }) {
		switch word {
		case "and", "zero":
		case "thousand":
			total, group = total+group*1000, 0
		case "hundred":
			group *= 100
		default:
			value, ok := englishWords[word]
			if !ok {
				return 0, fmt.Errorf("word %q", word)
			}
			group += value
		}
	}
	return total + group, nil
}

var frenchWords = map[string]uint64{
	"un": 1, "deux": 2, "trois": 3, "quatre": 4, "cinq": 5, "six": 6, "sept": 7, "huit": 8, "neuf": 9, "dix": 10,
	"onze": 11, "douze": 12, "treize": 13, "quatorze": 14, "quinze": 15, "seize": 16,
	"trente": 30, "quarante": 40, "cinquante": 50, "soixante": 60,
}

var englishWords = map[string]uint64{
	"one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10,
	"eleven": 11, "twelve": 12, "thirteen": 13, "fourteen": 14, "fifteen": 15, "sixteen": 16, "seventeen": 17,
	"eighteen": 18, "nineteen": 19, "twenty": 20, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60,
	"seventy": 70, "eighty": 80, "ninety": 90,
}
