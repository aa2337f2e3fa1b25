package health

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Machine is the machine under the terminal as the doctor sees it. It is only read.
type Machine struct {
	Root   fs.FS                       // its files, from /
	Space  func(string) (Space, error) // of the file system below a path
	Up     time.Duration               // since its start
	Synced func() (bool, error)        // whether the kernel says that the clock is kept by another
}

// Space is what a file system has left.
type Space struct {
	Free  int64 // bytes that a program without rights may take
	Total int64
	Files int64 // files that can still be made; below zero where the file system has no such bound
}

const maxSysFile = 1 << 20

// read reads a whole file of at most 1 MiB, without the white space around it.
func (m Machine) read(name string) (string, error) {
	f, err := m.Root.Open(inside(name))
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxSysFile))
	return strings.TrimSpace(string(text)), err
}

// number reads a file that holds one number, in C's notations.
func (m Machine) number(name string) (int64, bool) {
	text, err := m.read(name)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(text, 0, 64)
	return n, err == nil
}

// glob lists what matches, sorted.
func (m Machine) glob(pattern string) []string {
	list, _ := fs.Glob(m.Root, inside(pattern)) // the patterns are ours and good
	slices.Sort(list)
	return list
}

// inside is a path as an fs.FS takes it.
func inside(name string) string {
	name = strings.TrimPrefix(path.Clean("/"+name), "/")
	if name == "" {
		return "."
	}
	return name
}

// FreeSpace compares what the data folder's disk has left with the ledger's reserve, below
// which nothing is paid.
func (m Machine) FreeSpace(data string, reserve int64) Check {
	c := About(CheckSpace)
	s, err := m.Space(data)
	if errors.Is(err, fs.ErrNotExist) { // the folder's own check says so
		return c.Skip("%s does not exist yet: see data folder", data)
	}
	if err != nil {
		return c.missing(data, err, "look whether the folder is there")
	}
	c.Detail = fmt.Sprintf("%d MB of %d MB are free, the reserve is %d MB", s.Free>>20, s.Total>>20, reserve>>20)
	const hint = "take old logs and copies off the disk, lower quota_mb, or take a larger card"
	switch {
	case s.Free < reserve:
		c = c.fail(hint, "%s: nothing is paid", c.Detail)
		c.Fault = "L1"
		return c
	case s.Files >= 0 && s.Files < 64:
		return c.fail(hint, "%s, but only %d more files can be made", c.Detail, s.Files)
	case s.Free < 2*reserve:
		return c.warn(hint, "%s", c.Detail)
	}
	return c.ok("%s", c.Detail)
}

// mount is one line of /proc/self/mountinfo.
type mount struct {
	point, kind, source string
	readOnly            bool
}

// mountOf is the mount that holds a path.
func (m Machine) mountOf(name string) (best mount, err error) {
	text, err := m.read("/proc/self/mountinfo")
	if err != nil {
		return best, err
	}
	for line := range strings.Lines(text) {
		left, right, ok := strings.Cut(line, " - ")
		l, r := strings.Fields(left), strings.Fields(right)
		if !ok || len(l) < 6 || len(r) < 3 {
			continue
		}
		at := unescape(l[4])
		if at != "/" && name != at && !strings.HasPrefix(name, at+"/") || len(at) < len(best.point) {
			continue
		}
		best = mount{point: at, kind: r[0], source: unescape(r[1]), readOnly: hasOption(l[5], "ro") || hasOption(r[2], "ro")}
	}
	if best.point == "" {
		return best, errors.New("no mount is listed for it")
	}
	return best, nil
}

func hasOption(list, option string) bool { return slices.Contains(strings.Split(list, ","), option) }

// unescape undoes the kernel's octal escapes of spaces and the like.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// FileSystem looks at what the data folder lies on: read-only after an error, gone at the
// next start, errors that the kernel has counted, and a card's own word on its age.
func (m Machine) FileSystem(data string) Check {
	c := About(CheckFileSystem)
	at, err := m.mountOf(path.Clean(data))
	if err != nil {
		return c.missing("the mount of "+data, err, "look at /proc/self/mountinfo")
	}
	what := fmt.Sprintf("%s on %s, %s", at.source, at.point, at.kind)
	if at.readOnly {
		c = c.fail("errors of the card make its file system read-only: look in dmesg, then replace the card", "%s is read-only: nothing is paid", what)
		c.Fault = "L2"
		return c
	}
	if at.kind == "tmpfs" || at.kind == "ramfs" {
		return c.warn("let data in the configuration name a folder on the card", "%s is memory: the ledger is lost with the power", what)
	}
	device := path.Base(at.source)
	if n, known := m.number("/sys/fs/ext4/" + device + "/errors_count"); known && n > 0 {
		return c.warn("copy ledger.db with its -wal, then replace the card; fsck clears the count", "%s has met %s", what, count(int(n), "error", "errors"))
	}
	if worn := m.wear(device); worn != "" {
		return c.warn("replace the card soon", "%s: %s", what, worn)
	}
	return c.ok("%s, can be written, no errors counted", what)
}

// wear is what an eMMC says of its age, "" for nothing to say. SD cards say nothing.
func (m Machine) wear(partition string) string {
	card := partition
	if i := strings.LastIndexByte(partition, 'p'); strings.HasPrefix(partition, "mmcblk") && i > len("mmcblk") {
		card = partition[:i]
	}
	dir := "/sys/block/" + card + "/device/"
	if n, known := m.number(dir + "pre_eol_info"); known && n >= 2 { // JESD84-B51, 7.4.98: 1 normal, 2 warning, 3 urgent
		return "the card reports that its spare blocks run out"
	}
	text, err := m.read(dir + "life_time")
	if err != nil {
		return ""
	}
	for part := range strings.FieldsSeq(text) {
		if n, err := strconv.ParseInt(part, 0, 64); err == nil && n >= 10 { // JESD84-B51, 7.4.99: in tenths used
			return "the card reports that its life is used up"
		}
	}
	return ""
}

// Memory looks for what is left, and for programs that the kernel ended for lack of it.
func (m Machine) Memory() Check {
	c := About(CheckMemory)
	text, err := m.read("/proc/meminfo")
	if err != nil {
		return c.missing("/proc/meminfo", err, "is this Linux?")
	}
	free, total := field(text, "MemAvailable:"), field(text, "MemTotal:")
	if total == 0 {
		return c.Skip("/proc/meminfo does not say how much memory there is")
	}
	said := fmt.Sprintf("%d MB of %d MB can be had", free>>10, total>>10)
	const hint = "restart the terminal; when it comes again send a bundle"
	stats, _ := m.read("/proc/vmstat")
	if n := field(stats, "oom_kill"); n > 0 {
		return c.warn(hint, "%s; since its start the kernel ended %s for lack of memory", said, count(int(n), "program", "programs"))
	}
	if free < 32<<10 || free < total/20 {
		return c.warn(hint, "only %s", said)
	}
	return c.ok("%s", said)
}

// field is the number after a name at a line's start, 0 for none.
func field(text, name string) int64 {
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) >= 2 && words[0] == name {
			n, _ := strconv.ParseInt(words[1], 10, 64)
			return n
		}
	}
	return 0
}

// Heat reads the thermal zones. A Raspberry Pi slows down from 80 degrees on.
func (m Machine) Heat() Check {
	c := About(CheckHeat)
	hottest, found := int64(0), false
	for _, zone := range m.glob("/sys/class/thermal/thermal_zone*") {
		if n, known := m.number(zone + "/temp"); known {
			found, hottest = true, max(hottest, n)
		}
	}
	switch {
	case !found:
		return c.Skip("this machine reports no temperature")
	case hottest >= 80_000:
		return c.warn("let air to the terminal, take it out of the sun", "%d °C: the processor slows down", hottest/1000)
	}
	return c.ok("%d °C", hottest/1000)
}

// The firmware's bits of what it had to do about voltage and heat (documentation of
// vcgencmd get_throttled).
const (
	lowVoltageNow = 1 << 0
	slowedNow     = 1<<1 | 1<<2 | 1<<3
	lowVoltage    = 1 << 16
	slowed        = 1<<17 | 1<<18 | 1<<19
)

// Power reads what a Raspberry Pi's firmware and its voltage sensor say of the supply.
func (m Machine) Power() Check {
	c := About(CheckPower)
	const hint = "take the supply made for this board and a short thick cable; look at what else it feeds"
	found := false
	for _, sensor := range m.glob("/sys/class/hwmon/hwmon*") {
		if name, _ := m.read(sensor + "/name"); name != "rpi_volt" {
			continue
		}
		found = true
		if n, _ := m.number(sensor + "/in0_lcrit_alarm"); n != 0 {
			return c.fail(hint, "the voltage is too low now: cards lose data so")
		}
	}
	text, err := m.read("/sys/devices/platform/soc/soc:firmware/get_throttled")
	bits, bad := strconv.ParseInt(strings.TrimPrefix(text, "0x"), 16, 64)
	switch {
	case err != nil || bad != nil:
		if found {
			return c.ok("the voltage is high enough now")
		}
		return c.Skip("this machine does not watch its supply")
	case bits&lowVoltageNow != 0:
		return c.fail(hint, "the voltage is too low now (0x%x): cards lose data so", bits)
	case bits&lowVoltage != 0:
		return c.warn(hint, "the voltage was too low since the start (0x%x)", bits)
	case bits&(slowedNow|slowed) != 0:
		return c.warn("let air to the terminal", "the processor was slowed down for heat since the start (0x%x)", bits)
	}
	return c.ok("the voltage was never too low since the start")
}

// TimeSync tells whether the network keeps the clock. Alone says that no central's time
// can correct it either.
func (m Machine) TimeSync(alone bool) Check {
	c := About(CheckTimeSync)
	chip := "a clock chip keeps the time while it is off"
	if len(m.glob("/sys/class/rtc/rtc[0-9]*")) == 0 {
		chip = "there is no clock chip: after a start with no network the clock is behind"
	}
	synced, err := m.Synced()
	switch {
	case err != nil:
		return c.Skip("the kernel does not say: %s; %s", reason(err), chip)
	case synced:
		return c.ok("the network keeps the clock; %s", chip)
	case alone:
		return c.Skip("nothing keeps the clock, and this terminal stands alone; %s", chip)
	case m.Up < 10*time.Minute:
		return c.Skip("not yet, the machine started %s ago; %s", m.Up.Round(time.Second), chip)
	}
	return c.warn("look at the network and at the time service: timedatectl status", "the network does not keep the clock; %s; payments do not go by it", chip)
}

// USB lists what is plugged in, and sockets that had to cut the current.
func (m Machine) USB() Check {
	c := About(CheckUSB)
	var names []string
	cuts := int64(0)
	for _, dev := range m.glob("/sys/bus/usb/devices/*") {
		vendor, err := m.read(dev + "/idVendor")
		if err != nil {
			continue
		}
		if class, _ := m.read(dev + "/bDeviceClass"); class == "09" {
			continue // a hub
		}
		product, _ := m.read(dev + "/idProduct")
		name, _ := m.read(dev + "/product")
		names = append(names, strings.TrimSpace(vendor+":"+product+" "+plain(name)))
	}
	for _, p := range m.glob("/sys/bus/usb/devices/*/*-port*/over_current_count") {
		n, _ := m.number(p)
		cuts += n
	}
	switch {
	case cuts > 0:
		return c.warn("plug the printer into its own supply, the scanner into another socket", "a socket cut the current %s for too much load; plugged in: %s", count(int(cuts), "time", "times"), listed(names))
	case len(names) == 0 && len(m.glob("/sys/bus/usb/devices/*")) == 0:
		return c.Skip("this machine shows no USB")
	}
	return c.ok("plugged in: %s", listed(names))
}

// plain keeps what a device calls itself on one line of printable characters.
func plain(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, s)
	return s[:min(len(s), 40)]
}

func listed(names []string) string {
	if len(names) == 0 {
		return "nothing"
	}
	const most = 12
	if len(names) > most {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", len(names)-most)
	}
	return strings.Join(names, ", ")
}

// Folder looks at the data folder: whose it is, and whether others can write it.
func (m Machine) Folder(data string) Check {
	c := About(CheckFolder)
	info, err := fs.Stat(m.Root, inside(data))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return c.fail("start terminald, which makes it, or correct data in the configuration", "%s does not exist", data)
	case err != nil:
		return c.missing(data, err, "look at the folders above it")
	case !info.IsDir():
		return c.fail("correct data in the configuration", "%s is no folder", data)
	}
	owner := m.userName(ownerOf(info))
	switch mode := info.Mode().Perm(); {
	case mode&0o300 != 0o300:
		return c.fail("chmod 750 "+data, "%s belongs to %s and has mode %04o: its owner cannot write it", data, owner, mode)
	case mode&0o002 != 0:
		return c.fail("chmod 750 "+data+", and look who may have changed what lies there", "%s has mode %04o: anybody can write it", data, mode)
	case mode&0o020 != 0:
		return c.warn("chmod 750 "+data, "%s has mode %04o: its group can write it", data, mode)
	}
	return c.ok("%s belongs to %s, mode %04o", data, owner, info.Mode().Perm())
}

// Owner is the user a file belongs to, below zero for one that cannot be seen.
func (m Machine) Owner(name string) int {
	info, err := fs.Stat(m.Root, inside(name))
	if err != nil {
		return -1
	}
	return ownerOf(info)
}

func ownerOf(info fs.FileInfo) int {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(st.Uid)
	}
	return -1
}

// userName is a user's name and number.
func (m Machine) userName(uid int) string {
	if name := m.named("/etc/passwd", uid); name != "" {
		return fmt.Sprintf("%s (%d)", name, uid)
	}
	return fmt.Sprintf("user %d", uid)
}

// named finds the name of a number in /etc/passwd or /etc/group.
func (m Machine) named(file string, id int) string {
	text, _ := m.read(file)
	for line := range strings.Lines(text) {
		parts := strings.Split(strings.TrimSpace(line), ":")
		if len(parts) >= 3 && parts[2] == strconv.Itoa(id) {
			return parts[0]
		}
	}
	return ""
}
