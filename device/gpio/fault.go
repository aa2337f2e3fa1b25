package gpio

import (
	"errors"
	"fmt"
	"syscall"
)

// The codes of faults. They are shown, read out by phone and searched for, so a code
// never changes its meaning.
const (
	CodeNone       = "G1"  // the machine has no GPIO
	CodePermission = "G2"  // this program may not open it
	CodeNoLine     = "G3"  // no line of the configured name, or another program has it
	CodeOutput     = "G4"  // an output cannot be switched
	CodeDrawer     = "G5"  // the drawer's coil cannot be switched off
	CodeInput      = "G6"  // an input cannot be watched
	CodeOpen       = "G7"  // the case is open
	CodeOpened     = "G8"  // the case was opened since the start
	CodeStuck      = "G9"  // the pay button does not come up
	CodeGlitch     = "G10" // an active-low output that this machine cannot hold idle
)

// Fault is something about a wire that a person has to do something about. A clerk's text
// is at most two lines of 32 columns. None of them stops payments.
type Fault struct {
	Code       string // G1 to G10
	ClerkFR    string
	ClerkEN    string
	Technician string
	Err        error // the cause; nil for what a switch says
}

// Error is one line for the log.
func (f *Fault) Error() string {
	if f.Err != nil {
		return "gpio " + f.Code + ": " + f.Err.Error()
	}
	return "gpio " + f.Code + ": " + f.Technician
}

// Unwrap returns the cause.
func (f *Fault) Unwrap() error { return f.Err }

// Faults are all faults this package names, by code, for the guide and for tests.
func Faults() []*Fault {
	// With an example where the fault names a device or a line.
	return []*Fault{noGPIO("", nil), noPermission("/dev/gpiochip0", nil), noLine("GPIO23", "terminalctl status says which lines are", nil), outputFault(Win, nil), drawerFault(nil),
		inputFault(Pay, nil), caseOpen(), caseOpened(), stuckButton(), glitchFault(Drawer, "GPIO22")}
}

func noGPIO(looked string, err error) *Fault {
	return &Fault{CodeNone, "Voyants, tiroir et bouton\nabsents. Le reste marche.", "Lamps, drawer and button are\nmissing. The rest works.",
		"this machine has no GPIO" + looked + ": take [gpio] out of the configuration, or use a Raspberry Pi 3, 4 or 5; everything else works", err}
}

func noPermission(path string, err error) *Fault {
	return &Fault{CodePermission, "Voyants, tiroir et bouton\nbloqués. Appelez l'assistance.", "Lamps, drawer, button blocked.\nCall support.",
		"the GPIO device " + path + " may not be opened: put the service's user into the group gpio, then restart terminald", err}
}

func noLine(name, there string, err error) *Fault {
	return &Fault{CodeNoLine, "Un voyant, tiroir ou bouton\nest introuvable : assistance.", "A lamp, drawer or button is\nnot found. Call support.",
		"the line " + name + " of [gpio] is not here or not free: " + there, err}
}

func outputFault(p Part, err error) *Fault {
	return &Fault{CodeOutput, "Un voyant ou son ne marche pas.\nLisez l'écran.", "A lamp or sound does not work.\nRead the screen.",
		"the output for " + string(p) + " cannot be switched: look for another program on the line; tried again by itself", err}
}

func drawerFault(err error) *Fault {
	return &Fault{CodeDrawer, "Tiroir bloqué : débranchez-le.\nAppelez l'assistance.", "Drawer stuck: unplug it.\nCall support.",
		"the drawer's coil could not be switched off: unplug the drawer at once, a coil burns after seconds; then look at the transistor and its pull-down", err}
}

func inputFault(p Part, err error) *Fault {
	return &Fault{CodeInput, "Un bouton ne répond pas bien.\nUtilisez l'écran.", "A button does not react well.\nUse the screen.",
		"the input for " + string(p) + " cannot be watched, or its level never rests: look for a loose wire and a missing resistor; it is looked at less often meanwhile", err}
}

func caseOpen() *Fault {
	return &Fault{CodeOpen, "Boîtier ouvert : refermez-le.\nPrévenez l'assistance.", "The case is open: close it.\nTell support.",
		"the tamper switch says that the case is open: close it, and look at the switch and its wire", nil}
}

func caseOpened() *Fault {
	return &Fault{CodeOpened, "Le boîtier a été ouvert.\nPrévenez l'assistance.", "The case has been opened.\nTell support.",
		"the case was open since terminald started, see its log for when: inspect the terminal, then restart terminald", nil}
}

func stuckButton() *Fault {
	return &Fault{CodeStuck, "Bouton PAYER coincé.\nUtilisez l'écran.", "The PAY button is stuck.\nUse the screen.",
		"the pay button is down and stays down: look for a stuck key or a short; presses on the page work", nil}
}

func glitchFault(p Part, name string) *Fault {
	return &Fault{CodeGlitch, "Tiroir ou imprimante à recâbler.\nAppelez l'assistance.", "Drawer or printer wiring: call\nsupport.",
		"the output for " + string(p) + " on " + name + " is configured active_low, and here a line is low for a moment when it becomes an output, which would switch it on: wire it active-high with a pull-down, and take active_low out",
		fmt.Errorf("%s: an active-low output for %s is refused on this line", name, p)}
}

// busyHint adds what EBUSY means here.
func busyHint(err error) error {
	if errors.Is(err, syscall.EBUSY) {
		return fmt.Errorf("another program or a kernel driver has the line (gpioinfo says which): %w", err)
	}
	return err
}
