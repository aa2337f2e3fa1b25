package report

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"grattoir/sync/wire"
	"grattoir/validate"
	"grattoir/validate/money"
)

// zoneOfSums is where the days of the sums are.
const zoneOfSums = "Europe/Paris"

// timeless tells whether no time is asked for, by days chosen or told apart.
func (g *gathering) timeless() bool { return g.from == "" && g.to == "" && !g.filter.by("day") }

// source is the table that the filter's payouts are read from: the smallest that tells
// apart what is asked for, or the claims themselves. It is "" where days of another zone
// than Paris are asked for, which only the claims' own times tell.
func (g *gathering) source() string {
	f := g.filter
	places := f.by("shop") || f.by("terminal") || f.Terminal != "" || f.Shop != "" || f.Region != ""
	blocks := f.by("game") || f.by("block") || f.Game != "" || f.Block != validate.BlockID{}
	switch {
	case !g.timeless() && f.Zone.String() != zoneOfSums:
		return ""
	case !places:
		return "day_sums"
	case !blocks && g.timeless():
		return "month_sums"
	case !blocks:
		return "terminal_sums"
	case g.timeless():
		return "block_sums"
	}
	return "claims"
}

// readDays reads day after day, the newest first: of some sources the database would sort
// all days before it gave the first row.
func (g *gathering) readDays(ctx context.Context, tx *sql.Tx, r *Report, source string) error {
	reversed := map[Day]bool{}
	for k := range g.extra {
		reversed[k.day] = false
	}
	var c conditions
	c.ofBlocks(g.filter, "block_id")
	g.onDays(&c, "day")
	err := each(ctx, tx, "SELECT day, CAST(sum(reversed) AS BIGINT) FROM day_sums"+c.where()+" GROUP BY day", c.args, func(rows *sql.Rows) error {
		var text string
		var n int64
		err := rows.Scan(&text, &n)
		d := sumDay(text)
		reversed[d] = reversed[d] || n > 0
		return err
	})
	if err != nil {
		return fmt.Errorf("days: %w", err)
	}
	for _, day := range sortedKeys(reversed, func(a, b Day) int { return b.number() - a.number() }) {
		one := *g
		if one.from, one.to = "", ""; source == "claims" && !day.IsZero() {
			one.from, one.to = wire.FormatTime(day.begin(Paris(), 0)), wire.FormatTime(day.begin(Paris(), 1))
			if reversed[day] {
				if err := one.readTimed(ctx, tx); err != nil {
					return err
				}
			}
		}
		if source != "claims" || !day.IsZero() {
			err = one.readOrdered(ctx, tx, r, source, day)
		}
		if err == nil {
			err = one.flush(r, &day)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// readTimed is readReversed for all terminals but those of untimed.
func (g *gathering) readTimed(ctx context.Context, tx *sql.Tx) error {
	return g.readReversedOf(ctx, tx, "c.terminal NOT IN "+untimed, func(string) bool { return true })
}

// onDays adds the filter's days on a column of days in Paris.
func (g *gathering) onDays(c *conditions, column string) {
	if f := g.filter; !f.From.IsZero() {
		c.and(column+" >= $%d", f.From.String())
	}
	if f := g.filter; !f.To.IsZero() {
		c.and(column+" <= $%d", f.To.String())
	}
	if g.from != "" || g.to != "" {
		c.text = append(c.text, column+" <> ''")
	}
}

// untimed are the terminals that wrote times which cannot be read. The database would find
// a day for some of these.
const untimed = "(SELECT terminal FROM terminal_sums WHERE paid = '')"

// readUntimed holds all claims of those terminals.
func (g *gathering) readUntimed(ctx context.Context, tx *sql.Tx) error {
	c := g.chosen()
	err := each(ctx, tx, "SELECT block_id, terminal, currency, paid, amount_minor FROM claims"+c.where("terminal IN "+untimed), c.args, func(rows *sql.Rows) error {
		var raw []byte
		var terminal, currency, paid string
		var amount int64
		if err := rows.Scan(&raw, &terminal, &currency, &paid, &amount); err != nil || !g.within(paid) {
			return err
		}
		p, err := g.of(raw, terminal, currency, paid)
		if err != nil {
			return err
		}
		p.claims++
		p.amount, err = p.amount.Add(money.Amount(amount))
		return err
	})
	if err != nil {
		return fmt.Errorf("claims without a time: %w", err)
	}
	whole := *g
	whole.from, whole.to = "", ""
	return whole.readReversedOf(ctx, tx, "c.terminal IN "+untimed, g.within)
}

// within tells whether a stored time lies in the filter's days, in which none lies that
// cannot be read.
func (g *gathering) within(at string) bool {
	return g.from == "" && g.to == "" || (g.from == "" || at >= g.from) && (g.to == "" || at < g.to) && !dayOfStored(at, time.UTC).IsZero()
}

// readOrdered reads a source whose rows the database adds up and orders, and adds them with
// what is held of the same.
func (g *gathering) readOrdered(ctx context.Context, tx *sql.Tx, r *Report, source string, day Day) error {
	var of *Day
	if source != "day_sums" && g.filter.by("day") {
		of = &day
	}
	held := g.held(of)
	query, args := g.query(source, day)
	err := each(ctx, tx, query, args, func(rows *sql.Rows) error {
		k, p, err := g.scan(rows)
		if err != nil {
			return err
		}
		if of != nil {
			k.day = day
		}
		for len(held) > 0 && g.compare(held[0], k) < 0 {
			if err := r.add(g.row(held[0], *g.extra[held[0]])...); err != nil {
				return err
			}
			delete(g.extra, held[0])
			held = held[1:]
		}
		if len(held) > 0 && held[0] == k {
			x := g.extra[k]
			x.claims, x.amount = p.claims, p.amount
			x.reversed, x.reversedAmount = x.reversed+p.reversed, x.reversedAmount+p.reversedAmount
			p = *x
			delete(g.extra, k)
			held = held[1:]
		}
		return r.add(g.row(k, p)...)
	})
	if err != nil {
		return fmt.Errorf("%s: %w", strings.ReplaceAll(source, "_", " "), err)
	}
	return nil
}

// query adds a source up to what the rows are about, in their order. What the source has is
// added up first, and named by its blocks and terminals then.
func (g *gathering) query(source string, day Day) (string, []any) {
	f := g.filter
	own := []string{"currency"}
	if source == "day_sums" || source == "block_sums" || source == "claims" {
		own = append(own, "block_id")
	} else {
		own = append(own, "scaled")
	}
	if f.by("shop") || f.by("terminal") {
		own = append(own, "terminal")
	}
	if source == "day_sums" && f.by("day") {
		own = append(own, "day")
	}
	figures := "CAST(sum(claims) AS BIGINT) AS claims, CAST(sum(amount_minor) AS BIGINT) AS amount, CAST(sum(reversed) AS BIGINT) AS reversed, CAST(sum(reversed_minor) AS BIGINT) AS back"
	if source == "claims" {
		figures = "count(*) AS claims, CAST(sum(amount_minor) AS BIGINT) AS amount, 0 AS reversed, 0 AS back"
	}
	c := g.conditionsOf(source, day)
	list := strings.Join(own, ", ")
	inner := "(SELECT " + list + ", " + figures + " FROM " + source + c.where() + " GROUP BY " + list + ") s"
	columns, joins := g.columns(own)
	var groups, order []string
	for i, x := range columns {
		groups = append(groups, fmt.Sprint(i+1))
		if order = append(order, fmt.Sprint(i+1)); x == "day" {
			order[i] += " DESC"
		}
	}
	return "SELECT " + strings.Join(columns, ", ") + ", CAST(sum(s.claims) AS BIGINT), CAST(sum(s.amount) AS BIGINT), CAST(sum(s.reversed) AS BIGINT), CAST(sum(s.back) AS BIGINT) FROM " + inner + joins +
		" GROUP BY " + strings.Join(groups, ", ") + " ORDER BY " + strings.Join(order, ", "), c.args
}

// conditionsOf are the filter's on a source, and the day's that is read.
func (g *gathering) conditionsOf(source string, day Day) conditions {
	f := g.filter
	var c conditions
	if source != "day_sums" {
		c.ofTerminals(f, "terminal")
	}
	if source != "month_sums" && source != "terminal_sums" {
		c.ofBlocks(f, "block_id")
	}
	switch {
	case source == "claims":
		c.text = append(c.text, "terminal NOT IN "+untimed)
		if g.from != "" {
			c.and("paid >= $%d", g.from)
		}
		if g.to != "" {
			c.and("paid < $%d", g.to)
		}
	case source == "terminal_sums" && f.by("day"):
		c.and("paid = $%d", day.String())
	case source == "terminal_sums":
		g.onDays(&c, "paid")
	case source == "day_sums":
		g.onDays(&c, "day")
	}
	return c
}

// columns are those of payoutKey that the rows are told apart by, in the order of compare,
// and the tables that they stand in beside the sums.
func (g *gathering) columns(own []string) (columns []string, joins string) {
	f := g.filter
	blocks := slices.Contains(own, "block_id")
	if slices.Contains(own, "day") {
		columns = append(columns, "day")
	}
	if f.by("game") || f.by("block") {
		columns = append(columns, "coalesce(b.game, '')")
	}
	if f.by("block") {
		columns = append(columns, "coalesce(b.emission, '')", "coalesce(b.number, 0)", "s.block_id")
	}
	if blocks {
		joins = " LEFT JOIN " + newestBlocks + " b ON b.block_id = s.block_id"
		columns = append(columns, "CASE WHEN b.block_id IS NULL THEN '' WHEN b.scaled = 1 THEN 'yes' ELSE 'no' END")
	} else {
		columns = append(columns, "CASE WHEN s.scaled = 1 THEN 'yes' WHEN s.scaled = 0 THEN 'no' ELSE '' END")
	}
	if f.by("shop") {
		joins += " LEFT JOIN terminals t ON t.name = s.terminal"
		columns = append(columns, "CASE WHEN coalesce(t.shop, '') = '' THEN coalesce(t.name, '') ELSE t.shop END")
	}
	if f.by("terminal") {
		columns = append(columns, "s.terminal")
	}
	if blocks {
		return append(columns, "CASE WHEN s.currency = '' THEN coalesce(b.currency, '') ELSE s.currency END"), joins
	}
	return append(columns, "s.currency"), joins
}

// scan reads a row of query.
func (g *gathering) scan(rows *sql.Rows) (k payoutKey, p payout, err error) {
	f := g.filter
	var into []any
	var day, emission string
	var number int64
	var raw []byte
	if f.by("day") && g.source() == "day_sums" {
		into = append(into, &day)
	}
	if f.by("game") || f.by("block") {
		into = append(into, &k.game)
	}
	if f.by("block") {
		into = append(into, &emission, &number, &raw)
	}
	into = append(into, &k.demonstration)
	if f.by("shop") {
		into = append(into, &k.shop)
	}
	if f.by("terminal") {
		into = append(into, &k.terminal)
	}
	if err := rows.Scan(append(into, &k.currency, &p.claims, &p.amount, &p.reversed, &p.reversedAmount)...); err != nil {
		return k, p, err
	}
	k.day = sumDay(day)
	if raw != nil {
		k.block, err = blockID(raw)
	}
	return k, p, err
}

// sumDay is a day as the sums have it, zero for none.
func sumDay(text string) Day {
	t, err := time.Parse(time.DateOnly, text)
	if err != nil {
		return Day{}
	}
	return dayOf(t)
}

// totalFirst makes the totals of a page out of sums that tell little apart, so that no more
// rows are read than the page shows. The conflicts, which are held already, are added one by
// one: how many amounts are unknown depends on what the rows are about.
func (g *gathering) totalFirst(ctx context.Context, tx *sql.Tx, r *Report) error {
	coarse := *g
	coarse.extra, coarse.filter.By = map[payoutKey]*payout{}, "game"
	if coarse.source() == "claims" && g.filter.Game == "" && g.filter.Block == (validate.BlockID{}) {
		coarse.filter.By = "terminal"
	}
	one := Report{Columns: payoutColumns(coarse.filter), sink: func([]Value) error { return nil }}
	source := coarse.source()
	if source == "claims" {
		if err := errors.Join(coarse.readUntimed(ctx, tx), coarse.readTimed(ctx, tx)); err != nil {
			return err
		}
	}
	if err := coarse.readOrdered(ctx, tx, &one, source, Day{}); err != nil {
		return err
	}
	if err := coarse.flush(&one, nil); err != nil {
		return err
	}
	for k, p := range g.extra {
		r.tally(g.row(k, *p))
	}
	for key, from := range one.sections {
		if r.sections == nil {
			r.sections = map[[2]string][]columnSum{}
		}
		if r.sections[key] == nil {
			r.sections[key] = make([]columnSum, len(r.Columns))
		}
		for i, c := range r.Columns {
			if k := one.column(c.Key); k >= 0 {
				r.sections[key][i].add(Value{Kind: from[k].value.Kind, Known: true, Int: from[k].value.Int, Currency: from[k].value.Currency})
			}
		}
	}
	r.totalled = true
	return nil
}
