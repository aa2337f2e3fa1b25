package central

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"grattoir/sync/wire"
	"grattoir/validate"
)

// A ticket that central allowed to a terminal is kept from everybody else until that
// terminal has paid it or given it back. A card that is lost does neither. Nobody can know
// whether it has paid: so a person frees its tickets and answers for it. What it claims
// later all the same is a conflict, and the ticket stays one that only central's word pays.

// Permit is a claim that central allowed and that is not paid.
type Permit struct {
	Terminal string           `json:"terminal"`
	Claim    string           `json:"claim"`
	GameCode string           `json:"game_code"`
	Block    validate.BlockID `json:"block"`
	Pack     uint32           `json:"pack"`
	Ticket   uint16           `json:"ticket"`
	Round    int              `json:"round"`
	Minor    int64            `json:"amount_minor"`
	Currency string           `json:"currency"`
	Made     time.Time        `json:"made"`
	// Operator, Why and Freed say who freed the ticket, "" and zero while it is kept.
	Operator string    `json:"operator,omitempty"`
	Why      string    `json:"why,omitempty"`
	Freed    time.Time `json:"freed,omitzero"`
}

const permitColumns = `SELECT v.terminal, v.claim, coalesce(p.game_code, ''), v.block_id, v.pack, v.ticket, v.round, coalesce(o.amount_minor, 0), coalesce(o.currency, ''), v.made, `

const permitJoins = ` v LEFT JOIN packs p ON p.block_id = v.block_id AND p.pack = v.pack
	LEFT JOIN online_claims o ON o.block_id = v.block_id AND o.pack = v.pack AND o.ticket = v.ticket AND o.round = v.round AND o.claim = v.claim `

// unpaidPermits are the reservations that no claim has used.
const unpaidPermits = permitColumns + `'', '', '' FROM reservations` + permitJoins + `WHERE $1 IN ('', v.terminal)
	AND NOT EXISTS (SELECT 1 FROM claims c WHERE c.block_id = v.block_id AND c.pack = v.pack AND c.ticket = v.ticket AND c.round = v.round) ORDER BY v.made, v.claim`

func readPermits(ctx context.Context, q querier, query string, args ...any) ([]Permit, error) {
	list := []Permit{}
	err := eachRow(ctx, q, query, func(row scanner) error {
		var p Permit
		var id []byte
		var made, freed string
		err := row.Scan(&p.Terminal, &p.Claim, &p.GameCode, &id, &p.Pack, &p.Ticket, &p.Round, &p.Minor, &p.Currency, &made, &p.Operator, &p.Why, &freed)
		if err == nil {
			p.Block, err = blockID(id)
		}
		if err == nil {
			p.Made, err = wire.ParseTime(made)
		}
		if err == nil && freed != "" {
			p.Freed, err = wire.ParseTime(freed)
		}
		list = append(list, p)
		return err
	}, args...)
	return list, err
}

// Permits lists what a terminal was allowed and has not paid, the oldest first; of all
// terminals where none is named.
func (c *Central) Permits(ctx context.Context, terminal string) ([]Permit, error) {
	return readPermits(ctx, c.store.reader(), unpaidPermits, terminal)
}

// FreedPermits lists what was freed, by whom and why, the oldest first.
func (c *Central) FreedPermits(ctx context.Context) ([]Permit, error) {
	return readPermits(ctx, c.store.reader(), permitColumns+"v.operator, v.why, v.at FROM freed"+permitJoins+"ORDER BY v.at, v.claim")
}

// Free gives up what a lost terminal was allowed and has not paid, so that others may be
// allowed these tickets. It may have paid them: the operator answers for that. The terminal
// was suspended before, and is not heard any more. It gives what was freed; the errors are ErrNotFound and ErrRefused.
func (c *Central) Free(ctx context.Context, terminal, operator, why string) ([]Permit, error) {
	fail := func(err error) ([]Permit, error) {
		return nil, fmt.Errorf("free the claims of terminal %.64q: %w", terminal, err)
	}
	if err := checkAct(operator, why); err != nil {
		return fail(err)
	}
	var list []Permit
	now := c.opt.Now().UTC().Truncate(time.Millisecond)
	err := c.store.change(ctx, func(ctx context.Context, tx *sql.Tx) error {
		// A claim that is decided holds the pack first, an upload the terminal.
		err := holdPacks(ctx, tx, "EXISTS (SELECT 1 FROM reservations v WHERE v.block_id = packs.block_id AND v.pack = packs.pack AND v.terminal = $1)", terminal)
		if err != nil {
			return err
		}
		switch _, state, err := holdTerminal(ctx, tx, terminal); {
		case err != nil:
			return err
		case state != Suspended:
			return fmt.Errorf("%w: it is %s and may still pay: suspend it first (central terminal suspend)", ErrRefused, state)
		}
		if list, err = readPermits(ctx, tx, unpaidPermits, terminal); err != nil {
			return err
		}
		if len(list) == 0 {
			return fmt.Errorf("%w: nothing is kept for it", ErrRefused)
		}
		for i := range list {
			list[i].Operator, list[i].Why, list[i].Freed = operator, why, now
			if err := list[i].free(ctx, tx); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fail(err)
	}
	c.holds.ringAll()
	c.opt.Log.Warn("claims of a lost terminal freed", "terminal", terminal, "claims", len(list), "operator", operator, "why", why)
	return list, nil
}

// free ends one. The claim's answer becomes that it pays nothing any more: the only one
// that ever changes, and a person has said so.
func (p Permit) free(ctx context.Context, tx *sql.Tx) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO freed(block_id, pack, ticket, round, claim, terminal, made, operator, why, at) VALUES($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`,
		p.Block[:], p.Pack, p.Ticket, p.Round, p.Claim, p.Terminal, wire.FormatTime(p.Made), p.Operator, p.Why, wire.FormatTime(p.Freed))
	if err != nil {
		return err
	}
	if err := once(tx.ExecContext(ctx, "DELETE FROM reservations WHERE block_id = $1 AND pack = $2 AND ticket = $3 AND round = $4 AND claim = $5", p.Block[:], p.Pack, p.Ticket, p.Round, p.Claim)); err != nil {
		return err
	}
	x := asked{tx: tx, now: wire.FormatTime(p.Freed), q: wire.ClaimRequest{Claim: p.Claim, Block: p.Block, Pack: p.Pack, Ticket: p.Ticket, Round: p.Round}}
	_, err = x.decided(ctx, wire.ClaimAnswer{State: wire.ClaimReturned, Text: "it was given up at central: the terminal was lost"})
	return err
}

// freedBy is who gave a claim's permission up, "" for nobody.
func freedBy(ctx context.Context, tx *sql.Tx, block validate.BlockID, pack uint32, ticket uint16, round int, claim string) (operator string, err error) {
	err = tx.QueryRowContext(ctx, "SELECT operator FROM freed WHERE block_id = $1 AND pack = $2 AND ticket = $3 AND round = $4 AND claim = $5", block[:], pack, ticket, round, plain(claim)).Scan(&operator)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return operator, err
}
