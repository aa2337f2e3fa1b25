package central

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"grattoir/sync/wire"
	"grattoir/validate"
)

// maxRun bounds the packs moved in one act, and so the time the database is held.
const maxRun = 100_000

// Pack is a pack that left the printer's store.
type Pack struct {
	Block     validate.BlockID   `json:"block"`
	GameCode  string             `json:"game_code"`
	Number    uint32             `json:"pack"`
	State     validate.PackState `json:"state"`
	Owner     string             `json:"owner"`
	Epoch     int64              `json:"epoch"` // owner epoch
	Changed   time.Time          `json:"changed"`
	Activated time.Time          `json:"activated,omitzero"`
	Settled   time.Time          `json:"settled,omitzero"`
	SettledBy string             `json:"settled_by,omitempty"` // who, or which rule
	Before    validate.PackState `json:"before,omitempty"`     // what a stolen pack was before
	Stolen    []wire.TicketRun   `json:"stolen_tickets,omitempty"`
	Returned  []wire.TicketRun   `json:"returned_tickets,omitempty"`
}

// PackFilter chooses packs; its zero value chooses all. Fields that are "" choose nothing.
type PackFilter struct {
	GameCode string // typed with or without its leading zeros
	State    validate.PackState
	Owner    string
}

// Packs lists packs by game code and number. Packs of which nothing was ever done are
// printed; they have no row and are not listed.
func (c *Central) Packs(ctx context.Context, f PackFilter) ([]Pack, error) {
	if f.GameCode != "" {
		blocks, err := blocksOf(ctx, c.store.reader(), f.GameCode)
		if err != nil {
			return nil, err
		}
		f.GameCode = blocks[0].GameCode
	}
	rows, err := c.store.reader().QueryContext(ctx, `SELECT block_id, game_code, pack, state, owner, epoch, changed, activated, settled, settled_by, was FROM packs
		WHERE $1 IN ('', game_code) AND $2 IN ('', state) AND $3 IN ('', owner) ORDER BY game_code, pack`, f.GameCode, f.State, f.Owner)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	list := []Pack{}
	for rows.Next() {
		p, err := scanPack(rows)
		if err != nil {
			return nil, err
		}
		list = append(list, p)
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	return list, c.fillTickets(ctx, list)
}

func scanPack(row scanner) (Pack, error) {
	var p Pack
	var id []byte
	var changed, activated, settled string
	err := row.Scan(&id, &p.GameCode, &p.Number, &p.State, &p.Owner, &p.Epoch, &changed, &activated, &settled, &p.SettledBy, &p.Before)
	if err != nil {
		return p, err
	}
	copy(p.Block[:], id)
	for _, at := range []struct {
		text string
		into *time.Time
	}{{changed, &p.Changed}, {activated, &p.Activated}, {settled, &p.Settled}} {
		if at.text == "" {
			continue
		}
		if *at.into, err = wire.ParseTime(at.text); err != nil {
			return p, fmt.Errorf("pack %d of game code %s: %w", p.Number, p.GameCode, err)
		}
	}
	return p, nil
}

// fillTickets adds what is stored of single tickets: few packs have any.
func (c *Central) fillTickets(ctx context.Context, list []Pack) error {
	at := map[packKey]*Pack{}
	for i := range list {
		at[packKey{list[i].Block, list[i].Number}] = &list[i]
	}
	return eachRow(ctx, c.store.reader(), "SELECT block_id, pack, state, first, last FROM pack_tickets ORDER BY block_id, pack, state, first", func(row scanner) error {
		var id []byte
		var key packKey
		var state validate.PackState
		var run wire.TicketRun
		if err := row.Scan(&id, &key.pack, &state, &run.First, &run.Last); err != nil {
			return err
		}
		copy(key.block[:], id)
		switch p := at[key]; {
		case p == nil:
		case state == validate.PackStolenNow:
			p.Stolen = append(p.Stolen, run)
		default:
			p.Returned = append(p.Returned, run)
		}
		return nil
	})
}

// Deliver gives packs first to last of a game code, all printed, to a terminal: it owns
// them from now on, at a raised epoch, and may pay them once they are active. The
// answer is the runs that the feed tells every terminal.
func (c *Central) Deliver(ctx context.Context, gameCode string, first, last uint32, terminal string) ([]wire.PackItem, error) {
	return c.move(ctx, gameCode, first, last, move{act: DeliverPack, owner: terminal})
}

// Activate puts delivered packs on sale: their tickets may be paid.
func (c *Central) Activate(ctx context.Context, gameCode string, first, last uint32) ([]wire.PackItem, error) {
	return c.move(ctx, gameCode, first, last, move{act: ActivatePack})
}

// move is an act on packs. The acts and when they are legal are the table life.
type move struct {
	act   PackAct
	owner string // whom they are delivered to
	by    string // who settles them, or which rule

	back putBackAt                  // of a delivery
	sold map[validate.BlockID]error // whether packs of a block may be sold, as far as it was asked; nil keeps nothing
}

func (c *Central) move(ctx context.Context, gameCode string, first, last uint32, m move) ([]wire.PackItem, error) {
	fail := func(err error) ([]wire.PackItem, error) {
		return nil, fmt.Errorf("%s packs %d-%d of game code %.12s: %w", m.act, first, last, gameCode, err)
	}
	if last < first || last-first >= maxRun {
		return fail(because(BecauseRunTooLong, fmt.Errorf("%w: want a run of 1 to %d packs", ErrRefused, maxRun), maxRun))
	}
	var runs []wire.PackItem
	var newest int64
	err := c.store.change(ctx, func(ctx context.Context, tx *sql.Tx) error {
		runs, m.sold = nil, map[validate.BlockID]error{}
		if m.owner != "" {
			if _, err := hold(ctx, tx, snapshotsIssued); err != nil {
				return err
			}
		}
		blocks, err := blocksOf(ctx, tx, gameCode)
		if err != nil {
			return err
		}
		if m.owner != "" {
			if err := mayOwn(ctx, tx, m.owner); err != nil {
				return err
			}
			if m.back, err = lastPutBack(ctx, tx); err != nil {
				return err
			}
		}
		now := c.now()
		for pack := int64(first); pack <= int64(last); pack++ {
			item, err := m.one(ctx, tx, blocks, uint32(pack), now)
			if err != nil {
				return err
			}
			runs = appendRun(runs, item)
		}
		if m.owner != "" {
			if err := reach(ctx, tx, blocks, first, last, m.owner); err != nil {
				return err
			}
			if err := c.relist(ctx, tx); err != nil {
				return err
			}
		}
		for _, r := range runs {
			if newest, err = addFeed(ctx, tx, everyone, now, wire.FeedItem{Kind: wire.FeedPack, Pack: &r}); err != nil {
				return err
			}
			if err := recallPacks(ctx, tx, blocks, r, m.act, newest, now); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fail(err)
	}
	c.feed.added(newest)
	c.opt.Log.Info("packs moved", "act", m.act, "game", runs[0].GameCode, "first", first, "last", last, "owner", runs[0].Owner)
	return runs, nil
}

// one moves one pack.
func (m move) one(ctx context.Context, tx *sql.Tx, blocks []Block, pack uint32, now string) (wire.PackItem, error) {
	b, ok := blockWith(blocks, pack)
	if !ok {
		return wire.PackItem{}, because(BecausePackUnknown, fmt.Errorf("%w: pack %d lies in no published block of this game code: central block publish its manifest first", ErrNotFound, pack), pack)
	}
	return m.step(ctx, tx, b, pack, now)
}

func blockWith(blocks []Block, pack uint32) (Block, bool) {
	for _, b := range blocks {
		if b.FirstPack <= pack && pack <= b.LastPack {
			return b, true
		}
	}
	return Block{}, false
}

// appendRun joins a pack to the run before it where they differ in nothing else.
func appendRun(runs []wire.PackItem, next wire.PackItem) []wire.PackItem {
	if n := len(runs); n > 0 {
		joined := runs[n-1]
		if uint64(joined.Last)+1 == uint64(next.First) {
			joined.Last = next.Last
			next.First = joined.First
			if joined == next {
				runs[n-1] = joined
				return runs
			}
			next.First = next.Last
		}
	}
	return append(runs, next)
}

// blocksOf lists the published blocks of a game code, typed with or without its leading zeros.
func blocksOf(ctx context.Context, q querier, gameCode string) ([]Block, error) {
	all, err := listBlocks(ctx, q)
	if err != nil {
		return nil, err
	}
	var list []Block
	for _, b := range all {
		if short := len(b.GameCode) - len(gameCode); short >= 0 && strings.Repeat("0", short)+gameCode == b.GameCode {
			list = append(list, b)
		}
	}
	if len(list) == 0 {
		return nil, because(BecauseCodeUnknown, fmt.Errorf("game code %.12q: %w: no block of it is published (central block publish FILE.manifest)", gameCode, ErrNotFound), gameCode)
	}
	return list, nil
}

func mayOwn(ctx context.Context, tx *sql.Tx, terminal string) error {
	var state TerminalState
	err := tx.QueryRowContext(ctx, "SELECT state FROM terminals WHERE name = $1", terminal).Scan(&state)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return because(BecauseTerminalUnknown, fmt.Errorf("terminal %.64q: %w: central terminal add it first", terminal, ErrNotFound), terminal)
	case err == nil && state == Suspended:
		return because(BecauseReceiverSuspended, fmt.Errorf("terminal %s is suspended: %w: it may receive no packs", terminal, ErrRefused), terminal)
	}
	return err
}
