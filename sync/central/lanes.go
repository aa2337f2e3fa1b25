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
	return sync.OnceFunc(func() {
		ended := time.Now()
		l.next(func() { l.adm.Done(ended.Sub(began), ended) })
	}), nil
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
	l.next(l.adm.Gone) // its turn came at the same moment
	return context.Cause(ctx)
}

// next counts one out and lets in who may begin.
func (l *lane) next(out func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	out()
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

// refuseLater is a lane's refusal as it goes over the wire.
func refuseLater(l *later) *wire.Error {
	return wireError(wire.KindBusy, "central is busy, come back in %v", l.after)
}
