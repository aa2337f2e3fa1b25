package console

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"grattoir/sync/central"
	"grattoir/sync/report"
)

// stopOrders stop what must not go on and let it go on again: a terminal's payments, the
// payments of a block's tickets, the sales of a block.
func (c *console) stopOrders() {
	terminal, reason := field{name: "terminal", title: report.Text{FR: "terminal", EN: "terminal"}}, field{name: "reason", title: report.Text{FR: "motif, gardé", EN: "reason, which is kept"}}
	toTerminal := func(v url.Values) (string, []string) { return "/terminal/" + v.Get("terminal"), nil }
	c.order(order{name: "terminal-stop", title: report.Text{FR: "Arrêter les paiements de ce terminal", EN: "Stop this terminal's payments"}, done: report.Text{FR: "Ce terminal ne paie plus dès qu'il l'apprend.", EN: "This terminal pays no more once it hears."},
		fields: []field{terminal, reason}, look: c.lookAtTerminal(true), back: toTerminal,
		do: func(ctx context.Context, v url.Values, operator string) error {
			return c.opt.Central.StopPayments(ctx, v.Get("terminal"), operator+": "+v.Get("reason"))
		}})
	c.order(order{name: "terminal-resume", title: report.Text{FR: "Laisser ce terminal payer de nouveau", EN: "Let this terminal pay again"}, done: report.Text{FR: "Ce terminal paie de nouveau dès qu'il l'apprend.", EN: "This terminal pays again once it hears."},
		fields: []field{terminal}, look: c.lookAtTerminal(false), back: toTerminal,
		do: func(ctx context.Context, v url.Values, _ string) error {
			return c.opt.Central.Resume(ctx, v.Get("terminal"))
		}})
	c.blockOrders(reason)
}

// lookAtTerminal shows a terminal whose payments are to be stopped, or go on.
func (c *console) lookAtTerminal(reason bool) func(context.Context, sheet, url.Values) (touched, error) {
	return func(ctx context.Context, s sheet, v url.Values) (touched, error) {
		line, err := c.terminalLine(ctx, s, v.Get("terminal"))
		if err == nil && reason {
			err = needReason(s, v)
		}
		if err != nil {
			return touched{}, err
		}
		notes, err := c.silentNote(ctx, s, []string{v.Get("terminal")})
		return touched{Lines: []string{line}, Notes: notes}, err
	}
}

func needReason(s sheet, v url.Values) error {
	if strings.TrimSpace(v.Get("reason")) == "" {
		return report.Wrongf("dites pourquoi : le motif est gardé", "say why: the reason is kept")
	}
	return nil
}

// blockOrders stop a block's payments or sales. The form names the block by its id; what
// central is asked names the emission and number that the id has.
func (c *console) blockOrders(reason field) {
	fields := []field{{name: "block", title: report.Text{FR: "bloc", EN: "block"}}}
	back := func(v url.Values) (string, []string) { return "/block/" + v.Get("block"), nil }
	for _, o := range []struct {
		name        string
		title, done report.Text
		reason      bool
		do          func(ctx context.Context, b blockLine, reason, operator string) error
	}{
		{"block-suspend", report.Text{FR: "Suspendre les paiements de ce bloc", EN: "Suspend this block's payments"}, report.Text{FR: "Le bloc est suspendu.", EN: "The block is suspended."}, true,
			func(ctx context.Context, b blockLine, reason, operator string) error {
				_, err := c.opt.Central.SuspendGame(ctx, central.Suspension{Game: b.Game, Emission: b.Emission, Block: int(b.Number), Reason: reason, Operator: operator})
				return err
			}},
		{"block-resume", report.Text{FR: "Payer de nouveau ce bloc", EN: "Pay this block again"}, report.Text{FR: "Le bloc est payé de nouveau.", EN: "The block is paid again."}, false,
			func(ctx context.Context, b blockLine, _, operator string) error {
				return c.opt.Central.ResumeGame(ctx, central.Suspension{Game: b.Game, Emission: b.Emission, Block: int(b.Number), Operator: operator})
			}},
		{"sales-end", report.Text{FR: "Arrêter la mise en vente de ce bloc", EN: "End this block's sales"}, report.Text{FR: "La mise en vente est arrêtée.", EN: "The sales are ended."}, true,
			func(ctx context.Context, b blockLine, reason, operator string) error {
				return c.opt.Central.EndSales(ctx, central.SalesEnd{Game: b.Game, Emission: b.Emission, Block: int(b.Number), Reason: reason, Operator: operator})
			}},
		{"sales-resume", report.Text{FR: "Remettre ce bloc en vente", EN: "Resume this block's sales"}, report.Text{FR: "La mise en vente reprend.", EN: "The sales go on."}, false,
			func(ctx context.Context, b blockLine, _, operator string) error {
				return c.opt.Central.ResumeSales(ctx, central.SalesEnd{Game: b.Game, Emission: b.Emission, Block: int(b.Number), Operator: operator})
			}},
	} {
		x := order{name: o.name, title: o.title, done: o.done, fields: fields, back: back}
		if o.reason {
			x.fields = append(fields[:1:1], reason)
		}
		x.look = func(ctx context.Context, s sheet, v url.Values) (touched, error) {
			if err := needReason(s, v); o.reason && err != nil {
				return touched{}, err
			}
			return c.lookAtBlock(ctx, s, v.Get("block"))
		}
		x.do = func(ctx context.Context, v url.Values, operator string) error {
			b, err := c.blockOf(ctx, c.plain(), v.Get("block"))
			if err == nil {
				err = o.do(ctx, b, v.Get("reason"), operator)
			}
			return err
		}
		c.order(x)
	}
}

// lookAtBlock shows a block with what of it is in whose hands.
func (c *console) lookAtBlock(ctx context.Context, s sheet, id string) (touched, error) {
	b, err := c.blockOf(ctx, s, id)
	if err != nil {
		return touched{}, err
	}
	page, err := report.Fleet(ctx, c.db, report.FleetQuery{Limit: 1}, s.now)
	if err != nil {
		return touched{}, err
	}
	t := audience(s, page)
	t.Lines = append([]string{fmt.Sprintf("%s %s, %s %s", b.Game, b.Emission, s.T("bloc", "block"), strconv.FormatInt(b.Number, 10))}, t.Lines...)
	t.Notes = append(t.Notes, fmt.Sprintf(s.T("%s tickets en vente, %s lots restants.", "%s tickets on sale, %s prizes left."), count(b.OnSale), count(b.Left)))
	return t, nil
}
