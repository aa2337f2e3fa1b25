package terminal_test

import (
	"fmt"
	"testing"
	"testing/synctest"

	"grattoir/device/terminal"
	"grattoir/device/terminal/terminaltest"
	"grattoir/validate"
	"grattoir/validate/policy"
)

// TestSlipOfACheckIsPrintedAsThePolicySays: each check where that is said, on request
// where it is, and for the payment centre alone otherwise; never of a misread, never twice
// from one press, and a fault of the printer loses none. Where the policy says nothing, the
// terminal's configuration does.
func TestSlipOfACheckIsPrintedAsThePolicySays(t *testing.T) {
	type rule struct{ configured, policy policy.ResultSlips }
	for set, want := range map[rule]struct{ lost, above, misread, offered bool }{
		{configured: policy.SlipsEach}:          {true, true, false, false},
		{configured: policy.SlipsAsked}:         {false, false, false, true},
		{configured: policy.SlipsCentre}:        {false, false, false, false},
		{policy.SlipsCentre, policy.SlipsEach}:  {true, true, false, false},
		{policy.SlipsEach, policy.SlipsAsked}:   {false, false, false, true},
		{policy.SlipsAsked, policy.SlipsCentre}: {false, false, false, false},
	} {
		t.Run(fmt.Sprint(set), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCounter()
				c.slips, c.limits.ResultSlips = set.configured, set.policy
				c.restart()
				c.runs(t)
				c.printer.Break(terminaltest.PaperOut())
				lost := c.check(c.ticket(t, 1, 0, 0))
				if lost.Slip != want.lost || c.CanSlip(lost) != want.offered {
					t.Errorf("a loser: %t, offered %t", lost.Slip, c.CanSlip(lost))
				}
				above := c.check(c.ticket(t, 2, 1, 100000000))
				if above.Slip != want.above || c.CanSlip(above) == want.above {
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
