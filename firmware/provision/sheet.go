// Package provision makes a flashed card into one shop's terminal. A Sheet is the signed
// file that says all of it; Slot is where it lies on a card, outside every file system;
// Apply puts it into force at the first start, once; System reads back what holds.
//
// It never reaches for a network, and it prints no secret. It does not know terminald's
// configuration or central's enrolment file: both are texts here, which the command that
// calls it reads and writes in their own packages.
package provision

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"

	"grattoir/validate/manifest"
)

// MaxNote bounds a signed sheet, in bytes: with its head it fits the slot.
const MaxNote = slotSize - slotHead

// heading begins every sheet, so that a signature under it is good for nothing else.
const heading = "grattoir provisioning v1\n"

// ErrSheet means a text that is no sheet of this format, or one that nobody who may
// provision has signed.
var ErrSheet = errors.New("not a provisioning file")

// Sheet is what one card is to become.
type Sheet struct {
	Terminal string    `json:"terminal"` // its name, at central and in every ledger entry
	Serial   int64     `json:"serial"`   // of the sheets for this terminal: a later one is higher
	Issued   time.Time `json:"issued"`   // a hint for people
	Shop     Shop      `json:"shop"`
	Network  Network   `json:"network"`
	Central  *Central  `json:"central,omitempty"` // nil for a terminal that stands alone
	// Config is terminald's configuration, whole, as its package writes it.
	Config string `json:"config"`
	// Keys are public keys that sign blocks, of a terminal that stands alone.
	Keys []string `json:"keys,omitempty"`
	// Enrolment is the file that central signed for this terminal, "" in a later sheet for
	// one that is enrolled. A code in it works once: it is a secret, and wiped when it was used.
	Enrolment string `json:"enrolment,omitempty"`
}

// Shop is the point of sale.
type Shop struct {
	ID      string   `json:"id"` // as central groups terminals by it, "" for a shop of its own
	Name    string   `json:"name"`
	Address []string `json:"address"`
}

// Central is whom the terminal belongs to, as the enrolment file says it too.
type Central struct {
	URL string `json:"url"`
	Pin string `json:"pin"` // of its CA, as enrolment codes have it, in hexadecimal
}

var (
	terminalForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)
	pinForm      = regexp.MustCompile(`^[0-9a-f]{20,64}$`)
)

// check is nil for a sheet that can be applied.
func (s Sheet) check() error {
	switch {
	case !terminalForm.MatchString(s.Terminal):
		return fmt.Errorf("terminal %.64q: a name has 1 to 63 of letters, digits, . _ and -, and begins with a letter or digit", s.Terminal)
	case s.Serial < 1:
		return fmt.Errorf("serial %d: want 1 or more", s.Serial)
	case s.Issued.IsZero() || s.Issued.Nanosecond() != 0 || s.Issued.Location() != time.UTC:
		return fmt.Errorf("issued %v: want whole seconds in UTC", s.Issued)
	case s.Shop.Name == "" || len(s.Shop.ID) > 64:
		return fmt.Errorf("shop: want a name, and an id of at most 64 bytes")
	case s.Config == "":
		return errors.New("no configuration of terminald is in it")
	case s.Central == nil && s.Enrolment != "":
		return errors.New("an enrolment without the central that it is for")
	case s.Central == nil && len(s.Keys) == 0:
		return errors.New("a terminal that stands alone needs a key that signs blocks")
	case s.Central != nil && (!strings.HasPrefix(s.Central.URL, "https://") || !pinForm.MatchString(s.Central.Pin)):
		return errors.New("central: want https://HOST:PORT and the pin of its CA")
	}
	if err := printable(s.Shop); err != nil {
		return err
	}
	return s.Network.check()
}

// printable refuses what would break a line of a report.
func printable(s Shop) error {
	for _, text := range append([]string{s.ID, s.Name}, s.Address...) {
		if len(text) > 200 || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return fmt.Errorf("shop %.40q: want at most 200 printable bytes", text)
		}
	}
	return nil
}

// Text is the canonical text that is signed.
func (s Sheet) Text() (string, error) {
	if err := s.check(); err != nil {
		return "", fmt.Errorf("%w: %w", ErrSheet, err)
	}
	var b strings.Builder
	b.WriteString(heading)
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	if err := e.Encode(s); err != nil {
		return "", err
	}
	return b.String(), nil
}

// Parse reads what Text writes, and nothing else. Its errors repeat no value of a secret.
func Parse(text string) (Sheet, error) {
	var s Sheet
	body, ok := strings.CutPrefix(text, heading)
	if !ok || len(text) > MaxNote {
		return s, fmt.Errorf("%w: it does not begin with %q, or is too long", ErrSheet, strings.TrimSpace(heading))
	}
	d := json.NewDecoder(strings.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&s); err != nil {
		return Sheet{}, fmt.Errorf("%w: %w", ErrSheet, withoutValue(err))
	}
	again, err := s.Text()
	if err != nil {
		return Sheet{}, err
	}
	if again != text {
		return Sheet{}, fmt.Errorf("%w: it is not written as this program writes it", ErrSheet)
	}
	return s, nil
}

// withoutValue keeps what an error of the decoder says of the place and not of the content.
func withoutValue(err error) error {
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &kind):
		return fmt.Errorf("%s has the wrong kind", kind.Field)
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return errors.New("it ends too soon")
	case strings.Contains(err.Error(), "unknown field"):
		return errors.New("it names a setting that this program does not know: a newer program made it")
	}
	return errors.New("it is no JSON of a sheet")
}

// Sign makes the file of a sheet.
func Sign(s Sheet, by ...note.Signer) ([]byte, error) {
	text, err := s.Text()
	if err != nil {
		return nil, err
	}
	signed, err := note.Sign(&note.Note{Text: text}, by...)
	if err == nil && len(signed) > MaxNote {
		err = fmt.Errorf("%w: %d bytes, a card has room for %d", ErrSheet, len(signed), MaxNote)
	}
	return signed, err
}

// Open verifies a file under the ring of those who may provision, and tells who signed.
func Open(signed []byte, ring manifest.Keys) (Sheet, []string, error) {
	if len(signed) > MaxNote {
		return Sheet{}, nil, fmt.Errorf("%w: more than %d bytes", ErrSheet, MaxNote)
	}
	text, by, err := ring.Open(signed)
	if err != nil {
		return Sheet{}, nil, fmt.Errorf("%w: %w", ErrSheet, err)
	}
	s, err := Parse(text)
	return s, by, err
}

// Mark names a sheet by its text, signatures left out.
func (s Sheet) Mark() string {
	text, err := s.Text()
	if err != nil {
		return ""
	}
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// Public is the sheet without what works for whoever has it: the key of the Wi-Fi and the
// code of the enrolment. It is what may lie on the terminal afterwards and be shown.
func (s Sheet) Public() Sheet {
	if s.Network.WiFi != nil {
		wifi := *s.Network.WiFi
		wifi.Key = ""
		s.Network.WiFi = &wifi
	}
	s.Enrolment = ""
	return s
}
