package ledger

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"grattoir/sync/wire"
	"grattoir/validate"
)

// A ledger that was put back to an earlier state has forgotten payments, and would give
// their numbers to others. What central holds of the journal is the way back: its entries
// take their places again, what the terminal wrote since is carried into a new epoch, and
// only then is anything paid. Not one of its own entries is lost: a carried one stands
// whole inside the entry that carries it, which central gets.

// Restoring says what a journal is brought back to.
type Restoring struct {
	// Acked is the end of what central holds, whose signature the caller has verified.
	Acked wire.Ack
	// Epoch is the journal epoch to go on in, which a person at central agreed to. It is
	// higher than the ledger's and than that of Acked.
	Epoch int64
	// Lines calls use with the exact lines that central holds, in order, from the entry
	// after any that is known to be the same on both sides, up to Acked.
	Lines func(use func(line []byte) error) error
}

// Restored is what Restore has done.
type Restored struct {
	Taken   int64 // entries that central gave back
	Carried int64 // entries of this ledger that central did not hold, now in the new epoch
	Claims  int64 // payments among them
}

// ErrRestore means lines that are not this terminal's journal up to what central signed.
// The ledger is as it was.
var ErrRestore = errors.New("what central gave is not this terminal's journal")

// Restore brings the journal back and goes on in a new epoch, all or nothing; nothing is
// refused any more then (Refused). What central holds counts where the two differ. Its
// payments are paid here again, so that none is paid twice; their paper may be out, so
// the next copy of each is a DUPLICATA. The errors include ErrRestore and ErrNotWritable.
func (l *Ledger) Restore(ctx context.Context, r Restoring) (Restored, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := errors.Join(l.certain(), l.sickness()); err != nil {
		return Restored{}, err
	}
	p := r.Acked.Position
	if r.Acked.Terminal != l.opt.Terminal || r.Epoch <= l.epoch || r.Epoch <= p.Epoch || p.Seq < 0 || !strings.HasPrefix(r.Acked.Note, r.Acked.Text()+"\n") {
		return Restored{}, fmt.Errorf("%w: epoch %d after %d-%d of terminal %.64q, the ledger is %q in epoch %d", ErrRestore, r.Epoch, p.Epoch, p.Seq, r.Acked.Terminal, l.opt.Terminal, l.epoch)
	}
	done, err := l.restore(context.WithoutCancel(ctx), r)
	if err != nil {
		return Restored{}, fmt.Errorf("restore the journal up to %d-%d: nothing was changed: %w", p.Epoch, p.Seq, l.seen(err))
	}
	l.training = false
	if err := errors.Join(l.loadAllowance(ctx), l.loadCounts(ctx), l.loadTraining(ctx)); err != nil {
		return done, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	close(l.changed)
	l.changed = make(chan struct{})
	return done, nil
}

func (l *Ledger) restore(ctx context.Context, r Restoring) (done Restored, err error) {
	old := Head{l.epoch, l.seq, l.prev}
	tx, err := l.db.BeginTx(ctx, nil)
	if err != nil {
		return done, fmt.Errorf("%w: %w", ErrNotWritable, err)
	}
	defer func() {
		if err != nil {
			l.epoch, l.seq, l.prev = old.Epoch, old.Seq, old.Hash
			err = errors.Join(err, ignoreDone(tx.Rollback()))
		}
	}()
	x := restoring{intake: intake{ctx: ctx, tx: tx, terminal: l.opt.Terminal, proven: true}, l: l}
	if err = x.guards(false); err != nil {
		return done, err
	}
	if err = r.Lines(x.line); err != nil {
		return done, err
	}
	if err = x.end(r.Acked.Position); err != nil {
		return done, err
	}
	if err = x.mark(r); err != nil {
		return done, err
	}
	// From here on entries are of the new epoch.
	l.epoch, l.seq, l.prev = r.Epoch, 0, Hash{}
	w := &writing{l: l, tx: tx}
	if err = x.carry(w); err != nil {
		return done, err
	}
	if err = x.guards(true); err != nil {
		return done, err
	}
	if err = tx.Commit(); err != nil {
		l.inDoubt = true // it may have reached the disk: the next Open tells
		return done, fmt.Errorf("%w: %w", ErrNotWritable, err)
	}
	l.seq, l.prev = w.seq, w.prev
	return x.done, nil
}

func ignoreDone(err error) error {
	if errors.Is(err, sql.ErrTxDone) {
		return nil
	}
	return err
}

// restoring is a restore inside its transaction.
type restoring struct {
	intake
	l        *Ledger
	triggers []string             // as they were taken off
	at       validate.EntryNumber // last line of central's
	prev     Hash
	first    validate.EntryNumber // of central's lines
	aside    []displaced
	done     Restored
}

// displaced is an entry of this ledger that central does not hold, taken out of its place.
type displaced struct {
	number validate.EntryNumber
	kind   Kind
	line   []byte
	print  *printRow // of a claim
}

type printRow struct {
	state  string
	copies int64
	slip   []byte
}

// guards takes the triggers off that keep rows from being moved, and puts the same ones
// back: in one transaction with what is moved.
func (x *restoring) guards(on bool) error {
	if on {
		for _, text := range x.triggers {
			if err := x.exec(text); err != nil {
				return err
			}
		}
		return nil
	}
	rows, err := x.tx.QueryContext(x.ctx, `SELECT name, sql FROM sqlite_schema WHERE type = 'trigger' AND (name LIKE '%\_stay' ESCAPE '\' OR name LIKE '%\_kept' ESCAPE '\') ORDER BY name`)
	if err != nil {
		return err
	}
	var names []string
	for rows.Next() {
		var name, text string
		if err := rows.Scan(&name, &text); err != nil {
			return errors.Join(err, rows.Close())
		}
		names, x.triggers = append(names, name), append(x.triggers, text)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return err
	}
	for _, name := range names {
		if err := x.exec(`DROP TRIGGER "` + name + `"`); err != nil {
			return err
		}
	}
	return nil
}

// line puts an entry of central's in its place.
func (x *restoring) line(text []byte) error {
	e, err := ParseEntry(text)
	if err != nil {
		return fmt.Errorf("%w: after %v: %w", ErrRestore, x.at, err)
	}
	n := validate.EntryNumber{Epoch: e.Epoch, Seq: e.Seq}
	own := hashLine(text)
	if err := x.follows(e, n); err != nil {
		return err
	}
	if n.Epoch > x.at.Epoch {
		if err := x.closeEpoch(n.Epoch); err != nil {
			return err
		}
	}
	x.at, x.prev = n, own
	var here []byte
	switch err := x.tx.QueryRowContext(x.ctx, "SELECT hash FROM entries WHERE epoch = ? AND seq = ?", n.Epoch, n.Seq).Scan(&here); {
	case err == nil && bytes.Equal(here, own[:]):
		return nil
	case err == nil:
		if err := x.setAside(n); err != nil {
			return err
		}
	case !errors.Is(err, sql.ErrNoRows):
		return err
	}
	x.done.Taken++
	slip, err := factsOf(e)
	if err != nil {
		return fmt.Errorf("%w: entry %v: %w", ErrRestore, n, err)
	}
	return x.entry(e, text, own, slip)
}

// closeEpoch takes out what is here above central's last entry of an epoch, when its lines
// go on in a later one.
func (x *restoring) closeEpoch(next int64) error {
	last := x.at
	if last == (validate.EntryNumber{}) { // they begin behind what it had acknowledged
		last.Epoch = x.l.epoch
		if err := x.tx.QueryRowContext(x.ctx, "SELECT seq FROM acks WHERE epoch = ?", last.Epoch).Scan(&last.Seq); err != nil {
			return err
		}
	}
	var more bool
	if err := x.tx.QueryRowContext(x.ctx, "SELECT EXISTS(SELECT 1 FROM entries WHERE epoch = ? AND epoch < ? AND seq > ?)", last.Epoch, next, last.Seq).Scan(&more); err != nil || !more {
		return err
	}
	return x.setAside(validate.EntryNumber{Epoch: last.Epoch, Seq: last.Seq + 1})
}

// follows tells whether an entry is the next one: of central's lines, or for the first of
// them behind the entry that is here.
func (x *restoring) follows(e Entry, n validate.EntryNumber) error {
	if e.Terminal != x.terminal || n.Seq < 1 || n.Epoch < 1 {
		return fmt.Errorf("%w: entry %v of terminal %.64q", ErrRestore, n, e.Terminal)
	}
	switch {
	case x.first == (validate.EntryNumber{}):
		x.first = n
		if n.Seq > 1 {
			before, err := x.l.positionIn(x.ctx, x.tx, n.Epoch, n.Seq-1)
			if err != nil {
				return fmt.Errorf("%w: it begins at %v: %w", ErrRestore, n, err)
			}
			x.prev = before
		}
	case n.Epoch > x.at.Epoch && n.Seq == 1:
		x.prev = Hash{}
	case n.Epoch != x.at.Epoch || n.Seq != x.at.Seq+1:
		return fmt.Errorf("%w: entry %v follows %v", ErrRestore, n, x.at)
	}
	if e.Prev != x.prev.String() {
		return fmt.Errorf("%w: entry %v does not carry the hash of the entry before", ErrRestore, n)
	}
	return nil
}

// positionIn is the hash of an entry.
func (l *Ledger) positionIn(ctx context.Context, q querier, epoch, seq int64) (h Hash, err error) {
	var raw []byte
	err = q.QueryRowContext(ctx, "SELECT hash FROM entries WHERE epoch = ? AND seq = ?", epoch, seq).Scan(&raw)
	if errors.Is(err, sql.ErrNoRows) {
		err = ErrNotFound
	}
	copy(h[:], raw)
	return h, err
}

// factsOf are the facts of a claim's slip as far as its entry tells them: the ledger knows
// no games.
func factsOf(e Entry) ([]byte, error) {
	if !e.IsClaim() {
		return nil, nil
	}
	c, err := e.Claim()
	if err != nil {
		return nil, err
	}
	return encodeJSON(validate.SlipFacts{Pack: fmt.Sprintf("%07d", c.Pack), Ticket: fmt.Sprintf("%03d", c.Ticket)})
}

// end holds central's lines against what it signed, and takes out what is here above it.
func (x *restoring) end(p wire.Position) error {
	if p.Seq > 0 {
		h, err := x.l.positionIn(x.ctx, x.tx, p.Epoch, p.Seq)
		if err != nil || h.String() != p.Hash {
			return fmt.Errorf("%w: entry %d-%d is not the one that it signed: %w", ErrRestore, p.Epoch, p.Seq, orGone(err))
		}
	}
	if before(validate.EntryNumber{Epoch: p.Epoch, Seq: p.Seq}, x.at) {
		return fmt.Errorf("%w: it goes on to %v, behind what was signed", ErrRestore, x.at)
	}
	return x.setAside(validate.EntryNumber{Epoch: p.Epoch, Seq: p.Seq + 1})
}

// setAside takes out the entries of this ledger from one on, with what the tables beside
// the chain hold of them. Those of central's that were put in are below it.
func (x *restoring) setAside(from validate.EntryNumber) error {
	rows, err := x.tx.QueryContext(x.ctx, `SELECT e.epoch, e.seq, e.kind, e.line, p.state, p.copies, p.slip FROM entries e LEFT JOIN prints p ON p.epoch = e.epoch AND p.seq = e.seq
		WHERE (e.epoch, e.seq) >= (?, ?) ORDER BY e.epoch, e.seq`, from.Epoch, from.Seq)
	if err != nil {
		return err
	}
	var list []displaced
	for rows.Next() {
		var a displaced
		var state sql.NullString
		var copies sql.NullInt64
		var slip []byte
		if err := rows.Scan(&a.number.Epoch, &a.number.Seq, &a.kind, &a.line, &state, &copies, &slip); err != nil {
			return errors.Join(err, rows.Close())
		}
		if state.Valid {
			a.print = &printRow{state.String, copies.Int64, slip}
		}
		list = append(list, a)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil || len(list) == 0 {
		return err
	}
	for _, statement := range []string{
		"UPDATE reversals SET state = 'requested', reason = '', answer_epoch = NULL, answer_seq = NULL WHERE (answer_epoch, answer_seq) >= (?, ?)",
		"DELETE FROM reversals WHERE (epoch, seq) >= (?, ?)",
		"DELETE FROM closings WHERE (epoch, seq) >= (?, ?)",
		"DELETE FROM prints WHERE (epoch, seq) >= (?, ?)",
		"DELETE FROM claims WHERE (epoch, seq) >= (?, ?)",
		"DELETE FROM heads WHERE (epoch, seq) >= (?, ?)",
		"DELETE FROM countersigned WHERE (epoch, seq) >= (?, ?)",
		"DELETE FROM entries WHERE (epoch, seq) >= (?, ?)",
	} {
		if err := x.exec(statement, from.Epoch, from.Seq); err != nil {
			return fmt.Errorf("%.30s: %w", statement, err)
		}
	}
	x.aside = append(x.aside, list...)
	return nil
}

// mark sets the marks: all that is here is central's, and the new epoch begins.
func (x *restoring) mark(r Restoring) error {
	a := r.Acked
	for epoch := int64(1); epoch <= r.Epoch; epoch++ {
		if err := x.exec("INSERT OR IGNORE INTO acks(epoch, seq) VALUES(?, 0)", epoch); err != nil {
			return err
		}
	}
	if err := x.exec("UPDATE acks SET seq = ?, time = ?, claims = ?, minor = ?, note = ? WHERE epoch = ?",
		a.Position.Seq, timeText(a.Time), a.AllowanceClaims, a.AllowanceMinor, a.Note, a.Position.Epoch); err != nil {
		return err
	}
	if err := x.exec("UPDATE meta SET epoch = ?", r.Epoch); err != nil {
		return err
	}
	return x.exec("UPDATE link SET refused = ''")
}

// carry writes what was set aside into the new epoch, in its order.
func (x *restoring) carry(w *writing) error {
	for _, a := range x.aside {
		if err := x.carryOne(w, a); err != nil {
			return fmt.Errorf("carry entry %v: %w", a.number, err)
		}
		x.done.Carried++
	}
	return nil
}

func (x *restoring) carryOne(w *writing, a displaced) error {
	e, err := ParseEntry(a.line)
	if err != nil {
		return err
	}
	if e.Kind == KindReversalAnswer {
		return x.answerAgain(w, e)
	}
	if a.print != nil && e.IsClaim() {
		if carried, err := x.carryClaim(w, a, e); err != nil || carried {
			return err
		}
	}
	body := CarriedBody{Line: string(a.line)}
	if sum := sha256.Sum256(a.line); len(a.line) > maxLine/2 {
		body = CarriedBody{SHA256: hex.EncodeToString(sum[:])}
	}
	_, _, err = w.append(x.ctx, KindCarriedLine, body)
	return err
}

// carryClaim carries a payment, with its ticket's row and its paper. It does not when the
// ticket has been paid by another entry of this journal: central hears of both.
func (x *restoring) carryClaim(w *writing, a displaced, e Entry) (bool, error) {
	line := string(a.line)
	if e.Kind == KindCarriedClaim { // of a restore before, which central never got
		body, err := bodyOf[CarriedBody](e, KindCarriedClaim)
		if err != nil {
			return false, err
		}
		line = body.Line
	}
	c, err := e.Claim()
	if err != nil {
		return false, err
	}
	var paid bool
	err = x.tx.QueryRowContext(x.ctx, "SELECT EXISTS(SELECT 1 FROM claims WHERE block = ? AND pack = ? AND ticket = ? AND round = ?)", c.Block[:], c.Pack, c.Ticket, c.Round).Scan(&paid)
	if err != nil || paid {
		return false, err
	}
	n, _, err := w.append(x.ctx, KindCarriedClaim, CarriedBody{Line: line})
	if err != nil {
		return false, err
	}
	if err := x.exec("INSERT INTO claims(block, pack, ticket, round, epoch, seq) VALUES(?, ?, ?, ?, ?, ?)", c.Block[:], c.Pack, c.Ticket, c.Round, n.Epoch, n.Seq); err != nil {
		return false, err
	}
	x.done.Claims++
	return true, x.exec("INSERT INTO prints(epoch, seq, state, copies, amount, slip) VALUES(?, ?, ?, ?, ?, ?)", n.Epoch, n.Seq, a.print.state, a.print.copies, c.AmountMinor, a.print.slip)
}

// answerAgain records central's answer to a reversal once more: the feed has passed it.
func (x *restoring) answerAgain(w *writing, e Entry) error {
	b, err := e.ReversalAnswer()
	if err != nil {
		return err
	}
	err = w.answer(x.ctx, b.Reversal, b.Accepted, b.Reason)
	if errors.Is(err, ErrNotFound) || errors.Is(err, ErrAnswered) {
		return nil
	}
	return err
}
