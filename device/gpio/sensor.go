package gpio

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// The rhythm of a watched input.
const (
	lookEvery  = 250 * time.Millisecond // with no edge at all
	bounceTime = 30 * time.Millisecond  // the contacts of a switch rest after this
	maxBounces = 10                     // times bounceTime: then the level counts as it is
	// So many waits in a row that are over early tell of a driver that does not wait
	// (periph/host#78, periph/conn#40) or of a line that swings. A button gives the edges
	// that the kernel keeps for each way, at most.
	tooOften  = 2*kernelQueue + 8
	firstRest = lookEvery
	lastRest  = 2 * time.Second
)

// sensor is an input whose level is looked at. Edges only wake it: they get lost when many
// come, and old ones stay.
type sensor struct {
	part      Part
	line      *line
	pull      Pull
	activeLow bool
	momentary bool        // a button: what a restless line says is no press
	fault     func(error) // what keeps it from being watched; nil when that is over
}

// active is the level in the words of what hangs on the wire.
func (s *sensor) active() (bool, error) {
	high, err := s.line.high()
	return high != s.activeLow, err
}

// watch reports the state at its start, first being true, and then every change, once the
// contacts rest. It runs until ctx ends. A line that cannot be watched is a fault, told
// once, and is looked at less and less often.
func (s *sensor) watch(ctx context.Context, report func(active, first bool)) {
	p := pacer{tell: s.fault}
	for ctx.Err() == nil {
		err := s.line.listen(s.pull)
		if err == nil {
			err = s.follow(ctx, &p, report)
		}
		if err != nil {
			p.trouble(ctx, err)
		}
	}
}

// follow is watch on a line that is an input.
func (s *sensor) follow(ctx context.Context, p *pacer, report func(active, first bool)) error {
	known, first := false, true
	for ctx.Err() == nil {
		now, err := s.active()
		if err == nil && (first || now != known) {
			now, err = s.settle(ctx, now)
		}
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			return nil // the level was not waited for
		}
		if first || now != known && !(now && s.momentary && p.told) {
			report(now, first)
		}
		known, first = now, false
		began := time.Now()
		s.line.wait(lookEvery)
		if p.round(ctx, time.Since(began)) {
			s.line.drain() // the edges of the trouble are no new trouble
		}
	}
	return nil
}

// settle waits until the level is the same twice, bounceTime apart. It takes no edges into
// account: a timer waits even where the driver does not.
func (s *sensor) settle(ctx context.Context, now bool) (bool, error) {
	for range maxBounces {
		pause(ctx, bounceTime)
		was := now
		var err error
		if now, err = s.active(); err != nil || now == was {
			return now, err
		}
	}
	return now, nil
}

// errRestless is what a wait that is over too soon too often tells of.
var errRestless = errors.New("the line never rests, or the driver does not wait for edges")

// pacer keeps a watcher from turning at full speed, and tells of it once.
type pacer struct {
	tell  func(error)
	early int
	rest  time.Duration
	told  bool
}

// round counts a wait, and rests after too many early ones. One that lasted as long as it
// should ends all trouble.
func (p *pacer) round(ctx context.Context, took time.Duration) (rested bool) {
	if took >= lookEvery*4/5 {
		if p.told {
			p.tell(nil)
		}
		p.early, p.rest, p.told = 0, 0, false
		return false
	}
	if p.early++; p.early < tooOften {
		return false
	}
	p.trouble(ctx, fmt.Errorf("%w: %d waits in a row were over early", errRestless, p.early))
	return true
}

// trouble tells once and rests, longer each time.
func (p *pacer) trouble(ctx context.Context, err error) {
	if !p.told && ctx.Err() == nil {
		p.told = true
		p.tell(err)
	}
	p.rest = min(max(2*p.rest, firstRest), lastRest)
	pause(ctx, p.rest)
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
