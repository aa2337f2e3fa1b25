package health

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"grattoir/device/gpio"
	"grattoir/device/terminal"
)

// Pins is the check of a board's pins: faults are what is wrong with them, by whoever has
// looked; n is how many the configuration names.
func Pins(n int, faults []terminal.Fault) Check {
	c := About(CheckGPIO)
	switch {
	case len(faults) > 0:
		var said []string
		for _, f := range faults {
			said = append(said, f.Code+": "+oneLine(f.ClerkEN))
		}
		c = c.fail(faults[0].Technician, "%s", strings.Join(said, "; "))
		c.Fault = faults[0].Code
		return c
	case n == 0:
		return c.Skip("the configuration names no pin")
	}
	return c.ok("%s can be used", count(n, "pin", "pins"))
}

// PinNames are the names of the pins that are configured.
func PinNames(c gpio.Config) (names []string) {
	for _, name := range []string{c.Busy.Pin, c.Power.Pin, c.Drawer.Pin, c.Win.Pin, c.Refuse.Pin, c.Alarm.Pin, c.Buzzer.Pin, c.Tamper.Pin, c.Pay.Pin} {
		if name != "" {
			names = append(names, name)
		}
	}
	return names
}

// LookForPins finds each configured pin and takes none: what is driven stays as it is.
func LookForPins(c gpio.Config, find gpio.Finder) (faults []terminal.Fault) {
	seen := map[string]bool{}
	for _, name := range PinNames(c) {
		_, err := find(name, false)
		f, is := errors.AsType[*gpio.Fault](err)
		if err != nil && !is {
			f = &gpio.Fault{Code: gpio.CodeNoLine, ClerkEN: "A pin cannot be used.", Technician: err.Error()}
		}
		if err != nil && !seen[f.Code+f.Technician] {
			seen[f.Code+f.Technician] = true
			faults = append(faults, terminal.Fault{Code: f.Code, ClerkFR: f.ClerkFR, ClerkEN: f.ClerkEN, Technician: f.Technician})
		}
	}
	return faults
}

// litFor is how long each lamp is lit for a technician who looks on.
const litFor = 700 * time.Millisecond

// JoinPins gives a bench the parts that hang on pins. A drawer at a pin takes the place of
// the one at the printer's socket.
func JoinPins(b Bench, board *gpio.Board, c gpio.Config) Bench {
	if board.HasDrawer() {
		b.Drawer = board.OpenDrawer
	}
	if c.Win.Pin+c.Refuse.Pin+c.Alarm.Pin+c.Buzzer.Pin != "" {
		b.Lamps = func(ctx context.Context) error { return board.Blink(ctx, litFor) }
	}
	if c.Tamper.Pin != "" {
		b.Tamper = func(context.Context) (bool, error) {
			open, known := board.CaseOpen()
			if !known {
				return false, fmt.Errorf("the switch at %s has not been read", c.Tamper.Pin)
			}
			return open, nil
		}
	}
	return b
}
