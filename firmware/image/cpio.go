package image

import (
	"fmt"
	"io"
	"path"
	"strings"
)

// archive is an initramfs as the kernel reads it: cpio, "newc". Nothing in it depends on
// the machine or the hour that makes it.
type archive struct {
	w     io.Writer
	inode int
	dirs  map[string]bool
	err   error
}

func newArchive(w io.Writer) *archive { return &archive{w: w, dirs: map[string]bool{}} }

// file adds a file, and the folders above it.
func (a *archive) file(name string, mode int, data []byte) {
	a.folder(path.Dir(name))
	a.entry(name, 0o100000|mode, data, 0, 0)
}

// folder adds a folder, and those above it, once.
func (a *archive) folder(name string) {
	if name == "." || a.dirs[name] {
		return
	}
	a.folder(path.Dir(name))
	a.dirs[name] = true
	a.entry(name, 0o040755, nil, 0, 0)
}

// device adds a node of a character device: the kernel opens dev/console for the first
// program before anything is mounted.
func (a *archive) device(name string, major, minor int) {
	a.folder(path.Dir(name))
	a.entry(name, 0o020600, nil, major, minor)
}

func (a *archive) entry(name string, mode int, data []byte, major, minor int) {
	if a.err != nil {
		return
	}
	a.inode++
	head := fmt.Sprintf("070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%s\x00",
		a.inode, mode, 0, 0, 1, 0, len(data), 0, 0, major, minor, len(name)+1, 0, name)
	for _, part := range []string{head, pad(len(head)), string(data), pad(len(data))} {
		if _, a.err = io.WriteString(a.w, part); a.err != nil {
			return
		}
	}
}

// end closes the archive and tells what went wrong.
func (a *archive) end() error {
	a.inode = -1
	a.entry("TRAILER!!!", 0, nil, 0, 0)
	return a.err
}

func pad(n int) string { return strings.Repeat("\x00", (4-n%4)%4) }
