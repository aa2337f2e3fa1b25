// Package policy holds the limits a lottery sets: what a shop may pay, when the clerk
// confirms the cash, when a winner is identified, how long a prize may be claimed.
// They are data, never constants: the zero Policy pays nothing above zero.
//
// A lottery signs them with the days between which they hold. What is signed is Text, in
// a note as golang.org/x/mod/sumdb/note makes it; Parse reads nothing that Text does not
// write. Whose signatures count, manifest.Keys knows: this package proves nothing and
// keeps no file. Set says which of several holds. Start at Policy, then Set.
package policy

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"grattoir/validate/money"
)

// Policy is one version of the limits. All amounts are in minor units of Currency.
type Policy struct {
	Version           string       // its name in claims, verdicts and reports; see Newer
	ValidFrom         Date         // first day in Paris on which it holds; zero in a configuration, which names no days
	ValidTo           Date         // last day, itself included; zero for no end
	Currency          string       // ISO 4217; a prize in another currency is above every limit
	ShopLimit         money.Amount // a shop pays prizes up to this, inclusive; larger ones go to the centre
	ConfirmCashPrize  money.Amount // one prize of at least this asks whether the till holds enough; 0 = never
	ConfirmCashTotal  money.Amount // the same for the total of a batch
	IdentityPrize     money.Amount // a transaction of at least this identifies the winner (arrêté of 9 September 2021: 2 000 EUR); 0 = never
	IdentityTotalOver money.Amount // one request of several prizes over this identifies the winner (same arrêté: 300 EUR); 0 = never
	ClaimDays         int          // days from the closing notice, inclusive
	WeakLimit         money.Amount // a prize proven by a short secret is paid without central up to this; 0 = never
	AllowanceClaims   int64        // what central may leave unacknowledged at one terminal: claims; 0 = no bound of its own
	AllowanceMoney    money.Amount // the same in money; 0 = no bound of its own
	BookedRisk        money.Amount // a prize of a silent owner's pack is paid at central's risk up to this; 0 = never
	BookedRiskParty   string       // who bears the loss when it was paid twice; "" with BookedRisk 0
	CommissionSale    int          // what a shop keeps of the sale price of a settled pack, in hundredths of a percent
	CommissionPaid    int          // what it gets for the prizes it paid, in hundredths of a percent of them
	ResultSlips       ResultSlips  // for which checks a slip is printed; "" leaves it to the terminal's configuration
	unlimited         bool
}

// ResultSlips says for which checks a slip of the result is printed.
type ResultSlips string

const (
	// SlipsCentre offers one for tickets that the payment centre must see.
	SlipsCentre ResultSlips = "centre"
	// SlipsAsked offers one for every ticket.
	SlipsAsked ResultSlips = "asked"
	// SlipsEach prints one with every check of a whole code, and offers none.
	SlipsEach ResultSlips = "each"
)

// Known tells whether r is one of the three.
func (r ResultSlips) Known() bool { return r == SlipsCentre || r == SlipsAsked || r == SlipsEach }

// None is the policy of a question that asks none: a check with no daemon. Every winner is pay.
func None() Policy { return Policy{Version: "none", unlimited: true} }

const (
	maxVersion = 64
	maxParty   = 64
	maxAmount  = 1 << 53 // what a JSON number carries exactly
)

// Validate refuses limits that contradict themselves, naming them as configuration and
// policy files do.
func (p Policy) Validate() error {
	var errs []error
	need := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	need(isVersion(p.Version) && p.Version != None().Version, "version = %.80q: give the policy a name of its own, of 1 to %d letters, digits, - . and _", p.Version, maxVersion)
	need(isCurrency(p.Currency), "currency = %.20q: want three letters, as EUR", p.Currency)
	need(p.ShopLimit > 0 && p.ShopLimit <= maxAmount, "shop_limit_minor = %d: want more than 0", p.ShopLimit)
	for _, limit := range []struct {
		name   string
		amount int64
	}{{"confirm_cash_prize_minor", int64(p.ConfirmCashPrize)}, {"confirm_cash_total_minor", int64(p.ConfirmCashTotal)},
		{"identity_prize_minor", int64(p.IdentityPrize)}, {"identity_total_over_minor", int64(p.IdentityTotalOver)}, {"weak_limit_minor", int64(p.WeakLimit)},
		{"allowance_claims", p.AllowanceClaims}, {"allowance_minor", int64(p.AllowanceMoney)}, {"booked_risk_minor", int64(p.BookedRisk)}} {
		need(limit.amount >= 0 && limit.amount <= maxAmount, "%s = %d: want 0 (never) or more", limit.name, limit.amount)
	}
	need(p.BookedRisk <= p.ShopLimit, "booked_risk_minor = %d: no shop pays above shop_limit_minor = %d", p.BookedRisk, p.ShopLimit)
	need((p.BookedRisk > 0) == (p.BookedRiskParty != ""), "booked_risk_party = %.80q: name who bears the loss of a booked risk, and only then", p.BookedRiskParty)
	need(p.BookedRiskParty == "" || isParty(p.BookedRiskParty), "booked_risk_party = %.80q: want 1 to %d bytes on one line", p.BookedRiskParty, maxParty)
	for _, rate := range []struct {
		name  string
		parts int
	}{{"commission_sale", p.CommissionSale}, {"commission_paid", p.CommissionPaid}} {
		need(rate.parts >= 0 && rate.parts <= WholeRate, "%s = %d: want hundredths of a percent, 0 to %d", rate.name, rate.parts, WholeRate)
	}
	need(p.ResultSlips == "" || p.ResultSlips.Known(), "result_slips = %.20q: want \"centre\", \"asked\" or \"each\"", string(p.ResultSlips))
	need(p.ClaimDays >= 1 && p.ClaimDays <= 3650, "claim_days = %d: want 1 to 3650", p.ClaimDays)
	return errors.Join(errs...)
}

// ValidateSigned is Validate for a policy that is to be signed: it names its days.
func (p Policy) ValidateSigned() error {
	err := p.Validate()
	if !p.ValidFrom.exists() {
		err = errors.Join(err, fmt.Errorf("valid_from = %v: name the first day on which the policy holds, as 2001-04-01", p.ValidFrom))
	}
	if !p.ValidTo.IsZero() && (!p.ValidTo.exists() || p.ValidTo.Before(p.ValidFrom)) {
		err = errors.Join(err, fmt.Errorf("valid_to = %v: want a day not before valid_from = %v, or none", p.ValidTo, p.ValidFrom))
	}
	return err
}

func isVersion(s string) bool {
	for i, r := range s {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		if !letter && (i == 0 || r != '-' && r != '.' && r != '_') {
			return false
		}
	}
	return s != "" && len(s) <= maxVersion
}

func isCurrency(s string) bool {
	for _, r := range s {
		if r < 'A' || r > 'Z' {
			return false
		}
	}
	return len(s) == 3
}

// isParty tells whether s can stand on a line of its own; "-" there means nobody.
func isParty(s string) bool {
	for _, r := range s {
		if !unicode.IsPrint(r) || r == utf8.RuneError {
			return false
		}
	}
	return s != "-" && len(s) <= maxParty && strings.TrimSpace(s) == s
}

// WholeRate is 100 percent, in the unit of commissions.
const WholeRate = 10_000

// AboveShopLimit tells whether a prize is for the payment centre.
func (p Policy) AboveShopLimit(a money.Amount, currency string) bool {
	return !p.unlimited && (a > p.ShopLimit || currency != p.Currency)
}

// PaysWeak tells whether a prize proven by a short secret may be paid without asking central.
func (p Policy) PaysWeak(a money.Amount) bool { return p.unlimited || a <= p.WeakLimit }

// BooksRisk tells whether a prize of another terminal's pack may be paid although nobody
// can say that it was not paid there: at the risk of BookedRiskParty.
func (p Policy) BooksRisk(a money.Amount) bool { return p.BookedRisk > 0 && a <= p.BookedRisk }

// ConfirmsCash tells whether one prize asks the clerk to confirm the cash first.
func (p Policy) ConfirmsCash(a money.Amount) bool {
	return p.ConfirmCashPrize > 0 && a >= p.ConfirmCashPrize
}

// ConfirmsCashTotal tells whether the total of a batch asks the clerk to confirm the cash.
func (p Policy) ConfirmsCashTotal(total money.Amount) bool {
	return p.ConfirmCashTotal > 0 && total >= p.ConfirmCashTotal
}

// AsksIdentityTotal tells whether the total of a transaction of so many prizes needs the
// winner's identity: from one limit on for any, over a lower one for several.
func (p Policy) AsksIdentityTotal(total money.Amount, prizes int) bool {
	return p.AsksIdentity(total) || prizes > 1 && p.IdentityTotalOver > 0 && total > p.IdentityTotalOver
}

// AsksIdentity tells whether one prize needs the winner's identity: at the limit, not only above it.
func (p Policy) AsksIdentity(a money.Amount) bool {
	return p.IdentityPrize > 0 && a >= p.IdentityPrize
}

// ClaimPeriodOver tells whether, at a trusted time, the prizes of an emission closed
// on a date can no longer be claimed. The day is the day in Paris. A policy that sets no
// claim period ends none.
func (p Policy) ClaimPeriodOver(closed Date, trusted time.Time) bool {
	return p.ClaimDays > 0 && LastClaimDay(closed, p.ClaimDays).Before(DayInParis(trusted))
}

// DayInParis is the calendar day in Paris at t: an hour ahead of UTC, two from the last
// Sunday of March to that of October, changing at 01:00 UTC (directive 2000/84/EC; so
// since 1996). It is computed, because a machine with old zone files, or none, would end
// the period of somebody's prize at another hour.
func DayInParis(t time.Time) Date {
	t = t.UTC()
	ahead := time.Hour
	if !t.Before(lastSunday(t.Year(), time.March)) && t.Before(lastSunday(t.Year(), time.October)) {
		ahead = 2 * time.Hour
	}
	return DateOf(t.Add(ahead))
}

// lastSunday is 01:00 UTC on the last Sunday of a month of 31 days.
func lastSunday(year int, month time.Month) time.Time {
	end := time.Date(year, month, 31, 1, 0, 0, 0, time.UTC)
	return end.AddDate(0, 0, -int(end.Weekday()))
}

// Date is a calendar day with no zone. The zero Date is no date.
type Date struct {
	Year  int
	Month time.Month
	Day   int
}

// DateOf is the calendar day of t in t's own zone.
func DateOf(t time.Time) Date {
	y, m, d := t.Date()
	return Date{y, m, d}
}

// ParseDate reads YYYY-MM-DD, a day that exists.
func ParseDate(s string) (Date, error) {
	t, err := time.Parse(time.DateOnly, s)
	if err != nil {
		return Date{}, fmt.Errorf("date %.20q: want a day as 2001-04-01", s)
	}
	return DateOf(t), nil
}

func (d Date) String() string { return fmt.Sprintf("%04d-%02d-%02d", d.Year, d.Month, d.Day) }

// exists tells whether d is a day of the calendar, of the years 1 to 9999.
func (d Date) exists() bool { return d.Year >= 1 && d.Year <= 9999 && d == DateOf(d.noon()) }

// IsZero tells whether d is no date.
func (d Date) IsZero() bool { return d == Date{} }

// Add gives the day n days later.
func (d Date) Add(n int) Date { return DateOf(d.noon().AddDate(0, 0, n)) }

// Before tells whether d is an earlier day than e.
func (d Date) Before(e Date) bool { return d.noon().Before(e.noon()) }

func (d Date) noon() time.Time { return time.Date(d.Year, d.Month, d.Day, 12, 0, 0, 0, time.UTC) }

// LastClaimDay is the last day, itself included, on which a prize of an emission may be
// claimed: so many days after that of the closing notice; a last day that is a Sunday or
// a French public holiday moves to the next day that is neither (règlement général,
// article 10). It moves by two days at most, as 8 May 2027, a Saturday, to the 10th.
func LastClaimDay(closed Date, days int) Date {
	last := closed.Add(days)
	for last.noon().Weekday() == time.Sunday || Holiday(last) {
		last = last.Add(1)
	}
	return last
}

// Holiday tells whether d is a public holiday in all of metropolitan France (Code du
// travail, article L3133-1). Good Friday and 26 December, which are holidays in Alsace and
// Moselle alone, and those of overseas are none here: the period ends on one day for all.
func Holiday(d Date) bool {
	switch (Date{0, d.Month, d.Day}) {
	case Date{0, time.January, 1}, Date{0, time.May, 1}, Date{0, time.May, 8}, Date{0, time.July, 14},
		Date{0, time.August, 15}, Date{0, time.November, 1}, Date{0, time.November, 11}, Date{0, time.December, 25}:
		return true
	}
	easter := Easter(d.Year)
	return d == easter.Add(1) || d == easter.Add(39) || d == easter.Add(50)
}

// Easter is Easter Sunday of a year of the Gregorian calendar, by the method of Nature,
// 20 April 1876, as the New Scientist shortened it on 30 March 1961.
func Easter(year int) Date {
	a, b, c := year%19, year/100, year%100
	d, e := b/4, b%4
	g := (8*b + 13) / 25
	h := (19*a + b - d - g + 15) % 30
	i, k := c/4, c%4
	l := (32 + 2*e + 2*i - h - k) % 7
	m := (a + 11*h + 19*l) / 433
	n := (h + l - 7*m + 90) / 25
	return Date{year, time.Month(n), (h + l - 7*m + 33*n + 19) % 32}
}
