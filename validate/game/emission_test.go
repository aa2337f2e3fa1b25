package game

import (
	"errors"
	"strings"
	"testing"
)

func TestAnnounceLearnsOneFactAtATime(t *testing.T) {
	g := Game{ID: "saint-valentin"}
	steps := []struct {
		news Emission
		want string
		err  error
	}{
		{Emission{Number: ptr("1"), GameCode: ptr("75001"), Opens: ptr("2001-01-25")}, "number: 1; game code: 75001; opens: 2001-01-25", nil},
		{Emission{Number: ptr("1"), GameCode: ptr("75001"), Opens: ptr("2001-01-25")}, "", nil},
		{Emission{GameCode: ptr("75001"), Closes: ptr("2001-04-01")}, "closes: 2001-04-01", nil},
		{Emission{Closes: ptr("2001-05-01")}, "closes: 2001-05-01, was 2001-04-01", nil},
		{Emission{Number: ptr("2"), GameCode: ptr("75001")}, "", ErrEmission},
		{Emission{Number: ptr("1"), GameCode: ptr("75002")}, "", ErrEmission},
		{Emission{Number: ptr("1"), Closes: ptr("2001-01-24")}, "", ErrEmission},
		{Emission{Number: ptr("2"), GameCode: ptr("75002")}, "number: 2; game code: 75002", nil},
	}
	for i, step := range steps {
		changes, err := g.Announce(step.news)
		if got := strings.Join(changes, "; "); got != step.want || !errors.Is(err, step.err) {
			t.Errorf("step %d: %q, %v; want %q, %v", i+1, got, err, step.want, step.err)
		}
	}
	if _, err := g.Announce(Emission{Closes: ptr("2001-06-01")}); err == nil || !strings.Contains(err.Error(), "2 emissions") {
		t.Errorf("a date for one of two emissions: %v", err)
	}
	if e := g.Emissions[0]; *e.Number != "1" || *e.GameCode != "75001" || *e.Opens != "2001-01-25" || *e.Closes != "2001-05-01" {
		t.Errorf("%s %s %s %s", *e.Number, *e.GameCode, *e.Opens, *e.Closes)
	}
}

func TestAnnounceKeepsTheNoticesThatTaughtIt(t *testing.T) {
	g := Game{ID: "x"}
	for _, name := range []string{"opening.txt", "opening.txt", "closing.txt"} {
		news := Emission{Number: ptr("1"), Notices: []Source{{Name: name, SHA256: "00"}}}
		if name == "closing.txt" {
			news.Closes = ptr("2001-04-01")
		}
		if _, err := g.Announce(news); err != nil {
			t.Fatal(err)
		}
	}
	if n := g.Emissions[0].Notices; len(n) != 2 || n[1].Name != "closing.txt" {
		t.Errorf("%+v", n)
	}
}

func TestValidateRefusesEmissionsThatCannotBe(t *testing.T) {
	for want, emissions := range map[string][]Emission{
		"year-month-day":       {{Number: ptr("1"), Opens: ptr("2001-02-30")}},
		"before it opens":      {{Number: ptr("1"), Opens: ptr("2001-02-03"), Closes: ptr("2001-02-02")}},
		"another has the same": {{Number: ptr("1")}, {Number: ptr("1")}},
		"1 to 3 digits":        {{Number: ptr("one")}},
	} {
		g := Game{Kind: Other, Status: NoTable, Emissions: emissions}
		if err := g.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
