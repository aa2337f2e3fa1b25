package report

import (
	"math"
	"slices"
)

// How improbable a count is by chance, as its score: minus the decimal logarithm of the
// probability of a count at least as odd. 3 is once in a thousand. Logarithms throughout,
// for the probabilities that matter are far below what a float holds.

// binomialScore is the score of k or more successes in n tries of probability p: the exact
// one-sided test of C. Clopper and E. Pearson, "The use of confidence or fiducial limits",
// Biometrika 26 (1934). It is 0 for a count that is no more than expected.
func binomialScore(k, n int64, p float64) float64 {
	if k <= 0 || p >= 1 || float64(k) <= float64(n)*p || n < k {
		return 0
	}
	if p <= 0 {
		return maxScore
	}
	log := lchoose(n, k) + float64(k)*math.Log(p) + float64(n-k)*math.Log1p(-p)
	sum, term, odds := 1.0, 1.0, p/(1-p)
	for i := k; i < n && term > 1e-17*sum; i++ { // each term against the first
		term *= float64(n-i) / float64(i+1) * odds
		sum += term
	}
	return score(log + math.Log(sum))
}

// poissonScore is the score of k or more events where mu are expected: the exact test by
// F. Garwood, "Fiducial limits for the Poisson distribution", Biometrika 28 (1936).
func poissonScore(k int64, mu float64) float64 {
	if k <= 0 || float64(k) <= mu {
		return 0
	}
	if mu <= 0 {
		return maxScore
	}
	lg, _ := math.Lgamma(float64(k) + 1)
	log := float64(k)*math.Log(mu) - mu - lg
	sum, term := 1.0, 1.0
	for i := k; term > 1e-17*sum; i++ {
		term *= mu / float64(i+1)
		sum += term
	}
	return score(log + math.Log(sum))
}

// maxScore stands for what cannot be by chance at all.
const maxScore = 300

func score(log float64) float64 { return max(0, min(maxScore, -log/math.Ln10)) }

func lchoose(n, k int64) float64 {
	a, _ := math.Lgamma(float64(n) + 1)
	b, _ := math.Lgamma(float64(k) + 1)
	c, _ := math.Lgamma(float64(n-k) + 1)
	return a - b - c
}

// falseDiscoveries is the part of what is shown that may be there by chance.
const falseDiscoveries = 0.01

// least is the score from which on results are shown, so that of those shown no more than
// a part is there by chance: the step-up rule of Y. Benjamini and Y. Hochberg, "Controlling
// the false discovery rate", J. R. Statist. Soc. B 57 (1995). Tries are all that were
// looked at, also those of score 0.
func least(scores []float64, tries int) float64 {
	sorted := slices.Clone(scores)
	slices.SortFunc(sorted, func(a, b float64) int { return -compareFloats(a, b) })
	limit := math.Inf(1)
	for i, s := range sorted {
		if s >= -math.Log10(falseDiscoveries*float64(i+1)/float64(max(1, tries))) {
			limit = s
		}
	}
	return limit
}

func compareFloats(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}
