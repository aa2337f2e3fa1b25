package sim

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// bench is both devices with a driver at each, under a script's hands.
type bench struct {
	*Devices
	t              *testing.T
	glass, printer driver
}

func newBench(t *testing.T) *bench {
	t.Helper()
	glass, err := NewScanner("")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { glass.Close() })
	paper, d := printerFor(t, PrinterOptions{})
	return &bench{&Devices{Scanner: glass, Printer: paper}, t, open(t, glass.Path()), d}
}

// do plays lines as a script.
func (b *bench) do(lines ...string) {
	b.t.Helper()
	if err := script(b.t, strings.Join(lines, "\n")).Play(b.t.Context(), Stage{Hands: b.Devices}); err != nil {
		b.t.Fatal(err)
	}
}

func TestScannerPlaysEachTrickOnceAndThenScansWell(t *testing.T) {
	for act, want := range map[string]string{
		"split 2 1ms":             "12345\r",
		"twice":                   "12345\r12345\r",
		"repeat 2 1ms":            "12345\r12345\r12345\r",
		"truncate 3":              "123",
		"lose 2":                  "1345\r",
		"lose 7":                  "1345\r", // counts on from the beginning
		"misread 5":               "12346\r",
		"damage 1":                "\x002345\r",
		"7e1":                     "\xb1\xb23\xb45\x8d",
		"damage 2\nmisread 1":     "2\x00345\r",
		"suffix crlf":             "12345\r\n",
		"suffix none":             "12345",
		"suffix tab\nprefix 5D64": "]d12345\t",
		"garbage 3":               "\xa4\x85\x3b12345\r", // of seed 0
	} {
		t.Run(act, func(t *testing.T) {
			b := newBench(t)
			b.do(act, "scan 12345")
			b.glass.want(want)
			if strings.HasPrefix(act, "suffix") {
				return // stays as it is set
			}
			b.do("scan raw 0D", "scan 678")
			b.glass.want("\r678\r")
		})
	}
}

func TestScannerCutOffLosesItsCableInTheScan(t *testing.T) {
	b := newBench(t)
	b.do("cut-off 3", "scan 12345")
	if b.Scanner.Plugged() {
		t.Fatal("the cable is still in")
	}
	err := script(t, "wait 1ms\nscan 1").Play(t.Context(), Stage{Hands: b.Devices})
	if !errors.Is(err, ErrUnplugged) || !strings.Contains(err.Error(), ":2:") {
		t.Errorf("scan without a cable: %v", err)
	}
	b.do("scanner replug")
	d := open(t, b.Scanner.Path())
	b.do("scan 678")
	d.want("678\r")
}

func TestLinkAppearsLateAndNotAfterUnplug(t *testing.T) {
	link := filepath.Join(t.TempDir(), "by-id")
	s, err := NewScanner(link)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	there := func() bool { _, err := os.Lstat(link); return err == nil }
	s.SetLinkDelay(20 * time.Millisecond)
	for range 2 {
		if err := errors.Join(s.Unplug(), s.Replug()); err != nil {
			t.Fatal(err)
		}
	}
	if there() {
		t.Error("the link is not late")
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !there() {
		select {
		case <-ctx.Done():
			t.Fatal("the link never came")
		case <-tick.C:
		}
	}
	s.SetLinkDelay(time.Hour)
	if err := errors.Join(s.Unplug(), s.Replug(), s.Close()); err != nil || there() {
		t.Errorf("after close: %v, link %v", err, there())
	}
}

func TestPrinterSwitchedOffLosesWhatItIsSent(t *testing.T) {
	b := newBench(t)
	b.do("stall")
	b.printer.send("buffered\n")
	until(t, b.Printer, "bytes", func() bool { return b.Printer.received == 9 })
	b.do("silent", "go")
	b.printer.send("lost\n" + cutAll + "\x10\x04\x01")
	until(t, b.Printer, "lost bytes", func() bool { return b.Printer.dropped == 5+len(cutAll)+3 })
	b.do("printer on")
	b.printer.send("kept\n" + cutAll)
	b.do("wait slip")
	if got := b.Printer.Text(); !strings.HasPrefix(got, "kept\n") {
		t.Errorf("paper %q", got)
	}
	b.printer.silent()
}

func TestPrinterNamesHeatAndBreakage(t *testing.T) {
	b := newBench(t)
	for _, c := range []struct{ act, answers string }{
		{"head hot", "\x1a\x52\x52"}, {"head cool", "\x12\x12\x12"}, {"broken", "\x1a\x52\x32"}, {"power cycle", "\x12\x12\x12"},
	} {
		b.do(c.act)
		for n, want := range c.answers {
			b.printer.send("\x10\x04" + string(rune(n+1)))
			b.printer.want(string(want))
		}
	}
}

func TestPrinterSpoilsAnswersAndGivesItsProofLate(t *testing.T) {
	b := newBench(t)
	b.do("answer garbage 1")
	b.printer.send("\x10\x04\x01")
	b.printer.want("\x68") // noise of seed 0
	b.printer.send("\x10\x04\x01")
	b.printer.want("\x12")
	b.do("late id 30ms")
	sent := time.Now()
	b.printer.send("\x1d(H\x06\x00000001")
	b.printer.want("\x37\x220001\x00")
	if d := time.Since(sent); d < 30*time.Millisecond {
		t.Errorf("the id came after %v", d)
	}
	b.do("say 1311")
	b.printer.want("\x13\x11")
}

func TestPrinterOnASlowLineTakesItsTime(t *testing.T) {
	b := newBench(t)
	b.do("slow 9600", "buffer 45 drop")
	began := time.Now()
	b.printer.send(strings.Repeat("x", 95) + "\n" + cutAll)
	b.do("wait slip")
	if d := time.Since(began); d < 90*time.Millisecond { // 100 bytes at 960 a second
		t.Errorf("100 bytes at 9600 bit/s took %v", d)
	}
	if n := b.Printer.Counts().Dropped; n != 0 {
		t.Errorf("%d bytes dropped, though the line is slower than the printer", n)
	}
	b.do("slow 0", "stall")
	b.printer.send(strings.Repeat("x", 50))
	until(t, b.Printer, "drops", func() bool { return b.Printer.dropped == 5 })
}

func TestDaemonActsNeedADaemon(t *testing.T) {
	b := newBench(t)
	err := script(t, "daemon kill").Play(t.Context(), Stage{Hands: b.Devices})
	if !errors.Is(err, ErrNoDaemon) {
		t.Errorf("kill: %v", err)
	}
	var done []string
	b.Daemon = func(_ context.Context, what, step string) error { done = append(done, what+" "+step); return nil }
	b.do("daemon kill at sent:2", "daemon start")
	if strings.Join(done, ",") != "kill at sent:2,start " {
		t.Errorf("%q", done)
	}
}
