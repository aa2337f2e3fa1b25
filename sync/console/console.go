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
	"database/sql"
	"embed"
	"html/template"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"grattoir/sync/central"
	"grattoir/sync/report"
)

//go:embed templates static
var files embed.FS

const (
	staleAfter = time.Minute      // a page older than this says so
	readWithin = 30 * time.Second // time for the reports of one request
	// exportWithin is that of an export, which goes on as fast as its reader takes it.
	exportWithin = 10 * time.Minute
	pageRows     = 500 // rows of a list that is not a report's
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
	signals   signalCounter
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
	c.overviewPage()
	c.fleetPages()
	c.reportPages()
	c.gamePages()
	c.packPages()
	c.conflictPages()
	c.reversalPages()
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

// address is a path with its query, without a bare question mark.
func address(path, query string) string { return (&url.URL{Path: path, RawQuery: query}).String() }
