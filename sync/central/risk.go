package central

import (
	"context"

	"grattoir/sync/ledger"
	"grattoir/sync/wire"
)

// risk keeps what a terminal books before it pays a ticket that nobody answered about.
func (in *intake) risk(ctx context.Context, l line) error {
	b, err := l.entry.BookedRisk()
	if err != nil {
		return err
	}
	_, err = in.tx.ExecContext(ctx, `INSERT INTO booked_risks(block_id, pack, ticket, round, claim, terminal, epoch, seq, amount_minor, currency, party, why, policy, received)
		VALUES($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14) ON CONFLICT(block_id, pack, ticket, round, claim) DO NOTHING`,
		b.Block[:], b.Pack, b.Ticket, b.Round, plain(b.Claim), in.who.name, in.epoch, l.seq, int64(b.AmountMinor), plain(b.Currency), plain(b.Party), plain(b.Why), plain(b.Policy), in.now)
	return err
}

// risky tells whether a claim of another terminal's pack was booked at a risk that central
// accepts, and that nobody else may pay its ticket by central's word. Whether the owner has
// paid it too, the first claim that comes decides; the other stays a conflict, and the
// booking says who bears it.
func (in *intake) risky(ctx context.Context, c ledger.ClaimBody) (bool, error) {
	if c.Round > 0 || c.AmountMinor > in.c.opt.BookedRiskMinor {
		return false, nil
	}
	var booked int
	err := in.tx.QueryRowContext(ctx, "SELECT count(*) FROM booked_risks WHERE block_id = $1 AND pack = $2 AND ticket = $3 AND round = $4 AND claim = $5 AND terminal = $6 AND amount_minor = $7",
		c.Block[:], c.Pack, c.Ticket, c.Round, plain(c.Claim), in.who.name, c.AmountMinor).Scan(&booked)
	if err != nil || booked == 0 {
		return false, err
	}
	// The pack is not this terminal's, so a claim of it may be decided beside this upload:
	// its row is held, and then what was reserved is read anew.
	if err := holdPacks(ctx, in.tx, "block_id = $1 AND pack = $2", c.Block[:], c.Pack); err != nil {
		return false, err
	}
	granted, err := grants(ctx, in.tx, packKey{c.Block, c.Pack})
	if err != nil {
		return false, err
	}
	_, reserved := granted[ticketRound{c.Ticket, c.Round}]
	return !reserved, nil
}

// Risk is what was booked at somebody's risk, and what it cost.
type Risk struct {
	Party    string `json:"party"`
	Currency string `json:"currency"`
	Claims   int64  `json:"claims"`
	Minor    int64  `json:"amount_minor"`
	// Lost are those whose ticket was paid by its pack's owner too, whichever came first.
	Lost      int64 `json:"lost"`
	LostMinor int64 `json:"lost_minor"`
}

// BookedRisks sums up what was booked, by party and currency.
func (c *Central) BookedRisks(ctx context.Context) ([]Risk, error) {
	list := []Risk{}
	err := eachRow(ctx, c.store.reader(), `SELECT party, currency, count(*), CAST(sum(amount_minor) AS BIGINT), CAST(sum(twice) AS BIGINT), CAST(sum(twice * amount_minor) AS BIGINT)
		FROM (SELECT b.party, b.currency, b.amount_minor, CASE WHEN EXISTS (SELECT 1 FROM conflicts x WHERE x.block_id = b.block_id AND x.pack = b.pack AND x.ticket = b.ticket
			AND x.round = b.round AND x.kind = $1) THEN 1 ELSE 0 END AS twice FROM booked_risks b) AS each
		GROUP BY party, currency ORDER BY party, currency`, func(row scanner) error {
		var r Risk
		err := row.Scan(&r.Party, &r.Currency, &r.Claims, &r.Minor, &r.Lost, &r.LostMinor)
		list = append(list, r)
		return err
	}, wire.DoubleClaim)
	return list, err
}
