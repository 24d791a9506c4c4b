package capacity

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/taskengine/taskengine/engine/sim"
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
	ds := make([]time.Duration, 100*points)
	for i := range ds {
		ds[len(ds)-1-i] = time.Duration(i)
	}
	q := distribution(ds)
	for u, want := range map[float64]float64{0: 50, 0.5: 50_050, 0.99: 99_050, 1: 100_050} {
		if got := float64(q.At(u)); len(q) != points || math.Abs(got-want) > 60 {
			t.Errorf("at %v of %d points it is %v, want %v", u, len(q), got, want)
		}
	}
	if few := distribution(ds[:3]); len(few) != 3 || few[2] != ds[0] {
		t.Errorf("three values are %v", few)
	}
	if distribution(nil) != nil {
		t.Error("nothing has a distribution")
	}
}

func TestTheRarestIsNotMadeMoreOften(t *testing.T) {
	ds := make([]time.Duration, 200_000)
	for i := range ds {
		ds[i] = time.Millisecond
	}
	ds[0] = time.Second // one stall
	q, rng := distribution(ds), rand.New(rand.NewPCG(1, 2))
	var sum time.Duration
	for range len(ds) {
		sum += q.At(rng.Float64())
	}
	if mean := sum / time.Duration(len(ds)); mean > 1020*time.Microsecond {
		t.Errorf("drawn from, it is %v in the mean, it was 1.005ms", mean)
	}
}

func TestSyncsAreToldFromWhatComesBeforeAndAfterThem(t *testing.T) {
	zero := time.Unix(1000, 0)
	at := func(us int) time.Time { return zero.Add(time.Duration(us) * time.Microsecond) }
	us := func(n int) time.Duration { return time.Duration(n) * time.Microsecond }
	o := observed{figures: figures{
		syncs: []span{{at(10), at(100)}, {at(120), at(320)}, {at(1000), at(1200)}, {at(1300), at(1400)}},
		commits: []commit{
			{began: at(0), hold: us(5), durable: us(100), bytes: 1},    // the first is left out
			{began: at(50), hold: us(10), durable: us(300), bytes: 20}, // waits for the disk, until 100
			{began: at(90), hold: us(15), durable: us(225), bytes: 3},  // shares its sync
			{began: at(970), hold: us(10), durable: us(240), bytes: 4}, // finds it idle
		},
	}}
	uses, late := o.logged()
	var idle sim.Idleness
	want := []synced{{idle.Note(0), us(220), 23}, {idle.Note(us(660)), us(220), 4}}
	if !slices.Equal(uses, want) {
		t.Errorf("the uses of the disk are %v, want %v", uses, want)
	}
	if want := []time.Duration{us(5), us(40), us(10), us(20)}; !slices.Equal(late, want) {
		t.Errorf("they are told after %v, want %v", late, want)
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
