package bench

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/taskengine/taskengine/config"
	"github.com/taskengine/taskengine/policy"
)

// places has the positions of the parts of a scenario in its text.
type places struct {
	root, load config.Value
	of         map[string]config.Value // by key
}

func (p places) at(key string) config.Value {
	if n := p.of[key]; !n.IsZero() {
		return n
	}
	return p.root
}

// check checks that the parts of a scenario agree.
func (r reader) check(s *Scenario, at places) {
	r.checkLoad(s, at)
	if s.Load.Shape == Idle && len(s.Tasks) > 0 {
		r.Fault(at.at("tasks"), "the load is idle, so there are no tasks; remove them, or choose another shape")
	}
	if s.Load.Shape == Idle && s.Objective != nil {
		r.Fault(at.at("objective"), "the load is idle, so there are no latencies; remove it, or choose another shape")
	}
	if s.Load.Shape != Idle && len(s.Tasks) == 0 {
		r.Fault(at.root, "needs the key tasks: what is submitted, such as [{name: noop}]")
	}
	r.checkNames(s, at)
	for _, p := range policies(s).Check() {
		key := map[string]string{"types": "tasks", "node": "slots", "limits": "limits"}[p.Path[0]]
		r.Fault(at.at(key), "%s", p.String())
	}
	r.checkFaults(s, at)
	r.checkOrder(s, at)
}

func (r reader) checkNames(s *Scenario, at places) {
	types, total := map[string]bool{backlogType: s.Backlog.Tasks > 0}, 0
	for i := range s.Tasks {
		f := &s.Tasks[i]
		if total += f.Types; total > maxTypes {
			r.Fault(at.at("tasks"), "there are more than %d types in all; have fewer", maxTypes)
			return
		}
		for i := range f.Types {
			name := f.typeName(i)
			if types[name] {
				r.Fault(at.at("tasks"), "two types are named %s; give each a name of its own", name)
			}
			types[name] = true
		}
	}
	limits := make(map[string]bool)
	for _, l := range s.Limits {
		if limits[l.Name] {
			r.Fault(at.at("limits"), "two limits are named %s; give each a name of its own", l.Name)
		}
		limits[l.Name] = true
	}
}

func (r reader) checkLoad(s *Scenario, at places) {
	l := s.Load
	needs := map[Shape]string{Constant: "rate", Poisson: "rate", Bursts: "burst, every", Replay: "trace", Closed: "in_flight"}[l.Shape]
	given := map[string]bool{
		"rate": len(l.Rates) > 0, "burst": l.Burst > 0, "every": l.Every > 0, "trace": l.Trace != "", "in_flight": l.InFlight > 0,
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		switch needed := strings.Contains(needs, name); {
		case needed && !given[name]:
			r.Fault(at.load, "the shape %s needs the key %s", l.Shape, name)
		case !needed && given[name]:
			r.Fault(at.load, "the shape %s has no %s; remove it, or choose another shape", l.Shape, name)
		}
	}
	ends := l.Tasks > 0 || l.Shape == Replay
	if !ends && s.Duration == 0 {
		r.Fault(at.root, "needs the key duration, such as 10s: else the load has no end")
	}
	if ends && s.Duration > 0 {
		r.Fault(at.at("duration"), "the load ends by itself; remove duration, or load.tasks")
	}
	if l.Tasks > 0 && l.Shape != Closed {
		r.Fault(at.load, "the shape %s has no tasks; write duration beside load", l.Shape)
	}
	if l.Shape == Closed && l.Batch > l.InFlight {
		r.Fault(at.load, "a batch of %d never fits into %d in flight; make batch smaller", l.Batch, l.InFlight)
	}
	for _, rate := range l.Rates {
		if rate*(s.WarmUp+s.Duration).Seconds() > maxTasks {
			r.Fault(at.load, "a rate of %v/s is more than %d tasks in all; make duration shorter", rate, maxTasks)
		}
	}
	if l.Shape == Bursts && l.Every > 0 && float64(l.Burst)*(s.WarmUp+s.Duration).Seconds()/l.Every.Seconds() > maxTasks {
		r.Fault(at.load, "that is more than %d tasks in all; make duration shorter", maxTasks)
	}
}

func (r reader) checkFaults(s *Scenario, at places) {
	f, n := s.Faults, at.at("faults")
	plugin := slices.ContainsFunc(s.Tasks, func(f Flow) bool { return f.Handler.plugin() })
	switch {
	case f.KillPlugin > 0 && !plugin:
		r.Fault(n, "kill_plugin needs tasks with the handler go or python")
	case f.KillNode > 0 && (!s.Load.Open() || s.Load.Shape == Replay):
		r.Fault(n, "kill_node needs a load of the shape constant, poisson or bursts")
	case f.KillNode > 0 && s.Backlog.Tasks > 0:
		r.Fault(n, "kill_node cannot go with a backlog; remove one of them")
	case f.KillNode > 0 && s.rated():
		r.Fault(n, "kill_node cannot go with the rate of a limit: a new node knows nothing of the starts before it; remove one of them")
	case f.KillNode > 0 && f.KillPlugin > 0:
		r.Fault(n, "kill_node kills plugins, too; keep one of the two")
	}
	const least = 100 * time.Millisecond
	for _, every := range []time.Duration{f.KillNode, f.KillPlugin} {
		if every > 0 && every < least {
			r.Fault(n, "killing more often than every %v lets nothing run; choose a longer time", least)
		}
	}
}

// checkOrder checks that tasks with a declared order run in order.
func (r reader) checkOrder(s *Scenario, at places) {
	if !s.Ordered {
		return
	}
	for i := range s.Tasks {
		f := &s.Tasks[i]
		if f.Keys == 0 {
			r.Fault(at.at("ordered"), "tasks named %s have no order: they need keys", f.Name)
		}
		if f.Delayed() || f.Types > 1 {
			r.Fault(at.at("ordered"), "tasks named %s have no order: remove after, and have one type", f.Name)
		}
	}
}

// limitsKeys reports whether a limit counts tasks by their key.
func (s *Scenario) limitsKeys() bool {
	return slices.ContainsFunc(s.Limits, func(l Limit) bool { return l.Per == PerKey })
}

// rated reports whether a limit has a rate.
func (s *Scenario) rated() bool {
	return slices.ContainsFunc(s.Limits, func(l Limit) bool { return !l.Rate.IsZero() })
}

// typeName returns the name of one of the types of a flow.
func (f *Flow) typeName(i int) string {
	if f.Types <= 1 {
		return f.Name
	}
	return f.Name + "-" + padded(i, f.Types)
}

// padded writes i with as many digits as the largest of n has.
func padded(i, n int) string {
	digits, s := len(strconv.Itoa(n-1)), strconv.Itoa(i)
	return strings.Repeat("0", max(0, digits-len(s))) + s
}

// backlogType is the type of the tasks of a backlog.
const backlogType = "backlog"

// policies returns the policies of a scenario. A task that fails is tried again at once and without
// a bound, so that a task that does not end was lost.
func policies(s *Scenario) policy.Set {
	set := policy.Set{Slots: s.Slots, Types: make(map[string]policy.Type), Limits: make(map[string]policy.Limit)}
	for _, l := range s.Limits {
		set.Limits[l.Name] = policy.Limit{Name: l.Name, Of: l.Of, Max: l.Max, Rate: l.Rate, Per: l.Per}
	}
	for i := range s.Tasks {
		f := &s.Tasks[i]
		t := policy.DefaultType()
		t.Priority, t.Weight, t.Concurrency, t.Limits, t.Relaxed = f.Priority, f.Weight, f.Concurrency, f.Limits, f.Relaxed
		t.MaxPayload, t.MaxCrashes, t.Retry = maxPayload, 0, policy.Retry{Max: policy.Forever, Backoff: policy.Backoff{Kind: policy.None}}
		if f.AtMostOnce {
			t.Delivery = policy.AtMostOnce
		}
		for i := range f.Types {
			set.Types[f.typeName(i)] = t
		}
	}
	if s.Backlog.Tasks > 0 {
		t := policy.DefaultType()
		t.Paused = !s.Backlog.Delayed
		set.Types[backlogType] = t
	}
	return set
}
