package console

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"grattoir/sync/central"
	"grattoir/sync/report"
	"grattoir/validate"
)

// commandsAlone are the files of central whose refusals only commands on its machine meet.
func commandsAlone() []string {
	return []string{"activation.go", "backup.go", "blocks.go", "catalogue.go", "central.go", "enrol.go", "feed.go", "free.go", "identities.go", "keys.go", "losses.go", "pepper.go", "prove.go", "recover.go",
		"renew.go", "revoke.go", "rotate.go", "settlements.go", "snapshot.go", "software.go", "stick.go", "store.go", "terminals.go", "users.go"}
}

// TestEveryRefusalHasItsTextsInBothLanguages: each kind has two, each place that refuses gives
// as many values as both have room for, and what the console can meet has a kind.
func TestEveryRefusalHasItsTextsInBothLanguages(t *testing.T) {
	texts, verb := refusalTexts(), regexp.MustCompile(`%[.0-9]*[a-z]`)
	for _, kind := range central.Refusals() {
		text, ok := texts[kind]
		if !ok || text.FR == "" || text.EN == "" || text.FR == text.EN {
			t.Errorf("%s has no text in two languages: %+v", kind, text)
		}
		if strings.Contains(text.FR+text.EN, "central ") && regexp.MustCompile(`central [a-z]+ (list|show|publish|add)`).MatchString(text.FR+text.EN) {
			t.Errorf("%s sends a reader of the page to a command", kind)
		}
	}
	if len(texts) != len(central.Refusals()) {
		t.Errorf("%d texts for %d kinds", len(texts), len(central.Refusals()))
	}
	names, err := filepath.Glob("../central/*.go")
	if err != nil || len(names) < 20 {
		t.Fatalf("%d files: %v", len(names), err)
	}
	kinds, places := constants(t), 0
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		inside := map[ast.Node]bool{}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			switch fun := call.Fun.(type) {
			case *ast.Ident:
				if fun.Name != "because" && fun.Name != "changedOne" {
					return true
				}
				for _, a := range call.Args {
					inside[a] = true
				}
				kind, ok := call.Args[0].(*ast.Ident)
				if fun.Name == "because" && ok && kinds[kind.Name] != "" {
					places++
					text := texts[kinds[kind.Name]]
					if n := len(call.Args) - 2; len(verb.FindAllString(text.FR, -1)) != n || len(verb.FindAllString(text.EN, -1)) != n {
						t.Errorf("%v: %s is given %d values: %+v", set.Position(call.Pos()), kind.Name, n, text)
					}
				}
			case *ast.SelectorExpr:
				bare := fun.Sel.Name == "Errorf" && !inside[call] && !slices.Contains(commandsAlone(), filepath.Base(name))
				for _, a := range call.Args {
					if id, ok := a.(*ast.Ident); ok && bare && (id.Name == "ErrRefused" || id.Name == "ErrNotFound") {
						t.Errorf("%v: a refusal that the console can meet has no kind", set.Position(call.Pos()))
					}
				}
			}
			return true
		})
	}
	if places < 60 {
		t.Errorf("%d places give a refusal its kind", places)
	}
}

// constants are central's kinds by the names of their constants.
func constants(t *testing.T) map[string]central.Because {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../central/because.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	list := map[string]central.Because{}
	ast.Inspect(file, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok {
			list[v.Names[0].Name] = central.Because(strings.Trim(v.Values[0].(*ast.BasicLit).Value, `"`))
		}
		return true
	})
	for name, kind := range list {
		if !slices.Contains(central.Refusals(), kind) {
			t.Errorf("%s is not listed", name)
		}
	}
	return list
}

// TestRefusalsAreToldInTheReadersLanguage: on pages that refuse, in French with no English of
// central's, and the other way round.
func TestRefusalsAreToldInTheReadersLanguage(t *testing.T) {
	c := seeded(t)
	h := desk(t, Options{Central: c}, central.RoleOperator)
	for _, x := range []struct {
		path   string
		code   int
		fr, en string
	}{
		{"/confirm/pack-deliver?code=400&packs=200&to=nobody", 404, "le terminal &#34;nobody&#34; n&#39;est pas connu", "terminal &#34;nobody&#34; is not known"},
		{"/terminal/nobody?", 404, "n&#39;est pas connu", "is not known"},
		{"/confirm/reversal-refuse?terminal=shop-0001&number=1-000001&reason=non", 404, "le terminal ne l&#39;a pas demandée", "the terminal has not asked for it"},
		{"/reports/payouts?region=atlantis", 400, "région &#34;atlantis&#34; inconnu", "region &#34;atlantis&#34; is not known"},
		{"/reports/payouts?colour=red", 400, "n&#39;est pas un filtre", "is no filter"},
		{"/fleet?sort=luck", 400, "ordre &#34;luck&#34;", "sort &#34;luck&#34;"},
		{"/packs?code=999", 400, "n&#39;a aucun bloc publié", "has no published block"},
	} {
		fr := get(t, h, x.path, x.code)
		en := get(t, h, x.path+"&lang=en", x.code)
		holds(t, fr, x.fr)
		holds(t, en, x.en)
		if strings.Contains(fr, x.en) || strings.Contains(en, x.fr) || strings.Contains(fr, "not known to central") || strings.Contains(fr, "refused:") {
			t.Errorf("%s mixes its languages", x.path)
		}
	}
	page := get(t, h, "/confirm/pack-activate?code=400&packs=0", 200)
	w := post(t, h, "/do/pack-activate", formOf(t, page))
	if w.Code != 409 {
		t.Fatalf("%d", w.Code)
	}
	holds(t, w.Body.String(), "le livret 0 est réglé ; possible maintenant :")
	s := sheet{frame: frame{W: wordsIn("fr")}}
	r := &central.Refusal{Because: central.BecausePackStands, Args: []any{uint32(7), validate.PackStolenNow, []string{"pack-recover", "recover"}}}
	if got, want := s.refusalWords(r), "le livret 7 est volé ; possible maintenant : pack-recover, lever la déclaration de vol"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestReportsHaveWordsForEveryCode: what the pages show of reasons, kinds, signals and denials
// is in the reader's language.
func TestReportsHaveWordsForEveryCode(t *testing.T) {
	fr := sheet{frame: frame{W: wordsIn("fr"), lang: "fr"}}
	for _, r := range validate.Reasons() {
		if got := fr.valueWord("refusals", "reason", string(r)); got == string(r) {
			t.Errorf("reason %s has no words", r)
		}
	}
	for _, a := range report.Kinds() {
		for _, word := range a.By {
			if fr.byWord(word) == word && word != "terminal" {
				t.Errorf("by %s has no words", word)
			}
		}
	}
	for key, codes := range map[string][]string{"kind": {"double-claim", "claim-unproven", "wrong-prize", "no-right", "unknown-kind", "pack-refused"},
		"signal": {report.ManualEntry, report.UnsoldCheck, report.PaidOrStolen, report.CheckedElsewhere, report.BlockOverpaid, report.MiddleMissing, report.OddHours, report.Cancelled},
		"cause":  {"link", "stopped"}, "outcome": {"pay", "refuse", "refer", "again", "denied"}} {
		for _, code := range codes {
			if fr.valueWord("x", key, code) == code {
				t.Errorf("%s %s has no words", key, code)
			}
		}
	}
	for _, signal := range signalWords() {
		if signal.FR == signal.EN {
			t.Errorf("signal %+v", signal)
		}
	}
	row := func(key string) report.Value {
		return map[string]report.Value{"signal": {Kind: report.KindText, Known: true, Text: report.BlockOverpaid}, "observed": {Kind: report.KindInt, Known: true, Int: 5}, "of": {Kind: report.KindInt, Known: true, Int: 4},
			"explained": {Kind: report.KindText, Known: true, Text: "tier 2: 5 prizes paid, and the table has 4: stop the block"}}[key]
	}
	if got := fmt.Sprint(fr.explained(row)); got != "rang 2 : 5 lots payés, le tableau en a 4 : arrêtez le bloc" {
		t.Errorf("%q", got)
	}
}
