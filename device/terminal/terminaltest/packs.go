package terminaltest

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"grattoir/device/terminal"
	"grattoir/validate"
)

var _ terminal.Packs = (*Packs)(nil)

// Packs are packs in memory, as a terminal's feed and journal know them.
type Packs struct {
	mu    sync.Mutex
	packs map[string]validate.Pack
	sold  []string // what was put on sale, by whom
	fault error
}

// NewPacks makes the packs of a terminal that knows of none.
func NewPacks() *Packs { return &Packs{packs: map[string]validate.Pack{}} }

func packKey(gameCode string, pack uint32) string { return fmt.Sprintf("%s-%d", gameCode, pack) }

// Set puts a pack there, or in the place of what was known of it.
func (p *Packs) Set(x validate.Pack) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.packs[packKey(x.GameCode, x.Number)] = x
}

// Break makes every question and every act fail with err; nil mends it.
func (p *Packs) Break(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = err
}

// Sold lists the activations, "00399-10 marie", in their order.
func (p *Packs) Sold() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.sold)
}

// Pack is what was set, or a pack that is not known.
func (p *Packs) Pack(_ context.Context, gameCode string, pack uint32) (validate.Pack, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pack(gameCode, pack), p.fault
}

func (p *Packs) pack(gameCode string, pack uint32) validate.Pack {
	if x, known := p.packs[packKey(gameCode, pack)]; known {
		return x
	}
	return validate.Pack{GameCode: gameCode, Number: pack}
}

// Inventory are the terminal's own packs, each a run of its own.
func (p *Packs) Inventory(context.Context) ([]validate.PackRun, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := []validate.PackRun{}
	for _, x := range p.packs {
		if x.Own {
			list = append(list, validate.PackRun{GameCode: x.GameCode, First: x.Number, Last: x.Number, State: x.State, Epoch: x.Epoch})
		}
	}
	slices.SortFunc(list, func(a, b validate.PackRun) int { return int(a.First) - int(b.First) })
	return list, p.fault
}

// Activate puts a delivered pack on sale once.
func (p *Packs) Activate(_ context.Context, gameCode string, pack uint32, operator string, _ validate.Entered) (validate.Pack, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	x := p.pack(gameCode, pack)
	switch {
	case p.fault != nil:
		return x, p.fault
	case x.Own && x.State == validate.PackActive:
		return x, nil
	case !x.Activatable():
		return x, fmt.Errorf("%w: it is %s", terminal.ErrNotForSale, x.State)
	}
	x.State = validate.PackActive
	p.packs[packKey(gameCode, pack)] = x
	p.sold = append(p.sold, packKey(gameCode, pack)+" "+operator)
	return x, nil
}
