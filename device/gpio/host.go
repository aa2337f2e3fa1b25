package gpio

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
	"periph.io/x/conn/v3/driver"
	"periph.io/x/conn/v3/driver/driverreg"
	"periph.io/x/conn/v3/gpio/gpioreg"
	"periph.io/x/host/v3"
	"periph.io/x/host/v3/gpioioctl"
)

// The labels of the chips whose lines are the GPIO of the header: Pi 3 and Zero 2 W, Pi 4
// and CM4, Pi 5. The numbers of chips move between kernels (raspberrypi/linux#6144), their
// labels do not.
var headerChips = [...]string{"pinctrl-bcm2835", "pinctrl-bcm2711", "pinctrl-rp1"}

// lastHeaderGPIO is the highest GPIO on the header. Higher ones hold the card, the
// network and the like.
const lastHeaderGPIO = 27

// Machine is what of this machine is looked at.
type Machine struct {
	chips  []chip
	fault  *Fault // why there are no chips
	mapped bool   // the library writes the registers itself (Pi 3, 4)
}

// chip is one GPIO chip of the machine.
type chip struct {
	label string
	names []string              // of its lines, "" for none
	pin   func(offset int) Pin  // through the kernel
	fast  func(name string) Pin // through the registers, nil where there is none
}

// OpenMachine loads the library's drivers. Call it first in a program, before it opens any
// file or starts a goroutine: where the kernel shows a chip under two names (newer ones do,
// on a Pi 5), the library closes the second one twice over and then descriptor 0, and
// whatever has got these numbers meanwhile is closed with it. OpenMachine puts back what
// descriptor 0 was, or /dev/null.
//
// It always returns a Machine. A machine with no GPIO has a Find that says so.
func OpenMachine() *Machine {
	if err := mayMapWrongly(); err != nil {
		return &Machine{fault: noPermission("/dev/mem", err)}
	}
	restore, err := hold(0)
	if err != nil {
		return &Machine{fault: unusable(err)}
	}
	state, err := host.Init()
	err = errors.Join(err, restore())
	m := &Machine{mapped: err == nil && mapped(state)}
	for i, c := range gpioioctl.Chips {
		m.chips = append(m.chips, chipOf(c, m.mapped && i == 0)) // the library takes the first chip's edges
	}
	if len(m.chips) == 0 || err != nil {
		m.fault = unusable(err)
	}
	return m
}

// mayMapWrongly keeps root on a Pi 5 away: there the library, finding no /dev/gpiomem, maps
// an address of the Pi 4 from /dev/mem.
func mayMapWrongly() error {
	board, err := os.ReadFile("/proc/device-tree/compatible")
	if err != nil || !bytes.Contains(board, []byte("bcm2712")) || os.Geteuid() != 0 {
		return nil // no such board
	}
	if _, err := os.Stat("/dev/gpiomem"); err == nil {
		return nil
	}
	return errors.New("gpio: not as root on a Raspberry Pi 5: run the service as a user of its own, in the group gpio")
}

// mapped says whether the library has the registers. Its driver may count as loaded
// without them.
func mapped(state *driverreg.State) bool {
	loaded := slices.ContainsFunc(state.Loaded, func(d driver.Impl) bool { return d.String() == "bcm283x-gpio" })
	if !loaded {
		return false
	}
	f, err := os.OpenFile("/dev/gpiomem", os.O_RDWR, 0)
	if err != nil {
		return false
	}
	return f.Close() == nil
}

// hold keeps what descriptor fd is. Restore opens fd again where it was closed meanwhile,
// as that or, if it was not open, as /dev/null: the next file that is opened would get the
// number, and be taken for standard input.
func hold(fd int) (restore func() error, err error) {
	kept, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
	if errors.Is(err, unix.EBADF) {
		kept, err = unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	}
	if err != nil {
		return nil, fmt.Errorf("descriptor %d cannot be kept: %w", fd, err)
	}
	if kept == fd { // it was closed, and is /dev/null now
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, 0); err != nil {
			return nil, fmt.Errorf("descriptor %d: %w", fd, err)
		}
		return hold(fd)
	}
	return func() error {
		defer func() { _ = unix.Close(kept) }() // nothing was written
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); !errors.Is(err, unix.EBADF) {
			return err
		}
		return unix.Dup3(kept, fd, 0)
	}, nil
}

// unusable says why there is no chip: none, or one that may not be opened.
func unusable(err error) *Fault {
	paths, globErr := filepath.Glob("/dev/gpiochip*")
	for _, p := range paths {
		f, openErr := os.OpenFile(p, os.O_RDONLY, 0)
		if openErr == nil {
			openErr = f.Close()
		}
		if errors.Is(openErr, fs.ErrPermission) {
			return noPermission(p, fmt.Errorf("gpio: %w", openErr))
		}
		err = errors.Join(err, openErr)
	}
	err = errors.Join(err, globErr)
	if err == nil {
		err = errors.New("nothing to open")
	}
	return noGPIO(fmt.Sprintf(" (%d of /dev/gpiochip* are here, none can be used)", len(paths)), fmt.Errorf("gpio: no chip under /dev/gpiochip*: %w", err))
}

func chipOf(c *gpioioctl.GPIOChip, mapped bool) chip {
	lines := c.Lines()
	k := chip{label: c.Label(), pin: func(offset int) Pin { return lines[offset] }}
	for _, l := range lines {
		k.names = append(k.names, strings.TrimPrefix(l.Name(), c.Name()+"-")) // the library's mark of a name used twice
	}
	// On a Pi 5 the library's driver for the registers stands for chips it does not know.
	if mapped && slices.Contains(headerChips[:2], k.label) {
		k.fast = func(name string) Pin {
			if p := gpioreg.ByName(name); p != nil {
				return p
			}
			return nil
		}
	}
	return k
}

// Find is the Finder of this machine. A name as GPIO17 is the line of that number on the
// header of a Pi 3, 4 or 5; any other is looked for among the lines' own names, and must
// be there once.
func (m *Machine) Find(name string, transient bool) (Found, error) {
	if m.fault != nil {
		return Found{}, m.fault
	}
	if n, ok := headerNumber(name); ok {
		for _, c := range m.chips {
			if slices.Contains(headerChips[:], c.label) {
				return c.header(name, n, transient)
			}
		}
	}
	var found []Found
	for _, c := range m.chips {
		for offset, n := range c.names {
			if n == name {
				found = append(found, Found{Pin: c.pin(offset), Chip: c.label, Glitches: true})
			}
		}
	}
	if len(found) == 1 {
		return found[0], nil
	}
	there := fmt.Sprintf("%d lines have this name; looked for a chip %s, then for the line's name; there are %s",
		len(found), strings.Join(headerChips[:], ", "), m.there())
	return Found{}, noLine(name, there, fmt.Errorf("gpio: no line %s: %s", name, there))
}

// headerNumber reads GPIO17 as 17.
func headerNumber(name string) (int, bool) {
	digits, is := strings.CutPrefix(name, "GPIO")
	n, err := strconv.Atoi(digits)
	return n, is && err == nil && n >= 0 && strconv.Itoa(n) == digits
}

// header is GPIO n of a Pi's chip, where it is line n.
func (c chip) header(name string, n int, transient bool) (Found, error) {
	refuse := func(why string) (Found, error) {
		return Found{}, noLine(name, why, fmt.Errorf("gpio: no line %s: %s", name, why))
	}
	if n > lastHeaderGPIO || n >= len(c.names) {
		return refuse(fmt.Sprintf("the header has GPIO0 to GPIO%d, and chip %s has %d lines", lastHeaderGPIO, c.label, len(c.names)))
	}
	if other, numbered := headerNumber(c.names[n]); numbered && other != n {
		return refuse(fmt.Sprintf("line %d of chip %s is %s, which no known Raspberry Pi has", n, c.label, c.names[n]))
	}
	if c.fast != nil && !transient {
		if p := c.fast(name); p != nil {
			return Found{Pin: p, Chip: c.label}, nil
		}
	}
	return Found{Pin: c.pin(n), Chip: c.label, Glitches: true}, nil
}

// there lists the chips, for errors.
func (m *Machine) there() string {
	var list []string
	for _, c := range m.chips {
		list = append(list, fmt.Sprintf("%s (%d lines)", c.label, len(c.names)))
	}
	if len(list) == 0 {
		return "no chips"
	}
	return strings.Join(list, ", ")
}
