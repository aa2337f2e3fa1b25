package money

import (
	"strconv"
	"strings"
)

// Medium is where a text will be shown. It decides the kind of spaces.
type Medium int

const (
	// Screen has U+202F between groups of digits and U+00A0 before the sign,
	// as browsers print French money. The text never breaks over two lines.
	Screen Medium = iota
	// Receipt is Screen with plain spaces: no receipt printer's code page holds
	// U+202F, and many draw what they like for U+00A0.
	Receipt
	// Plain is for machines: "20.50", no sign, no groups, always the decimals
	// of the currency, the same in every language.
	Plain
)

const (
	narrowSpace = "\u202f"
	noBreak     = "\u00a0"
)

// Exponent is the number of decimals of an ISO 4217 currency: 2 for EUR, 0 for
// JPY, 3 for KWD. A code it does not know has 2, as nearly all have.
func Exponent(currency string) int {
	switch currency {
	case "BIF", "CLP", "DJF", "GNF", "ISK", "JPY", "KMF", "KRW", "PYG", "RWF", "UGX", "VND", "VUV", "XAF", "XOF", "XPF":
		return 0
	case "BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND":
		return 3
	}
	return 2
}

// Text writes a in figures: French "1 000 000 €" and "20,50 €", English
// "€1,000,000" and "€20.50". Whole sums have no decimals, except in Plain.
// Currency is an ISO 4217 code; EUR has its sign, francs their "F", every other
// one stands as its code. An empty currency writes the bare number.
func Text(a Amount, currency string, lang Language, m Medium) string {
	whole, part := split(a, currency)
	digits := strconv.FormatUint(whole, 10)
	exp := Exponent(currency)
	sign := ""
	if a < 0 {
		sign = "-"
	}
	if m == Plain {
		return sign + digits + decimals(part, exp, ".", true)
	}
	if lang == English {
		number := grouped(digits, ",") + decimals(part, exp, ".", false)
		switch currency {
		case "":
			return sign + number
		case "EUR":
			return sign + "€" + number
		}
		return sign + currency + gap(m) + number
	}
	group := narrowSpace
	if m == Receipt {
		group = " "
	}
	number := sign + grouped(digits, group) + decimals(part, exp, ",", false)
	switch currency {
	case "":
		return number
	case "EUR":
		return number + gap(m) + "€"
	case "FRF":
		return number + gap(m) + "F"
	}
	return number + gap(m) + currency
}

func gap(m Medium) string {
	if m == Receipt {
		return " "
	}
	return noBreak
}

// split takes a's absolute value apart into whole units and the rest in minor
// units. It is unsigned because the smallest int64 has no positive twin.
func split(a Amount, currency string) (whole, part uint64) {
	abs := uint64(a)
	if a < 0 {
		abs = -abs
	}
	scale := uint64(1)
	for range Exponent(currency) {
		scale *= 10
	}
	return abs / scale, abs % scale
}

// decimals is the mark and the minor units, or nothing for a whole sum.
func decimals(part uint64, exp int, mark string, always bool) string {
	if exp == 0 || (part == 0 && !always) {
		return ""
	}
	digits := strconv.FormatUint(part, 10)
	return mark + strings.Repeat("0", exp-len(digits)) + digits
}

func grouped(digits, sep string) string {
	var b strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteString(sep)
		}
		b.WriteRune(d)
	}
	return b.String()
}
