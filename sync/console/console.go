// Package console is the pages that operations look at and act by, for users who sign in:
// reports, the fleet, terminals, games, packs, conflicts, messages and policies, with their
// filters in the address and the same numbers as JSON and CSV; and the prizes left, for
// everybody. Its acts are central's own. Each sign-in, look at personal data, export and act stands in central's
// audit before it is answered. It loads nothing from elsewhere and says how old it is.
// Start at New; pages.go says how a page or an act joins, guard.go whom the console answers,
// signin.go who is let in, orders.go how an act shows whom it touches before it is done,
// sheet.go what pages share, chart.go how they draw, view.go what the first page shows.
package console

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"grattoir/sync/central"
	"grattoir/sync/report"
	"grattoir/validate/money"
)

//go:embed templates static
var files embed.FS

const (
	staleAfter = time.Minute      // a page older than this says so
	readWithin = 30 * time.Second // time for the reports of one request
	// exportWithin is that of an export, which goes on as fast as its reader takes it.
	exportWithin = 10 * time.Minute
	pageRows     = 500 // rows of a table on the page; JSON and CSV have all
)

// Options make a console. Central is needed.
type Options struct {
	Central *central.Central
	Now     func() time.Time // central's clock; nil is time.Now
	Zone    *time.Location   // of days and of times people read; nil is Europe/Paris
	Log     *slog.Logger     // nothing is logged without one
	// TLS says that the console is served over TLS, so under any name that its certificate
	// has. Without it only loopback is answered.
	TLS bool
}

type console struct {
	opt       Options
	db        *sql.DB // central's store, read only
	mux       *http.ServeMux
	entries   []entry // of the menu
	orders    map[string]order
	public    publicPrizes
	templates *template.Template
	stale     time.Duration
}

// New gives the pages. They are safe to be served at once to many.
func New(opt Options) http.Handler { return newConsole(opt, staleAfter) }

// newConsole is New for a page that is out of date after stale, with pages of a test's own.
func newConsole(opt Options, stale time.Duration, more ...func(*console)) http.Handler {
	if opt.Now == nil {
		opt.Now = time.Now
	}
	if opt.Zone == nil {
		opt.Zone = report.Paris()
	}
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	c := &console{opt: opt, db: opt.Central.Reader(), mux: http.NewServeMux(), orders: map[string]order{}, stale: stale, templates: template.Must(template.ParseFS(files, "templates/*.html"))}
	static, err := fs.Sub(files, "static")
	if err != nil {
		panic(err) // the folder is compiled in
	}
	c.open("GET /static/", http.StripPrefix("/static/", http.FileServerFS(static)).ServeHTTP)
	c.signInPages()
	c.dashboard()
	c.fleetPages()
	c.gamePages()
	c.packPages()
	c.conflictPages()
	c.messagePages()
	c.policyPages()
	c.stopOrders()
	c.publicPages()
	c.accounts()
	for _, add := range more {
		add(c)
	}
	return c.guarded(c.mux)
}

// dashboard is the first page and its exports.
func (c *console) dashboard() {
	c.page("GET /{$}", everybody(), c.show)
	c.page("GET /report/{file}", everybody(), c.export)
	c.menu("/", everybody(), report.Text{FR: "Vue d'ensemble", EN: "Overview"})
}

// query is what an address asks for.
type query struct {
	filter report.Filter
	lang   money.Language
}

// parseQuery is strict: a key it does not know, or one given twice, would silently show
// other numbers than the reader believes to see. An empty value is a field left empty.
func parseQuery(raw string, zone *time.Location) (query, error) {
	q := query{filter: report.Filter{Zone: zone}, lang: money.French}
	values, err := url.ParseQuery(raw)
	if err != nil {
		return q, fmt.Errorf("%w: the address: %w", report.ErrFilter, err)
	}
	for key, list := range values {
		if len(list) != 1 {
			return q, fmt.Errorf("%w: %.40q is given %d times", report.ErrFilter, key, len(list))
		}
		text := strings.TrimSpace(list[0])
		var err error
		switch {
		case key == "terminal":
			q.filter.Terminal = text
		case key == "game":
			q.filter.Game = text
		case key == "from" && text != "":
			q.filter.From, err = report.ParseDay(text)
		case key == "to" && text != "":
			q.filter.To, err = report.ParseDay(text)
		case key == "lang" && text == string(money.English):
			q.lang = money.English
		case key == "from", key == "to", key == "lang" && (text == "" || text == string(money.French)):
		case key == "lang":
			err = fmt.Errorf("%w: language %.40q: want fr or en", report.ErrFilter, text)
		default:
			err = fmt.Errorf("%w: %.40q is no filter: there are terminal, game, from, to and lang", report.ErrFilter, key)
		}
		if err != nil {
			return q, err
		}
	}
	return q, nil
}

// of gives the part of the filter that a report takes.
func (q query) of(name string) report.Filter {
	if name == "sync" {
		return report.Filter{Terminal: q.filter.Terminal, Zone: q.filter.Zone}
	}
	return q.filter
}

// encode writes a filter as parseQuery reads it.
func encode(f report.Filter, lang money.Language) string {
	values := url.Values{}
	for key, text := range map[string]string{"terminal": f.Terminal, "game": f.Game, "from": f.From.String(), "to": f.To.String()} {
		if text != "" {
			values.Set(key, text)
		}
	}
	if lang == money.English {
		values.Set("lang", string(lang))
	}
	return values.Encode()
}

// address is a path with its query, without a bare question mark.
func address(path, query string) string { return (&url.URL{Path: path, RawQuery: query}).String() }

// names are the reports, in the order of the page.
func names() []string { return []string{"sync", "payouts"} }

// read makes a page of a report by name, and tells how many rows there are, -1 where that
// is not counted.
func (c *console) read(ctx context.Context, name string, q query, now time.Time) (report.Report, int, error) {
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	return report.First(ctx, c.db, name, q.of(name), now, pageRows)
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
	switch status(err) {
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		return err.Error()
	case http.StatusServiceUnavailable:
		return fmt.Sprintf("no answer from the store within %v: choose fewer days, a terminal or a game", readWithin)
	}
	if r.Context().Err() == nil { // otherwise the reader left
		c.opt.Log.Error("report not made", "path", r.URL.Path, "err", err)
	}
	return "the store could not be read: central's log says why"
}

func (c *console) show(w http.ResponseWriter, r *http.Request) {
	now := c.opt.Now()
	q, err := parseQuery(r.URL.RawQuery, c.opt.Zone)
	code := status(err)
	v := c.newView(r, q, now)
	if err != nil {
		v.Problem = c.explain(r, err)
	} else {
		for _, name := range names() {
			made, all, err := c.read(r.Context(), name, q, now)
			if err != nil {
				code = max(code, status(err))
				v.Sections = append(v.Sections, section{Name: name, Title: v.W.Titles[name], Problem: c.explain(r, err)})
				continue
			}
			v.add(made, all, q)
		}
	}
	c.render(w, r, code, "console.html", v)
}

// export serves NAME.json and NAME.csv, whole: the numbers of the page with the same query.
func (c *console) export(w http.ResponseWriter, r *http.Request) {
	name, ext, _ := strings.Cut(r.PathValue("file"), ".")
	format := report.Format(ext)
	if !slices.Contains(names(), name) || (format != report.JSON && format != report.CSV) {
		http.Error(w, "There are sync.json, sync.csv, payouts.json and payouts.csv.", http.StatusNotFound)
		return
	}
	q, err := parseQuery(r.URL.RawQuery, c.opt.Zone)
	if err == nil && name == "sync" && (q.filter.Game != "" || !q.filter.From.IsZero() || !q.filter.To.IsZero()) {
		err = fmt.Errorf("%w: the sync report can be filtered by terminal only", report.ErrFilter)
	}
	if err != nil {
		http.Error(w, c.explain(r, err), status(err))
		return
	}
	now := c.opt.Now()
	c.give(w, r, name, format, encode(q.of(name), money.French), func(ctx context.Context, to io.Writer) error {
		_, _, err := report.Stream(ctx, c.db, name, q.of(name), now, to, format, money.English)
		return err
	})
}

// give answers with a report as a file, once the audit has its filter. What was read goes to
// the reader while the rest is read; where that fails the connection is cut, so that nobody
// takes a part for the whole.
func (c *console) give(w http.ResponseWriter, r *http.Request, name string, format report.Format, filter string, write func(context.Context, io.Writer) error) {
	if r.Method == http.MethodGet && !c.note(w, r, "export", fmt.Sprintf("report %s, %s, filter %q", name, format, filter)) {
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), exportWithin)
	defer cancel()
	w.Header().Set("Content-Type", map[report.Format]string{report.JSON: "application/json", report.CSV: "text/csv; charset=utf-8; header=present"}[format])
	if format == report.CSV {
		w.Header().Set("Content-Disposition", fmt.Sprintf("attachment; filename=\"grattoir-%s-%s.csv\"", name, c.opt.Now().UTC().Format("20060102T150405Z")))
	}
	out := &flushed{w: w}
	err := write(ctx, out)
	switch {
	case err == nil || out.gone:
	case out.begun:
		c.opt.Log.Error("report not written whole", "path", r.URL.Path, "err", err)
		panic(http.ErrAbortHandler)
	default:
		w.Header().Del("Content-Disposition")
		http.Error(w, c.explain(r, err), status(err))
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
