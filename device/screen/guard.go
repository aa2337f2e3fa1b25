package screen

import (
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// maxForm bounds the body of a press; ours have under 200 bytes.
const maxForm = 4 << 10

// policyText lets a page load from this server and nothing else: no inline script, no
// inline style, no frame around it, no form to elsewhere.
const policyText = "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// guarded sets the headers that every answer carries and refuses requests that no page
// of ours sends: for another host, which is how a foreign name is bound to this
// machine's address, or begun by another site.
func (s *Screen) guarded(next http.Handler) http.Handler {
	cross := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policyText)
		h.Set("X-Frame-Options", "DENY")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		if !loopback(r.Host) {
			http.Error(w, "This page is answered under localhost or a loopback address only.", http.StatusMisdirectedRequest)
			return
		}
		if site := r.Header.Get("Sec-Fetch-Site"); (site != "" && site != "same-origin" && site != "none") || cross.Check(r) != nil {
			s.opt.Log.Warn("a request begun by another site was refused", "path", r.URL.Path)
			http.Error(w, "Requests begun by another site are refused.", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// loopback tells whether a Host header names this machine by a name or address that
// means it everywhere.
func loopback(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil { // no port
		name = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	}
	if strings.EqualFold(name, "localhost") {
		return true
	}
	a, err := netip.ParseAddr(name)
	return err == nil && a.Zone() == "" && a.Unmap().IsLoopback()
}

// press lets a form of ours through to act, and answers with the view that follows: to
// the script the view alone, to a browser without it the way back to the page.
func (s *Screen) press(act func(http.ResponseWriter, *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		if err := r.ParseForm(); err != nil {
			http.Error(w, "The form could not be read: "+err.Error(), http.StatusBadRequest)
			return
		}
		if subtle.ConstantTimeCompare([]byte(r.PostForm.Get("token")), []byte(s.token)) != 1 {
			http.Error(w, "The page is older than the running program: load it again.", http.StatusForbidden)
			return
		}
		s.act.Lock()
		err := act(w, r)
		s.act.Unlock()
		status := http.StatusOK
		if err != nil {
			s.opt.Log.Warn("press not followed", "path", r.URL.Path, "err", err)
			status = http.StatusConflict
		}
		if r.Header.Get("X-Grattoir-Part") != "view" {
			http.Redirect(w, r, "/", http.StatusSeeOther)
			return
		}
		text, err := s.render("clerk", s.viewOf(s.take("clerk"), s.languageOf(r)))
		if err != nil {
			s.fail(w, r, err)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.WriteHeader(status)
		_, _ = w.Write(text)
	}
}
