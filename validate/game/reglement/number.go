package reglement

import (
	"regexp"
	"strconv"
	"strings"

	"grattoir/validate/money"
)

// run matches the characters a printed number can have. The degree sign is no
// digit; it stands where a zero was in some old texts.
const run = `[0-9](?:[ .,]?[0-9°])*`

// lots are the words for prizes that may follow their number.
const lots = `lots?|loten|gains?|primes?|gagnants?|(?:tickets?|billets?) gagnants?`

// sign matches a currency after or before a number, and the marks that stand
// where a lost euro sign was.
const sign = `€|EUR(?:OS?)?\b|[Ee]uros?\b|FRF\b|XPF\b|F\.? ?CFP\b|FF?\b|[Ff]rancs?\b|CHF\b|USD\b|GBP\b|£|\$|[¤?\x{fffd}]`

var (
	leadingRun  = regexp.MustCompile(`^` + run)
	leadingSign = regexp.MustCompile(`^ ?(?:d'|de )?(` + sign + `)`)
	prefixSign  = regexp.MustCompile(`^(` + sign + `) ?`)
	million     = regexp.MustCompile(`^ (?:millions?|miljoen)\b`)
)

// number is a printed number: digits / 10^scale.
type number struct {
	digits int64
	scale  int
}

// parseNumber reads a whole run by the rules of the forms in use: groups of
// three by spaces or dots, decimals after a comma ("25.000,00"), none ("17900").
// A comma before exactly three digits groups, as no sum has thousandths.
func parseNumber(text string) (number, bool) {
	whole, decimals := text, ""
	if i := strings.LastIndexAny(text, ",."); i >= 0 && !groups(text, i) {
		whole, decimals = text[:i], text[i+1:]
		if !allDigits(decimals) || len(decimals) == 3 && whole != "0" {
			return number{}, false
		}
	}
	parts := strings.FieldsFunc(whole, func(r rune) bool { return r == ' ' || r == '.' || r == ',' })
	if len(parts) == 0 || !sameSeparators(whole) {
		return number{}, false
	}
	for i, part := range parts {
		if !allDigits(part) || (i > 0 && len(part) != 3) || (i == 0 && len(parts) > 1 && len(part) > 3) {
			return number{}, false
		}
	}
	if first := parts[0]; len(first) > 1 && first[0] == '0' || first == "0" && len(parts) > 1 {
		return number{}, false
	}
	digits, err := strconv.ParseInt(strings.Join(parts, "")+decimals, 10, 64)
	if err != nil {
		return number{}, false
	}
	return number{digits, len(decimals)}, true
}

// groups reports whether the comma or dot at i separates thousands: exactly three
// digits follow, and what is before is not a bare zero. The last of several
// different separators is always the decimal one.
func groups(text string, i int) bool {
	if len(text)-i-1 != 3 || text[:i] == "0" || text[:i] == "" {
		return false
	}
	for _, r := range text[:i] {
		if (r < '0' || r > '9') && r != rune(text[i]) {
			return false
		}
	}
	return true
}

func sameSeparators(text string) bool {
	seen := rune(0)
	for _, r := range text {
		if r >= '0' && r <= '9' {
			continue
		}
		if seen != 0 && r != seen {
			return false
		}
		seen = r
	}
	return true
}

func allDigits(text string) bool {
	return text != "" && strings.Trim(text, "0123456789") == ""
}

// integer reads a whole run as a count.
func integer(text string) (int64, bool) {
	n, ok := parseNumber(text)
	return n.digits, ok && n.scale == 0
}

// sum is a printed sum of money: a number and its currency, if it has one.
type sum struct {
	number
	currency string // ISO 4217, empty when the sign is missing or lost
	text     string // as printed
}

// decimalComma reads a comma before three digits as the decimal one, as a price has it: a
// prize may be 1,000 €, a price of 1,524 € is that of a share or of francs changed.
func (s sum) decimalComma() number {
	if s.scale == 0 && strings.Count(s.text, ",") == 1 && s.digits < 1e15 {
		return number{s.digits, 3}
	}
	return s.number
}

// minor is the sum in minor units, not ok for a fraction of one.
func (s sum) minor() (money.Amount, bool) {
	digits, scale := s.digits, s.scale
	for scale > 2 && digits%10 == 0 {
		digits, scale = digits/10, scale-1
	}
	if scale > 2 {
		return 0, false
	}
	amount, err := money.Amount(digits), error(nil)
	for ; scale < 2 && err == nil; scale++ {
		amount, err = amount.Times(10)
	}
	return amount, err == nil
}

// minorText is the sum in minor units as an exact decimal: 1,5243 is "152.43".
func (s sum) minorText() string {
	digits := strconv.FormatInt(s.digits, 10)
	switch shift := s.scale - 2; {
	case shift <= 0:
		if digits != "0" {
			digits += strings.Repeat("0", -shift)
		}
		return digits
	default:
		if len(digits) <= shift {
			digits = strings.Repeat("0", shift-len(digits)+1) + digits
		}
		whole, part := digits[:len(digits)-shift], strings.TrimRight(digits[len(digits)-shift:], "0")
		if part == "" {
			return whole
		}
		return whole + "." + part
	}
}

// leadingSum reads the sum a text begins with and returns what follows it.
func leadingSum(text string) (s sum, rest string, ok bool) {
	prefix := ""
	if m := prefixSign.FindStringSubmatch(text); m != nil {
		prefix = currencyOf(m[1])
		text = text[len(m[0]):]
	}
	figure := leadingRun.FindString(text)
	n, ok := parseNumber(figure)
	if !ok {
		return sum{}, "", false
	}
	rest = text[len(figure):]
	if m := million.FindString(rest); m != "" && n.digits < 1e9 {
		n.digits *= 1_000_000
		rest = rest[len(m):]
	}
	s = sum{number: n, currency: prefix}
	if m := leadingSign.FindStringSubmatch(rest); m != nil && prefix == "" {
		s.currency = currencyOf(m[1])
		s.number, rest = centsBehind(s.number, m[1], rest[len(m[0]):])
	}
	s.text = strings.TrimSpace(text[:len(text)-len(rest)])
	return s, rest, true
}

var (
	centsAtOnce = regexp.MustCompile(`^([0-9]{2})(?:[^0-9 .,]|[ .,][^0-9]|[ .,]?$)`)                               // 2€50
	centsAfter  = regexp.MustCompile(`^ ([0-9]{2})(?:[^0-9\p{L} .,]|[.,][^0-9]|[ .,]?$| (?:[^0-9\p{L}]|l'unité))`) // 1 euro 50
)

// centsBehind reads cents that stand behind the sign: "2€50", "1 euro 50".
func centsBehind(n number, sign, rest string) (number, string) {
	pattern := centsAtOnce
	if len(sign) > len("€") { // a word
		pattern = centsAfter
	}
	m := pattern.FindStringSubmatch(rest)
	if m == nil || n.scale != 0 || n.digits > 1e15 {
		return n, rest
	}
	cents := int64(m[1][0]-'0')*10 + int64(m[1][1]-'0')
	return number{n.digits*100 + cents, 2}, rest[strings.Index(rest, m[1])+2:]
}

// wholeSum reads a text that is a sum and nothing else but an equals sign.
func wholeSum(text string) (sum, bool) {
	s, rest, ok := leadingSum(text)
	return s, ok && strings.Trim(rest, " =,;.") == ""
}

func currencyOf(text string) string {
	switch strings.ToLower(text) {
	case "€", "eur", "euro", "euros":
		return "EUR"
	case "f", "ff", "frf", "franc", "francs":
		return "FRF"
	case "chf":
		return "CHF"
	case "xpf", "f cfp", "fcfp", "f. cfp", "f.cfp":
		return "XPF"
	case "usd": // a bare $ is that of several countries
		return "USD"
	case "gbp", "£":
		return "GBP"
	}
	return ""
}

// maxGroups bounds the work on a run of digits: no three figures have more groups.
const maxGroups = 12

// splitRun takes apart figures of neighbouring columns that ran together, such
// as "300 600" for an amount and the next row's count. It tries amount + total
// (checked by count x amount) + last, then amount + last; two possible readings
// are none. When last is empty the run ends with the row.
func splitRun(text string, count int64, wantLast bool) (amount, total, last string, ok bool) {
	groups := strings.Split(text, " ")
	if len(groups) > maxGroups {
		return "", "", "", false
	}
	found := 0
	for i := 1; i < len(groups); i++ {
		left := strings.Join(groups[:i], " ")
		a, leftOK := parseNumber(left)
		if !leftOK {
			continue
		}
		for j := i + 1; j <= len(groups); j++ {
			middle, right := strings.Join(groups[i:j], " "), strings.Join(groups[j:], " ")
			t, middleOK := parseNumber(middle)
			if _, rightOK := integer(right); !middleOK || rightOK != wantLast || (!wantLast && right != "") {
				continue
			}
			if product, err := money.Amount(a.digits).Times(count); err == nil && a.scale == t.scale && int64(product) == t.digits {
				amount, total, last = left, middle, right
				found++
			}
		}
	}
	if found > 0 || !wantLast {
		return amount, total, last, found == 1
	}
	for i := 1; i < len(groups); i++ {
		left, right := strings.Join(groups[:i], " "), strings.Join(groups[i:], " ")
		if _, leftOK := parseNumber(left); !leftOK {
			continue
		}
		if _, rightOK := integer(right); rightOK {
			amount, last = left, right
			found++
		}
	}
	return amount, "", last, found == 1
}
