package report

import (
	"os"
	"slices"
	"testing"
)

// TestSignalsDocumentIsWhatTheRulesSay: every signal has its rule, parameters, false alarms and
// case, in both languages, and docs/signals.md has all of it.
func TestSignalsDocumentIsWhatTheRulesSay(t *testing.T) {
	var names []string
	for _, r := range SignalRules() {
		names = append(names, r.Signal)
		for _, text := range []Text{r.Title, r.Rule, r.Parameters, r.FalseAlarms, r.Case} {
			if text.FR == "" || text.EN == "" || text.FR == text.EN {
				t.Errorf("%s: %+v", r.Signal, text)
			}
		}
	}
	slices.Sort(names)
	want := []string{ManualEntry, UnsoldCheck, PaidOrStolen, CheckedElsewhere, BlockOverpaid, MiddleMissing, OddHours, Cancelled}
	slices.Sort(want)
	if !slices.Equal(names, want) {
		t.Errorf("rules of %q, want %q", names, want)
	}
	const path = "../../docs/signals.md"
	if *update {
		if err := os.WriteFile(path, []byte(SignalsDocument()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil || string(text) != SignalsDocument() {
		t.Errorf("docs/signals.md is another text: run this test with -update: %v", err)
	}
}
