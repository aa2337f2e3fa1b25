package console

import (
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strings"

	"grattoir/sync/central"
	"grattoir/sync/report"
)

// Names of the cookies. Over TLS they carry a prefix by which a browser takes them from this
// host alone, whatever its neighbours under the same domain set.
const (
	sessionCookie = "grattoir-session"
	visitCookie   = "grattoir-visit" // before the sign-in, for its form
)

func (c *console) cookieName(name string) string {
	if c.opt.TLS {
		return "__Host-" + name
	}
	return name
}

// setCookie gives the browser a token until it is closed; "" takes it back.
func (c *console) setCookie(w http.ResponseWriter, name, token string) {
	k := &http.Cookie{Name: c.cookieName(name), Value: token, Path: "/", HttpOnly: true, Secure: c.opt.TLS, SameSite: http.SameSiteStrictMode}
	if token == "" {
		k.MaxAge = -1
	}
	http.SetCookie(w, k)
}

func (c *console) signInPages() {
	c.open("GET /sign-in", func(w http.ResponseWriter, r *http.Request) {
		c.showSignIn(w, r, http.StatusOK, "", r.URL.Query().Get("next"))
	})
	c.open("POST /sign-in", c.signIn)
	c.open("POST /sign-out", c.signOut)
}

// showSignIn shows the form, or how to make the first user. The form is bound to a token of
// this visit, so that no other site can sign somebody in under a name of its own.
func (c *console) showSignIn(w http.ResponseWriter, r *http.Request, code int, problem, next string) {
	has, err := c.opt.Central.HasUsers(r.Context())
	if err != nil {
		c.broken(w, r, err)
		return
	}
	f := c.frame(r, report.Text{FR: "Se connecter", EN: "Sign in"}, c.opt.Now())
	f.Stale = 0
	visit := rand.Text()
	if k, err := r.Cookie(c.cookieName(visitCookie)); err == nil && len(k.Value) == len(visit) {
		visit = k.Value // another tab's form is still good
	}
	c.setCookie(w, visitCookie, visit)
	f.CSRF = csrfOf(visit)
	c.render(w, r, code, "signin.html", struct {
		frame
		First         bool
		Roles         []central.Role
		Problem, Next string
	}{f, !has, central.Roles(), problem, local(next)})
}

// local is a path of ours to go to after the sign-in: never another site, whatever stood in
// the address.
func local(next string) string {
	u, err := url.Parse(next)
	if err != nil || u.IsAbs() || u.Host != "" || u.User != nil || !strings.HasPrefix(next, "/") || strings.HasPrefix(next, "//") || strings.Contains(next, "\\") {
		return "/"
	}
	return next
}

func (c *console) signIn(w http.ResponseWriter, r *http.Request) {
	visit, err := r.Cookie(c.cookieName(visitCookie))
	if err != nil {
		visit = &http.Cookie{}
	}
	if !c.ourForm(w, r, visit.Value) {
		return
	}
	words, next := c.wordsOf(r), local(r.PostForm.Get("next"))
	token, _, err := c.opt.Central.SignIn(r.Context(), r.PostForm.Get("name"), central.TypedPassword(r.PostForm.Get("password")), c.addressOf(r))
	var wait *central.WaitError
	switch {
	case errors.As(err, &wait):
		seconds := int(math.Ceil(wait.After.Seconds()))
		w.Header().Set("Retry-After", fmt.Sprint(seconds))
		c.showSignIn(w, r, http.StatusTooManyRequests, fmt.Sprintf(words.Wait, seconds), next)
	case errors.Is(err, central.ErrWrong):
		c.showSignIn(w, r, http.StatusForbidden, words.Wrong, next)
	case err != nil:
		c.broken(w, r, err)
	default:
		c.endSession(r) // the one that the browser had, if any
		c.setCookie(w, visitCookie, "")
		c.setCookie(w, sessionCookie, token)
		http.Redirect(w, r, next, http.StatusSeeOther)
	}
}

// endSession ends the session that a request carries.
func (c *console) endSession(r *http.Request) {
	k, err := r.Cookie(c.cookieName(sessionCookie))
	if err != nil {
		return
	}
	if err := c.opt.Central.SignOut(r.Context(), k.Value); err != nil {
		c.opt.Log.Error("a session was not ended", "err", err)
	}
}

func (c *console) signOut(w http.ResponseWriter, r *http.Request) {
	by, err := c.visitor(r)
	if err != nil && !errors.Is(err, central.ErrNoSession) {
		c.broken(w, r, err)
		return
	}
	if err == nil {
		if !c.ourForm(w, r, by.token) {
			return
		}
		if err := c.opt.Central.SignOut(r.Context(), by.token); err != nil {
			c.broken(w, r, err)
			return
		}
	}
	c.setCookie(w, sessionCookie, "")
	http.Redirect(w, r, "/sign-in", http.StatusSeeOther)
}
