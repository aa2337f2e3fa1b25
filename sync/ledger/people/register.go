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
	// ErrUnsent means that identities wait for central for too long.
	ErrUnsent = errors.New("central has not taken identities")
	// ErrUnsentTerm means that identities are beyond their term and central never took them.
	ErrUnsentTerm = errors.New("identities are beyond their term and central has not taken them")
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

	disk disk
}

// Register is the terminal's register of the identities it was asked for. The terminal
// writes it and cannot read it: only central's register key does. It is safe for
// concurrent use.
type Register struct {
	opt  RegisterOptions
	file *file
	link []byte     // HMAC key
	mu   sync.Mutex // one act at a time, and guards what follows

	changed chan struct{}     // closed at the next record
	handed  map[RecordID]bool // handed out since the opening, as the audit has it
}

// Sealed is a record as it is uploaded.
type Sealed struct {
	Record   RecordID `json:"record"`
	Terminal string   `json:"terminal"`
	Bytes    []byte   `json:"sealed"`
	Claims   []string `json:"claims,omitempty"` // the payments it is for, in clear: central finds it by them
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
	f, err := openFile(ctx, opt.Path, registerKind(), opt.Terminal, opt.Moment, opt.disk)
	if err != nil {
		return nil, fmt.Errorf("register %s: %w", opt.Path, err)
	}
	r := &Register{opt: opt, file: f, changed: make(chan struct{}), handed: map[RecordID]bool{}}
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
	err = r.file.write(ctx, func(tx *sql.Tx) error {
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
	if err != nil {
		return id, err
	}
	close(r.changed)
	r.changed = make(chan struct{})
	return id, nil
}

// Changed is closed when the next record is stored. Ask for it before Pending.
func (r *Register) Changed() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.changed
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

// Pending gives up to limit records that central has not acknowledged, oldest first. The
// audit has a line for those that were not handed out before since the opening: a
// terminal without a network would fill it otherwise.
func (r *Register) Pending(ctx context.Context, limit int) ([]Sealed, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	list, err := r.pending(ctx, limit)
	if err != nil {
		return nil, err
	}
	var fresh []RecordID
	for _, s := range list {
		if !r.handed[s.Record] {
			fresh = append(fresh, s.Record)
		}
	}
	if len(fresh) == 0 {
		return list, nil
	}
	err = r.file.write(ctx, func(tx *sql.Tx) error {
		return r.file.note(ctx, tx, "export", "system", fmt.Sprintf("%d records from %v", len(fresh), fresh[0]))
	})
	if err != nil {
		return nil, err
	}
	for _, id := range fresh {
		r.handed[id] = true
	}
	return list, nil
}

func (r *Register) pending(ctx context.Context, limit int) ([]Sealed, error) {
	rows, err := r.file.DB.QueryContext(ctx, `SELECT r.id, r.sealed, (SELECT group_concat(p.claim, ' ') FROM payments p WHERE p.record = r.number)
		FROM records r WHERE r.acknowledged = 0 ORDER BY r.number LIMIT ?`, limit)
	if err != nil {
		return nil, damage(err)
	}
	defer rows.Close()
	var list []Sealed
	for rows.Next() {
		s := Sealed{Terminal: r.opt.Terminal}
		var id []byte
		var claims string
		if err := rows.Scan(&id, &s.Bytes, &claims); err != nil || len(id) != len(s.Record) {
			return nil, errors.Join(ErrDamaged, err)
		}
		s.Record, s.Claims = RecordID(id), strings.Fields(claims)
		list = append(list, s)
	}
	return list, damage(rows.Err())
}

// Acknowledge notes that central has stored the records. What is unknown or was erased is passed over.
func (r *Register) Acknowledge(ctx context.Context, ids []RecordID) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	err := r.file.write(ctx, func(tx *sql.Tx) error {
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
	for _, id := range ids {
		if err == nil {
			delete(r.handed, id)
		}
	}
	return err
}

// Keep says how long records stay.
type Keep struct {
	Span time.Duration // in which payments to one person are linked
	Term time.Duration // after which a record must go
	// Grace is how long one that central never took stays beyond the term: it is the only
	// one there is. Zero on a terminal without a central.
	Grace time.Duration
}

func (k Keep) check() error {
	if k.Span < 0 || k.Term < k.Span || k.Grace < 0 {
		return fmt.Errorf("a term of %v, a span of %v and a grace of %v: want a term that is no shorter than the span, and no negative one", k.Term, k.Span, k.Grace)
	}
	return nil
}

// Erase removes what need not lie here any more: records that central has acknowledged
// and that are certainly older than the span in which payments are linked, and any that
// are certainly older than the term; those that central never took after the grace, each
// with a line of its own in the audit, erase-unsent. The bytes are overwritten in the file
// and its log. It tells how many records went. With no trusted time nothing is older than
// the terminal has been running, and so it waits.
func (r *Register) Erase(ctx context.Context, k Keep) (int, error) {
	if err := k.check(); err != nil {
		return 0, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	due, err := r.due(ctx, k)
	if err != nil || len(due) == 0 {
		return 0, err
	}
	err = r.file.write(ctx, func(tx *sql.Tx) error {
		for _, d := range due {
			if _, err := tx.ExecContext(ctx, "DELETE FROM payments WHERE record = (SELECT number FROM records WHERE id = ?)", d.id[:]); err != nil {
				return err
			}
			if _, err := tx.ExecContext(ctx, "DELETE FROM records WHERE id = ?", d.id[:]); err != nil {
				return err
			}
			act := "erase"
			if !d.acknowledged {
				act = "erase-unsent"
			}
			if err := r.file.note(ctx, tx, act, "system", d.id.String()); err != nil {
				return err
			}
		}
		return r.file.soil(ctx, tx)
	})
	if err != nil {
		return 0, err
	}
	for _, d := range due {
		delete(r.handed, d.id)
	}
	return len(due), r.file.scrub(ctx)
}

// aged is a record with its certain age.
type aged struct {
	id           RecordID
	old          time.Duration
	acknowledged bool
}

func (r *Register) due(ctx context.Context, k Keep) ([]aged, error) {
	list, err := r.ages(ctx)
	var due []aged
	for _, a := range list {
		if a.acknowledged && a.old > k.Span || a.old > k.Term+k.Grace {
			due = append(due, a)
		}
	}
	return due, err
}

func (r *Register) ages(ctx context.Context) ([]aged, error) {
	rows, err := r.file.DB.QueryContext(ctx, "SELECT id, boot, mono_ns, trusted, acknowledged FROM records")
	if err != nil {
		return nil, damage(err)
	}
	defer rows.Close()
	now := r.opt.Moment()
	var list []aged
	for rows.Next() {
		var id []byte
		var then ledger.Moment
		var trusted string
		var a aged
		if err := rows.Scan(&id, &then.Boot, &then.Mono, &trusted, &a.acknowledged); err != nil || len(id) != len(RecordID{}) {
			return nil, errors.Join(ErrDamaged, err)
		}
		if then.Trusted, err = parseTime(trusted); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
		}
		a.id, a.old = RecordID(id), age(now, then)
		list = append(list, a)
	}
	return list, damage(rows.Err())
}

// Overdue is nil while central takes the records. ErrUnsent means that one has waited for
// longer than after, ErrUnsentTerm that one is beyond its term, to be erased unread.
func (r *Register) Overdue(ctx context.Context, k Keep, after time.Duration) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	list, err := r.ages(ctx)
	if err != nil {
		return err
	}
	late, beyond := 0, 0
	for _, a := range list {
		switch {
		case a.acknowledged:
		case a.old > k.Term:
			beyond++
		case a.old > after:
			late++
		}
	}
	switch {
	case beyond > 0:
		return fmt.Errorf("%w: %d records, erased %v after it", ErrUnsentTerm, beyond, k.Grace)
	case late > 0:
		return fmt.Errorf("%w: %d records for more than %v", ErrUnsent, late, after)
	}
	return nil
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
