package ledger

import (
	"context"
	"encoding/json"
	"fmt"

	"grattoir/sync/wire"
)

// Standing is what this terminal may pay, for a central that was put back and has
// forgotten what it said after its backup: the packs that are owned and not released, the
// claims that it allowed and that are not paid, or by an entry behind the position that it
// holds, the tickets held by feed items after feed, and those paid elsewhere. It is of one moment: nothing is
// written between its parts. Protocol and mark are the caller's.
func (l *Ledger) Standing(ctx context.Context, held wire.Position, feed int64) (wire.Standing, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var s wire.Standing
	if err := l.certain(); err != nil {
		return s, err
	}
	err := l.rights(ctx, &s, held, feed)
	if err != nil {
		return wire.Standing{}, fmt.Errorf("what this terminal may pay: %w", l.seen(err))
	}
	return s, nil
}

func (l *Ledger) rights(ctx context.Context, s *wire.Standing, held wire.Position, feed int64) error {
	own, err := packRuns(ctx, l.db, "owner = ?", l.opt.Terminal)
	if err != nil {
		return err
	}
	for _, p := range own {
		kept, err := keptOf(ctx, l.db, p)
		if err != nil {
			return err
		}
		s.Packs = append(s.Packs, kept...)
	}
	if s.Claims, err = l.permissions(ctx, held); err != nil {
		return err
	}
	if s.Held, err = readHolds(ctx, l.db, "feed > ? ORDER BY feed", feed); err != nil {
		return err
	}
	if s.Paid, err = l.paidElsewhere(ctx); err != nil {
		return err
	}
	s.Returned, err = l.givenBack(ctx)
	return err
}

// newestReturned is how many claims that were given back are told: some months of a shop's,
// and no backup is so old.
const newestReturned = 1000

// givenBack are the newest claims that were given back, oldest first. Those that central has
// not heard of are asked about, and told there.
func (l *Ledger) givenBack(ctx context.Context) ([]wire.ClaimKey, error) {
	rows, err := l.db.QueryContext(ctx, `SELECT claim, block, pack, ticket, round FROM
		(SELECT n, claim, block, pack, ticket, round FROM intents WHERE state = 'returned' ORDER BY n DESC LIMIT ?) ORDER BY n`, newestReturned)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []wire.ClaimKey
	for rows.Next() {
		var k wire.ClaimKey
		var block []byte
		if err := rows.Scan(&k.Claim, &block, &k.Pack, &k.Ticket, &k.Round); err != nil {
			return nil, err
		}
		copy(k.Block[:], block)
		list = append(list, k)
	}
	return list, rows.Err()
}

// paidElsewhere are all payments elsewhere that central has told of.
func (l *Ledger) paidElsewhere(ctx context.Context) ([]wire.PaidItem, error) {
	rows, err := l.db.QueryContext(ctx, "SELECT block, pack, ticket, terminal, number, at FROM paid_elsewhere ORDER BY block, pack, ticket")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []wire.PaidItem
	for rows.Next() {
		var p wire.PaidItem
		var block []byte
		if err := rows.Scan(&block, &p.Pack, &p.Ticket, &p.Terminal, &p.Number, &p.At); err != nil {
			return nil, err
		}
		copy(p.Block[:], block)
		list = append(list, p)
	}
	return list, rows.Err()
}

// keptOf is what of a run was not given up at its owner epoch, or a later one.
func keptOf(ctx context.Context, q querier, p wire.PackItem) ([]wire.PackItem, error) {
	rows, err := q.QueryContext(ctx, "SELECT first, last FROM releases WHERE game_code = ? AND first <= ? AND last >= ? AND owner_epoch >= ? ORDER BY first", p.GameCode, p.Last, p.First, p.Epoch)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var kept []wire.PackItem
	next := int64(p.First)
	put := func(to int64) {
		if next <= to {
			run := p
			run.First, run.Last = uint32(next), uint32(to)
			kept = append(kept, run)
		}
	}
	for rows.Next() {
		var first, last int64
		if err := rows.Scan(&first, &last); err != nil {
			return nil, err
		}
		put(min(first-1, int64(p.Last)))
		next = max(next, last+1)
	}
	put(int64(p.Last))
	return kept, rows.Err()
}

// permissions are the claims that central allowed and does not hold the payment of.
func (l *Ledger) permissions(ctx context.Context, held wire.Position) ([]wire.Permission, error) {
	rows, err := l.db.QueryContext(ctx, `SELECT i.request, i.answer FROM intents i LEFT JOIN claims c ON c.block = i.block AND c.pack = i.pack AND c.ticket = i.ticket AND c.round = i.round
		WHERE i.answer IS NOT NULL AND (i.state = 'approved' OR i.state = 'used' AND (c.epoch > ?1 OR c.epoch = ?1 AND c.seq > ?2)) ORDER BY i.n`, held.Epoch, held.Seq)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []wire.Permission
	for rows.Next() {
		var request, answer []byte
		if err := rows.Scan(&request, &answer); err != nil {
			return nil, err
		}
		var p wire.Permission
		var a wire.ClaimAnswer
		if err := json.Unmarshal(request, &p.ClaimRequest); err != nil {
			return nil, fmt.Errorf("%w: the request of an intent: %w", ErrDamaged, err)
		}
		if err := json.Unmarshal(answer, &a); err != nil {
			return nil, fmt.Errorf("%w: the answer of an intent: %w", ErrDamaged, err)
		}
		if a.State == wire.ClaimApproved {
			p.OwnerEpoch = a.OwnerEpoch
			list = append(list, p)
		}
	}
	return list, rows.Err()
}
