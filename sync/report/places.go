package report

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"time"

	"grattoir/sync/wire"
	"grattoir/validate"
)

// place is where a terminal stands, and when it was last heard.
type place struct {
	shop, region string
	contact      string // stored, "" for never
}

// readPlaces reads all terminals by name: a row of another table may be about any of them.
func readPlaces(ctx context.Context, tx *sql.Tx) (map[string]place, error) {
	places := map[string]place{}
	err := each(ctx, tx, "SELECT name, shop, region, contact FROM terminals", nil, func(rows *sql.Rows) error {
		var name string
		var p place
		err := rows.Scan(&name, &p.shop, &p.region, &p.contact)
		p.shop = cmp.Or(p.shop, name)
		places[name] = p
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("terminals: %w", err)
	}
	return places, nil
}

// block is what a report says about a block.
type block struct {
	id                       validate.BlockID
	game, emission, currency string
	gameCode                 string
	number, tickets          int64
	first, size, price       int64
	scaled                   bool
}

// readBlocks reads the published blocks; of one published again, the newest words.
func readBlocks(ctx context.Context, tx *sql.Tx) (map[validate.BlockID]block, error) {
	blocks := map[validate.BlockID]block{}
	err := each(ctx, tx, "SELECT block_id, game, emission, number, currency, scaled, game_code, tickets, first_pack, pack_size, price_minor FROM blocks ORDER BY block_id, serial", nil, func(rows *sql.Rows) error {
		var raw []byte
		var b block
		err := rows.Scan(&raw, &b.game, &b.emission, &b.number, &b.currency, &b.scaled, &b.gameCode, &b.tickets, &b.first, &b.size, &b.price)
		if err == nil {
			b.id, err = blockID(raw)
		}
		if err == nil && b.size < 1 {
			err = fmt.Errorf("block %v has packs of %d tickets", b.id, b.size)
		}
		blocks[b.id] = b
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("blocks: %w", err)
	}
	return blocks, nil
}

// newestBlocks are the published blocks; of one published again, the newest words.
const newestBlocks = "(SELECT * FROM blocks n WHERE n.serial = (SELECT max(o.serial) FROM blocks o WHERE o.block_id = n.block_id))"

// chosenBlocks are those of the filter in the order in which people read them.
func chosenBlocks(blocks map[validate.BlockID]block, f Filter) []block {
	var list []block
	for _, b := range blocks {
		if (f.Game == "" || f.Game == b.game) && (f.Block == validate.BlockID{} || f.Block == b.id) {
			list = append(list, b)
		}
	}
	slices.SortFunc(list, compareBlocks)
	return list
}

func compareBlocks(a, b block) int {
	return cmp.Or(cmp.Compare(a.game, b.game), cmp.Compare(a.emission, b.emission), cmp.Compare(a.number, b.number), bytes.Compare(a.id[:], b.id[:]))
}

// inPack is how many tickets a pack of the block has: the last one may have fewer.
func (b block) inPack(pack int64) int64 {
	return max(0, min(b.size, b.tickets-(pack-b.first)*b.size))
}

func (b block) demonstration() Value {
	switch {
	case b.id == validate.BlockID{}:
		return unknown(KindText)
	case b.scaled:
		return textValue("yes")
	}
	return textValue("no")
}

// blockColumns are what a row says of its block, in the order of cells.
func blockColumns() []Column {
	return []Column{
		{Key: "game", Kind: KindText, Title: Text{"jeu", "game"}},
		{Key: "emission", Kind: KindText, Title: Text{"émission", "emission"}},
		{Key: "block", Kind: KindInt, Title: Text{"bloc", "block"}},
		{Key: "block_id", Kind: KindText, Title: Text{"identifiant du bloc", "block id"}},
		{Key: "demonstration", Kind: KindText, Title: Text{"démonstration", "demonstration"}},
	}
}

// cells are unknown for a block that was never published.
func (b block) cells() []Value {
	if b.id == (validate.BlockID{}) {
		return []Value{unknown(KindText), unknown(KindText), unknown(KindInt), unknown(KindText), unknown(KindText)}
	}
	return []Value{textValue(b.game), textValue(b.emission), intValue(b.number), textValue(b.id.String()), b.demonstration()}
}

// blockOf is a block as rows name it, of which no more than its id may be known.
func blockOf(blocks map[validate.BlockID]block, id validate.BlockID) []Value {
	b, ok := blocks[id]
	if ok {
		return b.cells()
	}
	cells := block{}.cells()
	if id != (validate.BlockID{}) {
		cells[3] = textValue(id.String())
	}
	return cells
}

func blockID(raw []byte) (validate.BlockID, error) {
	if len(raw) != len(validate.BlockID{}) {
		return validate.BlockID{}, fmt.Errorf("a block id of %d bytes, want %d", len(raw), len(validate.BlockID{}))
	}
	return validate.BlockID(raw), nil
}

// placeColumns are what a row says of its terminal.
func placeColumns() []Column {
	return []Column{
		{Key: "shop", Kind: KindText, Title: Text{"point de vente", "shop"}},
		{Key: "region", Kind: KindText, Title: Text{"région", "region"}},
		{Key: "terminal", Kind: KindText, Title: Text{"terminal", "terminal"}},
	}
}

func (p place) cells(terminal string) []Value {
	return []Value{knownText(p.shop), knownText(p.region), knownText(terminal)}
}

// packText and ticketText are numbers as they are printed: they are names, not amounts.
func packText(n int64) Value   { return textValue(fmt.Sprintf("%07d", n)) }
func ticketText(n int64) Value { return textValue(fmt.Sprintf("%03d", n)) }

func sortedKeys[K comparable, V any](m map[K]V, compare func(a, b K) int) []K {
	return slices.SortedFunc(maps.Keys(m), compare)
}

// storedTime reads a time that central itself wrote, zero for "".
func storedTime(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	return wire.ParseTime(text)
}

// told reads a time that a terminal told: unknown where it is none.
func told(text string) Value {
	t, err := wire.ParseTime(text)
	if err != nil {
		return unknown(KindTime)
	}
	return timeValue(t)
}
