package sim

import (
	"bytes"
	"time"
)

// The control bytes of ESC/POS.
const (
	eot = 0x04
	enq = 0x05
	lf  = 0x0A
	cr  = 0x0D
	ht  = 0x09
	dle = 0x10
	dc4 = 0x14
	esc = 0x1B
	fs  = 0x1C
	gs  = 0x1D
)

// realTime finds real-time commands in the stream as it arrives. It does not know
// what is data: as in a real printer, a command inside a raster image is obeyed.
type realTime struct {
	part    []byte // of a command begun
	noPulse bool   // DLE DC4 1 switched off by GS ( D, until ESC @
}

// clearBuffer is DLE DC4 8 with its fixed parameters.
var clearBuffer = [...]byte{dle, dc4, 8, 1, 3, 20, 1, 6, 2, 8}

// feed takes the next byte and returns the command it completes, or nil.
func (r *realTime) feed(c byte) []byte {
	r.part = append(r.part, c)
	for len(r.part) > 0 {
		switch full, possible := realTimeCommand(r.part); {
		case full:
			cmd := r.part
			r.part = nil
			return cmd
		case possible:
			return nil
		}
		r.part = r.part[1:] // not the beginning of one: look from the next byte
	}
	r.part = nil
	return nil
}

// realTimeCommand reports whether b is a whole command, or may become one.
func realTimeCommand(b []byte) (full, possible bool) {
	switch b[0] {
	case gs: // GS ( D 3 0 20 fn on: switches real-time commands
		head := []byte{gs, '(', 'D', 3, 0, 20}
		n := min(len(b), len(head))
		return len(b) == 8, bytes.Equal(b[:n], head[:n])
	case esc: // ESC @ switches them on again
		return len(b) == 2 && b[1] == '@', len(b) == 1
	case dle:
	default:
		return false, false
	}
	switch {
	case len(b) == 1:
		return false, true
	case b[1] == eot || b[1] == enq:
		return len(b) == 3, true
	case b[1] != dc4:
		return false, false
	case len(b) == 2 || b[2] == 1 || b[2] == 2: // pulse, power off
		return len(b) == 5, true
	}
	n := min(len(b), len(clearBuffer))
	return len(b) == len(clearBuffer), bytes.Equal(b[:n], clearBuffer[:n])
}

// obey acts on a real-time command and returns the answer. Called with mu held.
func (p *Printer) obey(cmd []byte) []byte {
	switch {
	case cmd[0] == esc:
		p.real.noPulse = false
	case cmd[0] == gs:
		if cmd[6] == 1 {
			p.real.noPulse = cmd[7]&1 == 0
		}
	case cmd[1] == eot:
		if b, ok := realTimeStatus(p.state, cmd[2]); ok {
			return []byte{b}
		}
	case cmd[1] == enq && p.state.CutterError && (cmd[2] == 1 || cmd[2] == 2):
		// Recovery works for an error of the cutter only, and is ignored otherwise.
		p.state.CutterError = false
		if cmd[2] == 2 {
			p.clear()
		}
		return p.statusChange()
	case cmd[1] == dc4 && cmd[2] == 1:
		if !p.real.noPulse {
			p.kick(Pulse{Pin: int(cmd[3] & 1), On: time.Duration(cmd[4]) * 100 * time.Millisecond, RealTime: true})
		}
	case cmd[1] == dc4 && cmd[2] == 8:
		p.clear()
		return []byte{0x37, 0x25, 0}
	}
	return nil
}

// realTimeStatus is the answer to DLE EOT n: 0xx1xx10 with the bits of the state.
func realTimeStatus(s State, n byte) (byte, bool) {
	b := byte(0x12)
	set := func(on bool, bits byte) {
		if on {
			b |= bits
		}
	}
	switch n {
	case 1:
		set(s.DrawerOpen, 1<<2)
		set(s.offline(), 1<<3)
	case 2:
		set(s.CoverOpen, 1<<2)
		set(s.PaperEnd, 1<<5)
		set(s.CutterError || s.HeadHot || s.Broken, 1<<6)
	case 3:
		set(s.CutterError, 1<<3)
		set(s.Broken, 1<<5)
		set(s.HeadHot, 1<<6)
	case 4:
		set(s.PaperNearEnd || s.PaperEnd, 3<<2)
		set(s.PaperEnd, 3<<5)
	default:
		return 0, false
	}
	return b, true
}

// autoStatus is the four bytes of the automatic status (GS a).
func autoStatus(s State) [4]byte {
	b := [4]byte{0x10, 0, 0, 0}
	if s.DrawerOpen {
		b[0] |= 1 << 2
	}
	if s.offline() {
		b[0] |= 1 << 3
	}
	if s.CoverOpen {
		b[0] |= 1 << 5
	}
	if s.CutterError {
		b[1] |= 1 << 3
	}
	if s.Broken {
		b[1] |= 1 << 5
	}
	if s.HeadHot {
		b[1] |= 1 << 6
	}
	if s.PaperNearEnd || s.PaperEnd {
		b[2] |= 3
	}
	if s.PaperEnd {
		b[2] |= 3 << 2
	}
	return b
}

// queuedStatus is the answer to GS r n, given in turn with the data.
func queuedStatus(s State, n byte) (byte, bool) {
	switch n {
	case 1, 49:
		var b byte
		if s.PaperNearEnd {
			b |= 3
		}
		if s.PaperEnd {
			b |= 3 << 2
		}
		return b, true
	case 2, 50:
		if s.DrawerOpen {
			return 1, true
		}
		return 0, true
	}
	return 0, false
}
