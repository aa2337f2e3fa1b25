package manifest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"grattoir/validate"
	"grattoir/validate/ticket"
)

// Shelf is the set of blocks on a terminal. It is safe for concurrent use. A block that
// was put on it belongs to the shelf: Remove and Close close it.
type Shelf struct {
	mu      sync.RWMutex
	blocks  map[string][]*held // by game code, as printed; every copy, answering or not
	known   map[string]bool    // game codes known from a catalogue, without leading zeros
	unread  []string           // files whose header did not verify
	layouts []ticket.Layout
}

// held is a block on the shelf. Look-ups share inUse; whoever closes the block has it alone.
type held struct {
	*Block
	inUse sync.RWMutex
}

// NewShelf makes an empty shelf that reads the layouts known without a manifest.
func NewShelf() *Shelf {
	return &Shelf{blocks: map[string][]*held{}, known: map[string]bool{}, layouts: ticket.Known()}
}

// ErrOverlap means that two blocks claim the same packs of one game code. Both stay on
// the shelf; the tickets of the shared packs are answered with damage, because nobody
// here can tell which file is theirs.
var ErrOverlap = errors.New("two blocks claim the same packs")

// Put adds an open block. Of several copies of one block the newest issue answers, and
// of one issue a whole copy before a damaged one; the others stay in reserve until they
// are removed. ErrOverlap is a warning: the block is added.
func (s *Shelf) Put(b *Block) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := b.Header
	var overlaps error
	for _, old := range s.blocks[h.GameCode] {
		if contradicts(old.Block, b) {
			overlaps = fmt.Errorf("%w: block %v and block %v, game code %s: take the wrong file away", ErrOverlap, h.Block, old.Header.Block, h.GameCode)
		}
	}
	s.blocks[h.GameCode] = append(s.blocks[h.GameCode], &held{Block: b})
	if !slices.ContainsFunc(s.layouts, h.Layout.Equal) {
		s.layouts = append(s.layouts, h.Layout) // it stays: a code in it is not misread because its block has gone
	}
	return overlaps
}

// Remove takes a block off the shelf, waits for the look-ups that are under way in it,
// and closes it. Scans of other blocks, and new ones of this block, wait for nothing. A
// block that is not on the shelf is left alone.
func (s *Shelf) Remove(b *Block) error {
	gone := s.take(b)
	if gone == nil {
		return nil
	}
	gone.inUse.Lock()
	defer gone.inUse.Unlock()
	return gone.Close()
}

func (s *Shelf) take(b *Block) *held {
	s.mu.Lock()
	defer s.mu.Unlock()
	code := b.Header.GameCode
	at := slices.IndexFunc(s.blocks[code], func(h *held) bool { return h.Block == b })
	if at < 0 {
		return nil
	}
	gone := s.blocks[code][at]
	if s.blocks[code] = slices.Delete(s.blocks[code], at, at+1); len(s.blocks[code]) == 0 {
		delete(s.blocks, code)
		s.known[strings.TrimLeft(code, "0")] = true // the game exists, though its block is gone
	}
	return gone
}

// Close removes every block.
func (s *Shelf) Close() error {
	var errs []error
	for _, b := range s.all() {
		errs = append(errs, s.Remove(b))
	}
	return errors.Join(errs...)
}

// better tells whether copy a of a block answers rather than its copy b.
func better(a, b *Block) bool {
	if a.Header.Serial != b.Header.Serial {
		return a.Header.Serial > b.Header.Serial
	}
	return b.Damage() != nil && a.Damage() == nil
}

// reserve tells whether another copy of b's block answers in its place. Of equal copies
// the one put first answers.
func reserve(b *held, list []*held) bool {
	before := true
	for _, other := range list {
		switch {
		case other == b:
			before = false
		case other.Header.Block != b.Header.Block:
		case better(other.Block, b.Block) || before && !better(b.Block, other.Block):
			return true
		}
	}
	return false
}

// contradicts tells whether two different blocks of one game code claim the same packs.
func contradicts(a, b *Block) bool {
	return a.Header.Block != b.Header.Block && a.Header.FirstPack <= b.Header.LastPack() && b.Header.FirstPack <= a.Header.LastPack()
}

// Overlaps lists the pairs of answering blocks that claim the same packs. Only a person
// can tell which of the two files is the wrong one.
func (s *Shelf) Overlaps() [][2]*Block {
	var pairs [][2]*Block
	list := s.Blocks()
	for i, a := range list {
		for _, b := range list[:i] {
			if a.Header.GameCode == b.Header.GameCode && contradicts(a, b) {
				pairs = append(pairs, [2]*Block{b, a})
			}
		}
	}
	return pairs
}

// Unreadable notes the files whose header could not be read, so that a ticket which no
// other block explains is answered with damage and not with a missing block.
func (s *Shelf) Unreadable(files ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unread = files
}

// Know tells the shelf of a game code, padded or not, that exists though no block of
// it may be here.
func (s *Shelf) Know(gameCode string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known[strings.TrimLeft(gameCode, "0")] = true
}

// ErrAmbiguous means that two blocks lie here whose layouts both read the scan as a
// ticket of theirs. Nobody here can tell which one was printed.
var ErrAmbiguous = errors.New("two layouts read this code as a ticket of their block")

// Read reads a scan in the layouts that are known and those of the blocks here. Where
// several layouts fit, the one counts whose block lies here. The errors are those of
// ticket.Parse and ErrAmbiguous; all mean that nothing is known.
func (s *Shelf) Read(scan string, aim byte) (ticket.Code, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	codes, err := ticket.Readings(scan, aim, s.layouts)
	if err != nil {
		return ticket.Code{}, err
	}
	found := codes[0]
	hits := 0
	for _, c := range codes {
		if slices.ContainsFunc(s.blocks[c.Game], func(b *held) bool { return b.Header.HasPack(c.Pack) && b.Header.Layout.Equal(c.Layout) }) {
			found = c
			hits++
		}
	}
	if hits > 1 {
		return ticket.Code{}, ErrAmbiguous
	}
	return found, nil
}

// Layouts are the layouts in which scans are read: those known and those of the blocks here.
func (s *Shelf) Layouts() []ticket.Layout {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Clone(s.layouts)
}

// Blocks lists the blocks that answer, by game code and first pack. One may be removed
// and closed at any time: ask them for what is in memory, never for a ticket.
func (s *Shelf) Blocks() []*Block {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var all []*Block
	for _, list := range s.blocks {
		for _, b := range list {
			if !reserve(b, list) {
				all = append(all, b.Block)
			}
		}
	}
	slices.SortFunc(all, func(a, b *Block) int {
		return cmp.Or(cmp.Compare(a.Header.GameCode, b.Header.GameCode), cmp.Compare(a.Header.FirstPack, b.Header.FirstPack), cmp.Compare(a.path, b.path))
	})
	return all
}

// all lists every copy.
func (s *Shelf) all() []*Block {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var all []*Block
	for _, list := range s.blocks {
		for _, b := range list {
			all = append(all, b.Block)
		}
	}
	return all
}

// Open says what the blocks prove about a code. The error, when there is one, is the
// technician's detail of a Damaged finding; the finding stands without it.
func (s *Shelf) Open(ctx context.Context, c ticket.Code) (validate.Opened, error) {
	o := validate.Opened{Code: c}
	b, none, err := s.find(c)
	if b == nil {
		o.Finding = none
		return o, err
	}
	defer b.inUse.RUnlock()
	h := b.Header
	o.Block, o.Game, o.GameName, o.Emission, o.Number = h.Block, h.Game, h.Name, h.Emission, h.Number
	o.Currency, o.Scaled, o.Internet, o.Weak, o.Price = h.Currency, h.Scaled, h.Internet, h.Weak(), h.Price
	tier, err := b.Open(ctx, c)
	switch {
	case err == nil:
		o.Finding, o.Tier = validate.Authentic, tier
		if tier > 0 {
			o.Amount = h.Tiers[tier-1].Amount
		}
		return o, nil
	case errors.Is(err, ErrNotInBlock):
		o.Finding = validate.NotInBlock
		return o, nil
	case errors.Is(err, ErrNotAuthentic):
		o.Finding = validate.Counterfeit
		return o, nil
	case errors.Is(err, ErrPartial):
		o.Finding = validate.Misread
		return o, err
	case errors.Is(err, ErrNeedsPepper):
		o.Finding = validate.NoBlock // the half that opens it is not here
		return o, err
	}
	o.Finding = validate.Damaged
	return o, err
}

// find returns the one block with the code's pack, kept from closing until its inUse is
// released, or why there is none to ask.
func (s *Shelf) find(c ticket.Code) (found *held, none validate.Finding, err error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	list := s.blocks[c.Game]
	for _, b := range list {
		if !b.Header.HasPack(c.Pack) || reserve(b, list) {
			continue
		}
		if found != nil {
			return nil, validate.Damaged, fmt.Errorf("ticket %v: %w: %s and %s", c, ErrOverlap, filepath.Base(found.path), filepath.Base(b.path))
		}
		found = b
	}
	switch {
	case found != nil:
		found.inUse.RLock() // never waits: who closes a block has taken it out of the list before
		return found, "", nil
	case len(s.unread) > 0:
		return nil, validate.Damaged, fmt.Errorf("ticket %v: %w: %d files have no readable header", c, ErrDamaged, len(s.unread))
	case len(list) > 0 || s.known[strings.TrimLeft(c.Game, "0")]:
		return nil, validate.NoBlock, nil
	}
	return nil, validate.NoGame, nil
}
