package server

import (
	"maps"
	"slices"
	"time"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/task"
)

// depths adds how many tasks there are. Only the node with the role of the monitor knows.
func (g gatherer) depths(node *nodeParts, gauge gaugeFunc) {
	d, ok := node.engine.Depths()
	if !ok {
		return
	}
	found := g.byLabel(d)
	const who = " Of the nodes that share a store, the one with the role monitor reports it, and looks every half minute."
	tasks := desc("tasks", "Tasks by state: waiting, submitted or error."+who+" A store in files counts at most 10000 submitted tasks of a type, of those behind the head of an ordering key 1000 of each key and 10000 of all, 10000 waiting tasks and 1000 in error.", "type", "state")
	oldest := desc("oldest_ready_seconds", "For how long the oldest submitted task of the type has been ready; a task that is tried again since its first attempt was due. 0 if there is none."+who, "type")
	more := desc("tasks_truncated", "1 if taskengine_tasks or taskengine_oldest_ready_seconds of the type may be too small, because a bound was met."+who, "type")
	gauge(desc("tasks_counted_timestamp_seconds", "When the node looked how many tasks there are."+who), float64(d.At.UnixMilli())/1000)
	for _, typ := range slices.Sorted(maps.Keys(found)) {
		of := found[typ]
		gauge(tasks, float64(of.Waiting), typ, task.Waiting.String())
		gauge(tasks, float64(of.Submitted), typ, task.Submitted.String())
		gauge(tasks, float64(of.Error), typ, task.Error.String())
		age := time.Duration(0)
		if !of.Oldest.IsZero() {
			age = max(0, d.At.Sub(of.Oldest))
		}
		gauge(oldest, age.Seconds(), typ)
		gauge(more, truth(of.More), typ)
	}
}

// byLabel returns the depths of all configured types and, together, of the others.
func (g gatherer) byLabel(d engine.Depths) map[string]engine.Depth {
	found := map[string]engine.Depth{otherType: {}}
	for name := range g.types {
		found[name] = engine.Depth{}
	}
	for _, t := range d.Types {
		name := t.Type
		if _, ok := g.types[name]; !ok {
			name = otherType
		}
		sum := found[name]
		sum.Waiting += t.Waiting
		sum.Submitted += t.Submitted
		sum.Error += t.Error
		sum.More = sum.More || t.More
		if sum.Oldest.IsZero() || !t.Oldest.IsZero() && t.Oldest.Before(sum.Oldest) {
			sum.Oldest = t.Oldest
		}
		found[name] = sum
	}
	return found
}

func roles(held map[string]bool, gauge gaugeFunc) {
	role := desc("role_held", "1 if the node has the role, which one node has at a time.", "role")
	for _, name := range slices.Sorted(maps.Keys(held)) {
		gauge(role, truth(held[name]), name)
	}
}

// limits adds the limits that are configured, and the slots of the node, which come first.
func limits(all []engine.LimitTotal, gauge gaugeFunc) {
	gauge(desc("slots_used", "Slots that tasks take, each as many as its weight."), float64(all[0].Used))
	if most := all[0].Max; most > 0 {
		gauge(desc("slots_max", "The slots of the node. It is not there without a limit."), float64(most))
	}
	used := desc("limit_used", "Slots of the limit that tasks of this node take, of all its values.", "limit")
	most := desc("limit_max", "The slots of the limit that hold now, of each value if it is for values: of this node or, if its scope is the cluster, of all. It is not there without a maximum.", "limit")
	paused := desc("limit_paused", "1 if no task under the limit is started.", "limit")
	held := desc("limit_permits_held", "Permits of a limit of the cluster that this node holds, of all its values.", "limit")
	wanted := desc("limit_permits_wanted", "Permits of a limit of the cluster that this node has asked for: as many as it holds, or more.", "limit")
	for _, l := range all[1:] {
		gauge(used, float64(l.Used), l.Name)
		gauge(paused, truth(l.Paused), l.Name)
		if l.Max > 0 {
			gauge(most, float64(l.Max), l.Name)
		}
		if l.Cluster {
			gauge(held, float64(l.Held), l.Name)
			gauge(wanted, float64(l.Wanted), l.Name)
		}
	}
}
