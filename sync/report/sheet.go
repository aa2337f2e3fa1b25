package report

import (
	"archive/zip"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/xuri/excelize/v2"

	"grattoir/validate/money"
)

// byteOrderMark tells a French Excel that a CSV file is UTF-8.
const byteOrderMark = "\xEF\xBB\xBF"

// WriteFrenchCSV writes the rows for an Excel set to French: semicolons, decimal commas,
// French headings, days as 28/11/2026 and times in the report's zone. Durations are
// seconds. A text that Excel would turn into a number or a day, as 0000123 or 1E5, is
// written as ="0000123", which it shows as it is; one that it would take for a formula has
// an apostrophe in front.
func (r Report) WriteFrenchCSV(w io.Writer) error { return r.WriteIn(w, CSVFrench, money.French) }

// looksLikeNumber matches what Excel may read as another thing than text.
var looksLikeNumber = regexp.MustCompile(`^[0-9][0-9eE+./: -]*$`)

func (r *Report) frenchCell(v Value) string {
	if !v.Known {
		return ""
	}
	switch v.Kind {
	case KindText:
		text := clean(v.Text)
		if text != "" && text[0] >= '0' && text[0] <= '9' && looksLikeNumber.MatchString(text) {
			return frenchQuoted(`="` + text + `"`)
		}
		return frenchQuoted(harmless(text))
	case KindDay:
		return frenchDay(v.Text)
	case KindTime:
		return v.Time.In(r.Zone).Format("02/01/2006 15:04:05")
	case KindDecimal:
		return decimalText(v.Int, ",")
	case KindDuration:
		return decimalText(v.Int, ",")
	case KindMoney:
		return strings.ReplaceAll(v.csv(), ".", ",")
	}
	return strconv.FormatInt(v.Int, 10)
}

func frenchDay(text string) string {
	t, err := time.Parse(time.DateOnly, text)
	if err != nil {
		return ""
	}
	return t.Format("02/01/2006")
}

// frenchQuoted quotes a cell where RFC 4180 asks for it, with ; in the comma's place.
func frenchQuoted(text string) string {
	if !strings.ContainsAny(text, ";\"\r\n") {
		return text
	}
	return `"` + strings.ReplaceAll(text, `"`, `""`) + `"`
}

// sheetStyles are a workbook's styles, by number.
type sheetStyles struct {
	head, day, at, seconds, decimal int
	money                           map[int]int // by the currency's digits
}

func newSheetStyles(f *excelize.File) (s sheetStyles, err error) {
	s.money = map[int]int{}
	style := func(format string, bold bool) (n int) {
		if err != nil {
			return 0
		}
		x := &excelize.Style{}
		if format != "" {
			x.CustomNumFmt = &format
		}
		if bold {
			x.Font = &excelize.Font{Bold: true}
		}
		n, err = f.NewStyle(x)
		return n
	}
	s.head, s.day, s.at, s.seconds, s.decimal = style("", true), style("yyyy\\-mm\\-dd", false), style("yyyy\\-mm\\-dd hh:mm:ss", false), style("0.000", false), style("0.000", false)
	for digits, format := range map[int]string{0: "#,##0", 2: "#,##0.00", 3: "#,##0.000"} {
		s.money[digits] = style(format, false)
	}
	return s, err
}

// WriteXLSX writes a workbook: a sheet of the rows with typed cells, and one that says what
// they are, with the totals. Identifiers are texts, so that none loses its zeros; a text is
// never a formula. Days and times, in the report's zone, are dates; amounts are numbers in
// whole units of their currency; durations are seconds. Rows are streamed.
func (r Report) WriteXLSX(w io.Writer, lang money.Language) error { return r.WriteIn(w, XLSX, lang) }

// sheetEncoder writes a workbook. What the rows come to in it lies in a file of excelize's
// once it is large.
type sheetEncoder struct {
	w      io.Writer
	lang   money.Language
	file   *excelize.File
	styles sheetStyles
	out    *excelize.StreamWriter
	line   int
	cells  []any
}

func (e *sheetEncoder) about() string { return Text{"à propos", "about"}.In(e.lang) }

func (e *sheetEncoder) begin(r *Report) (err error) {
	e.file = excelize.NewFile()
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("sheet %s: %w", r.Name, err), e.file.Close())
		}
	}()
	made := r.Made.UTC().Format(time.RFC3339)
	if err := e.file.SetDocProps(&excelize.DocProperties{Creator: "Grattoir", Title: r.Title.In(e.lang), Created: made, Modified: made}); err != nil {
		return err
	}
	if e.styles, err = newSheetStyles(e.file); err != nil {
		return err
	}
	if err := e.file.SetSheetName("Sheet1", r.Name); err != nil {
		return err
	}
	if _, err := e.file.NewSheet(e.about()); err != nil {
		return err
	}
	if e.out, err = e.file.NewStreamWriter(r.Name); err != nil {
		return err
	}
	for i, c := range r.Columns {
		if err := e.out.SetColWidth(i+1, i+1, float64(min(max(len(c.Title.In(e.lang))+2, 12), 40))); err != nil {
			return err
		}
	}
	if err := e.out.SetPanes(&excelize.Panes{Freeze: true, YSplit: 1, TopLeftCell: "A2", ActivePane: "bottomLeft"}); err != nil {
		return err
	}
	e.line, e.cells = 1, make([]any, len(r.Columns))
	return e.out.SetRow("A1", r.sheetHead(e.styles, e.lang))
}

// maxSheetRows is how many rows a workbook's sheet has, after its head.
const maxSheetRows = 1<<20 - 1

func (e *sheetEncoder) row(r *Report, row []Value) (err error) {
	if e.line > maxSheetRows {
		err = fmt.Errorf("%w: a workbook has %d rows at most: choose fewer days, a shop or a game, or CSV", ErrTooLarge, maxSheetRows)
	}
	for i, v := range row {
		e.cells[i] = r.sheetCell(v, e.styles)
	}
	e.line++
	if err == nil {
		err = e.out.SetRow("A"+strconv.Itoa(e.line), e.cells)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("sheet %s: %w", r.Name, err), e.file.Close())
	}
	return nil
}

func (e *sheetEncoder) end(r *Report) (err error) {
	defer func() { err = errors.Join(err, e.file.Close()) }()
	if err := e.out.Flush(); err != nil {
		return fmt.Errorf("sheet %s: %w", r.Name, err)
	}
	if err := r.sheetOfTotals(e.file, e.about(), e.styles, e.lang); err != nil {
		return fmt.Errorf("sheet %s: %w", e.about(), err)
	}
	// Otherwise the whole workbook would be put together in memory.
	e.file.SetZipWriter(func(io.Writer) excelize.ZipWriter { return zip.NewWriter(e.w) })
	return e.file.Write(io.Discard)
}

func (r Report) sheetHead(styles sheetStyles, lang money.Language) []any {
	head := make([]any, len(r.Columns))
	for i, c := range r.Columns {
		head[i] = excelize.Cell{StyleID: styles.head, Value: c.Title.In(lang)}
	}
	return head
}

// sheetCell is a value as a typed cell, nil for unknown.
func (r Report) sheetCell(v Value, styles sheetStyles) any {
	if !v.Known {
		return nil
	}
	switch v.Kind {
	case KindText:
		return clean(v.Text)
	case KindDay:
		t, err := time.Parse(time.DateOnly, v.Text)
		if err != nil {
			return v.Text
		}
		return excelize.Cell{StyleID: styles.day, Value: t}
	case KindTime:
		// A workbook knows no zones: the time is written as a clock on the wall shows it.
		at := v.Time.In(r.Zone)
		return excelize.Cell{StyleID: styles.at, Value: time.Date(at.Year(), at.Month(), at.Day(), at.Hour(), at.Minute(), at.Second(), 0, time.UTC)}
	case KindDuration:
		return excelize.Cell{StyleID: styles.seconds, Value: float64(v.Int) / 1000}
	case KindDecimal:
		return excelize.Cell{StyleID: styles.decimal, Value: float64(v.Int) / 1000}
	case KindMoney:
		// Read from the text: a division could end a cent beside it.
		text := v.csv()
		_, decimals, _ := strings.Cut(text, ".")
		amount, err := strconv.ParseFloat(text, 64)
		if err != nil || v.Int > 1e15 || v.Int < -1e15 {
			return text // more digits than a cell's number holds
		}
		return excelize.Cell{StyleID: styles.money[len(decimals)], Value: amount}
	}
	return v.Int
}

// sheetOfTotals says what the rows are.
func (r Report) sheetOfTotals(f *excelize.File, name string, styles sheetStyles, lang money.Language) error {
	out, err := f.NewStreamWriter(name)
	if err != nil {
		return err
	}
	if err := out.SetColWidth(1, max(2, len(r.Columns)), 20); err != nil {
		return err
	}
	line := 0
	put := func(cells ...any) {
		line++
		if err == nil {
			err = out.SetRow("A"+strconv.Itoa(line), cells)
		}
	}
	put(excelize.Cell{StyleID: styles.head, Value: r.Title.In(lang)})
	put(Text{"fait", "made"}.In(lang), r.sheetCell(timeValue(r.Made), styles), r.Zone.String())
	put(Text{"lignes", "rows"}.In(lang), r.count)
	set := r.Filter.set()
	for _, key := range []string{"terminal", "shop", "region", "game", "block", "from", "to", "by"} {
		if text, ok := set[key]; ok {
			put(key, clean(text))
		}
	}
	for _, p := range r.Parts {
		put(p.Title.In(lang), p.Count)
	}
	if len(r.Totals) > 0 {
		put()
		put(excelize.Cell{StyleID: styles.head, Value: Text{"TOTAUX", "TOTALS"}.In(lang)})
		put(r.sheetHead(styles, lang)...)
	}
	for _, row := range r.Totals {
		cells := make([]any, len(row))
		for i, v := range row {
			cells[i] = r.sheetCell(v, styles)
		}
		put(cells...)
	}
	if err != nil {
		return err
	}
	return out.Flush()
}
