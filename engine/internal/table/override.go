package table

import (
	"maps"
	"slices"

	"github.com/taskengine/taskengine/engine/policy"
)

// Override replaces the overrides of all limits by those in live. version is the version of these
// settings: the coordinator of a limit of the cluster is told it with the limit's maximum. Booked tasks
// stay booked: a limit that is lower than what is used has no room until it is not.
func (t *Table) Override(now int64, version uint64, live policy.Live) {
	t.now, t.live, t.version = now, live, version
	for _, key := range slices.Sorted(maps.Keys(t.nodes)) {
		n := t.nodes[key]
		l, ok := t.config.Policies.Limits[n.name]
		if !ok { // the concurrency of a type
			continue
		}
		n.limit(l.For(n.value, live))
		if n.permits != nil {
			t.changePermits(n)
		}
		t.capacityChanged(now, n)
	}
}

// limit sets what n allows. What its rate has used up stays used up.
func (n *node) limit(e policy.Effective) {
	n.max, n.paused = e.Max, e.Paused
	if n.permits != nil {
		n.permits.setRate(e.Rate)
		return
	}
	old := n.bucket
	n.bucket = newBucket(e.Rate)
	if n.bucket.interval != 0 && old.interval != 0 {
		n.bucket.due = min(old.due, old.last+n.bucket.slack+n.bucket.interval)
		n.bucket.last, n.bucket.since, n.bucket.spare = old.last, old.last, 0
	}
}

// sortedPermits returns the limits of the cluster, sorted by name.
func (t *Table) sortedPermits() []*node {
	nodes := make([]*node, 0, len(t.permits))
	for _, name := range slices.Sorted(maps.Keys(t.permits)) {
		nodes = append(nodes, t.permits[name])
	}
	return nodes
}
