package ledger

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"grattoir/sync/wire"
	"grattoir/validate"
	"grattoir/validate/money"
)

// Who may pay a ticket is kept here as far as this terminal decides it: what it means to
// pay once central allows it (intents), and what it pays with no network never again
// (holds). Neither is an entry: an intent is no money yet, and a hold takes none. Record
// asks both in its own transaction, so that neither can slip in between a verdict and
// its claim.

// ErrRight means that this terminal may not pay the ticket in this way now: central
// decides about it, or another claim of it is under way.
var ErrRight = errors.New("this terminal may not pay the ticket now")

// rightsTables are of the schema's fourth step.
var rightsTables = []string{
	// One row a claim that central is asked about. Request is the wire.ClaimRequest, answer
	// the wire.ClaimAnswer that decided it.
	`CREATE TABLE intents(n INTEGER PRIMARY KEY, claim TEXT NOT NULL UNIQUE, block BLOB NOT NULL, pack INTEGER NOT NULL, ticket INTEGER NOT NULL, round INTEGER NOT NULL,
		state TEXT NOT NULL, silent INTEGER NOT NULL DEFAULT 0, request BLOB NOT NULL, answer BLOB, asked TEXT NOT NULL, answered TEXT NOT NULL DEFAULT '') STRICT`,
	`CREATE INDEX intents_ticket ON intents(block, pack, ticket)`,
	`CREATE INDEX intents_live ON intents(n) WHERE state IN ('asking', 'approved', 'returning')`,
	`CREATE TRIGGER intents_final BEFORE UPDATE ON intents WHEN old.state IN ('denied', 'returned', 'used') OR new.claim <> old.claim
		BEGIN SELECT raise(ABORT, 'decided intents are never changed'); END`,
	`CREATE TRIGGER intents_kept BEFORE DELETE ON intents BEGIN SELECT raise(ABORT, 'intents are never removed'); END`,
	// One row a ticket that central has asked to hold. Feed is the newest item that asked;
	// paid is the entry that had paid it before, seq 0 for none.
	`CREATE TABLE holds(block BLOB NOT NULL, pack INTEGER NOT NULL, ticket INTEGER NOT NULL, feed INTEGER NOT NULL, paid_epoch INTEGER NOT NULL, paid_seq INTEGER NOT NULL,
		paid_at TEXT NOT NULL, acked INTEGER NOT NULL DEFAULT 0, PRIMARY KEY(block, pack, ticket)) STRICT, WITHOUT ROWID`,
	`CREATE INDEX holds_waiting ON holds(feed) WHERE acked = 0`,
	`CREATE TRIGGER holds_kept BEFORE DELETE ON holds BEGIN SELECT raise(ABORT, 'holds are never removed'); END`,
	// Runs of packs that this terminal gave back at an owner epoch, with the entry that says so.
	`CREATE TABLE releases(game_code TEXT NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL CHECK(last >= first), owner_epoch INTEGER NOT NULL,
		epoch INTEGER NOT NULL, seq INTEGER NOT NULL, PRIMARY KEY(game_code, first, owner_epoch), FOREIGN KEY(epoch, seq) REFERENCES entries(epoch, seq)) STRICT, WITHOUT ROWID`,
	`CREATE TRIGGER releases_kept BEFORE DELETE ON releases BEGIN SELECT raise(ABORT, 'releases are never removed'); END`,
	// Whether released packs are wanted again.
	`CREATE TABLE wishes(one INTEGER PRIMARY KEY CHECK(one = 1), take INTEGER NOT NULL) STRICT`,
	`INSERT INTO wishes(one, take) VALUES(1, 0)`,
}

// right is nil when a claim may be recorded by its right. It counts on the rules above
// alone: whose the pack is the counter has asked, and central judges it by the owner
// epoch in the claim.
func (w *writing) right(ctx context.Context, c validate.Claim) error {
	var held, meant, approved, asking, released bool
	err := w.tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM holds WHERE block = ?1 AND pack = ?2 AND ticket = ?3),
		EXISTS (SELECT 1 FROM intents WHERE block = ?1 AND pack = ?2 AND ticket = ?3 AND claim <> ?4 AND state IN ('asking', 'approved', 'returning')),
		EXISTS (SELECT 1 FROM intents WHERE block = ?1 AND pack = ?2 AND ticket = ?3 AND claim = ?4 AND round = ?5 AND state = 'approved'),
		EXISTS (SELECT 1 FROM intents WHERE claim = ?4 AND round = ?5 AND state = 'asking'),
		EXISTS (SELECT 1 FROM releases WHERE game_code = ?6 AND first <= ?2 AND last >= ?2 AND owner_epoch >= ?7)`,
		c.Ticket.Block[:], c.Ticket.Pack, c.Ticket.Number, c.ID, c.Round, c.Slip.GameCode, c.OwnerEpoch).Scan(&held, &meant, &approved, &asking, &released)
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", ErrNotWritable, w.l.seen(err))
	case c.Right == validate.RightGrant && !approved:
		return fmt.Errorf("%w: claim %s was not allowed by central, or was given back", ErrRight, c.ID)
	case c.Right == validate.RightGrant:
		return nil
	case c.Round > 0:
		return fmt.Errorf("%w: round %d is paid by central's word only", ErrRight, c.Round)
	case released:
		return fmt.Errorf("%w: pack %d was released at owner epoch %d", ErrRight, c.Ticket.Pack, c.OwnerEpoch)
	case held:
		return fmt.Errorf("%w: central holds it", ErrRight)
	case meant:
		return fmt.Errorf("%w: central is asked about another claim of it", ErrRight)
	case c.Right == validate.RightRisk && !asking:
		return fmt.Errorf("%w: a risk is booked only for a claim that central was asked about and has not decided", ErrRight)
	}
	return nil
}

// used ends the intent of a claim that was recorded by it.
func (w *writing) used(ctx context.Context, c validate.Claim) error {
	if c.Right != validate.RightGrant && c.Right != validate.RightRisk {
		return nil
	}
	_, err := w.exec(ctx, "UPDATE intents SET state = 'used' WHERE claim = ?", c.ID)
	return err
}

// Intend stores, durably, that a claim is to be made once central allows it, before
// anybody asks. A ticket has one live intent at most: where there is one, it is the
// answer, and is asked about again if the owner was silent. The errors are ErrPaid,
// ErrTraining and ErrNotWritable.
func (l *Ledger) Intend(ctx context.Context, c validate.Claim) (validate.Intent, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	opening, err := l.opening(c)
	if err != nil {
		return validate.Intent{}, err
	}
	if l.training {
		return validate.Intent{}, ErrTraining
	}
	request, err := encodeJSON(wire.ClaimRequest{Protocol: wire.Protocol, Claim: c.ID, Block: c.Ticket.Block, Pack: c.Ticket.Pack, Ticket: c.Ticket.Number, Round: c.Round,
		Tier: c.Tier, AmountMinor: int64(c.Amount), Currency: c.Currency, Opening: base64.StdEncoding.EncodeToString(opening)})
	if err != nil {
		return validate.Intent{}, err
	}
	var i validate.Intent
	err = l.write(ctx, func(ctx context.Context, w *writing) error {
		switch live, err := l.intentWhere(ctx, w.tx, ofIntents+liveIntents+" ORDER BY n DESC LIMIT 1", c.Ticket.Block[:], c.Ticket.Pack, c.Ticket.Number); {
		case err != nil:
			return err
		case live != nil:
			i = *live
			i.Silent = false
			_, err := w.exec(ctx, "UPDATE intents SET silent = 0 WHERE claim = ?", i.Claim)
			return err
		}
		if r, err := l.receipt(ctx, w.tx, ofTicket+" AND c.round = ?", c.Ticket.Block[:], c.Ticket.Pack, c.Ticket.Number, c.Round); !errors.Is(err, ErrNotFound) {
			return errors.Join(err, fmt.Errorf("%w: entry %v", ErrPaid, r.Number))
		}
		m := l.opt.Moment()
		i = validate.Intent{Claim: c.ID, Ticket: c.Ticket, Round: c.Round, Amount: c.Amount, Currency: c.Currency, State: validate.IntentAsking, Next: -1, Asked: m.Device}
		_, err := w.exec(ctx, "INSERT INTO intents(claim, block, pack, ticket, round, state, request, asked) VALUES(?, ?, ?, ?, ?, ?, ?, ?)",
			c.ID, c.Ticket.Block[:], c.Ticket.Pack, c.Ticket.Number, c.Round, i.State, request, timeText(m.Device))
		return err
	})
	if err != nil {
		return validate.Intent{}, fmt.Errorf("intent of claim %s: %w", c.ID, err)
	}
	l.intentChanged()
	return i, nil
}

// GiveBack ends a live intent: this terminal never pays by its id, from this moment on,
// and central is told until it has heard. An intent that is decided otherwise, or that
// this ledger does not have, changes nothing.
func (l *Ledger) GiveBack(ctx context.Context, claim string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.write(ctx, func(ctx context.Context, w *writing) error {
		_, err := w.exec(ctx, "UPDATE intents SET state = 'returning' WHERE claim = ? AND state IN ('asking', 'approved')", claim)
		return err
	})
	if err != nil {
		return fmt.Errorf("give claim %.40q back: %w", claim, err)
	}
	l.intentChanged()
	return nil
}

// ClaimAnswered stores central's answer to a claim that OpenClaims gave. The first final
// answer stands: what comes later, or for another claim, changes nothing.
func (l *Ledger) ClaimAnswered(ctx context.Context, a wire.ClaimAnswer) error {
	text, err := encodeJSON(a)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	err = l.write(ctx, func(ctx context.Context, w *writing) error {
		if a.State == wire.ClaimPending {
			_, err := w.exec(ctx, "UPDATE intents SET silent = 1 WHERE claim = ? AND state = 'asking'", a.Claim)
			return err
		}
		from, to := validate.IntentAsking, map[wire.ClaimState]validate.IntentState{wire.ClaimApproved: validate.IntentApproved, wire.ClaimDenied: validate.IntentDenied,
			wire.ClaimReturned: validate.IntentReturned}[a.State]
		var given bool
		if err := w.tx.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM intents WHERE claim = ? AND state = 'returning')", a.Claim).Scan(&given); err != nil {
			return err
		}
		switch {
		case to == "":
			return fmt.Errorf("an answer %.20q to claim %.40q: of a newer central", a.State, a.Claim)
		case given && a.State == wire.ClaimApproved: // on its way when it was given up: central hears of that next
			return nil
		case given:
			from, to = validate.IntentReturning, validate.IntentReturned
		}
		_, err := w.exec(ctx, "UPDATE intents SET state = ?, silent = 0, answer = ?, answered = ? WHERE claim = ? AND state = ?", to, text, timeText(l.asOf()), a.Claim, from)
		return err
	})
	if err != nil {
		return fmt.Errorf("answer to claim %.40q: %w", a.Claim, err)
	}
	l.intentChanged()
	return nil
}

// asOf is when something is heard: trusted time where it is known.
func (l *Ledger) asOf() time.Time {
	m := l.opt.Moment()
	if m.Trusted.IsZero() {
		return m.Device
	}
	return m.Trusted
}

// intentChanged wakes whoever waits for IntentsChanged. The lock is held.
func (l *Ledger) intentChanged() {
	close(l.intents)
	l.intents = make(chan struct{})
}

// IntentsChanged is closed at the next change of an intent. Take it before reading.
func (l *Ledger) IntentsChanged() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.intents
}

// OpenClaims are what central must be asked, oldest first: claims that it has not answered
// and claims that were given back. One whose owner was silent waits until it is intended
// again or given back.
func (l *Ledger) OpenClaims(ctx context.Context) ([]wire.ClaimRequest, error) {
	rows, err := l.read.QueryContext(ctx, "SELECT request, state = 'returning' FROM intents WHERE state IN ('asking', 'approved', 'returning') AND (state = 'returning' OR state = 'asking' AND silent = 0) ORDER BY n")
	if err != nil {
		return nil, fmt.Errorf("read the claims to ask about: %w", l.seen(err))
	}
	defer rows.Close()
	var list []wire.ClaimRequest
	for rows.Next() {
		var text []byte
		var q wire.ClaimRequest
		var given bool
		if err := rows.Scan(&text, &given); err != nil {
			return nil, l.seen(err)
		}
		if err := json.Unmarshal(text, &q); err != nil {
			return nil, fmt.Errorf("%w: the request of an intent: %w", ErrDamaged, err)
		}
		q.Return = given
		list = append(list, q)
	}
	return list, l.seen(rows.Err())
}

const (
	ofIntents   = "block = ? AND pack = ? AND ticket = ?"
	liveIntents = " AND state IN ('asking', 'approved', 'returning')"
)

// Intent is the newest intent of a ticket, nil when there never was one.
func (l *Ledger) Intent(ctx context.Context, t validate.TicketKey) (*validate.Intent, error) {
	return l.intentWhere(ctx, l.read, ofIntents+" ORDER BY n DESC LIMIT 1", t.Block[:], t.Pack, t.Number)
}

// Intents are the live intents, oldest first: what a restart finds begun.
func (l *Ledger) Intents(ctx context.Context) ([]validate.Intent, error) {
	return l.intentsWhere(ctx, l.read, "state IN ('asking', 'approved', 'returning') ORDER BY n")
}

func (l *Ledger) intentWhere(ctx context.Context, q querier, where string, args ...any) (*validate.Intent, error) {
	list, err := l.intentsWhere(ctx, q, where, args...)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	return &list[0], nil
}

func (l *Ledger) intentsWhere(ctx context.Context, q querier, where string, args ...any) ([]validate.Intent, error) {
	rows, err := q.QueryContext(ctx, "SELECT state, silent, request, answer, asked, answered FROM intents WHERE "+where, args...)
	if err != nil {
		return nil, fmt.Errorf("read an intent: %w", l.seen(err))
	}
	defer rows.Close()
	var list []validate.Intent
	for rows.Next() {
		i := validate.Intent{Next: -1}
		var request, answer []byte
		var asked, answered string
		if err := rows.Scan(&i.State, &i.Silent, &request, &answer, &asked, &answered); err != nil {
			return nil, l.seen(err)
		}
		if err := fillIntent(&i, request, answer, asked, answered); err != nil {
			return nil, l.seen(fmt.Errorf("%w: an intent: %w", ErrDamaged, err))
		}
		list = append(list, i)
	}
	return list, l.seen(rows.Err())
}

func fillIntent(i *validate.Intent, request, answer []byte, asked, answered string) error {
	var q wire.ClaimRequest
	if err := json.Unmarshal(request, &q); err != nil {
		return err
	}
	i.Claim, i.Ticket, i.Round, i.Amount, i.Currency = q.Claim, q.Key(), q.Round, money.Amount(q.AmountMinor), q.Currency
	var err error
	if i.Asked, err = parseTime(asked); err != nil || answer == nil {
		return err
	}
	var a wire.ClaimAnswer
	if err := json.Unmarshal(answer, &a); err != nil {
		return err
	}
	i.OwnerEpoch, i.Why, i.Text = a.OwnerEpoch, string(a.Why), a.Text
	if a.Why == wire.WhyRound {
		i.Next = a.Round
	}
	if a.Paid == nil {
		return nil
	}
	i.Paid = &validate.Payment{Terminal: a.Paid.Terminal, Number: a.Paid.Number}
	i.Paid.At, _ = wire.ParseTime(a.Paid.At) // the payment counts, whatever the other terminal's clock said
	i.Paid.AsOf, err = parseTime(answered)
	return err
}
