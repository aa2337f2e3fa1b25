package ledger

import (
	"crypto/ecdh"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/crypto/chacha20poly1305"

	"grattoir/validate"
)

// sealerClaims is how many openings share a key exchange: more than an upload's first run
// has. It also bounds what the memory of a running terminal gives away: the secrets of its
// last tickets, which are paid.
const sealerClaims = 64

// Sealer seals the openings of one terminal's claims. A key exchange is most of what
// opening one costs central, so a Sealer makes one for up to 64 claims; each has a key of
// its own all the same, for its info goes into it (RFC 9180, 5.1), and the bytes are those
// that ClaimKey.Seal could have made: whoever opens one opens the other. It is safe for
// concurrent use. crypto/hpke begins a new exchange with each info, hence the schedule here.
type Sealer struct {
	to *ecdh.PublicKey

	mu       sync.Mutex
	enc      []byte          // the exchange's public half
	secret   []byte          // from which each claim's key is made
	sealed   map[string]bool // infos under it: none twice, for its nonce would be the same
	psk      []byte          // hash of no pre-shared key
	exchange func() (*ecdh.PrivateKey, error)
}

// Identifiers of the suite, RFC 9180, 4.1 and 5.1: DHKEM(X25519, HKDF-SHA256), HKDF-SHA256
// and ChaCha20-Poly1305.
const (
	kemSuite  = "KEM\x00\x20"
	hpkeSuite = "HPKE\x00\x20\x00\x01\x00\x03"
)

// NewSealer is one for a claim key, which must not be zero.
func NewSealer(k ClaimKey) (*Sealer, error) {
	to, err := ecdh.X25519().NewPublicKey(k.key.Bytes())
	if err != nil {
		return nil, fmt.Errorf("claim key: %w", err)
	}
	psk, err := labeledExtract(hpkeSuite, nil, "psk_id_hash", nil)
	return &Sealer{to: to, psk: psk, exchange: func() (*ecdh.PrivateKey, error) { return ecdh.X25519().GenerateKey(rand.Reader) }}, err
}

// Seal seals the secret of a claim.
func (s *Sealer) Seal(claimID string, t validate.TicketKey, round int, secret string) ([]byte, error) {
	sealed, err := s.seal(openingInfo(claimID, t, round), []byte(secret))
	if err != nil {
		return nil, fmt.Errorf("seal the opening: %w", err)
	}
	return sealed, nil
}

func (s *Sealer) seal(info, secret []byte) ([]byte, error) {
	enc, shared, err := s.share(info)
	if err != nil {
		return nil, err
	}
	hash, err := labeledExtract(hpkeSuite, nil, "info_hash", info)
	if err != nil {
		return nil, err
	}
	schedule := slices.Concat([]byte{0}, s.psk, hash) // mode 0: base
	key, err := labeledExpand(hpkeSuite, shared, "key", schedule, chacha20poly1305.KeySize)
	if err != nil {
		return nil, err
	}
	nonce, err := labeledExpand(hpkeSuite, shared, "base_nonce", schedule, chacha20poly1305.NonceSize)
	if err != nil {
		return nil, err
	}
	aead, err := chacha20poly1305.New(key)
	if err != nil {
		return nil, err
	}
	return aead.Seal(slices.Clone(enc), nonce, secret, nil), nil
}

// share gives the exchange to seal with, a new one when this has served its time or has
// sealed the same info before.
func (s *Sealer) share(info []byte) (enc, secret []byte, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.secret == nil || len(s.sealed) == sealerClaims || s.sealed[string(info)] {
		if err := s.renew(); err != nil {
			return nil, nil, err
		}
	}
	s.sealed[string(info)] = true
	return s.enc, s.secret, nil
}

// renew makes a key exchange with central's key, RFC 9180, 4.1, and what of the key
// schedule no info changes.
func (s *Sealer) renew() error {
	s.secret = nil
	own, err := s.exchange()
	if err != nil {
		return err
	}
	dh, err := own.ECDH(s.to)
	if err != nil {
		return err
	}
	enc := own.PublicKey().Bytes()
	prk, err := labeledExtract(kemSuite, nil, "eae_prk", dh)
	if err != nil {
		return err
	}
	shared, err := labeledExpand(kemSuite, prk, "shared_secret", slices.Concat(enc, s.to.Bytes()), sha256.Size)
	if err != nil {
		return err
	}
	secret, err := labeledExtract(hpkeSuite, shared, "secret", nil)
	if err != nil {
		return err
	}
	s.enc, s.secret, s.sealed = enc, secret, map[string]bool{}
	return nil
}

// labeledExtract and labeledExpand are those of RFC 9180, 4.
func labeledExtract(suite string, salt []byte, label string, ikm []byte) ([]byte, error) {
	return hkdf.Extract(sha256.New, slices.Concat([]byte("HPKE-v1"+suite+label), ikm), salt)
}

func labeledExpand(suite string, prk []byte, label string, info []byte, size int) ([]byte, error) {
	text := binary.BigEndian.AppendUint16(nil, uint16(size))
	text = append(text, "HPKE-v1"+suite+label...)
	return hkdf.Expand(sha256.New, prk, string(append(text, info...)), size)
}

// recentShares are key exchanges that a secret key has made: those of an upload's claims
// are few. It stands before the key in crypto/hpke.
type recentShares struct {
	key *ecdh.PrivateKey

	mu    sync.Mutex
	known map[string][]byte
	order []string // oldest first
}

// maxShares is as many as the uploads that are opened at one time may need.
const maxShares = 1024

func (r *recentShares) PublicKey() *ecdh.PublicKey { return r.key.PublicKey() }
func (r *recentShares) Curve() ecdh.Curve          { return r.key.Curve() }

// ECDH is the key's, remembered.
func (r *recentShares) ECDH(with *ecdh.PublicKey) ([]byte, error) {
	name := string(with.Bytes())
	r.mu.Lock()
	shared, known := r.known[name]
	r.mu.Unlock()
	if known {
		return slices.Clone(shared), nil
	}
	shared, err := r.key.ECDH(with)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.known[name]; !known {
		if len(r.order) == maxShares {
			delete(r.known, r.order[0])
			r.order = r.order[1:]
		}
		r.known[name], r.order = slices.Clone(shared), append(r.order, name)
	}
	return shared, nil
}
