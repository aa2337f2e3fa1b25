package printer

import (
	"errors"
	"fmt"
)

// Fault is something a person has to do about the printer. Its code is printed in
// the technician's guide and read out by phone. A clerk's text is at most two
// lines of 32 columns.
type Fault struct {
	Code       string // P1 to P13
	Stops      bool   // false: slips still come out (the roll is nearly used up)
	ClerkFR    string
	ClerkEN    string
	Technician string
	Err        error // what the system said, or nil
}

// Error is the fault for a log.
func (f Fault) Error() string {
	if f.Err != nil {
		return fmt.Sprintf("printer fault %s: %s: %v", f.Code, f.Technician, f.Err)
	}
	return fmt.Sprintf("printer fault %s: %s", f.Code, f.Technician)
}

// Unwrap gives the system's error.
func (f Fault) Unwrap() error { return f.Err }

// Faults are all faults this package names, by code, for the guide and for tests.
func Faults() []Fault {
	return []Fault{
		notConnected(nil), paperOut(), coverOpen(), cutterJam(), broken(), headHot(),
		offline(), silent(nil), stalled(nil), paperLow(), busy(nil),
		busyLine(), pinBroken(nil),
	}
}

func notConnected(err error) Fault {
	return Fault{"P1", true, "Imprimante débranchée.\nVérifiez câble et alimentation.", "Printer not connected.\nCheck cable and power.",
		"the printer's device cannot be opened: check the cable, the adapter and the path in the configuration", err}
}

func paperOut() Fault {
	return Fault{"P2", true, "Plus de papier.\nMettez un rouleau.", "Out of paper.\nLoad a roll.",
		"paper end sensor: check the roll, then its direction, then the sensor for dust", nil}
}

func coverOpen() Fault {
	return Fault{"P3", true, "Capot ouvert.\nFermez l'imprimante.", "Cover open.\nClose the printer.",
		"cover switch: press both sides of the cover down; a worn roll axle keeps it open", nil}
}

func cutterJam() Fault {
	return Fault{"P4", true, "Massicot bloqué.\nOuvrez, ôtez le papier, fermez.", "Cutter jammed.\nOpen, remove paper, close.",
		"cutter error: free the blade by hand with the power off", nil}
}

func broken() Fault {
	return Fault{"P5", true, "Imprimante en panne.\nÉteignez puis rallumez-la.", "Printer error.\nSwitch it off and on.",
		"error that the printer cannot clear: power cycle, then replace the unit", nil}
}

func headHot() Fault {
	return Fault{"P6", true, "Imprimante trop chaude.\nPatientez.", "Printer too hot.\nPlease wait.",
		"head too hot, goes on by itself: check air around the unit and the supply voltage", nil}
}

func offline() Fault {
	return Fault{"P7", true, "Imprimante en pause.\nAppuyez sur son bouton.", "Printer paused.\nPress its button.",
		"the printer is offline and names no cause: feed button held, self-test, or waiting to recover", nil}
}

func silent(err error) Fault {
	return Fault{"P8", true, "L'imprimante ne répond pas.\nEst-elle allumée ?", "Printer does not answer.\nIs it switched on?",
		"status request unanswered: power, speed of the line, crossed cable; a model or cable that never answers needs a generic profile", err}
}

func stalled(err error) Fault {
	return Fault{"P9", true, "Imprimante bloquée.\nVérifiez papier et capot.", "Printer blocked.\nCheck paper and cover.",
		"the printer takes no more data and names no cause: flow control switch, paper, cover", err}
}

func paperLow() Fault {
	return Fault{"P10", false, "Bientôt plus de papier.\nPréparez un rouleau.", "Paper is running out.\nHave a roll ready.",
		"near-end sensor: adjust it to the roll's core if it comes too early", nil}
}

func busy(err error) Fault {
	return Fault{"P11", true, "Impression en cours.\nPatientez.", "Still printing.\nPlease wait.",
		"another slip was still in the printer when the time for this one was over", err}
}

func busyLine() Fault {
	return Fault{"P12", true, "Imprimante occupée.\nVérifiez papier et capot.", "Printer is busy.\nCheck paper and cover.",
		"the busy line says wait for longer than a full buffer takes to print: paper, cover, power, then the wire, its pull-up and the pin's polarity", nil}
}

func pinBroken(err error) Fault {
	return Fault{"P13", true, "Borne de l'imprimante en panne.\nAppelez le technicien.", "The printer's pin fails.\nCall the technician.",
		"the pin of the printer's busy or power line cannot be read or set: see the pins in the configuration and what keeps them from this program", err}
}

// fault is the worst thing the sensors say, or nil. With the cover open the paper
// sensor hangs in the air and lies, so the cover comes before the paper.
func (s sensors) fault() *Fault {
	var f Fault
	switch {
	case s.fatal:
		f = broken()
	case s.cover:
		f = coverOpen()
	case s.paperEnd || s.stoppedEnd:
		f = paperOut()
	case s.cutter:
		f = cutterJam()
	case s.hot:
		f = headHot()
	case s.mechanical:
		f = broken()
	case s.offline || s.feeding:
		f = offline()
	case s.paperLow:
		f = paperLow()
	default:
		return nil
	}
	return &f
}

// Held means that the slip is not out and why. With NothingSent no byte of it
// left this program: it may be printed later as the first copy.
type Held struct {
	Cause       Fault
	NothingSent bool
}

// Error says whether bytes were sent.
func (h *Held) Error() string {
	if h.NothingSent {
		return "slip held, nothing was sent: " + h.Cause.Error()
	}
	return "slip held inside the printer: " + h.Cause.Error()
}

// Unwrap gives the Fault.
func (h *Held) Unwrap() error { return h.Cause }

// Unknown means that nobody can tell whether the slip came out, or will: bytes
// were sent and the printer never said how it ended. It may lie on the counter,
// or come out when paper is loaded. Any further copy must be marked DUPLICATA.
type Unknown struct {
	Sent, Total int // bytes of the job that left this program, of how many
	Err         error
}

// Error says how much was sent and what ended the wait.
func (u *Unknown) Error() string {
	return fmt.Sprintf("slip may or may not be printed, %d of %d bytes sent: ask the operator to look, and mark any further copy DUPLICATA: %v", u.Sent, u.Total, u.Err)
}

// Unwrap gives what ended the wait.
func (u *Unknown) Unwrap() error { return u.Err }

// errNoAnswer is a status request without answer, within its time.
var errNoAnswer = errors.New("no answer to the status request")
