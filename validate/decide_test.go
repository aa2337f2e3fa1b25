package validate

import (
	"slices"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // the claim period is Paris's on every machine

	"pgregory.net/rapid"

	"grattoir/validate/money"
	"grattoir/validate/policy"
	"grattoir/validate/ticket"
)

// situation is everything that Decide looks at.
type situation struct {
	o   Opened
	f   Facts
	p   policy.Policy
	now Clock
}

func (s situation) decide() Verdict { return Decide(s.o, s.f, s.p, s.now) }

// asked tells whether a policy was asked at all.
func (s situation) asked() bool { return s.p.Version != policy.None().Version }

// an edit changes one thing of a payable winner.
type edit func(*situation)

// rule is the exact condition of one reason: in words, as a predicate that is written
// here a second time, and as the changes to a payable winner that turn it on, or that
// stop just short of it.
type rule struct {
	reason  Reason
	when    string
	holds   func(situation) bool
	on, off []edit
}

// risk is a payment that nobody answers about, under a policy that books so much.
func risk(limit money.Amount) edit {
	return func(s *situation) { s.f.Right, s.p.BookedRisk = RightRisk, limit }
}

// rules are all of them, in the order in which they win.
var rules = []rule{
	{CodeMisread, "no code was read", func(s situation) bool { return s.o.Finding == Misread || s.o.Finding == "" },
		[]edit{finding(Misread), finding("")}, []edit{finding(Authentic)}},
	{WaitingForCentral, "an intent is durable and not answered", func(s situation) bool { return s.f.Right == RightAsking },
		[]edit{right(RightAsking)}, []edit{right(RightGrant), right(RightOwner)}},
	{TerminalSuspended, "central suspended the terminal", func(s situation) bool { return s.f.TerminalSuspended },
		[]edit{func(s *situation) { s.f.TerminalSuspended = true }}, []edit{func(s *situation) { s.f.TerminalSuspended = false }}},
	{LedgerNotWritable, "a payment, and the ledger takes none", func(s situation) bool { return s.f.Paying && !s.f.LedgerWritable },
		[]edit{func(s *situation) { s.f.LedgerWritable = false }}, []edit{func(s *situation) { s.f.Paying, s.f.LedgerWritable = false, false }}},
	{GameUnknown, "nothing here knows the game code", func(s situation) bool { return s.o.Finding == NoGame }, []edit{finding(NoGame)}, []edit{finding(NoBlock)}},
	{BlockNotHere, "the game is known, its block with the pack is not here", func(s situation) bool { return s.o.Finding == NoBlock }, []edit{finding(NoBlock)}, []edit{finding(NotInBlock)}},
	{TicketNotInBlock, "the block has no such ticket", func(s situation) bool { return s.o.Finding == NotInBlock }, []edit{finding(NotInBlock)}, []edit{finding(NoBlock)}},
	{ManifestDamaged, "the file is damaged, the finding is none of those known, or tier and prize contradict each other", func(s situation) bool {
		switch s.o.Finding {
		case Misread, "", NoGame, NoBlock, NotInBlock, Counterfeit:
			return false
		case Authentic:
			loser := s.o.Tier == 0 && s.o.Amount == 0 && !s.o.NotMoney
			money := s.o.Tier > 0 && s.o.Amount > 0
			thing := s.o.Tier > 0 && s.o.Amount >= 0 && s.o.NotMoney
			return !loser && !money && !thing
		}
		return true
	}, []edit{finding(Damaged), finding("something new"), prize(0, 2000), prize(8, 0), prize(8, -1), prize(-1, 2000)}, []edit{prize(0, 0), prize(1, 1), finding(Counterfeit)}},
	{TooManyAttempts, "the failed secrets of the ticket have reached their number", func(s situation) bool { return s.f.TooManyAttempts },
		[]edit{func(s *situation) { s.f.TooManyAttempts = true }, func(s *situation) { s.f.TooManyAttempts, s.o.Finding = true, Counterfeit }}, []edit{finding(Counterfeit)}},
	{NotAuthentic, "the secret opens nothing", func(s situation) bool { return s.o.Finding == Counterfeit }, []edit{finding(Counterfeit)}, []edit{finding(Damaged)}},
	{DemonstrationBlock, "a scaled block where none is accepted", func(s situation) bool { return s.o.Scaled && !s.f.AcceptScaled },
		[]edit{func(s *situation) { s.o.Scaled = true }}, []edit{func(s *situation) { s.o.Scaled, s.f.AcceptScaled = true, true }, func(s *situation) { s.f.AcceptScaled = true }}},
	{GameSuspended, "central suspended the game", func(s situation) bool { return s.f.GameSuspended },
		[]edit{func(s *situation) { s.f.GameSuspended = true }}, []edit{func(s *situation) { s.f.GameSuspended = false }}},
	{PackStolen, "the pack or the ticket's range is stolen", func(s situation) bool { return s.f.Pack == PackStolenNow }, []edit{pack(PackStolenNow)}, []edit{pack(PackActive)}},
	{PackReturned, "the pack went back", func(s situation) bool { return s.f.Pack == PackReturn }, []edit{pack(PackReturn)}, []edit{pack(PackSettled)}},
	{PackNotActive, "the pack is neither active nor settled, or not known", func(s situation) bool {
		return !slices.Contains([]PackState{PackActive, PackSettled, PackStolenNow, PackReturn}, s.f.Pack)
	}, []edit{pack(""), pack(PackPrinted), pack(PackDelivered), pack("something new")}, []edit{pack(PackActive), pack(PackSettled)}},
	{TicketVoid, "the clerk saw the box uncovered", func(s situation) bool { return s.f.VoidBox },
		[]edit{func(s *situation) { s.f.VoidBox = true }}, []edit{func(s *situation) { s.f.VoidBox = false }}},
	{AlreadyPaidHere, "this ledger holds a claim that stands", func(s situation) bool { return s.f.PaidHere != nil },
		[]edit{func(s *situation) { s.f.PaidHere = &Payment{Number: "1-000001"} }}, []edit{func(s *situation) { s.f.PaidElsewhere = &Payment{} }}},
	{AlreadyPaidElsewhere, "central named a claim of another terminal", func(s situation) bool { return s.f.PaidElsewhere != nil },
		[]edit{func(s *situation) { s.f.PaidElsewhere = &Payment{Number: "1-000002"} }}, []edit{func(s *situation) { s.f.PaidHere = &Payment{} }}},
	{NotAWinner, "proven: tier 0", func(s situation) bool { return s.o.Finding == Authentic && s.o.Tier == 0 }, []edit{prize(0, 0)}, []edit{prize(1, 1)}},
	{ClaimPeriodOver, "the emission closed, the last day is known by trusted time to be over in Paris, and a policy was asked", func(s situation) bool {
		closed, trusted := s.f.Closed, s.now.Trusted
		if closed.IsZero() || trusted.IsZero() || s.p.ClaimDays <= 0 || !s.asked() {
			return false
		}
		y, m, d := trusted.In(inParis()).Date()
		return policy.LastClaimDay(closed, s.p.ClaimDays).Before(policy.Date{Year: y, Month: m, Day: d})
	}, []edit{closed("2026-10-30", "2026-11-30 23:00"), closed("2001-04-01", "2001-05-02 22:00")}, // midnight in Paris
		[]edit{closed("2026-10-31", "2026-11-30 22:59"), closed("2001-04-01", "2001-05-02 21:59"), closed("", "2026-11-30 12:00"), closed("2001-04-01", ""),
			func(s *situation) { closed("2001-04-01", "2026-11-30 12:00")(s); s.p = policy.None() },
			func(s *situation) { closed("2001-04-01", "2026-11-30 12:00")(s); s.p = policy.Policy{} }}},
	{CreditedToAccount, "the game pays to an account", func(s situation) bool { return s.o.Internet },
		[]edit{func(s *situation) { s.o.Internet = true }}, []edit{func(s *situation) { s.o.Internet = false }}},
	{Misprint, "the clerk saw a misprint", func(s situation) bool { return s.f.Misprint },
		[]edit{func(s *situation) { s.f.Misprint = true }}, []edit{func(s *situation) { s.f.Misprint = false }}},
	{ClockNotTrusted, "the emission closed and no trusted time is known", func(s situation) bool { return !s.f.Closed.IsZero() && s.now.Trusted.IsZero() },
		[]edit{closed("2001-04-01", ""), closed("2026-11-29", "")}, []edit{closed("", ""), closed("2026-11-29", "2026-11-30 12:00")}},
	{PrizeNotMoney, "the tier's prize is not money", func(s situation) bool { return s.o.NotMoney },
		[]edit{func(s *situation) { s.o.NotMoney = true }, func(s *situation) { s.o.NotMoney, s.o.Amount = true, 0 }}, []edit{prize(1, 1)}},
	{AboveShopLimit, "a policy was asked, and the prize is above its limit or in another currency", func(s situation) bool {
		return s.asked() && (s.o.Amount > s.p.ShopLimit || s.o.Currency != s.p.Currency)
	}, []edit{prize(1, 30001), func(s *situation) { s.p.ShopLimit = 1999 }, func(s *situation) { s.o.Currency = "BEF" }, func(s *situation) { s.p = policy.Policy{} }},
		[]edit{prize(1, 30000), func(s *situation) { s.p.ShopLimit = 2000 }, func(s *situation) { s.p = policy.None(); s.o.Amount = 100_000_000 }}},
	{NeedsCentral, "no right is known, or the right is the owner's or a risk and a short secret proves more than the policy pays on it", func(s situation) bool {
		weak := s.o.Weak && s.o.Amount > s.p.WeakLimit && s.asked()
		return !slices.Contains([]Right{RightOwner, RightGrant, RightSilent, RightAsking, RightRisk}, s.f.Right) || (s.f.Right == RightOwner || s.f.Right == RightRisk) && weak
	}, []edit{right(RightNone), right("something new"), weak(1999), func(s *situation) { weak(1999)(s); risk(2000)(s) }}, []edit{right(RightGrant), weak(2000), func(s *situation) { weak(1999)(s); s.f.Right = RightGrant },
		func(s *situation) { weak(0)(s); s.p = policy.None() }}},
	{OwnerSilent, "nobody answers, and the policy books no risk of so much", func(s situation) bool {
		return s.f.Right == RightSilent || s.f.Right == RightRisk && (s.p.BookedRisk == 0 || s.o.Amount > s.p.BookedRisk)
	}, []edit{right(RightSilent), risk(0), risk(1999)}, []edit{right(RightNone), risk(2000)}},
	{AllowanceSpent, "the right is the owner's or a risk, and the allowance is spent", func(s situation) bool {
		return (s.f.Right == RightOwner || s.f.Right == RightRisk) && !s.f.AllowanceLeft
	},
		[]edit{func(s *situation) { s.f.AllowanceLeft = false }, func(s *situation) { risk(2000)(s); s.f.AllowanceLeft = false }}, []edit{func(s *situation) { s.f.AllowanceLeft, s.f.Right = false, RightGrant }}},
	{PrinterNotReady, "a payment, and no slip can be printed", func(s situation) bool { return s.f.Paying && !s.f.PrinterReady },
		[]edit{func(s *situation) { s.f.PrinterReady = false }}, []edit{func(s *situation) { s.f.Paying, s.f.PrinterReady = false, false }}},
	{Winner, "nothing of the above", func(situation) bool { return true }, []edit{func(*situation) {}}, nil},
}

func finding(f Finding) edit { return func(s *situation) { s.o.Finding = f } }
func right(r Right) edit     { return func(s *situation) { s.f.Right = r } }
func pack(p PackState) edit  { return func(s *situation) { s.f.Pack = p } }
func prize(tier int, a money.Amount) edit {
	return func(s *situation) { s.o.Tier, s.o.Amount = tier, a }
}
func weak(limit money.Amount) edit {
	return func(s *situation) { s.o.Weak, s.p.WeakLimit = true, limit }
}

// closed sets the closing notice's day and the trusted time in UTC, "" for none.
func closed(day, trusted string) edit {
	return func(s *situation) {
		s.f.Closed, s.now.Trusted = policy.Date{}, time.Time{}
		if t, err := time.Parse(time.DateOnly, day); err == nil {
			s.f.Closed = policy.DateOf(t)
		}
		if t, err := time.Parse("2006-01-02 15:04", trusted); err == nil {
			s.now.Trusted = t
		}
	}
}

func inParis() *time.Location {
	zone, _ := time.LoadLocation("Europe/Paris") // there: the test carries the zones with it
	return zone
}

// first is the reason of the first rule that holds.
func (s situation) first() Reason {
	for _, r := range rules {
		if r.holds(s) {
			return r.reason
		}
	}
	return ""
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

func winning(t testing.TB) situation {
	t.Helper()
	o, f, p, now := payable(t)
	return situation{o, f, p, now}
}

func TestEachReasonHasItsExactCondition(t *testing.T) {
	for i, r := range rules {
		if i >= len(Reasons()) || Reasons()[i] != r.reason {
			t.Fatalf("rule %d is %s, Reasons says %v", i, r.reason, Reasons())
		}
		for n, change := range r.on {
			s := winning(t)
			change(&s)
			if v := s.decide(); v.Reason != r.reason || v.Outcome != r.reason.Outcome() || !r.holds(s) {
				t.Errorf("%s, when %s: change %d decides %s, %s", r.reason, r.when, n, v.Outcome, v.Reason)
			}
		}
		for n, change := range r.off {
			s := winning(t)
			change(&s)
			if v := s.decide(); v.Reason == r.reason || r.holds(s) {
				t.Errorf("%s, when %s: change %d stops short of it, and decides it", r.reason, r.when, n)
			}
		}
	}
	if len(rules) != len(Reasons()) {
		t.Errorf("%d rules, %d reasons", len(rules), len(Reasons()))
	}
}

// TestReasonsWinInThePublishedOrder makes each two reasons hold at once: the earlier one
// answers. Two that cannot hold at once are decided by one fact.
func TestReasonsWinInThePublishedOrder(t *testing.T) {
	oneFact := map[string][]Reason{
		"finding": {CodeMisread, GameUnknown, BlockNotHere, TicketNotInBlock, ManifestDamaged, NotAuthentic, NotAWinner},
		"pack":    {PackStolen, PackReturned, PackNotActive},
		"right":   {WaitingForCentral, NeedsCentral, OwnerSilent, AllowanceSpent},
		"time":    {ClaimPeriodOver, ClockNotTrusted},
		"prize":   {NotAWinner, PrizeNotMoney},
	}
	exclusive := func(a, b Reason) bool {
		for _, list := range oneFact {
			if slices.Contains(list, a) && slices.Contains(list, b) {
				return true
			}
		}
		return false
	}
	together := 0
	for i, a := range rules {
		for _, b := range rules[i+1:] {
			both := pairs(t, a, b)
			for _, s := range both {
				if v := s.decide(); v.Reason != a.reason {
					t.Errorf("%s and %s: decided %s", a.reason, b.reason, v.Reason)
				}
			}
			if len(both) > 0 {
				together++
			} else if !exclusive(a.reason, b.reason) {
				t.Errorf("%s and %s never hold together in this test, and no one fact explains why", a.reason, b.reason)
			}
		}
	}
	t.Logf("%d pairs of reasons held together", together)
}

// pairs are situations in which two rules hold, and none before the first.
func pairs(t *testing.T, a, b rule) []situation {
	var out []situation
	for _, x := range a.on {
		for _, y := range b.on {
			for _, order := range [][2]edit{{x, y}, {y, x}} {
				s := winning(t)
				order[0](&s)
				order[1](&s)
				if a.holds(s) && b.holds(s) && s.first() == a.reason {
					out = append(out, s)
				}
			}
		}
	}
	return out
}

// anything draws a situation: a payable winner with some of everything changed.
func anything(t *rapid.T, base situation) situation {
	s := base
	yes := rapid.Bool()
	findings := []Finding{Misread, "", NoGame, NoBlock, NotInBlock, Damaged, Counterfeit, Authentic, "something new"}
	days := []string{"", "2001-04-01", "2026-10-30", "2026-10-31", "2026-11-29", "2027-01-01"}
	hours := []string{"", "2001-05-02 21:59", "2001-05-02 22:00", "2026-11-30 22:59", "2026-11-30 23:00", "2026-12-01 12:00"}
	amounts := []money.Amount{-1, 0, 1, 1999, 2000, 9999, 10000, 30000, 30001, 200000, 100_000_000}
	edits := []func(){
		func() { s.o.Finding = rapid.SampledFrom(findings).Draw(t, "finding") },
		func() { s.o.Tier = rapid.IntRange(-1, 9).Draw(t, "tier") },
		func() { s.o.Amount = rapid.SampledFrom(amounts).Draw(t, "amount") },
		func() { s.o.Tier, s.o.Amount = 0, 0 },
		func() { s.o.NotMoney = yes.Draw(t, "not money") },
		func() { s.o.Scaled, s.f.AcceptScaled = yes.Draw(t, "scaled"), yes.Draw(t, "accept scaled") },
		func() { s.o.Internet = yes.Draw(t, "internet") },
		func() { s.o.Weak, s.p.WeakLimit = true, rapid.SampledFrom(amounts).Draw(t, "weak limit") },
		func() { s.o.Currency = rapid.SampledFrom([]string{"EUR", "BEF", ""}).Draw(t, "currency") },
		func() { s.f.Paying = yes.Draw(t, "paying") },
		func() { s.f.TerminalSuspended = yes.Draw(t, "terminal suspended") },
		func() { s.f.LedgerWritable, s.f.PrinterReady = yes.Draw(t, "ledger"), yes.Draw(t, "printer") },
		func() { s.f.TooManyAttempts = yes.Draw(t, "attempts") },
		func() { s.f.GameSuspended = yes.Draw(t, "game suspended") },
		func() { s.f.VoidBox, s.f.Misprint = yes.Draw(t, "void"), yes.Draw(t, "misprint") },
		func() {
			s.f.Pack = rapid.SampledFrom([]PackState{"", PackPrinted, PackDelivered, PackActive, PackSettled, PackReturn, PackStolenNow, "new"}).Draw(t, "pack")
		},
		func() { s.f.PaidHere = &Payment{Number: "1-000001"} },
		func() { s.f.PaidElsewhere = &Payment{Number: "1-000002"} },
		func() {
			closed(rapid.SampledFrom(days).Draw(t, "closed"), rapid.SampledFrom(hours).Draw(t, "trusted"))(&s)
		},
		func() {
			s.f.Right = rapid.SampledFrom([]Right{RightNone, RightOwner, RightGrant, RightAsking, RightSilent, RightRisk, "new"}).Draw(t, "right")
		},
		func() { s.f.AllowanceLeft = yes.Draw(t, "allowance") },
		func() { s.p.ShopLimit = rapid.SampledFrom(amounts).Draw(t, "shop limit") },
		func() { s.p = rapid.SampledFrom([]policy.Policy{{}, policy.None()}).Draw(t, "policy") },
	}
	for range rapid.IntRange(0, 6).Draw(t, "changes") {
		edits[rapid.IntRange(0, len(edits)-1).Draw(t, "change")]()
	}
	return s
}

func TestReasonIsTheFirstWhoseConditionHolds(t *testing.T) {
	base, seen := winning(t), map[Reason]int{}
	told := []Reason{AlreadyPaidHere, AlreadyPaidElsewhere, NotAWinner, ClaimPeriodOver, CreditedToAccount, ClockNotTrusted,
		AboveShopLimit, NeedsCentral, OwnerSilent, AllowanceSpent, PrinterNotReady, Winner}
	rapid.Check(t, func(t *rapid.T) {
		for range 100 { // rapid's own number of runs draws the rare reasons too seldom
			s := anything(t, base)
			v, want := s.decide(), s.first()
			seen[want]++
			if v.Reason != want || v.Outcome != want.Outcome() {
				t.Fatalf("decided %s, %s; the first that holds is %s", v.Outcome, v.Reason, want)
			}
			if tells := slices.Contains(told, want) && !s.o.NotMoney; (v.AmountMinor != nil) != tells || tells && *v.AmountMinor != s.o.Amount {
				t.Fatalf("%s tells the amount %v", want, v.AmountMinor)
			}
			if v.AmountMinor != nil && (*v.AmountMinor == 0) != (s.o.Tier == 0) {
				t.Fatalf("%s: 0 is told of a winner, or a prize of a loser", want)
			}
			if want != Winner && len(v.Needs) > 0 || v.Needs == nil || (v.Paid != nil) != (want == AlreadyPaidHere || want == AlreadyPaidElsewhere) {
				t.Fatalf("%s: needs %v, paid %v", want, v.Needs, v.Paid)
			}
			if v.Policy != s.p.Version || v.Scaled != s.o.Scaled || v.Currency != s.o.Currency || v.Pack != "0000123" || v.Ticket != "017" {
				t.Fatalf("%+v", v)
			}
		}
	})
	for _, r := range rules {
		if seen[r.reason] < 5 {
			t.Errorf("%s was drawn %d times: the test no longer looks at it", r.reason, seen[r.reason])
		}
	}
}

// TestOutcomesAreThePublishedOnes fixes which outcome each reason has: scripts read them.
func TestOutcomesAreThePublishedOnes(t *testing.T) {
	again := []Reason{CodeMisread, WaitingForCentral}
	refuse := []Reason{PackStolen, TicketVoid, AlreadyPaidHere, AlreadyPaidElsewhere, NotAWinner, ClaimPeriodOver, CreditedToAccount}
	for _, r := range Reasons() {
		want := Refer
		switch {
		case r == Winner:
			want = Pay
		case slices.Contains(again, r):
			want = Again
		case slices.Contains(refuse, r):
			want = Refuse
		}
		if r.Outcome() != want {
			t.Errorf("%s is %s, published as %s", r, r.Outcome(), want)
		}
	}
	if Reason("something new").Outcome() == Pay {
		t.Error("a reason nobody knows pays")
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

func TestClosingDayMayComeOrChangeAfterTheManifest(t *testing.T) {
	s := winning(t)
	steps := []struct {
		closed, trusted string
		want            Reason
	}{
		{"", "2001-06-01 12:00", Winner},                    // the block came, nobody has closed the emission
		{"2001-06-10", "2001-06-01 12:00", Winner},          // the notice came before the day it names
		{"2001-06-10", "2001-07-10 21:59", Winner},          // the last day, to its end in Paris
		{"2001-06-10", "2001-07-10 22:00", ClaimPeriodOver}, //
		{"2001-06-20", "2001-07-10 22:00", Winner},          // another notice puts the closing off: payable again
		{"2001-06-20", "2001-07-20 22:00", ClaimPeriodOver}, //
		{"2001-06-20", "", ClockNotTrusted},                 // a start without the network
		{"", "", Winner},                                    // and a notice that was withdrawn
		{"2001-03-15", "2001-04-16 12:00", ClaimPeriodOver}, // 14 April was a Saturday: Easter does not move it
		{"2001-03-16", "2001-04-16 12:00", Winner},          // Easter Sunday does move, beyond Easter Monday
		{"2001-03-16", "2001-04-17 22:00", ClaimPeriodOver}, //
	}
	for _, c := range steps {
		closed(c.closed, c.trusted)(&s)
		if v := s.decide(); v.Reason != c.want {
			t.Errorf("closed %q, at %q: %s, not %s", c.closed, c.trusted, v.Reason, c.want)
		}
	}
}
