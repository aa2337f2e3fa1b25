package health

import (
	"errors"
	"io/fs"
	"maps"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"
)

// pi is a sound Raspberry Pi with its data on the card, a scanner and a printer.
func pi() fstest.MapFS {
	text := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s + "\n"), Mode: 0o444} }
	return fstest.MapFS{
		"proc/self/mountinfo": text("20 1 179:2 / / ro,relatime - ext4 /dev/root ro\n" +
			"21 20 179:3 / /var/lib/grattoir\\040x rw - ext4 /dev/mmcblk0p3 rw\n22 20 179:4 / /var/lib/grattoir rw,noatime - ext4 /dev/mmcblk0p4 rw\n23 20 0:9 / /run rw - tmpfs tmpfs rw"),
		"proc/meminfo":                           text("MemTotal:        948304 kB\nMemFree: 1 kB\nMemAvailable:    601020 kB"),
		"proc/vmstat":                            text("nr_free_pages 1\noom_kill 0"),
		"proc/cmdline":                           text("console=tty1 root=/dev/mmcblk0p2 rootwait"),
		"proc/77/comm":                           text("terminald"),
		"proc/77/cmdline":                        text("terminald\x00--config\x00x"),
		"proc/77/fd/5":                           {Data: []byte("/dev/ttyACM0"), Mode: fs.ModeSymlink | 0o777},
		"sys/fs/ext4/mmcblk0p4/errors_count":     text("0"),
		"sys/class/thermal/thermal_zone0/temp":   text("51540"),
		"sys/class/rtc/rtc0":                     {Mode: fs.ModeDir | 0o755},
		"sys/class/hwmon/hwmon1/name":            text("rpi_volt"),
		"sys/class/hwmon/hwmon1/in0_lcrit_alarm": text("0"),
		"sys/bus/usb/devices/1-1/idVendor":       text("05f9"),
		"sys/bus/usb/devices/1-1/idProduct":      text("4204"),
		"sys/bus/usb/devices/1-1/product":        text("Handheld\x07Scanner"),
		"sys/bus/usb/devices/usb1/idVendor":      text("1d6b"),
		"sys/bus/usb/devices/usb1/bDeviceClass":  text("09"),
		"etc/passwd":                             text("root:x:0:0::/:/bin/sh\ngrattoir:x:990:990::/:/bin/false"),
		"etc/group":                              text("root:x:0:\ndialout:x:20:pi,grattoir\ngrattoir:x:990:"),
		"dev/serial/by-id/usb-PSC_Scanner-if00":  {Data: []byte("../../ttyACM0"), Mode: fs.ModeSymlink | 0o777},
		"dev/ttyACM0":                            {Mode: fs.ModeDevice | fs.ModeCharDevice | 0o660, Sys: &syscall.Stat_t{Uid: 0, Gid: 20}},
		"dev/ttyAMA0":                            {Mode: fs.ModeDevice | fs.ModeCharDevice | 0o660, Sys: &syscall.Stat_t{Uid: 0, Gid: 20}},
		"var/lib/grattoir":                       {Mode: fs.ModeDir | 0o750, Sys: &syscall.Stat_t{Uid: 990, Gid: 990}},
	}
}

const (
	piData    = "/var/lib/grattoir"
	piScanner = "/dev/serial/by-id/usb-PSC_Scanner-if00"
	piPrinter = "/dev/ttyAMA0"
)

// machine is the sound Pi, changed; a nil file is taken away.
func machine(changes fstest.MapFS) Machine {
	files := pi()
	maps.Copy(files, changes)
	for name, f := range files {
		if f == nil {
			delete(files, name)
		}
	}
	return Machine{Root: files, Up: time.Hour, Synced: func() (bool, error) { return true, nil },
		Space: func(string) (Space, error) { return Space{Free: 9 << 30, Total: 16 << 30, Files: 1e6}, nil }}
}

func examine(m Machine) map[string]Check {
	rivals, unseen := m.Rivals([]string{"terminald"}, piScanner, piPrinter)
	out := map[string]Check{}
	for _, c := range []Check{m.Folder(piData), m.FreeSpace(piData, 64<<20), m.FileSystem(piData), m.Memory(), m.Heat(), m.Power(), m.TimeSync(false), m.USB(),
		m.Port(CheckScanner, piScanner, m.Owner(piData)), m.Port(CheckPrinter, piPrinter, m.Owner(piData)), Others(rivals, unseen)} {
		out[c.Code] = c
	}
	return out
}

func TestDoctorFindsNothingOnASoundMachine(t *testing.T) {
	checks := examine(machine(nil))
	for code, c := range checks {
		if c.State != OK || c.Name == "" || c.Detail == "" || c.Hint != "" {
			t.Errorf("%s: %+v", code, c)
		}
	}
	if c := checks[CheckUSB]; !strings.Contains(c.Detail, "05f9:4204 Handheld?Scanner") || strings.Contains(c.Detail, "1d6b") {
		t.Errorf("USB: %+v", c)
	}
	if c := checks[CheckScanner]; !strings.Contains(c.Detail, "(/dev/ttyACM0)") || !strings.Contains(c.Detail, "grattoir (990)") {
		t.Errorf("scanner: %+v", c)
	}
}

// TestDoctorNamesWhatIsWrongWithTheMachine changes one thing of a sound machine at a time:
// that check, and no other, must tell it, with its hint.
func TestDoctorNamesWhatIsWrongWithTheMachine(t *testing.T) {
	text := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s + "\n"), Mode: 0o444} }
	device := func(mode fs.FileMode, gid uint32) *fstest.MapFile {
		return &fstest.MapFile{Mode: fs.ModeDevice | fs.ModeCharDevice | mode, Sys: &syscall.Stat_t{Gid: gid}}
	}
	folder := func(mode fs.FileMode) *fstest.MapFile {
		return &fstest.MapFile{Mode: fs.ModeDir | mode, Sys: &syscall.Stat_t{Uid: 990}}
	}
	cases := []struct {
		name    string
		changes fstest.MapFS
		code    string
		state   State
		detail  string
		hint    string
	}{
		{"card went read-only", fstest.MapFS{"proc/self/mountinfo": text("22 20 179:4 / " + piData + " ro,noatime - ext4 /dev/mmcblk0p4 rw")}, CheckFileSystem, Fail, "read-only", "dmesg"},
		{"card's file system went read-only", fstest.MapFS{"proc/self/mountinfo": text("22 20 179:4 / " + piData + " rw - ext4 /dev/mmcblk0p4 ro,errors=remount-ro")}, CheckFileSystem, Fail, "read-only", "dmesg"},
		{"a later mount hides the first", fstest.MapFS{"proc/self/mountinfo": text("22 20 179:4 / " + piData + " rw - ext4 /dev/mmcblk0p4 rw\n30 22 0:5 / " + piData + " rw - tmpfs tmpfs rw")}, CheckFileSystem, Warn, "memory", "card"},
		{"errors of the file system", fstest.MapFS{"sys/fs/ext4/mmcblk0p4/errors_count": text("3")}, CheckFileSystem, Warn, "3 errors", "replace the card"},
		{"worn card", fstest.MapFS{"sys/block/mmcblk0/device/life_time": text("0x02 0x0B")}, CheckFileSystem, Warn, "life", "replace"},
		{"card with no spare blocks", fstest.MapFS{"sys/block/mmcblk0/device/pre_eol_info": text("0x03")}, CheckFileSystem, Warn, "spare", "replace"},
		{"little memory", fstest.MapFS{"proc/meminfo": text("MemTotal: 948304 kB\nMemAvailable: 20000 kB")}, CheckMemory, Warn, "19 MB of 926 MB", "bundle"},
		{"a program was ended", fstest.MapFS{"proc/vmstat": text("oom_kill 2")}, CheckMemory, Warn, "2 programs", "bundle"},
		{"hot", fstest.MapFS{"sys/class/thermal/thermal_zone1/temp": text("82300")}, CheckHeat, Warn, "82 °C", "air"},
		{"voltage now", fstest.MapFS{"sys/class/hwmon/hwmon1/in0_lcrit_alarm": text("1")}, CheckPower, Fail, "now", "supply"},
		{"voltage before", fstest.MapFS{"sys/devices/platform/soc/soc:firmware/get_throttled": text("50000")}, CheckPower, Warn, "since the start (0x50000)", "supply"},
		{"voltage by the firmware", fstest.MapFS{"sys/devices/platform/soc/soc:firmware/get_throttled": text("0x50005")}, CheckPower, Fail, "now (0x50005)", "supply"},
		{"slowed down", fstest.MapFS{"sys/devices/platform/soc/soc:firmware/get_throttled": text("80008")}, CheckPower, Warn, "heat", "air"},
		{"over-current", fstest.MapFS{"sys/bus/usb/devices/usb1/1-0:1.0/x": text(""), "sys/bus/usb/devices/usb1/usb1-port2/over_current_count": text("4")}, CheckUSB, Warn, "4 times", "supply"},
		{"scanner unplugged", fstest.MapFS{"dev/serial/by-id/usb-PSC_Scanner-if00": nil, "dev/serial/by-id/usb-Other-if00": text("")}, CheckScanner, Fail, "there is: usb-Other-if00", "cable"},
		{"scanner is a file", fstest.MapFS{"dev/ttyACM0": text("x")}, CheckScanner, Fail, "no device", "path"},
		{"udev rule shuts the group out", fstest.MapFS{"dev/ttyAMA0": device(0o600, 20)}, CheckPrinter, Fail, "0600", "udev"},
		{"user not in the group", fstest.MapFS{"dev/ttyAMA0": device(0o660, 5), "etc/group": text("tty:x:5:\ndialout:x:20:pi,grattoir")}, CheckPrinter, Warn, "group tty, and grattoir (990) is not in it", "usermod -aG tty"},
		{"kernel console", fstest.MapFS{"proc/cmdline": text("console=ttyAMA0,115200 console=tty1")}, CheckPorts, Fail, "the kernel's console on /dev/ttyAMA0", "cmdline.txt"},
		{"console by an alias", fstest.MapFS{"proc/cmdline": text("console=serial0,115200"), "dev/serial0": {Data: []byte("ttyAMA0"), Mode: fs.ModeSymlink | 0o777}}, CheckPorts, Fail, "console on /dev/ttyAMA0", "cmdline.txt"},
		{"login prompt", fstest.MapFS{"proc/80/comm": text("agetty"), "proc/80/cmdline": text("/sbin/agetty\x00-o\x00-p -- \\u\x00--keep-baud\x00115200\x00-\x00ttyAMA0\x00vt220")}, CheckPorts, Fail, "a login prompt (agetty) on /dev/ttyAMA0", "serial-getty@ttyAMA0"},
		{"another program has the scanner", fstest.MapFS{"proc/81/comm": text("minicom"), "proc/81/fd/3": {Data: []byte("/dev/ttyACM0"), Mode: fs.ModeSymlink | 0o777}}, CheckPorts, Fail, "minicom (process 81) on " + piScanner, "stop it"},
		{"data folder is gone", fstest.MapFS{"var/lib/grattoir": nil}, CheckFolder, Fail, "does not exist", "terminald"},
		{"data folder is a file", fstest.MapFS{"var/lib/grattoir": text("x")}, CheckFolder, Fail, "no folder", "data"},
		{"anybody can write the data folder", fstest.MapFS{"var/lib/grattoir": folder(0o777)}, CheckFolder, Fail, "anybody", "chmod 750"},
		{"its group can write it", fstest.MapFS{"var/lib/grattoir": folder(0o770)}, CheckFolder, Warn, "group", "chmod 750"},
		{"its owner cannot write it", fstest.MapFS{"var/lib/grattoir": folder(0o550)}, CheckFolder, Fail, "cannot write", "chmod 750"},
	}
	for _, test := range cases {
		t.Run(test.name, func(t *testing.T) {
			for code, c := range examine(machine(test.changes)) {
				switch {
				case code != test.code && c.State != OK && !(test.code == CheckFolder && c.State != Fail):
					t.Errorf("%s also speaks: %+v", code, c)
				case code == test.code && (c.State != test.state || !strings.Contains(c.Detail, test.detail) || !strings.Contains(c.Hint, test.hint)):
					t.Errorf("%s: %+v", code, c)
				}
			}
		})
	}
}

func TestDoctorComparesFreeSpaceWithTheReserve(t *testing.T) {
	for _, test := range []struct {
		space Space
		err   error
		state State
		want  string
	}{
		{Space{Free: 63 << 20, Total: 1 << 30, Files: 9999}, nil, Fail, "nothing is paid"},
		{Space{Free: 100 << 20, Total: 1 << 30, Files: 9999}, nil, Warn, "100 MB of 1024 MB are free"},
		{Space{Free: 1 << 30, Total: 1 << 30, Files: 3}, nil, Fail, "only 3 more files"},
		{Space{Free: 1 << 30, Total: 1 << 30, Files: -1}, nil, OK, "the reserve is 64 MB"},
		{Space{}, fs.ErrPermission, Skipped, "cannot be seen by this user"},
		{Space{}, errors.New("input/output error"), Fail, "input/output error"},
		{Space{}, fs.ErrNotExist, Skipped, "does not exist yet: see data folder"}, // one fault, one line
	} {
		m := Machine{Space: func(string) (Space, error) { return test.space, test.err }}
		c := m.FreeSpace("/d", 64<<20)
		if c.State != test.state || !strings.Contains(c.Detail, test.want) || c.Unseen != errors.Is(test.err, fs.ErrPermission) {
			t.Errorf("%+v: %+v", test, c)
		}
		if (c.Fault == "L1") != (test.want == "nothing is paid") {
			t.Errorf("%+v: fault %q", test, c.Fault)
		}
	}
}

func TestDoctorSaysWhoKeepsTheClock(t *testing.T) {
	no, unknown := func() (bool, error) { return false, nil }, func() (bool, error) { return false, errors.New("not permitted") }
	for _, test := range []struct {
		name   string
		alone  bool
		up     time.Duration
		synced func() (bool, error)
		state  State
		want   string
	}{
		{"linked for an hour and nobody keeps it", false, time.Hour, no, Warn, "does not keep the clock"},
		{"just started", false, time.Minute, no, Skipped, "not yet"},
		{"alone", true, time.Hour, no, Skipped, "stands alone"},
		{"unknown", false, time.Hour, unknown, Skipped, "not permitted"},
	} {
		m := machine(fstest.MapFS{"sys/class/rtc/rtc0": nil})
		m.Up, m.Synced = test.up, test.synced
		if c := m.TimeSync(test.alone); c.State != test.state || !strings.Contains(c.Detail, test.want) || !strings.Contains(c.Detail, "no clock chip") {
			t.Errorf("%s: %+v", test.name, c)
		}
	}
}

// closed is a tree that this user may not see a part of.
type closed struct {
	fs.FS
	below string
}

func (c closed) Open(name string) (fs.File, error) {
	if strings.HasPrefix(name, c.below) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
	}
	return c.FS.Open(name)
}

func (c closed) ReadLink(name string) (string, error)   { return fs.ReadLink(c.FS, name) }
func (c closed) Lstat(name string) (fs.FileInfo, error) { return fs.Lstat(c.FS, name) }

func TestDoctorSaysWhatItMayNotSee(t *testing.T) {
	m := machine(nil)
	m.Root = closed{m.Root, "var/lib"}
	if c := m.Folder(piData); c.State != Skipped || !c.Unseen || !strings.Contains(c.Hint, "sudo") {
		t.Errorf("%+v", c)
	}
	m = machine(nil)
	m.Root = closed{m.Root, "proc/77/fd"}
	rivals, unseen := m.Rivals([]string{"terminald"}, piScanner)
	if c := Others(rivals, unseen); c.State != OK || !strings.Contains(c.Detail, "1 process cannot be seen") {
		t.Errorf("%+v", c)
	}
}

func TestReportIsAsBadAsItsWorstCheck(t *testing.T) {
	var r Report
	r.Add(About(CheckUSB).Skip("none"), Check{})
	if r.State != Skipped || len(r.Checks) != 1 {
		t.Errorf("%+v", r)
	}
	r.Add(About(CheckHeat).ok("cool"), About(CheckPower).warn("h", "low"))
	if r.State != Warn || r.Findings() != 1 {
		t.Errorf("%+v", r)
	}
	r.Add(About(CheckLedger).fail("h", "gone"), About(CheckKeys).Hidden("keys"))
	if r.State != Fail || r.Findings() != 2 || r.Unseen != 1 {
		t.Errorf("%+v", r)
	}
}

func TestEveryCheckHasOneCodeAndAName(t *testing.T) {
	seen := map[string]bool{}
	for _, list := range [][]Meaning{Examinations(), Trials()} {
		for _, m := range list {
			if seen[m.Code] || seen[m.Name] || m.Code == "" || m.Name == "" || m.Text == "" {
				t.Errorf("%+v", m)
			}
			seen[m.Code], seen[m.Name] = true, true
		}
	}
}
