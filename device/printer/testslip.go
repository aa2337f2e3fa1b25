package printer

import (
	"fmt"
	"image"
	"image/color"
	"strings"
)

// TestSlip is what a technician prints to see that a profile fits the printer on the
// counter: rulers of columns and dots, every style, every character of the code page, and
// code, as a QR code and as a Data Matrix to scan back. A line that breaks means too many
// columns, a ruler without its right end too many dots, a wrong letter the wrong page
// number. An empty code, or one too long for a symbol, leaves the codes out.
func TestSlip(p Profile, code string) Slip {
	var s Slip
	s.Banner("TEST")
	s.Line("ESSAI - PRINTER TEST", Bold, Centre)
	s.Pair("Profil", p.Name)
	s.Pair("Page", fmt.Sprintf("%s, ESC t %d", p.Page.Name, p.Page.Number))
	s.Pair("Points - dots", fmt.Sprintf("%d x %d / %d", p.Columns, p.Cell, p.Dots))
	s.Rule()
	for _, l := range columnRuler(p.Columns) {
		s.Line(l)
	}
	s.Logo(dotRuler(p.area()))
	s.Line("mm")
	s.Line("Gras - Bold", Bold)
	s.Line("Large - Wide", Wide)
	s.Line("Haut - Tall", Tall)
	s.Line("Double", Big)
	s.Line("Centre", Centre)
	s.Line("Droite - Right", Right)
	s.Rule()
	for _, l := range p.Page.table(p.Columns) {
		s.Line(l)
	}
	s.Line("Reçu de 1\u202f234,50\u202f€ : l’œuvre où ça gêne, déjà ÀÉÈÊÇ « fin »…")
	if c, err := drawCode(qrBlock, code, p.area()); err == nil && c.module > 0 {
		s.QR(code)
	}
	if c, err := drawCode(dataMatrixBlock, code, p.area()); err == nil && c.module > 0 {
		s.DataMatrix(code)
		s.Line(code, Centre)
	}
	s.Line("FIN - END", Bold, Centre)
	return s
}

// columnRuler counts the columns: the tens above, the units below.
func columnRuler(columns int) []string {
	var tens, units strings.Builder
	for i := 1; i <= columns; i++ {
		units.WriteByte(byte('0' + i%10))
		if i%10 == 0 {
			tens.WriteByte(byte('0' + i/10%10))
		} else {
			tens.WriteString(glue)
		}
	}
	return []string{tens.String(), units.String()}
}

// dotRuler is a ruler of the given width in dots, 8 to the millimetre: a mark at every
// millimetre, a longer one at every fifth and tenth, and one at the last dot.
func dotRuler(dots int) image.Image {
	const high = 24
	ruler := image.NewPaletted(image.Rect(0, 0, dots, high), twoColours())
	for x := range dots {
		tall := 2
		switch {
		case x == dots-1 || x%80 == 0:
			tall = high
		case x%40 == 0:
			tall = 16
		case x%8 == 0:
			tall = 8
		}
		for y := range tall {
			ruler.SetColorIndex(x, y, 1)
		}
	}
	return ruler
}

func twoColours() color.Palette { return color.Palette{color.White, color.Black} }

// table has every character of the page, sixteen a line behind the code of the first, with
// room between them where the paper has it. What prints nothing is a blank.
func (c CodePage) table(columns int) []string {
	gap := glue
	if columns < 3+2*16 {
		gap = ""
	}
	var lines []string
	for first := 0x20; first < 0x100; first += 16 {
		var b strings.Builder
		fmt.Fprintf(&b, "%X%s", first, glue)
		for code := first; code < first+16; code++ {
			r := c.chars.DecodeByte(byte(code))
			if !c.has(r) || tidy(string(r)) != string(r) || r == ' ' {
				r = '\u00a0'
			}
			b.WriteRune(r)
			b.WriteString(gap)
		}
		lines = append(lines, strings.TrimRight(b.String(), glue))
	}
	return lines
}
