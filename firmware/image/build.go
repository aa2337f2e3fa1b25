package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/sys/unix"

	"grattoir/firmware/flash"
)

// Builder builds images. The fields say where from and where to; none of them gets into an
// image but the certificate of the root, the provisioning keys and the programs.
type Builder struct {
	Source   string        // the checkout
	Cache    string        // of packages, bases and kernels: what a second build does not make again
	Out      string        // folder of what is built
	Programs string        // folder of terminald and terminalctl for arm64, linked statically
	Init     string        // the initramfs's first program, likewise
	Mirror   string        // of Debian, as http://deb.debian.org
	Signing  Signing       // of bundles
	By       []note.Signer // of the image's manifest; none writes no signed image, only the raw one
	Provided []string      // files of public keys that may provision a terminal
	Updaters []string      // files of public keys that may release updates; none leaves the update agent out
	Pinned   bool          // packages other than those of the release's list are an error
	Log      io.Writer     // what the tools say
	Tell     func(string)  // one line for each step, for people
}

// Built is what came of a build.
type Built struct {
	Board   string `json:"board"`
	Version string `json:"version"`
	Raw     string `json:"raw"`    // the card, byte for byte
	Image   string `json:"image"`  // compressed and signed, for terminalctl flash; "" where nobody signs
	Bundle  string `json:"bundle"` // the update of a terminal; "" where nobody signs
	Root    string `json:"root"`   // the slot's file system
	SHA256  string `json:"sha256"` // of the slot's file system
}

// Change is what one build has that the recipe does not: for tests, which need slots that fail.
type Change struct {
	Files map[string][]byte // by their path in the slot
}

// Build makes the image and the bundle of one board.
func (b Builder) Build(ctx context.Context, board Board, release Release, change Change) (Built, error) {
	out := filepath.Join(b.Out, board.FileName()+"-"+release.Version)
	if os.Getuid() != 0 {
		return Built{}, errors.New("an image is built by root: files in it belong to several users")
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return Built{}, err
	}
	built := Built{Board: board.Name, Version: release.Version, Raw: out + ".img", Root: filepath.Join(out, "root.ext4")}
	t := tree{dir: filepath.Join(out, "tree"), board: board, sh: b.shell(release)}
	defer os.RemoveAll(t.dir)
	if err := b.slot(ctx, t, release, change, built.Root); err != nil {
		return Built{}, err
	}
	var err error
	if built.SHA256, err = hashFile(built.Root); err != nil {
		return Built{}, err
	}
	boot, data := filepath.Join(out, "boot.fat"), filepath.Join(out, "data.ext4")
	if err := b.bootPartition(ctx, t, release, boot); err != nil {
		return Built{}, err
	}
	if err := b.dataPartition(ctx, t, data); err != nil {
		return Built{}, err
	}
	b.Tell("card: " + built.Raw)
	if err := writeDisk(built.Raw, board, boot, built.Root, data); err != nil {
		return Built{}, err
	}
	if err := b.sign(ctx, board, release, &built); err != nil {
		return Built{}, err
	}
	return built, nil
}

// Update makes only the slot and the bundle of one board.
func (b Builder) Update(ctx context.Context, board Board, release Release, change Change) (Built, error) {
	out := filepath.Join(b.Out, board.FileName()+"-"+release.Version)
	if err := os.MkdirAll(out, 0o755); err != nil {
		return Built{}, err
	}
	built := Built{Board: board.Name, Version: release.Version, Root: filepath.Join(out, "root.ext4")}
	t := tree{dir: filepath.Join(out, "tree"), board: board, sh: b.shell(release)}
	defer os.RemoveAll(t.dir)
	if err := b.slot(ctx, t, release, change, built.Root); err != nil {
		return Built{}, err
	}
	b.By = nil // there is no card to sign
	return built, b.sign(ctx, board, release, &built)
}

func (b Builder) shell(release Release) shell {
	epoch := strconv.FormatInt(release.Built.Unix(), 10)
	return shell{log: b.Log, env: []string{"SOURCE_DATE_EPOCH=" + epoch, "E2FSPROGS_FAKE_TIME=" + epoch, "MTOOLS_SKIP_CHECK=1"}}
}

// slot makes a root slot: base, own files, kernel, and one file system of it.
func (b Builder) slot(ctx context.Context, t tree, release Release, change Change, file string) error {
	base, err := b.base(ctx, t.board)
	if err != nil {
		return err
	}
	b.Tell("slot: " + t.board.Name + " " + release.Version)
	if err := errors.Join(os.RemoveAll(t.dir), os.MkdirAll(t.dir, 0o755)); err != nil {
		return err
	}
	if err := t.sh.run(ctx, "tar", "-C", t.dir, "--numeric-owner", "-xf", base); err != nil {
		return err
	}
	root, err := os.ReadFile(b.Signing.Root)
	if err != nil {
		return fmt.Errorf("certificate of the root that bundles are signed under: %w", err)
	}
	kernel, err := b.unpacked(ctx, t.board)
	if err != nil {
		return err
	}
	if err := t.strip(); err != nil {
		return err
	}
	if err := t.own(b.Source, root, b.Provided); err != nil {
		return err
	}
	if err := t.agent(b.Source, b.Updaters); err != nil {
		return err
	}
	if err := t.kernel(ctx, kernel, b.Init); err != nil {
		return err
	}
	if t.board.Firmware {
		if err := t.sh.run(ctx, "cp", "-a", filepath.Join(kernel, "lib/firmware"), t.path("usr/lib/")); err != nil {
			return err
		}
	}
	for _, program := range []string{"terminald", "terminalctl"} {
		if err := t.install(filepath.Join(b.Programs, program), "usr/bin/"+program); err != nil {
			return err
		}
	}
	if err := t.units(ctx); err != nil {
		return err
	}
	for name, data := range change.Files {
		if err := t.write(name, data); err != nil {
			return err
		}
	}
	if err := t.release(release); err != nil {
		return err
	}
	return t.fileSystem(ctx, "root", file, t.board.SlotMiB, t.dir, release.Built.Unix())
}

// release says what the slot is, sets the clock's beginning, and makes no file younger.
func (t tree) release(r Release) error {
	text := fmt.Sprintf("version=%s\nboard=%s\nbuilt=%s\n", r.Version, t.board.Name, r.Built.UTC().Format(time.RFC3339))
	if err := t.write("usr/lib/grattoir/release", []byte(text)); err != nil {
		return err
	}
	if err := t.write("usr/lib/clock-epoch", nil); err != nil { // systemd sets the clock no earlier than this file's date
		return err
	}
	return filepath.WalkDir(t.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		own := strings.HasSuffix(path, "/usr/lib/clock-epoch")
		if err != nil || !own && info.ModTime().Before(r.Built) && info.ModTime().Nanosecond() == 0 {
			return err
		}
		at := unix.NsecToTimespec(r.Built.UnixNano())
		return unix.UtimesNanoAt(unix.AT_FDCWD, path, []unix.Timespec{at, at}, unix.AT_SYMLINK_NOFOLLOW)
	})
}

// identifiers of the file systems: fixed, since two builds must be the same bytes.
var identifiers = map[string]string{"root": "67726174-746f-4972-8000-000000000001", "data": "67726174-746f-4972-8000-000000000002"}

// fileSystem makes an ext4 of a folder. U-Boot 2023.01 reads the kernel from it, and knows
// neither checksums of metadata nor 64 bits.
func (t tree) fileSystem(ctx context.Context, label, file string, sizeMiB int64, from string, epoch int64) error {
	if err := os.RemoveAll(file); err != nil {
		return err
	}
	id := identifiers[label]
	at := time.Unix(epoch, 0).UTC().Format("2006-01-02 15:04:05")
	err := t.sh.run(ctx, "faketime", "-f", at, "mke2fs", "-q", "-F", "-t", "ext4", "-O", "^metadata_csum,^64bit,^orphan_file", "-m", "0", "-L", label, "-U", id,
		"-E", "hash_seed="+id+",root_owner=0:0,lazy_itable_init=0,lazy_journal_init=0", "-d", from, file, strconv.FormatInt(sizeMiB, 10)+"M")
	if err != nil {
		return err
	}
	return t.sameInodes(ctx, file, epoch)
}

// sameInodes gives every inode the times and the generation that do not depend on the hour:
// mke2fs 1.47.0 takes them from the clock and from a random source.
func (t tree) sameInodes(ctx context.Context, file string, epoch int64) error {
	head, err := t.sh.output(ctx, "dumpe2fs", "-h", file)
	if err != nil {
		return err
	}
	count, free := field(head, "Inode count:"), field(head, "Free inodes:")
	if count <= free {
		return fmt.Errorf("%s: %d inodes, %d free", file, count, free)
	}
	used, err := t.usedInodes(ctx, file, count)
	if err != nil {
		return err
	}
	var script strings.Builder
	for _, inode := range used {
		for _, name := range []string{"atime", "ctime", "crtime"} {
			fmt.Fprintf(&script, "sif <%d> %s @%d\n", inode, name, epoch)
		}
		for _, name := range []string{"generation", "atime_extra", "ctime_extra", "mtime_extra", "crtime_extra"} {
			fmt.Fprintf(&script, "sif <%d> %s 0\n", inode, name)
		}
	}
	commands := file + ".debugfs"
	defer os.Remove(commands)
	if err := os.WriteFile(commands, []byte(script.String()), 0o600); err != nil {
		return err
	}
	quiet := t.sh
	quiet.log = io.Discard // it repeats each command
	return quiet.run(ctx, "debugfs", "-w", "-f", commands, file)
}

// usedInodes reads the numbers that are taken from what dumpe2fs says is free.
func (t tree) usedInodes(ctx context.Context, file string, count int64) ([]int64, error) {
	text, err := t.sh.with().output(ctx, "dumpe2fs", file)
	if err != nil {
		return nil, err
	}
	free := make([]bool, count+1)
	for line := range strings.Lines(text) {
		list, is := strings.CutPrefix(strings.TrimSpace(line), "Free inodes: ")
		if !is {
			continue
		}
		for part := range strings.SplitSeq(list, ", ") {
			first, last, ranged := strings.Cut(strings.TrimSpace(part), "-")
			from, err := strconv.ParseInt(first, 10, 64)
			if err != nil {
				continue // the count in the head, or none
			}
			to := from
			if ranged {
				if to, err = strconv.ParseInt(last, 10, 64); err != nil {
					return nil, fmt.Errorf("dumpe2fs: %q: %w", part, err)
				}
			}
			for i := from; i <= min(to, count); i++ {
				free[i] = true
			}
		}
	}
	var used []int64
	for i := int64(2); i <= count; i++ {
		if !free[i] && (i == 2 || i == 8 || i >= 11) {
			used = append(used, i)
		}
	}
	return used, nil
}

func field(text, name string) int64 {
	_, after, _ := strings.Cut(text, name)
	line, _, _ := strings.Cut(after, "\n")
	n, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// bootPartition makes the FAT partition: U-Boot's script, and on a Raspberry Pi its
// firmware, the device trees and U-Boot.
func (b Builder) bootPartition(ctx context.Context, t tree, release Release, file string) error {
	folder := file + ".d"
	defer os.RemoveAll(folder)
	if err := errors.Join(os.RemoveAll(folder), os.MkdirAll(folder, 0o755)); err != nil {
		return err
	}
	script, err := os.ReadFile(filepath.Join(b.Source, "firmware/image/boot/boot.cmd"))
	if err != nil {
		return err
	}
	plain := filepath.Join(folder, "boot.cmd")
	if err := os.WriteFile(plain, []byte(strings.ReplaceAll(string(script), "@CONSOLE@", t.board.Console)), 0o644); err != nil {
		return err
	}
	if err := t.sh.run(ctx, "mkimage", "-q", "-A", "arm64", "-T", "script", "-C", "none", "-n", "grattoir", "-d", plain, filepath.Join(folder, "boot.scr")); err != nil {
		return err
	}
	if t.board.Firmware {
		if err := b.piFirmware(ctx, t, folder); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(file); err != nil {
		return err
	}
	at := release.Built.UTC().Format("2006-01-02 15:04:05")
	if err := t.sh.run(ctx, "mkfs.vfat", "--invariant", "-n", "GRATTOIR", "-i", "47525401", "-S", "512", "-C", file, strconv.Itoa(bootSize/1024)); err != nil {
		return err
	}
	names, err := filepath.Glob(filepath.Join(folder, "*"))
	if err != nil {
		return err
	}
	return t.sh.run(ctx, "faketime", append([]string{"-f", at, "mcopy", "-s", "-i", file}, append(names, "::/")...)...)
}

func (b Builder) piFirmware(ctx context.Context, t tree, folder string) error {
	unpacked, err := b.unpacked(ctx, t.board)
	if err != nil {
		return err
	}
	var from []string
	for _, pattern := range []string{"usr/lib/raspi-firmware/bootcode.bin", "usr/lib/raspi-firmware/start*.elf", "usr/lib/raspi-firmware/fixup*.dat",
		"usr/lib/u-boot/rpi_arm64/u-boot.bin", "usr/lib/linux-image-*/broadcom/bcm2711-rpi-4-b.dtb", "usr/lib/linux-image-*/broadcom/bcm2711-rpi-cm4-io.dtb",
		"usr/lib/linux-image-*/broadcom/bcm2837-rpi-3-b.dtb", "usr/lib/linux-image-*/broadcom/bcm2837-rpi-3-b-plus.dtb", "usr/lib/linux-image-*/broadcom/bcm2837-rpi-zero-2-w.dtb"} {
		found, err := filepath.Glob(filepath.Join(unpacked, pattern))
		if err != nil || len(found) == 0 {
			return errors.Join(err, fmt.Errorf("%s: not in the packages of the Raspberry Pi", pattern))
		}
		from = append(from, found...)
	}
	from = append(from, filepath.Join(b.Source, "firmware/image/boot/config.txt"))
	return t.sh.run(ctx, "cp", append(from, folder+"/")...)
}

// dataPartition makes the empty data partition: the folders that the slot mounts over its own.
func (b Builder) dataPartition(ctx context.Context, t tree, file string) error {
	folder := file + ".d"
	defer os.RemoveAll(folder)
	if err := os.RemoveAll(folder); err != nil {
		return err
	}
	for _, dir := range []string{"etc/grattoir", "etc/network", "etc/wpa_supplicant", "lib/grattoir", "lib/rauc", "lib/systemd", "lib/ssh", "lib/grattoir-update"} {
		if err := os.MkdirAll(filepath.Join(folder, dir), 0o755); err != nil {
			return err
		}
	}
	own := filepath.Join(folder, "lib/grattoir")
	agent := filepath.Join(folder, "lib/grattoir-update")
	err := errors.Join(os.Chown(own, accounts[0].id, accounts[0].id), os.Chmod(own, 0o750), os.Chown(agent, accounts[2].id, accounts[2].id),
		os.Chmod(filepath.Join(folder, "etc/wpa_supplicant"), 0o700), os.Chmod(filepath.Join(folder, "lib/ssh"), 0o700))
	if err != nil {
		return err
	}
	at := time.Unix(baseEpoch, 0)
	if err := filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Chtimes(path, at, at))
	}); err != nil {
		return err
	}
	return t.fileSystem(ctx, "data", file, DataMiB, folder, baseEpoch)
}

// sign packs and signs the card's image, and makes the bundle of the slot.
func (b Builder) sign(ctx context.Context, board Board, release Release, built *Built) error {
	if len(b.By) > 0 {
		raw, err := os.Open(built.Raw)
		if err != nil {
			return err
		}
		defer raw.Close()
		b.Tell("image: compressing and signing")
		built.Image, _, err = flash.Pack(ctx, raw, b.Out, flash.Release{Name: board.FileName(), Version: release.Version, Board: board.Compatible(), Built: release.Built}, b.By...)
		if err != nil {
			return err
		}
	}
	if b.Signing.Key == "" {
		return nil
	}
	built.Bundle = filepath.Join(b.Out, board.FileName()+"-"+release.Version+".raucb")
	return b.Bundle(ctx, board.Compatible(), release, built.Root, built.Bundle)
}

// Bundle signs a slot's file system as an update, in RAUC's verity format: a terminal
// checks each block when it reads it.
func (b Builder) Bundle(ctx context.Context, compatible string, release Release, root, bundle string) error {
	folder := bundle + ".d"
	defer os.RemoveAll(folder)
	if err := errors.Join(os.RemoveAll(folder), os.RemoveAll(bundle), os.MkdirAll(folder, 0o755)); err != nil {
		return err
	}
	b.Tell("bundle: " + bundle)
	sh := b.shell(release)
	if err := sh.run(ctx, "cp", "--reflink=auto", "--sparse=always", root, filepath.Join(folder, "root.ext4")); err != nil {
		return err
	}
	manifest := fmt.Sprintf("[update]\ncompatible=%s\nversion=%s\nbuild=%s\n\n[bundle]\nformat=verity\n\n[image.rootfs]\nfilename=root.ext4\n",
		compatible, release.Version, release.Built.UTC().Format(time.RFC3339))
	config := bundle + ".conf"
	defer os.Remove(config)
	// RAUC asks for the purpose of the leaf on this side, too.
	err := errors.Join(os.WriteFile(filepath.Join(folder, "manifest.raucm"), []byte(manifest), 0o644),
		os.WriteFile(config, []byte("[system]\ncompatible="+compatible+"\nbootloader=noop\n\n[keyring]\npath="+b.Signing.Root+"\ncheck-purpose=codesign\n"), 0o644))
	if err != nil {
		return err
	}
	return sh.run(ctx, "rauc", "--conf="+config, "--cert="+b.Signing.Cert, "--key="+b.Signing.Key, "--keyring="+b.Signing.Root,
		"--mksquashfs-args=-comp zstd -Xcompression-level 6 -processors 2", "bundle", folder, bundle)
}

func hashFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
