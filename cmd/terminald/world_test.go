package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"grattoir/configs"
	"grattoir/device/terminal"
	"grattoir/device/terminal/terminaltest"
	"grattoir/sync/central"
	"grattoir/sync/ledger"
	"grattoir/sync/uplink"
	"grattoir/sync/uplink/memnet"
	"grattoir/validate"
	"grattoir/validate/manifest"
	"grattoir/validate/manifest/seal"
	"grattoir/validate/money"
	"grattoir/validate/policy"
	"grattoir/validate/ticket"
)

// world is everything around the tills.
type world struct {
	t       *testing.T
	ctx     context.Context
	dir     string
	rng     *mathrand.Rand
	net     *network
	central *central.Central
	server  *http.Server
	served  chan error
	tills   []*till
	codes   map[uint32][]ticket.Code // winners by pack, of game code 399
	signer  note.Signer

	paid int
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{t: t, ctx: context.Background(), dir: t.TempDir(), rng: mathrand.New(mathrand.NewPCG(seed, 1)), codes: map[uint32][]ticket.Code{}}
	w.net = &network{}
	w.startCentral()
	path := w.sealBlock()
	if _, err := w.central.Publish(w.ctx, path); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) startCentral() {
	var err error
	w.central, err = central.Open(w.ctx, central.Options{Dir: filepath.Join(w.dir, "central"), Hosts: []string{"central.test"}, Now: time.Now})
	w.must(err)
	l := w.net.listen()
	w.server = &http.Server{Handler: w.central.API(), ErrorLog: slog.NewLogLogger(slog.NewTextHandler(io.Discard, nil), slog.LevelError)}
	w.served = make(chan error, 1)
	go func(s *http.Server, cfg *tls.Config, done chan error) { done <- s.Serve(tls.NewListener(l, cfg)) }(w.server, w.central.TLSConfig(), w.served)
}

// stopCentral cuts every connection in the middle of what it carries.
func (w *world) stopCentral() {
	w.net.cutAll()
	w.central.EndPolls()
	_ = w.server.Close()
	<-w.served
	w.must(w.central.Close())
}

func (w *world) close() {
	for _, s := range w.tills {
		s.stop(w)
	}
	w.stopCentral()
}

// sealBlock seals twelve packs of game code 399, emission 1.
func (w *world) sealBlock() string {
	skey, vkey, err := note.GenerateKey(rand.Reader, "lottery")
	w.must(err)
	w.signer, err = note.NewSigner(skey)
	w.must(err)
	_, err = w.central.TrustSealKey(vkey)
	w.must(err)
	path, _ := w.seal("399", "1", 1, nil)
	return path
}

// seal seals twelve packs of an emission, always the same tickets for one game code.
func (w *world) seal(gameCode, emission string, serial int, reissue *manifest.Header) (path string, h manifest.Header) {
	tiers := []manifest.Tier{{Count: 400, Amount: 2000}}
	var csv bytes.Buffer
	w.must(seal.Sample{Layout: ticket.G40(), GameCode: gameCode, Tickets: 720, FirstPack: 1, PackSize: 60, Tiers: tiers, Seed: gameCode}.Write(&csv, func(int64) {}))
	if gameCode == "399" && serial == 1 {
		for line := range strings.Lines(csv.String()) {
			digits, prize, _ := strings.Cut(strings.TrimSpace(line), ",")
			if c, err := ticket.Parse(digits, 0, ticket.Shipped()); err == nil && prize != "0" {
				w.codes[c.Pack] = append(w.codes[c.Pack], c)
			}
		}
	}
	path = filepath.Join(w.dir, fmt.Sprintf("%s-%d.manifest", gameCode, serial))
	res, err := seal.Seal(w.ctx, &csv, seal.Order{Game: "bingo", Name: "Bingo", Emission: emission, Number: 1, Serial: serial, Reissue: reissue, Currency: "EUR", Price: 1000,
		Layout: ticket.G40(), Signer: w.signer, Prizes: func(int64) ([]manifest.Tier, bool, error) { return tiers, true, nil }}, path)
	w.must(err)
	return path, res.Header
}

// till is one counter with its own ledger and link.
type till struct {
	config configs.Terminal
	weak   money.Amount // the policy's limit of short secrets
	packs  [2]uint32
	paper  *terminaltest.Printer
	book   *ledger.Ledger
	blocks *library
	way    *link
	*terminal.Terminal
	end  context.CancelFunc
	done sync.WaitGroup
}

// enrol makes a terminal known, enrols it, gives it packs and starts it.
func (w *world) enrol(name string, first, last uint32) {
	code, err := w.central.AddTerminal(w.ctx, name)
	w.must(err)
	s := &till{config: configs.Terminal{Name: name, Data: filepath.Join(w.dir, name), ReserveMB: 1, QuotaMB: 100, Central: configs.Central{URL: "https://central.test"}}, packs: [2]uint32{first, last}}
	w.must(makeFolders(s.config))
	_, err = uplink.Enrol(w.ctx, uplink.EnrolOptions{URL: s.config.Central.URL, Code: code.Code, Dir: s.config.Identity(), Dial: w.net.dial, Now: time.Now})
	w.must(err)
	_, err = w.central.Deliver(w.ctx, "399", first, last, name)
	w.must(err)
	_, err = w.central.Activate(w.ctx, "399", first, last)
	w.must(err)
	s.start(w)
	w.tills = append(w.tills, s)
}

func (s *till) start(w *world) {
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	believed, err := loadTrust(s.config)
	w.must(err)
	trusted := func() time.Time {
		if s.way == nil {
			return time.Time{}
		}
		return s.way.trusted()
	}
	s.way = nil
	s.book, err = openLedger(w.ctx, s.config, believed, time.Now, trusted)
	w.must(err)
	w.must(s.book.Audit(w.ctx))
	s.blocks, err = newLibrary(s.config, believed, quiet)
	w.must(err)
	w.must(s.blocks.rescan(w.ctx))
	spread := mathrand.New(mathrand.NewPCG(w.rng.Uint64(), 3))
	var mu sync.Mutex
	s.way, err = newLink(s.config, believed, s.book, s.blocks, nil, func() []string { return nil },
		outside{dial: w.net.dial, rand: func() float64 { mu.Lock(); defer mu.Unlock(); return spread.Float64() }}, quiet)
	w.must(err)
	var seed [32]byte // all of it: two runs of a till must not make the same claim ids
	for i := range seed {
		seed[i] = byte(w.rng.Uint32())
	}
	s.paper = terminaltest.NewPrinter()
	s.Terminal = terminal.New(terminal.Options{Name: s.config.Name, Shelf: s.blocks.shelf, Ledger: journal{Ledger: s.book}, Printer: s.paper, Central: s.way.central(), AcceptScaled: true,
		Policy: func() policy.Policy {
			return policy.Policy{Version: "w1", Currency: "EUR", ShopLimit: 30000, ClaimDays: 30, WeakLimit: s.weak}
		}, Now: time.Now, Trusted: trusted, Log: quiet,
		Rand: mathrand.NewChaCha8(seed)})
	_, err = s.Recover(w.ctx)
	w.must(err)
	ctx, cancel := context.WithCancel(w.ctx)
	s.end = cancel
	s.done.Go(func() { s.Run(ctx) })
	s.done.Go(func() {
		if err := s.way.run(ctx); err != nil {
			w.t.Error(err)
		}
	})
}

func (s *till) stop(w *world) {
	s.end()
	s.done.Wait()
	w.must(s.blocks.close())
	w.must(s.book.Close())
}

// serveOne checks one ticket of the till's packs, and pays it when it may.
func (s *till) serveOne(w *world) {
	pack := s.packs[0] + uint32(w.rng.IntN(int(s.packs[1]-s.packs[0]+1)))
	list := w.codes[pack]
	code := list[w.rng.IntN(len(list))]
	v := s.Check(w.ctx, terminal.Scan{Text: code.Digits(), Entered: validate.Scanned})
	switch v.Verdict.Reason {
	case validate.Winner:
		v, err := s.Pay(w.ctx, v.ID, terminal.Confirmed{})
		w.must(err)
		if v.Receipt == nil {
			w.t.Errorf("%s: %v was not paid: %s", s.config.Name, code, v.Verdict.Reason)
			return
		}
		w.paid++
	case validate.AlreadyPaidHere, validate.GameUnknown, validate.BlockNotHere, validate.PackNotActive: // paid before, or not arrived yet
	default:
		w.t.Errorf("%s: %v: %s, %s", s.config.Name, code, v.Verdict.Reason, v.Detail)
	}
}

// settle waits until central has acknowledged everything.
func (w *world) settle(s *till) {
	w.t.Helper()
	limit := time.Now().Add(30 * time.Minute)
	for {
		acked, err := s.book.Acked(w.ctx)
		w.must(err)
		if acked.Seq == s.book.Head().Seq {
			return
		}
		if time.Now().After(limit) {
			w.t.Fatalf("%s: half an hour after the last trouble %d of %d entries are acknowledged: %+v", s.config.Name, acked.Seq, s.book.Head().Seq, s.way.up.Status())
		}
		asleep(10 * time.Second)
	}
}

// network carries connections in memory, or is down.
type network struct {
	mu      sync.Mutex
	central *memnet.Listener
	until   time.Time // down until then
	carried []*memnet.Conn
}

var errDown = errors.New("the network is down")

// listen gives central's end, in place of an earlier one.
func (n *network) listen() net.Listener {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.central = memnet.Listen()
	return n.central
}

func (n *network) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	n.mu.Lock()
	if time.Now().Before(n.until) {
		n.mu.Unlock()
		return nil, errDown
	}
	near, far := memnet.Pipe()
	n.carried = append(n.carried, near)
	central := n.central
	n.mu.Unlock()
	return near, central.Offer(ctx, far)
}

func (n *network) cutAll() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.carried {
		c.Cut()
	}
	n.carried = nil
}

func (n *network) down(d time.Duration) {
	n.cutAll()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.until = time.Now().Add(d)
}

func (n *network) mend() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.until = time.Time{}
}
