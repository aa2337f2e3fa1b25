package sim

import (
	"fmt"
	"image"
	"strings"
	"unicode/utf8"
)

// Align is how a line lies between the margins.
type Align string

// The three ways a printer aligns a line.
const (
	Left   Align = "left"
	Centre Align = "centre"
	Right  Align = "right"
)

// Cut is how the paper was cut after a slip.
type Cut string

// The cuts a printer makes; NotCut is paper still hanging out.
const (
	NotCut     Cut = ""
	FullCut    Cut = "full"
	PartialCut Cut = "partial"
)

// Run is text printed in one style. Width and Height are 1 to 8, multiples of the
// normal letter.
type Run struct {
	Text                     string
	Bold, Underline, Inverse bool
	Width, Height            int
}

// Line is one thing on the paper. At most one of Runs, Image, QR and Barcode is
// set; none of them is an empty line.
type Line struct {
	Align   Align
	Runs    []Run
	Wrapped bool        // the printer broke it, since the next letter did not fit
	Image   *image.Gray // a raster image as sent, black is 0
	Across  int         // dots that a pixel of Image takes across; 0 is 1
	Down    int         // and down
	QR      string      // the data of a QR code printed by command
	Barcode *Barcode    // a one-dimensional code printed by command
	Feed    int         // dots fed after it when more than the line itself
}

// Barcode is a one-dimensional code: Kind is the number m of GS k as in its long
// form (67 EAN-13, 69 Code 39, 70 ITF, 73 Code 128).
type Barcode struct {
	Kind byte
	Data string
}

// Text is the line's letters without style or alignment.
func (l Line) Text() string {
	var b strings.Builder
	for _, r := range l.Runs {
		b.WriteString(r.Text)
	}
	return b.String()
}

// Slip is a piece of paper, from the cut before it to its own.
type Slip struct {
	Columns int
	Lines   []Line
	Cut     Cut
}

// Text is the paper as plain text: one row per line, aligned in the slip's
// columns, no trailing spaces, images and codes named in square brackets. A letter
// of double width takes two columns, and its run is padded to them.
func (s Slip) Text() string {
	var b strings.Builder
	for _, l := range s.Lines {
		b.WriteString(strings.TrimRight(s.row(l), " "))
		b.WriteByte('\n')
	}
	return b.String()
}

func (s Slip) row(l Line) string {
	var text string
	width := 0 // columns taken on the paper
	switch {
	case l.Image != nil:
		text = fmt.Sprintf("[image %dx%d]", l.Image.Rect.Dx(), l.Image.Rect.Dy())
		width = len(text)
	case l.QR != "":
		text = "[QR " + l.QR + "]"
		width = utf8.RuneCountInString(text)
	case l.Barcode != nil:
		text = fmt.Sprintf("[barcode %d %s]", l.Barcode.Kind, l.Barcode.Data)
		width = utf8.RuneCountInString(text)
	default:
		text, width = joinRuns(l.Runs)
	}
	pad := max(0, s.Columns-width)
	switch l.Align {
	case Centre:
		return strings.Repeat(" ", pad/2) + text
	case Right:
		return strings.Repeat(" ", pad) + text
	}
	return text
}

// joinRuns pads each run but the last to the columns it takes, so that what
// follows a wide run stands where it stands on the paper.
func joinRuns(runs []Run) (string, int) {
	var b strings.Builder
	width := 0
	for i, r := range runs {
		n := utf8.RuneCountInString(r.Text)
		b.WriteString(r.Text)
		if i < len(runs)-1 {
			b.WriteString(strings.Repeat(" ", n*(r.Width-1)))
		}
		width += n * r.Width
	}
	return b.String(), width
}
