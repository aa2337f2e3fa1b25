// Package scanner reads a barcode scanner on a serial port: USB-COM, or a UART.
// It owns framing, reconnecting, host commands and the naming of faults. It never judges
// a ticket, sends nothing to a scanner unless its Control is configured, and never
// delivers bytes that came while nobody was listening. Start at Scanner.Run; Decoder is
// the framing alone, and each codec one make's commands and answers.
package scanner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"time"

	"go.bug.st/serial"

	"grattoir/validate/ticket"
)

// Config says where the scanner is and how it talks. Zero fields take the default.
type Config struct {
	Path     string        // preferably below /dev/serial/by-id; resolved anew at each open
	Baud     int           // default 9600; USB-COM ignores it
	Parity   string        // none (default), even, odd
	DataBits int           // 7 or 8 (default)
	Idle     time.Duration // default 80 ms: silence that makes a record with no end mark a fault; 10 ms to 2 s
	SameCode time.Duration // default 1.5 s: the same code again within it is the same scan
	Suffix   string        // SuffixAny (default) or SuffixNone; with none Idle is 200 ms by default
	Prefix   string        // what the scanner puts before every record, "" for nothing; stripped, and a record without it is a fault

	Control string // how the scanner is commanded, ControlNone by default

	// Layouts are those of the tickets that may come. They tell a code read several
	// times into one record, and what silence may end with SuffixNone, which needs
	// them. Asked at each such record; it must be quick.
	Layouts func() []ticket.Layout
	// Whole tells of other texts that silence may end, such as the code of a self-test;
	// nil for none.
	Whole func(text string) bool
}

// How records end.
const (
	SuffixAny  = "any"  // CR, LF, CR LF, TAB, or ETX after STX, whichever comes
	SuffixNone = "none" // as any, and the scanner may send no end mark at all: see Decoder.Silence
)

// maxPrefix is the longest prefix in bytes.
const maxPrefix = 16

func (c Config) withDefaults() Config {
	if c.Baud == 0 {
		c.Baud = 9600
	}
	if c.Parity == "" {
		c.Parity = "none"
	}
	if c.DataBits == 0 {
		c.DataBits = 8
	}
	if c.Suffix == "" {
		c.Suffix = SuffixAny
	}
	if c.Control == "" {
		c.Control = ControlNone
	}
	if c.Idle == 0 && c.Suffix == SuffixNone {
		c.Idle = 200 * time.Millisecond // silence decides, so a hiccup of the line must not
	}
	if c.Idle == 0 {
		c.Idle = 80 * time.Millisecond
	}
	if c.SameCode == 0 {
		c.SameCode = 1500 * time.Millisecond
	}
	return c
}

// Validate refuses a configuration that cannot work, naming the setting.
func (c Config) Validate() error { return c.withDefaults().check() }

// parities are the configured names and the letters of "8N1".
var parities = map[string]struct {
	letter string
	parity serial.Parity
}{
	"none": {"N", serial.NoParity},
	"even": {"E", serial.EvenParity},
	"odd":  {"O", serial.OddParity},
}

// line is the setting as people write it: "9600 8N1".
func (c Config) line() string {
	return fmt.Sprintf("%d %d%s1", c.Baud, c.DataBits, parities[c.Parity].letter)
}

// check refuses what cannot work, on a config with its defaults.
func (c Config) check() error {
	_, known := parities[c.Parity]
	switch {
	case c.Path == "":
		return errors.New("scanner: path is empty; name the port, best as it is called below /dev/serial/by-id")
	case c.Baud < 300 || c.Baud > 921600:
		return fmt.Errorf("scanner %s: baud %d; want 300 to 921600", c.Path, c.Baud)
	case !known:
		return fmt.Errorf("scanner %s: parity %q; want none, even or odd", c.Path, c.Parity)
	case c.DataBits != 7 && c.DataBits != 8:
		return fmt.Errorf("scanner %s: %d data bits; want 7 or 8", c.Path, c.DataBits)
	case c.Idle < 10*time.Millisecond || c.Idle > 2*time.Second:
		return fmt.Errorf("scanner %s: idle %v; want 10ms to 2s", c.Path, c.Idle)
	case c.SameCode < 0 || c.SameCode > time.Minute:
		return fmt.Errorf("scanner %s: same code %v; want up to 1m", c.Path, c.SameCode)
	case c.Suffix != SuffixAny && c.Suffix != SuffixNone:
		return fmt.Errorf("scanner %s: suffix %q; want any or none", c.Path, c.Suffix)
	case c.Suffix == SuffixNone && c.Idle < 100*time.Millisecond:
		return fmt.Errorf("scanner %s: idle %v; with no suffix, silence ends a record: want 100ms or more", c.Path, c.Idle)
	case c.Suffix == SuffixNone && c.Layouts == nil:
		return fmt.Errorf("scanner %s: no suffix and no layouts of tickets: nothing would tell a whole code from a piece", c.Path)
	case len(c.Prefix) > maxPrefix || strings.ContainsFunc(c.Prefix, func(r rune) bool { return r < ' ' || r > '~' }):
		return fmt.Errorf("scanner %s: prefix %q; want up to %d printable ASCII characters (STX is taken off by itself)", c.Path, c.Prefix, maxPrefix)
	}
	if _, err := newCodec(c.Control, nil); err != nil {
		return fmt.Errorf("scanner %s: %w", c.Path, err)
	}
	return nil
}

// Status is the state of the scanner in one word.
type Status string

// The statuses.
const (
	Connected Status = "connected" // open, scans will come
	Missing   Status = "missing"   // not there; tried again for ever
	Faulty    Status = "fault"     // there, but see the fault
)

// State is a change worth showing. A fault of the connection is reported once,
// until another takes its place; a fault of a record each time, at most once a
// burst, and the next good scan reports Connected again.
type State struct {
	Status Status
	Path   string
	Fault  *Fault // nil when Connected
	Stale  int    // when first Connected: bytes dropped since they came before the port was open
}

// Scanner reads one port for ever. Make it with New, run it once with Run.
type Scanner struct {
	cfg  Config
	log  *slog.Logger
	open func(path string, mode *serial.Mode) (port, error)

	decoder *Decoder
	codec   codec
	scans   func(Scan)
	state   func(State)
	shown   string // the code of the fault shown, "" for none, "?" before the first report
	quick   int    // connections in a row that were lost at once
	stale   int    // bytes dropped at open, not reported yet
	pending *request
	off     bool // disabled in this connection

	mu    sync.Mutex
	up    bool // a connection stands
	queue []*request
}

// New returns a scanner for cfg. A configuration that cannot work is refused by Run.
func New(cfg Config, log *slog.Logger) *Scanner {
	cfg = cfg.withDefaults()
	s := &Scanner{
		cfg:     cfg,
		log:     log.With("device", "scanner", "path", cfg.Path),
		open:    openPort,
		decoder: NewDecoder(cfg),
		shown:   "?",
	}
	var err error
	if s.codec, err = newCodec(cfg.Control, s.decoder); err != nil {
		s.codec = &plain{d: s.decoder} // Run refuses the configuration
	}
	return s
}

const (
	readTimeout = 100 * time.Millisecond // longest wait of one read, so of stopping
	lookAgain   = 250 * time.Millisecond // how often a missing path is looked for
	firstWait   = 250 * time.Millisecond // back-off
	longestWait = 5 * time.Second
	steady      = time.Second // a connection that lived so long was a real one
	unstable    = 3           // so many that did not are named
	staleLimit  = time.Second // longest drain of stale bytes
	emptyReads  = 64          // reads that return at once with nothing, before the port counts as broken
)

// Run opens the port and delivers scans until ctx ends, opening it again for ever
// after any fault; it then returns nil, within about 100 ms. The only error is a
// configuration that cannot work. Scans and state are called from one goroutine,
// in order; while they block, bytes wait in the kernel. Call Run once.
func (s *Scanner) Run(ctx context.Context, scans func(Scan), state func(State)) error {
	if err := s.cfg.check(); err != nil {
		return err
	}
	s.scans, s.state = scans, state
	wait := firstWait
	for ctx.Err() == nil {
		began := time.Now()
		fault := s.session(ctx)
		if ctx.Err() != nil {
			return nil
		}
		s.report(fault)
		if time.Since(began) >= steady {
			wait = firstWait
		}
		s.pause(ctx, wait, fault.Code == CodeMissing)
		wait = min(2*wait, longestWait)
	}
	return nil
}

// pause waits d and up to a quarter more, so that several terminals behind one
// fault do not move in step. When the port was missing it ends as soon as the path
// is back: somebody has just plugged the scanner in and is looking at it. The path
// is polled because its folder vanishes with the last device, and a watch with it.
func (s *Scanner) pause(ctx context.Context, d time.Duration, missing bool) {
	end := time.NewTimer(d + rand.N(d/4))
	defer end.Stop()
	look := time.NewTicker(lookAgain)
	defer look.Stop()
	gone := !exists(s.cfg.Path)
	for {
		select {
		case <-ctx.Done():
			return
		case <-end.C:
			return
		case <-look.C:
			switch here := exists(s.cfg.Path); {
			case !here:
				gone = true
			case missing && gone:
				return
			}
		}
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// session is one connection, from open to loss. It returns why it ended; nil only
// when ctx did. The port is opened, read and closed by this goroutine alone: a
// Close from another could hand our descriptor's number to a file in mid-read.
func (s *Scanner) session(ctx context.Context) *Fault {
	mode := &serial.Mode{BaudRate: s.cfg.Baud, DataBits: s.cfg.DataBits, Parity: parities[s.cfg.Parity].parity}
	p, err := s.open(s.cfg.Path, mode)
	if err != nil {
		return openFault(s.cfg.Path, err)
	}
	opened := time.Now()
	err = s.read(ctx, p)
	s.hangUp(p)
	if closeErr := p.Close(); closeErr != nil {
		s.log.Debug("close of scanner port", "err", closeErr)
	}
	if n := s.codec.closed(); n > 0 {
		s.log.Warn("record under way dropped with its connection", "bytes", n)
	}
	if err == nil {
		return nil
	}
	if time.Since(opened) >= steady {
		s.quick = 0
	} else if s.quick++; s.quick >= unstable {
		return unstableFault(s.cfg.Path, s.quick, err)
	}
	return lostFault(s.cfg.Path, err)
}

// read delivers what an open port sends until it fails or ctx ends (nil).
func (s *Scanner) read(ctx context.Context, p port) error {
	// Set once, before the first read: changing it during a read is a race.
	timeout := min(s.cfg.Idle, readTimeout)
	if err := p.SetReadTimeout(timeout); err != nil {
		return fmt.Errorf("set read time-out: %w", err)
	}
	stale, err := s.dropStale(ctx, p)
	if stale > 0 {
		s.log.Warn("bytes from before the connection dropped", "bytes", stale)
	}
	if err != nil || ctx.Err() != nil {
		return err
	}
	s.stale = stale
	opened := time.Now()
	s.pickUp(opened, stale)
	s.connected()
	buf := make([]byte, 256)
	for empty := 0; ctx.Err() == nil; {
		if err := s.command(p); err != nil {
			return err
		}
		began := time.Now()
		n, err := p.Read(buf)
		now := time.Now()
		switch {
		case err != nil:
			return err
		case n > 0:
			empty = 0
			err = s.carry(p, s.codec.feed(buf[:n], now))
		default:
			if now.Sub(began) < timeout/2 {
				if empty++; empty >= emptyReads {
					return errSpins
				}
			} else {
				empty = 0
			}
		}
		if err = errors.Join(err, s.carry(p, s.codec.tick(now, n == 0))); err != nil {
			return err
		}
		if s.quick > 0 && now.Sub(opened) >= steady {
			s.quick = 0
			s.connected()
		}
	}
	return nil
}

// dropStale throws away what the kernel kept from before the port was open, until
// the line is silent for the idle time, and returns how much it was. Those bytes may
// be hours old.
func (s *Scanner) dropStale(ctx context.Context, p port) (int, error) {
	stale, empty := 0, 0
	buf := make([]byte, 256)
	last := time.Now()
	for end := last.Add(staleLimit + s.cfg.Idle); ctx.Err() == nil; {
		n, err := p.Read(buf)
		now := time.Now()
		stale += n
		switch {
		case err != nil:
			return stale, err
		case n > 0:
			last, empty = now, 0
		case now.Sub(last) >= s.cfg.Idle:
			return stale, nil
		default:
			if empty++; empty >= emptyReads {
				return stale, errSpins
			}
		}
		if now.After(end) { // it never falls silent: begin at an end mark
			s.decoder.Resync()
			return stale, nil
		}
	}
	return stale, nil
}

// errSpins is a port whose reads do not wait, as a broken driver's.
var errSpins = fmt.Errorf("%d reads returned at once with nothing", emptyReads)

// handle delivers decoded events.
func (s *Scanner) handle(events []Event) {
	for _, e := range events {
		if e.Fault != nil {
			s.shown = e.Fault.Code
			s.log.Warn("bad scan", "code", e.Fault.Code, "err", e.Fault.Err)
			s.state(State{Status: Faulty, Path: s.cfg.Path, Fault: e.Fault})
			if Supports(s.cfg.Control, BeepBad) {
				s.enqueue(&request{command: BeepBad}) // who looks at the next ticket hears it
			}
			continue
		}
		s.connected()
		s.scans(e.Scan)
	}
}

// connected reports that all is well, unless that is what is shown.
func (s *Scanner) connected() {
	if s.quick >= unstable || s.shown == "" {
		return // a port that came and went is believed only when it stays
	}
	s.shown = ""
	s.log.Info("scanner connected", "line", s.cfg.line())
	s.state(State{Status: Connected, Path: s.cfg.Path, Stale: s.stale})
	s.stale = 0
}

// report shows a fault of the connection, once. A port that comes and goes is not
// shown as missing each time it is gone: that would hide the better advice.
func (s *Scanner) report(f *Fault) {
	if f.Code == s.shown || f.Code == CodeMissing && s.shown == CodeUnstable {
		return
	}
	s.shown = f.Code
	status := Faulty
	if f.Code == CodeMissing {
		status = Missing
	}
	s.log.Warn("scanner not available", "code", f.Code, "err", f.Err)
	s.state(State{Status: status, Path: s.cfg.Path, Fault: f})
}
