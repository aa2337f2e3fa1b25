package console

import (
	"fmt"
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
	All, Total, NoRows, Problem                  string
	More                                         string // with two numbers: shown, all
	Titles                                       map[string]string
	Values                                       map[string]string // texts of the columns state and demonstration
}

func wordsIn(lang money.Language) words {
	if lang == money.English {
		return words{Lang: "en", Title: "Grattoir central", MadeAt: "made at", Ago: "({} s ago)", Stale: "These numbers are out of date.", Reload: "Load again",
			NoScript: "Without its script this page cannot say when it is out of date: mind the time it was made.",
			Terminal: "Terminal", Game: "Game", From: "From (day)", To: "To (day)", Apply: "Filter", Clear: "All", Other: "Français", OtherLang: "fr",
			All: "terminals in all", Total: "Total", NoRows: "Nothing to show.", Problem: "This could not be shown", More: "The first %d of %d rows; JSON and CSV have all of them. Totals are over all rows.",
			Titles: map[string]string{"sync": "Synchronisation of the terminals", "payouts": "Payouts"},
			Values: map[string]string{report.StateMissing: "missing", report.StateLate: "late", report.StateNeverSeen: "never seen", report.StateSuspended: "suspended",
				report.StateInContact: "in contact", "yes": "DEMONSTRATION", "no": "no"}}
	}
	return words{Lang: "fr", Title: "Grattoir central", MadeAt: "fait à", Ago: "(il y a {} s)", Stale: "Ces chiffres ne sont plus à jour.", Reload: "Recharger",
		NoScript: "Sans son script, cette page ne peut pas dire quand elle n'est plus à jour : regardez l'heure à laquelle elle a été faite.",
		Terminal: "Terminal", Game: "Jeu", From: "Du (jour)", To: "Au (jour)", Apply: "Filtrer", Clear: "Tout", Other: "English", OtherLang: "en",
		All: "terminaux en tout", Total: "Total", NoRows: "Rien à montrer.", Problem: "Ceci n'a pas pu être montré", More: "Les %d premières lignes sur %d ; JSON et CSV les ont toutes. Les totaux portent sur toutes les lignes.",
		Titles: map[string]string{"sync": "Synchronisation des terminaux", "payouts": "Paiements"},
		Values: map[string]string{report.StateMissing: "absent", report.StateLate: "en retard", report.StateNeverSeen: "jamais vu", report.StateSuspended: "suspendu",
			report.StateInContact: "en contact", "yes": "DÉMONSTRATION", "no": "non"}}
}

// view is the whole page.
type view struct {
	W            words
	Made, MadeAt string // the instant, and the time people read
	Stale        int64  // milliseconds
	Filter       report.Filter
	Other, Clear string // addresses
	Problem      string
	Sections     []section
	lang         money.Language
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

func (c *console) newView(q query, now time.Time) *view {
	other := money.English
	if q.lang == money.English {
		other = money.French
	}
	return &view{W: wordsIn(q.lang), Made: now.UTC().Format(time.RFC3339), MadeAt: now.In(c.opt.Zone).Format("15:04:05"), Stale: c.stale.Milliseconds(), Filter: q.filter, lang: q.lang,
		Other: address("/", encode(q.filter, other)), Clear: address("/", encode(report.Filter{}, q.lang))}
}

// add puts a report on the page.
func (v *view) add(r report.Report, q query) {
	s := section{Name: r.Name, Title: r.Title.In(v.lang), All: len(r.Rows),
		JSON: address("/report/"+r.Name+".json", encode(q.of(r.Name), money.French)), CSV: address("/report/"+r.Name+".csv", encode(q.of(r.Name), money.French))}
	for _, p := range r.Parts {
		s.Parts = append(s.Parts, part{p.Key, p.Title.In(v.lang), p.Count})
	}
	for _, c := range r.Columns {
		s.Heads = append(s.Heads, cell{c.Title.In(v.lang), class(c.Kind)})
	}
	rows := r.Rows
	if len(rows) > pageRows {
		rows = rows[:pageRows]
		s.More = fmt.Sprintf(v.W.More, pageRows, len(r.Rows))
	}
	for _, row := range rows {
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
