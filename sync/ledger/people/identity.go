package people

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"grattoir/validate/money"
	"grattoir/validate/policy"
)

var (
	// ErrIdentity means that an identity lacks what the law asks for, or cannot be.
	ErrIdentity = errors.New("the identity is incomplete")
	// ErrSealed means sealed bytes that do not open.
	ErrSealed = errors.New("the sealed identity does not open")
)

// Kind is a kind of identity document.
type Kind string

// Documents that prove an identity.
const (
	IdentityCard    Kind = "identity-card"
	Passport        Kind = "passport"
	ResidencePermit Kind = "residence-permit"
	DrivingLicence  Kind = "driving-licence"
)

// Identity is a winner as a document shows him: what the arrêté of 9 September 2021
// (ECOT2126851A) has recorded. However it is printed, it shows nothing of itself.
type Identity struct {
	Surname    string `json:"surname"`
	FirstNames string `json:"first_names"`
	Born       string `json:"born"` // 1970-05-12; 1970-05 or 1970 where the document says no more
	BirthPlace string `json:"birth_place"`
	Address    string `json:"address"`
	Document   Kind   `json:"document"`
	Number     string `json:"number"` // the document's
	IssuedBy   string `json:"issued_by"`
	ValidTo    string `json:"valid_to"` // 2031-01-31, "" where the document names no end
}

// Format writes "Identity(hidden)" for every verb.
func (Identity) Format(s fmt.State, _ rune) { _, _ = s.Write([]byte("Identity(hidden)")) }

// maxField bounds each field, in bytes.
const maxField = 200

// Validate tells what is missing, by field and never by content. The error is ErrIdentity.
func (i Identity) Validate() error {
	var bad []string
	for _, f := range []struct {
		name, text string
	}{{"surname", i.Surname}, {"first names", i.FirstNames}, {"birth place", i.BirthPlace}, {"address", i.Address}, {"document number", i.Number}, {"issued by", i.IssuedBy}} {
		if len(f.text) > maxField || !utf8.ValidString(f.text) || bare(f.text) == "" || strings.ContainsFunc(f.text, func(r rune) bool { return unicode.IsControl(r) && r != '\n' }) {
			bad = append(bad, f.name)
		}
	}
	if !bornText(i.Born) {
		bad = append(bad, "date of birth (as 1970-02-03)")
	}
	if kinds := []Kind{IdentityCard, Passport, ResidencePermit, DrivingLicence}; !slices.Contains(kinds, i.Document) {
		bad = append(bad, fmt.Sprintf("kind of document (%s, %s, %s or %s)", kinds[0], kinds[1], kinds[2], kinds[3]))
	}
	if _, err := policy.ParseDate(i.ValidTo); err != nil && i.ValidTo != "" {
		bad = append(bad, "end of validity")
	}
	if len(bad) > 0 {
		return fmt.Errorf("%w: %s", ErrIdentity, strings.Join(bad, ", "))
	}
	return nil
}

// bornText accepts a day, a month or a year: some documents know no more.
func bornText(s string) bool {
	for _, layout := range []string{time.DateOnly, "2006-01", "2006"} {
		if t, err := time.Parse(layout, s); err == nil && t.Year() >= 1850 {
			return true
		}
	}
	return false
}

// bare is a text as it is compared: capitals without accents, and nothing but letters
// and digits. Ligatures are two letters, as documents' machine-readable lines have them.
func bare(text string) string {
	var b strings.Builder
	for _, r := range norm.NFKD.String(text) {
		switch r = unicode.ToUpper(r); {
		case r == 'Œ':
			b.WriteString("OE")
		case r == 'Æ':
			b.WriteString("AE")
		case r == 'ß' || r == 'ẞ':
			b.WriteString("SS")
		case unicode.IsLetter(r) || unicode.IsDigit(r):
			b.WriteRune(r)
		}
	}
	return b.String()
}

// number is a document's number as it is compared. O and I are what clerks type for 0
// and 1: two people taken for one are asked for more, one taken for two for too little.
func number(text string) string { return strings.NewReplacer("O", "0", "I", "1").Replace(bare(text)) }

// firstName is the first of the first names: a clerk may leave the others out.
func firstName(text string) string {
	names := strings.FieldsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || r == ',' })
	for _, n := range names {
		if b := bare(n); b != "" {
			return b
		}
	}
	return ""
}

// Person is an identity made unreadable: hashes under a key that stays on the terminal,
// of the document's number and of names with the date of birth. Either links two payments.
type Person struct {
	document, name [sha256.Size]byte
}

func personOf(key []byte, i Identity) Person {
	sum := func(parts ...string) (h [sha256.Size]byte) {
		m := hmac.New(sha256.New, key)
		m.Write([]byte(strings.Join(parts, "\x00")))
		return [sha256.Size]byte(m.Sum(nil))
	}
	return Person{sum("grattoir document v1", number(i.Number)), sum("grattoir name v1", bare(i.Surname), firstName(i.FirstNames), i.Born)}
}

// Payment is a claim that an identity is recorded for.
type Payment struct {
	Claim    string       `json:"claim"` // the claim's id, 32 hexadecimal digits
	Amount   money.Amount `json:"amount_minor"`
	Stake    money.Amount `json:"stake_minor"` // the ticket's price, 0 when it is not known
	Currency string       `json:"currency"`
}

// RecordID names a record everywhere.
type RecordID [16]byte

func (r RecordID) String() string { return hex.EncodeToString(r[:]) }

// MarshalText writes the id as 32 hexadecimal digits.
func (r RecordID) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads 32 lower-case hexadecimal digits.
func (r *RecordID) UnmarshalText(text []byte) error {
	raw, err := hex.DecodeString(string(text))
	if err != nil || len(raw) != len(r) || hex.EncodeToString(raw) != string(text) {
		return fmt.Errorf("record id %.40q: want 32 lower-case hexadecimal digits", text)
	}
	copy(r[:], raw)
	return nil
}

// Filing is what is sealed: an identity with the payments it was recorded for.
type Filing struct {
	Version  int       `json:"v"`
	Record   RecordID  `json:"record"`
	Terminal string    `json:"terminal"`
	Operator string    `json:"operator"`
	Time     string    `json:"time"`    // device time, a hint
	Trusted  string    `json:"trusted"` // newest trusted time, "" for none
	Identity Identity  `json:"identity"`
	Payments []Payment `json:"payments"`
}

// Format writes the record's id for every verb: the rest is nobody's to print.
func (f Filing) Format(s fmt.State, _ rune) { _, _ = fmt.Fprintf(s, "Filing(%v)", f.Record) }

const filingVersion = 1

func (f Filing) encode() ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(f)
	return b.Bytes(), err
}

func parseFiling(plain []byte) (Filing, error) {
	var f Filing
	dec := json.NewDecoder(bytes.NewReader(plain))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&f); err != nil {
		return Filing{}, errors.New("what is inside is no filing") // the decoder's words would quote it
	}
	if rest := bytes.TrimSpace(plain[dec.InputOffset():]); len(rest) > 0 || f.Version != filingVersion {
		return Filing{}, fmt.Errorf("a filing of version %d with %d bytes after it, this program reads version %d", f.Version, len(rest), filingVersion)
	}
	return f, f.Identity.Validate()
}
