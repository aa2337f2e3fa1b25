package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // the slips are in Paris time; so is what stands beside them

	"grattoir/device/control"
	"grattoir/device/sim"
	"grattoir/device/terminal"
	"grattoir/validate"
	"grattoir/validate/money"
	"grattoir/validate/ticket"
)

// series is the scripted day at the counter.
func (d *demo) series(ctx context.Context, c *desk, list *tickets) error {
	var first ticket.Code
	for _, cents := range []int64{2000, 3000, 5000, 10000, 20000} {
		chapter("A ticket that wins " + euros(cents))
		code, err := list.take(cents)
		if err != nil {
			return err
		}
		if first.Game == "" {
			first = code
		}
		if err := d.payWinner(ctx, c, code, cents); err != nil {
			return err
		}
	}
	if err := d.refusals(ctx, c, list, first); err != nil {
		return err
	}
	return d.powerCut(ctx, c, list)
}

// refusals are the tickets that are not paid.
func (d *demo) refusals(ctx context.Context, c *desk, list *tickets, paid ticket.Code) error {
	loser, err1 := list.take(0)
	other, err2 := list.take(2000)
	large, err3 := list.take(200000)
	fake, err4 := forged(other)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return err
	}
	list.back(200000, large)
	list.back(2000, other)
	for _, s := range []struct {
		title, code string
		reason      validate.Reason
	}{
		{"A ticket that wins nothing", loser.Digits(), validate.NotAWinner},
		{"A misread: one digit wrong", misread(other), validate.CodeMisread},
		{"A forged secret with check digits that agree", fake.Digits(), validate.NotAuthentic},
		{"A prize above the shop's limit", large.Digits(), validate.AboveShopLimit},
		{"The first ticket again", paid.Digits(), validate.AlreadyPaidHere},
	} {
		chapter(s.title)
		a, err := c.Scan(ctx, s.code)
		if err != nil {
			return err
		}
		d.show(a)
		d.expect(s.title, string(a.Verdict.Reason), string(s.reason))
		if again, err := c.Client.Pay(ctx, a.ID, true); err != nil && !errors.Is(err, terminal.ErrNeeds) {
			return err
		} else if again.Receipt != nil {
			d.wrong = append(d.wrong, s.title+": it was paid")
		}
	}
	return nil
}

// payWinner checks, pays, and compares the slip with what was paid.
func (d *demo) payWinner(ctx context.Context, c *desk, code ticket.Code, cents int64) error {
	a, err := c.Scan(ctx, code.Digits())
	if err != nil {
		return err
	}
	d.show(a)
	d.expect("verdict", string(a.Verdict.Reason), string(validate.Winner))
	if a.Verdict.AmountMinor == nil || int64(*a.Verdict.AmountMinor) != cents {
		d.wrong = append(d.wrong, fmt.Sprintf("%v: the amount is not %d cents", code, cents))
	}
	if len(a.Verdict.Needs) > 0 {
		say("  the till must hold enough: the clerk confirms it\n")
	}
	paid, err := c.Client.Pay(ctx, a.ID, true)
	if err != nil {
		return err
	}
	if paid.Receipt == nil {
		d.wrong = append(d.wrong, fmt.Sprintf("%v: not paid: %s", code, paid.Verdict.Reason))
		return nil
	}
	c.paid++
	say("  PAID, ledger number %s\n", paid.Receipt.Number)
	text, err := c.slip(ctx)
	if err != nil {
		return err
	}
	for _, want := range []string{money.Text(money.Amount(cents), "EUR", money.French, money.Receipt), paid.Receipt.Number, "DÉMONSTRATION", "REÇU DE PAIEMENT", "Émission"} {
		if !strings.Contains(text, want) {
			d.wrong = append(d.wrong, fmt.Sprintf("the slip of %s does not say %q", paid.Receipt.Number, want))
		}
	}
	if strings.Contains(text, "DUPLICATA") {
		d.wrong = append(d.wrong, "the first slip of "+paid.Receipt.Number+" is marked DUPLICATA")
	}
	return c.picture(ctx, paid.Receipt.Number, "slip-"+paid.Receipt.Number+".png")
}

// powerCut kills terminald after a payment is durable and before its slip is out, and
// switches the printer off with it. After the restart the ticket is paid, once.
func (d *demo) powerCut(ctx context.Context, c *desk, list *tickets) error {
	chapter("The power goes in the middle of a payment")
	code, err := list.take(2000)
	if err != nil {
		return err
	}
	a, err := c.Scan(ctx, code.Digits())
	if err != nil {
		return err
	}
	d.show(a)
	c.Paper.Set(func(s *sim.State) { s.Stalled = true })
	paid, err := c.Client.Pay(ctx, a.ID, true)
	if err != nil {
		return err
	}
	if paid.Receipt == nil {
		d.wrong = append(d.wrong, "the payment before the power cut was not made: "+string(paid.Verdict.Reason))
		return nil
	}
	c.paid++
	say("  PAID, ledger number %s; the slip is on its way ...\n", paid.Receipt.Number)
	say("  kill -9 terminald, printer off\n")
	if err := c.Kill(); err != nil {
		return err
	}
	c.Paper.PowerCycle()
	c.Paper.Set(func(s *sim.State) { s.Stalled = false })
	if err := c.Start(ctx); err != nil {
		return err
	}
	say("  terminald is back; nobody knows what the paper showed, so this copy is marked:\n")
	text, err := c.slip(ctx)
	if err != nil {
		return err
	}
	if !strings.Contains(text, "DUPLICATA") || !strings.Contains(text, paid.Receipt.Number) {
		d.wrong = append(d.wrong, "the slip after the power cut is not the DUPLICATA of "+paid.Receipt.Number)
	}
	if err := c.picture(ctx, paid.Receipt.Number, "slip-"+paid.Receipt.Number+"-duplicata.png"); err != nil {
		return err
	}
	say("  the same ticket once more:\n")
	if a, err = c.Scan(ctx, code.Digits()); err != nil {
		return err
	}
	d.show(a)
	d.expect("after the power cut", string(a.Verdict.Reason), string(validate.AlreadyPaidHere))
	return nil
}

func (d *demo) show(a control.Answer) {
	amount := ""
	if a.Verdict.AmountMinor != nil && *a.Verdict.AmountMinor > 0 {
		amount = "  " + money.Text(*a.Verdict.AmountMinor, a.Verdict.Currency, money.French, money.Receipt)
	}
	ticket := a.Ticket
	if ticket == "" {
		ticket = "an unreadable code"
	}
	say("  scanned %s\n  -> %s%s  [%s, %s]\n     %s\n", ticket, a.Message.Word, amount, a.Verdict.Outcome, a.Verdict.Reason,
		strings.ReplaceAll(a.Message.Clerk+" "+a.Message.Next, "\n", " "))
	if p := a.Verdict.Paid; p != nil {
		say("     paid %s, ledger number %s\n", p.At.In(paris()).Format("02/01/2006 15:04:05"), p.Number)
	}
}

// paris is the zone that the slips are written in.
func paris() *time.Location {
	zone, err := time.LoadLocation("Europe/Paris")
	if err != nil {
		return time.Local
	}
	return zone
}

func (d *demo) expect(what, got, want string) {
	if got != want {
		d.wrong = append(d.wrong, fmt.Sprintf("%s: the answer was %s, it should be %s", what, got, want))
	}
}

func euros(cents int64) string {
	return money.Text(money.Amount(cents), "EUR", money.English, money.Receipt)
}
