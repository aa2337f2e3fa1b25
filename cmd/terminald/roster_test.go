package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"grattoir/device/control"
	"grattoir/device/terminal"
	"grattoir/sync/ledger/people"
)

// TestOperatorsAreLookedAfterWhileTheDaemonRuns: terminalctl operator asks the running
// daemon, by an operator's PIN, with the answers and exit codes that the file gives; what
// it changes holds at the counter at once, and stays.
func TestOperatorsAreLookedAfterWhileTheDaemonRuns(t *testing.T) {
	s, _ := staffed(t)
	ctl := filepath.Join(t.TempDir(), "terminalctl")
	if out, err := exec.Command("go", "build", "-o", ctl, "grattoir/cmd/terminalctl").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	s.start(t)
	ctx := deadline(t)
	operator := func(code int, want, pins string, args ...string) {
		t.Helper()
		if pins != "" {
			args = append(args, "--pin-file", "-")
		}
		cmd := exec.Command(ctl, append(append([]string{"operator"}, args...), "--config", filepath.Join(s.Dir, "terminald.toml"))...)
		cmd.Stdin = strings.NewReader(pins)
		out, err := cmd.CombinedOutput()
		got := 0
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			got = exit.ExitCode()
		} else if err != nil {
			t.Fatal(err)
		}
		if got != code || !strings.Contains(string(out), want) {
			t.Errorf("operator %v: exit %d, want %d with %q:\n%s", args, got, code, want, out)
		}
		for _, secret := range strings.Fields(pins) {
			if strings.Contains(string(out), secret) {
				t.Errorf("operator %v shows a PIN", args)
			}
		}
	}
	operator(0, "max   manager", "", "list")
	operator(4, "takes no act of the machine's owner", "6093\n", "add", "luc", "--name", "Luc", "--role", "clerk")
	operator(4, "operator or PIN is wrong (9 tries left)", "1111\n6093\n", "add", "luc", "--name", "Luc", "--role", "clerk", "--by", "max")
	operator(4, "role does not allow", "9073\n6093\n", "add", "luc", "--name", "Luc", "--role", "technician", "--by", "max")
	operator(0, "luc was added as clerk", "9073\n6093\n", "add", "luc", "--name", "Luc", "--role", "clerk", "--by", "max")
	operator(4, "exists already", "9073\n6093\n", "add", "luc", "--name", "Luc", "--role", "clerk", "--by", "max")
	operator(2, "no such operator", "9073\n", "suspend", "nobody", "--by", "max")
	operator(4, "too easy", "9073\n1234\n", "pin", "luc", "--by", "max")
	operator(0, "luc has a new PIN", "6093\n5718\n", "pin", "luc")

	// The new PIN counts at the counter, and a suspension stops whoever is signed on.
	var denied *terminal.Denied
	if _, err := s.Client.SignOn(ctx, "luc", "6093", 0); !errors.As(err, &denied) {
		t.Fatalf("the old PIN: %v", err)
	}
	if _, err := s.Client.SignOn(ctx, "luc", "5718", 0); err != nil {
		t.Fatal(err)
	}
	operator(0, "luc is suspended", "9073\n", "suspend", "luc", "--by", "max")
	s.await(t, func(st control.Status) bool { return st.Session != nil && st.Session.Locked })
	if err := s.Client.Unlock(ctx, "5718"); !errors.As(err, &denied) || denied.Code != "O9" {
		t.Fatalf("a suspended operator: %v", err)
	}
	operator(0, "luc   clerk    suspended", "", "list")
	operator(0, "luc is active again", "9073\n", "resume", "luc", "--by", "max")
	operator(0, "luc has new tries", "9073\n", "unlock", "luc", "--by", "max")
	if err := s.Client.Unlock(ctx, "5718"); err != nil {
		t.Fatal(err)
	}
	if err := s.Client.ChangeOperator(ctx, control.OperatorChange{Act: "remove", ID: "luc", By: "max", ByPIN: "9073"}); !errors.As(err, &denied) || denied.Code != people.Explain(people.ErrOperator).Code {
		t.Fatalf("an act that there is not: %v", err)
	}
	if err := s.Client.ChangeOperator(ctx, control.OperatorChange{Act: control.SuspendOperator, ID: "luc", By: "owner", ByPIN: "0000"}); !errors.As(err, &denied) {
		t.Fatalf("the machine's owner over the socket: %v", err)
	}

	// Stopped, the same commands take the file, which has it all.
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	operator(0, "luc   clerk", "", "list")
	operator(0, "luc is suspended", "9073\n", "suspend", "luc", "--by", "max")
	log, err := os.ReadFile(s.LogPath())
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"9073", "6093", "5718"} {
		if strings.Contains(string(log), " "+secret) || strings.Contains(string(log), "="+secret) || strings.Contains(string(log), `"`+secret) {
			t.Errorf("the log has a PIN")
		}
	}
}
