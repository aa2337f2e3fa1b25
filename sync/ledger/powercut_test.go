package ledger

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"grattoir/sync/ledger/powercut"
	"grattoir/sync/wire"
	"grattoir/validate"
)

// The power is cut under the ledger, at every step of everything it does to its disk.
// One life of a terminal is a run of acts on the ledger over a disk that logs; at each
// place in that log the power goes, and the disk holds what was synced and any part of
// what was not (see package powercut). Opened again, the ledger must be in the very state
// it was in after the last act that had returned, or after the one under way. The next
// life begins with one of those disks.

// TestAcknowledgedClaimsSurvivePowerCuts is the promise: whatever was acknowledged is
// there, whatever was not is there whole or not at all, and nothing is paid twice. The
// second disk is worse than SQLite's default believes in, as cards and cheap flash are:
// a sector that is cut off takes its neighbours with it.
func TestAcknowledgedClaimsSurvivePowerCuts(t *testing.T) {
	cuts := 50_000
	switch {
	case os.Getenv("GRATTOIR_SOAK") != "" && !raceEnabled:
		cuts = 2_000_000
	case raceEnabled: // make test runs it again without the detector
		cuts = 1_000
	}
	for _, disk := range []struct {
		name  string
		hw    powercut.Hardware
		share int // in fifths
	}{
		{"sectors of 512 bytes", powercut.Hardware{}, 3},
		{"sectors of 4096 bytes that take their neighbours with them", powercut.Hardware{Sector: 4096, Neighbours: true}, 2},
	} {
		t.Run(disk.name, func(t *testing.T) {
			sum := cutPower(t, trial{cuts: cuts * disk.share / 5, hw: disk.hw})
			if sum.lost+sum.damaged+sum.twice > 0 || sum.cuts < cuts*disk.share/5 {
				t.Errorf("%v; the first: %s", sum, sum.first)
			}
		})
	}
}

// TestPowerCutsFindALedgerThatSyncsTooLittle shows that the test above can fail: with
// synchronous=NORMAL acknowledged claims are lost, and never more than that; with OFF the
// file is damaged as well; and on a disk whose sectors take their neighbours with them, a
// ledger that believes in powersafe overwrites loses what it had acknowledged.
func TestPowerCutsFindALedgerThatSyncsTooLittle(t *testing.T) {
	weak := 2000 // beyond the opening of the first lives
	if raceEnabled {
		weak = 600
	}
	for _, c := range []struct {
		name    string
		trial   trial
		damaged bool
	}{
		{"NORMAL", trial{cuts: weak, hooks: hooks{synchronous: "NORMAL"}}, false},
		{"OFF", trial{cuts: weak, hooks: hooks{synchronous: "OFF"}}, true},
		{"believing", trial{cuts: weak, hw: powercut.Hardware{Sector: 4096, Neighbours: true}, hooks: hooks{believing: true}}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			sum := cutPower(t, c.trial)
			if sum.lost == 0 || (sum.damaged > 0) != c.damaged {
				t.Errorf("%v; the first: %s", sum, sum.first)
			}
		})
	}
}

// trial is one run of the simulation.
type trial struct {
	cuts  int
	hw    powercut.Hardware
	hooks hooks
}

// summary is what became of the ledgers.
type summary struct {
	cuts, unsynced, same int // cuts, those with something in the air, and those that left a disk which was opened already
	lives, acts, events  int
	lost, damaged, twice int
	first                string // what was found first
	took                 time.Duration
}

func (s summary) String() string {
	return fmt.Sprintf("%d cuts, %d of them into unsynced writes, %d different disks left, at %d steps of %d acts in %d lives: %d acknowledged acts lost, %d ledgers damaged, %d tickets paid twice; %v",
		s.cuts, s.unsynced, s.cuts-s.same, s.events, s.acts, s.lives, s.lost, s.damaged, s.twice, s.took.Round(time.Millisecond))
}

func (s *summary) add(o summary) {
	s.cuts, s.unsynced, s.same, s.lives, s.acts, s.events = s.cuts+o.cuts, s.unsynced+o.unsynced, s.same+o.same, s.lives+o.lives, s.acts+o.acts, s.events+o.events
	s.lost, s.damaged, s.twice = s.lost+o.lost, s.damaged+o.damaged, s.twice+o.twice
	if s.first == "" {
		s.first = o.first
	}
}

// cutPower runs terminals, each with its own seed, until there were enough cuts.
func cutPower(t *testing.T, tr trial) summary {
	t.Helper()
	start := time.Now()
	var sum summary
	var mu sync.Mutex
	var all sync.WaitGroup
	var begun atomic.Int64
	seed := uint64(0)
	for n := range runtime.GOMAXPROCS(0) {
		v := newVictim(t, tr, n)
		v.another = func() bool { return begun.Add(1) <= int64(tr.cuts) }
		all.Go(func() {
			defer v.close()
			for {
				mu.Lock()
				done := begun.Load() >= int64(tr.cuts) || t.Failed()
				seed++
				own := seed
				mu.Unlock()
				if done {
					return
				}
				v.terminal(own, func(lived summary) bool {
					mu.Lock()
					defer mu.Unlock()
					sum.add(lived)
					return sum.cuts < tr.cuts
				})
			}
		})
	}
	all.Wait()
	sum.took = time.Since(start)
	t.Log(sum)
	return sum
}

// victim is one terminal: the disk it lives on, and another for looking at what the cuts
// have left.
type victim struct {
	t           *testing.T
	trial       trial
	path        string
	disk, after *powercut.Disk
	life, look  string // the two disks' names
	seed        uint64
	rng         *rand.Rand
	sum         summary
	claims      int         // numbers claims over all lives
	another     func() bool // asks for one more cut
}

func newVictim(t *testing.T, tr trial, n int) *victim {
	t.Helper()
	v := &victim{t: t, trial: tr, path: filepath.Join(t.TempDir(), "ledger.db"), life: fmt.Sprintf("life-%d", n), look: fmt.Sprintf("look-%d", n)}
	var err1, err2 error
	v.disk, err1 = powercut.New(v.life)
	v.after, err2 = powercut.New(v.look)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	return v
}

func (v *victim) close() {
	if err := errors.Join(v.disk.Close(), v.after.Close()); err != nil {
		v.t.Error(err)
	}
}

// state is all that the tables hold, hashed. The zero state is no ledger.
type state [sha256.Size]byte

// livesOf is how many lives a terminal has at most before the next one begins.
const livesOf = 4

// terminal lives a few lives, each begun with what a cut of the one before has left, as
// long as more are wanted.
func (v *victim) terminal(seed uint64, more func(lived summary) bool) {
	v.seed, v.rng, v.claims = seed, rand.New(rand.NewPCG(seed, 6)), 0
	var image powercut.Image
	existed := false
	for range livesOf {
		v.sum = summary{lives: 1}
		f := v.live(image, existed)
		var left bool
		image, existed, left = v.cutEverywhere(f)
		if !more(v.sum) || !left || v.t.Failed() {
			return
		}
	}
}

// deed is something that was done to the ledger: the steps of the disk's log that it took,
// and the state afterwards.
type deed struct {
	name       string
	begun, end int
	state      state
	paid       *validate.Claim
}

// life is a run of acts, of which the first opens the ledger and the last closes it.
type life struct {
	existed bool // there was a ledger before
	acts    []deed
}

// live runs acts over the disk that logs.
func (v *victim) live(image powercut.Image, existed bool) life {
	if err := v.disk.Load(image); err != nil {
		v.t.Error(err)
	}
	f := life{existed: existed}
	l, err := Open(context.Background(), v.options(v.life, existed))
	if err != nil {
		v.t.Errorf("seed %d: a ledger that was found whole does not open: %v", v.seed, err)
		return f
	}
	h := &hand{victim: v, l: l}
	f.acts = append(f.acts, deed{name: "open", end: v.disk.Len(), state: h.state()})
	for range 15 + v.rng.IntN(30) {
		if v.rng.IntN(12) == 0 {
			f.acts = append(f.acts, h.killed()...)
			continue
		}
		a := deed{begun: v.disk.Len()}
		a.name, a.paid = h.act()
		a.end, a.state = v.disk.Len(), h.state()
		f.acts = append(f.acts, a)
	}
	a := deed{name: "sign the head", begun: v.disk.Len()}
	if err := errors.Join(h.letGo(), h.l.SignHead(context.Background(), HeadStop)); err != nil { // so that closing changes nothing
		v.t.Error(err)
	}
	a.end, a.state = v.disk.Len(), h.state()
	f.acts = append(f.acts, a)
	a = deed{name: "close", begun: a.end, state: a.state}
	if err := h.l.Close(); err != nil {
		v.t.Error(err)
	}
	a.end = v.disk.Len()
	f.acts = append(f.acts, a)
	v.sum.acts, v.sum.events = v.sum.acts+len(f.acts), v.sum.events+a.end
	return f
}

// options name a disk, and lay the lock file as it was left: with its note, or new.
func (v *victim) options(disk string, noted bool) Options {
	opt := options(filepath.Dir(v.path))
	opt.hooks, opt.Sign = v.trial.hooks, func(text []byte) ([]byte, error) { return text[:8], nil } // its bytes prove nothing here
	opt.hooks.vfs = disk
	opt.Audits = func(context.Context) []AuditHead { return []AuditHead{auditHead("operators", 5)} } // noted once
	note := ""
	if noted {
		note = "ledger of terminal T-1 exists\n"
	}
	if err := os.WriteFile(v.path+".lock", []byte(note), 0o600); err != nil {
		v.t.Error(err)
	}
	return opt
}

// cutEverywhere cuts a life at every step of its disk, several times where something was
// in the air, looks at what is left, and gives one of these disks for the next life.
func (v *victim) cutEverywhere(f life) (next powercut.Image, existed, left bool) {
	p := v.disk.Platter()
	opened := map[disk]finding{}
	whole := 0
	for more := len(f.acts) > 0; more && !v.t.Failed(); more = p.Next() {
		times := 1
		if p.Unsynced() > 0 {
			times = 3 + v.rng.IntN(4)
		}
		if raceEnabled && v.rng.IntN(8) > 0 {
			continue // the detector is slow
		}
		for range times {
			if !v.another() {
				return next, existed, false
			}
			v.sum.cuts++
			if p.Unsynced() > 0 {
				v.sum.unsynced++
			}
			image := p.Image(v.rng, v.trial.hw)
			if !v.inspect(f, p.At(), image, opened) {
				continue
			}
			if whole++; v.rng.IntN(whole) == 0 {
				next, existed = image, f.existed || p.At() >= f.acts[0].end
			}
		}
	}
	return next, existed, whole > 0
}

// disk is what a cut has left, told apart by its bytes, and whether a ledger was noted
// beside it.
type disk struct {
	sum   [sha256.Size]byte
	noted bool
}

// finding is what a disk held when it was opened, and what was wrong with it.
type finding struct {
	state state
	count *int // which of the sums it belongs to, nil when all was well
	what  string
}

// inspect looks at what a cut has left and tells whether all is well. Cuts at several
// places often leave the same disk: it is opened once, and what it holds must be right at
// each of them.
func (v *victim) inspect(f life, at int, image powercut.Image, opened map[disk]finding) bool {
	done := 0 // the last act that had returned; opening may still be under way
	for done+1 < len(f.acts) && f.acts[done+1].end <= at {
		done++
	}
	under := done // the act under way, if there is one
	if done+1 < len(f.acts) && f.acts[done+1].begun <= at {
		under++
	}
	d := disk{image.Sum(), f.existed || at >= f.acts[0].end}
	found, again := opened[d]
	if again {
		v.sum.same++
	} else {
		found = v.open(d, image, f.acts[:done+1], f.acts[under].state)
		opened[d] = found
	}
	if found.count == nil && found.state != f.acts[done].state && found.state != f.acts[under].state {
		found.count, found.what = &v.sum.lost, "the state is not the one after "+f.acts[done].name
	}
	if found.count == nil {
		return true
	}
	*found.count++
	if v.sum.first == "" {
		v.sum.first = fmt.Sprintf("seed %d, after step %d, in %s: %s", v.seed, at, f.acts[min(done+1, len(f.acts)-1)].name, found.what)
	}
	return false
}

// open opens a disk: after acts that had returned, with perhaps another under way that
// leads to a state.
func (v *victim) open(d disk, image powercut.Image, acts []deed, under state) finding {
	if err := v.after.Load(image); err != nil {
		v.t.Error(err)
	}
	opt := v.options(v.look, d.noted)
	opt.Sign = nil // so that closing has nothing to write
	l, err := Open(context.Background(), opt)
	switch {
	case errors.Is(err, ErrGone):
		return finding{count: &v.sum.lost, what: err.Error()}
	case err != nil:
		return finding{count: &v.sum.damaged, what: err.Error()}
	}
	defer func() { _ = l.Close() }()
	got, err := stateOf(l.db) // the connection that is open: another takes longer than all the rest
	if err != nil {
		return finding{count: &v.sum.damaged, what: err.Error()}
	}
	known := got == acts[len(acts)-1].state || got == under
	// A known state holds every row that it held when it was verified.
	if err := intact(l, !known || v.rng.IntN(10) == 0); err != nil {
		return finding{count: &v.sum.damaged, what: err.Error()}
	}
	if err := goesOn(v.t, l, acts, v.rng); known && err != nil {
		return finding{count: &v.sum.twice, what: err.Error()}
	}
	return finding{state: got}
}

// goesOn tells whether the ledger goes on as it should: a ticket whose payment was
// acknowledged is refused, and another is paid.
func goesOn(t *testing.T, l *Ledger, acts []deed, rng *rand.Rand) error {
	var paid []*validate.Claim
	for _, a := range acts {
		if a.paid != nil {
			paid = append(paid, a.paid)
		}
	}
	if len(paid) > 0 {
		again := *paid[len(paid)-1]
		if rng.IntN(2) == 0 {
			again = *paid[rng.IntN(len(paid))]
		}
		again.ID = "ffffffffffffffffffffffffffffffff"
		if _, err := l.Record(context.Background(), again); !errors.Is(err, ErrPaid) {
			return fmt.Errorf("ticket %d is paid again: %w", again.Ticket.Number, err)
		}
	}
	if rng.IntN(4) > 0 {
		return nil
	}
	if _, err := l.Record(context.Background(), claim(t, 999)); err != nil {
		return fmt.Errorf("another ticket is not paid: %w", err)
	}
	return nil
}

// intact lets SQLite look at every page and, with chain, verifies all of it.
func intact(l *Ledger, chain bool) error {
	if chain {
		_, err := l.Verify(context.Background())
		return err
	}
	return sound(context.Background(), l.db)
}

// stateOf hashes every row of every table.
func stateOf(db *sql.DB) (state, error) {
	h := sha256.New()
	rows, err := db.Query("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")
	if err != nil {
		return state{}, err
	}
	defer rows.Close()
	var tables []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return state{}, err
		}
		tables = append(tables, name)
	}
	for _, name := range tables {
		if err := hashTable(db, h, name); err != nil {
			return state{}, fmt.Errorf("table %s: %w", name, err)
		}
	}
	return state(h.Sum(nil)), rows.Err()
}

func hashTable(db *sql.DB, h io.Writer, name string) error {
	rows, err := db.Query("SELECT * FROM " + name) // in the order of its key
	if err != nil {
		return err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return err
	}
	values := make([]sql.RawBytes, len(columns))
	into := make([]any, len(columns))
	for i := range values {
		into[i] = &values[i]
	}
	line := append([]byte(name), '\n')
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return err
		}
		for _, v := range values {
			line = append(append(strconv.AppendInt(line, int64(len(v)), 10), ':'), v...)
		}
		_, _ = h.Write(line) // a hash takes everything
		line = line[:0]
	}
	return rows.Err()
}

// hand does things to a ledger.
type hand struct {
	*victim
	l    *Ledger
	open *sql.Rows // a reader that stands in the middle
	paid []validate.Receipt
}

// act does something, and tells what. A claim is given when it was paid.
func (h *hand) act() (string, *validate.Claim) {
	ctx := context.Background()
	switch n := h.rng.IntN(100); {
	case n < 45 || len(h.paid) == 0:
		h.claims++
		c := claim(h.t, h.claims)
		r, err := h.l.Record(ctx, c)
		h.paid = append(h.paid, r)
		return h.did("record", err), &c
	case n < 50:
		c := claim(h.t, int(h.some().Ticket.Number))
		c.ID = "eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee"
		_, err := h.l.Record(ctx, c)
		return h.did("record again", err, ErrPaid), nil
	case n < 62:
		states := []validate.PrintState{validate.Held, validate.Sent, validate.Consumed, validate.Printed, validate.Unknown}
		return h.did("mark", h.l.Mark(ctx, h.some().Number, states[h.rng.IntN(len(states))]), ErrNotFound), nil
	case n < 67:
		_, err := h.l.BeginCopy(ctx, h.some().Number)
		return h.did("begin copy", err), nil
	case n < 73:
		head, err := h.l.HeadPosition(ctx)
		return h.did("ack", errors.Join(err, h.l.Ack(ctx, wire.Ack{Terminal: "T-1", Position: head, Time: noon, AllowanceClaims: 900}))), nil
	case n < 80:
		return h.did("feed", h.feed(ctx)), nil
	case n < 82:
		return h.did("snapshot", h.l.SetSnapshot(ctx, int64(h.claims), noon)), nil
	case n < 84:
		return h.did("refused", h.l.SetRefused(ctx, []string{"", "C4"}[h.rng.IntN(2)])), nil
	case n < 87:
		_, err := h.l.Failed(ctx, h.some().Ticket)
		return h.did("failed secret", err), nil
	case n < 91:
		return h.did("shift", h.shift(ctx)), nil
	case n < 93:
		return h.did("reversal", h.reversal(ctx)), nil
	case n < 94:
		return h.did("sign the head", h.l.SignHead(ctx, HeadUpload)), nil
	case n < 98:
		return h.did("reader", h.look()), nil
	}
	return h.did("restart", h.restart()), nil
}

// state is the ledger's now, verified.
func (h *hand) state() state {
	if h.t.Failed() {
		return state{}
	}
	got, err := stateOf(h.l.read)
	if err := errors.Join(err, intact(h.l, true)); err != nil {
		h.t.Errorf("seed %d: %v", h.seed, err)
	}
	return got
}

func (h *hand) some() validate.Receipt { return h.paid[h.rng.IntN(len(h.paid))] }

// did reports an error that is not one of those that belong to the act.
func (h *hand) did(name string, err error, fine ...error) string {
	for _, f := range fine {
		if errors.Is(err, f) {
			err = nil
		}
	}
	if err != nil {
		h.t.Errorf("seed %d: %s: %v", h.seed, name, err)
	}
	return name
}

func (h *hand) feed(ctx context.Context) error {
	cursor, err := h.l.FeedCursor(ctx)
	if err != nil {
		return err
	}
	var items []wire.FeedItem
	for range 1 + h.rng.IntN(3) {
		cursor++
		first := uint32(h.rng.IntN(50))
		items = append(items, wire.FeedItem{Seq: cursor, Kind: wire.FeedPack, Pack: &wire.PackItem{GameCode: "00399", First: first, Last: first + uint32(h.rng.IntN(9)),
			State: validate.PackActive, Owner: "T-1", Epoch: int64(h.rng.IntN(3))}})
	}
	cursor++
	items = append(items, wire.FeedItem{Seq: cursor, Kind: wire.FeedPaid, Paid: &wire.PaidItem{Block: validate.BlockID{0xab}, Pack: 7,
		Ticket: uint16(h.rng.IntN(50)), Terminal: "T-2", Number: "1-000001", At: "2026-11-30T12:00:00.000Z"}})
	return h.l.ApplyFeed(ctx, items, cursor)
}

// shift opens a shift, or closes it and with it the day.
func (h *hand) shift(ctx context.Context) error {
	open, err := h.l.Shift(ctx)
	if err != nil || open == nil {
		_, again := h.l.OpenShift(ctx, "marie", 10000, "EUR")
		return errors.Join(err, again)
	}
	_, err = h.l.CloseShift(ctx, Ending{Operator: "marie"})
	return err
}

// reversal asks for one of a payment, or answers the one that it has.
func (h *hand) reversal(ctx context.Context) error {
	n := h.some().Number
	r, err := h.l.Reversal(ctx, n)
	if errors.Is(err, ErrNotFound) {
		_, err = h.l.RequestReversal(ctx, validate.Reversal{ID: fmt.Sprintf("%032x", n.Seq), Number: n, Reason: validate.ReversalReasons()[0], Operator: "marie", Manager: "paul"})
		return err
	}
	if err != nil || r.State != validate.ReversalRequested {
		return err
	}
	return h.l.ReversalAnswer(ctx, r.ID, false, "no")
}

// look begins a read, or ends the one that was begun: as long as it stands, the
// write-ahead log cannot begin anew.
func (h *hand) look() error {
	if h.open != nil {
		return h.letGo()
	}
	rows, err := h.l.read.Query("SELECT line FROM entries")
	if err != nil {
		return err
	}
	if h.open = rows; !rows.Next() {
		return h.letGo()
	}
	return nil
}

func (h *hand) letGo() error {
	if h.open == nil {
		return nil
	}
	err := h.open.Close()
	h.open = nil
	return err
}

// killed kills the program at some step of a payment and starts it again: the machine
// runs on. What the new one reads it may print and send, so from there on it must last.
func (h *hand) killed() []deed {
	var done []deed
	a := deed{name: "record and kill", begun: h.disk.Len()}
	h.claims++
	c := claim(h.t, h.claims)
	h.disk.KillAfter(h.rng.IntN(16))
	if r, err := h.l.Record(context.Background(), c); err == nil {
		a.paid, a.end, a.state = &c, h.disk.Len(), h.state()
		h.paid = append(h.paid, r)
		done, a = append(done, a), deed{name: "start after a kill", begun: h.disk.Len()}
	}
	_, _ = h.letGo(), h.l.Close() // it is dead: what it says does not count
	if err := h.disk.Revive(); err != nil {
		h.t.Error(err)
	}
	l, err := Open(context.Background(), h.options(h.life, true))
	if err != nil {
		h.t.Errorf("seed %d: after a kill: %v", h.seed, err)
	}
	h.l, a.end = l, h.disk.Len()
	a.state = h.state()
	return append(done, a)
}

func (h *hand) restart() error {
	if err := errors.Join(h.letGo(), h.l.Close()); err != nil {
		return err
	}
	l, err := Open(context.Background(), h.options(h.life, true))
	h.l = l
	return err
}
