package console

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"

	"grattoir/sync/central"
	"grattoir/sync/report"
	"grattoir/sync/wire"
	"grattoir/validate"
)

// packPages look packs up and act on them.
func (c *console) packPages() {
	c.page("GET /packs", everybody(), c.showPacks)
	c.menu("/packs", everybody(), report.Text{FR: "Livrets", EN: "Packs"})
	for _, o := range c.packOrders() {
		c.order(o)
	}
}

// packOrders are what operations do with packs, in the order of a pack's life. All of them
// are acts that the commands do too.
func (c *console) packOrders() []order {
	whole := func(act func(*central.Central, context.Context, string, uint32, uint32) ([]wire.PackItem, error), mark central.PackAct) func(context.Context, url.Values, string) error {
		return func(ctx context.Context, v url.Values, _ string) error {
			code, first, last, err := packRange(v)
			if err != nil {
				return err
			}
			if v.Get("tickets") == "" {
				_, err := act(c.opt.Central, ctx, code, first, last)
				return err
			}
			from, to, err := ticketRange(v, first, last)
			if err == nil {
				_, err = c.opt.Central.MarkTickets(ctx, code, first, from, to, mark)
			}
			return err
		}
	}
	code, packs := field{name: "code", title: report.Text{FR: "code de jeu", EN: "game code"}}, field{name: "packs", title: report.Text{FR: "livrets", EN: "packs"}}
	to, tickets := field{name: "to", title: report.Text{FR: "au terminal", EN: "to terminal"}}, field{name: "tickets", title: report.Text{FR: "tickets", EN: "tickets"}}
	force := field{name: "force", title: report.Text{FR: "de force", EN: "by force"}}
	list := []order{
		{name: "pack-deliver", title: report.Text{FR: "Livrer des livrets", EN: "Deliver packs"}, done: report.Text{FR: "Les livrets sont livrés.", EN: "The packs are delivered."}, fields: []field{code, packs, to},
			do: func(ctx context.Context, v url.Values, _ string) error {
				code, first, last, err := packRange(v)
				if err == nil {
					_, err = c.opt.Central.Deliver(ctx, code, first, last, v.Get("to"))
				}
				return err
			}},
		{name: "pack-activate", title: report.Text{FR: "Mettre des livrets en vente", EN: "Put packs on sale"}, done: report.Text{FR: "Les livrets sont en vente.", EN: "The packs are on sale."}, fields: []field{code, packs},
			do: whole((*central.Central).Activate, central.ActivatePack)},
		{name: "pack-move", title: report.Text{FR: "Donner des livrets à un autre terminal", EN: "Move packs to another terminal"}, done: report.Text{FR: "Les livrets ont changé de terminal.", EN: "The packs were moved."}, fields: []field{code, packs, to, force},
			do: func(ctx context.Context, v url.Values, _ string) error {
				code, first, last, err := packRange(v)
				if err == nil {
					_, err = c.opt.Central.MovePacks(ctx, code, first, last, v.Get("to"), v.Get("force") != "")
				}
				return err
			}},
		{name: "pack-settle", title: report.Text{FR: "Régler des livrets", EN: "Settle packs"}, done: report.Text{FR: "Les livrets sont réglés.", EN: "The packs are settled."}, fields: []field{code, packs},
			do: func(ctx context.Context, v url.Values, operator string) error {
				code, first, last, err := packRange(v)
				if err == nil {
					_, err = c.opt.Central.Settle(ctx, code, first, last, operator)
				}
				return err
			}},
		{name: "pack-return", title: report.Text{FR: "Reprendre des livrets", EN: "Take packs back"}, done: report.Text{FR: "C'est repris.", EN: "They are taken back."}, fields: []field{code, packs, tickets},
			do: whole((*central.Central).Return, central.ReturnPack)},
		{name: "pack-stolen", title: report.Text{FR: "Déclarer volés", EN: "Report stolen"}, done: report.Text{FR: "Le vol est déclaré.", EN: "The theft is reported."}, fields: []field{code, packs, tickets},
			do: whole((*central.Central).ReportStolen, central.StealPack)},
		{name: "pack-recover", title: report.Text{FR: "Lever une déclaration de vol", EN: "Take a report of theft back"}, done: report.Text{FR: "La déclaration est levée.", EN: "The report is taken back."}, fields: []field{code, packs, tickets},
			do: whole((*central.Central).RecoverPacks, central.RecoverPack)},
	}
	for i := range list {
		receives := slices.ContainsFunc(list[i].fields, func(f field) bool { return f.name == "to" })
		list[i].look = func(ctx context.Context, s sheet, v url.Values) (touched, error) {
			return c.lookAtPacks(ctx, s, v, receives)
		}
		list[i].back = func(v url.Values) (string, []string) {
			return "/packs", []string{"code", v.Get("code"), "packs", v.Get("packs")}
		}
	}
	return list
}

// packRange reads which packs are meant.
func packRange(v url.Values) (code string, first, last uint32, err error) {
	if code = v.Get("code"); code == "" {
		return "", 0, 0, report.Wrongf("le code de jeu manque", "the game code is missing")
	}
	if first, last, err = wire.ParseRange(v.Get("packs")); err != nil {
		err = report.Wrongf("livrets %.20q : il faut un numéro, ou une suite comme 120-179", "packs %.20q: want a number, or a run like 120-179", v.Get("packs"))
	}
	return code, first, last, err
}

// ticketRange reads which tickets of the one pack are meant.
func ticketRange(v url.Values, pack, other uint32) (first, last uint16, err error) {
	a, b, err := wire.ParseRange(v.Get("tickets"))
	if err != nil || pack != other || b > math.MaxUint16 {
		return 0, 0, report.Wrongf("tickets %.20q : il faut un livret et une suite de ses tickets, comme 40-59", "tickets %.20q: want one pack and a run of its tickets, like 40-59", v.Get("tickets"))
	}
	return uint16(a), uint16(b), nil
}

// lookAtPacks shows what the range holds now, who receives it where the act has a receiver,
// and which terminals hear late of the act.
func (c *console) lookAtPacks(ctx context.Context, s sheet, v url.Values, receives bool) (touched, error) {
	var t touched
	code, first, last, err := packRange(v)
	if err == nil && v.Get("tickets") != "" {
		_, _, err = ticketRange(v, first, last)
	}
	if err != nil {
		return t, err
	}
	groups, err := report.PackGroups(ctx, c.db, code, int64(first), int64(last))
	if err != nil {
		return t, err
	}
	t.Heads = []string{s.T("jeu", "game"), s.T("bloc", "block"), s.T("livrets", "packs"), s.T("état", "state"), s.T("propriétaire", "owner"), s.T("numéros", "numbers")}
	var owners []string
	for _, g := range groups {
		state, numbers, block := string(g.State), "–", fmt.Sprint(g.Block)
		if state == "" {
			state, block = "none", "–"
		}
		if g.Last > 0 {
			numbers = fmt.Sprintf("%07d – %07d", g.First, g.Last)
		}
		t.Rows = append(t.Rows, []string{orDash(g.Game), block, count(g.Packs), s.Word(state), orDash(g.Owner), numbers})
		if g.Owner != "" && !slices.Contains(owners, g.Owner) {
			owners = append(owners, g.Owner)
		}
	}
	t.Lines = []string{fmt.Sprintf(s.T("%s livrets.", "%s packs."), count(int64(last)-int64(first)+1))}
	if receives {
		line, err := c.terminalLine(ctx, s, v.Get("to"))
		if err != nil {
			return t, err
		}
		t.Lines = append(t.Lines, line)
		if !slices.Contains(owners, v.Get("to")) {
			owners = append(owners, v.Get("to"))
		}
	}
	t.Notes, err = c.silentNote(ctx, s, owners)
	return t, err
}

type packsView struct {
	sheet
	Code, Range, State, Owner string
	States                    []string
	Rows                      []report.PackRow
	More                      bool
	Asked                     bool // a look-up was asked for
}

func (c *console) showPacks(w http.ResponseWriter, r *http.Request) {
	v := packsView{sheet: c.sheet(r, report.Text{FR: "Livrets", EN: "Packs"})}
	for _, state := range []validate.PackState{validate.PackDelivered, validate.PackActive, validate.PackSettled, validate.PackReturn, validate.PackStolenNow} {
		v.States = append(v.States, string(state))
	}
	ctx, cancel := context.WithTimeout(r.Context(), readWithin)
	defer cancel()
	values, err := onlyKeys(r.URL.RawQuery, "code", "packs", "state", "owner")
	if err == nil {
		v.Code, v.Range, v.State, v.Owner = values.Get("code"), values.Get("packs"), values.Get("state"), values.Get("owner")
		q := report.PackQuery{GameCode: v.Code, State: validate.PackState(v.State), Owner: v.Owner}
		if v.Range != "" {
			var first, last uint32
			if first, last, err = wire.ParseRange(v.Range); err != nil {
				err = report.Wrongf("livrets %.20q : il faut un numéro, ou une suite comme 120-179", "packs %.20q: want a number, or a run like 120-179", v.Range)
			}
			q.First, q.Last = int64(first), int64(last)
		}
		if v.Asked = v.Code != "" || v.Owner != ""; err == nil && v.Asked {
			v.Rows, v.More, err = report.Packs(ctx, c.db, q)
		}
	}
	if err != nil {
		v.Problem = c.told(r, err)
	}
	c.render(w, r, statusOf(err), "packs.html", v)
}
