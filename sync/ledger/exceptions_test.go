package ledger

import (
	"context"
	"errors"
	"strings"
	"testing"

	"grattoir/sync/wire"
)

func TestEntriesThatCentralDidNotCreditAreKeptOverRestarts(t *testing.T) {
	ctx := context.Background()
	opt := options(t.TempDir())
	l, err := Open(ctx, opt)
	if err != nil {
		t.Fatal(err)
	}
	item := func(seq, entry int64, settled string) wire.FeedItem {
		return wire.FeedItem{Seq: seq, Kind: wire.FeedException, Exception: &wire.ExceptionItem{Epoch: 1, Seq: entry, Kind: wire.DoubleClaim, Text: "terminal T-9 paid it first", Settled: settled}}
	}
	apply(t, l, item(1, 4, ""), item(2, 7, ""), item(3, 7, "shop"))
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l = openTest(t, opt)
	list, err := l.Exceptions(ctx, 10)
	if n, err2 := l.OpenExceptions(ctx); err != nil || err2 != nil || n != 1 || len(list) != 2 || list[0].Seq != 4 || list[1].Settled != "shop" || list[1].Kind != wire.DoubleClaim {
		t.Errorf("%+v, %d open: %v %v", list, n, err, err2)
	}
	apply(t, l, item(4, 7, ""))
	if n, err := l.OpenExceptions(ctx); err != nil || n != 2 {
		t.Errorf("after it was opened again: %d %v", n, err)
	}
	for what, x := range map[string]*wire.ExceptionItem{"nothing": nil, "no entry": {Epoch: 1, Kind: "x"}, "no kind": {Epoch: 1, Seq: 1}, "long": {Epoch: 1, Seq: 1, Kind: "x", Text: strings.Repeat("x", wire.MaxReason+1)}} {
		if err := l.ApplyFeed(ctx, []wire.FeedItem{{Seq: 5, Kind: wire.FeedException, Exception: x}}, 5); !errors.Is(err, ErrFeed) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestExceptionsAreBounded(t *testing.T) {
	l := openTest(t, options(t.TempDir()))
	var items []wire.FeedItem
	for n := range int64(keptExceptions + 20) {
		items = append(items, wire.FeedItem{Seq: n + 1, Kind: wire.FeedException, Exception: &wire.ExceptionItem{Epoch: 1, Seq: n + 1, Kind: wire.NoRight}})
	}
	apply(t, l, items[:300]...)
	apply(t, l, items[300:]...)
	list, err := l.Exceptions(context.Background(), 1000)
	if err != nil || len(list) != keptExceptions || list[0].Seq != keptExceptions+20 {
		t.Errorf("%d kept, the newest %d: %v", len(list), list[0].Seq, err)
	}
}
