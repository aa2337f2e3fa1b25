package report

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"

	"grattoir/sync/central"
	"grattoir/sync/wire"
	"grattoir/validate"
)

// Signals of fraud. Each is a count at one terminal, or of one block, held against what
// chance gives where everybody behaves as the rest of the fleet does. What is shown is
// improbable (see least) and large (timesUsual) at once: a shop whose scanner is worn types
// a little more than others, and that is no news. A signal is a reason to look, never a
// proof, and says nothing of a person.
const (
	ManualEntry      = "manual-entry"      // codes typed, of all that were looked at
	UnsoldCheck      = "unsold-check"      // looks at tickets of the shop's own packs that are not on sale
	PaidOrStolen     = "paid-or-stolen"    // looks at tickets that are paid already, or stolen
	CheckedElsewhere = "checked-elsewhere" // winners looked at here and paid at another shop
	BlockOverpaid    = "block-overpaid"    // a block of which more was paid than its table has, or than its sold tickets can explain
	MiddleMissing    = "middle-missing"    // winners that are never of the middle tiers
	OddHours         = "odd-hours"         // payments in the night
	Cancelled        = "cancelled"         // payments taken back, or allowed by central and given back
)

const (
	timesUsual = 3 // as often as in the rest of the fleet, or more
	fewest     = 4 // events at least
)

func aboutSignals() About {
	return About{Name: "signals", Title: Text{"Signaux", "Signals"}, Filters: []string{"terminal", "shop", "region", "from", "to"},
		What: Text{"Comptes trop grands pour le hasard, par terminal ou par bloc, avec ce qui était attendu et un indice : 3 veut dire une fois sur mille. Un motif de regarder, jamais une preuve.",
			"Counts too large for chance, per terminal or block, with what was expected and a score: 3 means once in a thousand. A reason to look, never a proof."},
		columns: func(Filter) []Column {
			list := append([]Column{{Key: "signal", Kind: KindText, Title: Text{"signal", "signal"}}}, placeColumns()...)
			list = append(list, blockColumns()[:4]...)
			return append(list,
				Column{Key: "observed", Kind: KindInt, Title: Text{"observés", "observed"}},
				Column{Key: "of", Kind: KindInt, Title: Text{"sur", "of"}},
				Column{Key: "expected", Kind: KindDecimal, Title: Text{"attendus", "expected"}},
				Column{Key: "score", Kind: KindDecimal, Title: Text{"indice", "score"}},
				Column{Key: "explained", Kind: KindText, Title: Text{"explication", "explained"}})
		}, read: (*Report).readSignals}
}

// finding is one count held against chance.
type finding struct {
	signal, terminal string
	block            validate.BlockID
	observed, of     int64
	expected, score  float64
	explained        string
}

// tally counts, at one terminal, events among tries.
type tally struct{ events, tries int64 }

// counting is what all signals read.
type counting struct {
	r      *Report
	places map[string]place
	blocks map[validate.BlockID]block
	paid   map[string]paidSum // by terminal
	found  []finding
}

func (r *Report) readSignals(ctx context.Context, tx *sql.Tx) (err error) {
	x := counting{r: r}
	if x.places, err = readPlaces(ctx, tx); err != nil {
		return err
	}
	if x.blocks, err = readBlocks(ctx, tx); err != nil {
		return err
	}
	if err := x.readPaid(ctx, tx); err != nil {
		return err
	}
	looks, err := x.readLooks(ctx, tx)
	if err != nil {
		return err
	}
	for _, step := range []func(context.Context, *sql.Tx, map[string]int64) error{x.manualEntry, x.sighted, x.checkedElsewhere, x.overpaid, x.middleMissing, x.oddHours, x.cancelled} {
		if err := step(ctx, tx, looks); err != nil {
			return err
		}
	}
	return r.addFindings(x)
}

// addFindings shows the findings of the filter's terminals, the most improbable first. The
// filter comes last: a terminal's signals are those that the whole fleet's report shows.
func (r *Report) addFindings(x counting) error {
	slices.SortFunc(x.found, func(a, b finding) int {
		return cmp.Or(-compareFloats(a.score, b.score), cmp.Compare(a.signal, b.signal), cmp.Compare(a.terminal, b.terminal), compareBlocks(x.blocks[a.block], x.blocks[b.block]))
	})
	f := r.Filter
	for _, y := range x.found {
		p := x.places[y.terminal]
		if f.Terminal != "" && y.terminal != f.Terminal || f.Shop != "" && p.shop != f.Shop || f.Region != "" && p.region != f.Region {
			continue
		}
		row := append([]Value{textValue(y.signal)}, p.cells(y.terminal)...)
		row = append(row, blockOf(x.blocks, y.block)[:4]...)
		if err := r.add(append(row, intValue(y.observed), intValue(y.of), decimalValue(y.expected), decimalValue(y.score), textValue(y.explained))...); err != nil {
			return err
		}
	}
	return nil
}

// compare holds each terminal's share of events against that of all others, by the exact
// binomial test, and keeps those that are improbable and large.
func (x *counting) compare(signal string, tallies map[string]tally, explain func(t tally, usual float64) string) {
	var all tally
	for _, t := range tallies {
		all = tally{all.events + t.events, all.tries + t.tries}
	}
	var list []finding
	var scores []float64
	for terminal, t := range tallies {
		if t.events < fewest || t.tries < t.events {
			continue
		}
		// Of the others, with half an event more, so that what nobody did before has a rate too.
		usual := (float64(all.events-t.events) + 0.5) / (float64(all.tries-t.tries) + 1)
		expected := usual * float64(t.tries)
		if float64(t.events) < timesUsual*expected {
			continue
		}
		s := binomialScore(t.events, t.tries, usual)
		scores = append(scores, s)
		list = append(list, finding{signal: signal, terminal: terminal, observed: t.events, of: t.tries, expected: expected, score: s, explained: explain(t, usual)})
	}
	x.keep(list, scores, len(tallies))
}

// keep adds the findings that chance does not explain.
func (x *counting) keep(list []finding, scores []float64, tries int) {
	limit := least(scores, tries)
	for _, y := range list {
		if y.score >= limit {
			x.found = append(x.found, y)
		}
	}
}

// readLooks counts the tickets that were looked at, by terminal, of the filter's days.
func (x *counting) readLooks(ctx context.Context, tx *sql.Tx) (map[string]int64, error) {
	looks := map[string]int64{}
	c := x.lookDays("day")
	err := each(ctx, tx, "SELECT terminal, CAST(sum(number) AS BIGINT) FROM looks"+c.where()+" GROUP BY terminal", c.args, func(rows *sql.Rows) error {
		var terminal string
		var n int64
		err := rows.Scan(&terminal, &n)
		looks[terminal] = n
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("looks: %w", err)
	}
	return looks, nil
}

// lookDays are the filter's days on a column of days.
func (x *counting) lookDays(column string) conditions {
	var c conditions
	if f := x.r.Filter; !f.From.IsZero() {
		c.and(column+" >= $%d", f.From.String())
	}
	if f := x.r.Filter; !f.To.IsZero() {
		c.and(column+" <= $%d", f.To.String())
	}
	return c
}

// each calls use with a terminal and a number for every row of a query.
func (x *counting) each(ctx context.Context, tx *sql.Tx, query string, args []any, use func(terminal string, n int64)) error {
	return each(ctx, tx, query, args, func(rows *sql.Rows) error {
		var terminal string
		var n int64
		err := rows.Scan(&terminal, &n)
		use(terminal, n)
		return err
	})
}

// manualEntry compares how many codes are typed. The case: a clerk in Minnesota uncovered
// the typed part of codes by scratches too fine to see, and looked tickets up by hand before
// selling the losers (2012); the manual entries gave him away. False alarms: a worn scanner,
// a dirty window, a batch with a bad print.
func (x *counting) manualEntry(ctx context.Context, tx *sql.Tx, looks map[string]int64) error {
	tallies := map[string]tally{}
	for terminal, n := range looks {
		tallies[terminal] = tally{0, n}
	}
	c := x.lookDays("day")
	c.and("entered = $%d", validate.Typed)
	err := x.each(ctx, tx, "SELECT terminal, CAST(sum(number) AS BIGINT) FROM looks"+c.where()+" GROUP BY terminal", c.args, func(terminal string, n int64) {
		tallies[terminal] = tally{n, tallies[terminal].tries}
	})
	if err != nil {
		return fmt.Errorf("looks: %w", err)
	}
	x.compare(ManualEntry, tallies, func(t tally, usual float64) string {
		return fmt.Sprintf("%s of the codes were typed, elsewhere %s", percent(float64(t.events)/float64(t.tries)), percent(usual))
	})
	return nil
}

func percent(share float64) string { return fmt.Sprintf("%.2f %%", 100*share) }

// sighted compares looks at tickets of the shop's own packs that are not on sale (pinning:
// Auburn in California, Nancy), and at tickets that are paid or stolen. False alarms: a pack
// put on sale late, a player who asks again and again.
func (x *counting) sighted(ctx context.Context, tx *sql.Tx, looks map[string]int64) error {
	unsold, taken := map[string]tally{}, map[string]tally{}
	for terminal, n := range looks {
		unsold[terminal], taken[terminal] = tally{0, n}, tally{0, n}
	}
	count := func(into map[string]tally) func(string, int64) {
		return func(terminal string, n int64) {
			into[terminal] = tally{into[terminal].events + n, into[terminal].tries}
		}
	}
	// Each ticket once a terminal: who looks at one ticket ten times has one ticket.
	c := x.seenDays()
	err := x.each(ctx, tx, `SELECT d.terminal, count(*) FROM (SELECT DISTINCT s.block_id, s.pack, s.ticket, s.terminal FROM sightings s JOIN packs p ON p.block_id = s.block_id AND p.pack = s.pack
		JOIN terminals t ON t.name = s.terminal JOIN terminals o ON o.name = p.owner`+
		c.where("s.reason IN ('pack-not-active', 'pack-returned')", "CASE WHEN t.shop = '' THEN t.name ELSE t.shop END = CASE WHEN o.shop = '' THEN o.name ELSE o.shop END")+") d GROUP BY d.terminal", c.args, count(unsold))
	if err != nil {
		return fmt.Errorf("sightings: %w", err)
	}
	c = x.seenDays()
	err = x.each(ctx, tx, "SELECT d.terminal, count(*) FROM (SELECT DISTINCT s.block_id, s.pack, s.ticket, s.terminal FROM sightings s"+
		c.where("s.reason IN ('already-paid-here', 'already-paid-elsewhere')")+") d GROUP BY d.terminal", c.args, count(taken))
	if err != nil {
		return fmt.Errorf("sightings: %w", err)
	}
	c = conditions{}
	c.ofDays(x.r.Filter, "s.tried")
	// The table has each ticket once a terminal.
	if err := x.each(ctx, tx, "SELECT s.terminal, count(*) FROM attempts s"+c.where("s.reason = 'pack-stolen'")+" GROUP BY s.terminal", c.args, count(taken)); err != nil {
		return fmt.Errorf("attempts: %w", err)
	}
	x.compare(UnsoldCheck, unsold, func(t tally, _ float64) string {
		return fmt.Sprintf("%d tickets of the shop's own packs were looked at before they were on sale, or after they went back", t.events)
	})
	x.compare(PaidOrStolen, taken, func(t tally, _ float64) string {
		return fmt.Sprintf("%d tickets that are paid or stolen were presented", t.events)
	})
	return nil
}

// seenDays are the filter's days on sightings, by the device's clock.
func (x *counting) seenDays() conditions {
	var c conditions
	c.ofDays(x.r.Filter, "s.seen")
	return c
}

// checkedElsewhere compares how many of the winners that were looked at here were paid at
// another shop later. The case: a clerk in Oregon told a winner of 25 000 dollars that it
// had lost, and claimed it a week later (2024). False alarms: a shop by a station.
func (x *counting) checkedElsewhere(ctx context.Context, tx *sql.Tx, _ map[string]int64) error {
	tallies := map[string]tally{}
	c := x.seenDays()
	const winners = "s.reason IN ('winner', 'above-shop-limit', 'needs-central', 'owner-silent')"
	err := x.each(ctx, tx, "SELECT d.terminal, count(*) FROM (SELECT DISTINCT s.block_id, s.pack, s.ticket, s.terminal FROM sightings s"+c.where(winners)+") d GROUP BY d.terminal", c.args, func(terminal string, n int64) {
		tallies[terminal] = tally{0, n}
	})
	if err != nil {
		return fmt.Errorf("sightings: %w", err)
	}
	c = x.seenDays()
	// The sum keeps SQLite from going over all sightings in their key's order, which is that of a DISTINCT without it.
	err = x.each(ctx, tx, `SELECT d.terminal, count(*) FROM (SELECT DISTINCT s.block_id, s.pack, s.ticket + 0, s.terminal FROM sightings s JOIN claims k ON k.block_id = s.block_id AND k.pack = s.pack AND k.ticket = s.ticket AND k.paid > s.seen
		JOIN terminals t ON t.name = s.terminal JOIN terminals o ON o.name = k.terminal`+
		c.where(winners, "CASE WHEN t.shop = '' THEN t.name ELSE t.shop END <> CASE WHEN o.shop = '' THEN o.name ELSE o.shop END")+") d GROUP BY d.terminal", c.args, func(terminal string, n int64) {
		tallies[terminal] = tally{n, tallies[terminal].tries}
	})
	if err != nil {
		return fmt.Errorf("sightings: %w", err)
	}
	x.compare(CheckedElsewhere, tallies, func(t tally, _ float64) string {
		return fmt.Sprintf("of %d winners looked at here, %d were paid at another shop later", t.tries, t.events)
	})
	return nil
}

// overpaid holds what was paid of each block against its table. More than the table has is
// impossible, so somebody forges; more than the tickets on sale explain (a Poisson test on
// each tier, whose prizes are spread over the block by chance) means that tickets are paid
// that were not sold. Demonstration blocks are left out: their few prizes are paid over and over.
func (x *counting) overpaid(ctx context.Context, tx *sql.Tx, _ map[string]int64) error {
	tables, err := readTiers(ctx, tx)
	if err != nil {
		return err
	}
	sums, err := readNet(ctx, tx, Filter{})
	if err != nil {
		return err
	}
	whole := &Report{Filter: Filter{}}
	stocks, err := whole.readStock(ctx, tx, x.blocks)
	if err != nil {
		return err
	}
	var list []finding
	var scores []float64
	tries := 0
	for id, table := range tables {
		b := x.blocks[id]
		if b.scaled || b.tickets == 0 {
			continue
		}
		out := float64(stocks[id].onSale+stocks[id].sold) / float64(b.tickets)
		for _, t := range table {
			paid := sums[tierKey{id, t.number}].tickets
			tries++
			expected := float64(t.tickets) * out
			y := finding{signal: BlockOverpaid, block: id, observed: paid, of: t.tickets, expected: expected,
				explained: fmt.Sprintf("tier %d: %d prizes paid, where the tickets out of the printer's store hold about %.1f", t.number, paid, expected)}
			if paid > t.tickets {
				y.score, y.explained = maxScore, fmt.Sprintf("tier %d: %d prizes paid, and the table has %d: stop the block", t.number, paid, t.tickets)
			} else {
				y.score = poissonScore(paid, expected)
			}
			list, scores = append(list, y), append(scores, y.score)
		}
	}
	x.keep(list, scores, tries)
	return nil
}

// middleMissing looks for terminals whose winners are small or referred, and hardly ever
// of the middle: what a clerk keeps who tells players that they lost is what is worth it
// and can still be paid at a counter. The share of middle prizes is that of the tables of
// the tickets themselves, so no other terminal's honesty is assumed. Binomial, lower side.
// The case: Ontario's insiders, 247 major prizes where about 57 were expected (CBC 2006).
func (x *counting) middleMissing(context.Context, *sql.Tx, map[string]int64) error {
	var list []finding
	var scores []float64
	tries := 0
	for terminal, s := range x.paid {
		if s.judged == 0 {
			continue
		}
		tries++
		expected := float64(s.expected) / 1e9
		if expected < fewest || float64(s.middle)*timesUsual > expected {
			continue
		}
		p := expected / float64(s.judged)
		v := binomialScore(s.judged-s.middle, s.judged, 1-p) // as few of the middle, or fewer
		scores = append(scores, v)
		list = append(list, finding{signal: MiddleMissing, terminal: terminal, observed: s.middle, of: s.judged, expected: expected, score: v,
			explained: fmt.Sprintf("of %d prizes paid, %d are of the middle; by the tables about %.1f would be", s.judged, s.middle, expected)})
	}
	x.keep(list, scores, tries)
	return nil
}

// paidSum is what a terminal paid, as central's sums count it: by night, and of the small
// and middle prizes those of the middle, and how many of these the tables expect, in 1e-9.
type paidSum struct{ claims, night, judged, middle, expected int64 }

// readPaid reads the sums of the filter's days, which are Paris's.
func (x *counting) readPaid(ctx context.Context, tx *sql.Tx) error {
	x.paid = map[string]paidSum{}
	table, c := "month_sums", x.lookDays("paid")
	if c.args != nil {
		table = "terminal_sums"
	}
	err := each(ctx, tx, "SELECT terminal, CAST(sum(claims) AS BIGINT), CAST(sum(night) AS BIGINT), CAST(sum(judged) AS BIGINT), CAST(sum(middle) AS BIGINT), CAST(sum(expected) AS BIGINT) FROM "+table+c.where()+" GROUP BY terminal", c.args, func(rows *sql.Rows) error {
		var terminal string
		var s paidSum
		err := rows.Scan(&terminal, &s.claims, &s.night, &s.judged, &s.middle, &s.expected)
		x.paid[terminal] = s
		return err
	})
	if err != nil {
		return fmt.Errorf("sums of the claims: %w", err)
	}
	return nil
}

// oddHours compares how many payments lie in the night, from central.NightBegins to
// NightEnds in Paris by the device's clock. False alarms: a shop that is open at night, a
// clock that is wrong (see the sync report's skew).
func (x *counting) oddHours(context.Context, *sql.Tx, map[string]int64) error {
	tallies := map[string]tally{}
	for terminal, s := range x.paid {
		tallies[terminal] = tally{s.night, s.claims}
	}
	x.compare(OddHours, tallies, func(t tally, usual float64) string {
		return fmt.Sprintf("%s of the payments lie between %d and %d h, elsewhere %s", percent(float64(t.events)/float64(t.tries)), central.NightBegins, central.NightEnds, percent(usual))
	})
	return nil
}

// cancelled compares payments that were asked to be taken back, and claims that central
// allowed and the terminal gave back, with all payments. The case: agents in Connecticut
// slowed their terminals, saw outcomes before the slip, and voided what lost (2015). False
// alarms: a printer that fails.
func (x *counting) cancelled(ctx context.Context, tx *sql.Tx, _ map[string]int64) error {
	tallies := map[string]tally{}
	for terminal, s := range x.paid {
		tallies[terminal] = tally{0, s.claims}
	}
	for _, q := range []struct{ query, at, state string }{
		{"SELECT terminal, count(*) FROM reversals", "asked", ""},
		{"SELECT terminal, count(*) FROM online_claims", "asked", string(wire.ClaimReturned)},
	} {
		var c conditions
		c.ofDays(x.r.Filter, q.at)
		if q.state != "" {
			c.and("state = $%d", q.state)
		}
		err := x.each(ctx, tx, q.query+c.where()+" GROUP BY terminal", c.args, func(terminal string, n int64) {
			t := tallies[terminal]
			if t.events += n; q.state != "" { // a claim given back is no payment yet
				t.tries += n
			}
			tallies[terminal] = t
		})
		if err != nil {
			return fmt.Errorf("cancelled claims: %w", err)
		}
	}
	x.compare(Cancelled, tallies, func(t tally, usual float64) string {
		return fmt.Sprintf("%s of the payments were taken or given back, elsewhere %s", percent(float64(t.events)/float64(t.tries)), percent(usual))
	})
	return nil
}
