package report

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"grattoir/sync/ledger"
	"grattoir/sync/wire"
	"grattoir/validate"
	"grattoir/validate/money"
)

func payoutColumns() []Column {
	return []Column{
		{Key: "day", Kind: KindText, Title: Text{"jour (horloge du terminal)", "day (terminal's clock)"}},
		{Key: "game", Kind: KindText, Title: Text{"jeu", "game"}},
		{Key: "emission", Kind: KindText, Title: Text{"émission", "emission"}},
		{Key: "block", Kind: KindInt, Title: Text{"bloc", "block"}},
		{Key: "block_id", Kind: KindText, Title: Text{"identifiant du bloc", "block id"}},
		{Key: "demonstration", Kind: KindText, Title: Text{"démonstration", "demonstration"}},
		{Key: "terminal", Kind: KindText, Title: Text{"terminal", "terminal"}},
		{Key: "currency", Kind: KindText, Title: Text{"monnaie", "currency"}},
		{Key: "claims", Kind: KindInt, Title: Text{"paiements acceptés", "accepted claims"}},
		{Key: "amount", Kind: KindMoney, Title: Text{"montant accepté", "accepted amount"}},
		{Key: "conflicts", Kind: KindInt, Title: Text{"conflits", "conflicts"}},
		{Key: "conflict_amount", Kind: KindMoney, Title: Text{"montant en conflit (déclaré)", "conflict amount (as claimed)"}},
	}
}

// Payouts reports accepted claims, count and sum, by day, game, block and terminal, and
// beside them, never added to them, the claims that central stored and did not credit.
//
// The day is that of the entry by the terminal's own clock, read in the filter's zone:
// it is what the shop's closing shows, but a clock that was wrong puts its claims on a
// wrong day. Claims whose time cannot be read have no day and are left out once the
// filter has one. Amounts are summed per currency, and demonstration blocks apart from
// real ones. Conflict amounts are what the terminal claimed, believed by nobody.
func Payouts(ctx context.Context, db *sql.DB, f Filter, now time.Time) (Report, error) {
	f, err := f.located()
	if err != nil {
		return Report{}, err
	}
	r := Report{Name: "payouts", Title: Text{"Paiements", "Payouts"}, Filter: f, Made: now, Zone: f.Zone, Columns: payoutColumns()}
	if err := reading(ctx, db, func(tx *sql.Tx) error { return r.readPayouts(ctx, tx) }); err != nil {
		return Report{}, fmt.Errorf("report payouts: %w", err)
	}
	return r, nil
}

// payoutKey is what a row of the payouts is about. The zero Day is an unknown one.
type payoutKey struct {
	day      Day
	block    validate.BlockID
	terminal string
	currency string
}

// payout is a row's sums. Bad: the amounts claimed make no sum, being negative or
// larger than any; a hostile terminal can write what it likes there.
type payout struct {
	claims, conflicts      int64
	amount, conflictAmount money.Amount
	bad                    bool
}

// block is what a report says about a block.
type block struct {
	game, emission, currency string
	number                   int64
	scaled                   bool
}

// gathering holds the payouts as they are read.
type gathering struct {
	filter   Filter
	from, to string // first and past last stored time, "" for no bound
	blocks   map[validate.BlockID]block
	sums     map[payoutKey]*payout
}

func (r *Report) readPayouts(ctx context.Context, tx *sql.Tx) error {
	if err := knowTerminal(ctx, tx, r.Filter.Terminal); err != nil {
		return err
	}
	g := gathering{filter: r.Filter, sums: map[payoutKey]*payout{}}
	if f := r.Filter; !f.From.IsZero() {
		g.from = wire.FormatTime(f.From.begin(f.Zone, 0))
	}
	if f := r.Filter; !f.To.IsZero() {
		g.to = wire.FormatTime(f.To.begin(f.Zone, 1))
	}
	for _, step := range []func(context.Context, *sql.Tx) error{g.readBlocks, g.readClaims, g.readConflicts} {
		if err := step(ctx, tx); err != nil {
			return err
		}
	}
	r.addPayouts(g)
	return nil
}

// readBlocks keeps, of a block published again, the newest words.
func (g *gathering) readBlocks(ctx context.Context, tx *sql.Tx) error {
	g.blocks = map[validate.BlockID]block{}
	games := map[string]bool{}
	err := each(ctx, tx, "SELECT block_id, game, emission, number, currency, scaled FROM blocks ORDER BY block_id, serial", nil, func(rows *sql.Rows) error {
		var raw []byte
		var b block
		if err := rows.Scan(&raw, &b.game, &b.emission, &b.number, &b.currency, &b.scaled); err != nil {
			return err
		}
		id, err := blockID(raw)
		g.blocks[id], games[b.game] = b, true
		return err
	})
	if err != nil {
		return fmt.Errorf("blocks: %w", err)
	}
	if g.filter.Game != "" && !games[g.filter.Game] {
		known := "no block is published yet"
		if len(games) > 0 {
			known = "published are " + strings.Join(slices.Sorted(maps.Keys(games)), ", ")
		}
		return fmt.Errorf("%w: game %.80q has no published block: %.400s", ErrFilter, g.filter.Game, known)
	}
	return nil
}

func blockID(raw []byte) (validate.BlockID, error) {
	if len(raw) != len(validate.BlockID{}) {
		return validate.BlockID{}, fmt.Errorf("a block id of %d bytes, want %d", len(raw), len(validate.BlockID{}))
	}
	return validate.BlockID(raw), nil
}

// chosen are the filter's conditions on claims and conflicts alike, except the days.
func (g *gathering) chosen() conditions {
	var c conditions
	if g.filter.Terminal != "" {
		c.and("terminal = $%d", g.filter.Terminal)
	}
	if g.filter.Game != "" {
		c.and("block_id IN (SELECT block_id FROM blocks WHERE game = $%d)", g.filter.Game)
	}
	return c
}

// readClaims lets the database add up quarters of an hour, because it knows no zones and
// no zone today is off UTC by anything else.
func (g *gathering) readClaims(ctx context.Context, tx *sql.Tx) error {
	c := g.chosen()
	if g.from != "" {
		c.and("paid >= $%d", g.from)
	}
	if g.to != "" {
		c.and("paid < $%d", g.to)
	}
	const quarter = `CASE WHEN substr(paid, 15, 2) < '15' THEN '00' WHEN substr(paid, 15, 2) < '30' THEN '15' WHEN substr(paid, 15, 2) < '45' THEN '30' ELSE '45' END`
	err := each(ctx, tx, "SELECT block_id, terminal, currency, substr(paid, 1, 13), "+quarter+", count(*), CAST(sum(amount_minor) AS BIGINT) FROM claims"+c.where()+
		" GROUP BY 1, 2, 3, 4, 5", c.args, func(rows *sql.Rows) error {
		var raw []byte
		var k payoutKey
		var hour, minute string
		var claims, amount int64
		if err := rows.Scan(&raw, &k.terminal, &k.currency, &hour, &minute, &claims, &amount); err != nil {
			return err
		}
		var err error
		if k.block, err = blockID(raw); err != nil {
			return err
		}
		k.day = g.day(hour + ":" + minute + ":00.000Z")
		p, err := g.at(k)
		if err != nil {
			return err
		}
		p.claims += claims
		p.amount, err = p.amount.Add(money.Amount(amount))
		return err
	})
	if err != nil {
		return fmt.Errorf("claims: %w", err)
	}
	return nil
}

// readConflicts reads each conflict's day from its entry. An entry that names no block
// is no claim, and is counted by the sync report only.
func (g *gathering) readConflicts(ctx context.Context, tx *sql.Tx) error {
	c := g.chosen()
	err := each(ctx, tx, "SELECT block_id, terminal, currency, amount_minor, line FROM conflicts"+c.where("block_id IS NOT NULL")+" ORDER BY terminal, epoch, seq", c.args, func(rows *sql.Rows) error {
		var raw, line []byte
		var k payoutKey
		var amount sql.NullInt64
		if err := rows.Scan(&raw, &k.terminal, &k.currency, &amount, &line); err != nil {
			return err
		}
		e, err := ledger.ParseEntry(line)
		if err != nil {
			e.Time = "" // stored by a newer central; it has no day here
		}
		if (g.from != "" && e.Time < g.from) || (g.to != "" && e.Time >= g.to) {
			return nil
		}
		if k.block, err = blockID(raw); err != nil {
			return err
		}
		k.day = g.day(e.Time)
		if k.currency == "" {
			k.currency = g.blocks[k.block].currency
		}
		p, err := g.at(k)
		if err != nil {
			return err
		}
		p.conflict(amount)
		return nil
	})
	if err != nil {
		return fmt.Errorf("conflicts: %w", err)
	}
	return nil
}

func (p *payout) conflict(amount sql.NullInt64) {
	p.conflicts++
	sum, err := p.conflictAmount.Add(money.Amount(amount.Int64))
	if err != nil || !amount.Valid || amount.Int64 < 0 {
		p.bad = true
		return
	}
	p.conflictAmount = sum
}

// day is the calendar's day of a stored time, zero when it cannot be read.
func (g *gathering) day(stored string) Day {
	t, err := wire.ParseTime(stored)
	if err != nil {
		return Day{}
	}
	return dayOf(t.In(g.filter.Zone))
}

func (g *gathering) at(k payoutKey) (*payout, error) {
	if p := g.sums[k]; p != nil {
		return p, nil
	}
	if len(g.sums) == MaxRows {
		return nil, fmt.Errorf("%w: more than %d rows: choose fewer days, a terminal or a game", ErrTooLarge, MaxRows)
	}
	p := &payout{}
	g.sums[k] = p
	return p, nil
}

// addPayouts puts the sums in order: newest day first, unknown days last.
func (r *Report) addPayouts(g gathering) {
	keys := slices.SortedFunc(maps.Keys(g.sums), func(a, b payoutKey) int {
		x, y := g.blocks[a.block], g.blocks[b.block]
		return cmp.Or(cmp.Compare(b.day.String(), a.day.String()), cmp.Compare(x.game, y.game), cmp.Compare(x.emission, y.emission), cmp.Compare(x.number, y.number),
			cmp.Compare(a.block.String(), b.block.String()), cmp.Compare(a.terminal, b.terminal), cmp.Compare(a.currency, b.currency))
	})
	sections := map[[2]string][][]Value{} // by currency and demonstration, which are never added together
	for _, k := range keys {
		p := g.sums[k]
		game, emission, number, demonstration := unknown(KindText), unknown(KindText), unknown(KindInt), unknown(KindText)
		if b, ok := g.blocks[k.block]; ok {
			game, emission, number, demonstration = textValue(b.game), textValue(b.emission), intValue(b.number), textValue("no")
			if b.scaled {
				demonstration = textValue("yes")
			}
		}
		conflicted := Value{Kind: KindMoney, Known: !p.bad, Currency: k.currency}
		if !p.bad {
			conflicted.Int = int64(p.conflictAmount)
		}
		row := []Value{knownText(k.day.String()), game, emission, number, textValue(k.block.String()), demonstration, textValue(k.terminal), knownText(k.currency),
			intValue(p.claims), {Kind: KindMoney, Known: true, Int: int64(p.amount), Currency: k.currency}, intValue(p.conflicts), conflicted}
		r.Rows = append(r.Rows, row)
		section := [2]string{k.currency, demonstration.Text}
		sections[section] = append(sections[section], row)
	}
	r.totalPayouts(sections)
}

// totalPayouts makes a row of totals for each section and names the one currency, if there is one.
func (r *Report) totalPayouts(sections map[[2]string][][]Value) {
	currencies := map[string]bool{}
	for _, section := range slices.SortedFunc(maps.Keys(sections), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) }) {
		row := totalRow(r.Columns, sections[section], "claims", "amount", "conflicts", "conflict_amount")
		for i, c := range r.Columns {
			switch c.Key {
			case "currency":
				row[i] = knownText(section[0])
			case "demonstration":
				row[i] = knownText(section[1])
			}
		}
		r.Totals = append(r.Totals, row)
		currencies[section[0]] = true
	}
	if len(currencies) != 1 {
		return
	}
	for i := range r.Columns {
		if r.Columns[i].Kind == KindMoney {
			r.Columns[i].Currency = slices.Collect(maps.Keys(currencies))[0]
		}
	}
}
