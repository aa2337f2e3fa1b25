package printer

// AnswerKind is what a printer sent.
type AnswerKind uint8

// The kinds differ in fixed bits of their first byte, so that they can be told
// apart in one stream.
const (
	Noise     AnswerKind = iota // bytes that are no answer, or a broken one
	RealTime                    // one byte, to DLE EOT
	Sensor                      // one byte, to GS r or GS I
	Automatic                   // four bytes of automatic status (ASB)
	ProcessID                   // 37 22 and four characters and 00: all before it is on paper
	Cleared                     // 37 25 00: the buffer was cleared on request
	Response                    // another frame from 37 to 00
	Text                        // a frame from 5F to 00, to GS I
	XOff                        // the buffer is nearly full
	XOn                         // it has room again
)

// Answer is one thing a printer sent. Bytes is the whole of it, frame included,
// valid until the next Feed.
type Answer struct {
	Kind  AnswerKind
	Bytes []byte
}

// ID is the process id of a ProcessID answer.
func (a Answer) ID() (id [4]byte) {
	copy(id[:], a.Bytes[2:6])
	return id
}

const (
	xon           = 0x11
	xoff          = 0x13
	responseStart = 0x37
	textStart     = 0x5f
	maxFrame      = 96 // the longest text of GS I is 80 characters
)

// Parser cuts the return stream of an ESC/POS printer into answers. It keeps an
// unfinished one from call to call and never more than maxFrame bytes. XON and
// XOFF may stand anywhere, even inside another answer. The zero Parser is ready.
type Parser struct {
	partial []byte
}

// Feed takes received bytes in order and calls emit for each answer they
// complete. A broken answer is emitted as Noise, and the byte that broke it
// starts the next one, so one lost byte costs one answer.
func (p *Parser) Feed(received []byte, emit func(Answer)) {
	for i := range received {
		b := received[i : i+1]
		switch {
		case b[0] == xon:
			emit(Answer{XOn, b})
			continue
		case b[0] == xoff:
			emit(Answer{XOff, b})
			continue
		case len(p.partial) > 0 && !p.continues(b[0]):
			emit(Answer{Noise, p.partial})
			p.partial = p.partial[:0]
		}
		p.partial = append(p.partial, b[0])
		if kind, done := p.finished(); done {
			emit(Answer{kind, p.partial})
			p.partial = p.partial[:0]
		}
	}
}

// Reset forgets an unfinished answer, at a new connection.
func (p *Parser) Reset() { p.partial = p.partial[:0] }

// continues says whether b can stand next in the unfinished answer.
func (p *Parser) continues(b byte) bool {
	if isAutomatic(p.partial[0]) {
		return b&0x90 == 0 // 0xx0xxxx
	}
	return b == 0 || b >= 0x20 && b <= 0x7e
}

// finished says whether what is kept is a whole answer, and which.
func (p *Parser) finished() (AnswerKind, bool) {
	first, n := p.partial[0], len(p.partial)
	switch {
	case first == responseStart || first == textStart:
		if p.partial[n-1] != 0 {
			return Noise, n == maxFrame
		}
		return frameKind(p.partial), true
	case isAutomatic(first):
		return Automatic, n == 4
	case first&0x93 == 0x12: // 0xx1xx10
		return RealTime, true
	case first&0x90 == 0: // 0xx0xxxx
		return Sensor, true
	default:
		return Noise, true
	}
}

func isAutomatic(first byte) bool { return first&0x93 == 0x10 } // 0xx1xx00

func frameKind(frame []byte) AnswerKind {
	switch {
	case frame[0] == textStart:
		return Text
	case len(frame) == 7 && frame[1] == 0x22:
		return ProcessID
	case len(frame) == 3 && frame[1] == 0x25:
		return Cleared
	default:
		return Response
	}
}

// sensors is what the printer said about itself last, in its own words.
type sensors struct {
	offline    bool // for any reason
	feeding    bool // somebody holds the feed button
	cover      bool
	stoppedEnd bool // printing stopped because the paper ended
	paperEnd   bool // the sensor at the head sees no paper
	paperLow   bool // the near-end sensor; models without it never set it
	cutter     bool
	mechanical bool // an error that is none of the others
	fatal      bool // switch off and on, or repair
	hot        bool // the head cools down by itself
}

func has(b byte, bits byte) bool { return b&bits != 0 }

// realTime takes the answer to DLE EOT n.
func (s *sensors) realTime(n, b byte) {
	switch n {
	case 1:
		s.offline, s.feeding = has(b, 0x08), has(b, 0x40)
	case 2:
		s.cover, s.stoppedEnd, s.mechanical = has(b, 0x04), has(b, 0x20), has(b, 0x40)
	case 3:
		s.cutter, s.fatal, s.hot = has(b, 0x08), has(b, 0x20), has(b, 0x40)
	case 4:
		s.paperLow, s.paperEnd = has(b, 0x0c), has(b, 0x60)
	}
}

// automatic takes the four bytes of an ASB frame.
func (s *sensors) automatic(f []byte) {
	s.offline, s.cover, s.feeding = has(f[0], 0x08), has(f[0], 0x20), has(f[0], 0x40)
	s.mechanical, s.cutter, s.fatal, s.hot = has(f[1], 0x04), has(f[1], 0x08), has(f[1], 0x20), has(f[1], 0x40)
	s.paperLow, s.paperEnd = has(f[2], 0x03), has(f[2], 0x0c)
	s.stoppedEnd = false // this frame has no such bit; paperEnd says it
}
