package scanner

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// Intruder is a program that takes serial ports from others or writes to them unasked.
type Intruder struct {
	Name  string // "ModemManager" or "brltty"
	Found string // where it was seen: "process 412", or a file's path
	Hint  string // what a technician does about it
}

// Intruders looks for what is known to disturb a scanner's port: ModemManager, which
// writes modem commands to every new port for some seconds (rusefi#4359); brltty, which
// claims common USB serial chips for a braille display, so that the port vanishes at
// once (ubuntu-rockchip#621). A program that merely has the port open is none of these.
// Fsys is the system's root, os.DirFS("/"); only proc, sys, dev, run/udev and the udev
// rules are read. Port is the configured path; a rule that has
// ModemManager pass over this very port is respected, and with "" none is.
//
// An error means that something could not be read, so that the list may lack one.
func Intruders(fsys fs.FS, port string) ([]Intruder, error) {
	dev := deviceAt(fsys, port)
	if dev.pseudo {
		return nil, nil // they look for devices only
	}
	running, err := processes(fsys)
	rules, ruleErr := udevRules(fsys)
	err = errors.Join(err, ruleErr)
	var found []Intruder
	for _, p := range running {
		at := "process " + p.pid
		switch {
		case p.name == "ModemManager" && !dev.ignored && !slices.ContainsFunc(rules, func(r udevRule) bool { return r.spares(dev) }):
			found = append(found, Intruder{"ModemManager", at, modemHint(dev)})
		case p.name == "brltty":
			found = append(found, Intruder{"brltty", at, brlttyHint})
		}
	}
	if i := slices.IndexFunc(rules, func(r udevRule) bool { return r.startsBrltty(dev) }); i >= 0 {
		found = append(found, Intruder{"brltty", "/" + rules[i].file, brlttyHint})
	}
	return found, err
}

const brlttyHint = "It claims common USB serial adapters (CH340, CP210x) for braille displays: remove the package brltty, or systemctl mask brltty-udev.service brltty.path, then plug the scanner in again"

func modemHint(d device) string {
	match := `KERNEL=="ttyACM*"`
	if d.vendor != "" {
		match = fmt.Sprintf(`ATTRS{idVendor}==%q, ATTRS{idProduct}==%q`, d.vendor, d.product)
	}
	return `It writes modem commands to new ports: remove the package modemmanager, or put the line ` + match +
		`, ENV{ID_MM_DEVICE_IGNORE}="1" into /etc/udev/rules.d/60-scanner.rules, run udevadm control --reload, and plug the scanner in again`
}

// maxFile is the most that is read of one file; the longest rule files have some 30 kB.
const maxFile = 256 << 10

// readSome reads the beginning of a file. One that is not there is empty.
func readSome(fsys fs.FS, name string) ([]byte, error) {
	f, err := fsys.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(f, maxFile))
	return b, errors.Join(err, f.Close())
}

type process struct{ pid, name string }

// processes lists what runs. One that ends meanwhile is left out.
func processes(fsys fs.FS) ([]process, error) {
	entries, err := fs.ReadDir(fsys, "proc")
	if err != nil {
		return nil, fmt.Errorf("running programs: %w", err)
	}
	var list []process
	for _, e := range entries {
		if strings.Trim(e.Name(), "0123456789") != "" {
			continue
		}
		comm, err := readSome(fsys, path.Join("proc", e.Name(), "comm"))
		if err != nil || len(comm) == 0 {
			continue
		}
		list = append(list, process{pid: e.Name(), name: strings.TrimSpace(string(comm))})
	}
	return list, nil
}

// device is what udev knows of a port; all empty where it knows nothing.
type device struct {
	name            string // ttyACM0
	pseudo          bool   // no device but another program's
	vendor, product string // of USB, four hexadecimal digits
	ignored         bool   // ModemManager is told to pass over it
}

func deviceAt(fsys fs.FS, port string) device {
	name := strings.TrimPrefix(port, "/")
	for range 8 { // links of by-id lead to one node; more is a circle
		target, err := fs.ReadLink(fsys, name)
		if err != nil {
			break
		}
		if path.IsAbs(target) {
			name = strings.TrimPrefix(path.Clean(target), "/")
		} else {
			name = path.Join(path.Dir(name), target)
		}
	}
	if port == "" {
		return device{}
	}
	d := device{name: path.Base(name), pseudo: path.Dir(name) == "dev/pts"}
	number, err := readSome(fsys, path.Join("sys/class/tty", d.name, "dev"))
	if err != nil || len(number) == 0 {
		return d
	}
	facts, err := readSome(fsys, "run/udev/data/c"+strings.TrimSpace(string(number)))
	if err != nil {
		return d
	}
	for line := range strings.Lines(string(facts)) {
		key, value, _ := strings.Cut(strings.TrimSpace(strings.TrimPrefix(line, "E:")), "=")
		switch key {
		case "ID_VENDOR_ID":
			d.vendor = strings.ToLower(value)
		case "ID_MODEL_ID":
			d.product = strings.ToLower(value)
		case "ID_MM_DEVICE_IGNORE", "ID_MM_PORT_IGNORE":
			d.ignored = d.ignored || value == "1"
		}
	}
	return d
}

// udevRule is one line of a rule file, comments and continuations resolved.
type udevRule struct {
	file string // path from the root
	text string
}

// udevRules reads the rules in force: a file hides those of its name in later folders.
func udevRules(fsys fs.FS) ([]udevRule, error) {
	var rules []udevRule
	var errs []error
	seen := map[string]bool{}
	for _, dir := range []string{"etc/udev/rules.d", "run/udev/rules.d", "usr/local/lib/udev/rules.d", "usr/lib/udev/rules.d", "lib/udev/rules.d"} {
		entries, err := fs.ReadDir(fsys, dir)
		if err != nil {
			continue // most of them exist on no system
		}
		for _, e := range entries {
			if seen[e.Name()] || !strings.HasSuffix(e.Name(), ".rules") {
				continue
			}
			seen[e.Name()] = true
			file := path.Join(dir, e.Name())
			text, err := readSome(fsys, file)
			if err != nil {
				if target, linkErr := fs.ReadLink(fsys, file); linkErr != nil || target != "/dev/null" { // which is how one is switched off
					errs = append(errs, fmt.Errorf("udev rule: %w", err))
				}
				continue
			}
			for line := range bytes.Lines(bytes.ReplaceAll(text, []byte("\\\n"), nil)) {
				if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' {
					rules = append(rules, udevRule{file: file, text: string(line)})
				}
			}
		}
	}
	return rules, errors.Join(errs...)
}

// spares reports whether the rule has ModemManager pass over the device.
func (r udevRule) spares(d device) bool {
	if d.name == "" || !strings.Contains(r.text, "ID_MM_DEVICE_IGNORE") && !strings.Contains(r.text, "ID_MM_PORT_IGNORE") {
		return false
	}
	sets, names := false, false
	for part := range strings.SplitSeq(r.text, ",") {
		key, value, equal := strings.Cut(part, "==")
		if !equal {
			if key, value, equal = strings.Cut(part, "="); equal && strings.Contains(key, "ID_MM_") {
				sets = strings.Trim(value, ` "`) == "1"
			}
			continue
		}
		value = strings.ToLower(strings.Trim(value, ` "`))
		matches := true
		switch key = strings.TrimSpace(key); key {
		case "KERNEL":
			matches, _ = path.Match(value, strings.ToLower(d.name))
			names = true
		case "ATTRS{idVendor}", "ATTR{idVendor}", "ENV{ID_VENDOR_ID}":
			matches, names = value == d.vendor, true
		case "ATTRS{idProduct}", "ATTR{idProduct}", "ENV{ID_MODEL_ID}":
			matches = value == d.product
		}
		if !matches {
			return false
		}
	}
	return sets && names
}

// startsBrltty reports whether the rule hands the device, or where none is known a
// common serial chip, to brltty.
func (r udevRule) startsBrltty(d device) bool {
	if !strings.Contains(path.Base(r.file), "brltty") {
		return false
	}
	chips := []string{"1a86", "10c4", "0403", "067b"} // CH340, CP210x, FTDI, PL2303
	if d.vendor != "" {
		chips = []string{d.vendor}
	}
	text := strings.ToLower(r.text)
	return slices.ContainsFunc(chips, func(id string) bool { return strings.Contains(text, id) })
}
