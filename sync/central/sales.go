package central

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"grattoir/sync/ledger"
	"grattoir/sync/wire"
	"grattoir/validate"
	"grattoir/validate/manifest"
	"grattoir/validate/policy"
)

// SalesRule says in which games no more packs of a block are put on sale once its last top
// prize was paid: all tickets that are left could not win what the game is sold with.
// Packs that are on sale stay so, for their shops have them.
type SalesRule struct {
	Every bool
	Games map[string]bool // by game id, in its place
}

func (r SalesRule) of(game string) bool {
	if own, is := r.Games[game]; is {
		return own
	}
	return r.Every
}

// SalesEnd is a block of which no more packs are put on sale.
type SalesEnd struct {
	Game     string    `json:"game"`
	Emission string    `json:"emission"`
	Block    int       `json:"block"` // number in the emission
	GameCode string    `json:"game_code"`
	Reason   string    `json:"reason"`
	Operator string    `json:"operator"` // who, or which rule
	Since    time.Time `json:"since"`
}

// salesByRule stands for an operator where the rule has ended a block's sales.
const salesByRule = "rule: last top prize paid"

// topPrize looks, after a block's top prize was credited, whether it was the last one.
func (in *intake) topPrize(ctx context.Context, p proof) error {
	if p.top == 0 || !in.c.opt.Sales.of(p.game) {
		return nil
	}
	c := p.claim
	// Held, so that of two uploads which bring the last two prizes one sees both.
	if _, err := in.tx.ExecContext(ctx, "UPDATE blocks SET serial = serial WHERE block_id = $1", c.Block[:]); err != nil {
		return err
	}
	var paid int64
	err := in.tx.QueryRowContext(ctx, `SELECT count(*) FROM claims c WHERE c.block_id = $1 AND c.amount_minor = $2 AND NOT EXISTS (SELECT 1 FROM reversals r
		WHERE r.block_id = c.block_id AND r.pack = c.pack AND r.ticket = c.ticket AND r.round = c.round AND r.terminal = c.terminal AND r.state = $3)`,
		c.Block[:], c.AmountMinor, validate.ReversalAccepted).Scan(&paid)
	if err != nil || paid < p.top {
		return err
	}
	b, err := scanBlock(in.tx.QueryRowContext(ctx, currentBlocks+" AND block_id = $1", c.Block[:]))
	if err != nil {
		return err
	}
	newest, err := in.c.endSales(ctx, in.tx, b, fmt.Sprintf("all %d top prizes of the block are paid", p.top), salesByRule)
	if errors.Is(err, ErrRefused) { // they are ended already
		return nil
	}
	in.newest = max(in.newest, newest)
	return err
}

// endSales ends a block's sales and tells every terminal, and the people there.
func (c *Central) endSales(ctx context.Context, tx *sql.Tx, b Block, reason, operator string) (newest int64, err error) {
	now := c.opt.Now()
	done, err := tx.ExecContext(ctx, "INSERT INTO sales_ends(block_id, reason, operator, since) VALUES($1, $2, $3, $4) ON CONFLICT(block_id) DO NOTHING", b.ID[:], reason, operator, wire.FormatTime(now))
	if err := changedOne(done, err, BecauseSalesEndedAlready, "its sales are ended already; legal now: resume-sales"); err != nil {
		return 0, err
	}
	if _, err := addFeed(ctx, tx, everyone, wire.FormatTime(now), wire.FeedItem{Kind: wire.FeedSales,
		Sales: &wire.SalesItem{GameCode: b.GameCode, First: b.FirstPack, Last: b.LastPack, Ended: true, Reason: reason}}); err != nil {
		return 0, err
	}
	c.opt.Log.Info("sales of a block ended", "game", b.Game, "emission", b.Emission, "block", b.Number, "reason", reason, "operator", operator)
	today := policy.DayInParis(now)
	m := Message{From: today.String(), Until: today.Add(salesTold).String(), Operator: operator, Sent: now,
		French:  fmt.Sprintf("%.40s, bloc %d (code %s) : plus aucun livret n'est mis en vente. Ceux en vente le restent.", b.Name, b.Number, b.GameCode),
		English: fmt.Sprintf("%.40s, block %d (code %s): no more packs are put on sale. Those on sale stay so.", b.Name, b.Number, b.GameCode)}
	return m.out(ctx, tx, []string{everyone})
}

// salesTold is how many days counters show that a block's sales have ended.
const salesTold = 14

// EndSales ends the sales of a block: none of its packs is put on sale any more. The errors
// include ErrNotFound and ErrRefused.
func (c *Central) EndSales(ctx context.Context, e SalesEnd) error {
	fail := func(err error) error {
		return fmt.Errorf("end the sales of game %.40q, emission %.20q, block %d: %w", e.Game, e.Emission, e.Block, err)
	}
	if err := checkAct(e.Operator, e.Reason); err != nil {
		return fail(err)
	}
	var newest int64
	err := c.store.change(ctx, func(ctx context.Context, tx *sql.Tx) error {
		b, err := blockNumbered(ctx, tx, e)
		if err == nil {
			newest, err = c.endSales(ctx, tx, b, e.Reason, e.Operator)
		}
		return err
	})
	if err != nil {
		return fail(err)
	}
	c.feed.added(newest)
	return nil
}

// ResumeSales lets the packs of a block be put on sale again.
func (c *Central) ResumeSales(ctx context.Context, e SalesEnd) error {
	var newest int64
	err := c.store.change(ctx, func(ctx context.Context, tx *sql.Tx) error {
		b, err := blockNumbered(ctx, tx, e)
		if err != nil {
			return err
		}
		done, err := tx.ExecContext(ctx, "DELETE FROM sales_ends WHERE block_id = $1", b.ID[:])
		if err := changedOne(done, err, BecauseSalesNotEnded, "its sales are not ended (central game sales)"); err != nil {
			return err
		}
		newest, err = addFeed(ctx, tx, everyone, c.now(), wire.FeedItem{Kind: wire.FeedSales, Sales: &wire.SalesItem{GameCode: b.GameCode, First: b.FirstPack, Last: b.LastPack}})
		return err
	})
	if err != nil {
		return fmt.Errorf("resume the sales of game %.40q, emission %.20q, block %d: %w", e.Game, e.Emission, e.Block, err)
	}
	c.feed.added(newest)
	c.opt.Log.Info("sales of a block go on", "game", e.Game, "emission", e.Emission, "block", e.Block, "operator", e.Operator)
	return nil
}

func blockNumbered(ctx context.Context, tx *sql.Tx, e SalesEnd) (Block, error) {
	b, err := scanBlock(tx.QueryRowContext(ctx, currentBlocks+" AND game = $1 AND emission = $2 AND number = $3", e.Game, e.Emission, e.Block))
	if errors.Is(err, sql.ErrNoRows) {
		err = because(BecauseBlockUnknown, fmt.Errorf("%w: no such block is published (central block publish FILE.manifest)", ErrNotFound))
	}
	return b, err
}

// SalesEnds lists the blocks of which no more packs are put on sale, by game, emission and number.
func (c *Central) SalesEnds(ctx context.Context) ([]SalesEnd, error) {
	list := []SalesEnd{}
	err := eachRow(ctx, c.store.reader(), `SELECT b.game, b.emission, b.number, b.game_code, s.reason, s.operator, s.since FROM sales_ends s
		JOIN (`+currentBlocks+`) AS b ON b.block_id = s.block_id ORDER BY b.game, b.emission, b.number`, func(row scanner) error {
		var e SalesEnd
		var since string
		err := row.Scan(&e.Game, &e.Emission, &e.Block, &e.GameCode, &e.Reason, &e.Operator, &since)
		if err == nil {
			e.Since, err = wire.ParseTime(since)
		}
		list = append(list, e)
		return err
	})
	return list, err
}

// onSale is nil where packs of a block may be put on sale by the rule above, else ErrRefused.
func onSale(ctx context.Context, tx *sql.Tx, b Block) error {
	var reason string
	err := tx.QueryRowContext(ctx, "SELECT reason FROM sales_ends WHERE block_id = $1", b.ID[:]).Scan(&reason)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err == nil {
		err = because(BecauseSalesEnded, fmt.Errorf("%w: no more packs of block %d of game %s, emission %s are put on sale: %s", ErrRefused, b.Number, b.Game, b.Emission, reason), b.Number, b.Game, b.Emission, reason)
	}
	return err
}

// topOf is how many prizes of a claim's amount a block has where it is the block's highest, else 0.
func topOf(c ledger.ClaimBody, tiers []manifest.Tier) (n int64) {
	for _, t := range tiers {
		switch amount := int64(t.Amount); {
		case amount > c.AmountMinor:
			return 0
		case amount == c.AmountMinor:
			n += t.Count
		}
	}
	return n
}
