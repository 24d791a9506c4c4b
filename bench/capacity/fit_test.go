package capacity

import (
	"math"
	"math/rand/v2"
	"reflect"
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
		syncs: []span{
			{wrote: at(9), began: at(10), ended: at(100), bytes: 400, filled: logStep},
			{wrote: at(110), began: at(120), ended: at(320), bytes: 80_000},
			{wrote: at(990), began: at(1000), ended: at(1200), bytes: 500},
			{wrote: at(1290), began: at(1300), ended: at(1400), bytes: 600},
		},
		commits: []commit{
			{began: at(0), hold: us(5), durable: us(100)},    // the first is left out
			{began: at(50), hold: us(10), durable: us(300)},  // waits for the disk, until 100
			{began: at(90), hold: us(15), durable: us(225)},  // shares its sync
			{began: at(970), hold: us(10), durable: us(240)}, // finds it idle
			{began: at(985), hold: us(10), durable: us(425)}, // is too late for that one
		},
	}}
	var idle sim.Idleness
	want := []synced{
		{idle: idle.Note(0), took: us(220), bytes: 80_000, ahead: true, told: []time.Duration{us(40), us(10)}},
		{idle: idle.Note(us(660)), took: us(220), bytes: 500, told: []time.Duration{us(20)}}, // more than what is filled ahead
		{idle: idle.Note(0), took: us(200), bytes: 600, told: []time.Duration{us(20)}},
	}
	if uses := o.logged(); !reflect.DeepEqual(uses, want) {
		t.Errorf("the uses of the disk are\n%+v, want\n%+v", uses, want)
	}
}

func TestSyncsAreSortedByHowTheLogGrows(t *testing.T) {
	const ms = time.Millisecond
	var uses []synced
	for range enough {
		uses = append(uses,
			synced{took: 2 * ms, bytes: 1 << 10, ahead: true},
			synced{took: 20 * ms, bytes: 1 << 10},
			synced{took: 20*ms + 63*ms/2, bytes: 64 << 10},
			synced{took: 9 * ms, ahead: true, grown: true},
		)
	}
	series := [][]synced{uses}
	if got := perKiB(series); got < 400*time.Microsecond || got > 600*time.Microsecond {
		t.Errorf("a KiB takes %v, want half a millisecond", got)
	}
	if got := grown(series); got.At(0) != 9*ms || got.At(1) != 9*ms {
		t.Errorf("syncs of a log that was filled take %v to %v", got.At(0), got.At(1))
	}
	ahead := byUse(series, func(s *synced) bool { return s.ahead && !s.grown })
	if got := ahead.After(0); got.At(0) != 2*ms || got.At(1) != 2*ms {
		t.Errorf("syncs of a log that is filled ahead take %v to %v", got.At(0), got.At(1))
	}
}

func TestRanksAreKeptWhereTheirRunMostlyWas(t *testing.T) {
	const us = time.Microsecond
	by := sim.ByIdleness{{Takes: sim.Quantiles{0, 100 * us}}, {After: 100 * us, Takes: sim.Quantiles{100 * us, 300 * us}}}
	var uses []synced
	for i := range enough {
		s := synced{idle: 200 * us, took: 100 * us, ahead: true}
		if i%4 == 0 {
			s.idle = 0
		}
		if i%2 == 0 {
			s.took = time.Second
		}
		uses = append(uses, s, synced{idle: 0, took: us})
	}
	addRanks(by, uses, func(s *synced) bool { return s.ahead })
	if len(by[0].Ranks) != 0 || len(by[1].Ranks) != enough {
		t.Fatalf("%d and %d ranks are kept, want all %d where most syncs were", len(by[0].Ranks), len(by[1].Ranks), enough)
	}
	for i, r := range by[1].Ranks {
		if slow := i%2 == 0; (r == sim.MaxRank) != slow {
			t.Fatalf("rank %d is %d", i, r)
		}
	}
	addRanks(by, uses[:enough], func(s *synced) bool { return s.ahead })
	if len(by[1].Ranks) != enough {
		t.Error("of a run of a few syncs ranks are kept")
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
