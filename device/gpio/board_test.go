package gpio

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"grattoir/device/terminal"
	"grattoir/validate"
)

func TestEveryOutputIsIdleBeforeAnythingElseTheDrawerFirst(t *testing.T) {
	w := newWorld(t)
	var mu sync.Mutex
	var calls []string
	for p, f := range w.pin {
		f.After(func(op string, high bool) {
			mu.Lock()
			defer mu.Unlock()
			calls = append(calls, fmt.Sprintf("%s %s %t", p, op, high))
		})
	}
	c := everything()
	c.Win.ActiveLow = true
	w.open(c)
	want := []string{"drawer out false", "power out false", "buzzer out false", "win out true", "refuse out false", "fault out false", "busy in false"}
	if !slices.Equal(calls, want) {
		t.Errorf("Open did %q\nwant    %q", calls, want)
	}
}

func TestOutputsAreLeftIdleAndDrivenAtTheStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := everything()
		c.Win.ActiveLow = true
		w.run(c)
		must(t, w.board.Printer().PowerOn(t.Context()))
		w.counter.winner("a")
		w.pass(50 * time.Millisecond) // in the middle of the sound
		if !w.pin[Power].Level() || w.pin[Win].Level() || !w.pin[Buzzer].Level() {
			t.Fatal("power, lamp or buzzer is not on")
		}
		w.stop()
		if !w.pin[Power].Level() {
			t.Error("the printer lost its power, and the last slip with it")
		}
		if !w.pin[Win].Level() || w.pin[Buzzer].Level() {
			t.Error("lamp or buzzer is on when nothing runs any more")
		}
		must(t, w.board.Close())
		for _, p := range order {
			if high := p == Win || p == Power; w.pin[p].Level() != high || !w.pin[p].IsOutput() {
				t.Errorf("%s: high %t, output %t", p, w.pin[p].Level(), w.pin[p].IsOutput())
			}
		}
		for p, f := range w.pin {
			if slices.Contains(f.Calls(), "read makes an input") {
				t.Errorf("%s: an output was read", p)
			}
		}
	})
}

func TestAWireThatIsMissingStopsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		delete(w.pin, Refuse)
		w.pin[Alarm].Fail("out", errors.New("held by another"), -1)
		w.run(everything())
		if got := w.codes(); !slices.Equal(got, []string{CodeNoLine, CodeOutput}) {
			t.Errorf("faults %v", got)
		}
		w.counter.winner("a")
		w.pass(time.Second)
		w.press()
		if !w.pin[Win].Level() || len(w.pressed()) != 1 {
			t.Error("lamp or button does not work")
		}
		w.pin[Alarm].Fail("out", nil, 0)
		w.pass(2 * retryOutputs)
		if got := w.codes(); !slices.Equal(got, []string{CodeNoLine}) {
			t.Errorf("faults %v after the lamp works", got)
		}
	})
}

func TestNoGPIOAtAllIsOneFaultAndOneLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		none := noGPIO("", errors.New("no chip"))
		w.pin = map[Part]*Fake{}
		w.board = nil
		find := func(string, bool) (Found, error) { return Found{}, none }
		w.openWith(everything(), find)
		if got := w.codes(); !slices.Equal(got, []string{CodeNone}) {
			t.Errorf("faults %v", got)
		}
		if n := strings.Count(w.log.String(), "\n"); n != 1 {
			t.Errorf("%d lines:\n%s", n, w.log.String())
		}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { w.board.Run(ctx, w.counter, func(context.Context, string) error { return nil }) })
		w.counter.winner("a")
		w.pass(time.Minute)
		if err := w.board.OpenDrawer(ctx); !errors.Is(err, ErrNoDrawer) {
			t.Error("drawer:", err)
		}
		if busy, err := w.board.Printer().Busy(); busy || err != nil {
			t.Error("busy:", busy, err)
		}
		must(t, w.board.Printer().PowerOn(ctx))
		must(t, w.board.Printer().Idle(ctx))
		cancel()
		running.Wait()
		must(t, w.board.Close())
	})
}

// On the character device a line is low for a moment when it becomes an output. Active-low,
// that opens the drawer or cuts the printer's power at each start.
func TestActiveLowDrawerIsRefusedWhereItWouldOpenAtStart(t *testing.T) {
	for _, mapped := range []bool{false, true} {
		w := newWorld(t)
		for _, f := range w.pin {
			f.Mapped = mapped
		}
		c := everything()
		c.Drawer.ActiveLow, c.Power.ActiveLow, c.Win.ActiveLow = true, true, true
		w.open(c)
		if mapped {
			if len(w.codes()) != 0 || !w.pin[Drawer].Level() || len(highs(w.pin[Drawer])) != 0 {
				t.Errorf("mapped: %v, drawer %v", w.codes(), w.pin[Drawer].Trace())
			}
			continue
		}
		if got := w.codes(); !slices.Equal(got, []string{CodeGlitch, CodeGlitch}) {
			t.Errorf("faults %v", got)
		}
		if n := len(w.pin[Drawer].Calls()) + len(w.pin[Power].Calls()); n != 0 {
			t.Errorf("%d calls on lines that are refused", n)
		}
		if err := w.board.OpenDrawer(t.Context()); !errors.Is(err, ErrNoDrawer) {
			t.Error("drawer:", err)
		}
		if !strings.Contains(w.log.String(), "wire it active-high") {
			t.Error("the lamp's glitch is not told of:\n", w.log.String())
		}
	}
}

func TestActiveHighOutputsNeverGlitchOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.run(everything())
		w.stop()
		for _, p := range order {
			if got := highs(w.pin[p]); len(got) != 0 {
				t.Errorf("%s was on for %v", p, got)
			}
		}
	})
}

func TestDrawerPulseIsExactAndEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.open(everything())
		must(t, w.board.OpenDrawer(t.Context()))
		ctx, cancel := context.WithTimeout(t.Context(), 800*time.Millisecond+50*time.Millisecond)
		defer cancel()
		if err := w.board.OpenDrawer(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Error("a pulse that was cut short:", err)
		}
		if got := highs(w.pin[Drawer]); !slices.Equal(got, []time.Duration{200 * time.Millisecond, 50 * time.Millisecond}) {
			t.Errorf("pulses %v", got)
		}
		if w.pin[Drawer].Level() {
			t.Error("the coil is on")
		}
	})
}

func TestDrawerPausesFourPulsesAndPulsesOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := everything()
		c.DrawerPulse = 510 * time.Millisecond
		w.open(c)
		var calls sync.WaitGroup
		var mu sync.Mutex
		refused := 0
		for range 10 {
			calls.Go(func() {
				for range 3 {
					if err := w.board.OpenDrawer(t.Context()); errors.Is(err, ErrDrawerBusy) {
						mu.Lock()
						refused++
						mu.Unlock()
						time.Sleep(700 * time.Millisecond)
					}
				}
			})
		}
		calls.Wait()
		for _, h := range highs(w.pin[Drawer]) {
			if h != 510*time.Millisecond {
				t.Errorf("a pulse of %v", h)
			}
		}
		all := gaps(w.pin[Drawer])
		for _, g := range all[1:] { // the first is before the first pulse
			if g < 4*510*time.Millisecond {
				t.Errorf("a pause of %v", g)
			}
		}
		if n := len(highs(w.pin[Drawer])); n < 3 || refused == 0 || n+refused != 30 {
			t.Errorf("%d pulses, %d refused", n, refused)
		}
	})
}

func TestDrawerIsOffAfterAPanicAndAfterAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.open(everything())
		f := w.pin[Drawer]
		f.After(func(_ string, high bool) {
			if high {
				panic("a bug in a driver")
			}
		})
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic was swallowed")
				}
			}()
			_ = w.board.OpenDrawer(t.Context())
		}()
		if f.Level() || len(highs(f)) != 1 {
			t.Errorf("after a panic the coil is on: %v", f.Trace())
		}
		f.After(nil)
		w.pass(5 * time.Second)
		f.Fail("out", errors.New("broken"), 1)
		if err := w.board.OpenDrawer(t.Context()); err == nil || errors.Is(err, ErrDrawerStuck) {
			t.Error("a pulse that failed:", err)
		}
		if f.Level() {
			t.Error("the coil is on")
		}
		w.pass(5 * time.Second)
		must(t, w.board.OpenDrawer(t.Context()))
	})
}

func TestDrawerThatWillNotGoOffIsTriedAgainAndNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.run(everything())
		f := w.pin[Drawer]
		broken := errors.New("broken")
		f.After(func(_ string, high bool) {
			if high {
				f.Fail("out", broken, 5) // fewer than the tries
			}
		})
		must(t, w.board.OpenDrawer(t.Context()))
		if len(w.codes()) != 0 || f.Level() {
			t.Error("five failures:", w.codes(), f.Level())
		}
		f.After(func(_ string, high bool) {
			if high {
				f.Fail("out", broken, -1)
			}
		})
		if err := w.board.OpenDrawer(t.Context()); !errors.Is(err, ErrDrawerStuck) || !errors.Is(err, broken) {
			t.Error("a coil that stays on:", err)
		}
		if got := w.codes(); !slices.Equal(got, []string{CodeDrawer}) {
			t.Errorf("faults %v", got)
		}
		began := time.Now()
		if err := w.board.OpenDrawer(t.Context()); !errors.Is(err, ErrDrawerStuck) || time.Since(began) != 0 {
			t.Error("another pulse on a coil that is on:", err, time.Since(began))
		}
		f.After(nil)
		f.Fail("out", nil, 0)
		w.pass(time.Second)
		if got := w.codes(); len(got) != 0 || f.Level() {
			t.Errorf("faults %v, on %t after it works again", got, f.Level())
		}
	})
}

func TestCoilThatStayedOnIsOffAfterTheStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.open(everything())
		f := w.pin[Drawer]
		f.After(func(_ string, high bool) {
			if high {
				f.Fail("out", errors.New("broken"), -1)
			}
		})
		if err := w.board.OpenDrawer(t.Context()); !errors.Is(err, ErrDrawerStuck) || !f.Level() {
			t.Fatal("the coil is not on:", err)
		}
		f.Fail("out", nil, 0)
		must(t, w.board.Close())
		if f.Level() {
			t.Error("the coil is on when nothing runs any more")
		}
	})
}

// Of lsongdev/node-escpos#151: a pulse that waited in a held job opened the drawer minutes
// later. Here nothing that the paper does opens it.
func TestPaymentOpensTheDrawerOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.counter.show("old", terminal.Paid, validate.Pay, validate.Winner) // before the start
		w.run(everything())
		w.counter.winner("a")
		w.pass(time.Second)
		if got := highs(w.pin[Drawer]); len(got) != 0 {
			t.Fatalf("the drawer was opened %d times and nothing was paid", len(got))
		}
		w.counter.show("a", terminal.Paid, validate.Pay, validate.Winner)
		w.pass(3 * time.Second)
		w.counter.set(func(s *terminal.State) { s.View.Receipt = &validate.Receipt{Copies: 2} }) // printed, reprinted
		w.pass(time.Second)
		w.counter.show("b", terminal.Trained, validate.Pay, validate.Winner)
		w.pass(time.Second)
		if n := len(highs(w.pin[Drawer])); n != 1 {
			t.Fatalf("%d pulses for one payment", n)
		}
		w.counter.set(func(s *terminal.State) {
			s.View = terminal.View{Stage: terminal.Idle}
			s.Batch = &terminal.Batch{ID: "x", Paid: true, Views: []terminal.View{{Stage: terminal.Verdict}, {Stage: terminal.Paid}}}
		})
		w.pass(3 * time.Second)
		w.counter.winner("c") // the paid batch stays in the state
		w.pass(3 * time.Second)
		if n := len(highs(w.pin[Drawer])); n != 2 {
			t.Errorf("%d pulses for a payment and a batch", n)
		}
	})
}

func TestLampsSayWhatThePageSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.run(everything())
		cases := []struct {
			stage               terminal.Stage
			outcome             validate.Outcome
			reason              validate.Reason
			win, refuse, unsure bool
		}{
			{terminal.Verdict, validate.Pay, validate.Winner, true, false, false},
			{terminal.Paid, validate.Pay, validate.Winner, true, false, false},
			{terminal.Verdict, validate.Refuse, validate.NotAWinner, false, true, false},
			{terminal.Verdict, validate.Refuse, validate.AlreadyPaidHere, false, true, false},
			{terminal.Verdict, validate.Refer, validate.NotAuthentic, false, false, true},
			{terminal.Verdict, validate.Again, validate.CodeMisread, false, false, true},
			{terminal.Typing, validate.Again, validate.CodeMisread, false, false, false},
			{terminal.Idle, "", "", false, false, false},
		}
		for i, c := range cases {
			w.counter.show(fmt.Sprint(i), c.stage, c.outcome, c.reason)
			w.pass(time.Second)
			if w.pin[Win].Level() != c.win || w.pin[Refuse].Level() != c.refuse || w.pin[Alarm].Level() != c.unsure {
				t.Errorf("%s %s: win %t, refuse %t, fault %t", c.stage, c.reason, w.pin[Win].Level(), w.pin[Refuse].Level(), w.pin[Alarm].Level())
			}
		}
		w.counter.set(func(s *terminal.State) { s.Printer = &terminal.Fault{Code: "P2"} })
		w.pass(time.Second)
		if !w.pin[Alarm].Level() {
			t.Error("no paper, and no lamp")
		}
	})
}

func TestWhatWasShownBeforeTheStartIsLitAndNotSounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.counter.winner("old")
		w.run(everything())
		if !w.pin[Win].Level() || len(highs(w.pin[Buzzer])) != 0 {
			t.Error("lamp", w.pin[Win].Level(), "sounds", highs(w.pin[Buzzer]))
		}
	})
}

func TestSoundsAreThreeShapesOfAtMost600msEachHeardOnce(t *testing.T) {
	const ms = time.Millisecond
	shapes := map[validate.Reason][]time.Duration{
		validate.Winner:          {100 * ms, 350 * ms},
		validate.NotAWinner:      {120 * ms},
		validate.AlreadyPaidHere: {120 * ms, 120 * ms, 120 * ms},
		validate.NotAuthentic:    {120 * ms, 120 * ms, 120 * ms},
	}
	outcome := map[validate.Reason]validate.Outcome{validate.Winner: validate.Pay, validate.NotAWinner: validate.Refuse,
		validate.AlreadyPaidHere: validate.Refuse, validate.NotAuthentic: validate.Refer}
	for reason, want := range shapes {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.run(everything())
			w.counter.show("a", terminal.Verdict, outcome[reason], reason)
			for range 10 {
				w.pass(50 * ms)
				w.counter.set(func(s *terminal.State) { s.Unsent.Claims++ }) // the status line changes
			}
			w.pass(100 * ms)
			if w.pin[Buzzer].Level() {
				t.Errorf("%s: on after 600 ms", reason)
			}
			w.counter.show("a", terminal.Paid, outcome[reason], reason)
			w.pass(time.Second)
			if got := highs(w.pin[Buzzer]); !slices.Equal(got, want) {
				t.Errorf("%s sounds %v, want %v", reason, got, want)
			}
		})
	}
}

func TestPrinterIsOffLongEnoughAndNotSentToTooSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.open(everything())
		began := time.Now()
		p := w.board.Printer()
		must(t, p.PowerOn(t.Context()))
		if took := time.Since(began); took != 1500*time.Millisecond || !w.pin[Power].Level() {
			t.Errorf("ready after %v, on %t; want 1 s off and 500 ms on", took, w.pin[Power].Level())
		}
		must(t, p.PowerOn(t.Context()))
		if time.Since(began) != 1500*time.Millisecond {
			t.Error("a printer that is on was waited for")
		}
		must(t, p.PowerOff())
		ctx, cancel := context.WithTimeout(t.Context(), 1200*time.Millisecond)
		defer cancel()
		if err := p.PowerOn(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Error("the half second was not waited for, and nobody was told:", err)
		}
		must(t, p.PowerOn(t.Context()))
		if got := highs(w.pin[Power]); !slices.Equal(got, []time.Duration{500 * time.Millisecond}) {
			t.Errorf("on for %v", got)
		}
		w.pin[Power].Fail("out", errors.New("broken"), -1)
		if err := p.PowerOff(); err == nil || !slices.Equal(w.codes(), []string{CodeOutput}) {
			t.Error("a power line that fails:", err, w.codes())
		}
		w.pin[Power].Fail("out", nil, 0)
		again := time.Now()
		must(t, p.PowerOn(t.Context()))
		if took := time.Since(again); took < 500*time.Millisecond || len(w.codes()) != 0 {
			t.Errorf("after a failure it is on in %v, faults %v", took, w.codes())
		}
	})
}

// Of adafruit/Python-Thermal-Printer#28: large data came out garbled because nobody obeyed
// the busy line.
func TestBusyLineIsReadAtOnceAndWaitedForByEdge(t *testing.T) {
	for _, waits := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			if !waits {
				w.pin[Busy].Fail("wait", errors.New("broken"), -1)
			}
			w.open(everything())
			p := w.board.Printer()
			if busy, err := p.Busy(); busy || err != nil {
				t.Fatal("an idle printer is busy:", err)
			}
			w.pin[Busy].Bounce(true, 30) // more edges than are kept
			if busy, err := p.Busy(); !busy || err != nil {
				t.Fatal("a busy printer is not:", err)
			}
			began := time.Now()
			go func() {
				time.Sleep(777 * time.Millisecond)
				w.pin[Busy].Drive(false)
			}()
			must(t, p.Idle(t.Context()))
			if took := time.Since(began); took < 777*time.Millisecond || took > 778*time.Millisecond {
				t.Errorf("waits %t: idle after %v", waits, took)
			}
			if n := len(w.pin[Busy].Calls()); n > 2000 {
				t.Errorf("waits %t: %d calls", waits, n)
			}
			w.pin[Busy].Drive(true)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if err := p.Idle(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Error("a printer that stays busy:", err)
			}
		})
	}
}

func TestBusyLineThatCannotBeReadIsAnErrorAndNotIdle(t *testing.T) {
	w := newWorld(t)
	w.pin[Busy].Fail("in", errors.New("broken"), -1)
	w.open(everything())
	if _, err := w.board.Printer().Busy(); err == nil {
		t.Error("nobody knows, and it is taken for idle")
	}
	if got := w.codes(); !slices.Equal(got, []string{CodeInput}) {
		t.Errorf("faults %v", got)
	}
}

func TestBlinkLightsEachLampAloneAndStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.run(everything())
		must(t, w.board.Blink(t.Context(), 300*time.Millisecond))
		for _, p := range []Part{Win, Refuse, Alarm, Buzzer} {
			if got := highs(w.pin[p]); !slices.Equal(got, []time.Duration{300 * time.Millisecond}) {
				t.Errorf("%s on for %v", p, got)
			}
		}
		if len(highs(w.pin[Drawer]))+len(highs(w.pin[Power])) != 0 {
			t.Error("the drawer or the power was switched")
		}
	})
}

func TestConfigurationNamesEverySettingThatCannotWork(t *testing.T) {
	good := everything()
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	if !(Config{}).Empty() || good.Empty() || (Config{}).Validate() != nil {
		t.Error("an empty configuration is none, or the full one is")
	}
	bad := good
	bad.Win.Pin, bad.Refuse, bad.Pay, bad.Tamper.Pull = "drawer", Output{ActiveLow: true}, Input{Pull: PullUp}, "weak"
	bad.DrawerPulse, bad.PowerOff, bad.PowerSettles = 511*time.Millisecond, time.Minute, 499*time.Millisecond
	err := bad.Validate()
	for _, want := range []string{"gpio.drawer.pin, gpio.win.pin", "gpio.refuse", "gpio.pay", "gpio.tamper.pull", "drawer_pulse_ms = 511: want 10 to 510", "power_off_ms", "power_settle_ms = 499"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("does not say %q: %v", want, err)
		}
	}
}

func TestFaultsFitTheClerksTwoLinesAndHaveACodeEach(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range Faults() {
		if seen[f.Code] || !slices.Contains(rank[:], f.Code) || f.Technician == "" {
			t.Errorf("%s: twice, without a rank, or without the technician's words", f.Code)
		}
		seen[f.Code] = true
		for _, text := range []string{f.ClerkFR, f.ClerkEN} {
			lines := strings.Split(text, "\n")
			if len(lines) > 2 || text == "" {
				t.Errorf("%s: %d lines: %q", f.Code, len(lines), text)
			}
			for _, l := range lines {
				if utf8.RuneCountInString(l) > 32 {
					t.Errorf("%s: %d columns: %q", f.Code, utf8.RuneCountInString(l), l)
				}
			}
		}
	}
	if len(seen) != len(rank) {
		t.Errorf("%d faults, %d ranks", len(seen), len(rank))
	}
}

func TestLookNamesTheFaultsAndTouchesNothing(t *testing.T) {
	w := newWorld(t)
	delete(w.pin, Tamper)
	delete(w.pin, Win)
	c := everything()
	c.Drawer.ActiveLow = true
	var codes []string
	for _, f := range Look(c, w.finder()) {
		codes = append(codes, f.Code)
	}
	if !slices.Equal(codes, []string{CodeGlitch, CodeNoLine, CodeNoLine}) {
		t.Errorf("faults %v", codes)
	}
	for p, f := range w.pin {
		if len(f.Calls()) != 0 {
			t.Errorf("%s: %v", p, f.Calls())
		}
	}
}

// A self-test has a board that nobody runs.
func TestCaseIsLookedAtWithoutRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.open(everything())
		for _, want := range []bool{false, true, false} {
			w.pin[Tamper].Drive(!want) // active low
			if open, err := w.board.Case(t.Context()); err != nil || open != want {
				t.Errorf("open %t, want %t: %v", open, want, err)
			}
		}
		w.openWith(Config{}, w.finder())
		if _, err := w.board.Case(t.Context()); !errors.Is(err, ErrNoSwitch) || w.board.Has(Tamper) || w.board.Has(Drawer) {
			t.Error("a switch that is not there:", err)
		}
	})
}
