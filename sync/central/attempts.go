package central

import (
	"context"

	"grattoir/sync/ledger"
	"grattoir/validate"
)

// attempt keeps that a ticket was presented which nobody should have, or of which somebody
// tried the secrets. A terminal tells it once; the row is the same however often it comes.
func (in *intake) attempt(ctx context.Context, l line) error {
	b, err := l.entry.Attempt()
	if err != nil {
		return err
	}
	return in.keepAttempt(ctx, l, b)
}

// misprint keeps that a misprinted ticket was refunded or exchanged, beside the tickets that
// were presented: the same rows, once a ticket and terminal. What it came to is in the
// terminal's closings.
func (in *intake) misprint(ctx context.Context, l line) error {
	b, err := l.entry.Misprint()
	if err != nil {
		return err
	}
	return in.keepAttempt(ctx, l, ledger.AttemptBody{Block: b.Block.Block, Pack: b.Pack, Ticket: b.Ticket, Reason: validate.Misprint, Operator: b.Operator, Entered: b.Entered})
}

func (in *intake) keepAttempt(ctx context.Context, l line, b ledger.AttemptBody) error {
	in.c.opt.Log.Warn("a ticket was presented", "terminal", in.who.name, "reason", plain(b.Reason), "pack", b.Pack, "ticket", b.Ticket, "failed", b.Failed)
	_, err := in.tx.ExecContext(ctx, `INSERT INTO attempts(block_id, pack, ticket, reason, terminal, epoch, seq, failed, operator, entered, tried, received)
		VALUES($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) ON CONFLICT(block_id, pack, ticket, reason, terminal) DO NOTHING`,
		b.Block[:], b.Pack, b.Ticket, plain(b.Reason), in.who.name, in.epoch, l.seq, b.Failed, plain(b.Operator), plain(b.Entered), plain(l.entry.Time), in.now)
	return err
}

// Attempt is a ticket that was presented at a terminal: reported stolen, with too many
// wrong secrets, or misprinted and taken in.
type Attempt struct {
	Terminal string           `json:"terminal"`
	Number   string           `json:"number"` // of the entry that tells it
	Reason   validate.Reason  `json:"reason"` // pack-stolen, too-many-attempts, misprint
	Block    validate.BlockID `json:"block"`
	GameCode string           `json:"game_code"` // "" where the pack is not known
	Pack     uint32           `json:"pack"`
	Ticket   uint16           `json:"ticket"`
	Failed   int64            `json:"failed"` // secrets that had failed there
	Operator string           `json:"operator"`
	Entered  string           `json:"entered"` // scan, typed
	Tried    string           `json:"tried"`   // by the terminal's clock, a hint
	Received string           `json:"received"`
}

// Attempts lists tickets that were presented, the newest first, at one terminal or with ""
// at all.
func (c *Central) Attempts(ctx context.Context, terminal string) ([]Attempt, error) {
	list := []Attempt{}
	err := eachRow(ctx, c.store.reader(), `SELECT a.terminal, a.epoch, a.seq, a.reason, a.block_id, coalesce(p.game_code, ''), a.pack, a.ticket, a.failed, a.operator, a.entered, a.tried, a.received
		FROM attempts a LEFT JOIN packs p ON p.block_id = a.block_id AND p.pack = a.pack WHERE $1 IN ('', a.terminal) ORDER BY a.received DESC, a.terminal, a.epoch, a.seq`, func(row scanner) error {
		var x Attempt
		var id []byte
		var n validate.EntryNumber
		err := row.Scan(&x.Terminal, &n.Epoch, &n.Seq, &x.Reason, &id, &x.GameCode, &x.Pack, &x.Ticket, &x.Failed, &x.Operator, &x.Entered, &x.Tried, &x.Received)
		if err == nil {
			x.Block, err = blockID(id)
		}
		x.Number = n.String()
		list = append(list, x)
		return err
	}, terminal)
	return list, err
}
