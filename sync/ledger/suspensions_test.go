package ledger

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"grattoir/sync/wire"
)

func TestSuspensionHoldsUntilItIsLiftedAndOverRestarts(t *testing.T) {
	ctx := context.Background()
	opt := options(t.TempDir())
	l, err := Open(ctx, opt)
	if err != nil {
		t.Fatal(err)
	}
	seq := int64(0)
	set := func(game, emission string, block int, on bool) {
		t.Helper()
		seq++
		apply(t, l, wire.FeedItem{Seq: seq, Kind: wire.FeedSuspension, Suspension: &wire.SuspensionItem{Game: game, Emission: emission, Block: block, Suspended: on, Reason: "why"}})
	}
	want := func(who string, terminal, bingo11, bingo12, bingo21, other bool) {
		t.Helper()
		for _, x := range []struct {
			game, emission string
			block          int
			suspended      bool
		}{{"bingo", "1", 1, bingo11}, {"bingo", "1", 2, bingo12}, {"bingo", "2", 1, bingo21}, {"crossingo", "1", 1, other}, {"", "", 0, false}} {
			term, game, err := l.Suspended(ctx, x.game, x.emission, x.block)
			if err != nil || term != terminal || game != x.suspended {
				t.Errorf("%s: %+v: terminal %v, game %v: %v", who, x, term, game, err)
			}
		}
	}
	want("nothing", false, false, false, false, false)
	set("bingo", "1", 1, true)
	want("a block", false, true, false, false, false)
	set("bingo", "1", 0, true)
	want("an emission", false, true, true, false, false)
	set("bingo", "", 0, true)
	set("", "", 0, true)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l = openTest(t, opt)
	want("all, after a restart", true, true, true, true, false)
	set("bingo", "", 0, false)
	set("", "", 0, false)
	want("the game lifted", false, true, true, false, false)
	set("bingo", "1", 0, false)
	want("the emission lifted", false, true, false, false, false)
	set("bingo", "1", 1, false)
	set("bingo", "1", 1, false)
	want("all lifted", false, false, false, false, false)
	for i, bad := range []*wire.SuspensionItem{nil, {Emission: "1"}, {Block: 1}, {Game: "bingo", Block: -1}, {Game: strings.Repeat("x", 65)}, {Reason: strings.Repeat("x", wire.MaxReason+1)}} {
		if err := l.ApplyFeed(ctx, []wire.FeedItem{{Seq: seq + 1, Kind: wire.FeedSuspension, Suspension: bad}}, seq+1); !errors.Is(err, ErrFeed) {
			t.Error(fmt.Sprint(i), err)
		}
	}
}
