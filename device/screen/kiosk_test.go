package screen

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"grattoir/device/terminal"
	"grattoir/validate"
	"grattoir/validate/money"
)

// keys taps digits on the page's keypad.
func keys(t *testing.T, tab context.Context, digits string) {
	t.Helper()
	for _, d := range digits {
		clickNow(t, tab, fmt.Sprintf(`[data-digit="%c"]`, d), 1)
	}
}

// pastGuard lets the time go by, on the page's own clock, in which a press would be taken for
// one on the view before: where a press cannot be repeated until it works.
func pastGuard(t *testing.T, tab context.Context) {
	t.Helper()
	run(t, tab, "guard", chromedp.Evaluate(`new Promise(done => setTimeout(done, 2 * Number(document.body.dataset.guard)))`, nil, awaitPromise))
}

// typed is true while the keypad shows a text.
func typed(expression string) string {
	return `document.getElementById("typed")?.textContent === "` + expression + `"`
}

// TestBrowserClerkSignsOnAndAScanOverAnyDialogWins: the whole way on the glass, by touch and
// by keys; what is half typed when a ticket is scanned is gone, and the verdict is there.
func TestBrowserClerkSignsOnAndAScanOverAnyDialogWins(t *testing.T) {
	c := staffed(t)
	c.guard = 50 * time.Millisecond
	server := httptest.NewServer(c.Handler())
	t.Cleanup(server.Close)
	t.Cleanup(c.Close)
	tab := browser(t)
	run(t, tab, "load", chromedp.EmulateViewport(800, 480), chromedp.Navigate(server.URL))
	clickUntil(t, tab, "#sign", `document.getElementById("who-anne")`)
	clickUntil(t, tab, "#who-anne", `document.querySelector("[data-point=',']")`)
	run(t, tab, "too many digits", chromedp.KeyEvent("1234567890"))
	awaitJS(t, tab, typed("123456,78"))
	run(t, tab, "erased", chromedp.KeyEvent(strings.Repeat(kb.Backspace, 9)))
	keys(t, tab, "5000")
	awaitJS(t, tab, typed("50,00"))
	clickUntil(t, tab, "#enter", `document.querySelector("[data-secret=true]")`)
	keys(t, tab, "471")
	awaitJS(t, tab, typed("●●●"))
	c.limits.Store(&terminal.Fault{Code: "X9", ClerkFR: "Essai.", ClerkEN: "Trial."}) // the status line changes, what is typed stays
	awaitJS(t, tab, `document.getElementById("line").textContent.includes("X9")`)
	awaitJS(t, tab, typed("●●●"))
	clickNow(t, tab, `[data-digit="back"]`, 1)
	run(t, tab, "keys", chromedp.KeyEvent("11"), chromedp.KeyEvent(kb.Enter)) // 4711
	c.await(t, "anne on duty", func(s terminal.State) bool { return s.Session != nil && s.Session.Operator == "anne" })
	awaitJS(t, tab, `document.querySelector("#open-menu") && !document.querySelector("#sign")`)

	clickUntil(t, tab, "#open-code", `document.getElementById("keypad")`)
	keys(t, tab, "0123456")
	awaitJS(t, tab, typed("01234 56"))
	c.check(t, 1, 2000)
	awaitJS(t, tab, word+` === "GAGNANT" && !document.getElementById("keypad")`)
	// Digits that were on their way to the keypad pay nothing and go nowhere.
	run(t, tab, "late keys", chromedp.KeyEvent("789"), chromedp.KeyEvent(kb.Enter))
	settle(t, tab)
	if n := len(c.ledger.Claims()); n != 0 {
		t.Fatalf("%d claims by keys of a keypad that is gone", n)
	}
	clickUntil(t, tab, "#pay", word+` === "PAYÉ"`)
	clickUntil(t, tab, "#next", word+` === "Scannez un ticket"`)

	code := c.put(t, 2, validate.Opened{Amount: 500})
	clickUntil(t, tab, "#open-code", `document.getElementById("keypad")`)
	run(t, tab, "keys", chromedp.KeyEvent(code), chromedp.KeyEvent(kb.Enter)) // as fast as a machine types
	awaitJS(t, tab, word+` === "GAGNANT" && document.querySelector(".amount").textContent.startsWith("5")`)
	if state, _ := c.terminal.State(); state.View.Entered != validate.Typed {
		t.Errorf("entered as %q", state.View.Entered)
	}

	// A winner is identified with the keypad's letters, tapped or typed; a scan over it wins.
	c.check(t, 3, 250000)
	clickUntil(t, tab, "#identify", `document.getElementById("document-passport")`)
	clickUntil(t, tab, "#document-passport", `document.querySelector("[data-digit=A]")`)
	run(t, tab, "no key of this keypad", chromedp.KeyEvent("ñ*;"))
	clickNow(t, tab, `.more[data-digit="É"]`, 1) // a document's number begins on the page of digits
	clickNow(t, tab, `.more[data-digit="page"]`, 1)
	clickNow(t, tab, `[data-digit="A"]`, 1)
	run(t, tab, "keys", chromedp.KeyEvent(" b-'1x"), chromedp.KeyEvent(kb.Backspace))
	awaitJS(t, tab, typed("ÉA B-'1"))
	pastGuard(t, tab)
	click(t, tab, "#enter")
	awaitJS(t, tab, `document.querySelector(".sheet-title")?.textContent === "Délivrée par"`)
	run(t, tab, "keys", chromedp.KeyEvent("ville"))
	awaitJS(t, tab, typed("VILLE"))
	pastGuard(t, tab)
	run(t, tab, "enter", chromedp.KeyEvent(kb.Enter))
	awaitJS(t, tab, `document.querySelector("[data-date=true]")`)
	run(t, tab, "keys", chromedp.KeyEvent("310120319"))
	awaitJS(t, tab, typed("31/01/2031"))
	pastGuard(t, tab)
	click(t, tab, "#leave")
	awaitJS(t, tab, typed("VILLE"))
	run(t, tab, "keys", chromedp.KeyEvent(kb.Backspace)) // what the server wrote is edited on
	awaitJS(t, tab, typed("VILL"))
	c.check(t, 4, 2000)
	awaitJS(t, tab, word+` === "GAGNANT" && !document.getElementById("keypad")`)
}

// TestBrowserPageCannotBeSwipedOrZoomedAway: gestures that leave or distort a page do
// nothing; the kiosk's flags do the rest.
func TestBrowserPageCannotBeSwipedOrZoomedAway(t *testing.T) {
	c := newCounter(t, nil)
	server := httptest.NewServer(c.Handler())
	t.Cleanup(server.Close)
	t.Cleanup(c.Close)
	tab := browser(t)
	run(t, tab, "load", chromedp.EmulateViewport(800, 480, chromedp.EmulateTouch), chromedp.Navigate(server.URL))
	awaitJS(t, tab, word+` === "Scannez un ticket"`)
	touch := func(kind input.TouchType, points ...*input.TouchPoint) chromedp.Action {
		return chromedp.ActionFunc(func(ctx context.Context) error { return input.DispatchTouchEvent(kind, points).Do(ctx) })
	}
	drag := func(name string, path ...[]*input.TouchPoint) {
		acts := []chromedp.Action{touch(input.TouchStart, path[0]...)}
		for _, p := range path[1:] {
			acts = append(acts, touch(input.TouchMove, p...))
		}
		run(t, tab, name, append(acts, touch(input.TouchEnd))...)
		var still bool
		run(t, tab, name, chromedp.Evaluate(`location.pathname === "/" && visualViewport.scale === 1 && scrollX === 0 && scrollY === 0 && document.querySelector("main").getBoundingClientRect().left === 0`, &still))
		if !still {
			t.Errorf("%s moved the page", name)
		}
	}
	at := func(x, y float64) *input.TouchPoint { return &input.TouchPoint{X: x, Y: y} }
	one := func(x, y float64) []*input.TouchPoint { return []*input.TouchPoint{at(x, y)} }
	drag("a swipe from the left edge", one(2, 200), one(200, 200), one(600, 200))
	drag("a swipe from the right edge", one(798, 200), one(500, 200), one(100, 200))
	drag("a swipe up", one(400, 300), one(400, 150), one(400, 10))
	two := func(gap float64) []*input.TouchPoint {
		a, b := at(400-gap, 240), at(400+gap, 240)
		a.ID, b.ID = 1, 2
		return []*input.TouchPoint{a, b}
	}
	drag("a pinch", two(30), two(100), two(250))
	run(t, tab, "double tap", touch(input.TouchStart, at(300, 200)), touch(input.TouchEnd), touch(input.TouchStart, at(300, 200)), touch(input.TouchEnd))
	drag("a tap after it", one(300, 200))
}

// TestBrowserPageGrowsNotWithTheVerdicts: 2 000 views come over one stream, and neither the
// elements nor the memory of the page grow with them.
func TestBrowserPageGrowsNotWithTheVerdicts(t *testing.T) {
	c := newCounter(t, nil)
	c.silence = time.Hour
	texts := make([]string, 0, 40)
	for _, s := range shots(c, "fr") {
		if s.page == "clerk" && len(texts) < cap(texts) {
			text, err := c.render("clerk", s.view)
			if err != nil {
				t.Fatal(err)
			}
			texts = append(texts, string(text))
		}
	}
	steps := make(chan int)
	inner := c.Handler()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/events" {
			inner.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		out := stream{http.NewResponseController(w), w}
		for sent := 1; ; {
			select {
			case n := <-steps:
				for range n {
					sent++
					text := strings.Replace(texts[sent%len(texts)], `data-seq="1"`, fmt.Sprintf(`data-seq="%d"`, sent), 1)
					if out.send(fmt.Sprintf("id: %s-%d\n%s\n", c.boot, sent, dataLines([]byte(text)))) != nil {
						return
					}
				}
			case <-r.Context().Done():
				return
			}
		}
	}))
	t.Cleanup(server.Close)
	tab := browser(t)
	run(t, tab, "load", chromedp.EmulateViewport(800, 480), performance.Enable(), chromedp.Navigate(server.URL))
	shown := 1
	after := func(n int) (nodes, heap float64) {
		t.Helper()
		steps <- n
		shown += n
		awaitJS(t, tab, fmt.Sprintf(`document.getElementById("screen").dataset.seq === "%d"`, shown))
		run(t, tab, "measure", chromedp.ActionFunc(func(ctx context.Context) error {
			if err := heapprofiler.CollectGarbage().Do(ctx); err != nil {
				return err
			}
			list, err := performance.GetMetrics().Do(ctx)
			for _, m := range list {
				switch m.Name {
				case "Nodes":
					nodes = m.Value
				case "JSHeapUsedSize":
					heap = m.Value
				}
			}
			return err
		}))
		return nodes, heap
	}
	nodes, heap := after(400)
	moreNodes, moreHeap := after(2000)
	t.Logf("after 400 views %.0f nodes, %.1f MB; after 2 400 %.0f nodes, %.1f MB", nodes, heap/1e6, moreNodes, moreHeap/1e6)
	if moreNodes > nodes*1.1+100 || moreHeap > heap*1.1+1e5 {
		t.Errorf("after 400 views %.0f nodes and %.0f bytes, after 2 400 %.0f and %.0f", nodes, heap, moreNodes, moreHeap)
	}
}

// TestBrowserEveryViewPassesAxe runs axe-core over every view, for developers: GRATTOIR_AXE
// names its axe.min.js, which .ci/axe fetches.
func TestBrowserEveryViewPassesAxe(t *testing.T) {
	path := os.Getenv("GRATTOIR_AXE")
	if path == "" {
		t.Skip("a check for developers: run .ci/axe")
	}
	axe, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	c := newCounter(t, nil)
	c.silence = time.Hour
	server := httptest.NewServer(c.Handler())
	t.Cleanup(server.Close)
	t.Cleanup(c.Close)
	tab := browser(t)
	for page, path := range map[string]string{"clerk": "/", "player": "/player"} {
		run(t, tab, "load", chromedp.EmulateViewport(800, 480), chromedp.Navigate(server.URL+path), chromedp.Evaluate(string(axe), nil))
		for _, s := range shots(c, money.French) {
			if s.page != page {
				continue
			}
			text, err := c.render(s.page, s.view)
			if err != nil {
				t.Fatal(err)
			}
			js, err := json.Marshal(string(text))
			if err != nil {
				t.Fatal(err)
			}
			var wrong []string
			run(t, tab, s.name, chromedp.Evaluate(fmt.Sprintf(`document.getElementById("screen").outerHTML = %s;
				axe.run(document, {runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}).then(r => r.violations.map(v => v.id + ": " + v.help + " " + v.nodes.slice(0, 2).map(n => n.html.slice(0, 90)).join(" | ")))`, js), &wrong, awaitPromise))
			for _, w := range wrong {
				t.Errorf("%s %s: %s", s.page, s.name, w)
			}
		}
	}
}

// benched are amounts that the page tells apart.
func benched(i int) money.Amount { return money.Amount(1050 + 100*i) }

// BenchmarkPaint is how long a verdict takes from the scan's last byte to the glass: check,
// page, stream, and the frame after the one in which it was drawn, in a real browser.
func BenchmarkPaint(b *testing.B) {
	if _, err := os.Stat(shell); err != nil {
		b.Skipf("NOT MEASURED: install chromium-headless-shell: %v", err)
	}
	c := newCounter(b, nil)
	server := httptest.NewServer(c.Handler())
	b.Cleanup(server.Close)
	b.Cleanup(c.Close)
	tab := browser(b)
	run(b, tab, "load", chromedp.EmulateViewport(800, 480), chromedp.Navigate(server.URL), chromedp.Evaluate(`
		const painted = new Map();
		new MutationObserver(() => {
			const text = document.querySelector(".amount")?.textContent;
			requestAnimationFrame(() => requestAnimationFrame(() => { painted.set(text, performance.timeOrigin + performance.now()); }));
		}).observe(document.getElementById("screen"), { subtree: true, childList: true, attributes: true });
		true`, nil))
	codes := make([]string, 100)
	for i := range codes {
		codes[i] = c.put(b, uint16(i), validate.Opened{Amount: benched(i)})
	}
	var took []float64
	for n := 0; b.Loop(); n++ {
		at := time.Now()
		c.terminal.Check(context.Background(), terminal.Scan{Text: codes[n%len(codes)]})
		var painted float64
		run(b, tab, "paint", chromedp.Evaluate(fmt.Sprintf(`new Promise(done => { const look = () => {
			for (const [text, at] of painted) if (text && text.startsWith("%d,")) { painted.clear(); done(at); return; }
			setTimeout(look, 1); }; look(); })`, benched(n%len(codes))/100), &painted, awaitPromise))
		took = append(took, painted-float64(at.UnixMicro())/1000)
	}
	slices.Sort(took)
	b.ReportMetric(took[len(took)/2], "ms/p50")
	b.ReportMetric(took[len(took)*95/100], "ms/p95")
	b.ReportMetric(0, "ns/op")
}

// kiosk is where the image's recipe has the launcher and its units.
var kiosk = filepath.Join("..", "..", "firmware", "image", "kiosk")

// write puts a file into a folder of the test's own.
func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

// TestKioskStartsTheBrowserThatFitsTheBoard runs the launcher over a cage that runs what it is
// told to, and browsers that only say what they were told: small boards get cog without a
// compiler, others chromium with the gestures off; no argument is lost or split; and the
// browser is the unit's own process, whose end, with its status, systemd sees.
func TestKioskStartsTheBrowserThatFitsTheBoard(t *testing.T) {
	bin := t.TempDir()
	write(t, filepath.Join(bin, "cage"), "#!/bin/sh\n[ \"$1 $2\" = '-d --' ] || exit 9\nshift 2\nexec \"$@\"\n", 0o700)
	const browser = "#!/bin/sh\necho \"${0##*/} pid=$$ JIT=${JSC_useJIT:-on}\"\nprintf '[%s]\\n' \"$@\"\nexit 3\n"
	write(t, filepath.Join(bin, "cog"), browser, 0o700)
	write(t, filepath.Join(bin, "chromium"), browser, 0o700)
	launch := func(meminfo string, env ...string) (string, int) {
		t.Helper()
		memory := filepath.Join(t.TempDir(), "meminfo")
		if meminfo != "" {
			write(t, memory, meminfo, 0o600)
		}
		cmd := exec.CommandContext(t.Context(), filepath.Join(kiosk, "grattoir-kiosk"))
		cmd.Env = append([]string{"PATH=" + bin + ":/usr/bin:/bin", "MEMINFO=" + memory}, env...)
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			t.Fatalf("%s: %v", out, err)
		}
		if own := fmt.Sprintf("pid=%d ", cmd.Process.Pid); exit.ExitCode() == 3 && !strings.Contains(string(out), own) {
			t.Errorf("the browser is not the unit's process: want %s in %s", own, out)
		}
		return string(out), exit.ExitCode()
	}
	const page = "http://127.0.0.1:8087/player?shop=la gare&x='*'"
	for _, board := range []struct{ memory, browser string }{
		{"MemTotal:         430000 kB\nMemFree: 1 kB\n", "cog"}, {"MemTotal:  927000 kB\n", "cog"},
		{"MemTotal: 1900000 kB\n", "chromium"}, {"MemTotal: 7900000 kB\n", "chromium"},
		{"MemFree: 1 kB\n", "cog"}, {"", "cog"},
	} {
		told, status := launch(board.memory, "PAGE="+page, "RUNTIME_DIRECTORY=/run/x")
		if !strings.Contains(told, board.browser+" pid=") || !strings.HasSuffix(told, "["+page+"]\n") || status != 3 {
			t.Errorf("a board with %q: status %d, %s", board.memory, status, told)
		}
		want := []string{"JIT=0", "[--platform=wl]", "[--webprocess-failure=restart]"}
		if board.browser == "chromium" {
			want = []string{"[--kiosk]", "[--incognito]", "[--disable-pinch]", "[--overscroll-history-navigation=0]", "[--disable-session-crashed-bubble]", "[--user-data-dir=/run/x/profile]"}
		}
		wantAll(t, board.browser, told, want...)
	}
	if told, status := launch("MemTotal: 1900000 kB\n", "BROWSER=cog"); status != 3 || !strings.Contains(told, "cog pid=") || !strings.Contains(told, "[http://127.0.0.1:8087/]") {
		t.Errorf("the setting is not followed, or the page is not the clerk's: %s", told)
	}
	if told, status := launch("MemTotal: 1900000 kB\n", "BROWSER=firefox"); status != 64 || !strings.Contains(told, "want cog or chromium") {
		t.Errorf("%d %s", status, told)
	}
}

// TestKioskUnitsAreWhatSystemdReads: systemd finds nothing to complain of in the units as the
// image has them, and would: a browser comes back for ever, is bounded, and reaches this
// machine alone.
func TestKioskUnitsAreWhatSystemdReads(t *testing.T) {
	unit, err := os.ReadFile(filepath.Join(kiosk, "grattoir-kiosk.service"))
	if err != nil {
		t.Fatal(err)
	}
	wantAll(t, "the unit", string(unit), "Restart=always", "StartLimitIntervalSec=0", "MemoryMax=", "IPAddressDeny=any", "IPAddressAllow=localhost", "ExecStart=/usr/lib/grattoir/grattoir-kiosk\n")
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skipf("UNITS NOT VERIFIED: there is no systemd-analyze: %v", err)
	}
	root := t.TempDir()
	units := filepath.Join(root, "etc", "systemd", "system")
	list := []string{"grattoir-kiosk.service", "grattoir-kiosk-restart.service", "grattoir-kiosk-restart.timer"}
	for _, name := range list {
		text, err := os.ReadFile(filepath.Join(kiosk, name))
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(units, name), string(text), 0o600)
	}
	for _, name := range []string{"sysinit", "basic", "shutdown", "timers", "graphical"} { // systemd's own
		write(t, filepath.Join(units, name+".target"), "[Unit]\nDescription="+name+"\n", 0o600)
	}
	write(t, filepath.Join(units, "terminald.service"), "[Service]\nExecStart=/bin/systemctl\n", 0o600)
	write(t, filepath.Join(root, "bin", "systemctl"), "#!/bin/sh\n", 0o700)
	write(t, filepath.Join(root, "usr", "lib", "grattoir", "grattoir-kiosk"), "#!/bin/sh\n", 0o700)
	verify := func() string {
		out, err := exec.CommandContext(t.Context(), "systemd-analyze", append([]string{"verify", "--man=no", "--root=" + root}, list...)...).CombinedOutput()
		return fmt.Sprintf("%s%v", out, err)
	}
	if said := verify(); said != "<nil>" {
		t.Errorf("systemd says: %s", said)
	}
	write(t, filepath.Join(units, list[0]), strings.Replace(string(unit), "MemoryMax=", "MemoryMaximum=", 1), 0o600)
	if said := verify(); !strings.Contains(said, "MemoryMaximum") {
		t.Errorf("systemd takes a setting that does not exist: %s", said)
	}
}
