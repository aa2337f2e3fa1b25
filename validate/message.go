package validate

import (
	"time"

	"grattoir/validate/money"
	"grattoir/validate/policy"
)

// Message is what central says to whoever is at the counter.
type Message struct {
	Number    int64     `json:"number"`
	Mandatory bool      `json:"mandatory"` // nothing is paid until somebody has read it
	From      string    `json:"from"`      // first day, as 2026-12-01
	Until     string    `json:"until"`     // last day, "" for no end
	French    string    `json:"fr"`
	English   string    `json:"en"`
	Read      bool      `json:"read"`
	ReadAt    time.Time `json:"read_at,omitzero"` // device time
	Reader    string    `json:"reader,omitempty"`
}

// InForce tells whether a message is in its days, at a trusted time; with none it is,
// for a clock that nobody vouches for must not hide what central has to say.
func (m Message) InForce(trusted time.Time) bool {
	if trusted.IsZero() {
		return true
	}
	today := policy.DayInParis(trusted).String() // days sort as they are written
	return m.From <= today && (m.Until == "" || today <= m.Until)
}

// Text gives the message in a language.
func (m Message) Text(l money.Language) string {
	if l == money.English {
		return m.English
	}
	return m.French
}
