package flash

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// tree lays a system's files: "path content" a line, "path -> target" for a link.
func tree(t *testing.T, text string) System {
	t.Helper()
	root := t.TempDir()
	for line := range strings.Lines(text) {
		path, content, _ := strings.Cut(strings.TrimSpace(line), " ")
		if path == "" {
			continue
		}
		path = filepath.Join(root, path)
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		if target, link := strings.CutPrefix(content, "-> "); link {
			err = errors.Join(err, os.Symlink(target, path))
		} else {
			err = errors.Join(err, os.WriteFile(path, []byte(strings.ReplaceAll(content, "|", "\n")+"\n"), 0o644))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return System{Root: root}
}

// disk is a drive at a place of the device tree; extra are attributes of it.
func disk(name, number, at, sectors, removable string, extra ...string) string {
	dir := "sys/devices/" + at + "/block/" + name
	text := fmt.Sprintf("sys/block/%s -> ../devices/%s/block/%s\n%s/dev %s\n%s/size %s\n%s/removable %s\n%s/ro 0\n%s/device -> ../../../%s\n",
		name, at, name, dir, number, dir, sectors, dir, removable, dir, dir, filepath.Base(at))
	for _, e := range extra {
		text += e + "\n"
	}
	return text
}

const (
	usb1 = "pci0000:00/usb1/1-1"
	usb2 = "pci0000:00/usb1/1-2"
)

func usbDevice(at, serial string) string {
	text := "sys/devices/" + at + "/idVendor 1908\n"
	if serial != "" {
		text += "sys/devices/" + at + "/serial " + serial + "\n"
	}
	return text
}

// laptop has every kind of drive a technician's laptop may have.
func laptop(t *testing.T) System {
	part := func(at, disk, part, number string) string {
		dir := "sys/devices/" + at + "/block/" + disk + "/" + part
		return dir + "/partition 1\n" + dir + "/dev " + number + "\n"
	}
	reader, stick, fixed, live := usb1+"/1-1:1.0/host6/target6:0:0/", usb2+"/2/host7/target7:0:0/7:0:0:0", "pci0000:00/usb1/1-3/host8/target8:0:0/8:0:0:0", "pci0000:00/usb1/1-4/host9/target9:0:0/9:0:0:0"
	sd, emmc := "platform/mmc_host/mmc0/mmc0:aaaa", "platform/mmc_host/mmc1/mmc1:0001"
	return tree(t, strings.Join([]string{
		"proc/self/mountinfo " + strings.Join([]string{
			"22 1 0:21 / / rw - btrfs /dev/mapper/vg-root rw", // a number of its own: the node tells
			"23 22 259:1 / /boot/efi rw - vfat /dev/nvme0n1p1 rw",
			`24 22 8:33 / /media/ann/MY\040CARD rw shared:1 - vfat /dev/sdc1 rw`,
			"25 22 0:30 / /run rw - tmpfs tmpfs rw,opts=" + strings.Repeat("x", 100_000), // longer than a scanner's line
			"26 22 8:65 / /run/live/medium ro - iso9660 /dev/sde1 ro",
		}, "|"),
		"proc/swaps Filename Type Size|/dev/sdg1 partition 4",
		disk("nvme0n1", "259:0", "pci0000:00/nvme/nvme0", "1000000000", "0", part("pci0000:00/nvme/nvme0", "nvme0n1", "nvme0n1p1", "259:1"),
			part("pci0000:00/nvme/nvme0", "nvme0n1", "nvme0n1p2", "259:2"), "sys/devices/pci0000:00/nvme/nvme0/block/nvme0n1/nvme0n1p2/holders/dm-0 x"),
		"sys/block/dm-0/dev 254:0\ndev/mapper/vg-root -> ../dm-0\ndev/dm-0 x\n",
		disk("sda", "8:0", "pci0000:00/ata1/host0/target0:0:0/0:0:0:0", "4000000", "0"),
		usbDevice(usb1, "READER9"),
		disk("sdb", "8:16", reader+"6:0:0:0", "62333952", "1", "sys/devices/"+reader+"6:0:0:0/vendor Generic", "sys/devices/"+reader+"6:0:0:0/model STORAGE  DEVICE"),
		disk("sdh", "8:112", reader+"6:0:0:1", "0", "1"),
		usbDevice(usb2, ""),
		disk("sdc", "8:32", stick, "62333952", "1", part(stick, "sdc", "sdc1", "8:33")),
		usbDevice("pci0000:00/usb1/1-3", "BACKUP"),
		disk("sdd", "8:48", fixed, "62333952", "0"),
		usbDevice("pci0000:00/usb1/1-4", "LIVE"),
		disk("sde", "8:64", live, "62333952", "1", part(live, "sde", "sde1", "8:65")),
		disk("mmcblk0", "179:0", sd, "31116288", "0", "sys/devices/"+sd+"/type SD", "sys/devices/"+sd+"/serial 0x1a2b3c4d", "sys/devices/"+sd+"/name SU16G"),
		disk("mmcblk1", "179:8", emmc, "31116288", "0", "sys/devices/"+emmc+"/type MMC", "sys/devices/"+emmc+"/serial 0x99"),
		"sys/block/mmcblk1boot0/size 8192\nsys/block/loop0/size 100\n",
		usbDevice("pci0000:00/usb1/1-5", "LOCKED"),
		strings.Replace(disk("sdf", "8:80", "pci0000:00/usb1/1-5/h/10:0:0:0", "62333952", "1"), "/ro 0", "/ro 1", 1),
		usbDevice("pci0000:00/usb1/1-6", "SWAP"),
		disk("sdg", "8:96", "pci0000:00/usb1/1-6/h/11:0:0:0", "62333952", "1", part("pci0000:00/usb1/1-6/h/11:0:0:0", "sdg", "sdg1", "8:97")),
		usbDevice("pci0000:00/usb1/1-7", "TWIN"), disk("sdi", "8:128", "pci0000:00/usb1/1-7/h/12:0:0:0", "62333952", "1"),
		usbDevice("pci0000:00/usb1/1-8", "TWIN"), disk("sdj", "8:144", "pci0000:00/usb1/1-8/h/13:0:0:0", "62333952", "1"),
		usbDevice("pci0000:00/usb1/1-9", "CRYPT"),
		disk("sdk", "8:160", "pci0000:00/usb1/1-9/h/14:0:0:0", "62333952", "1", "sys/devices/pci0000:00/usb1/1-9/h/14:0:0:0/block/sdk/holders/dm-5 x"),
		"sys/block/dm-5/dev 254:5",
	}, "\n"))
}

// TestOnlyACardThatNothingUsesMayBeWritten: every other drive is refused with its reason.
func TestOnlyACardThatNothingUsesMayBeWritten(t *testing.T) {
	s := laptop(t)
	list, err := s.Drives()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{ // serial, then the codes
		"nvme0n1": " F5 F4", "sda": " F4", "sdb": "READER9", "sdh": "READER9-1 F8", "sdc": "port-1-2 F6", "sdd": "BACKUP F4", "sde": "LIVE F5",
		"mmcblk0": "0x1a2b3c4d", "mmcblk1": "0x99 F4", "sdf": "LOCKED F7", "sdg": "SWAP F5", "sdi": "TWIN", "sdj": "TWIN", "sdk": "CRYPT F6",
	}
	for _, d := range list {
		got := d.Serial
		codes := []string{}
		for _, r := range d.Refused {
			codes = append(codes, r.Code)
		}
		slices.Sort(codes)
		slices.Reverse(codes)
		for _, c := range codes {
			got += " " + c
		}
		if w, known := want[d.Name]; !known || got != w {
			t.Errorf("%s: %q, want %q: %+v", d.Name, got, w, d)
		}
		delete(want, d.Name)
	}
	if len(want) > 0 {
		t.Errorf("not listed: %v", want)
	}
	for _, c := range []struct {
		serial string
		wish   Wish
		drive  string // or the code
	}{
		{"READER9", Wish{Write: true}, "sdb"}, {"0x1a2b3c4d", Wish{Write: true}, "mmcblk0"}, {"reader9", Wish{Write: true}, codeNoDrive}, {"READER", Wish{Write: true}, codeNoDrive},
		{"", Wish{Write: true, Unmount: true}, codeNoDrive}, {"TWIN", Wish{Write: true}, codeNoDrive}, {"port-1-2", Wish{Write: true}, codeMounted},
		{"port-1-2", Wish{Write: true, Unmount: true}, "sdc"}, {"LIVE", Wish{Write: true, Unmount: true}, codeSystem}, {"SWAP", Wish{Write: true, Unmount: true}, codeSystem},
		{"BACKUP", Wish{Write: true, Unmount: true}, codeFixed}, {"LOCKED", Wish{Write: true}, codeReadOnly}, {"LOCKED", Wish{}, "sdf"}, {"READER9-1", Wish{}, codeEmpty},
		{"CRYPT", Wish{Write: true, Unmount: true}, codeMounted},
	} {
		d, err := s.Choose(c.serial, c.wish)
		if got := codeOf(err); got != c.drive && (err != nil || d.Name != c.drive) {
			t.Errorf("%q %+v: %s %v, want %s", c.serial, c.wish, d.Name, err, c.drive)
		}
	}
	if i := slices.IndexFunc(list, func(d Drive) bool { return d.Name == "sdc" }); !equal(list[i].Mounts, []string{"/media/ann/MY CARD"}) {
		t.Errorf("mounts %q", list[i].Mounts)
	}
	// With no list of mounts nothing is known to be safe.
	if err := os.Remove(filepath.Join(s.Root, "proc/self/mountinfo")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Choose("READER9", Wish{Write: true}); codeOf(err) != codeNoDrive {
		t.Errorf("without mountinfo: %v", err)
	}
}

// loopDevice makes a real block device of a file, or skips.
func loopDevice(t *testing.T, size int64) (node, number string) {
	t.Helper()
	need := func(err error) {
		if err != nil {
			t.Skipf("needs root, losetup and /dev/loop-control: %v", err)
		}
	}
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	need(err)
	control.Close()
	backing := filepath.Join(t.TempDir(), "backing")
	if err := errors.Join(os.WriteFile(backing, []byte("old content"), 0o600), os.Truncate(backing, size)); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("losetup", "--find", "--show", backing).CombinedOutput()
	need(err)
	node = strings.TrimSpace(string(out))
	t.Cleanup(func() {
		if out, err := exec.Command("losetup", "--detach", node).CombinedOutput(); err != nil {
			t.Errorf("%v %s", err, out)
		}
	})
	return node, attribute("/sys/block/"+filepath.Base(node), "dev")
}

// TestRealBlockDeviceIsWrittenPastTheCache: the whole way on a loop device, which a tree
// shows as a card in a reader: chosen, locked, written, read back, and not opened twice.
func TestRealBlockDeviceIsWrittenPastTheCache(t *testing.T) {
	const size = 13 * unit
	node, number := loopDevice(t, size)
	s := tree(t, "proc/self/mountinfo 22 1 0:21 / / rw - overlay overlay rw\n"+usbDevice(usb1, "LOOP")+
		disk("sdb", number, usb1+"/h/6:0:0:0", fmt.Sprint(size/512), "1")+"dev/sdb -> "+node)
	wish := Wish{Write: true}
	d, err := s.Choose("LOOP", wish)
	if err != nil {
		t.Fatal(err)
	}
	m, err := s.Open(d, wish)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if _, err := s.Open(d, wish); codeOf(err) != codeBusy {
		t.Errorf("opened twice: %v", err)
	}
	w := newWorld(t, 10)
	im := w.open(t)
	r, err := Write(t.Context(), Job{Image: im, Medium: m, Card: d.Card(), Journals: t.TempDir()})
	if err != nil || r.Verified != im.Size-unit {
		t.Fatalf("%+v %v", r, err)
	}
	if err := os.WriteFile(filepath.Join(s.Root, "sys/block/sdb/size"), []byte("0\n"), 0o644); err != nil || m.Present() {
		t.Errorf("a card that was taken out is still there: %v", err)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(w.raw))
	f, err := os.Open(node)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.ReadAt(got, 0); err != nil || string(got) != string(w.raw) {
		t.Errorf("the device does not hold the image: %v", err)
	}
}
