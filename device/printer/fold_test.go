package printer

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestPrintingDocumentHasTheFoldingTable writes or checks the table in PRINTING.md.
func TestPrintingDocumentHasTheFoldingTable(t *testing.T) {
	const file, begin, end = "PRINTING.md", "<!-- folding -->\n", "<!-- end -->"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, found := strings.Cut(string(text), begin)
	_, tail, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s has no place for the table", file)
	}
	want := []byte(head + begin + foldingTable() + end + tail)
	if *update {
		if err := os.WriteFile(file, want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(text, want) {
		t.Errorf("%s is behind the code: run go test ./device/printer -run Folding -update", file)
	}
}

func foldingTable() string {
	var b strings.Builder
	b.WriteString("| |")
	for _, page := range Pages() {
		fmt.Fprintf(&b, " %s (%d) |", page.Name, page.Number)
	}
	b.WriteString("\n|" + strings.Repeat(" --- |", len(Pages())+1) + "\n")
	for _, r := range frenchLetters {
		if r < 0x80 || r == '\u00a0' || r == '\u202f' {
			continue
		}
		fmt.Fprintf(&b, "| %c |", r)
		for _, page := range Pages() {
			folded := page.fold(string(r))
			if folded == string(r) {
				folded = "·"
			} else {
				folded = "`" + folded + "`"
			}
			fmt.Fprintf(&b, " %s |", folded)
		}
		b.WriteString("\n")
	}
	return b.String()
}
