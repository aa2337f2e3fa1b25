package reglement

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/text/encoding/charmap"

	"grattoir/validate/game"
	"grattoir/validate/money"
)

func parse(t *testing.T, text string) game.Game {
	t.Helper()
	g, err := Parse(strings.NewReader(text))
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return g
}

func rows(table game.Table) string {
	var parts []string
	for _, row := range table.Rows {
		parts = append(parts, fmt.Sprintf("%dx%d", row.Count, row.Amount))
	}
	return strings.Join(parts, " ")
}

func codes(g game.Game) string {
	var parts []string
	for _, f := range g.Findings {
		parts = append(parts, string(f.Code))
	}
	return strings.Join(parts, " ")
}

const frame = "Règlement particulier du jeu « Essai »\n\nChaque émission est répartie en blocs de 10 000 tickets. Le prix de vente du ticket est fixé à 2 €.\n\nArticle 3\nLots\n\nPour chaque bloc, le tableau de lots est le suivant :\n\n"

// One small table in every layout that regulations have used.
func TestParseReadsTheSameTableInEveryLayout(t *testing.T) {
	layouts := map[string]string{
		"one line":                         "| Nombre de lots |Montant du lot| Total | |---|---|---| | 2 lots de | 1 000 € | 2 000 € | | 300 lots de | 20 € | 6 000 € | |302 lots formant un total de| 8 000 € | |",
		"lines, total in the third column": "| Nombre de lots | Montant du lot | Total |\n|---|---|---|\n| 2 lots de | 1 000 € | 2 000 € |\n| 300 lots de | 20 € | 6 000 € |\n| 302 lots formant un total de | | 8 000 € |",
		"cell to a line":                   "NOMBRE DE LOTS\n\nMONTANT DU LOT\n\nTOTAL\n\n2 lots de\n\n1 000 €\n\n2 000 €\n\n300 lots de\n\n20 €\n\n6 000 €\n\nSoit 302 lots formant un total de\n\n8 000 €\n",
		"pipe behind each cell":            "NOMBRE DE LOTS |\nMONTANT DU LOT |\nTOTAL |\n---|---|---|\n2 lots de |\n1 000 € |\n2 000 € |\n300 lots de |\n20 € |\n6 000 € |\n302 lots formant un total de |\n8 000 € |\n",
		"columns of spaces":                "Nombre de lots      Montant du lot     Total\n   2 lots de        1 000 €      2 000 €\n 300 lots de           20 €      6 000 €\n 302 lots formant un total de    8 000 €\n",
		"tabs":                             "Nombre de lots\tMontant\tTotal\n2 lots de\t1 000 €\t2 000 €\n300 lots de\t20 €\t6 000 €\n302 lots formant un total de\t8 000 €\n",
		"inline with colons":               "2 lots de 1 000 € : 2 000 €\n300 lots de 20 € : 6 000 €\n302 lots formant un total de 8 000 €\n",
		"a sentence":                       "Les lots sont les suivants : 2 lots de 1 000 €, soit 2 000 € ; 300 lots de 20 €, soit 6 000 € ; soit 302 lots formant un total de 8 000 €.",
		"equals signs":                     "| 2 lots de | 1 000 € = | 2 000 € | | 300 lots de | 20 € = | 6 000 € | | 302 lots formant un total de | 8 000 € | |",
		"counts with no words":             "| Nombre de lots | Montant du lot (euros) | Total (euros) |\n| 2 | 1.000 | 2.000 |\n| 300 | 20,00 | 6.000,00 |\n| TOTAL 302 | 8.000 |\n",
		"amounts first":                    "| Montant du lot | Nombre de lots | Total |\n| 1 000 € | 2 | 2 000 € |\n| 20 € | 300 | 6 000 € |\n| Total | 302 | 8 000 € |\n",
		"EUR and euros":                    "2 lots de 1000 EUR = 2000 euros\n300 lots de 20 Euros = 6000 EUR\nTotal : 302 lots | 8000 EUR\n",
		"sign in front":                    "| 2 lots de | € 1.000 | € 2.000 |\n| 300 lots de | € 20 | € 6.000 |\n| 302 lots formant un total de | € 8.000 |\n",
		"ran together":                     "2 lots de 1 000 2 000 300 lots de 20 6 000\n302 lots formant un total de 8 000\n",
		"HTML":                             "<table><tr><th>Nombre de lots</th><th>Montant du lot</th><th>Total</th></tr><tr><td>2 lots de</td><td align=\"right\">1&nbsp;000&nbsp;&euro;</td><td>2&#160;000 €</td></tr><tr><td>300 lots de</td><td>20 €</td><td>6 000 €</td></tr><tr><td><b>302 lots formant un total de</b></td><td></td><td>8 000 €</td></tr></table>",
		"no-break spaces":                  "| 2 lots de | 1\u202f000\u00a0€ | 2\u202f000\u00a0€ |\n| 300 lots de | 20\u00a0€ | 6\u202f000\u00a0€ |\n| 302 lots formant un total de | 8\u202f000\u00a0€ |\n",
		"Windows line ends":                "2 lots de\r\n1 000 €\r\n2 000 €\r\n300 lots de\r\n20 €\r\n6 000 €\r\n302 lots formant un total de\r\n8 000 €\r\n",
		"the foot of a page inside":        "2 lots de 1 000 € : 2 000 €\n\nJournal officiel, texte 6 sur 80\n\n300 lots de 20 € : 6 000 €\n302 lots formant un total de 8 000 €\n",
		"ranks":                            "Rang | Nombre de lots | Montant unitaire | Montant total\n1 | 2 | 1 000 € | 2 000 €\n2 | 300 | 20 € | 6 000 €\nTotal | 302 | | 8 000 €\n",
		"amount, then count":               "1 000 € : 2 lots\n20 € : 300 lots\nTotal : 302 lots, 8 000 €\n",
		"each in a list":                   "- 2 lots de 1 000 euros chacun ;\n- 300 lots de 20 euros chacun ;\nsoit un total de 302 lots pour 8 000 euros.\n",
		"totals in the sentence":           "Les lots sont répartis dans la proportion de 302 lots d'une valeur totale de 8 000 EUR pour chaque bloc de 10 000 tickets, conformément au tableau ci-après :\n2 lots de 1 000 EUR\n300 lots de 20 EUR\n",
		"semicolons":                       "Nombre de lots;Montant du lot;Total\n2;1 000 €;2 000 €\n300;20 €;6 000 €\nTotal : 302;;8 000 €\n",
		"semicolons, with words":           "Nombre de lots;Montant du lot;Total\n2 lots de;1 000 €;2 000 €\n300 lots de;20 €;6 000 €\n302 lots formant un total de;8 000 €;\n",
		"bullets":                          "• 2 lots de 1 000 €\n• 300 lots de 20 €\nsoit 302 lots formant un total de 8 000 €\n",
		"numbered":                         "1) 2 lots de 1 000 € (2 000 €)\n2) 300 lots de 20 € (6 000 €)\nTotal : 302 lots pour 8 000 €\n",
		"a count in words":                 "deux lots de 1 000 € : 2 000 €\n300 lots de 20 € : 6 000 €\n302 lots formant un total de 8 000 €\n",
		"winners and gains":                "| Nombre de gagnants | Gain | Total |\n| 2 | 1 000 € | 2 000 € |\n| 300 | 20 € | 6 000 € |\n| 302 | | 8 000 € |\n",
		"gains":                            "| Nombre de gains | Montant des gains | Montant total |\n| 2 | 1 000 € | 2 000 € |\n| 300 | 20 € | 6 000 € |\n| Total | 302 | 8 000 € |\n",
		"N gains de":                       "2 gains de 1 000 € : 2 000 €\n300 gains de 20 € : 6 000 €\n302 gains formant un total de 8 000 €\n",
		"bold marks":                       "| **Nombre de lots** | **Montant du lot** | **Total** |\n|:---|---:|---:|\n| 2 lots de | 1 000 € | 2 000 € |\n| 300 lots de | 20 € | 6 000 € |\n| **302 lots formant un total de** | | **8 000 €** |\n",
		"a total row without a label":      "| Nombre de lots | Montant du lot | Total |\n|---|---|---|\n| 2 | 1 000 € | 2 000 € |\n| 300 | 20 € | 6 000 € |\n| 302 | | 8 000 € |\n",
		"a label, prizes and sum":          "| 2 lots de | 1 000 € | 2 000 € |\n| 300 lots de | 20 € | 6 000 € |\n| Total : 302 lots | | 8 000 € |\n",
		"dashes for cents":                 "2 lots de 1.000,- € : 2.000,- €\n300 lots de 20,- € : 6.000,- €\n302 lots formant un total de 8.000,- €\n",
		"Swiss apostrophes":                "2 lots de 1'000 € : 2'000 €\n300 lots de 20 € : 6'000 €\n302 lots formant un total de 8'000 €\n",
		"decimals":                         "2 lots de 1 000,00 € : 2 000,00 €\n300 lots de 20,00 € : 6 000,00 €\n302 lots formant un total de 8 000,00 €\n",
		"N x sum":                          "2 x 1 000 € = 2 000 €\n300 x 20 € = 6 000 €\nTotal : 302 lots, 8 000 €\n",
		"N times sum":                      "2 × 1 000 € = 2 000 €\n300 × 20 € = 6 000 €\nTotal : 302 lots, 8 000 €\n",
		"capitals":                         "2 LOTS DE 1 000 € : 2 000 €\n300 LOTS DE 20 € : 6 000 €\n302 LOTS FORMANT UN TOTAL DE 8 000 €\n",
		"a page number inside":             "| 2 lots de | 1 000 € | 2 000 € |\n\n3\n\n| 300 lots de | 20 € | 6 000 € |\n| 302 lots formant un total de | | 8 000 € |\n",
		"ranks in words":                   "| Rang | Nombre de lots | Montant |\n| 1er | 2 | 1 000 € |\n| 2e | 300 | 20 € |\n| Total | 302 | 8 000 € |\n",
		"d'un montant de":                  "2 lots d'un montant de 1 000 €, soit 2 000 €\n300 lots d'un montant de 20 €, soit 6 000 €\nsoit au total 302 lots d'un montant de 8 000 €\n",
		"a list with dashes":               "- 2 lots à 1 000 € ;\n- 300 lots à 20 € ;\n- soit 302 lots, pour un montant total de 8 000 €.\n",
		"count in brackets":                "1 000 € (2 lots)\n20 € (300 lots)\nTotal : 302 lots, 8 000 €\n",
		"English":                          "Number of prizes | Prize amount | Total\n2 | €1,000 | €2,000\n300 | €20 | €6,000\nTotal 302 | | €8,000\n",
		"Dutch":                            "Aantal loten | Bedrag van de loten (euro) | Totaal bedrag (euro)\n2 | 1.000 | 2.000\n300 | 20 | 6.000\nTOTAAL 302 | | 8.000\n",
		"winning tickets":                  "| Nombre de billets gagnants | Montant du lot | Total |\n| 2 | 1 000 € | 2 000 € |\n| 300 | 20 € | 6 000 € |\n| TOTAL 302 | | 8 000 € |\n",
		"EUR in front":                     "2 lots de EUR 1 000 : EUR 2 000\n300 lots de EUR 20 : EUR 6 000\n302 lots formant un total de EUR 8 000\n",
		"HTML without a total row":         "<table><tr><td rowspan=2>Nombre de lots</td><td>Montant du lot</td></tr><tr><td>2 lots de</td><td>1 000&nbsp;€</td></tr><tr><td>300 lots de</td><td>20&nbsp;€</td></tr></table>302 lots formant un total de 8 000 €",
	}
	for name, table := range layouts {
		t.Run(name, func(t *testing.T) {
			g := parse(t, frame+table+"\n\nArticle 4\nLe joueur gratte 3 cases.\n")
			if len(g.Tables) != 1 || rows(g.Tables[0]) != "2x100000 300x2000" {
				t.Fatalf("tables %+v", g.Tables)
			}
			table := g.Tables[0]
			if g.Status != game.Complete || *table.BlockSize != 10_000 || *table.Price != 200 || table.Currency != "EUR" || *table.PrintedCount != 302 || *table.PrintedTotal != 800_000 {
				t.Errorf("status %s, %d tickets at %d %s, %d prizes, %d; findings %s", g.Status, *table.BlockSize, *table.Price, table.Currency, *table.PrintedCount, *table.PrintedTotal, codes(g))
			}
			if g.ID != "essai" || g.Kind != game.Regulation || g.Channel != game.Ticket {
				t.Errorf("id %q kind %q channel %q", g.ID, g.Kind, g.Channel)
			}
		})
	}
}

func TestParseReadsBlockAndPriceInEveryWording(t *testing.T) {
	texts := map[string]string{
		"price words":    "Chaque émission est répartie en blocs de 10 000 tickets. Le prix de vente du ticket est de deux euros (2 €).",
		"price unitaire": "Chaque émission est répartie en blocs de 10 000 tickets. Le prix unitaire du ticket est fixé à 2,00 €.",
		"est de":         "Chaque émission est répartie en blocs de 10 000 tickets. Le prix de vente du ticket est de 2 €.",
		"vendu":          "Chaque émission est répartie en blocs de 10 000 tickets. Le ticket est vendu 2 €.",
		"au prix":        "Les tickets sont répartis en blocs de 10 000 tickets, vendus au prix de 2 € l'unité.",
		"prix:":          "Bloc : 10 000 tickets. Prix : 2 €.",
		"comporte":       "Chaque bloc comporte 10 000 tickets. Le prix de vente d'un ticket est fixé à 2 euros.",
		"blocs chacun":   "L'émission est composée de blocs de 10.000 tickets chacun. Le prix de vente public du ticket est fixé à 2 euros.",
		"10 mille":       "L'émission est répartie en blocs de 10 mille tickets. Le prix de vente du ticket est fixé à 2 euros.",
		"mise":           "Chaque émission est répartie en blocs de 10 000 unités de jeu. La mise est fixée à 2 €.",
		"2 EUR TTC":      "Chaque émission est répartie en blocs de 10 000 tickets. Prix du ticket : 2 EUR TTC.",
		"bloc de = ":     "Taille du bloc : 10 000 tickets\nPrix du ticket : 2 €",
		"multiples":      "Chaque émission est répartie en blocs de 10 000 tickets ou en blocs multiples de 10 000 tickets. Le prix de vente du ticket est fixé à 2 €.",
	}
	for name, text := range texts {
		g := parse(t, "Règlement particulier du jeu « Essai »\n\n"+text+"\n\nArticle 3\nPour chaque bloc, le tableau de lots est le suivant :\n\n2 lots de 1 000 € : 2 000 €\n300 lots de 20 € : 6 000 €\n302 lots formant un total de 8 000 €\n\nArticle 4\n")
		if len(g.Tables) != 1 || g.Status != game.Complete || g.Tables[0].BlockSize == nil || *g.Tables[0].BlockSize != 10_000 || g.Tables[0].Price == nil || *g.Tables[0].Price != 200 {
			t.Errorf("%s: %+v", name, g)
		}
	}
}

func TestParseGuessesNoBlockAndNoPrice(t *testing.T) {
	for name, text := range map[string]string{
		"two sizes":         "Chaque émission est répartie en blocs de 10 000 tickets ou de 20 000 tickets, ou en blocs de 20 000 tickets. Le prix de vente du ticket est fixé à 2 €.",
		"no size":           "Le prix de vente du ticket est fixé à 2 €.",
		"a prize's price":   "Chaque émission est répartie en blocs de 10 000 tickets. Un voyage d'un prix de 2 000 €.",
		"sold without sign": "Chaque émission est répartie en blocs de 10 000 tickets. Les tickets sont vendus 2 par 2.",
	} {
		g := parse(t, text+"\n2 lots de 1 000 € : 2 000 €\n300 lots de 20 € : 6 000 €\n302 lots formant un total de 8 000 €\n")
		if len(g.Tables) != 1 || g.Tables[0].BlockSize != nil && g.Tables[0].Price != nil {
			t.Errorf("%s: block %v, price %v", name, g.Tables[0].BlockSize, g.Tables[0].Price)
		}
	}
}

// CFP francs have no cents: a sum of 1 000 F CFP is 1000 minor units.
// Each of these was once read as a figure that the text does not print.
func TestParseInventsNoFigureFromSentencesThatLookLikeOnes(t *testing.T) {
	const table = "2 lots de 1 000 € : 2 000 €\n300 lots de 20 € : 6 000 €\n302 lots formant un total de 8 000 €\n"
	const size = "Chaque émission est répartie en blocs de 10 000 tickets. "
	const price = "Le prix de vente du ticket est fixé à 2 €. "
	tests := []struct {
		name, text  string
		size, price int64 // -1: unknown
		currency    string
		tables      int
	}{
		{"Belgian thousands", "Per 1.000.000 uitgegeven biljetten wordt het aantal loten vastgesteld op 302. " + price + table, 1_000_000, 200, "EUR", 1},
		{"series of an issue", "L'émission comprend 5.000.000 billets, répartis en 20 séries de 250.000 billets. " + price + table, -1, 200, "EUR", 1},
		{"a decree about two games", "Arrêté royal. Per 1.000.000 uitgegeven biljetten : 302. " + price + "Tableau de lots :\n" + table + "\nHoofdstuk II\nTableau de lots :\n" + strings.ReplaceAll(table, "300 lots de 20 € : 6 000 €\n302", "150 lots de 40 € : 6 000 €\n152"), -1, -1, "EUR", 2},
		{"a commission per hundred", "De commissie bedraagt 5 per 100. " + price + table, -1, 200, "EUR", 1},
		{"cents behind the sign", size + "Le prix de vente du ticket est fixé à 2€50. " + table, 10_000, 250, "EUR", 1},
		{"cents after a space", size + "Le prix de vente du ticket est fixé à 1 € 50. " + table, 10_000, 150, "EUR", 1},
		{"cents in words", size + "Le prix de vente du ticket est fixé à 2 euros et 50 centimes. " + table, 10_000, 250, "EUR", 1},
		{"cents after a word", size + "Le prix de vente du ticket est fixé à 1 euro 50. " + table, 10_000, 150, "EUR", 1},
		{"raised cents", size + "Le prix de vente du ticket est fixé à 2<sup>50</sup> €. " + table, 10_000, 250, "EUR", 1},
		{"a footnote", size + "Le prix de vente du ticket est fixé à 2<sup>1</sup> €. " + table, 10_000, 200, "EUR", 1},
		{"parts of a cent", size + "Le prix de vente du ticket est fixé à 1,524 €. " + table, 10_000, -1, "EUR", 1},
		{"two emissions", size + "Le prix de vente du ticket est fixé à 2 € pour l'émission n° 1 et à 3 € pour l'émission n° 2. " + table, 10_000, -1, "EUR", 1},
		{"another time", size + "Le prix de vente du ticket est fixé à 2 € jusqu'au 31 décembre 2001 puis à 3 €. " + table, 10_000, -1, "EUR", 1},
		{"the first prize", size + "1er prix : 20 000 €. " + table, 10_000, -1, "EUR", 1},
		{"the price of a prize", size + price + "Une voiture (prix de vente : 15 000 €). " + table, 10_000, 200, "EUR", 1},
		{"francs over euros", size + "Le prix de vente du ticket est fixé à 20 F (3,05 €). " + table, 10_000, -1, "EUR", 1},
		{"two sizes", "Chaque émission est répartie en blocs de 10 000 tickets ou de 20 000 tickets. " + price + table, -1, 200, "EUR", 1},
		{"dollars of no country", size + "Le prix de vente du ticket est fixé à 2 $. " + strings.ReplaceAll(table, "€", "$"), 10_000, 200, "", 1},
		{"Belgian francs", "Loterie nationale. " + size + "Le prix de vente du ticket est fixé à 2 F. " + strings.ReplaceAll(table, "€", "F"), 10_000, 200, "BEF", 1},
		{"Swiss francs", "Loterie Romande. " + size + "Le prix de vente du ticket est fixé à 2 francs. " + strings.ReplaceAll(table, "€", "francs"), 10_000, 200, "CHF", 1},
		{"an example", frame + table + "Article 4\nExemple : le joueur gagne\n- 2 lots de 20 €\n- 1 lot de 4 €\nsoit 3 lots formant un total de 44 €\n", 10_000, 200, "EUR", 1},
		{"printed twice", frame + table + "Annexe\nTableau de lots :\n" + table, 10_000, 200, "EUR", 1},
		{"replaced", size + price + "Le tableau :\n4 lots de 500 € : 2 000 €\n300 lots de 20 € : 6 000 €\n304 lots formant un total de 8 000 €\nest remplacé par le tableau de lots suivant :\n" + table, 10_000, 200, "EUR", 1},
		{"years", "Le tableau de lots des tickets émis jusqu'à la fin de 2012 est le suivant :\n" + table, -1, -1, "EUR", 1},
		{"a chance in words", size + price + "2 lots de 1 000 € : 2 000 €\n300 lots de 20 € : 6 000 €\nsoit 1 lot pour 33,11 tickets.\n302 lots formant un total de 8 000 €\n", 10_000, 200, "EUR", 1},
		{"a subtotal", frame + "| 2 lots de | 1 000 € | 2 000 € |\n| Sous-total | 2 lots | 2 000 € |\n| 300 lots de | 20 € | 6 000 € |\n| 302 lots formant un total de | | 8 000 € |\n", 10_000, 200, "EUR", 1},
	}
	for _, test := range tests {
		g := parse(t, test.text)
		if len(g.Tables) != test.tables {
			t.Errorf("%s: %d tables", test.name, len(g.Tables))
			continue
		}
		table := g.Tables[0]
		size, price := int64(-1), int64(-1)
		if table.BlockSize != nil {
			size = *table.BlockSize
		}
		if table.Price != nil {
			price = int64(*table.Price)
		}
		if size != test.size || price != test.price || table.Currency != test.currency || rows(table) != "2x100000 300x2000" {
			t.Errorf("%s: block %d, price %d %s, rows %s", test.name, size, price, table.Currency, rows(table))
		}
	}
}

func TestParseNeverCallsATableWholeThatHasARowItDidNotRead(t *testing.T) {
	for name, row := range map[string]string{
		"an annuity":        "1 lot de 1 000 € par mois pendant 20 ans",
		"a car":             "1 lot : une voiture",
		"a smudged sign":    "1 lot de 1 000 €uros",
		"in thousands":      "",
		"a row with no lot": "1 gros prix de 1 000 €",
	} {
		head := ""
		if row == "" {
			head, row = "| Nombre de lots | Montant (en milliers d'euros) |\n", "1 lot de 1 000 €"
		}
		g := parse(t, frame+head+row+"\n2 lots de 1 000 € : 2 000 €\n300 lots de 20 € : 6 000 €\n303 lots formant un total de 9 000 €\n")
		if g.Status == game.Complete || g.Status == game.Inconsistent {
			t.Errorf("%s: %s, %s", name, g.Status, codes(g))
		}
	}
	// A row's total is compared wherever it stands.
	for _, total := range []string{"soit 7 000 €", "= 7 000 €", ": 7 000 €", "total 7 000 €", "7O 000 €"} {
		g := parse(t, frame+"| Nombre de lots | Montant du lot | Total |\n| 2 lots de | 1 000 € | 2 000 € |\n| 300 lots de | 20 € | "+total+" |\n| 302 lots formant un total de | | 8 000 € |\n")
		if codes(g) != "row-total" {
			t.Errorf("%q: %s", total, codes(g))
		}
	}
}

func TestParseNamesATotalThatCannotBeReadInTheFirstRow(t *testing.T) {
	g := parse(t, frame+"| Nombre de lots | Montant du lot | Total |\n| 2 lots de | 1 000 € | 2O00 € |\n| 300 lots de | 20 € | 6 000 € |\n| 302 lots formant un total de | | 8 000 € |\n")
	if codes(g) != "row-total" || rows(g.Tables[0]) != "2x100000 300x2000" {
		t.Errorf("%s, %s", codes(g), rows(g.Tables[0]))
	}
	g = parse(t, frame+"| Nombre de lots | Montant (euros) |\n| 2 | 1 000 |\n| 300 | 20 |\nTOTAL 302 |")
	if g.Status != game.Incomplete || codes(g) != "truncated" {
		t.Errorf("cut behind the count: %s, %s", g.Status, codes(g))
	}
}

func TestChannelIsThatOfWhatABlockCounts(t *testing.T) {
	for text, want := range map[string]game.Channel{
		frame + "Le règlement est consultable sur internet à l'adresse www.fdj.fr.":                    game.Ticket,
		frame + "Les unités de jeu sont régies par un autre texte.":                                    game.Ticket,
		"Règlement du jeu de loterie offert par internet dénommé « Essai »":                            game.Internet,
		"Chaque émission est répartie en blocs de 500 000 unités de jeu, sur tickets ou non.":          game.Internet,
		"Le ticket comporte 9 cases. Le règlement est disponible sur le site internet www.example.fr.": game.Ticket,
	} {
		if got := parse(t, text).Channel; got != want {
			t.Errorf("%q: %q, want %q", text[max(0, len(text)-80):], got, want)
		}
	}
}

func TestParseKnowsCurrenciesWithoutCents(t *testing.T) {
	g := parse(t, strings.ReplaceAll(frame, "2 €", "200 F CFP")+"2 lots de 1 000 F CFP : 2 000 F CFP\n300 lots de 20 F CFP : 6 000 F CFP\n302 lots formant un total de 8 000 F CFP\n")
	if table := g.Tables[0]; g.Status != game.Complete || table.Currency != "XPF" || *table.Price != 200 || rows(table) != "2x1000 300x20" || *table.PrintedTotal != 8000 {
		t.Errorf("%+v", table)
	}
	g = parse(t, frame+"2 lots de 1 000 F CFP : 2 000 F CFP\n300 lots de 20,50 F CFP : 6 150 F CFP\n302 lots formant un total de 8 150 F CFP\n")
	if g.Status != game.Incomplete || !strings.Contains(codes(g), "rows-missing") {
		t.Errorf("half a CFP franc: %s %s", g.Status, codes(g))
	}
}

func TestParseAuditsChancesInEveryWording(t *testing.T) {
	for _, chance := range []string{"%s", "1 sur %s", "1/%s", "1 chance sur %s"} {
		table := func(second string) string {
			return frame + "Montant | Nombre de lots | Probabilité\n1 000 € | 2 | " + fmt.Sprintf(chance, "5 000") + "\n20 € | 300 | " + fmt.Sprintf(chance, second) + "\nTotal : 302 lots, 8 000 €\n"
		}
		if g := parse(t, table("33,33")); codes(g) != "" || rows(g.Tables[0]) != "2x100000 300x2000" || g.Status != game.Complete {
			t.Errorf("%q: %s, %s", chance, codes(g), rows(g.Tables[0]))
		}
		if g := parse(t, table("34,33")); codes(g) != "row-total" {
			t.Errorf("%q: a wrong chance: %q", chance, codes(g))
		}
	}
}

func TestParseReadsLatin1AndWindows1252(t *testing.T) {
	text := frame + "2 lots de 1 000 € : 2 000 €\n300 lots de 20 € : 6 000 €\n302 lots formant un total de 8 000 €\n"
	encoded, err := charmap.Windows1252.NewEncoder().String(text)
	if err != nil {
		t.Fatal(err)
	}
	if g := parse(t, encoded); g.Status != game.Complete || g.Name != "Essai" || *g.Tables[0].PrintedTotal != 800_000 {
		t.Errorf("Windows-1252: %+v", g)
	}
	encoded, err = charmap.ISO8859_1.NewEncoder().String(strings.ReplaceAll(text, "€", "EUR"))
	if err != nil {
		t.Fatal(err)
	}
	if g := parse(t, encoded); g.Status != game.Complete || g.Name != "Essai" {
		t.Errorf("Latin-1: %+v", g)
	}
}

func TestParseNamesWhatIsWrongWithThePrint(t *testing.T) {
	tests := []struct {
		name, table, codes, rows string
		status                   game.Status
	}{
		{"row total", "2 lots de 1 000 € : 3 000 €\n300 lots de 20 € : 6 000 €\n302 lots formant un total de 8 000 €", "row-total", "2x100000 300x2000", game.Inconsistent},
		{"total", "2 lots de 1 000 € : 2 000 €\n300 lots de 20 € : 6 000 €\n302 lots formant un total de 8 001 €", "total-sum", "2x100000 300x2000", game.Inconsistent},
		{"count", "2 lots de 1 000 € : 2 000 €\n300 lots de 20 € : 6 000 €\n303 lots formant un total de 8 000 €", "count-sum", "2x100000 300x2000", game.Inconsistent},
		{"a misprinted count", "2 lots de 1 000 € : 2 000 €\n30 lots de 20 € : 6 000 €\n302 lots formant un total de 8 000 €", "row-total count-sum total-sum count-misprint", "2x100000 30x2000", game.Inconsistent},
		{"degree sign for a zero", "1° lots de 1 000 € : 10 000 €\n300 lots de 20 € : 6 000 €\n310 lots formant un total de 16 000 €", "count-misprint", "10x100000 300x2000", game.Inconsistent},
		{"degree sign for nothing", "1° lots de 1 000 € : 1 000 €\n300 lots de 20 € : 6 000 €\n301 lots formant un total de 7 000 €", "count-misprint", "1x100000 300x2000", game.Inconsistent},
		{"degree sign without proof", "1° lots de 1 000 €\n300 lots de 20 €\n310 lots formant un total de 16 000 €", "rows-missing count-sum total-sum", "300x2000", game.Incomplete},
		{"sign lost", "2 lots de 1 000 € : 2 000\n300 lots de 20 € : 6 000 €\n302 lots formant un total de 8 000 €", "unit-missing", "2x100000 300x2000", game.Complete},
		{"all signs lost", "2 lots de 1 000 : 2 000\n300 lots de 20 : 6 000\n302 lots formant un total de 8 000", "unit-missing", "2x100000 300x2000", game.Complete},
		{"one prize, many counted", "2 lot de 1 000 € : 2 000 €\n300 lots de 20 € : 6 000 €\n302 lots formant un total de 8 000 €", "count-misprint", "2x100000 300x2000", game.Complete},
		{"letter in an amount", "| 2 lots de | 1 O00 € | 2 000 € | | 300 lots de | 20 € | 6 000 € | |302 lots formant un total de| 8 000 € |", "rows-missing count-sum total-sum", "300x2000", game.Incomplete},
		{"no total row", "2 lots de 1 000 € : 2 000 €\n300 lots de 20 € : 6 000 €", "truncated", "2x100000 300x2000", game.Incomplete},
		{"other currency", "2 lots de 1 000 F : 2 000 €\n300 lots de 20 € : 6 000 €\n302 lots formant un total de 8 000 €", "rows-missing", "2x100000 300x2000", game.Incomplete},
		{"one in words", "| Nombre de lots | Montant du lot | Total |\n| un lot de | 1 000 € | 1 000 € |\n| 300 lots de | 20 € | 6 000 € |\n|301 lots formant un total de| 7 000 €|", "", "1x100000 300x2000", game.Complete},
		{"wrong chance", "Nombre de lots | Montant (euros) | Total | 1 chance de gain sur |\n2 | 1.000 | 2.000 | 5 000 |\n300 | 20 | 6.000 | 34,33 |\nTOTAL 302 | TOTAL 8.000 | TOTAL 33,11 |", "row-total", "2x100000 300x2000", game.Inconsistent},
		{"trip", "| 2 lots de | 1 000 € | 2 000 € | | 3 lots de | un voyage à Rome | 1 500 € | | 300 lots de | 20 € | 6 000 € | |305 lots formant un total de| 9 500 € |", "not-money", "2x100000 300x2000", game.Complete},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			g := parse(t, frame+test.table+"\n\nArticle 4\nLe joueur gratte 3 cases.\n")
			if len(g.Tables) != 1 {
				t.Fatalf("%d tables", len(g.Tables))
			}
			if rows(g.Tables[0]) != test.rows || g.Status != test.status || codes(g) != test.codes {
				t.Errorf("rows %s, status %s, findings %s\nwant %s, %s, %s", rows(g.Tables[0]), g.Status, codes(g), test.rows, test.status, test.codes)
			}
		})
	}
}

// A text cut at any place gives only rows that the whole has, and is complete
// only when the whole table was there.
func TestParseInventsNothingFromACutText(t *testing.T) {
	whole, err := os.ReadFile("testdata/bingo.txt")
	if err != nil {
		t.Fatal(err)
	}
	full := parse(t, string(whole))
	table := full.Tables[0]
	for cut := 500; cut < 1130; cut++ {
		g := parse(t, string(whole[:cut]))
		for _, got := range g.Tables {
			for i, row := range got.Rows {
				if i >= len(table.Rows) || row.Count != table.Rows[i].Count || row.Amount != table.Rows[i].Amount || (row.PrintedTotal != nil && *row.PrintedTotal != *table.Rows[i].PrintedTotal) {
					t.Errorf("cut at %d (%q): row %d is %+v", cut, whole[cut-12:cut], i, row)
				}
			}
			if got.PrintedCount != nil && *got.PrintedCount != *table.PrintedCount || got.PrintedTotal != nil && *got.PrintedTotal != *table.PrintedTotal {
				t.Errorf("cut at %d (%q): totals of %v, %v", cut, whole[cut-12:cut], *got.PrintedCount, got.PrintedTotal)
			}
			if got.PrintedTotal == nil && g.Status != game.Incomplete {
				t.Errorf("cut at %d (%q): %s", cut, whole[cut-12:cut], g.Status)
			}
		}
		if len(g.Findings) > 1 {
			t.Errorf("cut at %d (%q): findings %s", cut, whole[cut-12:cut], codes(g))
		}
	}
}

func TestParseReadsTheBingoRegulation(t *testing.T) {
	g := parseFile(t, "testdata/bingo.txt")
	if g.Name != "Bingo" || g.ID != "bingo" || g.Kind != game.Regulation || g.Channel != game.Ticket || g.Status != game.Complete || len(g.Findings) > 0 {
		t.Errorf("%+v", g)
	}
	if len(g.Tables) != 1 {
		t.Fatalf("%d tables: the lines of game 1 are no prize table", len(g.Tables))
	}
	table := g.Tables[0]
	if want := "2x100000000 4x2000000 10x200000 17900x20000 60000x10000 250000x5000 120000x3000 1806000x2000"; rows(table) != want {
		t.Errorf("rows %s", rows(table))
	}
	if *table.BlockSize != 9_000_000 || *table.Price != 1000 || *table.PrintedCount != 2_253_916 || *table.PrintedTotal != 6_390_000_000 {
		t.Errorf("table %+v", table)
	}
}

func TestParseSeparatesTheStakesOfAnInternetGame(t *testing.T) {
	g := parse(t, "Règlement particulier du jeu de loterie instantanée offert par internet dénommé « Essai 20 000 »\n\nChaque émission est répartie en blocs de 1 000 unités de jeu. Le prix de vente de l'unité de jeu est fixé à 0,5 EUR, 1 EUR ou 2 EUR.\n\n"+
		"3.1. Dans la proportion de 10 lots d'une valeur totale\nde 1 000 EUR pour chaque bloc de 1 000 unités de jeu à 0,5 EUR, conformément au tableau ci-après :\n"+
		"3.2. Dans la proportion de 10 lots d'une valeur totale de 2 000 pour chaque bloc de 1 000 unités de jeu à 1 , conformément au tableau ci-après :\n"+
		"4 lots de 200 EUR\n6 lots de 200 EUR\n")
	if len(g.Tables) != 2 || g.ID != "essai-20000" || g.Status != game.Incomplete {
		t.Fatalf("%+v", g)
	}
	for i, want := range []money.Amount{50, 100} {
		if table := g.Tables[i]; *table.Stake != want || *table.Price != want || table.Unit != game.UnitGame || table.Currency != "EUR" {
			t.Errorf("table %d: %+v", i, table)
		}
	}
	if want := "rows-missing unit-missing unit-missing"; codes(g) != want {
		t.Errorf("findings %s, want %s", codes(g), want)
	}
}

func TestParseChecksTheSharesOfACombinedOffer(t *testing.T) {
	text := "Participation aux jeux « ESSAI » et « SUPER »\nLes jeux « ESSAI » et « SUPER » constituent une offre commune de jeux dont le prix de vente est fixé à 3 € et se décompose comme suit :\n%s pour le jeu « ESSAI » ;\n%s pour le jeu « SUPER ».\nLe joueur dispose de trois participations au jeu « SUPER », le prix unitaire de chaque participation étant de 0,03 €.\n"
	g := parse(t, fmt.Sprintf(text, "2,91 €", "0,09€"))
	if g.Name != "ESSAI" || codes(g) != "" || *g.Offer.SalePrice != 300 || *g.Offer.Participations != 3 || !slices.Equal(g.Offer.Parts, []game.Part{{Game: "ESSAI", Minor: "291"}, {Game: "SUPER", Minor: "9"}}) {
		t.Errorf("%+v %+v", g, g.Offer)
	}
	if g := parse(t, fmt.Sprintf(text, "2,90 €", "0,09 €")); codes(g) != "share-sum" {
		t.Errorf("shares: %s", codes(g))
	}
	if g := parse(t, fmt.Sprintf(text, "2,8757 €", "0,1243 €")); codes(g) != "share-sum" || g.Offer.Parts[1].Minor != "12.43" {
		t.Errorf("participations: %s %+v", codes(g), g.Offer)
	}
}

func TestParseReadsTheDatesOfANotice(t *testing.T) {
	g := parse(t, "Avis relatif au jeu « Essai »\nÉmission no 1, code jeu 07501 : vente à compter du 25 janvier 2001 ; clôture le 1er avril 2001. Émission n° 2, code jeu 07502 : vente à compter du 30 février 2001.\n")
	if g.Kind != game.Notice || g.Status != game.NoTable || len(g.Emissions) != 2 {
		t.Fatalf("%+v", g)
	}
	first, second := g.Emissions[0], g.Emissions[1]
	if *first.Number != "1" || *first.GameCode != "07501" || *first.Opens != "2001-01-25" || *first.Closes != "2001-04-01" {
		t.Errorf("first %+v", first)
	}
	if *second.GameCode != "07502" || second.Opens != nil || second.Closes != nil {
		t.Errorf("30 February became a date: %v", *second.Opens)
	}
}

// emissions writes what was read: game, number, code, opening and closing.
func emissions(g game.Game) string {
	word := func(p *string) string {
		if p == nil {
			return "-"
		}
		return *p
	}
	var parts []string
	for _, e := range g.Emissions {
		parts = append(parts, strings.TrimSpace(strings.Join([]string{e.Game, word(e.Number), word(e.GameCode), word(e.Opens), word(e.Closes)}, " ")))
	}
	return strings.Join(parts, "; ")
}

func TestParseReadsEmissionsInEveryWording(t *testing.T) {
	tests := []struct{ text, want string }{
		{"Avis : émission no 1 du jeu « Essai », code jeu 36001, diffusion à compter du 11 mars 2004.", "1 36001 2004-03-11 -"},
		{"Avis\nL'émission n° 03 (code jeu : 075) sera mise en vente à partir du lundi 5 janvier 2015.", "3 075 2015-01-05 -"},
		{"Le jeu comporte une seule émission de tickets répartie en 50 blocs de 1 000 000 tickets. L'émission no 1 code jeu 55901 sera disponible à compter du 25 novembre 1999. " +
			"La date de clôture de cette émission, ou date limite de vente, est fixée au 30 janvier 2000 inclus.", "1 55901 1999-11-25 2000-01-30"},
		{"Avis de clôture\nLa commercialisation de l'émission 2 du jeu « Essai », code jeu 48831, sera close le 1er avril 2001.", "2 48831 - 2001-04-01"},
		{"L'émission n° 2, code jeu 48831, est close à compter du 1er avril 2001.", "2 48831 - 2001-04-01"},
		{"Émission n°1 (code jeu 427) : fin de commercialisation le 30/06/2010.", "1 427 - 2010-06-30"},
		{"Émission n°1, code jeu 427 : vente du 5 janvier au 3 mars 2009.", "1 427 2009-01-05 2009-03-03"},
		{"Émission n°1, code jeu 427 : vente du 15.12.2008 au 3 mars 2009.", "1 427 - -"},
		{"Code jeu 427, émission n° 1 : mise en vente le 5 mai 2008. Code jeu 428, émission n° 2 : mise en vente le 6 juin 2008.", "1 427 2008-05-05 -; 2 428 2008-06-06 -"},
		{"Les codes jeux 48830 et 48831 correspondent aux émissions 1 et 2.", "1 48830 - -; 2 48831 - -"},
		{"Le règlement s'applique à l'émission n° 01 du jeu « MOTS CROISES » ayant le code jeu 675, dont la diffusion sera effectuée en principe à compter du lundi 6 avril 2020.\n" +
			"Le règlement s'applique à l'émission n° 02 du jeu « SOLITAIRE » ayant le code jeu 672, dont la diffusion sera effectuée à compter du 2 mars 2020.",
			"MOTS CROISES 1 675 2020-04-06 -; SOLITAIRE 2 672 2020-03-02 -"},
		{"Avis divers\nMOTS CROISES émission 01 = 675\nMONOPOLY émission 01 = 691\n", "MOTS CROISES 1 675 - -; MONOPOLY 1 691 - -"},
		{"Émission n° 1, code jeu 427 : vente à compter du 31 février 2010.", "1 427 - -"},
		{"Émission n° 1, code jeu 427 : vente à compter du 5 mai 2010, clôture le 5 mai 2009.", "1 427 - -"},
		{"Émission n° 1 (code jeu 427) : elle est close, les gains étant payables jusqu'au 2 mai 2001.", "1 427 - -"},
		{"Émission n° 1 (code jeu 427). Les présentes dispositions sont applicables à compter du 1er mars 2020.", "1 427 - -"},
		{"Émission n° 1 (code jeu 427), soumise au règlement applicable à compter du 29 juin 2001, sera mise en vente le 3 mars 2020.", "1 427 2020-03-03 -"},
		{"Émission n° 1 (code jeu 427) : elle ne sera pas mise en vente le 2 mars 2020.", "1 427 - -"},
		{"Émission n° 1 (code jeu 427) : la clôture, initialement fixée au 30 juin 2010, est reportée au 30 septembre 2010.", "1 427 - 2010-09-30"},
		{"Les émissions n° 1 et n° 2 (codes jeux 427 et 428) seront mises en vente le 5 mai 2010.", "1 427 2010-05-05 -; 2 428 2010-05-05 -"},
		{"Chaque émission de 500 000 tickets comprend une émission 500 000 fois.", ""},
		{"Le règlement général publié au Journal officiel du 21 décembre 2001 s'applique.", ""},
		{"Le code jeu 12 de l'émission n° 1.", ""},
	}
	for _, test := range tests {
		if got := emissions(parse(t, test.text)); got != test.want {
			t.Errorf("%q:\n%s\nwant %s", test.text, got, test.want)
		}
	}
}

func TestParseRefusesWhatIsNoTextAndSaysWhere(t *testing.T) {
	tests := []struct {
		name, text, want string
		is               error
	}{
		{"empty", " \n", "empty", ErrNotText},
		{"NUL", "ab\nc\x00d", "line 2, byte 5: NUL", ErrNotText},
		{"control", "ab\x01", "line 1, byte 3", ErrNotText},
		{"PDF", "%PDF-1.7\nabc", "PDF", ErrNotText},
		{"damaged UTF-8", "règlement\n à 20 \xe2\x82 de", "line 2, byte 19", ErrNotText},
		{"no Latin-1", "prix 20 \x81", "line 1, byte 9", ErrNotText},
		{"too large", strings.Repeat("a", MaxSize+1), "4 MiB", ErrTooLarge},
	}
	for _, test := range tests {
		if _, err := Parse(strings.NewReader(test.text)); !errors.Is(err, test.is) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}

func TestParseNumberReadsEveryFormAndRefusesBrokenOnes(t *testing.T) {
	for text, want := range map[string]number{
		"1 000 000": {1_000_000, 0}, "1.000.000": {1_000_000, 0}, "1,000,000": {1_000_000, 0}, "17900": {17_900, 0}, "25.000,00": {2_500_000, 2},
		"4,5": {45, 1}, "0,50": {50, 2}, "666,67": {66_667, 2}, "1,5243": {15_243, 4}, "2,000": {2000, 0}, "0,500": {500, 3}, "12.50": {1250, 2}, "0": {0, 0}, "1 234,56": {123_456, 2},
	} {
		if got, ok := parseNumber(text); !ok || got != want {
			t.Errorf("%q = %v %v, want %v", text, got, ok, want)
		}
	}
	for _, text := range []string{"1 00", "12 500 0", "1 0000", "0 500", "012", "1.00.000", "1 000.000", "1,2,3", "30° 000", "", "99999999999999999999", "1 000 00,5"} {
		if got, ok := parseNumber(text); ok {
			t.Errorf("%q was read as %v", text, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	whole, err := os.ReadFile("testdata/bingo.txt")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(whole[:1500]))
	f.Add(frame + "2 lots de 1 000 € : 2 000 €\n300 lots de 20 € : 6 000 €\n302 lots formant un total de 8 000 €\n")
	f.Add("1° lots de 1 000 € : 10 000 €\n16 lots de 300 600 lots de 20")
	f.Add("Aantal loten per één miljoen : 253 950 (153 940 in geld, 100 010 in natura).\nIn geld : 40 loten van 1 000 EUR, 2 loten van 4 EUR.\nIn natura :\n 1. 100 000 biljetten ;\n 2. 10 cabrioletten. \"")
	f.Add("proportion de 121 496 lots d'une valeur totale moyenne de 2 963 ")
	f.Add("Nombre de lots | Montant (euros) | Total | 1 chance de gain sur |\n1 | 100.000 | 100.000 | 666,67 |\nTOTAL 1 | TOTAL100.000 |")
	f.Fuzz(func(t *testing.T, text string) {
		g, err := Parse(strings.NewReader(text))
		if err != nil {
			if !errors.Is(err, ErrNotText) && !errors.Is(err, ErrTooLarge) {
				t.Errorf("refused for another reason: %v", err)
			}
			return
		}
		if err := g.Validate(); err != nil {
			t.Errorf("accepted and inconsistent: %v", err)
		}
	})
}
