package reglement

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"grattoir/validate/game"
	"grattoir/validate/money"
)

// proportion is the sentence that gives a table's totals: "140 841 lots d'une
// valeur totale de 174 991 EUR pour chaque bloc de 500 000 unités de jeu à 0,5 EUR".
type proportion struct {
	from, to int
	count    string
	total    *sum
	average  bool
	cut      bool // the text ends before the sentence does
	size     *int64
	unit     game.Unit
	stake    *sum
	stakeAt  int
}

var (
	proportionOf = regexp.MustCompile(`(?i)(` + run + `)\s+lots?\s+d'une\s+valeur\s+totale\s+(moyenne\s+)?(?:estimée\s+)?de(?:\s|$)\s*`)
	perBlock     = regexp.MustCompile(`(?i)^\s*,?\s*(?:pour|par|dans)\s+(?:chaque\s+)?bloc\s+de\s+(` + run + `)\s+(tickets?|billets?|unités?\s+de\s+jeu|packs?)(?:\s+à\s+)?`)
)

// findProportions finds the sentences in the text; a number in them may run over
// the end of a line.
func findProportions(text string) []*proportion {
	var out []*proportion
	for _, m := range proportionOf.FindAllStringSubmatchIndex(text, -1) {
		p := &proportion{from: m[0], to: m[1], count: text[m[2]:m[3]], average: m[4] >= 0}
		p.total, p.to = p.sumAt(text, p.to)
		if b := perBlock.FindStringSubmatchIndex(text[p.to:]); b != nil {
			if n, ok := integer(text[p.to+b[2] : p.to+b[3]]); ok {
				p.size = &n
			}
			p.unit = unitOf(text[p.to+b[4] : p.to+b[5]])
			p.to += b[1]
			p.stakeAt = p.to
			if text[p.to-1] == ' ' {
				p.stake, p.to = p.sumAt(text, p.to)
			}
		} else if strings.TrimSpace(text[p.to:]) == "" && (p.total == nil || p.total.currency == "") {
			p.cut = true
		}
		if len(out) == 0 || p.from >= out[len(out)-1].to {
			out = append(out, p)
		}
	}
	return out
}

// sumAt reads a sum at an offset, joining lines inside it.
func (p *proportion) sumAt(text string, at int) (*sum, int) {
	flat := strings.ReplaceAll(text[at:min(at+60, len(text))], "\n", " ")
	s, rest, ok := leadingSum(flat)
	if !ok {
		return nil, at
	}
	return &s, at + len(flat) - len(rest)
}

func unitOf(word string) game.Unit {
	switch word = strings.ToLower(word); {
	case strings.HasPrefix(word, "unité"):
		return game.UnitGame
	case strings.HasPrefix(word, "pack"), strings.HasPrefix(word, "carnet"), strings.HasPrefix(word, "livret"), strings.HasPrefix(word, "pochette"):
		return game.UnitPack
	}
	return game.UnitTicket
}

// draft begins a table with the sentence's totals.
func (p *proportion) draft(d *document) *draft {
	t := &draft{at: p.from, end: p.from, prose: true}
	line := d.line(p.from)
	t.Unit, t.BlockSize = p.unit, p.size
	if n, ok := integer(p.count); ok {
		t.PrintedCount = &n
	} else {
		t.add(game.CountSum, -1, p.count, "", fmt.Sprintf("line %d: the number of prizes %q cannot be read", line, p.count))
	}
	switch {
	case p.cut:
		printed := ""
		if p.total != nil {
			printed = p.total.text
		}
		t.add(game.Truncated, -1, printed, "", fmt.Sprintf("line %d: the text stops inside the total of the prizes", line))
	case p.total != nil:
		t.setTotal(*p.total, p.from, line)
	}
	if p.average {
		t.PrintedTotal = nil
		t.sums = nil
		t.add(game.NotMoney, -1, "", "", fmt.Sprintf("line %d: the total value is an average: some prizes are decided later", line))
	}
	if p.stake != nil {
		if stake, ok := p.stake.minor(); ok && stake > 0 {
			t.Stake = &stake
			t.sums = append(t.sums, sumPlace{*p.stake, -1, p.stakeAt})
		}
	}
	return t
}

// complete fills in what the rest of the text says about every table.
func (t *draft) complete(d *document, f figures, tables int) {
	if t.BlockSize == nil {
		t.BlockSize = f.blockSize
	}
	if t.Unit == "" {
		t.Unit = f.unit
	}
	switch {
	case t.Stake != nil && (tables > 1 || f.several):
		t.Price = t.Stake
	default:
		t.Stake = nil
		t.Price = f.price
	}
	counts := map[string]int{}
	for _, s := range t.sums {
		if s.currency != "" {
			counts[s.currency]++
		}
	}
	t.Currency = t.header
	for currency, n := range counts {
		if best := counts[t.Currency]; t.Currency == "" || n > best || n == best && currency < t.Currency {
			t.Currency = currency
		}
	}
	if t.Currency == "" && len(t.sums)+len(t.NonCash) > 0 || t.Currency == "" && t.Price != nil {
		t.Currency = f.currency
	}
	if t.Stake == nil && f.priceCurrency != "" && t.Currency != "" && t.Currency != f.priceCurrency {
		t.Price = nil // "20 F (3,05 €)" over a table in euros
	}
	t.Currency = d.localFrancs(t.Currency)
	if !t.rescale() {
		t.add(game.RowsMissing, -1, "", "", fmt.Sprintf("a sum of the table is no whole number of the smallest unit of %s", t.Currency))
	}
}

var (
	belgianText = regexp.MustCompile(`(?i)loterie\s+nationale|nationale\s+loterij|arrêté\s+royal|koninklijk\s+besluit`)
	swissText   = regexp.MustCompile(`(?i)loterie\s+(?:de\s+la\s+suisse\s+)?romande|swisslos`)
)

// localFrancs are the francs of the country whose lottery the text is about.
func (d *document) localFrancs(currency string) string {
	switch {
	case currency != "FRF":
		return currency
	case swissText.MatchString(d.text):
		return "CHF"
	case belgianText.MatchString(d.text):
		return "BEF"
	}
	return currency
}

// settleDoubts drops the findings about cells that looked like a part of a row, such as
// a page number, when both printed totals prove that no row is missing.
func (t *draft) settleDoubts() {
	count, err := t.Count()
	total, err2 := t.Total()
	if err != nil || err2 != nil || len(t.NonCash) > 0 || t.PrintedCount == nil || *t.PrintedCount != count || t.PrintedTotal == nil || *t.PrintedTotal != total {
		return
	}
	for _, i := range slices.Backward(t.doubted) {
		t.findings = slices.Delete(t.findings, i, i+1)
	}
}

// rescale turns hundredths into the minor units of a currency that has other decimals
// than two (XPF has none). It reports false when a sum is no whole number of them.
func (t *draft) rescale() bool {
	exact := true
	scale := func(a *money.Amount) {
		switch money.Exponent(t.Currency) {
		case 0:
			exact = exact && *a%100 == 0
			*a /= 100
		case 3:
			n, err := a.Times(10)
			exact = exact && err == nil
			*a = n
		}
	}
	copied := func(a **money.Amount) {
		if *a != nil {
			n := **a
			scale(&n)
			*a = &n
		}
	}
	copied(&t.Price)
	copied(&t.Stake)
	copied(&t.PrintedTotal)
	for i := range t.Rows {
		scale(&t.Rows[i].Amount)
		copied(&t.Rows[i].PrintedTotal)
	}
	for i := range t.NonCash {
		copied(&t.NonCash[i].Amount)
	}
	return exact
}

// judgeShortfall names missing rows where both sums of the rows fall short of the printed
// ones and no misprint in a row explains it: a row that was not recognized as one must
// not leave a table that says it is whole.
func (t *draft) judgeShortfall(d *document, audit []game.Finding) {
	count, err := t.Count()
	total, err2 := t.Total()
	if err != nil || err2 != nil || len(t.Rows) == 0 || t.PrintedCount == nil || t.PrintedTotal == nil || count >= *t.PrintedCount || total >= *t.PrintedTotal {
		return
	}
	for _, f := range slices.Concat(audit, t.findings) {
		if f.Code == game.RowTotal || f.Code == game.RowsMissing || f.Code == game.Truncated || f.Code == game.CountMisprint {
			return
		}
	}
	others := int64(0) // prizes in kind may make up for it
	for _, prize := range t.NonCash {
		others += prize.Count
	}
	if others >= *t.PrintedCount-count {
		return
	}
	t.add(game.RowsMissing, -1, fmt.Sprint(*t.PrintedCount), fmt.Sprint(count), fmt.Sprintf("line %d: the rows have fewer prizes and less money than is printed: a row was not read; look at the printed text", d.line(t.end)))
}

// judgeOdds compares the printed chances with the block and the counts. They
// are rounded, so one unit of the last printed place is allowed.
func (t *draft) judgeOdds(d *document) {
	all, err := t.Count()
	if t.BlockSize == nil || err != nil {
		return
	}
	for _, o := range t.odds {
		n := all
		if o.row >= 0 {
			if o.row >= len(t.Rows) {
				continue
			}
			n = t.Rows[o.row].Count
		}
		scale := money.Amount(1)
		for range o.scale {
			scale *= 10
		}
		printed, err := money.Amount(o.digits).Times(n)
		exact, err2 := scale.Times(*t.BlockSize)
		if err == nil && err2 == nil && max(printed-exact, exact-printed) <= money.Amount(n) {
			continue
		}
		computed := fmt.Sprintf("%d/%d", *t.BlockSize, n)
		t.add(game.RowTotal, o.row, o.text, computed, fmt.Sprintf("line %d: a chance of one in %s is printed, but %d prizes in a block of %d are one in %s", d.line(o.at), o.text, n, *t.BlockSize, computed))
	}
}

// judgeUnits names the sums without a currency sign where the table has signs,
// and those in another currency, which make their row useless.
func (t *draft) judgeUnits(d *document, fallback string) {
	signs := slices.ContainsFunc(t.sums, func(s sumPlace) bool { return s.currency != "" })
	if !signs && (t.header != "" || len(t.sums) == 0) {
		return
	}
	if !signs && len(t.Rows) > 0 {
		t.add(game.UnitMissing, -1, "", fallback, fmt.Sprintf("line %d: no sum of the table has a currency", d.line(t.at)))
		return
	}
	for _, s := range t.sums {
		switch s.currency {
		case t.Currency:
		case "":
			if t.header == "" {
				t.add(game.UnitMissing, s.row, s.text, t.Currency, fmt.Sprintf("line %d: %q is printed without its currency", d.line(s.at), s.text))
			}
		default:
			t.add(game.RowsMissing, s.row, s.text, "", fmt.Sprintf("line %d: %q is not in %s like the rest of the table", d.line(s.at), s.text, t.Currency))
		}
	}
}

// judgeEnd says what the text lacks of the table: all of it, or its end. A table
// has ended when its total row was read or its counts reach a printed number.
func (t *draft) judgeEnd(d *document, refers bool) {
	line := d.line(t.at)
	has := func(code game.FindingCode) bool {
		return slices.ContainsFunc(t.findings, func(f game.Finding) bool { return f.Code == code })
	}
	if len(t.Rows) == 0 {
		switch {
		case has(game.RowsMissing):
		case refers:
			t.add(game.RowsMissing, -1, "", "", fmt.Sprintf("line %d: the text sends the reader elsewhere for the table; import it from there", line))
		default:
			t.add(game.RowsMissing, -1, "", "", fmt.Sprintf("line %d: the text has no rows for this table", line))
		}
		return
	}
	if t.closed {
		return
	}
	if t.PrintedCount == nil && t.PrintedTotal == nil {
		t.add(game.Truncated, -1, "", "", fmt.Sprintf("line %d: the table stops after row %d, without its totals", d.line(t.end), len(t.Rows)))
		return
	}
	count, err := t.Count()
	if err == nil && t.PrintedCount != nil && count < *t.PrintedCount && !has(game.RowsMissing) {
		t.add(game.RowsMissing, -1, fmt.Sprint(*t.PrintedCount), fmt.Sprint(count), fmt.Sprintf("line %d: %d prizes are announced and the rows end at %d", line, *t.PrintedCount, count))
	}
}

var (
	belgianCount = regexp.MustCompile(`(?i)(?:nombre (?:total )?de lots[^.;:|]{0,60}?(?:est|sont) fixé à|aantal loten[^:|]{0,40}:|aantal loten[^.;:|]{0,60}vastgesteld op|nombre de lots par[^:|]{0,40}:)\s*(` + run + `)`)
	belgianSplit = regexp.MustCompile(`(?i)^\s*\((` + run + `) (?:in geld|en espèces|en numéraire),? (?:et |en )?(` + run + `) (?:in natura|en nature)\)`)
	inKind       = regexp.MustCompile(`(?i)(?:in natura|en nature)\s*:\s*([^"»]*)`)
	itemNumber   = regexp.MustCompile(`^[0-9]{1,2}[.)] +`)
)

// belgian reads what Belgian decrees print apart from their rows: the number of
// prizes, of money and of others, and the prizes in kind.
func (r *tableReader) belgian() {
	text := r.doc.text
	m := belgianCount.FindStringSubmatchIndex(text)
	if m == nil || len(r.tables) != 1 {
		return
	}
	t := r.tables[0]
	line := r.doc.line(m[0])
	all, ok := integer(text[m[2]:m[3]])
	if !ok {
		t.add(game.CountSum, -1, text[m[2]:m[3]], "", fmt.Sprintf("line %d: the number of prizes %q cannot be read", line, text[m[2]:m[3]]))
		return
	}
	r.inKind(t)
	var others int64
	for _, prize := range t.NonCash {
		others += prize.Count
	}
	parts := belgianSplit.FindStringSubmatch(text[m[3]:])
	if parts == nil {
		t.setCount(all, line)
		return
	}
	cash, cashOK := integer(parts[1])
	kind, kindOK := integer(parts[2])
	if !cashOK || !kindOK || cash+kind != all {
		t.add(game.CountSum, -1, fmt.Sprint(all), fmt.Sprint(cash+kind), fmt.Sprintf("line %d: %d prizes are printed, but %s in money and %s in kind", line, all, parts[1], parts[2]))
	}
	if kindOK && kind != others {
		t.add(game.CountSum, -1, fmt.Sprint(kind), fmt.Sprint(others), fmt.Sprintf("line %d: %d prizes in kind are printed and %d are listed", line, kind, others))
	}
	if cashOK {
		t.setCount(cash, line)
	}
}

// inKind reads the list of prizes that are no money.
func (r *tableReader) inKind(t *draft) {
	m := inKind.FindStringSubmatchIndex(r.doc.text)
	if m == nil {
		return
	}
	text := r.doc.text[m[2]:m[3]]
	if end := strings.Index(text, "\nArt"); end >= 0 {
		text = text[:end]
	}
	for _, item := range splitItems(text) {
		words := itemNumber.ReplaceAllString(item, "")
		figure := leadingRun.FindString(words)
		n, ok := integer(figure)
		if !ok || n < 1 {
			continue
		}
		what := strings.Trim(words[len(figure):], " .;,")
		if what == "" {
			continue
		}
		t.addNonCash(game.NonCash{Count: n, Amount: onlySum(what), Text: what}, r.doc.line(m[2]))
	}
}

// splitItems splits a list at semicolons, lines, and commas before a number.
func splitItems(text string) []string {
	var items []string
	start := 0
	for i := 0; i < len(text); i++ {
		comma := text[i] == ',' && i+2 < len(text) && text[i+1] == ' ' && text[i+2] >= '0' && text[i+2] <= '9'
		if text[i] == ';' || text[i] == '\n' || comma {
			items = append(items, strings.TrimSpace(text[start:i]))
			start = i + 1
		}
	}
	return append(items, strings.TrimSpace(text[start:]))
}

// figures is what the text outside its tables says about them.
type figures struct {
	blockSize *int64
	blockAt   int
	unit      game.Unit
	price     *money.Amount
	several   bool // several prices to choose from
	// priceCurrency is the price's own, to tell a table in another one.
	priceCurrency string
	currency      string
}
