package ledger

import (
	"crypto/ecdh"
	"crypto/hpke"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"grattoir/validate"
)

// An opening is the secret of a paid ticket, sealed so that only central's claim key
// reads it: it proves that the ticket was really scratched. It is HPKE (RFC 9180) in
// base mode with DHKEM(X25519, HKDF-SHA256), HKDF-SHA256 and ChaCha20-Poly1305; the
// info binds it to its claim, so that it serves no other.

// ClaimKey is central's public claim key.
type ClaimKey struct{ key hpke.PublicKey }

// ClaimSecretKey is central's own half.
type ClaimSecretKey struct{ key hpke.PrivateKey }

const (
	claimPublicPrefix  = "grattoir-claim-key-v1+"
	claimPrivatePrefix = "PRIVATE+GRATTOIR+CLAIM+KEY+V1+"
)

func claimKEM() hpke.KEM { return hpke.DHKEM(ecdh.X25519()) }

// GenerateClaimKey makes a claim key pair, each half as one line of text.
func GenerateClaimKey() (secret, public string, err error) {
	k, err := claimKEM().GenerateKey()
	if err != nil {
		return "", "", err
	}
	raw, err := k.Bytes()
	if err != nil {
		return "", "", err
	}
	return claimPrivatePrefix + base64.StdEncoding.EncodeToString(raw),
		claimPublicPrefix + base64.StdEncoding.EncodeToString(k.PublicKey().Bytes()), nil
}

// ParseClaimKey reads the public half.
func ParseClaimKey(text string) (ClaimKey, error) {
	raw, err := keyBytes(text, claimPublicPrefix)
	if err != nil {
		return ClaimKey{}, err
	}
	k, err := claimKEM().NewPublicKey(raw)
	if err != nil {
		return ClaimKey{}, fmt.Errorf("claim key: %w", err)
	}
	return ClaimKey{k}, nil
}

// ParseClaimSecretKey reads central's half. Its errors show nothing of the key.
func ParseClaimSecretKey(text string) (ClaimSecretKey, error) {
	raw, err := keyBytes(text, claimPrivatePrefix)
	if err != nil {
		return ClaimSecretKey{}, err
	}
	own, err := ecdh.X25519().NewPrivateKey(raw)
	if err != nil {
		return ClaimSecretKey{}, errors.New("claim key: the secret half is damaged")
	}
	k, err := hpke.NewDHKEMPrivateKey(&recentShares{key: own, known: map[string][]byte{}})
	if err != nil {
		return ClaimSecretKey{}, errors.New("claim key: the secret half is damaged")
	}
	return ClaimSecretKey{k}, nil
}

func keyBytes(text, prefix string) ([]byte, error) {
	rest, ok := strings.CutPrefix(strings.TrimSpace(text), prefix)
	if !ok {
		return nil, fmt.Errorf("claim key: want one line that begins with %q", prefix)
	}
	raw, err := base64.StdEncoding.DecodeString(rest)
	if err != nil {
		return nil, errors.New("claim key: the text after its prefix is not base64")
	}
	return raw, nil
}

// IsZero tells whether there is no key.
func (k ClaimKey) IsZero() bool { return k.key == nil }

func openingInfo(claimID string, t validate.TicketKey, round int) []byte {
	info := append([]byte("grattoir opening v1\x00"), t.Block[:]...)
	info = binary.BigEndian.AppendUint32(info, t.Pack)
	info = binary.BigEndian.AppendUint16(info, t.Number)
	info = binary.BigEndian.AppendUint32(info, uint32(round))
	return append(info, claimID...)
}

// Seal seals the secret of a claim.
func (k ClaimKey) Seal(claimID string, t validate.TicketKey, round int, secret string) ([]byte, error) {
	sealed, err := hpke.Seal(k.key, hpke.HKDFSHA256(), hpke.ChaCha20Poly1305(), openingInfo(claimID, t, round), []byte(secret))
	if err != nil {
		return nil, fmt.Errorf("seal the opening: %w", err)
	}
	return sealed, nil
}

// prepared are openings that were sealed before their claims are recorded.
type prepared struct {
	sealer *Sealer // nil where there is no key to seal to

	mu   sync.Mutex
	list []sealedOpening // oldest first
}

// sealedOpening is the opening of a claim that may be recorded.
type sealedOpening struct {
	id, secret string
	ticket     validate.TicketKey
	round      int
	sealed     []byte
}

// maxPrepared is as many tickets as one customer's batch holds, and the one after it.
const maxPrepared = 11

// Prepare seals the opening of a claim that may follow, so that Record need not: it takes
// longer than all of Record's reads together. Nothing is committed, and nothing is lost
// when the claim never comes.
func (l *Ledger) Prepare(c validate.Claim) {
	o := sealedOpening{c.ID, c.Secret.Secret(), c.Ticket, c.Round, nil}
	var err error
	p := &l.prepared
	if o.sealed, err = p.sealer.opening(c); err != nil || o.sealed == nil {
		return // Record will meet the same error, and has somebody to tell
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.list = slices.DeleteFunc(p.list, func(older sealedOpening) bool { return older.id == c.ID })
	if len(p.list) == maxPrepared {
		p.list = slices.Delete(p.list, 0, 1)
	}
	p.list = append(p.list, o)
}

// take gives the opening of exactly this claim, sealed now if it was not before.
func (p *prepared) take(c validate.Claim) ([]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, o := range p.list {
		if o.id == c.ID && o.ticket == c.Ticket && o.round == c.Round && o.secret == c.Secret.Secret() {
			p.list = slices.Delete(p.list, i, i+1)
			return o.sealed, nil
		}
	}
	return p.sealer.opening(c)
}

// opening is that of a claim, nil where there is no key to seal it to.
func (s *Sealer) opening(c validate.Claim) ([]byte, error) {
	if s == nil {
		return nil, nil
	}
	return s.Seal(c.ID, c.Ticket, c.Round, c.Secret.Secret())
}

// Open returns the secret of a claim, or an error when it was sealed for another claim or key.
func (k ClaimSecretKey) Open(claimID string, t validate.TicketKey, round int, sealed []byte) (string, error) {
	secret, err := hpke.Open(k.key, hpke.HKDFSHA256(), hpke.ChaCha20Poly1305(), openingInfo(claimID, t, round), sealed)
	if err != nil {
		return "", fmt.Errorf("claim %s: the opening does not open: %w", claimID, err)
	}
	return string(secret), nil
}
