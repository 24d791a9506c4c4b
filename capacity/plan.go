package capacity

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// Answer is the plan for a load.
type Answer struct {
	Objective string  `json:"objective"`
	Met       bool    `json:"met"` // one node can meet the objective; else BreaksFirst is the reason
	Rate      float64 `json:"tasks_per_s"`
	Nodes     int     `json:"nodes"`     // 1: the stores that can be measured have one node
	Margin    float64 `json:"margin"`    // slots and cores suffice for all rates times this; 1 is no margin
	Slots     int     `json:"slots"`     // the fewest with that margin, or as given; without a margin, the fewest and some spare ones
	Cores     int     `json:"cores"`     // the same
	OfCores   int     `json:"of_cores"`  // as given
	HeadRoom  float64 `json:"head_room"` // largest factor on all rates that meets the objective

	// The figures of the node then. The latencies are of the kind of the objective.
	Predicted Figures       `json:"predicted"`
	At        time.Duration `json:"objective_ns"` // prediction of the latency of the objective

	StoreBytes  float64 `json:"store_bytes"`  // in all, in the steady state of the retention
	MemoryBytes float64 `json:"memory_bytes"` // of the node

	BreaksFirst string  `json:"breaks_first"` // the bottleneck when the rates grow further
	Shares      []Share `json:"shares"`       // of the waiting time of late tasks, by cause
	Uses        []Share `json:"uses"`         // utilization in the busiest time
	Steps       []Step  `json:"steps"`        // the simulations that were made
}

// Share is a part of something.
type Share struct {
	Name  string  `json:"name"`
	Share float64 `json:"share"`
}

// Step is one simulation.
type Step struct {
	Why    string        `json:"why"`
	Nodes  int           `json:"nodes"` // 1
	Slots  int           `json:"slots"` // 0 is without limit
	Cores  int           `json:"cores"`
	Factor float64       `json:"factor"` // on all rates
	Took   time.Duration `json:"objective_ns"`
	Met    bool          `json:"met"`
	Events int64         `json:"events"` // that were simulated
}

// The length of each simulation, and the bounds of the search.
const (
	planTasks   = 40_000
	planSeed    = 11
	maxHeadRoom = 64.0
	steps       = 9 // of each bisection of the head-room
)

// planner searches the answer.
type planner struct {
	curves *Curves
	load   *Load
	tasks  int
	answer *Answer
}

// Plan returns the needs of a load on a machine like that of the curves. tasks is the number of
// simulated tasks in each step; 0 is a number that suffices for a 99th percentile.
func Plan(c *Curves, l *Load, tasks int) (*Answer, error) {
	p := &planner{c, l, cmp.Or(tasks, planTasks), &Answer{
		Objective: l.Objective.String(), Rate: l.rate(), OfCores: cmp.Or(l.Cores, c.Machine.Cores), Nodes: 1,
	}}
	if err := p.search(); err != nil {
		return nil, fmt.Errorf("plan: %w", err)
	}
	return p.answer, nil
}

// setup is the node of one simulation.
type setup struct {
	slots, cores int
	factor       float64
}

// try simulates a node.
func (p *planner) try(why string, s setup) (modelled, bool, error) {
	o := p.load.Objective
	m, err := p.curves.simulate(simulated{
		policies: p.load.policies(s.slots), arrivals: p.load.trace(planSeed, p.tasks, s.factor),
		cores: s.cores, seed: planSeed, end: o.Latency == "end",
	})
	if err != nil {
		return m, false, err
	}
	took := quantile(m.took, o.Quantile)
	met := took < o.Below && p.keepsUp(&m)
	p.answer.Steps = append(p.answer.Steps, Step{why, 1, s.slots, s.cores, s.factor, took, met, m.result.Events})
	return m, met, nil
}

// keepsUp reports whether tasks end as fast as they come. If not, the latencies keep growing after the
// simulated time. With retries the time of the end does not show it, since the last retries come much
// later; the number of waiting tasks does.
func (p *planner) keepsUp(m *modelled) bool {
	const tail = 0.1
	slowest := time.Duration(0)
	for _, t := range p.load.Types {
		slowest = max(slowest, t.Duration.Mean())
	}
	return m.result.Elapsed.Seconds() < (1+tail)*m.span.Seconds()+20*slowest.Seconds()+1 || p.retries()
}

func (p *planner) retries() bool {
	for _, t := range p.load.Types {
		if t.Retries > 0 {
			return true
		}
	}
	return false
}

func (p *planner) search() error {
	a := p.answer
	at := setup{slots: p.load.Slots, cores: a.OfCores, factor: 1}
	err := p.margin(at)
	if err != nil {
		return err
	}
	ample := at
	ample.factor = a.Margin
	if a.Met && p.load.Slots == 0 {
		if at.slots, err = p.smallest("slots", p.least(), func(n int) setup { s := ample; s.slots = n; return s }); err != nil {
			return err
		}
		at.slots = p.spare(at.slots, maxSlots)
		ample.slots = at.slots
	}
	a.Slots, a.Cores, a.HeadRoom = at.slots, at.cores, 1
	if a.Met {
		if a.Cores, err = p.smallest("cores", 1, func(n int) setup { s := ample; s.cores = n; return s }); err != nil {
			return err
		}
	}
	if a.Met {
		a.Cores = p.spare(a.Cores, at.cores)
	}
	m, _, err := p.try("the answer", at)
	if err != nil {
		return err
	}
	a.Predicted, a.At = m.Figures, quantile(m.took, p.load.Objective.Quantile)
	p.sizes(&m)
	p.uses(at, &m)
	return p.headRoom(at)
}

// spare adds the margin of the load to n, which was determined without it: then something else
// prevents the objective, and slots and cores must not be next.
func (p *planner) spare(n, most int) int {
	if p.answer.Margin == p.load.Margin {
		return n
	}
	return min(most, int(math.Ceil(float64(n)*p.load.Margin)))
}

// margin determines whether the objective is met with all slots and cores that may be used, and
// whether it is still met with the margin of the load. Several nodes are not tried: the stores that
// can be measured have one node.
func (p *planner) margin(at setup) error {
	a := p.answer
	_, met, err := p.try("all of it", at)
	a.Met, a.Margin = met, 1
	if err != nil || !met || p.load.Margin == 1 {
		return err
	}
	at.factor = p.load.Margin
	if _, met, err = p.try("margin", at); met {
		a.Margin = p.load.Margin
	}
	return err
}

// least returns the number of slots that are busy on average. Fewer cannot suffice.
func (p *planner) least() int {
	busy, weight := 0.0, 1
	for _, t := range p.load.Types {
		busy += t.busiest(p.load.Growth) * t.attempts() * t.Duration.Mean().Seconds() * float64(t.Policy.Weight)
		weight = max(weight, t.Policy.Weight)
	}
	return max(weight, int(busy))
}

// smallest returns the smallest number, not below from, that meets the objective. One exists.
func (p *planner) smallest(why string, from int, with func(int) setup) (int, error) {
	var failure error
	meets := func(n int) bool {
		_, met, err := p.try(why, with(n))
		failure = errors.Join(failure, err)
		return met || failure != nil
	}
	low, high := from, from
	for step := 1; !meets(high); step *= 2 {
		if low = high + 1; high >= maxSlots {
			return 0, fmt.Errorf("the objective is not met with %d %s, but without a limit it is", high, why)
		}
		high += step
	}
	for low < high {
		if middle := (low + high) / 2; meets(middle) {
			high = middle
		} else {
			low = middle + 1
		}
	}
	return high, failure
}

// headRoom determines how far the rates can grow, and the bottleneck beyond.
func (p *planner) headRoom(at setup) error {
	a := p.answer
	low, high := 1.0, 2.0
	if !a.Met {
		low, high = 0, 1
	}
	for a.Met && high <= maxHeadRoom {
		at.factor = high
		_, met, err := p.try("head-room", at)
		if err != nil {
			return err
		}
		if !met {
			break
		}
		low, high = high, 2*high
	}
	for range steps {
		at.factor = (low + high) / 2
		_, met, err := p.try("head-room", at)
		if err != nil {
			return err
		}
		if met {
			low = at.factor
		} else {
			high = at.factor
		}
	}
	a.HeadRoom = math.Floor(low*100) / 100
	at.factor = high * 1.05
	m, _, err := p.try("the bottleneck", at)
	if err != nil {
		return err
	}
	a.Shares = p.stopped(&m)
	a.BreaksFirst = a.Shares[0].Name
	return nil
}

// sizes determines the size of the store and of the memory.
func (p *planner) sizes(m *modelled) {
	a, c := p.answer, p.curves
	running := 0.0
	for _, name := range p.load.names() {
		t := p.load.Types[name]
		kept := (1-t.lost())*t.KeepDone.Seconds() + t.lost()*t.KeepError.Seconds()
		a.StoreBytes += t.Rate * p.load.Growth * kept * (c.KeptRow + c.KeptPayload*float64(t.Payload))
		running = max(running, float64(t.Payload))
	}
	most := float64(m.result.Limits[0].Most)
	const stack = 16 << 10 // of a running goroutine, with the data it refers to
	a.MemoryBytes = float64(c.Base) + float64(m.most)*c.Trigger + most*(stack+running)
}

// uses determines the utilization of limits, cores and disk.
func (p *planner) uses(at setup, m *modelled) {
	span, a := m.span.Seconds(), p.answer
	for _, l := range m.result.Limits {
		name := limitName(l.Name)
		share := 0.0
		if l.Max > 0 {
			share = l.Used.Seconds() / span / float64(l.Max)
		}
		if l.Rate > 0 {
			share = max(share, float64(l.Taken)/span/l.Rate)
		}
		if l.Max == 0 && l.Rate == 0 {
			continue
		}
		i := slices.IndexFunc(a.Uses, func(s Share) bool { return s.Name == name })
		if i < 0 {
			a.Uses = append(a.Uses, Share{name, share})
		} else {
			a.Uses[i].Share = max(a.Uses[i].Share, share) // of the values, the busiest
		}
	}
	a.Uses = append(a.Uses, Share{cpu, m.CPU / float64(at.cores)}, Share{disk, m.result.DiskBusy.Seconds() / span})
}
