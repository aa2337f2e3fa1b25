package policy

import (
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"grattoir/validate/money"
)

func example() Policy {
	return Policy{Version: "2026-3", ValidFrom: Date{2026, 12, 1}, ValidTo: Date{2027, 11, 30}, Currency: "EUR", ShopLimit: 30000,
		ConfirmCashPrize: 10000, ConfirmCashTotal: 12000, IdentityPrize: 200000, IdentityTotalOver: 30001, ClaimDays: 31, WeakLimit: 500,
		AllowanceClaims: 400, AllowanceMoney: 1500000, BookedRisk: 2000, BookedRiskParty: "Loterie d'essai"}
}

const exampleText = `grattoir policy v1
version 2026-3
valid-from 2026-12-01
valid-to 2027-11-30
currency EUR
claim-days 31
shop-limit 30000
confirm-cash-prize 10000
confirm-cash-total 12000
identity-prize 200000
identity-total-over 30001
weak-limit 500
allowance-claims 400
allowance 1500000
booked-risk 2000
booked-risk-party Loterie d'essai
`

// TestTextIsThePublishedOne fixes the bytes: policies signed by this version are read by
// all later ones.
func TestTextIsThePublishedOne(t *testing.T) {
	if got := example().Text(); got != exampleText {
		t.Errorf("%s", got)
	}
	p, err := Parse(exampleText)
	if err != nil || p != example() {
		t.Errorf("%+v %v", p, err)
	}
	open := example()
	open.ValidTo, open.BookedRisk, open.BookedRiskParty = Date{}, 0, ""
	for _, line := range []string{"\nvalid-to -\n", "\nbooked-risk 0\nbooked-risk-party -\n"} {
		if !strings.Contains(open.Text(), line) {
			t.Errorf("%q is not in\n%s", line, open.Text())
		}
	}
	if p, err := Parse(open.Text()); err != nil || p != open {
		t.Errorf("%+v %v", p, err)
	}
}

// TestTextOfVersion2NamesCommissions: a policy without any is written as the first version
// wrote it, and nothing else is.
func TestTextOfVersion2NamesCommissions(t *testing.T) {
	rated := example()
	rated.CommissionSale, rated.CommissionPaid = 500, 100
	want := strings.Replace(exampleText, "policy v1", "policy v2", 1) + "commission-sale 500\ncommission-paid 100\n"
	if got := rated.Text(); got != want {
		t.Errorf("%s", got)
	}
	if p, err := Parse(want); err != nil || p != rated {
		t.Errorf("%+v %v", p, err)
	}
	for _, text := range []string{exampleText + "commission-sale 500\ncommission-paid 100\n", strings.NewReplacer("-sale 500", "-sale 0", "-paid 100", "-paid 0").Replace(want),
		strings.Replace(want, "-sale 500", "-sale 10001", 1), strings.Replace(want, "commission-paid 100\n", "", 1)} {
		if p, err := Parse(text); err == nil {
			t.Errorf("taken as %+v:\n%s", p, text)
		}
	}
}

// TestTextOfVersion3NamesResultSlips: with or without commissions, and nothing else is of it.
func TestTextOfVersion3NamesResultSlips(t *testing.T) {
	slips := example()
	slips.ResultSlips = SlipsEach
	want := strings.Replace(exampleText, "policy v1", "policy v3", 1) + "commission-sale 0\ncommission-paid 0\nresult-slips each\n"
	if got := slips.Text(); got != want {
		t.Errorf("%s", got)
	}
	if p, err := Parse(want); err != nil || p != slips {
		t.Errorf("%+v %v", p, err)
	}
	for _, text := range []string{strings.Replace(want, "slips each", "slips some", 1), strings.Replace(want, "slips each", "slips ", 1), strings.Replace(want, "result-slips each\n", "", 1),
		strings.Replace(want, "policy v3", "policy v2", 1)} {
		if p, err := Parse(text); err == nil {
			t.Errorf("taken as %+v:\n%s", p, text)
		}
	}
}

// TestTextCarriesEveryField changes each field of a policy: none may be left out of what
// is signed.
func TestTextCarriesEveryField(t *testing.T) {
	fields := reflect.TypeFor[Policy]()
	for i := range fields.NumField() {
		if fields.Field(i).Name == "unlimited" {
			continue // None alone has it, which is never signed
		}
		p := example()
		f := reflect.ValueOf(&p).Elem().Field(i)
		switch f.Interface().(type) {
		case string:
			f.SetString("XAF") // good for each of them
		case ResultSlips:
			f.SetString(string(SlipsAsked))
		case int, int64, money.Amount:
			f.SetInt(f.Int() + 1)
		case Date:
			f.Set(reflect.ValueOf(f.Interface().(Date).Add(-1)))
		default:
			t.Errorf("field %s: this test cannot change it", fields.Field(i).Name)
			continue
		}
		got, err := Parse(p.Text())
		if err != nil || got != p || got == example() {
			t.Errorf("field %s is not carried: %+v %v", fields.Field(i).Name, got, err)
		}
	}
}

func TestParseRefusesWhatTextDoesNotWrite(t *testing.T) {
	for name, edit := range map[string]func(string) string{
		"empty":            func(string) string { return "" },
		"another file":     func(s string) string { return strings.Replace(s, "policy v1", "manifest v1", 1) },
		"a newer format":   func(s string) string { return strings.Replace(s, "policy v1", "policy v2", 1) },
		"no newline":       func(s string) string { return strings.TrimSuffix(s, "\n") },
		"something behind": func(s string) string { return s + "note x\n" },
		"carriage returns": func(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") },
		"a line missing":   func(s string) string { return strings.Replace(s, "weak-limit 500\n", "", 1) },
		"a line twice": func(s string) string {
			return strings.Replace(s, "weak-limit 500\n", "weak-limit 500\nweak-limit 500\n", 1)
		},
		"another order": func(s string) string {
			return strings.Replace(s, "weak-limit 500\nallowance-claims 400", "allowance-claims 400\nweak-limit 500", 1)
		},
		"two spaces":          func(s string) string { return strings.Replace(s, "weak-limit 500", "weak-limit  500", 1) },
		"leading zero":        func(s string) string { return strings.Replace(s, "weak-limit 500", "weak-limit 0500", 1) },
		"a sign":              func(s string) string { return strings.Replace(s, "weak-limit 500", "weak-limit +500", 1) },
		"negative":            func(s string) string { return strings.Replace(s, "weak-limit 500", "weak-limit -500", 1) },
		"too large":           func(s string) string { return strings.Replace(s, "shop-limit 30000", "shop-limit 9007199254740993", 1) },
		"days beyond 32 bits": func(s string) string { return strings.Replace(s, "claim-days 31", "claim-days 4294967327", 1) },
		"no claim period":     func(s string) string { return strings.Replace(s, "claim-days 31", "claim-days 0", 1) },
		"no limit":            func(s string) string { return strings.Replace(s, "shop-limit 30000", "shop-limit 0", 1) },
		"no such day":         func(s string) string { return strings.Replace(s, "2027-11-30", "2027-11-31", 1) },
		"no first day":        func(s string) string { return strings.Replace(s, "valid-from 2026-12-01", "valid-from -", 1) },
		"ends before":         func(s string) string { return strings.Replace(s, "2027-11-30", "2026-11-30", 1) },
		"version none":        func(s string) string { return strings.Replace(s, "2026-3", "none", 1) },
		"version with blank":  func(s string) string { return strings.Replace(s, "2026-3", "2026 3", 1) },
		"version like a flag": func(s string) string { return strings.Replace(s, "2026-3", "-3", 1) },
		"version empty":       func(s string) string { return strings.Replace(s, "2026-3", "", 1) },
		"currency":            func(s string) string { return strings.Replace(s, "EUR", "eur", 1) },
		"risk without party":  func(s string) string { return strings.Replace(s, "Loterie d'essai", "-", 1) },
		"party without risk":  func(s string) string { return strings.Replace(s, "booked-risk 2000", "booked-risk 0", 1) },
		"risk above limit":    func(s string) string { return strings.Replace(s, "booked-risk 2000", "booked-risk 30001", 1) },
		"party with a tab":    func(s string) string { return strings.Replace(s, "Loterie d'essai", "Loterie\td'essai", 1) },
		"party not UTF-8":     func(s string) string { return strings.Replace(s, "Loterie d'essai", "Loterie\xff", 1) },
		"party ends blank":    func(s string) string { return strings.Replace(s, "Loterie d'essai", "Loterie ", 1) },
		"endless":             func(s string) string { return s + strings.Repeat("x", MaxText) },
	} {
		text := edit(exampleText)
		if text == exampleText {
			t.Errorf("%s: the edit changes nothing", name)
		}
		if p, err := Parse(text); err == nil || p != (Policy{}) {
			t.Errorf("%s: accepted as %+v", name, p)
		}
	}
}

// drawPolicy draws a policy that may be signed.
func drawPolicy(t *rapid.T) Policy {
	amount := func(name string) money.Amount { return money.Amount(rapid.Int64Range(0, maxAmount).Draw(t, name)) }
	p := Policy{Version: rapid.StringMatching(`[a-zA-Z0-9][a-zA-Z0-9._-]{0,20}`).Filter(func(s string) bool { return s != "none" }).Draw(t, "version"),
		ValidFrom: Date{2001, 1, 1}.Add(rapid.IntRange(0, 20000).Draw(t, "from")), Currency: rapid.StringMatching(`[A-Z]{3}`).Draw(t, "currency"),
		ShopLimit: max(1, amount("shop limit")), ConfirmCashPrize: amount("cash prize"), ConfirmCashTotal: amount("cash total"),
		IdentityPrize: amount("identity prize"), IdentityTotalOver: amount("identity total"), WeakLimit: amount("weak"),
		ClaimDays: rapid.IntRange(1, 3650).Draw(t, "claim days"), AllowanceClaims: int64(amount("allowance claims")), AllowanceMoney: amount("allowance")}
	if rapid.Bool().Draw(t, "rates") {
		p.CommissionSale, p.CommissionPaid = rapid.IntRange(0, WholeRate).Draw(t, "sale"), rapid.IntRange(0, WholeRate).Draw(t, "paid")
	}
	if rapid.Bool().Draw(t, "ends") {
		p.ValidTo = p.ValidFrom.Add(rapid.IntRange(0, 1000).Draw(t, "days"))
	}
	if rapid.Bool().Draw(t, "risk") {
		p.BookedRisk = money.Amount(rapid.Int64Range(1, int64(p.ShopLimit)).Draw(t, "booked risk"))
		p.BookedRiskParty = rapid.StringMatching(`[A-Za-zéàç][A-Za-z éàç.]{0,10}[A-Za-z]`).Draw(t, "party")
	}
	return p
}

func TestParseReadsWhatTextWrites(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPolicy(t)
		if err := p.ValidateSigned(); err != nil {
			t.Fatalf("not valid: %v", err)
		}
		if got, err := Parse(p.Text()); err != nil || got != p {
			t.Fatalf("%+v %v", got, err)
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add(exampleText)
	open := example()
	open.ValidTo, open.BookedRisk, open.BookedRiskParty = Date{}, 0, ""
	f.Add(open.Text())
	f.Add("")
	f.Add(strings.Replace(exampleText, "-", "—", 1))
	f.Fuzz(func(t *testing.T, text string) {
		p, err := Parse(text)
		if err != nil {
			if p != (Policy{}) {
				t.Fatalf("an error and a policy: %+v", p)
			}
			return
		}
		if p.Text() != text || p.ValidateSigned() != nil || p.AboveShopLimit(p.ShopLimit, p.Currency) || !p.AboveShopLimit(p.ShopLimit+1, p.Currency) {
			t.Fatalf("accepted, and means something else: %+v", p)
		}
	})
}

func TestValidateNamesEveryFaultAtOnce(t *testing.T) {
	p := Policy{Version: "none", Currency: "EURO", ShopLimit: -1, WeakLimit: -1, BookedRisk: 5, ValidTo: Date{2026, 1, 1}}
	err := p.ValidateSigned()
	if err == nil {
		t.Fatal("accepted")
	}
	for _, name := range []string{"version = ", "currency = ", "shop_limit_minor = ", "weak_limit_minor = ", "booked_risk_minor = ", "booked_risk_party = ", "claim_days = ", "valid_from = "} {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("%s is not named in:\n%v", name, err)
		}
	}
}

func TestWhatTextCouldNotCarryIsNotValid(t *testing.T) {
	for name, edit := range map[string]func(*Policy){
		"nobody as a party": func(p *Policy) { p.BookedRiskParty = "-" },
		"an amount too big": func(p *Policy) { p.IdentityPrize = maxAmount + 1 },
		"claims too many":   func(p *Policy) { p.AllowanceClaims = maxAmount + 1 },
		"no such first day": func(p *Policy) { p.ValidFrom = Date{2026, 2, 30} },
		"no such last day":  func(p *Policy) { p.ValidTo = Date{2027, 2, 30} },
		"year 10000":        func(p *Policy) { p.ValidTo = Date{10000, 1, 1} },
		"two lines":         func(p *Policy) { p.BookedRiskParty = "a\nweak-limit 1" },
	} {
		p := example()
		edit(&p)
		if p.ValidateSigned() == nil {
			t.Errorf("%s: valid", name)
		}
	}
}
