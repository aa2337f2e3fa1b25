package main

import (
	"fmt"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestFleetPaysEachTicketOnceWhateverHappens simulates an evening and a night of a country's
// shops, with the invariants of truth checked throughout. A run follows from
// its seed alone.
//
// Among the package's tests it is a small country; make test plays 12 seeds of 20 shops for
// 8 hours beside them, with GRATTOIR_FLEET=whole, and make soak 1 000.
func TestFleetPaysEachTicketOnceWhateverHappens(t *testing.T) {
	was := debug.SetGCPercent(400) // a run keeps little and makes much
	t.Cleanup(func() { debug.SetGCPercent(was) })
	seeds, size := fleetRuns()
	for _, seed := range seeds {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, seed, size, plant{})
				f.evening()
				f.report()
			})
		})
	}
}

// TestFleetOnACalmEveningSendsFewStrangersAway plays the standard fleet, in which trouble is
// rare, and tells what share of genuine tickets of other shops was referred.
func TestFleetOnACalmEveningSendsFewStrangersAway(t *testing.T) {
	if os.Getenv("GRATTOIR_FLEET") != "whole" && os.Getenv("GRATTOIR_SOAK") == "" || raceEnabled {
		t.Skip("a whole evening: make test plays it with GRATTOIR_FLEET=whole")
	}
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 1, fleetSize{shops: 20, hours: 8, calm: true}, plant{})
		f.evening()
		f.report()
		if share := float64(f.truth.referred) / float64(f.truth.foreign); share > 0.05 || f.truth.foreign < 50 {
			t.Errorf("%.1f %% of %d genuine foreign tickets were referred", 100*share, f.truth.foreign)
		}
	})
}

// fleetRuns are the seeds to play, and how much of a country.
func fleetRuns() (seeds []uint64, size fleetSize) {
	size = fleetSize{shops: 20, hours: 8}
	mode := os.Getenv("GRATTOIR_FLEET")
	count := 12 // what fits make test
	switch n, err := strconv.ParseUint(mode, 10, 64); {
	case err == nil:
		return []uint64{n}, size
	case os.Getenv("GRATTOIR_SOAK") != "" && !raceEnabled:
		count = 1000
	case mode != "whole" && raceEnabled:
		count, size = 1, fleetSize{shops: 4, hours: 1}
	case mode != "whole":
		count, size = 2, fleetSize{shops: 4, hours: 1.5}
	}
	for n := range uint64(count) {
		seeds = append(seeds, n)
	}
	return seeds, size
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
		s.shift.Store(0)
		s.back()
		s.cutAt.Store("")
		s.on.printer.Break(nil)
	}
	f.settle(30 * time.Minute)
	f.unlocked(30 * time.Minute)
	f.audit()
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

// settle waits until central has acknowledged everything of every shop that it talks to.
func (f *fleet) settle(most time.Duration) {
	limit := time.Now().Add(most)
	for _, s := range f.shops {
		for {
			acked, err := s.on.book.Acked(f.ctx)
			f.must(err)
			st := s.on.way.up.Status()
			if acked.Seq == s.on.book.Head().Seq || st.Suspended() {
				break
			}
			if time.Now().After(limit) {
				f.breach(11, "%s: %v after the last trouble %d of %d entries are acknowledged: %+v", s.name, most, acked.Seq, s.on.book.Head().Seq, st.Faults)
				break
			}
			time.Sleep(10 * time.Second)
		}
	}
}

// unlocked waits until no ticket is kept from everybody by a claim that central allowed and
// nobody makes (11): who asked has paid, or gives it back. A terminal that central refuses
// can do neither.
func (f *fleet) unlocked(most time.Duration) {
	limit := time.Now().Add(most)
	for {
		var left int
		f.must(f.central.Reader().QueryRow(`SELECT count(*) FROM reservations r JOIN terminals t ON t.name = r.terminal WHERE t.state = 'enrolled' AND t.frozen = ''
			AND NOT EXISTS (SELECT 1 FROM claims c WHERE c.block_id = r.block_id AND c.pack = r.pack AND c.ticket = r.ticket AND c.round = r.round AND c.claim = r.claim)`).Scan(&left))
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
	var b strings.Builder
	fmt.Fprintf(&b, "history %s: %d requests, %d lost, %d twice; ", f.hash(), f.roads.requests, f.roads.lost, f.roads.twice)
	for _, what := range slices.Sorted(maps.Keys(f.counts)) {
		fmt.Fprintf(&b, "%d %s, ", f.counts[what], what)
	}
	t := &f.truth
	paid := map[ticketRound]int{}
	for _, p := range t.order {
		paid[p.key]++
	}
	booked, risk, cost := 0, int64(0), int64(0)
	for _, p := range t.order {
		if p.booked {
			booked, risk = booked+1, risk+p.amount
			if paid[p.key] > 1 {
				cost += p.amount
			}
		}
	}
	fmt.Fprintf(&b, "%d of %d genuine foreign tickets referred (%.1f %%) %v, %d paid at a booked risk of %d minor units, which cost %d", t.referred, t.foreign, 100*float64(t.referred)/float64(max(1, t.foreign)), t.reasons, booked, risk, cost)
	return b.String()
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

func firstDifference(a, b []told) string {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("%v %s: %q and %v %s: %q", a[i].at, a[i].who, a[i].words, b[i].at, b[i].who, b[i].words)
		}
	}
	return fmt.Sprintf("%d acts and %d", len(a), len(b))
}
