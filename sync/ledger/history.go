package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"grattoir/validate"
)

// AppendReprint counts one more copy of a slip that somebody at the counter asked for,
// durably, before its first byte is sent; the receipt says which copy it is.
func (l *Ledger) AppendReprint(ctx context.Context, n validate.EntryNumber, operator, why string) (validate.Receipt, error) {
	err := checkWords(why)
	if operator != "" { // nobody signed on
		err = errors.Join(err, checkName("operator", operator))
	}
	if err != nil {
		return validate.Receipt{}, fmt.Errorf("reprint of entry %v: %w", n, err)
	}
	return l.beginCopy(ctx, n, ReprintBody{Kind: ReprintAsked, Operator: operator, Why: why})
}

// BeginCopy is AppendReprint for a copy that the terminal makes by itself, because the
// one before may have been cut off. From copy 2 on a slip is a DUPLICATA.
func (l *Ledger) BeginCopy(ctx context.Context, n validate.EntryNumber) (validate.Receipt, error) {
	return l.beginCopy(ctx, n, ReprintBody{Kind: ReprintAuto})
}

func (l *Ledger) beginCopy(ctx context.Context, n validate.EntryNumber, body ReprintBody) (validate.Receipt, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var r validate.Receipt
	err := l.write(ctx, func(ctx context.Context, w *writing) error {
		var err error
		if r, err = l.receipt(ctx, w.tx, "p.epoch = ? AND p.seq = ?", n.Epoch, n.Seq); err != nil {
			return err
		}
		r.Copies, r.Print = r.Copies+1, validate.Sending
		body.Claim, body.Number, body.Block, body.Currency, body.Copy = r.ID, n, r.Ticket.Block, r.Currency, r.Copies
		if _, _, err := w.append(ctx, KindReprint, body); err != nil {
			return err
		}
		_, err = w.exec(ctx, "UPDATE prints SET state = ?, copies = ? WHERE epoch = ? AND seq = ?", r.Print, r.Copies, n.Epoch, n.Seq)
		return err
	})
	if err != nil {
		return validate.Receipt{}, fmt.Errorf("begin a copy of entry %v: %w", n, err)
	}
	l.wait(n, true)
	return r, nil
}

// History gives the newest acts of the counter, newest first: claims, reversals, reprints,
// misprints that were taken in and closings. It comes from the ledger alone, so it is the same after a restart.
func (l *Ledger) History(ctx context.Context, n int) ([]validate.Transaction, error) {
	tx, err := l.read.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	defer func() { _ = tx.Rollback() }()
	var entries []Entry
	err = eachEntry(ctx, tx, "WHERE kind IN ('claim', 'carried-claim', 'reversal', 'reprint', 'misprint', 'closing') ORDER BY epoch DESC, seq DESC LIMIT ?", []any{n}, func(e Entry) error {
		entries = append(entries, e)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	list := make([]validate.Transaction, 0, len(entries))
	for _, e := range entries {
		t, err := l.transaction(ctx, tx, e)
		if err != nil {
			return nil, fmt.Errorf("history: entry %d-%d: %w", e.Epoch, e.Seq, err)
		}
		list = append(list, t)
	}
	return list, nil
}

func (l *Ledger) transaction(ctx context.Context, q querier, e Entry) (validate.Transaction, error) {
	t := validate.Transaction{Entry: validate.EntryNumber{Epoch: e.Epoch, Seq: e.Seq}}
	var err error
	if t.At, err = parseTime(e.Time); err != nil {
		return t, err
	}
	switch e.Kind {
	case KindClaim, KindCarriedClaim:
		r, err := l.receipt(ctx, q, "p.epoch = ? AND p.seq = ?", e.Epoch, e.Seq)
		t.Claim = &r
		return t, err
	case KindReversal:
		r, err := reversalWhere(ctx, q, "r.epoch = ? AND r.seq = ?", e.Epoch, e.Seq)
		t.Reversal = &r
		return t, err
	case KindReprint:
		b, err := e.Reprint()
		t.Reprint = &validate.Reprint{Number: b.Number, Copy: b.Copy, Auto: b.Kind == ReprintAuto, Operator: b.Operator, Why: b.Why, Entry: t.Entry, At: t.At}
		return t, err
	case KindMisprint:
		m, err := misprintOf(e)
		t.Misprint = &m
		return t, err
	}
	c, err := closingOf(e)
	t.Closing = &c
	return t, err
}

// Closing returns the closing of an entry. The error is ErrNotFound where the entry is
// none, or is no closing.
func (l *Ledger) Closing(ctx context.Context, n validate.EntryNumber) (validate.Closing, error) {
	var found *validate.Closing
	err := eachEntry(ctx, l.read, "WHERE kind = 'closing' AND epoch = ? AND seq = ?", []any{n.Epoch, n.Seq}, func(e Entry) error {
		c, err := closingOf(e)
		found = &c
		return err
	})
	if err == nil && found == nil {
		err = ErrNotFound
	}
	if err != nil {
		return validate.Closing{}, fmt.Errorf("closing %v: %w", n, err)
	}
	return *found, nil
}

// closingOf is a closing's entry as a report.
func closingOf(e Entry) (validate.Closing, error) {
	c := validate.Closing{Terminal: e.Terminal, Entry: validate.EntryNumber{Epoch: e.Epoch, Seq: e.Seq}}
	line, err := e.encode()
	if err != nil {
		return c, err
	}
	c.Hash = hashLine(line).String()
	var err1, err2, err3 error
	c.ClosingFacts, err1 = e.Closing()
	c.At, err2 = parseTime(e.Time)
	c.Trusted, err3 = parseTime(e.Trusted)
	return c, errors.Join(err1, err2, err3)
}
