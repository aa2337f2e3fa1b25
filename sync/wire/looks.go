package wire

import (
	"fmt"
	"strings"

	"grattoir/validate"
	"grattoir/validate/policy"
)

// Look is how often a terminal gave one answer on one day, tickets that were only checked
// and tickets that were to be paid alike. It names no ticket. The number of a day, answer
// and way only rises; central keeps the highest.
type Look struct {
	Day     string           `json:"day"` // YYYY-MM-DD in Paris, by the device's clock
	Reason  validate.Reason  `json:"reason"`
	Entered validate.Entered `json:"entered"`
	Number  int64            `json:"number"`
}

// Sighting is one ticket that somebody looked at, told because of what may lie behind it:
// a winner that was checked, which should be paid where it was checked; a ticket that is
// not on sale, or paid. It holds the public part of the code only. Stolen tickets, and those
// of which too many secrets were tried, are told by the journal (ledger.AttemptBody).
type Sighting struct {
	Number   int64            `json:"number"` // the terminal's own, from 1, rising
	Block    validate.BlockID `json:"block"`
	Pack     uint32           `json:"pack"`
	Ticket   uint16           `json:"ticket"`
	Reason   validate.Reason  `json:"reason"`
	Entered  validate.Entered `json:"entered"`
	Operator string           `json:"operator"` // "" where nobody signs on
	Seen     string           `json:"seen"`     // device's clock, as FormatTime writes it
}

// Sighted tells whether an answer about a ticket is worth a Sighting.
func Sighted(r validate.Reason) bool {
	switch r {
	case validate.Winner, validate.AboveShopLimit, validate.NeedsCentral, validate.OwnerSilent, validate.PackReturned, validate.PackNotActive, validate.AlreadyPaidHere,
		validate.AlreadyPaidElsewhere, validate.NotAuthentic:
		return true
	}
	return false
}

// CheckLooks is nil when the looks and sightings of a hello keep their bounds.
func (h Hello) CheckLooks() error {
	if len(h.Looks) > MaxLooks || len(h.Sightings) > MaxSightings {
		return fmt.Errorf("%d looks and %d sightings, at most %d and %d", len(h.Looks), len(h.Sightings), MaxLooks, MaxSightings)
	}
	for _, l := range h.Looks {
		if _, err := policy.ParseDate(l.Day); err != nil || l.Number < 1 || l.Number > 1<<40 || !isWord(string(l.Reason)) || !isWord(string(l.Entered)) {
			return fmt.Errorf("a look %.12q %.40q %.12q %d: want a day, two words of a to z and -, a number from 1", l.Day, l.Reason, l.Entered, l.Number)
		}
	}
	last := int64(0)
	for _, s := range h.Sightings {
		if s.Number <= last || s.Number > 1<<53 {
			return fmt.Errorf("sighting %d stands after %d: want rising numbers from 1", s.Number, last)
		}
		last = s.Number
		if _, err := ParseTime(s.Seen); err != nil || len(s.Seen) != len(timeLayout) || !isWord(string(s.Reason)) || !isWord(string(s.Entered)) {
			return fmt.Errorf("sighting %d: want a time of %d bytes and two words of a to z and -", s.Number, len(timeLayout))
		}
		if len(s.Operator) > 64 || strings.ContainsFunc(s.Operator, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return fmt.Errorf("sighting %d: its operator has %d bytes, want at most 64 printable ones", s.Number, len(s.Operator))
		}
	}
	return nil
}

// isWord tells whether s is a word of the wire: 1 to 40 of a-z and -.
func isWord(s string) bool {
	return len(s) >= 1 && len(s) <= 40 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz-") == ""
}
