package validate

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"grattoir/validate/money"
	"grattoir/validate/policy"
	"grattoir/validate/ticket"
)

// conditions are, for each reason in the order in which they win, the smallest change
// to a payable winner that makes it the answer.
var conditions = []struct {
	reason Reason
	change func(*Opened, *Facts, *policy.Policy, *Clock)
}{
	{CodeMisread, func(o *Opened, _ *Facts, _ *policy.Policy, _ *Clock) { o.Finding = Misread }},
	{WaitingForCentral, func(_ *Opened, f *Facts, _ *policy.Policy, _ *Clock) { f.Right = RightAsking }},
	{TerminalSuspended, func(_ *Opened, f *Facts, _ *policy.Policy, _ *Clock) { f.TerminalSuspended = true }},
	{LedgerNotWritable, func(_ *Opened, f *Facts, _ *policy.Policy, _ *Clock) { f.LedgerWritable = false }},
	{GameUnknown, func(o *Opened, _ *Facts, _ *policy.Policy, _ *Clock) { o.Finding = NoGame }},
	{BlockNotHere, func(o *Opened, _ *Facts, _ *policy.Policy, _ *Clock) { o.Finding = NoBlock }},
	{TicketNotInBlock, func(o *Opened, _ *Facts, _ *policy.Policy, _ *Clock) { o.Finding = NotInBlock }},
	{ManifestDamaged, func(o *Opened, _ *Facts, _ *policy.Policy, _ *Clock) { o.Finding = Damaged }},
	{TooManyAttempts, func(_ *Opened, f *Facts, _ *policy.Policy, _ *Clock) { f.TooManyAttempts = true }},
	{NotAuthentic, func(o *Opened, _ *Facts, _ *policy.Policy, _ *Clock) { o.Finding = Counterfeit }},
	{DemonstrationBlock, func(o *Opened, _ *Facts, _ *policy.Policy, _ *Clock) { o.Scaled = true }},
	{GameSuspended, func(_ *Opened, f *Facts, _ *policy.Policy, _ *Clock) { f.GameSuspended = true }},
	{PackStolen, func(_ *Opened, f *Facts, _ *policy.Policy, _ *Clock) { f.Pack = PackStolenNow }},
	{PackReturned, func(_ *Opened, f *Facts, _ *policy.Policy, _ *Clock) { f.Pack = PackReturn }},
	{PackNotActive, func(_ *Opened, f *Facts, _ *policy.Policy, _ *Clock) { f.Pack = PackDelivered }},
	{TicketVoid, func(_ *Opened, f *Facts, _ *policy.Policy, _ *Clock) { f.VoidBox = true }},
	{AlreadyPaidHere, func(_ *Opened, f *Facts, _ *policy.Policy, _ *Clock) { f.PaidHere = &Payment{Number: "1-000001"} }},
	{AlreadyPaidElsewhere, func(_ *Opened, f *Facts, _ *policy.Policy, _ *Clock) { f.PaidElsewhere = &Payment{Number: "1-000002"} }},
	{NotAWinner, func(o *Opened, _ *Facts, _ *policy.Policy, _ *Clock) { o.Tier, o.Amount = 0, 0 }},
	{ClaimPeriodOver, func(_ *Opened, f *Facts, _ *policy.Policy, _ *Clock) {
		f.Closed = policy.Date{Year: 2026, Month: 1, Day: 2}
	}},
	{CreditedToAccount, func(o *Opened, _ *Facts, _ *policy.Policy, _ *Clock) { o.Internet = true }},
	{Misprint, func(_ *Opened, f *Facts, _ *policy.Policy, _ *Clock) { f.Misprint = true }},
	{ClockNotTrusted, func(_ *Opened, f *Facts, _ *policy.Policy, now *Clock) {
		f.Closed = policy.Date{Year: 2026, Month: 1, Day: 2}
		now.Trusted = time.Time{}
	}},
	{PrizeNotMoney, func(o *Opened, _ *Facts, _ *policy.Policy, _ *Clock) { o.NotMoney = true }},
	{AboveShopLimit, func(_ *Opened, _ *Facts, p *policy.Policy, _ *Clock) { p.ShopLimit = 1999 }},
	{NeedsCentral, func(_ *Opened, f *Facts, _ *policy.Policy, _ *Clock) { f.Right = RightNone }},
	{OwnerSilent, func(_ *Opened, f *Facts, _ *policy.Policy, _ *Clock) { f.Right = RightSilent }},
	{AllowanceSpent, func(_ *Opened, f *Facts, _ *policy.Policy, _ *Clock) { f.AllowanceLeft = false }},
	{PrinterNotReady, func(_ *Opened, f *Facts, _ *policy.Policy, _ *Clock) { f.PrinterReady = false }},
	{Winner, func(*Opened, *Facts, *policy.Policy, *Clock) {}},
}

func payable(t testing.TB) (Opened, Facts, policy.Policy, Clock) {
	t.Helper()
	code, err := ticket.Make(ticket.G40(), "399", 123, 17, strings.Repeat("7", 22))
	if err != nil {
		t.Fatal(err)
	}
	o := Opened{Finding: Authentic, Code: code, Block: BlockID{1}, Game: "bingo", Emission: "1", Number: 1, Currency: "EUR", Tier: 8, Amount: 2000}
	f := Facts{Paying: true, LedgerWritable: true, Pack: PackActive, Right: RightOwner, AllowanceLeft: true, PrinterReady: true}
	p := policy.Policy{Version: "p1", Currency: "EUR", ShopLimit: 30000, ConfirmCashPrize: 10000, IdentityPrize: 200000, ClaimDays: 30}
	return o, f, p, Clock{Trusted: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)}
}

func TestEachReasonHasItsExactCondition(t *testing.T) {
	for _, c := range conditions {
		o, f, p, now := payable(t)
		c.change(&o, &f, &p, &now)
		if v := Decide(o, f, p, now); v.Reason != c.reason || v.Outcome != c.reason.Outcome() {
			t.Errorf("%s: decided %s, %s", c.reason, v.Outcome, v.Reason)
		}
	}
}

// TestReasonsWinInThePublishedOrder applies each pair of conditions at once: the
// earlier reason answers, unless the later change undoes the earlier one.
func TestReasonsWinInThePublishedOrder(t *testing.T) {
	order := Reasons()
	if len(order) != len(conditions) {
		t.Fatalf("%d reasons, %d conditions", len(order), len(conditions))
	}
	for i, a := range conditions {
		if order[i] != a.reason {
			t.Fatalf("place %d: %s in the table, %s in Reasons", i, a.reason, order[i])
		}
		for _, b := range conditions[i+1:] {
			o, f, p, now := payable(t)
			b.change(&o, &f, &p, &now)
			a.change(&o, &f, &p, &now)
			if v := Decide(o, f, p, now); v.Reason != a.reason {
				// Undone: a is decided by a field that b set too, and b came first.
				alone := a.reason == ClaimPeriodOver && b.reason == ClockNotTrusted
				if !alone {
					t.Errorf("%s and %s: decided %s", a.reason, b.reason, v.Reason)
				}
			}
		}
	}
}

func TestZeroValuesPayNothing(t *testing.T) {
	o, f, p, now := payable(t)
	for name, v := range map[string]Verdict{
		"zero verdict": {},
		"zero opened":  Decide(Opened{}, f, p, now),
		"zero facts":   Decide(o, Facts{}, p, now),
		"zero policy":  Decide(o, f, policy.Policy{}, now),
	} {
		if v.Outcome == Pay {
			t.Errorf("%s pays", name)
		}
	}
	o.Finding = "something new"
	if v := Decide(o, f, p, now); v.Outcome == Pay {
		t.Error("a finding nobody handles pays")
	}
}

func TestPackThatIsNotActiveTellsNoOutcome(t *testing.T) {
	for _, state := range []PackState{"", PackPrinted, PackDelivered, PackReturn, PackStolenNow} {
		var first Verdict
		for tier := range 3 {
			o, f, p, now := payable(t)
			f.Pack, o.Tier, o.Amount = state, tier, money.Amount(tier*1000)
			v := Decide(o, f, p, now)
			if v.AmountMinor != nil {
				t.Errorf("pack %q: the amount is told", state)
			}
			if tier == 0 {
				first = v
			}
			if v.Reason != first.Reason {
				t.Errorf("pack %q: tier %d gives %s, a loser %s", state, tier, v.Reason, first.Reason)
			}
		}
	}
}

func TestNeedsBeginAtTheirLimits(t *testing.T) {
	o, f, p, now := payable(t)
	p.ShopLimit = 1000000
	for _, c := range []struct {
		amount money.Amount
		want   int
	}{{9999, 0}, {10000, 1}, {199999, 1}, {200000, 2}} {
		o.Amount = c.amount
		if v := Decide(o, f, p, now); v.Reason != Winner || len(v.Needs) != c.want || v.Needs == nil {
			t.Errorf("%d: %s needs %v", c.amount, v.Reason, v.Needs)
		}
	}
}

func TestEveryReasonHasWordsThatFitTheClerksScreen(t *testing.T) {
	codes := map[string]Reason{}
	for _, r := range Reasons() {
		if other, twice := codes[r.Code()]; twice || r.Code() == "" || r.Technician() == "" {
			t.Errorf("%s: code %q (also %s), technician %q", r, r.Code(), other, r.Technician())
		}
		codes[r.Code()] = r
		for _, l := range []money.Language{money.French, money.English} {
			text := r.Text(l)
			if text.Word == "" || text.Player == "" {
				t.Errorf("%s %s: a text is missing", r, l)
			}
			for _, s := range []string{text.Clerk, text.Next} {
				lines := strings.Split(s, "\n")
				if s == "" || len(lines) > 2 {
					t.Errorf("%s %s: %d lines", r, l, len(lines))
				}
				for _, line := range lines {
					if n := utf8.RuneCountInString(line); n > 32 {
						t.Errorf("%s %s: %d columns: %s", r, l, n, line)
					}
				}
			}
		}
	}
}
