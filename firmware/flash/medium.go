package flash

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Medium is what an image is written to. Offsets, lengths and the memory of buffers are
// multiples of 4096 bytes. Any call may block for as long as the drive pleases.
type Medium interface {
	io.ReaderAt // after Sync from the medium itself, not from a memory of this machine
	io.WriterAt
	io.Closer
	Name() string               // for people
	Size() int64                // in bytes, as the drive says; it never changes
	Sync() error                // what was written survives pulling the card
	Discard(off, n int64) error // the content does not matter any more; errors.ErrUnsupported where it cannot
	Present() bool              // the card is still there
}

// aligned is a buffer whose memory begins at a whole sector, as direct reading and writing wants it.
func aligned(n int) []byte {
	b := make([]byte, n+sector)
	skip := sector - int(uintptr(unsafe.Pointer(unsafe.SliceData(b)))%sector)
	return b[skip : skip+n : skip+n]
}

// blockDevice is a drive of Linux, opened past the page cache and for this program alone.
type blockDevice struct {
	file *os.File
	size int64
	seen func() bool // whether the system still knows the drive, and a card in it
}

// openBlock opens a whole drive. No file system of it may be mounted (O_EXCL), and no other
// program that asks for the lock, udev among them, touches it meanwhile.
func openBlock(path string, write bool, seen func() bool) (_ *blockDevice, err error) {
	mode := os.O_RDONLY
	if write {
		mode = os.O_RDWR
	}
	f, err := os.OpenFile(path, mode|unix.O_EXCL|unix.O_DIRECT|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	if info, err := f.Stat(); err != nil || info.Mode()&os.ModeDevice == 0 || info.Mode()&os.ModeCharDevice != 0 {
		return nil, fmt.Errorf("%s: it is no block device (%w)", path, errors.Join(err, unix.ENOTBLK))
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, fmt.Errorf("%s: another program has locked it: %w", path, unix.EBUSY)
	}
	b := &blockDevice{file: f, seen: seen}
	b.size, err = f.Seek(0, io.SeekEnd) // the kernel's own number, in bytes, on 32 bits too
	return b, err
}

func (b *blockDevice) ReadAt(p []byte, off int64) (int, error)  { return b.file.ReadAt(p, off) }
func (b *blockDevice) WriteAt(p []byte, off int64) (int, error) { return b.file.WriteAt(p, off) }
func (b *blockDevice) Name() string                             { return b.file.Name() }
func (b *blockDevice) Size() int64                              { return b.size }

// Sync writes the drive's own cache out and drops what this machine remembers of it.
func (b *blockDevice) Sync() error {
	if err := b.file.Sync(); err != nil {
		return err
	}
	err := unix.IoctlSetInt(int(b.file.Fd()), unix.BLKFLSBUF, 0)
	if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) {
		return nil // only root may; reading past the cache does not depend on it
	}
	return err
}

func (b *blockDevice) Discard(off, n int64) error {
	err := blockRange(b.file, unix.BLKDISCARD, off, n)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOTTY) {
		return errors.ErrUnsupported
	}
	return err
}

// blockRange is an ioctl about a range, as BLKDISCARD.
func blockRange(f *os.File, request uintptr, off, n int64) error {
	span := [2]uint64{uint64(off), uint64(n)}
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), request, uintptr(unsafe.Pointer(&span))); errno != 0 {
		return errno
	}
	return nil
}

// Present asks for the size once more: a reader whose card was taken out says 0.
func (b *blockDevice) Present() bool {
	end, err := b.file.Seek(0, io.SeekEnd)
	return err == nil && end == b.size && b.seen()
}

// Close has the kernel read the new partition table. It is no error when it cannot: the
// card may be read elsewhere.
func (b *blockDevice) Close() error {
	_ = unix.IoctlSetInt(int(b.file.Fd()), unix.BLKRRPART, 0)
	return b.file.Close()
}

// fileMedium is a regular file that stands for a card, as emulators take it.
type fileMedium struct {
	*os.File
	size int64
}

// OpenFile opens a card that is a regular file, for an emulator or a loop device. A file
// that is not there is made, of size bytes; one that is there keeps its size. The errors
// are Faults.
func OpenFile(path string, size int64) (Medium, error) {
	name := filepath.Base(path)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NONBLOCK, 0o644)
	if err != nil {
		return nil, classify(err, name, true)
	}
	info, err := f.Stat()
	switch {
	case err == nil && !info.Mode().IsRegular():
		err = fault(codeNoDrive, name, "it is no regular file: drives are named by their serial")
	case err == nil && info.Size() == 0:
		err = f.Truncate(size)
	case err == nil:
		size = info.Size()
	}
	if err == nil {
		if err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
			err = fault(codeBusy, name, "another program has locked it: %w", err)
		}
	}
	if err != nil {
		return nil, errors.Join(classify(err, name, true), f.Close())
	}
	return &fileMedium{File: f, size: size}, nil
}

func (m *fileMedium) Size() int64   { return m.size }
func (m *fileMedium) Present() bool { return true }

// Sync also drops what this machine remembers of the file, so that it is read from the disk.
func (m *fileMedium) Sync() error {
	if err := m.File.Sync(); err != nil {
		return err
	}
	return unix.Fadvise(int(m.Fd()), 0, 0, unix.FADV_DONTNEED)
}

// Discard makes a hole in the file, which reads as zeros.
func (m *fileMedium) Discard(off, n int64) error {
	err := unix.Fallocate(int(m.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, off, n)
	if errors.Is(err, unix.EOPNOTSUPP) {
		return errors.ErrUnsupported
	}
	return err
}
