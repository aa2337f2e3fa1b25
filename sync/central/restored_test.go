package central

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"grattoir/sync/wire"
)

// TestRestoredCentralAllowsNothingUntilAPersonSaysSo: it has forgotten what it allowed since
// the backup, and the terminal that was allowed may still pay.
func TestRestoredCentralAllowsNothingUntilAPersonSaysSo(t *testing.T) {
	for name, again := range map[string]func(testing.TB) string{"SQLite": func(testing.TB) string { return "" },
		"PostgreSQL": func(t testing.TB) string { return server.Fresh(t) }} {
		t.Run(name, func(t *testing.T) {
			w := newWorldOn(t, "")
			a, b, won := two(t, w)
			c := w.enrolled(t, "T-C")
			w.patience = time.Millisecond
			backup := filepath.Join(t.TempDir(), "backup")
			if _, err := w.Backup(t.Context(), backup); err != nil {
				t.Fatal(err)
			}
			first := request(b.wanted(t, won, 0xb1, 0))
			wantState(t, b.ask(t, first), wire.ClaimPending, wire.WhyOwnerSilent)
			if e := a.holds(t, a.hear(t, 0), 0); e != nil {
				t.Fatal(e)
			}
			wantState(t, b.ask(t, first), wire.ClaimApproved, "")
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}

			w.clock.advance(time.Hour)
			opt := Options{Dir: filepath.Join(t.TempDir(), "again"), Database: again(t), Now: w.clock.now}
			if _, err := Restore(t.Context(), backup, opt); err != nil {
				t.Fatal(err)
			}
			w.Central = openCentral(t, Options{Dir: opt.Dir, Now: w.clock.now})
			w.patience = time.Millisecond
			w.dial = servePipes(t, w.Central)
			w.clock.advance(time.Minute)
			for _, d := range []*device{a, b, c} {
				d.connect(t)
			}
			second := request(c.wanted(t, won, 0xc1, 0))
			wantState(t, c.ask(t, second), wire.ClaimPending, wire.WhyOwnerSilent)
			if e := a.holds(t, a.hear(t, 0), 0); e != nil {
				t.Fatal(e)
			}
			wantState(t, c.ask(t, second), wire.ClaimPending, wire.WhyOwnerSilent)
			if err := w.AllowClaims(t.Context(), "Mme Martin", false); !errors.Is(err, ErrRefused) {
				t.Errorf("allowed before all were heard: %v", err)
			}
			for _, d := range []*device{a, b, c} {
				if _, e := d.hello(t, func(h *wire.Hello) { h.Head = d.head(int64(len(d.lines))) }); e != nil {
					t.Fatal(e)
				}
			}
			if err := w.AllowClaims(t.Context(), "", false); !errors.Is(err, ErrRefused) {
				t.Errorf("allowed by nobody: %v", err)
			}
			if err := w.AllowClaims(t.Context(), "Mme Martin", false); err != nil {
				t.Fatal(err)
			}
			wantState(t, c.ask(t, second), wire.ClaimApproved, "")
			if err := w.AllowClaims(t.Context(), "Mme Martin", false); !errors.Is(err, ErrRefused) {
				t.Errorf("allowed twice: %v", err)
			}
		})
	}
}
