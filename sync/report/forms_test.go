package report

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/xuri/excelize/v2"

	"grattoir/validate/money"
)

// testFormsAgree: every kind of report says the same in each form, cell by cell, and so it
// does with a filter.
func testFormsAgree(t *testing.T, s *store) {
	for _, a := range Kinds() {
		filters := []Filter{{}}
		if a.Name == "settlement" || a.Name == "payouts" {
			filters = append(filters, goldenViews()[a.Name])
		}
		for _, f := range filters {
			r := make1(t, s, a.Name, f)
			if len(r.Rows) > 120 {
				r.Rows = r.Rows[:120]
			}
			want := canonical(r)
			for form, got := range map[string][][]string{"csv": fromCSV(t, r, CSV), "csv-fr": fromCSV(t, r, CSVFrench), "json": fromJSON(t, r), "xlsx": fromXLSX(t, r)} {
				compareCells(t, a.Name+" "+form, r, got, want)
			}
			tableAgrees(t, r)
		}
	}
}

// canonical is each cell as the machine's CSV has it, without its guard.
func canonical(r Report) [][]string {
	var rows [][]string
	for _, row := range r.Rows {
		cells := make([]string, len(row))
		for i, v := range row {
			if cells[i] = v.csv(); v.Kind == KindText && v.Known {
				cells[i] = v.Text
			}
		}
		rows = append(rows, cells)
	}
	return rows
}

func compareCells(t *testing.T, name string, r Report, got, want [][]string) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d rows, want %d", name, len(got), len(want))
	}
	for n := range want {
		for i, c := range r.Columns {
			w := want[n][i]
			if c.Kind == KindTime && w != "" && (strings.HasSuffix(name, "csv-fr") || strings.HasSuffix(name, "xlsx")) {
				w, _, _ = strings.Cut(w, ".") // people get whole seconds
			}
			if g := got[n][i]; g != w {
				t.Fatalf("%s row %d %s: %q, want %q", name, n+1, c.Key, g, w)
			}
		}
	}
}

func fromCSV(t *testing.T, r Report, form Format) [][]string {
	t.Helper()
	text := written(t, r, form)
	in := csv.NewReader(bytes.NewReader(bytes.TrimPrefix(text, []byte(byteOrderMark))))
	if form == CSVFrench {
		if !bytes.HasPrefix(text, []byte(byteOrderMark)) {
			t.Fatal("no byte order mark")
		}
		in.Comma = ';'
	}
	rows, err := in.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows[1:] {
		for i, cell := range row {
			cell = strings.TrimPrefix(cell, "'")
			if form == CSVFrench {
				cell = fromFrench(t, r, r.Columns[i].Kind, cell)
			}
			row[i] = cell
		}
	}
	return rows[1:]
}

// fromFrench reads a cell as a French Excel would show it.
func fromFrench(t *testing.T, r Report, kind Kind, cell string) string {
	t.Helper()
	if text, ok := strings.CutPrefix(cell, `="`); ok {
		return strings.TrimSuffix(text, `"`)
	}
	if cell == "" {
		return ""
	}
	switch kind {
	case KindMoney, KindDecimal, KindDuration:
		return strings.ReplaceAll(cell, ",", ".")
	case KindDay:
		at, err := time.Parse("02/01/2006", cell)
		if err != nil {
			t.Fatal(err)
		}
		return at.Format(time.DateOnly)
	case KindTime:
		at, err := time.ParseInLocation("02/01/2006 15:04:05", cell, r.Zone)
		if err != nil {
			t.Fatal(err)
		}
		return at.UTC().Format("2006-01-02T15:04:05")
	}
	return cell
}

func fromJSON(t *testing.T, r Report) [][]string {
	t.Helper()
	var parsed struct{ Rows []map[string]json.RawMessage }
	if err := json.Unmarshal(written(t, r, JSON), &parsed); err != nil {
		t.Fatal(err)
	}
	var rows [][]string
	for n, row := range parsed.Rows {
		var cells []string
		for i, c := range r.Columns {
			raw := string(row[c.jsonKey()])
			var text string
			switch {
			case raw == "null":
			case strings.HasPrefix(raw, `"`):
				if err := json.Unmarshal([]byte(raw), &text); err != nil {
					t.Fatal(err)
				}
			case c.Kind == KindMoney:
				minor, err := strconv.ParseInt(raw, 10, 64)
				if err != nil {
					t.Fatal(err)
				}
				text = money.Text(money.Amount(minor), r.Rows[n][i].Currency, money.English, money.Plain)
			case c.Kind == KindDuration:
				ms, err := strconv.ParseInt(raw, 10, 64)
				if err != nil {
					t.Fatal(err)
				}
				text = decimalText(ms, ".")
			default:
				text = raw
			}
			cells = append(cells, text)
		}
		rows = append(rows, cells)
	}
	return rows
}

// fromXLSX reads the workbook's own numbers and types.
func fromXLSX(t *testing.T, r Report) [][]string {
	t.Helper()
	var b bytes.Buffer
	if err := r.WriteXLSX(&b, money.French); err != nil {
		t.Fatal(err)
	}
	f, err := excelize.OpenReader(&b)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	in, err := f.Rows(r.Name)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	var rows [][]string
	for n := -1; in.Next(); n++ {
		raw, err := in.Columns(excelize.Options{RawCellValue: true})
		if err != nil {
			t.Fatal(err)
		}
		if n < 0 {
			continue
		}
		cells := make([]string, len(r.Columns))
		for i := range min(len(raw), len(cells)) {
			cells[i] = fromCell(t, r, r.Columns[i].Kind, r.Rows[n][i], raw[i])
		}
		rows = append(rows, cells)
	}
	// Text cells are texts, numbers numbers: the first row is looked at, cell by cell.
	for i, v := range r.Rows[0] {
		at, err := excelize.CoordinatesToCellName(i+1, 2)
		if err != nil {
			t.Fatal(err)
		}
		kind, err := f.GetCellType(r.Name, at)
		if text := kind == excelize.CellTypeInlineString || kind == excelize.CellTypeSharedString; err != nil || v.Known && v.Text != "" && text != (v.Kind == KindText) {
			t.Errorf("%s %s: cell type %v of a %s, %v", r.Name, r.Columns[i].Key, kind, v.Kind, err)
		}
	}
	return rows
}

func fromCell(t *testing.T, r Report, kind Kind, v Value, raw string) string {
	t.Helper()
	if raw == "" || kind == KindText || kind == KindInt {
		return raw
	}
	number, err := strconv.ParseFloat(raw, 64)
	if err != nil {
		t.Fatalf("%s: %q is no number", kind, raw)
	}
	switch kind {
	case KindDay, KindTime:
		at, err := excelize.ExcelDateToTime(number, false)
		if err != nil {
			t.Fatal(err)
		}
		if kind == KindDay {
			return at.Format(time.DateOnly)
		}
		at = at.Round(time.Second)
		return time.Date(at.Year(), at.Month(), at.Day(), at.Hour(), at.Minute(), at.Second(), 0, r.Zone).UTC().Format("2006-01-02T15:04:05")
	case KindMoney:
		_, decimals, _ := strings.Cut(v.csv(), ".")
		return strconv.FormatFloat(number, 'f', len(decimals), 64)
	}
	return strconv.FormatFloat(number, 'f', 3, 64)
}

// tableAgrees: each line holds the words of its row's cells, in order.
func tableAgrees(t *testing.T, r Report) {
	t.Helper()
	lines := strings.Split(string(written(t, r, Table)), "\n")
	at := 0
	e := &tableEncoder{out: bufio.NewWriter(io.Discard), lang: money.English}
	if err := r.encode(e); err != nil {
		t.Fatal(err)
	}
	shown := e.shown
	for n, row := range r.Rows {
		for ; at < len(lines) && !holds(lines[at], r, row, shown); at++ {
		}
		if at == len(lines) {
			t.Fatalf("%s: row %d is not in the table", r.Name, n+1)
		}
		at++
	}
}

func holds(line string, r Report, row []Value, shown []int) bool {
	for _, i := range shown {
		words := r.Words(row[i], money.English, money.Receipt)
		_, rest, found := strings.Cut(line, words)
		if !found {
			return false
		}
		line = rest
	}
	return true
}

// TestTextsOfOthersRunNowhere: what a clerk or a terminal wrote is text in every form.
func TestTextsOfOthersRunNowhere(t *testing.T) {
	texts := []string{"=1+1", "+33", "-2", "@SUM(A1)", "\tx", "0000123", "1E5", "12/11", "a;b", `say "no"`, "line\nbreak", "plain"}
	r := Report{Name: "x", Zone: Paris(), Made: fleetNow, Columns: []Column{{Key: "text", Kind: KindText, Title: Text{"texte", "text"}}}}
	for _, text := range texts {
		r.Rows = append(r.Rows, []Value{textValue(text)})
	}
	want := "\ufefftexte\r\n'=1+1\r\n'+33\r\n'-2\r\n'@SUM(A1)\r\n?x\r\n\"=\"\"0000123\"\"\"\r\n\"=\"\"1E5\"\"\"\r\n\"=\"\"12/11\"\"\"\r\n\"a;b\"\r\n\"say \"\"no\"\"\"\r\nline?break\r\nplain\r\n"
	if got := string(written(t, r, CSVFrench)); got != want {
		t.Errorf("%q\nwant %q", got, want)
	}
	var b bytes.Buffer
	if err := r.WriteXLSX(&b, money.French); err != nil {
		t.Fatal(err)
	}
	f, err := excelize.OpenReader(&b)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for i, text := range texts {
		at, err := excelize.CoordinatesToCellName(1, i+2)
		if err != nil {
			t.Fatal(err)
		}
		formula, err1 := f.GetCellFormula("x", at)
		value, err2 := f.GetCellValue("x", at)
		if err1 != nil || err2 != nil || formula != "" || value != clean(text) {
			t.Errorf("%q is the formula %q, the value %q, %v %v", text, formula, value, err1, err2)
		}
	}
}
