// Package ticket knows how the codes printed on tickets are laid out: which
// digits are the game, the pack, the ticket and the secret, and which digits
// check the rest. A layout is data, so a new one needs no new program.
// It never says what a ticket wins. Start at Parse.
package ticket

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Kind names what a field of a printed code holds.
type Kind string

const (
	Fixed  Kind = "fixed"  // constant digits that tell layouts of one length apart
	Game   Kind = "game"   // the emission's game code, left-padded with 0
	Pack   Kind = "pack"   // the pack's number within the game code
	Number Kind = "ticket" // the ticket's number within the pack
	Secret Kind = "secret" // digits hidden until the ticket is scratched
	Check  Kind = "check"  // check digits over the whole code
)

// Field is a run of digits in a printed code.
type Field struct {
	Kind   Kind
	Width  int    // digits, 1 to 32
	Digits string // the constant digits of a Fixed field, empty otherwise
}

// Layout describes one kind of printed code. It travels whole in the signed header
// of a manifest, as the text that String gives and ParseLayout reads.
type Layout struct {
	Name        string
	Fields      []Field
	Check       string // CheckNone or CheckMod9710, over the printed digits
	Symbologies string // AIM symbology letters the code may be printed in, "" for any
	// Typed tells that the secret stands in no barcode: it is uncovered by scratching and
	// typed after the scan. It is then the last field, after the check digits.
	Typed bool
}

const (
	CheckNone    = "none"
	CheckMod9710 = "mod97-10" // ISO/IEC 7064, MOD 97-10, two digits
)

// G40 is the hidden code of our own tickets and G18 the public code on their back,
// which serves pack acts and inventory and never a prize.
func G40() Layout {
	return mustLayout("g40 fixed=1 game:5 pack:7 ticket:3 secret:22 check:2 check=mod97-10 aim=dQ")
}

// G18 is the public code on the back of our own tickets.
func G18() Layout {
	return mustLayout("g18 fixed=2 game:5 pack:7 ticket:3 check:2 check=mod97-10 aim=ICd")
}

// TX24 is a one-piece code of the kind that several lotteries print: a short secret in
// the barcode, no check digits, so only a barcode of fixed length and kind tells a misread.
func TX24() Layout {
	return mustLayout("tx24 game:4 pack:7 ticket:3 secret:10 check=none aim=I")
}

// MI18 is a two-part code: 13 digits in the barcode, and a secret of 5 that is typed.
func MI18() Layout {
	return mustLayout("mi18 game:4 pack:6 ticket:3 secret:5 check=none aim=CI entry=typed")
}

// Shipped are the layouts that a block can be sealed in by name. Only those of our own
// tickets are read without a manifest that names them (Known).
func Shipped() []Layout { return []Layout{G40(), G18(), TX24(), MI18()} }

// Known are the layouts every terminal reads without a manifest: their fixed digits and
// check digits tell them from any other code. A layout without check digits is read only
// where a block of it lies.
func Known() []Layout { return []Layout{G40(), G18()} }

// mustLayout is for the layouts written in this file, which a test parses.
func mustLayout(text string) Layout {
	l, err := ParseLayout(text)
	if err != nil {
		panic("ticket: shipped layout: " + err.Error())
	}
	return l
}

// Length is the number of digits of a printed code.
func (l Layout) Length() int {
	n := 0
	for _, f := range l.Fields {
		n += f.Width
	}
	return n
}

// ScanLength is the number of digits in the barcode: all but a typed secret.
func (l Layout) ScanLength() int {
	if l.Typed {
		return l.Length() - l.Width(Secret)
	}
	return l.Length()
}

// Width is the width of the field of kind k, 0 where the layout has none.
func (l Layout) Width(k Kind) int {
	for _, f := range l.Fields {
		if f.Kind == k {
			return f.Width
		}
	}
	return 0
}

// SecretBits is the size of the secret in whole bits: floor(digits x log2 10).
func (l Layout) SecretBits() int {
	return l.Width(Secret) * 3321928 / 1000000
}

// Pays tells whether a code of this layout can prove a prize: it has a secret.
func (l Layout) Pays() bool { return l.Width(Secret) > 0 }

// String gives the canonical text of the layout.
func (l Layout) String() string {
	var b strings.Builder
	b.WriteString(l.Name)
	for _, f := range l.Fields {
		if f.Kind == Fixed {
			fmt.Fprintf(&b, " fixed=%s", f.Digits)
		} else {
			fmt.Fprintf(&b, " %s:%d", f.Kind, f.Width)
		}
	}
	fmt.Fprintf(&b, " check=%s", l.Check)
	if l.Symbologies != "" {
		fmt.Fprintf(&b, " aim=%s", l.Symbologies)
	}
	if l.Typed {
		b.WriteString(" entry=typed")
	}
	return b.String()
}

// Equal tells whether two layouts read every code alike.
func (l Layout) Equal(m Layout) bool { return l.String() == m.String() }

// ParseLayout reads the text that String gives, and nothing else: what it accepts
// String returns unchanged. Fields are in the printed order; game, pack and ticket
// are required; the ones a layout lacks are left out.
func ParseLayout(text string) (Layout, error) {
	words := strings.Split(text, " ")
	if len(words) < 5 || len(words) > 16 {
		return Layout{}, fmt.Errorf("layout %.60q: want a name, fields and a check", text)
	}
	l := Layout{Name: words[0]}
	if !isName(l.Name) {
		return Layout{}, fmt.Errorf("layout name %.20q: want 1 to 16 of a-z and 0-9", l.Name)
	}
	for _, w := range words[1:] {
		if err := l.addWord(w); err != nil {
			return Layout{}, fmt.Errorf("layout %s: %w", l.Name, err)
		}
	}
	if err := l.validate(); err != nil {
		return Layout{}, fmt.Errorf("layout %s: %w", l.Name, err)
	}
	if l.String() != text {
		return Layout{}, fmt.Errorf("layout %s: %.120q is not in canonical order, want %q", l.Name, text, l.String())
	}
	return l, nil
}

func (l *Layout) addWord(w string) error {
	if key, value, ok := strings.Cut(w, "="); ok {
		switch key {
		case "fixed":
			if len(value) < 1 || len(value) > 4 || !isDigits(value) {
				return fmt.Errorf("fixed digits %.20q: want 1 to 4 digits", value)
			}
			l.Fields = append(l.Fields, Field{Fixed, len(value), value})
		case "check":
			l.Check = value
		case "aim":
			l.Symbologies = value
		case "entry":
			if value != "typed" {
				return fmt.Errorf("entry %.20q: want typed", value)
			}
			l.Typed = true
		default:
			return fmt.Errorf("unknown word %.20q", w)
		}
		return nil
	}
	kind, width, ok := strings.Cut(w, ":")
	n, err := strconv.Atoi(width)
	if !ok || err != nil || n < 1 || n > 32 {
		return fmt.Errorf("field %.20q: want kind:width with a width of 1 to 32", w)
	}
	switch k := Kind(kind); k {
	case Game, Pack, Number, Secret, Check:
		if l.Width(k) != 0 {
			return fmt.Errorf("field %s stands twice", k)
		}
		l.Fields = append(l.Fields, Field{Kind: k, Width: n})
	default:
		return fmt.Errorf("unknown field %.20q", kind)
	}
	return nil
}

func (l Layout) validate() error {
	for _, k := range []Kind{Game, Pack, Number} {
		if l.Width(k) == 0 {
			return fmt.Errorf("field %s is missing", k)
		}
	}
	if l.Width(Pack) > 9 || l.Width(Number) > 4 || l.Width(Game) > 6 {
		return errors.New("at most 6 digits of game, 9 of pack, 4 of ticket")
	}
	printed := l.Fields // in the barcode
	if last := len(printed) - 1; l.Typed {
		if printed[last].Kind != Secret {
			return errors.New("a typed secret is the last field")
		}
		printed = printed[:last]
	}
	switch l.Check {
	case CheckNone:
		if l.Width(Check) != 0 {
			return errors.New("a check field needs check=" + CheckMod9710)
		}
	case CheckMod9710:
		if l.Width(Check) != 2 || printed[len(printed)-1].Kind != Check {
			return errors.New("check=" + CheckMod9710 + " needs two check digits at the end of what is scanned")
		}
	default:
		return fmt.Errorf("unknown check %.20q", l.Check)
	}
	for _, r := range l.Symbologies {
		if !strings.ContainsRune(knownAIM, r) {
			return fmt.Errorf("unknown AIM symbology letter %q", r)
		}
	}
	if n := l.Length(); n > MaxLength {
		return fmt.Errorf("%d digits, at most %d", n, MaxLength)
	}
	return nil
}

// MaxLength bounds a printed code, and with it what a scan may hold.
const MaxLength = 64

// knownAIM holds the AIM symbology letters (ISO/IEC 15424) that ticket codes are
// printed in: A Code 39, C Code 128, E EAN/UPC, F Codabar, G Code 93, I ITF,
// L PDF417, Q QR, d Data Matrix, e DataBar, z Aztec.
const knownAIM = "ACEFGILQdez"

func isName(s string) bool {
	if len(s) < 1 || len(s) > 16 {
		return false
	}
	for _, r := range s {
		if (r < 'a' || r > 'z') && (r < '0' || r > '9') {
			return false
		}
	}
	return true
}

func isDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return len(s) > 0
}
