package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"grattoir/validate"
)

// closeChecker adds a journal up again, from its first entry, and holds every closing,
// and the tables beside the chain, against it.
type closeChecker struct {
	q         querier
	books     *books
	closings  int64
	reversals int64
	rights    bool // the file has tables of who may pay
}

// newCloseChecker makes one for a file of a schema version, or with a nil q for lines
// without tables.
func newCloseChecker(q querier, version int) *closeChecker {
	if version < 3 {
		q = nil // before there were closings
	}
	return &closeChecker{q: q, books: newBooks(), rights: version >= 4}
}

// entry takes the next entry of the journal.
func (k *closeChecker) entry(ctx context.Context, e Entry) error {
	k.books.start(validate.EntryNumber{Epoch: e.Epoch, Seq: e.Seq})
	var err error
	switch e.Kind {
	case KindClosing:
		err = k.closing(ctx, e)
	case KindReversal:
		err = k.reversal(ctx, e)
	case KindReversalAnswer:
		err = k.answer(ctx, e)
	case KindTraining:
		_, err = e.Training()
	case KindArchive:
		_, err = e.Archive()
	case KindAuditHeads:
		_, err = e.AuditHeads()
	case KindBookedRisk:
		_, err = e.BookedRisk()
	case KindRelease:
		err = k.release(ctx, e)
	case KindPackActivated:
		_, err = e.PackActivated()
	case KindPackSettled:
		_, err = e.PackSettled()
	case KindMessageRead:
		_, err = e.MessageRead()
	case KindAttempt:
		_, err = e.Attempt()
	case KindMisprint:
		_, err = e.Misprint()
	}
	if err != nil {
		return err
	}
	return k.books.add(e)
}

func (k *closeChecker) closing(ctx context.Context, e Entry) error {
	c, err := e.Closing()
	if err != nil {
		return err
	}
	if err := k.books.check(c); err != nil {
		return err
	}
	k.closings++
	if k.q == nil { // an archive has no tables
		return nil
	}
	var at validate.EntryNumber
	var period string
	err = k.q.QueryRowContext(ctx, "SELECT period, epoch, seq FROM closings WHERE kind = ? AND number = ?", c.Kind, c.Number).Scan(&period, &at.Epoch, &at.Seq)
	if err != nil || period != c.Period || at.Epoch != e.Epoch || at.Seq != e.Seq {
		return fmt.Errorf("the table of closings does not have the %s's number %d here: %w", c.Kind, c.Number, orGone(err))
	}
	return nil
}

func (k *closeChecker) reversal(ctx context.Context, e Entry) error {
	b, err := e.Reversal()
	if err != nil {
		return err
	}
	k.reversals++
	if k.q == nil {
		return nil
	}
	claim, err := readEntry(ctx, k.q, b.Number)
	if err != nil {
		return fmt.Errorf("the claim that it takes back: %w", err)
	}
	c, err := claim.Claim()
	if err != nil {
		return err
	}
	if c.Claim != b.Claim || c.Block != b.Block || c.Pack != b.Pack || c.Ticket != b.Ticket || c.Round != b.Round || c.AmountMinor != int64(b.AmountMinor) || c.Currency != b.Currency {
		return fmt.Errorf("it takes back entry %v, which says otherwise", b.Number)
	}
	var at, number validate.EntryNumber
	err = k.q.QueryRowContext(ctx, "SELECT epoch, seq, claim_epoch, claim_seq FROM reversals WHERE id = ?", b.Reversal).Scan(&at.Epoch, &at.Seq, &number.Epoch, &number.Seq)
	if err != nil || at.Epoch != e.Epoch || at.Seq != e.Seq || number != b.Number {
		return fmt.Errorf("the table of reversals does not have it: %w", orGone(err))
	}
	return k.waiting(ctx, b.Reversal)
}

// waiting is nil when a reversal without an answer says so. One with an answer is held
// against it when the walk comes there.
func (k *closeChecker) waiting(ctx context.Context, id string) error {
	var state validate.ReversalState
	var answer sql.NullInt64
	if err := k.q.QueryRowContext(ctx, "SELECT state, answer_seq FROM reversals WHERE id = ?", id).Scan(&state, &answer); err != nil {
		return err
	}
	if !answer.Valid && state != validate.ReversalRequested {
		return fmt.Errorf("the table of reversals says %.20q, and no entry does", state)
	}
	return nil
}

func (k *closeChecker) answer(ctx context.Context, e Entry) error {
	b, err := e.ReversalAnswer()
	if err != nil || k.q == nil {
		return err
	}
	r, err := reversalWhere(ctx, k.q, "r.id = ?", b.Reversal)
	if err != nil {
		return fmt.Errorf("the reversal that it answers: %w", err)
	}
	var at validate.EntryNumber
	err = k.q.QueryRowContext(ctx, "SELECT answer_epoch, answer_seq FROM reversals WHERE id = ?", b.Reversal).Scan(&at.Epoch, &at.Seq)
	switch {
	case err != nil || at.Epoch != e.Epoch || at.Seq != e.Seq || (r.State == validate.ReversalAccepted) != b.Accepted || r.State == validate.ReversalRequested:
		return fmt.Errorf("the table of reversals does not have this answer: %w", orGone(err))
	case r.Claim != b.Claim || r.Ticket != validate.TicketKey{Block: b.Block, Pack: b.Pack, Number: b.Ticket} || r.Round != b.Round || r.Amount != b.AmountMinor || r.Currency != b.Currency:
		return errors.New("it answers a reversal that says otherwise")
	}
	return nil
}

// done finds rows beside the chain that no entry has. Rows above the head were appended
// meanwhile, with their entries.
func (k *closeChecker) done(ctx context.Context, head Head) error {
	if k.q == nil {
		return nil
	}
	for _, table := range []struct {
		name string
		want int64
	}{{"closings", k.closings}, {"reversals", k.reversals}} {
		var n int64
		err := k.q.QueryRowContext(ctx, "SELECT count(*) FROM "+table.name+" WHERE NOT (epoch = ? AND seq > ?)", head.Epoch, head.Seq).Scan(&n)
		if err != nil {
			return fmt.Errorf("%w: %s: %w", ErrDamaged, table.name, err)
		}
		if n != table.want {
			return fmt.Errorf("%w: %d %s in the chain, %d rows in the table", ErrDamaged, table.want, table.name, n)
		}
	}
	return nil
}
