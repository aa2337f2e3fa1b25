package image

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// Suite is the release of Debian that everything comes from.
const Suite = "bookworm"

// What is installed beside mmdebstrap's smallest set, by layer. ModemManager and brltty
// must never be among it: both open serial adapters that they take for their own, which a
// test forbids.
var (
	basePackages = []string{
		"systemd", "systemd-sysv", "systemd-resolved", "systemd-timesyncd", "udev", "dbus", "kmod",
		"rauc", "rauc-service", "libubootenv-tool", "e2fsprogs",
		"openssh-server", "iproute2", "netbase", "wpasupplicant", "alsa-utils",
	}
	screenPackages = []string{"cage", "xwayland", "cog", "chromium", "libpam-systemd", "libgl1-mesa-dri", "fonts-dejavu-core"}
	forbidden      = []string{"modemmanager", "brltty", "chrony", "ntp", "sudo", "telnetd"}
)

// kernelMeta names the kernel; piPackages are unpacked beside it. None of them is
// installed: their scripts would make an initramfs under emulation, which takes minutes,
// and ours is another one anyway.
const kernelMeta = "linux-image-arm64"

var piPackages = []string{"u-boot-rpi", "raspi-firmware", "firmware-brcm80211"}

// leftOut are folders of packages that no terminal reads.
var leftOut = []string{"/usr/share/doc/*", "/usr/share/man/*", "/usr/share/info/*", "/usr/share/locale/*", "/usr/share/lintian/*"}

// sources are where packages come from: the release, its updates, and those for security.
func sources(mirror string) []string {
	const parts = " main non-free-firmware"
	return []string{
		"deb " + mirror + "/debian " + Suite + parts,
		"deb " + mirror + "/debian " + Suite + "-updates" + parts,
		"deb " + mirror + "/debian-security " + Suite + "-security" + parts,
	}
}

// Packages are those of a board's base, without what they bring along.
func (b Board) Packages() []string {
	if b.Screen {
		return append(append([]string{}, basePackages...), screenPackages...)
	}
	return basePackages
}

// Layer is what a board's base is called: boards of one layer share it.
func (b Board) Layer() string {
	if b.Screen {
		return "screen"
	}
	return "plain"
}

// recipeKey changes with whatever changes a base.
func (b Board) recipeKey(mirror string) string {
	sum := sha256.Sum256(fmt.Append(nil, Suite, sources(mirror), b.Packages(), leftOut, baseEpoch))
	return hex.EncodeToString(sum[:6])
}

// baseEpoch is the time of what the base's installation makes, 2026-11-01: a base does not
// change because the release does.
const baseEpoch = 1793491200

// FileName is what an image's files are called, before its version.
func (b Board) FileName() string { return "grattoir-" + strings.ToLower(b.Name) }
