package central

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"grattoir/sync/wire"
	"grattoir/validate"
)

// Reversal is a payment that a terminal asks to take back, and what was decided.
type Reversal struct {
	Terminal string                  `json:"terminal"`
	Number   string                  `json:"claim_number"` // ledger number of the payment, which names the request
	Block    validate.BlockID        `json:"block"`
	Pack     uint32                  `json:"pack"`
	Ticket   uint16                  `json:"ticket"`
	Round    int                     `json:"round"`
	Minor    int64                   `json:"amount_minor"`
	Currency string                  `json:"currency"`
	Reason   validate.ReversalReason `json:"reason"`
	Text     string                  `json:"text"` // the clerk's words
	Operator string                  `json:"operator"`
	Manager  string                  `json:"manager"`
	State    validate.ReversalState  `json:"state"`
	Answer   string                  `json:"answer"`
	Received time.Time               `json:"received"`
	Decided  time.Time               `json:"decided"` // zero before

	id, claim string
}

// maxAnswer bounds central's words on a reversal, in bytes.
const maxAnswer = 200

// reversal keeps the request of an entry. A terminal asks once for each claim; what it
// asks again stays in its journal and changes nothing.
func (in *intake) reversal(ctx context.Context, l line) error {
	b, err := l.entry.Reversal()
	if err != nil {
		return err
	}
	_, err = in.tx.ExecContext(ctx, `INSERT INTO reversals(block_id, pack, ticket, round, terminal, reversal, claim, claim_epoch, claim_seq, epoch, seq,
		amount_minor, currency, reason, text, operator, manager, asked, received, state)
		VALUES($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20)
		ON CONFLICT(block_id, pack, ticket, round, terminal) DO NOTHING`,
		b.Block[:], b.Pack, b.Ticket, b.Round, in.who.name, plain(b.Reversal), plain(b.Claim), b.Number.Epoch, b.Number.Seq, in.epoch, l.seq,
		int64(b.AmountMinor), plain(b.Currency), plain(b.Reason), plain(b.Text), plain(b.Operator), plain(b.Manager), plain(l.entry.Time), in.now, validate.ReversalRequested)
	return err
}

const reversalColumns = `terminal, claim_epoch, claim_seq, block_id, pack, ticket, round, amount_minor, currency, reason, text, operator, manager, state, answer, received, decided, reversal, claim`

func scanReversal(scan func(...any) error) (Reversal, error) {
	var r Reversal
	var number validate.EntryNumber
	var id []byte
	var received, decided string
	err := scan(&r.Terminal, &number.Epoch, &number.Seq, &id, &r.Pack, &r.Ticket, &r.Round, &r.Minor, &r.Currency, &r.Reason, &r.Text, &r.Operator, &r.Manager,
		&r.State, &r.Answer, &received, &decided, &r.id, &r.claim)
	if err != nil {
		return r, err
	}
	copy(r.Block[:], id)
	r.Number = number.String()
	if r.Received, err = wire.ParseTime(received); err == nil && decided != "" {
		r.Decided, err = wire.ParseTime(decided)
	}
	return r, err
}

// Reversals lists requests as they were received: those that wait for a decision, or all.
func (c *Central) Reversals(ctx context.Context, all bool) ([]Reversal, error) {
	rows, err := c.store.reader().QueryContext(ctx, "SELECT "+reversalColumns+" FROM reversals WHERE state = $1 OR $2 ORDER BY received, terminal, claim_epoch, claim_seq",
		validate.ReversalRequested, all)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	list := []Reversal{}
	for rows.Next() {
		r, err := scanReversal(rows.Scan)
		if err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	return list, rows.Err()
}

// Decide answers a request, named by its terminal and the payment's ledger number.
// Accepted opens the ticket's next round; the terminal hears of either in its feed. Only
// a payment that is credited here can be accepted back. The errors are ErrNotFound and
// ErrRefused.
func (c *Central) Decide(ctx context.Context, terminal string, number validate.EntryNumber, accepted bool, words string) (Reversal, error) {
	fail := func(err error) (Reversal, error) {
		return Reversal{}, fmt.Errorf("reversal of entry %v of terminal %.64q: %w", number, terminal, err)
	}
	if len(words) > maxAnswer {
		return fail(because(BecauseReasonTooLong, fmt.Errorf("%w: %d bytes of reason, at most %d", ErrRefused, len(words), maxAnswer), len(words), maxAnswer))
	}
	var r Reversal
	var newest int64
	err := c.store.change(ctx, func(ctx context.Context, tx *sql.Tx) error {
		var err error
		r, err = scanReversal(tx.QueryRowContext(ctx, "UPDATE reversals SET state = state WHERE terminal = $1 AND claim_epoch = $2 AND claim_seq = $3 RETURNING "+reversalColumns,
			terminal, number.Epoch, number.Seq).Scan)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return because(BecauseReversalUnknown, fmt.Errorf("%w: the terminal has not asked for it, or its journal is late (central reversal list)", ErrNotFound))
		case err != nil:
			return err
		case r.State != validate.ReversalRequested:
			return because(BecauseReversalDecided, fmt.Errorf("%w: it was %s on %s", ErrRefused, r.State, wire.FormatTime(r.Decided)), r.State, r.Decided)
		}
		if accepted {
			if err := creditedHere(ctx, tx, r, number); err != nil {
				return err
			}
			if err := c.sumReversed(ctx, tx, r); err != nil {
				return fmt.Errorf("sums of the claims: %w", err)
			}
		}
		newest, err = r.decide(ctx, tx, accepted, words, c.now())
		return err
	})
	if err != nil {
		return fail(err)
	}
	c.feed.added(newest)
	c.opt.Log.Info("reversal decided", "terminal", terminal, "number", number.String(), "state", r.State)
	return r, nil
}

// decide stores the answer and tells the terminal.
func (r *Reversal) decide(ctx context.Context, tx *sql.Tx, accepted bool, words, now string) (newest int64, err error) {
	r.State, r.Answer = validate.ReversalRefused, words
	if accepted {
		r.State = validate.ReversalAccepted
	}
	if r.Decided, err = wire.ParseTime(now); err != nil {
		return 0, err
	}
	_, err = tx.ExecContext(ctx, "UPDATE reversals SET state = $1, answer = $2, decided = $3 WHERE block_id = $4 AND pack = $5 AND ticket = $6 AND round = $7 AND terminal = $8",
		r.State, r.Answer, now, r.Block[:], r.Pack, r.Ticket, r.Round, r.Terminal)
	if err != nil {
		return 0, err
	}
	return addFeed(ctx, tx, r.Terminal, now, wire.FeedItem{Kind: wire.FeedReversal, Reversal: &wire.ReversalItem{Reversal: r.id, Claim: r.claim, Accepted: accepted, Reason: words}})
}

// creditedHere is nil when the request takes back the very claim that was accepted. A
// claim that was not credited holds no round, so there is nothing to free.
func creditedHere(ctx context.Context, tx *sql.Tx, r Reversal, number validate.EntryNumber) error {
	var claim, terminal, currency string
	var at validate.EntryNumber
	var minor int64
	err := tx.QueryRowContext(ctx, "SELECT claim, terminal, epoch, seq, amount_minor, currency FROM claims WHERE block_id = $1 AND pack = $2 AND ticket = $3 AND round = $4",
		r.Block[:], r.Pack, r.Ticket, r.Round).Scan(&claim, &terminal, &at.Epoch, &at.Seq, &minor, &currency)
	if errors.Is(err, sql.ErrNoRows) || err == nil && (claim != r.claim || terminal != r.Terminal || at != number || minor != r.Minor || currency != r.Currency) {
		return because(BecauseReversalNotCredited, fmt.Errorf("%w: the payment is not credited here as the request has it, so there is nothing to free: refuse it, and see the conflicts", ErrRefused))
	}
	return err
}

// roundOpen tells whether accepted reversals have opened a round of a ticket.
func roundOpen(ctx context.Context, tx *sql.Tx, block validate.BlockID, pack uint32, ticket uint16, round int) (bool, error) {
	if round == 0 {
		return true, nil
	}
	var n int
	err := tx.QueryRowContext(ctx, "SELECT count(*) FROM reversals WHERE block_id = $1 AND pack = $2 AND ticket = $3 AND round = $4 AND state = $5",
		block[:], pack, ticket, round-1, validate.ReversalAccepted).Scan(&n)
	return n > 0, err
}
