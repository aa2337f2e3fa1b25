package central

import (
	"errors"
	"strings"
	"testing"

	"grattoir/sync/ledger"
	"grattoir/sync/wire"
	"grattoir/validate"
)

// TestSalesOfABlockEndWithItsLastTopPrize, where the rule says so: every terminal hears of
// it, its people too, and no pack of the block is put on sale any more, by anybody.
func TestSalesOfABlockEndWithItsLastTopPrize(t *testing.T) {
	onEachStore(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		w.opt.Sales = SalesRule{Games: map[string]bool{"bingo": true}}
		d, other := w.enrolled(t, "T-1"), newDesk(t, w, "T-2")
		holdsTop := map[uint32]bool{}
		for _, l := range w.winners(10, 19) {
			holdsTop[l.code.Pack] = holdsTop[l.code.Pack] || l.tier == 1
		}
		unsold := uint32(10)
		for holdsTop[unsold] {
			unsold++
		}
		var top, low []lot
		for pack := uint32(10); pack <= 19; pack++ {
			if pack == unsold {
				continue
			}
			w.give(t, "T-1", pack, pack)
			for _, l := range w.winners(pack, pack) {
				if l.tier == 1 {
					top = append(top, l)
				} else {
					low = append(low, l)
				}
			}
		}
		if _, err := w.Deliver(ctx, "399", unsold, unsold, "T-2"); err != nil {
			t.Fatal(err)
		}
		d.pay(t, low[0], top[0])
		d.send(t, 1, 2)
		if list, err := w.SalesEnds(ctx); err != nil || len(list) != 0 {
			t.Fatalf("with %d top prizes left: %+v %v", len(top)-1, list, err)
		}
		d.pay(t, top[1], low[1])
		d.send(t, 3, 4)
		list, err := w.SalesEnds(ctx)
		if err != nil || len(list) != 1 || list[0].Game != "bingo" || list[0].Block != 1 || list[0].Operator != salesByRule {
			t.Fatalf("%+v %v", list, err)
		}

		if _, err := w.Activate(ctx, "399", unsold, unsold); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "top prizes") {
			t.Errorf("by operations: %v", err)
		}
		other.sync(t)
		if _, err := other.book.Activate(ctx, "00399", unsold, "marie", validate.Scanned); !errors.Is(err, ledger.ErrSales) || !strings.Contains(err.Error(), "top prizes") {
			t.Errorf("at the shop: %v", err)
		}
		if said, err := other.book.Messages(ctx); err != nil || len(said) != 1 || said[0].Mandatory || !strings.Contains(said[0].French, "bloc 1") {
			t.Errorf("its people hear %+v %v", said, err)
		}
		if n := w.count(t, "SELECT count(*) FROM feed WHERE kind = $1 AND audience = ''", wire.FeedSales); n != 1 {
			t.Errorf("%d items", n)
		}

		end := list[0]
		end.Operator = "anne"
		wantErr(t, w.EndSales(ctx, end), ErrRefused)
		if err := w.ResumeSales(ctx, end); err != nil {
			t.Fatal(err)
		}
		wantErr(t, w.ResumeSales(ctx, end), ErrRefused)
		other.sync(t)
		if _, err := other.book.Activate(ctx, "00399", unsold, "marie", validate.Scanned); err != nil {
			t.Errorf("resumed: %v", err)
		}
		end.Block = 2
		wantErr(t, w.EndSales(ctx, end), ErrNotFound)
	})
}
