package ledger

import (
	"context"
	"testing"

	"grattoir/sync/wire"
	"grattoir/validate"
)

// TestStandingNamesWhatThisTerminalMayPay: packs but those given up, permissions but those
// that central has the payment of, and what is held since the feed item that it knows.
func TestStandingNamesWhatThisTerminalMayPay(t *testing.T) {
	ctx := context.Background()
	l := openTest(t, options(t.TempDir()))
	self := l.opt.Terminal
	pack := func(first, last uint32, epoch int64) wire.FeedItem {
		return wire.FeedItem{Kind: wire.FeedPack, Pack: &wire.PackItem{GameCode: "00399", First: first, Last: last, State: validate.PackActive, Owner: self, Epoch: epoch}}
	}
	feed := func(seq int64, item wire.FeedItem) {
		t.Helper()
		item.Seq = seq
		if err := l.ApplyFeed(ctx, []wire.FeedItem{item}, seq); err != nil {
			t.Fatal(err)
		}
	}
	feed(1, pack(10, 19, 1))
	if _, err := l.Release(ctx, "marie", ReleaseAsked); err != nil {
		t.Fatal(err)
	}
	feed(2, pack(14, 15, 2)) // given back
	feed(3, pack(30, 31, 1))
	feed(4, holdOf(claim(t, 7), 4)[0])
	feed(5, holdOf(claim(t, 8), 5)[0])

	held, err := l.HeadPosition(ctx)
	if err != nil {
		t.Fatal(err)
	}
	open, used := granted(t, l, claim(t, 1)), granted(t, l, claim(t, 2))
	record(t, l, used)
	asking := claim(t, 3)
	if _, err := l.Intend(ctx, asking); err != nil {
		t.Fatal(err)
	}
	back := granted(t, l, claim(t, 4))
	if err := l.GiveBack(ctx, back.ID); err != nil {
		t.Fatal(err)
	}

	s, err := l.Standing(ctx, held, 4)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Packs) != 2 || s.Packs[0].First != 14 || s.Packs[0].Last != 15 || s.Packs[0].Epoch != 2 || s.Packs[1].First != 30 {
		t.Errorf("packs %+v", s.Packs)
	}
	if len(s.Claims) != 2 || s.Claims[0].Claim != open.ID || s.Claims[1].Claim != used.ID || s.Claims[0].OwnerEpoch != 3 {
		t.Errorf("claims %+v", s.Claims)
	}
	if len(s.Held) != 1 || s.Held[0].Hold != 5 || s.Held[0].Ticket != claim(t, 8).Ticket.Number {
		t.Errorf("held %+v", s.Held)
	}
	now, err := l.HeadPosition(ctx)
	if err != nil {
		t.Fatal(err)
	}
	c := claim(t, 9)
	feed(6, wire.FeedItem{Kind: wire.FeedPaid, Paid: &wire.PaidItem{Block: c.Ticket.Block, Pack: c.Ticket.Pack, Ticket: c.Ticket.Number, Terminal: "T-X", Number: "1-000004"}})
	if s, err = l.Standing(ctx, now, 5); err != nil || len(s.Paid) != 1 || s.Paid[0].Ticket != c.Ticket.Number || s.Paid[0].Terminal != "T-X" {
		t.Errorf("paid elsewhere: %+v %v", s.Paid, err)
	}
	if s, err = l.Standing(ctx, now, 5); err != nil || len(s.Claims) != 1 || len(s.Held) != 0 {
		t.Errorf("after central has the payment: %+v %v", s, err)
	}
	for n, part := range s.Parts() {
		if part.Mark = "m"; part.Check() != nil || part.Last != (n == len(s.Parts())-1) {
			t.Errorf("part %d: %v", n, part.Check())
		}
	}
}
