package central

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"grattoir/sync/ledger"
	"grattoir/sync/wire"
	"grattoir/validate"
	"grattoir/validate/manifest"
)

// What central says is durable at the terminal that it says it to. So a central that was
// put back from a backup asks each terminal once what it may pay (wire.Standing), and has
// again what it forgot. Until it knows, it allows nothing that it may have allowed to
// somebody else. A terminal that stays silent, because its shop is closed or its card is
// dead, may hold anything that was given away since the backup; these rules are safe
// whatever that is:
//
//  1. Who pays a pack with no network. Central gives that right to a second terminal only
//     after the first one's own word that it has stopped, an entry of its journal. So there
//     is one such terminal at most, at any time. One that tells after the restore that it
//     owns a pack and has not given it up is that terminal: the pack is sure, and no silent
//     one has it. It keeps its owner epoch, also where that is higher than in the backup, so
//     that what it has paid counts.
//  2. Who may pay a ticket of a pack that is sure. Central never allowed another terminal a
//     ticket that the owner did not hold first, and the owner's hold stays for ever; what
//     earlier owners and others had paid or might pay it was told before it became the
//     owner (handOver). So a ticket that was neither held nor paid when the owner told was
//     never allowed to anybody, nor paid, and it may be allowed now. Of the others one that
//     was held may have been allowed to a silent terminal, again and again by the same hold,
//     also by one that the backup has; one that was paid was paid by a silent one. Nobody
//     else gets it, and a next owner holds it (heldTickets).
//  3. What is neither waits: tickets that were held, packs that nobody has, that were
//     released, taken by force or never delivered as far as the backup knows. Nothing of
//     them is allowed, given back, moved or delivered before all terminals have told, or a
//     person answers for the silent ones (AllowClaims). A terminal that was enrolled since
//     the backup is not known here and is missed by nobody: central takes all terminals for
//     heard by itself only where the person who put it back has said that there is none.
//  4. Owner epochs that are raised after a restore begin above all that may have been given
//     before it (raised). A terminal that comes back at last with a right of the forgotten
//     time finds a higher epoch in the feed and stops; what it paid is held against the
//     epoch in its claims, and is a conflict where somebody else has the pack.
//  5. A journal is judged by the rights behind it. So the upload of a terminal whose program
//     tells waits until it has told; an older program's is judged as it comes.

// putBackAt is one restore.
type putBackAt struct {
	mark   string // '' for none
	made   string // of the backup
	feed   int64
	roster bool  // nobody was enrolled since the backup
	open   bool  // not everybody was heard, and no person has allowed what waits
	count  int64 // of all restores
}

// lastPutBack is the newest restore.
func lastPutBack(ctx context.Context, q querier) (putBackAt, error) {
	var p putBackAt
	var roster int
	var allowed string
	err := q.QueryRowContext(ctx, "SELECT at, made, feed, roster, allowed, (SELECT count(*) FROM restores) FROM restores ORDER BY at DESC LIMIT 1").Scan(&p.mark, &p.made, &p.feed, &roster, &allowed, &p.count)
	if errors.Is(err, sql.ErrNoRows) {
		return p, nil
	}
	p.roster, p.open = roster == 1, allowed == ""
	return p, err
}

// epochJump is what each restore adds to the owner epochs that are given after it.
const epochJump = 1_000_000

// raised is the owner epoch after one: above all that were given, also by a central that
// was lost and whose tables are here from a backup.
func (p putBackAt) raised(epoch int64) int64 { return max(epoch, p.count*epochJump) + 1 }

// forgotten is why a pack's right is not given away.
const forgotten = "central was put back from a backup, and may have given %s away since: it waits for every terminal's word, or for a person's (central claims allow)"

// knows is nil where it is certain who pays a pack with no network, else ErrRefused.
func (p putBackAt) knows(ctx context.Context, tx *sql.Tx, block validate.BlockID, pack uint32) error {
	if !p.open {
		return nil
	}
	var n int
	err := tx.QueryRowContext(ctx, "SELECT count(*) FROM packs WHERE block_id = $1 AND pack = $2 AND sure = $3", block[:], pack, p.mark).Scan(&n)
	if err == nil && n == 0 {
		err = because(BecausePackForgotten, fmt.Errorf("%w: "+forgotten, ErrRefused, fmt.Sprintf("pack %d", pack)), pack)
	}
	return err
}

// uncertain tells whether a ticket may have been allowed to somebody by what was lost.
func (x *asked) uncertain(ctx context.Context) (bool, error) {
	p, err := lastPutBack(ctx, x.tx)
	if err != nil || !p.open {
		return false, err
	}
	q := x.q
	var sure, held int
	err = x.tx.QueryRowContext(ctx, `SELECT (SELECT count(*) FROM packs WHERE block_id = $1 AND pack = $2 AND sure = $3),
		(SELECT count(*) FROM holds WHERE block_id = $1 AND pack = $2 AND ticket = $4 AND asked < $3)`, q.Block[:], q.Pack, p.mark, q.Ticket).Scan(&sure, &held)
	return sure == 0 || held > 0, err
}

// mustTell is what asks a terminal to tell what it may pay, nil where it has or need not.
func mustTell(ctx context.Context, q querier, name string) (*wire.Restored, error) {
	p, err := lastPutBack(ctx, q)
	if err != nil || p.mark == "" {
		return nil, err
	}
	var told string
	if err := q.QueryRowContext(ctx, "SELECT told FROM terminals WHERE name = $1", name).Scan(&told); err != nil || told == p.mark {
		return nil, err
	}
	return &wire.Restored{Mark: p.mark, Feed: p.feed}, nil
}

func (c *Central) serveStanding(w http.ResponseWriter, r *http.Request, who caller) {
	var s wire.Standing
	err := read(w, r, wire.MaxRequest, &s)
	if err == nil {
		err = speaks(s.Protocol)
	}
	if err != nil {
		c.fail(w, r, err)
		return
	}
	a, err := c.standing(r.Context(), who, s)
	c.answer(w, r, a, err)
}

// standing takes one part of what a terminal tells.
func (c *Central) standing(ctx context.Context, who caller, s wire.Standing) (wire.StandingAnswer, error) {
	a := wire.StandingAnswer{Protocol: wire.Protocol}
	if err := s.Check(); err != nil {
		return a, wireError(wire.KindBadRequest, "standing: %v", err)
	}
	proven, err := c.provePermissions(ctx, s.Claims)
	if err != nil {
		return a, err
	}
	var newest int64
	err = c.store.change(ctx, func(ctx context.Context, tx *sql.Tx) error {
		t := telling{c: c, tx: tx, who: who, now: c.now()}
		var err error
		if _, err = hold(ctx, tx, snapshotsIssued); err != nil {
			return err
		}
		if t.back, err = lastPutBack(ctx, tx); err != nil {
			return err
		}
		if t.back.mark != s.Mark {
			return wireError(wire.KindBadRequest, "standing: it is of another restore than the last one, say hello again")
		}
		for _, p := range s.Packs {
			if err := t.owns(ctx, p); err != nil {
				return err
			}
		}
		for _, k := range s.Returned { // before what it may pay: it may have asked again about the same ticket
			if err := t.gaveBack(ctx, k); err != nil {
				return err
			}
		}
		for _, p := range proven {
			if err := t.may(ctx, p); err != nil {
				return err
			}
		}
		for _, h := range s.Held {
			if err := t.holds(ctx, h); err != nil {
				return err
			}
		}
		for _, p := range s.Paid {
			if err := t.paid(ctx, p); err != nil {
				return err
			}
		}
		newest, a.Claims = t.newest, t.stand
		if !s.Last {
			return nil
		}
		if _, err := tx.ExecContext(ctx, "UPDATE terminals SET told = $1, contact = $2 WHERE name = $3", s.Mark, t.now, who.name); err != nil {
			return err
		}
		return allHeard(ctx, tx, t.now)
	})
	if err != nil {
		return a, err
	}
	c.feed.added(newest)
	c.holds.ringAll()
	c.opt.Log.Warn("a terminal has told what it may pay", "terminal", who.name, "packs", len(s.Packs), "claims", len(s.Claims), "stand", a.Claims, "held", len(s.Held), "all", s.Last)
	return a, nil
}

// provePermissions keeps those whose ticket was scratched and wins what they say.
func (c *Central) provePermissions(ctx context.Context, list []wire.Permission) ([]wire.Permission, error) {
	blocks := blockSet{c: c, open: map[validate.BlockID]*manifest.Block{}}
	var proven []wire.Permission
	for _, q := range list {
		p := proof{isClaim: true, claim: ledger.ClaimBody{Claim: q.Claim, Block: q.Block, Pack: q.Pack, Ticket: q.Ticket, Round: q.Round, Tier: q.Tier,
			AmountMinor: q.AmountMinor, Currency: q.Currency, Opening: q.Opening}}
		p, err := c.proveClaim(ctx, p, blocks)
		if err != nil {
			return nil, err
		}
		if p.kind == "" {
			proven = append(proven, q)
		}
	}
	return proven, nil
}

// telling is one part inside its transaction.
type telling struct {
	c      *Central
	tx     *sql.Tx
	who    caller
	now    string
	back   putBackAt
	newest int64
	stand  int
}

// owns takes a terminal's word that it has packs. Of those that central has at a lower
// owner epoch, or that nobody has, it is made the owner as it says: no other terminal can
// have them, unless that one has told so before, which only a program that lies can bring
// about; then the first word stands.
func (t *telling) owns(ctx context.Context, p wire.PackItem) error {
	blocks, err := blocksOf(ctx, t.tx, p.GameCode)
	if errors.Is(err, ErrNotFound) {
		return nil // a block that was published since the backup: its packs wait for a person
	}
	if err != nil {
		return err
	}
	for _, b := range blocks {
		first, last := max(p.First, b.FirstPack), min(p.Last, b.LastPack)
		if first > last {
			continue
		}
		if err := t.inBlock(ctx, b, p, first, last); err != nil {
			return err
		}
	}
	return nil
}

func (t *telling) inBlock(ctx context.Context, b Block, p wire.PackItem, first, last uint32) error {
	if p.State != validate.PackActive && p.State != validate.PackSettled {
		p.State = validate.PackDelivered
	}
	for pack := int64(first); pack <= int64(last); pack++ { // bounded by wire.MaxStandingPacks
		_, err := t.tx.ExecContext(ctx, `INSERT INTO packs(block_id, pack, game_code, state, owner, epoch, changed) VALUES($1, $2, $3, $4, '', 0, $5)
			ON CONFLICT(block_id, pack) DO UPDATE SET state = packs.state`, b.ID[:], pack, b.GameCode, validate.PackPrinted, t.now)
		if err != nil {
			return err
		}
	}
	_, err := t.tx.ExecContext(ctx, `UPDATE packs SET sure = $1 WHERE block_id = $2 AND pack BETWEEN $3 AND $4 AND owner = $5 AND epoch = $6
		AND NOT EXISTS (SELECT 1 FROM pack_rights r WHERE r.block_id = packs.block_id AND r.pack = packs.pack AND r.epoch = packs.epoch)`, t.back.mark, b.ID[:], first, last, t.who.name, p.Epoch)
	if err != nil {
		return err
	}
	_, err = t.tx.ExecContext(ctx, `UPDATE packs SET sure = $1, owner = $2, epoch = $3, changed = $4,
		activated = CASE WHEN activated = '' AND $5 <> 'delivered' THEN $4 ELSE activated END,
		settled = CASE WHEN settled = '' AND $5 = 'settled' THEN $4 ELSE settled END,
		state = CASE WHEN state IN ('printed', 'delivered') OR state = 'active' AND $5 = 'settled' THEN $5 ELSE state END
		WHERE block_id = $6 AND pack BETWEEN $7 AND $8 AND epoch < $9 AND sure <> $1`, t.back.mark, t.who.name, p.Epoch, t.now, string(p.State), b.ID[:], first, last, p.Epoch)
	if err != nil {
		return err
	}
	return t.tellAll(ctx, b, first, last)
}

// tellAll tells every terminal of packs that were given back to their owner just now.
func (t *telling) tellAll(ctx context.Context, b Block, first, last uint32) error {
	list, err := packsWhere(ctx, t.tx, "block_id = $1 AND pack BETWEEN $2 AND $3 AND owner = $4 AND changed = $5 AND sure = $6", b.ID[:], first, last, t.who.name, t.now, t.back.mark)
	if err != nil || len(list) == 0 {
		return err
	}
	var runs []wire.PackItem
	for _, p := range list {
		runs = appendRun(runs, wire.PackItem{GameCode: p.GameCode, First: p.Number, Last: p.Number, State: p.State, Owner: p.Owner, Epoch: p.Epoch})
	}
	for _, r := range runs {
		t.c.opt.Log.Warn("packs are a terminal's again, by its own word", "terminal", t.who.name, "game", r.GameCode, "first", r.First, "last", r.Last, "epoch", r.Epoch)
		if t.newest, err = addFeed(ctx, t.tx, everyone, t.now, wire.FeedItem{Kind: wire.FeedPack, Pack: &r}); err != nil {
			return err
		}
	}
	if err := reach(ctx, t.tx, []Block{b}, first, last, t.who.name); err != nil {
		return err
	}
	return t.c.relist(ctx, t.tx)
}

// gaveBack ends a claim that was allowed and given back, where the backup has the first and
// not the second: its ticket would be kept from everybody, for a terminal that never pays it.
func (t *telling) gaveBack(ctx context.Context, k wire.ClaimKey) error {
	var stored wire.ClaimAnswer
	x := asked{tx: t.tx, who: t.who, now: t.now, q: wire.ClaimRequest{Claim: k.Claim, Block: k.Block, Pack: k.Pack, Ticket: k.Ticket, Round: k.Round}}
	err := t.tx.QueryRowContext(ctx, `SELECT state FROM online_claims WHERE block_id = $1 AND pack = $2 AND ticket = $3 AND round = $4 AND claim = $5 AND terminal = $6 AND state = $7`,
		k.Block[:], k.Pack, k.Ticket, k.Round, k.Claim, t.who.name, wire.ClaimApproved).Scan(&stored.State)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := holdPacks(ctx, t.tx, "block_id = $1 AND pack = $2", k.Block[:], k.Pack); err != nil {
		return err
	}
	_, err = x.giveBack(ctx, stored)
	return err
}

// may reserves a ticket again for the claim that it was allowed to. Where it is paid, or
// reserved for another claim since, that stands, and what is paid by this one comes as a
// conflict.
func (t *telling) may(ctx context.Context, q wire.Permission) error {
	key := packKey{q.Block, q.Pack}
	if err := holdPacks(ctx, t.tx, "block_id = $1 AND pack = $2", q.Block[:], q.Pack); err != nil {
		return err
	}
	var other int
	err := t.tx.QueryRowContext(ctx, "SELECT count(*) FROM claims WHERE block_id = $1 AND pack = $2 AND ticket = $3 AND round = $4 AND claim <> $5", q.Block[:], q.Pack, q.Ticket, q.Round, q.Claim).Scan(&other)
	if err != nil {
		return err
	}
	granted, err := grants(ctx, t.tx, key)
	if err != nil {
		return err
	}
	g, reserved := granted[ticketRound{q.Ticket, q.Round}]
	if other > 0 || reserved && g.claim != q.Claim {
		t.c.opt.Log.Error("a terminal may pay what central gave somebody else since it was put back", "terminal", t.who.name, "claim", q.Claim, "pack", q.Pack, "ticket", q.Ticket, "round", q.Round, "reserved", g.terminal)
		return nil
	}
	x := asked{tx: t.tx, who: t.who, q: q.ClaimRequest, now: t.now}
	a, err := x.begin(ctx)
	switch {
	case err != nil:
		return err
	case a.State == wire.ClaimApproved:
		t.stand++ // it was never forgotten
		return nil
	case a.State != wire.ClaimPending:
		return nil // it was answered here since: that stands
	}
	if err := x.reserve(ctx); err != nil {
		return err
	}
	t.stand++
	_, err = x.decided(ctx, wire.ClaimAnswer{State: wire.ClaimApproved, OwnerEpoch: q.OwnerEpoch})
	return err
}

// holds notes that the owner of a pack pays a ticket no more by itself, as if it had been
// asked when the backup was made: it may have been allowed to somebody.
func (t *telling) holds(ctx context.Context, h wire.HoldAck) error {
	state := holdKept
	if h.Paid.Seq > 0 {
		state = holdPaid
	}
	return t.doubt(ctx, h, state)
}

// paid notes that the owner of a pack was told of a payment that is not here: by a terminal
// that is silent, for else its journal would say so, or soon will.
func (t *telling) paid(ctx context.Context, p wire.PaidItem) error {
	var known int
	err := t.tx.QueryRowContext(ctx, "SELECT count(*) FROM claims WHERE block_id = $1 AND pack = $2 AND ticket = $3", p.Block[:], p.Pack, p.Ticket).Scan(&known)
	if err != nil || known > 0 {
		return err
	}
	return t.doubt(ctx, wire.HoldAck{Block: p.Block, Pack: p.Pack, Ticket: p.Ticket}, holdKept)
}

// doubt makes a hold of the time of the backup.
func (t *telling) doubt(ctx context.Context, h wire.HoldAck, state string) error {
	_, err := t.tx.ExecContext(ctx, `INSERT INTO holds(block_id, pack, ticket, epoch, owner, feed, state, paid_epoch, paid_seq, paid_at, asked, answered)
		SELECT block_id, pack, CAST($1 AS BIGINT), epoch, owner, CAST($2 AS BIGINT), $3, CAST($4 AS BIGINT), CAST($5 AS BIGINT), $6, $7, $8 FROM packs WHERE block_id = $9 AND pack = $10 AND owner = $11
		ON CONFLICT(block_id, pack, ticket, epoch) DO UPDATE SET asked = excluded.asked`,
		h.Ticket, h.Hold, state, h.Paid.Epoch, h.Paid.Seq, plain(h.At), t.back.made, t.now, h.Block[:], h.Pack, t.who.name)
	return err
}

// allHeard lets everything be allowed again once every terminal has told, and sent again
// what central had signed for, where a person has said that there are no others.
func allHeard(ctx context.Context, tx *sql.Tx, now string) error {
	p, err := lastPutBack(ctx, tx)
	if err != nil || !p.open || !p.roster {
		return err
	}
	list, err := unheard(ctx, tx, p)
	if err != nil || len(list) > 0 {
		return err
	}
	_, err = tx.ExecContext(ctx, "UPDATE restores SET allowed = $1, why = 'every terminal has told what it may pay' WHERE allowed = ''", now)
	return err
}

// unheard are the terminals that may hold what central has forgotten, at most 100 of them,
// by name: they have not told, or not sent again what was lost.
func unheard(ctx context.Context, q querier, p putBackAt) ([]string, error) {
	var list []string
	err := eachRow(ctx, q, `SELECT name FROM terminals WHERE (state = $1 OR frozen <> '')
		AND (told <> $2 OR name IN (SELECT terminal FROM losses)) ORDER BY name LIMIT 100`, func(row scanner) error {
		var name string
		err := row.Scan(&name)
		list = append(list, name)
		return err
	}, Enrolled, p.mark)
	return list, err
}

// PutBack is the last time that central was put back, while something waits for it.
type PutBack struct {
	At      string   `json:"at"`      // of the restore
	Made    string   `json:"made"`    // of the backup, "" where other tools than Restore did it
	Roster  bool     `json:"roster"`  // a person has said that no terminal was enrolled between
	Unheard []string `json:"unheard"` // terminals that have not told what they may pay, at most 100
}

// Waiting tells what central waits for since it was put back, nil for nothing.
func (c *Central) Waiting(ctx context.Context) (*PutBack, error) {
	p, err := lastPutBack(ctx, c.store.reader())
	if err != nil || !p.open {
		return nil, err
	}
	list, err := unheard(ctx, c.store.reader(), p)
	return &PutBack{At: p.mark, Made: p.made, Roster: p.roster, Unheard: slices.Concat([]string{}, list)}, err
}
