package configs

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"grattoir/validate/game"
	"grattoir/validate/game/rules"
	"grattoir/validate/money"
)

//go:embed rules/*.toml
var ruleFiles embed.FS

// ErrNoRules means that no rules are known for a game's symbols.
var ErrNoRules = errors.New("no rules for the symbols of this game")

// ShippedRules returns the shipped settings of a game's symbols, or ErrNoRules.
func ShippedRules(id string) (name string, text []byte, err error) {
	name = "rules/" + id + ".toml"
	text, err = ruleFiles.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		files, _ := ruleFiles.ReadDir("rules") // embedded: it can always be read
		var known []string
		for _, f := range files {
			known = append(known, strings.TrimSuffix(f.Name(), ".toml"))
		}
		return "", nil, fmt.Errorf("game %s: %w: they are known for %s", id, ErrNoRules, strings.Join(known, ", "))
	}
	return name, text, err
}

// DecodeRules reads a file of settings for a game and makes its rules with the prizes of
// one of its tables. Errors name the file.
func DecodeRules(name string, text []byte, id string, t game.Table) (rules.Rules, error) {
	var prizes []money.Amount
	for _, row := range t.Rows {
		prizes = append(prizes, row.Amount)
	}
	var r rules.Rules
	var err error
	switch id {
	case "bingo":
		var s rules.BingoSettings
		if err := Decode(name, text, &s); err != nil {
			return nil, err
		}
		r, err = rules.NewBingo(s, prizes)
	case "crossingo":
		var s rules.CrossingoSettings
		if err := Decode(name, text, &s); err != nil {
			return nil, err
		}
		r, err = rules.NewCrossingo(s, prizes)
	case "cash-20000":
		var s rules.CashSettings
		if err := Decode(name, text, &s); err != nil {
			return nil, err
		}
		stake := t.Stake
		if stake == nil {
			if stake = t.Price; stake == nil {
				return nil, fmt.Errorf("game %s: the prize table has no stake", id)
			}
		}
		r, err = rules.NewCash(s, *stake, prizes)
	default:
		return nil, fmt.Errorf("game %s: %w", id, ErrNoRules)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return r, nil
}
