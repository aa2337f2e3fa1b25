package main

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"grattoir/device/gpio"
	"grattoir/device/terminal"
	"grattoir/validate"
	"grattoir/validate/money"
)

const counterPage = "../../docs/counter.md"

// lampsTable is what lamps and buzzer say, by what the board itself asks.
func lampsTable() string {
	var b strings.Builder
	b.WriteString("| lit | the buzzer | the screen's word |\n| --- | --- | --- |\n")
	words := map[gpio.Signal][]string{gpio.Paying: {"PAYÉ"}, gpio.Quiet: {"waits for a ticket"}}
	for _, r := range validate.Reasons() {
		s := gpio.SignalOf(terminal.View{Stage: terminal.Verdict, Verdict: validate.Verdict{Outcome: r.Outcome(), Reason: r}})
		if word := r.Text(money.French).Word; !slices.Contains(words[s], word) {
			words[s] = append(words[s], word)
		}
	}
	for _, s := range gpio.Signals() {
		lit := []string{}
		for _, lamp := range []gpio.Part{gpio.Win, gpio.Refuse, gpio.Alarm} {
			if s.Lit(lamp) {
				lit = append(lit, "`"+string(lamp)+"`")
			}
		}
		if len(lit) == 0 {
			lit = append(lit, "none")
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", strings.Join(lit, ", "), buzz(s.Sound()), strings.Join(words[s], ", "))
	}
	b.WriteString("\nThe `fault` lamp is lit too while scanner, printer or ledger keeps the counter from its work.\n")
	return b.String()
}

// buzz words what the buzzer does: on, off, on.
func buzz(sound []time.Duration) string {
	var on []string
	for i := 0; i < len(sound); i += 2 {
		word := "short"
		if sound[i] > 200*time.Millisecond {
			word = "long"
		}
		on = append(on, word)
	}
	if len(on) == 0 {
		return "silent"
	}
	return strings.Join(on, ", ")
}

// familiesTable is what each letter speaks of, and how many of its codes a clerk sees.
func familiesTable() string {
	var b strings.Builder
	b.WriteString("| letter | what speaks | codes | on the clerk's screen |\n| --- | --- | --- | --- |\n")
	all := codes()
	for i := 0; i < len(all); {
		n := i
		var parts []string
		shown := 0
		for ; n < len(all) && all[n].Code[0] == all[i].Code[0]; n++ {
			part, _, _ := strings.Cut(all[n].Part, ",")
			if strings.HasPrefix(part, "verdict ") {
				part = "verdict on a ticket"
			}
			if strings.HasPrefix(part, "pack-") { // one for each state of a pack
				part = "a pack's public code"
			}
			if !slices.Contains(parts, part) && len(parts) < 3 {
				parts = append(parts, part)
			}
			if all[n].ClerkFR != "" {
				shown++
			}
		}
		seen := "none"
		if shown > 0 {
			seen = fmt.Sprint(shown)
		}
		fmt.Fprintf(&b, "| %c | %s | %s to %s | %s |\n", all[i].Code[0], strings.Join(parts, ", "), all[i].Code, all[n-1].Code, seen)
		i = n
	}
	return b.String()
}

// TestCounterPageIsWhatThePartsSay: its tables are made from the parts' own, and each
// picture that it shows is there and small.
func TestCounterPageIsWhatThePartsSay(t *testing.T) {
	text, err := os.ReadFile(counterPage)
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "<!-- made by go test ./cmd/terminalctl -run Counter -update -->\n", "<!-- end -->"
	parts := strings.Split(string(text), begin)
	if len(parts) != 3 {
		t.Fatalf("%s has %d tables, want 2", counterPage, len(parts)-1)
	}
	want := parts[0]
	for i, table := range []string{lampsTable(), familiesTable()} {
		_, rest, _ := strings.Cut(parts[i+1], end)
		want += begin + table + end + rest
	}
	if *rewrite {
		if err := os.WriteFile(counterPage, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if want != string(text) {
		t.Errorf("%s differs from the parts' own tables: rewrite it with go test ./cmd/terminalctl -run Counter -update", counterPage)
	}
	total := int64(0)
	for _, m := range regexp.MustCompile(`\]\((pictures/[^)]+)\)`).FindAllStringSubmatch(want, -1) {
		info, err := os.Stat("../../docs/" + m[1])
		if err != nil {
			t.Error(err)
			continue
		}
		total += info.Size()
	}
	if total == 0 || total > 150_000 {
		t.Errorf("the pictures have %d bytes, at most 150 000", total)
	}
}
