package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"grattoir/device/control"
	"grattoir/device/scanner"
	"grattoir/validate"
)

// TestScannerWithNoEndMarkUnderHostControl: a scanner that sends nothing behind a code
// and takes Datalogic's commands. A piece of a code is no scan.
func TestScannerWithNoEndMarkUnderHostControl(t *testing.T) {
	s := openShop(t)
	config := strings.Replace(shopConfig, `scanner.path = "scanner"`, "scanner.path = \"scanner\"\nscanner.suffix = \"none\"\nscanner.control = \"datalogic\"", 1)
	if err := os.WriteFile(filepath.Join(s.Dir, "terminald.toml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	s.start(t)
	ctx := deadline(t)
	code := s.codes["2000"][0].Digits()
	before, err := s.Client.View(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Glass.Send([]byte(code[:24])); err != nil {
		t.Fatal(err)
	}
	s.await(t, func(st control.Status) bool { return st.Scanner != nil && st.Scanner.Code == scanner.CodeNoSuffix })
	if err := s.Glass.Send([]byte(code)); err != nil {
		t.Fatal(err)
	}
	for now := before; ; {
		if now, err = s.Client.Next(ctx, now); err != nil {
			t.Fatal(err)
		}
		if now.ID != before.ID {
			if now.Verdict.Reason != validate.Winner {
				t.Errorf("%+v", now)
			}
			break
		}
	}
	s.await(t, func(st control.Status) bool { return st.Scanner == nil })
	if got := string(s.Glass.Commands()); got != "E\x01" { // enabled, and one beep for the piece
		t.Errorf("the scanner heard %q", got)
	}
}

func TestScannerConfigurationThatCannotWorkIsRefusedAtStart(t *testing.T) {
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	config := strings.Replace(shopConfig, `scanner.path = "scanner"`, "scanner.path = \"scanner\"\nscanner.control = \"honeywel\"", 1)
	file := filepath.Join(dir, "terminald.toml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(deadline(t), path, "--config", file).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "honeywell, datalogic, gm65 or ssi") {
		t.Errorf("%v: %s", err, out)
	}
}
