package rules

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// fixed is a source that gives the same tickets in every run, so that the chi-square
// tests at 1e-6 never toss a coin.
func fixed(seed byte) *rand.Rand { return rand.New(rand.NewChaCha8([32]byte{seed})) }

// checkUniform fails when the counts are too uneven for equal chances, at 1e-6.
func checkUniform(t *testing.T, what string, counts []int) {
	t.Helper()
	shares := make([]float64, len(counts))
	for i := range shares {
		shares[i] = 1
	}
	checkShares(t, what, counts, shares)
}

// checkShares is Pearson's chi-square test against given shares, at 1e-6.
func checkShares(t *testing.T, what string, counts []int, shares []float64) {
	t.Helper()
	n, all := 0, 0.0
	for i := range counts {
		n += counts[i]
		all += shares[i]
	}
	x := 0.0
	for i, c := range counts {
		want := float64(n) * shares[i] / all
		if want < 5 {
			t.Fatalf("%s: %.1f expected in class %d: draw more", what, want, i)
		}
		x += (float64(c) - want) * (float64(c) - want) / want
	}
	checkChi(t, what, x, len(counts)-1)
}

// checkSame is the chi-square test that two samples come from one distribution.
func checkSame[K comparable](t *testing.T, what string, a, b map[K]int) {
	t.Helper()
	na, nb := 0, 0
	for _, n := range a {
		na += n
	}
	for _, n := range b {
		nb += n
	}
	if na < 100 || nb < 100 {
		t.Fatalf("%s: %d and %d draws are too few", what, na, nb)
	}
	ra, rb := math.Sqrt(float64(nb)/float64(na)), math.Sqrt(float64(na)/float64(nb))
	x, classes, restA, restB := 0.0, 0, 0, 0
	add := func(ca, cb int) {
		d := ra*float64(ca) - rb*float64(cb)
		x += d * d / float64(ca+cb)
		classes++
	}
	for k := range merged(a, b) {
		if a[k]+b[k] < 40 {
			restA, restB = restA+a[k], restB+b[k]
			continue
		}
		add(a[k], b[k])
	}
	if restA+restB > 0 {
		add(restA, restB)
	}
	if classes < 2 {
		t.Fatalf("%s: one class only", what)
	}
	checkChi(t, what, x, classes-1)
}

func merged[K comparable](a, b map[K]int) map[K]bool {
	out := map[K]bool{}
	for k := range a {
		out[k] = true
	}
	for k := range b {
		out[k] = true
	}
	return out
}

// checkChi compares with the normal quantile at 1e-6 by Wilson and Hilferty's cube root.
func checkChi(t *testing.T, what string, x float64, degrees int) {
	t.Helper()
	k := float64(degrees)
	z := (math.Cbrt(x/k) - (1 - 2/(9*k))) / math.Sqrt(2/(9*k))
	if z > 4.753 {
		t.Errorf("%s: chi-square %.1f with %d degrees of freedom (z %.1f) is beyond 1e-6", what, x, degrees, z)
	}
}

func TestTheChiSquareTestSeesASmallBias(t *testing.T) {
	rng := fixed(1)
	var even, odd [10]int
	for range 200_000 {
		even[below(rng, 10)]++
		odd[below(rng, 200)%198%10]++ // two classes with one more chance in twenty
	}
	checkUniform(t, "even", even[:])
	var probe testing.T
	checkUniform(&probe, "odd", odd[:])
	if !probe.Failed() {
		t.Error("a bias of a tenth was not seen")
	}
}

func TestWeightedPicksBySharesOfWholeNumbers(t *testing.T) {
	p := newWeighted([]*big.Int{big.NewInt(0), big.NewInt(3), big.NewInt(0), big.NewInt(5), big.NewInt(2), big.NewInt(0)})
	rng := fixed(2)
	var hits [6]int
	for range 100_000 {
		hits[p.pick(rng)]++
	}
	if hits[0]+hits[2]+hits[5] > 0 {
		t.Errorf("an index without weight was picked: %v", hits)
	}
	checkShares(t, "weighted", []int{hits[1], hits[3], hits[4]}, []float64{3, 5, 2})
	if newWeighted([]*big.Int{big.NewInt(0)}) != nil {
		t.Error("nothing to pick must be nil")
	}
	if got := falling(20, 3); got.Int64() != 20*19*18 || falling(3, 4).Sign() != 0 || falling(5, 0).Int64() != 1 {
		t.Errorf("falling: %v", got)
	}
}
