package printer

import (
	"fmt"
	"strings"
	"unicode"

	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/unicode/norm"
)

// Pages are the code pages a profile may be given, by the numbers of the Epson
// table, which most makers follow.
func Pages() []CodePage {
	return []CodePage{
		{Name: "PC858", Number: 19, chars: charmap.CodePage858},
		{Name: "WPC1252", Number: 16, chars: charmap.Windows1252},
		{Name: "ISO8859-15", Number: 40, chars: charmap.ISO8859_15},
		{Name: "PC850", Number: 2, chars: charmap.CodePage850},
		{Name: "PC437", Number: 0, chars: charmap.CodePage437},
	}
}

// pageNamed is the page of that name, with Epson's number.
func pageNamed(name string) (CodePage, error) {
	var names []string
	for _, page := range Pages() {
		if page.Name == name {
			return page, nil
		}
		names = append(names, page.Name)
	}
	return CodePage{}, fmt.Errorf("page = %.20q is not known: did you mean %q? (there are %s)", name, nearest(name, names), strings.Join(names, ", "))
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
