package console

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"grattoir/sync/central"
	"grattoir/sync/ledger/people"
	"grattoir/sync/report"
	"grattoir/validate"
	"grattoir/validate/money"
)

// accounts are the pages about persons: who uses the console, what each did, and the
// register of winners' identities, which two of the role security open together.
func (c *console) accounts() {
	reading := []central.Role{central.RoleAuditor}
	looking := []central.Role{central.RoleSecurity}
	both := []central.Role{central.RoleSecurity, central.RoleAuditor}
	c.page("GET /audit", reading, c.showAudit)
	c.menu("/audit", reading, auditTitle())
	c.page("GET /users", both, c.showUsers)
	c.menu("/users", both, usersTitle())
	c.page("GET /identities", both, c.showIdentities)
	c.menu("/identities", both, identitiesTitle())
	// Central writes the audit of these, in the transaction of each.
	c.form("POST /identities/ask", looking, c.askIdentity)
	c.form("POST /identities/agree", looking, c.agreeIdentity)
	c.form("POST /identities/look", looking, c.lookAtIdentity)
}

func auditTitle() report.Text      { return report.Text{FR: "Journal d'audit", EN: "Audit"} }
func usersTitle() report.Text      { return report.Text{FR: "Utilisateurs", EN: "Users"} }
func identitiesTitle() report.Text { return report.Text{FR: "Identités", EN: "Identities"} }

// accountWords are the texts of these pages, by their names in the templates.
func accountWords(lang money.Language) map[string]string {
	words := map[string]string{}
	for name, text := range map[string]report.Text{
		"Line": {FR: "Ligne", EN: "Line"}, "Time": {FR: "Heure", EN: "Time"}, "Act": {FR: "Acte", EN: "Act"}, "Who": {FR: "Qui", EN: "Who"}, "About": {FR: "À propos", EN: "About"},
		"Older":  {FR: "Plus anciennes", EN: "Older"},
		"Verify": {FR: "Cette page montre les lignes ; la commande suivante prouve qu'aucune n'a été modifiée :", EN: "This page shows the lines; this command proves that none was changed:"},
		"Role":   {FR: "Rôle", EN: "Role"}, "State": {FR: "État", EN: "State"}, "Added": {FR: "Créé", EN: "Added"}, "Suspended": {FR: "suspendu", EN: "suspended"},
		"Change":  {FR: "Les utilisateurs sont créés et modifiés sur la machine centrale :", EN: "Users are made and changed on central's machine:"},
		"Request": {FR: "Demande", EN: "Request"}, "Payment": {FR: "Paiement", EN: "Payment"}, "Reason": {FR: "Motif", EN: "Reason"}, "Asked": {FR: "Demandé", EN: "Asked"},
		"Agreed": {FR: "Accord", EN: "Agreed"}, "Opened": {FR: "Lu", EN: "Read"}, "Expires": {FR: "Jusqu'à", EN: "Until"}, "Records": {FR: "Fiches", EN: "Records"},
		"Rule": {FR: "Une personne demande, avec un motif ; une autre donne son accord dans l'heure ; la première lit alors, une seule fois, dans l'heure. Le journal d'audit garde chaque étape.",
			EN: "One person asks, with a reason; another agrees within an hour; the first then reads, once, within an hour. The audit keeps each step."},
		"Terminal": {FR: "Terminal", EN: "Terminal"}, "Number": {FR: "Numéro du reçu, comme 1-000017, ou id du paiement", EN: "Number on the slip, like 1-000017, or payment's id"}, "Ask": {FR: "Demander", EN: "Ask"}, "Agree": {FR: "Donner son accord", EN: "Agree"},
		"Key": {FR: "Clé privée du registre", EN: "Register's private key"}, "Look": {FR: "Lire", EN: "Read"}, "Back": {FR: "Retour", EN: "Back"}, "Born": {FR: "Naissance", EN: "Born"},
		"Address": {FR: "Adresse", EN: "Address"}, "Document": {FR: "Pièce", EN: "Document"}, "By": {FR: "Relevé par", EN: "Recorded by"},
		"Once": {FR: "Cette page ne s'ouvre qu'une fois.", EN: "This page opens once only."}, "Unopened": {FR: "Des fiches ne se sont pas ouvertes", EN: "Some records did not open"},
	} {
		words[name] = text.In(lang)
	}
	return words
}

// instant is a time as people read it, "" for none.
func (c *console) instant(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.In(c.opt.Zone).Format("2006-01-02 15:04:05")
}

// account is what each of these pages has.
type account struct {
	frame
	T map[string]string
}

func (c *console) account(r *http.Request, title report.Text) account {
	return account{c.frame(r, title, c.opt.Now()), accountWords(languageOf(r))}
}

const auditRows = 100

func (c *console) showAudit(w http.ResponseWriter, r *http.Request) {
	var below int64
	if text := r.URL.Query().Get("below"); text != "" {
		var err error
		if below, err = strconv.ParseInt(text, 10, 64); err != nil || below < 1 {
			c.refuse(w, r, http.StatusBadRequest, c.told(r, report.Wrongf("below=%.20q : il faut le numéro d'une ligne", "below=%.20q: want a line's number", text)))
			return
		}
	}
	list, err := c.opt.Central.NewestAudit(r.Context(), below, auditRows)
	if err != nil {
		c.broken(w, r, err)
		return
	}
	page := struct {
		account
		Lines []central.AuditLine
		Older string
	}{c.account(r, auditTitle()), list, ""}
	if n := len(list); n > 0 && list[n-1].Seq > 1 {
		query := url.Values{"below": {fmt.Sprint(list[n-1].Seq)}}
		if page.lang == money.English {
			query.Set("lang", string(money.English))
		}
		page.Older = address("/audit", query.Encode())
	}
	c.render(w, r, http.StatusOK, "audit.html", page)
}

func (c *console) showUsers(w http.ResponseWriter, r *http.Request) {
	list, err := c.opt.Central.Users(r.Context())
	if err != nil {
		c.broken(w, r, err)
		return
	}
	type row struct {
		central.User
		At string
	}
	var rows []row
	for _, u := range list {
		rows = append(rows, row{u, c.instant(u.Added)})
	}
	c.render(w, r, http.StatusOK, "users.html", struct {
		account
		Users []row
	}{c.account(r, usersTitle()), rows})
}

// asking is a request of the register as the page shows it.
type asking struct {
	central.IdentityRequest
	AskedAt, AgreedAt, OpenedAt, Until string
	MayAgree, MayLook                  bool
}

func (c *console) showIdentities(w http.ResponseWriter, r *http.Request) {
	list, err := c.opt.Central.IdentityRequests(r.Context())
	if err != nil {
		c.broken(w, r, err)
		return
	}
	by := whoOf(r.Context())
	page := struct {
		account
		MayAsk   bool
		Requests []asking
	}{account: c.account(r, identitiesTitle()), MayAsk: by.Role == central.RoleSecurity}
	for _, q := range list[:min(len(list), pageRows)] {
		live := page.MayAsk && q.OpenedBy == "" && !c.opt.Now().After(q.Expires)
		row := asking{IdentityRequest: q, AskedAt: c.instant(q.Asked), AgreedAt: c.instant(q.Agreed), OpenedAt: c.instant(q.Opened),
			MayAgree: live && q.AgreedBy == "" && q.Operator != by.Name, MayLook: live && q.AgreedBy != "" && q.Operator == by.Name}
		if q.OpenedBy == "" {
			row.Until = c.instant(q.Expires)
		}
		page.Requests = append(page.Requests, row)
	}
	c.render(w, r, http.StatusOK, "identities.html", page)
}

// refused answers an act that central did not do, in the reader's language.
func (c *console) refused(w http.ResponseWriter, r *http.Request, err error) {
	switch {
	case errors.Is(err, central.ErrNotFound), errors.Is(err, central.ErrRefused), errors.Is(err, report.ErrFilter):
		c.refuse(w, r, statusOf(err), c.told(r, err))
	case errors.Is(err, people.ErrSealed):
		c.refuse(w, r, http.StatusUnprocessableEntity, err.Error())
	default:
		c.broken(w, r, err)
	}
}

// claimNamed is the payment that a form names, by its slip or by its id.
func (c *console) claimNamed(r *http.Request) (string, error) {
	var n validate.EntryNumber
	text := strings.TrimSpace(r.PostForm.Get("number"))
	if raw, err := hex.DecodeString(text); err == nil && len(raw) == 16 { // a payment's id
		return text, nil
	}
	if _, err := fmt.Sscanf(text, "%d-%d", &n.Epoch, &n.Seq); err != nil || n.Epoch < 1 || n.Seq < 1 {
		return "", report.Wrongf("numéro %.40q : il le faut comme sur le reçu, 1-000017, ou l'id d'un paiement", "number %.40q: want it as the slip shows it, like 1-000017, or a payment's id", text)
	}
	return c.opt.Central.ClaimOf(r.Context(), strings.TrimSpace(r.PostForm.Get("terminal")), n)
}

// back leads to a page of ours after an act, in the reader's language.
func (c *console) back(w http.ResponseWriter, r *http.Request, path string) {
	query := ""
	if languageOf(r) == money.English {
		query = "lang=en"
	}
	http.Redirect(w, r, address(path, query), http.StatusSeeOther)
}

func (c *console) askIdentity(w http.ResponseWriter, r *http.Request) {
	claim, err := c.claimNamed(r)
	if err == nil {
		_, err = c.opt.Central.AskIdentity(r.Context(), claim, whoOf(r.Context()).Name, strings.TrimSpace(r.PostForm.Get("reason")))
	}
	if err != nil {
		c.refused(w, r, err)
		return
	}
	c.back(w, r, "/identities")
}

func (c *console) agreeIdentity(w http.ResponseWriter, r *http.Request) {
	number, _ := strconv.ParseInt(r.PostForm.Get("request"), 10, 64) // 0 is no request
	if err := c.opt.Central.AgreeIdentity(r.Context(), number, whoOf(r.Context()).Name); err != nil {
		c.refused(w, r, err)
		return
	}
	c.back(w, r, "/identities")
}

// lookAtIdentity shows what was agreed to. The register's key comes with the form and goes
// with it: it is stored nowhere.
func (c *console) lookAtIdentity(w http.ResponseWriter, r *http.Request) {
	key, err := people.ParseRegisterSecretKey(r.PostForm.Get("key"))
	if err != nil {
		c.refuse(w, r, http.StatusBadRequest, err.Error())
		return
	}
	number, _ := strconv.ParseInt(r.PostForm.Get("request"), 10, 64) // 0 is no request
	filings, err := c.opt.Central.OpenIdentity(r.Context(), number, whoOf(r.Context()).Name, key)
	if len(filings) == 0 {
		c.refused(w, r, err)
		return
	}
	page := struct {
		account
		Filings  []filing
		Unopened string
	}{account: c.account(r, identitiesTitle())}
	page.Stale = 0
	if err != nil {
		page.Unopened = err.Error()
	}
	for _, f := range filings {
		shown := filing{Filing: f}
		for _, p := range f.Payments {
			shown.Paid = append(shown.Paid, p.Claim+": "+money.Text(p.Amount, p.Currency, page.lang, money.Screen))
		}
		page.Filings = append(page.Filings, shown)
	}
	c.render(w, r, http.StatusOK, "identity.html", page)
}

// filing is an opened record with its payments in words.
type filing struct {
	people.Filing
	Paid []string
}
