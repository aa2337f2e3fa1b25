// Package pins joins the board's pins to what the programs share: the configuration, the
// printer, the self-test and the doctor. It holds no rule of them; see device/gpio.
package pins

import (
	"context"
	"time"

	"grattoir/configs"
	"grattoir/device/gpio"
	"grattoir/device/health"
	"grattoir/device/printer"
	"grattoir/device/terminal"
)

// Of is the configuration of the pins.
func Of(c configs.Terminal) gpio.Config {
	in := func(p configs.InputPin) gpio.Input {
		return gpio.Input{Pin: p.Pin, ActiveLow: p.ActiveLow, Pull: gpio.Pull(p.Pull)}
	}
	out := func(p configs.OutputPin) gpio.Output { return gpio.Output{Pin: p.Pin, ActiveLow: p.ActiveLow} }
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	g := c.GPIO
	return gpio.Config{Busy: in(g.Busy), Power: out(g.Power), Drawer: out(g.Drawer), Win: out(g.Win), Refuse: out(g.Refuse), Alarm: out(g.Fault),
		Buzzer: out(g.Buzzer), Tamper: in(g.Tamper), Pay: in(g.Pay),
		DrawerPulse: ms(g.DrawerPulseMS), PowerOff: ms(g.PowerOffMS), PowerSettles: ms(g.PowerSettleMS)}
}

// Machine finds the pins of this machine; nil where the configuration names none. It comes
// before any file is opened: see gpio.OpenMachine.
func Machine(c configs.Terminal) gpio.Finder {
	if Of(c).Empty() {
		return nil
	}
	return gpio.OpenMachine().Find
}

// Printer gives a printer its busy and power lines, where they are wired. The board may be nil.
func Printer(b *gpio.Board, c printer.Config) printer.Config {
	if b != nil {
		c.Busy, c.Power = b.Printer().Lines()
	}
	return c
}

// blink is how long a lamp is lit for a technician.
const blink = 400 * time.Millisecond

// Bench adds the pins to a self-test: the drawer in the place of the printer's, lamps and
// tamper switch. The board may be nil.
func Bench(b *gpio.Board, bench health.Bench) health.Bench {
	if b == nil {
		return bench
	}
	if b.Has(gpio.Drawer) {
		bench.Drawer = b.OpenDrawer
	}
	if b.Has(gpio.Win) || b.Has(gpio.Refuse) || b.Has(gpio.Alarm) || b.Has(gpio.Buzzer) {
		bench.Lamps = func(ctx context.Context) error { return b.Blink(ctx, blink) }
	}
	if b.Has(gpio.Tamper) {
		bench.Tamper = b.Case
	}
	return bench
}

// Fault is a fault as the counter shows it, with its cause for the technician.
func Fault(f *gpio.Fault) terminal.Fault {
	t := terminal.Fault{Code: f.Code, ClerkFR: f.ClerkFR, ClerkEN: f.ClerkEN, Technician: f.Technician}
	if f.Err != nil {
		t.Technician += " (" + f.Err.Error() + ")"
	}
	return t
}
