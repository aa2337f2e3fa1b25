// Package rules says what a ticket's symbols win, by the articles of its game's
// regulation, and draws symbols that win a given prize in a given way. It owns no
// prize table and no code of a ticket: whoever seals a block compares what the symbols
// win with what the block's file says. It reads no file; its settings are data that
// operations review (configs/rules). Where a regulation is ambiguous its settings hold
// one switch, whose zero value is the reading that the doc comment argues for.
// Start at Rules; bingo.go, crossingo.go and cash.go are the games.
package rules

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"

	"grattoir/validate/money"
)

// Rules are one game's way from symbols to a prize.
type Rules interface {
	// Evaluate reads one ticket's symbols in the game's text form and says what they
	// win. It returns ErrForm for text that is not in that form, ErrExcluded for symbols
	// that the regulation does not allow, ErrPrize for wins whose sum is no prize of the
	// table; the message names the place and the article. It keeps nothing of symbols.
	Evaluate(symbols []byte) (Result, error)
}

// Maker also draws symbols.
type Maker interface {
	Rules
	// Ways lists the ways to a prize; at least one has the prize 0. The caller must
	// not change it.
	Ways() []Way
	// Draw appends the symbols of a ticket that wins in Ways()[way], in the form that
	// Evaluate reads. Every ticket that wins in this way is equally likely, as far as
	// the game's doc comment says. It never fails.
	Draw(dst []byte, way int, rng *rand.Rand) []byte
}

// Way is one way to win a prize: which parts of a ticket win how much.
type Way struct {
	Name  string       // in English, for messages: "1 line 20 €, bonus 20 €"
	Prize money.Amount // the sum, 0 for losing tickets
	// Share is this way's part of the tickets with its prize: Share of the sum of the
	// shares of all ways to the same prize. 0 is never drawn.
	Share uint64
}

// Result is what a ticket's symbols win.
type Result struct {
	// Prize is the sum of the wins, one indivisible prize; 0 for a losing ticket.
	Prize money.Amount
	Wins  []Win // in the order of the regulation; empty for a losing ticket
}

// Win is one winning part of a ticket.
type Win struct {
	Article string // of the regulation: "4.2.7"
	Amount  money.Amount
	// For a person, without the amount: "Jeu 1, 2 lignes", "Game 1, 2 lines".
	French, English string
}

var (
	// ErrForm means that the text is not in the game's symbol form.
	ErrForm = errors.New("not in the symbols' form")
	// ErrExcluded means that the regulation does not allow these symbols: the ticket
	// is misprinted or made up, and wins nothing before a person has looked at it.
	ErrExcluded = errors.New("excluded by the regulation")
	// ErrPrize means that the wins add up to no prize of the table.
	ErrPrize = errors.New("no prize of the table")
)

// add appends a win and adds its amount.
func (r *Result) add(w Win) error {
	sum, err := r.Prize.Add(w.Amount)
	if err != nil {
		return fmt.Errorf("article %s: %w", w.Article, err)
	}
	r.Prize = sum
	r.Wins = append(r.Wins, w)
	return nil
}

// Text says in words what the ticket wins and why: "40 € : Jeu 1, 1 ligne (20 €) +
// Bonus, carte 3 (20 €)". Currency is an ISO 4217 code.
func (r Result) Text(currency string, lang money.Language) string {
	if len(r.Wins) == 0 {
		if lang == money.English {
			return "no win"
		}
		return "aucun gain"
	}
	text := money.Text(r.Prize, currency, lang, money.Receipt)
	for i, w := range r.Wins {
		words, sep := w.French, " : "
		if lang == money.English {
			words, sep = w.English, ": "
		}
		if i > 0 {
			sep = " + "
		}
		text += sep + words + " (" + money.Text(w.Amount, currency, lang, money.Receipt) + ")"
	}
	return text
}

// count is a number with its noun in English: "1 line", "2 lines".
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}
