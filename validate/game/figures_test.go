package game

import (
	"encoding/json"
	"math/big"
	"os"
	"path/filepath"
	"testing"

	"grattoir/validate/money"
)

func percent(r *big.Rat) string {
	if r == nil {
		return "unknown"
	}
	return new(big.Rat).Mul(r, big.NewRat(100, 1)).FloatString(2)
}

func TestFiguresOfTheShippedRegulations(t *testing.T) {
	bingo := Game{Tables: []Table{bingo()}}.Figures(0)
	if *bingo.Prizes != 2_253_916 || *bingo.Total != 6_390_000_000 || bingo.OneIn.FloatString(2) != "3.99" || percent(bingo.Payout) != "71.00" || bingo.SalePayout != nil {
		t.Errorf("Bingo: %+v", bingo)
	}
	if top := bingo.Tiers[0]; top.OneIn.FloatString(0) != "4500000" || percent(top.Cost) != "2.22" || percent(top.PrizeShare) != "3.13" {
		t.Errorf("Bingo's top prize: %+v", top)
	}
	crossingo := Game{Offer: &Offer{SalePrice: ptr(money.Amount(100))}, Tables: []Table{{BlockSize: ptr(int64(1_500_000)), Price: ptr(money.Amount(97)),
		PrintedCount: ptr(int64(444_366)), PrintedTotal: ptr(money.Amount(100_395_000))}}}.Figures(0)
	if percent(crossingo.Payout) != "69.00" || percent(crossingo.SalePayout) != "66.93" {
		t.Errorf("CROSSINGO: payout %s on the net price, %s on the sale price", percent(crossingo.Payout), percent(crossingo.SalePayout))
	}
	cash := Game{Tables: []Table{{BlockSize: ptr(int64(500_000)), Price: ptr(money.Amount(50)), PrintedCount: ptr(int64(140_841)), PrintedTotal: ptr(money.Amount(17_499_100))}}}.Figures(0)
	if cash.OneIn.FloatString(4) != "3.5501" || new(big.Rat).Mul(cash.Payout, big.NewRat(100, 1)).FloatString(4) != "69.9964" {
		t.Errorf("Cash 20 000: %+v", cash)
	}
}

func TestFiguresOfUnknownFactsAreUnknown(t *testing.T) {
	f := Game{Tables: []Table{{Rows: []Row{{Count: 5, Amount: 100}}}}}.Figures(0)
	if f.OneIn != nil || f.Payout != nil || f.SalePayout != nil || f.Tiers[0].OneIn != nil || f.Tiers[0].Cost != nil {
		t.Errorf("%+v", f)
	}
	if *f.Prizes != 5 || *f.Total != 500 || f.Tiers[0].PrizeShare.Cmp(big.NewRat(1, 1)) != 0 {
		t.Errorf("%+v", f)
	}
}

// TestFiguresAgreeWithOtherCountriesPrizeStructures compares with what public pages of
// other lotteries lead to.
func TestFiguresAgreeWithOtherCountriesPrizeStructures(t *testing.T) {
	path := filepath.Join("..", "..", "..", "shared", "cases", "games.json")
	text, err := os.ReadFile(path)
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skipf("SKIPPED: other countries' prize structures are not at %s", path)
	}
	var file struct {
		Games []struct {
			ID      string
			Tickets int64
			Price   money.Amount `json:"price_minor"`
			Prizes  []struct {
				Amount money.Amount `json:"prize_minor"`
				Count  int64
			}
			Derived struct {
				Winning int64        `json:"winning_tickets"`
				Pool    money.Amount `json:"prize_pool_minor"`
				Odds    json.Number  `json:"overall_odds_1_in"`
				Payout  json.Number  `json:"payout_ratio"`
			}
		}
	}
	if err := json.Unmarshal(text, &file); err != nil || len(file.Games) == 0 {
		t.Fatalf("%d games, %v", len(file.Games), err)
	}
	for _, c := range file.Games {
		table := Table{BlockSize: &c.Tickets, Unit: UnitTicket, Price: &c.Price}
		for _, p := range c.Prizes {
			table.Rows = append(table.Rows, Row{Count: p.Count, Amount: p.Amount})
		}
		if found := table.Audit(0); len(found) > 0 {
			t.Errorf("%s: %v", c.ID, found)
		}
		f := Game{Tables: []Table{table}}.Figures(0)
		if *f.Prizes != c.Derived.Winning || *f.Total != c.Derived.Pool || !close(t, f.OneIn, c.Derived.Odds) || !close(t, f.Payout, c.Derived.Payout) {
			t.Errorf("%s: %d prizes, %d, one in %s, payout %s; want %+v", c.ID, *f.Prizes, *f.Total, f.OneIn.FloatString(4), f.Payout.FloatString(4), c.Derived)
		}
	}
}

// close reports whether want is got to the four decimals that the cases give.
func close(t *testing.T, got *big.Rat, want json.Number) bool {
	t.Helper()
	w, ok := new(big.Rat).SetString(want.String())
	if !ok {
		t.Fatalf("%q is no number", want)
	}
	off := new(big.Rat).Sub(got, w)
	return off.Abs(off).Cmp(big.NewRat(1, 19_999)) < 0
}
