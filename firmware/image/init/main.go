// Command init is the first program of a terminal: it lies in the initramfs, finds the card
// by the signature of its partition table, makes the data partition as large as the card,
// mounts the slot that U-Boot chose, and hands over to systemd there. It is linked
// statically and needs nothing else. When it fails the kernel panics, and starts again.
package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	modules  = "/modules" // what to load, one path a line, in order
	newRoot  = "/root"
	patience = 60 * time.Second // for a card that is slow to appear
)

func main() {
	say("%v", boot())           // it comes back with an error alone
	time.Sleep(2 * time.Second) // so that it can be read, and a dead card is not asked without a pause
	os.Exit(1)                  // the kernel panics, and panic=5 starts it again
}

func say(format string, args ...any) { fmt.Fprintf(os.Stderr, "init: "+format+"\n", args...) }

func boot() error {
	for _, m := range []struct{ what, on string }{{"proc", "/proc"}, {"sysfs", "/sys"}, {"devtmpfs", "/dev"}} {
		if err := mount(m.what, m.on, m.what, 0); err != nil {
			return err
		}
	}
	line, err := os.ReadFile("/proc/cmdline")
	if err != nil {
		return err
	}
	root, err := parseRoot(string(line))
	if err != nil {
		return err
	}
	load()
	disk, err := find(root.signature, patience)
	if err != nil {
		return err
	}
	if err := grow(disk); err != nil {
		say("data partition: %v (it stays as it is)", err)
	}
	slot, err := partition(disk, root.number)
	if err != nil {
		return err
	}
	if err := mount(slot, newRoot, "ext4", unix.MS_RDONLY); err != nil {
		return err
	}
	return handOver()
}

func mount(what, on, kind string, flags uintptr) error {
	if err := os.MkdirAll(on, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(what, on, kind, flags, ""); err != nil {
		return fmt.Errorf("mount %s on %s: %w", what, on, err)
	}
	return nil
}

// place is a partition by the signature of its disk's table.
type place struct {
	signature uint32
	number    int
}

// parseRoot reads root=PARTUUID=SIGNATURE-NUMBER of the kernel's command line.
func parseRoot(line string) (place, error) {
	for _, word := range strings.Fields(line) {
		id, is := strings.CutPrefix(word, "root=PARTUUID=")
		if !is {
			continue
		}
		signature, number, _ := strings.Cut(id, "-")
		s, err := strconv.ParseUint(signature, 16, 32)
		n, err2 := strconv.ParseUint(number, 16, 8)
		if err := errors.Join(err, err2); err != nil || n < 1 || n > 4 {
			return place{}, fmt.Errorf("%s: want root=PARTUUID=SIGNATURE-NUMBER", word)
		}
		return place{uint32(s), int(n)}, nil
	}
	return place{}, errors.New("no root=PARTUUID= on the kernel's command line")
}

// load loads the modules of the list. One that fails is named and passed over: the board may
// not have its device.
func load() {
	list, err := os.ReadFile(modules)
	if err != nil {
		say("%v", err)
	}
	for _, file := range strings.Fields(string(list)) {
		if err := insert(file); err != nil && !errors.Is(err, unix.EEXIST) && !errors.Is(err, unix.ENODEV) {
			say("module %s: %v", file, err)
		}
	}
}

func insert(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.FinitModule(int(f.Fd()), "", 0)
}

// find waits for the disk with that signature. Of several the one in the card slot is taken:
// a technician's reader must not become the terminal's own card.
func find(signature uint32, patience time.Duration) (string, error) {
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		names, err := os.ReadDir("/sys/block")
		if err != nil {
			return "", err
		}
		for _, prefix := range []string{"mmcblk", "vd", "sd"} {
			for _, entry := range names {
				if disk := entry.Name(); strings.HasPrefix(disk, prefix) && signed(disk, signature) {
					return disk, nil
				}
			}
		}
	}
	return "", fmt.Errorf("no disk with the signature %08x appeared within %v", signature, patience)
}

func signed(disk string, signature uint32) bool {
	sector := make([]byte, 512)
	f, err := os.Open("/dev/" + disk)
	if err != nil {
		return false
	}
	defer f.Close()
	if _, err := f.ReadAt(sector, 0); err != nil {
		return false
	}
	return binary.LittleEndian.Uint32(sector[440:]) == signature && sector[510] == 0x55 && sector[511] == 0xaa
}

// partition is the node of a disk's partition, by the number that the kernel gave it.
func partition(disk string, number int) (string, error) {
	found, err := filepath.Glob("/sys/block/" + disk + "/" + disk + "*/partition")
	if err != nil {
		return "", err
	}
	i := slices.IndexFunc(found, func(file string) bool {
		text, err := os.ReadFile(file)
		return err == nil && strings.TrimSpace(string(text)) == strconv.Itoa(number)
	})
	if i < 0 {
		return "", fmt.Errorf("%s has no partition %d", disk, number)
	}
	return "/dev/" + filepath.Base(filepath.Dir(found[i])), nil
}

// grow makes the last partition end with the disk, once: one sector is written, and the
// file system follows when it is mounted.
func grow(disk string) error {
	f, err := os.OpenFile("/dev/"+disk, os.O_RDWR|unix.O_SYNC, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	size, err := f.Seek(0, 2)
	if err != nil {
		return err
	}
	sector := make([]byte, 512)
	if _, err := f.ReadAt(sector, 0); err != nil {
		return err
	}
	if !stretch(sector, size) {
		return nil
	}
	if _, err := f.WriteAt(sector, 0); err != nil {
		return err
	}
	return unix.IoctlSetInt(int(f.Fd()), unix.BLKRRPART, 0)
}

// stretch makes the fourth partition of a table as large as the disk allows, in whole MiB,
// and tells whether that changed it.
func stretch(sector []byte, size int64) bool {
	entry := sector[446+16*3:]
	start := int64(binary.LittleEndian.Uint32(entry[8:])) * 512
	length := int64(binary.LittleEndian.Uint32(entry[12:])) * 512
	room := (min(size, int64(1)<<40) - start) &^ (1<<20 - 1)
	if start == 0 || room <= length {
		return false
	}
	binary.LittleEndian.PutUint32(entry[12:], uint32(room/512))
	return true
}

// handOver makes the slot the root, and becomes its first program.
func handOver() error {
	for _, dir := range []string{"/proc", "/sys", "/dev"} {
		if err := unix.Mount(dir, newRoot+dir, "", unix.MS_MOVE, ""); err != nil {
			return fmt.Errorf("move %s: %w", dir, err)
		}
	}
	if err := unix.Chdir(newRoot); err != nil {
		return err
	}
	if err := unix.Mount(".", "/", "", unix.MS_MOVE, ""); err != nil {
		return fmt.Errorf("move the slot to the root: %w", err)
	}
	if err := unix.Chroot("."); err != nil {
		return err
	}
	if err := unix.Chdir("/"); err != nil {
		return err
	}
	return fmt.Errorf("/sbin/init of the slot: %w", unix.Exec("/sbin/init", []string{"/sbin/init"}, []string{"PATH=/usr/sbin:/usr/bin", "TERM=linux"}))
}
