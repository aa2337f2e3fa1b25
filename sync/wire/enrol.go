package wire

import (
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"strings"
)

// EnrolSecret is the random half of an enrolment code. Central keeps only its hash.
type EnrolSecret [EnrolCodeBytes / 2]byte

// CAPin is the other half: it names central's CA, so that a terminal knows whom it
// enrols with before it trusts anything.
type CAPin [EnrolCodeBytes / 2]byte

// ErrEnrolCode means text that is no enrolment code: a character was lost or mistaken.
var ErrEnrolCode = errors.New("not an enrolment code")

var enrolAlphabet = base32.StdEncoding.WithPadding(base32.NoPadding)

// PinOf gives the pin of a CA: the first 10 bytes of the SHA-256 of its certificate's
// SubjectPublicKeyInfo (x509.Certificate.RawSubjectPublicKeyInfo).
func PinOf(subjectPublicKeyInfo []byte) CAPin {
	sum := sha256.Sum256(subjectPublicKeyInfo)
	return CAPin(sum[:len(CAPin{})])
}

// EncodeEnrolCode writes a code as people type it: base32 in eight groups of four, as in
// ABCD-EFGH-IJKL-MNOP-QRST-UVWX-YZ23-4567.
func EncodeEnrolCode(secret EnrolSecret, pin CAPin) string {
	text := enrolAlphabet.EncodeToString(append(secret[:], pin[:]...))
	groups := make([]string, 0, len(text)/4)
	for at := 0; at < len(text); at += 4 {
		groups = append(groups, text[at:at+4])
	}
	return strings.Join(groups, "-")
}

// ParseEnrolCode reads a code as it was typed: capitals or not, dashes and blanks
// anywhere. Its errors never repeat the code.
func ParseEnrolCode(text string) (EnrolSecret, CAPin, error) {
	if len(text) > 4*EnrolCodeBytes {
		return EnrolSecret{}, CAPin{}, fmt.Errorf("%w: %d characters", ErrEnrolCode, len(text))
	}
	bare := strings.ToUpper(strings.NewReplacer("-", "", " ", "").Replace(strings.TrimSpace(text)))
	if want := enrolAlphabet.EncodedLen(EnrolCodeBytes); len(bare) != want {
		return EnrolSecret{}, CAPin{}, fmt.Errorf("%w: %d letters and digits without the dashes, want %d", ErrEnrolCode, len(bare), want)
	}
	for i := range len(bare) {
		if c := bare[i]; (c < 'A' || c > 'Z') && (c < '2' || c > '7') {
			return EnrolSecret{}, CAPin{}, fmt.Errorf("%w: character %d is none of A to Z and 2 to 7", ErrEnrolCode, i+1)
		}
	}
	raw, err := enrolAlphabet.DecodeString(bare)
	if err != nil {
		return EnrolSecret{}, CAPin{}, fmt.Errorf("%w: %w", ErrEnrolCode, err)
	}
	half := len(EnrolSecret{})
	return EnrolSecret(raw[:half]), CAPin(raw[half:]), nil
}
