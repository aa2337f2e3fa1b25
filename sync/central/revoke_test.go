package central

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"grattoir/sync/wire"
)

// TestSuspensionEndsTheLongPollAtOnce, also when another process suspends.
func TestSuspensionEndsTheLongPollAtOnce(t *testing.T) {
	for name, suspend := range map[string]func(w *world) error{
		"by this process":    func(w *world) error { return w.Suspend(t.Context(), "T-1", "stolen") },
		"by another process": func(w *world) error { return openCentral(t, w.opt).Suspend(t.Context(), "T-1", "stolen") },
	} {
		w := newWorld(t)
		d := w.enrolled(t, "T-1")
		answered := make(chan *wire.Error, 1)
		go func() {
			var f wire.Feed
			answered <- get(t, d.client, wire.PathFeed+"?after=99&wait=55", &f)
		}()
		for begun := time.Now(); w.visitors.count("T-1") == 0; {
			if time.Since(begun) > 20*time.Second {
				t.Fatal("the poll never began")
			}
		}
		if err := suspend(w); err != nil {
			t.Fatal(err)
		}
		select {
		case e := <-answered:
			wantKind(t, e, wire.KindForbidden)
		case <-time.After(20 * time.Second):
			t.Fatalf("%s: the poll goes on", name)
		}
		// The connection is the same one, and nothing more comes over it.
		var text string
		wantKind(t, get(t, d.client, wire.PathSnapshot, &text), wire.KindForbidden)
		wantKind(t, post(t, d.client, wire.PathRenew, wire.RenewRequest{Protocol: 1, Terminal: "T-1", CSR: makeCSR(t, d.key)}, nil), wire.KindForbidden)
		if w.visitors.count("T-1") != 0 {
			t.Errorf("%s: requests are left", name)
		}
	}
}

func TestDownloadUnderWayEndsWithASuspension(t *testing.T) {
	var v visitors
	ctx, visit, leave := v.enter(t.Context(), "T-1")
	defer leave()
	v.admit(visit, 6)
	other, visit, leaveOther := v.enter(t.Context(), "T-2")
	defer leaveOther()
	v.admit(visit, 6)
	r := revocable{bytes.NewReader(make([]byte, 100)), ctx}
	if _, err := io.ReadFull(r, make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	v.end("T-1", 7)
	if n, err := r.Read(make([]byte, 10)); n != 0 || !errors.Is(err, errRevoked) {
		t.Errorf("%d %v", n, err)
	}
	if other.Err() != nil {
		t.Error("another terminal's download ended too")
	}
}

// TestSuspensionHeededLateEndsOnlyWhatItFound: central looks for revocations every moment,
// and meanwhile the terminal may have been let in again. What the new device asks is
// answered; what the old one asked before is not, in whatever order they are seen.
func TestSuspensionHeededLateEndsOnlyWhatItFound(t *testing.T) {
	onEachStore(t, func(t *testing.T, w *world) {
		d := w.enrolled(t, "T-1")
		var h wire.HelloAnswer
		if e := post(t, d.client, wire.PathHello, wire.Hello{Protocol: 1}, &h); e != nil {
			t.Fatal(e)
		}
		if err := w.Suspend(t.Context(), "T-1", "stolen"); err != nil {
			t.Fatal(err)
		}
		w.enrolled(t, "T-1")
		var after int64
		if err := w.store.reader().QueryRowContext(t.Context(), "SELECT value FROM counters WHERE name = $1", revoked).Scan(&after); err != nil || after == 0 {
			t.Fatal(after, err)
		}
		ctx := map[string]context.Context{}
		for _, c := range []struct {
			name     string
			admitted int64
			early    bool // the revocation is heeded before the request is let in
		}{{"new", after, false}, {"new, slow", after, true}, {"old", after - 1, false}, {"old, slow", after - 1, true}} {
			under, visit, leave := w.visitors.enter(t.Context(), "T-1")
			defer leave()
			if !c.early {
				w.visitors.admit(visit, c.admitted)
			}
			w.visitors.mu.Lock()
			w.visitors.seen = after - 1
			w.visitors.mu.Unlock()
			if err := w.heedRevocations(t.Context()); err != nil {
				t.Fatal(err)
			}
			if c.early {
				w.visitors.admit(visit, c.admitted)
			}
			ctx[c.name] = under
		}
		for name, under := range ctx {
			if ended := under.Err() != nil; ended != strings.HasPrefix(name, "old") {
				t.Errorf("the request of the %s device: ended is %v", name, ended)
			}
		}
	})
}
