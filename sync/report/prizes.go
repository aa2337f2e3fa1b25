package report

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/big"
	"slices"

	"grattoir/sync/wire"
	"grattoir/validate"
	"grattoir/validate/policy"
)

// Prizes left are what a block's table holds less what was paid and not taken back. What
// is uncertain of them: a terminal that was not heard, or that has entries to send, may
// have paid prizes of the tickets in its packs that central does not know of. Of a tier,
// no more can be gone that way than those terminals have tickets unpaid, or than they say
// that they have to send, or than are left; and nothing where no shop pays so much.
func aboutPrizes() About {
	return About{Name: "prizes", Title: Text{"Lots restants", "Prizes left"}, Filters: []string{"game", "block"},
		What: Text{"Ce qui reste à gagner par bloc et par rang, et ce que des terminaux en retard rendent incertain.",
			"What is left to win per block and tier, and what late terminals make uncertain of it."},
		columns: func(Filter) []Column {
			return append(blockColumns(),
				Column{Key: "tier", Kind: KindInt, Title: Text{"rang", "tier"}},
				Column{Key: "currency", Kind: KindText, Title: Text{"monnaie", "currency"}},
				Column{Key: "amount", Kind: KindMoney, Title: Text{"lot", "prize"}},
				Column{Key: "printed", Kind: KindInt, Title: Text{"imprimés", "printed"}},
				Column{Key: "paid", Kind: KindInt, Title: Text{"payés", "paid"}},
				Column{Key: "left", Kind: KindInt, Title: Text{"restants", "left"}},
				Column{Key: "left_amount", Kind: KindMoney, Title: Text{"montant restant", "amount left"}},
				Column{Key: "uncertain", Kind: KindInt, Title: Text{"dont incertains", "of these uncertain"}},
				Column{Key: "late_terminals", Kind: KindInt, Title: Text{"terminaux en retard", "late terminals"}})
		}, read: (*Report).readPrizes}
}

// tier is a row of a prize table.
type tier struct{ number, tickets, amount int64 }

func readTiers(ctx context.Context, tx *sql.Tx) (map[validate.BlockID][]tier, error) {
	tables := map[validate.BlockID][]tier{}
	err := each(ctx, tx, "SELECT block_id, tier, tickets, amount_minor FROM block_tiers ORDER BY block_id, tier", nil, func(rows *sql.Rows) error {
		var raw []byte
		var t tier
		if err := rows.Scan(&raw, &t.number, &t.tickets, &t.amount); err != nil {
			return err
		}
		id, err := blockID(raw)
		tables[id] = append(tables[id], t)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("prize tables: %w", err)
	}
	return tables, nil
}

// tierKey names a tier of a block.
type tierKey struct {
	block validate.BlockID
	tier  int64
}

// net is what was paid of a tier and not taken back.
type net struct{ tickets, amount int64 }

func readNet(ctx context.Context, tx *sql.Tx, f Filter) (map[tierKey]net, error) {
	sums := map[tierKey]net{}
	var c conditions
	c.ofBlocks(f, "block_id")
	err := each(ctx, tx, "SELECT block_id, tier, CAST(sum(claims - reversed) AS BIGINT), CAST(sum(amount_minor - reversed_minor) AS BIGINT) FROM tier_sums"+c.where()+" GROUP BY block_id, tier", c.args, func(rows *sql.Rows) error {
		var raw []byte
		var k tierKey
		var n net
		err := rows.Scan(&raw, &k.tier, &n.tickets, &n.amount)
		if err == nil {
			k.block, err = blockID(raw)
		}
		sums[k] = n
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("sums of tiers: %w", err)
	}
	return sums, nil
}

// doubt is what late terminals can have paid of a block.
type doubt struct{ terminals, tickets int64 }

// readDoubts counts, for each block, the terminals that may have paid of it what central
// does not know, and the tickets that they can have paid: those in their packs that they
// have not paid, and of a terminal that was heard just now no more than it said that it has
// to send. All terminals are late at night, so it is the database that adds them up.
func (r *Report) readDoubts(ctx context.Context, tx *sql.Tx) (map[validate.BlockID]doubt, error) {
	var c conditions
	from, to := c.arg(wire.FormatTime(r.Made.Add(-ContactWithin))), c.arg(wire.FormatTime(r.Made.Add(ContactWithin)))
	late := `(SELECT name, unsent, CASE WHEN program <> '' AND contact > ` + from + ` AND contact < ` + to + ` THEN 1 ELSE 0 END AS heard FROM terminals
		WHERE contact <> '' AND (unsent > 0 OR contact <= ` + from + ` OR contact >= ` + to + `))`
	c.ofBlocks(r.Filter, "p.block_id")
	owners := "(SELECT p.block_id, p.owner, l.unsent, l.heard, count(*) AS packs FROM packs p JOIN " + late + " l ON l.name = p.owner" + c.where("p.state IN ('active', 'settled')") + " GROUP BY p.block_id, p.owner, l.unsent, l.heard)"
	tickets := "(SELECT o.block_id, o.unsent, o.heard, CASE WHEN o.packs * b.pack_size > coalesce(s.claims, 0) THEN o.packs * b.pack_size - coalesce(s.claims, 0) ELSE 0 END AS tickets FROM " + owners +
		" o JOIN " + newestBlocks + " b ON b.block_id = o.block_id LEFT JOIN block_sums s ON s.block_id = o.block_id AND s.terminal = o.owner AND s.currency = b.currency)"
	doubts := map[validate.BlockID]doubt{}
	err := each(ctx, tx, "SELECT block_id, count(*), CAST(sum(CASE WHEN heard = 1 AND unsent < tickets THEN unsent ELSE tickets END) AS BIGINT) FROM "+tickets+" e GROUP BY block_id", c.args, func(rows *sql.Rows) error {
		var raw []byte
		var d doubt
		if err := rows.Scan(&raw, &d.terminals, &d.tickets); err != nil {
			return err
		}
		id, err := blockID(raw)
		doubts[id] = d
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("packs of late terminals: %w", err)
	}
	return doubts, nil
}

// readShopLimit is the most that any published policy lets a shop pay, 0 where none is
// published and terminals follow their configuration.
func readShopLimit(ctx context.Context, tx *sql.Tx) (int64, error) {
	x, err := readRates(ctx, tx)
	if err != nil {
		return 0, err
	}
	limit := int64(0)
	for _, p := range x.set.List() {
		limit = max(limit, int64(p.ShopLimit))
	}
	return limit, nil
}

// readTables gives the blocks, their prize tables, and what was paid of each tier.
func (r *Report) readTables(ctx context.Context, tx *sql.Tx) (blocks map[validate.BlockID]block, tables map[validate.BlockID][]tier, sums map[tierKey]net, err error) {
	if blocks, err = readBlocks(ctx, tx); err != nil {
		return
	}
	if tables, err = readTiers(ctx, tx); err != nil {
		return
	}
	sums, err = readNet(ctx, tx, r.Filter)
	return
}

func (r *Report) readPrizes(ctx context.Context, tx *sql.Tx) error {
	blocks, tables, sums, err := r.readTables(ctx, tx)
	if err != nil {
		return err
	}
	doubts, err := r.readDoubts(ctx, tx)
	if err != nil {
		return err
	}
	limit, err := readShopLimit(ctx, tx)
	if err != nil {
		return err
	}
	for _, b := range chosenBlocks(blocks, r.Filter) {
		for _, t := range tables[b.id] {
			paid, d := sums[tierKey{b.id, t.number}].tickets, doubts[b.id]
			left := t.tickets - paid
			if limit > 0 && t.amount > limit {
				d = doubt{}
			}
			if err := r.add(append(b.cells(), intValue(t.number), textValue(b.currency), moneyValue(t.amount, b.currency), intValue(t.tickets), intValue(paid),
				intValue(left), moneyValue(left*t.amount, b.currency), intValue(max(0, min(left, d.tickets))), intValue(d.terminals))...); err != nil {
				return err
			}
		}
	}
	r.addTotals("printed", "paid", "left", "left_amount")
	return nil
}

// Liability is what the lottery may still have to pay for tickets in players' hands. How
// many prizes the tickets of a sold pack hold nobody knows; of the tickets sold, it is
// their share of the block's table that is expected. What was not claimed lapses once the
// claim period is over.
func aboutLiability() About {
	return About{Name: "liability", Title: Text{"Engagements", "Liability"}, Filters: []string{"game", "block"},
		What: Text{"Par bloc : tickets vendus, lots attendus d'après le tableau, payés, non réclamés, et ce qui est forclos.",
			"Per block: tickets sold, prizes expected of them by the table, paid, unclaimed, and what has lapsed."},
		columns: func(Filter) []Column {
			return append(blockColumns(),
				Column{Key: "currency", Kind: KindText, Title: Text{"monnaie", "currency"}},
				Column{Key: "on_sale", Kind: KindInt, Title: Text{"tickets en vente", "tickets on sale"}},
				Column{Key: "sold", Kind: KindInt, Title: Text{"tickets vendus", "tickets sold"}},
				Column{Key: "sales", Kind: KindMoney, Title: Text{"ventes", "sales"}},
				Column{Key: "table", Kind: KindMoney, Title: Text{"lots du bloc", "prizes of the block"}},
				Column{Key: "expected", Kind: KindMoney, Title: Text{"attendus des tickets vendus", "expected of tickets sold"}},
				Column{Key: "paid", Kind: KindMoney, Title: Text{"payés", "paid"}},
				Column{Key: "unclaimed", Kind: KindMoney, Title: Text{"attendus non réclamés", "expected and unclaimed"}},
				Column{Key: "at_most", Kind: KindMoney, Title: Text{"au plus (tout le bloc)", "at most (whole block)"}},
				Column{Key: "closed", Kind: KindDay, Title: Text{"avis de clôture", "closing notice"}},
				Column{Key: "last_claim_day", Kind: KindDay, Title: Text{"dernier jour", "last claim day"}},
				Column{Key: "lapsed", Kind: KindMoney, Title: Text{"forclos", "lapsed"}})
		}, read: (*Report).readLiability}
}

// stock counts a block's tickets by where they are.
type stock struct{ onSale, sold int64 }

func (r *Report) readStock(ctx context.Context, tx *sql.Tx, blocks map[validate.BlockID]block) (map[validate.BlockID]stock, error) {
	stocks := map[validate.BlockID]stock{}
	lines, err := r.readInventoryLines(ctx, tx, blocks, false)
	if err != nil {
		return nil, err
	}
	for k, l := range lines {
		s := stocks[k.block]
		s.onSale += l.active.tickets
		s.sold += l.settled.tickets
		stocks[k.block] = s
	}
	return stocks, nil
}

// emission names an emission of a game.
type emission struct{ game, number string }

// closing is an emission's closing notice.
type closing struct{ closed, last policy.Date }

func readClosings(ctx context.Context, tx *sql.Tx) (map[emission]closing, error) {
	closings := map[emission]closing{}
	err := each(ctx, tx, "SELECT game, emission, closed, claim_days FROM emission_closings", nil, func(rows *sql.Rows) error {
		var e emission
		var text string
		var days int
		if err := rows.Scan(&e.game, &e.number, &text, &days); err != nil {
			return err
		}
		d, err := policy.ParseDate(text)
		closings[e] = closing{d, policy.LastClaimDay(d, days)}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("closing notices: %w", err)
	}
	return closings, nil
}

// part is amount * of / whole, rounded down, in arithmetic that no block overflows.
func part(amount, of, whole int64) int64 {
	if whole == 0 {
		return 0
	}
	n := new(big.Int).Mul(big.NewInt(amount), big.NewInt(of))
	return n.Div(n, big.NewInt(whole)).Int64()
}

func (r *Report) readLiability(ctx context.Context, tx *sql.Tx) error {
	blocks, tables, sums, err := r.readTables(ctx, tx)
	if err != nil {
		return err
	}
	stocks, err := r.readStock(ctx, tx, blocks)
	if err != nil {
		return err
	}
	closings, err := readClosings(ctx, tx)
	if err != nil {
		return err
	}
	for _, b := range chosenBlocks(blocks, r.Filter) {
		var table, paid int64
		for _, t := range tables[b.id] {
			table += t.tickets * t.amount
		}
		for k, n := range sums {
			if k.block == b.id {
				paid += n.amount
			}
		}
		s := stocks[b.id]
		expected := part(table, s.sold, b.tickets)
		sum := func(n int64) Value { return moneyValue(n, b.currency) }
		known := func(v Value) Value { // what follows from the table alone
			v.Known = tables[b.id] != nil
			return v
		}
		end, lapsed := closings[emission{b.game, b.emission}], sum(0)
		if end.last != (policy.Date{}) && end.last.Before(policy.DayInParis(r.Made)) {
			lapsed = known(sum(max(0, expected-paid)))
		}
		if err := r.add(append(b.cells(), textValue(b.currency), intValue(s.onSale), intValue(s.sold), sum(s.sold*b.price), known(sum(table)), known(sum(expected)), sum(paid),
			known(sum(expected-paid)), known(sum(table-paid)), dayValue(Day(end.closed)), dayValue(Day(end.last)), lapsed)...); err != nil {
			return err
		}
	}
	r.addTotals("on_sale", "sold", "sales", "table", "expected", "paid", "unclaimed", "at_most", "lapsed")
	return nil
}

// Inventory is where the packs of each block are, by the terminal that owns them. A pack
// that left the printer for nobody yet is the printer's own line.
func aboutInventory() About {
	return About{Name: "inventory", Title: Text{"Stock", "Inventory"}, Filters: []string{"terminal", "shop", "region", "game", "block"},
		What: Text{"Livrets et tickets par terminal et par bloc : livrés, en vente, réglés (vendus), revenus, volés, et ceux qui n'ont pas quitté l'imprimeur.",
			"Packs and tickets per terminal and block: delivered, on sale, settled (sold), returned, stolen, and those that have not left the printer."},
		columns: func(Filter) []Column {
			list := append(placeColumns(), blockColumns()...)
			for _, state := range []struct {
				key string
				t   Text
			}{{"printed", Text{"imprimés", "printed"}}, {"delivered", Text{"livrés", "delivered"}}, {"active", Text{"en vente", "on sale"}}, {"settled", Text{"réglés", "settled"}},
				{"returned", Text{"revenus", "returned"}}, {"stolen", Text{"volés", "stolen"}}} {
				list = append(list, Column{Key: state.key + "_packs", Kind: KindInt, Title: Text{"livrets " + state.t.FR, "packs " + state.t.EN}},
					Column{Key: state.key + "_tickets", Kind: KindInt, Title: Text{"tickets " + state.t.FR, "tickets " + state.t.EN}})
			}
			return list
		}, read: (*Report).readInventory}
}

// held counts packs and the tickets in them that are in that state themselves.
type held struct{ packs, tickets int64 }

// inventoryLine is a terminal's packs of one block. Single tickets that came back or were
// stolen count there, not with their pack.
type inventoryLine struct{ printed, delivered, active, settled, returned, stolen held }

func (l *inventoryLine) of(state validate.PackState) *held {
	switch state {
	case validate.PackDelivered:
		return &l.delivered
	case validate.PackActive:
		return &l.active
	case validate.PackSettled:
		return &l.settled
	case validate.PackReturn:
		return &l.returned
	case validate.PackStolenNow:
		return &l.stolen
	}
	return &l.printed
}

type inventoryKey struct {
	terminal string
	block    validate.BlockID
}

// readInventoryLines counts packs and tickets of each block, by owner or of all together.
func (r *Report) readInventoryLines(ctx context.Context, tx *sql.Tx, blocks map[validate.BlockID]block, byOwner bool) (map[inventoryKey]*inventoryLine, error) {
	lines := map[inventoryKey]*inventoryLine{}
	owner, groups := "owner", "owner, "
	if !byOwner {
		owner, groups = "''", ""
	}
	at := func(owner string, id validate.BlockID) *inventoryLine {
		if !byOwner {
			owner = ""
		}
		k := inventoryKey{owner, id}
		if lines[k] == nil {
			lines[k] = &inventoryLine{}
		}
		return lines[k]
	}
	var c conditions
	c.ofTerminals(r.Filter, "owner")
	c.ofBlocks(r.Filter, "block_id")
	err := each(ctx, tx, "SELECT "+owner+", block_id, state, count(*), max(pack) FROM packs"+c.where()+" GROUP BY "+groups+"block_id, state", c.args, func(rows *sql.Rows) error {
		var owner string
		var raw []byte
		var state validate.PackState
		var n, last int64
		if err := rows.Scan(&owner, &raw, &state, &n, &last); err != nil {
			return err
		}
		id, err := blockID(raw)
		if err != nil {
			return err
		}
		b, h := blocks[id], at(owner, id).of(state)
		h.packs += n
		h.tickets += n * b.size
		if b.size > 0 { // only the last pack of a block is short
			h.tickets -= b.size - b.inPack(last)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("packs: %w", err)
	}
	return lines, r.readTicketRuns(ctx, tx, at)
}

// readTicketRuns moves single tickets that came back or were stolen from their pack's state
// to their own. What was stolen counts as stolen only.
func (r *Report) readTicketRuns(ctx context.Context, tx *sql.Tx, at func(string, validate.BlockID) *inventoryLine) error {
	type packKey struct {
		owner string
		id    validate.BlockID
		pack  int64
		state validate.PackState
	}
	runs := map[packKey]map[validate.PackState][]run{}
	var c conditions
	c.ofTerminals(r.Filter, "p.owner")
	c.ofBlocks(r.Filter, "p.block_id")
	err := each(ctx, tx, "SELECT p.owner, p.block_id, p.pack, p.state, t.state, t.first, t.last FROM packs p JOIN pack_tickets t ON t.block_id = p.block_id AND t.pack = p.pack"+c.where(), c.args, func(rows *sql.Rows) error {
		var k packKey
		var raw []byte
		var state validate.PackState
		var x run
		err := rows.Scan(&k.owner, &raw, &k.pack, &k.state, &state, &x.first, &x.last)
		if err == nil {
			k.id, err = blockID(raw)
		}
		if runs[k] == nil {
			runs[k] = map[validate.PackState][]run{}
		}
		runs[k][state] = append(runs[k][state], x)
		return err
	})
	if err != nil {
		return fmt.Errorf("tickets that came back: %w", err)
	}
	for k, of := range runs {
		stolen := covered(of[validate.PackStolenNow])
		both := covered(slices.Concat(of[validate.PackStolenNow], of[validate.PackReturn]))
		line := at(k.owner, k.id)
		line.of(k.state).tickets -= both
		line.stolen.tickets += stolen
		line.returned.tickets += both - stolen
	}
	return nil
}

// readInventory goes block by block, so that no more is held than one block's owners have.
func (r *Report) readInventory(ctx context.Context, tx *sql.Tx) error {
	blocks, err := readBlocks(ctx, tx)
	if err != nil {
		return err
	}
	places, err := readPlaces(ctx, tx)
	if err != nil {
		return err
	}
	all, err := r.readInventoryLines(ctx, tx, blocks, false)
	if err != nil {
		return err
	}
	whole := r.Filter.Terminal == "" && r.Filter.Shop == "" && r.Filter.Region == ""
	if whole {
		for _, b := range chosenBlocks(blocks, r.Filter) {
			addPrinted(all, b)
		}
	}
	keys := sortedKeys(all, func(a, b inventoryKey) int {
		return cmp.Or(compareBlocks(blocks[a.block], blocks[b.block]), slices.Compare(a.block[:], b.block[:]))
	})
	if r.page > 0 { // the totals first: of the rows no more are read than are shown
		for _, k := range keys {
			r.tally(all[k].row(places, blocks, k))
		}
		r.totalled = true
	}
	for _, k := range keys {
		if err = r.addInventory(ctx, tx, blocks, places, k.block, whole); err != nil {
			break
		}
	}
	if r.cut = errors.Is(err, errEnough); err != nil && !r.cut {
		return err
	}
	var sums []string
	for _, c := range r.Columns {
		if c.Kind == KindInt && c.Key != "block" {
			sums = append(sums, c.Key)
		}
	}
	r.addTotals(sums...)
	return nil
}

// addInventory adds the rows of one block.
func (r *Report) addInventory(ctx context.Context, tx *sql.Tx, blocks map[validate.BlockID]block, places map[string]place, id validate.BlockID, whole bool) error {
	one := Report{Filter: r.Filter}
	one.Filter.Block = id
	lines, err := one.readInventoryLines(ctx, tx, blocks, true)
	if err != nil {
		return err
	}
	if b, published := blocks[id]; whole && published {
		addPrinted(lines, b)
	}
	for _, k := range sortedKeys(lines, func(a, b inventoryKey) int {
		return cmp.Or(cmp.Compare(places[a.terminal].shop, places[b.terminal].shop), cmp.Compare(a.terminal, b.terminal))
	}) {
		if err := r.add(lines[k].row(places, blocks, k)...); err != nil {
			return err
		}
	}
	return nil
}

// all are a line's packs and tickets by their states.
func (l *inventoryLine) all() []held {
	return []held{l.printed, l.delivered, l.active, l.settled, l.returned, l.stolen}
}

func (l *inventoryLine) row(places map[string]place, blocks map[validate.BlockID]block, k inventoryKey) []Value {
	row := append(places[k.terminal].cells(k.terminal), blockOf(blocks, k.block)...)
	for _, h := range l.all() {
		row = append(row, intValue(h.packs), intValue(h.tickets))
	}
	return row
}

// addPrinted adds, to nobody's line, the packs of a block that have no row: those that have
// not left the printer. The lines are all of the block.
func addPrinted(lines map[inventoryKey]*inventoryLine, b block) {
	packs, tickets := (b.tickets+b.size-1)/b.size, b.tickets
	for k, l := range lines {
		if k.block != b.id {
			continue
		}
		for _, h := range l.all() {
			packs, tickets = packs-h.packs, tickets-h.tickets
		}
	}
	k := inventoryKey{block: b.id}
	if packs == 0 {
		return
	}
	if lines[k] == nil {
		lines[k] = &inventoryLine{}
	}
	lines[k].printed.packs += packs
	lines[k].printed.tickets += tickets
}
