package sim

import (
	"bytes"
	"image"
	"image/png"
	"os"
	"testing"

	"github.com/makiuchi-d/gozxing"
	"github.com/makiuchi-d/gozxing/qrcode"
)

// TestPaperIsDrawnAsPrinted: the picture has the paper's width, ink where letters and images are,
// white where they are not, and a QR code that a reader reads.
func TestPaperIsDrawnAsPrinted(t *testing.T) {
	p, d := printerFor(t, PrinterOptions{Columns: 32})
	d.send("\x1b@\x1bt\x13\x1ba\x01\x1d!\x11\x1bE\x01Gagn\x82\x1bE\x00\x1d!\x00\n20,00 \xd5\n\x1ba\x00\x1dB\x01inverse\x1dB\x00 \x1b-\x01u\x1b-\x00\n" +
		"\x1dv0\x03\x01\x00\x02\x00\xff\x80" + "\x1ba\x01\x1d(k\x08\x001P0hello\x1d(k\x03\x001Q0\n" + cutAll)
	slip := next(t, p)
	noErrors(t, p)
	var b bytes.Buffer
	if err := slip.PNG(&b); err != nil {
		t.Fatal(err)
	}
	if path := os.Getenv("GRATTOIR_PICTURE"); path != "" { // for a look at it
		if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	img, err := png.Decode(&b)
	if err != nil || img.Bounds().Dx() != 32*dotsPerColumn {
		t.Fatalf("%v, %v", err, img.Bounds())
	}
	// A picture of 8 by 2 dots at double size: a row of ink, then one pixel of it.
	top := marginDots + 2*glyphDots + lineDots - glyphDots + 2*lineDots
	for _, c := range []struct {
		x, y int
		ink  bool
	}{{0, top, true}, {15, top + 1, true}, {16, top, false}, {1, top + 3, true}, {2, top + 3, false}, {3, marginDots + 3, false}} {
		if got := img.(*image.Gray).GrayAt(c.x, c.y).Y < 128; got != c.ink {
			t.Errorf("ink at %d,%d: %v", c.x, c.y, got)
		}
	}
	bmp, err := gozxing.NewBinaryBitmapFromImage(img)
	if err != nil {
		t.Fatal(err)
	}
	read, err := qrcode.NewQRCodeReader().Decode(bmp, nil)
	if err != nil || read.GetText() != "hello" {
		t.Errorf("the QR code reads %v, %v", read, err)
	}
}

func TestPaperThatNobodyCanDrawIsAnError(t *testing.T) {
	long := Slip{Columns: 32, Lines: make([]Line, maxPicture/lineDots+1)}
	if err := long.PNG(&bytes.Buffer{}); err == nil {
		t.Error("eight metres of paper were drawn")
	}
}
