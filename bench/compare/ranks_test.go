//go:build !race

package compare

import (
	"cmp"
	"math"
	"slices"
	"testing"

	"github.com/aclements/go-moremath/stats"
	"pgregory.net/rapid"
)

// withU returns samples without ties for which the U statistic of a is u.
func withU(nA, nB, u int) (a, b []float64) {
	for i := range nB {
		b = append(b, float64(i+1))
	}
	for i := range nA {
		above := min(u, nB)
		u -= above
		a = append(a, float64(above)+0.5+float64(i)/1e6)
	}
	return a, b
}

// The largest U that is significant at 0.05, two-sided, from the table of Mann and
// Whitney (1947) as it is reprinted everywhere, such as in Siegel's Nonparametric
// Statistics, table K.
func TestTheTestAgreesWithTheTableOfCriticalValues(t *testing.T) {
	for _, c := range []struct{ nA, nB, u int }{
		{4, 4, 0},
		{3, 5, 0},
		{3, 6, 1},
		{4, 5, 1},
		{5, 5, 2},
		{5, 6, 3},
		{6, 6, 5},
		{5, 7, 5},
		{7, 7, 8},
		{8, 8, 13},
		{4, 10, 5},
		{9, 9, 17},
		{10, 10, 23},
		{12, 15, 49},
		{15, 15, 64},
		{18, 20, 112},
		{20, 20, 127},
	} {
		at, next := mannWhitney(withU(c.nA, c.nB, c.u)), mannWhitney(withU(c.nA, c.nB, c.u+1))
		if at > 0.05 || next <= 0.05 {
			t.Errorf("%d and %d runs: p is %.4f for U=%d and %.4f for U=%d; the table has its limit between them", c.nA, c.nB, at, c.u, next, c.u+1)
		}
	}
	if p := mannWhitney(withU(3, 3, 0)); math.Abs(p-0.1) > 1e-12 {
		t.Errorf("three runs and three can have p=%v at best, want 0.1", p)
	}
}

// Values without ties from Lehmann's table of the null distribution, and with ties by
// counting all ways by hand.
func TestPIsExact(t *testing.T) {
	for name, c := range map[string]struct {
		a, b []float64
		p    float64
	}{
		"four apart":               {[]float64{1, 2, 3, 4}, []float64{5, 6, 7, 8}, 2.0 / 70},
		"five apart":               {[]float64{6, 7, 8, 9, 10}, []float64{1, 2, 3, 4, 5}, 2.0 / 252},
		"one swapped":              {[]float64{1, 2, 4}, []float64{3, 5, 6}, 4.0 / 20},
		"one run each":             {[]float64{1}, []float64{2}, 1},
		"all the same":             {[]float64{7, 7, 7}, []float64{7, 7, 7}, 1},
		"ties across, of 6 ways":   {[]float64{1, 2}, []float64{2, 3}, 4.0 / 6},
		"ties within, of 20 ways":  {[]float64{1, 1, 1}, []float64{2, 2, 2}, 2.0 / 20},
		"many with ties, of 31":    {slices.Concat(slices.Repeat([]float64{1}, 29), []float64{2}), []float64{2}, 4.0 / 31},
		"nothing on one side":      {nil, []float64{1, 2}, 1},
		"thirty apart":             {seq(1, 30), seq(101, 30), 0},
		"thirty that are the same": {seq(1, 30), seq(1, 30), 1},
	} {
		if p := mannWhitney(c.a, c.b); math.Abs(p-c.p) > 1e-9 {
			t.Errorf("%s: p is %v, want %v", name, p, c.p)
		}
	}
}

func seq(from, n int) (out []float64) {
	for i := range n {
		out = append(out, float64(from+i))
	}
	return out
}

// TestPIsTheShareOfAllWaysToDivideTheValues counts every division of a few values with many ties,
// in samples of different sizes.
func TestPIsTheShareOfAllWaysToDivideTheValues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.Map(rapid.IntRange(1, 4), func(n int) float64 { return float64(n) })
		a := rapid.SliceOfN(value, 1, 6).Draw(t, "a")
		b := rapid.SliceOfN(value, 1, 6).Draw(t, "b")
		both := slices.Concat(a, b)
		u := pairsAbove(a, b)
		var all, below, above float64
		for _, places := range subsets(len(both), len(a)) {
			var x, y []float64
			for i, v := range both {
				if slices.Contains(places, float64(i+1)) {
					x = append(x, v)
				} else {
					y = append(y, v)
				}
			}
			all++
			if pairsAbove(x, y) <= u {
				below++
			}
			if pairsAbove(x, y) >= u {
				above++
			}
		}
		want := min(1, 2*min(below, above)/all)
		if got := mannWhitney(a, b); math.Abs(got-want) > 1e-9 {
			t.Fatalf("p is %v, want %v", got, want)
		}
	})
}

// pairsAbove returns U: the number of pairs in which the value of a is above that of b. Ties count
// half.
func pairsAbove(a, b []float64) (u float64) {
	for _, x := range a {
		for _, y := range b {
			u += float64(cmp.Compare(x, y)+1) / 2
		}
	}
	return u
}

func TestTheApproximationMeetsTheExactTest(t *testing.T) {
	n := stats.MannWhitneyExactLimit + 1
	for u := 800; u <= n*n/2; u += 50 {
		near := mannWhitney(withU(n, n, u))
		exact := 2 * stats.UDist{N1: n, N2: n}.CDF(float64(u))
		if math.Abs(exact-near) > 0.002 {
			t.Errorf("U=%d: p is %v, and nearly %v", u, exact, near)
		}
	}
}

func TestTheIntervalOfManyRunsMeetsTheExactOne(t *testing.T) {
	n := stats.MannWhitneyExactLimit
	exact, _ := cutOff(n, n, 0.05)
	near, tail := cutOff(n+1, n, 0.05)
	if near < exact || near > exact+n || tail != 0.05 {
		t.Errorf("with %d runs %d pairs are cut off at each end, with one more %d, of which %v", n, exact, near, tail)
	}
}

func TestTheIntervalExcludesOneIfAndOnlyIfTheTestFindsADifference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nA, nB := rapid.IntRange(3, 9).Draw(t, "runs of A"), rapid.IntRange(3, 9).Draw(t, "runs of B")
		order := rapid.Permutation(seq(1, nA+nB)).Draw(t, "values")
		a, b := order[:nA], order[nA:]
		estimate, low, high, confidence := ratio(a, b, 0.05)
		if !(low <= estimate && estimate <= high) {
			t.Fatalf("%v is not between %v and %v", estimate, low, high)
		}
		p, excluded := mannWhitney(a, b), low > 1 || high < 1
		if found := p <= 1-confidence+1e-12; found != excluded {
			t.Fatalf("p is %v, and the interval of confidence %v is %v to %v", p, confidence, low, high)
		}
		if enough := smallestP(nA, nB) <= 0.05; enough != (confidence >= 0.95) {
			t.Fatalf("the confidence is %v", confidence)
		}
	})
}

func TestTheIntervalHoldsTheTruthAsOftenAsItSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// By symmetry, every order of equal distributions is as likely: all of them are tried.
		n := rapid.IntRange(3, 5).Draw(t, "runs")
		held, all := 0.0, 0.0
		var confidence float64
		for _, a := range subsets(2*n, n) {
			var b []float64
			for _, v := range seq(1, 2*n) {
				if !slices.Contains(a, v) {
					b = append(b, v)
				}
			}
			_, low, high, c := ratio(a, b, 0.05)
			confidence = c
			all++
			if low <= 1 && 1 <= high {
				held++
			}
		}
		if math.Abs(held/all-confidence) > 1e-9 {
			t.Fatalf("it holds in %v of all cases, not in %v", held/all, confidence)
		}
	})
}

func subsets(n, k int) (out [][]float64) {
	for bits := range 1 << n {
		var s []float64
		for i := range n {
			if bits>>i&1 == 1 {
				s = append(s, float64(i+1))
			}
		}
		if len(s) == k {
			out = append(out, s)
		}
	}
	return out
}

// The example of Benjamini and Hochberg (1995), section 3.2: at 0.05, the four smallest
// of fifteen are accepted.
func TestAdjustedAsInThePaper(t *testing.T) {
	ps := []float64{0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1.000}
	believed := 0
	for _, q := range adjust(ps) {
		if q <= 0.05 {
			believed++
		}
	}
	if believed != 4 {
		t.Errorf("%d are believed, want 4", believed)
	}
	if q := adjust([]float64{0.04, 0.01}); q[0] != 0.04 || q[1] != 0.02 {
		t.Errorf("adjusted to %v", q)
	}
	if len(adjust(nil)) != 0 {
		t.Error("nothing is adjusted to something")
	}
}
