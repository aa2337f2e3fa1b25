package screen

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
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
func browser(t testing.TB) context.Context {
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

func run(t testing.TB, tab context.Context, what string, actions ...chromedp.Action) {
	t.Helper()
	if err := chromedp.Run(tab, actions...); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

func awaitPromise(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }

// awaitJS waits until an expression is true in the page. A page that is just being
// loaded cannot answer; it is asked again.
func awaitJS(t testing.TB, tab context.Context, expression string) {
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
	for range 20 {
		// The press before may have led there late, and taken the element away.
		awaitJS(t, tab, fmt.Sprintf(`(%s) || document.querySelector(%q) && !document.querySelector("[aria-busy]")`, expression, selector))
		var there bool
		if err := chromedp.Run(tab, chromedp.Evaluate("!!("+expression+")", &there)); err == nil && there {
			return
		}
		clickNow(t, tab, selector, 1)
		again := time.NewTicker(20 * time.Millisecond)
		defer again.Stop()
		for range 20 {
			var holds bool
			if err := chromedp.Run(tab, chromedp.Evaluate("!!("+expression+")", &holds)); err == nil && holds {
				return
			}
			<-again.C
		}
	}
	t.Fatalf("twenty clicks on %s did not lead to: %s", selector, expression)
}

// clickNow presses and releases the mouse in the middle of an element, as often as it
// says, and does nothing where there is none. It finds the place by script, because a
// node that the driver knows may have been replaced by the next view.
func clickNow(t testing.TB, tab context.Context, selector string, times int) {
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
func settle(t testing.TB, tab context.Context) {
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
	if c.register != nil {
		add("identity-take", identity, false)
		c.register.Break(errors.New("shut"))
		defer c.register.Break(nil)
	}
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
	mis, took, slip := on(validate.Misprint, 0), on(validate.Misprint, 0), on(validate.CodeMisread, 0)
	mis.View.Seen, mis.View.Opened.Price, mis.View.Opened.Currency, mis.View.Verdict.AmountMinor = terminal.Misprinted, 199999, "EUR", nil
	took.View.TakenIn, took.View.Verdict.AmountMinor = &validate.Misprinted{Remedy: validate.Refunded, Amount: 199999, Currency: "EUR", Entry: validate.EntryNumber{Epoch: 12, Seq: 123456}, At: noon.AddDate(-1, 0, 0)}, nil
	slip.View.OfSlip, slip.View.Code, slip.View.Verdict.AmountMinor = validate.EntryNumber{Epoch: 12, Seq: 123456}, ticket.Code{}, nil
	here := on(validate.AlreadyPaidHere, 2000)
	add("misprint-taken-in", took, false)
	add("misprint-remedies", mis, false)
	add("slip-scanned", slip, false)
	add("already-paid-slip", here, false)
	return append(list, c.sheetShots(base, on, l)...)
}

// sheetShots makes every sheet and the batch, as full as they can be.
func (c *counter) sheetShots(base terminal.State, on func(validate.Reason, money.Amount) terminal.State, l money.Language) []shot {
	var list []shot
	add := func(name string, s terminal.State, x sheet, asking bool) {
		list = append(list, shot{name, "clerk", c.viewOf(snapshot{state: s, clerk: true, asking: asking, sheet: x, seq: 1}, l)})
	}
	duty := base
	duty.SignOn, duty.Session = true, &terminal.Session{Operator: "anne-marie", Name: "Anne-Marie Kermadec-Le Gall", Since: noon}
	none, locked := base, duty
	none.SignOn = true
	locked.Session = &terminal.Session{Operator: "anne-marie", Locked: true}
	add("idle-duty", duty, sheet{}, false)
	add("idle-nobody", none, sheet{}, false)
	add("idle-locked", locked, sheet{}, false)
	for name, s := range map[string]terminal.State{"nobody": none, "locked": locked} {
		won := on(validate.Winner, 199999)
		won.SignOn, won.Session = s.SignOn, s.Session
		add("win-"+name, won, sheet{}, false)
	}
	code, _ := ticket.Make(ticket.MI18(), "5123", 123456, 149, "12345")
	half, _ := ticket.Parse(code.Digits()[:13], 0, []ticket.Layout{ticket.MI18()})
	typing := base
	typing.View = terminal.View{ID: "0123456789abcdef0123456789abcdef", Stage: terminal.Typing, Code: half}
	add("typing", typing, sheet{}, false)
	typing.View.Detail = "wrong"
	add("typing-wrong", typing, sheet{}, false)

	wrong := &terminal.Denied{Fault: terminal.Fault{Code: "O3", ClerkFR: "Code faux. Encore 2 essais,\nensuite 15 minutes d'attente.", ClerkEN: "Wrong PIN. 2 more tries, then\na wait of 15 minutes."}, Err: errors.New("wrong")}
	known := on(validate.Winner, 250000)
	known.View.Verdict.Needs = []validate.Need{validate.ConfirmCash, validate.Identity}
	who := Operator{"anne-marie", "Anne-Marie Kermadec-Le Gall", "manager"}
	var many []Operator
	for i := range 11 {
		many = append(many, Operator{fmt.Sprint("id", i), []string{"Anne-Marie Kermadec-Le Gall", "Bob", "Maximilienne"}[i%3], "clerk"})
	}
	x := validate.Closing{ClosingFacts: validate.ClosingFacts{Kind: validate.ShiftClosing, Number: 12, Period: "2026-11-28", Operator: "anne-marie", Currency: "EUR", Float: 5000, Cash: -123456789,
		Totals: []validate.Totals{{Currency: "EUR", Paid: validate.Sum{Count: 1234, Money: 123456789}}}}, Terminal: "T-0042", At: noon}
	z := x
	z.Kind, z.Entry = validate.DayClosing, validate.EntryNumber{Epoch: 12, Seq: 123456}
	paid := validate.Receipt{Claim: validate.Claim{Amount: 199999, Currency: "EUR", Slip: validate.SlipFacts{Game: "Numéro Fétiche Édition Spéciale"}}, Number: validate.EntryNumber{Epoch: 12, Seq: 123456}, Print: validate.Unknown, Copies: 3, At: noon}
	copied, taken := paid, validate.Reversal{Amount: 199999, Currency: "EUR", Number: paid.Number}
	copied.Print = validate.Printed
	acts := []validate.Transaction{{Entry: paid.Number, At: noon, Claim: &paid}, {Entry: paid.Number, At: noon, Reversal: &taken}, {Entry: paid.Number, At: noon, Reprint: &validate.Reprint{Number: paid.Number, Copy: 2}},
		{Entry: paid.Number, At: noon, Closing: &z}, {Entry: paid.Number, At: noon, Claim: &copied}}
	taken.Reason = validate.OtherReason
	refusal := taken
	refusal.State, refusal.Answer = validate.ReversalRefused, strings.Repeat("Le ticket a été payé deux fois. ", 6)
	who40 := strings.Repeat("MAXIMILIENNE ", 4)[:40]
	identity := func(step int) sheet {
		return sheet{name: identitySheet, winner: &winner{step: step, who: validate.Identification{Surname: who40, FirstNames: who40, Born: "1970-05-12", BirthPlace: who40,
			Address: strings.Repeat("AVENUE ", 11)[:72], Document: "residence-permit", Number: who40, IssuedBy: who40, ValidTo: "2031-12-31"}}}
	}
	wrongDate := identity(6)
	wrongDate.err = errDate
	long := strings.Repeat("Message du centre assez long, ", 8) + "et il est fini par ces mots, enfin voilà."
	for name, x := range map[string]sheet{
		"find": {name: findSheet}, "find-none": {name: findSheet, err: errDigits}, "sure-refund": {name: sureSheet, purpose: toTakeIn, remedy: validate.Refunded}, "sure-exchange": {name: sureSheet, purpose: toTakeIn, remedy: validate.Exchanged},
		"menu": {name: menuSheet}, "code": {name: codeSheet}, "code-wrong": {name: codeSheet, err: errDigits},
		"who": {name: whoSheet, purpose: toSignOn, choice: many, page: 1}, "who-none": {name: whoSheet, err: errors.New("x")},
		"float": {name: floatSheet}, "pin": {name: pinSheet, operator: who}, "pin-wrong": {name: pinSheet, operator: who, err: wrong},
		"sure-off": {name: sureSheet, purpose: toSignOff}, "sure-close": {name: sureSheet, purpose: toClose, kind: validate.MonthClosing, err: wrong}, "sure-train": {name: sureSheet, purpose: toTrain},
		"closings": {name: closingsSheet}, "report": {name: reportSheet, kind: x.Kind, report: &x}, "report-z": {name: reportSheet, kind: z.Kind, report: &z, said: true, page: 1},
		"history": {name: historySheet, acts: acts, report: &x, page: 0}, "history-none": {name: historySheet}, "slip": {name: slipSheet, receipt: &paid, err: wrong}, "slip-sent": {name: slipSheet, receipt: &copied, said: true},
		"slip-asked": {name: slipSheet, receipt: &copied, acts: []validate.Transaction{{Reversal: &taken}}}, "slip-refused": {name: slipSheet, receipt: &copied, acts: []validate.Transaction{{Reversal: &refusal}}},
		"why": {name: whySheet, receipt: &paid, err: wrong}, "words": {name: wordsSheet, words: strings.Repeat("MOT ", 18)}, "words-none": {name: wordsSheet, err: errField},
		"identity-document": identity(0), "identity-number": identity(1), "identity-valid": identity(3), "identity-born-wrong": wrongDate, "identity-address": identity(8), "identity-all": identity(9),
		"paper":    {name: paperSheet},
		"messages": {name: messagesSheet, messages: []validate.Message{{Number: 1, From: "2026-12-01", French: long, English: long}, {Number: 2}, {Number: 3}}},
	} {
		s := duty
		if x.name == identitySheet || x.name == paperSheet {
			s = known
			s.View.Seen = terminal.Misprinted
		}
		add("sheet-"+name, s, x, false)
	}

	bad := health.Check{Code: "D14", Name: "printer", State: health.Fail, Detail: strings.Repeat("a detail of some length ", 9), Hint: strings.Repeat("what to do about it ", 9)}
	report := health.Report{Checks: []health.Check{bad, bad, bad}}
	for name, found := range map[sheetName]inspection{workshopSheet: {}, doctorSheet: {report: &report}, trialSheet: {tried: &bad},
		addressSheet: {list: []Address{{"central", "https://central.lottery.example:8443"}, {"network", "192.168.178.120"}, {"network", "fd00:1234:5678:9abc:def0:1234:5678:9abc"}, {"page", "http://127.0.0.1:8087/"}, {"program", "grattoir v1.2.3-45-gabcdef0"}}}} {
		add("sheet-"+string(name), duty, sheet{name: name, found: &found}, false)
	}

	b := terminal.Batch{ID: "b", Currency: "EUR", Needs: []validate.Need{}}
	for i, r := range []validate.Reason{validate.Winner, validate.NotAWinner, validate.AlreadyPaidElsewhere, validate.PackNotActive, validate.AboveShopLimit, validate.Winner, validate.TicketNotInBlock, validate.Winner, validate.NotAuthentic, validate.Winner} {
		v := on(r, 199999).View
		v.ID = fmt.Sprint(i)
		b.Views = append(b.Views, v)
	}
	b.Prizes, b.Total = 4, 4*199999
	full := on(validate.Winner, 199999)
	full.Batch, full.View.ID = &b, "9"
	add("batch", full, sheet{}, false)
	add("batch-ask", full, sheet{}, true)
	short := full
	short.Batch = &terminal.Batch{ID: "b", Views: b.Views[9:], Prizes: 1, Total: 199999, Currency: "EUR"}
	add("batch-one", short, sheet{}, false)
	refused := on(validate.AlreadyPaidElsewhere, 2000)
	refused.Batch, refused.View.ID = &b, "2"
	add("batch-refused", refused, sheet{}, false)
	more := refused
	more.View.ID = "another"
	add("batch-full", more, sheet{}, false)
	empty := base
	empty.Batch = &terminal.Batch{ID: "b", Currency: "EUR"}
	add("batch-empty", empty, sheet{}, false)
	named := b
	named.Needs = []validate.Need{validate.ConfirmCash, validate.Identity}
	must := full
	must.Batch = &named
	add("batch-identity", must, sheet{}, false)
	if c.register != nil {
		c.register.Break(nil)
		add("batch-identity-take", must, sheet{}, false)
	}
	done := b
	done.Paid, done.Views = true, slices.Clone(b.Views)
	for i := range done.Views {
		if v := &done.Views[i]; v.Verdict.Outcome == validate.Pay {
			v.Stage, v.Receipt = terminal.Paid, &paid
		}
	}
	over := full
	over.Batch, over.View = &done, done.Views[9]
	over.View.Receipt = &validate.Receipt{Claim: paid.Claim, Number: paid.Number, Print: validate.Printed, Copies: 1}
	add("batch-paid", over, sheet{}, false)
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
  for (const part of document.querySelectorAll("#bar, #line, main, .head, .tell, .act, .body:not(.pad), .side, .typed, #keypad, .tiles, .rows, .turn")) {
    inside(part, whole, part.getAttribute("id") || part.className || part.tagName);
    const box = part.getBoundingClientRect();
    if (getComputedStyle(part).display === "contents") continue;
    for (const el of part.querySelectorAll("p, span, b, button, img, div, output, li, dt, dd")) {
      inside(el, box, (part.getAttribute("id") || part.className || part.tagName) + " > " + (el.id || el.className || el.tagName));
      if (el.scrollWidth > el.clientWidth + 1 && getComputedStyle(el).display !== "inline" && !el.classList.contains("who")) wrong.push((el.id || el.className) + " is too narrow for its text");
    }
  }
  const boxes = [...document.querySelectorAll("button")].map(b => [b, b.getBoundingClientRect()]);
  for (const [b, r] of boxes.filter(([b, r]) => r.width)) {
    const least = b.closest(".with-letters #keypad") ? (innerWidth < 800 ? 56 : 64) : b.closest(".rows, .turn") || !b.closest(".act") ? 64 : 96;
    if (r.height < least || r.width < least) wrong.push("button " + b.id + " is " + r.width + "x" + r.height);
    for (const [c, s] of boxes) if (b !== c && s.width && r.left < s.right + 11 && s.left < r.right + 11 && r.top < s.bottom + 11 && s.top < r.bottom + 11) wrong.push((b.id || b.textContent) + " is too near to " + (c.id || c.textContent));
  }
  const light = c => { const v = c.match(/[\d.]+/g).slice(0, 3).map(x => x / 255).map(x => x <= .04045 ? x / 12.92 : ((x + .055) / 1.055) ** 2.4); return .2126 * v[0] + .7152 * v[1] + .0722 * v[2]; };
  for (const el of document.querySelectorAll("p, span, b, button, output, dt, dd")) {
    let under = el;
    while (under && /^rgba.*, 0\)$/.test(getComputedStyle(under).backgroundColor)) under = under.parentElement;
    const a = light(getComputedStyle(el).color), b = light(getComputedStyle(under || document.body).backgroundColor);
    const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    if (ratio < 4.5) wrong.push((el.id || el.className || el.tagName) + " has a contrast of " + ratio.toFixed(1));
  }
  return wrong;
})()`

// TestBrowserEveryViewFits looks at every view in both languages at the three screens, and
// leaves pictures of some in test-out, or of all in the folder that GRATTOIR_SHOTS names.
func TestBrowserEveryViewFits(t *testing.T) {
	register := new(terminaltest.Register)
	c := newCounterOf(t, func(o *terminal.Options) { o.Register = register }, func(o *Options) {
		o.Demonstration = true
		o.Workshop = Workshop{Bench: &health.Bench{}, Addresses: func() []Address { return nil }, Examine: func(context.Context) (health.Report, error) { return health.Report{}, nil }}
	})
	c.register = register
	c.trusted = time.Time{} // the longest clock
	c.silence = time.Hour
	inner := c.Handler()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/events") { // the views below are put in by hand
			<-r.Context().Done()
			return
		}
		if strings.HasPrefix(r.URL.Path, "/slip/") || r.URL.Path == "/address.png" {
			w.Header().Set("Content-Type", "image/png")
			w.Header().Set("Cache-Control", "max-age=3600")
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
				list := slices.DeleteFunc(shots(c, l), func(s shot) bool { return s.page != page })
				lookAt(t, tab, fmt.Sprintf("%s-%dx%d", l, size[0], size[1]), c, list)
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

// pictured are the views of which every run leaves a picture.
var pictured = []string{"idle", "idle-nobody", "winner", "not-a-winner", "already-paid-elsewhere", "above-shop-limit", "code-misread", "ask", "paid-printed", "batch", "batch-paid",
	"win-message", "idle-fault", "sheet-menu", "sheet-code", "sheet-pin-wrong", "sheet-history", "sheet-report", "typing",
	"identity-take", "sheet-identity-number", "sheet-words", "misprint-remedies", "misprint-taken-in", "sheet-find", "slip-scanned", "sheet-identity-all", "sheet-why", "sheet-slip-refused", "sheet-paper"}

// capture takes a picture. The browser packs it loosely: the time of this test is that of its
// pictures.
func capture(picture *[]byte) chromedp.Action {
	return chromedp.ActionFunc(func(ctx context.Context) (err error) {
		*picture, err = page.CaptureScreenshot().WithFromSurface(true).WithOptimizeForSpeed(true).Do(ctx)
		return err
	})
}

// lookAt puts the views into the page one after the other, in one call, and says what is
// wrong with any.
func lookAt(t *testing.T, tab context.Context, where string, c *counter, list []shot) {
	t.Helper()
	texts := make([]string, len(list))
	for i, s := range list {
		text, err := c.render(s.page, s.view)
		if err != nil {
			t.Fatal(err)
		}
		texts[i] = string(text)
	}
	js, err := json.Marshal(texts)
	if err != nil {
		t.Fatal(err)
	}
	const put = `document.getElementById("screen").outerHTML = html; await Promise.all([...document.images].map(i => i.decode()));`
	var wrong [][]string
	run(t, tab, where, chromedp.Evaluate(fmt.Sprintf(`(async () => { window.views = %s; const all = []; for (const html of views) { %s all.push(%s); } return all; })()`, js, put, measure), &wrong, awaitPromise))
	dir, all := os.Getenv("GRATTOIR_SHOTS"), true
	if dir == "" {
		dir, all = filepath.Join("..", "..", "test-out", "screens"), false
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		t.Fatal(err)
	}
	for i, s := range list {
		for _, w := range wrong[i] {
			t.Errorf("%s %s %s: %s", s.page, s.name, where, w)
		}
		if !all && !slices.Contains(pictured, s.name) {
			continue
		}
		var picture []byte
		run(t, tab, "picture", chromedp.Evaluate(fmt.Sprintf(`(async () => { const html = views[%d]; %s })()`, i, put), nil, awaitPromise), capture(&picture))
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%s-%s-%s.png", s.page, s.name, where)), picture, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
