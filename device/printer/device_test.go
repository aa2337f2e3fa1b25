package printer_test

import (
	"bytes"
	"context"
	"errors"
	"image"
	"image/draw"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/makiuchi-d/gozxing"
	"github.com/makiuchi-d/gozxing/qrcode"

	"grattoir/device/printer"
	"grattoir/device/sim"
)

// limit is the longest any wait of these tests may take; reaching it is a failure.
const limit = 20 * time.Second

// bench is a simulated printer and the device that drives it.
type bench struct {
	*printer.Device
	t     *testing.T
	paper *sim.Printer
	stop  func()
	log   *logBuffer
}

type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func start(t *testing.T, profile string, opt sim.PrinterOptions, change ...func(*printer.Config)) *bench {
	t.Helper()
	p, err := printer.ProfileNamed(profile)
	if err != nil {
		t.Fatal(err)
	}
	opt.Columns = p.Columns
	paper, err := sim.NewPrinter(filepath.Join(t.TempDir(), "by-id"), opt)
	if err != nil {
		t.Fatal(err)
	}
	cfg := printer.Config{Path: paper.Path(), Baud: 921600, Profile: p,
		WriteTimeout: 300 * time.Millisecond, AnswerTimeout: 60 * time.Millisecond, Poll: 50 * time.Millisecond, Grace: 200 * time.Millisecond}
	for _, c := range change {
		c(&cfg)
	}
	b := &bench{t: t, paper: paper, log: &logBuffer{}}
	b.Device = printer.New(cfg, slog.New(slog.NewTextHandler(b.log, nil)))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx) }()
	b.stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("Run: %v", err)
			}
		case <-time.After(limit):
			t.Error("Run does not end")
		}
	})
	t.Cleanup(func() {
		b.stop()
		if err := paper.Close(); err != nil {
			t.Error(err)
		}
	})
	b.until("connected", func(s printer.Status) bool { return s.Connected })
	return b
}

// until waits for a status.
func (b *bench) until(what string, reached func(printer.Status) bool) printer.Status {
	b.t.Helper()
	over := time.After(limit)
	for {
		changed := b.Changed()
		s := b.Status()
		if reached(s) {
			return s
		}
		select {
		case <-changed:
		case <-over:
			b.t.Fatalf("never %s; status %+v, log:\n%s", what, s, b.log)
		}
	}
}

func (b *bench) untilFault(code string) printer.Status {
	b.t.Helper()
	return b.until("fault "+code, func(s printer.Status) bool { return s.Fault != nil && s.Fault.Code == code })
}

// printing is a Print under way.
type printing struct {
	t      *testing.T
	states chan printer.State
	end    chan error
	state  printer.State
}

func (b *bench) print(ctx context.Context, slip printer.Slip) *printing {
	p := &printing{t: b.t, states: make(chan printer.State, 64), end: make(chan error, 1)}
	go func() {
		state, err := b.Print(ctx, slip, func(s printer.State) { p.states <- s })
		p.state = state
		p.end <- err
	}()
	return p
}

// told waits until the caller is told a state. What was told counts also when the job
// has ended since: both channels may be ready, and select would toss a coin.
func (p *printing) told(want printer.State) {
	p.t.Helper()
	var got printer.State
	select {
	case got = <-p.states:
	case err := <-p.end:
		select {
		case got = <-p.states:
			p.end <- err // for ended
		default:
			p.t.Fatalf("ended as %q (%v), want to be told %q", p.state, err, want)
		}
	case <-time.After(limit):
		p.t.Fatalf("never told %q", want)
	}
	if got != want {
		p.t.Fatalf("told %q, want %q", got, want)
	}
}

func (p *printing) ended(want printer.State) error {
	p.t.Helper()
	select {
	case err := <-p.end:
		if p.state != want {
			p.t.Fatalf("ended as %q (%v), want %q", p.state, err, want)
		}
		return err
	case <-time.After(limit):
		p.t.Fatalf("does not end; want %q", want)
	}
	return nil
}

// slips checks how many slips lie on the counter and that no byte was misunderstood.
func (b *bench) slips(want int) {
	b.t.Helper()
	if got := len(b.paper.Slips()); got != want {
		b.t.Errorf("%d slips on the counter, want %d:\n%s", got, want, b.paper.Text())
	}
	for _, err := range b.paper.Errors() {
		if strings.Contains(err.Error(), "control byte 00") {
			continue // what closes a broken job; a printer ignores it
		}
		b.t.Errorf("the printer did not understand: %v", err)
	}
}

func receipt(title string) printer.Slip {
	var s printer.Slip
	s.Line(title, printer.Centre|printer.Bold)
	s.Banner("DÉMONSTRATION")
	s.Line("20,00\u202f€", printer.Centre|printer.Big)
	s.Pair("Émission", "1")
	s.Rule()
	s.QR("GRT1:T-0042:1204:5f2c9a")
	return s
}

// long is a slip larger than every buffer on the way: 20 kB and more.
func long() printer.Slip {
	s := receipt("LONG")
	for range 3 {
		s.Logo(image.NewGray(image.Rect(0, 0, 384, 200)))
	}
	return s
}

func TestPrintIsProvenByTheProcessID(t *testing.T) {
	for _, profile := range []string{"epson-tm-t20", "epson-tm-t88"} {
		t.Run(profile, func(t *testing.T) {
			b := start(t, profile, sim.PrinterOptions{})
			p := b.print(t.Context(), receipt("REÇU À GARDER"))
			p.told(printer.StateSending)
			if err := p.ended(printer.StatePrinted); err != nil {
				t.Fatal(err)
			}
			b.slips(1)
			paper := b.paper.Slips()[0]
			text := paper.Text()
			if got := qrOn(t, paper); got != "GRT1:T-0042:1204:5f2c9a" {
				t.Errorf("QR on the paper reads %q", got)
			}
			for _, want := range []string{"REÇU À GARDER", "DÉMONSTRATION", "20,00 €", "Émission"} {
				if !strings.Contains(text, want) {
					t.Errorf("no %q on the paper:\n%s", want, text)
				}
			}
			if cut := b.paper.Slips()[0].Cut; cut != sim.PartialCut {
				t.Errorf("cut %q", cut)
			}
		})
	}
}

// qrOn reads the code on a piece of paper, printed by command or as a picture in slices.
func qrOn(t *testing.T, slip sim.Slip) string {
	t.Helper()
	var whole *image.Gray
	for _, l := range slip.Lines {
		if l.QR != "" {
			return l.QR
		}
		if l.Image == nil {
			continue
		}
		const quiet = 24
		below := quiet
		if whole != nil {
			below = whole.Rect.Dy()
		}
		next := image.NewGray(image.Rect(0, 0, l.Image.Rect.Dx()+2*quiet, below+l.Image.Rect.Dy()))
		draw.Draw(next, next.Rect, image.White, image.Point{}, draw.Src)
		if whole != nil {
			draw.Draw(next, whole.Rect, whole, image.Point{}, draw.Src)
		}
		draw.Draw(next, l.Image.Rect.Sub(l.Image.Rect.Min).Add(image.Pt(quiet, below)), l.Image, l.Image.Rect.Min, draw.Src)
		whole = next
	}
	if whole == nil {
		t.Fatal("no code on the paper")
	}
	dots, err := gozxing.NewBinaryBitmapFromImage(whole)
	if err != nil {
		t.Fatal(err)
	}
	result, err := qrcode.NewQRCodeReader().Decode(dots, map[gozxing.DecodeHintType]any{gozxing.DecodeHintType_TRY_HARDER: true})
	if err != nil {
		t.Fatal(err)
	}
	return result.GetText()
}

// TestPrintWithoutProcessIDIsConsumed: that a line took all bytes is no proof of paper
// (apple/cups#5441).
func TestPrintWithoutProcessIDIsConsumed(t *testing.T) {
	b := start(t, "generic-80", sim.PrinterOptions{Chinese: true})
	if err := b.print(t.Context(), receipt("REÇU")).ended(printer.StateConsumed); err != nil {
		t.Fatal(err)
	}
	b.slips(1)
}

func TestPrintSettlesForConsumedWhenTheProfilePromisesTooMuch(t *testing.T) {
	b := start(t, "epson-tm-t20", sim.PrinterOptions{NoProcessID: true})
	for range 2 {
		if err := b.print(t.Context(), receipt("REÇU")).ended(printer.StateConsumed); err != nil {
			t.Fatal(err)
		}
	}
	if n := strings.Count(b.log.String(), "promises too much"); n != 1 {
		t.Errorf("told %d times, want once:\n%s", n, b.log)
	}
	if got := len(b.paper.Slips()); got != 2 {
		t.Errorf("%d slips", got)
	}
}

// TestPrintWaitsForALateProcessID: a limit of 3 s and an answer after 8 s made staff print
// twice (odoo/odoo#266747).
func TestPrintWaitsForALateProcessID(t *testing.T) {
	// Each line takes longer than all status waits together; the proof still counts.
	b := start(t, "epson-tm-t20", sim.PrinterOptions{LineDelay: 150 * time.Millisecond})
	if err := b.print(t.Context(), receipt("LENT")).ended(printer.StatePrinted); err != nil {
		t.Fatal(err)
	}
	b.slips(1)
}

func TestPaperOutBeforeHoldsAndSendsNothing(t *testing.T) {
	b := start(t, "epson-tm-t20", sim.PrinterOptions{Start: sim.State{PaperEnd: true}})
	for range 5 {
		p := b.print(t.Context(), receipt("JAMAIS"))
		err := p.ended(printer.StateHeld)
		held, ok := errors.AsType[*printer.Held](err)
		if !ok || !held.NothingSent || held.Cause.Code != "P2" {
			t.Fatalf("got %v", err)
		}
		if len(p.states) != 0 {
			t.Errorf("told %q though nothing was sent", <-p.states)
		}
	}
	if s := b.Status(); s.Paper != printer.PaperOut || s.Fault == nil || !s.Fault.Stops {
		t.Errorf("status %+v", s)
	}
	b.paper.Set(func(s *sim.State) { s.PaperEnd = false })
	if err := b.print(t.Context(), receipt("APRÈS")).ended(printer.StatePrinted); err != nil {
		t.Fatal(err)
	}
	b.slips(1)
}

func TestCoverOpenBeforeHoldsAndIsNamedBeforeThePaper(t *testing.T) {
	b := start(t, "epson-tm-t20", sim.PrinterOptions{Start: sim.State{CoverOpen: true, PaperEnd: true}})
	err := b.print(t.Context(), receipt("JAMAIS")).ended(printer.StateHeld)
	if held, ok := errors.AsType[*printer.Held](err); !ok || !held.NothingSent || held.Cause.Code != "P3" {
		t.Fatalf("got %v", err)
	}
	b.slips(0)
}

// TestPaperOutDuringHoldsThenPrintsOnce: writes tried again in hiding made many invoices of
// one (Klemen1337/node-thermal-printer#78).
func TestPaperOutDuringHoldsThenPrintsOnce(t *testing.T) {
	b := start(t, "epson-tm-t20", sim.PrinterOptions{PaperLines: 3})
	p := b.print(t.Context(), receipt("UNE FOIS"))
	p.told(printer.StateSending)
	p.told(printer.StateHeld)
	b.untilFault("P2")
	// A second slip must not pile up behind the held one.
	err := b.print(t.Context(), receipt("DEUX")).ended(printer.StateHeld)
	if held, ok := errors.AsType[*printer.Held](err); !ok || !held.NothingSent || held.Cause.Code != "P2" {
		t.Fatalf("second slip: %v", err)
	}
	b.paper.LoadPaper(0)
	// The process id may come before the next look at the sensors; both ways the slip goes on.
	p.told(printer.StateSending)
	if err := p.ended(printer.StatePrinted); err != nil {
		t.Fatal(err)
	}
	b.slips(1)
	b.until("well again", func(s printer.Status) bool { return s.Fault == nil && s.Paper == printer.PaperOK })
}

func TestPaperOutDuringIsUnknownWhenTheCallerStopsWaiting(t *testing.T) {
	b := start(t, "epson-tm-t20", sim.PrinterOptions{PaperLines: 3})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	p := b.print(ctx, receipt("UNE FOIS"))
	p.told(printer.StateSending)
	p.told(printer.StateHeld)
	cancel()
	err := p.ended(printer.StateUnknown)
	unknown, ok := errors.AsType[*printer.Unknown](err)
	if !ok || unknown.Sent != unknown.Total || !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	// The printer still has it: paper brings it out, and the next slip stays apart.
	b.paper.LoadPaper(0)
	b.until("well again", func(s printer.Status) bool { return s.Fault == nil })
	if err := b.print(t.Context(), receipt("DUPLICATA")).ended(printer.StatePrinted); err != nil {
		t.Fatal(err)
	}
	b.slips(2)
}

func TestClearedSlipNeverComesOut(t *testing.T) {
	b := start(t, "epson-tm-t20", sim.PrinterOptions{PaperLines: 3})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	p := b.print(ctx, receipt("ANNULÉ"))
	p.told(printer.StateSending)
	p.told(printer.StateHeld)
	cancel()
	p.ended(printer.StateUnknown)
	if err := b.Clear(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.paper.LoadPaper(0)
	b.until("well again", func(s printer.Status) bool { return s.Fault == nil })
	if err := b.print(t.Context(), receipt("SUIVANT")).ended(printer.StatePrinted); err != nil {
		t.Fatal(err)
	}
	b.slips(2) // the torn piece, and the next slip
	if torn := b.paper.Slips()[0].Text(); strings.Contains(torn, "Émission") {
		t.Errorf("the cleared slip came out:\n%s", torn)
	}
	if last := b.paper.Slips()[1].Text(); strings.Contains(last, "ANNULÉ") {
		t.Errorf("on the next slip:\n%s", last)
	}
}

func TestCutterJamDuringIsHeldAndNamed(t *testing.T) {
	b := start(t, "epson-tm-t20", sim.PrinterOptions{Start: sim.State{CutterJam: true}})
	p := b.print(t.Context(), receipt("BLOQUÉ"))
	p.told(printer.StateSending)
	p.told(printer.StateHeld)
	if s := b.untilFault("P4"); !s.CutterJam {
		t.Errorf("status %+v", s)
	}
	b.paper.Set(func(s *sim.State) { s.CutterJam, s.CutterError = false, false })
	p.told(printer.StateSending)
	if err := p.ended(printer.StatePrinted); err != nil {
		t.Fatal(err)
	}
	b.slips(1)
}

// TestStalledPrinterEndsAsUnknownInTheCallersTime: a write without a limit hangs for ever
// (pyserial/pyserial#163).
func TestStalledPrinterEndsAsUnknownInTheCallersTime(t *testing.T) {
	b := start(t, "epson-tm-t20", sim.PrinterOptions{})
	b.paper.Set(func(s *sim.State) { s.Stalled = true })
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	p := b.print(ctx, long())
	p.told(printer.StateSending)
	p.told(printer.StateHeld)
	b.untilFault("P9")
	cancel()
	err := p.ended(printer.StateUnknown)
	unknown, ok := errors.AsType[*printer.Unknown](err)
	if !ok || unknown.Sent == 0 || unknown.Sent >= unknown.Total {
		t.Fatalf("got %v", err)
	}
	// The torn piece is cut off, and the next customer's slip is whole.
	b.paper.Set(func(s *sim.State) { s.Stalled = false })
	b.until("well again", func(s printer.Status) bool { return s.Fault == nil })
	if err := b.print(t.Context(), receipt("ENTIER")).ended(printer.StatePrinted); err != nil {
		t.Fatal(err)
	}
	slips := b.paper.Slips()
	last := slips[len(slips)-1].Text()
	if len(slips) != 2 || !strings.Contains(last, "ENTIER") || strings.Contains(last, "LONG") {
		t.Errorf("%d slips, the last:\n%s", len(slips), last)
	}
}

func TestStalledPrinterGoesOnWhereItStopped(t *testing.T) {
	b := start(t, "epson-tm-t20", sim.PrinterOptions{})
	b.paper.Set(func(s *sim.State) { s.Stalled = true })
	p := b.print(t.Context(), long())
	p.told(printer.StateSending)
	p.told(printer.StateHeld)
	b.paper.Set(func(s *sim.State) { s.Stalled = false })
	p.told(printer.StateSending)
	if err := p.ended(printer.StatePrinted); err != nil {
		t.Fatal(err)
	}
	b.slips(1)
	if n := b.paper.Counts().Dropped; n != 0 {
		t.Errorf("%d bytes dropped", n)
	}
}

func TestRunEndsDuringAStalledJob(t *testing.T) {
	b := start(t, "epson-tm-t20", sim.PrinterOptions{})
	b.paper.Set(func(s *sim.State) { s.Stalled = true })
	p := b.print(t.Context(), long())
	p.told(printer.StateSending)
	p.told(printer.StateHeld)
	b.stop()
	p.ended(printer.StateUnknown)
	if err := b.print(t.Context(), receipt("TROP TARD")).ended(printer.StateHeld); err == nil {
		t.Error("printed after the end")
	}
}

func TestHangUpDuringIsUnknown(t *testing.T) {
	b := start(t, "epson-tm-t20", sim.PrinterOptions{})
	b.paper.HangUpAfter(700)
	p := b.print(t.Context(), long())
	p.told(printer.StateSending)
	err := p.ended(printer.StateUnknown)
	if unknown, ok := errors.AsType[*printer.Unknown](err); !ok || unknown.Sent == 0 {
		t.Fatalf("got %v", err)
	}
	b.untilFault("P1")
	b.paper.HangUpAfter(0)
	if err := b.paper.Replug(); err != nil {
		t.Fatal(err)
	}
	b.until("connected again", func(s printer.Status) bool { return s.Connected && s.Fault == nil })
	if err := b.print(t.Context(), receipt("DUPLICATA")).ended(printer.StatePrinted); err != nil {
		t.Fatal(err)
	}
	slips := b.paper.Slips()
	if last := slips[len(slips)-1].Text(); len(slips) != 2 || strings.Contains(last, "LONG") {
		t.Errorf("%d slips, the last:\n%s", len(slips), last)
	}
}

// TestUnpluggedPrinterIsNoticedHoldsJobsAndComesBack with 50 jobs in the gap: a port that
// was nil meanwhile ended a program (jeelabs/folie#40).
func TestUnpluggedPrinterIsNoticedHoldsJobsAndComesBack(t *testing.T) {
	b := start(t, "epson-tm-t20", sim.PrinterOptions{})
	if err := b.paper.Unplug(); err != nil {
		t.Fatal(err)
	}
	b.untilFault("P1")
	var all []*printing
	for range 50 {
		all = append(all, b.print(t.Context(), receipt("JAMAIS")))
	}
	for _, p := range all {
		err := p.ended(printer.StateHeld)
		if held, ok := errors.AsType[*printer.Held](err); !ok || !held.NothingSent || held.Cause.Code != "P1" {
			t.Fatalf("got %v", err)
		}
	}
	if err := b.paper.Replug(); err != nil {
		t.Fatal(err)
	}
	b.until("connected again", func(s printer.Status) bool { return s.Connected })
	if err := b.print(t.Context(), receipt("REVENU")).ended(printer.StatePrinted); err != nil {
		t.Fatal(err)
	}
	b.slips(1)
}

// TestOneWayPrinterIsNoStatusAndSent: a printer that cannot be asked is not "OK"
// (qzind/tray#784).
func TestOneWayPrinterIsNoStatusAndSent(t *testing.T) {
	b := start(t, "generic-58", sim.PrinterOptions{Start: sim.State{OneWay: true}})
	if s := b.Status(); s.Answers || s.Paper != printer.PaperUnknown || s.Fault != nil {
		t.Errorf("status %+v, want one that claims nothing", s)
	}
	begun := time.Now()
	if err := b.print(t.Context(), receipt("SANS RETOUR")).ended(printer.StateSent); err != nil {
		t.Fatal(err)
	}
	// The time limits of three silent requests are paid at set-up, not for each slip.
	t.Logf("sent after %v", time.Since(begun))
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	for len(b.paper.Uncut().Lines) < 8 { // no cutter: the slip hangs out
		if ctx.Err() != nil {
			t.Fatalf("on the paper:\n%s", b.paper.Text())
		}
		if err := b.print(ctx, receipt("ENCORE")).ended(printer.StateSent); err != nil {
			t.Fatal(err)
		}
	}
	b.slips(0)
}

func TestSilentPrinterThatShouldAnswerHolds(t *testing.T) {
	b := start(t, "epson-tm-t20", sim.PrinterOptions{Start: sim.State{OneWay: true}})
	err := b.print(t.Context(), receipt("JAMAIS")).ended(printer.StateHeld)
	if held, ok := errors.AsType[*printer.Held](err); !ok || !held.NothingSent || held.Cause.Code != "P8" {
		t.Fatalf("got %v", err)
	}
	b.slips(0)
}

func TestPrinterThatFallsSilentDuringIsHeldThenProven(t *testing.T) {
	b := start(t, "epson-tm-t20", sim.PrinterOptions{})
	b.paper.Set(func(s *sim.State) { s.Stalled = true })
	p := b.print(t.Context(), receipt("SILENCE"))
	p.told(printer.StateSending)
	b.paper.Set(func(s *sim.State) { s.OneWay = true })
	p.told(printer.StateHeld)
	b.untilFault("P8")
	b.paper.Set(func(s *sim.State) { s.OneWay, s.Stalled = false, false })
	p.told(printer.StateSending)
	if err := p.ended(printer.StatePrinted); err != nil {
		t.Fatal(err)
	}
	b.slips(1)
}

func TestNearEndWarnsAndPrints(t *testing.T) {
	b := start(t, "epson-tm-t20", sim.PrinterOptions{Start: sim.State{PaperNearEnd: true}})
	if s := b.untilFault("P10"); s.Fault.Stops || s.Paper != printer.PaperLow {
		t.Errorf("status %+v", s)
	}
	if err := b.print(t.Context(), receipt("ENCORE UN")).ended(printer.StatePrinted); err != nil {
		t.Fatal(err)
	}
}

// TestDrawerOpensApartFromTheSlipAndNeverLater: a pulse without its times, or in a job that
// waits for paper, opens the drawer with nobody there (lsongdev/node-escpos#151).
func TestDrawerOpensApartFromTheSlipAndNeverLater(t *testing.T) {
	b := start(t, "epson-tm-t20", sim.PrinterOptions{Start: sim.State{PaperEnd: true}})
	err := b.OpenDrawer(t.Context(), printer.Drawer{Pin: 2, Pulse: 100 * time.Millisecond})
	if held, ok := errors.AsType[*printer.Held](err); !ok || !held.NothingSent {
		t.Fatalf("got %v", err)
	}
	b.paper.LoadPaper(0)
	if err := b.print(t.Context(), receipt("REÇU")).ended(printer.StatePrinted); err != nil {
		t.Fatal(err)
	}
	if n := len(b.paper.Pulses()); n != 0 {
		t.Fatalf("%d pulses after the paper was loaded", n)
	}
	if err := b.OpenDrawer(t.Context(), printer.Drawer{Pin: 5, Pulse: 100 * time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	if err := b.print(t.Context(), receipt("REÇU")).ended(printer.StatePrinted); err != nil {
		t.Fatal(err)
	}
	pulses := b.paper.Pulses()
	if len(pulses) != 1 || pulses[0].Pin != 1 || pulses[0].On != 100*time.Millisecond {
		t.Errorf("pulses %+v", pulses)
	}
	b.slips(2)
}

// TestPaymentOpensTheDrawerBeforeItsSlip: one pulse before the first line of a slip that
// goes out, none for one that is held, nor when that comes out later.
func TestPaymentOpensTheDrawerBeforeItsSlip(t *testing.T) {
	for _, profile := range []string{"epson-tm-t20", "generic-80"} {
		t.Run(profile, func(t *testing.T) {
			own, err := printer.ProfileNamed(profile)
			if err != nil {
				t.Fatal(err)
			}
			own.Drawer = true
			b := start(t, profile, sim.PrinterOptions{}, func(c *printer.Config) {
				c.Profile, c.Drawer = own, printer.Drawer{Pin: 2, Pulse: 120 * time.Millisecond}
			})
			for n := range 2 {
				if _, err := b.PrintPaid(t.Context(), receipt("REÇU"), nil); err != nil {
					t.Fatal(err)
				}
				b.slips(n + 1)
			}
			if _, err := b.Print(t.Context(), receipt("DUPLICATA"), nil); err != nil {
				t.Fatal(err)
			}
			if got := b.paper.Pulses(); len(got) != 2 || got[0].Pin != 0 || got[0].On != 120*time.Millisecond || got[0].Slips+got[0].Lines > 0 || got[1].Slips != 1 || got[1].Lines > 0 {
				t.Errorf("pulses %+v", got)
			}
			if own.Status != printer.Can {
				return
			}
			b.paper.Set(func(s *sim.State) { s.PaperEnd = true })
			b.untilFault("P2")
			if state, _ := b.PrintPaid(t.Context(), receipt("REÇU"), nil); state != printer.StateHeld || len(b.paper.Pulses()) != 2 {
				t.Errorf("with no paper: %s, %d pulses", state, len(b.paper.Pulses()))
			}
		})
	}
}

func TestSmallBufferWithoutFlowControlLosesNothingAtRest(t *testing.T) {
	b := start(t, "generic-58", sim.PrinterOptions{Buffer: 64, Chinese: true})
	if err := b.print(t.Context(), receipt("PETIT")).ended(printer.StateConsumed); err != nil {
		t.Fatal(err)
	}
	b.slips(0)
	if n := b.paper.Counts().Dropped; n != 0 {
		t.Errorf("%d bytes dropped", n)
	}
}

func TestRunRefusesAWrongConfiguration(t *testing.T) {
	p, err := printer.ProfileNamed("generic-80")
	if err != nil {
		t.Fatal(err)
	}
	for name, cfg := range map[string]printer.Config{
		"no path":    {Profile: p},
		"no profile": {Path: "/dev/null"},
		"flow":       {Path: "/dev/null", Profile: p, Flow: "dtr"},
		"speed":      {Path: "/dev/null", Profile: p, Baud: 1},
	} {
		d := printer.New(cfg, slog.New(slog.DiscardHandler))
		if err := d.Run(t.Context()); err == nil {
			t.Errorf("%s: taken", name)
		}
		if state, err := d.Print(t.Context(), receipt("X"), nil); err == nil || state != printer.StateHeld {
			t.Errorf("%s: %q, %v", name, state, err)
		}
	}
}

func TestPortRefusesAFileWithoutTimeLimits(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("keep"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/dev/null", file} {
		if _, err := printer.OpenPort(path, 9600, printer.NoFlow); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if _, err := printer.OpenPort(file+"-not", 9600, printer.NoFlow); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing: %v", err)
	}
}

func TestPortWriteEndsAtItsDeadlineAndNeverAfterClose(t *testing.T) {
	paper, err := sim.NewPrinter("", sim.PrinterOptions{Start: sim.State{Stalled: true}})
	if err != nil {
		t.Fatal(err)
	}
	defer paper.Close()
	port, err := printer.OpenPort(paper.Path(), 9600, printer.HardwareFlow)
	if err != nil {
		t.Fatal(err)
	}
	n, err := port.Write(make([]byte, 1<<20), time.Now().Add(200*time.Millisecond))
	if n == 0 || n == 1<<20 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%d bytes, %v", n, err)
	}
	reader := make(chan error, 1)
	go func() {
		_, err := port.Read(make([]byte, 1))
		reader <- err
	}()
	for range 2 {
		if err := port.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := <-reader; err == nil {
		t.Error("Read ended without an error")
	}
	// The next file opened gets the old descriptor's number: not one byte may reach it.
	file, err := os.Create(filepath.Join(t.TempDir(), "other"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if n, err := port.Write([]byte("receipt"), time.Now().Add(time.Second)); n != 0 || !errors.Is(err, os.ErrClosed) {
		t.Errorf("%d bytes after Close, %v", n, err)
	}
	if info, err := file.Stat(); err != nil || info.Size() != 0 {
		t.Errorf("another file got %d bytes, %v", info.Size(), err)
	}
}

func TestPortReadsAHangUpAsAnError(t *testing.T) {
	paper, err := sim.NewPrinter("", sim.PrinterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer paper.Close()
	port, err := printer.OpenPort(paper.Path(), 9600, printer.NoFlow)
	if err != nil {
		t.Fatal(err)
	}
	defer port.Close()
	if err := paper.Unplug(); err != nil {
		t.Fatal(err)
	}
	if n, err := port.Read(make([]byte, 8)); n != 0 || err == nil {
		t.Errorf("%d bytes, %v", n, err)
	}
}
