package main

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"grattoir/device/terminal"
	"grattoir/sync/central"
	"grattoir/validate"
)

// TestPackOfASuspendedGameIsNotPutOnSale at the shop, once the shop has heard of it, nor one
// of a block of which the sales have ended.
func TestPackOfASuspendedGameIsNotPutOnSale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 7)
		defer w.close()
		w.enrol("T-1", 1, 4)
		s := w.tills[0]
		_, err := w.central.Deliver(w.ctx, "399", 5, 6, "T-1")
		w.must(err)
		game := central.Suspension{Game: "bingo", Emission: "1", Block: 1, Reason: "misprint", Operator: "anne"}
		_, err = w.central.SuspendGame(w.ctx, game)
		w.must(err)
		time.Sleep(time.Minute)
		synctest.Wait()
		activate := func() (validate.Pack, error) {
			return s.way.packs().Activate(w.ctx, "00399", 5, "marie", validate.Scanned)
		}
		if p, err := activate(); !errors.Is(err, terminal.ErrGameSuspended) || p.State != validate.PackDelivered {
			t.Errorf("%+v %v", p, err)
		}
		w.must(w.central.ResumeGame(w.ctx, game))
		time.Sleep(time.Minute)
		synctest.Wait()
		end := central.SalesEnd{Game: "bingo", Emission: "1", Block: 1, Reason: "its top prizes are paid", Operator: "anne"}
		w.must(w.central.EndSales(w.ctx, end))
		time.Sleep(time.Minute)
		synctest.Wait()
		if p, err := activate(); !errors.Is(err, terminal.ErrSalesEnded) || p.State != validate.PackDelivered {
			t.Errorf("of a block of which the sales have ended: %+v %v", p, err)
		}
		w.must(w.central.ResumeSales(w.ctx, end))
		time.Sleep(time.Minute)
		synctest.Wait()
		if p, err := activate(); err != nil || p.State != validate.PackActive {
			t.Errorf("resumed: %+v %v", p, err)
		}
	})
}
