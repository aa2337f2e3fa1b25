package console

import (
	"context"
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"
	"time"

	"grattoir/sync/report"
)

// plotReport draws a report that says something as a picture: the rows of its whole filter,
// not of one page. What is not known is hatched, or said beside it.
//
// Whole tells whether made has all rows. Where it has not, payouts are added up by day once
// more, outages are not drawn, and the others are drawn of their totals or have few rows.
func (c *console) plotReport(ctx context.Context, v *reportView, made report.Report, whole bool) error {
	switch made.Name {
	case "payouts":
		late, err := c.lateTerminals(ctx, v.now)
		if err == nil && !whole && made.Filter.By != "" && slices.Contains(strings.Split(made.Filter.By, ","), "day") {
			f := made.Filter
			f.By = "day"
			made, err = report.Make(ctx, c.db, made.Name, f, v.now)
		}
		if err != nil {
			return err
		}
		v.plotPayouts(made, late)
	case "outages":
		if whole {
			v.plotOutages(made)
		}
	case "liability":
		v.plotLapsing(made)
	case "settlement":
		v.plotSettlement(made)
	}
	return nil
}

// lateTerminals is how many terminals may hold payments that central has not heard of.
func (c *console) lateTerminals(ctx context.Context, now time.Time) (int64, error) {
	states, err := report.States(ctx, c.db, now)
	return states[report.StateMissing] + states[report.StateLate], err
}

// dayBar is a day with what is drawn of it, one part above the other.
type dayBar struct {
	day   time.Time // its beginning
	parts map[string]float64
}

// dayBars adds up parts by days. The days between the first and the last are all there.
type dayBars struct {
	zone *time.Location
	at   map[string]*dayBar
}

func (d *dayBars) add(day time.Time, part string, n float64) {
	if d.at == nil {
		d.at = map[string]*dayBar{}
	}
	key := day.In(d.zone).Format(time.DateOnly)
	if d.at[key] == nil {
		y, m, n := day.In(d.zone).Date()
		d.at[key] = &dayBar{time.Date(y, m, n, 0, 0, 0, 0, d.zone), map[string]float64{}}
	}
	d.at[key].parts[part] += n
}

// sorted are the days in turn.
func (d *dayBars) sorted() []dayBar {
	var list []dayBar
	for _, b := range d.at {
		list = append(list, *b)
	}
	slices.SortFunc(list, func(a, b dayBar) int { return a.day.Compare(b.day) })
	return list
}

// plotDays draws bars a day, with parts from below in their order. Days of which nothing is
// written stay empty; the day that is not over yet stands in a dotted box.
func (v *reportView) plotDays(title, label string, d dayBars, order []string, text func(float64) string, words func(dayBar) string) template.HTML {
	list := d.sorted()
	if len(list) == 0 {
		return ""
	}
	highest := 0.0
	for _, b := range list {
		sum := 0.0
		for _, n := range b.parts {
			sum += n
		}
		highest = max(highest, sum)
	}
	first, last := list[0].day, list[len(list)-1].day.AddDate(0, 0, 1)
	if from := v.Query.filter.From; !from.IsZero() { // the days asked for, also those without a bar
		first = earlier(first, time.Date(from.Year, from.Month, from.Day, 0, 0, 0, 0, d.zone))
	}
	y, m, day := v.now.In(d.zone).Date()
	end := time.Date(y, m, day+1, 0, 0, 0, 0, d.zone)
	if to := v.Query.filter.To; !to.IsZero() {
		end = earlier(end, time.Date(to.Year, to.Month, to.Day+1, 0, 0, 0, 0, d.zone))
	}
	if last.Before(end) {
		last = end
	}
	if least := last.AddDate(0, 0, -7); first.After(least) {
		first = least // one day alone is no wall
	}
	x := days(first, last, d.zone, 12)
	x.ticks = slices.DeleteFunc(x.ticks, func(t tick) bool { return t.at >= x.max })
	for i := range x.ticks {
		x.ticks[i].at += 12 * 3600 // the name of a day stands under its middle
	}
	chart := newChart("plot", title, v.PlotNote, 1180, 240, x, niceAxis(label, highest, text))
	for _, b := range list {
		from, to := b.day, b.day.AddDate(0, 0, 1)
		wide := to.Sub(from).Seconds()
		if v.now.After(from) && v.now.Before(to) {
			chart.bar(float64(from.Unix()), float64(to.Unix()), 0, chart.y.max, "today", v.T("ce jour n'est pas fini", "this day is not over"))
		}
		below := 0.0
		for _, part := range order {
			if n := b.parts[part]; n > 0 {
				chart.bar(float64(from.Unix())+wide*0.15, float64(to.Unix())-wide*0.15, below, below+n, part, words(b))
				below += n
			}
		}
	}
	return chart.SVG()
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// commonest is the currency with the most rows, without demonstrations.
func commonest(made report.Report) string {
	n := map[string]int{}
	best := ""
	for _, row := range made.Rows {
		of := cells(made, row)
		if of("demonstration").Text == "yes" || of("currency").Text == "" {
			continue
		}
		c := of("currency").Text
		if n[c]++; n[c] > n[best] || n[c] == n[best] && c < best {
			best = c
		}
	}
	return best
}

// plotPayouts draws what was paid each day, in the commonest currency, with what was taken
// back of it apart.
func (v *reportView) plotPayouts(made report.Report, late int64) {
	currency := commonest(made)
	d := dayBars{zone: v.zone}
	for _, row := range made.Rows {
		of := cells(made, row)
		day, err := time.ParseInLocation(time.DateOnly, of("day").Text, v.zone)
		if err != nil || of("demonstration").Text == "yes" || of("currency").Text != currency {
			continue
		}
		d.add(day, "paid", float64(of("amount").Int-of("reversed_amount").Int))
		d.add(day, "back", float64(of("reversed_amount").Int))
	}
	money := func(a float64) string { return v.Money(int64(a), currency) }
	v.PlotTitle = v.T("Paiements par jour", "Payouts by day")
	v.PlotNote = v.T("Plein : payé. Clair : payé puis repris. Pointillé : le jour n'est pas fini. Sans les démonstrations. ", "Full: paid. Light: paid and taken back. Dotted: the day is not over. Without demonstrations. ")
	if late > 0 {
		v.PlotNote += fmt.Sprintf(v.T("%s terminaux en retard peuvent encore en annoncer.", "%s late terminals may still tell of more."), count(late))
	}
	if svg := v.plotDays(v.PlotTitle, "", d, []string{"paid", "back"}, money, func(b dayBar) string {
		return b.day.Format("02/01/2006") + " " + money(b.parts["paid"]+b.parts["back"])
	}); svg != "" {
		v.Plot = svg
	}
}

// plotOutages draws the minutes of each day without contact, which are unknown, and with
// faults as told, which are facts.
func (v *reportView) plotOutages(made report.Report) {
	d := dayBars{zone: v.zone}
	for _, row := range made.Rows {
		of := cells(made, row)
		if !of("began").Known {
			continue
		}
		from, to := of("began").Time, v.now
		if of("ended").Known {
			to = of("ended").Time
		}
		if first := made.Filter.From; !first.IsZero() {
			if begin := time.Date(first.Year, first.Month, first.Day, 0, 0, 0, 0, v.zone); from.Before(begin) {
				from = begin
			}
		}
		if last := made.Filter.To; !last.IsZero() {
			if end := time.Date(last.Year, last.Month, last.Day+1, 0, 0, 0, 0, v.zone); to.After(end) {
				to = end
			}
		}
		part := "fault"
		if of("code").Text == "no-contact" {
			part = "unknown"
		}
		for from.Before(to) {
			y, m, day := from.In(v.zone).Date()
			next := time.Date(y, m, day+1, 0, 0, 0, 0, v.zone)
			if next.After(to) {
				next = to
			}
			d.add(from, part, next.Sub(from).Minutes())
			from = next
		}
	}
	minutes := func(n float64) string { return count(int64(n)) + "\u00a0min" }
	v.PlotTitle = v.T("Minutes par jour, tous terminaux du filtre", "Minutes by day, all terminals of the filter")
	v.PlotNote = v.T("Hachuré : sans contact, donc état inconnu. Plein : pannes dites par les terminaux.", "Hatched: no contact, so the state is unknown. Full: faults that terminals told of.")
	if svg := v.plotDays(v.PlotTitle, "", d, []string{"unknown", "fault"}, minutes, func(b dayBar) string {
		return fmt.Sprintf("%s: %s + %s", b.day.Format("02/01/2006"), minutes(b.parts["unknown"]), minutes(b.parts["fault"]))
	}); svg != "" {
		v.Plot = svg
	}
}

// plotLapsing draws what lapses on which day to come. Blocks without a closing notice lapse
// on a day that nobody knows yet: they are said, not drawn.
func (v *reportView) plotLapsing(made report.Report) {
	currency := commonest(made)
	d := dayBars{zone: v.zone}
	var open, lapsed int64
	for _, row := range made.Rows {
		of := cells(made, row)
		if of("demonstration").Text == "yes" || of("currency").Text != currency {
			continue
		}
		lapsed += of("lapsed").Int
		day, err := time.ParseInLocation(time.DateOnly, of("last_claim_day").Text, v.zone)
		switch {
		case err != nil:
			open += max(0, of("unclaimed").Int)
		case v.now.Before(day.AddDate(0, 0, 1)):
			d.add(day, "paid", float64(max(0, of("unclaimed").Int)))
		}
	}
	if d.at != nil {
		d.add(v.now, "paid", 0) // the days begin today
	}
	amount := func(a float64) string { return v.Money(int64(a), currency) }
	v.PlotTitle = v.T("Ce qui sera forclos, par dernier jour de réclamation", "What will lapse, by last claim day")
	if currency != "" {
		v.PlotNote = fmt.Sprintf(v.T("Déjà forclos : %s. Non réclamé sans avis de clôture, donc sans date : %s.", "Lapsed already: %s. Unclaimed with no closing notice, so with no date: %s."), v.Money(lapsed, currency), v.Money(open, currency))
	}
	if svg := v.plotDays(v.PlotTitle, "", d, []string{"paid"}, amount, func(b dayBar) string { return b.day.Format("02/01/2006") + " " + amount(b.parts["paid"]) }); svg != "" {
		v.Plot = svg
	}
}

// plotSettlement draws how what is due comes about: each step from the end of the one before.
func (v *reportView) plotSettlement(made report.Report) {
	if len(made.Totals) == 0 {
		return
	}
	of := cells(made, made.Totals[0])
	for _, row := range made.Totals { // of the currency with the most sales
		if other := cells(made, row); other("sales").Int > of("sales").Int {
			of = other
		}
	}
	currency := of("currency").Text
	if currency == "" {
		return
	}
	steps := []struct {
		key, title string
		sign       float64
	}{
		{"sales", v.T("ventes", "sales"), 1}, {"paid", v.T("− lots payés", "− prizes paid"), -1}, {"reversed", v.T("+ repris", "+ taken back"), 1}, {"borne", v.T("− pris en charge", "− borne"), -1},
		{"commission", v.T("− commission", "− commission"), -1}, {"correction", v.T("+ correction", "+ correction"), 1}, {"due", v.T("= dû", "= due"), 0},
	}
	low, high, at := 0.0, 0.0, 0.0
	for _, s := range steps {
		at += s.sign * float64(of(s.key).Int)
		low, high = min(low, at), max(high, at)
	}
	x := axis{max: float64(len(steps))}
	for i, s := range steps {
		x.ticks = append(x.ticks, tick{float64(i) + 0.5, s.title})
	}
	y := signedAxis(low, high, func(a float64) string { return v.Money(int64(a), currency) })
	var said []string
	for _, s := range steps {
		said = append(said, s.title+" "+v.Money(of(s.key).Int, currency))
	}
	v.PlotTitle = fmt.Sprintf(v.T("Du chiffre des ventes au dû (%s)", "From sales to what is due (%s)"), currency)
	v.PlotNote = strings.Join(said, "  ")
	chart := newChart("plot", v.PlotTitle, v.PlotNote, 1180, 260, x, y)
	at = 0
	for i, s := range steps {
		from, to, class := at, at+s.sign*float64(of(s.key).Int), "paid"
		if s.sign == 0 {
			from, to, class = 0, float64(of(s.key).Int), "total"
		} else if to < from {
			class = "back"
		}
		chart.bar(float64(i)+0.15, float64(i)+0.85, min(from, to), max(from, to), class, said[i])
		at = to
	}
	v.Plot = chart.SVG()
}

// bar draws a box between two values of each axis.
func (c *chart) bar(x0, x1, y0, y1 float64, class, hint string) {
	fill := ""
	if class == "unknown" {
		fill = ` fill="url(#` + c.id + `-hatch)"`
	}
	c.draw(`<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" class="bar %s"%s><title>%s</title></rect>`, c.px(x0), c.py(y1), max(0.5, c.px(x1)-c.px(x0)), max(0.5, c.py(y0)-c.py(y1)), class, fill, template.HTMLEscapeString(hint))
}

// signedAxis is niceAxis for values on both sides of zero.
func signedAxis(low, high float64, text func(float64) string) axis {
	a := niceAxis("", max(high, -low), text)
	step := 1.0
	if len(a.ticks) > 1 {
		step = a.ticks[1].at - a.ticks[0].at
	}
	if high <= 0 {
		a.max, a.ticks = step, a.ticks[:min(2, len(a.ticks))]
	}
	for a.min = 0; a.min > low; {
		a.min -= step
		a.ticks = append(a.ticks, tick{a.min, text(a.min)})
	}
	if !(a.max > a.min) || math.IsNaN(a.min) {
		a.max = a.min + 1
	}
	return a
}
