package terminal_test

import (
	"testing"
	"testing/synctest"

	"grattoir/device/terminal"
	"grattoir/device/terminal/terminaltest"
	"grattoir/validate"
)

// TestSlipOfACheckIsPrintedAsTheTerminalIsSet: each check where that is set, on request
// where it is, and for the payment centre alone otherwise; never of a misread, never twice
// from one press, and a fault of the printer loses none.
func TestSlipOfACheckIsPrintedAsTheTerminalIsSet(t *testing.T) {
	for set, want := range map[terminal.ResultSlips]struct{ lost, above, misread, offered bool }{
		terminal.ResultEach:   {true, true, false, false},
		terminal.ResultAsked:  {false, false, false, true},
		terminal.ResultCentre: {false, false, false, false},
	} {
		t.Run(string(set), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCounter()
				c.slips = set
				c.restart()
				c.runs(t)
				c.printer.Break(terminaltest.PaperOut())
				lost := c.check(c.ticket(t, 1, 0, 0))
				if lost.Slip != want.lost || c.CanSlip(lost) != want.offered {
					t.Errorf("a loser: %t, offered %t", lost.Slip, c.CanSlip(lost))
				}
				above := c.check(c.ticket(t, 2, 1, 100000000))
				if above.Slip != want.above || c.CanSlip(above) == (set == terminal.ResultEach) {
					t.Errorf("above the limit: %t", above.Slip)
				}
				if !above.Slip {
					if err := c.PrintResult(above.ID); err != nil {
						t.Fatal(err)
					}
				}
				if err := c.PrintResult(above.ID); err == nil {
					t.Error("a second slip of one check")
				}
				if v := c.Check(ctx, terminal.Scan{Text: "12345"}); v.Slip != want.misread || c.CanSlip(v) {
					t.Error("a slip of a misread")
				}
				synctest.Wait()
				c.printer.Break(nil)
				synctest.Wait()
				n := 1
				if want.lost {
					n = 2
				}
				list := c.printer.Results()
				if len(list) != n || list[n-1].Verdict.Reason != validate.AboveShopLimit {
					t.Errorf("%d slips of checks: %+v", len(list), list)
				}
			})
		})
	}
}
