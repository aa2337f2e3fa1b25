package report

import (
	"fmt"
	"strings"

	"grattoir/sync/central"
	"grattoir/validate/money"
)

// SignalRule says what a signal of fraud is: for the page that shows it, and for
// docs/signals.md, which is written from it.
type SignalRule struct {
	Signal      string // its name in reports
	Title       Text
	Rule        Text // what is counted, and against what
	Parameters  Text
	FalseAlarms Text // what honest people do that looks like it
	Case        Text // what was found out there, with its source
}

// SignalRules are the signals there are, in the order of their names in the package.
func SignalRules() []SignalRule {
	usual := func(fr, en string) (Text, Text) {
		return Text{fr + " Au terminal, comparé au taux de tous les autres, par le test binomial exact.", en + " At the terminal, against the rate of all others, by the exact binomial test."},
			Text{fmt.Sprintf("au moins %d cas, au moins %d fois le taux des autres, et un indice que le hasard n'explique pas (au plus %g %% de fausses découvertes)", fewest, timesUsual, 100*falseDiscoveries),
				fmt.Sprintf("at least %d events, at least %d times the others' rate, and a score that chance does not explain (at most %g %% of false discoveries)", fewest, timesUsual, 100*falseDiscoveries)}
	}
	list := []SignalRule{
		{Signal: ManualEntry, Title: Text{"Codes tapés", "Codes typed"}, FalseAlarms: Text{"un lecteur usé, une vitre sale, un lot mal imprimé", "a worn scanner, a dirty window, a batch with a bad print"},
			Case: Text{"Minnesota 2012 : un vendeur découvrait le code par des grattages invisibles et tapait les tickets avant de vendre les perdants ; ses saisies l'ont trahi.", "Minnesota 2012: a clerk uncovered codes by scratches too fine to see, and looked tickets up by hand before selling the losers; his manual entries gave him away."}},
		{Signal: UnsoldCheck, Title: Text{"Tickets non vendus consultés", "Unsold tickets checked"}, FalseAlarms: Text{"un livret mis en vente en retard", "a pack put on sale late"},
			Case: Text{"Auburn (Californie), Nancy : des codes ou des cases de contrôle grattés d'avance.", "Auburn in California, Nancy: codes or control boxes scratched beforehand (pinning)."}},
		{Signal: PaidOrStolen, Title: Text{"Tickets payés ou volés présentés", "Paid or stolen tickets presented"}, FalseAlarms: Text{"un joueur qui redemande sans cesse", "a player who asks again and again"},
			Case: Text{"Morbihan : un point de vente a dû rembourser des lots payés deux fois, la case n'ayant pas été oblitérée.", "Morbihan: a shop had to refund prizes that it had paid twice, the box not having been voided."}},
		{Signal: CheckedElsewhere, Title: Text{"Gagnants vus ici, payés ailleurs", "Winners checked here, paid elsewhere"}, FalseAlarms: Text{"un point de vente près d'une gare, où l'on vérifie et repart", "a shop by a station, where people look and travel on"},
			Case: Text{"Oregon 2024 : un vendeur a dit perdant un ticket de 25 000 $, et l'a réclamé une semaine plus tard.", "Oregon 2024: a clerk told a winner of 25,000 dollars that it had lost, and claimed it a week later."}},
		{Signal: BlockOverpaid, Title: Text{"Bloc qui paie plus que son tableau", "Block that pays more than its table"},
			Rule: Text{"Les lots payés de chaque rang d'un bloc. Plus que le tableau n'en a est impossible : le bloc est à arrêter. Plus que les tickets sortis du stock n'en contiennent, par le test de Poisson exact, veut dire qu'on paie des tickets non vendus. Les blocs de démonstration n'y sont pas.",
				"The prizes paid of each tier of a block. More than the table has is impossible: the block is to be stopped. More than the tickets out of the printer's store hold, by the exact Poisson test, means that tickets are paid that were not sold. Demonstration blocks are left out."},
			Parameters:  Text{fmt.Sprintf("l'indice, au plus %g %% de fausses découvertes ; indice %d pour l'impossible", 100*falseDiscoveries, int(maxScore)), fmt.Sprintf("the score, at most %g %% of false discoveries; score %d for the impossible", 100*falseDiscoveries, int(maxScore))},
			FalseAlarms: Text{"des livrets vendus que personne n'a déclarés livrés", "packs on sale that nobody entered as delivered"},
			Case:        Text{"Toronto 2003 : des tickets se lisaient sans être grattés ; un jeu qui gagne plus souvent que son tableau se retire.", "Toronto 2003: tickets could be read unscratched; a game that wins more often than its table is recalled."}},
		{Signal: MiddleMissing, Title: Text{"Lots moyens absents", "Middle prizes missing"},
			Rule: Text{"La part des lots moyens parmi les lots payés au comptoir, comparée à celle des tableaux des tickets mêmes, par le test binomial exact, côté bas : aucun autre terminal n'est supposé honnête.",
				"The share of middle prizes among those paid at the counter, against that of the tables of the very tickets, by the exact binomial test, lower side: no other terminal's honesty is assumed."},
			Parameters: Text{fmt.Sprintf("moyen : de %d à %d fois le prix du ticket ; au moins %d attendus, au plus un tiers observé", central.MiddleFrom, central.MiddleMost, fewest),
				fmt.Sprintf("middle: %d to %d times the ticket's price; at least %d expected, at most a third seen", central.MiddleFrom, central.MiddleMost, fewest)},
			FalseAlarms: Text{"un point de vente dont la caisse ne permet pas de payer ces lots et qui envoie ailleurs", "a shop whose till cannot pay such prizes, and which sends people elsewhere"},
			Case:        Text{"Ontario : 247 détaillants ont touché de gros lots, là où on en attendait environ 57 (CBC 2006).", "Ontario: 247 insiders won major prizes, where about 57 were expected (CBC 2006)."}},
		{Signal: OddHours, Title: Text{"Paiements de nuit", "Night payments"}, FalseAlarms: Text{"un point de vente ouvert la nuit, une horloge fausse (rapport sync, écart)", "a shop that is open at night, a clock that is wrong (sync report, skew)"},
			Case: Text{"Les gagnants repérés d'avance se paient quand personne ne regarde (voir Minnesota 2012).", "Winners found beforehand are paid while nobody looks (see Minnesota 2012)."}},
		{Signal: Cancelled, Title: Text{"Suites annulées", "Cancelled sequences"}, FalseAlarms: Text{"une imprimante en panne", "a printer that fails"},
			Case: Text{"Connecticut 2015 : des agents ralentissaient leur terminal, voyaient le résultat avant le reçu et annulaient les perdants.", "Connecticut 2015: agents slowed their terminals, saw outcomes before the slip, and voided what lost."}},
	}
	for signal, r := range map[string][2]string{
		ManualEntry:      {"Les codes tapés parmi tous ceux qui ont été regardés.", "Codes typed, of all that were looked at."},
		UnsoldCheck:      {"Les tickets des livrets du point de vente lui-même qui ne sont pas en vente, ou sont revenus, et qu'il regarde ; chacun une fois.", "Tickets of the shop's own packs that are not on sale, or went back, and that it looks at; each once."},
		PaidOrStolen:     {"Les tickets déjà payés ou volés qui y sont présentés ; chacun une fois.", "Tickets that are paid or stolen and presented there; each once."},
		CheckedElsewhere: {"Les gagnants regardés ici et payés ensuite dans un autre point de vente, parmi les gagnants regardés ici.", "Winners looked at here and paid at another shop later, of the winners looked at here."},
		OddHours:         {fmt.Sprintf("Les paiements entre %d h et %d h, à l'horloge de l'appareil, parmi tous.", central.NightBegins, central.NightEnds), fmt.Sprintf("Payments between %d and %d h, by the device's clock, of all payments.", central.NightBegins, central.NightEnds)},
		Cancelled:        {"Les paiements qu'on demande de reprendre, et ceux que le centre a permis et qui furent rendus, parmi tous.", "Payments asked to be taken back, and claims that central allowed and the terminal gave back, of all payments."},
	} {
		for i := range list {
			if list[i].Signal == signal {
				list[i].Rule, list[i].Parameters = usual(r[0], r[1])
			}
		}
	}
	return list
}

// SignalsDocument is docs/signals.md.
func SignalsDocument() string {
	var b strings.Builder
	b.WriteString("# Signals of fraud\n\nWritten from `sync/report/rules.go`: `go test ./sync/report -run SignalsDocument -update` writes it anew.\n" +
		"A signal is a reason to look, never a proof, and says nothing of a person. `central report signals` and the console's page\n" +
		"show them with a score: minus the decimal logarithm of the probability, so that 3 is once in a thousand. Detection and\n" +
		"false alarms on a simulated fleet with planted cheats: `go test ./sync/report -run TestSignalsFind -v`.\n")
	for _, r := range SignalRules() {
		en := func(t Text) string { return t.In(money.English) }
		fmt.Fprintf(&b, "\n## %s (`%s`)\n- **Rule**: %s\n- **Parameters**: %s.\n- **False alarms**: %s.\n- **Case**: %s\n", en(r.Title), r.Signal, en(r.Rule), en(r.Parameters), en(r.FalseAlarms), en(r.Case))
	}
	return b.String()
}
