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

// PackRight is a pack that its owner does not pay with no network.
type PackRight struct {
	GameCode string    `json:"game_code"`
	Number   uint32    `json:"pack"`
	Owner    string    `json:"owner"`
	Epoch    int64     `json:"epoch"`
	Kind     string    `json:"kind"`   // released, forced, online
	Holder   string    `json:"holder"` // who had the right before
	Note     string    `json:"note"`
	Since    time.Time `json:"since"`
}

// PackRights lists the packs that their owners do not pay with no network, by game code and number.
func (c *Central) PackRights(ctx context.Context) ([]PackRight, error) {
	list := []PackRight{}
	err := eachRow(ctx, c.store.reader(), `SELECT p.game_code, p.pack, p.owner, p.epoch, r.kind, r.holder, r.note, r.since FROM packs p
		JOIN pack_rights r ON r.block_id = p.block_id AND r.pack = p.pack AND r.epoch = p.epoch ORDER BY p.game_code, p.pack`, func(row scanner) error {
		var r PackRight
		var since string
		err := row.Scan(&r.GameCode, &r.Number, &r.Owner, &r.Epoch, &r.Kind, &r.Holder, &r.Note, &since)
		if err == nil {
			r.Since, err = wire.ParseTime(since)
		}
		list = append(list, r)
		return err
	})
	return list, err
}

// MovePacks gives packs to another terminal, at a raised owner epoch. Their owner has
// released them, and then the new one has the whole right at once. With force it need not
// have: then nobody pays them until the old owner's journal says that it has stopped, or
// WriteOff gives it up. The answer is what the feed tells every terminal. The errors
// include ErrRefused and ErrNotFound.
func (c *Central) MovePacks(ctx context.Context, gameCode string, first, last uint32, to string, force bool) ([]wire.PackItem, error) {
	fail := func(err error) ([]wire.PackItem, error) {
		return nil, fmt.Errorf("move packs %d-%d of game code %.12s to %.64q: %w", first, last, gameCode, to, err)
	}
	if last < first || last-first >= maxRun {
		return fail(because(BecauseRunTooLong, fmt.Errorf("%w: want a run of 1 to %d packs", ErrRefused, maxRun), maxRun))
	}
	m := moving{c: c, to: to, force: force}
	err := c.store.change(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if err := m.begin(ctx, tx); err != nil {
			return err
		}
		blocks, err := blocksOf(ctx, tx, gameCode)
		if err != nil {
			return err
		}
		for _, b := range blocks {
			if err := m.block(ctx, b, max(first, b.FirstPack), min(last, b.LastPack)); err != nil {
				return err
			}
		}
		if m.packs != int64(last-first)+1 {
			return because(BecauseNotAllDelivered, fmt.Errorf("%w: only %d of them were delivered to anybody", ErrRefused, m.packs), m.packs)
		}
		return m.end(ctx)
	})
	if err != nil {
		return fail(err)
	}
	c.feed.added(m.newest)
	c.opt.Log.Info("packs moved", "act", "move", "game", gameCode, "first", first, "last", last, "owner", to, "force", force)
	return m.runs, nil
}

// moving is one move inside its transaction.
type moving struct {
	c      *Central
	to     string
	force  bool
	tx     *sql.Tx
	now    string
	back   putBackAt
	packs  int64
	whole  []Pack          // with the whole right: their owners have released them
	taken  []wire.PackItem // of nobody for now
	newest int64
	runs   []wire.PackItem // what the feed says
}

func (m *moving) begin(ctx context.Context, tx *sql.Tx) error {
	m.tx, m.now, m.packs, m.newest, m.whole, m.taken, m.runs = tx, m.c.now(), 0, 0, nil, nil, nil
	if _, err := hold(ctx, tx, snapshotsIssued); err != nil {
		return err
	}
	var err error
	if m.back, err = lastPutBack(ctx, tx); err != nil {
		return err
	}
	return mayOwn(ctx, tx, m.to)
}

// block moves the packs of a run that lie in one block.
func (m *moving) block(ctx context.Context, b Block, first, last uint32) error {
	if first > last {
		return nil
	}
	const where = "block_id = $1 AND pack BETWEEN $2 AND $3 AND owner <> ''"
	if err := holdPacks(ctx, m.tx, where, b.ID[:], first, last); err != nil {
		return err
	}
	list, err := packsWhere(ctx, m.tx, where, b.ID[:], first, last)
	if err != nil {
		return err
	}
	for _, p := range list {
		if err := m.one(ctx, p); err != nil {
			return err
		}
	}
	return reach(ctx, m.tx, []Block{b}, first, last, m.to)
}

// one moves a pack whose row is held.
func (m *moving) one(ctx context.Context, p Pack) error {
	if p.Owner == m.to {
		return because(BecauseOwnedAlready, fmt.Errorf("%w: pack %d is owned by %s already", ErrRefused, p.Number, p.Owner), p.Number, p.Owner)
	}
	if err := m.back.knows(ctx, m.tx, p.Block, p.Number); err != nil {
		return err
	}
	m.packs++
	key := packKey{p.Block, p.Number}
	held, err := packRightOf(ctx, m.tx, key, p.Epoch)
	if err != nil {
		return err
	}
	if held.kind == rightReleased {
		m.whole = append(m.whole, p)
		return nil
	}
	switch {
	case held.kind == rightOnline: // and stays so: who may have paid it was never heard
	case !m.force:
		return because(BecauseNotReleased, fmt.Errorf("%w: %s has not released pack %d (terminalctl pack release there). With --force nobody pays it until that terminal's journal is here, or was written off", ErrRefused, p.Owner, p.Number), p.Owner, p.Number)
	case held.kind == "":
		held = packRight{kind: rightForced, holder: p.Owner, epoch: p.Epoch}
		// An upload of the owner comes before, or finds the pack taken.
		if _, err := m.tx.ExecContext(ctx, "UPDATE terminals SET state = state WHERE name = $1", p.Owner); err != nil {
			return err
		}
	}
	return m.take(ctx, p, held)
}

// take makes the terminal a pack's owner without the right to pay it with no network.
func (m *moving) take(ctx context.Context, p Pack, held packRight) error {
	epoch := m.back.raised(p.Epoch)
	_, err := m.tx.ExecContext(ctx, `INSERT INTO pack_rights(block_id, pack, epoch, kind, holder, holder_epoch, since) VALUES($1, $2, $3, $4, $5, $6, $7)
		ON CONFLICT(block_id, pack) DO UPDATE SET epoch = excluded.epoch, kind = excluded.kind, holder = excluded.holder, holder_epoch = excluded.holder_epoch, since = excluded.since`,
		p.Block[:], p.Number, epoch, held.kind, held.holder, held.epoch, m.now)
	if err != nil {
		return err
	}
	if err := once(m.tx.ExecContext(ctx, "UPDATE packs SET owner = $1, epoch = $2, changed = $3 WHERE block_id = $4 AND pack = $5 AND epoch = $6",
		m.to, epoch, m.now, p.Block[:], p.Number, p.Epoch)); err != nil {
		return err
	}
	m.taken = appendRun(m.taken, wire.PackItem{GameCode: p.GameCode, First: p.Number, Last: p.Number, State: p.State, Epoch: epoch})
	return nil
}

// end tells every terminal.
func (m *moving) end(ctx context.Context) (err error) {
	if m.newest, m.runs, err = handOver(ctx, m.tx, m.whole, m.to, m.now); err != nil {
		return err
	}
	for _, r := range m.taken {
		if m.newest, err = addFeed(ctx, m.tx, everyone, m.now, wire.FeedItem{Kind: wire.FeedPack, Pack: &r}); err != nil {
			return err
		}
	}
	m.runs = append(m.runs, m.taken...)
	return m.c.relist(ctx, m.tx)
}

// GivenUp is what an operator gives up with packs whose old holder is not heard any more.
type GivenUp struct {
	Packs  int64    `json:"packs"`
	Of     []string `json:"of"`               // the holders
	Claims int64    `json:"allowance_claims"` // each may have paid so many claims that nobody heard of, 0 for no bound
	Minor  int64    `json:"allowance_minor"`
}

// WriteOff gives up waiting for the old holders of packs that were moved by force. From
// then on central's word pays these packs; what their old holders claim later is kept as
// conflicts. The loss is bounded by the allowance that each holder had. The errors include
// ErrRefused, where none of the packs waits for anybody.
func (c *Central) WriteOff(ctx context.Context, gameCode string, first, last uint32, note string) (GivenUp, error) {
	fail := func(err error) (GivenUp, error) {
		return GivenUp{}, fmt.Errorf("write off packs %d-%d of game code %.12s: %w", first, last, gameCode, err)
	}
	if note == "" || len(note) > maxAnswer {
		return fail(because(BecauseWhyMissing, fmt.Errorf("%w: say who decided it and why, in at most %d bytes", ErrRefused, maxAnswer), maxAnswer))
	}
	loss := GivenUp{Claims: c.opt.AllowanceClaims, Minor: c.opt.AllowanceMinor}
	err := c.store.change(ctx, func(ctx context.Context, tx *sql.Tx) error {
		loss.Packs, loss.Of = 0, nil
		blocks, err := blocksOf(ctx, tx, gameCode)
		if err != nil {
			return err
		}
		for _, b := range blocks {
			if err := loss.writeOff(ctx, tx, b, first, last, note); err != nil {
				return err
			}
		}
		if loss.Packs == 0 {
			return because(BecauseNoneWaits, fmt.Errorf("%w: none of them waits for a terminal's journal (central pack rights)", ErrRefused))
		}
		return nil
	})
	if err != nil {
		return fail(err)
	}
	c.opt.Log.Warn("packs written off", "game", gameCode, "first", first, "last", last, "packs", loss.Packs, "of", loss.Of, "note", note)
	return loss, nil
}

func (l *GivenUp) writeOff(ctx context.Context, tx *sql.Tx, b Block, first, last uint32, note string) error {
	const at = " FROM pack_rights WHERE block_id = $1 AND pack BETWEEN $2 AND $3 AND kind = $4"
	if err := holdPacks(ctx, tx, "block_id = $1 AND pack BETWEEN $2 AND $3", b.ID[:], first, last); err != nil {
		return err
	}
	// An upload of a holder is credited before, or finds itself written off.
	if _, err := tx.ExecContext(ctx, "UPDATE terminals SET state = state WHERE name IN (SELECT holder"+at+")", b.ID[:], first, last, rightForced); err != nil {
		return err
	}
	if err := eachRow(ctx, tx, "SELECT DISTINCT holder"+at+" ORDER BY holder", func(row scanner) error {
		var name string
		err := row.Scan(&name)
		l.Of = append(l.Of, name)
		return err
	}, b.ID[:], first, last, rightForced); err != nil {
		return err
	}
	done, err := tx.ExecContext(ctx, "UPDATE pack_rights SET kind = $1, note = $2 WHERE block_id = $3 AND pack BETWEEN $4 AND $5 AND kind = $6", rightOnline, note, b.ID[:], first, last, rightForced)
	if err != nil {
		return err
	}
	n, err := done.RowsAffected()
	l.Packs += n
	return err
}

// Replacement is a terminal that another one took the place of.
type Replacement struct {
	Old    string               `json:"old"`
	New    string               `json:"new"`
	Packs  int64                `json:"packs"`
	Acked  validate.EntryNumber `json:"acked"`  // end of the old one's journal held here
	Told   validate.EntryNumber `json:"told"`   // end that it last told of
	Unsent int64                `json:"unsent"` // entries between, as far as is known: its float
	Made   time.Time            `json:"made"`
}

// Replace gives all packs of a terminal to another, by force: nobody pays them until the
// old one's journal is here, or was written off. What is known of that journal is noted.
// The old terminal is not suspended: when it comes back on the line its journal is taken,
// and its packs pass on by themselves. The errors include ErrRefused and ErrNotFound.
func (c *Central) Replace(ctx context.Context, old, by string) (Replacement, error) {
	r := Replacement{Old: old, New: by}
	m := moving{c: c, to: by, force: true}
	err := c.store.change(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if old == by {
			return because(BecauseOwnPlace, fmt.Errorf("%w: a terminal cannot take its own place", ErrRefused))
		}
		if err := m.begin(ctx, tx); err != nil {
			return err
		}
		err := tx.QueryRowContext(ctx, "UPDATE terminals SET state = state WHERE name = $1 RETURNING ack_epoch, ack_seq, head_epoch, head_seq, unsent", old).
			Scan(&r.Acked.Epoch, &r.Acked.Seq, &r.Told.Epoch, &r.Told.Seq, &r.Unsent)
		if errors.Is(err, sql.ErrNoRows) {
			return because(BecauseTerminalUnknown, fmt.Errorf("terminal %.64q: %w: central terminal list shows the names", old, ErrNotFound), old)
		}
		if err != nil {
			return err
		}
		blocks, err := listBlocks(ctx, tx)
		if err != nil {
			return err
		}
		for _, b := range blocks {
			if err := m.allOf(ctx, b, old); err != nil {
				return err
			}
		}
		r.Packs = m.packs
		_, err = tx.ExecContext(ctx, "INSERT INTO replacements(old, made, new, packs, ack_epoch, ack_seq, head_epoch, head_seq, unsent) VALUES($1, $2, $3, $4, $5, $6, $7, $8, $9)",
			old, m.now, by, m.packs, r.Acked.Epoch, r.Acked.Seq, r.Told.Epoch, r.Told.Seq, r.Unsent)
		if err != nil {
			return err
		}
		if r.Made, err = wire.ParseTime(m.now); err != nil {
			return err
		}
		return m.end(ctx)
	})
	if err != nil {
		return Replacement{}, fmt.Errorf("replace terminal %.64q by %.64q: %w", old, by, err)
	}
	c.feed.added(m.newest)
	c.opt.Log.Warn("terminal replaced", "terminal", old, "by", by, "packs", r.Packs, "unsent", r.Unsent)
	return r, nil
}

// allOf moves all packs of a terminal that lie in one block.
func (m *moving) allOf(ctx context.Context, b Block, old string) error {
	const where = "block_id = $1 AND owner = $2"
	if err := holdPacks(ctx, m.tx, where, b.ID[:], old); err != nil {
		return err
	}
	list, err := packsWhere(ctx, m.tx, where, b.ID[:], old)
	if err != nil || len(list) == 0 {
		return err
	}
	for _, p := range list {
		if err := m.one(ctx, p); err != nil {
			return err
		}
	}
	return reach(ctx, m.tx, []Block{b}, b.FirstPack, b.LastPack, m.to)
}
