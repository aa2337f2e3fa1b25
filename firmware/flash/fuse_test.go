package flash

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// cardFile is a fake card as the one file of a FUSE file system, so that a loop device over
// it goes through the kernel's block layer to the fake's faults.
type cardFile struct {
	fs.Inode
	*fakeCard
}

var (
	_ fs.NodeGetattrer = (*cardFile)(nil)
	_ fs.NodeOpener    = (*cardFile)(nil)
	_ fs.NodeReader    = (*cardFile)(nil)
	_ fs.NodeWriter    = (*cardFile)(nil)
	_ fs.NodeFsyncer   = (*cardFile)(nil)
)

func (c *cardFile) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	out.Mode, out.Size = 0o600, uint64(c.Size())
	return 0
}

// Open has the kernel remember nothing of the file: what is read comes from the card.
func (c *cardFile) Open(context.Context, uint32) (fs.FileHandle, uint32, syscall.Errno) {
	return nil, fuse.FOPEN_DIRECT_IO, 0
}

func (c *cardFile) Read(_ context.Context, _ fs.FileHandle, dest []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	n, err := c.ReadAt(dest[:min(int64(len(dest)), max(0, c.Size()-off))], off)
	if errors.Is(err, io.EOF) { // the end of the card, and not of what was read
		err = nil
	}
	return fuse.ReadResultData(dest[:n]), fs.ToErrno(err)
}

func (c *cardFile) Write(_ context.Context, _ fs.FileHandle, data []byte, off int64) (uint32, syscall.Errno) {
	n, err := c.WriteAt(data, off)
	return uint32(n), fs.ToErrno(err)
}

func (c *cardFile) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno {
	return fs.ToErrno(c.Sync())
}

// fuseCard mounts a card and puts a loop device over it. The tree shows it as a card in a
// reader. The test skips, loudly, where there is no FUSE, no loop device or no right to them.
func fuseCard(t *testing.T, c *fakeCard) (s System, d Drive) {
	t.Helper()
	for _, path := range []string{"/dev/fuse", "/dev/loop-control"} {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Skipf("SKIPPED: the faults of a card behind a real block device need root and %s: %v", path, err)
		}
		f.Close()
	}
	root := &fs.Inode{}
	mount := t.TempDir()
	server, err := fs.Mount(mount, root, &fs.Options{MountOptions: fuse.MountOptions{DirectMount: true, MaxWrite: 512 << 10, DisableXAttrs: true, Name: "grattoir-card"},
		OnAdd: func(ctx context.Context) {
			root.AddChild("card.img", root.NewPersistentInode(ctx, &cardFile{fakeCard: c}, fs.StableAttr{Mode: fuse.S_IFREG}), false)
		}})
	if err != nil {
		t.Skipf("SKIPPED: no FUSE here: %v", err)
	}
	t.Cleanup(func() {
		if err := server.Unmount(); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	node, number := loopOver(t, filepath.Join(mount, "card.img"))
	s = tree(t, "proc/self/mountinfo 22 1 0:21 / / rw - overlay overlay rw\n"+usbDevice(usb1, "LOOP")+
		disk("sdb", number, usb1+"/h/6:0:0:0", fmt.Sprint(c.Size()/512), "1")+"dev/sdb -> "+node)
	if d, err = s.Choose("LOOP", Wish{Write: true}); err != nil {
		t.Fatal(err)
	}
	return s, d
}

// loopOver puts a loop device over a file.
func loopOver(t *testing.T, backing string) (node, number string) {
	t.Helper()
	out, err := exec.Command("losetup", "--find", "--show", backing).CombinedOutput()
	if err != nil {
		t.Skipf("SKIPPED: needs root and losetup: %v %s", err, out)
	}
	node = strings.TrimSpace(string(out))
	t.Cleanup(func() {
		if out, err := exec.Command("losetup", "--detach", node).CombinedOutput(); err != nil {
			t.Errorf("%v %s", err, out)
		}
	})
	return node, attribute("/sys/block/"+filepath.Base(node), "dev")
}

// TestFaultsOfACardBehindARealBlockDeviceAreNamed: full, fake capacity, a flipped bit, EIO
// and pulled out, from the card through FUSE, loop and the kernel's queue. No card is left
// that boots, and a card without a fault is written whole.
func TestFaultsOfACardBehindARealBlockDeviceAreNamed(t *testing.T) {
	w := newWorld(t, 10)
	im := w.open(t)
	for _, f := range []struct {
		name, code string
		plant      func(c *fakeCard, writing *atomic.Bool, pull func())
	}{
		{"none", "", func(*fakeCard, *atomic.Bool, func()) {}},
		{"full", codeFull, func(c *fakeCard, writing *atomic.Bool, _ func()) {
			c.onWrite = func(b []byte, off int64) (int, error) {
				if writing.Load() && off+int64(len(b)) > 5*unit {
					return 0, unix.ENOSPC
				}
				return -1, nil
			}
		}},
		{"fake capacity", codeFake, func(c *fakeCard, _ *atomic.Bool, _ func()) {
			c.where = func(off int64) int64 { return off % (8 * unit) }
		}},
		{"flipped bit", codeDiffers, func(c *fakeCard, writing *atomic.Bool, _ func()) {
			c.onRead = func(b []byte, off int64) error {
				if at := 2*unit + 700 - off; writing.Load() && at >= 0 && at < int64(len(b)) {
					b[at] ^= 16
				}
				return nil
			}
		}},
		{"EIO", codeIO, func(c *fakeCard, writing *atomic.Bool, _ func()) {
			c.onWrite = func(b []byte, off int64) (int, error) {
				if writing.Load() && off+int64(len(b)) > 8*unit {
					return 0, unix.EIO
				}
				return -1, nil
			}
		}},
		{"pulled out", codeGone, func(c *fakeCard, writing *atomic.Bool, pull func()) {
			c.onWrite = func(b []byte, off int64) (int, error) {
				if writing.Load() && off+int64(len(b)) > 5*unit {
					pull()
					return 0, unix.EIO
				}
				return -1, nil
			}
		}},
	} {
		t.Run(f.name, func(t *testing.T) {
			c := newCard(cardSize, 0xa5)
			var writing atomic.Bool
			s, d := fuseCard(t, c)
			f.plant(c, &writing, func() {
				if err := os.WriteFile(filepath.Join(s.Root, "sys/block/sdb/size"), []byte("0\n"), 0o644); err != nil {
					t.Error(err)
				}
			})
			m, err := s.Open(d, Wish{Write: true})
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			r, err := Write(t.Context(), Job{Image: im, Medium: m, Card: d.Card(), Journals: t.TempDir(), every: unit, Tell: func(p Progress) {
				if p.Phase == PhaseWrite {
					writing.Store(true)
				}
			}})
			if codeOf(err) != f.code || err != nil && f.code == "" {
				t.Fatalf("%v, want %q", err, f.code)
			}
			if f.code == "" {
				holds(t, c, w.raw)
				if r.Verified != im.Size-unit {
					t.Errorf("%+v", r)
				}
				return
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			if !zeros(c.now[:512]) {
				t.Error("the card has a table of partitions: it may boot")
			}
		})
	}
}

// TestMountedCardIsUnmountedWhenThatIsWished, for real: a file system on a loop device. The
// mounts that are looked at are this machine's own.
func TestMountedCardIsUnmountedWhenThatIsWished(t *testing.T) {
	const size = 13 * unit
	node, number := loopDevice(t, size)
	if out, err := exec.Command("mke2fs", "-q", "-t", "ext4", node).CombinedOutput(); err != nil {
		t.Skipf("SKIPPED: needs mke2fs: %v %s", err, out)
	}
	at := t.TempDir()
	if err := unix.Mount(node, at, "ext4", 0, ""); err != nil {
		t.Skipf("SKIPPED: nothing can be mounted here: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(at, 0) }) // where it was not
	s := tree(t, "proc/self/mountinfo -> /proc/self/mountinfo\n"+usbDevice(usb1, "LOOP")+
		disk("sdb", number, usb1+"/h/6:0:0:0", fmt.Sprint(size/512), "1")+"dev/sdb -> "+node)
	if _, err := s.Choose("LOOP", Wish{Write: true}); codeOf(err) != codeMounted {
		t.Fatalf("a mounted card: %v", err)
	}
	busy, err := os.Create(filepath.Join(at, "open"))
	if err != nil {
		t.Fatal(err)
	}
	wish := Wish{Write: true, Unmount: true}
	d, err := s.Choose("LOOP", wish)
	if err != nil || len(d.Mounts) != 1 {
		t.Fatalf("%+v %v", d, err)
	}
	if m, err := s.Open(d, wish); codeOf(err) != codeMounted {
		t.Fatalf("a file is open on it: %v %v", m, err)
	}
	busy.Close()
	m, err := s.Open(d, wish)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if mounts, err := os.ReadFile("/proc/self/mountinfo"); err != nil || strings.Contains(string(mounts), at) {
		t.Errorf("it is still mounted: %v", err)
	}
	if r, err := Write(t.Context(), Job{Image: newWorld(t, 10).open(t), Medium: m, Card: d.Card()}); err != nil || r.Verified == 0 {
		t.Errorf("%+v %v", r, err)
	}
}
