package central

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"grattoir/sync/wire"
)

// TestSlotsComeEvenlyAndWhoeverKeepsItsSlotIsServed: a lane that is flooded refuses each
// terminal at most once, and serves all in little more than its work takes.
func TestSlotsComeEvenlyAndWhoeverKeepsItsSlotIsServed(t *testing.T) {
	const width, terminals = 8, 5000
	const work = 20 * time.Millisecond // 400 a second
	synctest.Test(t, func(t *testing.T) {
		l := newLane(width)
		l.adm.work = work
		var mu sync.Mutex
		refused, worst, slots := 0, 0, map[time.Duration]int{}
		began := time.Now()
		var all sync.WaitGroup
		for i := range terminals {
			all.Go(func() {
				name := strconv.Itoa(i)
				for tries := 0; ; tries++ {
					leave, err := l.enter(context.Background(), name, time.Now)
					if err == nil {
						time.Sleep(work) // fake time
						leave()
						return
					}
					var late *later
					if !errors.As(err, &late) {
						t.Error(err)
						return
					}
					mu.Lock()
					refused, worst = refused+1, max(worst, tries+1)
					slots[time.Since(began)+late.after]++
					mu.Unlock()
					time.Sleep(late.after + time.Duration(i%50)*10*time.Millisecond)
				}
			})
		}
		all.Wait()
		took := time.Since(began)
		t.Logf("%d terminals at once, %d refused, at most %d times, all served in %v", terminals, refused, worst, took)
		if worst != 1 || refused < terminals/2 {
			t.Errorf("%d refused, one of them %d times", refused, worst)
		}
		if least := terminals * work / width; took > least*13/10 {
			t.Errorf("all were served in %v, the work alone takes %v", took, least)
		}
		for at, n := range slots {
			if n > 400 {
				t.Errorf("%d terminals have their slot at %v", n, at)
			}
		}
	})
}

// TestSlowFirstSecondsGiveNoSlotsMinutesAway: after a start the processor has thousands of
// handshakes to do, and the requests that were let in take long for once.
func TestSlowFirstSecondsGiveNoSlotsMinutesAway(t *testing.T) {
	const terminals, handshakes, work = 1000, 6 * time.Second, 200 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		l := newLane(workAtOnce)
		began := time.Now()
		var all sync.WaitGroup
		for i := range terminals {
			all.Go(func() {
				time.Sleep(time.Duration(i) * (handshakes + time.Second) / terminals) // fake time
				for {
					leave, err := l.enter(context.Background(), strconv.Itoa(i), time.Now)
					if late := (*later)(nil); errors.As(err, &late) {
						time.Sleep(late.after)
						continue
					}
					time.Sleep(max(work, handshakes-time.Since(began)))
					leave()
					return
				}
			})
		}
		all.Wait()
		least := handshakes + work*terminals/workAtOnce
		t.Logf("%d terminals are served after %v, with the work alone it is %v", terminals, time.Since(began), least)
		if time.Since(began) > 3*least/2 {
			t.Errorf("served after %v", time.Since(began))
		}
	})
}

func TestSlotIsKeptByWhoeverComesEarlyAndForgottenAfterIt(t *testing.T) {
	a := NewAdmission(1)
	a.work = time.Second
	now := noon
	come := func(name string, verdict Verdict, after time.Duration) {
		t.Helper()
		if v, d := a.Arrive(name, now); v != verdict || d != after {
			t.Errorf("%s at %v: %v after %v, want %v after %v", name, now.Sub(noon), v, d, verdict, after)
		}
	}
	come("a", Serve, 0)
	for i := range 4 { // as many as are served in three seconds, and one
		come(fmt.Sprint("w", i), Wait, 0)
	}
	come("b", Refuse, 4*time.Second)
	come("c", Refuse, 6*time.Second) // 4 and a slot's length
	now = now.Add(time.Second)
	come("b", Refuse, 3*time.Second)
	now = now.Add(3 * time.Second)
	come("d", Refuse, 4*time.Second) // without a slot the queue is full; its slot is behind the others
	come("b", Wait, 0)
	come("b", Refuse, 6*time.Second) // once
	a.Leave()
	a.Leave()
	now = now.Add(time.Hour)
	come("c", Wait, 0)
	a.forget(now)
	if len(a.slots) != 0 {
		t.Errorf("slots of an hour ago: %v", a.slots)
	}
}

func TestAdmissionIsBounded(t *testing.T) {
	a := NewAdmission(1)
	a.work = time.Microsecond
	for i := range maxQueue * 2 {
		a.Arrive(strconv.Itoa(i), noon)
	}
	if a.waiting > maxQueue {
		t.Errorf("%d wait", a.waiting)
	}
	a.work = time.Hour
	for i := range 50 {
		if v, after := a.Arrive(fmt.Sprint("x", i), noon); v != Refuse || after > maxSlot {
			t.Fatalf("%v after %v", v, after)
		}
	}
	if len(a.slots) > maxQueue {
		t.Errorf("%d slots", len(a.slots))
	}
}

// TestFullLaneKeepsNoOtherWaiting: the journal's lane is held up, its queue is full, and
// hello, feed and blocks are answered; whoever waited is served in the end, and whoever
// left the queue left its place.
func TestFullLaneKeepsNoOtherWaiting(t *testing.T) {
	w := &world{clock: &clock{at: noon}}
	w.Central = openCentral(t, Options{Dir: t.TempDir(), Now: w.clock.now, Width: 1})
	w.dial = servePipes(t, w.Central)
	one, two := w.enrolled(t, "T-1"), w.enrolled(t, "T-2")
	held, free := make(chan struct{}), make(chan struct{})
	w.committed = sync.OnceFunc(func() { close(held); <-free })
	one.record(t, "test", struct{}{})
	two.record(t, "test", struct{}{})
	first, second := make(chan *wire.Error, 1), make(chan *wire.Error, 1)
	go func() { first <- post(t, one.client, wire.PathJournal, one.upload(t, 1, 1), new(any)) }()
	<-held
	w.lanes.journal.mu.Lock()
	w.lanes.journal.adm.work = 3 * time.Second // so that one may wait
	w.lanes.journal.mu.Unlock()
	go func() { second <- post(t, two.client, wire.PathJournal, two.upload(t, 1, 1), new(any)) }()
	waitFor(t, func() bool { return w.waiting() == 1 })
	gone, leave := context.WithCancel(t.Context())
	w.lanes.journal.mu.Lock()
	w.lanes.journal.adm.work = time.Second // and another
	w.lanes.journal.mu.Unlock()
	left := make(chan error, 1)
	go func() { _, err := w.lanes.journal.enter(gone, "T-3", w.clock.now); left <- err }()
	waitFor(t, func() bool { return w.waiting() == 2 })
	leave()
	if err := <-left; !errors.Is(err, context.Canceled) || w.waiting() != 1 {
		t.Errorf("left the queue with %v, %d wait", err, w.waiting())
	}
	w.lanes.journal.mu.Lock()
	w.lanes.journal.adm.work = time.Minute
	w.lanes.journal.mu.Unlock()
	resp, err := two.client.Post("https://central"+wire.PathJournal, "application/json", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if after, err := strconv.Atoi(resp.Header.Get("Retry-After")); err != nil || after < 30 || resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("status %d, Retry-After %q", resp.StatusCode, resp.Header.Get("Retry-After"))
	}
	wantKind(t, readAnswer(t, resp, nil), wire.KindBusy)
	if e := post(t, two.client, wire.PathHello, wire.Hello{Protocol: 1}, new(any)); e != nil {
		t.Error(e)
	}
	if items := two.feed(t, 0); len(items) != 0 {
		t.Error(items)
	}
	close(free)
	if e1, e2 := <-first, <-second; e1 != nil || e2 != nil {
		t.Errorf("%v %v", e1, e2)
	}
}

// TestNoOtherLaneHoldsUpAClaimOrAHold: journal, feed, blocks, hellos and all else are in
// full swing, their queues full. A terminal asks about another one's ticket, the owner's
// poll, which waits, hears of it, its answer is taken, and the ticket is paid for.
func TestNoOtherLaneHoldsUpAClaimOrAHold(t *testing.T) {
	w := newWorld(t)
	a, b, won := two(t, w)
	w.patience = time.Minute
	heard := make(chan wire.FeedItem, 1)
	newest := int64(w.count(t, "SELECT max(seq) FROM feed"))
	go func() { heard <- a.hear(t, newest) }()
	waitFor(t, func() bool {
		w.feed.mu.Lock()
		defer w.feed.mu.Unlock()
		l := w.lanes.feed
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(w.feed.by[a.name]) == 1 && l.adm.working == 0 // it has looked, and waits
	})
	ctx, end := context.WithCancel(t.Context())
	var waiting sync.WaitGroup
	for name, l := range map[string]*lane{"journal": w.lanes.journal, "hello": w.lanes.hello, "feed": w.lanes.feed, "files": w.lanes.files, "identities": w.lanes.identities, "enrol": w.lanes.enrol} {
		l.mu.Lock()
		l.adm.work = time.Hour // one may wait
		l.mu.Unlock()
		for i := range l.adm.width + 1 {
			waiting.Go(func() {
				leave, err := l.enter(ctx, strconv.Itoa(i), time.Now)
				if err == nil {
					<-ctx.Done()
					leave()
				}
			})
		}
		waitFor(t, func() bool {
			l.mu.Lock()
			defer l.mu.Unlock()
			return len(l.queue) == 1
		})
		if _, err := l.enter(ctx, "one more", time.Now); !errors.As(err, new(*later)) {
			t.Fatalf("%s is not full: %v", name, err)
		}
	}
	body := b.wanted(t, won, 0xb1, 0)
	answer := b.asks(t, request(body))
	select {
	case item := <-heard:
		if e := a.holds(t, item, 0); e != nil {
			t.Fatal(e)
		}
	case <-time.After(15 * time.Second):
		t.Fatal("the owner does not hear of the hold")
	}
	wantState(t, <-answer, wire.ClaimApproved, "")
	end()
	waiting.Wait()
}

func (w *world) waiting() int {
	w.lanes.journal.mu.Lock()
	defer w.lanes.journal.mu.Unlock()
	return len(w.lanes.journal.queue)
}

// waitFor yields until something is so.
func waitFor(t *testing.T, so func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !so(); {
		if time.Now().After(end) {
			t.Fatal("it does not come about")
		}
		<-time.After(time.Millisecond)
	}
}

// TestItemWakesThosePollsAloneThatItIsFor: the others ask the tables nothing.
func TestItemWakesThosePollsAloneThatItIsFor(t *testing.T) {
	w := newWorld(t)
	one, leave := w.feed.listen("T-1")
	defer leave()
	two, leave := w.feed.listen("T-2")
	defer leave()
	rings := func(n int, audience string, wakes <-chan struct{}) {
		t.Helper()
		if err := w.fill(t, n, audience); err != nil {
			t.Fatal(err)
		}
		select {
		case <-wakes:
		case <-time.After(10 * time.Second):
			t.Fatalf("nobody was woken for %d items", n)
		}
	}
	silent := func(other <-chan struct{}) {
		t.Helper()
		select {
		case <-other:
			t.Error("it was woken for another one's items")
		default:
		}
	}
	rings(1, "T-1", one)
	silent(two)
	rings(1, everyone, one)
	rings(0, everyone, two)              // by the same item
	rings(audiencesAtOnce+1, "T-2", two) // more than are looked at in one go
	rings(1, "T-1", one)
	w.feed.mu.Lock()
	n := len(w.feed.by)
	w.feed.mu.Unlock()
	if n != 2 {
		t.Errorf("%d names are listened for", n)
	}
	w.EndPolls()
	late, leave := w.feed.listen("T-3")
	defer leave()
	for _, c := range []<-chan struct{}{one, two, late} {
		for range c { // what is left of the items; it ends
		}
	}
	if _, err := w.Feed(t.Context(), "T-1", int64(w.count(t, "SELECT max(seq) FROM feed")), time.Minute); err != nil {
		t.Error(err)
	}
}

// fill adds items for a terminal.
func (w *world) fill(t testing.TB, n int, terminal string) error {
	t.Helper()
	newest := int64(0)
	tx, err := w.store.(*sqliteStore).write.Begin()
	if err != nil {
		return err
	}
	for range n {
		if newest, err = addFeed(t.Context(), tx, terminal, w.now(), wire.FeedItem{Kind: "test"}); err != nil {
			return errors.Join(err, tx.Rollback())
		}
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	w.feed.added(newest)
	return nil
}

func TestPollsAboveTheBoundAreAnsweredAtOnce(t *testing.T) {
	l := newLanes(1)
	l.polls.Store(maxPolls)
	if wait, end := l.poll(time.Minute); wait != 0 {
		t.Errorf("held for %v", wait)
	} else {
		end()
	}
	l.polls.Store(maxPolls - 1)
	if wait, end := l.poll(time.Minute); wait != time.Minute {
		t.Errorf("held for %v", wait)
	} else {
		end()
	}
	if n := l.polls.Load(); n != maxPolls-1 {
		t.Errorf("%d polls are counted", n)
	}
}
