package scanner

import (
	"bytes"
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"grattoir/validate/ticket"
)

// MaxRecord is the longest record in bytes, end mark not counted. The longest
// symbol on a ticket holds a fraction of it; more means that no end mark comes.
const MaxRecord = 512

// The bytes that frame records.
const (
	nul = 0x00
	stx = 0x02
	etx = 0x03
	tab = 0x09
	lf  = 0x0A
	cr  = 0x0D
)

// Scan is one record as the scanner sent it, without its framing. Text is whatever
// the symbol held, group separators (0x1D) included; whether it is a ticket is for
// validate/ticket to say.
type Scan struct {
	Text string
	AIM  string // the AIM identifier, such as "]d1" for Data Matrix, or ""
	At   time.Time
}

// Event is what bytes, or silence, turned out to be. Fault is nil for a scan.
type Event struct {
	Scan  Scan
	Fault *Fault
}

// Decoder cuts a scanner's byte stream into records. It is pure: it does no I/O
// and knows no clock but the times it is given. A serial line has no message
// boundaries, so a scan may come in pieces and two may come glued. An end mark (CR,
// LF, TAB, or ETX after STX) ends a record; silence makes one only as Config.Suffix
// tells.
//
// Not for use from more than one goroutine.
type Decoder struct {
	idle, sameCode time.Duration
	line           string // how the port is set, for the technician
	prefix         string
	unended        bool // silence may end a record
	layouts        func() []ticket.Layout
	whole          func(string) bool

	buf     []byte
	last    time.Time // of the last byte
	skip    bool      // passing over the rest of a bad record
	faulted bool      // this burst has been reported
	records int       // of this burst, good or bad

	seen     Scan // the last scan, its At moved on by each repeat
	repeated int
}

// NewDecoder returns a decoder for cfg. Zero fields take their defaults.
func NewDecoder(cfg Config) *Decoder {
	cfg = cfg.withDefaults()
	return &Decoder{idle: cfg.Idle, sameCode: cfg.SameCode, line: cfg.line(), prefix: cfg.Prefix, unended: cfg.Suffix == SuffixNone, layouts: cfg.Layouts, whole: cfg.Whole}
}

// Feed takes the bytes of one read, at the time of the read, and returns what they
// complete, in order. It does not keep b.
func (d *Decoder) Feed(b []byte, at time.Time) []Event {
	if len(b) == 0 {
		return nil
	}
	d.last = at
	var events []Event
	for _, c := range b {
		if e, ok := d.feed(c, at); ok {
			events = append(events, e)
		}
	}
	return events
}

func (d *Decoder) feed(c byte, at time.Time) (Event, bool) {
	switch {
	case c == cr || c == lf || c == tab || c == etx && len(d.buf) > 0 && d.buf[0] == stx:
		return d.end(at)
	case c == stx:
		return d.begin()
	case d.skip:
		return Event{}, false
	case len(d.buf) < MaxRecord:
		d.buf = append(d.buf, c)
		return Event{}, false
	}
	fault := d.judge()
	if fault == nil {
		fault = newFault(CodeGarbage, "More than 512 bytes and no end mark. Scan the set-up code that adds CR after each record; check that no other device is on this port ("+d.line+").",
			fmt.Errorf("record longer than %d bytes", MaxRecord))
	}
	d.buf, d.skip = d.buf[:0], true
	return d.report(fault)
}

// begin starts a record at STX. What lies there already has lost its end, and the
// record that now begins is not to be spoiled by it.
func (d *Decoder) begin() (Event, bool) {
	cut := len(bytes.TrimLeft(d.buf, "\x02"))
	var fault *Fault
	if cut > 0 && !d.skip && !onlyControl(d.buf) {
		if fault = d.judge(); fault == nil {
			fault = d.unendedFault(fmt.Errorf("%d bytes, then STX and no end mark between", cut))
		}
	}
	d.buf, d.skip = append(d.buf[:0], stx), false
	if fault == nil {
		return Event{}, false
	}
	return d.report(fault)
}

// Record takes a whole record that came in an envelope of its own, so that no end
// mark is needed and what looks like one inside it is data.
func (d *Decoder) Record(b []byte, at time.Time) []Event {
	var e Event
	var ok bool
	if len(b) > MaxRecord {
		e, ok = d.report(newFault(CodeGarbage, "A symbol of more than 512 bytes: no ticket has one.", fmt.Errorf("record longer than %d bytes", MaxRecord)))
	} else {
		d.buf, d.skip, d.last = append(d.buf[:0], bytes.TrimRight(b, "\r\n\t")...), false, at
		e, ok = d.end(at)
	}
	d.faulted = false // an envelope is a burst of its own
	if !ok {
		return nil
	}
	return []Event{e}
}

// end finishes a record at its end mark.
func (d *Decoder) end(at time.Time) (Event, bool) {
	if d.skip {
		d.skip = false
		return Event{}, false
	}
	fault := d.judge()
	record := bytes.TrimRight(bytes.TrimLeft(d.buf, "\x02"), "\x03")
	d.buf = d.buf[:0]
	if fault == nil && onlyControl(record) {
		return Event{}, false
	}
	d.records++
	if fault == nil {
		fault = d.strange(record)
	}
	if fault != nil {
		return d.report(fault)
	}
	scan := split(record[len(d.prefix):], at)
	if scan.Text == "" {
		return Event{}, false
	}
	if d.isRepeat(scan) {
		d.repeated++
		return Event{}, false
	}
	if len(scan.Text) >= minCode {
		d.faulted = false // what goes wrong after a good scan is news
	}
	return Event{Scan: scan}, true
}

// strange says why a record of sound bytes is none, or nil: it lacks the configured
// prefix, or it is one code several times over.
func (d *Decoder) strange(record []byte) *Fault {
	if !bytes.HasPrefix(record, []byte(d.prefix)) {
		return newFault(CodePrefix, fmt.Sprintf("A record did not begin with the configured prefix %q. If it happens at every scan, the scanner has another prefix or none: set both alike; if seldom, the beginning was lost: check the cable (%s).", d.prefix, d.line),
			fmt.Errorf("record of %d bytes without its prefix", len(record)))
	}
	for times := 2; times <= len(record)/minCode; times++ {
		one, whole := record[:len(record)/times], len(record)%times == 0
		if !whole || !bytes.Equal(record, bytes.Repeat(one, times)) {
			continue
		}
		if text := split(one[min(len(d.prefix), len(one)):], time.Time{}).Text; slices.Contains(d.lengths(false), len(text)) {
			return newFault(CodeGlued, "One code came several times without an end mark between. Scan the set-up codes for CR after each record and for single-scan (trigger) mode.",
				fmt.Errorf("record of %d bytes is %d times one code", len(record), times))
		}
	}
	return nil
}

// minCode is the fewest digits of a barcode on a ticket.
const minCode = 8

// lengths are how many digits a ticket's barcode may have. Proven asks for those
// alone that a cut of a longer code cannot feign: the layout has check digits, or
// there is none longer.
func (d *Decoder) lengths(proven bool) []int {
	if d.layouts == nil {
		return nil
	}
	layouts := d.layouts()
	longest := 0
	for _, l := range layouts {
		longest = max(longest, l.ScanLength())
	}
	var list []int
	for _, l := range layouts {
		if n := l.ScanLength(); !proven || n == longest || l.Check != ticket.CheckNone {
			list = append(list, n)
		}
	}
	return list
}

// split parts the AIM identifier from the data: "]", a letter, a modifier.
func split(record []byte, at time.Time) Scan {
	if len(record) >= 3 && record[0] == ']' && isLetter(record[1]) && (isLetter(record[2]) || isDigit(record[2])) {
		return Scan{AIM: string(record[:3]), Text: string(record[3:]), At: at}
	}
	return Scan{Text: string(record), At: at}
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }
func isDigit(c byte) bool  { return '0' <= c && c <= '9' }

// isRepeat reports whether the same code was seen less than sameCode ago. A repeat
// counts as seen, so a ticket left under a scanner in continuous mode is one scan.
func (d *Decoder) isRepeat(s Scan) bool {
	since := s.At.Sub(d.seen.At)
	same := d.seen.Text == s.Text && d.seen.AIM == s.AIM && since >= 0 && since < d.sameCode
	d.seen = s
	return same
}

// Silence tells the decoder that a read waited and nothing came until at. After
// the idle time a record with no end mark is a fault, dropped; its end mark, if it
// still comes, ends nothing. Call it only when the wait really found nothing: a
// program that was held up finds the rest of its record at the next read.
//
// Where the scanner is configured to send no end mark, the idle time ends a record
// that is the only one of its burst and is digits of a layout's length, no fewer and
// no more. A code cut short by a stall of the line then has the wrong length, or
// check digits that do not agree; a layout without check digits counts only where no
// longer one is known, of which it could be a piece.
func (d *Decoder) Silence(at time.Time) []Event {
	if at.Sub(d.last) < d.idle {
		return nil
	}
	e, ok := Event{}, false
	switch {
	case len(d.buf) == 0 || onlyControl(d.buf):
	case d.unended && d.isWhole():
		e, ok = d.end(at)
	default:
		fault := d.judge()
		if fault == nil {
			fault = d.unendedFault(fmt.Errorf("%d bytes, then %v of silence and no end mark", len(d.buf), d.idle))
		}
		e, ok = d.report(fault)
	}
	d.buf, d.skip, d.faulted, d.records = d.buf[:0], false, false, 0 // the next byte begins a new burst
	if !ok {
		return nil
	}
	return []Event{e}
}

// isWhole reports whether the bytes, with no end mark, are a ticket's code all the same.
func (d *Decoder) isWhole() bool {
	if d.records > 0 || d.faulted || d.skip || !bytes.HasPrefix(d.buf, []byte(d.prefix)) {
		return false
	}
	text := split(d.buf[len(d.prefix):], time.Time{}).Text
	return d.whole != nil && d.whole(text) || strings.Trim(text, "0123456789") == "" && slices.Contains(d.lengths(true), len(text))
}

func (d *Decoder) unendedFault(err error) *Fault {
	advice := "A record came without its end mark. If it happens at every scan, scan the set-up code that adds CR after each record; if seldom, check the cable (" + d.line + ")."
	if d.unended {
		advice = "A record came with no end mark and has not the length of a ticket's code, so it may be a piece of one. A scanner that adds CR after each record is safer: scan its set-up code, then set suffix = \"any\" (" + d.line + ")."
	}
	return newFault(CodeNoSuffix, advice, err)
}

// onlyControl reports whether b is empty or stray replies (XON, ACK ...), which are not a scan.
func onlyControl(b []byte) bool {
	for _, c := range b {
		if c == nul || c >= 0x20 {
			return false
		}
	}
	return true
}

// Reset forgets the record under way, as at a reconnect, and returns how many
// bytes it dropped. The last scan is still known: a repeat across a reconnect is
// a repeat.
func (d *Decoder) Reset() int {
	n := len(d.buf)
	d.buf, d.skip, d.faulted, d.records = d.buf[:0], false, false, 0
	return n
}

// Resync passes over what comes until the next end mark, or silence, because its
// beginning is lost.
func (d *Decoder) Resync() {
	d.buf, d.skip = d.buf[:0], true
}

// Repeats is how many scans were taken for repeats of the one before.
func (d *Decoder) Repeats() int { return d.repeated }

// report gives out a fault, the first of its burst only.
func (d *Decoder) report(f *Fault) (Event, bool) {
	d.records++
	if d.faulted {
		return Event{}, false
	}
	d.faulted = true
	return Event{Fault: f}, true
}

// judge says what is wrong with the bytes of the buffer, or nil. The kernel hands
// over a break, or a byte with wrong parity, as NUL. A line at the wrong speed
// gives NULs and high bits mixed. Text in UTF-8 is left alone: it is some other
// symbol, and not a fault of the scanner.
func (d *Decoder) judge() *Fault {
	high := bytes.ContainsFunc(d.buf, func(r rune) bool { return r >= utf8.RuneSelf })
	zero := bytes.IndexByte(d.buf, nul)
	switch {
	case zero >= 0 && !high:
		return newFault(CodeDamaged, "A byte was lost to parity or a line break. Check cable and plug; if it stays, compare speed and parity with the scanner (here "+d.line+").",
			fmt.Errorf("NUL at byte %d of %d", zero+1, len(d.buf)))
	case !high, zero < 0 && utf8.Valid(d.buf):
		return nil
	case zero < 0 && parity(d.buf) == "even":
		return d.parityFault("7E1")
	case zero < 0 && parity(d.buf) == "odd":
		return d.parityFault("7O1")
	}
	return newFault(CodeGarbage, "The bytes make no text: the scanner most likely has another speed than "+d.line+". Set both alike.",
		fmt.Errorf("%d bytes that are no text", len(d.buf)))
}

func (d *Decoder) parityFault(sent string) *Fault {
	return newFault(CodeParity, "The scanner sends "+sent+" but the port is read as "+d.line+". Set the scanner to 8N1, or data bits and parity here to the scanner's.",
		fmt.Errorf("%d bytes, each with the parity bit of %s", len(d.buf), sent))
}

// minParity is the fewest bytes from which parity is believed; chance agrees on
// fewer too often.
const minParity = 4

// parity returns "even" or "odd" when every byte has that parity and would be text
// without its top bit, otherwise "".
func parity(b []byte) string {
	odd := 0
	for _, c := range b {
		if t := c & 0x7F; t < 0x20 && t != cr && t != lf && t != tab && t != stx && t != etx && t != 0x1D {
			return ""
		}
		odd += bits.OnesCount8(c) & 1
	}
	switch {
	case len(b) < minParity:
		return ""
	case odd == 0:
		return "even"
	case odd == len(b):
		return "odd"
	}
	return ""
}

// fresh reports whether the next byte begins a record.
func (d *Decoder) fresh() bool { return len(d.buf) == 0 && !d.skip }
