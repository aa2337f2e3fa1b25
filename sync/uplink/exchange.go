package uplink

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"mime"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"grattoir/sync/wire"
)

var (
	// ErrUnreachable means that no connection to central came about, or that it broke.
	ErrUnreachable = errors.New("central cannot be reached")
	// ErrNotCentral means that the other end could not prove to be central.
	ErrNotCentral = errors.New("the server cannot prove that it is central")
	// ErrAnswer means an answer that central does not give: a proxy's page, half an
	// answer, another protocol. Nothing of it was believed.
	ErrAnswer = errors.New("the answer is not central's")
	// ErrSignature means a text that central's key did not sign.
	ErrSignature = errors.New("central's key did not sign this")
)

const (
	// requestTimeout is what central may take for an answer; what the line takes comes on top.
	requestTimeout = 30 * time.Second
	// handshakeTimeout is long: at 150 bytes a second a handshake alone takes half a minute,
	// and more when lanes share the line. A request that was given up meanwhile finds the
	// connection made.
	handshakeTimeout = 5 * time.Minute
	maxErrorBody     = 64 << 10
	maxRetryAfter    = time.Hour // a longer wish is a mistake somewhere
)

// refused is an answer that is not 2xx. It wraps a *wire.Error when it has one.
type refused struct {
	status int
	after  time.Duration // Retry-After, 0 for none
	err    error
}

func (r *refused) Error() string { return fmt.Sprintf("status %d: %v", r.status, r.err) }
func (r *refused) Unwrap() error { return r.err }

// client speaks to one central.
type client struct {
	base      *url.URL
	http      *http.Client
	transport *http.Transport
	made      *connections
	pace      pace
	echoes    atomic.Bool // it has named the request that it answered
	beats     atomic.Bool // the last long poll that was held gave signs of life
}

// parseURL wants https and nothing after the host.
func parseURL(text string) (*url.URL, error) {
	u, err := url.Parse(strings.TrimSuffix(text, "/"))
	if err != nil {
		return nil, fmt.Errorf("central's address %.80q: %w", text, err)
	}
	if u.Scheme != "https" || u.Hostname() == "" || u.Path != "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return nil, fmt.Errorf("central's address %.80q: want https://HOST:PORT and nothing after it", text)
	}
	return u, nil
}

func newClient(base *url.URL, dial func(ctx context.Context, network, addr string) (net.Conn, error), config *tls.Config) *client {
	if dial == nil {
		dial = (&net.Dialer{Timeout: 15 * time.Second, KeepAlive: 30 * time.Second}).DialContext
	}
	// HTTP/1.1: each lane has a connection of its own, so that a block on its way never
	// holds up the journal. No compression: a small answer must not unfold into a large one.
	made := &connections{open: map[*connection]bool{}}
	t := &http.Transport{DialContext: made.dial(dial), TLSClientConfig: config, TLSHandshakeTimeout: handshakeTimeout, MaxIdleConnsPerHost: 8,
		IdleConnTimeout: 90 * time.Second, DisableCompression: true, MaxResponseHeaderBytes: 64 << 10}
	return &client{base: base, transport: t, made: made, http: &http.Client{Transport: t,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}} // central never redirects; a portal does
}

// close gives up the connections that nobody uses.
func (c *client) close() { c.transport.CloseIdleConnections() }

// end gives up all of them, also those whose handshake goes on after its request was
// given up, and makes no more.
func (c *client) end() {
	c.close()
	c.made.end()
}

// connections are those that a client has made and not closed.
type connections struct {
	mu    sync.Mutex
	open  map[*connection]bool
	ended bool
}

type connection struct {
	net.Conn
	of *connections
}

func (c *connections) dial(dial func(ctx context.Context, network, addr string) (net.Conn, error)) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		raw, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		made := &connection{raw, c}
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.ended {
			return nil, errors.Join(net.ErrClosed, raw.Close())
		}
		c.open[made] = true
		return made, nil
	}
}

func (c *connections) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	for made := range c.open {
		_ = made.Conn.Close()
	}
}

func (c *connection) Close() error {
	c.of.mu.Lock()
	delete(c.of.open, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// post sends a message and reads the answer.
func (c *client) post(ctx context.Context, path string, message, answer any) error {
	return c.postWithin(ctx, requestTimeout, path, message, answer)
}

func (c *client) postWithin(ctx context.Context, timeout time.Duration, path string, message, answer any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // journal lines would grow to six times their length
	if err := enc.Encode(message); err != nil {
		return err
	}
	return c.exchange(ctx, timeout, http.MethodPost, path, b.Bytes(), answer)
}

// get reads the answer at a path, which may have a query.
func (c *client) get(ctx context.Context, timeout time.Duration, path string, answer any) error {
	return c.exchange(ctx, timeout, http.MethodGet, path, nil, answer)
}

func (c *client) exchange(ctx context.Context, timeout time.Duration, method, path string, body []byte, answer any) error {
	text, err := c.fetch(ctx, timeout, method, path, body, "application/json")
	if err != nil {
		return err
	}
	var head struct {
		Protocol int `json:"protocol"`
	}
	if err := json.Unmarshal(text, &head); err != nil {
		return fmt.Errorf("%w: %s gives no message but %s: something stands between", ErrAnswer, path, excerpt(text))
	}
	// The journal's upload is frozen for ever, and its answer proves itself by signature.
	if head.Protocol != wire.Protocol && (head.Protocol < 1 || path != wire.PathJournal) {
		return fmt.Errorf("%w: %s speaks protocol %d, this program %d", ErrAnswer, path, head.Protocol, wire.Protocol)
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrAnswer, path, err)
	}
	return nil
}

// read gives the whole text of a 2xx answer, at most wire.MaxAnswer bytes.
func (c *client) read(ctx context.Context, timeout time.Duration, method, path string, body []byte) ([]byte, error) {
	return c.fetch(ctx, timeout, method, path, body, "text/plain")
}

// fetch gives the whole body of a 2xx answer of a content type. Timeout is what central
// may take; the line gets its own time by the size and by what it has shown to carry. An
// answer that central holds back with signs of life is given up when they end.
func (c *client) fetch(ctx context.Context, timeout time.Duration, method, path string, body []byte, kind string) ([]byte, error) {
	began := time.Now() // with its monotonic reading; the device's clock may step
	ctx, q := listen(ctx, timeout+c.pace.line(len(body)))
	defer q.end()
	ctx, reached := watchReach(ctx)
	text, err := c.fetchText(ctx, q, method, path, body, kind)
	var refused *refused
	switch {
	case err == nil:
		c.pace.carried(len(body)+len(text), time.Since(began))
	case errors.As(err, &refused): // an answer all the same
	case errors.Is(err, context.DeadlineExceeded) && reached.Load():
		c.pace.late()
		c.beats.Store(false) // another central may answer by now, that gives none
	}
	return text, err
}

// watchReach tells whether the other end was reached, so that no line is taken for slow
// because there is none.
func watchReach(ctx context.Context) (context.Context, *atomic.Bool) {
	var reached atomic.Bool
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		TLSHandshakeStart: func() { reached.Store(true) },
		GotConn:           func(httptrace.GotConnInfo) { reached.Store(true) },
	}), &reached
}

// quiet gives up a request after too long a silence.
type quiet struct {
	cancel context.CancelCauseFunc
	timer  *time.Timer
	most   time.Duration // of one silence
	until  time.Time     // of an answer with signs of life
}

// listen gives up a request when nothing came for so long.
func listen(ctx context.Context, most time.Duration) (context.Context, *quiet) {
	ctx, cancel := context.WithCancelCause(ctx)
	q := &quiet{cancel: cancel}
	q.within(most)
	return ctx, q
}

func (q *quiet) within(most time.Duration) {
	q.most = most
	q.timer = time.AfterFunc(most, func() {
		q.cancel(fmt.Errorf("no answer within %v: %w", most.Round(time.Second), context.DeadlineExceeded))
	})
}

// beating is for an answer that comes with signs of life: one may be late by as much as
// the time between two.
func (q *quiet) beating(every, line time.Duration) {
	q.timer.Stop()
	q.until = time.Now().Add(wire.MaxFeedWait*time.Second + requestTimeout + line)
	q.within(2*every + line)
}

func (q *quiet) end() {
	q.timer.Stop()
	q.cancel(nil)
}

// lively reads an answer whose silences are bounded.
type lively struct {
	io.Reader
	quiet *quiet
}

func (l lively) Read(p []byte) (int, error) {
	n, err := l.Reader.Read(p)
	if n > 0 {
		l.quiet.timer.Reset(min(l.quiet.most, time.Until(l.quiet.until)))
	}
	return n, err
}

// beatOf is how often an answer gives a sign of life, 0 for never.
func beatOf(r *http.Response) time.Duration {
	n, err := strconv.Atoi(r.Header.Get(wire.HeaderBeat))
	if err != nil || n < 1 || n > wire.MaxFeedWait {
		return 0
	}
	return time.Duration(n) * time.Second
}

func (c *client) fetchText(ctx context.Context, q *quiet, method, path string, body []byte, kind string) ([]byte, error) {
	r, err := c.open(ctx, method, path, body, nil)
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	if got, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || got != kind {
		return nil, fmt.Errorf("%w: %s comes as %.40q, want %s: something stands between", ErrAnswer, path, r.Header.Get("Content-Type"), kind)
	}
	from := io.Reader(r.Body)
	if every := beatOf(r); every > 0 {
		c.beats.Store(true)
		q.beating(every, c.pace.line(0))
		from = lively{from, q}
	}
	text, err := io.ReadAll(io.LimitReader(from, wire.MaxAnswer+1))
	if err != nil {
		return nil, fmt.Errorf("%w: the answer of %s broke off after %d bytes: %w", ErrUnreachable, path, len(text), cause(ctx, err))
	}
	if len(text) > wire.MaxAnswer {
		return nil, fmt.Errorf("%w: %s gives more than %d bytes", ErrAnswer, path, wire.MaxAnswer)
	}
	return text, nil
}

// open sends a request and returns its 2xx answer, whose body the caller closes.
func (c *client) open(ctx context.Context, method, path string, body []byte, header http.Header) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, c.base.String()+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	for k, v := range header {
		r.Header[k] = v
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	id := fmt.Sprintf("%016x", rand.Uint64())
	r.Header.Set(wire.HeaderRequest, id)
	answer, err := c.http.Do(r)
	if err != nil {
		return nil, transportError(cause(ctx, err))
	}
	if err := c.echoed(answer, path, id); err != nil {
		_ = answer.Body.Close()
		return nil, err
	}
	if answer.StatusCode/100 == 2 {
		return answer, nil
	}
	defer answer.Body.Close()
	return nil, refusal(answer)
}

// echoed holds an answer's name against its request's. A central that never named any is
// an older one; after the first that did, an answer without a name is not central's.
func (c *client) echoed(r *http.Response, path, id string) error {
	got := r.Header.Get(wire.HeaderRequest)
	switch {
	case got == id:
		c.echoes.Store(true)
		return nil
	case got == "" && (r.StatusCode/100 != 2 || !c.echoes.Load()):
		return nil
	}
	return fmt.Errorf("%w: %s got the answer of another request (%.20q): something stands between", ErrAnswer, path, got)
}

// cause prefers what the context was ended for to the words of a closed connection.
func cause(ctx context.Context, err error) error {
	if why := context.Cause(ctx); why != nil {
		return why
	}
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err // without the URL, which every message names already
	}
	return err
}

// transportError tells a network that is down from a server that is not central.
func transportError(err error) error {
	var verify *tls.CertificateVerificationError
	var invalid x509.CertificateInvalidError
	var record tls.RecordHeaderError
	switch {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return fmt.Errorf("%w: %w: check the terminal's clock, then central's certificate", ErrNotCentral, err)
	case errors.Is(err, ErrNotPinned):
		return err
	case errors.As(err, &verify) && errors.As(err, new(x509.UnknownAuthorityError)):
		return fmt.Errorf("%w: %w: another server, or central has another CA since this terminal last spoke with it: then enrol it again (terminalctl enrol --again)", ErrNotCentral, err)
	case errors.As(err, &verify):
		return fmt.Errorf("%w: %w", ErrNotCentral, err)
	case errors.As(err, &record), errors.Is(err, http.ErrSchemeMismatch):
		return fmt.Errorf("%w: it does not speak TLS: check the address, a portal or proxy may stand between: %w", ErrNotCentral, err)
	case strings.Contains(err.Error(), "remote error: tls: expired certificate"), strings.Contains(err.Error(), "remote error: tls: unknown certificate authority"):
		return fmt.Errorf("%w: %w: %w", ErrNotCentral, errEnded, err)
	case strings.Contains(err.Error(), "remote error: tls"): // crypto/tls exports no type for the other side's alert
		// An alert comes unsigned, from whoever sits on the line: it suspends nobody.
		return fmt.Errorf("%w: the handshake was refused, check both clocks and the terminal's certificate: %w", ErrNotCentral, err)
	}
	return fmt.Errorf("%w: %w", ErrUnreachable, err)
}

// refusal reads an answer that is not 2xx.
func refusal(r *http.Response) error {
	out := &refused{status: r.StatusCode, after: retryAfter(r.Header.Get("Retry-After"))}
	text, err := io.ReadAll(io.LimitReader(r.Body, maxErrorBody))
	var e wire.Error
	if err == nil && json.Unmarshal(text, &e) == nil && e.Kind != "" {
		e.Text = clip(e.Text, 300)
		out.err = &e
		return out
	}
	out.err = fmt.Errorf("%w: it has no error of central but %s (%.40q): something stands between", ErrAnswer, excerpt(text), r.Header.Get("Content-Type"))
	if to := r.Header.Get("Location"); to != "" && r.StatusCode/100 == 3 {
		out.err = fmt.Errorf("%w: it sends us on to %.80q: a portal or proxy stands between", ErrAnswer, to)
	}
	return out
}

// retryAfter reads the header's seconds. A date is not obeyed: the clock may be wrong.
func retryAfter(text string) time.Duration {
	n, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil || n < 0 {
		return 0
	}
	return min(time.Duration(min(n, int(maxRetryAfter/time.Second)))*time.Second, maxRetryAfter)
}

// excerpt shows how an unexpected body begins.
func excerpt(text []byte) string {
	if len(text) == 0 {
		return "an empty body"
	}
	return fmt.Sprintf("%d bytes that begin with %q", len(text), clip(string(text), 60))
}

func clip(text string, n int) string {
	if len(text) > n {
		text = text[:n]
	}
	return strings.ToValidUTF8(text, "?")
}
