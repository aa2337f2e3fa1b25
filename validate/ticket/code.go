package ticket

import (
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
)

// The ways in which a scan is no code. All of them mean: scan again, nothing is known.
var (
	// ErrEmpty means that the scanner sent a record with nothing in it.
	ErrEmpty = errors.New("empty scan")
	// ErrNotDigits means a byte that no printed code holds.
	ErrNotDigits = errors.New("not a digit")
	// ErrLength means that no layout has this many digits or begins like this.
	ErrLength = errors.New("no ticket layout has this shape")
	// ErrSymbology means the right digits in a kind of barcode that tickets never use.
	ErrSymbology = errors.New("wrong kind of barcode")
	// ErrCheckDigit means the code was misread or damaged. Scanning again often
	// helps; typing the number never does, because the digits themselves disagree.
	ErrCheckDigit = errors.New("check digits do not match")
)

// Code is a printed code that was read whole and whose check digits agree.
// Formatting it in any way shows the public part and at most the last two digits of the secret.
type Code struct {
	Layout Layout
	Game   string // as printed, padded to the field's width
	Pack   uint32
	Number uint16 // the ticket's number in its pack
	secret string
}

// Parse reads the text of a scan. The AIM symbology letter is what the scanner
// reported, 0 where it reports none. Layouts are tried by length and fixed digits;
// the errors name the place of the fault and never repeat the scanned digits. A code
// whose secret is typed comes back Partial. Where several layouts fit, the first counts.
func Parse(scan string, aim byte, layouts []Layout) (Code, error) {
	codes, err := Readings(scan, aim, layouts)
	if err != nil {
		return Code{}, err
	}
	return codes[0], nil
}

// Readings are the codes that a scan can be, one for each layout that fits, in the order
// of the layouts. There is at least one, or an error.
func Readings(scan string, aim byte, layouts []Layout) ([]Code, error) {
	if err := digitsOnly(scan); err != nil {
		return nil, err
	}
	var fault error
	var codes []Code
	for _, l := range layouts {
		if l.ScanLength() != len(scan) || !l.fixedMatch(scan) {
			continue
		}
		if aim != 0 && l.Symbologies != "" && strings.IndexByte(l.Symbologies, aim) < 0 {
			fault = fmt.Errorf("layout %s, AIM letter %q: %w", l.Name, aim, ErrSymbology)
			continue
		}
		if l.Check == CheckMod9710 && !mod9710OK(scan) {
			fault = fmt.Errorf("layout %s: %w", l.Name, ErrCheckDigit)
			continue
		}
		codes = append(codes, l.cut(scan))
	}
	switch {
	case len(codes) > 0:
		return codes, nil
	case fault == nil:
		fault = fmt.Errorf("%d digits: %w", len(scan), ErrLength)
	}
	return nil, fault
}

// ParseWhole reads a code of one layout with its secret, typed or not, as tickets.csv has it.
func ParseWhole(text string, l Layout) (Code, error) {
	if !l.Typed || len(text) <= l.ScanLength() {
		c, err := Parse(text, 0, []Layout{l})
		if err == nil && c.Partial() {
			err = fmt.Errorf("%d digits, layout %s has %d with the typed ones: %w", len(text), l.Name, l.Length(), ErrLength)
		}
		return c, err
	}
	c, err := Parse(text[:l.ScanLength()], 0, []Layout{l})
	if err != nil {
		return Code{}, err
	}
	return c.Complete(text[l.ScanLength():])
}

func digitsOnly(text string) error {
	if text == "" {
		return ErrEmpty
	}
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return fmt.Errorf("byte %d of %d (0x%02x): %w", i+1, len(text), text[i], ErrNotDigits)
		}
	}
	return nil
}

// Partial tells whether the secret has still to be typed.
func (c Code) Partial() bool { return c.Layout.Typed && c.secret == "" }

// TypedDigits is how many digits have still to be typed, 0 for a whole code.
func (c Code) TypedDigits() int {
	if !c.Partial() {
		return 0
	}
	return c.Layout.Width(Secret)
}

// Complete adds the typed secret to a partial code. The errors are those of a scan, and
// mean: nothing is known, type again.
func (c Code) Complete(typed string) (Code, error) {
	if err := digitsOnly(typed); err != nil {
		return Code{}, err
	}
	if want := c.TypedDigits(); len(typed) != want || want == 0 {
		return Code{}, fmt.Errorf("%d hidden digits typed, layout %s wants %d: %w", len(typed), c.Layout.Name, want, ErrLength)
	}
	c.secret = typed
	return c, nil
}

func (l Layout) fixedMatch(scan string) bool {
	at := 0
	for _, f := range l.Fields {
		if f.Kind == Fixed && scan[at:at+f.Width] != f.Digits {
			return false
		}
		at += f.Width
	}
	return true
}

// cut splits the digits of a barcode that are known to fit the layout.
func (l Layout) cut(scan string) Code {
	c := Code{Layout: l}
	at := 0
	for _, f := range l.Fields {
		if at == len(scan) {
			break // what is left is typed
		}
		part := scan[at : at+f.Width]
		at += f.Width
		switch f.Kind {
		case Game:
			c.Game = part
		case Pack:
			n, _ := strconv.ParseUint(part, 10, 32) // at most 9 digits, see validate
			c.Pack = uint32(n)
		case Number:
			n, _ := strconv.ParseUint(part, 10, 16) // at most 4 digits
			c.Number = uint16(n)
		case Secret:
			c.secret = part
		}
	}
	return c
}

// Make builds the code of a ticket. The game code is padded; one that does not fit
// its field, a number too large and a secret of another width are refused.
func Make(l Layout, game string, pack uint32, number uint16, secret string) (Code, error) {
	padded, err := PadGame(l, game)
	if err != nil {
		return Code{}, err
	}
	c := Code{Layout: l, Game: padded, Pack: pack, Number: number, secret: secret}
	if w := l.Width(Pack); len(strconv.FormatUint(uint64(pack), 10)) > w {
		return Code{}, fmt.Errorf("pack %d does not fit the %d digits of layout %s", pack, w, l.Name)
	}
	if w := l.Width(Number); len(strconv.Itoa(int(number))) > w {
		return Code{}, fmt.Errorf("ticket %d does not fit the %d digits of layout %s", number, w, l.Name)
	}
	if w := l.Width(Secret); len(secret) != w || (w > 0 && !isDigits(secret)) {
		return Code{}, fmt.Errorf("layout %s wants a secret of %d digits", l.Name, w)
	}
	return c, nil
}

// PadGame gives the game code as layout l prints it.
func PadGame(l Layout, game string) (string, error) {
	w := l.Width(Game)
	if !isDigits(game) || len(game) > w {
		return "", fmt.Errorf("game code %.12q: layout %s takes 1 to %d digits", game, l.Name, w)
	}
	return strings.Repeat("0", w-len(game)) + game, nil
}

// Digits is the whole printed code. It is for barcodes and tickets.csv, never for
// a log, an error or a slip.
func (c Code) Digits() string { return string(c.AppendDigits(nil)) }

// AppendDigits appends the whole printed code to b.
func (c Code) AppendDigits(b []byte) []byte {
	start := len(b)
	for _, f := range c.Layout.Fields {
		switch f.Kind {
		case Fixed:
			b = append(b, f.Digits...)
		case Game:
			b = append(b, c.Game...)
		case Pack:
			b = appendPadded(b, uint64(c.Pack), f.Width)
		case Number:
			b = appendPadded(b, uint64(c.Number), f.Width)
		case Secret:
			b = append(b, c.secret...)
		case Check:
			b = append(b, "00"...)
			mod9710Set(b[start:])
		}
	}
	return b
}

func appendPadded(b []byte, n uint64, width int) []byte {
	for range width {
		b = append(b, '0')
	}
	for i := len(b) - 1; n > 0; i-- {
		b[i] = byte('0' + n%10)
		n /= 10
	}
	return b
}

// Secret is the hidden part, the key that opens this ticket's tag.
func (c Code) Secret() string { return c.secret }

// PackText is the pack number as printed, with its leading zeros.
func (c Code) PackText() string {
	return string(appendPadded(nil, uint64(c.Pack), c.Layout.Width(Pack)))
}

// NumberText is the ticket number as printed, with its leading zeros.
func (c Code) NumberText() string {
	return string(appendPadded(nil, uint64(c.Number), c.Layout.Width(Number)))
}

// SecretTail is the part of the secret that may be shown: its last two digits,
// and nothing of a secret under 8 digits, where two would be too much of it.
func (c Code) SecretTail() string {
	if len(c.secret) < 8 {
		return ""
	}
	return c.secret[len(c.secret)-2:]
}

// String shows what may be shown of a code: game-pack-ticket/..tail.
func (c Code) String() string {
	if c.Game == "" {
		return "no code"
	}
	s := c.Game + "-" + c.PackText() + "-" + c.NumberText()
	if t := c.SecretTail(); t != "" {
		s += "/.." + t
	}
	return s
}

// Format makes every verb print what String gives, so that %#v and %+v leak nothing.
func (c Code) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(c.String())) }

// LogValue keeps the secret out of structured logs.
func (c Code) LogValue() slog.Value { return slog.StringValue(c.String()) }

// MarshalText keeps the secret out of JSON.
func (c Code) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// mod9710 is the remainder of the digits by 97, the whole read as one number.
func mod9710(digits []byte) int {
	r := 0
	for _, d := range digits {
		r = (r*10 + int(d-'0')) % 97
	}
	return r
}

// mod9710Set writes the two check digits at the end of b so that the number is 1 modulo 97
// (ISO/IEC 7064). They run from 02 to 98.
func mod9710Set(b []byte) {
	n := len(b)
	b[n-2], b[n-1] = '0', '0'
	c := 98 - mod9710(b)
	b[n-2], b[n-1] = byte('0'+c/10), byte('0'+c%10)
}

// mod9710OK accepts only the check digits that mod9710Set writes: 00, 01 and 99
// are congruent to others and were never printed.
func mod9710OK(scan string) bool {
	var buf [MaxLength]byte
	b := append(buf[:0], scan...)
	mod9710Set(b)
	return string(b) == scan
}
