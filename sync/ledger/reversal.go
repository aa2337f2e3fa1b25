package ledger

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"grattoir/sync/wire"
	"grattoir/validate"
)

// A reversal is asked for here and decided by central. Until central has accepted it the
// ticket stays paid. Both the request and the answer are entries, so that the totals
// follow from the journal; the table beside it says where each request stands.

var (
	// ErrReversalExists means that the claim has a reversal already: there is one for each.
	ErrReversalExists = errors.New("the claim has a reversal already")
	// ErrAnswered means that central has answered the reversal otherwise already.
	ErrAnswered = errors.New("the reversal has another answer already")
)

// maxWords bounds the free text of a reversal or a reprint, in bytes.
const maxWords = 200

// RequestReversal asks central to take back the payment of entry r.Number; of r it reads
// ID, Number, Reason, Text, Operator and Manager. The ticket stays paid until central has
// accepted. The same ID again gets the first request. The errors are ErrNotFound,
// ErrReversalExists with the reversal that is there, and ErrNotWritable.
func (l *Ledger) RequestReversal(ctx context.Context, r validate.Reversal) (validate.Reversal, error) {
	if err := checkReversal(r); err != nil {
		return validate.Reversal{}, fmt.Errorf("reversal of entry %v: %w", r.Number, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var standing validate.Reversal
	err := l.write(ctx, func(ctx context.Context, w *writing) error {
		var err error
		if standing, err = reversalWhere(ctx, w.tx, "r.id = ? OR r.claim_epoch = ? AND r.claim_seq = ?", r.ID, r.Number.Epoch, r.Number.Seq); err == nil {
			if standing.ID != r.ID || standing.Number != r.Number {
				return fmt.Errorf("%w: entry %v, %s", ErrReversalExists, standing.Entry, standing.State)
			}
			return nil
		} else if !errors.Is(err, ErrNotFound) {
			return err
		}
		c, err := l.receipt(ctx, w.tx, "p.epoch = ? AND p.seq = ?", r.Number.Epoch, r.Number.Seq)
		if err != nil {
			return err
		}
		r.Claim, r.Ticket, r.Round, r.Amount, r.Currency, r.State = c.ID, c.Ticket, c.Round, c.Amount, c.Currency, validate.ReversalRequested
		standing, err = w.reverse(ctx, r)
		return err
	})
	if err != nil {
		return standing, fmt.Errorf("reversal of entry %v: %w", r.Number, err)
	}
	return standing, nil
}

func (w *writing) reverse(ctx context.Context, r validate.Reversal) (validate.Reversal, error) {
	n, m, err := w.append(ctx, KindReversal, ReversalBody{Reversal: r.ID, Claim: r.Claim, Number: r.Number, Block: r.Ticket.Block, Pack: r.Ticket.Pack, Ticket: r.Ticket.Number,
		Round: r.Round, AmountMinor: r.Amount, Currency: r.Currency, Reason: r.Reason, Text: r.Text, Operator: r.Operator, Manager: r.Manager})
	if err != nil {
		return r, err
	}
	r.Entry, r.At, r.Answer = n, m.Device, ""
	_, err = w.exec(ctx, "INSERT INTO reversals(id, claim_epoch, claim_seq, epoch, seq, state) VALUES(?, ?, ?, ?, ?, ?)",
		r.ID, r.Number.Epoch, r.Number.Seq, n.Epoch, n.Seq, r.State)
	return r, err
}

func checkReversal(r validate.Reversal) error {
	if raw, err := hex.DecodeString(r.ID); err != nil || len(raw) != 16 || hex.EncodeToString(raw) != r.ID {
		return fmt.Errorf("id %.40q: want 32 lower-case hexadecimal digits", r.ID)
	}
	if !slices.Contains(validate.ReversalReasons(), r.Reason) {
		return fmt.Errorf("reason %.40q: want one of %v", r.Reason, validate.ReversalReasons())
	}
	if r.Reason == validate.OtherReason && r.Text == "" {
		return errors.New("the reason \"other\" needs words of its own")
	}
	return errors.Join(checkWords(r.Text), checkName("operator", r.Operator), checkName("manager", r.Manager))
}

func checkWords(text string) error {
	if len(text) > maxWords || text != short(text, maxWords) {
		return fmt.Errorf("words of %d bytes: want at most %d printable ones, without quotes or backslashes", len(text), maxWords)
	}
	return nil
}

// ReversalAnswer stores central's answer to a reversal. Accepted frees the ticket for its
// next round. The same answer again changes nothing; another one is ErrAnswered. A
// reversal that this ledger never asked for is ErrNotFound.
func (l *Ledger) ReversalAnswer(ctx context.Context, id string, accepted bool, reason string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.write(ctx, func(ctx context.Context, w *writing) error { return w.answer(ctx, id, accepted, reason) })
	if err != nil {
		return fmt.Errorf("answer to reversal %.40q: %w", id, err)
	}
	return nil
}

func (w *writing) answer(ctx context.Context, id string, accepted bool, reason string) error {
	r, err := reversalWhere(ctx, w.tx, "r.id = ?", id)
	if err != nil {
		return err
	}
	state := validate.ReversalRefused
	if accepted {
		state = validate.ReversalAccepted
	}
	switch r.State {
	case state:
		return nil
	case validate.ReversalRequested:
	default:
		return fmt.Errorf("%w: %s", ErrAnswered, r.State)
	}
	reason = short(reason, maxWords)
	n, _, err := w.append(ctx, KindReversalAnswer, ReversalAnswerBody{Reversal: r.ID, Claim: r.Claim, Block: r.Ticket.Block, Pack: r.Ticket.Pack, Ticket: r.Ticket.Number,
		Round: r.Round, AmountMinor: r.Amount, Currency: r.Currency, Accepted: accepted, Reason: reason})
	if err != nil {
		return err
	}
	_, err = w.exec(ctx, "UPDATE reversals SET state = ?, reason = ?, answer_epoch = ?, answer_seq = ? WHERE id = ?", state, reason, n.Epoch, n.Seq, id)
	return err
}

// answered takes an answer from the feed. One that fits no request here is stepped over:
// the ledger was begun anew since, and the feed must go on.
func (w *writing) answered(ctx context.Context, item wire.ReversalItem) error {
	r, err := reversalWhere(ctx, w.tx, "r.id = ?", item.Reversal)
	if errors.Is(err, ErrNotFound) || err == nil && r.Claim != item.Claim {
		return nil
	}
	if err == nil {
		err = w.answer(ctx, item.Reversal, item.Accepted, item.Reason)
	}
	if errors.Is(err, ErrAnswered) {
		return nil // the first answer stands
	}
	return err
}

// Reversal is the reversal of a claim's entry, or ErrNotFound.
func (l *Ledger) Reversal(ctx context.Context, claim validate.EntryNumber) (validate.Reversal, error) {
	return reversalWhere(ctx, l.read, "r.claim_epoch = ? AND r.claim_seq = ?", claim.Epoch, claim.Seq)
}

// ReversalOf is Reversal, with nil for none.
func (l *Ledger) ReversalOf(ctx context.Context, claim validate.EntryNumber) (*validate.Reversal, error) {
	r, err := l.Reversal(ctx, claim)
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	return &r, err
}

func reversalWhere(ctx context.Context, q querier, where string, args ...any) (validate.Reversal, error) {
	var r validate.Reversal
	var line []byte
	err := q.QueryRowContext(ctx, "SELECT r.state, r.reason, e.line FROM reversals r JOIN entries e ON e.epoch = r.epoch AND e.seq = r.seq WHERE "+where+" LIMIT 1", args...).Scan(&r.State, &r.Answer, &line)
	if errors.Is(err, sql.ErrNoRows) {
		return r, ErrNotFound
	}
	if err != nil {
		return r, err
	}
	e, err := ParseEntry(line)
	if err == nil {
		err = fillReversal(&r, e)
	}
	if err != nil {
		return r, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return r, nil
}

func fillReversal(r *validate.Reversal, e Entry) error {
	b, err := e.Reversal()
	if err != nil {
		return err
	}
	r.ID, r.Claim, r.Number, r.Round, r.Amount, r.Currency = b.Reversal, b.Claim, b.Number, b.Round, b.AmountMinor, b.Currency
	r.Ticket = validate.TicketKey{Block: b.Block, Pack: b.Pack, Number: b.Ticket}
	r.Reason, r.Text, r.Operator, r.Manager = b.Reason, b.Text, b.Operator, b.Manager
	r.Entry = validate.EntryNumber{Epoch: e.Epoch, Seq: e.Seq}
	r.At, err = parseTime(e.Time)
	return err
}

// Round is the round in which the ticket would be paid now: its accepted reversals so
// far. A claim of a round above 0 needs a grant from central.
func (l *Ledger) Round(ctx context.Context, t validate.TicketKey) (int, error) {
	if any, err := l.claimed(ctx, l.read, t); err != nil || !any {
		return 0, err
	}
	return roundOf(ctx, l.read, t)
}

func roundOf(ctx context.Context, q querier, t validate.TicketKey) (n int, err error) {
	err = q.QueryRowContext(ctx, `SELECT count(*) FROM claims c JOIN reversals r ON r.claim_epoch = c.epoch AND r.claim_seq = c.seq
		WHERE c.block = ? AND c.pack = ? AND c.ticket = ? AND r.state = 'accepted'`, t.Block[:], t.Pack, t.Number).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("round of ticket %d of pack %d: %w", t.Number, t.Pack, err)
	}
	return n, nil
}

// mayClaimRound is nil for round 0, whose row in the table of claims says all, for the
// round that accepted reversals have opened, and for the one that central has allowed:
// the payments before it may have been made and taken back elsewhere.
func mayClaimRound(ctx context.Context, q querier, c validate.Claim) error {
	if c.Round == 0 || c.Right == validate.RightGrant {
		return nil
	}
	round, err := roundOf(ctx, q, c.Ticket)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNotWritable, err)
	}
	if round != c.Round {
		return fmt.Errorf("%w: %d reversals of it were accepted, the claim is of round %d", ErrRound, round, c.Round)
	}
	return nil
}
