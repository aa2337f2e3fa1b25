package ledger

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"grattoir/sync/wire"
	"grattoir/validate"
)

// packLifeTables hold what central's feed has said of single tickets, suspensions and
// messages, and which entries it did not credit.
var packLifeTables = []string{
	// One row a pack of which single tickets are stolen or were returned: the whole item.
	`CREATE TABLE pack_tickets(game_code TEXT NOT NULL, pack INTEGER NOT NULL, item TEXT NOT NULL, PRIMARY KEY(game_code, pack)) STRICT, WITHOUT ROWID`,
	// game is '' for this terminal, emission '' and block 0 for all of a game.
	`CREATE TABLE suspensions(game TEXT NOT NULL, emission TEXT NOT NULL, block INTEGER NOT NULL, reason TEXT NOT NULL,
		PRIMARY KEY(game, emission, block)) STRICT, WITHOUT ROWID`,
	`CREATE TABLE messages(number INTEGER PRIMARY KEY, mandatory INTEGER NOT NULL, valid_from TEXT NOT NULL, valid_to TEXT NOT NULL, fr TEXT NOT NULL, en TEXT NOT NULL,
		read_at TEXT NOT NULL DEFAULT '', reader TEXT NOT NULL DEFAULT '') STRICT`,
	`CREATE TABLE exceptions(epoch INTEGER NOT NULL, seq INTEGER NOT NULL, kind TEXT NOT NULL, text TEXT NOT NULL, settled TEXT NOT NULL, heard TEXT NOT NULL,
		PRIMARY KEY(epoch, seq)) STRICT, WITHOUT ROWID`,
}

// ErrPack means that a pack is not one that this terminal can put on sale now.
var ErrPack = errors.New("the pack cannot be put on sale here")

// PackActivatedBody says that a pack was put on sale at the shop. Central decides
// afterwards whether that was legal.
type PackActivatedBody struct {
	GameCode   string           `json:"game_code"` // as printed, padded
	Pack       uint32           `json:"pack"`
	OwnerEpoch int64            `json:"owner_epoch"`
	Operator   string           `json:"operator"`
	Entered    validate.Entered `json:"entered"`
}

// PackSettledBody says that central has settled packs of this terminal.
type PackSettledBody struct {
	GameCode   string `json:"game_code"`
	First      uint32 `json:"first"`
	Last       uint32 `json:"last"`
	OwnerEpoch int64  `json:"owner_epoch"`
}

// PackActivated reads the body of a pack-activated entry.
func (e Entry) PackActivated() (PackActivatedBody, error) {
	return bodyOf[PackActivatedBody](e, KindPackActivated)
}

// PackSettled reads the body of a pack-settled entry.
func (e Entry) PackSettled() (PackSettledBody, error) {
	return bodyOf[PackSettledBody](e, KindPackSettled)
}

// Activate puts a delivered pack of this terminal on sale: an entry, and the pack's state
// here in the same transaction, so that its tickets are paid from then on with no network.
// A pack that is active already is left as it is. The errors are ErrPack and ErrSales, with the pack as
// it stands, ErrTraining and ErrNotWritable.
func (l *Ledger) Activate(ctx context.Context, gameCode string, pack uint32, operator string, entered validate.Entered) (validate.Pack, error) {
	fail := func(p validate.Pack, err error) (validate.Pack, error) {
		return p, fmt.Errorf("activate pack %d of game code %.16s: %w", pack, gameCode, err)
	}
	if err := checkActor(operator); err != nil {
		return fail(validate.Pack{}, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.training {
		return fail(validate.Pack{}, ErrTraining)
	}
	if err := l.held(); err != nil {
		return fail(validate.Pack{}, err)
	}
	var p validate.Pack
	err := l.write(ctx, func(ctx context.Context, w *writing) error {
		var err error
		if p, err = l.pack(ctx, w.tx, gameCode, pack); err != nil {
			return fmt.Errorf("%w: %w", ErrNotWritable, err)
		}
		if p.Own && p.State == validate.PackActive {
			return nil
		}
		if !p.Activatable() {
			return fmt.Errorf("%w: it is %s", ErrPack, standing(p))
		}
		if err := w.mayBeSold(ctx, gameCode, pack); err != nil {
			return err
		}
		if _, _, err := w.append(ctx, KindPackActivated, PackActivatedBody{GameCode: gameCode, Pack: pack, OwnerEpoch: p.Epoch, Operator: operator, Entered: entered}); err != nil {
			return err
		}
		p.State = validate.PackActive
		return setPacks(ctx, w.tx, wire.PackItem{GameCode: gameCode, First: pack, Last: pack, State: p.State, Owner: p.Owner, Epoch: p.Epoch})
	})
	if err != nil {
		return fail(p, err)
	}
	return p, nil
}

// checkActor bounds the name of whoever acts; "" is a terminal where nobody signs on.
func checkActor(operator string) error {
	if operator == "" {
		return nil
	}
	return checkName("operator", operator)
}

func standing(p validate.Pack) string {
	switch {
	case !p.Known:
		return "not known here: central has not named it"
	case !p.Own:
		return fmt.Sprintf("%s and owned by %.64q", p.State, p.Owner)
	}
	return string(p.State)
}

// PackFacts is what is known here of a pack and of its tickets. The game code is as
// printed, padded.
func (l *Ledger) PackFacts(ctx context.Context, gameCode string, pack uint32) (validate.Pack, error) {
	return l.pack(ctx, l.read, gameCode, pack)
}

func (l *Ledger) pack(ctx context.Context, q querier, gameCode string, pack uint32) (validate.Pack, error) {
	p := validate.Pack{GameCode: gameCode, Number: pack, Stolen: []validate.TicketRun{}, Returned: []validate.TicketRun{}}
	item, known, err := l.packOf(ctx, q, gameCode, pack)
	if err != nil {
		return p, err
	}
	if known {
		p.Known, p.State, p.Owner, p.Epoch, p.Own = true, item.State, item.Owner, item.Epoch, item.Owner == l.opt.Terminal
	}
	tickets, err := l.ticketsOf(ctx, q, gameCode, pack)
	if tickets != nil {
		p.Stolen, p.Returned = tickets.Stolen, tickets.Returned
	}
	return p, err
}

// ticketsOf is what central said of single tickets of a pack, nil for nothing.
func (l *Ledger) ticketsOf(ctx context.Context, q querier, gameCode string, pack uint32) (*wire.TicketsItem, error) {
	var text []byte
	err := q.QueryRowContext(ctx, "SELECT item FROM pack_tickets WHERE game_code = ? AND pack = ?", gameCode, pack).Scan(&text)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	var item wire.TicketsItem
	if err == nil {
		err = json.Unmarshal(text, &item)
	}
	if err == nil {
		err = item.Check()
	}
	if err != nil {
		return nil, fmt.Errorf("tickets of pack %d of game code %.16q: %w", pack, gameCode, l.seen(err))
	}
	return &item, nil
}

// TicketState is what central said of one ticket apart from its pack, "" for nothing: a
// ticket can be stolen or returned while its pack is on sale.
func (l *Ledger) TicketState(ctx context.Context, gameCode string, pack uint32, ticket uint16) (validate.PackState, error) {
	item, err := l.ticketsOf(ctx, l.read, gameCode, pack)
	if item == nil {
		return "", err
	}
	return item.State(ticket), nil
}

// setTickets takes what central says of single tickets of a pack: all of it.
func (w *writing) setTickets(ctx context.Context, item wire.TicketsItem) error {
	if err := item.Check(); err != nil {
		return fmt.Errorf("%w: %w", ErrFeed, err)
	}
	if len(item.Stolen) == 0 && len(item.Returned) == 0 {
		_, err := w.exec(ctx, "DELETE FROM pack_tickets WHERE game_code = ? AND pack = ?", item.GameCode, item.Pack)
		return err
	}
	text, err := encodeJSON(item)
	if err != nil {
		return err
	}
	_, err = w.exec(ctx, "INSERT OR REPLACE INTO pack_tickets(game_code, pack, item) VALUES(?, ?, ?)", item.GameCode, item.Pack, string(text))
	return err
}

// settled notes in the journal that central has settled packs of this terminal: what the
// shop owes follows from the journal too.
func (w *writing) settled(ctx context.Context, p wire.PackItem) error {
	if p.State != validate.PackSettled || p.Owner != w.l.opt.Terminal {
		return nil
	}
	_, _, err := w.append(ctx, KindPackSettled, PackSettledBody{GameCode: p.GameCode, First: p.First, Last: p.Last, OwnerEpoch: p.Epoch})
	return err
}
