package uplink

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"grattoir/sync/uplink/faultproxy"
	"grattoir/sync/wire"
)

// behindProxy is a terminal and the real central, over TLS and real sockets, with a proxy
// in between. Its lanes are stepped by the test.
type behindProxy struct {
	*realLink
	proxy *faultproxy.Proxy
	lane  journal
}

func joinBehindProxy(t *testing.T) *behindProxy {
	t.Helper()
	r := joinReal(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: r.real.API(), ErrorLog: log.New(io.Discard, "", 0)}
	var done sync.WaitGroup
	done.Go(func() { _ = s.Serve(tls.NewListener(l, r.real.TLSConfig())) })
	t.Cleanup(func() { _ = s.Close(); done.Wait() })
	p := &behindProxy{realLink: r, proxy: faultproxy.New(t, l.Addr().String())}
	r.opt.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", p.proxy.Addr())
	}
	r.fake.t = t
	if r.uplink, err = New(r.opt); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.uplink.client().end)
	p.lane = journal{Uplink: r.uplink, at: -1, max: firstRun}
	return p
}

// anew makes the next exchange open a connection, with faults.
func (p *behindProxy) anew(f faultproxy.Faults) {
	p.uplink.client().close()
	p.proxy.Set(f)
}

// send steps the journal's lane until nothing is left, and says how often that failed.
func (p *behindProxy) send(t *testing.T) (failed int) {
	t.Helper()
	for range 20 {
		r, err := p.lane.step(t.Context())
		switch {
		case err != nil && !errors.Is(err, ErrUnreachable) && !errors.Is(err, ErrNotCentral) && !errors.Is(err, ErrAnswer):
			t.Fatal(err)
		case err != nil:
			failed++
			p.anew(faultproxy.Faults{}) // healed
		case !r.now:
			return failed
		}
	}
	t.Fatalf("still unsent after %d failures", failed)
	return failed
}

// lines are central's, in its order.
func (p *behindProxy) lines(t *testing.T) (list []string) {
	t.Helper()
	rows, err := p.real.Reader().QueryContext(t.Context(), "SELECT line FROM entries WHERE terminal = 'T-1' ORDER BY epoch, seq")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			t.Fatal(err)
		}
		list = append(list, line)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return list
}

// same checks that both ledgers hold the same, and that the terminal knows it.
func (p *behindProxy) same(t *testing.T) {
	t.Helper()
	mine, theirs := p.journal(), p.lines(t)
	if strings.Join(mine, "\n") != strings.Join(theirs, "\n") {
		t.Fatalf("%d entries here, %d at central, and not the same", len(mine), len(theirs))
	}
	if s := p.uplink.Status(); s.Unsent != 0 || s.Acked.Seq != int64(len(mine)) || s.Refused != "" {
		t.Fatalf("%d entries: %+v", len(mine), s)
	}
}

// stride is the distance between cuts: every byte in the long run.
func stride(short int64) int64 {
	if os.Getenv("GRATTOIR_SOAK") == "1" {
		return 1
	}
	return short
}

// TestSyncCutAtEveryByteEndsWithEqualLedgers cuts one upload, from the handshake's first
// byte to the answer's last, in both directions, closing and resetting; each is healed
// then. At every cut the acknowledgement is of what central has committed, nothing is
// lost and nothing is there twice.
func TestSyncCutAtEveryByteEndsWithEqualLedgers(t *testing.T) {
	t.Parallel()
	p := joinBehindProxy(t)
	p.pay(1)
	p.send(t)
	p.anew(faultproxy.Faults{})
	p.pay(1)
	p.send(t)
	up, down := p.proxy.Carried()
	cuts, failed := 0, 0
	for _, way := range []struct {
		name string
		size int64
		of   func(f *faultproxy.Faults) *faultproxy.Direction
	}{{"up", up, func(f *faultproxy.Faults) *faultproxy.Direction { return &f.Up }}, {"down", down, func(f *faultproxy.Faults) *faultproxy.Direction { return &f.Down }}} {
		for at := int64(0); at <= way.size; at += stride(41) {
			var f faultproxy.Faults
			*way.of(&f) = faultproxy.Direction{Act: faultproxy.Cut, After: at}
			if at%2 == 1 {
				way.of(&f).Act = faultproxy.Reset
			}
			p.anew(f)
			p.pay(1)
			cuts, failed = cuts+1, failed+min(1, p.send(t))
			head := p.ledger.Head()
			held, err := p.real.Terminal(t.Context(), "T-1")
			if acked, err2 := p.ledger.Acked(t.Context()); errors.Join(err, err2) != nil || held.Acked.Seq != head.Seq || acked != held.Acked {
				t.Fatalf("%s at byte %d: the ledger ends at %d, %+v is acknowledged, central holds %+v, %v %v", way.name, at, head.Seq, acked, held.Acked, err, err2)
			}
		}
	}
	p.same(t)
	t.Logf("an upload of one entry takes %d bytes up and %d down; %d cuts, %d of them felt", up, down, cuts, failed)
	if failed < cuts*9/10 {
		t.Errorf("only %d of %d cuts were felt", failed, cuts)
	}
}

// TestFirstMeetingCutAnywhereBringsTheBlock: hello, snapshot, descriptor and block, cut
// at any byte, and the block is whole, once.
func TestFirstMeetingCutAnywhereBringsTheBlock(t *testing.T) {
	t.Parallel()
	p := joinBehindProxy(t)
	meet := func() (failed int) {
		dir := t.TempDir()
		p.uplink.opt.Blocks.Dir = dir
		p.uplink.setSnapshot(nil)
		f := files{Uplink: p.uplink}
		for range 20 {
			_, err := p.uplink.hello(t.Context())
			if err == nil {
				_, err = f.step(t.Context())
			}
			if err == nil {
				s := p.uplink.Listed()[0]
				if err := hashesAt(dir, s); err != nil {
					t.Fatal(err)
				}
				<-p.blocks
				return failed
			}
			failed++
			p.anew(faultproxy.Faults{})
		}
		t.Fatal("it never came")
		return failed
	}
	p.anew(faultproxy.Faults{})
	meet()
	up, down := p.proxy.Carried()
	cuts, failed := 0, 0
	for at := int64(0); at < down; at += stride(down / 40) {
		p.anew(faultproxy.Faults{Down: faultproxy.Direction{Act: faultproxy.Cut, After: at}})
		cuts, failed = cuts+1, failed+min(1, meet())
	}
	for at := int64(0); at < up; at += stride(up / 25) {
		p.anew(faultproxy.Faults{Up: faultproxy.Direction{Act: faultproxy.Cut, After: at}})
		cuts, failed = cuts+1, failed+min(1, meet())
	}
	t.Logf("it takes %d bytes up and %d down; %d cuts, %d of them felt", up, down, cuts, failed)
	if failed < cuts*9/10 {
		t.Errorf("only %d of %d cuts were felt", failed, cuts)
	}
}

func hashesAt(dir string, b wire.Block) error {
	f, err := os.Open(dir + "/" + b.SHA256 + blockSuffix)
	if err != nil {
		return err
	}
	defer f.Close()
	return hashes(f, b)
}

// TestPortalOnTheWayIsNamedAndHealed: whatever answers before TLS, a portal, a proxy that
// refuses, one that closes, nothing is believed and everything comes when it is gone.
func TestPortalOnTheWayIsNamedAndHealed(t *testing.T) {
	p := joinBehindProxy(t)
	for name, c := range map[string]struct {
		faults faultproxy.Faults
		code   string
	}{
		"a portal's page":      {faultproxy.Faults{Portal: "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<html>Welcome"}, CodeNotCentral},
		"a portal's redirect":  {faultproxy.Faults{Portal: "HTTP/1.1 302 Found\r\nLocation: http://login.test/\r\n\r\n"}, CodeNotCentral},
		"an empty 204":         {faultproxy.Faults{Portal: "HTTP/1.1 204 No Content\r\n\r\n"}, CodeNotCentral},
		"a TLS alert":          {faultproxy.Faults{Portal: "\x15\x03\x03\x00\x02\x02\x28"}, CodeNotCentral},
		"closed before a byte": {faultproxy.Faults{Refuse: true}, CodeUnreachable},
	} {
		p.pay(1)
		p.anew(c.faults)
		before := p.uplink.Status().Acked
		_, err := p.lane.step(t.Context())
		if got := faultCode(err); err == nil || got != c.code || p.uplink.Status().Acked != before {
			t.Errorf("%s: %s %v", name, got, err)
		}
		p.anew(faultproxy.Faults{})
		p.send(t)
		p.same(t)
	}
}

// gate holds a direction back while it is closed, as TCP does: nothing is lost.
type gate struct {
	mu   sync.Mutex
	open chan struct{} // closed while bytes pass
}

func newGate() *gate {
	g := &gate{open: make(chan struct{})}
	close(g.open)
	return g
}

func (g *gate) set(open bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.open:
		if !open {
			g.open = make(chan struct{})
		}
	default:
		if open {
			close(g.open)
		}
	}
}

func (g *gate) pass() {
	g.mu.Lock()
	open := g.open
	g.mu.Unlock()
	<-open
}

type gated struct {
	net.Conn
	up, down *gate
}

func (g *gated) Write(b []byte) (int, error) { g.up.pass(); return g.Conn.Write(b) }
func (g *gated) Read(b []byte) (int, error) {
	n, err := g.Conn.Read(b)
	g.down.pass()
	return n, err
}

// TestShortPartitionsInEitherDirectionLeaveNothingUnsent: in, out or both for 0 to 10 s,
// for ten minutes; a minute and a half after the last everything is there.
func TestShortPartitionsInEitherDirectionLeaveNothingUnsent(t *testing.T) {
	bubble(t, func(t *testing.T, l *link) {
		up, down := newGate(), newGate()
		l.opt.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := l.net.Dial(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			return &gated{c, up, down}, nil
		}
		l.start()
		seq := int64(0)
		for i := range 60 {
			up.set(i%3 == 1)
			down.set(i%3 == 0)
			l.pay(1 + i%3)
			seq++
			l.update(func() { l.feed = append(l.feed, packActive(seq)) })
			pass(time.Duration(i*7919%10_001) * time.Millisecond)
			up.set(true)
			down.set(true)
			pass(time.Duration(i*104729%10_001) * time.Millisecond)
		}
		pass(90 * time.Second)
		l.equal()
		if s := l.uplink.Status(); s.Feed != seq || len(s.Faults) != 0 {
			t.Errorf("feed at %d of %d: %+v", s.Feed, seq, s.Faults)
		}
	})
}

// TestEverySecondRequestLostForAnHourLeavesNothingUnsent: at random, before or after
// central has done what was asked. Nothing new is written then, and an hour later nothing
// is unsent: no state but a timer's waits.
func TestEverySecondRequestLostForAnHourLeavesNothingUnsent(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, l *link) {
		n := uint64(1)
		l.spoil = func(w http.ResponseWriter, r *http.Request, body []byte) bool {
			l.mu.Lock() // every lane is spoilt
			n = n*6364136223846793005 + 1442695040888963407
			fate := n >> 33 % 4
			l.mu.Unlock()
			switch {
			case fate == 0:
				panic(http.ErrAbortHandler)
			case fate == 1 && r.URL.Path == wire.PathJournal:
				l.mu.Lock()
				l.upload(&swallow{}, body)
				l.mu.Unlock()
				panic(http.ErrAbortHandler)
			}
			return false
		}
		l.start()
		for range 60 {
			l.pay(3)
			pass(time.Minute)
		}
		pass(time.Hour)
		l.equal()
		if got := len(l.held()); got != 180 {
			t.Errorf("%d entries", got)
		}
	})
}
