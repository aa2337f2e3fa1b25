package pins

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"grattoir/configs"
	"grattoir/device/gpio"
	"grattoir/device/health"
	"grattoir/device/printer"
	"grattoir/device/terminal"
)

func wired() configs.Terminal {
	return configs.Terminal{GPIO: configs.GPIO{Busy: configs.InputPin{Pin: "busy", ActiveLow: true}, Power: configs.OutputPin{Pin: "power"},
		Drawer: configs.OutputPin{Pin: "drawer"}, Win: configs.OutputPin{Pin: "win"}, Fault: configs.OutputPin{Pin: "fault"},
		Tamper: configs.InputPin{Pin: "tamper", Pull: "up"}, DrawerPulseMS: 100, PowerOffMS: 300, PowerSettleMS: 700}}
}

func TestPrinterHasItsLinesWhereTheyAreWired(t *testing.T) {
	if c := Printer(nil, printer.Config{}); c.Busy != nil || c.Power != nil {
		t.Error("a terminal with no board has lines")
	}
	synctest.Test(t, func(t *testing.T) {
		busy, power := gpio.NewFake("busy"), gpio.NewFake("power")
		open := func(c configs.Terminal) *gpio.Board {
			return gpio.Open(gpio.Options{Config: Of(c), Find: gpio.Fakes(busy, power), Log: slog.New(slog.DiscardHandler), Faults: func([]*gpio.Fault) {}})
		}
		if c := Printer(open(configs.Terminal{}), printer.Config{}); c.Busy != nil || c.Power != nil {
			t.Error("lines that are not wired")
		}
		c := Printer(open(wired()), printer.Config{Baud: 9600})
		if c.Baud != 9600 || c.Busy == nil || c.Power == nil {
			t.Fatalf("%+v", c)
		}
		busy.Drive(false) // active low
		if is, err := c.Busy(); err != nil || !is {
			t.Error("a busy printer is not:", err)
		}
		began := time.Now()
		if err := c.Power(t.Context(), true); err != nil || time.Since(began) != time.Second || !power.Level() {
			t.Error("power:", err, time.Since(began), power.Level())
		}
		if err := c.Power(t.Context(), false); err != nil || power.Level() {
			t.Error("power off:", err, power.Level())
		}
	})
}

func TestSelfTestReachesThePins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		drawer, win, tamper := gpio.NewFake("drawer"), gpio.NewFake("win"), gpio.NewFake("tamper")
		b := gpio.Open(gpio.Options{Config: Of(wired()), Find: gpio.Fakes(drawer, win, tamper), Log: slog.New(slog.DiscardHandler), Faults: func([]*gpio.Fault) {}})
		printers := false
		bench := Bench(b, health.Bench{Drawer: func(context.Context) error { printers = true; return nil }})
		for step, state := range map[string]health.State{health.TrialDrawer: health.OK, health.TrialLamps: health.OK, health.TrialTamper: health.Fail} {
			if c := bench.Try(t.Context(), step, ""); c.State != state { // the switch is open: nothing pulls it to ground
				t.Errorf("%s: %+v", step, c)
			}
		}
		if printers || len(drawer.Trace()) != 3 || len(win.Trace()) != 3 {
			t.Error("printer's drawer", printers, "pin's", drawer.Trace(), "lamp", win.Trace())
		}
	})
}

func TestDoctorSaysWhatIsWrongWithThePins(t *testing.T) {
	if c := health.Pins(0, nil); c.State != health.Skipped {
		t.Errorf("no pins: %+v", c)
	}
	if c := health.Pins(6, nil); c.State != health.OK {
		t.Errorf("nothing wrong: %+v", c)
	}
	var faults []terminal.Fault
	for _, f := range gpio.Look(Of(wired()), gpio.Fakes(gpio.NewFake("busy"))) {
		faults = append(faults, Fault(f))
	}
	c := health.Pins(6, faults)
	if c.State != health.Fail || c.Fault != gpio.CodeNoLine || strings.Count(c.Detail, "G3") != 5 || !strings.Contains(c.Hint, "drawer") {
		t.Errorf("%+v", c)
	}
}
