package compare

import (
	"cmp"
	"math"
	"slices"
)

// exactRuns is up to how many runs of both sides together the distribution of ranks is
// counted out; beyond, the normal approximation is better than three digits.
const exactRuns = 40

// mannWhitney returns the two-sided p of the Mann-Whitney U test (Wilcoxon's rank-sum
// test): how likely samples of one and the same distribution are ranked at least as
// unevenly as a and b. Nothing is assumed of that distribution. Ties have the mean of
// their ranks, and p is exact with them, too, since the distribution is that of the ranks
// which are there (Lehmann, Nonparametrics, 1975, chapter 1).
func mannWhitney(a, b []float64) float64 {
	ranks, sum := doubledRanks(a, b)
	if len(ranks) > exactRuns {
		return approximate(ranks, len(a), sum)
	}
	ways := rankSums(ranks, len(a))
	var all, below, above float64
	for s, n := range ways {
		all += n
		if s <= sum {
			below += n
		}
		if s >= sum {
			above += n
		}
	}
	return min(1, 2*min(below, above)/all)
}

// doubledRanks returns twice the rank of each value, a's and b's together in ascending
// order, and the sum of those of a. They are doubled so that mean ranks are whole.
func doubledRanks(a, b []float64) (ranks []int, sumOfA int) {
	type value struct {
		v   float64
		ofA bool
	}
	var all []value
	for _, v := range a {
		all = append(all, value{v, true})
	}
	for _, v := range b {
		all = append(all, value{v, false})
	}
	slices.SortFunc(all, func(x, y value) int { return cmp.Compare(x.v, y.v) })
	for i := 0; i < len(all); {
		j := i
		for j < len(all) && all[j].v == all[i].v {
			j++
		}
		rank := i + 1 + j // the ranks are i+1 to j
		for ; i < j; i++ {
			ranks = append(ranks, rank)
			if all[i].ofA {
				sumOfA += rank
			}
		}
	}
	return ranks, sumOfA
}

// rankSums returns in how many ways n of the ranks add up to each sum.
func rankSums(ranks []int, n int) []float64 {
	total := 0
	for _, r := range ranks {
		total += r
	}
	ways := make([][]float64, n+1) // by how many are chosen
	for k := range ways {
		ways[k] = make([]float64, total+1)
	}
	ways[0][0] = 1
	for i, r := range ranks {
		for k := min(i+1, n); k > 0; k-- {
			for s := total; s >= r; s-- {
				ways[k][s] += ways[k-1][s-r]
			}
		}
	}
	return ways[n]
}

// approximate is mannWhitney by the normal distribution, with corrections for continuity
// and ties.
func approximate(ranks []int, nA, sum int) float64 {
	n := float64(len(ranks))
	a, b := float64(nA), n-float64(nA)
	ties := 0.0
	for i := 0; i < len(ranks); {
		j := i
		for j < len(ranks) && ranks[j] == ranks[i] {
			j++
		}
		t := float64(j - i)
		ties += t*t*t - t
		i = j
	}
	variance := a * b / 12 * (n + 1 - ties/(n*(n-1)))
	off := math.Abs(float64(sum)/2-a*(n+1)/2) - 0.5
	if variance <= 0 || off <= 0 {
		return 1
	}
	return math.Erfc(off / math.Sqrt(2*variance))
}

// smallestP returns the least p that so many runs can reach.
func smallestP(nA, nB int) float64 {
	ways := 1.0 // nA+nB over nA
	for i := 1; i <= nA; i++ {
		ways *= float64(nB+i) / float64(i)
	}
	return min(1, 2/ways)
}

// runsFor returns the least number of runs of each side that can reach a p of most.
func runsFor(most float64) int {
	n := 1
	for n < mostRuns && smallestP(n, n) > most {
		n++
	}
	return n
}

// ratio returns by which factor the values of b differ from those of a, and the interval
// that holds that factor with the confidence returned, which is 1-alpha or the most that
// so few runs can give. The values are positive.
//
// It is the Hodges-Lehmann estimate of the shift between the logarithms, with the
// interval that inverts the Mann-Whitney test: without ties the interval excludes 1 if
// and only if the test finds a difference at that confidence.
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

// factor is math.Exp within the numbers that JSON has.
func factor(log float64) float64 { return min(math.Exp(log), math.MaxFloat64) }

// cutOff returns how many of the ordered pairs lie outside of the interval at each end,
// and how likely the truth does.
func cutOff(nA, nB int, alpha float64) (cut int, tail float64) {
	n := nA + nB
	if n > exactRuns {
		a, b := float64(nA), float64(nB)
		z := math.Sqrt2 * math.Erfinv(1-alpha)
		c := math.Floor(a*b/2 - z*math.Sqrt(a*b*(a+b+1)/12))
		return min(max(int(c), 0), (nA*nB-1)/2), alpha
	}
	ranks := make([]int, n)
	for i := range ranks {
		ranks[i] = i + 1
	}
	ways := rankSums(ranks, nA)
	var all, below float64
	for _, w := range ways {
		all += w
	}
	least := nA * (nA + 1) / 2 // the sum at which U is 0
	tail = 2 * ways[least] / all
	for u := 0; least+u < len(ways) && u <= (nA*nB-1)/2; u++ {
		below += ways[least+u]
		if u > 0 && 2*below/all > alpha {
			break
		}
		cut, tail = u, 2*below/all
	}
	return cut, min(1, tail)
}

// median returns the middle of sorted values.
func median(sorted []float64) float64 {
	n := len(sorted)
	return sorted[(n-1)/2]/2 + sorted[n/2]/2
}

// adjust returns Benjamini and Hochberg's adjustment of p values (1995): if every
// difference with an adjusted p of at most alpha is believed, then of those believed a
// share of at most alpha is false on average.
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
