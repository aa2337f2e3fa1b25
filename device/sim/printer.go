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

// PrinterOptions says what kind of printer is simulated. The zero value is an
// 80 mm printer of the Epson TM class in good order.
type PrinterOptions struct {
	Columns   int           // 32, 42 or 48; 0 means 48
	Buffer    int           // receive buffer in bytes; 0 means 4096
	LineDelay time.Duration // what a printed line takes
	Baud      int           // speed of the line in bits per second; 0 is as fast as a pty
	IDDelay   time.Duration // how late the answer to GS ( H comes
	LinkDelay time.Duration // how long after plugging in the link appears
	Seed      uint64        // of the answers that Garble spoils

	// HangUpAfter pulls the cable when so many bytes have come since the start;
	// 0 never. See also Printer.HangUpAfter.
	HangUpAfter int
	// PaperLines is how many lines the roll holds; 0 means that it never ends. See
	// also Printer.LoadPaper.
	PaperLines int

	DropWhenFull   bool // a full buffer drops bytes (serial with no flow control); otherwise the printer stops reading
	NoProcessID    bool // does not know GS ( H, as older models
	NoQR           bool // prints the data of GS ( k as text, as clones do
	PageLostOnFont bool // ESC M falls back to code page 437, as some clones do
	Chinese        bool // starts in two-byte mode until FS . is sent

	Start State // the state it is switched on with
}

func (o PrinterOptions) check() error {
	if o.Columns < 0 || o.Buffer < 0 || o.HangUpAfter < 0 || o.PaperLines < 0 || o.Baud < 0 || o.LineDelay < 0 || o.IDDelay < 0 || o.LinkDelay < 0 {
		return fmt.Errorf("negative option in %+v", o)
	}
	return nil
}

// State is what a hand, the paper or a broken part does to the printer.
type State struct {
	PaperEnd     bool
	PaperNearEnd bool
	CoverOpen    bool
	CutterError  bool // cutter jammed: offline until cleared
	CutterJam    bool // the next cut raises CutterError
	HeadHot      bool // the head is too hot: goes on by itself when it has cooled
	Broken       bool // an error that only a power cycle may clear
	DrawerOpen   bool // level of drawer pin 3
	Stalled      bool // consumes nothing, though it says that all is well
	OneWay       bool // takes everything, answers nothing
	Off          bool // switched off with its cable in: what is sent is lost, nothing is answered
}

// offline reports whether the state stops printing.
func (s State) offline() bool {
	return s.PaperEnd || s.CoverOpen || s.CutterError || s.HeadHot || s.Broken || s.Off
}

// Pulse is one kick of the cash drawer.
type Pulse struct {
	Pin      int // 0 is connector pin 2, 1 is pin 5
	On, Off  time.Duration
	RealTime bool // by DLE DC4, not from the receive buffer
	At       time.Time
	Slips    int // cut before it
	Lines    int // on the paper since
}

// Printer is a simulated ESC/POS receipt printer on a pty, plugged in and switched
// on from the start. All methods may be called from any goroutine.
//
// Bytes go pty -> receive buffer -> paper. Real-time commands (DLE EOT, DLE ENQ,
// DLE DC4) act when they reach the receive buffer, everything else in its turn.
// While the printer is offline or stalled nothing leaves the buffer; once it is
// full the printer stops reading, so that the driver's writes block.
type Printer struct {
	socket    socket
	opt       PrinterOptions
	mechanism sync.WaitGroup // the parser
	done      chan struct{}  // closed by Close

	mu      sync.Mutex
	changed *sync.Cond // on mu: anything below changed
	closed  bool
	state   State
	buf     []byte // receive buffer
	clears  int    // how often the buffer was cleared: what was begun before is void
	powered int    // how often it was switched on: modes begun before are void
	real    realTime
	asb     byte // GS a
	lastASB [4]byte

	hangUp  int // bytes until the cable comes out; 0 never
	paper   int // lines until the paper ends; 0 never
	garbled int // answers still to be spoiled
	noise   *rand.Rand

	received, dropped, unheard int
	slips                      []Slip
	next                       int // the first slip Next has not given out
	lines                      []Line
	pulses                     []Pulse
	kicked                     int // the first pulse NextPulse has not given out
	faults                     []error
}

// NewPrinter makes a printer. Link is as for NewScanner.
func NewPrinter(link string, opt PrinterOptions) (*Printer, error) {
	if opt.Columns == 0 {
		opt.Columns = 48
	}
	if opt.Buffer == 0 {
		opt.Buffer = 4096
	}
	if err := opt.check(); err != nil {
		return nil, fmt.Errorf("simulated printer: %w", err)
	}
	p := &Printer{
		socket: socket{link: link},
		opt:    opt,
		done:   make(chan struct{}),
		state:  opt.Start,
		hangUp: opt.HangUpAfter,
		paper:  opt.PaperLines,
		noise:  rand.New(rand.NewPCG(opt.Seed, 0)),
	}
	p.socket.setDelay(opt.LinkDelay)
	p.changed = sync.NewCond(&p.mu)
	if err := p.Replug(); err != nil {
		return nil, fmt.Errorf("simulated printer: %w", err)
	}
	p.mechanism.Go(newParser(p).run)
	return p, nil
}

// Path is what the driver opens: the link, or without one the slave, whose name
// changes with each Replug.
func (p *Printer) Path() string { return p.socket.where() }

// WaitOpen blocks until a program holds the port open.
func (p *Printer) WaitOpen(ctx context.Context) error { return p.socket.waitOpen(ctx) }

// Set changes the state; an automatic status goes out when one is wanted. Clearing
// PaperEnd by hand loads an endless roll.
func (p *Printer) Set(change func(*State)) {
	p.mu.Lock()
	was := p.state
	change(&p.state)
	if was.PaperEnd && !p.state.PaperEnd {
		p.paper = 0
	}
	if p.state.Off && !was.Off {
		p.forget()
	}
	report := p.statusChange()
	p.changed.Broadcast()
	p.mu.Unlock()
	p.answer(report)
}

// State returns the state now.
func (p *Printer) State() State {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state
}

// LoadPaper puts in a roll of so many lines; 0 is a roll that never ends.
func (p *Printer) LoadPaper(lines int) {
	p.Set(func(s *State) { s.PaperEnd = false })
	p.mu.Lock()
	defer p.mu.Unlock()
	p.paper = lines
}

// Adjust changes what kind of printer it is while it runs: everything but Columns,
// PaperLines, HangUpAfter, Seed and Start, which are of the start.
func (p *Printer) Adjust(change func(*PrinterOptions)) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	opt := p.opt
	change(&opt)
	opt.Columns, opt.Buffer = p.opt.Columns, max(1, opt.Buffer)
	if err := opt.check(); err != nil {
		return fmt.Errorf("simulated printer: %w", err)
	}
	p.opt = opt
	p.socket.setDelay(opt.LinkDelay)
	p.changed.Broadcast()
	return nil
}

// options are the options as they are now.
func (p *Printer) options() PrinterOptions {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.opt
}

// Garble spoils the next n answers: random bytes come in the place of each.
func (p *Printer) Garble(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.garbled = n
}

// Say sends bytes to the driver that nobody asked for: XOFF, noise, an answer that
// belongs to another program.
func (p *Printer) Say(b []byte) { p.send(b) }

// HangUpAfter pulls the cable when n more bytes have come; 0 never.
func (p *Printer) HangUpAfter(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hangUp = n
}

// Unplug pulls the data cable. What is in the receive buffer is still printed.
func (p *Printer) Unplug() error {
	err := p.socket.unplug()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.changed.Broadcast() // a receiver waiting for room has none to wait for now
	return err
}

// Plugged reports whether the cable is in.
func (p *Printer) Plugged() bool { return p.socket.current() != nil }

// Replug puts the cable back on a new pty. It does nothing when the cable is in.
func (p *Printer) Replug() error { return p.socket.plug(p.receive) }

// PowerCycle switches off and on: the receive buffer, the unfinished line and all
// modes are lost; the paper stays as it is.
func (p *Printer) PowerCycle() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forget()
	p.state.Broken = false
	p.changed.Broadcast()
}

// forget is what the loss of power does. Called with mu held.
func (p *Printer) forget() {
	p.clear()
	p.powered++
	p.asb, p.real = 0, realTime{}
}

// Slips returns every slip cut so far, oldest first.
func (p *Printer) Slips() []Slip {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.slips)
}

// Uncut returns the paper that hangs out of the printer, printed and not cut.
func (p *Printer) Uncut() Slip {
	p.mu.Lock()
	defer p.mu.Unlock()
	return Slip{Columns: p.opt.Columns, Lines: slices.Clone(p.lines)}
}

// Text is all paper so far as plain text: the slips, a dashed line after each cut,
// then what hangs out.
func (p *Printer) Text() string {
	var text string
	for _, s := range p.Slips() {
		text += s.Text() + cutMark(s.Columns) + "\n"
	}
	return text + p.Uncut().Text()
}

// Next waits for the next cut slip, each given out once. It fails when ctx ends or
// the printer is closed.
func (p *Printer) Next(ctx context.Context) (Slip, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.await(ctx, func() bool { return p.next < len(p.slips) }); err != nil {
		return Slip{}, err
	}
	p.next++
	return p.slips[p.next-1], nil
}

// NextPulse waits for the next kick of the drawer, each given out once. It fails when ctx
// ends or the printer is closed.
func (p *Printer) NextPulse(ctx context.Context) (Pulse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.await(ctx, func() bool { return p.kicked < len(p.pulses) }); err != nil {
		return Pulse{}, err
	}
	p.kicked++
	return p.pulses[p.kicked-1], nil
}

// AwaitSlips waits until n slips were cut since the start, and gives none of them out.
func (p *Printer) AwaitSlips(ctx context.Context, n int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.await(ctx, func() bool { return n <= len(p.slips) })
}

// await waits for slips or pulses. Called with mu held.
func (p *Printer) await(ctx context.Context, reached func() bool) error {
	stop := context.AfterFunc(ctx, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.changed.Broadcast()
	})
	defer stop()
	for !reached() {
		if p.closed {
			return errors.New("no further slip: the simulated printer is closed")
		}
		if ctx.Err() != nil {
			return fmt.Errorf("no slip was cut (%d bytes received, %d waiting, %d lines uncut): %w",
				p.received, len(p.buf), len(p.lines), context.Cause(ctx))
		}
		p.changed.Wait()
	}
	return nil
}

// Pulses returns every kick of the drawer so far.
func (p *Printer) Pulses() []Pulse {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.pulses)
}

// Errors returns what the driver sent that a printer of this class does not know.
func (p *Printer) Errors() []error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.faults)
}

// Counts is what went over the line, in bytes.
type Counts struct {
	Received int // taken from the line
	Waiting  int // in the receive buffer
	Dropped  int // lost: the buffer was full, or the printer off
	Unheard  int // answers that nobody took
}

// Counts returns the counts now.
func (p *Printer) Counts() Counts {
	p.mu.Lock()
	defer p.mu.Unlock()
	return Counts{p.received, len(p.buf), p.dropped, p.unheard}
}

// Close switches off, unplugs, and returns when nothing of the printer runs any
// more. The paper can still be read.
func (p *Printer) Close() error {
	p.mu.Lock()
	if !p.closed {
		p.closed = true
		close(p.done)
	}
	p.changed.Broadcast()
	p.mu.Unlock()
	err := p.socket.close()
	p.mechanism.Wait()
	return err
}
