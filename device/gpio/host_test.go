package gpio

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// machine is a Machine as a board's kernel shows it: labels and lines, in any order.
func machine(chips ...chip) *Machine { return &Machine{chips: chips} }

// chipNamed has n lines, which tell their chip and number when asked for their name.
func chipNamed(label string, n int, name func(i int) string) chip {
	c := chip{label: label, pin: func(i int) Pin { return NewFake(fmt.Sprintf("%s/%d", label, i)) }}
	for i := range n {
		c.names = append(c.names, name(i))
	}
	return c
}

func gpioName(i int) string { return fmt.Sprintf("GPIO%d", i) }

func TestHeaderIsFoundByTheChipsLabelOnPi3To5(t *testing.T) {
	unnamed := func(int) string { return "" }
	boards := map[string]*Machine{
		"Pi 3":           machine(chipNamed("raspberrypi-exp-gpio", 8, unnamed), chipNamed("pinctrl-bcm2835", 54, gpioName)),
		"Pi 4":           machine(chipNamed("pinctrl-bcm2711", 58, gpioName), chipNamed("raspberrypi-exp-gpio", 8, unnamed)),
		"Pi 5":           machine(chipNamed("gpio-brcmstb@107d508500", 32, unnamed), chipNamed("pinctrl-rp1", 54, gpioName)),
		"Pi 5, as chip4": machine(chipNamed("gpio-brcmstb@107d508500", 32, gpioName), chipNamed("gpio-brcmstb@107d517c00", 17, unnamed), chipNamed("pinctrl-rp1", 54, unnamed)),
		"old names":      machine(chipNamed("pinctrl-bcm2711", 58, func(i int) string { return []string{"ID_SDA", "ID_SCL", "SDA1", "SCL1", "TXD1"}[i%5] })),
	}
	for name, m := range boards {
		found, err := m.Find("GPIO17", false)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !strings.HasPrefix(found.Chip, "pinctrl-") || found.Pin.Name() != found.Chip+"/17" || !found.Glitches {
			t.Errorf("%s: found %s of %s, glitches %t", name, found.Pin.Name(), found.Chip, found.Glitches)
		}
	}
}

func TestRegistersAreUsedForAllButTheDrawer(t *testing.T) {
	c := chipNamed("pinctrl-bcm2711", 58, gpioName)
	c.fast = func(name string) Pin { return NewFake("fast/" + name) }
	lamp, err := machine(c).Find("GPIO17", false)
	if err != nil || lamp.Glitches || lamp.Pin.Name() != "fast/GPIO17" {
		t.Errorf("lamp: %+v %v", lamp, err)
	}
	// A line that goes through the kernel can be taken back when the program is killed.
	drawer, err := machine(c).Find("GPIO17", true)
	if err != nil || !drawer.Glitches || drawer.Pin.Name() != "pinctrl-bcm2711/17" {
		t.Errorf("drawer: %+v %v", drawer, err)
	}
}

func TestLineIsFoundByItsOwnNameWhenThereIsOne(t *testing.T) {
	m := machine(chipNamed("a", 3, func(i int) string { return []string{"LAMP", "", "X"}[i] }), chipNamed("b", 3, func(i int) string { return []string{"X", "", "DRAWER"}[i] }))
	found, err := m.Find("DRAWER", false)
	if err != nil || found.Pin.Name() != "b/2" {
		t.Errorf("%+v %v", found, err)
	}
	for _, name := range []string{"X", "GPIO17", "", "NONE"} {
		var f *Fault
		if _, err := m.Find(name, false); !errors.As(err, &f) || f.Code != CodeNoLine {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestErrorSaysWhatWasLookedForAndWhatIsThere(t *testing.T) {
	m := machine(chipNamed("INTC1056:00", 360, lineName))
	_, err := m.Find("GPIO17", false)
	for _, want := range []string{"GPIO17", "pinctrl-bcm2835, pinctrl-bcm2711, pinctrl-rp1", "INTC1056:00 (360 lines)"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("does not say %q: %v", want, err)
		}
	}
	pi := machine(chipNamed("pinctrl-rp1", 54, gpioName))
	for _, name := range []string{"GPIO28", "GPIO017", "GPIO-1", "GPIO999999999999999999999", "gpio17", "17"} {
		if found, err := pi.Find(name, false); err == nil {
			t.Errorf("%q is %v", name, found.Pin.Name())
		}
	}
	shifted := machine(chipNamed("pinctrl-rp1", 54, func(i int) string { return gpioName(i + 1) }))
	if _, err := shifted.Find("GPIO17", false); err == nil || !strings.Contains(err.Error(), "line 17 of chip pinctrl-rp1 is GPIO18") {
		t.Error("lines that are numbered otherwise:", err)
	}
}

func lineName(i int) string { return fmt.Sprintf("line%d", i) }

// Through the real library. On a machine with GPIO it only looks.
func TestRealLibraryWithoutGPIO(t *testing.T) {
	chips, err := filepath.Glob("/dev/gpiochip*")
	if err != nil {
		t.Fatal(err)
	}
	if len(chips) > 0 {
		t.Skip("this machine has GPIO: the error of one that has none cannot be tried")
	}
	m := OpenMachine()
	_, err = m.Find("GPIO17", false)
	var f *Fault
	if !errors.As(err, &f) || f.Code != CodeNone {
		t.Fatal("no clear fault:", err)
	}
	for _, want := range []string{"no GPIO", "[gpio]", "everything else works"} {
		if !strings.Contains(f.Technician, want) {
			t.Errorf("the technician is not told %q: %s", want, f.Technician)
		}
	}
	if !strings.Contains(err.Error(), "/dev/gpiochip*") {
		t.Error("does not say what was looked for:", err)
	}
	if again := OpenMachine(); again.fault == nil || again.fault.Code != CodeNone {
		t.Error("a second call differs")
	}
}

// The library's GPIOChip.Close closes descriptor 0 as well; the next file that is opened
// would become standard input. Descriptor 200 stands for it here.
func TestDescriptorThatTheLibraryClosesIsPutBack(t *testing.T) {
	const fd = 200
	kept, other := filepath.Join(t.TempDir(), "kept"), filepath.Join(t.TempDir(), "other")
	must(t, os.WriteFile(kept, nil, 0o600))
	must(t, os.WriteFile(other, nil, 0o600))
	cases := []struct{ before, after, want string }{ // "" is closed
		{kept, "", kept},
		{kept, kept, kept},
		{kept, other, other}, // taken by somebody meanwhile, who needs it
		{"", "", "/dev/null"},
	}
	for _, c := range cases {
		become(t, fd, c.before)
		restore, err := hold(fd)
		if err != nil {
			t.Fatal(err)
		}
		become(t, fd, c.after)
		must(t, restore())
		var got, want unix.Stat_t
		must(t, unix.Fstat(fd, &got))
		must(t, unix.Stat(c.want, &want))
		if got.Ino != want.Ino || got.Dev != want.Dev {
			t.Errorf("%+v: it is another file", c)
		}
		flags, err := unix.FcntlInt(fd, unix.F_GETFD, 0)
		if err != nil || flags&unix.FD_CLOEXEC != 0 {
			t.Errorf("%+v: a child would not get it: %v", c, err)
		}
	}
	become(t, fd, "")
}

// become makes descriptor fd an open file, or closes it.
func become(t *testing.T, fd int, path string) {
	t.Helper()
	if path == "" {
		if err := unix.Close(fd); err != nil && !errors.Is(err, unix.EBADF) {
			t.Fatal(err)
		}
		return
	}
	f, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	must(t, unix.Dup3(f, fd, 0))
	must(t, unix.Close(f))
}
