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
	"net/url"
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
	pendingName  = "pending.pem"
	enrolTimeout = 60 * time.Second
	codeHeader   = "Code-SHA256"
)

// Enrol makes the device's key, proves central by the code's pin, has the key
// certified, and stores the identity. The key never leaves the device. The key and its
// request are kept from before the first byte is sent, so that an enrolment whose answer
// was lost succeeds when it is repeated with the same code. The errors include
// wire.ErrEnrolCode, ErrEnrolled, ErrNotPinned and *wire.Error.
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
	path := filepath.Join(o.Dir, identityName)
	if _, err := os.Lstat(path); err == nil && !o.Again {
		return Identity{}, fmt.Errorf("%s: %w", path, ErrEnrolled)
	} else if err != nil && !errors.Is(err, os.ErrNotExist) {
		return Identity{}, err
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return Identity{}, err
	}
	code := wire.EncodeEnrolCode(secret, pin)
	keyPEM, csr, err := pending(o.Dir, code)
	if err != nil {
		return Identity{}, fmt.Errorf("keep the new key: %w", err)
	}
	answer, err := askCertificate(ctx, o, base, pin, wire.EnrolRequest{Protocol: wire.Protocol, Code: code, CSR: csr})
	if err != nil {
		return Identity{}, fmt.Errorf("enrol at %s: %w", base.Host, err)
	}
	stored := identityFile{Format: identityFormat, Terminal: answer.Terminal, Central: base.String(), Key: keyPEM, Certificate: answer.Certificate,
		CA: answer.CA, CentralKey: strings.TrimSpace(answer.CentralKey), ClaimKey: strings.TrimSpace(answer.ClaimKey)}
	for _, k := range answer.SealKeys { // they come from files that end with a line feed
		stored.SealKeys = append(stored.SealKeys, strings.TrimSpace(k))
	}
	id, err := stored.identity()
	if err != nil {
		return Identity{}, fmt.Errorf("enrol at %s: %w: %w", base.Host, ErrAnswer, err)
	}
	if wire.PinOf(id.ca.RawSubjectPublicKeyInfo) != pin {
		return Identity{}, fmt.Errorf("enrol at %s: %w: the CA in its answer is another", base.Host, ErrNotPinned)
	}
	return id, id.store(o.Dir)
}

// store writes the identity and then forgets the request it came from.
func (i Identity) store(dir string) error {
	text, err := json.MarshalIndent(i.file, "", "  ")
	if err != nil {
		return err
	}
	if err := WriteWhole(filepath.Join(dir, identityName), append(text, '\n')); err != nil {
		return fmt.Errorf("store the identity: %w", err)
	}
	if err := os.Remove(filepath.Join(dir, pendingName)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// pending returns the key and the certificate request of an enrolment, the ones made
// before when the same code was tried already.
func pending(dir, code string) (keyPEM, csrPEM string, err error) {
	path := filepath.Join(dir, pendingName)
	sum := sha256.Sum256([]byte(code)) // 80 random bits: the hash gives nothing away
	mark := hex.EncodeToString(sum[:])
	if key, csr, ok := readPending(path, mark); ok {
		return key, csr, nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", "", err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return "", "", err
	}
	request, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		return "", "", err
	}
	kept := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Headers: map[string]string{codeHeader: mark}, Bytes: request})
	keyText := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	if err := WriteWhole(path, append(kept, keyText...)); err != nil {
		return "", "", err
	}
	return string(keyText), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: request})), nil
}

// readPending tells by its last result whether the file holds a whole request of this code.
func readPending(path, mark string) (keyPEM, csrPEM string, ok bool) {
	f, err := os.Open(path)
	if err != nil {
		return "", "", false
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxIdentityFile))
	if err != nil {
		return "", "", false
	}
	request, rest := pem.Decode(text)
	if request == nil || request.Type != "CERTIFICATE REQUEST" || request.Headers[codeHeader] != mark {
		return "", "", false
	}
	if _, err := parseKey(string(rest)); err != nil {
		return "", "", false
	}
	return string(rest), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: request.Bytes})), true
}

func askCertificate(ctx context.Context, o EnrolOptions, base *url.URL, pin wire.CAPin, r wire.EnrolRequest) (wire.EnrolAnswer, error) {
	ctx, cancel := context.WithTimeout(ctx, enrolTimeout)
	defer cancel()
	c := newClient(base, o.Dial, pinnedTLS(pin, base.Hostname(), o.Now))
	defer c.close()
	var a wire.EnrolAnswer
	err := c.post(ctx, wire.PathEnrol, r, &a)
	var refused *wire.Error
	if errors.As(err, &refused) && refused.Kind == wire.KindBadCode {
		// The key made for this code can never be certified.
		gone := os.Remove(filepath.Join(o.Dir, pendingName))
		return a, errors.Join(fmt.Errorf("%w (check that the code is typed right, or make a new one: central terminal add)", err), gone)
	}
	return a, err
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
