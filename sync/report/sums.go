package report

import (
	"time"

	"grattoir/sync/wire"
)

// Central keeps sums of the accepted claims in five tables (sync/central, sums.go), in the
// transactions that move them. Reports read those where the sums tell apart what they are
// asked for, and else the claims of the days that were chosen; both give the same figures,
// which central report audit and the tests hold against each other. The sums' days and
// months are Paris's.

// span is a stretch of the keys of a table of sums: "" for no first one. Minus is taken off.
type span struct {
	table, from, to string
	minus           bool
}

// rest is a month up to a day of it, whichever way reads less: its days, or the whole month
// without the days that are left.
func rest(d Day) []span {
	month, next := Day{d.Year, d.Month, 1}, dayOf(time.Date(d.Year, d.Month+1, 1, 0, 0, 0, 0, time.UTC))
	if d.Day <= 16 {
		return []span{{table: "terminal_sums", from: month.String(), to: d.String()}}
	}
	return []span{{table: "month_sums", from: monthOf(d), to: monthOf(next)}, {table: "terminal_sums", from: d.String(), to: next.String(), minus: true}}
}

func monthOf(d Day) string { return d.String()[:len("2006-01")] }

// spans cuts a segment into whole months and days in Paris, and what is left at its ends.
func (g segment) spans() (whole []span, ends []segment) {
	to, err := wire.ParseTime(g.to)
	if err != nil { // central's own times can be read
		return nil, []segment{g}
	}
	paris := Paris()
	last := dayOf(to.In(paris)) // the first day that is not wholly in
	if midnight := wire.FormatTime(last.begin(paris, 0)); midnight != g.to {
		ends = append(ends, segment{from: max(midnight, g.from), to: g.to})
	}
	if g.from == "" {
		return append(rest(last), span{table: "month_sums", to: monthOf(last)}), ends
	}
	from, err := wire.ParseTime(g.from)
	if err != nil {
		return nil, []segment{g}
	}
	first := dayOf(from.In(paris))
	if midnight := wire.FormatTime(first.begin(paris, 0)); midnight != g.from {
		first = dayOf(first.begin(paris, 1))
		if next := wire.FormatTime(first.begin(paris, 0)); next < g.to {
			ends = append(ends, segment{from: g.from, to: next})
		} else {
			return nil, []segment{g}
		}
	}
	if !first.before(last) {
		return nil, ends
	}
	if monthOf(first) == monthOf(last) {
		return []span{{table: "terminal_sums", from: first.String(), to: last.String()}}, ends
	}
	whole = append(rest(last), span{table: "month_sums", from: monthOf(first), to: monthOf(last)})
	for _, x := range rest(first) { // what of its month lies before the first day
		x.minus = !x.minus
		whole = append(whole, x)
	}
	return whole, ends
}
