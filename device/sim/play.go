package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// Hands do what a script says. *Devices are those of the simulated devices.
type Hands interface {
	Do(ctx context.Context, a Act) error
}

// Stage is where a script is played. Time is package time's: in a bubble of
// testing/synctest, with Hands that touch no pty, a day passes in no time.
type Stage struct {
	Hands Hands
	// Ticket serves ticket n, counted from 1, to its end; nil refuses "tickets".
	Ticket func(ctx context.Context, n int) error
	// Told, when set, learns of each act just before it is done. Calls come one at a time.
	Told func(Event)
}

// Event is an act whose turn has come.
type Event struct {
	Line   int           // of the script
	Fault  string        // the name of the fault it belongs to, or ""
	At     time.Duration // since the start
	Ticket int           // tickets begun so far
	Act    Act
}

// String is one line for a log.
func (e Event) String() string {
	name := ""
	if e.Fault != "" {
		name = " [" + e.Fault + "]"
	}
	return fmt.Sprintf("%v ticket %d line %d%s: %v", e.At.Round(time.Millisecond), e.Ticket, e.Line, name, e.Act)
}

// Play plays the script to its end, the acts that come later included. It ends early
// with the first act or ticket that fails, or with ctx. The error names the line.
func (s *Script) Play(ctx context.Context, stage Stage) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	p := &play{script: s, stage: stage, rng: rand.New(rand.NewPCG(s.Seed, 0)), start: time.Now(), agenda: agenda{news: make(chan struct{}, 1)}}
	for _, st := range s.steps {
		if st.kind == stepAt {
			act, _ := st.act.resolve(p.rng)
			p.later(p.start.Add(time.Duration(st.time.draw(p.rng).lo)), job{line: st.line, act: act})
		}
	}
	var acting sync.WaitGroup
	acting.Go(func() {
		if err := p.attend(ctx); err != nil {
			cancel(err)
		}
	})
	err := p.walk(ctx)
	if err != nil {
		cancel(err)
	}
	p.agenda.end()
	acting.Wait()
	if first := context.Cause(ctx); first != nil {
		return first
	}
	return err
}

// play is one play of a script.
type play struct {
	script *Script
	stage  Stage
	rng    *rand.Rand // of walk's goroutine only: what it draws must not hang on timing
	start  time.Time
	rules  []step
	bag    []int // faults still to come before any comes again
	agenda agenda

	mu     sync.Mutex
	ticket int
}

// job is an act whose turn is known.
type job struct {
	line  int
	fault string
	act   Act
}

// walk does the steps in their order.
func (p *play) walk(ctx context.Context) error {
	for _, st := range p.script.steps {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := p.step(ctx, st); err != nil {
			return err
		}
	}
	return nil
}

func (p *play) step(ctx context.Context, st step) error {
	switch st.kind {
	case stepAct:
		return p.act(ctx, job{line: st.line, act: st.act})
	case stepDraw:
		return p.draw(ctx)
	case stepEvery:
		p.rules = append(p.rules, st)
	case stepWait:
		t := time.NewTimer(time.Duration(st.time.draw(p.rng).lo))
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	case stepTickets:
		for range st.n {
			if err := p.serve(ctx, st.line); err != nil {
				return err
			}
		}
	}
	return nil
}

// serve does what is due before a ticket, and the ticket.
func (p *play) serve(ctx context.Context, line int) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if p.stage.Ticket == nil {
		return &ScriptError{p.script.name, line, errors.New("tickets: there are none here")}
	}
	p.mu.Lock()
	p.ticket++
	n := p.ticket
	p.mu.Unlock()
	for _, rule := range p.rules {
		if n%rule.n != 0 {
			continue
		}
		var err error
		if rule.act.form == nil {
			err = p.draw(ctx)
		} else {
			err = p.act(ctx, job{line: rule.line, act: rule.act})
		}
		if err != nil {
			return err
		}
	}
	if err := p.stage.Ticket(ctx, n); err != nil {
		return &ScriptError{p.script.name, line, fmt.Errorf("ticket %d: %w", n, err)}
	}
	return nil
}

// draw does the acts of one fault. Each comes once before any comes again, so that a
// long script meets them all.
func (p *play) draw(ctx context.Context) error {
	if len(p.bag) == 0 {
		p.bag = p.rng.Perm(len(p.script.faults))
	}
	f := p.script.faults[p.bag[0]]
	p.bag = p.bag[1:]
	for _, j := range f.acts {
		if err := p.act(ctx, j); err != nil {
			return err
		}
	}
	return nil
}

// act does an act now, or puts it on the agenda.
func (p *play) act(ctx context.Context, j job) error {
	act, d := j.act.resolve(p.rng)
	if j.act = act; d > 0 {
		p.later(time.Now().Add(d), j)
		return nil
	}
	return p.do(ctx, j)
}

func (p *play) do(ctx context.Context, j job) error {
	p.mu.Lock()
	if p.stage.Told != nil {
		p.stage.Told(Event{j.line, j.fault, time.Since(p.start), p.ticket, j.act})
	}
	p.mu.Unlock()
	if err := p.stage.Hands.Do(ctx, j.act); err != nil {
		return &ScriptError{p.script.name, j.line, fmt.Errorf("%v: %w", j.act, err)}
	}
	return nil
}

func (p *play) later(at time.Time, j job) { p.agenda.add(&due{at, j}) }

// attend does what stands on the agenda, in the order of its time, until it is ended and empty.
func (p *play) attend(ctx context.Context) error {
	for {
		next, ok, ended := p.agenda.first()
		if !ok && ended {
			return nil
		}
		var come <-chan time.Time // never, with an empty agenda
		if ok {
			come = time.After(time.Until(next.at))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-p.agenda.news:
		case <-come:
			p.agenda.drop(next)
			if err := p.do(ctx, next.job); err != nil {
				return err
			}
		}
	}
}

// due is a job and its time.
type due struct {
	at  time.Time
	job job
}

// agenda keeps what is due, the earliest first and equal times in the order they came.
type agenda struct {
	mu    sync.Mutex
	list  []*due
	ended bool
	news  chan struct{}
}

func (a *agenda) add(d *due) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.list = append(a.list, d)
	slices.SortStableFunc(a.list, func(x, y *due) int { return x.at.Compare(y.at) })
	a.tell()
}

func (a *agenda) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = true
	a.tell()
}

func (a *agenda) tell() {
	select {
	case a.news <- struct{}{}:
	default:
	}
}

func (a *agenda) first() (next *due, ok, ended bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.list) == 0 {
		return nil, false, a.ended
	}
	return a.list[0], true, a.ended
}

// drop takes a job off the agenda.
func (a *agenda) drop(d *due) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.list = slices.DeleteFunc(a.list, func(x *due) bool { return x == d })
}
