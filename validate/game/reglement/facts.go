package reglement

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"grattoir/validate/game"
	"grattoir/validate/money"
)

// facts reads everything but the tables and the figures that belong to them.
func (d *document) facts() game.Game {
	var g game.Game
	g.Offer = d.offer(&g)
	g.Name = d.name(g.Offer)
	g.Channel = d.channel()
	g.Emissions = d.emissions()
	g.Kind = d.kind(len(g.Emissions) > 0)
	return g
}

var (
	blockOf   = regexp.MustCompile(`(?i)\b(?:blocs?\s+(?:de\s+|d')|bloc\s+(?:comporte|comprend|contient|est\s+(?:composé|constitué)\s+de)\s+|bloc\s*:\s*)(?:(?:\p{L}[\p{L}-]*\s+){1,5}\()?(` + run + `|un\b)\)?(\s+millions?\b|\s+mille\b)?\s*(?:de\s+|d')?(tickets?|billets?|unités?(?:\s+de\s+jeu)?|packs?|carnets?|livrets?|pochettes?)`)
	belgianOf = regexp.MustCompile(`(?i)(?:par\s+quantité\s+(?:de\s+|d')|biljetten\s+per\s+uitgifte\s*:\s*|\bper\s+|émission\s+(?:est\s+fixée\s+à|comprend)\s+)(?:(?:un|één|een)\s+)?(million|miljoen|` + run + `)(?:\s+(?:de\s+)?(?:uitgegeven\s+)?(?:billets?|biljetten)|\s*[:(,;.]|\s+of\b|\s*$)`)
	priceOf   = regexp.MustCompile(`(?i)(?:prix\s+(?:de\s+vente\s+)?(?:public\s+)?(?:unitaire\s+)?(?:(?:du|d'un|de\s+chaque|par)\s+(?:ticket|billet|pack)|des\s+(?:tickets|billets)|de\s+l'unité\s+de\s+jeu|d'une\s+unité\s+de\s+jeu)?\s*(?:est|sont)\s+fixés?\s+à\s+|verkoopprijs\s*(?:van\s+een\s+biljet\s*)?(?:is\s+vastgesteld\s+op|:)?\s*|prix\s+de\s+vente\s*:\s*)`)
	// looserPrice are wordings that also stand in other sentences: the sum must have its
	// sign, and they count only where priceOf finds nothing.
	looserPrice = regexp.MustCompile(`(?im)(?:^prix\s*:\s*|[.;]\s*prix\s*:\s*|\bprix\s+(?:de\s+vente\s+)?(?:public\s+)?(?:unitaire\s+)?(?:(?:du|d'un|de\s+chaque|par)\s+(?:ticket|billet|pack)\s*|des\s+(?:tickets|billets)\s*|de\s+l'unité(?:\s+de\s+jeu)?\s*|de\s+vente\s*|unitaire\s*)(?:(?:est|sont)\s+(?:fixés?\s+)?(?:à|de)\s+|:\s*)|\b(?:tickets?|billets?|unités?\s+de\s+jeu)[^.;\n]{0,60}?\b(?:vendu|commercialisé)e?s?\s+(?:au\s+prix\s+(?:unitaire\s+)?de\s+)?|\bla\s+mise\s+(?:unitaire\s+)?est\s+(?:fixée\s+à|de)\s+)(?:(?:\p{L}[\p{L}-]*\s+){1,4}\()?`)
	offerOf     = regexp.MustCompile(`(?i)offre\s+commune\b[^.]{0,120}?prix\s+de\s+vente\s+est\s+fixé\s+à\s+`)
	partOf      = regexp.MustCompile(`(?i)^\s*(?:;|:|-|et|,|\.)*\s*(?:-\s*)?(` + run + ` ?(?:` + sign + `)?)\s*pour\s+le\s+jeu\s+` + quoted)
	sharesFrom  = regexp.MustCompile(`(?i)se\s+décompose\s+comme\s+suit\s*:?`)
	joins       = regexp.MustCompile(`(?i)\bdispose\s+(?:de\s+|d')(` + run + `|[a-zé]+)\s+participations?\b`)
	joinPrice   = regexp.MustCompile(`(?i)prix\s+(?:unitaire\s+)?de\s+(?:cette|chaque|la)\s+participation\s+(?:étant|est)\s+(?:fixé\s+à|de)\s+`)
	unitWord    = regexp.MustCompile(`(?i)\bunités?\s+de\s+jeu\b`)
	bareStakes  = regexp.MustCompile(`(?i)\bmises?\s+de\s+(` + run + `(?:\s*,?\s*(?:,|ou|et)\s+` + run + `)+)\s*(?:[.;,)]|et\b|$)`)
)

// quoted matches a name between the quotation marks in use.
const quoted = `(?:«|<<|“|")\s*([^«»<>“”"\n|]{1,80}?)\s*(?:»|>>|”|")`

// prices reads block size, unit, price and currency, and names sums that lost
// their sign.
func (d *document) prices(g *game.Game) figures {
	f := figures{unit: game.UnitTicket}
	d.block(&f)
	if f.blockSize == nil && unitWord.MatchString(d.text) {
		f.unit = game.UnitGame
	}
	currencies := map[string]bool{}
	for _, at := range moneyInWords.FindAllStringIndex(d.text, -1) {
		if s, _, ok := leadingSum(d.text[at[0]:at[1]]); ok && s.currency != "" {
			currencies[s.currency] = true
		}
	}
	if len(currencies) == 1 {
		for f.currency = range currencies {
		}
	}
	prices := d.pricesBy(priceOf, false, f.currency, g)
	if len(prices) == 0 {
		prices = d.pricesBy(looserPrice, true, f.currency, g)
	}
	if len(prices) == 1 {
		f.price, f.priceCurrency = &prices[0], d.priceCurrency
	}
	f.several = len(prices) > 1
	if m := bareStakes.FindStringSubmatchIndex(d.text); m != nil {
		g.Findings = append(g.Findings, missingUnit(d.text[m[2]:m[3]], f.currency, d.line(m[0])))
	}
	return f
}

// pricesBy reads the different prices behind a wording. With signed only sums with their
// sign are prices.
func (d *document) pricesBy(wording *regexp.Regexp, signed bool, currency string, g *game.Game) (prices []money.Amount) {
	for _, m := range wording.FindAllStringIndex(d.text, -1) {
		switch {
		case offerOf.MatchString(d.text[max(0, m[0]-160):m[1]]):
			continue // the bundle's price, not the game's own
		case m[0] > 0 && d.text[m[0]-1] == '(':
			continue // that of a prize: "une voiture (prix de vente : 15 000 €)"
		}
		sums, rest := leadingSums(d.text[m[1]:])
		for _, s := range sums {
			if s.currency == "" && (signed || !lostSign.MatchString(rest)) {
				continue // not a price, or a text that stops inside it
			}
			if s.currency == "" {
				g.Findings = append(g.Findings, missingUnit(s.text, currency, d.line(m[0])))
			}
			if manyOfOne.MatchString(s.text) {
				f := missingUnit(s.text, "", d.line(m[0]))
				f.Message = fmt.Sprintf("line %d: %q: the unit does not go with the number; check the price", d.line(m[0]), s.text)
				g.Findings = append(g.Findings, f)
			}
			if cents := centsInWords.FindStringSubmatch(rest); cents != nil && s.scale == 0 && len(sums) == 1 {
				n, _ := strconv.ParseInt(cents[1], 10, 64) // two digits
				s.digits, s.scale = s.digits*100+n, 2
			}
			s.number = s.decimalComma()
			if value, ok := s.minor(); ok && !contains(prices, value) {
				prices = append(prices, value)
				d.priceCurrency = s.currency
			}
		}
		if other := otherPrice.FindStringSubmatch(rest[:min(len(rest), 120)]); other != nil {
			if s, ok := wholeSum(other[1]); ok {
				if value, ok := s.minor(); ok && !contains(prices, value) {
					prices = append(prices, value) // of another emission or another time
				}
			}
		}
	}
	return prices
}

func contains(prices []money.Amount, value money.Amount) bool {
	for _, p := range prices {
		if p == value {
			return true
		}
	}
	return false
}

func missingUnit(printed, currency string, line int) game.Finding {
	f := game.Finding{Code: game.UnitMissing, Printed: &printed, Message: fmt.Sprintf("line %d: %q is printed without its currency", line, printed)}
	if currency != "" {
		f.Computed = &currency
	}
	return f
}

// leadingSums reads a list of sums: "0,5 EUR, 1 EUR ou 2 EUR". A list whose last
// sum alone has a sign shares it ("3 ou 6 F").
func leadingSums(text string) (out []sum, rest string) {
	text = strings.ReplaceAll(text[:min(len(text), 200)], "\n", " ")
	for {
		s, after, ok := leadingSum(text)
		if !ok {
			break
		}
		out = append(out, s)
		rest = strings.TrimLeft(after, " ")
		trimmed := strings.TrimLeft(strings.TrimPrefix(strings.TrimPrefix(strings.TrimPrefix(rest, ","), "ou "), "et "), " ")
		trimmed = strings.TrimPrefix(trimmed, "ou ")
		if trimmed == rest {
			break
		}
		text = trimmed
	}
	for i := range out {
		if out[i].currency == "" {
			out[i].currency = out[len(out)-1].currency
		}
	}
	return out, rest
}

// centsInWords matches what may follow a price in whole units: "1 € 50", "2 euros et 50
// centimes".
var centsInWords = regexp.MustCompile(`(?i)^\s*(?:et\s+)?([0-9]{2})(?:\s+(?:centimes?|cents?|c)\b|\s*[.;,)\n]|\s*$)`)

// otherPrice matches a second price in the same sentence.
var otherPrice = regexp.MustCompile(`(?i)^[^.;]*?\b(?:et|puis|ou)\s+(?:fixé\s+)?(?:à|de)\s+((?:` + run + `) ?(?:` + sign + `))`)

// manyOfOne matches "1 Euros": a unit that fits another number.
var manyOfOne = regexp.MustCompile(`(?i)^1 ?(?:euros|francs)$`)

// lostSign matches what follows a price whose sign was lost: the sentence ends or goes on.
var lostSign = regexp.MustCompile(`^[,.;)]`)

// otherBlock matches a second size in the same sentence: "ou de 500 000 tickets".
var otherBlock = regexp.MustCompile(`(?i)^\s*,?\s*ou\s+(?:en\s+blocs\s+)?de\s+(` + run + `)\s+(?:tickets?|billets?|unités?)`)

var inSeries = regexp.MustCompile(`(?i)^[^.;]*\b(?:séries?\s+de|reeks(?:en)?\s+van)\b`)

// leastBlock is the fewest tickets that a Belgian "per N" is a block of.
const leastBlock = 1000

// block reads the block size where the text names one only.
func (d *document) block(f *figures) {
	var sizes []int64
	add := func(text string, times int64, at int) {
		if strings.EqualFold(text, "un") {
			text = "1"
		}
		figure, ok := parseNumber(text)
		n := figure.digits
		if !ok || n < 1 || n > 1<<40 {
			return
		}
		n *= times
		for range figure.scale { // 1,5 million
			if n%10 != 0 {
				return
			}
			n /= 10
		}
		for _, have := range sizes {
			if have == n {
				return
			}
		}
		if len(sizes) == 0 {
			f.blockAt = at
		}
		sizes = append(sizes, n)
	}
	for _, m := range blockOf.FindAllStringSubmatchIndex(d.text, -1) {
		times := int64(1)
		switch {
		case m[4] >= 0 && strings.HasSuffix(strings.ToLower(d.text[m[4]:m[5]]), "mille"):
			times = 1000
		case m[4] >= 0:
			times = 1_000_000
		}
		add(d.text[m[2]:m[3]], times, m[0])
		f.unit = unitOf(d.text[m[6]:m[7]])
		if other := otherBlock.FindStringSubmatch(d.text[m[1]:min(len(d.text), m[1]+60)]); other != nil {
			add(other[1], 1, m[0])
		}
	}
	if len(sizes) == 0 {
		for _, m := range belgianOf.FindAllStringSubmatchIndex(d.text, -1) {
			if rest := d.text[m[3]:]; len(rest) > 1 && strings.ContainsAny(rest[:1], " .,") && rest[1] >= '0' && rest[1] <= '9' {
				continue // only the beginning of a number
			}
			if rest := d.text[m[1]:]; inSeries.MatchString(rest[:min(len(rest), 80)]) {
				continue // the whole issue, of which a series is the block
			}
			if n, ok := integer(d.text[m[2]:m[3]]); ok && n < leastBlock {
				continue // "5 per 100"
			}
			if text := d.text[m[2]:m[3]]; strings.HasPrefix(strings.ToLower(text), "m") {
				add("1", 1_000_000, m[0])
			} else {
				add(text, 1, m[0])
			}
		}
	}
	if len(sizes) == 1 {
		f.blockSize = &sizes[0]
	}
}

// offer reads a combined offer and checks its shares.
func (d *document) offer(g *game.Game) *game.Offer {
	m := offerOf.FindStringIndex(d.text)
	if m == nil {
		return nil
	}
	price, _, ok := leadingSum(d.text[m[1]:])
	if !ok {
		return nil
	}
	offer := &game.Offer{}
	if value, ok := price.minor(); ok {
		offer.SalePrice = &value
	}
	var shares []sum
	if from := sharesFrom.FindStringIndex(d.text[m[1]:]); from != nil {
		rest := d.text[m[1]+from[1]:]
		for part := partOf.FindStringSubmatchIndex(rest); part != nil; part = partOf.FindStringSubmatchIndex(rest) {
			if s, ok := wholeSum(rest[part[2]:part[3]]); ok {
				s.number = s.decimalComma()
				shares = append(shares, s)
				offer.Parts = append(offer.Parts, game.Part{Game: rest[part[4]:part[5]], Minor: s.minorText()})
			}
			rest = rest[part[1]:]
		}
	}
	line := d.line(m[0])
	if whole, ok := addSums(shares); len(shares) > 0 && (!ok || whole != scaled(price)) {
		g.Findings = append(g.Findings, shareSum(price.text, "", fmt.Sprintf("line %d: the shares of the offer do not add up to its price of %s", line, price.text)))
	}
	if m := joins.FindStringSubmatchIndex(d.text); m != nil {
		if n, ok := smallNumber(d.text[m[2]:m[3]]); ok {
			offer.Participations = &n
			d.participations(g, shares, n)
		}
	}
	return offer
}

// participations checks that the participations cost the other game's share.
func (d *document) participations(g *game.Game, shares []sum, n int64) {
	m := joinPrice.FindStringIndex(d.text)
	if m == nil || len(shares) != 2 {
		return
	}
	each, _, ok := leadingSum(d.text[m[1]:])
	if product, err := money.Amount(scaled(each)).Times(n); ok && (err != nil || int64(product) != scaled(shares[1])) {
		g.Findings = append(g.Findings, shareSum(each.text, shares[1].text,
			fmt.Sprintf("line %d: %d participations at %s are not the share of %s", d.line(m[0]), n, each.text, shares[1].text)))
	}
}

func shareSum(printed, computed, message string) game.Finding {
	f := game.Finding{Code: game.ShareSum, Printed: &printed, Message: message}
	if computed != "" {
		f.Computed = &computed
	}
	return f
}

// scaled is a sum in ten-thousandths of the currency's unit, -1 when it is finer or too large.
func scaled(s sum) int64 {
	digits := money.Amount(s.digits)
	var err error
	for i := s.scale; i < 4 && err == nil; i++ {
		digits, err = digits.Times(10)
	}
	if err != nil || s.scale > 4 {
		return -1
	}
	return int64(digits)
}

func addSums(sums []sum) (int64, bool) {
	var all money.Amount
	for _, s := range sums {
		part := scaled(s)
		var err error
		if all, err = all.Add(money.Amount(part)); part < 0 || err != nil {
			return 0, false
		}
	}
	return int64(all), true
}

func smallNumber(text string) (int64, bool) {
	switch strings.ToLower(text) {
	case "un", "une":
		return 1, true
	case "deux":
		return 2, true
	case "trois":
		return 3, true
	case "quatre":
		return 4, true
	case "cinq":
		return 5, true
	case "six":
		return 6, true
	case "sept":
		return 7, true
	case "huit":
		return 8, true
	case "neuf":
		return 9, true
	case "dix":
		return 10, true
	}
	return integer(text)
}

var (
	title      = regexp.MustCompile(`(?im)^[^\p{L}\n]*(?:modifications?[^«"\n]*|additif[^«"\n]*|avis[^«"\n]*)?règlement\s+(?:particulier\s+)?(?:du|des)\s+jeux?\b[^«"<“\n|]*` + quoted + `(.*)$`)
	bareTitle  = regexp.MustCompile(`(?m)^(?:Règlement|RÈGLEMENT) particulier du jeu (?:de grattage |de loterie instantanée )?(?:dénommé )?([\p{Lu}0-9][^\n|«"(]{1,60}?)\s*$`)
	ownName    = regexp.MustCompile(`(?i)(?:codes?\s+jeux?\s+du\s+jeu|lots\s+du\s+jeu|prix\s+du\s+jeu|description\s+du\s+jeu|participation\s+aux?\s+jeux?|participation\s+au\s+jeu)\s+` + quoted)
	fractioned = regexp.MustCompile(`(?i)\ble\s+jeu\s+` + quoted + `\s+est\s+fractionné`)
	lottery    = regexp.MustCompile(`(?i)\b(?:loterie|loterij|jeu)\b[^«"“\n|]{0,80}?\b(?:appelée|dénommée|intitulée|genaamd|genoemd)\s+` + quoted)
	mention    = regexp.MustCompile(`(?i)\b(?:le|du|au)\s+jeu\s+` + quoted)
	stageName  = regexp.MustCompile(`(?i)^(?:jeu|bonus|zone|étape)\b`)
)

// name finds the game's own name: in the title, in the sentences that speak of
// the game itself, at last the only game mentioned. Two candidates are none.
func (d *document) name(offer *game.Offer) string {
	if all := title.FindAllStringSubmatch(d.text, -1); len(all) > 0 {
		if strings.ContainsAny(all[0][2], "«“") {
			return "" // a text about several games
		}
		return all[0][1]
	}
	if m := bareTitle.FindStringSubmatch(d.text); m != nil {
		return m[1]
	}
	for _, pattern := range []*regexp.Regexp{fractioned, ownName, lottery, mention} {
		names := map[string]bool{}
		first := ""
		for _, m := range pattern.FindAllStringSubmatch(d.text, -1) {
			if stageName.MatchString(m[1]) || pattern == mention && d.partner(m[1], offer) {
				continue
			}
			if first == "" {
				first = m[1]
			}
			names[strings.ToLower(m[1])] = true
		}
		if len(names) == 1 {
			return first
		}
	}
	return ""
}

// partner reports whether a name is that of the other game of an offer.
func (d *document) partner(name string, offer *game.Offer) bool {
	return offer != nil && len(offer.Parts) > 1 && name != offer.Parts[0].Game
}

var (
	online  = regexp.MustCompile(`(?i)\b(?:jeux?|loterie|offerts?|accessibles?|proposée?s?|prises?\s+de\s+jeu)\b[^.;:\n]{0,60}?\b(?:par|sur)\s+(?:l')?internet\b|unités?\s+de\s+jeu\b`)
	onPaper = regexp.MustCompile(`(?i)\btickets?\b|\bbillets?\b|\bbiljet(?:ten)?\b|jeux?\s+de\s+grattage`)
)

// channel is that of the thing a block counts; where no block is named, what the text
// calls the game and what is sold. A web address makes no internet game.
func (d *document) channel() game.Channel {
	if m := blockOf.FindStringSubmatch(d.text); m != nil {
		if unitOf(m[3]) == game.UnitGame {
			return game.Internet
		}
		return game.Ticket
	}
	switch {
	case online.MatchString(d.text):
		return game.Internet
	case onPaper.MatchString(d.text):
		return game.Ticket
	}
	return ""
}

var (
	opensAmendment = regexp.MustCompile(`(?im)\A\s*["«“]\s*art|^[^\p{L}\n]*(?:modifications?|additif|avenant)\b`)
	amends         = regexp.MustCompile(`(?i)(?:articles?|sous-articles?)\s+[0-9][0-9. ,et]*\s*(?:est|sont)?\s*(?:ainsi\s+)?(?:ajouté|remplacé|supprimé|modifié|abrogé|complété)|suppression\s+de\s+«`)
	opensNotice    = regexp.MustCompile(`(?im)\A[^\p{L}]*avis\b|^[^\p{L}\n]*avis\s+(?:divers|relatifs?|de\s+clôture|d'émissions?|concernant|portant)\b`)
	regulates      = regexp.MustCompile(`(?im)le\s+présent\s+règlement|^[^\p{L}\n]*art(?:icle|\.)\s+[0-9]|règlement\s+particulier`)
)

func (d *document) kind(emissions bool) game.Kind {
	switch {
	case opensNotice.MatchString(d.text):
		return game.Notice
	case opensAmendment.MatchString(d.text[:min(len(d.text), 2000)]), amends.MatchString(d.text):
		return game.Amendment
	case regulates.MatchString(d.text), priceOf.MatchString(d.text), blockOf.MatchString(d.text):
		return game.Regulation
	case emissions:
		return game.Notice
	}
	return game.Other
}
