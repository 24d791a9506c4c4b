package bench

import (
	"math"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"
)

// arrivalsOf returns the arrivals of a scenario.
func arrivalsOf(t *testing.T, s *Scenario) []arrival {
	t.Helper()
	rate := 0.0
	if len(s.Load.Rates) > 0 {
		rate = s.Load.Rates[0]
	}
	all, err := newRepetition(s.clone(), &Options{}, rate, time.Now()).arrivals()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestASeedAlwaysGivesTheSameLoadAndAnotherAnother(t *testing.T) {
	for _, load := range []string{"{shape: poisson, rate: 1000/s}", "{shape: constant, rate: 1000/s}", "{shape: bursts, burst: 50, every: 100ms}"} {
		sets := []string{"load=" + load, "duration=2s", "tasks=[{name: a, types: 50, keys: 900, zipf: 1.3}, {name: b, keys: 90}]"}
		one, two := arrivalsOf(t, parsed(t, small, sets...)), arrivalsOf(t, parsed(t, small, sets...))
		if len(one) == 0 || !slices.Equal(one, two) {
			t.Errorf("%s: the same seed gives different loads", load)
		}
		if other := arrivalsOf(t, parsed(t, small, append(sets, "load.seed=2")...)); slices.Equal(one, other) {
			t.Errorf("%s: different seeds give the same load", load)
		}
	}
}

func TestAConstantLoadIsEven(t *testing.T) {
	all := arrivalsOf(t, parsed(t, small, "load={shape: constant, rate: 300/s}", "warm_up=1s", "duration=9s"))
	if len(all) != 3000 {
		t.Fatalf("there are %d tasks in 10 s, want 3000", len(all))
	}
	for i, a := range all {
		if want := time.Duration(i) * time.Second / 300; (a.at - want).Abs() > time.Microsecond {
			t.Fatalf("task %d comes at %v, want %v", i, a.at, want)
		}
	}
}

func TestAPoissonLoadHasTheRateAndTheVarianceOfOne(t *testing.T) {
	all := arrivalsOf(t, parsed(t, small, "load={shape: poisson, rate: 2000/s}", "warm_up=0s", "duration=100s"))
	var gaps []float64
	before := time.Duration(0)
	for _, a := range all {
		gaps = append(gaps, (a.at - before).Seconds())
		before = a.at
	}
	mean, variance := moments(gaps)
	// Of 200 000 gaps, the mean is within 1.5 % and the variance within 3 % by six standard errors.
	if math.Abs(mean*2000-1) > 0.015 || math.Abs(variance*2000*2000-1) > 0.03 {
		t.Errorf("gaps have the mean %v and the variance %v, want %v and %v", mean, variance, 1.0/2000, 1.0/2000/2000)
	}
	counts := make([]float64, 1000) // in each tenth of a second
	for _, a := range all {
		counts[int(a.at/(100*time.Millisecond))]++
	}
	if mean, variance = moments(counts); math.Abs(variance/mean-1) > 0.27 {
		t.Errorf("counts have the mean %v and the variance %v, which should be the same", mean, variance)
	}
}

func moments(of []float64) (mean, variance float64) {
	for _, x := range of {
		mean += x / float64(len(of))
	}
	for _, x := range of {
		variance += (x - mean) * (x - mean) / float64(len(of)-1)
	}
	return mean, variance
}

func TestBurstsComeTogether(t *testing.T) {
	s := parsed(t, small, "load={shape: bursts, burst: 7, every: 250ms}", "warm_up=0s", "duration=1s")
	all := arrivalsOf(t, s)
	if len(all) != 28 || s.offered(0) != 28 {
		t.Fatalf("there are %d tasks, and %v/s offered", len(all), s.offered(0))
	}
	for i, a := range all {
		if want := time.Duration(i/7) * 250 * time.Millisecond; a.at != want {
			t.Errorf("task %d comes at %v, want %v", i, a.at, want)
		}
	}
}

func TestDrawsHaveTheSharesTypesAndKeysOfTheirFlows(t *testing.T) {
	const n = 100_000
	s := parsed(t, small, "tasks=[{name: a, share: 3, types: 4, payload: 1KiB}, {name: b, share: 1, keys: 1000, zipf: 1.5}, {name: c, share: 1, keys: 10}]")
	deal := newDealer(s)
	flows, types, zipf, even := make([]int, 3), make([]int, 4), make([]int, 1000), make([]int, 10)
	for range n {
		d := deal.next()
		flows[d.flow]++
		switch d.flow {
		case 0:
			types[d.typ]++
			if d.key != -1 || d.size != 1024 {
				t.Fatalf("a task without a key is %+v", d)
			}
		case 1:
			zipf[d.key]++
		case 2:
			even[d.key]++
		}
	}
	near := func(what string, got int, want float64) {
		t.Helper()
		if math.Abs(float64(got)-want) > 6*math.Sqrt(want) {
			t.Errorf("%s: %d, want about %.0f", what, got, want)
		}
	}
	near("flow a", flows[0], 0.6*n)
	near("flow b", flows[1], 0.2*n)
	for _, c := range types {
		near("type", c, 0.15*n)
	}
	for _, c := range even {
		near("key", c, 0.02*n)
	}
	if zipf[0] < 5*zipf[5] || zipf[5] <= zipf[500] {
		t.Errorf("the keys are not uneven: %d, %d and %d", zipf[0], zipf[5], zipf[500])
	}
}

func TestATraceIsReplayed(t *testing.T) {
	for file, text := range map[string]string{
		"t.jsonl": `{"offset": "20ms", "type": "b", "size": 5}` + "\n\n" + `{"offset": "10ms", "type": "a", "key": "x", "size": 300}` + "\n",
		"t.csv":   "offset,type,key,size\n20ms,b,,5\n10ms,a,x,300\n",
	} {
		s := parsed(t, small, "load={shape: replay, trace: "+file+"}", "duration=0s", "tasks=[{name: a}, {name: b}]")
		s.files = fstest.MapFS{file: {Data: []byte(text)}}
		all := arrivalsOf(t, s)
		if len(all) != 2 {
			t.Fatalf("%s: there are %d tasks", file, len(all))
		}
		if a := all[0]; a.at != 10*time.Millisecond || a.flow != 0 || a.size != 300 || a.key != 0 {
			t.Errorf("%s: the first is %+v", file, a)
		}
		if b := all[1]; b.at != 20*time.Millisecond || b.flow != 1 || b.size != 5 || b.key != -1 {
			t.Errorf("%s: the second is %+v", file, b)
		}
	}
}

func TestATraceThatCannotBeReplayedIsRefusedWithItsLine(t *testing.T) {
	for name, c := range map[string]struct{ file, text, says string }{
		"no unit":       {"t.jsonl", `{"offset": "20", "type": "a", "size": 5}`, "line 1: 20 needs a unit"},
		"no JSON":       {"t.jsonl", "{}x", "line 1"},
		"unknown type":  {"t.jsonl", `{"offset": "20ms", "type": "zz", "size": 5}`, `no tasks named "zz"`},
		"too large":     {"t.jsonl", `{"offset": "20ms", "type": "a", "size": 5000000}`, "1048576"},
		"nothing":       {"t.jsonl", "\n", "there is no task"},
		"another head":  {"t.csv", "when,type\n", "the head has to be offset,type,key,size"},
		"no size":       {"t.csv", "offset,type,key,size\n1ms,a,,x\n", "line 2"},
		"a torn line":   {"t.csv", "offset,type,key,size\n1ms,a\n", "wrong number of fields"},
		"nowhere":       {"other.jsonl", "", "t.jsonl"},
		"out of bounds": {"t.jsonl", `{"offset": "9999h", "type": "a", "size": 5}`, "too long"},
	} {
		t.Run(name, func(t *testing.T) {
			trace := c.file
			if name == "nowhere" {
				trace = "t.jsonl"
			}
			s := parsed(t, small, "load={shape: replay, trace: "+trace+"}", "duration=0s", "tasks=[{name: a}]")
			s.files = fstest.MapFS{c.file: {Data: []byte(c.text)}}
			if _, err := newSchedule(s, 0); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("the error is %v, want %q", err, c.says)
			}
		})
	}
}

func TestARecordedLoadIsRun(t *testing.T) {
	s, err := LoadScenario("replay", "runs=1")
	if err != nil {
		t.Fatal(err)
	}
	const offered = 400 / (3.129791 - 0.120)
	if run := ran(t, s, on(t, Memory))[0].Runs[0]; run.Submitted != 400 || math.Abs(run.Offered-offered) > 1e-6 {
		t.Errorf("%d tasks were submitted, %v/s offered, want %v", run.Submitted, run.Offered, offered)
	}
}

func TestTheRateOfATraceIsItsOwn(t *testing.T) {
	var trace []arrival
	for i := range 10 { // two tasks each half second, of which one in five is of the second flow
		a := arrival{at: time.Duration(i/2) * 500 * time.Millisecond}
		if i%5 == 4 {
			a.flow = 1
		}
		trace = append(trace, a)
	}
	for name, c := range map[string]struct {
		trace []arrival
		from  time.Duration
		flow  int
		want  float64
	}{
		"all":             {trace, 0, allFlows, 5},
		"one flow":        {trace, 0, 1, 1},
		"after a warm-up": {trace, 600 * time.Millisecond, allFlows, 6},
		"at once":         {trace[:2], 0, allFlows, 2},
		"nothing is left": {trace, time.Hour, allFlows, 0},
	} {
		if got := traceRate(c.trace, c.from, c.flow); got != c.want {
			t.Errorf("%s: it is %v/s, want %v/s", name, got, c.want)
		}
	}
}
