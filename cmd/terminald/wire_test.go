package main

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"grattoir/device/control"
	"grattoir/sync/uplink/faultproxy"
	"grattoir/validate"
	"grattoir/validate/manifest"
	"grattoir/validate/ticket"
)

// onWire is a shop and its central, both as built programs, with a proxy on the line.
type onWire struct {
	*linked
	proxy   *faultproxy.Proxy
	books   *sql.DB       // central's, beside the server
	unpaid  []ticket.Code // winners
	faults  int
	claimed int64
}

// TestBuiltProgramsAgreeWhateverTheLineDoes: every connection between the real programs is
// cut, closing or with a reset, after each so many bytes in each direction; is stalled,
// refused, and answered by a portal. A ticket is paid under each fault, over the counter and
// with no help of the line. Nothing is ever acknowledged that central has not committed,
// and after each fault the books are equal, with no payment twice. GRATTOIR_SOAK=1 cuts at
// every byte: several pairs of programs do it beside each other, each at its own bytes, for
// most of the time is spent on waiting for the next try.
func TestBuiltProgramsAgreeWhateverTheLineDoes(t *testing.T) {
	t.Parallel()
	if os.Getenv("GRATTOIR_SOAK") != "1" {
		onLine(t, 0, 600, 62, func(size int64) int64 { return size / 7 })
		return
	}
	const pairs = 12
	var group sync.WaitGroup // not t.Parallel, which runs as many as there are processors
	for n := range int64(pairs) {
		group.Go(func() {
			t.Run(fmt.Sprintf("pair=%d", n), func(t *testing.T) { onLine(t, n, 30_000, 20_000, func(int64) int64 { return pairs }) })
		})
	}
	group.Wait()
}

// onLine has the faults strike one pair of programs: cuts begin at byte first, and lie as far
// apart as stride says of all that a sync carries in a direction.
func onLine(t *testing.T, first, tickets, winners int64, stride func(size int64) int64) {
	t.Helper()
	w := &onWire{linked: openLinkedOf(t, tickets, []manifest.Tier{{Count: winners, Amount: 2000}}, fmt.Sprintf("1-%d", tickets/60))}
	w.unpaid = w.codes["2000"]
	w.proxy = faultproxy.New(t, w.central.API)
	path := filepath.Join(w.Dir, "terminald.toml")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(text), w.central.URL(), "https://"+w.proxy.Addr(), 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if w.books, err = sql.Open("sqlite3", "file:"+filepath.Join(w.central.Dir, "central.db")+"?mode=ro&_busy_timeout=5000"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.books.Close() })
	w.start(t)
	w.await(t, func(st control.Status) bool { return len(st.Blocks) == 1 && st.Link.Feed >= 2 })
	w.under(t, faultproxy.Faults{Up: faultproxy.Direction{Act: faultproxy.Cut, After: 1 << 20}}) // none: what a sync carries
	up, down := w.proxy.Most()
	began := time.Now()
	for at := first; at <= up; at += stride(up) {
		w.under(t, faultproxy.Faults{Up: faultproxy.Direction{Act: endingAt(at), After: at}})
	}
	for at := first; at <= down; at += stride(down) {
		w.under(t, faultproxy.Faults{Down: faultproxy.Direction{Act: endingAt(at), After: at}})
	}
	for _, at := range []int64{0, down / 2} {
		w.under(t, faultproxy.Faults{Up: faultproxy.Direction{Act: faultproxy.Stall, After: at}})
		w.under(t, faultproxy.Faults{Down: faultproxy.Direction{Act: faultproxy.Stall, After: at}})
	}
	w.under(t, faultproxy.Faults{Refuse: true})
	w.under(t, faultproxy.Faults{Portal: "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 7\r\n\r\nWelcome"})
	t.Logf("%d faults in %v, over a sync of %d bytes up and %d down", w.faults, time.Since(began).Round(time.Millisecond), up, down)
	w.stop(t)
	if err := w.central.Stop(); err != nil {
		t.Fatal(err)
	}
	w.compare(t)
}

// endingAt takes turns, so that an even stride meets both.
func endingAt(at int64) faultproxy.Act {
	if at%4 < 2 {
		return faultproxy.Cut
	}
	return faultproxy.Reset
}

// under drops all connections, pays a ticket while new ones have a fault, heals the line
// when it has struck, and waits until the books are equal.
func (w *onWire) under(t *testing.T, f faultproxy.Faults) {
	t.Helper()
	ctx := deadline(t)
	struck := w.proxy.Struck()
	w.proxy.Set(f)
	w.proxy.Drop()
	w.payNext(t, ctx)
	w.faults++
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	healed := false
	for {
		st, err := w.Client.Status(ctx)
		if err != nil {
			t.Fatal(err)
		}
		entries, claims, conflicts := w.held(t)
		var epoch, seq int64
		if _, err := fmt.Sscanf(st.Link.Acked, "%d-%d", &epoch, &seq); err != nil {
			t.Fatalf("%q: %v", st.Link.Acked, err)
		}
		if seq > entries {
			t.Fatalf("%+v: entry %d is acknowledged, central has committed %d", f, seq, entries)
		}
		if st.Link.Entries == 0 && st.Unsent.Claims == 0 {
			if entries != seq || claims != w.claimed || conflicts != 0 {
				t.Fatalf("%+v: %d entries and %d claims here, %d and %d at central, %d conflicts", f, seq, w.claimed, entries, claims, conflicts)
			}
			if st.Link.Exceptions != 0 || len(st.Link.NotCredited) != 0 {
				t.Fatalf("%+v: not credited: %+v", f, st.Link.NotCredited)
			}
			return
		}
		if !healed && w.proxy.Struck() > struck {
			healed = true
			w.proxy.Set(faultproxy.Faults{})
			if f.Up.Act == faultproxy.Stall || f.Down.Act == faultproxy.Stall {
				w.proxy.Drop() // as the line's owner does when it hangs; the time-outs are tested in fake time
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%+v: unsent for too long: %+v", f, st.Link)
		}
	}
}

// payNext pays a winner that was not paid yet.
func (w *onWire) payNext(t *testing.T, ctx context.Context) {
	t.Helper()
	code := w.unpaid[0]
	w.unpaid = w.unpaid[1:]
	a, err := w.Client.Check(ctx, code.Digits(), false)
	if err != nil || a.Verdict.Reason != validate.Winner {
		t.Fatalf("%v: %+v, %v", code, a.Verdict, err)
	}
	if a, err = w.Client.Pay(ctx, a.ID, false); err != nil || a.Receipt == nil {
		t.Fatalf("%v: %+v, %v", code, a.Verdict, err)
	}
	w.claimed++
}

// held is what central has committed.
func (w *onWire) held(t *testing.T) (entries, claims, conflicts int64) {
	t.Helper()
	err := w.books.QueryRow("SELECT (SELECT count(*) FROM entries), (SELECT count(*) FROM claims), (SELECT count(*) FROM conflicts)").Scan(&entries, &claims, &conflicts)
	if err != nil {
		t.Fatal(err)
	}
	return entries, claims, conflicts
}
