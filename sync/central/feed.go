package central

import (
	"context"
	"database/sql"
	"encoding/json"
	"sync"
	"time"

	"grattoir/sync/wire"
)

// watchEvery is how often the feed is looked at for what another process wrote to it.
const watchEvery = 500 * time.Millisecond

// everyone is the audience of an item that concerns all terminals.
const everyone = ""

// bell wakes long polls when the feed grows.
type bell struct {
	mu     sync.Mutex
	newest int64
	closed bool
	rung   chan struct{} // closed and replaced at each ring
}

func newBell(newest int64) *bell { return &bell{newest: newest, rung: make(chan struct{})} }

// ring tells that the feed reaches newest.
func (b *bell) ring(newest int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if newest > b.newest && !b.closed {
		b.newest = newest
		close(b.rung)
		b.rung = make(chan struct{})
	}
}

// last is the newest item that was rung for.
func (b *bell) last() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.newest
}

// strike wakes whoever waits, with nothing to number.
func (b *bell) strike() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		close(b.rung)
		b.rung = make(chan struct{})
	}
}

func (b *bell) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		b.closed = true
		close(b.rung)
	}
}

// next is closed at the next ring; open is false once central closes.
func (b *bell) next() (rung <-chan struct{}, open bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.rung, !b.closed
}

// EndPolls answers the long polls that wait, now and from now on, so that a server can
// drain its connections before Close.
func (c *Central) EndPolls() { c.feed.close(); c.holds.close() }

// watchFeed rings for items that another process added, and ends the requests of terminals
// that another process suspended.
func (c *Central) watchFeed(ctx context.Context) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	failed := false // what stirred said was not acted on
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if stirred, err := c.store.stirred(); err == nil && !stirred && !failed {
			continue
		}
		newest, err := c.newestFeed(ctx)
		if err == nil {
			err = c.heedRevocations(ctx)
		}
		if failed = err != nil; failed {
			if ctx.Err() == nil {
				c.opt.Log.Warn("feed not read, trying again", "err", err)
			}
			continue
		}
		c.feed.ring(newest)
	}
}

func (c *Central) newestFeed(ctx context.Context) (int64, error) {
	var newest int64
	err := c.store.reader().QueryRowContext(ctx, "SELECT coalesce(max(seq), 0) FROM feed").Scan(&newest)
	return newest, err
}

// addFeed appends an item and returns its number.
func addFeed(ctx context.Context, tx *sql.Tx, audience, now string, item wire.FeedItem) (int64, error) {
	var err error
	if item.Seq, err = take(ctx, tx, feedItems); err != nil {
		return 0, err
	}
	text, err := json.Marshal(item)
	if err != nil {
		return 0, err
	}
	_, err = tx.ExecContext(ctx, "INSERT INTO feed(seq, kind, audience, item, at) VALUES($1, $2, $3, $4, $5)", item.Seq, item.Kind, audience, string(text), now)
	return item.Seq, err
}

// Feed gives what concerns a terminal after a cursor, at most wire.MaxFeed items. With
// nothing to give it waits, at most so long, and then answers an empty run.
func (c *Central) Feed(ctx context.Context, terminal string, after int64, wait time.Duration) (wire.Feed, error) {
	wait, end := c.lanes.poll(wait)
	defer end()
	timer := time.NewTimer(min(wait, wire.MaxFeedWait*time.Second))
	defer timer.Stop()
	items, concerned := []wire.FeedItem{}, true // what was there before it asked is not among the newest
	for {
		rung, open := c.feed.next()
		if concerned {
			var err error
			if items, err = c.feedItems(ctx, terminal, after); err != nil {
				return wire.Feed{}, err
			}
		}
		f := wire.Feed{Protocol: wire.Protocol, Items: items, Time: c.now()}
		if len(items) > 0 || wait <= 0 || !open {
			return f, nil
		}
		select {
		case <-rung:
			var err error
			if concerned, err = c.concerns(ctx, terminal, after); err != nil {
				return wire.Feed{}, err
			}
		case <-timer.C:
			return f, nil
		case <-ctx.Done():
			return wire.Feed{}, ctx.Err()
		}
	}
}

// feedItems asks the tables, in the feed's lane.
func (c *Central) feedItems(ctx context.Context, terminal string, after int64) ([]wire.FeedItem, error) {
	leave, err := c.lanes.feed.enter(ctx, terminal, c.opt.Now)
	if err != nil {
		return nil, err
	}
	defer leave()
	return c.feedAfter(ctx, terminal, after)
}

func (c *Central) feedAfter(ctx context.Context, terminal string, after int64) ([]wire.FeedItem, error) {
	rows, err := c.store.reader().QueryContext(ctx, "SELECT item FROM feed WHERE seq > $1 AND audience IN ($2, $3) ORDER BY seq LIMIT $4", after, everyone, terminal, wire.MaxFeed)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	items := []wire.FeedItem{}
	for rows.Next() {
		var text []byte
		var item wire.FeedItem
		if err := rows.Scan(&text); err != nil {
			return nil, err
		}
		if err := json.Unmarshal(text, &item); err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	return items, rows.Err()
}
