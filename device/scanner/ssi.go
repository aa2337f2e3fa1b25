package scanner

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// ssi speaks Zebra's (Symbol's) Simple Serial Interface. A packet is length, opcode,
// source, status, data and a checksum; each one is answered by ACK or NAK, and a
// scanner that gets no ACK sends the packet again, marked as a retransmission. So a
// scan is acknowledged only after it was handed on, and accepted once.
//
// Out of the box such a scanner sends its scans plain, with no packets around them;
// both are read, told apart by their first bytes, until a scan has come in a packet:
// what is none then is a damaged one. Sources: SE955 integration manual,
// chapter 10; DS457 and CS3000 guides; for the continuation bit the MP72 guide.
type ssi struct {
	d   *Decoder
	buf []byte    // a packet under way, or its first bytes
	at  time.Time // of the last byte

	packets bool // this scanner sends packets
	raw     bool // in a plain record
	resync  bool // passing over a bad packet until the line is silent
	passed  int  // bytes passed over
	bad     int  // packets in a row that were damaged
	badAt   time.Time

	parts   []byte // data of a message of several packets
	partsAt time.Time
	over    bool // that message is too long, and passed over to its end

	last       []byte // the packet accepted last: opcode and data
	lastAt     time.Time
	staleUntil time.Time // a retransmission until then may be of a scan from before the connection

	sent   []byte // the command under way, nil for none
	sentAt time.Time
	tries  int
}

// The opcodes in use.
const (
	ssiAck      = 0xD0
	ssiNak      = 0xD1
	ssiData     = 0xF3
	ssiEvent    = 0xF6
	ssiRevision = 0xA4
	ssiParam    = 0xC6
	ssiCaps     = 0xD4
	ssiBeep     = 0xE6
	ssiEnable   = 0xE9
	ssiDisable  = 0xEA
	ssiStart    = 0xE4
	ssiStop     = 0xE5
	ssiWakeUp   = 0x00 // one byte, no packet
)

// The parts of a packet.
const (
	ssiHeader     = 4 // length, opcode, source, status
	ssiChecksum   = 2
	ssiHost       = 4
	ssiRetransmit = 0x01 // bits of the status; the others mean nothing here
	ssiContinued  = 0x02
)

// Reasons of a NAK.
const (
	nakResend     = 1
	nakBadContext = 2
)

// Beep codes, from the table all these scanners share: one short high tone, two short low ones.
const (
	beepHigh   = 0
	beepTwoLow = 6
)

const (
	ssiGap      = 200 * time.Millisecond // longest silence inside a packet
	ssiPatience = 2 * time.Second        // for the answer to a command
	ssiTries    = 3                      // of a command, as the scanner itself does it
	ssiGivesUp  = 10 * time.Second       // a scanner waits at most 9.9 s before it sends a packet again
)

// ssiPacket frames a message to the scanner.
func ssiPacket(opcode, status byte, data ...byte) []byte {
	b := append([]byte{byte(ssiHeader + len(data)), opcode, ssiHost, status}, data...)
	return binary.BigEndian.AppendUint16(b, -ssiSum(b))
}

// ssiSum is the sum whose two's complement is the checksum.
func ssiSum(b []byte) (sum uint16) {
	for _, c := range b {
		sum += uint16(c)
	}
	return sum
}

func (s *ssi) opened(at time.Time, stale int) {
	s.staleUntil = time.Time{}
	if stale > 0 {
		s.staleUntil = at.Add(2 * ssiGivesUp)
	}
}

func (s *ssi) frame(c Command, _ string, at time.Time) ([]byte, bool, error) {
	var b []byte
	switch c {
	case Enable:
		b = ssiPacket(ssiEnable, 0)
	case Disable:
		b = ssiPacket(ssiDisable, 0)
	case Trigger:
		b = ssiPacket(ssiStart, 0)
	case Release:
		b = ssiPacket(ssiStop, 0)
	case BeepGood:
		b = ssiPacket(ssiBeep, 0, beepHigh)
	case BeepBad:
		b = ssiPacket(ssiBeep, 0, beepTwoLow)
	default:
		return nil, false, ErrUnsupported
	}
	s.sent, s.sentAt, s.tries = b, at, 1
	return b, true, nil
}

func (s *ssi) feed(b []byte, at time.Time) []output {
	s.at = at
	if s.resync {
		if s.passed += len(b); s.passed <= 2*MaxRecord {
			return nil
		}
		s.resync = false
		return s.lost(fmt.Errorf("%d bytes after a damaged packet, and no silence", s.passed))
	}
	var out []output
	for i, c := range b {
		if s.raw {
			out = append(out, s.plain([]byte{c}, at)...)
			continue
		}
		s.buf = append(s.buf, c)
		switch kind := ssiKind(s.buf); {
		case kind == notYet:
		case kind == plainText && s.packets:
			s.resync, s.passed = true, len(s.buf)+len(b)-i-1
			s.buf = nil
			return out
		case kind == plainText:
			out = append(out, s.flush(at)...)
		case len(s.buf) == int(s.buf[0])+ssiChecksum:
			packet := s.buf
			s.buf = nil
			if ssiSum(packet[:len(packet)-ssiChecksum])+binary.BigEndian.Uint16(packet[len(packet)-ssiChecksum:]) != 0 {
				// Its length may be what is wrong: only silence tells where it ends.
				s.resync, s.passed = true, len(packet)+len(b)-i-1
				return out
			}
			out = append(out, s.packet(packet, at)...)
		}
	}
	return out
}

type ssiShape int

const (
	notYet ssiShape = iota
	plainText
	inPacket
)

// ssiKind tells a packet from text by its first three bytes: length, an opcode, which
// is no ASCII, and the scanner's source 0.
func ssiKind(b []byte) ssiShape {
	switch {
	case b[0] < ssiHeader:
		return plainText
	case len(b) > 1 && b[1] < 0x80, len(b) > 2 && b[2] != 0:
		return plainText
	case len(b) < 3:
		return notYet
	}
	return inPacket
}

// flush gives the decoder what looked like a packet's beginning.
func (s *ssi) flush(at time.Time) []output {
	b := s.buf
	s.buf = nil
	return s.plain(b, at)
}

func (s *ssi) plain(b []byte, at time.Time) []output {
	out := eventsOf(s.d.Feed(b, at))
	s.raw = !s.d.fresh()
	return out
}

// packet acts on a packet whose checksum is right.
func (s *ssi) packet(p []byte, at time.Time) []output {
	s.bad = 0
	opcode, status, data := p[1], p[3], p[ssiHeader:len(p)-ssiChecksum]
	switch opcode {
	case ssiAck:
		return s.answered(nil)
	case ssiNak:
		return s.refused(data, at)
	case ssiData:
		return s.scanned(status, data, at)
	case ssiEvent, ssiRevision, ssiParam, ssiCaps:
		return []output{{write: ssiPacket(ssiAck, 0)}}
	}
	return []output{{write: ssiPacket(ssiNak, 0, nakBadContext)}}
}

// scanned takes a packet of a scan. A retransmission of the packet accepted last is
// acknowledged and no more: its ACK was lost, or came too late. The one case in which
// this is a new scan, the same ticket again whose first packet was damaged, shows the
// verdict that is on the screen already.
func (s *ssi) scanned(status byte, data []byte, at time.Time) []output {
	s.packets = true
	acknowledge := output{write: ssiPacket(ssiAck, 0)}
	again := status&ssiRetransmit != 0
	old := again && at.Before(s.staleUntil)
	s.staleUntil = time.Time{}
	if old || again && bytes.Equal(data, s.last) && at.Sub(s.lastAt) < 3*ssiGivesUp {
		return []output{acknowledge}
	}
	s.last, s.lastAt = bytes.Clone(data), at
	if len(data) == 0 {
		return []output{acknowledge}
	}
	if len(s.parts) == 0 {
		s.parts = append(s.parts, data...)
	} else {
		s.parts = append(s.parts, bytes.TrimPrefix(data, s.parts[:1])...) // later packets repeat the kind of barcode
	}
	s.partsAt = at
	if len(s.parts) > 1+MaxRecord {
		s.parts, s.over = s.parts[:1], true
	}
	if status&ssiContinued != 0 {
		return []output{acknowledge}
	}
	record := s.parts[1:]
	s.parts = nil
	if s.over {
		s.over = false
		record = make([]byte, MaxRecord+1) // the decoder names it
	}
	acknowledge.events = s.d.Record(record, at)
	return []output{acknowledge}
}

func (s *ssi) answered(err error) []output {
	if s.sent == nil {
		return nil
	}
	s.sent = nil
	return []output{{answer: &answer{err: err}}}
}

// refused takes the scanner's NAK, which like its ACK is never answered.
func (s *ssi) refused(data []byte, at time.Time) []output {
	reason := byte(0)
	if len(data) > 0 {
		reason = data[0]
	}
	if reason == nakResend && s.sent != nil && s.tries < ssiTries {
		return s.again(at)
	}
	return s.answered(fmt.Errorf("NAK, reason %d: %w", reason, ErrRefused))
}

// again sends the command under way once more, behind the byte that wakes a scanner
// which sleeps: where RTS is not wired, it loses the first byte.
func (s *ssi) again(at time.Time) []output {
	s.tries, s.sentAt = s.tries+1, at
	b := bytes.Clone(s.sent[:len(s.sent)-ssiChecksum])
	b[3] |= ssiRetransmit
	b = binary.BigEndian.AppendUint16(b, -ssiSum(b))
	return []output{{write: append([]byte{ssiWakeUp}, b...)}}
}

func (s *ssi) tick(at time.Time, silent bool) []output {
	var out []output
	if silent {
		out = append(out, s.silence(at)...)
	}
	if s.bad > 0 && at.Sub(s.badAt) > ssiGivesUp {
		out = append(out, s.lost(errors.New("a damaged packet was not sent again"))...)
	}
	if len(s.parts) > 0 && at.Sub(s.partsAt) > ssiGivesUp {
		s.parts, s.over = nil, false
		out = append(out, s.lost(errors.New("the end of a message of several packets did not come"))...)
	}
	if s.sent != nil && at.Sub(s.sentAt) > ssiPatience {
		if s.tries < ssiTries {
			out = append(out, s.again(at)...)
		} else {
			out = append(out, s.answered(fmt.Errorf("%d tries: %w", s.tries, ErrNoAnswer))...)
		}
	}
	return out
}

// silence ends what waits for bytes that do not come. A packet that stopped in the
// middle, or was damaged, is asked for again; the third in a row is lost, since a
// scanner sends one three times at most.
func (s *ssi) silence(at time.Time) []output {
	switch {
	case s.resync, len(s.buf) > 0 && (s.packets || ssiKind(s.buf) == inPacket) && at.Sub(s.at) >= ssiGap:
		s.resync, s.buf = false, nil
		s.bad++
		s.badAt = at
		out := []output{{write: ssiPacket(ssiNak, 0, nakResend)}}
		if s.bad >= ssiTries {
			out = append(out, s.lost(fmt.Errorf("%d damaged packets in a row", s.bad))...)
		}
		return out
	case len(s.buf) > 0 && ssiKind(s.buf) != inPacket && at.Sub(s.at) >= ssiGap:
		return append(s.flush(s.at), s.quiet(at)...)
	case len(s.buf) == 0:
		return s.quiet(at)
	}
	return nil
}

func (s *ssi) quiet(at time.Time) []output {
	out := eventsOf(s.d.Silence(at))
	s.raw = !s.d.fresh()
	return out
}

// lost names a scan that could not be received.
func (s *ssi) lost(err error) []output {
	s.bad, s.packets = 0, false // perhaps a technician has switched it to plain scans
	return []output{{events: []Event{{Fault: newFault(CodeDamaged,
		"Packets of the scanner came damaged, sent again or not. Check cable and plug; compare speed and parity with the scanner (here "+s.d.line+").", err)}}}}
}

func (s *ssi) closed() int {
	n := len(s.buf) + len(s.parts) + s.d.Reset()
	s.buf, s.parts, s.sent = nil, nil, nil
	s.packets, s.raw, s.resync, s.over, s.bad = false, false, false, false, 0
	return n
}
