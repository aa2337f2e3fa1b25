package central

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/mod/sumdb/note"

	"grattoir/sync/wire"
	"grattoir/validate"
	"grattoir/validate/manifest"
)

func TestEnrolmentCodeWorksForOneDeviceOnly(t *testing.T) {
	onEachStore(t, testEnrolmentCodeWorksForOneDeviceOnly)
}

func testEnrolmentCodeWorksForOneDeviceOnly(t *testing.T, w *world) {
	code, err := w.AddTerminal(t.Context(), "T-1")
	if err != nil {
		t.Fatal(err)
	}
	open, key := w.client(nil), newKey(t)
	request := wire.EnrolRequest{Protocol: 1, Code: strings.ToLower(code.Code), CSR: makeCSR(t, key)}
	var first, again wire.EnrolAnswer
	if e := post(t, open, wire.PathEnrol, request, &first); e != nil {
		t.Fatal(e)
	}
	// The answer was lost: the same device asks again.
	if e := post(t, open, wire.PathEnrol, request, &again); e != nil || again.Certificate != first.Certificate {
		t.Fatalf("asked again: %v, the same certificate: %v", e, again.Certificate == first.Certificate)
	}
	wantKind(t, post(t, open, wire.PathEnrol, wire.EnrolRequest{Protocol: 1, Code: code.Code, CSR: makeCSR(t, newKey(t))}, &again), wire.KindBadCode)
	w.clock.advance(codeLife)
	wantKind(t, post(t, open, wire.PathEnrol, request, &again), wire.KindBadCode)

	block, _ := pem.Decode([]byte(first.Certificate))
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil || cert.Subject.CommonName != "T-1" || !cert.NotAfter.Equal(noon.Add(90*24*time.Hour)) {
		t.Fatalf("certificate of %v until %v: %v", cert.Subject, cert.NotAfter, err)
	}
	if first.Terminal != "T-1" || first.CentralKey != w.PublicKey() || len(first.SealKeys) != 1 || first.ClaimKey == "" {
		t.Fatalf("%+v", first)
	}
	_, pin, err := wire.ParseEnrolCode(code.Code)
	ca, _ := pem.Decode([]byte(first.CA))
	caCert, parse := x509.ParseCertificate(ca.Bytes)
	if err != nil || parse != nil || pin != wire.PinOf(caCert.RawSubjectPublicKeyInfo) {
		t.Fatalf("the code does not name the CA: %v %v", err, parse)
	}
	if _, err := w.AddTerminal(t.Context(), "T-1"); !errors.Is(err, ErrRefused) {
		t.Fatalf("a second code of an enrolled terminal: %v", err)
	}
	if n := w.count(t, "SELECT count(*) FROM enrol_codes WHERE hash = $1", []byte(code.Code)); n != 0 {
		t.Fatal("the code is stored")
	}
}

func TestEnrolmentRefusesWhatIsNoRequest(t *testing.T) {
	w := newWorld(t)
	code, err := w.AddTerminal(t.Context(), "T-1")
	if err != nil {
		t.Fatal(err)
	}
	good := makeCSR(t, newKey(t))
	block, _ := pem.Decode([]byte(good))
	broken := bytes.Clone(block.Bytes)
	broken[len(broken)-1] ^= 1
	encode := func(der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
	}
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	rsaCSR, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, rsaKey)
	if err != nil {
		t.Fatal(err)
	}
	other := testCentral(t, t.TempDir(), w.clock)
	foreign, err := other.AddTerminal(t.Context(), "T-1")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		request wire.EnrolRequest
		kind    wire.Kind
	}{
		"a broken signature":     {wire.EnrolRequest{Protocol: 1, Code: code.Code, CSR: encode(broken)}, wire.KindBadRequest},
		"a P-384 key":            {wire.EnrolRequest{Protocol: 1, Code: code.Code, CSR: makeCSR(t, p384)}, wire.KindBadRequest},
		"an RSA key":             {wire.EnrolRequest{Protocol: 1, Code: code.Code, CSR: encode(rsaCSR)}, wire.KindBadRequest},
		"no PEM":                 {wire.EnrolRequest{Protocol: 1, Code: code.Code, CSR: "x"}, wire.KindBadRequest},
		"another central's code": {wire.EnrolRequest{Protocol: 1, Code: foreign.Code, CSR: good}, wire.KindBadCode},
		"a code of letters":      {wire.EnrolRequest{Protocol: 1, Code: "ABCD", CSR: good}, wire.KindBadCode},
		"protocol 0":             {wire.EnrolRequest{Code: code.Code, CSR: good}, wire.KindUpgrade},
	} {
		t.Run(name, func(t *testing.T) {
			var a wire.EnrolAnswer
			wantKind(t, post(t, w.client(nil), wire.PathEnrol, c.request, &a), c.kind)
		})
	}
}

// TestRevocationTakesEffectAtTheNextRequest: on a connection that is open already.
func TestRevocationTakesEffectAtTheNextRequest(t *testing.T) {
	onEachStore(t, testRevocationTakesEffectAtTheNextRequest)
}

func testRevocationTakesEffectAtTheNextRequest(t *testing.T, w *world) {
	d := w.enrolled(t, "T-1")
	var h wire.HelloAnswer
	if e := post(t, d.client, wire.PathHello, wire.Hello{Protocol: 1}, &h); e != nil {
		t.Fatal(e)
	}
	if err := w.Suspend(t.Context(), "T-1", "stolen"); err != nil {
		t.Fatal(err)
	}
	e := post(t, d.client, wire.PathHello, wire.Hello{Protocol: 1}, &h)
	wantKind(t, e, wire.KindForbidden)
	if !strings.Contains(e.Text, "stolen") {
		t.Fatalf("it does not say why: %s", e.Text)
	}
	again := w.enrolled(t, "T-1") // another device in its place
	wantKind(t, post(t, d.client, wire.PathHello, wire.Hello{Protocol: 1}, &h), wire.KindForbidden)
	if e := post(t, again.client, wire.PathHello, wire.Hello{Protocol: 1}, &h); e != nil {
		t.Fatal(e)
	}
	w.clock.advance(terminalLife + time.Second)
	wantKind(t, post(t, again.client, wire.PathHello, wire.Hello{Protocol: 1}, &h), wire.KindExpired)
}

// TestEveryKeyThatATerminalEnrolledIsKept: each proves what was signed in its time, also
// of a terminal that was suspended since.
func TestEveryKeyThatATerminalEnrolledIsKept(t *testing.T) {
	onEachStore(t, testEveryKeyThatATerminalEnrolledIsKept)
}

func testEveryKeyThatATerminalEnrolledIsKept(t *testing.T, w *world) {
	if _, err := w.DeviceKeys(t.Context(), "T-1"); !errors.Is(err, ErrNotFound) {
		t.Errorf("a terminal that nobody added: %v", err)
	}
	if _, err := w.AddTerminal(t.Context(), "T-1"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.DeviceKeys(t.Context(), "T-1"); !errors.Is(err, ErrRefused) {
		t.Errorf("a terminal that never enrolled: %v", err)
	}
	keys := func(devices ...*device) []DeviceKey {
		t.Helper()
		list, err := w.DeviceKeys(t.Context(), "T-1")
		if err != nil || len(list) != len(devices) {
			t.Fatalf("%d keys, want %d: %v", len(list), len(devices), err)
		}
		for i, d := range devices {
			if !list[i].Public.Equal(&d.key.PublicKey) || list[i].Until.IsZero() != (i == 0) {
				t.Errorf("key %d of %d is another one, or not of its time: %+v", i, len(list), list[i])
			}
		}
		return list
	}
	first := w.enrolled(t, "T-1")
	if err := w.Suspend(t.Context(), "T-1", "stolen"); err != nil {
		t.Fatal(err)
	}
	keys(first)
	w.clock.advance(time.Hour)
	second := w.enrolled(t, "T-1")
	if err := w.Suspend(t.Context(), "T-1", "again"); err != nil {
		t.Fatal(err)
	}
	third := w.enrolled(t, "T-1") // in the same millisecond
	list := keys(third, second, first)
	if list[2].Until != list[1].Enrolled || list[1].Enrolled.Sub(list[2].Enrolled) != time.Hour {
		t.Errorf("%+v", list)
	}
}

// TestKeysFromBeforeTheirHistoryAreKept: a database of the program before has the newest.
func TestKeysFromBeforeTheirHistoryAreKept(t *testing.T) {
	w := newWorld(t)
	d := w.enrolled(t, "T-1")
	steps, err := fs.Glob(schema, "schema/sqlite/*.sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range slices.Backward(steps[4:]) {
		text, err := fs.ReadFile(schema, step)
		if err != nil {
			t.Fatal(err)
		}
		for _, back := range []struct{ made, undo string }{{`CREATE INDEX (\w+)`, "DROP INDEX $1"}, {`ALTER TABLE (\w+) ADD COLUMN (\w+)`, "ALTER TABLE $1 DROP COLUMN $2"}, {`CREATE TABLE (\w+)`, "DROP TABLE $1"}} {
			made := regexp.MustCompile(back.made)
			for _, m := range made.FindAllStringSubmatchIndex(string(text), -1) {
				w.exec(t, string(made.ExpandString(nil, back.undo, string(text), m)))
			}
		}
	}
	w.exec(t, "DELETE FROM goose_db_version WHERE version_id >= 5")
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(w.opt.Dir, idFile)); err != nil { // later than that program
		t.Fatal(err)
	}
	again := testCentral(t, w.opt.Dir, w.clock)
	list, err := again.DeviceKeys(t.Context(), "T-1")
	if err != nil || len(list) != 1 || !list[0].Public.Equal(&d.key.PublicKey) || !list[0].Enrolled.Equal(noon) {
		t.Fatalf("%+v %v", list, err)
	}
}

// TestMutualTLSOverLoopback: the real network stack, TLS 1.3, and nothing without a
// certificate but enrolment.
func TestMutualTLSOverLoopback(t *testing.T) {
	w := newWorld(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: w.API(), TLSConfig: w.TLSConfig()}
	go func() { _ = s.ServeTLS(ln, "", "") }()
	defer s.Close()
	w.dial = func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", ln.Addr().String())
	}
	d := w.enrolled(t, "T-1")
	var h wire.HelloAnswer
	if e := post(t, d.client, wire.PathHello, wire.Hello{Protocol: 1}, &h); e != nil || h.Time != wire.FormatTime(noon) || h.Snapshot != 2 {
		t.Fatalf("%+v, %v", h, e)
	}
	for _, path := range []string{wire.PathFeed, wire.PathSnapshot, wire.PathBlocks + w.block.SHA256} {
		var any string
		wantKind(t, get(t, w.client(nil), path, &any), wire.KindForbidden)
	}
	for _, path := range []string{wire.PathHello, wire.PathJournal} {
		wantKind(t, post(t, w.client(nil), path, struct{}{}, &h), wire.KindForbidden)
	}
	stranger := testCentral(t, t.TempDir(), w.clock) // another CA's certificate
	other := &world{Central: stranger, clock: w.clock, dial: servePipes(t, stranger)}
	thief := other.enrolled(t, "T-1")
	block, _ := pem.Decode([]byte(thief.answer.Certificate))
	_, err = w.client(&tls.Certificate{Certificate: [][]byte{block.Bytes}, PrivateKey: thief.key}).Get("https://localhost" + wire.PathSnapshot)
	if err == nil {
		t.Fatal("another CA's certificate was let in")
	}
	old := w.client(nil)
	old.Transport.(*http.Transport).TLSClientConfig.MaxVersion = tls.VersionTLS12
	if _, err := old.Get("https://localhost" + wire.PathSnapshot); err == nil {
		t.Fatal("TLS 1.2 was let in")
	}
}

func TestBodiesAreBounded(t *testing.T) {
	w := newWorld(t)
	d := w.enrolled(t, "T-1")
	var any struct{}
	large := func(n int) []byte { return []byte(`{"program":"` + strings.Repeat("x", n) + `"}`) }
	wantKind(t, postRaw(t, d.client, wire.PathHello, large(wire.MaxRequest), &any), wire.KindTooLarge)
	wantKind(t, postRaw(t, d.client, wire.PathEnrol, large(wire.MaxRequest), &any), wire.KindTooLarge)
	wantKind(t, postRaw(t, d.client, wire.PathJournal, large(wire.MaxUpload), &any), wire.KindTooLarge)
	wantKind(t, postRaw(t, d.client, wire.PathHello, []byte(`{"protocol":1} {}`), &any), wire.KindBadRequest)
	wantKind(t, postRaw(t, d.client, wire.PathHello, []byte(`{"protocol":1,"program":"a\u0007"}`), &any), wire.KindBadRequest)
	wantKind(t, get(t, d.client, wire.PathFeed+"?wait=3600", &any), wire.KindBadRequest)
	wantKind(t, get(t, d.client, wire.PathFeed+"?after=-1", &any), wire.KindBadRequest)
	wantKind(t, get(t, d.client, "/v1/nothing", &any), wire.KindNotFound)
	if e := postRaw(t, d.client, wire.PathHello, []byte(`{"protocol":7,"field of a later version":1}`), &any); e != nil {
		t.Fatalf("a later terminal: %v", e)
	}
}

func TestHelloShowsInTheListOfTerminals(t *testing.T) {
	onEachStore(t, testHelloShowsInTheListOfTerminals)
}

func testHelloShowsInTheListOfTerminals(t *testing.T, w *world) {
	d := w.enrolled(t, "T-1")
	w.clock.advance(time.Minute)
	h := wire.Hello{Protocol: 1, Program: "0.2", Head: d.head(0), Snapshot: 2, Feed: 5, Unsent: 7, DeviceTime: wire.FormatTime(noon), DiskFree: 1 << 30, Faults: []string{"P2"}}
	var a wire.HelloAnswer
	if e := post(t, d.client, wire.PathHello, h, &a); e != nil {
		t.Fatal(e)
	}
	if _, err := w.AddTerminal(t.Context(), "T-0"); err != nil {
		t.Fatal(err)
	}
	list, err := w.Terminals(t.Context())
	if err != nil || len(list) != 2 || list[0].State != NeverSeen {
		t.Fatalf("%+v: %v", list, err)
	}
	x := list[1]
	if x.State != Enrolled || !x.Contact.Equal(noon.Add(time.Minute)) || x.Unsent != 7 || x.SkewMS == nil || *x.SkewMS != -60000 || x.Faults[0] != "P2" || x.Feed != 5 || x.Program != "0.2" {
		t.Fatalf("%+v", x)
	}
}

// TestHelloBringsSignedTimeToATerminalThatHasNothingToSend, from its first one on.
func TestHelloBringsSignedTimeToATerminalThatHasNothingToSend(t *testing.T) {
	w := newWorld(t)
	d := w.enrolled(t, "T-1")
	w.give(t, "T-1", 10, 19)
	v, err := note.NewVerifier(d.answer.CentralKey)
	if err != nil {
		t.Fatal(err)
	}
	for seq := range int64(3) {
		if seq > 0 {
			d.pay(t, w.winners(10, 19)[seq])
			d.send(t, seq, seq)
		}
		w.clock.advance(time.Hour)
		var a wire.HelloAnswer
		if e := post(t, d.client, wire.PathHello, wire.Hello{Protocol: 1, Head: d.head(seq), DeviceTime: wire.FormatTime(noon)}, &a); e != nil {
			t.Fatal(e)
		}
		n, err := note.Open([]byte(a.Ack), note.VerifierList(v))
		if err != nil {
			t.Fatalf("%q: %v", a.Ack, err)
		}
		if ack, err := wire.ParseAck(n.Text); err != nil || ack.Position != d.head(seq) || !ack.Time.Equal(w.clock.now()) || ack.AllowanceClaims != 50 {
			t.Fatalf("%+v %v", ack, err)
		}
	}
	var a wire.HelloAnswer
	other := d.head(2)
	other.Epoch++ // a journal that central has not seen
	if e := post(t, d.client, wire.PathHello, wire.Hello{Protocol: 1, Head: other, DeviceTime: wire.FormatTime(noon)}, &a); e != nil || a.Ack != "" {
		t.Fatalf("%v, acknowledged another journal: %q", e, a.Ack)
	}
}

// TestServerCertificateMadeWhileTheClockWasAheadIsMadeAgain: one start with a wrong
// clock must not shut every terminal out.
func TestServerCertificateMadeWhileTheClockWasAheadIsMadeAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "central")
	for _, c := range []*clock{{at: noon}, {at: noon.AddDate(8, 0, 0)}, {at: noon}} {
		x, err := Open(t.Context(), Options{Dir: dir, Now: c.now})
		if err != nil {
			t.Fatal(err)
		}
		leaf := x.keys.server.Leaf
		if err := x.Close(); err != nil {
			t.Fatal(err)
		}
		if c.now().Before(leaf.NotBefore) || c.now().After(leaf.NotAfter) {
			t.Fatalf("at %v the certificate is valid from %v to %v", c.now(), leaf.NotBefore, leaf.NotAfter)
		}
	}
}

// TestWildClockOfOneTerminalIsNotHandedToTheOwnersFeed: the owner would refuse the whole
// run; the time of receipt stands in its place.
func TestWildClockOfOneTerminalIsNotHandedToTheOwnersFeed(t *testing.T) {
	w := newWorld(t)
	w.enrolled(t, "T-1")
	d := w.enrolled(t, "T-2")
	w.give(t, "T-1", 10, 19)
	for i, wild := range []string{"garbage", "2026-11-30T11:59:00Z"} {
		d.time = wild
		d.pay(t, w.winners(10, 19)[i])
		d.send(t, int64(i+1), int64(i+1))
	}
	f, err := w.Feed(t.Context(), "T-1", 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	told := 0
	for _, item := range f.Items {
		if item.Kind == wire.FeedPaid {
			told++
			if item.Paid.At != wire.FormatTime(noon) {
				t.Errorf("told %q", item.Paid.At)
			}
		}
	}
	if told != 2 {
		t.Errorf("%d of 2 payments told to the owner", told)
	}
}

func TestUnsentEntriesFallWithEachUploadNotOnlyWithTheNextHello(t *testing.T) {
	onEachStore(t, testUnsentEntriesFallWithEachUploadNotOnlyWithTheNextHello)
}

func testUnsentEntriesFallWithEachUploadNotOnlyWithTheNextHello(t *testing.T, w *world) {
	d := w.enrolled(t, "T-1")
	w.give(t, "T-1", 10, 19)
	d.pay(t, w.winners(10, 19)[:6]...)
	h := wire.Hello{Protocol: 1, Program: "0.2", Head: d.head(6), Unsent: 6, DeviceTime: wire.FormatTime(noon)}
	var a wire.HelloAnswer
	if e := post(t, d.client, wire.PathHello, h, &a); e != nil {
		t.Fatal(e)
	}
	for _, step := range []struct{ from, to, unsent int64 }{{1, 4, 2}, {5, 6, 0}} {
		d.send(t, step.from, step.to)
		x, err := w.Terminal(t.Context(), "T-1")
		if err != nil || x.Unsent != step.unsent || x.Head.Seq != 6 || x.Acked.Seq != step.to {
			t.Fatalf("after entry %d: %+v, %v", step.to, x, err)
		}
	}
}

// TestFeedWakesLongPolls in fake time: at once for this process, within half a second
// for another one, and with an empty run when nothing comes.
func TestFeedWakesLongPolls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.enrolled(t, "T-1")
		begin := time.Now()
		if f, err := w.Feed(t.Context(), "T-1", 0, 20*time.Second); err != nil || len(f.Items) != 0 || time.Since(begin) != 20*time.Second {
			t.Fatalf("%+v after %v: %v", f, time.Since(begin), err)
		}
		other := testCentral(t, w.opt.Dir, w.clock) // as the operations' tool
		for _, step := range []struct {
			by     *Central
			pack   uint32
			within time.Duration
		}{{w.Central, 10, gatherFor}, {other, 11, watchEvery + gatherFor}} {
			begin := time.Now()
			after := int64(step.pack) - 10
			got := make(chan wire.Feed, 1)
			go func() {
				f, err := w.Feed(t.Context(), "T-1", after, 50*time.Second)
				if err != nil {
					t.Error(err)
				}
				got <- f
			}()
			synctest.Wait() // the poll waits
			if _, err := step.by.Deliver(t.Context(), "399", step.pack, step.pack, "T-1"); err != nil {
				t.Fatal(err)
			}
			if f := <-got; len(f.Items) != 1 || f.Items[0].Pack.First != step.pack || time.Since(begin) > step.within {
				t.Fatalf("%+v after %v", f, time.Since(begin))
			}
		}
	})
}

// TestLongPollOverTheWireInFakeTime: TLS and HTTP inside the bubble, a suspension while
// the poll waits, and the end of the server.
func TestLongPollOverTheWireInFakeTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d, e := w.enrolled(t, "T-1"), w.enrolled(t, "T-2")
		poll := func(d *device) chan *wire.Error {
			got := make(chan *wire.Error, 1)
			go func() {
				var f wire.Feed
				got <- get(t, d.client, wire.PathFeed+"?after=0&wait=50", &f)
			}()
			synctest.Wait()
			return got
		}
		first, second := poll(d), poll(e)
		if err := w.Suspend(t.Context(), "T-1", "stolen"); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		w.EndPolls()
		wantKind(t, <-first, wire.KindForbidden)
		if err := <-second; err != nil || time.Since(begin) != 0 {
			t.Fatalf("%v after %v", err, time.Since(begin))
		}
		d.client.CloseIdleConnections()
		e.client.CloseIdleConnections()
	})
}

// TestHeldPollGivesSignsOfLife: the head comes at once, then a byte each so many seconds,
// then what there is to say, together where it was said together. After a suspension the
// answer is empty and the next one a refusal.
func TestHeldPollGivesSignsOfLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d := w.enrolled(t, "T-1")
		poll := func() (read func() string) {
			resp, err := d.client.Get("https://localhost" + wire.PathFeed + "?after=0&wait=55&beat=10")
			if err != nil || resp.StatusCode != http.StatusOK || resp.Header.Get(wire.HeaderBeat) != "10" {
				t.Fatalf("%+v %v", resp, err)
			}
			t.Cleanup(func() { _ = resp.Body.Close() })
			return func() string {
				b := make([]byte, 4096)
				n, err := resp.Body.Read(b)
				if err != nil && err != io.EOF {
					t.Fatal(err)
				}
				return string(b[:n])
			}
		}
		begin := time.Now()
		read := poll()
		for i := range 6 {
			if got := read(); got != "\n" || time.Since(begin) != time.Duration(i)*10*time.Second {
				t.Fatalf("sign %d: %q after %v", i, got, time.Since(begin))
			}
		}
		if got := read(); !strings.HasPrefix(got, `{"protocol":1,"items":[]`) || time.Since(begin) != 55*time.Second {
			t.Fatalf("%q after %v", got, time.Since(begin))
		}

		read = poll()
		read()
		for _, pack := range []uint32{10, 11} {
			if _, err := w.Deliver(t.Context(), "399", pack, pack, "T-1"); err != nil {
				t.Fatal(err)
			}
			synctest.Wait() // the poll is woken by the first
		}
		var f wire.Feed
		if err := json.Unmarshal([]byte(read()), &f); err != nil || len(f.Items) != 2 {
			t.Fatalf("%+v %v", f, err)
		}
	})
}

func TestHeldPollThatWasSuspendedTellsNothingMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d := w.enrolled(t, "T-1")
		path, got := wire.PathFeed+"?after=0&wait=55&beat=10", make(chan wire.Feed, 1)
		go func() {
			var f wire.Feed
			if e := get(t, d.client, path, &f); e != nil {
				t.Error(e)
			}
			got <- f
		}()
		synctest.Wait()
		if err := w.Suspend(t.Context(), "T-1", "stolen"); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		if f := <-got; len(f.Items) != 0 || time.Since(begin) != 0 {
			t.Fatalf("%+v after %v", f, time.Since(begin))
		}
		wantKind(t, get(t, d.client, path, nil), wire.KindForbidden)
		d.client.CloseIdleConnections()
	})
}

func TestBlockFilesInRanges(t *testing.T) {
	w := newWorld(t)
	d := w.enrolled(t, "T-1")
	want, err := os.ReadFile(w.file)
	if err != nil {
		t.Fatal(err)
	}
	fetch := func(sum string, header map[string]string) (int, []byte) {
		r, err := http.NewRequestWithContext(t.Context(), "GET", "https://localhost"+wire.PathBlocks+sum, nil)
		if err != nil {
			t.Fatal(err)
		}
		for k, v := range header {
			r.Header.Set(k, v)
		}
		resp, err := d.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, body
	}
	sum := w.block.SHA256
	if status, body := fetch(sum, nil); status != 200 || !bytes.Equal(body, want) {
		t.Fatalf("status %d, %d bytes", status, len(body))
	}
	if status, body := fetch(sum, map[string]string{"Range": "bytes=100-199", "If-Range": `"` + sum + `"`}); status != 206 || !bytes.Equal(body, want[100:200]) {
		t.Fatalf("range: status %d, %d bytes", status, len(body))
	}
	if status, body := fetch(sum, map[string]string{"Range": "bytes=100-199", "If-Range": `"other"`}); status != 200 || len(body) != len(want) {
		t.Fatalf("range of another file: status %d, %d bytes", status, len(body))
	}
	for sum, status := range map[string]int{strings.Repeat("0", 64): 404, "..%2f..%2fkeys%2fca.pem": 400, strings.ToUpper(sum): 400} {
		if got, _ := fetch(sum, nil); got != status {
			t.Errorf("%s: status %d, want %d", sum, got, status)
		}
	}
}

func TestSnapshotVersionOnlyRises(t *testing.T) { onEachStore(t, testSnapshotVersionOnlyRises) }

func testSnapshotVersionOnlyRises(t *testing.T, w *world) {
	d := w.enrolled(t, "T-1")
	snapshot := func() wire.Snapshot {
		var text string
		if e := get(t, d.client, wire.PathSnapshot, &text); e != nil {
			t.Fatal(e)
		}
		v, err := note.NewVerifier(d.answer.CentralKey)
		if err != nil {
			t.Fatal(err)
		}
		n, err := note.Open([]byte(text), note.VerifierList(v))
		if err != nil {
			t.Fatal(err)
		}
		s, err := wire.ParseSnapshot(n.Text)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	if s := snapshot(); s.Version != 2 || len(s.Blocks) != 1 || s.Blocks[0].SHA256 != w.block.SHA256 || s.Blocks[0].GameCode != "00399" {
		t.Fatalf("%+v", s)
	}
	if _, err := w.Publish(t.Context(), w.file); err != nil { // again: nothing changes
		t.Fatal(err)
	}
	w.clock.advance(time.Hour)
	second, _ := sealBlock(t, w.Central, 20)
	if _, err := w.Publish(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	if s := snapshot(); s.Version != 3 || len(s.Blocks) != 2 || !s.Issued.Equal(noon.Add(time.Hour)) {
		t.Fatalf("%+v", s)
	}
}

func TestPublishRefusesWhatDoesNotVerify(t *testing.T) {
	w := newWorld(t)
	overlapping, _ := sealBlock(t, w.Central, 19)
	if _, err := w.Publish(t.Context(), overlapping); !errors.Is(err, ErrRefused) {
		t.Errorf("packs of another block: %v", err)
	}
	stranger := testCentral(t, t.TempDir(), w.clock)
	unsigned, _ := sealBlock(t, stranger, 30)
	if _, err := w.Publish(t.Context(), unsigned); !errors.Is(err, manifest.ErrSignature) {
		t.Errorf("another lottery's key: %v", err)
	}
	text, err := os.ReadFile(w.file)
	if err != nil {
		t.Fatal(err)
	}
	// A tag of the last chunk: the header and the leaves stay as they were.
	damaged := filepath.Join(t.TempDir(), "damaged")
	if err := os.WriteFile(damaged, text, 0o600); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite3", damaged)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("UPDATE chunks SET sealed = zeroblob(length(sealed)) WHERE chunk = 1"); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Publish(t.Context(), damaged); !errors.Is(err, manifest.ErrDamaged) {
		t.Errorf("a damaged chunk: %v", err)
	}
	left, err := filepath.Glob(filepath.Join(w.opt.Dir, "blocks", ".new-*"))
	files, err2 := filepath.Glob(filepath.Join(w.opt.Dir, "blocks", "*")) // the published block and its descriptor
	if err := errors.Join(err, err2); err != nil || len(left) != 0 || len(files) != 2 || w.count(t, "SELECT max(version) FROM snapshots") != 2 {
		t.Errorf("left behind: %v, %v, %v", left, files, err)
	}
}

func TestPacksMoveInOrderOnly(t *testing.T) { onEachStore(t, testPacksMoveInOrderOnly) }

func testPacksMoveInOrderOnly(t *testing.T, w *world) {
	ctx := t.Context()
	w.enrolled(t, "T-1")
	w.enrolled(t, "T-2")
	refused := func(what string, want error, err error) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
	}
	_, err := w.Activate(ctx, "399", 10, 11)
	refused("activate printed packs", ErrRefused, err)
	_, err = w.Deliver(ctx, "399", 10, 11, "T-9")
	refused("deliver to nobody", ErrNotFound, err)
	_, err = w.Deliver(ctx, "399", 9, 11, "T-1")
	refused("deliver a pack of no block", ErrNotFound, err)
	_, err = w.Deliver(ctx, "0000399", 10, 11, "T-1")
	refused("a longer game code", ErrNotFound, err)
	_, err = w.Deliver(ctx, "399", 0, 4000000000, "T-1")
	refused("a huge run", ErrRefused, err)
	runs, err := w.Deliver(ctx, "00399", 10, 14, "T-1")
	if err != nil || len(runs) != 1 || runs[0] != (wire.PackItem{GameCode: "00399", First: 10, Last: 14, State: validate.PackDelivered, Owner: "T-1", Epoch: 1}) {
		t.Fatalf("%+v: %v", runs, err)
	}
	_, err = w.Deliver(ctx, "399", 14, 15, "T-2")
	refused("deliver twice", ErrRefused, err)
	if _, err := w.Deliver(ctx, "399", 15, 16, "T-2"); err != nil { // 15 was not half delivered
		t.Fatal(err)
	}
	runs, err = w.Activate(ctx, "399", 12, 16)
	if err != nil || len(runs) != 2 || runs[0].Last != 14 || runs[1].First != 15 || runs[1].Last != 16 || runs[1].Owner != "T-2" || runs[1].Epoch != 1 {
		t.Fatalf("%+v: %v", runs, err)
	}
	list, err := w.Packs(ctx, PackFilter{GameCode: "399"})
	if err != nil || len(list) != 7 || list[0].State != validate.PackDelivered || list[2].State != validate.PackActive {
		t.Fatalf("%+v: %v", list, err)
	}
}

func TestSecondOpenFindsTheSameCentral(t *testing.T) {
	dir, now := filepath.Join(t.TempDir(), "c"), &clock{at: noon}
	var group sync.WaitGroup
	centrals := make([]*Central, 4)
	for i := range centrals { // all at once, at first start
		group.Go(func() { centrals[i] = testCentral(t, dir, now) })
	}
	group.Wait()
	first := centrals[0]
	for _, c := range centrals[1:] {
		if c.PublicKey() != first.PublicKey() || !c.keys.ca.Equal(first.keys.ca) || c.keys.claimLine != first.keys.claimLine || !c.keys.server.Leaf.Equal(first.keys.server.Leaf) {
			t.Fatal("two processes made different keys")
		}
	}
	for _, name := range []string{"keys/ca.pem", "keys/server.pem", "keys/sign.key", "keys/claim.key", "central.db"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	if err := os.Chmod(filepath.Join(dir, "keys/ca.pem"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), Options{Dir: dir}); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("a key that others may read: %v", err)
	}
}

func TestServerCertificateIsRenewedAtStart(t *testing.T) {
	dir, now := t.TempDir(), &clock{at: noon}
	leaf := func(hosts ...string) *x509.Certificate {
		c, err := Open(t.Context(), Options{Dir: dir, Now: now.now, Hosts: hosts})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		return c.keys.server.Leaf
	}
	first := leaf("central.example.org", "192.0.2.1")
	if err := errors.Join(first.VerifyHostname("central.example.org"), first.VerifyHostname("192.0.2.1")); err != nil {
		t.Fatal(err)
	}
	if !leaf().Equal(first) || !leaf("192.0.2.1", "central.example.org").Equal(first) {
		t.Error("it was made again for nothing")
	}
	now.advance(366 * 24 * time.Hour)
	second := leaf()
	if second.Equal(first) || second.VerifyHostname("central.example.org") != nil {
		t.Error("it was not renewed for the same hosts")
	}
	if third := leaf("other.example.org"); third.VerifyHostname("other.example.org") != nil || third.VerifyHostname("central.example.org") == nil {
		t.Error("it does not follow the hosts")
	}
}

func TestOpenRefusesADatabaseThatIsNotItsOwn(t *testing.T) {
	for name, statement := range map[string]string{
		"newer program":          "INSERT INTO goose_db_version(version_id, is_applied) VALUES(999, 1)",
		"not central's database": "PRAGMA application_id = 7",
	} {
		dir := t.TempDir()
		if err := testCentral(t, dir, &clock{at: noon}).Close(); err != nil {
			t.Fatal(err)
		}
		db, err := sql.Open("sqlite3", filepath.Join(dir, "central.db"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.Exec(statement); err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(t.Context(), Options{Dir: dir}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestSuspensionVoidsTheCodeThatLiesAbout: a terminal suspended before it enrolled.
func TestSuspensionVoidsTheCodeThatLiesAbout(t *testing.T) {
	onEachStore(t, testSuspensionVoidsTheCodeThatLiesAbout)
}

func testSuspensionVoidsTheCodeThatLiesAbout(t *testing.T, w *world) {
	code, err := w.AddTerminal(t.Context(), "T-1")
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Suspend(t.Context(), "T-1", "code lost"); err != nil {
		t.Fatal(err)
	}
	var a wire.EnrolAnswer
	wantKind(t, post(t, w.client(nil), wire.PathEnrol, wire.EnrolRequest{Protocol: 1, Code: code.Code, CSR: makeCSR(t, newKey(t))}, &a), wire.KindBadCode)
}

func TestReaderCannotWrite(t *testing.T) { onEachStore(t, testReaderCannotWrite) }

func testReaderCannotWrite(t *testing.T, w *world) {
	if _, err := w.Reader().Exec("DELETE FROM blocks"); err == nil {
		t.Fatal("the reports' connection deleted the blocks")
	}
}

func TestSuspendOfAnUnknownTerminalIsSaid(t *testing.T) {
	w := newWorld(t)
	wantErr(t, w.Suspend(t.Context(), "T-9", ""), ErrNotFound)
	_, err := w.AddTerminal(t.Context(), "a b")
	wantErr(t, err, ErrRefused)
}
