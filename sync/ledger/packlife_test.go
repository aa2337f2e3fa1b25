package ledger

import (
	"context"
	"errors"
	"testing"

	"grattoir/sync/wire"
	"grattoir/validate"
)

// delivered is a run of packs that were delivered to this ledger's terminal.
func delivered(l *Ledger, seq int64, first, last uint32) wire.FeedItem {
	item := packItem(seq, first, last, 1)
	item.Pack.State, item.Pack.Owner = validate.PackDelivered, l.opt.Terminal
	return item
}

func newestEntry(t *testing.T, l *Ledger) Entry {
	t.Helper()
	var line []byte
	head := l.Head()
	if err := l.Lines(context.Background(), head.Epoch, head.Seq, func(_ int64, text []byte) error { line = text; return nil }); err != nil {
		t.Fatal(err)
	}
	e, err := ParseEntry(line)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestActivatedPackIsOnSaleAtOnceAndAfterARestart(t *testing.T) {
	ctx := context.Background()
	opt := options(t.TempDir())
	l, err := Open(ctx, opt)
	if err != nil {
		t.Fatal(err)
	}
	apply(t, l, delivered(l, 1, 10, 19))
	p, err := l.Activate(ctx, "00399", 12, "marie", validate.Scanned)
	if err != nil || p.State != validate.PackActive || !p.Own {
		t.Fatalf("%+v %v", p, err)
	}
	b, err := newestEntry(t, l).PackActivated()
	if want := (PackActivatedBody{GameCode: "00399", Pack: 12, OwnerEpoch: 1, Operator: "marie", Entered: validate.Scanned}); err != nil || b != want {
		t.Errorf("%+v %v", b, err)
	}
	head := l.Head()
	if p, err := l.Activate(ctx, "00399", 12, "marie", validate.Scanned); err != nil || p.State != validate.PackActive || l.Head() != head {
		t.Errorf("a second press: %+v %v, head %+v", p, err, l.Head())
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l = openTest(t, opt)
	for pack, want := range map[uint32]validate.PackState{11: validate.PackDelivered, 12: validate.PackActive, 13: validate.PackDelivered} {
		if p, err := l.PackFacts(ctx, "00399", pack); err != nil || p.State != want {
			t.Errorf("pack %d is %+v %v", pack, p, err)
		}
	}
	if _, err := l.Verify(ctx); err != nil {
		t.Error(err)
	}
}

func TestActivationIsRefusedWhereThePackIsNotOursToSell(t *testing.T) {
	ctx := context.Background()
	l := openTest(t, options(t.TempDir()))
	foreign, returned := delivered(l, 2, 20, 20), delivered(l, 3, 21, 21)
	foreign.Pack.Owner, returned.Pack.State = "T-x", validate.PackReturn
	apply(t, l, delivered(l, 1, 10, 19), foreign, returned)
	head := l.Head()
	for _, pack := range []uint32{9, 20, 21} {
		if _, err := l.Activate(ctx, "00399", pack, "marie", validate.Scanned); !errors.Is(err, ErrPack) {
			t.Errorf("pack %d: %v", pack, err)
		}
	}
	if _, err := l.Activate(ctx, "00399", 10, "ma\"rie", validate.Scanned); err == nil {
		t.Error("a name that no operator has")
	}
	if l.Head() != head {
		t.Error("a refusal wrote an entry")
	}
	if err := l.SetTraining(ctx, true, "marie"); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Activate(ctx, "00399", 10, "marie", validate.Scanned); !errors.Is(err, ErrTraining) {
		t.Errorf("in training: %v", err)
	}
}

func TestNewestWordOnSingleTicketsIsAllThatHolds(t *testing.T) {
	ctx := context.Background()
	l := openTest(t, options(t.TempDir()))
	item := func(seq int64, stolen, returned []wire.TicketRun) wire.FeedItem {
		return wire.FeedItem{Seq: seq, Kind: wire.FeedTickets, Tickets: &wire.TicketsItem{GameCode: "00399", Pack: 10, Stolen: stolen, Returned: returned}}
	}
	want := func(states map[uint16]validate.PackState) {
		t.Helper()
		for ticket, want := range states {
			if got, err := l.TicketState(ctx, "00399", 10, ticket); err != nil || got != want {
				t.Errorf("ticket %d is %q %v, want %q", ticket, got, err, want)
			}
		}
		if got, err := l.TicketState(ctx, "00399", 11, 5); err != nil || got != "" {
			t.Errorf("a ticket of another pack is %q %v", got, err)
		}
	}
	apply(t, l, delivered(l, 1, 10, 11), item(2, []wire.TicketRun{{First: 5, Last: 9}}, []wire.TicketRun{{First: 8, Last: 12}}))
	want(map[uint16]validate.PackState{4: "", 5: validate.PackStolenNow, 9: validate.PackStolenNow, 12: validate.PackReturn, 13: ""})
	apply(t, l, item(3, nil, []wire.TicketRun{{First: 8, Last: 12}}))
	want(map[uint16]validate.PackState{5: "", 9: validate.PackReturn})
	if p, err := l.PackFacts(ctx, "00399", 10); err != nil || len(p.Returned) != 1 || len(p.Stolen) != 0 {
		t.Errorf("%+v %v", p, err)
	}
	apply(t, l, item(4, nil, nil))
	want(map[uint16]validate.PackState{9: ""})
	for what, bad := range map[string]*wire.TicketsItem{
		"nothing":      nil,
		"no game code": {Pack: 10},
		"backwards":    {GameCode: "00399", Pack: 10, Stolen: []wire.TicketRun{{First: 9, Last: 5}}},
		"overlapping":  {GameCode: "00399", Pack: 10, Stolen: []wire.TicketRun{{First: 1, Last: 5}, {First: 5, Last: 6}}},
		"too many":     {GameCode: "00399", Pack: 10, Stolen: make([]wire.TicketRun, wire.MaxTicketRuns+1)},
	} {
		if err := l.ApplyFeed(ctx, []wire.FeedItem{{Seq: 5, Kind: wire.FeedTickets, Tickets: bad}}, 5); !errors.Is(err, ErrFeed) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestSettlementOfOurPacksIsAnEntry(t *testing.T) {
	l := openTest(t, options(t.TempDir()))
	mine, theirs := delivered(l, 2, 12, 14), delivered(l, 3, 30, 31)
	mine.Pack.State, theirs.Pack.State, theirs.Pack.Owner = validate.PackSettled, validate.PackSettled, "T-x"
	apply(t, l, delivered(l, 1, 10, 19), mine, theirs)
	b, err := newestEntry(t, l).PackSettled()
	if want := (PackSettledBody{GameCode: "00399", First: 12, Last: 14, OwnerEpoch: 1}); err != nil || b != want || l.Head().Seq != 1 {
		t.Errorf("%+v %v, %d entries", b, err, l.Head().Seq)
	}
	apply(t, l, mine) // heard again: it lies below the cursor
	if l.Head().Seq != 1 {
		t.Error("an item heard twice is two entries")
	}
}
