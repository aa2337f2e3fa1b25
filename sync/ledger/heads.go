package ledger

import (
	"context"
	"crypto/ecdsa"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"golang.org/x/mod/sumdb/note"

	"grattoir/sync/wire"
)

// The chain shows that entries fit each other; whoever writes the file can make another
// chain. Signatures over a head bind everything up to it: central's, in the note of its
// acknowledgement, and the device's own.

// HeadReason is why the device signed a head.
type HeadReason string

const (
	HeadClosing HeadReason = "closing" // kept for ever
	HeadUpload  HeadReason = "upload"  // while central could not be reached
	HeadStop    HeadReason = "stop"    // the program stopped in order
)

// SignedHead is a head with the device's signature over wire.HeadText of it.
type SignedHead struct {
	Head
	Signature []byte // ECDSA over SHA-256, ASN.1
	Why       HeadReason
}

// SignHead has the device sign the newest entry and keeps the signature, unless that
// entry's is kept already. How far the audits beside the ledger have come becomes an entry
// first, where it is not noted yet. Without Options.Sign, or before the first entry, it
// does nothing.
func (l *Ledger) SignHead(ctx context.Context, why HeadReason) error {
	if l.opt.Sign == nil {
		return nil
	}
	l.audits.Lock()
	defer l.audits.Unlock()
	heads := l.auditHeads(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	var noted error
	if len(heads) > 0 && !l.inDoubt && l.sickness() == nil {
		noted = l.write(ctx, func(ctx context.Context, w *writing) error {
			if err := w.noteAudits(ctx, heads); err != nil || !w.changed {
				return err
			}
			return w.sign(ctx, why)
		})
	}
	return errors.Join(noted, l.signHead(ctx, why)) // what is there is signed all the same
}

// signHead needs the lock. After a commit in doubt it signs nothing: the entry may be gone
// after a power cut, and a head must not outlive it.
func (l *Ledger) signHead(ctx context.Context, why HeadReason) error {
	if l.opt.Sign == nil || l.seq == 0 || l.inDoubt {
		return nil
	}
	ctx = context.WithoutCancel(ctx)
	var kept bool
	err := l.db.QueryRowContext(ctx, "SELECT EXISTS(SELECT 1 FROM heads WHERE epoch = ? AND seq = ? AND (why = ? OR ? <> ?))", l.epoch, l.seq, HeadClosing, why, HeadClosing).Scan(&kept)
	if err != nil || kept {
		return err
	}
	h := SignedHead{Head: Head{l.epoch, l.seq, l.prev}, Why: why}
	if h.Signature, err = l.opt.Sign([]byte(h.text(l.opt.Terminal))); err != nil {
		return fmt.Errorf("sign the head %d-%d: %w", l.epoch, l.seq, err)
	}
	return l.keepHead(ctx, h)
}

// keepHead stores a head in the place of those that it covers, but for closings'.
func (l *Ledger) keepHead(ctx context.Context, h SignedHead) error {
	tx, err := l.db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("keep the signed head %d-%d: %w", h.Epoch, h.Seq, err)
	}
	defer func() { _ = tx.Rollback() }()
	_, err = tx.ExecContext(ctx, "DELETE FROM heads WHERE epoch = ? AND seq <= ? AND why <> ?", h.Epoch, h.Seq, HeadClosing)
	if err == nil {
		_, err = tx.ExecContext(ctx, "INSERT INTO heads(epoch, seq, hash, signature, why) VALUES(?, ?, ?, ?, ?)", h.Epoch, h.Seq, h.Hash[:], h.Signature, h.Why)
	}
	if err == nil {
		err = tx.Commit()
	}
	if err != nil {
		return fmt.Errorf("keep the signed head %d-%d: %w", h.Epoch, h.Seq, err)
	}
	return nil
}

// Keys are what the signatures over a journal are verified with. They must not come from
// the disk that is doubted: whoever could write the ledger could write them too.
type Keys struct {
	// Central are central's note keys, the present one and earlier ones; nil leaves its
	// signatures unverified.
	Central note.Verifiers
	// Device are the terminal's keys, the present one and those of earlier enrolments;
	// without one the device's signatures are left unverified.
	Device []*ecdsa.PublicKey
}

// Proof is what Prove found: a whole chain, and how much of it is signed, for each
// journal epoch in order; the last is the current one.
type Proof struct {
	Check
	Terminal string
	Epochs   []EpochProof
}

// EpochProof is how far signatures reach in one journal epoch.
type EpochProof struct {
	Head
	Central Signed // countersigned: what stands up to there is what central holds
	Device  Signed // up to there nothing was changed without the device's key
	Heads   int    // signatures of the device, closings' among them
}

// Signed is the newest signature of one signer.
type Signed struct {
	Seq      int64 // 0 for none
	Verified bool  // false without a key: then it proves nothing
	Time     time.Time
	Why      HeadReason // the device's
	// Unsigned means that the mark of an acknowledgement stands at Seq without the note
	// that proves it: the ledger was acknowledged before it kept notes.
	Unsigned bool
}

// Covered is the newest entry that a verified signature covers, 0 for none. Who can write
// the file can change what lies above it, and cut entries off above any signed head.
func (p EpochProof) Covered() int64 {
	var seq int64
	for _, s := range []Signed{p.Central, p.Device} {
		if s.Verified {
			seq = max(seq, s.Seq)
		}
	}
	return seq
}

// Prove is Verify, and verifies every signature that is kept with the keys that are
// given. A signature that does not verify is ErrDamaged: the entries were changed, or it
// was, or it is of another key.
func (l *Ledger) Prove(ctx context.Context, k Keys) (Proof, error) {
	return prove(ctx, l.read, migrations, k)
}

func prove(ctx context.Context, q querier, steps [][]string, k Keys) (Proof, error) {
	w, err := verify(ctx, q, steps)
	p := Proof{Check: w.check, Terminal: w.terminal}
	if err != nil {
		return p, err
	}
	for _, m := range w.marks {
		e, err := m.prove(w.terminal, k)
		if err != nil {
			return p, err
		}
		p.Epochs = append(p.Epochs, e)
	}
	return p, nil
}

// marks are what is kept of one epoch's signatures.
type marks struct {
	head  Head // the epoch's newest entry
	heads []SignedHead
	acked int64      // where the mark stands
	acks  []wire.Ack // in order; where the mark has its note, the last is the mark's
	noted bool       // it has
}

// keep takes a note that is kept, unless it is the one before.
func (m *marks) keep(a wire.Ack) {
	if n := len(m.acks); n == 0 || m.acks[n-1].Note != a.Note {
		m.acks = append(m.acks, a)
	}
}

// readMarks reads what is kept, from files of every version.
func readMarks(ctx context.Context, q querier, version int, epoch int64) (marks, error) {
	m := marks{head: Head{Epoch: epoch}}
	if version < 2 { // before signatures were kept
		err := q.QueryRowContext(ctx, "SELECT coalesce(max(seq), 0) FROM acks WHERE epoch = ?", epoch).Scan(&m.acked)
		return m, err
	}
	if err := m.readYears(ctx, q, version); err != nil {
		return m, err
	}
	if err := m.readAck(ctx, q); err != nil {
		return m, err
	}
	rows, err := q.QueryContext(ctx, "SELECT seq, hash, signature, why FROM heads WHERE epoch = ? ORDER BY seq", epoch)
	if err != nil {
		return m, err
	}
	defer rows.Close()
	for rows.Next() {
		h := SignedHead{Head: Head{Epoch: epoch}}
		var hash []byte
		if err := rows.Scan(&h.Seq, &hash, &h.Signature, &h.Why); err != nil {
			return m, err
		}
		if copy(h.Hash[:], hash) != len(h.Hash) || len(hash) != len(h.Hash) {
			return m, fmt.Errorf("signed head %d-%d: a hash of %d bytes", epoch, h.Seq, len(hash))
		}
		m.heads = append(m.heads, h)
	}
	return m, rows.Err()
}

// readYears reads the notes that are kept for the closings of years.
func (m *marks) readYears(ctx context.Context, q querier, version int) error {
	if version < 3 {
		return nil
	}
	rows, err := q.QueryContext(ctx, "SELECT seq, note FROM countersigned WHERE epoch = ? ORDER BY seq", m.head.Epoch)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var seq int64
		var text string
		if err := rows.Scan(&seq, &text); err != nil {
			return err
		}
		ack, err := readNote(text)
		if err != nil {
			return err
		}
		if ack.Position.Epoch != m.head.Epoch || ack.Position.Seq != seq {
			return fmt.Errorf("the note kept for a year's entry %d-%d is of another", m.head.Epoch, seq)
		}
		m.keep(ack)
	}
	return rows.Err()
}

// readAck reads the mark and its note, which must say the same: a mark set higher would
// leave entries unsent and unbounded.
func (m *marks) readAck(ctx context.Context, q querier) error {
	var text, at string
	var claims, minor int64
	rows, err := q.QueryContext(ctx, "SELECT seq, time, coalesce(claims, 0), coalesce(minor, 0), note FROM acks WHERE epoch = ?", m.head.Epoch)
	if err != nil {
		return err
	}
	defer rows.Close()
	if !rows.Next() {
		return errors.Join(rows.Err(), fmt.Errorf("the mark of what central holds of epoch %d is gone", m.head.Epoch))
	}
	if err := rows.Scan(&m.acked, &at, &claims, &minor, &text); err != nil {
		return err
	}
	if text == "" {
		return rows.Err()
	}
	ack, err := readNote(text)
	if err != nil {
		return err
	}
	if p := ack.Position; p.Epoch != m.head.Epoch || p.Seq != m.acked || timeText(ack.Time) != at || ack.AllowanceClaims != claims || ack.AllowanceMinor != minor {
		return fmt.Errorf("the mark of what central holds is not what central signed for entry %d-%d", p.Epoch, p.Seq)
	}
	m.keep(ack)
	m.noted = true
	return rows.Err()
}

// readNote reads the acknowledgement in a signed note, unverified.
func readNote(signed string) (wire.Ack, error) {
	n, err := note.Open([]byte(signed), note.VerifierList())
	var unverified *note.UnverifiedNoteError
	if errors.As(err, &unverified) {
		n, err = unverified.Note, nil
	}
	if err != nil {
		return wire.Ack{}, fmt.Errorf("the note of an acknowledgement: %w", err)
	}
	a, err := wire.ParseAck(n.Text)
	a.Note = signed
	return a, err
}

// wanted are the hashes that the chain must have, by entry.
func (m marks) wanted() (map[int64]Hash, error) {
	list := map[int64]Hash{}
	for _, h := range m.heads {
		list[h.Seq] = h.Hash
	}
	for _, a := range m.acks {
		seq := a.Position.Seq
		raw, err := hex.DecodeString(a.Position.Hash)
		if err != nil || len(raw) != sha256.Size {
			return nil, fmt.Errorf("central signed entry %d-%d with no hash", m.head.Epoch, seq)
		}
		if own, both := list[seq]; both && own != Hash(raw) {
			return nil, fmt.Errorf("different entries %d-%d were signed", m.head.Epoch, seq)
		}
		if seq > 0 { // there is no entry 0
			list[seq] = Hash(raw)
		}
	}
	return list, nil
}

// prove verifies what is kept of an epoch whose chain is whole.
func (m marks) prove(terminal string, k Keys) (EpochProof, error) {
	e := EpochProof{Head: m.head, Heads: len(m.heads)}
	var err error
	if e.Central, err = m.central(terminal, k.Central); err != nil {
		return e, err
	}
	e.Device, err = m.device(terminal, k.Device)
	return e, err
}

// central verifies central's notes.
func (m marks) central(terminal string, keys note.Verifiers) (Signed, error) {
	s := Signed{Seq: m.acked, Unsigned: m.acked > 0 && !m.noted}
	for _, a := range m.acks {
		if keys != nil {
			if err := verifyNote(a, terminal, keys); err != nil {
				return s, err
			}
		}
		if m.noted {
			s.Time, s.Verified = a.Time, keys != nil
		}
	}
	return s, nil
}

func verifyNote(a wire.Ack, terminal string, keys note.Verifiers) error {
	n, err := note.Open([]byte(a.Note), keys)
	if err != nil {
		return fmt.Errorf("%w: central's signature for entry %d-%d does not verify: the note was changed, or it is of a key that was not given: %w", ErrDamaged, a.Position.Epoch, a.Position.Seq, err)
	}
	if read, err := wire.ParseAck(n.Text); err != nil || read.Terminal != terminal {
		return fmt.Errorf("%w: central signed for terminal %.64q, not for %q: %w", ErrDamaged, read.Terminal, terminal, err)
	}
	return nil
}

// device verifies every signature of the device.
func (m marks) device(terminal string, keys []*ecdsa.PublicKey) (Signed, error) {
	var s Signed
	for _, h := range m.heads {
		s = Signed{Seq: h.Seq, Why: h.Why}
		if len(keys) == 0 {
			continue
		}
		if !h.verify(terminal, keys) {
			return s, fmt.Errorf("%w: the device's signature for entry %d-%d (%.20q) does not verify: entries up to there or it were changed, or it is of a key that was not given",
				ErrDamaged, h.Epoch, h.Seq, h.Why)
		}
		s.Verified = true
	}
	return s, nil
}

func (h SignedHead) verify(terminal string, keys []*ecdsa.PublicKey) bool {
	digest := sha256.Sum256([]byte(h.text(terminal)))
	for _, k := range keys {
		if ecdsa.VerifyASN1(k, digest[:], h.Signature) {
			return true
		}
	}
	return false
}
