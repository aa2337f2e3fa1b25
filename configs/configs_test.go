package configs

import (
	"bytes"
	"flag"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"grattoir/validate/game"
	"grattoir/validate/game/reglement"
	"grattoir/validate/money"
)

var update = flag.Bool("update", false, "rewrite the shipped catalogue files from the regulations")

func importText(t *testing.T, path string) game.Game {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	g, err := reglement.Parse(file)
	if err != nil {
		t.Fatal(err)
	}
	g.Source.Name = filepath.Base(path)
	return g
}

func TestShippedGamesAreWhatTheImporterWrites(t *testing.T) {
	files, err := filepath.Glob("games/*.toml")
	if err != nil || len(files) == 0 {
		t.Fatalf("shipped files: %v, %v", files, err)
	}
	for _, shipped := range files {
		id := strings.TrimSuffix(filepath.Base(shipped), ".toml")
		want, err := EncodeGame(importText(t, "../validate/game/reglement/testdata/"+id+".txt"))
		if err != nil {
			t.Fatal(err)
		}
		if *update {
			if err := os.WriteFile(shipped, want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(shipped); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s differs from the import of its regulation (%v); rewrite it with -update", shipped, err)
		}
	}
}

func TestGamesLoadsEveryShippedFile(t *testing.T) {
	games, err := Games()
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("games/*")
	if err != nil || len(games) != len(files) {
		t.Fatalf("%d games from %d files, %v", len(games), len(files), err)
	}
	if games[0].ID != "bingo" || *games[0].Tables[0].PrintedCount != 2_253_916 || games[0].Status != game.Complete {
		t.Errorf("Bingo: %+v", games[0])
	}
}

func TestEncodeGameReadsBackToTheSameGame(t *testing.T) {
	texts := map[string]string{
		"several stakes": "../validate/game/reglement/testdata/cash-20000.txt",
		"offer":          "../validate/game/reglement/testdata/crossingo.txt",
		"plain":          "../validate/game/reglement/testdata/bingo.txt",
	}
	games := map[string]game.Game{"empty": {Kind: game.Other, Status: game.NoTable}}
	for name, path := range texts {
		games[name] = importText(t, path)
	}
	odd, err := reglement.Parse(strings.NewReader("Avis\nÉmission no 1, code jeu 07501, clôture le 1er avril 2001. Jeu « Odd \\ \x7e # ''' »\n" +
		"40 lots de 5 F : 200 F\n2 lots d'une voiture \\\" # neuve\n3 lot de 1 F : 4 F\n45 lots formant un total de 999 F\n"))
	if err != nil {
		t.Fatal(err)
	}
	odd.Source.Name = "a\nb = 1"
	games["odd signs"] = odd
	if len(odd.Tables) != 1 || len(odd.Tables[0].NonCash) != 1 || len(odd.Findings) < 3 {
		t.Fatalf("the odd text lost its oddness: %+v", odd)
	}
	for name, want := range games {
		text, err := EncodeGame(want)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got, err := DecodeGame(name, text)
		if err != nil {
			t.Errorf("%s: %v\n%s", name, err, text)
			continue
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got  %+v\nwant %+v", name, got, want)
		}
		if again, err := EncodeGame(got); err != nil || !bytes.Equal(again, text) {
			t.Errorf("%s: encodes to other bytes the second time (%v)", name, err)
		}
	}
}

func TestDecodeGameRefusesAFigureChangedByHand(t *testing.T) {
	text, err := os.ReadFile("games/bingo.toml")
	if err != nil {
		t.Fatal(err)
	}
	changed := bytes.Replace(text, []byte("count = 17_900"), []byte("count = 17_901"), 1)
	if bytes.Equal(changed, text) {
		t.Fatal("nothing was changed")
	}
	if _, err := DecodeGame("bingo.toml", changed); err == nil || !strings.Contains(err.Error(), "bingo.toml") || !strings.Contains(err.Error(), "17 901") {
		t.Errorf("got %v", err)
	}
}

func TestEncodeGameRefusesAGameThatContradictsItself(t *testing.T) {
	if _, err := EncodeGame(game.Game{ID: "x", Kind: game.Other, Status: game.NoTable}); err == nil {
		t.Error("a game with an id and no name was written")
	}
}

type sample struct {
	Path   string       `toml:"path"`
	Limit  money.Amount `toml:"limit"`
	Rate   float64      `toml:"rate"`
	Small  uint8        `toml:"small"`
	On     *bool        `toml:"on"`
	Server struct {
		Listen string   `toml:"listen"`
		Hosts  []string `toml:"hosts"`
	} `toml:"server"`
	Shops []struct {
		Name string `toml:"name"`
	} `toml:"shops"`
	Labels map[string]string `toml:"labels"`
	Hidden string            `toml:"-"`
}

func TestDecodeNamesPlaceAndNearestKey(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"misspelled", "paht = \"a\"", `f.toml:1:1: unknown key "paht"; did you mean "path"?`},
		{"in a table", "[server]\n  lisen = \"a\"", `f.toml:2:3: unknown key "lisen"; did you mean "listen"?`},
		{"table", "[sever]\nlisten = \"a\"", `f.toml:1:2: unknown key "sever"; did you mean "server"?`},
		{"in a list of tables", "[[shops]]\nname = \"a\"\n[[shops]]\nnmae = \"a\"", `f.toml:4:1: unknown key "nmae"; did you mean "name"?`},
		{"inline", "server = { host = [] }", `f.toml:1:12: unknown key "host"; did you mean "hosts"?`},
		{"in an array", "shops = [ { name = \"a\" }, { nam = \"b\" } ]", `f.toml:1:29: unknown key "nam"; did you mean "name"?`},
		{"dotted", "server.lsten = \"a\"", `f.toml:1:8: unknown key "lsten"; did you mean "listen"?`},
		{"nothing near", "zzzzzz = 1", `f.toml:1:1: unknown key "zzzzzz"; known here: labels, limit, on, path, rate, server, shops, small`},
		{"hidden field", "Hidden = \"a\"", `unknown key "Hidden"`},
		{"text for a number", "limit = \"20\"", `f.toml:1:1: "limit": expected a whole number, found a text`},
		{"decimals", "limit = 20.5", `f.toml:1:1: "limit": expected a whole number, found a number with decimals`},
		{"number for a text", "path = 1", `f.toml:1:1: "path": expected a text in quotes, found a whole number`},
		{"bool", "on = 1", `"on": expected true or false, found a whole number`},
		{"item", "[server]\nhosts = [1]", `f.toml:2:1: "hosts": expected a text in quotes, found a whole number`},
		{"table for a text", "[path]\na = 1", `f.toml:1:2: "path": expected a text in quotes, found a table`},
		{"list of tables for a table", "[[server]]\n", `"server": expected a table, found a list of tables`},
		{"date", "path = 2001-01-01", `found a date or time`},
		{"too large", "small = 300", `f.toml:1:`},
		{"syntax", "path = ", `f.toml:1:`},
		{"twice", "path = \"a\"\npath = \"b\"", `path`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var into sample
			err := Decode("f.toml", []byte(test.text), &into)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("got  %v\nwant %s", err, test.want)
			}
			for _, word := range []string{"configs.", "sample", "money.", "uint8", "int64", "struct", "Go "} {
				if strings.Contains(err.Error(), word) {
					t.Errorf("the message shows %q: %v", word, err)
				}
			}
		})
	}
}

func TestDecodeReportsEveryErrorAtOnce(t *testing.T) {
	var into sample
	err := Decode("f.toml", []byte("paht = 1\nlimit = \"a\"\n[server]\nlisten = 3\nhost = []\n"), &into)
	if err == nil || strings.Count(err.Error(), "\n") != 3 {
		t.Errorf("want 4 errors, got %v", err)
	}
}

func TestDecodeFillsEveryKind(t *testing.T) {
	var into sample
	text := "path = \"a\"\nlimit = 9223372036854775807\nrate = 1\nsmall = 255\non = true\nlabels.x = \"y\"\n[server]\nlisten = \":1\"\nhosts = [\"a\", \"b\"] # two\n[[shops]]\nname = \"n\"\n"
	if err := Decode("f.toml", []byte(text), &into); err != nil {
		t.Fatal(err)
	}
	if into.Path != "a" || into.Limit != math.MaxInt64 || into.Rate != 1 || !*into.On || into.Labels["x"] != "y" || len(into.Server.Hosts) != 2 || into.Shops[0].Name != "n" {
		t.Errorf("%+v", into)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add("path = \"a\"\n[server]\nhosts = [\"a\"]\n")
	f.Add("[[shops]]\nname = 1\n[labels]\nx.y = { a = [1, 2.0, 2001-01-01] }\n")
	f.Fuzz(func(t *testing.T, text string) {
		var into sample
		if err := Decode("f.toml", []byte(text), &into); err != nil && !strings.HasPrefix(err.Error(), "f.toml") {
			t.Errorf("an error with no place: %v", err)
		}
	})
}
