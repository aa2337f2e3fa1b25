package report

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"grattoir/sync/ledger"
	"grattoir/sync/wire"
	"grattoir/validate"
)

// Troubles that a fleet can be filtered by. A terminal can have several of them.
const (
	TroubleUnsent  = "unsent"  // told of entries that it has still to send
	TroubleFaults  = "faults"  // told of a fault
	TroubleBehind  = "behind"  // its publication is older than the newest
	TroubleStopped = "stopped" // must not pay: a person stopped it, or has to look first
)

// Troubles lists them in the order of the page.
func Troubles() []string {
	return []string{TroubleUnsent, TroubleFaults, TroubleBehind, TroubleStopped}
}

// maxFleetPage bounds the rows of a page.
const maxFleetPage = 1000

// FleetQuery chooses the terminals of a page and their order. Its zero value is all of
// them, what needs a person first.
type FleetQuery struct {
	State   string // of the sync report, "" for all
	Trouble string // of Troubles, "" for all
	Name    string // beginning of a terminal's or a shop's name, capitals as they are
	Region  string
	Program string // exactly, as terminals tell it
	Sort    string // of FleetSorts, "" is the first of them
	Down    bool   // the highest first
	// After is the last row of the page before, "" for the first page: FleetPage.Next.
	After string
	Limit int // rows; 0 is 100, at most 1000
}

// FleetSorts are the orders of a fleet; each is made whole by the terminal's name.
func FleetSorts() []string {
	return []string{"state", "name", "contact", "unsent", "snapshot", "program", "region", "shop"}
}

// FleetRow is a terminal on a page. What it told at its last hello is unknown until Told.
type FleetRow struct {
	Name, Shop, Region, State string
	Contact                   time.Time // zero for none
	Told                      bool
	Unsent                    int64 // entries, as told
	Snapshot, Behind          int64 // its publication, and how many are newer
	// Lag is for how long something published has not reached it, 0 for nothing.
	Lag       time.Duration
	Program   string
	Faults    []string
	Conflicts int64  // that are not settled
	Stopped   string // why it must not pay, "" while it may
}

// Spread is how many terminals have a value.
type Spread struct {
	Value string // "" for none
	Count int
}

// FleetPage is a page of terminals, with the counts of all that the filter chooses.
type FleetPage struct {
	Rows []FleetRow
	// Parts are the states, a partition: they add up to All. A chosen state narrows the
	// rows and not the parts.
	Parts    []Part
	All      int
	Troubles map[string]int // how many have each, in the chosen state; the chosen trouble does not narrow it
	Programs []Spread       // of the whole fleet, the commonest first, at most 12
	Regions  []string       // of the whole fleet
	Snapshot int64          // the newest publication
	Next     string         // FleetQuery.After of the next page, "" at the end
}

// Fleet gives a page of terminals. A page begins behind the last row of the one before and
// not at a number, so that it costs the same anywhere and a terminal that was added or went
// moves no other one over its edge; one whose value in the order changes in the mean time
// may show twice or not at all. The errors include ErrFilter.
func Fleet(ctx context.Context, db *sql.DB, q FleetQuery, now time.Time) (FleetPage, error) {
	f, err := q.prepare(now)
	if err != nil {
		return FleetPage{}, err
	}
	var p FleetPage
	err = reading(ctx, db, func(tx *sql.Tx) error {
		if err := tx.QueryRowContext(ctx, "SELECT coalesce(max(version), 0) FROM snapshots").Scan(&p.Snapshot); err != nil {
			return err
		}
		if err := f.count(ctx, tx, &p); err != nil {
			return err
		}
		if err := spreads(ctx, tx, &p); err != nil {
			return err
		}
		return f.rows(ctx, tx, &p)
	})
	if err != nil {
		return FleetPage{}, fmt.Errorf("fleet: %w", err)
	}
	return p, nil
}

// FleetReport is all that a query chooses, in its order and from one state of the store, as a
// report to be written: the same rows as the pages, all of them.
func FleetReport(ctx context.Context, db *sql.DB, q FleetQuery, now time.Time) (Report, error) {
	q.After, q.Limit = "", maxFleetPage
	f, err := q.prepare(now)
	if err != nil {
		return Report{}, err
	}
	r := Report{Name: "fleet", Title: Text{"Terminaux", "Terminals"}, Filter: Filter{Region: q.Region}, Made: now, Zone: Paris(), Columns: fleetColumns()}
	err = reading(ctx, db, func(tx *sql.Tx) error {
		var p FleetPage
		if err := tx.QueryRowContext(ctx, "SELECT coalesce(max(version), 0) FROM snapshots").Scan(&p.Snapshot); err != nil {
			return err
		}
		all, err := readPublished(ctx, tx)
		if err != nil {
			return err
		}
		f.published = &all
		for {
			p.Rows, p.Next = nil, ""
			if err := f.rows(ctx, tx, &p); err != nil {
				return err
			}
			for _, row := range p.Rows {
				if err := r.add(row.values(now)...); err != nil {
					return err
				}
			}
			if f.After = p.Next; f.After == "" {
				return nil
			}
		}
	})
	if err != nil {
		return Report{}, fmt.Errorf("fleet: %w", err)
	}
	return r, nil
}

func fleetColumns() []Column {
	return []Column{
		{Key: "state", Kind: KindText, Title: Text{"état", "state"}},
		{Key: "terminal", Kind: KindText, Title: Text{"terminal", "terminal"}},
		{Key: "shop", Kind: KindText, Title: Text{"point de vente", "shop"}},
		{Key: "region", Kind: KindText, Title: Text{"région", "region"}},
		{Key: "contact", Kind: KindTime, Title: Text{"dernier contact", "last contact"}},
		{Key: "contact_age", Kind: KindDuration, Title: Text{"âge du contact", "contact age"}},
		{Key: "unsent", Kind: KindInt, Title: Text{"écritures non transmises (dites)", "unsent entries (as told)"}},
		{Key: "snapshot", Kind: KindInt, Title: Text{"publication", "snapshot"}},
		{Key: "snapshot_behind", Kind: KindInt, Title: Text{"publications de retard", "snapshots behind"}},
		{Key: "data_lag", Kind: KindDuration, Title: Text{"retard des données", "data lag"}},
		{Key: "program", Kind: KindText, Title: Text{"programme", "program"}},
		{Key: "faults", Kind: KindText, Title: Text{"pannes", "faults"}},
		{Key: "open_conflicts", Kind: KindInt, Title: Text{"conflits ouverts", "open conflicts"}},
		{Key: "stopped", Kind: KindText, Title: Text{"arrêt des paiements", "payments stopped"}},
	}
}

// values are a row in the order of fleetColumns.
func (r FleetRow) values(now time.Time) []Value {
	contact, age := unknown(KindTime), unknown(KindDuration)
	if !r.Contact.IsZero() {
		contact, age = timeValue(r.Contact), durationValue(now.Sub(r.Contact))
	}
	unsent, snapshot, behind, lag, faults := unknown(KindInt), unknown(KindInt), unknown(KindInt), unknown(KindDuration), unknown(KindText)
	if r.Told {
		unsent, snapshot, behind, lag, faults = intValue(r.Unsent), intValue(r.Snapshot), intValue(r.Behind), durationValue(r.Lag), textValue(strings.Join(r.Faults, " "))
	}
	return []Value{textValue(r.State), textValue(r.Name), textValue(r.Shop), knownText(r.Region), contact, age, unsent, snapshot, behind, lag, knownText(r.Program), faults, intValue(r.Conflicts), textValue(r.Stopped)}
}

// fleetReading is a query that was looked over.
type fleetReading struct {
	FleetQuery
	now time.Time
	// published is all that terminals should have, for many pages of one reading; a single
	// page asks for what its own rows lack instead.
	published *published
	open      map[string]int64 // conflicts, read once
}

// Check is ErrFilter for a query that Fleet would refuse.
func (q FleetQuery) Check() error {
	_, err := q.prepare(time.Time{})
	return err
}

func (q FleetQuery) prepare(now time.Time) (fleetReading, error) {
	// Stored times have milliseconds; with a finer clock, and only then, a contact could be
	// on the other side of a limit here than it is for stateAt.
	f := fleetReading{FleetQuery: q, now: now.Truncate(time.Millisecond)}
	if f.Sort == "" {
		f.Sort = FleetSorts()[0]
	}
	if f.Limit == 0 {
		f.Limit = 100
	}
	keys := make([]string, 0, len(states()))
	for _, p := range states() {
		keys = append(keys, p.Key)
	}
	switch {
	case q.State != "" && !slices.Contains(keys, q.State):
		return f, Wrongf("état %.40q : il y a %s", "state %.40q: want one of %s", q.State, strings.Join(keys, ", "))
	case q.Trouble != "" && !slices.Contains(Troubles(), q.Trouble):
		return f, Wrongf("difficulté %.40q : il y a %s", "trouble %.40q: want one of %s", q.Trouble, strings.Join(Troubles(), ", "))
	case !slices.Contains(FleetSorts(), f.Sort):
		return f, Wrongf("ordre %.40q : il y a %s", "sort %.40q: want one of %s", q.Sort, strings.Join(FleetSorts(), ", "))
	case f.Limit < 1 || f.Limit > maxFleetPage:
		return f, Wrongf("%d lignes : il faut 1 à %d", "%d rows: want 1 to %d", q.Limit, maxFleetPage)
	}
	return f, nil
}

// fleet is the table of terminals with its state as a rank in the order of states: the
// words of stateAt, for the database to count and sort by.
func (f fleetReading) fleet(c *conditions) string {
	at := func(age time.Duration) string { return c.arg(wire.FormatTime(f.now.Add(age))) }
	in := "contact > " + at(-ContactWithin) + " AND contact < " + at(ContactWithin)
	late := "contact > " + at(-LateAfter) + " AND contact < " + at(LateAfter)
	return `(SELECT name, CASE WHEN shop = '' THEN name ELSE shop END AS shop, region, contact, program, snapshot, feed, unsent, faults, stopped, frozen,
		CASE WHEN program <> '' OR skew_ms IS NOT NULL THEN 1 ELSE 0 END AS told,
		CASE WHEN state = 'suspended' THEN 3 WHEN contact = '' THEN 2 WHEN ` + in + " THEN 4 WHEN " + late + " THEN 1 ELSE 0 END AS place FROM terminals) AS t"
}

// troubled are the conditions of troubles.
func troubled(trouble string, newest int64) string {
	switch trouble {
	case TroubleUnsent:
		return "unsent > 0"
	case TroubleFaults:
		return "faults NOT IN ('', '[]', 'null')"
	case TroubleBehind:
		return "told = 1 AND snapshot < " + strconv.FormatInt(newest, 10)
	}
	return "(stopped <> '' OR frozen <> '')"
}

// chosen adds the filter's conditions but for state and trouble.
func (f fleetReading) chosen(c *conditions) {
	if f.Name != "" {
		// Not LIKE: its wildcards are letters of names here.
		n, name := strconv.Itoa(utf8.RuneCountInString(f.Name)), c.arg(f.Name)
		c.text = append(c.text, "(substr(name, 1, "+n+") = "+name+" OR substr(shop, 1, "+n+") = "+name+")")
	}
	if f.Region != "" {
		c.and("region = $%d", f.Region)
	}
	if f.Program != "" {
		c.and("program = $%d", f.Program)
	}
}

// count reads the states and troubles in one pass.
func (f fleetReading) count(ctx context.Context, tx *sql.Tx, p *FleetPage) error {
	var c conditions
	from := f.fleet(&c)
	f.chosen(&c)
	columns := "place, count(*)"
	for _, trouble := range Troubles() {
		columns += ", count(CASE WHEN " + troubled(trouble, p.Snapshot) + " THEN 1 END)"
	}
	p.Parts, p.Troubles = states(), map[string]int{}
	err := each(ctx, tx, "SELECT "+columns+" FROM "+from+c.where()+" GROUP BY place", c.args, func(rows *sql.Rows) error {
		var place, all int
		n := make([]int, len(Troubles()))
		if err := rows.Scan(&place, &all, &n[0], &n[1], &n[2], &n[3]); err != nil {
			return err
		}
		for i, trouble := range Troubles() {
			if f.State == "" || f.State == p.Parts[place].Key {
				p.Troubles[trouble] += n[i]
			}
			if f.Trouble == trouble {
				all = n[i]
			}
		}
		p.Parts[place].Count, p.All = all, p.All+all
		return nil
	})
	if err != nil {
		return fmt.Errorf("states: %w", err)
	}
	return nil
}

func spreads(ctx context.Context, tx *sql.Tx, p *FleetPage) error {
	err := each(ctx, tx, "SELECT program, count(*) FROM terminals WHERE program <> '' GROUP BY program ORDER BY 2 DESC, 1 LIMIT 12", nil, func(rows *sql.Rows) error {
		var s Spread
		err := rows.Scan(&s.Value, &s.Count)
		p.Programs = append(p.Programs, s)
		return err
	})
	if err != nil {
		return fmt.Errorf("programs: %w", err)
	}
	err = each(ctx, tx, "SELECT DISTINCT region FROM terminals WHERE region <> '' ORDER BY region", nil, func(rows *sql.Rows) error {
		var region string
		err := rows.Scan(&region)
		p.Regions = append(p.Regions, region)
		return err
	})
	if err != nil {
		return fmt.Errorf("regions: %w", err)
	}
	return nil
}

// key is the column of the order, and whether its values are numbers.
func (f fleetReading) key() (column string, number bool) {
	switch f.Sort {
	case "state":
		return "place", true
	case "unsent", "snapshot":
		return f.Sort, true
	}
	return f.Sort, false
}

// behind adds the condition that a row comes after the last one of the page before.
func (f fleetReading) behind(c *conditions) error {
	if f.After == "" {
		return nil
	}
	value, name, ok := strings.Cut(f.After, "~")
	column, number := f.key()
	var key any = value
	if number {
		n, err := strconv.ParseInt(value, 10, 64)
		key, ok = n, ok && err == nil
	}
	if !ok || name == "" {
		return Wrongf("%.80q n'est pas la fin d'une page : reprenez à la première page", "%.80q is no end of a page: begin at the first page", f.After)
	}
	than := ">"
	if f.Down {
		than = "<"
	}
	at, last := c.arg(key), c.arg(name)
	c.text = append(c.text, "("+column+" "+than+" "+at+" OR "+column+" = "+at+" AND name > "+last+")")
	return nil
}

func (f *fleetReading) rows(ctx context.Context, tx *sql.Tx, p *FleetPage) error {
	var c conditions
	from := f.fleet(&c)
	f.chosen(&c)
	for i, part := range states() {
		if part.Key == f.State {
			c.text = append(c.text, "place = "+strconv.Itoa(i))
		}
	}
	if f.Trouble != "" {
		c.text = append(c.text, troubled(f.Trouble, p.Snapshot))
	}
	if err := f.behind(&c); err != nil {
		return err
	}
	column, _ := f.key()
	order := column
	if f.Down {
		order += " DESC"
	}
	query := "SELECT name, shop, region, contact, told, unsent, snapshot, feed, program, faults, stopped, frozen, place, " + column + " FROM " + from + c.where() + " ORDER BY " + order + ", name LIMIT " + strconv.Itoa(f.Limit+1)
	var feeds []int64
	var keys []string
	err := each(ctx, tx, query, c.args, func(rows *sql.Rows) error {
		var r FleetRow
		var contact, faults, frozen, key string
		var place, told int
		var feed int64
		err := rows.Scan(&r.Name, &r.Shop, &r.Region, &contact, &told, &r.Unsent, &r.Snapshot, &feed, &r.Program, &faults, &r.Stopped, &frozen, &place, &key)
		if err != nil {
			return err
		}
		if r.Contact, err = storedTime(contact); err != nil {
			return fmt.Errorf("terminal %s: last contact: %w", r.Name, err)
		}
		if r.Stopped == "" {
			r.Stopped = frozen
		}
		r.Told, r.State, r.Faults, r.Behind = told == 1, states()[place].Key, strings.Fields(faultList(faults).Text), max(0, p.Snapshot-r.Snapshot)
		p.Rows, feeds, keys = append(p.Rows, r), append(feeds, feed), append(keys, key)
		return nil
	})
	if err != nil {
		return err
	}
	if len(p.Rows) > f.Limit {
		p.Rows, p.Next = p.Rows[:f.Limit], keys[f.Limit-1]+"~"+p.Rows[f.Limit-1].Name
	}
	return f.complete(ctx, tx, p, feeds)
}

// complete adds what a page's rows alone are asked for.
func (f *fleetReading) complete(ctx context.Context, tx *sql.Tx, p *FleetPage, feeds []int64) (err error) {
	if f.open == nil {
		if f.open, err = openConflicts(ctx, tx); err != nil {
			return err
		}
	}
	issued := map[int64]time.Time{} // when the first publication after a version came
	for i := range p.Rows {
		r := &p.Rows[i]
		r.Conflicts = f.open[r.Name]
		if !r.Told {
			continue
		}
		since, err := f.lacksSince(ctx, tx, *r, feeds[i], issued)
		if err != nil {
			return err
		}
		if !since.IsZero() {
			r.Lag = max(0, f.now.Sub(since))
		}
	}
	return nil
}

// lacksSince tells since when a terminal lacks something that was published, zero for nothing.
func (f *fleetReading) lacksSince(ctx context.Context, tx *sql.Tx, r FleetRow, feed int64, issued map[int64]time.Time) (time.Time, error) {
	if f.published != nil {
		_, since := f.published.missing(terminal{name: r.Name, feed: feed, snapshot: r.Snapshot})
		return since, nil
	}
	since, known := issued[r.Snapshot]
	if !known {
		var err error
		if since, err = firstTime(ctx, tx, "SELECT issued FROM snapshots WHERE version > $1 ORDER BY version LIMIT 1", r.Snapshot); err != nil {
			return since, err
		}
		issued[r.Snapshot] = since
	}
	item, err := firstTime(ctx, tx, "SELECT at FROM feed WHERE seq > $1 AND audience IN ('', $2) ORDER BY seq LIMIT 1", feed, r.Name)
	if !item.IsZero() && (since.IsZero() || item.Before(since)) {
		since = item
	}
	return since, err
}

// firstTime reads one stored time, zero where no row has one.
func firstTime(ctx context.Context, tx *sql.Tx, query string, args ...any) (at time.Time, err error) {
	err = each(ctx, tx, query, args, func(rows *sql.Rows) error {
		var text string
		if err := rows.Scan(&text); err != nil {
			return err
		}
		at, err = wire.ParseTime(text)
		return err
	})
	return at, err
}

// openConflicts counts, by terminal, those that are not settled.
func openConflicts(ctx context.Context, tx *sql.Tx) (map[string]int64, error) {
	counts := map[string]int64{}
	err := each(ctx, tx, `SELECT c.terminal, count(*) FROM conflicts AS c LEFT JOIN conflict_acts AS a ON a.terminal = c.terminal AND a.epoch = c.epoch AND a.seq = c.seq
		AND a.number = (SELECT max(m.number) FROM conflict_acts AS m WHERE m.terminal = c.terminal AND m.epoch = c.epoch AND m.seq = c.seq)
		WHERE coalesce(a.state, 'open') <> 'settled' GROUP BY c.terminal`, nil, func(rows *sql.Rows) error {
		var name string
		var n int64
		err := rows.Scan(&name, &n)
		counts[name] = n
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("conflicts: %w", err)
	}
	return counts, nil
}

// Closing is a closing that a terminal's journal holds.
type Closing struct {
	Number   validate.EntryNumber // of the entry
	Time     string               // by the device's clock, as it wrote it
	Received time.Time
	Facts    validate.ClosingFacts
}

// closingsWithin is how many of a journal's newest entries are looked through for closings.
const closingsWithin = 20_000

// Closings gives the newest closings of a terminal, at most so many, as far as they lie
// among the 20 000 newest entries of its journal.
func Closings(ctx context.Context, db *sql.DB, terminal string, most int) ([]Closing, error) {
	var list []Closing
	err := reading(ctx, db, func(tx *sql.Tx) error {
		return each(ctx, tx, `SELECT epoch, seq, line, received FROM entries WHERE terminal = $1 AND kind = $2
			AND (epoch < (SELECT ack_epoch FROM terminals WHERE name = $1) OR seq > (SELECT ack_seq FROM terminals WHERE name = $1) - $3) ORDER BY epoch DESC, seq DESC LIMIT `+strconv.Itoa(most),
			[]any{terminal, string(ledger.KindClosing), int64(closingsWithin)}, func(rows *sql.Rows) error {
				c, err := scanClosing(rows)
				if err != nil {
					return fmt.Errorf("terminal %s: %w", terminal, err)
				}
				list = append(list, c)
				return nil
			})
	})
	if err != nil {
		return nil, fmt.Errorf("closings: %w", err)
	}
	return list, nil
}

func scanClosing(rows *sql.Rows) (Closing, error) {
	var c Closing
	var line []byte
	var received string
	err := rows.Scan(&c.Number.Epoch, &c.Number.Seq, &line, &received)
	if err != nil {
		return c, err
	}
	e, err := ledger.ParseEntry(line)
	if err == nil {
		c.Facts, err = e.Closing()
	}
	if err != nil {
		return c, fmt.Errorf("entry %v: %w", c.Number, err)
	}
	c.Time = e.Time
	c.Received, err = wire.ParseTime(received)
	return c, err
}
