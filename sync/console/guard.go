package console

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// policyText lets a page load from this server and nothing else: no inline script, no
// inline style, no frame around it, no form to elsewhere.
const policyText = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// guarded sets the headers of every answer and refuses what no reader of ours sends: a
// request for another host, which is how a foreign name is bound to this machine's
// address, or begun by another site. The routes let nothing but GET and HEAD through.
func (c *console) guarded(next http.Handler) http.Handler {
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
		if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" && site != "none" {
			c.opt.Log.Warn("a request begun by another site was refused", "path", r.URL.Path)
			http.Error(w, "Requests begun by another site are refused: type the address.", http.StatusForbidden)
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
