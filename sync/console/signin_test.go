package console

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"grattoir/sync/central"
	"grattoir/sync/ledger/people"
	"grattoir/sync/report"
)

// browsing is a console over a central with a clock of its own, as a browser without one
// uses it: it keeps cookies and sends what a browser sends with a form.
type browsing struct {
	*central.Central
	h    http.Handler
	jar  map[string]*http.Cookie
	host string
	from string

	database string // its file

	mu sync.Mutex
	at time.Time
}

func (b *browsing) now() time.Time          { b.mu.Lock(); defer b.mu.Unlock(); return b.at }
func (b *browsing) advance(d time.Duration) { b.mu.Lock(); defer b.mu.Unlock(); b.at = b.at.Add(d) }

func browse(t *testing.T, opt Options, more ...func(*console)) *browsing {
	t.Helper()
	b := &browsing{jar: map[string]*http.Cookie{}, host: "127.0.0.1:8088", from: "127.0.0.1:40000", at: now}
	dir := t.TempDir()
	b.database = filepath.Join(dir, "central.db")
	c, err := central.Open(t.Context(), central.Options{Dir: dir, Now: b.now, PasswordCost: people.Cost{Memory: 8, Passes: 1, Threads: 1}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	opt.Central, opt.Now = c, b.now
	b.Central, b.h = c, newConsole(opt, staleAfter, more...)
	return b
}

// ask sends a request with the cookies, and keeps those of the answer.
func (b *browsing) ask(t *testing.T, method, target string, form url.Values, edit func(*http.Request)) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, target, strings.NewReader(form.Encode()))
	r.Host, r.RemoteAddr = b.host, b.from
	r.Header.Set("Accept", "text/html,*/*")
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", "http://"+b.host)
	}
	for _, k := range b.jar {
		r.AddCookie(k)
	}
	if edit != nil {
		edit(r)
	}
	w := httptest.NewRecorder()
	b.h.ServeHTTP(w, r)
	for _, k := range w.Result().Cookies() {
		if b.jar[k.Name] = k; k.MaxAge < 0 {
			delete(b.jar, k.Name)
		}
	}
	return w
}

// token is what the forms of a page carry.
func (b *browsing) token(t *testing.T, target string) string {
	t.Helper()
	w := b.ask(t, http.MethodGet, target, nil, nil)
	m := regexp.MustCompile(`name="csrf" value="([^"]+)"`).FindStringSubmatch(w.Body.String())
	if m == nil {
		t.Fatalf("%s: %d, no token in its forms: %.300s", target, w.Code, w.Body)
	}
	return m[1]
}

func (b *browsing) signIn(t *testing.T, name, password string) *httptest.ResponseRecorder {
	t.Helper()
	return b.ask(t, http.MethodPost, "/sign-in", url.Values{"csrf": {b.token(t, "/sign-in")}, "name": {name}, "password": {password}, "next": {"/?lang=en"}}, nil)
}

// signedIn is as signIn, of one who is let in.
func (b *browsing) signedIn(t *testing.T, name string) {
	t.Helper()
	if w := b.signIn(t, name, password); w.Code != http.StatusSeeOther {
		t.Fatalf("sign-in of %s: %d %.300s", name, w.Code, w.Body)
	}
}

func (b *browsing) sees(t *testing.T, target string, code int) string {
	t.Helper()
	w := b.ask(t, http.MethodGet, target, nil, nil)
	if w.Code != code {
		t.Fatalf("GET %s: %d, want %d: %.300s", target, w.Code, code, w.Body)
	}
	return w.Body.String()
}

// acts are the newest lines of the audit, oldest first, as act, operator and about.
func (b *browsing) acts(t *testing.T, n int) []string {
	t.Helper()
	list, err := b.NewestAudit(t.Context(), 0, n)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, a := range list {
		out = append(out, strings.TrimSpace(a.Act+" "+a.Operator)+": "+a.About)
	}
	slices.Reverse(out)
	return out
}

// TestNothingIsShownBeforeTheSignIn: but the sign-in, which says how to make the first user,
// and what the pages are drawn with.
func TestNothingIsShownBeforeTheSignIn(t *testing.T) {
	b := browse(t, Options{})
	for _, target := range []string{"/", "/?game=bingo", "/report/sync.csv", "/report/payouts.json"} {
		w := b.ask(t, http.MethodGet, target, nil, nil)
		if want := "/sign-in?next=" + url.QueryEscape(target); w.Code != 303 || w.Header().Get("Location") != want {
			t.Errorf("a browser at %s: %d to %q", target, w.Code, w.Header().Get("Location"))
		}
		if w := b.ask(t, http.MethodGet, target, nil, func(r *http.Request) { r.Header.Del("Accept") }); w.Code != 401 || strings.Contains(w.Body.String(), "terminal") {
			t.Errorf("a program at %s: %d %s", target, w.Code, w.Body)
		}
	}
	holds(t, b.sees(t, "/sign-in?lang=en", 200), "central user add claire", "viewer, operator, security, auditor")
	addUser(t, b.Central, central.RoleViewer)
	if page := b.sees(t, "/sign-in", 200); strings.Contains(page, "central user add") || !strings.Contains(page, `type="password"`) || strings.Contains(page, "<nav") {
		t.Errorf("with a user there is: %s", page)
	}
	b.sees(t, "/static/console.css", 200)
}

// TestSignInLetsTheRightPasswordInAndNothingElse: who it is not learns not why, a token from
// before the sign-in is worth nothing after it, and the way back is to a page of ours.
func TestSignInLetsTheRightPasswordInAndNothingElse(t *testing.T) {
	b := browse(t, Options{})
	addUser(t, b.Central, central.RoleViewer)
	wrong, unknown := b.signIn(t, "viewer", password+"!"), b.signIn(t, "nobody", password)
	if wrong.Code != 403 || unknown.Code != 403 || wrong.Body.String() != unknown.Body.String() {
		t.Fatalf("a wrong password: %d, an unknown name: %d, the same page: %v", wrong.Code, unknown.Code, wrong.Body.String() == unknown.Body.String())
	}
	if got := b.acts(t, 2); got[0] != "sign-in-failed: viewer, from 127.0.0.1" || got[1] != "sign-in-failed: a name that is nobody's, from 127.0.0.1" {
		t.Errorf("the audit: %q", got)
	}
	planted := strings.Repeat("A", 43)
	b.jar[sessionCookie] = &http.Cookie{Name: sessionCookie, Value: planted}
	w := b.signIn(t, "viewer", password)
	k := b.jar[sessionCookie]
	if w.Code != 303 || w.Header().Get("Location") != "/?lang=en" || k.Value == planted || len(k.Value) != 43 || !k.HttpOnly || k.SameSite != http.SameSiteStrictMode || k.Secure || k.Path != "/" {
		t.Fatalf("%d to %q with %v", w.Code, w.Header().Get("Location"), k)
	}
	holds(t, b.sees(t, "/?lang=en", 200), "viewer (viewer)", `action="/sign-out"`)
	var stored int
	sum := sha256.Sum256([]byte(k.Value))
	if err := b.Reader().QueryRowContext(t.Context(), "SELECT count(*) FROM sessions WHERE token = $1", sum[:]).Scan(&stored); err != nil || stored != 1 {
		t.Errorf("sessions stored by the hash of their token: %d, %v", stored, err)
	}
	first := k.Value
	b.signedIn(t, "viewer")
	if _, err := b.Session(t.Context(), first); err == nil {
		t.Error("the session before outlives a second sign-in in the same browser")
	}
	for next, want := range map[string]string{"//evil.example/": "/", "///evil.example/": "/", "https://evil.example/": "/", "/\\evil.example": "/", "evil": "/", "": "/", "/?game=bingo": "/?game=bingo", "http:/x": "/", "/ok\nx": "/"} {
		if got := local(next); got != want {
			t.Errorf("after the sign-in to %q: %q, want %q", next, got, want)
		}
	}
}

func TestTLSKeepsCookiesToItself(t *testing.T) {
	b := browse(t, Options{TLS: true})
	b.host = "central.example.org"
	addUser(t, b.Central, central.RoleViewer)
	w := b.ask(t, http.MethodPost, "/sign-in", url.Values{"csrf": {b.token(t, "/sign-in")}, "name": {"viewer"}, "password": {password}}, func(r *http.Request) { r.Header.Set("Origin", "https://"+b.host) })
	for _, name := range []string{sessionCookie, visitCookie} {
		i := slices.IndexFunc(w.Result().Cookies(), func(k *http.Cookie) bool { return k.Name == "__Host-"+name })
		if i < 0 || !w.Result().Cookies()[i].Secure {
			t.Errorf("%d: cookie %s: %v", w.Code, name, w.Result().Cookies())
		}
	}
	b.sees(t, "/", 200)
	if w := b.signIn(t, "viewer", password); w.Code != 403 { // its Origin is http
		t.Errorf("a form from the same host without TLS: %d", w.Code)
	}
}

// TestFormsAreOurOwn: of this site, made for this session, and read with a bound.
func TestFormsAreOurOwn(t *testing.T) {
	ran := 0
	b := browse(t, Options{}, func(c *console) {
		c.act("POST /do", everybody(), "do", func(http.ResponseWriter, *http.Request) { ran++ })
	})
	addUser(t, b.Central, central.RoleViewer)
	before := b.token(t, "/sign-in")
	b.signedIn(t, "viewer")
	good := url.Values{"csrf": {b.token(t, "/")}}
	for what, c := range map[string]struct {
		form url.Values
		edit func(*http.Request)
	}{
		"no Origin":                 {good, func(r *http.Request) { r.Header.Del("Origin") }},
		"no Origin that says who":   {good, func(r *http.Request) { r.Header.Set("Origin", "null") }},
		"another site":              {good, func(r *http.Request) { r.Header.Set("Origin", "http://evil.example") }},
		"another port":              {good, func(r *http.Request) { r.Header.Set("Origin", "http://127.0.0.1:1") }},
		"begun elsewhere":           {good, func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-site") }},
		"no token":                  {url.Values{}, nil},
		"an empty token":            {url.Values{"csrf": {""}}, nil},
		"a token of no session":     {url.Values{"csrf": {before}}, nil},
		"two tokens":                {url.Values{"csrf": {good.Get("csrf"), "x"}}, nil},
		"a token in the address":    {url.Values{}, func(r *http.Request) { r.URL.RawQuery = good.Encode() }},
		"too long a form":           {url.Values{"csrf": good["csrf"], "x": {strings.Repeat("x", maxForm)}}, nil},
		"a form that is none":       {url.Values{}, func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }},
		"a session that is no more": {good, func(r *http.Request) { r.Header.Del("Cookie") }},
	} {
		if w := b.ask(t, http.MethodPost, "/do", c.form, c.edit); w.Code < 400 || ran > 0 {
			t.Fatalf("%s: %d, done %d times", what, w.Code, ran)
		}
	}
	if w := b.ask(t, http.MethodPost, "/do", good, nil); w.Code != 200 || ran != 1 {
		t.Fatalf("our own: %d, done %d times", w.Code, ran)
	}
	if w := b.ask(t, http.MethodPost, "/sign-out", url.Values{}, nil); w.Code != 403 {
		t.Errorf("signed out by a form without a token: %d", w.Code)
	}
	if got := b.acts(t, 1); got[0] != "do viewer: " {
		t.Errorf("refused forms in the audit: %q", got)
	}
}

// TestRolesDecideWhoSeesAndActs, and the audit has an act before it is tried, without what
// is secret in it; with no audit there is no act.
func TestRolesDecideWhoSeesAndActs(t *testing.T) {
	code := 200
	var audited []string
	b := &browsing{}
	b = browse(t, Options{}, func(c *console) {
		c.page("GET /trial", acting(), func(w http.ResponseWriter, r *http.Request) { _, _ = fmt.Fprint(w, whoOf(r.Context()).Name) })
		c.menu("/trial", acting(), report.Text{FR: "Essai", EN: "Trial"})
		c.act("POST /trial", acting(), "pack-deliver", func(w http.ResponseWriter, _ *http.Request) {
			audited = b.acts(t, 1)
			w.WriteHeader(code)
		})
	})
	for _, role := range central.Roles() {
		addUser(t, b.Central, role)
		b.signedIn(t, string(role))
		form := url.Values{"csrf": {b.token(t, "/")}, "pack": {"17\n\x00"}, "password": {"s3cret"}, "key": {"s3cret"}}
		page := b.sees(t, "/", 200)
		audited = nil
		w := b.ask(t, http.MethodPost, "/trial", form, nil)
		if role != central.RoleOperator {
			if w.Code != 403 || audited != nil || strings.Contains(page, "/trial") {
				t.Errorf("%s acts: %d", role, w.Code)
			}
			holds(t, b.sees(t, "/trial", 403), "Votre rôle ne le permet pas.")
			continue
		}
		if w.Code != 200 || len(audited) != 1 || audited[0] != "pack-deliver operator: pack=17??" || !strings.Contains(page, `href="/trial"`) || b.sees(t, "/trial", 200) != "operator" {
			t.Errorf("an operator acts: %d %q", w.Code, audited)
		}
		code = http.StatusConflict
		b.ask(t, http.MethodPost, "/trial", form, nil)
		if got := b.acts(t, 1); got[0] != "pack-deliver-refused operator: Conflict" {
			t.Errorf("an act that was refused: %q", got)
		}
	}
}

// TestSessionsEnd by a sign-out, by what is done to the user, with time, and at once.
func TestSessionsEnd(t *testing.T) {
	b := browse(t, Options{})
	name := addUser(t, b.Central, central.RoleOperator)
	other, err := central.NewPassword(password + "2")
	if err != nil {
		t.Fatal(err)
	}
	act := func(do error) {
		t.Helper()
		if do != nil {
			t.Fatal(do)
		}
	}
	for what, end := range map[string]func(){
		"sign-out": func() {
			w := b.ask(t, http.MethodPost, "/sign-out", url.Values{"csrf": {b.token(t, "/")}}, nil)
			if b.jar[sessionCookie] != nil || w.Code != 303 {
				t.Errorf("%d, cookies %v", w.Code, b.jar)
			}
		},
		"suspension": func() {
			act(b.SuspendUser(t.Context(), "root", name))
			if w := b.signIn(t, name, password); w.Code != 403 {
				t.Errorf("a suspended user signs in: %d", w.Code)
			}
			act(b.ResumeUser(t.Context(), "root", name))
		},
		"password": func() {
			act(b.SetPassword(t.Context(), "root", name, other))
			if w := b.signIn(t, name, password); w.Code != 403 {
				t.Errorf("the old password is taken: %d", w.Code)
			}
			same, _ := central.NewPassword(password)
			act(b.SetPassword(t.Context(), "root", name, same))
		},
		"role": func() { act(b.SetRole(t.Context(), "root", name, central.RoleOperator)) },
		"idle": func() { b.advance(30 * time.Minute) },
		"a day's work": func() {
			for range 24 {
				b.sees(t, "/sign-in", 200)
				b.sees(t, "/", 200)
				b.advance(29 * time.Minute)
			}
			b.sees(t, "/", 200)
			b.advance(25 * time.Minute)
		},
	} {
		b.advance(time.Hour) // no delay of a wrong password before
		clear(b.jar)
		b.signedIn(t, name)
		token := b.jar[sessionCookie].Value
		b.sees(t, "/", 200)
		end()
		b.jar[sessionCookie] = &http.Cookie{Name: sessionCookie, Value: token}
		if w := b.ask(t, http.MethodGet, "/", nil, nil); w.Code != 303 {
			t.Errorf("after %s: %d", what, w.Code)
		}
	}
}

// TestWrongPasswordsMustWait ever longer, by name from anywhere and by address whatever the
// name; a right password is not looked at meanwhile, and what waits is not counted.
func TestWrongPasswordsMustWait(t *testing.T) {
	const freeByName, longestByName, freeByAddress = 3, time.Minute, 10
	b := browse(t, Options{})
	name := addUser(t, b.Central, central.RoleViewer)
	host := 0
	wrong := func() int { // each from another address
		host++
		b.from = fmt.Sprintf("[2001:db8:0:%x::1]:1", host)
		return b.signIn(t, name, "not the password").Code
	}
	for range freeByName {
		if code := wrong(); code != 403 {
			t.Fatalf("a first wrong password: %d", code)
		}
	}
	for i := range 8 {
		delay := min(time.Second<<i, longestByName)
		if code := wrong(); code != 429 {
			t.Fatalf("within a delay of %v: %d", delay, code)
		}
		w := b.signIn(t, name, password)
		if want := fmt.Sprint(int(delay.Seconds())); w.Code != 429 || w.Header().Get("Retry-After") != want {
			t.Fatalf("the right password within the delay: %d, to come back after %q, want %s", w.Code, w.Header().Get("Retry-After"), want)
		}
		b.advance(delay)
		if code := wrong(); code != 403 {
			t.Fatalf("after a delay of %v: %d", delay, code)
		}
	}
	b.advance(longestByName)
	b.signedIn(t, name)
	for range freeByName - 1 {
		if code := wrong(); code != 403 {
			t.Fatalf("after a right password: %d", code)
		}
	}

	for i := range freeByAddress { // many names from one network of IPv6
		b.from = fmt.Sprintf("[2001:db8:ffff:1::%x]:1", i)
		if w := b.signIn(t, fmt.Sprintf("name%d", i), password); w.Code != 403 {
			t.Fatalf("name %d: %d", i, w.Code)
		}
	}
	if w := b.signIn(t, "another", password); w.Code != 429 {
		t.Errorf("one name more from the same network: %d", w.Code)
	}
	b.from = "[2001:db8:ffff:2::1]:1"
	if w := b.signIn(t, "another", password); w.Code != 403 {
		t.Errorf("from the next network: %d", w.Code)
	}
}
