package printer

import (
	"bytes"
	"image"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// frenchLetters is what French texts are made of, typography included.
const frenchLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789" +
	"àâäçéèêëîïôöùûüÿœæÀÂÄÇÉÈÊËÎÏÔÖÙÛÜŸŒÆ€«»’‘“”…–—‑°§²×·•" +
	" \u00a0\u202f.,;:!%&()*+-/=@#'\""

func TestEveryFrenchTextIsPrintableInEachPage(t *testing.T) {
	letters := []rune(strings.ReplaceAll(frenchLetters, "?", ""))
	for _, page := range Pages() {
		t.Run(page.Name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				text := string(rapid.SliceOf(rapid.SampledFrom(letters)).Draw(t, "text"))
				for i, b := range page.encode(page.fold(text)) {
					if b == '?' || b < 0x20 || b == 0x7f {
						t.Fatalf("byte %d of %q is %#x in %s", i, text, b, page.Name)
					}
				}
			})
		})
	}
}

func TestFoldSpellsWhatThePageLacks(t *testing.T) {
	for _, c := range []struct {
		page       CodePage
		text, want string
	}{
		{Pages()[0], "cœur, ŒUVRE, l’été… – Ÿ", "coeur, OEUVRE, l'été... - Y"},
		{Pages()[1], "cœur, ŒUVRE, l’été… –", "cœur, ŒUVRE, l’été… –"},
		{Pages()[4], "À l'hôtel : 20 € ÉÈ", "A l'hôtel : 20 EUR ÉE"},
		{Pages()[0], "e\u0301te\u0301", "été"},
		{Pages()[0], "\x1b@a\x10\x04\x01b\x00", "@ab"},
		{Pages()[0], "漢\xff", "??"},
	} {
		if got := c.page.fold(c.text); got != c.want {
			t.Errorf("%s of %q: got %q, want %q", c.page.Name, c.text, got, c.want)
		}
	}
}

// TestEuroAndPageNumberByProfile: page numbers of a decimal table, written as hexadecimal
// ones, printed no euro (python-escpos/python-escpos#358).
func TestEuroAndPageNumberByProfile(t *testing.T) {
	var s Slip
	s.Line("Total 3,00 €")
	for name, want := range map[string]string{
		"epson-tm-t20": "\x1b@\x1bt\x13Total 3,00 \xd5\n\x1dVB\x18",
		"epson-tm-t88": "\x1b@\x1bt\x10\x1dW\xf8\x01Total 3,00 \x80\n\x1dVB\x18",
		"generic-58":   "\x1b@\x1c.\x1bt\x13Total 3,00 \xd5\n\x1bd\x04",
	} {
		p, err := ProfileNamed(name)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Encode(s, p)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != want {
			t.Errorf("%s: got % x, want % x", name, got, want)
		}
	}
}

func TestNarrowAndNoBreakSpacesArePlainSpaces(t *testing.T) {
	var s Slip
	s.Line("1\u202f000\u00a0€")
	for _, page := range Pages()[:2] {
		p := Profiles()[0]
		p.Page = page
		got, err := Encode(s, p)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(got, []byte("1 000 ")) {
			t.Errorf("%s: % x", page.Name, got)
		}
	}
}

func TestNoSlipHoldsARealTimeCommand(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.SampledFrom(Profiles()).Draw(t, "profile")
		b, err := Encode(anySlip(t), p)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i+1 < len(b); i++ {
			if b[i] == 0x10 && (b[i+1] == 0x04 || b[i+1] == 0x05 || b[i+1] == 0x14) {
				t.Fatalf("%s: % x at %d of %d", p.Name, b[i:min(len(b), i+3)], i, len(b))
			}
		}
	})
}

func TestCodesNeedNoDefusing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		data := rapid.StringMatching(`[ -~]{1,80}`).Draw(t, "data")
		for _, kind := range []blockKind{qrBlock, dataMatrixBlock} {
			c, err := drawCode(kind, data, 576)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(defuse(c.bits.bits), c.bits.bits) {
				t.Fatalf("a dot of the code of %q would be lost", data)
			}
		}
	})
}

func TestPageIsSentAgainAfterAPicture(t *testing.T) {
	var s Slip
	s.Logo(image.NewGray(image.Rect(0, 0, 16, 16)))
	s.Line("été")
	got, err := Encode(s, Profiles()[0])
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(got, []byte("\x1bt\x13\x82t\x82\n")) {
		t.Errorf("no page between picture and text: % x", got)
	}
}

func TestDefaultProfilesSendNoHeatBytes(t *testing.T) {
	for _, p := range Profiles() {
		if p.Heat != [3]byte{} {
			continue // the model that names them: see TestHeatOnlyWhereNamed
		}
		got, err := Encode(sample(), p)
		if err != nil {
			t.Fatal(err)
		}
		for _, heat := range []string{"\x1b7", "\x12#"} {
			if bytes.Contains(got, []byte(heat)) {
				t.Errorf("%s sends % x", p.Name, heat)
			}
		}
	}
}

func TestDrawerPulseHasAllFiveBytes(t *testing.T) {
	got, err := DrawerPulse(5, 100*time.Millisecond)
	if err != nil || !bytes.Equal(got, []byte{0x1b, 'p', 1, 50, 255}) {
		t.Errorf("% x, %v", got, err)
	}
	if _, err := DrawerPulse(3, 100*time.Millisecond); err == nil {
		t.Error("pin 3 taken")
	}
	if _, err := DrawerPulse(2, time.Second); err == nil {
		t.Error("a pulse that burns the coil taken")
	}
}

func TestProfileNamedNamesTheNearest(t *testing.T) {
	_, err := ProfileNamed("epson-tmt20")
	if err == nil || !strings.Contains(err.Error(), `did you mean "epson-tm-t20"`) {
		t.Errorf("got %v", err)
	}
	for _, p := range Profiles() {
		if err := p.check(); err != nil {
			t.Error(err)
		}
	}
}

func TestCodeThatDoesNotFitIsAnError(t *testing.T) {
	var s Slip
	s.QR(strings.Repeat("é", 256))
	if _, err := Encode(s, named(t, "generic-58")); err == nil || !strings.Contains(err.Error(), "put less") {
		t.Errorf("got %v", err)
	}
	s = Slip{}
	s.QR("")
	if _, err := Encode(s, Profiles()[0]); err == nil {
		t.Error("an empty code taken")
	}
}

func TestFaultTextsFitTwoLinesOfThirtyTwo(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range Faults() {
		if seen[f.Code] || f.Technician == "" {
			t.Errorf("%s: code twice or no technician's text", f.Code)
		}
		seen[f.Code] = true
		for _, text := range []string{f.ClerkFR, f.ClerkEN} {
			lines := strings.Split(text, "\n")
			if text == "" || len(lines) > 2 {
				t.Errorf("%s: %q", f.Code, text)
			}
			for _, l := range lines {
				if width(l) > 32 {
					t.Errorf("%s: %d columns: %q", f.Code, width(l), l)
				}
			}
		}
	}
}
