package image

import (
	"slices"
	"strings"
	"testing"
)

// A small kernel: dm-verity needs dm-mod, which needs dax; ext4 needs four.
const (
	testDep = `kernel/drivers/md/dm-mod.ko: kernel/drivers/dax/dax.ko
kernel/drivers/md/dm-verity.ko: kernel/drivers/md/dm-mod.ko kernel/drivers/dax/dax.ko
kernel/drivers/dax/dax.ko:
kernel/fs/ext4/ext4.ko: kernel/lib/crc16.ko kernel/fs/mbcache.ko kernel/fs/jbd2/jbd2.ko
kernel/fs/jbd2/jbd2.ko:
kernel/fs/mbcache.ko:
kernel/lib/crc16.ko:
kernel/drivers/usb/serial/usbserial.ko:
kernel/drivers/usb/serial/ftdi_sio.ko: kernel/drivers/usb/serial/usbserial.ko
kernel/drivers/gpu/nouveau.ko:
`
	testBuiltin = "kernel/net/ipv6/ipv6.ko\nkernel/drivers/rtc/rtc-ds1307.ko\n"
)

func testModules(t *testing.T, dep string) Modules {
	t.Helper()
	m, err := ReadModules(strings.NewReader(dep), strings.NewReader(testBuiltin))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestPrunedModulesKeepAllTheyNeed: a module without another one that it needs does not
// load, and nothing says so until a shop has the terminal.
func TestPrunedModulesKeepAllTheyNeed(t *testing.T) {
	m := testModules(t, testDep)
	keep, err := m.Closure([]string{"dm_verity", "ext4", "drivers/usb/serial/", "ipv6", "rtc_ds1307"})
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range keep {
		for _, need := range m.needs[file] {
			if !slices.Contains(keep, need) {
				t.Errorf("%s is kept, and %s is not", file, need)
			}
		}
	}
	if want := "kernel/drivers/dax/dax.ko kernel/drivers/md/dm-mod.ko kernel/drivers/md/dm-verity.ko kernel/drivers/usb/serial/ftdi_sio.ko kernel/drivers/usb/serial/usbserial.ko " +
		"kernel/fs/ext4/ext4.ko kernel/fs/jbd2/jbd2.ko kernel/fs/mbcache.ko kernel/lib/crc16.ko"; strings.Join(keep, " ") != want {
		t.Errorf("kept\n%s\nwant\n%s", strings.Join(keep, " "), want)
	}
}

func TestAModuleThatTheKernelRenamedIsAnError(t *testing.T) {
	m := testModules(t, testDep)
	for _, names := range [][]string{{"ext4", "sdhci_iproc"}, {"drivers/usb/gadget/"}} {
		if keep, err := m.Closure(names); err == nil || !strings.Contains(err.Error(), names[len(names)-1]) {
			t.Errorf("%v: %v, %v: want an error that names it", names, keep, err)
		}
	}
	broken := testModules(t, strings.Replace(testDep, "kernel/drivers/dax/dax.ko:\n", "", 1))
	if keep, err := broken.Closure([]string{"dm_verity"}); err == nil || !strings.Contains(err.Error(), "dax") {
		t.Errorf("a needed file that is not there: %v, %v", keep, err)
	}
}

// TestInitLoadsEachModuleAfterWhatItNeeds: it has no modprobe.
func TestInitLoadsEachModuleAfterWhatItNeeds(t *testing.T) {
	m := testModules(t, testDep)
	order, err := m.Order([]string{"ftdi_sio", "ext4"})
	if err != nil {
		t.Fatal(err)
	}
	if len(order) != 6 {
		t.Fatalf("%d modules in %v: want 6", len(order), order)
	}
	for i, file := range order {
		for _, need := range m.needs[file] {
			if at := slices.Index(order, need); at < 0 || at > i {
				t.Errorf("%s is loaded before %s", file, need)
			}
		}
	}
}

// TestASlotThatLostAModuleIsNotBuilt: depmod itself says nothing.
func TestASlotThatLostAModuleIsNotBuilt(t *testing.T) {
	whole := testModules(t, testDep)
	slot := testModules(t, "kernel/drivers/md/dm-mod.ko: kernel/drivers/dax/dax.ko\nkernel/drivers/dax/dax.ko:\n")
	if err := slot.lacks(whole); err != nil {
		t.Error(err)
	}
	slot = testModules(t, "kernel/drivers/md/dm-mod.ko:\n")
	if err := slot.lacks(whole); err == nil || !strings.Contains(err.Error(), "dm-mod") {
		t.Errorf("dax is gone: %v", err)
	}
}
