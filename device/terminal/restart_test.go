package terminal_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"grattoir/device/terminal"
	"grattoir/device/terminal/terminaltest"
)

var leave = terminal.Restart{For: 2 * time.Minute, Quiet: true}

// TestRestartIsRefusedWhileAnythingIsUnderWay, and granted to a sick program when only a
// clerk is there.
func TestRestartIsRefusedWhileAnythingIsUnderWay(t *testing.T) {
	ctx := context.Background()
	for _, c := range []struct {
		name string
		do   func(t *testing.T, c *counter)
		ask  terminal.Restart
		want string
	}{
		{"idle, quiet hours", func(*testing.T, *counter) {}, leave, ""},
		{"idle, no sign-on, by day", func(*testing.T, *counter) {}, terminal.Restart{For: time.Minute}, "nobody signs on here: it waits for the quiet hours"},
		{"idle, by day, sick", func(*testing.T, *counter) {}, terminal.Restart{For: time.Minute, Must: true}, ""},
		{"a winner on the counter", func(t *testing.T, c *counter) {
			c.Check(ctx, terminal.Scan{Text: c.ticket(t, 1, 1, 2000).Digits()})
		}, leave, "a ticket is on the counter"},
		{"the same, sick", func(t *testing.T, c *counter) {
			c.Check(ctx, terminal.Scan{Text: c.ticket(t, 1, 1, 2000).Digits()})
		}, terminal.Restart{For: time.Minute, Must: true}, "a ticket is on the counter"},
		{"a loser on the counter", func(t *testing.T, c *counter) {
			c.Check(ctx, terminal.Scan{Text: c.ticket(t, 1, 0, 0).Digits()})
		}, leave, ""},
		{"paid, its slip waits", func(t *testing.T, c *counter) {
			v := c.Check(ctx, terminal.Scan{Text: c.ticket(t, 1, 1, 2000).Digits()})
			if v, err := c.Pay(ctx, v.ID, terminal.Confirmed{}); err != nil || v.Stage != terminal.Paid {
				t.Fatalf("%s, %v", v.Stage, err)
			}
		}, leave, "a slip waits to be printed"},
		{"a batch", func(t *testing.T, c *counter) {
			if _, err := c.BeginBatch(); err != nil {
				t.Fatal(err)
			}
		}, leave, "a batch is open"},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := newCounter()
			c.do(t, k)
			if got := k.Pause(ctx, c.ask); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// TestNoActFollowsTheLeaveToRestart until it is given back, or runs out.
func TestNoActFollowsTheLeaveToRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		c := newCounter()
		c.staff = terminaltest.NewStaff(map[string]string{"marie": "1234"})
		c.restart()
		winner := c.ticket(t, 1, 1, 2000).Digits()
		if _, err := c.SignOn(ctx, terminal.Credentials{Operator: "marie", PIN: "1234"}, 0); err != nil {
			t.Fatal(err)
		}
		c.staff.Lock()
		if why := c.Pause(ctx, leave); why != "" {
			t.Fatal(why)
		}
		v := c.Check(ctx, terminal.Scan{Text: winner})
		if s, _ := c.State(); v.Stage != terminal.Idle || s.Restarting == nil || s.Restarting.Code != "U1" {
			t.Errorf("a ticket is checked: %s, %v", v.Stage, s.Restarting)
		}
		_, pay := c.Pay(ctx, v.ID, terminal.Confirmed{})
		_, batch := c.BeginBatch()
		_, shift := c.SignOn(ctx, terminal.Credentials{Operator: "marie", PIN: "1234"}, 0)
		_, z := c.Close(ctx, "day", terminal.Credentials{Operator: "marie", PIN: "1234"})
		for what, err := range map[string]error{"pay": pay, "batch": batch, "sign-on": shift, "close": z, "unlock": c.Unlock(ctx, "1234")} {
			if !errors.Is(err, terminal.ErrRestarting) {
				t.Errorf("%s: %v", what, err)
			}
		}
		if c.Pause(ctx, terminal.Restart{For: time.Minute}) != "" {
			t.Error("a locked counter gives no leave")
		}
		c.Resume()
		if err := c.Unlock(ctx, "1234"); err != nil {
			t.Error(err)
		}
		if why := c.Pause(ctx, terminal.Restart{For: time.Minute}); why != "somebody is signed on" {
			t.Errorf("signed on: %q", why)
		}
		if v := c.Check(ctx, terminal.Scan{Text: winner}); v.Stage != terminal.Verdict {
			t.Errorf("given back, it shows %s", v.Stage)
		}
		c.Dismiss(c.Check(ctx, terminal.Scan{Text: winner}).ID)
		if why := c.Pause(ctx, leave); why != "" {
			t.Fatal(why)
		}
		time.Sleep(leave.For + time.Second)
		if s, _ := c.State(); s.Restarting != nil {
			t.Error("no restart came, and it takes no acts")
		}
		if v := c.Check(ctx, terminal.Scan{Text: winner}); v.Stage != terminal.Verdict {
			t.Errorf("run out, it shows %s", v.Stage)
		}
	})
}
