package central

import (
	"context"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"grattoir/sync/wire"
)

// retryAfter is what a busy central asks of a terminal, in seconds.
const retryAfter = 5

func wireError(kind wire.Kind, format string, args ...any) *wire.Error {
	return &wire.Error{Kind: kind, Text: fmt.Sprintf(format, args...)}
}

// statusOf is the HTTP status of an error kind. Clients decide by the kind.
func statusOf(kind wire.Kind) int {
	switch kind {
	case wire.KindBadRequest:
		return http.StatusBadRequest
	case wire.KindTooLarge:
		return http.StatusRequestEntityTooLarge
	case wire.KindForbidden, wire.KindBadCode, wire.KindExpired:
		return http.StatusForbidden
	case wire.KindBehind, wire.KindFork:
		return http.StatusConflict
	case wire.KindUpgrade:
		return http.StatusUpgradeRequired
	case wire.KindNotFound:
		return http.StatusNotFound
	case wire.KindBusy:
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

// TLSConfig is the server's: TLS 1.3, with client certificates verified under central's
// CA where one is given. Enrolling needs none; API refuses everything else without one.
// The CA's certificate is sent along, so that an enrolling terminal can pin it.
func (c *Central) TLSConfig() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{c.keys.server}, ClientAuth: tls.VerifyClientCertIfGiven,
		ClientCAs: c.clientCAs(), Time: c.opt.Now, NextProtos: []string{"http/1.1"}}
}

// API serves the terminals' requests. It belongs behind TLSConfig: who asks is read from
// the connection's verified certificate.
func (c *Central) API() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+wire.PathEnrol, c.in(c.lanes.enrol, c.serveEnrol))
	mux.HandleFunc("POST "+wire.PathRenew, c.in(c.lanes.enrol, c.serveRenew))
	mux.HandleFunc("POST "+wire.PathHello, c.in(c.lanes.hello, c.known(c.serveHello)))
	mux.HandleFunc("POST "+wire.PathJournal, c.in(c.lanes.journal, c.known(c.serveJournal)))
	mux.HandleFunc("GET "+wire.PathFeed, c.known(c.serveFeed))
	mux.HandleFunc("GET "+wire.PathSnapshot, c.in(c.lanes.hello, c.known(c.serveSnapshot)))
	mux.HandleFunc("GET "+wire.PathTrust, c.in(c.lanes.hello, c.known(c.serveTrust)))
	mux.HandleFunc("GET "+wire.PathPolicies+"{sha256}", c.in(c.lanes.hello, c.known(c.servePolicy)))
	mux.HandleFunc("GET "+wire.PathCatalogues+"{sha256}", c.in(c.lanes.hello, c.known(c.serveCatalogue)))
	mux.HandleFunc("GET "+wire.PathBlocks+"{sha256}", c.in(c.lanes.files, c.known(c.serveBlock)))
	mux.HandleFunc("GET "+wire.PathUpdates+"{sha256}", c.in(c.lanes.hello, c.known(c.serveUpdate)))
	mux.HandleFunc("GET "+wire.PathBundles+"{sha256}", c.in(c.lanes.files, c.known(c.serveBundle)))
	mux.HandleFunc("GET "+wire.PathPieces+"{sha256}", c.in(c.lanes.hello, c.known(c.servePieces)))
	mux.HandleFunc("GET "+wire.PathPeppers+"{block}", c.in(c.lanes.hello, c.known(c.servePepper)))
	mux.HandleFunc("POST "+wire.PathIdentities, c.in(c.lanes.identities, c.known(c.serveIdentities)))
	mux.HandleFunc("GET "+wire.PathJournal, c.in(c.lanes.files, c.known(c.serveOwnJournal)))
	mux.HandleFunc("POST "+wire.PathClaim, c.in(c.lanes.claims, c.known(c.serveClaim)))
	mux.HandleFunc("POST "+wire.PathHolds, c.in(c.lanes.holds, c.known(c.serveHolds)))
	mux.HandleFunc("POST "+wire.PathStanding, c.in(c.lanes.hello, c.known(c.serveStanding)))
	mux.HandleFunc("POST "+wire.PathTake, c.in(c.lanes.holds, c.known(c.serveTake)))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		c.fail(w, r, wireError(wire.KindNotFound, "no such request: this program knows protocol %d", wire.Protocol))
	})
	return c.named(mux)
}

// named gives each answer the name of its request, and counts it once it is served.
func (c *Central) named(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if id := r.Header.Get(wire.HeaderRequest); id != "" && len(id) <= 64 {
			w.Header().Set(wire.HeaderRequest, id)
		}
		h.ServeHTTP(w, r)
		c.meters.request(r)
	})
}

// known lets a request through with the terminal that made it.
func (c *Central) known(serve func(http.ResponseWriter, *http.Request, caller)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
			c.fail(w, r, wireError(wire.KindForbidden, "this request needs the terminal's certificate: enrol first"))
			return
		}
		// The handshake proved the certificate; a connection kept open may outlive it.
		cert := r.TLS.PeerCertificates[0]
		if c.opt.Now().After(cert.NotAfter) {
			c.fail(w, r, wireError(wire.KindExpired, "the certificate ended at %s: renew it", wire.FormatTime(cert.NotAfter)))
			return
		}
		// Before it is looked at: a suspension from here on ends the request.
		ctx, visit, leave := c.visitors.enter(r.Context(), cert.Subject.CommonName)
		defer leave()
		r = r.WithContext(ctx)
		who, after, err := c.identify(ctx, cert)
		if err != nil {
			c.fail(w, r, err)
			return
		}
		c.visitors.admit(visit, after)
		serve(w, r, who)
	}
}

// fail answers with the error's kind. What is central's own fault is logged here, and
// the terminal learns no more than that.
func (c *Central) fail(w http.ResponseWriter, r *http.Request, err error) {
	var e *wire.Error
	after := retryAfter * time.Second
	switch l := (*later)(nil); {
	case errors.As(err, &l):
		e, after = refuseLater(l), l.after
	case errors.As(err, &e):
	case errors.Is(context.Cause(r.Context()), errRevoked):
		e = wireError(wire.KindForbidden, "%v", errRevoked)
	case r.Context().Err() != nil:
		return // nobody listens
	case c.store.busy(err):
		e = wireError(wire.KindBusy, "the database is busy")
	default:
		c.opt.Log.Error("request failed", "path", r.URL.Path, "err", err)
		e = wireError(wire.KindInternal, "central could not do it; its log says why")
	}
	if e.Kind == wire.KindBusy || e.Kind == wire.KindInternal {
		w.Header().Set("Retry-After", strconv.Itoa(int(after/time.Second)))
	}
	c.meters.refused(r, e.Kind)
	c.write(w, r, statusOf(e.Kind), e)
}

func (c *Central) answer(w http.ResponseWriter, r *http.Request, v any, err error) {
	if err != nil {
		c.fail(w, r, err)
		return
	}
	c.write(w, r, http.StatusOK, v)
}

func (c *Central) write(w http.ResponseWriter, r *http.Request, status int, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		c.opt.Log.Error("answer not encoded", "path", r.URL.Path, "err", err)
		status, text = http.StatusInternalServerError, []byte(`{"kind":"internal","text":"central could not do it; its log says why"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n')) // a terminal that left asks again
}

// read decodes a body of at most limit bytes. Fields it does not know are stepped over:
// they are how the protocol grows.
func read(w http.ResponseWriter, r *http.Request, limit int64, into any) error {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return wireError(wire.KindBadRequest, "want Content-Type application/json")
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return wireError(wire.KindTooLarge, "the body is larger than %d bytes", limit)
	}
	if err != nil {
		return wireError(wire.KindBadRequest, "the body was cut: %v", err)
	}
	if err := json.Unmarshal(body, into); err != nil {
		return wireError(wire.KindBadRequest, "the body is not the JSON of this request: %v", err)
	}
	return nil
}

// speaks refuses a protocol that this program no longer knows. Later ones are additive.
func speaks(protocol int) error {
	if protocol < wire.Protocol {
		return wireError(wire.KindUpgrade, "protocol %d is too old, this central speaks %d: update the terminal's program; uploading still works", protocol, wire.Protocol)
	}
	return nil
}

func (c *Central) serveEnrol(w http.ResponseWriter, r *http.Request) {
	var q wire.EnrolRequest
	if err := read(w, r, wire.MaxRequest, &q); err != nil {
		c.fail(w, r, err)
		return
	}
	if err := speaks(q.Protocol); err != nil {
		c.fail(w, r, err)
		return
	}
	a, err := c.enrol(r.Context(), q)
	c.answer(w, r, a, err)
}

func (c *Central) serveHello(w http.ResponseWriter, r *http.Request, who caller) {
	var h wire.Hello
	err := read(w, r, wire.MaxRequest, &h)
	if err == nil {
		err = speaks(h.Protocol)
	}
	if err != nil {
		c.fail(w, r, err)
		return
	}
	a, err := c.hello(r.Context(), who, h)
	if err == nil {
		err = c.noteUse(r.Context(), who.name, r.TLS.PeerCertificates[0].SerialNumber.Text(16))
	}
	c.answer(w, r, a, err)
}

// serveJournal asks no protocol number: what a terminal has paid is taken from every
// program that was ever shipped.
func (c *Central) serveJournal(w http.ResponseWriter, r *http.Request, who caller) {
	var u wire.Upload
	if err := read(w, r, wire.MaxUpload, &u); err != nil {
		c.fail(w, r, err)
		return
	}
	a, err := c.upload(r.Context(), who, u)
	c.answer(w, r, a, err)
}

func (c *Central) serveFeed(w http.ResponseWriter, r *http.Request, who caller) {
	after, err := queryNumber(r, "after", 1<<53)
	if err != nil {
		c.fail(w, r, err)
		return
	}
	seconds, err := queryNumber(r, "wait", wire.MaxFeedWait)
	if err != nil {
		c.fail(w, r, err)
		return
	}
	beat, err := queryNumber(r, "beat", wire.MaxFeedWait)
	if err != nil {
		c.fail(w, r, err)
		return
	}
	b := beats{w: w, every: time.Duration(beat) * time.Second}
	f, err := c.hold(r.Context(), who.name, after, time.Duration(seconds)*time.Second, &b)
	if err == nil {
		// A minute may have passed: whoever was suspended in it learns nothing more.
		_, _, err = c.identify(r.Context(), r.TLS.PeerCertificates[0])
	}
	if b.begun {
		b.end(f, err, c.now())
		return
	}
	c.answer(w, r, f, err)
}

// beats are the signs of life of a long poll that is held. A line that was lost silently, or
// a router that forgot it, looks to the terminal like a central with nothing to say, and a
// clerk elsewhere waits for what this terminal does not hear.
type beats struct {
	w     http.ResponseWriter
	every time.Duration // 0 for none
	begun bool
}

// beat sends one. Whether it arrived nobody here can know.
func (b *beats) beat() {
	if !b.begun {
		b.begun = true
		h := b.w.Header()
		h.Set("Content-Type", "application/json")
		h.Set("Cache-Control", "no-store")
		h.Set(wire.HeaderBeat, strconv.Itoa(int(b.every/time.Second)))
		b.w.WriteHeader(http.StatusOK)
	}
	_, _ = b.w.Write([]byte{'\n'})
	_ = http.NewResponseController(b.w).Flush()
}

// end gives the answer after signs of life. It is too late to refuse: with an error the run
// is empty, and the next request, which comes at once, is told.
func (b *beats) end(f wire.Feed, err error, now string) {
	if err != nil {
		f = wire.Feed{Protocol: wire.Protocol, Items: []wire.FeedItem{}, Time: now}
	}
	text, err := json.Marshal(f)
	if err != nil {
		panic(http.ErrAbortHandler) // items come from the tables as JSON
	}
	_, _ = b.w.Write(append(text, '\n'))
}

// queryNumber reads a number from 0 to high, 0 when it is absent.
func queryNumber(r *http.Request, name string, high int64) (int64, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > high {
		return 0, wireError(wire.KindBadRequest, "%s %.20q: want 0 to %d", name, text, high)
	}
	return n, nil
}

func (c *Central) serveSnapshot(w http.ResponseWriter, r *http.Request, _ caller) {
	version, texts, err := c.snapshotTexts(r.Context())
	if err != nil {
		c.fail(w, r, err)
		return
	}
	signed, tag := texts[0], fmt.Sprintf(`"%d"`, version)
	switch query := "?" + r.URL.RawQuery; {
	case query == wire.SnapshotQuery && texts[1] != texts[0]:
		signed, tag = texts[1], fmt.Sprintf(`"%d-2"`, version)
	case query == wire.SnapshotQuery3 && texts[2] != texts[0]:
		signed, tag = texts[2], fmt.Sprintf(`"%d-3"`, version)
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("ETag", tag)
	http.ServeContent(w, r, "", time.Time{}, strings.NewReader(signed))
}

// serveBlock gives a block file by its hash, whole or in ranges. The file never changes,
// so its hash is its entity tag.
func (c *Central) serveBlock(w http.ResponseWriter, r *http.Request, _ caller) {
	sum := r.PathValue("sha256")
	if raw, err := hex.DecodeString(sum); err != nil || len(raw) != 32 || hex.EncodeToString(raw) != sum {
		c.fail(w, r, wireError(wire.KindBadRequest, "want a block's SHA-256 in 64 lower-case hexadecimal digits"))
		return
	}
	published, err := c.published(r.Context(), sum)
	if err == nil && !published {
		err = wireError(wire.KindNotFound, "no block %s is published", sum)
	}
	if err != nil {
		c.fail(w, r, err)
		return
	}
	f, err := os.Open(c.blockPath(sum))
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("block %s is published and its file is gone: publish it again: %w", sum, err)
	}
	if err != nil {
		c.fail(w, r, err)
		return
	}
	defer f.Close()
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("ETag", `"`+sum+`"`)
	http.ServeContent(w, r, "", time.Time{}, revocable{f, r.Context()})
}

func (c *Central) published(ctx context.Context, sum string) (bool, error) {
	var n int
	err := c.store.reader().QueryRowContext(ctx, "SELECT count(*) FROM blocks WHERE sha256 = $1", sum).Scan(&n)
	return n > 0, err
}
