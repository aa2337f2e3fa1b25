package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"

	"grattoir/sync/central"
	"grattoir/sync/uplink/memnet"
	"grattoir/sync/wire"
)

// roads are the network between a fleet's terminals and central. A request takes its time
// and may be lost, its answer too; it may arrive twice, the second time much later. What
// happens to a request follows from the seed, the terminal, the path and how many were sent
// there before, so two runs of one seed see the same, and no two messages arrive at one
// moment, so they see it in the same order.
type roads struct {
	f *fleet

	mu      sync.Mutex
	central *memnet.Listener     // nil while central is down
	down    map[string]time.Time // links that are cut, until when; "" is everybody's
	rough   map[string]time.Time // links on which much is lost, until when
	carried map[string]map[*memnet.Conn]bool
	sent    map[string]uint64 // requests by terminal and path

	requests, lost, twice int
}

func newRoads(f *fleet) *roads {
	return &roads{f: f, down: map[string]time.Time{}, rough: map[string]time.Time{}, carried: map[string]map[*memnet.Conn]bool{}, sent: map[string]uint64{}}
}

// number is a number that follows from the seed and a text.
func number(seed uint64, text string) uint64 {
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%d %s", seed, text)
	return h.Sum64()
}

// dice are those of a text.
func dice(seed uint64, text string) *mathrand.Rand {
	return mathrand.New(mathrand.NewPCG(seed, number(seed, text)))
}

// listen gives central's end, in place of an earlier one.
func (r *roads) listen() net.Listener {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.central = memnet.Listen()
	return r.central
}

// lane is a connection with the name of its terminal.
type lane struct {
	net.Conn
	from string
}

// dialer connects one life of a terminal's program, until the power goes.
func (r *roads) dialer(p *life) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		r.mu.Lock()
		central := r.central
		if central == nil || p.dead.Load() || time.Now().Before(r.down[p.shop.name]) || time.Now().Before(r.down[""]) {
			r.mu.Unlock()
			return nil, errDown
		}
		near, far := memnet.Pipe()
		if r.carried[p.shop.name] == nil {
			r.carried[p.shop.name] = map[*memnet.Conn]bool{}
		}
		r.carried[p.shop.name][near] = true
		r.mu.Unlock()
		return near, central.Offer(ctx, lane{far, p.shop.name})
	}
}

// cut breaks what a terminal's link carries now; "" is everybody's.
func (r *roads) cut(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for from, conns := range r.carried {
		if name == "" || name == from {
			for c := range conns {
				c.Cut()
			}
			delete(r.carried, from)
		}
	}
}

// partition cuts a link for a time.
func (r *roads) partition(name string, d time.Duration) {
	r.mu.Lock()
	r.down[name] = time.Now().Add(d)
	r.mu.Unlock()
	r.cut(name)
}

func (r *roads) spoil(name string, d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rough[name] = time.Now().Add(d)
}

// mend ends every trouble of the network.
func (r *roads) mend() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.down)
	clear(r.rough)
}

// from tells which terminal a server's connection belongs to.
func from(ctx context.Context) string {
	name, _ := ctx.Value(laneKey{}).(string)
	return name
}

type laneKey struct{}

// fate is what becomes of one request.
type fate struct {
	there, back             time.Duration
	lostRequest, lostAnswer bool
	reset                   bool // rather than silence
	again                   bool // it arrives twice
	later                   time.Duration
}

func (r *roads) fate(name, path string) fate {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := name + " " + path
	r.sent[key]++
	r.requests++
	d := dice(r.f.seed, fmt.Sprint("road ", key, " ", r.sent[key]))
	chance := 0.004
	if !r.f.still.Load() && time.Now().Before(r.rough[name]) {
		chance = 0.08
	}
	if r.f.still.Load() {
		chance = 0
	}
	ms := func(low, high float64) time.Duration {
		return time.Duration((low + d.Float64()*(high-low)) * float64(time.Millisecond))
	}
	x := fate{there: ms(8, 120), back: ms(8, 120), lostRequest: d.Float64() < chance, lostAnswer: d.Float64() < chance, reset: d.IntN(2) == 0, again: d.Float64() < 2*chance}
	if d.Float64() < chance {
		x.there, x.back = ms(1000, 9000), ms(1000, 9000)
	}
	if x.later = ms(0, 500); d.IntN(2) == 0 {
		x.later = ms(500, 20*60*1000)
	}
	if x.lostRequest || x.lostAnswer {
		r.lost++
	}
	if x.again {
		r.twice++
	}
	return x
}

// travel is the way to central's handler and back.
func (r *roads) travel(c *central.Central) http.Handler {
	arrived := r.f.handler(c)
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		path, _, _ := strings.Cut(strings.TrimPrefix(q.URL.Path, "/v1/"), "/")
		path = "/v1/" + path
		name := from(q.Context())
		x := r.fate(name, path)
		r.f.note(name+path, "%s", q.URL)
		body, err := io.ReadAll(io.LimitReader(q.Body, wire.MaxUpload+1))
		if err != nil || !passes(q.Context(), x.there) {
			panic(http.ErrAbortHandler) // as net/http wants it: the connection ends with no answer
		}
		r.f.checkRequest(name, path, body)
		if x.lostRequest {
			drop(q, x.reset)
		}
		r.f.standing.RLock() // central does not go under our hands
		if r.f.central != c {
			r.f.standing.RUnlock()
			panic(http.ErrAbortHandler)
		}
		first := &answering{ResponseRecorder: httptest.NewRecorder(), near: w}
		serveAgain(arrived, first, q, body)
		r.f.standing.RUnlock()
		if x.again && q.Context().Err() == nil && r.f.replayable(path) {
			r.f.replay(name, q, body, first.ResponseRecorder, x.later)
		}
		if !passes(q.Context(), x.back) {
			panic(http.ErrAbortHandler)
		}
		if x.lostAnswer {
			drop(q, x.reset)
		}
		first.deliver()
	})
}

// answering keeps an answer until it has travelled. Signs of life go on at once.
type answering struct {
	*httptest.ResponseRecorder
	near http.ResponseWriter
	sent int // bytes
}

func (a *answering) Flush() {
	a.deliver()
	_ = http.NewResponseController(a.near).Flush()
}

func (a *answering) deliver() {
	if a.sent == 0 {
		for k, v := range a.Header() {
			a.near.Header()[k] = v
		}
		a.near.WriteHeader(a.Code)
	}
	n, _ := a.near.Write(a.Body.Bytes()[a.sent:])
	a.sent += n
}

// drop ends a request with no answer: at once, or when the terminal has waited long enough.
// A read that is reset at once would be repeated by net/http itself.
func drop(q *http.Request, reset bool) {
	if !reset || q.Method != http.MethodPost {
		<-q.Context().Done()
	}
	panic(http.ErrAbortHandler)
}

// passes waits, and tells whether the connection still stands.
func passes(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func arrive(h http.Handler, q *http.Request, body []byte) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	serveAgain(h, w, q, body)
	return w
}

func serveAgain(h http.Handler, w http.ResponseWriter, q *http.Request, body []byte) {
	again := q.Clone(q.Context())
	again.Body = io.NopCloser(bytes.NewReader(body))
	h.ServeHTTP(w, again)
}

// replayable tells for which requests an answer to a repetition is compared. A hello is a
// report; a feed's and a file's answers are compared by the terminal's own checks.
func (f *fleet) replayable(path string) bool {
	return path == wire.PathJournal || path == wire.PathFeed
}

// replay lets a request arrive once more, at once or later, and holds the answer against
// the first (invariant 8).
func (f *fleet) replay(name string, q *http.Request, body []byte, first *httptest.ResponseRecorder, later time.Duration) {
	again := q.Clone(context.WithoutCancel(q.Context()))
	restores := f.truth.putBacks()
	f.spawn(func() {
		if !passes(f.ctx, later) {
			return
		}
		f.standing.RLock() // central does not go under our hands
		defer f.standing.RUnlock()
		c := f.central
		if c == nil || f.truth.putBacks() != restores {
			return // central has forgotten the first
		}
		if h := f.plant.beforeReplay; h != nil {
			h(f)
		}
		if again.Method == http.MethodGet {
			u := *again.URL
			u.RawQuery = strings.Replace(u.RawQuery, "wait=", "was=", 1) // nobody waits for this answer
			again.URL = &u
		}
		before := f.rows()
		second := arrive(f.handler(c), again, body)
		f.sameAnswer(name, again, first, second, before, f.rows())
	})
}

func (f *fleet) sameAnswer(name string, q *http.Request, first, second *httptest.ResponseRecorder, before, after [3]int) {
	if first.Code != http.StatusOK || second.Code != http.StatusOK || first.Body.Len() == 0 {
		return // the terminal had left, or was refused: what central holds may have moved on since, and a refusal changes nothing
	}
	if before != after {
		f.breach(8, "%s: %s repeated changed central's rows from %v to %v", name, q.URL, before, after)
	}
	switch q.Method + q.URL.Path {
	case "POST" + wire.PathJournal:
		if !bytes.Equal(first.Body.Bytes(), second.Body.Bytes()) {
			f.breach(8, "%s: an upload repeated got another answer than at first:\n%.300s\n%.300s", name, first.Body, second.Body)
		}
	case "GET" + wire.PathFeed:
		var a, b wire.Feed
		if json.Unmarshal(first.Body.Bytes(), &a) != nil || json.Unmarshal(second.Body.Bytes(), &b) != nil || len(b.Items) < len(a.Items) {
			f.breach(8, "%s: the feed repeated has lost items: %d of %.300s are %.300s", name, len(a.Items), first.Body, second.Body)
			return
		}
		for i := range a.Items {
			x, _ := json.Marshal(a.Items[i])
			if y, _ := json.Marshal(b.Items[i]); !bytes.Equal(x, y) {
				f.breach(8, "%s: the feed repeated has another item %d", name, a.Items[i].Seq)
			}
		}
	}
}

// checkRequest holds a request against the protocol's bounds (invariant 13).
func (f *fleet) checkRequest(name, path string, body []byte) {
	limit := wire.MaxRequest
	if path == wire.PathJournal {
		limit = wire.MaxUpload
		var u wire.Upload
		if err := json.Unmarshal(body, &u); err == nil && len(u.Lines) > wire.MaxEntries {
			f.breach(13, "%s uploads %d lines, at most %d", name, len(u.Lines), wire.MaxEntries)
		}
	}
	if len(body) > limit {
		f.breach(13, "%s sends %d bytes to %s, at most %d", name, len(body), path, limit)
	}
}

// rows counts what central holds: a repetition must change none of it.
func (f *fleet) rows() (n [3]int) {
	f.must(f.central.Reader().QueryRow("SELECT (SELECT count(*) FROM entries), (SELECT count(*) FROM claims), (SELECT count(*) FROM conflicts)").Scan(&n[0], &n[1], &n[2]))
	return n
}
