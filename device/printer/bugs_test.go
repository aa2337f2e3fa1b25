package printer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"grattoir/device/sim"
)

// What other programs met with in the field, tried here where no other test of this
// package does; each names its report.

// TestOneWayPrinterIsAskedThreeTimesAndNeverAgain: many cheap models never answer
// (klirichek/zj-58#2). Each later question would cost its time limit, for each slip.
func TestOneWayPrinterIsAskedThreeTimesAndNeverAgain(t *testing.T) {
	paper := newPeer(t)
	hold := paper.open()
	defer hold.Close()
	d := New(Config{Path: paper.path, Baud: 115200, Profile: named(t, "generic-58"), AnswerTimeout: 20 * time.Millisecond,
		Poll: 5 * time.Millisecond}, slog.New(slog.DiscardHandler))
	defer running(t, d)()
	var s Slip
	s.Line("REÇU")
	for range 3 {
		if state, err := d.Print(t.Context(), s, nil); state != StateSent || err != nil {
			t.Fatalf("%s, %v", state, err)
		}
	}
	want, err := Encode(s, d.cfg.Profile)
	if err != nil {
		t.Fatal(err)
	}
	paper.until(append(bytes.Repeat(statusRequest(1), attempts), bytes.Repeat(want, 3)...))
	paper.mu.Lock()
	defer paper.mu.Unlock()
	if asked := bytes.Count(paper.got, []byte{dle, 0x04}); asked != attempts {
		t.Errorf("asked %d times in all, want %d", asked, attempts)
	}
	if f := d.Status().Fault; f != nil || d.Status().Answers {
		t.Errorf("status %+v", d.Status())
	}
}

// TestTalkativePrinterNeverStalls has a printer that takes no data while nobody takes its
// own, which is one reading of raspberrypi/linux#957.
func TestTalkativePrinterNeverStalls(t *testing.T) {
	paper := answering(t, func(paper *peer, b []byte) {
		for range 30 { // 120 bytes of automatic status for each read; its own buffer has 99
			paper.say(0x14, 0, 0, 0x0f)
		}
		switch {
		case bytes.HasPrefix(b, []byte{dle, 0x04}):
			paper.say(0x12)
		case bytes.HasSuffix(b, sensorRequest()):
			paper.say(0)
		}
	})
	d := New(Config{Path: paper.path, Baud: 115200, Profile: named(t, "generic-80"), AnswerTimeout: time.Second, Poll: time.Hour}, slog.New(slog.DiscardHandler))
	defer running(t, d)()
	if state, err := d.Print(t.Context(), sample(), nil); state != StateConsumed || err != nil {
		t.Errorf("%s, %v", state, err)
	}
}

// TestPrinterThatStopsAnsweringIsUnknownNotFailed: data had reached the printer when the
// time was over, and what was printed again came out twice
// (star-micronics/react-native-star-io10#154).
func TestPrinterThatStopsAnsweringIsUnknownNotFailed(t *testing.T) {
	paper, err := sim.NewPrinter(filepath.Join(t.TempDir(), "by-id"), sim.PrinterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer paper.Close()
	d := New(Config{Path: paper.Path(), Baud: 921600, Profile: named(t, "epson-tm-t20"), AnswerTimeout: 30 * time.Millisecond, Poll: time.Hour}, slog.New(slog.DiscardHandler))
	defer running(t, d)()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	state, err := d.Print(ctx, sample(), func(s State) {
		switch s {
		case StateSending:
			paper.Set(func(s *sim.State) { s.OneWay = true })
		case StateHeld:
			cancel()
		}
	})
	if unknown, ok := errors.AsType[*Unknown](err); state != StateUnknown || !ok || unknown.Sent != unknown.Total {
		t.Fatalf("%s, %v", state, err)
	}
	if _, err := paper.Next(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := len(paper.Slips()); n != 1 {
		t.Errorf("%d copies", n)
	}
}

// TestCloneWithoutQRCommandGetsAPicture: a clone prints the command as lines of letters
// (mike42/escpos-php#426). Every profile but those that name the command sends dots.
func TestCloneWithoutQRCommandGetsAPicture(t *testing.T) {
	for _, p := range Profiles() {
		b, err := Encode(sample(), p)
		if err != nil {
			t.Fatal(err)
		}
		if native := bytes.Contains(b, []byte{gs, '(', 'k'}); native != p.NativeQR {
			t.Errorf("%s: native %v, profile says %v", p.Name, native, p.NativeQR)
		}
	}
}

// TestIdlePrintersHangUpIsNoticedWithoutAWrite: the loss was seen at the next write only
// (jeelabs/folie#31).
func TestIdlePrintersHangUpIsNoticedWithoutAWrite(t *testing.T) {
	paper, err := sim.NewPrinter(filepath.Join(t.TempDir(), "by-id"), sim.PrinterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer paper.Close()
	d := New(Config{Path: paper.Path(), Baud: 921600, Profile: named(t, "epson-tm-t20"), Poll: time.Hour}, slog.New(slog.DiscardHandler))
	defer running(t, d)()
	until(t, d, "well", func(s Status) bool { return s.Fault == nil })
	if err := paper.Unplug(); err != nil {
		t.Fatal(err)
	}
	until(t, d, "unplugged", func(s Status) bool { return s.Fault != nil && s.Fault.Code == "P1" })
}

// TestPrinterThatComesAndGoesIsTakenWhenItStays: a braille daemon takes new adapters away
// again half a second later (Joshua-Riek/ubuntu-rockchip#621).
func TestPrinterThatComesAndGoesIsTakenWhenItStays(t *testing.T) {
	paper, err := sim.NewPrinter(filepath.Join(t.TempDir(), "by-id"), sim.PrinterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer paper.Close()
	d := New(Config{Path: paper.Path(), Baud: 921600, Profile: named(t, "epson-tm-t20")}, slog.New(slog.DiscardHandler))
	defer running(t, d)()
	for range 5 {
		until(t, d, "well", func(s Status) bool { return s.Fault == nil })
		if err := paper.Unplug(); err != nil {
			t.Fatal(err)
		}
		until(t, d, "unplugged", func(s Status) bool { return !s.Connected })
		if err := paper.Replug(); err != nil {
			t.Fatal(err)
		}
	}
	if state, err := d.Print(t.Context(), sample(), nil); state == StateHeld {
		until(t, d, "well", func(s Status) bool { return s.Fault == nil })
		state, err = d.Print(t.Context(), sample(), nil)
		if state != StatePrinted {
			t.Errorf("%s, %v", state, err)
		}
	} else if state != StatePrinted {
		t.Errorf("%s, %v", state, err)
	}
}

// until waits for a status.
func until(t *testing.T, d *Device, what string, reached func(Status) bool) {
	t.Helper()
	over := time.After(20 * time.Second)
	for {
		changed := d.Changed()
		if reached(d.Status()) {
			return
		}
		select {
		case <-changed:
		case <-over:
			t.Fatalf("never %s: %+v", what, d.Status())
		}
	}
}

// TestPortIsTakenForItselfAndABusyOneIsNamed: a getty, a modem manager or a spooler on the
// same line spoils both (RPi-Distro/repo#22, rusefi/rusefi#4359).
func TestPortIsTakenForItselfAndABusyOneIsNamed(t *testing.T) {
	port := newPeer(t).open()
	var exclusive int
	err := port.control(func(fd int) (err error) {
		exclusive, err = unix.IoctlGetInt(fd, unix.TIOCGEXCL)
		return err
	})
	if err != nil || exclusive == 0 {
		t.Errorf("others may open it too: %d, %v", exclusive, err)
	}
	for cause, want := range map[syscall.Errno]string{syscall.EBUSY: "ModemManager", syscall.EACCES: "group"} {
		err := openError("/dev/x", "/dev/null", fmt.Errorf("open: %w", cause))
		if !errors.Is(err, cause) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "/dev/x") {
			t.Errorf("got %v", err)
		}
	}
}

// TestReadIntoNothingIsNoHangUp: a library takes a read of no bytes for a closed port
// (bugst/go-serial#189).
func TestReadIntoNothingIsNoHangUp(t *testing.T) {
	port := newPeer(t).open()
	if n, err := port.Read(nil); n != 0 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	var n atomic.Int64
	end := make(chan error, 1)
	go func() {
		got, err := port.Read(make([]byte, 1))
		n.Store(int64(got))
		end <- err
	}()
	if err := port.Close(); err != nil {
		t.Error(err)
	}
	if err := <-end; err == nil || n.Load() != 0 {
		t.Errorf("%d bytes after Close, %v", n.Load(), err)
	}
}
