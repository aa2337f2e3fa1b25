package people

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"grattoir/sync/ledger"
	"grattoir/validate/money"
)

var (
	// ErrNoRegisterKey means that no identity can be recorded, so that the payment must not be made.
	ErrNoRegisterKey = errors.New("there is no register key: the winner cannot be identified here, so the prize is not paid")
	// ErrLinkKey means that the key which links the payments of a person is gone or another one.
	ErrLinkKey = errors.New("the key that links a person's payments does not fit the register")
)

// RegisterOptions open a Register.
type RegisterOptions struct {
	Path     string               // the link key lies beside it, as Path + ".key"
	Terminal string               // whose register it is
	Moment   func() ledger.Moment // asked for each act
	Key      RegisterKey          // central's; with the zero key nothing is recorded
	// NewLinkKey accepts that the link key was lost and makes another: what was recorded
	// before is then linked no more. It is a technician's decision.
	NewLinkKey bool
}

// Register is the terminal's register of the identities it was asked for. The terminal
// writes it and cannot read it: only central's register key does. It is safe for
// concurrent use.
type Register struct {
	opt  RegisterOptions
	file *file
	link []byte     // HMAC key
	mu   sync.Mutex // one act at a time
}

// Sealed is a record as it is uploaded.
type Sealed struct {
	Record   RecordID `json:"record"`
	Terminal string   `json:"terminal"`
	Bytes    []byte   `json:"sealed"`
}

// Linked is what one person was paid within a span, as far as identities were recorded.
type Linked struct {
	Sum    money.Amount
	Claims []string // oldest first
}

func registerKind() fileKind {
	return fileKind{name: "identities", id: 0x47524944, steps: [][]string{{
		`CREATE TABLE link(one INTEGER PRIMARY KEY CHECK(one = 1), proof BLOB NOT NULL) STRICT`,
		`CREATE TABLE records(number INTEGER PRIMARY KEY AUTOINCREMENT, id BLOB NOT NULL UNIQUE, document BLOB NOT NULL, name BLOB NOT NULL,
			boot TEXT NOT NULL, mono_ns INTEGER NOT NULL, trusted TEXT NOT NULL, sealed BLOB NOT NULL, acknowledged INTEGER NOT NULL DEFAULT 0) STRICT`,
		`CREATE TABLE payments(record INTEGER NOT NULL REFERENCES records(number), claim TEXT NOT NULL, amount INTEGER NOT NULL CHECK(amount > 0),
			currency TEXT NOT NULL, PRIMARY KEY(record, claim)) STRICT, WITHOUT ROWID`,
	}}}
}

// OpenRegister opens the register, creating it and its link key when there is none.
// The errors are ErrInUse, ErrDamaged, ErrLinkKey and ledger.ErrMode.
func OpenRegister(ctx context.Context, opt RegisterOptions) (*Register, error) {
	f, err := openFile(ctx, opt.Path, registerKind(), opt.Terminal, opt.Moment)
	if err != nil {
		return nil, fmt.Errorf("register %s: %w", opt.Path, err)
	}
	r := &Register{opt: opt, file: f}
	if err := r.loadLinkKey(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("register %s: %w", opt.Path, err), f.Close())
	}
	return r, nil
}

// Close closes the register.
func (r *Register) Close() error { return r.file.Close() }

const linkKeyPrefix = "GRATTOIR+LINK+KEY+V1+"

// loadLinkKey reads the key and holds it against the register, or makes both anew.
func (r *Register) loadLinkKey(ctx context.Context) error {
	path := r.opt.Path + ".key"
	var stored []byte
	err := r.file.DB.QueryRowContext(ctx, "SELECT proof FROM link").Scan(&stored)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return damage(err)
	}
	key, err := readLinkKey(path)
	missing := errors.Is(err, os.ErrNotExist)
	switch {
	case err != nil && !missing && !(r.opt.NewLinkKey && errors.Is(err, ErrLinkKey)):
		return err
	case err == nil && hmac.Equal(stored, linkProof(key)):
		r.link = key
		return nil
	case stored != nil && !r.opt.NewLinkKey:
		return fmt.Errorf("%w: put %s back from its copy; only if it is lost for good, open with a new one: earlier payments are then linked to nobody", ErrLinkKey, path)
	}
	if !missing { // of a start that was cut before it, or of another register
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	if key, err = makeLinkKey(path); err != nil {
		return err
	}
	r.link = key
	return r.file.write(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, "INSERT INTO link(one, proof) VALUES(1, ?) ON CONFLICT(one) DO UPDATE SET proof = excluded.proof", linkProof(key)); err != nil {
			return err
		}
		return r.file.note(ctx, tx, "key", "system", map[bool]string{false: "first", true: "another"}[stored != nil])
	})
}

func linkProof(key []byte) []byte {
	m := hmac.New(sha256.New, key)
	m.Write([]byte("grattoir link key v1"))
	return m.Sum(nil)[:8]
}

func readLinkKey(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return nil, fmt.Errorf("%w: %s has mode %04o; find out who may have read it, then: chmod 600 %s", ledger.ErrMode, path, mode, path)
	}
	text, err := io.ReadAll(io.LimitReader(f, 256))
	if err != nil {
		return nil, err
	}
	rest, ok := strings.CutPrefix(strings.TrimSpace(string(text)), linkKeyPrefix)
	key, err := base64.StdEncoding.DecodeString(rest)
	if !ok || err != nil || len(key) != sha256.Size {
		return nil, fmt.Errorf("%w: %s is no link key", ErrLinkKey, path)
	}
	return key, nil
}

// makeLinkKey writes a new key: whole, durable and for its owner only, or not at all.
func makeLinkKey(path string) ([]byte, error) {
	key := make([]byte, sha256.Size)
	_, _ = rand.Read(key)
	f, err := os.CreateTemp(filepath.Dir(path), ".link-*") // mode 0600
	if err != nil {
		return nil, err
	}
	defer os.Remove(f.Name())
	_, err = f.WriteString(linkKeyPrefix + base64.StdEncoding.EncodeToString(key) + "\n")
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return nil, err
	}
	return key, errors.Join(os.Link(f.Name(), path), syncDir(filepath.Dir(path)))
}

// Person makes an identity unreadable, to ask Linked. The error is ErrIdentity.
func (r *Register) Person(i Identity) (Person, error) {
	if err := i.Validate(); err != nil {
		return Person{}, err
	}
	return personOf(r.link, i), nil
}

// Record stores a winner's identity for the payments it was asked for, before they are
// made. It may be repeated: linking counts a claim once. The errors are ErrNoRegisterKey,
// ErrIdentity and ErrNotWritable; on any of them the payment is not made.
func (r *Register) Record(ctx context.Context, operator string, i Identity, payments []Payment) (RecordID, error) {
	if r.opt.Key.IsZero() {
		return RecordID{}, ErrNoRegisterKey
	}
	if err := errors.Join(i.Validate(), checkPayments(payments)); err != nil {
		return RecordID{}, err
	}
	var id RecordID
	_, _ = rand.Read(id[:])
	m := r.opt.Moment()
	sealed, err := r.opt.Key.seal(Filing{filingVersion, id, r.opt.Terminal, operator, timeText(m.Device), timeText(m.Trusted), i, payments})
	if err != nil {
		return RecordID{}, err
	}
	p := personOf(r.link, i)
	r.mu.Lock()
	defer r.mu.Unlock()
	return id, r.file.write(ctx, func(tx *sql.Tx) error {
		var number int64
		if err := tx.QueryRowContext(ctx, "INSERT INTO records(id, document, name, boot, mono_ns, trusted, sealed) VALUES(?, ?, ?, ?, ?, ?, ?) RETURNING number",
			id[:], p.document[:], p.name[:], m.Boot, m.Mono, timeText(m.Trusted), sealed).Scan(&number); err != nil {
			return err
		}
		for _, pay := range payments {
			if _, err := tx.ExecContext(ctx, "INSERT INTO payments(record, claim, amount, currency) VALUES(?, ?, ?, ?)", number, pay.Claim, int64(pay.Amount), pay.Currency); err != nil {
				return err
			}
		}
		return r.file.note(ctx, tx, "record", operator, id.String())
	})
}

// maxPayments bounds one record: a counter pays ten tickets at once.
const maxPayments = 100

func checkPayments(list []Payment) error {
	if len(list) == 0 || len(list) > maxPayments {
		return fmt.Errorf("an identity for %d payments: want 1 to %d", len(list), maxPayments)
	}
	seen := map[string]bool{}
	for _, p := range list {
		raw, err := hex.DecodeString(p.Claim)
		if err != nil || len(raw) != 16 || hex.EncodeToString(raw) != p.Claim || seen[p.Claim] || p.Amount <= 0 || p.Stake < 0 || len(p.Currency) != 3 || p.Currency != list[0].Currency {
			return fmt.Errorf("payment %.32q of %d minor units: want a claim's id once, an amount, and one currency for all", p.Claim, p.Amount)
		}
		seen[p.Claim] = true
	}
	return nil
}

// age is how old a record certainly is. Within its boot that is known; after a restart
// it is the time since this boot or, where both moments had a trusted time, what lies
// between the two. The device's clock says nothing here.
func age(now, then ledger.Moment) time.Duration {
	if now.Boot == then.Boot && now.Mono >= then.Mono {
		return now.Mono - then.Mono
	}
	old := now.Mono
	if !now.Trusted.IsZero() && !then.Trusted.IsZero() {
		old = max(old, now.Trusted.Sub(then.Trusted))
	}
	return old
}

// Linked sums what the person was paid here within the span, in one currency. Whatever
// is not certainly older counts. Only payments with a recorded identity can be linked.
func (r *Register) Linked(ctx context.Context, operator string, p Person, currency string, span time.Duration) (Linked, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.opt.Moment()
	var out Linked
	err := r.file.write(ctx, func(tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx, `SELECT r.boot, r.mono_ns, r.trusted, p.claim, p.amount FROM records r JOIN payments p ON p.record = r.number
			WHERE (r.document = ? OR r.name = ?) AND p.currency = ? ORDER BY r.number, p.claim`, p.document[:], p.name[:], currency)
		if err != nil {
			return err
		}
		defer rows.Close()
		seen := map[string]bool{}
		for rows.Next() {
			var then ledger.Moment
			var trusted, claim string
			var amount money.Amount
			if err := rows.Scan(&then.Boot, &then.Mono, &trusted, &claim, &amount); err != nil {
				return err
			}
			if then.Trusted, err = parseTime(trusted); err != nil {
				return fmt.Errorf("%w: %w", ErrDamaged, err)
			}
			if seen[claim] || age(now, then) > span {
				continue
			}
			seen[claim] = true
			out.Claims = append(out.Claims, claim)
			if out.Sum, err = out.Sum.Add(amount); err != nil {
				return err
			}
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil {
			return err
		}
		return r.file.note(ctx, tx, "look", operator, fmt.Sprintf("%d claims", len(out.Claims)))
	})
	if err != nil {
		return Linked{}, err
	}
	return out, nil
}

// Pending gives up to limit records that central has not acknowledged, oldest first.
func (r *Register) Pending(ctx context.Context, limit int) ([]Sealed, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []Sealed
	err := r.file.write(ctx, func(tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx, "SELECT id, sealed FROM records WHERE acknowledged = 0 ORDER BY number LIMIT ?", limit)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var id []byte
			s := Sealed{Terminal: r.opt.Terminal}
			if err := rows.Scan(&id, &s.Bytes); err != nil {
				return err
			}
			copy(s.Record[:], id)
			list = append(list, s)
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil || len(list) == 0 {
			return err
		}
		return r.file.note(ctx, tx, "export", "system", fmt.Sprintf("%d records from %v", len(list), list[0].Record))
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// Acknowledge notes that central has stored the records. What is unknown or was erased is passed over.
func (r *Register) Acknowledge(ctx context.Context, ids []RecordID) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.file.write(ctx, func(tx *sql.Tx) error {
		for _, id := range ids {
			res, err := tx.ExecContext(ctx, "UPDATE records SET acknowledged = 1 WHERE id = ? AND acknowledged = 0", id[:])
			if err != nil {
				return err
			}
			switch n, err := res.RowsAffected(); {
			case err != nil:
				return err
			case n == 0:
				continue
			}
			if err := r.file.note(ctx, tx, "acknowledged", "system", id.String()); err != nil {
				return err
			}
		}
		return nil
	})
}

// Erase removes what need not lie here any more: records that central has acknowledged
// and that are certainly older than the span in which payments are linked, and any that
// are certainly older than the term. The bytes are overwritten in the file and its log.
// It tells how many records went. With no trusted time nothing is older than the
// terminal has been running, and so it waits.
func (r *Register) Erase(ctx context.Context, span, term time.Duration) (int, error) {
	if term < span || span < 0 {
		return 0, fmt.Errorf("a term of %v and a span of %v: want a term that is no shorter", term, span)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	due, err := r.due(ctx, span, term)
	if err != nil || len(due) == 0 {
		return 0, err
	}
	err = r.file.write(ctx, func(tx *sql.Tx) error {
		for _, id := range due {
			if _, err := tx.ExecContext(ctx, "DELETE FROM payments WHERE record = (SELECT number FROM records WHERE id = ?)", id[:]); err != nil {
				return err
			}
			if _, err := tx.ExecContext(ctx, "DELETE FROM records WHERE id = ?", id[:]); err != nil {
				return err
			}
			if err := r.file.note(ctx, tx, "erase", "system", id.String()); err != nil {
				return err
			}
		}
		return r.file.soil(ctx, tx)
	})
	if err != nil {
		return 0, err
	}
	return len(due), r.file.scrub(ctx)
}

func (r *Register) due(ctx context.Context, span, term time.Duration) ([]RecordID, error) {
	rows, err := r.file.DB.QueryContext(ctx, "SELECT id, boot, mono_ns, trusted, acknowledged FROM records")
	if err != nil {
		return nil, damage(err)
	}
	defer rows.Close()
	now := r.opt.Moment()
	var due []RecordID
	for rows.Next() {
		var id []byte
		var then ledger.Moment
		var trusted string
		var acknowledged bool
		if err := rows.Scan(&id, &then.Boot, &then.Mono, &trusted, &acknowledged); err != nil || len(id) != len(RecordID{}) {
			return nil, errors.Join(ErrDamaged, err)
		}
		if then.Trusted, err = parseTime(trusted); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
		}
		if old := age(now, then); acknowledged && old > span || old > term {
			due = append(due, RecordID(id))
		}
	}
	return due, rows.Err()
}

// Count tells how many records lie here, and how many of them central has not acknowledged.
func (r *Register) Count(ctx context.Context) (all, pending int, err error) {
	err = r.file.DB.QueryRowContext(ctx, "SELECT count(*), coalesce(sum(acknowledged = 0), 0) FROM records").Scan(&all, &pending)
	return all, pending, damage(err)
}

// Verify walks the audit's chain. The error is ErrDamaged.
func (r *Register) Verify(ctx context.Context) error { return r.file.verify(ctx) }

// Audit hands every line to each, oldest first. Each must not call the Register.
func (r *Register) Audit(ctx context.Context, each func(AuditLine) error) error {
	return r.file.lines(ctx, each)
}

// AuditHead is how far the audit has come, for the journal to note; line 0 is none yet.
func (r *Register) AuditHead(ctx context.Context) (ledger.AuditHead, error) { return r.file.head(ctx) }
