package capacity

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/taskengine/taskengine/engine/sim"
	"github.com/taskengine/taskengine/storage/pebble"
)

// observe makes a run with pebble.
func observe(t *testing.T, c calibration) observed {
	t.Helper()
	o := observed{calibration: c, arrivals: c.arrivals(1)}
	var err error
	o.figures, err = trial{
		store: "pebble", dir: t.TempDir(), policies: freely(), arrivals: o.arrivals, callers: c.callers, batch: c.batch,
	}.run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// few returns a load of some tasks, one after the other.
func few(size int) calibration { return calibration{callers: 1, batch: 1, size: size, tasks: 300} }

// TestTheLogIsWhatTheModelTakesItFor compares the model with the store: when and by how much the store
// fills its log ahead, and which payloads are part of their row.
func TestTheLogIsWhatTheModelTakesItFor(t *testing.T) {
	sum := func(o *observed) (bytes, filled int) {
		for _, s := range o.syncs {
			bytes, filled = bytes+s.bytes, filled+s.filled
		}
		return bytes, filled
	}
	var carried sim.Carried
	if carried.Note(pebble.LogFillSyncs); carried != 1 {
		t.Errorf("the model averages over other syncs than the %d of the store", pebble.LogFillSyncs)
	}
	small := observe(t, few(4<<10))
	bytes, filled := sum(&small)
	if filled < bytes-bytes%pebble.LogFillStep || filled > bytes+8*pebble.LogFillStep {
		t.Errorf("%d bytes of the log were filled ahead of %d that were written", filled, bytes)
	}
	large := observe(t, few(48<<10))
	if bytes, filled := sum(&large); filled > 8*pebble.LogFillStep || bytes < 300*48<<10 { // each new log is filled once
		t.Errorf("%d bytes of the log were filled ahead of %d that were written by large syncs", filled, bytes)
	}
	// A row takes the same space, whether its payload is part of it or not.
	within, beyond := observe(t, few(pebble.InlinePayload)), observe(t, few(pebble.InlinePayload+1))
	for _, o := range []*observed{&within, &beyond} {
		if row := logRow([]observed{*o}); row < 60 || row > 300 {
			t.Errorf("with payloads of %d bytes a row takes %.0f bytes of the log besides", o.size, row)
		}
	}
}

func TestTheJournalTellsWhenFilesAreSorted(t *testing.T) {
	o := observe(t, calibration{callers: 4, batch: 64, size: 4 << 10, tasks: 15_360}) // 68 MiB
	if row := memoryRow([]observed{o}); row < 20 || row > 400 {
		t.Errorf("a row takes %.0f bytes besides those of the log until it is sorted", row)
	}
	during := 0
	slices.SortFunc(o.commits, func(x, y commit) int { return x.asked().Compare(y.asked()) })
	for _, s := range o.logged() {
		if s.sorts {
			during++
		}
	}
	if times, took := o.sorting(); times == 0 || took == 0 || during == 0 || during == len(o.syncs) {
		t.Errorf("%d sorts were made, for %v, and %d of %d syncs in that time", times, took, during, len(o.syncs))
	}
}

func TestWritersGatherFromTheWordUntilTheTransaction(t *testing.T) {
	zero := time.Unix(1000, 0)
	at := func(us int) time.Time { return zero.Add(time.Duration(us) * time.Microsecond) }
	us := func(n int) time.Duration { return time.Duration(n) * time.Microsecond }
	o := observed{
		calibration: calibration{rate: 100},
		arrivals:    []sim.Arrival{{At: us(1)}, {At: us(100)}, {At: us(500)}, {At: us(900)}},
		figures: figures{
			began: zero, pacing: []time.Duration{us(5), us(7), us(0)}, // the first arrival is not measured
			commits: []commit{
				{called: at(116), began: at(118), inserts: 1},
				{called: at(150), began: at(152), swaps: 1},
				{called: at(520), began: at(530), inserts: 1}, // the last comes after it, and is in no commit
			},
		},
	}
	if got := o.gathered(); len(got) != 2 || got[0] != us(11) || got[1] != us(13) {
		t.Errorf("it took %v", got)
	}
	var c Curves
	c.fitGather([]observed{o})
	if want := us(13) - usual.Submit; c.Costs.Gather != want {
		t.Errorf("a writer gathers for %v, want %v", c.Costs.Gather, want)
	}
}

func TestWhatIsMeasuredBeginsWithTheLastArrivalThatIsSkipped(t *testing.T) {
	s := simulated{skip: 10 * time.Second}
	for i := range 30 {
		s.arrivals = append(s.arrivals, sim.Arrival{At: time.Duration(3*i) * time.Second})
	}
	if got := s.start(); got != 9*time.Second {
		t.Errorf("it begins after %v", got)
	}
	s.skip = 0
	if got := s.start(); got != 0 {
		t.Errorf("without anything skipped it begins after %v", got)
	}
}

func TestFiguresAreThoseOfTheMeasuredTime(t *testing.T) {
	c := Curves{Costs: sim.Costs{CommitBytes: 1000}}
	s := simulated{policies: freely(), cores: 2, skip: 5 * time.Second}
	for i := range 101 { // all in the first second, but for the last
		s.arrivals = append(s.arrivals, sim.Arrival{At: time.Duration(i) * 10 * time.Millisecond, Type: "job"})
	}
	s.arrivals = append(s.arrivals, sim.Arrival{At: 10 * time.Second, Type: "job"})
	m, err := c.simulate(s)
	if err != nil {
		t.Fatal(err)
	}
	if got := m.Bytes * 9; math.Abs(got-2000) > 1000 { // from the end of the first second on
		t.Errorf("%.0f bytes are counted, and only those of a task or two were written", got)
	}
}
