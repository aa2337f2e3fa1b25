package wire

import (
	"errors"
	"fmt"
	"slices"

	"grattoir/validate"
)

// What central says of packs' tickets, of suspensions and to the people at a counter. An
// item that tells of a set names all of it, so that the last one heard is what holds.

const (
	FeedTickets    FeedKind = "tickets"    // single tickets of a pack are stolen or were returned
	FeedSuspension FeedKind = "suspension" // this terminal, or a game, is suspended or is no more
	FeedMessage    FeedKind = "message"    // central says something to whoever is at the counter
)

// Limits of these items. A terminal refuses a run of the feed that exceeds them.
const (
	MaxTicketRuns = 64  // of one state in one pack
	MaxWords      = 160 // bytes of a message in one language: what the page has room for beside a ticket
	MaxReason     = 200 // bytes of a reason
)

// PackRefused is the exception to a pack's activation at the shop that is not legal at
// central. The feed then says how the pack stands.
const PackRefused ExceptionKind = "pack-refused"

// TicketRun is tickets of one pack, both ends included.
type TicketRun = validate.TicketRun

// TicketsItem says which tickets of a pack are stolen and which were returned: all of
// them, in order and apart. No run of a kind takes back what was said of it before.
type TicketsItem struct {
	GameCode string      `json:"game_code"` // as printed, padded
	Pack     uint32      `json:"pack"`
	Stolen   []TicketRun `json:"stolen"`
	Returned []TicketRun `json:"returned"`
}

// SuspensionItem suspends, or lifts a suspension: of the terminal that hears it where no
// game is named, else of a game, of one of its emissions, or of one block of it.
type SuspensionItem struct {
	Game      string `json:"game"`     // id, "" for the terminal
	Emission  string `json:"emission"` // "" for all
	Block     int    `json:"block"`    // number in the emission, 0 for all
	Suspended bool   `json:"suspended"`
	Reason    string `json:"reason"`
}

// MessageItem is said to whoever is at the counter, on the days it is valid. One that is
// mandatory keeps the counter from paying until somebody has read it; scanning goes on.
type MessageItem struct {
	Number    int64  `json:"number"` // central's, by which a terminal says that it was read
	Mandatory bool   `json:"mandatory"`
	From      string `json:"from"`  // first day in Paris, as 2026-12-01
	Until     string `json:"until"` // last day, "" for no end
	French    string `json:"fr"`
	English   string `json:"en"`
	Withdrawn bool   `json:"withdrawn"` // takes the message of this number back
}

// Check bounds what an item of the feed says of tickets.
func (t TicketsItem) Check() error {
	if t.GameCode == "" || len(t.GameCode) > 16 {
		return errors.New("no game code")
	}
	for _, runs := range [][]TicketRun{t.Stolen, t.Returned} {
		if len(runs) > MaxTicketRuns {
			return fmt.Errorf("%d runs of tickets, at most %d", len(runs), MaxTicketRuns)
		}
		next := 0
		for _, r := range runs {
			if int(r.First) < next || r.Last < r.First {
				return errors.New("runs of tickets that are not in order and apart")
			}
			next = int(r.Last) + 1
		}
	}
	return nil
}

// State is what a ticket of the pack is by this item, "" for nothing of its own.
func (t TicketsItem) State(ticket uint16) validate.PackState {
	has := func(runs []TicketRun) bool {
		return slices.ContainsFunc(runs, func(r TicketRun) bool { return r.First <= ticket && ticket <= r.Last })
	}
	switch {
	case has(t.Stolen):
		return validate.PackStolenNow
	case has(t.Returned):
		return validate.PackReturn
	}
	return ""
}

// FeedException tells a terminal of an entry of its own that was not credited, and later
// how operations settled that: the answer to its upload, which says the same, can be lost.
const FeedException FeedKind = "exception"

// ExceptionItem is an entry that central stored and did not credit.
type ExceptionItem struct {
	Epoch   int64         `json:"epoch"`
	Seq     int64         `json:"seq"`
	Kind    ExceptionKind `json:"kind"`
	Text    string        `json:"text"`    // for a technician, at most MaxReason bytes
	Settled string        `json:"settled"` // who bears it, "" while it is open
}
