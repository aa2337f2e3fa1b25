package image

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// The card, in bytes. Between the partition table and the first partition lie two places
// that are not files: the boot state, and the slot that terminalctl provision writes.
const (
	mib = 1 << 20

	ProvisionOffset = 2 * mib
	ProvisionSize   = 128 << 10

	bootOffset = 4 * mib // of the FAT partition, which nothing writes after flashing
	bootSize   = 60 * mib
	rootOffset = bootOffset + bootSize

	// DataMiB is the data partition's size in the image. The first start makes it as large
	// as the card allows, which ext4 can do up to about a thousand times.
	DataMiB = 64
)

// DiskSignature is what names the card's partitions to Linux, as PARTUUID=47525454-02.
// It is one for all cards: no terminal holds two.
const DiskSignature = 0x47525454

// Partition is one of the four of a card.
type Partition struct {
	Label        string // for people
	Type         byte   // of the partition table
	Offset, Size int64  // in bytes
}

// Partitions are those of a board's card, in the order of the table.
func (b Board) Partitions() []Partition {
	slot := b.SlotMiB * mib
	return []Partition{
		{"boot", 0x0c, bootOffset, bootSize},
		{"root A", 0x83, rootOffset, slot},
		{"root B", 0x83, rootOffset + slot, slot},
		{"data", 0x83, rootOffset + 2*slot, DataMiB * mib},
	}
}

// DiskSize is the size of a board's raw image.
func (b Board) DiskSize() int64 {
	last := b.Partitions()[3]
	return last.Offset + last.Size
}

// table is the sector that holds the partition table. No loader lies in it: the Raspberry
// Pi's firmware reads the FAT partition, which is the first one and active.
func table(parts []Partition) []byte {
	sector := make([]byte, 512)
	binary.LittleEndian.PutUint32(sector[440:], DiskSignature)
	for i, p := range parts {
		entry := sector[446+16*i:]
		if i == 0 {
			entry[0] = 0x80
		}
		entry[4] = p.Type
		copy(entry[1:4], "\xfe\xff\xff") // cylinders and heads tell nothing
		copy(entry[5:8], "\xfe\xff\xff")
		binary.LittleEndian.PutUint32(entry[8:], uint32(p.Offset/512))
		binary.LittleEndian.PutUint32(entry[12:], uint32(p.Size/512))
	}
	sector[510], sector[511] = 0x55, 0xaa
	return sector
}

// writeDisk joins the partitions' files to the raw image of a card. Slot B stays empty: the
// first update fills it, and until then nothing starts it.
func writeDisk(path string, board Board, boot, root, data string) (err error) {
	disk, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, disk.Close()) }()
	if err := disk.Truncate(board.DiskSize()); err != nil {
		return err
	}
	state, err := Flashed().Sector()
	if err != nil {
		return err
	}
	parts := board.Partitions()
	if _, err := disk.WriteAt(table(parts), 0); err != nil {
		return err
	}
	if _, err := disk.WriteAt(state, BootStateOffset); err != nil {
		return err
	}
	for i, file := range []string{boot, root, "", data} {
		if file == "" {
			continue
		}
		if err := copySparse(disk, parts[i].Offset, parts[i].Size, file); err != nil {
			return fmt.Errorf("%s: partition %s from %s: %w", path, parts[i].Label, filepath.Base(file), err)
		}
	}
	return nil
}

// copySparse copies a file's data into a place of the disk, and leaves its holes holes.
func copySparse(disk *os.File, at, size int64, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || info.Size() > size {
		return errors.Join(err, fmt.Errorf("it is larger than the partition's %d bytes", size))
	}
	for off := int64(0); ; {
		off, err = unix.Seek(int(f.Fd()), off, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			return nil // only a hole is left
		}
		if err != nil {
			return err
		}
		end, err := unix.Seek(int(f.Fd()), off, unix.SEEK_HOLE)
		if err != nil {
			return err
		}
		if _, err := io.Copy(io.NewOffsetWriter(disk, at+off), io.NewSectionReader(f, off, end-off)); err != nil {
			return err
		}
		off = end
	}
}
