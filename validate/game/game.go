// Package game holds the catalogue's facts about a game: its regulation's prize
// tables, its emissions, and what an import found wrong in the printed figures.
// It computes and compares but never guesses: what a text does not say is unknown.
// It reads no text of a regulation (game/reglement does) and no file (configs does).
// Start at Game; Table.Audit is the arithmetic, Table.Scale makes smaller blocks.
package game

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/bits"

	"grattoir/validate/money"
)

// Kind is what sort of official text a game was read from.
type Kind string

const (
	Regulation Kind = "regulation" // a game's own règlement particulier, or a Belgian decree
	Amendment  Kind = "amendment"  // changes or adds to a regulation; what it leaves out stays in force elsewhere
	Notice     Kind = "notice"     // ties an emission to its code and dates; holds no rules
	Other      Kind = "other"      // none of these, or too little text to tell
)

// Channel is how a game is sold. The empty Channel is unknown, null in JSON.
type Channel string

const (
	Ticket   Channel = "ticket"
	Internet Channel = "internet"
)

// Status says what a game's tables are good for.
type Status string

const (
	Complete     Status = "complete"     // every row is readable and the figures agree
	Inconsistent Status = "inconsistent" // every row is readable, but printed figures disagree
	Incomplete   Status = "incomplete"   // totals only, or rows missing
	NoTable      Status = "no-table"     // no prize table at all
)

// Unit is what a block counts.
type Unit string

const (
	UnitTicket Unit = "ticket"
	UnitGame   Unit = "unit" // unité de jeu, sold on the internet
	UnitPack   Unit = "pack" // several tickets sold as one
)

// Game is a product as its regulation describes it. Its JSON is the answer of
// `central game import --json`; an empty ID, Name or Channel is null there.
type Game struct {
	ID        string     `json:"id" toml:"id,omitempty"` // Slug of Name
	Name      string     `json:"name" toml:"name,omitempty"`
	Kind      Kind       `json:"kind" toml:"kind"`
	Channel   Channel    `json:"channel" toml:"channel,omitempty"`
	Status    Status     `json:"status" toml:"status"`
	Emissions []Emission `json:"emissions" toml:"emissions,omitempty"`
	Offer     *Offer     `json:"offer" toml:"offer,omitempty"` // combined offers only
	Tables    []Table    `json:"tables" toml:"tables,omitempty"`
	Findings  []Finding  `json:"findings" toml:"findings,omitempty"`

	// Source names the text that was read. It is kept in the catalogue file and
	// is no part of the JSON answer.
	Source Source `json:"-" toml:"source,omitempty"`
}

// Source is the text a game was read from.
type Source struct {
	Name   string `json:"name" toml:"name,omitempty"` // file name without its folder
	SHA256 string `json:"sha256" toml:"sha256,omitempty"`
}

// Offer is a sale of several games together for one price. Shares may be parts
// of a cent, so they are decimal strings of minor units: "97", "152.43".
type Offer struct {
	SalePrice      *money.Amount `json:"sale_price_minor" toml:"sale_price_minor,omitempty"`
	Parts          []Part        `json:"parts" toml:"parts,omitempty"`
	Participations *int64        `json:"participations" toml:"participations,omitempty"` // in the other game, per sale
}

// Part is one game's share of a combined offer's price.
type Part struct {
	Game  string `json:"game" toml:"game"`
	Minor string `json:"minor" toml:"minor"`
}

// Table is one block's prize table. A game with several stakes has one for each.
type Table struct {
	BlockSize    *int64        `json:"block_size" toml:"block_size,omitempty"`
	Unit         Unit          `json:"unit" toml:"unit"`
	Price        *money.Amount `json:"price_minor" toml:"price_minor,omitempty"`     // the game's own (net) price of a unit
	Stake        *money.Amount `json:"stake_minor" toml:"stake_minor,omitempty"`     // set where the game has several
	Currency     string        `json:"currency" toml:"currency,omitempty"`           // ISO 4217; empty is unknown, null in JSON
	Rows         []Row         `json:"rows" toml:"rows,omitempty"`                   // tiers 1..n in the regulation's order, money only
	NonCash      []NonCash     `json:"non_cash" toml:"non_cash,omitempty"`           // prizes that are not a sum of money
	PrintedCount *int64        `json:"printed_count" toml:"printed_count,omitempty"` // of the money prizes, as printed
	PrintedTotal *money.Amount `json:"printed_total_minor" toml:"printed_total_minor,omitempty"`
}

// Row is a tier: Count tickets of the block each win Amount, the ticket's whole prize.
type Row struct {
	Count        int64         `json:"count" toml:"count"`
	Amount       money.Amount  `json:"amount_minor" toml:"amount_minor"`
	PrintedTotal *money.Amount `json:"printed_total_minor" toml:"printed_total_minor,omitempty"`
}

// NonCash is a prize that is not a fixed sum of money: a car, a trip, a free ticket.
type NonCash struct {
	Count  int64         `json:"count" toml:"count"`
	Amount *money.Amount `json:"amount_minor" toml:"amount_minor,omitempty"` // its printed value, where there is one
	Text   string        `json:"text" toml:"text"`                           // the regulation's words
}

// Finding is a discrepancy of the printed text.
type Finding struct {
	Code     FindingCode `json:"code" toml:"code"`
	Table    *int        `json:"table" toml:"table,omitempty"`       // index in Tables
	Row      *int        `json:"row" toml:"row,omitempty"`           // index in the table's Rows
	Printed  *string     `json:"printed" toml:"printed,omitempty"`   // the figure as the text has it
	Computed *string     `json:"computed" toml:"computed,omitempty"` // the figure the others lead to
	Message  string      `json:"message" toml:"message"`             // for people, with the place
}

// FindingCode names a kind of discrepancy. Scripts read them, so they never change.
type FindingCode string

const (
	RowTotal      FindingCode = "row-total"      // count x amount is not the row's total
	CountSum      FindingCode = "count-sum"      // the counts do not add up to the printed number of prizes
	TotalSum      FindingCode = "total-sum"      // the prizes do not add up to the printed total
	CountMisprint FindingCode = "count-misprint" // a count cannot be right as printed
	UnitMissing   FindingCode = "unit-missing"   // a sum without its currency
	NotMoney      FindingCode = "not-money"      // a prize or value that is no fixed sum
	ShareSum      FindingCode = "share-sum"      // the shares of an offer are not its price
	RowsMissing   FindingCode = "rows-missing"   // the table has rows that this text lacks or blurs
	Truncated     FindingCode = "truncated"      // the text stops inside a table or a sentence of it
)

// ErrScale means that a block of the wanted size cannot hold the prize table.
var ErrScale = errors.New("block too small for its prize table")

// MarshalJSON writes unknown texts as null and lists never as null.
func (g Game) MarshalJSON() ([]byte, error) {
	type plain Game
	return json.Marshal(struct {
		ID      *string  `json:"id"`
		Name    *string  `json:"name"`
		Kind    Kind     `json:"kind"`
		Channel *Channel `json:"channel"`
		plain
		Emissions []Emission `json:"emissions"`
		Offer     *Offer     `json:"offer"`
		Tables    []Table    `json:"tables"`
		Findings  []Finding  `json:"findings"`
	}{
		known(g.ID), known(g.Name), g.Kind, known(g.Channel), plain(g),
		list(g.Emissions), g.Offer, list(g.Tables), list(g.Findings),
	})
}

// MarshalJSON writes an unknown currency as null and lists never as null.
func (t Table) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		BlockSize    *int64        `json:"block_size"`
		Unit         Unit          `json:"unit"`
		Price        *money.Amount `json:"price_minor"`
		Stake        *money.Amount `json:"stake_minor"`
		Currency     *string       `json:"currency"`
		Rows         []Row         `json:"rows"`
		NonCash      []NonCash     `json:"non_cash"`
		PrintedCount *int64        `json:"printed_count"`
		PrintedTotal *money.Amount `json:"printed_total_minor"`
	}{t.BlockSize, t.Unit, t.Price, t.Stake, known(t.Currency), list(t.Rows), list(t.NonCash), t.PrintedCount, t.PrintedTotal})
}

// MarshalJSON writes a missing list of parts as an empty one.
func (o Offer) MarshalJSON() ([]byte, error) {
	type plain Offer
	o.Parts = list(o.Parts)
	return json.Marshal(plain(o))
}

func known[T ~string](text T) *T {
	if text == "" {
		return nil
	}
	return &text
}

func list[T any](items []T) []T {
	if items == nil {
		return []T{}
	}
	return items
}

// Count is the number of money prizes in the block by the rows.
func (t Table) Count() (int64, error) {
	var sum int64
	for i, row := range t.Rows {
		next, carry := bits.Add64(uint64(sum), uint64(row.Count), 0)
		if row.Count < 0 || carry != 0 || next > 1<<63-1 {
			return 0, fmt.Errorf("row %d: %d prizes more: number of prizes too large", i+1, row.Count)
		}
		sum = int64(next)
	}
	return sum, nil
}

// Total is the money of the block's prizes by the rows, in minor units.
func (t Table) Total() (money.Amount, error) {
	var sum money.Amount
	for i, row := range t.Rows {
		product, err := row.Amount.Times(row.Count)
		if err != nil {
			return 0, fmt.Errorf("row %d: %w", i+1, err)
		}
		if sum, err = sum.Add(product); err != nil {
			return 0, fmt.Errorf("rows 1 to %d: %w", i+1, err)
		}
	}
	return sum, nil
}

// Scale is the table for a block of the given number of tickets: each count
// becomes max(1, floor(count * tickets / block size)). The printed totals are
// left out, because they are the whole block's. It returns ErrScale when the
// prizes would be more than the tickets, and refuses a table whose rows or block
// size are unknown, and a block larger than the regulation's.
func (t Table) Scale(tickets int64) ([]Row, error) {
	switch {
	case t.BlockSize == nil:
		return nil, errors.New("the block size is unknown: take it from the regulation this text amends")
	case len(t.Rows) == 0:
		return nil, errors.New("the prize table has no rows")
	case tickets < 1 || tickets > *t.BlockSize:
		return nil, fmt.Errorf("%d tickets: want 1 to %d, the regulation's block", tickets, *t.BlockSize)
	}
	rows := make([]Row, len(t.Rows))
	var prizes int64
	for i, row := range t.Rows {
		if row.Count < 1 || row.Count > *t.BlockSize {
			return nil, fmt.Errorf("row %d: %d prizes in a block of %d", i+1, row.Count, *t.BlockSize)
		}
		// The quotient fits because count <= block size and tickets <= block size.
		hi, lo := bits.Mul64(uint64(row.Count), uint64(tickets))
		count, _ := bits.Div64(hi, lo, uint64(*t.BlockSize))
		rows[i] = Row{Count: max(1, int64(count)), Amount: row.Amount}
		if rows[i].Count > tickets-prizes {
			return nil, fmt.Errorf("%d tickets, tier %d: %w; take more tickets", tickets, i+1, ErrScale)
		}
		prizes += rows[i].Count
	}
	return rows, nil
}
