package policy

import (
	"fmt"
	"strconv"
	"strings"

	"grattoir/validate/money"
)

// MaxText bounds a signed policy, its signatures included, in bytes.
const MaxText = 16 << 10

// A policy is of the lowest version that can say what it says. One that names commissions is
// of the second, one that says for which checks slips are printed of the third: programs that
// know only what is below refuse it, rather than do without.
const (
	firstLine  = "grattoir policy v1"
	secondLine = "grattoir policy v2"
	thirdLine  = "grattoir policy v3"
)

// Text is the canonical text that is signed: one key and value a line, in this order.
// Amounts are in minor units; "-" is no last day and nobody. It says what Parse reads for
// a policy that ValidateSigned accepts.
func (p Policy) Text() string {
	var b strings.Builder
	line := func(key string, value any) { fmt.Fprintf(&b, "%s %v\n", key, value) }
	slips := p.ResultSlips != ""
	rates := slips || p.CommissionSale != 0 || p.CommissionPaid != 0
	switch {
	case slips:
		b.WriteString(thirdLine + "\n")
	case rates:
		b.WriteString(secondLine + "\n")
	default:
		b.WriteString(firstLine + "\n")
	}
	line("version", p.Version)
	line("valid-from", p.ValidFrom)
	line("valid-to", orNone(p.ValidTo.String(), p.ValidTo.IsZero()))
	line("currency", p.Currency)
	line("claim-days", p.ClaimDays)
	line("shop-limit", int64(p.ShopLimit))
	line("confirm-cash-prize", int64(p.ConfirmCashPrize))
	line("confirm-cash-total", int64(p.ConfirmCashTotal))
	line("identity-prize", int64(p.IdentityPrize))
	line("identity-total-over", int64(p.IdentityTotalOver))
	line("weak-limit", int64(p.WeakLimit))
	line("allowance-claims", p.AllowanceClaims)
	line("allowance", int64(p.AllowanceMoney))
	line("booked-risk", int64(p.BookedRisk))
	line("booked-risk-party", orNone(p.BookedRiskParty, p.BookedRiskParty == ""))
	if rates {
		line("commission-sale", p.CommissionSale)
		line("commission-paid", p.CommissionPaid)
	}
	if slips {
		line("result-slips", string(p.ResultSlips))
	}
	return b.String()
}

func orNone(s string, none bool) string {
	if none {
		return "-"
	}
	return s
}

// Parse reads the canonical text. It accepts exactly what Text writes, so that a signed
// text has one meaning; errors name the line.
func Parse(text string) (Policy, error) {
	if len(text) > MaxText {
		return Policy{}, fmt.Errorf("policy: %d bytes, at most %d: this is another kind of file", len(text), MaxText)
	}
	r := reader{lines: strings.Split(text, "\n")}
	first := r.next()
	if first != firstLine && first != secondLine && first != thirdLine {
		return Policy{}, fmt.Errorf("policy line 1: want %q, found %.60q: another kind of file, or of a newer program", firstLine, first)
	}
	var p Policy
	p.Version = r.value("version")
	p.ValidFrom = r.date("valid-from")
	p.ValidTo = r.date("valid-to")
	p.Currency = r.value("currency")
	p.ClaimDays = int(r.number("claim-days"))
	for _, limit := range []struct {
		key    string
		amount *money.Amount
	}{{"shop-limit", &p.ShopLimit}, {"confirm-cash-prize", &p.ConfirmCashPrize}, {"confirm-cash-total", &p.ConfirmCashTotal},
		{"identity-prize", &p.IdentityPrize}, {"identity-total-over", &p.IdentityTotalOver}, {"weak-limit", &p.WeakLimit}} {
		*limit.amount = money.Amount(r.number(limit.key))
	}
	p.AllowanceClaims = r.number("allowance-claims")
	p.AllowanceMoney = money.Amount(r.number("allowance"))
	p.BookedRisk = money.Amount(r.number("booked-risk"))
	if party := r.value("booked-risk-party"); party != "-" {
		p.BookedRiskParty = party
	}
	if first != firstLine {
		p.CommissionSale, p.CommissionPaid = int(r.number("commission-sale")), int(r.number("commission-paid"))
	}
	if first == thirdLine {
		p.ResultSlips = ResultSlips(r.value("result-slips"))
	}
	if r.err != nil {
		return Policy{}, r.err
	}
	if err := p.ValidateSigned(); err != nil {
		return Policy{}, fmt.Errorf("policy: %w", err)
	}
	if p.Text() != text {
		return Policy{}, fmt.Errorf("policy %s: the text is not in canonical form", p.Version)
	}
	return p, nil
}

// reader takes the lines in order and keeps the first error.
type reader struct {
	lines []string
	at    int
	err   error
}

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("policy line %d: "+format, append([]any{r.at}, args...)...)
	}
}

func (r *reader) next() string {
	r.at++
	if r.at > len(r.lines) {
		r.fail("the text ends early")
		return ""
	}
	return r.lines[r.at-1]
}

func (r *reader) value(key string) string {
	got := r.next()
	value, ok := strings.CutPrefix(got, key+" ")
	if !ok {
		r.fail("want %q, found %.60q", key, got)
	}
	return value
}

func (r *reader) number(key string) int64 {
	text := r.value(key)
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > maxAmount {
		r.fail("%s %.30q: want 0 to %d", key, text, int64(maxAmount))
	}
	return n
}

// date reads a day, or "-" for none.
func (r *reader) date(key string) Date {
	text := r.value(key)
	if text == "-" {
		return Date{}
	}
	d, err := ParseDate(text)
	if err != nil {
		r.fail("%s: %w", key, err)
	}
	return d
}
