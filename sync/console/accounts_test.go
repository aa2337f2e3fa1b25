package console

import (
	"crypto/sha256"
	"database/sql"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"grattoir/sync/central"
	"grattoir/sync/ledger"
	"grattoir/sync/ledger/people"
	"grattoir/sync/wire"
)

const payment = "00000000000000000000000000000007"

// filed puts a winner's identity into a central, as a terminal uploads it, and gives the
// register's private key.
func filed(t *testing.T, b *browsing) string {
	t.Helper()
	secret, public, err := people.GenerateRegisterKey()
	if err != nil {
		t.Fatal(err)
	}
	key, err := people.ParseRegisterKey(public)
	if err != nil {
		t.Fatal(err)
	}
	r, err := people.OpenRegister(t.Context(), people.RegisterOptions{Path: filepath.Join(t.TempDir(), "register.db"), Terminal: "T-1", Key: key, Moment: func() ledger.Moment { return ledger.Moment{Boot: "b", Device: now} }})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	_, err = r.Record(t.Context(), "marie", people.Identity{Surname: "Le Goff", FirstNames: "Anne", Born: "1970-05-12", BirthPlace: "Brest", Address: "1 rue de Siam, Brest",
		Document: people.Passport, Number: "12AB34567", IssuedBy: "préfecture"}, []people.Payment{{Claim: payment, Amount: 2000_00, Currency: "EUR"}})
	if err != nil {
		t.Fatal(err)
	}
	list, err := r.Pending(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite3", "file:"+b.database+"?_busy_timeout=5000")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	digest := sha256.Sum256(list[0].Bytes)
	put(t, db, "INSERT INTO identities(terminal, record, sealed, digest, received) VALUES('T-1', ?, ?, ?, ?)", list[0].Record[:], list[0].Bytes, digest[:], wire.FormatTime(now))
	put(t, db, "INSERT INTO identity_claims(claim, terminal, record) VALUES(?, 'T-1', ?)", payment, list[0].Record[:])
	return secret
}

// TestIdentityIsReadOnThePageByTwoPersons: each button is there for whom it is, the look is
// good once, and the audit has all of it without the key or the name.
func TestIdentityIsReadOnThePageByTwoPersons(t *testing.T) {
	b := browse(t, Options{})
	secret := filed(t, b)
	p, err := central.NewPassword(password)
	if err != nil {
		t.Fatal(err)
	}
	for name, role := range map[string]central.Role{"claire": central.RoleSecurity, "denis": central.RoleSecurity, "olga": central.RoleOperator, "aude": central.RoleAuditor} {
		if err := b.AddUser(t.Context(), "root", name, role, p); err != nil {
			t.Fatal(err)
		}
	}
	post := func(who, act string, form url.Values, code int) string {
		t.Helper()
		b.signedIn(t, who)
		form.Set("csrf", b.token(t, "/"))
		w := b.ask(t, http.MethodPost, "/identities/"+act, form, nil)
		if w.Code != code {
			t.Fatalf("%s by %s: %d, want %d: %s", act, who, w.Code, code, w.Body)
		}
		return w.Body.String()
	}
	buttons := func(who string) (agree, look bool) {
		t.Helper()
		b.signedIn(t, who)
		page := b.sees(t, "/identities", 200)
		return strings.Contains(page, `action="/identities/agree"`), strings.Contains(page, `action="/identities/look"`)
	}
	asked := url.Values{"number": {payment}, "reason": {"judicial request"}}
	post("olga", "ask", asked, 403)
	post("aude", "ask", asked, 403)
	post("claire", "ask", url.Values{"number": {"9-000001"}, "terminal": {"T-1"}, "reason": {"why"}}, 404)
	post("claire", "ask", url.Values{"number": {payment}, "reason": {""}}, 409)
	post("claire", "ask", asked, 303)
	one := url.Values{"request": {"1"}}
	open := url.Values{"request": {"1"}, "key": {secret}}
	post("claire", "agree", one, 409)
	post("claire", "look", open, 409)
	for who, want := range map[string]bool{"claire": false, "denis": true, "aude": false} {
		if agree, look := buttons(who); agree != want || look {
			t.Errorf("before the agreement %s may agree %v, look %v", who, agree, look)
		}
	}
	post("denis", "agree", one, 303)
	for who, want := range map[string]bool{"claire": true, "denis": false, "aude": false} {
		if agree, look := buttons(who); agree || look != want {
			t.Errorf("after the agreement %s may agree %v, look %v", who, agree, look)
		}
	}
	post("denis", "look", open, 409)
	post("claire", "look", url.Values{"request": {"1"}, "key": {"no key"}}, 400)
	holds(t, post("claire", "look", open, 200), "Le Goff, Anne", "1970-05-12, Brest", "passport 12AB34567", payment, "2\u202f000\u00a0€")
	post("claire", "look", open, 409)

	b.signedIn(t, "aude")
	audit := b.sees(t, "/audit?lang=en", 200)
	holds(t, audit, "<td>open</td><td>claire</td>", "<td>agree</td><td>denis</td>", "judicial request", "sign-in")
	if strings.Contains(audit, "Le Goff") || strings.Contains(audit, secret) {
		t.Error("the audit tells who the winner is, or the key")
	}
	holds(t, b.sees(t, "/users?lang=en", 200), "<td>olga</td><td>operator</td>")
	holds(t, b.sees(t, "/audit?below=3", 200), `<td class="number">2</td>`)
	b.sees(t, "/audit?below=x", 400)
	if _, err := b.Audit(t.Context(), func(central.AuditLine) error { return nil }); err != nil {
		t.Error(err)
	}
}
