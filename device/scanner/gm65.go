package scanner

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"time"
)

// gm65 speaks to GM65 and GM805 modules (Waveshare, Grow): a command writes a setting
// zone of the module, and the answer of some bytes comes in the same stream, just
// before the scan it triggered. Taken for data, its last two bytes are "31" in front
// of a ticket's code. Frames and zones: GM65-S manual; the driver in specter-diy.
type gm65 struct {
	d      *Decoder
	held   []byte // may be the beginning of an answer
	heldAt time.Time
	until  time.Time // the command under way is given up, zero for none
}

const (
	gmWrite     = 0x08 // type of a command that writes a zone
	gmTrigger   = 2    // zone: bit 0 begins a read in command mode
	gmPatience  = 2 * time.Second
	gmOverhead  = 6 // bytes of an answer without its data
	gmLongest   = 8 // bytes of data in an answer that is looked for
	gmGoodReply = 0x00
)

// gmCommand frames a write of one byte to a zone: head, type, length, address, data, check.
func gmCommand(zone uint16, value byte) []byte {
	b := []byte{0x7E, 0x00, gmWrite, 1, byte(zone >> 8), byte(zone), value}
	return binary.BigEndian.AppendUint16(b, crcXModem(b[2:]))
}

// crcXModem is CRC-16/XMODEM: polynomial 0x1021, start 0, nothing reflected. Modules
// also take AB CD for "do not check", which would let a damaged command through.
func crcXModem(b []byte) uint16 {
	var crc uint16
	for _, c := range b {
		crc ^= uint16(c) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return crc
}

func (g *gm65) opened(time.Time, int) {}

func (g *gm65) frame(c Command, _ string, at time.Time) ([]byte, bool, error) {
	var value byte
	switch c {
	case Trigger:
		value = 1
	case Release:
	default:
		return nil, false, ErrUnsupported
	}
	g.until = at.Add(gmPatience)
	return gmCommand(gmTrigger, value), true, nil
}

// feed takes answers out of the stream wherever they stand, also a late one and
// several in a row.
func (g *gm65) feed(b []byte, at time.Time) []output {
	var out []output
	for _, c := range b {
		g.held, g.heldAt = append(g.held, c), at
		for len(g.held) > 0 {
			whole, possible := gmAnswer(g.held)
			if whole {
				out = append(out, g.answered(g.held[2])...)
				g.held = g.held[:0]
			}
			if possible {
				break
			}
			out = append(out, eventsOf(g.d.Feed(g.held[:1], at))...)
			g.held = g.held[1:]
		}
	}
	return out
}

// gmAnswer reports whether b is an answer, or could become one.
func gmAnswer(b []byte) (whole, possible bool) {
	head := []byte{stx, 0x00, gmGoodReply}
	if !bytes.HasPrefix(b, head[:min(len(b), len(head))]) {
		return false, false
	}
	if len(b) <= len(head) {
		return false, true
	}
	size := int(b[3])
	if size < 1 || size > gmLongest {
		return false, false
	}
	if len(b) < gmOverhead+size {
		return false, true
	}
	good := crcXModem(b[2:4+size]) == binary.BigEndian.Uint16(b[4+size:])
	return good, good
}

func (g *gm65) answered(kind byte) []output {
	if g.until.IsZero() {
		return nil
	}
	g.until = time.Time{}
	var err error
	if kind != gmGoodReply {
		err = fmt.Errorf("answer of type %d: %w", kind, ErrRefused)
	}
	return []output{{answer: &answer{err: err}}}
}

func (g *gm65) tick(at time.Time, silent bool) []output {
	var out []output
	if silent {
		if len(g.held) > 0 && at.Sub(g.heldAt) >= g.d.idle { // no answer after all
			out = eventsOf(g.d.Feed(g.held, g.heldAt))
			g.held = g.held[:0]
		}
		if len(g.held) == 0 {
			out = append(out, eventsOf(g.d.Silence(at))...)
		}
	}
	if !g.until.IsZero() && at.After(g.until) {
		g.until = time.Time{}
		out = append(out, output{answer: &answer{err: ErrNoAnswer}})
	}
	return out
}

func (g *gm65) closed() int {
	n := len(g.held) + g.d.Reset()
	g.held, g.until = g.held[:0], time.Time{}
	return n
}
