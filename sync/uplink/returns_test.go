package uplink

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"grattoir/sync/central"
	"grattoir/sync/wire"
)

// restartable is the real central on a port of the loopback, over TLS, that can be killed
// with every connection at once and started again on the same folder and port.
type restartable struct {
	dir    string
	addr   string
	c      *central.Central
	server *http.Server
	done   sync.WaitGroup
	open   *atomic.Int64 // connections of the present run
	polls  *atomic.Int64 // long polls that it holds
	busy   atomic.Int64  // answers with 503
}

func (r *restartable) start(t *testing.T) {
	t.Helper()
	var err error
	if r.c, err = central.Open(t.Context(), central.Options{Dir: r.dir, Hosts: []string{"central.test"}, AllowanceClaims: 500}); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", r.addr)
	if err != nil {
		t.Fatal(err)
	}
	if r.open == nil {
		r.addr = l.Addr().String()
	}
	open, polls := new(atomic.Int64), new(atomic.Int64)
	r.open, r.polls = open, polls
	api := r.c.API()
	r.server = &http.Server{ErrorLog: log.New(io.Discard, "", 0), Handler: http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path == wire.PathFeed {
			polls.Add(1)
			defer polls.Add(-1)
		}
		api.ServeHTTP(&statusCount{w, &r.busy}, q)
	}), ConnState: func(_ net.Conn, s http.ConnState) {
		switch s {
		case http.StateNew:
			open.Add(1)
		case http.StateClosed:
			open.Add(-1)
		}
	}}
	r.done.Go(func() { _ = r.server.Serve(tls.NewListener(l, r.c.TLSConfig())) })
}

type statusCount struct {
	http.ResponseWriter
	busy *atomic.Int64
}

func (s *statusCount) WriteHeader(status int) {
	if status == http.StatusServiceUnavailable {
		s.busy.Add(1)
	}
	s.ResponseWriter.WriteHeader(status)
}

// kill ends every connection at once, whatever it is doing, and the program with it.
func (r *restartable) kill(t *testing.T) {
	t.Helper()
	_ = r.server.Close()
	r.done.Wait()
	if err := r.c.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestFleetReturnsAfterItsConnectionsWereDroppedAtOnce: central is killed under load, with
// all connections, and comes back, twice. Every terminal comes back by itself, and every
// entry is there once. The whole run, GRATTOIR_SOAK=1, has 2 000 connections of 1 000
// terminals: two files for each, and as many for their far ends, so a limit of 5 000.
func TestFleetReturnsAfterItsConnectionsWereDroppedAtOnce(t *testing.T) {
	t.Parallel()
	terminals := 60
	if os.Getenv("GRATTOIR_SOAK") == "1" {
		terminals = 1000
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || limit.Cur < uint64(5*terminals) {
		t.Fatalf("%d files may be open, this test needs %d: raise it with ulimit -n; %v", limit.Cur, 5*terminals, err)
	}
	dir := t.TempDir()
	r := &restartable{dir: filepath.Join(dir, "central"), addr: "127.0.0.1:0"}
	r.start(t)
	moved := make(chan struct{}, 1)
	var papers []*paper
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	t.Cleanup(func() { stop(); running.Wait(); r.kill(t) })
	var enrolled sync.WaitGroup
	slots := make(chan struct{}, 8)
	for i := range terminals {
		name := fmt.Sprintf("T-%04d", i)
		p := newPaper(name, func() { signal(moved) })
		papers = append(papers, p)
		enrolled.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			u, err := r.newcomer(ctx, dir, p)
			if err != nil {
				t.Error(err)
				return
			}
			running.Go(func() { _ = u.Run(ctx) })
		})
	}
	if enrolled.Wait(); t.Failed() {
		t.FailNow()
	}
	record := func() {
		for _, p := range papers {
			p.record(t, 2)
		}
	}
	all := func() bool { return r.polls.Load() >= int64(terminals) }
	record()
	settle(t, moved, papers, all)
	for range 2 {
		record() // while each has a poll on one connection: the journal takes another
		settle(t, moved, papers, func() bool { return all() && r.open.Load() >= int64(2*terminals) })
		dropped := r.open.Load()
		record()
		r.kill(t) // under load
		record()
		r.start(t)
		began := time.Now()
		settle(t, moved, papers, all)
		t.Logf("%d connections were dropped at once: all are back and up to date after %v, %d refused so far", dropped, time.Since(began).Round(time.Millisecond), r.busy.Load())
	}
	var entries, kept int
	if err := r.c.Reader().QueryRowContext(t.Context(), "SELECT count(*), count(DISTINCT hash) FROM entries").Scan(&entries, &kept); err != nil {
		t.Fatal(err)
	}
	if want := terminals * 14; entries != want || kept != want {
		t.Errorf("central holds %d entries, %d of them different, want %d", entries, kept, want)
	}
	if refused := r.busy.Load(); refused > int64(6*terminals) {
		t.Errorf("%d refusals for %d terminals in two rounds", refused, terminals)
	}
}

// newcomer enrols a terminal and makes its link.
func (r *restartable) newcomer(ctx context.Context, dir string, p *paper) (*Uplink, error) {
	dial := func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, r.addr)
	}
	code, err := r.c.AddTerminal(ctx, p.name)
	if err != nil {
		return nil, err
	}
	id, err := Enrol(ctx, EnrolOptions{URL: "https://central.test", Code: code.Code, Dir: filepath.Join(dir, p.name), Dial: dial})
	if err != nil {
		return nil, err
	}
	return New(Options{Identity: id, URL: "https://central.test", Ledger: p, Blocks: BlockStore{Dir: filepath.Join(dir, p.name, "manifests"), Quota: 1 << 20}, RetryCap: 2 * time.Second, Dial: dial})
}

// settle waits until every terminal has nothing unsent and something more is so.
func settle(t *testing.T, moved <-chan struct{}, papers []*paper, more func() bool) {
	t.Helper()
	limit := time.After(4 * time.Minute)
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for {
		behind := 0
		for _, p := range papers {
			p.mu.Lock()
			if int(p.acked.Seq) < len(p.lines) {
				behind++
			}
			p.mu.Unlock()
		}
		if behind == 0 && more() {
			return
		}
		select {
		case <-moved:
		case <-look.C:
		case <-limit:
			t.Fatalf("%d of %d terminals are behind", behind, len(papers))
		}
	}
}
