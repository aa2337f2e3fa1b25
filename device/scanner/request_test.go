package scanner

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.bug.st/serial"

	"grattoir/device/sim"
)

// commanded is a scanner on a pty under a control.
func commanded(t *testing.T, control string) (*Scanner, *running, *sim.Scanner) {
	t.Helper()
	dev, link := plugged(t)
	log := &syncBuffer{}
	s := New(Config{Path: link, Control: control}, slog.New(slog.NewTextHandler(log, nil)))
	r := run(t, s, log)
	t.Cleanup(r.stop)
	r.wantState(Connected, "")
	return s, r, dev
}

// heard waits until the device has received exactly b.
func heard(t *testing.T, dev *sim.Scanner, b string) {
	t.Helper()
	tick := time.NewTicker(2 * ms)
	defer tick.Stop()
	for end := time.Now().Add(patience); !bytes.Equal(dev.Commands(), []byte(b)); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("the scanner heard % X, want % X", dev.Commands(), b)
		}
	}
}

func TestScannerObeysCommandsAndIsLeftEnabled(t *testing.T) {
	s, r, dev := commanded(t, ControlDatalogic)
	heard(t, dev, "E")
	must(t, s.Do(t.Context(), BeepGood))
	must(t, s.Do(t.Context(), Disable))
	heard(t, dev, "EBD")
	must(t, dev.Scan("1234"))
	r.wantScan("1234")
	if err := s.Do(t.Context(), Trigger); !errors.Is(err, ErrUnsupported) {
		t.Errorf("trigger: %v", err)
	}
	r.stop()
	heard(t, dev, "EBDE")
	if err := s.Do(t.Context(), BeepGood); !errors.Is(err, ErrNotConnected) {
		t.Errorf("after the end: %v", err)
	}
}

// TestScannerSoundsARefusedRecord: woocommerce-ios#15823, where short scans were
// dropped and the cashier took them for done.
func TestScannerSoundsARefusedRecord(t *testing.T) {
	_, r, dev := commanded(t, ControlDatalogic)
	must(t, dev.Send([]byte("12345")))
	r.wantState(Faulty, CodeNoSuffix)
	heard(t, dev, "E\x01")
}

// TestScannerRefusesCommandsWhileUnplugged: folie#40, a write to a port that was gone.
func TestScannerRefusesCommandsWhileUnplugged(t *testing.T) {
	s, r, dev := commanded(t, ControlGM65)
	stop := make(chan struct{})
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			for {
				err := s.Do(t.Context(), Trigger)
				if !errors.Is(err, ErrNotConnected) && !errors.Is(err, ErrNoAnswer) && !errors.Is(err, ErrBusy) {
					t.Errorf("command: %v", err)
				}
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	must(t, dev.Unplug())
	r.wantState(Missing, CodeMissing)
	for range 50 {
		if err := s.Do(t.Context(), Trigger); !errors.Is(err, ErrNotConnected) {
			t.Errorf("unplugged: %v", err)
		}
	}
	must(t, dev.Replug())
	r.wantState(Connected, "")
	must(t, dev.Scan("1234"))
	r.wantScan("1234")
	close(stop)
	r.stop()
	callers.Wait()
}

func TestScannerTriggerIsAnsweredAndTheAnswerIsNoScan(t *testing.T) {
	s, r, dev := commanded(t, ControlGM65)
	done := make(chan error, 1)
	go func() { done <- s.Do(t.Context(), Trigger) }()
	heard(t, dev, string(gmCommand(gmTrigger, 1)))
	must(t, dev.Send([]byte(gmReply[:4])))
	must(t, dev.Send([]byte(gmReply[4:]+code18+"\r")))
	must(t, <-done)
	r.wantScan(code18)
}

func TestScannerQueryReturnsTheSetting(t *testing.T) {
	s, r, dev := commanded(t, ControlHoneywell)
	done := make(chan string, 1)
	go func() {
		text, err := s.Query(t.Context(), "CBRENA")
		if err != nil {
			t.Error(err)
		}
		done <- text
	}()
	heard(t, dev, "\x16M\rCBRENA?.")
	must(t, dev.Send([]byte("CBRENA1\x06.1234\r")))
	if text := <-done; text != "1" {
		t.Errorf("setting %q", text)
	}
	r.wantScan("1234")
}

// obeying runs a scanner under a control on a fake port and fake time.
func obeying(t *testing.T, control string, d time.Duration, p *fakePort, during func(ctx context.Context, s *Scanner)) (states []State, scans []Scan) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := New(Config{Path: "/nowhere/scanner", Control: control}, slog.New(slog.DiscardHandler))
		s.open = func(string, *serial.Mode) (port, error) { return p, nil }
		ctx, cancel := context.WithTimeout(t.Context(), d)
		defer cancel()
		var beside sync.WaitGroup
		beside.Go(func() { during(ctx, s) })
		must(t, s.Run(ctx, func(s Scan) { scans = append(scans, s) }, func(s State) { states = append(states, s) }))
		beside.Wait()
	})
	return states, scans
}

// TestScannerAcknowledgesOnlyWhatWasHandedOn: an SSI scanner that gets its ACK forgets the scan.
func TestScannerAcknowledgesOnlyWhatWasHandedOn(t *testing.T) {
	acknowledge := ssiPacket(ssiAck, 0)
	p := &fakePort{read: func(p *fakePort, b []byte) (int, error) {
		switch p.reads {
		case 10:
			return copy(b, fromScanner(ssiAck, 0, "")), nil // of Enable
		case 12:
			return copy(b, fromScanner(ssiData, 0, code128+code18)), nil
		}
		return quiet(p, b)
	}}
	taken := 0
	synctest.Test(t, func(t *testing.T) {
		s := New(Config{Path: "/nowhere/scanner", Control: ControlSSI}, slog.New(slog.DiscardHandler))
		s.open = func(string, *serial.Mode) (port, error) { return p, nil }
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		must(t, s.Run(ctx, func(s Scan) {
			taken++
			if s.Text != code18 || bytes.Contains(p.written, acknowledge) {
				t.Errorf("%d digits, acknowledged while they were being handed on: %v", len(s.Text), bytes.Contains(p.written, acknowledge))
			}
		}, func(State) {}))
	})
	if taken != 1 || !bytes.Contains(p.written, acknowledge) {
		t.Errorf("%d scans, sent % X", taken, p.written)
	}
}

func TestScannerThatAnswersNoCommandIsNamedAndReadAllTheSame(t *testing.T) {
	p := &fakePort{read: func(p *fakePort, b []byte) (int, error) {
		if p.reads == 150 { // some 12 s on
			return copy(b, "1234\r"), nil
		}
		return quiet(p, b)
	}}
	states, scans := obeying(t, ControlSSI, 20*time.Second, p, func(context.Context, *Scanner) {})
	if len(states) != 3 || states[0].Status != Connected || states[1].Fault == nil || states[1].Fault.Code != CodeDeaf || states[2].Status != Connected {
		t.Errorf("states %+v", states)
	}
	if len(scans) != 1 || scans[0].Text != "1234" {
		t.Errorf("scans %+v", scans)
	}
}

// TestScannerThatTakesNoBytesIsStillRead: pyserial#163, a write that blocks for ever.
func TestScannerThatTakesNoBytesIsStillRead(t *testing.T) {
	p := &fakePort{stuck: true, read: func(p *fakePort, b []byte) (int, error) {
		if p.reads == 30 {
			return copy(b, "1234\r"), nil
		}
		return quiet(p, b)
	}}
	states, scans := obeying(t, ControlDatalogic, 10*time.Second, p, func(ctx context.Context, s *Scanner) {
		time.Sleep(500 * ms) // fake time: inside a bubble
		if err := s.Do(ctx, BeepGood); !errors.Is(err, ErrNoAnswer) {
			t.Errorf("beep: %v", err)
		}
	})
	if len(scans) != 1 {
		t.Errorf("scans %+v", scans)
	}
	for _, s := range states {
		if s.Status == Missing {
			t.Errorf("the connection was given up: %+v", states)
		}
	}
}

func TestScannerCommandGivenUpIsNotSentLater(t *testing.T) {
	p := &fakePort{read: quiet}
	obeying(t, ControlSSI, 20*time.Second, p, func(ctx context.Context, s *Scanner) {
		time.Sleep(500 * ms) // fake time: Enable has no answer yet, so the next command waits
		soon, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if err := s.Do(soon, BeepGood); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("beep: %v", err)
		}
		for range maxQueue - 1 {
			must(t, s.Send(BeepBad))
		}
		if err := s.Send(BeepBad); !errors.Is(err, ErrBusy) {
			t.Errorf("one too many: %v", err)
		}
	})
	if bytes.Contains(p.written, ssiPacket(ssiBeep, 0, beepHigh)) {
		t.Error("a beep that nobody waits for was sent")
	}
	if !bytes.Contains(p.written, ssiPacket(ssiBeep, 0, beepTwoLow)) {
		t.Error("the beeps behind it were not sent")
	}
}

func TestLinePortWritesWithADeadline(t *testing.T) {
	dev, err := sim.NewScanner("")
	must(t, err)
	defer dev.Close()
	p, err := openPort(dev.Path(), &serial.Mode{BaudRate: 9600})
	must(t, err)
	defer p.Close()
	must(t, dev.Unplug())
	if _, err := p.Write([]byte("x"), time.Now().Add(time.Second)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("write to a port that is gone: %v", err)
	}
	must(t, p.Close())
	if _, err := p.Write([]byte("x"), time.Now().Add(time.Second)); err == nil {
		t.Errorf("write after Close: %v", err)
	}
}
