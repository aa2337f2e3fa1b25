package image

import (
	"bufio"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
)

// Which modules stay, by name, or by a folder below the kernel's own that ends in a slash.
// What they need stays with them: see Closure.
var (
	commonModules = []string{
		"ext4", "vfat", "nls_ascii", "nls_cp437", "nls_utf8", "crc32c_generic", "autofs4",
		"loop", "squashfs", "dm_mod", "dm_verity", "sha256_arm64", "sha2_ce", // bundles are mounted, and verified block by block
		"usbserial", "cdc_acm", "drivers/usb/serial/", // scanners and printers
		"usb_storage", "uas", "sd_mod", "usbhid", "hid_generic", "evdev",
		"xhci_pci", "xhci_plat_hcd",
	}
	piModules = []string{
		"sdhci_iproc", "bcm2835", "fixed", "gpio_regulator", // the card
		"dwc2", "phy_generic", "pcie_brcmstb", "reset_raspberrypi", // USB
		"smsc95xx", "lan78xx", "microchip", "genet", "mdio_bcm_unimac", "broadcom", "bcm7xxx", // Ethernet
		"brcmfmac", // Wi-Fi
		"bcm2835_wdt", "raspberrypi_cpufreq", "bcm2835_thermal", "bcm2711_thermal", "bcm2835_rng", "iproc_rng200",
		"vc4", "v3d", "panel_raspberrypi_touchscreen", "edt_ft5x06", "goodix_ts", "hid_multitouch", "snd_bcm2835", // screen and sound
		"i2c_bcm2835", "spi_bcm2835", "pwm_bcm2835", "leds_gpio", "rtc_ds1307",
	}
	virtModules = []string{"virtio_pci", "virtio_mmio", "virtio_blk", "virtio_net", "virtio_rng", "virtio_gpu", "i6300esb",
		"sdhci_iproc", "bcm2835", "dwc2", "phy_generic"} // the latter three let the same slot start on the emulated raspi3b

	piEarly   = []string{"sdhci_iproc", "bcm2835", "fixed", "gpio_regulator", "crc32c_generic", "ext4"}
	virtEarly = []string{"virtio_mmio", "virtio_pci", "virtio_blk", "sdhci_iproc", "bcm2835", "crc32c_generic", "ext4"}
)

// Modules is what a kernel's own index says of its modules.
type Modules struct {
	needs   map[string][]string // path below the kernel's folder -> paths of what it needs
	paths   map[string]string   // name -> path
	builtin map[string]bool     // names that are part of the kernel
}

// moduleName is how the kernel calls a module: no folder, no ending, no dash.
func moduleName(file string) string {
	name, _, _ := strings.Cut(path.Base(file), ".ko")
	return strings.ReplaceAll(name, "-", "_")
}

// ReadModules reads modules.dep and modules.builtin, as depmod and the kernel's package
// write them.
func ReadModules(dep, builtin io.Reader) (Modules, error) {
	m := Modules{needs: map[string][]string{}, paths: map[string]string{}, builtin: map[string]bool{}}
	lines := bufio.NewScanner(dep)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		file, needs, found := strings.Cut(lines.Text(), ":")
		if !found {
			return Modules{}, fmt.Errorf("modules.dep: %q: want FILE: FILES", lines.Text())
		}
		m.needs[file] = strings.Fields(needs)
		m.paths[moduleName(file)] = file
	}
	if err := lines.Err(); err != nil {
		return Modules{}, fmt.Errorf("modules.dep: %w", err)
	}
	lines = bufio.NewScanner(builtin)
	for lines.Scan() {
		m.builtin[moduleName(lines.Text())] = true
	}
	if err := lines.Err(); err != nil {
		return Modules{}, fmt.Errorf("modules.builtin: %w", err)
	}
	return m, nil
}

// Closure is the files of the named modules and of everything that they need, in order. A
// name that neither is a module nor part of the kernel is an error: a newer kernel renamed
// it, and the device behind it would be dead.
func (m Modules) Closure(names []string) ([]string, error) {
	keep := map[string]bool{}
	var unknown []string
	for _, name := range names {
		roots := m.roots(name)
		if len(roots) == 0 && !m.builtin[name] {
			unknown = append(unknown, name)
		}
		for _, root := range roots {
			if err := m.take(root, keep); err != nil {
				return nil, err
			}
		}
	}
	if len(unknown) > 0 {
		return nil, fmt.Errorf("kernel modules %v: not in this kernel: it names them otherwise, or has them no more", unknown)
	}
	list := make([]string, 0, len(keep))
	for file := range keep {
		list = append(list, file)
	}
	slices.Sort(list)
	return list, nil
}

func (m Modules) roots(name string) (list []string) {
	if !strings.HasSuffix(name, "/") {
		if file, is := m.paths[name]; is {
			return []string{file}
		}
		return nil
	}
	for file := range m.needs {
		if strings.HasPrefix(file, "kernel/"+name) {
			list = append(list, file)
		}
	}
	return list
}

func (m Modules) take(file string, keep map[string]bool) error {
	if keep[file] {
		return nil
	}
	needs, is := m.needs[file]
	if !is {
		return fmt.Errorf("kernel module %s is needed and not there", file)
	}
	keep[file] = true
	for _, need := range needs {
		if err := m.take(need, keep); err != nil {
			return err
		}
	}
	return nil
}

// Order is the files of the named modules and of what they need, each after what it needs:
// the order in which an initramfs that has no modprobe loads them.
func (m Modules) Order(names []string) ([]string, error) {
	var list []string
	var visit func(file string)
	visit = func(file string) {
		if slices.Contains(list, file) {
			return
		}
		for _, need := range m.needs[file] {
			visit(need)
		}
		list = append(list, file)
	}
	if _, err := m.Closure(names); err != nil {
		return nil, err
	}
	for _, name := range names {
		for _, root := range m.roots(name) {
			visit(root)
		}
	}
	return list, nil
}

// lacks holds what depmod found in a slot against the whole kernel: a module that needs
// fewer others than before has lost one.
func (m Modules) lacks(whole Modules) error {
	for file, needs := range m.needs {
		if len(needs) != len(whole.needs[file]) {
			return fmt.Errorf("kernel module %s: of %v only %v came into the slot", file, whole.needs[file], needs)
		}
	}
	return nil
}
