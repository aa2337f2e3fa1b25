package central

import (
	"math"
	"time"
)

// Verdicts of an Admission.
type Verdict int

// A request that may wait is served in its turn. One that is refused comes back at its
// slot.
const (
	Serve Verdict = iota
	Wait
	Refuse
)

const (
	// A queue is as long as what is served in so much time: a terminal gives up after half
	// a minute, and one that came at its slot has more of the queue than one that did not,
	// so that nobody is refused twice.
	queueFresh = 3 * time.Second
	queueSlot  = 10 * time.Second

	maxQueue   = 4000
	maxSlots   = 200_000          // terminals whose slots are remembered
	slotEarly  = 2 * time.Second  // so much before its slot a terminal counts as in time
	slotLate   = time.Minute      // and so much after it
	slotShare  = 0.9              // of what can be served is given out as slots
	maxSlot    = 30 * time.Minute // a terminal that is told later than this asks again
	workAtOnce = 64               // requests of a lane at work at one time

	// firstWork is what a request of a full lane is believed to take before one was seen:
	// 320 a second.
	firstWork = 200 * time.Millisecond
	// A lane believes within provenIn that it is faster than it thought, and takes slowFor
	// to believe that it is slower. When a central starts again, its first seconds go on
	// thousands of handshakes; slots by the pace of these seconds would leave it idle for
	// minutes. Slots that come too early cost a refusal, a tenth of a request.
	provenIn = time.Second
	slowFor  = 10 * time.Second
	// lessonShare bounds what one request teaches.
	lessonShare = 1.0 / 16
)

// Admission decides for one lane who is served, who waits and who comes back when. How
// fast the lane is it learns from how long its requests take while it is full. Refused terminals get slots
// one behind the other, at nine tenths of that rate, so they come back evenly and find
// room. It keeps no clock and starts nothing, so a model can ask it as the server does; it
// is not safe for concurrent use.
type Admission struct {
	width   int
	work    time.Duration // what a request of the full lane takes, smoothed
	learned time.Time     // when that was last looked at
	working int
	waiting int
	next    time.Time            // the next slot that is free
	slots   map[string]time.Time // by terminal
}

// NewAdmission is one for a lane that works on so many requests at one time, 0 for the
// usual.
func NewAdmission(width int) *Admission {
	if width < 1 {
		width = workAtOnce
	}
	return &Admission{width: width, work: firstWork, slots: map[string]time.Time{}}
}

// rate is how many requests a second are served when all the lane works.
func (a *Admission) rate() float64 {
	return float64(a.width) / max(a.work, 50*time.Microsecond).Seconds()
}

// Arrive says what becomes of a terminal's request now, and for Refuse after how much
// time it has its slot: whole seconds, as Retry-After has them. Serve counts as begun,
// Wait as waiting: Begin follows when its turn has come, or Leave.
func (a *Admission) Arrive(terminal string, now time.Time) (Verdict, time.Duration) {
	slot, had := a.slots[terminal]
	inTime := had && !now.Before(slot.Add(-slotEarly)) && now.Before(slot.Add(slotLate))
	queue := queueFresh
	if inTime {
		queue = queueSlot
	}
	switch room := min(int(a.rate()*queue.Seconds())+1, maxQueue); {
	case a.working < a.width && a.waiting == 0:
		a.working++
		delete(a.slots, terminal)
		return Serve, 0
	case a.waiting < room:
		a.waiting++
		delete(a.slots, terminal)
		return Wait, 0
	}
	if had && now.Before(slot) { // it came early, and keeps its slot
		return Refuse, seconds(slot.Sub(now))
	}
	return Refuse, a.give(terminal, now)
}

// give finds the next slot. The first is behind what waits already.
func (a *Admission) give(terminal string, now time.Time) time.Duration {
	first := now.Add(time.Duration(float64(a.waiting) / a.rate() * float64(time.Second)))
	if a.next.Before(first) {
		a.next = first
	}
	if a.next.After(now.Add(maxSlot)) {
		return maxSlot // without a slot of its own
	}
	after := seconds(a.next.Sub(now))
	a.next = a.next.Add(time.Duration(float64(time.Second) / (slotShare * a.rate())))
	if len(a.slots) >= maxSlots {
		a.forget(now)
	}
	if len(a.slots) < maxSlots {
		a.slots[terminal] = now.Add(after)
	}
	return after
}

// forget drops the slots that nobody took.
func (a *Admission) forget(now time.Time) {
	for name, slot := range a.slots {
		if now.After(slot.Add(slotLate)) {
			delete(a.slots, name)
		}
	}
}

// seconds rounds up, to 1 or more.
func seconds(d time.Duration) time.Duration {
	return max(1, time.Duration(math.Ceil(d.Seconds()))) * time.Second
}

// Begin counts a request that waited as at work.
func (a *Admission) Begin() { a.waiting--; a.working++ }

// Leave counts out one that waited and is not there any more.
func (a *Admission) Leave() { a.waiting-- }

// Done counts out one that was at work for so long, until now. A lane that is not full
// teaches nothing: its requests are quick because they are few.
func (a *Admission) Done(took time.Duration, now time.Time) {
	full, since := a.working >= a.width, now.Sub(a.learned)
	a.working--
	a.learned = now
	if !full {
		return
	}
	took = max(took, time.Microsecond)
	within := slowFor
	if took < a.work {
		within = provenIn
	}
	// In proportion, so that a few slow ones do not outweigh many quick ones.
	share := max(0, min(lessonShare, since.Seconds()/within.Seconds()))
	a.work = time.Duration(float64(a.work) * math.Pow(float64(took)/float64(a.work), share))
}

// Gone counts out one that was at work and was not served.
func (a *Admission) Gone() { a.working-- }

// Free tells whether a request that waits may begin.
func (a *Admission) Free() bool { return a.waiting > 0 && a.working < a.width }
