package central

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"grattoir/sync/wire"
)

// maxPolls bounds the long polls that are held; above it one is answered at once, and the
// terminal asks again after a pause.
const maxPolls = 60_000

// lanes are the queues of the API, one for each kind of request, so that none keeps
// another waiting: whoever fetches blocks is in nobody's way who pays.
type lanes struct {
	claims, holds, journal, hello, feed, files, identities, enrol *lane
	polls                                                         atomic.Int64
}

func newLanes(width int) *lanes {
	return &lanes{claims: newLane(4 * width), // they wait for the owners of packs
		holds: newLane(width), journal: newLane(width), hello: newLane(width), feed: newLane(width), identities: newLane(min(width, 8)), enrol: newLane(min(width, 8)),
		files: newLane(4 * width)} // they wait for their terminals' lines most of the time
}

// lane lets so many requests work at one time, keeps the others in their order, and
// refuses those for which the queue is too long, each with a moment to come back.
type lane struct {
	mu    sync.Mutex
	adm   *Admission
	queue []chan struct{} // closed when its turn has come
}

func newLane(width int) *lane { return &lane{adm: NewAdmission(width)} }

// enter waits for a turn; leave ends it. The error is a *later, or ctx's.
func (l *lane) enter(ctx context.Context, terminal string, now func() time.Time) (leave func(), err error) {
	l.mu.Lock()
	verdict, after := l.adm.Arrive(terminal, now())
	if verdict == Refuse {
		l.mu.Unlock()
		return nil, &later{after}
	}
	if verdict == Wait {
		turn := make(chan struct{})
		l.queue = append(l.queue, turn)
		l.mu.Unlock()
		if err := l.wait(ctx, turn); err != nil {
			return nil, err
		}
	} else {
		l.mu.Unlock()
	}
	began := time.Now()
	return sync.OnceFunc(func() { l.done(time.Since(began)) }), nil
}

// wait is until the turn has come. Whoever leaves the queue leaves its place to the next.
func (l *lane) wait(ctx context.Context, turn chan struct{}) error {
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	l.mu.Lock()
	for i, c := range l.queue {
		if c == turn {
			l.queue = append(l.queue[:i], l.queue[i+1:]...)
			l.adm.Leave()
			l.mu.Unlock()
			return context.Cause(ctx)
		}
	}
	l.mu.Unlock()
	l.done(0) // its turn came at the same moment
	return context.Cause(ctx)
}

func (l *lane) done(took time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.adm.Done(took)
	for l.adm.Free() {
		l.adm.Begin()
		close(l.queue[0])
		l.queue = l.queue[1:]
	}
}

// later refuses a request for now.
type later struct{ after time.Duration }

func (l *later) Error() string { return fmt.Sprintf("the queue is full, come back in %v", l.after) }

// in lets requests through a lane. Whoever asks is known by the certificate of the
// connection, before any table is read: refusing must be cheap.
func (c *Central) in(l *lane, serve http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		leave, err := l.enter(r.Context(), nameOf(r), c.opt.Now)
		if err != nil {
			c.fail(w, r, err)
			return
		}
		defer leave()
		serve(w, r)
	}
}

func nameOf(r *http.Request) string {
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		return r.TLS.PeerCertificates[0].Subject.CommonName
	}
	host, _, _ := net.SplitHostPort(r.RemoteAddr)
	return host
}

// poll is how long a long poll may be held: not at all above so many.
func (l *lanes) poll(wait time.Duration) (time.Duration, func()) {
	if l.polls.Add(1) > maxPolls {
		wait = 0
	}
	return wait, func() { l.polls.Add(-1) }
}

// audiences are whom the newest items of the feed concern, so that an item wakes all
// polls and only those ask the tables that it is for.
type audiences struct {
	mu    sync.Mutex
	from  int64 // items up to here are not known
	to    int64 // up to here they are
	items []audience
}

type audience struct {
	seq      int64
	terminal string
}

const maxAudiences = 4096

// concerns tells whether an item after a cursor may be for a terminal.
func (c *Central) concerns(ctx context.Context, terminal string, after int64) (bool, error) {
	a := &c.heard
	a.mu.Lock()
	defer a.mu.Unlock()
	for had := int64(-1); c.feed.last() > a.to && a.to > had; {
		had = a.to
		if err := a.read(ctx, c.store); err != nil {
			return false, err
		}
	}
	if after < a.from {
		return true, nil
	}
	for i := len(a.items) - 1; i >= 0 && a.items[i].seq > after; i-- {
		if t := a.items[i].terminal; t == terminal || t == everyone {
			return true, nil
		}
	}
	return false, nil
}

// read takes in the items that came since. Numbers become visible in their order, so none
// is stepped over.
func (a *audiences) read(ctx context.Context, s store) error {
	rows, err := s.reader().QueryContext(ctx, "SELECT seq, audience FROM feed WHERE seq > $1 ORDER BY seq LIMIT $2", a.to, maxAudiences)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var item audience
		if err := rows.Scan(&item.seq, &item.terminal); err != nil {
			return err
		}
		a.items, a.to = append(a.items, item), item.seq
	}
	if over := len(a.items) - maxAudiences; over > 0 {
		a.from = a.items[over-1].seq
		a.items = append([]audience(nil), a.items[over:]...)
	}
	return rows.Err()
}

// refuseLater is a lane's refusal as it goes over the wire.
func refuseLater(l *later) *wire.Error {
	return wireError(wire.KindBusy, "central is busy, come back in %v", l.after)
}
