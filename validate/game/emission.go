package game

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Emission is a numbered print run of a game. Dates are ISO 8601 (2001-04-01). The
// regulation rarely names it; opening and closing notices do, one fact at a time.
type Emission struct {
	Number   *string `json:"number" toml:"number,omitempty"`       // digits, no leading zeros
	GameCode *string `json:"game_code" toml:"game_code,omitempty"` // text of 3 to 6 digits, leading zeros count
	Opens    *string `json:"opens" toml:"opens,omitempty"`
	Closes   *string `json:"closes" toml:"closes,omitempty"` // the closing notice's date; the claim period runs from it

	// Game is set only in a notice about several games: the one that this emission
	// belongs to, as printed.
	Game string `json:"game,omitempty" toml:"-"`

	// Notices are the texts that the facts come from, oldest first; the catalogue
	// keeps them, the JSON answer does not.
	Notices []Source `json:"-" toml:"notices,omitempty"`
}

// ErrEmission means that a notice contradicts what the catalogue knows.
var ErrEmission = errors.New("contradicts the catalogue")

// Announce adds what a notice says of an emission, and says in words what changed.
// An emission is found by its number or its game code. A number or a game code never
// changes: the tickets are printed with it. Dates may be announced anew (the
// published date of a closing is the one that counts), so a later notice replaces
// them. It returns ErrEmission for a contradiction and changes nothing then.
func (g *Game) Announce(news Emission) (changes []string, err error) {
	if news.Number == nil && news.GameCode == nil {
		if len(g.Emissions) != 1 {
			return nil, fmt.Errorf("game %s has %d emissions, and the notice gives neither the emission's number nor its game code", g.ID, len(g.Emissions))
		}
		news.Number, news.GameCode = g.Emissions[0].Number, g.Emissions[0].GameCode
	}
	if err := news.validate(); err != nil {
		return nil, err
	}
	news.Game = ""
	at, err := g.emission(news)
	if err != nil {
		return nil, err
	}
	before := Emission{}
	if at < len(g.Emissions) {
		before = g.Emissions[at]
	}
	after := before
	after.Notices = append(slices.Clone(before.Notices), news.Notices...)
	after.learn(&changes, "number", &after.Number, news.Number)
	after.learn(&changes, "game code", &after.GameCode, news.GameCode)
	after.learn(&changes, "opens", &after.Opens, news.Opens)
	after.learn(&changes, "closes", &after.Closes, news.Closes)
	if err := after.validate(); err != nil {
		return nil, fmt.Errorf("game %s, emission %s: %w: %w", g.ID, after.label(), err, ErrEmission)
	}
	if len(changes) == 0 {
		return nil, nil
	}
	g.Emissions = slices.Clone(g.Emissions)
	if at == len(g.Emissions) {
		g.Emissions = append(g.Emissions, after)
	} else {
		g.Emissions[at] = after
	}
	return changes, nil
}

// emission finds where the notice's emission stands, len(g.Emissions) for a new one.
func (g *Game) emission(news Emission) (int, error) {
	at := len(g.Emissions)
	for i, e := range g.Emissions {
		number, code := agree(e.Number, news.Number), agree(e.GameCode, news.GameCode)
		switch {
		case number == differs && code == same, number == same && code == differs:
			return 0, fmt.Errorf("game %s: the catalogue has emission %s with game code %s, the notice emission %s with game code %s: %w",
				g.ID, word(e.Number), word(e.GameCode), word(news.Number), word(news.GameCode), ErrEmission)
		case number != same && code != same:
			continue
		case at < len(g.Emissions):
			return 0, fmt.Errorf("game %s: number and game code of the notice belong to two emissions: %w", g.ID, ErrEmission)
		}
		at = i
	}
	return at, nil
}

type agreement int

const (
	unknown agreement = iota // at least one side is not known
	same
	differs
)

func agree(a, b *string) agreement {
	switch {
	case a == nil || b == nil:
		return unknown
	case *a == *b:
		return same
	}
	return differs
}

// learn sets a fact and notes the change.
func (e *Emission) learn(changes *[]string, what string, have **string, news *string) {
	switch agree(*have, news) {
	case same:
		return
	case differs:
		*changes = append(*changes, fmt.Sprintf("%s: %s, was %s", what, *news, **have))
	case unknown:
		if news == nil {
			return
		}
		*changes = append(*changes, what+": "+*news)
	}
	*have = news
}

func (e Emission) label() string {
	if e.Number == nil && e.GameCode != nil {
		return "with game code " + *e.GameCode
	}
	return word(e.Number)
}

func word(text *string) string {
	if text == nil {
		return "unknown"
	}
	return *text
}

func (e Emission) validate() error {
	if e.Number != nil {
		if n := *e.Number; len(n) < 1 || len(n) > 3 || n[0] == '0' || strings.Trim(n, "0123456789") != "" {
			return fmt.Errorf("number %.12q: want 1 to 3 digits with no leading zero", n)
		}
	}
	if e.GameCode != nil {
		if code := *e.GameCode; len(code) < 3 || len(code) > 6 || strings.Trim(code, "0123456789") != "" {
			return fmt.Errorf("game code %.12q: want 3 to 6 digits", code)
		}
	}
	for _, date := range []*string{e.Opens, e.Closes} {
		if date == nil {
			continue
		}
		if _, err := time.Parse(time.DateOnly, *date); err != nil {
			return fmt.Errorf("date %.20q: want year-month-day, 2001-04-01", *date)
		}
	}
	if e.Opens != nil && e.Closes != nil && *e.Closes < *e.Opens {
		return fmt.Errorf("closes on %s, before it opens on %s", *e.Closes, *e.Opens)
	}
	return nil
}

// validateEmissions checks each emission and that no two share a number or a code.
func (g Game) validateEmissions() error {
	var errs []error
	for i, e := range g.Emissions {
		if err := e.validate(); err != nil {
			errs = append(errs, fmt.Errorf("emission %d: %w", i+1, err))
		}
		for _, other := range g.Emissions[:i] {
			if e.Game == other.Game && agree(e.Number, other.Number) == same || agree(e.GameCode, other.GameCode) == same {
				errs = append(errs, fmt.Errorf("emission %d: number %s, game code %s: another has the same", i+1, word(e.Number), word(e.GameCode)))
			}
		}
	}
	return errors.Join(errs...)
}
