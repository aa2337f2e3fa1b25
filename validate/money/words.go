package money

import "strings"

// Words spells a in full: "deux-cents euros", "twenty euros and fifty cents".
// French follows the spelling of 1990, hyphens between all the parts of a number
// except around the nouns million, milliard and above. A ticket's own
// abbreviation of its prize is data and is not made here. Currency is an ISO 4217
// code; one without a name here is spelled as its code, and its minor units as
// hundredths or thousandths.
func Words(a Amount, currency string, lang Language) string {
	whole, part := split(a, currency)
	name := nameOf(currency, lang)
	if lang == English {
		text := englishSum(whole, part, name)
		if a < 0 {
			text = "minus " + text
		}
		return text
	}
	text := frenchSum(whole, part, name)
	if a < 0 {
		text = "moins " + text
	}
	return text
}

// unitName is what one and several units of a currency are called.
type unitName struct{ one, many, partOne, partMany string }

func nameOf(currency string, lang Language) unitName {
	french := lang != English
	switch {
	case currency == "EUR" && french:
		return unitName{"euro", "euros", "centime", "centimes"}
	case currency == "EUR":
		return unitName{"euro", "euros", "cent", "cents"}
	case currency == "FRF" && french:
		return unitName{"franc", "francs", "centime", "centimes"}
	case currency == "FRF":
		return unitName{"franc", "francs", "centime", "centimes"}
	}
	name := unitName{currency, currency, "centième", "centièmes"}
	switch exp := Exponent(currency); {
	case exp == 3 && french:
		name.partOne, name.partMany = "millième", "millièmes"
	case exp == 3:
		name.partOne, name.partMany = "thousandth", "thousandths"
	case !french:
		name.partOne, name.partMany = "hundredth", "hundredths"
	}
	return name
}

func frenchSum(whole, part uint64, name unitName) string {
	parts := ""
	if part > 0 {
		parts = frenchNumber(part) + " " + plural(part > 1, name.partOne, name.partMany)
		if whole == 0 {
			return parts
		}
	}
	text := frenchNumber(whole)
	unit := plural(whole > 1, name.one, name.many) // zero is singular in French
	switch {
	case whole == 0 || whole%1_000_000 != 0:
		text += " " + unit
	case unit != "" && strings.ContainsRune("aeiouAEIOU", rune(unit[0])):
		text += " d'" + unit // a noun is counted with "de": un million d'euros
	default:
		text += " de " + unit
	}
	if parts != "" {
		text += " et " + parts
	}
	return text
}

func englishSum(whole, part uint64, name unitName) string {
	parts := ""
	if part > 0 {
		parts = englishNumber(part) + " " + plural(part != 1, name.partOne, name.partMany)
		if whole == 0 {
			return parts
		}
	}
	text := englishNumber(whole) + " " + plural(whole != 1, name.one, name.many)
	if parts != "" {
		text += " and " + parts
	}
	return text
}

func plural(many bool, one, several string) string {
	if many {
		return several
	}
	return one
}

// frenchNoun and englishNoun are the words for 10^6, 10^9 and so on, as far as
// an Amount reaches. The French long scale has a noun of its own for 10^9.
func frenchNoun(power int) string {
	return [...]string{"million", "milliard", "billion", "billiard", "trillion"}[power-2]
}

func englishNoun(power int) string {
	return [...]string{"thousand", "million", "billion", "trillion", "quadrillion", "quintillion"}[power-1]
}

// frenchNumber spells n. Mille is no noun: it never changes, has no "un", and
// joins by hyphens the hundreds that follow it.
func frenchNumber(n uint64) string {
	if n == 0 {
		return "zéro"
	}
	var words []string
	for power := 6; power >= 2; power-- {
		group := n / pow1000(power) % 1000
		if group == 0 {
			continue
		}
		noun := frenchNoun(power)
		words = append(words, frenchHundreds(group, true)+" "+plural(group > 1, noun, noun+"s"))
	}
	if low := frenchThousands(n % 1_000_000); low != "" {
		words = append(words, low)
	}
	return strings.Join(words, " ")
}

// frenchThousands spells 1 to 999 999; 0 is empty.
func frenchThousands(n uint64) string {
	thousands, rest := n/1000, n%1000
	var words []string
	switch {
	case thousands == 1:
		words = append(words, "mille")
	case thousands > 1:
		words = append(words, frenchHundreds(thousands, false), "mille")
	}
	if rest > 0 {
		words = append(words, frenchHundreds(rest, true))
	}
	return strings.Join(words, "-")
}

// frenchHundreds spells 1 to 999. Cent and vingt take their s only when they
// are multiplied and end the number; before mille nothing ends, before the noun
// million it does.
func frenchHundreds(n uint64, ends bool) string {
	hundreds, rest := n/100, n%100
	var words []string
	if hundreds > 1 {
		words = append(words, frenchBelow20(hundreds))
	}
	if hundreds > 0 {
		words = append(words, plural(hundreds > 1 && rest == 0 && ends, "cent", "cents"))
	}
	if rest > 0 {
		words = append(words, frenchTens(rest, ends))
	}
	return strings.Join(words, "-")
}

// frenchTens spells 1 to 99: seventy and ninety count on from sixty and eighty,
// and "et" joins the one of 21 to 71 but not of 81 and 91.
func frenchTens(n uint64, ends bool) string {
	if n < 20 {
		return frenchBelow20(n)
	}
	tens, rest := n/10, n%10
	if tens == 7 || tens == 9 {
		tens, rest = tens-1, rest+10
	}
	word := [...]string{2: "vingt", 3: "trente", 4: "quarante", 5: "cinquante", 6: "soixante", 8: "quatre-vingt"}[tens]
	switch {
	case rest == 0:
		return plural(tens == 8 && ends, word, word+"s")
	case rest%10 == 1 && tens != 8:
		return word + "-et-" + frenchBelow20(rest)
	}
	return word + "-" + frenchBelow20(rest)
}

func frenchBelow20(n uint64) string {
	return [...]string{
		1: "un", 2: "deux", 3: "trois", 4: "quatre", 5: "cinq", 6: "six", 7: "sept", 8: "huit", 9: "neuf", 10: "dix",
		11: "onze", 12: "douze", 13: "treize", 14: "quatorze", 15: "quinze", 16: "seize",
		17: "dix-sept", 18: "dix-huit", 19: "dix-neuf",
	}[n]
}

// englishNumber spells n in British use: "two hundred and one".
func englishNumber(n uint64) string {
	if n == 0 {
		return "zero"
	}
	var words []string
	for power := 6; power >= 1; power-- {
		if group := n / pow1000(power) % 1000; group > 0 {
			words = append(words, englishHundreds(group)+" "+englishNoun(power))
		}
	}
	if low := n % 1000; low > 0 {
		if low < 100 && len(words) > 0 {
			words = append(words, "and")
		}
		words = append(words, englishHundreds(low))
	}
	return strings.Join(words, " ")
}

// englishHundreds spells 1 to 999.
func englishHundreds(n uint64) string {
	hundreds, rest := n/100, n%100
	text := ""
	if hundreds > 0 {
		text = englishBelow20(hundreds) + " hundred"
		if rest > 0 {
			text += " and "
		}
	}
	switch {
	case rest == 0:
	case rest < 20:
		text += englishBelow20(rest)
	default:
		text += [...]string{2: "twenty", 3: "thirty", 4: "forty", 5: "fifty", 6: "sixty", 7: "seventy", 8: "eighty", 9: "ninety"}[rest/10]
		if rest%10 > 0 {
			text += "-" + englishBelow20(rest%10)
		}
	}
	return text
}

func englishBelow20(n uint64) string {
	return [...]string{
		1: "one", 2: "two", 3: "three", 4: "four", 5: "five", 6: "six", 7: "seven", 8: "eight", 9: "nine", 10: "ten",
		11: "eleven", 12: "twelve", 13: "thirteen", 14: "fourteen", 15: "fifteen", 16: "sixteen",
		17: "seventeen", 18: "eighteen", 19: "nineteen",
	}[n]
}

func pow1000(power int) uint64 {
	p := uint64(1)
	for range power {
		p *= 1000
	}
	return p
}
