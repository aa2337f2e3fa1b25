package central

import (
	"testing"
	"time"

	"grattoir/sync/ledger"
	"grattoir/sync/wire"
	"grattoir/validate/money"
)

// risks pays a ticket of another terminal's pack at a booked risk.
func (d *device) risks(t testing.TB, c ledger.ClaimBody) {
	t.Helper()
	d.record(t, ledger.KindBookedRisk, ledger.BookedRiskBody{Claim: c.Claim, Block: c.Block, Pack: c.Pack, Ticket: c.Ticket, AmountMinor: money.Amount(c.AmountMinor), Currency: c.Currency,
		Party: "lottery", LimitMinor: 2000, Policy: "p1", Why: "owner-silent"})
	d.record(t, ledger.KindClaim, c)
}

// small are winners of 20 EUR, and one of 200.
func small(w *world) (list []lot, large lot) {
	for _, l := range w.winners(10, 19) {
		if l.tier == 2 {
			list = append(list, l)
		} else {
			large = l
		}
	}
	return list, large
}

// TestBookedRiskIsCreditedToWhoeverCameFirst, up to central's own limit, and what it cost is
// summed up for the party that bears it.
func TestBookedRiskIsCreditedToWhoeverCameFirst(t *testing.T) {
	onEachStore(t, testBookedRiskIsCreditedToWhoeverCameFirst)
}

func testBookedRiskIsCreditedToWhoeverCameFirst(t *testing.T, w *world) {
	w.opt.BookedRiskMinor = 2000
	a, b, _ := two(t, w)
	won, large := small(w)
	w.patience = time.Millisecond
	body := b.wanted(t, won[0], 0xb1, 0)
	wantState(t, b.ask(t, request(body)), wire.ClaimPending, wire.WhyOwnerSilent)
	b.risks(t, body) // entries 1 and 2
	b.risks(t, b.wanted(t, won[1], 0xb2, 0))
	b.risks(t, b.wanted(t, large, 0xb3, 0))
	b.record(t, ledger.KindClaim, b.wanted(t, won[2], 0xb4, 0)) // booked by nobody
	a.pay(t, won[1])
	a.send(t, 1, 1)
	_, up := b.send(t, 1, 7)
	if len(up.Exceptions) != 3 || up.Exceptions[0] != (wire.Exception{Seq: 4, Kind: wire.DoubleClaim, Text: up.Exceptions[0].Text}) || up.Exceptions[1].Seq != 6 || up.Exceptions[1].Kind != wire.NoRight ||
		up.Exceptions[2].Seq != 7 || up.Exceptions[2].Kind != wire.NoRight {
		t.Fatalf("%+v", up.Exceptions)
	}
	if n := w.count(t, "SELECT count(*) FROM claims WHERE terminal = 'T-B'"); n != 1 {
		t.Fatalf("%d credited", n)
	}
	a.pay(t, won[0]) // the owner had paid it too
	_, up = a.send(t, 2, 2)
	wantException(t, up, 2, wire.DoubleClaim)
	list, err := w.BookedRisks(t.Context())
	if err != nil || len(list) != 1 || list[0] != (Risk{"lottery", "EUR", 3, 24000, 2, 4000}) {
		t.Fatalf("%+v %v", list, err)
	}
	c := w.enrolled(t, "T-C") // whoever is allowed by central's word comes before any risk
	own := a.wanted(t, won[3], 0xa1, 0)
	wantState(t, a.ask(t, request(own)), wire.ClaimApproved, "")
	c.risks(t, c.wanted(t, won[3], 0xc1, 0))
	_, up = c.send(t, 1, 2)
	wantException(t, up, 2, wire.NoRight)
}

// TestCentralThatBooksNoRiskCreditsNone: what terminals write does not decide it.
func TestCentralThatBooksNoRiskCreditsNone(t *testing.T) {
	w := newWorld(t)
	_, b, _ := two(t, w)
	won, _ := small(w)
	b.risks(t, b.wanted(t, won[0], 0xb1, 0))
	_, up := b.send(t, 1, 2)
	wantException(t, up, 2, wire.NoRight)
}
