package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"grattoir/cmd/internal/cli"
	"grattoir/configs"
)

const regulations = "../../validate/game/reglement/testdata/"

// runGame calls `central game` in-process and returns its output and exit code.
func runGame(t *testing.T, stdin string, args ...string) (out string, code int, err error) {
	t.Helper()
	cmd := gameCommand()
	var stdout, stderr bytes.Buffer
	cmd.SetIn(strings.NewReader(stdin))
	cmd.SetOut(&stdout)
	cmd.SetErr(&stderr)
	cmd.SetArgs(args)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err = cmd.Execute()
	var coded *cli.Error
	switch {
	case err == nil:
		return stdout.String(), cli.Done, nil
	case errors.As(err, &coded):
		return stdout.String(), coded.Code, coded.Err
	}
	return stdout.String(), cli.Failed, err
}

const disagreeing = "Règlement particulier du jeu « Essai »\nChaque émission est répartie en blocs de 10 000 tickets. Le prix de vente du ticket est fixé à 2 €.\n" +
	"2 lots de 1 000 € : 3 000 €\n300 lots de 20 € : 6 000 €\n302 lots formant un total de 8 000 €\n"

func TestGameImportPrintsEveryFigureForPeople(t *testing.T) {
	out, code, err := runGame(t, "", "import", regulations+"bingo.txt")
	if err != nil || code != cli.Done {
		t.Fatalf("exit %d, %v", code, err)
	}
	for _, want := range []string{"Bingo (bingo)", "complete", "Block of 9 000 000 tickets at 10 €", "1 806 000 x           20 €      36 120 000 €",
		"2 253 916", "63 900 000 €", "Payout 71.00 %", "One in 3.99 wins money", "No discrepancy"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

func TestGameImportJSONHasTheDesignsShape(t *testing.T) {
	out, code, err := runGame(t, "", "import", regulations+"bingo.txt", "--json")
	if err != nil || code != cli.Done {
		t.Fatalf("exit %d, %v", code, err)
	}
	var got struct {
		ID, Name, Kind, Channel, Status string
		Offer                           *any
		Emissions, Findings             []any
		Tables                          []struct {
			BlockSize  int64 `json:"block_size"`
			PriceMinor int64 `json:"price_minor"`
			Unit       string
			Currency   string
			Rows       []struct {
				Count   int64
				Amount  int64 `json:"amount_minor"`
				Printed int64 `json:"printed_total_minor"`
			}
			NonCash []any `json:"non_cash"`
			Count   int64 `json:"printed_count"`
			Total   int64 `json:"printed_total_minor"`
		}
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	if got.ID != "bingo" || got.Kind != "regulation" || got.Channel != "ticket" || got.Status != "complete" || got.Offer != nil || got.Emissions == nil || got.Findings == nil || len(got.Tables) != 1 {
		t.Fatalf("%s", out)
	}
	table := got.Tables[0]
	if table.BlockSize != 9_000_000 || table.PriceMinor != 1000 || table.Unit != "ticket" || table.Currency != "EUR" || len(table.Rows) != 8 ||
		table.Rows[0].Printed != 200_000_000 || table.NonCash == nil || table.Count != 2_253_916 || table.Total != 6_390_000_000 {
		t.Errorf("%s", out)
	}
}

func TestGameImportWritesTheShippedBingoFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bingo.toml")
	if _, code, err := runGame(t, "", "import", regulations+"bingo.txt", "--out", path); code != cli.Done || err != nil {
		t.Fatalf("exit %d, %v", code, err)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("../../configs/games/bingo.toml")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("written\n%s", got)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

func TestGameImportWritesAnIncompleteTableOnlyWhenAPersonAccepts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cash-20000.toml")
	_, code, err := runGame(t, "", "import", regulations+"cash-20000.txt", "--out", path)
	if code != cli.Refused || err == nil || !strings.Contains(err.Error(), "rows of a prize table are missing") {
		t.Errorf("exit %d, %v", code, err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file was written: %v", err)
	}
	if _, code, err := runGame(t, "", "import", regulations+"cash-20000.txt", "--out", path, "--accept-findings"); code != cli.Refused || err != nil {
		t.Errorf("accepted: exit %d, %v", code, err)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("../../configs/games/cash-20000.toml")
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("not the shipped file, %v:\n%s", err, got)
	}
}

func TestGameImportWritesNothingForATextWithNoTable(t *testing.T) {
	dir := t.TempDir()
	_, code, err := runGame(t, "Article 1\nLe joueur gratte.\n", "import", "-", "--out", filepath.Join(dir, "g.toml"), "--accept-findings")
	if code != cli.Refused || err == nil || !strings.Contains(err.Error(), "not written") {
		t.Errorf("exit %d, %v", code, err)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) > 0 {
		t.Errorf("%v was left, %v", files, err)
	}
	if _, code, err := runGame(t, "Article 1\nLe joueur gratte.\n", "import", "-"); code != cli.Refused || err != nil {
		t.Errorf("without --out: exit %d, %v", code, err)
	}
}

const (
	openingNotice = "Avis relatif au jeu « Bingo »\nL'émission n° 1 du jeu « Bingo », code jeu 07501, sera mise en vente à compter du 25 janvier 2001.\n"
	closingNotice = "Avis de clôture du jeu « Bingo »\nÉmission n° 1, code jeu 07501, clôture le 1er avril 2001.\n"
)

func TestNoticesAddToTheCatalogueEntryAndAreNeverLost(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bingo.toml")
	if _, code, err := runGame(t, openingNotice, "import", "-", "--out", path); code != cli.Refused || err == nil || !strings.Contains(err.Error(), "regulation first") {
		t.Errorf("a notice with no entry: exit %d, %v", code, err)
	}
	for i, text := range []string{"", openingNotice, closingNotice, ""} { // the last imports the regulation again
		from := "-"
		if text == "" {
			from = regulations + "bingo.txt"
		}
		if _, code, err := runGame(t, text, "import", from, "--out", path); code != cli.Done || err != nil {
			t.Fatalf("step %d: exit %d, %v", i, code, err)
		}
	}
	out, _, err := runGame(t, "", "show", path)
	if err != nil || !strings.Contains(out, "Emission: 1, game code 07501, opens 2001-01-25, closes 2001-04-01") || !strings.Contains(out, "complete") {
		t.Errorf("%v\n%s", err, out)
	}
	text, err := os.ReadFile(path)
	if err != nil || bytes.Count(text, []byte("[[emissions.notices]]")) != 2 {
		t.Errorf("%v\n%s", err, text)
	}
}

func TestANoticeAboutSeveralGamesAddsEachToItsOwnEntry(t *testing.T) {
	notice := "Avis divers\nLe règlement particulier du jeu dénommé « MONOPOLY » s'applique à l'émission n° 01 du jeu « MONOPOLY » ayant le code jeu 691, diffusée à compter du lundi 2 mars 2020.\n" +
		"Le règlement particulier du jeu dénommé « BINGO » s'applique à l'émission n° 02 du jeu « BINGO » ayant le code jeu 672, diffusée à compter du 6 avril 2020.\n"
	path := filepath.Join(t.TempDir(), "bingo.toml")
	if _, _, err := runGame(t, "", "import", regulations+"bingo.txt", "--out", path); err != nil {
		t.Fatal(err)
	}
	if out, code, err := runGame(t, notice, "import", "-", "--out", path); code != cli.Done || err != nil || !strings.Contains(out, "Emission: 1 of MONOPOLY, game code 691") {
		t.Fatalf("exit %d, %v\n%s", code, err, out)
	}
	if out, _, err := runGame(t, "", "show", path); err != nil || strings.Contains(out, "691") || !strings.Contains(out, "Emission: 2, game code 672, opens 2020-04-06, closes unknown") {
		t.Errorf("%v\n%s", err, out)
	}
	if _, code, err := runGame(t, strings.ReplaceAll(notice, "BINGO", "LOTO"), "import", "-", "--out", path); code != cli.Refused || err == nil || !strings.Contains(err.Error(), "MONOPOLY, LOTO") {
		t.Errorf("other games: exit %d, %v", code, err)
	}
}

func TestACatalogueEntryIsNotWrittenOverByAnotherGame(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bingo.toml")
	if _, _, err := runGame(t, "", "import", regulations+"bingo.txt", "--out", path); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	other := strings.ReplaceAll(closingNotice, "Bingo", "Morpion")
	amending := "Modification du règlement particulier du jeu « Bingo »\nL'article 3 est ainsi remplacé :\n2 lots de 1 000 € : 2 000 €\n300 lots de 20 € : 6 000 €\n302 lots formant un total de 8 000 €\n"
	otherCode := strings.ReplaceAll(closingNotice, "n° 1", "n° 2") + openingNotice
	for want, text := range map[string]string{"about game": other, "entry of game": disagreeing, "only amends": amending} {
		_, code, err := runGame(t, text, "import", "-", "--out", path, "--accept-findings")
		if code != cli.Refused || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("exit %d, %v; want %q", code, err, want)
		}
	}
	if _, code, err := runGame(t, otherCode, "import", "-", "--out", path); code == cli.Done || err == nil {
		t.Errorf("one game code for two emissions: exit %d, %v", code, err)
	}
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(after, before) {
		t.Errorf("the entry changed, %v:\n%s", err, after)
	}
}

func TestGameImportNeedsAPersonForFiguresThatDisagree(t *testing.T) {
	path := filepath.Join(t.TempDir(), "essai.toml")
	out, code, err := runGame(t, disagreeing, "import", "-", "--out", path)
	if code != cli.Person || err == nil || !strings.Contains(err.Error(), "--accept-findings") {
		t.Errorf("exit %d, %v", code, err)
	}
	if !strings.Contains(out, "row-total") || !strings.Contains(out, "line 3") {
		t.Errorf("the finding has no place:\n%s", out)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file was written: %v", err)
	}
	if _, code, err := runGame(t, disagreeing, "import", "-", "--out", path, "--accept-findings"); code != cli.Person || err != nil {
		t.Errorf("accepted: exit %d, %v", code, err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if g, err := configs.DecodeGame(path, text); err != nil || len(g.Findings) != 1 {
		t.Errorf("read back: %+v, %v", g, err)
	}
	if out, code, err := runGame(t, "", "show", path); code != cli.Done || err != nil || !strings.Contains(out, "Essai (essai)") {
		t.Errorf("show: exit %d, %v\n%s", code, err, out)
	}
}

func TestGameImportKeepsTheOldFileWhenTheFolderCannotBeWritten(t *testing.T) {
	dir := t.TempDir()
	_, code, err := runGame(t, "", "import", regulations+"bingo.txt", "--out", filepath.Join(dir, "none", "bingo.toml"))
	if code != cli.Failed || err == nil || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("exit %d, %v", code, err)
	}
}

func TestGameCommandsTellWrongUseFromFailure(t *testing.T) {
	tests := []struct {
		args []string
		code int
	}{
		{[]string{"import"}, cli.Usage},
		{[]string{"import", "a", "b"}, cli.Usage},
		{[]string{"import", "-", "--accept-findings"}, cli.Usage},
		{[]string{"list", "x"}, cli.Usage},
		{[]string{"show"}, cli.Usage},
		{[]string{"import", "no-such-file"}, cli.Failed},
		{[]string{"import", "-"}, cli.Failed}, // empty standard input
		{[]string{"show", "no-such-game"}, cli.Failed},
		{[]string{"show", "no-such.toml"}, cli.Failed},
	}
	for _, test := range tests {
		if _, code, err := runGame(t, "", test.args...); code != test.code || err == nil {
			t.Errorf("%v: exit %d, %v; want %d", test.args, code, err, test.code)
		}
	}
}

func TestGameListAndShowKnowTheCatalogue(t *testing.T) {
	out, code, err := runGame(t, "", "list")
	if code != cli.Done || err != nil {
		t.Errorf("exit %d, %v", code, err)
	}
	for _, want := range []string{"bingo            ticket    complete        9 000 000       10 €     3.99     71.00         -\n",
		"crossingo        internet  complete        1 500 000     0,97 €     3.38     69.00     66.93\n",
		"cash-20000       internet  incomplete        500 000     0,50 €     3.55     70.00         -\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if _, _, err := runGame(t, "", "show", "bingp"); err == nil || !strings.Contains(err.Error(), "bingo") {
		t.Errorf("an unknown game: %v", err)
	}
}

func TestGameShowSaysWhatTheTablesComeTo(t *testing.T) {
	out, code, err := runGame(t, "", "show", "crossingo")
	if code != cli.Done || err != nil {
		t.Fatalf("exit %d, %v", code, err)
	}
	for _, want := range []string{"sold together for 1 €", "SUPER JACKPOT: 3 minor units", "850 x           50 €          42 500 €       1 765     2.92       2.83",
		"Payout 69.00 % of the net price of 0,97 €", "Payout 66.93 % of the sale price of 1 €", "One in 3.38 wins money"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	shown, _, err := runGame(t, "", "show", "crossingo", "--json")
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		ID      string
		Tables  []any
		Figures []struct {
			Prizes     int64
			Total      int64   `json:"total_minor"`
			OneIn      string  `json:"one_in"`
			Payout     string  `json:"payout_percent"`
			SalePayout *string `json:"sale_payout_percent"`
			Tiers      []struct {
				OneIn string `json:"one_in"`
				Cost  string `json:"cost_percent"`
			}
		}
	}
	if err := json.Unmarshal([]byte(shown), &got); err != nil {
		t.Fatal(err)
	}
	f := got.Figures[0]
	if got.ID != "crossingo" || len(got.Tables) != 1 || f.Prizes != 444_366 || f.Total != 100_395_000 || f.OneIn != "3.3756" || f.Payout != "69.0000" ||
		f.SalePayout == nil || *f.SalePayout != "66.9300" || len(f.Tiers) != 8 || f.Tiers[7].OneIn != "6.0000" {
		t.Errorf("%s", shown)
	}
}
