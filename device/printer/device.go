package printer

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"sync"
	"time"
)

// State is how far a slip is known to have come. Only StatePrinted is a proof.
type State string

// A job goes from sending to sent, consumed or printed, by what the model can
// prove; held may come and go in between; unknown is the end of a job that
// nobody can vouch for. The words are kept in the ledger.
const (
	StateSending  State = "sending"  // its first byte may have left
	StateSent     State = "sent"     // handed over; this model says no more
	StateConsumed State = "consumed" // read by the printer to its end, cut included
	StatePrinted  State = "printed"  // the printer says that it is on paper
	StateHeld     State = "held"     // waits for a person: see Held for whether anything was sent
	StateUnknown  State = "unknown"  // see Unknown
)

// Config is what a Device needs. The zero value of a time means its default.
type Config struct {
	Path    string // device or link, resolved anew at each connection
	Baud    int    // bits per second; 0 means 9600. USB ignores it
	Flow    Flow   // empty means NoFlow
	Profile Profile

	// Drawer is the cash drawer that a payment opens; zero where none hangs on the printer.
	Drawer Drawer

	// Busy is the printer's busy line (DTR on small modules) where it is wired to a pin:
	// true means that it takes no more than a chunk. It must not block. Nil where it is not.
	Busy func() (bool, error)
	// Power switches the printer's supply where a pin can, and returns when it has; the
	// printer is on while Run runs and stays on after it, since a slip may be in it. Nil
	// where no pin can.
	Power func(ctx context.Context, on bool) error

	WriteTimeout  time.Duration // without progress the printer counts as blocked; default from speed and chunk
	AnswerTimeout time.Duration // for one status request, and between two of them while a slip is out; default 500 ms
	Poll          time.Duration // between status requests at rest; default 2 s
	Grace         time.Duration // over the computed time of a slip before a lower proof is accepted; default 15 s
}

// Drawer is a cash drawer at the printer's socket.
type Drawer struct {
	Pin   int           // of the socket, 2 or 5; 0 for no drawer
	Pulse time.Duration // 2 ms to 510 ms
}

// Validate refuses a configuration that cannot work, naming the setting.
func (c Config) Validate() error {
	_, err := c.withDefaults()
	return err
}

func (c Config) withDefaults() (Config, error) {
	if c.Path == "" {
		return c, errors.New("printer: no device path configured")
	}
	if err := c.Profile.check(); err != nil {
		return c, err
	}
	if _, err := c.kick(c.Drawer); c.Drawer.Pin != 0 && err != nil {
		return c, err
	}
	switch c.Flow {
	case "":
		c.Flow = NoFlow
	case NoFlow, HardwareFlow:
	default:
		return c, fmt.Errorf("printer: flow %.20q, want %q or %q", c.Flow, NoFlow, HardwareFlow)
	}
	if c.Baud == 0 {
		c.Baud = 9600
	}
	if c.Baud < 300 || c.Baud > 4_000_000 {
		return c, fmt.Errorf("printer: %d baud, want 300 to 4000000", c.Baud)
	}
	fill := func(d *time.Duration, value time.Duration) {
		if *d <= 0 {
			*d = value
		}
	}
	fill(&c.AnswerTimeout, 500*time.Millisecond)
	fill(&c.Poll, 2*time.Second)
	fill(&c.Grace, 15*time.Second)
	// A full buffer frees a chunk's worth while that much text is printed; a cut comes between.
	fill(&c.WriteTimeout, 2*transfer(c.Profile.Chunk, c.Baud)+c.Profile.mechanics(10*lineDots))
	return c, nil
}

// Paper is what the printer's sensors see of the roll.
type Paper string

// PaperUnknown is not PaperOK: many models have no sensor that can be asked.
const (
	PaperUnknown Paper = "unknown"
	PaperOK      Paper = "ok"
	PaperLow     Paper = "low"
	PaperOut     Paper = "out"
)

// Status is the printer as last seen.
type Status struct {
	Connected  bool
	Answers    bool // false: this model or cable gives no status, and what follows is not known
	Paper      Paper
	CoverOpen  bool
	CutterJam  bool
	Mechanical bool // an error other than the cutter's
	Offline    bool
	Printing   bool   // a slip is out and not yet settled
	Fault      *Fault // the worst of it in words, or nil; Fault.Stops says whether slips still come out
}

// Device is the printer. Run owns the line; all other methods may be called from
// any goroutine at any time.
type Device struct {
	cfg  Config
	err  error // of the configuration, told by Run and Print
	log  *slog.Logger
	jobs chan *order
	cure chan *remedy

	mu      sync.Mutex
	status  Status
	holding *Fault        // why the slip in the printer does not come out
	changed chan struct{} // closed and replaced when status or holding changes

	// Of the goroutine in Run only.
	powered     bool    // by the pin, if there is one
	torn        bool    // the last job broke off inside a command
	lastID      [4]byte // of the last job with a process id
	proved      bool    // the model has answered a process id
	noProcessID bool    // the model did not keep its profile's promise
	reads       bool    // the model has told that it read a slip to its end
}

// order is one job on its way to the owner.
type order struct {
	ctx    context.Context
	job    *job
	pulse  bool   // a drawer pulse: no proof is asked for
	first  []byte // before the slip's first byte: a drawer pulse
	watch  func(State)
	result chan outcome
}

type outcome struct {
	state State
	err   error
}

// New returns a Device that does nothing until Run. A wrong configuration is
// reported by Run, and by Print.
func New(cfg Config, log *slog.Logger) *Device {
	d := &Device{log: log, jobs: make(chan *order), cure: make(chan *remedy), changed: make(chan struct{})}
	d.cfg, d.err = cfg.withDefaults()
	d.status = unplugged(errors.New("not opened yet"))
	return d
}

// Torn says, before Run, that a job of an earlier program may lie cut off in the
// printer: the next job is kept apart from it.
func (d *Device) Torn() { d.torn = true }

func unplugged(err error) Status {
	f := notConnected(err)
	if p, ok := errors.AsType[*pinError](err); ok {
		f = pinBroken(p.err)
	}
	return Status{Paper: PaperUnknown, Fault: &f}
}

// Status is the printer as last seen, at most one poll old while no slip is out.
func (d *Device) Status() Status {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.status
}

// Changed is closed at the next change of Status. Take it before Status, so that
// no change falls in between.
func (d *Device) Changed() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.changed
}

// Run opens the printer, asks its status while idle, prints what Print hands it
// and connects again after every loss, with pauses of 0.25 s growing to 5 s. It
// returns nil when ctx ends, and an error only for a wrong configuration.
func (d *Device) Run(ctx context.Context) error {
	if d.err != nil {
		return d.err
	}
	const first, last = 250 * time.Millisecond, 5 * time.Second
	pause, logged := first, ""
	for ctx.Err() == nil {
		port, err := d.connect(ctx)
		if err == nil {
			logged = ""
			var useful bool
			if useful, err = d.serve(ctx, port); useful {
				pause = first
			}
		}
		if ctx.Err() != nil {
			break
		}
		d.publish(unplugged(err))
		if text := err.Error(); text != logged {
			d.log.Warn("printer not connected", "path", d.cfg.Path, "err", err)
			logged = text
		}
		jitter := pause/2 + mathrand.N(pause/2)
		pause = min(2*pause, last)
		_ = wait(ctx, jitter) // the loop looks at ctx
	}
	d.publish(unplugged(context.Cause(ctx)))
	return nil
}

// pinError is a pin that cannot be read or set.
type pinError struct{ err error }

func (e *pinError) Error() string { return "the printer's pin: " + e.err.Error() }
func (e *pinError) Unwrap() error { return e.err }

// connect switches the printer on, where a pin can, opens the line, and gives the printer
// the time its model needs before the first byte.
func (d *Device) connect(ctx context.Context) (*Port, error) {
	if d.cfg.Power != nil && !d.powered {
		if err := d.cfg.Power(ctx, true); err != nil {
			return nil, &pinError{err}
		}
		d.powered = true
	}
	port, err := OpenPort(d.cfg.Path, d.cfg.Baud, d.cfg.Flow)
	if err != nil {
		return nil, err
	}
	if wait(ctx, d.cfg.Profile.Wake) != nil {
		return nil, errors.Join(ctx.Err(), port.Close())
	}
	return port, nil
}

// wait is nil after the time, or what ended ctx before.
func wait(ctx context.Context, t time.Duration) error {
	timer := time.NewTimer(t)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// serve is one connection, from the first status to its loss. useful says that
// the printer got as far as being ready for jobs.
func (d *Device) serve(ctx context.Context, port *Port) (useful bool, err error) {
	l := newLink(port)
	defer func() {
		_ = port.Close()
		<-l.done
	}()
	if err := d.survey(ctx, l); err != nil {
		return false, err
	}
	status := d.Status()
	d.log.Info("printer connected", "path", d.cfg.Path, "profile", d.cfg.Profile.Name, "answers", status.Answers)
	poll := time.NewTicker(d.cfg.Poll)
	defer poll.Stop()
	for {
		select {
		case <-ctx.Done():
			return true, ctx.Err()
		case <-l.done:
			return true, l.lost()
		case o := <-d.jobs:
			d.perform(ctx, l, o)
			err = d.dark()
		case r := <-d.cure:
			r.result <- r.apply(d, l)
			err = d.dark()
		case <-poll.C:
			err = d.look(ctx, l)
		}
		if err != nil {
			return true, err
		}
	}
}

// dark is the error of a printer that a remedy has switched off and not on again. Its line
// may stand all the same; the next connection begins with its supply.
func (d *Device) dark() error {
	if d.cfg.Power == nil || d.powered {
		return nil
	}
	return &pinError{errors.New("the printer was switched off, and on again not yet")}
}

// look is what is done at rest: the status, and an XOFF that is too old.
func (d *Device) look(ctx context.Context, l *link) error {
	if err := d.survey(ctx, l); err != nil {
		return err
	}
	if f := d.Status().Fault; (f == nil || !f.Stops) && l.forgive() {
		d.log.Warn("printer said XOFF and never XON: taken as switched off and on meanwhile", "path", d.cfg.Path)
	}
	return nil
}

// survey asks the printer for its status and publishes it. An error means that
// the connection is lost; a silent printer is a status.
func (d *Device) survey(ctx context.Context, l *link) error {
	err := errNoAnswer
	// A one-way model is not asked again and again: each round would cost its time limits.
	if !d.oneWay(l) {
		err = l.survey(ctx, d.cfg.AnswerTimeout, d.cfg.Profile.Status == Can)
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case l.lost() != nil:
		return l.lost()
	case err == nil:
		d.publish(l.status())
	case !errors.Is(err, errNoAnswer):
		return err
	case d.mustAnswer(l):
		f := silent(err)
		d.publish(Status{Connected: true, Paper: PaperUnknown, Offline: true, Fault: &f})
	default:
		l.gaveUp = true
		d.publish(Status{Connected: true, Paper: PaperUnknown})
	}
	return nil
}

// mustAnswer says that silence is a fault: the profile vouches for answers, or
// this very printer has answered before.
func (d *Device) mustAnswer(l *link) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return d.cfg.Profile.Status == Can || l.heard > 0
}

// oneWay says that this printer is not worth asking. One late answer changes that.
func (d *Device) oneWay(l *link) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return d.cfg.Profile.Status == Cannot || l.gaveUp && l.heard == 0
}

func (l *link) status() Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.sensors
	st := Status{Connected: true, Answers: true, Paper: PaperOK, CoverOpen: s.cover, CutterJam: s.cutter,
		Mechanical: s.mechanical || s.fatal, Offline: s.offline, Fault: s.fault()}
	switch {
	case s.paperEnd || s.stoppedEnd:
		st.Paper = PaperOut
	case s.paperLow:
		st.Paper = PaperLow
	case l.mute[4]:
		st.Paper = PaperUnknown
	}
	return st
}

// publish replaces the status and wakes who waits for it to change.
func (d *Device) publish(s Status) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s.Printing = d.status.Printing && s.Connected
	if !s.same(d.status) {
		d.set(func() { d.status = s })
	}
}

// same says that nobody could tell the two apart.
func (s Status) same(other Status) bool {
	if (s.Fault == nil) != (other.Fault == nil) || s.Fault != nil && s.Fault.Code != other.Fault.Code {
		return false
	}
	s.Fault, other.Fault = nil, nil
	return s == other
}

// set changes what others see. The lock is held.
func (d *Device) set(change func()) {
	change()
	close(d.changed)
	d.changed = make(chan struct{})
}

// Print prints a slip, once, and returns how far it is known to have come.
//
// StatePrinted, StateConsumed and StateSent come with a nil error. StateHeld comes
// with *Held: the cause was there before the first byte, nothing was sent, and the
// same slip may be printed later. StateUnknown comes with *Unknown. With any other
// error the slip cannot be encoded; nothing was sent and the State is StateHeld.
//
// A cause that comes up during the job (paper out) is no end: the printer keeps
// the job and goes on when it is cured, so Print calls watch(StateHeld), waits,
// and calls watch(StateSending) when it goes on. It never sends anything again.
// The wait ends with ctx, as StateUnknown; give ctx the time a clerk needs for a
// new roll. While a job is held, Print of another one is StateHeld at once.
//
// watch may be nil. It runs on the device's goroutine and must return soon.
// StateSending is told before the first byte leaves.
func (d *Device) Print(ctx context.Context, slip Slip, watch func(State)) (State, error) {
	return d.slip(ctx, slip, nil, watch)
}

// PrintPaid is Print, and opens the configured drawer before the slip's first byte. The
// pulse goes out only once the printer has said that it takes the slip now: with a slip
// that is StateHeld the drawer stays shut, and the slip printed later does not open it,
// unless PrintPaid is called for it again.
func (d *Device) PrintPaid(ctx context.Context, slip Slip, watch func(State)) (State, error) {
	if d.err != nil || d.cfg.Drawer.Pin == 0 {
		return d.slip(ctx, slip, nil, watch)
	}
	pulse, err := d.cfg.kick(d.cfg.Drawer)
	if err != nil {
		return StateHeld, err
	}
	return d.slip(ctx, slip, pulse, watch)
}

func (d *Device) slip(ctx context.Context, slip Slip, first []byte, watch func(State)) (State, error) {
	if d.err != nil {
		return StateHeld, d.err
	}
	j, err := encode(slip, d.cfg.Profile)
	if err != nil {
		return StateHeld, fmt.Errorf("slip cannot be printed: %w", err)
	}
	return d.submit(ctx, &order{job: j, first: first, watch: watch})
}

// kick is the command that opens a drawer at this printer.
func (c Config) kick(drawer Drawer) ([]byte, error) {
	if !c.Profile.Drawer {
		return nil, fmt.Errorf("printer profile %q has no drawer socket", c.Profile.Name)
	}
	return DrawerPulse(drawer.Pin, drawer.Pulse)
}

// Drawer is the drawer that a payment opens, as configured.
func (d *Device) Drawer() Drawer { return d.cfg.Drawer }

// OpenDrawer pulses a cash drawer at the printer's socket, as an act of its own. It is
// refused, as *Held, while the printer could not act on it at once.
func (d *Device) OpenDrawer(ctx context.Context, drawer Drawer) error {
	if d.err != nil {
		return d.err
	}
	pulse, err := d.cfg.kick(drawer)
	if err != nil {
		return err
	}
	_, err = d.submit(ctx, &order{job: &job{data: pulse}, pulse: true})
	return err
}

// submit hands an order to the owner, who takes one only when nothing else is
// out, and waits for its end. Without a printer, or behind a held slip, it is
// refused at once: five presses on "print" must not make five slips.
func (d *Device) submit(ctx context.Context, o *order) (State, error) {
	o.ctx, o.result = ctx, make(chan outcome, 1)
	if o.watch == nil {
		o.watch = func(State) {}
	}
	for {
		d.mu.Lock()
		changed, refusal := d.changed, d.holding
		if !d.status.Connected {
			refusal = d.status.Fault
		}
		d.mu.Unlock()
		if refusal != nil {
			return StateHeld, &Held{Cause: *refusal, NothingSent: true}
		}
		select {
		case d.jobs <- o:
			end := <-o.result // the owner always answers, and ctx ends its waits
			return end.state, end.err
		case <-changed:
		case <-ctx.Done():
			return StateHeld, &Held{Cause: busy(context.Cause(ctx)), NothingSent: true}
		}
	}
}

// perform runs one order to its end on the owner's goroutine.
func (d *Device) perform(run context.Context, l *link, o *order) {
	ctx, cancel := context.WithCancelCause(o.ctx)
	defer cancel(nil)
	stop := context.AfterFunc(run, func() { cancel(fmt.Errorf("printer stops: %w", context.Cause(run))) })
	defer stop()
	d.mu.Lock()
	d.set(func() { d.status.Printing = true })
	d.mu.Unlock()

	state, err := d.deliver(ctx, l, o)

	d.mu.Lock()
	d.set(func() { d.status.Printing, d.holding = false, nil })
	d.mu.Unlock()
	o.result <- outcome{state, err}
}

// deliver asks the status, sends and waits for the proof.
func (d *Device) deliver(ctx context.Context, l *link, o *order) (State, error) {
	if err := d.survey(ctx, l); err != nil {
		cause := notConnected(err)
		if l.lost() == nil {
			cause = busy(err)
		}
		return StateHeld, &Held{Cause: cause, NothingSent: true}
	}
	if f := d.Status().Fault; f != nil && f.Stops {
		return StateHeld, &Held{Cause: *f, NothingSent: true}
	}
	s := &sending{d: d, l: l, o: o, answers: d.Status().Answers, data: o.job.data}
	if err := s.prepare(); err != nil {
		return StateHeld, err
	}
	o.watch(StateSending)
	if end := s.send(ctx); end != nil {
		return end.state, end.err
	}
	if o.pulse || !s.answers {
		return StateSent, nil
	}
	return s.settle(ctx)
}

// newID is a process id that no earlier job of this or another run has: four
// random printable characters. An equal id in an answer is therefore this job's,
// even when an old job, held for paper, ends and answers late.
func (d *Device) newID() (id [4]byte, err error) {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdef" // 32: no bias
	for id == d.lastID || id == [4]byte{} {
		if _, err := rand.Read(id[:]); err != nil {
			return id, fmt.Errorf("process id: %w", err)
		}
		for i := range id {
			id[i] = alphabet[id[i]%byte(len(alphabet))]
		}
	}
	d.lastID = id
	return id, nil
}
