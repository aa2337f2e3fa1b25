package central

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"grattoir/sync/ledger"
	"grattoir/sync/wire"
	"grattoir/validate"
	"grattoir/validate/manifest"
	"grattoir/validate/ticket"
)

// proof is what keys and blocks say of an entry, without the journals of others.
type proof struct {
	claim   ledger.ClaimBody
	at      string // the claim's time by the device's clock, a hint
	isClaim bool
	opened  bool               // the ticket was scratched: its secret opens its tag
	kind    wire.ExceptionKind // "" when nothing stands against it so far
	text    string
	pack    *packKey         // of an entry about a pack that is no claim
	game    string           // of the claim's block
	top     int64            // top prizes in the block, where the claim is one; see topPrize
	header  *manifest.Header // of the claim's block, where it is proven
}

// against refuses a credit. The text is for a technician.
func (p proof) against(kind wire.ExceptionKind, format string, args ...any) proof {
	p.kind, p.text = kind, fmt.Sprintf(format, args...)
	return p
}

// blockSet are the blocks that one upload needs, each looked up once: its claims are
// of few blocks.
type blockSet struct {
	c    *Central
	open map[validate.BlockID]*manifest.Block
}

func (s blockSet) find(ctx context.Context, id validate.BlockID) (*manifest.Block, error) {
	if b := s.open[id]; b != nil {
		return b, nil
	}
	b, err := s.c.block(ctx, id)
	if err == nil {
		s.open[id] = b
	}
	return b, err
}

// prove opens the opening of a claim with central's claim key and tries the secret on
// the ticket's tag. An error is central's own fault: nothing is known then.
func (c *Central) prove(ctx context.Context, l line, blocks blockSet) (proof, error) {
	var p proof
	if !l.known {
		return p.against(wire.UnknownKind, "entry version %d is of a newer program", l.entry.Version), nil
	}
	if !carriesClaim(l.entry) {
		if text := unreadable(l.entry); text != "" {
			return p.against(wire.UnknownKind, "%s", text), nil
		}
		return p, nil // stored, and nothing to credit
	}
	var err error
	if p.claim, p.at, err = claimOf(l.entry); err != nil {
		return p.against(wire.UnknownKind, "the claim's body is of a newer program"), nil
	}
	p.isClaim = true
	return c.proveClaim(ctx, p, blocks)
}

// proveClaim is prove for the body of a claim, which may be none of a journal yet.
func (c *Central) proveClaim(ctx context.Context, p proof, blocks blockSet) (proof, error) {
	block, err := blocks.find(ctx, p.claim.Block)
	if errors.Is(err, ErrNotFound) {
		return p.against(wire.ClaimUnproven, "block %v is not published", p.claim.Block), nil
	}
	if err != nil {
		return p, err
	}
	code, text := c.scratched(p.claim, block.Header)
	if text != "" {
		return p.against(wire.ClaimUnproven, "%s", text), nil
	}
	tier, err := block.Open(ctx, code)
	switch {
	case errors.Is(err, manifest.ErrNotInBlock), errors.Is(err, manifest.ErrNotAuthentic):
		return p.against(wire.ClaimUnproven, "%v", err), nil // the code shows no more than its tail
	case err != nil:
		return p, err
	}
	p.opened, p.header = true, &block.Header
	return p.compare(tier, block.Header), nil
}

// carriesClaim tells whether an entry is a payment, or holds one of an earlier epoch: also
// one that its terminal counts for nothing, because it had paid the ticket before.
func carriesClaim(e ledger.Entry) bool {
	if e.Kind == ledger.KindCarriedLine {
		inner, err := e.Carried()
		return err == nil && inner.IsClaim()
	}
	return e.IsClaim()
}

// claimOf is the claim in such an entry, and when it was paid.
func claimOf(e ledger.Entry) (ledger.ClaimBody, string, error) {
	if e.Kind == ledger.KindCarriedClaim || e.Kind == ledger.KindCarriedLine {
		inner, err := e.Carried()
		if err != nil {
			return ledger.ClaimBody{}, "", err
		}
		e = inner
	}
	c, err := e.Claim()
	return c, e.Time, err
}

// unreadable says why an entry that is no claim is not read here, "" when it is.
func unreadable(e ledger.Entry) string {
	var err error
	switch e.Kind {
	case ledger.KindShiftOpen:
		_, err = e.ShiftOpen()
	case ledger.KindReversal:
		_, err = e.Reversal()
	case ledger.KindReversalAnswer:
		_, err = e.ReversalAnswer()
	case ledger.KindReprint:
		_, err = e.Reprint()
	case ledger.KindTraining:
		_, err = e.Training()
	case ledger.KindBlocks:
		_, err = e.Blocks()
	case ledger.KindClosing:
		_, err = e.Closing()
	case ledger.KindArchive:
		_, err = e.Archive()
	case ledger.KindAuditHeads:
		_, err = e.AuditHeads()
	case ledger.KindRelease:
		_, err = e.Release()
	case ledger.KindBookedRisk:
		_, err = e.BookedRisk()
	case ledger.KindPackActivated:
		_, err = e.PackActivated()
	case ledger.KindPackSettled:
		_, err = e.PackSettled()
	case ledger.KindMessageRead:
		_, err = e.MessageRead()
	case ledger.KindAttempt:
		_, err = e.Attempt()
	case ledger.KindMisprint:
		_, err = e.Misprint()
	case ledger.KindCarriedLine:
		_, err = e.CarriedBody()
	default:
		return fmt.Sprintf("kind %.64q is of a newer program", e.Kind)
	}
	if err != nil {
		return fmt.Sprintf("the body of the %s is of a newer program", e.Kind)
	}
	return ""
}

// scratched makes the code of a claimed ticket from its opening, or says why there is none.
func (c *Central) scratched(claim ledger.ClaimBody, h manifest.Header) (code ticket.Code, text string) {
	sealed, err := claim.OpeningBytes()
	if err != nil || len(sealed) == 0 {
		return code, "the claim has no opening"
	}
	secret, err := c.keys.claim.Open(claim.Claim, validate.TicketKey{Block: claim.Block, Pack: claim.Pack, Number: claim.Ticket}, claim.Round, sealed)
	if err != nil {
		return code, "the opening was not sealed to this central, for this claim"
	}
	code, err = ticket.Make(h.Layout, h.GameCode, claim.Pack, claim.Ticket, secret)
	if err != nil {
		return code, "the opening holds no secret of this block's layout"
	}
	return code, ""
}

// compare holds the claimed prize against the proven tier.
func (p proof) compare(tier int, h manifest.Header) proof {
	p.game, p.top = h.Game, topOf(p.claim, h.Tiers)
	if tier == 0 {
		return p.against(wire.WrongPrize, "claimed tier %d, %d minor units; the ticket wins nothing", p.claim.Tier, p.claim.AmountMinor)
	}
	amount := int64(h.Tiers[tier-1].Amount)
	if p.claim.Tier != tier || p.claim.AmountMinor != amount || p.claim.Currency != h.Currency {
		return p.against(wire.WrongPrize, "claimed tier %d, %d minor units %.3s; the ticket wins tier %d, %d minor units %s",
			p.claim.Tier, p.claim.AmountMinor, p.claim.Currency, tier, amount, h.Currency)
	}
	return p
}

// judge goes through new lines in their order. Claims that lie together are credited
// together: a round trip for each would take most of an upload's time.
func (in *intake) judge(ctx context.Context, lines []line) error {
	for len(lines) > 0 {
		n := 0
		for n < min(len(lines), entriesAtOnce) && lines[n].proof.isClaim {
			n++
		}
		var err error
		if n > 0 {
			err = in.judgeClaims(ctx, lines[:n])
		} else {
			n, err = 1, in.judgeOther(ctx, lines[0])
		}
		if err != nil {
			return fmt.Errorf("entry %d-%d or after it: %w", in.epoch, lines[0].seq, err)
		}
		lines = lines[n:]
	}
	return nil
}

// judgeOther takes an entry that is no claim.
func (in *intake) judgeOther(ctx context.Context, l line) error {
	switch {
	case l.proof.kind != "":
		return in.conflict(ctx, l, l.proof)
	case l.entry.Kind == ledger.KindReversal:
		return in.reversal(ctx, l)
	case l.entry.Kind == ledger.KindRelease:
		return in.release(ctx, l)
	case l.entry.Kind == ledger.KindBookedRisk:
		return in.risk(ctx, l)
	case l.entry.Kind == ledger.KindPackActivated:
		return in.activated(ctx, l)
	case l.entry.Kind == ledger.KindMessageRead:
		return in.messageRead(ctx, l)
	case l.entry.Kind == ledger.KindAttempt:
		return in.attempt(ctx, l)
	case l.entry.Kind == ledger.KindMisprint:
		return in.misprint(ctx, l)
	}
	return nil
}

// judgeClaims credits the proven claims of a run, keeps every other entry as a conflict,
// and tells the pack's owner of a ticket that another terminal paid. Reasons win in this
// order: unproven, wrong prize, double claim, no right.
func (in *intake) judgeClaims(ctx context.Context, run []line) error {
	judged := make([]proof, len(run))
	var allowed []line
	for i, l := range run {
		r, err := in.right(ctx, l.proof.claim)
		if err != nil {
			return err
		}
		if judged[i] = l.proof; l.proof.kind != "" {
			continue
		}
		if judged[i], err = in.allowed(ctx, l.proof, r); err != nil {
			return err
		}
		if judged[i].kind == "" {
			allowed = append(allowed, l)
		}
	}
	credited, err := in.credit(ctx, allowed)
	if err != nil {
		return err
	}
	for i, l := range run {
		p := judged[i]
		if l.proof.kind == "" && !credited[l.seq] {
			if p, err = in.standing(ctx, p); err != nil {
				return err
			}
		}
		if err := in.settle(ctx, l, p); err != nil {
			return err
		}
		if credited[l.seq] {
			in.credited = append(in.credited, l)
			if err := in.knew(ctx, l.proof.claim); err != nil {
				return err
			}
			if err := in.topPrize(ctx, l.proof); err != nil {
				return err
			}
		}
	}
	return nil
}

// settle keeps a claim that is not credited as a conflict. Of one that was scratched, and
// so only of a ticket that was really in somebody's hands, the pack's owner is told: a claim
// made up must not stop its owner paying it.
func (in *intake) settle(ctx context.Context, l line, p proof) error {
	if p.kind != "" {
		if err := in.conflict(ctx, l, p); err != nil {
			return err
		}
	}
	c := p.claim
	owner := in.rights[packKey{c.Block, c.Pack}].owner
	if !p.opened || owner == "" || owner == in.who.name {
		return nil
	}
	var err error
	in.newest, err = addFeed(ctx, in.tx, owner, in.now, wire.FeedItem{Kind: wire.FeedPaid, Paid: &wire.PaidItem{Block: c.Block, Pack: c.Pack,
		Ticket: c.Ticket, Terminal: in.who.name, Number: validate.EntryNumber{Epoch: in.epoch, Seq: l.seq}.String(), At: in.paidAt(l)}})
	return err
}

// paidAt is the entry's own time where it is one, else when it was received: a clock
// gone wild must not stop another terminal's feed.
func (in *intake) paidAt(l line) string {
	if t, err := wire.ParseTime(l.proof.at); err == nil && wire.FormatTime(t) == l.proof.at {
		return l.proof.at
	}
	return in.now
}

// right is who may pay a pack, as central has it now.
type right struct {
	owner   string
	epoch   int64
	sold    bool                  // the pack was activated, whatever became of it since
	granted map[ticketRound]grant // tickets that one claim alone may pay
	freed   bool                  // some of its permissions were given up, with their terminals
	recalls map[int64]report      // by ticket, wholePack for all of them
	held    packRight             // zero while the owner pays with no network
}

// packKey names a pack.
type packKey struct {
	block validate.BlockID
	pack  uint32
}

// String is the key's one text.
func (k packKey) String() string { return fmt.Sprintf("%v/%d", k.block, k.pack) }

// right looks each pack up once: an upload's claims are of few.
func (in *intake) right(ctx context.Context, c ledger.ClaimBody) (right, error) {
	key := packKey{c.Block, c.Pack}
	if r, known := in.rights[key]; known {
		return r, nil
	}
	var r right
	var reserved, recalled bool
	err := in.tx.QueryRowContext(ctx, `SELECT p.owner, p.epoch, p.activated <> '', coalesce(r.kind, ''), coalesce(r.holder, ''), coalesce(r.holder_epoch, 0),
		EXISTS (SELECT 1 FROM reservations v WHERE v.block_id = p.block_id AND v.pack = p.pack), EXISTS (SELECT 1 FROM freed f WHERE f.block_id = p.block_id AND f.pack = p.pack),
		EXISTS (SELECT 1 FROM recalls s WHERE s.block_id = p.block_id AND s.pack = p.pack)
		FROM packs p LEFT JOIN pack_rights r ON r.block_id = p.block_id AND r.pack = p.pack AND r.epoch = p.epoch WHERE p.block_id = $1 AND p.pack = $2`,
		c.Block[:], c.Pack).Scan(&r.owner, &r.epoch, &r.sold, &r.held.kind, &r.held.holder, &r.held.epoch, &reserved, &r.freed, &recalled)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return r, err
	}
	// An upload of the owner and a grant of its tickets hold the owner's row, so that this
	// stays true until the end of either.
	if reserved {
		if r.granted, err = grants(ctx, in.tx, key); err != nil {
			return r, err
		}
	}
	if recalled {
		if r.recalls, err = recallsOf(ctx, in.tx, key); err != nil {
			return r, err
		}
	}
	in.rights[key] = r
	return r, nil
}

// credit makes proven claims the accepted ones of their tickets and rounds, where they are
// the first: the table's key decides. It gives the numbers of those that are.
func (in *intake) credit(ctx context.Context, run []line) (map[int64]bool, error) {
	credited := map[int64]bool{}
	if len(run) == 0 {
		return credited, nil
	}
	rows, err := in.c.store.insert(ctx, in.tx, in.claims(run))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var seq int64
		var key packKey
		var block []byte
		if err := rows.Scan(&seq, &block, &key.pack); err != nil {
			return nil, err
		}
		copy(key.block[:], block)
		credited[seq], in.paid[key] = true, true
	}
	return credited, rows.Err()
}

// claims are the rows of a run in the table of claims.
func (in *intake) claims(run []line) batch {
	n := len(run)
	blocks, texts, numbers := make([][]byte, n), make([][]string, 6), make([][]int64, 6)
	for i := range texts {
		texts[i], numbers[i] = make([]string, n), make([]int64, n)
	}
	for i := range run {
		c := &run[i].proof.claim
		blocks[i] = c.Block[:]
		for k, text := range []string{c.Claim, c.Currency, c.Operator, run[i].proof.at, string(c.Entered), c.FirstCheck} {
			texts[k][i] = plain(text)
		}
		for k, number := range []int64{int64(c.Pack), int64(c.Ticket), int64(c.Round), run[i].seq, int64(c.Tier), c.AmountMinor} {
			numbers[k][i] = number
		}
	}
	return batch{into: "claims", fixed: []column{{"terminal", in.who.name}, {"epoch", in.epoch}, {"received", in.now}},
		each: []column{{"block_id", blocks}, {"pack", numbers[0]}, {"ticket", numbers[1]}, {"round", numbers[2]}, {"claim", texts[0]}, {"seq", numbers[3]}, {"tier", numbers[4]},
			{"amount_minor", numbers[5]}, {"currency", texts[1]}, {"operator", texts[2]}, {"paid", texts[3]}, {"entered", texts[4]}, {"first_check", texts[5]}},
		then: " ON CONFLICT(block_id, pack, ticket, round) DO NOTHING RETURNING seq, block_id, pack"}
}

// standing says why a proven claim was not credited: another one stands, or what allowed
// has found.
func (in *intake) standing(ctx context.Context, p proof) (proof, error) {
	var terminal string
	var number validate.EntryNumber
	c := p.claim
	err := in.tx.QueryRowContext(ctx, "SELECT terminal, epoch, seq FROM claims WHERE block_id = $1 AND pack = $2 AND ticket = $3 AND round = $4",
		c.Block[:], c.Pack, c.Ticket, c.Round).Scan(&terminal, &number.Epoch, &number.Seq)
	switch {
	case err == nil:
		return p.against(wire.DoubleClaim, "terminal %s paid it first, entry %v", terminal, number), nil
	case !errors.Is(err, sql.ErrNoRows):
		return p, err
	case p.kind == "": // the key is taken by a claim that this transaction does not see
		return p, errAgain
	}
	return p, nil
}

// allowed tells whether the terminal had the right to pay the claim's ticket.
func (in *intake) allowed(ctx context.Context, p proof, r right) (proof, error) {
	c := p.claim
	if at, reported := r.reported(c.Ticket); reported && c.Feed >= at.feed {
		return p.against(wire.NoRight, "the terminal paid it after it had heard that it is %s (it had reached feed item %d, the report is item %d)", at.state, c.Feed, at.feed), nil
	}
	if r.freed {
		if by, err := freedBy(ctx, in.tx, c.Block, c.Pack, c.Ticket, c.Round, c.Claim); err != nil || by != "" {
			return p.against(wire.NoRight, "central had allowed it and gave it up when the terminal was lost (%s)", by), err
		}
	}
	g, reserved := r.granted[ticketRound{c.Ticket, c.Round}]
	if reserved && g.claim == c.Claim && g.terminal == in.who.name {
		return p, nil
	}
	open, err := roundOpen(ctx, in.tx, c.Block, c.Pack, c.Ticket, c.Round)
	switch {
	case err != nil:
		return p, err
	case reserved:
		return p.against(wire.NoRight, "the ticket is reserved for another claim, of %s", g.terminal), nil
	case !open:
		return p.against(wire.NoRight, "round %d, and no reversal of this ticket's round %d was accepted", c.Round, c.Round-1), nil
	case c.Round > 0:
		return p.against(wire.NoRight, "round %d is paid by central's word only, and this claim has none", c.Round), nil
	case r.held.kind == rightForced && r.held.holder == in.who.name && r.held.epoch == c.OwnerEpoch:
		return p, nil // nobody else could pay it since; the pack waits for this very journal
	case r.owner != "" && r.owner != in.who.name && r.sold && r.held.kind != rightForced && r.held.kind != rightOnline:
		if risky, err := in.risky(ctx, c); err != nil || risky {
			return p, err
		}
		return p.against(wire.NoRight, "pack %d is owned by %s", c.Pack, r.owner), nil
	case r.owner == "":
		return p.against(wire.NoRight, "pack %d was delivered to nobody", c.Pack), nil
	case r.owner != in.who.name:
		return p.against(wire.NoRight, "pack %d is owned by %s", c.Pack, r.owner), nil
	case r.epoch != c.OwnerEpoch:
		return p.against(wire.NoRight, "pack %d is at owner epoch %d, the claim is of %d", c.Pack, r.epoch, c.OwnerEpoch), nil
	case r.held.kind != "":
		return p.against(wire.NoRight, "pack %d is paid by central's word only (%s)", c.Pack, r.held.kind), nil
	case !r.sold:
		return p.against(wire.NoRight, "pack %d was never activated", c.Pack), nil
	}
	return p, nil
}

func (in *intake) conflict(ctx context.Context, l line, p proof) error {
	var block, pack, number, round, amount any
	if c := p.claim; p.isClaim {
		block, pack, number, round, amount = c.Block[:], c.Pack, c.Ticket, c.Round, c.AmountMinor
	} else if p.pack != nil {
		block, pack = p.pack.block[:], p.pack.pack
	}
	_, err := in.tx.ExecContext(ctx, `INSERT INTO conflicts(terminal, epoch, seq, kind, text, block_id, pack, ticket, round, amount_minor, currency, line, received)
		VALUES($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)`, in.who.name, in.epoch, l.seq, p.kind, plain(p.text), block, pack, number, round, amount, plain(p.claim.Currency), l.text, in.now)
	if err != nil {
		return err
	}
	in.newest, err = addFeed(ctx, in.tx, in.who.name, in.now, wire.FeedItem{Kind: wire.FeedException,
		Exception: &wire.ExceptionItem{Epoch: in.epoch, Seq: l.seq, Kind: p.kind, Text: clipped(plain(p.text))}})
	return err
}

// clipped is a text of at most wire.MaxReason bytes.
func clipped(text string) string {
	if len(text) <= wire.MaxReason {
		return text
	}
	return strings.ToValidUTF8(text[:wire.MaxReason-3], "") + "..."
}
