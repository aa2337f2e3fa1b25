// Package image builds the card that a technician flashes: boot partition, two root slots
// of which one is empty, and the data partition, for each family of boards from one recipe.
// The same recipe makes the bundles that update a slot.
//
// It owns what is in an image and where it lies: the recipe (recipe.go), the layout of the
// card (disk.go), the boot state that U-Boot and Linux share (bootstate.go), which kernel
// modules stay (modules.go), the tree of a slot (tree.go, files/) and the signing of bundles
// (keys.go). It runs Debian's tools and never decides by a script of theirs. It never writes
// a card: firmware/flash does. Start at Builder.Build; docs/image.md tells the whole.
package image

import (
	"fmt"
	"slices"
	"time"
)

// Board is a family of boards that one image runs on.
type Board struct {
	Name       string   // as bundles, the image's manifest and RAUC name it after "grattoir-"
	What       string   // for people
	Console    string   // the kernel's console
	Modules    []string // names of modules, or folders below the kernel's own, that the board needs besides the common ones
	Early      []string // modules that the initramfs loads, in this order, each after what it needs
	Screen     bool     // the kiosk layer is part of its image
	SlotMiB    int64    // of a root slot
	Firmware   bool     // its boot partition holds the Raspberry Pi's firmware and U-Boot
	Bootloader string   // package and file of U-Boot where the emulator loads it itself
}

// Compatible is the board as RAUC compares it.
func (b Board) Compatible() string { return "grattoir-" + b.Name }

// Boards are the families that have an image, by name.
func Boards() []Board {
	return []Board{
		{Name: "pi", What: "Raspberry Pi 3B, 3B+, 4B, Compute Module 4, Zero 2 W", Console: "ttyS1,115200",
			Modules: piModules, Early: piEarly, Screen: true, SlotMiB: 2560, Firmware: true},
		{Name: "virt", What: "QEMU virt, for tests", Console: "ttyAMA0,115200",
			Modules: virtModules, Early: virtEarly, SlotMiB: 640, Bootloader: "u-boot-qemu:/usr/lib/u-boot/qemu_arm64/u-boot.bin"},
	}
}

// FindBoard is the family of that name.
func FindBoard(name string) (Board, error) {
	list := Boards()
	i := slices.IndexFunc(list, func(b Board) bool { return b.Name == name })
	if i < 0 {
		names := make([]string, len(list))
		for i, b := range list {
			names[i] = b.Name
		}
		return Board{}, fmt.Errorf("board %q: there are %v", name, names)
	}
	return list[i], nil
}

// Release is what an image is called and when its clock begins.
type Release struct {
	Version string    // as 1.4.0; update bundles carry it too
	Built   time.Time // the clock epoch: a terminal without a clock starts here, and no file in a slot is younger
}
