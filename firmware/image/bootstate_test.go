package image

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func sectorOf(t *testing.T, s BootState) []byte {
	t.Helper()
	sector, err := s.Sector()
	if err != nil {
		t.Fatal(err)
	}
	return sector
}

// TestLinuxReadsAndWritesTheBootState: libubootenv, which RAUC writes by, and this package
// mean the same sector.
func TestLinuxReadsAndWritesTheBootState(t *testing.T) {
	for _, name := range []string{"fw_printenv", "fw_setenv"} {
		if _, err := exec.LookPath(name); err != nil {
			if os.Getenv("CI") != "" {
				t.Fatalf("CI must have libubootenv-tool: %v", err)
			}
			t.Skipf("NOT TESTED: %v: install libubootenv-tool", err)
		}
	}
	dir := t.TempDir()
	card, config := filepath.Join(dir, "card"), filepath.Join(dir, "fw_env.config")
	shipped, err := os.ReadFile("files/etc/fw_env.config")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(config, bytes.ReplaceAll(shipped, []byte("/dev/grattoir/card"), []byte(card)), 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(card)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(4 << 20); err != nil {
		t.Fatal(err)
	}
	want := BootState{Order: []string{"B", "A"}, Left: map[string]int{"A": 3, "B": 1}}
	if _, err := f.WriteAt(sectorOf(t, want), BootStateOffset); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("fw_printenv", "-c", config).Output()
	if err != nil || string(out) != "BOOT_A_LEFT=3\nBOOT_B_LEFT=1\nBOOT_ORDER=B A\n" {
		t.Fatalf("fw_printenv: %v\n%s", err, out)
	}
	for _, set := range [][]string{{"BOOT_ORDER", "A"}, {"BOOT_B_LEFT", "0"}} {
		if out, err := exec.Command("fw_setenv", append([]string{"-c", config}, set...)...).CombinedOutput(); err != nil {
			t.Fatalf("fw_setenv %v: %v\n%s", set, err, out)
		}
	}
	sector := make([]byte, BootStateSize)
	if _, err := f.ReadAt(sector, BootStateOffset); err != nil {
		t.Fatal(err)
	}
	got, err := ParseBootState(sector)
	if want := (BootState{Order: []string{"A"}, Left: map[string]int{"A": 3, "B": 0}}); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("after fw_setenv: %+v, %v: want %+v", got, err, want)
	}
}

// TestNextTakesOneStartAndNeverADisabledSlot is the table of what U-Boot does.
func TestNextTakesOneStartAndNeverADisabledSlot(t *testing.T) {
	state := func(order string, a, b int) BootState {
		return BootState{Order: strings.Fields(order), Left: map[string]int{"A": a, "B": b}}
	}
	for _, c := range []struct {
		what  string
		now   BootState
		slot  string
		after BootState
	}{
		{"flashed", Flashed(), "A", state("A", 2, 0)},
		{"installed, first start", state("B A", 3, 1), "B", state("B A", 3, 0)},
		{"installed, and it did not come up", state("B A", 3, 0), "A", state("B A", 2, 0)},
		{"both worn out", state("B A", 0, 0), "B", state("B A", 3, 2)},
		{"half installed: B is out of the order", state("A", 0, 0), "A", state("A", 2, 0)},
		{"half installed, with starts left by mistake", state("A", 1, 3), "A", state("A", 0, 3)},
		{"no order", state("", 0, 0), "A", state("A B", 2, 3)},
	} {
		slot, after := c.now.Next()
		if slot != c.slot || !reflect.DeepEqual(after, c.after) {
			t.Errorf("%s: starts %s and leaves %+v: want %s and %+v", c.what, slot, after, c.slot, c.after)
		}
	}
}

// TestAnyChangedBitIsNoBootState: a torn sector is told from a whole one.
func TestAnyChangedBitIsNoBootState(t *testing.T) {
	sector := sectorOf(t, Flashed())
	for i := range sector {
		bad := bytes.Clone(sector)
		bad[i] ^= 1 << (i % 8)
		if s, err := ParseBootState(bad); !errors.Is(err, ErrBootState) {
			t.Fatalf("byte %d changed: %+v, %v", i, s, err)
		}
	}
	if _, err := ParseBootState(make([]byte, BootStateSize)); !errors.Is(err, ErrBootState) {
		t.Errorf("an empty sector: %v", err)
	}
	if _, err := (BootState{Order: []string{"C"}}).Sector(); !errors.Is(err, ErrBootState) {
		t.Errorf("a slot that is not there: %v", err)
	}
}

// FuzzParseBootState: what is read and written again reads the same.
func FuzzParseBootState(f *testing.F) {
	sector, err := Flashed().Sector()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(sector)
	f.Add([]byte("\x00\x00\x00\x00BOOT_ORDER=A A\x00\x00"))
	f.Fuzz(func(t *testing.T, sector []byte) {
		s, err := ParseBootState(sector)
		if err != nil {
			return
		}
		again, err := ParseBootState(sectorOf(t, s))
		if err != nil || fmt.Sprint(again) != fmt.Sprint(s) {
			t.Fatalf("%+v reads back as %+v, %v", s, again, err)
		}
	})
}

// TestScriptRulesAndInitMeanTheSameCard: what is said in four languages says the same.
func TestScriptRulesAndInitMeanTheSameCard(t *testing.T) {
	signature := fmt.Sprintf("%08x", DiskSignature)
	for file, wants := range map[string][]string{
		"boot/boot.cmd": {fmt.Sprintf("read ${sector} %x 1\n", BootStateOffset/512), fmt.Sprintf("write ${sector} %x 1\n", BootStateOffset/512),
			fmt.Sprintf("env import -c ${sector} %x ", BootStateSize), fmt.Sprintf("env export -c -s %x ", BootStateSize), "root=PARTUUID=" + signature + "-0${number} ", fmt.Sprintf("BOOT_A_LEFT %d;", Attempts)},
		"files/etc/fw_env.config":                      {fmt.Sprintf("/dev/grattoir/card %#x %#x\n", BootStateOffset, BootStateSize)},
		"files/etc/rauc/system.conf":                   {fmt.Sprintf("boot-attempts=%d\n", Attempts), "boot-attempts-primary=1\n", "check-purpose=codesign\n", "bundle-formats=-plain\n", "use-bundle-signing-time=true\n"},
		"files/usr/lib/udev/rules.d/90-grattoir.rules": {`ENV{ID_PART_TABLE_UUID}=="` + signature + `", SYMLINK+="grattoir/card"`, `"` + signature + `-02", SYMLINK+="grattoir/root-a"`, `"` + signature + `-03", SYMLINK+="grattoir/root-b"`, `"` + signature + `-04", SYMLINK+="grattoir/data"`},
		"files/etc/fstab":                              {"/dev/grattoir/data "},
	} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range wants {
			if !bytes.Contains(text, []byte(want)) {
				t.Errorf("%s lacks %q", file, want)
			}
		}
	}
}
