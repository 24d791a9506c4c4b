package capacity

import (
	"cmp"
	"slices"
	"time"

	"github.com/taskengine/taskengine/engine/sim"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/task"
)

// Names of the bottlenecks of a load, besides limits.
const (
	slots    = "slots"
	cpu      = "cpu"
	disk     = "disk"
	handlers = "the handlers themselves"
)

// busy is the least utilization of the cores as the bottleneck.
const busy = 0.9

func limitName(name string) string {
	if name == "" {
		return slots
	}
	return "limit " + name
}

// stopped returns the causes of waiting of the tasks that miss the objective, in descending order, and
// at least one share. If none misses it, stopped examines the slowest hundredth.
func (p *planner) stopped(m *modelled) []Share {
	o := p.load.Objective
	bound := o.Below
	if slowest := quantile(m.took, 0.99); slowest < bound {
		bound = slowest
	}
	full, saturated := fullness(m), m.CPU >= busy*float64(p.answer.OfCores)
	waits := map[string]time.Duration{}
	for _, st := range m.starts {
		at := st.At - st.Arrival.At
		if o.Latency == "end" {
			at += st.Wait + st.CPU
			waits[handlers] += st.Wait + st.CPU
		}
		if at < bound {
			continue
		}
		written := st.Insert + st.Grab
		onDisk := min(st.Disk, written)
		waits[disk] += onDisk
		waits[cpu] += written - onDisk
		if st.Queue > 0 {
			name := p.fullest(st.Arrival, full)
			if name == slots && saturated && st.CPU > 0 {
				name = cpu // slots are occupied for so long because handlers wait for a core
			}
			waits[name] += st.Queue
		}
	}
	var all time.Duration
	shares := make([]Share, 0, len(waits))
	for _, d := range waits {
		all += d
	}
	for name, d := range waits {
		if d > 0 {
			shares = append(shares, Share{name, float64(d) / float64(all)})
		}
	}
	if len(shares) == 0 {
		shares = append(shares, Share{handlers, 1})
	}
	slices.SortFunc(shares, func(a, b Share) int {
		return cmp.Or(cmp.Compare(b.Share, a.Share), cmp.Compare(a.Name, b.Name))
	})
	return shares
}

// limitValue is a limit, or one value of a limit per value.
type limitValue struct{ name, value string }

// fullness returns roughly the share of the time that each limit had no room.
func fullness(m *modelled) map[limitValue]float64 {
	full := map[limitValue]float64{}
	elapsed := m.result.Elapsed.Seconds()
	for _, l := range m.result.Limits {
		share := l.Full.Seconds() / elapsed
		if l.Rate > 0 {
			share = max(share, float64(l.Taken)/elapsed/l.Rate)
		}
		full[limitValue{l.Name, l.Value}] = share
	}
	return full
}

// fullest returns the limit of a task that most likely made it wait.
func (p *planner) fullest(a sim.Arrival, full map[limitValue]float64) string {
	t := p.load.Types[a.Type]
	set := p.load.policies(0)
	candidates := []limitValue{{"", ""}, {policy.ConcurrencyName(a.Type), ""}}
	values := task.GroupValues(a.Group, len(set.Keyed(t.Policy)))
	for _, name := range t.Policy.Limits {
		for _, l := range set.Chain(name) {
			value := ""
			if l.Per != "" {
				value, values = values[0], values[1:]
			}
			candidates = append(candidates, limitValue{l.Name, value})
		}
	}
	best := candidates[0]
	for _, c := range candidates[1:] {
		if full[c] > full[best] {
			best = c
		}
	}
	return limitName(best.name)
}
