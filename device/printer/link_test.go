package printer

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// peer is the bare far end of a line: it keeps what it gets and says what the test
// wants. Where answers are wanted by rule, device/sim is the better printer.
type peer struct {
	t      *testing.T
	master *os.File
	path   string

	mu      sync.Mutex
	got     []byte
	changed chan struct{}
}

func newPeer(t *testing.T) *peer {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	p := &peer{t: t, master: master, changed: make(chan struct{})}
	raw, err := master.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var failed error
	if err := raw.Control(func(fd uintptr) {
		n, err := unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
		failed = errors.Join(err, unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0))
		p.path = "/dev/pts/" + strconv.Itoa(n)
	}); err != nil || failed != nil {
		t.Fatal(err, failed)
	}
	t.Cleanup(func() { _ = master.Close() })
	return p
}

// open opens the near end and only then starts to listen: a master read with no
// slave open fails.
func (p *peer) open() *Port {
	p.t.Helper()
	port, err := OpenPort(p.path, 115200, NoFlow)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = port.Close() })
	go p.listen(func([]byte) {})
	return port
}

// answering is a far end whose near end stays open, so that it answers from the first
// byte on, whoever comes and goes: heed is shown each read.
func answering(t *testing.T, heed func(p *peer, b []byte)) *peer {
	t.Helper()
	p := newPeer(t)
	hold, err := OpenPort(p.path, 115200, NoFlow)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = hold.Close() })
	go p.listen(func(b []byte) { heed(p, b) })
	return p
}

// listen keeps what comes until the line ends; each read is shown to heed first.
func (p *peer) listen(heed func([]byte)) {
	buf := make([]byte, 512)
	for {
		n, err := p.master.Read(buf)
		if err != nil {
			return
		}
		heed(buf[:n])
		p.mu.Lock()
		p.got = append(p.got, buf[:n]...)
		close(p.changed)
		p.changed = make(chan struct{})
		p.mu.Unlock()
	}
}

// say answers; a listener may still answer when the test has ended.
func (p *peer) say(b ...byte) {
	p.t.Helper()
	if _, err := p.master.Write(b); err != nil && !errors.Is(err, os.ErrClosed) {
		p.t.Error(err)
	}
}

// until waits until what came ends with want.
func (p *peer) until(want []byte) {
	p.t.Helper()
	if !p.within(20*time.Second, want) {
		p.t.Fatalf("what came never ends with % x", want)
	}
}

// within says whether what comes ends with want before the time is over.
func (p *peer) within(d time.Duration, want []byte) bool {
	over := time.After(d)
	for {
		p.mu.Lock()
		got, changed := bytes.Clone(p.got), p.changed
		p.mu.Unlock()
		if bytes.HasSuffix(got, want) {
			return true
		}
		select {
		case <-changed:
		case <-over:
			return false
		}
	}
}

func TestLateAnswerIsNotTakenForTheNextQuestion(t *testing.T) {
	p := newPeer(t)
	l := newLink(p.open())
	if err := l.ask(t.Context(), 1, 20*time.Millisecond); !errors.Is(err, errNoAnswer) {
		t.Fatal(err)
	}
	p.until(statusRequest(1))
	next := make(chan error, 1)
	go func() { next <- l.ask(t.Context(), 2, 10*time.Second) }()
	if p.within(100*time.Millisecond, statusRequest(2)) {
		t.Error("asked question 2 while an answer to question 1 was due")
	}
	p.say(0x16) // for question 1: drawer. For question 2 it would be an open cover
	p.until(statusRequest(2))
	p.say(0x12)
	if err := <-next; err != nil {
		t.Fatal(err)
	}
	if f := l.fault(); f != nil {
		t.Errorf("got fault %s", f.Code)
	}
}

func TestUnaskedAnswersChangeNothing(t *testing.T) {
	p := newPeer(t)
	l := newLink(p.open())
	p.say(0x7e, 0x36)          // looks like paper end and cover open, and nobody asked
	p.say(0x18, 0, 0x13, 0, 0) // offline, as automatic status: nobody needs to ask for that
	if !l.await(t.Context(), 20*time.Second, func() bool { return l.stopped && l.sensors.offline }) {
		t.Fatal("automatic status not seen")
	}
	if f := l.fault(); f == nil || f.Code != "P7" {
		t.Errorf("got fault %v, want P7", f)
	}
}

// TestXOFFStopsTheJobUntilXON has a printer with software flow control that also
// talks all the time.
func TestXOFFStopsTheJobUntilXON(t *testing.T) {
	p := newPeer(t)
	profile, err := ProfileNamed("generic-80")
	if err != nil {
		t.Fatal(err)
	}
	d := New(Config{Path: p.path, Baud: 115200, Profile: profile, WriteTimeout: 100 * time.Millisecond,
		AnswerTimeout: 100 * time.Millisecond, Poll: time.Hour}, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	hold, err := os.OpenFile(p.path, os.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer hold.Close()
	var body int
	var mu sync.Mutex
	go p.listen(func(b []byte) {
		p.say(0x14, 0, 0, 0x0f) // automatic status, whether wanted or not
		switch {
		case len(b) == 3 && bytes.HasPrefix(b, []byte{0x10, 0x04}):
			p.say(0x12)
		default:
			mu.Lock()
			defer mu.Unlock()
			body += len(b)
			if bytes.HasSuffix(b, sensorRequest()) {
				p.say(0)
			}
		}
	})
	go func() { ended <- d.Run(ctx) }()
	for changed := d.Changed(); !d.Status().Connected; changed = d.Changed() {
		<-changed
	}
	p.say(xoff) // before any answer to the questions that Print asks first
	told := make(chan State, 16)
	end := make(chan error, 1)
	go func() {
		_, err := d.Print(ctx, sample(), func(s State) { told <- s })
		end <- err
	}()
	next := func(want State) {
		t.Helper()
		select {
		case got := <-told:
			if got != want {
				t.Fatalf("told %q, want %q", got, want)
			}
		case err := <-end:
			t.Fatalf("ended with %v, want to be told %q", err, want)
		case <-time.After(20 * time.Second):
			t.Fatalf("never told %q, status %+v", want, d.Status())
		}
	}
	next(StateSending)
	next(StateHeld)
	mu.Lock()
	if body > 0 {
		t.Errorf("%d bytes sent against XOFF", body)
	}
	mu.Unlock()
	p.say(xon)
	next(StateSending)
	select {
	case err := <-end:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Errorf("does not end, status %+v", d.Status())
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// running runs a device and returns when it is connected; the function ends it.
func running(t *testing.T, d *Device) func() {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	over := time.After(20 * time.Second)
	for changed := d.Changed(); !d.Status().Connected; changed = d.Changed() {
		select {
		case <-changed:
		case <-over:
			t.Fatalf("never connected: %+v", d.Status())
		}
	}
	return func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}
