package image

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strconv"
	"strings"
)

// Where the boot state lies on the card, and how long it is: one sector, so that a power
// cut leaves the old or the new one. U-Boot's script and libubootenv's configuration say
// the same numbers, which a test compares.
const (
	BootStateOffset = 1 << 20
	BootStateSize   = 512
)

// Attempts is how often a slot that is marked good may fail to start before the other one
// is tried. A slot that was just installed gets one.
const Attempts = 3

// BootState is what U-Boot decides by: which slot is first, and how many more starts each
// has. A start takes one away before the kernel is loaded; a healthy system gives them back.
type BootState struct {
	Order []string       // names of slots, "A" and "B"; one that is not in it is never started
	Left  map[string]int // by slot
}

// Flashed is the state of a card that was never started: slot A is there, B is empty.
func Flashed() BootState {
	return BootState{Order: []string{"A"}, Left: map[string]int{"A": Attempts, "B": 0}}
}

// ErrBootState means that the sector holds no boot state: its checksum or its text is
// wrong. U-Boot then tries both slots.
var ErrBootState = errors.New("no boot state")

// Sector is the state as U-Boot's environment: CRC-32 of what follows, little-endian, then
// name=value texts that end with a zero byte each, and one more.
func (s BootState) Sector() ([]byte, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	text := "BOOT_A_LEFT=" + strconv.Itoa(s.Left["A"]) + "\x00BOOT_B_LEFT=" + strconv.Itoa(s.Left["B"]) +
		"\x00BOOT_ORDER=" + strings.Join(s.Order, " ") + "\x00\x00"
	sector := make([]byte, BootStateSize)
	copy(sector[4:], text)
	binary.LittleEndian.PutUint32(sector, crc32.ChecksumIEEE(sector[4:]))
	return sector, nil
}

func (s BootState) check() error {
	for i, slot := range s.Order {
		if slot != "A" && slot != "B" || slices.Contains(s.Order[:i], slot) {
			return fmt.Errorf("%w: order %q: want A and B, each once at most", ErrBootState, s.Order)
		}
	}
	for slot, left := range s.Left {
		if slot != "A" && slot != "B" || left < 0 || left > 9 {
			return fmt.Errorf("%w: %d starts left of slot %q: want 0 to 9 of A or B", ErrBootState, left, slot)
		}
	}
	return nil
}

// ParseBootState reads a sector. Variables of others are left alone: libubootenv and RAUC
// keep some of their own. A slot without a number has no start left.
func ParseBootState(sector []byte) (BootState, error) {
	if len(sector) != BootStateSize {
		return BootState{}, fmt.Errorf("%w: %d bytes: want %d", ErrBootState, len(sector), BootStateSize)
	}
	if binary.LittleEndian.Uint32(sector) != crc32.ChecksumIEEE(sector[4:]) {
		return BootState{}, fmt.Errorf("%w: the checksum is wrong", ErrBootState)
	}
	text, _, ended := strings.Cut(string(sector[4:]), "\x00\x00")
	if !ended {
		return BootState{}, fmt.Errorf("%w: it has no end", ErrBootState)
	}
	s := BootState{Left: map[string]int{"A": 0, "B": 0}}
	for _, line := range strings.Split(text, "\x00") {
		name, value, _ := strings.Cut(line, "=")
		switch name {
		case "BOOT_ORDER":
			s.Order = strings.Fields(value)
		case "BOOT_A_LEFT", "BOOT_B_LEFT":
			n, err := strconv.Atoi(value)
			if err != nil {
				return BootState{}, fmt.Errorf("%w: %q: want a number", ErrBootState, line)
			}
			s.Left[name[5:6]] = n
		}
	}
	return s, s.check()
}

// Next is the slot that U-Boot starts now, and the state that it writes before: it is what
// files/boot.cmd does, in Go, for the tests and for whoever must explain a card. With no
// start left anywhere each slot of the order has all of them again: a terminal that cannot
// start keeps trying, since nobody is there to press a key.
func (s BootState) Next() (slot string, after BootState) {
	after = BootState{Order: slices.Clone(s.Order), Left: map[string]int{"A": s.Left["A"], "B": s.Left["B"]}}
	if len(after.Order) == 0 {
		after.Order = []string{"A", "B"}
	}
	for range 2 {
		for _, slot := range after.Order {
			if after.Left[slot] > 0 {
				after.Left[slot]--
				return slot, after
			}
		}
		for _, slot := range after.Order {
			after.Left[slot] = Attempts
		}
	}
	return "", after // not reached: the order has a slot, and it has its starts again
}
