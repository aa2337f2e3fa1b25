// Package wire is what a terminal and central say to each other: messages, their
// limits, the kinds of error, and the texts that are signed. PROTOCOL.md beside it
// states the contract. It opens no connection and stores nothing. Start at PROTOCOL.md.
package wire

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"grattoir/validate"
	"grattoir/validate/policy"
)

// Protocol is the number both sides name in every message. Additive fields never raise it.
const Protocol = 1

// Limits of one message. A server refuses what is larger with KindTooLarge; a client
// reads no more than this.
const (
	MaxEntries     = 200       // journal lines in one upload
	MaxLine        = 16 << 10  // bytes of one journal line
	MaxUpload      = 4 << 20   // bytes of an upload's body
	MaxFeed        = 500       // feed items in one answer
	MaxAnswer      = 4 << 20   // bytes of any JSON answer or of the snapshot
	MaxRequest     = 64 << 10  // bytes of any other request
	MaxFeedWait    = 55        // seconds of one long poll
	FeedBeat       = 10        // seconds between two signs of life in a long poll that is held
	PieceSize      = 1 << 20   // bytes hashed apart in a block's descriptor; see Pieces
	MaxBlock       = 256 << 20 // bytes of a block file
	EnrolCodeBytes = 20        // secret (10) and pin of the CA (10) in an enrolment code
	MaxLooks       = 200       // counts of answers in one hello
	MaxSightings   = 100       // sightings in one hello
)

// SilentAfter is how long after its last contact a terminal counts as not heard: terminals
// say hello every few minutes.
const SilentAfter = 10 * time.Minute

// Paths of the requests. All but PathEnrol need the terminal's client certificate.
const (
	PathEnrol    = "/v1/enrol"    // POST EnrolRequest -> EnrolAnswer
	PathHello    = "/v1/hello"    // POST Hello -> HelloAnswer
	PathJournal  = "/v1/journal"  // POST Upload -> UploadAnswer, GET ?epoch=E&after=N -> JournalRun; frozen for ever
	PathFeed     = "/v1/feed"     // GET ?after=N&wait=S&beat=B -> Feed
	PathSnapshot = "/v1/snapshot" // GET -> signed note
	PathBlocks   = "/v1/blocks/"  // GET PathBlocks+SHA256, Range and If-Range
	PathPeppers  = "/v1/peppers/" // GET PathPeppers+block id -> PepperAnswer
	PathPieces   = "/v1/pieces/"  // GET PathPieces+SHA256 of the descriptor -> its text

	// HeaderRequest names a request, in 1 to 64 bytes of the terminal's choice; the answer to
	// it carries the same.
	HeaderRequest = "Grattoir-Request"

	// HeaderBeat, in an answer, is the seconds between two signs of life before its body: each
	// is a line feed, which JSON steps over.
	HeaderBeat = "Grattoir-Beat"

	// SnapshotQuery after PathSnapshot asks for the text that names descriptors. A central
	// that has none ignores it, and gives the text that names none.
	SnapshotQuery = "?text=2"
)

// EnrolRequest asks for a certificate. The key never leaves the device.
type EnrolRequest struct {
	Protocol int    `json:"protocol"`
	Code     string `json:"code"` // as central printed it, once
	CSR      string `json:"csr"`  // PEM PKCS#10 with the device's P-256 key
	// RenewalKey is the public half, PEM, of a P-256 key that may have the device's key
	// certified again after its certificate has ended; "" from a device that has none.
	RenewalKey string `json:"renewal_key,omitempty"`
}

// EnrolAnswer is what a terminal keeps.
type EnrolAnswer struct {
	Protocol    int      `json:"protocol"`
	Terminal    string   `json:"terminal"`    // the name in its certificate
	Certificate string   `json:"certificate"` // PEM
	CA          string   `json:"ca"`          // PEM
	CentralKey  string   `json:"central_key"` // public note key that signs snapshots and countersigns heads
	SealKeys    []string `json:"seal_keys"`   // public note keys that may sign manifests
	ClaimKey    string   `json:"claim_key"`   // public claim key that openings are sealed to
	Time        string   `json:"time"`        // central's clock, RFC 3339
}

// Position is a place in a terminal's journal: everything up to Seq, with the hash of that entry.
type Position struct {
	Epoch int64  `json:"epoch"`
	Seq   int64  `json:"seq"`
	Hash  string `json:"hash"` // 64 hexadecimal digits, zeros for Seq 0
}

// Hello tells how the terminal is, at start and every few minutes.
type Hello struct {
	Protocol   int      `json:"protocol"`
	Program    string   `json:"program"`
	Head       Position `json:"head"`
	Snapshot   int64    `json:"snapshot"` // version in force
	Feed       int64    `json:"feed"`     // cursor reached
	Unsent     int64    `json:"unsent"`   // entries above the acknowledged one
	DeviceTime string   `json:"device_time"`
	DiskFree   int64    `json:"disk_free"` // bytes
	Faults     []string `json:"faults"`    // codes of what does not work now
	// Stopped is why the terminal pays nothing until a person has looked, "" for nothing.
	Stopped Stop `json:"stopped,omitempty"`
	// Acked is the newest acknowledgement that the terminal holds, as central signed it, ""
	// for none: a central that was put back to an earlier state knows by it what it lost.
	Acked string `json:"acked,omitempty"`
	// Trust is the Mark of whom the terminal believes, "" before it has heard of any.
	Trust string `json:"trust,omitempty"`
	// Run is the random name of the program since its start, 32 hexadecimal digits, and
	// Count how often it has said hello: a run that comes back after another one was heard
	// means that two devices have this terminal's name. "" from a program that tells none.
	Run   string `json:"run,omitempty"`
	Count int64  `json:"count,omitempty"`
	// Looks are how often it answered what on its last days, at most MaxLooks, and Sightings
	// tickets that central may want to know of, in the order of their numbers, at most
	// MaxSightings: those above HelloAnswer.Sighted.
	Looks     []Look     `json:"looks,omitempty"`
	Sightings []Sighting `json:"sightings,omitempty"`
	// Tells says that the program tells what it may pay where the answer has Restored.
	Tells bool `json:"tells,omitempty"`
	// Bench is the record with which the terminal left the bench, told until central has
	// answered with its hash; nil for none.
	Bench *BenchNote `json:"bench,omitempty"`
	// Software is what runs here and how far an update has come, nil from a program that
	// tells none.
	Software *Software `json:"software,omitempty"`
}

// Stop is what keeps a terminal from paying until a person at central has looked.
type Stop string

const (
	StopHeadBehind Stop = "head-behind" // central holds more of the journal than the terminal: its card was put back
	StopFork       Stop = "fork"        // central holds another entry under the same number
	StopTwoHeads   Stop = "two-heads"   // two devices say hello under the terminal's name
)

// JournalRun is a part of the terminal's own journal, as central holds it: lines of one
// epoch, in order, from the first one behind the place that was asked for. No lines means
// that there is no more. Acked is a signed note over AckText of the end of all that is held.
type JournalRun struct {
	Protocol int      `json:"protocol"`
	Epoch    int64    `json:"epoch"` // 0 with no lines
	Lines    []string `json:"lines"` // at most MaxEntries, exact
	Acked    string   `json:"acked"`
}

// HelloAnswer carries central's clock and its head of this terminal's journal.
type HelloAnswer struct {
	Protocol int      `json:"protocol"`
	Time     string   `json:"time"`
	Acked    Position `json:"acked"`
	Snapshot int64    `json:"snapshot"` // newest version
	Feed     int64    `json:"feed"`     // newest item
	// Ack is a signed note over AckText of Acked with central's time now, "" from a
	// central that sends none. It carries signed time and the allowance to a terminal
	// that has nothing to upload.
	Ack string `json:"ack,omitempty"`
	// Region is where the terminal stands, "" for nowhere in particular. Blocks that were
	// delivered there are the next it wants after those of its own packs.
	Region string `json:"region,omitempty"`
	// Trust is the Mark of whom terminals are to believe: PathTrust tells them.
	Trust string `json:"trust,omitempty"`
	// Recover is the journal epoch that a person has agreed to, 0 for none: the terminal
	// reads its own journal again and goes on in that epoch.
	Recover int64 `json:"recover,omitempty"`
	// Texts is the newest text of a snapshot that central gives, 0 from one that gives at most 2.
	Texts int `json:"texts,omitempty"`
	// Restored asks the terminal to tell what it may pay, PathStanding; nil for no need.
	Restored *Restored `json:"restored,omitempty"`
	// Sighted is the number of the newest sighting that central holds, 0 for none: the
	// terminal forgets those up to it.
	Sighted int64 `json:"sighted,omitempty"`
	// Bench is the SHA-256, in hexadecimal, of the text of the bench record that came with
	// this hello: it need not be told again. "" from a central that knows none.
	Bench string `json:"bench,omitempty"`
	// Update is what the terminal is to install, nil for nothing.
	Update *Offer `json:"update,omitempty"`
}

// Upload sends journal lines as they were written, in order, without a gap, from the
// entry after the acknowledged one. Signature is the device key's over HeadText of To.
type Upload struct {
	Protocol  int      `json:"protocol"`
	Epoch     int64    `json:"epoch"`
	From      int64    `json:"from"` // sequence number of the first line
	Lines     []string `json:"lines"`
	To        Position `json:"to"`        // the last line's place
	Signature string   `json:"signature"` // base64, ECDSA P-256 over SHA-256 of HeadText, ASN.1
}

// UploadAnswer acknowledges a prefix. It is the same, whenever the same upload is repeated.
type UploadAnswer struct {
	Protocol   int         `json:"protocol"`
	Acked      string      `json:"acked"` // signed note over AckText
	Exceptions []Exception `json:"exceptions"`
}

// Exception is an entry that central stored and did not credit.
type Exception struct {
	Seq  int64         `json:"seq"`
	Kind ExceptionKind `json:"kind"`
	Text string        `json:"text"` // for a technician
}

// ExceptionKind says why an entry was not credited.
type ExceptionKind string

const (
	DoubleClaim   ExceptionKind = "double-claim"   // the ticket and round have an accepted claim of another entry
	ClaimUnproven ExceptionKind = "claim-unproven" // the opening does not open this ticket's tag
	WrongPrize    ExceptionKind = "wrong-prize"    // tier or amount differ from the manifest
	NoRight       ExceptionKind = "no-right"       // the pack was not this terminal's at that epoch
	UnknownKind   ExceptionKind = "unknown-kind"   // stored as it is, for a later central
)

// Feed is a run of the status feed.
type Feed struct {
	Protocol int        `json:"protocol"`
	Items    []FeedItem `json:"items"`
	Time     string     `json:"time"`
}

// FeedItem is one entry of the append-only status feed. Numbers rise; a terminal sees
// only what concerns it, so they may have gaps. A kind it does not know it steps over.
type FeedItem struct {
	Seq  int64     `json:"seq"`
	Kind FeedKind  `json:"kind"`
	Pack *PackItem `json:"pack,omitempty"`
	Paid *PaidItem `json:"paid,omitempty"`

	Reversal *ReversalItem `json:"reversal,omitempty"`
	Hold     *HoldItem     `json:"hold,omitempty"`

	Tickets    *TicketsItem    `json:"tickets,omitempty"`
	Suspension *SuspensionItem `json:"suspension,omitempty"`
	Message    *MessageItem    `json:"message,omitempty"`
	Exception  *ExceptionItem  `json:"exception,omitempty"`
	Sales      *SalesItem      `json:"sales,omitempty"`
}

// FeedKind says what an item is about.
type FeedKind string

const (
	FeedPack FeedKind = "pack" // packs changed their state or owner
	FeedPaid FeedKind = "paid" // a ticket of this terminal's packs was paid elsewhere

	FeedReversal FeedKind = "reversal" // central has decided a reversal that this terminal asked for
	FeedHold     FeedKind = "hold"     // a ticket of this terminal's packs is paid by central's word only
)

// PackItem sets the state of a run of packs.
type PackItem struct {
	GameCode string             `json:"game_code"` // as printed, padded
	First    uint32             `json:"first"`
	Last     uint32             `json:"last"`
	State    validate.PackState `json:"state"`
	Owner    string             `json:"owner"` // terminal that may pay them with no network
	Epoch    int64              `json:"epoch"` // owner epoch, only central raises it
}

// PaidItem tells of a payment by another terminal.
type PaidItem struct {
	Block    validate.BlockID `json:"block"`
	Pack     uint32           `json:"pack"`
	Ticket   uint16           `json:"ticket"`
	Terminal string           `json:"terminal"`
	Number   string           `json:"number"`
	At       string           `json:"at"`
}

// ReversalItem is central's answer to a reversal. Accepted frees the ticket for its next
// round, which is paid online only.
type ReversalItem struct {
	Reversal string `json:"reversal"` // id of the request
	Claim    string `json:"claim"`    // id of the claim that it takes back
	Accepted bool   `json:"accepted"`
	Reason   string `json:"reason"` // central's words, at most 200 bytes
}

// Kind is the class of an error. Clients decide by it, never by the text.
type Kind string

const (
	KindBadRequest Kind = "bad-request" // never repeat it as it is
	KindTooLarge   Kind = "too-large"   // send less
	KindForbidden  Kind = "forbidden"   // certificate unknown, revoked or suspended
	KindExpired    Kind = "expired"     // the certificate has ended: renew it, PathRenew
	KindBadCode    Kind = "bad-code"    // enrolment code unknown, used or expired
	KindBehind     Kind = "behind"      // Acked says where the journal goes on
	KindFork       Kind = "fork"        // same number, other bytes: a person is needed
	KindUpgrade    Kind = "upgrade"     // protocol too old; uploading still works
	KindNotFound   Kind = "not-found"
	KindBusy       Kind = "busy"     // try again after Retry-After
	KindInternal   Kind = "internal" // central's own fault; try again
)

// Error is the body of every answer that is not 2xx.
type Error struct {
	Kind  Kind      `json:"kind"`
	Text  string    `json:"text"`
	Acked *Position `json:"acked,omitempty"` // with KindBehind and KindFork
	Stop  Stop      `json:"stop,omitempty"`  // with KindFork, why in one word
}

func (e *Error) Error() string { return fmt.Sprintf("central: %s: %s", e.Kind, e.Text) }

// Block is a block file as the snapshot lists it, with what a terminal must know to
// choose between blocks before it has any of them.
type Block struct {
	SHA256    string
	Size      int64
	GameCode  string
	Reader    int    // oldest manifest format version a reader must know
	FirstPack uint32 // of the packs it holds
	LastPack  uint32
	Published policy.Date // day on which central first published an issue of it
	Closed    policy.Date // of its emission's closing notice, zero while it is open
	DropAfter policy.Date // last day on which it is wanted, zero while the emission is open
	Regions   []string    // of the terminals that its packs were delivered to, sorted
	Pieces    string      // SHA-256 of its descriptor, "" for none; see Pieces
}

// ValidRegion tells whether a text names a region: 1 to 16 of a-z, 0-9 and -, not
// beginning or ending with -.
func ValidRegion(r string) bool {
	return len(r) >= 1 && len(r) <= 16 && strings.Trim(r, "abcdefghijklmnopqrstuvwxyz0123456789-") == "" && strings.Trim(r, "-") == r
}

// line is the block as the snapshot's text has it; "-" stands for what there is none of.
// The text's version 2 has the descriptor as well.
func (b Block) line(version int) string {
	closed, drop, regions := "-", "-", "-"
	if !b.Closed.IsZero() {
		closed = b.Closed.String()
	}
	if !b.DropAfter.IsZero() {
		drop = b.DropAfter.String()
	}
	if len(b.Regions) > 0 {
		regions = strings.Join(slices.Compact(slices.Sorted(slices.Values(b.Regions))), ",")
	}
	text := fmt.Sprintf("block %s %d %s %d %d %d %s %s %s %s", b.SHA256, b.Size, b.GameCode, b.Reader, b.FirstPack, b.LastPack, b.Published, closed, drop, regions)
	if version >= 2 {
		text += " " + cmp.Or(b.Pieces, "-")
	}
	return text + "\n"
}

func parseBlock(line string, version int) (b Block, err error) {
	if version >= 2 {
		at := strings.LastIndexByte(line, ' ')
		b.Pieces, line = line[at+1:], line[:max(0, at)]
		if b.Pieces == "-" {
			b.Pieces = ""
		} else if !isSHA256(b.Pieces) {
			return b, fmt.Errorf("descriptor %.70q", b.Pieces)
		}
	}
	var published, closed, drop, regions string
	if _, err := fmt.Sscanf(line, "block %64s %d %s %d %d %d %s %s %s %s", &b.SHA256, &b.Size, &b.GameCode, &b.Reader, &b.FirstPack, &b.LastPack,
		&published, &closed, &drop, &regions); err != nil {
		return b, err
	}
	if b.LastPack < b.FirstPack {
		return b, fmt.Errorf("packs %d to %d", b.FirstPack, b.LastPack)
	}
	if b.Published, err = policy.ParseDate(published); err != nil {
		return b, err
	}
	if closed != "-" {
		if b.Closed, err = policy.ParseDate(closed); err != nil {
			return b, err
		}
	}
	if drop != "-" {
		if b.DropAfter, err = policy.ParseDate(drop); err != nil {
			return b, err
		}
	}
	if regions != "-" {
		b.Regions = strings.Split(regions, ",")
	}
	for _, r := range b.Regions {
		if !ValidRegion(r) {
			return b, fmt.Errorf("region %.20q", r)
		}
	}
	return b, nil
}

// Snapshot is what central publishes to all terminals, signed whole. Its version only rises.
type Snapshot struct {
	Version  int64
	Issued   time.Time
	Blocks   []Block
	Policies []PolicyFile
	// Catalogue and Software are in the text's version 3 alone.
	Catalogue CatalogueFile
	Software  []Release
}

// Text is the canonical text that is signed: version 3 where the catalogue or software is
// named, version 2 where a block's descriptor or a policy is, version 1 where none is.
func (s Snapshot) Text() string {
	version := 1
	if s.Catalogue != (CatalogueFile{}) || len(s.Software) > 0 {
		version = 3
	} else if len(s.Policies) > 0 || slices.ContainsFunc(s.Blocks, func(b Block) bool { return b.Pieces != "" }) {
		version = 2
	}
	var b strings.Builder
	fmt.Fprintf(&b, "grattoir snapshot v%d\nversion %d\nissued %s\nblocks %d\n", version, s.Version, FormatTime(s.Issued), len(s.Blocks))
	for _, x := range s.Blocks {
		b.WriteString(x.line(version))
	}
	b.WriteString(policyLines(s.Policies))
	b.WriteString(extraLines(s.Catalogue, s.Software))
	return b.String()
}

// WithoutCatalogue is the snapshot as terminals read it that know neither a catalogue nor
// software in it.
func (s Snapshot) WithoutCatalogue() Snapshot {
	s.Catalogue, s.Software = CatalogueFile{}, nil
	return s
}

// WithoutPieces is the snapshot as terminals read it that know neither descriptors nor
// policies in it.
func (s Snapshot) WithoutPieces() Snapshot {
	s = s.WithoutCatalogue()
	s.Blocks, s.Policies = slices.Clone(s.Blocks), nil
	for i := range s.Blocks {
		s.Blocks[i].Pieces = ""
	}
	return s
}

// ErrText means a signed text that is not what its kind writes.
var ErrText = errors.New("signed text is not canonical")

// ParseSnapshot reads what Text writes, and nothing else.
func ParseSnapshot(text string) (Snapshot, error) {
	var s Snapshot
	var issued string
	var n, format int
	lines := strings.Split(text, "\n")
	if len(lines) < 5 || len(text) > MaxAnswer {
		return s, fmt.Errorf("snapshot: %w: %d lines", ErrText, len(lines))
	}
	if _, err := fmt.Sscanf(strings.Join(lines[:4], "\n"), "grattoir snapshot v%d\nversion %d\nissued %s\nblocks %d", &format, &s.Version, &issued, &n); err != nil {
		return s, fmt.Errorf("snapshot: %w: %w", ErrText, err)
	}
	var err error
	if s.Issued, err = ParseTime(issued); err != nil {
		return s, fmt.Errorf("snapshot: %w: %w", ErrText, err)
	}
	if n < 0 || n > len(lines)-5 {
		return s, fmt.Errorf("snapshot: %w: %d blocks announced", ErrText, n)
	}
	rest := lines[4+n : len(lines)-1]
	at := len(rest)
	if format >= 3 {
		at = slices.IndexFunc(rest, func(line string) bool {
			return strings.HasPrefix(line, "catalogue ") || strings.HasPrefix(line, "software ")
		})
	}
	if at < 0 {
		return s, fmt.Errorf("snapshot: %w: text 3 names no catalogue and no software", ErrText)
	}
	if s.Policies, err = parsePolicies(rest[:at]); err != nil {
		return s, fmt.Errorf("snapshot: %w: %w", ErrText, err)
	}
	if s.Catalogue, s.Software, err = parseExtra(rest[at:]); err != nil {
		return s, fmt.Errorf("snapshot: %w: %w", ErrText, err)
	}
	for i := range n {
		x, err := parseBlock(lines[4+i], format)
		if err != nil {
			return s, fmt.Errorf("snapshot line %d: %w: %w", 5+i, ErrText, err)
		}
		s.Blocks = append(s.Blocks, x)
	}
	if s.Version < 1 || s.Text() != text {
		return s, fmt.Errorf("snapshot: %w", ErrText)
	}
	return s, nil
}

// HeadText is what the device key signs for a head of its journal.
func HeadText(terminal string, p Position) string {
	return fmt.Sprintf("grattoir head v1\nterminal %s\nepoch %d\nseq %d\nhash %s\n", terminal, p.Epoch, p.Seq, p.Hash)
}

// Ack is central's acknowledgement: it holds everything up to the position, and the
// terminal may pay so much above it. Zero bounds nothing.
type Ack struct {
	Terminal        string
	Position        Position
	Time            time.Time
	AllowanceClaims int64
	AllowanceMinor  int64
	Note            string // the signed note that it was read from, "" for none; no part of Text
}

// Text is the canonical text that central signs.
func (a Ack) Text() string {
	return fmt.Sprintf("grattoir ack v1\nterminal %s\nepoch %d\nseq %d\nhash %s\ntime %s\nallowance %d %d\n",
		a.Terminal, a.Position.Epoch, a.Position.Seq, a.Position.Hash, FormatTime(a.Time), a.AllowanceClaims, a.AllowanceMinor)
}

// ParseAck reads what Text writes, and nothing else.
func ParseAck(text string) (Ack, error) {
	var a Ack
	var at string
	_, err := fmt.Sscanf(text, "grattoir ack v1\nterminal %s\nepoch %d\nseq %d\nhash %s\ntime %s\nallowance %d %d\n",
		&a.Terminal, &a.Position.Epoch, &a.Position.Seq, &a.Position.Hash, &at, &a.AllowanceClaims, &a.AllowanceMinor)
	if err != nil {
		return a, fmt.Errorf("acknowledgement: %w: %w", ErrText, err)
	}
	if a.Time, err = ParseTime(at); err != nil {
		return a, fmt.Errorf("acknowledgement: %w: %w", ErrText, err)
	}
	if a.Text() != text {
		return a, fmt.Errorf("acknowledgement: %w", ErrText)
	}
	return a, nil
}

const timeLayout = "2006-01-02T15:04:05.000Z"

// FormatTime writes a time as every message does: RFC 3339, UTC, milliseconds.
func FormatTime(t time.Time) string { return t.UTC().Format(timeLayout) }

// ParseTime reads what FormatTime writes.
func ParseTime(s string) (time.Time, error) { return time.Parse(timeLayout, s) }

// ParseRange reads "A-B" or "A" as a run of packs.
func ParseRange(text string) (first, last uint32, err error) {
	a, b, two := strings.Cut(text, "-")
	if !two {
		b = a
	}
	x, err1 := strconv.ParseUint(a, 10, 32)
	y, err2 := strconv.ParseUint(b, 10, 32)
	if err := errors.Join(err1, err2); err != nil || y < x {
		return 0, 0, fmt.Errorf("packs %.40q: want a number or a run, like 120-179", text)
	}
	return uint32(x), uint32(y), nil
}
