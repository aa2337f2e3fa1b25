package wire

import (
	"fmt"

	"grattoir/validate"
)

// Paths of the requests about who may pay.
const (
	PathClaim = "/v1/claim" // POST ClaimRequest -> ClaimAnswer
	PathHolds = "/v1/holds" // POST HoldUpload -> HoldAnswer
	PathTake  = "/v1/take"  // POST TakeRequest -> TakeAnswer
)

// Limits of these messages.
const (
	MaxHolds      = 100     // acknowledgements in one upload
	MaxOpening    = 1 << 10 // bytes of an opening in base64
	MaxClaimWait  = 5       // seconds in which central answers a claim, whatever the owner does
	maxClaimWords = 200     // bytes of central's words in an answer
)

// ClaimRequest asks central to allow one payment, or gives a permission back. What it
// says of the ticket is what the claim's journal entry will say.
type ClaimRequest struct {
	Protocol    int              `json:"protocol"`
	Claim       string           `json:"claim"` // id of the claim, 32 hexadecimal digits
	Block       validate.BlockID `json:"block"`
	Pack        uint32           `json:"pack"`
	Ticket      uint16           `json:"ticket"`
	Round       int              `json:"round"`
	Tier        int              `json:"tier"`
	AmountMinor int64            `json:"amount_minor"`
	Currency    string           `json:"currency"`
	Opening     string           `json:"opening"` // base64, as in the entry's body
	// Return says that the terminal never pays by this id, now or later.
	Return bool `json:"return,omitempty"`
}

// Check is nil for a request that can be asked: its shape, not its truth.
func (q ClaimRequest) Check() error {
	switch {
	case !isID(q.Claim):
		return fmt.Errorf("claim %.40q: want 32 lower-case hexadecimal digits", q.Claim)
	case q.Block == (validate.BlockID{}):
		return fmt.Errorf("claim %s: the block is missing", q.Claim)
	case q.Round < 0 || q.Round > 1<<20 || q.Tier < 1 || q.Tier > 1<<16 || q.AmountMinor < 1 || q.AmountMinor > 1<<53:
		return fmt.Errorf("claim %s: round %d, tier %d, %d minor units", q.Claim, q.Round, q.Tier, q.AmountMinor)
	case len(q.Currency) != 3 || len(q.Opening) > MaxOpening:
		return fmt.Errorf("claim %s: a currency of %d bytes, an opening of %d", q.Claim, len(q.Currency), len(q.Opening))
	}
	return nil
}

// Key names the ticket that is asked about.
func (q ClaimRequest) Key() validate.TicketKey {
	return validate.TicketKey{Block: q.Block, Pack: q.Pack, Number: q.Ticket}
}

// ClaimState is how central has answered.
type ClaimState string

const (
	ClaimPending  ClaimState = "pending"  // not decided: the owner is silent. The same id may be asked again
	ClaimApproved ClaimState = "approved" // final: this terminal alone may pay, by this id
	ClaimDenied   ClaimState = "denied"   // final: Why says why
	ClaimReturned ClaimState = "returned" // final: the id pays nothing any more
)

// ClaimWhy says why a claim is pending or denied.
type ClaimWhy string

const (
	WhyOwnerSilent ClaimWhy = "owner-silent"      // pending: the pack's owner has not answered
	WhyPaid        ClaimWhy = "paid"              // Paid says where and when
	WhyGranted     ClaimWhy = "granted-elsewhere" // another claim of the ticket is allowed and not paid yet
	WhyPack        ClaimWhy = "pack"              // nobody may pay its tickets: Pack is its state
	WhySuspended   ClaimWhy = "suspended"         // its game, emission or block is not paid now
	WhyUnproven    ClaimWhy = "unproven"          // the opening does not open this ticket's tag
	WhyWrongPrize  ClaimWhy = "wrong-prize"       // tier, amount or currency are another
	WhyRound       ClaimWhy = "round"             // Round is the one that may be asked for
	WhyAttempts    ClaimWhy = "too-many-attempts" // too many openings of this ticket failed
	WhyMisprint    ClaimWhy = "misprint"          // it was taken in as a misprint: its player has been served
	WhyRefused     ClaimWhy = "refused"           // the request itself; a fault in a program
)

// ClaimAnswer is central's answer to a claim. A final one never changes.
type ClaimAnswer struct {
	Protocol   int                `json:"protocol"`
	Claim      string             `json:"claim"` // the id that was asked about
	State      ClaimState         `json:"state"`
	Why        ClaimWhy           `json:"why,omitempty"`
	Text       string             `json:"text,omitempty"` // for a technician, at most 200 bytes
	OwnerEpoch int64              `json:"owner_epoch,omitempty"`
	Round      int                `json:"round,omitempty"`
	Pack       validate.PackState `json:"pack,omitempty"`
	Paid       *PaidItem          `json:"paid,omitempty"`
}

// Check is nil for an answer that a terminal can act on.
func (a ClaimAnswer) Check() error {
	switch {
	case a.State == "" || len(a.State) > 64 || len(a.Why) > 64 || len(a.Text) > maxClaimWords || len(a.Pack) > 64:
		return fmt.Errorf("answer to claim %.40q: state %.20q with %d bytes of words", a.Claim, a.State, len(a.Text))
	case a.OwnerEpoch < 0 || a.Round < 0 || a.Round > 1<<20:
		return fmt.Errorf("answer to claim %.40q: owner epoch %d, round %d", a.Claim, a.OwnerEpoch, a.Round)
	case a.Paid != nil && (len(a.Paid.Terminal) > 64 || len(a.Paid.Number) > 64 || len(a.Paid.At) > 64):
		return fmt.Errorf("answer to claim %.40q: no whole payment", a.Claim)
	}
	return nil
}

// HoldItem tells the owner of a pack that central decides about one of its tickets from
// now on: the owner pays it with no network never again.
type HoldItem struct {
	Block      validate.BlockID `json:"block"`
	Pack       uint32           `json:"pack"`
	Ticket     uint16           `json:"ticket"`
	OwnerEpoch int64            `json:"owner_epoch"` // the owner's that is asked
}

// HoldAck is the owner's answer to a hold, which is durable there.
type HoldAck struct {
	Hold   int64            `json:"hold"` // number of the feed item
	Block  validate.BlockID `json:"block"`
	Pack   uint32           `json:"pack"`
	Ticket uint16           `json:"ticket"`
	// Paid is the entry by which the owner had paid the ticket before, zero for none.
	Paid validate.EntryNumber `json:"paid"`
	At   string               `json:"at,omitempty"` // of that entry, device time
}

// HoldUpload acknowledges holds. The head is the end of the owner's journal, signed as
// for an upload: nothing up to it pays a held ticket that is not named as paid.
type HoldUpload struct {
	Protocol  int       `json:"protocol"`
	Head      Position  `json:"head"`
	Signature string    `json:"signature"` // base64, over HeadText of Head
	Holds     []HoldAck `json:"holds"`
}

// HoldAnswer names what central has stored.
type HoldAnswer struct {
	Protocol int     `json:"protocol"`
	Stored   []int64 `json:"stored"` // numbers of feed items
}

// TakeRequest asks for the packs back that the terminal has released. Central gives them
// at a raised owner epoch, over the feed.
type TakeRequest struct {
	Protocol int `json:"protocol"`
}

// TakeAnswer tells how many packs were given back by this request, and the newest feed
// item that says so, 0 for none.
type TakeAnswer struct {
	Protocol int   `json:"protocol"`
	Packs    int   `json:"packs"`
	Feed     int64 `json:"feed"`
}
