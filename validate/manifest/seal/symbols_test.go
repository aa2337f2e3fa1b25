package seal

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"grattoir/validate/game/rules"
	"grattoir/validate/manifest"
	"grattoir/validate/money"
	"grattoir/validate/ticket"
)

// bingoRules have a line for 20 EUR, the bonus for 20 EUR, and game 2 for 30 EUR.
func bingoRules(t testing.TB) *rules.Bingo {
	t.Helper()
	b, err := rules.NewBingo(rules.BingoSettings{LinePrizes: []money.Amount{2000, 3000, 5000, 10_000, 20_000, 200_000, 2_000_000, 100_000_000},
		Bonus: 2000, Game2Amounts: []money.Amount{3000}, Game2Symbols: []string{"CLE", "FER", "OR"},
		Ways: []rules.BingoWay{{Lines: 1, Share: 3}, {BonusCards: 1, Share: 1}, {Game2: 3000, Share: 1}}}, []money.Amount{2000, 3000, 5000, 10_000, 20_000, 200_000, 2_000_000, 100_000_000})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

var symbolTiers = []manifest.Tier{{Count: 1, Amount: 3000}, {Count: 102, Amount: 2000}}

// withSymbols is a block of 600 tickets with their symbols.
func withSymbols(t testing.TB) (fixture, string) {
	t.Helper()
	f := newFixture(t, 600)
	var csv, symbols bytes.Buffer
	r := bingoRules(t)
	s := Sample{Layout: ticket.G40(), GameCode: "399", Tickets: 600, FirstPack: 10, PackSize: 60, FirstTicket: 1, Tiers: symbolTiers, Seed: t.Name(), Rules: r, Symbols: &symbols}
	if err := s.Write(&csv, func(int64) {}); err != nil {
		t.Fatal(err)
	}
	f.csv, f.order.Rules = csv.Bytes(), r
	f.order.Prizes = func(int64) ([]manifest.Tier, bool, error) { return symbolTiers, true, nil }
	return f, symbols.String()
}

func (f fixture) sealSymbols(t testing.TB, symbols string) error {
	t.Helper()
	dir := t.TempDir()
	f.order.Symbols = strings.NewReader(symbols)
	_, err := Seal(context.Background(), bytes.NewReader(f.csv), f.order, filepath.Join(dir, "b.manifest"))
	files, readErr := os.ReadDir(dir)
	if readErr != nil || (err != nil && len(files) > 0) {
		t.Errorf("%v was left behind, %v", files, readErr)
	}
	return err
}

func TestSealAcceptsSymbolsThatWinTheirPrizeInAnyOrder(t *testing.T) {
	f, symbols := withSymbols(t)
	if err := f.sealSymbols(t, symbols); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(symbols), "\n")
	slices.Reverse(lines[1:])
	if err := f.sealSymbols(t, strings.Join(lines, "\r\n")); err != nil {
		t.Errorf("the other way round, with CR LF: %v", err)
	}
}

func TestSealNamesTheFirstLineWhoseSymbolsDisagree(t *testing.T) {
	f, symbols := withSymbols(t)
	lines := strings.Split(strings.TrimSpace(symbols), "\n")
	prizes := strings.Split(strings.TrimSpace(string(f.csv)), "\n")
	loser, winner := 0, 0
	for i := range lines[1:] {
		switch {
		case strings.HasSuffix(prizes[i+1], ",0"):
			loser = i + 1
		case strings.HasSuffix(prizes[i+1], ",2000"):
			winner = i + 1
		}
	}
	symbolsOf := func(i int) string { return lines[i][strings.LastIndex(lines[i], ",")+1:] }
	placeOf := func(i int) string { return lines[i][:strings.LastIndex(lines[i], ",")+1] }
	change := func(i int, text string) string {
		out := slices.Clone(lines)
		out[i] = text
		return strings.Join(out, "\n") + "\n"
	}
	swapped := slices.Clone(lines)
	swapped[loser], swapped[winner] = placeOf(loser)+symbolsOf(winner), placeOf(winner)+symbolsOf(loser)
	tests := []struct{ name, text, want string }{
		{"a winner's symbols on a loser", change(loser, placeOf(loser)+symbolsOf(winner)), "the symbols give €20: "},
		{"a loser's symbols on a winner", change(winner, placeOf(winner)+symbolsOf(loser)), "the symbols give no win, but tickets.csv has €20"},
		{"two tickets swapped", strings.Join(swapped, "\n"), "line " + lineText(min(loser, winner)+1) + ": pack"},
		{"excluded symbols", change(7, placeOf(7)+"76"+symbolsOf(7)[2:]), "line 8: pack 10 ticket 7: balls, number 1: 76"},
		{"not the form", change(7, placeOf(7)+"x"), "line 8: pack 10 ticket 7: balls, want 40 digits"},
		{"no symbols", change(7, "10,7"), "line 8: want pack,ticket,symbols"},
		{"letters for the pack", change(7, "ten,7,"+symbolsOf(7)), "line 8: want pack,ticket,symbols"},
		{"a pack of another block", change(7, "20,7,"+symbolsOf(7)), "line 8: pack 20 ticket 7 is not in tickets.csv"},
		{"a pack before", change(7, "9,60,"+symbolsOf(7)), "line 8: pack 9 ticket 60 is not in tickets.csv"},
		{"ticket 0", change(7, "10,0,"+symbolsOf(7)), "line 8: pack 10 ticket 0 is not in tickets.csv"},
		{"ticket 61", change(7, "10,61,"+symbolsOf(7)), "line 8: pack 10 ticket 61 is not in tickets.csv"},
		{"twice", change(7, lines[8]), "symbols.csv, line 9: this ticket had a line before"},
		{"one missing", strings.Join(slices.Delete(slices.Clone(lines), 7, 8), "\n"), "symbols.csv has 599 of 600 tickets"},
		{"the missing one", strings.Join(slices.Delete(slices.Clone(lines), 7, 8), "\n"), "pack 10 ticket 7"},
		{"no header", strings.Join(lines[1:], "\n"), `line 1: want the header "pack,ticket,symbols"`},
		{"empty", "", "line 1"},
		{"a line without end", change(7, placeOf(7)+strings.Repeat("0", 5000)), "line too long"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			err := f.sealSymbols(t, test.text)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %q in it", err, test.want)
			}
		})
	}
}

func lineText(n int) string { return strconv.Itoa(n) }

func TestSealStopsReadingSymbolsAfterTheFirstFault(t *testing.T) {
	f, symbols := withSymbols(t)
	bad := "pack,ticket,symbols\nx\n"
	endless := io.MultiReader(strings.NewReader(bad), &repeated{line: strings.SplitAfter(symbols, "\n")[1]})
	f.order.Symbols = endless
	_, err := Seal(context.Background(), bytes.NewReader(f.csv), f.order, filepath.Join(t.TempDir(), "b.manifest"))
	if err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Error(err)
	}
}

// repeated is one line without end.
type repeated struct {
	line string
	at   int
}

func (r *repeated) Read(b []byte) (int, error) {
	n := copy(b, r.line[r.at:])
	r.at = (r.at + n) % len(r.line)
	return n, nil
}

func TestSealRefusesSymbolsThatCannotBeRead(t *testing.T) {
	f, symbols := withSymbols(t)
	broken := errors.New("the stick was pulled")
	f.order.Symbols = io.MultiReader(strings.NewReader(symbols[:len(symbols)/2]), failing{broken})
	_, err := Seal(context.Background(), bytes.NewReader(f.csv), f.order, filepath.Join(t.TempDir(), "b.manifest"))
	if !errors.Is(err, broken) {
		t.Error(err)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func TestSampleSharesAPrizeAmongItsWaysToTheTicket(t *testing.T) {
	_, symbols := withSymbols(t)
	r := bingoRules(t)
	got := map[string]int{}
	for _, line := range strings.Split(strings.TrimSpace(symbols), "\n")[1:] {
		result, err := r.Evaluate([]byte(line[strings.LastIndex(line, ",")+1:]))
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range result.Wins {
			got[w.Article]++
		}
	}
	// 102 tickets by 3 and 1: 76.5 and 25.5, and the equal remainders go to the first.
	if got["4.2.7"] != 77 || got["4.2.11"] != 25 || got["4.3.4"] != 1 {
		t.Errorf("%v", got)
	}
}

func TestSampleRefusesAPrizeThatNoWayWins(t *testing.T) {
	var csv, symbols bytes.Buffer
	s := Sample{Layout: ticket.G40(), GameCode: "399", Tickets: 600, FirstPack: 10, PackSize: 60, Tiers: []manifest.Tier{{Count: 1, Amount: 500}}, Rules: bingoRules(t), Symbols: &symbols}
	if err := s.Write(&csv, func(int64) {}); err == nil || !strings.Contains(err.Error(), "prize of 500 minor units: no way") {
		t.Error(err)
	}
}

// TestSampleStopsWhenAFileCannotBeWritten fails when a worker is left waiting.
func TestSampleStopsWhenAFileCannotBeWritten(t *testing.T) {
	full := errors.New("no space left")
	for _, which := range []int{0, 1} {
		out := []io.Writer{io.Discard, io.Discard}
		out[which] = failing{full}
		s := Sample{Layout: ticket.G40(), GameCode: "399", Tickets: 60_000, FirstPack: 10, PackSize: 60, Tiers: symbolTiers, Rules: bingoRules(t), Symbols: out[1]}
		if err := s.Write(out[0], func(int64) {}); !errors.Is(err, full) {
			t.Error(err)
		}
	}
}

func (f failing) Write([]byte) (int, error) { return 0, f.err }
