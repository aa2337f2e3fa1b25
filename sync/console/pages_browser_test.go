package console

import (
	"context"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"grattoir/sync/central"
)

// TestPagesShowWholeInABrowser walks through every page of a seeded central, in both
// languages by turns: no error in the browser, under the pages' own policy that also
// refuses inline style and script; nothing beside the window; every chart drawn. Pictures
// are kept in test-out/console.
func TestPagesShowWholeInABrowser(t *testing.T) {
	c := seeded(t)
	server := httptest.NewServer(desk(t, Options{Central: c}, central.RoleOperator))
	defer server.Close()
	out := filepath.Join("..", "..", "test-out", "console")
	if err := os.MkdirAll(out, 0o755); err != nil {
		t.Fatal(err)
	}
	tab := browser(t)
	complaints := listen(tab)
	block := "/block/b1000000000000000000000000000001"
	for _, page := range []struct {
		name, path, shown string // shown is a selector that must be there
	}{
		{"overview", "/", ".tiles li:nth-child(7)"},
		{"overview-en", "/?lang=en", "svg.chart path.paid"},
		{"reports", "/reports", ".cards section:nth-child(10)"},
		{"report-sync", "/reports/sync?sort=unsent&down=1", "[aria-sort=descending]"},
		{"report-settlement", "/reports/settlement", "svg.chart rect.total"},
		{"report-payouts", "/reports/payouts?by=day,game&from=2026-10-30", "svg.chart rect.paid"},
		{"report-payouts-en", "/reports/payouts?lang=en", "tfoot tr"},
		{"report-prizes", "/reports/prizes", "tfoot tr"},
		{"report-liability", "/reports/liability", "svg.chart rect.paid"},
		{"report-inventory", "/reports/inventory?game=bingo&lang=en", "tfoot tr"},
		{"report-conflicts", "/reports/conflicts", "tbody tr"},
		{"report-refusals", "/reports/refusals?by=reason", "tbody tr:nth-child(3)"},
		{"report-signals", "/reports/signals", "tbody tr"},
		{"report-outages", "/reports/outages?from=2026-10-30", "svg.chart rect.unknown"},
		{"report-outages-en", "/reports/outages?by=terminal&lang=en", "tbody tr"},
		{"reversals", "/reversals", "form[action='/confirm/reversal-accept']"},
		{"confirm-reversal", "/confirm/reversal-accept?terminal=shop-0001&number=1-000004", "form[action^='/do/']"},
		{"fleet", "/fleet", "tbody tr:nth-child(100)"},
		{"fleet-filtered", "/fleet?state=missing&sort=contact&lang=en", ".on .missing"},
		{"terminal", "/terminal/shop-0000", "svg.chart rect.unknown"},
		{"terminal-never-seen", "/terminal/shop-0003?lang=en", "h2"},
		{"games", "/games", "svg.share"},
		{"block", block, "svg.chart path.paid"},
		{"block-en", block + "?lang=en", "svg.chart circle.dot"},
		{"packs", "/packs?code=400&packs=0-40", "tbody tr:nth-child(30)"},
		{"confirm-deliver", "/confirm/pack-deliver?code=400&packs=50-70&to=shop-0004", "form[action^='/do/']"},
		{"conflicts", "/conflicts?lang=en", "tbody tr"},
		{"conflict", "/conflict/shop-0001/1-000077", ".sides section:nth-child(2)"},
		{"messages", "/messages", "tbody tr"},
		{"confirm-message", "/confirm/message-send?to=all&fr=Bonjour&en=Hello&lang=en", "form[action^='/do/']"},
		{"policies", "/policies", "form.grid"},
		{"draft", "/policies/draft?version=2026-2&valid_from=2026-12-10&currency=EUR&claim_days=30&shop_limit_minor=60000", "pre"},
		{"public", "/public/prizes", "svg.share"},
	} {
		var wide string
		var picture []byte
		err := chromedp.Run(tab, chromedp.Navigate(server.URL+page.path), chromedp.WaitReady(page.shown, chromedp.ByQuery),
			chromedp.Evaluate(wideElements, &wide), chromedp.FullScreenshot(&picture, 100))
		if err != nil {
			t.Fatalf("%s: %v", page.name, err)
		}
		if wide != "" {
			t.Errorf("%s reaches beyond the window: %s", page.name, wide)
		}
		if err := os.WriteFile(filepath.Join(out, page.name+".png"), picture, 0o644); err != nil {
			t.Fatal(err)
		}
		if list := complaints(); list != "" {
			t.Errorf("%s: the browser says: %s", page.name, list)
		}
	}
	orderInBrowser(t, tab, c, server.URL)
}

// wideElements names what stands beside the window and in no box of its own that scrolls.
const wideElements = `document.documentElement.scrollWidth <= innerWidth ? "" : [...document.querySelectorAll("body *")].filter(e => e.getBoundingClientRect().right > innerWidth && !e.closest(".wide")).map(e => e.tagName + "." + e.className).slice(0, 5).join(" ")`

// listen gathers what the browser's console and its policy complain about.
func listen(tab context.Context) (complaints func() string) {
	var mu sync.Mutex
	var list []string
	chromedp.ListenTarget(tab, func(event any) {
		mu.Lock()
		defer mu.Unlock()
		switch e := event.(type) {
		case *cdplog.EventEntryAdded:
			if !strings.Contains(e.Entry.URL, "favicon") {
				list = append(list, e.Entry.Text+" "+e.Entry.URL)
			}
		case *runtime.EventExceptionThrown:
			list = append(list, e.ExceptionDetails.Error())
		}
	})
	return func() string {
		mu.Lock()
		defer mu.Unlock()
		text := strings.Join(list, "; ")
		list = nil
		return text
	}
}

// orderInBrowser delivers packs as a person does: fills the form in, looks, and confirms.
func orderInBrowser(t *testing.T, tab context.Context, c *central.Central, url string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(tab, 25*time.Second)
	defer cancel()
	form := `#act `
	var done string
	steps := []chromedp.Action{chromedp.Navigate(url + "/packs"),
		chromedp.Tasks{chromedp.SendKeys(form+`[name=code]`, "400", chromedp.ByQuery), chromedp.SendKeys(form+`[name=packs]`, "90-91", chromedp.ByQuery), chromedp.SendKeys(form+`[name=to]`, "shop-0006", chromedp.ByQuery),
			chromedp.Click(form+`button`, chromedp.ByQuery)},
		chromedp.Click(`form[action^="/do/"] button`, chromedp.ByQuery)}
	for i, step := range steps {
		if _, err := chromedp.RunResponse(ctx, step); err != nil { // each waits until the next page stands
			t.Fatalf("step %d: %v", i, err)
		}
	}
	if err := chromedp.Run(ctx, chromedp.Text(`[role=status]`, &done, chromedp.ByQuery)); err != nil {
		t.Fatal(err)
	}
	list, err := c.Packs(t.Context(), central.PackFilter{GameCode: "400", Owner: "shop-0006"})
	n := 0
	for _, p := range list {
		if p.Number == 90 || p.Number == 91 {
			n++
		}
	}
	if err != nil || n != 2 || done != "Les livrets sont livrés." {
		t.Errorf("%q, %d packs delivered: %v", done, n, err)
	}
}
