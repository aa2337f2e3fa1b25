package uplink

import (
	"context"
	"errors"
	"fmt"
	"time"

	"grattoir/sync/ledger"
	"grattoir/sync/wire"
)

// feedPause keeps a server that does not hold a long poll open from being asked at once again.
const feedPause = 5 * time.Second

// hear asks for the next run of the status feed and stores it with its cursor. Central
// holds the answer back until there is something to say.
func (u *Uplink) hear(ctx context.Context) (rest, error) {
	select {
	case <-u.met:
	default:
		return rest{wake: [2]<-chan struct{}{u.met}}, nil
	}
	cursor, err := u.opt.Ledger.FeedCursor(ctx)
	if err != nil {
		return rest{}, err
	}
	asked := u.opt.Now()
	path := fmt.Sprintf("%s?after=%d&wait=%d&beat=%d", wire.PathFeed, cursor, wire.MaxFeedWait, wire.FeedBeat)
	c, limit := u.client(), 2*wire.FeedBeat*time.Second
	if !c.beats.Load() { // an older central is silent while it holds the answer back
		limit = wire.MaxFeedWait*time.Second + requestTimeout
	}
	var f wire.Feed
	if err := c.get(ctx, limit, path, &f); err != nil {
		return rest{}, err
	}
	if len(f.Items) > wire.MaxFeed {
		return rest{}, fmt.Errorf("%w: %d feed items, at most %d", ErrAnswer, len(f.Items), wire.MaxFeed)
	}
	if len(f.Items) == 0 {
		u.heard()
		if u.opt.Now().Sub(asked) < time.Second {
			return rest{after: feedPause}, nil
		}
		return rest{now: true}, nil
	}
	if err := u.opt.Ledger.ApplyFeed(ctx, f.Items, f.Items[len(f.Items)-1].Seq); errors.Is(err, ledger.ErrFeed) {
		return rest{}, fmt.Errorf("%w: %w", ErrAnswer, err)
	} else if err != nil {
		return rest{}, fmt.Errorf("%w: %w", ErrStore, err)
	}
	after, err := u.opt.Ledger.FeedCursor(ctx)
	if err != nil {
		return rest{}, err
	}
	if after <= cursor {
		return rest{}, fmt.Errorf("%w: %d feed items, none after %d", ErrAnswer, len(f.Items), cursor)
	}
	u.heard()
	for _, item := range f.Items {
		switch item.Kind {
		case wire.FeedPack:
			signal(u.replan)
			signal(u.packs)
		case wire.FeedHold:
			u.opt.Step("held")
			signal(u.held)
		}
	}
	return rest{now: true}, nil
}
