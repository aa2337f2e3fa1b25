package ledger

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"grattoir/sync/wire"
	"grattoir/validate"
	"grattoir/validate/policy"
)

// What was asked at the counter is counted beside the chain: it is no money, and a check
// must not wait for a disk. It lies in memory until central is told of it, at the next
// hello, so that a power cut loses some minutes of it and nothing else.

// lookTables hold the counts of the last days, and sightings that central has not heard
// of. The newest sighting stays when it was told, so that no number comes again.
var lookTables = []string{
	`CREATE TABLE looks(day TEXT NOT NULL, reason TEXT NOT NULL, entered TEXT NOT NULL, number INTEGER NOT NULL, PRIMARY KEY(day, reason, entered)) STRICT, WITHOUT ROWID`,
	`CREATE TABLE sightings(number INTEGER PRIMARY KEY, block BLOB NOT NULL, pack INTEGER NOT NULL, ticket INTEGER NOT NULL, reason TEXT NOT NULL, entered TEXT NOT NULL,
		operator TEXT NOT NULL, seen TEXT NOT NULL, told INTEGER NOT NULL) STRICT`,
}

const (
	lookDays     = 4    // days of which counts are kept and told: a weekend without a line
	maxBuffered  = 2000 // sightings in memory; counts are bounded by the reasons there are
	maxSightings = 2000 // on disk; the oldest are dropped, told or not
)

// lookBuffer is what was asked since the last hello.
type lookBuffer struct {
	mu     sync.Mutex
	counts map[wire.Look]int64 // by all but the number
	seen   []validate.Looked
}

// Looked counts an answer. In training nothing is asked in earnest, and nothing is counted.
func (l *Ledger) Looked(x validate.Looked) {
	if x.At.IsZero() || x.Reason == "" || x.Entered == "" || l.Training() {
		return
	}
	b := &l.looks
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.counts == nil {
		b.counts = map[wire.Look]int64{}
	}
	b.counts[wire.Look{Day: policy.DayInParis(x.At).String(), Reason: x.Reason, Entered: x.Entered}]++
	if wire.Sighted(x.Reason) && x.Ticket.Block != (validate.BlockID{}) && len(b.seen) < maxBuffered {
		b.seen = append(b.seen, x)
	}
}

// take empties the buffer.
func (b *lookBuffer) take() (map[wire.Look]int64, []validate.Looked) {
	b.mu.Lock()
	defer b.mu.Unlock()
	counts, seen := b.counts, b.seen
	b.counts, b.seen = nil, nil
	return counts, seen
}

// back puts what could not be stored into the buffer again.
func (b *lookBuffer) back(counts map[wire.Look]int64, seen []validate.Looked) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.counts == nil {
		b.counts = map[wire.Look]int64{}
	}
	for k, n := range counts {
		b.counts[k] += n
	}
	b.seen = slices.Concat(seen, b.seen)
	b.seen = b.seen[:min(len(b.seen), maxBuffered)]
}

// Looks stores what is in memory, and gives the counts of the last days and the oldest
// sightings that central does not hold, within the bounds of a hello.
func (l *Ledger) Looks(ctx context.Context) ([]wire.Look, []wire.Sighting, error) {
	if err := l.storeLooks(ctx); err != nil {
		return nil, nil, fmt.Errorf("looks: %w", err)
	}
	looks, err := l.readLooks(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("looks: %w", l.seen(err))
	}
	sightings, err := l.readSightings(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("sightings: %w", l.seen(err))
	}
	return looks, sightings, nil
}

func (l *Ledger) storeLooks(ctx context.Context) error {
	counts, seen := l.looks.take()
	if len(counts) == 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.write(ctx, func(ctx context.Context, w *writing) error {
		for k, n := range counts {
			if _, err := w.exec(ctx, `INSERT INTO looks(day, reason, entered, number) VALUES(?, ?, ?, ?)
				ON CONFLICT(day, reason, entered) DO UPDATE SET number = number + excluded.number`, k.Day, string(k.Reason), string(k.Entered), n); err != nil {
				return err
			}
		}
		for _, x := range seen {
			if _, err := w.exec(ctx, "INSERT INTO sightings(block, pack, ticket, reason, entered, operator, seen, told) VALUES(?, ?, ?, ?, ?, ?, ?, 0)", x.Ticket.Block[:], x.Ticket.Pack, x.Ticket.Number,
				string(x.Reason), string(x.Entered), x.Operator, wire.FormatTime(x.At)); err != nil {
				return err
			}
		}
		if _, err := w.exec(ctx, "DELETE FROM looks WHERE day NOT IN (SELECT DISTINCT day FROM looks ORDER BY day DESC LIMIT ?)", lookDays); err != nil {
			return err
		}
		_, err := w.exec(ctx, "DELETE FROM sightings WHERE number <= (SELECT max(number) FROM sightings) - ?", maxSightings)
		return err
	})
	if err != nil {
		l.looks.back(counts, seen)
	}
	return err
}

func (l *Ledger) readLooks(ctx context.Context) ([]wire.Look, error) {
	rows, err := l.read.QueryContext(ctx, "SELECT day, reason, entered, number FROM looks ORDER BY day DESC, reason, entered LIMIT ?", wire.MaxLooks)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []wire.Look
	for rows.Next() {
		var k wire.Look
		if err := rows.Scan(&k.Day, &k.Reason, &k.Entered, &k.Number); err != nil {
			return nil, err
		}
		list = append(list, k)
	}
	return list, rows.Err()
}

func (l *Ledger) readSightings(ctx context.Context) ([]wire.Sighting, error) {
	rows, err := l.read.QueryContext(ctx, "SELECT number, block, pack, ticket, reason, entered, operator, seen FROM sightings WHERE told = 0 ORDER BY number LIMIT ?", wire.MaxSightings)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []wire.Sighting
	for rows.Next() {
		var s wire.Sighting
		var block []byte
		if err := rows.Scan(&s.Number, &block, &s.Pack, &s.Ticket, &s.Reason, &s.Entered, &s.Operator, &s.Seen); err != nil {
			return nil, err
		}
		copy(s.Block[:], block)
		list = append(list, s)
	}
	return list, rows.Err()
}

// Sighted forgets the sightings up to a number, which central holds. Where central holds
// more than there is here, this ledger began anew, and goes on behind them.
func (l *Ledger) Sighted(ctx context.Context, number int64) error {
	var told int64
	if err := l.read.QueryRowContext(ctx, "SELECT coalesce(max(number), 0) FROM sightings WHERE told = 1").Scan(&told); err != nil || told >= number {
		return l.seen(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.write(ctx, func(ctx context.Context, w *writing) error {
		if _, err := w.exec(ctx, "UPDATE sightings SET told = 1 WHERE number <= ?", number); err != nil {
			return err
		}
		var newest int64
		if err := w.tx.QueryRowContext(ctx, "SELECT coalesce(max(number), 0) FROM sightings").Scan(&newest); err != nil {
			return err
		}
		if newest < number {
			if _, err := w.exec(ctx, "INSERT INTO sightings(number, block, pack, ticket, reason, entered, operator, seen, told) VALUES(?, x'', 0, 0, '', '', '', '', 1)", number); err != nil {
				return err
			}
		}
		_, err := w.exec(ctx, "DELETE FROM sightings WHERE told = 1 AND number < (SELECT max(number) FROM sightings WHERE told = 1)")
		return err
	})
	if err != nil {
		return fmt.Errorf("sightings: %w", err)
	}
	return nil
}
