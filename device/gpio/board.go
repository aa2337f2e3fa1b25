package gpio

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"grattoir/device/terminal"
	"grattoir/validate"
)

// Options make a Board. Find, Log and Faults are required.
type Options struct {
	Config Config
	Find   Finder
	Log    *slog.Logger
	// Faults is told all faults there are, each time one comes or goes: the worst first. It
	// must return soon and not call the Board.
	Faults func([]*Fault)
}

// Board is the terminal's wires. It is safe for concurrent use.
type Board struct {
	cfg Config
	log *slog.Logger

	drawer                     *drawer
	printer                    *Printer
	win, refuse, alarm, buzzer *relay
	tamper, pay                *sensor

	lighting sync.Mutex     // held over a change of the lamps
	opening  sync.WaitGroup // drawers being opened for payments

	tell func([]*Fault)
	mu   sync.Mutex // guards what follows, and tell
	bad  map[Part]*Fault
	open *bool // the case, nil for not known
	seen shown
	down bool // the pay button
}

// shown is the view that the pay button means.
type shown struct {
	id      string
	payable bool
	since   time.Time
}

// Counter is what the lamps follow: *terminal.Terminal.
type Counter interface {
	State() (terminal.State, <-chan struct{})
}

// Open finds the wires and makes every output idle, the drawer first, before it returns.
// It never fails: a wire that is not there, or may not be used, is a fault, told to
// Options.Faults, and everything else works.
func Open(opt Options) *Board {
	b := &Board{cfg: opt.Config.withDefaults(), log: opt.Log.With("device", "gpio"), tell: opt.Faults, bad: map[Part]*Fault{}}
	outs := map[Part]*relay{}
	for _, p := range order {
		outs[p] = b.output(opt.Find, p, b.cfg.outputs()[p])
	}
	b.win, b.refuse, b.alarm, b.buzzer = outs[Win], outs[Refuse], outs[Alarm], outs[Buzzer]
	b.drawer = newDrawer(outs[Drawer], b.cfg.DrawerPulse, func(err error) {
		b.report(Drawer, err, func() *Fault { return drawerFault(err) })
	})
	b.printer = &Printer{power: outs[Power], offFor: b.cfg.PowerOff, settles: b.cfg.PowerSettles, since: time.Now(), switchedOnce: outs[Power] != nil,
		fault: b.outputFailed(Power), busy: b.input(opt.Find, Busy, b.cfg.Busy)}
	b.tamper, b.pay = b.input(opt.Find, Tamper, b.cfg.Tamper), b.input(opt.Find, Pay, b.cfg.Pay)
	if b.pay != nil {
		b.pay.momentary = true
	}
	if s := b.printer.busy; s != nil {
		s.fault(s.line.listen(s.pull))
	}
	return b
}

// output finds an output and makes it idle; nil where there is none.
func (b *Board) output(find Finder, p Part, o Output) *relay {
	if o.Pin == "" {
		return nil
	}
	r := b.find(find, p, o)
	if r != nil {
		b.outputFailed(p)(r.set(false))
	}
	return r
}

// find finds the line of an output and does not touch it; nil where it cannot be used.
func (b *Board) find(find Finder, p Part, o Output) *relay {
	found, err := find(o.Pin, p == Drawer)
	if err != nil {
		b.missing(p, o.Pin, err)
		return nil
	}
	if o.ActiveLow && found.Glitches {
		if p == Drawer || p == Power {
			f := glitchFault(p, o.Pin)
			b.report(p, f, func() *Fault { return f })
			return nil // the line stays as it is, which is what its resistor says
		}
		b.log.Warn("an active-low output is switched on for a moment at each start: wire it active-high", "part", p, "line", o.Pin, "chip", found.Chip)
	}
	return &relay{part: p, line: &line{Found: found, name: o.Pin}, activeLow: o.ActiveLow}
}

// Look finds the lines of a configuration and touches none: the faults that Open would
// name, the worst first.
func Look(c Config, find Finder) []*Fault {
	b := &Board{log: slog.New(slog.DiscardHandler), tell: func([]*Fault) {}, bad: map[Part]*Fault{}}
	for _, p := range order {
		if o := c.outputs()[p]; o.Pin != "" {
			b.find(find, p, o)
		}
	}
	for p, i := range c.inputs() {
		b.input(find, p, i)
	}
	return b.faults()
}

// input finds an input; nil where there is none.
func (b *Board) input(find Finder, p Part, i Input) *sensor {
	if i.Pin == "" {
		return nil
	}
	found, err := find(i.Pin, false)
	if err != nil {
		b.missing(p, i.Pin, err)
		return nil
	}
	return &sensor{part: p, line: &line{Found: found, name: i.Pin}, pull: i.pull(), activeLow: i.ActiveLow,
		fault: func(err error) { b.report(p, err, func() *Fault { return inputFault(p, err) }) }}
}

// missing reports a wire that was not found. That there is no GPIO at all is one fault,
// not one for each wire.
func (b *Board) missing(p Part, name string, err error) {
	var f *Fault
	if !errors.As(err, &f) {
		f = noLine(name, err.Error(), err)
	}
	key := Part("")
	if f.Code == CodeNoLine {
		key = p
	}
	b.report(key, f, func() *Fault { return f })
}

// outputFailed reports what came of switching an output.
func (b *Board) outputFailed(p Part) func(error) {
	return func(err error) { b.report(p, err, func() *Fault { return outputFault(p, err) }) }
}

// set switches an output that harms nobody, and reports what came of it.
func (b *Board) set(r *relay, on bool) {
	if r != nil {
		b.outputFailed(r.part)(r.set(on))
	}
}

// rank puts the worst fault first.
var rank = [...]string{CodeDrawer, CodeGlitch, CodeOpen, CodeOpened, CodePermission, CodeNone, CodeNoLine, CodeOutput, CodeInput, CodeStuck}

// report keeps, or with no err ends, the fault of a part, and tells of a change.
func (b *Board) report(p Part, err error, words func() *Fault) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.keep(p, err, words)
}

// keep is report with the lock held, for any kind of fault.
func (b *Board) keep(key Part, err error, words func() *Fault) {
	was := b.bad[key]
	switch {
	case err == nil && was == nil:
		return
	case err == nil:
		delete(b.bad, key)
		b.log.Info("gpio fault is over", "code", was.Code, "part", key)
	default:
		now := words()
		if was != nil && was.Code == now.Code {
			return // told already
		}
		b.bad[key] = now
		b.log.Warn("gpio fault", "code", now.Code, "part", key, "err", now)
	}
	b.tell(b.faults())
}

// faults lists them, the worst first. The lock is held.
func (b *Board) faults() []*Fault {
	var list []*Fault
	for _, code := range rank {
		for _, p := range append(order[:], "", Tamper, nowOpen, onceOpen, Pay, stuckKey, Busy) {
			if f := b.bad[p]; f != nil && f.Code == code {
				list = append(list, f)
			}
		}
	}
	return list
}

// The keys of faults that a wire has beside its own.
const (
	nowOpen  Part = "tamper-open"
	onceOpen Part = "tamper-opened"
	stuckKey Part = "pay-stuck"
)

// Printer is the printer's lines.
func (b *Board) Printer() *Printer { return b.printer }

// OpenDrawer opens the cash drawer: one pulse, after the pause that the coil needs since
// the last one. It returns when the pulse is over. The errors are ErrNoDrawer,
// ErrDrawerBusy, ErrDrawerStuck, that of the line, or that of ctx, whose end also ends a
// pulse. The coil is switched off in every case.
func (b *Board) OpenDrawer(ctx context.Context) error { return b.drawer.open(ctx) }

// Has says whether a part is wired, and its line was found.
func (b *Board) Has(p Part) bool {
	outs := map[Part]*relay{Drawer: b.drawer.out, Power: b.printer.power, Win: b.win, Refuse: b.refuse, Alarm: b.alarm, Buzzer: b.buzzer}
	ins := map[Part]*sensor{Busy: b.printer.busy, Tamper: b.tamper, Pay: b.pay}
	return outs[p] != nil || ins[p] != nil
}

// CaseOpen is what the tamper switch says; known is false where there is none, or before
// Run has looked.
func (b *Board) CaseOpen() (open, known bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open == nil {
		return false, false
	}
	return *b.open, true
}

// ErrNoSwitch means that no tamper switch is wired here, or that its line is not usable.
var ErrNoSwitch = errors.New("no tamper switch is wired to a pin of this terminal")

// Case is what the tamper switch says now; it looks by itself where Run does not.
func (b *Board) Case(ctx context.Context) (open bool, err error) {
	if open, known := b.CaseOpen(); known {
		return open, nil
	}
	if b.tamper == nil {
		return false, ErrNoSwitch
	}
	if err := b.tamper.line.listen(b.tamper.pull); err != nil {
		return false, err
	}
	if open, err = b.tamper.active(); err != nil {
		return false, err
	}
	if open, err = b.tamper.settle(ctx, open); err != nil {
		return false, err
	}
	return open, ctx.Err()
}

// Blink lights each lamp in turn and then sounds the buzzer, each for the time given: a
// technician looks on. The lamps then show the counter's view again within seconds.
func (b *Board) Blink(ctx context.Context, each time.Duration) error {
	b.lighting.Lock()
	defer b.lighting.Unlock()
	for _, r := range []*relay{b.win, b.refuse, b.alarm, b.buzzer} {
		if r == nil {
			continue
		}
		if err := r.set(true); err != nil {
			return err
		}
		pause(ctx, each)
		if err := r.set(false); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// Run watches the switches and shows what the counter shows, until ctx ends; then lamps
// and buzzer are off and no drawer is being opened. Pay is called for a press of the pay
// button, with the id of the view that the press was made for.
func (b *Board) Run(ctx context.Context, counter Counter, pay func(ctx context.Context, id string) error) {
	var parts sync.WaitGroup
	parts.Go(func() { b.follow(ctx, counter) })
	parts.Go(func() { b.drawer.mend(ctx) })
	if b.tamper != nil {
		parts.Go(func() { b.tamper.watch(ctx, b.caseIs) })
	}
	if b.pay != nil {
		parts.Go(func() { b.watchPay(ctx, counter, pay) })
	}
	parts.Wait()
	b.opening.Wait()
	for _, r := range []*relay{b.buzzer, b.win, b.refuse, b.alarm} {
		b.set(r, false)
	}
}

// Close makes every output idle, the drawer first, and leaves it so: a line that was given
// back to the kernel would float. The printer's power stays as it is, for a slip may lie
// held in it; the next start switches it off before it is switched on.
func (b *Board) Close() error {
	var errs []error
	if b.drawer.out != nil {
		errs = append(errs, b.drawer.off())
	}
	for _, r := range []*relay{b.buzzer, b.win, b.refuse, b.alarm} {
		errs = append(errs, r.set(false))
	}
	return errors.Join(errs...)
}

// caseIs takes what the tamper switch says.
func (b *Board) caseIs(open, first bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open = &open
	b.log.Log(context.Background(), levelOf(open), "tamper switch", "open", open, "at_start", first)
	if !open {
		b.keep(nowOpen, nil, caseOpen)
		return
	}
	b.keep(nowOpen, errOpen, caseOpen)
	b.keep(onceOpen, errOpen, caseOpened)
}

func levelOf(open bool) slog.Level {
	if open {
		return slog.LevelWarn
	}
	return slog.LevelInfo
}

var errOpen = errors.New("the case is open")

// The times of the pay button.
const (
	pressGuard = 500 * time.Millisecond // a press this soon after a view is not meant for it, as on the page
	stuckAfter = 20 * time.Second
)

// note keeps what is shown and since when.
func (b *Board) note(s terminal.State) {
	v := s.View
	now := shown{id: v.ID, payable: v.Stage == terminal.Verdict && v.Verdict.Outcome == validate.Pay && v.ID != ""}
	b.mu.Lock()
	defer b.mu.Unlock()
	if now.id != b.seen.id || now.payable != b.seen.payable {
		now.since = time.Now()
		b.seen = now
	}
}

// watchPay passes presses on. A press is the way down, once: a button that is held, or is
// down at the start, presses nothing.
func (b *Board) watchPay(ctx context.Context, counter Counter, pay func(context.Context, string) error) {
	stuck := time.AfterFunc(time.Hour, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.down {
			b.keep(stuckKey, errStuck, stuckButton)
		}
	})
	stuck.Stop()
	defer stuck.Stop()
	b.pay.watch(ctx, func(down, first bool) {
		b.mu.Lock()
		b.down = down
		if !down {
			b.keep(stuckKey, nil, stuckButton)
		}
		b.mu.Unlock()
		stuck.Stop()
		if down {
			stuck.Reset(stuckAfter)
		}
		if down && !first {
			b.press(ctx, counter, pay)
		}
	})
}

var errStuck = errors.New("the pay button is down for too long")

// press pays what is shown now, if that could be paid and has been shown for long enough to
// be meant. The id goes with it: what was scanned meanwhile is not paid.
func (b *Board) press(ctx context.Context, counter Counter, pay func(context.Context, string) error) {
	state, _ := counter.State()
	b.mu.Lock()
	seen := b.seen
	b.mu.Unlock()
	switch {
	case !seen.payable || state.View.ID != seen.id:
		b.log.Info("pay button pressed, nothing to pay is shown")
	case time.Since(seen.since) < pressGuard:
		b.log.Info("pay button pressed too soon after the verdict came up")
	default:
		if err := pay(ctx, seen.id); err != nil {
			b.log.Warn("press of the pay button not followed", "err", err)
		}
	}
}
