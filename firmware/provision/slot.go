package provision

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Where the slot lies on a card, in bytes. It is outside every partition: docs/provisioning.md
// says what the image owes it.
const (
	SlotAt   = 2 << 20
	slotSize = 128 << 10
	slotHead = 16 + 4 + sha256.Size
)

const slotMagic = "grattoir-prov-1\n"

var (
	// ErrEmpty means that nothing was provisioned here, or that it was wiped.
	ErrEmpty = errors.New("no provisioning file is here")
	// ErrSlot means a slot that is damaged, or a card whose slot is used for something else.
	ErrSlot = errors.New("the card's provisioning slot cannot be used")
)

// Medium is what has a slot: a card, or the file of one. flash.Medium is one.
type Medium interface {
	io.ReaderAt
	io.WriterAt
	Size() int64
	Sync() error
}

// aligned is memory that direct reading and writing takes.
func aligned() []byte {
	const page = 4096
	b := make([]byte, slotSize+page)
	skip := page - int(uintptr(unsafe.Pointer(unsafe.SliceData(b)))%page)
	return b[skip : skip+slotSize : skip+slotSize]
}

// ReadSlot reads the note in a card's slot. The errors are ErrEmpty and ErrSlot.
func ReadSlot(m io.ReaderAt) ([]byte, error) {
	b := aligned()
	if _, err := io.ReadFull(io.NewSectionReader(m, SlotAt, slotSize), b); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSlot, err)
	}
	return openSlot(b)
}

func openSlot(b []byte) ([]byte, error) {
	if !bytes.HasPrefix(b, []byte(slotMagic)) {
		return nil, ErrEmpty
	}
	n := binary.BigEndian.Uint32(b[len(slotMagic):])
	if n > MaxNote {
		return nil, fmt.Errorf("%w: it says %d bytes", ErrSlot, n)
	}
	text := b[slotHead : slotHead+n]
	if sum := sha256.Sum256(text); !bytes.Equal(sum[:], b[len(slotMagic)+4:slotHead]) {
		return nil, fmt.Errorf("%w: it is damaged or was not written to its end: write the file again", ErrSlot)
	}
	return bytes.Clone(text), nil
}

// WriteSlot puts a note into a card's slot and reads it back from the card. A slot that
// holds anything but a note or zeros belongs to somebody else and is left alone: the card
// was not flashed with an image that has a slot.
func WriteSlot(m Medium, signed []byte) error {
	if len(signed) > MaxNote {
		return fmt.Errorf("%w: %d bytes, room for %d", ErrSlot, len(signed), MaxNote)
	}
	if err := usable(m); err != nil {
		return err
	}
	b := aligned()
	copy(b, slotMagic)
	binary.BigEndian.PutUint32(b[len(slotMagic):], uint32(len(signed)))
	sum := sha256.Sum256(signed)
	copy(b[len(slotMagic)+4:], sum[:])
	copy(b[slotHead:], signed)
	return keep(m, b)
}

// WipeSlot writes zeros over what lies in the slot.
func WipeSlot(m Medium) error {
	if err := usable(m); err != nil {
		return err
	}
	return keep(m, aligned())
}

// usable looks at the partition table and at what lies in the slot.
func usable(m Medium) error {
	if m.Size() < SlotAt+slotSize {
		return fmt.Errorf("%w: the card has only %d bytes", ErrSlot, m.Size())
	}
	head := aligned()
	if _, err := m.ReadAt(head[:4096], 0); err != nil {
		return fmt.Errorf("%w: %w", ErrSlot, err)
	}
	if head[510] != 0x55 || head[511] != 0xaa {
		return fmt.Errorf("%w: the card has no partition table: flash it first", ErrSlot)
	}
	for i := range 4 { // an MBR's entries
		e := head[446+16*i:]
		first, sectors := int64(binary.LittleEndian.Uint32(e[8:]))*512, int64(binary.LittleEndian.Uint32(e[12:]))*512
		if e[4] != 0 && first < SlotAt+slotSize && first+sectors > SlotAt {
			return fmt.Errorf("%w: partition %d lies over it: this card holds another system", ErrSlot, i+1)
		}
	}
	b := aligned()
	if _, err := m.ReadAt(b, SlotAt); err != nil {
		return fmt.Errorf("%w: %w", ErrSlot, err)
	}
	if !bytes.HasPrefix(b, []byte(slotMagic)) && len(bytes.Trim(b, "\x00")) > 0 {
		return fmt.Errorf("%w: something else lies in it: this card holds another system", ErrSlot)
	}
	return nil
}

// keep writes a slot and reads it back.
func keep(m Medium, b []byte) error {
	if _, err := m.WriteAt(b, SlotAt); err != nil {
		return fmt.Errorf("%w: %w", ErrSlot, err)
	}
	if err := m.Sync(); err != nil {
		return fmt.Errorf("%w: %w", ErrSlot, err)
	}
	found := aligned()
	if _, err := m.ReadAt(found, SlotAt); err != nil {
		return fmt.Errorf("%w: %w", ErrSlot, err)
	}
	if !bytes.Equal(found, b) {
		return fmt.Errorf("%w: it does not read back as it was written: the card is worn or locked, take another", ErrSlot)
	}
	return nil
}

// running is the card that a terminal runs from: its partitions are mounted, so it is
// opened beside them.
type running struct {
	*os.File
	size int64
}

// OpenRunning opens the card that the system runs from, or an image that nobody runs.
func OpenRunning(path string) (interface {
	Medium
	io.Closer
}, error) {
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_SYNC|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return running{f, size}, nil
}

func (r running) Size() int64 { return r.size }
