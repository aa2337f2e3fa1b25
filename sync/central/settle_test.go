package central

import (
	"testing"
	"time"

	"grattoir/sync/wire"
	"grattoir/validate"
	"grattoir/validate/manifest"
)

func (w *world) settled(t *testing.T) map[uint32]string {
	t.Helper()
	list, err := w.Packs(t.Context(), PackFilter{State: validate.PackSettled})
	if err != nil {
		t.Fatal(err)
	}
	by := map[uint32]string{}
	for _, p := range list {
		by[p.Number] = p.SettledBy
	}
	return by
}

func TestPacksSettleAfterTheirDaysOnSale(t *testing.T) {
	onEachStore(t, testPacksSettleAfterTheirDaysOnSale)
}

func testPacksSettleAfterTheirDaysOnSale(t *testing.T, w *world) {
	d := newDesk(t, w, "T-1")
	w.give(t, "T-1", 10, 11)
	due := func(want int, rules SettleRules) {
		t.Helper()
		if n, err := w.SettleDue(t.Context(), rules, true); err != nil || n != want {
			t.Fatalf("%d settled, want %d: %v", n, want, err)
		}
	}
	rules := SettleRules{Every: SettleRule{Days: 50}}
	w.clock.advance(24 * time.Hour)
	w.give(t, "T-1", 12, 13)
	if _, err := w.ReportStolen(t.Context(), "399", 11, 11); err != nil {
		t.Fatal(err)
	}
	w.clock.advance(49*24*time.Hour - time.Second)
	due(0, rules)
	w.clock.advance(time.Second)
	due(0, SettleRules{})
	due(0, SettleRules{Every: SettleRule{Days: 50}, Games: map[string]SettleRule{"bingo": {}}})
	due(1, rules) // 11 is stolen, 12 and 13 are a day younger
	due(0, rules)
	d.sync(t)
	if p, err := d.book.PackFacts(t.Context(), "00399", 10); err != nil || p.State != validate.PackSettled {
		t.Errorf("the terminal has %+v %v", p, err)
	}
	w.clock.advance(24 * time.Hour)
	due(2, rules)
	if got := w.settled(t); len(got) != 3 || got[10] != settledByDays || got[12] != settledByDays {
		t.Errorf("%v", got)
	}
	items := d.feed(t, 0)
	last := items[len(items)-1]
	if last.Kind != wire.FeedPack || last.Pack.First != 12 || last.Pack.Last != 13 || last.Pack.State != validate.PackSettled {
		t.Errorf("the feed ends with %+v: two packs of one moment are one item", last)
	}
}

func TestPackSettlesWhenItsLowPrizesArePaid(t *testing.T) {
	onEachStore(t, testPackSettlesWhenItsLowPrizesArePaid)
}

// The block holds 20 low prizes in 10 packs: two a pack on average, so 100 percent are two.
func testPackSettlesWhenItsLowPrizesArePaid(t *testing.T, w *world) {
	d := newDesk(t, w, "T-1")
	w.give(t, "T-1", 10, 19)
	low := map[uint32][]lot{}
	for _, l := range w.winners(10, 19) {
		if l.tier == 2 {
			low[l.code.Pack] = append(low[l.code.Pack], l)
		}
	}
	var full, half uint32
	for pack, lots := range low {
		switch {
		case full == 0 && len(lots) >= 2:
			full = pack
		case half == 0:
			half = pack
		}
	}
	if full == 0 || half == 0 {
		t.Fatalf("no pack with two low prizes, or no other: %v", low)
	}
	rules := SettleRules{Every: SettleRule{Percent: 100, LowMinor: 2000}}
	pay := func(id int, l lot) validate.Receipt {
		t.Helper()
		r, err := d.record(t, l, 0, id)
		if err != nil {
			t.Fatal(err)
		}
		if x := d.sync(t); len(x) > 0 {
			t.Fatal(x)
		}
		return r
	}
	due := func(want int, all bool) {
		t.Helper()
		if n, err := w.SettleDue(t.Context(), rules, all); err != nil || n != want {
			t.Fatalf("%d settled, want %d: %v", n, want, err)
		}
	}
	first := pay(1, low[full][0])
	pay(2, low[half][0])
	due(0, true)
	// One that was taken back was not paid.
	if _, err := d.book.RequestReversal(t.Context(), validate.Reversal{ID: "0123456789abcdef0123456789abcdef", Number: first.Number, Reason: validate.PlayerLeft, Operator: "marie", Manager: "paul"}); err != nil {
		t.Fatal(err)
	}
	d.sync(t)
	if _, err := w.Decide(t.Context(), "T-1", first.Number, true, ""); err != nil {
		t.Fatal(err)
	}
	d.sync(t)
	pay(3, low[full][1])
	due(0, false)
	due(0, true)
	rules.Every.Percent = 50
	due(2, true)
	if got := w.settled(t); got[full] != settledByPercent || got[half] != settledByPercent {
		t.Errorf("%v", got)
	}
}

func TestSettlementLooksAtNewClaimsAlone(t *testing.T) {
	w := newWorld(t)
	d := newDesk(t, w, "T-1")
	w.give(t, "T-1", 10, 19)
	won := w.winners(10, 19)[0]
	if _, err := d.record(t, won, 0, 1); err != nil {
		t.Fatal(err)
	}
	d.sync(t)
	rules := SettleRules{Every: SettleRule{Percent: 1}}
	if n, err := w.SettleDue(t.Context(), rules, false); err != nil || n != 1 || w.settled(t)[won.code.Pack] == "" {
		t.Fatalf("%d %v %v", n, err, w.settled(t))
	}
	if len(w.touched) != 0 {
		t.Error("what was looked at is looked at again")
	}
}

func TestShareOfLowPrizesIsRoundedUp(t *testing.T) {
	h := manifest.Header{Tickets: 600, PackSize: 60, Tiers: []manifest.Tier{{Count: 2, Amount: 20000}, {Count: 21, Amount: 2000}}}
	for _, x := range []struct {
		rule SettleRule
		want int64
	}{{SettleRule{Percent: 100}, 3}, {SettleRule{Percent: 100, LowMinor: 2000}, 3}, {SettleRule{Percent: 95, LowMinor: 2000}, 2}, {SettleRule{Percent: 1}, 1},
		{SettleRule{Percent: 100, LowMinor: 1999}, 0}, {SettleRule{Percent: 0}, 0}} {
		if got := lowPrizes(h, x.rule); got != x.want {
			t.Errorf("%+v: %d, want %d", x.rule, got, x.want)
		}
	}
	for _, bad := range []SettleRule{{Percent: 101}, {Percent: -1}, {LowMinor: -1}, {Days: -1}, {Days: 4000}} {
		if (SettleRules{Every: bad}).Check() == nil || (SettleRules{Games: map[string]SettleRule{"x": bad}}).Check() == nil {
			t.Errorf("%+v was taken", bad)
		}
	}
}
