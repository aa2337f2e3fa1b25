package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"grattoir/sync/wire"
	"grattoir/validate"
)

// What central's status feed has said is stored with the cursor it reached, in one
// transaction: after a crash the feed goes on exactly behind what is stored.

// ErrFeed means a run of the feed that does not hold together; nothing of it is stored.
var ErrFeed = errors.New("the status feed does not hold together")

// FeedCursor is the number up to which the feed is stored, 0 before the first item.
func (l *Ledger) FeedCursor(ctx context.Context) (cursor int64, err error) {
	err = l.db.QueryRowContext(ctx, "SELECT cursor FROM link").Scan(&cursor)
	if err != nil {
		err = fmt.Errorf("read the feed's cursor: %w", err)
	}
	return cursor, err
}

// ApplyFeed stores a run of the feed and moves the cursor to next, all or nothing. Items
// at or below the cursor were stored before and change nothing, kinds that this program
// does not know are stepped over, and the cursor never moves back. The error is ErrFeed
// for items out of order or without their content.
func (l *Ledger) ApplyFeed(ctx context.Context, items []wire.FeedItem, next int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.seen(l.write(ctx, func(ctx context.Context, w *writing) error { return w.feed(ctx, items, next) }))
	if err != nil {
		return fmt.Errorf("store the feed up to item %d: %w", next, err)
	}
	return nil
}

func (w *writing) feed(ctx context.Context, items []wire.FeedItem, next int64) error {
	var cursor int64
	if err := w.tx.QueryRowContext(ctx, "SELECT cursor FROM link").Scan(&cursor); err != nil {
		return err
	}
	last := int64(0)
	for _, item := range items {
		if item.Seq <= last || item.Seq > next {
			return fmt.Errorf("%w: item %d stands after %d in a run that ends at %d", ErrFeed, item.Seq, last, next)
		}
		if last = item.Seq; item.Seq <= cursor {
			continue
		}
		if err := w.applyItem(ctx, item); err != nil {
			return fmt.Errorf("feed item %d (%.40q): %w", item.Seq, item.Kind, err)
		}
	}
	if next <= cursor {
		return nil
	}
	_, err := w.exec(ctx, "UPDATE link SET cursor = ?", next)
	return err
}

func (w *writing) applyItem(ctx context.Context, item wire.FeedItem) error {
	switch item.Kind {
	case wire.FeedPack:
		if item.Pack == nil || item.Pack.Last < item.Pack.First || item.Pack.GameCode == "" || len(item.Pack.GameCode) > 16 || len(item.Pack.Owner) > 64 {
			return fmt.Errorf("%w: no whole run of packs", ErrFeed)
		}
		if err := w.moved(ctx, *item.Pack); err != nil {
			return err
		}
		if err := setPacks(ctx, w.tx, *item.Pack); err != nil {
			return err
		}
		return w.settled(ctx, *item.Pack)
	case wire.FeedPaid:
		if item.Paid == nil || item.Paid.Block == (validate.BlockID{}) || len(item.Paid.Terminal) > 64 || len(item.Paid.Number) > 64 {
			return fmt.Errorf("%w: no whole payment", ErrFeed)
		}
		return w.l.setPaid(ctx, w.tx, *item.Paid)
	case wire.FeedReversal:
		if item.Reversal == nil || len(item.Reversal.Reversal) != 32 || len(item.Reversal.Claim) > 64 || len(item.Reversal.Reason) > maxLine/4 {
			return fmt.Errorf("%w: no whole answer to a reversal", ErrFeed)
		}
		return w.answered(ctx, *item.Reversal)
	case wire.FeedHold:
		if item.Hold == nil || item.Hold.Block == (validate.BlockID{}) {
			return fmt.Errorf("%w: no whole hold", ErrFeed)
		}
		return w.hold(ctx, item.Seq, *item.Hold)
	case wire.FeedTickets:
		if item.Tickets == nil {
			return fmt.Errorf("%w: no tickets", ErrFeed)
		}
		return w.setTickets(ctx, *item.Tickets)
	case wire.FeedSuspension:
		if item.Suspension == nil {
			return fmt.Errorf("%w: no suspension", ErrFeed)
		}
		return w.setSuspension(ctx, *item.Suspension)
	case wire.FeedMessage:
		if item.Message == nil {
			return fmt.Errorf("%w: no message", ErrFeed)
		}
		return w.setMessage(ctx, *item.Message)
	case wire.FeedSales:
		if item.Sales == nil {
			return fmt.Errorf("%w: no block", ErrFeed)
		}
		return w.setSales(ctx, *item.Sales)
	case wire.FeedException:
		if item.Exception == nil {
			return fmt.Errorf("%w: no exception", ErrFeed)
		}
		return w.setException(ctx, *item.Exception)
	}
	return nil // of a later central
}

// setPacks lays a run over those stored. What it covers is cut out of them, except where
// a higher owner epoch is known: there the item is stale. Neighbours that say the same
// become one, so that packs activated one after another stay one row.
func setPacks(ctx context.Context, tx *sql.Tx, p wire.PackItem) error {
	old, err := packsTouching(ctx, tx, p.GameCode, int64(p.First)-1, int64(p.Last)+1)
	if err != nil {
		return err
	}
	for _, o := range old {
		if _, err := tx.ExecContext(ctx, "DELETE FROM packs WHERE game_code = ? AND first = ?", o.GameCode, o.First); err != nil {
			return err
		}
	}
	for _, k := range overlay(old, p) {
		if _, err := tx.ExecContext(ctx, "INSERT INTO packs(game_code, first, last, state, owner, epoch) VALUES(?, ?, ?, ?, ?, ?)",
			k.GameCode, k.First, k.Last, k.State, k.Owner, k.Epoch); err != nil {
			return err
		}
	}
	return nil
}

// overlay gives the runs that replace old, which are in order and apart, once p is laid
// over them. Numbers are widened so that the last pack of all has a place after it.
func overlay(old []wire.PackItem, p wire.PackItem) []wire.PackItem {
	var out []wire.PackItem
	put := func(k wire.PackItem, first, last int64) {
		if first > last {
			return
		}
		k.First, k.Last = uint32(first), uint32(last)
		if n := len(out) - 1; n >= 0 {
			before := out[n]
			before.First, before.Last = k.First, k.Last
			if before == k && int64(out[n].Last)+1 == first {
				out[n].Last = k.Last
				return
			}
		}
		out = append(out, k)
	}
	first, last := int64(p.First), int64(p.Last)
	next := first // of p, what is not placed yet
	for _, o := range old {
		from, to := int64(o.First), int64(o.Last)
		put(o, from, min(to, first-1))
		if o.Epoch > p.Epoch {
			put(p, next, min(from-1, last))
			put(o, max(from, first), min(to, last))
			next = max(next, to+1)
		}
		if to > last {
			put(p, next, last)
			next = last + 1
			put(o, max(from, last+1), to)
		}
	}
	put(p, next, last)
	return out
}

// packsTouching reads the stored runs that have a pack between first and last.
func packsTouching(ctx context.Context, q querier, gameCode string, first, last int64) ([]wire.PackItem, error) {
	rows, err := q.QueryContext(ctx, "SELECT first, last, state, owner, epoch FROM packs WHERE game_code = ? AND first <= ? AND last >= ? ORDER BY first", gameCode, last, first)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []wire.PackItem
	for rows.Next() {
		p := wire.PackItem{GameCode: gameCode}
		if err := rows.Scan(&p.First, &p.Last, &p.State, &p.Owner, &p.Epoch); err != nil {
			return nil, err
		}
		list = append(list, p)
	}
	return list, rows.Err()
}

// Pack is what central last said of a pack, with the run it is stored in; false when it
// has said nothing. The game code is as printed, padded.
func (l *Ledger) Pack(ctx context.Context, gameCode string, pack uint32) (wire.PackItem, bool, error) {
	return l.packOf(ctx, l.db, gameCode, pack)
}

func (l *Ledger) packOf(ctx context.Context, q querier, gameCode string, pack uint32) (wire.PackItem, bool, error) {
	p := wire.PackItem{GameCode: gameCode}
	// Runs do not overlap, so the one that begins last at or before the pack is the only candidate.
	err := q.QueryRowContext(ctx, "SELECT first, last, state, owner, epoch FROM packs WHERE game_code = ? AND first <= ? ORDER BY first DESC LIMIT 1", gameCode, pack).
		Scan(&p.First, &p.Last, &p.State, &p.Owner, &p.Epoch)
	switch {
	case errors.Is(err, sql.ErrNoRows) || err == nil && p.Last < pack:
		return wire.PackItem{}, false, nil
	case err != nil:
		return wire.PackItem{}, false, fmt.Errorf("pack %d of game code %.16q: %w", pack, gameCode, l.seen(err))
	}
	return p, true, nil
}

// OwnPacks are the runs of packs that this terminal owns, in whatever state, by game code
// and first pack.
func (l *Ledger) OwnPacks(ctx context.Context) ([]wire.PackItem, error) {
	list, err := packRuns(ctx, l.read, "owner = ?", l.opt.Terminal)
	if err != nil {
		return nil, fmt.Errorf("this terminal's packs: %w", err)
	}
	return list, nil
}

func packRuns(ctx context.Context, q querier, where string, args ...any) ([]wire.PackItem, error) {
	rows, err := q.QueryContext(ctx, "SELECT game_code, first, last, state, owner, epoch FROM packs WHERE "+where+" ORDER BY game_code, first", args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []wire.PackItem
	for rows.Next() {
		var p wire.PackItem
		if err := rows.Scan(&p.GameCode, &p.First, &p.Last, &p.State, &p.Owner, &p.Epoch); err != nil {
			return nil, err
		}
		list = append(list, p)
	}
	return list, rows.Err()
}

func (l *Ledger) setPaid(ctx context.Context, tx *sql.Tx, p wire.PaidItem) error {
	if p.Terminal == l.opt.Terminal {
		return nil // our own claim: the ledger knows it better
	}
	at, err := wire.ParseTime(p.At)
	if err != nil {
		at = time.Time{} // the payment counts, whatever the other terminal's clock said
	}
	m := l.opt.Moment()
	asOf := m.Trusted
	if asOf.IsZero() {
		asOf = m.Device
	}
	_, err = tx.ExecContext(ctx, "INSERT OR REPLACE INTO paid_elsewhere(block, pack, ticket, terminal, number, at, as_of) VALUES(?, ?, ?, ?, ?, ?, ?)",
		p.Block[:], p.Pack, p.Ticket, p.Terminal, p.Number, timeText(at), timeText(asOf))
	return err
}

// PaidElsewhere is another terminal's payment of a ticket, as far as central has told,
// and nil when it has told none. AsOf is when that arrived here.
func (l *Ledger) PaidElsewhere(ctx context.Context, t validate.TicketKey) (*validate.Payment, error) {
	var p validate.Payment
	var at, asOf string
	err := l.db.QueryRowContext(ctx, "SELECT terminal, number, at, as_of FROM paid_elsewhere WHERE block = ? AND pack = ? AND ticket = ?", t.Block[:], t.Pack, t.Number).
		Scan(&p.Terminal, &p.Number, &at, &asOf)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("payment elsewhere of ticket %d of pack %d: %w", t.Number, t.Pack, l.seen(err))
	}
	var err1, err2 error
	p.At, err1 = parseTime(at)
	p.AsOf, err2 = parseTime(asOf)
	return &p, errors.Join(err1, err2)
}
