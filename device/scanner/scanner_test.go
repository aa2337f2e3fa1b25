package scanner

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.bug.st/serial"

	"grattoir/device/sim"
)

const patience = 10 * time.Second

// running is a Scanner in its goroutine with what came out of it.
type running struct {
	t      *testing.T
	scans  chan Scan
	states chan State
	cancel context.CancelFunc
	done   chan error
	log    *syncBuffer
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func run(t *testing.T, s *Scanner, log *syncBuffer) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r := &running{t: t, scans: make(chan Scan, 1024), states: make(chan State, 1024), cancel: cancel, done: make(chan error, 1), log: log}
	go func() {
		r.done <- s.Run(ctx, func(s Scan) { r.scans <- s }, func(s State) { r.states <- s })
	}()
	return r
}

func listen(t *testing.T, cfg Config) *running {
	t.Helper()
	log := &syncBuffer{}
	r := run(t, New(cfg, slog.New(slog.NewTextHandler(log, nil))), log)
	t.Cleanup(r.stop)
	return r
}

func (r *running) stop() {
	r.cancel()
	select {
	case err, ok := <-r.done:
		if ok && err != nil {
			r.t.Errorf("run: %v", err)
		}
		if ok {
			close(r.done)
		}
	case <-time.After(patience):
		r.t.Error("Run did not return")
	}
}

func (r *running) wantScan(text string) Scan {
	r.t.Helper()
	select {
	case s := <-r.scans:
		if s.Text != text {
			r.t.Fatalf("scan %q, want %q", s.Text, text)
		}
		return s
	case <-time.After(patience):
		r.t.Fatalf("no scan; want %q", text)
		return Scan{}
	}
}

// wantState takes the next state and checks its status and fault code.
func (r *running) wantState(status Status, code string) State {
	r.t.Helper()
	select {
	case s := <-r.states:
		got := ""
		if s.Fault != nil {
			got = s.Fault.Code
		}
		if s.Status != status || got != code {
			r.t.Fatalf("state %s %s (%v), want %s %s", s.Status, got, s.Fault, status, code)
		}
		return s
	case <-time.After(patience):
		r.t.Fatalf("no state; want %s %s", status, code)
		return State{}
	}
}

func plugged(t *testing.T) (*sim.Scanner, string) {
	t.Helper()
	link := filepath.Join(t.TempDir(), "by-id", "usb-scanner")
	dev, err := sim.NewScanner(link)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := dev.Close(); err != nil {
			t.Error(err)
		}
	})
	return dev, link
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestScannerDeliversScansAndNeverLogsThem(t *testing.T) {
	dev, link := plugged(t)
	r := listen(t, Config{Path: link})
	r.wantState(Connected, "")
	must(t, dev.Scan("]d1123456789012"))
	if s := r.wantScan("123456789012"); s.AIM != "]d1" || s.At.IsZero() {
		t.Errorf("scan %+v", s)
	}
	must(t, dev.Send([]byte("1111\r2222\r\n33")))
	must(t, dev.Send([]byte("33\n")))
	r.wantScan("1111")
	r.wantScan("2222")
	r.wantScan("3333")
	must(t, dev.Send([]byte("444455556666")))
	r.wantState(Faulty, CodeNoSuffix)
	must(t, dev.Scan("7777"))
	r.wantState(Connected, "")
	r.wantScan("7777")
	r.stop()
	for _, secret := range []string{"1234", "1111", "4444", "7777"} {
		if strings.Contains(r.log.String(), secret) {
			t.Errorf("the log holds a code:\n%s", r.log)
		}
	}
	if len(dev.Commands()) != 0 {
		t.Errorf("sent to the scanner: % X", dev.Commands())
	}
}

func TestScannerDropsStaleBytesAtOpen(t *testing.T) {
	dev, link := plugged(t)
	must(t, dev.Scan("0000STALE"))
	r := listen(t, Config{Path: link})
	if s := r.wantState(Connected, ""); s.Stale != len("0000STALE\r") {
		t.Errorf("%d stale bytes counted, want 10", s.Stale)
	}
	must(t, dev.Scan("1234"))
	r.wantScan("1234")
}

func TestScannerDropsStaleBytesAtReopen(t *testing.T) {
	dev, err := sim.NewScanner("")
	must(t, err)
	defer dev.Close()
	link := filepath.Join(t.TempDir(), "usb-scanner")
	must(t, os.Symlink(dev.Path(), link))
	r := listen(t, Config{Path: link})
	r.wantState(Connected, "")
	must(t, dev.Send([]byte("12345"))) // cut off in mid-record
	must(t, os.Remove(link))
	must(t, dev.Unplug())
	r.wantState(Missing, CodeMissing)
	must(t, dev.Replug())
	must(t, dev.Send([]byte("678\r"))) // nobody listens: the link is not back
	must(t, os.Symlink(dev.Path(), link))
	if s := r.wantState(Connected, ""); s.Stale != 4 {
		t.Errorf("%d stale bytes, want 4", s.Stale)
	}
	must(t, dev.Scan("4321"))
	r.wantScan("4321")
}

// TestScannerReconnectsThroughALinkThatVanishes: folie#31, where only the next write
// noticed the unplug, and the number had changed on re-plug.
func TestScannerReconnectsThroughALinkThatVanishes(t *testing.T) {
	dev, link := plugged(t)
	must(t, dev.Unplug())
	r := listen(t, Config{Path: link})
	r.wantState(Missing, CodeMissing)
	for i, code := range []string{"1111", "2222", "3333"} {
		must(t, dev.Replug())
		if s := r.wantState(Connected, ""); s.Path != link {
			t.Errorf("path %s", s.Path)
		}
		must(t, dev.Scan(code))
		r.wantScan(code)
		if i == 2 {
			break // a third quick loss would be named as unstable
		}
		must(t, dev.Unplug())
		lost := time.Now()
		r.wantState(Missing, CodeMissing)
		if d := time.Since(lost); d > time.Second {
			t.Errorf("loss noticed after %v", d)
		}
	}
}

// TestScannerNamesAPortThatComesAndGoes: ubuntu-rockchip#621, brltty takes the adapter
// half a second after it appeared.
func TestScannerNamesAPortThatComesAndGoes(t *testing.T) {
	dev, link := plugged(t)
	r := listen(t, Config{Path: link})
	for range unstable - 1 {
		r.wantState(Connected, "")
		must(t, dev.Unplug())
		r.wantState(Missing, CodeMissing)
		must(t, dev.Replug())
	}
	r.wantState(Connected, "")
	must(t, dev.Unplug())
	s := r.wantState(Faulty, CodeUnstable)
	if !strings.Contains(s.Fault.Technician, "brltty") {
		t.Errorf("advice %q", s.Fault.Technician)
	}
	must(t, dev.Replug())
	r.wantState(Connected, "") // once it has stayed
	must(t, dev.Scan("1234"))
	r.wantScan("1234")
}

// TestScannerKeepsThePortThroughAnEndlessRecord: go-serial#189, where a read into a full
// buffer looked like an unplug.
func TestScannerKeepsThePortThroughAnEndlessRecord(t *testing.T) {
	dev, link := plugged(t)
	r := listen(t, Config{Path: link})
	r.wantState(Connected, "")
	must(t, dev.Send(bytes.Repeat([]byte("7"), 2500)))
	r.wantState(Faulty, CodeGarbage)
	must(t, dev.Scan("999")) // its end mark ends the endless one
	must(t, dev.Scan("1234"))
	r.wantState(Connected, "")
	r.wantScan("1234")
}

func TestScannerStopsWhileReading(t *testing.T) {
	_, link := plugged(t)
	r := listen(t, Config{Path: link})
	r.wantState(Connected, "")
	r.cancel()
	select {
	case err := <-r.done:
		close(r.done)
		if err != nil {
			t.Errorf("run: %v", err)
		}
	case <-time.After(time.Second):
		t.Error("Run did not stop within a second")
	}
}

func TestScannerRefusesAnImpossibleConfiguration(t *testing.T) {
	for _, cfg := range []Config{
		{}, {Path: "x", Baud: 1}, {Path: "x", Parity: "mark"}, {Path: "x", DataBits: 9},
		{Path: "x", Idle: time.Millisecond}, {Path: "x", Idle: time.Minute}, {Path: "x", SameCode: -1},
		{Path: "x", Suffix: "crlf"}, {Path: "x", Suffix: SuffixNone}, {Path: "x", Suffix: SuffixNone, Layouts: shippedLayouts, Idle: 50 * ms}, {Path: "x", Prefix: "\r"}, {Path: "x", Prefix: strings.Repeat("p", 17)},
	} {
		if err := New(cfg, slog.New(slog.DiscardHandler)).Run(t.Context(), nil, nil); err == nil {
			t.Errorf("%+v accepted", cfg)
		}
	}
}

func TestScannerNamesWhatIsNoSerialPort(t *testing.T) {
	for path, code := range map[string]string{"/dev/null": CodePort, t.TempDir(): CodePort, "/dev/serial/by-id/none": CodeMissing} {
		r := listen(t, Config{Path: path})
		select {
		case s := <-r.states:
			if s.Fault == nil || s.Fault.Code != code {
				t.Errorf("%s: %v, want %s", path, s.Fault, code)
			}
		case <-time.After(patience):
			t.Errorf("%s: no state", path)
		}
		r.stop()
	}
}

// TestScannerNamesBusyAndForbidden: rusefi#4359, ModemManager holds a new port for some
// seconds; RPi-Distro/repo#22, a login prompt holds the UART. It runs as another user,
// since nothing is busy or forbidden for root.
func TestScannerNamesBusyAndForbidden(t *testing.T) {
	if os.Getenv("SCANNER_TEST_UNPRIVILEGED") == "1" {
		unprivileged(t)
		return
	}
	dev, err := sim.NewScanner("")
	must(t, err)
	defer dev.Close()
	holder, err := serial.Open(dev.Path(), &serial.Mode{BaudRate: 9600})
	must(t, err)
	defer holder.Close()
	must(t, os.Chmod(dev.Path(), 0o666))
	forbidden, err := sim.NewScanner("")
	must(t, err)
	defer forbidden.Close()
	must(t, os.Chmod(forbidden.Path(), 0o060))

	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestScannerNamesBusyAndForbidden$", "-test.v")
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), "SCANNER_TEST_UNPRIVILEGED=1", "BUSY="+dev.Path(), "FORBIDDEN="+forbidden.Path(), "TMPDIR=/")
	in, err := cmd.StdinPipe()
	must(t, err)
	var out syncBuffer
	released := &lineWatch{text: "BUSY SEEN", do: func() {
		holder.Close() // then it must recover by itself
	}}
	cmd.Stdout, cmd.Stderr = teeWriter{&out, released}, &out
	err = cmd.Run()
	in.Close()
	if err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	if !strings.Contains(out.String(), "BUSY SEEN") {
		t.Errorf("the other user did not see the port busy:\n%s", out.String())
	}
}

// unprivileged is the part that runs as nobody.
func unprivileged(t *testing.T) {
	if os.Getuid() == 0 {
		const nobody = 65534
		must(t, syscall.Setgroups(nil))
		must(t, syscall.Setgid(nobody))
		must(t, syscall.Setuid(nobody))
	}
	r := listen(t, Config{Path: os.Getenv("FORBIDDEN")})
	if s := r.wantState(Faulty, CodePermission); !strings.Contains(s.Fault.Technician, "group ") {
		t.Errorf("advice names no group: %s", s.Fault.Technician)
	}
	r.stop()
	r = listen(t, Config{Path: os.Getenv("BUSY")})
	r.wantState(Faulty, CodeBusy)
	os.Stdout.WriteString("BUSY SEEN\n")
	r.wantState(Connected, "")
}

type lineWatch struct {
	text string
	do   func()
	once sync.Once
}

type teeWriter struct {
	out   *syncBuffer
	watch *lineWatch
}

func (w teeWriter) Write(p []byte) (int, error) {
	n, err := w.out.Write(p)
	if strings.Contains(w.out.String(), w.watch.text) {
		w.watch.once.Do(w.watch.do)
	}
	return n, err
}

// fakePort is a serial port with a script; it lives in a synctest bubble.
type fakePort struct {
	timeout time.Duration
	read    func(p *fakePort, b []byte) (int, error)
	reads   int
	written []byte
	stuck   bool
	closed  bool
}

func (p *fakePort) Read(b []byte) (int, error) {
	p.reads++
	return p.read(p, b)
}
func (p *fakePort) Write(b []byte, deadline time.Time) (int, error) {
	if p.stuck {
		time.Sleep(time.Until(deadline)) // fake time: inside a bubble
		return 0, os.ErrDeadlineExceeded
	}
	p.written = append(p.written, b...)
	return len(b), nil
}
func (p *fakePort) Drain(time.Time)                      {}
func (p *fakePort) SetReadTimeout(t time.Duration) error { p.timeout = t; return nil }
func (p *fakePort) Close() error                         { p.closed = true; return nil }

// quiet waits for the time-out, as a real port does.
func quiet(p *fakePort, _ []byte) (int, error) {
	time.Sleep(p.timeout) // fake time: inside a bubble
	return 0, nil
}

// inBubble runs a Scanner on fake ports and fake time for d and returns it stopped.
func inBubble(t *testing.T, d time.Duration, open func(n int) (port, error)) (states []State, scans []Scan) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := New(Config{Path: "/nowhere/scanner"}, slog.New(slog.DiscardHandler))
		n := 0
		s.open = func(string, *serial.Mode) (port, error) { n++; return open(n) }
		ctx, cancel := context.WithTimeout(t.Context(), d)
		defer cancel()
		if err := s.Run(ctx, func(s Scan) { scans = append(scans, s) }, func(s State) { states = append(states, s) }); err != nil {
			t.Error(err)
		}
	})
	return states, scans
}

func TestScannerBacksOffAndReportsAMissingPortOnce(t *testing.T) {
	opens := 0
	states, _ := inBubble(t, time.Minute, func(n int) (port, error) { opens = n; return nil, fs.ErrNotExist })
	if len(states) != 1 || states[0].Status != Missing {
		t.Errorf("states %+v", states)
	}
	// 0.25 + 0.5 + 1 + 2 + 4 s, then every 5 s and a quarter at most.
	if opens < 13 || opens > 18 {
		t.Errorf("%d tries in a minute, want about 15", opens)
	}
}

func TestScannerOpensAReturningPortWithoutWaitingOutTheBackOff(t *testing.T) {
	path := filepath.Join(t.TempDir(), "usb-scanner")
	synctest.Test(t, func(t *testing.T) {
		s := New(Config{Path: path}, slog.New(slog.DiscardHandler))
		s.open = func(string, *serial.Mode) (port, error) {
			if !exists(path) {
				return nil, fs.ErrNotExist
			}
			return &fakePort{read: quiet}, nil
		}
		ctx, cancel := context.WithCancel(t.Context())
		var back, connected time.Time
		plug := time.AfterFunc(time.Minute, func() { // the back-off is at its longest
			back = time.Now()
			must(t, os.WriteFile(path, nil, 0o600))
		})
		defer plug.Stop()
		must(t, s.Run(ctx, nil, func(s State) {
			if s.Status == Connected {
				connected = time.Now()
				cancel()
			}
		}))
		if d := connected.Sub(back); d < 0 || d > lookAgain+readTimeout {
			t.Errorf("connected %v after it came back", d)
		}
	})
}

func TestScannerDoesNotSpinOnAPortThatReturnsAtOnce(t *testing.T) {
	var p *fakePort
	ports := 0
	states, _ := inBubble(t, 10*time.Second, func(n int) (port, error) {
		ports = n
		p = &fakePort{read: func(*fakePort, []byte) (int, error) { return 0, nil }}
		return p, nil
	})
	if !p.closed || p.reads > emptyReads+1 {
		t.Errorf("closed %v after %d reads", p.closed, p.reads)
	}
	if ports > 8 || states[len(states)-1].Status == Connected {
		t.Errorf("%d opens in 10 s, states %+v", ports, states)
	}
}

// TestScannerReadsADescriptorAbove1023 is the trap of select's fixed table, on which
// the serial library's own Read panics.
func TestScannerReadsADescriptorAbove1023(t *testing.T) {
	var limit syscall.Rlimit
	must(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	if limit.Cur < 1200 {
		t.Skipf("SKIPPED: only %d descriptors allowed here", limit.Cur)
	}
	for range 1040 {
		f, err := os.Open(os.DevNull)
		must(t, err)
		defer f.Close()
	}
	dev, link := plugged(t)
	r := listen(t, Config{Path: link})
	r.wantState(Connected, "")
	must(t, dev.Scan("1234"))
	r.wantScan("1234")
	r.stop()
}

func TestScannerPassesOverARecordAlreadyUnderWayOnABusyLine(t *testing.T) {
	sent := 0
	p := &fakePort{read: func(p *fakePort, b []byte) (int, error) {
		time.Sleep(50 * time.Millisecond) // fake time: inside a bubble
		sent++
		switch {
		case sent < 25: // more than a second without silence
			return copy(b, "99"), nil
		case sent == 25:
			return copy(b, "tail\r1234\r"), nil
		}
		return quiet(p, b)
	}}
	states, scans := inBubble(t, 3*time.Second, func(int) (port, error) { return p, nil })
	if len(scans) != 1 || scans[0].Text != "1234" {
		t.Errorf("scans %+v", scans)
	}
	if len(states) != 1 || states[0].Status != Connected || states[0].Stale == 0 {
		t.Errorf("states %+v", states)
	}
}

func TestScannerTakesAnErrorOfTheLineForALoss(t *testing.T) {
	states, _ := inBubble(t, 3*time.Second, func(n int) (port, error) {
		if n > 1 {
			return nil, errors.New("gone")
		}
		return &fakePort{read: func(p *fakePort, b []byte) (int, error) {
			if p.reads > 20 {
				return 0, syscall.EIO
			}
			return quiet(p, b)
		}}, nil
	})
	if len(states) != 3 || states[0].Status != Connected || states[1].Status != Missing || !errors.Is(states[1].Fault, syscall.EIO) || states[2].Fault.Code != CodePort {
		t.Errorf("states %+v", states)
	}
}
