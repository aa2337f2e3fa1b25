package console

import (
	"fmt"
	"net/http"
	"time"

	"grattoir/sync/report"
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
	More                                         string // with two numbers: shown, all
	Some                                         string // with one: shown
	Titles                                       map[string]string
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
			All: "terminals in all", Total: "Total", NoRows: "Nothing to show.", Problem: "This could not be shown", More: "The first %d of %d rows; JSON and CSV have all of them. Totals are over all rows.",
			Some:   "The first %d rows; JSON and CSV have all of them. Totals are over all rows.",
			Titles: map[string]string{"sync": "Synchronisation of the terminals", "payouts": "Payouts"},
			Values: map[string]string{report.StateMissing: "missing", report.StateLate: "late", report.StateNeverSeen: "never seen", report.StateSuspended: "suspended",
				report.StateInContact: "in contact", "yes": "DEMONSTRATION", "no": "no"}}
	}
	return words{Lang: "fr", Title: "Grattoir central", MadeAt: "fait à", Ago: "(il y a {} s)", Stale: "Ces chiffres ne sont plus à jour.", Reload: "Recharger",
		NoScript: "Sans son script, cette page ne peut pas dire quand elle n'est plus à jour : regardez l'heure à laquelle elle a été faite.",
		SignIn:   "Se connecter", SignOut: "Se déconnecter", Name: "Nom", Password: "Mot de passe", Denied: "Votre rôle ne le permet pas.", Menu: "Pages",
		Wrong: "Nom ou mot de passe incorrect.", Wait: "Trop de mots de passe incorrects : attendez %d s.", Ended: "Votre session est terminée, ou n'a pas commencé.",
		First: "Il n'y a encore aucun utilisateur. Sur la machine centrale, créez le premier :", Roles: "Les rôles sont :",
		Terminal: "Terminal", Game: "Jeu", From: "Du (jour)", To: "Au (jour)", Apply: "Filtrer", Clear: "Tout", Other: "English", OtherLang: "en",
		All: "terminaux en tout", Total: "Total", NoRows: "Rien à montrer.", Problem: "Ceci n'a pas pu être montré", More: "Les %d premières lignes sur %d ; JSON et CSV les ont toutes. Les totaux portent sur toutes les lignes.",
		Some:   "Les %d premières lignes ; JSON et CSV les ont toutes. Les totaux portent sur toutes les lignes.",
		Titles: map[string]string{"sync": "Synchronisation des terminaux", "payouts": "Paiements"},
		Values: map[string]string{report.StateMissing: "absent", report.StateLate: "en retard", report.StateNeverSeen: "jamais vu", report.StateSuspended: "suspendu",
			report.StateInContact: "en contact", "yes": "DÉMONSTRATION", "no": "non"}}
}

// view is the whole page.
type view struct {
	frame
	Filter   report.Filter
	Clear    string // an address
	Problem  string
	Sections []section
}

// section is one report.
type section struct {
	Name, Title string
	Problem     string
	Parts       []part
	All         int
	Heads       []cell
	Rows        [][]cell
	Totals      [][]cell
	More        string
	JSON, CSV   string // addresses
}

type part struct {
	Key, Title string
	Count      int
}

// cell is a text and the classes that say how it looks.
type cell struct{ Text, Class string }

func (c *console) newView(r *http.Request, q query, now time.Time) *view {
	v := &view{frame: c.frame(r, report.Text{FR: "Vue d'ensemble", EN: "Overview"}, now), Filter: q.filter, Clear: address("/", encode(report.Filter{}, q.lang))}
	other := money.English
	if q.lang == money.English {
		other = money.French
	}
	v.Other = address("/", encode(q.filter, other)) // without what the address has and no filter is
	return v
}

// add puts a report on the page.
func (v *view) add(r report.Report, all int, q query) {
	s := section{Name: r.Name, Title: r.Title.In(v.lang), All: all,
		JSON: address("/report/"+r.Name+".json", encode(q.of(r.Name), money.French)), CSV: address("/report/"+r.Name+".csv", encode(q.of(r.Name), money.French))}
	for _, p := range r.Parts {
		s.Parts = append(s.Parts, part{p.Key, p.Title.In(v.lang), p.Count})
	}
	for _, c := range r.Columns {
		s.Heads = append(s.Heads, cell{c.Title.In(v.lang), class(c.Kind)})
	}
	switch {
	case all < 0:
		s.More = fmt.Sprintf(v.W.Some, len(r.Rows))
	case all > len(r.Rows):
		s.More = fmt.Sprintf(v.W.More, len(r.Rows), all)
	}
	for _, row := range r.Rows {
		s.Rows = append(s.Rows, v.cells(r, row))
	}
	for _, row := range r.Totals {
		cells := v.cells(r, row)
		for i := range cells {
			if !row[i].Known && row[i].Holes == 0 {
				cells[i].Text = ""
			}
		}
		cells[0] = cell{Text: v.W.Total}
		s.Totals = append(s.Totals, cells)
	}
	v.Sections = append(v.Sections, s)
}

func (v *view) cells(r report.Report, row []report.Value) []cell {
	cells := make([]cell, len(row))
	for i, value := range row {
		cells[i] = cell{r.Words(value, v.lang, money.Screen), class(value.Kind)}
		switch key := r.Columns[i].Key; {
		case !value.Known:
			cells[i].Class += " unknown"
		case key == "state":
			cells[i] = cell{v.W.Values[value.Text], "state " + value.Text}
		case key == "demonstration":
			cells[i].Text = v.W.Values[value.Text]
		case (key == "faults" && value.Text != "") || (key == "conflicts" && value.Int > 0):
			cells[i].Class += " alert"
		}
	}
	return cells
}

func class(k report.Kind) string {
	if k == report.KindText || k == report.KindTime {
		return "text"
	}
	return "number"
}
