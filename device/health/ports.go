package health

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"grattoir/device/terminal"
)

// Port looks at a device's path without opening it: that it is there, is a device, and that
// the daemon's user may open it. uid is that user, below zero where it is not known.
func (m Machine) Port(code, name string, uid int) Check {
	c := About(code)
	info, err := fs.Stat(m.Root, inside(name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return c.fail("check cable and power; correct the path in the configuration", "nothing at %s; below /dev/serial/by-id there is: %s", name, listed(m.serials()))
	case err != nil:
		return c.missing(name, err, "check the path in the configuration")
	case info.Mode()&fs.ModeCharDevice == 0:
		return c.fail("correct the path in the configuration", "%s is no device", name)
	}
	said := name
	if real := m.real(name); real != name {
		said += " (" + real + ")"
	}
	st, known := info.Sys().(*syscall.Stat_t)
	if uid < 0 || !known {
		return c.ok("%s is there", said)
	}
	mode, gid := info.Mode().Perm(), int(st.Gid)
	user, group := m.userName(uid), m.groupName(gid)
	const needed = 6 // read and write
	switch {
	case uid == 0, int(st.Uid) == uid && mode>>6&needed == needed, mode&needed == needed:
	case mode>>3&needed != needed:
		return c.fail(`correct the udev rule: GROUP="dialout", MODE="0660"`, "%s has mode %04o, which shuts out %s", said, mode, user)
	case !m.inGroup(uid, gid):
		return c.warn("usermod -aG "+group+" and restart the daemon, unless its unit gives it the group", "%s belongs to group %s, and %s is not in it", said, group, user)
	}
	return c.ok("%s is there and %s may open it", said, user)
}

// serials are the names under which serial devices are found again.
func (m Machine) serials() (names []string) {
	for _, p := range m.glob("/dev/serial/by-id/*") {
		names = append(names, plain(path.Base(p)))
	}
	return names
}

// real follows the link of a by-id name; the path itself where it is none.
func (m Machine) real(name string) string {
	for range 4 {
		to, err := fs.ReadLink(m.Root, inside(name))
		if err != nil {
			return name
		}
		if !path.IsAbs(to) {
			to = path.Join(path.Dir(name), to)
		}
		name = to
	}
	return name
}

func (m Machine) groupName(gid int) string {
	if name := m.named("/etc/group", gid); name != "" {
		return name
	}
	return strconv.Itoa(gid)
}

// inGroup tells whether a user is in a group, by the machine's own files.
func (m Machine) inGroup(uid, gid int) bool {
	user := m.named("/etc/passwd", uid)
	text, _ := m.read("/etc/passwd")
	for line := range strings.Lines(text) {
		if p := strings.Split(strings.TrimSpace(line), ":"); len(p) >= 4 && p[2] == strconv.Itoa(uid) && p[3] == strconv.Itoa(gid) {
			return true // his first group
		}
	}
	text, _ = m.read("/etc/group")
	for line := range strings.Lines(text) {
		p := strings.Split(strings.TrimSpace(line), ":")
		if len(p) >= 4 && p[2] == strconv.Itoa(gid) && user != "" {
			return slices.Contains(strings.Split(p[3], ","), user)
		}
	}
	return false
}

// Rival is another program that has a port or takes ports, and what to do about it.
type Rival struct{ Name, Port, Hint string }

// Rivals looks for what else has the ports or reads them: a console of the kernel, a login
// prompt, any program that has one open. own is the name of the programs that may.
// unseen counts processes whose open files this user may not see.
func (m Machine) Rivals(own []string, ports ...string) (found []Rival, unseen int) {
	names := map[string]string{} // the port as configured, by the device's real path
	for _, p := range ports {
		names[m.real(p)] = p
	}
	cmdline, _ := m.read("/proc/cmdline")
	for word := range strings.FieldsSeq(cmdline) {
		device, is := strings.CutPrefix(word, "console=")
		device, _, _ = strings.Cut(device, ",")
		if port, ours := names[m.real("/dev/"+device)]; is && ours {
			found = append(found, Rival{"the kernel's console", port, "take " + word + " out of cmdline.txt and restart"})
		}
	}
	for _, dir := range m.glob("/proc/[0-9]*") {
		name, _ := m.read(dir + "/comm")
		if port := m.prompt(dir, name, names); port != "" {
			found = append(found, Rival{"a login prompt (" + plain(name) + ")", port, "systemctl mask --now serial-getty@" + path.Base(m.real(port))})
			continue
		}
		port, err := m.holds(dir, names)
		if errors.Is(err, fs.ErrPermission) {
			unseen++
		}
		if port != "" && !slices.Contains(own, name) {
			found = append(found, Rival{"the program " + plain(name) + " (process " + path.Base(dir) + ")", port, "stop it, and see that it does not start again"})
		}
	}
	return found, unseen
}

// prompt is the port at which a process waits for somebody to log in, "" for none.
func (m Machine) prompt(dir, name string, ports map[string]string) string {
	if !strings.HasSuffix(name, "getty") {
		return ""
	}
	line, _ := m.read(dir + "/cmdline")
	for _, word := range strings.FieldsFunc(line, func(r rune) bool { return r == 0 || r == ' ' }) {
		if port, ours := ports[m.real("/dev/"+strings.TrimPrefix(word, "/dev/"))]; ours {
			return port
		}
	}
	return ""
}

// holds is the port that a process has open, "" for none.
func (m Machine) holds(dir string, ports map[string]string) (string, error) {
	list, err := fs.ReadDir(m.Root, inside(dir+"/fd"))
	for _, entry := range list {
		to, err := fs.ReadLink(m.Root, inside(dir+"/fd/"+entry.Name()))
		if port, ours := ports[to]; err == nil && ours {
			return port, nil
		}
	}
	return "", err
}

// Others judges what Rivals, and whoever else looked for programs that take ports, found.
func Others(found []Rival, unseen int) Check {
	c := About(CheckPorts)
	if len(found) > 0 {
		var said, hints []string
		for _, r := range found {
			at := ""
			if r.Port != "" {
				at = " on " + r.Port
			}
			said, hints = append(said, r.Name+at), append(hints, r.Hint)
		}
		return c.fail(strings.Join(slices.Compact(hints), "; "), "%s", strings.Join(said, ", "))
	}
	if unseen > 0 {
		return c.ok("nobody else was seen there; the open files of %s cannot be seen by this user", count(unseen, "process", "processes"))
	}
	return c.ok("nobody else has them")
}

// Device is a device's check when it was asked itself, by the daemon or, when that is
// down, by the doctor. f is its fault, nil for none; detail is what is known otherwise.
func Device(code string, f *terminal.Fault, detail string) Check {
	c := About(code)
	if f == nil {
		return c.ok("%s", detail)
	}
	c = c.fail(f.Technician, "%s: %s", f.Code, oneLine(f.ClerkEN))
	c.Fault = f.Code
	return c
}

// Soon makes a failure a warning: what it says does not keep the device from working.
func (c Check) Soon() Check {
	if c.State == Fail {
		c.State = Warn
	}
	return c
}

func oneLine(s string) string { return strings.ReplaceAll(s, "\n", " ") }
