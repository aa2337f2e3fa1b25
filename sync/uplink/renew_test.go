package uplink

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"grattoir/sync/wire"
)

// hows are how the terminal's certificates came about, the newest first.
func (r *realLink) hows(t *testing.T) (list []string) {
	t.Helper()
	for _, c := range must(r.real.Certificates(t.Context(), "T-1")) {
		list = append(list, c.How)
	}
	return list
}

func days(n int) time.Duration { return time.Duration(n) * 24 * time.Hour }

// TestCertificateIsRenewedAtTwoThirdsAndTheOldOneStaysGood: an answer that is lost costs
// nothing, and does not make another certificate.
func TestCertificateIsRenewedAtTwoThirdsAndTheOldOneStaysGood(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := joinReal(t)
		first := r.opt.Identity.Expires()
		r.later(days(57))
		r.start()
		pass(time.Hour)
		if got := r.uplink.Status(); !got.Expires.Equal(first) || len(got.Faults) != 0 {
			t.Fatalf("renewed early, or not well: %+v", got)
		}
		r.stop()
		r.later(days(6))
		r.start()
		pass(time.Minute)
		if s := r.uplink.Status(); !s.Expires.After(first.Add(days(30))) || len(s.Faults) != 0 {
			t.Fatalf("%+v", s)
		}
		r.stop()
		if got := r.hows(t); len(got) != 2 || got[0] != "renewed" || got[1] != "enrolled" {
			t.Errorf("%q", got)
		}
		// With the old certificate, as after a lost answer: it works, and gets the same new one.
		dir := r.opt.Identity.dir
		renewed := must(LoadIdentity(dir))
		if !renewed.Expires().Equal(r.uplink.Status().Expires) {
			t.Error("what was renewed is not stored")
		}
		r.start() // r.opt has the identity of before
		pass(time.Minute)
		if s := r.uplink.Status(); len(s.Faults) != 0 || !s.Expires.Equal(renewed.Expires()) {
			t.Errorf("%+v", s)
		}
		if got := r.hows(t); len(got) != 2 {
			t.Errorf("%q", got)
		}
	})
}

// TestTerminalThatWasOffForAYearComesBack: by the key that renews, and by nothing less.
func TestTerminalThatWasOffForAYearComesBack(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before func(r *realLink)
		clock  time.Duration // of the terminal's clock, against central's
		back   bool
	}{
		"by itself":                 {func(*realLink) {}, 0, true},
		"with a clock of last year": {func(*realLink) {}, -days(365), true},
		"suspended meanwhile":       {func(r *realLink) { _ = r.real.Suspend(r.t.Context(), "T-1", "stolen") }, 0, false},
		"without the key":           {func(r *realLink) { _ = os.Remove(filepath.Join(r.opt.Identity.dir, renewalName)) }, 0, false},
		"with another key": {func(r *realLink) {
			_ = os.Remove(filepath.Join(r.opt.Identity.dir, renewalName))
			_, _ = makeRenewal(r.opt.Identity.dir)
		}, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := joinReal(t)
				now := r.opt.Now
				r.opt.Now = func() time.Time { return now().Add(c.clock) }
				r.later(days(365))
				c.before(r)
				r.start()
				pass(10 * time.Minute)
				s := r.uplink.Status()
				if back := len(s.Faults) == 0 && !s.Suspended() && s.Expires.After(now()); back != c.back {
					t.Fatalf("back: %v\n%+v", back, s)
				}
				if got := r.hows(t); c.back && (len(got) != 1 || got[0] != "renewed-late") || !c.back && len(got) != 0 {
					t.Errorf("%q", got)
				}
				if c.back {
					if list := must(r.real.Certificates(t.Context(), "T-1")); list[0].Used.IsZero() {
						t.Error("its first use is not noted")
					}
				}
			})
		})
	}
}

// TestTerminalEnrolledByAnEarlierProgramGetsAKeyThatRenews at its next renewal.
func TestTerminalEnrolledByAnEarlierProgramGetsAKeyThatRenews(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := joinReal(t)
		r.opt.Identity = oldEnrolment(t, r)
		r.later(days(63))
		r.start()
		pass(time.Minute)
		r.stop()
		r.later(days(365))
		r.opt.Identity = must(LoadIdentity(r.opt.Identity.dir))
		r.start()
		pass(10 * time.Minute)
		if s := r.uplink.Status(); len(s.Faults) != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// oldEnrolment is the terminal as a program enrolled it that knows no key that renews.
func oldEnrolment(t *testing.T, r *realLink) Identity {
	t.Helper()
	if err := r.real.Suspend(t.Context(), "T-1", "for another program"); err != nil {
		t.Fatal(err)
	}
	code := must(r.real.AddTerminal(t.Context(), "T-1")).Code
	_, pin, err := wire.ParseEnrolCode(code)
	if err != nil {
		t.Fatal(err)
	}
	w := must(newRequest())
	w.renewalPEM = ""
	base := must(parseURL("https://central.test"))
	id := must(w.identity(base.String(), must(w.ask(t.Context(), newClient(base, r.net.Dial, pinnedTLS(pin, base.Hostname(), time.Now)), code))))
	dir := t.TempDir()
	if err := w.store(&id, dir); err != nil {
		t.Fatal(err)
	}
	return id
}
