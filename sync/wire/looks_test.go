package wire

import (
	"strings"
	"testing"

	"grattoir/validate"
)

// TestHelloBoundsWhatIsToldOfLooks: each bound holds by itself, and an honest hello passes.
func TestHelloBoundsWhatIsToldOfLooks(t *testing.T) {
	look := Look{Day: "2026-11-28", Reason: validate.NotAWinner, Entered: validate.Scanned, Number: 3}
	seen := Sighting{Number: 7, Pack: 123, Ticket: 17, Reason: validate.Winner, Entered: validate.Typed, Operator: "anne", Seen: "2026-11-28T10:00:00.000Z"}
	good := Hello{Looks: []Look{look}, Sightings: []Sighting{seen, {Number: 9, Reason: "of-a-later-program", Entered: "spoken", Seen: seen.Seen}}}
	if err := good.CheckLooks(); err != nil {
		t.Fatal(err)
	}
	for name, edit := range map[string]func(*Hello){
		"too many looks":      func(h *Hello) { h.Looks = make([]Look, MaxLooks+1) },
		"too many sightings":  func(h *Hello) { h.Sightings = make([]Sighting, MaxSightings+1) },
		"no day":              func(h *Hello) { h.Looks[0].Day = "28/11/2026" },
		"a count of none":     func(h *Hello) { h.Looks[0].Number = 0 },
		"no word":             func(h *Hello) { h.Looks[0].Reason = "paid; drop" },
		"a long word":         func(h *Hello) { h.Looks[0].Entered = validate.Entered(strings.Repeat("a", 41)) },
		"a number again":      func(h *Hello) { h.Sightings[1].Number = 7 },
		"number 0":            func(h *Hello) { h.Sightings[0].Number = 0 },
		"no time":             func(h *Hello) { h.Sightings[0].Seen = "yesterday" },
		"another precision":   func(h *Hello) { h.Sightings[0].Seen = "2026-11-28T10:00:00.0000001Z" },
		"a control character": func(h *Hello) { h.Sightings[0].Operator = "a\nb" },
		"a long operator":     func(h *Hello) { h.Sightings[0].Operator = strings.Repeat("a", 65) },
	} {
		h := Hello{Looks: []Look{look}, Sightings: []Sighting{seen, {Number: 9, Reason: "x", Entered: "y", Seen: seen.Seen}}}
		edit(&h)
		if h.CheckLooks() == nil {
			t.Errorf("%s: taken", name)
		}
	}
}
