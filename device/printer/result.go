package printer

import (
	"context"

	"grattoir/device/terminal"
	"grattoir/validate"
	"grattoir/validate/money"
)

// Result lays out the slip of a check: for the payment centre where that must see the
// ticket, else the answer in the player's own words. It says in large letters that it is
// no payment, so that nobody takes it for a receipt.
func (st Stationery) Result(r terminal.Result) Slip {
	say, more := wordsFor(st.Language), resultWordsFor(st.Language)
	text := r.Verdict.Reason.Text(st.Language)
	centre := terminal.View{Stage: terminal.Verdict, Code: r.Code, Verdict: r.Verdict}.ForCentre()
	s := st.head()
	if r.Verdict.Scaled || r.Training {
		s.Banner(say.demonstration)
		s.Line(say.worthless, Centre)
		s.Blank()
	}
	title, player := more.check, text.Player
	if centre {
		title, player = more.centre, validate.AboveShopLimit.Text(st.Language).Player
		if r.Verdict.Outcome != validate.Pay {
			player = text.Player
		}
	}
	s.Line(title, Bold, Centre)
	s.Line(more.unpaid, Bold, Centre)
	s.Rule()
	if r.Game != "" {
		s.Pair(say.game, r.Game)
	}
	s.Pair(say.ticket, r.Code.Game+"-"+r.Code.PackText()+"-"+r.Code.NumberText())
	s.Rule()
	s.Line(text.Word+" ("+r.Verdict.Reason.Code()+")", Bold, Centre)
	if a := r.Verdict.AmountMinor; a != nil && *a > 0 && (centre || r.Verdict.Outcome == validate.Pay) {
		s.Line(money.Text(*a, r.Verdict.Currency, st.Language, money.Receipt), Bold, Centre)
		s.Line(money.Words(*a, r.Verdict.Currency, st.Language), Centre)
	}
	s.Line(player, Centre)
	s.Rule()
	s.Pair(say.terminal, r.Terminal)
	s.Pair(say.date, r.At.In(st.Zone).Format(say.dateLayout))
	if r.Trusted.IsZero() {
		s.Line(say.untrusted)
	}
	s.Blank()
	if centre {
		s.Line(more.take, Centre)
	}
	s.Line(more.keep, Centre)
	return s
}

// PrintResult prints the slip of a check.
func (d Desk) PrintResult(ctx context.Context, r terminal.Result) (validate.PrintState, error) {
	return d.print(ctx, d.Stationery.Result(r), false, func(*terminal.Fault) {})
}

type resultWords struct{ centre, check, unpaid, take, keep string }

func resultWordsFor(l money.Language) resultWords {
	if l == money.English {
		return resultWords{"FOR THE PAYMENT CENTRE", "TICKET CHECK", "THIS IS NO PAYMENT", "Take this slip there, with the ticket.", "Keep your ticket."}
	}
	return resultWords{"BON POUR LE CENTRE DE PAIEMENT", "CONTRÔLE DU TICKET", "CECI N'EST PAS UN PAIEMENT", "Présentez ce bon avec le ticket.", "Gardez votre ticket."}
}
