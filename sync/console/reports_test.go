package console

import (
	"context"
	"database/sql"
	"encoding/csv"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/xuri/excelize/v2"

	"grattoir/sync/central"
	"grattoir/sync/report"
	"grattoir/validate/policy"
)

// TestEveryReportHasAPageWithItsRowsInEveryForm: the page counts what the files have, says so
// in both languages, names each column, and each file is written down before it is given.
func TestEveryReportHasAPageWithItsRowsInEveryForm(t *testing.T) {
	c := seeded(t)
	h := desk(t, Options{Central: c}, central.RoleViewer)
	for _, a := range report.Kinds() {
		rows := regexp.MustCompile(`(?:lignes|rows) \d+ (?:à|to) \d+ (?:sur|of) (\d+)<`)
		page := get(t, h, "/reports/"+a.Name, 200)
		en := get(t, h, "/reports/"+a.Name+"?lang=en", 200)
		holds(t, page, a.Title.FR, "Toutes les lignes du filtre", `<form class="line" action="/reports/`+a.Name+`"`)
		holds(t, en, a.Title.EN, "All rows of the filter")
		lines, err := csv.NewReader(strings.NewReader(get(t, h, "/report/"+a.Name+".csv", 200))).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		want := "0"
		for _, text := range []string{page, en} {
			if m := rows.FindStringSubmatch(text); m != nil {
				want = m[1]
			}
			if strings.Contains(text, "d&#39;autres suivent") || strings.Contains(text, "and more<") { // what is not counted for a first page
				want = fmt.Sprint(len(lines) - 1)
			}
			if want != fmt.Sprint(len(lines)-1) || want == "0" {
				t.Errorf("%s: the page counts %s rows, the file has %d", a.Name, want, len(lines)-1)
			}
		}
		if n := strings.Count(page, `<th scope="col"`); n < len(lines[0]) {
			t.Errorf("%s: %d headings for %d columns", a.Name, n, len(lines[0]))
		}
		french := get(t, h, "/report/"+a.Name+".csv-fr", 200)
		if !strings.HasPrefix(french, "\xEF\xBB\xBF") || strings.Count(french, "\r\n") != len(lines) {
			t.Errorf("%s: %d lines of French CSV for %d", a.Name, strings.Count(french, "\r\n"), len(lines))
		}
		book, err := excelize.OpenReader(strings.NewReader(get(t, h, "/report/"+a.Name+".xlsx", 200)))
		if err != nil {
			t.Fatal(err)
		}
		if cells, err := book.GetRows(a.Name); err != nil || len(cells) != len(lines) {
			t.Errorf("%s: %d rows of a workbook for %d: %v", a.Name, len(cells), len(lines), err)
		}
		holds(t, get(t, h, "/report/"+a.Name+".table?lang=en", 200), a.Title.EN)
		audit, err := c.NewestAudit(t.Context(), 0, 4)
		if err != nil || len(audit) != 4 || audit[0].Act != "export" || !strings.HasPrefix(audit[0].About, "report "+a.Name+", table, filter ") {
			t.Errorf("%s in the audit: %+v, %v", a.Name, audit, err)
		}
	}
	for path, want := range map[string][]string{
		"/reports/payouts":                                {`class="bar paid"`, "terminaux en retard peuvent encore en annoncer"},
		"/reports/outages?from=2026-11-01":                {`class="bar unknown"`, `class="bar fault"`, `class="bar today"`, "dure encore"},
		"/reports/liability":                              {`class="bar paid"`, "Déjà forclos", "26/12"},
		"/reports/settlement":                             {`class="bar total"`, "= dû", "Aucune encore."},
		"/reports/signals":                                {"Minnesota 2012", "160 codes tapés sur 913", "indice"},
		"/reports/refusals?by=reason":                     {"PERDANT (V19)", "refuser"},
		"/reports/sync?terminal=shop-0003":                {`class="number unknown">?<`, "jamais vu"},
		"/reports/payouts?by=day&by=game&from=2026-11-20": {`name="by" value="day" checked`, `name="by" value="game" checked`},
	} {
		holds(t, get(t, h, path, 200), want...)
	}
}

// TestClosedPeriodsAreOnTheSettlementPageWithTheirArchives, which prove themselves.
func TestClosedPeriodsAreOnTheSettlementPageWithTheirArchives(t *testing.T) {
	c := seeded(t)
	h := desk(t, Options{Central: c}, central.RoleViewer)
	get(t, h, "/settlements/1.settlement", 404)
	get(t, h, "/settlements/x.settlement", 404)
	first, last := policy.Date{Year: 2026, Month: 11, Day: 1}, policy.Date{Year: 2026, Month: 11, Day: 20}
	if _, err := c.CloseSettlement(t.Context(), first, last, "anne", func(ctx context.Context, tx *sql.Tx, x central.Closing) (string, string, error) {
		closed, err := report.Close(ctx, tx, x.Number, x.Previous, x.First, x.Last, x.Operator, x.Closed)
		if err != nil {
			return "", "", err
		}
		head, lines := closed.Texts()
		return head, lines, nil
	}); err != nil {
		t.Fatal(err)
	}
	holds(t, get(t, h, "/reports/settlement", 200), "01/11/2026", "20/11/2026", "anne", `href="/settlements/1.settlement"`)
	text := get(t, h, "/settlements/1.settlement", 200)
	if closed, _, err := report.OpenArchive([]byte(text), c.PublicKey()); err != nil || closed.Number != 1 || closed.Operator != "anne" {
		t.Errorf("%+v, %v", closed, err)
	}
	if audit, err := c.NewestAudit(t.Context(), 0, 1); err != nil || audit[0].Act != "export" || audit[0].About != "settlement 1, 2026-11-01 to 2026-11-20" {
		t.Errorf("%+v, %v", audit, err)
	}
}

// TestOverviewSaysWhatWaitsAndHowTheDayGoes against numbers that a person can count.
func TestOverviewSaysWhatWaitsAndHowTheDayGoes(t *testing.T) {
	c, write := store(t)
	paid := func(n int, minor int64, at time.Time) {
		put(t, write, `INSERT INTO claims(block_id, pack, ticket, round, claim, terminal, epoch, seq, tier, amount_minor, currency, operator, paid, received)
			VALUES(?, 2, ?, 0, 'y', 'shop-0002', 1, ?, 1, ?, 'EUR', 'op', ?, '')`, []byte("block-0000000000"), n, 100+n, minor, ago(now.Sub(at)))
	}
	put(t, write, "UPDATE claims SET paid = '2020-01-01T00:00:00.000Z'")
	for week := 1; week <= 2; week++ { // 12:03:04 in Paris: 10 EUR in the ten o'clock hour, 60 in the one that runs
		paid(10*week, 10_00, now.AddDate(0, 0, -7*week).Add(-2*time.Hour))
		paid(10*week+1, 60_00, now.AddDate(0, 0, -7*week))
	}
	paid(1, 5_00, now.Add(-3*time.Hour))
	put(t, write, "INSERT INTO conflicts(terminal, epoch, seq, kind, text, line, received) VALUES('shop-0002', 1, 9, 'double-claim', '', x'7b7d', '')")
	h := desk(t, Options{Central: c}, central.RoleViewer)
	// Expected: 10 EUR, and of the 60 EUR of the hour that runs what its first 184 s would bring.
	holds(t, get(t, h, "/?lang=en", 200), `data-refresh="20000"`, `<li id="conflicts" class="alert">`, `<b>► 1</b> open conflicts`, `<b>0</b> reversals asked for`, "<dd>€5</dd>", "<dd>€13.06</dd>", "38.3%", "over 2 of the last four weeks", `<b>0</b> signals new since yesterday`)
	holds(t, get(t, h, "/", 200), "conflits ouverts", "13,06\u00a0€", "Premiers lots restants")
}

// TestSignalsAreCountedBesideThePage: who asks meanwhile does not wait for ever, and one count
// serves all until it is old.
func TestSignalsAreCountedBesideThePage(t *testing.T) {
	var s signalCounter
	var counts atomic.Int64
	do := func() (signalCount, error) { return signalCount{New: int(counts.Add(1)), At: now}, nil }
	for range 3 {
		if got := s.count(now, do); got.New != 1 {
			t.Errorf("%+v", got)
		}
	}
	if got := s.count(now.Add(signalsFor), do); got.New != 2 {
		t.Errorf("an old count is shown: %+v", got)
	}
	if got := s.count(now.Add(2*signalsFor), func() (signalCount, error) { return signalCount{}, context.DeadlineExceeded }); got.New != 2 {
		t.Errorf("a count that failed takes the last one away: %+v", got)
	}
}

// TestOverviewRenewsItselfUntilItCannot: in a real browser the numbers change with no hand on
// it, the age begins anew, and once central is away the page says that it is out of date.
func TestOverviewRenewsItselfUntilItCannot(t *testing.T) {
	c := seeded(t)
	token := desk(t, Options{Central: c}, central.RoleOperator).(signedDesk).token
	inner := newConsole(Options{Central: c, Now: func() time.Time { return now }}, 3*time.Second)
	var away atomic.Bool
	var asked atomic.Int64
	server := httptest.NewServer(signedDesk{http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(refreshHeader) != "" {
			asked.Add(1)
		}
		if away.Load() {
			http.Error(w, "away", http.StatusServiceUnavailable)
			return
		}
		inner.ServeHTTP(w, r)
	}), token})
	defer server.Close()
	tab := browser(t)
	var before string
	if err := chromedp.Run(tab, chromedp.Navigate(server.URL), chromedp.Text("#reversals b", &before, chromedp.ByQuery),
		chromedp.Evaluate(`document.querySelector("#reversals a").focus()`, nil)); err != nil || !strings.Contains(before, "1") {
		t.Fatalf("%q, %v", before, err)
	}
	list, err := c.Reversals(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	n, err := entryNumber(list[0].Number)
	if err == nil {
		_, err = c.Decide(t.Context(), list[0].Terminal, n, false, "no")
	}
	if err != nil {
		t.Fatal(err)
	}
	var held bool
	if err := chromedp.Run(tab, chromedp.Poll(`document.querySelector("#reversals b").textContent === "0" && document.getElementById("stale").hidden`, nil),
		chromedp.Evaluate(`document.activeElement === document.querySelector("#reversals a")`, &held)); err != nil || !held {
		t.Fatalf("renewed: the focus is kept: %v, %v", held, err)
	}
	away.Store(true)
	if err := chromedp.Run(tab, chromedp.WaitVisible("#stale", chromedp.ByQuery)); err != nil || asked.Load() < 2 {
		t.Errorf("%d times asked: %v", asked.Load(), err)
	}
}
