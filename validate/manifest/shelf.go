package manifest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"grattoir/validate"
	"grattoir/validate/ticket"
)

// Shelf is the set of blocks on a terminal. It is safe for concurrent use.
type Shelf struct {
	mu      sync.RWMutex
	blocks  map[string][]*Block // by game code, as printed
	known   map[string]bool     // game codes known from a catalogue, without leading zeros
	unread  []string            // files whose header did not verify
	layouts []ticket.Layout
}

// NewShelf makes an empty shelf that reads the layouts known without a manifest.
func NewShelf() *Shelf {
	return &Shelf{blocks: map[string][]*Block{}, known: map[string]bool{}, layouts: ticket.Known()}
}

// ErrOverlap means that two blocks claim the same packs of one game code. Both stay on
// the shelf; the tickets of the shared packs are answered with damage, because nobody
// here can tell which file is theirs.
var ErrOverlap = errors.New("two blocks claim the same packs")

// Put adds an open block. A newer issue of a block takes the place of the older one,
// and a whole copy that of a damaged one. ErrOverlap is a warning: the block is added.
func (s *Shelf) Put(b *Block) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := b.Header
	var overlaps error
	for i, old := range s.blocks[h.GameCode] {
		switch {
		case old.Header.Block == h.Block:
			if old.Header.Serial < h.Serial || old.Header.Serial == h.Serial && old.Damage() != nil && b.Damage() == nil {
				s.blocks[h.GameCode][i] = b
			}
			return nil
		case overlap(old.Header, h):
			overlaps = fmt.Errorf("%w: block %v and block %v, game code %s: take the wrong file away", ErrOverlap, h.Block, old.Header.Block, h.GameCode)
		}
	}
	s.blocks[h.GameCode] = append(s.blocks[h.GameCode], b)
	if !slices.ContainsFunc(s.layouts, h.Layout.Equal) {
		s.layouts = append(s.layouts, h.Layout)
	}
	return overlaps
}

func overlap(a, b Header) bool {
	last := func(h Header) uint32 {
		return h.FirstPack + uint32((h.Tickets+int64(h.PackSize)-1)/int64(h.PackSize)) - 1
	}
	return a.FirstPack <= last(b) && b.FirstPack <= last(a)
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
		if slices.ContainsFunc(s.blocks[c.Game], func(b *Block) bool { return b.Header.HasPack(c.Pack) && b.Header.Layout.Equal(c.Layout) }) {
			found = c
			hits++
		}
	}
	if hits > 1 {
		return ticket.Code{}, ErrAmbiguous
	}
	return found, nil
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
		return cmp.Or(cmp.Compare(a.Header.GameCode, b.Header.GameCode), cmp.Compare(a.Header.FirstPack, b.Header.FirstPack))
	})
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
	h := b.Header
	o.Block, o.Game, o.GameName, o.Emission, o.Number = h.Block, h.Game, h.Name, h.Emission, h.Number
	o.Currency, o.Scaled, o.Internet, o.Weak = h.Currency, h.Scaled, h.Internet, h.Weak()
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

// find returns the one block with the code's pack, or why there is none to ask.
func (s *Shelf) find(c ticket.Code) (found *Block, none validate.Finding, err error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, b := range s.blocks[c.Game] {
		if !b.Header.HasPack(c.Pack) {
			continue
		}
		if found != nil {
			return nil, validate.Damaged, fmt.Errorf("ticket %v: %w", c, ErrOverlap)
		}
		found = b
	}
	switch {
	case found != nil:
		return found, "", nil
	case len(s.unread) > 0:
		return nil, validate.Damaged, fmt.Errorf("ticket %v: %w: %d files have no readable header", c, ErrDamaged, len(s.unread))
	case len(s.blocks[c.Game]) > 0 || s.known[strings.TrimLeft(c.Game, "0")]:
		return nil, validate.NoBlock, nil
	}
	return nil, validate.NoGame, nil
}
