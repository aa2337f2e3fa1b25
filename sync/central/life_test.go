package central

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"grattoir/sync/ledger"
	"grattoir/sync/wire"
	"grattoir/validate"
)

// TestEveryStepOfAPacksLifeIsLegalOrRefused holds the table against the steps written out
// one by one: what is missing here is refused, and the refusal says what is legal.
func TestEveryStepOfAPacksLifeIsLegalOrRefused(t *testing.T) {
	legal := map[string]validate.PackState{
		"printed deliver": "delivered", "delivered activate": "active", "active settle": "settled", "delivered return": "returned", "active return": "returned",
		"printed stolen": "stolen", "delivered stolen": "stolen", "active stolen": "stolen", "settled stolen": "stolen", "returned stolen": "stolen", "stolen recover": "active",
	}
	states := []validate.PackState{validate.PackPrinted, validate.PackDelivered, validate.PackActive, validate.PackSettled, validate.PackReturn, validate.PackStolenNow}
	acts := []PackAct{DeliverPack, ActivatePack, SettlePack, ReturnPack, StealPack, RecoverPack}
	seen := 0
	for _, state := range states {
		for _, act := range acts {
			step := string(state) + " " + string(act)
			got, err := packRow{pack: 12, state: state, owner: "T-1", was: validate.PackActive}.next(act)
			want, ok := legal[step]
			if ok {
				seen++
			}
			if ok != (err == nil) || got != want || err != nil && !errors.Is(err, ErrRefused) {
				t.Errorf("%s: %s %v, want %s", step, got, err, want)
			}
			if err == nil {
				continue
			}
			for _, other := range acts {
				if _, ok := legal[string(state)+" "+string(other)]; ok && !strings.Contains(err.Error(), string(other)) {
					t.Errorf("%s: the refusal does not say that it can be: %s: %v", step, other, err)
				}
			}
		}
	}
	if seen != len(legal) {
		t.Errorf("%d of %d steps seen", seen, len(legal))
	}
}

func TestPacksLifeIsToldToEveryTerminal(t *testing.T) {
	onEachStore(t, testPacksLifeIsToldToEveryTerminal)
}

func testPacksLifeIsToldToEveryTerminal(t *testing.T, w *world) {
	ctx := t.Context()
	owner, other := w.enrolled(t, "T-1"), w.enrolled(t, "T-2")
	w.give(t, "T-1", 10, 12)
	do := func(want validate.PackState, runs []wire.PackItem, err error) {
		t.Helper()
		if err != nil || len(runs) != 1 || runs[0].State != want || runs[0].Owner != "T-1" || runs[0].Epoch != 1 {
			t.Fatalf("%+v %v, want %s", runs, err, want)
		}
		for _, d := range []*device{owner, other} {
			items := d.feed(t, 0)
			if last := items[len(items)-1]; last.Kind != wire.FeedPack || *last.Pack != runs[0] {
				t.Errorf("%s heard %+v last, want %+v", d.name, last, runs[0])
			}
		}
	}
	runs, err := w.Settle(ctx, "399", 10, 10, "anne")
	do(validate.PackSettled, runs, err)
	runs, err = w.ReportStolen(ctx, "399", 10, 10)
	do(validate.PackStolenNow, runs, err)
	runs, err = w.RecoverPacks(ctx, "399", 10, 10)
	do(validate.PackSettled, runs, err)
	runs, err = w.Return(ctx, "399", 11, 11)
	do(validate.PackReturn, runs, err)
	won := w.winners(12, 12)[0]
	owner.pay(t, won)
	owner.send(t, 1, 1)
	if _, err := w.Return(ctx, "399", 12, 12); !errors.Is(err, ErrRefused) {
		t.Errorf("a pack of which a ticket was paid came back unsold: %v", err)
	}
	list, err := w.Packs(ctx, PackFilter{GameCode: "399", State: validate.PackSettled, Owner: "T-1"})
	if err != nil || len(list) != 1 || list[0].Number != 10 || list[0].SettledBy != "anne" || !list[0].Settled.Equal(noon) || !list[0].Activated.Equal(noon) || list[0].Before != "" {
		t.Errorf("%+v %v", list, err)
	}
}

// TestClaimsOfAStolenPackThatWasNeverSoldAreNotCredited: and those of one that was are,
// for they may have been paid before the theft was told.
func TestClaimsOfAStolenPackThatWasNeverSoldAreNotCredited(t *testing.T) {
	w := newWorld(t)
	d := w.enrolled(t, "T-1")
	if _, err := w.Deliver(t.Context(), "399", 10, 14, "T-1"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Activate(t.Context(), "399", 10, 11); err != nil {
		t.Fatal(err)
	}
	if _, err := w.ReportStolen(t.Context(), "399", 10, 14); err != nil {
		t.Fatal(err)
	}
	d.pay(t, w.winners(10, 11)[0])
	d.pay(t, w.winners(12, 14)[0])
	_, a := d.send(t, 1, 2)
	wantException(t, a, 2, wire.NoRight)
}

func TestTicketsOfAPackAreMarkedInOrderOnly(t *testing.T) {
	onEachStore(t, testTicketsOfAPackAreMarkedInOrderOnly)
}

func testTicketsOfAPackAreMarkedInOrderOnly(t *testing.T, w *world) {
	ctx := t.Context()
	d := newDesk(t, w, "T-1")
	w.give(t, "T-1", 10, 12)
	mark := func(pack uint32, first, last uint16, act PackAct, stolen, returned string) {
		t.Helper()
		item, err := w.MarkTickets(ctx, "399", pack, first, last, act)
		if stolen == "" {
			if !errors.Is(err, ErrRefused) && !errors.Is(err, ErrNotFound) {
				t.Errorf("%s %d-%d: %v, want a refusal", act, first, last, err)
			}
			return
		}
		if err != nil || runsText(item.Stolen) != stolen || runsText(item.Returned) != returned {
			t.Fatalf("%s %d-%d: stolen %s, returned %s, %v", act, first, last, runsText(item.Stolen), runsText(item.Returned), err)
		}
		d.sync(t)
		for ticket := range uint16(60) {
			state, err := d.book.TicketState(ctx, "00399", pack, ticket)
			if err != nil || state != item.State(ticket) {
				t.Fatalf("ticket %d is %q at the terminal, %q at central: %v", ticket, state, item.State(ticket), err)
			}
		}
	}
	mark(10, 20, 29, StealPack, "20-29", "none")
	mark(10, 30, 30, StealPack, "20-30", "none")
	mark(10, 25, 40, StealPack, "", "")
	mark(10, 29, 40, ReturnPack, "", "")
	mark(10, 40, 59, ReturnPack, "20-30", "40-59")
	mark(10, 59, 59, ReturnPack, "", "")
	mark(10, 40, 41, StealPack, "20-30 40-41", "40-59")
	mark(10, 24, 25, RecoverPack, "20-23 26-30 40-41", "40-59")
	mark(10, 20, 26, RecoverPack, "", "")
	mark(10, 40, 41, RecoverPack, "20-23 26-30", "40-59")
	mark(10, 5, 4, StealPack, "", "")
	mark(10, 60, 60, StealPack, "", "")
	mark(10, 1, 1, SettlePack, "", "")
	mark(9, 1, 1, StealPack, "", "")
	mark(13, 1, 1, ReturnPack, "", "") // delivered to nobody
	mark(13, 1, 1, StealPack, "1", "none")
	won := w.winners(11, 12)[0]
	if _, err := d.record(t, won, 0, 1); err != nil {
		t.Fatal(err)
	}
	d.sync(t)
	mark(won.code.Pack, won.code.Number, won.code.Number, ReturnPack, "", "")
	mark(won.code.Pack, won.code.Number, won.code.Number, StealPack, runsText([]wire.TicketRun{{First: won.code.Number, Last: won.code.Number}}), "none")
	if _, err := w.ReportStolen(ctx, "399", 12, 12); err != nil {
		t.Fatal(err)
	}
	mark(12, 1, 1, StealPack, "", "")
	list, err := w.Packs(ctx, PackFilter{})
	if err != nil || len(list) != 4 || runsText(list[0].Stolen) != "20-23 26-30" || runsText(list[0].Returned) != "40-59" {
		t.Errorf("%+v %v", list, err)
	}
}

// TestTicketRunsAgreeWithASet holds the runs against a plain set of tickets.
func TestTicketRunsAgreeWithASet(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		set, runs := [40]bool{}, []wire.TicketRun{}
		for range rapid.IntRange(1, 20).Draw(r, "acts") {
			a := uint16(rapid.IntRange(0, 39).Draw(r, "first"))
			run := wire.TicketRun{First: a, Last: uint16(rapid.IntRange(int(a), 39).Draw(r, "last"))}
			all, some := true, false
			for n := run.First; n <= run.Last; n++ {
				all, some = all && set[n], some || set[n]
			}
			if covered(runs, run) != all || touched(runs, run) != some {
				r.Fatalf("%v in %v: covered %v, touched %v", run, runs, covered(runs, run), touched(runs, run))
			}
			switch {
			case all:
				runs = without(runs, run)
			case !some:
				runs = with(runs, run)
			default:
				continue
			}
			for n := run.First; n <= run.Last; n++ {
				set[n] = !all
			}
			item := wire.TicketsItem{GameCode: "1", Stolen: runs}
			if err := item.Check(); err != nil {
				r.Fatalf("%v: %v", runs, err)
			}
			for n, in := range set {
				if (item.State(uint16(n)) != "") != in {
					r.Fatalf("%d in %v: want %v", n, runs, in)
				}
			}
			if i := slices.IndexFunc(runs, func(x wire.TicketRun) bool {
				return slices.ContainsFunc(runs, func(y wire.TicketRun) bool { return int(x.Last)+1 == int(y.First) })
			}); i >= 0 {
				r.Fatalf("neighbours in %v", runs)
			}
		}
	})
}

// TestShopActivatesAPackAndCentralDecides: at once at the shop, then at central; what is
// not legal there comes back as an exception, and the feed puts the terminal right.
func TestShopActivatesAPackAndCentralDecides(t *testing.T) {
	onEachStore(t, testShopActivatesAPackAndCentralDecides)
}

func testShopActivatesAPackAndCentralDecides(t *testing.T, w *world) {
	ctx := t.Context()
	d, other := newDesk(t, w, "T-1"), newDesk(t, w, "T-2")
	if _, err := w.Deliver(ctx, "399", 10, 19, "T-1"); err != nil {
		t.Fatal(err)
	}
	d.sync(t)
	won := w.winners(10, 19)[0]
	sold := won.code.Pack
	gone, left := 10+(sold+1)%10, 10+(sold+2)%10
	for range 2 { // the second changes nothing
		p, err := d.book.Activate(ctx, "00399", sold, "marie", validate.Scanned)
		if err != nil || p.State != validate.PackActive {
			t.Fatalf("%+v %v", p, err)
		}
	}
	if _, err := d.book.Activate(ctx, "00399", gone, "marie", validate.Scanned); err != nil {
		t.Fatal(err)
	}
	if _, err := w.ReportStolen(ctx, "399", gone, gone); err != nil { // which the terminal has not heard yet
		t.Fatal(err)
	}
	if _, err := d.record(t, won, 0, 1); err != nil {
		t.Fatal(err)
	}
	x := d.sync(t)
	if len(x) != 1 || x[0].Seq != 2 || x[0].Kind != wire.PackRefused {
		t.Fatalf("exceptions %+v", x)
	}
	other.sync(t)
	for _, desk := range []*desk{d, other} {
		for pack, want := range map[uint32]validate.PackState{sold: validate.PackActive, gone: validate.PackStolenNow, left: validate.PackDelivered} {
			if p, err := desk.book.PackFacts(ctx, "00399", pack); err != nil || p.State != want || p.Own != (desk == d) {
				t.Errorf("at %s pack %d is %+v %v, want %s", desk.name, pack, p, err, want)
			}
		}
	}
	if n := w.count(t, "SELECT count(*) FROM claims"); n != 1 {
		t.Errorf("%d claims credited", n)
	}
	if p, err := d.book.Activate(ctx, "00399", gone, "marie", validate.Scanned); !errors.Is(err, ledger.ErrPack) || p.State != validate.PackStolenNow {
		t.Errorf("a stolen pack was put on sale: %+v %v", p, err)
	}
	if _, err := other.book.Activate(ctx, "00399", left, "marie", validate.Scanned); !errors.Is(err, ledger.ErrPack) {
		t.Errorf("another terminal's pack was put on sale: %v", err)
	}
}

// TestActivationThatTheTerminalHadNoRightToIsPutRight: whatever a terminal believes.
func TestActivationThatTheTerminalHadNoRightToIsPutRight(t *testing.T) {
	w := newWorld(t)
	d := w.enrolled(t, "T-1")
	w.enrolled(t, "T-2")
	if _, err := w.Deliver(t.Context(), "399", 10, 10, "T-2"); err != nil {
		t.Fatal(err)
	}
	before := d.feed(t, 0)
	for _, pack := range []uint32{10, 11, 99} {
		d.record(t, ledger.KindPackActivated, ledger.PackActivatedBody{GameCode: "00399", Pack: pack, OwnerEpoch: 1, Operator: "marie", Entered: validate.Scanned})
	}
	d.record(t, ledger.KindPackActivated, ledger.PackActivatedBody{GameCode: "00400", Pack: 1, Operator: "marie", Entered: validate.Scanned})
	_, a := d.send(t, 1, 4)
	if len(a.Exceptions) != 4 {
		t.Fatalf("exceptions %+v", a.Exceptions)
	}
	for _, x := range a.Exceptions {
		if x.Kind != wire.PackRefused {
			t.Errorf("%+v", x)
		}
	}
	items := slices.DeleteFunc(d.feed(t, before[len(before)-1].Seq), func(i wire.FeedItem) bool { return i.Kind == wire.FeedException })
	if len(items) != 2 || items[0].Pack.Owner != "T-2" || items[0].Pack.State != validate.PackDelivered || items[1].Pack.State != validate.PackPrinted {
		t.Errorf("%+v", items)
	}
	if n := w.count(t, "SELECT count(*) FROM conflicts WHERE pack IN (10, 11) AND ticket IS NULL"); n != 2 {
		t.Errorf("%d conflicts name their pack", n)
	}
}
