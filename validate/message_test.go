package validate

import (
	"testing"
	"time"
)

func TestMessageHoldsOnItsDaysInParis(t *testing.T) {
	at := func(text string) time.Time {
		x, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	m := Message{From: "2026-12-01", Until: "2026-12-02"}
	for text, want := range map[string]bool{"2026-11-30T22:59:59Z": false, "2026-11-30T23:00:00Z": true, "2026-12-02T22:59:59Z": true, "2026-12-02T23:00:00Z": false} {
		if got := m.InForce(at(text)); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
	if !m.InForce(time.Time{}) {
		t.Error("a clock that nobody vouches for hides a message")
	}
	if m.Until = ""; !m.InForce(at("2090-01-01T00:00:00Z")) {
		t.Error("a message with no end has ended")
	}
}
