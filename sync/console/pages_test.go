package console

import (
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"grattoir/sync/central"
	"grattoir/sync/ledger"
	"grattoir/sync/ledger/people"
	"grattoir/sync/wire"
	"grattoir/validate"
	"grattoir/validate/policy"
)

func ago(d time.Duration) string { return wire.FormatTime(now.Add(-d)) }

const day = 24 * time.Hour

// seeded is a central with a small fleet in every state, two blocks that pay, one that is a
// demonstration, packs in every state, a conflict with both sides, messages and a policy.
func seeded(t *testing.T) *central.Central {
	t.Helper()
	dir := t.TempDir()
	c, err := central.Open(t.Context(), central.Options{Dir: dir, Now: func() time.Time { return now }, PasswordCost: people.Cost{Memory: 8, Passes: 1, Threads: 1}})
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite3", "file:"+filepath.Join(dir, "central.db")+"?_busy_timeout=5000&_synchronous=OFF")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(db.Close(), c.Close()); err != nil {
			t.Error(err)
		}
	})
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	s := seed{t, tx}
	s.terminals()
	s.blocks()
	s.claims()
	s.counters()
	s.journal()
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := c.CountClaims(t.Context()); err != nil { // they were written past central
		t.Fatal(err)
	}
	if _, err := c.Send(t.Context(), central.Message{Region: "bzh", French: "Livraison avancée à jeudi.", English: "Delivery moved to Thursday.", Operator: "anne"}); err != nil {
		t.Fatal(err)
	}
	return c
}

type seed struct {
	t  *testing.T
	tx *sql.Tx
}

func (s seed) put(query string, args ...any) {
	s.t.Helper()
	if _, err := s.tx.ExecContext(s.t.Context(), query, args...); err != nil {
		s.t.Fatalf("%s: %v", query, err)
	}
}

func shop(i int) string { return fmt.Sprintf("shop-%04d", i) }

// terminals are 130, so that a fleet has two pages.
func (s seed) terminals() {
	for i := range 130 {
		state, contact, faults, unsent, program := "enrolled", ago(time.Duration(i%9)*time.Minute+20*time.Second), "[]", 0, "terminald 0.9.2"
		switch {
		case i%29 == 3:
			state, contact, program = "never-seen", "", ""
		case i%37 == 5:
			state = "suspended"
		case i%17 == 4:
			contact, unsent = ago(time.Duration(i)*time.Hour), i/10
		case i%13 == 2:
			contact, unsent, program = ago(time.Duration(i)*5*time.Minute+11*time.Minute), 2, "terminald 0.9.1"
		}
		if i%23 == 7 {
			faults = `["P2","S1"]`
		}
		s.put(`INSERT INTO terminals(name, state, reason, added, enrolled, contact, program, head_seq, ack_hash, ack_seq, snapshot, feed, unsent, skew_ms, disk_free, faults, region, shop, cert_expires)
			VALUES(?, ?, ?, ?, ?, ?, ?, 400, ?, 390, 1, 1, ?, 40, 9000000000, ?, ?, ?, ?)`,
			shop(i), state, map[string]string{"suspended": "card copied"}[state], ago(20*day), ago(20*day), contact, program, strings.Repeat("0", 64), unsent, faults, []string{"bzh", "idf", "naq"}[i%3],
			map[bool]string{true: fmt.Sprintf("tabac-%03d", i/10)}[i%10 < 2], ago(-200*day))
	}
	for n, at := range []time.Duration{25, 11, 4} {
		s.put("INSERT INTO snapshots(version, issued, note) VALUES(?, ?, '') ON CONFLICT(version) DO UPDATE SET issued = excluded.issued", n+1, ago(at*day))
	}
	for n, x := range []struct {
		at      time.Duration
		program string
	}{{20 * day, "terminald 0.9.1"}, {11*day - 6*time.Hour, "terminald 0.9.1"}, {8 * day, "terminald 0.9.2"}, {3 * day, "terminald 0.9.2"}} {
		s.put("INSERT INTO terminal_changes(terminal, at, program, snapshot) VALUES(?, ?, ?, ?)", shop(0), ago(x.at), x.program, []int{1, 2, 2, 3}[n])
	}
	s.put("UPDATE counters SET value = 3 WHERE name = 'snapshots'")
	s.put("UPDATE terminals SET snapshot = 3")
	s.put("UPDATE terminals SET skew_ms = NULL WHERE contact = ''")
	s.put("UPDATE terminals SET faults = '[\"P2\"]', unsent = 3 WHERE name = ?", shop(0))
	for _, o := range []struct {
		code, cause string
		began, long time.Duration
	}{{central.CodeSilent, "link", 17 * day, 9 * time.Hour}, {central.CodeSilent, "stopped", 9 * day, 31 * time.Hour}, {central.CodeSilent, "", 3 * day, 50 * time.Minute}, {"P2", "", 5 * day, 20 * time.Hour}, {"S1", "", 12 * day, 3 * time.Hour}} {
		s.put("INSERT INTO outages(terminal, code, began, ended, cause) VALUES(?, ?, ?, ?, ?)", shop(0), o.code, ago(o.began), ago(o.began-o.long), o.cause)
	}
	s.put("INSERT INTO outages(terminal, code, began, ended, cause) VALUES(?, 'P2', ?, '', '')", shop(0), ago(2*time.Hour))
}

func blockID(n byte) []byte { id := validate.BlockID{0: 0xb1, 15: n}; return id[:] }

func (s seed) blocks() {
	for i, b := range []struct {
		game    string
		tickets int64
		scaled  int
	}{{"bingo", 150_000, 0}, {"crossingo", 120_000, 0}, {"demo", 20_000, 1}, {"noel", 50_000, 0}} {
		sum := sha256.Sum256([]byte(b.game))
		s.put(`INSERT INTO blocks(block_id, serial, sha256, size, game, name, emission, number, game_code, tickets, first_pack, last_pack, pack_size, price_minor, currency, scaled, min_reader, published)
			VALUES(?, 1, ?, 1, ?, ?, '1', 1, ?, ?, 0, ?, 50, 200, 'EUR', ?, 1, ?)`, blockID(byte(i+1)), hex.EncodeToString(sum[:]), b.game, b.game, fmt.Sprintf("%05d", 400+i), b.tickets, b.tickets/50-1, b.scaled, ago(20*day))
		for n, tier := range [][2]int64{{1, 10_000_00}, {20, 500_00}, {400, 20_00}, {2000, 10_00}, {24000, 2_00}} {
			s.put("INSERT INTO block_tiers(block_id, tier, tickets, amount_minor) VALUES(?, ?, ?, ?)", blockID(byte(i+1)), n+1, tier[0], tier[1])
		}
		for pack := range 60 {
			state, activated, settled := "delivered", "", ""
			switch {
			case pack%4 == 0:
				state, activated, settled = "settled", ago(time.Duration(19-pack%16)*day), ago(time.Duration(9-pack%8)*day)
			case pack%4 < 3:
				state, activated = "active", ago(time.Duration(18-pack%17)*day)
			case pack == 59:
				state = "returned"
			}
			s.put("INSERT INTO packs(block_id, pack, game_code, state, owner, epoch, changed, activated, settled) VALUES(?, ?, ?, ?, ?, 1, ?, ?, ?)", blockID(byte(i+1)), pack, fmt.Sprintf("%05d", 400+i), state, shop(pack%20), ago(day), activated, settled)
		}
	}
	s.put("INSERT INTO emission_closings(game, emission, closed, claim_days, entered) VALUES('crossingo', '1', '2026-11-20', 30, ?1), ('noel', '1', '2026-11-25', 30, ?1)", ago(day))
	s.put("INSERT INTO sales_ends(block_id, reason, operator, since) VALUES(?, 'the last top prize is paid', 'rule', ?)", blockID(2), ago(day))
}

func (s seed) claims() {
	for n := range 600 {
		b, pack := byte(n%3+1), n/3%60
		if pack%4 == 3 {
			continue
		}
		tier, amount := 5, 2_00
		switch {
		case n == 1:
			tier, amount = 1, 10_000_00
		case n%97 == 0:
			tier, amount = 2, 500_00
		case n%11 == 0:
			tier, amount = 4, 10_00
		}
		s.put(`INSERT INTO claims(block_id, pack, ticket, round, claim, terminal, epoch, seq, tier, amount_minor, currency, operator, paid, received, entered)
			VALUES(?, ?, ?, 0, ?, ?, 1, ?, ?, ?, 'EUR', 'lea', ?, ?, 'scan')`, blockID(b), pack, n/180*3+n%3, fmt.Sprintf("%032x", n+1), shop(pack%20), n+1, tier, amount, ago(time.Duration(15-n%15)*day), ago(time.Duration(15-n%15)*day))
	}
}

// counters are what terminals tell of the codes that they looked at, one of which types too
// many of them; a payment that a counter asks to take back, and one that was decided; and an
// outage of another region.
func (s seed) counters() {
	for i := range 40 {
		typed := 1
		if i == 9 {
			typed = 160
		}
		for _, x := range []struct {
			reason  validate.Reason
			entered validate.Entered
			n       int
		}{{validate.NotAWinner, validate.Scanned, 600}, {validate.Winner, validate.Scanned, 150}, {validate.AlreadyPaidHere, validate.Scanned, 3}, {validate.NotAWinner, validate.Typed, typed}} {
			s.put("INSERT INTO looks(terminal, day, reason, entered, number) VALUES(?, '2026-11-27', ?, ?, ?)", shop(i), x.reason, x.entered, x.n)
		}
	}
	for _, n := range []int{3, 6} {
		b, pack, state, decided := byte(n%3+1), n/3%60, validate.ReversalRequested, ""
		if n == 6 {
			state, decided = validate.ReversalRefused, ago(time.Hour)
		}
		s.put(`INSERT INTO reversals(block_id, pack, ticket, round, terminal, reversal, claim, claim_epoch, claim_seq, epoch, seq, amount_minor, currency, reason, text, operator, manager, asked, received, state, answer, decided)
			VALUES(?, ?, ?, 0, ?, ?, ?, 1, ?, 1, ?, 200, 'EUR', 'paid-by-mistake', 'double scan', 'lea', 'max', ?, ?, ?, '', ?)`,
			blockID(b), pack, n/180*3+n%3, shop(pack%20), fmt.Sprintf("%032x", 900+n), fmt.Sprintf("%032x", n+1), n+1, 700+n, ago(2*time.Hour), ago(2*time.Hour), state, decided)
	}
	s.put("INSERT INTO outages(terminal, code, began, ended, cause) VALUES(?, ?, ?, ?, 'link')", shop(1), central.CodeSilent, ago(6*day), ago(6*day-30*time.Hour))
}

// journal has the closings of one terminal, and a ticket that two terminals paid.
func (s seed) journal() {
	entry := func(terminal string, seq int64, kind ledger.Kind, body any, at time.Duration) []byte {
		text, err := json.Marshal(body)
		if err != nil {
			s.t.Fatal(err)
		}
		line, err := json.Marshal(ledger.Entry{Version: ledger.EntryVersion, Terminal: terminal, Epoch: 1, Seq: seq, Boot: "b", Time: ago(at), Kind: kind, Body: text, Prev: strings.Repeat("0", 64)})
		if err != nil {
			s.t.Fatal(err)
		}
		s.put("INSERT INTO entries(terminal, epoch, seq, kind, line, hash, received) VALUES(?, 1, ?, ?, ?, ?, ?)", terminal, seq, string(kind), line, make([]byte, 32), ago(at))
		return line
	}
	for n := range int64(5) {
		entry(shop(0), 300+n, ledger.KindClosing, validate.ClosingFacts{Kind: validate.DayClosing, Number: n + 1, Period: fmt.Sprintf("2026-11-2%d", n+3), Operator: "lea", From: validate.EntryNumber{Epoch: 1, Seq: 1}, To: validate.EntryNumber{Epoch: 1, Seq: 299},
			Totals: []validate.Totals{{Currency: "EUR", Paid: validate.Sum{Count: 40 + n, Money: 312_00}}}, Games: []validate.GameTotals{}, Perpetual: []validate.Perpetual{}}, time.Duration(5-n)*day)
	}
	claim := ledger.ClaimBody{Claim: strings.Repeat("a", 32), Block: validate.BlockID(blockID(1)), Pack: 0, Ticket: 0, Tier: 5, AmountMinor: 2_00, Currency: "EUR", OwnerEpoch: 1, Operator: "lea", Entered: validate.Scanned}
	entry(shop(0), 1, ledger.KindClaim, claim, 15*day)
	claim.Operator = "tom"
	line := entry(shop(1), 77, ledger.KindClaim, claim, 14*day)
	s.put("INSERT INTO conflicts(terminal, epoch, seq, kind, text, block_id, pack, ticket, round, amount_minor, currency, line, received) VALUES(?, 1, 77, ?, 'paid twice', ?, 0, 0, 0, 200, 'EUR', ?, ?)", shop(1), string(wire.DoubleClaim), blockID(1), line, ago(14*day))
	p := policy.Policy{Version: "2026-1", ValidFrom: policy.Date{Year: 2026, Month: time.January, Day: 1}, Currency: "EUR", ShopLimit: 300_00, ConfirmCashPrize: 100_00, ClaimDays: 30}
	s.put("INSERT INTO policies(sha256, version, valid_from, valid_to, signed, operator, published) VALUES('p', ?, ?, '', ?, 'anne', ?)", p.Version, p.ValidFrom.String(), p.Text()+"\n— test sig\n", ago(300*day))
}

// post sends a form of the page's own.
func post(t *testing.T, h http.Handler, path string, form url.Values) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(form.Encode()))
	r.Host = "127.0.0.1:8088"
	r.Header.Set("Origin", "http://127.0.0.1:8088")
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

var hidden = regexp.MustCompile(`<input type="hidden" name="([a-z_]+)" value="([^"]*)">`)

// formOf reads the form of a page that asks whether something is to be done.
func formOf(t *testing.T, page string) url.Values {
	t.Helper()
	_, form, ok := strings.Cut(page, `action="/do/`)
	if !ok {
		t.Fatalf("no form to do it with in:\n%s", page)
	}
	values := url.Values{}
	for _, m := range hidden.FindAllStringSubmatch(form, -1) {
		values.Set(m[1], html.UnescapeString(m[2]))
	}
	return values
}

// TestOrdersShowWhomTheyTouchBeforeTheyAct: each act by its two steps, with what central
// holds afterwards; a form without its token, a viewer, and a look that is out of date do
// nothing.
func TestOrdersShowWhomTheyTouchBeforeTheyAct(t *testing.T) {
	c := seeded(t)
	h := desk(t, Options{Central: c}, central.RoleOperator)
	do := func(name, query string, want ...string) {
		t.Helper()
		page := get(t, h, "/confirm/"+name+"?"+query, 200)
		holds(t, page, want...)
		w := post(t, h, "/do/"+name, formOf(t, page))
		if w.Code != http.StatusSeeOther {
			t.Fatalf("%s: %d: %s", name, w.Code, w.Body)
		}
		if path := w.Header().Get("Location"); !strings.Contains(get(t, h, path, 200), `role="status"`) {
			t.Errorf("%s: %s does not say that it was done", name, path)
		}
	}
	packs := func(code, state, owner string, n int) {
		t.Helper()
		list, err := c.Packs(t.Context(), central.PackFilter{GameCode: code, State: validate.PackState(state), Owner: owner})
		if err != nil || len(list) != n {
			t.Errorf("%d packs of %s are %s at %q, want %d: %v", len(list), code, state, owner, n, err)
		}
	}
	do("pack-deliver", "code=400&packs=100-104&to=shop-0004", "Terminal shop-0004", "imprimé", "shop-0004 (sans contact depuis 4 h 00)", "5 livrets")
	packs("400", "delivered", "shop-0004", 5)
	do("pack-activate", "code=00400&packs=100-102", "livré", "shop-0004", "0000100 – 0000102")
	packs("400", "active", "shop-0004", 3)
	do("pack-stolen", "code=400&packs=103", "livré")
	packs("400", "stolen", "shop-0004", 1)
	do("pack-recover", "code=400&packs=103", "volé")
	packs("400", "stolen", "", 0)
	do("pack-move", "code=400&packs=103&to=shop-0006&force=1", "shop-0006")
	do("message-send", "to=region&region=idf&fr=Bonjour&en=Hello&mandatory=1", "terminaux sont visés", "Aucun de ces terminaux ne paie")
	if list, err := c.Messages(t.Context(), true); err != nil || len(list) != 2 || list[0].Operator != "operator" && list[1].Operator != "operator" {
		t.Errorf("messages: %+v, %v", list, err)
	}
	do("message-withdraw", "number=2", "Bonjour")
	do("conflict-settle", "terminal=shop-0001&number=1-000077&liable=shop&note=slips+compared", "shop-0000", "shop-0001")
	file, err := c.ConflictFile(t.Context(), "shop-0001", validate.EntryNumber{Epoch: 1, Seq: 77})
	if err != nil || file.Liable != "shop" || len(file.Steps) != 1 || file.Steps[0].Operator != "operator" || len(file.Evidence) != 2 {
		t.Errorf("conflict: %+v, %v", file, err)
	}
	do("conflict-reopen", "terminal=shop-0001&number=1-000077&note=new+slip")
	holds(t, get(t, h, "/reversals", 200), "payé par erreur : double scan", "attend depuis", `action="/confirm/reversal-accept"`)
	do("reversal-accept", "terminal=shop-0001&number=1-000004&reason=slip+seen", "payé par erreur : double scan", "demandée", "2\u00a0€", "en ligne seulement")
	if list, err := c.Reversals(t.Context(), true); err != nil || len(list) != 2 || list[0].State != validate.ReversalAccepted && list[1].State != validate.ReversalAccepted {
		t.Errorf("reversals: %+v, %v", list, err)
	}
	holds(t, get(t, h, "/reversals", 200), "Aucune demande n&#39;attend.")
	holds(t, get(t, h, "/reversals?all=1", 200), "acceptée", "refusée")
	again := formOf(t, get(t, h, "/confirm/reversal-refuse?terminal=shop-0001&number=1-000004&reason=late", 200))
	if w := post(t, h, "/do/reversal-refuse", again); w.Code != http.StatusConflict || !strings.Contains(w.Body.String(), "elle est déjà décidée (acceptée") {
		t.Errorf("decided twice: %d: %.900s", w.Code, w.Body)
	}
	do("terminal-stop", "terminal=shop-0006&reason=float+missing", "région bzh")
	if x, err := c.Terminal(t.Context(), "shop-0006"); err != nil || x.Stopped != "operator: float missing" {
		t.Errorf("stopped: %q, %v", x.Stopped, err)
	}
	do("terminal-resume", "terminal=shop-0006")
	block := "block=b1000000000000000000000000000001"
	do("block-suspend", block+"&reason=misprint", "bingo 1, bloc 1", "130 terminaux")
	do("sales-end", block+"&reason=misprint")
	holds(t, get(t, h, "/block/b1000000000000000000000000000001", 200), "Suspendu : misprint", "Mise en vente arrêtée : misprint")
	do("block-resume", block)
	do("sales-resume", block)
	t.Run("refused", func(t *testing.T) { testOrdersRefused(t, c, h) })
}

func testOrdersRefused(t *testing.T, c *central.Central, h http.Handler) {
	page := get(t, h, "/confirm/pack-deliver?code=400&packs=200-201&to=shop-0001", 200)
	form := formOf(t, page)
	if _, err := c.Deliver(t.Context(), "400", 201, 201, "shop-0002"); err != nil {
		t.Fatal(err)
	}
	if w := post(t, h, "/do/pack-deliver", form); w.Code != http.StatusConflict || !strings.Contains(w.Body.String(), "regardez de nouveau") {
		t.Errorf("a look that is out of date: %d: %.300s", w.Code, w.Body)
	}
	fresh := formOf(t, get(t, h, "/confirm/pack-deliver?code=400&packs=201&to=shop-0001", 200))
	if w := post(t, h, "/do/pack-deliver", fresh); w.Code != http.StatusConflict { // central's own rule
		t.Errorf("a pack delivered twice: %d", w.Code)
	}
	without := formOf(t, get(t, h, "/confirm/pack-deliver?code=400&packs=200&to=shop-0001", 200))
	without.Del("csrf")
	if w := post(t, h, "/do/pack-deliver", without); w.Code != http.StatusForbidden {
		t.Errorf("a form without its token: %d", w.Code)
	}
	list, err := c.Packs(t.Context(), central.PackFilter{GameCode: "400", Owner: "shop-0001"})
	for _, p := range list {
		if p.Number >= 200 {
			t.Errorf("pack %d was delivered all the same: %v", p.Number, err)
		}
	}
	viewer := desk(t, Options{Central: c}, central.RoleViewer)
	get(t, viewer, "/confirm/pack-deliver?code=400&packs=200&to=shop-0001", http.StatusForbidden)
	for _, path := range []string{"/packs", "/messages", "/reversals", "/policies", "/conflict/shop-0001/1-000077"} {
		if page := get(t, viewer, path, 200); strings.Contains(page, `action="/confirm/`) {
			t.Errorf("%s offers acts to who may not act", path)
		}
	}
	for path, code := range map[string]int{"/confirm/pack-deliver?code=400&packs=9-1&to=shop-0001": 400, "/confirm/pack-activate?code=999&packs=1": 400, "/confirm/pack-stolen?code=400&packs=1-2&tickets=4": 400, "/confirm/pack-activate?code=400&packs=1&tickets=4": 400, "/confirm/pack-deliver?code=400&packs=200": 400, "/confirm/pack-deliver?code=400&packs=200&to=nobody": 404,
		"/confirm/message-send?to=region&fr=a&en=b": 400, "/confirm/message-send?to=terminal&fr=a&en=b": 400, "/confirm/conflict-settle?terminal=shop-0001&number=1-000077&liable=shop": 400,
		"/confirm/policy-publish?signed=x": 400, "/confirm/reversal-refuse?terminal=shop-0001&number=1-000004": 400, "/confirm/reversal-accept?terminal=shop-0001&number=1-999999": 404, "/confirm/terminal-stop?terminal=shop-0001": 400, "/confirm/sales-end?block=00&reason=x": 400, "/confirm/block-suspend?block=b1000000000000000000000000000001": 400, "/confirm/policy-withdraw?version=x": 404} {
		if page := get(t, h, path, code); strings.Contains(page, `action="/do/`) {
			t.Errorf("%s can be done", path)
		}
	}
}

// TestFleetPageCountsAreItsRows: the counts on the page are links to as many rows, all pages
// together have each terminal once, and a wrong address is told.
func TestFleetPageCountsAreItsRows(t *testing.T) {
	h := desk(t, Options{Central: seeded(t)}, central.RoleViewer)
	page := get(t, h, "/fleet", 200)
	chips := regexp.MustCompile(`<a href="(/fleet[^"]*)"[^>]*><b>(\d+)</b>|<a class="chip[^"]*" href="(/fleet[^"]*)"[^>]*><b>(\d+)</b>`).FindAllStringSubmatch(page, -1)
	if len(chips) != 6+4+2 {
		t.Fatalf("%d counts on the page", len(chips))
	}
	for _, m := range chips {
		path, n := m[1]+m[3], m[2]+m[4]
		seen := map[string]bool{}
		for next := html.UnescapeString(path); next != ""; {
			text := get(t, h, next, 200)
			for _, row := range regexp.MustCompile(`<td class="text"><a href="/terminal/([^"]+)">`).FindAllStringSubmatch(text, -1) {
				if seen[row[1]] {
					t.Fatalf("%s: %s twice", path, row[1])
				}
				seen[row[1]] = true
			}
			next = ""
			if m := regexp.MustCompile(`href="([^"]+)" rel="next"`).FindStringSubmatch(text); m != nil {
				next = html.UnescapeString(m[1])
			}
		}
		csv := get(t, h, strings.Replace(html.UnescapeString(path), "/fleet", "/fleet.csv", 1), 200)
		if lines := strings.Count(csv, "\r\n"); lines != len(seen)+1 {
			t.Errorf("%s: %d lines of CSV for %d rows", path, lines, len(seen))
		}
		if fmt.Sprint(len(seen)) != n {
			t.Errorf("%s counts %s and has %d rows", path, n, len(seen))
		}
	}
	for _, wrong := range []string{"/fleet?state=lost", "/fleet?colour=red", "/fleet?sort=luck", "/fleet?after=x", "/fleet?name=a&name=b", "/packs?code=999", "/conflicts?state=x", "/block/00"} {
		get(t, h, wrong, 400)
	}
	get(t, h, "/terminal/nobody", 404)
	get(t, h, "/conflict/shop-0000/1-000001", 404)
}

// TestPublicPrizesNeedNoSessionAndNameNobody: the numbers of the prizes report without the
// demonstration, kept for a minute.
func TestPublicPrizesNeedNoSessionAndNameNobody(t *testing.T) {
	c := seeded(t)
	clock := now
	h := New(Options{Central: c, Now: func() time.Time { return clock }})
	w := request(t, h, http.MethodGet, "/public/prizes.json", nil)
	var got struct {
		Made   string
		Prizes []publicPrize
	}
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != 200 || w.Header().Get("Cache-Control") != "public, max-age=60" {
		t.Fatalf("%d %v %v: %.200s", w.Code, w.Header(), err, w.Body)
	}
	if len(got.Prizes) != 15 || got.Prizes[0] != (publicPrize{"bingo", "1", 10_000_00, "EUR", 1, 1, 0}) || got.Prizes[5].Left != 0 {
		t.Errorf("%+v", got.Prizes)
	}
	page := get(t, h, "/public/prizes?lang=en", 200)
	holds(t, page, "bingo", "€10,000", "Prizes left to win")
	for _, text := range []string{w.Body.String(), page} {
		for _, name := range []string{"shop-0", "tabac", "demo", "bzh", "idf"} {
			if strings.Contains(text, name) {
				t.Errorf("it names %q", name)
			}
		}
	}
	clock = clock.Add(59 * time.Second)
	if again := get(t, h, "/public/prizes.json", 200); again != w.Body.String() {
		t.Error("the store is read again within the minute")
	}
	clock = clock.Add(2 * time.Second)
	if again := get(t, h, "/public/prizes.json", 200); again == w.Body.String() {
		t.Error("the numbers are kept for longer than a minute")
	}
	elsewhere := func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }
	if w := request(t, h, http.MethodGet, "/public/prizes", elsewhere); w.Code != 200 {
		t.Errorf("another site cannot lead here: %d", w.Code)
	}
	if w := request(t, h, http.MethodGet, "/games", nil); w.Code == 200 {
		t.Error("the games are shown to who is not signed in")
	}
}

// TestDraftShowsPrizesThatArePaidOtherwise: a lower shop limit moves the 500 euro prizes, and
// the file to be signed says what was typed.
func TestDraftShowsPrizesThatArePaidOtherwise(t *testing.T) {
	h := desk(t, Options{Central: seeded(t)}, central.RoleOperator)
	draft := "version=2026-2&valid_from=2026-12-10&currency=EUR&claim_days=30&shop_limit_minor=60000&confirm_cash_prize_minor=10000"
	page := get(t, h, "/policies/draft?"+draft, 200)
	holds(t, page, "500\u00a0€", "au centre", "au comptoir, caisse confirmée", "► un point de vente paie", "130 terminaux sont visés", `href="/policies/draft.toml?`)
	if strings.Contains(page, "<td>20\u00a0€</td>") {
		t.Error("a prize is named that is paid as before")
	}
	holds(t, get(t, h, "/policies/draft.toml?"+draft, 200), `version = "2026-2"`, `valid_from = "2026-12-10"`, "shop_limit_minor = 60000\n", "allowance_claims = 0\n")
	example, err := os.ReadFile("../../configs/policy.toml") // as central policy sign reads it
	if err != nil {
		t.Fatal(err)
	}
	key := regexp.MustCompile(`(?m)^([a-z_]+) = `)
	keys := func(text string) (list []string) {
		for _, m := range key.FindAllStringSubmatch(text, -1) {
			list = append(list, m[1])
		}
		slices.Sort(list)
		return list
	}
	if got, want := keys(get(t, h, "/policies/draft.toml?"+draft, 200)), keys(string(example)); !slices.Equal(got, want) {
		t.Errorf("the file has %v, the example %v", got, want)
	}
	holds(t, get(t, h, "/policies/draft?"+draft+"&booked_risk_minor=5", 400), "booked_risk_party")
}
