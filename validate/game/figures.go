package game

import (
	"math/big"

	"grattoir/validate/money"
)

// Figures are what a prize table comes to: chances, payout and cost. Every value is
// exact; one that the table's facts do not give is nil. Money prizes only: a table
// with other prizes pays out more.
type Figures struct {
	Prizes *int64        // in the block, by the rows, else as printed
	Total  *money.Amount // of the block's prizes, by the rows, else as printed
	OneIn  *big.Rat      // units for one prize: 3.99 means one in 3.99 wins
	// Payout and SalePayout are the prizes' share of what the block sells for, at the
	// game's own (net) price and at the sale price of a combined offer. 0.71 is 71 %.
	Payout, SalePayout *big.Rat
	Tiers              []TierFigures // in the table's order
}

// TierFigures are a row's part in its table's figures.
type TierFigures struct {
	OneIn      *big.Rat
	Total      *money.Amount // count x amount
	Cost       *big.Rat      // the row's share of the block's sales at the net price
	SaleCost   *big.Rat      // and at the offer's sale price
	PrizeShare *big.Rat      // and of the block's prizes
}

// Figures computes the figures of table number i, from 0.
func (g Game) Figures(i int) Figures {
	t := g.Tables[i]
	f := Figures{Prizes: t.PrintedCount, Total: t.PrintedTotal}
	if len(t.Rows) > 0 {
		f.Prizes, f.Total = nil, nil
		if n, err := t.Count(); err == nil {
			f.Prizes = &n
		}
		if sum, err := t.Total(); err == nil {
			f.Total = &sum
		}
	}
	net := t.sales(t.Price)
	var sale *big.Int
	if g.Offer != nil {
		sale = t.sales(g.Offer.SalePrice)
	}
	f.OneIn = t.oneIn(f.Prizes)
	f.Payout, f.SalePayout = share(f.Total, net), share(f.Total, sale)
	for _, row := range t.Rows {
		tier := TierFigures{OneIn: t.oneIn(&row.Count)}
		if total, err := row.Amount.Times(row.Count); err == nil {
			tier.Total = &total
		}
		tier.Cost, tier.SaleCost = share(tier.Total, net), share(tier.Total, sale)
		if f.Total != nil {
			tier.PrizeShare = share(tier.Total, big.NewInt(int64(*f.Total)))
		}
		f.Tiers = append(f.Tiers, tier)
	}
	return f
}

// sales is what the whole block sells for in minor units, nil when unknown or 0.
func (t Table) sales(price *money.Amount) *big.Int {
	if t.BlockSize == nil || price == nil || *price <= 0 {
		return nil
	}
	return new(big.Int).Mul(big.NewInt(*t.BlockSize), big.NewInt(int64(*price)))
}

// oneIn is how many units there are for each of n prizes.
func (t Table) oneIn(n *int64) *big.Rat {
	if t.BlockSize == nil || n == nil || *n <= 0 {
		return nil
	}
	return big.NewRat(*t.BlockSize, *n)
}

func share(part *money.Amount, whole *big.Int) *big.Rat {
	if part == nil || whole == nil || whole.Sign() <= 0 {
		return nil
	}
	return new(big.Rat).SetFrac(big.NewInt(int64(*part)), whole)
}
