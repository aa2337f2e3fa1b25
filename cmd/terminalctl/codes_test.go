package main

import (
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"
)

var rewrite = flag.Bool("update", false, "rewrite device/health/CODES.md")

const codesPage = "../../device/health/CODES.md"

func TestCodesPageIsWhatThePartsSay(t *testing.T) {
	want := codesMarkdown(codes())
	if *rewrite {
		if err := os.WriteFile(codesPage, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(codesPage)
	if err != nil || string(got) != want {
		t.Errorf("%s differs from the parts' own tables (%v): rewrite it with go test ./cmd/terminalctl -run Codes -update", codesPage, err)
	}
}

// TestEveryCodeIsOneAndHasWords: a code that two parts use would send the technician to
// the wrong one.
func TestEveryCodeIsOneAndHasWords(t *testing.T) {
	form := regexp.MustCompile(`^[A-Z][0-9]{1,2}$`)
	seen := map[string]string{}
	families := map[byte]int{}
	for _, r := range codes() {
		if other, taken := seen[r.Code]; taken || !form.MatchString(r.Code) {
			t.Errorf("%s of %s: taken by %q, or no code", r.Code, r.Part, other)
		}
		seen[r.Code] = r.Part
		families[r.Code[0]]++
		if r.Part == "" || r.Technician == "" || (r.ClerkFR == "") != (r.ClerkEN == "") || strings.Contains(r.ClerkFR+r.ClerkEN+r.Technician, "\n") {
			t.Errorf("%+v", r)
		}
	}
	for _, family := range "BCDFGHIKLOPRSTV" {
		if families[byte(family)] < 2 {
			t.Errorf("%c has %d codes: a part's table is missing", family, families[byte(family)])
		}
	}
}
