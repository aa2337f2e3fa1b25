package policy

import (
	"maps"
	"testing"
	"time"
)

// paschal are the days of the ecclesiastical full moon of 1900 to 2199 by golden number,
// as March days, from the table of the Book of Common Prayer: another way to Easter than
// the one under test.
var paschal = [19]int{45, 34, 23, 42, 31, 49, 39, 28, 47, 36, 25, 44, 33, 22, 41, 30, 48, 38, 27}

// easterByTable is the Sunday after the paschal full moon.
func easterByTable(year int) time.Time {
	moon := time.Date(year, time.March, paschal[year%19], 0, 0, 0, 0, time.UTC)
	return moon.AddDate(0, 0, 7-int(moon.Weekday()))
}

// holidaysByTable lists the public holidays of a year by day.
func holidaysByTable(year int) map[string]bool {
	days := map[string]bool{}
	for _, fixed := range []string{"01-01", "05-01", "05-08", "07-14", "08-15", "11-01", "11-11", "12-25"} {
		days[time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC).Format("2006-")+fixed] = true
	}
	for _, after := range []int{1, 39, 50} { // Easter Monday, Ascension Day, Whit Monday
		days[easterByTable(year).AddDate(0, 0, after).Format(time.DateOnly)] = true
	}
	return days
}

func TestHolidaysOf2001To2050(t *testing.T) {
	for year := 2001; year <= 2050; year++ {
		want, found := holidaysByTable(year), 0
		for d := (Date{year, time.January, 1}); d.Year == year; d = d.Add(1) {
			if Holiday(d) != want[d.String()] {
				t.Errorf("%s: holiday = %v", d, Holiday(d))
			}
			if Holiday(d) {
				found++
			}
		}
		if found != len(want) || found < 10 {
			t.Errorf("%d: %d holidays", year, found)
		}
	}
}

func TestEasterByTwoWaysAgrees(t *testing.T) {
	for year := 1900; year < 2200; year++ {
		if got := Easter(year); got != DateOf(easterByTable(year)) {
			t.Errorf("Easter %s by computation, %s by the table", got, DateOf(easterByTable(year)))
		}
	}
}

// TestLastClaimDayOfEveryClosingDay walks the calendar with time.Time and the table.
func TestLastClaimDayOfEveryClosingDay(t *testing.T) {
	furthest, holidays := 0, map[string]bool{}
	for year := 2001; year <= 2051; year++ {
		maps.Copy(holidays, holidaysByTable(year))
	}
	for closed := time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC); closed.Year() <= 2050; closed = closed.AddDate(0, 0, 1) {
		last := closed.AddDate(0, 0, 30)
		moved := 0
		for ; last.Weekday() == time.Sunday || holidays[last.Format(time.DateOnly)]; moved++ {
			last = last.AddDate(0, 0, 1)
		}
		if got := LastClaimDay(DateOf(closed), 30); got != DateOf(last) {
			t.Fatalf("closed %s: payable to %s, by the table to %s", DateOf(closed), got, DateOf(last))
		}
		furthest = max(furthest, moved)
	}
	if furthest != 2 {
		t.Errorf("a last day moved by %d days", furthest)
	}
}

func TestLastDayThatIsAHolidayMovesToTheNextWorkingDay(t *testing.T) {
	for _, c := range []struct{ last, moved, why string }{
		{"2001-05-01", "2001-05-02", "the vector: closed 1 April 2001, 1 May is a holiday"},
		{"2026-03-28", "2026-03-28", "a Saturday is a working day"},
		{"2026-03-29", "2026-03-30", "a Sunday"},
		{"2026-04-05", "2026-04-07", "Easter Sunday, then Easter Monday"},
		{"2010-05-23", "2010-05-25", "Whit Sunday, then Whit Monday"},
		{"2026-05-14", "2026-05-15", "Ascension Day, a Thursday"},
		{"2008-05-01", "2008-05-02", "1 May and Ascension Day in one"},
		{"2011-05-01", "2011-05-02", "1 May on a Sunday"},
		{"2021-05-01", "2021-05-03", "1 May on a Saturday, then a Sunday"},
		{"2027-05-08", "2027-05-10", "8 May on a Saturday, then a Sunday"},
		{"2013-05-08", "2013-05-10", "8 May, then Ascension Day on the 9th"},
		{"2005-05-15", "2005-05-17", "Whit Sunday, then Whit Monday on the 16th"},
		{"2022-12-25", "2022-12-26", "Christmas on a Sunday; 26 December is no holiday"},
		{"2022-12-31", "2022-12-31", "the last day of the year, a Saturday"},
		{"2023-01-01", "2023-01-02", "New Year on a Sunday"},
		{"2026-04-03", "2026-04-03", "Good Friday is no holiday but in Alsace and Moselle"},
	} {
		closed := date(t, c.last).Add(-30)
		if got := LastClaimDay(closed, 30).String(); got != c.moved {
			t.Errorf("%s (%s): closed %s, payable to %s, not %s", c.last, c.why, closed, got, c.moved)
		}
	}
}

func TestDayInParisIsThatOfTheZoneFiles(t *testing.T) {
	zone, err := time.LoadLocation("Europe/Paris")
	if err != nil {
		t.Fatal(err)
	}
	for hour := time.Date(1996, 1, 1, 0, 0, 0, 0, time.UTC); hour.Year() <= 2050; hour = hour.Add(time.Hour) {
		if m := hour.Month(); m != time.March && m != time.October && (hour.Hour() < 21 || hour.Day() > 3) {
			continue // nothing changes in between
		}
		for _, at := range []time.Time{hour, hour.Add(-time.Second)} {
			if got, want := DayInParis(at), DateOf(at.In(zone)); got != want {
				t.Fatalf("%s: %s in Paris, computed %s", at, want, got)
			}
		}
	}
}

func TestPolicyWithoutClaimPeriodEndsNone(t *testing.T) {
	for _, p := range []Policy{{}, None()} {
		if p.ClaimPeriodOver(date(t, "2001-04-01"), time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)) {
			t.Errorf("%q refuses as expired", p.Version)
		}
	}
}
