package uplink

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
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
	"grattoir/sync/uplink/memnet"
	"grattoir/sync/wire"
	"grattoir/validate"
	"grattoir/validate/policy"
	"grattoir/validate/ticket"
)

// fake is a small central that keeps state: one terminal's journal, a feed, a
// snapshot, blocks. Spoil, when set, may answer in its place.
type fake struct {
	t      testing.TB
	now    func() time.Time
	caKey  *ecdsa.PrivateKey
	ca     *x509.Certificate
	signer note.Signer
	public string // note key
	claim  string // public claim key
	secret wire.EnrolSecret
	shown  *x509.Certificate // the CA it shows, its own unless set

	mu       sync.Mutex
	changed  chan struct{}
	spoil    func(w http.ResponseWriter, r *http.Request, body []byte) bool
	requests []string // method and path with query
	csr      string   // the one the code was used for
	cert     string
	device   *ecdsa.PublicKey
	epoch    int64
	lines    []string
	limit    int // lines of one upload it takes
	feed     []wire.FeedItem
	snapshot wire.Snapshot
	blocks   map[string][]byte
	pieces   map[string]string // descriptors by their names
	policies map[string]string // signed policies by their names
	hello    wire.Hello
	sighted  int64 // in the answer to hello
	region   string
	sealed   []wire.SealedIdentity
	helloAck bool
	hints    wire.HelloAnswer // what a hello's answer is made from
}

func newCentral(t testing.TB) *fake {
	t.Helper()
	c := &fake{t: t, now: time.Now, changed: make(chan struct{}), epoch: 1, limit: wire.MaxEntries, blocks: map[string][]byte{}, policies: map[string]string{}, pieces: map[string]string{}}
	c.caKey = must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	c.ca = c.sign(&x509.Certificate{Subject: pkix.Name{CommonName: "test CA"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, &c.caKey.PublicKey)
	private, public, err := note.GenerateKey(rand.Reader, "central")
	if err != nil {
		t.Fatal(err)
	}
	c.public, c.signer = public, must(note.NewSigner(private))
	_, c.claim, err = ledger.GenerateClaimKey()
	if err != nil {
		t.Fatal(err)
	}
	_, _ = rand.Read(c.secret[:])
	return c
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// sign makes a certificate of a year; the CA signs itself.
func (c *fake) sign(want *x509.Certificate, key *ecdsa.PublicKey) *x509.Certificate {
	want.SerialNumber = big.NewInt(time.Now().UnixNano())
	want.NotBefore, want.NotAfter = time.Now().Add(-time.Hour), time.Now().AddDate(1, 0, 0)
	parent := c.ca
	if parent == nil {
		parent = want
	}
	return must(x509.ParseCertificate(must(x509.CreateCertificate(rand.Reader, want, parent, key, c.caKey))))
}

func (c *fake) code() string {
	return wire.EncodeEnrolCode(c.secret, wire.PinOf(c.ca.RawSubjectPublicKeyInfo))
}

func certPEM(c *x509.Certificate) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}))
}

// serve answers on a listener until the test ends.
func (c *fake) serve(l net.Listener, usage x509.ExtKeyUsage) {
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	leaf := c.sign(&x509.Certificate{Subject: pkix.Name{CommonName: "central"}, DNSNames: []string{"central.test"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{usage}}, &key.PublicKey)
	shown := c.ca
	if c.shown != nil {
		shown = c.shown
	}
	config := &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{{Certificate: [][]byte{leaf.Raw, shown.Raw}, PrivateKey: key}},
		ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: pool(c.ca), Time: c.now}
	s := &http.Server{Handler: c, ErrorLog: log.New(io.Discard, "", 0)}
	var done sync.WaitGroup
	done.Go(func() { _ = s.Serve(tls.NewListener(l, config)) })
	c.t.Cleanup(func() {
		_ = s.Close()
		done.Wait()
	})
}

// loopback serves on this machine and returns the URL.
func (c *fake) loopback() string {
	l := must(net.Listen("tcp", "127.0.0.1:0"))
	c.serve(l, x509.ExtKeyUsageServerAuth)
	return "https://" + l.Addr().String()
}

func (c *fake) update(edit func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	edit()
	close(c.changed)
	c.changed = make(chan struct{})
}

// asked counts the requests whose method and path begin so.
func (c *fake) asked(prefix string) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.requests {
		if strings.HasPrefix(r, prefix) {
			n++
		}
	}
	return n
}

func (c *fake) held() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string{}, c.lines...)
}

func (c *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if strings.HasPrefix(r.URL.Path, wire.PathSnapshot) || strings.HasPrefix(r.URL.Path, wire.PathPieces) || strings.HasPrefix(r.URL.Path, wire.PathPolicies) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	}
	if id := r.Header.Get(wire.HeaderRequest); id != "" {
		w.Header().Set(wire.HeaderRequest, id)
	}
	c.mu.Lock()
	c.requests = append(c.requests, r.Method+" "+r.URL.RequestURI())
	spoil := c.spoil
	c.mu.Unlock()
	if spoil != nil && spoil(w, r, body) {
		return
	}
	if r.URL.Path != wire.PathEnrol && (len(r.TLS.PeerCertificates) == 0 || r.TLS.PeerCertificates[0].Subject.CommonName != "T-1") {
		refuse(w, http.StatusForbidden, &wire.Error{Kind: wire.KindForbidden, Text: "no certificate"})
		return
	}
	switch {
	case r.URL.Path == wire.PathFeed:
		c.longPoll(w, r)
		return
	case strings.HasPrefix(r.URL.Path, wire.PathBlocks):
		c.block(w, r)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch r.URL.Path {
	case wire.PathEnrol:
		c.enrol(w, body)
	case wire.PathJournal:
		c.upload(w, body)
	case wire.PathHello:
		c.greet(w, body)
	case wire.PathIdentities:
		c.identities(w, body)
	case wire.PathSnapshot:
		if c.snapshot.Version == 0 {
			refuse(w, http.StatusNotFound, &wire.Error{Kind: wire.KindNotFound, Text: "nothing is published"})
			return
		}
		s := c.snapshot
		if "?"+r.URL.RawQuery != wire.SnapshotQuery {
			s = s.WithoutPieces()
		}
		_, _ = w.Write(c.note(s.Text()))
	default:
		if text, ok := c.policies[strings.TrimPrefix(r.URL.Path, wire.PathPolicies)]; ok {
			_, _ = io.WriteString(w, text)
			return
		}
		if text, ok := c.pieces[strings.TrimPrefix(r.URL.Path, wire.PathPieces)]; ok {
			_, _ = io.WriteString(w, text)
			return
		}
		refuse(w, http.StatusNotFound, &wire.Error{Kind: wire.KindNotFound, Text: "no such path"})
	}
}

func refuse(w http.ResponseWriter, status int, e *wire.Error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(e)
}

func (c *fake) note(text string) []byte {
	return must(note.Sign(&note.Note{Text: text}, c.signer))
}

func (c *fake) enrol(w http.ResponseWriter, body []byte) {
	var r wire.EnrolRequest
	if err := json.Unmarshal(body, &r); err != nil || r.Code != c.code() || c.csr != "" && c.csr != r.CSR {
		refuse(w, http.StatusForbidden, &wire.Error{Kind: wire.KindBadCode, Text: "the code is unknown or used"})
		return
	}
	if c.csr == "" {
		b, _ := pem.Decode([]byte(r.CSR))
		request := must(x509.ParseCertificateRequest(b.Bytes))
		c.device = request.PublicKey.(*ecdsa.PublicKey)
		c.csr = r.CSR
		c.cert = certPEM(c.sign(&x509.Certificate{Subject: pkix.Name{CommonName: "T-1"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, c.device))
	}
	_ = json.NewEncoder(w).Encode(wire.EnrolAnswer{Protocol: 1, Terminal: "T-1", Certificate: c.cert, CA: certPEM(c.ca), CentralKey: c.public,
		SealKeys: []string{c.public + "\n"}, ClaimKey: c.claim, Time: wire.FormatTime(c.now())})
}

func (c *fake) position() wire.Position {
	p := wire.Position{Epoch: c.epoch, Seq: int64(len(c.lines)), Hash: ledger.Hash{}.String()}
	if p.Seq > 0 {
		sum := sha256.Sum256([]byte(c.lines[p.Seq-1]))
		p.Hash = hex.EncodeToString(sum[:])
	}
	return p
}

func (c *fake) ack() wire.Ack {
	return wire.Ack{Terminal: "T-1", Position: c.position(), Time: c.now(), AllowanceClaims: 500, AllowanceMinor: 1_000_000}
}

func (c *fake) upload(w http.ResponseWriter, body []byte) {
	var u wire.Upload
	if err := json.Unmarshal(body, &u); err != nil || len(body) > wire.MaxUpload || len(u.Lines) == 0 || int64(len(u.Lines)) != u.To.Seq-u.From+1 {
		refuse(w, http.StatusBadRequest, &wire.Error{Kind: wire.KindBadRequest, Text: "no upload"})
		return
	}
	digest := sha256.Sum256([]byte(wire.HeadText("T-1", u.To)))
	signature, err := base64.StdEncoding.DecodeString(u.Signature)
	last := sha256.Sum256([]byte(u.Lines[len(u.Lines)-1]))
	at := c.position()
	switch {
	case err != nil || !ecdsa.VerifyASN1(c.device, digest[:], signature) || hex.EncodeToString(last[:]) != u.To.Hash:
		refuse(w, http.StatusBadRequest, &wire.Error{Kind: wire.KindBadRequest, Text: "the head is not signed"})
		return
	case len(u.Lines) > c.limit:
		refuse(w, http.StatusRequestEntityTooLarge, &wire.Error{Kind: wire.KindTooLarge, Text: "send less"})
		return
	case u.From > at.Seq+1:
		refuse(w, http.StatusConflict, &wire.Error{Kind: wire.KindBehind, Text: "behind", Acked: &at})
		return
	}
	for i, line := range u.Lines {
		if n := int(u.From) - 1 + i; n < len(c.lines) {
			if c.lines[n] != line {
				refuse(w, http.StatusConflict, &wire.Error{Kind: wire.KindFork, Text: "other bytes", Acked: &at})
				return
			}
			continue
		}
		if e, err := ledger.ParseEntry([]byte(line)); err != nil || e.Prev != c.position().Hash {
			refuse(w, http.StatusConflict, &wire.Error{Kind: wire.KindFork, Text: "does not follow", Acked: &at})
			return
		}
		c.lines = append(c.lines, line)
	}
	_ = json.NewEncoder(w).Encode(wire.UploadAnswer{Protocol: 1, Acked: string(c.note(c.ack().Text())), Exceptions: []wire.Exception{}})
}

func (c *fake) greet(w http.ResponseWriter, body []byte) {
	c.hello = wire.Hello{} // what a hello leaves out is not the one before's
	if err := json.Unmarshal(body, &c.hello); err != nil {
		refuse(w, http.StatusBadRequest, &wire.Error{Kind: wire.KindBadRequest, Text: err.Error()})
		return
	}
	a := wire.HelloAnswer{Protocol: 1, Time: wire.FormatTime(c.now()), Acked: c.position(), Snapshot: c.snapshot.Version, Region: c.region, Sighted: c.sighted}
	if c.hints.Time != "" {
		a.Time = c.hints.Time
	}
	if c.helloAck {
		a.Ack = string(c.note(c.ack().Text()))
	}
	_ = json.NewEncoder(w).Encode(a)
}

func (c *fake) longPoll(w http.ResponseWriter, r *http.Request) {
	after, err1 := strconv.ParseInt(r.URL.Query().Get("after"), 10, 64)
	wait, err2 := strconv.Atoi(r.URL.Query().Get("wait"))
	if err1 != nil || err2 != nil || wait > wire.MaxFeedWait {
		refuse(w, http.StatusBadRequest, &wire.Error{Kind: wire.KindBadRequest, Text: "no question"})
		return
	}
	end := time.NewTimer(time.Duration(wait) * time.Second)
	defer end.Stop()
	for {
		f := wire.Feed{Protocol: 1, Items: []wire.FeedItem{}, Time: wire.FormatTime(c.now())}
		c.mu.Lock()
		changed := c.changed
		for _, i := range c.feed {
			if i.Seq > after {
				f.Items = append(f.Items, i)
			}
		}
		c.mu.Unlock()
		over := false
		if len(f.Items) == 0 {
			select {
			case <-changed:
				continue
			case <-end.C:
				over = true
			case <-r.Context().Done():
				return
			}
		}
		if over || len(f.Items) > 0 {
			_ = json.NewEncoder(w).Encode(f)
			return
		}
	}
}

func (c *fake) block(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, wire.PathBlocks)
	c.mu.Lock()
	content, ok := c.blocks[name]
	c.mu.Unlock()
	if !ok {
		refuse(w, http.StatusNotFound, &wire.Error{Kind: wire.KindNotFound, Text: "no such block"})
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("ETag", `"`+name+`"`)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
}

// publish puts a block into the next snapshot and returns its name.
func (c *fake) publish(content []byte) string {
	sum := sha256.Sum256(content)
	name := hex.EncodeToString(sum[:])
	c.update(func() {
		c.blocks[name] = content
		c.snapshot.Version++
		c.snapshot.Issued = c.now()
		n := uint32(len(c.snapshot.Blocks)) // a hundred packs each, one block a day
		c.snapshot.Blocks = append(c.snapshot.Blocks, wire.Block{SHA256: name, Size: int64(len(content)), GameCode: "00399", Reader: 1,
			FirstPack: 1 + 100*n, LastPack: 100 + 100*n, Published: policy.Date{Year: 2026, Month: 11, Day: 1 + int(n)}})
	})
	return name
}

// describe gives the blocks of the snapshot a descriptor each, as it is or spoiled.
func (c *fake) describe(spoil func(*wire.Pieces)) {
	c.update(func() {
		for i, b := range c.snapshot.Blocks {
			p := must(wire.ReadPieces(bytes.NewReader(c.blocks[b.SHA256])))
			spoil(&p)
			c.snapshot.Blocks[i].Pieces = p.Name()
			c.pieces[p.Name()] = p.Text()
		}
	})
}

// pipes is a network in memory.
type pipes struct {
	*memnet.Listener
	mu    sync.Mutex
	down  bool
	dials int
	open  []*memnet.Conn
}

func newPipes() *pipes { return &pipes{Listener: memnet.Listen()} }

func (p *pipes) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	p.mu.Lock()
	p.dials++
	down := p.down
	p.mu.Unlock()
	if down {
		return nil, errors.New("network is unreachable")
	}
	c, err := p.Listener.Dial(ctx)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open = append(p.open, c)
	return c, nil
}

// cut breaks every connection; nothing goes through until it is mended.
func (p *pipes) cut(down bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = down
	for _, c := range p.open {
		c.Cut()
	}
	p.open = nil
}

// silence loses what the connections of now carry, and tells nobody.
func (p *pipes) silence() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.open {
		c.Silence()
	}
}

// link is a terminal joined to a central, over pipes or over the loopback.
type link struct {
	*fake
	ledger *ledger.Ledger
	uplink *Uplink
	opt    Options
	net    *pipes
	stop   func()
	blocks chan struct{} // one for each OnBlocks
}

// join enrols a terminal at c and opens its ledger. Start runs the uplink.
func join(t testing.TB, c *fake, inMemory bool) *link {
	t.Helper()
	l := &link{fake: c, blocks: make(chan struct{}, 100), net: newPipes()}
	dir := t.TempDir()
	url := "https://central.test"
	dial := l.net.Dial
	if inMemory {
		c.serve(l.net, x509.ExtKeyUsageServerAuth)
	} else {
		url, dial = c.loopback(), nil
	}
	id, err := Enrol(t.Context(), EnrolOptions{URL: url, Code: c.code(), Dir: filepath.Join(dir, "identity"), Dial: dial})
	if err != nil {
		t.Fatal(err)
	}
	l.ledger, err = ledger.Open(t.Context(), ledger.Options{Path: filepath.Join(dir, "ledger.db"), Terminal: "T-1", Sign: id.Sign,
		Moment: func() ledger.Moment { return ledger.Moment{Boot: "b", Device: time.Now()} }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.ledger.Close() })
	l.opt = Options{Identity: id, Ledger: l.ledger, Blocks: BlockStore{Dir: filepath.Join(dir, "manifests"), Quota: 1 << 30}, Dial: dial, Program: "test 1",
		OnBlocks: func() { l.blocks <- struct{}{} }}
	return l
}

// start runs the uplink until stop or the test's end.
func (l *link) start() *link {
	l.t.Helper()
	u, err := New(l.opt)
	if err != nil {
		l.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() {
		if err := u.Run(ctx); err != nil {
			l.t.Error(err)
		}
	})
	l.uplink = u
	l.stop = sync.OnceFunc(func() { cancel(); done.Wait() })
	l.t.Cleanup(l.stop)
	return l
}

// pay records one more claim.
func (l *link) pay(n int) {
	l.t.Helper()
	for range n {
		i := l.ledger.Head().Seq
		code := must(ticket.Make(ticket.G40(), "399", 123, uint16(i%1000), fmt.Sprintf("%022d", 7000+i)))
		_, err := l.ledger.Record(context.Background(), validate.Claim{ID: fmt.Sprintf("%032x", i+1), Ticket: validate.TicketKey{Block: validate.BlockID{1}, Pack: uint32(i / 1000), Number: uint16(i % 1000)},
			Secret: code, Tier: 1, Amount: 100, Currency: "EUR", Entered: validate.Scanned,
			Slip: validate.SlipFacts{Pack: fmt.Sprintf("%07d", i/1000), Ticket: fmt.Sprintf("%03d", i%1000)}})
		if err != nil {
			l.t.Fatal(err)
		}
	}
}

func (l *link) journal() []string {
	l.t.Helper()
	var list []string
	if err := l.ledger.Lines(context.Background(), 1, 0, func(_ int64, line []byte) error { list = append(list, string(line)); return nil }); err != nil {
		l.t.Fatal(err)
	}
	return list
}

// equal checks that central holds the journal, entry by entry, and has signed for all of it.
func (l *link) equal() {
	l.t.Helper()
	mine, theirs := l.journal(), l.held()
	if strings.Join(mine, "\n") != strings.Join(theirs, "\n") {
		l.t.Fatalf("the ledgers differ: %d entries here, %d there; faults %+v", len(mine), len(theirs), l.uplink.Status().Faults)
	}
	if s := l.uplink.Status(); s.Acked.Seq != int64(len(mine)) || s.Unsent != 0 {
		l.t.Fatalf("acknowledged up to %d of %d, %d unsent; faults %+v", s.Acked.Seq, len(mine), s.Unsent, s.Faults)
	}
}

func (l *link) fault(lane Lane) Fault {
	for _, f := range l.uplink.Status().Faults {
		if f.Lane == lane {
			return f
		}
	}
	return Fault{}
}
