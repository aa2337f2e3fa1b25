package ledger

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"grattoir/validate"
)

// EntryVersion is the version of the entry's bytes. A later version is another number;
// entries already written are never rewritten.
const EntryVersion = 1

// Kind is what an entry records.
type Kind string

// The kinds of entries; bodies.go has the bodies of those that are no claims. A kind is
// never given another body: a later body is another kind.
const (
	KindClaim          Kind = "claim"           // a payment, ClaimBody
	KindShiftOpen      Kind = "shift-open"      // somebody begins a shift, ShiftOpenBody
	KindReversal       Kind = "reversal"        // a payment is to be taken back, ReversalBody
	KindReversalAnswer Kind = "reversal-answer" // central's answer arrived, ReversalAnswerBody
	KindReprint        Kind = "reprint"         // another copy of a slip begins, ReprintBody
	KindTraining       Kind = "training"        // training begins or ends, TrainingBody
	KindBlocks         Kind = "blocks"          // what blocks are called, BlocksBody
	KindClosing        Kind = "closing"         // a Z, validate.ClosingFacts
	KindArchive        Kind = "archive"         // an archive was made, ArchiveBody
	KindBookedRisk     Kind = "booked-risk"     // the claim that follows is at somebody's risk, BookedRiskBody
	KindRelease        Kind = "release"         // packs are given up, ReleaseBody
	KindAuditHeads     Kind = "audit-heads"     // how far the audits beside the ledger have come, AuditHeadsBody
	KindPackActivated  Kind = "pack-activated"  // a pack was put on sale at the shop, PackActivatedBody
	KindPackSettled    Kind = "pack-settled"    // central has settled packs of this terminal, PackSettledBody
	KindMessageRead    Kind = "message-read"    // somebody has read a message of central's, MessageReadBody
	KindAttempt        Kind = "attempt"         // somebody presented a stolen ticket, or tried many secrets of one, AttemptBody
	KindMisprint       Kind = "misprint"        // a misprinted ticket was refunded or exchanged, MisprintBody
	KindCarriedClaim   Kind = "carried-claim"   // a payment that central never got in an earlier epoch, CarriedBody
	KindCarriedLine    Kind = "carried-line"    // another such entry, kept and counted for nothing, CarriedBody
)

// Hash is the SHA-256 of an entry's line.
type Hash [sha256.Size]byte

func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// Entry is one line of the journal. The line is written once and is what is hashed,
// kept and sent; it is never made again from these fields.
type Entry struct {
	Version  int             `json:"v"`
	Terminal string          `json:"terminal"`
	Epoch    int64           `json:"epoch"`   // journal epoch, raised after a reset or a restore
	Seq      int64           `json:"seq"`     // from 1, without a gap in one epoch
	Boot     string          `json:"boot"`    // the machine's boot id
	MonoMS   int64           `json:"mono_ms"` // monotonic milliseconds since that boot
	Time     string          `json:"time"`    // the device's clock, a hint
	Trusted  string          `json:"trusted"` // newest trusted time known, "" for none
	Kind     Kind            `json:"kind"`
	Body     json.RawMessage `json:"body"`
	Prev     string          `json:"prev"` // hash of the entry before, 64 zeros before the first
}

// ClaimBody is the body of a claim. Fields that are not used are zero, never absent, but for
// those that came later, and what is later still is stepped over: the line keeps it.
type ClaimBody struct {
	Claim       string           `json:"claim"` // id of the claim, 32 hexadecimal digits
	Block       validate.BlockID `json:"block"`
	Pack        uint32           `json:"pack"`
	Ticket      uint16           `json:"ticket"`
	Round       int              `json:"round"`
	Tier        int              `json:"tier"`
	AmountMinor int64            `json:"amount_minor"`
	Currency    string           `json:"currency"`
	OwnerEpoch  int64            `json:"owner_epoch"`
	Policy      string           `json:"policy"`
	Operator    string           `json:"operator"`
	Entered     validate.Entered `json:"entered"`
	FirstCheck  string           `json:"first_check"`
	Opening     string           `json:"opening"` // base64, see SealOpening; "" without a claim key
	// Feed is the number of the status feed's last item that the terminal had heard when it
	// paid: central tells by it what the terminal knew. 0, and absent, where it had heard none
	// and in entries of earlier programs.
	Feed int64 `json:"feed,omitempty"`
}

// timeLayout is RFC 3339 in UTC with milliseconds, always 24 bytes.
const timeLayout = "2006-01-02T15:04:05.000Z"

func timeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(timeLayout)
}

func parseTime(s string) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	return time.Parse(timeLayout, s)
}

// encode gives the line of the entry, without a line feed.
func (e Entry) encode() ([]byte, error) { return encodeJSON(e) }

func encodeJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// hashLine is the hash that the next entry carries and a head names.
func hashLine(line []byte) Hash { return sha256.Sum256(line) }

// maxLine bounds a line of the journal.
const maxLine = 16 << 10

// ErrEntry means bytes that are no entry of a known version.
var ErrEntry = errors.New("not a ledger entry")

// ParseEntry reads a line. It accepts only what encode writes: the same fields, in
// order, with nothing added.
func ParseEntry(line []byte) (Entry, error) {
	if len(line) > maxLine {
		return Entry{}, fmt.Errorf("%w: %d bytes, at most %d", ErrEntry, len(line), maxLine)
	}
	var e Entry
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&e); err != nil {
		return Entry{}, fmt.Errorf("%w: %w", ErrEntry, err)
	}
	if e.Version != EntryVersion {
		return Entry{}, fmt.Errorf("%w: version %d, this program knows %d", ErrEntry, e.Version, EntryVersion)
	}
	if again, err := e.encode(); err != nil || !bytes.Equal(again, line) {
		return Entry{}, fmt.Errorf("%w: not in the form this version writes", ErrEntry)
	}
	return e, nil
}

// IsClaim tells whether the entry pays a ticket.
func (e Entry) IsClaim() bool { return e.Kind == KindClaim || e.Kind == KindCarriedClaim }

// Claim reads the body of a claim, also of one that was carried into a later epoch.
func (e Entry) Claim() (ClaimBody, error) {
	var c ClaimBody
	if e.Kind == KindCarriedClaim {
		inner, err := e.Carried()
		if err == nil && inner.Kind != KindClaim {
			err = fmt.Errorf("%w: a %.40q was carried as a claim", ErrEntry, inner.Kind)
		}
		if err != nil {
			return c, err
		}
		e = inner
	}
	if e.Kind != KindClaim {
		return c, fmt.Errorf("%w: a %s is no claim", ErrEntry, e.Kind)
	}
	if err := json.Unmarshal(e.Body, &c); err != nil {
		return c, fmt.Errorf("%w: claim: %w", ErrEntry, err)
	}
	if c.Feed < 0 {
		return c, fmt.Errorf("%w: claim: feed item %d", ErrEntry, c.Feed)
	}
	return c, nil
}

// CarriedBody reads the body of a carried entry. What it carries need not be readable.
func (e Entry) CarriedBody() (CarriedBody, error) {
	if e.Kind == KindCarriedLine {
		return bodyOf[CarriedBody](e, KindCarriedLine)
	}
	return bodyOf[CarriedBody](e, KindCarriedClaim)
}

// Carried reads the entry that was carried into this one, as it stood in its epoch.
func (e Entry) Carried() (Entry, error) {
	body, err := e.CarriedBody()
	if err != nil {
		return Entry{}, err
	}
	inner, err := ParseEntry([]byte(body.Line))
	if err == nil && inner.Terminal != e.Terminal {
		err = fmt.Errorf("%w: an entry of terminal %.64q was carried by %.64q", ErrEntry, inner.Terminal, e.Terminal)
	}
	return inner, err
}

func claimBody(c validate.Claim, opening []byte) ClaimBody {
	return ClaimBody{Claim: c.ID, Block: c.Ticket.Block, Pack: c.Ticket.Pack, Ticket: c.Ticket.Number, Round: c.Round, Tier: c.Tier,
		AmountMinor: int64(c.Amount), Currency: c.Currency, OwnerEpoch: c.OwnerEpoch, Policy: c.Policy, Operator: c.Operator,
		Entered: c.Entered, FirstCheck: timeText(c.FirstCheck), Opening: base64.StdEncoding.EncodeToString(opening)}
}

// OpeningBytes is the sealed secret, empty where the claim has none.
func (c ClaimBody) OpeningBytes() ([]byte, error) {
	b, err := base64.StdEncoding.DecodeString(c.Opening)
	if err != nil {
		return nil, fmt.Errorf("%w: opening: %w", ErrEntry, err)
	}
	return b, nil
}
