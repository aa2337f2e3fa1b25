package update_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"grattoir/firmware/update"
)

// TestRulesDecideWhatIsInstalled: each rule of an update, what comes of it, and what runs then.
func TestRulesDecideWhatIsInstalled(t *testing.T) {
	for _, c := range []struct {
		name    string
		b       bundle
		dead    bool // it does not come up
		sick    bool // its daemon does not answer
		lacks   bool // its printer is not there after the restart
		ledger  string
		want    string
		reason  string // in it
		running int64
	}{
		{name: "newer", b: bundle{number: 11}, want: "good 11", running: 11},
		{name: "equal", b: bundle{number: 10}, want: "refused 10", reason: "never goes back", running: 10},
		{name: "older", b: bundle{number: 9}, want: "refused 9", reason: "never goes back", running: 10},
		{name: "other board", b: bundle{number: 11, board: "grattoir-pi"}, want: "refused 11", reason: "for another board", running: 10},
		{name: "other board inside", b: bundle{number: 11, inside: "grattoir-pi"}, want: "refused 11", reason: "for another board", running: 10},
		{name: "RAUC's signature of a stranger", b: bundle{number: 11, foreign: true}, want: "refused 11", reason: "does not accept", running: 10},
		{name: "our signature of a stranger", b: bundle{number: 11, stranger: true}, want: "nothing", running: 10},
		{name: "spoiled on the way", b: bundle{number: 11, spoiled: true}, want: "failed 11", reason: "piece 1", running: 10},
		{name: "tampered payload", b: bundle{number: 11, tampered: true}, want: "failed 11", reason: "corrupted", running: 10},
		{name: "does not come up", b: bundle{number: 11}, dead: true, want: "rolled-back 11", reason: "did not come up", running: 10},
		{name: "daemon does not answer", b: bundle{number: 11}, sick: true, want: "rolled-back 11", reason: "does not answer", running: 10},
		{name: "printer is gone", b: bundle{number: 11}, lacks: true, want: "rolled-back 11", reason: "the printer was there before", running: 10},
		{name: "ledger does not verify", b: bundle{number: 11}, ledger: "entry 17 is damaged", want: "rolled-back 11", reason: "entry 17", running: 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := testWorld(t)
			w.dead[11], w.sick[11] = c.dead, c.sick
			w.step = func(name string) {
				if name == "arrived" && w.m.Running().Number == 11 {
					if c.lacks {
						w.counter.devices = []string{"scanner"}
					}
					w.counter.ledger = c.ledger
				}
			}
			w.mustOffer(t, w.stick, c.b)
			s := w.settle()
			if got := last(s); got != c.want || w.m.Running().Number != c.running {
				t.Errorf("%s, %d runs; want %s, %d", got, w.m.Running().Number, c.want, c.running)
			}
			if c.reason != "" && !strings.Contains(s.Last.Reason, c.reason) {
				t.Errorf("reason %q, want %q in it", s.Last.Reason, c.reason)
			}
			if s.Best != c.running {
				t.Errorf("best is %d, want %d", s.Best, c.running)
			}
		})
	}
}

func TestFloorRisesOnlyWithAGoodVersionAndClosesTheOlderSlot(t *testing.T) {
	w := testWorld(t)
	w.mustOffer(t, w.central, bundle{number: 12, floor: 11})
	w.step = func(string) {
		if s, err := update.ReadState(w.dir); err == nil && s.Floor > 0 && !slices.Equal(w.m.Bootable(), []int64{12}) {
			t.Errorf("the floor is %d and %v can be booted", s.Floor, w.m.Bootable())
		}
	}
	w.sick[12] = true
	if s := w.settle(); s.Floor != 0 || last(s) != "rolled-back 12" {
		t.Fatalf("floor %d after %s", s.Floor, last(s))
	}
	delete(w.sick, 12)
	if err := os.Rename(filepath.Join(w.central, "u12.update"), filepath.Join(w.central, "off")); err != nil {
		t.Fatal(err)
	}
	w.mustOffer(t, w.central, bundle{number: 13, floor: 11})
	w.step = nil
	s := w.settle()
	if s.Floor != 11 || s.Best != 13 || !slices.Equal(w.m.Bootable(), []int64{13}) {
		t.Errorf("floor %d, best %d, bootable %v; want 11, 13, [13]", s.Floor, s.Best, w.m.Bootable())
	}
	if !strings.Contains(s.Fault, "nothing to fall back to") {
		t.Errorf("fault %q: nobody is told that there is one slot", s.Fault)
	}
}

func TestWhatFailedIsTriedAgainOnlyWhenAPersonAsks(t *testing.T) {
	w := testWorld(t)
	w.sick[11] = true
	path := w.mustOffer(t, w.central, bundle{number: 11})
	w.settle()
	for range 5 {
		w.round()
	}
	if n := count(w.steps, "installed"); n != 1 {
		t.Fatalf("installed %d times", n)
	}
	delete(w.sick, 11)
	_, ring := keys()
	f, err := update.OpenFound(path, ring)
	if err != nil {
		t.Fatal(err)
	}
	if err := update.Judge(f.Manifest, w.agent.State()); err == nil || !strings.Contains(err.Error(), "--again") {
		t.Errorf("judged %v", err)
	}
	if err := update.Put(context.Background(), f, w.stick, update.PutOptions{Again: true}); err != nil {
		t.Fatal(err)
	}
	if s := w.settle(); last(s) != "good 11" {
		t.Errorf("%s: %s", last(s), s.Last.Reason)
	}
	if left, err := os.ReadDir(w.stick); err != nil || len(left) > 0 {
		t.Errorf("left in the inbox: %v, %v", left, err)
	}
}

func count(list []string, what string) (n int) {
	for _, x := range list {
		if x == what {
			n++
		}
	}
	return n
}

func TestRestartWaitsForAnIdleCounterAndSaysWhy(t *testing.T) {
	w := testWorld(t)
	w.mustOffer(t, w.central, bundle{number: 11})
	w.counter.paying, w.counter.open = true, true
	if s := w.settle(); s.Phase != update.Waiting || s.Update.Why != "a payment is under way" {
		t.Fatalf("%s: %+v", s.Phase, s.Update)
	}
	w.counter.paying = false
	w.round()
	if s := w.settle(); s.Update.Why != "somebody is signed on" {
		t.Fatalf("%+v", s.Update)
	}
	w.counter.open, w.counter.down = false, true
	w.round()
	if s := w.settle(); !strings.Contains(s.Update.Why, "does not answer") {
		t.Fatalf("%+v", s.Update)
	}
	w.counter.down = false
	if s := w.settle(); last(s) != "good 11" {
		t.Errorf("%s", last(s))
	}
}

func TestASickVersionWaitsForThePaymentThatItIsIn(t *testing.T) {
	w := testWorld(t)
	w.mustOffer(t, w.central, bundle{number: 11})
	w.step = func(name string) {
		if name == "rejected-noted" {
			w.counter.paying, w.counter.open = true, true
		}
	}
	w.counter.ledger = ""
	for range 600 {
		if w.round(); w.agent != nil && w.agent.State().Phase == update.Trying {
			w.counter.ledger = "entry 17 is damaged"
		}
		if w.counter.paying && w.agent != nil && w.agent.State().Update.Why != "" {
			break
		}
	}
	for range 5 {
		w.round()
	}
	if s := w.agent.State(); s.Phase != update.Trying || w.m.Running().Number != 11 {
		t.Fatalf("%s, %d runs: it went down while somebody was paid", s.Phase, w.m.Running().Number)
	}
	w.counter.paying = false // a clerk is signed on still: a sick version does not wait for that
	if s := w.settle(); last(s) != "rolled-back 11" || w.m.Running().Number != 10 {
		t.Errorf("%s, %d runs", last(s), w.m.Running().Number)
	}
}

func TestAVersionOnTrialHasOneTry(t *testing.T) {
	w := testWorld(t)
	w.sick[11] = true
	w.mustOffer(t, w.central, bundle{number: 11})
	seen := false
	w.step = func(name string) {
		if name == "rejected-noted" {
			seen = true
			if slices.Contains(w.m.Bootable(), 11) {
				t.Error("it has tries left before it has proven itself")
			}
		}
	}
	if w.settle(); !seen {
		t.Error("it was not rejected")
	}
}

func TestCentralTakesAnUpdateBackBeforeItRuns(t *testing.T) {
	w := testWorld(t)
	path := w.mustOffer(t, w.central, bundle{number: 11})
	w.counter.open = true
	w.settle()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	w.round()
	if s := w.settle(); last(s) != "withdrawn 11" || !slices.Equal(w.m.Bootable(), []int64{10}) {
		t.Fatalf("%s, bootable %v", last(s), w.m.Bootable())
	}
	w.power()
	if w.settle(); w.m.Running().Number != 10 {
		t.Error("it runs all the same")
	}
}

func TestAVersionThatSomebodyInstalledByHandMustProveItself(t *testing.T) {
	w := testWorld(t)
	w.settle()
	path := w.mustOffer(t, t.TempDir(), bundle{number: 11})
	if err := w.m.Install(context.Background(), strings.TrimSuffix(path, update.ManifestSuffix)+update.BundleSuffix, nil); err != nil {
		t.Fatal(err)
	}
	w.sick[11] = true
	w.power()
	if s := w.settle(); w.m.Running().Number != 10 || last(s) != "rolled-back 11" {
		t.Errorf("%d runs, %s", w.m.Running().Number, last(s))
	}
}

func TestAStateThatCannotBeReadInstallsNothing(t *testing.T) {
	w := testWorld(t)
	w.settle()
	w.close()
	if err := os.WriteFile(filepath.Join(w.dir, update.StateFile), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := w.start(); err == nil || !strings.Contains(err.Error(), "cannot be read") {
		t.Errorf("started: %v", err)
	}
}

// TestAnEndAtAnyStepGoesOnRight: the agent is killed, or the power cut, once after each
// step of a good and of a sick update. The end is always the same.
func TestAnEndAtAnyStepGoesOnRight(t *testing.T) {
	for _, c := range []struct {
		name string
		sick bool
		want string
	}{{"good", false, "good 11"}, {"sick", true, "rolled-back 11"}} {
		t.Run(c.name, func(t *testing.T) {
			plain := testWorld(t)
			plain.sick[11] = c.sick
			plain.mustOffer(t, plain.central, bundle{number: 11, floor: 11})
			points := 0
			plain.m.At = func(string) { points++ }
			if s := plain.settle(); last(s) != c.want {
				t.Fatalf("%s with no end", last(s))
			}
			total := len(plain.steps) + points
			if total < 12 {
				t.Fatalf("%d steps: %v", total, plain.steps)
			}
			for n := range total {
				for _, cut := range []bool{false, true} {
					w := newWorld(quickDir(t), func(f string, args ...any) { t.Fatalf("step %d, cut %v: "+f, append([]any{n, cut}, args...)...) })
					w.sick[11] = c.sick
					w.mustOffer(t, w.central, bundle{number: 11, floor: 11})
					seen := 0
					at := func(inRauc bool) func(string) {
						return func(string) {
							if seen++; seen == n+1 {
								w.end(cut, inRauc)
							}
						}
					}
					w.step, w.m.At = at(false), at(true)
					s := w.settle()
					if last(s) != c.want || s.Best != w.m.Running().Number || len(w.m.Bootable()) == 0 {
						t.Errorf("step %d (%v), cut %v: %s, best %d, %d runs, bootable %v", n, w.steps[:min(n+1, len(w.steps))], cut, last(s), s.Best, w.m.Running().Number, w.m.Bootable())
					}
					w.close()
				}
			}
		})
	}
}

// TestNoHistoryBreaksTheTerminal plays histories of updates, kills, power cuts, payments
// and withdrawals. Never does a version below the floor run or could, never is there
// nothing to boot, never is the machine restarted while somebody is being paid.
func TestNoHistoryBreaksTheTerminal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp(quick(), "update")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		w := newWorld(dir, t.Fatalf)
		defer w.close()
		next, budget := int64(11), -1
		end := func(inRauc bool) {
			if budget--; budget == -1 {
				w.end(rapid.Bool().Draw(t, "cut"), inRauc)
			}
		}
		w.m.At = func(string) { end(true) }
		w.step = func(name string) {
			if name != "arrived" { // a machine that loses its power in each of its starts is worn, not unlucky
				end(false)
			}
		}
		rounds := func(t *rapid.T) {
			for range rapid.IntRange(1, 25).Draw(t, "rounds") {
				w.round()
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"offer": func(t *rapid.T) {
				b := bundle{number: next - rapid.Int64Range(0, 2).Draw(t, "back"), tampered: rapid.IntRange(0, 5).Draw(t, "tampered") == 0}
				b.floor = rapid.Int64Range(0, b.number).Draw(t, "floor")
				w.dead[b.number], w.sick[b.number] = rapid.IntRange(0, 4).Draw(t, "dead") == 0, rapid.IntRange(0, 4).Draw(t, "sick") == 0
				if slices.Contains(append(w.m.Bootable(), w.m.Running().Number), b.number) { // what ran well here goes on doing so
					delete(w.dead, b.number)
					delete(w.sick, b.number)
				}
				if _, err := offer(rapid.SampledFrom([]string{w.central, w.stick}).Draw(t, "inbox"), b); err != nil {
					t.Fatal(err)
				}
				next++
			},
			"withdraw": func(t *rapid.T) {
				list, _ := filepath.Glob(filepath.Join(w.central, "*.update"))
				for _, path := range list {
					_ = os.Remove(path)
				}
			},
			"counter": func(t *rapid.T) {
				w.counter.paying = rapid.Bool().Draw(t, "paying")
				w.counter.open = w.counter.paying || rapid.Bool().Draw(t, "open")
			},
			"idle": func(t *rapid.T) { w.counter.paying, w.counter.open = false, false; rounds(t) },
			"work": rounds,
			"kill": func(t *rapid.T) { budget = rapid.IntRange(0, 15).Draw(t, "after"); rounds(t) },
			"power": func(t *rapid.T) {
				w.power()
				w.round()
			},
			"": func(t *rapid.T) {
				s, err := update.ReadState(w.dir)
				if err != nil {
					return // not started yet
				}
				for _, n := range append(w.m.Bootable(), w.m.Running().Number) {
					if n < s.Floor {
						t.Fatalf("number %d can run, the floor is %d", n, s.Floor)
					}
				}
				if s.Best < s.Floor {
					t.Fatalf("best %d is below the floor %d", s.Best, s.Floor)
				}
			},
		})
	})
}

func TestManifestHasOneForm(t *testing.T) {
	m, err := update.Describe(strings.NewReader(strings.Repeat("x", 2<<20+5)), update.Manifest{Version: "1.4.0", Number: 12, Floor: 9, Board: board})
	if err != nil || len(m.Pieces) != 3 {
		t.Fatalf("%d pieces: %v", len(m.Pieces), err)
	}
	text := m.Text()
	if again, err := update.ParseManifest(text); err != nil || again.Text() != text {
		t.Fatalf("%v", err)
	}
	for _, other := range []string{"", text + "\n", strings.Replace(text, "number 12", "number 012", 1), strings.Replace(text, "floor 9", "floor 13", 1),
		strings.Replace(text, "number 12", "number 0", 1), strings.Replace(text, "version 1.4.0", "version 1 4", 1), strings.Replace(text, "piece 1048576", "piece 4096", 1),
		strings.ToUpper(text), text[:len(text)-66], fmt.Sprintf("%s%064x\n", text, 7)} {
		if _, err := update.ParseManifest(other); err == nil {
			t.Errorf("accepted: %.120q", other)
		}
	}
}

func FuzzManifest(f *testing.F) {
	m, _ := update.Describe(strings.NewReader("bundle"), update.Manifest{Version: "1.4.0", Number: 12, Floor: 9, Board: board})
	f.Add(m.Text())
	f.Fuzz(func(t *testing.T, text string) {
		if m, err := update.ParseManifest(text); err == nil && m.Text() != text {
			t.Errorf("%q is read and written as %q", text, m.Text())
		}
	})
}
