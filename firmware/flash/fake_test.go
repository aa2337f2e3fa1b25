package flash

import (
	"bytes"
	"io"
	"sync"
)

// fakeCard is a card in memory. What is written lies in its cache until it is synced, and
// is lost when it is pulled out. Faults are functions, asked at every call.
type fakeCard struct {
	mu      sync.Mutex
	kept    []byte // survives
	now     []byte // with what lies in the cache
	dirty   [][2]int64
	out     bool
	onWrite func(b []byte, off int64) (n int, err error) // n < 0 lets it be written
	onRead  func(b []byte, off int64) error              // after b was filled
	where   func(off int64) int64                        // the real address of a sector; -1 drops it
	discard func(off, n int64) error
	writes  int
	first   []int64 // where the calls of writing went, in order
}

func newCard(size int64, old byte) *fakeCard {
	kept := bytes.Repeat([]byte{old}, int(size))
	return &fakeCard{kept: kept, now: bytes.Clone(kept)}
}

func (c *fakeCard) Name() string { return "fake" }
func (c *fakeCard) Size() int64  { return int64(len(c.kept)) }
func (c *fakeCard) Close() error { return nil }

func (c *fakeCard) Present() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.out
}

// parts cuts a call into pieces that lie together on the card, with their real address.
func (c *fakeCard) parts(b []byte, off int64, each func(part []byte, at int64)) {
	if c.where == nil {
		each(b, off)
		return
	}
	for i := 0; i < len(b); i += sector {
		each(b[i:i+sector], c.where(off+int64(i)))
	}
}

func (c *fakeCard) WriteAt(b []byte, off int64) (int, error) {
	if c.onWrite != nil { // it may block
		if n, err := c.onWrite(b, off); n >= 0 {
			return n, err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writes++
	c.first = append(c.first, off)
	c.parts(b, off, func(part []byte, at int64) {
		if at >= 0 {
			copy(c.now[at:], part)
			c.dirty = append(c.dirty, [2]int64{at, at + int64(len(part))})
		}
	})
	return len(b), nil
}

func (c *fakeCard) ReadAt(b []byte, off int64) (int, error) {
	c.mu.Lock()
	c.parts(b, off, func(part []byte, at int64) {
		if clear(part); at >= 0 {
			copy(part, c.now[at:])
		}
	})
	c.mu.Unlock()
	if c.onRead != nil {
		if err := c.onRead(b, off); err != nil {
			return 0, err
		}
	}
	if off+int64(len(b)) == c.Size() {
		return len(b), io.EOF // as io.ReaderAt may
	}
	return len(b), nil
}

func (c *fakeCard) Sync() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, d := range c.dirty {
		copy(c.kept[d[0]:d[1]], c.now[d[0]:d[1]])
	}
	c.dirty = nil
	return nil
}

func (c *fakeCard) Discard(off, n int64) error {
	if c.discard == nil {
		return nil // it says yes and does nothing, as many do
	}
	return c.discard(off, n)
}

// pull takes the card out: what was not synced is lost.
func (c *fakeCard) pull() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out = true
	for _, d := range c.dirty {
		copy(c.now[d[0]:d[1]], c.kept[d[0]:d[1]])
	}
	c.dirty = nil
}

// mend puts the card back and ends all faults.
func (c *fakeCard) mend() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writes = 0
	c.out, c.onWrite, c.onRead, c.where, c.discard = false, nil, nil, nil, nil
}
