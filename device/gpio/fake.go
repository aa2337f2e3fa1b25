package gpio

import (
	"fmt"
	"slices"
	"sync"
	"time"

	periph "periph.io/x/conn/v3/gpio"
)

// maxLog bounds a Fake's logs.
const maxLog = 100_000

// Fake is a Pin without a wire, with the ways of the library's character device, listed
// at Pin; with Mapped set it has those of a Pi 3 or 4, where the library writes the
// registers itself. It logs what was done to it, and what could be measured on the wire.
// It is safe for concurrent use, and runs on a synctest bubble's clock.
type Fake struct {
	Label  string // of its chip
	Mapped bool   // set before use

	name string

	mu       sync.Mutex
	is       direction
	out      bool // level, as an output
	driven   bool // something outside drives the line
	outside  bool // with this level
	pull     periph.Pull
	edge     periph.Edge
	queue    int       // edges that wait
	waited   bool      // a wait has begun once, so Halt has something to move
	deadline time.Time // of the wait
	moved    chan struct{}
	fail     map[string]failure
	after    func(op string, high bool)
	calls    []string
	trace    []Change
	lost     int
}

// Change is a level on the wire and since when it is there.
type Change struct {
	At   time.Time
	High bool
}

type failure struct {
	err  error
	left int
}

// NewFake makes a free line that nothing drives.
func NewFake(name string) *Fake {
	return &Fake{name: name, Label: "fake", pull: periph.Float, moved: make(chan struct{}), fail: map[string]failure{}}
}

// Fakes finds fakes by their names, as a Finder does.
func Fakes(pins ...*Fake) Finder {
	return func(name string, _ bool) (Found, error) {
		for _, f := range pins {
			if f.name == name {
				return Found{Pin: f, Chip: f.Label, Glitches: !f.Mapped}, nil
			}
		}
		return Found{}, noLine(name, "it is no fake", fmt.Errorf("gpio: no line %s", name))
	}
}

// Fail makes the next calls of op, "in", "out", "read" or "wait", fail; a count below 0 is
// all calls. A read that fails says Low, a wait that fails is over at once.
func (f *Fake) Fail(op string, err error, count int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fail[op] = failure{err, count}
}

// After is called after each successful op, outside the lock. It may panic.
func (f *Fake) After(hook func(op string, high bool)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.after = hook
}

// failing uses up one failure of op. The lock is held.
func (f *Fake) failing(op string) error {
	x := f.fail[op]
	if x.left == 0 {
		return nil
	}
	if x.left > 0 {
		x.left--
		f.fail[op] = x
	}
	return x.err
}

// done logs a call, gives the lock back and runs the hook.
func (f *Fake) done(op, text string, high bool) {
	if len(f.calls) < maxLog {
		f.calls = append(f.calls, text)
	}
	hook := f.after
	f.mu.Unlock()
	if hook != nil {
		hook(op, high)
	}
}

// Name is the line's name.
func (f *Fake) Name() string { return f.name }

// level is what the wire carries. The lock is held.
func (f *Fake) level() bool {
	switch {
	case f.is == output:
		return f.out
	case f.driven:
		return f.outside
	}
	return f.pull == periph.PullUp
}

// become changes the wire and counts the edge. The lock is held.
func (f *Fake) become(edit func()) {
	was, watched := f.level(), f.is == input
	edit()
	now := f.level()
	if n := len(f.trace); n == 0 || f.trace[n-1].High != now {
		if n < maxLog {
			f.trace = append(f.trace, Change{time.Now(), now})
		}
	}
	if was == now || !watched || f.is != input {
		return
	}
	if f.edge == periph.BothEdges || f.edge == periph.RisingEdge && now || f.edge == periph.FallingEdge && was {
		if f.queue == kernelQueue {
			f.lost++
		} else {
			f.queue++
		}
		f.wake()
	}
}

func (f *Fake) wake() {
	close(f.moved)
	f.moved = make(chan struct{})
}

// In makes the line an input. Edges that wait go on waiting.
func (f *Fake) In(pull periph.Pull, edge periph.Edge) error {
	f.mu.Lock()
	if err := f.failing("in"); err != nil {
		f.mu.Unlock()
		return err
	}
	f.become(func() { f.is, f.pull, f.edge = input, pull, edge })
	f.done("in", fmt.Sprintf("in %v %v", pull, edge), false)
	return nil
}

// Out makes the line an output: low first, unless the registers are mapped.
func (f *Fake) Out(l periph.Level) error {
	f.mu.Lock()
	if err := f.failing("out"); err != nil {
		f.mu.Unlock()
		return err
	}
	if f.is != output && !f.Mapped {
		f.become(func() { f.is, f.out, f.edge, f.pull = output, false, periph.NoEdge, periph.PullNoChange })
	}
	f.become(func() { f.is, f.out = output, bool(l) })
	f.done("out", fmt.Sprintf("out %v", l), bool(l))
	return nil
}

// Read gives the level; a line that is no input becomes one, unless the registers are mapped.
func (f *Fake) Read() periph.Level {
	f.mu.Lock()
	text := "read"
	if f.is != input && !f.Mapped {
		text = "read makes an input"
		f.become(func() { f.is, f.pull, f.edge = input, periph.PullUp, periph.NoEdge })
	}
	level := f.level()
	if f.failing("read") != nil {
		level = false
	}
	f.done("read", text, level)
	return periph.Level(level)
}

// WaitForEdge waits for an edge: 0 is for ever, a negative time is over at once.
func (f *Fake) WaitForEdge(timeout time.Duration) bool {
	f.mu.Lock()
	f.deadline = time.Time{}
	if timeout != 0 {
		f.deadline = time.Now().Add(timeout)
	}
	text := fmt.Sprintf("wait %v", timeout)
	if f.edge == periph.NoEdge || f.is != input || f.failing("wait") != nil {
		f.done("wait", text+" fails", false)
		return false
	}
	f.waited = true
	for {
		left := time.Hour
		if !f.deadline.IsZero() {
			left = time.Until(f.deadline)
		}
		if left <= 0 { // before the queue is looked at, as a file's deadline is
			f.done("wait", text, false)
			return false
		}
		if f.queue > 0 {
			f.queue--
			f.done("wait", text, true)
			return true
		}
		moved := f.moved
		f.mu.Unlock()
		timer := time.NewTimer(left)
		select {
		case <-moved:
		case <-timer.C:
		}
		timer.Stop()
		f.mu.Lock()
	}
}

// Halt moves the deadline of a wait to the past, if a wait has ever begun. The next wait
// sets its own again.
func (f *Fake) Halt() error {
	f.mu.Lock()
	if f.waited {
		f.deadline = time.Unix(0, 0)
		f.wake()
	}
	f.done("halt", "halt", false)
	return nil
}

// Drive sets the level from outside.
func (f *Fake) Drive(high bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.become(func() { f.driven, f.outside = true, high })
}

// Bounce sets the level from outside as a switch does: n times there and back, then there.
func (f *Fake) Bounce(high bool, n int) {
	for range n {
		f.Drive(high)
		f.Drive(!high)
	}
	f.Drive(high)
}

// Level is what a meter on the wire would show.
func (f *Fake) Level() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.level()
}

// IsOutput says whether the line is driven by us.
func (f *Fake) IsOutput() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.is == output
}

// Lost is how many edges the queue had no room for.
func (f *Fake) Lost() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lost
}

// Calls are the calls of the Pin so far, oldest first, as "out High" or "wait 250ms".
func (f *Fake) Calls() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.calls)
}

// Trace is every level the wire had, glitches too, oldest first.
func (f *Fake) Trace() []Change {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.trace)
}
