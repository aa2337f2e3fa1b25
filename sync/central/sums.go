package central

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // a server without zone files still knows when a day begins in Paris

	"grattoir/sync/wire"
	"grattoir/validate"
)

// Sums of the accepted claims are kept beside them, and moved by whoever accepts a claim or
// its reversal, in the same transaction: reports read them with no lag and no doubt. They
// lie in five tables, one for each way in which reports add up; what a row is about is a
// sumKey, and a table takes the parts of it that its own key names. CountClaims makes them
// anew out of the claims, AuditSums holds the two against each other.

// sumSlots is over how many rows the terminals spread what they add to a block's sums.
const sumSlots = 32

// Limits that sums count by, and that reports explain.
const (
	NightBegins = 0    // hours in Paris, from
	NightEnds   = 5    // and to before
	MiddleFrom  = 5    // a middle prize is worth so many times the ticket's price or more
	MiddleMost  = 1000 // and at most so many times
)

// figures are what is added up, in the order of figureNames.
type figures [8]int64

// figureNames are the columns; tables of blocks have the first four alone.
func figureNames() []string {
	return []string{"claims", "amount_minor", "reversed", "reversed_minor", "night", "judged", "middle", "expected"}
}

// ofBlocks and ofTerminals are how many figures a table has.
const ofBlocks, ofTerminals = 4, 8

func (f figures) plus(g figures) figures {
	for i := range f {
		f[i] += g[i]
	}
	return f
}

// sumKey says what a sum is about. A table leaves empty what its key does not name.
type sumKey struct {
	block                    validate.BlockID
	tier, slot, scaled       int64
	terminal, currency       string
	received, paid, paidHour string // paidHour is no part of a key
}

// sumTable is one of the tables.
type sumTable struct {
	name    string
	keys    []string
	figures int
	span    int // bytes of a day that its key has: 7 are its month
}

// sumTables are in the order in which they are written, the same for all, so that two
// transactions never wait for each other.
func sumTables() []sumTable {
	return []sumTable{
		{"tier_sums", []string{"block_id", "tier", "slot"}, ofBlocks, 0},
		{"day_sums", []string{"block_id", "day", "currency", "slot"}, ofBlocks, 10},
		{"block_sums", []string{"block_id", "terminal", "currency"}, ofBlocks, 0},
		{"month_sums", []string{"received", "terminal", "paid", "scaled", "currency"}, ofTerminals, 7},
		{"terminal_sums", []string{"paid", "terminal", "received", "scaled", "currency"}, ofTerminals, 10},
	}
}

// of is the part of a key that the table has.
func (t sumTable) of(k sumKey) sumKey {
	var own sumKey
	for _, name := range t.keys {
		switch name {
		case "block_id":
			own.block = k.block
		case "tier":
			own.tier = k.tier
		case "slot":
			own.slot = k.slot
		case "scaled":
			own.scaled = k.scaled
		case "terminal":
			own.terminal = k.terminal
		case "currency":
			own.currency = k.currency
		case "received":
			own.received = k.received[:min(t.span, len(k.received))]
		case "paid", "day":
			own.paid = k.paid[:min(t.span, len(k.paid))]
		}
	}
	return own
}

// compare orders the rows of every table.
func (k sumKey) compare(o sumKey) int {
	return cmp.Or(slices.Compare(k.block[:], o.block[:]), cmp.Compare(k.paid, o.paid), cmp.Compare(k.terminal, o.terminal), cmp.Compare(k.received, o.received),
		cmp.Compare(k.tier, o.tier), cmp.Compare(k.scaled, o.scaled), cmp.Compare(k.currency, o.currency), cmp.Compare(k.slot, o.slot))
}

// text and number give a column of the key.
func (k *sumKey) text(name string) *string {
	switch name {
	case "terminal":
		return &k.terminal
	case "currency":
		return &k.currency
	case "received":
		return &k.received
	case "paid", "day":
		return &k.paid
	}
	return nil
}

func (k *sumKey) number(name string) *int64 {
	switch name {
	case "tier":
		return &k.tier
	case "slot":
		return &k.slot
	}
	return &k.scaled
}

// classes say what a block's prizes count as.
type classes struct {
	scaled int64 // 1 for a demonstration, -1 where the block is not known
	price  int64
	// share is how many of a block's low and middle prizes are middle ones, in 1e-9; -1
	// where its table does not tell, or the block is a demonstration.
	share int64
}

// classesOf reads a prize table: counts and amounts of its tiers.
func classesOf(scaled bool, price int64, tiers [][2]int64) classes {
	c := classes{price: price, share: -1}
	if scaled {
		c.scaled = 1
		return c
	}
	var low, middle int64
	for _, t := range tiers {
		switch {
		case t[1] < MiddleFrom*price:
			low += t[0]
		case t[1] <= MiddleMost*price:
			middle += t[0]
		}
	}
	if low+middle > 0 {
		c.share = int64(math.Round(float64(middle) / float64(low+middle) * 1e9))
	}
	return c
}

// figures are those of one claim.
func (c classes) figures(k sumKey, amount int64, reversed bool) figures {
	f := figures{1, amount}
	if reversed {
		f[2], f[3] = 1, amount
	}
	if k.paidHour != "" && k.paidHour[0] == '0' && k.paidHour[1] >= '0'+NightBegins && k.paidHour[1] < '0'+NightEnds {
		f[4] = 1
	}
	if c.share >= 0 && amount <= MiddleMost*c.price {
		f[5], f[7] = 1, c.share
		if amount >= MiddleFrom*c.price {
			f[6] = 1
		}
	}
	return f
}

// sums gathers what is to be added: by whole keys first, for claims of an upload have few.
type sums struct {
	zone  *time.Location
	whole map[sumKey]figures
	rows  [5]map[sumKey]figures // by the number of their table

	received, receivedDay string // the last one: it is the same for all claims of an upload
}

// newSums begins with nothing; zone is Paris.
func newSums(zone *time.Location) *sums {
	s := &sums{zone: zone, whole: map[sumKey]figures{}}
	for i := range s.rows {
		s.rows[i] = map[sumKey]figures{}
	}
	return s
}

// slotOf is a terminal's.
func slotOf(terminal string) int64 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(terminal))
	return int64(h.Sum32() % sumSlots)
}

// key is what a claim is added to; the times are stored ones.
func (s *sums) key(block validate.BlockID, tier int64, terminal, currency, paid, received string, c classes) sumKey {
	k := sumKey{block: block, tier: tier, slot: slotOf(terminal), scaled: c.scaled, terminal: terminal, currency: currency}
	if received != s.received {
		s.received = received
		s.receivedDay, _ = s.day(received)
	}
	k.received = s.receivedDay
	k.paid, k.paidHour = s.day(paid)
	return k
}

// day reads a stored time, "" where it is none.
func (s *sums) day(stored string) (day, hour string) {
	t, err := wire.ParseTime(stored)
	if err != nil || t.Year() < 0 || t.Year() > 9998 {
		return "", ""
	}
	text := t.In(s.zone).Format("2006-01-02 15")
	return text[:10], text[11:]
}

// add adds to the rows of a key.
func (s *sums) add(k sumKey, f figures) { s.whole[k] = s.whole[k].plus(f) }

// spread moves what was added to the rows of the tables.
func (s *sums) spread() {
	for i, t := range sumTables() {
		for k, f := range s.whole {
			own := t.of(k)
			s.rows[i][own] = s.rows[i][own].plus(f.first(t.figures))
		}
	}
	clear(s.whole)
}

// first leaves the first n figures.
func (f figures) first(n int) figures {
	clear(f[n:])
	return f
}

// batches are the rows as they are added to what the tables hold.
func (s *sums) batches(most int) (list []batch) {
	s.spread()
	for i, t := range sumTables() {
		keys := slices.SortedFunc(mapKeys(s.rows[i]), sumKey.compare)
		for run := range slices.Chunk(keys, most) {
			list = append(list, t.batch(run, s.rows[i]))
		}
	}
	return list
}

func mapKeys(m map[sumKey]figures) func(func(sumKey) bool) {
	return func(yield func(sumKey) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

func (t sumTable) batch(keys []sumKey, rows map[sumKey]figures) batch {
	b := batch{into: t.name}
	for _, name := range t.keys {
		b.each = append(b.each, column{name, keyColumn(name, keys)})
	}
	var moved []string
	for i, name := range figureNames()[:t.figures] {
		values := make([]int64, len(keys))
		for n, k := range keys {
			values[n] = rows[k][i]
		}
		b.each = append(b.each, column{name, values})
		moved = append(moved, name+" = "+t.name+"."+name+" + excluded."+name)
	}
	b.then = " ON CONFLICT(" + strings.Join(t.keys, ", ") + ") DO UPDATE SET " + strings.Join(moved, ", ")
	return b
}

func keyColumn(name string, keys []sumKey) any {
	if name == "block_id" {
		values := make([][]byte, len(keys))
		for i := range keys {
			values[i] = keys[i].block[:]
		}
		return values
	}
	if keys[0].text(name) != nil {
		values := make([]string, len(keys))
		for i := range keys {
			values[i] = *keys[i].text(name)
		}
		return values
	}
	values := make([]int64, len(keys))
	for i := range keys {
		values[i] = *keys[i].number(name)
	}
	return values
}

// sumCredited adds the claims that this upload made accepted ones. It comes as late as it
// can: rows of a slot are held until the end.
func (in *intake) sumCredited(ctx context.Context) error {
	if len(in.credited) == 0 {
		return nil
	}
	s := newSums(in.c.paris)
	known := map[validate.BlockID]classes{}
	for i := range in.credited {
		p := &in.credited[i].proof
		c, ok := known[p.claim.Block]
		if !ok {
			var tiers [][2]int64
			for _, t := range p.header.Tiers {
				tiers = append(tiers, [2]int64{t.Count, int64(t.Amount)})
			}
			c = classesOf(p.header.Scaled, int64(p.header.Price), tiers)
			known[p.claim.Block] = c
		}
		k := s.key(p.claim.Block, int64(p.claim.Tier), in.who.name, plain(p.claim.Currency), plain(p.at), in.now, c)
		s.add(k, c.figures(k, p.claim.AmountMinor, false))
	}
	return in.c.store.addRows(ctx, in.tx, s.batches(len(in.credited)))
}

// sumReversed adds that an accepted claim was taken back.
func (c *Central) sumReversed(ctx context.Context, tx *sql.Tx, r Reversal) error {
	var tier, amount int64
	var currency, paid, received string
	err := tx.QueryRowContext(ctx, "SELECT tier, amount_minor, currency, paid, received FROM claims WHERE block_id = $1 AND pack = $2 AND ticket = $3 AND round = $4",
		r.Block[:], r.Pack, r.Ticket, r.Round).Scan(&tier, &amount, &currency, &paid, &received)
	if err != nil {
		return err
	}
	known, err := readClasses(ctx, tx)
	if err != nil {
		return err
	}
	s := newSums(c.paris)
	s.add(s.key(r.Block, tier, r.Terminal, currency, paid, received, known.of(r.Block)), figures{2: 1, 3: amount})
	return c.store.addRows(ctx, tx, s.batches(1))
}

// blockClasses are those of all published blocks.
type blockClasses map[validate.BlockID]classes

func (b blockClasses) of(id validate.BlockID) classes {
	if c, ok := b[id]; ok {
		return c
	}
	return classes{scaled: -1, share: -1}
}

func readClasses(ctx context.Context, q querier) (blockClasses, error) {
	tables := map[validate.BlockID][][2]int64{}
	err := eachRow(ctx, q, "SELECT block_id, tickets, amount_minor FROM block_tiers ORDER BY block_id, tier", func(row scanner) error {
		var raw []byte
		var t [2]int64
		if err := row.Scan(&raw, &t[0], &t[1]); err != nil {
			return err
		}
		id, err := blockID(raw)
		tables[id] = append(tables[id], t)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("prize tables: %w", err)
	}
	known := blockClasses{}
	err = eachRow(ctx, q, "SELECT block_id, scaled, price_minor FROM blocks ORDER BY block_id, serial", func(row scanner) error {
		var raw []byte
		var scaled bool
		var price int64
		if err := row.Scan(&raw, &scaled, &price); err != nil {
			return err
		}
		id, err := blockID(raw)
		known[id] = classesOf(scaled, price, tables[id])
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("blocks: %w", err)
	}
	return known, nil
}

// countedAtOnce is of how many terminals the claims are added up in memory at one time.
const countedAtOnce = 2000

// count adds up all accepted claims, some terminals after others. Use gets the sums of some
// terminals; those over all of them come last, with the last ones.
func count(ctx context.Context, q querier, zone *time.Location, use func(*sums) error) error {
	known, err := readClasses(ctx, q)
	if err != nil {
		return err
	}
	s := newSums(zone)
	for after, last := "", false; !last; {
		var names []string
		err := eachRow(ctx, q, fmt.Sprintf("SELECT DISTINCT terminal FROM claims WHERE terminal > $1 ORDER BY terminal LIMIT %d", countedAtOnce), func(row scanner) error {
			names = append(names, "")
			return row.Scan(&names[len(names)-1])
		}, after)
		if err != nil {
			return fmt.Errorf("terminals: %w", err)
		}
		if last = len(names) < countedAtOnce; len(names) > 0 {
			if err := countSome(ctx, q, s, known, names[0], names[len(names)-1]); err != nil {
				return fmt.Errorf("claims: %w", err)
			}
			after = names[len(names)-1]
		}
		s.spread()
		whole := s.rows
		if !last { // what is of all terminals waits
			s.rows[0], s.rows[1] = nil, nil
		}
		if err := use(s); err != nil {
			return err
		}
		s.rows = [5]map[sumKey]figures{whole[0], whole[1], {}, {}, {}}
	}
	return nil
}

// countSome adds up the claims of terminals from one to another.
func countSome(ctx context.Context, q querier, s *sums, known blockClasses, from, to string) error {
	return eachRow(ctx, q, `SELECT c.block_id, c.tier, c.terminal, c.currency, c.amount_minor, c.paid, c.received, CASE WHEN r.state IS NULL THEN 0 ELSE 1 END FROM claims c
		LEFT JOIN reversals r ON r.block_id = c.block_id AND r.pack = c.pack AND r.ticket = c.ticket AND r.round = c.round AND r.terminal = c.terminal AND r.state = 'accepted'
		WHERE c.terminal >= $1 AND c.terminal <= $2`, func(row scanner) error {
		var raw []byte
		var tier, amount int64
		var terminal, currency, paid, received string
		var reversed bool
		if err := row.Scan(&raw, &tier, &terminal, &currency, &amount, &paid, &received, &reversed); err != nil {
			return err
		}
		id, err := blockID(raw)
		if err != nil {
			return err
		}
		c := known.of(id)
		k := s.key(id, tier, terminal, currency, paid, received, c)
		s.add(k, c.figures(k, amount, reversed))
		return nil
	}, from, to)
}

// rowsCounted bounds the rows of a statement when all claims are counted.
const rowsCounted = 2000

// CountClaims makes the sums anew out of the claims, in one transaction.
func (c *Central) CountClaims(ctx context.Context) error {
	return c.store.change(ctx, func(ctx context.Context, tx *sql.Tx) error { return c.countAgain(ctx, tx) })
}

func (c *Central) countAgain(ctx context.Context, tx *sql.Tx) error {
	if _, err := hold(ctx, tx, claimsCounted); err != nil {
		return err
	}
	for _, t := range sumTables() {
		if _, err := tx.ExecContext(ctx, "DELETE FROM "+t.name); err != nil {
			return err
		}
	}
	err := count(ctx, tx, c.paris, func(x *sums) error {
		for _, b := range x.batches(rowsCounted) {
			if err := writeAll(ctx, c.store, tx, b); err != nil {
				return fmt.Errorf("%s: %w", b.into, err)
			}
		}
		return nil
	})
	if err == nil {
		_, err = tx.ExecContext(ctx, "UPDATE counters SET value = 1 WHERE name = $1", claimsCounted)
	}
	if err != nil {
		return fmt.Errorf("sums of the claims: %w", err)
	}
	return nil
}

// countOnce makes the sums of claims that are older than the sums are.
func (c *Central) countOnce(ctx context.Context) error {
	var counted int64
	err := c.store.reader().QueryRowContext(ctx, "SELECT value FROM counters WHERE name = $1", claimsCounted).Scan(&counted)
	if err == nil && counted == 1 {
		return nil
	}
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	return c.store.change(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, "INSERT INTO counters(name, value) VALUES($1, 0) ON CONFLICT(name) DO NOTHING", claimsCounted); err != nil {
			return err
		}
		if n, err := hold(ctx, tx, claimsCounted); err != nil || n == 1 { // another process did it
			return err
		}
		return c.countAgain(ctx, tx)
	})
}

// SumDifference is a kept sum that is not what the claims come to.
type SumDifference struct {
	Table   string `json:"table"`
	About   string `json:"about"`
	Kept    string `json:"kept"`
	Counted string `json:"counted"`
}

// SumAudit is what AuditSums found.
type SumAudit struct {
	Claims int64 `json:"claims"`
	Sums   int64 `json:"sums"` // rows that were held against the claims
	// Wrong is how many are not what the claims come to; Differences are the first of them.
	Wrong       int64           `json:"wrong"`
	Differences []SumDifference `json:"differences"`
}

// maxDifferences bounds those that an audit names.
const maxDifferences = 20

// AuditSums counts every accepted claim and holds the kept sums against them, in one state
// of the store. It changes nothing.
func (c *Central) AuditSums(ctx context.Context) (SumAudit, error) {
	a := SumAudit{Differences: []SumDifference{}}
	tx, err := c.store.reader().BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
	if err != nil {
		return a, err
	}
	defer func() { _ = tx.Rollback() }() // nothing was written
	after := ""
	err = count(ctx, tx, c.paris, func(s *sums) error {
		last := s.rows[0] != nil
		to := after
		for k, f := range s.rows[2] {
			to = max(to, k.terminal)
			a.Claims += f[0]
		}
		for i, t := range sumTables() {
			if s.rows[i] == nil {
				continue
			}
			if err := a.hold(ctx, tx, t, s.rows[i], after, to, last); err != nil {
				return fmt.Errorf("%s: %w", t.name, err)
			}
		}
		after = to
		return nil
	})
	if err != nil {
		return a, fmt.Errorf("audit of the sums: %w", err)
	}
	return a, nil
}

// hold compares a table's rows, of terminals behind one up to another, with what was
// counted. The last time all terminals behind are compared.
func (a *SumAudit) hold(ctx context.Context, q querier, t sumTable, want map[sumKey]figures, after, to string, last bool) error {
	where, args := "", []any{}
	if slices.Contains(t.keys, "terminal") {
		where, args = " WHERE terminal > $1", []any{after}
		if !last {
			where, args = where+" AND terminal <= $2", append(args, to)
		}
	}
	seen := 0
	err := eachRow(ctx, q, "SELECT "+strings.Join(slices.Concat(t.keys, figureNames()[:t.figures]), ", ")+" FROM "+t.name+where, func(row scanner) error {
		k, kept, err := t.scan(row)
		if err != nil {
			return err
		}
		a.Sums++
		counted, ok := want[k]
		if ok {
			seen++
		}
		if kept != counted {
			a.differ(t, k, kept, counted)
		}
		delete(want, k)
		return nil
	}, args...)
	for k, counted := range want {
		a.differ(t, k, figures{}, counted)
	}
	return err
}

func (a *SumAudit) differ(t sumTable, k sumKey, kept, counted figures) {
	if a.Wrong++; len(a.Differences) == maxDifferences {
		return
	}
	var about []string
	for _, name := range t.keys {
		switch {
		case name == "block_id":
			about = append(about, k.block.String())
		case k.text(name) != nil:
			about = append(about, name+" "+*k.text(name))
		default:
			about = append(about, fmt.Sprintf("%s %d", name, *k.number(name)))
		}
	}
	a.Differences = append(a.Differences, SumDifference{t.name, strings.Join(about, ", "), fmt.Sprint(kept[:t.figures]), fmt.Sprint(counted[:t.figures])})
}

// scan reads a row of the table.
func (t sumTable) scan(row scanner) (k sumKey, f figures, err error) {
	var raw []byte
	var into []any
	for _, name := range t.keys {
		switch {
		case name == "block_id":
			into = append(into, &raw)
		case k.text(name) != nil:
			into = append(into, k.text(name))
		default:
			into = append(into, k.number(name))
		}
	}
	for i := range t.figures {
		into = append(into, &f[i])
	}
	if err = row.Scan(into...); err == nil && raw != nil {
		k.block, err = blockID(raw)
	}
	return k, f, err
}
