package central

import (
	"context"
	"database/sql"
	"fmt"

	"grattoir/sync/ledger"
	"grattoir/sync/wire"
	"grattoir/validate"
)

// A ticket that is reported stolen, or went back, is paid by no terminal that has heard of
// it. One that had not heard has paid in good faith: its claim is credited, and says so. A
// claim names the feed item that its terminal had reached (ledger.ClaimBody.Feed), and each
// report is a feed item, so that which was first needs no clock.

// wholePack stands for all tickets of a pack.
const wholePack = -1

// report is a report that holds.
type report struct {
	state validate.PackState
	feed  int64
}

// recallPacks keeps under which feed item packs of a run were reported, or forgets it.
func recallPacks(ctx context.Context, tx *sql.Tx, blocks []Block, run wire.PackItem, act PackAct, feed int64, now string) error {
	if act != StealPack && act != ReturnPack && act != RecoverPack {
		return nil
	}
	for pack := int64(run.First); pack <= int64(run.Last); pack++ {
		if b, ok := blockWith(blocks, uint32(pack)); ok {
			if err := recall(ctx, tx, packKey{b.ID, uint32(pack)}, wholePack, act, feed, now); err != nil {
				return err
			}
		}
	}
	return nil
}

// recall keeps a report of one ticket, or of the whole pack; what recovers it ends it.
func recall(ctx context.Context, tx *sql.Tx, key packKey, ticket int64, act PackAct, feed int64, now string) error {
	state := validate.PackStolenNow
	switch act {
	case StealPack:
	case ReturnPack:
		state = validate.PackReturn
	default:
		_, err := tx.ExecContext(ctx, "DELETE FROM recalls WHERE block_id = $1 AND pack = $2 AND ticket = $3", key.block[:], key.pack, ticket)
		return err
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO recalls(block_id, pack, ticket, state, feed, at) VALUES($1, $2, $3, $4, $5, $6)
		ON CONFLICT(block_id, pack, ticket) DO UPDATE SET state = excluded.state`, key.block[:], key.pack, ticket, state, feed, now)
	return err
}

// recallsOf are the reports of a pack's tickets.
func recallsOf(ctx context.Context, tx *sql.Tx, key packKey) (map[int64]report, error) {
	list := map[int64]report{}
	return list, eachRow(ctx, tx, "SELECT ticket, state, feed FROM recalls WHERE block_id = $1 AND pack = $2", func(row scanner) error {
		var ticket int64
		var r report
		err := row.Scan(&ticket, &r.state, &r.feed)
		list[ticket] = r
		return err
	}, key.block[:], key.pack)
}

// reported is the first report of a ticket or its pack that holds.
func (r right) reported(ticket uint16) (report, bool) {
	own, of := r.recalls[int64(ticket)]
	all, ofPack := r.recalls[wholePack]
	if ofPack && (!of || all.feed < own.feed) {
		return all, true
	}
	return own, of
}

// What a terminal knew of a report when it paid.
const (
	knewBefore  = "before"  // it had not heard of it: paid in good faith
	knewUnknown = "unknown" // its program does not say
)

// knew notes of a credited claim that its ticket is reported, and that its terminal had
// not heard so: whoever had is a conflict.
func (in *intake) knew(ctx context.Context, c ledger.ClaimBody) error {
	at, reported := in.rights[packKey{c.Block, c.Pack}].reported(c.Ticket)
	if !reported {
		return nil
	}
	knew := knewBefore
	if c.Feed == 0 {
		knew = knewUnknown
	}
	_, err := in.tx.ExecContext(ctx, "UPDATE claims SET knew = $1, heard = $2, recall = $3 WHERE block_id = $4 AND pack = $5 AND ticket = $6 AND round = $7",
		knew, c.Feed, at.feed, c.Block[:], c.Pack, c.Ticket, c.Round)
	return err
}

// Recalled is a payment that was credited although its ticket was reported when it came.
type Recalled struct {
	Terminal string `json:"terminal"`
	Number   string `json:"number"` // ledger number of the payment
	GameCode string `json:"game_code"`
	Pack     uint32 `json:"pack"`
	Ticket   uint16 `json:"ticket"`
	Minor    int64  `json:"amount_minor"`
	Currency string `json:"currency"`
	Knew     string `json:"knew"`   // before: the terminal had not heard of the report; unknown: its program does not say
	Heard    int64  `json:"heard"`  // feed item that it had reached, 0 for not known
	Report   int64  `json:"report"` // feed item of the report
	Paid     string `json:"paid"`   // by the terminal's clock
	Received string `json:"received"`
}

// Words say what the terminal knew, for people.
func (r Recalled) Words() string {
	if r.Knew == knewUnknown {
		return "not known whether the terminal had heard of the report: its program does not say"
	}
	return fmt.Sprintf("paid before the terminal could know: it had reached feed item %d, the report is item %d", r.Heard, r.Report)
}

// Recalled lists what was credited of reported tickets, the newest first. Payments that a
// terminal made after it had heard of the report are conflicts.
func (c *Central) Recalled(ctx context.Context) ([]Recalled, error) {
	list := []Recalled{}
	err := eachRow(ctx, c.store.reader(), `SELECT c.terminal, c.epoch, c.seq, coalesce(p.game_code, ''), c.pack, c.ticket, c.amount_minor, c.currency, c.knew, c.heard, c.recall, c.paid, c.received
		FROM claims c LEFT JOIN packs p ON p.block_id = c.block_id AND p.pack = c.pack WHERE c.knew <> '' ORDER BY c.received DESC, c.terminal, c.seq`, func(row scanner) error {
		var r Recalled
		var n validate.EntryNumber
		err := row.Scan(&r.Terminal, &n.Epoch, &n.Seq, &r.GameCode, &r.Pack, &r.Ticket, &r.Minor, &r.Currency, &r.Knew, &r.Heard, &r.Report, &r.Paid, &r.Received)
		r.Number = n.String()
		list = append(list, r)
		return err
	})
	return list, err
}
