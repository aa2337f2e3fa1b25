package printer

import (
	"bytes"
	"flag"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/makiuchi-d/gozxing"
	"github.com/makiuchi-d/gozxing/datamatrix"
	"github.com/makiuchi-d/gozxing/qrcode"
	"golang.org/x/image/math/fixed"
	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// sample is a demonstration slip of 20 euros with everything a slip can hold.
func sample() Slip {
	var s Slip
	s.Line("TABAC DE L'HÔTEL DE VILLE", Centre|Bold)
	s.Line("8 rue de l'Œuvre, 35000 Rennes", Centre)
	s.Blank()
	s.Banner("DÉMONSTRATION")
	s.Blank()
	s.Line("Ticket gagnant payé", Centre)
	s.Line("20,00\u202f€", Centre|Bold|Big)
	s.Line("vingt euros", Centre)
	s.Rule()
	s.Pair("Jeu", "Bingo")
	s.Pair("Émission", "1")
	s.Pair("Livret", "0000123")
	s.Pair("Ticket", "017")
	s.Pair("Code", "…42")
	s.Pair("Payé le", "30/11/2026 à 14:07")
	s.Pair("Terminal", "T-0042, reçu n° 1 204")
	s.Rule()
	s.Pair("TOTAL", "20,00\u00a0€", Bold|Tall)
	s.Rule()
	s.Line("L’original du ticket est conservé par le détaillant. Aucun prélèvement n’a été effectué — gardez ce reçu…")
	s.Blank()
	s.QR("GRT1:T-0042:1204:5f2c9a")
	s.Line("Jouer comporte des risques : endettement, dépendance… Appelez le 09\u00a074\u00a075\u00a013\u00a013", Centre)
	return s
}

func TestSlipTextIsThePaperInEveryWidth(t *testing.T) {
	for _, columns := range []int{32, 42, 48} {
		got := sample().Text(columns)
		for i, line := range strings.Split(got, "\n") {
			if width(line) > columns {
				t.Errorf("%d columns: line %d has %d: %q", columns, i+1, width(line), line)
			}
		}
		golden(t, "demonstration-"+strconv.Itoa(columns)+".txt", []byte(got))
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs; run with -update and look at the difference. Got:\n%s", path, got)
	}
}

func TestSlipKeepsAmountAndCurrencyTogether(t *testing.T) {
	var s Slip
	s.Line("Total payé en espèces : 1\u202f000,00\u202f€")
	if got := s.Text(32); got != "Total payé en espèces :\n1 000,00 €\n" {
		t.Errorf("got %q", got)
	}
}

func TestSlipPairTooLongTakesTwoLines(t *testing.T) {
	var s Slip
	s.Pair("Numéro du livret et du ticket", "0000123-017")
	want := "Numéro du livret et du ticket\n" + strings.Repeat(" ", 21) + "0000123-017\n"
	if got := s.Text(32); got != want {
		t.Errorf("got %q", got)
	}
}

func TestSlipTextNeverWiderThanThePaper(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		columns := rapid.SampledFrom([]int{32, 42, 48}).Draw(t, "columns")
		s := anySlip(t)
		for _, line := range strings.Split(s.Text(columns), "\n") {
			if width(line) > columns {
				t.Fatalf("%d columns, got %d: %q", columns, width(line), line)
			}
		}
	})
}

// anySlip draws a slip of any text, control bytes included.
func anySlip(t *rapid.T) Slip {
	var s Slip
	text := rapid.String()
	for range rapid.IntRange(0, 8).Draw(t, "blocks") {
		style := Style(rapid.IntRange(0, 31).Draw(t, "style"))
		switch rapid.IntRange(0, 4).Draw(t, "block") {
		case 0:
			s.Line(text.Draw(t, "line"), style)
		case 1:
			s.Pair(text.Draw(t, "left"), text.Draw(t, "right"), style)
		case 2:
			s.Banner(text.Draw(t, "banner"))
		case 3:
			s.QR(rapid.StringMatching(`[A-Z0-9:]{1,60}`).Draw(t, "data"))
		case 4:
			s.Logo(anyLogo(t))
		}
	}
	return s
}

// anyLogo is full of the bytes that a printer would obey at once.
func anyLogo(t *rapid.T) image.Image {
	b := rapid.SliceOfN(rapid.SampledFrom([]byte{0x10, 0x04, 0x05, 0x14, 0x01, 0x02, 0x08, 0xff}), 64, 64).Draw(t, "logo")
	picture := image.NewGray(image.Rect(0, 0, 128, 4))
	for y := range 4 {
		for x := range 128 {
			if b[y*16+x/8]&(0x80>>(x%8)) == 0 {
				picture.SetGray(x, y, color.Gray{Y: 255})
			}
		}
	}
	return picture
}

// papers are one profile for each width of text.
func papers(t *testing.T) []Profile {
	return []Profile{named(t, "generic-58"), named(t, "generic-80"), named(t, "epson-tm-t20")}
}

func TestPNGIsAsWideAsThePaperAndItsQRReads(t *testing.T) {
	for _, p := range papers(t) {
		var b bytes.Buffer
		if err := PNG(&b, sample(), p); err != nil {
			t.Fatal(err)
		}
		if dir := os.Getenv("SLIP_PNG_DIR"); dir != "" {
			if err := os.WriteFile(filepath.Join(dir, p.Name+".png"), b.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		picture, err := png.Decode(&b)
		if err != nil {
			t.Fatal(err)
		}
		if picture.Bounds().Dx() != p.Dots {
			t.Errorf("%s: %d pixels wide, want %d", p.Name, picture.Bounds().Dx(), p.Dots)
		}
		if got := readQR(t, picture); got != "GRT1:T-0042:1204:5f2c9a" {
			t.Errorf("%s: QR reads %q", p.Name, got)
		}
	}
}

func readQR(t *testing.T, picture image.Image) string {
	t.Helper()
	dots, err := gozxing.NewBinaryBitmapFromImage(picture)
	if err != nil {
		t.Fatal(err)
	}
	result, err := qrcode.NewQRCodeReader().Decode(dots, map[gozxing.DecodeHintType]any{gozxing.DecodeHintType_TRY_HARDER: true})
	if err != nil {
		t.Fatal(err)
	}
	return result.GetText()
}

func TestDataMatrixOfALongTicketCodeReads(t *testing.T) {
	const data = "1001230000123017123456789012345678901289"
	for _, columns := range []int{32, 48} {
		c, err := drawCode(dataMatrixBlock, data, columns*cellDots)
		if err != nil {
			t.Fatal(err)
		}
		const quiet = 24
		picture := image.NewGray(image.Rect(0, 0, 2*c.bits.width+2*quiet, 2*c.bits.height+2*quiet))
		for i := range picture.Pix {
			picture.Pix[i] = 255
		}
		for y := range 2 * c.bits.height {
			for x := range 2 * c.bits.width {
				if c.bits.black(x/2, y/2) {
					picture.SetGray(x+quiet, y+quiet, color.Gray{})
				}
			}
		}
		dots, err := gozxing.NewBinaryBitmapFromImage(picture)
		if err != nil {
			t.Fatal(err)
		}
		result, err := datamatrix.NewDataMatrixReader().Decode(dots, map[gozxing.DecodeHintType]any{gozxing.DecodeHintType_PURE_BARCODE: true})
		if err != nil {
			t.Fatal(err)
		}
		if result.GetText() != data {
			t.Errorf("read %q", result.GetText())
		}
	}
}

func TestPNGFontHasEveryLetterOfASlip(t *testing.T) {
	c, err := newCanvas(Profiles()[0])
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	for _, r := range frenchLetters {
		for _, f := range []interface {
			GlyphAdvance(rune) (fixed.Int26_6, bool)
		}{c.regular, c.bold} {
			if _, ok := f.GlyphAdvance(r); !ok && r != '\u202f' && r != '\u2011' { // both changed by tidy
				t.Errorf("no glyph for %q", r)
			}
		}
	}
}

func TestLogoWiderThanThePaperIsAnError(t *testing.T) {
	var s Slip
	s.Logo(image.NewGray(image.Rect(0, 0, 600, 10)))
	p := Profiles()[0]
	if _, err := Encode(s, p); err == nil || !strings.Contains(err.Error(), "576") {
		t.Errorf("Encode: %v", err)
	}
	if err := PNG(&bytes.Buffer{}, s, p); err == nil {
		t.Error("PNG drew it")
	}
}
