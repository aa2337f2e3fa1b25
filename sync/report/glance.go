package report

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"time"

	"grattoir/sync/wire"
	"grattoir/validate"
)

// Glance is what operations keep an eye on all day: what waits for a person, and whether
// the day goes as such days do.
type Glance struct {
	Open, Inquiry int64 // conflicts
	Reversals     int64 // requests that wait for central
	Paces         []Pace
}

// Pace is what has been paid today in a currency, beside the same weekday of the weeks
// before up to the same time. Demonstrations are left out. Days are told by the devices'
// clocks, as those of payouts.
type Pace struct {
	Currency      string
	Claims, Minor int64
	// Weeks is how many of the four weeks before had payments on this weekday; with none
	// nothing is expected, and Usual is unknown.
	Weeks int
	Usual int64 // minor units by now, the mean of those weeks
	// Today and Expected are the sums at the ends of the hours of the day, Today up to the
	// hour that runs.
	Today, Expected []int64
}

// paceWeeks is how many weeks before are looked at.
const paceWeeks = 4

// AtAGlance reads it; zone says when the day begins.
func AtAGlance(ctx context.Context, db *sql.DB, zone *time.Location, now time.Time) (Glance, error) {
	var g Glance
	err := reading(ctx, db, func(tx *sql.Tx) error {
		err := each(ctx, tx, `SELECT coalesce(a.state, 'open'), count(*) FROM conflicts c LEFT JOIN conflict_acts a ON a.terminal = c.terminal AND a.epoch = c.epoch AND a.seq = c.seq
			AND a.number = (SELECT max(o.number) FROM conflict_acts o WHERE o.terminal = c.terminal AND o.epoch = c.epoch AND o.seq = c.seq) GROUP BY coalesce(a.state, 'open')`, nil, func(rows *sql.Rows) error {
			var state string
			var n int64
			err := rows.Scan(&state, &n)
			switch state {
			case "open":
				g.Open = n
			case "inquiry":
				g.Inquiry = n
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("conflicts: %w", err)
		}
		if err := tx.QueryRowContext(ctx, "SELECT count(*) FROM reversals WHERE state = $1", validate.ReversalRequested).Scan(&g.Reversals); err != nil {
			return fmt.Errorf("reversals: %w", err)
		}
		g.Paces, err = readPaces(ctx, tx, zone, now)
		return err
	})
	return g, err
}

// hourly are sums by the hour of a day that begins somewhere.
type hourly struct {
	claims int64
	minor  [25]int64 // the day that ends summer time has 25 hours
}

func readPaces(ctx context.Context, tx *sql.Tx, zone *time.Location, now time.Time) ([]Pace, error) {
	y, m, d := now.In(zone).Date()
	var list []Pace
	weeks := make([]map[string]hourly, 1+paceWeeks)
	for w := range weeks {
		begin := time.Date(y, m, d-7*w, 0, 0, 0, 0, zone)
		var err error
		if weeks[w], err = readHours(ctx, tx, begin, time.Date(y, m, d-7*w+1, 0, 0, 0, 0, zone)); err != nil {
			return nil, err
		}
	}
	seen := map[string]bool{}
	for _, week := range weeks {
		for currency := range week {
			seen[currency] = true
		}
	}
	begin := time.Date(y, m, d, 0, 0, 0, 0, zone)
	for _, currency := range sortedKeys(seen, cmp.Compare[string]) {
		list = append(list, paceOf(currency, weeks, now.Sub(begin), time.Date(y, m, d+1, 0, 0, 0, 0, zone).Sub(begin)))
	}
	return list, nil
}

// paceOf sums the hours up; the hour that runs is expected in proportion.
func paceOf(currency string, weeks []map[string]hourly, gone, whole time.Duration) Pace {
	p := Pace{Currency: currency, Claims: weeks[0][currency].claims}
	var expected [25]int64
	for _, week := range weeks[1:] {
		h, ok := week[currency]
		if !ok {
			continue
		}
		p.Weeks++
		for i, n := range h.minor {
			expected[i] += n
		}
	}
	var today, usual int64
	for i := range int(whole / time.Hour) {
		now := weeks[0][currency].minor[i]
		today += now
		p.Minor += now
		if time.Duration(i)*time.Hour <= gone {
			p.Today = append(p.Today, today)
		}
		if p.Weeks == 0 {
			continue
		}
		mean := expected[i] / int64(p.Weeks)
		part := min(max(gone-time.Duration(i)*time.Hour, 0), time.Hour)
		p.Usual += int64(float64(mean) * part.Hours())
		usual += mean
		p.Expected = append(p.Expected, usual)
	}
	return p
}

// readHours sums the accepted claims of a day by hours, for each currency.
func readHours(ctx context.Context, tx *sql.Tx, begin, end time.Time) (map[string]hourly, error) {
	sums := map[string]hourly{}
	err := each(ctx, tx, `SELECT substr(k.paid, 1, 13), k.currency, count(*), CAST(sum(k.amount_minor) AS BIGINT) FROM claims k JOIN blocks b ON b.block_id = k.block_id
		WHERE k.paid >= $1 AND k.paid < $2 AND b.scaled = 0 GROUP BY substr(k.paid, 1, 13), k.currency`, []any{wire.FormatTime(begin), wire.FormatTime(end)}, func(rows *sql.Rows) error {
		var hour, currency string
		var n, minor int64
		if err := rows.Scan(&hour, &currency, &n, &minor); err != nil {
			return err
		}
		at, err := wire.ParseTime(hour + ":00:00.000Z")
		if err != nil {
			return nil // a clock gone wild has no hour
		}
		h := sums[currency]
		h.claims += n
		h.minor[min(max(int(at.Sub(begin)/time.Hour), 0), 24)] += minor
		sums[currency] = h
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("claims by hours: %w", err)
	}
	return sums, nil
}
