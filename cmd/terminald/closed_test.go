package main

import (
	"testing"
	"testing/synctest"
	"time"

	"grattoir/device/terminal"
	"grattoir/validate"
	"grattoir/validate/policy"
)

// TestClosingNoticeThatComesAfterTheBlockEndsItsClaimPeriod: the date reaches the till
// with a later snapshot, may be changed, and is judged by trusted time alone.
func TestClosingNoticeThatComesAfterTheBlockEndsItsClaimPeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 7)
		defer w.close()
		w.enrol("T-1", 1, 4)
		s := w.tills[0]
		heard := func() { time.Sleep(3 * time.Minute); synctest.Wait() }
		heard()
		code := w.codes[2][0]
		reason := func() validate.Reason {
			return s.Check(w.ctx, terminal.Scan{Text: code.Digits(), Entered: validate.Scanned}).Verdict.Reason
		}
		if r := reason(); r != validate.Winner {
			t.Fatalf("open: %s", r)
		}
		today := policy.DateOf(time.Now().UTC())
		close := func(on policy.Date) {
			_, err := w.central.CloseEmission(w.ctx, "bingo", "1", on, 30, false)
			w.must(err)
			heard()
		}
		close(today.Add(-20))
		if r := reason(); r != validate.Winner {
			t.Errorf("ten days left: %s", r)
		}
		close(today.Add(-40))
		if r := reason(); r != validate.ClaimPeriodOver {
			t.Errorf("ten days late: %s", r)
		}
		close(today.Add(-20)) // the date was wrong
		if r := reason(); r != validate.Winner {
			t.Errorf("put right: %s", r)
		}

		// With no network after a restart the date is known and the time is not.
		w.net.down(time.Hour)
		s.stop(w)
		s.start(w)
		if r := reason(); r != validate.ClockNotTrusted {
			t.Errorf("no trusted time: %s, trusted %v", r, s.way.trusted())
		}
	})
}
