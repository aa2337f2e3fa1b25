package central

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"grattoir/sync/wire"
	"grattoir/validate"
)

// PackAct is one step in the life of a pack.
type PackAct string

const (
	DeliverPack  PackAct = "deliver"  // to a terminal, which owns it from then on
	ActivatePack PackAct = "activate" // on sale: its tickets may be paid
	SettlePack   PackAct = "settle"   // the shop owes its sale price; its tickets may still be paid
	ReturnPack   PackAct = "return"   // it went back to the centre unsold
	StealPack    PackAct = "stolen"   // it is reported stolen
	RecoverPack  PackAct = "recover"  // it was found again, or was never stolen
)

// packAsBefore stands for the state that a stolen pack had before.
const packAsBefore validate.PackState = "as before"

// life is every legal step of a pack, in the order in which people read them. What is
// not here is refused.
var life = []struct {
	act  PackAct
	from []validate.PackState
	to   validate.PackState
}{
	{DeliverPack, []validate.PackState{validate.PackPrinted}, validate.PackDelivered},
	{ActivatePack, []validate.PackState{validate.PackDelivered}, validate.PackActive},
	{SettlePack, []validate.PackState{validate.PackActive}, validate.PackSettled},
	{ReturnPack, []validate.PackState{validate.PackDelivered, validate.PackActive}, validate.PackReturn},
	{StealPack, []validate.PackState{validate.PackPrinted, validate.PackDelivered, validate.PackActive, validate.PackSettled, validate.PackReturn}, validate.PackStolenNow},
	{RecoverPack, []validate.PackState{validate.PackStolenNow}, packAsBefore},
}

// next is the state that an act leads to. The error names the acts that are legal.
func (p packRow) next(act PackAct) (validate.PackState, error) {
	var legal []string
	for _, step := range life {
		if !slices.Contains(step.from, p.state) {
			continue
		}
		if step.act != act {
			legal = append(legal, string(step.act))
			continue
		}
		if step.to == packAsBefore {
			return p.was, nil
		}
		return step.to, nil
	}
	owner := ""
	if p.owner != "" {
		owner = ", owned by " + p.owner
	}
	return "", because(BecausePackStands, fmt.Errorf("%w: pack %d is %s%s; legal now: %s", ErrRefused, p.pack, p.state, owner, strings.Join(legal, ", ")), p.pack, p.state, legal)
}

// packRow is a pack as the table has it, printed where it has no row.
type packRow struct {
	block     validate.BlockID
	pack      uint32
	state     validate.PackState
	owner     string
	epoch     int64
	activated string // when, "" for never
	settled   string
	settledBy string
	was       validate.PackState // before it was stolen
	nobodys   bool               // its owner may not pay it with no network: the feed names none
}

func readPack(ctx context.Context, tx *sql.Tx, block validate.BlockID, pack uint32) (packRow, error) {
	p := packRow{block: block, pack: pack, state: validate.PackPrinted}
	err := tx.QueryRowContext(ctx, `SELECT state, owner, epoch, activated, settled, settled_by, was, EXISTS (SELECT 1 FROM pack_rights r
		WHERE r.block_id = packs.block_id AND r.pack = packs.pack AND r.epoch = packs.epoch AND r.kind IN ($1, $2)) FROM packs WHERE block_id = $3 AND pack = $4`, rightForced, rightOnline, block[:], pack).
		Scan(&p.state, &p.owner, &p.epoch, &p.activated, &p.settled, &p.settledBy, &p.was, &p.nobodys)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return p, err
}

// store writes the pack where it still is as it was read, else errAgain.
func (p packRow) store(ctx context.Context, tx *sql.Tx, gameCode string, read packRow, now string) error {
	return once(tx.ExecContext(ctx, `INSERT INTO packs(block_id, pack, game_code, state, owner, epoch, changed, activated, settled, settled_by, was) VALUES($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
		ON CONFLICT(block_id, pack) DO UPDATE SET state = excluded.state, owner = excluded.owner, epoch = excluded.epoch, changed = excluded.changed,
			activated = excluded.activated, settled = excluded.settled, settled_by = excluded.settled_by, was = excluded.was
		WHERE packs.state = $12 AND packs.epoch = $13`, p.block[:], p.pack, gameCode, p.state, p.owner, p.epoch, now, p.activated, p.settled, p.settledBy, p.was, read.state, read.epoch))
}

func (p packRow) item(gameCode string) wire.PackItem {
	item := wire.PackItem{GameCode: gameCode, First: p.pack, Last: p.pack, State: p.state, Owner: p.owner, Epoch: p.epoch}
	if p.nobodys {
		item.Owner = ""
	}
	return item
}

// step does one act on one pack of a block. A new owner raises the owner epoch.
func (m move) step(ctx context.Context, tx *sql.Tx, b Block, pack uint32, now string) (wire.PackItem, error) {
	p, err := readPack(ctx, tx, b.ID, pack)
	if err != nil {
		return wire.PackItem{}, err
	}
	read := p
	if p.state, err = p.next(m.act); err != nil {
		return p.item(b.GameCode), err
	}
	switch m.act {
	case DeliverPack:
		if err := m.back.knows(ctx, tx, b.ID, pack); err != nil {
			return p.item(b.GameCode), err
		}
		p.owner, p.epoch = m.owner, m.back.raised(p.epoch)
	case ActivatePack:
		if err := m.mayBeSold(ctx, tx, b); err != nil {
			return read.item(b.GameCode), err
		}
		p.activated = now
	case SettlePack:
		p.settled, p.settledBy = now, m.by
	case ReturnPack:
		if err := unpaid(ctx, tx, b.ID, pack, 0, maxTicket); err != nil {
			return p.item(b.GameCode), err
		}
	case StealPack:
		p.was = read.state
	case RecoverPack:
		p.was = ""
	}
	return p.item(b.GameCode), p.store(ctx, tx, b.GameCode, read, now)
}

// mayBeSold asks once for each block of an act.
func (m move) mayBeSold(ctx context.Context, tx *sql.Tx, b Block) error {
	err, asked := m.sold[b.ID]
	if !asked {
		if err = mayBeSold(ctx, tx, b); m.sold != nil {
			m.sold[b.ID] = err
		}
	}
	return err
}

// mayBeSold is nil where packs of a block may be put on sale, else ErrRefused: what is
// suspended is not sold, nor a block of which the sales have ended.
func mayBeSold(ctx context.Context, tx *sql.Tx, b Block) error {
	var reason string
	err := tx.QueryRowContext(ctx, "SELECT reason FROM suspensions WHERE game = $1 AND emission IN ('', $2) AND block IN (0, $3) ORDER BY emission DESC, block DESC LIMIT 1", b.Game, b.Emission, b.Number).Scan(&reason)
	if errors.Is(err, sql.ErrNoRows) {
		return onSale(ctx, tx, b)
	}
	if err != nil {
		return err
	}
	return because(BecauseBlockSuspended, fmt.Errorf("%w: game %s, emission %s, block %d is suspended (%s): none of its packs is put on sale before it is resumed", ErrRefused, b.Game, b.Emission, b.Number, reason), b.Game, b.Emission, b.Number, reason)
}

// maxTicket is the highest number that a ticket can have in its pack.
const maxTicket = 1<<16 - 1

// unpaid is nil when none of a pack's tickets from first to last was paid: a ticket that
// was paid was sold, and cannot come back unsold.
func unpaid(ctx context.Context, tx *sql.Tx, block validate.BlockID, pack uint32, first, last int) error {
	var n, ticket int
	err := tx.QueryRowContext(ctx, "SELECT count(*), coalesce(min(ticket), 0) FROM claims WHERE block_id = $1 AND pack = $2 AND ticket BETWEEN $3 AND $4", block[:], pack, first, last).Scan(&n, &ticket)
	if err != nil || n == 0 {
		return err
	}
	return because(BecausePackPaid, fmt.Errorf("%w: tickets of pack %d were paid, the first is %d: return those that were not sold, with --tickets", ErrRefused, pack, ticket), pack, ticket)
}

// Settle settles active packs. By says who, or which rule.
func (c *Central) Settle(ctx context.Context, gameCode string, first, last uint32, by string) ([]wire.PackItem, error) {
	return c.move(ctx, gameCode, first, last, move{act: SettlePack, by: by})
}

// Return takes packs back that were delivered and of which nothing was paid.
func (c *Central) Return(ctx context.Context, gameCode string, first, last uint32) ([]wire.PackItem, error) {
	return c.move(ctx, gameCode, first, last, move{act: ReturnPack})
}

// ReportStolen stops packs: no terminal that has heard of it pays a ticket of theirs.
func (c *Central) ReportStolen(ctx context.Context, gameCode string, first, last uint32) ([]wire.PackItem, error) {
	return c.move(ctx, gameCode, first, last, move{act: StealPack})
}

// RecoverPacks gives stolen packs the state that they had before.
func (c *Central) RecoverPacks(ctx context.Context, gameCode string, first, last uint32) ([]wire.PackItem, error) {
	return c.move(ctx, gameCode, first, last, move{act: RecoverPack})
}

// MarkTickets does an act on single tickets of one pack: ReturnPack, StealPack or
// RecoverPack. The answer is what every terminal hears: all tickets of the pack that are
// stolen or were returned. The errors include ErrRefused and ErrNotFound.
func (c *Central) MarkTickets(ctx context.Context, gameCode string, pack uint32, first, last uint16, act PackAct) (wire.TicketsItem, error) {
	var item wire.TicketsItem
	fail := func(err error) (wire.TicketsItem, error) {
		return wire.TicketsItem{}, fmt.Errorf("%s tickets %d-%d of pack %d of game code %.12s: %w", act, first, last, pack, gameCode, err)
	}
	blocks, err := blocksOf(ctx, c.store.reader(), gameCode)
	if err != nil {
		return fail(err)
	}
	b, ok := blockWith(blocks, pack)
	if !ok {
		return fail(because(BecausePackUnknownHere, fmt.Errorf("%w: the pack lies in no published block of this game code", ErrNotFound)))
	}
	if err := c.holdsTickets(ctx, b, first, last); err != nil {
		return fail(err)
	}
	var newest int64
	err = c.store.change(ctx, func(ctx context.Context, tx *sql.Tx) error {
		now := c.now()
		p, err := holdPack(ctx, tx, b, pack, now)
		if err != nil {
			return err
		}
		if item, err = readTickets(ctx, tx, b, pack); err != nil {
			return err
		}
		if item, err = mark(ctx, tx, p, item, wire.TicketRun{First: first, Last: last}, act); err != nil {
			return err
		}
		if err := storeTickets(ctx, tx, p, item, now); err != nil {
			return err
		}
		newest, err = addFeed(ctx, tx, everyone, now, wire.FeedItem{Kind: wire.FeedTickets, Tickets: &item})
		for ticket := int64(first); ticket <= int64(last) && err == nil; ticket++ {
			err = recall(ctx, tx, packKey{b.ID, pack}, ticket, act, newest, now)
		}
		return err
	})
	if err != nil {
		return fail(err)
	}
	c.feed.added(newest)
	c.opt.Log.Info("tickets marked", "act", act, "game", item.GameCode, "pack", pack, "first", first, "last", last)
	return item, nil
}

// holdsTickets is nil when the block's packs have such tickets.
func (c *Central) holdsTickets(ctx context.Context, b Block, first, last uint16) error {
	open, err := c.block(ctx, b.ID)
	if err != nil {
		return err
	}
	h := open.Header
	if last < first || int(first) < h.FirstTicket || int(last) >= h.FirstTicket+h.PackSize {
		return because(BecauseTicketRange, fmt.Errorf("%w: its packs have the tickets %d to %d", ErrRefused, h.FirstTicket, h.FirstTicket+h.PackSize-1), h.FirstTicket, h.FirstTicket+h.PackSize-1)
	}
	return nil
}

// holdPack reads a pack and keeps others from changing it or its tickets.
func holdPack(ctx context.Context, tx *sql.Tx, b Block, pack uint32, now string) (packRow, error) {
	_, err := tx.ExecContext(ctx, `INSERT INTO packs(block_id, pack, game_code, state, owner, epoch, changed) VALUES($1, $2, $3, $4, '', 0, $5)
		ON CONFLICT(block_id, pack) DO UPDATE SET state = packs.state`, b.ID[:], pack, b.GameCode, validate.PackPrinted, now)
	if err != nil {
		return packRow{}, err
	}
	return readPack(ctx, tx, b.ID, pack)
}

// mark is the item after an act on a run of tickets, where it is legal.
func mark(ctx context.Context, tx *sql.Tx, p packRow, item wire.TicketsItem, run wire.TicketRun, act PackAct) (wire.TicketsItem, error) {
	switch {
	case p.state == validate.PackStolenNow || p.state == validate.PackReturn:
		return item, because(BecauseWholePack, fmt.Errorf("%w: the whole pack is %s", ErrRefused, p.state), p.state)
	case act == RecoverPack && !covered(item.Stolen, run):
		return item, because(BecauseNotAllStolen, fmt.Errorf("%w: not all of them are stolen; stolen are: %s", ErrRefused, runsText(item.Stolen)), runsText(item.Stolen))
	case act == RecoverPack:
		item.Stolen = without(item.Stolen, run)
	case touched(item.Stolen, run):
		return item, because(BecauseStolenAlready, fmt.Errorf("%w: some of them are stolen already: %s; legal now: %s", ErrRefused, runsText(item.Stolen), RecoverPack), runsText(item.Stolen))
	case act == StealPack:
		item.Stolen = with(item.Stolen, run)
	case act != ReturnPack:
		return item, because(BecauseTicketActs, fmt.Errorf("%w: single tickets can be: %s, %s, %s", ErrRefused, ReturnPack, StealPack, RecoverPack))
	case p.state == validate.PackPrinted:
		return item, because(BecausePackNotDelivered, fmt.Errorf("%w: the pack was delivered to nobody", ErrRefused))
	case touched(item.Returned, run):
		return item, because(BecauseReturnedAlready, fmt.Errorf("%w: some of them were returned already: %s", ErrRefused, runsText(item.Returned)), runsText(item.Returned))
	default:
		if err := unpaid(ctx, tx, p.block, p.pack, int(run.First), int(run.Last)); err != nil {
			return item, err
		}
		item.Returned = with(item.Returned, run)
	}
	if err := item.Check(); err != nil {
		return item, because(BecauseTicketRuns, fmt.Errorf("%w: %w", ErrRefused, err), err)
	}
	return item, nil
}

// readTickets gives the tickets of a pack that are stolen or were returned.
func readTickets(ctx context.Context, q querier, b Block, pack uint32) (wire.TicketsItem, error) {
	item := wire.TicketsItem{GameCode: b.GameCode, Pack: pack, Stolen: []wire.TicketRun{}, Returned: []wire.TicketRun{}}
	rows, err := q.QueryContext(ctx, "SELECT state, first, last FROM pack_tickets WHERE block_id = $1 AND pack = $2 ORDER BY state, first", b.ID[:], pack)
	if err != nil {
		return item, err
	}
	defer rows.Close()
	for rows.Next() {
		var state validate.PackState
		var run wire.TicketRun
		if err := rows.Scan(&state, &run.First, &run.Last); err != nil {
			return item, err
		}
		if state == validate.PackStolenNow {
			item.Stolen = append(item.Stolen, run)
		} else {
			item.Returned = append(item.Returned, run)
		}
	}
	return item, rows.Err()
}

// storeTickets replaces what is stored of a pack's tickets.
func storeTickets(ctx context.Context, tx *sql.Tx, p packRow, item wire.TicketsItem, now string) error {
	if _, err := tx.ExecContext(ctx, "DELETE FROM pack_tickets WHERE block_id = $1 AND pack = $2", p.block[:], p.pack); err != nil {
		return err
	}
	for _, of := range []struct {
		state validate.PackState
		runs  []wire.TicketRun
	}{{validate.PackStolenNow, item.Stolen}, {validate.PackReturn, item.Returned}} {
		for _, r := range of.runs {
			if _, err := tx.ExecContext(ctx, "INSERT INTO pack_tickets(block_id, pack, state, first, last, changed) VALUES($1, $2, $3, $4, $5, $6)",
				p.block[:], p.pack, of.state, r.First, r.Last, now); err != nil {
				return err
			}
		}
	}
	return nil
}

// Runs of tickets are in order and apart; neighbours are one run.

// touched tells whether a run has a ticket of the runs.
func touched(runs []wire.TicketRun, run wire.TicketRun) bool {
	return slices.ContainsFunc(runs, func(r wire.TicketRun) bool { return r.First <= run.Last && run.First <= r.Last })
}

// covered tells whether all of a run lies in the runs: in one of them, since neighbours are one.
func covered(runs []wire.TicketRun, run wire.TicketRun) bool {
	return slices.ContainsFunc(runs, func(r wire.TicketRun) bool { return r.First <= run.First && run.Last <= r.Last })
}

// with adds a run to those that it does not touch.
func with(runs []wire.TicketRun, run wire.TicketRun) []wire.TicketRun {
	list := append(slices.Clone(runs), run)
	slices.SortFunc(list, func(a, b wire.TicketRun) int { return int(a.First) - int(b.First) })
	joined := list[:1]
	for _, r := range list[1:] {
		if last := &joined[len(joined)-1]; int(last.Last)+1 == int(r.First) {
			last.Last = r.Last
			continue
		}
		joined = append(joined, r)
	}
	return joined
}

// without cuts a run out of the one that covers it.
func without(runs []wire.TicketRun, run wire.TicketRun) []wire.TicketRun {
	list := []wire.TicketRun{}
	for _, r := range runs {
		if r.First > run.First || r.Last < run.Last {
			list = append(list, r)
			continue
		}
		if r.First < run.First {
			list = append(list, wire.TicketRun{First: r.First, Last: run.First - 1})
		}
		if run.Last < r.Last {
			list = append(list, wire.TicketRun{First: run.Last + 1, Last: r.Last})
		}
	}
	return list
}

func runsText(runs []wire.TicketRun) string {
	if len(runs) == 0 {
		return "none"
	}
	var list []string
	for _, r := range runs {
		if r.First == r.Last {
			list = append(list, fmt.Sprint(r.First))
		} else {
			list = append(list, fmt.Sprintf("%d-%d", r.First, r.Last))
		}
	}
	return strings.Join(list, " ")
}
