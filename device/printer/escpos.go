package printer

import (
	"bytes"
	"fmt"
	"strings"
	"time"
)

// The ESC/POS commands used here: the common core that Epson defined and that
// every receipt printer we looked at follows. Anything outside it is asked for
// by the profile only, because a clone prints an unknown command as text.
const (
	esc = 0x1b
	gs  = 0x1d
	sep = 0x1c
	dle = 0x10
	lf  = '\n'
)

// cutFeed is the paper fed past the cutter before the cut, in dots. It is not
// 16, the code of DLE, so that it never pairs with a status request behind it.
const cutFeed = 24

// tearLines is how many lines bring the last one past a tear bar.
const tearLines = 4

// Encode is the whole job for one slip: initialise, choose the code page, print,
// cut. The code page is sent with every job and again after every picture, since
// some models fall back to their default. It fails on a code that does not fit
// the symbology or the paper, and on a logo wider than the paper.
func Encode(s Slip, p Profile) ([]byte, error) {
	j, err := encode(s, p)
	if err != nil {
		return nil, err
	}
	return j.data, nil
}

// job is an encoded slip: its bytes, its height on the paper in dots, and how high it
// stands at the end of each command that feeds paper.
type job struct {
	data  []byte
	dots  int
	marks []mark
}

type mark struct{ bytes, dots int }

func (j *job) mark() { j.marks = append(j.marks, mark{len(j.data), j.dots}) }

// height is how much paper the first n bytes feed. A command counts when it is whole,
// but a picture, which is printed as it comes, row by row.
func (j *job) height(n int) int {
	before := mark{}
	for _, m := range j.marks {
		if n < m.bytes {
			if rows := m.dots - before.dots; m.bytes-before.bytes > rows {
				return before.dots + rows*max(0, n-before.bytes)/(m.bytes-before.bytes)
			}
			return before.dots
		}
		before = m
	}
	return before.dots
}

func (j *job) add(command ...byte) { j.data = append(j.data, command...) }

func encode(s Slip, p Profile) (*job, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	j := &job{}
	j.add(esc, '@')
	if p.LeaveChinese {
		j.add(sep, '.')
	}
	if p.Heat != [3]byte{} {
		j.add(esc, '7', p.Heat[0], p.Heat[1], p.Heat[2])
	}
	j.add(esc, 't', p.Page.Number)
	if area := p.area(); area < p.Dots {
		j.add(gs, 'W', byte(area), byte(area>>8)) // codes are centred over the text, not over the paper
	}
	for _, r := range s.layout(p.Columns, p.Page.fold, p.Inverse) {
		if err := j.row(r, p); err != nil {
			return nil, err
		}
	}
	switch p.Cutter {
	case PartialCut:
		j.add(gs, 'V', 66, cutFeed)
	case FullCut:
		j.add(gs, 'V', 65, cutFeed)
	default:
		j.add(esc, 'd', tearLines)
	}
	j.dots += tearLines * lineDots
	j.mark()
	return j, nil
}

func (j *job) row(r row, p Profile) error {
	switch r.kind {
	case qrBlock:
		if p.NativeQR && printable(r.data) {
			return j.nativeQR(r.data, p)
		}
		fallthrough
	case dataMatrixBlock:
		code, err := drawCode(r.kind, r.data, p.area())
		if err != nil {
			return err
		}
		j.raster(code.bits, true, p)
	case logoBlock:
		bits, err := ditherLogo(r.logo, p.area())
		if err != nil {
			return err
		}
		j.raster(bits, false, p)
	default:
		j.text(r, p)
	}
	return nil
}

// text sends one line. Style is set before it and taken back after it. The spaces
// that place a line are of normal width, so that a wide one can stand on any column.
func (j *job) text(r row, p Profile) {
	b := make([]byte, 0, 2*p.Columns)
	set := func(on bool, command ...byte) {
		if on {
			b = append(b, command...)
		}
	}
	var wide, tall byte
	j.dots += lineDots
	if r.style&Wide != 0 {
		wide = 0x10
	}
	if r.style&Tall != 0 {
		tall = 0x01
		j.dots += glyphDots
	}
	set(r.inverse, gs, 'B', 1)
	set(r.inverse && tall != 0, gs, '!', tall)
	b = append(b, strings.Repeat(" ", r.indent)...)
	set(r.style&Bold != 0, esc, 'E', 1)
	set(wide|tall != 0, gs, '!', wide|tall)
	b = append(b, p.Page.encode(r.text)...)
	set(r.trail > 0 && wide != 0, gs, '!', tall)
	b = append(b, strings.Repeat(" ", r.trail)...)
	set(wide|tall != 0, gs, '!', 0)
	set(r.style&Bold != 0, esc, 'E', 0)
	set(r.inverse, gs, 'B', 0)
	j.add(append(b, lf)...)
	j.mark()
}

// printable says that data is safe inside a command: a real-time request hidden
// in it would be obeyed.
func printable(data string) bool {
	for i := range len(data) {
		if data[i] < 0x20 || data[i] > 0x7e {
			return false
		}
	}
	return true
}

// nativeQR lets the printer draw: model 2, module size, level M, store, print.
func (j *job) nativeQR(data string, p Profile) error {
	code, err := drawCode(qrBlock, data, p.area()) // refuses what does not fit
	if err != nil {
		return err
	}
	n := len(data) + 3
	j.add(esc, 'a', 1)
	j.add(gs, '(', 'k', 4, 0, 49, 65, 50, 0)
	j.add(gs, '(', 'k', 3, 0, 49, 67, byte(code.module))
	j.add(gs, '(', 'k', 3, 0, 49, 69, 49)
	j.add(append([]byte{gs, '(', 'k', byte(n), byte(n >> 8), 49, 80, 48}, data...)...)
	j.add(lf)
	j.add(gs, '(', 'k', 3, 0, 49, 81, 48)
	j.add(lf)
	j.add(esc, 'a', 0)
	j.add(esc, 't', p.Page.Number)
	j.dots += code.bits.height * 2
	j.mark()
	return nil
}

// sliceBytes bounds one raster command: a printer whose cable is pulled inside
// one takes at most this much of the next job for the rest of the picture.
const sliceBytes = 1024

// raster sends a picture in slices. double prints each dot as two by two, which
// makes a code a quarter of the bytes on a slow line.
func (j *job) raster(b bitmap, double bool, p Profile) {
	mode, scale := byte(0), 1
	if double {
		mode, scale = 3, 2
	}
	j.add(esc, 'a', 1)
	rows := max(1, min(255, sliceBytes/b.stride))
	for y := 0; y < b.height; y += rows {
		h := min(rows, b.height-y)
		head := []byte{gs, 'v', '0', mode, byte(b.stride), byte(b.stride >> 8), byte(h), 0}
		j.add(append(head, defuse(b.bits[y*b.stride:(y+h)*b.stride])...)...)
		j.dots += h * scale
		j.mark()
	}
	j.add(esc, 'a', 0)
	j.add(esc, 't', p.Page.Number)
}

// defuse returns picture data in which no three bytes form a real-time command.
// A printer obeys DLE EOT, DLE ENQ and DLE DC4 even inside a picture: a logo can
// open the cash drawer. The one dot of DLE is left white; codes, whose modules
// are two dots wide or more, never hold it.
func defuse(data []byte) []byte {
	out := bytes.Clone(data)
	for i := 0; i+1 < len(out); i++ {
		if out[i] == dle && (out[i+1] == 0x04 || out[i+1] == 0x05 || out[i+1] == 0x14) {
			out[i] = 0
		}
	}
	return out
}

// statusRequest asks for real-time status n, 1 to 4 (DLE EOT n).
func statusRequest(n byte) []byte { return []byte{dle, 0x04, n} }

// processRequest asks the printer to send id back once everything before it is
// on the paper (GS ( H, function 48).
func processRequest(id [4]byte) []byte {
	return append([]byte{gs, '(', 'H', 6, 0, 48, 48}, id[:]...)
}

// sensorRequest asks for the paper sensor in turn (GS r 1): its answer says that
// the printer has read everything before it.
func sensorRequest() []byte { return []byte{gs, 'r', 1} }

// clearRequest drops everything in the printer's buffers, also while it is offline
// (DLE DC4, function 8, with its fixed parameters). Nothing may follow before the answer.
func clearRequest() []byte { return []byte{dle, 0x14, 8, 1, 3, 20, 1, 6, 2, 8} }

// recoverRequest makes the printer go on from the line at which its cutter jammed (DLE
// ENQ 1). It is obeyed at once, and ignored when there is nothing to recover from.
func recoverRequest() []byte { return []byte{dle, 0x05, 1} }

// DrawerPulse is the command that opens a cash drawer: connector pin 2 or 5, held
// for on, at most 510 ms in steps of 2 ms. All five bytes, always: with fewer,
// the printer takes its pulse times from the text that follows.
func DrawerPulse(pin int, on time.Duration) ([]byte, error) {
	if pin != 2 && pin != 5 {
		return nil, fmt.Errorf("drawer pin %d: the connector has pins 2 and 5", pin)
	}
	if on < 2*time.Millisecond || on > 510*time.Millisecond {
		return nil, fmt.Errorf("drawer pulse of %v: want 2ms to 510ms", on)
	}
	// The pause is as long as the command can say; the coil wants four times the pulse.
	return []byte{esc, 'p', byte(pin / 5), byte(on / (2 * time.Millisecond)), 255}, nil
}

// resync makes a printer that was cut off inside a job ready for the next one:
// zeros fill a picture that never ended and are ignored in text; then the torn
// piece is cut off, so that nobody finds it on top of their own slip.
func resync(p Profile) []byte {
	b := make([]byte, sliceBytes, sliceBytes+16)
	b = append(b, lf, esc, '@')
	switch p.Cutter {
	case PartialCut:
		return append(b, gs, 'V', 66, cutFeed)
	case FullCut:
		return append(b, gs, 'V', 65, cutFeed)
	default:
		return append(b, esc, 'd', tearLines)
	}
}

// mechanics is how long the paper itself takes, with the cut.
func (p Profile) mechanics(dots int) time.Duration { return p.feeding(dots) + 1500*time.Millisecond }

// feeding is how long the paper alone takes.
func (p Profile) feeding(dots int) time.Duration {
	return time.Duration(dots) * time.Second / time.Duration(8*p.Speed)
}

// transfer is how long n bytes take on a line of the given speed, 8N1.
func transfer(n, baud int) time.Duration {
	return time.Duration(n) * 10 * time.Second / time.Duration(baud)
}
