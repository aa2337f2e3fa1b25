package sim

import (
	"bytes"
	"fmt"
	"image/color"
)

// group obeys GS commands.
func (m *parser) group() error {
	c, err := m.one()
	if err != nil {
		return err
	}
	switch c {
	case '(':
		return m.function()
	case 'V':
		return m.cutCommand()
	case 'k':
		return m.barcode()
	case 'v':
		return m.raster()
	case 'L', 'W', 'P', '$', '\\':
		b, err := m.take(2)
		if err != nil {
			return err
		}
		switch n := int(b[0]) | int(b[1])<<8; c {
		case 'L':
			m.style.margin = n
		case 'W':
			m.style.area = n
		}
		return nil
	}
	n, err := m.one()
	if err != nil {
		return err
	}
	return m.groupOne(c, n)
}

// groupOne obeys the GS commands with one parameter.
func (m *parser) groupOne(c, n byte) error {
	run := &m.style.run
	switch c {
	case '!':
		if n&0x88 != 0 {
			return fmt.Errorf("GS ! %02X: no such size", n)
		}
		run.Width, run.Height = 1+int(n>>4), 1+int(n&7)
	case 'B':
		run.Inverse = n&1 != 0
	case 'a':
		m.p.mu.Lock()
		m.p.asb = n
		m.p.lastASB = autoStatus(m.p.state)
		status := m.p.lastASB
		m.p.mu.Unlock()
		if n != 0 {
			m.answer(status[:]...)
		}
	case 'r':
		b, ok := queuedStatus(m.p.State(), n)
		if !ok {
			return fmt.Errorf("GS r %d: no such status", n)
		}
		m.answer(b)
	case 'I':
		return m.identify(n)
	case 'H':
		m.style.textBelow = n
	case 'h', 'w', 'f', 'b': // the look of bar codes, smoothing
	default:
		return fmt.Errorf("unknown command GS %02X %02X", c, n)
	}
	return nil
}

// identify is GS I: a byte of numbers, or a text between 5F and NUL.
func (m *parser) identify(n byte) error {
	switch n {
	case 1, 49:
		m.answer(0x20)
	case 2, 50:
		m.answer(0x02) // has a cutter
	case 3, 51:
		m.answer(0x01)
	case 65:
		m.answer([]byte("_1.00 SIM\x00")...)
	case 66:
		m.answer([]byte("_EPSON\x00")...)
	case 67:
		m.answer([]byte("_TM-SIM\x00")...)
	case 68:
		m.answer([]byte("_SIM0000001\x00")...)
	default:
		return fmt.Errorf("GS I %d: no such identification", n)
	}
	return nil
}

// cutCommand is GS V in all its forms.
func (m *parser) cutCommand() error {
	n, err := m.one()
	if err != nil {
		return err
	}
	kind := FullCut
	switch n {
	case 0, 48:
		return m.cut(FullCut)
	case 1, 49:
		return m.cut(PartialCut)
	case 65, 97, 103:
	case 66, 98, 104:
		kind = PartialCut
	default:
		return fmt.Errorf("GS V %d: no such cut", n)
	}
	if _, err := m.one(); err != nil { // feed before the cut, in dots
		return err
	}
	return m.cut(kind)
}

// barcode is GS k in its short form (to NUL) and its long one (counted).
func (m *parser) barcode() error {
	kind, err := m.one()
	if err != nil {
		return err
	}
	var data []byte
	switch {
	case kind <= 6:
		for {
			c, err := m.one()
			if err != nil {
				return err
			}
			if c == 0 {
				break
			}
			if data = append(data, c); len(data) > 255 {
				return fmt.Errorf("GS k %d: more than 255 bytes and no NUL", kind)
			}
		}
		kind += 65 // the same code in the long form
	case kind >= 65 && kind <= 79:
		n, err := m.one()
		if err != nil {
			return err
		}
		if data, err = m.take(int(n)); err != nil {
			return err
		}
	default:
		return fmt.Errorf("GS k %d: no such bar code", kind)
	}
	if err := checkBarcode(kind, data); err != nil {
		return err
	}
	m.block(Line{Barcode: &Barcode{Kind: kind, Data: string(data)}})
	return nil
}

// checkBarcode refuses what a printer prints as garbage or not at all.
func checkBarcode(kind byte, data []byte) error {
	switch {
	case len(data) == 0:
		return fmt.Errorf("GS k %d: no data", kind)
	case kind == 70 && len(data)%2 != 0:
		return fmt.Errorf("GS k %d: ITF of %d digits; it codes pairs", kind, len(data))
	case kind == 73 && (len(data) < 2 || data[0] != '{'):
		return fmt.Errorf("GS k %d: Code 128 data must begin with {A, {B or {C", kind)
	}
	return nil
}

// raster is GS v 0.
func (m *parser) raster() error {
	h, err := m.take(6)
	if err != nil {
		return err
	}
	if h[0] != '0' {
		return fmt.Errorf("unknown command GS v %02X", h[0])
	}
	width, height := int(h[2])|int(h[3])<<8, int(h[4])|int(h[5])<<8
	switch {
	case h[1]&^0x33 != 0:
		return fmt.Errorf("GS v 0 %d: no such scale", h[1])
	case int64(width)*int64(height) > maxImage: // an int has 32 bits on some terminals
		return fmt.Errorf("GS v 0: %d x %d bytes is more than a printer holds", width, height)
	}
	data, err := m.take(width * height)
	if err != nil {
		return err
	}
	if most := m.p.options().Columns * dotsPerColumn; width*8 > most {
		return fmt.Errorf("GS v 0: %d dots wide, the paper has %d", width*8, most)
	}
	img := blank(width*8, height)
	for y := range height {
		for x := range width * 8 {
			if data[y*width+x/8]>>(7-x%8)&1 != 0 {
				img.SetGray(x, y, color.Gray{})
			}
		}
	}
	m.block(Line{Image: img, Across: 1 + int(h[1]&1), Down: 1 + int(h[1]>>1&1)})
	return nil
}

// function obeys GS ( x pL pH data.
func (m *parser) function() error {
	head, err := m.take(3)
	if err != nil {
		return err
	}
	name, n := head[0], int(head[1])|int(head[2])<<8
	data, err := m.take(n)
	if err != nil {
		return err
	}
	switch name {
	case 'k':
		return m.symbol(data)
	case 'H':
		return m.processID(data)
	case 'D': // real-time commands on and off: obeyed on arrival
		return nil
	case 'A', 'E', 'K', 'M', 'N': // test print, settings, heat, colours
		return nil
	}
	return fmt.Errorf("unknown command GS ( %c with %d bytes", name, n)
}

// processID is GS ( H: answered in its turn, so only when all before it is printed.
func (m *parser) processID(data []byte) error {
	opt := m.p.options()
	if opt.NoProcessID {
		return fmt.Errorf("unknown command GS ( H with %d bytes: not on this model", len(data))
	}
	if len(data) != 6 || data[0] != 48 || data[1] != 48 {
		return fmt.Errorf("GS ( H: want 30 30 and four bytes of id, have % X", data)
	}
	for _, c := range data[2:] {
		if c < 0x20 || c > 0x7E {
			return fmt.Errorf("GS ( H: id % X has a byte outside 20-7E", data[2:])
		}
	}
	m.p.rest(opt.IDDelay, nil)
	if m.p.void(m.clears) {
		return errVoid
	}
	m.answer(append([]byte{0x37, 0x22}, append(bytes.Clone(data[2:]), 0)...)...)
	return nil
}

// symbol is GS ( k: QR codes only.
func (m *parser) symbol(data []byte) error {
	if len(data) < 3 {
		return fmt.Errorf("GS ( k: %d bytes; want cn, fn and parameters", len(data))
	}
	cn, fn, rest := data[0], data[1], data[2:]
	if m.p.options().NoQR {
		for _, c := range rest { // clones print the data as if it were text
			if c >= 0x20 && c < 0x7F {
				m.put(rune(c))
			}
		}
		return fmt.Errorf("GS ( k %d %d: not on this model, printed as text", cn, fn)
	}
	if cn != 49 {
		return fmt.Errorf("GS ( k %d: a symbol other than QR is not portable; send a raster", cn)
	}
	switch fn {
	case 65, 67, 69: // model, size, error correction
		return nil
	case 80:
		m.qr = bytes.Clone(rest[1:])
		return nil
	case 81:
		if len(m.qr) == 0 {
			return fmt.Errorf("GS ( k 49 81: nothing stored to print")
		}
		m.block(Line{QR: string(m.qr)})
		return nil
	}
	return fmt.Errorf("unknown command GS ( k 49 %d", fn)
}
