package uplink

import (
	"context"
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"grattoir/sync/central"
)

// rehearsal is a real link whose central is started anew at each step of a rotation.
type rehearsal struct {
	*realLink
	at atomic.Pointer[pipes]
}

func (r *rehearsal) dial(ctx context.Context, network, address string) (net.Conn, error) {
	return r.at.Load().Dial(ctx, network, address)
}

// step takes a step and starts central again.
func (r *rehearsal) step(t *testing.T, act func(c *central.Central) error) {
	t.Helper()
	if err := act(r.real); err != nil {
		t.Fatal(err)
	}
	r.halt()
	if err := r.real.Close(); err != nil {
		t.Fatal(err)
	}
	r.real = must(central.Open(t.Context(), r.options))
	t.Cleanup(func() { _ = r.real.Close() })
	p := newPipes()
	r.halt = serveReal(t, r.real, p)
	r.at.Store(p)
}

// TestRotationOfTheRootIsLearntOverTheOldOne rehearses the whole of it: a terminal that is
// there goes on through each step, one that slept through all of them is told what to do,
// and comes back with a new code and its ledger.
func TestRotationOfTheRootIsLearntOverTheOldOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &rehearsal{realLink: working(t)}
		r.at.Store(r.net)
		r.stop()
		r.opt.Dial = r.dial
		dir := t.TempDir()
		code := must(r.real.AddTerminal(t.Context(), "T-2")).Code
		sleeper := must(Enrol(t.Context(), EnrolOptions{URL: "https://central.test", Code: code, Dir: filepath.Join(dir, "identity"), Dial: r.dial, Now: r.opt.Now}))
		r.start()
		oldKey := r.real.PublicKey()
		works := func(after string) {
			t.Helper()
			pass(4 * time.Minute)
			r.pays(t, r.winners[0])
			r.winners = r.winners[1:]
			pass(2 * time.Minute)
			if s := r.uplink.Status(); len(s.Faults) != 0 || s.Unsent != 0 || s.Suspended() {
				t.Fatalf("after %s: %+v", after, s)
			}
		}
		works("nothing")
		r.step(t, func(c *central.Central) error { return c.BeginRotation() })
		if err := r.real.SwitchRotation(t.Context(), false); err == nil {
			t.Fatal("switched before any terminal had heard of it")
		}
		works("the begin")
		if list := must(r.real.Untold(t.Context())); len(list) != 1 || list[0] != "T-2" {
			t.Errorf("not told: %q", list)
		}
		r.step(t, func(c *central.Central) error { return c.SwitchRotation(t.Context(), true) })
		works("the switch")
		if r.real.PublicKey() == oldKey {
			t.Error("the old key still signs")
		}
		if got := r.hows(t); len(got) != 2 || got[0] != "renewed" {
			t.Errorf("its certificate is of the old CA: %q", got)
		}
		r.step(t, func(c *central.Central) error { return c.EndRotation(t.Context(), true) })
		works("the end")
		r.power(t) // and from what is stored
		r.opt.Identity = must(LoadIdentity(r.opt.Identity.dir))
		if len(r.opt.Identity.cas) != 1 || len(r.opt.Identity.central) != 1 || len(r.opt.Identity.CentralKeys()) != 2 {
			t.Errorf("%d CAs, %d keys, %d that prove", len(r.opt.Identity.cas), len(r.opt.Identity.central), len(r.opt.Identity.CentralKeys()))
		}
		r.reopen(t, filepath.Join(filepath.Dir(r.opt.Blocks.Dir), "ledger.db"))
		r.start()
		works("a restart")

		late := begin(t, dir, sleeper, r.at.Load())
		pass(time.Minute)
		if f := late.fault(LaneHello); f.Code != CodeNotCentral || !strings.Contains(f.Text, "terminalctl enrol --again") {
			t.Fatalf("who slept is not told what to do: %+v", f)
		}
		late.stop()
		if err := r.real.Suspend(t.Context(), "T-2", "slept through the rotation"); err != nil {
			t.Fatal(err)
		}
		code = must(r.real.AddTerminal(t.Context(), "T-2")).Code
		late.opt.Identity = must(Enrol(t.Context(), EnrolOptions{URL: "https://central.test", Code: code, Dir: sleeper.dir, Dial: r.dial, Again: true, Now: r.opt.Now}))
		late.opt.Dial = r.dial
		late.start()
		pass(3 * time.Minute)
		if s := late.uplink.Status(); len(s.Faults) != 0 || s.Suspended() {
			t.Errorf("after a new enrolment: %+v", s)
		}
	})
}

// TestTerminalWhoseCertificateIsOfTheEndedCARenewsByItsKey: it heard of the new CA and was
// off until the old one had ended.
func TestTerminalWhoseCertificateIsOfTheEndedCARenewsByItsKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &rehearsal{realLink: working(t)}
		r.at.Store(r.net)
		r.stop()
		r.opt.Dial = r.dial
		r.start()
		r.step(t, func(c *central.Central) error { return c.BeginRotation() })
		pass(4 * time.Minute)
		r.stop()
		r.step(t, func(c *central.Central) error { return c.SwitchRotation(t.Context(), false) })
		r.step(t, func(c *central.Central) error { return c.EndRotation(t.Context(), true) })
		r.opt.Identity = must(LoadIdentity(r.opt.Identity.dir))
		r.start()
		pass(10 * time.Minute)
		if s := r.uplink.Status(); len(s.Faults) != 0 || s.Suspended() {
			t.Fatalf("%+v", s)
		}
		if got := r.hows(t); got[0] != "renewed-late" {
			t.Errorf("%q", got)
		}
	})
}
