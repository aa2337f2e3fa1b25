package ledger

import (
	"context"
	"errors"
	"fmt"

	"grattoir/sync/wire"
)

// salesTables hold of which blocks central has ended the sales, by their packs.
var salesTables = []string{
	`CREATE TABLE sales_ended(game_code TEXT NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL, reason TEXT NOT NULL, PRIMARY KEY(game_code, first)) STRICT, WITHOUT ROWID`,
}

// ErrSales means a pack of a block of which no more packs are put on sale.
var ErrSales = errors.New("no more packs of its block are put on sale")

// setSales takes what central says of a block's sales.
func (w *writing) setSales(ctx context.Context, s wire.SalesItem) error {
	if err := s.Check(); err != nil {
		return fmt.Errorf("%w: %w", ErrFeed, err)
	}
	if !s.Ended {
		_, err := w.exec(ctx, "DELETE FROM sales_ended WHERE game_code = ? AND first = ?", s.GameCode, s.First)
		return err
	}
	_, err := w.exec(ctx, "INSERT OR REPLACE INTO sales_ended(game_code, first, last, reason) VALUES(?, ?, ?, ?)", s.GameCode, s.First, s.Last, s.Reason)
	return err
}

// mayBeSold is nil where a pack's block is on sale, else ErrSales with central's reason.
func (w *writing) mayBeSold(ctx context.Context, gameCode string, pack uint32) error {
	var ended bool
	var reason string
	err := w.tx.QueryRowContext(ctx, "SELECT count(*) > 0, coalesce(max(reason), '') FROM sales_ended WHERE game_code = ? AND first <= ? AND last >= ?", gameCode, pack, pack).Scan(&ended, &reason)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNotWritable, w.l.seen(err))
	}
	if ended {
		return fmt.Errorf("%w: %s", ErrSales, reason)
	}
	return nil
}
