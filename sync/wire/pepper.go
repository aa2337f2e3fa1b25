package wire

import (
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/hpke"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"grattoir/validate"
	"grattoir/validate/manifest"
)

// A block whose printed secrets are short has a pepper, the other half of its tags' key.
// It travels and lies sealed to one terminal's device key: HPKE (RFC 9180) in base mode
// with DHKEM(P-256, HKDF-SHA256), HKDF-SHA256 and ChaCha20-Poly1305, the info naming
// terminal and block. The key is the one that the terminal's certificate is of: central
// has it of every terminal, so a pepper can also be carried on a stick, and a secure
// element that holds one P-256 key serves for signing and for this.

// SealedPepper is a block's pepper that one terminal alone can open.
type SealedPepper struct {
	Terminal string
	Block    validate.BlockID
	Sealed   []byte
}

// PepperAnswer is the answer to a request for the pepper of a block.
type PepperAnswer struct {
	Protocol int    `json:"protocol"`
	Pepper   string `json:"pepper"` // SealedPepper.Text
}

// MaxSealedPepper bounds the text of a sealed pepper in bytes.
const MaxSealedPepper = 1 << 10

const sealedPepperPrefix = "grattoir-sealed-pepper-v1"

// ErrPepper means a sealed pepper that is damaged or of another terminal.
var ErrPepper = errors.New("the sealed pepper cannot be opened here")

// Text is the sealed pepper as one line: prefix, terminal, block id and base64, joined by +.
func (s SealedPepper) Text() string {
	return strings.Join([]string{sealedPepperPrefix, s.Terminal, s.Block.String(), base64.StdEncoding.EncodeToString(s.Sealed)}, "+") + "\n"
}

// ParseSealedPepper reads what Text writes, and nothing else.
func ParseSealedPepper(text string) (s SealedPepper, err error) {
	words := strings.SplitN(strings.TrimSuffix(text, "\n"), "+", 4)
	if len(text) > MaxSealedPepper || len(words) != 4 || words[0] != sealedPepperPrefix {
		return s, fmt.Errorf("%w: want one line that begins with %q", ErrPepper, sealedPepperPrefix)
	}
	s.Terminal = words[1]
	if err := s.Block.UnmarshalText([]byte(words[2])); err != nil {
		return s, fmt.Errorf("%w: %w", ErrPepper, err)
	}
	if s.Sealed, err = base64.StdEncoding.DecodeString(words[3]); err != nil || s.Text() != text {
		return s, fmt.Errorf("%w: it is not in the form that central writes", ErrPepper)
	}
	return s, nil
}

func pepperInfo(terminal string, block validate.BlockID) []byte {
	return append(append([]byte("grattoir sealed pepper v1\x00"), block[:]...), terminal...)
}

// SealPepper seals a block's pepper to a terminal's device key.
func SealPepper(key *ecdsa.PublicKey, terminal string, block validate.BlockID, p manifest.Pepper) (SealedPepper, error) {
	s := SealedPepper{Terminal: terminal, Block: block}
	point, err := key.ECDH()
	if err != nil {
		return s, fmt.Errorf("seal the pepper: %w", err)
	}
	to, err := hpke.NewDHKEMPublicKey(point)
	if err != nil {
		return s, fmt.Errorf("seal the pepper: %w", err)
	}
	s.Sealed, err = hpke.Seal(to, hpke.HKDFSHA256(), hpke.ChaCha20Poly1305(), pepperInfo(terminal, block), p[:])
	return s, err
}

// Open opens a sealed pepper with the terminal's key, which may lie in a secure element.
func (s SealedPepper) Open(key ecdh.KeyExchanger) (p manifest.Pepper, err error) {
	own, err := hpke.NewDHKEMPrivateKey(key)
	if err != nil {
		return p, fmt.Errorf("%w: %w", ErrPepper, err)
	}
	raw, err := hpke.Open(own, hpke.HKDFSHA256(), hpke.ChaCha20Poly1305(), pepperInfo(s.Terminal, s.Block), s.Sealed)
	if err != nil || len(raw) != len(p) {
		return p, fmt.Errorf("block %v: %w: it was sealed to another key, or is damaged", s.Block, ErrPepper)
	}
	return manifest.Pepper(raw), nil
}
