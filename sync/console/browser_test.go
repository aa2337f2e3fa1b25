package console

import (
	"context"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"grattoir/sync/central"
)

// shell is Debian's chromium-headless-shell by its real path: the wrapper in /usr/bin
// leaves the browser running when it is killed.
const shell = "/usr/lib/chromium/chromium-headless-shell"

// browser starts a browser with one tab. Without one a test skips, and fails in CI.
func browser(t *testing.T) context.Context {
	t.Helper()
	if _, err := os.Stat(shell); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("CI must have a browser: install chromium-headless-shell: %v", err)
		}
		t.Skipf("NOT TESTED IN A BROWSER: install chromium-headless-shell: %v", err)
	}
	alloc, stop := chromedp.NewExecAllocator(t.Context(), append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(shell), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.WindowSize(1600, 900))...)
	t.Cleanup(stop)
	tab, closeTab := chromedp.NewContext(alloc)
	t.Cleanup(closeTab)
	if err := chromedp.Run(tab); err != nil { // the first run starts the browser, which no deadline may end
		t.Fatal(err)
	}
	tab, cancel := context.WithTimeout(tab, 30*time.Second)
	t.Cleanup(cancel)
	return tab
}

// TestPageSaysWhenItIsOutOfDate: in a real browser under the page's own policy, the
// warning comes once the page is too old, and not before.
func TestPageSaysWhenItIsOutOfDate(t *testing.T) {
	c, _ := store(t)
	h := desk(t, Options{Central: c}, central.RoleViewer)
	tab := browser(t)
	for _, k := range []struct {
		stale time.Duration
		alarm chromedp.Action
	}{
		{time.Millisecond, chromedp.WaitVisible("#stale", chromedp.ByQuery)},
		{time.Hour, chromedp.WaitNotVisible("#stale", chromedp.ByQuery)},
	} {
		server := httptest.NewServer(signedDesk{newConsole(Options{Central: c, Now: func() time.Time { return now }}, k.stale), h.(signedDesk).token})
		var age, styled string
		err := chromedp.Run(tab, chromedp.Navigate(server.URL+"/reports/sync"), chromedp.Poll(`document.getElementById("age").textContent !== ""`, nil), k.alarm,
			chromedp.Text("#age", &age, chromedp.ByQuery),
			chromedp.Evaluate(`getComputedStyle(document.querySelector("td.number")).textAlign`, &styled))
		if err != nil {
			t.Fatalf("stale after %v: %v", k.stale, err)
		}
		if !strings.HasPrefix(age, "(il y a ") || !strings.HasSuffix(age, " s)") || styled != "right" {
			t.Errorf("age %q, numbers aligned %q: script or style did not load", age, styled)
		}
		if path := os.Getenv("GRATTOIR_SHOTS"); path != "" {
			var picture []byte
			if err := chromedp.Run(tab, chromedp.FullScreenshot(&picture, 100)); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path+"/console-"+k.stale.String()+".png", picture, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		server.Close()
	}
}

// TestSignInAndOutInARealBrowser: under the page's own policies a browser sends the Origin,
// the cookies and the tokens that forms are held against.
func TestSignInAndOutInARealBrowser(t *testing.T) {
	b := browse(t, Options{})
	addUser(t, b.Central, central.RoleOperator)
	server := httptest.NewServer(b.h)
	defer server.Close()
	tab := browser(t)
	var wrong, user, after, cookies string
	fill := func(secret string) chromedp.Action {
		return chromedp.Tasks{chromedp.WaitVisible("[name=name]", chromedp.ByQuery), chromedp.SendKeys("[name=name]", "operator", chromedp.ByQuery),
			chromedp.SendKeys("[name=password]", secret+"\r", chromedp.ByQuery)}
	}
	var picture []byte
	err := chromedp.Run(tab, chromedp.Navigate(server.URL+"/?lang=en"), fill("not the password"), chromedp.WaitVisible(".problem", chromedp.ByQuery), chromedp.Text(".problem", &wrong, chromedp.ByQuery),
		chromedp.FullScreenshot(&picture, 100),
		fill(password), chromedp.WaitVisible(".user", chromedp.ByQuery), chromedp.Text(".user", &user, chromedp.ByQuery), chromedp.Evaluate("document.cookie", &cookies),
		chromedp.Click(".bare button", chromedp.ByQuery), chromedp.WaitVisible("[name=password]", chromedp.ByQuery), chromedp.Navigate(server.URL+"/report/sync.json"), chromedp.Location(&after))
	if err != nil {
		t.Fatal(err)
	}
	if path := os.Getenv("GRATTOIR_SHOTS"); path != "" {
		if err := os.WriteFile(path+"/sign-in.png", picture, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if wrong == "" || user != "operator (operator)" || cookies != "" || !strings.Contains(after, "/sign-in?next=") {
		t.Errorf("a wrong password: %q, signed in as %q, cookies that a script sees %q, after the sign-out at %q", wrong, user, cookies, after)
	}
}
