package configs

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"grattoir/validate/game/rules"
	"grattoir/validate/money"
)

func TestShippedRulesOfferAWayToEveryPrizeOfTheirGame(t *testing.T) {
	games, err := Games()
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewChaCha8([32]byte{1}))
	for _, g := range games {
		name, text, err := ShippedRules(g.ID)
		if err != nil {
			t.Errorf("%s: %v", g.ID, err)
			continue
		}
		r, err := DecodeRules(name, text, g.ID, g.Tables[0])
		if g.ID == "cash-20000" { // its table of combinations is nowhere but on paper
			if !errors.Is(err, rules.ErrNoCombinations) {
				t.Errorf("%s: %v", g.ID, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", g.ID, err)
			continue
		}
		shares := map[money.Amount]uint64{}
		maker := r.(rules.Maker)
		for i, w := range maker.Ways() {
			shares[w.Prize] += w.Share
			if got, err := r.Evaluate(maker.Draw(nil, i, rng)); err != nil || got.Prize != w.Prize {
				t.Errorf("%s, %s: %d, %v", g.ID, w.Name, got.Prize, err)
			}
		}
		for _, row := range g.Tables[0].Rows {
			if shares[row.Amount] == 0 {
				t.Errorf("%s: no way to the prize of %d", g.ID, row.Amount)
			}
		}
	}
}

func TestEveryShippedRulesFileBelongsToAGame(t *testing.T) {
	files, err := filepath.Glob("rules/*")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		if _, err := os.Stat("games/" + filepath.Base(f)); err != nil {
			t.Error(err)
		}
	}
}

func TestRulesNameTheFileAndTheSettingThatIsWrong(t *testing.T) {
	games, err := Games()
	if err != nil {
		t.Fatal(err)
	}
	_, text, err := ShippedRules("bingo")
	if err != nil {
		t.Fatal(err)
	}
	for old, change := range map[string][2]string{
		"bonus_minor = 2000": {"bonus_mino = 2000", `my.toml:6:1: unknown key "bonus_mino"; did you mean "bonus_minor"?`},
		"{ lines = 8,":       {"{ lines = 9,", "my.toml: ways: number 23: lines 9: want 0 to 8"},
	} {
		bad := strings.Replace(string(text), old, change[0], 1)
		if _, err := DecodeRules("my.toml", []byte(bad), "bingo", games[0].Tables[0]); err == nil || !strings.Contains(err.Error(), change[1]) {
			t.Errorf("%v, want %q", err, change[1])
		}
	}
	if _, _, err := ShippedRules("morpion"); !errors.Is(err, ErrNoRules) || !strings.Contains(err.Error(), "bingo") {
		t.Errorf("an unknown game: %v", err)
	}
	if _, err := DecodeRules("my.toml", text, "morpion", games[0].Tables[0]); !errors.Is(err, ErrNoRules) {
		t.Errorf("an unknown game: %v", err)
	}
}
