package report

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"grattoir/sync/wire"
	"grattoir/validate"
)

// About is what there is to know of a kind of report before one is made.
type About struct {
	Name  string
	Title Text
	What  Text // what its numbers mean, in a few sentences
	// Filters are the fields of a Filter that it takes, by the names that commands and
	// pages give them: terminal, shop, region, game, block, from, to.
	Filters []string
	// By are the words that Filter.By may join, with the kind's own choice first; nil where
	// the rows are always about the same.
	By []string

	columns func(Filter) []Column
	read    func(*Report, context.Context, *sql.Tx) error
	parts   func() []Part
	// many: By may join several words, in the order of By.
	many bool
	// coarse is a By of few rows with the same currencies.
	coarse string
}

// Kinds are the reports there are, in the order in which people want them.
func Kinds() []About {
	return []About{aboutSync(), aboutSettlement(), aboutPayouts(), aboutPrizes(), aboutLiability(), aboutInventory(), aboutConflicts(), aboutRefusals(), aboutSignals(), aboutOutages()}
}

// KindOf gives a kind by its name.
func KindOf(name string) (About, bool) {
	for _, a := range Kinds() {
		if a.Name == name {
			return a, true
		}
	}
	return About{}, false
}

// Make makes a report of a kind out of one consistent state of the store. Now is the clock
// that ages are counted from. The errors include ErrFilter and ErrTooLarge.
func Make(ctx context.Context, db *sql.DB, name string, f Filter, now time.Time) (Report, error) {
	a, ok := KindOf(name)
	if !ok {
		return Report{}, Wrongf("il n'y a pas de rapport %.40q", "there is no report %.40q", name)
	}
	return a.make(ctx, db, f, now)
}

func (a About) make(ctx context.Context, db *sql.DB, f Filter, now time.Time) (Report, error) {
	var r Report
	err := reading(ctx, db, func(tx *sql.Tx) (err error) {
		r, err = a.within(ctx, tx, f, now)
		return err
	})
	return r, err
}

// within makes a report out of what a transaction sees.
func (a About) within(ctx context.Context, tx *sql.Tx, f Filter, now time.Time) (Report, error) {
	r, err := a.prepare(ctx, tx, f, now)
	if err != nil {
		return Report{}, err
	}
	if err := a.read(&r, ctx, tx); err != nil {
		return Report{}, fmt.Errorf("report %s: %w", a.Name, err)
	}
	return r, nil
}

// prepare looks the filter over and makes a report without rows.
func (a About) prepare(ctx context.Context, tx *sql.Tx, f Filter, now time.Time) (Report, error) {
	f, err := f.located()
	if err == nil {
		f, err = a.takes(f)
	}
	if err != nil {
		return Report{}, err
	}
	r := Report{Name: a.Name, Title: a.Title, Filter: f, Made: now, Zone: f.Zone, Columns: a.columns(f)}
	if a.parts != nil {
		r.Parts = a.parts()
	}
	if err = f.known(ctx, tx); err != nil {
		return Report{}, fmt.Errorf("report %s: %w", a.Name, err)
	}
	return r, nil
}

// takes refuses what the kind cannot follow, and puts the words of By into its order.
func (a About) takes(f Filter) (Filter, error) {
	for name := range f.set() {
		if name != "by" && !slices.Contains(a.Filters, name) {
			return f, Wrongf("le rapport %s se filtre par %s, non par %s", "the %s report can be filtered by %s, not by %s", a.Name, strings.Join(a.Filters, ", "), name)
		}
	}
	if f.By == "" {
		return f, nil
	}
	words := strings.Split(f.By, ",")
	var ordered []string
	for _, word := range a.By {
		if slices.Contains(words, word) {
			ordered = append(ordered, word)
		}
	}
	if len(ordered) != len(words) || len(words) > 1 && !a.many {
		want, voulu := "its rows are always about the same", "ses lignes portent toujours sur la même chose"
		if a.By != nil {
			list := strings.Join(a.By, ", ")
			want, voulu = "want of "+list, "il y a "+list
		}
		return f, Wrongf("rapport %s par %.60q : %.0s%s", "the %s report by %.60q: %s%.0s", a.Name, f.By, want, voulu)
	}
	f.By = strings.Join(ordered, ",")
	return f, nil
}

// by tells whether the rows are told apart by a word.
func (f Filter) by(word string) bool { return slices.Contains(strings.Split(f.By, ","), word) }

// shopIs is the condition on terminals for a shop: one that has no shop is one by itself.
const shopIs = "(shop = $%[1]d OR shop = '' AND name = $%[1]d)"

// known refuses a filter for what does not exist: an empty report would say that all is
// well with it.
func (f Filter) known(ctx context.Context, tx *sql.Tx) error {
	for _, x := range []struct{ name, value, query, hint string }{
		{"terminal", f.Terminal, "SELECT count(*) FROM terminals WHERE name = $1", "central terminal list has the names"},
		{"shop", f.Shop, "SELECT count(*) FROM terminals WHERE shop = $1 OR shop = '' AND name = $1", "central terminal list --json has the shops"},
		{"region", f.Region, "SELECT count(*) FROM terminals WHERE region = $1", "central terminal list --json has the regions"},
	} {
		if x.value == "" {
			continue
		}
		var n int
		if err := tx.QueryRowContext(ctx, x.query, x.value).Scan(&n); err != nil {
			return err
		}
		if n == 0 {
			return Wrongf("%[4]s %.80[2]q inconnu : la page des terminaux les montre", "%[1]s %.80[2]q is not known: %[3]s", x.name, x.value, x.hint, map[string]string{"terminal": "terminal", "shop": "point de vente", "region": "région"}[x.name])
		}
	}
	if f.Game == "" && f.Block == (validate.BlockID{}) {
		return nil
	}
	return f.knownBlocks(ctx, tx)
}

func (f Filter) knownBlocks(ctx context.Context, tx *sql.Tx) error {
	var games []string
	if err := each(ctx, tx, "SELECT DISTINCT game FROM blocks ORDER BY game", nil, func(rows *sql.Rows) error {
		var game string
		err := rows.Scan(&game)
		games = append(games, game)
		return err
	}); err != nil {
		return fmt.Errorf("blocks: %w", err)
	}
	if f.Game != "" && !slices.Contains(games, f.Game) {
		known, connus := "no block is published yet", "aucun bloc n'est encore publié"
		if len(games) > 0 {
			list := fmt.Sprintf("%.400s", strings.Join(games, ", "))
			known, connus = "published are "+list, "sont publiés "+list
		}
		return Wrongf("le jeu %.80q n'a aucun bloc publié : %[3]s", "game %.80q has no published block: %.400[2]s", f.Game, known, connus)
	}
	if f.Block == (validate.BlockID{}) {
		return nil
	}
	var n int
	if err := tx.QueryRowContext(ctx, "SELECT count(*) FROM blocks WHERE block_id = $1", f.Block[:]).Scan(&n); err != nil {
		return err
	}
	if n == 0 {
		return Wrongf("le bloc %v n'est pas publié : le rapport prizes a les identifiants", "block %v is not published: central report prizes shows the ids", f.Block)
	}
	return nil
}

// ofTerminals adds the filter's conditions on a column with the names of terminals.
func (c *conditions) ofTerminals(f Filter, column string) {
	if f.Terminal != "" {
		c.and(column+" = $%d", f.Terminal)
	}
	if f.Shop != "" {
		c.and(column+" IN (SELECT name FROM terminals WHERE "+shopIs+")", f.Shop)
	}
	if f.Region != "" {
		c.and(column+" IN (SELECT name FROM terminals WHERE region = $%d)", f.Region)
	}
}

// ofBlocks adds the filter's conditions on a column with ids of blocks.
func (c *conditions) ofBlocks(f Filter, column string) {
	if f.Block != (validate.BlockID{}) {
		c.and(column+" = $%d", f.Block[:])
	}
	if f.Game != "" {
		c.and(column+" IN (SELECT block_id FROM blocks WHERE game = $%d)", f.Game)
	}
}

// ofDays adds the filter's days on a column of stored times.
func (c *conditions) ofDays(f Filter, column string) {
	if !f.From.IsZero() {
		c.and(column+" >= $%d", wire.FormatTime(f.From.begin(f.Zone, 0)))
	}
	if !f.To.IsZero() {
		c.and(column+" < $%d", wire.FormatTime(f.To.begin(f.Zone, 1)))
	}
}

// add takes a row, whose values stand in the order of the columns.
func (r *Report) add(values ...Value) error {
	if r.count++; !r.totalled {
		r.tally(values)
	}
	if r.sink != nil {
		return r.sink(values)
	}
	if len(r.Rows) == MaxRows {
		return fmt.Errorf("%w: more than %d rows: choose fewer days, a shop or a game", ErrTooLarge, MaxRows)
	}
	r.Rows = append(r.Rows, values)
	return nil
}

// column is the place of a column, which must be there.
func (r *Report) column(key string) int {
	return slices.IndexFunc(r.Columns, func(c Column) bool { return c.Key == key })
}

// addTotals adds a row of totals for each kind of rows that must never be added together:
// those that differ in currency, or in being a demonstration. A report without such
// columns has one. The columns of a report of one currency are given it.
func (r *Report) addTotals(keys ...string) {
	currency, demonstration := r.column("currency"), r.column("demonstration")
	if currency < 0 && demonstration < 0 && r.sections == nil {
		r.sections = map[[2]string][]columnSum{{}: make([]columnSum, len(r.Columns))}
	}
	currencies := map[string]bool{}
	for _, k := range sortedKeys(r.sections, func(a, b [2]string) int { return slices.Compare(a[:], b[:]) }) {
		row := make([]Value, len(r.Columns))
		for i, c := range r.Columns {
			row[i] = unknown(c.Kind)
			if slices.Contains(keys, c.Key) {
				row[i] = r.sections[k][i].total(c)
			}
		}
		if currency >= 0 {
			row[currency] = knownText(k[0])
			currencies[k[0]] = true
		}
		if demonstration >= 0 {
			row[demonstration] = knownText(k[1])
		}
		r.Totals = append(r.Totals, row)
	}
	if len(currencies) != 1 {
		return
	}
	for i := range r.Columns {
		if r.Columns[i].Kind == KindMoney {
			for c := range currencies {
				r.Columns[i].Currency = c
			}
		}
	}
}
