package central

import (
	"strings"
	"testing"
	"time"

	"grattoir/sync/wire"
)

func TestMessagesReachWhomTheyAreFor(t *testing.T) { onEachStore(t, testMessagesReachWhomTheyAreFor) }

func testMessagesReachWhomTheyAreFor(t *testing.T, w *world) {
	ctx := t.Context()
	desks := map[string]*desk{}
	for name, region := range map[string]string{"T-1": "bzh", "T-2": "bzh", "T-3": "idf"} {
		desks[name] = newDesk(t, w, name)
		if err := w.SetRegion(ctx, name, region); err != nil {
			t.Fatal(err)
		}
	}
	send := func(m Message) Message {
		t.Helper()
		m.French, m.English, m.Operator = "Bonjour", "Hello", "anne"
		m, err := w.Send(ctx, m)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	all, region, one := send(Message{}), send(Message{Region: "bzh", Mandatory: true, Until: "2026-12-02"}), send(Message{Terminal: "T-3"})
	if all.Number != 1 || region.Number != 2 || one.Number != 3 || all.From != "2026-11-30" {
		t.Fatalf("%+v %+v %+v", all, region, one)
	}
	for name, want := range map[string][]int64{"T-1": {2, 1}, "T-2": {2, 1}, "T-3": {3, 1}} {
		d := desks[name]
		d.sync(t)
		list, err := d.book.Messages(ctx)
		if err != nil || len(list) != len(want) || list[0].Number != want[0] || list[1].Number != want[1] {
			t.Errorf("%s has %+v, want %v: %v", name, list, want, err)
		}
	}
	for range 2 {
		if err := desks["T-1"].book.ReadMessage(ctx, 2, "marie"); err != nil {
			t.Fatal(err)
		}
		if x := desks["T-1"].sync(t); len(x) > 0 {
			t.Fatal(x)
		}
	}
	readers, err := w.MessageReaders(ctx, 2)
	if err != nil || len(readers) != 1 || readers[0].Terminal != "T-1" || readers[0].Operator != "marie" {
		t.Errorf("%+v %v", readers, err)
	}
	list, err := w.Messages(ctx, false)
	if err != nil || len(list) != 3 || list[1].Readers != 1 || !list[1].Mandatory || list[1].Region != "bzh" || list[0].Mandatory {
		t.Errorf("%+v %v", list, err)
	}
	if err := w.SetRegion(ctx, "T-2", "idf"); err != nil { // it hears all the same that its message is gone
		t.Fatal(err)
	}
	wantErr(t, w.Withdraw(ctx, 2), nil)
	wantErr(t, w.Withdraw(ctx, 2), ErrNotFound)
	desks["T-2"].sync(t)
	if list, err := desks["T-2"].book.Messages(ctx); err != nil || len(list) != 1 {
		t.Errorf("%+v %v", list, err)
	}
	w.clock.advance(365 * 24 * time.Hour)
	if list, err := w.Messages(ctx, false); err != nil || len(list) != 2 {
		t.Errorf("%+v %v", list, err)
	}
	if list, err := w.Messages(ctx, true); err != nil || len(list) != 3 || list[1].Withdrawn.IsZero() {
		t.Errorf("%+v %v", list, err)
	}
}

func TestMessagesThatCannotBeReadAreRefused(t *testing.T) {
	w := newWorld(t)
	w.enrolled(t, "T-1")
	good := Message{French: "Bonjour", English: "Hello", Operator: "anne"}
	for what, x := range map[string]struct {
		edit func(*Message)
		want error
	}{
		"nobody":           {func(m *Message) { m.Operator = "" }, ErrRefused},
		"no French":        {func(m *Message) { m.French = " " }, ErrRefused},
		"no English":       {func(m *Message) { m.English = "" }, ErrRefused},
		"too long":         {func(m *Message) { m.French = strings.Repeat("é", wire.MaxWords) }, ErrRefused},
		"moves the cursor": {func(m *Message) { m.English = "a\x1b[2J" }, ErrRefused},
		"both":             {func(m *Message) { m.Region, m.Terminal = "bzh", "T-1" }, ErrRefused},
		"no such terminal": {func(m *Message) { m.Terminal = "T-9" }, ErrNotFound},
		"no such region":   {func(m *Message) { m.Region = "bzh" }, ErrNotFound},
		"no day":           {func(m *Message) { m.From = "1/12/2026" }, ErrRefused},
		"over":             {func(m *Message) { m.From, m.Until = "2026-11-01", "2026-11-29" }, ErrRefused},
		"backwards":        {func(m *Message) { m.From, m.Until = "2026-12-02", "2026-12-01" }, ErrRefused},
	} {
		m := good
		x.edit(&m)
		if _, err := w.Send(t.Context(), m); err == nil || !strings.Contains(err.Error(), x.want.Error()) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if n := w.count(t, "SELECT (SELECT count(*) FROM messages) + (SELECT count(*) FROM feed)"); n != 0 {
		t.Errorf("%d rows of what was refused", n)
	}
}

// TestRegionsMessageReachesWhoComesThereLater, on its days, and keeps the counter from
// paying where it is mandatory; one that was read before stays read.
func TestRegionsMessageReachesWhoComesThereLater(t *testing.T) {
	ctx := t.Context()
	w := newWorld(t)
	here, later := newDesk(t, w, "T-1"), newDesk(t, w, "T-2")
	if err := w.SetRegion(ctx, "T-1", "bzh"); err != nil {
		t.Fatal(err)
	}
	send := func(m Message) int64 {
		t.Helper()
		m.French, m.English, m.Operator, m.Region = "Bonjour", "Hello", "anne", "bzh"
		m, err := w.Send(ctx, m)
		if err != nil {
			t.Fatal(err)
		}
		return m.Number
	}
	over, valid, taken := send(Message{Until: "2026-11-30"}), send(Message{Until: "2026-12-09", Mandatory: true}), send(Message{})
	if err := w.Withdraw(ctx, taken); err != nil {
		t.Fatal(err)
	}
	w.clock.advance(48 * time.Hour)
	if err := w.SetRegion(ctx, "T-2", "bzh"); err != nil {
		t.Fatal(err)
	}
	later.sync(t)
	list, err := later.book.Messages(ctx)
	if err != nil || len(list) != 1 || list[0].Number != valid || !list[0].Mandatory || list[0].Read {
		t.Fatalf("it has %+v, want message %d and not %d: %v", list, valid, over, err)
	}
	here.sync(t)
	if err := here.book.ReadMessage(ctx, valid, "marie"); err != nil {
		t.Fatal(err)
	}
	for _, region := range []string{"", "bzh"} {
		if err := w.SetRegion(ctx, "T-1", region); err != nil {
			t.Fatal(err)
		}
	}
	here.sync(t)
	list, err = here.book.Messages(ctx)
	if err != nil || len(list) != 2 || !list[0].Read {
		t.Errorf("asked to read it again: %+v %v", list, err)
	}
}
