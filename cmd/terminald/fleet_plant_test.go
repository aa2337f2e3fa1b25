package main

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/mod/sumdb/note"

	"grattoir/device/terminal"
	"grattoir/sync/uplink"
	"grattoir/sync/wire"
	"grattoir/validate"
	"grattoir/validate/policy"
)

// plant is a bug that is put into the simulation, around the shipping code, to see that an
// invariant finds it. The zero plant is none.
type plant struct {
	name      string
	invariant int
	seed      uint64 // of an evening on which it does harm
	// counter and link stand between the ledger and who uses it, road before central.
	counter func(p *life, book terminal.Ledger) terminal.Ledger
	link    func(p *life, book uplink.Ledger) uplink.Ledger
	road    func(f *fleet, central http.Handler) http.Handler
	// trusted is the counter's trusted time, policy what it pays by.
	trusted      func(p *life) func() time.Time
	policy       func(p *life) func() policy.Policy
	late         bool // it is some minutes before the next day begins
	beforeReplay func(f *fleet)
	// at does something once, so long after the beginning.
	at        map[time.Duration]func(f *fleet)
	unbounded bool // no terminal has an allowance of its own
	rush      bool // many more customers
	// setClocks keeps everybody else from the clocks.
	setClocks bool
}

// TestFleetFindsPlantedBugs: each invariant was seen to fail.
func TestFleetFindsPlantedBugs(t *testing.T) {
	if raceEnabled {
		t.Skip("what an observer finds does not depend on the race detector, which takes minutes here: make test looks for planted bugs beside it")
	}
	for _, p := range plants() {
		p.seed = cmp.Or(p.seed, 1)
		t.Run(fmt.Sprintf("%d %s", p.invariant, p.name), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, p.seed, fleetSize{shops: 3, hours: 1}, p)
				f.evening()
				if !slices.ContainsFunc(f.broken, func(b breach) bool { return b.invariant == p.invariant }) {
					t.Errorf("invariant %d does not see it; broken: %+v; %s", p.invariant, f.broken, f.summary())
				}
			})
		})
	}
}

func plants() []plant {
	const soon, later = 20 * time.Minute, 40 * time.Minute
	return []plant{
		{name: "central forgets that it accepted a claim", invariant: 1, at: map[time.Duration]func(*fleet){
			later: func(f *fleet) {
				f.audit()
				f.alter(f.centralFile(), "DELETE FROM claims WHERE claim = (SELECT min(claim) FROM claims)")
			}}},
		{name: "central forgets a conflict", invariant: 1, rush: true, road: everybodyOwns, at: map[time.Duration]func(*fleet){
			later: func(f *fleet) { f.alter(f.centralFile(), "DELETE FROM conflicts") }}},
		{name: "a ledger that forgets", invariant: 2, counter: func(_ *life, book terminal.Ledger) terminal.Ledger { return &forgetful{Ledger: book} }},
		{name: "central comes back from a copy", invariant: 3, at: map[time.Duration]func(*fleet){
			soon:  func(f *fleet) { f.must(copyFiles(f.centralDir(), filepath.Join(f.dir, "copy"))) },
			later: centralFromCopy}},
		{name: "a number with two bodies", invariant: 4, seed: 2, rush: true, at: map[time.Duration]func(*fleet){soon: takeCard, later: useCard}},
		{name: "central's head goes back", invariant: 5, at: map[time.Duration]func(*fleet){
			later: func(f *fleet) {
				f.look()
				f.alter(f.centralFile(), "UPDATE terminals SET ack_seq = ack_seq - 1 WHERE ack_seq > 0")
				f.look()
			}}},
		{name: "somebody acknowledges what central did not commit", invariant: 5, road: acksInItsPlace},
		{name: "every terminal thinks every pack its own", invariant: 6, road: everybodyOwns},
		{name: "central allows before the owner holds", invariant: 6, rush: true, road: allowsAtOnce, at: map[time.Duration]func(*fleet){
			time.Minute: func(f *fleet) {
				for _, s := range f.shops[:2] {
					f.roads.partition(s.name, time.Hour)
				}
			}}},
		{name: "central's owner epoch goes back", invariant: 6, at: map[time.Duration]func(*fleet){
			later: func(f *fleet) {
				f.audit()
				f.alter(f.centralFile(), "UPDATE packs SET epoch = 0 WHERE pack = 1")
			}}},
		{name: "no allowance", invariant: 7, seed: 2, unbounded: true, rush: true,
			link: func(_ *life, book uplink.Ledger) uplink.Ledger { return generous{book} },
			at:   map[time.Duration]func(*fleet){soon: func(f *fleet) { f.roads.partition("", time.Hour) }}},
		{name: "a repetition is answered anew", invariant: 8, beforeReplay: func(f *fleet) { f.alter(f.centralFile(), "DELETE FROM acks") },
			at: map[time.Duration]func(*fleet){time.Second: func(f *fleet) {
				for _, s := range f.shops {
					f.roads.spoil(s.name, time.Hour)
				}
			}}},
		{name: "the feed's cursor goes back", invariant: 9, at: map[time.Duration]func(*fleet){
			later: func(f *fleet) {
				f.look()
				f.roads.partition("", 5*time.Minute)
				for _, s := range f.shops {
					if s.on != nil {
						f.alter(s.on.config.Ledger(), "UPDATE link SET cursor = 0")
					}
				}
			}}},
		{name: "half a block is visible", invariant: 9, at: map[time.Duration]func(*fleet){later: halfABlock}},
		{name: "the device's clock decides", invariant: 10, setClocks: true, rush: true, trusted: func(p *life) func() time.Time { return p.shop.clock },
			at: map[time.Duration]func(*fleet){time.Second: func(f *fleet) {
				for _, s := range f.shops {
					s.shift.Store(int64(40 * 24 * time.Hour))
				}
			}}},
		{name: "a lane that sleeps for ever", invariant: 11, link: func(_ *life, book uplink.Ledger) uplink.Ledger { return deaf{book} }},
		{name: "an amount changes at central", invariant: 12, at: map[time.Duration]func(*fleet){
			later: func(f *fleet) {
				f.alter(f.centralFile(), "UPDATE claims SET amount_minor = amount_minor + 1 WHERE claim = (SELECT min(claim) FROM claims)")
			}}},
		{name: "the feed leaves out what is suspended", invariant: 15, rush: true, road: leavesOut, at: map[time.Duration]func(*fleet){
			5 * time.Minute: func(f *fleet) { f.gameStopped(nil, f.dice("plant")) }}},
		{name: "the old limits stay", invariant: 16, seed: 2, late: true, policy: func(p *life) func() policy.Policy { return p.shop.f.limits },
			at: map[time.Duration]func(*fleet){time.Minute: (*fleet).newPolicy, 20 * time.Minute: showLarge, 25 * time.Minute: showLarge, 30 * time.Minute: showLarge}},
		{name: "no certificate is renewed", invariant: 17, road: func(_ *fleet, next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == wire.PathRenew {
					w.WriteHeader(http.StatusServiceUnavailable)
					return
				}
				next.ServeHTTP(w, r)
			})
		}},
		{name: "a reader that never ends", invariant: 13, rush: true, at: map[time.Duration]func(*fleet){time.Second: neverEnds}},
	}
}

func (f *fleet) centralFile() string { return filepath.Join(f.centralDir(), "central.db") }

// alter changes a database behind its program's back.
func (f *fleet) alter(path, statement string) {
	db, err := sql.Open("sqlite3", "file:"+path+"?_busy_timeout=5000")
	f.must(err)
	_, err = db.Exec(statement)
	f.must(err)
	f.must(db.Close())
}

// forgetful says that it recorded a claim, and every third time it has not.
type forgetful struct {
	terminal.Ledger
	n atomic.Int64
}

func (l *forgetful) Record(ctx context.Context, c validate.Claim) (validate.Receipt, error) {
	if n := l.n.Add(1); n%3 == 0 {
		return validate.Receipt{Claim: c, Number: validate.EntryNumber{Epoch: 1, Seq: 100000 + n}, Print: validate.Printed}, nil
	}
	return l.Ledger.Record(ctx, c)
}

func centralFromCopy(f *fleet) {
	f.look()
	f.stopCentral()
	f.copies++
	f.must(os.Rename(filepath.Join(f.dir, "copy"), f.centralDir()))
	f.centralBack()
}

// takeCard and useCard put an older card back, and the observer is not told.
func takeCard(f *fleet) {
	s := f.shops[0]
	s.cutPower()
	s.spare = filepath.Join(f.dir, "card")
	f.must(copyFiles(s.dir, s.spare))
	s.shut = false
	s.power()
}

func useCard(f *fleet) {
	f.audit() // what was written till now is noted
	s := f.shops[0]
	f.roads.partition(s.name, time.Hour)
	s.cutPower()
	s.dir = s.spare
	f.truth.forget(s, false)
	s.shut = false
	s.power()
}

// everybodyOwns makes each terminal hear that each pack is its own.
func everybodyOwns(_ *fleet, next http.Handler) http.Handler {
	return falseFeed(next, func(feed *wire.Feed, to string) {
		for _, item := range feed.Items {
			if item.Pack != nil {
				item.Pack.Owner = to
			}
		}
	})
}

// leavesOut lets no terminal hear what is suspended, and all that comes after it.
func leavesOut(_ *fleet, next http.Handler) http.Handler {
	return falseFeed(next, func(feed *wire.Feed, _ string) {
		for i := range feed.Items {
			if feed.Items[i].Suspension != nil {
				feed.Items[i] = wire.FeedItem{Seq: feed.Items[i].Seq, Kind: "nothing"}
			}
		}
	})
}

// falseFeed changes what a terminal hears.
func falseFeed(next http.Handler, change func(feed *wire.Feed, to string)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != wire.PathFeed {
			next.ServeHTTP(w, r)
			return
		}
		answer := httptest.NewRecorder()
		next.ServeHTTP(answer, r)
		var feed wire.Feed
		if json.Unmarshal(answer.Body.Bytes(), &feed) == nil && answer.Code == http.StatusOK {
			change(&feed, from(r.Context()))
			answer.Body.Reset()
			_ = json.NewEncoder(answer.Body).Encode(feed)
		}
		answer.Header().Del("Content-Length")
		maps.Copy(w.Header(), answer.Header())
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes())
	})
}

// allowsAtOnce writes into central's book what owners have not answered.
func allowsAtOnce(f *fleet, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == wire.PathClaim {
			f.spawn(func() {
				time.Sleep(time.Second) // while central waits for the owner
				f.standing.RLock()
				defer f.standing.RUnlock()
				if f.central != nil {
					f.alter(f.centralFile(), "UPDATE holds SET state = 'held' WHERE state = 'asked'")
				}
			})
		}
		next.ServeHTTP(w, r)
	})
}

// showLarge has each shop shown a prize that the next day's policy does not pay at a counter.
func showLarge(f *fleet) {
	for _, s := range f.shops {
		if i := slices.IndexFunc(s.fresh, func(l *lot) bool { return l.amount > lowerLimit && l.amount <= f.limits().ShopLimit }); i >= 0 {
			s.fresh[i].at = s
			s.serve(s.fresh[i])
		}
	}
}

// acksInItsPlace answers uploads with central's own key, and central never sees them.
func acksInItsPlace(f *fleet, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		f.must(err)
		r.Body = io.NopCloser(bytes.NewReader(body))
		var u wire.Upload
		if r.URL.Path != wire.PathJournal || json.Unmarshal(body, &u) != nil {
			next.ServeHTTP(w, r)
			return
		}
		key, err := os.ReadFile(filepath.Join(f.centralDir(), "keys", "sign.key"))
		f.must(err)
		signer, err := note.NewSigner(strings.Fields(string(key))[0])
		f.must(err)
		ack := wire.Ack{Terminal: from(r.Context()), Position: u.To, Time: time.Now(), AllowanceClaims: fleetClaims, AllowanceMinor: fleetMinor}
		signed, err := note.Sign(&note.Note{Text: ack.Text()}, signer)
		f.must(err)
		w.Header().Set(wire.HeaderRequest, r.Header.Get(wire.HeaderRequest))
		w.Header().Set("Content-Type", "application/json")
		f.must(json.NewEncoder(w).Encode(wire.UploadAnswer{Protocol: wire.Protocol, Acked: string(signed), Exceptions: []wire.Exception{}}))
	})
}

// generous lifts the bound that comes with an acknowledgement.
type generous struct{ uplink.Ledger }

func (g generous) Ack(ctx context.Context, a wire.Ack) error {
	a.AllowanceClaims, a.AllowanceMinor, a.Note = 0, 0, ""
	return g.Ledger.Ack(ctx, a)
}

// deaf never tells that the journal has grown.
type deaf struct{ uplink.Ledger }

func (deaf) Changed() <-chan struct{} { return make(chan struct{}) }

func halfABlock(f *fleet) {
	for _, s := range f.shops {
		list, err := filepath.Glob(filepath.Join(s.config().Manifests(), "*"+manifestSuffix))
		f.must(err)
		for _, path := range list {
			info, err := os.Stat(path)
			f.must(err)
			f.must(os.Truncate(path, info.Size()/2))
		}
	}
	f.audit()
}

// neverEnds reads each ledger in a transaction that is never over.
func neverEnds(f *fleet) {
	for _, s := range f.shops {
		db, err := sql.Open("sqlite3", "file:"+s.on.config.Ledger()+"?mode=ro")
		f.must(err)
		tx, err := db.Begin()
		f.must(err)
		var n int
		f.must(tx.QueryRow("SELECT count(*) FROM entries").Scan(&n))
		f.atEnd = append(f.atEnd, func() { _ = tx.Rollback(); _ = db.Close() })
	}
}
