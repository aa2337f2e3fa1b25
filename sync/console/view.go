package console

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"time"

	"grattoir/sync/report"
	"grattoir/sync/wire"
	"grattoir/validate"
	"grattoir/validate/money"
)

// words are the page's own, in one language. The columns' are the report's.
type words struct {
	Lang, Title, MadeAt, Stale, Reload, NoScript string
	Ago                                          string // {} stands for the seconds
	Terminal, Game, From, To, Apply, Clear       string
	Other, OtherLang                             string // the other language, and its code
	SignIn, SignOut, Name, Password, Denied      string
	Wrong, Wait, Ended, First, Roles             string // Wait with a number of seconds
	Menu                                         string
	All, Total, NoRows, Problem                  string
	Values                                       map[string]string // texts of the columns state and demonstration
}

func wordsIn(lang money.Language) words {
	if lang == money.English {
		return words{Lang: "en", Title: "Grattoir central", MadeAt: "made at", Ago: "({} s ago)", Stale: "These numbers are out of date.", Reload: "Load again",
			NoScript: "Without its script this page cannot say when it is out of date: mind the time it was made.",
			SignIn:   "Sign in", SignOut: "Sign out", Name: "Name", Password: "Password", Denied: "Your role does not allow this.", Menu: "Pages",
			Wrong: "Name or password is wrong.", Wait: "Too many wrong passwords: wait %d s.", Ended: "Your session has ended, or has not begun.",
			First: "There is no user yet. On central's machine, make the first one:", Roles: "The roles are:",
			Terminal: "Terminal", Game: "Game", From: "From (day)", To: "To (day)", Apply: "Filter", Clear: "All", Other: "Français", OtherLang: "fr",
			All: "terminals in all", Total: "Total", NoRows: "Nothing to show.", Problem: "This could not be shown",
			Values: map[string]string{report.StateMissing: "missing", report.StateLate: "late", report.StateNeverSeen: "never seen", report.StateSuspended: "suspended",
				report.StateInContact: "in contact", "yes": "DEMONSTRATION", "no": "no"}}
	}
	return words{Lang: "fr", Title: "Grattoir central", MadeAt: "fait à", Ago: "(il y a {} s)", Stale: "Ces chiffres ne sont plus à jour.", Reload: "Recharger",
		NoScript: "Sans son script, cette page ne peut pas dire quand elle n'est plus à jour : regardez l'heure à laquelle elle a été faite.",
		SignIn:   "Se connecter", SignOut: "Se déconnecter", Name: "Nom", Password: "Mot de passe", Denied: "Votre rôle ne le permet pas.", Menu: "Pages",
		Wrong: "Nom ou mot de passe incorrect.", Wait: "Trop de mots de passe incorrects : attendez %d s.", Ended: "Votre session est terminée, ou n'a pas commencé.",
		First: "Il n'y a encore aucun utilisateur. Sur la machine centrale, créez le premier :", Roles: "Les rôles sont :",
		Terminal: "Terminal", Game: "Jeu", From: "Du (jour)", To: "Au (jour)", Apply: "Filtrer", Clear: "Tout", Other: "English", OtherLang: "en",
		All: "terminaux en tout", Total: "Total", NoRows: "Rien à montrer.", Problem: "Ceci n'a pas pu être montré",
		Values: map[string]string{report.StateMissing: "absent", report.StateLate: "en retard", report.StateNeverSeen: "jamais vu", report.StateSuspended: "suspendu",
			report.StateInContact: "en contact", "yes": "DÉMONSTRATION", "no": "non"}}
}

// cells writes a row of a report.
func (s sheet) cells(r report.Report, row []report.Value) []cell {
	of := cells(r, row)
	list := make([]cell, len(row))
	for i, v := range row {
		key := r.Columns[i].Key
		x := cell{Text: s.value(r.Name, key, v), Class: class(v.Kind), Address: s.leads(r, key, of)}
		switch {
		case !v.Known:
			x.Class += " unknown"
		case key == "state" && r.Name == "sync":
			x.Class = "state " + v.Text
		case key == "faults" && v.Text != "", key == "conflicts" && v.Int > 0, key == "lapsed" && v.Int > 0, key == "frozen", key == "signal":
			x.Class += " alert"
		case key == "explained" || key == "note" || key == "reason":
			x.Class += " words"
		}
		if key == "block_id" && v.Known {
			x.Hint = v.Text
		}
		if key == "explained" {
			x.Text = s.explained(of)
		}
		list[i] = x
	}
	return list
}

// totals writes a row of totals; columns that have none stay empty.
func (s sheet) totals(r report.Report, row []report.Value) []cell {
	list := make([]cell, len(row))
	for i, v := range row {
		if v.Known || v.Holes > 0 {
			list[i] = cell{Text: s.value(r.Name, r.Columns[i].Key, v), Class: class(v.Kind)}
		}
	}
	list[0] = cell{Text: s.W.Total}
	return list
}

// neverTold are columns whose empty cells mean that there is nothing, where those of the
// others mean that nobody knows.
func neverTold() []string {
	return []string{"reason", "frozen", "note", "liable", "accepted_terminal", "accepted_number", "closed", "last_claim_day", "region", "pack", "ticket", "ended", "game", "emission", "block", "block_id", "demonstration", "terminal", "shop", "currency", "day"}
}

// value writes a cell for people: what is not known is a question mark, never a zero.
func (s sheet) value(name, key string, v report.Value) string {
	text := "?"
	if slices.Contains(neverTold(), key) {
		text = "–"
	}
	if v.Known {
		switch v.Kind {
		case report.KindText:
			text = s.valueWord(name, key, v.Text)
		case report.KindDay:
			text = dayWords(v.Text, "–")
		case report.KindTime:
			text = s.When(v.Time)
		case report.KindInt:
			text = s.integer(key, v.Int)
		case report.KindDuration:
			text = s.Lasted(time.Duration(v.Int) * time.Millisecond)
			if key == "skew" {
				text = count(v.Int) + "\u00a0ms"
			}
		default:
			text = report.Report{Zone: s.zone}.Words(report.Value{Kind: v.Kind, Known: true, Int: v.Int, Currency: v.Currency}, s.lang, money.Screen)
		}
	} else if key == "ended" {
		text = s.T("dure encore", "still so")
	}
	if v.Holes > 0 {
		if !v.Known {
			text = ""
		}
		text += "+?"
	}
	return text
}

// integer writes numbers that count something with their thousands apart, and those that
// name something as they are.
func (s sheet) integer(key string, n int64) string {
	if slices.Contains([]string{"block", "tier", "snapshot", "feed"}, key) {
		return fmt.Sprint(n)
	}
	return count(n)
}

// valueWord is a code of a report in words. What a terminal told stands as it is.
func (s sheet) valueWord(name, key, code string) string {
	words := map[string]map[string]report.Text{
		"kind": exceptionWords(), "signal": signalWords(), "cause": {"link": {FR: "la ligne", EN: "the line"}, "stopped": {FR: "programme arrêté", EN: "program stopped"}},
		"code":    {"no-contact": {FR: "sans contact", EN: "no contact"}},
		"said_by": {"terminal": {FR: "le terminal", EN: "the terminal"}, "central": {FR: "le centre", EN: "central"}},
		"outcome": {"pay": {FR: "payer", EN: "pay"}, "refuse": {FR: "refuser", EN: "refuse"}, "refer": {FR: "renvoyer au centre", EN: "refer"}, "again": {FR: "rescanner", EN: "again"}, "denied": {FR: "refusé", EN: "denied"}},
		"frozen":  {"ask": {FR: "en attente", EN: "waiting"}},
	}
	switch {
	case key == "state" && name == "conflicts" && code == "settled":
		return s.Word("conflict-settled")
	case key == "state", key == "demonstration", key == "liable":
		return s.Word(code)
	case key == "reason" && name == "refusals":
		return s.reasonWord(code)
	case key == "block_id":
		return code[:min(8, len(code))] + "…"
	}
	if text, ok := words[key][code]; ok {
		return text.In(s.lang)
	}
	return code
}

// reasonWord is a verdict's reason, or why central denied a claim.
func (s sheet) reasonWord(code string) string {
	if text, ok := denialWords()[wire.ClaimWhy(code)]; ok {
		return text.In(s.lang)
	}
	if r := validate.Reason(code); slices.Contains(validate.Reasons(), r) {
		return r.Text(s.lang).Word + " (" + r.Code() + ")"
	}
	return code
}

// denialWords are why central denies claims.
func denialWords() map[wire.ClaimWhy]report.Text {
	return map[wire.ClaimWhy]report.Text{
		wire.WhyPaid: {FR: "déjà payé", EN: "paid already"}, wire.WhyGranted: {FR: "accordé à un autre terminal", EN: "granted elsewhere"}, wire.WhyPack: {FR: "livret qui ne se paie pas", EN: "pack that is not paid"},
		wire.WhySuspended: {FR: "jeu suspendu", EN: "game suspended"}, wire.WhyUnproven: {FR: "ticket non prouvé", EN: "ticket not proven"}, wire.WhyWrongPrize: {FR: "autre lot que demandé", EN: "another prize than asked"},
		wire.WhyRound: {FR: "tour de paiement dépassé", EN: "wrong round"}, wire.WhyAttempts: {FR: "trop d'essais", EN: "too many attempts"}, wire.WhyMisprint: {FR: "repris comme mal imprimé", EN: "taken in as a misprint"}, wire.WhyRefused: {FR: "demande défectueuse", EN: "faulty request"}, wire.WhyOwnerSilent: {FR: "propriétaire muet", EN: "owner silent"},
	}
}

// exceptionWords are the kinds of conflicts.
func exceptionWords() map[string]report.Text {
	return map[string]report.Text{
		string(wire.DoubleClaim): {FR: "payé deux fois", EN: "paid twice"}, string(wire.ClaimUnproven): {FR: "non prouvé", EN: "not proven"}, string(wire.WrongPrize): {FR: "autre lot", EN: "another prize"},
		string(wire.NoRight): {FR: "sans droit sur le livret", EN: "no right to the pack"}, string(wire.UnknownKind): {FR: "écriture inconnue", EN: "unknown entry"}, string(wire.PackRefused): {FR: "mise en vente refusée", EN: "activation refused"},
	}
}

// signalWords are the signals' names.
func signalWords() map[string]report.Text {
	return map[string]report.Text{
		report.ManualEntry: {FR: "codes tapés", EN: "codes typed"}, report.UnsoldCheck: {FR: "tickets non vendus consultés", EN: "unsold tickets checked"}, report.PaidOrStolen: {FR: "tickets payés ou volés présentés", EN: "paid or stolen presented"},
		report.CheckedElsewhere: {FR: "gagnants vus ici, payés ailleurs", EN: "winners checked here, paid elsewhere"}, report.BlockOverpaid: {FR: "bloc qui paie trop", EN: "block overpaid"},
		report.MiddleMissing: {FR: "lots moyens absents", EN: "middle prizes missing"}, report.OddHours: {FR: "paiements de nuit", EN: "night payments"}, report.Cancelled: {FR: "paiements annulés", EN: "cancelled payments"},
	}
}

// tierOf finds the tier in what a block's signal says; no column has it.
var tierOf = regexp.MustCompile(`^tier (\d+):`)

// explained says in a sentence what a signal's row counts.
func (s sheet) explained(of func(string) report.Value) string {
	if s.lang == money.English {
		return of("explained").Text
	}
	seen, tries, expected := of("observed").Int, of("of").Int, s.value("signals", "expected", of("expected"))
	switch of("signal").Text {
	case report.ManualEntry:
		return fmt.Sprintf("%s codes tapés sur %s ; au taux des autres, %s", count(seen), count(tries), expected)
	case report.UnsoldCheck:
		return fmt.Sprintf("%s tickets de ses propres livrets consultés avant leur mise en vente, ou après leur retour", count(seen))
	case report.PaidOrStolen:
		return fmt.Sprintf("%s tickets déjà payés ou volés présentés", count(seen))
	case report.CheckedElsewhere:
		return fmt.Sprintf("de %s gagnants vus ici, %s payés ensuite dans un autre point de vente", count(tries), count(seen))
	case report.MiddleMissing:
		return fmt.Sprintf("de %s lots payés, %s sont moyens ; selon les tableaux des lots, environ %s le seraient", count(tries), count(seen), expected)
	case report.OddHours:
		return fmt.Sprintf("%s paiements sur %s entre 0 h et 5 h ; au taux des autres, %s", count(seen), count(tries), expected)
	case report.Cancelled:
		return fmt.Sprintf("%s paiements repris ou rendus sur %s ; au taux des autres, %s", count(seen), count(tries), expected)
	case report.BlockOverpaid:
		tier := "?"
		if m := tierOf.FindStringSubmatch(of("explained").Text); m != nil {
			tier = m[1]
		}
		if seen > tries {
			return fmt.Sprintf("rang %s : %s lots payés, le tableau en a %s : arrêtez le bloc", tier, count(seen), count(tries))
		}
		return fmt.Sprintf("rang %s : %s lots payés ; les tickets sortis du stock en contiennent environ %s", tier, count(seen), expected)
	}
	return of("explained").Text
}

// leads is where a cell of a report leads: to the thing itself, or to its rows.
func (s sheet) leads(r report.Report, key string, of func(string) report.Value) string {
	v := of(key)
	if !v.Known || v.Kind != report.KindInt && v.Text == "" {
		return ""
	}
	about, _ := report.KindOf(r.Name)
	takes := func(name string) bool { return slices.Contains(about.Filters, name) }
	switch key {
	case "terminal", "accepted_terminal":
		return s.Link("/terminal/" + v.Text)
	case "block_id":
		return s.Link("/block/" + v.Text)
	case "number":
		return s.Link("/conflict/" + of("terminal").Text + "/" + v.Text)
	case "shop":
		return s.Link("/fleet", "name", v.Text)
	case "region":
		return s.Link("/fleet", "region", v.Text)
	case "conflicts":
		if terminal := of("terminal").Text; terminal != "" && v.Int > 0 {
			return s.Link("/conflicts", "terminal", terminal)
		}
	case "claims", "day":
		if key == "claims" && !takes("game") {
			return s.Link("/reports/payouts", "by", "day,game,terminal", "terminal", of("terminal").Text, "shop", cmp.Or(map[bool]string{true: of("shop").Text}[of("terminal").Text == ""]), "from", r.Filter.From.String(), "to", r.Filter.To.String())
		}
		if day := of("day").Text; key == "day" && day != "" && takes("from") {
			f := reportQuery{about: about, filter: r.Filter}
			f.filter.From, _ = report.ParseDay(day) // a day of the report's own
			f.filter.To = f.filter.From
			return f.link(s)
		}
	}
	return ""
}

func class(k report.Kind) string {
	if k == report.KindText || k == report.KindTime || k == report.KindDay {
		return "text"
	}
	return "number"
}
