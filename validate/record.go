package validate

import (
	"encoding/hex"
	"fmt"
	"time"

	"grattoir/validate/money"
	"grattoir/validate/ticket"
)

// BlockID is the random name of a block, made when it was sealed.
type BlockID [16]byte

func (b BlockID) String() string { return hex.EncodeToString(b[:]) }

// MarshalText writes the id as 32 hexadecimal digits.
func (b BlockID) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

// UnmarshalText reads 32 lower-case hexadecimal digits.
func (b *BlockID) UnmarshalText(text []byte) error {
	raw, err := hex.DecodeString(string(text))
	if err != nil || len(raw) != len(b) || hex.EncodeToString(raw) != string(text) {
		return fmt.Errorf("block id %.40q: want 32 lower-case hexadecimal digits", text)
	}
	copy(b[:], raw)
	return nil
}

// TicketKey names one ticket everywhere: in the ledger, in reports and at central.
type TicketKey struct {
	Block  BlockID
	Pack   uint32
	Number uint16
}

// Entered is how a code came in.
type Entered string

const (
	Scanned Entered = "scan"
	Typed   Entered = "typed"
	TwoPart Entered = "two-part" // scanned, and its hidden digits typed
)

// Looked is one answer at the counter, to a ticket that was only checked or that was to be
// paid. It is counted, and commits nothing.
type Looked struct {
	Ticket   TicketKey // the zero key where none was read
	Reason   Reason
	Entered  Entered
	Operator string    // who is signed on, "" for nobody
	At       time.Time // device time
}

// Claim is a payment about to be committed.
type Claim struct {
	ID         string // 32 hexadecimal digits, made before the first try and kept over all of them
	Ticket     TicketKey
	Secret     ticket.Code // the code with its secret, for the opening; not kept in clear
	Round      int         // accepted reversals so far
	Tier       int
	Amount     money.Amount
	Currency   string
	Right      Right  // by which it is paid: RightGrant where central allowed this very id, else the owner's
	Risk       *Risk  // with RightRisk alone: who bears it
	OwnerEpoch int64  // the pack owner's epoch that gave the right to pay
	Policy     string // version of the policy that allowed it
	Operator   string
	Entered    Entered
	FirstCheck time.Time // when this ticket was first checked here, device time
	Slip       SlipFacts
}

// SlipFacts are what a slip of the claim shows besides the claim itself. They are kept
// with the print job, so that a slip can be printed again when the block has gone.
type SlipFacts struct {
	Game          string `json:"game"` // the game's name for people
	Emission      string `json:"emission"`
	BlockNumber   int    `json:"block_number"`
	GameCode      string `json:"game_code"`
	Pack          string `json:"pack"`
	Ticket        string `json:"ticket"`
	SecretTail    string `json:"secret_tail"`
	Demonstration bool   `json:"demonstration"`
}

// EntryNumber is the place of an entry in a terminal's ledger.
type EntryNumber struct {
	Epoch int64 `json:"epoch"` // journal epoch
	Seq   int64 `json:"seq"`
}

// String is the ledger number as slips and screens show it: epoch-seq.
func (n EntryNumber) String() string { return fmt.Sprintf("%d-%06d", n.Epoch, n.Seq) }

// PrintState is how far the paper of a claim has come. The ledger stores the level reached.
type PrintState string

const (
	Sending  PrintState = "sending"  // committed; something may have been sent
	Held     PrintState = "held"     // a fault holds the job, nothing was sent, nothing is lost
	Unknown  PrintState = "unknown"  // cut while sending: any other copy is a DUPLICATA
	Sent     PrintState = "sent"     // the printer took every byte
	Consumed PrintState = "consumed" // the printer answered a question put after the job
	Printed  PrintState = "printed"  // the printer said that the job is on paper
)

// Done tells whether nothing is left to do for the job.
func (p PrintState) Done() bool { return p == Sent || p == Consumed || p == Printed }

// Receipt is a committed claim with its place in the ledger and the state of its paper.
type Receipt struct {
	Claim
	Number   EntryNumber
	Hash     string // of the entry: SHA-256 of its line, 64 hexadecimal digits
	Terminal string
	At       time.Time // device time of the entry
	Trusted  time.Time // newest trusted time known then, zero for none
	Print    PrintState
	Copies   int // copies begun so far; copy 1 is the original, the others are DUPLICATA
}

// Unsent is what a terminal has paid and central has not acknowledged.
type Unsent struct {
	Acked  int64 // highest acknowledged sequence number of the current journal epoch
	Claims int64
	Money  money.Amount
	Oldest time.Time // device time of the oldest unsent entry, zero for none
}
