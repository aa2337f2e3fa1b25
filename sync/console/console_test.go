package console

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	_ "github.com/mattn/go-sqlite3"

	"grattoir/sync/central"
	"grattoir/sync/ledger/people"
	"grattoir/sync/wire"
)

var now = time.Date(2026, 11, 28, 11, 3, 4, 0, time.UTC) // 12:03:04 in Paris

// store opens a real central with two terminals, one of which told hostile words, and
// claims of two games.
func store(t *testing.T) (c *central.Central, write *sql.DB) {
	t.Helper()
	dir := t.TempDir()
	c, err := central.Open(t.Context(), central.Options{Dir: dir, Now: func() time.Time { return now }, PasswordCost: people.Cost{Memory: 8, Passes: 1, Threads: 1}})
	if err != nil {
		t.Fatal(err)
	}
	write, err = sql.Open("sqlite3", "file:"+filepath.Join(dir, "central.db")+"?_busy_timeout=5000")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(write.Close(), c.Close()); err != nil {
			t.Error(err)
		}
	})
	for _, name := range []string{"shop-0001", "shop-0002"} {
		if _, err := c.AddTerminal(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	put(t, write, `UPDATE terminals SET state = 'enrolled', contact = ?, program = '<script>alert(1)</script>', faults = '["P2"]', skew_ms = 40, unsent = 7 WHERE name = 'shop-0002'`,
		wire.FormatTime(now.Add(-3*time.Hour)))
	for i, game := range []string{"bingo", "crossingo"} {
		id := []byte(fmt.Sprintf("block-%010d", i))
		put(t, write, `INSERT INTO blocks(block_id, serial, sha256, size, game, name, emission, number, game_code, tickets, first_pack, last_pack, pack_size, price_minor, currency, scaled, min_reader, published)
			VALUES(?, 1, ?, 1, ?, ?, '1', 1, '00399', 1000, 1, 20, 50, 200, 'EUR', ?, 1, ?)`, id, game, game, game, i, wire.FormatTime(now.Add(-48*time.Hour)))
		for n := range 3 {
			put(t, write, `INSERT INTO claims(block_id, pack, ticket, round, claim, terminal, epoch, seq, tier, amount_minor, currency, operator, paid, received)
				VALUES(?, 1, ?, 0, 'x', ?, 1, ?, 1, 123450, 'EUR', 'op', ?, '')`, id, n, fmt.Sprintf("shop-000%d", 1+n%2), 10*i+n, wire.FormatTime(now.Add(-24*time.Hour*time.Duration(n))))
		}
	}
	if err := c.CountClaims(t.Context()); err != nil { // they were written past central
		t.Fatal(err)
	}
	return c, write
}

func put(t *testing.T, db *sql.DB, query string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), query, args...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

func handler(t *testing.T) http.Handler {
	t.Helper()
	c, _ := store(t)
	return desk(t, Options{Central: c}, central.RoleViewer)
}

const password = "correct horse battery"

// addUser makes a user who is named as his role.
func addUser(t *testing.T, c *central.Central, role central.Role) string {
	t.Helper()
	p, err := central.NewPassword(password)
	if err == nil {
		err = c.AddUser(t.Context(), "root", string(role), role, p)
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(role)
}

// desk is the console as a user of a role sees it, who is signed in: a request that has
// no session of its own carries his.
func desk(t *testing.T, opt Options, role central.Role) http.Handler {
	t.Helper()
	opt.Now = func() time.Time { return now }
	token, _, err := opt.Central.SignIn(t.Context(), addUser(t, opt.Central, role), central.TypedPassword(password), netip.MustParseAddr("127.0.0.1"))
	if err != nil {
		t.Fatal(err)
	}
	return signedDesk{New(opt), token}
}

type signedDesk struct {
	http.Handler
	token string
}

func (d signedDesk) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if _, err := r.Cookie(sessionCookie); err != nil {
		r.AddCookie(&http.Cookie{Name: sessionCookie, Value: d.token})
	}
	d.Handler.ServeHTTP(w, r)
}

// request asks a handler under a loopback host; edit, when set, changes the request.
func request(t *testing.T, h http.Handler, method, target string, edit func(*http.Request)) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, target, nil)
	r.Host = "127.0.0.1:8088"
	if edit != nil {
		edit(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func get(t *testing.T, h http.Handler, target string, status int) string {
	t.Helper()
	w := request(t, h, http.MethodGet, target, nil)
	if w.Code != status {
		t.Fatalf("GET %s: %d, want %d: %.300s", target, w.Code, status, w.Body)
	}
	return w.Body.String()
}

func holds(t *testing.T, text string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("no %q in:\n%s", w, text)
		}
	}
}

func TestReportPagesShowTheirRowsAndTheirAge(t *testing.T) {
	h := handler(t)
	page := get(t, h, "/reports/sync", 200)
	holds(t, page, `lang="fr"`, `href="/reports/sync?lang=en"`, `fait à <time datetime="2026-11-28T11:03:04Z">12:03:04</time>`, `data-stale="60000"`, "Synchronisation des terminaux",
		`<td class="state late">en retard</td>`, `<td class="state never-seen">jamais vu</td>`, "7&#43;?", "lignes 1 à 2 sur 2")
	holds(t, get(t, h, "/reports/payouts", 200), "Paiements", "1\u202f234,50\u00a0€", "DÉMONSTRATION")
	holds(t, get(t, h, "/reports/payouts?lang=en", 200), `lang="en"`, "made at", "€1,234.50")
	holds(t, get(t, h, "/reports/sync?lang=en", 200), "never seen")
}

func TestPageEscapesWhatTerminalsTold(t *testing.T) {
	page := get(t, handler(t), "/reports/sync", 200)
	if strings.Contains(page, "<script>alert") {
		t.Error("a terminal's words became a script")
	}
	holds(t, page, "&lt;script&gt;alert(1)&lt;/script&gt;")
}

// TestPageNeedsNoInternet: every address in the page is this server's own.
func TestPageNeedsNoInternet(t *testing.T) {
	h := handler(t)
	page := get(t, h, "/reports/payouts?game=bingo", 200)
	links := regexp.MustCompile(`(?:href|src|action)="([^"]*)"`).FindAllStringSubmatch(page, -1)
	if len(links) < 8 {
		t.Fatalf("%d addresses found", len(links))
	}
	for _, l := range links {
		if l[1] != "" && (!strings.HasPrefix(l[1], "/") || strings.HasPrefix(l[1], "//")) {
			t.Errorf("the page points to %q", l[1])
		}
	}
	for _, file := range []string{"/static/console.css", "/static/console.js"} {
		if text := get(t, h, file, 200); regexp.MustCompile(`https?:|@import|url\(`).MatchString(text) {
			t.Errorf("%s loads something", file)
		}
	}
	if regexp.MustCompile(`(?i)\sstyle=|\son[a-z]+=|<style|<script>`).MatchString(page) {
		t.Error("the page has something inline, which its own policy forbids")
	}
}

func TestLinksCarryTheSameFilterAndNumbers(t *testing.T) {
	h := handler(t)
	page := get(t, h, "/reports/payouts?terminal=shop-0001&game=bingo&from=2026-11-26&to=2026-11-28&lang=en", 200)
	const filter = "from=2026-11-26&amp;game=bingo&amp;terminal=shop-0001&amp;to=2026-11-28"
	english := strings.Replace(filter, "&amp;terminal", "&amp;lang=en&amp;terminal", 1)
	holds(t, page, `href="/report/payouts.csv?`+english+`"`, `href="/report/payouts.json?`+english+`"`, `href="/report/payouts.csv-fr?`+english+`"`, `href="/report/payouts.xlsx?`+english+`"`, `href="/report/payouts.table?`+english+`"`,
		`name="terminal" value="shop-0001"`, `name="from" value="2026-11-26"`, `<option value="bingo" selected>`, `href="/reports/payouts?`+filter+`"`)

	plain := strings.ReplaceAll(filter, "&amp;", "&")
	var answer struct {
		Rows []struct {
			Amount int64 `json:"amount_minor"`
		}
	}
	if err := json.Unmarshal([]byte(get(t, h, "/report/payouts.json?"+plain, 200)), &answer); err != nil {
		t.Fatal(err)
	}
	lines, err := csv.NewReader(strings.NewReader(get(t, h, "/report/payouts.csv?"+plain, 200))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	at := slices.Index(lines[0], "amount")
	if len(answer.Rows) != 2 || len(lines) != 3 {
		t.Fatalf("%d rows of JSON, %d lines of CSV", len(answer.Rows), len(lines))
	}
	for i, row := range answer.Rows {
		cents, err := strconv.ParseInt(strings.ReplaceAll(lines[i+1][at], ".", ""), 10, 64)
		if err != nil || cents != row.Amount || cents != 123450 {
			t.Errorf("row %d: JSON %d, CSV %s, %v", i, row.Amount, lines[i+1][at], err)
		}
	}
	_, body, _ := strings.Cut(page, "<tbody>")
	body, _, _ = strings.Cut(body, "</tbody>")
	if n := strings.Count(body, "€1,234.50"); n != 2 {
		t.Errorf("the page shows the amount %d times, want 2", n)
	}
	holds(t, page, "€2,469") // the total
}

func TestExportsAreFilesOfTheirKind(t *testing.T) {
	var log bytes.Buffer
	c, _ := store(t)
	h := desk(t, Options{Central: c, Log: slog.New(slog.NewTextHandler(&log, nil))}, central.RoleViewer)
	w := request(t, h, http.MethodGet, "/report/sync.csv", nil)
	if got := w.Header().Get("Content-Disposition"); got != `attachment; filename="grattoir-sync-20261128T110304Z.csv"` {
		t.Errorf("CSV: %q", got)
	}
	if got := w.Header().Get("Content-Type"); !strings.HasPrefix(got, "text/csv") {
		t.Errorf("CSV: %q", got)
	}
	if got := request(t, h, http.MethodGet, "/report/sync.json", nil).Header().Get("Content-Type"); got != "application/json" {
		t.Errorf("JSON: %q", got)
	}
	lines, err := c.NewestAudit(t.Context(), 0, 2)
	if err != nil || len(lines) != 2 || lines[1].Act != "export" || lines[1].Operator != "viewer" || !strings.Contains(lines[1].About, "report sync, csv, filter") {
		t.Errorf("the exports in the audit: %+v, %v", lines, err)
	}
	for _, target := range []string{"/report/sync", "/report/sync.xml", "/report/other.csv", "/reports/other", "/other"} {
		get(t, h, target, 404)
	}
}

func TestFiltersInTheAddressAreStrict(t *testing.T) {
	h := handler(t)
	for _, q := range []string{"terminal=shop-9", "game=bing", "from=28/11/2026", "from=2026-11-28&to=2026-11-27", "Game=bingo", "game=bingo&game=crossingo", "state=late", "lang=de", "game=%zz", "a;b",
		"by=luck", "by=day&by=luck", "sort=luck", "after=x", "block=00"} {
		holds(t, get(t, h, "/reports/payouts?"+q, 400), `role="alert"`, `action="/reports/payouts"`)
		get(t, h, "/report/payouts.csv?"+q, 400)
	}
	get(t, h, "/report/sync.csv?game=bingo", 400)                // must not answer with all games
	get(t, h, "/report/sync.csv?sort=contact", 400)              // nor in another order than it has
	get(t, h, "/?terminal=shop-0001", 400)                       // the overview has no filter
	get(t, h, "/reports/payouts?terminal=&game=&from=&to=", 200) // fields left empty
}

func TestConsoleAnswersLoopbackOnly(t *testing.T) {
	h := handler(t)
	for host, want := range map[string]int{"localhost": 200, "LOCALHOST:8088": 200, "127.0.0.1": 200, "[::1]:8088": 200, "127.9.9.9:1": 200,
		"central.example.org": 421, "10.0.0.1:8088": 421, "localhost.example.org": 421, "127.0.0.1.nip.io": 421, "": 421} {
		if w := request(t, h, http.MethodGet, "/", func(r *http.Request) { r.Host = host }); w.Code != want {
			t.Errorf("Host %q: %d, want %d", host, w.Code, want)
		}
	}
	for site, want := range map[string]int{"": 200, "none": 200, "same-origin": 200, "same-site": 403, "cross-site": 403} {
		if w := request(t, h, http.MethodGet, "/report/sync.json", func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", site) }); w.Code != want {
			t.Errorf("Sec-Fetch-Site %q: %d, want %d", site, w.Code, want)
		}
	}
}

func TestReportsOnlyShow(t *testing.T) {
	h := handler(t)
	for _, method := range []string{"POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"} {
		for _, target := range []string{"/", "/reports/sync", "/report/sync.json", "/static/console.js"} {
			if w := request(t, h, method, target, nil); w.Code != 405 || w.Header().Get("Allow") != "GET, HEAD" {
				t.Errorf("%s %s: %d, Allow %q", method, target, w.Code, w.Header().Get("Allow"))
			}
		}
	}
	if w := request(t, h, http.MethodHead, "/", nil); w.Code != 200 {
		t.Errorf("HEAD: %d", w.Code)
	}
}

func TestEveryAnswerCarriesThePolicy(t *testing.T) {
	h := handler(t)
	for _, target := range []string{"/", "/?x=y", "/report/sync.csv", "/static/console.js", "/nothing"} {
		w := request(t, h, http.MethodGet, target, nil)
		csp := w.Header().Get("Content-Security-Policy")
		if !strings.HasPrefix(csp, "default-src 'none'") || strings.Contains(csp, "unsafe") || !strings.Contains(csp, "frame-ancestors 'none'") {
			t.Errorf("%s: policy %q", target, csp)
		}
		if w.Header().Get("X-Content-Type-Options") != "nosniff" || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%s: headers %v", target, w.Header())
		}
	}
}

// TestPagesOfAReportHaveEachRowOnce: in the report's own order and in that of columns, up and
// down, with rows that come and go between two pages; the file has all of them.
func TestPagesOfAReportHaveEachRowOnce(t *testing.T) {
	c, write := store(t)
	tx, err := write.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 300 {
		if _, err := tx.ExecContext(t.Context(), "INSERT INTO terminals(name, state, added, ack_hash, region, unsent, skew_ms) VALUES(?, 'never-seen', '', '', ?, ?, ?)", fmt.Sprintf("x-%04d", i), fmt.Sprint("r", i%7), i%5, 1); err != nil {
			t.Fatal(err)
		}
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	h := desk(t, Options{Central: c}, central.RoleViewer)
	row := regexp.MustCompile(`<a href="/terminal/([^"?]+)[^"]*">`)
	next := regexp.MustCompile(`href="([^"]+)" rel="next"`)
	for _, order := range []string{"", "?sort=region", "?sort=unsent&down=1", "?sort=contact"} {
		seen, values := map[string]int{}, []string{}
		pages := 0
		for path := "/reports/sync" + order; path != ""; pages++ {
			page := get(t, h, path, 200)
			holds(t, page, `<span class="state never-seen">`, "&#43;?") // the parts and the totals are of all pages
			for _, m := range row.FindAllStringSubmatch(page, -1) {
				seen[m[1]]++
				values = append(values, m[1])
			}
			path = ""
			if m := next.FindStringSubmatch(page); m != nil {
				path = html.UnescapeString(m[1])
			}
			if pages == 0 {
				if order != "" { // in the report's own order nothing but the row itself tells its place
					put(t, write, "DELETE FROM terminals WHERE name = ?", values[len(values)-1]) // the row that the next page begins behind
				}
				put(t, write, "INSERT INTO terminals(name, state, added, ack_hash) VALUES(?, 'never-seen', '', '')", fmt.Sprint("a-", len(order)))
			}
		}
		if pages != 4 && pages != 3 {
			t.Errorf("%q: %d pages", order, pages)
		}
		for i := range 300 {
			name := fmt.Sprintf("x-%04d", i)
			var there int
			if err := write.QueryRowContext(t.Context(), "SELECT count(*) FROM terminals WHERE name = ?", name).Scan(&there); err != nil {
				t.Fatal(err)
			}
			if seen[name] != 1 && (there == 1 || seen[name] > 1) {
				t.Errorf("%q: %s is shown %d times", order, name, seen[name])
			}
		}
	}
	if n := strings.Count(get(t, h, "/report/sync.csv", 200), "\r\n"); n != 304 {
		t.Errorf("%d lines of CSV, want 304", n)
	}
}

func TestBrokenStoreIsToldWithoutItsInsides(t *testing.T) {
	var log bytes.Buffer
	c, write := store(t)
	put(t, write, "DROP TABLE conflicts")
	h := desk(t, Options{Central: c, Log: slog.New(slog.NewTextHandler(&log, nil))}, central.RoleViewer)
	for _, target := range []string{"/", "/reports/sync", "/report/payouts.csv"} {
		if text := get(t, h, target, 500); strings.Contains(text, "no such table") {
			t.Errorf("%s shows the store's own words", target)
		}
	}
	if !strings.Contains(log.String(), "no such table") {
		t.Errorf("the log does not say what failed: %s", &log)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	log.Reset()
	request(t, h, http.MethodGet, "/", func(r *http.Request) { *r = *r.WithContext(ctx) })
	if log.Len() > 0 {
		t.Errorf("a reader who left is logged as a fault: %s", &log)
	}
}
