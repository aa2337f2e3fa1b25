// Package terminaltest holds fakes of what a terminal needs: a Shelf, a Ledger, a
// Printer and a Central in memory. They keep state and the promises that the terminal
// builds on (one claim per ticket and round, print marks that are never taken back, no
// slip while a fault stands), so that tests read as what happens at a counter. All are
// safe for concurrent use. Nothing here writes a file or opens a device.
// Start at NewShelf, NewLedger and NewPrinter.
package terminaltest

import (
	"context"
	"sync"

	"grattoir/device/terminal"
	"grattoir/validate"
	"grattoir/validate/ticket"
)

// The fakes are what the terminal asks for.
var (
	_ terminal.Shelf   = (*Shelf)(nil)
	_ terminal.Ledger  = (*Ledger)(nil)
	_ terminal.Printer = (*Printer)(nil)
	_ terminal.Central = (*Central)(nil)
)

// Shelf is a shelf of manifests, ticket by ticket.
type Shelf struct {
	mu      sync.Mutex
	layouts []ticket.Layout
	tickets map[string]validate.Opened // by the whole printed code
	fault   error
}

// NewShelf makes an empty shelf that reads the given layouts, those known without a manifest where none is given.
func NewShelf(layouts ...ticket.Layout) *Shelf {
	if len(layouts) == 0 {
		layouts = ticket.Known()
	}
	return &Shelf{layouts: layouts, tickets: map[string]validate.Opened{}}
}

// Add puts a ticket on the shelf. Its Opened gets the code; an empty Finding becomes
// Authentic, so the least that is needed is a tier and an amount.
func (s *Shelf) Add(c ticket.Code, o validate.Opened) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o.Code = c
	if o.Finding == "" {
		o.Finding = validate.Authentic
	}
	s.tickets[c.Digits()] = o
}

// Break makes every look-up answer that the data is damaged, with err as the detail;
// nil mends it.
func (s *Shelf) Break(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = err
}

// Read reads a scan in the layouts the shelf was made with.
func (s *Shelf) Read(scan string, aim byte) (ticket.Code, error) {
	return ticket.Parse(scan, aim, s.layouts)
}

// Open finds the ticket. Another secret of a known ticket is a counterfeit of its
// block; what else is known of the code (pack, game) gives the other findings.
func (s *Shelf) Open(ctx context.Context, c ticket.Code) (validate.Opened, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil { // a file that could not be read
		return validate.Opened{Finding: validate.Damaged, Code: c}, err
	}
	if s.fault != nil {
		return validate.Opened{Finding: validate.Damaged, Code: c}, s.fault
	}
	if o, ok := s.tickets[c.Digits()]; ok {
		return o, nil
	}
	found := validate.Opened{Finding: validate.NoGame, Code: c}
	for _, o := range s.tickets {
		switch {
		case o.Code.Game != c.Game || found.Finding == validate.Counterfeit:
		case o.Code.Pack == c.Pack && o.Code.Number == c.Number && c.Partial():
			return validate.Opened{Finding: validate.Misread, Code: c}, nil
		case o.Code.Pack == c.Pack && o.Code.Number == c.Number:
			o.Finding, o.Code, o.Tier, o.Amount, o.NotMoney = validate.Counterfeit, c, 0, 0, false
			found = o
		case o.Code.Pack == c.Pack:
			found.Finding = validate.NotInBlock
		case found.Finding == validate.NoGame:
			found.Finding = validate.NoBlock
		}
	}
	return found, nil
}

// Central is central's word, the same for every ticket. The zero Central gives no
// right at all; NewCentral gives the owner's.
type Central struct {
	mu       sync.Mutex
	standing terminal.Standing
	fault    error
}

// NewCentral makes a Central for which every pack is active and this terminal's own.
func NewCentral() *Central {
	return &Central{standing: terminal.Standing{Pack: validate.PackActive, Right: validate.RightOwner, OwnerEpoch: 1}}
}

// Set edits the word that later questions get.
func (c *Central) Set(edit func(*terminal.Standing)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	edit(&c.standing)
}

// Break makes every question fail; nil mends it.
func (c *Central) Break(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fault = err
}

// Standing gives the word last set.
func (c *Central) Standing(context.Context, validate.Opened) (terminal.Standing, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.standing, c.fault
}
