package main

import (
	"context"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"grattoir/configs"
	"grattoir/device/terminal"
	"grattoir/device/terminal/terminaltest"
	"grattoir/sync/ledger"
	"grattoir/sync/uplink"
	"grattoir/sync/wire"
	"grattoir/validate"
)

// outlet is a shop with its terminal. The machine outlives the lives of its program.
type outlet struct {
	f        *fleet
	name     string
	desk     chan struct{} // one customer at a time
	dir      string        // the card's files
	lives    int
	shift    atomic.Int64 // of the device's clock, in ns
	on       *life        // nil while the machine is off
	shut     bool         // by its opening hours
	night    bool         // it never is
	cutAt    atomic.Value // the step at which the power goes, "" for none
	packs    []uint32     // delivered here and on sale
	fresh    []*lot       // of them, not sold yet
	spare    string       // an older copy of the card, "" for none
	stale    bool         // an older copy was put in: its journal is behind
	restored bool         // it was, and came back
	gave     bool         // its packs are given up
}

// life is one life of the terminal's program.
type life struct {
	shop    *outlet
	dir     string
	dead    atomic.Bool // the power is gone: nothing it does from now on happened
	disk    sync.Mutex  // held over each write to the ledger, and to copy the card
	config  configs.Terminal
	book    *ledger.Ledger
	blocks  *library
	way     *link
	counter *terminal.Terminal
	printer *terminaltest.Printer
	rules   *limits
	said    atomic.Pointer[[]validate.Message] // what central says, as it was read last; nil after a change
	end     context.CancelFunc
	done    sync.WaitGroup
	life    int
	head    ledger.Head // its journal's end, when it ended
}

// addShop enrols a terminal and brings its first packs.
func (f *fleet) addShop(name string) {
	s := &outlet{f: f, name: name, desk: make(chan struct{}, 1), night: len(f.shops)%8 == 3}
	s.cutAt.Store("")
	s.dir = filepath.Join(f.dir, name+".0")
	f.shops = append(f.shops, s)
	code, err := f.central.AddTerminal(f.ctx, name)
	f.must(err)
	c := s.config()
	f.must(makeFolders(c))
	p := &life{shop: s}
	_, err = uplink.Enrol(f.ctx, uplink.EnrolOptions{URL: c.Central.URL, Code: code.Code, Dir: c.Identity(), Dial: f.roads.dialer(p), Now: time.Now})
	f.must(err)
	n := uint32(len(f.shops))
	for _, pack := range []uint32{3*n - 2, 3*n - 1, 3 * n, 10000 + n} {
		code, number := packOf(pack)
		_, err = f.central.Deliver(f.ctx, code, number, number, name)
		f.must(err)
		_, err = f.central.Activate(f.ctx, code, number, number)
		f.must(err)
		s.packs = append(s.packs, pack)
		f.owner[pack] = s
	}
	for _, pack := range s.packs {
		s.sell(pack)
	}
}

// sell puts a pack on sale here.
func (s *outlet) sell(pack uint32) { s.fresh = append(s.fresh, s.f.lots[pack]...) }

func (s *outlet) config() configs.Terminal {
	c := configs.Terminal{Name: s.name, Data: s.dir, ReserveMB: 1, QuotaMB: 100, Central: configs.Central{URL: "https://central.test"}, Policy: s.f.configured()}
	if !s.f.plant.unbounded {
		c.Allowance = configs.Allowance{Claims: fleetClaims, Money: fleetMinor}
	}
	return c
}

// clock is the device's: it is set wrong at times, while the monotonic clock goes on.
func (s *outlet) clock() time.Time {
	return deviceTime(time.Now(), time.Since(s.f.began), time.Duration(s.shift.Load()))
}

// deviceTime is a time that shows something wrong and carries a true monotonic reading, as
// after a clock was set. No function of package time makes one, and a bubble's own times
// have no such reading.
func deviceTime(t time.Time, since, wrongBy time.Duration) time.Time {
	const (
		monotonic = 1 << 63 // the first word: this bit, then seconds since 1885, then nanoseconds
		epoch     = 2682288000
	)
	wall := t.Add(wrongBy)
	out := wall
	words := (*struct {
		wall uint64
		ext  int64
		loc  *time.Location
	})(unsafe.Pointer(&out))
	words.wall = monotonic | uint64(wall.Unix()+epoch)<<30 | uint64(wall.Nanosecond())
	words.ext = int64(since) + 1
	return out
}

// power starts the machine with the card that is in it.
func (s *outlet) power() {
	f := s.f
	s.lives++
	p := &life{shop: s, dir: s.dir, life: s.lives, config: s.config(), printer: terminaltest.NewPrinter()}
	quiet := slog.New(slog.DiscardHandler)
	believed, err := loadTrust(p.config)
	f.must(err)
	trusted := func() time.Time {
		if p.way == nil {
			return time.Time{}
		}
		return p.way.trusted()
	}
	opt, err := ledgerOptions(p.config, believed, s.clock, trusted)
	f.must(err)
	boot, booted := fmt.Sprintf("%s-%d", s.name, s.lives), time.Now()
	opt.Moment = func() ledger.Moment {
		return ledger.Moment{Boot: boot, Mono: time.Since(booted), Device: s.clock(), Trusted: trusted()}
	}
	p.book, err = ledger.Open(f.ctx, opt)
	f.must(err)
	f.must(p.book.Audit(f.ctx))
	p.blocks, err = newLibrary(p.config, believed, quiet)
	f.must(err)
	p.blocks.now = trusted
	f.must(p.blocks.rescan(f.ctx))
	p.rules, err = newLimits(p.config, believed, trusted, quiet)
	f.must(err)
	p.way, err = newLink(p.config, believed, p.book, p.blocks, nil, func() []string { return nil },
		outside{dial: f.roads.dialer(p), rand: s.spread, now: s.clock, book: p.behindLink, step: p.step, policies: func() { f.must(p.rules.rescan()) }}, quiet)
	f.must(err)
	p.openCounter(trusted, newClockWatch(s.clock, func() time.Duration { return time.Since(booted) }, trusted, signedFloor(f.ctx, p.book)), quiet)
	_, err = p.counter.Recover(f.ctx)
	f.must(err)
	s.on = p
	f.truth.started(f, s) // before anything is written
	f.note(s.name, "on, head %d-%d", p.book.Head().Epoch, p.book.Head().Seq)
	ctx, cancel := context.WithCancel(f.ctx)
	p.end = cancel
	p.done.Go(func() { p.counter.Run(ctx) })
	p.done.Go(func() {
		if err := p.way.run(ctx); err != nil {
			f.breach(0, "%s: the link ended: %v", s.name, err)
		}
	})
}

func (p *life) openCounter(trusted func() time.Time, clock *clockWatch, quiet *slog.Logger) {
	s, f := p.shop, p.shop.f
	var seed [32]byte
	random := f.dice(fmt.Sprint("claim ids ", s.name, s.lives))
	for i := range seed {
		seed[i] = byte(random.Uint32())
	}
	var book terminal.Ledger = &behindCounter{journal: journal{Ledger: p.book}, p: p}
	if f.plant.counter != nil {
		book = f.plant.counter(p, book)
	}
	rules := p.rules.inForce
	if f.plant.policy != nil {
		rules = f.plant.policy(p)
	}
	if f.plant.trusted != nil {
		trusted = f.plant.trusted(p)
	}
	p.counter = terminal.New(terminal.Options{Name: s.name, Shelf: p.blocks.shelf, Ledger: book, Printer: &mouth{p.printer, p}, Central: p.way.central(), Packs: packsOf{p.way.packs(), p}, Messages: messagesOf{p.way.messages(), p}, AcceptScaled: true,
		Policy: rules, Currency: "EUR", Operator: "marie", Now: s.clock, Trusted: trusted, Log: quiet, Rand: mathrand.NewChaCha8(seed), Clock: clock.fault, Step: p.step})
}

// spread is the link's: it follows from the moment, so that lanes that fail together draw
// the same in whatever order they are run.
func (s *outlet) spread() float64 {
	return s.f.dice(fmt.Sprint("spread ", s.name, time.Now().UnixNano())).Float64()
}

// step is called after each durable or visible step of a claim; the power may go there.
func (p *life) step(name string) {
	if !p.dead.Load() && p.shop.cutAt.CompareAndSwap(name, "") {
		p.shop.f.note(p.shop.name, "the power goes at %q", name)
		p.shop.f.count("power cuts at a step")
		p.die()
	}
}

// die takes the power away at this moment. The card keeps what the files show now; what
// this life of the program still does happens nowhere.
func (p *life) die() {
	p.disk.Lock()
	defer p.disk.Unlock()
	if p.dead.Swap(true) {
		return
	}
	p.head = p.book.Head()
	p.shop.f.must(copyFiles(p.dir, p.cardAfter()))
	p.shop.f.roads.cut(p.shop.name)
}

// cardAfter is where the files lie that a power cut leaves.
func (p *life) cardAfter() string {
	return filepath.Join(p.shop.f.dir, fmt.Sprintf("%s.%d", p.shop.name, p.life))
}

// off ends a life of the program: in order, or after its power has gone.
func (s *outlet) off() {
	p := s.on
	if p == nil {
		return
	}
	if !p.dead.Load() {
		s.desk <- struct{}{} // the customer is served first
		defer func() { <-s.desk }()
	}
	s.on = nil
	p.end()
	p.done.Wait()
	s.f.truth.mu.Lock()
	s.f.truth.mayPay(s.f, s, p)
	s.f.truth.mu.Unlock()
	s.f.must(p.blocks.close())
	s.f.must(p.book.Close())
	if p.dead.Load() {
		s.dir = p.cardAfter()
		s.f.must(os.RemoveAll(p.dir))
	} else {
		p.head = p.book.Head()
	}
	s.f.truth.ended(s, p)
	s.f.note(s.name, "off")
}

// cutPower takes the power away and leaves the machine dark.
func (s *outlet) cutPower() {
	if s.on == nil {
		return
	}
	s.on.die()
	s.off()
}

// mouth is the printer: what comes out of it after the power has gone came out nowhere.
type mouth struct {
	*terminaltest.Printer
	p *life
}

func (m *mouth) Print(ctx context.Context, r validate.Receipt, paying bool, watch func(*terminal.Fault)) (validate.PrintState, error) {
	state, err := m.Printer.Print(ctx, r, paying, watch)
	if !m.p.dead.Load() && state.Done() {
		m.p.shop.f.truth.printed(m.p.shop, r)
	}
	return state, err
}

// behindCounter is the ledger as the counter has it: each write is whole before the power
// can go, and payments are read again only when something was written.
type behindCounter struct {
	journal
	p *life

	mu    sync.Mutex
	last  []validate.Receipt
	read  bool
	slips map[validate.EntryNumber]validate.Receipt
	asked time.Time // when Writable was
}

func (b *behindCounter) write() func() {
	b.p.disk.Lock()
	b.mu.Lock()
	b.read, b.asked, b.slips = false, time.Time{}, map[validate.EntryNumber]validate.Receipt{}
	b.mu.Unlock()
	return b.p.disk.Unlock
}

func (b *behindCounter) Record(ctx context.Context, c validate.Claim) (validate.Receipt, error) {
	defer b.write()()
	return b.journal.Record(ctx, c)
}

func (b *behindCounter) Intend(ctx context.Context, c validate.Claim) (validate.Intent, error) {
	defer b.write()()
	return b.journal.Intend(ctx, c)
}

func (b *behindCounter) GiveBack(ctx context.Context, claim string) error {
	defer b.write()()
	return b.journal.GiveBack(ctx, claim)
}

func (b *behindCounter) ReleasePacks(ctx context.Context, operator string, closing bool) (int, error) {
	defer b.write()()
	return b.journal.ReleasePacks(ctx, operator, closing)
}

func (b *behindCounter) TakeBack(ctx context.Context) error {
	defer b.write()()
	return b.journal.TakeBack(ctx)
}

func (b *behindCounter) Mark(ctx context.Context, n validate.EntryNumber, s validate.PrintState) error {
	defer b.write()()
	return b.journal.Mark(ctx, n, s)
}

func (b *behindCounter) BeginCopy(ctx context.Context, n validate.EntryNumber) (validate.Receipt, error) {
	defer b.write()()
	return b.journal.BeginCopy(ctx, n)
}

func (b *behindCounter) AppendReprint(ctx context.Context, n validate.EntryNumber, operator, why string) (validate.Receipt, error) {
	defer b.write()()
	return b.journal.AppendReprint(ctx, n, operator, why)
}

func (b *behindCounter) RequestReversal(ctx context.Context, r validate.Reversal) (validate.Reversal, error) {
	defer b.write()()
	return b.journal.RequestReversal(ctx, r)
}

func (b *behindCounter) Z(ctx context.Context, kind validate.ClosingKind, operator string) (validate.Closing, error) {
	defer b.write()()
	return b.journal.Z(ctx, kind, operator)
}

// packsOf and messagesOf are what the counter has of packs and messages: each write is whole
// before the power can go, and messages are read again only when something was heard.
type packsOf struct {
	terminal.Packs
	p *life
}

func (b packsOf) Activate(ctx context.Context, gameCode string, pack uint32, operator string, entered validate.Entered) (validate.Pack, error) {
	b.p.disk.Lock()
	defer b.p.disk.Unlock()
	return b.Packs.Activate(ctx, gameCode, pack, operator, entered)
}

type messagesOf struct {
	from terminal.Messages
	p    *life
}

func (b messagesOf) Read(ctx context.Context, number int64, operator string) error {
	b.p.disk.Lock()
	defer b.p.disk.Unlock()
	defer b.p.said.Store(nil)
	return b.from.Read(ctx, number, operator)
}

func (b messagesOf) Messages(ctx context.Context) ([]validate.Message, error) {
	if list := b.p.said.Load(); list != nil {
		return slices.Clone(*list), nil
	}
	list, err := b.from.Messages(ctx)
	if err == nil && !b.p.way.trusted().IsZero() { // a message has its days
		b.p.said.Store(&list)
	}
	return slices.Clone(list), err
}

// Writable looks at the disk once a minute when nothing was written, not every three seconds.
func (b *behindCounter) Writable() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if time.Since(b.asked) < time.Minute {
		return nil
	}
	err := b.journal.Writable()
	if err == nil {
		b.asked = time.Now()
	}
	return err
}

func (b *behindCounter) Receipt(ctx context.Context, n validate.EntryNumber) (validate.Receipt, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r, known := b.slips[n]; known {
		return r, nil
	}
	r, err := b.journal.Receipt(ctx, n)
	if err == nil && b.slips != nil {
		b.slips[n] = r
	}
	return r, err
}

func (b *behindCounter) Last(ctx context.Context, n int) ([]validate.Receipt, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.read && n == 10 {
		return slices.Clone(b.last), nil
	}
	list, err := b.journal.Last(ctx, n)
	if n == 10 && err == nil {
		b.last, b.read = list, true
	}
	return list, err
}

// behindLink is the ledger as the link has it. What central has acknowledged is noted, for
// it must be there ever after.
func (p *life) behindLink(l *ledger.Ledger) uplink.Ledger {
	var book uplink.Ledger = &linkBook{l, p}
	if h := p.shop.f.plant.link; h != nil {
		book = h(p, book)
	}
	return book
}

type linkBook struct {
	*ledger.Ledger
	p *life
}

// linkWait and deskWait part what would happen at one moment, in an order that nobody knows.
const (
	linkWait = 1310 * time.Microsecond
	deskWait = 770 * time.Microsecond
)

// Since, OpenClaims and HoldsWaiting wait for what is written at this very moment, so that
// two runs send the same.
func (b *linkBook) Since(ctx context.Context, after int64, max int) (int64, []string, wire.Position, error) {
	asleep(linkWait)
	return b.Ledger.Since(ctx, after, max)
}

func (b *linkBook) OpenClaims(ctx context.Context) ([]wire.ClaimRequest, error) {
	asleep(linkWait + 100*time.Microsecond)
	return b.Ledger.OpenClaims(ctx)
}

func (b *linkBook) HoldsWaiting(ctx context.Context, max int) ([]wire.HoldAck, wire.Position, error) {
	asleep(linkWait + 200*time.Microsecond)
	return b.Ledger.HoldsWaiting(ctx, max)
}

func (b *linkBook) Ack(ctx context.Context, a wire.Ack) error {
	b.p.disk.Lock()
	defer b.p.disk.Unlock()
	err := b.Ledger.Ack(ctx, a)
	if err == nil && !b.p.dead.Load() {
		b.p.shop.f.truth.acked(b.p.shop, a)
	}
	return err
}

func (b *linkBook) ApplyFeed(ctx context.Context, items []wire.FeedItem, next int64) error {
	b.p.disk.Lock()
	defer b.p.disk.Unlock()
	defer b.p.said.Store(nil)
	return b.Ledger.ApplyFeed(ctx, items, next)
}

func (b *linkBook) Restore(ctx context.Context, r ledger.Restoring) (ledger.Restored, error) {
	b.p.disk.Lock()
	defer b.p.disk.Unlock()
	done, err := b.Ledger.Restore(ctx, r)
	if s := b.p.shop; err == nil && !b.p.dead.Load() {
		s.f.note(s.name, "has read its journal again: epoch %d, %d taken, %d carried", r.Epoch, done.Taken, done.Carried)
		s.f.count("journals read again")
		s.f.truth.restored(s, r.Epoch)
	}
	return done, err
}

func (b *linkBook) ClaimAnswered(ctx context.Context, a wire.ClaimAnswer) error {
	b.p.disk.Lock()
	defer b.p.disk.Unlock()
	return b.Ledger.ClaimAnswered(ctx, a)
}

func (b *linkBook) HoldsStored(ctx context.Context, feed []int64) error {
	b.p.disk.Lock()
	defer b.p.disk.Unlock()
	return b.Ledger.HoldsStored(ctx, feed)
}

func (b *linkBook) SetSnapshot(ctx context.Context, version int64, issued time.Time) error {
	b.p.disk.Lock()
	defer b.p.disk.Unlock()
	return b.Ledger.SetSnapshot(ctx, version, issued)
}

func (b *linkBook) SetRefused(ctx context.Context, code string) error {
	b.p.disk.Lock()
	defer b.p.disk.Unlock()
	if code != "" && !b.p.dead.Load() {
		b.p.shop.f.note(b.p.shop.name, "is refused: %s", code)
	}
	return b.Ledger.SetRefused(ctx, code)
}

func (b *linkBook) SignHead(ctx context.Context, why ledger.HeadReason) error {
	b.p.disk.Lock()
	defer b.p.disk.Unlock()
	return b.Ledger.SignHead(ctx, why)
}
