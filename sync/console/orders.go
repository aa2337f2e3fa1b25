package console

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"grattoir/sync/central"
	"grattoir/sync/report"
	"grattoir/validate/money"
)

// order is an act of operations in two steps: a look at whom it touches, which changes
// nothing and has its fields in the address, and the act itself, a form of ours. What the
// reader has seen travels in the form: where it has changed since, the look is shown again
// and nothing is done.
type order struct {
	name   string // in addresses and in the audit
	title  report.Text
	done   report.Text
	fields []field
	look   func(ctx context.Context, s sheet, v url.Values) (touched, error)
	do     func(ctx context.Context, v url.Values, operator string) error
	back   func(v url.Values) (path string, pairs []string) // where the reader goes then
}

// field is one thing that an order is told, by the name in its form.
type field struct {
	name  string
	title report.Text
	long  bool // shown as a block of text
}

// touched is whom and what an order touches.
type touched struct {
	Lines []string   // sentences
	Heads []string   // of Rows
	Rows  [][]string // what it touches, as it stands now
	Notes []string   // what the reader should mind that changes by the minute
}

// shownRows bounds what a page shows of Rows; the mark is of all of them.
const shownRows = 100

// Shown are the rows for the page.
func (t touched) Shown() [][]string { return t.Rows[:min(len(t.Rows), shownRows)] }

// More is how many rows the page leaves out.
func (t touched) More() int { return len(t.Rows) - len(t.Shown()) }

// seen is a mark of what does not change by itself.
func (t touched) seen() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q", t.Lines, t.Rows))
	return hex.EncodeToString(sum[:16])
}

// takes refuses what an order is told and does not heed: tickets of a delivery, say, which
// would deliver the whole pack.
func (o order) takes(v url.Values) error {
	for name := range v {
		known := slices.ContainsFunc(o.fields, func(f field) bool { return f.name == name })
		if v.Get(name) != "" && !known && !slices.Contains([]string{"csrf", "seen", "lang"}, name) {
			return report.Wrongf("%s ne tient pas compte de %.40q : laissez-le vide", "%s does not heed %.40q: leave it empty", o.name, name)
		}
	}
	return nil
}

// check looks at an order once its fields are known.
func (o order) check(ctx context.Context, s sheet, v url.Values) (touched, error) {
	if err := o.takes(v); err != nil {
		return touched{}, err
	}
	return o.look(ctx, s, v)
}

// errChanged means that an order would touch other things than the reader saw.
var errChanged = errors.New("what this touches has changed since you looked: look again")

// order registers both steps of an order.
func (c *console) order(o order) {
	c.orders[o.name] = o
	c.page("GET /confirm/"+o.name, acting(), func(w http.ResponseWriter, r *http.Request) {
		c.confirm(w, r, o, r.URL.Query(), http.StatusOK, nil)
	})
	c.act("POST /do/"+o.name, acting(), o.name, func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), readWithin)
		defer cancel()
		t, err := o.check(ctx, c.sheet(r, o.title), r.PostForm)
		if err == nil && t.seen() != r.PostForm.Get("seen") {
			err = fmt.Errorf("%w: %w", central.ErrRefused, errChanged)
		}
		if err == nil {
			err = o.do(ctx, r.PostForm, whoOf(r.Context()).Name)
		}
		if err != nil {
			c.confirm(w, r, o, r.PostForm, statusOf(err), err)
			return
		}
		path, pairs := o.back(r.PostForm)
		http.Redirect(w, r, c.sheet(r, o.title).Link(path, append(pairs, "done", o.name)...), http.StatusSeeOther)
	})
}

// shownField is a field on the page that asks.
type shownField struct {
	Name, Title, Value string
	Long               bool
}

// confirmView is the page that asks.
type confirmView struct {
	sheet
	Name, Seen, Back string
	Fields           []shownField
	Touched          touched
	Ready            bool // it may be done
}

// confirm shows whom an order touches. Failed is why it was not done, nil at the first look.
func (c *console) confirm(w http.ResponseWriter, r *http.Request, o order, v url.Values, code int, failed error) {
	s := c.sheet(r, o.title)
	s.Stale = 0
	view := confirmView{sheet: s, Name: o.name}
	view.Other = address("/confirm/"+o.name, otherLanguage(s.lang, v).Encode()) // after the form too
	path, pairs := o.back(v)
	view.Back = s.Link(path, pairs...)
	for _, f := range o.fields {
		if text := v.Get(f.name); text != "" {
			view.Fields = append(view.Fields, shownField{f.name, f.title.In(s.lang), text, f.long})
		}
	}
	ctx, cancel := context.WithTimeout(r.Context(), readWithin)
	defer cancel()
	t, err := o.check(ctx, s, v)
	view.Touched, view.Seen, view.Ready = t, t.seen(), err == nil
	if failed == nil && err != nil {
		failed, code = err, statusOf(err)
	}
	if failed != nil {
		view.Problem = c.told(r, failed)
	}
	c.render(w, r, code, "confirm.html", view)
}

// otherLanguage is a form in the other language, without what belongs to one answer.
func otherLanguage(lang money.Language, v url.Values) url.Values {
	other := maps.Clone(v)
	for _, name := range []string{"csrf", "seen", "done", "lang"} {
		other.Del(name)
	}
	if lang != money.English {
		other.Set("lang", string(money.English))
	}
	return other
}

// silentNote says which of the terminals named will hear late of what is done.
func (c *console) silentNote(ctx context.Context, s sheet, names []string) ([]string, error) {
	var late []string
	if len(names) > shownRows {
		return []string{fmt.Sprintf(s.T("%s terminaux l'apprennent par leur fil.", "%s terminals hear of it by their feeds."), count(int64(len(names))))}, nil
	}
	for _, name := range names {
		t, err := c.opt.Central.Terminal(ctx, name)
		if err != nil {
			return nil, err
		}
		if t.Contact.IsZero() || s.now.Sub(t.Contact) >= report.ContactWithin {
			when := s.T("jamais vu", "never seen")
			if !t.Contact.IsZero() {
				when = s.T("sans contact depuis ", "not heard for ") + s.Ago(t.Contact)
			}
			late = append(late, name+" ("+when+")")
		}
	}
	if len(late) == 0 {
		return nil, nil
	}
	return []string{s.T("L'apprendront seulement à leur prochain contact : ", "Will hear of it only at their next contact: ") + strings.Join(late, ", ")}, nil
}

// terminalLine says which terminal is meant, so that a wrong name is seen before it acts.
func (c *console) terminalLine(ctx context.Context, s sheet, name string) (string, error) {
	if name == "" {
		return "", report.Wrongf("nommez le terminal", "name the terminal")
	}
	t, err := c.opt.Central.Terminal(ctx, name)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s %s, %s %s, %s %s", s.T("Terminal", "Terminal"), t.Name, s.T("point de vente", "shop"), orDash(t.Shop), s.T("région", "region"), orDash(t.Region)), nil
}

func orDash(text string) string {
	if text == "" {
		return "–"
	}
	return text
}

// audience says how many terminals something for many reaches, and in which states they are.
func audience(s sheet, p report.FleetPage) (t touched) {
	late := 0 // states change by the minute: they are notes, and the sum is what was seen
	for _, part := range p.Parts {
		t.Notes = append(t.Notes, part.Title.In(s.lang)+s.T(" : ", ": ")+s.N(part.Count))
		if part.Key != report.StateInContact {
			late += part.Count
		}
	}
	t.Lines = []string{s.N(p.All) + s.T(" terminaux sont visés.", " terminals are meant.")}
	if late > 0 {
		t.Notes = append(t.Notes, s.N(late)+s.T(" d'entre eux ne l'apprendront qu'à leur prochain contact, ou jamais.", " of them will hear of it only at their next contact, or never."))
	}
	return t
}

// dayWords writes a stored day, or what stands for none.
func dayWords(text, none string) string {
	t, err := time.Parse(time.DateOnly, text)
	if err != nil {
		return none
	}
	return t.Format("02/01/2006")
}
