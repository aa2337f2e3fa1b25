package health

import (
	"strings"

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
