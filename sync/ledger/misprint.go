package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"grattoir/validate"
	"grattoir/validate/money"
)

// MisprintBody says that a misprinted ticket was taken in, and what the player got for it: its
// sale price or another ticket. It names its block, which may have no claim.
type MisprintBody struct {
	Block       NamedBlock       `json:"of"`
	Pack        uint32           `json:"pack"`
	Ticket      uint16           `json:"ticket"`
	Remedy      validate.Remedy  `json:"remedy"`
	AmountMinor money.Amount     `json:"amount_minor"` // of a refund, 0 where the price is not known; 0 of an exchange
	Currency    string           `json:"currency"`
	Entered     validate.Entered `json:"entered"`
	Operator    string           `json:"operator"`
	Manager     string           `json:"manager"`
}

// Misprint reads the body of a misprint entry.
func (e Entry) Misprint() (MisprintBody, error) { return bodyOf[MisprintBody](e, KindMisprint) }

// ErrTakenIn means that the ticket was taken in as a misprint before.
var ErrTakenIn = errors.New("the ticket was refunded or exchanged before")

// TakeIn records that a misprinted ticket was refunded or exchanged, once for each ticket.
// The errors are ErrPaid and ErrTakenIn, each with the entry that stands in the way,
// ErrTraining and ErrNotWritable.
func (l *Ledger) TakeIn(ctx context.Context, m validate.Misprinted) (validate.Misprinted, error) {
	fail := func(err error) (validate.Misprinted, error) {
		return m, fmt.Errorf("take in ticket %d of pack %d: %w", m.Ticket.Number, m.Ticket.Pack, err)
	}
	if err := checkMisprint(m); err != nil {
		return fail(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.training {
		return fail(ErrTraining)
	}
	if err := l.held(); err != nil {
		return fail(err)
	}
	err := l.write(ctx, func(ctx context.Context, w *writing) error {
		paid, err := l.receipt(ctx, w.tx, standsOn, m.Ticket.Block[:], m.Ticket.Pack, m.Ticket.Number)
		if err == nil {
			return fmt.Errorf("%w: entry %v", ErrPaid, paid.Number)
		} else if !errors.Is(err, ErrNotFound) {
			return err
		}
		before, err := takenIn(ctx, w.tx, m.Ticket)
		if err != nil {
			return err
		}
		if before != nil {
			return fmt.Errorf("%w: entry %v", ErrTakenIn, before.Entry)
		}
		n, at, err := w.append(ctx, KindMisprint, MisprintBody{Block: namedBlock(m.Ticket.Block, m.Slip), Pack: m.Ticket.Pack, Ticket: m.Ticket.Number,
			Remedy: m.Remedy, AmountMinor: m.Amount, Currency: m.Currency, Entered: m.Entered, Operator: m.Operator, Manager: m.Manager})
		if err != nil {
			return err
		}
		m.Entry, m.At = n, at.Device
		_, err = w.exec(ctx, insertReported, m.Ticket.Block[:], m.Ticket.Pack, m.Ticket.Number, validate.Misprint, n.Epoch, n.Seq)
		return err
	})
	if err != nil {
		return fail(err)
	}
	return m, nil
}

func checkMisprint(m validate.Misprinted) error {
	switch {
	case m.Ticket.Block == validate.BlockID{}:
		return fmt.Errorf("%w: a ticket of no block", ErrEntry)
	case m.Remedy != validate.Refunded && m.Remedy != validate.Exchanged:
		return fmt.Errorf("%w: remedy %.20q: want %q or %q", ErrEntry, m.Remedy, validate.Refunded, validate.Exchanged)
	case m.Amount < 0 || m.Remedy == validate.Exchanged && m.Amount != 0:
		return fmt.Errorf("%w: a ticket that was exchanged, or of a negative price, with %d minor units", ErrEntry, m.Amount)
	}
	return errors.Join(checkActor(m.Operator), checkActor(m.Manager))
}

// TakenIn is the entry by which a ticket was taken in as a misprint, nil for none.
func (l *Ledger) TakenIn(ctx context.Context, t validate.TicketKey) (*validate.Misprinted, error) {
	m, err := takenIn(ctx, l.read, t)
	if err != nil {
		return nil, fmt.Errorf("misprint of ticket %d of pack %d: %w", t.Number, t.Pack, l.seen(err))
	}
	return m, nil
}

func takenIn(ctx context.Context, q querier, t validate.TicketKey) (*validate.Misprinted, error) {
	var line []byte
	err := q.QueryRowContext(ctx, `SELECT e.line FROM reported r JOIN entries e ON e.epoch = r.epoch AND e.seq = r.seq
		WHERE r.block = ? AND r.pack = ? AND r.ticket = ? AND r.reason = ?`, t.Block[:], t.Pack, t.Number, validate.Misprint).Scan(&line)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	e, err := ParseEntry(line)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	m, err := misprintOf(e)
	return &m, err
}

// misprintOf is a misprint's entry as an act.
func misprintOf(e Entry) (validate.Misprinted, error) {
	b, err := e.Misprint()
	m := validate.Misprinted{Ticket: validate.TicketKey{Block: b.Block.Block, Pack: b.Pack, Number: b.Ticket}, Remedy: b.Remedy, Amount: b.AmountMinor, Currency: b.Currency,
		Slip:    validate.SlipFacts{Game: b.Block.Game, GameCode: b.Block.GameCode, Emission: b.Block.Emission, BlockNumber: b.Block.Number, Demonstration: b.Block.Demonstration},
		Entered: b.Entered, Operator: b.Operator, Manager: b.Manager, Entry: validate.EntryNumber{Epoch: e.Epoch, Seq: e.Seq}}
	if err != nil {
		return m, err
	}
	m.At, err = parseTime(e.Time)
	return m, err
}

func (in *intake) misprint(e Entry) error {
	m, err := e.Misprint()
	if err != nil {
		return err
	}
	return in.exec(insertReported, m.Block.Block[:], m.Pack, m.Ticket, validate.Misprint, e.Epoch, e.Seq)
}

// addMisprint counts what was taken in, and learns what its block is called.
func (b *books) addMisprint(e Entry) error {
	m, err := e.Misprint()
	if err != nil {
		return err
	}
	if _, known := b.names[m.Block.Block]; !known {
		b.names[m.Block.Block] = m.Block
	}
	return b.each(blockCoin{m.Block.Block, m.Currency}, func(g *validate.GameTotals) error {
		if m.Remedy == validate.Refunded {
			return plus(&g.Refunded, m.AmountMinor)
		}
		g.Exchanged++
		return nil
	})
}
