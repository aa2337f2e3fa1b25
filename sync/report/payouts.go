package report

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"grattoir/sync/ledger"
	"grattoir/sync/wire"
	"grattoir/validate"
	"grattoir/validate/money"
)

func payoutColumns(f Filter) []Column {
	var list []Column
	if f.by("day") {
		list = append(list, Column{Key: "day", Kind: KindDay, Title: Text{"jour (horloge du terminal)", "day (terminal's clock)"}})
	}
	if f.by("game") || f.by("block") {
		list = append(list, blockColumns()[:1]...)
	}
	if f.by("block") {
		list = append(list, blockColumns()[1:4]...)
	}
	list = append(list, blockColumns()[4])
	for i, word := range []string{"shop", "", "terminal"} {
		if word != "" && f.by(word) {
			list = append(list, placeColumns()[i])
		}
	}
	return append(list,
		Column{Key: "currency", Kind: KindText, Title: Text{"monnaie", "currency"}},
		Column{Key: "claims", Kind: KindInt, Title: Text{"paiements acceptés", "accepted claims"}},
		Column{Key: "amount", Kind: KindMoney, Title: Text{"montant accepté", "accepted amount"}},
		Column{Key: "reversed", Kind: KindInt, Title: Text{"dont repris", "of these taken back"}},
		Column{Key: "reversed_amount", Kind: KindMoney, Title: Text{"montant repris", "amount taken back"}},
		Column{Key: "conflicts", Kind: KindInt, Title: Text{"conflits", "conflicts"}},
		Column{Key: "conflict_amount", Kind: KindMoney, Title: Text{"montant en conflit (déclaré)", "conflict amount (as claimed)"}})
}

func aboutPayouts() About {
	return About{Name: "payouts", Title: Text{"Paiements", "Payouts"}, Filters: []string{"terminal", "shop", "region", "game", "block", "from", "to"},
		By: []string{"day", "game", "block", "shop", "terminal"}, many: true,
		What: Text{"Les paiements acceptés, ceux qui ont été repris depuis, et à part les paiements en conflit, par jour, jeu, bloc, point de vente ou terminal.",
			"Accepted claims, those of them that were taken back since, and conflicts apart, by day, game, block, shop or terminal."},
		columns: func(f Filter) []Column { return payoutColumns(f.payoutsBy()) }, read: (*Report).readPayouts, coarse: "game"}
}

// payoutsBy is the filter with what the rows are told apart by where it names nothing.
func (f Filter) payoutsBy() Filter {
	f.By = cmp.Or(f.By, "day,game,block,terminal")
	return f
}

// Payouts reports accepted claims, count and sum, by day, game, block and terminal or
// what the filter asks for, which of them were taken back, and beside them, never added to
// them, the claims that central stored and did not credit.
//
// The day is that of the entry by the terminal's own clock, read in the filter's zone:
// it is what the shop's closing shows, but a clock that was wrong puts its claims on a
// wrong day. Claims whose time cannot be read have no day and are left out once the
// filter has one. Amounts are summed per currency, and demonstration blocks apart from
// real ones. Conflict amounts are what the terminal claimed, believed by nobody.
func Payouts(ctx context.Context, db *sql.DB, f Filter, now time.Time) (Report, error) {
	return aboutPayouts().make(ctx, db, f, now)
}

// payoutKey is what a row of the payouts is about; what rows are not told apart by is zero.
// The zero Day is an unknown one.
type payoutKey struct {
	day            Day
	game           string
	block          validate.BlockID
	demonstration  string // yes, no, "" where it is not known
	shop, terminal string
	currency       string
}

// payout is a row's sums. Bad: the amounts claimed make no sum, being negative or
// larger than any; a hostile terminal can write what it likes there.
type payout struct {
	claims, reversed, conflicts            int64
	amount, reversedAmount, conflictAmount money.Amount
	bad                                    bool
}

// gathering is the payouts as they are read. What no sum tells, conflicts and in another
// zone all of them, is held in extra; the rest comes from the database in its order.
type gathering struct {
	filter   Filter
	from, to string // first and past last stored time, "" for no bound
	blocks   map[validate.BlockID]block
	places   map[string]place
	extra    map[payoutKey]*payout
}

func (r *Report) readPayouts(ctx context.Context, tx *sql.Tx) (err error) {
	g := gathering{filter: r.Filter.payoutsBy(), extra: map[payoutKey]*payout{}}
	if f := r.Filter; !f.From.IsZero() {
		g.from = wire.FormatTime(f.From.begin(f.Zone, 0))
	}
	if f := r.Filter; !f.To.IsZero() {
		g.to = wire.FormatTime(f.To.begin(f.Zone, 1))
	}
	if g.blocks, err = readBlocks(ctx, tx); err != nil {
		return err
	}
	if g.places, err = readPlaces(ctx, tx); err != nil {
		return err
	}
	if err := g.readConflicts(ctx, tx); err != nil {
		return err
	}
	source := g.source()
	if r.page > 0 && source != "" {
		if err := g.totalFirst(ctx, tx, r); err != nil {
			return err
		}
	}
	if source == "claims" {
		if err := g.readUntimed(ctx, tx); err != nil {
			return err
		}
	}
	switch {
	case source == "":
		if err = g.readClaims(ctx, tx); err == nil {
			err = g.readReversed(ctx, tx)
		}
	case g.filter.by("day") && source != "day_sums":
		err = g.readDays(ctx, tx, r, source)
	default:
		if source == "claims" {
			err = g.readTimed(ctx, tx)
		}
		if err == nil {
			err = g.readOrdered(ctx, tx, r, source, Day{})
		}
	}
	if err == nil {
		err = g.flush(r, nil)
	}
	if r.cut = errors.Is(err, errEnough); r.cut {
		err = nil
	}
	if err != nil {
		return err
	}
	r.addTotals("claims", "amount", "reversed", "reversed_amount", "conflicts", "conflict_amount")
	return nil
}

// chosen are the filter's conditions on claims and conflicts alike, except the days.
func (g *gathering) chosen() conditions {
	var c conditions
	c.ofTerminals(g.filter, "terminal")
	c.ofBlocks(g.filter, "block_id")
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
	when := "substr(paid, 1, 13), " + quarter
	if g.timeless() {
		when = "'', ''"
	}
	err := each(ctx, tx, "SELECT block_id, terminal, currency, "+when+", count(*), CAST(sum(amount_minor) AS BIGINT) FROM claims"+c.where()+
		" GROUP BY 1, 2, 3, 4, 5", c.args, func(rows *sql.Rows) error {
		var raw []byte
		var terminal, currency, hour, minute string
		var claims, amount int64
		if err := rows.Scan(&raw, &terminal, &currency, &hour, &minute, &claims, &amount); err != nil {
			return err
		}
		quarter := hour + ":" + minute + ":00.000Z"
		if g.timeless() {
			quarter = ""
		} else if (g.from != "" || g.to != "") && dayOfStored(quarter, time.UTC).IsZero() {
			return nil // it has no day
		}
		p, err := g.of(raw, terminal, currency, quarter)
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

// readReversed reads which of the claims were taken back. They stand on the day on which
// they were paid, not on that of the reversal.
func (g *gathering) readReversed(ctx context.Context, tx *sql.Tx) error {
	return g.readReversedOf(ctx, tx, "1 = 1", g.within)
}

// readReversedOf is readReversed for those of some terminals whose time is wanted.
func (g *gathering) readReversedOf(ctx context.Context, tx *sql.Tx, terminals string, wanted func(paid string) bool) error {
	var c conditions
	c.and("r.state = $%d", validate.ReversalAccepted)
	c.ofTerminals(g.filter, "c.terminal")
	c.ofBlocks(g.filter, "c.block_id")
	if g.from != "" {
		c.and("c.paid >= $%d", g.from)
	}
	if g.to != "" {
		c.and("c.paid < $%d", g.to)
	}
	err := each(ctx, tx, `SELECT c.block_id, c.terminal, c.currency, c.paid, c.amount_minor FROM reversals r JOIN claims c
		ON c.block_id = r.block_id AND c.pack = r.pack AND c.ticket = r.ticket AND c.round = r.round AND c.terminal = r.terminal`+c.where(terminals), c.args, func(rows *sql.Rows) error {
		var raw []byte
		var terminal, currency, paid string
		var amount int64
		if err := rows.Scan(&raw, &terminal, &currency, &paid, &amount); err != nil || !wanted(paid) {
			return err
		}
		p, err := g.of(raw, terminal, currency, paid)
		if err != nil {
			return err
		}
		p.reversed++
		p.reversedAmount, err = p.reversedAmount.Add(money.Amount(amount))
		return err
	})
	if err != nil {
		return fmt.Errorf("reversals: %w", err)
	}
	return nil
}

// readConflicts reads each conflict's day from its entry. An entry that names no block
// is no claim, and is counted by the sync report only.
func (g *gathering) readConflicts(ctx context.Context, tx *sql.Tx) error {
	c := g.chosen()
	line := "line"
	if g.timeless() { // what is not asked for is not read
		line = "NULL"
	}
	err := each(ctx, tx, "SELECT block_id, terminal, currency, amount_minor, "+line+" FROM conflicts"+c.where("block_id IS NOT NULL")+" ORDER BY terminal, epoch, seq", c.args, func(rows *sql.Rows) error {
		var raw, line []byte
		var terminal, currency string
		var amount sql.NullInt64
		if err := rows.Scan(&raw, &terminal, &currency, &amount, &line); err != nil {
			return err
		}
		at := ""
		if line != nil {
			at = entryTime(line)
		}
		if !g.within(at) {
			return nil
		}
		p, err := g.of(raw, terminal, currency, at)
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

// entryTime is the device's time of an entry, "" for one of a newer program.
func entryTime(line []byte) string {
	e, err := ledger.ParseEntry(line)
	if err != nil {
		return ""
	}
	return e.Time
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

// dayOfStored is the calendar's day of a stored time, zero when it cannot be read.
func dayOfStored(stored string, zone *time.Location) Day {
	t, err := wire.ParseTime(stored)
	if err != nil {
		return Day{}
	}
	return dayOf(t.In(zone))
}

// of finds the row that something of a block, terminal and time belongs to.
func (g *gathering) of(raw []byte, terminal, currency, at string) (*payout, error) {
	id, err := blockID(raw)
	if err != nil {
		return nil, err
	}
	b := g.blocks[id]
	k := payoutKey{currency: cmp.Or(currency, b.currency), demonstration: b.demonstration().Text}
	if g.filter.by("day") {
		k.day = dayOfStored(at, g.filter.Zone)
	}
	if g.filter.by("game") || g.filter.by("block") {
		k.game = b.game
	}
	if g.filter.by("block") {
		k.block = id
	}
	if g.filter.by("shop") {
		k.shop = g.places[terminal].shop
	}
	if g.filter.by("terminal") {
		k.terminal = terminal
	}
	return g.at(k)
}

func (g *gathering) at(k payoutKey) (*payout, error) {
	if p := g.extra[k]; p != nil {
		return p, nil
	}
	if len(g.extra) == MaxRows {
		return nil, fmt.Errorf("%w: more than %d rows: choose fewer days, a terminal or a game", ErrTooLarge, MaxRows)
	}
	p := &payout{}
	g.extra[k] = p
	return p, nil
}

// compare puts payouts in order: newest day first, unknown days last.
func (g *gathering) compare(a, b payoutKey) int {
	x, y := g.blocks[a.block], g.blocks[b.block]
	return cmp.Or(cmp.Compare(b.day.number(), a.day.number()), cmp.Compare(a.game, b.game), cmp.Compare(x.emission, y.emission), cmp.Compare(x.number, y.number),
		bytes.Compare(a.block[:], b.block[:]), cmp.Compare(a.demonstration, b.demonstration), cmp.Compare(a.shop, b.shop), cmp.Compare(a.terminal, b.terminal), cmp.Compare(a.currency, b.currency))
}

// flush adds what is held, up to a day; nil is all of it.
func (g *gathering) flush(r *Report, day *Day) error {
	for _, k := range g.held(day) {
		if err := r.add(g.row(k, *g.extra[k])...); err != nil {
			return err
		}
		delete(g.extra, k)
	}
	return nil
}

// held are the keys of what is held of a day, or of all days, in order.
func (g *gathering) held(day *Day) (keys []payoutKey) {
	for k := range g.extra {
		if day == nil || k.day == *day {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, g.compare)
	return keys
}

// row writes a key and its sums in the order of payoutColumns.
func (g *gathering) row(k payoutKey, p payout) []Value {
	var row []Value
	f := g.filter
	if f.by("day") {
		row = append(row, dayValue(k.day))
	}
	if f.by("block") {
		row = append(row, blockOf(g.blocks, k.block)[:4]...)
	} else if f.by("game") {
		row = append(row, knownText(k.game))
	}
	row = append(row, knownText(k.demonstration))
	if f.by("shop") {
		row = append(row, knownText(k.shop))
	}
	if f.by("terminal") {
		row = append(row, textValue(k.terminal))
	}
	conflicted := Value{Kind: KindMoney, Known: !p.bad, Currency: k.currency}
	if !p.bad {
		conflicted.Int = int64(p.conflictAmount)
	}
	return append(row, knownText(k.currency), intValue(p.claims), moneyValue(int64(p.amount), k.currency),
		intValue(p.reversed), moneyValue(int64(p.reversedAmount), k.currency), intValue(p.conflicts), conflicted)
}
