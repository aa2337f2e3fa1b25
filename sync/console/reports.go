package console

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"grattoir/sync/central"
	"grattoir/sync/report"
	"grattoir/validate/money"
)

// reportPages are a page for every report there is, from one template that its columns
// drive, and the same rows as files.
func (c *console) reportPages() {
	c.page("GET /reports", everybody(), c.showReports)
	c.page("GET /reports/{name}", everybody(), c.showReport)
	c.page("GET /report/{file}", everybody(), c.exportReport)
	c.page("GET /settlements/{file}", everybody(), c.exportSettlement)
	c.menu("/reports", everybody(), report.Text{FR: "Rapports", EN: "Reports"})
}

// reportRows is how many rows a page of a report has; files have all.
const reportRows = 100

// reportQuery is what an address asks of a report.
type reportQuery struct {
	about  report.About
	filter report.Filter
	sort   string // a column's key, "" for the report's own order
	down   bool   // the highest first
	after  string // the last row of the page before, see mark
}

// parseReport is strict: what it does not know would show other numbers than the reader
// believes to see. Words of By may come one by one, as a form's boxes send them.
func parseReport(a report.About, raw string, zone *time.Location) (q reportQuery, err error) {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return q, report.Wrongf("l'adresse : %v", "the address: %v", err)
	}
	if words := values["by"]; len(words) > 1 {
		values.Set("by", strings.Join(words, ","))
	}
	known := append(slices.Clone(a.Filters), "sort", "down", "after")
	if a.By != nil {
		known = append(known, "by")
	}
	if err := check(values, known); err != nil {
		return q, err
	}
	get := func(name string) string { return values.Get(name) }
	q = reportQuery{about: a, sort: get("sort"), down: get("down") != "", after: get("after"),
		filter: report.Filter{Terminal: get("terminal"), Shop: get("shop"), Region: get("region"), Game: get("game"), By: get("by"), Zone: zone}}
	if text := get("block"); text != "" {
		if err := q.filter.Block.UnmarshalText([]byte(text)); err != nil {
			return q, report.Wrongf("%.40q n'est pas un bloc : la page des jeux a les identifiants", "%.40q is no block: the page of games has the ids", text)
		}
	}
	for name, day := range map[string]*report.Day{"from": &q.filter.From, "to": &q.filter.To} {
		if text := get(name); text != "" {
			if *day, err = report.ParseDay(text); err != nil {
				return q, err
			}
		}
	}
	return q, nil
}

// pairs are the query as names and values by turns, as sheet.Link takes them.
func (q reportQuery) pairs(paging bool) []string {
	f := q.filter
	list := []string{"terminal", f.Terminal, "shop", f.Shop, "region", f.Region, "game", f.Game, "from", f.From.String(), "to", f.To.String(), "by", f.By}
	if f.Block != (report.Filter{}).Block {
		list = append(list, "block", f.Block.String())
	}
	if paging {
		down := ""
		if q.down {
			down = "1"
		}
		list = append(list, "sort", q.sort, "down", down, "after", q.after)
	}
	return list
}

// link is the address of the query on its page.
func (q reportQuery) link(s sheet) string { return s.Link("/reports/"+q.about.Name, q.pairs(true)...) }

// readReport makes the rows that the query's page needs and how many there are, -1 where that is
// not counted: the first page in the report's own order is read by itself, and any other is
// cut out of all rows.
func (c *console) readReport(ctx context.Context, q reportQuery, now time.Time) (made report.Report, all int, err error) {
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	if q.sort == "" && q.after == "" {
		return report.First(ctx, c.db, q.about.Name, q.filter, now, reportRows)
	}
	made, err = report.Make(ctx, c.db, q.about.Name, q.filter, now)
	return made, len(made.Rows), err
}

// mark is the place behind a row, as an address carries it: a page begins behind a row and
// not at a number, so that rows that came or went move no other over its edge.
type mark struct {
	Key   sortKey `json:"k"`           // in the column sorted by
	ID    string  `json:"i"`           // of the row, see identities
	Place int     `json:"n,omitempty"` // in the report's own order, for where the row is gone
}

// sortKey is what a value is ordered by: what is not known lies behind all others.
type sortKey struct {
	Unknown bool   `json:"u,omitempty"`
	Number  int64  `json:"n,omitempty"` // times in milliseconds
	Text    string `json:"t,omitempty"`
}

func keyOf(v report.Value) sortKey {
	switch {
	case !v.Known:
		return sortKey{Unknown: true}
	case v.Kind == report.KindTime:
		return sortKey{Number: v.Time.UnixMilli()}
	}
	return sortKey{Number: v.Int, Text: v.Text}
}

func (k sortKey) compare(o sortKey, down bool) int {
	if k.Unknown != o.Unknown {
		return map[bool]int{true: 1, false: -1}[k.Unknown]
	}
	n := cmp.Or(cmp.Compare(k.Number, o.Number), strings.Compare(k.Text, o.Text))
	if down {
		return -n
	}
	return n
}

func (m mark) String() string {
	text, _ := json.Marshal(m) // plain values: it cannot fail
	return base64.RawURLEncoding.EncodeToString(text)
}

func parseMark(text string) (m mark, err error) {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		err = json.Unmarshal(raw, &m)
	}
	if err != nil || m.Place < 0 {
		return m, report.Wrongf("%.40q n'est pas la fin d'une page : reprenez à la première page", "%.40q is no end of a page: begin at the first page", text)
	}
	return m, nil
}

// naming are the columns by which a row is told from others: what it is about, not what is
// counted in it.
func naming() []string {
	return []string{"terminal", "shop", "region", "day", "game", "emission", "block", "block_id", "tier", "demonstration", "currency", "number", "code", "cause", "began", "signal", "said_by", "outcome", "reason", "received"}
}

// identities names each row; rows that are about the same are told apart by their turn.
func identities(r report.Report) []string {
	var at []int
	for i, column := range r.Columns {
		if slices.Contains(naming(), column.Key) {
			at = append(at, i)
		}
	}
	list, seen := make([]string, len(r.Rows)), map[string]int{}
	for n, row := range r.Rows {
		parts := make([]string, len(at))
		for i, column := range at {
			v := row[column]
			parts[i] = v.Text
			switch v.Kind {
			case report.KindInt:
				parts[i] = fmt.Sprint(v.Int)
			case report.KindTime:
				parts[i] = fmt.Sprint(v.Time.UnixMilli())
			}
		}
		id := strings.Join(parts, "\x1f")
		list[n] = fmt.Sprintf("%s\x1f%d", id, seen[id])
		seen[id]++
	}
	return list
}

// page puts the rows of a report into the query's order and gives those of its page: their
// places in the report, how many lie before them, and the mark of the next page, "" at the end.
//
// All is how many rows the report has, -1 for more than are here.
func (q reportQuery) page(r report.Report, all int) (rows []int, before int, next string, err error) {
	ids := identities(r)
	order := make([]int, len(r.Rows))
	for i := range order {
		order[i] = i
	}
	column := slices.IndexFunc(r.Columns, func(c report.Column) bool { return c.Key == q.sort })
	if q.sort != "" && column < 0 {
		return nil, 0, "", report.Wrongf("ordre %.40q : ce rapport n'a pas cette colonne", "sort %.40q: this report has no such column", q.sort)
	}
	compare := func(k sortKey, id string, i int) int {
		return cmp.Or(k.compare(keyOf(r.Rows[i][column]), q.down), strings.Compare(id, ids[i]))
	}
	if q.sort != "" {
		slices.SortFunc(order, func(a, b int) int { return compare(keyOf(r.Rows[a][column]), ids[a], b) })
	}
	if q.after != "" {
		m, err := parseMark(q.after)
		if err != nil {
			return nil, 0, "", err
		}
		if q.sort != "" {
			before, _ = slices.BinarySearchFunc(order, m, func(i int, m mark) int {
				if compare(m.Key, m.ID, i) < 0 {
					return 1
				}
				return -1 // rows up to the mark were shown
			})
		} else if before = slices.Index(ids, m.ID) + 1; before == 0 {
			before = min(m.Place, len(order))
		}
	}
	rows = order[before:min(before+reportRows, len(order))]
	if end := before + len(rows); len(rows) > 0 && (end < all || all < 0) {
		last := rows[len(rows)-1]
		m := mark{ID: ids[last]}
		if q.sort != "" {
			m.Key = keyOf(r.Rows[last][column])
		} else {
			m.Place = end
		}
		next = m.String()
	}
	return rows, before, next, nil
}

// choice is one of the values that a filter can have.
type choice struct {
	Value, Title string
	On           bool
}

// filterField is a field of the form above a report.
type filterField struct {
	Name, Title, Value, Type string
	Choices                  []choice // of a list; nil for what is typed
}

// cell is a text with the classes that say how it looks, and where it leads.
type cell struct{ Text, Class, Address, Hint string }

type reportView struct {
	sheet
	Query       reportQuery
	What        string
	Kinds       []link // of all reports
	Fields      []filterField
	By          []choice
	Many        bool // several words of By may be chosen
	States      []chip
	Heads       []head
	Rows        [][]cell
	Totals      [][]cell
	Shown       string // which rows of how many
	First, Next string
	Clear       string
	Exports     []link
	Plot        any // the chart's SVG, nil where there is none
	PlotTitle   string
	PlotNote    string
	Rules       []report.SignalRule // of the signals' page
	Closed      []closedPeriod      // of the settlement's page, the newest first
	More        int                 // closed periods that are not shown
}

func (c *console) showReports(w http.ResponseWriter, r *http.Request) {
	v := struct {
		sheet
		Kinds []reportLine
	}{sheet: c.sheet(r, report.Text{FR: "Rapports", EN: "Reports"})}
	v.Stale = 0
	if _, err := onlyKeys(r.URL.RawQuery); err != nil {
		v.Problem = c.told(r, err)
	}
	for _, a := range report.Kinds() {
		v.Kinds = append(v.Kinds, reportLine{a.Title.In(v.lang), a.What.In(v.lang), v.usual(a.Name)})
	}
	c.render(w, r, http.StatusOK, "reports.html", v)
}

type reportLine struct{ Title, What, Address string }

// usualDays is how far back the menu's addresses of what happens every day go.
const usualDays = 30

// usual is the address of a report as the menu opens it: what grows without end is bounded,
// in the address, so that whoever wants more sees what to change.
func (s sheet) usual(name string) string {
	y, m, d := s.now.In(s.zone).AddDate(0, 0, 1-usualDays).Date()
	from := report.Day{Year: y, Month: m, Day: d}.String()
	switch name {
	case "payouts":
		return s.Link("/reports/payouts", "by", "day,game", "from", from)
	case "outages", "refusals", "conflicts", "signals":
		return s.Link("/reports/"+name, "from", from)
	}
	return s.Link("/reports/" + name)
}

func (c *console) showReport(w http.ResponseWriter, r *http.Request) {
	a, ok := report.KindOf(r.PathValue("name"))
	if !ok {
		c.refuse(w, r, http.StatusNotFound, c.told(r, report.Wrongf("il n'y a pas de rapport %.40q", "there is no report %.40q", r.PathValue("name"))))
		return
	}
	v := reportView{sheet: c.sheet(r, a.Title), What: a.What.In(languageOf(r)), Query: reportQuery{about: a}}
	for _, k := range report.Kinds() {
		v.Kinds = append(v.Kinds, link{v.usual(k.Name), k.Title.In(v.lang), k.Name == a.Name})
	}
	v.Clear = v.Link("/reports/" + a.Name)
	q, err := parseReport(a, r.URL.RawQuery, c.opt.Zone)
	if err == nil {
		v.Query = q
		err = c.fillReport(r.Context(), &v)
	}
	if ferr := c.fillFields(r.Context(), &v); err == nil {
		err = ferr
	}
	if err != nil {
		v.Problem = c.told(r, err)
	}
	c.render(w, r, status(err), "report.html", v)
}

// fillReport makes the report and puts its page into the view.
func (c *console) fillReport(ctx context.Context, v *reportView) error {
	q := v.Query
	made, all, err := c.readReport(ctx, q, v.now)
	if err != nil {
		return err
	}
	rows, before, next, err := q.page(made, all)
	if err != nil {
		return err
	}
	for _, i := range rows {
		v.Rows = append(v.Rows, v.cells(made, made.Rows[i]))
	}
	for _, row := range made.Totals {
		v.Totals = append(v.Totals, v.totals(made, row))
	}
	from, to := count(int64(min(before+1, len(made.Rows)))), count(int64(before+len(rows)))
	if v.Shown = fmt.Sprintf(v.T("lignes %s à %s sur %s", "rows %s to %s of %s"), from, to, count(int64(all))); all < 0 {
		v.Shown = fmt.Sprintf(v.T("lignes %s à %s, d'autres suivent", "rows %s to %s, and more"), from, to)
	}
	first := q
	if first.after = ""; q.after != "" {
		v.First = first.link(v.sheet)
	}
	if next != "" {
		more := q
		more.after = next
		v.Next = more.link(v.sheet)
	}
	for _, p := range made.Parts {
		v.States = append(v.States, chip{p.Key, p.Title.In(v.lang), p.Count, v.Link("/fleet", "state", p.Key, "region", q.filter.Region), false})
	}
	v.heads(made)
	v.exports()
	switch q.about.Name {
	case "signals":
		v.Rules = report.SignalRules()
	case "settlement":
		if err := c.fillClosed(ctx, v); err != nil {
			return err
		}
	}
	return c.plotReport(ctx, v, made, all == len(made.Rows))
}

// closedPeriod is a settlement that never changes again.
type closedPeriod struct {
	central.Settlement
	Archive string // address
}

// closedShown is how many closed periods the page has: two years of months.
const closedShown = 24

func (c *console) fillClosed(ctx context.Context, v *reportView) error {
	list, err := c.opt.Central.Settlements(ctx)
	if err != nil {
		return err
	}
	for _, s := range list[:min(len(list), closedShown)] {
		v.Closed = append(v.Closed, closedPeriod{s, fmt.Sprintf("/settlements/%d.settlement", s.Number)})
	}
	v.More = len(list) - len(v.Closed)
	return nil
}

// exportSettlement gives the archive of a closed period, which central settlement verify
// proves anywhere. It is held against central's signature before it leaves.
func (c *console) exportSettlement(w http.ResponseWriter, r *http.Request) {
	text, _, ok := strings.Cut(r.PathValue("file"), ".settlement")
	number, err := strconv.ParseInt(text, 10, 64)
	if !ok || err != nil || number < 1 {
		http.Error(w, c.told(r, report.Wrongf("il faut un numéro, comme 3.settlement", "want a number, like 3.settlement")), http.StatusNotFound)
		return
	}
	s, err := c.opt.Central.Settlement(r.Context(), number)
	var archive string
	if err == nil {
		archive = report.Archive(s.Note, s.Lines)
		_, _, err = report.OpenArchive([]byte(archive), c.opt.Central.PublicKey())
	}
	if err != nil {
		http.Error(w, c.told(r, err), statusOf(err))
		return
	}
	if r.Method == http.MethodGet && !c.note(w, r, "export", fmt.Sprintf("settlement %d, %v to %v", s.Number, s.First, s.Last)) {
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Content-Disposition", fmt.Sprintf("attachment; filename=\"grattoir-%d.settlement\"", s.Number))
	_, _ = io.WriteString(w, archive) // an error here is the reader's connection
}

// heads are the columns; each leads to the rows in its order, and again to the other way round.
func (v *reportView) heads(made report.Report) {
	for _, column := range made.Columns {
		q := v.Query
		here := q.sort == column.Key
		q.sort, q.after, q.down = column.Key, "", here && !q.down || !here && class(column.Kind) == "number"
		h := head{Title: column.Title.In(v.lang), Class: class(column.Kind), Address: q.link(v.sheet)}
		if here {
			h.Sorted = map[bool]string{false: "ascending", true: "descending"}[v.Query.down]
		}
		v.Heads = append(v.Heads, h)
	}
}

// exports are the files of all rows of the filter, in every form there is.
func (v *reportView) exports() {
	for _, f := range report.Formats() {
		title := map[report.Format]string{report.Table: v.T("texte", "text"), report.JSON: "JSON", report.CSV: "CSV", report.CSVFrench: v.T("CSV (Excel français)", "CSV (French Excel)"), report.XLSX: "Excel (xlsx)"}[f]
		v.Exports = append(v.Exports, link{Address: v.Link("/report/"+v.Query.about.Name+"."+string(f), v.Query.pairs(false)...), Title: title})
	}
}

// fillFields makes the form, with what was asked for in it also where that was wrong.
func (c *console) fillFields(ctx context.Context, v *reportView) error {
	a, f := v.Query.about, v.Query.filter
	blocks, err := c.opt.Central.Blocks(ctx)
	if err != nil {
		return err
	}
	var games, ids []choice
	for _, b := range blocks {
		if !slices.ContainsFunc(games, func(x choice) bool { return x.Value == b.Game }) {
			games = append(games, choice{b.Game, b.Game, b.Game == f.Game})
		}
		ids = append(ids, choice{b.ID.String(), fmt.Sprintf("%s %s %s %d", b.Game, b.Emission, v.T("bloc", "block"), b.Number), b.ID == f.Block})
	}
	for _, name := range a.Filters {
		field := filterField{Name: name, Type: "text"}
		switch name {
		case "terminal":
			field.Title, field.Value = v.T("terminal", "terminal"), f.Terminal
		case "shop":
			field.Title, field.Value = v.T("point de vente", "shop"), f.Shop
		case "region":
			field.Title, field.Value = v.T("région", "region"), f.Region
		case "game":
			field.Title, field.Choices = v.T("jeu", "game"), append([]choice{{}}, games...)
		case "block":
			field.Title, field.Choices = v.T("bloc", "block"), append([]choice{{}}, ids...)
		case "from":
			field.Title, field.Value, field.Type = v.T("du (jour)", "from (day)"), f.From.String(), "date"
		case "to":
			field.Title, field.Value, field.Type = v.T("au (jour)", "to (day)"), f.To.String(), "date"
		}
		v.Fields = append(v.Fields, field)
	}
	many := a.Name == "payouts" || a.Name == "refusals"
	for _, word := range a.By {
		on := slices.Contains(strings.Split(f.By, ","), word) || f.By == "" && !many && word == a.By[0]
		v.By = append(v.By, choice{word, v.byWord(word), on})
	}
	v.Many = many
	return nil
}

// byWord is what rows are told apart by, in words.
func (s sheet) byWord(word string) string {
	text, ok := map[string]report.Text{"day": {FR: "jour", EN: "day"}, "game": {FR: "jeu", EN: "game"}, "block": {FR: "bloc", EN: "block"}, "shop": {FR: "point de vente", EN: "shop"},
		"terminal": {FR: "terminal", EN: "terminal"}, "reason": {FR: "motif", EN: "reason"}, "outage": {FR: "une à une", EN: "one by one"}}[word]
	if !ok {
		return word
	}
	return text.In(s.lang)
}

// exportReport serves NAME.FORMAT, whole: the rows of the page with the same query, on all
// pages. The audit has it before the first byte.
func (c *console) exportReport(w http.ResponseWriter, r *http.Request) {
	name, ext, _ := strings.Cut(r.PathValue("file"), ".")
	format := report.Format(ext)
	a, ok := report.KindOf(name)
	if !ok || !slices.Contains(report.Formats(), format) {
		names := []string{}
		for _, a := range report.Kinds() {
			names = append(names, a.Name)
		}
		http.Error(w, c.told(r, report.Wrongf("il y a %s, chacun en %v", "there are %s, each as one of %v", strings.Join(names, ", "), report.Formats())), http.StatusNotFound)
		return
	}
	q, err := parseReport(a, r.URL.RawQuery, c.opt.Zone)
	if err == nil && (q.after != "" || q.sort != "" || q.down) {
		err = report.Wrongf("un fichier a toutes les lignes, dans l'ordre du rapport : sans sort, down ni after", "a file has all rows, in the report's order: without sort, down and after")
	}
	if err != nil {
		http.Error(w, c.told(r, err), status(err))
		return
	}
	now := c.opt.Now()
	c.give(w, r, name, format, filterWords(q), func(ctx context.Context, to io.Writer) error {
		_, _, err := report.Stream(ctx, c.db, name, q.filter, now, to, format, languageOf(r))
		return err
	})
}

// filterWords is a filter as the audit has it.
func filterWords(q reportQuery) string {
	values := url.Values{}
	for pairs := range slices.Chunk(q.pairs(false), 2) {
		if pairs[1] != "" {
			values.Set(pairs[0], pairs[1])
		}
	}
	return values.Encode()
}

// give answers with a report as a file, once the audit has its filter. What was read goes to
// the reader while the rest is read; where that fails the connection is cut, so that nobody
// takes a part for the whole.
func (c *console) give(w http.ResponseWriter, r *http.Request, name string, format report.Format, filter string, write func(context.Context, io.Writer) error) {
	if r.Method == http.MethodGet && !c.note(w, r, "export", fmt.Sprintf("report %s, %s, filter %q", name, format, filter)) {
		return
	}
	w.Header().Set("Content-Type", map[report.Format]string{report.JSON: "application/json", report.CSV: "text/csv; charset=utf-8; header=present", report.CSVFrench: "text/csv; charset=utf-8; header=present",
		report.Table: "text/plain; charset=utf-8", report.XLSX: "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"}[format])
	end := map[report.Format]string{report.CSVFrench: "fr.csv", report.Table: "txt"}[format]
	if end = cmp.Or(end, string(format)); format != report.JSON {
		w.Header().Set("Content-Disposition", fmt.Sprintf("attachment; filename=\"grattoir-%s-%s.%s\"", name, c.opt.Now().UTC().Format("20060102T150405Z"), end))
	}
	if r.Method == http.MethodHead {
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), exportWithin)
	defer cancel()
	out := &flushed{w: w}
	err := write(ctx, out)
	switch {
	case err == nil || out.gone:
	case out.begun:
		c.opt.Log.Error("a file was not written whole", "path", r.URL.Path, "err", err)
		panic(http.ErrAbortHandler)
	default:
		w.Header().Del("Content-Disposition")
		http.Error(w, c.told(r, err), status(err))
	}
}

// flushed sends on at once what is written.
type flushed struct {
	w           http.ResponseWriter
	begun, gone bool
}

func (f *flushed) Write(p []byte) (int, error) {
	f.begun = true
	n, err := f.w.Write(p)
	if err == nil {
		if err = http.NewResponseController(f.w).Flush(); errors.Is(err, http.ErrNotSupported) {
			err = nil
		}
	}
	f.gone = f.gone || err != nil
	return n, err
}

// status is the HTTP status of a report that could not be made.
func status(err error) int {
	switch {
	case err == nil:
		return http.StatusOK
	case errors.Is(err, report.ErrFilter):
		return http.StatusBadRequest
	case errors.Is(err, report.ErrTooLarge):
		return http.StatusUnprocessableEntity
	case errors.Is(err, context.DeadlineExceeded):
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

// explain gives the reader's words for an error. What is central's own fault is logged
// whole and shown without its insides.
func (c *console) explain(r *http.Request, err error) string {
	in := func(fr, en string) string { return report.Text{FR: fr, EN: en}.In(languageOf(r)) }
	var wrong *report.Wrong
	switch status(err) {
	case http.StatusBadRequest:
		if errors.As(err, &wrong) {
			return wrong.Text.In(languageOf(r))
		}
		return err.Error()
	case http.StatusUnprocessableEntity:
		return fmt.Sprintf(in("plus de %s lignes : choisissez moins de jours, un point de vente ou un jeu", "more than %s rows: choose fewer days, a shop or a game"), count(report.MaxRows))
	case http.StatusServiceUnavailable:
		return fmt.Sprintf(in("pas de réponse de la base en %v : choisissez moins de jours, un terminal ou un jeu", "no answer from the store within %v: choose fewer days, a terminal or a game"), readWithin)
	}
	if r.Context().Err() == nil { // otherwise the reader left
		c.opt.Log.Error("report not made", "path", r.URL.Path, "err", err)
	}
	return in("la base n'a pas pu être lue : le journal du centre dit pourquoi", "the store could not be read: central's log says why")
}

// check refuses a key that a page does not know, or one given twice: it would show other
// numbers than the reader believes to see.
func check(values url.Values, known []string) error {
	for _, key := range slices.Sorted(maps.Keys(values)) {
		list := values[key]
		if !slices.Contains(known, key) && key != "lang" && key != "done" {
			return report.Wrongf("%.40q n'est pas un filtre : il y a %s", "%.40q is no filter: there are %s", key, strings.Join(known, ", "))
		}
		if len(list) != 1 && key != "by" {
			return report.Wrongf("%.40q est donné %d fois", "%.40q is given %d times", key, len(list))
		}
		values.Set(key, strings.TrimSpace(list[0]))
	}
	if lang := values.Get("lang"); lang != "" && lang != string(money.French) && lang != string(money.English) {
		return report.Wrongf("langue %.40q : il y a fr et en", "language %.40q: want fr or en", lang)
	}
	return nil
}

// Name is the report's, for the template.
func (q reportQuery) Name() string { return q.about.Name }
