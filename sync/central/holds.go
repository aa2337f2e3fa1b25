package central

import (
	"context"
	"crypto/ecdsa"
	"crypto/sha256"
	"database/sql"
	"encoding/base64"
	"errors"
	"net/http"

	"grattoir/sync/wire"
	"grattoir/validate"
)

// States of a hold.
const (
	holdAsked = "asked" // the owner may still pay the ticket with no network
	holdKept  = "held"  // it never does again
	holdPaid  = "paid"  // nor here, and it had paid it before
)

// owner tells whether the pack's owner stands in the way of another terminal, and asks it
// to give way where nobody has.
func (x *asked) owner(ctx context.Context, r right) (wire.ClaimAnswer, error) {
	approved := wire.ClaimAnswer{State: wire.ClaimApproved}
	held, err := packRightOf(ctx, x.tx, packKey{x.q.Block, x.q.Pack}, r.epoch)
	switch {
	case err != nil:
		return approved, err
	case held.kind == rightForced:
		return wire.ClaimAnswer{State: wire.ClaimPending, Why: wire.WhyOwnerSilent, Text: "the pack was taken from terminal " + held.holder + ", whose journal is awaited"}, nil
	case held.kind != "":
		return approved, nil // nobody pays it without central
	}
	if r.owner == x.who.name {
		return approved, nil // it has an intent, beside which it pays the ticket in no other way
	}
	q := x.q
	var state, at string
	var paid, head validate.EntryNumber
	err = x.tx.QueryRowContext(ctx, "SELECT state, paid_epoch, paid_seq, paid_at FROM holds WHERE block_id = $1 AND pack = $2 AND ticket = $3 AND epoch = $4",
		q.Block[:], q.Pack, q.Ticket, r.epoch).Scan(&state, &paid.Epoch, &paid.Seq, &at)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return x.ask(ctx, r)
	case err != nil:
		return approved, err
	case state == holdKept, state == holdPaid && q.Round > 0: // the payment was taken back since
		return approved, nil
	case state != holdPaid:
		return silent(r), nil
	}
	// A payment that arrived here, and was not found when the ticket was, proved nothing.
	err = x.tx.QueryRowContext(ctx, "SELECT ack_epoch, ack_seq FROM terminals WHERE name = $1", r.owner).Scan(&head.Epoch, &head.Seq)
	if err != nil || head.Epoch > paid.Epoch || head.Epoch == paid.Epoch && head.Seq >= paid.Seq {
		return approved, err
	}
	return paidBy(wire.PaidItem{Block: q.Block, Pack: q.Pack, Ticket: q.Ticket, Terminal: r.owner, Number: paid.String(), At: at}), nil
}

// ask sends the owner a hold over its feed.
func (x *asked) ask(ctx context.Context, r right) (wire.ClaimAnswer, error) {
	q := x.q
	var err error
	x.newest, err = addFeed(ctx, x.tx, r.owner, x.now, wire.FeedItem{Kind: wire.FeedHold, Hold: &wire.HoldItem{Block: q.Block, Pack: q.Pack, Ticket: q.Ticket, OwnerEpoch: r.epoch}})
	if err == nil {
		_, err = x.tx.ExecContext(ctx, "INSERT INTO holds(block_id, pack, ticket, epoch, owner, feed, state, asked) VALUES($1, $2, $3, $4, $5, $6, $7, $8)",
			q.Block[:], q.Pack, q.Ticket, r.epoch, r.owner, x.newest, holdAsked, x.now)
	}
	return silent(r), err
}

func silent(r right) wire.ClaimAnswer {
	return wire.ClaimAnswer{State: wire.ClaimPending, Why: wire.WhyOwnerSilent, Text: "terminal " + r.owner + " owns the pack and has not answered"}
}

func (c *Central) serveHolds(w http.ResponseWriter, r *http.Request, who caller) {
	var u wire.HoldUpload
	err := read(w, r, wire.MaxRequest, &u)
	if err == nil {
		err = speaks(u.Protocol)
	}
	if err != nil {
		c.fail(w, r, err)
		return
	}
	a, err := c.keepHolds(r.Context(), who, u)
	c.answer(w, r, a, err)
}

// keepHolds stores what an owner has answered to holds, with the head it signed. The
// first answer to a hold stands.
func (c *Central) keepHolds(ctx context.Context, who caller, u wire.HoldUpload) (wire.HoldAnswer, error) {
	a := wire.HoldAnswer{Protocol: wire.Protocol, Stored: []int64{}}
	if err := checkHolds(who, u); err != nil {
		return a, err
	}
	err := c.store.change(ctx, func(ctx context.Context, tx *sql.Tx) error {
		now := c.now()
		for _, h := range u.Holds {
			state := holdKept
			if h.Paid.Seq > 0 {
				state = holdPaid
			}
			_, err := tx.ExecContext(ctx, `UPDATE holds SET state = $1, paid_epoch = $2, paid_seq = $3, paid_at = $4, head_epoch = $5, head_seq = $6, head_hash = $7, signature = $8, answered = $9
				WHERE block_id = $10 AND pack = $11 AND ticket = $12 AND owner = $13 AND feed = $14 AND state = $15`, state, h.Paid.Epoch, h.Paid.Seq, plain(h.At),
				u.Head.Epoch, u.Head.Seq, u.Head.Hash, u.Signature, now, h.Block[:], h.Pack, h.Ticket, who.name, h.Hold, holdAsked)
			if err != nil {
				return err
			}
		}
		_, err := tx.ExecContext(ctx, "UPDATE terminals SET contact = $1 WHERE name = $2", now, who.name)
		return err
	})
	if err != nil {
		return a, err
	}
	for _, h := range u.Holds {
		a.Stored = append(a.Stored, h.Hold)
		c.holds.ring(packKey{h.Block, h.Pack}.String())
	}
	return a, nil
}

func checkHolds(who caller, u wire.HoldUpload) error {
	if len(u.Holds) == 0 || len(u.Holds) > wire.MaxHolds {
		return wireError(wire.KindBadRequest, "%d holds, want 1 to %d", len(u.Holds), wire.MaxHolds)
	}
	for _, h := range u.Holds {
		if h.Hold < 1 || h.Paid.Epoch < 0 || h.Paid.Seq < 0 || len(h.At) > 64 {
			return wireError(wire.KindBadRequest, "hold %d: no whole answer", h.Hold)
		}
	}
	if u.Head.Epoch < 1 || u.Head.Seq < 0 || !isHash(u.Head.Hash) {
		return wireError(wire.KindBadRequest, "holds: the head %d-%d is no place of a journal", u.Head.Epoch, u.Head.Seq)
	}
	signature, err := base64.StdEncoding.DecodeString(u.Signature)
	sum := sha256.Sum256([]byte(wire.HeadText(who.name, u.Head)))
	if err != nil || !ecdsa.VerifyASN1(who.key, sum[:], signature) {
		return wireError(wire.KindBadRequest, "holds: the signature over the head %d-%d is not the enrolled key's", u.Head.Epoch, u.Head.Seq)
	}
	return nil
}
