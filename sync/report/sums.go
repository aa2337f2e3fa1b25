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

// span is a stretch of the keys of a table of sums: "" for no first one.
type span struct{ table, from, to string }

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
	month := func(d Day) string { return d.String()[:len("2006-01")] }
	begin := Day{last.Year, last.Month, 1}
	if g.from == "" {
		return append(whole, span{"month_sums", "", month(last)}, span{"terminal_sums", begin.String(), last.String()}), ends
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
	if month(first) == month(last) {
		return append(whole, span{"terminal_sums", first.String(), last.String()}), ends
	}
	if first.Day > 1 {
		next := dayOf(time.Date(first.Year, first.Month+1, 1, 0, 0, 0, 0, time.UTC))
		whole = append(whole, span{"terminal_sums", first.String(), next.String()})
		first = next
	}
	return append(whole, span{"month_sums", month(first), month(last)}, span{"terminal_sums", begin.String(), last.String()}), ends
}
