package capacity

import (
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/taskengine/taskengine/engine/sim"
	"github.com/taskengine/taskengine/storage/pebble"
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
			t.Errorf("a cost is %v: costs must not be negative, and are zero without data", x)
		}
	}
}

func TestADistributionKeepsItsQuantiles(t *testing.T) {
	ds := make([]time.Duration, 100*points)
	for i := range ds {
		ds[len(ds)-1-i] = time.Duration(i)
	}
	q := distribution(ds)
	for _, u := range []float64{0, 0.5, 0.99, 1} {
		want := u * float64(len(ds))
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

func TestADistributionKeepsItsMean(t *testing.T) {
	ds := make([]time.Duration, 20*(points-1))
	var sum time.Duration
	for i := range ds {
		ds[i] = time.Duration(i) * 10
		if i >= len(ds)-15 { // fewer than are around a point
			ds[i] = time.Duration(i) * time.Millisecond
		}
		sum += ds[i]
	}
	want := float64(sum) / float64(len(ds))
	if got := float64(distribution(ds).Mean()); math.Abs(got-want) > want/100 {
		t.Errorf("the mean is %v, and was %v", got, want)
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

func TestSyncsAreSeparatedFromTheWorkBeforeAndAfterThem(t *testing.T) {
	zero := time.Unix(1000, 0)
	at := func(us int) time.Time { return zero.Add(time.Duration(us) * time.Microsecond) }
	us := func(n int) time.Duration { return time.Duration(n) * time.Microsecond }
	o := observed{figures: figures{
		sorts: []window{{from: at(1210), to: at(1350)}, {from: at(330), to: at(980)}},
		syncs: []span{
			{wrote: at(9), began: at(10), ended: at(100), bytes: 400, filled: pebble.LogFillStep},
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
		{idle: idle.Note(0), took: us(220), bytes: 80_000, ahead: true, woken: []time.Duration{us(40), us(10)}},
		{idle: idle.Note(us(660)), took: us(220), bytes: 500, woken: []time.Duration{us(20)}}, // more than the part that is filled ahead
		{idle: idle.Note(0), took: us(200), bytes: 600, sorts: true, woken: []time.Duration{us(20)}},
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
			synced{took: 50 * ms, bytes: 64 << 10, ahead: true, sorts: true},
		)
	}
	series := [][]synced{uses}
	if got := perKiB(series); got < 400*time.Microsecond || got > 600*time.Microsecond {
		t.Errorf("a KiB takes %v, want half a millisecond", got)
	}
	if got := took(series, func(s *synced) bool { return s.grown }); got.At(0) != 9*ms || got.At(1) != 9*ms {
		t.Errorf("syncs of a log that was filled take %v to %v", got.At(0), got.At(1))
	}
	ahead := byUse(series, func(s *synced) bool { return s.ahead && !s.grown && !s.sorts })
	if got := ahead.After(0); got.At(0) != 2*ms || got.At(1) != 2*ms {
		t.Errorf("syncs of a log that is filled ahead take %v to %v", got.At(0), got.At(1))
	}
}

func TestRowsTakeMemoryUntilALogIsFull(t *testing.T) {
	const mib, rows = 1 << 20, 50_000
	full := observed{figures: figures{
		commits: []commit{{inserts: 4 * rows}}, // 36 MiB of the log in all: 3/4 of them are in a file that is full
		syncs:   []span{{log: 1, bytes: 8 * mib}, {log: 2, bytes: 20 * mib}, {log: 2, bytes: 7 * mib}, {log: 3, bytes: mib}},
	}}
	few := full
	few.syncs = few.syncs[:1]
	if got, want := memoryRow([]observed{{}, few, full}), 5*mib/(3.0*rows); math.Abs(got-want) > 0.01 {
		t.Errorf("a row takes %.2f bytes, want %.2f", got, want)
	}
}

// TestWhatIsSortedIsComputedByRowAndByte uses rows without payload, of which twice as many are sorted
// at once as of rows with payloads of the size of a row.
func TestWhatIsSortedIsComputedByRowAndByte(t *testing.T) {
	const rows, row, payload = 1000, 1000, 1000
	flushed := func(size int, took time.Duration) observed {
		o := observed{calibration: calibration{rate: 1, size: size}}
		o.commits = []commit{{inserts: rows, bytes: rows * size}}
		o.syncs = []span{{bytes: rows * (row + size)}}
		o.sorts = []window{{to: time.Time{}.Add(took), flush: true}}
		return o
	}
	var c Curves
	const all = float64(pebble.DefaultMemTableSize) / row // rows, without payload
	c.fitBackground([]observed{flushed(0, time.Duration(all*500)), flushed(payload, time.Duration(all/2*500+all/2*payload*2))})
	k := &c.Costs
	if k.BackgroundRow != 0 || k.Background < 498 || k.Background > 502 || math.Abs(k.BackgroundByte-2) > 0.01 {
		t.Errorf("a row takes %v and %.0f bytes besides, a byte of payload %.2f ns; want 500ns, 0 and 2", k.Background, k.BackgroundRow, k.BackgroundByte)
	}
	if got, want := c.sortingTime(&observed{figures: flushed(0, 0).figures}), time.Duration(all*500); got < want*99/100 || got > want*101/100 {
		t.Errorf("to sort once takes %v, want %v", got, want)
	}
}

func TestAStoreIsBusyWithFilesThatAreWrittenOneAfterTheOther(t *testing.T) {
	at := func(ms int) time.Time { return time.Unix(1000, 0).Add(time.Duration(ms) * time.Millisecond) }
	o := observed{figures: figures{sorts: []window{
		{at(100), at(120), true}, {at(0), at(40), true}, {at(42), at(70), true}, {at(60), at(90), false}, {at(62), at(65), false}, {at(121), at(130), true},
	}}}
	if times, took := o.sorting(); times != 2 || took != (40+48+20+9)*time.Millisecond {
		t.Errorf("%d times, for %v", times, took)
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
