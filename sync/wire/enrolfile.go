package wire

import (
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"strings"
	"time"
)

// Limits of an enrolment file.
const (
	MaxEnrolFile    = 64 << 10            // bytes, with its signature
	MaxEnrolSealers = 32                  // seal keys in it
	MaxEnrolLife    = 90 * 24 * time.Hour // from its making to its end
)

// EnrolFile lets a device that has no network become a named terminal. It lies on the
// card, signed by central's note key. It says whom the device is to believe, and has a
// code that central takes once, for a key that the device makes: no private key is in it,
// no certificate, and nothing of another terminal. Whoever steals the card before the
// device has spoken with central can enrol in its place, once; central then refuses the
// device, which tells its operators. Afterwards the file is worth nothing.
type EnrolFile struct {
	Terminal   string
	Central    string // URL, https
	Issued     time.Time
	Expires    time.Time // of the code
	Code       string    // as EncodeEnrolCode writes it
	CA         *x509.Certificate
	CentralKey string   // public note key; it signs the file
	ClaimKey   string   // public claim key
	SealKeys   []string // public note keys, maybe with their last day
}

// Text is the canonical text that central signs.
func (f EnrolFile) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "grattoir enrolment v1\nterminal %s\ncentral %s\nissued %s\nexpires %s\ncode %s\nca %s\ncentral-key %s\nclaim-key %s\nseal-keys %d\n",
		f.Terminal, f.Central, FormatTime(f.Issued), FormatTime(f.Expires), f.Code, base64.StdEncoding.EncodeToString(f.CA.Raw), f.CentralKey, f.ClaimKey, len(f.SealKeys))
	for _, k := range f.SealKeys {
		fmt.Fprintf(&b, "seal-key %s\n", k)
	}
	return b.String()
}

// ParseEnrolFile reads what Text writes, and nothing else. Its errors never repeat the code.
func ParseEnrolFile(text string) (EnrolFile, error) {
	var f EnrolFile
	lines := strings.Split(text, "\n")
	names := []string{"grattoir enrolment", "terminal", "central", "issued", "expires", "code", "ca", "central-key", "claim-key", "seal-keys"}
	if len(text) > MaxEnrolFile || len(lines) < len(names)+1 || len(lines) > len(names)+1+MaxEnrolSealers {
		return f, fmt.Errorf("enrolment file: %w: %d lines", ErrText, len(lines))
	}
	fields := map[string]string{}
	for i, name := range names {
		value, ok := strings.CutPrefix(lines[i], name+" ")
		if !ok {
			return f, fmt.Errorf("enrolment file: %w: line %d is no %s", ErrText, i+1, name)
		}
		fields[name] = value
	}
	f.Terminal, f.Central, f.Code, f.CentralKey, f.ClaimKey = fields["terminal"], fields["central"], fields["code"], fields["central-key"], fields["claim-key"]
	for _, line := range lines[len(names) : len(lines)-1] {
		key, ok := strings.CutPrefix(line, "seal-key ")
		if !ok {
			return f, fmt.Errorf("enrolment file: %w: a line is no seal-key", ErrText)
		}
		f.SealKeys = append(f.SealKeys, key)
	}
	var err error
	if f.Issued, err = ParseTime(fields["issued"]); err != nil {
		return f, fmt.Errorf("enrolment file: %w: issued: %w", ErrText, err)
	}
	if f.Expires, err = ParseTime(fields["expires"]); err != nil {
		return f, fmt.Errorf("enrolment file: %w: expires: %w", ErrText, err)
	}
	der, err := base64.StdEncoding.DecodeString(fields["ca"])
	if err != nil {
		return f, fmt.Errorf("enrolment file: %w: ca: %w", ErrText, err)
	}
	if f.CA, err = x509.ParseCertificate(der); err != nil {
		return f, fmt.Errorf("enrolment file: %w: ca: %w", ErrText, err)
	}
	_, pin, err := ParseEnrolCode(f.Code)
	if err != nil {
		return f, fmt.Errorf("enrolment file: %w", err)
	}
	if pin != PinOf(f.CA.RawSubjectPublicKeyInfo) || f.Text() != text {
		return f, fmt.Errorf("enrolment file: %w", ErrText)
	}
	return f, nil
}
