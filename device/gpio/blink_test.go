package gpio

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"grattoir/device/terminal"
	"grattoir/validate"
)

// TestDrawerOpensForAPaymentDuringTheLampTest: a customer comes while a technician looks at
// the lamps; the drawer and the pay button must not wait for their end.
func TestDrawerOpensForAPaymentDuringTheLampTest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.run(everything())
		blinked := make(chan error, 1)
		go func() { blinked <- w.board.Blink(t.Context(), 5*time.Second) }()
		w.pass(time.Second)
		w.counter.winner("a")
		w.pass(time.Second)
		w.press()
		w.counter.show("a", terminal.Paid, validate.Pay, validate.Winner)
		w.pass(10 * time.Millisecond)
		w.counter.show("b", terminal.Verdict, validate.Refuse, validate.NotAWinner) // the next ticket is quick
		w.pass(time.Second)
		if n := len(highs(w.pin[Drawer])); n != 1 {
			t.Errorf("the drawer was opened %d times for a payment", n)
		}
		if got := w.pressed(); !slices.Equal(got, []string{"a"}) {
			t.Errorf("presses for %v", got)
		}
		must(t, <-blinked)
		w.pass(2 * retryOutputs)
		if !w.pin[Refuse].Level() || w.pin[Win].Level() {
			t.Error("after the test the lamps do not show the counter's view")
		}
	})
}
