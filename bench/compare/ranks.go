package compare

import (
	"cmp"
	"math"
	"slices"
	"sort"

	"github.com/aclements/go-moremath/mathx"
	"github.com/aclements/go-moremath/stats"
)

// exactRuns is the largest number of runs, of both sides together, with an exact p even with ties.
const exactRuns = 40

// mannWhitney returns the two-sided p of the Mann-Whitney U test (Wilcoxon's rank-sum test):
// the probability that two samples of the same distribution are ranked at least as unevenly as
// a and b. It assumes nothing about that distribution. Tied values have the mean of their ranks.
// p is exact up to exactRuns in total, and up to [stats.MannWhitneyExactLimit] of each side if there
// are no ties; beyond that it is mostly that of the normal approximation.
//
// p is twice the smaller of the one-sided values. The two-sided test of the library returns
// something else: it takes the distribution of U for symmetric, which it is not if there are ties
// and the samples differ in size.
func mannWhitney(a, b []float64) float64 {
	return min(1, 2*min(oneSided(a, b), oneSided(b, a)))
}

// oneSided returns the p of the test against the alternative that a is below b.
func oneSided(a, b []float64) float64 {
	r, err := stats.MannWhitneyUTest(a, b, stats.LocationLess)
	if err != nil { // one of them is empty, or all values are equal
		return 1
	}
	// Of one large and one small sample with ties, the library would approximate: far off.
	if max(r.N1, r.N2) > stats.MannWhitneyTiesExactLimit && r.N1+r.N2 <= exactRuns {
		return stats.UDist{N1: r.N1, N2: r.N2, T: ties(a, b)}.CDF(r.U)
	}
	return r.P
}

// ties returns the number of values at each rank of a and b together.
func ties(a, b []float64) (counts []int) {
	sorted := slices.Sorted(slices.Values(slices.Concat(a, b)))
	for i, v := range sorted {
		if i > 0 && v == sorted[i-1] {
			counts[len(counts)-1]++
		} else {
			counts = append(counts, 1)
		}
	}
	return counts
}

// smallestP returns the smallest p that nA and nB runs can reach.
func smallestP(nA, nB int) float64 { return min(1, 2/mathx.Choose(nA+nB, nA)) }

// runsFor returns the smallest number of runs of each side that can reach a p of at most most.
func runsFor(most float64) int {
	n := 1
	for n < mostRuns && smallestP(n, n) > most {
		n++
	}
	return n
}

// ratio returns the factor between the values of a and b, and an interval that contains it with the
// returned confidence. The confidence is at least 1-alpha, or the greatest that so few runs allow. The
// values must be positive.
//
// The factor is the Hodges-Lehmann estimate of the shift between the logarithms, and the interval
// inverts the Mann-Whitney test: without ties it excludes 1 if and only if the test finds a difference
// at that confidence.
func ratio(a, b []float64, alpha float64) (estimate, low, high, confidence float64) {
	var logs []float64
	for _, x := range a {
		for _, y := range b {
			logs = append(logs, math.Log(y)-math.Log(x))
		}
	}
	slices.Sort(logs)
	cut, tail := cutOff(len(a), len(b), alpha)
	n := len(logs)
	return factor(median(logs)), factor(logs[cut]), factor(logs[n-1-cut]), 1 - tail
}

// factor is math.Exp, limited to numbers that JSON can have.
func factor(log float64) float64 { return min(math.Exp(log), math.MaxFloat64) }

// cutOff returns the number of ordered pairs outside of the interval at each end, and the probability
// that the true ratio is outside.
func cutOff(nA, nB int, alpha float64) (cut int, tail float64) {
	pairs := nA * nB
	most := (pairs - 1) / 2
	if max(nA, nB) > stats.MannWhitneyExactLimit {
		u := stats.NormalDist{Mu: float64(pairs) / 2, Sigma: math.Sqrt(float64(pairs) * float64(nA+nB+1) / 12)}
		return min(max(int(u.InvCDF(alpha/2)), 0), most), alpha
	}
	u := stats.UDist{N1: nA, N2: nB}
	outside := func(cut int) float64 { return min(1, 2*u.CDF(float64(cut))) }
	cut = max(0, sort.Search(most+1, func(c int) bool { return outside(c) > alpha*rounding })-1)
	return cut, outside(cut)
}

// median returns the middle of sorted values.
func median(sorted []float64) float64 {
	n := len(sorted)
	return sorted[(n-1)/2]/2 + sorted[n/2]/2
}

// adjust returns the p values adjusted by the method of Benjamini and Hochberg (1995): if every
// difference with an adjusted p of at most alpha is accepted, then on average a share of at most alpha
// of those is false.
func adjust(ps []float64) []float64 {
	order := make([]int, len(ps))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return cmp.Compare(ps[j], ps[i]) })
	out := make([]float64, len(ps))
	least := 1.0
	for i, at := range order { // the largest first
		rank := len(ps) - i
		least = min(least, ps[at]*float64(len(ps))/float64(rank))
		out[at] = least
	}
	return out
}
