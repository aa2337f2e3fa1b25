package central

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"sync"
)

// errRevoked ends requests that are under way when their terminal is refused.
var errRevoked = errors.New("the terminal was suspended meanwhile")

// revoke notes that a terminal is refused from now on, for every process that serves it,
// and gives the revocation's number.
func revoke(ctx context.Context, tx *sql.Tx, name, now, reason string) (int64, error) {
	number, err := take(ctx, tx, revoked)
	if err != nil {
		return 0, err
	}
	_, err = tx.ExecContext(ctx, "INSERT INTO revocations(number, terminal, reason, at) VALUES($1, $2, $3, $4)", number, name, reason, now)
	return number, err
}

// visitors are the requests under way, by terminal: a long poll and a download last.
type visitors struct {
	mu   sync.Mutex
	seen int64 // newest revocation that was heeded
	in   map[string]map[*visit]bool
}

// visit is a request of a terminal. A revocation ends those that were let in before it
// only: it is heeded a moment late, and the terminal may be let in again by then.
type visit struct {
	cancel context.CancelCauseFunc
	in     bool  // it was held against the database,
	after  int64 // which knew revocations up to this one
	ended  int64 // newest revocation that was heeded since it came
}

// enter gives a context that ends when the terminal is refused. Leave must be called.
func (v *visitors) enter(ctx context.Context, name string) (_ context.Context, let *visit, leave func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	let = &visit{cancel: cancel}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.in == nil {
		v.in = map[string]map[*visit]bool{}
	}
	if v.in[name] == nil {
		v.in[name] = map[*visit]bool{}
	}
	v.in[name][let] = true
	return ctx, let, func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		if delete(v.in[name], let); len(v.in[name]) == 0 {
			delete(v.in, name)
		}
		cancel(nil)
	}
}

// admit says that a visit was let in by what the database knew after a revocation.
func (v *visitors) admit(let *visit, after int64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	let.in, let.after = true, after
	let.heed()
}

// end ends the requests of a terminal that were let in before a revocation of it.
func (v *visitors) end(name string, revocation int64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for let := range v.in[name] {
		let.ended = max(let.ended, revocation)
		let.heed()
	}
}

func (let *visit) heed() {
	if let.in && let.ended > let.after {
		let.cancel(errRevoked)
	}
}

func (v *visitors) count(name string) int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.in[name])
}

// heedRevocations ends the requests of terminals that were refused since it last looked,
// by whatever process.
func (c *Central) heedRevocations(ctx context.Context) error {
	var newest int64
	if err := c.store.reader().QueryRowContext(ctx, "SELECT value FROM counters WHERE name = $1", revoked).Scan(&newest); err != nil {
		return err
	}
	c.visitors.mu.Lock()
	seen := c.visitors.seen
	c.visitors.seen = max(seen, newest)
	c.visitors.mu.Unlock()
	if newest <= seen {
		return nil
	}
	rows, err := c.store.reader().QueryContext(ctx, "SELECT number, terminal FROM revocations WHERE number > $1 AND number <= $2", seen, newest)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var number int64
		var name string
		if err := rows.Scan(&number, &name); err != nil {
			return err
		}
		c.visitors.end(name, number)
	}
	return rows.Err()
}

// revocable is a file that cannot be read any more once ctx has ended.
type revocable struct {
	io.ReadSeeker
	ctx context.Context
}

func (r revocable) Read(p []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	return r.ReadSeeker.Read(p)
}
