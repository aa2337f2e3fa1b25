package printer

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"slices"
	"strings"
	"testing"

	"grattoir/device/sim"
	"grattoir/validate"
	"grattoir/validate/money"
)

func pngOf(t *testing.T, picture image.Image) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, picture); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestLogoIsOnThePaperDotForDot: black and white stay what they are, what is transparent is
// paper, and no grey is lost.
func TestLogoIsOnThePaperDotForDot(t *testing.T) {
	p := named(t, "generic-58")
	picture := image.NewNRGBA(image.Rect(0, 0, 64, 40))
	for y := range 40 {
		for x := range 64 {
			switch {
			case x < 16:
				picture.Set(x, y, color.Black)
			case x < 32:
				picture.Set(x, y, color.White)
			case x < 48:
				picture.Set(x, y, color.Gray{Y: 128})
			}
		}
	}
	logo, err := ReadLogo(pngOf(t, picture), p)
	if err != nil {
		t.Fatal(err)
	}
	st := tabac(money.French)
	st.Logo = logo
	slip, err := st.Receipt(paid())
	if err != nil {
		t.Fatal(err)
	}
	paper := printed(t, slip, p, sim.PrinterOptions{Chinese: true})
	first := paper.Lines[0].Image
	if first == nil || first.Rect.Dx() != 64 || first.Rect.Dy() != 40 || paper.Lines[0].Align != sim.Centre {
		t.Fatalf("first on the paper is %+v", paper.Lines[0])
	}
	grey := 0
	for y := range 40 {
		for x := range 64 {
			black := first.GrayAt(x, y).Y == 0
			switch {
			case x < 16 != black && (x < 32 || x >= 48):
				t.Fatalf("dot %d, %d is black: %v", x, y, black)
			case x >= 32 && x < 48 && black:
				grey++
			}
		}
	}
	if grey < 16*40/3 || grey > 16*40*2/3 {
		t.Errorf("%d of %d dots of the grey are black", grey, 16*40)
	}
	if !strings.HasPrefix(st.Closing(validate.Closing{}).Text(32), strings.Repeat(" ", 13)+"[logo]") {
		t.Error("no logo on a closing")
	}
}

// TestLogoIsRefusedBeforeItsPixelsAreRead: a small file may claim a picture of gigabytes.
func TestLogoIsRefusedBeforeItsPixelsAreRead(t *testing.T) {
	p := named(t, "generic-58")
	huge := pngOf(t, image.NewGray(image.Rect(0, 0, 8, 8)))
	huge = slices.Replace(huge, 16, 24, 0x7f, 0, 0, 0, 0x7f, 0, 0, 0) // width and height in IHDR
	for name, data := range map[string][]byte{
		"wide": pngOf(t, image.NewGray(image.Rect(0, 0, 385, 8))), "high": pngOf(t, image.NewGray(image.Rect(0, 0, 8, 257))),
		"huge": huge, "text": []byte("GIF89a"), "torn": pngOf(t, image.NewGray(image.Rect(0, 0, 64, 64)))[:60],
	} {
		if logo, err := ReadLogo(data, p); err == nil || logo != nil || !strings.HasPrefix(err.Error(), "logo") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
