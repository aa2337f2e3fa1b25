package ledger

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"grattoir/validate"
)

// ImportOptions say how a journal is taken over.
type ImportOptions struct {
	// Keys verify the signatures. Central's key is required for an export with
	// acknowledgements: they bound what may be paid.
	Keys Keys
	// RaiseEpoch begins a new journal epoch behind what is imported. It is wanted when the
	// old card may have written entries after the export was made: their numbers must not
	// be given again.
	RaiseEpoch bool
}

// ErrNotFresh means that a journal is to be imported into a ledger that has one.
var ErrNotFresh = errors.New("the ledger is not a fresh one")

// Import makes the ledger at opt.Path from an export of the whole journal of the same
// terminal, all or nothing, and closes it again. The ledger must be fresh: absent, or
// without entries. Each ticket that was paid is paid in it. What paper came out is not in
// an export, so that the next copy of each slip is a DUPLICATA. What central's feed had
// said comes again; failed secrets are counted anew. The errors are ErrExport, ErrDamaged,
// ErrNotFresh and Open's.
func Import(ctx context.Context, r io.Reader, opt Options, o ImportOptions) (Proof, error) {
	in := bufio.NewReader(r)
	if err := rightTerminal(in, opt.Terminal); err != nil {
		return Proof{}, fmt.Errorf("import into %s: nothing was changed: %w", opt.Path, err)
	}
	l, err := Open(ctx, opt)
	if err != nil {
		return Proof{}, err
	}
	l.opt.Sign = nil // the signatures are the old card's
	p, err := l.takeOver(ctx, in, o)
	if err := errors.Join(err, l.Close()); err != nil {
		return p, fmt.Errorf("import into %s: %w", opt.Path, err)
	}
	return p, nil
}

// rightTerminal looks ahead at whose journal an export says it is, before a ledger is
// made: one made under a mistyped name would bear it for good, and refuse the right
// import. What cannot be read here is left to the reader of the whole.
func rightTerminal(in *bufio.Reader, name string) error {
	head, _ := in.Peek(in.Size())
	line, _, _ := bytes.Cut(head, []byte("\n"))
	var first struct {
		Journal *exportHeader `json:"journal"`
	}
	if json.Unmarshal(line, &first) == nil && first.Journal != nil && first.Journal.Terminal != name {
		return othersJournal(first.Journal.Terminal, name)
	}
	return nil
}

func othersJournal(its, name string) error {
	return fmt.Errorf("%w: it is the journal of terminal %q, not of %q", ErrExport, clean(its), name)
}

// takeOver reads the export into one transaction, and commits it when the whole file,
// as it would be, has been verified.
func (l *Ledger) takeOver(ctx context.Context, r io.Reader, o ImportOptions) (Proof, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.seq != 0 || l.epoch != 1 {
		return Proof{}, fmt.Errorf("%w: its journal is at %v", ErrNotFresh, validate.EntryNumber{Epoch: l.epoch, Seq: l.seq})
	}
	tx, err := l.db.BeginTx(ctx, nil)
	if err != nil {
		return Proof{}, err
	}
	defer func() { _ = tx.Rollback() }()
	in := intake{ctx: ctx, tx: tx, terminal: l.opt.Terminal, proven: o.Keys.Central != nil}
	p, err := readExport(ctx, r, o.Keys, &in)
	if err != nil {
		return p, fmt.Errorf("nothing was changed: %w", err)
	}
	if o.RaiseEpoch {
		in.epoch++
	}
	if err := in.settle(); err != nil {
		return p, fmt.Errorf("nothing was changed: %w", err)
	}
	if _, err := verify(ctx, tx, migrations); err != nil {
		return p, fmt.Errorf("nothing was changed: %w", err)
	}
	return p, tx.Commit()
}

// intake puts what is read of an export into the tables.
type intake struct {
	ctx      context.Context
	tx       *sql.Tx
	terminal string
	proven   bool // central's signatures are verified
	epoch    int64
}

func (in *intake) begin(h exportHeader) error {
	if h.Terminal != in.terminal {
		return othersJournal(h.Terminal, in.terminal)
	}
	if !h.Whole {
		return fmt.Errorf("%w: it is a part of a journal, from %d-%d to %d-%d", ErrExport, h.From.Epoch, h.From.Seq, h.To.Epoch, h.To.Seq)
	}
	in.epoch = h.Epoch
	return nil
}

func (in *intake) exec(query string, args ...any) error {
	_, err := in.tx.ExecContext(in.ctx, query, args...)
	return err
}

func (in *intake) entry(e Entry, line []byte, own Hash, slip []byte) error {
	if err := in.exec("INSERT INTO entries(epoch, seq, kind, line, hash) VALUES(?, ?, ?, ?, ?)", e.Epoch, e.Seq, e.Kind, line, own[:]); err != nil {
		return err
	}
	if err := in.beside(e, slip); err != nil {
		return fmt.Errorf("entry %v: %w", validate.EntryNumber{Epoch: e.Epoch, Seq: e.Seq}, err)
	}
	return nil
}

// beside makes what the tables beside the chain hold of an entry, from the entry. Every
// kind that this program writes has its case here: one without would be imported in half.
func (in *intake) beside(e Entry, slip []byte) error {
	switch e.Kind {
	case KindClaim, KindCarriedClaim:
		return in.claim(e, slip)
	case KindReprint:
		return in.reprint(e)
	case KindReversal:
		return in.reversal(e)
	case KindReversalAnswer:
		return in.answer(e)
	case KindClosing:
		return in.closing(e)
	case KindRelease:
		return in.release(e)
	case KindAttempt:
		return in.attempt(e)
	case KindMisprint:
		return in.misprint(e)
	case KindShiftOpen, KindTraining, KindBlocks, KindArchive, KindAuditHeads, KindPackActivated, KindPackSettled, KindMessageRead, KindCarriedLine, KindBookedRisk:
		return nil // read from the chain, where verify looks at them
	}
	return fmt.Errorf("%w: entries of kind %.40q are of a newer program: import with that one", ErrExport, e.Kind)
}

// claim keeps that a ticket is paid. Its paper may be out, so the next copy is a DUPLICATA.
func (in *intake) claim(e Entry, slip []byte) error {
	c, err := e.Claim()
	if err != nil {
		return err
	}
	err = in.exec("INSERT INTO claims(block, pack, ticket, round, epoch, seq) VALUES(?, ?, ?, ?, ?, ?)", c.Block[:], c.Pack, c.Ticket, c.Round, e.Epoch, e.Seq)
	if err != nil {
		return fmt.Errorf("%w: its ticket is paid by an entry before: %w", ErrExport, err)
	}
	return in.exec("INSERT INTO prints(epoch, seq, state, copies, amount, slip) VALUES(?, ?, ?, 1, ?, ?)", e.Epoch, e.Seq, validate.Unknown, c.AmountMinor, slip)
}

// reprint keeps the number of copies, so that the next DUPLICATA has the next one.
func (in *intake) reprint(e Entry) error {
	b, err := e.Reprint()
	if err != nil {
		return err
	}
	return in.exec("UPDATE prints SET copies = max(copies, ?) WHERE epoch = ? AND seq = ?", b.Copy, b.Number.Epoch, b.Number.Seq)
}

func (in *intake) reversal(e Entry) error {
	b, err := e.Reversal()
	if err != nil {
		return err
	}
	return in.exec("INSERT INTO reversals(id, claim_epoch, claim_seq, epoch, seq, state) VALUES(?, ?, ?, ?, ?, ?)",
		b.Reversal, b.Number.Epoch, b.Number.Seq, e.Epoch, e.Seq, validate.ReversalRequested)
}

func (in *intake) answer(e Entry) error {
	b, err := e.ReversalAnswer()
	if err != nil {
		return err
	}
	state := validate.ReversalRefused
	if b.Accepted {
		state = validate.ReversalAccepted
	}
	return in.exec("UPDATE reversals SET state = ?, reason = ?, answer_epoch = ?, answer_seq = ? WHERE id = ?", state, b.Reason, e.Epoch, e.Seq, b.Reversal)
}

func (in *intake) closing(e Entry) error {
	c, err := e.Closing()
	if err != nil {
		return err
	}
	return in.exec("INSERT INTO closings(kind, number, period, epoch, seq) VALUES(?, ?, ?, ?, ?)", c.Kind, c.Number, c.Period, e.Epoch, e.Seq)
}

// signed takes the acknowledgements as if they came now, one after the other, so that
// what is kept of earlier ones is kept again.
func (in *intake) signed(m marks) error {
	if len(m.acks) > 0 && !in.proven {
		return errors.New("it holds central's acknowledgement, which bounds what may be paid: central's key is needed to verify it")
	}
	if err := in.exec("INSERT OR IGNORE INTO acks(epoch, seq) VALUES(?, 0)", m.head.Epoch); err != nil {
		return err
	}
	for _, a := range m.acks {
		if err := in.exec("UPDATE acks SET seq = ?, time = ?, claims = ?, minor = ?, note = ? WHERE epoch = ?",
			a.Position.Seq, timeText(a.Time), a.AllowanceClaims, a.AllowanceMinor, a.Note, m.head.Epoch); err != nil {
			return err
		}
	}
	for _, h := range m.heads {
		if err := in.exec("INSERT INTO heads(epoch, seq, hash, signature, why) VALUES(?, ?, ?, ?, ?)", h.Epoch, h.Seq, h.Hash[:], h.Signature, h.Why); err != nil {
			return err
		}
	}
	return nil
}

// settle sets the epoch that the ledger goes on in, and a mark for each.
func (in *intake) settle() error {
	for epoch := int64(1); epoch <= in.epoch; epoch++ {
		if err := in.exec("INSERT OR IGNORE INTO acks(epoch, seq) VALUES(?, 0)", epoch); err != nil {
			return err
		}
	}
	return in.exec("UPDATE meta SET epoch = ?", in.epoch)
}
