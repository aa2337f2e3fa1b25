package flash

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"slices"
)

// A pattern is what the tests of a card write: every sector carries the test's seed and
// its own place, then numbers that follow from both. A sector that is found somewhere else
// tells where it was written.
type pattern uint64

func newPattern() pattern {
	var b [8]byte
	_, _ = rand.Read(b[:]) // does not fail
	return pattern(binary.LittleEndian.Uint64(b[:]) | 1)
}

// fill makes the content of whole sectors from off on.
func (p pattern) fill(b []byte, off int64) {
	for ; len(b) >= sector; b, off = b[sector:], off+sector {
		binary.LittleEndian.PutUint64(b, uint64(p))
		binary.LittleEndian.PutUint64(b[8:], uint64(off))
		x := uint64(p) ^ uint64(off)*0x9e3779b97f4a7c15
		for i := 16; i < sector; i += 8 { // xorshift, fast and full of both bits
			x ^= x << 13
			x ^= x >> 7
			x ^= x << 17
			binary.LittleEndian.PutUint64(b[i:], x)
		}
	}
}

// origin is where the sector at b was written in this test, -1 for nowhere.
func (p pattern) origin(b []byte) int64 {
	off := int64(binary.LittleEndian.Uint64(b[8:]))
	if binary.LittleEndian.Uint64(b) != uint64(p) || off < 0 {
		return -1
	}
	return off
}

// compare returns the first place in b, read at off, that is not as written: its offset
// and where its content was written, -1 for nowhere. ok is true when all is as written.
func (p pattern) compare(b []byte, off int64, scratch []byte) (at, from int64, ok bool) {
	want := scratch[:len(b)]
	p.fill(want, off)
	for i := 0; i < len(b); i += sector {
		if string(b[i:i+sector]) != string(want[i:i+sector]) {
			return off + int64(i), p.origin(b[i:]), false
		}
	}
	return 0, 0, true
}

// places are where a fake card shows: its end, each power of two, and places between. Each
// is a whole unit, none the first.
func places(size int64) []int64 {
	list := []int64{(size/unit - 1) * unit}
	for p := int64(unit); p < size/unit*unit; p *= 2 {
		list = append(list, p)
	}
	const between = 16
	for i := range int64(between) {
		list = append(list, size/unit*i/between*unit)
	}
	slices.Sort(list)
	list = slices.Compact(list)
	return slices.DeleteFunc(list, func(off int64) bool { return off < unit })
}

// probe looks for a fake capacity in seconds: it writes a few places all over the card,
// then reads all of them. It finds a card that drops what lies beyond its real end, and
// one whose addresses wrap at a power of two or at a place it looks at; reading the image
// back finds those that wrap inside the image, and only the burn-in finds all. The places
// are zero afterwards.
func (w *writer) probe() error {
	list, p := places(w.medium.Size()), newPattern()
	w.begin(PhaseProbe, 3*unit*int64(len(list)))
	b, scratch := aligned(unit), make([]byte, unit)
	for _, off := range list {
		p.fill(b, off)
		if err := w.write(b, off); err != nil {
			return err
		}
		w.add(unit)
	}
	if err := w.sync(); err != nil {
		return err
	}
	for _, off := range list {
		if err := w.read(b, off); err != nil {
			return err
		}
		if at, from, ok := p.compare(b, off, scratch); !ok {
			return w.lost(at, from)
		}
		w.add(unit)
	}
	if err := w.marked(p); err != nil {
		return err
	}
	for _, off := range list {
		clear(b)
		if err := w.write(b, off); err != nil {
			return err
		}
		w.add(unit)
	}
	return w.sync()
}

// marked finds the mark of the card's first unit again, which no test writes over.
func (w *writer) marked(p pattern) error {
	found := aligned(sector)
	if err := w.read(found, markAt); err != nil {
		return err
	}
	if !bytes.Equal(found, w.journal.mark()) {
		return w.lost(markAt, p.origin(found))
	}
	return nil
}

// lost names what a test of the capacity did not find again.
func (w *writer) lost(at, from int64) error {
	switch {
	case from >= 0 && from != at:
		return fault(codeFake, w.medium.Name(), "it says it has %d bytes, but at %d lies what was written at %d", w.medium.Size(), at, from)
	case from == at:
		return fault(codeDiffers, w.medium.Name(), "the test's pattern at %d came back with flipped bits", at)
	}
	return fault(codeFake, w.medium.Name(), "it says it has %d bytes, but what was written at %d is gone", w.medium.Size(), at)
}

// A card for a terminal writes at least so fast, in bytes a second, and has no stretch so
// much slower than its usual pace. Class 4 cards write 4 MB/s; the journal's commits need it.
const (
	slowBelow = 4e6
	slowPart  = 8
)

// burnIn fills the card but for its first unit and reads everything back. Content found
// elsewhere is a fake capacity at once; other damage is counted to the end.
func (w *writer) burnIn() error {
	p, end := newPattern(), w.medium.Size()/sector*sector
	b, scratch := aligned(maxRange), make([]byte, maxRange)
	w.begin(PhaseBurn, end-unit)
	for off := int64(unit); off < end; off += maxRange {
		part := b[:min(maxRange, end-off)]
		p.fill(part, off)
		if err := w.write(part, off); err != nil {
			return err
		}
		w.add(int64(len(part)))
	}
	if err := w.sync(); err != nil {
		return err
	}
	median, slowest := w.pace()
	w.result.Slow = median > 0 && (median < slowBelow || slowest < median/slowPart)
	w.begin(PhaseBurned, end-unit)
	bad, firstBad := 0, int64(0)
	for off := int64(unit); off < end; off += maxRange {
		part := b[:min(maxRange, end-off)]
		if err := w.read(part, off); err != nil {
			return err
		}
		if at, from, ok := p.compare(part, off, scratch); !ok {
			if from >= 0 && from != at {
				return w.lost(at, from)
			}
			if bad++; bad == 1 {
				firstBad = at
			}
		}
		w.add(int64(len(part)))
	}
	if err := w.marked(p); err != nil {
		return err
	}
	if bad > 0 {
		return fault(codeWorn, w.medium.Name(), "%d of %d stretches of 4 MiB did not keep what was written, the first at %d", bad, (end-unit+maxRange-1)/maxRange, firstBad)
	}
	return nil
}
