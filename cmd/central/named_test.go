package main

import (
	"os"
	"testing"

	"grattoir/cmd/internal/cli"
)

// TestCommandsThatPeopleAreSentToExist, in what the pages and the technician's texts say.
func TestCommandsThatPeopleAreSentToExist(t *testing.T) {
	for _, page := range []string{"device/health/CODES.md", "README.md", "CHANGELOG.md", "SECURITY.md", "sync/central/RUNNING.md", "sync/wire/PROTOCOL.md", "sync/ledger/EXPORT.md", "validate/manifest/FORMAT.md", "docs/provisioning.md", "docs/counter.md"} {
		text, err := os.ReadFile("../../" + page)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range cli.Misnamed(command(), string(text)) {
			t.Errorf("%s names %q, which is no command", page, name)
		}
	}
}
