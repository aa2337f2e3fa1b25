package screen

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"html"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"grattoir/device/terminal"
	"grattoir/validate"
	"grattoir/validate/proof"
)

// TestPaymentIsTakenBackWithAReasonAndAManagersPIN: the whole way on the page. The clerk's own
// PIN allows nothing, a second press asks for nothing more, and what central answers is told.
func TestPaymentIsTakenBackWithAReasonAndAManagersPIN(t *testing.T) {
	c := staffed(t)
	c.signOn(t)
	v := c.check(t, 1, 2000)
	c.press(t, "/pay", v.ID)
	c.tap(t, "/next")
	slip := func() string {
		t.Helper()
		c.tap(t, "/open", "sheet-name", "history")
		return c.tap(t, "/open", "sheet-name", "slip", "entry", c.ledger.Claims()[0].Number.String())
	}
	wantAll(t, "the slip", slip(), "ANNULER CE PAIEMENT")
	wantAll(t, "the reasons", c.tap(t, "/sheet/why"), "Pourquoi annuler 20\u00a0€", "MAUVAIS TICKET", "JOUEUR PARTI", "reste payé")
	wantAll(t, "back", c.tap(t, "/sheet/leave"), "Reçu n°", "ANNULER CE PAIEMENT")
	c.tap(t, "/sheet/why")
	wantAll(t, "an unknown reason", c.tap(t, "/sheet/because", "reason", "boredom"), "Pourquoi annuler")
	wantAll(t, "the clerk's own", c.tap(t, "/sheet/because", "reason", "other"), "En quelques mots", `data-digit="A"`, `data-digit=" "`)
	wantAll(t, "no words", c.tap(t, "/sheet/words", "digits", "  "), "Il faut quelques mots")
	choice := c.tap(t, "/sheet/words", "digits", "DEUX  TICKETS ")
	wantAll(t, "who allows it", choice, "Qui autorise", "Max")
	wantNone(t, "who allows it", choice, "Anne", "Bob")
	c.tap(t, "/sheet/pick", "operator", "max")
	wantAll(t, "a wrong PIN", c.tap(t, "/sheet/pin", "digits", "4711"), "O1", "Code secret de Max")
	if n := len(c.ledger.Reversals()); n != 0 {
		t.Fatalf("%d reversals by a clerk's PIN", n)
	}
	serial := sheetOf.FindStringSubmatch(c.page(t))[1]
	for range 2 {
		c.press(t, "/sheet/pin", "", "sheet", serial, "digits", "9073")
	}
	asked := c.page(t)
	wantAll(t, "the slip after it", asked, "Annulation demandée au centre.", "reste payé")
	wantNone(t, "the slip after it", asked, "ANNULER CE PAIEMENT")
	list := c.ledger.Reversals()
	if len(list) != 1 || list[0].Reason != validate.OtherReason || list[0].Text != "DEUX TICKETS" || list[0].Operator != "anne" || list[0].Manager != "max" {
		t.Fatalf("%+v", list)
	}
	wantAll(t, "the history", c.tap(t, "/sheet/leave"), "Annulation demandée 20\u00a0€", "AUTRE RAISON", `id="reversal-`)
	c.ledger.AnswerReversal(list[0].Number, validate.ReversalRefused, "Payé deux fois.")
	c.tap(t, "/sheet/leave")
	wantAll(t, "the slip when central refused", slip(), "Annulation refusée par le centre", "reste payé", "Le centre écrit : Payé deux fois.")
	wantAll(t, "a late press", c.tap(t, "/sheet/why"), "Reçu n°")
	c.ledger.AnswerReversal(list[0].Number, validate.ReversalAccepted, "")
	c.tap(t, "/sheet/leave")
	wantAll(t, "the history when it was accepted", c.page(t), "Annulation acceptée")

	alone := newCounter(t, nil) // nobody's PIN could allow it
	v = alone.check(t, 1, 2000)
	alone.press(t, "/pay", v.ID)
	alone.tap(t, "/next")
	alone.tap(t, "/open", "sheet-name", "history")
	wantNone(t, "a slip without sign-on", alone.tap(t, "/open", "sheet-name", "slip", "entry", alone.ledger.Claims()[0].Number.String()), "ANNULER")
}

// TestPaymentOfAnEarlierShiftIsTakenBack: found by its slip's number however it is typed, by its
// ticket, and by the code on its slip; what is no payment of this terminal is not found.
func TestPaymentOfAnEarlierShiftIsTakenBack(t *testing.T) {
	c := staffed(t)
	c.signOn(t)
	v := c.check(t, 1, 2000)
	c.press(t, "/pay", v.ID)
	paid := c.ledger.Claims()[0]
	if _, err := c.terminal.SignOff(t.Context(), terminal.Credentials{}); err != nil {
		t.Fatal(err)
	}
	c.await(t, "signed off", func(s terminal.State) bool { return s.Session == nil })
	c.signOn(t)
	find := func(digits string) string {
		t.Helper()
		c.tap(t, "/open", "sheet-name", "find")
		return c.tap(t, "/sheet/number", "digits", digits)
	}
	wantAll(t, "the history", c.tap(t, "/open", "sheet-name", "history"), `id="find"`)
	for _, digits := range []string{"1", "000001", "1000001"} {
		wantAll(t, "by "+digits, find(digits), "Reçu n° 1-000001", "ANNULER CE PAIEMENT")
		wantAll(t, "left", c.tap(t, "/sheet/leave"), "Scannez un ticket")
	}
	for _, digits := range []string{"", "0", "2", "2000001", "1000002", "99999999999999"} {
		wantAll(t, "by "+digits, find(digits), "Aucun paiement", "Numéro du reçu")
	}

	c.check(t, 1, 2000)
	wantAll(t, "its ticket", c.page(t), "DÉJÀ PAYÉ", "VOIR LE REÇU")
	if c.tap(t, "/open", "sheet-name", "slip", "entry", "1-000002"); c.sheet.name != noSheet {
		t.Error("another payment than the ticket's is shown")
	}
	wantAll(t, "from its ticket", c.tap(t, "/open", "sheet-name", "slip", "entry", paid.Number.String()), "Reçu n° 1-000001")
	c.tap(t, "/sheet/leave")

	s, err := proof.Of(paid)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	sign := func() string {
		code, err := s.Sign(func(text []byte) ([]byte, error) {
			sum := sha256.Sum256(text)
			return ecdsa.SignASN1(rand.Reader, key, sum[:])
		})
		if err != nil {
			t.Fatal(err)
		}
		return code.String()
	}
	c.terminal.Check(t.Context(), terminal.Scan{Text: sign()})
	wantAll(t, "its slip's code", c.page(t), "Reçu n° 1\u2011000001", "pas d'un ticket", "VOIR LE REÇU")
	c.tap(t, "/open", "sheet-name", "slip", "entry", paid.Number.String())
	c.tap(t, "/sheet/why")
	c.tap(t, "/sheet/because", "reason", "wrong-ticket")
	c.tap(t, "/sheet/pick", "operator", "max")
	wantAll(t, "taken back", c.tap(t, "/sheet/pin", "digits", "9073"), "Annulation demandée au centre.")
	if list := c.ledger.Reversals(); len(list) != 1 || list[0].Number != paid.Number {
		t.Fatalf("%+v", list)
	}
	c.tap(t, "/sheet/leave")
	wantAll(t, "the second look", find("1"), "Annulation demandée au centre.")
	wantNone(t, "the second look", c.page(t), "ANNULER CE PAIEMENT")

	s.Hash = strings.Repeat("0", 16) // of a journal that was put back
	c.terminal.Check(t.Context(), terminal.Scan{Text: sign()})
	wantNone(t, "the code of another entry", c.page(t), "VOIR LE REÇU")
}

// fill types an identity, field by field.
func (c *counter) fill(t *testing.T) string {
	t.Helper()
	c.tap(t, "/sheet/field", "document", "passport")
	page := ""
	for _, text := range []string{"12AB34567", "PREFECTURE DU FINISTERE", "31012031", "MARTIN", "JEANNE ANNE", "00051970", "BREST", "1 RUE DE SIAM 29200 BREST"} {
		page = c.tap(t, "/sheet/field", "digits", text)
	}
	return page
}

// TestWinnerIsIdentifiedOnThePageBeforeHeIsPaid: no field is skipped, a date must be one, what
// was typed is looked at as a whole, the payment is recorded with it once, and the log has nothing of it.
func TestWinnerIsIdentifiedOnThePageBeforeHeIsPaid(t *testing.T) {
	c := staffed(t)
	log := logOf(c)
	v := c.check(t, 1, 250000)
	wantAll(t, "nobody on duty", c.page(t), "GAGNANT", "Identifiez-vous")
	wantNone(t, "nobody on duty", c.page(t), `id="identify"`)
	c.tap(t, "/next")
	c.signOn(t)
	v = c.check(t, 1, 250000)
	page := c.page(t)
	wantAll(t, "the page", page, "GAGNANT", "RELEVER L'IDENTITÉ", "Demandez une pièce")
	wantNone(t, "the page", page, `id="pay"`)
	wantAll(t, "the document", c.tap(t, "/open", "sheet-name", "identity"), "Pièce présentée", "PASSEPORT", "1\u00a0/\u00a09")
	wantAll(t, "no document", c.tap(t, "/sheet/field", "document", "library-card"), "Pièce présentée")
	wantAll(t, "too early", c.tap(t, "/sheet/identified"), "Pièce présentée")
	c.tap(t, "/sheet/field", "document", "passport")
	wantAll(t, "an empty field", c.tap(t, "/sheet/field", "digits", " "), "Numéro de la pièce\u00a0: Il faut quelques mots")
	wantAll(t, "the field before", c.tap(t, "/sheet/leave"), "Pièce présentée", `id="document-passport" class="main"`)
	page = c.fill(t)
	wantAll(t, "the whole", page, "Comparez avec la pièce", "MARTIN", "00/05/1970", "31/01/2031", "PASSEPORT", "Comptez l'argent", "PAYER 2\u202f500\u00a0€")
	wantAll(t, "the last field again", c.tap(t, "/sheet/leave"), `value="1 RUE DE SIAM 29200 BREST"`)
	for range 2 { // to the date of birth
		c.tap(t, "/sheet/leave")
	}
	for _, wrong := range []string{"", "31021970", "1970", "12131970", "00001800"} {
		wantAll(t, "the date "+wrong, c.tap(t, "/sheet/field", "digits", wrong), "Cette date n'existe pas", `value="00051970"`)
	}
	for _, text := range []string{"12051970", "BREST", "1 RUE DE SIAM"} {
		c.tap(t, "/sheet/field", "digits", text)
	}
	c.register.Break(errors.New("the disk is full"))
	wantAll(t, "a register that fails", c.tap(t, "/sheet/identified"), "Refusé par le terminal", "MARTIN")
	if len(c.ledger.Claims()) != 0 {
		t.Fatal("paid, and nobody recorded")
	}
	c.register.Break(nil)
	serial := sheetOf.FindStringSubmatch(c.page(t))[1]
	for range 2 {
		c.press(t, "/sheet/identified", v.ID, "sheet", serial)
	}
	wantAll(t, "the page", c.page(t), "PAYÉ", "2\u202f500\u00a0€")
	wantNone(t, "the page", c.page(t), "MARTIN")
	if claims, records := c.ledger.Claims(), c.register.Records(); len(claims) != 1 || len(records) != 1 || records[0].Claim != claims[0].ID || records[0].Amount != 250000 {
		t.Fatalf("%+v %+v", claims, records)
	}
	if text := log(); strings.Contains(text, "MARTIN") || strings.Contains(text, "12AB34567") || strings.Contains(text, "SIAM") {
		t.Error("the log has an identity")
	}

	c.tap(t, "/next")
	c.tap(t, "/batch")
	c.check(t, 2, 250000)
	c.check(t, 3, 500)
	wantAll(t, "the batch", c.page(t), `id="identify"`, "RELEVER L'IDENTITÉ")
	c.tap(t, "/open", "sheet-name", "identity")
	wantAll(t, "the batch's sum", c.fill(t), "PAYER 2\u202f505\u00a0€")
	wantAll(t, "the paid batch", c.tap(t, "/sheet/identified"), "LOT PAYÉ", "remettez 2\u202f505\u00a0€ en tout")
	if records := c.register.Records(); len(records) != 3 {
		t.Errorf("%+v", records)
	}
}

// TestHalfTakenIdentityLeavesTheScreen: with the lock, with a scan, and when nobody touches it.
func TestHalfTakenIdentityLeavesTheScreen(t *testing.T) {
	c := staffed(t)
	c.signOn(t)
	begin := func() {
		t.Helper()
		c.check(t, 1, 250000)
		c.tap(t, "/open", "sheet-name", "identity")
		wantAll(t, "the whole", c.fill(t), "MARTIN")
	}
	begin()
	c.check(t, 2, 2000)
	wantNone(t, "after a scan", c.page(t), "MARTIN")
	begin()
	if err := c.terminal.Lock(); err != nil {
		t.Fatal(err)
	}
	c.await(t, "locked", func(s terminal.State) bool { return s.Session.Locked })
	wantNone(t, "after the lock", c.page(t), "MARTIN")
	if err := c.terminal.Unlock(t.Context(), "4711"); err != nil {
		t.Fatal(err)
	}
	c.await(t, "open", func(s terminal.State) bool { return !s.Session.Locked })
	begin()
	c.mu.Lock()
	c.sheet.winner.at = time.Now().Add(-identityFor)
	c.mu.Unlock()
	page := c.page(t)
	wantNone(t, "after five minutes", page, "MARTIN")
	wantAll(t, "after five minutes", page, "GAGNANT")
}

// TestRegisterThatIsShutIsNotAskedFor: nobody types nine fields that have nowhere to go.
func TestRegisterThatIsShutIsNotAskedFor(t *testing.T) {
	c := staffed(t)
	c.signOn(t)
	c.register.Break(errors.New("shut"))
	v := c.check(t, 1, 250000)
	wantAll(t, "the page", c.page(t), "Identité du joueur obligatoire")
	wantNone(t, "the page", c.page(t), `id="identify"`)
	if c.press(t, "/open", v.ID, "sheet-name", "identity"); c.sheet.name != noSheet {
		t.Error("it is asked for all the same")
	}
}

// TestFaultOfThePaperIsEnteredOnThePage: a winner becomes a misprint or void, tells the player
// so, pays nothing, and becomes a winner again; a loser has no such button.
func TestFaultOfThePaperIsEnteredOnThePage(t *testing.T) {
	c := newCounter(t, nil)
	c.check(t, 2, 0)
	wantNone(t, "a loser", c.page(t), `id="paper"`)
	if c.tap(t, "/open", "sheet-name", "paper"); c.sheet.name != noSheet {
		t.Error("a loser's paper is asked about")
	}
	v := c.check(t, 1, 2000)
	wantAll(t, "the winner", c.page(t), `id="paper"`, "DÉFAUT\u00a0?")
	offer := c.tap(t, "/open", "sheet-name", "paper")
	wantAll(t, "the faults", offer, "Que voyez-vous", "Nul si découvert", "Mal imprimé", "remboursez ou échangez")
	wantNone(t, "the faults", offer, "Aucun défaut")
	serial := sheetOf.FindStringSubmatch(c.page(t))[1]
	for range 2 {
		c.press(t, "/sheet/seen", "", "sheet", serial, "seen", "misprint")
	}
	page := c.page(t)
	wantAll(t, "the misprint", page, "DÉFAUT D'IMPRESSION", "Remboursez ou échangez", "V22", `id="refund"`)
	wantNone(t, "the misprint", page, `id="pay"`, "20\u00a0€")
	wantAll(t, "the player's page", html.UnescapeString(c.do(t, "GET", "/player", nil, nil).Body.String()), "remboursement ou échange")
	c.press(t, "/pay", v.ID)
	c.tap(t, "/open", "sheet-name", "paper")
	wantAll(t, "the void ticket", c.tap(t, "/sheet/seen", "seen", "void-box"), "TICKET NUL")
	c.press(t, "/pay", v.ID)
	if len(c.ledger.Claims()) != 0 {
		t.Fatal("a ticket with a fault was paid")
	}
	wantAll(t, "the faults again", c.tap(t, "/open", "sheet-name", "paper"), "Aucun défaut")
	wantAll(t, "taken back", c.tap(t, "/sheet/seen", "seen", ""), "GAGNANT", `id="pay"`)
}

// TestMisprintedTicketIsTakenInByAManagerAndNeverPaid: refunded or exchanged, once, as an entry,
// only after the clerk entered the fault; scanned again it says what was done, and pays nothing.
func TestMisprintedTicketIsTakenInByAManagerAndNeverPaid(t *testing.T) {
	c := staffed(t)
	code := c.put(t, 1, validate.Opened{Amount: 2000, Price: 1000})
	scan := func() terminal.View { return c.terminal.Check(t.Context(), terminal.Scan{Text: code}) }
	misprint := func() string {
		t.Helper()
		scan()
		c.tap(t, "/open", "sheet-name", "paper")
		return c.tap(t, "/sheet/seen", "seen", "misprint")
	}
	scan()
	if c.tap(t, "/open", "sheet-name", "who", "purpose", "take-in", "remedy", "refund"); c.sheet.name != noSheet {
		t.Error("a winner can be refunded")
	}
	c.signOn(t)
	wantAll(t, "the misprint", misprint(), `id="refund"`, "REMBOURSER 10\u00a0€", `id="exchange"`, "ÉCHANGER", "Remboursez ou échangez")
	choice := c.tap(t, "/open", "sheet-name", "who", "purpose", "take-in", "remedy", "refund")
	wantAll(t, "who allows it", choice, "Qui autorise", "Max")
	wantNone(t, "who allows it", choice, "Anne")
	c.tap(t, "/sheet/pick", "operator", "max")
	wantAll(t, "a wrong PIN", c.tap(t, "/sheet/pin", "digits", "4711"), "O1")
	if n := len(c.ledger.Misprints()); n != 0 {
		t.Fatalf("%d refunds by a clerk's PIN", n)
	}
	serial := sheetOf.FindStringSubmatch(c.page(t))[1]
	for range 2 {
		c.press(t, "/sheet/pin", "", "sheet", serial, "digits", "9073")
	}
	list := c.ledger.Misprints()
	if len(list) != 1 || list[0].Remedy != validate.Refunded || list[0].Amount != 1000 || list[0].Operator != "anne" || list[0].Manager != "max" || list[0].Slip.Game != "Bingo" {
		t.Fatalf("%+v", list)
	}
	wantAll(t, "after it", c.page(t), "Remboursé 10\u00a0€", "Gardez le ticket", `id="result"`)
	wantNone(t, "after it", c.page(t), `id="refund"`, `id="exchange"`, `id="paper"`)
	v := scan()
	wantAll(t, "scanned again", c.page(t), "DÉFAUT D'IMPRESSION", "Remboursé 10\u00a0€")
	if c.press(t, "/pay", v.ID); len(c.ledger.Claims()) != 0 {
		t.Fatal("a refunded ticket was paid")
	}
	c.tap(t, "/next")
	wantAll(t, "the history", c.tap(t, "/open", "sheet-name", "history"), "Remboursé 10\u00a0€", "Bingo")

	alone := newCounter(t, nil) // nobody signs on: a yes is enough, and the price is not known
	alone.check(t, 2, 2000)
	alone.tap(t, "/open", "sheet-name", "paper")
	page := alone.tap(t, "/sheet/seen", "seen", "misprint")
	wantAll(t, "no price", page, ">REMBOURSER<")
	wantAll(t, "the question", alone.tap(t, "/open", "sheet-name", "who", "purpose", "take-in", "remedy", "exchange"), "ÉCHANGER\u00a0?", `id="confirm"`)
	wantAll(t, "exchanged", alone.tap(t, "/sheet/sure"), "Échangé", "Gardez le ticket")
	if list := alone.ledger.Misprints(); len(list) != 1 || list[0].Remedy != validate.Exchanged || list[0].Amount != 0 {
		t.Fatalf("%+v", list)
	}
}

// TestPayButtonTakesTheIdentityThatIsNeeded: it opens the sheet that the page's own button opens,
// and a second press takes away nothing of what was typed.
func TestPayButtonTakesTheIdentityThatIsNeeded(t *testing.T) {
	c := staffed(t)
	v := c.check(t, 1, 250000)
	if err := c.PressPay(t.Context(), v.ID); err == nil || c.sheet.name != noSheet {
		t.Errorf("with nobody on duty: %v", err)
	}
	c.tap(t, "/next")
	c.signOn(t)
	v = c.check(t, 1, 250000)
	if err := c.PressPay(t.Context(), v.ID); err != nil {
		t.Fatal(err)
	}
	wantAll(t, "after one press", c.page(t), "Pièce présentée", "PASSEPORT")
	c.tap(t, "/sheet/field", "document", "passport")
	c.tap(t, "/sheet/field", "digits", "12AB34567")
	for range 2 {
		if err := c.PressPay(t.Context(), v.ID); !errors.Is(err, errCovered) {
			t.Errorf("a press beside the keypad: %v", err)
		}
	}
	if c.sheet.winner == nil || c.sheet.winner.who.Number != "12AB34567" || len(c.ledger.Claims()) != 0 {
		t.Errorf("what was typed is gone, or paid: %+v", c.sheet.winner)
	}
	c.register.Break(errors.New("shut"))
	v = c.check(t, 2, 250000)
	if err := c.PressPay(t.Context(), v.ID); err == nil || c.sheet.name != noSheet {
		t.Errorf("a register that is shut: %v", err)
	}
}

// TestWrongPINsOnThePageWaitLongerEachTime: whoever's they are and however the page is loaded;
// a PIN that comes too soon is not even looked at, and a right one ends it.
func TestWrongPINsOnThePageWaitLongerEachTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := staffed(t)
		defer c.Close()
		try := func(operator, pin string) string {
			t.Helper()
			c.tap(t, "/sheet/leave")
			c.tap(t, "/open", "sheet-name", "who", "purpose", "sign-on")
			c.tap(t, "/sheet/pick", "operator", operator)
			c.tap(t, "/sheet/float", "digits", "")
			return c.tap(t, "/sheet/pin", "digits", pin)
		}
		for i, operator := range []string{"anne", "bob", "max"} {
			if page := try(operator, "1111"); !strings.Contains(page, "O1 ") && !strings.Contains(page, "O1\u00a0") {
				t.Fatalf("wrong PIN %d: %s", i+1, page)
			}
		}
		for wrong := 3; wrong <= 9; wrong++ {
			delay := min(5*time.Second<<(wrong-3), time.Minute)
			time.Sleep(delay - time.Millisecond)
			soon := try("anne", "4711")
			wantAll(t, "too soon", soon, "O7", "attendez avant de réessayer")
			if state, _ := c.terminal.State(); state.Session != nil {
				t.Fatalf("after %d wrong ones the next was looked at before %v", wrong, delay)
			}
			time.Sleep(time.Millisecond)
			if page := try("bob", "1111"); strings.Contains(page, "O7\u00a0") { // a token may hold the two letters
				t.Fatalf("after %d wrong ones the next is not looked at in %v", wrong, delay)
			}
		}
		time.Sleep(time.Minute)
		try("anne", "4711")
		synctest.Wait()
		if state, _ := c.terminal.State(); state.Session == nil || c.tries != (tries{}) {
			t.Error("the right PIN is not followed, or does not end the count")
		}
	})
}
