package image

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// unitTree is a root with this machine's units and the image's own: systemd-analyze wants a
// whole one. Programs are there in name only.
func unitTree(t *testing.T) string {
	t.Helper()
	const system = "usr/lib/systemd/system"
	for _, need := range []string{"/" + system + "/multi-user.target", "/usr/bin/systemd-analyze"} {
		if _, err := os.Stat(need); err != nil {
			if os.Getenv("CI") != "" {
				t.Fatalf("CI must have systemd: %v", err)
			}
			t.Skipf("NOT TESTED: %v: install systemd", err)
		}
	}
	dir := t.TempDir()
	copyTree(t, "/"+system, filepath.Join(dir, system))
	own := tree{dir: dir}
	err := errors.Join(own.overlay("files"), own.install("kiosk/grattoir-kiosk", "usr/lib/grattoir/grattoir-kiosk"))
	for _, unit := range []string{"grattoir-kiosk.service", "grattoir-kiosk-restart.service", "grattoir-kiosk-restart.timer"} {
		err = errors.Join(err, own.install("kiosk/"+unit, system+"/"+unit))
	}
	for _, program := range []string{"terminald", "terminalctl", "install", "udevadm", "systemctl"} {
		err = errors.Join(err, own.write("usr/bin/"+program, []byte("#!/bin/sh\n")))
	}
	err = errors.Join(err, os.Symlink("usr/lib", dir+"/lib"), os.Symlink("usr/bin", dir+"/bin"))
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// copyTree copies files and links, as far as this user may read them.
func copyTree(t *testing.T, from, to string) {
	t.Helper()
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		target := filepath.Join(to, strings.TrimPrefix(path, from))
		switch {
		case d.IsDir():
			return os.MkdirAll(target, 0o755)
		case d.Type()&fs.ModeSymlink != 0:
			link, err := os.Readlink(path)
			return errors.Join(err, os.Symlink(link, target))
		}
		data, err := os.ReadFile(path)
		return errors.Join(err, os.WriteFile(target, data, 0o644))
	})
	if err != nil {
		t.Fatal(err)
	}
}

// exposed is what systemd says of a unit, in tenths, offline.
func exposed(t *testing.T, root, unit string) string {
	t.Helper()
	out, err := exec.Command("systemd-analyze", "security", "--offline=true", "--root="+root, "--threshold=20", "--no-pager", unit).CombinedOutput()
	if err == nil {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return lines[len(lines)-1]
}

// TestTerminaldIsExposedAtMost2: what gets into the daemon by a ticket or the network finds
// a user that may do little. The second half shows that the measure would tell.
func TestTerminaldIsExposedAtMost2(t *testing.T) {
	root := unitTree(t)
	if said := exposed(t, root, "terminald.service"); said != "" {
		t.Error(said)
	}
	unit := filepath.Join(root, "usr/lib/systemd/system/terminald.service")
	text, err := os.ReadFile(unit)
	if err != nil {
		t.Fatal(err)
	}
	for _, without := range []string{"CapabilityBoundingSet=\n", "User=grattoir\n", "RestrictNamespaces=yes\n"} {
		weak := bytes.Replace(text, []byte("\n"+without), []byte("\n"), 1)
		if bytes.Equal(weak, text) {
			t.Fatalf("the unit has no %s", without)
		}
		text = weak
	}
	if err := os.WriteFile(unit, text, 0o644); err != nil {
		t.Fatal(err)
	}
	if exposed(t, root, "terminald.service") == "" {
		t.Error("a daemon with every capability of root would not be noticed")
	}
}

// TestUnitsAreUnderstood: systemd passes over what it does not know, so a misspelt line
// protects nothing.
func TestUnitsAreUnderstood(t *testing.T) {
	root := unitTree(t)
	verify := func() string {
		// It ends with status 0 for an unknown key: what it prints is the answer.
		out, err := exec.Command("systemd-analyze", "verify", "--root="+root, "terminald.service", "grattoir-health.service", "grattoir-devices.service",
			"grattoir-kiosk.service", "grattoir-kiosk-restart.timer").CombinedOutput()
		if err != nil {
			return err.Error() + "\n" + string(out)
		}
		return string(out)
	}
	if said := verify(); said != "" {
		t.Error(said)
	}
	unit := filepath.Join(root, "usr/lib/systemd/system/terminald.service")
	text, err := os.ReadFile(unit)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(unit, bytes.Replace(text, []byte("ProtectHome="), []byte("ProtectHomes="), 1), 0o644); err != nil {
		t.Fatal(err)
	}
	if verify() == "" {
		t.Error("a misspelt line was not noticed")
	}
}

// TestNothingGrabsTheScanner: the modules are loaded before terminald starts, or their
// devices are denied to it; ModemManager and brltty, which open serial adapters that they
// take for their own, are refused when a base is built.
func TestNothingGrabsTheScanner(t *testing.T) {
	unit, err := os.ReadFile("files/usr/lib/systemd/system/terminald.service")
	if err != nil {
		t.Fatal(err)
	}
	modules, err := os.ReadFile("files/usr/lib/modules-load.d/grattoir.conf")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(unit, []byte("After=systemd-modules-load.service")) {
		t.Error("terminald may start before the drivers of serial adapters are registered")
	}
	for device, driver := range map[string]string{"char-ttyACM": "cdc_acm", "char-ttyUSB": "usbserial"} {
		if !bytes.Contains(unit, []byte("DeviceAllow="+device+" rw")) || !bytes.Contains(modules, []byte("\n"+driver+"\n")) {
			t.Errorf("%s is not allowed, or %s is not loaded", device, driver)
		}
	}
	b := Builder{Source: t.TempDir(), Tell: func(string) {}}
	list := filepath.Join(t.TempDir(), "packages")
	for _, name := range []string{"modemmanager", "brltty"} {
		if err := writeList(list, []Package{{name, "1", "arm64", "00"}}); err != nil {
			t.Fatal(err)
		}
		if err := b.comparePackages(Board{}, list); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s came along: %v", name, err)
		}
	}
}

// TestHealthMarksOnlyAGoodStart runs the script of the gate beside tools that say what a
// case has them say.
func TestHealthMarksOnlyAGoodStart(t *testing.T) {
	script, err := filepath.Abs("files/usr/lib/grattoir/grattoir-health")
	if err != nil {
		t.Fatal(err)
	}
	const up = `printf 'MainPID=42\nNRestarts=1\nActiveState=active\n'`
	for _, c := range []struct {
		what        string
		config      bool
		shown       string // by systemctl
		answer      string // of terminalctl
		marked, bad bool
	}{
		{"nobody's terminal", false, "echo ActiveState=inactive", "exit 1", true, false},
		{"up and answering", true, up, "exit 0", true, false},
		{"up, and the paper is out", true, up, "exit 3", true, false},
		{"not up", true, `printf 'MainPID=0\nNRestarts=0\nActiveState=inactive\n'`, "exit 0", false, true},
		{"up, and another one each time", true, `n=$(cat "$0.n" 2>/dev/null || echo 0); echo $((n + 1)) > "$0.n"; printf "MainPID=$n\nNRestarts=2\nActiveState=active\n"`, "exit 0", false, true},
		{"up after having ended five times", true, `printf 'MainPID=42\nNRestarts=5\nActiveState=active\n'`, "exit 0", false, true},
		{"up, and it does not answer", true, up, "exit 1", false, true},
	} {
		dir := t.TempDir()
		config := filepath.Join(dir, "terminald.toml")
		if c.config {
			config = script
		}
		for name, body := range map[string]string{"systemctl": c.shown, "terminalctl": c.answer,
			"timeout": `shift; exec "$@"`, "sleep": "exit 0", "rauc": `echo "$@" > "$0.said"`} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+body+"\n"), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		cmd := exec.Command("/bin/sh", script)
		cmd.Env = []string{"PATH=" + dir + ":/usr/bin:/bin", "HOLD=3", "CONFIG=" + config, "TRIES=8"}
		out, err := cmd.CombinedOutput()
		said, _ := os.ReadFile(filepath.Join(dir, "rauc.said"))
		if marked := string(said) == "status mark-good\n"; marked != c.marked || (err != nil) != c.bad {
			t.Errorf("%s: marked good %v, status %v: want %v, a failure %v\n%s", c.what, marked, err, c.marked, c.bad, out)
		}
	}
}

// TestNoSecretIsInTheOverlay, and the technician's is the only login.
func TestNoSecretIsInTheOverlay(t *testing.T) {
	err := filepath.WalkDir("files", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if bytes.Contains(text, []byte("PRIVATE")) {
			t.Errorf("%s holds a key", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	login, err := os.ReadFile("files/etc/ssh/sshd_config.d/grattoir.conf")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"\nAuthenticationMethods publickey\n", "\nPasswordAuthentication no\n", "\nKbdInteractiveAuthentication no\n", "\nAuthorizedKeysFile /etc/grattoir/technician.keys\n"} {
		if !bytes.Contains(login, []byte(want)) {
			t.Errorf("sshd_config lacks %q", strings.TrimSpace(want))
		}
	}
	for _, unit := range []string{"getty@.service", "serial-getty@.service"} {
		if !strings.Contains(strings.Join(masked, " "), unit) {
			t.Errorf("%s is not masked: whoever plugs a keyboard in is asked for a name", unit)
		}
	}
}
