// Package validate decides what a ticket is worth at this counter, now. It is pure:
// no files, no network, no clock, no log. What a manifest proves about a code is an
// Opened, what the ledger and central know is Facts, and Decide turns both into a
// Verdict. Start at Decide.
package validate

import (
	"time"

	"grattoir/validate/money"
)

// Outcome is what the clerk does. The zero Outcome pays nothing.
type Outcome string

const (
	Pay    Outcome = "pay"
	Refuse Outcome = "refuse" // we know, and the answer is no
	Refer  Outcome = "refer"  // we do not know, or may not say: a person or the centre decides
	Again  Outcome = "again"  // try the same act once more
)

// Reason is why. The words are stable: scripts and other systems read them.
type Reason string

const (
	CodeMisread       Reason = "code-misread"
	WaitingForCentral Reason = "waiting-for-central"

	TerminalSuspended  Reason = "terminal-suspended"
	LedgerNotWritable  Reason = "ledger-not-writable"
	GameUnknown        Reason = "game-unknown"
	BlockNotHere       Reason = "block-not-here"
	TicketNotInBlock   Reason = "ticket-not-in-block"
	ManifestDamaged    Reason = "manifest-damaged"
	TooManyAttempts    Reason = "too-many-attempts"
	NotAuthentic       Reason = "not-authentic"
	DemonstrationBlock Reason = "demonstration-block"
	GameSuspended      Reason = "game-suspended"

	PackStolen    Reason = "pack-stolen"
	PackReturned  Reason = "pack-returned"
	PackNotActive Reason = "pack-not-active"

	TicketVoid           Reason = "ticket-void"
	AlreadyPaidHere      Reason = "already-paid-here"
	AlreadyPaidElsewhere Reason = "already-paid-elsewhere"
	NotAWinner           Reason = "not-a-winner"
	ClaimPeriodOver      Reason = "claim-period-over"
	CreditedToAccount    Reason = "credited-to-account"

	Misprint        Reason = "misprint"
	ClockNotTrusted Reason = "clock-not-trusted"
	PrizeNotMoney   Reason = "prize-not-money"
	AboveShopLimit  Reason = "above-shop-limit"
	NeedsCentral    Reason = "needs-central"
	OwnerSilent     Reason = "owner-silent"
	AllowanceSpent  Reason = "allowance-spent"
	PrinterNotReady Reason = "printer-not-ready"

	Winner Reason = "winner"
)

// Outcome is the one outcome that belongs to the reason.
func (r Reason) Outcome() Outcome {
	switch r {
	case Winner:
		return Pay
	case CodeMisread, WaitingForCentral:
		return Again
	case PackStolen, TicketVoid, AlreadyPaidHere, AlreadyPaidElsewhere, NotAWinner, ClaimPeriodOver, CreditedToAccount:
		return Refuse
	}
	return Refer
}

// Need is what the clerk does before a payment is committed.
type Need string

const (
	ConfirmCash Need = "confirm-cash" // the clerk says that the till holds enough
	Identity    Need = "identity"     // identify the winner and verify it
)

// Verdict is the answer about one ticket. The zero Verdict pays nothing.
// Its JSON is the answer of terminalctl check, of the daemon's socket and of the wire.
type Verdict struct {
	Outcome     Outcome       `json:"outcome"`
	Reason      Reason        `json:"reason"`
	Needs       []Need        `json:"needs"`        // never null, empty unless Outcome is Pay
	AmountMinor *money.Amount `json:"amount_minor"` // 0 for a proven loser, null when unknown or not to be told
	Currency    string        `json:"currency"`
	Game        string        `json:"game"`
	Emission    string        `json:"emission"`
	Block       int           `json:"block"`
	Pack        string        `json:"pack"`
	Ticket      string        `json:"ticket"`
	Policy      string        `json:"policy"` // version asked, "none" where no policy was
	Paid        *Payment      `json:"paid,omitempty"`
	Scaled      bool          `json:"scaled,omitempty"` // of a demonstration block: worth nothing
}

// Payment is what is known of an earlier payment of the same ticket.
type Payment struct {
	At       time.Time `json:"at"`
	Terminal string    `json:"terminal"`
	Shop     string    `json:"shop,omitempty"`
	Number   string    `json:"number"`         // ledger number, as on the slip
	AsOf     time.Time `json:"as_of,omitzero"` // how old the knowledge is; zero when it is our own ledger's
}
