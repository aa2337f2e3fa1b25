package console

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"grattoir/sync/central"
	"grattoir/sync/report"
	"grattoir/sync/wire"
)

// messagePages say something to the people at counters.
func (c *console) messagePages() {
	c.page("GET /messages", everybody(), c.showMessages)
	c.menu("/messages", everybody(), report.Text{FR: "Messages", EN: "Messages"})
	back := func(url.Values) (string, []string) { return "/messages", nil }
	c.order(order{name: "message-send", title: report.Text{FR: "Envoyer le message", EN: "Send the message"}, done: report.Text{FR: "Le message est parti.", EN: "The message is sent."},
		fields: []field{{name: "to", title: report.Text{FR: "à", EN: "to"}}, {name: "terminal", title: report.Text{FR: "terminal", EN: "terminal"}}, {name: "region", title: report.Text{FR: "région", EN: "region"}},
			{name: "fr", title: report.Text{FR: "en français", EN: "in French"}}, {name: "en", title: report.Text{FR: "en anglais", EN: "in English"}},
			{name: "mandatory", title: report.Text{FR: "à lire avant de payer", EN: "to be read before paying"}}, {name: "from", title: report.Text{FR: "du", EN: "from"}}, {name: "until", title: report.Text{FR: "au", EN: "until"}}},
		look: c.lookAtAudience,
		do: func(ctx context.Context, v url.Values, operator string) error {
			_, err := c.opt.Central.Send(ctx, messageOf(v, operator))
			return err
		}, back: back})
	c.order(order{name: "message-withdraw", title: report.Text{FR: "Retirer le message", EN: "Withdraw the message"}, done: report.Text{FR: "Le message est retiré.", EN: "The message is withdrawn."},
		fields: []field{{name: "number", title: report.Text{FR: "numéro", EN: "number"}}}, look: c.lookAtMessage,
		do: func(ctx context.Context, v url.Values, _ string) error {
			n, err := messageNumber(v)
			if err == nil {
				err = c.opt.Central.Withdraw(ctx, n)
			}
			return err
		}, back: back})
}

func messageNumber(v url.Values) (int64, error) {
	n, err := strconv.ParseInt(v.Get("number"), 10, 64)
	if err != nil || n < 1 {
		return 0, report.Wrongf("%.20q n'est pas le numéro d'un message", "%.20q is no message's number", v.Get("number"))
	}
	return n, nil
}

// messageOf reads a message from its form. To says whether it is for one terminal, for a
// region or for all, so that a name left empty is never a message to everybody.
func messageOf(v url.Values, operator string) central.Message {
	m := central.Message{Mandatory: v.Get("mandatory") != "", From: v.Get("from"), Until: v.Get("until"), French: strings.TrimSpace(v.Get("fr")), English: strings.TrimSpace(v.Get("en")), Operator: operator}
	switch v.Get("to") {
	case "terminal":
		m.Terminal = v.Get("terminal")
	case "region":
		m.Region = v.Get("region")
	}
	return m
}

// lookAtAudience says how many terminals a message reaches.
func (c *console) lookAtAudience(ctx context.Context, s sheet, v url.Values) (touched, error) {
	m := messageOf(v, whoName)
	for _, text := range []string{m.French, m.English} {
		if text == "" || len(text) > wire.MaxWords {
			return touched{}, report.Wrongf("il faut 1 à %d octets en français et en anglais", "1 to %d bytes in French and in English are needed", wire.MaxWords)
		}
	}
	switch to := v.Get("to"); {
	case to == "terminal":
		line, err := c.terminalLine(ctx, s, m.Terminal)
		if err != nil {
			return touched{}, err
		}
		notes, err := c.silentNote(ctx, s, []string{m.Terminal})
		return touched{Lines: []string{line}, Notes: notes}, err
	case to == "region" && m.Region == "" || to != "region" && to != "all":
		return touched{}, report.Wrongf("à un terminal, à une région ou à tous ?", "to one terminal, to a region, or to all?")
	}
	page, err := report.Fleet(ctx, c.db, report.FleetQuery{Region: m.Region, Limit: 1}, s.now)
	if err != nil {
		return touched{}, err
	}
	if page.All == 0 {
		return touched{}, report.Wrongf("aucun terminal n'est visé", "no terminal is meant")
	}
	t := audience(s, page)
	if m.Mandatory {
		t.Lines = append(t.Lines, s.T("Aucun de ces terminaux ne paie tant que personne n'y a lu le message.", "None of these terminals pays until somebody there has read the message."))
	}
	return t, nil
}

// whoName stands for an operator where a message is only looked at.
const whoName = "look"

func (c *console) lookAtMessage(ctx context.Context, s sheet, v url.Values) (touched, error) {
	n, err := messageNumber(v)
	if err != nil {
		return touched{}, err
	}
	list, err := c.opt.Central.Messages(ctx, false)
	if err != nil {
		return touched{}, err
	}
	for _, m := range list {
		if m.Number == n {
			return touched{Lines: []string{m.French, m.English}, Notes: []string{fmt.Sprintf(s.T("%d terminaux l'ont lu ; il disparaît de tous les comptoirs.", "%d terminals have read it; it goes from every counter."), m.Readers)}}, nil
		}
	}
	return touched{}, fmt.Errorf("message %d: %w", n, central.ErrNotFound)
}

type messagesView struct {
	sheet
	All     bool
	List    []central.Message
	Regions []string
	Longest int
	Today   string
}

func (c *console) showMessages(w http.ResponseWriter, r *http.Request) {
	v := messagesView{sheet: c.sheet(r, report.Text{FR: "Messages", EN: "Messages"}), Longest: wire.MaxWords}
	v.Today = v.now.In(v.zone).Format(time.DateOnly)
	ctx, cancel := context.WithTimeout(r.Context(), readWithin)
	defer cancel()
	values, err := onlyKeys(r.URL.RawQuery, "all")
	if err == nil {
		v.All = values.Get("all") != ""
		v.List, err = c.opt.Central.Messages(ctx, v.All)
	}
	if err == nil {
		var page report.FleetPage
		page, err = report.Fleet(ctx, c.db, report.FleetQuery{Limit: 1}, v.now)
		v.Regions = page.Regions
	}
	if err != nil {
		v.Problem = c.told(r, err)
	}
	c.render(w, r, statusOf(err), "messages.html", v)
}

// Day writes a stored day.
func (s sheet) Day(text string) string { return dayWords(text, "–") }
