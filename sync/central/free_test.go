package central

import (
	"testing"
	"time"

	"grattoir/sync/ledger"
	"grattoir/sync/wire"
)

// TestLostTerminalsTicketsAreFreedByAPersonAlone: then others are allowed them, by central's
// word only, and what the lost card claims later is a conflict, though the pack is its own.
func TestLostTerminalsTicketsAreFreedByAPersonAlone(t *testing.T) {
	onEachStore(t, func(t *testing.T, w *world) {
		a, _ := w.enrolled(t, "T-A"), w.enrolled(t, "T-B")
		c := w.enrolled(t, "T-C")
		w.give(t, "T-A", 10, 19)
		w.patience = time.Millisecond
		won, other := w.winners(10, 19)[0], w.winners(10, 19)[1]
		kept, paid := a.wanted(t, won, 0xa1, 0), a.wanted(t, other, 0xa2, 0)
		wantState(t, a.ask(t, request(kept)), wire.ClaimApproved, "")
		wantState(t, a.ask(t, request(paid)), wire.ClaimApproved, "")
		a.record(t, ledger.KindClaim, paid)
		a.send(t, 1, 1)

		_, err := w.Free(t.Context(), "T-A", "martin", "it burnt down")
		wantErr(t, err, ErrRefused) // it may still pay
		if err := w.Suspend(t.Context(), "T-A", "it burnt down"); err != nil {
			t.Fatal(err)
		}
		_, err = w.Free(t.Context(), "T-A", "", "it burnt down")
		wantErr(t, err, ErrRefused)
		_, err = w.Free(t.Context(), "T-X", "martin", "it burnt down")
		wantErr(t, err, ErrNotFound)
		list, err := w.Free(t.Context(), "T-A", "martin", "it burnt down")
		if err != nil || len(list) != 1 || list[0].Claim != kept.Claim || list[0].Minor != kept.AmountMinor {
			t.Fatalf("%+v %v", list, err)
		}
		_, err = w.Free(t.Context(), "T-A", "martin", "it burnt down")
		wantErr(t, err, ErrRefused)
		if list, err := w.FreedPermits(t.Context()); err != nil || len(list) != 1 || list[0].Operator != "martin" || list[0].Freed.IsZero() {
			t.Errorf("%+v %v", list, err)
		}
		if list, err := w.Permits(t.Context(), ""); err != nil || len(list) != 0 {
			t.Errorf("%+v %v", list, err)
		}

		// Its packs go to another terminal, which holds the ticket for ever.
		if _, err := w.Replace(t.Context(), "T-A", "T-C"); err != nil {
			t.Fatal(err)
		}
		if _, err := w.WriteOff(t.Context(), "399", 10, 19, "it burnt down"); err != nil {
			t.Fatal(err)
		}
		again := request(c.wanted(t, won, 0xc1, 0))
		wantState(t, c.ask(t, again), wire.ClaimApproved, "")

		// The card is found.
		found := w.enrolled(t, "T-A")
		found.lines = a.lines
		wantState(t, found.ask(t, request(kept)), wire.ClaimReturned, "")
		found.record(t, ledger.KindClaim, kept)
		_, answer := found.send(t, 1, 2)
		wantException(t, answer, 2, wire.NoRight)
		if n := w.count(t, "SELECT count(*) FROM conflicts WHERE text LIKE '%given up%' OR text LIKE '%gave it up%'"); n != 1 {
			t.Error("the conflict does not say that the permission was given up")
		}
	})
}

// TestFreedTicketIsHeldByThePacksNextOwner: no terminal pays it by itself again.
func TestFreedTicketIsHeldByThePacksNextOwner(t *testing.T) {
	w := newWorld(t)
	a, b, won := two(t, w)
	w.patience = time.Millisecond
	ask := request(b.wanted(t, won, 0xb1, 0))
	wantState(t, b.ask(t, ask), wire.ClaimPending, wire.WhyOwnerSilent)
	if e := a.holds(t, a.hear(t, 0), 0); e != nil {
		t.Fatal(e)
	}
	wantState(t, b.ask(t, ask), wire.ClaimApproved, "")
	if err := w.Suspend(t.Context(), "T-B", "stolen"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Free(t.Context(), "T-B", "martin", "stolen"); err != nil {
		t.Fatal(err)
	}
	c := w.enrolled(t, "T-C")
	a.record(t, ledger.KindRelease, ledger.ReleaseBody{Reason: ledger.ReleaseAsked, Packs: []ledger.ReleasedPacks{{GameCode: "00399", First: 10, Last: 19, OwnerEpoch: 1}}})
	a.send(t, 1, 1)
	if _, err := w.MovePacks(t.Context(), "399", 10, 19, "T-C", false); err != nil {
		t.Fatal(err)
	}
	if item := c.hear(t, 0); item.Hold.Ticket != won.code.Number || item.Hold.Pack != won.code.Pack {
		t.Errorf("%+v", item.Hold)
	}
}
