package validate

import (
	"time"

	"grattoir/validate/money"
)

// IntentState is where a claim stands that only central can allow.
type IntentState string

const (
	IntentAsking    IntentState = "asking"    // central has not decided, as far as is known here
	IntentApproved  IntentState = "approved"  // it may be paid, by this id alone
	IntentDenied    IntentState = "denied"    // it may not; Why says why
	IntentReturning IntentState = "returning" // given up here, which central may not have heard yet
	IntentReturned  IntentState = "returned"  // central knows that the id pays nothing any more
	IntentUsed      IntentState = "used"      // it was paid
)

// Live tells whether the ticket may still be paid by the intent, or central may still
// think so: nothing else pays the ticket meanwhile.
func (s IntentState) Live() bool {
	return s == IntentAsking || s == IntentApproved || s == IntentReturning
}

// Intent is a payment that this terminal means to make once central allows it.
type Intent struct {
	Claim      string // id of the claim
	Ticket     TicketKey
	Round      int
	Amount     money.Amount
	Currency   string
	State      IntentState
	Silent     bool     // asking: central has answered that the pack's owner does not
	Why        string   // denied: central's reason, stable words
	Text       string   // denied: for a technician
	OwnerEpoch int64    // approved: the pack's owner epoch then
	Next       int      // denied: the round that central would decide about, -1 where it named none
	Paid       *Payment // denied: the payment that stands in the way, nil for none
	Asked      time.Time
}

// Risk is what a payment is booked under that nobody could allow: the ticket may have been
// paid by its pack's owner.
type Risk struct {
	Party string       // bears the loss when it was
	Limit money.Amount // of the policy, inclusive
	Why   string       // owner-silent, or central-silent
}
