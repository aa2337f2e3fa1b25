package sim

import (
	"errors"
	"fmt"
	"image"
	"image/color"
	"time"
	"unicode/utf8"
)

// style is the modes of a printer that ESC @ resets.
type style struct {
	page      byte
	align     Align
	run       Run // Text unused
	margin    int // dots, GS L
	area      int // dots, GS W; 0 is all
	chinese   bool
	textBelow byte // GS H
}

// dotsPerColumn is a letter of font A.
const dotsPerColumn = 12

// maxImage bounds a raster, in bytes of data; Epson's own limit is of this order.
const maxImage = 1 << 20

// parser is the printer's mechanism: it takes commands from the receive buffer in
// their turn and puts lines on the paper.
type parser struct {
	p       *Printer
	clears  int // the buffer it reads from
	powered int
	style   style
	line    []Run
	used    int // columns used in line
	wrapped bool
	qr      []byte // stored by GS ( k
}

func newParser(p *Printer) *parser {
	m := &parser{p: p}
	m.reset()
	m.style.chinese = p.options().Chinese
	return m
}

// run obeys commands until the printer is closed.
func (m *parser) run() {
	for {
		c, err := m.p.pull(m.clears)
		if err == nil {
			err = m.command(c)
		}
		switch {
		case errors.Is(err, errClosed):
			return
		case errors.Is(err, errVoid):
			m.drop()
		case err != nil:
			m.p.mu.Lock()
			m.p.faults = append(m.p.faults, err)
			m.p.mu.Unlock()
		}
	}
}

// drop begins anew after the buffer was cleared or the printer switched off.
func (m *parser) drop() {
	m.p.mu.Lock()
	defer m.p.mu.Unlock()
	m.clears = m.p.clears
	m.line, m.used, m.wrapped = nil, 0, false
	if m.powered != m.p.powered {
		m.powered = m.p.powered
		m.reset()
		m.style.chinese = m.p.opt.Chinese
	}
}

// reset is ESC @. It does not touch the receive buffer.
func (m *parser) reset() {
	chinese := m.style.chinese
	m.style = style{align: Left, run: Run{Width: 1, Height: 1}, chinese: chinese}
	m.line, m.used, m.wrapped, m.qr = nil, 0, false, nil
}

// take reads n parameter bytes.
func (m *parser) take(n int) ([]byte, error) {
	b := make([]byte, n)
	for i := range b {
		c, err := m.p.pull(m.clears)
		if err != nil {
			return nil, err
		}
		b[i] = c
	}
	return b, nil
}

func (m *parser) one() (byte, error) {
	b, err := m.take(1)
	if err != nil {
		return 0, err
	}
	return b[0], nil
}

// command obeys the command or letter that begins with c.
func (m *parser) command(c byte) error {
	switch c {
	case lf:
		m.feedLine(0)
		return nil
	case cr: // ignored: automatic line feed is off
		return nil
	case ht:
		m.tab()
		return nil
	case dle:
		return m.skipRealTime()
	case esc:
		return m.escape()
	case gs:
		return m.group()
	case fs:
		return m.field()
	}
	if c < 0x20 {
		return fmt.Errorf("control byte %02X is no command in standard mode", c)
	}
	return m.letter(c)
}

// skipRealTime passes over a real-time command: it was obeyed on arrival.
func (m *parser) skipRealTime() error {
	kind, err := m.one()
	if err != nil {
		return err
	}
	switch kind {
	case eot, enq:
		_, err = m.one()
		return err
	case dc4:
		fn, err := m.one()
		if err != nil {
			return err
		}
		switch fn {
		case 1, 2:
			_, err = m.take(2)
		case 8:
			_, err = m.take(len(clearBuffer) - 3)
		default:
			err = fmt.Errorf("unknown command DLE DC4 %d", fn)
		}
		return err
	}
	return fmt.Errorf("unknown command DLE %02X", kind)
}

// letter puts one printable byte on the line, breaking the line when it is full.
func (m *parser) letter(c byte) error {
	var r rune
	var err error
	switch {
	case c < 0x7F:
		r = rune(c)
	case m.style.chinese:
		if _, err = m.one(); err != nil { // the second half of a letter no French reader knows
			return err
		}
		r = utf8.RuneError
	default:
		r, err = decode(m.style.page, c)
	}
	m.put(r)
	return err
}

func (m *parser) put(r rune) {
	w := m.style.run.Width
	if m.used+w > m.columns() && m.used > 0 {
		m.feedLine(0)
		m.wrapped = true
	}
	if n := len(m.line); n > 0 && sameStyle(m.line[n-1], m.style.run) {
		m.line[n-1].Text += string(r)
	} else {
		run := m.style.run
		run.Text = string(r)
		m.line = append(m.line, run)
	}
	m.used += w
}

func sameStyle(a, b Run) bool {
	a.Text, b.Text = "", ""
	return a == b
}

// columns is what fits between the margins.
func (m *parser) columns() int {
	all := m.p.options().Columns * dotsPerColumn
	free := all - m.style.margin
	if m.style.area > 0 {
		free = min(free, m.style.area)
	}
	return max(1, free/dotsPerColumn)
}

func (m *parser) tab() {
	for next := (m.used/8 + 1) * 8; m.used < next && m.used < m.columns(); {
		m.put(' ')
	}
}

// feedLine prints the line and feeds, by dots more than the line when dots > 0.
func (m *parser) feedLine(dots int) {
	l := Line{Align: m.style.align, Runs: m.line, Wrapped: m.wrapped, Feed: dots}
	m.line, m.used, m.wrapped = nil, 0, false
	m.p.lineDone(l)
}

// block prints something that is not text on lines of its own.
func (m *parser) block(l Line) {
	if len(m.line) > 0 {
		m.feedLine(0)
	}
	l.Align = m.style.align
	m.p.lineDone(l)
}

// feed is ESC d: print what is there and feed n lines.
func (m *parser) feed(n int) {
	for range n {
		m.feedLine(0)
	}
	if n == 0 && len(m.line) > 0 {
		m.feedLine(0)
	}
}

// cut feeds first where the command says so, then cuts.
func (m *parser) cut(kind Cut) error {
	if len(m.line) > 0 {
		m.feedLine(0)
	}
	return m.p.cutPaper(kind, m.clears)
}

// answer sends a queued answer, in its turn.
func (m *parser) answer(b ...byte) { m.p.answer(b) }

// escape obeys ESC commands.
func (m *parser) escape() error {
	c, err := m.one()
	if err != nil {
		return err
	}
	switch c {
	case '@':
		m.reset()
		return nil
	case '2':
		return nil
	case 'i':
		return m.cut(FullCut)
	case 'm':
		return m.cut(PartialCut)
	case '*':
		return m.bitImage()
	case 'p':
		return m.pulse()
	case 'D':
		return m.skipTabs()
	case '$', '\\': // print positions: columns are what this paper keeps
		_, err = m.take(2)
		return err
	case 'c':
		_, err = m.take(2)
		return err
	}
	n, err := m.one()
	if err != nil {
		return err
	}
	return m.escapeOne(c, n)
}

// escapeOne obeys the ESC commands with one parameter.
func (m *parser) escapeOne(c, n byte) error {
	run := &m.style.run
	switch c {
	case 't':
		if !knownPage(n) {
			return fmt.Errorf("ESC t %d: this model has no such code page", n)
		}
		m.style.page = n
	case 'a':
		a, ok := map[byte]Align{0: Left, 1: Centre, 2: Right}[n&^0x30]
		if !ok {
			return fmt.Errorf("ESC a %d: no such alignment", n)
		}
		if len(m.line) == 0 { // obeyed at the beginning of a line only
			m.style.align = a
		}
	case 'E', 'G':
		run.Bold = n&1 != 0
	case '-':
		run.Underline = n&^0x30 != 0
	case '!':
		run.Bold, run.Underline = n&0x08 != 0, n&0x80 != 0
		run.Height, run.Width = 1+int(n>>4&1), 1+int(n>>5&1)
	case 'M':
		if m.p.options().PageLostOnFont {
			m.style.page = 0
		}
	case 'd':
		m.feed(int(n))
	case 'J':
		m.feedLine(int(n))
	case 'R':
		if n != 0 {
			return fmt.Errorf("ESC R %d: a national letter set changes ASCII; send 0", n)
		}
	case '3', ' ', '{', 'V', '=', 'U', 'r', 'S', '%', '?':
		// Spacing, rotation and selection leave the text what it is.
	default:
		return fmt.Errorf("unknown command ESC %02X %02X", c, n)
	}
	return nil
}

func (m *parser) skipTabs() error {
	for range 33 {
		c, err := m.one()
		if err != nil || c == 0 {
			return err
		}
	}
	return errors.New("ESC D: more than 32 tab stops and no NUL")
}

// pulse is ESC p: it kicks the drawer when its turn comes, which after a paper end
// may be minutes late.
func (m *parser) pulse() error {
	b, err := m.take(3)
	if err != nil {
		return err
	}
	if b[0]&^0x31 != 0 {
		return fmt.Errorf("ESC p %d: no such drawer connector", b[0])
	}
	m.p.mu.Lock()
	defer m.p.mu.Unlock()
	m.p.kick(Pulse{Pin: int(b[0] & 1), On: time.Duration(b[1]) * 2 * time.Millisecond, Off: time.Duration(b[2]) * 2 * time.Millisecond})
	m.p.changed.Broadcast()
	return nil
}

// field obeys FS commands: leaving and entering the two-byte mode.
func (m *parser) field() error {
	c, err := m.one()
	if err != nil {
		return err
	}
	switch c {
	case '.':
		m.style.chinese = false
		return nil
	case '&':
		m.style.chinese = true
		return nil
	}
	return fmt.Errorf("unknown command FS %02X", c)
}

// bitImage is ESC *: one band of 8 or 24 dots.
func (m *parser) bitImage() error {
	h, err := m.take(3)
	if err != nil {
		return err
	}
	rows, ok := map[byte]int{0: 1, 1: 1, 32: 3, 33: 3}[h[0]]
	if !ok {
		return fmt.Errorf("ESC * %d: no such density", h[0])
	}
	width := int(h[1]) | int(h[2])<<8
	data, err := m.take(width * rows)
	if err != nil {
		return err
	}
	img := blank(width, rows*8)
	for x := range width {
		for y := range rows * 8 {
			if data[x*rows+y/8]>>(7-y%8)&1 != 0 {
				img.SetGray(x, y, color.Gray{})
			}
		}
	}
	m.block(Line{Image: img})
	return nil
}

// blank is white paper.
func blank(w, h int) *image.Gray {
	img := image.NewGray(image.Rect(0, 0, w, h))
	for i := range img.Pix {
		img.Pix[i] = 0xFF
	}
	return img
}
