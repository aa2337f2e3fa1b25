package terminaltest_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"grattoir/device/terminal"
	"grattoir/device/terminal/terminaltest"
	"grattoir/validate"
	"grattoir/validate/policy"
	"grattoir/validate/ticket"
)

var noon = time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)

func code(t *testing.T, pack uint32, number uint16, secret string) ticket.Code {
	t.Helper()
	c, err := ticket.Make(ticket.G40(), "512", pack, number, secret)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

const secret, otherSecret = "0123456789012345678901", "9999999999999999999999"

func winner() validate.Opened {
	return validate.Opened{Block: validate.BlockID{1}, Game: "bingo", Currency: "EUR", Tier: 3, Amount: 2000}
}

// TestFakesPayOneTicketOnce walks one ticket over a counter made of the fakes alone.
func TestFakesPayOneTicketOnce(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	now := func() time.Time { return noon }
	shelf, ledger, printer := terminaltest.NewShelf(), terminaltest.NewLedger("T1", now), terminaltest.NewPrinter()
	won := code(t, 123, 17, secret)
	shelf.Add(won, winner())
	counter := terminal.New(terminal.Options{Name: "T1", Shelf: shelf, Ledger: ledger, Printer: printer, Central: terminaltest.NewCentral(),
		Policy: func() policy.Policy {
			return policy.Policy{Version: "p1", Currency: "EUR", ShopLimit: 30000, ClaimDays: 30}
		}, Now: now, Trusted: now, Log: slog.New(slog.DiscardHandler)})
	done := make(chan struct{})
	go func() { defer close(done); counter.Run(ctx) }()
	defer func() { cancel(); <-done }()

	v := counter.Check(ctx, terminal.Scan{Text: won.Digits()})
	if v.Verdict.Reason != validate.Winner {
		t.Fatalf("check gives %s (%s), want winner", v.Verdict.Reason, v.Detail)
	}
	for range 2 {
		if v, err := counter.Pay(ctx, v.ID, terminal.Confirmed{}); err != nil || v.Stage != terminal.Paid {
			t.Fatalf("pay gives stage %s, error %v", v.Stage, err)
		}
	}
	slips, err := printer.Await(ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(ledger.Claims()); n != 1 || len(slips) != 1 || slips[0].Copies != 1 {
		t.Errorf("%d claims and %d slips, want one of each", n, len(slips))
	}
	if h := slips[0].Hash; len(h) != 64 || h != ledger.Claims()[0].Hash {
		t.Errorf("the slip's entry has the hash %q", h)
	}
	if v := counter.Check(ctx, terminal.Scan{Text: won.Digits()}); v.Verdict.Reason != validate.AlreadyPaidHere {
		t.Errorf("the second check gives %s", v.Verdict.Reason)
	}
}

// TestShelfTellsEveryFinding fixes what the fake says of codes it was not given.
func TestShelfTellsEveryFinding(t *testing.T) {
	shelf := terminaltest.NewShelf()
	shelf.Add(code(t, 123, 17, secret), winner())
	other, err := ticket.Make(ticket.G40(), "999", 123, 17, secret)
	if err != nil {
		t.Fatal(err)
	}
	for want, c := range map[validate.Finding]ticket.Code{
		validate.Authentic: code(t, 123, 17, secret), validate.Counterfeit: code(t, 123, 17, otherSecret),
		validate.NotInBlock: code(t, 123, 18, secret), validate.NoBlock: code(t, 124, 17, secret), validate.NoGame: other,
	} {
		o, err := shelf.Open(t.Context(), c)
		if err != nil || o.Finding != want {
			t.Errorf("%v: finding %q, error %v; want %q", c, o.Finding, err, want)
		}
		if want == validate.Counterfeit && (o.Tier != 0 || o.Amount != 0 || o.Block == (validate.BlockID{})) {
			t.Errorf("a counterfeit shows tier %d, amount %d, block %v", o.Tier, o.Amount, o.Block)
		}
	}
	broken := errors.New("sector 7")
	shelf.Break(broken)
	if o, err := shelf.Open(t.Context(), code(t, 123, 17, secret)); !errors.Is(err, broken) || o.Finding != validate.Damaged {
		t.Errorf("a broken shelf says %q, %v", o.Finding, err)
	}
}

// TestPrinterHoldsASlipWhileAFaultStands: what was begun before the fault comes out after it.
func TestPrinterHoldsASlipWhileAFaultStands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := terminaltest.NewPrinter()
		p.Break(terminaltest.PaperOut())
		if s, err := p.Print(t.Context(), validate.Receipt{}, false, nil); s != validate.Held || err == nil || len(p.Slips()) != 0 {
			t.Fatalf("with no paper a slip is %s, %v, %d came out", s, err, len(p.Slips()))
		}
		p.Break(nil)
		p.Pause()
		var told []*terminal.Fault
		var end validate.PrintState
		go func() {
			end, _ = p.Print(t.Context(), validate.Receipt{Copies: 1}, false, func(f *terminal.Fault) { told = append(told, f) })
		}()
		synctest.Wait()
		p.Break(terminaltest.PaperOut())
		synctest.Wait()
		p.Resume()
		synctest.Wait()
		if len(told) != 1 || told[0].Code != "P2" || len(p.Slips()) != 0 {
			t.Fatalf("told %v, %d slips out while the paper is out", told, len(p.Slips()))
		}
		p.Break(nil)
		synctest.Wait()
		if end != validate.Printed || len(p.Slips()) != 1 {
			t.Errorf("after the mending the slip is %q, %d came out", end, len(p.Slips()))
		}
	})
}
