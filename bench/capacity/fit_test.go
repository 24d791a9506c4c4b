package capacity

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

func TestCostsAreFoundInWhatTheyAddUpTo(t *testing.T) {
	want := []float64{3, 0, 0.5}
	rng := rand.New(rand.NewPCG(1, 1))
	var a [][]float64
	var b []float64
	for range 20 {
		row := []float64{rng.Float64(), rng.Float64(), 10 * rng.Float64()}
		a = append(a, row)
		b = append(b, want[0]*row[0]+want[1]*row[1]+want[2]*row[2])
	}
	for i, x := range solve(a, b, 3) {
		if math.Abs(x-want[i]) > 1e-6 {
			t.Errorf("cost %d is %v, want %v", i, x, want[i])
		}
	}
	for _, x := range solve([][]float64{{1, 0}}, []float64{-1}, 2) {
		if x != 0 {
			t.Errorf("a cost is %v: they must not be negative, and what nothing tells of is nothing", x)
		}
	}
}

func TestADistributionKeepsItsQuantiles(t *testing.T) {
	ds := make([]time.Duration, 10_001)
	for i := range ds {
		ds[len(ds)-1-i] = time.Duration(i)
	}
	q := distribution(ds)
	if len(q) != points || q.At(0) != 0 || q.At(0.5) != 5000 || q.At(0.99) != 9900 || q.At(1) != 10_000 {
		t.Errorf("%d points: %d %d %d %d", len(q), q.At(0), q.At(0.5), q.At(0.99), q.At(1))
	}
	if distribution(nil) != nil {
		t.Error("nothing has a distribution")
	}
}

func TestRangesOfIdlenessHaveEnoughSamples(t *testing.T) {
	for _, n := range []int{1, enough - 1, enough, 3 * enough} {
		got := byIdle([]time.Duration{0, 10, 20}, func(yield func(idle, took time.Duration)) {
			for i := range n {
				yield(time.Duration(i%30), time.Duration(i%30))
			}
		})
		if len(got) == 0 || got[0].After != 0 {
			t.Errorf("%d samples make %v", n, got)
		}
		if want := max(1, min(3, n/enough)); len(got) != want {
			t.Errorf("%d samples make %d ranges, want %d", n, len(got), want)
		}
	}
}
