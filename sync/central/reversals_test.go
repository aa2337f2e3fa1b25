package central

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"grattoir/sync/ledger"
	"grattoir/sync/wire"
	"grattoir/validate"
)

// desk is a terminal with a real ledger that speaks to a central.
type desk struct {
	*device
	w    *world
	book *ledger.Ledger
	sent int64
}

func newDesk(t *testing.T, w *world, name string) *desk {
	t.Helper()
	d := &desk{device: w.enrolled(t, name), w: w}
	var err error
	d.book, err = ledger.Open(t.Context(), ledger.Options{Path: filepath.Join(t.TempDir(), "l.db"), Terminal: name, ClaimKey: d.claimKey,
		Moment: func() ledger.Moment { return ledger.Moment{Boot: "b", Device: noon} }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.book.Close() })
	return d
}

// record pays a ticket: a round above 0 with central's word.
func (d *desk) record(t *testing.T, x lot, round int, id int) (validate.Receipt, error) {
	c := validate.Claim{ID: fmt.Sprintf("%032x", id), Ticket: d.key(x), Round: round,
		Secret: x.code, Tier: x.tier, Amount: tiers[x.tier-1].Amount, Currency: "EUR", OwnerEpoch: 1, Entered: validate.Scanned, FirstCheck: noon,
		Slip: validate.SlipFacts{Game: "Bingo", Pack: x.code.PackText(), Ticket: x.code.NumberText()}}
	if round > 0 {
		c.Right = validate.RightGrant
		if _, err := d.book.Intend(t.Context(), c); err != nil {
			return validate.Receipt{}, err
		}
		list, err := d.book.OpenClaims(t.Context())
		if err != nil || len(list) != 1 {
			t.Fatalf("%d claims to ask about: %v", len(list), err)
		}
		if err := d.book.ClaimAnswered(t.Context(), d.ask(t, list[0])); err != nil {
			t.Fatal(err)
		}
	}
	return d.book.Record(t.Context(), c)
}

func (d *desk) key(x lot) validate.TicketKey {
	return validate.TicketKey{Block: d.w.block.ID, Pack: x.code.Pack, Number: x.code.Number}
}

// sync sends what is new and takes the feed, and gives the exceptions.
func (d *desk) sync(t *testing.T) []wire.Exception {
	t.Helper()
	d.lines = nil
	if err := d.book.Lines(t.Context(), 1, 0, func(_ int64, line []byte) error { d.lines = append(d.lines, string(line)); return nil }); err != nil {
		t.Fatal(err)
	}
	var exceptions []wire.Exception
	if n := int64(len(d.lines)); n > d.sent {
		_, a := d.send(t, d.sent+1, n)
		d.sent, exceptions = n, a.Exceptions
	}
	cursor, err := d.book.FeedCursor(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if items := d.feed(t, cursor); len(items) > 0 {
		if err := d.book.ApplyFeed(t.Context(), items, items[len(items)-1].Seq); err != nil {
			t.Fatal(err)
		}
	}
	return exceptions
}

// TestAcceptedReversalOpensTheTicketsNextRoundOnBothSides: a payment taken back, from the
// clerk's request to the ticket paid again, and taken back and paid once more.
func TestAcceptedReversalOpensTheTicketsNextRoundOnBothSides(t *testing.T) {
	onEachStore(t, testAcceptedReversalOpensTheTicketsNextRoundOnBothSides)
}

func testAcceptedReversalOpensTheTicketsNextRoundOnBothSides(t *testing.T, w *world) {
	d := newDesk(t, w, "T-1")
	w.give(t, "T-1", 10, 19)
	won := w.winners(10, 19)[0]
	for round := range 3 {
		r, err := d.record(t, won, round, 1+round)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.book.RequestReversal(t.Context(), validate.Reversal{ID: fmt.Sprintf("%032x", 77+round), Number: r.Number, Reason: validate.PlayerLeft, Operator: "marie", Manager: "paul"}); err != nil {
			t.Fatal(err)
		}
		if x := d.sync(t); len(x) != 0 {
			t.Fatalf("round %d: exceptions %+v", round, x)
		}
		list, err := w.Reversals(t.Context(), false)
		if err != nil || len(list) != 1 || list[0].Number != r.Number.String() || list[0].Round != round || list[0].Manager != "paul" {
			t.Fatalf("%+v %v", list, err)
		}
		if _, err := d.record(t, won, round+1, 50+round); !errors.Is(err, ledger.ErrRight) {
			t.Fatalf("paid again before central has answered: %v", err)
		}
		if paid, err := d.book.Paid(t.Context(), d.key(won)); err != nil || paid == nil {
			t.Fatalf("a request alone has freed the ticket: %v", err)
		}
		if a, err := w.Decide(t.Context(), "T-1", r.Number, true, "slip seen"); err != nil || a.State != validate.ReversalAccepted {
			t.Fatalf("%+v %v", a, err)
		}
		if _, err := w.Decide(t.Context(), "T-1", r.Number, false, "again"); !errors.Is(err, ErrRefused) {
			t.Fatalf("decided twice: %v", err)
		}
		d.sync(t)
		d.sync(t) // the answer's own entry goes up, and the feed brings nothing new
		if n, err := d.book.Round(t.Context(), d.key(won)); err != nil || n != round+1 {
			t.Fatalf("round %d after %d reversals: %v", n, round+1, err)
		}
		if paid, err := d.book.Paid(t.Context(), d.key(won)); err != nil || paid != nil {
			t.Fatalf("%+v stands on a ticket whose payment was taken back: %v", paid, err)
		}
	}
	if n := w.count(t, "SELECT count(*) FROM claims"); n != 3 {
		t.Fatalf("%d claims credited", n)
	}
	if c, err := d.book.Verify(t.Context()); err != nil || c.Claims != 3 {
		t.Fatalf("%+v %v", c, err)
	}
}

func TestRefusedReversalLeavesTheTicketPaid(t *testing.T) {
	onEachStore(t, testRefusedReversalLeavesTheTicketPaid)
}

func testRefusedReversalLeavesTheTicketPaid(t *testing.T, w *world) {
	d := newDesk(t, w, "T-1")
	w.give(t, "T-1", 10, 19)
	won := w.winners(10, 19)[0]
	r, err := d.record(t, won, 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Decide(t.Context(), "T-1", r.Number, true, ""); !errors.Is(err, ErrNotFound) {
		t.Fatalf("decided before it was asked for: %v", err)
	}
	if _, err := d.book.RequestReversal(t.Context(), validate.Reversal{ID: fmt.Sprintf("%032x", 77), Number: r.Number, Reason: validate.OtherReason, Text: "till empty", Operator: "marie", Manager: "paul"}); err != nil {
		t.Fatal(err)
	}
	d.sync(t)
	if _, err := w.Decide(t.Context(), "T-1", r.Number, false, "the slip is signed"); err != nil {
		t.Fatal(err)
	}
	d.sync(t)
	got, err := d.book.Reversal(t.Context(), r.Number)
	if err != nil || got.State != validate.ReversalRefused || got.Answer != "the slip is signed" {
		t.Fatalf("%+v %v", got, err)
	}
	if n, err := d.book.Round(t.Context(), d.key(won)); err != nil || n != 0 {
		t.Fatalf("round %d: %v", n, err)
	}
	// A claim of the next round, by a program that does not keep to it, is not credited.
	body := d.device.claim(t, won)
	body.Round = 1
	d.device.record(t, ledger.KindClaim, d.sealed(t, body, won.code.Secret()))
	_, a := d.send(t, int64(len(d.lines)), int64(len(d.lines)))
	wantException(t, a, int64(len(d.lines)), wire.NoRight)
}

// TestReversalOfAPaymentThatIsNotCreditedIsNotAccepted: a conflict holds no round, so
// accepting its reversal would free somebody else's payment.
func TestReversalOfAPaymentThatIsNotCreditedIsNotAccepted(t *testing.T) {
	onEachStore(t, testReversalOfAPaymentThatIsNotCreditedIsNotAccepted)
}

func testReversalOfAPaymentThatIsNotCreditedIsNotAccepted(t *testing.T, w *world) {
	one, two := newDesk(t, w, "T-1"), newDesk(t, w, "T-2")
	w.give(t, "T-1", 10, 19)
	won := w.winners(10, 19)[0]
	for n, d := range []*desk{one, two} {
		r, err := d.record(t, won, 0, 1+n)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.book.RequestReversal(t.Context(), validate.Reversal{ID: fmt.Sprintf("%032x", 77+n), Number: r.Number, Reason: validate.WrongTicket, Operator: "marie", Manager: "paul"}); err != nil {
			t.Fatal(err)
		}
		d.sync(t)
	}
	number := validate.EntryNumber{Epoch: 1, Seq: 1}
	if _, err := w.Decide(t.Context(), "T-2", number, true, ""); !errors.Is(err, ErrRefused) {
		t.Fatalf("a conflict's reversal was accepted: %v", err)
	}
	if _, err := w.Decide(t.Context(), "T-1", number, true, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Decide(t.Context(), "T-2", number, false, "not credited"); err != nil {
		t.Fatal(err)
	}
	if list, err := w.Reversals(t.Context(), true); err != nil || len(list) != 2 {
		t.Fatalf("%+v %v", list, err)
	}
}
