package people

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"grattoir/sync/ledger"
)

// AuditLine is one act, kept as one line of JSON that is written once and hashed as
// those bytes. Lines are chained: each carries the SHA-256 of the one before. Whoever
// changes, removes or inserts a line must write all later ones again, and lines cut off
// at the end show only against a head that was noted elsewhere: the ledger's journal notes
// it in audit-heads entries, and CheckAudit holds the audit against them.
type AuditLine struct {
	Version  int    `json:"v"`
	Terminal string `json:"terminal"`
	Seq      int64  `json:"seq"` // 1 for the first
	Boot     string `json:"boot"`
	MonoMS   int64  `json:"mono_ms"`  // since that boot
	Time     string `json:"time"`     // device time, a hint
	Trusted  string `json:"trusted"`  // newest trusted time, "" for none
	Act      string `json:"act"`      // operator-add, pin, unlock, suspend, resume, refused, sign-on, sign-off, end-session, approve ...; record, look, export, acknowledged, erase, erase-unsent, key
	Operator string `json:"operator"` // who: an operator's id, "owner", "system", or "?" for an id that does not exist
	About    string `json:"about"`    // whom or what; never a PIN, never anything that tells who a winner is
	Prev     string `json:"prev"`     // 64 hexadecimal digits, zeros before the first
}

const (
	auditVersion = 1
	maxAuditLine = 4 << 10
	maxAbout     = 200
)

func (a AuditLine) encode() ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(a); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// parseAuditLine accepts only what encode writes.
func parseAuditLine(line []byte) (AuditLine, error) {
	var a AuditLine
	if len(line) > maxAuditLine {
		return a, fmt.Errorf("%d bytes, at most %d", len(line), maxAuditLine)
	}
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&a); err != nil {
		return a, err
	}
	if a.Version != auditVersion {
		return a, fmt.Errorf("version %d, this program knows %d", a.Version, auditVersion)
	}
	if again, err := a.encode(); err != nil || !bytes.Equal(again, line) {
		return a, errors.New("not in the form this version writes")
	}
	return a, nil
}

// note appends a line in the transaction of the act itself.
func (f *file) note(ctx context.Context, tx *sql.Tx, act, operator, about string) error {
	var seq int64
	prev := make([]byte, 32)
	err := tx.QueryRowContext(ctx, "SELECT seq, hash FROM audit ORDER BY seq DESC LIMIT 1").Scan(&seq, &prev)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	if len(about) > maxAbout {
		return fmt.Errorf("audit of %s: %d bytes about it, at most %d", act, len(about), maxAbout)
	}
	m := f.moment()
	line, err := AuditLine{auditVersion, f.terminal, seq + 1, m.Boot, m.Mono.Milliseconds(), timeText(m.Device), timeText(m.Trusted),
		act, operator, about, hex.EncodeToString(prev)}.encode()
	if err != nil {
		return err
	}
	hash := hashLine(line)
	_, err = tx.ExecContext(ctx, "INSERT INTO audit(seq, line, hash) VALUES(?, ?, ?)", seq+1, string(line), hash[:])
	return err
}

// tail is how many of the newest lines are looked at when a file is opened: a counter
// must be ready soon, and Verify walks them all.
const tail = 1000

// walk follows the chain after the line numbered from, and hands the lines to each,
// which may be nil.
func walk(ctx context.Context, q querier, terminal string, from int64, each func(AuditLine) error) error {
	prev := make([]byte, 32)
	if from > 0 {
		if err := q.QueryRowContext(ctx, "SELECT hash FROM audit WHERE seq = ?", from).Scan(&prev); err != nil {
			return fmt.Errorf("%w: audit line %d: %w", ErrDamaged, from, err)
		}
	}
	rows, err := q.QueryContext(ctx, "SELECT seq, line, hash FROM audit WHERE seq > ? ORDER BY seq", from)
	if err != nil {
		return damage(err)
	}
	defer rows.Close()
	for want := from + 1; rows.Next(); want++ {
		var seq int64
		var line, hash []byte
		if err := rows.Scan(&seq, &line, &hash); err != nil {
			return fmt.Errorf("%w: audit: %w", ErrDamaged, err)
		}
		a, err := parseAuditLine(line)
		if err != nil {
			return fmt.Errorf("%w: audit line %d: %w", ErrDamaged, seq, err)
		}
		sum := hashLine(line)
		if seq != want || a.Seq != want || a.Terminal != terminal || a.Prev != hex.EncodeToString(prev) || !bytes.Equal(hash, sum[:]) {
			return fmt.Errorf("%w: the audit's chain breaks at line %d", ErrDamaged, want)
		}
		prev = hash
		if each != nil {
			if err := each(a); err != nil {
				return err
			}
		}
	}
	return damage(rows.Err())
}

func (f *file) verify(ctx context.Context) error { return walk(ctx, f.DB, f.terminal, 0, nil) }

func (f *file) lines(ctx context.Context, each func(AuditLine) error) error {
	return walk(ctx, f.DB, f.terminal, 0, each)
}

// head is how far the audit has come; line 0 is none yet.
func (f *file) head(ctx context.Context) (ledger.AuditHead, error) {
	h := ledger.AuditHead{Audit: f.kind.name}
	var hash []byte
	err := f.DB.QueryRowContext(ctx, "SELECT seq, hash FROM audit ORDER BY seq DESC LIMIT 1").Scan(&h.Seq, &hash)
	if errors.Is(err, sql.ErrNoRows) {
		return h, nil
	}
	h.Hash = hex.EncodeToString(hash)
	return h, damage(err)
}

// AuditCheck is what CheckAudit found.
type AuditCheck struct {
	Audit string // operators or identities
	Lines int64  // in the file
	Noted int64  // the highest line that the journal notes and the file has, 0 for none
	// Broken is nil when the audit's chain is whole and goes through every line that the
	// journal notes; else what was changed or cut off.
	Broken error
}

// CheckAudit holds the audit in the operators' file or the register at path against what
// the journal of the terminal notes of it. The file is looked at only, whether or not a
// program has it open. The lines above the newest noted one could have been cut off. The
// error is of reading the file; an audit that does not fit is Broken, an ErrDamaged.
func CheckAudit(ctx context.Context, path, terminal string, noted []ledger.NotedAudit) (AuditCheck, error) {
	var c AuditCheck
	b, err := ledger.InspectBeside(ctx, path)
	if err != nil {
		return c, err
	}
	defer b.Close()
	var id int
	if err := b.DB.QueryRowContext(ctx, "SELECT application_id FROM pragma_application_id").Scan(&id); err != nil {
		return c, damage(err)
	}
	for _, k := range []fileKind{staffKind(), registerKind()} {
		if k.id == id {
			c.Audit = k.name
		}
	}
	if c.Audit == "" {
		return c, fmt.Errorf("%w: %s: neither operators nor identities (application id %#x)", ErrDamaged, path, id)
	}
	want := map[int64]ledger.NotedAudit{}
	for _, n := range noted {
		if n.Audit != c.Audit {
			continue
		}
		if was, two := want[n.Seq]; two && was.Hash != n.Hash {
			c.Broken = fmt.Errorf("%w: entries %v and %v of the journal note different lines %d of the audit: the file was put back to an earlier state between them", ErrDamaged, was.Entry, n.Entry, n.Seq)
		}
		want[n.Seq] = n
	}
	// What an audit line carries of the one before is checked by walk; here, what the journal does.
	err = walk(ctx, b.DB, terminal, 0, func(a AuditLine) error {
		c.Lines = a.Seq
		n, is := want[a.Seq]
		if !is {
			return nil
		}
		delete(want, a.Seq)
		line, err := a.encode()
		if err != nil {
			return err
		}
		if own := hashLine(line); hex.EncodeToString(own[:]) != n.Hash {
			return fmt.Errorf("%w: line %d is not the one that entry %v of the journal notes: it was written anew, or the file was put back to an earlier state", ErrDamaged, a.Seq, n.Entry)
		}
		c.Noted = a.Seq
		return nil
	})
	switch {
	case errors.Is(err, ErrDamaged):
		c.Broken = err
	case err != nil:
		return c, err
	case c.Broken == nil:
		c.Broken = cutOff(c, want)
	}
	return c, nil
}

// cutOff is the error of lines that the journal notes and the file lacks, nil for none.
func cutOff(c AuditCheck, missing map[int64]ledger.NotedAudit) error {
	var last ledger.NotedAudit
	for _, n := range missing {
		if n.Seq > last.Seq {
			last = n
		}
	}
	if last.Seq == 0 {
		return nil
	}
	return fmt.Errorf("%w: the audit ends at line %d, entry %v of the journal notes line %d: its end was cut off", ErrDamaged, c.Lines, last.Entry, last.Seq)
}
