package sim

import (
	"bytes"
	"math/bits"
	"slices"
	"time"
)

// TrickKind names what a scanner does wrong with one scan.
type TrickKind string

// The tricks. N and Gap are the fields of Trick; a place beyond the code's end counts
// on from its beginning, so that a trick fits every code.
const (
	Split    TrickKind = "split"    // comes in pieces of N bytes, Gap apart
	Twice    TrickKind = "twice"    // is sent two times in one piece, each with its end mark
	Repeat   TrickKind = "repeat"   // is sent N times more, Gap apart: the ticket lies under the beam
	Truncate TrickKind = "truncate" // ends after N bytes and has no end mark
	Lose     TrickKind = "lose"     // lacks byte N, counted from 1
	Misread  TrickKind = "misread"  // has another digit at N
	Damage   TrickKind = "damage"   // has NUL at N, as the kernel hands over a parity error
	SevenBit TrickKind = "7e1"      // is sent with 7 bits and even parity
	CutOff   TrickKind = "cut-off"  // breaks off after N bytes: the cable comes out
)

// Trick is what happens to the next scan.
type Trick struct {
	Kind TrickKind
	N    int
	Gap  time.Duration
}

// Framing is what a scanner puts around a code. The zero value is CR after it.
type Framing struct {
	Prefix []byte
	Suffix []byte // nil is CR; empty is none
}

// SetFraming changes what is put around later scans, as a set-up code does.
func (s *Scanner) SetFraming(f Framing) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.framing = Framing{bytes.Clone(f.Prefix), f.Suffix}
	if f.Suffix != nil {
		s.framing.Suffix = append([]byte{}, f.Suffix...)
	}
}

// Framing is what is put around scans now.
func (s *Scanner) Framing() Framing {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.framing
}

// Play has the next Scan go wrong so, once. Several tricks add up, in their order.
func (s *Scanner) Play(t Trick) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tricks = append(s.tricks, t)
}

// SetLinkDelay makes the link of later plugs come so late.
func (s *Scanner) SetLinkDelay(d time.Duration) { s.socket.setDelay(d) }

// Plugged reports whether the cable is in.
func (s *Scanner) Plugged() bool { return s.socket.current() != nil }

// sent is one write of a scan, and the pause before it.
type sent struct {
	pause time.Duration
	bytes []byte
}

// frame takes the tricks that wait and gives what goes over the line for a code, and
// whether the cable comes out after it.
func (s *Scanner) frame(code string) (writes []sent, unplug bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	suffix := s.framing.Suffix
	if suffix == nil {
		suffix = []byte{cr}
	}
	tricks := s.tricks
	s.tricks = nil
	code, suffix = spoilCode(code, suffix, tricks)
	record := slices.Concat(s.framing.Prefix, []byte(code), suffix)
	for _, t := range tricks {
		switch t.Kind {
		case SevenBit:
			for i, c := range record {
				record[i] = c&0x7F | byte(bits.OnesCount8(c&0x7F)&1)<<7
			}
		case Twice:
			record = slices.Concat(record, record)
		case CutOff:
			record, unplug = record[:min(t.N, len(record))], true
		}
	}
	writes = []sent{{0, record}}
	for _, t := range tricks {
		switch t.Kind {
		case Split:
			writes = pieces(writes, t)
		case Repeat:
			for range t.N {
				writes = append(writes, sent{t.Gap, record})
			}
		}
	}
	return writes, unplug
}

// spoilCode does what the tricks do to the digits.
func spoilCode(code string, suffix []byte, tricks []Trick) (string, []byte) {
	text := []byte(code)
	for _, t := range tricks {
		if len(text) == 0 {
			break
		}
		at := max(0, t.N-1) % len(text)
		switch t.Kind {
		case Truncate:
			text, suffix = text[:at+1], nil
		case Lose:
			text = slices.Delete(text, at, at+1)
		case Damage:
			text[at] = 0
		case Misread:
			if c := text[at]; c >= '0' && c <= '9' {
				text[at] = '0' + (c-'0'+1)%10
			}
		}
	}
	return string(text), suffix
}

// pieces cuts each write.
func pieces(writes []sent, t Trick) []sent {
	var out []sent
	for _, w := range writes {
		pause := w.pause
		for piece := range slices.Chunk(w.bytes, max(1, t.N)) {
			out = append(out, sent{pause, piece})
			pause = t.Gap
		}
	}
	return out
}
