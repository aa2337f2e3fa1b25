package gpio

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"grattoir/device/terminal"
	"grattoir/validate"
)

func TestTamperSwitchReportsAtStartAndAtEachChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.pin[Tamper].Drive(false) // opened while the terminal was off
		w.run(everything())
		if got := w.codes(); !slices.Equal(got, []string{CodeOpen, CodeOpened}) {
			t.Fatalf("faults %v with an open case", got)
		}
		w.pin[Tamper].Bounce(true, 7)
		w.pass(time.Second)
		if got := w.codes(); !slices.Equal(got, []string{CodeOpened}) {
			t.Errorf("faults %v after it was closed: that it was open must stay", got)
		}
		if open, known := w.board.CaseOpen(); open || !known {
			t.Error("the closed case is open:", open, known)
		}
		if n := strings.Count(w.log.String(), `msg="tamper switch"`); n != 2 {
			t.Errorf("%d lines in the log for one opening and one closing:\n%s", n, w.log.String())
		}
	})
}

func TestClosedCaseIsKnownFromTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.open(everything())
		if _, known := w.board.CaseOpen(); known {
			t.Error("known before anybody looked")
		}
		w.run(everything())
		if open, known := w.board.CaseOpen(); open || !known || len(w.codes()) != 0 {
			t.Error("a closed case: open", open, "known", known, w.codes())
		}
	})
}

func TestTroubleIsToldOnceAndItsEndOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, told := NewFake("x"), []error{}
		f.Fail("wait", errors.New("broken"), 500)
		s := &sensor{line: &line{Found: Found{Pin: f}, name: "x"}, pull: PullUp, fault: func(err error) { told = append(told, err) }}
		ctx, cancel := context.WithCancel(t.Context())
		var watching sync.WaitGroup
		watching.Go(func() { s.watch(ctx, func(bool, bool) {}) })
		time.Sleep(time.Hour)
		cancel()
		watching.Wait()
		if len(told) != 2 || told[0] == nil || told[1] != nil {
			t.Errorf("told %v", told)
		}
	})
}

func TestBouncingContactsAreOneChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.run(everything())
		go func() { // 20 bounces over 20 ms, more edges than the kernel keeps
			for range 20 {
				w.pin[Tamper].Bounce(false, 2)
				time.Sleep(500 * time.Microsecond)
				w.pin[Tamper].Drive(true)
				time.Sleep(500 * time.Microsecond)
			}
			w.pin[Tamper].Drive(false)
		}()
		w.pass(2 * time.Second)
		if got := w.history; len(got) != 2 || !slices.Equal(w.codes(), []string{CodeOpen, CodeOpened}) {
			t.Errorf("the faults went %v", got)
		}
	})
}

func TestASpikeIsNoChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.run(everything())
		for range 50 {
			w.pin[Tamper].Drive(false)
			time.Sleep(10 * time.Millisecond)
			w.pin[Tamper].Drive(true)
			w.pass(time.Second)
		}
		if got := w.codes(); len(got) != 0 {
			t.Errorf("spikes of 10 ms opened the case: %v", got)
		}
	})
}

// Of periph/host#78 (WaitForEdge(-1) is over at once) and periph/conn#40 (after a kernel
// update every wait is): the watcher neither spins nor floods the log, and a tamper switch
// is still looked at.
func TestWatcherOfADriverThatDoesNotWaitIsOneFaultAndRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.pin[Tamper].Fail("wait", errors.New("broken"), -1)
		w.run(everything())
		if got := w.codes(); !slices.Equal(got, []string{CodeInput}) {
			t.Fatalf("faults %v", got)
		}
		before := len(w.pin[Tamper].Calls())
		w.pass(time.Hour)
		if n := len(w.pin[Tamper].Calls()) - before; n > 2*3600 {
			t.Errorf("%d calls in an hour", n)
		}
		if n := strings.Count(w.log.String(), `msg="gpio fault"`); n != 1 {
			t.Errorf("%d lines in the log:\n%s", n, w.log.String())
		}
		w.pin[Tamper].Drive(false)
		w.pass(5 * time.Second)
		if !slices.Contains(w.codes(), CodeOpen) {
			t.Error("the case was opened and nobody saw it")
		}
		w.pin[Tamper].Fail("wait", nil, 0)
		w.pass(5 * time.Second)
		if slices.Contains(w.codes(), CodeInput) {
			t.Error("the fault stays though the driver waits again")
		}
		for _, c := range append(w.pin[Tamper].Calls(), w.pin[Pay].Calls()...) {
			if c == "wait 0s" || strings.HasPrefix(c, "wait -") {
				t.Fatalf("%s: for ever, or not at all", c)
			}
		}
	})
}

func TestInputThatFailsAtFirstIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.pin[Tamper].Fail("in", errors.New("broken"), 4)
		w.pin[Tamper].Drive(false)
		w.run(everything())
		if got := w.codes(); !slices.Equal(got, []string{CodeInput}) {
			t.Fatalf("faults %v", got)
		}
		w.pass(10 * time.Second)
		if got := w.codes(); !slices.Equal(got, []string{CodeOpen, CodeOpened}) {
			t.Errorf("faults %v after it worked", got)
		}
	})
}

func TestPayButtonPaysOncePerPress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.run(everything())
		w.counter.winner("a")
		w.pass(time.Second)
		w.press()
		if got := w.pressed(); !slices.Equal(got, []string{"a"}) {
			t.Fatalf("presses %v", got)
		}
		w.pin[Pay].Drive(false) // held for a minute
		w.pass(10 * time.Second)
		w.counter.winner("b")
		w.pass(50 * time.Second)
		if got := w.pressed(); !slices.Equal(got, []string{"a", "a"}) {
			t.Errorf("presses %v: a held button is one press, for what was shown when it went down", got)
		}
	})
}

func TestPayButtonDoesNothingWhileNothingCanBePaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.run(everything())
		show := []func(){
			func() { w.counter.show("", terminal.Idle, "", "") },
			func() { w.counter.show("t", terminal.Typing, validate.Again, validate.CodeMisread) },
			func() { w.counter.show("l", terminal.Verdict, validate.Refuse, validate.NotAWinner) },
			func() { w.counter.show("r", terminal.Verdict, validate.Refer, validate.AboveShopLimit) },
			func() { w.counter.show("g", terminal.Verdict, validate.Again, validate.WaitingForCentral) },
			func() { w.counter.show("p", terminal.Paid, validate.Pay, validate.Winner) },
			func() { w.counter.show("f", terminal.Trained, validate.Pay, validate.Winner) },
			func() { w.counter.show("", terminal.Verdict, validate.Pay, validate.Winner) }, // no check has this id
		}
		for i, s := range show {
			s()
			w.pass(time.Second)
			w.press()
			if got := w.pressed(); len(got) != 0 {
				t.Fatalf("view %d: pressed %v", i, got)
			}
		}
	})
}

func TestPressTooSoonAfterAVerdictIsNotMeantForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.run(everything())
		w.counter.winner("a")
		w.pass(400 * time.Millisecond)
		w.press()
		w.counter.winner("b") // another scan just before the press
		w.pass(100 * time.Millisecond)
		w.press()
		if got := w.pressed(); len(got) != 0 {
			t.Fatalf("pressed %v", got)
		}
		w.press()
		if got := w.pressed(); !slices.Equal(got, []string{"b"}) {
			t.Errorf("pressed %v, want b", got)
		}
	})
}

// The counter may be ahead of the lamps: what they show is not what would be paid.
func TestPressBetweenAScanAndItsShowingPaysNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.run(everything())
		w.counter.winner("a")
		w.pass(time.Second)
		w.counter.mu.Lock()
		w.counter.state.View.ID = "b" // and nobody was woken yet
		w.counter.mu.Unlock()
		w.press()
		if got := w.pressed(); len(got) != 0 {
			t.Errorf("pressed %v", got)
		}
	})
}

func TestPressesDuringAPaymentAreNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.pay = func(string) error { time.Sleep(5 * time.Second); return nil } // a slow card
		w.run(everything())
		w.counter.winner("a")
		w.pass(time.Second)
		for range 5 {
			w.press()
		}
		w.pass(10 * time.Second)
		if got := w.pressed(); !slices.Equal(got, []string{"a"}) {
			t.Errorf("five presses during a payment were %v", got)
		}
	})
}

func TestButtonThatIsDownAtTheStartPressesNothingAndIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.pin[Pay].Drive(false)
		w.counter.winner("a")
		w.run(everything())
		w.pass(30 * time.Second)
		if got := w.codes(); !slices.Equal(got, []string{CodeStuck}) || len(w.pressed()) != 0 {
			t.Fatalf("faults %v, presses %v", got, w.pressed())
		}
		w.pin[Pay].Drive(true)
		w.pass(time.Second)
		if got := w.codes(); len(got) != 0 {
			t.Errorf("faults %v after it came up", got)
		}
		w.press()
		if got := w.pressed(); !slices.Equal(got, []string{"a"}) {
			t.Errorf("pressed %v", got)
		}
	})
}

func TestButtonThatIsDownWhenItsLineComesToWorkPressesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.pin[Pay].Fail("in", errors.New("broken"), 5)
		w.pin[Pay].Drive(false)
		w.counter.winner("a")
		w.run(everything())
		w.pass(15 * time.Second)
		if got := w.pressed(); len(got) != 0 || len(w.codes()) != 0 {
			t.Errorf("pressed %v, faults %v", got, w.codes())
		}
	})
}

// A wire that came off picks up the mains: it must not pay, nor eat the processor.
func TestRestlessLineIsAFaultAndPressesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.run(everything())
		w.counter.show("l", terminal.Verdict, validate.Refuse, validate.NotAWinner)
		hum := make(chan struct{})
		go func() {
			for high := false; ; high = !high {
				select {
				case <-hum:
					w.pin[Pay].Drive(true)
					return
				case <-time.After(10 * time.Millisecond):
					w.pin[Pay].Drive(high)
				}
			}
		}()
		w.pass(3 * time.Second)
		w.counter.winner("a")
		w.pass(time.Minute)
		if got := w.codes(); !slices.Equal(got, []string{CodeInput}) {
			t.Errorf("faults %v", got)
		}
		close(hum)
		w.pass(5 * time.Second)
		if got := w.codes(); len(got) != 0 || len(w.pressed()) != 0 {
			t.Errorf("faults %v after the line came to rest; presses %v", got, w.pressed())
		}
		w.press()
		if got := w.pressed(); !slices.Equal(got, []string{"a"}) {
			t.Errorf("pressed %v", got)
		}
	})
}
