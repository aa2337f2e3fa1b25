package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// loops tells whether this user can make loop devices.
func loops() bool {
	f, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	_, err = exec.LookPath("losetup")
	return err == nil
}

const oldContent = "old content"

// loopCard TREE SERIAL makes a real block device of 8 MiB, which TREE shows as a card in a
// USB reader, until the script ends.
func loopCard(ts *testscript.TestScript, _ bool, args []string) {
	const size = 8 << 20
	tree, backing := ts.MkAbs(args[0]), ts.MkAbs("backing.img")
	ts.Check(os.WriteFile(backing, []byte(oldContent), 0o600))
	ts.Check(os.Truncate(backing, size))
	out, err := exec.Command("losetup", "--find", "--show", backing).Output()
	ts.Check(err)
	node := strings.TrimSpace(string(out))
	ts.Defer(func() { _ = exec.Command("losetup", "--detach", node).Run() })
	number, err := os.ReadFile(filepath.Join("/sys/block", filepath.Base(node), "dev"))
	ts.Check(err)
	usb := filepath.Join(tree, "sys/devices/pci/usb1/1-1")
	dir := filepath.Join(usb, "block/sdb")
	for path, text := range map[string]string{
		filepath.Join(usb, "idVendor"): "1908", filepath.Join(usb, "serial"): args[1], filepath.Join(dir, "dev"): strings.TrimSpace(string(number)),
		filepath.Join(dir, "size"): fmt.Sprint(size / 512), filepath.Join(dir, "removable"): "1", filepath.Join(dir, "ro"): "0",
	} {
		ts.Check(os.MkdirAll(filepath.Dir(path), 0o755))
		ts.Check(os.WriteFile(path, []byte(text+"\n"), 0o644))
	}
	ts.Check(os.MkdirAll(filepath.Join(tree, "sys/block"), 0o755))
	ts.Check(os.Symlink("../devices/pci/usb1/1-1/block/sdb", filepath.Join(tree, "sys/block/sdb")))
	ts.Check(os.Symlink("../..", filepath.Join(dir, "device")))
	ts.Check(os.MkdirAll(filepath.Join(tree, "dev"), 0o755))
	ts.Check(os.Symlink(node, filepath.Join(tree, "dev/sdb")))
}

// uncarded is the command untouched TREE, which holds that the card of loopCard has its old content.
func uncarded(ts *testscript.TestScript, neg bool, args []string) {
	got := make([]byte, len(oldContent))
	f, err := os.Open(filepath.Join(ts.MkAbs(args[0]), "dev/sdb"))
	ts.Check(err)
	defer f.Close()
	_, err = f.ReadAt(got, 0)
	ts.Check(err)
	if bytes.Equal(got, []byte(oldContent)) == neg {
		ts.Fatalf("the card begins with %q", got)
	}
}
