package screen

import (
	"bytes"
	"context"
	"html"
	"image"
	"image/draw"
	"image/png"
	"log/slog"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/makiuchi-d/gozxing"
	"github.com/makiuchi-d/gozxing/qrcode"

	"grattoir/device/health"
	"grattoir/device/printer"
	"grattoir/device/terminal"
	"grattoir/device/terminal/terminaltest"
	"grattoir/validate"
	"grattoir/validate/ticket"
)

// The operators of a staffed counter; one whose id begins with m is a manager.
var pins = map[string]string{"anne": "4711", "bob": "2580", "max": "9073"}

// staffed makes a counter on which operators sign on.
func staffed(t *testing.T) *counter {
	t.Helper()
	register := new(terminaltest.Register)
	c := newCounterOf(t, func(o *terminal.Options) { o.Staff, o.Register = terminaltest.NewStaff(pins), register }, func(o *Options) {
		o.Operators = func(context.Context) ([]Operator, error) {
			return []Operator{{"anne", "Anne Le Gall", "clerk"}, {"bob", "", "clerk"}, {"max", "Max", "manager"}}, nil
		}
	})
	c.register = register
	return c
}

var sheetOf = regexp.MustCompile(`name="sheet" value="(\d+)"`)

// tap presses a button of the page as it is now.
func (c *counter) tap(t *testing.T, path string, more ...string) string {
	t.Helper()
	page := c.page(t)
	if m := sheetOf.FindStringSubmatch(page); m != nil {
		more = append(more, "sheet", m[1])
	}
	state, _ := c.terminal.State()
	return html.UnescapeString(c.press(t, path, state.View.ID, more...).Body.String())
}

func (c *counter) page(t *testing.T) string {
	t.Helper()
	return html.UnescapeString(c.do(t, http.MethodGet, "/", nil, nil).Body.String())
}

// lay opens each sheet in turn; the way to it is the clerk's.
func (c *counter) ways(t *testing.T) map[sheetName]func() {
	return map[sheetName]func(){
		menuSheet:     func() { c.tap(t, "/open", "sheet-name", "menu") },
		codeSheet:     func() { c.tap(t, "/open", "sheet-name", "code") },
		historySheet:  func() { c.tap(t, "/open", "sheet-name", "history") },
		closingsSheet: func() { c.tap(t, "/open", "sheet-name", "closings") },
		reportSheet:   func() { c.tap(t, "/open", "sheet-name", "report", "kind", "day") },
		messagesSheet: func() { c.tap(t, "/open", "sheet-name", "messages") },
		whoSheet:      func() { c.tap(t, "/open", "sheet-name", "who", "purpose", "close", "kind", "day") },
		floatSheet: func() {
			c.tap(t, "/open", "sheet-name", "who", "purpose", "sign-on")
			c.tap(t, "/sheet/pick", "operator", "anne")
		},
		pinSheet: func() {
			c.tap(t, "/open", "sheet-name", "who", "purpose", "train")
			c.tap(t, "/sheet/pick", "operator", "max")
		},
		sureSheet: func() { c.tap(t, "/open", "sheet-name", "who", "purpose", "sign-off") },
		whySheet: func() {
			c.tap(t, "/open", "sheet-name", "history")
			last, _ := c.terminal.Last(t.Context(), 1)
			c.tap(t, "/open", "sheet-name", "slip", "entry", last[0].Number.String())
			c.tap(t, "/sheet/why")
		},
		wordsSheet: func() {
			c.tap(t, "/open", "sheet-name", "history")
			last, _ := c.terminal.Last(t.Context(), 1)
			c.tap(t, "/open", "sheet-name", "slip", "entry", last[0].Number.String())
			c.tap(t, "/sheet/why")
			c.tap(t, "/sheet/because", "reason", "other")
		},
		paperSheet: func() {
			c.check(t, 98, 2000)
			c.tap(t, "/open", "sheet-name", "paper")
		},
		identitySheet: func() {
			c.check(t, 97, 250000)
			c.tap(t, "/open", "sheet-name", "identity")
			c.tap(t, "/sheet/field", "document", "passport")
		},
		slipSheet: func() {
			c.tap(t, "/open", "sheet-name", "history")
			last, _ := c.terminal.Last(t.Context(), 1)
			c.tap(t, "/open", "sheet-name", "slip", "entry", last[0].Number.String())
		},
	}
}

// signOn signs anne on, as a clerk does it on the page.
func (c *counter) signOn(t *testing.T) {
	t.Helper()
	c.tap(t, "/open", "sheet-name", "who", "purpose", "sign-on")
	c.tap(t, "/sheet/pick", "operator", "anne")
	c.tap(t, "/sheet/float", "digits", "5000")
	c.tap(t, "/sheet/pin", "digits", "4711")
	c.await(t, "anne on duty", func(s terminal.State) bool { return s.Session != nil && !s.Session.Locked })
}

func TestScanTakesEverySheetAwayAndIsShown(t *testing.T) {
	c := staffed(t)
	c.signOn(t)
	v := c.check(t, 99, 2000)
	c.press(t, "/pay", v.ID)
	c.tap(t, "/next")
	number := uint16(0)
	for name, open := range c.ways(t) {
		open()
		if page := c.page(t); !strings.Contains(page, `<div id="screen" class="sheet`) || c.sheet.name != name {
			t.Errorf("%s: the sheet is not on the page, but %q", name, c.sheet.name)
			continue
		}
		number++
		c.check(t, number, 2000)
		page := c.page(t)
		wantAll(t, "the page after a scan over "+string(name), page, "GAGNANT", `class="win`, "20\u00a0€")
		// A press that was on its way to the sheet does nothing to the ticket.
		if r := c.press(t, "/sheet/leave", "", "sheet", "1"); r.Code != http.StatusConflict {
			t.Errorf("%s: a late press got %d", name, r.Code)
		}
		wantAll(t, "the page after a late press", c.page(t), "GAGNANT")
		c.tap(t, "/next")
	}
	if int(number) != len(c.ways(t)) {
		t.Errorf("%d sheets tried", number)
	}
}

func TestPlayerNeverSeesASheet(t *testing.T) {
	c := staffed(t)
	c.tap(t, "/open", "sheet-name", "menu")
	page := c.do(t, http.MethodGet, "/player", nil, nil).Body.String()
	wantAll(t, "the player's page", page, "Faites vérifier votre ticket", `class="idle"`)
	wantNone(t, "the player's page", page, "<form", "HISTORIQUE")
}

func TestCodeIsTypedOnThePageAndIsNeverTakenForAScan(t *testing.T) {
	c := newCounter(t, nil)
	code := c.put(t, 7, validate.Opened{Amount: 2000})
	c.tap(t, "/open", "sheet-name", "code")
	if page := c.tap(t, "/sheet/code", "digits", "12a"); !strings.Contains(page, "retapez") || c.sheet.name != codeSheet {
		t.Errorf("letters were taken for a code:\n%s", page)
	}
	page := c.tap(t, "/sheet/code", "digits", code[:20]+" "+code[20:])
	wantAll(t, "the page", page, "GAGNANT", `id="pay"`)
	state, _ := c.terminal.State()
	if state.View.Entered != validate.Typed {
		t.Errorf("entered as %q", state.View.Entered)
	}
	wantNone(t, "the page", page, code[18:])
}

func TestHiddenDigitsAreTypedOnAKeypad(t *testing.T) {
	c := newCounter(t, nil)
	code, err := ticket.Make(ticket.MI18(), "512", 123, 9, "48213")
	if err != nil {
		t.Fatal(err)
	}
	c.shelf.Add(code, validate.Opened{Block: validate.BlockID{1}, Game: "bingo", GameName: "Bingo", Amount: 500, Tier: 3, Currency: "EUR"})
	v := c.terminal.Check(t.Context(), terminal.Scan{Text: code.Digits()[:13]})
	if v.Stage != terminal.Typing {
		t.Fatalf("%+v", v)
	}
	wantAll(t, "the page", c.page(t), `action="/complete"`, `data-max="5"`, "TAPEZ LES CHIFFRES")
	wantAll(t, "the page after four digits", c.tap(t, "/complete", "digits", "4821"), "retapez", `id="keypad"`)
	wantAll(t, "the page", c.tap(t, "/complete", "digits", "48213"), "GAGNANT", "5\u00a0€")
}

func TestSignOnLockUnlockAndSignOffOnThePage(t *testing.T) {
	c := staffed(t)
	wantAll(t, "the first page", c.page(t), "PRISE DE SERVICE", "Personne en service")
	v := c.check(t, 1, 2000)
	wantAll(t, "a winner before anybody signed on", c.page(t), "GAGNANT", "PRISE DE SERVICE")
	wantNone(t, "a winner before anybody signed on", c.page(t), `id="pay"`)

	wantAll(t, "who signs on", c.tap(t, "/open", "sheet-name", "who", "purpose", "sign-on"), "Anne Le Gall", "bob", "Max")
	wantAll(t, "the float", c.tap(t, "/sheet/pick", "operator", "anne"), "Fond de caisse", `data-point=","`)
	wantAll(t, "the PIN", c.tap(t, "/sheet/float", "digits", "5000"), "Code secret de Anne Le Gall", `data-secret="true"`)
	wrong := c.tap(t, "/sheet/pin", "digits", "1111")
	wantAll(t, "a wrong PIN", wrong, "O1", "Refusé", `data-secret="true"`)
	wantNone(t, "a wrong PIN", wrong, "1111")
	c.tap(t, "/sheet/pin", "digits", "4711")
	c.await(t, "anne on duty", func(s terminal.State) bool { return s.Session != nil })
	wantAll(t, "the winner after it", c.page(t), "GAGNANT", `id="pay"`, "En service")
	c.press(t, "/pay", v.ID)
	if claims := c.ledger.Claims(); len(claims) != 1 || claims[0].Operator != "anne" {
		t.Fatalf("%+v", claims)
	}
	if shift, _ := c.ledger.Shift(t.Context()); shift == nil || shift.Float != 5000 {
		t.Fatalf("%+v", shift)
	}
	c.tap(t, "/next")

	wantAll(t, "the menu", c.tap(t, "/open", "sheet-name", "menu"), "VERROUILLER", "FIN DE SERVICE", "HISTORIQUE")
	c.tap(t, "/lock")
	c.await(t, "locked", func(s terminal.State) bool { return s.Session != nil && s.Session.Locked })
	wantAll(t, "the locked page", c.page(t), "DÉVERROUILLER")
	wantAll(t, "whose PIN", c.tap(t, "/open", "sheet-name", "who", "purpose", "unlock"), "Code secret de anne")
	c.tap(t, "/sheet/pin", "digits", "4711")
	c.await(t, "open", func(s terminal.State) bool { return !s.Session.Locked })

	wantAll(t, "sign-off", c.tap(t, "/open", "sheet-name", "who", "purpose", "sign-off"), "Finir le service", "OUI, CONFIRMER")
	wantAll(t, "the closing", c.tap(t, "/sheet/sure"), "Clôture : SERVICE", "imprimante")
	c.await(t, "nobody on duty", func(s terminal.State) bool { return s.Session == nil })
	c.await(t, "the closing's slip", func(terminal.State) bool { return len(c.printer.Closings()) == 1 })
}

func TestClosingNeedsAManagerAndIsMadeOnceWhenPressedTwice(t *testing.T) {
	c := staffed(t)
	c.signOn(t)
	wantAll(t, "the reading", c.tap(t, "/open", "sheet-name", "report", "kind", "day"), "Lecture : JOURNÉE", "IMPRIMER", "CLÔTURER (Z)")
	reading := sheetOf.FindStringSubmatch(c.page(t))[1]
	for range 2 {
		c.press(t, "/sheet/print", "", "sheet", reading)
	}
	choice := c.tap(t, "/open", "sheet-name", "who", "purpose", "close", "kind", "day")
	wantAll(t, "who allows it", choice, "Max")
	wantNone(t, "who allows it", choice, "Anne")
	c.tap(t, "/sheet/pick", "operator", "max")
	serial := sheetOf.FindStringSubmatch(c.page(t))[1]
	for range 2 {
		c.press(t, "/sheet/pin", "", "sheet", serial, "digits", "9073")
	}
	wantAll(t, "the closing", c.page(t), "Clôture : JOURNÉE")
	c.await(t, "the closing's slip", func(terminal.State) bool {
		list := c.printer.Closings()
		return len(list) > 0 && list[len(list)-1].Z()
	})
	if list := c.printer.Closings(); len(list) != 2 || list[0].Z() {
		t.Errorf("a reading and a closing were each asked for twice: %d slips", len(list))
	}
}

func TestHistoryShowsTheSlipsAndReprintsOnce(t *testing.T) {
	c := newCounter(t, nil)
	for i := range 6 {
		v := c.check(t, uint16(i+1), 2000)
		c.press(t, "/pay", v.ID)
		c.await(t, "the slip", func(s terminal.State) bool { return s.View.Receipt != nil && s.View.Receipt.Print == validate.Printed })
	}
	c.tap(t, "/next")
	first := c.tap(t, "/open", "sheet-name", "history")
	wantAll(t, "the history", first, "page 1 sur 2", "Payé 20\u00a0€", "Reçu imprimé")
	wantAll(t, "its second page", c.tap(t, "/sheet/page", "page", "1"), "page 2 sur 2")
	wantAll(t, "far beyond the last page", c.tap(t, "/sheet/page", "page", "1000"), "page 2 sur 2")
	entry := c.ledger.Claims()[0].Number.String()
	wantAll(t, "the slip", c.tap(t, "/open", "sheet-name", "slip", "entry", entry), "/slip/"+entry+".png?copy=1", "RÉIMPRIMER")
	if r := c.do(t, http.MethodGet, "/slip/"+entry+".png", nil, nil); r.Code != http.StatusOK {
		t.Errorf("the slip's picture: %d", r.Code)
	}
	serial := sheetOf.FindStringSubmatch(c.page(t))[1]
	for range 2 {
		c.press(t, "/sheet/again", "", "sheet", serial)
	}
	slips, err := c.printer.Await(t.Context(), 7)
	if err != nil || slips[6].Copies != 2 {
		t.Fatalf("%v %v", slips, err)
	}
	c.tap(t, "/sheet/leave")
	wantAll(t, "back to the history", c.page(t), "Derniers actes")
	wantAll(t, "back to the counter", c.tap(t, "/sheet/leave"), "Scannez un ticket")
	if n := len(c.printer.Slips()); n != 7 {
		t.Errorf("%d slips", n)
	}
}

func TestTrainingIsSwitchedByAManagerAndMarkedOnEveryPage(t *testing.T) {
	c := staffed(t)
	c.signOn(t)
	c.tap(t, "/open", "sheet-name", "who", "purpose", "train")
	c.tap(t, "/sheet/pick", "operator", "max")
	c.tap(t, "/sheet/pin", "digits", "9073")
	for name, open := range c.ways(t) {
		if slices.Contains([]sheetName{slipSheet, whySheet, wordsSheet}, name) {
			continue // nothing was paid
		}
		open()
		wantAll(t, "the sheet "+string(name), c.page(t), "FORMATION : rien n'est enregistré")
	}
	c.tap(t, "/sheet/leave")
	v := c.check(t, 1, 2000)
	wantAll(t, "the payment", html.UnescapeString(c.press(t, "/pay", v.ID).Body.String()), "FORMATION", "ne remettez pas d'argent")
}

func TestBatchIsPaidOnThePageAsItWasShown(t *testing.T) {
	c := newCounter(t, nil)
	wantAll(t, "the page", c.tap(t, "/batch"), "PLUSIEURS TICKETS", "Scannez les tickets")
	c.check(t, 1, 2000)
	c.check(t, 2, 0)
	page := c.page(t)
	wantAll(t, "the batch", page, "PERDANT", "Total 20\u00a0€", "PAYER LE LOT 20\u00a0€", "2 / 10")
	c.check(t, 1, 2000)
	wantAll(t, "a winner of the batch", c.page(t), `id="paper"`)
	c.check(t, 2, 0)
	page = c.page(t)
	wantNone(t, "the batch", page, `action="/pay"`)
	shown := regexp.MustCompile(`name="batch" value="([^"]*/[^"]*)"`).FindStringSubmatch(page)[1]
	c.check(t, 3, 11000) // a scan comes between the look and the press
	if r := c.press(t, "/batch/pay", "", "batch", shown); r.Code != http.StatusConflict || len(c.ledger.Claims()) != 0 {
		t.Fatalf("a sum was paid that nobody saw: %d", r.Code)
	}
	page = c.page(t)
	shown = regexp.MustCompile(`name="batch" value="([^"]*/[^"]*)"`).FindStringSubmatch(page)[1]
	asked := c.press(t, "/batch/pay", "", "batch", shown).Body.String()
	wantAll(t, "the question", asked, "La caisse suffit-elle", "OUI, PAYER 130\u00a0€", "NON, RETOUR")
	wantAll(t, "after no", c.press(t, "/back", "", "batch", shown).Body.String(), "PAYER LE LOT")
	c.press(t, "/batch/pay", "", "batch", shown)
	paid := c.press(t, "/batch/pay", "", "batch", shown, "cash", "yes").Body.String()
	wantAll(t, "the paid batch", paid, "LOT PAYÉ", "130\u00a0€", "remettez 130\u00a0€ en tout", "PERDANT")
	if n := len(c.ledger.Claims()); n != 2 {
		t.Errorf("%d claims", n)
	}
	state, _ := c.terminal.State()
	wantAll(t, "the next customer", c.press(t, "/next", state.View.ID, "batch", state.Batch.ID).Body.String(), "Scannez un ticket")
}

func TestBatchThatNobodyMayPayOffersSigningOn(t *testing.T) {
	c := staffed(t)
	c.tap(t, "/batch")
	c.check(t, 1, 2000)
	page := c.page(t)
	wantAll(t, "the batch", page, "PRISE DE SERVICE", "Identifiez-vous, puis payez.")
	wantNone(t, "the batch", page, "PAYER LE LOT")
	wantAll(t, "given up", c.tap(t, "/batch/end", "batch", func() string { s, _ := c.terminal.State(); return s.Batch.ID }()), "Scannez un ticket")
}

func TestMessagesCanBeReadAgain(t *testing.T) {
	c := newCounter(t, nil)
	wantAll(t, "no message", c.tap(t, "/open", "sheet-name", "messages"), "Rien pour l'instant.")
	c.tap(t, "/sheet/leave")
	c.messages.Say(validate.Message{Number: 1, From: "2026-12-01", French: "Le premier.", English: "The first."})
	c.messages.Say(validate.Message{Number: 2, From: "2026-12-02", French: "Le second.", English: "The second."})
	wantAll(t, "the newest", c.tap(t, "/open", "sheet-name", "messages"), "Le second.", "02/12/2026, À LIRE", "page 1 sur 2")
	wantAll(t, "the older", c.tap(t, "/sheet/page", "page", "1"), "Le premier.")
}

func TestTechnicianExaminesAndTriesTheDevicesOnThePage(t *testing.T) {
	examined, printed := make(chan struct{}), make(chan string, 1)
	bench := health.Bench{Print: func(_ context.Context, mark string) (printer.State, error) {
		printed <- mark
		return printer.StatePrinted, nil
	}}
	c := newCounter(t, func(o *Options) {
		o.Workshop = Workshop{Bench: &bench, Addresses: func() []Address {
			return []Address{{"central", "https://central.example:8443"}, {"network", "192.168.1.20"}}
		},
			Examine: func(ctx context.Context) (health.Report, error) {
				select {
				case <-examined:
				case <-ctx.Done():
				}
				var r health.Report
				bad := health.About(health.CheckSpace)
				bad.State, bad.Detail, bad.Hint = health.Fail, "3 MB are free", "free some"
				good := health.About(health.CheckLedger)
				good.State = health.OK
				r.Add(good, bad)
				return r, nil
			}}
	})
	wantAll(t, "the menu", c.tap(t, "/open", "sheet-name", "menu"), "TECHNICIEN")
	wantAll(t, "the workshop", c.tap(t, "/open", "sheet-name", "workshop"), "EXAMEN", "AUTOTEST", "ADRESSES")
	until := func(what string, parts ...string) {
		t.Helper()
		for {
			now := c.take("clerk")
			page := c.page(t)
			missing := slices.IndexFunc(parts, func(p string) bool { return !strings.Contains(blank(page), blank(p)) })
			if missing < 0 {
				return
			}
			select {
			case <-now.question:
			case <-now.counter:
			case <-time.After(10 * time.Second):
				t.Fatalf("%s: %q never came:\n%s", what, parts[missing], page)
			}
		}
	}
	wantAll(t, "the doctor at work", c.tap(t, "/open", "sheet-name", "doctor"), "En cours…")
	close(examined)
	until("the doctor", "2 contrôles : 1 bons, 1 à voir.", "D4", "FAIL", "3 MB are free", "free some")
	c.tap(t, "/sheet/leave")
	wantAll(t, "the self-test", c.tap(t, "/open", "sheet-name", "trial"), "T1", "T5")
	c.tap(t, "/sheet/try", "step", "T1")
	if mark := <-printed; !health.IsMark(mark) {
		t.Errorf("the slip carries %q", mark)
	}
	until("the slip", "T1", "OK")
	c.tap(t, "/sheet/leave")
	wantAll(t, "the addresses", c.tap(t, "/open", "sheet-name", "address"), "192.168.1.20", "/address.png")
	picture, err := png.Decode(c.do(t, "GET", "/address.png", nil, nil).Body)
	if err != nil {
		t.Fatal(err)
	}
	dots, err := gozxing.NewBinaryBitmapFromImage(framed(picture))
	if err != nil {
		t.Fatal(err)
	}
	read, err := qrcode.NewQRCodeReader().Decode(dots, nil)
	if err != nil || !strings.Contains(read.GetText(), "https://central.example:8443") {
		t.Errorf("the code reads %v, %v", read, err)
	}

	// A customer comes first: the ticket takes the sheet away, and nothing is tried over it.
	c.tap(t, "/sheet/leave")
	c.check(t, 1, 2000)
	c.tap(t, "/open", "sheet-name", "trial")
	if page := c.tap(t, "/sheet/try", "step", "T1"); strings.Contains(page, "En cours…") || len(printed) != 0 {
		t.Errorf("a device is tried during a sale:\n%s", page)
	}
}

// framed gives a code the quiet zone that a page gives it.
func framed(code image.Image) image.Image {
	b := code.Bounds().Inset(-40)
	out := image.NewGray(b)
	draw.Draw(out, b, image.White, image.Point{}, draw.Src)
	draw.Draw(out, code.Bounds(), code, code.Bounds().Min, draw.Src)
	return out
}

// TestPINIsNeverOnThePageOrInTheLog: what is typed goes to the counter and comes back nowhere.
func TestPINIsNeverOnThePageOrInTheLog(t *testing.T) {
	c := staffed(t)
	log := logOf(c)
	c.tap(t, "/open", "sheet-name", "who", "purpose", "sign-on")
	c.tap(t, "/sheet/pick", "operator", "anne")
	c.tap(t, "/sheet/float", "digits", "")
	pages := []string{c.tap(t, "/sheet/pin", "digits", "86420"), c.page(t), c.tap(t, "/sheet/pin", "digits", "86420")}
	if i := slices.IndexFunc(pages, func(p string) bool { return strings.Contains(p, "86420") }); i >= 0 {
		t.Errorf("page %d shows the PIN", i)
	}
	if text := log(); strings.Contains(text, "86420") || !strings.Contains(text, "press not followed") {
		t.Errorf("log: %s", text)
	}
}

// logOf gives what the screen's log says from now on.
func logOf(c *counter) func() string {
	b := new(lockedBuffer)
	c.opt.Log = slog.New(slog.NewTextHandler(b, nil))
	return b.String
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
