//go:build !race

package sim_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/taskengine/taskengine/engine/sim"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/task"
)

// limited are policies with every kind of limit: slots, a type's own, a tree, one per
// value, one that cuts across, and a rate.
func limited(slots int) policy.Set {
	typ := func(concurrency int, limits ...string) policy.Type {
		p := policy.DefaultType()
		p.Concurrency, p.Limits = concurrency, limits
		p.Retry = policy.Retry{Max: 3, Backoff: policy.Backoff{Kind: policy.Fixed, Delays: []time.Duration{50 * time.Millisecond}}}
		return p
	}
	heavy := typ(0, "out")
	heavy.Weight = 2
	return policy.Set{
		Slots: slots,
		Limits: map[string]policy.Limit{
			"out":     {Name: "out", Max: 6},
			"partner": {Name: "partner", Of: "out", Max: 2, Per: "ordering_key"},
			"shared":  {Name: "shared", Max: 3},
			"slow":    {Name: "slow", Rate: policy.Rate{Count: 50, Per: time.Second, Burst: 5}},
		},
		Types: map[string]policy.Type{
			"plain": typ(0), "alone": typ(2), "paid": typ(0, "partner", "shared"), "heavy": heavy, "slow": typ(0, "slow"),
		},
	}
}

func TestLimitsHoldAndNothingIsLost(t *testing.T) {
	names := []string{"plain", "alone", "paid", "heavy", "slow"}
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 250).Draw(rt, "tasks")
		slots := rapid.IntRange(2, 12).Draw(rt, "slots")
		seed := rapid.Uint64().Draw(rt, "seed")
		conf := sim.Config{
			Policies: limited(slots), Cores: rapid.IntRange(1, 4).Draw(rt, "cores"),
			LookAhead: rapid.IntRange(20, 400).Draw(rt, "look-ahead"), QueueAhead: rapid.IntRange(2, 40).Draw(rt, "queue"),
			Costs: costs(), Seed: seed,
		}
		conf.Costs.Serial = rapid.Bool().Draw(rt, "serial")
		fails := map[int]int{}
		started, ended, done := 0, 0, 0
		conf.Started = func(s sim.Start) {
			started++
			if got := s.Insert + s.Queue + s.Grab; got != s.At-s.Arrival.At {
				rt.Fatalf("the parts of a start add up to %v, it took %v", got, s.At-s.Arrival.At)
			}
		}
		conf.Ended = func(e sim.End) {
			ended++
			if e.Done {
				done++
			}
			if e.Done != (e.Fails < 3) {
				rt.Fatalf("a task that fails %d times of 3 ended with done %v", e.Fails, e.Done)
			}
		}
		conf.Sampled = func(s sim.Sample) {
			if s.Running > slots {
				rt.Fatalf("%d run in %d slots", s.Running, slots)
			}
		}
		conf.SampleEvery = 5 * time.Millisecond
		r, err := sim.Run(conf, arrivals(n, seed, func(rng *rand.Rand, a *sim.Arrival) {
			a.At += exponential(rng, 2*time.Millisecond)
			a.Type, a.Group = names[rng.IntN(len(names))], ""
			if a.Type == "paid" {
				a.Group = task.GroupOf(fmt.Sprint(rng.IntN(3)))
			}
			a.Wait, a.Fails = exponential(rng, 8*time.Millisecond), max(0, rng.IntN(13)-9)
			fails[a.Fails]++
		}))
		if err != nil {
			rt.Fatal(err)
		}
		attempts := fails[0] + 2*fails[1] + 3*(fails[2]+fails[3])
		if r.Submitted != int64(n) || r.Done+r.Failed != int64(n) || r.Left != 0 || started != n || ended != n ||
			int64(done) != r.Done || r.Attempts != int64(attempts) || r.Failed != int64(fails[3]) {
			rt.Fatalf("of %d tasks %d started and %d ended with %d attempts, want %d: %+v", n, started, ended, r.Attempts, attempts, r)
		}
		for _, l := range r.Limits {
			if l.Max > 0 && l.Most > l.Max {
				rt.Fatalf("of limit %q %q, %d of %d were used", l.Name, l.Value, l.Most, l.Max)
			}
			if burst := 5.0; l.Rate > 0 && float64(l.Taken) > l.Rate*r.Elapsed.Seconds()+burst+1 {
				rt.Fatalf("limit %q allows %v/s, and %d were started in %v", l.Name, l.Rate, l.Taken, r.Elapsed)
			}
		}
	})
}

func TestWhatIsAskedIsChecked(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*sim.Config)
		says   string
	}{
		"no cores":       {func(c *sim.Config) { c.Cores = 0 }, "Cores is 0"},
		"no look-ahead":  {func(c *sim.Config) { c.LookAhead = 0 }, "LookAhead is 0"},
		"bad policies":   {func(c *sim.Config) { c.Policies.Slots = -1 }, "node.slots"},
		"negative cost":  {func(c *sim.Config) { c.Costs.Insert = -1 }, "negative"},
		"falling syncs":  {func(c *sim.Config) { c.Costs.Sync = []sim.Idle{{Takes: sim.Quantiles{2, 1}}} }, "Sync"},
		"unknown type":   {func(c *sim.Config) { c.Policies.Types = nil }, `"job"`},
		"falling stalls": {func(c *sim.Config) { c.Costs.Stall = sim.Quantiles{2, 1} }, "falls"},
	} {
		t.Run(name, func(t *testing.T) {
			conf := config(1)
			c.change(&conf)
			_, err := sim.Run(conf, arrivals(1, 1, func(*rand.Rand, *sim.Arrival) {}))
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("the error is %v, want one about %s", err, c.says)
			}
		})
	}
	at := time.Second
	if _, err := sim.Run(config(1), arrivals(2, 1, func(_ *rand.Rand, a *sim.Arrival) { at -= time.Millisecond; a.At = at })); err == nil {
		t.Error("arrivals in the wrong order are accepted")
	}
}

func TestASimulationEndsWhenItsTimeIsOver(t *testing.T) {
	conf := config(1)
	conf.Until = time.Second
	r := run(t, conf, arrivals(1000, 1, func(_ *rand.Rand, a *sim.Arrival) { a.At, a.Wait = a.At+time.Millisecond, 10*time.Millisecond }))
	if r.Left != r.Submitted-r.Done || r.Done < 90 || r.Done > 100 || r.Elapsed > conf.Until+10*time.Millisecond {
		t.Errorf("after a second with one slot and 10 ms a task: %+v", r)
	}
}

func TestMoreCoresAreNeverSlower(t *testing.T) {
	last := time.Duration(1 << 62)
	for _, cores := range []int{1, 2, 4} {
		conf := config(100)
		conf.Cores, conf.Costs = cores, costs()
		var sum time.Duration
		conf.Started = func(s sim.Start) { sum += s.At - s.Arrival.At }
		run(t, conf, arrivals(3000, 4, func(rng *rand.Rand, a *sim.Arrival) {
			a.At += exponential(rng, time.Millisecond)
			a.CPU = exponential(rng, 600*time.Microsecond)
		}))
		if sum > last+last/20 {
			t.Errorf("with %d cores tasks wait for %v in all, with half of them for %v", cores, sum, last)
		}
		last = sum
	}
}

func TestQuantilesAreInterpolated(t *testing.T) {
	q := sim.Quantiles{0, 10, 20, 100}
	for u, want := range map[float64]time.Duration{-1: 0, 0: 0, 1.0 / 6: 5, 1.0 / 3: 10, 5.0 / 6: 60, 1: 100, 2: 100} {
		if got := q.At(u); got < want-1 || got > want {
			t.Errorf("at %v it is %d, want %d", u, got, want)
		}
	}
	if got := q.Mean(); got < 26 || got > 27 {
		t.Errorf("the mean is %d, want 26.7", got)
	}
	if (sim.Quantiles{}).At(0.5) != 0 || (sim.Quantiles{7}).At(0.9) != 7 || (sim.Quantiles{7}).Mean() != 7 {
		t.Error("few values are read wrongly")
	}
}
