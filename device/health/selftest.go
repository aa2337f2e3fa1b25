package health

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"grattoir/device/printer"
	"grattoir/device/terminal"
)

// The self-test's steps, in their order.
const (
	TrialPrint  = "T1"
	TrialScan   = "T2"
	TrialDrawer = "T3"
	TrialLamps  = "T4"
	TrialTamper = "T5"
)

// Trials are the steps of the self-test.
func Trials() []Meaning {
	return []Meaning{
		{TrialPrint, "print", "a test slip comes out, with the printer's letters, a ruler and a code"},
		{TrialScan, "scan", "the scanner reads the code of that slip back"},
		{TrialDrawer, "drawer", "the cash drawer opens"},
		{TrialLamps, "lamps", "the lamps light and the buzzer sounds, one after the other"},
		{TrialTamper, "tamper", "the case's switch can be read and the case is closed"},
	}
}

// Sale is the fault of a self-test that is asked for while a ticket is on the counter.
func Sale() *terminal.Fault {
	return &terminal.Fault{Code: "T0", ClerkFR: "Ticket en cours : pas de test.\nFinissez d'abord ce ticket.", ClerkEN: "A ticket is on the counter.\nFinish it before a test.",
		Technician: "the self-test waits for nothing: pay or dismiss the ticket, end the batch, then start it again"}
}

// Bench are a terminal's devices as a self-test reaches them: through the daemon, which
// has them open, or by itself when that is down. A nil part is not on this terminal.
type Bench struct {
	Print  func(ctx context.Context, mark string) (printer.State, error)
	Scan   func(ctx context.Context, mark string) error // returns when the mark was read
	Drawer func(ctx context.Context) error
	Lamps  func(ctx context.Context) error
	Tamper func(ctx context.Context) (open bool, err error)
}

// Try makes one step. mark is the code that the slip carries and the scanner reads back.
func (b Bench) Try(ctx context.Context, step, mark string) Check {
	c := About(step)
	absent := func(what string) Check { return c.Skip("this terminal has no %s", what) }
	switch step {
	case TrialPrint:
		if b.Print == nil {
			return absent("printer")
		}
		return c.printed(b.Print(ctx, mark))
	case TrialScan:
		if b.Scan == nil {
			return absent("scanner")
		}
		if err := b.Scan(ctx, mark); err != nil {
			return c.failed(err, "look whether it lights; doctor tells how its port is; the mark is on the test slip, Data Matrix must be switched on in the scanner")
		}
		return c.ok("the mark was read back")
	case TrialDrawer:
		if b.Drawer == nil {
			return absent("drawer: the printer's profile has no socket for one")
		}
		if err := b.Drawer(ctx); err != nil {
			return c.failed(err, "check the drawer's cable at the printer, then its lock")
		}
		return c.ok("the pulse was sent")
	case TrialLamps:
		if b.Lamps == nil {
			return absent("lamps in its configuration")
		}
		if err := b.Lamps(ctx); err != nil {
			return c.failed(err, "check the pins' names in the configuration and the wires")
		}
		return c.ok("each was lit")
	case TrialTamper:
		if b.Tamper == nil {
			return absent("tamper switch in its configuration")
		}
		switch open, err := b.Tamper(ctx); {
		case err != nil:
			return c.failed(err, "check the pin's name in the configuration and the wire")
		case open:
			return c.fail("close the case; else check the switch and its wire", "the case is open")
		}
		return c.ok("the case is closed")
	}
	return c.Skip("there is no such step: %.20q", step)
}

// printed words how far the test slip is known to have come.
func (c Check) printed(state printer.State, err error) Check {
	switch state {
	case printer.StatePrinted:
		return c.ok("the printer says that it is on paper")
	case printer.StateConsumed:
		return c.ok("the printer has read all of it")
	case printer.StateSent:
		return c.ok("it was handed over; this printer says no more")
	}
	if err == nil {
		err = errors.New("nobody knows whether it came out")
	}
	return c.failed(err, "doctor tells how the printer is")
}

// failed is a step that did not work; a device's own fault gives its code and advice.
func (c Check) failed(err error, hint string) Check {
	c = c.fail(hint, "%s", reason(err))
	if held, is := errors.AsType[*printer.Held](err); is {
		c.Fault, c.Hint, c.Detail = held.Cause.Code, held.Cause.Technician, held.Cause.Code+": "+oneLine(held.Cause.ClerkEN)
	}
	return c
}

// Confirm takes a person's word on a step that a device cannot judge: whether he saw it.
// A step that has failed stays so.
func (c Check) Confirm(seen bool) Check {
	switch {
	case c.State != OK:
	case seen:
		c.Detail += "; a person has seen it"
	default:
		c = c.fail("doctor tells how the device is; then look at its cable", "%s, but a person has not seen it", c.Detail)
	}
	return c
}

// Unanswered is a step that nobody has confirmed: it is not known whether it worked.
func (c Check) Unanswered() Check {
	if c.State == OK {
		c = c.Skip("%s; nobody said whether it was seen", c.Detail)
		c.Unseen, c.Hint = true, "answer y or n, or give --yes"
	}
	return c
}

const (
	markPrefix  = "GRATTOIR-TEST-"
	markLetters = "ABCDEFGHJKLMNPQRSTUVWXYZabcdefgh" // 32, so that no letter is likelier
	markLength  = 10
)

// NewMark makes the code of one self-test. It is no ticket's, for those are digits, and no
// earlier test's, so that an old slip is not taken for the new one.
func NewMark() (string, error) {
	var b [markLength]byte
	if _, err := io.ReadFull(rand.Reader, b[:]); err != nil {
		return "", err
	}
	for i := range b {
		b[i] = markLetters[b[i]%byte(len(markLetters))]
	}
	return markPrefix + string(b[:]), nil
}

// IsMark tells whether a text has the form of a self-test's code.
func IsMark(text string) bool {
	rest, ok := strings.CutPrefix(text, markPrefix)
	return ok && len(rest) == markLength && strings.Trim(rest, markLetters) == ""
}

// Ear lies between the scanner and the counter and catches a self-test's mark from the
// moment its slip is printed, for a while. Everything else goes on to the counter. The zero
// Ear catches nothing.
type Ear struct {
	mu    sync.Mutex
	mark  string
	until time.Time
	heard chan struct{} // closed when mark was scanned
}

// Patience is how long a self-test waits for its mark.
const Patience = time.Minute

// Caught tells whether a scan was the mark that a self-test waits for.
func (e *Ear) Caught(text string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.mark == "" || text != e.mark || time.Now().After(e.until) {
		return false
	}
	select {
	case <-e.heard: // scanned twice
	default:
		close(e.heard)
	}
	return true
}

// expect begins to wait for a mark, or goes on; heard is closed when it comes. A second
// self-test's mark takes the place of the first's.
func (e *Ear) expect(mark string) (heard <-chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.mark != mark {
		e.mark, e.heard = mark, make(chan struct{})
	}
	e.until = time.Now().Add(Patience)
	return e.heard
}

// await waits until the mark was scanned.
func (e *Ear) await(ctx context.Context, mark string) error {
	heard := e.expect(mark)
	limit := time.NewTimer(Patience)
	defer limit.Stop()
	select {
	case <-heard:
		return nil
	case <-limit.C:
		return fmt.Errorf("the mark was not scanned within %s", Patience)
	case <-ctx.Done():
		return fmt.Errorf("the wait for the mark was ended: %w", context.Cause(ctx))
	}
}

// Join gives a bench its scanner, whose scans pass by the ear.
func (e *Ear) Join(b Bench) Bench {
	b.Scan = e.await
	if print := b.Print; print != nil {
		b.Print = func(ctx context.Context, mark string) (printer.State, error) {
			e.expect(mark) // a quick hand scans it before anybody waits
			return print(ctx, mark)
		}
	}
	return b
}

// anyDrawer opens one that follows the makers' manuals, where none is configured.
var anyDrawer = printer.Drawer{Pin: 2, Pulse: 100 * time.Millisecond}

// paperPatience is how long a test slip may take, a new roll included.
const paperPatience = 90 * time.Second

// PaperBench is the part of a bench that the printer gives: the test slip, and the drawer
// at its socket.
func PaperBench(d *printer.Device, p printer.Profile) Bench {
	b := Bench{Print: func(ctx context.Context, mark string) (printer.State, error) {
		ctx, cancel := context.WithTimeout(ctx, paperPatience)
		defer cancel()
		return d.Print(ctx, printer.TestSlip(p, mark), nil)
	}}
	if p.Drawer {
		drawer := d.Drawer()
		if drawer.Pin == 0 {
			drawer = anyDrawer
		}
		b.Drawer = func(ctx context.Context) error { return d.OpenDrawer(ctx, drawer) }
	}
	return b
}
