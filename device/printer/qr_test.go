package printer

import (
	"fmt"
	"image"
	"image/color"
	mathrand "math/rand/v2"
	"strings"
	"testing"

	"github.com/makiuchi-d/gozxing"
	"github.com/makiuchi-d/gozxing/qrcode"
	"pgregory.net/rapid"
)

// reads reads a code off a picture that holds nothing else. A reader that has to find it
// first, as in the tests of slips, misses a few in a thousand at any one size.
func reads(s modules, data string) error {
	const dots = 4
	quiet := quietModules * dots
	picture := image.NewGray(image.Rect(0, 0, s.width*dots+2*quiet, s.height*dots+2*quiet))
	for i := range picture.Pix {
		picture.Pix[i] = 255
	}
	for y := range s.height * dots {
		for x := range s.width * dots {
			if s.black(x/dots, y/dots) {
				picture.SetGray(x+quiet, y+quiet, color.Gray{})
			}
		}
	}
	bits, err := gozxing.NewBinaryBitmapFromImage(picture)
	if err != nil {
		return err
	}
	result, err := qrcode.NewQRCodeReader().Decode(bits, map[gozxing.DecodeHintType]any{gozxing.DecodeHintType_PURE_BARCODE: true})
	if err == nil && result.GetText() != data {
		err = fmt.Errorf("it reads %q, want %q", result.GetText(), data)
	}
	return err
}

// anyText is n printable characters, the same for the same n.
func anyText(n int) string {
	rng := mathrand.New(mathrand.NewPCG(uint64(n), 7))
	var b strings.Builder
	for range n {
		b.WriteByte(byte(0x21 + rng.IntN(0x5e)))
	}
	return b.String()
}

// TestQRCodeOfEveryVersionReads fills each version to the last byte, and begins it.
func TestQRCodeOfEveryVersionReads(t *testing.T) {
	// Bytes in byte mode at level M, ISO/IEC 18004 table 7, up to maxCodeData.
	most := []int{14, 26, 42, 62, 84, 106, 122, 152, 180, 213, 251, 287, 331, 362, 412, 450, 504}
	before := 0
	for i, n := range most {
		for _, length := range []int{before + 1, n} {
			s, err := qrModules(anyText(length))
			if err != nil {
				t.Fatal(err)
			}
			if want := 21 + 4*i; s.width != want || s.height != want {
				t.Errorf("%d bytes: %d by %d modules, want %d a side", length, s.width, s.height, want)
			}
			if err := reads(s, anyText(length)); err != nil {
				t.Errorf("version %d, %d bytes: %v", i+1, length, err)
			}
		}
		before = n
	}
}

// TestQRCodeReadsUnderAStain spoils what level M promises to bear: a dark stain over
// a tenth of the code, away from the patterns that a reader needs to find the code.
func TestQRCodeReadsUnderAStain(t *testing.T) {
	for _, n := range []int{60, 148, 234, 500} {
		s, err := qrModules(anyText(n))
		if err != nil {
			t.Fatal(err)
		}
		clean, from, side := s.black, s.width/2, s.width*3/10
		s.black = func(x, y int) bool {
			return clean(x, y) || x >= from && x < from+side && y >= from && y < from+side
		}
		if err := reads(s, anyText(n)); err != nil {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}

func TestQRCodeGivesItsDataBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		data := rapid.StringMatching(`[ -~]{1,300}`).Draw(t, "data")
		s, err := qrModules(data)
		if err != nil {
			t.Fatal(err)
		}
		if err := reads(s, data); err != nil {
			t.Fatalf("%q: %v", data, err)
		}
	})
}
