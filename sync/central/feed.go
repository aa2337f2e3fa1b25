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

// bell wakes whoever listens for a name, and nobody else: at a fleet's opening hour each
// terminal has items of its own, and waking all for each would be a million wakings for
// a thousand terminals.
type bell struct {
	mu     sync.Mutex
	closed bool
	by     map[string]map[chan struct{}]bool
}

func newBell() *bell { return &bell{by: map[string]map[chan struct{}]bool{}} }

// listen gives a channel that has something whenever the bell was rung for the name since
// it was last read, and that is closed when the bell is. Leave must be called.
func (b *bell) listen(name string) (rung <-chan struct{}, leave func()) {
	c := make(chan struct{}, 1)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		close(c)
		return c, func() {}
	}
	if b.by[name] == nil {
		b.by[name] = map[chan struct{}]bool{}
	}
	b.by[name][c] = true
	return c, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if delete(b.by[name], c); len(b.by[name]) == 0 {
			delete(b.by, name)
		}
	}
}

// ring wakes those who listen for a name.
func (b *bell) ring(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.wake(b.by[name])
}

// ringAll wakes everybody.
func (b *bell) ringAll() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, listening := range b.by {
		b.wake(listening)
	}
}

// wake is for a closed bell nothing: its channels are closed.
func (b *bell) wake(listening map[chan struct{}]bool) {
	for c := range listening {
		select {
		case c <- struct{}{}:
		default: // it has not read the last one yet
		}
	}
}

func (b *bell) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return
	}
	b.closed = true
	for _, listening := range b.by {
		for c := range listening {
			close(c)
		}
	}
	b.by = nil
}

// open is false once central closes.
func (b *bell) open() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.closed
}

// herald tells long polls of what was added to the feed, here or by another process.
type herald struct {
	*bell
	holds  *bell         // of polls too: rung for a hold, for which somebody waits at a counter
	nudged chan struct{} // something was added here
	told   int64         // items up to here were told of; of watchFeed alone
}

func newHerald(newest int64) *herald {
	return &herald{bell: newBell(), holds: newBell(), nudged: make(chan struct{}, 1), told: newest}
}

// added tells that there is an item of a number, 0 for none.
func (h *herald) added(newest int64) {
	if newest == 0 {
		return
	}
	select {
	case h.nudged <- struct{}{}:
	default: // watchFeed has not looked since the last one
	}
}

// EndPolls answers the long polls that wait, now and from now on, so that a server can
// drain its connections before Close.
func (c *Central) EndPolls() {
	c.feed.holds.close()
	c.feed.close()
	c.holds.close()
}

// watchFeed wakes the polls that new items of the feed concern, and ends the requests of
// terminals that another process suspended.
func (c *Central) watchFeed(ctx context.Context) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	owed := false // something was committed that was not acted on
	for {
		ticked := false
		select {
		case <-ctx.Done():
			return
		case <-c.feed.nudged:
		case <-tick.C:
			ticked = true
		}
		stirred, err := c.store.stirred()
		if owed = owed || stirred || err != nil; !owed {
			continue
		}
		if err = c.proclaim(ctx); err == nil && ticked {
			err = c.heedRevocations(ctx)
		}
		owed = err != nil || !ticked
		if err != nil && ctx.Err() == nil {
			c.opt.Log.Warn("feed not read, trying again", "err", err)
		}
	}
}

// audiencesAtOnce bounds what is read of the feed at one time.
const audiencesAtOnce = 4096

// proclaim rings for the audiences of the items that came since. Numbers become visible
// in their order, so none is stepped over.
func (c *Central) proclaim(ctx context.Context) error {
	for {
		audiences, holds := map[string]bool{}, map[string]bool{}
		n, newest := 0, c.feed.told
		err := eachRow(ctx, c.store.reader(), "SELECT seq, audience, kind FROM feed WHERE seq > $1 ORDER BY seq LIMIT $2", func(row scanner) error {
			var audience string
			var kind wire.FeedKind
			err := row.Scan(&newest, &audience, &kind)
			if n++; kind == wire.FeedHold {
				holds[audience] = true
			} else {
				audiences[audience] = true
			}
			return err
		}, c.feed.told, audiencesAtOnce)
		if err != nil {
			return err
		}
		for name := range holds {
			c.feed.holds.ring(name)
		}
		if audiences[everyone] {
			c.feed.ringAll()
		} else {
			for name := range audiences {
				c.feed.ring(name)
			}
		}
		if c.feed.told = newest; n < audiencesAtOnce {
			return nil
		}
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

// gatherFor is how long a poll that was woken waits before it looks: what operations do, or
// an upload, often adds several items one right after the other, and each answer costs the
// terminal a request. A hold does not wait.
const gatherFor = 5 * time.Millisecond

// Feed gives what concerns a terminal after a cursor, at most wire.MaxFeed items. With
// nothing to give it waits, at most so long, and then answers an empty run.
func (c *Central) Feed(ctx context.Context, terminal string, after int64, wait time.Duration) (wire.Feed, error) {
	return c.hold(ctx, terminal, after, wait, &beats{})
}

// hold is Feed with signs of life while it waits.
func (c *Central) hold(ctx context.Context, terminal string, after int64, wait time.Duration, b *beats) (wire.Feed, error) {
	wait, end := c.lanes.poll(wait)
	defer end()
	timer := time.NewTimer(min(wait, wire.MaxFeedWait*time.Second))
	defer timer.Stop()
	rung, leave := c.feed.listen(terminal) // before looking, so that no item is missed
	defer leave()
	asked, leave := c.feed.holds.listen(terminal)
	defer leave()
	lane := c.lanes.feed
	var beat, gathered <-chan time.Time
	for {
		items, err := c.feedItems(ctx, lane, terminal, after)
		if err != nil {
			return wire.Feed{}, err
		}
		f := wire.Feed{Protocol: wire.Protocol, Items: items, Time: c.now()}
		if len(items) > 0 || wait <= 0 || !c.feed.open() {
			return f, nil
		}
		if b.every > 0 && beat == nil {
			t := time.NewTicker(b.every)
			defer t.Stop()
			beat = t.C
			b.beat()
		}
		for looking := false; !looking; {
			select {
			case <-rung:
				if gathered == nil {
					gathered = time.After(gatherFor)
				}
				if !c.feed.open() {
					return f, nil
				}
			case <-gathered:
				lane, gathered, looking = c.lanes.feed, nil, true
			case <-asked:
				lane, looking = c.lanes.holds, true
			case <-beat:
				b.beat()
			case <-timer.C:
				return f, nil
			case <-ctx.Done():
				return wire.Feed{}, ctx.Err()
			}
		}
	}
}

// feedItems asks the tables in a lane: the feed's, or for a hold that of the holds.
func (c *Central) feedItems(ctx context.Context, l *lane, terminal string, after int64) ([]wire.FeedItem, error) {
	leave, err := l.enter(ctx, terminal, c.opt.Now)
	if err != nil {
		return nil, err
	}
	defer leave()
	return c.feedAfter(ctx, terminal, after)
}

// itemsAfter looks each audience up by itself: asked for both at once, a database reads all
// that concerns others from the cursor on.
const itemsAfter = `SELECT f.item FROM (SELECT e.seq, e.item FROM (SELECT seq, item FROM feed WHERE audience = $1 AND seq > $2 ORDER BY seq LIMIT $3) e
	UNION ALL SELECT o.seq, o.item FROM (SELECT seq, item FROM feed WHERE audience = $4 AND seq > $2 ORDER BY seq LIMIT $3) o) f ORDER BY f.seq LIMIT $3`

func (c *Central) feedAfter(ctx context.Context, terminal string, after int64) ([]wire.FeedItem, error) {
	rows, err := c.store.reader().QueryContext(ctx, itemsAfter, everyone, after, wire.MaxFeed, terminal)
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
