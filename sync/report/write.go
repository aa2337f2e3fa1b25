package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"grattoir/sync/wire"
	"grattoir/validate"
	"grattoir/validate/money"
)

// Format is a form that a report is written in.
type Format string

const (
	Table     Format = "table"  // for people, in the report's zone
	JSON      Format = "json"   // for programs; see Report.WriteJSON
	CSV       Format = "csv"    // for programs; see Report.WriteCSV
	CSVFrench Format = "csv-fr" // for a French Excel; see Report.WriteFrenchCSV
	XLSX      Format = "xlsx"   // a workbook; see Report.WriteXLSX
)

// Formats are the forms there are.
func Formats() []Format { return []Format{Table, JSON, CSV, CSVFrench, XLSX} }

// ErrFormat means a format that is none of Formats.
var ErrFormat = errors.New("format")

// Write writes the report in a format, with words for people in English where the format
// leaves a choice.
func (r Report) Write(w io.Writer, f Format) error { return r.WriteIn(w, f, money.English) }

// WriteIn is Write in a language: it is the table's and the workbook's. A French CSV is
// French, and JSON and CSV have the same keys in every language.
func (r Report) WriteIn(w io.Writer, f Format, lang money.Language) error {
	enc, err := newEncoder(w, f, lang)
	if err != nil {
		return err
	}
	return r.encode(enc)
}

// WriteCSV writes the rows, without totals, after RFC 4180: comma, CRLF, a header of the
// columns' keys. Times are UTC with milliseconds, durations are seconds, amounts have a
// decimal point and no sign of their currency; a cell that is not known is empty. A text
// that a spreadsheet would take for a formula has an apostrophe in front.
func (r Report) WriteCSV(w io.Writer) error { return r.WriteIn(w, CSV, money.English) }

func (v Value) csv() string {
	if !v.Known {
		return ""
	}
	switch v.Kind {
	case KindText:
		return harmless(v.Text)
	case KindDay:
		return v.Text
	case KindDecimal:
		return decimalText(v.Int, ".")
	case KindMoney:
		return money.Text(money.Amount(v.Int), v.Currency, money.English, money.Plain)
	case KindTime:
		return wire.FormatTime(v.Time)
	case KindDuration:
		return strconv.FormatFloat(float64(v.Int)/1000, 'f', 3, 64)
	}
	return strconv.FormatInt(v.Int, 10)
}

// harmless puts an apostrophe before a text that a spreadsheet would take for a formula
// (OWASP, "CSV injection"): what a terminal or a clerk told must not run on a desk.
func harmless(text string) string {
	if text != "" && strings.ContainsRune("=+-@\t\r", rune(text[0])) {
		return "'" + text
	}
	return text
}

// decimalText writes thousandths with three places.
func decimalText(thousandths int64, point string) string {
	b := make([]byte, 0, 24)
	if thousandths < 0 {
		b, thousandths = append(b, '-'), -thousandths
	}
	b = append(strconv.AppendInt(b, thousandths/1000, 10), point...)
	rest := thousandths % 1000
	return string(append(b, byte('0'+rest/100), byte('0'+rest/10%10), byte('0'+rest%10)))
}

// WriteJSON writes name, titles, filter, clock, columns, rows, totals and parts. Rows are
// objects. The key of an amount ends in _minor, whole minor units, that of a duration in
// _ms. What is not known is null; a total leaves those cells out and says how many they
// were under the key with _unknown.
func (r Report) WriteJSON(w io.Writer) error { return r.WriteIn(w, JSON, money.English) }

type jsonColumn struct {
	Key      string `json:"key"`
	Kind     Kind   `json:"kind"`
	Title    Text   `json:"title"`
	Currency string `json:"currency,omitempty"`
}

type jsonPart struct {
	Key   string `json:"key"`
	Title Text   `json:"title"`
	Count int    `json:"count"`
}

// MarshalJSON writes what WriteJSON describes.
func (r Report) MarshalJSON() ([]byte, error) {
	out := struct {
		Name    string            `json:"name"`
		Title   Text              `json:"title"`
		Made    string            `json:"made"`
		Zone    string            `json:"zone"`
		Filter  map[string]string `json:"filter"`
		Columns []jsonColumn      `json:"columns"`
		Rows    []json.RawMessage `json:"rows"`
		Totals  []json.RawMessage `json:"totals"`
		Parts   []jsonPart        `json:"parts,omitempty"`
	}{Name: r.Name, Title: r.Title, Made: wire.FormatTime(r.Made), Zone: r.Zone.String(), Filter: r.Filter.set(),
		Columns: []jsonColumn{}, Rows: make([]json.RawMessage, len(r.Rows)), Totals: make([]json.RawMessage, len(r.Totals))}
	for _, c := range r.Columns {
		out.Columns = append(out.Columns, jsonColumn{c.jsonKey(), c.Kind, c.Title, c.Currency})
	}
	for _, p := range r.Parts {
		out.Parts = append(out.Parts, jsonPart(p))
	}
	for i, row := range r.Rows {
		out.Rows[i] = r.jsonRow(row)
	}
	for i, row := range r.Totals {
		out.Totals[i] = r.jsonRow(row)
	}
	return json.Marshal(out)
}

func (c Column) jsonKey() string {
	switch c.Kind {
	case KindMoney:
		return c.Key + "_minor"
	case KindDuration:
		return c.Key + "_ms"
	}
	return c.Key
}

// jsonRow keeps the order of the columns, which a map would lose.
func (r Report) jsonRow(row []Value) json.RawMessage {
	var b bytes.Buffer
	for i, c := range r.Columns {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%s:%s", quoted(c.jsonKey()), row[i].json())
		if row[i].Holes > 0 {
			fmt.Fprintf(&b, ",%s:%d", quoted(c.jsonKey()+"_unknown"), row[i].Holes)
		}
	}
	return json.RawMessage("{" + b.String() + "}")
}

func (v Value) json() []byte { return v.appendJSON(nil) }

func (v Value) appendJSON(b []byte) []byte {
	switch {
	case !v.Known:
		return append(b, "null"...)
	case v.Kind == KindText, v.Kind == KindDay:
		return appendQuoted(b, v.Text)
	case v.Kind == KindDecimal:
		return append(b, decimalText(v.Int, ".")...)
	case v.Kind == KindTime:
		return appendQuoted(b, wire.FormatTime(v.Time))
	}
	return strconv.AppendInt(b, v.Int, 10)
}

// appendQuoted quotes plain texts by itself: most are, and json.Marshal is slow for them.
func appendQuoted(b []byte, s string) []byte {
	for _, c := range []byte(s) {
		if c < ' ' || c >= utf8.RuneSelf || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' || c == 0x7f {
			return append(b, quoted(s)...)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}

// quoted is s as JSON. Encoding a string cannot fail.
func quoted(s string) []byte {
	text, _ := json.Marshal(s)
	return text
}

// set lists the filter's fields that choose something, by the names that commands and
// pages give them.
func (f Filter) set() map[string]string {
	fields := map[string]string{}
	if f.Block != (validate.BlockID{}) {
		fields["block"] = f.Block.String()
	}
	for key, text := range map[string]string{"terminal": f.Terminal, "shop": f.Shop, "region": f.Region, "game": f.Game, "from": f.From.String(), "to": f.To.String(), "by": f.By} {
		if text != "" {
			fields[key] = text
		}
	}
	return fields
}

// WriteTable writes the report for people: a title with the clock and the filter, the
// parts, the rows, the totals. Columns without a word or a number are left out, and said so.
func (r Report) WriteTable(w io.Writer, lang money.Language) error { return r.WriteIn(w, Table, lang) }

func (r Report) filterWords() string {
	var b strings.Builder
	set := r.Filter.set()
	for _, key := range []string{"terminal", "shop", "region", "game", "block", "from", "to", "by"} {
		if text, ok := set[key]; ok {
			fmt.Fprintf(&b, ", %s %s", key, clean(text))
		}
	}
	return b.String()
}

// wrap breaks a title between words, so that titles do not make the table wide.
func wrap(title string, width int) []string {
	var lines []string
	for word := range strings.FieldsSeq(title) {
		if last := len(lines) - 1; last >= 0 && utf8.RuneCountInString(lines[last])+1+utf8.RuneCountInString(word) <= width {
			lines[last] += " " + word
		} else {
			lines = append(lines, word)
		}
	}
	return lines
}

// Words is a value for people: "-" for unknown, times in the report's zone, durations in
// their largest units, a total that leaves cells out followed by "+?". It never holds a
// control character, whatever a terminal told.
func (r Report) Words(v Value, lang money.Language, m money.Medium) string {
	text := "-"
	if v.Known {
		switch v.Kind {
		case KindText, KindDay:
			text = clean(v.Text)
		case KindDecimal:
			text = decimalText(v.Int, map[money.Language]string{money.French: ",", money.English: "."}[lang])
		case KindInt:
			text = strconv.FormatInt(v.Int, 10)
		case KindMoney:
			text = money.Text(money.Amount(v.Int), v.Currency, lang, m)
		case KindTime:
			text = v.Time.In(r.Zone).Format("2006-01-02 15:04:05")
		case KindDuration:
			text = durationWords(time.Duration(v.Int)*time.Millisecond, lang)
		}
	}
	if v.Holes > 0 {
		text += "+?"
	}
	return text
}

// durationWords rounds towards zero: something is 24 h old only once it is.
func durationWords(d time.Duration, lang money.Language) string {
	sign := ""
	if d < 0 {
		sign, d = "-", -d
	}
	n := func(unit time.Duration) int64 { return int64(d / unit) }
	switch {
	case d < time.Second:
		return fmt.Sprintf("%s%d ms", sign, n(time.Millisecond))
	case d < time.Minute:
		return fmt.Sprintf("%s%d s", sign, n(time.Second))
	case d < time.Hour:
		return fmt.Sprintf("%s%d min", sign, n(time.Minute))
	case d < 48*time.Hour:
		return fmt.Sprintf("%s%d h %02d", sign, n(time.Hour), n(time.Minute)%60)
	}
	return fmt.Sprintf("%s%d %s", sign, n(24*time.Hour), Text{"j", "d"}.In(lang))
}

// clean keeps what a terminal told from moving the cursor or the columns.
func clean(s string) string {
	plain := true
	for _, c := range []byte(s) {
		plain = plain && c >= ' ' && c < 0x7f
	}
	if plain { // most are
		return s
	}
	return strings.Map(func(c rune) rune {
		if !unicode.IsPrint(c) {
			return '?'
		}
		return c
	}, s)
}
