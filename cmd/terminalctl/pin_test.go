package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/cobra"
)

// TestManagersPINIsThatOfTheFileAndOnlyWhereOneIsNamed: a PIN that was sent without a
// manager, or another one, would spend one of his tries.
func TestManagersPINIsThatOfTheFileAndOnlyWhereOneIsNamed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pin")
	if err := os.WriteFile(file, []byte("4711\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for manager, want := range map[string]string{"": "", "max": "4711"} {
		a := acts{manager: manager, pinFile: file}
		if got, err := a.managerPIN(new(cobra.Command)); err != nil || got != want {
			t.Errorf("manager %q: %d characters, want %d: %v", manager, len(got), len(want), err)
		}
	}
}
