//go:build !race

package sim_test

import (
	"iter"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/taskengine/taskengine/engine/sim"
	"github.com/taskengine/taskengine/policy"
)

// arrivals yields n tasks of one type: the differences between them are drawn.
func arrivals(n int, seed uint64, draw func(rng *rand.Rand, a *sim.Arrival)) iter.Seq[sim.Arrival] {
	return func(yield func(sim.Arrival) bool) {
		rng := rand.New(rand.NewPCG(seed, 1))
		a := sim.Arrival{Type: "job"}
		for range n {
			draw(rng, &a)
			if !yield(a) {
				return
			}
		}
	}
}

func exponential(rng *rand.Rand, mean time.Duration) time.Duration {
	return time.Duration(rng.ExpFloat64() * float64(mean))
}

func set(slots int) policy.Set {
	return policy.Set{Slots: slots, Types: map[string]policy.Type{"job": policy.DefaultType()}}
}

func config(slots int) sim.Config {
	return sim.Config{Policies: set(slots), Cores: 1000, LookAhead: 100_000, QueueAhead: 1000, Seed: 7}
}

func costs() sim.Costs {
	us := time.Microsecond
	return sim.Costs{
		Submit: 3 * us, Ack: 2 * us, Commit: 20 * us, Insert: 3 * us, InsertByte: 0.2, Swap: 3 * us,
		Tell: 5 * us, TellRow: us, Start: us, End: us, Background: 2 * us, BackgroundEvery: 1 << 20,
		Sync:    []sim.Idle{{Takes: sim.Quantiles{100 * us, 150 * us, 200 * us, 800 * us}}, {After: time.Millisecond, Takes: sim.Quantiles{300 * us}}},
		SyncKiB: us, SyncCPU: 20 * us, Wake: 30 * us, Stall: sim.Quantiles{0, 0, 0, 100 * us},
		CommitBytes: 4096, InsertBytes: 300, SwapBytes: 200, Amplify: 2,
	}
}

func run(t *testing.T, c sim.Config, a iter.Seq[sim.Arrival]) *sim.Result {
	t.Helper()
	r, err := sim.Run(c, a)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func near(t *testing.T, what string, got, want, within float64) {
	t.Helper()
	if math.Abs(got-want) > within*want {
		t.Errorf("%s is %.4g, want %.4g within %.0f %%", what, got, want, 100*within)
	}
}

// erlangC returns the chance that a task of an M/M/c queue has to wait.
func erlangC(c int, load float64) float64 {
	b := 1.0 // Erlang B, by its recursion
	for k := 1; k <= c; k++ {
		b = load * b / (float64(k) + load*b)
	}
	rho := load / float64(c)
	return b / (1 - rho + rho*b)
}

func TestAgreesWithErlangWhereNothingElseTakesTime(t *testing.T) {
	const n, mean = 30_000, 10 * time.Millisecond
	for _, c := range []int{1, 8} {
		for _, rho := range []float64{0.5, 0.8} {
			gap := time.Duration(float64(mean) / (rho * float64(c)))
			var waited, total float64
			conf := config(c)
			conf.Started = func(s sim.Start) {
				if s.At > s.Arrival.At {
					waited++
				}
				total += (s.At - s.Arrival.At).Seconds()
			}
			run(t, conf, arrivals(n, 3, func(rng *rand.Rand, a *sim.Arrival) {
				a.At += exponential(rng, gap)
				a.Wait = exponential(rng, mean)
			}))
			chance := erlangC(c, rho*float64(c))
			t.Logf("c=%d rho=%.1f: %.4f waited, Erlang C says %.4f", c, rho, waited/n, chance)
			near(t, "the share that waits", waited/n, chance, 0.05)
			near(t, "the mean wait", total/n, chance*mean.Seconds()/(float64(c)*(1-rho)), 0.15)
		}
	}
}

func TestAgreesWithPollaczekAndKhinchineForConstantDurations(t *testing.T) {
	const n, mean = 40_000, 10 * time.Millisecond
	rho, total := 0.7, 0.0
	conf := config(1)
	conf.Started = func(s sim.Start) { total += (s.At - s.Arrival.At).Seconds() }
	run(t, conf, arrivals(n, 5, func(rng *rand.Rand, a *sim.Arrival) {
		a.At += exponential(rng, time.Duration(float64(mean)/rho))
		a.Wait = mean
	}))
	near(t, "the mean wait", total/n, rho/(2*(1-rho))*mean.Seconds(), 0.06)
}

func TestLittlesLawHoldsWhateverThingsCost(t *testing.T) {
	const n = 10_000
	conf := config(20)
	conf.Cores, conf.Costs = 2, costs()
	var inSystem time.Duration
	conf.Ended = func(e sim.End) { inSystem += e.At - e.Arrival.At }
	samples, sum := 0, 0
	conf.SampleEvery = time.Millisecond
	conf.Sampled = func(s sim.Sample) { samples, sum = samples+1, sum+s.Running }
	var holding time.Duration
	r := run(t, conf, arrivals(n, 8, func(rng *rand.Rand, a *sim.Arrival) {
		a.At += exponential(rng, time.Millisecond)
		a.Wait = exponential(rng, 15*time.Millisecond)
		holding += a.Wait
	}))
	if r.Done != n || r.Left != 0 {
		t.Fatalf("%d done and %d left of %d", r.Done, r.Left, n)
	}
	slots := r.Limits[0]
	near(t, "the mean number of running tasks, sampled", float64(sum)/float64(samples), slots.Used.Seconds()/r.Elapsed.Seconds(), 0.03)
	if slots.Used < holding || inSystem < slots.Used {
		t.Errorf("handlers took %v, slots were held for %v, tasks were there for %v: these must rise", holding, slots.Used, inSystem)
	}
}

func TestTheSameSeedGivesTheSameResult(t *testing.T) {
	once := func(seed uint64) (*sim.Result, []sim.Start) {
		var starts []sim.Start
		conf := config(10)
		conf.Cores, conf.Costs, conf.Seed = 2, costs(), seed
		conf.Started = func(s sim.Start) { starts = append(starts, s) }
		return run(t, conf, arrivals(5000, 9, func(rng *rand.Rand, a *sim.Arrival) {
			a.At += exponential(rng, time.Millisecond)
			a.Wait, a.CPU, a.Size = exponential(rng, 8*time.Millisecond), 100*time.Microsecond, rng.IntN(2000)
			a.Fails = rng.IntN(20) / 19
		})), starts
	}
	r1, s1 := once(1)
	r2, s2 := once(1)
	if !reflect.DeepEqual(r1, r2) || !reflect.DeepEqual(s1, s2) {
		t.Error("two runs with the same seed differ")
	}
	if r3, s3 := once(2); reflect.DeepEqual(r1, r3) && reflect.DeepEqual(s1, s3) {
		t.Error("another seed changed nothing")
	}
}

// TestATimerIsLateWhileTheOnlyThreadThatPollsComputes: two tasks wait and one of them then
// computes for long. The second core is idle, and no thread there waits for the other's
// timer, as in Go's scheduler.
func TestATimerIsLateWhileTheOnlyThreadThatPollsComputes(t *testing.T) {
	late := func(cpu time.Duration) time.Duration {
		conf := config(10)
		conf.Cores = 2
		var ended time.Duration
		conf.Ended = func(e sim.End) {
			if e.CPU == 0 {
				ended = e.At
			}
		}
		n := 0
		run(t, conf, arrivals(2, 1, func(_ *rand.Rand, a *sim.Arrival) {
			a.Wait, a.CPU = 20*time.Millisecond, cpu
			if n++; n == 2 {
				a.Wait, a.CPU = 22*time.Millisecond, 0
			}
		}))
		return ended - 22*time.Millisecond
	}
	for cpu, want := range map[time.Duration]time.Duration{
		time.Millisecond:      0,
		6 * time.Millisecond:  4 * time.Millisecond, // until the thread looks again
		60 * time.Millisecond: 8 * time.Millisecond, // until the watchdog does
	} {
		if got := late(cpu); got != want {
			t.Errorf("beside one that computes for %v the timer is late by %v, want %v", cpu, got, want)
		}
	}
}

func TestIdlenessFollowsWhatItIs(t *testing.T) {
	var i sim.Idleness
	for range 100 {
		i.Note(time.Millisecond)
	}
	if got := i.Note(time.Millisecond); got < 999*time.Microsecond || got > time.Millisecond {
		t.Errorf("after many it is %v", got)
	}
	if got := i.Note(0); got > 600*time.Microsecond || got < 400*time.Microsecond {
		t.Errorf("after one busy use it is %v", got)
	}
}

func TestSlowSyncsComeTogetherIfTheyDid(t *testing.T) {
	slow := func(ranks []uint16) (together int) {
		conf := config(10)
		conf.Costs.Sync = []sim.Idle{{Takes: sim.Quantiles{time.Millisecond, 50 * time.Millisecond}, Ranks: ranks}}
		last := false
		conf.Started = func(s sim.Start) {
			now := s.At-s.Arrival.At > 40*time.Millisecond
			if now && last {
				together++
			}
			last = now
		}
		run(t, conf, arrivals(200, 1, func(_ *rand.Rand, a *sim.Arrival) { a.At, a.Wait = a.At+time.Second, 300*time.Millisecond }))
		return together
	}
	apart, together := make([]uint16, 40), make([]uint16, 40)
	for i := range 8 { // a task has two syncs
		apart[i*5], together[i] = sim.MaxRank, sim.MaxRank
	}
	if a, b := slow(apart), slow(together); a != 0 || b < 20 {
		t.Errorf("slow starts follow each other %d times where syncs did not, %d times where they did", a, b)
	}
	conf := config(1)
	conf.Costs.Sync = []sim.Idle{{Ranks: []uint16{sim.MaxRank + 1}}}
	if _, err := sim.Run(conf, arrivals(1, 1, func(*rand.Rand, *sim.Arrival) {})); err == nil {
		t.Error("a rank beyond the greatest is accepted")
	}
}
