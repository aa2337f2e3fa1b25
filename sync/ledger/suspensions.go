package ledger

import (
	"context"
	"fmt"

	"grattoir/sync/wire"
)

// What central has suspended holds here until its feed lifts it: pulling the cable, or
// starting again, must not let a suspended terminal or game pay.

// setSuspension takes a suspension, or its end.
func (w *writing) setSuspension(ctx context.Context, s wire.SuspensionItem) error {
	if len(s.Game) > 64 || len(s.Emission) > 64 || s.Block < 0 || len(s.Reason) > wire.MaxReason || s.Game == "" && (s.Emission != "" || s.Block != 0) {
		return fmt.Errorf("%w: no whole suspension", ErrFeed)
	}
	if !s.Suspended {
		_, err := w.exec(ctx, "DELETE FROM suspensions WHERE game = ? AND emission = ? AND block = ?", s.Game, s.Emission, s.Block)
		return err
	}
	_, err := w.exec(ctx, "INSERT OR REPLACE INTO suspensions(game, emission, block, reason) VALUES(?, ?, ?, ?)", s.Game, s.Emission, s.Block, s.Reason)
	return err
}

// Suspended tells whether central has suspended this terminal, and a block by its game,
// its emission or its own number in it.
func (l *Ledger) Suspended(ctx context.Context, game, emission string, block int) (terminal, ofGame bool, err error) {
	err = l.read.QueryRowContext(ctx, `SELECT coalesce(max(game = ''), 0), coalesce(max(game <> ''), 0) FROM suspensions
		WHERE game = '' OR game = ?1 AND emission IN ('', ?2) AND block IN (0, ?3)`, game, emission, block).Scan(&terminal, &ofGame)
	if err != nil {
		return false, false, fmt.Errorf("whether game %.64q is suspended: %w", game, l.seen(err))
	}
	return terminal, ofGame, nil
}

// Suspensions lists what central has suspended; a game of "" is this terminal.
func (l *Ledger) Suspensions(ctx context.Context) ([]wire.SuspensionItem, error) {
	rows, err := l.read.QueryContext(ctx, "SELECT game, emission, block, reason FROM suspensions ORDER BY game, emission, block")
	if err != nil {
		return nil, fmt.Errorf("suspensions: %w", l.seen(err))
	}
	defer rows.Close()
	var list []wire.SuspensionItem
	for rows.Next() {
		s := wire.SuspensionItem{Suspended: true}
		if err := rows.Scan(&s.Game, &s.Emission, &s.Block, &s.Reason); err != nil {
			return nil, fmt.Errorf("suspensions: %w", l.seen(err))
		}
		list = append(list, s)
	}
	return list, rows.Err()
}
