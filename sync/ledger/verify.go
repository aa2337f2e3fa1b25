package ledger

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"grattoir/validate"
	"grattoir/validate/money"
)

// What reads a whole journal reads it in pages, so that no read lasts: SQLite's log
// cannot be begun anew while somebody still reads what is in it. Entries never change,
// so pages up to a head that was read once belong together whatever is appended meanwhile.
const pageLen = 500

// row is an entry as it is stored.
type row struct {
	seq  int64
	kind Kind
	line []byte
	hash []byte
}

// page reads the entries of an epoch after one and up to another, at most pageLen.
func page(ctx context.Context, q querier, epoch, after, upTo int64) ([]row, error) {
	rows, err := q.QueryContext(ctx, "SELECT seq, kind, line, hash FROM entries WHERE epoch = ? AND seq > ? AND seq <= ? ORDER BY seq LIMIT ?", epoch, after, upTo, pageLen)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	defer rows.Close()
	var list []row
	for rows.Next() {
		var r row
		if err := rows.Scan(&r.seq, &r.kind, &r.line, &r.hash); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
		}
		list = append(list, r)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return list, nil
}

// newest is the last number of an epoch, 0 for none.
func newest(ctx context.Context, q querier, epoch int64) (seq int64, err error) {
	if err = q.QueryRowContext(ctx, "SELECT coalesce(max(seq), 0) FROM entries WHERE epoch = ?", epoch).Scan(&seq); err != nil {
		return 0, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return seq, nil
}

// epochs are the journal epochs that have entries, in order, and then the current one.
func epochs(ctx context.Context, q querier, current int64) ([]int64, error) {
	var list []int64
	for last := int64(-1 << 63); ; {
		var next sql.NullInt64
		if err := q.QueryRowContext(ctx, "SELECT min(epoch) FROM entries WHERE epoch > ?", last).Scan(&next); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
		}
		switch {
		case !next.Valid || next.Int64 == current:
			return append(list, current), nil
		case next.Int64 < 1 || next.Int64 > current:
			return nil, fmt.Errorf("%w: entries of journal epoch %d, the ledger is in %d", ErrDamaged, next.Int64, current)
		}
		last = next.Int64
		list = append(list, last)
	}
}

// Lines calls use with the journal's exact bytes from one entry of an epoch on, in
// order, up to the newest when it was called. It may be as slow as it likes.
func (l *Ledger) Lines(ctx context.Context, epoch, from int64, use func(seq int64, line []byte) error) error {
	return walk(ctx, l.read, epoch, max(from, 1), func(r row) error { return use(r.seq, r.line) })
}

func walk(ctx context.Context, q querier, epoch, from int64, use func(row) error) error {
	upTo, err := newest(ctx, q, epoch)
	if err != nil {
		return err
	}
	return walkTo(ctx, q, epoch, from, upTo, use)
}

// walkTo is walk up to an entry.
func walkTo(ctx context.Context, q querier, epoch, from, upTo int64, use func(row) error) error {
	for from <= upTo {
		list, err := page(ctx, q, epoch, from-1, upTo)
		if err != nil || len(list) == 0 {
			return err
		}
		for _, r := range list {
			if err := use(r); err != nil {
				return err
			}
		}
		from = list[len(list)-1].seq + 1
	}
	return nil
}

// Check is what Verify found, over all journal epochs.
type Check struct {
	Entries int64
	Claims  int64
	Money   money.Amount
	// Closings are those in the journal; each one's totals are what its entries come to.
	Closings int64
	Head     Head // of the current epoch
}

// Verify walks the whole chain of each journal epoch: every line is an entry of this
// terminal, numbers run without a gap, each carries the hash of the one before, claims,
// print jobs, closings, reversals and entries agree, signed heads and acknowledgements lie
// on the chain, and the tables are those this program makes. It verifies no signature, which is Prove's,
// and it cannot see entries cut off at the end. What stands beside the chain (how far
// paper came, packs, failed secrets) proves nothing and is not proven.
func (l *Ledger) Verify(ctx context.Context) (Check, error) {
	w, err := verify(ctx, l.read, migrations)
	return w.check, err
}

// walked is what a walk over the whole file gathers.
type walked struct {
	terminal string
	check    Check
	marks    []marks // by epoch, the current one last
}

// verify is Verify on a file of the schema that the steps make.
func verify(ctx context.Context, q querier, steps [][]string) (walked, error) {
	var w walked
	if err := sound(ctx, q); err != nil {
		return w, err
	}
	if err := verifySchema(ctx, q, steps); err != nil {
		return w, err
	}
	if err := q.QueryRowContext(ctx, "SELECT terminal, epoch FROM meta").Scan(&w.terminal, &w.check.Head.Epoch); err != nil {
		return w, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	list, err := epochs(ctx, q, w.check.Head.Epoch)
	if err != nil {
		return w, err
	}
	closings := newCloseChecker(q, len(steps))
	for _, epoch := range list {
		m, err := readMarks(ctx, q, len(steps), epoch)
		if err != nil {
			return w, fmt.Errorf("%w: %w", ErrDamaged, err)
		}
		want, err := m.wanted()
		if err != nil {
			return w, fmt.Errorf("%w: %w", ErrDamaged, err)
		}
		v := verifier{q: q, terminal: w.terminal, epoch: epoch, check: &w.check, want: want, closings: closings}
		if err := walk(ctx, q, epoch, 1, func(r row) error { return v.entry(ctx, r) }); err != nil {
			return w, err
		}
		if err := v.end(m); err != nil {
			return w, err
		}
		m.head = Head{epoch, v.seq, v.prev}
		w.check.Head = m.head
		w.marks = append(w.marks, m)
	}
	w.check.Closings = closings.closings
	if err := closings.done(ctx, w.check.Head); err != nil {
		return w, err
	}
	return w, verifyCounts(ctx, q, len(steps), w.check)
}

// sound is nil when SQLite finds every page and every reference whole.
func sound(ctx context.Context, q querier) error {
	var text string
	if err := q.QueryRowContext(ctx, "PRAGMA integrity_check(1)").Scan(&text); err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if text != "ok" {
		return fmt.Errorf("%w: %.200s", ErrDamaged, text)
	}
	var table string
	switch err := q.QueryRowContext(ctx, `SELECT "table" FROM pragma_foreign_key_check LIMIT 1`).Scan(&table); {
	case err == nil:
		return fmt.Errorf("%w: a row of %.40s belongs to no entry", ErrDamaged, table)
	case !errors.Is(err, sql.ErrNoRows):
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return nil
}

// verifyCounts finds rows beside the chain that an entry has not. Rows above the head
// were appended meanwhile, with their entries.
func verifyCounts(ctx context.Context, q querier, version int, c Check) error {
	for _, table := range []string{"claims", "prints"} {
		var n int64
		err := q.QueryRowContext(ctx, "SELECT count(*) FROM "+table+" WHERE NOT (epoch = ? AND seq > ?)", c.Head.Epoch, c.Head.Seq).Scan(&n)
		if err != nil {
			return fmt.Errorf("%w: %s: %w", ErrDamaged, table, err)
		}
		if n != c.Claims {
			return fmt.Errorf("%w: %d claims in the chain, %d rows in the table %s", ErrDamaged, c.Claims, n, table)
		}
	}
	tables := []string{"acks", "heads"}
	if version < 2 {
		tables = tables[:1]
	}
	for _, table := range tables {
		var epoch int64
		switch err := q.QueryRowContext(ctx, "SELECT epoch FROM "+table+" WHERE epoch NOT BETWEEN 1 AND ?", c.Head.Epoch).Scan(&epoch); {
		case err == nil:
			return fmt.Errorf("%w: the table %s names journal epoch %d, the ledger is in %d", ErrDamaged, table, epoch, c.Head.Epoch)
		case !errors.Is(err, sql.ErrNoRows):
			return fmt.Errorf("%w: %s: %w", ErrDamaged, table, err)
		}
	}
	return nil
}

// verifier walks one epoch.
type verifier struct {
	q        querier
	terminal string
	epoch    int64
	seq      int64
	prev     Hash
	check    *Check
	want     map[int64]Hash // what signed heads name; each is taken out when it is met
	closings *closeChecker  // over all epochs
}

func (v *verifier) entry(ctx context.Context, r row) error {
	e, err := ParseEntry(r.line)
	own := hashLine(r.line)
	switch {
	case err != nil:
		return fmt.Errorf("%w: entry %d-%d: %w", ErrDamaged, v.epoch, r.seq, err)
	case e.Seq != r.seq || r.seq != v.seq+1 || e.Epoch != v.epoch || e.Terminal != v.terminal:
		return fmt.Errorf("%w: entry %d-%d stands at place %d-%d", ErrDamaged, e.Epoch, e.Seq, v.epoch, v.seq+1)
	case e.Prev != v.prev.String():
		return fmt.Errorf("%w: entry %d-%d does not carry the hash of the entry before", ErrDamaged, v.epoch, r.seq)
	case string(r.hash) != string(own[:]) || r.kind != e.Kind:
		return fmt.Errorf("%w: entry %d-%d: its hash or kind is not that of its line", ErrDamaged, v.epoch, r.seq)
	}
	if want, signed := v.want[r.seq]; signed && want != own {
		return fmt.Errorf("%w: entry %d-%d is not the one that was signed", ErrDamaged, v.epoch, r.seq)
	}
	delete(v.want, r.seq)
	v.seq, v.prev = r.seq, own
	v.check.Entries++
	err = v.closings.entry(ctx, e)
	if err == nil && e.IsClaim() {
		err = v.claim(ctx, e)
	}
	if err != nil {
		return fmt.Errorf("%w: entry %d-%d: %w", ErrDamaged, v.epoch, r.seq, err)
	}
	return nil
}

// end finds what was cut off at the end: a signature or a mark names what is not there.
func (v *verifier) end(m marks) error {
	for seq := range v.want {
		return fmt.Errorf("%w: the journal ends at entry %d-%d, entry %d was signed: the end was cut off", ErrDamaged, v.epoch, v.seq, seq)
	}
	if m.acked > v.seq {
		return fmt.Errorf("%w: the journal ends at entry %d-%d, central holds entry %d: the end was cut off", ErrDamaged, v.epoch, v.seq, m.acked)
	}
	return nil
}

// claim holds a claim against its rows: a row that names another ticket, or is gone,
// would let a ticket be paid twice.
func (v *verifier) claim(ctx context.Context, e Entry) error {
	body, err := e.Claim()
	if err != nil {
		return err
	}
	if v.check.Money, err = v.check.Money.Add(money.Amount(body.AmountMinor)); err != nil {
		return err
	}
	v.check.Claims++
	var at Head
	err = v.q.QueryRowContext(ctx, "SELECT epoch, seq FROM claims WHERE block = ? AND pack = ? AND ticket = ? AND round = ?", body.Block[:], body.Pack, body.Ticket, body.Round).
		Scan(&at.Epoch, &at.Seq)
	if err != nil || at.Epoch != e.Epoch || at.Seq != e.Seq {
		return fmt.Errorf("the table of claims does not have its ticket: %w", orGone(err))
	}
	var amount, copies int64
	var slip []byte
	err = v.q.QueryRowContext(ctx, "SELECT amount, copies, slip FROM prints WHERE epoch = ? AND seq = ?", e.Epoch, e.Seq).Scan(&amount, &copies, &slip)
	if err != nil {
		return fmt.Errorf("the table of slips does not have it: %w", orGone(err))
	}
	if amount != body.AmountMinor || copies < 1 {
		return errors.New("its slip is of another amount, or was never begun")
	}
	return slipFits(slip, body)
}

// slipFits holds what a slip shows against the claim that it is of.
func slipFits(slip []byte, body ClaimBody) error {
	var facts validate.SlipFacts
	if err := json.Unmarshal(slip, &facts); err != nil {
		return fmt.Errorf("its slip: %w", err)
	}
	if !isNumber(facts.Pack, uint64(body.Pack)) || !isNumber(facts.Ticket, uint64(body.Ticket)) {
		return errors.New("its slip is of another ticket")
	}
	return nil
}

func orGone(err error) error {
	if err == nil || errors.Is(err, sql.ErrNoRows) {
		return ErrNotFound
	}
	return err
}

// isNumber tells whether a text as printed, with its leading zeros, is a number.
func isNumber(text string, want uint64) bool {
	n, err := strconv.ParseUint(text, 10, 64)
	return err == nil && n == want
}
