// Package report is what operations read out of central's store: how the terminals are,
// what was paid, what is owed, left to win, delivered, in conflict, refused, away, and what
// looks like fraud. A Report is numbers with their meaning; the same Report is written as
// a table, JSON, CSV, a workbook or a page, so that all of them agree. It reads the tables
// of sync/central/schema and never writes to them, and it takes nothing that a terminal
// told for text without control characters. Start at Kinds and Make.
package report

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // a server without zone files still knows when a day begins in Paris

	"grattoir/validate"
	"grattoir/validate/money"
)

// ErrFilter means a filter that no report can follow: a wrong date, a terminal or a
// game that central does not know. The words say which.
var ErrFilter = errors.New("filter")

// ErrTooLarge means a report of more than MaxRows rows. A narrower filter helps.
var ErrTooLarge = errors.New("report too large")

// MaxRows bounds a report, which is held in memory whole.
const MaxRows = 200_000

// Text is a title for people, in the languages of the house.
type Text struct {
	FR string `json:"fr"`
	EN string `json:"en"`
}

// In gives the text in a language, French first.
func (t Text) In(lang money.Language) string {
	if lang == money.English {
		return t.EN
	}
	return t.FR
}

// Kind is the type of a column's values.
type Kind string

const (
	KindText     Kind = "text"
	KindInt      Kind = "int"
	KindMoney    Kind = "money"    // minor units of a currency
	KindTime     Kind = "time"     // an instant
	KindDuration Kind = "duration" // milliseconds, negative too
	KindDay      Kind = "day"      // a day of the calendar, as Day.String writes it
	KindDecimal  Kind = "decimal"  // thousandths: shares, expectations, scores
)

// Column is one column of a report. Keys never change: scripts read them.
type Column struct {
	Key   string
	Title Text
	Kind  Kind
	// Currency of a money column, ISO 4217. It is "" where the rows have several, which
	// the report's currency column then tells apart, and in columns of other kinds.
	Currency string
}

// Value is one cell. A value that is not known is never shown as zero.
type Value struct {
	Kind     Kind
	Known    bool
	Text     string    // KindText, KindDay
	Int      int64     // KindInt; KindMoney in minor units; KindDuration in milliseconds; KindDecimal in thousandths
	Time     time.Time // KindTime
	Currency string    // KindMoney, ISO 4217
	// Holes counts, in a total, the unknown cells that it leaves out.
	Holes int
}

// Part is one share of a report's rows. The parts of a report add up to its rows.
type Part struct {
	Key   string
	Title Text
	Count int
}

// Report is a finished report.
type Report struct {
	Name    string // one of Kinds
	Title   Text
	Filter  Filter
	Made    time.Time      // the clock that ages are counted from
	Zone    *time.Location // of days, and of times as people read them
	Columns []Column
	Rows    [][]Value // one value a column
	Totals  [][]Value // sums of the rows, unknown in columns that have none; one row a currency
	Parts   []Part    // the rows by state; nil where rows have none

	sink     func(row []Value) error   // takes the rows in place of Rows
	count    int                       // rows added
	sections map[[2]string][]columnSum // their totals, by currency and demonstration
	page     int                       // rows that are wanted; 0 for all
	totalled bool                      // the totals hold all rows, also those that were not read
	cut      bool                      // there may be more rows than count says
}

// Filter chooses rows. The zero Filter chooses all of them. Each kind of report takes
// those fields that mean something to it, and refuses the others; see Kinds.
type Filter struct {
	Terminal string           // name of a terminal that central knows
	Shop     string           // a shop: all its terminals
	Region   string           // a region: all its terminals
	Game     string           // slug of a game of which a block was published
	Block    validate.BlockID // a published block; zero for all
	From, To Day              // first and last day, both included
	// By says what the rows are about, as words joined by commas; "" is the kind's own.
	By string
	// Zone says when a day begins, and is that of times for people; nil is Paris.
	Zone *time.Location
}

// Day is a day of the calendar. The zero Day is none.
type Day struct {
	Year  int
	Month time.Month
	Day   int
}

// ParseDay reads a day as 2026-11-28.
func ParseDay(text string) (Day, error) {
	t, err := time.Parse(time.DateOnly, text)
	if err != nil || t.Year() < 1970 {
		return Day{}, Wrongf("jour %.40q : il faut année-mois-jour depuis 1970, comme 2026-11-28", "day %.40q: want year-month-day from 1970 on, like 2026-11-28", text)
	}
	return dayOf(t), nil
}

func dayOf(t time.Time) Day {
	y, m, d := t.Date()
	return Day{y, m, d}
}

// IsZero tells whether d is no day.
func (d Day) IsZero() bool { return d == Day{} }

// String writes what ParseDay reads, "" for no day.
func (d Day) String() string {
	if d.IsZero() {
		return ""
	}
	return fmt.Sprintf("%04d-%02d-%02d", d.Year, int(d.Month), d.Day)
}

// number orders days; that of no day is the lowest.
func (d Day) number() int { return (d.Year*100+int(d.Month))*100 + d.Day }

// begin is the first instant of the day that many days later.
func (d Day) begin(zone *time.Location, later int) time.Time {
	return time.Date(d.Year, d.Month, d.Day+later, 0, 0, 0, 0, zone)
}

// before tells whether d comes before e.
func (d Day) before(e Day) bool { return d.begin(time.UTC, 0).Before(e.begin(time.UTC, 0)) }

// Paris is the zone of reports that name no other.
func Paris() *time.Location {
	zone, err := time.LoadLocation(zoneOfSums)
	if err != nil {
		panic(err) // the zones are compiled in
	}
	return zone
}

// located fills in the zone and refuses days in the wrong order.
func (f Filter) located() (Filter, error) {
	if f.Zone == nil {
		f.Zone = Paris()
	}
	if !f.From.IsZero() && !f.To.IsZero() && f.To.before(f.From) {
		return f, Wrongf("le dernier jour %v vient avant le premier %v", "the last day %v comes before the first day %v", f.To, f.From)
	}
	return f, nil
}

// reading runs read over one consistent state of the store.
func reading(ctx context.Context, db *sql.DB, read func(*sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // nothing was written
	return read(tx)
}

// each calls scan for every row of a query.
func each(ctx context.Context, tx *sql.Tx, query string, args []any, scan func(*sql.Rows) error) error {
	rows, err := tx.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// conditions are joined with AND.
type conditions struct {
	text []string
	args []any
}

// and adds a condition on one value, which stands in it as %d, or %[1]d where it stands
// there twice: SQLite and PostgreSQL both read $1, $2 and so on.
func (c *conditions) and(text string, value any) {
	c.args = append(c.args, value)
	c.text = append(c.text, fmt.Sprintf(text, len(c.args)))
}

// arg gives a value a place in a condition that is written out.
func (c *conditions) arg(value any) string {
	c.args = append(c.args, value)
	return fmt.Sprintf("$%d", len(c.args))
}

// where joins them, and those that need no value.
func (c *conditions) where(more ...string) string {
	all := slices.Concat(c.text, more)
	if len(all) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(all, " AND ")
}

func textValue(s string) Value { return Value{Kind: KindText, Known: true, Text: s} }

func intValue(n int64) Value { return Value{Kind: KindInt, Known: true, Int: n} }

func timeValue(t time.Time) Value { return Value{Kind: KindTime, Known: true, Time: t} }

func durationValue(d time.Duration) Value {
	return Value{Kind: KindDuration, Known: true, Int: d.Milliseconds()}
}

func dayValue(d Day) Value { return Value{Kind: KindDay, Known: !d.IsZero(), Text: d.String()} }

// decimalValue rounds to thousandths.
func decimalValue(f float64) Value {
	return Value{Kind: KindDecimal, Known: !math.IsNaN(f) && math.Abs(f) < 1e12, Int: int64(math.Round(f * 1000))}
}

func moneyValue(a int64, currency string) Value {
	return Value{Kind: KindMoney, Known: true, Int: a, Currency: currency}
}

func unknown(kind Kind) Value { return Value{Kind: kind} }

// knownText is unknown for "".
func knownText(s string) Value { return Value{Kind: KindText, Known: s != "", Text: s} }
