package ledger

import (
	"context"
	"fmt"

	"grattoir/sync/wire"
)

// keptExceptions are the newest that stay here: central keeps all of them.
const keptExceptions = 500

// setException takes what central says of an entry that it did not credit.
func (w *writing) setException(ctx context.Context, x wire.ExceptionItem) error {
	if x.Epoch < 1 || x.Seq < 1 || x.Kind == "" || len(x.Kind) > 64 || len(x.Text) > wire.MaxReason || len(x.Settled) > 64 {
		return fmt.Errorf("%w: no whole exception", ErrFeed)
	}
	if _, err := w.exec(ctx, `INSERT INTO exceptions(epoch, seq, kind, text, settled, heard) VALUES(?, ?, ?, ?, ?, ?)
		ON CONFLICT(epoch, seq) DO UPDATE SET kind = excluded.kind, text = excluded.text, settled = excluded.settled`,
		x.Epoch, x.Seq, x.Kind, short(x.Text, wire.MaxReason), x.Settled, timeText(w.l.opt.Moment().Device)); err != nil {
		return err
	}
	_, err := w.exec(ctx, `DELETE FROM exceptions WHERE (epoch, seq) IN (SELECT epoch, seq FROM exceptions ORDER BY epoch DESC, seq DESC LIMIT -1 OFFSET ?)`, keptExceptions)
	return err
}

// Exceptions are the entries that central did not credit, as far as it has told, the
// newest first, and at most so many; those that operations settled last.
func (l *Ledger) Exceptions(ctx context.Context, most int) ([]wire.ExceptionItem, error) {
	rows, err := l.read.QueryContext(ctx, "SELECT epoch, seq, kind, text, settled FROM exceptions ORDER BY settled <> '', epoch DESC, seq DESC LIMIT ?", most)
	if err != nil {
		return nil, fmt.Errorf("exceptions: %w", l.seen(err))
	}
	defer rows.Close()
	var list []wire.ExceptionItem
	for rows.Next() {
		var x wire.ExceptionItem
		if err := rows.Scan(&x.Epoch, &x.Seq, &x.Kind, &x.Text, &x.Settled); err != nil {
			return nil, fmt.Errorf("exceptions: %w", l.seen(err))
		}
		list = append(list, x)
	}
	return list, rows.Err()
}

// OpenExceptions counts those that operations have not settled.
func (l *Ledger) OpenExceptions(ctx context.Context) (n int64, err error) {
	err = l.read.QueryRowContext(ctx, "SELECT count(*) FROM exceptions WHERE settled = ''").Scan(&n)
	if err != nil {
		err = fmt.Errorf("exceptions: %w", l.seen(err))
	}
	return n, err
}
