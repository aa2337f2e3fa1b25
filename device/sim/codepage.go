package sim

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"
)

// page returns the table of ESC t n in Epson's numbering, or nil.
func page(n byte) *charmap.Charmap {
	switch n {
	case 0:
		return charmap.CodePage437
	case 2:
		return charmap.CodePage850
	case 3:
		return charmap.CodePage860
	case 4:
		return charmap.CodePage863
	case 5:
		return charmap.CodePage865
	case 16:
		return charmap.Windows1252
	case 19:
		return charmap.CodePage858
	case 40:
		return charmap.ISO8859_15
	}
	return nil
}

func knownPage(n byte) bool { return page(n) != nil }

// decode is the letter that byte c prints in page n.
func decode(n, c byte) (rune, error) {
	table := page(n)
	if table == nil {
		return utf8.RuneError, fmt.Errorf("byte %02X under unknown code page %d", c, n)
	}
	r := table.DecodeByte(c)
	if r == utf8.RuneError || r >= 0x7F && r < 0xA0 {
		return utf8.RuneError, fmt.Errorf("byte %02X prints nothing in code page %d", c, n)
	}
	return r, nil
}

// cutMark stands for a cut between slips in plain text.
func cutMark(columns int) string { return strings.Repeat("- ", columns/2) }
