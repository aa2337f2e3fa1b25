package central

import (
	"strings"
	"testing"

	"grattoir/sync/ledger"
	"grattoir/sync/wire"
	"grattoir/validate"
)

// TestCentralHearsOfStolenTicketsThatWerePresented, once of each, as no exception.
func TestCentralHearsOfStolenTicketsThatWerePresented(t *testing.T) {
	onEachStore(t, func(t *testing.T, w *world) {
		d := w.enrolled(t, "T-1")
		w.give(t, "T-1", 10, 19)
		body := ledger.AttemptBody{Block: w.block.ID, Pack: 12, Ticket: 3, Reason: validate.PackStolen, Operator: "marie", Entered: validate.Scanned}
		d.record(t, ledger.KindAttempt, body)
		d.record(t, ledger.KindAttempt, body) // from a card that was put back
		body.Reason, body.Failed = validate.TooManyAttempts, 5
		d.record(t, ledger.KindAttempt, body)
		d.record(t, ledger.KindMisprint, ledger.MisprintBody{Block: ledger.NamedBlock{Block: w.block.ID, Game: "Bingo"}, Pack: 12, Ticket: 4, Remedy: validate.Refunded, AmountMinor: 1000, Currency: "EUR", Operator: "marie", Manager: "max", Entered: validate.Scanned})
		if _, answer := d.send(t, 1, 4); len(answer.Exceptions) > 0 {
			t.Errorf("%+v", answer.Exceptions)
		}
		list, err := w.Attempts(t.Context(), "")
		if err != nil || len(list) != 3 {
			t.Fatalf("%+v %v", list, err)
		}
		if got := list[0]; got.Reason != validate.PackStolen || got.Number != "1-000001" || got.GameCode != "00399" || got.Ticket != 3 || got.Operator != "marie" || got.Terminal != "T-1" {
			t.Errorf("%+v", got)
		}
		if got := list[1]; got.Reason != validate.TooManyAttempts || got.Failed != 5 {
			t.Errorf("%+v", got)
		}
		if got := list[2]; got.Reason != validate.Misprint || got.Ticket != 4 || got.Operator != "marie" {
			t.Errorf("%+v", got)
		}
		if list, err := w.Attempts(t.Context(), "T-2"); err != nil || len(list) != 0 {
			t.Errorf("%+v %v", list, err)
		}
	})
}

// TestMisprintThatWasTakenInIsPaidNowhereElse: whoever asks afterwards is told where and by
// which entry, and the owner is not asked to hold anything.
func TestMisprintThatWasTakenInIsPaidNowhereElse(t *testing.T) {
	onEachStore(t, func(t *testing.T, w *world) {
		a, b := w.enrolled(t, "T-A"), w.enrolled(t, "T-B")
		w.give(t, "T-A", 10, 14)
		won := w.winners(10, 14)
		a.record(t, ledger.KindMisprint, ledger.MisprintBody{Block: ledger.NamedBlock{Block: w.block.ID, Game: "Bingo"}, Pack: won[0].code.Pack, Ticket: won[0].code.Number, Remedy: validate.Exchanged,
			Operator: "marie", Manager: "max", Entered: validate.Scanned})
		a.send(t, 1, 1)
		got := b.ask(t, request(b.wanted(t, won[0], 0xb1, 0)))
		wantState(t, got, wire.ClaimDenied, wire.WhyMisprint)
		if !strings.Contains(got.Text, "T-A") || !strings.Contains(got.Text, "1-000001") {
			t.Errorf("%q", got.Text)
		}
		if n := w.count(t, "SELECT count(*) FROM holds"); n != 0 {
			t.Errorf("%d holds asked for", n)
		}
		wantState(t, a.ask(t, request(a.wanted(t, won[1], 0xa1, 0))), wire.ClaimApproved, "") // another ticket of the pack
	})
}
