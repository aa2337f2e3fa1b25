package image

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the golden recipe anew")

// TestRecipeIsWhatWasReviewed: what goes into an image changes by a line that somebody reads.
func TestRecipeIsWhatWasReviewed(t *testing.T) {
	var b strings.Builder
	for _, board := range Boards() {
		fmt.Fprintf(&b, "%s (%s): %s, layer %s\n", board.Name, board.What, board.Compatible(), board.Layer())
		for _, p := range board.Partitions() {
			fmt.Fprintf(&b, "  %-7s type %02x at %d MiB, %d MiB\n", p.Label, p.Type, p.Offset>>20, p.Size>>20)
		}
		fmt.Fprintf(&b, "  packages %s\n  modules %s\n  early %s\n", strings.Join(board.Packages(), " "), strings.Join(append(append([]string{}, commonModules...), board.Modules...), " "), strings.Join(board.Early, " "))
	}
	for _, line := range sources("http://deb.debian.org") {
		fmt.Fprintln(&b, line)
	}
	fmt.Fprintf(&b, "unpacked on a Raspberry Pi: %s\nmasked: %s\nusers: %v\n", strings.Join(piPackages, " "), strings.Join(masked, " "), accounts)
	const golden = "testdata/recipe.txt"
	if *update {
		if err := errors.Join(os.MkdirAll("testdata", 0o755), os.WriteFile(golden, []byte(b.String()), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil || b.String() != string(want) {
		t.Errorf("%v: the recipe has changed (go test -run Recipe -update, and read the difference):\n%s", err, difference(string(want), b.String()))
	}
	for _, board := range Boards() {
		for _, name := range forbidden {
			if strings.Contains(" "+strings.Join(board.Packages(), " ")+" ", " "+name+" ") {
				t.Errorf("%s has %s", board.Name, name)
			}
		}
	}
}

// TestPinnedBuildRefusesOtherPackages and names them.
func TestPinnedBuildRefusesOtherPackages(t *testing.T) {
	source := t.TempDir()
	board := Boards()[1]
	var told []string
	b := Builder{Source: source, Tell: func(line string) { told = append(told, line) }}
	list := filepath.Join(t.TempDir(), "list")
	if err := writeList(list, []Package{{"udev", "2", "arm64", "bb"}, {"rauc", "1.8-2", "arm64", "aa"}}); err != nil {
		t.Fatal(err)
	}
	if err := b.comparePackages(board, list); err != nil || len(told) != 1 {
		t.Fatalf("the first build: %v, %q", err, told)
	}
	text, err := os.ReadFile(filepath.Join(source, board.LockFile()))
	if err != nil || string(text) != "rauc 1.8-2 arm64 aa\nudev 2 arm64 bb\n" {
		t.Fatalf("the list in the checkout: %q, %v", text, err)
	}
	b.Pinned = true
	if err := b.comparePackages(board, list); err != nil {
		t.Errorf("the same packages: %v", err)
	}
	if err := writeList(list, []Package{{"udev", "2", "arm64", "cc"}, {"rauc", "1.8-2", "arm64", "aa"}}); err != nil {
		t.Fatal(err)
	}
	err = b.comparePackages(board, list)
	if err == nil || !strings.Contains(err.Error(), "- udev 2 arm64 bb") || !strings.Contains(err.Error(), "+ udev 2 arm64 cc") || strings.Contains(err.Error(), "rauc") {
		t.Errorf("another udev of the same version: %v", err)
	}
}

// TestPackagesGetTheHashesOfTheSignedLists, not those of what lies on a disk.
func TestPackagesGetTheHashesOfTheSignedLists(t *testing.T) {
	lists := "Package: udev\nArchitecture: arm64\nVersion: 1\nSHA256: old\n\nPackage: udev\nArchitecture: arm64\nDepends: libc6 (>= 2.36), libudev1\nVersion: 2\nDescription: has a colon: here\nSHA256: new\n"
	a := apt{index: map[string][]entry{}}
	for _, e := range readIndexes(strings.NewReader(lists)) {
		a.index[e.Name] = append(a.index[e.Name], e)
	}
	if len(a.index["udev"]) != 2 || a.index["udev"][1].needs != "libc6" {
		t.Fatalf("read %+v", a.index)
	}
	got, err := named(readIndexes(strings.NewReader("Package: udev\nStatus: install ok installed\nVersion: 2\nArchitecture: arm64\n")), a.index)
	if err != nil || len(got) != 1 || got[0] != (Package{"udev", "2", "arm64", "new"}) {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := named(readIndexes(strings.NewReader("Package: udev\nVersion: 3\n")), a.index); err == nil {
		t.Errorf("a version that is in no list: %v", got)
	}
}

// TestArchiveIsTheSameBytesAndReadsBack by the format's own rules.
func TestArchiveIsTheSameBytesAndReadsBack(t *testing.T) {
	make := func() []byte {
		var b bytes.Buffer
		a := newArchive(&b)
		a.file("init", 0o755, []byte("program"))
		a.file("lib/00-ext4.ko", 0o644, []byte("abcd"))
		a.device("dev/console", 5, 1)
		if err := a.end(); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	raw := make()
	if !bytes.Equal(raw, make()) {
		t.Error("two archives of the same files differ")
	}
	var got []string
	for at := 0; at < len(raw); {
		field := func(i int) int {
			n, err := strconv.ParseUint(string(raw[at+6+8*i:at+14+8*i]), 16, 32)
			if err != nil {
				t.Fatal(err)
			}
			return int(n)
		}
		if string(raw[at:at+6]) != "070701" {
			t.Fatalf("no header at %d", at)
		}
		mode, size, name := field(1), field(6), field(11)
		text := string(raw[at+110 : at+110+name-1])
		data := (at + 110 + name + 3) &^ 3
		got = append(got, fmt.Sprintf("%o %s %q %d:%d", mode, text, raw[data:data+size], field(9), field(10)))
		at = (data + size + 3) &^ 3
	}
	want := `100755 init "program" 0:0, 40755 lib "" 0:0, 100644 lib/00-ext4.ko "abcd" 0:0, 40755 dev "" 0:0, 20600 dev/console "" 5:1, 0 TRAILER!!! "" 0:0`
	if strings.Join(got, ", ") != want {
		t.Errorf("reads back as\n%s\nwant\n%s", strings.Join(got, ", "), want)
	}
}

// TestDevelopmentKeysSignCodeUnderTheirRootAlone, and are made once.
func TestDevelopmentKeysSignCodeUnderTheirRootAlone(t *testing.T) {
	now := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	read := func(path string) *x509.Certificate {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		block, _ := pem.Decode(text)
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	keys := func(folder string) Signing {
		s, err := DevelopmentKeys(folder, now)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	folder := t.TempDir()
	ours := keys(folder)
	others := keys(t.TempDir())
	leaf := read(ours.Cert)
	verify := func(root string, usage x509.ExtKeyUsage) error {
		pool := x509.NewCertPool()
		pool.AddCert(read(root))
		_, err := leaf.Verify(x509.VerifyOptions{Roots: pool, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{usage}})
		return err
	}
	if err := verify(ours.Root, x509.ExtKeyUsageCodeSigning); err != nil {
		t.Error(err)
	}
	if verify(others.Root, x509.ExtKeyUsageCodeSigning) == nil || verify(ours.Root, x509.ExtKeyUsageServerAuth) == nil {
		t.Error("the leaf is believed under another root, or as a server")
	}
	if again := read(keys(folder).Cert); !again.Equal(leaf) {
		t.Error("a second build has other keys")
	}
	for _, name := range []string{"root.key", "codesign.key"} {
		if info, err := os.Stat(filepath.Join(folder, name)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
}
