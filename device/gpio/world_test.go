package gpio

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"grattoir/device/terminal"
	"grattoir/validate"
)

// world is a Board on fakes, with a counter to follow.
type world struct {
	t       *testing.T
	board   *Board
	pin     map[Part]*Fake
	counter *counter
	log     bytes.Buffer

	mu      sync.Mutex
	faults  []string   // codes now
	history [][]string // every change of them
	presses []string
	pay     func(id string) error
	stop    func()
}

// everything is a configuration with all parts, the pins named after them.
func everything() Config {
	return Config{Busy: Input{Pin: "busy"}, Power: Output{Pin: "power"}, Drawer: Output{Pin: "drawer"}, Win: Output{Pin: "win"}, Refuse: Output{Pin: "refuse"},
		Alarm: Output{Pin: "fault"}, Buzzer: Output{Pin: "buzzer"}, Tamper: Input{Pin: "tamper", ActiveLow: true}, Pay: Input{Pin: "pay", ActiveLow: true}}
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, pin: map[Part]*Fake{}, counter: newCounter()}
	for _, p := range append([]Part{Busy, Tamper, Pay}, order[:]...) {
		w.pin[p] = NewFake(string(p))
	}
	w.pin[Tamper].Drive(true) // the case is closed
	return w
}

func (w *world) finder() Finder {
	var all []*Fake
	for _, f := range w.pin {
		all = append(all, f)
	}
	return Fakes(all...)
}

func (w *world) open(c Config) { w.openWith(c, w.finder()) }

func (w *world) openWith(c Config, find Finder) {
	w.board = Open(Options{Config: c, Find: find, Log: slog.New(slog.NewTextHandler(&w.log, nil)), Faults: func(list []*Fault) {
		codes := []string{}
		for _, f := range list {
			codes = append(codes, f.Code)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.faults = codes
		w.history = append(w.history, codes)
	}})
}

// run opens and runs the board inside the test's bubble.
func (w *world) run(c Config) {
	w.open(c)
	ctx, cancel := context.WithCancel(w.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.board.Run(ctx, w.counter, func(_ context.Context, id string) error {
			w.mu.Lock()
			w.presses = append(w.presses, id)
			pay := w.pay
			w.mu.Unlock()
			if pay != nil {
				return pay(id)
			}
			return nil
		})
	}()
	w.stop = sync.OnceFunc(func() { cancel(); <-done })
	w.t.Cleanup(w.stop)
	w.pass(time.Second)
}

// pass lets time go by, and everything settle.
func (w *world) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (w *world) codes() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.faults)
}

func (w *world) pressed() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.presses)
}

// counter is what the board follows.
type counter struct {
	mu      sync.Mutex
	state   terminal.State
	changed chan struct{}
}

func newCounter() *counter {
	return &counter{state: terminal.State{View: terminal.View{Stage: terminal.Idle}}, changed: make(chan struct{})}
}

func (c *counter) State() (terminal.State, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state, c.changed
}

func (c *counter) set(edit func(*terminal.State)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	edit(&c.state)
	close(c.changed)
	c.changed = make(chan struct{})
}

func (c *counter) show(id string, stage terminal.Stage, o validate.Outcome, r validate.Reason) {
	c.set(func(s *terminal.State) {
		s.View = terminal.View{ID: id, Stage: stage, Verdict: validate.Verdict{Outcome: o, Reason: r}}
	})
}

func (c *counter) winner(id string) { c.show(id, terminal.Verdict, validate.Pay, validate.Winner) }

// press is one honest press of the button, bounces included.
func (w *world) press() {
	w.pin[Pay].Bounce(false, 5)
	w.pass(200 * time.Millisecond)
	w.pin[Pay].Bounce(true, 5)
	w.pass(600 * time.Millisecond)
}

// highs are the times during which the wire was high, from the trace.
func highs(f *Fake) []time.Duration {
	var list []time.Duration
	var since time.Time
	for _, c := range f.Trace() {
		if c.High {
			since = c.At
		} else if !since.IsZero() {
			list = append(list, c.At.Sub(since))
			since = time.Time{}
		}
	}
	return list
}

// gaps are the times between them.
func gaps(f *Fake) []time.Duration {
	var list []time.Duration
	var since time.Time
	for _, c := range f.Trace() {
		if !c.High {
			since = c.At
		} else if !since.IsZero() {
			list = append(list, c.At.Sub(since))
		}
	}
	return list
}
