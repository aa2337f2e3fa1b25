package game

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"grattoir/validate/money"
)

// Audit compares every printed figure of the table with the others and returns
// what disagrees: row totals, the number of prizes, the grand total. The index is
// the table's place in its game and is only copied into the findings.
func (t Table) Audit(index int) []Finding {
	var found []Finding
	var wrong []int // rows whose own figures disagree
	for i, row := range t.Rows {
		product, err := row.Amount.Times(row.Count)
		if err != nil {
			found = append(found, t.finding(RowTotal, index, i, "", "", fmt.Sprintf("row %d: %v", i+1, err)))
			continue
		}
		if row.PrintedTotal == nil || *row.PrintedTotal == product {
			continue
		}
		wrong = append(wrong, i)
		printed, computed := t.text(*row.PrintedTotal), t.text(product)
		found = append(found, t.finding(RowTotal, index, i, printed, computed,
			fmt.Sprintf("row %d: %s x %s is %s, but the row's total is printed as %s", i+1, countText(row.Count), t.text(row.Amount), computed, printed)))
	}
	found = append(found, t.auditSums(index)...)
	if misprint, ok := t.misprintedCount(index, wrong); ok {
		found = append(found, misprint)
	}
	return found
}

// auditSums compares the sums over all rows with the printed ones.
func (t Table) auditSums(index int) []Finding {
	if len(t.Rows) == 0 {
		return nil
	}
	var found []Finding
	var others int64 // prizes that are no money, which a printed sum may include
	for _, prize := range t.NonCash {
		others += min(prize.Count, 1<<40)
	}
	count, err := t.Count()
	switch {
	case err != nil:
		found = append(found, t.finding(CountSum, index, -1, "", "", err.Error()))
	case t.PrintedCount != nil && *t.PrintedCount != count && *t.PrintedCount != count+others:
		printed, computed := countText(*t.PrintedCount), countText(count)
		found = append(found, t.finding(CountSum, index, -1, printed, computed,
			fmt.Sprintf("the rows hold %s prizes, but %s are printed", computed, printed)))
	case t.BlockSize != nil && count > *t.BlockSize:
		printed, computed := countText(*t.BlockSize), countText(count)
		found = append(found, t.finding(CountSum, index, -1, printed, computed,
			fmt.Sprintf("the rows hold %s prizes, more than the block's %s", computed, printed)))
	}
	total, err := t.Total()
	switch {
	case err != nil:
		found = append(found, t.finding(TotalSum, index, -1, "", "", err.Error()))
	case t.PrintedTotal != nil && *t.PrintedTotal != total && !t.inKindExplains(*t.PrintedTotal, total):
		printed, computed := t.text(*t.PrintedTotal), t.text(total)
		found = append(found, t.finding(TotalSum, index, -1, printed, computed,
			fmt.Sprintf("the prizes add up to %s, but %s is printed", computed, printed)))
	}
	return found
}

// inKindExplains reports whether prizes that are no money make up for the
// difference: exactly when all their values are known, else by being more.
func (t Table) inKindExplains(printed, total money.Amount) bool {
	if len(t.NonCash) == 0 {
		return false
	}
	for _, prize := range t.NonCash {
		if prize.Amount == nil {
			return printed >= total
		}
		value, err := prize.Amount.Times(prize.Count)
		if err == nil {
			total, err = total.Add(value)
		}
		if err != nil {
			return false
		}
	}
	return printed == total
}

// misprintedCount looks for the one count that explains everything: the single
// row whose total disagrees, where the count its total leads to makes both
// printed sums right. The row itself keeps the printed count.
func (t Table) misprintedCount(index int, wrong []int) (Finding, bool) {
	if len(wrong) != 1 || t.PrintedCount == nil {
		return Finding{}, false
	}
	at := wrong[0]
	row := t.Rows[at]
	if row.Amount <= 0 || *row.PrintedTotal%row.Amount != 0 {
		return Finding{}, false
	}
	fixed := t
	fixed.Rows = append([]Row(nil), t.Rows...)
	fixed.Rows[at].Count = int64(*row.PrintedTotal / row.Amount)
	if fixed.Rows[at].Count < 1 || len(fixed.auditSums(index)) > 0 {
		return Finding{}, false
	}
	printed, computed := countText(row.Count), countText(fixed.Rows[at].Count)
	return t.finding(CountMisprint, index, at, printed, computed,
		fmt.Sprintf("row %d: the count %s is probably a misprint: with %s the row's total and both sums are right", at+1, printed, computed)), true
}

// finding makes a finding on a table, or on a row when row is not negative.
func (t Table) finding(code FindingCode, table, row int, printed, computed, message string) Finding {
	f := Finding{Code: code, Table: &table, Printed: known(printed), Computed: known(computed), Message: message}
	if row >= 0 {
		f.Row = &row
	}
	return f
}

func (t Table) text(a money.Amount) string {
	return money.Text(a, t.Currency, money.French, money.Receipt)
}

// countText groups a count's digits with plain spaces, as regulations print them.
func countText(n int64) string {
	digits := strconv.FormatInt(n, 10)
	var b strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 && digits[i-1] != '-' {
			b.WriteByte(' ')
		}
		b.WriteRune(d)
	}
	return b.String()
}

// weight says whether a finding means that rows are missing (incomplete), or
// that figures disagree (inconsistent), or neither: a slip of the wording, such as
// a count whose computed value is not another, leaves the figures as they are.
func (f Finding) weight() (incomplete, inconsistent bool) {
	switch f.Code {
	case RowsMissing, Truncated:
		return true, false
	case RowTotal, CountSum, TotalSum, ShareSum:
		return false, true
	case CountMisprint:
		return false, f.Computed != nil
	}
	return false, false
}

// Judge is the status that the tables and findings lead to.
func (g Game) Judge() Status {
	if len(g.Tables) == 0 {
		return NoTable
	}
	inconsistent := false
	for _, f := range g.Findings {
		lacks, differs := f.weight()
		if lacks {
			return Incomplete
		}
		inconsistent = inconsistent || differs
	}
	for _, t := range g.Tables {
		if len(t.Rows) == 0 {
			return Incomplete
		}
	}
	if inconsistent {
		return Inconsistent
	}
	return Complete
}

// Validate says what is wrong with the value itself, whoever made it: words
// outside their lists, counts or sums that cannot be, a status better than the
// figures, a disagreement that no finding names. All errors come joined.
func (g Game) Validate() error {
	var errs []error
	complain := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if g.ID != Slug(g.Name) {
		complain("id %q: the name %q makes it %q", g.ID, g.Name, Slug(g.Name))
	}
	switch g.Kind {
	case Regulation, Amendment, Notice, Other:
	default:
		complain("kind %q: want regulation, amendment, notice or other", g.Kind)
	}
	switch g.Channel {
	case "", Ticket, Internet:
	default:
		complain("channel %q: want ticket or internet, or leave it out", g.Channel)
	}
	if want := g.Judge(); g.Status != want {
		complain("status %q: the tables and findings make it %q", g.Status, want)
	}
	if err := g.validateEmissions(); err != nil {
		errs = append(errs, err)
	}
	named := map[mark]bool{}
	for _, f := range g.Findings {
		named[f.mark()] = true
	}
	for i, t := range g.Tables {
		if err := t.validate(); err != nil {
			complain("table %d: %w", i+1, err)
		}
		for _, f := range t.Audit(i) {
			if !named[f.mark()] {
				complain("table %d: %s, and no finding %q says so", i+1, f.Message, f.Code)
			}
		}
	}
	for i, f := range g.Findings {
		if err := g.validateFinding(f); err != nil {
			complain("finding %d: %w", i+1, err)
		}
	}
	return errors.Join(errs...)
}

// mark is where a finding points, for comparison.
type mark struct {
	code       FindingCode
	table, row int // -1: none
}

func (f Finding) mark() mark {
	m := mark{f.Code, -1, -1}
	if f.Table != nil {
		m.table = *f.Table
	}
	if f.Row != nil {
		m.row = *f.Row
	}
	return m
}

func (g Game) validateFinding(f Finding) error {
	switch f.Code {
	case RowTotal, CountSum, TotalSum, CountMisprint, UnitMissing, NotMoney, ShareSum, RowsMissing, Truncated:
	default:
		return fmt.Errorf("code %q is not known", f.Code)
	}
	if f.Table == nil {
		if f.Row != nil {
			return errors.New("has a row but no table")
		}
		return nil
	}
	if *f.Table < 0 || *f.Table >= len(g.Tables) {
		return fmt.Errorf("table %d: the game has %d", *f.Table, len(g.Tables))
	}
	if f.Row != nil && (*f.Row < 0 || *f.Row >= len(g.Tables[*f.Table].Rows)) {
		return fmt.Errorf("row %d: the table has %d", *f.Row, len(g.Tables[*f.Table].Rows))
	}
	return nil
}

func (t Table) validate() error {
	var errs []error
	complain := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	switch t.Unit {
	case UnitTicket, UnitGame, UnitPack:
	default:
		complain("unit %q: want ticket, unit or pack", t.Unit)
	}
	if t.BlockSize != nil && *t.BlockSize < 1 {
		complain("block size %d: want 1 or more", *t.BlockSize)
	}
	if t.Currency != "" && (len(t.Currency) != 3 || strings.Trim(t.Currency, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "") {
		complain("currency %q: want the three capitals of ISO 4217", t.Currency)
	}
	if t.PrintedCount != nil && *t.PrintedCount < 0 {
		complain("printed number of prizes %d: negative", *t.PrintedCount)
	}
	if negative(t.Price) || negative(t.Stake) || negative(t.PrintedTotal) {
		complain("a negative price, stake or printed total")
	}
	for i, row := range t.Rows {
		if row.Count < 1 || row.Amount < 1 {
			complain("row %d: %d prizes of %d: want 1 or more of both", i+1, row.Count, row.Amount)
		}
	}
	for i, prize := range t.NonCash {
		if prize.Count < 1 {
			complain("non-cash prize %d: count %d", i+1, prize.Count)
		}
	}
	return errors.Join(errs...)
}

func negative(a *money.Amount) bool { return a != nil && *a < 0 }

// Slug makes a game's id from its name: lower case, accents dropped, words
// joined by hyphens, digits kept together over the spaces that group them:
// "Cash 20 000" is "cash-20000". A name with no letter or digit has none.
func Slug(name string) string {
	name = strings.NewReplacer("œ", "oe", "Œ", "oe", "æ", "ae", "Æ", "ae", "ß", "ss").Replace(name)
	runes := []rune(norm.NFD.String(strings.ToLower(name)))
	var b strings.Builder
	pending := false // a separator is due before the next letter or digit
	for i, r := range runes {
		switch {
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			if pending && b.Len() > 0 {
				b.WriteByte('-')
			}
			pending = false
			b.WriteRune(r)
		case unicode.Is(unicode.Mn, r):
		case unicode.IsSpace(r) && groupsDigits(runes, i):
		default:
			pending = true
		}
	}
	return b.String()
}

// groupsDigits reports whether the space at i stands before exactly three digits
// and after one, as in 20 000.
func groupsDigits(runes []rune, i int) bool {
	digit := func(at int) bool { return at >= 0 && at < len(runes) && runes[at] >= '0' && runes[at] <= '9' }
	return digit(i-1) && digit(i+1) && digit(i+2) && digit(i+3) && !digit(i+4)
}
