package terminaltest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"grattoir/device/terminal"
	"grattoir/validate"
)

// Printer keeps the slips it printed. It is ready at first and answers Printed.
type Printer struct {
	mu       sync.Mutex
	fault    *terminal.Fault
	warning  *terminal.Fault
	takes    time.Duration
	paused   bool
	level    validate.PrintState
	opened   []string // claims whose slip opened the drawer
	slips    []validate.Receipt
	closings []validate.Closing
	results  []terminal.Result
	changed  chan struct{} // closed at every change of the above
}

// NewPrinter makes a printer that is ready.
func NewPrinter() *Printer {
	return &Printer{level: validate.Printed, changed: make(chan struct{})}
}

// PaperOut is a fault to break the printer with.
func PaperOut() *terminal.Fault {
	return &terminal.Fault{Code: "P2", ClerkFR: "Plus de papier.\nMettez un rouleau.", ClerkEN: "Out of paper.\nLoad a roll.",
		Technician: "paper end sensor"}
}

// Break sets what keeps the printer from printing; nil mends it. A slip that is being
// printed then is held inside the printer and goes on after the mending.
func (p *Printer) Break(f *terminal.Fault) { p.set(func() { p.fault = f }) }

// Warn sets what the printer will soon need; nil for nothing.
func (p *Printer) Warn(f *terminal.Fault) { p.set(func() { p.warning = f }) }

// PaperLow is a warning.
func PaperLow() *terminal.Fault {
	return &terminal.Fault{Code: "P10", ClerkFR: "Bientôt plus de papier.\nPréparez un rouleau.", ClerkEN: "Paper is running out.\nHave a roll ready.",
		Technician: "paper near end sensor"}
}

// Pause keeps slips inside the printer until Resume, with no fault.
func (p *Printer) Pause() { p.set(func() { p.paused = true }) }

// Resume ends Pause.
func (p *Printer) Resume() { p.set(func() { p.paused = false }) }

// Reach sets the level that later slips reach: Sent, Consumed, Printed or Unknown.
func (p *Printer) Reach(s validate.PrintState) { p.set(func() { p.level = s }) }

func (p *Printer) set(edit func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	edit()
	close(p.changed)
	p.changed = make(chan struct{})
}

// Takes lets each slip take so long from now on, in the time of the test's bubble.
func (p *Printer) Takes(d time.Duration) { p.set(func() { p.takes = d }) }

// Slips lists what came out, in order. Copies of a receipt tells which copy it is.
func (p *Printer) Slips() []validate.Receipt {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.slips)
}

// Await waits until n slips have come out, and returns them all.
func (p *Printer) Await(ctx context.Context, n int) ([]validate.Receipt, error) {
	for {
		p.mu.Lock()
		slips, changed := slices.Clone(p.slips), p.changed
		p.mu.Unlock()
		if len(slips) >= n {
			return slips, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return slips, fmt.Errorf("%d of %d slips: %w", len(slips), n, ctx.Err())
		}
	}
}

// Ready is nil, or the fault set by Break.
func (p *Printer) Ready() *terminal.Fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fault
}

// Warning is nil, or the one set by Warn.
func (p *Printer) Warning() *terminal.Fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.warning
}

// Changed is closed at the next change of anything.
func (p *Printer) Changed() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.changed
}

// PrintClosing keeps the slip of a closing, as Print does that of a payment.
func (p *Printer) PrintClosing(ctx context.Context, c validate.Closing) (validate.PrintState, error) {
	return p.print(ctx, func(*terminal.Fault) {}, func() { p.closings = append(p.closings, c) })
}

// PrintResult keeps the slip of a check, as Print does that of a payment.
func (p *Printer) PrintResult(ctx context.Context, r terminal.Result) (validate.PrintState, error) {
	return p.print(ctx, func(*terminal.Fault) {}, func() { p.results = append(p.results, r) })
}

// Results lists the slips of checks, in their order.
func (p *Printer) Results() []terminal.Result {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.results)
}

// Opened lists the claims whose slip opened the drawer.
func (p *Printer) Opened() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.opened)
}

// Closings lists the slips of closings, in their order.
func (p *Printer) Closings() []validate.Closing {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.closings)
}

// Print keeps the slip. A fault at its beginning gives Held: nothing was sent. A pause
// or a fault later is waited for; when ctx ends in it nobody can tell: Unknown.
func (p *Printer) Print(ctx context.Context, r validate.Receipt, drawer bool, watch func(*terminal.Fault)) (validate.PrintState, error) {
	return p.print(ctx, watch, func() {
		p.slips = append(p.slips, r)
		if drawer {
			p.opened = append(p.opened, r.ID)
		}
	})
}

func (p *Printer) print(ctx context.Context, watch func(*terminal.Fault), keep func()) (validate.PrintState, error) {
	if f := p.Ready(); f != nil {
		return validate.Held, fmt.Errorf("printer fault %s: nothing was sent", f.Code)
	}
	var told *terminal.Fault
	for {
		p.mu.Lock()
		fault, changed := p.fault, p.changed
		if fault == nil && !p.paused {
			level, took := p.level, p.takes
			if took > 0 {
				p.mu.Unlock()
				time.Sleep(took)
				p.mu.Lock()
			}
			keep()
			close(p.changed)
			p.changed = make(chan struct{})
			p.mu.Unlock()
			return level, nil
		}
		p.mu.Unlock()
		if fault != told {
			watch(fault)
			told = fault
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return validate.Unknown, ctx.Err()
		}
	}
}
