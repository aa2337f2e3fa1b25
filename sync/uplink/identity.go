package uplink

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/mod/sumdb/note"

	"grattoir/sync/ledger"
	"grattoir/sync/wire"
	"grattoir/validate/manifest"
)

// Identity is who a terminal is to central, and whom it believes: its key and
// certificate, central's CA, and the keys that central named at enrolment. It comes from
// LoadIdentity or Enrol; the zero Identity is nobody.
type Identity struct {
	Terminal   string   // the name in the certificate
	Central    string   // URL it was enrolled at
	CentralKey string   // public note key that signs snapshots and acknowledgements
	SealKeys   []string // public note keys that may sign manifests
	ClaimKey   string   // central's public claim key, for ledger.ParseClaimKey

	dir     string // where it lies
	key     *ecdsa.PrivateKey
	leaf    *x509.Certificate // nil while it is waiting
	cas     []*x509.Certificate
	central []note.Verifier
	file    identityFile
}

// Waiting tells that an enrolment file made this identity and central has not certified
// its key yet. It knows whom to believe and signs; central does not know it.
func (i Identity) Waiting() bool { return i.key != nil && i.leaf == nil }

// Expires is when the certificate ends, zero before there is one.
func (i Identity) Expires() time.Time {
	if i.leaf == nil {
		return time.Time{}
	}
	return i.leaf.NotAfter
}

// Issued is when central made the certificate, or the enrolment file: a time that
// central signed, so now is not earlier.
func (i Identity) Issued() time.Time {
	if i.leaf == nil {
		t, _ := time.Parse(time.RFC3339, i.file.Issued) // zero for none
		return t
	}
	return i.leaf.NotBefore
}

// Sign signs a text with the device's key: ECDSA over P-256 and SHA-256, in ASN.1.
func (i Identity) Sign(text []byte) (signature []byte, err error) {
	if i.key == nil {
		return nil, ErrNoIdentity
	}
	digest := sha256.Sum256(text)
	return i.key.Sign(rand.Reader, digest[:], crypto.SHA256)
}

// DeviceKey is the public half of the device's key, nil for nobody.
func (i Identity) DeviceKey() *ecdsa.PublicKey {
	if i.key == nil {
		return nil
	}
	return &i.key.PublicKey
}

var (
	// ErrNoIdentity means that the terminal was not enrolled yet.
	ErrNoIdentity = errors.New("this terminal has no identity yet: run terminalctl enrol")
	// ErrIdentity means an identity that does not hold together or that others can read.
	ErrIdentity = errors.New("the terminal's identity cannot be used")
	// ErrEnrolled means that there is an identity already.
	ErrEnrolled = errors.New("this terminal has an identity already")
)

const (
	identityName    = "identity.json"
	identityFormat  = 1
	maxIdentityFile = 256 << 10
)

// identityFile is the identity as it lies on the disk. It is one file, so that one
// rename replaces all of it: a key never lies beside another key's certificate.
type identityFile struct {
	Format      int      `json:"format"`
	Terminal    string   `json:"terminal"`
	Central     string   `json:"central"`
	Key         string   `json:"key"`         // PEM, PKCS #8, P-256
	Certificate string   `json:"certificate"` // PEM, "" while Code waits to be used
	CA          string   `json:"ca"`          // PEM
	CentralKey  string   `json:"central_key"`
	SealKeys    []string `json:"seal_keys"`
	ClaimKey    string   `json:"claim_key"`

	// Of an enrolment file, until central has certified the key.
	Code   string `json:"code,omitempty"`
	CSR    string `json:"csr,omitempty"`    // PEM
	Issued string `json:"issued,omitempty"` // RFC 3339
}

// LoadIdentity reads the identity that Enrol stored in a folder. The errors are
// ErrNoIdentity and ErrIdentity.
func LoadIdentity(dir string) (Identity, error) {
	path := filepath.Join(dir, identityName)
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe must not make it wait
	if errors.Is(err, os.ErrNotExist) {
		return Identity{}, fmt.Errorf("%s: %w", path, ErrNoIdentity)
	}
	if err != nil {
		return Identity{}, fmt.Errorf("%w: %w", ErrIdentity, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return Identity{}, fmt.Errorf("%w: %w", ErrIdentity, err)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return Identity{}, fmt.Errorf("%w: %s has mode %04o, so others can read its key: chmod 600 it, and enrol again if somebody may have", ErrIdentity, path, mode)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxIdentityFile+1))
	if err != nil {
		return Identity{}, fmt.Errorf("%w: %s: %w", ErrIdentity, path, err)
	}
	var stored identityFile
	if len(text) > maxIdentityFile {
		return Identity{}, fmt.Errorf("%w: %s is larger than %d bytes", ErrIdentity, path, maxIdentityFile)
	}
	if err := json.Unmarshal(text, &stored); err != nil {
		return Identity{}, fmt.Errorf("%w: %s: %w", ErrIdentity, path, err)
	}
	id, err := stored.identity()
	if err != nil {
		return Identity{}, fmt.Errorf("%w: %s: %w", ErrIdentity, path, err)
	}
	id.dir = dir
	return id, nil
}

// identity holds the parts against each other. Expiry is not looked at: an expired
// certificate is central's to refuse, and the clock may be wrong.
func (f identityFile) identity() (Identity, error) {
	id := Identity{Terminal: f.Terminal, Central: f.Central, CentralKey: f.CentralKey, SealKeys: f.SealKeys, ClaimKey: f.ClaimKey, file: f}
	if f.Format != identityFormat {
		return id, fmt.Errorf("format %d, this program knows %d", f.Format, identityFormat)
	}
	var err error
	if id.key, err = parseKey(f.Key); err != nil {
		return id, fmt.Errorf("key: %w", err)
	}
	ca, err := parseCertificate(f.CA)
	if err != nil {
		return id, fmt.Errorf("CA: %w", err)
	}
	id.cas = append(id.cas, ca)
	if err := id.certified(f); err != nil {
		return id, err
	}
	central, err := note.NewVerifier(f.CentralKey)
	if err != nil {
		return id, fmt.Errorf("central's key: %w", err)
	}
	id.central = append(id.central, central)
	for n, k := range f.SealKeys {
		if _, err := manifest.ParseKey(k); err != nil {
			return id, fmt.Errorf("seal key %d of %d: %w", n+1, len(f.SealKeys), err)
		}
	}
	if _, err := ledger.ParseClaimKey(f.ClaimKey); err != nil {
		return id, err
	}
	return id, nil
}

// certified holds the certificate against the key and the CA, or wants a code where there
// is none yet.
func (i *Identity) certified(f identityFile) (err error) {
	if f.Terminal == "" || len(f.Terminal) > 64 {
		return fmt.Errorf("a terminal %.64q", f.Terminal)
	}
	if f.Certificate == "" {
		if _, _, err := wire.ParseEnrolCode(f.Code); err != nil || f.CSR == "" {
			return errors.New("it has no certificate, and no code to get one with")
		}
		return nil
	}
	if i.leaf, err = parseCertificate(f.Certificate); err != nil {
		return fmt.Errorf("certificate: %w", err)
	}
	if !i.key.PublicKey.Equal(i.leaf.PublicKey) {
		return errors.New("the certificate is of another key")
	}
	if name := i.leaf.Subject.CommonName; name != f.Terminal {
		return fmt.Errorf("the certificate is of %.64q, the terminal is %.64q", name, f.Terminal)
	}
	_, err = i.leaf.Verify(x509.VerifyOptions{Roots: pool(i.cas...), CurrentTime: i.leaf.NotBefore, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	if err != nil {
		return fmt.Errorf("the certificate is not of this CA: %w", err)
	}
	return nil
}

// tlsConfig is how the terminal shows itself and proves central, at a time of its own.
func (i Identity) tlsConfig(now func() time.Time) *tls.Config {
	c := &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: pool(i.cas...), Time: now}
	if i.leaf != nil {
		c.Certificates = []tls.Certificate{{Certificate: [][]byte{i.leaf.Raw}, PrivateKey: i.key, Leaf: i.leaf}}
	}
	return c
}

func pool(cas ...*x509.Certificate) *x509.CertPool {
	p := x509.NewCertPool()
	for _, ca := range cas {
		p.AddCert(ca)
	}
	return p
}

// oneBlock reads a PEM text of exactly one block of a kind.
func oneBlock(text, kind string) ([]byte, error) {
	b, rest := pem.Decode([]byte(text))
	if b == nil || b.Type != kind || len(rest) > 0 {
		return nil, fmt.Errorf("want one PEM block %q", kind)
	}
	return b.Bytes, nil
}

func parseCertificate(text string) (*x509.Certificate, error) {
	der, err := oneBlock(text, "CERTIFICATE")
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

func certificatePEM(c *x509.Certificate) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}))
}

// parseKey reads the device's key. Its errors show nothing of it.
func parseKey(text string) (*ecdsa.PrivateKey, error) {
	der, err := oneBlock(text, "PRIVATE KEY")
	if err != nil {
		return nil, err
	}
	k, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil, errors.New("it is damaged")
	}
	key, ok := k.(*ecdsa.PrivateKey)
	if !ok || key.Curve != elliptic.P256() {
		return nil, errors.New("it is no P-256 key")
	}
	return key, nil
}

// WriteWhole stores a file so that after any cut the name has the old content or the
// new one, whole: a file beside it, synced, renamed, and the folder synced.
func WriteWhole(path string, content []byte) (err error) {
	tmp := path + ".new"
	f, err := os.OpenFile(tmp, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(tmp)
		}
	}()
	_, err = f.Write(content)
	if err == nil {
		err = f.Chmod(0o600) // an older file of this name may have been wider
	}
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(tmp, path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
