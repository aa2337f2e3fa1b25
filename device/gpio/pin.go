// Package gpio owns the terminal's single wires: the drawer's coil, the lamps and the
// buzzer, the tamper switch, the pay button, the printer's busy and power lines. It puts
// every output to its idle level before it does anything else, and again when it stops.
// It decides nothing: lamps follow the counter's verdict, and the button only passes a
// press on for the verdict that it was made for.
//
// Start at Open, which takes a Config of names and gives a Board. host.go finds the wires
// of Raspberry Pi 3, 4 and 5 through the periph library; line.go is the one place that
// touches a pin, because the library's pins have traps; Fake has the same traps.
package gpio

import (
	"errors"
	"fmt"
	"sync"
	"time"

	periph "periph.io/x/conn/v3/gpio"
)

// Pin is one wire as the periph library (conn v3.7.3, host v3.8.5) gives it, its ways
// included. Those of its character device, which is all that a Pi 5 has:
//
//   - the first Out makes the line an output that is low, and only then sets the level;
//   - Read of an output turns it into an input with a pull-up, and a Read that fails says Low;
//   - WaitForEdge takes 0 as for ever, and a negative time as over; it says false at once
//     when anything fails;
//   - In does not drop the edges that wait, and the kernel keeps 16 of them, the newest.
//
// The library's Halt is not here: it only moves the deadline of a wait that has begun, and
// races with its beginning. Waits are kept short instead.
type Pin interface {
	Name() string
	In(pull periph.Pull, edge periph.Edge) error
	Out(l periph.Level) error
	Read() periph.Level
	WaitForEdge(timeout time.Duration) bool
}

// Found is a pin and what must be known of it.
type Found struct {
	Pin  Pin
	Chip string // label of its chip
	// Glitches says that the line is low for a moment when it becomes an output.
	Glitches bool
}

// Finder finds a pin by its name: "GPIO17" on a Raspberry Pi, any line's own name
// elsewhere. Transient asks for a pin that the kernel takes back when the program dies
// (on kernels that do: see README.md). Its errors are *Fault.
type Finder func(name string, transient bool) (Found, error)

// direction is what a line was made.
type direction uint8

const (
	unclaimed direction = iota
	input
	output
)

// kernelQueue is how many edges the kernel keeps for a line: 16, of which the oldest goes
// when one more comes (linux/gpio.h, event_buffer_size).
const kernelQueue = 16

// errNotInput keeps a Read from turning an output round.
var errNotInput = errors.New("the line is no input: reading it would make it one")

// line touches a pin, and only in the ways that mean what they say. Level and drive may
// be called from any goroutine; listen and wait from one.
type line struct {
	Found
	name string // as configured
	mu   sync.Mutex
	is   direction
}

// drive makes the line an output of this level.
func (l *line) drive(high bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.is = output
	if err := l.Pin.Out(periph.Level(high)); err != nil {
		return fmt.Errorf("%s cannot be set: %w", l.name, busyHint(err))
	}
	return nil
}

// listen makes the line an input that tells of both edges.
func (l *line) listen(p Pull) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.is = unclaimed
	if err := l.Pin.In(p.periph(), periph.BothEdges); err != nil {
		return fmt.Errorf("%s cannot be an input: %w", l.name, busyHint(err))
	}
	l.is = input
	return nil
}

// high is the level of an input. Of anything else it is an error, never a guess.
func (l *line) high() (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.is != input {
		return false, fmt.Errorf("%s: %w", l.name, errNotInput)
	}
	return bool(l.Pin.Read()), nil
}

// wait is at an end after an edge, or after at most this time. Edges get lost and old ones
// stay: whoever waited looks at the level.
func (l *line) wait(most time.Duration) (edge bool) {
	return l.Pin.WaitForEdge(max(most, time.Millisecond)) // 0 would be for ever
}

// drain drops the edges that wait.
func (l *line) drain() {
	for range kernelQueue {
		if !l.wait(time.Millisecond) {
			return
		}
	}
}

// Pull is the resistor of an input inside the processor.
type Pull string

// With no Pull an input gets the one that keeps it inactive while nothing is connected.
const (
	PullUp   Pull = "up"
	PullDown Pull = "down"
	PullNone Pull = "none" // there is a resistor outside, or whatever is there drives the line
)

func (p Pull) periph() periph.Pull {
	switch p {
	case PullUp:
		return periph.PullUp
	case PullDown:
		return periph.PullDown
	}
	return periph.Float
}
