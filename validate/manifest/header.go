// Package manifest opens the signed file of one block and proves, offline, what a
// ticket's hidden code is worth: its tier, or that it is not authentic. It is the only
// part under validate that touches files. It never builds a manifest (seal does) and
// knows no ledger and no policy. FORMAT.md beside it states the bytes. Start at Open,
// or at Shelf for a terminal's set of blocks.
package manifest

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"grattoir/validate"
	"grattoir/validate/money"
	"grattoir/validate/ticket"
)

// Format constants. They are fixed for version 1 and stand in every header all the same,
// so that a later version can change them without a guess.
const (
	Version      = 1
	TagBytes     = 8
	ChunkTickets = 500

	// MinSecretBits is the size of secret from which a manifest tells a thief nothing.
	MinSecretBits = 60

	maxHeader  = 64 << 10
	maxTiers   = 200
	maxTickets = 1 << 31
)

// Tier is a row of the block's prize table. Tier numbers count from 1 in the
// regulation's order; tier 0, no prize, has no row.
type Tier struct {
	Count  int64        // winning tickets in this block
	Amount money.Amount // the ticket's whole prize, in minor units
}

// Header is what the signed note of a manifest says about its block.
type Header struct {
	MinReader   int // oldest format version a reader must know
	Block       validate.BlockID
	Serial      int // issue of this block's manifest, from 1
	Game        string
	Name        string // the game's name for people
	Emission    string
	GameCode    string // as printed, padded to the layout's field
	Number      int    // block number in the emission
	Tickets     int64
	FirstPack   uint32
	PackSize    int
	FirstTicket int
	Layout      ticket.Layout
	Pepper      Hash   // commitment to the block's pepper, see Pepper.Commitment; zero where the layout needs none
	Internet    bool   // prizes are credited to the player's account
	Currency    string // ISO 4217
	Price       money.Amount
	Tiers       []Tier
	Scaled      bool // smaller than the regulation's block: demonstration only
	Root        Hash
}

// Text is the canonical text that is signed: one key and value a line, in this order.
func (h Header) Text() string {
	var b strings.Builder
	line := func(key string, value any) { fmt.Fprintf(&b, "%s %v\n", key, value) }
	fmt.Fprintf(&b, "grattoir manifest v%d\n", Version)
	line("min-reader", h.MinReader)
	line("block-id", h.Block)
	line("serial", h.Serial)
	line("game", h.Game)
	line("name", h.Name)
	line("emission", h.Emission)
	line("game-code", h.GameCode)
	line("block", h.Number)
	line("tickets", h.Tickets)
	line("first-pack", h.FirstPack)
	line("pack-size", h.PackSize)
	line("first-ticket", h.FirstTicket)
	line("layout", h.Layout)
	line("pepper", pepperText(h.Pepper))
	line("channel", channel(h.Internet))
	line("currency", h.Currency)
	line("price", int64(h.Price))
	line("tiers", len(h.Tiers))
	for i, t := range h.Tiers {
		line("tier", fmt.Sprintf("%d %d %d", i+1, t.Count, int64(t.Amount)))
	}
	line("scaled", yesNo(h.Scaled))
	line("tag-bytes", TagBytes)
	line("chunk-tickets", ChunkTickets)
	line("root", hex.EncodeToString(h.Root[:]))
	return b.String()
}

func yesNo(v bool) string {
	if v {
		return "yes"
	}
	return "no"
}

func pepperText(h Hash) string {
	if h == (Hash{}) {
		return "no"
	}
	return hex.EncodeToString(h[:])
}

func channel(internet bool) string {
	if internet {
		return "internet"
	}
	return "ticket"
}

// ParseHeader reads the canonical text. It accepts exactly what Text writes, so a
// signed text has one meaning; errors name the line.
func ParseHeader(text string) (Header, error) {
	p := headerParser{lines: strings.Split(text, "\n")}
	var h Header
	p.exact("grattoir manifest v" + strconv.Itoa(Version))
	h.MinReader = int(p.number("min-reader", 1, 1000))
	p.check(h.Block.UnmarshalText([]byte(p.value("block-id"))))
	h.Serial = int(p.number("serial", 1, 1e9))
	h.Game = p.value("game")
	h.Name = p.value("name")
	h.Emission = p.value("emission")
	h.GameCode = p.value("game-code")
	h.Number = int(p.number("block", 1, 1e9))
	h.Tickets = p.number("tickets", 1, maxTickets)
	h.FirstPack = uint32(p.number("first-pack", 0, 999999999))
	h.PackSize = int(p.number("pack-size", 1, 10000))
	h.FirstTicket = int(p.number("first-ticket", 0, 1))
	var err error
	h.Layout, err = ticket.ParseLayout(p.value("layout"))
	p.check(err)
	h.Pepper = p.pepper()
	h.Internet = p.choice("channel", "ticket", "internet")
	h.Currency = p.value("currency")
	h.Price = money.Amount(p.number("price", 0, 1<<53))
	n := p.number("tiers", 1, maxTiers)
	for i := range n {
		h.Tiers = append(h.Tiers, p.tier(int(i)+1))
	}
	h.Scaled = p.choice("scaled", "no", "yes")
	p.exact("tag-bytes " + strconv.Itoa(TagBytes))
	p.exact("chunk-tickets " + strconv.Itoa(ChunkTickets))
	h.Root = p.hash("root", p.value("root"))
	if p.err == nil && h.Text() != text {
		p.fail("the text is not in canonical form")
	}
	if p.err == nil {
		p.err = h.Validate()
	}
	if p.err != nil {
		return Header{}, p.err
	}
	return h, nil
}

// headerParser takes the lines in order and keeps the first error.
type headerParser struct {
	lines []string
	at    int
	err   error
}

func (p *headerParser) fail(format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf("header line %d: "+format, append([]any{p.at}, args...)...)
	}
}

func (p *headerParser) check(err error) {
	if err != nil {
		p.fail("%w", err)
	}
}

func (p *headerParser) next() string {
	p.at++
	if p.at > len(p.lines) {
		p.fail("the text ends early")
		return ""
	}
	return p.lines[p.at-1]
}

func (p *headerParser) exact(want string) {
	if got := p.next(); got != want {
		p.fail("want %q, found %.60q", want, got)
	}
}

func (p *headerParser) value(key string) string {
	got := p.next()
	value, ok := strings.CutPrefix(got, key+" ")
	if !ok {
		p.fail("want %q, found %.60q", key, got)
	}
	return value
}

func (p *headerParser) number(key string, low, high int64) int64 {
	return p.digits(key, p.value(key), low, high)
}

func (p *headerParser) digits(key, text string, low, high int64) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if p.err == nil && (err != nil || n < low || n > high) {
		p.fail("%s %.30q: want %d to %d", key, text, low, high)
		return low
	}
	return n
}

func (p *headerParser) choice(key, no, yes string) bool {
	v := p.value(key)
	if v != no && v != yes {
		p.fail("%s %.30q: want %s or %s", key, v, no, yes)
	}
	return v == yes
}

// hash reads 64 hexadecimal digits; that they are lower-case is seen in the whole text.
func (p *headerParser) hash(key, text string) (h Hash) {
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw) != len(h) {
		p.fail("%s %.80q: want 64 hexadecimal digits", key, text)
		return h
	}
	return Hash(raw)
}

func (p *headerParser) pepper() Hash {
	text := p.value("pepper")
	if text == "no" {
		return Hash{}
	}
	return p.hash("pepper", text)
}

func (p *headerParser) tier(want int) Tier {
	words := strings.Split(p.value("tier"), " ")
	if len(words) != 3 {
		p.fail("tier: want number, count and amount")
		return Tier{}
	}
	p.digits("tier number", words[0], int64(want), int64(want))
	return Tier{
		Count:  p.digits("count", words[1], 0, maxTickets),
		Amount: money.Amount(p.digits("amount", words[2], 1, 1<<53)),
	}
}

// Validate refuses a header whose parts contradict each other.
func (h Header) Validate() error {
	for key, v := range map[string]string{"game": h.Game, "name": h.Name, "emission": h.Emission} {
		if v == "" || len(v) > 200 || strings.ContainsAny(v, "\n\r") || strings.TrimSpace(v) != v {
			return fmt.Errorf("header %s %.40q: want 1 to 200 bytes on one line", key, v)
		}
	}
	if padded, err := ticket.PadGame(h.Layout, h.GameCode); err != nil {
		return fmt.Errorf("header: %w", err)
	} else if padded != h.GameCode {
		return fmt.Errorf("header game-code %q is not padded to layout %s", h.GameCode, h.Layout.Name)
	}
	if !h.Layout.Pays() {
		return fmt.Errorf("header: layout %s has no secret and can prove no prize", h.Layout.Name)
	}
	if h.Weak() != h.NeedsPepper() {
		return fmt.Errorf("header: layout %s has %d bits of secret: a pepper belongs to less than %d bits, and only there", h.Layout.Name, h.Layout.SecretBits(), MinSecretBits)
	}
	if len(h.Currency) != 3 {
		return fmt.Errorf("header currency %.10q: want three letters", h.Currency)
	}
	var winners int64
	for _, t := range h.Tiers {
		winners += t.Count // at most 200 x 2^31
	}
	if winners > h.Tickets {
		return fmt.Errorf("header: %d prizes among %d tickets", winners, h.Tickets)
	}
	packs := (h.Tickets + int64(h.PackSize) - 1) / int64(h.PackSize)
	if _, err := ticket.Make(h.Layout, h.GameCode, uint32(int64(h.FirstPack)+packs-1), uint16(h.FirstTicket+h.PackSize-1),
		strings.Repeat("0", h.Layout.Width(ticket.Secret))); err != nil {
		return fmt.Errorf("header: the last pack or ticket does not fit: %w", err)
	}
	return nil
}

// Weak tells whether the layout's secrets can be searched for by whoever has the pepper.
func (h Header) Weak() bool { return h.Layout.SecretBits() < MinSecretBits }

// NeedsPepper tells whether tags are opened with a pepper of the block's own.
func (h Header) NeedsPepper() bool { return h.Pepper != Hash{} }

// Index is the ticket's place in the block, and whether the block has it.
func (h Header) Index(pack uint32, number uint16) (int64, bool) {
	if pack < h.FirstPack || int(number) < h.FirstTicket || int(number) >= h.FirstTicket+h.PackSize {
		return 0, false
	}
	i := int64(pack-h.FirstPack)*int64(h.PackSize) + int64(int(number)-h.FirstTicket)
	return i, i < h.Tickets
}

// HasPack tells whether the block holds tickets of the pack.
func (h Header) HasPack(pack uint32) bool {
	_, ok := h.Index(pack, uint16(h.FirstTicket))
	return ok
}

// LastPack is the number of the block's last pack, which may hold fewer tickets.
func (h Header) LastPack() uint32 {
	return h.FirstPack + uint32((h.Tickets+int64(h.PackSize)-1)/int64(h.PackSize)) - 1
}

// Chunks is how many chunks hold the block's tags.
func (h Header) Chunks() int { return int((h.Tickets + ChunkTickets - 1) / ChunkTickets) }

// chunkLen is the length in bytes of chunk c, the last one shorter.
func (h Header) chunkLen(c int) int {
	return int(min(ChunkTickets, h.Tickets-int64(c)*ChunkTickets)) * TagBytes
}
