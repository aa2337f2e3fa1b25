package console

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"grattoir/sync/central"
	"grattoir/sync/report"
	"grattoir/validate"
	"grattoir/validate/money"
)

// sheet is what the pages beyond the first share: the frame around them, and how their
// templates write words, numbers and addresses in the reader's language.
type sheet struct {
	frame
	May     bool   // the reader may act
	Problem string // why something could not be shown, "" for nothing
	Done    string // what the reader has just done, "" for nothing
	now     time.Time
	zone    *time.Location
}

func (c *console) sheet(r *http.Request, title report.Text) sheet {
	now := c.opt.Now()
	s := sheet{frame: c.frame(r, title, now), May: whoOf(r.Context()).may(acting()), now: now, zone: c.opt.Zone}
	if o, ok := c.orders[r.URL.Query().Get("done")]; ok {
		s.Done = o.done.In(s.lang)
	}
	return s
}

// Language is the reader's, for texts that have both.
func (s sheet) Language() money.Language { return s.lang }

// T chooses between the languages of the house.
func (s sheet) T(fr, en string) string { return report.Text{FR: fr, EN: en}.In(s.lang) }

// Link is an address with its query in the reader's language: names and values by turns;
// empty values are left out.
func (s sheet) Link(path string, pairs ...string) string {
	values := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			values.Set(pairs[i], pairs[i+1])
		}
	}
	if s.lang == money.English {
		values.Set("lang", string(money.English))
	}
	return address(path, values.Encode())
}

// N writes a number.
func (s sheet) N(n any) string {
	switch n := n.(type) {
	case int:
		return count(int64(n))
	case int64:
		return count(n)
	case uint32:
		return count(int64(n))
	}
	return fmt.Sprint(n)
}

// Money writes minor units.
func (s sheet) Money(minor int64, currency string) string {
	return money.Text(money.Amount(minor), currency, s.lang, money.Screen)
}

// When writes an instant as people read it, a dash for none.
func (s sheet) When(t time.Time) string {
	if t.IsZero() {
		return "–"
	}
	return t.In(s.zone).Format("02/01/2006 15:04")
}

// Ago writes how long ago an instant was, a dash for none.
func (s sheet) Ago(t time.Time) string {
	if t.IsZero() {
		return "–"
	}
	return s.Lasted(s.now.Sub(t))
}

// Lasted writes a duration by its two largest units.
func (s sheet) Lasted(d time.Duration) string {
	sign, day := "", s.T("j", "d")
	if d < 0 {
		sign, d = "-", -d
	}
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%s%d s", sign, d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%s%d min", sign, d/time.Minute)
	case d < 24*time.Hour:
		return fmt.Sprintf("%s%d h %02d", sign, d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%s%d %s %02d h", sign, d/(24*time.Hour), day, d%(24*time.Hour)/time.Hour)
}

// Word is a word for a terminal's, a pack's or a conflict's state.
func (s sheet) Word(key string) string {
	if word, ok := s.W.Values[key]; ok {
		return word
	}
	if word, ok := stateWords()[key]; ok {
		return word.In(s.lang)
	}
	return key
}

func stateWords() map[string]report.Text {
	return map[string]report.Text{
		"printed": {FR: "imprimé", EN: "printed"}, "delivered": {FR: "livré", EN: "delivered"}, "active": {FR: "en vente", EN: "on sale"}, "settled": {FR: "réglé", EN: "settled"},
		"returned": {FR: "revenu", EN: "returned"}, "stolen": {FR: "volé", EN: "stolen"}, "none": {FR: "d'aucun bloc publié", EN: "of no published block"},
		"deliver": {FR: "livrer", EN: "deliver"}, "activate": {FR: "mettre en vente", EN: "activate"}, "settle": {FR: "régler", EN: "settle"}, "move": {FR: "donner à un autre", EN: "move"}, "return": {FR: "reprendre", EN: "return"},
		"recover": {FR: "lever la déclaration de vol", EN: "recover"}, "inquire": {FR: "ouvrir l'examen", EN: "inquire"}, "reopen": {FR: "rouvrir", EN: "reopen"}, "enrolled": {FR: "inscrit", EN: "enrolled"},
		"reversal-requested": {FR: "demandée", EN: "asked for"}, "reversal-accepted": {FR: "acceptée", EN: "accepted"}, "reversal-refused": {FR: "refusée", EN: "refused"},
		"open": {FR: "ouvert", EN: "open"}, "inquiry": {FR: "en examen", EN: "under inquiry"}, "conflict-settled": {FR: "réglé", EN: "settled"},
		"shop": {FR: "le point de vente", EN: "the shop"}, "lottery": {FR: "la loterie", EN: "the lottery"}, "printer": {FR: "l'imprimeur", EN: "the printer"}, "nobody": {FR: "personne", EN: "nobody"},
	}
}

// onlyKeys reads an address of which only these keys are known, each once.
func onlyKeys(raw string, known ...string) (url.Values, error) {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return nil, report.Wrongf("l'adresse : %v", "the address: %v", err)
	}
	if len(values["by"]) > 1 {
		return nil, report.Wrongf("%.40q est donné %d fois", "%.40q is given %d times", "by", len(values["by"]))
	}
	return values, check(values, known)
}

// statusOf is the HTTP status of what central or a report answered.
func statusOf(err error) int {
	switch {
	case errors.Is(err, central.ErrNotFound):
		return http.StatusNotFound
	case errors.Is(err, central.ErrRefused):
		return http.StatusConflict
	}
	return status(err)
}

// Sum writes what a closing sums up.
func (s sheet) Sum(x validate.Sum, currency string) string { return s.Money(int64(x.Money), currency) }

// ConflictState is a conflict's state in words.
func (s sheet) ConflictState(x central.Conflict) string {
	if x.State == central.ConflictSettled {
		return s.Word("conflict-settled")
	}
	return s.Word(string(x.State))
}

// TicketOf names a conflict's ticket, a dash for none.
func (s sheet) TicketOf(x central.Conflict) string {
	switch {
	case x.Pack == nil:
		return "–"
	case x.Ticket == nil:
		return fmt.Sprintf("%07d", *x.Pack)
	}
	return fmt.Sprintf("%07d-%03d", *x.Pack, *x.Ticket)
}

// AmountOf is what a conflict claims, a dash for nothing.
func (s sheet) AmountOf(x central.Conflict) string {
	if x.Minor == nil {
		return "–"
	}
	return s.Money(*x.Minor, x.Currency)
}

// Int is an amount in minor units.
func (s sheet) Int(a money.Amount) int64 { return int64(a) }
