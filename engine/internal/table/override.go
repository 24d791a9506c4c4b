package table

import (
	"maps"
	"slices"

	"github.com/taskengine/taskengine/policy"
)

// Override replaces the overrides of all limits by the ones in live. version is the version of these
// settings: the coordinator of a limit of the cluster gets it with the limit's maximum. Booked tasks
// stay booked: a limit below its use has no room until enough tasks have ended. Tasks that have not
// begun must obey the change when they begin, see [Table.Begin].
func (t *Table) Override(now int64, version uint64, live policy.Live) {
	t.now, t.live, t.version = now, live, version
	t.overrides++
	for _, key := range slices.Sorted(maps.Keys(t.nodes)) {
		n := t.nodes[key]
		l, ok := t.config.Policies.Limits[n.name]
		if !ok { // the concurrency of a type
			continue
		}
		before := n.max
		if n.limit(l.For(n.value, live)); n.max > 0 && (before == 0 || n.max < before) {
			n.lowered = t.overrides
		}
		if n.permits != nil {
			t.changePermits(n)
		}
		t.capacityChanged(now, n)
	}
}

// Adopt replaces the policies by others, which differ in values that [policy.Set.Adopt] takes over. It has the effect of
// [Table.Override]: booked tasks stay booked, and used tokens of rates stay used.
func (t *Table) Adopt(now int64, set policy.Set) {
	t.config.Policies = set
	for _, k := range t.order {
		k.policy = set.Types[k.name]
		k.setLimits(set)
	}
	for _, n := range t.nodes {
		if n.fair != nil {
			n.fair.quantum = set.Limits[n.name].ShareFor(n.value) * n.fair.largest
		}
	}
	t.Override(now, t.version, t.live)
	for _, k := range t.order {
		t.setConcurrency(now, k)
	}
}

// setConcurrency sets the maximum of the limit that is the concurrency of a type, if it has one.
func (t *Table) setConcurrency(now int64, k *kind) {
	most := k.policy.Concurrency
	if most == 0 {
		return
	}
	if n, ok := t.nodes[nodeKey([]policy.Limit{k.concurrency()}, nil)]; ok && n.max != most {
		n.max = most
		t.capacityChanged(now, n)
	}
	for _, q := range k.queues {
		if k.keyed == 0 && q.max != most {
			q.max = most
			t.capacityChanged(now, &q.node)
		}
	}
}

// limit sets the maximum, pause and rate of n. Used tokens of the rate stay used.
func (n *node) limit(e policy.Effective) {
	n.max, n.paused = e.Max, e.Paused
	n.begins = n.begins.changed(e.Rate)
	if n.permits != nil {
		n.permits.setRate(e.Rate)
	} else {
		n.bucket = n.bucket.changed(e.Rate)
	}
}

// changed returns the bucket of another rate. Used tokens of b stay used.
func (b *bucket) changed(r policy.Rate) bucket {
	to := newBucket(r)
	if to.interval != 0 && b.interval != 0 {
		to.due = min(b.due, b.last+to.slack+to.interval)
		to.last, to.since, to.spare = b.last, b.last, 0
	}
	return to
}

// sortedPermits returns the limits of the cluster, sorted by name.
func (t *Table) sortedPermits() []*node {
	nodes := make([]*node, 0, len(t.permits))
	for _, name := range slices.Sorted(maps.Keys(t.permits)) {
		nodes = append(nodes, t.permits[name])
	}
	return nodes
}
