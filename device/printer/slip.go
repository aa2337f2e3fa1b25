// Package printer puts slips on paper. It owns what a slip looks like (Slip),
// how a model is spoken to (Profile, Encode), the line to it (Port) and the
// truth about each job: how far it is known to have come (Device, State).
//
// It never decides what a slip says, never sends a job twice, and never calls a
// job printed unless the printer said so. Start at Slip, then at Device.Print.
package printer

import (
	"image"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Style is how a line looks. Styles are added with |.
type Style uint8

// A line with no style is plain and stands at the left.
const (
	Bold   Style = 1 << iota
	Wide         // each character takes two columns
	Tall         // twice the height
	Centre       // in the middle of the paper
	Right        // at the right edge
	Big    = Wide | Tall
)

// Slip is what is on one piece of paper, whatever the printer. The zero Slip is
// empty and ready; its methods add blocks from top to bottom. The cut at its end
// is implied. A Slip is a value to build once and then only read.
type Slip struct{ blocks []block }

type blockKind uint8

const (
	lineBlock blockKind = iota
	pairBlock
	ruleBlock
	bannerBlock
	qrBlock
	dataMatrixBlock
	logoBlock
)

type block struct {
	kind        blockKind
	style       Style
	left, right string
	logo        image.Image
}

// Line adds text, broken between words where it is wider than the paper. A
// no-break space (U+00A0, U+202F) holds an amount and its currency together.
// Control characters are dropped: no text can command the printer.
func (s *Slip) Line(text string, styles ...Style) {
	s.blocks = append(s.blocks, block{kind: lineBlock, left: text, style: all(styles)})
}

// Pair adds one line with left at the left edge and right at the right edge;
// where both do not fit, right goes on a line of its own below.
func (s *Slip) Pair(left, right string, styles ...Style) {
	s.blocks = append(s.blocks, block{kind: pairBlock, left: left, right: right, style: all(styles)})
}

// Rule adds a line of hyphens. ASCII on purpose: box-drawing characters change
// into letters on a printer that lost its code page.
func (s *Slip) Rule() { s.blocks = append(s.blocks, block{kind: ruleBlock}) }

// Blank adds an empty line.
func (s *Slip) Blank() { s.Line("") }

// Banner adds a white-on-black line for what nobody may overlook (DUPLICATA,
// DEMONSTRATION). A printer without white-on-black gets *** text ***.
func (s *Slip) Banner(text string) {
	s.blocks = append(s.blocks, block{kind: bannerBlock, left: text})
}

// QR adds a QR code of data, error correction level M.
func (s *Slip) QR(data string) {
	s.blocks = append(s.blocks, block{kind: qrBlock, left: data})
}

// DataMatrix adds a Data Matrix (ECC 200) of data.
func (s *Slip) DataMatrix(data string) {
	s.blocks = append(s.blocks, block{kind: dataMatrixBlock, left: data})
}

// Logo adds a picture, centred and dithered to black and white. One pixel is one
// dot; a picture wider than the text or higher than 1024 dots makes Encode and PNG fail.
func (s *Slip) Logo(picture image.Image) {
	s.blocks = append(s.blocks, block{kind: logoBlock, logo: picture})
}

func all(styles []Style) (sum Style) {
	for _, s := range styles {
		sum |= s
	}
	return sum
}

// Text is the paper as plain text of the given width in columns, for terminals
// and golden files. Large characters are drawn at normal size in the place
// their line has; codes and pictures are named in square brackets.
func (s Slip) Text(columns int) string {
	var b strings.Builder
	for _, r := range s.layout(columns, tidy, false) {
		switch r.kind {
		case qrBlock, dataMatrixBlock, logoBlock:
			for _, l := range wrap(r.label(), columns) {
				b.WriteString(strings.TrimRight(strings.Repeat(" ", max(0, (columns-width(l))/2))+l, " ") + "\n")
			}
		default:
			b.WriteString(strings.TrimRight(strings.Repeat(" ", r.plainIndent(columns))+r.text, " ") + "\n")
		}
	}
	return b.String()
}

// row is one line of the paper once its width is known.
type row struct {
	kind    blockKind
	style   Style
	indent  int // columns of normal width before text
	trail   int // and after it, where the bar of a banner goes on
	text    string
	inverse bool
	data    string // of a code
	logo    image.Image
}

func (r row) label() string {
	switch r.kind {
	case qrBlock:
		return "[QR " + r.data + "]"
	case dataMatrixBlock:
		return "[Data Matrix " + r.data + "]"
	default:
		return "[logo]"
	}
}

// plainIndent is the indent when every character takes one column.
func (r row) plainIndent(columns int) int {
	switch free := columns - width(r.text); {
	case r.style&Wide == 0:
		return r.indent
	case r.style&Centre != 0:
		return max(0, free/2)
	case r.style&Right != 0:
		return max(0, free)
	default:
		return r.indent
	}
}

// layout breaks the slip into rows of at most the given columns. clean turns a
// text into what will stand on the paper; it runs before anything is measured,
// because folding œ into oe makes a line longer.
func (s Slip) layout(columns int, clean func(string) string, inverse bool) []row {
	var rows []row
	for _, b := range s.blocks {
		switch b.kind {
		case lineBlock:
			for _, l := range wrap(clean(b.left), b.style.room(columns)) {
				rows = append(rows, placed(l, b.style, columns))
			}
		case pairBlock:
			rows = append(rows, pair(clean(b.left), clean(b.right), b.style, columns)...)
		case ruleBlock:
			rows = append(rows, row{text: strings.Repeat("-", columns)})
		case bannerBlock:
			rows = append(rows, banner(clean(b.left), columns, inverse)...)
		case qrBlock, dataMatrixBlock:
			rows = append(rows, row{kind: b.kind, data: b.left})
		case logoBlock:
			rows = append(rows, row{kind: b.kind, logo: b.logo})
		}
	}
	return rows
}

// room is how many characters of this style fit on the paper.
func (st Style) room(columns int) int {
	if st&Wide != 0 {
		return max(1, columns/2)
	}
	return max(1, columns)
}

func placed(text string, st Style, columns int) row {
	r := row{text: text, style: st}
	free := max(0, columns-taken(text, st))
	switch {
	case st&Centre != 0:
		r.indent = free / 2
	case st&Right != 0:
		r.indent = free
	}
	return r
}

// taken is how many columns text takes.
func taken(text string, st Style) int {
	if st&Wide != 0 {
		return 2 * width(text)
	}
	return width(text)
}

func pair(left, right string, st Style, columns int) []row {
	st &^= Centre | Right
	room := st.room(columns)
	left, right = strings.TrimSpace(flat(left)), strings.TrimSpace(flat(right))
	if gap := room - width(left) - width(right); gap >= 1 {
		return []row{{text: left + strings.Repeat(" ", gap) + right, style: st}}
	}
	var rows []row
	for _, l := range wrap(left, room) {
		rows = append(rows, placed(l, st, columns))
	}
	for _, l := range wrap(right, room) {
		rows = append(rows, placed(l, st|Right, columns))
	}
	return rows
}

func banner(text string, columns int, inverse bool) []row {
	if !inverse {
		var rows []row
		for _, l := range wrap("*** "+flat(text)+" ***", columns) {
			rows = append(rows, placed(l, Bold|Centre, columns))
		}
		return rows
	}
	st := Bold | Big
	if width(text) > columns/2-2 {
		st = Bold
	}
	var rows []row
	for _, l := range wrap(flat(text), max(1, st.room(columns)-2)) {
		r := placed(l, st|Centre, columns)
		r.trail = columns - r.indent - taken(l, st)
		r.inverse = true
		rows = append(rows, r)
	}
	return rows
}

// wrap breaks text at its newlines, then between words, then, for a word wider
// than the paper, inside it. No-break spaces become plain ones at the very end.
func wrap(text string, columns int) []string {
	var lines []string
	for _, paragraph := range strings.Split(text, "\n") {
		line := ""
		for _, word := range strings.FieldsFunc(paragraph, func(r rune) bool { return r == ' ' }) {
			if line != "" && width(line)+1+width(word) <= columns {
				line += " " + word
				continue
			}
			if line != "" {
				lines = append(lines, line)
			}
			for width(word) > columns {
				cut := cutAt(word, columns)
				lines = append(lines, word[:cut])
				word = word[cut:]
			}
			line = word
		}
		lines = append(lines, line)
	}
	for i, l := range lines {
		lines[i] = strings.ReplaceAll(l, glue, " ")
	}
	return lines
}

// cutAt is the byte offset after the first n characters of s.
func cutAt(s string, n int) int {
	for i := range s {
		if n == 0 {
			return i
		}
		n--
	}
	return len(s)
}

func width(s string) int { return utf8.RuneCountInString(s) }

func flat(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "\n", " "), glue, " ")
}

// glue is the one no-break space left after tidy.
const glue = "\u00a0"

// tidy composes accents, makes one no-break space of the several that French
// typography uses, and drops what has no width or would command a printer.
func tidy(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n':
			return r
		case r == '\t':
			return ' '
		case r == '\u00a0' || r == '\u202f' || r == '\u2007':
			return '\u00a0'
		case r == '\u2011': // a no-break hyphen, which few fonts have; no hyphen breaks here
			return '-'
		case unicode.Is(unicode.Zs, r):
			return ' '
		case r == utf8.RuneError:
			return '?'
		case unicode.In(r, unicode.Cc, unicode.Cf, unicode.Mn, unicode.Me, unicode.Zl, unicode.Zp):
			return -1
		}
		return r
	}, norm.NFC.String(strings.ToValidUTF8(s, "?")))
}
