package ledger

import (
	"context"
	"fmt"

	"grattoir/validate"
)

// attemptTables remember which attempts central is told of: one entry a ticket and reason,
// so that nobody fills the journal by scanning one ticket all day.
var attemptTables = []string{
	`CREATE TABLE reported(block BLOB NOT NULL, pack INTEGER NOT NULL, ticket INTEGER NOT NULL, reason TEXT NOT NULL, epoch INTEGER NOT NULL, seq INTEGER NOT NULL,
		PRIMARY KEY(block, pack, ticket, reason)) STRICT, WITHOUT ROWID`,
}

// AttemptBody says that somebody presented a ticket that central wants to hear of: it is
// reported stolen, or too many secrets of it were tried. Nothing was paid.
type AttemptBody struct {
	Block    validate.BlockID `json:"block"`
	Pack     uint32           `json:"pack"`
	Ticket   uint16           `json:"ticket"`
	Reason   validate.Reason  `json:"reason"` // pack-stolen or too-many-attempts
	Failed   int              `json:"failed"` // secrets of the ticket that failed here so far
	Operator string           `json:"operator"`
	Entered  validate.Entered `json:"entered"`
}

// Attempt reads the body of an attempt entry.
func (e Entry) Attempt() (AttemptBody, error) { return bodyOf[AttemptBody](e, KindAttempt) }

// Report records an attempt, so that central hears of it whenever the network is back. The
// first of a ticket and reason is an entry; others change nothing, nor does one in training.
// The errors are ErrNotWritable and those of a reason that is none of the two.
func (l *Ledger) Report(ctx context.Context, a validate.Attempt) error {
	fail := func(err error) error {
		return fmt.Errorf("report ticket %d of pack %d: %w", a.Ticket.Number, a.Ticket.Pack, err)
	}
	if a.Reason != validate.PackStolen && a.Reason != validate.TooManyAttempts {
		return fail(fmt.Errorf("%w: a %.40q is nothing that central is told of", ErrEntry, a.Reason))
	}
	if err := checkActor(a.Operator); err != nil {
		return fail(err)
	}
	known := false
	const of = "SELECT EXISTS (SELECT 1 FROM reported WHERE block = ? AND pack = ? AND ticket = ? AND reason = ?)"
	key := []any{a.Ticket.Block[:], a.Ticket.Pack, a.Ticket.Number, a.Reason}
	if err := l.read.QueryRowContext(ctx, of, key...).Scan(&known); err != nil || known {
		return l.seen(err)
	}
	failed, err := l.Attempts(ctx, a.Ticket)
	if err != nil {
		return fail(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.training {
		return nil
	}
	if err := l.held(); err != nil {
		return fail(err)
	}
	err = l.write(ctx, func(ctx context.Context, w *writing) error {
		if err := w.tx.QueryRowContext(ctx, of, key...).Scan(&known); err != nil || known {
			return err
		}
		n, _, err := w.append(ctx, KindAttempt, AttemptBody{Block: a.Ticket.Block, Pack: a.Ticket.Pack, Ticket: a.Ticket.Number, Reason: a.Reason, Failed: failed, Operator: a.Operator, Entered: a.Entered})
		if err != nil {
			return err
		}
		_, err = w.exec(ctx, insertReported, a.Ticket.Block[:], a.Ticket.Pack, a.Ticket.Number, a.Reason, n.Epoch, n.Seq)
		return err
	})
	if err != nil {
		return fail(err)
	}
	return nil
}

const insertReported = "INSERT INTO reported(block, pack, ticket, reason, epoch, seq) VALUES(?, ?, ?, ?, ?, ?) ON CONFLICT(block, pack, ticket, reason) DO NOTHING"

func (in *intake) attempt(e Entry) error {
	a, err := e.Attempt()
	if err != nil {
		return err
	}
	return in.exec(insertReported, a.Block[:], a.Pack, a.Ticket, a.Reason, e.Epoch, e.Seq)
}
