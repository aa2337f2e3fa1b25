package reglement

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"grattoir/validate/game"
)

// A notice says one or more of: emission, game code, first day of sale, closing. Each
// fact belongs to the emission before it, or to the one after it where a text names the
// game code first.
var (
	emissionOf = regexp.MustCompile(`(?i)[ée]missions?\s+(?:de\s+tickets\s+)?(?:n\s?(?:os?|°s?|um[ée]ros?)?\.?\s*)?([0-9]{1,3})\b(?:\s*[=:]\s*([0-9]{3,6})\b)?`)
	codeOf     = regexp.MustCompile(`(?i)\bcodes?[\s-]+jeux?\s*(?:est\s+(?:le\s+)?|n[o°]\s*)?[:=]?\s*([0-9]{3,6})\b`)
	codeList   = regexp.MustCompile(`(?i)\bcodes?[\s-]+jeux?\s*:?\s*([0-9]{3,6}(?:\s*(?:,|et)\s*[0-9]{3,6})+)\b`)
	numberList = regexp.MustCompile(`(?i)[ée]missions\s+(?:n\s?(?:os?|°s?)?\.?\s*)?([0-9]{1,3}(?:\s*(?:,|et)\s*(?:n\s?(?:os?|°s?)?\.?\s*)?[0-9]{1,3})+)\b`)
	opensOn    = regexp.MustCompile(`(?i)(?:\b(?:vente|diffus\p{L}*|disponibles?|commercialis\p{L}*|possibles?|lanc\p{L}*)\b[^.;]{0,60}?(?:^|[\s,(])à\s+(?:compter|partir)\s+d[ue]|(?:mises?\s+)?en\s+vente\s+(?:[^.;\n]{0,30}?)?(?:le|du)|(?:diffusée?s?|disponibles?|commercialisée?s?)\s+(?:le|du)|première?\s+jour\s+de\s+vente\s*:?)\s*` + date)
	closesOn   = regexp.MustCompile(`(?i)(?:\bcl(?:ôtur|otur|os)\p{L}*|\bfin\s+de\s+(?:la\s+)?(?:commercialisation|vente)|\barrêt\s+de\s+(?:la\s+)?(?:commercialisation|vente)|\bdate\s+limite\s+de\s+vente|\bne\s+ser(?:a|ont)\s+plus\s+(?:vendu|commercialisé)\p{L}*)[^.;]{0,80}?` + date)
	spanOf     = regexp.MustCompile(`(?i)\b(?:vente|diffusion|commercialisation|émission|emission)\b[^.;]{0,40}?\bdu\s+` + day + `(?:\s+` + month + `(?:\s+([0-9]{4}))?)?\s+au\s+` + date)
	gameBehind = regexp.MustCompile(`(?i)^[^.;«"“]{0,40}?\bjeux?\s+(?:dénommés?\s+)?` + quoted)
	gameBefore = regexp.MustCompile(quoted + `[^«"“]*$`)
	bareBefore = regexp.MustCompile(`(?:^|[\n;,.]\s*|\bet\s+)-?\s*(\p{Lu}[\p{Lu}\p{Nd} '’-]{2,40}?)\s*[:,(]?\s*$`)
)

var (
	payingDate  = regexp.MustCompile(`(?i)payab|paiement|forclu|réclam|présent`) // the end of the claim period, not of the sale
	postponedTo = regexp.MustCompile(`(?i)^[^.;]*?\b(?:report|prolong|repouss)\p{L}*\s+(?:jusqu'\s*)?au\s+` + date)
	notYet      = regexp.MustCompile(`(?i)\bn(?:e\s|')\S*\s*\S*\s*pas\b`)
)

const (
	weekday = `(?:(?:lundi|mardi|mercredi|jeudi|vendredi|samedi|dimanche)\s+)?`
	day     = weekday + `([0-9]{1,2})(?:er)?`
	month   = `(janvier|février|fevrier|mars|avril|mai|juin|juillet|août|aout|septembre|octobre|novembre|décembre|decembre)`
	// date has five groups: day, month and year in words, or day.month.year in figures.
	date = `(?:` + day + `\s+` + month + `\s+([0-9]{4})|` + weekday + `([0-9]{1,2})[./-]([0-9]{1,2})[./-]([0-9]{4}))\b`
)

// maxName bounds how far before its emission a game is named, in bytes.
const maxName = 200

// maxEmission bounds the text that belongs to an emission, in bytes.
const maxEmission = 400

// emissions reads print runs.
func (d *document) emissions() []game.Emission {
	if out := d.listedEmissions(); out != nil {
		return out
	}
	starts := d.emissionStarts()
	codes := codeOf.FindAllStringSubmatchIndex(d.text, -1)
	var out []game.Emission
	names := map[string]bool{}
	for i, m := range starts {
		from, end := m[0], min(len(d.text), m[1]+maxEmission)
		if i+1 < len(starts) {
			end = min(end, starts[i+1][0])
		}
		// Where each code stands before its emission, so do the emission's bounds.
		if len(codes) == len(starts) && codes[0][0] < starts[0][0] {
			from = codes[i][0]
			if i+1 < len(codes) {
				end = min(end, codes[i+1][0])
			}
			from = max(from, m[0]-maxEmission)
		}
		number := strings.TrimLeft(d.text[m[2]:m[3]], "0")
		e := game.Emission{}
		if number != "" {
			e.Number = &number
		}
		fillEmission(&e, d.text[min(from, m[0]):end])
		if m[4] >= 0 {
			code := d.text[m[4]:m[5]]
			e.GameCode = &code
		}
		if e.GameCode == nil && e.Opens == nil && e.Closes == nil {
			continue
		}
		e.Game = d.gameOf(m)
		names[strings.ToLower(e.Game)] = true
		out = append(out, e)
	}
	if len(out) == 0 && len(codes) > 0 {
		e := game.Emission{}
		fillEmission(&e, d.text[codes[0][0]:min(len(d.text), codes[0][1]+maxEmission)])
		out = append(out, e)
	}
	return distinct(out, len(names) > 1)
}

// emissionStarts finds the emissions that have a number: "émission de 500 000 tickets"
// and "émission 500 000" have none.
func (d *document) emissionStarts() (out [][]int) {
	for _, m := range emissionOf.FindAllStringSubmatchIndex(d.text, -1) {
		rest := d.text[m[3]:]
		if len(rest) > 3 && (rest[0] == ' ' || rest[0] == '.') && allDigits(rest[1:4]) {
			continue
		}
		out = append(out, m)
	}
	return out
}

// listedEmissions reads "codes jeux 48830 et 48831 pour les émissions 1 et 2".
func (d *document) listedEmissions() (out []game.Emission) {
	c, n := codeList.FindStringSubmatchIndex(d.text), numberList.FindStringSubmatchIndex(d.text)
	if c == nil || n == nil {
		return nil
	}
	codes, numbers := listItem.FindAllString(d.text[c[2]:c[3]], -1), listItem.FindAllString(d.text[n[2]:n[3]], -1)
	if len(codes) != len(numbers) {
		return nil
	}
	var dates game.Emission // behind the list: those of all of them
	from := max(c[1], n[1])
	fillEmission(&dates, d.text[from:min(len(d.text), from+maxEmission)])
	for i := range codes {
		number := strings.TrimLeft(numbers[i], "0")
		out = append(out, game.Emission{Number: &number, GameCode: &codes[i], Opens: dates.Opens, Closes: dates.Closes})
	}
	return distinct(out, false)
}

var listItem = regexp.MustCompile(`[0-9]+`)

// gameOf is the game that an emission belongs to: named behind it, else before it on the
// same line.
func (d *document) gameOf(m []int) string {
	if name := gameBehind.FindStringSubmatch(d.text[m[1]:min(len(d.text), m[1]+200)]); name != nil {
		return name[1]
	}
	line := d.text[max(d.lines[d.line(m[0])-1], m[0]-maxName):m[0]]
	if name := gameBefore.FindStringSubmatch(line); name != nil {
		return name[1]
	}
	if name := bareBefore.FindStringSubmatch(line); name != nil {
		return name[1]
	}
	return ""
}

// distinct merges what a text says twice of one emission, leaves out emissions that
// contradict each other, and keeps the games only where there are several.
func distinct(all []game.Emission, several bool) []game.Emission {
	byGame := map[string]*game.Game{}
	var order []string
	for _, e := range all {
		name := e.Game
		if !several {
			name = ""
		}
		e.Game = ""
		g := byGame[name]
		if g == nil {
			g = &game.Game{}
			byGame[name] = g
			order = append(order, name)
		}
		// A notice that contradicts itself is not guessed at: the first one stands.
		if _, err := g.Announce(e); err != nil && e.Opens != nil && e.Closes != nil {
			e.Opens, e.Closes = nil, nil
			_, _ = g.Announce(e)
		}
	}
	var out []game.Emission
	for _, name := range order {
		for _, e := range byGame[name].Emissions {
			e.Game = name
			out = append(out, e)
		}
	}
	return out
}

func fillEmission(e *game.Emission, text string) {
	if m := codeOf.FindStringSubmatch(text); m != nil {
		e.GameCode = &m[1]
	}
	closing := closesOn.FindStringSubmatchIndex(text)
	if closing != nil && payingDate.MatchString(text[closing[0]:closing[1]]) {
		closing = nil
	}
	if closing != nil {
		e.Closes = isoDate(groupsOf(text, closing))
		rest := text[closing[1]:]
		if later := postponedTo.FindStringSubmatch(rest[:min(len(rest), 120)]); later != nil {
			e.Closes = isoDate(later[1:])
		}
	}
	for _, m := range opensOn.FindAllStringSubmatchIndex(text, -1) {
		if closing != nil && m[1] == closing[1] {
			continue // "close à compter du": the same date
		}
		if clause := text[strings.LastIndexAny(text[:m[0]], ".;\n")+1 : m[1]]; notYet.MatchString(clause) {
			continue
		}
		e.Opens = isoDate(groupsOf(text, m))
		break
	}
	if m := spanOf.FindStringSubmatch(text); m != nil && e.Opens == nil {
		from, to := m[1:4], m[4:]
		if from[1] == "" {
			from[1] = to[1]
		}
		if from[2] == "" {
			from[2] = to[2]
		}
		e.Opens, e.Closes = isoDate(append(slices.Clone(from), "", "", "")), isoDate(to)
	}
}

// groupsOf are the submatches of a match.
func groupsOf(text string, m []int) (out []string) {
	for i := 2; i < len(m); i += 2 {
		if m[i] < 0 {
			out = append(out, "")
			continue
		}
		out = append(out, text[m[i]:m[i+1]])
	}
	return out
}

// isoDate turns the groups of date into ISO 8601, nil for a day that the calendar lacks.
func isoDate(parts []string) *string {
	d, m, y := parts[0], months[strings.ToLower(parts[1])], parts[2]
	if d == "" {
		d, m, y = parts[3], parts[4], parts[5]
	}
	text := y + "-" + twoDigits(m) + "-" + twoDigits(d)
	if _, err := time.Parse(time.DateOnly, text); err != nil {
		return nil
	}
	return &text
}

func twoDigits(text string) string {
	if len(text) == 1 {
		return "0" + text
	}
	return text
}

var months = map[string]string{"janvier": "01", "février": "02", "fevrier": "02", "mars": "03", "avril": "04", "mai": "05", "juin": "06", "juillet": "07",
	"août": "08", "aout": "08", "septembre": "09", "octobre": "10", "novembre": "11", "décembre": "12", "decembre": "12"}
