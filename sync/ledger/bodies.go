package ledger

import (
	"bytes"
	"encoding/json"
	"fmt"

	"grattoir/validate"
	"grattoir/validate/money"
)

// The bodies of entries that are no claims. Fields that are not used are zero, never
// absent, and a body is read only in the form in which it is written. Amounts are minor
// units. Each body says enough to be added up without looking at other entries, so that
// the totals of a period follow from its lines alone.

// ShiftOpenBody begins a shift.
type ShiftOpenBody struct {
	Shift      int64        `json:"shift"`
	Operator   string       `json:"operator"`
	FloatMinor money.Amount `json:"float_minor"`
	Currency   string       `json:"currency"`
}

// ReversalBody asks central to take a payment back. The ticket stays paid.
type ReversalBody struct {
	Reversal    string                  `json:"reversal"`
	Claim       string                  `json:"claim"`
	Number      validate.EntryNumber    `json:"claim_number"` // the claim's entry
	Block       validate.BlockID        `json:"block"`
	Pack        uint32                  `json:"pack"`
	Ticket      uint16                  `json:"ticket"`
	Round       int                     `json:"round"`
	AmountMinor money.Amount            `json:"amount_minor"`
	Currency    string                  `json:"currency"`
	Reason      validate.ReversalReason `json:"reason"`
	Text        string                  `json:"text"`
	Operator    string                  `json:"operator"`
	Manager     string                  `json:"manager"`
}

// ReversalAnswerBody is central's answer as it arrived. Accepted frees the ticket for its
// next round.
type ReversalAnswerBody struct {
	Reversal    string           `json:"reversal"`
	Claim       string           `json:"claim"`
	Block       validate.BlockID `json:"block"`
	Pack        uint32           `json:"pack"`
	Ticket      uint16           `json:"ticket"`
	Round       int              `json:"round"`
	AmountMinor money.Amount     `json:"amount_minor"`
	Currency    string           `json:"currency"`
	Accepted    bool             `json:"accepted"`
	Reason      string           `json:"reason"` // central's words
}

// ReprintBody counts a copy of a slip, before its first byte is sent.
type ReprintBody struct {
	Claim    string               `json:"claim"`
	Number   validate.EntryNumber `json:"claim_number"`
	Block    validate.BlockID     `json:"block"`
	Currency string               `json:"currency"`
	Copy     int                  `json:"copy"` // 2 is the first DUPLICATA
	Kind     ReprintKind          `json:"kind"`
	Operator string               `json:"operator"`
	Why      string               `json:"why"`
}

// ReprintKind says who wanted a copy.
type ReprintKind string

const (
	ReprintAsked ReprintKind = "asked" // somebody at the counter
	ReprintAuto  ReprintKind = "auto"  // the terminal, after a crash may have cut the slip off
)

// TrainingBody begins or ends training, in which nothing is paid.
type TrainingBody struct {
	On       bool   `json:"on"`
	Operator string `json:"operator"`
}

// BlocksBody says what blocks are called, before the first closing of a year that counts
// claims of theirs. It makes a year's lines enough to sum them up by game.
type BlocksBody struct {
	Blocks []NamedBlock `json:"blocks"`
}

// NamedBlock is what a block is called.
type NamedBlock struct {
	Block         validate.BlockID `json:"block"`
	Game          string           `json:"game"`
	GameCode      string           `json:"game_code"`
	Emission      string           `json:"emission"`
	Number        int              `json:"block_number"`
	Demonstration bool             `json:"demonstration"`
}

// ArchiveBody records that an archive was made.
type ArchiveBody struct {
	Year     int                  `json:"year"`
	From     validate.EntryNumber `json:"from"`
	To       validate.EntryNumber `json:"to"`
	SHA256   string               `json:"sha256"` // of the whole file
	Operator string               `json:"operator"`
}

// CarriedBody is an entry of an earlier epoch that central holds another one in the place
// of, or none: the ledger was put back to an earlier state and went on from there. Its
// line is kept whole, but for one that would make this entry too long: its hash is.
type CarriedBody struct {
	Line   string `json:"line"`
	SHA256 string `json:"sha256"`
}

// bodyOf reads the body of an entry of one kind, strictly.
func bodyOf[T any](e Entry, kind Kind) (T, error) {
	var body, none T
	if e.Kind != kind {
		return none, fmt.Errorf("%w: a %.40q is no %s", ErrEntry, e.Kind, kind)
	}
	dec := json.NewDecoder(bytes.NewReader(e.Body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&body); err != nil {
		return none, fmt.Errorf("%w: %s: %w", ErrEntry, kind, err)
	}
	if again, err := encodeJSON(body); err != nil || !bytes.Equal(again, e.Body) {
		return none, fmt.Errorf("%w: %s: a field is missing or not in the form this version writes", ErrEntry, kind)
	}
	return body, nil
}

// ShiftOpen reads the body of a shift-open entry.
func (e Entry) ShiftOpen() (ShiftOpenBody, error) { return bodyOf[ShiftOpenBody](e, KindShiftOpen) }

// Reversal reads the body of a reversal entry.
func (e Entry) Reversal() (ReversalBody, error) { return bodyOf[ReversalBody](e, KindReversal) }

// ReversalAnswer reads the body of a reversal-answer entry.
func (e Entry) ReversalAnswer() (ReversalAnswerBody, error) {
	return bodyOf[ReversalAnswerBody](e, KindReversalAnswer)
}

// Reprint reads the body of a reprint entry.
func (e Entry) Reprint() (ReprintBody, error) { return bodyOf[ReprintBody](e, KindReprint) }

// Training reads the body of a training entry.
func (e Entry) Training() (TrainingBody, error) { return bodyOf[TrainingBody](e, KindTraining) }

// Blocks reads the body of a blocks entry.
func (e Entry) Blocks() (BlocksBody, error) { return bodyOf[BlocksBody](e, KindBlocks) }

// Closing reads the body of a closing entry.
func (e Entry) Closing() (validate.ClosingFacts, error) {
	return bodyOf[validate.ClosingFacts](e, KindClosing)
}

// Archive reads the body of an archive entry.
func (e Entry) Archive() (ArchiveBody, error) { return bodyOf[ArchiveBody](e, KindArchive) }
