package terminal_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"grattoir/device/terminal"
	"grattoir/device/terminal/terminaltest"
	"grattoir/validate"
	"grattoir/validate/money"
	"grattoir/validate/policy"
	"grattoir/validate/ticket"
)

// counter is a terminal with everything it stands on.
type counter struct {
	*terminal.Terminal
	shelf   *terminaltest.Shelf
	ledger  *terminaltest.Ledger
	printer *terminaltest.Printer
	central *terminaltest.Central
	log     *strings.Builder
	limits  policy.Policy // in force now
	asked   int           // how often it was asked

	releases bool                   // with the day's end
	slips    policy.ResultSlips     // of checks
	staff    *terminaltest.Staff    // nil for none
	register *terminaltest.Register // nil for none
	packs    *terminaltest.Packs    // nil for none
	messages *terminaltest.Messages // nil for none

	mu      sync.Mutex
	steps   []string
	stepped chan struct{} // closed at the next step
	looks   []validate.Looked
}

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func newCounter() *counter {
	now := func() time.Time { return noon }
	c := &counter{shelf: terminaltest.NewShelf(), ledger: terminaltest.NewLedger("T-1", now), printer: terminaltest.NewPrinter(),
		central: terminaltest.NewCentral(), log: &strings.Builder{}, stepped: make(chan struct{}),
		limits: policy.Policy{Version: "p1", Currency: "EUR", ShopLimit: 30000, ConfirmCashPrize: 10000, ConfirmCashTotal: 12000,
			IdentityPrize: 200000, IdentityTotalOver: 30000, ClaimDays: 30}}
	c.restart()
	return c
}

// restart makes a new terminal over what is left after a power cut.
func (c *counter) restart() {
	opt := terminal.Options{Name: "T-1", Shelf: c.shelf, Ledger: c.ledger, Printer: c.printer, Central: c.central, Currency: "EUR",
		Policy: func() policy.Policy { c.asked++; return c.limits },
		Now:    func() time.Time { return noon }, Trusted: func() time.Time { return noon },
		Log: slog.New(slog.NewTextHandler(c.log, nil)), Operator: "marie", ReleaseAtClose: c.releases, ResultSlips: c.slips,
		Step: func(s string) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.steps = append(c.steps, s)
			close(c.stepped)
			c.stepped = make(chan struct{})
		}}
	if c.staff != nil {
		opt.Staff = c.staff
	}
	if c.register != nil {
		opt.Register = c.register
	}
	if c.packs != nil {
		opt.Packs = c.packs
	}
	if c.messages != nil {
		opt.Messages = c.messages
	}
	opt.Looked = func(x validate.Looked) { c.looks = append(c.looks, x) }
	c.Terminal = terminal.New(opt)
}

// runs starts printing until the test ends or stop is called.
func (c *counter) runs(t *testing.T) (stop func()) {
	t.Helper()
	if _, err := c.Recover(context.Background()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() { c.Run(ctx) })
	stop = func() { cancel(); done.Wait() }
	t.Cleanup(stop)
	return stop
}

func (c *counter) ticket(t testing.TB, number int, tier int, amount money.Amount) ticket.Code {
	t.Helper()
	code, err := ticket.Make(ticket.G40(), "399", 123, uint16(number), fmt.Sprintf("%022d", 1234567+number))
	if err != nil {
		t.Fatal(err)
	}
	c.shelf.Add(code, validate.Opened{Block: validate.BlockID{7}, Game: "bingo", GameName: "Bingo", Emission: "1", Number: 1, Currency: "EUR", Tier: tier, Amount: amount})
	return code
}

func (c *counter) check(code ticket.Code) terminal.View {
	return c.Check(context.Background(), terminal.Scan{Text: code.Digits(), Entered: validate.Scanned})
}

func (c *counter) pay(t testing.TB, v terminal.View) terminal.View {
	t.Helper()
	v, err := c.Pay(context.Background(), v.ID, terminal.Confirmed{})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func slips(t *testing.T, c *counter, n int) []validate.Receipt {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	list, err := c.printer.Await(ctx, n)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// settled waits until no slip waits.
func settled(t *testing.T, c *counter) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for {
		_, changed := c.State()
		if list, err := c.ledger.Unprinted(ctx); err != nil {
			t.Fatal(err)
		} else if len(list) == 0 {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatal("a slip still waits")
		}
	}
}

func TestCheckCommitsNothing(t *testing.T) {
	c := newCounter()
	code := c.ticket(t, 1, 8, 2000)
	for range 3 {
		if v := c.check(code); v.Verdict.Reason != validate.Winner || *v.Verdict.AmountMinor != 2000 {
			t.Fatalf("%+v", v.Verdict)
		}
	}
	if n := len(c.ledger.Claims()); n != 0 {
		t.Fatalf("%d claims after checks", n)
	}
}

// TestEachAnswerIsToldOnceWithItsTicket: what central may learn of it, and no secret.
func TestEachAnswerIsToldOnceWithItsTicket(t *testing.T) {
	c := newCounter()
	won := c.ticket(t, 1, 8, 2000)
	c.check(won)
	c.Check(context.Background(), terminal.Scan{Text: "1234", Entered: validate.Typed})
	c.Check(context.Background(), terminal.Scan{Text: won.Digits(), Entered: validate.Typed})
	key := validate.TicketKey{Block: validate.BlockID{7}, Pack: 123, Number: 1}
	want := []validate.Looked{{Ticket: key, Reason: validate.Winner, Entered: validate.Scanned, Operator: "marie", At: noon}, {Reason: validate.CodeMisread, Entered: validate.Typed, Operator: "marie", At: noon},
		{Ticket: key, Reason: validate.Winner, Entered: validate.Typed, Operator: "marie", At: noon}}
	if !slices.Equal(c.looks, want) {
		t.Errorf("%+v\nwant %+v", c.looks, want)
	}
}

func TestPaymentIsDurableBeforeAnythingShowsIt(t *testing.T) {
	c := newCounter()
	c.pay(t, c.check(c.ticket(t, 1, 8, 2000)))
	recorded, shown := slices.Index(c.steps, "recorded"), slices.Index(c.steps, "paid-shown")
	if recorded < 0 || shown < recorded {
		t.Fatalf("steps %v", c.steps)
	}
	claims := c.ledger.Claims()
	if len(claims) != 1 || claims[0].Amount != 2000 || claims[0].Tier != 8 || claims[0].Operator != "marie" || claims[0].Policy != "p1" ||
		claims[0].OwnerEpoch != 1 || claims[0].Entered != validate.Scanned || !claims[0].FirstCheck.Equal(noon) {
		t.Fatalf("%+v", claims)
	}
}

func TestDoubleTapPaysOnceAndShowsTheSameReceipt(t *testing.T) {
	c := newCounter()
	v := c.check(c.ticket(t, 1, 8, 2000))
	var all sync.WaitGroup
	numbers := make([]string, 20)
	for i := range numbers {
		all.Go(func() {
			if paid, err := c.Pay(context.Background(), v.ID, terminal.Confirmed{}); err == nil && paid.Receipt != nil && paid.Verdict.Reason == validate.Winner {
				numbers[i] = paid.Receipt.Number.String()
			}
		})
	}
	all.Wait()
	for _, n := range numbers {
		if n != "1-000001" {
			t.Fatalf("%v", numbers)
		}
	}
	if n := len(c.ledger.Claims()); n != 1 {
		t.Fatalf("%d claims", n)
	}
}

func TestPageThatShowsAnotherTicketPaysNothing(t *testing.T) {
	c := newCounter()
	first := c.check(c.ticket(t, 1, 8, 2000))
	c.check(c.ticket(t, 2, 1, 30000))
	for _, id := range []string{first.ID, "", strings.Repeat("0", 32)} {
		if _, err := c.Pay(context.Background(), id, terminal.Confirmed{Cash: true}); !errors.Is(err, terminal.ErrStale) {
			t.Fatalf("%q: %v", id, err)
		}
	}
	if n := len(c.ledger.Claims()); n != 0 {
		t.Fatalf("%d claims", n)
	}
}

func TestSecondPaymentIsAlreadyPaidHereAlsoAfterARestart(t *testing.T) {
	c := newCounter()
	code := c.ticket(t, 1, 8, 2000)
	c.pay(t, c.check(code))
	for range 2 {
		v := c.check(code)
		if v.Verdict.Reason != validate.AlreadyPaidHere || v.Verdict.Paid == nil || v.Verdict.Paid.Number != "1-000001" || !v.Verdict.Paid.At.Equal(noon) {
			t.Fatalf("%+v", v.Verdict)
		}
		if v = c.pay(t, v); v.Stage == terminal.Paid {
			t.Fatal("paid twice")
		}
		c.restart()
	}
}

// TestReversedTicketIsPaidAgainWithCentralsGrantOnly: its first payment was taken back,
// and the pack's owner alone may not pay it again.
func TestReversedTicketIsPaidAgainWithCentralsGrantOnly(t *testing.T) {
	c := newCounter()
	code := c.ticket(t, 1, 8, 2000)
	v := c.pay(t, c.check(code))
	c.ledger.Reverse(v.Opened.Key())
	if v = c.check(code); v.Verdict.Reason != validate.NeedsCentral {
		t.Fatalf("%+v", v.Verdict)
	}
	c.central.Set(func(s *terminal.Standing) { s.Asks = true })
	v = c.ask(t, c.check(code))
	c.ledger.Answer(v.ID, func(i *validate.Intent) { i.State = validate.IntentApproved })
	if v = c.pay(t, c.check(code)); v.Stage != terminal.Paid || v.Receipt.Round != 1 {
		t.Fatalf("%s %+v", v.Stage, v.Verdict)
	}
	if v = c.check(code); v.Verdict.Reason != validate.AlreadyPaidHere {
		t.Fatalf("%+v", v.Verdict)
	}
}

func TestPaymentThatLostARaceIsRefused(t *testing.T) {
	c := newCounter()
	code := c.ticket(t, 1, 8, 2000)
	v := c.check(code)
	other := validate.Claim{ID: strings.Repeat("a", 32), Ticket: v.Opened.Key(), Tier: 8, Amount: 2000, Currency: "EUR"}
	if _, err := c.ledger.Record(context.Background(), other); err != nil {
		t.Fatal(err)
	}
	if v = c.pay(t, v); v.Stage == terminal.Paid || v.Verdict.Reason != validate.AlreadyPaidHere {
		t.Fatalf("%s %+v", v.Stage, v.Verdict)
	}
}

func TestLargePaymentNeedsTheClerksConfirmation(t *testing.T) {
	c := newCounter()
	v := c.check(c.ticket(t, 1, 5, 10000))
	if !slices.Equal(v.Verdict.Needs, []validate.Need{validate.ConfirmCash}) {
		t.Fatalf("%v", v.Verdict.Needs)
	}
	if _, err := c.Pay(context.Background(), v.ID, terminal.Confirmed{}); !errors.Is(err, terminal.ErrNeeds) || len(c.ledger.Claims()) != 0 {
		t.Fatalf("%v", err)
	}
	if v, err := c.Pay(context.Background(), v.ID, terminal.Confirmed{Cash: true}); err != nil || v.Stage != terminal.Paid {
		t.Fatalf("%v %v", v.Stage, err)
	}
}

func TestPaperOutBlocksPayAndNotCheck(t *testing.T) {
	c := newCounter()
	c.printer.Break(terminaltest.PaperOut())
	v := c.check(c.ticket(t, 1, 8, 2000))
	if v.Verdict.Reason != validate.Winner {
		t.Fatalf("check: %s", v.Verdict.Reason)
	}
	if v = c.pay(t, v); v.Verdict.Reason != validate.PrinterNotReady || len(c.ledger.Claims()) != 0 {
		t.Fatalf("pay: %s", v.Verdict.Reason)
	}
	c.printer.Break(nil)
	if v = c.pay(t, v); v.Stage != terminal.Paid {
		t.Fatalf("after a new roll: %s", v.Verdict.Reason)
	}
}

func TestTicketRefusedForPaperIsPayableAgainAfterANewRoll(t *testing.T) {
	c := newCounter()
	c.runs(t)
	c.printer.Break(terminaltest.PaperOut())
	v := c.pay(t, c.check(c.ticket(t, 1, 8, 2000)))
	if v.Verdict.Reason != validate.PrinterNotReady {
		t.Fatalf("%s", v.Verdict.Reason)
	}
	c.printer.Break(nil)
	for {
		state, changed := c.State()
		if state.View.Verdict.Reason == validate.Winner {
			break
		}
		<-changed
	}
	if v = c.pay(t, v); v.Stage != terminal.Paid {
		t.Fatalf("%s", v.Verdict.Reason)
	}
}

func TestFifthFailedSecretLocksTheTicketForTheRightOneToo(t *testing.T) {
	c := newCounter()
	code := c.ticket(t, 1, 8, 2000)
	for n := range validate.MaxAttempts {
		forged, err := ticket.Make(code.Layout, code.Game, code.Pack, code.Number, fmt.Sprintf("%022d", n))
		if err != nil {
			t.Fatal(err)
		}
		if v := c.check(forged); v.Verdict.Reason != validate.NotAuthentic {
			t.Fatalf("try %d: %s", n+1, v.Verdict.Reason)
		}
		if n == 2 {
			c.restart()
		}
	}
	if v := c.check(code); v.Verdict.Reason != validate.TooManyAttempts {
		t.Fatalf("after five: %s", v.Verdict.Reason)
	}
	if list := c.ledger.Reported(); len(list) != 1 || list[0].Reason != validate.TooManyAttempts || list[0].Ticket.Number != code.Number {
		t.Errorf("central hears of %+v", list)
	}
}

func TestUnreadableLedgerIsNeitherARefusalNorAPayment(t *testing.T) {
	c := newCounter()
	code := c.ticket(t, 1, 8, 2000)
	c.ledger.BreakReads(errors.New("disk I/O error"))
	v := c.check(code)
	if v.Verdict.Reason != validate.LedgerNotWritable || v.Verdict.Outcome != validate.Refer {
		t.Fatalf("%+v", v.Verdict)
	}
	c.ledger.BreakReads(nil)
	v = c.check(code)
	c.ledger.Break(errors.New("disk full"))
	if v = c.pay(t, v); v.Verdict.Reason != validate.LedgerNotWritable || len(c.ledger.Claims()) != 0 {
		t.Fatalf("%+v", v.Verdict)
	}
}

func TestMisreadIsNeitherALoserNorAForgery(t *testing.T) {
	c := newCounter()
	code := c.ticket(t, 1, 8, 2000).Digits()
	public, err := ticket.Make(ticket.G18(), "399", 123, 1, "")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"a digit wrong": code[:39] + string('0'+('9'-code[39])%10), "nothing": "", "half": code[:20],
		"an EAN": "3017620422003", "the public code on the back": public.Digits()} {
		v := c.Check(context.Background(), terminal.Scan{Text: text})
		if v.Verdict.Reason != validate.CodeMisread || v.Verdict.Outcome != validate.Again || v.Detail == "" {
			t.Errorf("%s: %s, %q", name, v.Verdict.Reason, v.Detail)
		}
	}
}

func TestSlipsComeOutInTheLedgersOrderEachOnce(t *testing.T) {
	c := newCounter()
	c.runs(t)
	for i := range 5 {
		c.pay(t, c.check(c.ticket(t, i, 8, 2000)))
	}
	for i, s := range slips(t, c, 5) {
		if s.Number.Seq != int64(i+1) || s.Copies != 1 {
			t.Fatalf("slip %d is %v, copy %d", i+1, s.Number, s.Copies)
		}
	}
	settled(t, c)
	for _, r := range c.ledger.Claims() {
		if r.Print != validate.Printed {
			t.Errorf("%v: %s", r.Number, r.Print)
		}
	}
}

func TestRecoverReprintsAfterPowerCutAsDuplicata(t *testing.T) {
	c := newCounter()
	c.pay(t, c.check(c.ticket(t, 1, 8, 2000))) // nothing prints yet: the power goes
	c.restart()
	c.runs(t)
	if s := slips(t, c, 1)[0]; s.Copies != 2 {
		t.Fatalf("copy %d after a cut in sending", s.Copies)
	}
	settled(t, c)
	c.restart()
	c.runs(t)
	settled(t, c)
	if n := len(c.printer.Slips()); n != 1 {
		t.Fatalf("%d slips after another restart", n)
	}
}

func TestSlipHeldBeforeItsFirstByteStaysTheOriginal(t *testing.T) {
	c := newCounter()
	v := c.pay(t, c.check(c.ticket(t, 1, 8, 2000)))
	if err := c.ledger.Mark(context.Background(), v.Receipt.Number, validate.Held); err != nil {
		t.Fatal(err)
	}
	c.restart()
	c.runs(t)
	if s := slips(t, c, 1)[0]; s.Copies != 1 {
		t.Fatalf("copy %d, though nothing had been sent", s.Copies)
	}
}

// TestCutWhileAHeldSlipIsRetriedGivesADuplicata: once its first byte may have left, the
// slip is no longer held, also when the power goes again.
func TestCutWhileAHeldSlipIsRetriedGivesADuplicata(t *testing.T) {
	c := newCounter()
	v := c.pay(t, c.check(c.ticket(t, 1, 8, 2000)))
	if err := c.ledger.Mark(context.Background(), v.Receipt.Number, validate.Held); err != nil {
		t.Fatal(err)
	}
	c.printer.Pause()
	c.restart()
	stop := c.runs(t)
	for { // until the retry has begun
		_, changed := c.State()
		if c.ledger.Claims()[0].Print == validate.Sending {
			break
		}
		<-changed
	}
	stop()
	c.printer.Resume()
	c.restart()
	c.runs(t)
	if s := slips(t, c, 1)[0]; s.Copies != 2 {
		t.Fatalf("copy %d", s.Copies)
	}
}

func TestReprintIsADuplicataAndCounted(t *testing.T) {
	c := newCounter()
	c.runs(t)
	v := c.pay(t, c.check(c.ticket(t, 1, 8, 2000)))
	slips(t, c, 1)
	settled(t, c)
	for want := 2; want <= 3; want++ {
		if _, err := c.Reprint(context.Background(), v.Receipt.Number); err != nil {
			t.Fatal(err)
		}
		if s := slips(t, c, want); s[want-1].Copies != want {
			t.Fatalf("copy %d, want %d", s[want-1].Copies, want)
		}
		settled(t, c)
	}
	if n := len(c.ledger.Claims()); n != 1 {
		t.Fatalf("reprints made %d claims", n)
	}
}

// TestSlipWhoseMarkCannotBeStoredIsNotPrintedAgain: the disk fills while the slip
// prints. It is out; only its mark is tried again.
func TestSlipWhoseMarkCannotBeStoredIsNotPrintedAgain(t *testing.T) {
	c := newCounter()
	v := c.pay(t, c.check(c.ticket(t, 1, 8, 2000)))
	c.ledger.Break(errors.New("database or disk is full"))
	c.runsWithout(t)
	slips(t, c, 1)
	c.printer.Break(terminaltest.PaperOut()) // its changes wake the printing
	c.printer.Break(nil)
	c.ledger.Break(nil)
	settled(t, c)
	if n := len(c.printer.Slips()); n != 1 {
		t.Fatalf("%d slips of %v", n, v.Receipt.Number)
	}
}

// runsWithout starts printing in the same run, with no restart before it.
func (c *counter) runsWithout(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() { c.Run(ctx) })
	t.Cleanup(func() { cancel(); done.Wait() })
}

func TestFullDiskAtTheStartKeepsSlipsAndStillAnswers(t *testing.T) {
	c := newCounter()
	code := c.ticket(t, 1, 8, 2000)
	c.pay(t, c.check(code))
	c.ledger.Break(errors.New("database or disk is full"))
	c.restart()
	c.runs(t)
	if v := c.check(code); v.Verdict.Reason != validate.AlreadyPaidHere {
		t.Fatalf("%s", v.Verdict.Reason)
	}
	c.ledger.Break(nil)
	c.printer.Break(terminaltest.PaperOut())
	c.printer.Break(nil)
	if s := slips(t, c, 1)[0]; s.Copies != 2 {
		t.Fatalf("copy %d", s.Copies)
	}
}

func TestOrderlyStopKeepsSlipsThatWereNotBegunAsOriginals(t *testing.T) {
	c := newCounter()
	c.printer.Pause()
	for i := range 3 {
		c.pay(t, c.check(c.ticket(t, i, 8, 2000)))
	}
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() { c.Run(ctx) })
	for { // until the first is in the printer
		c.mu.Lock()
		begun, stepped := slices.Contains(c.steps, "sending"), c.stepped
		c.mu.Unlock()
		if begun {
			break
		}
		<-stepped
	}
	cancel()
	done.Wait()
	c.printer.Resume()
	c.restart()
	c.runs(t)
	for i, s := range slips(t, c, 3) {
		if want := []int{2, 1, 1}[i]; s.Copies != want {
			t.Errorf("slip %d is copy %d, want %d", i+1, s.Copies, want)
		}
	}
}

func TestPaymentAskedForAgainAfterTheNextScanNamesItsReceipt(t *testing.T) {
	c := newCounter()
	first := c.pay(t, c.check(c.ticket(t, 1, 8, 2000)))
	c.check(c.ticket(t, 2, 8, 2000))
	again, err := c.Pay(context.Background(), first.ID, terminal.Confirmed{})
	if err != nil || again.Receipt == nil || again.Receipt.Number != first.Receipt.Number {
		t.Fatalf("%+v %v", again.Receipt, err)
	}
	if state, _ := c.State(); state.View.ID == first.ID || len(c.ledger.Claims()) != 1 {
		t.Fatal("the counter moved, or paid")
	}
}

func TestWhoAskedMayLeaveAndTheCounterShowsATrueAnswer(t *testing.T) {
	c := newCounter()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	v := c.Check(ctx, terminal.Scan{Text: c.ticket(t, 1, 8, 2000).Digits()})
	if v.Verdict.Reason != validate.Winner {
		t.Fatalf("%s: %s", v.Verdict.Reason, v.Detail)
	}
}

func TestReprintOfASlipThatStillWaitsIsRefused(t *testing.T) {
	c := newCounter()
	v := c.pay(t, c.check(c.ticket(t, 1, 8, 2000)))
	for _, state := range []validate.PrintState{validate.Sending, validate.Held} {
		if err := c.ledger.Mark(context.Background(), v.Receipt.Number, state); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Reprint(context.Background(), v.Receipt.Number); err == nil {
			t.Errorf("%s: a second copy was begun while the first waits", state)
		}
	}
	if r := c.ledger.Claims()[0]; r.Copies != 1 {
		t.Fatalf("%d copies counted", r.Copies)
	}
}

// meeting is a ledger that shows a receipt to two at a time, where two come.
type meeting struct {
	*terminaltest.Ledger
	both chan struct{}
}

func (m meeting) Receipt(ctx context.Context, n validate.EntryNumber) (validate.Receipt, error) {
	r, err := m.Ledger.Receipt(ctx, n)
	select {
	case m.both <- struct{}{}:
	case <-m.both:
	case <-time.After(100 * time.Millisecond): // nobody else comes
	}
	return r, err
}

// TestReprintAskedForTwiceAtOnceIsOneCopy: a copy more than there is paper would be counted.
func TestReprintAskedForTwiceAtOnceIsOneCopy(t *testing.T) {
	c := newCounter()
	v := c.pay(t, c.check(c.ticket(t, 1, 8, 2000)))
	if err := c.ledger.Mark(context.Background(), v.Receipt.Number, validate.Printed); err != nil {
		t.Fatal(err)
	}
	c.Terminal = terminal.New(terminal.Options{Name: "T-1", Shelf: c.shelf, Ledger: meeting{c.ledger, make(chan struct{})}, Printer: c.printer, Central: c.central,
		Policy: func() policy.Policy { return c.limits }, Now: func() time.Time { return noon }, Log: slog.New(slog.DiscardHandler)})
	ended := make(chan error, 2)
	for range 2 {
		go func() {
			_, err := c.Reprint(context.Background(), v.Receipt.Number)
			ended <- err
		}()
	}
	first, second := <-ended, <-ended
	if r := c.ledger.Claims()[0]; r.Copies != 2 || (first == nil) == (second == nil) {
		t.Errorf("%d copies are counted; %v, %v", r.Copies, first, second)
	}
}

func TestSlipThatMayBeOutIsNotSentAgainByItself(t *testing.T) {
	c := newCounter()
	c.runs(t)
	c.printer.Reach(validate.Unknown)
	v := c.pay(t, c.check(c.ticket(t, 1, 8, 2000)))
	slips(t, c, 1)
	settled(t, c)
	if r := c.ledger.Claims()[0]; r.Print != validate.Unknown {
		t.Fatalf("%s", r.Print)
	}
	c.printer.Reach(validate.Printed)
	if _, err := c.Reprint(context.Background(), v.Receipt.Number); err != nil {
		t.Fatal(err)
	}
	if s := slips(t, c, 2); s[1].Copies != 2 {
		t.Fatal("the copy after doubt is not marked")
	}
}

func TestLogNamesTicketsWithoutTheirSecrets(t *testing.T) {
	c := newCounter()
	code := c.ticket(t, 1, 8, 2000)
	c.pay(t, c.check(code))
	if text := c.log.String(); strings.Contains(text, code.Secret()) || !strings.Contains(text, "00399-0000123-001") {
		t.Fatal(text)
	}
}

func TestPackThatIsNotActiveIsNotPaid(t *testing.T) {
	c := newCounter()
	c.central.Set(func(s *terminal.Standing) { s.Pack = validate.PackDelivered })
	v := c.check(c.ticket(t, 1, 8, 2000))
	if v.Verdict.Reason != validate.PackNotActive || v.Verdict.AmountMinor != nil {
		t.Fatalf("%+v", v.Verdict)
	}
	if v = c.pay(t, v); v.Stage == terminal.Paid {
		t.Fatal("paid")
	}
}

// TestCentralHearsOfAStolenTicketThatIsPresented, once.
func TestCentralHearsOfAStolenTicketThatIsPresented(t *testing.T) {
	c := newCounter()
	c.central.Set(func(s *terminal.Standing) { s.Pack = validate.PackStolenNow })
	code := c.ticket(t, 1, 8, 2000)
	for range 2 {
		if v := c.check(code); v.Verdict.Reason != validate.PackStolen {
			t.Fatalf("%+v", v.Verdict)
		}
	}
	if list := c.ledger.Reported(); len(list) != 1 || list[0].Reason != validate.PackStolen || list[0].Operator != "marie" || list[0].Entered != validate.Scanned {
		t.Errorf("central hears of %+v", list)
	}
}

// twoPart puts a ticket of a two-part layout on the shelf.
func (c *counter) twoPart(t testing.TB, amount money.Amount) ticket.Code {
	t.Helper()
	c.shelf = terminaltest.NewShelf(ticket.G40(), ticket.MI18())
	c.restart()
	code, err := ticket.Make(ticket.MI18(), "399", 123, 17, "04711")
	if err != nil {
		t.Fatal(err)
	}
	c.shelf.Add(code, validate.Opened{Block: validate.BlockID{7}, Game: "bingo", GameName: "Bingo", Currency: "EUR", Tier: 3, Amount: amount})
	return code
}

func TestTwoPartCodeIsScannedThenTypedThenPaid(t *testing.T) {
	c := newCounter()
	code := c.twoPart(t, 2000)
	v := c.Check(context.Background(), terminal.Scan{Text: code.Digits()[:13], AIM: 'C', Entered: validate.Scanned})
	if v.Stage != terminal.Typing || v.Verdict.Outcome != validate.Again || v.Code.TypedDigits() != 5 || v.Detail != "" {
		t.Fatalf("%+v", v)
	}
	if paid, err := c.Pay(context.Background(), v.ID, terminal.Confirmed{Cash: true}); err != nil || paid.Stage == terminal.Paid {
		t.Fatalf("paid half a code: %+v %v", paid, err)
	}
	if _, err := c.Complete(context.Background(), "another", "04711"); !errors.Is(err, terminal.ErrStale) {
		t.Fatalf("digits for another ticket: %v", err)
	}
	half, err := c.Complete(context.Background(), v.ID, "0471")
	if err != nil || half.Stage != terminal.Typing || !strings.Contains(half.Detail, "4 hidden digits") || half.ID != v.ID {
		t.Fatalf("%+v %v", half, err)
	}
	done, err := c.Complete(context.Background(), v.ID, "04711")
	if err != nil || done.Verdict.Reason != validate.Winner || done.Entered != validate.TwoPart || done.ID != v.ID {
		t.Fatalf("%+v %v", done, err)
	}
	if _, err := c.Complete(context.Background(), v.ID, "04711"); !errors.Is(err, terminal.ErrStale) {
		t.Errorf("digits for a whole code: %v", err)
	}
	if paid := c.pay(t, done); paid.Stage != terminal.Paid || c.ledger.Claims()[0].Entered != validate.TwoPart {
		t.Fatalf("%+v", paid)
	}
	if strings.Contains(c.log.String(), "04711") {
		t.Error("the log shows the hidden digits")
	}
}

func TestWrongHiddenDigitsAreCountedAndLockTheTicket(t *testing.T) {
	c := newCounter()
	code := c.twoPart(t, 2000)
	try := func(digits string) validate.Reason {
		v := c.Check(context.Background(), terminal.Scan{Text: code.Digits()[:13]})
		v, err := c.Complete(context.Background(), v.ID, digits)
		if err != nil {
			t.Fatal(err)
		}
		return v.Verdict.Reason
	}
	for n := range validate.MaxAttempts {
		if r := try(fmt.Sprintf("%05d", n)); r != validate.NotAuthentic {
			t.Fatalf("try %d: %s", n+1, r)
		}
	}
	if r := try("04711"); r != validate.TooManyAttempts {
		t.Errorf("the right digits after %d wrong ones: %s", validate.MaxAttempts, r)
	}
}

func TestFirstPartOfAGameThatIsNotHereAsksForNoDigits(t *testing.T) {
	c := newCounter()
	c.twoPart(t, 2000)
	if v := c.Check(context.Background(), terminal.Scan{Text: "3017620422003"}); v.Stage != terminal.Verdict || v.Verdict.Reason != validate.GameUnknown {
		t.Errorf("a bottle's code: %s, %+v", v.Stage, v.Verdict)
	}
}
