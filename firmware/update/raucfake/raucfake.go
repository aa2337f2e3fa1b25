// Package raucfake is a machine with RAUC 1.8 and its boot loader, for tests: two slots,
// the tries of each, the order, and what a cut leaves of an installation. What its marks do
// to order and tries was read off the real one with the uboot backend,
// boot-attempts=3 and boot-attempts-primary=1. Serve puts it on a bus. No program links it.
package raucfake

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"grattoir/firmware/update"
)

// Tries of RAUC's configuration.
const (
	attempts        = 3
	attemptsPrimary = 1
)

// Machine is one terminal's hardware with its card.
type Machine struct {
	Board string
	// At, when set, is called at each point of an installation, without the lock.
	At func(point string)

	mu        sync.Mutex
	slots     [2]slot
	order     []int // of slots, as BOOT_ORDER
	booted    int
	starts    int
	busy      bool
	percent   int
	lastError string
}

type slot struct {
	boot    string
	number  int64
	version string
	left    int
	whole   bool
}

// New is a machine that was flashed with a release and runs it.
func New(board, version string, number int64) *Machine {
	m := &Machine{Board: board, order: []int{0, 1}}
	m.slots[0] = slot{"A", number, version, attempts, true}
	m.slots[1] = slot{"B", number, version, attempts, true}
	m.Start(nil)
	return m
}

// Start is the boot loader: the first of the order that has a try left loses one and is
// tried. One whose content is not whole, or does not come up, resets the machine. It is
// false when nothing has a try left: a brick.
func (m *Machine) Start(comesUp func(number int64) bool) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.busy, m.starts = false, m.starts+1
	for {
		at := slices.IndexFunc(m.order, func(n int) bool { return m.slots[n].left > 0 })
		if at < 0 {
			return false
		}
		n := m.order[at]
		m.slots[n].left--
		if m.slots[n].whole && (comesUp == nil || comesUp(m.slots[n].number)) {
			m.booted = n
			return true
		}
	}
}

// Boot names this start, as the kernel's boot id does.
func (m *Machine) Boot() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return fmt.Sprintf("boot-%d", m.starts)
}

// Running is the release in the booted slot.
func (m *Machine) Running() update.Release {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.slots[m.booted]
	return update.Release{Version: s.version, Number: s.number, Board: m.Board}
}

// Bootable are the numbers of the releases that have a try left.
func (m *Machine) Bootable() (numbers []int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, n := range m.order {
		if m.slots[n].left > 0 && m.slots[n].whole {
			numbers = append(numbers, m.slots[n].number)
		}
	}
	return numbers
}

// Bundle is the content of a bundle that this RAUC knows. Sound is false for one whose
// payload was tampered with: its signature is good, and its installation fails. Signed is
// false for one of a foreign root.
type Bundle struct {
	Board, Version string
	Number         int64
	Foreign        bool
	Tampered       bool
	Padding        int // bytes
}

// Bytes are the bundle's file.
func (b Bundle) Bytes() []byte {
	return fmt.Appendf(nil, "fake bundle\n%s\n%s\n%d\n%t\n%t\n%s", b.Board, b.Version, b.Number, b.Foreign, b.Tampered, strings.Repeat("\x55\xaa", b.Padding/2))
}

func read(path string) (b Bundle, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return b, err
	}
	_, err = fmt.Sscanf(string(text), "fake bundle\n%s\n%s\n%d\n%t\n%t\n", &b.Board, &b.Version, &b.Number, &b.Foreign, &b.Tampered)
	if err != nil {
		return b, fmt.Errorf("%w: no bundle: %w", update.ErrBundle, err)
	}
	return b, nil
}

// Compatible is the board.
func (m *Machine) Compatible(context.Context) (string, error) { return m.Board, nil }

// Info verifies a bundle's signature.
func (m *Machine) Info(_ context.Context, path string) (compatible, version string, err error) {
	b, err := read(path)
	if err == nil && b.Foreign {
		err = fmt.Errorf("%w: signature verification failed: unable to get local issuer certificate", update.ErrBundle)
	}
	return b.Board, b.Version, err
}

// Busy tells whether an installation runs.
func (m *Machine) Busy(context.Context) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.busy, nil
}

// Slots are both slots.
func (m *Machine) Slots(context.Context) ([]update.Slot, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []update.Slot
	for n, s := range m.slots {
		list = append(list, update.Slot{Name: fmt.Sprintf("rootfs.%d", n), BootName: s.boot, Booted: n == m.booted, Bootable: s.left > 0 && slices.Contains(m.order, n), Version: s.version})
	}
	return list, nil
}

// Mark does what RAUC's uboot backend does: good gives tries and leaves the order alone.
func (m *Machine) Mark(_ context.Context, which string, mark update.Mark) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.booted
	if which == update.Other {
		n = 1 - n
	} else if which != update.Booted {
		return fmt.Errorf("invalid slot name format: '%s'", which)
	}
	switch mark {
	case update.MarkGood:
		m.slots[n].left = attempts
	case update.MarkBad:
		m.disable(n)
	default:
		return fmt.Errorf("unknown subcommand %s", mark)
	}
	return nil
}

func (m *Machine) disable(n int) {
	m.slots[n].left = 0
	m.order = slices.DeleteFunc(m.order, func(x int) bool { return x == n })
}

// Install writes the spare slot.
func (m *Machine) Install(ctx context.Context, path string, progress func(int)) error {
	b, err := read(path)
	if err == nil && b.Foreign {
		_, _, err = m.Info(ctx, path)
	}
	if err == nil && b.Board != m.Board {
		err = fmt.Errorf("compatible mismatch: expected '%s' but bundle is for '%s'", m.Board, b.Board)
	}
	if err == nil {
		err = m.write(b, progress)
	}
	m.mu.Lock()
	m.busy, m.lastError = false, fmt.Sprint(err)
	m.mu.Unlock()
	return err
}

func (m *Machine) write(b Bundle, progress func(int)) error {
	point := func(name string) {
		if m.At != nil {
			m.At(name)
		}
	}
	m.mu.Lock()
	n := 1 - m.booted
	m.busy, m.slots[n].whole = true, false
	m.disable(n)
	m.mu.Unlock()
	point("disabled")
	m.setPercent(40, progress)
	if b.Tampered {
		return errors.New("failed updating slot rootfs: dm-verity: data block 17 is corrupted")
	}
	point("half-written")
	m.mu.Lock()
	m.slots[n] = slot{m.slots[n].boot, b.Number, b.Version, 0, true}
	m.mu.Unlock()
	m.setPercent(90, progress)
	point("written")
	m.mu.Lock()
	m.order = append([]int{n}, slices.DeleteFunc(slices.Clone(m.order), func(x int) bool { return x == n })...)
	m.slots[n].left = attemptsPrimary
	m.mu.Unlock()
	point("activated")
	return nil
}

func (m *Machine) setPercent(n int, progress func(int)) {
	m.mu.Lock()
	m.percent = n
	m.mu.Unlock()
	if progress != nil {
		progress(n)
	}
}
