package wire

import (
	"encoding/hex"
	"errors"
	"fmt"
)

// Limits of an upload of identities.
const (
	MaxIdentities     = 16       // records in one upload
	MaxIdentity       = 32 << 10 // bytes of one sealed record
	MaxIdentityUpload = 1 << 20  // bytes of an upload's body
	MaxIdentityClaims = 100      // payments that one record is for
	identityStep      = 1024     // what the plain text's length is a multiple of
	identityOverhead  = 32 + 16  // HPKE: the encapsulated X25519 key, and the tag
	hexID             = 32       // digits of the id of a record or a claim
	smallestIdentity  = identityStep + identityOverhead
)

// PathIdentities takes sealed identities: POST IdentityUpload -> IdentityAnswer.
const PathIdentities = "/v1/identities"

// IdentityUpload sends sealed records of the terminal's register. They are in no order,
// and may be sent again at any time.
type IdentityUpload struct {
	Protocol int              `json:"protocol"`
	Records  []SealedIdentity `json:"records"` // 1 to MaxIdentities
}

// SealedIdentity is a record as the terminal sealed it to central's register key. Nobody
// on the way, and nothing at central but that key's holders, can read it.
type SealedIdentity struct {
	Record string   `json:"record"` // its id, 32 hexadecimal digits
	Claims []string `json:"claims"` // ids of the payments that it is for, 1 to MaxIdentityClaims
	Sealed []byte   `json:"sealed"` // base64; 48 bytes more than a multiple of 1024, at most MaxIdentity
}

// IdentityAnswer names the records that central holds now, on disk.
type IdentityAnswer struct {
	Protocol int      `json:"protocol"`
	Stored   []string `json:"stored"` // all those of the upload
}

// ErrIdentity means a record that no terminal sends.
var ErrIdentity = errors.New("not a sealed identity")

// Check holds a record against its limits. The errors, ErrIdentity, show nothing of what is sealed.
func (s SealedIdentity) Check() error {
	if !isID(s.Record) {
		return fmt.Errorf("%w: its id is not 32 hexadecimal digits", ErrIdentity)
	}
	if n := len(s.Sealed); n < smallestIdentity || n > MaxIdentity || (n-identityOverhead)%identityStep != 0 {
		return fmt.Errorf("%w: record %s has %d bytes: want %d more than a multiple of %d, at most %d", ErrIdentity, s.Record, n, identityOverhead, identityStep, MaxIdentity)
	}
	if n := len(s.Claims); n < 1 || n > MaxIdentityClaims {
		return fmt.Errorf("%w: record %s is for %d payments, want 1 to %d", ErrIdentity, s.Record, n, MaxIdentityClaims)
	}
	seen := map[string]bool{}
	for _, c := range s.Claims {
		if !isID(c) || seen[c] {
			return fmt.Errorf("%w: record %s names the payment %.40q: want 32 hexadecimal digits, once", ErrIdentity, s.Record, c)
		}
		seen[c] = true
	}
	return nil
}

func isID(text string) bool {
	raw, err := hex.DecodeString(text)
	return err == nil && len(text) == hexID && hex.EncodeToString(raw) == text
}
