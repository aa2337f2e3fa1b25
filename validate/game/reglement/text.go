package reglement

import (
	"html"
	"regexp"
	"sort"
	"strings"

	"golang.org/x/text/unicode/norm"
)

// document is a text made regular: one kind of space, composed letters, tags
// turned into separators. Lines are still those of the input.
type document struct {
	text  string
	lines []int // byte offset of each line's start

	priceCurrency string // of the last price read
}

// cell is a piece of text between separators: a table's cell, or a line.
type cell struct {
	text string
	at   int  // byte offset in the document
	cut  bool // a prize row that began in the middle of the cell before
	sum  *proportion
}

var (
	// Only tags of HTML: names typed between << and >> are no tags.
	cellTag  = regexp.MustCompile(`(?i)</?(?:td|th|tr|p|br|div|li|h[1-6]|table|caption)(?:\s[^<>\n]*)?/?>`)
	otherTag = regexp.MustCompile(`(?i)</?(?:b|i|u|em|strong|span|a|font|tbody|thead|center|sup|sub|ul|ol|html|body|head|pre|small|colgroup|col)(?:\s[^<>\n]*)?/?>`)

	// Ways of writing that are made regular before anything is read.
	apostrophe = regexp.MustCompile(`([0-9])'([0-9]{3})\b`)                                                         // Swiss: 1'000
	noCents    = regexp.MustCompile(`([0-9])(?:,|\.)[-–—]{1,2}(\s|€|$)`)                                            // 20,- €
	wordCents  = regexp.MustCompile(`(?i)([0-9]) ?(euros?|€|francs?|F)\s+et\s+([0-9]{2})\s+(?:centimes?|cents?)\b`) // 2 euros et 50 centimes
	multiplied = regexp.MustCompile(`(?m)^([ \-–•*|]*)(` + run + `) ?[x×] ?((?:` + run + `) ?(?:` + sign + `))`)    // 300 x 20 €
	bracketed  = regexp.MustCompile(`(?mi)^((?:` + run + `) ?(?:` + sign + `)) ?\(((?:` + run + `) lots?)\)`)       // 20 € (300 lots)

	raisedCents = regexp.MustCompile(`(?i)<sup>\s*([0-9]{2})\s*</sup>`) // 2<sup>50</sup> €
	footnote    = regexp.MustCompile(`(?i)<su[pb]>\s*(?:\([0-9*]{1,2}\)|[0-9*])\s*</su[pb]>|[¹²³⁴⁵⁶⁷⁸⁹]+`)
	separator   = regexp.MustCompile(`[|\n]| {2,}`)
)

func normalize(text string) *document {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	text = raisedCents.ReplaceAllString(text, ",$1")
	text = footnote.ReplaceAllString(text, "")
	if cellTag.MatchString(text) {
		text = cellTag.ReplaceAllString(text, "|")
		text = html.UnescapeString(otherTag.ReplaceAllString(text, ""))
	}
	text = strings.Map(func(r rune) rune {
		switch r {
		case '\u00a0', '\u202f', '\u2007', '\u2008', '\u2009', '\u200a', '\u2002', '\u2003', '\u3000':
			return ' '
		case '\u200b', '\u200c', '\u200d', '\u2060', '\ufeff', '\u00ad', 0:
			return -1
		case '\u2018', '\u2019', '\u02bc':
			return '\''
		case '\u00ba':
			return '°'
		case '\t', '\v':
			return '|'
		case '\r', '\f', '\u2028', '\u2029':
			return '\n'
		}
		return r
	}, norm.NFC.String(text))
	text = apostrophe.ReplaceAllString(apostrophe.ReplaceAllString(text, "$1 $2"), "$1 $2") // twice: groups share their digits
	text = wordCents.ReplaceAllString(text, "$1,$3 $2")
	text = noCents.ReplaceAllString(text, "$1$2")
	text = semicolons(text)
	text = multiplied.ReplaceAllString(text, "${1}${2} lots de ${3}")
	text = bracketed.ReplaceAllString(text, "$1 : $2")
	doc := &document{text: text, lines: []int{0}}
	for i := range len(text) {
		if text[i] == '\n' {
			doc.lines = append(doc.lines, i+1)
		}
	}
	return doc
}

// semicolons turns the semicolons of a CSV table into separators of cells: three lines
// and more, one after the other, with the same number of them.
func semicolons(text string) string {
	lines := strings.Split(text, "\n")
	for from := 0; from < len(lines); {
		n := strings.Count(lines[from], ";")
		to := from + 1
		for n > 0 && to < len(lines) && strings.Count(lines[to], ";") == n {
			to++
		}
		if n > 0 && to-from >= 3 && !strings.HasSuffix(strings.TrimSpace(lines[from]), ";") {
			for i := from; i < to; i++ {
				lines[i] = strings.ReplaceAll(lines[i], ";", "|")
			}
		}
		from = to
	}
	return strings.Join(lines, "\n")
}

// line is the number of the line at a byte offset, from 1.
func (d *document) line(at int) int {
	return sort.SearchInts(d.lines, at+1)
}

// cells splits the document. Sentences of proportion become one cell each, and
// a cell with several prizes in it is split at each of them.
func (d *document) cells() []cell {
	var out []cell
	from := 0
	for _, p := range findProportions(d.text) {
		out = appendCells(out, d.text, from, p.from)
		out = append(out, cell{at: p.from, sum: p})
		from = p.to
	}
	return appendCells(out, d.text, from, len(d.text))
}

func appendCells(out []cell, text string, from, to int) []cell {
	part := text[from:to]
	start := 0
	for _, sep := range append(separator.FindAllStringIndex(part, -1), []int{len(part), len(part)}) {
		out = appendCell(out, part[start:sep[0]], from+start)
		start = sep[1]
	}
	return out
}

// appendCell adds a trimmed cell, split before every "N lots", unless it holds
// nothing but a ruler.
func appendCell(out []cell, text string, at int) []cell {
	start, cut := 0, false
	add := func(end int) {
		if piece := strings.Trim(text[start:end], " *_•"); strings.Trim(piece, "-–—=_+:. ") != "" {
			out = append(out, cell{text: strings.TrimLeft(piece, "-–— "), at: at + start, cut: cut})
		}
		start, cut = end, true
	}
	for _, m := range rowStart.FindAllStringSubmatchIndex(text, -1) {
		if m[2] > 0 && !articleEnd.MatchString(text[max(start, m[2]-12):m[2]]) {
			add(m[2])
		}
	}
	add(len(text))
	return out
}

var (
	rowStart   = regexp.MustCompile(`(` + run + `) ?(?i:` + lots + `)\b`)
	articleEnd = regexp.MustCompile(`(?i)\bart(?:icle|\.)\s*$`)
)
