// Package ledger is the terminal's record of money. A row is added before paper is
// printed and is never changed or removed; only its printed and acknowledged marks
// move, in tables beside the chain. One process has it open at a time, and writes
// through one connection. It never decides and never prints. Start at Record.
package ledger

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mattn/go-sqlite3"

	"grattoir/validate"
	"grattoir/validate/money"
	"grattoir/validate/ticket"
)

// Moment is what the terminal knows of the time when an entry is written.
type Moment struct {
	Boot    string        // boot id
	Mono    time.Duration // since that boot
	Device  time.Time     // the device's clock, a hint
	Trusted time.Time     // newest trusted time, zero for none
}

// Options open a ledger.
type Options struct {
	Path     string
	Terminal string        // whose ledger it is; another name than the file's is refused
	Moment   func() Moment // asked once for each entry
	ClaimKey ClaimKey      // central's; zero before it is known
	// Sign signs a head with the device's key, ECDSA over SHA-256 in ASN.1. Nil signs
	// nothing, which is for terminals alone.
	Sign func(text []byte) (signature []byte, err error)
	// Audits gives the heads of the audits that lie beside the ledger, as far as they can
	// be read; nil for none. They are noted before the journal's end is signed, in Close too,
	// so their files are closed after the ledger. It must not call the ledger.
	Audits func(ctx context.Context) []AuditHead
	// Allowance bounds the claims above central's last acknowledgement, until central
	// sends another with an acknowledgement.
	Allowance Allowance
	// Reserve is the free space in bytes below which nothing is paid, so that what was
	// paid can still be marked, read and sent.
	Reserve int64
	// Zone is the shop's, for the names of closings; nil is UTC.
	Zone *time.Location
	// AuditFirst keeps payments until Audit has found every claim: for a program that
	// calls it.
	AuditFirst bool

	hooks hooks
}

// Allowance bounds what may be paid without central's acknowledgement. Zero means no
// bound, which is for terminals that have no central.
type Allowance struct {
	Claims int64
	Money  money.Amount
}

var (
	// ErrPaid means that the ticket has a claim of this round already.
	ErrPaid = errors.New("the ticket is paid already")
	// ErrAllowance means that the claim would exceed the allowance.
	ErrAllowance = errors.New("the allowance is spent")
	// ErrLocked means that another process has the ledger open.
	ErrLocked = errors.New("another process has the ledger open")
	// ErrDamaged means that the file does not hold what it should.
	ErrDamaged = errors.New("the ledger is damaged")
	// ErrGone means that the file is empty or away, though this terminal had a ledger. It is
	// an ErrDamaged too.
	ErrGone = fmt.Errorf("%w: it is empty or gone, though this terminal had one", ErrDamaged)
	// ErrNotWritable means that no claim can be committed now.
	ErrNotWritable = errors.New("the ledger cannot commit")
	// ErrRound means that the ticket is at another round.
	ErrRound = errors.New("the ticket is at another round")
	// ErrTraining means that training is on, in which nothing is paid.
	ErrTraining = errors.New("training is on: nothing is paid")
	// ErrNotFound means that the ledger has no such entry.
	ErrNotFound = errors.New("no such entry")
)

// Ledger is an open ledger. It is safe for concurrent use.
type Ledger struct {
	opt  Options
	db   *sql.DB // the one connection that writes
	read *sql.DB // readers see what is committed, and need not wait while a commit is synced
	lock *lockFile
	// audits is held, before mu, from asking for the audits' heads to noting them.
	audits sync.Mutex
	mu     sync.Mutex // one writer; contexts can leave a mutex's queue no faster than SQLite's, so keep acts short
	epoch  int64
	seq    int64
	prev   Hash

	changed chan struct{}   // closed at the next entry
	intents chan struct{}   // closed at the next change of an intent
	counts  validate.Unsent // of the current epoch
	// waiting are the entries of the current epoch whose slip waits, with their receipts
	// as they were committed; one that a print mark has passed since is nil, and read again.
	waiting map[int64]*validate.Receipt

	allowance *Allowance // central's, nil before its first acknowledgement
	training  bool

	prepared prepared

	audited atomic.Bool
	inDoubt bool                  // a commit ended in an error: the end of the chain is not known
	sick    atomic.Pointer[error] // why nothing is paid any more, see seen
	file    os.FileInfo           // the file that was opened

	looks lookBuffer
}

// Head is the end of the journal.
type Head struct {
	Epoch int64
	Seq   int64 // 0 before the first entry
	Hash  Hash
}

// Head gives the newest entry's place and hash.
func (l *Ledger) Head() Head {
	l.mu.Lock()
	defer l.mu.Unlock()
	return Head{l.epoch, l.seq, l.prev}
}

// Writable is nil when a claim could be committed now. TroubleOf classes its error.
func (l *Ledger) Writable() error {
	if err := l.sickness(); err != nil {
		return err
	}
	disk := l.onDisk() // it often explains the doubt
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := errors.Join(disk, l.certain(), l.held()); err != nil {
		return err
	}
	if l.training {
		return ErrTraining
	}
	return nil
}

// Record commits a claim in one transaction: the ticket is still unpaid in this round,
// the claim has its right, the allowance is not exceeded (what central has allowed needs
// none), the entry is appended to the chain, the print job is stored as sending. When it
// returns nil the claim is on disk, and only then may anything say that the ticket is
// paid. Recording the same claim id again returns the first receipt. The errors are
// ErrPaid, with the receipt of the claim that stands in the way, ErrRight, ErrAllowance,
// ErrRound, ErrTraining and ErrNotWritable.
func (l *Ledger) Record(ctx context.Context, c validate.Claim) (validate.Receipt, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	opening, err := l.opening(c)
	if err != nil {
		return validate.Receipt{}, err
	}
	slip, err := encodeJSON(c.Slip)
	if err != nil {
		return validate.Receipt{}, err
	}
	if l.training {
		return validate.Receipt{}, ErrTraining
	}
	var r validate.Receipt
	before := l.seq
	err = l.write(ctx, func(ctx context.Context, w *writing) error {
		var err error
		if r, err = l.standing(ctx, w.tx, c); err != nil || r.ID != "" {
			return err
		}
		if err := w.right(ctx, c); err != nil {
			return err
		}
		if u := l.counts; c.Right != validate.RightGrant && !l.bound().allows(u, c.Amount) {
			return fmt.Errorf("%w: %d claims of %d minor units above the acknowledged entry %d", ErrAllowance, u.Claims, u.Money, u.Acked)
		}
		if err := w.book(ctx, c); err != nil {
			return err
		}
		if r, err = w.claim(ctx, c, opening, slip); err != nil {
			return err
		}
		return w.used(ctx, c)
	})
	if errors.Is(err, ErrPaid) {
		return r, err // the claim that stands in the way
	}
	if err != nil {
		return validate.Receipt{}, err
	}
	if l.seq != before { // appended, not found
		committed := r // as the file would give it: the secret is in the entry alone, sealed
		committed.Secret, committed.FirstCheck, committed.Right, committed.Risk = ticket.Code{}, r.FirstCheck.Truncate(time.Millisecond), "", nil
		l.waiting[l.seq] = &committed
		l.counts.Claims++
		l.counts.Money += c.Amount
		if c.Right == validate.RightGrant || c.Right == validate.RightRisk {
			l.intentChanged()
		}
	}
	return r, nil
}

// claim appends the entry of a claim with its ticket's row and its print job.
func (w *writing) claim(ctx context.Context, c validate.Claim, opening, slip []byte) (validate.Receipt, error) {
	body := claimBody(c, opening)
	if err := w.tx.QueryRowContext(ctx, "SELECT cursor FROM link").Scan(&body.Feed); err != nil {
		return validate.Receipt{}, fmt.Errorf("%w: %w", ErrNotWritable, w.l.seen(err))
	}
	n, m, err := w.append(ctx, KindClaim, body)
	if err != nil {
		return validate.Receipt{}, err
	}
	if _, err := w.exec(ctx, "INSERT INTO claims(block, pack, ticket, round, epoch, seq) VALUES(?, ?, ?, ?, ?, ?)",
		c.Ticket.Block[:], c.Ticket.Pack, c.Ticket.Number, c.Round, n.Epoch, n.Seq); err != nil {
		return validate.Receipt{}, err
	}
	_, err = w.exec(ctx, "INSERT INTO prints(epoch, seq, state, copies, amount, slip) VALUES(?, ?, ?, 1, ?, ?)", n.Epoch, n.Seq, validate.Sending, int64(c.Amount), slip)
	return validate.Receipt{Claim: c, Number: n, Hash: w.prev.String(), Terminal: w.l.opt.Terminal, At: m.Device, Trusted: m.Trusted, Print: validate.Sending, Copies: 1}, err
}

// doubt is called when a commit returned an error. A full disk is none: SQLite has
// rolled back, and the head read again proves it. After anything else the commit may
// have reached the disk, or may be readable and not durable: the next Open tells, and
// until then this process appends nothing, so that no number gets two bodies.
func (l *Ledger) doubt(ctx context.Context, err error) {
	l.inDoubt = true
	var code sqlite3.Error
	if !errors.As(err, &code) || code.Code != sqlite3.ErrFull && code.Code != sqlite3.ErrBusy {
		return
	}
	var now int64
	if err := l.db.QueryRowContext(ctx, "SELECT coalesce(max(seq), 0) FROM entries WHERE epoch = ?", l.epoch).Scan(&now); err == nil && now == l.seq {
		l.inDoubt = false
	}
}

func (l *Ledger) opening(c validate.Claim) ([]byte, error) {
	if err := errors.Join(l.sickness(), l.certain(), l.held()); err != nil {
		return nil, err
	}
	if len(c.ID) != 32 || c.Ticket.Block == (validate.BlockID{}) || c.Tier < 1 || c.Amount <= 0 {
		return nil, fmt.Errorf("claim %q of tier %d and %d minor units: not a whole claim", c.ID, c.Tier, c.Amount)
	}
	return l.prepared.take(c)
}

// standing looks for a claim of the same ticket and round. A claim with the same id is
// the answer. A round that no accepted reversal opened would be a second payment.
func (l *Ledger) standing(ctx context.Context, tx *sql.Tx, c validate.Claim) (validate.Receipt, error) {
	if any, err := l.claimed(ctx, tx, c.Ticket); err != nil {
		return validate.Receipt{}, fmt.Errorf("%w: %w", ErrNotWritable, err)
	} else if !any {
		return validate.Receipt{}, mayClaimRound(ctx, tx, c)
	}
	r, err := l.receipt(ctx, tx, ofTicket+" AND c.round = ?", c.Ticket.Block[:], c.Ticket.Pack, c.Ticket.Number, c.Round)
	switch {
	case errors.Is(err, ErrNotFound):
		return validate.Receipt{}, mayClaimRound(ctx, tx, c)
	case err != nil:
		return validate.Receipt{}, fmt.Errorf("%w: %w", ErrNotWritable, err)
	case r.ID == c.ID:
		return r, nil
	}
	return r, fmt.Errorf("%w: entry %v", ErrPaid, r.Number)
}

func (a Allowance) allows(u validate.Unsent, amount money.Amount) bool {
	if a.Claims > 0 && u.Claims+1 > a.Claims {
		return false
	}
	sum, err := u.Money.Add(amount)
	return a.Money == 0 || (err == nil && sum <= a.Money)
}

// Allows tells whether a claim of amount fits the allowance now.
func (l *Ledger) Allows(ctx context.Context, amount money.Amount) (bool, error) {
	u, err := l.Unsent(ctx)
	return err == nil && l.Allowance().allows(u, amount), err
}

// line makes the line of an entry that follows prev.
func (l *Ledger) line(seq int64, prev Hash, kind Kind, body []byte) ([]byte, Moment, error) {
	m := l.opt.Moment()
	m.Device = m.Device.UTC().Truncate(time.Millisecond)
	if y := m.Device.Year(); y < 0 || y > 9999 {
		m.Device = time.Time{} // a clock gone wild; the time is a hint, the entry is not
	}
	e := Entry{Version: EntryVersion, Terminal: l.opt.Terminal, Epoch: l.epoch, Seq: seq, Boot: m.Boot, MonoMS: m.Mono.Milliseconds(),
		Time: timeText(m.Device), Trusted: timeText(m.Trusted), Kind: kind, Body: body, Prev: prev.String()}
	line, err := e.encode()
	if err == nil && len(line) > maxLine {
		err = fmt.Errorf("an entry of %d bytes, at most %d", len(line), maxLine)
	}
	return line, m, err
}

// Unsent counts the claims above the acknowledged entry. The count is kept, not
// made each time: a terminal may have paid for months without being acknowledged.
func (l *Ledger) Unsent(context.Context) (validate.Unsent, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.counts, nil
}

// loadCounts counts the unsent claims and the slips that wait, when what the ledger holds
// was read anew.
func (l *Ledger) loadCounts(ctx context.Context) error {
	u, err := l.unsent(ctx, l.db)
	if err != nil {
		return err
	}
	rows, err := l.db.QueryContext(ctx, "SELECT seq FROM prints WHERE epoch = ? AND state IN ('sending', 'held')", l.epoch)
	if err != nil {
		return err
	}
	defer rows.Close()
	waiting := map[int64]*validate.Receipt{}
	for rows.Next() {
		var seq int64
		if err := rows.Scan(&seq); err != nil {
			return err
		}
		waiting[seq] = nil
	}
	l.counts, l.waiting = u, waiting
	return rows.Err()
}

type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

func (l *Ledger) unsent(ctx context.Context, q querier) (validate.Unsent, error) {
	var u validate.Unsent
	var oldest sql.NullString
	err := q.QueryRowContext(ctx, `SELECT a.seq, count(p.seq), coalesce(sum(p.amount), 0),
		(SELECT json_extract(line, '$.time') FROM entries e WHERE e.epoch = a.epoch AND e.seq > a.seq ORDER BY e.seq LIMIT 1)
		FROM acks a LEFT JOIN prints p ON p.epoch = a.epoch AND p.seq > a.seq WHERE a.epoch = ?`, l.epoch).Scan(&u.Acked, &u.Claims, &u.Money, &oldest)
	if err != nil {
		return validate.Unsent{}, fmt.Errorf("count unsent claims: %w", err)
	}
	u.Oldest, err = parseTime(oldest.String)
	return u, err
}

// Paid returns the claim that stands on the ticket, nil when it has none: also after its
// reversal was accepted. The ticket may then be paid in Round, with a grant from central.
func (l *Ledger) Paid(ctx context.Context, t validate.TicketKey) (*validate.Receipt, error) {
	if any, err := l.claimed(ctx, l.read, t); err != nil || !any {
		return nil, err
	}
	r, err := l.receipt(ctx, l.read, standsOn, t.Block[:], t.Pack, t.Number)
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	return &r, err
}

// claimed tells whether a ticket has a claim of whatever round. Nearly every ticket that is
// asked for has none, and one look at the key costs a tenth of the joined rows.
func (l *Ledger) claimed(ctx context.Context, q querier, t validate.TicketKey) (any bool, err error) {
	err = q.QueryRowContext(ctx, "SELECT EXISTS(SELECT 1 FROM claims WHERE block = ? AND pack = ? AND ticket = ?)", t.Block[:], t.Pack, t.Number).Scan(&any)
	if err != nil {
		return false, fmt.Errorf("claims of ticket %d of pack %d: %w", t.Number, t.Pack, l.seen(err))
	}
	return any, nil
}

// Receipt returns the claim of an entry, or ErrNotFound.
func (l *Ledger) Receipt(ctx context.Context, n validate.EntryNumber) (validate.Receipt, error) {
	return l.receipt(ctx, l.read, "p.epoch = ? AND p.seq = ?", n.Epoch, n.Seq)
}

// Last returns the newest claims, newest first.
func (l *Ledger) Last(ctx context.Context, n int) ([]validate.Receipt, error) {
	return l.receipts(ctx, l.read, "1 ORDER BY p.epoch DESC, p.seq DESC LIMIT ?", n)
}

// Unprinted returns the claims whose slip is not known to be out, oldest first.
func (l *Ledger) Unprinted(ctx context.Context) ([]validate.Receipt, error) {
	l.mu.Lock()
	waiting := maps.Clone(l.waiting)
	l.mu.Unlock()
	list := make([]validate.Receipt, 0, len(waiting))
	for _, seq := range slices.Sorted(maps.Keys(waiting)) {
		if r := waiting[seq]; r != nil {
			list = append(list, *r)
			continue
		}
		r, err := l.Receipt(ctx, validate.EntryNumber{Epoch: l.epoch, Seq: seq})
		if err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	return list, nil
}

// ofTicket begins a condition that finds claims by their ticket; standsOn finds the one
// that no accepted reversal took back.
const (
	ofTicket = "c.block = ? AND c.pack = ? AND c.ticket = ?"
	standsOn = ofTicket + ` AND NOT EXISTS (SELECT 1 FROM reversals r WHERE r.claim_epoch = c.epoch AND r.claim_seq = c.seq
		AND r.state = 'accepted') ORDER BY c.round DESC LIMIT 1`
)

func (l *Ledger) receipt(ctx context.Context, q querier, where string, args ...any) (validate.Receipt, error) {
	list, err := l.receipts(ctx, q, where, args...)
	if err == nil && len(list) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return validate.Receipt{}, err
	}
	return list[0], nil
}

func (l *Ledger) receipts(ctx context.Context, q querier, where string, args ...any) ([]validate.Receipt, error) {
	from := "prints p JOIN entries e ON e.epoch = p.epoch AND e.seq = p.seq"
	if strings.HasPrefix(where, ofTicket) {
		from = "claims c JOIN prints p ON p.epoch = c.epoch AND p.seq = c.seq JOIN entries e ON e.epoch = c.epoch AND e.seq = c.seq"
	}
	rows, err := q.QueryContext(ctx, "SELECT e.epoch, e.seq, e.line, p.state, p.copies, p.slip FROM "+from+" WHERE "+where, args...)
	if err != nil {
		return nil, l.seen(err)
	}
	defer rows.Close()
	var list []validate.Receipt
	for rows.Next() {
		var r validate.Receipt
		var line, slip []byte
		if err := rows.Scan(&r.Number.Epoch, &r.Number.Seq, &line, &r.Print, &r.Copies, &slip); err != nil {
			return nil, l.seen(err)
		}
		if err := fillReceipt(&r, line, slip); err != nil {
			return nil, l.seen(fmt.Errorf("%w: entry %v: %w", ErrDamaged, r.Number, err))
		}
		list = append(list, r)
	}
	return list, l.seen(rows.Err())
}

func fillReceipt(r *validate.Receipt, line, slip []byte) error {
	e, err := ParseEntry(line)
	if err != nil {
		return err
	}
	c, err := e.Claim()
	if err != nil {
		return err
	}
	if err := json.Unmarshal(slip, &r.Slip); err != nil {
		return err
	}
	if e.Kind == KindCarriedClaim { // it was paid when the entry inside says
		if inner, err := e.Carried(); err == nil {
			e.Time, e.Trusted = inner.Time, inner.Trusted
		}
	}
	first, err1 := parseTime(c.FirstCheck)
	at, err2 := parseTime(e.Time)
	trusted, err3 := parseTime(e.Trusted)
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	facts := r.Slip
	r.Claim = validate.Claim{ID: c.Claim, Ticket: validate.TicketKey{Block: c.Block, Pack: c.Pack, Number: c.Ticket}, Round: c.Round, Tier: c.Tier,
		Amount: money.Amount(c.AmountMinor), Currency: c.Currency, OwnerEpoch: c.OwnerEpoch, Policy: c.Policy, Operator: c.Operator,
		Entered: c.Entered, FirstCheck: first, Slip: facts}
	r.Hash, r.Terminal, r.At, r.Trusted = hashLine(line).String(), e.Terminal, at, trusted
	return nil
}

// Mark stores how far the paper of an entry has come. A state that says the slip is
// out is never taken back.
func (l *Ledger) Mark(ctx context.Context, n validate.EntryNumber, state validate.PrintState) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	res, err := l.db.ExecContext(ctx, "UPDATE prints SET state = ? WHERE epoch = ? AND seq = ? AND state IN ('sending', 'held', 'unknown')", state, n.Epoch, n.Seq)
	if err := oneRow(res, l.seen(err), "mark entry %v %s", n, state); err != nil {
		return err
	}
	l.wait(n, state == validate.Sending || state == validate.Held)
	return nil
}

// wait keeps the set of slips that wait.
func (l *Ledger) wait(n validate.EntryNumber, waits bool) {
	if n.Epoch != l.epoch {
		return
	}
	if waits {
		l.waiting[n.Seq] = nil
	} else {
		delete(l.waiting, n.Seq)
	}
}

func oneRow(res sql.Result, err error, format string, args ...any) error {
	what := fmt.Sprintf(format, args...)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if n, err := res.RowsAffected(); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	} else if n != 1 {
		return fmt.Errorf("%s: %w", what, ErrNotFound)
	}
	return nil
}

// Failed counts one more failed secret of a ticket, durably, and returns the count.
func (l *Ledger) Failed(ctx context.Context, t validate.TicketKey) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var n int
	err := l.db.QueryRowContext(ctx, `INSERT INTO attempts(block, pack, ticket, failed) VALUES(?, ?, ?, 1)
		ON CONFLICT(block, pack, ticket) DO UPDATE SET failed = failed + 1 RETURNING failed`, t.Block[:], t.Pack, t.Number).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("count a failed secret: %w", l.seen(err))
	}
	return n, nil
}

// Attempts is how many secrets of a ticket have failed.
func (l *Ledger) Attempts(ctx context.Context, t validate.TicketKey) (int, error) {
	var n int
	err := l.read.QueryRowContext(ctx, "SELECT failed FROM attempts WHERE block = ? AND pack = ? AND ticket = ?", t.Block[:], t.Pack, t.Number).Scan(&n)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return n, l.seen(err)
}

// Terminal is whose ledger it is.
func (l *Ledger) Terminal() string { return l.opt.Terminal }

// Close signs the head, closes the file, folds its write-ahead log in, and lets another
// process open it.
func (l *Ledger) Close() error {
	var signed error
	if l.sickness() == nil {
		signed = l.SignHead(context.Background(), HeadStop)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return errors.Join(signed, l.read.Close(), l.db.Close(), l.lock.release())
}

// clean makes a name safe for a message.
func clean(name string) string { return strings.ToValidUTF8(name, "?") }
