package scanner

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// The values of Config.Control: how the program commands the scanner. With
// ControlNone, the default, nothing is ever sent, and every make works.
const (
	ControlNone      = "none"
	ControlHoneywell = "honeywell" // trigger, release and menu queries, for manual trigger mode
	ControlDatalogic = "datalogic" // enable, disable and beeps, one byte each
	ControlGM65      = "gm65"      // trigger of GM65 and GM805 modules, whose answers stand among the scans
	ControlSSI       = "ssi"       // Zebra's Simple Serial Interface: scans in packets with acknowledgement, or plain
)

// Command is what a scanner can be told. Which ones a control has is in the table of Supports.
type Command string

// The commands.
const (
	Enable   Command = "enable"    // read again; each connection begins with it
	Disable  Command = "disable"   // read nothing until Enable, or until the next connection
	BeepGood Command = "beep-good" // the sound of a good read
	BeepBad  Command = "beep-bad"  // another sound; sent by itself for every record that is refused
	Trigger  Command = "trigger"   // begin to read, as if the trigger were pulled
	Release  Command = "release"   // stop reading, as if it were let go
	query    Command = "query"     // see Scanner.Query
)

// What can become of a command.
var (
	ErrNotConnected = errors.New("the scanner is not connected")
	ErrUnsupported  = errors.New("the scanner's control has no such command")
	ErrBusy         = errors.New("too many commands wait for the scanner")
	ErrRefused      = errors.New("the scanner refused the command")
	ErrNoAnswer     = errors.New("the scanner gave no answer")
)

// codec is one control's part of the stream: it takes the scanner's answers out of
// it, gives the rest to the decoder, and makes the frames of commands. It is pure and
// knows no clock but the times it is given, like the decoder.
type codec interface {
	// opened tells of a new connection; stale is how many bytes were dropped at open.
	opened(at time.Time, stale int)
	feed(b []byte, at time.Time) []output
	// tick is called after every read; silent says that it waited and found nothing.
	tick(at time.Time, silent bool) []output
	// frame makes the bytes of a command. With answered the outcome comes as an
	// output's answer, and until then no other command is framed.
	frame(c Command, argument string, at time.Time) (b []byte, answered bool, err error)
	// closed forgets what is under way and returns how many bytes that were.
	closed() int
}

// output is a step of what bytes led to: events are handed on, then write is sent,
// because an acknowledgement says that the scan arrived.
type output struct {
	events []Event
	write  []byte
	answer *answer
}

// answer is the outcome of the command under way.
type answer struct {
	text string
	err  error
}

func eventsOf(e []Event) []output {
	if len(e) == 0 {
		return nil
	}
	return []output{{events: e}}
}

// newCodec is the codec of a control, for a decoder.
func newCodec(control string, d *Decoder) (codec, error) {
	switch control {
	case ControlNone:
		return &plain{d: d}, nil
	case ControlDatalogic:
		return &plain{d: d, bytes: datalogic()}, nil
	case ControlHoneywell:
		return &honeywell{d: d}, nil
	case ControlGM65:
		return &gm65{d: d}, nil
	case ControlSSI:
		return &ssi{d: d}, nil
	}
	return nil, fmt.Errorf("control %q; want none, honeywell, datalogic, gm65 or ssi", control)
}

// Supports reports whether a control has a command.
func Supports(control string, c Command) bool {
	has := map[string][]Command{
		ControlHoneywell: {Trigger, Release, query},
		ControlDatalogic: {Enable, Disable, BeepGood, BeepBad},
		ControlGM65:      {Trigger, Release},
		ControlSSI:       {Enable, Disable, BeepGood, BeepBad, Trigger, Release},
	}
	return slices.Contains(has[control], c)
}

// plain is a stream with no answers in it, and commands of one byte or none at all.
type plain struct {
	d     *Decoder
	bytes map[Command]byte
}

// datalogic are the bytes of Datalogic and PSC scanners (PowerScan, QD2300): E, D and
// B, and the beep that sounds also where the good-read beep is off. R, the reset, is
// not used: after it commands may be ignored for half a minute.
func datalogic() map[Command]byte {
	return map[Command]byte{Enable: 'E', Disable: 'D', BeepGood: 'B', BeepBad: 0x01}
}

func (p *plain) opened(time.Time, int) {}

func (p *plain) feed(b []byte, at time.Time) []output { return eventsOf(p.d.Feed(b, at)) }

func (p *plain) tick(at time.Time, silent bool) []output {
	if !silent {
		return nil
	}
	return eventsOf(p.d.Silence(at))
}

func (p *plain) frame(c Command, _ string, _ time.Time) ([]byte, bool, error) {
	b, ok := p.bytes[c]
	if !ok {
		return nil, false, ErrUnsupported
	}
	return []byte{b}, false, nil
}

func (p *plain) closed() int { return p.d.Reset() }
