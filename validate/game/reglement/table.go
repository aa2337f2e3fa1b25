package reglement

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"grattoir/validate/game"
	"grattoir/validate/money"
)

// role is what a column of a table holds.
type role int

const (
	count role = iota
	amount
	total
	odds
	rank // the row's own number
)

// draft is a table being read. Its findings name rows but not yet their table.
type draft struct {
	game.Table
	at       int    // where it begins
	roles    []role // columns by the header, nil without one
	header   string // currency named in the header
	closed   bool   // its total row was read
	prose    bool   // its totals come from a sentence
	totals   bool   // rows have printed totals
	findings []game.Finding
	sums     []sumPlace
	rowsAt   []int
	odds     []oddsPlace
	doubted  []int // indexes of findings about cells that may have been a row
	end      int   // where its last piece is
}

// sumPlace remembers a sum's sign, to tell lost ones from a table without signs.
type sumPlace struct {
	sum
	row int // -1: the table's own total
	at  int
}

// oddsPlace is a printed chance, "one in"; row -1 is that of any prize.
type oddsPlace struct {
	sum
	row int
	at  int
}

// tableReader goes through the cells once. step is a state machine: what a cell
// means depends on the table that is open, and a cell may take those after it.
type tableReader struct {
	doc    *document
	cells  []cell
	tables []*draft
	open   *draft
	stake  *sum // named by the sentence before the next table
	refers bool // the text says that the table is printed elsewhere

	suspect int // index + 1 of a row's beginning that may have led to no row
}

var (
	rowHead    = regexp.MustCompile(`^(?:(?i:soit|et|ou)\s+)?(` + run + `) ?(?i:` + lots + `)\b(.*)$`)
	lotForm    = regexp.MustCompile(`^(?:(?i:soit|et|ou)\s+)?` + run + ` ?(?i:(lots|gains|primes)|lot|gain|prime)\b`)
	totalTail  = regexp.MustCompile(`(?i)^[ ,]*(?:formant|pour un|pour [0-9]|représentant|soit|au total|d'une valeur totale|en tout|totalisant|voor een totaal)\b.*?(?:de|van|:|soit|total)?\s*(` + run + `.*)?$`)
	amountTail = regexp.MustCompile(`(?i)^ ?(?:en (?:numéraire|espèces)\s*)?(?:d'un montant (?:de )?|d'une valeur (?:unitaire )?de |de\b|d'|à|van|of|[:x×])? ?(.*)$`)
	totalLabel = regexp.MustCompile(`(?i)^(?:soit,? )?(?:un )?(?:au total|en tout|total|totaal|totaux|ensemble)\b|^(?:TOTAL|TOTAAL)`)
	labelWords = regexp.MustCompile(`^[^0-9]*`)
	trailing   = regexp.MustCompile(`^(?:chacune?s?)?[ ,;.]*(?:et|soit(?: un total de)?)?$`) // words that may follow a row in a list
	amountOnly = regexp.MustCompile(`^[^:x×]+[:x×]$`)
	countWord  = regexp.MustCompile(`(?i)^(une?|deux|trois|quatre|cinq|six|sept|huit|neuf|dix) ((?:` + lots + `)\b.*)$`)
	oneChance  = regexp.MustCompile(`(?i)^(?:une?|1) ?(?:chance)? ?(?:sur|/|:|op|in) ?`)
	aside      = regexp.MustCompile(`\([^()]*\)`)
	lotWord    = regexp.MustCompile(`(?i)\b(?:` + lots + `)\b`)
	endMark    = regexp.MustCompile(`(?i)^(?:article|art\.) ?[0-9]|^[0-9]{1,2}(?:\.[0-9]{1,2}){1,4}\.?(?:\s+[^0-9\s€]|$)`) // "4.2.1. Le joueur", not "40.000 €"
	elsewhere  = regexp.MustCompile(`(?i)consulter le tableau|encart "?version PDF|tableau (?:ci-dessous|ci-après)`)
	stakeTail  = regexp.MustCompile(`(?i)\b(?:mises?|unités? de jeu|tickets?|prises? de jeu)\b[^.;|]{0,30}? (?:de|à) (` + run + `[^|]*)`)

	stakeHead = regexp.MustCompile(`(?i)^(?:[0-9.)]+ )?(?:tableaux?\b[^:0-9]{0,40} )?(?:pour (?:une|la) )?(?:mise|unité de jeu|prise de jeu)s? ?(?:de|à|:) ?((?:` + run + `) ?(?:` + sign + `)) ?:?$`)
	subTotal  = regexp.MustCompile(`(?i)^(?:sous[- ]total|à reporter|report)\b`)
	perTicket = regexp.MustCompile(`(?i)^ ?pour (?:` + run + `) (?:tickets?|billets?|unités?)\b`)

	headerRank   = regexp.MustCompile(`(?i)^(?:rangs?|rank|palier|niveau|tier|n°)$`)
	headerOdds   = regexp.MustCompile(`(?i)\bchances?\b|winstkans|probabilité|\bodds\b`)
	headerTotal  = regexp.MustCompile(`(?i)\btota(?:les?|ls?|ux|al)\b|\bcumulée?s?\b`)
	headerCount  = regexp.MustCompile(`(?i)\b(?:nombre|nb|aantal|number|quantité)\b.*\b(?:lots?|loten|prix|prizes|gagnants?|gains)\b`)
	headerAmount = regexp.MustCompile(`(?i)\b(?:montants?|bedrag|valeur|amount)\b|^gains?(?: unitaires?)?$|^(?:lot|prix|prize)s?$`)
	bareCount    = regexp.MustCompile(`(?i)^(?:lots|nombre|gagnants|quantité|winners)$`)
)

// tables reads the prize tables into g, with the findings of each.
func (d *document) tables(g *game.Game) {
	r := &tableReader{doc: d, cells: d.cells()}
	for i := 0; i < len(r.cells); {
		i = r.step(i)
	}
	r.close()
	r.tables = slices.DeleteFunc(r.tables, func(t *draft) bool {
		return !t.prose && t.roles == nil && !t.closed && len(t.Rows) < 2
	})
	r.dropOthers()
	r.belgian()
	f := d.prices(g)
	if len(r.tables) == 0 && (f.blockSize != nil || r.refers && f.price != nil) {
		r.tables = append(r.tables, &draft{prose: true, at: f.blockAt, end: f.blockAt})
	}
	if len(r.tables) > 1 && belgianText.MatchString(d.text) && !slices.ContainsFunc(r.tables, func(t *draft) bool { return t.Stake != nil }) {
		f.blockSize, f.price = nil, nil // a decree about several games: whose they are is not told
	}
	for i, t := range r.tables {
		t.complete(d, f, len(r.tables))
		t.settleDoubts()
		t.judgeUnits(d, f.currency)
		t.judgeOdds(d)
		t.judgeEnd(d, r.refers)
		audit := t.Audit(i)
		t.judgeShortfall(d, audit)
		for _, finding := range audit {
			at := t.end
			if finding.Row != nil && *finding.Row < len(t.rowsAt) {
				at = t.rowsAt[*finding.Row]
			}
			finding.Message = fmt.Sprintf("line %d: %s", d.line(at), finding.Message)
			t.findings = append(t.findings, finding)
		}
		for _, finding := range t.findings {
			finding.Table = &i
			g.Findings = append(g.Findings, finding)
		}
		g.Tables = append(g.Tables, t.Table)
	}
}

var (
	announced = regexp.MustCompile(`(?i)tableaux?\s+(?:des?\s+|d')?(?:lots|gains)|lots\s+(?:sont|est)\s+(?:les|le)\s+suivant|(?:^|\n)\s*lots\s*\n|proportion\s+de|nombre\s+de\s+lots|aantal\s+loten`)
	replaces  = regexp.MustCompile(`(?i)remplacée?s?\s+par`)
)

// dropOthers takes out what looks like a prize table and is none in force: the same table
// printed twice, the old one of a text that replaces it, and an example of a sum in the
// description of a game where another table has a head or is announced.
func (r *tableReader) dropOthers() {
	known := func(i int) bool {
		t, from := r.tables[i], 0
		if i > 0 {
			from = r.tables[i-1].end
		}
		return t.roles != nil || t.prose || t.Stake != nil || announced.MatchString(r.doc.text[min(max(from, t.at-300), t.at):t.at])
	}
	one := false
	for i := range r.tables {
		one = one || known(i)
	}
	var out []*draft
	for i, t := range r.tables {
		if i > 0 && one && !known(i) {
			continue
		}
		if n := len(out); n > 0 && len(t.Rows) > 0 {
			before := out[n-1]
			switch same := slices.EqualFunc(before.Rows, t.Rows, func(a, b game.Row) bool { return a.Count == b.Count && a.Amount == b.Amount }); {
			case same && before.Stake == nil && t.Stake == nil:
				continue
			case len(before.Rows) > 0 && before.end < t.at && replaces.MatchString(r.doc.text[before.end:t.at]):
				out = out[:n-1]
			}
		}
		out = append(out, t)
	}
	r.tables = out
}

// step reads the cell at i and returns the index after what it took.
func (r *tableReader) step(i int) int {
	c := r.cells[i]
	if c.sum != nil {
		r.close()
		r.tables = append(r.tables, c.sum.draft(r.doc))
		r.open = r.tables[len(r.tables)-1]
		return i + 1
	}
	if n, roles, currency := r.readHeader(i); n > 0 {
		if r.open == nil || r.open.closed || len(r.open.Rows) > 0 {
			r.begin(i)
		}
		r.open.roles, r.open.header, r.open.end = roles, currency, c.at
		r.scaledHead(i, n)
		return i + n
	}
	if m := countWord.FindStringSubmatch(c.text); m != nil {
		if n, ok := smallNumber(m[1]); ok && (n > 1 || r.active() || r.rowFollows(i)) {
			c.text = fmt.Sprint(n, " ", m[2])
			r.cells[i].text = c.text
		}
	}
	if next := r.amountFirst(i); next > i {
		return next
	}
	if subTotal.MatchString(c.text) && r.active() {
		return r.skipSubTotal(i)
	}
	if m := rowHead.FindStringSubmatch(c.text); m != nil {
		if perTicket.MatchString(m[2]) {
			return i + 1 // a chance in words
		}
		if tail := totalTail.FindStringSubmatch(m[2]); tail != nil {
			if r.active() {
				return r.totalRow(i, m[1], tail[1])
			}
		} else if next := r.row(i, m[1], m[2]); next > i {
			return next
		}
		return r.junk(i)
	}
	if r.active() && len(r.open.Rows)+len(r.open.NonCash) > 0 && totalLabel.MatchString(c.text) {
		return r.labelledTotals(i)
	}
	if r.active() && len(r.open.roles) >= 2 {
		if next := r.columns(i); next > i {
			return next
		}
	}
	return r.junk(i)
}

// scaledHead names a head whose sums are in thousands or cents: they are not read as
// what they are not.
func (r *tableReader) scaledHead(i, n int) {
	for _, c := range r.cells[i : i+n] {
		if scaledUnit.MatchString(c.text) {
			r.open.add(game.RowsMissing, -1, c.text, "", fmt.Sprintf("line %d: %q: the sums are in other units; write them out and import again", r.doc.line(c.at), c.text))
		}
	}
}

// totalOf matches a label in a cell of a column of totals.
var totalOf = regexp.MustCompile(`(?i)^total(?:\s+de)?\s*:?\s*`)

// totalsColumn reports whether the open table's head has a column of totals.
func (r *tableReader) totalsColumn() bool {
	return r.active() && slices.Contains(r.open.roles, total)
}

// soit matches what may stand before a row's total in its own cell.
var soit = regexp.MustCompile(`(?i)^(?:soit|=|:)\s*`)

var scaledUnit = regexp.MustCompile(`(?i)\bmilliers?\b|\bmillions?\b|\bk ?€|\bM ?€|\bcentimes?\b|\bcents?\b`)

// rowFollows reports whether a row begins soon behind the cell: "un lot de" is then one
// too, and no sentence.
func (r *tableReader) rowFollows(i int) bool {
	for _, c := range r.cells[i+1 : min(i+4, len(r.cells))] {
		if c.sum == nil && rowHead.MatchString(c.text) {
			return true
		}
	}
	return false
}

// skipSubTotal passes the cells of a subtotal, which is no prize.
func (r *tableReader) skipSubTotal(i int) int {
	next := i + 1
	for ; next < len(r.cells) && next <= i+3; next++ {
		_, isSum := wholeSum(r.cells[next].text)
		head := rowHead.FindStringSubmatch(r.cells[next].text)
		if !isSum && (head == nil || strings.HasPrefix(strings.TrimSpace(head[2]), "de") || strings.HasPrefix(strings.TrimSpace(head[2]), "d'")) {
			break // "300 lots de" is the next row, "42 lots" the subtotal's
		}
	}
	return next
}

// active reports whether rows may still join the open table.
func (r *tableReader) active() bool { return r.open != nil && !r.open.closed }

// begin opens a table at the cell i. The beginning of a row just before it that
// could not be read was the table's first row.
func (r *tableReader) begin(i int) {
	r.close()
	at := r.cells[i].at
	r.open = &draft{at: at, end: at}
	if from := r.suspect - 1; from >= 0 && from < i && i-from <= 4 {
		r.skipped(from, i)
	}
	r.suspect = 0
	if r.stake != nil {
		if stake, ok := r.stake.minor(); ok {
			r.open.Stake = &stake
		}
	}
	r.stake = nil
	r.tables = append(r.tables, r.open)
}

func (r *tableReader) close() { r.open = nil }

// readHeader recognizes a table's head: a cell about the number of prizes and
// neighbours about their amounts. It returns how many cells it has, 0 for none.
func (r *tableReader) readHeader(i int) (n int, roles []role, currency string) {
	for _, c := range r.cells[i:min(i+6, len(r.cells))] {
		what, ok := headerRole(c)
		if strings.EqualFold(c.text, "lots") && slices.ContainsFunc(r.cells[i:min(i+6, len(r.cells))], func(c cell) bool { return strings.EqualFold(c.text, "nombre") }) {
			what = rank
		}
		if !ok || slices.Contains(roles, what) {
			break
		}
		roles = append(roles, what)
		if currency == "" && strings.Contains(strings.ToLower(c.text), "euro") {
			currency = "EUR"
		}
	}
	if !slices.Contains(roles, count) || !slices.Contains(roles, amount) {
		return 0, nil, ""
	}
	return len(roles), roles, currency
}

func headerRole(c cell) (role, bool) {
	if c.sum != nil || len(c.text) > 120 || rowHead.MatchString(c.text) {
		return 0, false
	}
	digits := strings.ContainsAny(c.text, "0123456789")
	switch {
	case headerOdds.MatchString(c.text):
		return odds, true
	case headerRank.MatchString(c.text):
		return rank, true
	case digits:
		return 0, false
	case headerTotal.MatchString(c.text):
		return total, true
	case headerCount.MatchString(c.text), bareCount.MatchString(c.text):
		return count, true
	case headerAmount.MatchString(c.text):
		return amount, true
	}
	return 0, false
}

// row reads "N lots de X [= Y]", whose X and Y may be in the cells that follow.
// It returns i when this is no row of a table.
func (r *tableReader) row(i int, printed, tail string) int {
	rest := strings.Trim(amountTail.FindStringSubmatch(tail)[1], " ;")
	n, counted := integer(printed)
	next := i + 1
	if rest == "" && next < len(r.cells) && r.cells[next].cut {
		rest = r.uncut(next, n)
	}
	alone := rest == ""
	if alone {
		if next >= len(r.cells) {
			return next // the text stops here; judgeEnd names the truncated table
		}
		if r.cells[next].sum != nil || rowHead.MatchString(r.cells[next].text) {
			return r.unreadable(i, next, "has no amount")
		}
		rest = strings.TrimSpace(r.cells[next].text)
		next++
	}
	if whole := leadingRun.FindString(rest); whole != "" && strings.Trim(rest[len(whole):], " .;,") == "" {
		if a, t, _, ok := splitRun(whole, n, false); ok {
			rest = a + " = " + t
		}
	}
	s, after, ok := leadingSum(rest)
	if !ok {
		return r.doubt(i, r.otherPrize(i, next, n, rest), alone)
	}
	rowTotal, raw, after := r.rowTotal(&next, after)
	if clean := strings.TrimSpace(strings.Trim(after, ".,;)\" =»")); !trailing.MatchString(clean) {
		return r.doubt(i, i, alone) // words follow: a sentence about a prize, not a row
	}
	if !r.active() {
		r.begin(i)
	}
	if next >= len(r.cells) { // the last figure may be cut; judgeEnd names the truncated table
		switch {
		case rowTotal == nil && s.currency == "":
			return next
		case rowTotal != nil && rowTotal.currency == "":
			rowTotal = nil
		}
		raw = ""
	}
	r.skipOdds(&next)
	r.addRow(r.cells[i], n, counted, printed, s, rowTotal, raw)
	return next
}

// doubt remembers the beginning of a row that led to none, for begin.
func (r *tableReader) doubt(i, next int, alone bool) int {
	if alone && next == i {
		r.suspect = i + 1
	}
	return next
}

// rowTotal reads a row's total behind its amount or in the next cell. Raw is a
// total that cannot be read; rest is what follows in the amount's own cell.
func (r *tableReader) rowTotal(next *int, after string) (t *sum, raw, rest string) {
	after = strings.TrimLeft(strings.TrimSpace(aside.ReplaceAllString(after, "")), ",=:-–→ ")
	if s, beyond, ok := leadingSum(strings.TrimSpace(strings.TrimPrefix(after, "soit "))); ok {
		return &s, "", beyond
	}
	if strings.Trim(after, ".,;) ") != "" || *next >= len(r.cells) || r.cells[*next].sum != nil {
		return nil, "", after
	}
	text := r.cells[*next].text
	bare := soit.ReplaceAllString(aside.ReplaceAllString(text, ""), "")
	if r.totalsColumn() {
		bare = totalOf.ReplaceAllString(bare, "")
	}
	if s, ok := wholeSum(bare); ok {
		*next++
		return &s, "", after
	}
	if r.smudgedTotal(*next) {
		*next++
		return nil, text, after
	}
	return nil, "", after
}

// amountFirst reads "X : N lots", which was cut before its count.
func (r *tableReader) amountFirst(i int) int {
	if i+1 >= len(r.cells) || !r.cells[i+1].cut || !amountOnly.MatchString(r.cells[i].text) {
		return i
	}
	s, ok := wholeSum(strings.TrimRight(r.cells[i].text, " :x×"))
	m := rowHead.FindStringSubmatch(r.cells[i+1].text)
	if !ok || m == nil || strings.Trim(m[2], " .;,") != "" {
		return i
	}
	if !r.active() {
		r.begin(i)
	}
	n, counted := integer(m[1])
	r.addRow(r.cells[i+1], n, counted, m[1], s, nil, "")
	return i + 2
}

// skipOdds takes the cell of a column of chances, which no row total is.
func (r *tableReader) skipOdds(next *int) {
	if slices.Contains(r.open.roles, odds) && *next < len(r.cells) {
		if s, ok := chanceOf(r.cells[*next].text); ok {
			r.open.odds = append(r.open.odds, oddsPlace{s, len(r.open.Rows), r.cells[*next].at})
			*next++
		}
	}
}

// uncut returns the figures of a row that its neighbour swallowed, and leaves
// the neighbour its own: "16 lots de 300 600 lots de" was cut before 300.
func (r *tableReader) uncut(next int, n int64) string {
	m := rowHead.FindStringSubmatch(r.cells[next].text)
	if m == nil {
		return ""
	}
	a, t, last, ok := splitRun(m[1], n, true)
	if !ok {
		return ""
	}
	r.cells[next].text = last + " lots" + m[2]
	if t != "" {
		a += " = " + t
	}
	return a
}

// smudgedTotal reports whether the cell stands where a row's total should and
// has digits, but cannot be read as a sum.
func (r *tableReader) smudgedTotal(at int) bool {
	text := r.cells[at].text
	return (r.active() && r.open.totals || r.totalsColumn()) && len(text) < 30 && strings.ContainsAny(text, "0123456789") &&
		!lotWord.MatchString(text) && !totalLabel.MatchString(text) && !endMark.MatchString(text)
}

// addRow adds a money row, or says why it cannot.
func (r *tableReader) addRow(c cell, n int64, counted bool, printed string, s sum, rowTotal *sum, raw string) {
	t := r.open
	t.end = c.at
	value, ok := s.minor()
	line := r.doc.line(c.at)
	var totalValue *money.Amount
	if rowTotal != nil {
		if v, ok := rowTotal.minor(); ok {
			totalValue = &v
		}
	}
	at := len(t.Rows)
	if !counted {
		if n, ok = smudgedCount(printed, value, totalValue); ok {
			t.add(game.CountMisprint, at, printed, fmt.Sprint(n), fmt.Sprintf("line %d: the count is printed as %q; the row's total makes it %d", line, printed, n))
		}
	}
	if !ok || n < 1 || value < 1 {
		t.add(game.RowsMissing, -1, strings.TrimSpace(printed+" x "+s.text), "", fmt.Sprintf("line %d: the row %q x %q cannot be read; look at the printed text", line, printed, s.text))
		return
	}
	t.Rows = append(t.Rows, game.Row{Count: n, Amount: value, PrintedTotal: totalValue})
	t.rowsAt = append(t.rowsAt, c.at)
	t.sums = append(t.sums, sumPlace{s, at, c.at})
	if m := lotForm.FindStringSubmatch(c.text); m != nil && counted && (n > 1) != (m[1] != "") {
		t.add(game.CountMisprint, at, m[0], "", fmt.Sprintf("line %d: %q: the word does not go with the number; check the count", line, m[0]))
	}
	if rowTotal != nil {
		t.totals = true
		t.sums = append(t.sums, sumPlace{*rowTotal, at, c.at})
	}
	if raw != "" {
		t.add(game.RowTotal, at, raw, "", fmt.Sprintf("line %d: the row's total %q cannot be read", line, raw))
	}
}

// smudgedCount reads a count with degree signs, which stand for a zero or for
// nothing: the reading that the row's total proves, and none without proof.
func smudgedCount(printed string, value money.Amount, total *money.Amount) (int64, bool) {
	if total == nil || !strings.Contains(printed, "°") {
		return 0, false
	}
	var proven int64
	found := 0
	for _, text := range []string{strings.ReplaceAll(printed, "°", "0"), strings.ReplaceAll(printed, "°", "")} {
		n, ok := integer(text)
		if !ok {
			digits := strings.NewReplacer(" ", "", ".", "").Replace(text)
			n, ok = integer(digits)
		}
		if product, err := value.Times(n); ok && err == nil && product == *total {
			proven = n
			found++
		}
	}
	return proven, found == 1
}

// otherPrize adds a prize that is no sum: a trip, a car, a free ticket.
func (r *tableReader) otherPrize(i, next int, n int64, text string) int {
	c := r.cells[i]
	words := strings.Trim(strings.TrimRight(text, ".;,"), " ")
	if !r.active() || n < 1 || words == "" || endMark.MatchString(words) {
		return i
	}
	if next >= len(r.cells) {
		return next // the words may go on; judgeEnd names the truncated table
	}
	if strings.ContainsAny(words[:1], "0123456789") {
		return r.unreadable(i, next, fmt.Sprintf("has the amount %q, which cannot be read", words))
	}
	prize := game.NonCash{Count: n, Text: words, Amount: onlySum(words)}
	if next < len(r.cells) && r.cells[next].sum == nil {
		if s, ok := wholeSum(r.cells[next].text); ok { // its value for the totals
			next++
			if total, ok := s.minor(); ok && prize.Amount == nil && int64(total)%n == 0 {
				each := total / money.Amount(n)
				prize.Amount = &each
			}
		}
	}
	r.open.addNonCash(prize, r.doc.line(c.at))
	r.open.end = c.at
	return next
}

func (t *draft) addNonCash(prize game.NonCash, line int) {
	t.NonCash = append(t.NonCash, prize)
	t.add(game.NotMoney, -1, prize.Text, "", fmt.Sprintf("line %d: %d x %q is no fixed sum of money", line, prize.Count, prize.Text))
}

// onlySum is the value named in a prize's words, nil for none or a range.
func onlySum(text string) *money.Amount {
	var found *money.Amount
	for _, at := range moneyInWords.FindAllStringIndex(text, -1) {
		s, _, ok := leadingSum(text[at[0]:])
		value, exact := s.minor()
		if !ok || !exact || found != nil {
			return nil
		}
		found = &value
	}
	if len(anyRun.FindAllString(text, -1)) > 1 {
		return nil
	}
	return found
}

var (
	anyRun       = regexp.MustCompile(run)
	moneyInWords = regexp.MustCompile(`(?:` + run + `) ?(?:` + sign + `)`)
)

// unreadable records a row that the table has and this text does not show.
func (r *tableReader) unreadable(i, next int, why string) int {
	if !r.active() {
		return i
	}
	c := r.cells[i]
	r.open.add(game.RowsMissing, -1, c.text, "", fmt.Sprintf("line %d: the row %q %s; look at the printed text", r.doc.line(c.at), c.text, why))
	r.open.end = c.at
	return next
}

// totalRow reads "N lots formant un total de Y", Y here or in the next cell.
func (r *tableReader) totalRow(i int, printed, value string) int {
	t, c, next := r.open, r.cells[i], i+1
	line := r.doc.line(c.at)
	if n, ok := integer(printed); ok {
		t.setCount(n, line)
	} else {
		t.add(game.CountSum, -1, printed, "", fmt.Sprintf("line %d: the number of prizes %q cannot be read", line, printed))
	}
	if value == "" && next < len(r.cells) && r.cells[next].sum == nil && !endMark.MatchString(r.cells[next].text) && len(r.cells[next].text) < 40 {
		value = r.cells[next].text
		next++
	}
	if s, _, ok := leadingSum(value); ok {
		r.readTotal(s, c.at, next)
	} else if next >= len(r.cells) {
		t.add(game.Truncated, -1, c.text, "", fmt.Sprintf("line %d: the text stops before the total of the prizes", line))
	} else {
		t.add(game.TotalSum, -1, value, "", fmt.Sprintf("line %d: the total of the prizes %q cannot be read", line, value))
	}
	t.closed, t.end = true, c.at
	return next
}

// readTotal keeps a table's total, unless the text may stop inside it.
func (r *tableReader) readTotal(s sum, at, next int) {
	line := r.doc.line(at)
	if r.cut(s, next) {
		r.open.add(game.Truncated, -1, s.text, "", fmt.Sprintf("line %d: the text stops in or behind the total %q", line, s.text))
		return
	}
	r.open.setTotal(s, at, line)
}

// cut reports whether a sum may be only the beginning of the one printed: it is
// the text's last word and lacks the sign that others of its table have.
func (r *tableReader) cut(s sum, next int) bool {
	return next >= len(r.cells) && s.currency == "" && r.active() &&
		slices.ContainsFunc(r.open.sums, func(other sumPlace) bool { return other.currency != "" })
}

// labelledTotals reads a total row that begins with a label, which may stand in
// each of its cells ("TOTAL 276 706 | TOTAL 1.575.000 | TOTAL 3,61").
func (r *tableReader) labelledTotals(i int) int {
	t, c := r.open, r.cells[i]
	line := r.doc.line(c.at)
	var values []sum
	next := i
	for ; next < len(r.cells) && next < i+5 && r.cells[next].sum == nil && len(values) < 3; next++ {
		text := r.cells[next].text
		label := labelWords.FindString(text)
		rest := text[len(label):]
		if label != "" && next > i && !totalLabel.MatchString(label) && prefixSign.FindString(text) == "" {
			break
		}
		if rest == "" {
			continue
		}
		if m := rowHead.FindStringSubmatch(rest); m != nil {
			if n, ok := integer(m[1]); ok && m[2] != "" {
				if s, ok := wholeSum(labelWords.ReplaceAllString(m[2], "")); ok { // "302 lots, 8 000 €"
					values = append(values, sum{number: number{digits: n}}, s)
					continue
				}
			}
			rest = m[1]
		}
		s, ok := wholeSum(rest)
		if !ok {
			break
		}
		values = append(values, s)
	}
	if len(values) == 0 {
		return r.junk(i)
	}
	if s := values[0]; s.currency == "" && s.scale == 0 && (len(values) > 1 || !t.totals) {
		t.setCount(s.digits, line)
		values = values[1:]
	}
	switch {
	case len(values) > 0:
		r.readTotal(values[0], c.at, next)
	case next >= len(r.cells) && t.PrintedTotal == nil:
		t.add(game.Truncated, -1, c.text, "", fmt.Sprintf("line %d: the text stops before the total of the prizes", line))
	}
	if len(values) > 1 && slices.Contains(t.roles, odds) {
		t.odds = append(t.odds, oddsPlace{values[1], -1, c.at})
	}
	t.closed, t.end = true, c.at
	return next
}

// columns reads a row of a table whose header says what each column holds.
func (r *tableReader) columns(i int) int {
	roles := r.open.roles
	first := r.cells[i]
	if first.sum != nil || !strings.ContainsAny(first.text[:1], "0123456789€") || endMark.MatchString(first.text) || i+1 >= len(r.cells) {
		return i
	}
	var n int64
	var printed, raw, words string
	var s, rowTotal *sum
	counted := false
	next := i
	for _, what := range roles {
		if next >= len(r.cells) || r.cells[next].sum != nil {
			break
		}
		text := strings.TrimSpace(r.cells[next].text)
		value, ok := wholeSum(text)
		one, chance := chanceOf(text)
		switch {
		case what == count:
			printed = leadingRun.FindString(text)
			if n, counted = integer(printed); printed == "" || strings.Trim(lotWord.ReplaceAllString(text[len(printed):], ""), " de") != "" {
				return i
			}
		case what == amount && ok:
			s = &value
		case what == amount:
			words = text
		case what == total && ok:
			rowTotal = &value
		case what == odds && chance:
			r.open.odds = append(r.open.odds, oddsPlace{one, len(r.open.Rows), r.cells[next].at})
		case what == total && strings.ContainsAny(text, "0123456789"):
			raw = text
		}
		next++
	}
	switch {
	case s != nil && counted && r.sumsUp(n, *s):
		r.open.setCount(n, r.doc.line(first.at))
		r.readTotal(*s, first.at, i+2)
		r.open.closed, r.open.end = true, first.at
		return i + 2
	case s != nil && printed != "":
		r.addRow(first, n, counted, printed, *s, rowTotal, raw)
	case counted && n > 0 && words != "" && !strings.ContainsAny(words[:1], "0123456789"):
		r.open.addNonCash(game.NonCash{Count: n, Text: words, Amount: onlySum(words)}, r.doc.line(first.at))
	default:
		return r.unreadable(i, next, "cannot be read")
	}
	r.open.end = first.at
	return next
}

// sumsUp reports whether a row with no label is the table's total: its count and its sum
// are those of all rows before it, of which there are several.
func (r *tableReader) sumsUp(n int64, s sum) bool {
	value, exact := s.minor()
	count, err := r.open.Count()
	total, err2 := r.open.Total()
	return exact && len(r.open.Rows) > 1 && err == nil && err2 == nil && n == count && value == total
}

// chanceOf reads a printed chance: "33,33", "1 sur 33,33", "1/5 000".
func chanceOf(text string) (sum, bool) {
	return wholeSum(strings.TrimSpace(oneChance.ReplaceAllString(text, "")))
}

// junk passes a cell that is no part of a table. An open table goes on behind
// it when another row follows soon, as over the foot of a page; what was skipped
// may then have been a row.
func (r *tableReader) junk(i int) int {
	c := r.cells[i]
	if elsewhere.MatchString(c.text) {
		r.refers = true
	}
	if m := stakeHead.FindStringSubmatch(c.text); m != nil {
		if s, ok := wholeSum(m[1]); ok {
			r.close()
			r.stake = &s
			return i + 1
		}
	}
	if m := stakeTail.FindStringSubmatch(c.text); m != nil && strings.Contains(c.text, "tableau") {
		if s, _, ok := leadingSum(m[1]); ok && s.currency != "" { // no year, no number of games
			r.stake = &s
		}
	}
	if !r.active() || len(r.open.Rows) == 0 {
		if r.active() && endMark.MatchString(c.text) {
			r.close()
		}
		return i + 1
	}
	for j := i; j < len(r.cells) && j < i+10; j++ {
		text := r.cells[j].text
		if r.cells[j].sum != nil || endMark.MatchString(text) {
			break
		}
		if m := rowHead.FindStringSubmatch(text); j > i && m != nil && (totalTail.MatchString(m[2]) || amountTail.FindStringSubmatch(m[2])[1] == "" || moneyInWords.MatchString(m[2])) {
			r.skipped(i, j)
			return j
		}
		if j > i && totalLabel.MatchString(text) && anyRun.MatchString(text) {
			r.skipped(i, j)
			return j
		}
	}
	r.close()
	return i + 1
}

// skipped says so when cells between two rows look like a row.
func (r *tableReader) skipped(from, to int) {
	for _, c := range r.cells[from:to] {
		if _, head := headerRole(c); head {
			continue // printed again on the next page
		}
		_, isSum := wholeSum(c.text)
		if isSum || lotWord.MatchString(c.text) && !headerCount.MatchString(c.text) {
			if allDigits(strings.TrimSpace(c.text)) { // a page number
				r.open.doubted = append(r.open.doubted, len(r.open.findings))
			}
			r.open.add(game.RowsMissing, -1, c.text, "", fmt.Sprintf("line %d: %q looks like a part of a row that cannot be read; look at the printed text", r.doc.line(c.at), c.text))
			return
		}
	}
}

func (t *draft) add(code game.FindingCode, row int, printed, computed, message string) {
	f := game.Finding{Code: code, Message: message}
	if row >= 0 {
		f.Row = &row
	}
	if printed != "" {
		f.Printed = &printed
	}
	if computed != "" {
		f.Computed = &computed
	}
	t.findings = append(t.findings, f)
}

// setCount keeps the printed number of prizes and compares it with one that a
// sentence gave before.
func (t *draft) setCount(n int64, line int) {
	if t.PrintedCount != nil && *t.PrintedCount != n {
		t.add(game.CountSum, -1, fmt.Sprint(n), fmt.Sprint(*t.PrintedCount), fmt.Sprintf("line %d: %d prizes here, %d in the sentence before the table", line, n, *t.PrintedCount))
	}
	t.PrintedCount = &n
}

func (t *draft) setTotal(s sum, at, line int) {
	value, ok := s.minor()
	if !ok {
		t.add(game.TotalSum, -1, s.text, "", fmt.Sprintf("line %d: the total %q cannot be read", line, s.text))
		return
	}
	if t.PrintedTotal != nil && *t.PrintedTotal != value {
		t.add(game.TotalSum, -1, s.text, "", fmt.Sprintf("line %d: the total %s differs from the one in the sentence before the table", line, s.text))
	}
	t.PrintedTotal = &value
	t.sums = append(t.sums, sumPlace{s, -1, at})
}
