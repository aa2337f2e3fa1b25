package central

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"

	"grattoir/sync/ledger"
	"grattoir/sync/wire"
	"grattoir/validate"
)

// Whose a pack is, and whether the owner pays it with no network, are two things. The
// table packs says the first; a row of pack_rights at the pack's owner epoch takes the
// second away. Only central raises an owner epoch, and each raise ends what was said
// about the epoch before.
//
//	released: the owner has stopped, by an entry of its journal; central's word pays
//	forced:   the pack was taken from a holder that may still pay it; nobody else does
//	online:   that holder was written off; central's word pays
const (
	rightReleased = "released"
	rightForced   = "forced"
	rightOnline   = "online"
)

// packRight is what pack_rights says about a pack at its present owner epoch.
type packRight struct {
	kind   string // "" while the owner pays with no network
	holder string // who did before
	epoch  int64  // at which owner epoch
}

func packRightOf(ctx context.Context, tx *sql.Tx, p packKey, epoch int64) (packRight, error) {
	var r packRight
	err := tx.QueryRowContext(ctx, "SELECT kind, holder, holder_epoch FROM pack_rights WHERE block_id = $1 AND pack = $2 AND epoch = $3", p.block[:], p.pack, epoch).Scan(&r.kind, &r.holder, &r.epoch)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return r, err
}

// release takes an owner's word that it pays packs no more. Entries of one journal come in
// their order, so every payment before it was judged before.
func (in *intake) release(ctx context.Context, l line) error {
	b, err := l.entry.Release()
	if err != nil {
		return err
	}
	for _, run := range b.Packs {
		_, err := in.tx.ExecContext(ctx, `INSERT INTO pack_rights(block_id, pack, epoch, kind, holder, holder_epoch, since)
			SELECT block_id, pack, epoch, $1, owner, epoch, $2 FROM packs
			WHERE block_id IN (SELECT block_id FROM blocks WHERE game_code = $3) AND pack BETWEEN $4 AND $5 AND owner = $6 AND epoch = $7
			ON CONFLICT(block_id, pack) DO UPDATE SET epoch = excluded.epoch, kind = excluded.kind, holder = excluded.holder, holder_epoch = excluded.holder_epoch, note = '', since = excluded.since
			WHERE pack_rights.epoch < excluded.epoch`, rightReleased, in.now, plain(run.GameCode), run.First, run.Last, in.who.name, run.OwnerEpoch)
		if err != nil {
			return err
		}
		if err := in.awaited(ctx, run); err != nil {
			return err
		}
	}
	in.rights = map[packKey]right{}
	return nil
}

// awaited ends a forced move of packs whose old holder has spoken: the new owner gets them.
func (in *intake) awaited(ctx context.Context, run ledger.ReleasedPacks) error {
	const where = `block_id IN (SELECT block_id FROM blocks WHERE game_code = $1) AND pack BETWEEN $2 AND $3
		AND EXISTS (SELECT 1 FROM pack_rights r WHERE r.block_id = packs.block_id AND r.pack = packs.pack AND r.epoch = packs.epoch AND r.kind = $4 AND r.holder = $5 AND r.holder_epoch = $6)`
	args := []any{plain(run.GameCode), run.First, run.Last, rightForced, in.who.name, run.OwnerEpoch}
	if err := holdPacks(ctx, in.tx, where, args...); err != nil {
		return err
	}
	list, err := packsWhere(ctx, in.tx, where, args...)
	if err != nil || len(list) == 0 {
		return err
	}
	if p, err := lastPutBack(ctx, in.tx); err != nil || p.open {
		return err // it may have been passed on before: central pack write-off, once all were heard
	}
	newest, _, err := handOver(ctx, in.tx, list, "", in.now)
	in.newest = max(in.newest, newest)
	return err
}

// packsWhere lists packs in order.
func packsWhere(ctx context.Context, tx *sql.Tx, where string, args ...any) ([]Pack, error) {
	rows, err := tx.QueryContext(ctx, "SELECT block_id, game_code, pack, state, owner, epoch FROM packs WHERE "+where+" ORDER BY game_code, pack", args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []Pack
	for rows.Next() {
		var p Pack
		var id []byte
		if err := rows.Scan(&id, &p.GameCode, &p.Number, &p.State, &p.Owner, &p.Epoch); err != nil {
			return nil, err
		}
		copy(p.Block[:], id)
		list = append(list, p)
	}
	return list, rows.Err()
}

// handOver makes a terminal the owner of packs, or with "" the one that is, at a raised
// epoch, with the right to pay them with no network. What others have paid, or may pay,
// stands before that in its feed: it never owns a ticket that it does not know of. It
// gives the newest feed item, and the runs that the feed tells.
func handOver(ctx context.Context, tx *sql.Tx, list []Pack, to, now string) (newest int64, runs []wire.PackItem, err error) {
	back, err := lastPutBack(ctx, tx)
	if err != nil {
		return 0, nil, err
	}
	for _, p := range list {
		if to != "" {
			p.Owner = to
		}
		before := p.Epoch
		p.Epoch = back.raised(before)
		if err := tell(ctx, tx, p, now); err != nil {
			return 0, nil, err
		}
		if err := once(tx.ExecContext(ctx, "UPDATE packs SET owner = $1, epoch = $2, changed = $3 WHERE block_id = $4 AND pack = $5 AND epoch = $6",
			p.Owner, p.Epoch, now, p.Block[:], p.Number, before)); err != nil {
			return 0, nil, err
		}
		runs = appendRun(runs, wire.PackItem{GameCode: p.GameCode, First: p.Number, Last: p.Number, State: p.State, Owner: p.Owner, Epoch: p.Epoch})
	}
	for _, r := range runs {
		if newest, err = addFeed(ctx, tx, everyone, now, wire.FeedItem{Kind: wire.FeedPack, Pack: &r}); err != nil {
			return 0, nil, err
		}
	}
	return newest, runs, nil
}

// tell gives a pack's next owner what others have paid of it and what they may pay.
func tell(ctx context.Context, tx *sql.Tx, p Pack, now string) error {
	paid, err := paidTickets(ctx, tx, p)
	if err != nil {
		return err
	}
	for _, item := range paid {
		if _, err := addFeed(ctx, tx, p.Owner, now, wire.FeedItem{Kind: wire.FeedPaid, Paid: &item}); err != nil {
			return err
		}
	}
	held, err := heldTickets(ctx, tx, p)
	if err != nil {
		return err
	}
	for _, ticket := range held {
		seq, err := addFeed(ctx, tx, p.Owner, now, wire.FeedItem{Kind: wire.FeedHold, Hold: &wire.HoldItem{Block: p.Block, Pack: p.Number, Ticket: ticket, OwnerEpoch: p.Epoch}})
		if err == nil {
			_, err = tx.ExecContext(ctx, "INSERT INTO holds(block_id, pack, ticket, epoch, owner, feed, state, asked) VALUES($1, $2, $3, $4, $5, $6, $7, $8)",
				p.Block[:], p.Number, ticket, p.Epoch, p.Owner, seq, holdAsked, now)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// paidTickets are the tickets of a pack that another terminal has paid, and that no
// accepted reversal has freed.
func paidTickets(ctx context.Context, tx *sql.Tx, p Pack) ([]wire.PaidItem, error) {
	rows, err := tx.QueryContext(ctx, `SELECT c.ticket, c.terminal, c.epoch, c.seq, c.paid FROM claims c WHERE c.block_id = $1 AND c.pack = $2 AND c.terminal <> $3
		AND NOT EXISTS (SELECT 1 FROM reversals r WHERE r.block_id = c.block_id AND r.pack = c.pack AND r.ticket = c.ticket AND r.round = c.round AND r.state = $4) ORDER BY c.ticket`,
		p.Block[:], p.Number, p.Owner, validate.ReversalAccepted)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []wire.PaidItem
	for rows.Next() {
		item := wire.PaidItem{Block: p.Block, Pack: p.Number}
		var number validate.EntryNumber
		if err := rows.Scan(&item.Ticket, &item.Terminal, &number.Epoch, &number.Seq, &item.At); err != nil {
			return nil, err
		}
		item.Number = number.String()
		list = append(list, item)
	}
	return list, rows.Err()
}

// heldTickets are those that only central's word pays: reserved, once reserved for a
// terminal that was lost, held before central was put back, or in a later round.
func heldTickets(ctx context.Context, tx *sql.Tx, p Pack) ([]uint16, error) {
	rows, err := tx.QueryContext(ctx, `SELECT ticket FROM reservations WHERE block_id = $1 AND pack = $2
		UNION SELECT ticket FROM freed WHERE block_id = $1 AND pack = $2
		UNION SELECT h.ticket FROM holds h WHERE h.block_id = $1 AND h.pack = $2 AND EXISTS (SELECT 1 FROM restores s WHERE s.at > h.asked)
		UNION SELECT ticket FROM reversals WHERE block_id = $1 AND pack = $2 AND state = $3 ORDER BY ticket`, p.Block[:], p.Number, validate.ReversalAccepted)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []uint16
	for rows.Next() {
		var ticket uint16
		if err := rows.Scan(&ticket); err != nil {
			return nil, err
		}
		list = append(list, ticket)
	}
	return list, rows.Err()
}

func (c *Central) serveTake(w http.ResponseWriter, r *http.Request, who caller) {
	var q wire.TakeRequest
	err := read(w, r, wire.MaxRequest, &q)
	if err == nil {
		err = speaks(q.Protocol)
	}
	if err != nil {
		c.fail(w, r, err)
		return
	}
	a, err := c.take(r.Context(), who)
	c.answer(w, r, a, err)
}

// take gives a terminal the packs back that it has released. Asked again it finds nothing
// to give.
func (c *Central) take(ctx context.Context, who caller) (wire.TakeAnswer, error) {
	a := wire.TakeAnswer{Protocol: wire.Protocol}
	err := c.store.change(ctx, func(ctx context.Context, tx *sql.Tx) error {
		a.Packs, a.Feed = 0, 0
		// Held before it is read: a claim that is decided, or a move, comes before or after.
		if err := holdPacks(ctx, tx, "owner = $1", who.name); err != nil {
			return err
		}
		list, err := packsWhere(ctx, tx, `owner = $1 AND EXISTS (SELECT 1 FROM pack_rights r
			WHERE r.block_id = packs.block_id AND r.pack = packs.pack AND r.epoch = packs.epoch AND r.kind = $2)`, who.name, rightReleased)
		if err != nil || len(list) == 0 {
			return err
		}
		if list, err = certain(ctx, tx, list); err != nil || len(list) == 0 {
			return err
		}
		if len(list) > maxRun {
			list = list[:maxRun] // the rest at the next request
		}
		a.Packs = len(list)
		a.Feed, _, err = handOver(ctx, tx, list, "", c.now())
		return err
	})
	if err != nil {
		return a, err
	}
	c.feed.added(a.Feed)
	if a.Packs > 0 {
		c.opt.Log.Info("packs given back", "terminal", who.name, "packs", a.Packs)
	}
	return a, nil
}

// certain are those of which it is known who has them.
func certain(ctx context.Context, tx *sql.Tx, list []Pack) ([]Pack, error) {
	p, err := lastPutBack(ctx, tx)
	if err != nil || !p.open {
		return list, err
	}
	var known []Pack
	for _, pack := range list {
		switch err := p.knows(ctx, tx, pack.Block, pack.Number); {
		case err == nil:
			known = append(known, pack)
		case !errors.Is(err, ErrRefused):
			return nil, err
		}
	}
	return known, nil
}

// holdPacks keeps packs from being decided about elsewhere until the transaction ends.
func holdPacks(ctx context.Context, tx *sql.Tx, where string, args ...any) error {
	_, err := tx.ExecContext(ctx, "UPDATE packs SET state = state WHERE "+where, args...)
	if err != nil {
		return fmt.Errorf("hold packs: %w", err)
	}
	return nil
}
