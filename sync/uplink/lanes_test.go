package uplink

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/mod/sumdb/note"

	"grattoir/sync/ledger"
	"grattoir/sync/wire"
	"grattoir/validate"
	"grattoir/validate/ticket"
)

// bubble runs a test with fake time and a network in memory, joined and not started.
func bubble(t *testing.T, f func(t *testing.T, l *link)) {
	synctest.Test(t, func(t *testing.T) { f(t, join(t, newCentral(t), true)) })
}

// pass lets fake time go by and everything that is due happen.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func only(path string, f func(w http.ResponseWriter, r *http.Request)) func(http.ResponseWriter, *http.Request, []byte) bool {
	return func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
		if strings.HasPrefix(r.URL.Path, path) {
			f(w, r)
			return true
		}
		return false
	}
}

func TestEntriesArriveOnceInOrderAndAreCountersigned(t *testing.T) {
	bubble(t, func(t *testing.T, l *link) {
		l.pay(320) // 50, 100 and 170 entries
		l.start()
		pass(time.Second)
		l.equal()
		if n := l.asked("POST " + wire.PathJournal); n != 3 {
			t.Errorf("%d uploads", n)
		}
		if a := l.ledger.Allowance(); a.Claims != 500 || a.Money != 1_000_000 {
			t.Errorf("the allowance is %+v", a)
		}
	})
}

func TestEntryWrittenWhileIdleIsSentAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, l *link) {
		l.start()
		pass(10 * time.Minute)
		l.pay(1)
		pass(time.Millisecond)
		l.equal()
	})
}

func TestAnswerThatWasLostMakesNoSecondEntry(t *testing.T) {
	bubble(t, func(t *testing.T, l *link) {
		lost := 0
		l.spoil = func(w http.ResponseWriter, r *http.Request, body []byte) bool {
			if r.URL.Path != wire.PathJournal || lost == 3 {
				return false
			}
			lost++
			l.mu.Lock()
			defer l.mu.Unlock()
			l.upload(&swallow{}, body) // central commits, and the line is cut
			panic(http.ErrAbortHandler)
		}
		l.pay(5)
		l.start()
		pass(time.Minute)
		l.equal()
		if lost != 3 {
			t.Errorf("%d answers lost", lost)
		}
	})
}

type swallow struct{ h http.Header }

func (s *swallow) Header() http.Header {
	if s.h == nil {
		s.h = http.Header{}
	}
	return s.h
}
func (*swallow) Write(b []byte) (int, error) { return len(b), nil }
func (*swallow) WriteHeader(int)             {}

func TestCutsAtAnyMomentEndWithEqualLedgers(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, l *link) {
		l.start()
		for i := range 40 {
			l.pay(3)
			pass(time.Duration(i*37%90) * 100 * time.Millisecond)
			l.net.cut(i%3 == 0)
			l.pay(1)
			pass(time.Duration(i*53%70) * time.Second)
			l.net.cut(false)
		}
		pass(2 * time.Minute)
		l.equal()
		if n := len(l.held()); n != 160 {
			t.Errorf("%d entries", n)
		}
	})
}

// TestWhatIsNotCentralsAnswerAcknowledgesNothing: a proxy's page, half an answer or
// another's signature is named, and the mark does not move.
func TestWhatIsNotCentralsAnswerAcknowledgesNothing(t *testing.T) {
	t.Parallel()
	ack := func(l *link, edit func(*wire.Ack), sign note.Signer) string {
		a := l.ack()
		edit(&a)
		signed := must(note.Sign(&note.Note{Text: a.Text()}, sign))
		return string(must(json.Marshal(wire.UploadAnswer{Protocol: 1, Acked: string(signed)})))
	}
	for name, c := range map[string]struct {
		status     int
		body       func(l *link) string
		code, word string
	}{
		"a portal's page":      {200, func(*link) string { return "<html>Welcome to the hotel" }, CodeAnswer, "something stands between"},
		"an empty page":        {200, func(*link) string { return "" }, CodeAnswer, "empty body"},
		"an empty object":      {200, func(*link) string { return "{}" }, CodeAnswer, "protocol 0"},
		"a later protocol":     {200, func(*link) string { return `{"protocol":2}` }, CodeSignature, "did not sign"}, // the upload is frozen: a later central's signed answer counts
		"half an answer":       {200, func(*link) string { return `{"protocol":1,"acked":"grattoir ack` }, CodeAnswer, "no message"},
		"no end":               {200, func(*link) string { return `{"protocol":1,"acked":"` + strings.Repeat("a", wire.MaxAnswer) }, CodeAnswer, "more than"},
		"sent elsewhere":       {302, func(*link) string { return "" }, CodeAnswer, "portal"},
		"a proxy's error":      {502, func(*link) string { return "<html>Bad Gateway" }, CodeAnswer, "something stands between"},
		"nothing is signed":    {200, func(*link) string { return `{"protocol":1,"acked":""}` }, CodeSignature, "did not sign"},
		"of another terminal":  {200, func(l *link) string { return ack(l, func(a *wire.Ack) { a.Terminal = "T-2" }, l.signer) }, CodeSignature, "T-2"},
		"of another signature": {200, func(l *link) string { return ack(l, func(*wire.Ack) {}, strangeSigner()) }, CodeSignature, "did not sign"},
		"of nothing sent":      {200, func(l *link) string { return ack(l, func(*wire.Ack) {}, l.signer) }, CodeAnswer, "acknowledges entry 0"},
		"refused":              {403, func(*link) string { return `{"kind":"forbidden","text":"suspended"}` }, CodeForbidden, "suspended"},
		"busy":                 {503, func(*link) string { return `{"kind":"busy","text":"later"}` }, CodeBusy, "later"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, l *link) {
				l.spoil = only(wire.PathJournal, func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Location", "https://portal.test/login")
					w.WriteHeader(c.status)
					l.mu.Lock()
					defer l.mu.Unlock()
					fmt.Fprint(w, c.body(l))
				})
				l.pay(5)
				l.start()
				pass(30 * time.Second)
				s := l.uplink.Status()
				if s.Suspended() != (c.code == CodeForbidden) {
					t.Errorf("suspended: %v", s.Suspended())
				}
				if s.Acked.Seq != 0 || s.Unsent != 5 {
					t.Fatalf("acknowledged up to %d, %d unsent", s.Acked.Seq, s.Unsent)
				}
				if f := l.fault(LaneJournal); f.Code != c.code || !strings.Contains(f.Text, c.word) || f.Tries < 2 {
					t.Errorf("fault %+v, want %s and %q", f, c.code, c.word)
				}
				l.update(func() { l.spoil = nil })
				pass(2 * time.Minute)
				l.equal()
				if f := l.fault(LaneJournal); f.Code != "" {
					t.Errorf("still %+v", f)
				}
			})
		})
	}
}

func strangeSigner() note.Signer {
	private, _, err := note.GenerateKey(rand.Reader, "central")
	return must(note.NewSigner(must(private, err)))
}

func TestUploadRefusedAsTooLargeIsMadeSmaller(t *testing.T) {
	bubble(t, func(t *testing.T, l *link) {
		l.limit = 3
		l.pay(40)
		l.start()
		pass(5 * time.Minute)
		l.equal()
	})
}

func TestPausesGrowToTheCapAndAreSpreadOverTheirWholeLength(t *testing.T) {
	for _, c := range []struct {
		rand float64
		want []time.Duration
	}{
		{0.999999, []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 32 * time.Second, time.Minute, time.Minute}},
		{0.5, []time.Duration{250 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 30 * time.Second, 30 * time.Second}},
		{0, []time.Duration{0, 0, 0, 0, 0, 0, 0, 0, 0}},
	} {
		u := Uplink{opt: Options{Rand: func() float64 { return c.rand }, RetryCap: RetryCap}}
		var back Backoff
		for i, want := range c.want {
			if got := u.pause(ErrUnreachable, &back).Round(10 * time.Millisecond); got != want {
				t.Errorf("rand %v, failure %d: %v, want %v", c.rand, i+1, got, want)
			}
		}
		back.tries = 1_000_000
		if got := u.pause(ErrUnreachable, &back); got > RetryCap {
			t.Errorf("after a million failures: %v", got)
		}
	}
}

// TestEachLaneKeepsItsSlot: central gives each request a slot of its own, five minutes away.
// Each lane waits for it in full, whatever comes meanwhile, and comes then.
func TestEachLaneKeepsItsSlot(t *testing.T) {
	bubble(t, func(t *testing.T, l *link) {
		at := map[string][]time.Time{}
		peace := true
		l.spoil = func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
			l.mu.Lock()
			defer l.mu.Unlock()
			name := r.URL.Path
			if peace && (name == wire.PathHello || name == wire.PathFeed) {
				return false // so that the lanes learn what there is to do
			}
			if strings.HasPrefix(name, wire.PathPeppers) {
				name = wire.PathPeppers
			}
			at[name] = append(at[name], time.Now())
			w.Header().Set("Retry-After", "300")
			refuse(w, http.StatusServiceUnavailable, &wire.Error{Kind: wire.KindBusy, Text: "your slot is in five minutes"})
			return true
		}
		l.opt.Peppers = func() []validate.BlockID { return []validate.BlockID{{9}} }
		l.feed = []wire.FeedItem{{Seq: 1, Kind: wire.FeedHold, Hold: &wire.HoldItem{Block: validate.BlockID{1}, Pack: 123, Ticket: 5, OwnerEpoch: 1}}}
		intend := func(n uint16) {
			_, err := l.ledger.Intend(context.Background(), validate.Claim{ID: fmt.Sprintf("%032x", n), Secret: must(ticket.Make(ticket.G40(), "399", 124, n, fmt.Sprintf("%022d", 7))), Tier: 1, Amount: 100,
				Currency: "EUR", Ticket: validate.TicketKey{Block: validate.BlockID{1}, Pack: 124, Number: n}})
			if err != nil {
				t.Error(err)
			}
		}
		l.pay(1)
		intend(0)
		l.start()
		pass(time.Second)
		l.update(func() { peace = false; l.feed = append(l.feed, packActive(2)) }) // the poll ends, and the next is refused
		for n := range uint16(16) {
			pass(time.Minute)
			l.pay(1)
			intend(n + 1)
		}
		for _, lane := range []string{wire.PathJournal, wire.PathClaim, wire.PathHolds, wire.PathFeed, wire.PathSnapshot, wire.PathHello, wire.PathPeppers} {
			if n := len(at[lane]); n < 3 || n > 4 {
				t.Errorf("%s: %d tries in 16 minutes", lane, n)
				continue
			}
			for i := range at[lane][1:] {
				if d := at[lane][i+1].Sub(at[lane][i]); d < 5*time.Minute {
					t.Errorf("%s: tried again after %v", lane, d)
				}
			}
		}
	})
}

func TestRequestThatCentralNeverTakesIsNotHammered(t *testing.T) {
	bubble(t, func(t *testing.T, l *link) {
		l.spoil = only(wire.PathJournal, func(w http.ResponseWriter, _ *http.Request) {
			refuse(w, http.StatusBadRequest, &wire.Error{Kind: wire.KindBadRequest, Text: "no"})
		})
		l.pay(1)
		l.start()
		pass(time.Hour)
		if n := l.asked("POST " + wire.PathJournal); n < 2 || n > 7 {
			t.Errorf("%d tries in an hour", n)
		}
	})
}

// TestCentralThatWasPutBackGetsTheJournalAgain: even with nothing new to send.
func TestCentralThatWasPutBackGetsTheJournalAgain(t *testing.T) {
	for _, left := range []int{0, 3} {
		bubble(t, func(t *testing.T, l *link) {
			l.pay(6)
			l.start()
			pass(time.Second)
			l.equal()
			l.update(func() { l.lines = l.lines[:left] })
			pass(3 * time.Minute)
			l.equal()
		})
	}
}

func TestCentralThatIsBehindIsSentWhatItLacks(t *testing.T) {
	bubble(t, func(t *testing.T, l *link) {
		l.pay(6)
		l.start()
		pass(time.Second)
		l.update(func() { l.lines = l.lines[:2] })
		l.pay(1) // before any hello: central answers behind
		pass(30 * time.Second)
		l.equal()
	})
}

func TestContradictionStopsTheJournalAndNothingElse(t *testing.T) {
	for name, spoil := range map[string]func(l *link){
		"other bytes under a number": func(l *link) {
			l.lines = append([]string{}, l.lines...)
			l.lines[3] = strings.Replace(l.lines[3], `"amount_minor":100`, `"amount_minor":900`, 1)
		},
		"more entries than there are": func(l *link) { l.lines = append(l.lines, "one", "two", "three") },
	} {
		codes := map[string][]string{"other bytes under a number": {CodeStopped, CodeStopped}, "more entries than there are": {CodeBehind, CodeStopped}}
		for more := range 2 { // found by an upload, or by the hello when there is nothing to send
			bubble(t, func(t *testing.T, l *link) {
				l.pay(4)
				l.start()
				pass(time.Second)
				l.equal()
				l.update(func() { spoil(l) })
				l.pay(more)
				pass(3 * time.Minute)
				f := l.fault(LaneJournal)
				if f.Code != codes[name][more] || !strings.Contains(f.Text, "call central operations") {
					t.Fatalf("%s, %d more: %+v", name, more, f)
				}
				sent := l.asked("POST " + wire.PathJournal)
				l.pay(1)
				l.update(func() { l.feed = append(l.feed, packActive(1)) })
				pass(10 * time.Minute)
				if n := l.asked("POST " + wire.PathJournal); n != sent {
					t.Errorf("%d more uploads", n-sent)
				}
				if _, ok, err := l.ledger.Pack(t.Context(), "00399", 5); !ok || err != nil {
					t.Errorf("the feed stopped as well: %v", err)
				}
				if got := l.fake.hello.Faults; len(got) != 1 || got[0] != codes[name][more]+"-journal" {
					t.Errorf("central was told %q", got)
				}
			})
		}
	}
}

func packActive(seq int64) wire.FeedItem {
	return wire.FeedItem{Seq: seq, Kind: wire.FeedPack, Pack: &wire.PackItem{GameCode: "00399", First: 0, Last: 9, State: validate.PackActive, Owner: "T-1", Epoch: seq}}
}

func TestFeedItemIsStoredTheMomentItIsPublished(t *testing.T) {
	bubble(t, func(t *testing.T, l *link) {
		l.start()
		pass(17 * time.Minute)
		l.update(func() { l.feed = append(l.feed, packActive(7)) })
		pass(time.Millisecond)
		if p, ok, err := l.ledger.Pack(t.Context(), "00399", 5); !ok || err != nil || p.Epoch != 7 {
			t.Fatalf("%+v %v %v", p, ok, err)
		}
		if s := l.uplink.Status(); s.Feed != 7 || len(s.Faults) != 0 {
			t.Errorf("%+v", s)
		}
		if n := l.asked("GET " + wire.PathFeed); n > 21 {
			t.Errorf("%d polls in 17 minutes", n)
		}
	})
}

func TestServerThatDoesNotHoldThePollIsNotHammered(t *testing.T) {
	bubble(t, func(t *testing.T, l *link) {
		l.spoil = only(wire.PathFeed, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"protocol":1,"items":[]}`) })
		l.start()
		pass(time.Minute)
		if n := l.asked("GET " + wire.PathFeed); n > 13 {
			t.Errorf("%d polls in a minute", n)
		}
	})
}

func TestFeedThatRepeatsOldItemsIsNamedAndNotHammered(t *testing.T) {
	bubble(t, func(t *testing.T, l *link) {
		l.feed = []wire.FeedItem{packActive(4)}
		l.start()
		pass(time.Second)
		l.update(func() {
			l.spoil = only(wire.PathFeed, func(w http.ResponseWriter, _ *http.Request) {
				_ = json.NewEncoder(w).Encode(wire.Feed{Protocol: 1, Items: []wire.FeedItem{packActive(3)}})
			})
			l.feed = append(l.feed, packActive(5)) // ends the poll under way
		})
		pass(5 * time.Minute)
		if f := l.fault(LaneFeed); f.Code != CodeAnswer || !strings.Contains(f.Text, "none after 5") {
			t.Errorf("%+v", f)
		}
		if p, _, err := l.ledger.Pack(t.Context(), "00399", 5); err != nil || p.Epoch != 5 {
			t.Errorf("%+v %v", p, err)
		}
		if n := l.asked("GET " + wire.PathFeed); n > 40 {
			t.Errorf("%d polls", n)
		}
	})
}

func TestLaneThatFailsLeavesTheOthersAtWork(t *testing.T) {
	bubble(t, func(t *testing.T, l *link) {
		l.spoil = func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
			if r.URL.Path == wire.PathJournal {
				return false
			}
			refuse(w, http.StatusInternalServerError, &wire.Error{Kind: wire.KindInternal, Text: "our fault"})
			return true
		}
		l.pay(3)
		l.start()
		pass(time.Minute)
		l.equal()
		if s := l.uplink.Status(); len(s.Faults) != 3 || s.Faults[0].Lane != LaneFeed || s.Faults[0].Code != CodeBusy {
			t.Errorf("%+v", s.Faults)
		}
	})
}

func TestHelloTellsHowTheTerminalIs(t *testing.T) {
	bubble(t, func(t *testing.T, l *link) {
		l.opt.Faults = func() []string { return []string{"P2"} }
		l.fake.now = func() time.Time { return time.Now().Add(90 * time.Second) }
		l.spoil = only(wire.PathJournal, func(w http.ResponseWriter, _ *http.Request) {
			refuse(w, http.StatusServiceUnavailable, &wire.Error{Kind: wire.KindBusy, Text: "later"})
		})
		l.pay(2)
		l.start()
		pass(5 * time.Minute)
		h := l.fake.hello
		if h.Program != "test 1" || h.Head.Seq != 2 || h.Unsent != 2 || h.DiskFree <= 0 || strings.Join(h.Faults, " ") != "P2 C5-journal" {
			t.Errorf("%+v", h)
		}
		if s := l.uplink.Status(); !s.OffsetKnown || s.Offset.Round(time.Second) != 90*time.Second || time.Since(s.Contact) > 70*time.Second {
			t.Errorf("%+v", s)
		}
	})
}

// TestTrustedTimeIsWhatCentralSigned: neither the device's clock, nor an unsigned time
// in an answer, nor an old note raises or lowers it.
func TestTrustedTimeIsWhatCentralSigned(t *testing.T) {
	bubble(t, func(t *testing.T, l *link) {
		l.hints.Time = "2090-01-01T00:00:00.000Z" // unsigned
		central := time.Now().Add(48 * time.Hour) // the device is two days late
		start := time.Now()
		l.fake.now = func() time.Time { return central.Add(time.Since(start)) }
		l.start()
		pass(5 * time.Minute)
		if got := l.uplink.Trusted(); !got.IsZero() {
			t.Fatalf("trusted before anything was signed: %v", got)
		}
		l.pay(1)
		pass(time.Millisecond)
		pass(3 * time.Hour)
		if got, want := l.uplink.Trusted(), central.Add(time.Since(start)); want.Sub(got) < 0 || want.Sub(got) > 10*time.Millisecond {
			t.Errorf("trusted %v, central's clock is %v", got, want)
		}
		before := l.uplink.Trusted()
		if _, err := l.uplink.openAck(string(l.note(wire.Ack{Terminal: "T-1", Position: l.position(), Time: central}.Text()))); err != nil {
			t.Fatal(err)
		}
		if got := l.uplink.Trusted(); got.Before(before) {
			t.Errorf("an old note took it back to %v", got)
		}
		l.stop()
		l.start()
		if got := l.uplink.Floor(); got.Before(central) {
			t.Errorf("after a restart the floor is %v", got)
		}
	})
}

func TestSignedTimeComesWithAHelloToo(t *testing.T) {
	bubble(t, func(t *testing.T, l *link) {
		l.helloAck = true
		l.start()
		pass(time.Second)
		if got := l.uplink.Trusted(); time.Since(got) > 10*time.Millisecond {
			t.Errorf("%v", got)
		}
		if a := l.ledger.Allowance(); a.Claims != 500 {
			t.Errorf("%+v", a)
		}
	})
}

func TestTerminalThatBootsInThePastReachesCentral(t *testing.T) {
	bubble(t, func(t *testing.T, l *link) {
		past := time.Unix(0, 0)
		start := time.Now()
		l.opt.Now = func() time.Time { return past.Add(time.Since(start)) }
		l.pay(1)
		l.start()
		pass(time.Second)
		l.equal()
	})
}

// TestNoClockKeepsATerminalFromCentral: 1970, weeks back as a stored clock is, and years ahead.
func TestNoClockKeepsATerminalFromCentral(t *testing.T) {
	for name, wrong := range map[string]func(time.Time) time.Time{
		"weeks back":  func(t time.Time) time.Time { return t.AddDate(0, 0, -14) },
		"years ahead": func(t time.Time) time.Time { return t.AddDate(20, 0, 0) },
		"in 1970":     func(t time.Time) time.Time { return t.AddDate(-30, 0, 0) },
	} {
		bubble(t, func(t *testing.T, l *link) {
			l.opt.Now = func() time.Time { return wrong(time.Now()) }
			l.pay(1)
			l.start()
			pass(time.Second)
			if s := l.uplink.Status(); len(s.Faults) != 0 {
				t.Errorf("%s: %+v", name, s.Faults)
			}
			l.equal()
		})
	}
}

func TestClockAheadThatMayBeRightIsNamed(t *testing.T) {
	bubble(t, func(t *testing.T, l *link) {
		l.opt.Now = func() time.Time { return time.Now().AddDate(2, 0, 0) } // central's certificate lives a year
		l.start()
		pass(time.Second)
		if f := l.fault(LaneHello); f.Code != CodeNotCentral || !strings.Contains(f.Text, "clock") {
			t.Errorf("%+v", f)
		}
	})
}

// TestCentralsCertificateIsHeldAgainstTheFloor: whatever the clock shows, one that had
// ended when central last signed something is refused, and one that began since is not.
func TestCentralsCertificateIsHeldAgainstTheFloor(t *testing.T) {
	floor := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	at := func(from, to int, parent *x509.Certificate) *x509.Certificate { // days from the floor
		c := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: floor.AddDate(0, 0, from), NotAfter: floor.AddDate(0, 0, to), DNSNames: []string{"central.test"},
			Subject: pkix.Name{CommonName: map[bool]string{true: "ca", false: "leaf"}[parent == nil]}, IsCA: parent == nil, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature}
		if parent == nil {
			parent = c
		}
		return must(x509.ParseCertificate(must(x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, key))))
	}
	ca := at(-3650, 3650, nil)
	clocks := map[string]time.Time{"1970": time.Unix(0, 0), "20 years ahead": floor.AddDate(20, 0, 0), "two weeks back": floor.AddDate(0, 0, -14), "right": floor.AddDate(0, 0, 1)}
	for _, c := range []struct {
		name     string
		from, to int
		good     bool
		right    bool // by a clock that is right
	}{
		{"good now", -10, 700, true, true},
		{"begun since, while the terminal slept", 200, 900, true, false},
		{"ended before the floor", -800, -70, false, false},
		{"of another host", 0, 0, false, false},
	} {
		leaf := at(c.from, c.to, ca)
		host := "central.test"
		if c.to == 0 {
			leaf, host = at(-10, 700, ca), "other.test"
		}
		for name, clock := range clocks {
			u := &Uplink{opt: Options{Now: func() time.Time { return clock }}, floor: floor}
			now, believed := u.tlsTime()
			want := c.good
			if name == "right" {
				want = c.right
			}
			if err := verifyServer([]*x509.Certificate{leaf, ca}, pool(ca), host, now, believed); (err == nil) != want {
				t.Errorf("a certificate %s, the clock %s: %v", c.name, name, err)
			}
		}
	}
	if err := verifyServer(nil, pool(ca), "central.test", floor, true); err == nil {
		t.Error("no certificate at all is taken")
	}
}

func TestNetworkThatIsDownIsNamedAndRetried(t *testing.T) {
	bubble(t, func(t *testing.T, l *link) {
		l.net.cut(true)
		l.pay(1)
		l.start()
		pass(10 * time.Minute)
		if f := l.fault(LaneJournal); f.Code != CodeUnreachable || f.Tries < 8 || time.Since(f.At) < 9*time.Minute {
			t.Errorf("%+v", f)
		}
		l.net.cut(false)
		pass(time.Minute)
		l.equal()
	})
}

func TestUplinkIsOfItsLedgersTerminal(t *testing.T) {
	bubble(t, func(t *testing.T, l *link) {
		o := l.opt
		o.Identity.Terminal = "T-2"
		if _, err := New(o); !errors.Is(err, ErrIdentity) {
			t.Error(err)
		}
		o = l.opt
		o.Identity = Identity{}
		if _, err := New(o); !errors.Is(err, ErrNoIdentity) {
			t.Error(err)
		}
		o = l.opt
		o.URL = "http://central.test"
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), "https://") {
			t.Error(err)
		}
	})
}

// TestSuspensionOutlivesThePulledCableAndARestart: only central's own answer lifts it.
func TestSuspensionOutlivesThePulledCableAndARestart(t *testing.T) {
	bubble(t, func(t *testing.T, l *link) {
		l.spoil = func(w http.ResponseWriter, _ *http.Request, _ []byte) bool {
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, `{"kind":"forbidden","text":"suspended"}`)
			return true
		}
		l.start()
		pass(time.Minute)
		if !l.uplink.Status().Suspended() {
			t.Fatal("a suspended terminal does not know it")
		}
		l.net.cut(true)
		pass(time.Hour)
		if s := l.uplink.Status(); !s.Suspended() {
			t.Fatalf("pulling the cable lifted the suspension: %+v", s)
		}
		l.stop()
		l.start()
		pass(time.Minute)
		if s := l.uplink.Status(); !s.Suspended() {
			t.Fatalf("a restart lifted the suspension: %+v", s)
		}
		l.update(func() { l.spoil = nil })
		l.net.cut(false)
		pass(5 * time.Minute)
		if s := l.uplink.Status(); s.Suspended() {
			t.Fatalf("central took it back, the terminal did not hear: %+v", s)
		}
	})
}

// TestAnAlertOnTheLineSuspendsNobody: it is not signed, anybody on the line can send it.
func TestAnAlertOnTheLineSuspendsNobody(t *testing.T) {
	err := transportError(errors.New("remote error: tls: handshake failure"))
	if code := faultCode(err); code != CodeNotCentral {
		t.Fatalf("%s: %v", code, err)
	}
}

// TestEachEntryIsSignedByCentralOrElseByTheDevice: central's note is kept with what it
// acknowledges; while it cannot be reached the device signs, once for each new head.
func TestEachEntryIsSignedByCentralOrElseByTheDevice(t *testing.T) {
	bubble(t, func(t *testing.T, l *link) {
		verifier := must(note.NewVerifier(l.opt.Identity.CentralKey))
		keys := ledger.Keys{Central: note.VerifierList(verifier), Device: []*ecdsa.PublicKey{l.opt.Identity.DeviceKey()}}
		proof := func() ledger.EpochProof {
			t.Helper()
			p := must(l.ledger.Prove(context.Background(), keys))
			return p.Epochs[0]
		}
		l.start()
		l.pay(3)
		pass(time.Minute)
		if p := proof(); !p.Central.Verified || p.Central.Seq != 3 || p.Heads != 0 {
			t.Fatalf("with central: %+v", p)
		}
		l.net.cut(true)
		l.pay(2)
		pass(10 * time.Minute)
		if p := proof(); p.Central.Seq != 3 || !p.Device.Verified || p.Device.Seq != 5 || p.Device.Why != ledger.HeadUpload || p.Covered() != 5 {
			t.Fatalf("without central: %+v", p)
		}
		l.net.cut(false)
		pass(10 * time.Minute)
		if p := proof(); p.Central.Seq != 5 {
			t.Fatalf("with central again: %+v", p)
		}
	})
}
