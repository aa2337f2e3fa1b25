package central

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"grattoir/sync/ledger"
	"grattoir/sync/wire"
	"grattoir/validate"
	"grattoir/validate/manifest"
)

// A claim that is asked about goes from pending to approved or denied, which are final;
// the terminal that asked may give it back, and then its id pays nothing any more. An
// approval reserves the ticket's round: the reservation is what the journal's claim is
// credited by later, and its key lets no second one in.
//
// The owner of a pack pays with no network, so its word is needed first: a hold
// (holds.go). A claim is decided while the pack's row and the owner's are held, in this
// order; an upload of the owner holds the owner's. So either the upload is there and the
// ticket is paid, or the reservation is and the upload's claim is a conflict.

const (
	claimWait  = (wire.MaxClaimWait*1000 - 500) * time.Millisecond // for an owner's answer
	claimAgain = 500 * time.Millisecond                            // another process may have heard it
)

func (c *Central) serveClaim(w http.ResponseWriter, r *http.Request, who caller) {
	var q wire.ClaimRequest
	err := read(w, r, wire.MaxRequest, &q)
	if err == nil {
		err = speaks(q.Protocol)
	}
	if err != nil {
		c.fail(w, r, err)
		return
	}
	a, err := c.claim(r.Context(), who, q)
	c.answer(w, r, a, err)
}

// claim answers a terminal that asks to pay, within wire.MaxClaimWait seconds.
func (c *Central) claim(ctx context.Context, who caller, q wire.ClaimRequest) (wire.ClaimAnswer, error) {
	if err := q.Check(); err != nil {
		return wire.ClaimAnswer{}, wireError(wire.KindBadRequest, "%v", err)
	}
	p := proof{isClaim: true, claim: ledger.ClaimBody{Claim: q.Claim, Block: q.Block, Pack: q.Pack, Ticket: q.Ticket, Round: q.Round, Tier: q.Tier,
		AmountMinor: q.AmountMinor, Currency: q.Currency, Opening: q.Opening}}
	p, err := c.proveClaim(ctx, p, blockSet{c: c, open: map[validate.BlockID]*manifest.Block{}})
	if err != nil {
		return wire.ClaimAnswer{}, err
	}
	end := time.NewTimer(c.patience)
	defer end.Stop()
	again := time.NewTicker(claimAgain)
	defer again.Stop()
	rung, leave := c.holds.listen(packKey{q.Block, q.Pack}.String())
	defer leave()
	for {
		a, err := c.decideClaim(ctx, who, q, p)
		if err != nil || a.State != wire.ClaimPending || !c.holds.open() {
			return a, err
		}
		select {
		case <-rung:
		case <-again.C:
		case <-end.C:
			return a, nil
		case <-ctx.Done():
			return a, ctx.Err()
		}
	}
}

// decideClaim decides as far as it can be decided now.
func (c *Central) decideClaim(ctx context.Context, who caller, q wire.ClaimRequest, p proof) (wire.ClaimAnswer, error) {
	var a wire.ClaimAnswer
	var newest int64
	err := c.store.change(ctx, func(ctx context.Context, tx *sql.Tx) (err error) {
		x := asked{tx: tx, who: who, q: q, proof: p, now: c.now()}
		a, err = x.answer(ctx)
		newest = x.newest
		return err
	})
	if err != nil {
		return wire.ClaimAnswer{}, err
	}
	c.feed.added(newest)
	if a.State != wire.ClaimPending {
		c.opt.Log.Info("claim decided", "terminal", who.name, "claim", q.Claim, "pack", q.Pack, "ticket", q.Ticket, "round", q.Round, "state", a.State, "why", a.Why)
	}
	return a, nil
}

// asked is one claim that is asked about, inside a transaction.
type asked struct {
	tx     *sql.Tx
	who    caller
	q      wire.ClaimRequest
	proof  proof
	now    string
	state  validate.PackState // of the ticket, which may be another than its pack's
	newest int64              // feed item added, 0 for none
}

// answer gives the stored answer, or makes it.
func (x *asked) answer(ctx context.Context) (wire.ClaimAnswer, error) {
	stored, err := x.begin(ctx)
	if err != nil {
		return stored, err
	}
	switch {
	case x.q.Return:
		return x.giveBack(ctx, stored)
	case stored.State != wire.ClaimPending:
		return stored, nil
	}
	r, err := x.pack(ctx)
	if err != nil {
		return stored, err
	}
	a, err := x.against(ctx, r)
	if err != nil {
		return a, err
	}
	if a.State == "" {
		// Before the owner is asked to hold it: what it holds tells what was allowed before.
		if unsure, err := x.uncertain(ctx); err != nil {
			return a, err
		} else if unsure {
			a = wire.ClaimAnswer{State: wire.ClaimPending, Why: wire.WhyOwnerSilent, Text: "central was put back from a backup and waits for the terminals that may have the ticket"}
		} else if a, err = x.owner(ctx, r); err != nil {
			return a, err
		}
	}
	if a.State == wire.ClaimPending {
		return x.said(a), nil
	}
	if a.State == wire.ClaimApproved {
		a.OwnerEpoch = r.epoch
		if err := x.reserve(ctx); err != nil {
			return a, err
		}
	}
	return x.decided(ctx, a)
}

// reserve keeps the ticket's round for this claim; errAgain where another one has it.
func (x *asked) reserve(ctx context.Context) error {
	return once(x.tx.ExecContext(ctx, `INSERT INTO reservations(block_id, pack, ticket, round, claim, terminal, made) VALUES($1, $2, $3, $4, $5, $6, $7)
		ON CONFLICT(block_id, pack, ticket, round) DO NOTHING`, x.q.Block[:], x.q.Pack, x.q.Ticket, x.q.Round, x.q.Claim, x.who.name, x.now))
}

// begin finds the claim's row, which it makes and holds, and what it says.
func (x *asked) begin(ctx context.Context) (a wire.ClaimAnswer, err error) {
	q := x.q
	_, err = x.tx.ExecContext(ctx, `INSERT INTO online_claims(block_id, pack, ticket, round, claim, terminal, tier, amount_minor, currency, state, asked)
		VALUES($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) ON CONFLICT(block_id, pack, ticket, round, claim) DO NOTHING`,
		q.Block[:], q.Pack, q.Ticket, q.Round, q.Claim, x.who.name, q.Tier, q.AmountMinor, plain(q.Currency), wire.ClaimPending, x.now)
	if err != nil {
		return a, err
	}
	var terminal, currency, text string
	var tier int
	var minor int64
	err = x.tx.QueryRowContext(ctx, `UPDATE online_claims SET state = state WHERE block_id = $1 AND pack = $2 AND ticket = $3 AND round = $4 AND claim = $5
		RETURNING terminal, tier, amount_minor, currency, state, answer`, q.Block[:], q.Pack, q.Ticket, q.Round, q.Claim).Scan(&terminal, &tier, &minor, &currency, &a.State, &text)
	switch {
	case err != nil:
		return a, err
	case terminal != x.who.name || tier != q.Tier || minor != q.AmountMinor || currency != plain(q.Currency):
		return a, wireError(wire.KindBadRequest, "claim %s was asked about with another terminal, tier or amount", q.Claim)
	case text != "":
		err = json.Unmarshal([]byte(text), &a)
	}
	return a, err
}

// pack holds the pack's row and its owner's, and gives who may pay it.
func (x *asked) pack(ctx context.Context) (right, error) {
	var r right
	x.state = validate.PackPrinted
	err := x.tx.QueryRowContext(ctx, "UPDATE packs SET state = state WHERE block_id = $1 AND pack = $2 RETURNING state, owner, epoch", x.q.Block[:], x.q.Pack).Scan(&x.state, &r.owner, &r.epoch)
	if errors.Is(err, sql.ErrNoRows) {
		return r, nil
	}
	if err == nil && r.owner != "" {
		_, err = x.tx.ExecContext(ctx, "UPDATE terminals SET state = state WHERE name = $1", r.owner)
	}
	if err != nil {
		return r, err
	}
	// Single tickets of a pack may stand otherwise than their pack.
	rows, err := x.tx.QueryContext(ctx, "SELECT state FROM pack_tickets WHERE block_id = $1 AND pack = $2 AND first <= $3 AND last >= $4", x.q.Block[:], x.q.Pack, x.q.Ticket, x.q.Ticket)
	if err != nil {
		return r, err
	}
	defer rows.Close()
	for rows.Next() {
		var own validate.PackState
		if err := rows.Scan(&own); err != nil {
			return r, err
		}
		x.state = x.state.OfTicket(own)
	}
	return r, rows.Err()
}

// against denies what no owner's word could allow. The zero answer is nothing against it.
func (x *asked) against(ctx context.Context, r right) (wire.ClaimAnswer, error) {
	q := x.q
	var failed, next, suspended int
	// The openings of one ticket that fail are counted: asking must not serve to guess.
	err := x.tx.QueryRowContext(ctx, "SELECT count(*) FROM online_claims WHERE block_id = $1 AND pack = $2 AND ticket = $3 AND terminal = $4 AND why = $5",
		q.Block[:], q.Pack, q.Ticket, x.who.name, wire.WhyUnproven).Scan(&failed)
	if err != nil {
		return wire.ClaimAnswer{}, err
	}
	err = x.tx.QueryRowContext(ctx, "SELECT coalesce(max(round) + 1, 0) FROM reversals WHERE block_id = $1 AND pack = $2 AND ticket = $3 AND state = $4",
		q.Block[:], q.Pack, q.Ticket, validate.ReversalAccepted).Scan(&next)
	if err != nil {
		return wire.ClaimAnswer{}, err
	}
	err = x.tx.QueryRowContext(ctx, `SELECT count(*) FROM suspensions s JOIN blocks b ON b.game = s.game WHERE b.block_id = $1
		AND (s.emission = '' OR s.emission = b.emission) AND (s.block = 0 OR s.block = b.number)`, q.Block[:]).Scan(&suspended)
	if err != nil {
		return wire.ClaimAnswer{}, err
	}
	switch {
	case suspended > 0:
		return deny(wire.WhySuspended, "the game, the emission or the block is suspended"), nil
	case failed >= validate.MaxAttempts:
		return deny(wire.WhyAttempts, "%d openings of this ticket failed", failed), nil
	case x.state != validate.PackActive && x.state != validate.PackSettled || r.owner == "":
		a := deny(wire.WhyPack, "ticket %d of pack %d is %s", q.Ticket, q.Pack, x.state)
		a.Pack = x.state
		return a, nil
	case x.proof.kind == wire.ClaimUnproven:
		return deny(wire.WhyUnproven, "%s", x.proof.text), nil
	case x.proof.kind != "":
		return deny(wire.WhyWrongPrize, "%s", x.proof.text), nil
	case q.Round != next:
		a := deny(wire.WhyRound, "%d reversals of this ticket were accepted", next)
		a.Round = next
		return a, nil
	}
	return x.taken(ctx)
}

// taken denies a ticket that is paid, taken in as a misprint, or reserved for another claim. A scratched ticket
// that a terminal paid without a right is paid too: the player has the money, and who
// bears it people decide.
func (x *asked) taken(ctx context.Context) (wire.ClaimAnswer, error) {
	q := x.q
	p := wire.PaidItem{Block: q.Block, Pack: q.Pack, Ticket: q.Ticket}
	var number validate.EntryNumber
	err := x.tx.QueryRowContext(ctx, "SELECT terminal, epoch, seq, paid FROM claims WHERE block_id = $1 AND pack = $2 AND ticket = $3 AND round = $4",
		q.Block[:], q.Pack, q.Ticket, q.Round).Scan(&p.Terminal, &number.Epoch, &number.Seq, &p.At)
	if err == nil {
		p.Number = number.String()
		return paidBy(p), nil
	}
	if !errors.Is(err, sql.ErrNoRows) {
		return wire.ClaimAnswer{}, err
	}
	err = x.tx.QueryRowContext(ctx, `SELECT terminal, epoch, seq, received FROM conflicts WHERE block_id = $1 AND pack = $2 AND ticket = $3 AND round = $4 AND kind IN ($5, $6)
		ORDER BY received LIMIT 1`, q.Block[:], q.Pack, q.Ticket, q.Round, wire.NoRight, wire.WrongPrize).Scan(&p.Terminal, &number.Epoch, &number.Seq, &p.At)
	if err == nil {
		p.Number = number.String()
		return paidBy(p), nil
	}
	if !errors.Is(err, sql.ErrNoRows) {
		return wire.ClaimAnswer{}, err
	}
	var terminal string
	err = x.tx.QueryRowContext(ctx, "SELECT terminal, epoch, seq FROM attempts WHERE block_id = $1 AND pack = $2 AND ticket = $3 AND reason = $4 ORDER BY received, terminal LIMIT 1",
		q.Block[:], q.Pack, q.Ticket, validate.Misprint).Scan(&terminal, &number.Epoch, &number.Seq)
	if err == nil {
		return deny(wire.WhyMisprint, "terminal %s has refunded or exchanged it as a misprint, entry %s", terminal, number), nil
	}
	if !errors.Is(err, sql.ErrNoRows) {
		return wire.ClaimAnswer{}, err
	}
	err = x.tx.QueryRowContext(ctx, "SELECT terminal FROM reservations WHERE block_id = $1 AND pack = $2 AND ticket = $3 AND round = $4",
		q.Block[:], q.Pack, q.Ticket, q.Round).Scan(&terminal)
	if err == nil {
		return deny(wire.WhyGranted, "terminal %s may pay it, and has not yet", terminal), nil
	}
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return wire.ClaimAnswer{}, err
}

// giveBack ends a claim at the wish of the terminal that asked: before its id was ever
// heard here, while it waits, or after it was approved. One that was paid stays paid.
func (x *asked) giveBack(ctx context.Context, stored wire.ClaimAnswer) (wire.ClaimAnswer, error) {
	q := x.q
	switch stored.State {
	case wire.ClaimApproved:
		// Its own upload, which could carry the payment, comes before or after.
		if _, err := x.tx.ExecContext(ctx, "UPDATE terminals SET state = state WHERE name = $1", x.who.name); err != nil {
			return stored, err
		}
		var paid int
		err := x.tx.QueryRowContext(ctx, "SELECT count(*) FROM claims WHERE block_id = $1 AND pack = $2 AND ticket = $3 AND round = $4 AND claim = $5",
			q.Block[:], q.Pack, q.Ticket, q.Round, q.Claim).Scan(&paid)
		if err != nil || paid > 0 {
			return stored, err
		}
		if _, err := x.tx.ExecContext(ctx, "DELETE FROM reservations WHERE block_id = $1 AND pack = $2 AND ticket = $3 AND round = $4 AND claim = $5",
			q.Block[:], q.Pack, q.Ticket, q.Round, q.Claim); err != nil {
			return stored, err
		}
	case wire.ClaimPending:
	default:
		return stored, nil
	}
	return x.decided(ctx, wire.ClaimAnswer{State: wire.ClaimReturned})
}

// decided stores a final answer.
func (x *asked) decided(ctx context.Context, a wire.ClaimAnswer) (wire.ClaimAnswer, error) {
	a = x.said(a)
	text, err := json.Marshal(a)
	if err != nil {
		return a, err
	}
	q := x.q
	_, err = x.tx.ExecContext(ctx, `UPDATE online_claims SET state = $1, why = $2, answer = $3, decided = $4
		WHERE block_id = $5 AND pack = $6 AND ticket = $7 AND round = $8 AND claim = $9`, a.State, a.Why, string(text), x.now, q.Block[:], q.Pack, q.Ticket, q.Round, q.Claim)
	return a, err
}

func (x *asked) said(a wire.ClaimAnswer) wire.ClaimAnswer {
	a.Protocol, a.Claim = wire.Protocol, x.q.Claim
	return a
}

func deny(why wire.ClaimWhy, format string, args ...any) wire.ClaimAnswer {
	text := fmt.Sprintf(format, args...)
	return wire.ClaimAnswer{State: wire.ClaimDenied, Why: why, Text: text[:min(len(text), maxAnswer)]}
}

func paidBy(p wire.PaidItem) wire.ClaimAnswer {
	a := deny(wire.WhyPaid, "terminal %s paid it, entry %s", p.Terminal, p.Number)
	a.Paid = &p
	return a
}

// ticketRound names a round of a ticket of one pack.
type ticketRound struct {
	ticket uint16
	round  int
}

// grant is the one claim that may pay a round.
type grant struct{ claim, terminal string }

// grants are the reservations of a pack.
func grants(ctx context.Context, tx *sql.Tx, p packKey) (map[ticketRound]grant, error) {
	rows, err := tx.QueryContext(ctx, "SELECT ticket, round, claim, terminal FROM reservations WHERE block_id = $1 AND pack = $2", p.block[:], p.pack)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	list := map[ticketRound]grant{}
	for rows.Next() {
		var at ticketRound
		var g grant
		if err := rows.Scan(&at.ticket, &at.round, &g.claim, &g.terminal); err != nil {
			return nil, err
		}
		list[at] = g
	}
	return list, rows.Err()
}
