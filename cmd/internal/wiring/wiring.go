// Package wiring turns the configuration into what devices are made of, for the programs
// that open them: the daemon, and terminalctl when that is down. It opens nothing.
package wiring

import (
	"time"

	"grattoir/configs"
	"grattoir/device/gpio"
)

// Pins is the configuration of the pins.
func Pins(c configs.Terminal) gpio.Config {
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
