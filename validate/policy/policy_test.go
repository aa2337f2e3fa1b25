package policy

import (
	"testing"
	"time"
	_ "time/tzdata" // the rule is Paris's on every machine
)

func date(t *testing.T, s string) Date {
	t.Helper()
	d, err := ParseDate(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestClaimPeriodOfSaintValentin2001(t *testing.T) {
	// Emission closed 1 April 2001, payable to 2 May 2001: 30 days end on 1 May, a holiday.
	if got := LastClaimDay(date(t, "2001-04-01"), 30).String(); got != "2001-05-02" {
		t.Fatalf("payable to %s", got)
	}
}

func TestClaimPeriodEndsWithTheDayInParis(t *testing.T) {
	p := Policy{Version: "1", Currency: "EUR", ShopLimit: 1, ClaimDays: 30}
	closed := date(t, "2001-04-01")
	zone, err := time.LoadLocation("Europe/Paris")
	if err != nil {
		t.Fatal(err)
	}
	if p.ClaimPeriodOver(closed, time.Date(2001, 5, 2, 23, 59, 59, 0, zone)) {
		t.Error("over before the last day has ended")
	}
	if !p.ClaimPeriodOver(closed, time.Date(2001, 5, 3, 0, 0, 0, 0, zone)) {
		t.Error("not over on the day after")
	}
}

func TestEasterOfKnownYears(t *testing.T) {
	for _, want := range []string{"1818-03-22", "1943-04-25", "2000-04-23", "2001-04-15", "2008-03-23", "2011-04-24", "2024-03-31", "2026-04-05", "2038-04-25"} {
		if got := Easter(date(t, want).Year); got.String() != want {
			t.Errorf("Easter is %s, computed %s", want, got)
		}
	}
}

func TestHolidaysOf2026(t *testing.T) {
	want := map[string]bool{"2026-01-01": true, "2026-04-06": true, "2026-05-01": true, "2026-05-08": true, "2026-05-14": true, "2026-05-25": true,
		"2026-07-14": true, "2026-08-15": true, "2026-11-01": true, "2026-11-11": true, "2026-12-25": true}
	for d := date(t, "2026-01-01"); d.Year == 2026; d = d.Add(1) {
		if Holiday(d) != want[d.String()] {
			t.Errorf("%s: holiday = %v", d, Holiday(d))
		}
	}
}

func TestLimitsAreInclusiveAsTheLawSays(t *testing.T) {
	p := Policy{Version: "1", Currency: "EUR", ShopLimit: 30000, ConfirmCashPrize: 10000, IdentityPrize: 200000, ClaimDays: 30}
	if p.AboveShopLimit(30000, "EUR") || !p.AboveShopLimit(30001, "EUR") || !p.AboveShopLimit(100, "BEF") {
		t.Error("a shop pays up to its limit, inclusive, in its own currency")
	}
	if !p.ConfirmsCash(10000) || p.ConfirmsCash(9999) || !p.AsksIdentity(200000) || p.AsksIdentity(199999) {
		t.Error("confirmation and identity begin at the limit itself")
	}
}

func TestZeroPolicyPaysNothing(t *testing.T) {
	if !(Policy{}).AboveShopLimit(1, "EUR") {
		t.Fatal("the zero policy lets a prize through")
	}
	if (Policy{}).Validate() == nil {
		t.Fatal("the zero policy is valid")
	}
}
