package main

import (
	"bytes"
	"cmp"
	"container/heap"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"grattoir/configs"
	"grattoir/sync/central"
	"grattoir/validate"
	"grattoir/validate/manifest"
	"grattoir/validate/manifest/seal"
	"grattoir/validate/money"
	"grattoir/validate/policy"
	"grattoir/validate/ticket"
)

// fleet is a simulated country: shops with their terminals, central, and the network
// between them, in fake time. All of it is the shipping code but for paper, network, power
// and people. What happens follows from the seed alone.
type fleet struct {
	t     *testing.T
	ctx   context.Context
	seed  uint64
	size  int
	began time.Time // when every clock was right
	until time.Time
	dir   string
	plant plant
	still atomic.Bool // faults have ended
	calm  bool        // trouble is rare
	atEnd []func()

	roads    *roads
	backup   string       // a folder from which central will be put back, "" for none
	standing sync.RWMutex // held over the use of central, and to stop it
	central  *central.Central
	server   *http.Server
	served   chan error
	copies   int
	shops    []*outlet
	signer   note.Signer
	lots     map[uint32][]*lot // by pack
	nextPack uint32
	owner    map[uint32]*outlet // of each pack, as central has it
	lost     map[uint32]*outlet // who may have paid of a pack that was written off
	acts     acts
	actors   sync.WaitGroup
	closing  policy.Date         // of emission 2
	ids      [3]validate.BlockID // of the blocks, by their number here

	mu      sync.Mutex // guards what follows
	history []told
	serial  map[string]int
	truth   truth
	counts  map[string]int
	broken  []breach
}

// told is one line of the history.
type told struct {
	at    time.Time
	who   string
	n     int
	words string
}

func (l told) String() string {
	return fmt.Sprintf("%s %s: %s\n", l.at.UTC().Format("15:04:05.000000"), l.who, l.words)
}

// breach is an invariant that did not hold.
type breach struct {
	invariant int // as truth numbers them; 0 for a fault that none names
	at        time.Time
	words     string
}

// fleetSize is how much is simulated.
type fleetSize struct {
	shops int
	hours float64
	calm  bool // the standard fleet: every trouble is rarer
}

const (
	fleetClaims = 25    // allowance of every terminal, in claims
	fleetMinor  = 60000 // and in minor units
	fleetRisk   = 500   // up to which a silent owner's ticket is paid
	packTickets = 60
)

var fleetTiers = []manifest.Tier{{Count: 1, Amount: 50000}, {Count: 6, Amount: 5000}, {Count: 120, Amount: 2000}, {Count: 400, Amount: 500}}

func newFleet(t *testing.T, seed uint64, size fleetSize, p plant) *fleet {
	f := &fleet{t: t, ctx: context.Background(), seed: seed, size: size.shops, plant: p, dir: fleetDir(t), lots: map[uint32][]*lot{}, owner: map[uint32]*outlet{}, lost: map[uint32]*outlet{},
		serial: map[string]int{}, counts: map[string]int{}, truth: newTruth()}
	f.began = time.Date(2000, 11, 14, 18, 0, 0, 0, time.UTC) // a Tuesday evening: shops close, and a day ends at 23:00 UTC
	if p.late {
		f.began = f.began.Add(4*time.Hour + 50*time.Minute)
	}
	f.calm = size.calm
	f.until = f.began.Add(time.Duration(size.hours * float64(time.Hour)))
	f.roads = newRoads(f)
	f.still.Store(true)
	f.enrolAll()
	f.still.Store(false)
	for _, s := range f.shops {
		s.power()
		asleep(time.Second) // one after the other
	}
	f.plan(size.calm)
	return f
}

// enrolAll makes central and its terminals, so long before the evening that every certificate
// must be renewed on it; of each eighth terminal it has ended, it lay in a cupboard.
func (f *fleet) enrolAll() {
	const day = 24 * time.Hour
	asleep(time.Until(f.began.Add(-100 * day)))
	f.startCentral()
	f.makeTickets()
	enrol := func(old bool) {
		for n := range f.size {
			if (n%8 == 6) == old {
				f.addShop(fmt.Sprintf("T-%02d", n+1))
			}
		}
	}
	enrol(true)
	f.stopCentral()
	asleep(time.Until(f.began.Add(-62*day - 12*time.Hour)))
	f.startCentral()
	enrol(false)
	f.stopCentral()
	slices.SortFunc(f.shops, func(a, b *outlet) int { return strings.Compare(a.name, b.name) })
	asleep(time.Until(f.began))
	f.startCentral()
	f.publish(f.limits())
}

// fleetDir is a folder in memory, where there is one: what a disk does to files when the
// power goes is sync/ledger/powercut's question, not this one's.
func fleetDir(t *testing.T) string {
	const memory = "/dev/shm"
	if info, err := os.Stat(memory); err != nil || !info.IsDir() {
		return t.TempDir()
	}
	dir, err := os.MkdirTemp(memory, "grattoir-fleet-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func (f *fleet) must(err error) {
	if err != nil {
		f.t.Helper()
		f.t.Fatalf("%s: %v\n%s", f.replayHint(), err, f.tail(30))
	}
}

// note adds a line to the history. Lines tell nothing that differs between two runs of a seed.
func (f *fleet) note(who, format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.serial[who]++
	f.history = append(f.history, told{time.Now(), who, f.serial[who], fmt.Sprintf(format, args...)})
}

func (f *fleet) count(what string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts[what]++
}

func (f *fleet) sorted() []told {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := slices.Clone(f.history)
	slices.SortFunc(list, func(a, b told) int {
		return cmp.Or(a.at.Compare(b.at), strings.Compare(a.who, b.who), cmp.Compare(a.n, b.n))
	})
	return list
}

// hash is of the whole history, in its order.
func (f *fleet) hash() string {
	h := sha256.New()
	for _, l := range f.sorted() {
		_, _ = fmt.Fprintf(h, "%d %s %s\n", l.at.UnixNano(), l.who, l.words)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

func (f *fleet) tail(n int) string {
	list := f.sorted()
	return fmt.Sprint(list[max(0, len(list)-n):])
}

// breach notes that an invariant does not hold.
func (f *fleet) breach(invariant int, format string, args ...any) {
	words := fmt.Sprintf(format, args...)
	f.note("invariant", "%d is broken", invariant)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.broken = append(f.broken, breach{invariant, time.Now(), words})
}

// dice of a name: each actor has its own, so that one more of them moves no other.
func (f *fleet) dice(name string) *mathrand.Rand { return dice(f.seed, name) }

// spawn runs something beside the others, to its end.
func (f *fleet) spawn(act func()) { f.actors.Go(act) }

// acts are what is still to happen, the next first.
type acts []*act

type act struct {
	at time.Time
	n  int
	do func()
}

func (a acts) Len() int { return len(a) }
func (a acts) Less(i, j int) bool {
	return a[i].at.Before(a[j].at) || a[i].at.Equal(a[j].at) && a[i].n < a[j].n
}
func (a acts) Swap(i, j int) { a[i], a[j] = a[j], a[i] }
func (a *acts) Push(x any)   { *a = append(*a, x.(*act)) }
func (a *acts) Pop() any {
	old := *a
	last := old[len(old)-1]
	*a = old[:len(old)-1]
	return last
}

// after has something happen later, by the driver's own goroutine.
func (f *fleet) after(d time.Duration, do func()) {
	f.mu.Lock()
	f.serial["acts"]++
	n := f.serial["acts"]
	f.mu.Unlock()
	heap.Push(&f.acts, &act{time.Now().Add(d), n, do})
}

// play lets everything happen, until the end of the simulated time.
func (f *fleet) play() {
	for len(f.acts) > 0 {
		next := heap.Pop(&f.acts).(*act)
		if next.at.After(f.until) {
			continue
		}
		asleep(time.Until(next.at))
		next.do()
		if len(f.broken) > 20 && f.plant.name == "" {
			break // it is broken enough
		}
	}
	asleep(time.Until(f.until))
}

// centralDir is where central's files lie since its last power cut.
func (f *fleet) centralDir() string { return filepath.Join(f.dir, fmt.Sprintf("central.%d", f.copies)) }

func (f *fleet) startCentral() {
	c, err := central.Open(f.ctx, central.Options{Dir: f.centralDir(), Hosts: []string{"central.test"}, Now: time.Now,
		AllowanceClaims: fleetClaims, AllowanceMinor: fleetMinor, BookedRiskMinor: fleetRisk, Log: slog.New(&complaints{f: f, who: "central"})})
	f.must(err)
	l := f.roads.listen()
	s := &http.Server{Handler: f.roads.travel(c), ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			if t, is := c.(*tls.Conn); is {
				if l, is := t.NetConn().(lane); is {
					return context.WithValue(ctx, laneKey{}, l.from)
				}
			}
			return ctx
		}}
	served := make(chan error, 1)
	go func() { served <- s.Serve(tls.NewListener(l, c.TLSConfig())) }()
	f.standing.Lock()
	f.central, f.server, f.served = c, s, served
	f.standing.Unlock()
}

// handler is central's, with the planted bug before it.
func (f *fleet) handler(c *central.Central) http.Handler {
	if f.plant.road != nil {
		return f.plant.road(f, c.API())
	}
	return c.API()
}

// stopCentral cuts every connection in the middle of what it carries, and takes the power
// away: what comes back has the files as they were at this moment.
func (f *fleet) stopCentral() {
	old := f.central
	if old == nil {
		return
	}
	f.roads.cut("")
	old.EndPolls()
	_ = f.server.Close()
	<-f.served
	f.standing.Lock() // the last requests have ended
	defer f.standing.Unlock()
	was := f.centralDir()
	f.copies++
	f.must(copyFiles(was, f.centralDir()))
	f.central = nil
	f.must(old.Close())
	f.must(os.RemoveAll(was))
}

// complaints is a log in which an error is a breach: central's own faults are errors there,
// whatever a terminal does.
type complaints struct {
	f   *fleet
	who string
}

func (*complaints) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelError }
func (c *complaints) WithAttrs([]slog.Attr) slog.Handler         { return c }
func (c *complaints) WithGroup(string) slog.Handler              { return c }
func (c *complaints) Handle(_ context.Context, r slog.Record) error {
	words := r.Message
	r.Attrs(func(a slog.Attr) bool { words += " " + a.String(); return true })
	c.f.breach(0, "%s logs an error: %s", c.who, words)
	return nil
}

// copyFiles copies a folder as a power cut leaves it: SQLite's shared memory is gone.
func copyFiles(from, to string) error {
	return filepath.WalkDir(from, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		target := filepath.Join(to, strings.TrimPrefix(path, from))
		switch {
		case d.IsDir():
			return os.MkdirAll(target, 0o700)
		case strings.HasSuffix(path, "-shm"):
			return nil
		}
		data, err := os.ReadFile(path)
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		return os.WriteFile(target, data, 0o600)
	})
}

// lot is a ticket as it was printed.
type lot struct {
	code   ticket.Code
	tier   int // 0 for a loser
	amount money.Amount
	block  int     // 1, or 2 of the emission that closes
	pack   uint32  // above 10000 those of block 2
	at     *outlet // where it was sold, nil before
}

// makeTickets seals and publishes two blocks: the second is of an emission whose claim
// period ends in the simulated night.
func (f *fleet) makeTickets() {
	skey, vkey := sealKey()
	var err error
	f.signer, err = note.NewSigner(skey)
	f.must(err)
	_, err = f.central.TrustSealKey(vkey)
	f.must(err)
	packs := uint32(6*f.size + 8)
	f.sealBlock(1, "399", "1", 1, packs)
	f.sealBlock(2, "398", "2", 1, uint32(f.size))
	f.nextPack = uint32(3*f.size) + 1
	// Thirty days from the notice, inclusive: the last day is the simulated one.
	today := policy.DateOf(f.began)
	for days := 40; days > 0; days-- {
		if on := today.Add(-days); policy.LastClaimDay(on, 30) == today {
			f.closing = on
			break
		}
	}
	_, err = f.central.CloseEmission(f.ctx, "bingo", "2", f.closing, 30, true)
	f.must(err)
}

// sealKey is the same in every run, and so are the blocks: terminals fetch them in the
// order of their hashes.
func sealKey() (private, public string) {
	const name, ed25519Key = "lottery", "\x01"
	seed := sha256.Sum256([]byte("the fleet's seal key"))
	key := ed25519.NewKeyFromSeed(seed[:])
	public, _ = note.NewEd25519VerifierKey(name, key.Public().(ed25519.PublicKey))
	hash := strings.Split(public, "+")[1]
	return "PRIVATE+KEY+" + name + "+" + hash + "+" + base64.StdEncoding.EncodeToString([]byte(ed25519Key+string(seed[:]))), public
}

func (f *fleet) sealBlock(block int, gameCode, emission string, number int, packs uint32) {
	tickets := int64(packs) * packTickets
	tiers := slices.Clone(fleetTiers)
	for i := range tiers {
		tiers[i].Count = max(1, tiers[i].Count*tickets/720)
	}
	var csv bytes.Buffer
	f.must(seal.Sample{Layout: ticket.G40(), GameCode: gameCode, Tickets: tickets, FirstPack: 1, PackSize: packTickets, Tiers: tiers, Seed: "fleet " + gameCode}.Write(&csv, func(int64) {}))
	for line := range strings.Lines(csv.String()) {
		digits, prize, _ := strings.Cut(strings.TrimSpace(line), ",")
		c, err := ticket.Parse(digits, 0, ticket.Shipped())
		if err != nil {
			continue // the header
		}
		l := &lot{code: c, block: block, pack: c.Pack + uint32(block-1)*10000}
		_, err = fmt.Sscan(prize, &l.amount)
		f.must(err)
		l.tier = 1 + slices.IndexFunc(tiers, func(t manifest.Tier) bool { return t.Amount == l.amount })
		f.lots[l.pack] = append(f.lots[l.pack], l)
	}
	path := filepath.Join(f.dir, fmt.Sprintf("%s-%d.manifest", gameCode, number))
	// As if it were issued again, so that its id is chosen here.
	before := &manifest.Header{Block: validate.BlockID{15: byte(block)}, Game: "bingo", Emission: emission, Number: number, GameCode: "00" + gameCode, Tickets: tickets, FirstPack: 1,
		PackSize: packTickets, Layout: ticket.G40()}
	_, err := seal.Seal(f.ctx, &csv, seal.Order{Game: "bingo", Name: "Bingo", Emission: emission, Number: number, Serial: 1, Reissue: before, Currency: "EUR", Price: 1000,
		Layout: ticket.G40(), Signer: f.signer, Prizes: func(int64) ([]manifest.Tier, bool, error) { return tiers, true, nil }}, path)
	f.must(err)
	published, err := f.central.Publish(f.ctx, path)
	f.must(err)
	f.ids[block] = published.ID
}

// gameCode and number are how central knows a pack of f.lots.
func packOf(pack uint32) (gameCode string, number uint32) {
	if pack > 10000 {
		return "398", pack - 10000
	}
	return "399", pack
}

// limits are what every shop pays by.
func (f *fleet) limits() policy.Policy {
	return policy.Policy{Version: "w1", ValidFrom: policy.Date{Year: 2000, Month: 11, Day: 1}, Currency: "EUR", ShopLimit: 30000, ClaimDays: 30, BookedRisk: fleetRisk, BookedRiskParty: "the lottery"}
}

// configured is what a terminal's configuration says of them.
func (f *fleet) configured() configs.Policy {
	p := f.limits()
	return configs.Policy{Version: p.Version, Currency: p.Currency, ShopLimit: int64(p.ShopLimit), ClaimDays: p.ClaimDays}
}

// over tells whether the claim period of a lot has truly ended at t.
func (f *fleet) over(l *lot, t time.Time) bool {
	return l.block == 2 && f.limits().ClaimPeriodOver(f.closing, t)
}
