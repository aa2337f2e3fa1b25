package central

import (
	"context"
	"database/sql"
	"fmt"

	"grattoir/validate"
	"grattoir/validate/manifest"
)

// keepTiers stores a block's prize table, for reports: what is left to win follows from it.
func keepTiers(ctx context.Context, tx *sql.Tx, block validate.BlockID, tiers []manifest.Tier) error {
	if _, err := tx.ExecContext(ctx, "DELETE FROM block_tiers WHERE block_id = $1", block[:]); err != nil {
		return err
	}
	for i, t := range tiers {
		_, err := tx.ExecContext(ctx, "INSERT INTO block_tiers(block_id, tier, tickets, amount_minor) VALUES($1, $2, $3, $4)", block[:], i+1, t.Count, int64(t.Amount))
		if err != nil {
			return fmt.Errorf("prize table of block %v: %w", block, err)
		}
	}
	return nil
}

// tiersOfAll stores the prize tables of blocks that an earlier program published. One
// whose file cannot be read stays without, and reports say so.
func (c *Central) tiersOfAll(ctx context.Context) error {
	var blocks []validate.BlockID
	err := eachRow(ctx, c.store.reader(), `SELECT DISTINCT block_id FROM blocks WHERE NOT EXISTS (SELECT 1 FROM block_tiers WHERE block_tiers.block_id = blocks.block_id)`, func(row scanner) error {
		var raw []byte
		if err := row.Scan(&raw); err != nil {
			return err
		}
		id, err := blockID(raw)
		blocks = append(blocks, id)
		return err
	})
	if err != nil {
		return err
	}
	for _, id := range blocks {
		tiers, failed := c.BlockTiers(ctx, id)
		if failed != nil {
			c.opt.Log.Error("the prize table of a published block cannot be read: publish its file again", "block", id, "err", failed)
			continue
		}
		if err := c.store.change(ctx, func(ctx context.Context, tx *sql.Tx) error { return keepTiers(ctx, tx, id, tiers) }); err != nil {
			return err
		}
	}
	return nil
}
