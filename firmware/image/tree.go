package image

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// account is a user that the image's own units run as. Its numbers are on the data
// partition of every card, so they never change.
type account struct {
	name   string
	id     int
	home   string
	groups []string
}

var accounts = []account{
	{"grattoir", 990, "/var/lib/grattoir", []string{"dialout", "gpio", "audio"}}, // terminald
	{"kiosk", 991, "/run/grattoir-kiosk", []string{"video", "render", "input"}},
	{"grattoir-update", 993, "/var/lib/grattoir-update", nil}, // the update agent
}

const gpioGroup = 992

// enabled and masked are units of the tree, besides what the packages enable themselves.
var (
	enabled  = []string{"terminald.service", "systemd-networkd.service", "ssh.service"}
	optional = []string{"grattoir-health.service", "grattoir-provision.service", "grattoir-update.service", "grattoir-restart.path", "grattoir-trial.timer"} // where they are in
	masked   = []string{
		"getty@.service", "serial-getty@.service", "console-getty.service", "container-getty@.service", // nobody logs in but by the technician's key
		"apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer", "e2scrub_all.timer", "e2scrub_reap.service", "fstrim.timer",
		"systemd-networkd-wait-online.service", "systemd-machine-id-commit.service", "systemd-pstore.service",
		"wpa_supplicant.service", // the one of wlan0 is enough
	}
	screenUnits = []string{"grattoir-kiosk.service", "grattoir-kiosk-restart.timer"}
)

// tree is a slot's content on this machine's disk.
type tree struct {
	dir   string
	board Board
	sh    shell
}

func (t tree) path(parts ...string) string {
	return filepath.Join(append([]string{t.dir}, parts...)...)
}

// strip takes out what no terminal needs, and what would be the same secret on each of
// them: the packages make host keys when they are installed.
func (t tree) strip() error {
	for _, pattern := range []string{"etc/ssh/ssh_host_*", "var/cache/*", "var/log/*", "var/lib/apt", "var/lib/systemd/*", "boot/*", "usr/share/doc/*/changelog*",
		"etc/apt", "etc/cron*", "etc/init.d", "etc/rc?.d", "etc/rauc/*", "var/lib/dbus/*", "tmp/*", "run/*", "dev/*", "etc/ssh/moduli"} {
		found, err := filepath.Glob(t.path(pattern))
		if err != nil {
			return err
		}
		for _, file := range found {
			if err := os.RemoveAll(file); err != nil {
				return err
			}
		}
	}
	return nil
}

// overlay copies the project's own files into the tree. Their rights follow from where they
// lie, not from this checkout.
func (t tree) overlay(from string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil || d.IsDir() {
			return err
		}
		return t.install(path, rel)
	})
}

// install copies one file: programs may be run, the rest read.
func (t tree) install(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return t.write(to, data)
}

func (t tree) write(to string, data []byte) error {
	mode := fs.FileMode(0o644)
	if strings.HasPrefix(to, "usr/bin/") || strings.HasPrefix(to, "usr/lib/grattoir/grattoir-") {
		mode = 0o755
	}
	if err := os.MkdirAll(filepath.Dir(t.path(to)), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(t.path(to), data, mode); err != nil {
		return err
	}
	return os.Chmod(t.path(to), mode)
}

// own puts in what is the project's: files, units, programs' settings, users.
func (t tree) own(source string, root []byte, provisioning []string) error {
	files := filepath.Join(source, "firmware/image")
	if err := t.overlay(filepath.Join(files, "files")); err != nil {
		return err
	}
	if err := t.parts(files); err != nil {
		return err
	}
	conf, err := os.ReadFile(filepath.Join(files, "files/etc/rauc/system.conf"))
	if err != nil {
		return err
	}
	for to, data := range map[string][]byte{
		"etc/rauc/system.conf": bytes.ReplaceAll(conf, []byte("@COMPATIBLE@"), []byte(t.board.Compatible())),
		"etc/rauc/root.pem":    root, "etc/machine-id": nil, "etc/hostname": []byte("grattoir\n"),
		"etc/hosts": []byte("127.0.0.1 localhost grattoir\n::1 localhost\n"),
	} {
		if err := t.write(to, data); err != nil {
			return err
		}
	}
	for _, key := range provisioning {
		if err := t.install(key, "usr/lib/grattoir/provisioning/"+filepath.Base(key)); err != nil {
			return err
		}
	}
	if err := t.folders(); err != nil {
		return err
	}
	return t.users()
}

// parts puts in what lies in a folder of its own: the kiosk, where the board has a screen,
// and the units of provisioning.
func (t tree) parts(files string) error {
	folders := []string{"provision"}
	if t.board.Screen {
		folders = append(folders, "kiosk")
	}
	for _, folder := range folders {
		found, err := filepath.Glob(filepath.Join(files, folder, "grattoir-*"))
		if err != nil {
			return err
		}
		for _, file := range found {
			to := "usr/lib/grattoir/"
			if strings.Contains(filepath.Base(file), ".") {
				to = "usr/lib/systemd/system/"
			}
			if err := t.install(file, to+filepath.Base(file)); err != nil {
				return err
			}
		}
	}
	return nil
}

// agent puts in the update agent's units and the keys that it believes. Where there are no
// keys it could install nothing, and the image has its own gate instead.
func (t tree) agent(source string, keys []string) error {
	if len(keys) == 0 {
		return nil
	}
	units := filepath.Join(source, "firmware/update/units")
	found, err := os.ReadDir(units)
	if err != nil {
		return fmt.Errorf("the update agent's units: %w", err)
	}
	for _, unit := range found {
		to := "usr/lib/systemd/system/" + unit.Name()
		switch unit.Name() {
		case "grattoir-update-dbus.conf":
			to = "usr/share/dbus-1/system.d/grattoir-update.conf"
		case "rauc-idle.conf":
			to = "usr/lib/systemd/system/rauc.service.d/grattoir.conf"
		}
		if err := t.install(filepath.Join(units, unit.Name()), to); err != nil {
			return err
		}
	}
	for _, key := range keys {
		if err := t.install(key, "usr/lib/grattoir/update-keys/"+filepath.Base(key)); err != nil {
			return err
		}
	}
	// The agent judges a start by itself, and raises its floor by that: nobody may mark
	// a slot good before it.
	return os.Remove(t.path("usr/lib/systemd/system/grattoir-health.service"))
}

// folders makes the places on which the data partition and the memory are mounted.
func (t tree) folders() error {
	for _, dir := range []string{"data", "etc/grattoir", "etc/systemd/network", "etc/wpa_supplicant", "var/lib/grattoir", "var/lib/grattoir-update", "var/lib/rauc", "var/lib/systemd", "var/tmp", "var/log", "root", "proc", "sys", "dev", "run", "tmp", "boot", "usr/lib/grattoir/provisioning"} {
		if err := os.MkdirAll(t.path(dir), 0o755); err != nil {
			return err
		}
	}
	link := t.path("var/lib/dbus/machine-id")
	return errors.Join(os.MkdirAll(filepath.Dir(link), 0o755), os.Symlink("/etc/machine-id", link))
}

// users adds the accounts, which have no password and no shell.
func (t tree) users() error {
	passwd, group, shadow := "", fmt.Sprintf("gpio:x:%d:grattoir\n", gpioGroup), ""
	for _, a := range accounts {
		passwd += fmt.Sprintf("%s:x:%d:%d::%s:/usr/sbin/nologin\n", a.name, a.id, a.id, a.home)
		group += fmt.Sprintf("%s:x:%d:\n", a.name, a.id)
		shadow += fmt.Sprintf("%s:!*:%d::::::\n", a.name, baseEpoch/86400)
	}
	for file, lines := range map[string]string{"etc/passwd": passwd, "etc/group": group, "etc/shadow": shadow} {
		old, err := os.ReadFile(t.path(file))
		if err != nil {
			return err
		}
		text := string(old)
		if file == "etc/group" {
			text = joinGroups(text)
		}
		if err := os.WriteFile(t.path(file), []byte(text+lines), 0o644); err != nil {
			return err
		}
	}
	for _, leftover := range []string{"etc/passwd-", "etc/group-", "etc/shadow-", "etc/gshadow-", "etc/gshadow"} {
		if err := os.RemoveAll(t.path(leftover)); err != nil {
			return err
		}
	}
	return os.Chmod(t.path("etc/shadow"), 0o640)
}

// joinGroups adds the accounts to the groups that are there already.
func joinGroups(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for i, line := range lines {
		name, _, _ := strings.Cut(line, ":")
		for _, a := range accounts {
			if !slices.Contains(a.groups, name) {
				continue
			}
			if !strings.HasSuffix(lines[i], ":") {
				lines[i] += ","
			}
			lines[i] += a.name
		}
	}
	return strings.Join(lines, "\n") + "\n"
}

// units enables and masks, by the host's systemctl, which needs nothing of the tree's.
func (t tree) units(ctx context.Context) error {
	on := slices.Clone(enabled)
	if t.board.Screen {
		on = append(on, screenUnits...)
		if err := t.sh.run(ctx, "systemctl", "--root="+t.dir, "set-default", "graphical.target"); err != nil {
			return err
		}
	}
	for _, also := range optional {
		if _, err := os.Stat(t.path("usr/lib/systemd/system", also)); err == nil {
			on = append(on, also)
		}
	}
	if err := t.sh.run(ctx, "systemctl", append([]string{"--root=" + t.dir, "enable"}, on...)...); err != nil {
		return err
	}
	return t.sh.run(ctx, "systemctl", append([]string{"--root=" + t.dir, "mask"}, masked...)...)
}

// kernel puts the kernel, the modules that stay, and the initramfs into the tree.
func (t tree) kernel(ctx context.Context, unpacked, init string) error {
	found, err := filepath.Glob(filepath.Join(unpacked, "lib/modules/*"))
	if err != nil || len(found) != 1 {
		return errors.Join(err, fmt.Errorf("%s: %d kernels: want one", unpacked, len(found)))
	}
	version := filepath.Base(found[0])
	if err := t.sh.run(ctx, "depmod", "-b", unpacked, version); err != nil {
		return err
	}
	index, err := readIndex(found[0])
	if err != nil {
		return err
	}
	keep, err := index.Closure(append(append([]string{}, commonModules...), t.board.Modules...))
	if err != nil {
		return err
	}
	for _, file := range append(keep, "modules.builtin", "modules.builtin.modinfo", "modules.order") {
		if err := t.install(filepath.Join(found[0], file), filepath.Join("usr/lib/modules", version, file)); err != nil {
			return err
		}
	}
	if err := t.sh.run(ctx, "depmod", "-b", t.dir, version); err != nil {
		return err
	}
	left, err := readIndex(t.path("usr/lib/modules", version))
	if err != nil {
		return err
	}
	if err := left.lacks(index); err != nil {
		return err
	}
	if err := t.install(filepath.Join(unpacked, "boot/vmlinuz-"+version), "boot/Image"); err != nil {
		return err
	}
	early, err := index.Order(t.board.Early)
	if err != nil {
		return err
	}
	ramdisk, err := initramfs(init, found[0], early)
	if err != nil {
		return err
	}
	return t.write("boot/initrd", ramdisk)
}

func readIndex(dir string) (Modules, error) {
	dep, err := os.Open(filepath.Join(dir, "modules.dep"))
	if err != nil {
		return Modules{}, err
	}
	defer dep.Close()
	builtin, err := os.Open(filepath.Join(dir, "modules.builtin"))
	if err != nil {
		return Modules{}, err
	}
	defer builtin.Close()
	return ReadModules(dep, builtin)
}

// initramfs is the first program, the modules it loads and their order.
func initramfs(init, modules string, early []string) ([]byte, error) {
	var packed bytes.Buffer
	zip, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	a := newArchive(zip)
	program, err := os.ReadFile(init)
	if err != nil {
		return nil, err
	}
	a.file("init", 0o755, program)
	a.device("dev/console", 5, 1)
	for _, dir := range []string{"proc", "sys", "root", "lib"} {
		a.folder(dir)
	}
	list := ""
	for i, file := range early {
		data, err := os.ReadFile(filepath.Join(modules, file))
		if err != nil {
			return nil, err
		}
		name := fmt.Sprintf("lib/%02d-%s", i, filepath.Base(file))
		a.file(name, 0o644, data)
		list += "/" + name + "\n"
	}
	a.file("modules", 0o644, []byte(list))
	err = errors.Join(a.end(), zip.Close()) // before the bytes are taken
	return packed.Bytes(), err
}
