package rules

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"grattoir/validate/money"
)

// cashSettings has a made-up table: the real one is only in the printed Journal officiel.
func cashSettings() CashSettings {
	return CashSettings{
		Symbols: []string{"LIASSE", "PISTOLET", "CALECHE", "TIPI", "ETOILE", "TRAIN", "SERPENT", "AIGLE", "SANTIAG", "CHANCE", "PERSONNAGE"},
		Chance:  "CHANCE", Character: "PERSONNAGE", Stakes: []money.Amount{50, 100, 200},
		Combinations: []CashCombination{
			{[]string{"LIASSE", "LIASSE", "LIASSE"}, []money.Amount{1_000_000, 2_000_000, 4_000_000}},
			{[]string{"TRAIN", "TRAIN", "TRAIN"}, []money.Amount{500, 1000, 2000}},
			{[]string{"TRAIN", "CHANCE", "TRAIN"}, []money.Amount{250, 500, 1000}},
			{[]string{"TIPI", "TIPI", "TIPI"}, []money.Amount{50, 100, 200}},
		},
	}
}

var cashPrizes = []money.Amount{2_000_000, 1500, 1000, 600, 500, 300, 200, 100}

func newCash(t testing.TB, change func(*CashSettings)) *Cash {
	t.Helper()
	s := cashSettings()
	if change != nil {
		change(&s)
	}
	c, err := NewCash(s, 100, cashPrizes)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestCashFollowsItsArticles(t *testing.T) {
	const lose = "AIGLE-TIPI-TRAIN/"
	tests := []struct {
		name    string
		change  func(*CashSettings)
		symbols string
		prize   money.Amount
		words   string
		err     error
	}{
		{"4.8 loses", nil, lose + lose + lose, 0, "aucun gain", nil},
		{"4.4.1 a line", nil, lose + "TIPI-TIPI-TIPI/" + lose, 100, "1 € : ligne 2, TIPI-TIPI-TIPI (1 €)", nil},
		{"4.4.1 lines add", nil, "TIPI-TIPI-TIPI/" + lose + "TRAIN-CHANCE-TRAIN/", 600, "6 € : ligne 1, TIPI-TIPI-TIPI (1 €) + ligne 3, TRAIN-CHANCE-TRAIN (5 €)", nil},
		{"4.4.1 the stake's amount", nil, "LIASSE-LIASSE-LIASSE/" + lose + lose, 2_000_000, "", nil},
		{"4.4.1 in a column is no line", nil, "TIPI-AIGLE-TRAIN/TIPI-AIGLE-SERPENT/TIPI-TRAIN-AIGLE/", 0, "", nil},
		{"4.4.1 in any order", nil, "CHANCE-TRAIN-TRAIN/" + lose + lose, 500, "", nil},
		{"switch: in the printed order only", func(s *CashSettings) { s.Ordered = true }, "CHANCE-TRAIN-TRAIN/" + lose + lose, 0, "", nil},
		{"switch: the printed order", func(s *CashSettings) { s.Ordered = true }, "TRAIN-CHANCE-TRAIN/" + lose + lose, 500, "", nil},
		{"4.1 Chance in another combination", nil, "TIPI-CHANCE-TIPI/CHANCE-CHANCE-CHANCE/" + lose, 0, "", nil},
		{"4.4.2 three characters on one line", nil, "PERSONNAGE-PERSONNAGE-PERSONNAGE/" + lose + lose + "100 100 300", 500,
			"5 € : bonus, étagère 1 (1 €) + bonus, étagère 2 (1 €) + bonus, étagère 3 (3 €)", nil},
		{"4.4.2 on three lines", nil, "PERSONNAGE-TIPI-TRAIN/AIGLE-PERSONNAGE-TIPI/TIPI-TRAIN-PERSONNAGE/500 500 500", 1500, "", nil},
		{"4.4.2 two open nothing", nil, "PERSONNAGE-PERSONNAGE-TRAIN/" + lose + lose, 0, "", nil},
		{"4.4.2 more than three", nil, "PERSONNAGE-PERSONNAGE-PERSONNAGE/PERSONNAGE-TIPI-TRAIN/" + lose + "100 100 300", 0, "", ErrExcluded},
		{"switch: more than three", func(s *CashSettings) { s.MoreCharacters = true }, "PERSONNAGE-PERSONNAGE-PERSONNAGE/PERSONNAGE-TIPI-TRAIN/" + lose + "100 100 300", 500, "", nil},
		{"4.5 a direct win beside the bonus", nil, "TIPI-TIPI-TIPI/PERSONNAGE-PERSONNAGE-PERSONNAGE/" + lose + "100 100 300", 0, "", ErrExcluded},
		{"4.6 the bonus without its shelves", nil, "PERSONNAGE-PERSONNAGE-PERSONNAGE/" + lose + lose, 0, "", ErrExcluded},
		{"4.6 shelves without a bonus", nil, lose + lose + lose + "100 100 300", 0, "", ErrExcluded},
		{"4.6 an amount that is not in the table", nil, "PERSONNAGE-PERSONNAGE-PERSONNAGE/" + lose + lose + "100 150 300", 0, "", ErrExcluded},
		{"4.7 a sum that is not in the table", nil, "TIPI-TIPI-TIPI/TRAIN-TRAIN-TRAIN/" + lose, 0, "", ErrPrize},
		{"4.1 a twelfth symbol", nil, "TIPI-CACTUS-TIPI/" + lose + lose, 0, "", ErrExcluded},
		{"two lines", nil, lose + lose, 0, "", ErrForm},
		{"two symbols", nil, "TIPI-TIPI/" + lose + lose, 0, "", ErrForm},
		{"four symbols", nil, "TIPI-TIPI-TIPI-TIPI/" + lose + lose, 0, "", ErrForm},
		{"two shelves", nil, "PERSONNAGE-PERSONNAGE-PERSONNAGE/" + lose + lose + "100 100", 0, "", ErrForm},
		{"four shelves", nil, "PERSONNAGE-PERSONNAGE-PERSONNAGE/" + lose + lose + "100 100 100 100", 0, "", ErrForm},
		{"nothing", nil, "", 0, "", ErrForm},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := newCash(t, test.change).Evaluate([]byte(test.symbols))
			if !errors.Is(err, test.err) || got.Prize != test.prize {
				t.Errorf("%d, %v; want %d, %v", got.Prize, err, test.prize, test.err)
			}
			if words := got.Text("EUR", money.French); test.words != "" && words != test.words {
				t.Errorf("%q, want %q", words, test.words)
			}
		})
	}
}

func TestCashRefusesSettingsThatItsRegulationExcludes(t *testing.T) {
	tests := map[string]func(*CashSettings){
		"none of the symbols":  func(s *CashSettings) { s.Combinations[0].Symbols[1] = "CACTUS" },
		"only opens the bonus": func(s *CashSettings) { s.Combinations[0].Symbols[1] = "PERSONNAGE" },
		"stands twice":         func(s *CashSettings) { s.Combinations[1].Symbols = []string{"LIASSE", "LIASSE", "LIASSE"} },
		"one for each stake":   func(s *CashSettings) { s.Combinations[0].Amounts = []money.Amount{100} },
		"more than 0":          func(s *CashSettings) { s.Combinations[0].Amounts[1] = 0 },
		"article 4.1 has 11":   func(s *CashSettings) { s.Symbols = s.Symbols[:10] },
		"11 different words":   func(s *CashSettings) { s.Symbols[3] = "TRAIN" },
		"two of the symbols":   func(s *CashSettings) { s.Chance = "JOKER" },
		"copy article 4.4.1":   func(s *CashSettings) { s.Combinations = nil },
		"stakes_minor":         func(s *CashSettings) { s.Stakes = []money.Amount{50, 150, 200} },
	}
	for want, change := range tests {
		s := cashSettings()
		change(&s)
		if _, err := NewCash(s, 100, cashPrizes); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want a word of %q", err, want)
		}
	}
	if _, err := NewCash(cashSettings(), 100, nil); err == nil {
		t.Error("a stake with no prize table was accepted")
	}
}

func FuzzCashSymbols(f *testing.F) {
	f.Add([]byte("TRAIN-CHANCE-TRAIN/AIGLE-TIPI-TRAIN/SERPENT-AIGLE-TIPI/"))
	f.Add([]byte("PERSONNAGE-PERSONNAGE-PERSONNAGE/AIGLE-TIPI-TRAIN/SERPENT-AIGLE-TIPI/100 100 300"))
	c := newCash(f, nil)
	f.Fuzz(func(t *testing.T, text []byte) {
		unit, err := c.parse(text)
		if err != nil {
			return
		}
		if back := c.append(nil, unit); !bytes.Equal(back, text) {
			t.Errorf("%q is read and written as %q", text, back)
		}
		if got, err := c.Evaluate(text); err == nil && (got.Prize < 0 || (got.Prize > 0) != (len(got.Wins) > 0)) {
			t.Errorf("%q wins %+v", text, got)
		}
	})
}
