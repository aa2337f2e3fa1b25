package ledger

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"grattoir/sync/wire"
	"grattoir/validate"
)

func packItem(seq int64, first, last uint32, epoch int64) wire.FeedItem {
	return wire.FeedItem{Seq: seq, Kind: wire.FeedPack, Pack: &wire.PackItem{GameCode: "00399", First: first, Last: last, State: validate.PackActive, Owner: "T-1", Epoch: epoch}}
}

func apply(t testing.TB, l *Ledger, items ...wire.FeedItem) {
	t.Helper()
	if err := l.ApplyFeed(context.Background(), items, items[len(items)-1].Seq); err != nil {
		t.Fatal(err)
	}
}

func TestPackOfWhichNothingWasSaidIsUnknown(t *testing.T) {
	ctx := context.Background()
	l := openTest(t, options(t.TempDir()))
	apply(t, l, packItem(1, 10, 19, 1))
	for pack, want := range map[uint32]bool{9: false, 10: true, 19: true, 20: false, 0: false, math.MaxUint32: false} {
		if _, ok, err := l.Pack(ctx, "00399", pack); err != nil || ok != want {
			t.Errorf("pack %d: %v %v", pack, ok, err)
		}
	}
	if _, ok, err := l.Pack(ctx, "00400", 10); err != nil || ok {
		t.Errorf("another game code: %v %v", ok, err)
	}
}

func TestOwnPacksAreThoseOfThisTerminalAlone(t *testing.T) {
	l := openTest(t, options(t.TempDir()))
	theirs, moved, other := packItem(2, 20, 29, 1), packItem(3, 15, 15, 2), packItem(4, 5, 6, 1)
	theirs.Pack.Owner, moved.Pack.Owner, other.Pack.Owner = "T-x", "T-x", l.opt.Terminal
	other.Pack.GameCode, other.Pack.State = "00398", validate.PackReturn
	mine := packItem(1, 10, 19, 1)
	mine.Pack.Owner = l.opt.Terminal
	apply(t, l, mine, theirs, moved, other)
	got, err := l.OwnPacks(context.Background())
	first, last := *mine.Pack, *mine.Pack
	first.Last, last.First = 14, 16
	if want := []wire.PackItem{*other.Pack, first, last}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestNewestStateOfOneOwnerEpochWins(t *testing.T) {
	l := openTest(t, options(t.TempDir()))
	stolen := packItem(2, 3, 4, 1)
	stolen.Pack.State = validate.PackStolenNow
	apply(t, l, packItem(1, 0, 9, 1), stolen)
	for pack, want := range map[uint32]validate.PackState{2: validate.PackActive, 3: validate.PackStolenNow, 4: validate.PackStolenNow, 5: validate.PackActive} {
		if p, _, err := l.Pack(context.Background(), "00399", pack); err != nil || p.State != want {
			t.Errorf("pack %d is %+v %v", pack, p, err)
		}
	}
}

// TestNewestWordOnEachPackWins holds the runs against a plain map of packs.
func TestNewestWordOnEachPackWins(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	n := 0
	rapid.Check(t, func(r *rapid.T) {
		n++
		opt := options(dir)
		opt.Path = fmt.Sprintf("%s/%d.db", dir, n)
		l, err := Open(ctx, opt)
		if err != nil {
			r.Fatal(err)
		}
		defer l.Close()
		base := rapid.SampledFrom([]uint32{0, 100, math.MaxUint32 - 39}).Draw(r, "base")
		want := map[uint32]int64{}
		for seq := range rapid.Int64Range(1, 12).Draw(r, "items") {
			first := rapid.Uint32Range(0, 39).Draw(r, "first")
			last := rapid.Uint32Range(first, 39).Draw(r, "last")
			epoch := rapid.Int64Range(1, 3).Draw(r, "epoch")
			if err := l.ApplyFeed(ctx, []wire.FeedItem{packItem(seq+1, base+first, base+last, epoch)}, seq+1); err != nil {
				r.Fatal(err)
			}
			for p := first; p <= last; p++ {
				want[base+p] = max(want[base+p], epoch) // a lower owner epoch is stale
			}
		}
		for p := range uint32(40) {
			got, ok, err := l.Pack(ctx, "00399", base+p)
			if e, said := want[base+p]; err != nil || ok != said || got.Epoch != e || ok && (base+p < got.First || base+p > got.Last) {
				r.Fatalf("pack %d: %+v %v %v, want epoch %d", base+p, got, ok, err, e)
			}
		}
	})
}

func TestPacksActivatedOneByOneStayOneRun(t *testing.T) {
	l := openTest(t, options(t.TempDir()))
	for i := range int64(50) {
		apply(t, l, packItem(i+1, uint32(i), uint32(i), 1))
	}
	if p, ok, err := l.Pack(context.Background(), "00399", 7); err != nil || !ok || p.First != 0 || p.Last != 49 {
		t.Fatalf("%+v %v %v", p, ok, err)
	}
}

func TestFeedHeardTwiceChangesNothing(t *testing.T) {
	ctx := context.Background()
	l := openTest(t, options(t.TempDir()))
	stolen := packItem(5, 0, 9, 1)
	stolen.Pack.State = validate.PackStolenNow
	apply(t, l, packItem(3, 0, 9, 1), stolen)
	apply(t, l, packItem(3, 0, 9, 1)) // an old answer that arrives late
	apply(t, l, packItem(3, 0, 9, 1), wire.FeedItem{Seq: 7, Kind: "weather"})
	if p, _, err := l.Pack(ctx, "00399", 5); err != nil || p.State != validate.PackStolenNow {
		t.Fatalf("%+v %v", p, err)
	}
	if c, err := l.FeedCursor(ctx); err != nil || c != 7 {
		t.Fatalf("cursor %d %v", c, err)
	}
}

func TestUnknownFeedKindsAreSteppedOver(t *testing.T) {
	ctx := context.Background()
	l := openTest(t, options(t.TempDir()))
	apply(t, l, wire.FeedItem{Seq: 1, Kind: "weather"}, packItem(2, 0, 9, 4), wire.FeedItem{Seq: 9, Kind: "weather"})
	if p, ok, err := l.Pack(ctx, "00399", 0); err != nil || !ok || p.Epoch != 4 {
		t.Fatalf("%+v %v %v", p, ok, err)
	}
	if c, err := l.FeedCursor(ctx); err != nil || c != 9 {
		t.Fatalf("cursor %d %v", c, err)
	}
}

func TestFeedThatDoesNotHoldTogetherStoresNothing(t *testing.T) {
	ctx := context.Background()
	for name, items := range map[string][]wire.FeedItem{
		"without its pack": {packItem(1, 0, 9, 1), {Seq: 2, Kind: wire.FeedPack}},
		"run backwards":    {packItem(1, 0, 9, 1), packItem(2, 9, 0, 1)},
		"out of order":     {packItem(2, 0, 9, 1), packItem(1, 0, 9, 2)},
		"twice":            {packItem(2, 0, 9, 1), packItem(2, 0, 9, 2)},
		"above its cursor": {packItem(1, 0, 9, 1), packItem(3, 0, 9, 2)},
		"payment unnamed":  {packItem(1, 0, 9, 1), {Seq: 2, Kind: wire.FeedPaid, Paid: &wire.PaidItem{At: wire.FormatTime(noon)}}},
	} {
		l := openTest(t, options(t.TempDir()))
		if err := l.ApplyFeed(ctx, items, 2); !errors.Is(err, ErrFeed) {
			t.Errorf("%s: %v", name, err)
		}
		_, ok, err := l.Pack(ctx, "00399", 5)
		if c, err2 := l.FeedCursor(ctx); ok || c != 0 || err != nil || err2 != nil {
			t.Errorf("%s: half stored: %v, cursor %d, %v %v", name, ok, c, err, err2)
		}
	}
}

// TestPaymentWithNoTimeStillCounts: another terminal's wild clock must not stop this one's feed.
func TestPaymentWithNoTimeStillCounts(t *testing.T) {
	l := openTest(t, options(t.TempDir()))
	key := claim(t, 1).Ticket
	for i, at := range []string{"", "garbage", "2026-11-30T12:00:00Z"} {
		apply(t, l, wire.FeedItem{Seq: int64(i + 1), Kind: wire.FeedPaid, Paid: &wire.PaidItem{Block: key.Block, Pack: key.Pack, Ticket: key.Number, Terminal: "T-2", Number: "1-000001", At: at}})
		if p, err := l.PaidElsewhere(context.Background(), key); err != nil || p == nil || !p.At.IsZero() {
			t.Fatalf("%q: %+v %v", at, p, err)
		}
	}
}

func TestPaymentElsewhereIsKnownWithItsAge(t *testing.T) {
	ctx := context.Background()
	l := openTest(t, options(t.TempDir()))
	key := validate.TicketKey{Block: validate.BlockID{0xab}, Pack: 123, Number: 17}
	if p, err := l.PaidElsewhere(ctx, key); p != nil || err != nil {
		t.Fatalf("%+v %v", p, err)
	}
	paid := func(seq int64, terminal string) wire.FeedItem {
		return wire.FeedItem{Seq: seq, Kind: wire.FeedPaid, Paid: &wire.PaidItem{Block: key.Block, Pack: key.Pack, Ticket: key.Number, Terminal: terminal,
			Number: "1-000044", At: wire.FormatTime(noon.Add(-time.Hour))}}
	}
	apply(t, l, paid(1, "T-9"), paid(2, "T-1")) // our own claim, told back, is not elsewhere
	l = reopen(t, l)
	p, err := l.PaidElsewhere(ctx, key)
	if err != nil || p == nil || p.Terminal != "T-9" || p.Number != "1-000044" || !p.At.Equal(noon.Add(-time.Hour).Truncate(time.Millisecond)) || !p.AsOf.Equal(noon.Truncate(time.Millisecond)) {
		t.Fatalf("%+v %v", p, err)
	}
}

// TestClaimSaysWhatItsTerminalHadHeard: the feed's cursor, in the very transaction.
func TestClaimSaysWhatItsTerminalHadHeard(t *testing.T) {
	ctx := context.Background()
	l := openTest(t, options(t.TempDir()))
	heard := func(n int) int64 {
		t.Helper()
		record(t, l, claim(t, n))
		_, lines, _, err := l.Since(ctx, l.Head().Seq-1, 1)
		if err != nil {
			t.Fatal(err)
		}
		e, err := ParseEntry([]byte(lines[0]))
		if err != nil {
			t.Fatal(err)
		}
		if n == 1 && strings.Contains(lines[0], "feed") {
			t.Errorf("it had heard nothing: %s", lines[0])
		}
		c, err := e.Claim()
		if err != nil {
			t.Fatal(err)
		}
		return c.Feed
	}
	if n := heard(1); n != 0 {
		t.Errorf("item %d", n)
	}
	if err := l.ApplyFeed(ctx, []wire.FeedItem{{Seq: 41, Kind: "later"}}, 41); err != nil {
		t.Fatal(err)
	}
	if n := heard(2); n != 41 {
		t.Errorf("item %d, want 41", n)
	}
	later := Entry{Kind: KindClaim, Body: []byte(`{"claim":"x","later":true}`)}
	if c, err := later.Claim(); err != nil || c.Claim != "x" {
		t.Errorf("a body of a later program: %+v %v", c, err)
	}
}
