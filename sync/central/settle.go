package central

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"grattoir/sync/wire"
	"grattoir/validate"
	"grattoir/validate/manifest"
)

// SettleRule says when an active pack settles by itself. A figure that is 0 is no rule.
//
// Nobody knows how many prizes a pack holds, so Percent is of those that a pack of its
// block holds on average. What lotteries take: 80 percent of the low prizes or 50 days
// (Washington), about 70 percent of wins up to 24.99 or 45 days (Texas).
type SettleRule struct {
	Percent  int   // of its low prizes paid
	LowMinor int64 // a prize of at most so much is low; 0 is every prize
	Days     int   // since it was put on sale
}

// SettleRules are the rule of every game, and those of single games in its place.
type SettleRules struct {
	Every SettleRule
	Games map[string]SettleRule // by game id
}

func (r SettleRules) of(game string) SettleRule {
	if rule, own := r.Games[game]; own {
		return rule
	}
	return r.Every
}

// Check refuses figures that mean nothing.
func (r SettleRules) Check() error {
	all := map[string]SettleRule{"every game": r.Every}
	for game, rule := range r.Games {
		all["game "+game] = rule
	}
	for name, rule := range all {
		if rule.Percent < 0 || rule.Percent > 100 || rule.LowMinor < 0 || rule.Days < 0 || rule.Days > 3650 {
			return fmt.Errorf("settlement of %s: %d percent, low prizes up to %d minor units, %d days: want 0 to 100 percent, an amount and 0 to 3650 days", name, rule.Percent, rule.LowMinor, rule.Days)
		}
	}
	return nil
}

// Who has settled a pack, when it was a rule.
const (
	settledByPercent = "rule: percent"
	settledByDays    = "rule: days"
)

// settleAtOnce bounds the packs settled in one transaction.
const settleAtOnce = 500

// touched are packs of which claims were credited in this process since the last look.
func (c *Central) touch(keys map[packKey]bool) {
	if len(keys) == 0 {
		return
	}
	c.touchedMu.Lock()
	defer c.touchedMu.Unlock()
	if c.touched == nil {
		c.touched = map[packKey]bool{}
	}
	for k := range keys {
		c.touched[k] = true
	}
}

func (c *Central) takeTouched() map[packKey]bool {
	c.touchedMu.Lock()
	defer c.touchedMu.Unlock()
	keys := c.touched
	c.touched = nil
	return keys
}

// SettleDue settles the active packs that a rule says are due now, and tells how many.
// All looks at the claims of every pack; without it only at those that this process has
// taken claims of since it was last asked, which is enough between two looks at all.
func (c *Central) SettleDue(ctx context.Context, rules SettleRules, all bool) (int, error) {
	if err := rules.Check(); err != nil {
		return 0, because(BecauseSettleRule, fmt.Errorf("%w: %w", ErrRefused, err), err)
	}
	touched := c.takeTouched()
	blocks, err := c.Blocks(ctx)
	if err != nil {
		c.touch(touched)
		return 0, err
	}
	total := 0
	for _, b := range blocks {
		n, err := c.settleBlock(ctx, b, rules.of(b.Game), touched, all)
		total += n
		if err != nil {
			c.touch(touched)
			return total, fmt.Errorf("settling packs of game code %s: %w", b.GameCode, err)
		}
	}
	return total, nil
}

func (c *Central) settleBlock(ctx context.Context, b Block, rule SettleRule, touched map[packKey]bool, all bool) (int, error) {
	total := 0
	if rule.Percent > 0 {
		due, err := c.duePercent(ctx, b, rule, touched, all)
		if err != nil {
			return 0, err
		}
		n, err := c.settle(ctx, b, due, settledByPercent)
		total += n
		if err != nil {
			return total, err
		}
	}
	if rule.Days > 0 {
		due, err := c.dueDays(ctx, b, rule.Days)
		if err != nil {
			return total, err
		}
		n, err := c.settle(ctx, b, due, settledByDays)
		return total + n, err
	}
	return total, nil
}

// lowPrizes is how many low prizes must be paid of one pack before it settles, 0 where
// the block has none: then the rule never holds.
func lowPrizes(h manifest.Header, rule SettleRule) int64 {
	var low int64
	for _, t := range h.Tiers {
		if rule.LowMinor == 0 || int64(t.Amount) <= rule.LowMinor {
			low += t.Count
		}
	}
	// low * pack size / tickets is a pack's share, of which so many percent are due.
	whole := 100 * h.Tickets
	return (low*int64(h.PackSize)*int64(rule.Percent) + whole - 1) / whole
}

// duePercent are the active packs of which so many low prizes were paid and not taken back.
func (c *Central) duePercent(ctx context.Context, b Block, rule SettleRule, touched map[packKey]bool, all bool) ([]uint32, error) {
	open, err := c.block(ctx, b.ID)
	if err != nil {
		return nil, err
	}
	want, limit := lowPrizes(open.Header, rule), rule.LowMinor
	if want == 0 {
		return nil, nil
	}
	if limit == 0 {
		limit = 1 << 60
	}
	if all {
		return c.packList(ctx, `SELECT p.pack FROM packs AS p JOIN claims AS c ON c.block_id = p.block_id AND c.pack = p.pack
			WHERE p.block_id = $1 AND p.state = $2 AND c.amount_minor <= $3 AND NOT EXISTS (SELECT 1 FROM reversals AS r WHERE r.block_id = c.block_id AND r.pack = c.pack
				AND r.ticket = c.ticket AND r.round = c.round AND r.terminal = c.terminal AND r.state = $4)
			GROUP BY p.pack HAVING count(*) >= $5 ORDER BY p.pack`, b.ID[:], validate.PackActive, limit, validate.ReversalAccepted, want)
	}
	var due []uint32
	for key := range touched {
		if key.block != b.ID {
			continue
		}
		list, err := c.packList(ctx, `SELECT p.pack FROM packs AS p JOIN claims AS c ON c.block_id = p.block_id AND c.pack = p.pack
			WHERE p.block_id = $1 AND p.pack = $2 AND p.state = $3 AND c.amount_minor <= $4 AND NOT EXISTS (SELECT 1 FROM reversals AS r WHERE r.block_id = c.block_id AND r.pack = c.pack
				AND r.ticket = c.ticket AND r.round = c.round AND r.terminal = c.terminal AND r.state = $5)
			GROUP BY p.pack HAVING count(*) >= $6`, b.ID[:], key.pack, validate.PackActive, limit, validate.ReversalAccepted, want)
		if err != nil {
			return nil, err
		}
		due = append(due, list...)
	}
	slices.Sort(due)
	return due, nil
}

// dueDays are the active packs that were put on sale so many days ago.
func (c *Central) dueDays(ctx context.Context, b Block, days int) ([]uint32, error) {
	before := c.opt.Now().Add(-time.Duration(days) * 24 * time.Hour)
	return c.packList(ctx, "SELECT pack FROM packs WHERE block_id = $1 AND state = $2 AND activated <= $3 ORDER BY pack", b.ID[:], validate.PackActive, wire.FormatTime(before))
}

func (c *Central) packList(ctx context.Context, query string, args ...any) ([]uint32, error) {
	rows, err := c.store.reader().QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []uint32
	for rows.Next() {
		var pack uint32
		if err := rows.Scan(&pack); err != nil {
			return nil, err
		}
		list = append(list, pack)
	}
	return list, rows.Err()
}

// settle settles packs of a block. One that is not active any more is left as it is.
func (c *Central) settle(ctx context.Context, b Block, packs []uint32, by string) (int, error) {
	total := 0
	for some := range slices.Chunk(packs, settleAtOnce) {
		var runs []wire.PackItem
		var newest int64
		err := c.store.change(ctx, func(ctx context.Context, tx *sql.Tx) error {
			runs = nil
			now := c.now()
			for _, pack := range some {
				item, err := move{act: SettlePack, by: by}.step(ctx, tx, b, pack, now)
				if errors.Is(err, ErrRefused) {
					continue
				}
				if err != nil {
					return err
				}
				runs = appendRun(runs, item)
			}
			for _, r := range runs {
				var err error
				if newest, err = addFeed(ctx, tx, everyone, now, wire.FeedItem{Kind: wire.FeedPack, Pack: &r}); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return total, err
		}
		c.feed.added(newest)
		for _, r := range runs {
			total += int(r.Last-r.First) + 1
			c.opt.Log.Info("packs settled", "game", r.GameCode, "first", r.First, "last", r.Last, "owner", r.Owner, "by", by)
		}
	}
	return total, nil
}
