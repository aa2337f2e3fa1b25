package stationery

import (
	"bytes"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"grattoir/configs"
	"grattoir/device/printer"
)

func with(t *testing.T, profile, file string) (printer.Config, error) {
	t.Helper()
	c := configs.Terminal{Printer: configs.Printer{Path: "/dev/usb/lp0", Baud: 19200, Flow: "none", Profile: profile}}
	if file != "" {
		c.Printer.Profiles = filepath.Join(t.TempDir(), "printers.toml")
		if err := os.WriteFile(c.Printer.Profiles, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return Config(c)
}

func TestOwnProfileIsUsedAndShippedOnesStay(t *testing.T) {
	const own = "[[printer]]\nname = \"till\"\nlike = \"generic-58\"\npage = \"PC437\"\nheat = [7, 80, 2]\n"
	cfg, err := with(t, "till", own)
	if err != nil || cfg.Profile.Page.Name != "PC437" || cfg.Profile.Columns != 32 || cfg.Baud != 19200 || cfg.Validate() != nil {
		t.Errorf("%+v, %v", cfg, err)
	}
	if cfg, err = with(t, "epson-tm-t88", own); err != nil || cfg.Profile.Columns != 42 {
		t.Errorf("%+v, %v", cfg, err)
	}
	if cfg, err = with(t, "csn-a2", string(printer.ShippedProfiles)); err != nil || !cfg.Profile.Paced {
		t.Errorf("the shipped file, read as a technician's: %+v, %v", cfg, err)
	}
}

// TestMisspelledProfileNamesPlaceAndNearest: a key that means nothing would leave a printer
// as it was, with nobody knowing.
func TestMisspelledProfileNamesPlaceAndNearest(t *testing.T) {
	for file, want := range map[string]string{
		"[[printer]]\nname = \"till\"\ncolums = 32\n":                           `printers.toml:3:1: unknown key "colums"; did you mean "columns"?`,
		"[[printer]]\nname = \"till\"\ncolumns = \"32\"\n":                      "printers.toml:3:1",
		"[[printer]]\nname = \"till\"\nlike = \"csn-a2\"\npage_number = 300\n":  "printers.toml:4",
		"[[printer]]\nname = \"till\"\nlike = \"csn-a2\"\nheat = [1, 2, 300]\n": "printers.toml:4",
		"[[printer]]\nname = \"till\"\nlike = \"csn-2\"\n":                      `did you mean "csn-a2"`,
		"[[printers]]\nname = \"till\"\n":                                       `did you mean "printer"?`,
		strings.Repeat("#", maxProfiles+1):                                      "larger than 65536 bytes",
	} {
		if _, err := with(t, "till", file); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "printer.profiles") {
			t.Errorf("%.80q: got %v, want %s", file, err, want)
		}
	}
	if _, err := with(t, "tll", "[[printer]]\nname = \"till\"\nlike = \"csn-a2\"\n"); err == nil || !strings.Contains(err.Error(), `did you mean "till"`) {
		t.Errorf("a profile that is not in the file: %v", err)
	}
	if _, err := Config(configs.Terminal{Printer: configs.Printer{Profile: "till", Profiles: "/nowhere/printers.toml"}}); err == nil || !strings.Contains(err.Error(), "printer.profiles") {
		t.Errorf("no such file: %v", err)
	}
}

func TestLogoIsReadForThePaperOrRefused(t *testing.T) {
	p, err := printer.ProfileNamed("generic-58")
	if err != nil {
		t.Fatal(err)
	}
	var c configs.Terminal
	if logo, err := Logo(c, p); logo != nil || err != nil {
		t.Errorf("no logo: %v, %v", logo, err)
	}
	for width, fits := range map[int]bool{384: true, 385: false} {
		var b bytes.Buffer
		if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, width, 10))); err != nil {
			t.Fatal(err)
		}
		c.Shop.Logo = filepath.Join(t.TempDir(), "logo.png")
		if err := os.WriteFile(c.Shop.Logo, b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		logo, err := Logo(c, p)
		if fits != (logo != nil) || fits != (err == nil) || !fits && !strings.Contains(err.Error(), "shop.logo") {
			t.Errorf("%d wide: %v", width, err)
		}
	}
	if err := os.WriteFile(c.Shop.Logo, make([]byte, maxLogo+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Logo(c, p); err == nil || !strings.Contains(err.Error(), "larger than") {
		t.Errorf("too large: %v", err)
	}
}
