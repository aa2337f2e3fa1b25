package central

import (
	"context"
	"crypto/x509"
	"database/sql"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"grattoir/sync/wire"
	"grattoir/validate"
)

// ConflictState is how far operations are with a conflict.
type ConflictState string

const (
	ConflictOpen    ConflictState = "open"    // nobody has looked, or it was opened again
	ConflictInquiry ConflictState = "inquiry" // somebody is at it
	ConflictSettled ConflictState = "settled" // who bears it was decided
)

// ConflictAct is what an operator does with a conflict.
type ConflictAct string

const (
	Inquire        ConflictAct = "inquire"
	SettleConflict ConflictAct = "settle"
	Reopen         ConflictAct = "reopen"
)

// inquest is every legal step of a conflict. A settled one is opened again by an act of
// its own, with its reason, and by nothing else.
var inquest = []struct {
	act  ConflictAct
	from []ConflictState
	to   ConflictState
}{
	{Inquire, []ConflictState{ConflictOpen}, ConflictInquiry},
	{SettleConflict, []ConflictState{ConflictOpen, ConflictInquiry}, ConflictSettled},
	{Reopen, []ConflictState{ConflictSettled}, ConflictOpen},
}

// Liable are who can bear a conflict's money.
func Liable() []string { return []string{"shop", "lottery", "printer", "nobody"} }

// Conflict is an entry that was stored and not credited.
type Conflict struct {
	Terminal string             `json:"terminal"`
	Number   string             `json:"number"` // ledger number of the entry
	Kind     wire.ExceptionKind `json:"kind"`
	Text     string             `json:"text"`
	Block    string             `json:"block"` // id, "" where the entry names no ticket
	Pack     *int64             `json:"pack"`
	Ticket   *int64             `json:"ticket"`
	Round    *int64             `json:"round"`
	Minor    *int64             `json:"amount_minor"` // as claimed
	Currency string             `json:"currency"`
	Received time.Time          `json:"received"`
	State    ConflictState      `json:"state"`
	Liable   string             `json:"liable"` // once it is settled
}

// ConflictStep is one act upon a conflict, as it is kept for ever.
type ConflictStep struct {
	Number   int           `json:"number"` // from 1
	State    ConflictState `json:"state"`  // that it led to
	Liable   string        `json:"liable"`
	Note     string        `json:"note"`
	Operator string        `json:"operator"`
	At       time.Time     `json:"at"`
}

// Evidence proves one entry: its exact bytes with the opening in them, the lines that
// lead from it to a head, the device's signature over that head, the key it was made
// with, and central's acknowledgement of it. Whoever has it needs nothing of central's
// but its public key.
type Evidence struct {
	Terminal  string   `json:"terminal"`
	Number    string   `json:"number"`
	Credited  bool     `json:"credited"` // it is the accepted claim of the ticket and round
	Received  string   `json:"received"`
	Lines     []string `json:"lines"`      // from the entry to the head, as the terminal wrote them
	Hash      string   `json:"hash"`       // of the entry
	Head      string   `json:"head"`       // wire.HeadText that was signed, "" where none is kept
	Signature string   `json:"signature"`  // base64, ECDSA P-256 over SHA-256 of Head; "" from before signatures were kept
	DeviceKey string   `json:"device_key"` // PKIX, base64, of the enrolment in whose time it was received
	Ack       string   `json:"ack"`        // central's signed note, "" where none is kept
}

// ConflictFile is a conflict with all that was done with it and the proofs of both sides.
type ConflictFile struct {
	Conflict
	Steps    []ConflictStep `json:"steps"`
	Evidence []Evidence     `json:"evidence"` // of the entry itself first, then of all others that claim the ticket and round
}

// conflictColumns give a conflict with the state that its newest act led to.
const conflictColumns = `c.terminal, c.epoch, c.seq, c.kind, c.text, c.block_id, c.pack, c.ticket, c.round, c.amount_minor, c.currency, c.received, coalesce(a.state, 'open'), coalesce(a.liable, '')`

const conflictsWithState = "SELECT " + conflictColumns + ` FROM conflicts AS c LEFT JOIN conflict_acts AS a ON a.terminal = c.terminal AND a.epoch = c.epoch AND a.seq = c.seq
	AND a.number = (SELECT max(m.number) FROM conflict_acts AS m WHERE m.terminal = c.terminal AND m.epoch = c.epoch AND m.seq = c.seq)`

func scanConflict(row scanner) (Conflict, error) {
	var c Conflict
	var n validate.EntryNumber
	var block []byte
	var received string
	err := row.Scan(&c.Terminal, &n.Epoch, &n.Seq, &c.Kind, &c.Text, &block, &c.Pack, &c.Ticket, &c.Round, &c.Minor, &c.Currency, &received, &c.State, &c.Liable)
	if err != nil {
		return c, err
	}
	c.Number, c.Block = n.String(), hex.EncodeToString(block)
	c.Received, err = wire.ParseTime(received)
	return c, err
}

// Conflicts lists the conflicts of a state, or of every state, and of a terminal, or of
// all, as they were received.
func (c *Central) Conflicts(ctx context.Context, state ConflictState, terminal string) ([]Conflict, error) {
	rows, err := c.store.reader().QueryContext(ctx, conflictsWithState+` WHERE $1 IN ('', coalesce(a.state, 'open')) AND $2 IN ('', c.terminal)
		ORDER BY c.received, c.terminal, c.epoch, c.seq`, state, terminal)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	list := []Conflict{}
	for rows.Next() {
		x, err := scanConflict(rows)
		if err != nil {
			return nil, err
		}
		list = append(list, x)
	}
	return list, rows.Err()
}

// ConflictQuery chooses the conflicts of a page, the newest first.
type ConflictQuery struct {
	State    ConflictState // "" for every state
	Terminal string        // "" for all
	// After is the last one of the page before, "" for the first page: ConflictPage.Next.
	After string
	Limit int // at most 1000
}

// ConflictPage is a page of conflicts, with how many each state has for the terminal.
type ConflictPage struct {
	List   []Conflict
	Counts map[ConflictState]int
	Next   string // ConflictQuery.After of the next page, "" at the end
}

// ConflictPage gives a page of conflicts. It begins behind the last one of the page before
// and not at a number, so that it costs the same anywhere, and a conflict that comes moves
// none over its edge. The error is ErrRefused for an After that is none.
func (c *Central) ConflictPage(ctx context.Context, q ConflictQuery) (ConflictPage, error) {
	p := ConflictPage{List: []Conflict{}, Counts: map[ConflictState]int{}}
	if q.Limit < 1 || q.Limit > 1000 {
		return p, because(BecausePageRows, fmt.Errorf("%w: %d conflicts: want 1 to 1000", ErrRefused, q.Limit), q.Limit)
	}
	if err := c.countConflicts(ctx, q.Terminal, p.Counts); err != nil {
		return p, err
	}
	where, args := " WHERE $1 IN ('', coalesce(a.state, 'open')) AND $2 IN ('', c.terminal)", []any{q.State, q.Terminal}
	if q.After != "" {
		received, rest, _ := strings.Cut(q.After, "~")
		number, terminal, _ := strings.Cut(rest, "~")
		var n validate.EntryNumber
		if _, err := fmt.Sscanf(number, "%d-%d", &n.Epoch, &n.Seq); err != nil || terminal == "" {
			return p, because(BecausePageEnd, fmt.Errorf("%w: %.80q is no end of a page: begin at the first page", ErrRefused, q.After), q.After)
		}
		where += " AND c.received <= $3 AND (c.received < $3 OR c.terminal < $4 OR c.terminal = $4 AND (c.epoch < $5 OR c.epoch = $5 AND c.seq < $6))"
		args = append(args, received, terminal, n.Epoch, n.Seq)
	}
	err := eachRow(ctx, c.store.reader(), conflictsWithState+where+fmt.Sprintf(" ORDER BY c.received DESC, c.terminal DESC, c.epoch DESC, c.seq DESC LIMIT %d", q.Limit+1), func(row scanner) error {
		x, err := scanConflict(row)
		p.List = append(p.List, x)
		return err
	}, args...)
	if err != nil {
		return p, err
	}
	if len(p.List) > q.Limit {
		p.List = p.List[:q.Limit]
		last := p.List[q.Limit-1]
		p.Next = wire.FormatTime(last.Received) + "~" + last.Number + "~" + last.Terminal
	}
	return p, nil
}

// countConflicts counts by state what has acts; the others, most of them, are open.
func (c *Central) countConflicts(ctx context.Context, terminal string, counts map[ConflictState]int) error {
	var all int
	if err := c.store.reader().QueryRowContext(ctx, "SELECT count(*) FROM conflicts WHERE $1 IN ('', terminal)", terminal).Scan(&all); err != nil {
		return err
	}
	err := eachRow(ctx, c.store.reader(), `SELECT a.state, count(*) FROM conflict_acts AS a WHERE $1 IN ('', a.terminal)
		AND a.number = (SELECT max(m.number) FROM conflict_acts AS m WHERE m.terminal = a.terminal AND m.epoch = a.epoch AND m.seq = a.seq) GROUP BY a.state`, func(row scanner) error {
		var state ConflictState
		var n int
		err := row.Scan(&state, &n)
		counts[state] = n
		return err
	}, terminal)
	counts[ConflictOpen] = all - counts[ConflictInquiry] - counts[ConflictSettled]
	return err
}

// ActOnConflict does an act upon a conflict, named by its terminal and the entry's ledger
// number. Liable is one of Liable with SettleConflict and "" else. The act is kept with
// its operator, note and time. The terminal hears of the settlement in its feed.
func (c *Central) ActOnConflict(ctx context.Context, terminal string, number validate.EntryNumber, act ConflictAct, liable, note, operator string) (Conflict, error) {
	fail := func(err error) (Conflict, error) {
		return Conflict{}, fmt.Errorf("%s conflict %v of terminal %.64q: %w", act, number, terminal, err)
	}
	if err := checkAct(operator, note); err != nil {
		return fail(err)
	}
	if act == SettleConflict != slices.Contains(Liable(), liable) || act != SettleConflict && liable != "" {
		return fail(because(BecauseLiableMissing, fmt.Errorf("%w: who bears it: one of %s, when it is settled", ErrRefused, strings.Join(Liable(), ", ")), Liable()))
	}
	var done Conflict
	var newest int64
	err := c.store.change(ctx, func(ctx context.Context, tx *sql.Tx) error {
		// The row is held, so that two operators act one after the other.
		held, err := tx.ExecContext(ctx, "UPDATE conflicts SET text = text WHERE terminal = $1 AND epoch = $2 AND seq = $3", terminal, number.Epoch, number.Seq)
		if err != nil {
			return err
		}
		if n, err := held.RowsAffected(); err != nil || n == 0 {
			return errors.Join(because(BecauseConflictUnknown, fmt.Errorf("%w: no entry of that number is a conflict (central conflict list)", ErrNotFound)), err)
		}
		if done, err = scanConflict(tx.QueryRowContext(ctx, conflictsWithState+" WHERE c.terminal = $1 AND c.epoch = $2 AND c.seq = $3", terminal, number.Epoch, number.Seq)); err != nil {
			return err
		}
		if done.State, err = done.next(act); err != nil {
			return err
		}
		done.Liable = liable
		now := c.now()
		if _, err := tx.ExecContext(ctx, `INSERT INTO conflict_acts(terminal, epoch, seq, number, state, liable, note, operator, at)
			SELECT $1, $2, $3, coalesce(max(number), 0) + 1, $4, $5, $6, $7, $8 FROM conflict_acts WHERE terminal = $1 AND epoch = $2 AND seq = $3`,
			terminal, number.Epoch, number.Seq, done.State, liable, note, operator, now); err != nil {
			return err
		}
		if act == Inquire {
			newest = 0 // nothing that a counter need know
			return nil
		}
		newest, err = addFeed(ctx, tx, terminal, now, wire.FeedItem{Kind: wire.FeedException,
			Exception: &wire.ExceptionItem{Epoch: number.Epoch, Seq: number.Seq, Kind: done.Kind, Text: clipped(done.Text), Settled: liable}})
		return err
	})
	if err != nil {
		return fail(err)
	}
	c.feed.added(newest)
	c.opt.Log.Info("conflict", "act", act, "terminal", terminal, "number", number.String(), "liable", liable, "operator", operator)
	return done, nil
}

func (c Conflict) next(act ConflictAct) (ConflictState, error) {
	var legal []string
	for _, step := range inquest {
		switch {
		case !slices.Contains(step.from, c.State):
		case step.act == act:
			return step.to, nil
		default:
			legal = append(legal, string(step.act))
		}
	}
	return "", because(BecauseConflictStands, fmt.Errorf("%w: it is %s; legal now: %s", ErrRefused, c.State, strings.Join(legal, ", ")), c.State, legal)
}

// ConflictFile gives a conflict with its acts and both sides' proofs, or ErrNotFound.
func (c *Central) ConflictFile(ctx context.Context, terminal string, number validate.EntryNumber) (ConflictFile, error) {
	f := ConflictFile{Steps: []ConflictStep{}, Evidence: []Evidence{}}
	fail := func(err error) (ConflictFile, error) {
		return ConflictFile{}, fmt.Errorf("conflict %v of terminal %.64q: %w", number, terminal, err)
	}
	q := c.store.reader()
	var err error
	f.Conflict, err = scanConflict(q.QueryRowContext(ctx, conflictsWithState+" WHERE c.terminal = $1 AND c.epoch = $2 AND c.seq = $3", terminal, number.Epoch, number.Seq))
	if errors.Is(err, sql.ErrNoRows) {
		return fail(because(BecauseConflictUnknown, fmt.Errorf("%w (central conflict list)", ErrNotFound)))
	}
	if err != nil {
		return fail(err)
	}
	if f.Steps, err = conflictSteps(ctx, q, terminal, number); err != nil {
		return fail(err)
	}
	sides := []side{{terminal: terminal, number: number}}
	if f.Ticket != nil {
		others, err := c.otherSides(ctx, f.Conflict, sides[0])
		if err != nil {
			return fail(err)
		}
		sides = append(sides, others...)
	}
	for _, s := range sides {
		e, err := c.evidence(ctx, s)
		if err != nil {
			return fail(err)
		}
		f.Evidence = append(f.Evidence, e)
	}
	return f, nil
}

func conflictSteps(ctx context.Context, q querier, terminal string, number validate.EntryNumber) ([]ConflictStep, error) {
	rows, err := q.QueryContext(ctx, "SELECT number, state, liable, note, operator, at FROM conflict_acts WHERE terminal = $1 AND epoch = $2 AND seq = $3 ORDER BY number", terminal, number.Epoch, number.Seq)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	list := []ConflictStep{}
	for rows.Next() {
		var s ConflictStep
		var at string
		err := rows.Scan(&s.Number, &s.State, &s.Liable, &s.Note, &s.Operator, &at)
		if err == nil {
			s.At, err = wire.ParseTime(at)
		}
		if err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, rows.Err()
}

// side is an entry that claims a ticket.
type side struct {
	terminal string
	number   validate.EntryNumber
	credited bool
}

// maxSides bounds the entries of one ticket that a file holds.
const maxSides = 20

// otherSides are the accepted claim of the conflict's ticket and round, and the other
// conflicts about it.
func (c *Central) otherSides(ctx context.Context, x Conflict, own side) ([]side, error) {
	block, err := hex.DecodeString(x.Block)
	if err != nil {
		return nil, err
	}
	rows, err := c.store.reader().QueryContext(ctx, `SELECT terminal, epoch, seq, 1 FROM claims WHERE block_id = $1 AND pack = $2 AND ticket = $3 AND round = $4
		UNION ALL SELECT terminal, epoch, seq, 0 FROM conflicts WHERE block_id = $1 AND pack = $2 AND ticket = $3 AND round = $4 ORDER BY 4 DESC, 1, 2, 3 LIMIT $5`,
		block, x.Pack, x.Ticket, x.Round, maxSides)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []side
	for rows.Next() {
		var s side
		if err := rows.Scan(&s.terminal, &s.number.Epoch, &s.number.Seq, &s.credited); err != nil {
			return nil, err
		}
		if s.terminal != own.terminal || s.number != own.number {
			list = append(list, s)
		}
	}
	return list, rows.Err()
}

// evidence gathers the proof of an entry.
func (c *Central) evidence(ctx context.Context, s side) (Evidence, error) {
	e := Evidence{Terminal: s.terminal, Number: s.number.String(), Credited: s.credited, Lines: []string{}}
	q := c.store.reader()
	head := s.number.Seq
	err := q.QueryRowContext(ctx, "SELECT seq, note, signature FROM acks WHERE terminal = $1 AND epoch = $2 AND seq >= $3 ORDER BY seq LIMIT 1", s.terminal, s.number.Epoch, s.number.Seq).
		Scan(&head, &e.Ack, &e.Signature)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return e, err
	}
	rows, err := q.QueryContext(ctx, "SELECT seq, line, hash, received FROM entries WHERE terminal = $1 AND epoch = $2 AND seq BETWEEN $3 AND $4 ORDER BY seq", s.terminal, s.number.Epoch, s.number.Seq, head)
	if err != nil {
		return e, err
	}
	defer rows.Close()
	last := wire.Position{Epoch: s.number.Epoch}
	for rows.Next() {
		var line, hash []byte
		var received string
		if err := rows.Scan(&last.Seq, &line, &hash, &received); err != nil {
			return e, err
		}
		last.Hash = hex.EncodeToString(hash)
		if len(e.Lines) == 0 {
			e.Hash, e.Received = last.Hash, received
		}
		e.Lines = append(e.Lines, string(line))
	}
	if err := rows.Err(); err != nil {
		return e, err
	}
	if e.Ack != "" {
		e.Head = wire.HeadText(s.terminal, last)
	}
	e.DeviceKey, err = c.keyAt(ctx, s.terminal, e.Received)
	return e, err
}

// keyAt is the key that was a terminal's at a time, "" where none is known.
func (c *Central) keyAt(ctx context.Context, terminal, at string) (string, error) {
	var spki []byte
	err := c.store.reader().QueryRowContext(ctx, "SELECT public_key FROM device_keys WHERE terminal = $1 AND enrolled <= $2 ORDER BY number DESC LIMIT 1", terminal, at).Scan(&spki)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	if _, err := x509.ParsePKIXPublicKey(spki); err != nil {
		return "", fmt.Errorf("a key of terminal %s: %w", terminal, err)
	}
	return base64.StdEncoding.EncodeToString(spki), nil
}
