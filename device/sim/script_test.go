package sim

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func script(t *testing.T, text string) *Script {
	t.Helper()
	s, err := ParseScript("test.sim", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// notes are hands that only write down what they are to do, and when.
type notes struct {
	start time.Time
	fail  string // the act that fails

	mu   sync.Mutex
	list []string
}

var errHand = errors.New("the hand slipped")

func (n *notes) Do(_ context.Context, a Act) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.list = append(n.list, fmt.Sprintf("%v %v", time.Since(n.start), a))
	if a.String() == n.fail {
		return errHand
	}
	return nil
}

// played plays a script in a bubble, a ticket taking a second.
func played(t *testing.T, text string, seed uint64) []string {
	t.Helper()
	s := script(t, text)
	if seed != 0 {
		s.Seed = seed
	}
	var n notes
	synctest.Test(t, func(t *testing.T) {
		n.start = time.Now()
		err := s.Play(t.Context(), Stage{Hands: &n, Ticket: func(context.Context, int) error { time.Sleep(time.Second); return nil }})
		if err != nil {
			t.Error(err)
		}
	})
	return n.list
}

func TestScriptDoesEachActAtItsTime(t *testing.T) {
	got := played(t, `
at 2500ms cover open            # in the middle of a wait
scan 12345
scanner unplug
scanner replug after 1s
wait 2s
paper out after 12 lines
every 2 tickets paper low
tickets 4
cover closed after 3s
paper ok after 3s               # the same moment: in the order of the lines
`, 0)
	want := []string{"0s scan 12345", "0s scanner unplug", "1s scanner replug", "2s printer paper out after 12 lines", "2.5s printer cover open",
		"3s printer paper low", "5s printer paper low", "9s printer cover closed", "9s printer paper ok"}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

const threeFaults = `
fault a
  scanner garbage 1..1000000
end
fault b
  # a remark is no act
  printer paper out after 1s..1h
  printer paper ok after 1h
end
fault c
  scan 1
end
every 10 tickets draw
tickets 60
`

func TestScriptWithOneSeedRepeatsItself(t *testing.T) {
	one, again, other := played(t, threeFaults, 5), played(t, threeFaults, 5), played(t, threeFaults, 6)
	if !slices.Equal(one, again) {
		t.Errorf("two plays differ:\n%q\n%q", one, again)
	}
	if slices.Equal(one, other) {
		t.Error("another seed changes nothing")
	}
}

func TestScriptDrawsEachFaultBeforeAnyComesAgain(t *testing.T) {
	s := script(t, strings.Replace(threeFaults, "tickets 60", "tickets 300", 1))
	for seed := range uint64(20) {
		s.Seed = seed
		var drawn []string
		synctest.Test(t, func(t *testing.T) {
			err := s.Play(t.Context(), Stage{Hands: &notes{}, Ticket: func(context.Context, int) error { return nil }, Told: func(e Event) {
				if e.Fault != "" && !strings.HasPrefix(e.Act.String(), "printer") {
					drawn = append(drawn, e.Fault)
				} else if e.Act.String() == "printer paper ok" || e.Line == 7 {
					drawn = append(drawn, "b")
				}
			}})
			if err != nil {
				t.Error(err)
			}
		})
		a := strings.Count(strings.Join(drawn, ""), "a")
		c := strings.Count(strings.Join(drawn, ""), "c")
		if a != 10 || c != 10 {
			t.Fatalf("seed %d: 30 draws of 3 faults gave a %d times, c %d times", seed, a, c)
		}
	}
}

func TestScriptEndsWithTheFirstFailureAndItsLine(t *testing.T) {
	for text, want := range map[string]struct {
		line int
		fail string
	}{
		"wait 1s\ncover open\nscan 1\n":                   {2, "printer cover open"},
		"\ncover open after 1s\nwait 1h\nscan 1\n":        {2, "printer cover open"},
		"tickets 5\nscan 1\n":                             {1, ""},
		"at 90s cover open\nwait 1h\nscan 1\n":            {1, "printer cover open"},
		"fault x\n# why\ncover open\nend\ndraw\nscan 1\n": {3, "printer cover open"},
	} {
		n := &notes{fail: want.fail}
		var err error
		synctest.Test(t, func(t *testing.T) {
			err = script(t, text).Play(t.Context(), Stage{Hands: n, Ticket: func(_ context.Context, n int) error {
				if n == 3 {
					return errHand
				}
				return nil
			}})
		})
		var at *ScriptError
		if !errors.As(err, &at) || at.Line != want.line || !errors.Is(err, errHand) {
			t.Errorf("%q: %v, want line %d", text, err, want.line)
		}
		if slices.ContainsFunc(n.list, func(s string) bool { return strings.HasSuffix(s, "scan 1") }) {
			t.Errorf("%q went on after its failure", text)
		}
	}
}

func TestScriptStopsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := script(t, "paper ok after 2h\nwait 1h\n").Play(ctx, Stage{Hands: &notes{}})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("play: %v", err)
		}
	})
}

func TestScriptRefusesWhatItDoesNotKnowWithTheLine(t *testing.T) {
	for text, want := range map[string]string{
		"scan 1\npaper papr\n":                     `test.sim:2: "paper papr" is no act; want one of: printer paper out`,
		"fly\n":                                    "test.sim:1: ",
		"unplug\n":                                 "act of both devices",
		"scanner split 3\n":                        "scanner split N TIME",
		"scanner split 3 20\n":                     "a time with its unit",
		"scanner split x 20ms\n":                   "a number",
		"scanner garbage 5..3\n":                   "a number, or a range",
		"scanner garbage -1\n":                     "a number",
		"scanner garbage 1000001\n":                "a number",
		"wait 25h\n":                               "a time with its unit",
		"wait -1s\n":                               "a time with its unit",
		"cover open after 0s\n":                    "after 0s",
		"cover open after 1s after 2s\n":           "is no act",
		"at 1s cover open after 2s\n":              "at and after",
		"at 1s\n":                                  "at: want",
		"after 1s\n":                               "is no act",
		"every 20 draw\n":                          "every: want",
		"every 0 tickets scan 1\n":                 "from 1 to",
		"every 1..2 tickets scan 1\n":              "from 1 to",
		"tickets 1000001\n":                        "from 1 to",
		"draw\n":                                   "no fault is defined",
		"fault a\nscan 1\n":                        "test.sim:1: fault a has no end",
		"fault a\nend\n":                           "does nothing",
		"fault a\nwait 1s\nend\n":                  "in fault a",
		"fault a\nscan 1\nend\nfault a\n":          "defined already",
		"scan 1\nseed 4\n":                         "seed: want",
		"seed 1\nseed 1\n":                         "seed: want",
		"seed 01\n":                                "whole number",
		"scan raw 1B4\n":                           "hexadecimal",
		"scan \x01\n":                              "control character",
		"scan \xff\n":                              "UTF-8",
		"daemon kill at HOME\n":                    "no step",
		"scan " + strings.Repeat("1", 1025) + "\n": "want at most 1024",
		strings.Repeat("x", 3000) + "\n":           "a line of more than",
		strings.Repeat("scan 1 # filler\n", 20000): "more than 262144 bytes",
	} {
		_, err := ParseScript("test.sim", strings.NewReader(text))
		var at *ScriptError
		if !errors.As(err, &at) || at.Line == 0 || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v; want %q", text, err, want)
		}
	}
}

func TestScriptDocumentListsEveryAct(t *testing.T) {
	text, err := os.ReadFile("SCRIPT.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, ok := strings.Cut(string(text), "## Acts")
	if !ok {
		t.Fatal("no acts in SCRIPT.md")
	}
	var told []Form
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\| (.+) \\|$").FindAllStringSubmatch(table, -1) {
		told = append(told, Form{m[1], m[2]})
	}
	if !slices.Equal(told, Forms()) {
		for _, f := range Forms() {
			if !slices.Contains(told, f) {
				t.Errorf("SCRIPT.md lacks or says otherwise: | `%s` | %s |", f.Pattern, f.Means)
			}
		}
		t.Error("the table of SCRIPT.md is not the list of acts in its order")
	}
	_, example, _ := strings.Cut(string(text), "```\n")
	example, _, _ = strings.Cut(example, "```")
	script(t, example)
}

// FuzzScriptReadsBackAsItself: what is accepted has a text of its own that means the same.
func FuzzScriptReadsBackAsItself(f *testing.F) {
	f.Add("seed 7\nscan 100\nscanner unplug\nreplug after 2s\n")
	f.Add(threeFaults)
	f.Add("at t=3s hang-up after 50..900 bytes\nwait 1s..3s\nwait slip\nscan raw 1b40 after 1m\n")
	f.Add("scan after\nscan after after 2s\nscan raw after 2s\nprefix none\nprefix 5D64\nscan #\n")
	f.Add("every 3 tickets daemon kill at sent:2\nbuffer 45 drop\nslow 1200\nanswer garbage 3\n")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseScript("fuzz.sim", strings.NewReader(text))
		if err != nil {
			var at *ScriptError
			if !errors.As(err, &at) || at.Line < 1 {
				t.Fatalf("an error without its line: %v", err)
			}
			return
		}
		plain := s.String()
		again, err := ParseScript("fuzz.sim", strings.NewReader(plain))
		if err != nil {
			t.Fatalf("%q became %q: %v", text, plain, err)
		}
		if got := again.String(); got != plain {
			t.Fatalf("%q became %q, then %q", text, plain, got)
		}
	})
}
