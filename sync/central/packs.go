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
	Block    validate.BlockID   `json:"block"`
	GameCode string             `json:"game_code"`
	Number   uint32             `json:"pack"`
	State    validate.PackState `json:"state"`
	Owner    string             `json:"owner"`
	Epoch    int64              `json:"epoch"` // owner epoch
	Changed  time.Time          `json:"changed"`
}

// Packs lists the packs of a game code, or of all with "", by game code and number.
// Packs that are still printed have no row and are not listed.
func (c *Central) Packs(ctx context.Context, gameCode string) ([]Pack, error) {
	if gameCode != "" {
		blocks, err := blocksOf(ctx, c.store.reader(), gameCode)
		if err != nil {
			return nil, err
		}
		gameCode = blocks[0].GameCode
	}
	rows, err := c.store.reader().QueryContext(ctx, `SELECT block_id, game_code, pack, state, owner, epoch, changed FROM packs WHERE $1 IN ('', game_code)
		ORDER BY game_code, pack`, gameCode)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	list := []Pack{}
	for rows.Next() {
		var p Pack
		var id []byte
		var changed string
		if err := rows.Scan(&id, &p.GameCode, &p.Number, &p.State, &p.Owner, &p.Epoch, &changed); err != nil {
			return nil, err
		}
		copy(p.Block[:], id)
		if p.Changed, err = wire.ParseTime(changed); err != nil {
			return nil, err
		}
		list = append(list, p)
	}
	return list, rows.Err()
}

// Deliver gives packs first to last of a game code, all printed, to a terminal: it owns
// them from now on, at a raised epoch, and may pay them once they are active. The
// answer is the runs that the feed tells every terminal.
func (c *Central) Deliver(ctx context.Context, gameCode string, first, last uint32, terminal string) ([]wire.PackItem, error) {
	return c.move(ctx, gameCode, first, last, move{word: "deliver", from: validate.PackPrinted, to: validate.PackDelivered, owner: terminal})
}

// Activate puts delivered packs on sale: their tickets may be paid.
func (c *Central) Activate(ctx context.Context, gameCode string, first, last uint32) ([]wire.PackItem, error) {
	return c.move(ctx, gameCode, first, last, move{word: "activate", from: validate.PackDelivered, to: validate.PackActive})
}

// move is a legal step of a pack. A new owner raises the owner epoch.
type move struct {
	word     string
	from, to validate.PackState
	owner    string
}

func (c *Central) move(ctx context.Context, gameCode string, first, last uint32, m move) ([]wire.PackItem, error) {
	fail := func(err error) ([]wire.PackItem, error) {
		return nil, fmt.Errorf("%s packs %d-%d of game code %.12s: %w", m.word, first, last, gameCode, err)
	}
	if last < first || last-first >= maxRun {
		return fail(fmt.Errorf("%w: want a run of 1 to %d packs", ErrRefused, maxRun))
	}
	var runs []wire.PackItem
	var newest int64
	err := c.store.change(ctx, func(ctx context.Context, tx *sql.Tx) error {
		runs = nil
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
		}
		return nil
	})
	if err != nil {
		return fail(err)
	}
	c.feed.ring(newest)
	c.opt.Log.Info("packs moved", "act", m.word, "game", runs[0].GameCode, "first", first, "last", last, "owner", runs[0].Owner)
	return runs, nil
}

// one moves one pack.
func (m move) one(ctx context.Context, tx *sql.Tx, blocks []Block, pack uint32, now string) (wire.PackItem, error) {
	b, ok := blockWith(blocks, pack)
	if !ok {
		return wire.PackItem{}, fmt.Errorf("%w: pack %d lies in no published block of this game code: central block publish its manifest first", ErrNotFound, pack)
	}
	item := wire.PackItem{GameCode: b.GameCode, First: pack, Last: pack, State: validate.PackPrinted}
	err := tx.QueryRowContext(ctx, "SELECT state, owner, epoch FROM packs WHERE block_id = $1 AND pack = $2", b.ID[:], pack).Scan(&item.State, &item.Owner, &item.Epoch)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return item, err
	}
	if item.State != m.from {
		owner := ""
		if item.Owner != "" {
			owner = ", owned by " + item.Owner
		}
		return item, fmt.Errorf("%w: pack %d is %s%s; only %s packs can be made %s", ErrRefused, pack, item.State, owner, m.from, m.to)
	}
	item.State = m.to
	if m.owner != "" {
		item.Owner = m.owner
		item.Epoch++
	}
	return item, once(tx.ExecContext(ctx, `INSERT INTO packs(block_id, pack, game_code, state, owner, epoch, changed) VALUES($1, $2, $3, $4, $5, $6, $7)
		ON CONFLICT(block_id, pack) DO UPDATE SET state = excluded.state, owner = excluded.owner, epoch = excluded.epoch, changed = excluded.changed
		WHERE packs.state = $8`, b.ID[:], pack, b.GameCode, item.State, item.Owner, item.Epoch, now, m.from))
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
		return nil, fmt.Errorf("game code %.12q: %w: no block of it is published (central block publish FILE.manifest)", gameCode, ErrNotFound)
	}
	return list, nil
}

func mayOwn(ctx context.Context, tx *sql.Tx, terminal string) error {
	var state TerminalState
	err := tx.QueryRowContext(ctx, "SELECT state FROM terminals WHERE name = $1", terminal).Scan(&state)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return fmt.Errorf("terminal %.64q: %w: central terminal add it first", terminal, ErrNotFound)
	case err == nil && state == Suspended:
		return fmt.Errorf("terminal %s is suspended: %w: it may receive no packs", terminal, ErrRefused)
	}
	return err
}
