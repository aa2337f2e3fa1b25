package validate

import (
	"fmt"
	"time"

	"grattoir/validate/money"
)

// Shift is one person's time at the counter, from signing on to its closing.
type Shift struct {
	Number   int64        `json:"shift"` // rises by one for each shift of the terminal
	Operator string       `json:"operator"`
	Float    money.Amount `json:"float_minor"` // cash in the till when it began
	Currency string       `json:"currency"`
	Entry    EntryNumber  `json:"entry"`
	Opened   time.Time    `json:"opened"` // device time
}

// ReversalReason says why a payment is to be taken back.
type ReversalReason string

const (
	PaidByMistake ReversalReason = "paid-by-mistake"
	WrongTicket   ReversalReason = "wrong-ticket"
	PlayerLeft    ReversalReason = "player-left" // without the money
	OtherReason   ReversalReason = "other"       // Text says which
)

// ReversalReasons lists the reasons in the order in which a clerk is offered them.
func ReversalReasons() []ReversalReason {
	return []ReversalReason{PaidByMistake, WrongTicket, PlayerLeft, OtherReason}
}

// ReversalState is how far a reversal has come.
type ReversalState string

const (
	ReversalRequested ReversalState = "requested" // the ticket stays paid
	ReversalAccepted  ReversalState = "accepted"  // by central: the ticket is free for its next round, online only
	ReversalRefused   ReversalState = "refused"   // by central: the ticket stays paid
)

// Reversal is the request to take a payment back, and central's answer.
type Reversal struct {
	ID       string         `json:"reversal"`     // 32 hexadecimal digits, made before the first try and kept over all of them
	Claim    string         `json:"claim"`        // id of the claim
	Number   EntryNumber    `json:"claim_number"` // the claim's place in the ledger
	Ticket   TicketKey      `json:"-"`
	Round    int            `json:"round"` // of the claim
	Amount   money.Amount   `json:"amount_minor"`
	Currency string         `json:"currency"`
	Reason   ReversalReason `json:"reason"`
	Text     string         `json:"text"` // the clerk's own words, needed for OtherReason
	Operator string         `json:"operator"`
	Manager  string         `json:"manager"` // who allowed it
	State    ReversalState  `json:"state"`
	Answer   string         `json:"answer"` // central's words, "" before them
	Entry    EntryNumber    `json:"entry"`
	At       time.Time      `json:"at"` // device time of the request
}

// Reprint is one more copy of a slip.
type Reprint struct {
	Number   EntryNumber `json:"claim_number"` // the claim's place in the ledger
	Copy     int         `json:"copy"`         // 2 is the first DUPLICATA
	Auto     bool        `json:"auto"`         // made by the terminal after a crash, asked for by nobody
	Operator string      `json:"operator"`     // "" for Auto
	Why      string      `json:"why"`
	Entry    EntryNumber `json:"entry"`
	At       time.Time   `json:"at"` // device time
}

// Transaction is one act of the ledger's history; exactly one pointer is set.
type Transaction struct {
	Entry    EntryNumber `json:"entry"`
	At       time.Time   `json:"at"` // device time
	Claim    *Receipt    `json:"claim,omitempty"`
	Reversal *Reversal   `json:"reversal,omitempty"`
	Reprint  *Reprint    `json:"reprint,omitempty"`
	Misprint *Misprinted `json:"misprint,omitempty"`
	Closing  *Closing    `json:"closing,omitempty"`
}

// Identification is a winner as a document shows him: what the arrêté of 9 September 2021
// (ECOT2126851A) has recorded. However it is printed, it shows nothing of itself.
type Identification struct {
	Surname    string `json:"surname"`
	FirstNames string `json:"first_names"`
	Born       string `json:"born"` // 1970-05-12; 1970-05 or 1970 where the document says no more
	BirthPlace string `json:"birth_place"`
	Address    string `json:"address"`
	Document   string `json:"document"` // identity-card, passport, residence-permit or driving-licence
	Number     string `json:"number"`   // the document's
	IssuedBy   string `json:"issued_by"`
	ValidTo    string `json:"valid_to"` // 2031-01-31, "" where the document names no end
}

// Format writes "Identification(hidden)" for every verb.
func (Identification) Format(s fmt.State, _ rune) { _, _ = s.Write([]byte("Identification(hidden)")) }

// Identified is one payment to an identified winner.
type Identified struct {
	Claim    string // id of the claim that is about to be recorded
	Amount   money.Amount
	Currency string
}

// Remedy is what a player got for a ticket that was misprinted.
type Remedy string

const (
	Refunded  Remedy = "refund"   // the sale price, out of the till
	Exchanged Remedy = "exchange" // another ticket of the same price
)

// Misprinted is a ticket that was taken in because it was misprinted, and what the player got
// for it. It is never paid.
type Misprinted struct {
	Ticket   TicketKey    `json:"-"`
	Slip     SlipFacts    `json:"-"`
	Remedy   Remedy       `json:"remedy"`
	Amount   money.Amount `json:"amount_minor"` // refunded: the sale price, 0 where nothing here knows it
	Currency string       `json:"currency"`
	Entered  Entered      `json:"entered"`
	Operator string       `json:"operator"`
	Manager  string       `json:"manager"` // who allowed it
	Entry    EntryNumber  `json:"entry"`
	At       time.Time    `json:"at"` // device time
}
