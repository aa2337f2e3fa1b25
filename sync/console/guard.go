package console

import (
	"crypto/hmac"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// policyText lets a page load from this server and nothing else: no inline script, no
// inline style, no frame around it, no form to elsewhere.
const policyText = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// maxForm bounds the body of a form, in bytes.
const maxForm = 256 << 10

// guarded sets the headers of every answer and refuses what no reader of ours sends: a
// request for another host, which is how a foreign name is bound to this machine's
// address, or begun by another site. Over TLS the browser has held the name against the
// certificate already.
func (c *console) guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policyText)
		h.Set("X-Frame-Options", "DENY")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "same-origin") // with no-referrer a browser sends no Origin with our own forms
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		if !c.opt.TLS && !loopback(r.Host) {
			http.Error(w, "This page is answered under localhost or a loopback address only.", http.StatusMisdirectedRequest)
			return
		}
		if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" && site != "none" && !strings.HasPrefix(r.URL.Path, publicPath) {
			c.opt.Log.Warn("a request begun by another site was refused", "path", r.URL.Path)
			http.Error(w, "Requests begun by another site are refused: type the address.", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// ourForm tells whether a request is a form of ours, made for the holder of a token, and
// answers it where it is not: begun from our own pages (Origin), with what only they know.
func (c *console) ourForm(w http.ResponseWriter, r *http.Request, token string) bool {
	scheme := "http://"
	if c.opt.TLS {
		scheme = "https://"
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	switch err := r.ParseForm(); {
	case r.Header.Get("Origin") != scheme+r.Host:
		c.opt.Log.Warn("a form without this site's Origin was refused", "path", r.URL.Path)
		http.Error(w, "Forms are taken from this site's own pages only.", http.StatusForbidden)
	case err != nil:
		http.Error(w, "The form could not be read.", http.StatusBadRequest)
	case token == "" || len(r.PostForm["csrf"]) != 1 || !hmac.Equal([]byte(r.PostForm.Get("csrf")), []byte(csrfOf(token))):
		c.opt.Log.Warn("a form without the page's token was refused", "path", r.URL.Path)
		http.Error(w, "The form is not from a page of this session: load the page again.", http.StatusForbidden)
	default:
		return true
	}
	return false
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
