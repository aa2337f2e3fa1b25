package uplink

import (
	"testing"
	"time"

	"grattoir/validate"
)

// TestHelloTellsWhatWasAskedUntilCentralHoldsIt: the counts each time, each sighting once.
func TestHelloTellsWhatWasAskedUntilCentralHoldsIt(t *testing.T) {
	l := join(t, newCentral(t), true)
	l.opt.Looks = l.ledger
	u, err := New(l.opt)
	if err != nil {
		t.Fatal(err)
	}
	x := validate.Looked{Ticket: validate.TicketKey{Block: validate.BlockID{7}, Pack: 12, Number: 3}, Reason: validate.Winner, Entered: validate.Typed, At: time.Now()}
	l.ledger.Looked(x)
	for _, want := range []struct{ sighted, sightings int }{{0, 1}, {1, 1}, {1, 0}} { // told again until an answer says that it is held
		l.update(func() { l.sighted = int64(want.sighted) })
		if _, err := u.hello(t.Context()); err != nil {
			t.Fatal(err)
		}
		l.update(func() {
			if h := l.fake.hello; len(h.Looks) != 1 || h.Looks[0].Number != 1 || h.Looks[0].Entered != validate.Typed || len(h.Sightings) != want.sightings {
				t.Errorf("hello tells %+v %+v, want %d sightings", h.Looks, h.Sightings, want.sightings)
			}
		})
	}
}
