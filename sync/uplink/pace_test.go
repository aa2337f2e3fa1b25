package uplink

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"grattoir/sync/wire"
)

// modem is a line that carries so many bytes a second in each direction, shared by all
// connections over it.
type modem struct {
	net      *pipes
	up, down bucket
}

type bucket struct {
	mu   sync.Mutex
	rate int // bytes a second
	free time.Time
}

// pass takes the time that n bytes need, behind those that are on their way already.
func (b *bucket) pass(n int) { <-time.After(b.book(n)) } // fake time

// book says when n bytes will have passed.
func (b *bucket) book(n int) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if b.free.Before(now) {
		b.free = now
	}
	b.free = b.free.Add(time.Duration(n) * time.Second / time.Duration(b.rate))
	return b.free.Sub(now)
}

func (m *modem) set(rate int) {
	for _, b := range []*bucket{&m.up, &m.down} {
		b.mu.Lock()
		b.rate = rate
		b.mu.Unlock()
	}
}

func (m *modem) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := m.net.Dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &slow{c, m}, nil
}

type slow struct {
	net.Conn
	m *modem
}

const (
	packet = 64
	// farewell is the most that a TLS connection says when it is closed. A system's buffer
	// takes it at once; net/http closes idle ones with a lock held on which the bubble's time
	// would wait for ever.
	farewell = 32
)

func (s *slow) Write(b []byte) (n int, err error) {
	if len(b) <= farewell {
		s.m.up.book(len(b))
		return s.Conn.Write(b)
	}
	for len(b) > 0 && err == nil {
		k := min(len(b), packet)
		s.m.up.pass(k)
		k, err = s.Conn.Write(b[:k])
		b, n = b[k:], n+k
	}
	return n, err
}

func (s *slow) Read(b []byte) (int, error) {
	n, err := s.Conn.Read(b[:min(len(b), packet)])
	s.m.down.pass(n)
	return n, err
}

// TestLineOf1200BaudCarriesTheJournalAndAGoodOneCarriesItFast: all lanes share 150 bytes a
// second. Uploads shrink until they come through, and nothing counts as sent before.
// When the line is good again they grow to the most that one may carry.
func TestLineOf1200BaudCarriesTheJournalAndAGoodOneCarriesItFast(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, l *link) {
		l.publish(noise(50_000)) // the files' lane wants the line too
		m := &modem{net: l.net}
		m.set(150)
		l.opt.Dial = m.Dial
		var sizes []int
		l.spoil = func(_ http.ResponseWriter, r *http.Request, body []byte) bool {
			var u wire.Upload
			if r.URL.Path == wire.PathJournal && json.Unmarshal(body, &u) == nil {
				sizes = append(sizes, len(u.Lines))
			}
			return false
		}
		t.Cleanup(func() { pass(10 * time.Minute) }) // what is on the line arrives, before the other end is taken down
		l.pay(60)
		l.start()
		reached := time.Duration(0)
		for reached < 2*time.Hour && l.uplink.Status().Unsent > 0 {
			pass(time.Minute)
			reached += time.Minute
			if held := int64(len(l.held())); l.uplink.Status().Acked.Seq > held {
				t.Fatalf("acknowledged up to %d, central holds %d", l.uplink.Status().Acked.Seq, held)
			}
		}
		t.Logf("60 entries at 150 bytes/s took %v, in uploads of %v", reached, sizes)
		l.equal()
		if reached > time.Hour {
			t.Errorf("it took %v", reached)
		}
		for _, n := range sizes {
			if n > 25 {
				t.Errorf("an upload of %d entries came through whole", n)
			}
		}
		m.set(1 << 20)
		sizes = nil
		l.pay(480)
		pass(10 * time.Minute)
		l.equal()
		if n := slices.Max(sizes); n < wire.MaxEntries*3/4 {
			t.Errorf("on a good line uploads carry %v", sizes)
		}
	})
}

// TestSilentLineIsNotTakenForASlowOne: where nobody is reached nothing is learnt of the line.
func TestSilentLineIsNotTakenForASlowOne(t *testing.T) {
	bubble(t, func(t *testing.T, l *link) {
		l.opt.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		l.pay(3)
		l.start()
		pass(time.Hour)
		if rate := l.uplink.client().pace.believed(); rate != paceStart {
			t.Errorf("believed to carry %v bytes/s", rate)
		}
	})
}

// TestAnswerOfAnotherRequestIsNotBelieved: one that lay in a connection from before, or
// in a cache; also an upload's own, of a moment ago, played again.
func TestAnswerOfAnotherRequestIsNotBelieved(t *testing.T) {
	for name, header := range map[string]string{"another's name": "0123456789abcdef", "no name": ""} {
		bubble(t, func(t *testing.T, l *link) {
			l.pay(1)
			l.start()
			pass(time.Second)
			l.equal()
			spoil := only(wire.PathHello, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Del(wire.HeaderRequest)
				if header != "" {
					w.Header().Set(wire.HeaderRequest, header)
				}
				fmt.Fprint(w, `{"protocol":1,"time":"2000-01-01T00:00:00.000Z","acked":{"epoch":1,"seq":0,"hash":""},"snapshot":9,"feed":0,"region":"bzh"}`)
			})
			l.update(func() { l.spoil = spoil })
			pass(3 * time.Minute)
			if f := l.fault(LaneHello); f.Code != CodeAnswer || !strings.Contains(f.Text, "another request") || l.uplink.Region() != "" {
				t.Errorf("%s: fault %+v, region %q", name, f, l.uplink.Region())
			}
		})
	}
}

// TestCentralThatNamesNoRequestIsAnOlderOne and is spoken with.
func TestCentralThatNamesNoRequestIsAnOlderOne(t *testing.T) {
	var c client
	r := func(status int, name string) *http.Response {
		w := httptest.NewRecorder()
		if name != "" {
			w.Header().Set(wire.HeaderRequest, name)
		}
		w.WriteHeader(status)
		return w.Result()
	}
	for _, step := range []struct {
		status int
		name   string
		ok     bool
	}{{200, "", true}, {200, "x", false}, {503, "x", false}, {200, "a", true}, {200, "", false}, {502, "", true}, {200, "a", true}} {
		if err := c.echoed(r(step.status, step.name), "/v1/feed", "a"); (err == nil) != step.ok {
			t.Errorf("%+v: %v", step, err)
		}
	}
}

// TestAnswerOfAnotherKindIsNotBelieved: what a proxy gives for a page, whatever is in it.
func TestAnswerOfAnotherKindIsNotBelieved(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"text/html", "text/plain", "", "application/jsonx", ";"} {
		bubble(t, func(t *testing.T, l *link) {
			l.spoil = func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
				if r.URL.Path == wire.PathSnapshot && kind == "text/plain" {
					kind = "text/html"
				}
				w.Header().Set("Content-Type", kind)
				return false
			}
			l.publish(noise(100))
			l.pay(2)
			l.start()
			pass(30 * time.Second)
			if s := l.uplink.Status(); s.Acked.Seq != 0 || s.Snapshot != 0 || s.Feed != 0 {
				t.Errorf("%q: %+v", kind, s)
			}
			for _, lane := range []Lane{LaneJournal, LaneHello} {
				if f := l.fault(lane); f.Code != CodeAnswer || !strings.Contains(f.Text, "something stands between") {
					t.Errorf("%q: %+v", kind, f)
				}
			}
			l.update(func() { l.spoil = nil })
			pass(3 * time.Minute)
			l.equal()
		})
	}
}

// TestSlotIsWaitedInFullAndHardlyLonger: whoever failed long before comes at its slot all
// the same, and a central that only ever gives slots is asked at longer and longer ones.
func TestSlotIsWaitedInFullAndHardlyLonger(t *testing.T) {
	var b Backoff
	for range 20 {
		b.Next(0, time.Minute, 0.99)
	}
	const slot = 40 * time.Second
	if d := b.Next(slot, time.Minute, 0.99); d < slot || d > slot+retryBase {
		t.Errorf("the first slot is waited %v", d)
	}
	for range 20 {
		b.Next(slot, time.Minute, 0.99)
	}
	if d := b.Next(slot, time.Minute, 0.99); d < slot+50*time.Second || d > slot+time.Minute {
		t.Errorf("the 22nd is waited %v", d)
	}
	if d := b.Next(0, time.Minute, 0.99); d > retryBase {
		t.Errorf("then a cut: %v", d)
	}
	b.Reset()
	if d := b.Next(slot, time.Minute, 0); d != slot {
		t.Errorf("%v", d)
	}
}
