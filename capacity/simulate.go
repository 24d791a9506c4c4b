package capacity

import (
	"errors"
	"iter"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/engine/sim"
	"github.com/taskengine/taskengine/policy"
)

// simulated is a load, and the machine to simulate it on.
type simulated struct {
	policies policy.Set
	arrivals []sim.Arrival
	skip     time.Duration // at the start, left out of the latencies
	cores    int
	seed     uint64
	end      bool // measure the time to the end of tasks; else to their start
	paced    bool // submit and handle a little late, as a trial does
}

// start returns when a trial begins to measure: the time of the last skipped arrival.
func (s *simulated) start() (at time.Duration) {
	for i := range s.arrivals {
		if s.arrivals[i].At < s.skip {
			at = s.arrivals[i].At
		}
	}
	return at
}

// modelled is the prediction of a run.
type modelled struct {
	Figures
	result *sim.Result
	span   time.Duration // from the start to the last arrival
	starts []sim.Start   // of the tasks that count
	took   []time.Duration
	most   int // maximum number of tasks that waited for a slot
}

// wakes returns how often per second work came while all cores were idle, and how often they had
// been idle for long.
func (m *modelled) wakes() (all, cold float64) {
	return float64(m.result.Wakes) / m.span.Seconds(), float64(m.result.Colds) / m.span.Seconds()
}

// samplings is the number of samples of a simulation.
const samplings = 2000

// simulate predicts a load.
func (c *Curves) simulate(s simulated) (m modelled, err error) {
	arrivals, intended := slices.Values(s.arrivals), func(a sim.Arrival) time.Duration { return a.At }
	if s.paced {
		arrivals, intended = c.pace(s)
	}
	if n := len(s.arrivals); n > 0 {
		m.span = s.arrivals[n-1].At
	}
	if m.span <= 0 {
		return m, errors.New("the load has too few tasks to be simulated")
	}
	counts := func(a sim.Arrival) (time.Duration, bool) {
		at := intended(a)
		return at, at >= s.skip
	}
	var from, to sim.Sample // the measured time is between them, as in a trial
	start := s.start()
	m.result, err = sim.Run(sim.Config{
		Policies: s.policies, Cores: s.cores, LookAhead: engine.DefaultLookAhead, QueueAhead: engine.DefaultQueueLookAhead,
		Costs: c.Costs, Seed: s.seed,
		SampleEvery: max(time.Millisecond, m.span/samplings),
		SampleUntil: 2 * m.span, // a handler may run for hours after the last arrival
		Sampled: func(x sim.Sample) {
			m.most = max(m.most, x.Queued)
			if x.At <= start {
				from = x
			}
			if x.At <= m.span {
				to = x
			}
		},
		Started: func(st sim.Start) {
			if at, ok := counts(st.Arrival); ok {
				m.starts = append(m.starts, st)
				if !s.end {
					m.took = append(m.took, st.At-at)
				}
			}
		},
		Ended: func(e sim.End) {
			if at, ok := counts(e.Arrival); ok && s.end {
				m.took = append(m.took, e.At-at)
			}
		},
	}, arrivals)
	if err != nil {
		return m, err
	}
	r, d := m.result, m.span.Seconds()
	slices.Sort(m.took)
	m.Figures = Figures{
		P50: quantile(m.took, 0.5), P99: quantile(m.took, 0.99), Rate: float64(r.Done+r.Failed) / r.Elapsed.Seconds(),
		Running: r.Limits[0].Used.Seconds() / d,
	}
	if d := (to.At - from.At).Seconds(); d > 0 {
		m.CPU = (to.CPU - from.CPU).Seconds() / d
		m.Commits = float64(to.Commits-from.Commits) / d
		m.Bytes = (to.Written - from.Written) / d
	}
	return m, nil
}

// pace delays the arrivals as a trial does: one goroutine submits all of them, each as late as its
// timer. The second result returns the intended time of an arrival.
func (c *Curves) pace(s simulated) (iter.Seq[sim.Arrival], func(sim.Arrival) time.Duration) {
	rng := rand.New(rand.NewPCG(s.seed, 5))
	paced := slices.Clone(s.arrivals)
	late := make(map[time.Duration]time.Duration, len(paced)) // by the new time, which is unique
	now := time.Duration(-1)
	for i := range paced {
		a := &paced[i]
		meant := a.At
		if meant >= now {
			pacing := c.Pacing
			if a.Size >= large && len(c.PacingLarge) > 0 {
				pacing = c.PacingLarge
			}
			a.At += pacing.After(meant - max(0, now)).At(rng.Float64())
		}
		if a.Wait > 0 {
			a.Wait += c.Late.At(rng.Float64())
		}
		a.At = max(a.At, now+1)
		now = a.At
		late[now] = now - meant
	}
	return slices.Values(paced), func(a sim.Arrival) time.Duration { return a.At - late[a.At] }
}
