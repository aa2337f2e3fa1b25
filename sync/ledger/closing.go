package ledger

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"grattoir/sync/wire"
	"grattoir/validate"
)

// An X reads what a period comes to and leaves no trace. A Z is an entry: it ends the
// period, its sums follow from the entries before it alone, and the journal's end is
// signed with it.

// closingTables is the step of the schema for shifts, closings and reversals. The index
// holds no claim, so it is no page to sync in a payment.
var closingTables = []string{
	`CREATE TABLE closings(kind TEXT NOT NULL, number INTEGER NOT NULL, period TEXT NOT NULL, epoch INTEGER NOT NULL, seq INTEGER NOT NULL,
		PRIMARY KEY(kind, number), FOREIGN KEY(epoch, seq) REFERENCES entries(epoch, seq)) STRICT, WITHOUT ROWID`,
	// One request a claim. The answer is null before it has come.
	`CREATE TABLE reversals(id TEXT NOT NULL PRIMARY KEY, claim_epoch INTEGER NOT NULL, claim_seq INTEGER NOT NULL, epoch INTEGER NOT NULL, seq INTEGER NOT NULL,
		state TEXT NOT NULL, reason TEXT NOT NULL DEFAULT '', answer_epoch INTEGER, answer_seq INTEGER, UNIQUE(claim_epoch, claim_seq),
		FOREIGN KEY(claim_epoch, claim_seq) REFERENCES entries(epoch, seq), FOREIGN KEY(epoch, seq) REFERENCES entries(epoch, seq),
		FOREIGN KEY(answer_epoch, answer_seq) REFERENCES entries(epoch, seq)) STRICT, WITHOUT ROWID`,
	// Central's first countersignature at or above the closing of each year, kept for the
	// archive: acks has the newest only.
	`CREATE TABLE countersigned(epoch INTEGER NOT NULL, seq INTEGER NOT NULL, note TEXT NOT NULL, PRIMARY KEY(epoch, seq)) STRICT, WITHOUT ROWID`,
	`CREATE TRIGGER acks_of_years AFTER UPDATE ON acks WHEN new.note <> '' AND EXISTS (SELECT 1 FROM closings c WHERE c.kind = 'year' AND c.epoch = new.epoch
		AND c.seq <= new.seq AND c.seq > (SELECT coalesce(max(k.seq), 0) FROM countersigned k WHERE k.epoch = new.epoch))
		BEGIN INSERT INTO countersigned(epoch, seq, note) VALUES(new.epoch, new.seq, new.note); END`,
	`CREATE INDEX entries_rare ON entries(kind, epoch, seq) WHERE kind <> 'claim'`,
	`CREATE TRIGGER closings_stay BEFORE UPDATE ON closings BEGIN SELECT raise(ABORT, 'closings are never changed'); END`,
	`CREATE TRIGGER closings_kept BEFORE DELETE ON closings BEGIN SELECT raise(ABORT, 'closings are never removed'); END`,
	`CREATE TRIGGER reversals_stay BEFORE UPDATE ON reversals WHEN old.state <> 'requested' OR new.id <> old.id OR new.claim_epoch <> old.claim_epoch
		OR new.claim_seq <> old.claim_seq BEGIN SELECT raise(ABORT, 'answered reversals are never changed'); END`,
	`CREATE TRIGGER reversals_kept BEFORE DELETE ON reversals BEGIN SELECT raise(ABORT, 'reversals are never removed'); END`,
}

// Ending says who ends a period, and what it is called.
type Ending struct {
	Operator string
	// Period names it: 2026-11-30 for a shift or a day, 2026-11 for a month, 2026 for a
	// year. With "" it is the date of the period's last act by the device's clock in
	// Options.Zone, which may be wrong: a name counts nothing, the entries do.
	Period string
}

// X is what the open period of a kind comes to now. It writes nothing. The error is
// ErrNoShift for a shift when none is open.
func (l *Ledger) X(ctx context.Context, kind validate.ClosingKind) (validate.Closing, error) {
	tx, err := l.read.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return validate.Closing{}, fmt.Errorf("X of the %s: %w", kind, err)
	}
	defer func() { _ = tx.Rollback() }()
	b, err := l.openBooks(ctx, tx)
	if err != nil {
		return validate.Closing{}, fmt.Errorf("X of the %s: %w", kind, err)
	}
	switch {
	case b.open[kind] == nil:
		return validate.Closing{}, fmt.Errorf("X of a %.40q: there are shift, day, month and year", kind)
	case kind == validate.ShiftClosing && b.shift == nil:
		return validate.Closing{}, fmt.Errorf("X of the shift: %w", ErrNoShift)
	}
	names, err := l.names(ctx, tx, b)
	if err != nil {
		return validate.Closing{}, err
	}
	for _, n := range names {
		b.names[n.Block] = n
	}
	m := l.opt.Moment()
	c := validate.Closing{Terminal: l.opt.Terminal, At: m.Device.UTC(), Trusted: m.Trusted}
	if c.ClosingFacts, err = b.facts(kind); err != nil {
		return validate.Closing{}, err
	}
	if kind == validate.ShiftClosing {
		c.Operator = b.shift.Operator
	}
	c.Period = b.call(kind, m.Device, l.zone())
	return c, nil
}

// Z ends the open period of a kind: its totals become an entry, and the journal's end is
// signed with Options.Sign. Two in a row are allowed, the second is empty. The errors are
// ErrNoShift, ErrShiftOpen, ErrClosingOrder and ErrNotWritable. The heads of the audits
// beside the ledger go before the closing, under the same signature.
func (l *Ledger) Z(ctx context.Context, kind validate.ClosingKind, end Ending) (validate.Closing, error) {
	if err := errors.Join(checkName("operator", end.Operator), checkPeriod(kind, end.Period)); err != nil {
		return validate.Closing{}, fmt.Errorf("Z of the %.40s: %w", kind, err)
	}
	l.audits.Lock()
	defer l.audits.Unlock()
	heads := l.auditHeads(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	c := validate.Closing{Terminal: l.opt.Terminal}
	err := l.write(ctx, func(ctx context.Context, w *writing) error {
		if err := w.noteAudits(ctx, heads); err != nil {
			return err
		}
		b, err := l.openBooks(ctx, w.tx)
		if err != nil {
			return err
		}
		if err := b.mayClose(kind); err != nil {
			return err
		}
		if err := w.nameBlocks(ctx, b); err != nil {
			return err
		}
		if c.ClosingFacts, err = b.facts(kind); err != nil {
			return err
		}
		c.Operator, c.Period = end.Operator, end.Period
		if c.Period == "" {
			c.Period = b.call(kind, l.opt.Moment().Device, l.zone())
		}
		var m Moment
		if c.Entry, m, err = w.append(ctx, KindClosing, c.ClosingFacts); err != nil {
			return err
		}
		c.At, c.Trusted, c.Hash = m.Device, m.Trusted, w.prev.String()
		_, err = w.exec(ctx, "INSERT INTO closings(kind, number, period, epoch, seq) VALUES(?, ?, ?, ?, ?)", kind, c.Number, c.Period, c.Entry.Epoch, c.Entry.Seq)
		if err != nil {
			return err
		}
		return w.sign(ctx, HeadClosing)
	})
	if err != nil {
		return validate.Closing{}, fmt.Errorf("Z of the %s: %w", kind, err)
	}
	return c, nil
}

// HeadText is what a device signs for a closing that is an entry: the journal's end as
// the closing leaves it.
func HeadText(c validate.Closing) string {
	return wire.HeadText(c.Terminal, wire.Position{Epoch: c.Entry.Epoch, Seq: c.Entry.Seq, Hash: c.Hash})
}

// nameBlocks appends what the blocks are called that were counted and not named in this
// year, before the closing that needs the names.
func (w *writing) nameBlocks(ctx context.Context, b *books) error {
	names, err := w.l.names(ctx, w.tx, b)
	if err != nil {
		return err
	}
	const most = 30 // of one entry, so that its line fits
	for len(names) > 0 {
		part := names[:min(most, len(names))]
		names = names[len(part):]
		if _, _, err := w.append(ctx, KindBlocks, BlocksBody{Blocks: part}); err != nil {
			return err
		}
		for _, n := range part {
			b.names[n.Block] = n
		}
		b.last.Epoch, b.last.Seq = w.l.epoch, w.seq
	}
	return nil
}

// names finds what counted blocks are called, in the slip of a claim of each.
func (l *Ledger) names(ctx context.Context, q querier, b *books) ([]NamedBlock, error) {
	var list []NamedBlock
	for _, id := range b.unnamed() {
		var slip []byte
		err := q.QueryRowContext(ctx, "SELECT p.slip FROM claims c JOIN prints p ON p.epoch = c.epoch AND p.seq = c.seq WHERE c.block = ? LIMIT 1", id[:]).Scan(&slip)
		if err != nil {
			return nil, fmt.Errorf("%w: block %v: no slip of a claim of it: %w", ErrDamaged, id, orGone(err))
		}
		var facts validate.SlipFacts
		if err := json.Unmarshal(slip, &facts); err != nil {
			return nil, fmt.Errorf("%w: block %v: %w", ErrDamaged, id, err)
		}
		list = append(list, namedBlock(id, facts))
	}
	return list, nil
}

// namedBlock is what a slip calls a block, as entries have it.
func namedBlock(id validate.BlockID, facts validate.SlipFacts) NamedBlock {
	n := NamedBlock{Block: id, Game: short(facts.Game, 40), GameCode: short(facts.GameCode, 16), Emission: short(facts.Emission, 16), Number: facts.BlockNumber, Demonstration: facts.Demonstration}
	if n.Game == "" || n.Game == validate.OtherGames {
		n.Game = "?"
	}
	return n
}

// short makes a text fit so many bytes, without what does not print.
func short(text string, most int) string {
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || strings.ContainsRune("\"\\", r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
	for len(text) > most {
		_, size := utf8.DecodeLastRuneInString(text)
		text = text[:len(text)-size]
	}
	return text
}

// sign signs the end of the chain as this transaction leaves it, and stores it with the
// entries, in the place of those that it covers unless it is a closing's: a closing is
// never without its signature.
func (w *writing) sign(ctx context.Context, why HeadReason) error {
	if w.l.opt.Sign == nil {
		return nil
	}
	signature, err := w.l.opt.Sign([]byte(wire.HeadText(w.l.opt.Terminal, wire.Position{Epoch: w.l.epoch, Seq: w.seq, Hash: w.prev.String()})))
	if err != nil {
		return fmt.Errorf("sign the journal's end %d-%d with the device's key: %w", w.l.epoch, w.seq, err)
	}
	if why != HeadClosing {
		if _, err := w.exec(ctx, "DELETE FROM heads WHERE epoch = ? AND seq <= ? AND why <> ?", w.l.epoch, w.seq, HeadClosing); err != nil {
			return err
		}
	}
	_, err = w.exec(ctx, "INSERT INTO heads(epoch, seq, hash, signature, why) VALUES(?, ?, ?, ?, ?)", w.l.epoch, w.seq, w.prev[:], signature, why)
	return err
}

func (l *Ledger) zone() *time.Location {
	if l.opt.Zone != nil {
		return l.opt.Zone
	}
	return time.UTC
}

func periodLayout(kind validate.ClosingKind) string {
	switch kind {
	case validate.MonthClosing:
		return "2006-01"
	case validate.YearClosing:
		return "2006"
	}
	return time.DateOnly
}

func checkPeriod(kind validate.ClosingKind, period string) error {
	if period == "" {
		return nil
	}
	if _, err := time.Parse(periodLayout(kind), period); err != nil {
		return fmt.Errorf("period %.20q: want it like %s", period, time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC).Format(periodLayout(kind)))
	}
	return nil
}

// checkName bounds the name of a person in an entry.
func checkName(what, name string) error {
	if name == "" || len(name) > 64 || name != short(name, 64) {
		return fmt.Errorf("%s %.80q: want 1 to 64 printable bytes, without quotes or backslashes", what, clean(name))
	}
	return nil
}

// mark is a row of the table of closings.
type mark struct {
	number int64
	at     validate.EntryNumber
}

// lastMark is the newest closing of a kind at or before an entry.
func lastMark(ctx context.Context, q querier, kind validate.ClosingKind, upTo validate.EntryNumber) (m mark, err error) {
	err = q.QueryRowContext(ctx, "SELECT number, epoch, seq FROM closings WHERE kind = ? AND (epoch, seq) <= (?, ?) ORDER BY number DESC LIMIT 1", kind, upTo.Epoch, upTo.Seq).
		Scan(&m.number, &m.at.Epoch, &m.at.Seq)
	if errors.Is(err, sql.ErrNoRows) {
		return mark{}, nil
	}
	return m, err
}

// endOfTime is behind every entry.
func endOfTime() validate.EntryNumber { return validate.EntryNumber{Epoch: 1 << 62, Seq: 1 << 62} }

// openBooks adds up what is open at the end of the journal. It reads the closings that
// the open month and year hold, and the entries since the last closing of a day: some
// hundreds of lines, whatever the ledger's age.
func (l *Ledger) openBooks(ctx context.Context, q querier) (*books, error) {
	b := newBooks()
	day, err := lastMark(ctx, q, validate.DayClosing, endOfTime())
	if err != nil {
		return nil, err
	}
	if day.number > 0 {
		if err := b.resume(ctx, q, day.at); err != nil {
			return nil, fmt.Errorf("%w: before the closing of day %d: %w", ErrDamaged, day.number, err)
		}
	}
	err = eachEntry(ctx, q, "WHERE (epoch, seq) > (?, ?) ORDER BY epoch, seq", []any{day.at.Epoch, day.at.Seq}, b.add)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	b.start(validate.EntryNumber{Epoch: l.epoch, Seq: 1}) // where nothing was ever appended
	return b, nil
}

// resume brings empty books to where they stood after a closing of a day.
func (b *books) resume(ctx context.Context, q querier, day validate.EntryNumber) error {
	last := map[validate.ClosingKind]mark{}
	var err error
	for _, kind := range validate.ClosingKinds() {
		if last[kind], err = lastMark(ctx, q, kind, day); err != nil {
			return err
		}
	}
	year := last[validate.YearClosing].at
	err = eachEntry(ctx, q, "WHERE kind = ? AND kind <> 'claim' AND (epoch, seq) > (?, ?) AND (epoch, seq) < (?, ?) ORDER BY epoch, seq",
		[]any{KindBlocks, year.Epoch, year.Seq, day.Epoch, day.Seq}, b.add)
	if err != nil {
		return err
	}
	month, shift := last[validate.MonthClosing].at, last[validate.ShiftClosing].at
	names := b.names // a year's closing forgets them, and those of this year are read already
	err = eachEntry(ctx, q, `WHERE (epoch, seq) IN (SELECT epoch, seq FROM closings WHERE (epoch, seq) <= (?1, ?2)
		AND (kind = 'month' AND (epoch, seq) >= (?3, ?4) OR kind = 'day' AND (epoch, seq) > (?5, ?6))
		UNION ALL SELECT ?3, ?4 UNION ALL SELECT ?5, ?6 UNION ALL SELECT ?7, ?8 UNION ALL SELECT ?1, ?2) ORDER BY epoch, seq`,
		[]any{day.Epoch, day.Seq, year.Epoch, year.Seq, month.Epoch, month.Seq, shift.Epoch, shift.Seq}, b.add)
	if err != nil {
		return err
	}
	b.names = names
	for _, kind := range validate.ClosingKinds() { // a kind that was never closed begins with the first entry
		if last[kind].number > 0 {
			continue
		}
		first, begun, err := firstEntry(ctx, q)
		if err != nil {
			return err
		}
		b.open[kind].from, b.open[kind].begun = first, begun
	}
	return b.resumePerpetual(ctx, q, day)
}

// resumePerpetual takes the perpetual totals from a closing.
func (b *books) resumePerpetual(ctx context.Context, q querier, at validate.EntryNumber) error {
	e, err := readEntry(ctx, q, at)
	if err != nil {
		return err
	}
	c, err := e.Closing()
	for _, p := range c.Perpetual {
		b.perpetual[p.Currency] = &p
	}
	return err
}

func firstEntry(ctx context.Context, q querier) (n validate.EntryNumber, begun string, err error) {
	err = eachEntry(ctx, q, "ORDER BY epoch, seq LIMIT 1", nil, func(e Entry) error {
		n, begun = validate.EntryNumber{Epoch: e.Epoch, Seq: e.Seq}, e.Time
		return nil
	})
	return n, begun, err
}

func readEntry(ctx context.Context, q querier, n validate.EntryNumber) (Entry, error) {
	var line []byte
	if err := q.QueryRowContext(ctx, "SELECT line FROM entries WHERE epoch = ? AND seq = ?", n.Epoch, n.Seq).Scan(&line); err != nil {
		return Entry{}, fmt.Errorf("entry %v: %w", n, orGone(err))
	}
	e, err := ParseEntry(line)
	if err != nil {
		return e, fmt.Errorf("entry %v: %w", n, err)
	}
	return e, nil
}

// eachEntry reads entries, in the order that the query's end gives.
func eachEntry(ctx context.Context, q querier, where string, args []any, use func(Entry) error) error {
	rows, err := q.QueryContext(ctx, "SELECT epoch, seq, line FROM entries "+where, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var n validate.EntryNumber
		var line []byte
		if err := rows.Scan(&n.Epoch, &n.Seq, &line); err != nil {
			return err
		}
		e, err := ParseEntry(line)
		if err == nil {
			err = use(e)
		}
		if err != nil {
			return fmt.Errorf("entry %v: %w", n, err)
		}
	}
	return rows.Err()
}
