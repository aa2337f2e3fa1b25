package report

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"grattoir/sync/ledger"
	"grattoir/sync/wire"
	"grattoir/validate"
	"grattoir/validate/policy"
)

// A fleet of a seed: 500 terminals over 90 days, with every fault, as rows of central's
// tables. What it holds is kept here too, so that a test can add it up by itself.

const (
	fleetTerminals = 500
	fleetDays      = 90
)

var fleetNow = time.Date(2026, 11, 28, 11, 3, 4, 0, time.UTC)

// fleetPlan says what a fleet is like.
type fleetPlan struct {
	seed   uint64
	claims int               // a terminal, on average
	cheats map[string]string // what a terminal does, by its name
	varied bool              // honest shops differ: worn scanners, open at night, by a station
}

type fleetTerminal struct {
	name, shop, region string
	state, contact     string
	unsent             int64
	claims             int // how much it pays
}

type fleetBlock struct {
	id       validate.BlockID
	game     string
	number   int64
	emission string
	currency string
	price    int64
	tickets  int64
	size     int64
	scaled   int
	tiers    []tier
}

type fleetPack struct {
	block      int
	pack       int64
	owner      int
	state      validate.PackState
	was        validate.PackState
	activated  time.Time
	settled    time.Time // zero for never
	unsoldRuns []run     // returned or stolen
	runStates  []validate.PackState
}

type fleetClaim struct {
	block          int
	pack, ticket   int64
	terminal       int
	tier           int
	amount         int64
	paid, received time.Time
	entered        validate.Entered
	reversal       string // state, "" for none
	decided        time.Time
}

type fleetConflict struct {
	terminal int
	block    int
	claim    int // of the accepted claims
	amount   int64
	kind     wire.ExceptionKind
	received time.Time
	liable   string // "" while it is open
	settled  time.Time
}

// madeFleet is all that a seed makes.
type madeFleet struct {
	plan      fleetPlan
	rnd       *rand.Rand
	terminals []fleetTerminal
	blocks    []fleetBlock
	packs     []fleetPack
	claims    []fleetClaim
	conflicts []fleetConflict
	policies  []policy.Policy
}

func makeFleet(plan fleetPlan) *madeFleet {
	f := &madeFleet{plan: plan, rnd: rand.New(rand.NewPCG(plan.seed, 1))}
	f.makeTerminals()
	f.makeBlocks()
	f.makePacks()
	f.makeClaims()
	f.makeConflicts()
	f.policies = []policy.Policy{fleetPolicy("2026-1", policy.Date{Year: 2026, Month: time.August, Day: 1}, 500, 100), fleetPolicy("2026-2", policy.Date{Year: 2026, Month: time.October, Day: 16}, 525, 125)}
	return f
}

func fleetPolicy(version string, from policy.Date, sale, paid int) policy.Policy {
	return policy.Policy{Version: version, ValidFrom: from, Currency: "EUR", ShopLimit: 30000, ClaimDays: 30, CommissionSale: sale, CommissionPaid: paid}
}

func (f *madeFleet) between(low, high int) int { return low + f.rnd.IntN(high-low+1) }

func (f *madeFleet) chance(p float64) bool { return f.rnd.Float64() < p }

// ago is a moment of the fleet's days, in opening hours in Paris.
func (f *madeFleet) ago(days int) time.Time {
	day := fleetNow.AddDate(0, 0, -days)
	return time.Date(day.Year(), day.Month(), day.Day(), f.between(6, 17), f.between(0, 59), f.between(0, 59), f.between(0, 999)*1e6, time.UTC)
}

func (f *madeFleet) makeTerminals() {
	regions := []string{"bzh", "idf", "cor", "naq", ""}
	for i := range fleetTerminals {
		t := fleetTerminal{name: fmt.Sprintf("t-%04d", i), region: regions[i%len(regions)], state: "enrolled", claims: f.between(f.plan.claims/2, f.plan.claims*3/2)}
		if i%10 == 9 { // the second till of the shop before, in its region
			f.terminals[i-1].shop, t.shop, t.region = fmt.Sprintf("tabac-%03d", i/10), fmt.Sprintf("tabac-%03d", i/10), f.terminals[i-1].region
		}
		contact := fleetNow.Add(-time.Duration(f.between(1, 500)) * time.Second)
		switch {
		case i%97 == 5:
			t.state, t.claims = "never-seen", 0
		case i%61 == 7:
			t.state = "suspended"
		case i%23 == 3:
			contact, t.unsent = fleetNow.Add(-time.Duration(f.between(25, 2000))*time.Hour), int64(f.between(0, 30))
		case i%11 == 4:
			contact, t.unsent = fleetNow.Add(-time.Duration(f.between(11, 1200))*time.Minute), int64(f.between(0, 12))
		case i%7 == 2:
			t.unsent = int64(f.between(1, 5))
		}
		if t.state != "never-seen" {
			t.contact = wire.FormatTime(contact)
		}
		if f.plan.cheats[t.name] != "" {
			t.claims = 160
		}
		if f.plan.cheats[t.name] == MiddleMissing {
			t.claims = 320
		}
		f.terminals = append(f.terminals, t)
	}
}

func (f *madeFleet) makeBlocks() {
	table := []tier{{1, 1, 10_000_00}, {2, 20, 500_00}, {3, 400, 20_00}, {4, 2000, 10_00}, {5, 24000, 2_00}}
	for i, b := range []fleetBlock{
		{game: "bingo", emission: "1", number: 1, currency: "EUR", price: 200, tickets: 149_990, size: 50, tiers: table},
		{game: "bingo", emission: "1", number: 2, currency: "EUR", price: 200, tickets: 150_000, size: 50, tiers: table},
		{game: "crossingo", emission: "7", number: 1, currency: "EUR", price: 300, tickets: 120_000, size: 60, tiers: table},
		{game: "francs", emission: "1", number: 1, currency: "XPF", price: 300, tickets: 60_000, size: 50, tiers: []tier{{1, 2, 1_000_000}, {2, 3000, 2_000}, {3, 9000, 600}}},
		{game: "demo", emission: "1", number: 1, currency: "EUR", price: 200, tickets: 20_000, size: 50, scaled: 1, tiers: []tier{{1, 1, 10_000_00}, {2, 4000, 2_00}}},
	} {
		b.id = validate.BlockID{0: 0xb1, 15: byte(i + 1)}
		f.blocks = append(f.blocks, b)
	}
}

// makePacks gives each terminal packs; the first of them lie in its hands for long.
func (f *madeFleet) makePacks() {
	next := make([]int64, len(f.blocks))
	give := func(owner, block int) {
		p := fleetPack{block: block, pack: next[block], owner: owner, state: validate.PackDelivered}
		next[block]++
		sold := f.ago(f.between(1, fleetDays-1))
		switch n := f.between(0, 99); {
		case n < 55:
			p.state, p.activated, p.settled = validate.PackSettled, sold.AddDate(0, 0, -20), sold
		case n < 85:
			p.state, p.activated = validate.PackActive, sold
		case n < 87:
			p.state = validate.PackReturn
		case n < 89:
			p.state, p.was = validate.PackStolenNow, validate.PackDelivered
		case n < 91: // sold, and reported stolen afterwards: its sale stands
			p.state, p.was, p.activated, p.settled = validate.PackStolenNow, validate.PackSettled, sold.AddDate(0, 0, -20), sold
		}
		if p.state == validate.PackSettled && f.chance(0.05) { // tickets 40 to 49 came back, some of them stolen too
			p.unsoldRuns, p.runStates = []run{{40, 44}, {44, 47}}, []validate.PackState{validate.PackReturn, validate.PackStolenNow}
		}
		f.packs = append(f.packs, p)
	}
	for i := range f.terminals {
		for range f.between(3, 6) {
			give(i, f.between(0, 2))
		}
		if f.plan.cheats[f.terminals[i].name] == MiddleMissing { // with less, chance explains it
			for range 8 {
				give(i, f.between(0, 2))
			}
		}
		if f.plan.cheats[f.terminals[i].name] == UnsoldCheck {
			f.packs[len(f.packs)-1] = fleetPack{block: f.packs[len(f.packs)-1].block, pack: f.packs[len(f.packs)-1].pack, owner: i, state: validate.PackDelivered}
		}
		if i%25 == 6 {
			give(i, 3)
			give(i, 4)
		}
	}
	// The last pack of the first block has 40 tickets, not 50.
	f.packs = append(f.packs, fleetPack{block: 0, pack: (f.blocks[0].tickets+49)/50 - 1, owner: 0, state: validate.PackSettled, activated: f.ago(60), settled: f.ago(30)})
}

// tierOf draws a prize as the block's table has them.
func (f *madeFleet) tierOf(b fleetBlock) tier {
	var all int64
	for _, t := range b.tiers[1:] { // a top prize is not paid at a counter
		all += t.tickets
	}
	n := f.rnd.Int64N(all)
	for _, t := range b.tiers[1:] {
		if n -= t.tickets; n < 0 {
			return t
		}
	}
	return b.tiers[len(b.tiers)-1]
}

func (f *madeFleet) makeClaims() {
	own := map[int][]int{}
	for i, p := range f.packs {
		if (p.state == validate.PackActive || p.state == validate.PackSettled) && p.unsoldRuns == nil {
			own[p.owner] = append(own[p.owner], i)
		}
	}
	taken := map[[3]int64]bool{}
	for i, t := range f.terminals {
		for range t.claims {
			packs := own[i]
			if f.chance(0.05) || len(packs) == 0 { // of another shop's pack
				packs = own[f.between(0, len(f.terminals)-1)]
			}
			if len(packs) == 0 {
				continue
			}
			p := f.packs[packs[f.between(0, len(packs)-1)]]
			b := f.blocks[p.block]
			ticket := f.rnd.Int64N(min(b.size, 40))
			if k := [3]int64{int64(p.block), p.pack, ticket}; taken[k] {
				continue
			} else {
				taken[k] = true
			}
			win := f.tierOf(b)
			if f.plan.cheats[t.name] == MiddleMissing {
				win = b.tiers[len(b.tiers)-1]
			}
			c := fleetClaim{block: p.block, pack: p.pack, ticket: ticket, terminal: i, tier: int(win.number), amount: win.amount, paid: f.ago(f.between(0, fleetDays-1)), entered: validate.Scanned}
			night := 0.004
			if f.plan.varied && i%83 == 14 {
				night = 0.02
			}
			if f.chance(night) || f.plan.cheats[t.name] == OddHours && f.chance(0.15) {
				c.paid = time.Date(c.paid.Year(), c.paid.Month(), c.paid.Day(), 1, c.paid.Minute(), c.paid.Second(), 0, time.UTC)
			}
			if c.paid.After(fleetNow) {
				c.paid = fleetNow.Add(-time.Minute)
			}
			c.received = c.paid.Add(time.Duration(f.between(1, 600)) * time.Second)
			if f.chance(0.02) { // a shop that was away
				c.received = c.paid.Add(time.Duration(f.between(1, 20)*24) * time.Hour)
			}
			if c.received.After(fleetNow) {
				c.received = fleetNow.Add(-time.Second)
			}
			if f.chance(0.03) {
				c.entered = validate.Typed
			}
			if f.chance(0.01) || f.plan.cheats[t.name] == Cancelled && f.chance(0.2) {
				c.reversal = []string{"accepted", "accepted", "refused", "requested"}[f.between(0, 3)]
				if c.reversal != "requested" {
					c.decided = c.received.Add(time.Duration(f.between(1, 40)) * time.Hour)
				}
				if c.decided.After(fleetNow) {
					c.reversal, c.decided = "requested", time.Time{}
				}
			}
			f.claims = append(f.claims, c)
		}
	}
}

func (f *madeFleet) makeConflicts() {
	for range len(f.claims) / 120 {
		n := f.between(0, len(f.claims)-1)
		c := f.claims[n]
		x := fleetConflict{terminal: f.between(0, len(f.terminals)-1), block: c.block, claim: n, amount: c.amount, kind: wire.DoubleClaim, received: c.received.Add(time.Hour)}
		if x.terminal == c.terminal || f.blocks[c.block].scaled == 1 {
			continue
		}
		switch f.between(0, 4) {
		case 0:
			x.liable = "lottery"
		case 1:
			x.liable = "shop"
		case 2:
			x.liable = "printer"
		}
		if x.received.After(fleetNow) {
			x.received = fleetNow
		}
		if x.settled = x.received.Add(30 * time.Hour); x.liable == "" || x.settled.After(fleetNow) {
			x.liable, x.settled = "", time.Time{}
		}
		f.conflicts = append(f.conflicts, x)
	}
}

// fill writes the fleet into a store's tables, many rows a statement.
func (f *madeFleet) fill(t *testing.T, s *store) {
	t.Helper()
	f.rnd = rand.New(rand.NewPCG(f.plan.seed, 2)) // the same rows in every store
	b := &bulk{t: t}
	f.rowsOfTerminals(b)
	f.rowsOfBlocks(b)
	f.rowsOfClaims(b)
	f.rowsOfLooks(b)
	b.into(s.db)
	s.count()
}

// bulk gathers rows and writes them in one transaction.
type bulk struct {
	t      *testing.T
	tables []string
	rows   map[string][][]any
}

// add adds a row; table names the table with its columns.
func (b *bulk) add(table string, values ...any) {
	if b.rows == nil {
		b.rows = map[string][][]any{}
	}
	if b.rows[table] == nil {
		b.tables = append(b.tables, table)
	}
	b.rows[table] = append(b.rows[table], values)
}

func (b *bulk) into(db *sql.DB) {
	b.t.Helper()
	tx, err := db.BeginTx(b.t.Context(), nil)
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	for _, table := range b.tables {
		if err := insertMany(b.t.Context(), tx, table, b.rows[table]); err != nil {
			b.t.Fatalf("%s: %v", table, err)
		}
	}
	if err := tx.Commit(); err != nil {
		b.t.Fatal(err)
	}
}

// insertMany writes rows in whole statements of one size, prepared once, and a last one.
func insertMany(ctx context.Context, tx *sql.Tx, table string, rows [][]any) error {
	const most = 3000 // values in a statement
	at := max(1, most/len(rows[0]))
	var prepared *sql.Stmt
	for len(rows) > 0 {
		n := min(at, len(rows))
		var text strings.Builder
		args := make([]any, 0, n*len(rows[0]))
		text.WriteString("INSERT INTO " + table + " VALUES")
		for i, row := range rows[:n] {
			text.WriteString([]string{", (", "("}[min(1, max(0, 1-i))])
			for k, v := range row {
				args = append(args, v)
				fmt.Fprintf(&text, "%s$%d", []string{"", ", "}[min(1, k)], len(args))
			}
			text.WriteString(")")
		}
		var err error
		switch {
		case n < at:
			_, err = tx.ExecContext(ctx, text.String(), args...)
		case prepared == nil:
			if prepared, err = tx.PrepareContext(ctx, text.String()); err == nil {
				defer prepared.Close()
				_, err = prepared.ExecContext(ctx, args...)
			}
		default:
			_, err = prepared.ExecContext(ctx, args...)
		}
		if err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}

func stored(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return wire.FormatTime(t)
}

func (f *madeFleet) rowsOfTerminals(b *bulk) {
	for i, t := range f.terminals {
		program, faults, skew := "terminald 0.9", "[]", any(int64(f.between(-900, 900)))
		if t.contact == "" {
			program, skew = "", nil
		}
		if i%31 == 8 {
			faults = `["P2"]`
		}
		b.add("terminals(name, state, reason, added, contact, program, head_seq, ack_hash, ack_seq, snapshot, feed, unsent, skew_ms, disk_free, faults, region, shop, cert_expires)",
			t.name, t.state, map[string]string{"suspended": "card copied"}[t.state], stored(fleetNow.AddDate(0, 0, -fleetDays)), t.contact, program, int64(t.claims)+t.unsent, strings.Repeat("0", 64),
			int64(t.claims), int64(f.between(3, 4)), int64(f.between(8, 10)), t.unsent, skew, int64(f.between(1, 9))*1e9, faults, t.region, t.shop, stored(fleetNow.AddDate(0, 0, 40)))
		if t.contact == "" {
			continue
		}
		for n := range f.between(1, 3) {
			began := f.ago(f.between(2+20*n, 12+20*n))
			b.add("outages(terminal, code, began, ended, cause)", t.name, "no-contact", stored(began), stored(began.Add(time.Duration(f.between(10, 3000))*time.Minute)), []string{"link", "stopped", ""}[f.between(0, 2)])
		}
		if faults != "[]" {
			b.add("outages(terminal, code, began, ended, cause)", t.name, "P2", stored(f.ago(3)), "", "")
		}
	}
	for n := range int64(4) {
		b.add("snapshots(version, issued, note)", n+1, stored(fleetNow.AddDate(0, 0, int(10*n)-50)), "")
	}
	for n := range int64(10) {
		b.add("feed(seq, kind, audience, item, at)", n+1, "pack", map[bool]string{true: "t-0001"}[n == 7], "{}", stored(fleetNow.AddDate(0, 0, int(5*n)-50)))
	}
	for _, p := range f.policies {
		b.add("policies(sha256, version, valid_from, valid_to, signed, operator, published)", p.Version, p.Version, p.ValidFrom.String(), "", p.Text()+"\n— test sig\n", "anne", stored(fleetNow.AddDate(0, 0, -fleetDays)))
	}
}

func (f *madeFleet) rowsOfBlocks(b *bulk) {
	for i, k := range f.blocks {
		sum := sha256.Sum256(k.id[:])
		b.add("blocks(block_id, serial, sha256, size, game, name, emission, number, game_code, tickets, first_pack, last_pack, pack_size, price_minor, currency, scaled, min_reader, published)",
			k.id[:], int64(1), hex.EncodeToString(sum[:]), int64(1), k.game, k.game, k.emission, k.number, fmt.Sprintf("%05d", 400+i), k.tickets, int64(0), (k.tickets+k.size-1)/k.size-1, k.size, k.price, k.currency,
			int64(k.scaled), int64(1), stored(fleetNow.AddDate(0, 0, -fleetDays)))
		for _, t := range k.tiers {
			b.add("block_tiers(block_id, tier, tickets, amount_minor)", k.id[:], t.number, t.tickets, t.amount)
		}
	}
	b.add("emission_closings(game, emission, closed, claim_days, entered)", "francs", "1", "2026-10-01", int64(30), stored(fleetNow))
	b.add("emission_closings(game, emission, closed, claim_days, entered)", "crossingo", "7", "2026-11-20", int64(30), stored(fleetNow))
	for _, p := range f.packs {
		id := f.blocks[p.block].id
		b.add("packs(block_id, pack, game_code, state, owner, epoch, changed, activated, settled, settled_by, was)", id[:], p.pack, fmt.Sprintf("%05d", 400+p.block), string(p.state), f.terminals[p.owner].name,
			int64(1), stored(fleetNow), stored(p.activated), stored(p.settled), "", string(p.was))
		for i, r := range p.unsoldRuns {
			b.add("pack_tickets(block_id, pack, state, first, last, changed)", id[:], p.pack, string(p.runStates[i]), r.first, r.last, stored(fleetNow))
		}
	}
}

func (f *madeFleet) rowsOfClaims(b *bulk) {
	for n, c := range f.claims {
		id, t := f.blocks[c.block].id, f.terminals[c.terminal].name
		name, seq := fmt.Sprintf("%032x", n+1), int64(n+1)
		b.add("claims(block_id, pack, ticket, round, claim, terminal, epoch, seq, tier, amount_minor, currency, operator, paid, received, entered)", id[:], c.pack, c.ticket, int64(0), name, t, int64(1), seq,
			int64(c.tier), c.amount, f.blocks[c.block].currency, "op", stored(c.paid), stored(c.received), string(c.entered))
		if c.reversal != "" {
			b.add("reversals(block_id, pack, ticket, round, terminal, reversal, claim, claim_epoch, claim_seq, epoch, seq, amount_minor, currency, reason, text, operator, manager, asked, received, state, answer, decided)",
				id[:], c.pack, c.ticket, int64(0), t, name, name, int64(1), seq, int64(1), seq+1_000_000, c.amount, f.blocks[c.block].currency, "mistake", "=cmd", "op", "boss", stored(c.paid), stored(c.received), c.reversal, "", stored(c.decided))
		}
	}
	for n, x := range f.conflicts {
		c := f.claims[x.claim]
		id, t, seq := f.blocks[x.block].id, f.terminals[x.terminal].name, int64(2_000_000+n)
		line, err := json.Marshal(ledger.Entry{Version: ledger.EntryVersion, Terminal: t, Epoch: 1, Seq: seq, Time: stored(x.received.Add(-time.Minute)), Kind: ledger.KindClaim, Body: json.RawMessage("{}")})
		if err != nil {
			b.t.Fatal(err)
		}
		b.add("conflicts(terminal, epoch, seq, kind, text, block_id, pack, ticket, round, amount_minor, currency, line, received)", t, int64(1), seq, string(x.kind), "paid twice", id[:], c.pack, c.ticket, int64(0), x.amount, "", line, stored(x.received))
		if x.liable != "" {
			b.add("conflict_acts(terminal, epoch, seq, number, state, liable, note, operator, at)", t, int64(1), seq, int64(1), "inquiry", "", "", "anne", stored(x.received))
			b.add("conflict_acts(terminal, epoch, seq, number, state, liable, note, operator, at)", t, int64(1), seq, int64(2), "settled", x.liable, "l'enquête; est \"close\"", "anne", stored(x.settled))
		}
	}
}

// rowsOfLooks tells what counters were asked: most of it about losers.
func (f *madeFleet) rowsOfLooks(b *bulk) {
	foreign := 0
	for i, t := range f.terminals {
		if t.contact == "" {
			continue
		}
		cheat, number := f.plan.cheats[t.name], int64(0)
		sight := func(c fleetClaim, pack int64, reason validate.Reason, at time.Time) {
			number++
			id := f.blocks[c.block].id
			b.add("sightings(block_id, pack, ticket, terminal, number, reason, entered, operator, seen, received)", id[:], pack, c.ticket, t.name, number, string(reason), "scan", "op", stored(at), stored(at.Add(time.Minute)))
		}
		for day := 0; day < fleetDays; day += 10 {
			d := policy.DateOf(fleetNow.AddDate(0, 0, -day)).String()
			losers, typed := int64(f.between(20, 60)), int64(f.between(0, 3))
			if f.plan.varied && i%50 == 12 {
				typed += int64(f.between(1, 4))
			}
			if cheat == ManualEntry {
				typed += int64(f.between(6, 12))
			}
			b.add("looks(terminal, day, reason, entered, number)", t.name, d, string(validate.NotAWinner), "scan", losers)
			b.add("looks(terminal, day, reason, entered, number)", t.name, d, string(validate.Winner), "scan", losers/4+1)
			if typed > 0 {
				b.add("looks(terminal, day, reason, entered, number)", t.name, d, string(validate.NotAWinner), "typed", typed)
			}
		}
		for range f.between(0, 2) {
			sight(fleetClaim{ticket: int64(f.between(0, 39))}, int64(f.between(0, 40)), validate.AlreadyPaidHere, f.ago(f.between(1, 80)))
		}
		if cheat == PaidOrStolen {
			for n := range 25 {
				at := f.ago(n + 1)
				id := f.blocks[0].id
				b.add("attempts(block_id, pack, ticket, reason, terminal, epoch, seq, failed, operator, entered, tried, received)", id[:], 50+n, n, string(validate.PackStolen), t.name, 1, 1000+n, 0, "op", "scan", stored(at), stored(at.Add(time.Minute)))
			}
		}
		if cheat == UnsoldCheck {
			for _, p := range f.packs {
				if p.owner == i && p.state == validate.PackDelivered {
					for n := range int64(20) {
						sight(fleetClaim{block: p.block, ticket: n}, p.pack, validate.PackNotActive, f.ago(int(n)+1))
					}
				}
			}
		}
		if f.chance(0.02) {
			b.add("online_claims(block_id, pack, ticket, round, claim, terminal, tier, amount_minor, currency, state, why, asked)", f.blocks[0].id[:], int64(9000+foreign), int64(1), int64(0), fmt.Sprintf("%032x", foreign), t.name,
				int64(5), int64(200), "EUR", "denied", "paid", stored(f.ago(5)))
			foreign++
		}
	}
	f.sightWinners(b)
}

// sightWinners: most winners are paid where they are looked at, a few elsewhere.
func (f *madeFleet) sightWinners(b *bulk) {
	stolen := map[int]bool{}
	for i, t := range f.terminals {
		stolen[i] = f.plan.cheats[t.name] == CheckedElsewhere
	}
	number := int64(1_000_000)
	for _, c := range f.claims {
		if !f.chance(0.3) {
			continue
		}
		id, at := f.blocks[c.block].id, c.terminal
		if f.chance(0.02) {
			at = f.between(0, len(f.terminals)-1)
			if f.plan.varied && f.chance(0.05) {
				at = 444 // many players look here and go on
			}
		}
		for i := range f.terminals { // a cheat is told of many winners that others pay
			if stolen[i] && f.rnd.IntN(100) == 0 {
				at = i
			}
		}
		if f.terminals[at].contact == "" {
			continue
		}
		number++
		b.add("sightings(block_id, pack, ticket, terminal, number, reason, entered, operator, seen, received)", id[:], c.pack, c.ticket, f.terminals[at].name, number, string(validate.Winner), "scan", "op",
			stored(c.paid.Add(-time.Minute)), stored(c.received))
	}
}
