package central

import (
	"bytes"
	"errors"
	"io"
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
	ctx, leave := v.enter(t.Context(), "T-1")
	defer leave()
	other, leaveOther := v.enter(t.Context(), "T-2")
	defer leaveOther()
	r := revocable{bytes.NewReader(make([]byte, 100)), ctx}
	if _, err := io.ReadFull(r, make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	v.end("T-1")
	if n, err := r.Read(make([]byte, 10)); n != 0 || !errors.Is(err, errRevoked) {
		t.Errorf("%d %v", n, err)
	}
	if other.Err() != nil {
		t.Error("another terminal's download ended too")
	}
}
