package sim

import (
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"io"

	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/gomono"
	"golang.org/x/image/font/gofont/gomonobold"
	"golang.org/x/image/font/opentype"
	"golang.org/x/image/math/fixed"
	"rsc.io/qr"

	xdraw "golang.org/x/image/draw"
)

// The paper's measures in dots of 1/8 mm.
const (
	glyphDots  = 24 // height of a letter of font A
	lineDots   = 30
	marginDots = 20
	moduleDots = 6 // of a QR code that the printer draws itself
	quietDots  = 4 * moduleDots
	maxPicture = 1 << 16 // height of a picture; a slip of 8 m is a mistake
)

// PNG draws the paper, one pixel a dot: what came out, not what was meant. The letters'
// shapes are the Go mono font's. One-dimensional codes are named and not drawn.
func (s Slip) PNG(w io.Writer) error {
	c, err := newPicture(s)
	if err != nil {
		return err
	}
	defer c.close()
	y := marginDots
	for i, l := range s.Lines {
		if err := c.line(l, y); err != nil {
			return fmt.Errorf("line %d of the slip: %w", i+1, err)
		}
		y += c.heights[i]
	}
	if s.Cut != NotCut {
		for x := 0; x < c.paper.Rect.Dx(); x += 2 * dotsPerColumn {
			draw.Draw(c.paper, image.Rect(x, y+marginDots-2, x+dotsPerColumn, y+marginDots), image.Black, image.Point{}, draw.Src)
		}
	}
	return png.Encode(w, c.paper)
}

// picture is a slip being drawn.
type picture struct {
	paper         *image.Gray
	heights       []int // of the lines, in dots
	regular, bold font.Face
	ascent, glyph int
}

func newPicture(s Slip) (*picture, error) {
	c := &picture{}
	height := 2 * marginDots
	for _, l := range s.Lines {
		h, err := l.height()
		if err != nil {
			return nil, err
		}
		c.heights = append(c.heights, h)
		if height += h; height > maxPicture {
			return nil, fmt.Errorf("the paper is more than %d dots long", maxPicture)
		}
	}
	// The Go mono letters are 0.6 of their size wide; drawn at twice the size and scaled.
	const size = 2 * dotsPerColumn / 0.6
	face := func(ttf []byte) (font.Face, error) {
		f, err := opentype.Parse(ttf)
		if err != nil {
			return nil, fmt.Errorf("embedded font: %w", err)
		}
		return opentype.NewFace(f, &opentype.FaceOptions{Size: size, DPI: 72, Hinting: font.HintingNone})
	}
	var err error
	if c.regular, err = face(gomono.TTF); err != nil {
		return nil, err
	}
	if c.bold, err = face(gomonobold.TTF); err != nil {
		return nil, err
	}
	m := c.regular.Metrics()
	c.ascent, c.glyph = m.Ascent.Ceil(), m.Ascent.Ceil()+m.Descent.Ceil()
	c.paper = blank(max(1, s.Columns)*dotsPerColumn, height)
	return c, nil
}

func (c *picture) close() {
	_ = c.regular.Close()
	_ = c.bold.Close()
}

// height is how much paper a line takes.
func (l Line) height() (int, error) {
	switch {
	case l.Image != nil:
		return l.Image.Rect.Dy() * max(1, l.Down), nil
	case l.QR != "":
		code, err := qr.Encode(l.QR, qr.M)
		if err != nil {
			return 0, fmt.Errorf("QR code: %w", err)
		}
		return code.Size*moduleDots + 2*quietDots, nil
	}
	high := 1
	for _, r := range l.Runs {
		high = max(high, r.Height)
	}
	return max(high*glyphDots+lineDots-glyphDots, l.Feed), nil
}

func (c *picture) line(l Line, y int) error {
	switch {
	case l.Image != nil:
		across, down := max(1, l.Across), max(1, l.Down)
		left := c.left(l, l.Image.Rect.Dx()*across)
		for dy := range l.Image.Rect.Dy() * down {
			for dx := range l.Image.Rect.Dx() * across {
				c.paper.SetGray(left+dx, y+dy, l.Image.GrayAt(l.Image.Rect.Min.X+dx/across, l.Image.Rect.Min.Y+dy/down))
			}
		}
	case l.QR != "":
		return c.code(l, y)
	case l.Barcode != nil:
		c.run(Run{Text: fmt.Sprintf("[barcode %d %s]", l.Barcode.Kind, l.Barcode.Data), Width: 1, Height: 1}, c.left(l, 0), y)
	default:
		c.text(l, y)
	}
	return nil
}

// left is where something of a width begins, by the line's alignment.
func (c *picture) left(l Line, width int) int {
	switch free := max(0, c.paper.Rect.Dx()-width); l.Align {
	case Centre:
		return free / 2
	case Right:
		return free
	}
	return 0
}

func (c *picture) code(l Line, y int) error {
	code, err := qr.Encode(l.QR, qr.M)
	if err != nil {
		return fmt.Errorf("QR code: %w", err)
	}
	side := code.Size * moduleDots
	left := c.left(l, side)
	for dy := range side {
		for dx := range side {
			if code.Black(dx/moduleDots, dy/moduleDots) {
				c.paper.SetGray(left+dx, y+quietDots+dy, color.Gray{})
			}
		}
	}
	return nil
}

// text draws the runs on one base line.
func (c *picture) text(l Line, y int) {
	width, high := 0, 1
	for _, r := range l.Runs {
		width += len([]rune(r.Text)) * r.Width * dotsPerColumn
		high = max(high, r.Height)
	}
	x := c.left(l, width)
	for _, r := range l.Runs {
		x = c.run(r, x, y+(high-r.Height)*glyphDots)
	}
}

// run draws a run with its left upper corner at x, y, and gives where the next begins.
func (c *picture) run(r Run, x, y int) int {
	wide, high := r.Width*dotsPerColumn, r.Height*glyphDots
	end := x + len([]rune(r.Text))*wide
	ink := image.Image(image.Black)
	if r.Inverse {
		draw.Draw(c.paper, image.Rect(x, y, end, y+high), image.Black, image.Point{}, draw.Src)
		ink = image.White
	}
	face := c.regular
	if r.Bold {
		face = c.bold
	}
	for _, letter := range r.Text {
		mask := image.NewAlpha(image.Rect(0, 0, 2*dotsPerColumn, c.glyph))
		pen := font.Drawer{Dst: mask, Src: image.Opaque, Face: face, Dot: fixed.P(0, c.ascent)}
		pen.DrawString(string(letter))
		cell := image.NewAlpha(image.Rect(0, 0, wide, high))
		xdraw.CatmullRom.Scale(cell, cell.Bounds(), mask, mask.Bounds(), draw.Src, nil)
		draw.DrawMask(c.paper, cell.Bounds().Add(image.Pt(x, y)), ink, image.Point{}, cell, image.Point{}, draw.Over)
		x += wide
	}
	if r.Underline {
		draw.Draw(c.paper, image.Rect(end-len([]rune(r.Text))*wide, y+high, end, y+high+1), ink, image.Point{}, draw.Src)
	}
	return end
}
