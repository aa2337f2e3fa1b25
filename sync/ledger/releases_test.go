package ledger

import (
	"bytes"
	"context"
	"testing"

	"grattoir/sync/wire"
	"grattoir/validate"
)

func entriesOf(t testing.TB, l *Ledger, kind Kind) []Entry {
	t.Helper()
	var list []Entry
	if err := l.Lines(context.Background(), 1, 0, func(_ int64, line []byte) error {
		e, err := ParseEntry(line)
		if e.Kind == kind {
			list = append(list, e)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return list
}

// TestReleasedPackIsPaidByCentralsWordOnly: from the very commit on, over restarts, until
// central gives it back at a raised owner epoch; what is decided before it and recorded
// after it is not paid either.
func TestReleasedPackIsPaidByCentralsWordOnly(t *testing.T) {
	ctx := context.Background()
	l := openTest(t, options(t.TempDir()))
	apply(t, l, packItem(1, 120, 179, 3))
	record(t, l, claim(t, 1))
	n, err := l.Release(ctx, "marie", ReleaseClosing)
	if err != nil || n != 1 {
		t.Fatalf("%d runs: %v", n, err)
	}
	wantRight(t, l, claim(t, 2))
	l = reopen(t, l)
	wantRight(t, l, claim(t, 2))
	if gone, err := l.Released(ctx, "00399", 123, 3); err != nil || !gone {
		t.Fatalf("released %v: %v", gone, err)
	}
	if n, err := l.Release(ctx, "marie", ReleaseAsked); err != nil || n != 0 {
		t.Fatalf("released again: %d runs, %v", n, err)
	}
	list := entriesOf(t, l, KindRelease)
	if len(list) != 1 || list[0].Seq != 2 {
		t.Fatalf("%+v", list)
	}
	b, err := list[0].Release()
	if err != nil || b.Operator != "marie" || len(b.Packs) != 1 || b.Packs[0] != (ReleasedPacks{"00399", 120, 179, 3}) {
		t.Fatalf("%+v %v", b, err)
	}
	record(t, l, granted(t, l, claim(t, 2)))
	if err := l.TakeBack(ctx); err != nil {
		t.Fatal(err)
	}
	if wanted, known, err := l.Wanted(ctx); err != nil || !wanted || known {
		t.Fatalf("wanted %v, known %v before central has the release: %v", wanted, known, err)
	}
	ackTo(t, l, 2)
	if wanted, known, err := l.Wanted(ctx); err != nil || !wanted || !known {
		t.Fatalf("wanted %v, known %v: %v", wanted, known, err)
	}
	apply(t, l, packItem(2, 120, 179, 4))
	if wanted, _, err := l.Wanted(ctx); err != nil || wanted {
		t.Fatalf("wanted %v after they came back: %v", wanted, err)
	}
	wantRight(t, l, claim(t, 3)) // of the epoch that was given up
	back := claim(t, 3)
	back.OwnerEpoch = 4
	record(t, l, back)
	if _, err := l.Verify(ctx); err != nil {
		t.Error(err)
	}
}

// TestPackThatWasMovedAwayIsReleasedInTheJournal: central learns where the old right ends.
func TestPackThatWasMovedAwayIsReleasedInTheJournal(t *testing.T) {
	ctx := context.Background()
	l := openTest(t, options(t.TempDir()))
	apply(t, l, packItem(1, 120, 179, 3))
	record(t, l, claim(t, 1))
	away := packItem(2, 100, 130, 4)
	away.Pack.Owner = "T-2"
	apply(t, l, away)
	wantRight(t, l, claim(t, 2))
	list := entriesOf(t, l, KindRelease)
	if len(list) != 1 {
		t.Fatalf("%d releases", len(list))
	}
	if b, err := list[0].Release(); err != nil || b.Reason != ReleaseMoved || len(b.Packs) != 1 || b.Packs[0] != (ReleasedPacks{"00399", 120, 130, 3}) {
		t.Fatalf("%+v %v", b, err)
	}
	other := claim(t, 2) // of a pack that stayed
	other.Ticket.Pack, other.Slip.Pack = 131, "0000131"
	record(t, l, other)
	apply(t, l, wire.FeedItem{Seq: 3, Kind: wire.FeedPack, Pack: away.Pack}) // said again
	if n := len(entriesOf(t, l, KindRelease)); n != 1 {
		t.Errorf("%d releases of one move", n)
	}
	if _, err := l.Verify(ctx); err != nil {
		t.Error(err)
	}
}

// TestManyRunsAreReleasedInEntriesThatFit a line.
func TestManyRunsAreReleasedInEntriesThatFit(t *testing.T) {
	l := openTest(t, options(t.TempDir()))
	var items []wire.FeedItem
	for i := range 250 {
		items = append(items, wire.FeedItem{Seq: int64(i + 1), Kind: wire.FeedPack, Pack: &wire.PackItem{GameCode: "00399", First: uint32(10 * i), Last: uint32(10*i + 1),
			State: validate.PackActive, Owner: "T-1", Epoch: 1}})
	}
	apply(t, l, items...)
	if n, err := l.Release(context.Background(), "", ReleaseClosing); err != nil || n != 250 {
		t.Fatalf("%d: %v", n, err)
	}
	if n := len(entriesOf(t, l, KindRelease)); n != 3 {
		t.Errorf("%d entries", n)
	}
	if _, err := l.Verify(context.Background()); err != nil {
		t.Error(err)
	}
}

// TestImportKeepsReleases: a journal put onto another card must not pay what it gave up.
func TestImportKeepsReleases(t *testing.T) {
	p := newParties(t)
	apply(t, p.l, packItem(1, 120, 179, 3))
	record(t, p.l, claim(t, 1))
	if _, err := p.l.Release(context.Background(), "marie", ReleaseClosing); err != nil {
		t.Fatal(err)
	}
	text := exported(t, p.l, Range{})
	opt := options(t.TempDir())
	if _, err := Import(context.Background(), bytes.NewReader(text), opt, ImportOptions{Keys: p.keys}); err != nil {
		t.Fatal(err)
	}
	l := openTest(t, opt)
	wantRight(t, l, claim(t, 2))
	if _, err := l.Verify(context.Background()); err != nil {
		t.Error(err)
	}
}
