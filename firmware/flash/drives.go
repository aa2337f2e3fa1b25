package flash

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// System is where a Linux system shows its drives. The zero value is this machine; tests
// give a folder that holds sys, proc and dev.
type System struct{ Root string }

// Drive is a whole drive that the system shows, and why it may not be written.
type Drive struct {
	Name    string     `json:"name"` // the kernel's, as sdb; another one at the next plugging
	Path    string     `json:"path"` // its node
	Serial  string     `json:"serial"`
	Model   string     `json:"model"`
	Bus     string     `json:"bus"` // "usb", "sd", or "" for a built-in drive
	Size    int64      `json:"size"`
	Mounts  []string   `json:"mounts"`  // where its file systems are mounted
	Refused []*Refusal `json:"refused"` // empty for one that may be written
	number  string     // major:minor
}

// Refusal is one reason why a drive may not be written.
type Refusal struct {
	Code string `json:"code"`
	Why  string `json:"why"`
}

// Card is what the drive knows of the card in it.
func (d Drive) Card() Card { return Card{Serial: d.Serial, Size: d.Size} }

// refuse adds a reason.
func (d *Drive) refuse(code, format string, args ...any) {
	d.Refused = append(d.Refused, &Refusal{Code: code, Why: fmt.Sprintf(format, args...)})
}

func (s System) path(parts ...string) string {
	return filepath.Join(append([]string{"/", s.Root}, parts...)...)
}

// virtual are drives that no slot holds.
var virtual = regexp.MustCompile(`^(loop|ram|zram|dm-|md|sr|fd|nbd|mtdblock|mmcblk[0-9]+(boot|rpmb|gp))[0-9]*`)

// Drives lists the drives of the system in the order of their names, those that may not be
// written too, with every reason.
func (s System) Drives() ([]Drive, error) {
	entries, err := os.ReadDir(s.path("sys/block"))
	if err != nil {
		return nil, fmt.Errorf("list of drives: %w", err)
	}
	uses, err := s.uses()
	if err != nil {
		return nil, err
	}
	list := []Drive{}
	for _, e := range entries {
		if !virtual.MatchString(e.Name()) {
			list = append(list, s.drive(e.Name(), uses))
		}
	}
	return list, nil
}

// drive reads one. What cannot be read counts against it.
func (s System) drive(name string, uses []use) Drive {
	dir := s.path("sys/block", name)
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		real = dir
	}
	d := Drive{Name: name, Path: s.path("dev", name), Mounts: []string{}, Refused: []*Refusal{}, number: attribute(dir, "dev")}
	sectors, err := strconv.ParseInt(attribute(dir, "size"), 10, 64) // of 512 bytes, whatever the drive's own are
	if err != nil || sectors < 0 || sectors > 1<<50 {
		sectors = 0
	}
	d.Size = sectors * 512
	d.Model = strings.Join(strings.Fields(attribute(dir, "device/vendor")+" "+attribute(dir, "device/model")), " ")
	s.bus(&d, dir, real)
	s.used(&d, dir, uses)
	if attribute(dir, "ro") != "0" {
		d.refuse(codeReadOnly, "it is read-only")
	}
	if d.Size == 0 {
		d.refuse(codeEmpty, "there is no card in it")
	}
	return d
}

// bus finds out how the drive is plugged in, and its serial.
func (s System) bus(d *Drive, dir, real string) {
	removable := attribute(dir, "removable") == "1"
	switch usb := usbParent(real); {
	case strings.Contains(real, "/mmc_host/"):
		d.Bus, d.Serial, d.Model = "sd", serialWord(attribute(dir, "device/serial")), attribute(dir, "device/name")
		if kind := attribute(dir, "device/type"); kind != "SD" { // MMC is soldered on the board
			d.refuse(codeFixed, "it is a built-in memory (%.10s)", kind)
		}
	case usb != "":
		d.Bus = "usb"
		if serial := serialWord(attribute(usb, "serial")); serial != "" {
			d.Serial = serial + unitNumber(dir)
		} else {
			d.Serial = "port-" + filepath.Base(usb) + unitNumber(dir) // a reader without a serial is told by its socket
		}
		if !removable {
			d.refuse(codeFixed, "it is a fixed disk on USB, not a card reader or a stick")
		}
	default:
		d.Serial = serialWord(attribute(dir, "device/serial"))
		d.refuse(codeFixed, "it is built in")
	}
}

// usbParent is the folder of the USB device that a drive belongs to, "" for none.
func usbParent(dir string) string {
	for ; strings.Contains(dir, "/usb"); dir = filepath.Dir(dir) {
		if attribute(dir, "idVendor") != "" {
			return dir
		}
	}
	return ""
}

// unitNumber tells the slots of one reader apart: "-1" for the second.
func unitNumber(dir string) string {
	link, err := filepath.EvalSymlinks(filepath.Join(dir, "device"))
	if err != nil {
		return ""
	}
	address := filepath.Base(link) // host:channel:target:unit
	if i := strings.LastIndexByte(address, ':'); i >= 0 && address[i+1:] != "0" {
		return "-" + address[i+1:]
	}
	return ""
}

// serialWord keeps what a person can type of a serial; all zeros are none.
func serialWord(text string) string {
	word := strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || strings.ContainsRune("._-", r) {
			return r
		}
		return -1
	}, text)
	if strings.Trim(strings.TrimPrefix(word, "0x"), "0") == "" {
		return ""
	}
	return word
}

// use is one way in which the system uses a drive.
type use struct {
	number string // major:minor, "" where only the node's name is known
	node   string // its name under /dev, "" where only the number is known
	at     string // where it is mounted, or "swap"
}

const maxTable = 4 << 20 // of mounts, in bytes

// uses reads what is mounted, by any process's view that this one shares, and the swap.
func (s System) uses() (list []use, err error) {
	mounts, err := readBounded(s.path("proc/self/mountinfo"), maxTable)
	if err != nil {
		return nil, fmt.Errorf("what is mounted cannot be told, so no drive is safe: %w", err)
	}
	for line := range strings.Lines(string(mounts)) {
		before, after, found := strings.Cut(line, " - ") // proc(5): id parent major:minor root point options... - type source
		head, tail := strings.Fields(before), strings.Fields(after)
		if !found || len(head) < 5 || len(tail) < 2 {
			continue
		}
		list = append(list, use{number: head[2], node: s.node(tail[1]), at: unescape(head[4])})
	}
	swaps, err := readBounded(s.path("proc/swaps"), maxTable)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("what is swapped to cannot be told, so no drive is safe: %w", err)
	}
	for line := range strings.Lines(string(swaps)) {
		if f := strings.Fields(line); len(f) > 1 && f[1] == "partition" {
			list = append(list, use{node: s.node(unescape(f[0])), at: "swap"})
		}
	}
	return list, nil
}

// node is the name of a device's node, links followed; "" for what is none.
func (s System) node(source string) string {
	inside, ok := strings.CutPrefix(source, "/dev/")
	if !ok {
		return ""
	}
	if real, err := filepath.EvalSymlinks(s.path("dev", inside)); err == nil {
		return filepath.Base(real)
	}
	return filepath.Base(inside)
}

// unescape undoes the kernel's octal escapes of blanks.
func unescape(text string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(text)
}

// used finds what of the system lies on the drive: the drive itself, its partitions, and
// what is built upon them (encryption, volumes, arrays).
func (s System) used(d *Drive, dir string, uses []use) {
	numbers, names := map[string]bool{}, map[string]bool{}
	s.family(dir, numbers, names, 0)
	system := false
	for _, u := range uses {
		if !(u.number != "" && numbers[u.number]) && !(u.node != "" && names[u.node]) {
			continue
		}
		d.Mounts = append(d.Mounts, u.at)
		system = system || ofSystem(u.at)
	}
	slices.Sort(d.Mounts)
	d.Mounts = slices.Compact(d.Mounts)
	if held := holders(dir); len(held) > 0 && len(d.Mounts) == 0 {
		d.refuse(codeMounted, "%s is built upon it", strings.Join(held, ", "))
	}
	switch {
	case system:
		d.refuse(codeSystem, "this machine runs from it: %s", strings.Join(d.Mounts, ", "))
	case len(d.Mounts) > 0:
		d.refuse(codeMounted, "mounted at %s", strings.Join(d.Mounts, ", "))
	}
}

// ofSystem tells whether a machine cannot do without what is mounted there.
func ofSystem(at string) bool {
	if at == "/" || at == "swap" {
		return true
	}
	return !slices.ContainsFunc([]string{"/media/", "/mnt/", "/run/media/", "/tmp/"}, func(top string) bool { return strings.HasPrefix(at+"/", top) })
}

// family collects the numbers and names of a drive, its partitions and their holders.
func (s System) family(dir string, numbers, names map[string]bool, depth int) {
	const deepest = 8 // encryption on volumes on an array, and then some
	name := filepath.Base(dir)
	if depth > deepest || names[name] {
		return
	}
	names[name] = true
	if n := attribute(dir, "dev"); n != "" {
		numbers[n] = true
	}
	for _, part := range children(dir, name) {
		s.family(part, numbers, names, depth+1)
	}
	for _, h := range listed(filepath.Join(dir, "holders")) {
		s.family(s.path("sys/block", h), numbers, names, depth+1)
	}
}

// holders are the names of what is built upon a drive or its partitions.
func holders(dir string) (list []string) {
	list = listed(filepath.Join(dir, "holders"))
	for _, part := range children(dir, filepath.Base(dir)) {
		list = append(list, listed(filepath.Join(part, "holders"))...)
	}
	return list
}

// children are the folders of a drive's partitions.
func children(dir, name string) (list []string) {
	for _, n := range listed(dir) {
		if strings.HasPrefix(n, name) && attribute(filepath.Join(dir, n), "partition") != "" {
			list = append(list, filepath.Join(dir, n))
		}
	}
	return list
}

func listed(dir string) (names []string) {
	entries, _ := os.ReadDir(dir) // a folder that is not there holds nothing
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// attribute reads a one-line file of sysfs, "" where it cannot.
func attribute(dir, name string) string {
	f, err := os.Open(filepath.Join(dir, name))
	if err != nil {
		return ""
	}
	defer f.Close()
	text, _ := io.ReadAll(io.LimitReader(f, 4096))
	return strings.TrimSpace(string(text))
}

// Wish is what a drive is wanted for.
type Wish struct {
	Write   bool // or only read
	Unmount bool // its file systems, where they are not the system's own
}

// allows tells whether a reason does not speak against the wish.
func (w Wish) allows(r *Refusal, d Drive) bool {
	return r.Code == codeReadOnly && !w.Write || r.Code == codeMounted && w.Unmount && len(d.Mounts) > 0
}

// Choose finds the drive whose serial a person typed, whole and exactly. It is there once,
// and nothing speaks against it. The errors are Faults.
func (s System) Choose(serial string, wish Wish) (Drive, error) {
	list, err := s.Drives()
	if err != nil {
		return Drive{}, &Fault{Code: codeNoDrive, On: serial, Err: err}
	}
	list = slices.DeleteFunc(list, func(d Drive) bool { return d.Serial != serial || serial == "" })
	if len(list) != 1 {
		return Drive{}, fault(codeNoDrive, strconv.Quote(serial), "%d drives have this serial", len(list))
	}
	d := list[0]
	for _, r := range d.Refused {
		if !wish.allows(r, d) {
			return d, fault(r.Code, d.Name, "%s", r.Why)
		}
	}
	return d, nil
}

// Open opens a chosen drive for this program alone, unmounts what was to be unmounted, and
// makes sure that it is still the drive that was chosen. The errors are Faults.
func (s System) Open(d Drive, wish Wish) (Medium, error) {
	for _, at := range d.Mounts {
		if err := unix.Unmount(at, unix.UMOUNT_NOFOLLOW); err != nil {
			return nil, fault(codeMounted, d.Name, "unmounting %s: %w", at, err)
		}
	}
	there := func() bool {
		return attribute(s.path("sys/block", d.Name), "size") == strconv.FormatInt(d.Size/512, 10)
	}
	m, err := openBlock(d.Path, wish.Write, there)
	if err != nil {
		return nil, classify(err, d.Name, true)
	}
	again, err := s.Choose(d.Serial, Wish{Write: wish.Write})
	var stat unix.Stat_t
	if err == nil {
		err = unix.Fstat(int(m.file.Fd()), &stat)
	}
	number := fmt.Sprintf("%d:%d", unix.Major(stat.Rdev), unix.Minor(stat.Rdev))
	if err == nil && (again.Name != d.Name || again.Size != d.Size || m.size != d.Size || number != d.number) {
		err = fault(codeGone, d.Name, "another card or drive is there than a moment ago")
	}
	if err != nil {
		return nil, errors.Join(classify(err, d.Name, true), m.Close())
	}
	return m, nil
}
