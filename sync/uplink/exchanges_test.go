package uplink

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"grattoir/sync/central"
	"grattoir/sync/ledger"
	"grattoir/sync/wire"
	"grattoir/validate"
)

// The folders of exchangesDir hold what a released version's two sides said to each
// other, with the keys that they had: a link of one terminal from its enrolment on. A
// folder is never changed. `go test ./sync/uplink -run Exchanges -record v2` makes
// the next one, once, when a version is released.
const exchangesDir = "../wire/testdata/exchanges"

var recordAs = flag.String("record", "", "record the exchanges of this version into a new folder of that name")

// recorded is the file exchanges.json.
type recorded struct {
	Now      time.Time       `json:"now"` // of both clocks, all the time
	Terminal string          `json:"terminal"`
	Code     string          `json:"code"`     // what the terminal enrolled with
	Key      string          `json:"key"`      // PEM, the device's
	SealKey  string          `json:"seal_key"` // public
	Allowed  int64           `json:"allowance_claims"`
	Lines    []string        `json:"lines"` // the journal
	Steps    []exchangedStep `json:"steps"`
}

// exchangedStep is something that operations did, or a request with its answer.
type exchangedStep struct {
	Do     string `json:"do,omitempty"` // publish, deliver, activate
	Method string `json:"method,omitempty"`
	Path   string `json:"path,omitempty"` // with its query
	Body   string `json:"body,omitempty"`
	Status int    `json:"status,omitempty"`
	Type   string `json:"type,omitempty"`   // Content-Type of the answer
	Answer string `json:"answer,omitempty"` // as it came; a block's is its SHA-256
}

// stage is a central with recorded keys, a still clock, and a terminal's requests to it.
type stage struct {
	t       *testing.T
	dir     string // the recorded folder
	r       recorded
	central *central.Central
	net     *pipes
	handler http.Handler // who answers, central's API unless it is replaced
	client  *http.Client
}

// fixedSecret gives a recorded code's secret when a code is made, and random bytes otherwise.
type fixedSecret struct{ code string }

func (f fixedSecret) Read(b []byte) (int, error) {
	if secret, _, err := wire.ParseEnrolCode(f.code); err == nil && len(b) == len(secret) {
		return copy(b, secret[:]), nil
	}
	return rand.Read(b)
}

// open starts central on a copy of the recorded keys, or makes them when there are none.
func (s *stage) open() {
	s.t.Helper()
	data := filepath.Join(s.t.TempDir(), "central")
	keys := filepath.Join(data, "keys")
	if err := os.MkdirAll(keys, 0o700); err != nil {
		s.t.Fatal(err)
	}
	names, err := filepath.Glob(filepath.Join(s.dir, "keys", "*"))
	if err != nil {
		s.t.Fatal(err)
	}
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(keys, filepath.Base(name)), must(os.ReadFile(name)), 0o600); err != nil {
			s.t.Fatal(err)
		}
	}
	now := func() time.Time { return s.r.Now }
	if s.central, err = central.Open(s.t.Context(), central.Options{Dir: data, Hosts: []string{"central.test"}, AllowanceClaims: s.r.Allowed, Now: now, Rand: fixedSecret{s.r.Code}}); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = s.central.Close() })
	if len(names) == 0 { // recording
		made := must(filepath.Glob(filepath.Join(keys, "*")))
		for _, name := range made {
			if err := errors.Join(os.MkdirAll(filepath.Join(s.dir, "keys"), 0o755), os.WriteFile(filepath.Join(s.dir, "keys", filepath.Base(name)), must(os.ReadFile(name)), 0o644)); err != nil {
				s.t.Fatal(err)
			}
		}
	}
	s.handler, s.net = s.central.API(), newPipes()
	server := &http.Server{ErrorLog: log.New(io.Discard, "", 0), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) })}
	var done sync.WaitGroup
	done.Go(func() { _ = server.Serve(tls.NewListener(s.net, s.central.TLSConfig())) })
	s.t.Cleanup(func() { s.central.EndPolls(); _ = server.Close(); done.Wait() })
	s.connect(nil)
}

func (s *stage) connect(cert *tls.Certificate) {
	var ca *x509.Certificate
	for rest := must(os.ReadFile(filepath.Join(s.dir, "keys", "ca.pem"))); ca == nil; {
		var b *pem.Block
		if b, rest = pem.Decode(rest); b == nil {
			s.t.Fatal("no certificate in ca.pem")
		} else if b.Type == "CERTIFICATE" {
			ca = must(x509.ParseCertificate(b.Bytes))
		}
	}
	config := &tls.Config{RootCAs: pool(ca), ServerName: "central.test", Time: func() time.Time { return s.r.Now }}
	if cert != nil {
		config.Certificates = []tls.Certificate{*cert}
	}
	s.client = &http.Client{Transport: &http.Transport{DialContext: s.net.Dial, TLSClientConfig: config}}
	s.t.Cleanup(s.client.CloseIdleConnections)
}

// do is what operations did.
func (s *stage) do(what string) error {
	ctx := s.t.Context()
	var err error
	switch what {
	case "publish":
		if _, err = s.central.TrustSealKey(s.r.SealKey); err == nil {
			_, err = s.central.Publish(ctx, filepath.Join(s.dir, "block.manifest"))
		}
	case "add":
		_, err = s.central.AddTerminal(ctx, s.r.Terminal)
	case "deliver":
		_, err = s.central.Deliver(ctx, "00399", 10, 19, s.r.Terminal)
	case "activate":
		_, err = s.central.Activate(ctx, "00399", 10, 12)
	default:
		err = fmt.Errorf("what is %q?", what)
	}
	return err
}

// ask sends one request as it was recorded.
func (s *stage) ask(method, path, body string) exchangedStep {
	s.t.Helper()
	r := must(http.NewRequestWithContext(s.t.Context(), method, "https://central.test"+path, strings.NewReader(body)))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	a, err := s.client.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer a.Body.Close()
	answer := must(io.ReadAll(a.Body))
	if strings.HasPrefix(path, wire.PathBlocks) && a.StatusCode == http.StatusOK {
		sum := sha256.Sum256(answer)
		answer = []byte(hex.EncodeToString(sum[:]))
	}
	return exchangedStep{Method: method, Path: path, Body: body, Status: a.StatusCode, Type: a.Header.Get("Content-Type"), Answer: string(answer)}
}

// enrolled goes on with the certificate of an enrolment's answer.
func (s *stage) enrolled(answer string) {
	s.t.Helper()
	var a wire.EnrolAnswer
	if err := json.Unmarshal([]byte(answer), &a); err != nil {
		s.t.Fatal(err)
	}
	b, _ := pem.Decode([]byte(a.Certificate))
	s.connect(&tls.Certificate{Certificate: [][]byte{b.Bytes}, PrivateKey: must(parseKey(s.r.Key))})
}

// versions are the recorded folders.
func versions(t *testing.T) (dirs []string) {
	t.Helper()
	dirs = must(filepath.Glob(filepath.Join(exchangesDir, "v*")))
	if len(dirs) == 0 {
		t.Fatalf("nothing is recorded in %s", exchangesDir)
	}
	return dirs
}

func staged(t *testing.T, dir string) *stage {
	t.Helper()
	s := &stage{t: t, dir: dir}
	if err := json.Unmarshal(must(os.ReadFile(filepath.Join(dir, "exchanges.json"))), &s.r); err != nil {
		t.Fatal(err)
	}
	s.open()
	return s
}

// TestExchangesOfEachReleasedTerminalAreAnsweredByTodaysCentral: every request of a
// released terminal gets what it got then. Fields may have come, none may have gone or
// mean another thing.
func TestExchangesOfEachReleasedTerminalAreAnsweredByTodaysCentral(t *testing.T) {
	for _, dir := range versions(t) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			s := staged(t, dir)
			for i, step := range s.r.Steps {
				if step.Do != "" {
					if err := s.do(step.Do); err != nil {
						t.Fatalf("step %d, %s: %v", i, step.Do, err)
					}
					continue
				}
				got := s.ask(step.Method, step.Path, step.Body)
				if got.Status != step.Status || got.Type != step.Type {
					t.Errorf("step %d, %s %s: %d %s, was %d %s\n%s", i, step.Method, step.Path, got.Status, got.Type, step.Status, step.Type, got.Answer)
				}
				if why := differs(step.Answer, got.Answer, step.Type); why != "" {
					t.Errorf("step %d, %s %s: %s\nwas %s\nis  %s", i, step.Method, step.Path, why, step.Answer, got.Answer)
				}
				if step.Path == wire.PathEnrol {
					s.enrolled(got.Answer)
				}
			}
		})
	}
}

// differs says what of an old answer a new one lacks, "" for nothing.
func differs(was, is, kind string) string {
	if kind != "application/json" {
		if was != is {
			return "it is another text"
		}
		return ""
	}
	var old, now any
	if err := errors.Join(json.Unmarshal([]byte(was), &old), json.Unmarshal([]byte(is), &now)); err != nil {
		return err.Error()
	}
	return lacks("", old, now)
}

// lacks compares value by value. A certificate is signed anew each time, and an error's
// words are for people.
func lacks(path string, old, now any) string {
	switch old := old.(type) {
	case map[string]any:
		new, ok := now.(map[string]any)
		for name, value := range old {
			if path == "" && (name == "certificate" || name == "text") {
				if _, there := new[name].(string); !there {
					return name + " is gone"
				}
				continue
			}
			if why := lacks(path+"."+name, value, new[name]); why != "" || !ok {
				return why
			}
		}
	case []any:
		new, ok := now.([]any)
		if !ok || len(new) != len(old) {
			return fmt.Sprintf("%s has %d values, had %d", path, len(new), len(old))
		}
		for i, value := range old {
			if why := lacks(fmt.Sprintf("%s[%d]", path, i), value, new[i]); why != "" {
				return why
			}
		}
	default:
		if number, ok := now.(float64); ok && path == ".feed" && number >= old.(float64) {
			return "" // central may have more to say than it had then
		}
		if !reflect.DeepEqual(old, now) {
			return fmt.Sprintf("%s is %v, was %v", path, now, old)
		}
	}
	return ""
}

// TestExchangesOfEachReleasedCentralAreTakenByTodaysTerminal: today's uplink speaks with
// the recorded answers, takes all of them, and tells in each request what was told then.
func TestExchangesOfEachReleasedCentralAreTakenByTodaysTerminal(t *testing.T) {
	for _, dir := range versions(t) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			s := staged(t, dir)
			id := s.identity()
			var want wire.Position
			var cursor int64
			for _, step := range s.r.Steps {
				var a wire.UploadAnswer
				var f wire.Feed
				switch {
				case step.Path == wire.PathJournal && step.Status == 200 && json.Unmarshal([]byte(step.Answer), &a) == nil:
					text, _, _ := strings.Cut(a.Acked, "\n\n")
					if p := must(wire.ParseAck(text + "\n")).Position; p.Seq > want.Seq {
						want = p
					}
				case strings.HasPrefix(step.Path, wire.PathFeed) && json.Unmarshal([]byte(step.Answer), &f) == nil && len(f.Items) > 0:
					cursor = f.Items[len(f.Items)-1].Seq
				}
			}
			moved := make(chan struct{}, 1)
			p := newPaper(s.r.Terminal, func() { signal(moved) })
			p.lines = s.r.Lines
			var mu sync.Mutex
			var lacking []string
			s.handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if why := s.play(w, r); why != "" {
					mu.Lock()
					lacking = append(lacking, why)
					mu.Unlock()
				}
			})
			u, err := New(Options{Identity: id, URL: "https://central.test", Ledger: p, Blocks: BlockStore{Dir: t.TempDir(), Quota: 1 << 30}, Dial: s.net.Dial, Now: func() time.Time { return s.r.Now }, Program: "test"})
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			var running sync.WaitGroup
			running.Go(func() { _ = u.Run(ctx) })
			defer running.Wait()
			defer stop()
			limit := time.After(20 * time.Second)
			for {
				p.mu.Lock()
				done := p.acked == want && p.cursor == cursor && p.snapshot > 0
				p.mu.Unlock()
				if done {
					break
				}
				select {
				case <-moved:
				case <-limit:
					t.Fatalf("acknowledged %+v of %+v, feed %d of %d, snapshot %d; %+v", p.acked, want, p.cursor, cursor, p.snapshot, u.Status().Faults)
				}
			}
			if blocks, err := filepath.Glob(filepath.Join(u.opt.Blocks.Dir, "*"+blockSuffix)); err != nil || len(blocks) != 1 {
				t.Errorf("%d blocks, %v", len(blocks), err)
			}
			mu.Lock()
			defer mu.Unlock()
			if len(lacking) > 0 {
				t.Errorf("requests lack what a released central needs:\n%s", strings.Join(lacking, "\n"))
			}
		})
	}
}

// play answers as it was recorded, and says what of the recorded request today's lacks.
func (s *stage) play(w http.ResponseWriter, r *http.Request) (lacking string) {
	body := must(io.ReadAll(r.Body))
	at := slices.IndexFunc(s.r.Steps, func(x exchangedStep) bool {
		path, query, _ := strings.Cut(x.Path, "?")
		same := path == r.URL.Path && x.Method == r.Method && x.Status == http.StatusOK
		if path == wire.PathFeed {
			same = same && strings.Split(query, "&")[0] == strings.Split(r.URL.RawQuery, "&")[0]
		}
		return same
	})
	if r.URL.Path == wire.PathFeed && at < 0 {
		<-r.Context().Done() // nothing new
		return ""
	}
	if at < 0 {
		refuse(w, http.StatusNotFound, &wire.Error{Kind: wire.KindNotFound, Text: "no such request"})
		return ""
	}
	step := s.r.Steps[at]
	if step.Body != "" {
		var old, now map[string]any
		if err := errors.Join(json.Unmarshal([]byte(step.Body), &old), json.Unmarshal(body, &now)); err != nil {
			lacking = err.Error()
		}
		for name := range old {
			if _, ok := now[name]; !ok {
				lacking += fmt.Sprintf("%s %s has no %s any more; ", r.Method, r.URL.Path, name)
			}
		}
	}
	w.Header().Set("Content-Type", step.Type)
	if strings.HasPrefix(step.Path, wire.PathBlocks) {
		_, _ = w.Write(must(os.ReadFile(filepath.Join(s.dir, "block.manifest"))))
		return lacking
	}
	_, _ = io.WriteString(w, step.Answer)
	return lacking
}

// identity is the terminal's as the recorded enrolment left it.
func (s *stage) identity() Identity {
	s.t.Helper()
	for _, step := range s.r.Steps {
		if step.Path != wire.PathEnrol {
			continue
		}
		var a wire.EnrolAnswer
		if err := json.Unmarshal([]byte(step.Answer), &a); err != nil {
			s.t.Fatal(err)
		}
		f := identityFile{Format: identityFormat, Terminal: a.Terminal, Central: "https://central.test", Key: s.r.Key, Certificate: a.Certificate, CA: a.CA, CentralKey: a.CentralKey, SealKeys: a.SealKeys, ClaimKey: a.ClaimKey}
		id, err := f.identity()
		if err != nil {
			s.t.Fatal(err)
		}
		return id
	}
	s.t.Fatal("no enrolment is recorded")
	return Identity{}
}

// TestRecordExchanges writes today's exchanges into a new folder; it does nothing without -record.
func TestRecordExchanges(t *testing.T) {
	if *recordAs == "" {
		t.Skip("nothing is to be recorded: -record NAME does it, for a release")
	}
	dir := filepath.Join(exchangesDir, *recordAs)
	if _, err := os.Stat(dir); err == nil {
		t.Fatalf("%s is there, and is never changed", dir)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	world := joinReal(t)
	sealed := must(filepath.Glob(filepath.Join(filepath.Dir(world.opt.Blocks.Dir), "sealed.manifest")))
	if err := os.WriteFile(filepath.Join(dir, "block.manifest"), must(os.ReadFile(sealed[0])), 0o644); err != nil {
		t.Fatal(err)
	}
	s := &stage{t: t, dir: dir, r: recorded{Now: time.Now().UTC().Truncate(time.Second), Terminal: "T-1", Allowed: 500, SealKey: must(world.real.SealKeys())[0]}}
	s.open()
	key := world.opt.Identity.key
	s.r.Key = string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: must(x509.MarshalPKCS8PrivateKey(key))}))
	s.record(t, world, key)
	text := must(json.MarshalIndent(s.r, "", " "))
	if err := os.WriteFile(filepath.Join(dir, "exchanges.json"), append(text, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
}

func (s *stage) step(do string) {
	s.t.Helper()
	if err := s.do(do); err != nil {
		s.t.Fatal(err)
	}
	s.r.Steps = append(s.r.Steps, exchangedStep{Do: do})
}

func (s *stage) request(method, path string, message any) exchangedStep {
	s.t.Helper()
	body := ""
	if message != nil {
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		if err := e.Encode(message); err != nil {
			s.t.Fatal(err)
		}
		body = b.String()
	}
	got := s.ask(method, path, body)
	s.r.Steps = append(s.r.Steps, got)
	return got
}

// record is the link of one terminal: enrolment, a meeting, the block, packs, payments of
// which one is of a kind that this central does not know, and what is refused.
func (s *stage) record(t *testing.T, world *realLink, key *ecdsa.PrivateKey) {
	s.step("publish")
	code, err := s.central.AddTerminal(t.Context(), s.r.Terminal)
	if err != nil {
		t.Fatal(err)
	}
	s.r.Code = code.Code
	s.r.Steps = append(s.r.Steps, exchangedStep{Do: "add"})
	csr := must(x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key))
	enrolment := s.request("POST", wire.PathEnrol, wire.EnrolRequest{Protocol: 1, Code: code.Code, CSR: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: csr}))})
	s.enrolled(enrolment.Answer)
	id := s.identity()
	hello := wire.Hello{Protocol: 1, Program: "terminald test", Head: wire.Position{Epoch: 1, Hash: ledger.Hash{}.String()}, DeviceTime: wire.FormatTime(s.r.Now), DiskFree: 1 << 30, Faults: []string{"P2"}}
	s.request("POST", wire.PathHello, hello)
	s.request("GET", wire.PathSnapshot, nil)
	signed := s.request("GET", wire.PathSnapshot+wire.SnapshotQuery, nil)
	text, _, _ := strings.Cut(signed.Answer, "\n\n")
	block := must(wire.ParseSnapshot(text + "\n")).Blocks[0]
	s.request("GET", wire.PathPieces+block.Pieces, nil)
	s.request("GET", wire.PathBlocks+block.SHA256, nil)
	s.request("GET", wire.PathBlocks+strings.Repeat("0", 64), nil)
	s.step("deliver")
	s.step("activate")
	s.request("GET", wire.PathFeed+"?after=0&wait=55", nil)
	s.r.Lines = s.journal(t, world, id)
	s.request("POST", wire.PathJournal, s.upload(id, 1, len(s.r.Lines)))
	s.request("POST", wire.PathJournal, s.upload(id, 1, len(s.r.Lines))) // repeated
	s.request("POST", wire.PathJournal, s.upload(id, 2, 2))              // a part of it
	ahead := s.upload(id, 2, len(s.r.Lines))
	ahead.Signature = ""
	s.request("POST", wire.PathJournal, ahead) // not signed
	hello.Head, hello.Unsent = s.upload(id, 1, len(s.r.Lines)).To, 0
	s.request("POST", wire.PathHello, hello)
	s.request("POST", wire.PathHello, wire.Hello{}) // of a protocol that never was
}

// journal writes two payments of one ticket and an entry of a later program, in a ledger of
// the recorded terminal.
func (s *stage) journal(t *testing.T, world *realLink, id Identity) []string {
	t.Helper()
	l, err := ledger.Open(t.Context(), ledger.Options{Path: filepath.Join(t.TempDir(), "ledger.db"), Terminal: s.r.Terminal, ClaimKey: must(ledger.ParseClaimKey(id.ClaimKey)),
		Moment: func() ledger.Moment { return ledger.Moment{Boot: "b", Device: s.r.Now} }})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	blockID := must(s.central.Blocks(t.Context()))[0].ID
	for n, c := range world.winners {
		if c.Pack > 12 || l.Head().Seq >= 2 {
			continue
		}
		epoch := int64(1)
		if l.Head().Seq == 1 {
			epoch = 9 // a right that it does not have
		}
		if _, err := l.Record(t.Context(), validate.Claim{ID: fmt.Sprintf("%032x", n+1), Secret: c, Tier: 1, Amount: 2000, Currency: "EUR", OwnerEpoch: epoch,
			Ticket: validate.TicketKey{Block: blockID, Pack: c.Pack, Number: c.Number}, Entered: validate.Scanned}); err != nil {
			t.Fatal(err)
		}
	}
	var lines []string
	if err := l.Lines(t.Context(), 1, 0, func(_ int64, line []byte) error { lines = append(lines, string(line)); return nil }); err != nil {
		t.Fatal(err)
	}
	last := sha256.Sum256([]byte(lines[len(lines)-1]))
	return append(lines, fmt.Sprintf(`{"v":99,"terminal":%q,"epoch":1,"seq":%d,"kind":"of-a-later-program","prev":"%x","more":[1]}`, s.r.Terminal, len(lines)+1, last))
}

func (s *stage) upload(id Identity, from, to int) wire.Upload {
	p := &paper{lines: s.r.Lines}
	u := wire.Upload{Protocol: 1, Epoch: 1, From: int64(from), Lines: s.r.Lines[from-1 : to], To: p.at(int64(to))}
	u.Signature = base64.StdEncoding.EncodeToString(must(id.Sign([]byte(wire.HeadText(s.r.Terminal, u.To)))))
	return u
}

// TestExchangesTellAFieldThatHasGone: the comparison has teeth.
func TestExchangesTellAFieldThatHasGone(t *testing.T) {
	const was = `{"a":1,"certificate":"x","list":[{"k":"v"}]}`
	for is, same := range map[string]bool{was: true, `{"a":1,"certificate":"y","list":[{"k":"v","new":1}],"new":2}`: true, `{"certificate":"y","list":[{"k":"v"}]}`: false, `{"a":2,"certificate":"x","list":[{"k":"v"}]}`: false,
		`{"a":1,"list":[{"k":"v"}]}`: false, `{"a":1,"certificate":"x","list":[]}`: false, `{"a":1,"certificate":"x","list":[{}]}`: false, `[]`: false} {
		if why := differs(was, is, "application/json"); (why == "") != same {
			t.Errorf("%s: %q", is, why)
		}
	}
	s := &stage{t: t, r: recorded{Steps: []exchangedStep{{Method: "POST", Path: wire.PathHello, Body: `{"program":"x"}`, Status: 200, Type: "application/json", Answer: "{}"}}}}
	r := httptest.NewRequest("POST", wire.PathHello, strings.NewReader(`{"protocol":1}`))
	if why := s.play(httptest.NewRecorder(), r); !strings.Contains(why, "no program") {
		t.Errorf("%q", why)
	}
}
