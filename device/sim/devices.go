package sim

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// slipPatience is how long a script waits for a slip or for a program to open the port.
const slipPatience = 30 * time.Second

// Devices are what a script acts on. Scanner and Printer are required.
type Devices struct {
	Scanner *Scanner
	Printer *Printer
	// Daemon acts on the program behind the devices: "kill", "kill at" with a step's name,
	// "stop", "start". nil refuses these acts.
	Daemon func(ctx context.Context, what, step string) error
	Seed   uint64 // of the noise

	mu     sync.Mutex
	noise  *rand.Rand
	waited int // slips that were waited for
}

// ErrNoDaemon means that a script wants to act on a program that is not under its hands.
var ErrNoDaemon = errors.New("no program is run here that could be started or killed")

// Do does a resolved act, as a Player hands it over. It is safe for concurrent use.
func (d *Devices) Do(ctx context.Context, a Act) error {
	if a.form == nil {
		return errors.New("no act")
	}
	return a.form.do(ctx, d, a)
}

// random is the source of noise. Called with mu held.
func (d *Devices) random() *rand.Rand {
	if d.noise == nil {
		d.noise = rand.New(rand.NewPCG(d.Seed, 1))
	}
	return d.noise
}

func (d *Devices) garbage(n int) []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	return noise(d.random(), n)
}

// Form is one kind of act, for help.
type Form struct{ Pattern, Means string }

// Forms lists the kinds of acts, in the order in which SCRIPT.md tells of them.
func Forms() []Form {
	list := make([]Form, 0, len(forms))
	for _, f := range forms {
		list = append(list, Form{f.pattern, f.means})
	}
	return list
}

// forms are all kinds of acts. It is never changed.
var forms = inWords([]form{
	{pattern: "scan CODE", means: "the code under the glass, with whatever is to go wrong with the next scan", do: func(_ context.Context, d *Devices, a Act) error { return d.Scanner.Scan(a.text(0)) }},
	{pattern: "scan raw HEX", means: "these bytes, and nothing around them", do: func(_ context.Context, d *Devices, a Act) error { return d.Scanner.Send(unhex(a.text(0))) }},

	{pattern: "scanner split N TIME", means: "the next scan comes in pieces of N bytes, so far apart", do: trick(Split)},
	{pattern: "scanner twice", means: "the next scan is sent two times in one piece", do: trick(Twice)},
	{pattern: "scanner repeat N TIME", means: "the next scan comes N times more, so far apart", do: trick(Repeat)},
	{pattern: "scanner truncate N", means: "the next scan ends after N bytes, without its end mark", do: trick(Truncate)},
	{pattern: "scanner lose N", means: "byte N of the next scan is lost", do: trick(Lose)},
	{pattern: "scanner misread N", means: "digit N of the next scan is another", do: trick(Misread)},
	{pattern: "scanner damage N", means: "byte N of the next scan is NUL, as after a parity error", do: trick(Damage)},
	{pattern: "scanner 7e1", means: "the next scan has 7 bits and even parity", do: trick(SevenBit)},
	{pattern: "scanner cut-off N", means: "the cable comes out after N bytes of the next scan", do: trick(CutOff)},
	{pattern: "scanner garbage N", means: "N bytes of noise, now", do: func(_ context.Context, d *Devices, a Act) error { return d.Scanner.Send(d.garbage(a.number(0))) }},
	{pattern: "scanner suffix cr", means: "later scans end with CR", do: suffix("\r")},
	{pattern: "scanner suffix lf", means: "... with LF", do: suffix("\n")},
	{pattern: "scanner suffix crlf", means: "... with CR LF", do: suffix("\r\n")},
	{pattern: "scanner suffix tab", means: "... with TAB", do: suffix("\t")},
	{pattern: "scanner suffix none", means: "... with nothing", do: suffix("")},
	{pattern: "scanner prefix HEX", means: "later scans begin with these bytes", do: func(_ context.Context, d *Devices, a Act) error {
		return d.prefix(unhex(a.text(0)))
	}},
	{pattern: "scanner prefix none", means: "later scans begin with the code", do: func(_ context.Context, d *Devices, _ Act) error { return d.prefix(nil) }},
	{pattern: "scanner unplug", means: "its cable comes out; the link goes", do: func(_ context.Context, d *Devices, _ Act) error { return d.Scanner.Unplug() }},
	{pattern: "scanner replug", means: "its cable is in again", do: func(_ context.Context, d *Devices, _ Act) error { return d.Scanner.Replug() }},
	{pattern: "scanner late link TIME", means: "the link appears so long after later plugging in", do: func(_ context.Context, d *Devices, a Act) error {
		d.Scanner.SetLinkDelay(a.time(0))
		return nil
	}},

	{pattern: "printer paper out", means: "the roll ends", do: state(func(s *State) { s.PaperEnd = true })},
	{pattern: "printer paper out after N lines", means: "the roll ends N lines on", do: func(_ context.Context, d *Devices, a Act) error {
		d.Printer.LoadPaper(max(1, a.number(0)))
		return nil
	}},
	{pattern: "printer paper low", means: "the roll is nearly used up", do: state(func(s *State) { s.PaperNearEnd = true })},
	{pattern: "printer paper ok", means: "a new roll, without end", do: func(_ context.Context, d *Devices, _ Act) error {
		d.Printer.LoadPaper(0)
		d.Printer.Set(func(s *State) { s.PaperNearEnd = false })
		return nil
	}},
	{pattern: "printer cover open", means: "the cover is open", do: state(func(s *State) { s.CoverOpen = true })},
	{pattern: "printer cover closed", means: "the cover is closed", do: state(func(s *State) { s.CoverOpen = false })},
	{pattern: "printer cutter jam", means: "the next cut jams", do: state(func(s *State) { s.CutterJam = true })},
	{pattern: "printer cutter free", means: "the cutter is freed by hand", do: state(func(s *State) { s.CutterJam, s.CutterError = false, false })},
	{pattern: "printer head hot", means: "the head is too hot", do: state(func(s *State) { s.HeadHot = true })},
	{pattern: "printer head cool", means: "the head has cooled", do: state(func(s *State) { s.HeadHot = false })},
	{pattern: "printer broken", means: "an error that only a power cycle clears", do: state(func(s *State) { s.Broken = true })},
	{pattern: "printer stall", means: "it takes nothing more from its buffer, and says that all is well", do: state(func(s *State) { s.Stalled = true })},
	{pattern: "printer go", means: "it goes on", do: state(func(s *State) { s.Stalled = false })},
	{pattern: "printer one-way", means: "it answers nothing from now on, and prints", do: state(func(s *State) { s.OneWay = true })},
	{pattern: "printer two-way", means: "it answers again", do: state(func(s *State) { s.OneWay = false })},
	{pattern: "printer silent", means: "it is switched off with its cable in: what is sent is lost", do: state(func(s *State) { s.Off = true })},
	{pattern: "printer on", means: "it is switched on", do: state(func(s *State) { s.Off, s.Broken = false, false })},
	{pattern: "printer power cycle", means: "off and on at once: buffer and modes are lost", do: func(_ context.Context, d *Devices, _ Act) error {
		d.Printer.PowerCycle()
		return nil
	}},
	{pattern: "printer buffer N", means: "a receive buffer of N bytes; when it is full the printer stops reading", do: adjust(func(o *PrinterOptions, a Act) { o.Buffer, o.DropWhenFull = a.number(0), false })},
	{pattern: "printer buffer N drop", means: "... when it is full, what comes is lost", do: adjust(func(o *PrinterOptions, a Act) { o.Buffer, o.DropWhenFull = a.number(0), true })},
	{pattern: "printer slow N", means: "a line of N bits a second; 0 is as fast as can be", do: adjust(func(o *PrinterOptions, a Act) { o.Baud = a.number(0) })},
	{pattern: "printer line TIME", means: "what a printed line takes", do: adjust(func(o *PrinterOptions, a Act) { o.LineDelay = a.time(0) })},
	{pattern: "printer late id TIME", means: "the proof of printing (GS ( H) comes so late", do: adjust(func(o *PrinterOptions, a Act) { o.IDDelay = a.time(0) })},
	{pattern: "printer no id", means: "it does not know GS ( H", do: adjust(func(o *PrinterOptions, _ Act) { o.NoProcessID = true })},
	{pattern: "printer id", means: "it knows it again", do: adjust(func(o *PrinterOptions, _ Act) { o.NoProcessID = false })},
	{pattern: "printer answer garbage N", means: "noise comes in the place of the next N answers", do: func(_ context.Context, d *Devices, a Act) error {
		d.Printer.Garble(a.number(0))
		return nil
	}},
	{pattern: "printer say HEX", means: "it sends these bytes, which nobody asked for (13 is XOFF, 11 is XON)", do: func(_ context.Context, d *Devices, a Act) error {
		d.Printer.Say(unhex(a.text(0)))
		return nil
	}},
	{pattern: "printer unplug", means: "its cable comes out; the link goes", do: func(_ context.Context, d *Devices, _ Act) error { return d.Printer.Unplug() }},
	{pattern: "printer replug", means: "its cable is in again", do: func(_ context.Context, d *Devices, _ Act) error {
		d.Printer.HangUpAfter(0) // the hand that plugs it in is not meant to pull it out
		return d.Printer.Replug()
	}},
	{pattern: "printer hang-up after N bytes", means: "its cable comes out N bytes on", do: func(_ context.Context, d *Devices, a Act) error {
		d.Printer.HangUpAfter(max(1, a.number(0)))
		return nil
	}},
	{pattern: "printer late link TIME", means: "the link appears so long after later plugging in", do: adjust(func(o *PrinterOptions, a Act) { o.LinkDelay = a.time(0) })},

	{pattern: "daemon kill", means: "the program is killed, as by a power cut", do: daemon("kill")},
	{pattern: "daemon kill at STEP", means: "it kills itself at this step of a claim", do: daemon("kill at")},
	{pattern: "daemon stop", means: "the program is stopped in order", do: daemon("stop")},
	{pattern: "daemon start", means: "the program is started", do: daemon("start")},

	{pattern: "wait slip", means: "until the next slip is cut", do: func(ctx context.Context, d *Devices, _ Act) error { return d.waitSlip(ctx) }},
	{pattern: "wait open", means: "until a program has the scanner's port open", do: func(ctx context.Context, d *Devices, _ Act) error {
		ctx, cancel := context.WithTimeout(ctx, slipPatience)
		defer cancel()
		return d.Scanner.WaitOpen(ctx)
	}},
})

func trick(kind TrickKind) func(context.Context, *Devices, Act) error {
	return func(_ context.Context, d *Devices, a Act) error {
		t := Trick{Kind: kind}
		if len(a.args) > 0 {
			t.N = a.number(0)
		}
		if len(a.args) > 1 {
			t.Gap = a.time(1)
		}
		d.Scanner.Play(t)
		return nil
	}
}

func suffix(s string) func(context.Context, *Devices, Act) error {
	return func(_ context.Context, d *Devices, _ Act) error {
		f := d.Scanner.Framing()
		f.Suffix = []byte(s)
		d.Scanner.SetFraming(f)
		return nil
	}
}

func (d *Devices) prefix(b []byte) error {
	f := d.Scanner.Framing()
	f.Prefix = b
	d.Scanner.SetFraming(f)
	return nil
}

func state(change func(*State)) func(context.Context, *Devices, Act) error {
	return func(_ context.Context, d *Devices, _ Act) error {
		d.Printer.Set(change)
		return nil
	}
}

func adjust(change func(*PrinterOptions, Act)) func(context.Context, *Devices, Act) error {
	return func(_ context.Context, d *Devices, a Act) error {
		return d.Printer.Adjust(func(o *PrinterOptions) { change(o, a) })
	}
}

func daemon(what string) func(context.Context, *Devices, Act) error {
	return func(ctx context.Context, d *Devices, a Act) error {
		if d.Daemon == nil {
			return fmt.Errorf("daemon %s: %w", what, ErrNoDaemon)
		}
		step := ""
		if len(a.args) > 0 {
			step = a.text(0)
		}
		return d.Daemon(ctx, what, step)
	}
}

// unhex reads what parseArg has accepted.
func unhex(text string) []byte {
	b, _ := hex.DecodeString(text)
	return b
}

// waitSlip waits for the first slip that was not waited for yet.
func (d *Devices) waitSlip(ctx context.Context) error {
	d.mu.Lock()
	d.waited++
	n := d.waited
	d.mu.Unlock()
	ctx, cancel := context.WithTimeoutCause(ctx, slipPatience, fmt.Errorf("nothing within %v", slipPatience))
	defer cancel()
	return d.Printer.AwaitSlips(ctx, n)
}
