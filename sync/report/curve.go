package report

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"time"

	"grattoir/validate"
)

// Curve is how a block pays over time, beside what its prize table lets expect.
type Curve struct {
	Block    validate.BlockID
	Currency string
	Tickets  int64 // in the block
	Table    int64 // all its prizes, minor units; 0 where the table is not known
	Points   []CurvePoint
}

// CurvePoint is a block at the end of a day. Days are those of central's clock, in UTC: a
// payment counts when central heard of it, for a terminal's clock is only a hint.
type CurvePoint struct {
	Day    Day
	OnSale int64 // tickets of packs that were put on sale until then
	Paid   int64 // minor units, less what was taken back
	// Expected are the prizes that so many tickets of the block hold on average, with Low
	// and High three standard deviations to either side: a draw without replacement. Not
	// all tickets on sale are sold, and not all prizes claimed, so an honest block runs below;
	// above High it pays more than its table says.
	Expected, Low, High int64
}

// maxCurveDays bounds a curve; an older block begins with what it had paid then.
const maxCurveDays = 730

// PayoutCurve gives the curve of a published block. The errors include ErrFilter.
func PayoutCurve(ctx context.Context, db *sql.DB, id validate.BlockID, now time.Time) (Curve, error) {
	curve := Curve{Block: id}
	err := reading(ctx, db, func(tx *sql.Tx) error {
		if err := (Filter{Block: id}).knownBlocks(ctx, tx); err != nil {
			return err
		}
		blocks, err := readBlocks(ctx, tx)
		if err != nil {
			return err
		}
		tables, err := readTiers(ctx, tx)
		if err != nil {
			return err
		}
		b := blocks[id]
		curve.Currency, curve.Tickets = b.currency, b.tickets
		for _, t := range tables[id] {
			curve.Table += t.tickets * t.amount
		}
		onSale, err := byDay(ctx, tx, "SELECT substr(activated, 1, 10), count(*) FROM packs WHERE block_id = $1 AND activated <> '' AND state <> 'returned' GROUP BY 1", id)
		if err != nil {
			return fmt.Errorf("packs: %w", err)
		}
		paid, err := byDay(ctx, tx, "SELECT substr(received, 1, 10), CAST(sum(amount_minor) AS BIGINT) FROM claims WHERE block_id = $1 GROUP BY 1", id)
		if err != nil {
			return fmt.Errorf("claims: %w", err)
		}
		back, err := byDay(ctx, tx, `SELECT substr(r.decided, 1, 10), CAST(sum(c.amount_minor) AS BIGINT) FROM reversals AS r JOIN claims AS c
			ON c.block_id = r.block_id AND c.pack = r.pack AND c.ticket = r.ticket AND c.round = r.round AND c.terminal = r.terminal
			WHERE r.block_id = $1 AND r.state = 'accepted' GROUP BY 1`, id)
		if err != nil {
			return fmt.Errorf("reversals: %w", err)
		}
		curve.fill(onSale, paid, back, b, tables[id], dayOf(now.UTC()))
		return nil
	})
	if err != nil {
		return Curve{}, fmt.Errorf("payout curve: %w", err)
	}
	return curve, nil
}

// byDay reads sums of days. A day that is none, which an older program may have left, counts
// as the first of all.
func byDay(ctx context.Context, tx *sql.Tx, query string, id validate.BlockID) (map[Day]int64, error) {
	sums := map[Day]int64{}
	err := each(ctx, tx, query, []any{id[:]}, func(rows *sql.Rows) error {
		var text string
		var n int64
		err := rows.Scan(&text, &n)
		d, bad := ParseDay(text)
		if bad != nil {
			d = Day{}
		}
		sums[d] += n
		return err
	})
	return sums, err
}

// fill makes a point of each day from the first that something happened on until today.
func (c *Curve) fill(onSale, paid, back map[Day]int64, b block, table []tier, today Day) {
	first := today
	for _, sums := range []map[Day]int64{onSale, paid, back} {
		for d := range sums {
			if !d.IsZero() && d.before(first) {
				first = d
			}
		}
	}
	if oldest := dayOf(today.begin(time.UTC, 1-maxCurveDays)); first.before(oldest) {
		first = oldest
	}
	p := CurvePoint{}
	packs := int64(0)
	add := func(d Day) {
		packs += onSale[d]
		p.Paid += paid[d] - back[d]
	}
	for _, sums := range []map[Day]int64{onSale, paid, back} { // what lies before the first point
		for d := range sums {
			if d.IsZero() || d.before(first) {
				add(d)
				delete(onSale, d)
				delete(paid, d)
				delete(back, d)
			}
		}
	}
	for at := first.begin(time.UTC, 0); !at.After(today.begin(time.UTC, 0)); at = at.AddDate(0, 0, 1) {
		p.Day = dayOf(at)
		add(p.Day)
		p.OnSale = min(packs*b.size, b.tickets)
		p.expect(table, b.tickets)
		c.Points = append(c.Points, p)
	}
}

// expect gives the mean and the band of the prizes in OnSale of all tickets.
func (p *CurvePoint) expect(table []tier, tickets int64) {
	n, all := float64(p.OnSale), float64(tickets)
	var mean, square float64
	for _, t := range table {
		mean += float64(t.tickets) * float64(t.amount) / all
		square += float64(t.tickets) * float64(t.amount) * float64(t.amount) / all
	}
	deviation := math.Sqrt(max(0, n*(square-mean*mean)*(all-n)/max(1, all-1)))
	whole := mean * all
	p.Expected, p.Low, p.High = int64(n*mean), int64(max(0, n*mean-3*deviation)), int64(min(whole, n*mean+3*deviation))
}
