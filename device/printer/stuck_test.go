package printer

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestClearedPrinterTakesTheNextSlipThoughItNeverSaidXON: it was switched off and on after
// its XOFF, and the queue never rests, so nothing but the clearing can end the wait.
func TestClearedPrinterTakesTheNextSlipThoughItNeverSaidXON(t *testing.T) {
	paper := answering(t, func(paper *peer, b []byte) {
		switch {
		case bytes.HasSuffix(b, clearRequest()):
			paper.say(0x37, 0x25, 0)
		case bytes.HasPrefix(b, []byte{dle, 0x04}):
			paper.say(0x12)
		case bytes.HasSuffix(b, sensorRequest()):
			paper.say(0)
		}
	})
	p := named(t, "epson-tm-t20")
	p.Completion = false
	d := New(Config{Path: paper.path, Baud: 115200, Profile: p, WriteTimeout: 50 * time.Millisecond,
		AnswerTimeout: time.Second, Poll: time.Hour}, slog.New(slog.DiscardHandler))
	defer running(t, d)()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	paper.say(xoff)
	held := make(chan struct{})
	first := make(chan error, 1)
	go func() {
		_, err := d.Print(ctx, sample(), func(s State) {
			if s == StateHeld {
				close(held)
			}
		})
		first <- err
	}()
	<-held
	if err := d.Clear(ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-first; !errors.Is(err, ErrCleared) {
		t.Fatalf("got %v", err)
	}
	waits := make(chan struct{})
	go func() {
		defer close(waits)
		if state, err := d.Print(ctx, sample(), func(s State) {
			if s == StateHeld {
				cancel()
			}
		}); state != StateConsumed {
			t.Errorf("the next slip: %s, %v", state, err)
		}
	}()
	<-waits
}

// TestXOFFIsForgivenAlsoWhenThePaperRunsLow: a printer that warns is well.
func TestXOFFIsForgivenAlsoWhenThePaperRunsLow(t *testing.T) {
	paper := answering(t, func(paper *peer, b []byte) {
		switch {
		case bytes.HasPrefix(b, []byte{dle, 0x04, 4}):
			paper.say(0x1e)
		case bytes.HasPrefix(b, []byte{dle, 0x04}):
			paper.say(0x12)
		}
	})
	d := New(Config{Path: paper.path, Baud: 115200, Profile: named(t, "generic-80"), AnswerTimeout: time.Second, Poll: 5 * time.Millisecond},
		slog.New(slog.DiscardHandler))
	port, err := OpenPort(paper.path, 115200, NoFlow)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	l := newLink(port)
	paper.say(xoff)
	if !l.await(ctx, 10*time.Second, func() bool { return l.stopped }) {
		t.Fatal("no XOFF came")
	}
	for range 4 {
		if err := d.look(ctx, l); err != nil {
			t.Fatal(err)
		}
	}
	if f := d.Status().Fault; f == nil || f.Code != paperLow().Code {
		t.Fatalf("status %+v", d.Status())
	}
	if l.mu.Lock(); l.stopped {
		t.Error("the XOFF still stands")
	}
	l.mu.Unlock()
	_ = port.Close()
	<-l.done
}

// supply is a pin that switches a printer, and takes its time as the real one does.
type supply struct {
	mu    sync.Mutex
	on    bool
	asked chan struct{} // gets a word when it is to be switched on
}

func (s *supply) set(ctx context.Context, on bool) error {
	if on {
		select {
		case s.asked <- struct{}{}:
		default:
		}
		if err := wait(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.on = on
	return nil
}

func (s *supply) isOn() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.on
}

// TestPrinterIsSwitchedOnAgainThoughWhoClearedItHasLeft: a client of the socket that breaks
// off in the middle must not leave the counter with a printer that is off for good.
func TestPrinterIsSwitchedOnAgainThoughWhoClearedItHasLeft(t *testing.T) {
	paper := answering(t, func(paper *peer, b []byte) {
		if bytes.HasPrefix(b, []byte{dle, 0x04}) {
			paper.say(0x12)
		}
	})
	s := &supply{asked: make(chan struct{}, 1)}
	d := New(Config{Path: paper.path, Baud: 115200, Profile: named(t, "generic-80"), Power: s.set, AnswerTimeout: time.Second, Poll: time.Hour}, slog.New(slog.DiscardHandler))
	defer running(t, d)()
	<-s.asked // of the connection
	ctx, leave := context.WithCancel(t.Context())
	go func() {
		<-s.asked
		leave()
	}()
	_ = d.Clear(ctx) // whatever it says to nobody
	for over := time.Now().Add(10 * time.Second); !s.isOn(); {
		if time.Now().After(over) {
			t.Fatal("the printer stays switched off")
		}
		if err := wait(t.Context(), 10*time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPrinterThatLosesItsSupplySaysNothing: the line then rests at the level of a BREAK,
// which the system would otherwise hand on as a byte 0, and that is an answer to GS r.
func TestPrinterThatLosesItsSupplySaysNothing(t *testing.T) {
	port := newPeer(t).open()
	if err := port.control(func(fd int) error {
		settings, err := unix.IoctlGetTermios(fd, unix.TCGETS)
		if err == nil && (settings.Iflag&unix.IGNBRK == 0 || settings.Iflag&unix.IGNPAR == 0) {
			t.Errorf("input flags %#x: a BREAK and a byte with a framing error are received", settings.Iflag)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// TestSlipThatWasClearedIsNotCalledConsumed: the printer had read it, and then was told to
// forget it.
func TestSlipThatWasClearedIsNotCalledConsumed(t *testing.T) {
	l := &link{sensed: 1}
	s := &sending{l: l, data: []byte{0}}
	if state, _ := s.giveUp(ErrCleared); state != StateUnknown {
		t.Errorf("got %s", state)
	}
	if state, _ := s.giveUp(context.Canceled); state != StateConsumed {
		t.Errorf("given up for another reason: %s", state)
	}
	l.printed, s.wantID = [4]byte{'A'}, true
	s.id = l.printed
	if state, _ := s.giveUp(ErrCleared); state != StatePrinted {
		t.Errorf("on paper before it was cleared: %s", state)
	}
}

// TestByteThatCameBeforeItsQuestionIsNoProof: noise, or the rest of a broken automatic
// status, looks like the answer to GS r. It comes while the slip is still on its way, whose
// paper ends then.
func TestByteThatCameBeforeItsQuestionIsNoProof(t *testing.T) {
	begun := false
	paper := answering(t, func(paper *peer, b []byte) {
		switch {
		case bytes.HasPrefix(b, []byte{dle, 0x04, 4}) && begun:
			paper.say(0x72) // the roll has ended
		case bytes.HasPrefix(b, []byte{dle, 0x04}):
			paper.say(0x12)
		default:
			if !begun {
				paper.say(0)
			}
			begun = true
		}
	})
	d := New(Config{Path: paper.path, Baud: 115200, Profile: named(t, "generic-80"), AnswerTimeout: time.Second, Poll: time.Hour}, slog.New(slog.DiscardHandler))
	defer running(t, d)()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	held := false
	state, err := d.Print(ctx, sample(), func(s State) {
		if s == StateHeld {
			held = true
			cancel()
		}
	})
	if state != StateUnknown || !held {
		t.Errorf("%s, held %v, %v", state, held, err)
	}
}
