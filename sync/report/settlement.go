package report

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"grattoir/sync/wire"
	"grattoir/validate"
	"grattoir/validate/money"
	"grattoir/validate/policy"
)

// A settlement says what shops owe the lottery, or the lottery them:
//
//	due = sales - paid + reversed - borne - commission + correction
//
// Sales are the tickets of packs that were settled, at their sale price, without tickets
// that came back or were stolen. Paid are accepted claims; reversed those of them that were
// taken back, for which the shop has its money; borne are conflicts that operations have
// settled at the lottery's or the printer's charge. Commission is by the policy in force.
//
// Everything stands in the period in which central's clock saw it, not the device's, so
// that nobody's wrong clock moves money into a period that is over. A closed period never
// changes: what is known otherwise about its time later (a pack found to be stolen, a
// conflict opened again, a policy that begins in the past) is the next one's correction,
// the difference between what all earlier periods would be now and what they were closed
// with. The first period of all carries on what was due before it in the same way.
// Demonstration blocks are in none.
func aboutSettlement() About {
	return About{Name: "settlement", Title: Text{"Règlement des points de vente", "Retail settlement"}, Filters: []string{"terminal", "shop", "region", "from", "to"},
		By: []string{"shop", "terminal"},
		What: Text{"Ce que chaque point de vente doit (positif) ou ce qui lui est dû : ventes - lots payés + reprises - pris en charge - commission + correction, à l'horloge du centre.",
			"What each shop owes (positive) or is owed: sales - paid + taken back - borne by the lottery - commission + correction, by central's clock."},
		columns: settlementColumns, read: (*Report).readSettlement}
}

func settlementColumns(f Filter) []Column {
	list := placeColumns()[:2]
	if f.by("terminal") {
		list = placeColumns()
	}
	return append(list,
		Column{Key: "currency", Kind: KindText, Title: Text{"monnaie", "currency"}},
		Column{Key: "packs", Kind: KindInt, Title: Text{"livrets réglés", "packs settled"}},
		Column{Key: "tickets", Kind: KindInt, Title: Text{"tickets vendus", "tickets sold"}},
		Column{Key: "sales", Kind: KindMoney, Title: Text{"ventes", "sales"}},
		Column{Key: "claims", Kind: KindInt, Title: Text{"paiements", "claims"}},
		Column{Key: "paid", Kind: KindMoney, Title: Text{"lots payés", "paid"}},
		Column{Key: "reversals", Kind: KindInt, Title: Text{"reprises", "taken back"}},
		Column{Key: "reversed", Kind: KindMoney, Title: Text{"montant repris", "amount taken back"}},
		Column{Key: "borne", Kind: KindMoney, Title: Text{"pris en charge", "borne by the lottery"}},
		Column{Key: "commission", Kind: KindMoney, Title: Text{"commission", "commission"}},
		Column{Key: "correction", Kind: KindMoney, Title: Text{"correction et report d'avant", "correction and balance of before"}},
		Column{Key: "due", Kind: KindMoney, Title: Text{"dû par le point de vente", "due by the shop"}})
}

// account is what one terminal's settlement adds up to, in one currency. Amounts are minor
// units.
type account struct {
	packs, tickets, claims, reversals int64
	sales, paid, reversed, borne, fee int64
	correction                        int64
}

// due is what the shop owes: negative where the lottery does.
func (a account) due() int64 { return a.sales - a.paid + a.reversed - a.borne - a.fee + a.correction }

// plus adds up accounts of one currency.
func (a account) plus(b account) (account, error) {
	for _, x := range []struct {
		to *int64
		by int64
	}{{&a.packs, b.packs}, {&a.tickets, b.tickets}, {&a.claims, b.claims}, {&a.reversals, b.reversals}, {&a.sales, b.sales}, {&a.paid, b.paid},
		{&a.reversed, b.reversed}, {&a.borne, b.borne}, {&a.fee, b.fee}, {&a.correction, b.correction}} {
		sum, err := money.Amount(*x.to).Add(money.Amount(x.by))
		if err != nil || sum > maxAccount || sum < -maxAccount {
			return a, fmt.Errorf("an account of more than %d minor units: an amount in the tables cannot be right", int64(maxAccount))
		}
		*x.to = int64(sum)
	}
	return a, nil
}

// maxAccount bounds a sum, so that a few of them still add up to a number that fits.
const maxAccount = 1 << 59

// accountKey names an account.
type accountKey struct{ terminal, currency string }

func compareAccounts(a, b accountKey) int {
	return cmp.Or(cmp.Compare(a.terminal, b.terminal), cmp.Compare(a.currency, b.currency))
}

// segment is a stretch of central's clock in which one policy was in force and no period
// ended. Commission is rounded once in each, so that it is the same whenever it is asked for.
type segment struct {
	from, to     string // stored times, "" for no bound
	sale, payout int    // commissions, in hundredths of a percent
	own          bool   // of the period that is asked for, not before it
}

// settling is a settlement as it is read.
type settling struct {
	filter  Filter
	blocks  map[validate.BlockID]block
	own     map[accountKey]account // in the period
	before  map[accountKey]int64   // what is due for all time before it, as it is known now
	closed  map[accountKey]int64   // what was closed for that time
	known   bool                   // the period begins where the last closed one ended
	numbers []segment
}

func (r *Report) readSettlement(ctx context.Context, tx *sql.Tx) error {
	s, err := r.settle(ctx, tx)
	if err != nil {
		return err
	}
	places, err := readPlaces(ctx, tx)
	if err != nil {
		return err
	}
	type line struct{ shop, region, terminal, currency string }
	sums := map[line]account{}
	for _, k := range s.keys() {
		p := places[k.terminal]
		l := line{shop: cmp.Or(p.shop, k.terminal), currency: k.currency}
		if r.Filter.by("terminal") {
			l.region, l.terminal = p.region, k.terminal
		}
		if sums[l], err = sums[l].plus(s.account(k)); err != nil {
			return fmt.Errorf("shop %s: %w", l.shop, err)
		}
	}
	regions := regionsOfShops(places)
	for _, l := range sortedKeys(sums, func(a, b line) int {
		return cmp.Or(cmp.Compare(a.shop, b.shop), cmp.Compare(a.terminal, b.terminal), cmp.Compare(a.currency, b.currency))
	}) {
		a := sums[l]
		row := []Value{textValue(l.shop), knownText(regions[l.shop])}
		if r.Filter.by("terminal") {
			row = []Value{textValue(l.shop), knownText(l.region), textValue(l.terminal)}
		}
		sum := func(n int64) Value { return moneyValue(n, l.currency) }
		correction, due := sum(a.correction), sum(a.due())
		if !s.known {
			correction.Known, correction.Int = false, 0
		}
		if err := r.add(append(row, knownText(l.currency), intValue(a.packs), intValue(a.tickets), sum(a.sales), intValue(a.claims), sum(a.paid),
			intValue(a.reversals), sum(a.reversed), sum(a.borne), sum(a.fee), correction, due)...); err != nil {
			return err
		}
	}
	r.addTotals("packs", "tickets", "sales", "claims", "paid", "reversals", "reversed", "borne", "commission", "correction", "due")
	return nil
}

// regionsOfShops gives each shop the region of its terminals, where they agree.
func regionsOfShops(places map[string]place) map[string]string {
	regions := map[string]string{}
	for _, p := range places {
		if has, ok := regions[p.shop]; ok && has != p.region {
			regions[p.shop] = ""
			continue
		}
		regions[p.shop] = p.region
	}
	return regions
}

// keys are the accounts in which something moved.
func (s *settling) keys() []accountKey {
	all := map[accountKey]bool{}
	for k := range s.own {
		all[k] = true
	}
	if s.known {
		for k, n := range s.before {
			if n != s.closed[k] {
				all[k] = true
			}
		}
		for k, n := range s.closed {
			if n != s.before[k] {
				all[k] = true
			}
		}
	}
	return sortedKeys(all, compareAccounts)
}

// account is a key's own period with its correction.
func (s *settling) account(k accountKey) account {
	a := s.own[k]
	if s.known {
		a.correction = s.before[k] - s.closed[k]
	}
	return a
}

// settle reads the accounts of the filter's period. Without a first day it goes on where
// the last closed period ended.
func (r *Report) settle(ctx context.Context, tx *sql.Tx) (*settling, error) {
	s := &settling{own: map[accountKey]account{}, before: map[accountKey]int64{}, closed: map[accountKey]int64{}}
	ends, last, err := readClosed(ctx, tx)
	if err != nil {
		return nil, err
	}
	next := Day{}
	if last != nil {
		next = Day(last.Last.Add(1))
		for _, l := range last.lines {
			s.closed[accountKey{l.Terminal, l.Currency}] = l.ToDate
		}
	}
	if r.Filter.From.IsZero() {
		r.Filter.From = next
	}
	s.known = r.Filter.From == next && r.Filter.Zone.String() == zoneOfSums || last == nil
	s.filter = r.Filter
	if s.closed, err = s.chosen(ctx, tx, s.closed); err != nil {
		return nil, err
	}
	if s.blocks, err = readBlocks(ctx, tx); err != nil {
		return nil, err
	}
	if s.numbers, err = s.segments(ctx, tx, ends, wire.FormatTime(r.Made)); err != nil {
		return nil, err
	}
	for _, g := range s.numbers {
		if err := s.read(ctx, tx, g); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// chosen leaves of accounts those of the filter's terminals.
func (s *settling) chosen(ctx context.Context, tx *sql.Tx, all map[accountKey]int64) (map[accountKey]int64, error) {
	if s.filter.Terminal == "" && s.filter.Shop == "" && s.filter.Region == "" {
		return all, nil
	}
	var c conditions
	c.ofTerminals(s.filter, "name")
	some := map[accountKey]int64{}
	err := each(ctx, tx, "SELECT name FROM terminals"+c.where(), c.args, func(rows *sql.Rows) error {
		var name string
		if err := rows.Scan(&name); err != nil {
			return err
		}
		for k, n := range all {
			if k.terminal == name {
				some[k] = n
			}
		}
		return nil
	})
	return some, err
}

// segments cuts all time up to the period's end where a period ended or rates changed.
func (s *settling) segments(ctx context.Context, tx *sql.Tx, ends []Day, now string) ([]segment, error) {
	rates, err := readRates(ctx, tx)
	if err != nil {
		return nil, err
	}
	f := s.filter
	until, from := now, ""
	if !f.To.IsZero() {
		until = min(now, wire.FormatTime(f.To.begin(f.Zone, 1)))
	}
	if !f.From.IsZero() {
		from = wire.FormatTime(f.From.begin(f.Zone, 0))
	}
	cuts := []string{from, until}
	for _, d := range slices.Concat(ends, rates.changes()) {
		cuts = append(cuts, wire.FormatTime(d.begin(Paris(), 0)))
	}
	slices.Sort(cuts)
	cuts = slices.Compact(cuts)
	var list []segment
	start := ""
	for _, cut := range cuts {
		if cut == "" || cut > until {
			continue
		}
		g := segment{from: start, to: cut, own: start >= from}
		if g.own || s.known {
			g.sale, g.payout = rates.at(start)
			list = append(list, g)
		}
		start = cut
	}
	return list, nil
}

// rates are the commissions of the published policies.
type rates struct{ set policy.Set }

func readRates(ctx context.Context, tx *sql.Tx) (*rates, error) {
	var x rates
	if err := acceptPolicies(ctx, tx, &x.set, ""); err != nil {
		return nil, fmt.Errorf("policies: %w", err)
	}
	return &x, nil
}

// changes are the days on which another policy can come into force.
func (x *rates) changes() []Day {
	var days []Day
	for _, p := range x.set.List() {
		days = append(days, Day(p.ValidFrom))
		if !p.ValidTo.IsZero() {
			days = append(days, Day(p.ValidTo.Add(1)))
		}
	}
	return days
}

// at gives the rates from a stored time on; before the first policy, and in a gap between
// two, there are none.
func (x *rates) at(stored string) (sale, payout int) {
	at, err := wire.ParseTime(stored)
	if err != nil {
		return 0, 0
	}
	p, err := x.set.InForce(at)
	if err != nil {
		return 0, 0
	}
	return p.CommissionSale, p.CommissionPaid
}

// share is a rate of an amount, rounded half away from zero.
func share(amount int64, rate int) int64 {
	const half = policy.WholeRate / 2
	whole, rest := amount/policy.WholeRate, amount%policy.WholeRate
	part := rest * int64(rate)
	if part < 0 {
		return whole*int64(rate) + (part-half)/policy.WholeRate
	}
	return whole*int64(rate) + (part+half)/policy.WholeRate
}

// read adds what happened in one segment.
func (s *settling) read(ctx context.Context, tx *sql.Tx, g segment) error {
	sums := map[accountKey]account{}
	for _, step := range []func(context.Context, *sql.Tx, segment, map[accountKey]account) error{s.readPacks, s.readUnsold, s.readPaid, s.readTakenBack, s.readBorne} {
		if err := step(ctx, tx, g, sums); err != nil {
			return err
		}
	}
	for k, a := range sums {
		if a == (account{}) { // a month's less the days that are not asked for
			continue
		}
		a.fee = share(a.sales, g.sale) + share(a.paid-a.reversed, g.payout)
		if !g.own {
			s.before[k] += a.due()
			continue
		}
		sum, err := s.own[k].plus(a)
		if err != nil {
			return fmt.Errorf("terminal %s: %w", k.terminal, err)
		}
		s.own[k] = sum
	}
	return nil
}

// during are the conditions of a segment on a stored time, and the filter's.
func (s *settling) during(g segment, at, terminal string) conditions {
	var c conditions
	if g.from != "" {
		c.and(at+" >= $%d", g.from)
	}
	c.and(at+" < $%d", g.to)
	c.ofTerminals(s.filter, terminal)
	return c
}

// sold is the condition that a pack was settled, and its sale stands.
const sold = "p.settled <> '' AND (p.state = 'settled' OR p.state = 'stolen' AND p.was = 'settled')"

// addTo adds to the account of a terminal what is of a block; nothing for a demonstration.
func (s *settling) addTo(sums map[accountKey]account, terminal string, raw []byte, currency string, of func(block) account) error {
	id, err := blockID(raw)
	if err != nil {
		return err
	}
	b := s.blocks[id]
	if b.scaled {
		return nil
	}
	k := accountKey{terminal, cmp.Or(currency, b.currency)}
	sums[k], err = sums[k].plus(of(b))
	if err != nil {
		return fmt.Errorf("terminal %s: %w", terminal, err)
	}
	return nil
}

func (s *settling) readPacks(ctx context.Context, tx *sql.Tx, g segment, sums map[accountKey]account) error {
	c := s.during(g, "p.settled", "p.owner")
	err := each(ctx, tx, "SELECT p.owner, coalesce(b.currency, ''), count(*), CAST(sum(coalesce(b.pack_size, 0)) AS BIGINT), CAST(sum(coalesce(b.pack_size * b.price_minor, 0)) AS BIGINT) FROM packs p LEFT JOIN "+newestBlocks+" b ON b.block_id = p.block_id"+
		c.where(sold, "coalesce(b.scaled, 0) = 0")+" GROUP BY p.owner, coalesce(b.currency, '')", c.args, func(rows *sql.Rows) (err error) {
		var k accountKey
		var a account
		if err := rows.Scan(&k.terminal, &k.currency, &a.packs, &a.tickets, &a.sales); err != nil {
			return err
		}
		sums[k], err = sums[k].plus(a)
		return err
	})
	if err != nil {
		return fmt.Errorf("packs: %w", err)
	}
	return nil
}

// readUnsold takes off the tickets of settled packs that were not sold: those that a short
// last pack of a block has not, and those that came back or were stolen.
func (s *settling) readUnsold(ctx context.Context, tx *sql.Tx, g segment, sums map[accountKey]account) error {
	c := s.during(g, "p.settled", "p.owner")
	err := each(ctx, tx, "SELECT p.owner, p.block_id, p.pack FROM packs p JOIN blocks b ON b.block_id = p.block_id AND b.last_pack = p.pack"+c.where(sold,
		"b.serial = (SELECT max(serial) FROM blocks o WHERE o.block_id = b.block_id)"), c.args, func(rows *sql.Rows) error {
		var owner string
		var raw []byte
		var pack int64
		if err := rows.Scan(&owner, &raw, &pack); err != nil {
			return err
		}
		return s.addTo(sums, owner, raw, "", func(b block) account { return unsold(b, b.size-b.inPack(pack)) })
	})
	if err != nil {
		return fmt.Errorf("last packs: %w", err)
	}
	type packKey struct {
		owner string
		id    validate.BlockID
		pack  int64
	}
	runs := map[packKey][]run{}
	c = s.during(g, "p.settled", "p.owner")
	err = each(ctx, tx, "SELECT p.owner, p.block_id, p.pack, t.first, t.last FROM packs p JOIN pack_tickets t ON t.block_id = p.block_id AND t.pack = p.pack"+c.where(sold), c.args, func(rows *sql.Rows) error {
		var k packKey
		var raw []byte
		var x run
		err := rows.Scan(&k.owner, &raw, &k.pack, &x.first, &x.last)
		if err == nil {
			k.id, err = blockID(raw)
		}
		runs[k] = append(runs[k], x)
		return err
	})
	if err != nil {
		return fmt.Errorf("tickets that came back: %w", err)
	}
	for k, list := range runs {
		if err := s.addTo(sums, k.owner, k.id[:], "", func(b block) account { return unsold(b, covered(list)) }); err != nil {
			return err
		}
	}
	return nil
}

func unsold(b block, tickets int64) account {
	return account{tickets: -tickets, sales: -tickets * b.price}
}

// run is a run of tickets, both ends included.
type run struct{ first, last int64 }

// covered counts the tickets of runs, each once: what came back can be stolen too.
func covered(runs []run) (n int64) {
	slices.SortFunc(runs, func(a, b run) int { return cmp.Or(cmp.Compare(a.first, b.first), cmp.Compare(a.last, b.last)) })
	end := int64(-1)
	for _, r := range runs {
		n += max(0, r.last-max(r.first, end+1)+1)
		end = max(end, r.last)
	}
	return n
}

// readPaid takes whole months and days from the sums, and what lies at the ends of the
// segment, as the hours of today, from the claims themselves.
func (s *settling) readPaid(ctx context.Context, tx *sql.Tx, g segment, sums map[accountKey]account) error {
	whole, ends := g.spans()
	var c conditions
	var parts []string
	for _, x := range whole {
		part := "SELECT terminal, scaled, currency, claims, amount_minor FROM " + x.table + " WHERE received < " + c.arg(x.to)
		if x.minus {
			part = strings.Replace(part, "claims, amount_minor", "-claims, -amount_minor", 1)
		}
		if x.from != "" {
			part += " AND received >= " + c.arg(x.from)
		}
		one := conditions{args: c.args}
		one.ofTerminals(s.filter, "terminal")
		for _, text := range one.text {
			part += " AND " + text
		}
		c.args = one.args
		parts = append(parts, part)
	}
	if len(parts) > 0 {
		err := each(ctx, tx, "SELECT terminal, scaled, currency, CAST(sum(claims) AS BIGINT), CAST(sum(amount_minor) AS BIGINT) FROM ("+strings.Join(parts, " UNION ALL ")+") u GROUP BY terminal, scaled, currency", c.args, func(rows *sql.Rows) (err error) {
			var k accountKey
			var scaled int
			var a account
			if err := rows.Scan(&k.terminal, &scaled, &k.currency, &a.claims, &a.paid); err != nil || scaled == 1 {
				return err
			}
			sums[k], err = sums[k].plus(a)
			return err
		})
		if err != nil {
			return fmt.Errorf("sums of the claims: %w", err)
		}
	}
	for _, end := range ends {
		c := s.during(end, "received", "terminal")
		err := each(ctx, tx, "SELECT terminal, block_id, currency, count(*), CAST(sum(amount_minor) AS BIGINT) FROM claims"+c.where()+" GROUP BY terminal, block_id, currency", c.args,
			s.amounts(sums, func(n, amount int64) account { return account{claims: n, paid: amount} }))
		if err != nil {
			return fmt.Errorf("claims: %w", err)
		}
	}
	return nil
}

func (s *settling) readTakenBack(ctx context.Context, tx *sql.Tx, g segment, sums map[accountKey]account) error {
	c := s.during(g, "decided", "terminal")
	c.and("state = $%d", validate.ReversalAccepted)
	err := each(ctx, tx, "SELECT terminal, block_id, currency, count(*), CAST(sum(amount_minor) AS BIGINT) FROM reversals"+c.where()+" GROUP BY terminal, block_id, currency", c.args,
		s.amounts(sums, func(n, amount int64) account { return account{reversals: n, reversed: amount} }))
	if err != nil {
		return fmt.Errorf("reversals: %w", err)
	}
	return nil
}

// readBorne reads conflicts whose last act settled them at another's charge than the shop's.
func (s *settling) readBorne(ctx context.Context, tx *sql.Tx, g segment, sums map[accountKey]account) error {
	c := s.during(g, "a.at", "c.terminal")
	err := each(ctx, tx, `SELECT c.terminal, c.block_id, c.currency, count(*), CAST(sum(c.amount_minor) AS BIGINT) FROM conflicts c JOIN conflict_acts a ON a.terminal = c.terminal AND a.epoch = c.epoch AND a.seq = c.seq`+
		c.where("a.state = 'settled'", "a.liable IN ('lottery', 'printer')", "c.block_id IS NOT NULL", "c.amount_minor BETWEEN 0 AND 9007199254740992",
			"a.number = (SELECT max(o.number) FROM conflict_acts o WHERE o.terminal = a.terminal AND o.epoch = a.epoch AND o.seq = a.seq)")+" GROUP BY c.terminal, c.block_id, c.currency", c.args,
		s.amounts(sums, func(_, amount int64) account { return account{borne: amount} }))
	if err != nil {
		return fmt.Errorf("conflicts: %w", err)
	}
	return nil
}

// amounts reads rows of terminal, block, currency, count and sum.
func (s *settling) amounts(sums map[accountKey]account, of func(n, amount int64) account) func(*sql.Rows) error {
	return func(rows *sql.Rows) error {
		var terminal, currency string
		var raw []byte
		var n, amount int64
		if err := rows.Scan(&terminal, &raw, &currency, &n, &amount); err != nil {
			return err
		}
		return s.addTo(sums, terminal, raw, currency, func(block) account { return of(n, amount) })
	}
}

// readClosed reads on which days closed periods ended, as the first day after each, and
// the last of them with its lines; nil for none.
func readClosed(ctx context.Context, tx *sql.Tx) (ends []Day, last *Closed, err error) {
	err = each(ctx, tx, "SELECT last_day FROM settlements ORDER BY number", nil, func(rows *sql.Rows) error {
		var day string
		if err := rows.Scan(&day); err != nil {
			return err
		}
		d, err := policy.ParseDate(day)
		ends = append(ends, Day(d.Add(1)))
		return err
	})
	if err == nil && len(ends) > 0 {
		last = &Closed{}
		var head, lines string
		if err = tx.QueryRowContext(ctx, "SELECT note, lines FROM settlements ORDER BY number DESC LIMIT 1").Scan(&head, &lines); err == nil {
			text, _, _ := strings.Cut(head, "\n\n") // central signed it itself
			*last, err = ParseClosed(text+"\n", lines)
		}
	}
	if err != nil {
		return nil, nil, fmt.Errorf("closed settlements: %w", err)
	}
	return ends, last, nil
}
