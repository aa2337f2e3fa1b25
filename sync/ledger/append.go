package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"grattoir/validate"
)

// writing is one transaction of the ledger: entries appended to the chain, and what the
// tables beside it hold of them. The chain's end moves when it is committed, not before.
type writing struct {
	l       *Ledger
	tx      *sql.Tx
	seq     int64 // end of the chain as this transaction leaves it
	prev    Hash
	changed bool
	oldest  Moment // of the first entry appended
}

// write runs act in one transaction and commits what it wrote. The caller holds mu. A
// transaction that wrote nothing is rolled back. The errors are act's own, and
// ErrNotWritable.
func (l *Ledger) write(ctx context.Context, act func(ctx context.Context, w *writing) error) error {
	// The transaction is not tied to ctx: once begun it ends by itself within
	// milliseconds, and a caller who left must not leave doubt behind.
	ctx = context.WithoutCancel(ctx)
	tx, err := l.db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNotWritable, l.seen(err))
	}
	defer func() { _ = tx.Rollback() }()
	w := &writing{l: l, tx: tx, seq: l.seq, prev: l.prev}
	if err := act(ctx, w); err != nil || !w.changed {
		return err
	}
	if err := tx.Commit(); err != nil {
		if w.seq != l.seq { // marks alone are asked again; only an entry's number must not get two bodies
			l.doubt(ctx, err)
		}
		return fmt.Errorf("%w: %w", ErrNotWritable, l.seen(err))
	}
	if w.seq == l.seq {
		return nil
	}
	if l.seq == l.counts.Acked { // by the place, not by a zero time: a lost clock writes that too
		l.counts.Oldest = w.oldest.Device
	}
	l.seq, l.prev = w.seq, w.prev
	close(l.changed)
	l.changed = make(chan struct{})
	return nil
}

// exec changes a table beside the chain.
func (w *writing) exec(ctx context.Context, query string, args ...any) (sql.Result, error) {
	w.changed = true
	res, err := w.tx.ExecContext(ctx, query, args...)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotWritable, w.l.seen(err))
	}
	return res, nil
}

// append adds the next entry to the chain. Body is one of the bodies of entry.go.
func (w *writing) append(ctx context.Context, kind Kind, body any) (validate.EntryNumber, Moment, error) {
	if err := errors.Join(w.l.sickness(), w.l.certain()); err != nil {
		return validate.EntryNumber{}, Moment{}, err
	}
	text, err := encodeJSON(body)
	if err != nil {
		return validate.EntryNumber{}, Moment{}, err
	}
	line, m, err := w.l.line(w.seq+1, w.prev, kind, text)
	if err != nil {
		return validate.EntryNumber{}, Moment{}, err
	}
	hash := hashLine(line)
	if _, err := w.exec(ctx, "INSERT INTO entries(epoch, seq, kind, line, hash) VALUES(?, ?, ?, ?, ?)", w.l.epoch, w.seq+1, kind, line, hash[:]); err != nil {
		return validate.EntryNumber{}, Moment{}, err
	}
	if w.seq == w.l.seq {
		w.oldest = m
	}
	w.seq, w.prev = w.seq+1, hash
	return validate.EntryNumber{Epoch: w.l.epoch, Seq: w.seq}, m, nil
}
