package screen

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"image"
	"image/color"
	"image/png"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/image/font/sfnt"

	"grattoir/device/health"
	"grattoir/device/terminal"
	"grattoir/device/terminal/terminaltest"
	"grattoir/validate"
	"grattoir/validate/money"
	"grattoir/validate/policy"
	"grattoir/validate/ticket"
)

var noon = time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)

// counter is a terminal on fakes, with the screen over it.
type counter struct {
	*Screen
	terminal *terminal.Terminal
	shelf    *terminaltest.Shelf
	ledger   *terminaltest.Ledger
	printer  *terminaltest.Printer
	central  *terminaltest.Central
	packs    *terminaltest.Packs
	messages terminaltest.Messages
	register *terminaltest.Register // nil where the counter keeps no identities
	trusted  time.Time
	limits   atomic.Pointer[terminal.Fault]
}

// newCounter makes a counter whose printing goes on until the test ends. Edit, when
// set, changes the options.
func newCounter(t testing.TB, edit func(*Options)) *counter {
	t.Helper()
	return newCounterOf(t, nil, edit)
}

// newCounterOf makes one of other options of the counter itself, too.
func newCounterOf(t testing.TB, desk func(*terminal.Options), edit func(*Options)) *counter {
	t.Helper()
	now := func() time.Time { return noon }
	log := slog.New(slog.DiscardHandler)
	c := &counter{shelf: terminaltest.NewShelf(append(ticket.Known(), ticket.MI18())...), ledger: terminaltest.NewLedger("T-0042", now), printer: terminaltest.NewPrinter(),
		central: terminaltest.NewCentral(), packs: terminaltest.NewPacks(), trusted: noon}
	trusted := func() time.Time { return c.trusted }
	options := terminal.Options{Name: "T-0042", Shelf: c.shelf, Ledger: c.ledger, Printer: c.printer, Central: c.central, Packs: c.packs, Messages: &c.messages, Operator: "marie",
		Policy: func() policy.Policy {
			return policy.Policy{Version: "p1", Currency: "EUR", ShopLimit: 500000, ConfirmCashPrize: 10000, IdentityPrize: 200000, ClaimDays: 30}
		},
		Currency: "EUR", Now: now, Trusted: trusted, Log: log, Limits: c.limits.Load}
	if desk != nil {
		desk(&options)
	}
	c.terminal = terminal.New(options)
	opt := Options{Terminal: c.terminal, Name: "T-0042", Shop: "Tabac de la Gare", Now: now, Trusted: trusted, DataDate: func() time.Time { return noon.Add(-18 * time.Hour) }, Log: log,
		Render: func(w io.Writer, r validate.Receipt) error { return png.Encode(w, drawing()) }}
	if edit != nil {
		edit(&opt)
	}
	var err error
	if c.Screen, err = New(opt); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); c.terminal.Run(ctx) }()
	watched := make(chan struct{})
	go func() { defer close(watched); c.terminal.Watch(ctx) }()
	t.Cleanup(func() { c.Close(); cancel(); <-done; <-watched })
	return c
}

// drawing stands for a slip: 576 dots wide, twice as long.
func drawing() image.Image {
	g := image.NewGray(image.Rect(0, 0, 576, 1100))
	for y := range 1100 {
		for x := range 576 {
			shade := uint8(255)
			if x > 40 && x < 536 && y > 40 && y%60 > 30 && y < 1040 && (x/14)%3 != 0 {
				shade = 30
			}
			g.SetGray(x, y, color.Gray{Y: shade})
		}
	}
	return g
}

// put lays a ticket of an amount on the shelf and returns its code.
func (c *counter) put(t testing.TB, number uint16, o validate.Opened) string {
	t.Helper()
	code, err := ticket.Make(ticket.G40(), "512", 123, number, "0123456789012345678901")
	if err != nil {
		t.Fatal(err)
	}
	o.Block, o.Game, o.GameName, o.Emission, o.Number, o.Currency = validate.BlockID{1}, "bingo", "Bingo", "1", 1, "EUR"
	if o.Amount > 0 {
		o.Tier = 3
	}
	c.shelf.Add(code, o)
	return code.Digits()
}

// check puts a ticket of an amount on the counter and returns its view.
func (c *counter) check(t *testing.T, number uint16, amount money.Amount) terminal.View {
	t.Helper()
	return c.terminal.Check(t.Context(), terminal.Scan{Text: c.put(t, number, validate.Opened{Amount: amount})})
}

func (c *counter) do(t *testing.T, method, target string, form url.Values, edit func(*http.Request)) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(method, target, strings.NewReader(form.Encode()))
	r.Host = "localhost:8080"
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("X-Grattoir-Part", "view")
	}
	if edit != nil {
		edit(r)
	}
	w := httptest.NewRecorder()
	c.Handler().ServeHTTP(w, r)
	return w
}

// press sends a form as the page would, with the token and the id of a view.
func (c *counter) press(t *testing.T, path, id string, more ...string) *httptest.ResponseRecorder {
	t.Helper()
	form := url.Values{"token": {c.token}, "id": {id}}
	for i := 0; i < len(more); i += 2 {
		form.Set(more[i], more[i+1])
	}
	return c.do(t, http.MethodPost, path, form, nil)
}

// await waits until the counter's state is as wanted.
func (c *counter) await(t *testing.T, what string, want func(terminal.State) bool) terminal.State {
	t.Helper()
	end := time.After(20 * time.Second)
	for {
		state, changed := c.terminal.State()
		if want(state) {
			return state
		}
		select {
		case <-changed:
		case <-end:
			t.Fatalf("the counter never came to: %s", what)
		}
	}
}

// blank makes every space the same: TestFrenchSignsStayOnTheLineOfTheirWord looks at them.
func blank(text string) string { return strings.ReplaceAll(text, "\u00a0", " ") }

func wantAll(t *testing.T, where, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(blank(text), blank(p)) {
			t.Errorf("%s lacks %q", where, p)
		}
	}
}

func wantNone(t *testing.T, where, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if strings.Contains(blank(text), blank(p)) {
			t.Errorf("%s has %q", where, p)
		}
	}
}

func TestIdlePageShowsTheLawAndTheStateOfTheTerminal(t *testing.T) {
	c := newCounter(t, nil)
	c.trusted = time.Time{}
	page := c.do(t, "GET", "/", nil, nil)
	text := page.Body.String()
	wantAll(t, "the idle page", text, `<html lang="fr">`, "Scannez un ticket", "Interdit aux moins de 18 ans", "09 74 75 13 13 - appel non surtaxé",
		"Tout est envoyé au centre", "Données du 27/11 à 18:00", "Imprimante prête", "Lecteur prêt", "12:00 heure non vérifiée", "Tabac de la Gare")
	wantNone(t, "the idle page", text, `id="pay"`, "DÉMONSTRATION")
	page = c.do(t, "GET", "/", nil, func(r *http.Request) { r.AddCookie(&http.Cookie{Name: "lang", Value: "en"}) })
	wantAll(t, "the English page", page.Body.String(), `<html lang="en">`, "Scan a ticket", "No play under 18", "Data of 27 Nov, 18:00", `lang="fr">Les jeux d`)
}

func TestStatusLineNamesEveryTrouble(t *testing.T) {
	c := newCounter(t, func(o *Options) { o.Demonstration = true })
	c.terminal.ScannerFault(&terminal.Fault{Code: "S1", ClerkFR: "Lecteur débranché.\nVérifiez son câble.", ClerkEN: "Scanner gone."})
	v := c.check(t, 1, 2000)
	c.press(t, "/pay", v.ID)
	c.ledger.Break(errors.New("disk full"))
	c.limits.Store(health.Limits(health.LimitsOver, "2026-1"))
	c.printer.Break(terminaltest.PaperOut())
	c.await(t, "printer, ledger and limits faulty", func(s terminal.State) bool { return s.Printer != nil && s.Ledger != nil && s.Limits != nil })
	wantAll(t, "the status line", c.do(t, "GET", "/", nil, nil).Body.String(), "DÉMONSTRATION", "S1 Lecteur débranché. Vérifiez son câble.",
		"P2 Plus de papier. Mettez un rouleau.", "V4 Le terminal ne peut pas enregistrer.", "R1 Règles périmées, aucun paiement. Appelez l&#39;assistance.", "1 paiement non envoyé (20\u00a0€)")
}

func TestPayPressedTwicePaysOnce(t *testing.T) {
	c := newCounter(t, nil)
	v := c.check(t, 1, 2000)
	wantAll(t, "the verdict", c.do(t, "GET", "/", nil, nil).Body.String(), "GAGNANT", "20\u00a0€", "vingt euros", `id="pay"`, "V0", "Ticket 00512-0000123-001")
	for range 2 {
		w := c.press(t, "/pay", v.ID)
		if w.Code != http.StatusOK {
			t.Fatalf("pay answers %d: %s", w.Code, w.Body)
		}
		wantAll(t, "the answer", w.Body.String(), "PAYÉ", "1-000001")
		wantNone(t, "the answer", w.Body.String(), `id="pay"`)
	}
	if n := len(c.ledger.Claims()); n != 1 {
		t.Errorf("%d claims after two presses", n)
	}
}

func TestPayOfAStalePagePaysNothingAndShowsTheNewTicket(t *testing.T) {
	c := newCounter(t, nil)
	old := c.check(t, 1, 2000)
	c.check(t, 2, 5000)
	w := c.press(t, "/pay", old.ID)
	if w.Code != http.StatusConflict || len(c.ledger.Claims()) != 0 {
		t.Errorf("status %d, %d claims; want 409 and none", w.Code, len(c.ledger.Claims()))
	}
	wantAll(t, "the answer", w.Body.String(), "50\u00a0€", `id="pay"`)
}

func TestCashIsConfirmedInASecondStepOnly(t *testing.T) {
	c := newCounter(t, nil)
	v := c.check(t, 1, 20000)
	// A yes that nobody was asked for is no yes.
	w := c.press(t, "/pay", v.ID, "cash", "yes")
	wantAll(t, "the first answer", w.Body.String(), "La caisse suffit-elle ?", `id="sure"`, `id="back"`)
	if len(c.ledger.Claims()) != 0 {
		t.Fatal("paid before the question was answered")
	}
	wantNone(t, "the player's page", c.do(t, "GET", "/player", nil, nil).Body.String(), "La caisse")
	wantAll(t, "after no", c.press(t, "/back", v.ID).Body.String(), "GAGNANT", `id="pay"`)
	c.press(t, "/pay", v.ID)
	next := c.check(t, 2, 30000)
	wantAll(t, "a new ticket", c.do(t, "GET", "/", nil, nil).Body.String(), `id="pay"`)
	c.press(t, "/pay", next.ID, "cash", "yes")
	wantAll(t, "after yes", c.press(t, "/pay", next.ID, "cash", "yes").Body.String(), "PAYÉ", "300\u00a0€")
	if got := c.ledger.Claims(); len(got) != 1 || got[0].Amount != 30000 {
		t.Errorf("claims %v, want the 300 € alone", got)
	}
}

func TestSlipForThePaymentCentreIsPrintedOnce(t *testing.T) {
	c := newCounter(t, nil)
	v := c.check(t, 1, 600000)
	wantAll(t, "the page of a prize above the limit", c.do(t, "GET", "/", nil, nil).Body.String(), "IMPRIMER LE BON", "6\u202f000\u00a0€")
	wantAll(t, "the first press", c.press(t, "/result", v.ID).Body.String(), "Bon envoyé")
	if r := c.press(t, "/result", v.ID); r.Code != http.StatusConflict {
		t.Errorf("the second press: %d", r.Code)
	}
	c.await(t, "the slip", func(terminal.State) bool { return len(c.printer.Results()) > 0 })
	if list := c.printer.Results(); len(list) != 1 || list[0].Verdict.Reason != validate.AboveShopLimit || list[0].Game != "Bingo" {
		t.Errorf("%+v", list)
	}
	v = c.check(t, 2, 0)
	wantNone(t, "the page of a loser", c.do(t, "GET", "/", nil, nil).Body.String(), "IMPRIMER LE BON")
	if r := c.press(t, "/result", v.ID); r.Code != http.StatusConflict {
		t.Errorf("a slip of a loser that nobody offers: %d", r.Code)
	}
}

func TestPrizeThatNeedsIdentityOffersNoPayment(t *testing.T) {
	c := newCounter(t, nil)
	v := c.check(t, 1, 250000)
	wantNone(t, "the page", c.do(t, "GET", "/", nil, nil).Body.String(), `id="pay"`, `id="sure"`)
	wantAll(t, "the page", c.do(t, "GET", "/", nil, nil).Body.String(), "Identité du joueur obligatoire")
	c.press(t, "/pay", v.ID)
	c.press(t, "/pay", v.ID, "cash", "yes")
	if len(c.ledger.Claims()) != 0 {
		t.Error("paid without the identity")
	}
}

func TestPageOfAPaidBatchNamesTheWholeSumAndOffersNoPayment(t *testing.T) {
	c := newCounter(t, nil)
	b, err := c.terminal.BeginBatch()
	if err != nil {
		t.Fatal(err)
	}
	c.check(t, 1, 2000)
	c.check(t, 2, 3000)
	if _, err := c.terminal.PayBatch(t.Context(), b.ID, terminal.Confirmed{}); err != nil {
		t.Fatal(err)
	}
	page := c.do(t, http.MethodGet, "/", nil, nil).Body.String()
	if strings.Contains(page, `action="/pay"`) || !strings.Contains(page, "remettez 50\u00a0€ en tout") || !strings.Contains(page, "gains\u00a0: 2, total 50\u00a0€") {
		t.Errorf("page of a paid batch:\n%s", page)
	}
	c.check(t, 3, 500)
	if page := c.do(t, http.MethodGet, "/", nil, nil).Body.String(); strings.Contains(page, "Lot payé") {
		t.Error("the next customer's page still speaks of the batch")
	}
}

// TestLockedCounterNamesWhosePINOpensIt: signing on is refused there, somebody is.
func TestLockedCounterNamesWhosePINOpensIt(t *testing.T) {
	for want, state := range map[string]terminal.State{
		"Identifiez-vous, puis payez.":                         {SignOn: true},
		"Verrouillé\u00a0: tapez le code de anne, puis payez.": {SignOn: true, Session: &terminal.Session{Operator: "anne", Locked: true}},
		"": {SignOn: true, Session: &terminal.Session{Operator: "anne"}},
	} {
		if got := mayNotPay(state, words{money.French}); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestAlreadyPaidSaysWhenAndWhere(t *testing.T) {
	c := newCounter(t, nil)
	v := c.check(t, 1, 2000)
	c.press(t, "/pay", v.ID)
	c.check(t, 1, 2000)
	text := c.do(t, "GET", "/", nil, nil).Body.String()
	wantAll(t, "the page", text, "DÉJÀ PAYÉ ICI", "Payé le 28/11 à 12:00", "registre n°\u00a01-000001", "Gain : 20\u00a0€", "V17")
	wantNone(t, "the page", text, `class="amount`, `id="pay"`)
	c.central.Set(func(s *terminal.Standing) {
		s.PaidElsewhere = &validate.Payment{At: noon.AddDate(-1, 0, 0), Terminal: "T-7", Shop: "Bar du Port", Number: "2-000009", AsOf: noon.Add(-time.Hour)}
	})
	c.check(t, 2, 2000)
	wantAll(t, "paid elsewhere", c.do(t, "GET", "/", nil, nil).Body.String(), "Payé le 28/11/2025 à 12:00", "point de vente Bar du Port, terminal T-7", "information du 28/11 à 11:00", "2-000009")
}

func TestPaperThatRunsOutSoonIsToldAndPaysOn(t *testing.T) {
	c := newCounter(t, nil)
	c.printer.Warn(terminaltest.PaperLow())
	c.await(t, "the warning", func(s terminal.State) bool { return s.Paper != nil })
	v := c.check(t, 1, 2000)
	wantAll(t, "the roll nearly used up", c.press(t, "/pay", v.ID).Body.String(), "P10 Bientôt plus de papier. Préparez un rouleau.", "1-000001")
	c.printer.Warn(nil)
	c.await(t, "no warning", func(s terminal.State) bool { return s.Paper == nil })
	wantNone(t, "a new roll", c.do(t, "GET", "/", nil, nil).Body.String(), "P10")
}

func TestPaidViewFollowsThePaperAndReprintsOnce(t *testing.T) {
	c := newCounter(t, nil)
	c.printer.Pause()
	v := c.check(t, 1, 2000)
	w := c.press(t, "/pay", v.ID)
	wantAll(t, "while printing", w.Body.String(), "Impression du reçu en cours", `src="/slip/1-000001.png?copy=1"`)
	wantNone(t, "while printing", w.Body.String(), `id="reprint"`)
	// Only a slip that is inside the printer by then is held there; the other case is
	// the counter's own.
	c.printer.Break(terminaltest.PaperOut())
	c.await(t, "the slip held", func(s terminal.State) bool { return s.View.Holding != nil })
	wantAll(t, "while held", c.do(t, "GET", "/", nil, nil).Body.String(), "Reçu en attente, rien n&#39;est perdu. P2\u00a0: Plus de papier. Mettez un rouleau.")
	c.printer.Resume()
	c.printer.Break(nil)
	c.await(t, "the slip printed", func(s terminal.State) bool { return s.View.Receipt.Print == validate.Printed })
	wantAll(t, "when printed", c.do(t, "GET", "/", nil, nil).Body.String(), "Reçu imprimé.", `id="reprint"`)
	for range 2 {
		c.press(t, "/reprint", v.ID, "copies", "1")
		c.await(t, "the copy printed", func(s terminal.State) bool { return s.View.Receipt.Print == validate.Printed })
	}
	if slips := c.printer.Slips(); len(slips) != 2 || slips[1].Copies != 2 {
		t.Errorf("%d slips came out, want the original and one copy", len(slips))
	}
	wantAll(t, "after the copy", c.do(t, "GET", "/", nil, nil).Body.String(), "DUPLICATA 1")
	if w := c.do(t, "GET", "/slip/1-000001.png", nil, nil); w.Code != 200 || !bytes.HasPrefix(w.Body.Bytes(), []byte("\x89PNG")) {
		t.Errorf("the preview answers %d, %d bytes", w.Code, w.Body.Len())
	}
	if w := c.do(t, "GET", "/slip/1-000002.png", nil, nil); w.Code != http.StatusNotFound {
		t.Errorf("the preview of another claim answers %d", w.Code)
	}
	c.press(t, "/next", v.ID)
	if w := c.do(t, "GET", "/slip/1-000001.png", nil, nil); w.Code != http.StatusNotFound {
		t.Errorf("the preview of a claim that is not on the counter answers %d", w.Code)
	}
}

func TestNextOfAStalePageKeepsTheNewTicket(t *testing.T) {
	c := newCounter(t, nil)
	old := c.check(t, 1, 2000)
	c.check(t, 2, 5000)
	wantAll(t, "after a stale next", c.press(t, "/next", old.ID).Body.String(), "50\u00a0€")
}

func TestPlayerPageHasNoButtonsAndNoLinks(t *testing.T) {
	c := newCounter(t, nil)
	c.check(t, 1, 2000)
	text := c.do(t, "GET", "/player", nil, nil).Body.String()
	wantAll(t, "the player's page", text, "GAGNANT", "20\u00a0€", "Ce ticket gagne.", "This ticket wins.", `data-events="/player/events"`)
	wantNone(t, "the player's page", text, "<button", "<form", "<a ", c.token)
}

func TestRequestsForAForeignHostAreRefused(t *testing.T) {
	c := newCounter(t, nil)
	for host, want := range map[string]int{
		"localhost": 200, "LOCALHOST:80": 200, "127.0.0.1:8080": 200, "127.1.2.3": 200, "[::1]:8080": 200, "[::1]": 200,
		"evil.example": 421, "localhost.evil.example:8080": 421, "192.168.1.5:8080": 421, "0.0.0.0": 421, "[::]": 421, "": 421,
		"127.0.0.1.evil.example": 421, "[::1%25lo]": 421,
	} {
		w := c.do(t, "GET", "/", nil, func(r *http.Request) { r.Host = host })
		if w.Code != want {
			t.Errorf("host %q answers %d, want %d", host, w.Code, want)
		}
		if w.Header().Get("Content-Security-Policy") != policyText || w.Header().Get("X-Frame-Options") != "DENY" || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("host %q: headers %v", host, w.Header())
		}
	}
}

func TestPressesNotFromOurPageAreRefused(t *testing.T) {
	c := newCounter(t, nil)
	v := c.check(t, 1, 2000)
	good := url.Values{"token": {c.token}, "id": {v.ID}}
	for name, try := range map[string]struct {
		form url.Values
		edit func(*http.Request)
		want int
	}{
		"no token":       {url.Values{"id": {v.ID}}, nil, 403},
		"wrong token":    {url.Values{"id": {v.ID}, "token": {strings.Repeat("A", len(c.token))}}, nil, 403},
		"foreign origin": {good, func(r *http.Request) { r.Header.Set("Origin", "http://evil.example") }, 403},
		"other port":     {good, func(r *http.Request) { r.Header.Set("Origin", "http://localhost:9999") }, 403},
		"cross site":     {good, func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }, 403},
		"same site":      {good, func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-site") }, 403},
		"large body":     {url.Values{"token": {c.token}, "id": {strings.Repeat("x", maxForm)}}, nil, 400},
		"token in query": {url.Values{"id": {v.ID}}, func(r *http.Request) { r.URL.RawQuery = "token=" + c.token }, 403},
	} {
		if w := c.do(t, "POST", "/pay", try.form, try.edit); w.Code != try.want {
			t.Errorf("%s: status %d, want %d", name, w.Code, try.want)
		}
	}
	for _, path := range []string{"/pay", "/back", "/next", "/reprint", "/language"} {
		if w := c.do(t, "GET", path+"?"+good.Encode(), nil, nil); w.Code != http.StatusMethodNotAllowed {
			t.Errorf("GET %s answers %d", path, w.Code)
		}
	}
	if len(c.ledger.Claims()) != 0 {
		t.Fatal("a refused press paid")
	}
	same := func(r *http.Request) {
		r.Header.Set("Origin", "http://localhost:8080")
		r.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	if w := c.do(t, "POST", "/pay", good, same); w.Code != 200 || len(c.ledger.Claims()) != 1 {
		t.Errorf("our own page's press: status %d, %d claims", w.Code, len(c.ledger.Claims()))
	}
}

func TestLanguageIsKeptInACookieAndAPlainFormComesBack(t *testing.T) {
	c := newCounter(t, nil)
	form := url.Values{"token": {c.token}, "lang": {"en"}}
	w := c.do(t, "POST", "/language", form, func(r *http.Request) { r.Header.Del("X-Grattoir-Part") })
	if w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/" || !strings.Contains(w.Header().Get("Set-Cookie"), "lang=en") {
		t.Errorf("status %d, headers %v", w.Code, w.Header())
	}
	if w := c.press(t, "/language", "", "lang", "de"); w.Code != http.StatusConflict || w.Header().Get("Set-Cookie") != "" {
		t.Errorf("a language that is not offered: status %d, %v", w.Code, w.Header())
	}
}

// event reads one event of a stream.
func event(t *testing.T, r *bufio.Reader) (kind, id, data string) {
	t.Helper()
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch key {
		case "":
			return kind, id, data
		case "event":
			kind = value
		case "id":
			id = value
		case "data":
			data += value + "\n"
		}
	}
}

func TestStreamSendsASnapshotThenChangesThenSignsOfLife(t *testing.T) {
	c := newCounter(t, nil)
	c.beat = 20 * time.Millisecond
	server := httptest.NewServer(c.Handler())
	defer server.Close()
	answer, err := http.Get(server.URL + "/events")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	r := bufio.NewReader(answer.Body)
	_, first, data := event(t, r)
	wantAll(t, "the snapshot", data, "Scannez un ticket")
	if kind, _, _ := event(t, r); kind != "beat" {
		t.Errorf("with nothing to say the stream sends %q", kind)
	}
	c.check(t, 1, 2000)
	for !strings.Contains(data, "GAGNANT") {
		_, id, text := event(t, r)
		if id == first {
			t.Fatal("two views have one id")
		}
		data = text
	}
	c.Close()
	if _, err := io.Copy(io.Discard, r); err != nil {
		t.Errorf("the end of the stream: %v", err)
	}
}

func TestEventKeepsATextWithLineEndsWhole(t *testing.T) {
	r := bufio.NewReader(strings.NewReader("id: 1\n" + string(dataLines([]byte("<p>\r\nevent: beat\r</p>"))) + "\n"))
	if kind, _, data := event(t, r); kind != "" || data != "<p>\nevent: beat</p>\n" {
		t.Errorf("an event of kind %q with data %q", kind, data)
	}
}

func TestStreamsAreBounded(t *testing.T) {
	c := newCounter(t, nil)
	for range maxStreams {
		c.streams <- struct{}{}
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	if w := c.do(t, "GET", "/events", nil, func(r *http.Request) { *r = *r.WithContext(gone) }); w.Code != http.StatusServiceUnavailable {
		t.Errorf("one stream too many answers %d", w.Code)
	}
}

func TestPageNeverShowsAWholeCode(t *testing.T) {
	c := newCounter(t, nil)
	code := c.put(t, 1, validate.Opened{Amount: 2000})
	v := c.terminal.Check(t.Context(), terminal.Scan{Text: code})
	pages := c.do(t, "GET", "/", nil, nil).Body.String() + c.do(t, "GET", "/player", nil, nil).Body.String() + c.press(t, "/pay", v.ID).Body.String()
	wantNone(t, "a page", pages, code, "0123456789")
}

func TestPageEscapesTextAndHasNothingInline(t *testing.T) {
	c := newCounter(t, func(o *Options) { o.Shop = "<script>alert(1)</script>" })
	text := c.do(t, "GET", "/", nil, nil).Body.String()
	wantNone(t, "the page", text, "<script>alert")
	if regexp.MustCompile(`(?i)<style| style=| on[a-z]+=|<script>`).MatchString(text) {
		t.Error("the page has inline script or style, which its own policy forbids")
	}
}

// catalogue lists every text of a language, with arguments of some length in their places.
func catalogue(l money.Language) map[string]string {
	all, v := map[string]string{}, reflect.ValueOf(wordsOf(l))
	for i := range v.NumMethod() {
		var args []reflect.Value
		for j := range v.Method(i).Type().NumIn() {
			switch kind := v.Method(i).Type().In(j); kind.Kind() {
			case reflect.String:
				args = append(args, reflect.ValueOf("x"))
			default:
				args = append(args, reflect.New(kind).Elem())
			}
		}
		all[v.Type().Method(i).Name] = v.Method(i).Call(args)[0].String()
	}
	return all
}

// TestEveryWordExistsInBothLanguages: what lacks a language does not compile, and no text
// is empty or has a wrong argument. Few read the same in both.
func TestEveryWordExistsInBothLanguages(t *testing.T) {
	french, english := catalogue(money.French), catalogue(money.English)
	if len(french) < 100 {
		t.Fatalf("%d texts", len(french))
	}
	same := []string{"Ticket", "BarLabel", "Terminal", "Copy", "Menu", "Messages", "BatchTotal"}
	for name, text := range french {
		if text == "" || english[name] == "" || strings.Contains(text+english[name], "%!") {
			t.Errorf("%s: %q, %q", name, text, english[name])
		}
		if text == english[name] && !slices.Contains(same, name) {
			t.Errorf("%s reads the same in both languages: %q", name, text)
		}
	}
}

func TestEmbeddedFontsHaveEveryLetterOfThePages(t *testing.T) {
	all := new(strings.Builder)
	for _, l := range []money.Language{money.French, money.English} {
		for _, text := range catalogue(l) {
			all.WriteString(text)
		}
		for _, r := range validate.Reasons() {
			x := r.Text(l)
			all.WriteString(x.Word + x.Clerk + x.Next + x.Player)
		}
	}
	all.WriteString(defaultNotice + "€œŒ✓\u202f\u00a0⚠−⌫●◀▶␣")
	for _, file := range []string{"DejaVuSans.ttf", "DejaVuSans-Bold.ttf"} {
		raw, err := files.ReadFile("static/" + file)
		if err != nil {
			t.Fatal(err)
		}
		font, err := sfnt.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		var b sfnt.Buffer
		for _, r := range all.String() {
			if i, err := font.GlyphIndex(&b, r); r >= ' ' && (err != nil || i == 0) {
				t.Errorf("%s has no %q", file, r)
			}
		}
	}
}

func TestOptionsThatCannotWorkAreRefused(t *testing.T) {
	c := newCounter(t, nil)
	for name, o := range map[string]Options{
		"no terminal": {Log: slog.New(slog.DiscardHandler)},
		"no log":      {Terminal: c.terminal},
		"language":    {Terminal: c.terminal, Log: slog.New(slog.DiscardHandler), Languages: []money.Language{"de"}},
	} {
		if _, err := New(o); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// A button at the counter goes the way of the PAY button on the page.
func TestPayButtonPaysWhatWasShownAndAsksForTheCashFirst(t *testing.T) {
	c := newCounter(t, nil)
	first := c.check(t, 1, 2000)
	v := c.check(t, 2, 20000)
	if err := c.PressPay(t.Context(), first.ID); !errors.Is(err, terminal.ErrStale) {
		t.Error("a press for the ticket before:", err)
	}
	if err := c.PressPay(t.Context(), ""); err == nil {
		t.Error("a press for no ticket was followed")
	}
	if err := c.PressPay(t.Context(), v.ID); err != nil {
		t.Fatal(err)
	}
	wantAll(t, "after one press", c.do(t, "GET", "/", nil, nil).Body.String(), "La caisse suffit-elle ?")
	if err := c.PressPay(t.Context(), v.ID); err == nil { // a trembling finger
		t.Error("the question was answered before it could be read")
	}
	if n := len(c.ledger.Claims()); n != 0 {
		t.Fatalf("%d claims before the answer", n)
	}
	c.guard = 0 // the time has passed
	if err := c.PressPay(t.Context(), v.ID); err != nil {
		t.Fatal(err)
	}
	if err := c.PressPay(t.Context(), v.ID); err != nil {
		t.Error("a second press on a paid ticket:", err)
	}
	if got := c.ledger.Claims(); len(got) != 1 || got[0].Amount != 20000 {
		t.Errorf("claims %v, want one of 200 €", got)
	}
}

func TestStatusLineNamesTheWorstFaultsOfTheWires(t *testing.T) {
	c := newCounter(t, nil)
	c.terminal.BoardFaults([]terminal.Fault{{Code: "G7", ClerkFR: "Boîtier ouvert : refermez-le."}, {Code: "G8"}, {Code: "G9"}})
	page := c.do(t, "GET", "/", nil, nil).Body.String()
	wantAll(t, "the status line", page, "G7 Boîtier ouvert", "G8")
	wantNone(t, "the status line", page, "G9")
}

// scanPack scans the public code of a delivered pack of this terminal.
func (c *counter) scanPack(t *testing.T, state validate.PackState) terminal.View {
	t.Helper()
	c.packs.Set(validate.Pack{GameCode: "00512", Number: 123, Known: true, State: state, Own: true, Epoch: 1})
	code, err := ticket.Make(ticket.G18(), "512", 123, 7, "")
	if err != nil {
		t.Fatal(err)
	}
	return c.terminal.Check(t.Context(), terminal.Scan{Text: code.Digits()})
}

func TestPackIsPutOnSaleInASecondStepOnly(t *testing.T) {
	c := newCounter(t, nil)
	v := c.scanPack(t, validate.PackDelivered)
	page := c.do(t, "GET", "/", nil, nil).Body.String()
	wantAll(t, "the page", page, "LIVRET REÇU", "K3", "ACTIVER LE LIVRET", `id="activate"`, "00512-0000123-007")
	wantNone(t, "the page", page, `id="pay"`)
	// A yes that nobody was asked for is no yes.
	first := c.press(t, "/activate", v.ID, "sure", "yes").Body.String()
	wantAll(t, "the question", first, "Livret 0000123", `id="activating"`, `id="back"`)
	if len(c.packs.Sold()) != 0 {
		t.Fatal("on sale before the question was answered")
	}
	if key(page) == key(first) {
		t.Error("the question has the key of the view before it: a double tap would answer it")
	}
	wantAll(t, "after no", c.press(t, "/back", v.ID).Body.String(), `id="activate"`)
	c.press(t, "/activate", v.ID)
	after := c.press(t, "/activate", v.ID, "sure", "yes").Body.String()
	wantAll(t, "after yes", after, "LIVRET EN VENTE", "K4")
	wantNone(t, "after yes", after, `id="activate"`)
	if got := c.packs.Sold(); !slices.Equal(got, []string{"00512-123 marie"}) {
		t.Errorf("%v", got)
	}
	player := c.do(t, "GET", "/player", nil, nil).Body.String()
	wantAll(t, "the player's page", player, "il ne dit rien d&#39;un gain")
	wantNone(t, "the player's page", player, "activate")
}

// key is what the page tells one view from the next by.
func key(page string) string {
	_, rest, _ := strings.Cut(page, `data-key="`)
	k, _, _ := strings.Cut(rest, `"`)
	return k
}

func TestOnlyADeliveredPackOffersToBePutOnSale(t *testing.T) {
	c := newCounter(t, nil)
	for state, word := range map[validate.PackState]string{validate.PackActive: "LIVRET EN VENTE", validate.PackSettled: "LIVRET RÉGLÉ", validate.PackReturn: "LIVRET RENDU", validate.PackStolenNow: "LIVRET BLOQUÉ"} {
		v := c.scanPack(t, state)
		page := c.do(t, "GET", "/", nil, nil).Body.String()
		wantAll(t, string(state), page, word)
		wantNone(t, string(state), page, `id="activate"`)
		c.press(t, "/activate", v.ID)
		wantNone(t, string(state), c.do(t, "GET", "/", nil, nil).Body.String(), `id="activating"`)
	}
}

func TestPageShowsWhatCentralSaysUntilItIsRead(t *testing.T) {
	c := newCounter(t, nil)
	c.messages.Say(validate.Message{Number: 4, French: "Nouveau jeu lundi", English: "New game on Monday"})
	c.messages.Say(validate.Message{Number: 5, Mandatory: true, French: "Refusez les billets <de 500>", English: "Refuse 500 notes"})
	c.await(t, "two messages", func(s terminal.State) bool { return len(s.Messages) == 2 })
	show := func() string { return c.do(t, "GET", "/", nil, nil).Body.String() }
	idle := show()
	wantAll(t, "the idle page", idle, "MESSAGE DU CENTRE", "Refusez les billets &lt;de 500&gt;", "1 de plus à lire", `value="5"`, `id="read"`)
	wantNone(t, "the idle page", idle, "Nouveau jeu", `id="next"`)
	wantNone(t, "the player's page", c.do(t, "GET", "/player", nil, nil).Body.String(), "Refusez", "Nouveau", "MESSAGE")
	lost := c.terminal.Check(t.Context(), terminal.Scan{Text: c.put(t, 9, validate.Opened{})})
	wantNone(t, "beside a ticket that is not paid", show(), "Refusez", `id="read"`)
	wantAll(t, "beside a ticket that is not paid", show(), "PERDANT", `id="next"`)
	c.terminal.Dismiss(lost.ID)
	v := c.check(t, 1, 2000)
	wantAll(t, "beside a prize", show(), "GAGNANT", "20\u00a0€", "Refusez les billets", "puis payez", `id="read"`)
	wantNone(t, "beside a prize", show(), `id="pay"`)
	c.press(t, "/pay", v.ID)
	if len(c.ledger.Claims()) != 0 {
		t.Fatal("paid though a message must be read first")
	}
	before := show()
	after := c.press(t, "/read", v.ID, "message", "5").Body.String()
	wantAll(t, "after it was read", after, "GAGNANT", `id="pay"`)
	wantNone(t, "after it was read", after, "Refusez", `id="read"`)
	if key(before) == key(after) {
		t.Error("PAY stands where READ did, under the same key: a double tap on READ would pay")
	}
	c.terminal.Dismiss(v.ID)
	wantAll(t, "idle again", show(), "Nouveau jeu lundi", `value="4"`)
	if key(idle) == key(show()) {
		t.Error("two messages have one key: a double tap on READ would read the second unseen")
	}
	c.press(t, "/read", "", "message", "4")
	wantAll(t, "with nothing left to read", show(), "Scannez un ticket")
	if got := c.messages.WasRead(); !slices.Equal(got, []string{"5 marie", "4 marie"}) {
		t.Errorf("%v", got)
	}
}

// TestFrenchSignsStayOnTheLineOfTheirWord: no French text breaks before : ; ? ! or inside « »,
// in the catalogue and in the words of verdicts.
func TestFrenchSignsStayOnTheLineOfTheirWord(t *testing.T) {
	loose := regexp.MustCompile(` [:;?!»]|« |n° `)
	texts := map[string]string{}
	v := reflect.ValueOf(wordsOf(money.French))
	for i := range v.NumMethod() {
		if m := v.Method(i); m.Type().NumOut() == 1 && m.Type().Out(0).Kind() == reflect.String {
			in := []reflect.Value{}
			for k := range m.Type().NumIn() {
				in = append(in, reflect.Zero(m.Type().In(k)))
			}
			texts[v.Type().Method(i).Name] = m.Call(in)[0].String()
		}
	}
	for _, r := range validate.Reasons() {
		x := r.Text(money.French)
		texts[string(r)] = oneLine(x.Clerk) + " / " + oneLine(x.Next)
	}
	for name, text := range texts {
		if loose.MatchString(text) {
			t.Errorf("%s: %q", name, text)
		}
	}
	if len(texts) < 200 {
		t.Errorf("only %d texts", len(texts))
	}
}
