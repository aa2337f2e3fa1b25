package report

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"grattoir/validate/money"
)

// A report is written row by row, whether it is held in memory (WriteIn) or read while it is
// written (Stream): the same encoders take both, so that both say the same.

// encoder writes a report in one form. Begin gets what is known before the first row: of a
// form that asks for a look at all rows before, everything.
type encoder interface {
	begin(r *Report) error
	row(r *Report, row []Value) error
	end(r *Report) error // totals and parts are known
}

// measurer is an encoder that must see all rows before the first one is written.
type measurer interface {
	measure(r *Report, row []Value)
}

// newEncoder makes the encoder of a form.
func newEncoder(w io.Writer, f Format, lang money.Language) (encoder, error) {
	switch f {
	case Table:
		return &tableEncoder{out: bufio.NewWriterSize(w, writeAtOnce), lang: lang}, nil
	case JSON:
		return &jsonEncoder{out: bufio.NewWriterSize(w, writeAtOnce)}, nil
	case CSV:
		return &csvEncoder{out: csv.NewWriter(bufio.NewWriterSize(w, writeAtOnce))}, nil
	case CSVFrench:
		return &frenchEncoder{out: bufio.NewWriterSize(w, writeAtOnce)}, nil
	case XLSX:
		return &sheetEncoder{w: w, lang: lang}, nil
	}
	return nil, fmt.Errorf("%w %.40q: want table, json, csv, csv-fr or xlsx", ErrFormat, string(f))
}

// writeAtOnce is how many bytes are gathered for a write: whoever reads gets them then.
const writeAtOnce = 64 << 10

// encode writes a report that is held in memory.
func (r Report) encode(enc encoder) error {
	r.count = len(r.Rows)
	if m, ok := enc.(measurer); ok {
		for _, row := range r.Rows {
			m.measure(&r, row)
		}
	}
	if err := enc.begin(&r); err != nil {
		return err
	}
	for _, row := range r.Rows {
		if err := enc.row(&r, row); err != nil {
			return err
		}
	}
	return enc.end(&r)
}

// Stream makes a report out of one consistent state of the store and writes it while it is
// read: it holds no rows, so it has no bound on them. It gives the report without its rows,
// and how many there were. After an error a part of it may be written. The errors include
// ErrFilter and ErrFormat.
func Stream(ctx context.Context, db *sql.DB, name string, f Filter, now time.Time, w io.Writer, format Format, lang money.Language) (Report, int, error) {
	a, ok := KindOf(name)
	if !ok {
		return Report{}, 0, fmt.Errorf("%w: there is no report %.40q", ErrFilter, name)
	}
	enc, err := newEncoder(w, format, lang)
	if err != nil {
		return Report{}, 0, err
	}
	var r Report
	err = reading(ctx, db, func(tx *sql.Tx) (err error) {
		r, err = a.stream(ctx, tx, f, now, enc, format)
		return err
	})
	return r, r.count, err
}

func (a About) stream(ctx context.Context, tx *sql.Tx, f Filter, now time.Time, enc encoder, format Format) (Report, error) {
	r, err := a.prepare(ctx, tx, f, now)
	if err != nil {
		return r, err
	}
	fail := func(err error) (Report, error) { return r, fmt.Errorf("report %s: %w", a.Name, err) }
	head := r
	m, measures := enc.(measurer)
	if measures || format == JSON && slices.ContainsFunc(r.Columns, func(c Column) bool { return c.Kind == KindMoney && c.Currency == "" }) {
		if head, err = a.prepare(ctx, tx, f, now); err != nil {
			return r, err
		}
		coarse := a.coarse != "" && !measures
		if coarse { // it is asked for its currencies alone
			head.Filter.By = a.coarse
			head.Columns = a.columns(head.Filter)
		}
		head.sink = func(row []Value) error {
			if measures {
				m.measure(&head, row)
			}
			return nil
		}
		if err := a.read(&head, ctx, tx); err != nil {
			return fail(err)
		}
		if coarse {
			head.Filter, head.Columns = r.Filter, r.inCurrencyOf(head.Columns)
		}
	}
	if err := enc.begin(&head); err != nil {
		return fail(err)
	}
	r.sink = func(row []Value) error { return enc.row(&r, row) }
	if err := a.read(&r, ctx, tx); err != nil {
		return fail(err)
	}
	if err := enc.end(&r); err != nil {
		return fail(err)
	}
	r.sink = nil
	return r, nil
}

// inCurrencyOf gives the report's columns the one currency that others have.
func (r *Report) inCurrencyOf(others []Column) []Column {
	columns := slices.Clone(r.Columns)
	i := slices.IndexFunc(others, func(c Column) bool { return c.Kind == KindMoney })
	for k := range columns {
		if i >= 0 && columns[k].Kind == KindMoney && columns[k].Currency == "" {
			columns[k].Currency = others[i].Currency
		}
	}
	return columns
}

// First makes a report's first rows and its totals, for a page. All is how many rows there
// are, -1 where that is not counted. The errors include ErrFilter.
func First(ctx context.Context, db *sql.DB, name string, f Filter, now time.Time, rows int) (r Report, all int, err error) {
	a, ok := KindOf(name)
	if !ok {
		return r, 0, fmt.Errorf("%w: there is no report %.40q", ErrFilter, name)
	}
	err = reading(ctx, db, func(tx *sql.Tx) error {
		if r, err = a.prepare(ctx, tx, f, now); err != nil {
			return err
		}
		r.page = rows
		r.sink = func(row []Value) error {
			if len(r.Rows) < rows {
				r.Rows = append(r.Rows, row)
			} else if r.totalled {
				return errEnough
			}
			return nil
		}
		if err := a.read(&r, ctx, tx); err != nil {
			return fmt.Errorf("report %s: %w", a.Name, err)
		}
		return nil
	})
	r.sink = nil
	if all = r.count; r.cut {
		all = -1
	}
	return r, all, err
}

// errEnough ends the reading of a page whose rows are there.
var errEnough = errors.New("the page is full")

// columnSum is what one column adds up to, ints and money only.
type columnSum struct {
	value Value
	over  bool // it does not fit
}

// tally adds a row to the totals. What is unknown is counted as a hole.
func (r *Report) tally(row []Value) {
	var key [2]string
	if i := r.column("currency"); i >= 0 {
		key[0] = row[i].Text
	}
	if i := r.column("demonstration"); i >= 0 {
		key[1] = row[i].Text
	}
	s := r.sections[key]
	if s == nil {
		s = make([]columnSum, len(r.Columns))
		if r.sections == nil {
			r.sections = map[[2]string][]columnSum{}
		}
		r.sections[key] = s
	}
	for i, v := range row {
		s[i].add(v)
	}
}

func (s *columnSum) add(v Value) {
	if v.Kind != KindInt && v.Kind != KindMoney {
		return
	}
	s.value.Kind, s.value.Currency = v.Kind, v.Currency
	if !v.Known {
		s.value.Holes++
		return
	}
	more, err := money.Amount(s.value.Int).Add(money.Amount(v.Int))
	s.over = s.over || err != nil
	s.value.Int = int64(more)
}

// total is unknown where it does not fit.
func (s columnSum) total(c Column) Value {
	v := s.value
	if v.Kind, v.Known = c.Kind, true; s.over {
		return Value{Kind: c.Kind, Currency: v.Currency}
	}
	return v
}

// csvEncoder writes what WriteCSV describes.
type csvEncoder struct {
	out   *csv.Writer
	cells []string
}

func (e *csvEncoder) begin(r *Report) error {
	e.out.UseCRLF = true
	e.cells = make([]string, len(r.Columns))
	for i, c := range r.Columns {
		e.cells[i] = c.Key
	}
	return e.out.Write(e.cells)
}

func (e *csvEncoder) row(_ *Report, row []Value) error {
	for i, v := range row {
		e.cells[i] = v.csv()
	}
	return e.out.Write(e.cells)
}

func (e *csvEncoder) end(*Report) error {
	e.out.Flush()
	return e.out.Error()
}

// frenchEncoder writes what WriteFrenchCSV describes.
type frenchEncoder struct{ out *bufio.Writer }

func (e *frenchEncoder) begin(r *Report) error {
	_, _ = e.out.WriteString(byteOrderMark) // Flush gives the first error
	for i, c := range r.Columns {
		if i > 0 {
			_ = e.out.WriteByte(';')
		}
		_, _ = e.out.WriteString(frenchQuoted(c.Title.FR))
	}
	_, err := e.out.WriteString("\r\n")
	return err
}

func (e *frenchEncoder) row(r *Report, row []Value) error {
	for i, v := range row {
		if i > 0 {
			_ = e.out.WriteByte(';')
		}
		_, _ = e.out.WriteString(r.frenchCell(v))
	}
	_, err := e.out.WriteString("\r\n")
	return err
}

func (e *frenchEncoder) end(*Report) error { return e.out.Flush() }

// jsonEncoder writes what WriteJSON describes, indented.
type jsonEncoder struct {
	out  *bufio.Writer
	keys [][]byte
	line []byte
	some bool
}

// noRows is where the rows of an indented report belong. No value holds it: its quotes
// would be escaped.
const noRows = "\n  \"rows\": []"

func (r *Report) withoutRows() (before, after string, err error) {
	whole := *r
	whole.Rows = nil
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(whole); err != nil {
		return "", "", err
	}
	before, after, found := strings.Cut(b.String(), noRows)
	if !found {
		err = errors.New("a report without a place for its rows") // our own bug
	}
	return before, after, err
}

func (e *jsonEncoder) begin(r *Report) error {
	head := *r
	head.Totals = nil // they come after the rows
	before, _, err := head.withoutRows()
	if err != nil {
		return err
	}
	for _, c := range r.Columns {
		e.keys = append(e.keys, append(quoted(c.jsonKey()), ": "...))
	}
	_, err = e.out.WriteString(before + strings.TrimSuffix(noRows, "]"))
	return err
}

func (e *jsonEncoder) row(r *Report, row []Value) error {
	b := e.line[:0]
	if e.some {
		b = append(b, ',')
	}
	e.some = true
	b = append(b, "\n    {"...)
	for i, v := range row {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(b, "\n      "...), e.keys[i]...)
		if b = v.appendJSON(b); v.Holes > 0 {
			b = fmt.Appendf(b, ",\n      %s: %d", quoted(r.Columns[i].jsonKey()+"_unknown"), v.Holes)
		}
	}
	e.line = append(b, "\n    }"...)
	_, err := e.out.Write(e.line)
	return err
}

func (e *jsonEncoder) end(r *Report) error {
	_, after, err := r.withoutRows()
	if err != nil {
		return err
	}
	if e.some {
		_, _ = e.out.WriteString("\n  ") // Flush gives the first error
	}
	_, _ = e.out.WriteString("]" + after)
	return e.out.Flush()
}

// tableEncoder writes what WriteTable describes. It looks at all rows first, for a column is
// as wide as its widest cell.
type tableEncoder struct {
	out    *bufio.Writer
	lang   money.Language
	some   []bool // columns with a word or a number
	widths []int  // in characters
	shown  []int
	empty  []string
}

func (e *tableEncoder) measure(r *Report, row []Value) {
	if e.some == nil {
		e.some, e.widths = make([]bool, len(r.Columns)), make([]int, len(r.Columns))
	}
	for i, v := range row {
		words := r.Words(v, e.lang, money.Receipt)
		e.some[i] = e.some[i] || words != "" && v.Known
		e.widths[i] = max(e.widths[i], utf8.RuneCountInString(words))
	}
}

func (e *tableEncoder) begin(r *Report) error {
	_, _ = fmt.Fprintf(e.out, "%s, %s%s\n", r.Title.In(e.lang), r.Made.In(r.Zone).Format("2006-01-02 15:04:05 MST"), r.filterWords()) // Flush gives the first error
	if r.Parts != nil {
		words := make([]string, len(r.Parts))
		for i, p := range r.Parts {
			words[i] = fmt.Sprintf("%d %s", p.Count, p.Title.In(e.lang))
		}
		_, _ = fmt.Fprintf(e.out, "%d = %s\n", r.count, strings.Join(words, " + "))
	}
	if e.some == nil {
		e.some, e.widths = make([]bool, len(r.Columns)), make([]int, len(r.Columns))
	}
	titles, deepest := make([][]string, len(r.Columns)), 0
	for i, c := range r.Columns {
		if !e.some[i] && r.count > 0 {
			e.empty = append(e.empty, c.Title.In(e.lang))
			continue
		}
		e.shown = append(e.shown, i)
		titles[i] = wrap(c.Title.In(e.lang), 11)
		deepest = max(deepest, len(titles[i]))
		for _, line := range titles[i] {
			e.widths[i] = max(e.widths[i], utf8.RuneCountInString(line))
		}
	}
	totals := r.totalWords(e.lang, e.shown)
	for _, line := range totals {
		for at, i := range e.shown {
			e.widths[i] = max(e.widths[i], utf8.RuneCountInString(line[at]))
		}
	}
	for n := range deepest {
		cells := make([]string, len(e.shown))
		for at, i := range e.shown {
			if n < len(titles[i]) {
				cells[at] = titles[i][n]
			}
		}
		e.line(r, cells)
	}
	return nil
}

// line writes a line of cells, numbers padded on the left so that digits stand under digits.
func (e *tableEncoder) line(r *Report, cells []string) {
	var b strings.Builder
	for at, i := range e.shown {
		pad := strings.Repeat(" ", max(0, e.widths[i]-utf8.RuneCountInString(cells[at])))
		switch r.Columns[i].Kind {
		case KindText, KindTime, KindDay:
			b.WriteString(cells[at] + pad)
		default:
			b.WriteString(pad + cells[at])
		}
		b.WriteString("  ")
	}
	_, _ = e.out.WriteString(strings.TrimRight(b.String(), " ") + "\n")
}

func (e *tableEncoder) row(r *Report, row []Value) error {
	cells := make([]string, len(e.shown))
	for at, i := range e.shown {
		cells[at] = r.Words(row[i], e.lang, money.Receipt)
	}
	e.line(r, cells)
	return nil
}

func (e *tableEncoder) end(r *Report) error {
	for _, line := range r.totalWords(e.lang, e.shown) {
		e.line(r, line)
	}
	if len(e.empty) > 0 && r.count > 0 {
		_, _ = fmt.Fprintf(e.out, "%s: %s\n", Text{"Colonnes vides", "Empty columns"}.In(e.lang), strings.Join(e.empty, ", "))
	}
	return e.out.Flush()
}

// totalWords are the totals' cells of some columns.
func (r *Report) totalWords(lang money.Language, columns []int) [][]string {
	var lines [][]string
	for _, row := range r.Totals {
		line := make([]string, len(columns))
		for at, i := range columns {
			switch line[at] = r.Words(row[i], lang, money.Receipt); {
			case at == 0:
				line[at] = Text{"TOTAL", "TOTAL"}.In(lang)
			case !row[i].Known && row[i].Holes == 0:
				line[at] = ""
			}
		}
		lines = append(lines, line)
	}
	return lines
}
