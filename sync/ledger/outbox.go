package ledger

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"grattoir/sync/wire"
	"grattoir/validate/money"
)

// The outbox is the journal above central's acknowledgement. Reading it deletes nothing:
// Ack moves the mark, up to what central has signed for.

var (
	// ErrAckAhead means that central holds entries that this ledger does not have: the
	// file was put back to an earlier state. Its numbers must not be used again, so a
	// person is needed.
	ErrAckAhead = errors.New("central holds more of this journal than the ledger does")
	// ErrAckFork means that central holds other bytes under the same number.
	ErrAckFork = errors.New("central holds another entry under this number")
	// ErrAckEpoch means an acknowledgement of another terminal or journal epoch.
	ErrAckEpoch = errors.New("the acknowledgement is of another journal")
)

// maxRun bounds the encoded lines of one run, so that they fit an upload with room for the rest of it.
const maxRun = wire.MaxUpload - 16<<10

// Changed is closed when the next entry is in the journal. Take it before reading.
func (l *Ledger) Changed() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed
}

// certain is nil unless a commit ended in doubt: what the file shows then may be gone
// after a power cut, so central must not hear of it.
func (l *Ledger) certain() error {
	if l.inDoubt {
		return fmt.Errorf("%w: %w: restart the terminal's program", ErrNotWritable, ErrDoubt)
	}
	return nil
}

// HeadPosition is the newest entry's place.
func (l *Ledger) HeadPosition(context.Context) (wire.Position, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.certain(); err != nil {
		return wire.Position{}, err
	}
	return wire.Position{Epoch: l.epoch, Seq: l.seq, Hash: l.prev.String()}, nil
}

// Acked is the place up to which central has countersigned the current journal epoch.
func (l *Ledger) Acked(ctx context.Context) (wire.Position, error) {
	var seq int64
	if err := l.db.QueryRowContext(ctx, "SELECT seq FROM acks WHERE epoch = ?", l.epoch).Scan(&seq); err != nil {
		return wire.Position{}, fmt.Errorf("read the acknowledged entry: %w", err)
	}
	return l.position(ctx, l.db, seq)
}

// AckedNote is central's newest acknowledgement of the current journal epoch, or else of
// the one before, as it was signed; "" for none.
func (l *Ledger) AckedNote(ctx context.Context) (signed string, err error) {
	err = l.read.QueryRowContext(ctx, "SELECT note FROM acks WHERE note <> '' ORDER BY epoch DESC LIMIT 1").Scan(&signed)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read the newest acknowledgement: %w", err)
	}
	return signed, nil
}

// PositionAt is the place of entry seq of the current journal epoch, or ErrNotFound.
// Entry 0 is the place before the first.
func (l *Ledger) PositionAt(ctx context.Context, seq int64) (wire.Position, error) {
	return l.position(ctx, l.db, seq)
}

func (l *Ledger) position(ctx context.Context, q querier, seq int64) (wire.Position, error) {
	p := wire.Position{Epoch: l.epoch, Seq: seq, Hash: Hash{}.String()}
	if seq == 0 {
		return p, nil
	}
	var hash []byte
	err := q.QueryRowContext(ctx, "SELECT hash FROM entries WHERE epoch = ? AND seq = ?", l.epoch, seq).Scan(&hash)
	if errors.Is(err, sql.ErrNoRows) {
		err = ErrNotFound
	}
	if err != nil {
		return wire.Position{}, fmt.Errorf("entry %d-%d: %w", l.epoch, seq, l.seen(err))
	}
	p.Hash = hex.EncodeToString(hash)
	return p, nil
}

// Pending is the next run of lines that central has not acknowledged: the number of the
// first, the exact lines, and the last one's place. It holds at most max lines and
// wire.MaxEntries, and fits an upload. With nothing to send it has no lines and stands
// at the acknowledged entry.
func (l *Ledger) Pending(ctx context.Context, max int) (from int64, lines []string, to wire.Position, err error) {
	acked, err := l.Acked(ctx)
	if err != nil {
		return 0, nil, wire.Position{}, err
	}
	return l.Since(ctx, acked.Seq, max)
}

// Since is Pending from the entry after another number, for a central that lost what it
// had acknowledged.
func (l *Ledger) Since(ctx context.Context, after int64, max int) (from int64, lines []string, to wire.Position, err error) {
	// Held over the read: a commit that fails is told to certain before the lock is free.
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.certain(); err != nil {
		return 0, nil, to, err
	}
	if to, err = l.position(ctx, l.db, after); err != nil {
		return 0, nil, to, err
	}
	rows, err := l.db.QueryContext(ctx, "SELECT seq, line, hash FROM entries WHERE epoch = ? AND seq > ? ORDER BY seq LIMIT ?", l.epoch, after, min(max, wire.MaxEntries))
	if err != nil {
		return 0, nil, to, fmt.Errorf("read the journal after entry %d: %w", after, l.seen(err))
	}
	defer rows.Close()
	for size := 0; rows.Next(); {
		var seq int64
		var line, hash []byte
		if err := rows.Scan(&seq, &line, &hash); err != nil {
			return 0, nil, to, fmt.Errorf("read the journal after entry %d: %w", to.Seq, l.seen(err))
		}
		if seq != to.Seq+1 {
			return 0, nil, to, fmt.Errorf("%w: entry %d follows %d", ErrDamaged, seq, to.Seq)
		}
		quoted, err := encodeJSON(string(line))
		if err != nil {
			return 0, nil, to, err
		}
		if size += len(quoted) + 1; size > maxRun && len(lines) > 0 {
			break
		}
		lines, to.Seq, to.Hash = append(lines, string(line)), seq, hex.EncodeToString(hash)
	}
	return after + 1, lines, to, rows.Err()
}

// Ack stores central's acknowledgement, whose signature the caller has verified, and its
// note, so that Prove can verify it again. The mark never moves back: an older acknowledgement, or one of the same entry and an
// earlier time, changes nothing. The allowance in it bounds every claim from now on. The
// errors are ErrAckEpoch, ErrAckAhead and ErrAckFork.
func (l *Ledger) Ack(ctx context.Context, a wire.Ack) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.certain(); err != nil {
		return err
	}
	p := a.Position
	switch {
	case a.Terminal != l.opt.Terminal || p.Epoch != l.epoch:
		return fmt.Errorf("%w: terminal %.64q epoch %d, this is %q epoch %d", ErrAckEpoch, a.Terminal, p.Epoch, l.opt.Terminal, l.epoch)
	case p.Seq > l.seq:
		return fmt.Errorf("%w: up to entry %d, the ledger ends at %d", ErrAckAhead, p.Seq, l.seq)
	case p.Seq < 0 || a.AllowanceClaims < 0 || a.AllowanceMinor < 0 || a.Time.IsZero():
		return fmt.Errorf("acknowledgement of entry %d: a figure is negative or its time is missing", p.Seq)
	case a.Note != "" && !strings.HasPrefix(a.Note, a.Text()+"\n"):
		return fmt.Errorf("acknowledgement of entry %d: it is not what its note says", p.Seq)
	}
	own, err := l.position(ctx, l.db, p.Seq)
	if err != nil {
		return err
	}
	if own.Hash != p.Hash {
		return fmt.Errorf("%w: entry %d has hash %s here, %.64s there", ErrAckFork, p.Seq, own.Hash, p.Hash)
	}
	// One statement is one transaction, and it carries the rule that nothing goes back.
	res, err := l.db.ExecContext(context.WithoutCancel(ctx), `UPDATE acks SET seq = ?1, time = ?2, claims = ?3, minor = ?4, note = ?6
		WHERE epoch = ?5 AND (seq < ?1 OR seq = ?1 AND time <= ?2)`, p.Seq, timeText(a.Time), a.AllowanceClaims, a.AllowanceMinor, l.epoch, a.Note)
	if err != nil {
		return fmt.Errorf("store the acknowledgement of entry %d: %w", p.Seq, l.seen(err))
	}
	n, err := res.RowsAffected()
	if err == nil && n == 1 {
		l.allowance = &Allowance{Claims: a.AllowanceClaims, Money: money.Amount(a.AllowanceMinor)}
		if p.Seq != l.counts.Acked { // most tell what is known, at a newer time
			l.counts, err = l.unsent(ctx, l.db)
		}
	}
	return err
}

// Allowance is what bounds claims now: the stricter of central's newest and the
// terminal's own, Options.Allowance.
func (l *Ledger) Allowance() Allowance {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bound()
}

func (l *Ledger) bound() Allowance {
	if l.allowance == nil {
		return l.opt.Allowance
	}
	return Allowance{Claims: stricter(l.allowance.Claims, l.opt.Allowance.Claims), Money: stricter(l.allowance.Money, l.opt.Allowance.Money)}
}

// stricter is the lower of two bounds of which 0 is none.
func stricter[T int64 | money.Amount](a, b T) T {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// loadAllowance reads central's newest allowance. It outlives a raise of the journal
// epoch: a new journal starts under the bound that the old one had.
func (l *Ledger) loadAllowance(ctx context.Context) error {
	var claims, minor int64
	err := l.db.QueryRowContext(ctx, "SELECT claims, minor FROM acks WHERE claims IS NOT NULL ORDER BY epoch DESC LIMIT 1").Scan(&claims, &minor)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the allowance: %w", err)
	}
	l.allowance = &Allowance{Claims: claims, Money: money.Amount(minor)}
	return nil
}

// Refused is the code of what stops this terminal from paying, as central said it or as
// the two journals showed it, "" for nothing. It is durable: pulling the cable, or
// starting again, must not let a suspended terminal pay.
func (l *Ledger) Refused(ctx context.Context) (code string, err error) {
	err = l.read.QueryRowContext(ctx, "SELECT refused FROM link").Scan(&code)
	if err != nil {
		return "", fmt.Errorf("read whether central refuses: %w", err)
	}
	return code, nil
}

// SetRefused stores that code, or clears it with "".
func (l *Ledger) SetRefused(ctx context.Context, code string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	res, err := l.db.ExecContext(context.WithoutCancel(ctx), "UPDATE link SET refused = ?", code)
	return oneRow(res, err, "store that central refuses (%s)", code)
}

// SignedTime is the newest time that central signed and this ledger stored, in an
// acknowledgement or as an accepted snapshot's issue; zero before the first. It is a
// floor: now is not earlier.
func (l *Ledger) SignedTime(ctx context.Context) (time.Time, error) {
	var text string
	err := l.db.QueryRowContext(ctx, "SELECT max((SELECT max(time) FROM acks), (SELECT issued FROM link))").Scan(&text)
	if err != nil {
		return time.Time{}, fmt.Errorf("read the newest signed time: %w", err)
	}
	return parseTime(text)
}

// Snapshot is the version in force of what central publishes, 0 before the first.
func (l *Ledger) Snapshot(ctx context.Context) (version int64, err error) {
	err = l.db.QueryRowContext(ctx, "SELECT snapshot FROM link").Scan(&version)
	if err != nil {
		err = fmt.Errorf("read the snapshot's version: %w", err)
	}
	return version, err
}

// SetSnapshot stores that a snapshot, issued then, is in force: after all that it lists
// is here. The version only rises; a lower one changes nothing.
func (l *Ledger) SetSnapshot(ctx context.Context, version int64, issued time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err := l.db.ExecContext(context.WithoutCancel(ctx), "UPDATE link SET snapshot = ?1, issued = max(issued, ?2) WHERE snapshot <= ?1", version, timeText(issued))
	if err != nil {
		return fmt.Errorf("store snapshot version %d: %w", version, err)
	}
	return nil
}
