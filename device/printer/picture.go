package printer

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"io"
	"sync"

	"github.com/boombuler/barcode/datamatrix"
	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/gomono"
	"golang.org/x/image/font/gofont/gomonobold"
	"golang.org/x/image/font/opentype"
	"golang.org/x/image/math/fixed"
	"rsc.io/qr/coding"

	xdraw "golang.org/x/image/draw"
)

// The normal font of these printers is 12 by 24 dots on lines of 30.
const (
	cellDots  = 12
	glyphDots = 24
	lineDots  = 30
)

// quietModules is the white a QR code needs around it.
const quietModules = 4

// largeCode is the side in dots (32 mm) beyond which a code's modules shrink from six dots
// to four (0.5 mm, the least we print): its bytes on a slow line grow with the square.
const largeCode = 256

// maxCodeData bounds a code on a slip; a larger one would not be read off thermal paper.
const maxCodeData = 512

// bitmap is black and white, rows of stride bytes, most significant bit left.
type bitmap struct {
	width, height, stride int
	bits                  []byte
}

func newBitmap(width, height int) bitmap {
	stride := (width + 7) / 8
	return bitmap{width, height, stride, make([]byte, stride*height)}
}

func (b bitmap) blacken(x, y int) { b.bits[y*b.stride+x/8] |= 0x80 >> (x % 8) }

// row is one line of dots, to be read or written.
func (b bitmap) row(y int) []byte { return b.bits[y*b.stride : (y+1)*b.stride] }

func (b bitmap) black(x, y int) bool { return b.bits[y*b.stride+x/8]&(0x80>>(x%8)) != 0 }

// code is a drawn symbol at half the size it has on paper (see job.raster).
type code struct {
	bits   bitmap
	module int // dots of one module on the paper
}

// drawCode draws a symbol with modules of six dots (0.75 mm), or of four where it would be
// large or leave no quiet zone inside a paper of the given width in dots.
func drawCode(kind blockKind, data string, dots int) (code, error) {
	name, encode := "QR code", qrModules
	if kind == dataMatrixBlock {
		name, encode = "Data Matrix", dataMatrixModules
	}
	if data == "" || len(data) > maxCodeData {
		return code{}, fmt.Errorf("%s of %d bytes: want 1 to %d", name, len(data), maxCodeData)
	}
	symbol, err := encode(data)
	if err != nil {
		return code{}, fmt.Errorf("%s of %d bytes: %w", name, len(data), err)
	}
	modules := symbol.width
	half := min(3, dots/(2*(modules+2*quietModules)))
	if 2*half*modules > largeCode {
		half = min(half, 2)
	}
	if half < 2 {
		return code{}, fmt.Errorf("%s of %d bytes has %d modules a side: too many for a paper of %d dots; put less into it", name, len(data), modules, dots)
	}
	// White above and below belongs to the symbol; at its sides the paper is white anyway.
	white := quietModules * half
	b := newBitmap(modules*half, symbol.height*half+2*white)
	for y := range symbol.height {
		row := b.row(white + y*half)
		for x := range modules {
			if !symbol.black(x, y) {
				continue
			}
			for dot := x * half; dot < (x+1)*half; dot++ {
				b.blacken(dot, white+y*half)
			}
		}
		for n := 1; n < half; n++ {
			copy(b.row(white+y*half+n), row)
		}
	}
	return code{bits: b, module: 2 * half}, nil
}

// modules are the light and dark squares of a symbol, without its quiet zone.
type modules struct {
	width, height int
	black         func(x, y int) bool
}

// qrModules encodes a QR code at level M. The encoder takes one mask and weighs no others:
// the code is drawn between the durable claim and the printer's first byte, and weighing all eight
// takes milliseconds here and tens of them on a small board.
func qrModules(data string) (modules, error) {
	var text coding.Encoding = coding.String(data)
	for _, denser := range []coding.Encoding{coding.Num(data), coding.Alpha(data)} {
		if denser.Check() == nil {
			text = denser
			break
		}
	}
	for v := coding.Version(coding.MinVersion); v <= coding.MaxVersion; v++ {
		if text.Bits(v) > v.DataBytes(coding.M)*8 {
			continue
		}
		plan, err := qrPlans[v]()
		if err != nil {
			return modules{}, err
		}
		c, err := plan.Encode(text)
		if err != nil {
			return modules{}, err
		}
		return modules{c.Size, c.Size, c.Black}, nil
	}
	return modules{}, errors.New("too long for any")
}

// qrPlans lay out the symbols of each version, each once: doing it anew took more than
// half of what a code takes between the durable payment and the first byte.
var qrPlans = func() (plans [coding.MaxVersion + 1]func() (*coding.Plan, error)) {
	for v := range plans {
		plans[v] = sync.OnceValues(func() (*coding.Plan, error) { return coding.NewPlan(coding.Version(v), coding.M, 0) })
	}
	return plans
}()

func dataMatrixModules(data string) (modules, error) {
	c, err := datamatrix.Encode(data)
	if err != nil {
		return modules{}, err
	}
	area := c.Bounds()
	return modules{area.Dx(), area.Dy(), func(x, y int) bool {
		return color.GrayModel.Convert(c.At(area.Min.X+x, area.Min.Y+y)).(color.Gray).Y < 128
	}}, nil
}

// ditherLogo turns a picture into dots.
func ditherLogo(picture image.Image, dots int) (bitmap, error) {
	if picture == nil {
		return bitmap{}, errors.New("logo: no picture")
	}
	size := picture.Bounds().Size()
	if size.X < 1 || size.Y < 1 || size.X > dots || size.Y > 1024 {
		return bitmap{}, fmt.Errorf("logo of %d by %d dots: this paper takes 1 to %d by 1 to 1024", size.X, size.Y, dots)
	}
	if two, ok := picture.(*image.Paletted); ok && len(two.Palette) == 2 && two.Palette[0] == color.White && two.Palette[1] == color.Black {
		return blackDots(two), nil // drawn in dots already
	}
	return blackDots(dithered(picture)), nil
}

// dithered is a picture in white (0) and black (1). What is transparent is paper.
func dithered(picture image.Image) *image.Paletted {
	area := image.Rectangle{Max: picture.Bounds().Size()}
	onPaper := image.NewGray(area)
	draw.Draw(onPaper, area, image.White, image.Point{}, draw.Src)
	draw.Draw(onPaper, area, picture, picture.Bounds().Min, draw.Over)
	two := image.NewPaletted(area, twoColours())
	draw.FloydSteinberg.Draw(two, area, onPaper, image.Point{})
	return two
}

// blackDots are the dots of a picture in white (0) and black (1).
func blackDots(two *image.Paletted) bitmap {
	size := two.Bounds().Size()
	b := newBitmap(size.X, size.Y)
	for y := range size.Y {
		for x := range size.X {
			if two.ColorIndexAt(two.Rect.Min.X+x, two.Rect.Min.Y+y) == 1 {
				b.blacken(x, y)
			}
		}
	}
	return b
}

// maxLogoHeight bounds the logo of every slip: 32 mm, a third of the paper of a receipt.
const maxLogoHeight = 256

// ReadLogo reads a PNG to stand on top of slips, dithered to the dots of profile p's paper
// once and for all. One wider than the text or higher than 256 dots is refused before its
// pixels are read.
func ReadLogo(data []byte, p Profile) (image.Image, error) {
	size, err := png.DecodeConfig(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("logo: not a PNG: %w", err)
	}
	if size.Width > p.area() || size.Height > maxLogoHeight {
		return nil, fmt.Errorf("logo of %d by %d pixels: profile %q takes 1 to %d by 1 to %d, one pixel a dot", size.Width, size.Height, p.Name, p.area(), maxLogoHeight)
	}
	picture, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("logo: %w", err)
	}
	return dithered(picture), nil
}

// PNG draws the slip as p prints it, p.Dots pixels wide, one pixel a dot: what the code
// page lacks is folded here too, and text, codes and pictures have the paper's columns.
// The letters' shapes are those of the Go mono font, not the printer's own.
func PNG(w io.Writer, s Slip, p Profile) error {
	if err := p.check(); err != nil {
		return err
	}
	c, err := newCanvas(p)
	if err != nil {
		return err
	}
	defer c.close()
	rows := s.layout(p.Columns, p.Page.fold, p.Inverse)
	height := 2 * c.margin
	for _, r := range rows {
		h, err := c.height(r)
		if err != nil {
			return err
		}
		height += h
	}
	c.paper = image.NewGray(image.Rect(0, 0, p.Dots, height))
	draw.Draw(c.paper, c.paper.Bounds(), image.White, image.Point{}, draw.Src)
	y := c.margin
	for _, r := range rows {
		h, err := c.height(r)
		if err != nil {
			return err
		}
		if err := c.draw(r, y, h); err != nil {
			return err
		}
		y += h
	}
	if err := png.Encode(w, c.paper); err != nil {
		return fmt.Errorf("slip as PNG: %w", err)
	}
	return nil
}

// canvas draws rows. Letters are drawn at twice their size and then scaled into
// their cells, so that wide, tall and normal ones share one face.
type canvas struct {
	p             Profile
	paper         *image.Gray
	regular, bold font.Face
	cell          int // dots of one column
	margin        int // dots above the first line and below the last
	line          int // dots from line to line
	ascent, glyph int // of the face at twice the size: above the base line; whole
	drawn         map[glyph]*image.Alpha
}

func newCanvas(p Profile) (*canvas, error) {
	c := &canvas{p: p, cell: p.Cell, margin: 20, drawn: map[glyph]*image.Alpha{}}
	c.line = c.cell * lineDots / cellDots
	// The Go mono letters are 0.6 of their size wide; two cells of that are the face.
	size := float64(2*c.cell) / 0.6
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
	return c, nil
}

func (c *canvas) close() {
	_ = c.regular.Close()
	_ = c.bold.Close()
}

func (c *canvas) height(r row) (int, error) {
	switch r.kind {
	case qrBlock, dataMatrixBlock:
		symbol, err := drawCode(r.kind, r.data, c.p.area())
		return 2 * symbol.bits.height, err
	case logoBlock:
		b, err := ditherLogo(r.logo, c.p.area())
		return b.height, err
	}
	if r.style&Tall != 0 {
		return c.line + c.glyph/2, nil
	}
	return c.line, nil
}

func (c *canvas) draw(r row, y, height int) error {
	switch r.kind {
	case qrBlock, dataMatrixBlock:
		symbol, err := drawCode(r.kind, r.data, c.p.area())
		if err != nil {
			return err
		}
		c.dots(symbol.bits, 2, y)
	case logoBlock:
		b, err := ditherLogo(r.logo, c.p.area())
		if err != nil {
			return err
		}
		c.dots(b, 1, y)
	default:
		c.text(r, y, height)
	}
	return nil
}

func (c *canvas) dots(b bitmap, scale, y int) {
	left := (c.p.area() - b.width*scale) / 2
	for dy := range b.height * scale {
		for dx := range b.width * scale {
			if b.black(dx/scale, dy/scale) {
				c.paper.SetGray(left+dx, y+dy, color.Gray{})
			}
		}
	}
}

func (c *canvas) text(r row, y, height int) {
	ink, wide, high := image.Image(image.Black), c.cell, c.glyph/2
	if r.style&Wide != 0 {
		wide *= 2
	}
	if r.style&Tall != 0 {
		high *= 2
	}
	if r.inverse {
		draw.Draw(c.paper, image.Rect(0, y, c.p.area(), y+height), image.Black, image.Point{}, draw.Src)
		ink = image.White
	}
	face := c.regular
	if r.style&Bold != 0 {
		face = c.bold
	}
	x := r.indent * c.cell
	top := y + (height-high)/2
	for _, letter := range r.text {
		m := c.letter(face, letter, r.style&(Bold|Wide|Tall), wide, high)
		draw.DrawMask(c.paper, m.Bounds().Add(image.Pt(x, top)), ink, image.Point{}, m, image.Point{}, draw.Over)
		x += wide
	}
}

// glyph is one letter in one style.
type glyph struct {
	letter rune
	style  Style
}

// letter draws a letter into its cell, once for each style.
func (c *canvas) letter(face font.Face, letter rune, style Style, wide, high int) *image.Alpha {
	key := glyph{letter, style}
	if drawn, ok := c.drawn[key]; ok {
		return drawn
	}
	mask := image.NewAlpha(image.Rect(0, 0, 2*c.cell, c.glyph))
	pen := font.Drawer{Dst: mask, Src: image.Opaque, Face: face, Dot: fixed.P(0, c.ascent)}
	pen.DrawString(string(letter))
	cell := image.NewAlpha(image.Rect(0, 0, wide, high))
	xdraw.CatmullRom.Scale(cell, cell.Bounds(), mask, mask.Bounds(), draw.Src, nil)
	c.drawn[key] = cell
	return cell
}
