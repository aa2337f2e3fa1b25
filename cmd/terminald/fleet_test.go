package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestFleetPaysEachTicketOnceWhateverHappens simulates an evening and a night of a country's
// shops, with the invariants of truth checked throughout. A run follows from
// its seed alone.
//
// Among the package's tests it is a small country; make test plays 6 seeds a processor, at most
// 40, of 20 shops for 8 hours beside them, with GRATTOIR_FLEET=whole, and make soak 1 000. An
// evening is some 15 s of processor time, of everything a little: seven processors play 40 in
// three minutes, two play 12 in the half of that.
func TestFleetPaysEachTicketOnceWhateverHappens(t *testing.T) {
	t.Parallel()
	was := debug.SetGCPercent(400) // a run keeps little and makes much
	t.Cleanup(func() { debug.SetGCPercent(was) })
	seeds, size, beside := fleetRuns(t)
	if beside {
		playBeside(t, len(seeds))
		return
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, seed, size, plant{})
				f.evening()
				f.report()
				f.tally()
			})
		})
	}
}

// TestFleetOnACalmEveningSendsFewStrangersAway plays the standard fleet, in which trouble is
// rare, with many more strangers, and tells what share of genuine tickets of other shops was
// referred: at most one per cent over many evenings (6 of 1 235 in the first three). One
// evening scatters: a single link that is down for ten minutes is half of it.
func TestFleetOnACalmEveningSendsFewStrangersAway(t *testing.T) {
	if os.Getenv("GRATTOIR_FLEET") != "whole" && os.Getenv("GRATTOIR_SOAK") == "" || raceEnabled {
		t.Skip("a whole evening: make test plays it with GRATTOIR_FLEET=whole")
	}
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 1, fleetSize{shops: 20, hours: 8, calm: true}, plant{})
		f.evening()
		f.report()
		t.Log(strings.Join(f.truth.told, "\n"))
		if share := float64(f.truth.referred) / float64(f.truth.foreign); share > 0.015 || f.truth.foreign < 400 {
			t.Errorf("%.1f %% of %d genuine foreign tickets were referred, at most 1.5 %% of 400 or more", 100*share, f.truth.foreign)
		}
	})
}

// fleetRuns are the seeds to play, and how much of a country; beside means in processes
// beside this one. GRATTOIR_FLEET is whole, one seed, or FROM:TO:STEP.
func fleetRuns(t *testing.T) (seeds []uint64, size fleetSize, beside bool) {
	size = fleetSize{shops: 20, hours: 8}
	mode := os.Getenv("GRATTOIR_FLEET")
	from, to, step := uint64(0), uint64(min(40, 6*runtime.NumCPU())), uint64(1) // what fits make test
	n, err := strconv.ParseUint(mode, 10, 64)
	switch {
	case err == nil:
		from, to = n, n+1
	case strings.Contains(mode, ":"):
		if _, err := fmt.Sscanf(mode, "%d:%d:%d", &from, &to, &step); err != nil || step == 0 {
			t.Fatalf("GRATTOIR_FLEET=%q: want whole, one seed, or FROM:TO:STEP", mode)
		}
	case os.Getenv("GRATTOIR_SOAK") != "" && !raceEnabled:
		to, beside = 1000, true
	case mode != "whole" && raceEnabled:
		to, size = 1, fleetSize{shops: 4, hours: 1}
	case mode != "whole":
		to, size = 2, fleetSize{shops: 4, hours: 1.5}
	default:
		beside = true
	}
	for ; from < to; from += step {
		seeds = append(seeds, from)
	}
	return seeds, size, beside
}

// playBeside plays so many seeds in one process for each processor. A bubble's goroutines
// run one after the other: a runtime that spreads them over two processors spends a third of
// its time on waking the other one.
func playBeside(t *testing.T, seeds int) {
	t.Helper()
	tallies := filepath.Join(t.TempDir(), "tallies")
	var workers sync.WaitGroup
	for n := range runtime.NumCPU() {
		workers.Go(func() {
			c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=0")
			c.Env = append(os.Environ(), fmt.Sprintf("GRATTOIR_FLEET=%d:%d:%d", n, seeds, runtime.NumCPU()), "GRATTOIR_FLEET_TALLY="+tallies, "GOMAXPROCS=1")
			c.Stdout, c.Stderr = os.Stdout, os.Stderr
			if err := c.Run(); err != nil {
				t.Errorf("a process that played every %d. seed: %v; its lines above say which failed", runtime.NumCPU(), err)
			}
		})
	}
	workers.Wait()
	file, err := os.Open(tallies)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var all tally
	for list := json.NewDecoder(file); ; {
		var one tally
		if err := list.Decode(&one); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		all.add(one)
	}
	if t.Logf("%d evenings: %s", all.Evenings, all); all.Evenings != seeds {
		t.Errorf("%d of %d seeds were played to their end", all.Evenings, seeds)
	}
}

// tally is what some evenings came to, in tickets and minor units.
type tally struct {
	Evenings, Paid, Foreign, Referred int
	Booked, Risk, Cost                int64
	Events                            map[string]int
}

func (a *tally) add(b tally) {
	a.Evenings, a.Paid, a.Foreign, a.Referred = a.Evenings+b.Evenings, a.Paid+b.Paid, a.Foreign+b.Foreign, a.Referred+b.Referred
	a.Booked, a.Risk, a.Cost = a.Booked+b.Booked, a.Risk+b.Risk, a.Cost+b.Cost
	if a.Events == nil {
		a.Events = map[string]int{}
	}
	for what, n := range b.Events {
		a.Events[what] += n
	}
}

func (a tally) String() string {
	var b strings.Builder
	for _, what := range slices.Sorted(maps.Keys(a.Events)) {
		fmt.Fprintf(&b, "%d %s, ", a.Events[what], what)
	}
	fmt.Fprintf(&b, "%d of %d genuine foreign tickets referred (%.1f %%), %d paid at a booked risk of %d minor units, which cost %d",
		a.Referred, a.Foreign, 100*float64(a.Referred)/float64(max(1, a.Foreign)), a.Booked, a.Risk, a.Cost)
	return b.String()
}

// sum is what this evening came to.
func (f *fleet) sum() tally {
	t := &f.truth
	a := tally{Evenings: 1, Paid: f.counts["paid"], Foreign: t.foreign, Referred: t.referred, Events: f.counts}
	paid := map[ticketRound]int{}
	for _, p := range t.order {
		paid[p.key]++
	}
	for _, p := range t.order {
		if p.booked {
			a.Booked, a.Risk = a.Booked+1, a.Risk+p.amount
			if paid[p.key] > 1 {
				a.Cost += p.amount
			}
		}
	}
	return a
}

// tally hands the sum to the process that asked for this evening.
func (f *fleet) tally() {
	path := os.Getenv("GRATTOIR_FLEET_TALLY")
	if path == "" {
		return
	}
	line, err := json.Marshal(f.sum())
	f.must(err)
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	f.must(err)
	_, err = file.Write(append(line, '\n'))
	f.must(errors.Join(err, file.Close()))
}

// asleep lets the fake time of the bubble pass in which a fleet, or a world, lives.
func asleep(d time.Duration) { time.Sleep(d) }

// replayHint is the one command that plays the run again.
func (f *fleet) replayHint() string {
	if f.plant.name != "" {
		return "planted: " + f.plant.name
	}
	return fmt.Sprintf("play it again with: GRATTOIR_FLEET=%d go test ./cmd/terminald -v -run TestFleetPaysEachTicketOnceWhateverHappens", f.seed)
}

// evening plays the whole time, then ends every trouble and waits for what must follow
// (invariant 11): every entry acknowledged.
func (f *fleet) evening() {
	f.play()
	f.still.Store(true)
	f.note("fleet", "every trouble ends")
	for _, end := range f.atEnd {
		end()
	}
	f.roads.mend()
	f.centralBack()
	for _, s := range f.shops {
		time.Sleep(time.Second) // one after the other
		if s.on != nil && s.on.dead.Load() {
			s.off()
		}
		s.shut = false
		s.back()
		s.cutAt.Store("")
		s.on.printer.Break(nil)
	}
	f.settle(30 * time.Minute)
	f.unlocked(30 * time.Minute)
	clear(f.truth.owed) // what a restored central lost must be here again
	f.audit()
	f.agreement()
	f.linearize()
	for _, s := range f.shops {
		time.Sleep(time.Second)
		s.off()
	}
	f.until = time.Now()
	time.Sleep(30 * time.Minute) // late repetitions arrive
	f.actors.Wait()
	f.stopCentral()
}

// settle waits until central has acknowledged everything of every shop that it talks to, and
// the shop has heard all that central says.
func (f *fleet) settle(most time.Duration) {
	limit := time.Now().Add(most)
	for _, s := range f.shops {
		for {
			acked, err := s.on.book.Acked(f.ctx)
			f.must(err)
			st := s.on.way.up.Status()
			var said int64
			f.must(f.central.Reader().QueryRow("SELECT coalesce(max(seq), 0) FROM feed WHERE audience IN ('', $1)", s.name).Scan(&said))
			if acked.Seq == s.on.book.Head().Seq && st.Feed >= said || st.Suspended() {
				break
			}
			if time.Now().After(limit) {
				f.breach(11, "%s: %v after the last trouble %d of %d entries are acknowledged, and %d of the feed's %d heard: %+v", s.name, most, acked.Seq, s.on.book.Head().Seq, st.Feed, said, st.Faults)
				break
			}
			time.Sleep(10 * time.Second)
		}
	}
}

// unlocked waits until no ticket is kept from everybody by a claim that central allowed and
// nobody makes (11): who asked has paid, or gives it back. A terminal that central refuses
// can do neither, and what was given back between a backup and its use is not told again.
func (f *fleet) unlocked(most time.Duration) {
	limit := time.Now().Add(most)
	for {
		var left int
		f.must(f.central.Reader().QueryRow(`SELECT count(*) FROM reservations r JOIN terminals t ON t.name = r.terminal WHERE t.state = 'enrolled' AND t.frozen = ''
			AND r.made > (SELECT coalesce(max(at), '') FROM restores) AND NOT EXISTS (SELECT 1 FROM claims c WHERE c.block_id = r.block_id AND c.pack = r.pack AND c.ticket = r.ticket AND c.round = r.round AND c.claim = r.claim)`).Scan(&left))
		if left == 0 {
			return
		}
		if time.Now().After(limit) {
			f.breach(11, "%v after the last trouble %d tickets are kept from everybody by claims that nobody makes", most, left)
			return
		}
		time.Sleep(time.Minute)
	}
}

// report tells what broke, and how the evening was.
func (f *fleet) report() {
	f.t.Helper()
	for i, b := range f.broken {
		if i == 10 {
			f.t.Errorf("and %d more", len(f.broken)-i)
			break
		}
		f.t.Errorf("invariant %d, %s: %s", b.invariant, b.at.UTC().Format("15:04:05"), b.words)
	}
	if f.t.Failed() {
		f.t.Logf("%s\n%s", f.replayHint(), f.tail(40))
	}
	f.t.Log(f.summary())
	if path := os.Getenv("GRATTOIR_FLEET_HISTORY"); path != "" {
		f.must(os.WriteFile(path, []byte(f.tail(len(f.history))), 0o600))
	}
}

func (f *fleet) summary() string {
	return fmt.Sprintf("history %s: %d requests, %d lost, %d twice; %v %v", f.hash(), f.roads.requests, f.roads.lost, f.roads.twice, f.sum(), f.truth.reasons)
}

// TestFleetRunsOfOneSeedAreIdentical compares two runs, act by act.
func TestFleetRunsOfOneSeedAreIdentical(t *testing.T) {
	t.Parallel()
	var first *fleet
	for range 2 {
		synctest.Test(t, func(t *testing.T) {
			f := newFleet(t, 5, fleetSize{shops: 3, hours: 1.5}, plant{})
			f.evening()
			if first == nil {
				first = f
				return
			}
			if first.hash() != f.hash() {
				t.Errorf("two runs of a seed have the histories %s and %s: %s", first.hash(), f.hash(), firstDifference(first.sorted(), f.sorted()))
			}
			if f.counts["paid"] < 10 {
				t.Errorf("a quiet evening proves nothing: %s", f.summary())
			}
		})
	}
}

// firstDifference names the first act that two runs do not share, with those before it.
func firstDifference(a, b []told) string {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("%v and %v after\n%v", a[i], b[i], a[max(0, i-30):i])
		}
	}
	return fmt.Sprintf("%d acts and %d", len(a), len(b))
}
