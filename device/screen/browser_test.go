package screen

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"grattoir/device/health"
	"grattoir/device/terminal"
	"grattoir/device/terminal/terminaltest"
	"grattoir/validate"
	"grattoir/validate/money"
	"grattoir/validate/ticket"
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
		chromedp.ExecPath(shell), chromedp.NoSandbox, chromedp.DisableGPU)...)
	t.Cleanup(stop)
	tab, closeTab := chromedp.NewContext(alloc)
	t.Cleanup(closeTab)
	if err := chromedp.Run(tab); err != nil { // the first run starts the browser, which no deadline may end
		t.Fatal(err)
	}
	tab, cancel := context.WithTimeout(tab, 2*time.Minute)
	t.Cleanup(cancel)
	return tab
}

func run(t *testing.T, tab context.Context, what string, actions ...chromedp.Action) {
	t.Helper()
	if err := chromedp.Run(tab, actions...); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

func awaitPromise(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }

// awaitJS waits until an expression is true in the page. A page that is just being
// loaded cannot answer; it is asked again.
func awaitJS(t *testing.T, tab context.Context, expression string) {
	t.Helper()
	again, last := time.NewTicker(20*time.Millisecond), error(nil)
	defer again.Stop()
	end := time.After(20 * time.Second)
	for {
		var holds bool
		if last = chromedp.Run(tab, chromedp.Evaluate("!!("+expression+")", &holds)); last == nil && holds {
			return
		}
		select {
		case <-again.C:
		case <-end:
			t.Fatalf("never true: %s (%v)", expression, last)
		}
	}
}

// click waits for an element, and for the answer to the press before, and clicks it.
func click(t *testing.T, tab context.Context, selector string) {
	t.Helper()
	awaitJS(t, tab, fmt.Sprintf(`document.querySelector(%q) && !document.querySelector("[aria-busy]")`, selector))
	clickNow(t, tab, selector, 1)
}

// clickUntil clicks an element whose press may be repeated until the page shows what it
// leads to: a font that has just been loaded may move a button between the look at its
// place and the click.
func clickUntil(t *testing.T, tab context.Context, selector, expression string) {
	t.Helper()
	for range 5 {
		click(t, tab, selector)
		again := time.NewTicker(20 * time.Millisecond)
		defer again.Stop()
		for range 150 {
			var holds bool
			if err := chromedp.Run(tab, chromedp.Evaluate("!!("+expression+")", &holds)); err == nil && holds {
				return
			}
			<-again.C
		}
	}
	t.Fatalf("five clicks on %s did not lead to: %s", selector, expression)
}

// clickNow presses and releases the mouse in the middle of an element, as often as it
// says, and does nothing where there is none. It finds the place by script, because a
// node that the driver knows may have been replaced by the next view.
func clickNow(t *testing.T, tab context.Context, selector string, times int) {
	t.Helper()
	var at []float64
	run(t, tab, "place of "+selector, chromedp.Evaluate(
		fmt.Sprintf(`(r => r ? [r.x + r.width / 2, r.y + r.height / 2] : [])(document.querySelector(%q)?.getBoundingClientRect())`, selector), &at))
	for i := range times * len(at) / 2 {
		run(t, tab, "click "+selector, chromedp.MouseClickXY(at[0], at[1], chromedp.ClickCount(i+1)))
	}
}

// settle waits until a request of the page has been answered: a press before it has
// arrived by then.
func settle(t *testing.T, tab context.Context) {
	t.Helper()
	run(t, tab, "round trip", chromedp.Evaluate(`fetch("/static/screen.css").then(r => r.text()).then(t => t.length)`, nil, awaitPromise))
}

const word = `document.querySelector(".word")?.textContent`

func TestBrowserShowsTheVerdictAndPaysOnceWhenDoubleClicked(t *testing.T) {
	c := newCounter(t, nil)
	c.beat = time.Hour // the changes themselves must bring the views
	c.silence = time.Hour
	server := httptest.NewServer(c.Handler())
	t.Cleanup(server.Close)
	t.Cleanup(c.Close)
	tab := browser(t)
	run(t, tab, "load", chromedp.EmulateViewport(800, 480), chromedp.Navigate(server.URL))
	awaitJS(t, tab, word+` === "Scannez un ticket"`)
	c.check(t, 1, 2000)
	awaitJS(t, tab, word+` === "GAGNANT"`)
	// Until the view has stood for the guard time, clicks do nothing; so click until it is paid.
	for paid := false; !paid; {
		clickNow(t, tab, "#pay", 2)
		settle(t, tab)
		run(t, tab, "paid?", chromedp.Evaluate(word+` === "PAYÉ"`, &paid))
	}
	awaitJS(t, tab, word+` === "PAYÉ" && document.querySelector(".state").textContent.includes("Reçu imprimé")`)
	if n := len(c.ledger.Claims()); n != 1 {
		t.Errorf("%d claims", n)
	}
	if n := len(c.printer.Slips()); n != 1 {
		t.Errorf("%d slips", n)
	}
}

func TestBrowserConfirmsTheCashAndSwitchesLanguageInOneTap(t *testing.T) {
	c := newCounter(t, nil)
	c.guard = 0
	server := httptest.NewServer(c.Handler())
	t.Cleanup(server.Close)
	t.Cleanup(c.Close)
	c.check(t, 1, 20000)
	tab := browser(t)
	run(t, tab, "load", chromedp.EmulateViewport(800, 480), chromedp.Navigate(server.URL))
	click(t, tab, "#language")
	awaitJS(t, tab, word+` === "WINNER" && document.documentElement.lang === "en"`)
	run(t, tab, "Enter", chromedp.Evaluate(`document.getElementById("pay").focus()`, nil), chromedp.KeyEvent("\r"))
	awaitJS(t, tab, word+` === "Is there enough in the till?"`)
	clickUntil(t, tab, "#back", word+` === "WINNER"`)
	click(t, tab, "#pay")
	click(t, tab, "#sure")
	awaitJS(t, tab, word+` === "PAID"`)
	if n := len(c.ledger.Claims()); n != 1 {
		t.Errorf("%d claims", n)
	}
	click(t, tab, "#next")
	awaitJS(t, tab, word+` === "Scan a ticket"`)
}

func TestBrowserIgnoresAPressMeantForTheViewBefore(t *testing.T) {
	c := newCounter(t, nil)
	c.guard = time.Hour
	server := httptest.NewServer(c.Handler())
	t.Cleanup(server.Close)
	t.Cleanup(c.Close)
	tab := browser(t)
	run(t, tab, "load", chromedp.EmulateViewport(800, 480), chromedp.Navigate(server.URL))
	c.check(t, 1, 2000)
	click(t, tab, "#pay")
	click(t, tab, "#next")
	settle(t, tab)
	if state, _ := c.terminal.State(); len(c.ledger.Claims()) != 0 || state.View.Stage != terminal.Verdict {
		t.Errorf("%d claims, stage %s: a press within the guard time had an effect", len(c.ledger.Claims()), state.View.Stage)
	}
}

func TestBrowserDropsAnAnswerThatWasOvertaken(t *testing.T) {
	c := newCounter(t, nil)
	c.guard, c.silence = 0, time.Hour
	reached, release := make(chan struct{}), make(chan struct{})
	inner := c.Handler()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			inner.ServeHTTP(w, r)
			return
		}
		answer := httptest.NewRecorder()
		inner.ServeHTTP(answer, r)
		close(reached)
		<-release
		_, _ = w.Write(answer.Body.Bytes())
	}))
	t.Cleanup(server.Close)
	t.Cleanup(c.Close)
	c.check(t, 1, 2000)
	tab := browser(t)
	run(t, tab, "load", chromedp.EmulateViewport(800, 480), chromedp.Navigate(server.URL))
	click(t, tab, "#pay")
	<-reached
	c.check(t, 2, 5000)
	awaitJS(t, tab, word+` === "GAGNANT" && document.querySelector(".amount").textContent.startsWith("50")`)
	close(release)
	awaitJS(t, tab, `!document.querySelector("[aria-busy]")`)
	awaitJS(t, tab, word+` === "GAGNANT" && document.querySelector(".amount").textContent.startsWith("50")`)
}

// serveOn serves a handler on one address that tests can take away and give back.
func serveOn(t *testing.T, address string, h http.Handler) *httptest.Server {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(h)
	_ = s.Listener.Close()
	s.Listener = l
	s.Start()
	return s
}

func TestBrowserWarnsWhenTheTerminalIsSilentAndShowsTheSnapshotAfter(t *testing.T) {
	c := newCounter(t, nil)
	c.silence, c.beat = 400*time.Millisecond, 50*time.Millisecond
	server := serveOn(t, "127.0.0.1:0", c.Handler())
	address := server.Listener.Addr().String()
	tab := browser(t)
	run(t, tab, "load", chromedp.EmulateViewport(800, 480), chromedp.Navigate("http://"+address))
	c.check(t, 1, 2000)
	awaitJS(t, tab, word+` === "GAGNANT" && document.getElementById("silence").hidden`)

	server.CloseClientConnections()
	server.Close()
	awaitJS(t, tab, `!document.getElementById("silence").hidden && getComputedStyle(document.getElementById("act")).visibility === "hidden"`)
	c.check(t, 2, 5000)
	server = serveOn(t, address, c.Handler())
	awaitJS(t, tab, `document.getElementById("silence").hidden && document.querySelector(".amount").textContent.startsWith("50")`)

	// A program that was started again has other secrets: the page loads itself anew.
	server.CloseClientConnections()
	c.Close()
	server.Close()
	again := newCounter(t, func(o *Options) { o.Terminal = c.terminal })
	again.silence = 400 * time.Millisecond
	server = serveOn(t, address, again.Handler())
	t.Cleanup(server.Close)
	t.Cleanup(again.Close)
	awaitJS(t, tab, fmt.Sprintf(`document.body.dataset.boot === %q && document.querySelector(".amount").textContent.startsWith("50")`, again.boot))
}

func TestBrowserWarnsWhenTheStreamHangs(t *testing.T) {
	c := newCounter(t, nil)
	c.silence, c.beat = 300*time.Millisecond, time.Hour
	open := make(chan struct{})
	var asked atomic.Int32
	inner := c.Handler()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/player/events" {
			pass := open
			if asked.Add(1) == 1 {
				pass = nil // the first stream is dead for good: the page must open another
			}
			select {
			case <-pass:
			case <-r.Context().Done():
				return
			}
		}
		inner.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	t.Cleanup(c.Close)
	tab := browser(t)
	run(t, tab, "load", chromedp.EmulateViewport(800, 480), chromedp.Navigate(server.URL+"/player"))
	awaitJS(t, tab, `!document.getElementById("silence").hidden`)
	close(open)
	awaitJS(t, tab, `document.getElementById("silence").hidden`)
}

// shot is one view to look at.
type shot struct {
	name string
	page string
	view view
}

// shots makes every view that there is, with long words where a word may be long.
func shots(c *counter, l money.Language) []shot {
	code, _ := ticket.Make(ticket.G40(), "51234", 1234567, 149, "0123456789012345678901")
	amount := money.Amount(100000000)
	paidAt := &validate.Payment{At: noon.AddDate(-1, 0, -3), Terminal: "T-0042", Shop: "Tabac-Presse de la Gare de l'Est", Number: "12-123456", AsOf: noon.AddDate(0, 0, -1)}
	base := terminal.State{View: terminal.View{Stage: terminal.Idle},
		Unsent: validate.Unsent{Claims: 1234, Money: 123456789}}
	fault := base
	fault.Printer = terminaltest.PaperOut()
	fault.Scanner = &terminal.Fault{Code: "S11", ClerkFR: "Lecteur mal réglé (parité).\nScannez la page de réglage.", ClerkEN: "Scanner set up wrong (parity).\nScan the set-up sheet again."}
	fault.Ledger, fault.Clock = health.Ledger(health.LedgerReadOnly, nil), health.Clock(health.ClockAhead, "20 years")
	list := []shot{}
	add := func(name string, s terminal.State, asking bool) {
		list = append(list, shot{name, "clerk", c.viewOf(snapshot{state: s, clerk: true, asking: asking, seq: 1}, l)},
			shot{name, "player", c.viewOf(snapshot{state: s, seq: 1}, l)})
	}
	add("idle", base, false)
	add("idle-fault", fault, false)
	on := func(r validate.Reason, a money.Amount) terminal.State {
		s := base
		s.View = terminal.View{ID: "0123456789abcdef0123456789abcdef", Stage: terminal.Verdict, Code: code, Opened: validate.Opened{GameName: "Numéro Fétiche Édition Spéciale"},
			Verdict: validate.Verdict{Outcome: r.Outcome(), Reason: r, AmountMinor: &a, Currency: "EUR"}}
		if lookOf(r) == lookPaid {
			s.View.Verdict.Paid = paidAt
		}
		return s
	}
	for _, r := range validate.Reasons() {
		a := amount
		switch r {
		case validate.Winner:
			a = 2000
		case validate.NotAWinner:
			a = 0
		}
		s := on(r, a)
		if l := lookOf(r); l == lookError || l == lookAgain {
			s.View.Verdict.AmountMinor = nil
		}
		add(string(r), s, false)
	}
	for _, a := range []money.Amount{50, 2050, 30000, 199999, 100000, 100000000, 99999999999} {
		add(fmt.Sprintf("win-%d", a), on(validate.Winner, a), false)
	}
	big := on(validate.Winner, 199999)
	big.Printer, big.Scanner, big.Ledger, big.Clock = fault.Printer, fault.Scanner, fault.Ledger, fault.Clock
	add("win-fault", big, false)
	add("ask", on(validate.Winner, 199999), true)
	identity := on(validate.Winner, 250000)
	identity.View.Verdict.Needs = []validate.Need{validate.ConfirmCash, validate.Identity}
	add("identity", identity, false)
	for _, p := range []validate.PrintState{validate.Sending, validate.Held, validate.Unknown, validate.Sent, validate.Consumed, validate.Printed} {
		s := on(validate.Winner, 199999)
		s.View.Stage = terminal.Paid
		s.View.Receipt = &validate.Receipt{Claim: validate.Claim{Amount: 199999, Currency: "EUR"}, Number: validate.EntryNumber{Epoch: 12, Seq: 123456}, Print: p, Copies: 2}
		if p == validate.Held {
			s.View.Holding = fault.Printer
		}
		add("paid-"+string(p), s, false)
	}
	back, _ := ticket.Make(ticket.G18(), "51234", 1234567, 149, "")
	run := []validate.TicketRun{{First: 149, Last: 149}}
	known := validate.Pack{GameCode: "51234", Number: 1234567, Known: true, Own: true}
	for name, p := range map[string]func(*validate.Pack){
		"unknown": func(p *validate.Pack) { p.Known = false }, "elsewhere": func(p *validate.Pack) { p.Own = false }, "delivered": func(p *validate.Pack) { p.State = validate.PackDelivered },
		"active": func(p *validate.Pack) { p.State = validate.PackActive }, "settled": func(p *validate.Pack) { p.State = validate.PackSettled }, "returned": func(p *validate.Pack) { p.State = validate.PackReturn },
		"stolen": func(p *validate.Pack) { p.State = validate.PackStolenNow }, "ticket-stolen": func(p *validate.Pack) { p.Stolen = run }, "ticket-returned": func(p *validate.Pack) { p.Returned = run },
	} {
		x, s := known, base
		p(&x)
		s.View = terminal.View{ID: "0123456789abcdef0123456789abcdef", Stage: terminal.OnPack, Code: back, Pack: &x}
		add("pack-"+name, s, false)
		if name == "delivered" {
			add("pack-ask", s, true)
		}
	}
	long := strings.Repeat("Message du centre assez long, ", 4) + "et il est fini par ces mots, enfin voilà."
	said := []validate.Message{{Number: 1, Mandatory: true, French: long, English: long}, {Number: 2, French: long, English: long}, {Number: 3, French: long, English: long}}
	idle, won, paid := base, on(validate.Winner, 199999), on(validate.AlreadyPaidElsewhere, 2000)
	idle.Messages, won.Messages, paid.Messages = said, said, said
	add("idle-message", idle, false)
	add("win-message", won, false)
	add("already-paid-message", paid, false)
	return list
}

// measure lists what is wrong with how a view lies on the screen.
const measure = `(() => {
  const wrong = [];
  const root = document.documentElement;
  if (root.scrollWidth > innerWidth || document.body.scrollWidth > innerWidth) wrong.push("wider than the screen: " + root.scrollWidth);
  if (root.scrollHeight > innerHeight || document.body.scrollHeight > innerHeight) wrong.push("higher than the screen: " + root.scrollHeight);
  const inside = (el, box, name) => {
    const a = el.getBoundingClientRect();
    if (a.width === 0 && a.height === 0) return;
    if (a.left < box.left - 1 || a.top < box.top - 1 || a.right > box.right + 1 || a.bottom > box.bottom + 1)
      wrong.push(name + " sticks out: " + [a.left - box.left, a.top - box.top, a.right - box.right, a.bottom - box.bottom].map(Math.round));
  };
  const whole = { left: 0, top: 0, right: innerWidth, bottom: innerHeight };
  for (const part of document.querySelectorAll("#bar, #line, main, .head, .tell, .act")) {
    inside(part, whole, part.id || part.className || part.tagName);
    const box = part.getBoundingClientRect();
    for (const el of part.querySelectorAll("p, span, b, button, img, div")) {
      inside(el, box, (part.id || part.className || part.tagName) + " > " + (el.id || el.className || el.tagName));
      if (el.scrollWidth > el.clientWidth + 1 && getComputedStyle(el).display !== "inline" && !el.classList.contains("who")) wrong.push((el.id || el.className) + " is too narrow for its text");
    }
  }
  const boxes = [...document.querySelectorAll("button")].map(b => [b, b.getBoundingClientRect()]);
  for (const [b, r] of boxes) {
    const least = b.closest(".act") ? 96 : 64;
    if (r.height < least || r.width < least) wrong.push("button " + b.id + " is " + r.width + "x" + r.height);
    for (const [c, s] of boxes) if (b !== c && r.left < s.right + 11 && s.left < r.right + 11 && r.top < s.bottom + 11 && s.top < r.bottom + 11) wrong.push(b.id + " is too near to " + c.id);
  }
  const light = c => { const v = c.match(/[\d.]+/g).slice(0, 3).map(x => x / 255).map(x => x <= .04045 ? x / 12.92 : ((x + .055) / 1.055) ** 2.4); return .2126 * v[0] + .7152 * v[1] + .0722 * v[2]; };
  for (const el of document.querySelectorAll("p, span, b, button")) {
    let under = el;
    while (under && /^rgba.*, 0\)$/.test(getComputedStyle(under).backgroundColor)) under = under.parentElement;
    const a = light(getComputedStyle(el).color), b = light(getComputedStyle(under || document.body).backgroundColor);
    const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    if (ratio < 4.5) wrong.push((el.id || el.className || el.tagName) + " has a contrast of " + ratio.toFixed(1));
  }
  return wrong;
})()`

// TestBrowserEveryViewFits looks at every view in both languages at the three screens.
// With GRATTOIR_SHOTS set to a folder it leaves a picture of each there.
func TestBrowserEveryViewFits(t *testing.T) {
	c := newCounter(t, func(o *Options) { o.Demonstration = true })
	c.trusted = time.Time{} // the longest clock
	inner := c.Handler()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/events") { // the views below are put in by hand
			<-r.Context().Done()
			return
		}
		if strings.HasPrefix(r.URL.Path, "/slip/") {
			w.Header().Set("Content-Type", "image/png")
			_ = c.opt.Render(w, validate.Receipt{})
			return
		}
		inner.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	tab := browser(t)
	for _, size := range [][2]int64{{800, 480}, {1280, 720}, {720, 1280}} {
		for _, l := range []money.Language{money.French, money.English} {
			for _, page := range []string{"clerk", "player"} {
				path := map[string]string{"clerk": "/", "player": "/player"}[page]
				run(t, tab, "load", chromedp.EmulateViewport(size[0], size[1]), network.Enable(), setLanguage(server.URL, l), chromedp.Navigate(server.URL+path))
				awaitJS(t, tab, `document.fonts.status === "loaded" && document.fonts.check("700 20px Grattoir")`)
				for _, s := range shots(c, l) {
					if s.page == page {
						lookAt(t, tab, fmt.Sprintf("%s-%s-%s-%dx%d", page, s.name, l, size[0], size[1]), c, s)
					}
				}
			}
		}
	}
}

func setLanguage(base string, l money.Language) chromedp.Action {
	u, _ := url.Parse(base)
	return chromedp.ActionFunc(func(ctx context.Context) error {
		return network.SetCookie("lang", string(l)).WithDomain(u.Hostname()).WithPath("/").Do(ctx)
	})
}

func lookAt(t *testing.T, tab context.Context, name string, c *counter, s shot) {
	t.Helper()
	text, err := c.render(s.page, s.view)
	if err != nil {
		t.Fatal(err)
	}
	js, err := json.Marshal(string(text))
	if err != nil {
		t.Fatal(err)
	}
	var wrong []string
	put := fmt.Sprintf(`document.getElementById("screen").outerHTML = %s; Promise.all([...document.images].map(i => i.decode())).then(() => true)`, js)
	run(t, tab, name, chromedp.Evaluate(put, nil, awaitPromise), chromedp.Evaluate(measure, &wrong))
	for _, w := range wrong {
		t.Errorf("%s: %s", name, w)
	}
	if dir := os.Getenv("GRATTOIR_SHOTS"); dir != "" {
		var picture []byte
		run(t, tab, "picture", chromedp.CaptureScreenshot(&picture))
		if err := os.WriteFile(filepath.Join(dir, name+".png"), picture, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
