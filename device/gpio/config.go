package gpio

import (
	"errors"
	"fmt"
	"time"
)

// Part names what hangs on a wire, as the configuration does.
type Part string

// The parts.
const (
	Busy   Part = "busy"   // the printer's busy (DTR) line
	Power  Part = "power"  // switches the printer's supply
	Drawer Part = "drawer" // the transistor of the drawer's coil
	Win    Part = "win"    // lamps
	Refuse Part = "refuse"
	Alarm  Part = "fault"
	Buzzer Part = "buzzer"
	Tamper Part = "tamper" // active while the case is open
	Pay    Part = "pay"    // the button
)

// Input is one input. With no Pin there is none.
type Input struct {
	Pin       string // "GPIO17", or a line's own name
	ActiveLow bool   // low means pressed, open, busy
	Pull      Pull   // "" is the one that keeps it inactive
}

func (i Input) pull() Pull {
	switch {
	case i.Pull != "":
		return i.Pull
	case i.ActiveLow:
		return PullUp
	}
	return PullDown
}

// Output is one output. With no Pin there is none.
type Output struct {
	Pin       string
	ActiveLow bool // low switches it on
}

// Config says which wire is what.
type Config struct {
	Busy         Input
	Power        Output
	Drawer       Output
	Win          Output
	Refuse       Output
	Alarm        Output
	Buzzer       Output
	Tamper       Input
	Pay          Input
	DrawerPulse  time.Duration // default 200 ms, 10 to 510 ms
	PowerOff     time.Duration // how long the printer is off before it is switched on: default 1 s, up to 10 s
	PowerSettles time.Duration // from power to the first byte: default and least 500 ms, up to 10 s
}

// The limits of a drawer's coil, of 24 ohm at 24 V, as makers of printers print them
// (Citizen CT-S310II, Epson TM-T20): a pulse of at most 510 ms, and a pause of four times
// the pulse. Small printers want half a second between power and the first byte (the
// CSN-A2 family).
const (
	longestPulse = 510 * time.Millisecond
	pausePulses  = 4
	leastSettle  = 500 * time.Millisecond
)

func (c Config) withDefaults() Config {
	if c.DrawerPulse == 0 {
		c.DrawerPulse = 200 * time.Millisecond
	}
	if c.PowerOff == 0 {
		c.PowerOff = time.Second
	}
	if c.PowerSettles == 0 {
		c.PowerSettles = leastSettle
	}
	return c
}

func (c Config) inputs() map[Part]Input {
	return map[Part]Input{Busy: c.Busy, Tamper: c.Tamper, Pay: c.Pay}
}

func (c Config) outputs() map[Part]Output {
	return map[Part]Output{Drawer: c.Drawer, Power: c.Power, Win: c.Win, Refuse: c.Refuse, Alarm: c.Alarm, Buzzer: c.Buzzer}
}

// order is the one in which outputs become idle, the one that can do harm first.
var order = [...]Part{Drawer, Power, Buzzer, Win, Refuse, Alarm}

// Empty says that no wire is configured: then nothing looks for GPIO.
func (c Config) Empty() bool { return c.Count() == 0 }

// Count is how many wires are configured.
func (c Config) Count() (n int) {
	for _, i := range c.inputs() {
		if i.Pin != "" {
			n++
		}
	}
	for _, o := range c.outputs() {
		if o.Pin != "" {
			n++
		}
	}
	return n
}

// Validate refuses a configuration that cannot work, naming each setting.
func (c Config) Validate() error {
	c = c.withDefaults()
	var errs []error
	by := map[string]Part{}
	taken := func(p Part, pin string) {
		if other, there := by[pin]; there && pin != "" {
			errs = append(errs, fmt.Errorf("gpio.%s.pin, gpio.%s.pin: both are %q; each has a line of its own", min(p, other), max(p, other), pin))
		}
		by[pin] = p
	}
	for _, p := range []Part{Busy, Tamper, Pay} {
		i := c.inputs()[p]
		taken(p, i.Pin)
		switch i.Pull {
		case "", PullUp, PullDown, PullNone:
		default:
			errs = append(errs, fmt.Errorf("gpio.%s.pull = %q: want up, down or none", p, i.Pull))
		}
		if i.Pin == "" && (i.ActiveLow || i.Pull != "") {
			errs = append(errs, fmt.Errorf("gpio.%s: it has settings and no pin; name one, as \"GPIO17\"", p))
		}
	}
	for _, p := range order {
		o := c.outputs()[p]
		taken(p, o.Pin)
		if o.Pin == "" && o.ActiveLow {
			errs = append(errs, fmt.Errorf("gpio.%s: it has settings and no pin; name one, as \"GPIO17\"", p))
		}
	}
	within := func(name string, d, least, most time.Duration) {
		if d < least || d > most {
			errs = append(errs, fmt.Errorf("gpio.%s = %d: want %d to %d", name, d.Milliseconds(), least.Milliseconds(), most.Milliseconds()))
		}
	}
	within("drawer_pulse_ms", c.DrawerPulse, 10*time.Millisecond, longestPulse)
	within("power_off_ms", c.PowerOff, 100*time.Millisecond, 10*time.Second)
	within("power_settle_ms", c.PowerSettles, leastSettle, 10*time.Second)
	return errors.Join(errs...)
}
