package central

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"

	"grattoir/sync/ledger"
	"grattoir/validate/manifest"
)

const (
	caLife       = 20 // years
	serverLife   = 2  // years; renewed at a start in the second one
	terminalLife = 90 * 24 * time.Hour
	clockSlack   = time.Hour // certificates begin so much earlier, for clocks that are behind
)

// keys are central's own. Each pair lies in one file of mode 0600, so that a cut while
// it is made leaves a whole pair or none.
type keys struct {
	ca         *x509.Certificate
	caKey      *ecdsa.PrivateKey
	caPEM      string
	server     tls.Certificate
	signer     note.Signer
	signers    []note.Signer // it, and during a rotation the other one
	otherCAs   []*x509.Certificate
	otherKeys  []string // public note keys of the others
	notePublic string
	verifiers  note.Verifiers // of what this central has signed
	fresh      bool           // made at this start
	claim      ledger.ClaimSecretKey
	claimLine  string // public half
}

func loadKeys(opt Options) (keys, error) {
	var k keys
	dir := filepath.Join(opt.Dir, "keys")
	if err := k.loadCA(filepath.Join(dir, "ca.pem"), opt); err != nil {
		return k, fmt.Errorf("keys/ca.pem: %w", err)
	}
	if err := k.loadServer(filepath.Join(dir, "server.pem"), opt); err != nil {
		return k, fmt.Errorf("keys/server.pem: %w", err)
	}
	secret, public, err := loadPair(filepath.Join(dir, "sign.key"), func() (string, string, error) { return note.GenerateKey(rand.Reader, opt.Name) })
	if err != nil {
		return k, fmt.Errorf("keys/sign.key: %w", err)
	}
	k.notePublic = public
	if k.signer, err = note.NewSigner(secret); err != nil {
		return k, fmt.Errorf("keys/sign.key: %w", err)
	}
	if secret, k.claimLine, err = loadPair(filepath.Join(dir, "claim.key"), ledger.GenerateClaimKey); err != nil {
		return k, fmt.Errorf("keys/claim.key: %w", err)
	}
	if k.claim, err = ledger.ParseClaimSecretKey(secret); err != nil {
		return k, fmt.Errorf("keys/claim.key: %w", err)
	}
	return k, nil
}

// loadPair reads a file of two lines, the secret half and the public one, making it when there is none.
func loadPair(path string, generate func() (secret, public string, err error)) (secret, public string, err error) {
	text, err := readKeyFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if secret, public, err = generate(); err != nil {
			return "", "", err
		}
		return secret, public, writeWhole(path, []byte(secret+"\n"+public+"\n"), 0o600)
	}
	if err != nil {
		return "", "", err
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if len(lines) != 2 {
		return "", "", fmt.Errorf("%d lines, want the secret half and the public one: bring the file back from its copy", len(lines))
	}
	return lines[0], lines[1], nil
}

func readKeyFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("others may read it (mode %04o): chmod 600 it, and if others did read it, make new keys", info.Mode().Perm())
	}
	return os.ReadFile(path)
}

// writeWhole puts a file in place whole or not at all.
func writeWhole(path string, text []byte, mode os.FileMode) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	_, err = f.Write(text)
	if err := errors.Join(err, f.Chmod(mode), f.Sync(), f.Close()); err != nil {
		return err
	}
	return moveInto(f.Name(), path)
}

// moveInto renames and makes the new name durable.
func moveInto(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	d, err := os.Open(filepath.Dir(to))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func (k *keys) loadCA(path string, opt Options) error {
	text, err := readKeyFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		k.fresh = true
		text, err = makeCA(path, opt)
	}
	if err != nil {
		return err
	}
	if k.caKey, k.ca, err = parseIdentity(text); err != nil {
		return err
	}
	k.caPEM = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: k.ca.Raw}))
	return nil
}

func makeCA(path string, opt Options) ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	serial, err := serialNumber(opt.Rand)
	if err != nil {
		return nil, err
	}
	now := opt.Now()
	template := &x509.Certificate{SerialNumber: serial, Subject: pkix.Name{CommonName: opt.Name + " CA"}, NotBefore: now.Add(-clockSlack),
		NotAfter: now.AddDate(caLife, 0, 0), IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	return writeIdentity(path, key, raw)
}

// loadServer keeps the certificate it finds while it serves the hosts asked for and has
// more than half of its life left, and makes another one otherwise, also when it has not
// begun: it was made while the clock was ahead.
func (k *keys) loadServer(path string, opt Options) error {
	text, err := readKeyFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err == nil {
		key, cert, err := parseIdentity(text)
		if err == nil && cert.CheckSignatureFrom(k.ca) == nil && sameHosts(cert, opt.Hosts) && opt.Now().AddDate(serverLife/2, 0, 0).Before(cert.NotAfter) && !opt.Now().Before(cert.NotBefore) {
			k.server = tls.Certificate{Certificate: [][]byte{cert.Raw, k.ca.Raw}, PrivateKey: key, Leaf: cert}
			return nil
		}
		if err == nil && len(opt.Hosts) == 0 {
			opt.Hosts = hostsOf(cert)
		}
	}
	return k.makeServer(path, opt)
}

func (k *keys) makeServer(path string, opt Options) error {
	if len(opt.Hosts) == 0 {
		opt.Hosts = []string{"localhost", "127.0.0.1"}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	serial, err := serialNumber(opt.Rand)
	if err != nil {
		return err
	}
	now := opt.Now()
	template := &x509.Certificate{SerialNumber: serial, Subject: pkix.Name{CommonName: opt.Name}, NotBefore: now.Add(-clockSlack),
		NotAfter: now.AddDate(serverLife, 0, 0), KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	for _, host := range opt.Hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, k.ca, key.Public(), k.caKey)
	if err != nil {
		return fmt.Errorf("certificate for %s: %w", strings.Join(opt.Hosts, ", "), err)
	}
	text, err := writeIdentity(path, key, raw)
	if err != nil {
		return err
	}
	_, cert, err := parseIdentity(text)
	k.server = tls.Certificate{Certificate: [][]byte{raw, k.ca.Raw}, PrivateKey: key, Leaf: cert}
	return err
}

func hostsOf(cert *x509.Certificate) []string {
	hosts := slices.Clone(cert.DNSNames)
	for _, ip := range cert.IPAddresses {
		hosts = append(hosts, ip.String())
	}
	return hosts
}

func sameHosts(cert *x509.Certificate, want []string) bool {
	if len(want) == 0 {
		return true
	}
	has, want := hostsOf(cert), slices.Clone(want)
	slices.Sort(has)
	slices.Sort(want)
	return slices.Equal(has, slices.Compact(want))
}

// serialNumber is 127 random bits, never 0.
func serialNumber(random io.Reader) (*big.Int, error) {
	raw := make([]byte, 16)
	if _, err := io.ReadFull(random, raw); err != nil {
		return nil, fmt.Errorf("random number: %w", err)
	}
	raw[0] = raw[0]&0x7f | 0x40
	return new(big.Int).SetBytes(raw), nil
}

func writeIdentity(path string, key *ecdsa.PrivateKey, cert []byte) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	text := append(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})...)
	return text, writeWhole(path, text, 0o600)
}

func parseIdentity(text []byte) (*ecdsa.PrivateKey, *x509.Certificate, error) {
	pair, err := tls.X509KeyPair(text, text)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: bring the file back from its copy", err)
	}
	key, ok := pair.PrivateKey.(*ecdsa.PrivateKey)
	if !ok {
		return nil, nil, errors.New("not an ECDSA key")
	}
	return key, pair.Leaf, nil
}

// SealKeys reads the public keys, in note format, that may sign manifests, from seal-keys/*.pub.
func (c *Central) SealKeys() ([]string, error) {
	names, err := filepath.Glob(filepath.Join(c.opt.Dir, "seal-keys", "*.pub"))
	if err != nil {
		return nil, err
	}
	var list []string
	for _, name := range names { // Glob sorts
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		line := string(bytes.TrimSpace(text))
		if _, err := manifest.ParseKey(line); err != nil {
			return nil, fmt.Errorf("seal-keys/%s: %w", filepath.Base(name), err)
		}
		if !slices.Contains(list, line) {
			list = append(list, line)
		}
	}
	return list, nil
}

// TrustSealKey lets a key, as manifest.ParseKey reads it, sign the manifests that
// terminals accept. Terminals get it when they enrol. The same key with another last day
// takes its place. It returns false when it was trusted like this already.
func (c *Central) TrustSealKey(public string) (added bool, err error) {
	public = strings.TrimSpace(public)
	key, err := manifest.ParseKey(public)
	if err != nil {
		return false, fmt.Errorf("seal key: %w", err)
	}
	trusted, err := c.SealKeys()
	if err != nil || slices.Contains(trusted, public) {
		return false, err
	}
	return true, writeWhole(filepath.Join(c.opt.Dir, "seal-keys", key.Hash()+".pub"), []byte(public+"\n"), 0o644)
}
