package validate

// Attempt is a ticket that was presented and that central wants to hear of, though nothing
// was paid.
type Attempt struct {
	Ticket   TicketKey
	Reason   Reason // PackStolen or TooManyAttempts
	Operator string // "" where nobody was signed on
	Entered  Entered
}
