package central

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"grattoir/sync/ledger"
	"grattoir/sync/wire"
	"grattoir/validate"
	"grattoir/validate/policy"
)

// atOnce runs all acts beside each other.
func atOnce(acts ...func()) {
	var group sync.WaitGroup
	begin := make(chan struct{})
	for _, act := range acts {
		group.Go(func() { <-begin; act() })
	}
	close(begin)
	group.Wait()
}

// TestHotTerminalsLoseNoClaimAndNoNumber: terminals that all pay each other's tickets and
// their own, each over two connections, while operations move packs and close emissions.
func TestHotTerminalsLoseNoClaimAndNoNumber(t *testing.T) {
	onEachStore(t, testHotTerminalsLoseNoClaimAndNoNumber)
}

func testHotTerminalsLoseNoClaimAndNoNumber(t *testing.T, w *world) {
	const terminals, batches, batch = 4, 6, 4
	won := w.winners(10, 19)
	var acts []func()
	var devices []*device
	for i := range terminals {
		d := w.enrolled(t, fmt.Sprintf("T-%d", i))
		w.give(t, d.name, uint32(10+2*i), uint32(10+2*i))
		devices = append(devices, d)
	}
	for i, d := range devices {
		for k := range batches * batch { // every terminal in another order, forwards and backwards
			at := (i*5 + k) % len(won)
			if i%2 == 1 {
				at = len(won) - 1 - at
			}
			d.pay(t, won[at])
		}
		for range 2 {
			acts = append(acts, func() {
				for b := range int64(batches) {
					var a wire.UploadAnswer
					if e := post(t, d.client, wire.PathJournal, d.upload(t, b*batch+1, (b+1)*batch), &a); e != nil && e.Kind != wire.KindBehind {
						t.Errorf("%s: %v", d.name, e)
					}
				}
			})
		}
	}
	acts = append(acts, func() {
		for i := range 4 {
			if err := w.SetRegion(t.Context(), "T-0", fmt.Sprintf("r%d", i)); err != nil {
				t.Error(err)
			}
			on := policy.Date{}
			if i%2 == 0 {
				on = policy.DateOf(noon)
			}
			if _, err := w.CloseEmission(t.Context(), "bingo", "1", on, 30, false); err != nil {
				t.Error(err)
			}
		}
	}, func() {
		for pack := uint32(11); pack < 18; pack += 2 {
			w.give(t, "T-0", pack, pack)
		}
	})
	atOnce(acts...)
	entries := 0
	for _, d := range devices {
		d.send(t, 1, int64(len(d.lines))) // what came before its turn, again
		entries += len(d.lines)
	}
	for query, want := range map[string]int{
		"SELECT count(*) FROM entries": entries,
		"SELECT count(*) FROM entries e WHERE kind = 'claim' AND NOT EXISTS (SELECT 1 FROM claims c WHERE c.terminal = e.terminal AND c.epoch = e.epoch AND c.seq = e.seq)" +
			" AND NOT EXISTS (SELECT 1 FROM conflicts x WHERE x.terminal = e.terminal AND x.epoch = e.epoch AND x.seq = e.seq)": 0,
		"SELECT (SELECT count(*) FROM claims) + (SELECT count(*) FROM conflicts)":      entries,
		"SELECT max(seq) - count(*) FROM feed":                                         0, // numbers from 1, no gap
		"SELECT value - (SELECT max(seq) FROM feed) FROM counters WHERE name = 'feed'": 0,
		"SELECT count(*) FROM block_regions r WHERE NOT EXISTS (SELECT 1 FROM packs p JOIN terminals t ON t.name = p.owner WHERE p.block_id = r.block_id AND t.region = r.region)":                    0,
		"SELECT count(*) FROM packs p JOIN terminals t ON t.name = p.owner WHERE t.region <> '' AND NOT EXISTS (SELECT 1 FROM block_regions r WHERE r.block_id = p.block_id AND r.region = t.region)": 0,
		"SELECT max(version) - count(*) FROM snapshots":                                                                         0,
		"SELECT count(*) FROM packs WHERE epoch <> 1 OR state <> 'active'":                                                      0,
		"SELECT count(*) FROM claims c JOIN packs p ON p.block_id = c.block_id AND p.pack = c.pack WHERE p.owner <> c.terminal": 0,
	} {
		if n := w.count(t, query); n != want {
			t.Errorf("%d, want %d: %s", n, want, query)
		}
	}
	// The last snapshot lists what the tables have: nothing was overlooked meanwhile.
	version, _, err := w.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := w.store.change(t.Context(), w.relist); err != nil {
		t.Fatal(err)
	}
	if again, _, err := w.Snapshot(t.Context()); err != nil || again != version {
		t.Errorf("snapshot %d did not list all that was decided, %d does: %v", version, again, err)
	}
	if s, ok := w.store.(*postgresStore); ok && strings.Contains(w.opt.Database, "serializable") && s.again.Load() == 0 {
		t.Error("no transaction was ever run again: the test proves nothing")
	}
}

// TestWhatOneMayDoOnlyOneOfManyDoes: acts that are allowed once, asked for at once.
func TestWhatOneMayDoOnlyOneOfManyDoes(t *testing.T) {
	onEachStore(t, testWhatOneMayDoOnlyOneOfManyDoes)
}

func testWhatOneMayDoOnlyOneOfManyDoes(t *testing.T, w *world) {
	const many = 4
	ctx := t.Context()
	// only counts what succeeded; all else must be refused.
	only := func(what string, act func(i int) error) {
		t.Helper()
		var done atomic.Int64
		var acts []func()
		for i := range many {
			acts = append(acts, func() {
				err := act(i)
				if err == nil {
					done.Add(1)
				} else if e := (*wire.Error)(nil); !errors.Is(err, ErrRefused) && (!errors.As(err, &e) || e.Kind != wire.KindBadCode) {
					t.Errorf("%s: %v", what, err)
				}
			})
		}
		atOnce(acts...)
		if n := done.Load(); n != 1 {
			t.Errorf("%s: done %d times", what, n)
		}
	}
	code, err := w.AddTerminal(ctx, "T-9")
	if err != nil {
		t.Fatal(err)
	}
	var requests []wire.EnrolRequest
	for range many {
		requests = append(requests, wire.EnrolRequest{Protocol: 1, Code: code.Code, CSR: makeCSR(t, newKey(t))})
	}
	only("a code enrols a device", func(i int) error { _, err := w.enrol(ctx, requests[i]); return err })
	if n := w.count(t, "SELECT count(*) FROM device_keys"); n != 1 {
		t.Errorf("%d keys are enrolled", n)
	}
	for i := range many {
		w.enrolled(t, fmt.Sprintf("T-%d", i))
	}
	only("a pack is delivered", func(i int) error {
		_, err := w.Deliver(ctx, "399", 19, 19, fmt.Sprintf("T-%d", i))
		return err
	})
	only("a pack is activated", func(int) error { _, err := w.Activate(ctx, "399", 19, 19); return err })

	d := newDesk(t, w, "T-8")
	w.give(t, "T-8", 10, 18)
	receipt, err := d.record(t, w.winners(10, 18)[0], 0, 1)
	if err == nil {
		_, err = d.book.RequestReversal(ctx, validate.Reversal{ID: fmt.Sprintf("%032x", 77), Number: receipt.Number, Reason: validate.PlayerLeft, Operator: "marie", Manager: "paul"})
	}
	if err != nil {
		t.Fatal(err)
	}
	d.sync(t)
	only("a reversal is decided", func(i int) error { _, err := w.Decide(ctx, "T-8", receipt.Number, i%2 == 0, ""); return err })

	r := newRegistry(t, "T-8")
	s := r.file(t)
	atOnce(func() { _, _ = d.identities(t, s) }, func() { _, _ = d.identities(t, s) })
	w.lookers(t)
	q, err := w.AskIdentity(ctx, s.Claims[0], "claire", "why")
	if err != nil {
		t.Fatal(err)
	}
	only("a request is agreed to", func(int) error { return w.AgreeIdentity(ctx, q.Number, "denis") })
	only("a request is opened", func(int) error { _, err := w.OpenIdentity(ctx, q.Number, "claire", r.secret); return err })
	var asked sync.Map
	ask := func() {
		q, err := w.AskIdentity(ctx, s.Claims[0], "claire", "why")
		if _, twice := asked.LoadOrStore(q.Number, true); err != nil || twice {
			t.Errorf("request %d, given before: %v: %v", q.Number, twice, err)
		}
	}
	atOnce(ask, ask, ask, ask)
	if list, err := auditOf(t, w.Central); err != nil || len(list) != 7 {
		t.Errorf("an audit of %d lines: %v", len(list), err)
	}
}

// TestZeroByteOfATerminalStopsNoQueue: a terminal may write what it likes into a claim.
func TestZeroByteOfATerminalStopsNoQueue(t *testing.T) {
	onEachStore(t, testZeroByteOfATerminalStopsNoQueue)
}

func testZeroByteOfATerminalStopsNoQueue(t *testing.T, w *world) {
	d := w.enrolled(t, "T-1")
	w.give(t, "T-1", 10, 19)
	won := w.winners(10, 19)
	c := d.claim(t, won[0])
	c.Operator = "ma\x00rie"
	d.record(t, "claim", c)
	c = d.claim(t, won[1])
	c.Currency = "\x00\x00\x00"
	d.record(t, "claim", c)
	d.record(t, "a\x00kind", map[string]string{"x": "\x00"})
	ack, a := d.send(t, 1, 3)
	if ack.Position != d.head(3) || len(a.Exceptions) != 2 {
		t.Fatalf("%+v, exceptions %+v", ack.Position, a.Exceptions)
	}
	if _, again := d.send(t, 1, 3); again.Acked != a.Acked {
		t.Fatal("another answer the second time")
	}
	if n := w.count(t, "SELECT count(*) FROM claims WHERE operator = $1", "ma\uFFFDrie"); n != 1 {
		t.Fatal("the claim is not credited under what can be stored of its operator")
	}
}

// TestUploadOfManyLinesIsStoredWhole: more lines than go in one statement, the first of
// them held already.
func TestUploadOfManyLinesIsStoredWhole(t *testing.T) {
	onEachStore(t, testUploadOfManyLinesIsStoredWhole)
}

func testUploadOfManyLinesIsStoredWhole(t *testing.T, w *world) {
	const n = entriesAtOnce + 80
	d := w.enrolled(t, "T-1")
	for i := range n {
		d.record(t, ledger.KindTraining, ledger.TrainingBody{On: i%2 == 0, Operator: "marie"})
	}
	d.send(t, 1, 7)
	ack, a := d.send(t, 1, n)
	if ack.Position != d.head(n) || len(a.Exceptions) != 0 {
		t.Fatalf("%+v, exceptions %+v", ack.Position, a.Exceptions)
	}
	for seq := range int64(n) {
		var line []byte
		if err := w.Reader().QueryRow("SELECT line FROM entries WHERE terminal = 'T-1' AND epoch = 1 AND seq = $1", seq+1).Scan(&line); err != nil || string(line) != d.lines[seq] {
			t.Fatalf("entry %d: %v", seq+1, err)
		}
	}
}
