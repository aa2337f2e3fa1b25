package proof

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
)

// Key is a terminal's published key. It belongs to its terminal's name: without the name a
// key would prove slips that its owner made in another terminal's name.
type Key struct {
	Terminal string
	Public   *ecdsa.PublicKey // P-256
}

// MaxKeyFile bounds the file of a key, in bytes.
const MaxKeyFile = 1 << 10

// ErrKey means a text that is no published key.
var ErrKey = errors.New("not a terminal's published key")

const keyTitle = "grattoir terminal "

// Text is the key as it is published: a line with the terminal's name, then PEM (PKIX).
// Other tools, openssl among them, step over the line. The error is ErrKey.
func (k Key) Text() (string, error) {
	der, err := k.der()
	if err != nil {
		return "", err
	}
	return keyTitle + k.Terminal + "\n" + string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})), nil
}

func (k Key) der() ([]byte, error) {
	if !nameForm.MatchString(k.Terminal) {
		return nil, fmt.Errorf("%w: terminal %.64q: want 1 to 63 of A-Z, a-z, 0-9, '.', '_' and '-', not beginning with a sign", ErrKey, k.Terminal)
	}
	if k.Public == nil || k.Public.Curve != elliptic.P256() {
		return nil, fmt.Errorf("%w: terminal %s has no P-256 key", ErrKey, k.Terminal)
	}
	der, err := x509.MarshalPKIXPublicKey(k.Public)
	if err != nil {
		return nil, fmt.Errorf("%w: terminal %s: %w", ErrKey, k.Terminal, err)
	}
	return der, nil
}

// Fingerprint is the beginning of the key's SHA-256 (over its PKIX form), 16 hexadecimal
// digits, to be compared over the telephone; "" for no key.
func (k Key) Fingerprint() string {
	der, err := k.der()
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(der)
	return hex.EncodeToString(sum[:8])
}

// ParseKey reads what Text writes. Line ends of other systems and blank lines around it are
// forgiven, as a file gets them on its way. The error is ErrKey and shows nothing of the text.
func ParseKey(text string) (Key, error) {
	if len(text) > MaxKeyFile {
		return Key{}, fmt.Errorf("%w: %d bytes, at most %d", ErrKey, len(text), MaxKeyFile)
	}
	text = strings.TrimSpace(strings.ReplaceAll(text, "\r\n", "\n")) + "\n"
	if strings.Contains(text, "PRIVATE KEY") {
		return Key{}, fmt.Errorf("%w: it is a SECRET key: take it off this machine", ErrKey)
	}
	first, rest, _ := strings.Cut(text, "\n")
	name, titled := strings.CutPrefix(first, keyTitle)
	block, _ := pem.Decode([]byte(rest))
	if !titled || block == nil || block.Type != "PUBLIC KEY" {
		return Key{}, fmt.Errorf("%w: want the line %q and a PEM block \"PUBLIC KEY\", as terminalctl slip key and central terminal key write them", ErrKey, keyTitle+"NAME")
	}
	k := Key{Terminal: name}
	public, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return Key{}, fmt.Errorf("%w: its PEM block is damaged", ErrKey)
	}
	k.Public, _ = public.(*ecdsa.PublicKey) // another kind is none
	if again, err := k.Text(); err != nil {
		return Key{}, err
	} else if again != text {
		return Key{}, fmt.Errorf("%w: something was added or changed", ErrKey)
	}
	return k, nil
}
