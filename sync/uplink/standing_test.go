package uplink

import (
	"context"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"grattoir/sync/central"
	"grattoir/sync/wire"
	"grattoir/validate"
)

// TestTerminalsTellARestoredCentralWhatItForgot is the drill with both real sides: what was
// allowed, paid and delivered since the backup is there again, and nobody had to do anything.
func TestTerminalsTellARestoredCentralWhatItForgot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &rehearsal{realLink: joinReal(t)}
		r.at.Store(r.net)
		r.opt.Dial = r.dial
		r.start()
		a, b := r.another(t, "T-A"), r.another(t, "T-B")
		for _, s := range []*shop{a, b} {
			s.stop()
			s.opt.Dial = r.dial
			s.start()
		}
		r.give(t, "T-A", 10, 18)
		pass(time.Minute)
		// Allowed before the backup and given back after it, once for good, once to ask again.
		gone, twice := b.claim(r.winners[3], 0xb3), b.claim(r.winners[4], 0xb4)
		for _, c := range []validate.Claim{gone, twice} {
			wantIntent(t, b.asks(t, c), validate.IntentApproved, "")
		}
		backup := filepath.Join(t.TempDir(), "backup")
		if _, err := r.real.Backup(t.Context(), backup); err != nil {
			t.Fatal(err)
		}
		for _, c := range []validate.Claim{gone, twice} {
			if err := b.ledger.GiveBack(t.Context(), c.ID); err != nil {
				t.Fatal(err)
			}
			wantIntent(t, b.awaits(t, c), validate.IntentReturned, "")
		}
		twice.ID = b.claim(r.winners[4], 0xb5).ID
		wantIntent(t, b.asks(t, twice), validate.IntentApproved, "")
		r.give(t, "T-B", 19, 19)
		pass(time.Second)
		own := a.claim(r.winners[2], 0xa1)
		own.Right, own.OwnerEpoch = validate.RightOwner, 1
		late := b.claim(r.winners[len(r.winners)-1], 0xb9)
		late.Right, late.OwnerEpoch = validate.RightOwner, 1
		if late.Ticket.Pack != 19 {
			t.Fatalf("no winner in pack 19: %+v", late.Ticket)
		}
		allowed, paid := b.claim(r.winners[0], 0xb1), b.claim(r.winners[1], 0xb2)
		for _, c := range []validate.Claim{allowed, paid} {
			wantIntent(t, b.asks(t, c), validate.IntentApproved, "")
		}
		for _, c := range []validate.Claim{paid, late} {
			if _, err := b.ledger.Record(context.Background(), c); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := a.ledger.Record(context.Background(), own); err != nil {
			t.Fatal(err)
		}
		pass(time.Minute)
		if s := b.uplink.Status(); s.Unsent != 0 {
			t.Fatalf("%+v", s)
		}

		r.halt()
		if err := r.real.Close(); err != nil {
			t.Fatal(err)
		}
		r.options.Dir = filepath.Join(t.TempDir(), "again")
		if _, err := central.Restore(t.Context(), backup, r.options, true); err != nil {
			t.Fatal(err)
		}
		c, err := central.Open(t.Context(), r.options)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		r.real = c
		pass(time.Second)
		again := newPipes()
		r.halt = serveReal(t, c, again)
		r.at.Store(again)
		pass(5 * time.Minute)

		if p, err := c.Waiting(t.Context()); err != nil || p != nil {
			t.Fatalf("waits for %+v %v", p, err)
		}
		for what, want := range map[string]int{
			"SELECT count(*) FROM claims":                                                                     3,
			"SELECT count(*) FROM conflicts":                                                                  0,
			"SELECT count(*) FROM losses":                                                                     0,
			"SELECT count(*) FROM reservations":                                                               3,
			"SELECT count(*) FROM reservations WHERE claim = '" + twice.ID + "'":                              1,
			"SELECT count(*) FROM online_claims WHERE state = 'returned'":                                     2,
			"SELECT count(*) FROM packs WHERE pack = 19 AND owner = 'T-B' AND epoch = 1 AND state = 'active'": 1,
		} {
			var n int
			if err := c.Reader().QueryRowContext(t.Context(), what).Scan(&n); err != nil || n != want {
				t.Errorf("%s: %d, want %d: %v", what, n, want, err)
			}
		}
		wantIntent(t, a.asks(t, a.claim(r.winners[0], 0xa2)), validate.IntentDenied, wire.WhyGranted)
		wantIntent(t, b.asks(t, b.claim(r.winners[3], 0xb6)), validate.IntentApproved, "")
		if _, err := b.ledger.Record(context.Background(), allowed); err != nil {
			t.Fatal(err)
		}
		pass(time.Minute)
		for _, s := range []*shop{a, b} {
			if s := s.uplink.Status(); s.Unsent != 0 || s.Exceptions != 0 || len(s.Faults) != 0 {
				t.Errorf("%+v", s)
			}
		}
	})
}
