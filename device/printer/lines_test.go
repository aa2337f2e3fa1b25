package printer

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"grattoir/device/sim"
)

// smallSim is a simulated 58 mm printer.
func smallSim(t *testing.T) *sim.Printer {
	t.Helper()
	paper, err := sim.NewPrinter(filepath.Join(t.TempDir(), "by-id"), sim.PrinterOptions{Columns: 32, Chinese: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = paper.Close() })
	return paper
}

// shop is a slip with a logo and a code: text, pictures, text.
func shop() Slip {
	var s Slip
	s.Logo(dotRuler(160))
	for range 6 {
		s.Line("Tabac de la Gare, 29000 Quimper")
	}
	s.QR("GRT1")
	s.Pair("Jeu", "Bingo")
	return s
}

// TestPrinterOf45BytesIsSentWhatItHasPrinted has the buffer that Epson's switch for it
// leaves, no flow control, and no answers: only the clock knows what it has printed. The
// slip goes past a printer that prints each line when it is whole and each row of a
// picture when it is there, at its profile's speed and on a line without a delay.
func TestPrinterOf45BytesIsSentWhatItHasPrinted(t *testing.T) {
	for _, paced := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			p := named(t, "generic-58")
			p.Buffer, p.Paced = 45, paced
			j, err := encode(shop(), p)
			if err != nil {
				t.Fatal(err)
			}
			s := &sending{d: &Device{cfg: Config{Profile: p, Baud: 9600}}, l: &link{port: &Port{}, changed: make(chan struct{})}, o: &order{job: j}, data: j.data}
			paper := mechanism{p: p, job: j}
			most := 0
			for s.sent < len(j.data) {
				n := min(p.Chunk, len(j.data)-s.sent)
				if err := s.pace(t.Context(), n); err != nil {
					t.Fatal(err)
				}
				s.sent += n
				most = max(most, s.sent-paper.done(s.sent, time.Now()))
			}
			if paced != (most <= p.Buffer) {
				t.Errorf("paced %v: up to %d bytes in a buffer of %d", paced, most, p.Buffer)
			}
		})
	}
}

// mechanism is a printer with nothing but its buffer and its motor.
type mechanism struct {
	p    Profile
	job  *job
	next int // bytes printed or being printed
	free time.Time
}

// done takes rows off the buffer, of which the first sent bytes have come, until now.
func (m *mechanism) done(sent int, now time.Time) int {
	for m.next < sent && !m.free.After(now) { // free is never long ago: the motor stands when nothing is there
		end := m.next + 1
		for end < sent && m.job.height(end) == m.job.height(m.next) {
			end++
		}
		rows := m.job.height(end) - m.job.height(m.next)
		if rows == 0 {
			m.free = now // the rest of a line is still to come
			break
		}
		m.free = m.free.Add(m.p.feeding(rows))
		m.next = end
	}
	return m.next
}

// TestPacedSlipEndsWithItsCaller: a slow printer must not hold up a stop.
func TestPacedSlipEndsWithItsCaller(t *testing.T) {
	paper := smallSim(t)
	p := named(t, "generic-58")
	p.Buffer, p.Status, p.Paced, p.Speed = 45, Cannot, true, 1
	d := New(Config{Path: paper.Path(), Baud: 115200, Profile: p}, slog.New(slog.DiscardHandler))
	defer running(t, d)()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	var s Slip
	s.Line("Un")
	s.Line("Deux")
	s.Line(strings.Repeat("x", 100)) // after lines of 3.75 s each
	begun := time.Now()
	_, err := d.Print(ctx, s, nil)
	if unknown, ok := errors.AsType[*Unknown](err); !ok || unknown.Sent == 0 || unknown.Sent >= unknown.Total {
		t.Errorf("got %v", err)
	}
	if took := time.Since(begun); took > 3*time.Second {
		t.Errorf("ended %v after the beginning, its caller left after 300 ms", took)
	}
}

// TestBusyLineIsObeyedBetweenPieces: a module drops what overruns the slack it has left when
// it says busy (adafruit/Python-Thermal-Printer#28), so not one byte may follow.
func TestBusyLineIsObeyedBetweenPieces(t *testing.T) {
	paper := newPeer(t)
	hold := paper.open()
	defer hold.Close()
	p := named(t, "generic-58")
	p.Status = Cannot
	var asked atomic.Int64
	var free atomic.Bool
	d := New(Config{Path: paper.path, Baud: 115200, Profile: p, WriteTimeout: 100 * time.Millisecond,
		Busy: func() (bool, error) { return asked.Add(1) > 3 && !free.Load(), nil }}, slog.New(slog.DiscardHandler))
	defer running(t, d)()
	j, err := encode(shop(), p)
	if err != nil {
		t.Fatal(err)
	}
	state, err := d.Print(t.Context(), shop(), func(s State) {
		if s == StateHeld {
			paper.until(j.data[:3*p.Chunk])
			free.Store(true)
		}
	})
	if state != StateSent || err != nil || !free.Load() {
		t.Fatalf("%s, %v, held %v", state, err, free.Load())
	}
	paper.until(j.data)
}

// TestBusyLineThatStaysIsANamedFault, and so is a pin that cannot be read; the slip goes
// on when the line lets it.
func TestBusyLineThatStaysIsANamedFault(t *testing.T) {
	broken := errors.New("no such line")
	for code, state := range map[string]struct {
		busy bool
		err  error
	}{"P12": {true, nil}, "P13": {false, broken}} {
		paper := smallSim(t)
		var mu sync.Mutex
		now := state
		d := New(Config{Path: paper.Path(), Baud: 115200, Profile: named(t, "generic-58"), WriteTimeout: 50 * time.Millisecond,
			AnswerTimeout: 100 * time.Millisecond,
			Busy:          func() (bool, error) { mu.Lock(); defer mu.Unlock(); return now.busy, now.err }}, slog.New(slog.DiscardHandler))
		stop := running(t, d)
		told := make(chan State, 16)
		end := make(chan error, 1)
		go func() {
			_, err := d.Print(t.Context(), shop(), func(s State) { told <- s })
			end <- err
		}()
		for s := range told {
			if s == StateHeld {
				break
			}
		}
		if f := d.Status().Fault; f == nil || f.Code != code || !errors.Is(f, state.err) && state.err != nil {
			t.Errorf("%s: fault %v", code, f)
		}
		mu.Lock()
		now.busy, now.err = false, nil
		mu.Unlock()
		if err := <-end; err != nil {
			t.Errorf("%s: %v", code, err)
		}
		stop()
	}
}

// TestHeldByTheBusyLineBeforeTheFirstByteStaysTheOriginal: nothing was sent.
func TestHeldByTheBusyLineBeforeTheFirstByteStaysTheOriginal(t *testing.T) {
	paper := smallSim(t)
	d := New(Config{Path: paper.Path(), Baud: 115200, Profile: named(t, "generic-58"), WriteTimeout: 50 * time.Millisecond,
		Busy: func() (bool, error) { return true, nil }}, slog.New(slog.DiscardHandler))
	defer running(t, d)()
	ctx, cancel := context.WithCancel(t.Context())
	_, err := d.Print(ctx, shop(), func(s State) {
		if s == StateHeld {
			cancel()
		}
	})
	cancel()
	if held, ok := errors.AsType[*Held](err); !ok || !held.NothingSent || held.Cause.Code != "P12" {
		t.Errorf("got %v", err)
	}
}

// TestPrinterIsSwitchedOnAndGivenItsTime before the first byte; a pin that fails is P13,
// and tried again.
func TestPrinterIsSwitchedOnAndGivenItsTime(t *testing.T) {
	paper := newPeer(t)
	p := named(t, "generic-58")
	p.Wake = 150 * time.Millisecond
	var tries atomic.Int64
	on := make(chan time.Time, 1)
	d := New(Config{Path: paper.path, Baud: 115200, Profile: p, AnswerTimeout: 20 * time.Millisecond,
		Power: func(_ context.Context, state bool) error {
			if tries.Add(1) == 1 {
				return errors.New("no such line")
			}
			if !state {
				t.Error("switched off")
			}
			on <- time.Now()
			return nil
		}}, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	changed := d.Changed()
	go func() { ended <- d.Run(ctx) }()
	<-changed
	if f := d.Status().Fault; f == nil || f.Code != "P13" {
		t.Errorf("fault %v", f)
	}
	begun := <-on
	first := make(chan time.Time, 1)
	hold, err := OpenPort(paper.path, 115200, NoFlow) // or the far end reads an error until the device opens it
	if err != nil {
		t.Fatal(err)
	}
	defer hold.Close()
	go paper.listen(func([]byte) {
		select {
		case first <- time.Now():
		default:
		}
	})
	if took := (<-first).Sub(begun); took < p.Wake {
		t.Errorf("first byte %v after power, want %v", took, p.Wake)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestXOFFWithoutXONIsForgivenAtRest: the printer was switched off and on.
func TestXOFFWithoutXONIsForgivenAtRest(t *testing.T) {
	paper := answering(t, func(paper *peer, b []byte) {
		switch {
		case bytes.HasPrefix(b, []byte{dle, 0x04}):
			paper.say(0x12)
		case bytes.HasSuffix(b, sensorRequest()):
			paper.say(0)
		}
	})
	d := New(Config{Path: paper.path, Baud: 115200, Profile: named(t, "generic-80"), WriteTimeout: 50 * time.Millisecond,
		AnswerTimeout: time.Second, Poll: 10 * time.Millisecond}, slog.New(slog.DiscardHandler))
	defer running(t, d)()
	paper.say(xoff)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for { // the first slips may still find the XOFF
		held := false
		one, give := context.WithCancel(ctx)
		state, err := d.Print(one, sample(), func(s State) {
			if s == StateHeld {
				held = true
				give()
			}
		})
		give()
		if state == StateConsumed && !held {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("still held: %s, %v", state, err)
		}
	}
}
