package console

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"grattoir/sync/central"
	"grattoir/sync/report"
)

// fleetPages are the fleet and each terminal's page.
func (c *console) fleetPages() {
	c.page("GET /fleet", everybody(), c.showFleet)
	c.page("GET /fleet.csv", everybody(), c.exportFleet(report.CSV))
	c.page("GET /fleet.json", everybody(), c.exportFleet(report.JSON))
	c.page("GET /terminal/{name}", everybody(), c.showTerminal)
	c.menu("/fleet", everybody(), report.Text{FR: "Terminaux", EN: "Terminals"})
}

// parseFleet reads a fleet's filter and order from an address.
func parseFleet(raw string) (report.FleetQuery, error) {
	v, err := onlyKeys(raw, "state", "trouble", "name", "region", "program", "sort", "down", "after")
	if err != nil {
		return report.FleetQuery{}, err
	}
	return report.FleetQuery{State: v.Get("state"), Trouble: v.Get("trouble"), Name: v.Get("name"), Region: v.Get("region"), Program: v.Get("program"),
		Sort: v.Get("sort"), Down: v.Get("down") != "", After: v.Get("after")}, nil
}

// fleetLink is the address of a fleet.
func (s sheet) fleetLink(q report.FleetQuery) string {
	down := ""
	if q.Down {
		down = "1"
	}
	return s.Link("/fleet", "state", q.State, "trouble", q.Trouble, "name", q.Name, "region", q.Region, "program", q.Program, "sort", q.Sort, "down", down, "after", q.After)
}

// chip is a count that is a filter.
type chip struct {
	Key, Title string
	Count      int
	Address    string // with the filter, or without it where it is on
	On         bool
}

// head is the heading of a column.
type head struct {
	Title, Class, Address string // "" for a column that rows are not sorted by
	Sorted                string // aria-sort, "" for none
}

type fleetView struct {
	sheet
	Query       report.FleetQuery
	Page        report.FleetPage
	States      []chip
	Whole       chip
	Troubles    []chip
	Programs    []chip
	Heads       []head
	First, Next string
	Clear       string
	JSON, CSV   string // all rows of the filter, addresses
}

func (c *console) showFleet(w http.ResponseWriter, r *http.Request) {
	v := fleetView{sheet: c.sheet(r, report.Text{FR: "Terminaux", EN: "Terminals"})}
	q, err := parseFleet(r.URL.RawQuery)
	if err == nil {
		ctx, cancel := context.WithTimeout(r.Context(), readWithin)
		defer cancel()
		v.Query = q
		v.Page, err = report.Fleet(ctx, c.db, q, v.now)
	}
	if err != nil {
		v.Problem = c.told(r, err)
	}
	v.chips()
	v.heads()
	v.Clear = v.Link("/fleet")
	export := v.fleetLink(q)
	v.JSON, v.CSV = strings.Replace(export, "/fleet", "/fleet.json", 1), strings.Replace(export, "/fleet", "/fleet.csv", 1)
	first := q
	if first.After = ""; q.After != "" {
		v.First = v.fleetLink(first)
	}
	if next := q; v.Page.Next != "" {
		next.After = v.Page.Next
		v.Next = v.fleetLink(next)
	}
	c.render(w, r, status(err), "fleet.html", v)
}

// exportFleet gives all rows of the page's filter.
func (c *console) exportFleet(format report.Format) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		q, err := parseFleet(r.URL.RawQuery)
		if err == nil {
			err = q.Check()
		}
		if err != nil {
			http.Error(w, c.explain(r, err), status(err))
			return
		}
		c.give(w, r, "fleet", format, r.URL.RawQuery, func(ctx context.Context, to io.Writer) error {
			made, err := report.FleetReport(ctx, c.db, q, c.opt.Now())
			if err == nil {
				err = made.Write(to, format)
			}
			return err
		})
	}
}

// chips are the counts: each leads to its rows, and one that is on leads back.
func (v *fleetView) chips() {
	whole := v.Query
	whole.State, whole.After = "", ""
	v.Whole = chip{Key: "all", Title: v.W.All, Count: v.Page.All, Address: v.fleetLink(whole), On: v.Query.State == ""}
	for _, p := range v.Page.Parts {
		q := whole
		on := v.Query.State == p.Key
		if !on {
			q.State = p.Key
		}
		v.States = append(v.States, chip{p.Key, p.Title.In(v.lang), p.Count, v.fleetLink(q), on})
	}
	titles := map[string]string{report.TroubleUnsent: v.T("avec des écritures à transmettre", "with entries to send"), report.TroubleFaults: v.T("en panne", "with faults"),
		report.TroubleBehind: v.T("en retard de publication", "behind in data"), report.TroubleStopped: v.T("ne paient pas", "not paying")}
	for _, key := range report.Troubles() {
		q := v.Query
		on := q.Trouble == key
		if q.After, q.Trouble = "", key; on {
			q.Trouble = ""
		}
		v.Troubles = append(v.Troubles, chip{key, titles[key], v.Page.Troubles[key], v.fleetLink(q), on})
	}
	for _, s := range v.Page.Programs {
		q := v.Query
		on := q.Program == s.Value
		if q.After, q.Program = "", s.Value; on {
			q.Program = ""
		}
		v.Programs = append(v.Programs, chip{s.Value, s.Value, s.Count, v.fleetLink(q), on})
	}
}

func (v *fleetView) heads() {
	for _, h := range []struct{ sort, title, class string }{
		{"state", v.T("état", "state"), "text"}, {"name", "terminal", "text"}, {"shop", v.T("point de vente", "shop"), "text"}, {"region", v.T("région", "region"), "text"},
		{"contact", v.T("dernier contact", "last contact"), "number"}, {"unsent", v.T("à transmettre", "unsent"), "number"}, {"snapshot", "publication", "number"},
		{"", v.T("données en retard de", "data behind by"), "number"}, {"program", v.T("programme", "program"), "text"}, {"", v.T("pannes", "faults"), "text"},
		{"", v.T("conflits ouverts", "open conflicts"), "number"}, {"", v.T("arrêt", "stopped"), "text"},
	} {
		x := head{Title: h.title, Class: h.class}
		if h.sort != "" {
			q := v.Query
			here := cmp.Or(q.Sort, report.FleetSorts()[0]) == h.sort
			q.Sort, q.After, q.Down = h.sort, "", here && !q.Down
			x.Address = v.fleetLink(q)
			if here {
				x.Sorted = map[bool]string{false: "ascending", true: "descending"}[v.Query.Down]
			}
		}
		v.Heads = append(v.Heads, x)
	}
}

// timelineDays is how far back a terminal's timeline goes.
const timelineDays = 30

type terminalView struct {
	sheet
	Terminal central.Terminal
	Row      report.FleetRow
	Newest   int64 // publication
	Timeline any   // the chart's SVG, nil where there is none
	Summary  string
	Outages  []outageLine
	Closings []report.Closing
	Packs    report.Report
	Conflict []central.Conflict
	Software []central.Software
	More     int // conflicts that are not shown
	Changes  []report.Change
	Issued   []report.Issued
}

// outageLine is a row of the timeline's table.
type outageLine struct {
	Code, Cause  string
	Began, Ended time.Time
	Lasted       time.Duration
	Silent       bool
}

func (c *console) showTerminal(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	v := terminalView{sheet: c.sheet(r, report.Text{FR: "Terminal " + name, EN: "Terminal " + name})}
	ctx, cancel := context.WithTimeout(r.Context(), readWithin)
	defer cancel()
	_, err := onlyKeys(r.URL.RawQuery)
	if err == nil {
		err = c.readTerminal(ctx, name, &v)
	}
	if err != nil {
		c.refuse(w, r, statusOf(err), c.told(r, err))
		return
	}
	c.render(w, r, http.StatusOK, "terminal.html", v)
}

// shownConflicts is how many of a terminal's conflicts its page has.
const shownConflicts = 20

func (c *console) readTerminal(ctx context.Context, name string, v *terminalView) (err error) {
	if v.Terminal, err = c.opt.Central.Terminal(ctx, name); err != nil {
		return err
	}
	page, err := report.Fleet(ctx, c.db, report.FleetQuery{Name: name, Sort: "name"}, v.now)
	if err != nil {
		return err
	}
	if i := slices.IndexFunc(page.Rows, func(row report.FleetRow) bool { return row.Name == name }); i >= 0 {
		v.Row = page.Rows[i]
	}
	v.Newest = page.Snapshot
	if v.Closings, err = report.Closings(ctx, c.db, name, 10); err != nil {
		return err
	}
	if v.Packs, err = report.Make(ctx, c.db, "inventory", report.Filter{Terminal: name, Zone: v.zone}, v.now); err != nil {
		return err
	}
	if v.Software, err = c.opt.Central.SoftwareList(ctx); err != nil {
		return err
	}
	if v.Conflict, err = c.opt.Central.Conflicts(ctx, "", name); err != nil {
		return err
	}
	slices.Reverse(v.Conflict)
	if v.More = max(0, len(v.Conflict)-shownConflicts); v.More > 0 {
		v.Conflict = v.Conflict[:shownConflicts]
	}
	return c.readTimeline(ctx, v)
}

// readTimeline reads when the terminal was heard and which faults it told of.
func (c *console) readTimeline(ctx context.Context, v *terminalView) error {
	y, m, d := v.now.In(v.zone).AddDate(0, 0, -timelineDays).Date()
	made, err := report.Make(ctx, c.db, "outages", report.Filter{Terminal: v.Terminal.Name, From: report.Day{Year: y, Month: m, Day: d}, Zone: v.zone}, v.now)
	if err != nil {
		return err
	}
	at := map[string]int{}
	for i, column := range made.Columns {
		at[column.Key] = i
	}
	for _, row := range made.Rows {
		o := outageLine{Code: row[at["code"]].Text, Cause: row[at["cause"]].Text, Began: row[at["began"]].Time, Ended: row[at["ended"]].Time,
			Lasted: time.Duration(row[at["lasted"]].Int) * time.Millisecond}
		o.Silent = o.Code == central.CodeSilent
		v.Outages = append(v.Outages, o)
	}
	from := time.Date(y, m, d, 0, 0, 0, 0, v.zone)
	if v.Changes, v.Issued, err = report.Changes(ctx, c.db, v.Terminal.Name, from); err != nil {
		return err
	}
	v.timeline(from)
	slices.Reverse(v.Outages)
	return nil
}

// timeline draws one row each for contact, data and program, and one a fault. A time without
// contact is not known: the terminal may have worked all the while. Nor is what was before it
// enrolled.
func (v *terminalView) timeline(from time.Time) {
	known := v.Terminal.Enrolled
	if known.IsZero() {
		known = v.Terminal.Added
	}
	if v.Terminal.Contact.IsZero() {
		return
	}
	rows := []string{central.CodeSilent}
	for _, o := range v.Outages {
		if !slices.Contains(rows, o.Code) && len(rows) < 9 {
			rows = append(rows, o.Code)
		}
	}
	x := days(from, v.now, v.zone, 10)
	y := axis{max: float64(len(rows) + 2)}
	contact, data, program := "contact", v.T("données", "data"), v.T("programme", "program")
	y.ticks = []tick{{-1, contact}, {-1, program + "  "}} // off the axis: they make room for the names
	for _, code := range rows[1:] {
		y.ticks = append(y.ticks, tick{-1, code})
	}
	unheard := v.unheard(from, known)
	v.Summary = v.summary(from, known, unheard)
	chart := newChart("timeline", v.T("Contact et pannes sur 30 jours", "Contact and faults over 30 days"), v.Summary, 1180, 62+26*(len(rows)+2), x, y)
	v.changes(chart, 1, data, program, from)
	for i, code := range rows {
		name := code
		if i == 0 {
			name = contact
		} else {
			i += 2 // behind data and program
		}
		chart.rowName(i, name)
		for _, o := range v.Outages {
			if o.Code == code && !o.Silent {
				chart.span(i, float64(o.Began.Unix()), float64(v.endOf(o).Unix()), "fault", code+" "+v.When(o.Began)+" – "+v.When(o.Ended))
			}
		}
		last := max(known.Unix(), from.Unix())
		for _, o := range unheard {
			if i == 0 && o.Began.Unix() > last {
				chart.span(0, float64(last), float64(o.Began.Unix()), "heard", v.T("entendu", "heard"))
			}
			chart.span(i, float64(o.Began.Unix()), float64(v.endOf(o).Unix()), "unknown", v.T("inconnu : ", "unknown: ")+v.When(o.Began)+" – "+v.When(o.Ended)+" "+v.cause(o))
			last = max(last, v.endOf(o).Unix())
		}
		if i == 0 && v.now.Unix() > last {
			chart.span(0, float64(last), float64(v.now.Unix()), "heard", v.T("entendu", "heard"))
		}
	}
	v.Timeline = chart.SVG()
}

// changes draws which publication and which program the terminal had: full where it had the
// newest, in outline where a newer one was out, and each program under its name. What was
// before the first of them is not known.
func (v *terminalView) changes(chart *chart, row int, data, program string, from time.Time) {
	chart.rowName(row, data)
	chart.rowName(row+1, program)
	cut := func(t time.Time) float64 { return float64(max(t.Unix(), from.Unix())) }
	if len(v.Changes) == 0 || v.Changes[0].At.After(from) {
		until := v.now
		if len(v.Changes) > 0 {
			until = v.Changes[0].At
		}
		for _, r := range []int{row, row + 1} {
			chart.span(r, cut(from), cut(until), "unknown", v.T("inconnu", "unknown"))
		}
	}
	since := time.Time{} // of the program that is drawn
	for i, c := range v.Changes {
		end := v.now
		if i+1 < len(v.Changes) {
			end = v.Changes[i+1].At
		}
		newer := end // when a publication came out that it did not have
		for _, x := range v.Issued {
			if x.Version > c.Snapshot && x.At.Before(newer) {
				newer = x.At
			}
		}
		name := v.T("publication ", "snapshot ") + fmt.Sprint(c.Snapshot)
		if newer.After(c.At) && newer.After(from) {
			chart.span(row, cut(c.At), cut(newer), "heard", name)
		}
		if newer.Before(end) && end.After(from) {
			if newer.Before(c.At) {
				newer = c.At
			}
			chart.span(row, cut(newer), cut(end), "late", name+v.T(" : une plus récente était publiée", ": a newer one was out"))
		}
		if i == 0 || v.Changes[i-1].Program != c.Program {
			since = c.At
		}
		if i+1 == len(v.Changes) || v.Changes[i+1].Program != c.Program {
			if end.After(from) {
				chart.span(row+1, cut(since), cut(end), "program", c.Program+" "+v.When(since)+" – "+v.When(end))
				chart.spanName(row+1, cut(since), cut(end), c.Program)
			}
		}
	}
}

// unheard are the stretches about which nothing is known, in the order of time.
func (v *terminalView) unheard(from, known time.Time) []outageLine {
	var list []outageLine
	if known.After(from) {
		list = append(list, outageLine{Code: central.CodeSilent, Began: from, Ended: known, Silent: true, Cause: "before"})
	}
	for _, o := range v.Outages {
		if o.Silent {
			list = append(list, o)
		}
	}
	return list
}

// endOf is the end of an outage, now while it lasts.
func (v *terminalView) endOf(o outageLine) time.Time {
	if o.Ended.IsZero() || o.Ended.After(v.now) {
		return v.now
	}
	return o.Ended
}

func (v *terminalView) cause(o outageLine) string {
	switch {
	case o.Cause == "before":
		return v.T("(pas encore inscrit)", "(not enrolled yet)")
	case o.Cause == "link":
		return v.T("(son programme a continué : la ligne)", "(its program went on: the line)")
	case o.Cause == "stopped":
		return v.T("(arrêté, ou redémarré)", "(off, or started again)")
	case o.Ended.IsZero():
		return v.T("(dure encore)", "(still so)")
	}
	return v.T("(cause inconnue)", "(cause unknown)")
}

// summary says the timeline in numbers.
func (v *terminalView) summary(from, known time.Time, unheard []outageLine) string {
	var silent time.Duration
	n := 0
	for _, o := range unheard {
		if o.Cause == "before" {
			continue
		}
		began := o.Began
		if began.Before(from) {
			began = from
		}
		silent += v.endOf(o).Sub(began)
		n++
	}
	if known.Before(from) {
		known = from
	}
	whole := v.now.Sub(known)
	faults := map[string]bool{}
	for _, o := range v.Outages {
		if !o.Silent {
			faults[o.Code] = true
		}
	}
	codes := v.T("aucune", "none")
	if len(faults) > 0 {
		list := make([]string, 0, len(faults))
		for code := range faults {
			list = append(list, code)
		}
		slices.Sort(list)
		codes = strings.Join(list, ", ")
	}
	return fmt.Sprintf(v.T("Entendu pendant %s ; sans contact %d fois, %s en tout, où son état est inconnu. Pannes dites : %s.",
		"Heard for %s; no contact %d times, %s in all, in which its state is unknown. Faults told: %s."), v.Lasted(whole-silent), n, v.Lasted(silent), codes)
}

// Cause and Sum are for the template.
func (v terminalView) CauseOf(o outageLine) string { return v.cause(o) }

// Kind is a closing's kind in words.
func (v terminalView) Kind(kind string) string {
	return map[string]string{"shift": v.T("caisse", "shift"), "day": v.T("jour", "day"), "month": v.T("mois", "month"), "year": v.T("année", "year")}[kind]
}

// Cell is a value of the packs' report by its column.
func (v terminalView) Cell(row []report.Value, key string) string {
	for i, column := range v.Packs.Columns {
		if column.Key == key {
			if row[i].Kind == report.KindInt {
				return v.N(row[i].Int)
			}
			return row[i].Text
		}
	}
	return ""
}
