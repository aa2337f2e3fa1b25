package printer

import (
	"bytes"
	"image"
	"image/draw"
	"image/png"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/makiuchi-d/gozxing"
	"github.com/makiuchi-d/gozxing/datamatrix"
	"github.com/makiuchi-d/gozxing/qrcode"

	"grattoir/device/sim"
)

// printed prints a slip on a simulated printer and returns the paper.
func printed(t *testing.T, s Slip, p Profile, opt sim.PrinterOptions) sim.Slip {
	t.Helper()
	opt.Columns = p.Columns
	paper, err := sim.NewPrinter(filepath.Join(t.TempDir(), "by-id"), opt)
	if err != nil {
		t.Fatal(err)
	}
	defer paper.Close()
	d := New(Config{Path: paper.Path(), Baud: 921600, Profile: p, Poll: time.Hour}, slog.New(slog.DiscardHandler))
	stop := running(t, d)
	defer stop()
	if state, err := d.Print(t.Context(), s, nil); err != nil {
		t.Fatalf("%s, %v", state, err)
	}
	for _, err := range paper.Errors() {
		t.Errorf("the printer did not understand: %v", err)
	}
	if slips := paper.Slips(); len(slips) > 0 {
		return slips[0]
	}
	return paper.Uncut()
}

// codes are the two-dimensional codes on a slip, in their order: what pictures show that
// follow each other is one picture in slices.
func codes(t *testing.T, s sim.Slip) (found []string) {
	t.Helper()
	var whole *image.Gray
	flush := func() {
		if whole != nil && whole.Rect.Dy() > 60 { // not the ruler
			found = append(found, readCode(t, whole))
		}
		whole = nil
	}
	for _, l := range s.Lines {
		if l.Image == nil || whole != nil && l.Image.Rect.Dx() != whole.Rect.Dx()-48 {
			flush()
		}
		if l.Image == nil {
			continue
		}
		above := 24
		if whole != nil {
			above = whole.Rect.Dy()
		}
		next := image.NewGray(image.Rect(0, 0, l.Image.Rect.Dx()+48, above+l.Image.Rect.Dy()))
		draw.Draw(next, next.Rect, image.White, image.Point{}, draw.Src)
		if whole != nil {
			draw.Draw(next, whole.Rect, whole, image.Point{}, draw.Src)
		}
		draw.Draw(next, l.Image.Rect.Add(image.Pt(24, above)), l.Image, image.Point{}, draw.Src)
		whole = next
	}
	flush()
	return found
}

func readCode(t *testing.T, picture image.Image) string {
	t.Helper()
	bits, err := gozxing.NewBinaryBitmapFromImage(picture)
	if err != nil {
		t.Fatal(err)
	}
	hints := map[gozxing.DecodeHintType]any{gozxing.DecodeHintType_PURE_BARCODE: true}
	for _, reader := range []gozxing.Reader{qrcode.NewQRCodeReader(), datamatrix.NewDataMatrixReader()} {
		if result, err := reader.Decode(bits, hints); err == nil {
			return result.GetBarcodeFormat().String() + " " + result.GetText()
		}
	}
	return "unreadable"
}

// without drops spaces: a wide letter on the simulated paper takes two of them.
func without(text string) string { return strings.ReplaceAll(text, " ", "") }

// TestTestSlipHasEveryCharacterOfThePage prints it on every page and width and reads the
// paper with the tables of the printer. It is the text of every French slip too: the page
// numbers are those of python-escpos/python-escpos#358, the ruler and the euro on one
// page those of Klemen1337/node-thermal-printer#70.
func TestTestSlipHasEveryCharacterOfThePage(t *testing.T) {
	const code = "GRT-TEST-7Q4K"
	for _, page := range Pages() {
		for _, name := range []string{"generic-58", "generic-80", "epson-tm-t20"} {
			if name != "generic-58" && page.Name != "PC858" {
				continue // the width has nothing to do with the page
			}
			t.Run(page.Name+" on "+name, func(t *testing.T) {
				p := named(t, name)
				p.Page = page
				slip := TestSlip(p, code)
				paper := printed(t, slip, p, sim.PrinterOptions{Chinese: p.LeaveChinese, NoQR: !p.NativeQR})
				got := without(paper.Text())
				for _, row := range slip.layout(p.Columns, page.fold, p.Inverse) {
					if row.kind == lineBlock && !strings.Contains(got, without(row.text)) {
						t.Errorf("not on the paper: %q\n%s", row.text, paper.Text())
					}
				}
				for code := 0x21; code < 0x100; code++ {
					r := page.chars.DecodeByte(byte(code))
					if page.has(r) && r != '\u00a0' && r != '\u00ad' && !strings.ContainsRune(got, r) {
						t.Errorf("no %q (%X)", r, code)
					}
				}
				for _, l := range paper.Lines {
					if l.Wrapped {
						t.Errorf("the printer broke a line: %q", l.Text())
					}
				}
				if got, want := codes(t, paper), []string{"QR_CODE " + code, "DATA_MATRIX " + code}; !slices.Equal(got, want) {
					t.Errorf("the codes read %q, want %q", got, want)
				}
			})
		}
	}
}

func TestTestSlipRulersEndWithThePaper(t *testing.T) {
	for _, p := range Profiles() {
		lines := strings.Split(TestSlip(p, "X").Text(p.Columns), "\n")
		units := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "1234567890") })
		if units < 1 || width(lines[units]) != p.Columns || lines[units-1][9:10] != "1" {
			t.Errorf("%s: %q", p.Name, lines)
		}
		ruler, err := ditherLogo(dotRuler(p.area()), p.area())
		if err != nil || ruler.width != p.area() || !ruler.black(p.area()-1, 20) || ruler.black(p.area()-1, 23) != ruler.black(80, 23) {
			t.Errorf("%s: %d dots, %v", p.Name, ruler.width, err)
		}
	}
}

// TestTestSlipWithoutACodeIsWhole, and so is one whose code no symbol takes.
func TestTestSlipWithoutACodeIsWhole(t *testing.T) {
	for _, code := range []string{"", strings.Repeat("x", maxCodeData+1)} {
		p := Profiles()[0]
		if _, err := Encode(TestSlip(p, code), p); err != nil {
			t.Error(err)
		}
	}
}

// TestPNGShowsWhatThePrinterFolds: where the page has no œ the picture has none.
func TestPNGShowsWhatThePrinterFolds(t *testing.T) {
	picture := func(text string, page CodePage) []byte {
		p := named(t, "generic-58")
		p.Page = page
		var s Slip
		s.Line(text, Centre)
		var b bytes.Buffer
		if err := PNG(&b, s, p); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	dos, windows := Pages()[4], Pages()[1]
	if !bytes.Equal(picture("À l’œuvre : 20\u202f€", dos), picture("A l'oeuvre : 20 EUR", dos)) {
		t.Error("PC437 has neither À nor œ nor €, and the picture shows them")
	}
	if bytes.Equal(picture("À l’œuvre : 20\u202f€", windows), picture("A l'oeuvre : 20 EUR", windows)) {
		t.Error("WPC1252 has them all, and the picture folds them")
	}
}

// TestPNGHasThePapersColumns: each character of the ruler stands in its own cell, and the
// last dot of the dot ruler is where the paper's text ends.
func TestPNGHasThePapersColumns(t *testing.T) {
	for _, p := range Profiles() {
		var s Slip
		s.Line(strings.Repeat("|", p.Columns))
		s.Logo(dotRuler(p.area()))
		var b bytes.Buffer
		if err := PNG(&b, s, p); err != nil {
			t.Fatal(err)
		}
		picture, err := png.Decode(&b)
		if err != nil {
			t.Fatal(err)
		}
		dark := func(x, y int) bool { r, _, _, _ := picture.At(x, y).RGBA(); return r < 0x8000 }
		text, ruler := 20+lineDots/2, 20+lineDots
		bars := 0
		for x := range p.Dots {
			if dark(x, text) && (x == 0 || !dark(x-1, text)) {
				if cell := x / p.Cell; cell != bars {
					t.Errorf("%s: bar %d stands in column %d", p.Name, bars, cell)
				}
				bars++
			}
		}
		if bars != p.Columns {
			t.Errorf("%s: %d bars, want %d", p.Name, bars, p.Columns)
		}
		if last := p.area() - 1; !dark(last, ruler+20) || last+1 < p.Dots && dark(last+1, ruler+20) {
			t.Errorf("%s: the ruler does not end with dot %d", p.Name, last)
		}
	}
}

// TestTestSlipHasAPicture, which SLIP_PNG_DIR keeps to be looked at.
func TestTestSlipHasAPicture(t *testing.T) {
	for _, p := range papers(t) {
		var b bytes.Buffer
		if err := PNG(&b, TestSlip(p, "GRT-TEST-7Q4K"), p); err != nil {
			t.Fatal(err)
		}
		if dir := os.Getenv("SLIP_PNG_DIR"); dir != "" {
			if err := os.WriteFile(filepath.Join(dir, "test-"+p.Name+".png"), b.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}
