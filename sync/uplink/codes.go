package uplink

import "slices"

// Meaning is a code of the link and what it says, for the technician's guide.
type Meaning struct {
	Code, Text string
	// What the clerk reads, two lines of at most 32 columns, where nothing is paid; "" otherwise.
	ClerkFR, ClerkEN string
}

// Meanings are all codes of faults of the link. Only CodeForbidden and those that Stops
// names keep anything from being paid.
func Meanings() []Meaning {
	return []Meaning{
		{Code: CodeUnreachable, Text: "Central cannot be reached: no network, or central is down. Payments go on; what is unsent is kept."},
		{Code: CodeNotCentral, Text: "What answers is not central: wrong address, a portal that wants a login, or a clock too far off for its certificate."},
		{Code: CodeAnswer, Text: "Something between the terminal and central answers in its place: a proxy or a portal."},
		{Code: CodeForbidden, Text: "Central refuses this terminal: nothing is paid until central takes it back. Call central operations.",
			ClerkFR: "Terminal suspendu par la\nLoterie. Appelez l'assistance.", ClerkEN: "Central suspended this terminal.\nNo payments. Call support."},
		{Code: CodeBusy, Text: "Central asks to come later, or has a fault of its own. The terminal tries again by itself."},
		{Code: CodeStopped, Text: "Central holds another entry under a number of this journal (a copied or damaged card): nothing is paid. Call central operations.",
			ClerkFR: "Carte copiée ou abîmée : aucun\npaiement. Appelez l'assistance.", ClerkEN: "Card copied or damaged:\nno payments. Call support."},
		{Code: CodeStore, Text: "What came from central cannot be stored: look at the ledger, at the folder of blocks and at the disk's free space."},
		{Code: CodeSignature, Text: "What came is not signed by central's key, or is older than what is in force: it is not used."},
		{Code: CodeRefused, Text: "Central does not take the request itself: update the program."},
		{Code: CodeBehind, Text: "Central holds more of this journal than the card: the card was put back to an earlier state. Nothing is paid until central operations agree (central terminal recover) and the terminal has read its journal again.",
			ClerkFR: "Carte ancienne, aucun paiement.\nAppelez l'assistance.", ClerkEN: "The card is an old copy:\nno payments. Call support."},
		{Code: CodeTwoHeads, Text: "Another device lives under this terminal's name: a card was copied. Nothing is paid. Call central operations.",
			ClerkFR: "Un autre terminal a ce nom, pas\nde paiement. Appelez l'aide.", ClerkEN: "Another terminal has this name:\nno payments. Call support."},
	}
}

// MeaningOf is what a code says, nil for one that is none of the link's.
func MeaningOf(code string) *Meaning {
	list := Meanings()
	if i := slices.IndexFunc(list, func(m Meaning) bool { return m.Code == code }); i >= 0 {
		return &list[i]
	}
	return nil
}

// Stops tells whether a code keeps the terminal from paying until a person at central has
// looked at its journal and agreed to its way back.
func Stops(code string) bool {
	_, stop := stops(code)
	return stop
}
