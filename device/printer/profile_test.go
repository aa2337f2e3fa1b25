package printer

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/pelletier/go-toml/v2"
)

// named is a shipped profile.
func named(t *testing.T, name string) Profile {
	t.Helper()
	p, err := ProfileNamed(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// read reads a file of profiles strictly.
func read(text string) ([]Profile, error) {
	return ReadProfiles(Profiles(), func(into any) error {
		return toml.NewDecoder(strings.NewReader(text)).DisallowUnknownFields().Decode(into)
	})
}

func TestShippedProfilesNameTheirSource(t *testing.T) {
	for _, p := range Profiles() {
		if p.Source == "" {
			t.Errorf("%s: no source", p.Name)
		}
		if err := p.check(); err != nil {
			t.Error(err)
		}
	}
	if third := named(t, "epson-tm-t88iii"); third.Completion || third.Clears || third.NativeQR || !third.Recovers {
		t.Errorf("TM-T88III: %+v", third)
	}
}

// TestTechniciansProfileSaysOnlyWhatDiffers also takes the place of a shipped one, and
// may be like one of its own file.
func TestTechniciansProfileSaysOnlyWhatDiffers(t *testing.T) {
	list, err := read(`
[[printer]]
name = "till-2"
like = "epson-tm-t20"
source = "the self-test of the unit"
columns = 42
cell = 13
page = "PC850"
page_number = 7
cutter = "full"
status = "maybe"
completion = false
heat = [7, 80, 2]
wake_ms = 250
[[printer]]
name = "generic-58"
like = "till-2"
columns = 30
dots = 400
heat = []
`)
	if err != nil {
		t.Fatal(err)
	}
	till, err := FindProfile(list, "till-2")
	if err != nil {
		t.Fatal(err)
	}
	want := named(t, "epson-tm-t20")
	want.Name, want.Source, want.Columns, want.Cell, want.Cutter = "till-2", "the self-test of the unit", 42, 13, FullCut
	want.Page = CodePage{"PC850", 7, Pages()[3].chars}
	want.Status, want.Completion, want.Heat, want.Wake = Maybe, false, [3]byte{7, 80, 2}, 250*time.Millisecond
	if till != want {
		t.Errorf("got %+v, want %+v", till, want)
	}
	small, err := FindProfile(list, "generic-58")
	if err != nil || small.Columns != 30 || small.Cell != 13 || small.Heat != [3]byte{} {
		t.Errorf("got %+v, %v", small, err)
	}
	if len(list) != len(Profiles())+1 {
		t.Errorf("%d profiles", len(list))
	}
}

func TestWrongProfileIsRefusedByName(t *testing.T) {
	for text, want := range map[string]string{
		``:                            "[[printer]]",
		"[[printer]]\ncolumns = 32\n": "name",
		"[[printer]]\nname = \"x\"\nlike = \"generic58\"\n":                            `did you mean "generic-58"`,
		"[[printer]]\nname = \"x\"\n":                                                  "0 columns",
		"[[printer]]\nname = \"x\"\nlike = \"generic-58\"\ncolumns = 48\n":             "384 dots for 48 columns",
		"[[printer]]\nname = \"x\"\nlike = \"generic-58\"\ncutter = \"half\"\n":        "full, none, partial",
		"[[printer]]\nname = \"x\"\nlike = \"generic-58\"\nstatus = \"true\"\n":        "maybe, no, yes",
		"[[printer]]\nname = \"x\"\nlike = \"generic-58\"\npage = \"PC885\"\n":         `did you mean "PC858"`,
		"[[printer]]\nname = \"x\"\nlike = \"generic-58\"\nheat = [1, 2]\n":            "want 3",
		"[[printer]]\nname = \"x\"\nlike = \"generic-58\"\nwake_ms = 60000\n":          "0 to 10 s",
		"[[printer]]\nname = \"x\"\nlike = \"generic-58\"\nchunk = 300\n":              "chunk within buffer",
		"[[printer]]\nname = \"x\"\nlike = \"epson-tm-t20\"\nstatus = \"no\"\n":        "are answers too",
		"[[printer]]\nname = \"x\"\nlike = \"generic-58\"\nbuffers = 300\n":            "missing",
		"[[printer]]\nname = \"x\"\nlike = \"generic-58\"\npage_number = 300\n":        "",
		"[[printer]]\nname = \"" + strings.Repeat("x", 41) + "\"\nlike = \"csn-a2\"\n": "1 to 40",
	} {
		if _, err := read(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}

// TestStarPrinterIsRefusedWithAWayOut: another command set, which nothing here speaks.
func TestStarPrinterIsRefusedWithAWayOut(t *testing.T) {
	for _, name := range []string{"star-tsp100", "Star TSP654"} {
		if _, err := ProfileNamed(name); err == nil || !strings.Contains(err.Error(), "ESC/POS emulation") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestHeatOnlyWhereNamed: a newer module prints the bytes as text
// (adafruit/Adafruit_CircuitPython_Thermal_Printer#18).
func TestHeatOnlyWhereNamed(t *testing.T) {
	got, err := Encode(sample(), named(t, "csn-a2"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.HasPrefix(got, []byte("\x1b@\x1c.\x1b7\x0b\x78\x28\x1bt\x13")) {
		t.Errorf("begins with % x", got[:16])
	}
}

// TestNoSlipChangesTheFont: some models lose the code page at a font change
// (python-escpos/python-escpos#729), so there is none to send it again after.
func TestNoSlipChangesTheFont(t *testing.T) {
	for _, p := range Profiles() {
		slip := TestSlip(p, "GRT1")
		got, err := Encode(slip, p)
		if err != nil {
			t.Fatal(err)
		}
		for _, font := range []string{"\x1bM", "\x1b!"} {
			if bytes.Contains(got, []byte(font)) {
				t.Errorf("%s sends % x", p.Name, font)
			}
		}
	}
}
