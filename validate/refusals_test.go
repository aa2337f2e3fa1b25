package validate

import "testing"

// TestRefusalsOfRealTerminalsHaveAnAnswer takes what lotteries' own terminals refuse, with
// the exact trigger that their manuals and rules give, and names what answers it here. A
// row without an answer says why there is none.
func TestRefusalsOfRealTerminalsHaveAnAnswer(t *testing.T) {
	and := func(edits ...edit) edit {
		return func(s *situation) {
			for _, e := range edits {
				e(s)
			}
		}
	}
	voidBox := func(s *situation) { s.f.VoidBox = true }
	misprint := func(s *situation) { s.f.Misprint = true }
	for _, c := range []struct {
		message, trigger, source string
		change                   edit
		answer                   Reason
		why                      string // what is not obvious about the answer
	}{
		{"NOT A WINNER", "valid ticket, no prize", "Missouri", prize(0, 0), NotAWinner, ""},
		{"ALREADY CASHED BY THIS TERMINAL", "paid before on the same terminal", "Missouri",
			func(s *situation) { s.f.PaidHere = &Payment{} }, AlreadyPaidHere, ""},
		{"ALREADY CASHED BY ANOTHER TERMINAL", "paid before elsewhere", "Missouri",
			func(s *situation) { s.f.PaidElsewhere = &Payment{} }, AlreadyPaidElsewhere, ""},
		{"TICKET EXPIRED", "after the claim deadline", "Missouri", closed("2026-10-30", "2026-12-01 12:00"), ClaimPeriodOver, ""},
		{"TICKET EXPIRED", "after the claim deadline, by a clock nobody vouches for", "Missouri", closed("2026-10-30", ""), ClockNotTrusted,
			"a refusal for expiry needs a trusted time"},
		{"TICKET NON ENREGISTRÉ", "the pack was never activated", "FDJ, reported", pack(""), PackNotActive, ""},
		{"pack not active", "status Available", "Texas 401.370", pack(PackPrinted), PackNotActive, ""},
		{"pack not active", "status Issued or Confirmed", "Texas 401.370", pack(PackDelivered), PackNotActive, ""},
		{"pack not active", "the pack went back", "Texas 401.370", pack(PackReturn), PackReturned, ""},
		{"stolen list", "the ticket is on the list of stolen tickets", "Arizona R19-3-407", pack(PackStolenNow), PackStolen,
			"a range of one pack counts as the pack's state for its tickets"},
		{"omitted list", "the ticket was never delivered by the printer's plant", "Arizona R19-3-407", finding(Counterfeit), NotAuthentic,
			"such a ticket's tag is random: no secret opens it"},
		{"hidden code exposed", "the box 'void if removed' was uncovered before", "Massachusetts, Québec, FDJ", voidBox, TicketVoid, ""},
		{"incomplete identifiers", "a part of the code is missing or unreadable", "Oregon 177-050-0027", finding(Misread), CodeMisread,
			"a code in two parts that lacks its typed digits is not decided at all"},
		{"incomplete identifiers", "the parts do not match the records: game", "Oregon 177-050-0027", finding(NoGame), GameUnknown, ""},
		{"incomplete identifiers", "the parts do not match the records: pack", "Oregon 177-050-0027", finding(NoBlock), BlockNotHere,
			"the terminal cannot tell an unknown pack from one whose block it lacks, so it refers"},
		{"incomplete identifiers", "the parts do not match the records: ticket", "Oregon 177-050-0027", finding(NotInBlock), TicketNotInBlock, ""},
		{"high-tier VIRN", "must be in the official list of winners", "Oregon 177-050-0027", prize(1, 30001), AboveShopLimit,
			"a shop pays no such prize: the centre holds the list"},
		{"high-tier VIRN", "must be unpaid", "Oregon 177-050-0027",
			and(prize(1, 30001), func(s *situation) { s.f.PaidElsewhere = &Payment{} }), AlreadyPaidElsewhere, "said before the limit is"},
		{"amount differs", "the record's amount is not the one presented", "Washington 230-15-773, Virginia", nil, "",
			"no reason: nobody presents an amount, the manifest proves it; what a printed ticket seems to win is a misprint"},
		{"number not found", "the validation number is unknown", "Washington 230-15-773", finding(Counterfeit), NotAuthentic, ""},
		{"misprint", "looks like a winner, the system says no", "Québec, Switzerland", and(misprint, prize(0, 0)), NotAWinner,
			"the system's answer stands first, as published; refund or exchange is between player and lottery"},
		{"misprint", "looks like another prize than the system's", "Québec, Switzerland", misprint, Misprint, "and no amount is told"},
	} {
		if c.change == nil {
			if c.answer != "" || c.why == "" {
				t.Errorf("%s, %s: no answer, and no word why", c.message, c.trigger)
			}
			continue
		}
		s := winning(t)
		c.change(&s)
		if v := s.decide(); v.Reason != c.answer || v.Outcome == Pay {
			t.Errorf("%s (%s: %s): %s, %s, not %s", c.message, c.source, c.trigger, v.Outcome, v.Reason, c.answer)
		}
	}
}
