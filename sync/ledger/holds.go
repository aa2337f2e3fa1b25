package ledger

import (
	"context"
	"errors"
	"fmt"

	"grattoir/sync/wire"
	"grattoir/validate"
)

// hold stores that central decides about a ticket from now on, with what had paid it
// here before. It is never taken back: another terminal may have been allowed to pay.
func (w *writing) hold(ctx context.Context, feed int64, h wire.HoldItem) error {
	paid, err := w.l.receipt(ctx, w.tx, standsOn, h.Block[:], h.Pack, h.Ticket)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	_, err = w.exec(ctx, `INSERT INTO holds(block, pack, ticket, feed, paid_epoch, paid_seq, paid_at) VALUES(?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT(block, pack, ticket) DO UPDATE SET feed = excluded.feed, paid_epoch = excluded.paid_epoch, paid_seq = excluded.paid_seq, paid_at = excluded.paid_at, acked = 0`,
		h.Block[:], h.Pack, h.Ticket, feed, paid.Number.Epoch, paid.Number.Seq, timeText(paid.At))
	return err
}

// Held tells whether central decides about a ticket, so that it is never again paid here
// with no network.
func (l *Ledger) Held(ctx context.Context, t validate.TicketKey) (held bool, err error) {
	err = l.read.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM holds WHERE block = ? AND pack = ? AND ticket = ?)", t.Block[:], t.Pack, t.Number).Scan(&held)
	if err != nil {
		return true, fmt.Errorf("whether central holds ticket %d of pack %d: %w", t.Number, t.Pack, l.seen(err))
	}
	return held, nil
}

// HoldsWaiting are holds that central does not know to be kept here, oldest first, at most
// max, and the journal's end: nothing up to it pays a held ticket that is not named as
// paid, and nothing after it does without central.
func (l *Ledger) HoldsWaiting(ctx context.Context, max int) ([]wire.HoldAck, wire.Position, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	head := wire.Position{Epoch: l.epoch, Seq: l.seq, Hash: l.prev.String()}
	if err := l.certain(); err != nil {
		return nil, head, err
	}
	list, err := readHolds(ctx, l.db, "acked = 0 ORDER BY feed LIMIT ?", max)
	if err != nil {
		return nil, head, fmt.Errorf("read the holds: %w", l.seen(err))
	}
	return list, head, nil
}

func readHolds(ctx context.Context, q querier, where string, args ...any) ([]wire.HoldAck, error) {
	rows, err := q.QueryContext(ctx, "SELECT feed, block, pack, ticket, paid_epoch, paid_seq, paid_at FROM holds WHERE "+where, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []wire.HoldAck
	for rows.Next() {
		var h wire.HoldAck
		var block []byte
		if err := rows.Scan(&h.Hold, &block, &h.Pack, &h.Ticket, &h.Paid.Epoch, &h.Paid.Seq, &h.At); err != nil {
			return nil, err
		}
		copy(h.Block[:], block)
		list = append(list, h)
	}
	return list, rows.Err()
}

// HoldsStored notes that central knows of holds, by the numbers of their feed items.
func (l *Ledger) HoldsStored(ctx context.Context, feed []int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.write(ctx, func(ctx context.Context, w *writing) error {
		for _, n := range feed {
			if _, err := w.exec(ctx, "UPDATE holds SET acked = 1 WHERE feed = ?", n); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("note %d holds as known to central: %w", len(feed), err)
	}
	return nil
}
