package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"grattoir/device/gpio"
	"grattoir/device/health"
	"grattoir/validate/ticket"
)

// TestSelfTestTriesWhatHangsOnPins: the drawer opens once, each lamp is lit and the buzzer
// sounds one after the other, the switch is read; what fails says so.
func TestSelfTestTriesWhatHangsOnPins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		devices, err := makeDevices(b.d.config, nil, ticket.Shipped, b.d.log)
		if err != nil {
			t.Fatal(err)
		}
		b.d.devices = devices
		tools := b.d.bench()
		try := func(step string) health.Check { return tools.Try(t.Context(), step, "GRATTOIR-TEST-ABCDEFGHJK") }

		if c := try(health.TrialDrawer); c.State != health.OK || pulses(b.drawer) != 1 {
			t.Errorf("drawer: %+v, %d pulses", c, pulses(b.drawer))
		}
		if c := try(health.TrialLamps); c.State != health.OK {
			t.Errorf("lamps: %+v", c)
		}
		for _, lamp := range []*gpio.Fake{b.win, b.refuse, b.buzzer} {
			if pulses(lamp) != 1 || lamp.Level() {
				t.Errorf("%s was lit %d times and is %v", lamp.Name(), pulses(lamp), lamp.Level())
			}
		}
		if first, last := litAt(b.win), litAt(b.buzzer); !first.Before(last) {
			t.Errorf("the lamp and the buzzer came at once: %v, %v", first, last)
		}
		if c := try(health.TrialTamper); c.State != health.OK {
			t.Errorf("tamper: %+v", c)
		}
		b.tamper.Drive(true)
		pass(2 * time.Second)
		if c := try(health.TrialTamper); c.State != health.Fail || !strings.Contains(c.Detail, "open") || c.Hint == "" {
			t.Errorf("open case: %+v", c)
		}
		b.win.Fail("out", errors.New("line gone"), -1)
		if c := try(health.TrialLamps); c.State != health.Fail || !strings.Contains(c.Detail, "line gone") {
			t.Errorf("broken lamp: %+v", c)
		}
	})
}

func litAt(f *gpio.Fake) time.Time {
	for _, c := range f.Trace() {
		if c.High {
			return c.At
		}
	}
	return time.Time{}
}

// TestSelfTestCatchesItsMarkAndNothingElse: every other scan goes to the counter.
func TestSelfTestCatchesItsMarkAndNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const mark, other = "GRATTOIR-TEST-ABCDEFGHJK", "GRATTOIR-TEST-ABCDEFGHJL"
		var ear health.Ear
		if ear.Caught(mark) || ear.Caught("") {
			t.Error("a mark was caught that nobody waits for")
		}
		b := ear.Join(health.Bench{})
		done := make(chan health.Check, 1)
		go func() { done <- b.Try(t.Context(), health.TrialScan, mark) }()
		synctest.Wait()
		if ear.Caught(other) || ear.Caught("1003990000123017") {
			t.Error("another code was caught")
		}
		for range 2 { // a hand that scans it twice
			if !ear.Caught(mark) {
				t.Error("the mark was not caught")
			}
		}
		if c := <-done; c.State != health.OK {
			t.Errorf("%+v", c)
		}
		time.Sleep(health.Patience + time.Second)
		if ear.Caught(mark) {
			t.Error("the mark of a test that is over was caught")
		}

		began := time.Now()
		if c := b.Try(t.Context(), health.TrialScan, other); c.State != health.Fail || time.Since(began) != health.Patience {
			t.Errorf("%+v after %s", c, time.Since(began))
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if c := b.Try(gone, health.TrialScan, other); c.State != health.Fail {
			t.Errorf("%+v", c)
		}
	})
}
