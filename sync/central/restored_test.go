package central

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"grattoir/sync/ledger"
	"grattoir/sync/wire"
)

// restored puts the world's central back from a backup, into a database or a file.
func (w *world) restored(t *testing.T, backup, database string, roster bool, devices ...*device) {
	t.Helper()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	w.clock.advance(time.Hour)
	opt := Options{Dir: filepath.Join(t.TempDir(), "again"), Database: database, Now: w.clock.now}
	if _, err := Restore(t.Context(), backup, opt, roster); err != nil {
		t.Fatal(err)
	}
	w.Central = openCentral(t, Options{Dir: opt.Dir, Now: w.clock.now})
	w.patience = time.Millisecond
	w.dial = servePipes(t, w.Central)
	w.clock.advance(time.Minute)
	for _, d := range devices {
		d.connect(t)
	}
}

// meets says hello, with the newest acknowledgement that the device holds.
func (d *device) meets(t *testing.T, acked string) wire.HelloAnswer {
	t.Helper()
	a, e := d.hello(t, func(h *wire.Hello) { h.Head, h.Acked, h.Tells = d.head(int64(len(d.lines))), acked, true })
	if e != nil {
		t.Fatal(e)
	}
	return a
}

// tells answers what a hello asked, in as many parts as it takes.
func (d *device) tells(t *testing.T, asked *wire.Restored, s wire.Standing) (stand int) {
	t.Helper()
	s.Protocol, s.Mark = 1, asked.Mark
	for _, part := range s.Parts() {
		var a wire.StandingAnswer
		if e := post(t, d.client, wire.PathStanding, part, &a); e != nil {
			t.Fatal(e)
		}
		stand += a.Claims
	}
	return stand
}

func ackOf(item wire.FeedItem) wire.HoldAck {
	return wire.HoldAck{Hold: item.Seq, Block: item.Hold.Block, Pack: item.Hold.Pack, Ticket: item.Hold.Ticket}
}

// TestRestoredCentralHearsWhatItForgot is the drill: since the backup a ticket was allowed,
// another was allowed and paid, and a pack was moved. Terminals tell of it, one after the
// other, and at no moment is anything allowed that a silent one may have.
func TestRestoredCentralHearsWhatItForgot(t *testing.T) {
	for name, again := range map[string]func(testing.TB) string{"SQLite": func(testing.TB) string { return "" },
		"PostgreSQL": func(t testing.TB) string { return server.Fresh(t) }} {
		t.Run(name, func(t *testing.T) {
			w := newWorldOn(t, "")
			a, b, _ := two(t, w)
			c := w.enrolled(t, "T-C")
			w.patience = time.Millisecond
			all := w.winners(10, 19)
			moved := all[len(all)-1]
			var kept []lot // of packs that stay the owner's
			for _, l := range all {
				if l.code.Pack < moved.code.Pack {
					kept = append(kept, l)
				}
			}
			own := []wire.PackItem{{GameCode: w.block.GameCode, First: 10, Last: moved.code.Pack - 1, State: "active", Owner: "T-A", Epoch: 1}}
			backup := filepath.Join(t.TempDir(), "backup")
			if _, err := w.Backup(t.Context(), backup); err != nil {
				t.Fatal(err)
			}

			granted, paid := b.wanted(t, kept[0], 0xb1, 0), b.wanted(t, kept[1], 0xb2, 0)
			var held []wire.HoldAck
			cursor := int64(0)
			for _, body := range []ledger.ClaimBody{granted, paid} {
				wantState(t, b.ask(t, request(body)), wire.ClaimPending, wire.WhyOwnerSilent)
				item := a.hear(t, cursor)
				held, cursor = append(held, ackOf(item)), item.Seq
				if e := a.holds(t, item, 0); e != nil {
					t.Fatal(e)
				}
				wantState(t, b.ask(t, request(body)), wire.ClaimApproved, "")
			}
			b.record(t, ledger.KindClaim, paid)
			_, ackB := b.send(t, 1, 1)
			a.record(t, ledger.KindRelease, ledger.ReleaseBody{Reason: ledger.ReleaseAsked, Packs: []ledger.ReleasedPacks{{GameCode: w.block.GameCode, First: moved.code.Pack, Last: moved.code.Pack, OwnerEpoch: 1}}})
			_, ackA := a.send(t, 1, 1)
			runs, err := w.MovePacks(t.Context(), "399", moved.code.Pack, moved.code.Pack, "T-C", false)
			if err != nil {
				t.Fatal(err)
			}
			body := c.claim(t, moved)
			body.OwnerEpoch = runs[0].Epoch
			c.record(t, ledger.KindClaim, c.sealed(t, body, moved.code.Secret()))

			w.restored(t, backup, again(t), true, a, b, c)
			wanted := request(c.wanted(t, kept[0], 0xc1, 0))
			wantState(t, c.ask(t, wanted), wire.ClaimPending, wire.WhyOwnerSilent)
			if items := a.feed(t, cursor); len(items) > 0 {
				t.Errorf("the owner is asked for a hold before it has told what it held: %+v", items)
			}
			if _, err := w.MovePacks(t.Context(), "399", moved.code.Pack, moved.code.Pack, "T-B", true); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "put back") {
				t.Errorf("a pack that somebody may have: %v", err)
			}

			// The pack's owner tells: what it holds for nobody can be allowed, though T-B is silent.
			ask := a.meets(t, ackA.Acked).Restored
			if ask == nil || ask.Feed == 0 {
				t.Fatalf("not asked what it may pay: %+v", ask)
			}
			wantKind(t, a.refused(t, a.upload(t, 1, 1)), wire.KindBusy)
			a.tells(t, ask, wire.Standing{Packs: own, Held: held})
			if again := a.meets(t, ackA.Acked).Restored; again != nil {
				t.Errorf("asked again: %+v", again)
			}
			free := request(c.wanted(t, kept[2], 0xc2, 0))
			wantState(t, c.ask(t, free), wire.ClaimPending, wire.WhyOwnerSilent)
			if e := a.holds(t, a.hear(t, cursor), 0); e != nil {
				t.Fatal(e)
			}
			wantState(t, c.ask(t, free), wire.ClaimApproved, "")
			wantState(t, c.ask(t, wanted), wire.ClaimPending, wire.WhyOwnerSilent)
			a.send(t, 1, 1)

			// The pack's new owner has it again, at its epoch, with what it paid.
			if n := c.tells(t, c.meets(t, "").Restored, wire.Standing{Packs: runs, Claims: []wire.Permission{{ClaimRequest: free, OwnerEpoch: 1}}}); n != 1 {
				t.Errorf("%d permissions stand", n)
			}
			if _, answer := c.send(t, 1, 1); len(answer.Exceptions) > 0 {
				t.Errorf("a payment of a pack that was moved since the backup: %+v", answer.Exceptions)
			}
			if n := w.count(t, "SELECT count(*) FROM packs WHERE pack = $1 AND owner = 'T-C' AND epoch = $2", moved.code.Pack, runs[0].Epoch); n != 1 {
				t.Error("the pack that was moved is not its new owner's")
			}
			wantState(t, c.ask(t, wanted), wire.ClaimPending, wire.WhyOwnerSilent)
			if err := w.AllowClaims(t.Context(), "Mme Martin", false); !errors.Is(err, ErrRefused) {
				t.Errorf("allowed before all were heard: %v", err)
			}
			if p, err := w.Waiting(t.Context()); err != nil || len(p.Unheard) != 1 || p.Unheard[0] != "T-B" {
				t.Errorf("waits for %+v %v", p, err)
			}

			// The last one: its ticket is its own again, and what it paid counts.
			if n := b.tells(t, b.meets(t, ackB.Acked).Restored, wire.Standing{Claims: []wire.Permission{{ClaimRequest: request(granted), OwnerEpoch: 1}, {ClaimRequest: request(paid), OwnerEpoch: 1}}}); n != 2 {
				t.Errorf("%d permissions stand", n)
			}
			if _, answer := b.send(t, 1, 1); len(answer.Exceptions) > 0 {
				t.Errorf("a payment that was allowed: %+v", answer.Exceptions)
			}
			if p, err := w.Waiting(t.Context()); err != nil || p != nil {
				t.Errorf("waits for %+v %v", p, err)
			}
			wantState(t, c.ask(t, wanted), wire.ClaimDenied, wire.WhyGranted)
			wantState(t, b.ask(t, request(granted)), wire.ClaimApproved, "")

			// What moves from now on does so above every epoch of the forgotten time.
			items, err := w.MovePacks(t.Context(), "399", moved.code.Pack, moved.code.Pack, "T-B", true)
			if err != nil || items[0].Epoch <= epochJump || items[0].Owner != "" {
				t.Errorf("%+v %v", items, err)
			}
		})
	}
}

// TestRestoredCentralWaitsForAPersonWhereATerminalStaysSilent: a shop that is closed may
// have been allowed a ticket, and so may one that central does not know any more.
func TestRestoredCentralWaitsForAPersonWhereATerminalStaysSilent(t *testing.T) {
	w := newWorld(t)
	a, b, won := two(t, w)
	c := w.enrolled(t, "T-C")
	w.patience = time.Millisecond
	backup := filepath.Join(t.TempDir(), "backup")
	if _, err := w.Backup(t.Context(), backup); err != nil {
		t.Fatal(err)
	}
	first := request(b.wanted(t, won, 0xb1, 0))
	wantState(t, b.ask(t, first), wire.ClaimPending, wire.WhyOwnerSilent)
	item := a.hear(t, 0)
	if e := a.holds(t, item, 0); e != nil {
		t.Fatal(e)
	}
	wantState(t, b.ask(t, first), wire.ClaimApproved, "")
	w.restored(t, backup, "", false, a, b, c)

	own := []wire.PackItem{{GameCode: w.block.GameCode, First: 10, Last: 19, State: "active", Owner: "T-A", Epoch: 1}}
	paid := w.winners(10, 19)[1]
	a.tells(t, a.meets(t, "").Restored, wire.Standing{Packs: own, Held: []wire.HoldAck{ackOf(item)}, Paid: []wire.PaidItem{{Block: w.block.ID, Pack: paid.code.Pack, Ticket: paid.code.Number, Terminal: "T-X"}}})
	c.tells(t, c.meets(t, "").Restored, wire.Standing{})
	second := request(c.wanted(t, won, 0xc1, 0))
	for _, q := range []wire.ClaimRequest{second, request(c.wanted(t, paid, 0xc9, 0))} { // allowed to a silent one, paid by one
		wantState(t, c.ask(t, q), wire.ClaimPending, wire.WhyOwnerSilent)
	}
	// A next owner of the packs, which is sure to be the only one, does not pay these two by itself.
	a.record(t, ledger.KindRelease, ledger.ReleaseBody{Reason: ledger.ReleaseAsked, Packs: []ledger.ReleasedPacks{{GameCode: w.block.GameCode, First: 10, Last: 19, OwnerEpoch: 1}}})
	a.send(t, 1, 1)
	if _, err := w.MovePacks(t.Context(), "399", 10, 19, "T-C", false); err != nil {
		t.Fatal(err)
	}
	told := map[uint16]bool{}
	for _, item := range c.feed(t, item.Seq) {
		if item.Hold != nil {
			told[item.Hold.Ticket] = true
		}
	}
	if !told[won.code.Number] || !told[paid.code.Number] {
		t.Errorf("the next owner holds %v", told)
	}
	for why, force := range map[string]bool{"": true, "Mme Martin": false} {
		if err := w.AllowClaims(t.Context(), why, force); !errors.Is(err, ErrRefused) {
			t.Errorf("%q, force %v: %v", why, force, err)
		}
	}
	if err := w.AllowClaims(t.Context(), "Mme Martin: T-B burnt down", true); err != nil {
		t.Fatal(err)
	}
	wantState(t, c.ask(t, second), wire.ClaimApproved, "")
	if err := w.AllowClaims(t.Context(), "Mme Martin", false); !errors.Is(err, ErrRefused) {
		t.Errorf("allowed twice: %v", err)
	}
	// It did not burn down: its word comes too late, and its payment is a conflict.
	if n := b.tells(t, b.meets(t, "").Restored, wire.Standing{Claims: []wire.Permission{{ClaimRequest: first, OwnerEpoch: 1}}}); n != 0 {
		t.Errorf("two may pay one ticket")
	}
	body := b.wanted(t, won, 0xb1, 0)
	b.record(t, ledger.KindClaim, body)
	_, answer := b.send(t, 1, 1)
	wantException(t, answer, 1, wire.NoRight)
}
