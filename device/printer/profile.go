package printer

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/unicode/norm"
)

// Ability says whether a model can do something that is only seen by trying.
type Ability uint8

// A model that Maybe answers is asked; three silences mean that it does not. A
// model that Can answer and stays silent is switched off or broken.
const (
	Cannot Ability = iota
	Maybe
	Can
)

// Cutter is what stands behind the paper's exit.
type Cutter uint8

// With no cutter the slip is fed past the tear bar.
const (
	NoCutter Cutter = iota
	PartialCut
	FullCut
)

// CodePage is one of the printer's tables of 256 characters.
type CodePage struct {
	Name   string
	Number byte // what ESC t takes; by maker, not by standard
	chars  *charmap.Charmap
}

// Profile is what one family of printers can do and how it is told. The numbers
// come from the makers' manuals; a technician may change a copy's fields.
type Profile struct {
	Name    string
	Columns int // characters of the normal font on a line: 32, 42 or 48
	Dots    int // printable dots on a line, 8 per mm
	Page    CodePage
	// LeaveChinese sends FS . first: many 58 mm models wake up in a two-byte mode
	// where every French accent swallows the letter after it.
	LeaveChinese bool
	Inverse      bool // white on black (GS B)
	Cutter       Cutter
	NativeQR     bool    // GS ( k; clones without it print the command as text
	Status       Ability // real-time status, DLE EOT
	Completion   bool    // process id, GS ( H: the only proof of printing
	Clears       bool    // drops its buffer on request and says so (DLE DC4 8)
	Drawer       bool    // a drawer socket, ESC p
	Buffer       int     // bytes of its receive buffer
	Chunk        int     // bytes it surely takes after saying that it is nearly full
	Speed        int     // paper speed in mm/s with text on it
}

var (
	page858  = CodePage{Name: "CP858", Number: 19, chars: charmap.CodePage858}
	page1252 = CodePage{Name: "WPC1252", Number: 16, chars: charmap.Windows1252}
)

// Profiles are the shipped profiles, the most exact one first.
func Profiles() []Profile {
	return []Profile{
		{Name: "epson-tm-t20", Columns: 48, Dots: 576, Page: page858, Inverse: true, Cutter: PartialCut,
			Status: Can, Completion: true, Clears: true, Drawer: true, Buffer: 4096, Chunk: 128, Speed: 100},
		{Name: "epson-tm-t88", Columns: 42, Dots: 512, Page: page1252, Inverse: true, Cutter: PartialCut, NativeQR: true,
			Status: Can, Completion: true, Clears: true, Drawer: true, Buffer: 4096, Chunk: 128, Speed: 150},
		{Name: "generic-80", Columns: 42, Dots: 576, Page: page858, LeaveChinese: true, Inverse: true, Cutter: PartialCut,
			Status: Maybe, Drawer: true, Buffer: 4096, Chunk: 128, Speed: 80},
		{Name: "generic-58", Columns: 32, Dots: 384, Page: page858, LeaveChinese: true,
			Status: Maybe, Buffer: 256, Chunk: 16, Speed: 40},
	}
}

// Pages are the code pages a profile may be given, by the numbers of the Epson
// table, which most makers follow.
func Pages() []CodePage {
	return []CodePage{
		page858, page1252,
		{Name: "ISO8859-15", Number: 40, chars: charmap.ISO8859_15},
		{Name: "CP850", Number: 2, chars: charmap.CodePage850},
		{Name: "CP437", Number: 0, chars: charmap.CodePage437},
	}
}

// ProfileNamed returns a shipped profile. An unknown name is an error that says
// which known one is nearest.
func ProfileNamed(name string) (Profile, error) {
	profiles := Profiles()
	i := slices.IndexFunc(profiles, func(p Profile) bool { return p.Name == name })
	if i >= 0 {
		return profiles[i], nil
	}
	names := make([]string, len(profiles))
	for i, p := range profiles {
		names[i] = p.Name
	}
	return Profile{}, fmt.Errorf("printer profile %.40q is not known: did you mean %q? (there are %s)",
		name, nearest(name, names), strings.Join(names, ", "))
}

// check refuses a profile whose numbers would make a slip unreadable or a job endless.
func (p Profile) check() error {
	switch {
	case p.Columns < 16 || p.Columns > 96:
		return fmt.Errorf("printer profile %q: %d columns, want 16 to 96", p.Name, p.Columns)
	case p.Dots < p.Columns*8 || p.Dots > 2048:
		return fmt.Errorf("printer profile %q: %d dots for %d columns, want at least 8 a column and at most 2048", p.Name, p.Dots, p.Columns)
	case p.Page.chars == nil:
		return fmt.Errorf("printer profile %q: no code page; take one of Pages", p.Name)
	case p.Chunk < 1 || p.Buffer < p.Chunk || p.Speed < 1:
		return fmt.Errorf("printer profile %q: chunk %d, buffer %d, speed %d mm/s must be positive, chunk within buffer", p.Name, p.Chunk, p.Buffer, p.Speed)
	}
	return nil
}

// nearest is the name with the fewest changed characters.
func nearest(name string, names []string) string {
	best, least := "", int(^uint(0)>>1)
	for _, n := range names {
		if d := changes(name[:min(len(name), 64)], n); d < least {
			best, least = n, d
		}
	}
	return best
}

// changes is the edit distance of two short names, byte by byte.
func changes(a, b string) int {
	line := make([]int, len(b)+1)
	for j := range line {
		line[j] = j
	}
	for i := range len(a) {
		diagonal := line[0]
		line[0]++
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = line[j+1]
			line[j+1] = min(cost, line[j]+1, diagonal+1)
		}
	}
	return line[len(b)]
}

// fold turns a text into one that the page has whole: what it lacks becomes the
// nearest spelling (œ is oe), then the letter without its accent, then a question
// mark. The answer still holds no-break spaces, which encode prints as 0x20:
// pages disagree on them, and cheap models draw 0xFF as they like.
func (c CodePage) fold(s string) string {
	var b strings.Builder
	for _, r := range tidy(s) {
		switch spelled := spelling(r); {
		case r == '\n' || r == '\u00a0' || c.has(r):
			b.WriteRune(r)
		case spelled != "":
			b.WriteString(spelled)
		default:
			b.WriteString(c.plain(r))
		}
	}
	return b.String()
}

func (c CodePage) has(r rune) bool {
	code, ok := c.chars.EncodeRune(r)
	// A charmap encodes U+0000 to U+001F as themselves; on paper those are commands.
	return ok && code >= 0x20 && code != 0x7f
}

// plain is r without its accents, or a question mark.
func (c CodePage) plain(r rune) string {
	var b strings.Builder
	for _, base := range norm.NFKD.String(string(r)) {
		switch {
		case unicode.Is(unicode.Mn, base):
		case c.has(base):
			b.WriteRune(base)
		default:
			return "?"
		}
	}
	if b.Len() == 0 {
		return "?"
	}
	return b.String()
}

// spelling is how a character is written where the page lacks it.
func spelling(r rune) string {
	switch r {
	case 'œ':
		return "oe"
	case 'Œ':
		return "OE"
	case 'æ':
		return "ae"
	case 'Æ':
		return "AE"
	case '€':
		return "EUR"
	case '’', '‘', '‚', 'ʼ', '′':
		return "'"
	case '“', '”', '„', '«', '»', '″':
		return `"`
	case '…':
		return "..."
	case '‐', '‒', '–', '—', '−':
		return "-"
	case '•', '·':
		return "*"
	case '×':
		return "x"
	case '→':
		return ">"
	case '№':
		return "No"
	case '§':
		return "par."
	}
	return ""
}

// encode is the page's bytes of a folded text.
func (c CodePage) encode(s string) []byte {
	out := make([]byte, 0, len(s))
	for _, r := range s {
		code, ok := c.chars.EncodeRune(r)
		switch {
		case r == '\u00a0':
			code = ' '
		case !ok || code < 0x20 || code == 0x7f:
			code = '?'
		}
		out = append(out, code)
	}
	return out
}
