package central

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"grattoir/sync/ledger"
	"grattoir/sync/uplink/memnet"
	"grattoir/sync/wire"
	"grattoir/validate/manifest"
)

// served is one life of a central that others begin and end while its terminals work.
type served struct {
	c      *Central
	server *http.Server
	ended  chan error
	dial   func(context.Context) (net.Conn, error)
}

func serveLife(t *testing.T, opt Options) *served {
	t.Helper()
	c, err := Open(context.Background(), opt)
	if err != nil {
		t.Fatal(err)
	}
	l := memnet.Listen()
	s := &served{c: c, server: &http.Server{Handler: c.API(), ErrorLog: log.New(io.Discard, "", 0)}, ended: make(chan error, 1),
		dial: func(ctx context.Context) (net.Conn, error) { return l.Dial(ctx) }}
	go func() { s.ended <- s.server.Serve(tls.NewListener(l, c.TLSConfig())) }()
	return s
}

// kill ends every connection, whatever it carries, and the program.
func (s *served) kill(t *testing.T) {
	t.Helper()
	_ = s.server.Close()
	<-s.ended
	if err := s.c.Close(); err != nil {
		t.Fatal(err)
	}
}

// try asks over a line that may break.
func (d *device) try(ctx context.Context, method, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, method, "https://localhost"+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := d.client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		e := &wire.Error{}
		return errors.Join(json.Unmarshal(text, e), e)
	}
	return json.Unmarshal(text, out)
}

// busyShop is a terminal that does all at once, and tries each thing until it is done.
type busyShop struct {
	*device
	asks    []wire.ClaimRequest
	mu      sync.Mutex
	answers map[string]wire.ClaimAnswer // the first final one of each id
	final   *atomic.Int64               // of all shops
}

// again repeats something until it works or ctx ends.
func again(ctx context.Context, what func() error) {
	for what() != nil {
		select {
		case <-ctx.Done():
			return
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// own answers the holds that the feed brings.
func (s *busyShop) own(ctx context.Context, t *testing.T) {
	for cursor := int64(0); ctx.Err() == nil; {
		again(ctx, func() error {
			var f wire.Feed
			if err := s.try(ctx, http.MethodGet, fmt.Sprintf("%s?after=%d&wait=5", wire.PathFeed, cursor), nil, &f); err != nil {
				return err
			}
			for _, item := range f.Items {
				if item.Hold != nil {
					if err := s.try(ctx, http.MethodPost, wire.PathHolds, s.gives(t, item, 0), new(wire.HoldAnswer)); err != nil {
						return err
					}
				}
				cursor = item.Seq
			}
			return nil
		})
	}
}

// ask asks about one claim until it has a final answer, which must be the first one.
func (s *busyShop) ask(ctx context.Context, t *testing.T, q wire.ClaimRequest) {
	again(ctx, func() error {
		var a wire.ClaimAnswer
		if err := s.try(ctx, http.MethodPost, wire.PathClaim, q, &a); err != nil {
			return err
		}
		if a.State == wire.ClaimPending {
			return errors.New("not yet")
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if first, had := s.answers[q.Claim]; !had {
			s.answers[q.Claim] = a
			s.final.Add(1)
		} else if !reflect.DeepEqual(a, first) {
			t.Errorf("%s: claim %s was answered %+v, then %+v", s.name, q.Claim, first, a)
		}
		return nil
	})
}

// send uploads the journal in runs of three.
func (s *busyShop) upload(ctx context.Context, t *testing.T) {
	for from := int64(1); from <= int64(len(s.lines)); from += 3 {
		u := s.device.upload(t, from, min(from+2, int64(len(s.lines))))
		again(ctx, func() error { return s.try(ctx, http.MethodPost, wire.PathJournal, u, new(wire.UploadAnswer)) })
	}
}

// TestRestartsUnderLoadLoseNothingAndChangeNoAnswer: central is killed and started again,
// several times, while terminals ask about each other's tickets, hold their own and send
// their journals. Each claim has one answer for ever, every entry is there once, and what
// was allowed is credited.
func TestRestartsUnderLoadLoseNothingAndChangeNoAnswer(t *testing.T) {
	const shops, claims, restarts = 4, 5, 4
	w := newWorldOf(t, "", 600, []manifest.Tier{{Count: 2, Amount: 20000}, {Count: 298, Amount: 2000}}) // its own central is the operations' tool beside the server
	opt := Options{Dir: w.opt.Dir, Now: w.clock.now, AllowanceClaims: 50, AllowanceMinor: 100000}
	var list []*busyShop
	var final atomic.Int64
	for i := range uint32(shops) {
		s := &busyShop{device: w.enrolled(t, fmt.Sprintf("T-%d", i)), answers: map[string]wire.ClaimAnswer{}, final: &final}
		w.give(t, s.name, 10+2*i, 11+2*i)
		for range 30 {
			s.record(t, "test", struct{}{})
		}
		list = append(list, s)
	}
	bodies := map[string]ledger.ClaimBody{}
	for i, s := range list {
		next := uint32(10 + 2*((i+1)%shops)) // another shop's packs
		for k, won := range w.winners(next, next+1)[:claims] {
			body := s.wanted(t, won, 100*(i+1)+k, 0)
			bodies[body.Claim] = body
			s.asks = append(s.asks, request(body))
		}
	}
	var life atomic.Pointer[served]
	life.Store(serveLife(t, opt))
	w.dial = func(ctx context.Context) (net.Conn, error) { return life.Load().dial(ctx) }
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	owning, done := context.WithCancel(ctx)
	var owners, busy sync.WaitGroup
	for _, s := range list {
		owners.Go(func() { s.own(owning, t) })
		busy.Go(func() { s.upload(ctx, t) })
		for _, q := range s.asks {
			busy.Go(func() { s.ask(ctx, t, q) })
		}
	}
	for n := range int64(restarts) {
		waitFor(t, func() bool { return final.Load() >= n*shops*claims/restarts+1 || ctx.Err() != nil })
		life.Load().kill(t)
		life.Store(serveLife(t, opt))
	}
	busy.Wait()
	done()
	owners.Wait()
	for _, s := range list {
		for _, q := range s.asks {
			s.ask(ctx, t, q) // once more
			if a := s.answers[q.Claim]; a.State != wire.ClaimApproved {
				t.Errorf("%s: claim %s: %+v", s.name, q.Claim, a)
			}
			body := bodies[q.Claim]
			body.OwnerEpoch = s.answers[q.Claim].OwnerEpoch
			s.record(t, ledger.KindClaim, body)
		}
		if _, a := s.send(t, 31, int64(len(s.lines))); len(a.Exceptions) != 0 {
			t.Errorf("%s: %+v", s.name, a.Exceptions)
		}
	}
	life.Load().kill(t)
	for query, want := range map[string]int{
		"SELECT count(*) FROM claims":                                            shops * claims,
		"SELECT count(*) FROM reservations":                                      shops * claims,
		"SELECT count(*) FROM online_claims WHERE state = 'approved'":            shops * claims,
		"SELECT count(*) FROM holds WHERE state = 'held'":                        shops * claims,
		"SELECT count(*) FROM conflicts WHERE kind <> 'unknown-kind'":            0,
		"SELECT count(*) FROM entries":                                           shops * (30 + claims),
		"SELECT max(seq) - count(*) FROM feed":                                   0,
		"SELECT count(*) FROM terminals WHERE ack_seq <> 35 AND name LIKE 'T-%'": 0,
	} {
		if n := w.count(t, query); n != want {
			t.Errorf("%d, want %d: %s", n, want, strings.TrimPrefix(query, "SELECT "))
		}
	}
}
