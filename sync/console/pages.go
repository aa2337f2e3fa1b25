package console

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"grattoir/sync/central"
	"grattoir/sync/report"
	"grattoir/validate/money"
)

// A page registers itself with the roles that may see it, an act with those that may do it.
// Both get who asks from the request, and neither can be reached otherwise:
//
//	c.page("GET /fleet", everybody(), c.showFleet)
//	c.act("POST /packs/deliver", acting(), "pack-deliver", c.deliver)
//	c.menu("/fleet", everybody(), report.Text{FR: "Terminaux", EN: "Terminals"})
//
// Its data embeds the frame from c.frame, its template stands between {{template "top" .}}
// and {{template "bottom" .}}, and each form that posts has {{template "token" .}} inside.

// everybody are all roles.
func everybody() []central.Role { return central.Roles() }

// acting are the roles that may change something.
func acting() []central.Role { return []central.Role{central.RoleOperator} }

// who asks: a user who is signed in. The zero value is nobody.
type who struct {
	Name  string
	Role  central.Role
	token string // of the session
}

type whoKey struct{}

// whoOf tells who asks, in the handler of a page or an act.
func whoOf(ctx context.Context) who {
	w, _ := ctx.Value(whoKey{}).(who)
	return w
}

// may tells whether the user has one of the roles.
func (w who) may(roles []central.Role) bool { return slices.Contains(roles, w.Role) }

// csrfOf is what a form must carry that was made for the holder of a token, which no other
// site can read. It shows nothing of the token.
func csrfOf(token string) string {
	mac := hmac.New(sha256.New, []byte(token))
	mac.Write([]byte("grattoir console form v1"))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// open serves a path to everybody who reaches the console, signed in or not.
func (c *console) open(pattern string, serve http.HandlerFunc) { c.mux.HandleFunc(pattern, serve) }

// page serves what only shows, to users who have one of the roles.
func (c *console) page(pattern string, roles []central.Role, serve http.HandlerFunc) {
	c.mux.HandleFunc(pattern, c.signedIn(roles, serve))
}

// act serves what changes something. Its form is ours, and stands in the audit under a name
// before the act is tried, with its fields but for secrets; an act that is then answered
// with 400 or more has a second line, NAME-refused.
func (c *console) act(pattern string, roles []central.Role, name string, serve http.HandlerFunc) {
	c.form(pattern, roles, func(w http.ResponseWriter, r *http.Request) {
		if !c.note(w, r, name, fieldsOf(r.PostForm)) {
			return
		}
		done := &answered{ResponseWriter: w}
		serve(done, r)
		if done.code >= http.StatusBadRequest {
			c.note(nil, r, name+"-refused", http.StatusText(done.code))
		}
	})
}

// form is act for what writes the audit itself, in the transaction of what it does.
func (c *console) form(pattern string, roles []central.Role, serve http.HandlerFunc) {
	c.mux.HandleFunc(pattern, c.signedIn(roles, func(w http.ResponseWriter, r *http.Request) {
		if c.ourForm(w, r, whoOf(r.Context()).token) {
			serve(w, r)
		}
	}))
}

// note appends a line to the audit. Where that fails the answer is an error, with w nil only
// the log has it, and nothing may be shown.
func (c *console) note(w http.ResponseWriter, r *http.Request, act, about string) bool {
	err := c.opt.Central.Note(context.WithoutCancel(r.Context()), act, whoOf(r.Context()).Name, about)
	if err == nil {
		return true
	}
	c.opt.Log.Error("not in the audit, so not done", "act", act, "err", err)
	if w != nil {
		http.Error(w, "The audit could not be written, so nothing was done: central's log says why.", http.StatusInternalServerError)
	}
	return false
}

// secretFields never reach the audit.
func secretFields() []string { return []string{"csrf", "password", "key"} }

// fieldsOf writes a form's fields for the audit, in the order of their names.
func fieldsOf(form url.Values) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(form)) {
		if !slices.Contains(secretFields(), name) {
			list = append(list, name+"="+strings.Join(form[name], ","))
		}
	}
	return strings.Join(list, " ")
}

// answered remembers the status of an answer.
type answered struct {
	http.ResponseWriter
	code int
}

func (a *answered) WriteHeader(code int) {
	a.code = code
	a.ResponseWriter.WriteHeader(code)
}

// signedIn lets users in who have one of the roles. A browser without a session is led to
// the sign-in, a program is told.
func (c *console) signedIn(roles []central.Role, serve http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		by, err := c.visitor(r)
		switch {
		case errors.Is(err, central.ErrNoSession):
			if r.Method == http.MethodGet && strings.Contains(r.Header.Get("Accept"), "text/html") {
				to := url.Values{"next": {r.URL.RequestURI()}}
				if languageOf(r) == money.English {
					to.Set("lang", string(money.English))
				}
				http.Redirect(w, r, address("/sign-in", to.Encode()), http.StatusSeeOther)
				return
			}
			http.Error(w, "Sign in first, at /sign-in.", http.StatusUnauthorized)
			return
		case err != nil:
			c.broken(w, r, err)
			return
		}
		r = r.WithContext(context.WithValue(r.Context(), whoKey{}, by))
		if !by.may(roles) {
			c.opt.Log.Warn("a user's role does not allow this", "user", by.Name, "role", string(by.Role), "path", r.URL.Path)
			c.refuse(w, r, http.StatusForbidden, c.wordsOf(r).Denied)
			return
		}
		serve(w, r)
	}
}

// refreshHeader marks what a page asks for by itself, which is no use of a session: a desk
// that was left is signed out on time, though its overview goes on asking. A viewer's, who
// can do nothing, lasts: it may hang on a wall.
const refreshHeader = "Grattoir-Refresh"

// visitor tells whose session a request carries. The error is central.ErrNoSession, or
// the store's.
func (c *console) visitor(r *http.Request) (who, error) {
	cookie, err := r.Cookie(c.cookieName(sessionCookie))
	if err != nil {
		return who{}, central.ErrNoSession
	}
	session := c.opt.Central.Session
	if r.Header.Get(refreshHeader) != "" {
		session = c.opt.Central.WatchSession
	}
	s, err := session(r.Context(), cookie.Value)
	return who{Name: s.Name, Role: s.Role, token: cookie.Value}, err
}

// broken answers what is central's own fault, without its insides.
func (c *console) broken(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() == nil { // otherwise the reader left
		c.opt.Log.Error("request not served", "path", r.URL.Path, "err", err)
	}
	http.Error(w, "The store could not be read: central's log says why.", http.StatusInternalServerError)
}

// addressOf is where a request comes from.
func (c *console) addressOf(r *http.Request) netip.Addr {
	a, _ := netip.ParseAddrPort(r.RemoteAddr) // an in-process request may have none
	return a.Addr()
}

// entry is a line of the menu.
type entry struct {
	path  string
	roles []central.Role
	title report.Text
}

// menu adds a page to the menu of those who may see it, in the order of the calls.
func (c *console) menu(path string, roles []central.Role, title report.Text) {
	c.entries = append(c.entries, entry{path, roles, title})
}

// link is a line of a page's menu.
type link struct {
	Address, Title string
	Here           bool
}

// frame is what the layout shows around each page. The page's data embeds it.
type frame struct {
	W            words
	Title        string // of the page
	Menu         []link
	User, Role   string // "" for nobody
	CSRF         string // for {{template "token" .}}
	Lang         string // "lang=en" to be appended to an address's query, or ""
	Made, MadeAt string // the instant, and the time people read
	Stale        int64  // milliseconds after which the page is out of date; 0 for one that says nothing of its age
	Refresh      int64  // milliseconds after which the page asks for itself again; 0 for never
	Other        string // the same page in the other language, an address
	lang         money.Language
}

// languageOf is the language that the address asks for.
func languageOf(r *http.Request) money.Language {
	if r.URL.Query().Get("lang") == string(money.English) {
		return money.English
	}
	return money.French
}

func (c *console) wordsOf(r *http.Request) words { return wordsIn(languageOf(r)) }

// frame makes the frame of a page for who asks.
func (c *console) frame(r *http.Request, title report.Text, now time.Time) frame {
	lang := languageOf(r)
	by := whoOf(r.Context())
	here, other, query := r.URL.Path, r.URL.Query(), ""
	if r.Method == http.MethodPost && by.Name != "" { // the answer to a form is no page to come back to
		here, other = "/", url.Values{}
	}
	if lang == money.English {
		other.Del("lang")
		query = "lang=en"
	} else {
		other.Set("lang", string(money.English))
	}
	f := frame{W: wordsIn(lang), Title: title.In(lang), User: by.Name, Role: string(by.Role), Lang: query, lang: lang, Other: address(here, other.Encode()),
		Made: now.UTC().Format(time.RFC3339), MadeAt: now.In(c.opt.Zone).Format("15:04:05"), Stale: c.stale.Milliseconds()}
	if by.token != "" {
		f.CSRF = csrfOf(by.token)
	}
	for _, e := range c.entries {
		if by.may(e.roles) {
			f.Menu = append(f.Menu, link{address(e.path, query), e.title.In(lang), e.path == r.URL.Path})
		}
	}
	return f
}

// render answers with a page: a template of templates/ by its file's name.
func (c *console) render(w http.ResponseWriter, r *http.Request, code int, name string, data any) {
	var page bytes.Buffer
	if err := c.templates.ExecuteTemplate(&page, name, data); err != nil {
		c.opt.Log.Error("page not made", "path", r.URL.Path, "err", err)
		http.Error(w, "The page could not be made: central's log says why.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	_, _ = w.Write(page.Bytes()) // an error here is the reader's connection
}

// refuse answers with a page that says why something is not done, within the layout.
func (c *console) refuse(w http.ResponseWriter, r *http.Request, code int, why string) {
	f := c.frame(r, report.Text{FR: "Refusé", EN: "Refused"}, c.opt.Now())
	f.Stale = 0
	c.render(w, r, code, "refused.html", struct {
		frame
		Why string
	}{f, why})
}
