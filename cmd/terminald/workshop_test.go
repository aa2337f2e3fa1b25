package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDoctorsReportReachesThePageWhateverItsExitStatus: findings end with a status of their
// own, and what is no report is an error.
func TestDoctorsReportReachesThePageWhateverItsExitStatus(t *testing.T) {
	for name, c := range map[string]struct {
		says   string
		status int
		checks int // -1 for an error
	}{
		"findings": {`{"terminal":"T-1","checks":[{"code":"D4","name":"space","state":"fail"}]}`, 3, 1},
		"garbage":  {`Segmentation fault`, 139, -1},
		"nothing":  {``, 0, -1},
		"endless":  {strings.Repeat(" ", 100), 0, -1},
	} {
		tool := filepath.Join(t.TempDir(), "terminalctl")
		script := fmt.Sprintf("#!/bin/sh\ntest \"$1 $2 $3 $4\" = 'doctor --json --config /etc/t.toml' || exit 9\nprintf '%%s' '%s'\nexit %d\n", c.says, c.status)
		if name == "endless" {
			script = "#!/bin/sh\nexec yes\n"
		}
		if err := os.WriteFile(tool, []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
		r, err := examine(t.Context(), tool, "/etc/t.toml", "/run/t.sock")
		if (err != nil) != (c.checks < 0) || err == nil && len(r.Checks) != c.checks {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
}
