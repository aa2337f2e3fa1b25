package people

import (
	"crypto/ecdh"
	"crypto/hpke"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

// An identity is sealed as an opening of the ledger is: HPKE (RFC 9180) in base mode with
// DHKEM(X25519, HKDF-SHA256), HKDF-SHA256 and ChaCha20-Poly1305. The key is another one,
// because other people at central read it; the info binds what is sealed to its terminal
// and record.

// RegisterKey is central's public register key.
type RegisterKey struct{ key hpke.PublicKey }

// RegisterSecretKey is central's own half.
type RegisterSecretKey struct{ key hpke.PrivateKey }

const (
	registerPublicPrefix  = "grattoir-register-key-v1+"
	registerPrivatePrefix = "PRIVATE+GRATTOIR+REGISTER+KEY+V1+"
)

func registerKEM() hpke.KEM { return hpke.DHKEM(ecdh.X25519()) }

// GenerateRegisterKey makes a register key pair, each half as one line of text.
func GenerateRegisterKey() (secret, public string, err error) {
	k, err := registerKEM().GenerateKey()
	if err != nil {
		return "", "", err
	}
	raw, err := k.Bytes()
	if err != nil {
		return "", "", err
	}
	return registerPrivatePrefix + base64.StdEncoding.EncodeToString(raw),
		registerPublicPrefix + base64.StdEncoding.EncodeToString(k.PublicKey().Bytes()), nil
}

// ParseRegisterKey reads the public half.
func ParseRegisterKey(text string) (RegisterKey, error) {
	raw, err := registerKeyBytes(text, registerPublicPrefix)
	if err != nil {
		return RegisterKey{}, err
	}
	k, err := registerKEM().NewPublicKey(raw)
	if err != nil {
		return RegisterKey{}, fmt.Errorf("register key: %w", err)
	}
	return RegisterKey{k}, nil
}

// ParseRegisterSecretKey reads central's half. Its errors show nothing of the key.
func ParseRegisterSecretKey(text string) (RegisterSecretKey, error) {
	raw, err := registerKeyBytes(text, registerPrivatePrefix)
	if err != nil {
		return RegisterSecretKey{}, err
	}
	k, err := registerKEM().NewPrivateKey(raw)
	if err != nil {
		return RegisterSecretKey{}, errors.New("register key: the secret half is damaged")
	}
	return RegisterSecretKey{k}, nil
}

func registerKeyBytes(text, prefix string) ([]byte, error) {
	rest, ok := strings.CutPrefix(strings.TrimSpace(text), prefix)
	if !ok {
		return nil, fmt.Errorf("register key: want one line that begins with %q", prefix)
	}
	raw, err := base64.StdEncoding.DecodeString(rest)
	if err != nil {
		return nil, errors.New("register key: the text after its prefix is not base64")
	}
	return raw, nil
}

// IsZero tells whether there is no key.
func (k RegisterKey) IsZero() bool { return k.key == nil }

func registerInfo(terminal string, id RecordID) []byte {
	info := append([]byte("grattoir register v1\x00"), id[:]...)
	info = binary.BigEndian.AppendUint16(info, uint16(len(terminal)))
	return append(info, terminal...)
}

// sealStep is what a sealed filing's length is a multiple of, so that it does not tell a
// name from a longer one. Blanks after JSON change nothing.
const sealStep = 1024

// maxSealed bounds what Open reads.
const maxSealed = 64 << 10

func (k RegisterKey) seal(f Filing) ([]byte, error) {
	plain, err := f.encode()
	if err != nil {
		return nil, err
	}
	for len(plain)%sealStep != 0 {
		plain = append(plain, ' ')
	}
	sealed, err := hpke.Seal(k.key, hpke.HKDFSHA256(), hpke.ChaCha20Poly1305(), registerInfo(f.Terminal, f.Record), plain)
	clear(plain)
	if err != nil {
		return nil, fmt.Errorf("seal the identity: %w", err)
	}
	return sealed, nil
}

// Open reads what a terminal sealed. The error is ErrSealed: another key, another
// record or terminal, or changed bytes.
func (k RegisterSecretKey) Open(s Sealed) (Filing, error) {
	if len(s.Bytes) > maxSealed {
		return Filing{}, fmt.Errorf("%w: %d bytes, at most %d", ErrSealed, len(s.Bytes), maxSealed)
	}
	plain, err := hpke.Open(k.key, hpke.HKDFSHA256(), hpke.ChaCha20Poly1305(), registerInfo(s.Terminal, s.Record), s.Bytes)
	if err != nil {
		return Filing{}, fmt.Errorf("%w: record %v of terminal %.64q: %w", ErrSealed, s.Record, s.Terminal, err)
	}
	f, err := parseFiling(plain)
	if err != nil {
		return Filing{}, fmt.Errorf("%w: record %v of terminal %.64q: %w", ErrSealed, s.Record, s.Terminal, err)
	}
	if f.Record != s.Record || f.Terminal != s.Terminal {
		return Filing{}, fmt.Errorf("%w: record %v of terminal %.64q names another inside", ErrSealed, s.Record, s.Terminal)
	}
	return f, nil
}
