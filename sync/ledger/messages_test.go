package ledger

import (
	"context"
	"errors"
	"strings"
	"testing"

	"grattoir/sync/wire"
)

func spoken(seq, number int64, edit ...func(*wire.MessageItem)) wire.FeedItem {
	m := &wire.MessageItem{Number: number, Mandatory: true, From: "2026-11-30", Until: "2026-12-02", French: "Alerte", English: "Alert"}
	for _, e := range edit {
		e(m)
	}
	return wire.FeedItem{Seq: seq, Kind: wire.FeedMessage, Message: m}
}

func TestMessageIsReadOnceAndStaysReadOverRestartsAndCorrections(t *testing.T) {
	ctx := context.Background()
	opt := options(t.TempDir())
	l, err := Open(ctx, opt)
	if err != nil {
		t.Fatal(err)
	}
	apply(t, l, spoken(1, 7), spoken(2, 8))
	for range 2 {
		if err := l.ReadMessage(ctx, 7, "marie"); err != nil {
			t.Fatal(err)
		}
	}
	if b, err := newestEntry(t, l).MessageRead(); err != nil || b != (MessageReadBody{Message: 7, Operator: "marie"}) || l.Head().Seq != 1 {
		t.Errorf("%+v %v, %d entries", b, err, l.Head().Seq)
	}
	if err := l.ReadMessage(ctx, 9, "marie"); !errors.Is(err, ErrNotFound) {
		t.Errorf("a message that is not here: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l = openTest(t, opt)
	apply(t, l, spoken(3, 7, func(m *wire.MessageItem) { m.French = "Alerte corrigée" }))
	list, err := l.Messages(ctx)
	if err != nil || len(list) != 2 || list[0].Number != 8 || list[0].Read || !list[1].Read || list[1].Reader != "marie" || list[1].French != "Alerte corrigée" || list[1].ReadAt.IsZero() {
		t.Errorf("%+v %v", list, err)
	}
	apply(t, l, wire.FeedItem{Seq: 4, Kind: wire.FeedMessage, Message: &wire.MessageItem{Number: 7, Withdrawn: true}})
	if list, err := l.Messages(ctx); err != nil || len(list) != 1 {
		t.Errorf("after it was withdrawn: %+v %v", list, err)
	}
	if _, err := l.Verify(ctx); err != nil {
		t.Error(err)
	}
}

func TestMessagesThatDoNotHoldTogetherAreNotStored(t *testing.T) {
	l := openTest(t, options(t.TempDir()))
	for what, edit := range map[string]func(*wire.MessageItem){
		"no number": func(m *wire.MessageItem) { m.Number = 0 }, "no French": func(m *wire.MessageItem) { m.French = "" }, "no English": func(m *wire.MessageItem) { m.English = "" },
		"too long": func(m *wire.MessageItem) { m.English = strings.Repeat("x", wire.MaxWords+1) }, "no day": func(m *wire.MessageItem) { m.From = "tomorrow" },
		"no last day": func(m *wire.MessageItem) { m.Until = "2026-13-01" },
	} {
		if err := l.ApplyFeed(context.Background(), []wire.FeedItem{spoken(1, 1, edit)}, 1); !errors.Is(err, ErrFeed) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := l.ApplyFeed(context.Background(), []wire.FeedItem{{Seq: 1, Kind: wire.FeedMessage}}, 1); !errors.Is(err, ErrFeed) {
		t.Error(err)
	}
}

func TestMessagesAreBounded(t *testing.T) {
	l := openTest(t, options(t.TempDir()))
	var items []wire.FeedItem
	for n := range int64(keptMessages + 10) {
		items = append(items, spoken(n+1, n+1))
	}
	apply(t, l, items...)
	list, err := l.Messages(context.Background())
	if err != nil || len(list) != keptMessages || list[0].Number != keptMessages+10 {
		t.Errorf("%d messages, the newest %d: %v", len(list), list[0].Number, err)
	}
}
