package image

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Package is one Debian package that is in an image.
type Package struct {
	Name, Version, Arch, SHA256 string
}

func (p Package) String() string { return p.Name + " " + p.Version + " " + p.Arch + " " + p.SHA256 }

const tries = 3 // of what a half-updated mirror can spoil

// retry does it again after a while, for a mirror that is being updated.
func (b Builder) retry(ctx context.Context, what string, do func() error) error {
	for try := 1; ; try++ {
		err := do()
		if err == nil || try == tries || ctx.Err() != nil {
			return err
		}
		b.Tell(fmt.Sprintf("%s: try %d of %d failed: %v", what, try, tries, lastLines(err.Error(), 1)))
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Duration(try) * 5 * time.Second):
		}
	}
}

// base is the tar of a board's installed packages, made when the cache has none of this recipe.
func (b Builder) base(ctx context.Context, board Board) (string, error) {
	tar := filepath.Join(b.Cache, "base-"+board.Layer()+"-"+board.recipeKey(b.Mirror)+".tar")
	if _, err := os.Stat(tar); err == nil {
		return tar, b.comparePackages(board, tar+".packages")
	}
	apt, err := b.apt(ctx)
	if err != nil {
		return "", err
	}
	if err := foreignPrograms(); err != nil {
		return "", err
	}
	b.Tell("base: installing Debian " + Suite + " for arm64 under emulation (" + board.Layer() + "), which takes some minutes once")
	args := []string{"--mode=root", "--architectures=arm64", "--variant=minbase", "--skip=check/qemu",
		"--aptopt=Acquire::Retries \"5\"", "--aptopt=Apt::Install-Recommends \"false\"", "--aptopt=Acquire::Languages \"none\"",
		"--include=" + strings.Join(board.Packages(), ",")}
	for _, pattern := range leftOut {
		args = append(args, "--dpkgopt=path-exclude="+pattern)
	}
	args = append(args, "--dpkgopt=path-include=/usr/share/doc/*/copyright", Suite, tar+".new.tar")
	args = append(args, sources(b.Mirror)...)
	sh := shell{log: b.Log, env: []string{fmt.Sprintf("SOURCE_DATE_EPOCH=%d", baseEpoch)}}
	if err := b.retry(ctx, "base", func() error { return sh.run(ctx, "mmdebstrap", args...) }); err != nil {
		return "", err
	}
	status, err := sh.output(ctx, "tar", "-xOf", tar+".new.tar", "./var/lib/dpkg/status")
	if err != nil {
		return "", err
	}
	list, err := named(readIndexes(strings.NewReader(status)), apt.index)
	if err != nil {
		return "", err
	}
	if err := writeList(tar+".packages", list); err != nil {
		return "", err
	}
	if err := os.Rename(tar+".new.tar", tar); err != nil {
		return "", err
	}
	return tar, b.comparePackages(board, tar+".packages")
}

// unpacked is the folder of the packages that are only unpacked: the kernel, and on a
// Raspberry Pi its firmware and U-Boot.
func (b Builder) unpacked(ctx context.Context, board Board) (string, error) {
	dir := filepath.Join(b.Cache, "kernel-"+board.Name+"-"+board.recipeKey(b.Mirror))
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	apt, err := b.apt(ctx)
	if err != nil {
		return "", err
	}
	meta, err := apt.newest(ctx, kernelMeta)
	if err != nil {
		return "", err
	}
	names := []string{meta.needs}
	if board.Firmware {
		names = append(names, piPackages...)
	}
	b.Tell("kernel: " + strings.Join(names, ", "))
	fresh := dir + ".new"
	debs := fresh + "/debs"
	if err := errors.Join(os.RemoveAll(fresh), os.MkdirAll(debs, 0o755)); err != nil {
		return "", err
	}
	var list []Package
	for _, name := range names {
		var p Package
		if err := b.retry(ctx, name, func() (err error) { p, err = apt.download(ctx, name, debs); return err }); err != nil {
			return "", err
		}
		list = append(list, p)
	}
	files, err := filepath.Glob(debs + "/*.deb")
	if err != nil {
		return "", err
	}
	for _, deb := range files {
		if err := apt.sh.run(ctx, "dpkg-deb", "-x", deb, fresh); err != nil {
			return "", err
		}
	}
	if err := errors.Join(os.RemoveAll(debs), writeList(fresh+"/packages", list)); err != nil {
		return "", err
	}
	return dir, os.Rename(fresh, dir)
}

// foreignPrograms makes the kernel start programs for arm64 by qemu-user: a machine that has just
// been installed does not.
func foreignPrograms() error {
	const folder = "/proc/sys/fs/binfmt_misc"
	if _, err := os.Stat(folder + "/qemu-aarch64"); err == nil {
		return nil
	}
	if _, err := os.Stat(folder + "/register"); err != nil {
		if err := mountBinfmt(folder); err != nil {
			return fmt.Errorf("mount %s: %w", folder, err)
		}
	}
	line, err := os.ReadFile("/usr/lib/binfmt.d/qemu-aarch64.conf")
	if err != nil {
		return fmt.Errorf("emulation of arm64: %w (install qemu-user-static)", err)
	}
	return os.WriteFile(folder+"/register", line, 0o200)
}

// apt is a package manager of its own, for arm64 and Debian's keys alone: this machine's
// settings have no say in what an image holds.
type apt struct {
	sh    shell
	index map[string][]entry // all versions, by name
}

// entry is a package in Debian's lists.
type entry struct {
	Package
	needs string // the first package that it depends on
}

func (b Builder) apt(ctx context.Context) (apt, error) {
	dir, err := filepath.Abs(filepath.Join(b.Cache, "apt"))
	if err != nil {
		return apt{}, err
	}
	for _, sub := range []string{"lists/partial", "archives/partial", "etc"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			return apt{}, err
		}
	}
	config := fmt.Sprintf(`APT::Architecture "arm64";
APT::Architectures { "arm64"; };
APT::Sandbox::User "root";
Dir::State "%[1]s";
Dir::State::Lists "%[1]s/lists";
Dir::State::status "%[1]s/status";
Dir::Cache "%[1]s";
Dir::Cache::archives "%[1]s/archives";
Dir::Etc::SourceList "%[1]s/etc/sources.list";
Dir::Etc::SourceParts "/dev/null";
Dir::Etc::Parts "/dev/null";
Dir::Etc::Trusted "/usr/share/keyrings/debian-archive-keyring.gpg";
Dir::Etc::TrustedParts "/usr/share/keyrings";
Acquire::Languages "none";
Acquire::GzipIndexes "false";
Acquire::Retries "5";
`, dir)
	err = errors.Join(os.WriteFile(dir+"/apt.conf", []byte(config), 0o644), os.WriteFile(dir+"/status", nil, 0o644),
		os.WriteFile(dir+"/etc/sources.list", []byte(strings.Join(sources(b.Mirror), "\n")+"\n"), 0o644))
	if err != nil {
		return apt{}, err
	}
	a := apt{sh: shell{log: b.Log, env: []string{"APT_CONFIG=" + dir + "/apt.conf"}}, index: map[string][]entry{}}
	if err := b.retry(ctx, "lists of packages", func() error { return a.sh.run(ctx, "apt-get", "-q", "--error-on=any", "update") }); err != nil {
		return apt{}, err
	}
	lists, err := filepath.Glob(dir + "/lists/*_Packages")
	if err != nil || len(lists) == 0 {
		return apt{}, errors.Join(err, errors.New("apt-get update left no list of packages"))
	}
	return a, a.read(lists)
}

// read reads the lists.
func (a apt) read(lists []string) error {
	for _, file := range lists {
		f, err := os.Open(file)
		if err != nil {
			return err
		}
		for _, e := range readIndexes(f) {
			a.index[e.Name] = append(a.index[e.Name], e)
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	return nil
}

// newest is a package's newest version, as dpkg orders them.
func (a apt) newest(ctx context.Context, name string) (entry, error) {
	var best entry
	for _, e := range a.index[name] {
		if best.Name == "" || a.sh.run(ctx, "dpkg", "--compare-versions", e.Version, "gt", best.Version) == nil {
			best = e
		}
	}
	if best.Name == "" {
		return entry{}, fmt.Errorf("%s: not in Debian's lists", name)
	}
	return best, nil
}

// download fetches the newest version of a package into a folder.
func (a apt) download(ctx context.Context, name, into string) (Package, error) {
	e, err := a.newest(ctx, name)
	if err != nil {
		return Package{}, err
	}
	// apt-get download has no folder but the one it runs in.
	return e.Package, a.sh.run(ctx, "env", "-C", into, "apt-get", "-q", "download", name+"="+e.Version)
}

// readIndexes reads paragraphs of "Name: value" lines, as Debian's lists and dpkg's status have them.
func readIndexes(r io.Reader) (list []entry) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<22)
	var e entry
	end := func() {
		if e.Name != "" {
			list = append(list, e)
		}
		e = entry{}
	}
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		switch name {
		case "":
			end()
		case "Package":
			e.Name = value
		case "Version":
			e.Version = value
		case "Architecture":
			e.Arch = value
		case "SHA256":
			e.SHA256 = value
		case "Depends":
			e.needs, _, _ = strings.Cut(value, ",")
			e.needs, _, _ = strings.Cut(e.needs, " ")
		}
	}
	end()
	return list
}

// named gives the installed packages the hashes that the signed lists have for them.
func named(installed []entry, index map[string][]entry) ([]Package, error) {
	var list []Package
	for _, p := range installed {
		i := slices.IndexFunc(index[p.Name], func(e entry) bool { return e.Version == p.Version })
		if i < 0 {
			return nil, fmt.Errorf("package %s %s is installed, and not in the lists that were read just now: the mirror has changed in between, build again", p.Name, p.Version)
		}
		list = append(list, index[p.Name][i].Package)
	}
	return list, nil
}

func writeList(path string, list []Package) error {
	var lines []string
	for _, p := range list {
		lines = append(lines, p.String())
	}
	slices.Sort(lines)
	return os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o644)
}

// LockFile is where the checkout keeps the packages of a board's last release.
func (b Board) LockFile() string {
	return "firmware/image/packages/" + Suite + "-" + b.Layer() + ".txt"
}

// comparePackages holds a base against the list in the checkout. Pinned, a difference is an
// error; else the list is written anew, to be committed with the release.
func (b Builder) comparePackages(board Board, list string) error {
	have, err := os.ReadFile(list)
	if err != nil {
		return err
	}
	for _, name := range forbidden {
		if strings.Contains("\n"+string(have), "\n"+name+" ") {
			return fmt.Errorf("package %s came along, and must not be on a terminal", name)
		}
	}
	file := filepath.Join(b.Source, board.LockFile())
	want, err := os.ReadFile(file)
	if err == nil && string(want) == string(have) {
		return nil
	}
	if b.Pinned {
		return fmt.Errorf("packages differ from %s:\n%s\nbuild from the archive of that day (--mirror), or without --pinned to take the new ones", board.LockFile(), difference(string(want), string(have)))
	}
	b.Tell("packages differ from " + board.LockFile() + ", which is written anew")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, have, 0o644)
}

// difference is the lines that only one of two lists has, a few of them.
func difference(want, have string) string {
	var out []string
	a, b := strings.Split(strings.TrimSpace(want), "\n"), strings.Split(strings.TrimSpace(have), "\n")
	for _, line := range a {
		if !slices.Contains(b, line) {
			out = append(out, "- "+line)
		}
	}
	for _, line := range b {
		if !slices.Contains(a, line) {
			out = append(out, "+ "+line)
		}
	}
	if more := len(out) - 20; more > 0 {
		out = append(out[:20], fmt.Sprintf("... and %d more", more))
	}
	return strings.Join(out, "\n")
}
