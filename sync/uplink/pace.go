package uplink

import (
	"sync"
	"time"
)

// RetryCap is the longest pause that failures alone lead to, where Options name no other.
const RetryCap = time.Minute

const retryBase = 500 * time.Millisecond

// Backoff is how long a lane waits after its failures. The zero Backoff has none behind
// it.
//
// Without central's word the pause is a random part of a bound that doubles up to a cap:
// from zero, so that a country's terminals do not come back at one moment, and drawn
// after the cap, so that they do not at the cap either. Central's Retry-After is a slot of
// this terminal's own: it is waited in full and then no longer than a little, and the
// failures before it do not count, because whoever gives out slots is there again.
type Backoff struct {
	tries   int
	slotted bool // the last failure was a slot
}

// Next is the pause after one more failure. Slot is what central asked for, 0 for
// nothing; cap bounds the rest; random is in [0, 1).
func (b *Backoff) Next(slot, cap time.Duration, random float64) time.Duration {
	if given := slot > 0; given != b.slotted {
		b.tries, b.slotted = 0, given
	}
	bound := min(retryBase<<min(b.tries, 20), cap)
	b.tries++
	return max(slot+time.Duration(random*float64(bound)), time.Millisecond)
}

// Reset forgets the failures: something came through.
func (b *Backoff) Reset() { *b = Backoff{} }

const (
	paceStart = 32 << 10 // bytes a second, believed before anything is known
	paceFloor = 40       // slower is not waited for; a modem of 1 200 baud carries 150
	paceTop   = 8 << 20

	// around is what an exchange carries beside its bodies: a handshake with both sides'
	// certificates, and headers.
	around = 6 << 10
	// lineMost bounds what the line may take of an exchange's time.
	lineMost = 10 * time.Minute
	// uploadGoal is how long an upload should take at most: a larger one loses more when it
	// is cut, and a smaller one is mostly headers.
	uploadGoal = time.Minute
)

// pace is how fast the line to central is, in bytes a second, as exchanges have shown: an
// exchange that came through proves a rate, one that was late halves what is believed.
// The zero pace believes paceStart.
type pace struct {
	mu   sync.Mutex
	rate float64
}

func (p *pace) believed() float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.rate == 0 {
		return paceStart
	}
	return p.rate
}

// line is how long the line may take for so many bytes, twice what is believed. It goes by
// whole KiB, as does carried: one ECDSA signature in a hundred is a byte shorter than the
// others, and by the length of a random number two runs of one simulated evening would differ.
func (p *pace) line(bytes int) time.Duration {
	whole := (bytes + around + 1023) / 1024 * 1024
	return min(time.Duration(2*float64(whole)/p.believed()*float64(time.Second)), lineMost)
}

// carried notes an exchange that came through.
func (p *pace) carried(bytes int, took time.Duration) {
	rate := p.believed()
	if took > 0 {
		rate = max(rate, float64(bytes/1024*1024)/took.Seconds())
	}
	p.set(rate)
}

// late notes one that was given up though central was reached.
func (p *pace) late() { p.set(p.believed() / 2) }

func (p *pace) set(rate float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rate = min(max(rate, paceFloor), paceTop)
}
