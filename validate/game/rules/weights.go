package rules

import (
	"math/big"
	"math/bits"
	"math/rand/v2"
	"sort"
)

// weighted picks an index with a probability that is its weight's share of the sum,
// to within 2^-63: thresholds are exact quotients of big integers, so that sets of
// 10^40 tickets keep their proportions.
type weighted struct {
	below []uint64 // upper bounds of the cumulative shares times 2^64, the last implied
	index []int    // what each pick stands for; weights of 0 are left out
}

// newWeighted returns nil when no weight is above 0. Weights are never negative.
func newWeighted(weights []*big.Int) *weighted {
	sum := new(big.Int)
	for _, w := range weights {
		sum.Add(sum, w)
	}
	if sum.Sign() <= 0 {
		return nil
	}
	p := &weighted{}
	run := new(big.Int)
	for i, w := range weights {
		if w.Sign() == 0 {
			continue
		}
		run.Add(run, w)
		share := new(big.Int).Lsh(run, 64)
		share.Quo(share, sum)
		p.index = append(p.index, i)
		if share.IsUint64() { // the last is 2^64
			p.below = append(p.below, share.Uint64())
		}
	}
	p.below = p.below[:len(p.index)-1]
	return p
}

// pick draws one index.
func (p *weighted) pick(rng *rand.Rand) int {
	if len(p.below) == 0 {
		return p.index[0]
	}
	draw := rng.Uint64()
	if len(p.below) <= 8 {
		for i, bound := range p.below {
			if draw < bound {
				return p.index[i]
			}
		}
		return p.index[len(p.below)]
	}
	return p.index[sort.Search(len(p.below), func(i int) bool { return draw < p.below[i] })]
}

// below draws a number under n > 0, uniformly, with one multiplication in most cases.
func below(rng *rand.Rand, n int) int {
	hi, lo := bits.Mul64(rng.Uint64(), uint64(n))
	if lo < uint64(n) {
		for limit := -uint64(n) % uint64(n); lo < limit; {
			hi, lo = bits.Mul64(rng.Uint64(), uint64(n))
		}
	}
	return int(hi)
}

// falling is n (n-1) ... (n-k+1), the number of ways to put k different ones of n in
// order; 0 when k > n.
func falling(n, k int) *big.Int {
	out := big.NewInt(1)
	for i := range k {
		out.Mul(out, big.NewInt(int64(max(0, n-i))))
	}
	return out
}
