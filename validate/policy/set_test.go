package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// dated is a policy of a version that holds from one day to another, "" for no end.
func dated(t testing.TB, version, from, to string) Policy {
	t.Helper()
	p := example()
	p.Version, p.ValidTo = version, Date{}
	var err error
	if p.ValidFrom, err = ParseDate(from); err != nil {
		t.Fatal(err)
	}
	if to != "" {
		if p.ValidTo, err = ParseDate(to); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// at is noon in Paris on a day.
func at(d Date) time.Time { return d.noon().Add(-time.Hour) }

func day(t testing.TB, s string) time.Time {
	t.Helper()
	d, err := ParseDate(s)
	if err != nil {
		t.Fatal(err)
	}
	return at(d)
}

func accept(t testing.TB, s *Set, list ...Policy) {
	t.Helper()
	for _, p := range list {
		if err := s.Accept(p); err != nil {
			t.Fatal(err)
		}
	}
}

func TestNewestVersionWhoseDaysHoldIsInForce(t *testing.T) {
	var s Set
	accept(t, &s, dated(t, "v10", "2026-06-01", "2026-06-30"), dated(t, "v9", "2026-01-01", "2026-12-31"), dated(t, "v11", "2027-02-01", ""))
	for _, c := range []struct {
		day, version string
		err          error
	}{
		{"2025-12-31", "", ErrNone}, {"2026-01-01", "v9", nil}, {"2026-05-31", "v9", nil}, {"2026-06-01", "v10", nil}, {"2026-06-30", "v10", nil},
		{"2026-07-01", "v9", nil}, {"2026-12-31", "v9", nil}, {"2027-01-01", "", ErrGap}, {"2027-01-31", "", ErrGap}, {"2027-02-01", "v11", nil}, {"2099-01-01", "v11", nil},
	} {
		if p, err := s.InForce(day(t, c.day)); p.Version != c.version || !errors.Is(err, c.err) {
			t.Errorf("%s: %q %v, not %q %v", c.day, p.Version, err, c.version, c.err)
		}
	}
}

func TestPolicyBeginsAndEndsWithTheDayInParis(t *testing.T) {
	var s Set
	accept(t, &s, dated(t, "v1", "2026-07-01", "2026-07-31"))
	for _, c := range []struct {
		utc string
		err error
	}{{"2026-06-30 21:59", ErrNone}, {"2026-06-30 22:00", nil}, {"2026-07-31 21:59", nil}, {"2026-07-31 22:00", ErrGap}} {
		moment, err := time.Parse("2006-01-02 15:04", c.utc)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.InForce(moment); !errors.Is(err, c.err) {
			t.Errorf("%s UTC: %v, not %v", c.utc, err, c.err)
		}
	}
}

func TestUnknownTimeSwitchesNoLimits(t *testing.T) {
	var s Set
	if _, err := s.InForce(time.Time{}); !errors.Is(err, ErrNone) {
		t.Fatal(err)
	}
	version := func(want string) {
		t.Helper()
		if p, err := s.InForce(time.Time{}); p.Version != want || err != nil {
			t.Fatalf("with no trusted time %q %v is in force, not %q", p.Version, err, want)
		}
	}
	accept(t, &s, dated(t, "v1", "2026-01-01", "2026-12-31"))
	version("v1")
	accept(t, &s, dated(t, "v2", "2027-01-01", ""))
	version("v2") // nobody knows the day: what was accepted last
	accept(t, &s, dated(t, "v0", "2026-01-01", ""))
	version("v2") // an old version that came late is not newer

	if p, _ := s.InForce(day(t, "2026-11-30")); p.Version != "v1" {
		t.Fatal(p.Version)
	}
	version("v1") // the day was known once: its answer stays
	accept(t, &s, dated(t, "v2", "2027-01-01", ""))
	version("v1") // the same file again is no news
	if _, err := s.InForce(day(t, "2025-06-01")); !errors.Is(err, ErrNone) {
		t.Fatal(err)
	}
	if _, err := s.InForce(time.Time{}); !errors.Is(err, ErrNone) {
		t.Fatal(err)
	}
	accept(t, &s, dated(t, "v3", "2026-01-01", ""))
	version("v3")
}

func TestSetRefusesTwoPoliciesOfOneVersion(t *testing.T) {
	var s Set
	first := dated(t, "v1", "2026-01-01", "")
	other := first
	other.ShopLimit++
	accept(t, &s, first, first)
	if err := s.Accept(other); !errors.Is(err, ErrVersion) || !strings.Contains(err.Error(), "v1") {
		t.Fatal(err)
	}
	if list := s.List(); len(list) != 1 || list[0] != first {
		t.Fatalf("%+v", list)
	}
	if err := s.Accept(Policy{}); err == nil {
		t.Fatal("the zero policy is accepted")
	}
	undated := first
	undated.Version, undated.ValidFrom = "v2", Date{}
	if err := s.Accept(undated); err == nil {
		t.Fatal("a policy without a first day is accepted")
	}
	if err := s.Accept(None()); err == nil {
		t.Fatal("a policy without limits is accepted")
	}
}

func TestSetNamesGapsAndOverlaps(t *testing.T) {
	var s Set
	accept(t, &s, dated(t, "v1", "2026-01-01", "2026-03-31"), dated(t, "v2", "2026-03-30", "2026-06-30"), dated(t, "v3", "2026-07-01", "2026-08-31"), dated(t, "v4", "2026-09-02", "2026-12-31"))
	want := []string{"gap: no policy holds from 2026-09-01 to 2026-09-01", "gap: no policy holds from 2027-01-01 on",
		"overlap: v1 and v2 both hold from 2026-03-30 to 2026-03-31, v2 counts"}
	if got := words(s); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	accept(t, &s, dated(t, "v5", "2026-09-01", ""))
	want = []string{"overlap: v1 and v2 both hold from 2026-03-30 to 2026-03-31, v2 counts", "overlap: v4 and v5 both hold from 2026-09-02 to 2026-12-31, v5 counts"}
	if got := words(s); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if got := words(Set{}); len(got) > 0 {
		t.Errorf("an empty set: %q", got)
	}
}

func words(s Set) []string {
	var out []string
	for _, f := range s.Findings() {
		out = append(out, f.String())
	}
	return out
}

// TestEveryDayOfASetIsExplained asks a random set day by day: who is in force, and whether
// the findings name the day, by the plainest rules there are.
func TestEveryDayOfASetIsExplained(t *testing.T) {
	begin := Date{2026, 1, 1}
	rapid.Check(t, func(t *rapid.T) {
		var s Set
		for i := range rapid.IntRange(1, 6).Draw(t, "policies") {
			p := example()
			p.Version, p.ValidFrom, p.ValidTo = fmt.Sprintf("v%d", i+7), begin.Add(rapid.IntRange(0, 60).Draw(t, "from")), Date{}
			if rapid.IntRange(0, 3).Draw(t, "ends") > 0 {
				p.ValidTo = p.ValidFrom.Add(rapid.IntRange(0, 20).Draw(t, "days"))
			}
			if err := s.Accept(p); err != nil {
				t.Fatal(err)
			}
		}
		findings, begun := s.Findings(), false
		for d := begin; d.Before(begin.Add(100)); d = d.Add(1) {
			var holding []string // oldest version first, as v7 to v12 were accepted
			for _, p := range s.List() {
				if !d.Before(p.ValidFrom) && (p.ValidTo.IsZero() || !p.ValidTo.Before(d)) {
					holding = append(holding, p.Version)
				}
			}
			begun = begun || len(holding) > 0
			p, err := s.InForce(at(d))
			switch {
			case len(holding) > 0 && (err != nil || p.Version != holding[len(holding)-1]):
				t.Fatalf("%v: %s %v in force, of %v", d, p.Version, err, holding)
			case len(holding) == 0 && (p != (Policy{}) || errors.Is(err, ErrGap) != begun || errors.Is(err, ErrNone) == begun):
				t.Fatalf("%v: %s %v, none holds, begun %v", d, p.Version, err, begun)
			}
			gaps, pairs := 0, 0
			for _, f := range findings {
				if d.Before(f.From) || !f.To.IsZero() && f.To.Before(d) {
					continue
				}
				if f.Kind == Gap {
					gaps++
				} else if pairs++; !slices.Contains(holding, f.Older) || !slices.Contains(holding, f.Newer) || !Newer(f.Newer, f.Older) {
					t.Fatalf("%v: %v, holding %v", d, f, holding)
				}
			}
			if n := len(holding); pairs != n*(n-1)/2 || (gaps == 1) != (begun && n == 0) || gaps > 1 {
				t.Fatalf("%v: %d gaps and %d overlaps named, holding %v", d, gaps, pairs, holding)
			}
		}
	})
}

func TestNewerReadsNumbersAsNumbers(t *testing.T) {
	order := []string{"01", "1", "01.1", "1.2", "1.10", "2", "2026-2", "2026-10", "2026-10b", "2027", "10000", "a", "a1", "a2", "a10", "a10-1", "b", "p1"}
	for i, older := range order {
		for j, newer := range order {
			if Newer(newer, older) != (j > i) {
				t.Errorf("Newer(%s, %s) = %v", newer, older, j <= i)
			}
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.StringMatching(`[a1][a01.-]{0,4}`)
		a, b, c := v.Draw(t, "a"), v.Draw(t, "b"), v.Draw(t, "c")
		if Newer(a, a) || a != b && Newer(a, b) == Newer(b, a) || Newer(a, b) && Newer(b, c) && !Newer(a, c) {
			t.Fatalf("%q, %q and %q have no order", a, b, c)
		}
	})
}

func TestStartWithoutTheTimeGoesOnAsTheLastRunEnded(t *testing.T) {
	first, second := dated(t, "v1", "2026-01-01", "2026-12-31"), dated(t, "v2", "2027-02-01", "")
	for _, c := range []struct {
		day, version string // "" for no trusted time in the last run
		err          error
	}{{"2025-12-31", "", ErrNone}, {"2026-06-01", "v1", nil}, {"2027-01-01", "", ErrGap}, {"2027-02-01", "v2", nil}, {"", "v2", nil}} {
		var last, next Set
		accept(t, &last, first, second)
		if c.day != "" {
			_, _ = last.InForce(day(t, c.day))
		}
		accept(t, &next, second, first)
		next.Resume(last.Mark())
		if p, err := next.InForce(time.Time{}); p.Version != c.version || !errors.Is(err, c.err) {
			t.Errorf("%s: %q %v after the start, not %q %v; mark %q", c.day, p.Version, err, c.version, c.err, last.Mark())
		}
		if next.Mark() != last.Mark() {
			t.Errorf("%s: mark %q has become %q", c.day, last.Mark(), next.Mark())
		}

		// A newer one that came while the terminal was off is in force.
		accept(t, &next, dated(t, "v3", "2028-01-01", ""))
		next.Resume(last.Mark())
		if p, _ := next.InForce(time.Time{}); p.Version != "v3" {
			t.Errorf("%s: %q in force, v3 came since", c.day, p.Version)
		}
	}

	// Marks that say nothing.
	var s Set
	if s.Mark() != "" {
		t.Errorf("mark of an empty set: %q", s.Mark())
	}
	s.Resume("v1 v1")
	if _, err := s.InForce(time.Time{}); !errors.Is(err, ErrNone) {
		t.Error(err)
	}
	accept(t, &s, first, second)
	for _, mark := range []string{"", "v2", "v9 v2", "v1 v1", "-other v2", "v1  v2", "v1 v2 v2"} {
		s.Resume(mark)
		if p, err := s.InForce(time.Time{}); p.Version != "v2" || err != nil {
			t.Errorf("mark %q: %q %v in force", mark, p.Version, err)
		}
	}
}

// TestWithdrawnPolicyNeverHoldsAgain, also where nobody vouches for the time.
func TestWithdrawnPolicyNeverHoldsAgain(t *testing.T) {
	var s Set
	for _, v := range []string{"2026-1", "2026-2"} {
		if err := s.Accept(dated(t, v, "2026-01-01", "")); err != nil {
			t.Fatal(err)
		}
	}
	for _, when := range []time.Time{day(t, "2026-06-01"), {}} {
		if p, err := s.InForce(when); err != nil || p.Version != "2026-2" {
			t.Fatalf("%s %v", p.Version, err)
		}
	}
	s.Withdraw("2026-9")
	s.Withdraw("2026-2")
	for _, when := range []time.Time{{}, day(t, "2026-06-01")} {
		if p, err := s.InForce(when); err != nil || p.Version != "2026-1" {
			t.Errorf("at %v: %s %v", when, p.Version, err)
		}
	}
	s.Withdraw("2026-1")
	for _, when := range []time.Time{{}, day(t, "2026-06-01")} {
		if p, err := s.InForce(when); !errors.Is(err, ErrNone) {
			t.Errorf("at %v: %s %v", when, p.Version, err)
		}
	}
}
