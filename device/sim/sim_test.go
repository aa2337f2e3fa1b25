package sim

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// patience is how long a test waits for what must happen; it is never the measure.
const patience = 10 * time.Second

// driver is the other end of the cable, with deadlines.
type driver struct {
	t *testing.T
	f *os.File
}

func open(t *testing.T, path string) driver {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return driver{t, f}
}

func (d driver) send(s string) {
	d.t.Helper()
	if err := d.f.SetWriteDeadline(time.Now().Add(patience)); err != nil {
		d.t.Fatal(err)
	}
	if _, err := io.WriteString(d.f, s); err != nil {
		d.t.Fatalf("send: %v", err)
	}
}

// want reads exactly the bytes of s.
func (d driver) want(s string) {
	d.t.Helper()
	if err := d.f.SetReadDeadline(time.Now().Add(patience)); err != nil {
		d.t.Fatal(err)
	}
	got := make([]byte, len(s))
	n, err := io.ReadFull(d.f, got)
	if err != nil || string(got) != s {
		d.t.Fatalf("answer % X, %v; want % X", got[:n], err, s)
	}
}

// silent asserts that no answer has come. It is asked after something later was
// seen to happen, so it need not wait.
func (d driver) silent() {
	d.t.Helper()
	raw, err := d.f.SyscallConn()
	if err != nil {
		d.t.Fatal(err)
	}
	err = raw.Control(func(fd uintptr) {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		if n, err := unix.Poll(fds, 0); n != 0 || err != nil {
			d.t.Errorf("an answer came (%d, %v); want none", n, err)
		}
	})
	if err != nil {
		d.t.Fatal(err)
	}
}

func printerFor(t *testing.T, opt PrinterOptions) (*Printer, driver) {
	t.Helper()
	p, err := NewPrinter("", opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return p, open(t, p.Path())
}

func next(t *testing.T, p *Printer) Slip {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s, err := p.Next(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// until waits for a condition of the printer.
func until(t *testing.T, p *Printer, what string, cond func() bool) {
	t.Helper()
	limit := time.AfterFunc(patience, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.changed.Broadcast()
	})
	defer limit.Stop()
	end := time.Now().Add(patience)
	p.mu.Lock()
	defer p.mu.Unlock()
	for !cond() {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
		p.changed.Wait()
	}
}

func noErrors(t *testing.T, p *Printer) {
	t.Helper()
	for _, err := range p.Errors() {
		t.Errorf("printer: %v", err)
	}
}

const cutAll = "\x1dV\x42\x00"

func TestPrinterKeepsSlipAsPrinted(t *testing.T) {
	p, d := printerFor(t, PrinterOptions{Columns: 32})
	d.send("\x1b@\x1bt\x13" + "\x1ba\x01\x1d!\x11\x1bE\x01GAGN\x90\x1bE\x00\x1d!\x00\n" +
		"\x1ba\x00Gain\x1ba\x02 ignored\n" + "20,00 \xd5\n\x1ba\x00\x1d!\x10W\x1d!\x00x\n" + "\x1dB\x01INV\x1dB\x00\x1b-\x01u\x1b-\x00\n" + cutAll)
	s := next(t, p)
	noErrors(t, p)
	// ESC a in mid-line is ignored and not remembered, so the third line lies left.
	want := "           GAGNÉ\nGain ignored\n20,00 €\nW x\nINVu\n"
	if got := s.Text(); got != want {
		t.Errorf("paper:\n%s\nwant:\n%s", got, want)
	}
	head := s.Lines[0].Runs[0]
	if !head.Bold || head.Width != 2 || head.Height != 2 || s.Lines[0].Align != Centre {
		t.Errorf("first line %+v", s.Lines[0])
	}
	if r := s.Lines[4].Runs; !r[0].Inverse || r[0].Underline || !r[1].Underline || r[1].Inverse {
		t.Errorf("last line %+v", r)
	}
	if s.Cut != PartialCut || s.Columns != 32 {
		t.Errorf("cut %q, columns %d", s.Cut, s.Columns)
	}
}

func TestPrinterAlignsRight(t *testing.T) {
	p, d := printerFor(t, PrinterOptions{Columns: 32})
	d.send("\x1ba\x02TOTAL\n\x1ba1MID\n" + cutAll)
	if got, want := next(t, p).Text(), strings.Repeat(" ", 27)+"TOTAL\n"+strings.Repeat(" ", 14)+"MID\n"; got != want {
		t.Errorf("paper:\n%q\nwant:\n%q", got, want)
	}
}

func TestPrinterDecodesEachCodePage(t *testing.T) {
	for _, c := range []struct {
		page byte
		sent string
		want string
	}{
		{0, "\x82\x8a", "éè"},
		{2, "\x82\xb7", "éÀ"},
		{16, "\xe9\x9c\x80\x85", "éœ€…"},
		{19, "\x82\x8a\x85\x87\xd5", "éèàç€"},
		{40, "\xe9\xbd\xa4", "éœ€"},
	} {
		p, d := printerFor(t, PrinterOptions{})
		d.send("\x1bt" + string([]byte{c.page}) + c.sent + "\n" + cutAll)
		if got := next(t, p).Lines[0].Text(); got != c.want {
			t.Errorf("page %d: %q, want %q", c.page, got, c.want)
		}
		noErrors(t, p)
	}
}

func TestPrinterKnowsEveryCut(t *testing.T) {
	p, d := printerFor(t, PrinterOptions{})
	for _, c := range []struct {
		sent string
		want Cut
	}{
		{"\x1dV\x00", FullCut}, {"\x1dV\x01", PartialCut}, {"\x1dV0", FullCut}, {"\x1dV1", PartialCut},
		{"\x1dVA\x10", FullCut}, {"\x1dVB\x00", PartialCut}, {"\x1dVa\x01", FullCut}, {"\x1dVh\x01", PartialCut},
		{"\x1bi", FullCut}, {"\x1bm", PartialCut},
	} {
		d.send("x\n" + c.sent)
		if s := next(t, p); s.Cut != c.want || s.Text() != "x\n" {
			t.Errorf("% X: cut %q of %q, want %q", c.sent, s.Cut, s.Text(), c.want)
		}
	}
	noErrors(t, p)
	if n := len(p.Slips()); n != 10 {
		t.Errorf("%d slips kept, want 10", n)
	}
}

func TestPrinterBreaksLongLines(t *testing.T) {
	p, d := printerFor(t, PrinterOptions{Columns: 32})
	d.send(strings.Repeat("a", 40) + "\n" + cutAll)
	s := next(t, p)
	if len(s.Lines) != 2 || s.Lines[0].Wrapped || !s.Lines[1].Wrapped || s.Lines[1].Text() != "aaaaaaaa" {
		t.Errorf("lines %+v", s.Lines)
	}
}

func TestPrinterKeepsImagesAndCodes(t *testing.T) {
	p, d := printerFor(t, PrinterOptions{})
	d.send("\x1dv0\x00\x02\x00\x02\x00\x80\x00\x00\x01" +
		"\x1d(k\x04\x001A2\x00\x1d(k\x03\x001C\x06\x1d(k\x03\x001E1\x1d(k\x08\x001P0HELLO\x1d(k\x03\x001Q0" +
		"\x1dh\x50\x1dw\x02\x1dH\x02\x1dk\x49\x06{B1234\x1dk\x05" + "123456\x00" + "\x1b*\x00\x02\x00\x80\x01" + cutAll)
	s := next(t, p)
	noErrors(t, p)
	if len(s.Lines) != 5 {
		t.Fatalf("paper:\n%s", s.Text())
	}
	img := s.Lines[0].Image
	if img.Rect.Dx() != 16 || img.Rect.Dy() != 2 || img.GrayAt(0, 0).Y != 0 || img.GrayAt(1, 0).Y != 0xFF || img.GrayAt(15, 1).Y != 0 {
		t.Errorf("raster %v % X", img.Rect, img.Pix)
	}
	if s.Lines[1].QR != "HELLO" || *s.Lines[2].Barcode != (Barcode{73, "{B1234"}) || *s.Lines[3].Barcode != (Barcode{70, "123456"}) {
		t.Errorf("codes %+v", s.Lines[1:4])
	}
	if band := s.Lines[4].Image; band.GrayAt(0, 0).Y != 0 || band.GrayAt(1, 7).Y != 0 || band.GrayAt(1, 0).Y != 0xFF {
		t.Errorf("bit image % X", band.Pix)
	}
	if !strings.Contains(s.Text(), "[image 16x2]\n[QR HELLO]\n[barcode 73 {B1234]\n") {
		t.Errorf("text:\n%s", s.Text())
	}
}

func TestPrinterRecordsUnknownCommands(t *testing.T) {
	for _, sent := range []string{"\x1b7\x01", "\x1dX\x00", "\x1bt\x63", "\x18", "\x1d(Z\x01\x00a", "\x1cp", "\x10\x14\x09", "\xd5\x1bt\x28\x85", "\x1d(k\x03\x006Q0", "\x1dk\x46\x03123"} {
		p, d := printerFor(t, PrinterOptions{})
		d.send(sent + cutAll)
		next(t, p)
		if len(p.Errors()) == 0 {
			t.Errorf("% X: no error recorded", sent)
		}
	}
}

func TestPrinterAnswersRealTimeStatusWhateverItsState(t *testing.T) {
	p, d := printerFor(t, PrinterOptions{})
	d.send("\x10\x04\x01\x10\x04\x02\x10\x04\x03\x10\x04\x04")
	d.want("\x12\x12\x12\x12")
	p.Set(func(s *State) { s.Stalled = true })
	d.send("stalled\n\x10\x04\x01")
	d.want("\x12")
	p.Set(func(s *State) { *s = State{PaperEnd: true} })
	d.send("\x10\x04\x01\x10\x04\x02\x10\x04\x04")
	d.want("\x1a\x32\x7e")
	p.Set(func(s *State) { *s = State{CoverOpen: true, DrawerOpen: true} })
	d.send("\x10\x04\x01\x10\x04\x02\x10\x04\x04")
	d.want("\x1e\x16\x12")
	p.Set(func(s *State) { *s = State{CutterError: true, PaperNearEnd: true} })
	d.send("\x10\x04\x01\x10\x04\x02\x10\x04\x03\x10\x04\x04")
	d.want("\x1a\x52\x1a\x1e")
	p.Set(func(s *State) { *s = State{} })
	d.send(cutAll)
	if got := next(t, p).Text(); got != "stalled\n" {
		t.Errorf("paper %q: a real-time command was printed", got)
	}
	noErrors(t, p)
}

func TestPrinterAnswersProcessIDOnlyAfterPrinting(t *testing.T) {
	p, d := printerFor(t, PrinterOptions{Start: State{Stalled: true}})
	d.send("slip\n" + cutAll + "\x1d(H\x06\x0000AB12\x10\x04\x01")
	d.want("\x12") // the status overtakes the process id
	if len(p.Slips()) != 0 {
		t.Fatal("printed while stalled")
	}
	p.Set(func(s *State) { s.Stalled = false })
	d.want("\x37\x22AB12\x00")
	if n := len(p.Slips()); n != 1 {
		t.Errorf("%d slips when the id came, want 1", n)
	}
}

func TestPrinterHoldsJobAtPaperEndAndPrintsItOnce(t *testing.T) {
	p, d := printerFor(t, PrinterOptions{PaperLines: 2})
	d.send("one\ntwo\nthree\n" + cutAll + "\x1dr\x01\x1d(H\x06\x00000001")
	until(t, p, "paper end", func() bool { return p.state.PaperEnd })
	d.send("\x10\x04\x04")
	d.want("\x7e")
	if got := p.Uncut().Text(); got != "one\ntwo\n" || len(p.Slips()) != 0 {
		t.Errorf("paper %q, %d slips", got, len(p.Slips()))
	}
	p.LoadPaper(0)
	d.want("\x00\x37\x220001\x00")
	if s := p.Slips(); len(s) != 1 || s[0].Text() != "one\ntwo\nthree\n" {
		t.Errorf("slips %+v", s)
	}
}

func TestPrinterCutterJamRecovers(t *testing.T) {
	p, d := printerFor(t, PrinterOptions{Start: State{CutterJam: true}})
	d.send("first\n" + cutAll)
	until(t, p, "cutter error", func() bool { return p.state.CutterError })
	d.send("\x10\x04\x03")
	d.want("\x1a")
	d.send("\x10\x05\x01")
	if got := next(t, p).Text(); got != "first\n" {
		t.Errorf("paper %q", got)
	}
	p.Set(func(s *State) { s.CutterJam = true })
	d.send("second\n" + cutAll + "never\n")
	until(t, p, "cutter error", func() bool { return p.state.CutterError })
	d.send("\x10\x05\x02third\n" + cutAll)
	if got := next(t, p).Text(); got != "second\nthird\n" {
		t.Errorf("paper %q: DLE ENQ 2 must drop the buffer and the cut", got)
	}
}

func TestPrinterClearsItsBuffer(t *testing.T) {
	p, d := printerFor(t, PrinterOptions{Start: State{PaperEnd: true}})
	d.send("never\n" + cutAll + "\x1d(H\x06\x00000001\x10\x14\x08\x01\x03\x14\x01\x06\x02\x08")
	d.want("\x37\x25\x00")
	p.LoadPaper(0)
	d.send("kept\n" + cutAll)
	if got := next(t, p).Text(); got != "kept\n" {
		t.Errorf("paper %q", got)
	}
	d.silent()
	noErrors(t, p)
}

func TestPrinterSendsAutomaticStatus(t *testing.T) {
	p, d := printerFor(t, PrinterOptions{})
	d.send("\x1da\x0f")
	d.want("\x10\x00\x00\x00")
	p.Set(func(s *State) { s.CoverOpen = true })
	d.want("\x38\x00\x00\x00")
	p.Set(func(s *State) { s.CoverOpen = true }) // no change, nothing sent
	p.Set(func(s *State) { *s = State{PaperEnd: true} })
	d.want("\x18\x00\x0f\x00")
}

func TestPrinterFullBufferStopsTheDriver(t *testing.T) {
	p, d := printerFor(t, PrinterOptions{Buffer: 100, Start: State{Stalled: true}})
	if err := d.f.SetWriteDeadline(time.Now().Add(300 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	n, err := d.f.Write(bytes.Repeat([]byte("a\n"), 1<<19))
	if !errors.Is(err, os.ErrDeadlineExceeded) || n == 0 {
		t.Fatalf("write %d, %v; want a deadline", n, err)
	}
	if c := p.Counts(); c.Received != 100 || c.Waiting != 100 || c.Dropped != 0 {
		t.Errorf("counts %+v", c)
	}
	p.Set(func(s *State) { s.Stalled = false })
	d.send(cutAll)
	if got := len(next(t, p).Lines); got != (n+1)/2 {
		t.Errorf("%d lines of %d bytes", got, n)
	}
}

func TestPrinterWithoutFlowControlDropsBytes(t *testing.T) {
	p, d := printerFor(t, PrinterOptions{Buffer: 16, DropWhenFull: true, Start: State{Stalled: true}})
	d.send(strings.Repeat("x", 50) + "\x10\x04\x01")
	d.want("\x12") // obeyed though there is no room for it
	if c := p.Counts(); c.Dropped != 37 || c.Waiting != 16 {
		t.Errorf("counts %+v", c)
	}
}

func TestPrinterHangsUpInMidJob(t *testing.T) {
	p, d := printerFor(t, PrinterOptions{HangUpAfter: 8})
	d.send("12345\n789 never\n")
	until(t, p, "8 bytes", func() bool { return p.received == 8 })
	if err := d.f.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if n, err := d.f.Read(make([]byte, 8)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read %d, %v; want a hang-up", n, err)
	}
	if err := p.Replug(); err != nil {
		t.Fatal(err)
	}
	d = open(t, p.Path())
	d.send("\n" + cutAll)
	if got := next(t, p).Text(); got != "12345\n78\n" {
		t.Errorf("paper %q", got)
	}
}

func TestPrinterOneWayAnswersNothing(t *testing.T) {
	p, d := printerFor(t, PrinterOptions{Start: State{OneWay: true}})
	d.send("\x10\x04\x01x\n\x1dr\x01\x1d(H\x06\x00000001\x1da\x0f\x1dI\x43" + cutAll)
	next(t, p)
	d.silent()
}

func TestPrinterIdentifiesItself(t *testing.T) {
	_, d := printerFor(t, PrinterOptions{})
	d.send("\x1dI\x42\x1dI\x01\x1dr\x02")
	d.want("_EPSON\x00\x20\x00")
}

func TestPrinterKicksDrawerByEveryCommand(t *testing.T) {
	p, d := printerFor(t, PrinterOptions{Start: State{PaperEnd: true}})
	d.send("\x1bp\x00\x32\x32\x10\x14\x01\x01\x02")
	until(t, p, "real-time pulse", func() bool { return len(p.pulses) == 1 })
	if k := p.Pulses()[0]; k.Pin != 1 || k.On != 200*time.Millisecond || !k.RealTime {
		t.Errorf("pulse %+v", k)
	}
	p.LoadPaper(0)
	until(t, p, "queued pulse", func() bool { return len(p.pulses) == 2 })
	if k := p.Pulses()[1]; k.Pin != 0 || k.On != 100*time.Millisecond || k.Off != 100*time.Millisecond || k.RealTime {
		t.Errorf("pulse %+v", k)
	}
}

func TestPrinterObeysPulseInsideImageUnlessDisabled(t *testing.T) {
	const off = "\x1d(D\x03\x00\x14\x01\x00"
	image := "\x1dv0\x00\x05\x00\x01\x00\x10\x14\x01\x00\x01"
	p, d := printerFor(t, PrinterOptions{})
	d.send(image + cutAll)
	next(t, p)
	if len(p.Pulses()) != 1 {
		t.Errorf("%d pulses, want 1: real printers obey it", len(p.Pulses()))
	}
	d.send("\x1b@" + off + image + cutAll)
	next(t, p)
	if len(p.Pulses()) != 1 {
		t.Errorf("%d pulses, want 1: GS ( D switched them off", len(p.Pulses()))
	}
	d.send("\x1b@" + image + cutAll)
	next(t, p)
	if len(p.Pulses()) != 2 {
		t.Errorf("%d pulses, want 2: ESC @ switched them on again", len(p.Pulses()))
	}
	noErrors(t, p)
}

func TestPrinterFindsStatusRequestAfterAFalseStart(t *testing.T) {
	_, d := printerFor(t, PrinterOptions{})
	for _, sent := range []string{"\x10\x10\x04\x01", "\x10\x14\x08\x01\x10\x04\x01", "\x1b\x10\x04\x01", "\x1d(D\x10\x04\x01"} {
		d.send(sent)
		d.want("\x12")
	}
}

func TestPrinterClonesMisbehaveOnRequest(t *testing.T) {
	p, d := printerFor(t, PrinterOptions{NoQR: true, NoProcessID: true, PageLostOnFont: true, Chinese: true})
	d.send("\x82\x82\x1c.\x1bt\x13\xd5\x1bM\x01\x82\n\x1d(k\x06\x001P0abc\n\x1d(H\x06\x00000001" + cutAll)
	if got := next(t, p).Text(); got != "\uFFFD€é\n0abc\n" {
		t.Errorf("paper %q", got)
	}
	if len(p.Errors()) != 2 {
		t.Errorf("errors %v", p.Errors())
	}
	d.silent()
}

func TestPrinterPowerCycleLosesBufferAndModes(t *testing.T) {
	p, d := printerFor(t, PrinterOptions{})
	d.send("\x1bE\x01kept\n")
	until(t, p, "a line", func() bool { return len(p.lines) == 1 && len(p.buf) == 0 })
	p.Set(func(s *State) { s.Stalled = true })
	d.send("lost\n\x10\x04\x01")
	d.want("\x12")
	p.PowerCycle()
	p.Set(func(s *State) { s.Stalled = false })
	d.send("plain\n" + cutAll)
	s := next(t, p)
	if s.Text() != "kept\nplain\n" || !s.Lines[0].Runs[0].Bold || s.Lines[1].Runs[0].Bold {
		t.Errorf("paper %+v", s.Lines)
	}
}

func TestPrinterNextEndsWithItsContext(t *testing.T) {
	p, _ := printerFor(t, PrinterOptions{})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { _, err := p.Next(ctx); done <- err }()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("next: %v", err)
	}
	go func() { _, err := p.Next(t.Context()); done <- err }()
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err == nil {
		t.Error("next: no error after Close")
	}
}

func TestPrinterClosesInEveryState(t *testing.T) {
	for name, opt := range map[string]PrinterOptions{
		"stalled and full": {Buffer: 4, Start: State{Stalled: true}},
		"paper end":        {Start: State{PaperEnd: true}},
		"slow":             {LineDelay: time.Hour},
		"cutter":           {Start: State{CutterJam: true}},
	} {
		t.Run(name, func(t *testing.T) {
			p, d := printerFor(t, opt)
			d.send("x\n" + cutAll + "y\n")
			until(t, p, "bytes", func() bool { return p.received >= 4 })
			if err := p.Close(); err != nil {
				t.Error(err)
			}
			if err := p.Replug(); !errors.Is(err, os.ErrClosed) {
				t.Errorf("replug after close: %v", err)
			}
		})
	}
}

func TestPrinterPrintsOnWhileHandsAreBusyWithIt(t *testing.T) {
	p, err := NewPrinter(filepath.Join(t.TempDir(), "printer"), PrinterOptions{Buffer: 64})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	var hands sync.WaitGroup
	for range 4 {
		hands.Go(func() {
			for range 25 {
				p.Set(func(s *State) { s.CoverOpen = !s.CoverOpen })
				p.PowerCycle()
				if err := errors.Join(p.Unplug(), p.Replug()); err != nil {
					t.Error(err)
				}
				_, _, _, _ = p.Text(), p.Pulses(), p.Errors(), p.Counts()
			}
		})
	}
	hands.Wait()
	p.Set(func(s *State) { s.CoverOpen = false })
	if err := p.Replug(); err != nil {
		t.Fatal(err)
	}
	open(t, p.Path()).send("still here\n" + cutAll)
	if got := next(t, p).Text(); got != "still here\n" {
		t.Errorf("paper %q", got)
	}
}

func TestScannerLinkVanishesAndReturns(t *testing.T) {
	link := filepath.Join(t.TempDir(), "by-id", "usb-scanner")
	s, err := NewScanner(link)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	d := open(t, link)
	if err := s.Scan("12345"); err != nil {
		t.Fatal(err)
	}
	d.want("12345\r")
	if err := s.Unplug(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(link); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("link after unplug: %v", err)
	}
	if err := s.Scan("1"); !errors.Is(err, ErrUnplugged) {
		t.Errorf("scan while unplugged: %v", err)
	}
	if err := s.Replug(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	d = open(t, link)
	if err := s.WaitOpen(ctx); err != nil {
		t.Fatal(err)
	}
	if err := s.Send([]byte{0, 0x1D, 0xFF, '\n'}); err != nil {
		t.Fatal(err)
	}
	d.want("\x00\x1d\xff\n")
}

func TestScannerWaitOpenNeedsAnOpenPort(t *testing.T) {
	s, err := NewScanner("")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 4*idleLine)
	defer cancel()
	if err := s.WaitOpen(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("nobody has it open: %v", err)
	}
}

func TestLinkNeverReplacesAFile(t *testing.T) {
	link := filepath.Join(t.TempDir(), "ticket.txt")
	if err := os.WriteFile(link, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err := NewScanner(link); err == nil {
		s.Close()
		t.Fatal("made a link over a file")
	}
	if b, err := os.ReadFile(link); err != nil || string(b) != "precious" {
		t.Errorf("file is now %q, %v", b, err)
	}
	stale := filepath.Join(t.TempDir(), "stale")
	if err := os.Symlink("/nowhere", stale); err != nil {
		t.Fatal(err)
	}
	s, err := NewScanner(stale)
	if err != nil {
		t.Fatalf("stale link of a killed run: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// FuzzPrinterSurvivesAnyBytes feeds the mechanism without a pty: no stream may
// stop it, and the slip after a reset is right whatever came before.
func FuzzPrinterSurvivesAnyBytes(f *testing.F) {
	f.Add([]byte("\x1b@\x1bt\x13Gagn\x82 20 \xd5\n\x1dV\x42\x00"))
	f.Add([]byte("\x1d(k\x03\x001Q0\x1dv0\x00\xff\xff\xff\xff"))
	f.Add([]byte("\x10\x14\x08\x01\x03\x14\x01\x06\x02\x08\x10\x05\x02"))
	f.Add([]byte("\x1d(k\x02\x001P")) // a store without its parameter
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := NewPrinter("", PrinterOptions{Buffer: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		p.take(b)
		until(t, p, "buffer consumed", func() bool { return len(p.buf) == 0 })
		p.PowerCycle()
		before := len(p.Slips())
		p.Uncut()
		p.take([]byte("\x1b@end\n" + cutAll))
		until(t, p, "last slip", func() bool { return len(p.slips) > before })
		lines := p.Slips()[before].Lines
		if got := lines[len(lines)-1].Text(); got != "end" {
			t.Fatalf("last line %q", got)
		}
	})
}
