package console

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"grattoir/sync/central"
	"grattoir/sync/report"
	"grattoir/validate"
)

// reversalPages are the payments that terminals ask to take back. Central decides none of
// them by itself: each waits for a person.
func (c *console) reversalPages() {
	c.page("GET /reversals", everybody(), c.showReversals)
	c.menu("/reversals", everybody(), report.Text{FR: "Reprises", EN: "Reversals"})
	for _, o := range []struct {
		name        string
		accepted    bool
		title, done report.Text
	}{
		{"reversal-accept", true, report.Text{FR: "Reprendre le paiement", EN: "Take the payment back"}, report.Text{FR: "Le paiement est repris ; le ticket ne se paie de nouveau qu'en ligne.", EN: "The payment is taken back; the ticket is paid again online only."}},
		{"reversal-refuse", false, report.Text{FR: "Laisser le paiement", EN: "Let the payment stand"}, report.Text{FR: "La reprise est refusée, le paiement reste.", EN: "The reversal is refused, the payment stands."}},
	} {
		c.order(order{name: o.name, title: o.title, done: o.done,
			fields: []field{{name: "terminal", title: report.Text{FR: "terminal", EN: "terminal"}}, {name: "number", title: report.Text{FR: "paiement", EN: "payment"}}, {name: "reason", title: report.Text{FR: "motif, que le comptoir lit", EN: "reason, which the counter reads"}}},
			look:   c.lookAtReversal(o.accepted),
			do: func(ctx context.Context, v url.Values, _ string) error {
				n, err := entryNumber(v.Get("number"))
				if err == nil {
					_, err = c.opt.Central.Decide(ctx, v.Get("terminal"), n, o.accepted, strings.TrimSpace(v.Get("reason")))
				}
				return err
			},
			back: func(url.Values) (string, []string) { return "/reversals", nil }})
	}
}

// lookAtReversal shows what is asked, by whom, and whose payment it is.
func (c *console) lookAtReversal(accepted bool) func(context.Context, sheet, url.Values) (touched, error) {
	return func(ctx context.Context, s sheet, v url.Values) (touched, error) {
		n, err := entryNumber(v.Get("number"))
		if err != nil {
			return touched{}, err
		}
		if err := needReason(s, v); !accepted && err != nil {
			return touched{}, report.Wrongf("dites pourquoi : le comptoir le lit", "say why: the counter reads it")
		}
		list, err := c.opt.Central.Reversals(ctx, true)
		if err != nil {
			return touched{}, err
		}
		i := slices.IndexFunc(list, func(r central.Reversal) bool { return r.Terminal == v.Get("terminal") && r.Number == n.String() })
		if i < 0 {
			return touched{}, &central.Refusal{Because: central.BecauseReversalUnknown, Err: central.ErrNotFound}
		}
		r := list[i]
		t := touched{Heads: []string{"terminal", s.T("paiement", "payment"), "ticket", s.T("montant", "amount"), s.T("motif", "reason"), s.T("caissier", "clerk"), s.T("responsable", "manager"), s.T("état", "state")},
			Rows: [][]string{{r.Terminal, r.Number, s.TicketOfReversal(r), s.Money(r.Minor, r.Currency), s.ReasonOfReversal(r), orDash(r.Operator), orDash(r.Manager), s.Word("reversal-" + string(r.State))}}}
		t.Lines = []string{s.T("Le paiement reste, et le comptoir apprend pourquoi.", "The payment stands, and the counter hears why.")}
		if accepted {
			t.Lines = []string{s.T("Le ticket peut être payé de nouveau, en ligne seulement ; le point de vente garde l'argent du paiement repris.", "The ticket may be paid again, online only; the shop keeps the money of the payment that is taken back.")}
		}
		if r.State != validate.ReversalRequested {
			t.Notes = append(t.Notes, s.T("Elle est déjà décidée : rien ne sera fait.", "It is decided already: nothing will be done."))
		}
		late, err := c.silentNote(ctx, s, []string{r.Terminal})
		t.Notes = append(t.Notes, late...)
		return t, err
	}
}

// TicketOfReversal names the ticket of a request.
func (s sheet) TicketOfReversal(r central.Reversal) string {
	return fmt.Sprintf("%07d-%03d", r.Pack, r.Ticket)
}

// ReasonOfReversal is why the counter asks, with the clerk's own words behind it.
func (s sheet) ReasonOfReversal(r central.Reversal) string {
	text := string(r.Reason)
	if word, ok := reversalReasons()[r.Reason]; ok {
		text = word.In(s.lang)
	}
	if r.Text != "" {
		text += s.T(" : ", ": ") + r.Text
	}
	return text
}

type reversalsView struct {
	sheet
	All  bool
	List []central.Reversal
	More int
}

func (c *console) showReversals(w http.ResponseWriter, r *http.Request) {
	v := reversalsView{sheet: c.sheet(r, report.Text{FR: "Reprises", EN: "Reversals"})}
	ctx, cancel := context.WithTimeout(r.Context(), readWithin)
	defer cancel()
	values, err := onlyKeys(r.URL.RawQuery, "all")
	if err == nil {
		v.All = values.Get("all") != ""
		v.List, err = c.opt.Central.Reversals(ctx, v.All)
	}
	if err != nil {
		v.Problem = c.told(r, err)
	}
	if v.All { // the newest first; of those that wait the oldest
		slices.Reverse(v.List)
	}
	if v.More = max(0, len(v.List)-pageRows); v.More > 0 {
		v.List = v.List[:pageRows]
	}
	c.render(w, r, statusOf(err), "reversals.html", v)
}

// Waits tells whether a request waits for a decision.
func (v reversalsView) Waits(r central.Reversal) bool { return r.State == validate.ReversalRequested }

// StateOf is a request's state in words.
func (v reversalsView) StateOf(r central.Reversal) string {
	return v.Word("reversal-" + string(r.State))
}

// reversalReasons are why counters ask.
func reversalReasons() map[validate.ReversalReason]report.Text {
	return map[validate.ReversalReason]report.Text{
		validate.PaidByMistake: {FR: "payé par erreur", EN: "paid by mistake"}, validate.WrongTicket: {FR: "mauvais ticket", EN: "wrong ticket"},
		validate.PlayerLeft: {FR: "le joueur est parti sans l'argent", EN: "the player left without the money"}, validate.OtherReason: {FR: "autre", EN: "other"},
	}
}
