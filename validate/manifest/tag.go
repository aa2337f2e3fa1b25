package manifest

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"strings"

	"grattoir/validate"
)

// Pepper is the part of a tag's key that is delivered apart from the manifest. It is
// all zero for layouts whose secret has 60 bits or more.
type Pepper [32]byte

const pepperPrefix = "PRIVATE+GRATTOIR+PEPPER+V1+"

// NewPepper makes a random pepper.
func NewPepper() (p Pepper) {
	_, _ = rand.Read(p[:]) // never fails: without randomness the program ends
	return p
}

// ParsePepper reads the one line that Text gives. Its errors show nothing of the pepper.
func ParsePepper(text string) (Pepper, error) {
	digits, ok := strings.CutPrefix(strings.TrimSpace(text), pepperPrefix)
	raw, err := hex.DecodeString(digits)
	if !ok || err != nil || len(raw) != len(Pepper{}) || Pepper(raw) == (Pepper{}) {
		return Pepper{}, fmt.Errorf("no pepper: want one line of %q and 64 hexadecimal digits", pepperPrefix)
	}
	return Pepper(raw), nil
}

// Text is the pepper as its file holds it: a secret.
func (p Pepper) Text() string { return pepperPrefix + hex.EncodeToString(p[:]) + "\n" }

// String keeps the pepper out of logs.
func (p Pepper) String() string { return "pepper" }

// Format makes every verb print what String gives.
func (p Pepper) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(p.String())) }

// Commitment is what a header says of its pepper, so that a wrong one is noticed and does
// not make every ticket of the block a forgery: SHA-256("grattoir pepper v1" || block || pepper).
func (p Pepper) Commitment(block validate.BlockID) Hash {
	text := append([]byte("grattoir pepper v1"), block[:]...)
	return sha256.Sum256(append(text, p[:]...))
}

// Tagger computes the tags of one ticket. It is not for concurrent use.
type Tagger struct {
	mac hash.Hash
	msg [len(tagContext) + 16 + 4 + 1]byte
	sum [sha256.Size]byte
}

const tagContext = "grattoir seal v1"

// NewTagger prepares the tags of ticket index i of a block, keyed by its secret:
// HMAC-SHA-256(pepper || secret, context || block || uint32 i || uint8 tier)[:8], big-endian.
func NewTagger(p Pepper, secret string, block validate.BlockID, i int64) *Tagger {
	t := &Tagger{mac: hmac.New(sha256.New, append(p[:], secret...))}
	n := copy(t.msg[:], tagContext)
	n += copy(t.msg[n:], block[:])
	binary.BigEndian.PutUint32(t.msg[n:], uint32(i))
	return t
}

// Tag is the tag of a tier. The result is overwritten by the next call.
func (t *Tagger) Tag(tier uint8) []byte {
	t.msg[len(t.msg)-1] = tier
	t.mac.Reset()
	t.mac.Write(t.msg[:])
	return t.mac.Sum(t.sum[:0])[:TagBytes]
}

// open tries every tier, always all of them, and compares in constant time, so that
// how long it takes tells nothing about the answer.
func (t *Tagger) open(tag []byte, tiers int) (tier int, ok bool) {
	found, hits := 0, 0
	for n := range tiers + 1 {
		same := subtle.ConstantTimeCompare(t.Tag(uint8(n)), tag)
		found = subtle.ConstantTimeSelect(same, n, found)
		hits += same
	}
	return found, hits == 1
}
