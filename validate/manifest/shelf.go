package manifest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"grattoir/validate"
	"grattoir/validate/ticket"
)

// Shelf is the set of blocks on a terminal. It is safe for concurrent use.
type Shelf struct {
	mu      sync.RWMutex
	blocks  map[string][]*Block // by game code, as printed
	known   map[string]bool     // game codes known from a catalogue
	unread  []string            // files whose header did not verify
	layouts []ticket.Layout
}

// NewShelf makes an empty shelf that reads the shipped layouts.
func NewShelf() *Shelf {
	return &Shelf{blocks: map[string][]*Block{}, known: map[string]bool{}, layouts: ticket.Shipped()}
}

// Put adds an open block. Two blocks that claim the same packs of one game code are
// refused, unless they are the same block: then the higher serial stays.
func (s *Shelf) Put(b *Block) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := b.Header
	list := s.blocks[h.GameCode]
	for i, old := range list {
		switch {
		case old.Header.Block == h.Block && old.Header.Serial < h.Serial:
			list[i] = b
			return nil
		case old.Header.Block == h.Block:
			return nil
		case overlap(old.Header, h):
			return fmt.Errorf("block %v covers packs of game code %s that block %v has already", h.Block, h.GameCode, old.Header.Block)
		}
	}
	s.blocks[h.GameCode] = append(list, b)
	for _, l := range s.layouts {
		if l.Equal(h.Layout) {
			return nil
		}
	}
	s.layouts = append(s.layouts, h.Layout)
	return nil
}

func overlap(a, b Header) bool {
	last := func(h Header) uint32 {
		return h.FirstPack + uint32((h.Tickets+int64(h.PackSize)-1)/int64(h.PackSize)) - 1
	}
	return a.FirstPack <= last(b) && b.FirstPack <= last(a)
}

// Damaged notes a file whose header could not be read, so that a ticket which no
// other block explains is answered with damage and not with a missing block.
func (s *Shelf) Damaged(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unread = append(s.unread, path)
}

// Know tells the shelf of a game code that exists though no block of it may be here.
func (s *Shelf) Know(gameCode string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known[gameCode] = true
}

// Layouts are the layouts a scan may be in.
func (s *Shelf) Layouts() []ticket.Layout {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Clone(s.layouts)
}

// Blocks lists the blocks by game code and first pack.
func (s *Shelf) Blocks() []*Block {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var all []*Block
	for _, list := range s.blocks {
		all = append(all, list...)
	}
	slices.SortFunc(all, func(a, b *Block) int {
		if c := compare(a.Header.GameCode, b.Header.GameCode); c != 0 {
			return c
		}
		return int(int64(a.Header.FirstPack) - int64(b.Header.FirstPack))
	})
	return all
}

func compare(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// Open says what the blocks prove about a code. The error, when there is one, is the
// technician's detail of a Damaged finding; the finding stands without it.
func (s *Shelf) Open(ctx context.Context, c ticket.Code) (validate.Opened, error) {
	o := validate.Opened{Code: c}
	b, known := s.find(c)
	if b == nil {
		s.mu.RLock()
		defer s.mu.RUnlock()
		switch {
		case len(s.unread) > 0:
			o.Finding = validate.Damaged
			return o, fmt.Errorf("ticket %v: %w: %d files have no readable header", c, ErrDamaged, len(s.unread))
		case known:
			o.Finding = validate.NoBlock
		default:
			o.Finding = validate.NoGame
		}
		return o, nil
	}
	h := b.Header
	o.Block, o.Game, o.GameName, o.Emission, o.Number = h.Block, h.Game, h.Name, h.Emission, h.Number
	o.Currency, o.Scaled, o.Internet = h.Currency, h.Scaled, h.Internet
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
	}
	o.Finding = validate.Damaged
	return o, err
}

// find returns the block with the code's pack, and whether its game code is known.
func (s *Shelf) find(c ticket.Code) (*Block, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	list := s.blocks[c.Game]
	for _, b := range list {
		if b.Header.HasPack(c.Pack) {
			return b, true
		}
	}
	return nil, len(list) > 0 || s.known[c.Game]
}
