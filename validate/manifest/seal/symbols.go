package seal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"

	"grattoir/validate/game/rules"
	"grattoir/validate/money"
)

// SymbolsHeader is the first line of symbols.csv: a ticket a line, any order, the
// symbols in the form of the game's rules. It holds no code, but shows every winner.
const SymbolsHeader = "pack,ticket,symbols"

const (
	maxSymbols      = 4096 // bytes of a line
	symbolBatch     = 1 << 10
	maxNumberDigits = 10
)

// drawn is a line of symbols.csv, evaluated.
type drawn struct {
	index int64 // of the ticket in the block
	err   error // it is not in the block, or its symbols do not win its prize
}

// checkSymbols recomputes every ticket's prize from its symbols, on all cores, and
// names the first line, from the top, whose symbols do not win what tickets.csv says.
func (a *arranged) checkSymbols(ctx context.Context, o Order) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	queue := make(chan *batch, runtime.GOMAXPROCS(0))
	work := make(chan *batch)
	var workers sync.WaitGroup
	defer workers.Wait()
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for b := range work {
				b.drawn <- a.evaluate(b, o.Rules)
			}
		})
	}
	var readErr error
	workers.Go(func() {
		defer close(queue)
		defer close(work)
		readErr = lineFile{SymbolsHeader, maxSymbols, symbolBatch}.split(ctx, o.Symbols, queue, work)
	})
	seen := make([]uint64, (a.header.Tickets+63)/64)
	var fault error
	count := int64(0)
	for b := range queue {
		lines := <-b.drawn
		if fault != nil {
			continue // let the reader and the workers finish
		}
		for k, d := range lines {
			if fault = mark(seen, d); fault != nil {
				fault = fmt.Errorf("symbols.csv, line %d: %w; nothing was sealed", line(b.first+int64(k)), fault)
				cancel()
				break
			}
			count++
		}
		o.Progress("check symbols", count, a.header.Tickets)
	}
	switch {
	case fault != nil:
		return fault
	case readErr != nil:
		return fmt.Errorf("symbols.csv: %w", readErr)
	case count < a.delivered():
		return a.withoutSymbols(seen, count)
	}
	return nil
}

// evaluate reads a batch of lines.
func (a *arranged) evaluate(b *batch, r rules.Rules) []drawn {
	out := make([]drawn, 0, b.lines)
	rest := b.text
	for range b.lines {
		text, tail, _ := bytes.Cut(rest, []byte("\n"))
		rest = tail
		out = append(out, a.evaluateLine(text, r))
	}
	return out
}

func (a *arranged) evaluateLine(text []byte, r rules.Rules) drawn {
	pack, rest, ok1 := bytes.Cut(text, []byte(","))
	number, symbols, ok2 := bytes.Cut(rest, []byte(","))
	p, ok3 := smallNumber(pack)
	n, ok4 := smallNumber(number)
	if !ok1 || !ok2 || !ok3 || !ok4 {
		return drawn{err: fmt.Errorf("want %s, pack and ticket in digits", SymbolsHeader)}
	}
	h := a.header
	d := drawn{index: (p-int64(h.FirstPack))*int64(h.PackSize) + n - int64(h.FirstTicket)}
	if p < int64(h.FirstPack) || n < int64(h.FirstTicket) || n >= int64(h.FirstTicket)+int64(h.PackSize) || d.index >= h.Tickets || a.at(d.index) == nil {
		d.err = fmt.Errorf("pack %d ticket %d is not in tickets.csv", p, n)
		return d
	}
	result, err := r.Evaluate(symbols)
	if err != nil {
		d.err = fmt.Errorf("pack %d ticket %d: %w", p, n, err)
		return d
	}
	if want := a.prize(d.index); result.Prize != want {
		d.err = fmt.Errorf("pack %d ticket %d: the symbols give %s, but tickets.csv has %s", p, n,
			result.Text(h.Currency, money.English), money.Text(want, h.Currency, money.English, money.Receipt))
	}
	return d
}

// delivered is how many tickets tickets.csv has.
func (a *arranged) delivered() (n int64) {
	for i := range a.header.Tickets {
		if a.at(i) != nil {
			n++
		}
	}
	return n
}

// prize is what tickets.csv gives the ticket.
func (a *arranged) prize(index int64) money.Amount {
	if t := a.tier[index]; t > 0 {
		return a.header.Tiers[t-1].Amount
	}
	return 0
}

// mark notes that a ticket had its line.
func mark(seen []uint64, d drawn) error {
	if d.err != nil {
		return d.err
	}
	bit := uint64(1) << (d.index % 64)
	if seen[d.index/64]&bit != 0 {
		return errors.New("this ticket had a line before")
	}
	seen[d.index/64] |= bit
	return nil
}

// withoutSymbols names the tickets that symbols.csv lacks.
func (a *arranged) withoutSymbols(seen []uint64, count int64) error {
	var names []string
	for i := int64(0); i < a.header.Tickets && len(names) < maxFaults; i++ {
		if seen[i/64]&(1<<(i%64)) == 0 && a.at(i) != nil {
			names = append(names, placeName(a.header, i))
		}
	}
	return fmt.Errorf("symbols.csv has %d of %d tickets, nothing was sealed; among those it lacks:\n  %s", count, a.delivered(), strings.Join(names, "\n  "))
}

// smallNumber reads a number of up to ten digits.
func smallNumber(text []byte) (int64, bool) {
	n := int64(0)
	if len(text) < 1 || len(text) > maxNumberDigits {
		return 0, false
	}
	for _, d := range text {
		if d < '0' || d > '9' {
			return 0, false
		}
		n = n*10 + int64(d-'0')
	}
	return n, true
}
