package terminal_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"grattoir/device/terminal"
	"grattoir/device/terminal/terminaltest"
	"grattoir/validate"
	"grattoir/validate/money"
	"grattoir/validate/ticket"
)

// packsCounter is a counter of a linked terminal that owns pack 123, delivered.
func packsCounter(t *testing.T) (*counter, terminal.Scan) {
	t.Helper()
	c := newCounter()
	c.packs = terminaltest.NewPacks()
	c.packs.Set(validate.Pack{GameCode: "00399", Number: 123, Known: true, State: validate.PackDelivered, Own: true, Owner: "T-1", Epoch: 1})
	c.restart()
	code, err := ticket.Make(ticket.G18(), "399", 123, 17, "")
	if err != nil {
		t.Fatal(err)
	}
	return c, terminal.Scan{Text: code.Digits(), AIM: 'I', Entered: validate.Scanned}
}

func TestPublicCodeShowsItsPackAndNeverAPrize(t *testing.T) {
	c, scan := packsCounter(t)
	c.ticket(t, 17, 1, 2000000) // the very ticket wins
	v := c.Check(ctx, scan)
	if v.Stage != terminal.OnPack || v.Pack == nil || v.Pack.Note(v.Code.Number) != validate.NotePackDelivered || v.Verdict.AmountMinor != nil || v.Verdict.Outcome != "" || v.Opened.Amount != 0 {
		t.Fatalf("%+v", v)
	}
	if _, err := c.Pay(ctx, v.ID, terminal.Confirmed{Cash: true}); !errors.Is(err, terminal.ErrPackHere) || len(c.ledger.Claims()) != 0 {
		t.Errorf("a pack was paid: %v", err)
	}
	if state, _ := c.State(); state.View.Stage != terminal.OnPack {
		t.Errorf("the pack left the counter: %s", state.View.Stage)
	}
	c.packs.Break(errors.New("disk"))
	if v := c.Check(ctx, scan); v.Pack.Note(17) != validate.NotePackUnknown || v.Detail == "" {
		t.Errorf("what could not be read is %+v", v.Pack)
	}
}

func TestTerminalOnItsOwnAsksForTheHiddenCode(t *testing.T) {
	_, scan := packsCounter(t)
	c := newCounter()
	if v := c.Check(ctx, scan); v.Verdict.Reason != validate.CodeMisread || v.Pack != nil {
		t.Errorf("%+v", v)
	}
	if _, err := c.Inventory(ctx); !errors.Is(err, terminal.ErrNoPacks) {
		t.Error(err)
	}
}

func TestPackIsPutOnSaleOnceByWhoeverIsThere(t *testing.T) {
	c, scan := packsCounter(t)
	v := c.Check(ctx, scan)
	for range 2 { // a double tap
		after, err := c.ActivateShown(ctx, v.ID)
		if err != nil || after.Pack.State != validate.PackActive || after.Pack.Note(17) != validate.NotePackActive {
			t.Fatalf("%+v %v", after.Pack, err)
		}
	}
	if got := c.packs.Sold(); !slices.Equal(got, []string{"00399-123 marie"}) {
		t.Errorf("%v", got)
	}
	if _, err := c.ActivateShown(ctx, "another"); !errors.Is(err, terminal.ErrStale) {
		t.Errorf("a stale page: %v", err)
	}
}

func TestPackThatChangedMeanwhileIsShownAsItStands(t *testing.T) {
	c, scan := packsCounter(t)
	v := c.Check(ctx, scan)
	c.packs.Set(validate.Pack{GameCode: "00399", Number: 123, Known: true, State: validate.PackStolenNow, Own: true})
	after, err := c.ActivateShown(ctx, v.ID)
	if err != nil || after.Pack.Note(17) != validate.NotePackStolen || after.Detail == "" || len(c.packs.Sold()) != 0 {
		t.Fatalf("%+v %v", after, err)
	}
}

func TestPackIsNotPutOnSaleInTrainingNorOnABrokenLedger(t *testing.T) {
	c, scan := packsCounter(t)
	if err := c.SetTraining(ctx, true, terminal.Credentials{}); err != nil {
		t.Fatal(err)
	}
	v := c.Check(ctx, scan)
	var denied *terminal.Denied
	if _, err := c.ActivateShown(ctx, v.ID); !errors.As(err, &denied) || denied.Code != "K10" {
		t.Errorf("training: %v", err)
	}
	if err := c.SetTraining(ctx, false, terminal.Credentials{}); err != nil {
		t.Fatal(err)
	}
	c.ledger.Break(errors.New("read-only"))
	if _, err := c.ActivatePack(ctx, "00399", 123); !errors.As(err, &denied) || len(c.packs.Sold()) != 0 {
		t.Errorf("a ledger that cannot commit: %v", err)
	}
}

func TestPackThatMayNotBeSoldHasItsOwnReason(t *testing.T) {
	for why, code := range map[error]string{terminal.ErrGameSuspended: "K12", terminal.ErrSalesEnded: "K13"} {
		c, scan := packsCounter(t)
		v := c.Check(ctx, scan)
		c.packs.Break(why)
		var denied *terminal.Denied
		if _, err := c.ActivateShown(ctx, v.ID); !errors.As(err, &denied) || denied.Code != code || !errors.Is(err, why) || len(c.packs.Sold()) != 0 {
			t.Errorf("%v: %v", why, err)
		}
	}
}

func TestPackIsPutOnSaleBySomebodySignedOn(t *testing.T) {
	c, scan := packsCounter(t)
	c.staff = terminaltest.NewStaff(map[string]string{"marie": "1111"})
	c.restart()
	v := c.Check(ctx, scan)
	if _, err := c.ActivateShown(ctx, v.ID); err == nil || len(c.packs.Sold()) != 0 {
		t.Fatalf("nobody put a pack on sale: %v", err)
	}
}

func TestCountersOwnFaultsFitTheClerksScreen(t *testing.T) {
	for _, f := range terminal.Faults() {
		for _, text := range []string{f.ClerkFR, f.ClerkEN} {
			lines := strings.Split(text, "\n")
			if len(lines) > 2 || slices.ContainsFunc(lines, func(l string) bool { return len([]rune(l)) > 32 }) {
				t.Errorf("%s: %q", f.Code, text)
			}
		}
		if f.Clerk(money.French) == f.Clerk(money.English) || f.Technician == "" {
			t.Errorf("%+v", f)
		}
	}
}
