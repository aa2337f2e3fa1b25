package uplink

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"grattoir/sync/wire"
)

// EnrolOptions are what Enrol needs.
type EnrolOptions struct {
	URL   string // central's, https
	Code  string // as central printed it
	Dir   string // folder of the identity, made when it is missing
	Again bool   // replace an identity that is there
	// Dial connects to central, nil for the network.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	Now  func() time.Time // the device's clock, nil for time.Now
}

// ErrNotPinned means that whoever answered does not have the CA that the code names.
// The code's secret was not sent.
var ErrNotPinned = errors.New("the server is not the central that printed this code")

const (
	renewalName    = "renewal.pem"
	pendingPrefix  = "pending-"
	pendingSuffix  = ".pem"
	pendingPattern = "pending*.pem"
	pendingOld     = "pending.pem" // of programs that kept one request for all codes
	maxPending     = 8
	enrolTimeout   = 60 * time.Second
	codeHeader     = "Code-SHA256"
)

// Enrol makes the device's key, proves central by the code's pin, has the key
// certified, and stores the identity. The key never leaves the device. The key and its
// request are kept from before the first byte is sent, for each code apart, so that an
// enrolment whose answer was lost succeeds when it is repeated with the same code, also
// after another one was mistyped. The errors include wire.ErrEnrolCode, ErrEnrolled,
// ErrNotPinned and *wire.Error.
func Enrol(ctx context.Context, o EnrolOptions) (Identity, error) {
	secret, pin, err := wire.ParseEnrolCode(o.Code)
	if err != nil {
		return Identity{}, err
	}
	base, err := parseURL(o.URL)
	if err != nil {
		return Identity{}, err
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if err := vacant(o.Dir, o.Again); err != nil {
		return Identity{}, err
	}
	code := wire.EncodeEnrolCode(secret, pin)
	w, err := pending(o.Dir, code)
	if err != nil {
		return Identity{}, fmt.Errorf("keep the new key: %w", err)
	}
	answer, err := w.ask(ctx, newClient(base, o.Dial, pinnedTLS(pin, base.Hostname(), o.Now)), code)
	if err != nil {
		return Identity{}, fmt.Errorf("enrol at %s: %w", base.Host, w.giveUp(err))
	}
	id, err := w.identity(base.String(), answer)
	if err != nil {
		return Identity{}, fmt.Errorf("enrol at %s: %w", base.Host, err)
	}
	if wire.PinOf(id.cas[0].RawSubjectPublicKeyInfo) != pin {
		return Identity{}, fmt.Errorf("enrol at %s: %w: the CA in its answer is another", base.Host, ErrNotPinned)
	}
	return id, w.store(&id, o.Dir)
}

// store writes the key that renews, and then the identity.
func (w request) store(id *Identity, dir string) error {
	id.dir = dir
	if w.renewalPEM != "" {
		if err := WriteWhole(filepath.Join(dir, renewalName), []byte(w.renewalPEM)); err != nil {
			return fmt.Errorf("store the key that renews: %w", err)
		}
	}
	return id.store()
}

// vacant makes the identity's folder, unless an identity lies there that is to stay.
func vacant(dir string, again bool) error {
	path := filepath.Join(dir, identityName)
	if _, err := os.Lstat(path); err == nil && !again {
		return fmt.Errorf("%s: %w", path, ErrEnrolled)
	} else if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return os.MkdirAll(dir, 0o700)
}

// store writes the identity and then forgets the requests that were made for one.
func (i Identity) store() error {
	text, err := json.MarshalIndent(i.file, "", "  ")
	if err != nil {
		return err
	}
	if err := WriteWhole(filepath.Join(i.dir, identityName), append(text, '\n')); err != nil {
		return fmt.Errorf("store the identity: %w", err)
	}
	left, err := filepath.Glob(filepath.Join(i.dir, pendingPattern))
	if err != nil {
		return err
	}
	var errs []error
	for _, path := range left {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// request is a key that waits for its certificate, with the key that is to renew it.
type request struct {
	keyPEM, csrPEM string
	renewalPEM     string // "" for one of a program that made none
	path           string // where it is kept, "" for nowhere of its own
}

// pending returns the key and the certificate request of a code, the ones made before
// when the same code was tried already. What was made for another code stays: central may
// have certified it, and its answer been lost.
func pending(dir, code string) (request, error) {
	sum := sha256.Sum256([]byte(code)) // 80 random bits: the hash gives nothing away
	mark := hex.EncodeToString(sum[:])
	path := filepath.Join(dir, pendingPrefix+mark[:16]+pendingSuffix)
	for _, name := range []string{path, filepath.Join(dir, pendingOld)} {
		if w, ok := readPending(name, mark); ok {
			return w, nil
		}
	}
	if err := makeRoom(dir); err != nil {
		return request{}, err
	}
	w, err := newRequest()
	if err != nil {
		return request{}, err
	}
	der, err := oneBlock(w.csrPEM, "CERTIFICATE REQUEST")
	if err != nil {
		return request{}, err
	}
	w.path = path
	kept := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Headers: map[string]string{codeHeader: mark}, Bytes: der})
	return w, WriteWhole(path, append(kept, w.keyPEM+w.renewalPEM...))
}

// makeRoom removes the oldest of many pending requests: each is of a code that was
// mistyped, or whose time is long over.
func makeRoom(dir string) error {
	list, err := filepath.Glob(filepath.Join(dir, pendingPattern))
	if err != nil {
		return err
	}
	for ; len(list) >= maxPending; list = list[1:] {
		oldest := 0
		var at time.Time
		for i, path := range list {
			info, err := os.Stat(path)
			if err != nil {
				return err
			}
			if i == 0 || info.ModTime().Before(at) {
				oldest, at = i, info.ModTime()
			}
		}
		list[0], list[oldest] = list[oldest], list[0]
		if err := os.Remove(list[0]); err != nil {
			return err
		}
	}
	return nil
}

// newRequest makes a device's key, the request to certify it, and the key that renews.
func newRequest() (w request, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return w, err
	}
	renewal, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return w, err
	}
	if w.keyPEM, err = keyPEM(key); err != nil {
		return w, err
	}
	if w.renewalPEM, err = keyPEM(renewal); err != nil {
		return w, err
	}
	w.csrPEM, err = makeCSR(key)
	return w, err
}

func keyPEM(key *ecdsa.PrivateKey) (string, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})), err
}

// publicPEM is the public half of a key in PEM, "" for none.
func publicPEM(private string) (string, error) {
	if private == "" {
		return "", nil
	}
	key, err := parseKey(private)
	if err != nil {
		return "", err
	}
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})), err
}

// makeCSR asks for a certificate of a key. Central gives the name.
func makeCSR(key *ecdsa.PrivateKey) (string, error) {
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		return "", err
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})), nil
}

// readPending tells by its last result whether the file holds a whole request of this code.
func readPending(path, mark string) (request, bool) {
	f, err := os.Open(path)
	if err != nil {
		return request{}, false
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxIdentityFile))
	if err != nil {
		return request{}, false
	}
	csr, rest := pem.Decode(text)
	if csr == nil || csr.Type != "CERTIFICATE REQUEST" || csr.Headers[codeHeader] != mark {
		return request{}, false
	}
	key, rest := pem.Decode(rest)
	if key == nil {
		return request{}, false
	}
	w := request{string(pem.EncodeToMemory(key)), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: csr.Bytes})), string(rest), path}
	_, err = parseKey(w.keyPEM)
	if err == nil {
		_, err = publicPEM(w.renewalPEM)
	}
	return w, err == nil
}

// ask sends the request with its code, and closes the client.
func (w request) ask(ctx context.Context, c *client, code string) (a wire.EnrolAnswer, err error) {
	ctx, cancel := context.WithTimeout(ctx, enrolTimeout)
	defer cancel()
	defer c.close()
	renewal, err := publicPEM(w.renewalPEM)
	if err == nil {
		err = c.post(ctx, wire.PathEnrol, wire.EnrolRequest{Protocol: wire.Protocol, Code: code, CSR: w.csrPEM, RenewalKey: renewal}, &a)
	}
	return a, err
}

// giveUp forgets the key when central will never certify it.
func (w request) giveUp(err error) error {
	if refused, ok := errors.AsType[*wire.Error](err); !ok || refused.Kind != wire.KindBadCode {
		return err
	}
	return errors.Join(fmt.Errorf("%w (check that the code is typed right, or make a new one: central terminal add)", err), os.Remove(w.path))
}

// identity is what the request and its answer make together.
func (w request) identity(central string, answer wire.EnrolAnswer) (Identity, error) {
	stored := identityFile{Format: identityFormat, Terminal: answer.Terminal, Central: central, Key: w.keyPEM, Certificate: answer.Certificate,
		CA: answer.CA, CentralKey: strings.TrimSpace(answer.CentralKey), ClaimKey: strings.TrimSpace(answer.ClaimKey)}
	for _, k := range answer.SealKeys { // they come from files that end with a line feed
		stored.SealKeys = append(stored.SealKeys, strings.TrimSpace(k))
	}
	id, err := stored.identity()
	if err == nil && id.leaf == nil {
		err = errors.New("no certificate")
	}
	if err != nil {
		return Identity{}, fmt.Errorf("%w: %w", ErrAnswer, err)
	}
	return id, nil
}

// pinnedTLS accepts a server that shows a chain to the CA that the code pins, and no
// other. The pin is checked in the handshake, so the secret is sent to nobody else.
func pinnedTLS(pin wire.CAPin, host string, now func() time.Time) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		ServerName: host,
		// No CA is known yet: VerifyConnection does the whole of the verification.
		InsecureSkipVerify: true,
		VerifyConnection: func(s tls.ConnectionState) error {
			return verifyPinned(s.PeerCertificates, pin, host, now())
		},
	}
}

func verifyPinned(chain []*x509.Certificate, pin wire.CAPin, host string, now time.Time) error {
	var ca *x509.Certificate
	for _, c := range chain[min(1, len(chain)):] {
		if c.IsCA && wire.PinOf(c.RawSubjectPublicKeyInfo) == pin {
			ca = c
		}
	}
	if ca == nil {
		return fmt.Errorf("%w: none of its %d certificates is the CA that the code names; check the address and type the code again", ErrNotPinned, len(chain))
	}
	leaf := chain[0]
	// A board without a clock battery boots in the past. The certificate's own start is a
	// time that the pinned CA signed, so now is not earlier.
	if now.Before(leaf.NotBefore) {
		now = leaf.NotBefore
	}
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: pool(ca), DNSName: host, CurrentTime: now}); err != nil {
		return fmt.Errorf("%w: its certificate: %w", ErrNotPinned, err)
	}
	return nil
}
