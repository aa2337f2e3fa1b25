package uplink

// Meaning is a code of the link and what it says, for the technician's guide.
type Meaning struct{ Code, Text string }

// Meanings are all codes of faults of the link. Only CodeForbidden and those that Stops
// names keep anything from being paid.
func Meanings() []Meaning {
	return []Meaning{
		{CodeUnreachable, "Central cannot be reached: no network, or central is down. Payments go on; what is unsent is kept."},
		{CodeNotCentral, "What answers is not central: wrong address, a portal that wants a login, or a clock too far off for its certificate."},
		{CodeAnswer, "Something between the terminal and central answers in its place: a proxy or a portal."},
		{CodeForbidden, "Central refuses this terminal: nothing is paid until central takes it back. Call central operations."},
		{CodeBusy, "Central asks to come later, or has a fault of its own. The terminal tries again by itself."},
		{CodeStopped, "Central holds another entry under a number of this journal (a copied or damaged card): nothing is paid. Call central operations."},
		{CodeStore, "What came from central cannot be stored: look at the ledger, at the folder of blocks and at the disk's free space."},
		{CodeSignature, "What came is not signed by central's key, or is older than what is in force: it is not used."},
		{CodeRefused, "Central does not take the request itself: update the program."},
		{CodeBehind, "Central holds more of this journal than the card: the card was put back to an earlier state. Nothing is paid until central operations agree (central terminal recover) and the terminal has read its journal again."},
		{CodeTwoHeads, "Another device lives under this terminal's name: a card was copied. Nothing is paid. Call central operations."},
	}
}

// Stops tells whether a code keeps the terminal from paying until a person at central has
// looked at its journal and agreed to its way back.
func Stops(code string) bool {
	_, stop := stops(code)
	return stop
}
