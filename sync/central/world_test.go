package central

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"grattoir/sync/ledger"
	"grattoir/sync/ledger/people"
	"grattoir/sync/uplink/memnet"
	"grattoir/sync/wire"
	"grattoir/validate"
	"grattoir/validate/manifest"
	"grattoir/validate/manifest/seal"
	"grattoir/validate/ticket"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time { c.mu.Lock(); defer c.mu.Unlock(); return c.at }

func (c *clock) advance(d time.Duration) { c.mu.Lock(); defer c.mu.Unlock(); c.at = c.at.Add(d) }

// world is a central with one published block, reached over in-memory connections.
type world struct {
	*Central
	clock *clock
	dial  func(context.Context) (net.Conn, error)
	block Block
	file  string // the sealed manifest
	lots  []lot
}

// lot is a ticket as it was printed.
type lot struct {
	code ticket.Code
	tier int // 0 for a loser
}

var tiers = []manifest.Tier{{Count: 2, Amount: 20000}, {Count: 20, Amount: 2000}}

func testCentral(t testing.TB, dir string, clock *clock) *Central {
	t.Helper()
	return openCentral(t, Options{Dir: dir, Now: clock.now})
}

func openCentral(t testing.TB, opt Options) *Central {
	t.Helper()
	opt.AllowanceClaims, opt.AllowanceMinor = 50, 100000
	opt.PasswordCost = people.Cost{Memory: 8, Passes: 1, Threads: 1}
	c, err := Open(t.Context(), opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// newWorld is a world on SQLite.
func newWorld(t testing.TB) *world {
	t.Helper()
	return newWorldOn(t, "")
}

func newWorldOn(t testing.TB, database string) *world {
	t.Helper()
	return newWorldOf(t, database, 600, tiers)
}

// newWorldOf is a world whose block has so many tickets and prizes.
func newWorldOf(t testing.TB, database string, tickets int64, tiers []manifest.Tier) *world {
	t.Helper()
	w := &world{clock: &clock{at: noon}}
	w.Central = openCentral(t, Options{Dir: filepath.Join(t.TempDir(), "central"), Database: database, Now: w.clock.now})
	w.file, w.lots = sealBlockOf(t, w.Central, 10, tickets, tiers)
	var err error
	if w.block, err = w.Publish(t.Context(), w.file); err != nil {
		t.Fatal(err)
	}
	w.dial = servePipes(t, w.Central)
	return w
}

// sealBlock seals ten packs of 60 tickets and makes central trust the key.
func sealBlock(t testing.TB, c *Central, firstPack uint32) (path string, lots []lot) {
	t.Helper()
	return sealBlockOf(t, c, firstPack, 600, tiers)
}

func sealBlockOf(t testing.TB, c *Central, firstPack uint32, tickets int64, tiers []manifest.Tier) (path string, lots []lot) {
	t.Helper()
	skey, vkey, err := note.GenerateKey(rand.Reader, "test-lottery")
	if err != nil {
		t.Fatal(err)
	}
	signer, err := note.NewSigner(skey)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.TrustSealKey(vkey); err != nil {
		t.Fatal(err)
	}
	var csv bytes.Buffer
	s := seal.Sample{Layout: ticket.G40(), GameCode: "399", Tickets: tickets, FirstPack: firstPack, PackSize: 60, Tiers: tiers, Seed: t.Name()}
	if err := s.Write(&csv, func(int64) {}); err != nil {
		t.Fatal(err)
	}
	text := csv.String()
	path = filepath.Join(t.TempDir(), "b.manifest")
	_, err = seal.Seal(t.Context(), &csv, seal.Order{Game: "bingo", Name: "Bingo", Emission: "1", Number: 1, Serial: 1, Currency: "EUR", Price: 1000,
		Layout: ticket.G40(), Signer: signer, Prizes: func(int64) ([]manifest.Tier, bool, error) { return tiers, true, nil }}, path)
	if err != nil {
		t.Fatal(err)
	}
	layouts := ticket.Shipped()
	for _, row := range strings.Split(strings.TrimSpace(text), "\n")[1:] {
		digits, prize, _ := strings.Cut(row, ",")
		code, err := ticket.Parse(digits, 0, layouts)
		if err != nil {
			t.Fatal(err)
		}
		lots = append(lots, lot{code, map[string]int{"20000": 1, "2000": 2}[strings.TrimSpace(prize)]})
	}
	return path, lots
}

// winners are the winning tickets of the packs from first to last.
func (w *world) winners(first, last uint32) []lot {
	var list []lot
	for _, l := range w.lots {
		if l.tier > 0 && l.code.Pack >= first && l.code.Pack <= last {
			list = append(list, l)
		}
	}
	return list
}

func (w *world) loser() lot {
	for _, l := range w.lots {
		if l.tier == 0 {
			return l
		}
	}
	return lot{}
}

// give delivers and activates packs.
func (w *world) give(t testing.TB, terminal string, first, last uint32) {
	t.Helper()
	if _, err := w.Deliver(t.Context(), "399", first, last, terminal); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Activate(t.Context(), "399", first, last); err != nil {
		t.Fatal(err)
	}
}

// servePipes has c answer in memory.
func servePipes(t testing.TB, c *Central) func(context.Context) (net.Conn, error) {
	p := memnet.Listen()
	s := &http.Server{Handler: c.API()}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(tls.NewListener(p, c.TLSConfig())) }()
	t.Cleanup(func() { _ = s.Close(); <-ended })
	return func(ctx context.Context) (net.Conn, error) { return p.Dial(ctx) }
}

// device is a terminal's side, as small as it can be.
type device struct {
	time     string // what its clock writes into entries, "" for a minute before noon
	w        *world
	name     string
	key      *ecdsa.PrivateKey
	answer   wire.EnrolAnswer
	claimKey ledger.ClaimKey
	sealer   *ledger.Sealer
	client   *http.Client
	epoch    int64
	lines    []string
}

func (w *world) client(cert *tls.Certificate) *http.Client {
	pool := x509.NewCertPool()
	pool.AddCert(w.keys.ca)
	cfg := &tls.Config{RootCAs: pool, ServerName: "localhost", Time: w.clock.now}
	if cert != nil {
		cfg.Certificates = []tls.Certificate{*cert}
	}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: cfg, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return w.dial(ctx) }}}
}

func makeCSR(t testing.TB, key *ecdsa.PrivateKey) string {
	t.Helper()
	raw, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: raw}))
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// enrolled adds a terminal and enrols a device as it, over the wire.
func (w *world) enrolled(t testing.TB, name string) *device {
	t.Helper()
	code, err := w.AddTerminal(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	d := &device{w: w, name: name, key: newKey(t), epoch: 1}
	if e := post(t, w.client(nil), wire.PathEnrol, wire.EnrolRequest{Protocol: 1, Code: code.Code, CSR: makeCSR(t, d.key)}, &d.answer); e != nil {
		t.Fatal(e)
	}
	d.connect(t)
	return d
}

func (d *device) connect(t testing.TB) {
	t.Helper()
	block, _ := pem.Decode([]byte(d.answer.Certificate))
	if block == nil {
		t.Fatalf("no certificate in %+v", d.answer)
	}
	d.client = d.w.client(&tls.Certificate{Certificate: [][]byte{block.Bytes}, PrivateKey: d.key})
	var err error
	if d.claimKey, err = ledger.ParseClaimKey(d.answer.ClaimKey); err != nil {
		t.Fatal(err)
	}
	if d.sealer, err = ledger.NewSealer(d.claimKey); err != nil {
		t.Fatal(err)
	}
}

// post sends a request and gives the error the answer carries, nil for none.
func post(t testing.TB, client *http.Client, path string, in, out any) *wire.Error {
	t.Helper()
	body, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	return postRaw(t, client, path, body, out)
}

func postRaw(t testing.TB, client *http.Client, path string, body []byte, out any) *wire.Error {
	t.Helper()
	resp, err := client.Post("https://localhost"+path, "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return readAnswer(t, resp, out)
}

func get(t testing.TB, client *http.Client, path string, out any) *wire.Error {
	t.Helper()
	resp, err := client.Get("https://localhost" + path)
	if err != nil {
		t.Fatal(err)
	}
	return readAnswer(t, resp, out)
}

func readAnswer(t testing.TB, resp *http.Response, out any) *wire.Error {
	t.Helper()
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, wire.MaxAnswer))
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode == http.StatusOK {
		if text, ok := out.(*string); ok {
			*text = string(body)
		} else if err := json.Unmarshal(body, out); err != nil {
			t.Fatalf("%v: %s", err, body)
		}
		return nil
	}
	e := &wire.Error{}
	if err := json.Unmarshal(body, e); err != nil || e.Kind == "" || resp.StatusCode != statusOf(e.Kind) {
		t.Fatalf("status %d, %v: %s", resp.StatusCode, err, body)
	}
	return e
}

// record appends an entry of any kind to the device's journal.
func (d *device) record(t testing.TB, kind ledger.Kind, body any) {
	t.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	e := ledger.Entry{Version: 1, Terminal: d.name, Epoch: d.epoch, Seq: int64(len(d.lines)) + 1, Boot: "b", Time: cmp.Or(d.time, "2026-11-30T11:59:00.000Z"),
		Kind: kind, Body: raw, Prev: d.head(int64(len(d.lines))).Hash}
	text, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	d.lines = append(d.lines, string(text))
}

// claim is the body of an honest claim of a ticket.
func (d *device) claim(t testing.TB, l lot) ledger.ClaimBody {
	t.Helper()
	c := ledger.ClaimBody{Claim: fmt.Sprintf("%032x", len(d.lines)+1), Block: d.w.block.ID, Pack: l.code.Pack, Ticket: l.code.Number, Tier: l.tier,
		Currency: "EUR", OwnerEpoch: 1, Operator: "marie", Entered: validate.Scanned}
	if l.tier > 0 {
		c.AmountMinor = int64(tiers[l.tier-1].Amount)
	}
	return d.sealed(t, c, l.code.Secret())
}

func (d *device) sealed(t testing.TB, c ledger.ClaimBody, secret string) ledger.ClaimBody {
	t.Helper()
	raw, err := d.sealer.Seal(c.Claim, validate.TicketKey{Block: c.Block, Pack: c.Pack, Number: c.Ticket}, c.Round, secret)
	if err != nil {
		t.Fatal(err)
	}
	c.Opening = base64.StdEncoding.EncodeToString(raw)
	return c
}

func (d *device) pay(t testing.TB, lots ...lot) {
	t.Helper()
	for _, l := range lots {
		d.record(t, ledger.KindClaim, d.claim(t, l))
	}
}

func (d *device) head(seq int64) wire.Position {
	p := wire.Position{Epoch: d.epoch, Seq: seq, Hash: strings.Repeat("0", 64)}
	if seq > 0 {
		sum := sha256.Sum256([]byte(d.lines[seq-1]))
		p.Hash = hex.EncodeToString(sum[:])
	}
	return p
}

// upload makes the request for entries from to to.
func (d *device) upload(t testing.TB, from, to int64) wire.Upload {
	t.Helper()
	u := wire.Upload{Protocol: 1, Epoch: d.epoch, From: from, Lines: d.lines[from-1 : to], To: d.head(to)}
	sum := sha256.Sum256([]byte(wire.HeadText(d.name, u.To)))
	signature, err := ecdsa.SignASN1(rand.Reader, d.key, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	u.Signature = base64.StdEncoding.EncodeToString(signature)
	return u
}

// send uploads entries from to to and gives the verified acknowledgement.
func (d *device) send(t testing.TB, from, to int64) (wire.Ack, wire.UploadAnswer) {
	t.Helper()
	var a wire.UploadAnswer
	if e := post(t, d.client, wire.PathJournal, d.upload(t, from, to), &a); e != nil {
		t.Fatalf("upload %d to %d: %v", from, to, e)
	}
	v, err := note.NewVerifier(d.answer.CentralKey)
	if err != nil {
		t.Fatal(err)
	}
	n, err := note.Open([]byte(a.Acked), note.VerifierList(v))
	if err != nil {
		t.Fatal(err)
	}
	ack, err := wire.ParseAck(n.Text)
	if err != nil {
		t.Fatal(err)
	}
	return ack, a
}

func (d *device) refused(t testing.TB, u wire.Upload) *wire.Error {
	t.Helper()
	var a wire.UploadAnswer
	e := post(t, d.client, wire.PathJournal, u, &a)
	if e == nil {
		t.Fatalf("upload of %d lines from %d was accepted", len(u.Lines), u.From)
	}
	return e
}

func (d *device) feed(t testing.TB, after int64) []wire.FeedItem {
	t.Helper()
	var f wire.Feed
	if e := get(t, d.client, wire.PathFeed+"?after="+strconv.FormatInt(after, 10), &f); e != nil {
		t.Fatal(e)
	}
	return f.Items
}

// count is the one number a query gives.
func (w *world) count(t testing.TB, query string, args ...any) int {
	t.Helper()
	var n int
	if err := w.Reader().QueryRowContext(t.Context(), query, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func wantKind(t testing.TB, e *wire.Error, kind wire.Kind) {
	t.Helper()
	if e == nil || e.Kind != kind {
		t.Fatalf("answer %v, want kind %s", e, kind)
	}
}

func wantException(t testing.TB, a wire.UploadAnswer, seq int64, kind wire.ExceptionKind) {
	t.Helper()
	if len(a.Exceptions) != 1 || a.Exceptions[0].Seq != seq || a.Exceptions[0].Kind != kind {
		t.Fatalf("exceptions %+v, want entry %d as %s", a.Exceptions, seq, kind)
	}
}

func wantErr(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("error %v, want %v", err, want)
	}
}
