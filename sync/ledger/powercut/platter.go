package powercut

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
)

// Hardware is what a disk does to writes that the power cuts off.
type Hardware struct {
	// Sector is how many bytes are written as one, a power of two; 0 is 512.
	Sector int
	// Neighbours says that a sector which is cut off while it is written may lose all of
	// its bytes, those outside the write too. SQLite's default believes that no disk does
	// that; with psow=0 in the data source it allows for sectors of 4096 bytes.
	Neighbours bool
}

// Image is what a disk holds when the power comes back. The zero Image is an empty disk.
type Image struct {
	files map[string]stored
}

type stored struct {
	node    int
	content content
}

// Size is the length of a file, -1 when there is none of this name.
func (i Image) Size(path string) int64 {
	f, there := i.files[path]
	if !there {
		return -1
	}
	return f.content.size
}

// Bytes is a copy of a file, nil when there is none of this name.
func (i Image) Bytes(path string) []byte {
	f, there := i.files[path]
	if !there {
		return nil
	}
	b := make([]byte, f.content.size)
	f.content.read(b, 0)
	return b
}

// Sum tells two images apart, by the names and the bytes of their files.
func (i Image) Sum() [sha256.Size]byte {
	h := sha256.New()
	var zeros [chunkSize]byte
	for _, path := range slices.Sorted(maps.Keys(i.files)) {
		c := i.files[path].content
		fmt.Fprintf(h, "%q %d\n", path, c.size)
		for n, chunk := range c.chunks {
			if chunk == nil {
				chunk = &zeros
			}
			_, _ = h.Write(chunk[:min(chunkSize, c.size-int64(n)*chunkSize)]) // a hash takes everything
		}
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// With is the image with other bytes under a name.
func (i Image) With(path string, text []byte) Image {
	next := Image{maps.Clone(i.files)}
	if next.files == nil {
		next.files = map[string]stored{}
	}
	f := stored{node: len(next.files) + 1}
	for _, o := range next.files {
		f.node = max(f.node, o.node+1)
	}
	f.content.write(text, 0)
	next.files[path] = f
	return next
}

// Platter walks a disk's log. It stands before the first event that is not done yet.
type Platter struct {
	log  []Event
	next int

	names   map[string]int // what the folder durably says
	renames []Event        // of the folder, not durable
	files   map[int]*surface
}

// surface is one file's durable bytes and what was done to it since.
type surface struct {
	durable content
	pending []pending
}

type pending struct {
	Event
	synced bool // durable, but above something that is not
	adrift bool // a sync of it failed: no later one makes it durable
}

// Platter starts at the beginning of the log as it is now.
func (d *Disk) Platter() *Platter {
	d.mu.Lock()
	defer d.mu.Unlock()
	p := &Platter{log: d.log[:len(d.log):len(d.log)], names: map[string]int{}, files: map[int]*surface{}}
	for path, f := range d.begin.files {
		p.names[path] = f.node
		p.files[f.node] = &surface{durable: f.content.clone()}
	}
	return p
}

// At is the number of events that are done.
func (p *Platter) At() int { return p.next }

// Next does one more event; it is false at the end of the log.
func (p *Platter) Next() bool {
	if p.next == len(p.log) {
		return false
	}
	e := p.log[p.next]
	p.next++
	if p.files[e.node] == nil {
		p.files[e.node] = &surface{}
	}
	s := p.files[e.node]
	switch e.Kind {
	case Write, Truncate:
		s.pending = append(s.pending, pending{Event: e})
	case Sync:
		s.sync()
	case FailedSync:
		for i := range s.pending {
			s.pending[i].adrift = !s.pending[i].synced
		}
	case Create, Delete:
		p.renames = append(p.renames, e)
	}
	if e.Dir && e.Kind != FailedSync {
		for _, r := range p.renames {
			rename(p.names, r)
		}
		p.renames = nil
	}
	return true
}

// sync makes a file's bytes durable, up to the first that a failed sync left adrift.
func (s *surface) sync() {
	for i := range s.pending {
		s.pending[i].synced = !s.pending[i].adrift
	}
	for len(s.pending) > 0 && s.pending[0].synced {
		s.durable.apply(s.pending[0].Event)
		s.pending = s.pending[1:]
	}
}

// Unsynced is how many events are done and not durable.
func (p *Platter) Unsynced() int {
	n := len(p.renames)
	for _, s := range p.files {
		n += len(s.pending)
	}
	return n
}

func rename(names map[string]int, e Event) {
	if e.Kind == Create {
		names[e.Path] = e.node
	} else if names[e.Path] == e.node {
		delete(names, e.Path)
	}
}

func (c *content) apply(e Event) {
	if e.Kind == Truncate {
		c.truncate(e.At)
		return
	}
	c.write(e.Data, e.At)
}

// Image is what the disk may hold when the power is cut here, one of the many that rng
// picks from. With nothing unsynced there is only one.
func (p *Platter) Image(rng *rand.Rand, hw Hardware) Image {
	if hw.Sector == 0 {
		hw.Sector = 512
	}
	mood := rng.IntN(6) // some cuts lose everything, some nothing, most are mixed
	names := maps.Clone(p.names)
	for _, r := range p.renames {
		if mood == 1 || mood != 0 && rng.IntN(2) == 0 {
			rename(names, r)
		}
	}
	image := Image{make(map[string]stored, len(names))}
	for _, path := range slices.Sorted(maps.Keys(names)) { // in order, so that a seed gives its image again
		f := stored{node: names[path]}
		if s := p.files[f.node]; s != nil {
			f.content = s.durable.clone()
			for _, e := range s.pending {
				settle(&f.content, e, rng, hw, mood)
			}
		}
		image.files[path] = f
	}
	return image
}

// settle decides what has become of one event.
func settle(c *content, e pending, rng *rand.Rand, hw Hardware, mood int) {
	fate := rng.IntN(5)
	switch {
	case e.synced || mood == 1:
		c.apply(e.Event)
	case mood == 0 || fate == 0: // never reached the disk
	case e.Kind == Truncate || fate == 1:
		c.apply(e.Event)
	case fate == 2: // its sectors were written in some order, and not all
		sectors(e.Event, hw, func(at int64, part []byte) {
			if rng.IntN(2) == 0 {
				c.write(part, at)
			}
		})
	default:
		tear(c, e.Event, rng, hw, fate == 3)
	}
}

// tear writes a write from its start or from its end, up to a sector that was under the
// head when the power went: with spoil, that one holds anything.
func tear(c *content, e Event, rng *rand.Rand, hw Hardware, spoil bool) {
	var parts []Event
	sectors(e, hw, func(at int64, part []byte) { parts = append(parts, Event{At: at, Data: part}) })
	if rng.IntN(2) == 0 {
		slices.Reverse(parts)
	}
	cut := rng.IntN(len(parts) + 1)
	for _, part := range parts[:cut] {
		c.write(part.Data, part.At)
	}
	if cut == len(parts) || !spoil {
		return
	}
	from, to := parts[cut].At, parts[cut].At+int64(len(parts[cut].Data))
	if hw.Neighbours {
		sector := int64(hw.Sector)
		from, to = from/sector*sector, max(to, min((to+sector-1)/sector*sector, c.size))
	}
	c.write(garbage(rng, int(to-from)), from)
}

// garbage is zeros, ones, or anything.
func garbage(rng *rand.Rand, n int) []byte {
	b := make([]byte, n)
	switch rng.IntN(4) {
	case 0:
	case 1:
		for i := range b {
			b[i] = 0xff
		}
	default:
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
	}
	return b
}

// sectors calls use with the part of a write that lies in each sector, in order.
func sectors(e Event, hw Hardware, use func(at int64, part []byte)) {
	for at, rest := e.At, e.Data; len(rest) > 0; {
		n := min(int64(len(rest)), int64(hw.Sector)-at%int64(hw.Sector))
		use(at, rest[:n])
		at, rest = at+n, rest[n:]
	}
}
