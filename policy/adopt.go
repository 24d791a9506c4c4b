package policy

import "maps"

// Adopt returns s with the values of to that an engine can take over while it runs, see [Type.Adopt] and [Limit.Adopt]. Types and
// limits that are in one of the sets only are as in s, and so are the slots of the node.
func (s Set) Adopt(to Set) Set {
	adopted := Set{Slots: s.Slots, Types: maps.Clone(s.Types), Limits: maps.Clone(s.Limits)}
	for name, t := range to.Types {
		if was, ok := s.Types[name]; ok {
			adopted.Types[name] = was.Adopt(t)
		}
	}
	for name, l := range to.Limits {
		if was, ok := s.Limits[name]; ok {
			adopted.Limits[name] = was.Adopt(l)
		}
	}
	return adopted
}

// Adopt returns t with the values of to that an engine can take over while it runs. It cannot take over values on which the table of
// triggers, the place of rows, and the sizes of buffers depend: Delivery, Relaxed, Weight, Slotless, Limits, Nodes, Ageing, MaxPayload,
// MaxResult and Search. Paused is for the start. A bound of the concurrency or of the backlog can have another value, but neither appear nor
// disappear, and that of a backlog with DropOldest stays.
func (t Type) Adopt(to Type) Type {
	t.Priority, t.MaxCrashes, t.MaxLateness = to.Priority, to.MaxCrashes, to.MaxLateness
	t.Timeout, t.Retry, t.Retention, t.Ordering, t.Unique = to.Timeout, to.Retry, to.Retention, to.Ordering, to.Unique
	if t.Concurrency > 0 && to.Concurrency > 0 {
		t.Concurrency = to.Concurrency
	}
	if t.MaxBacklog.Max > 0 && to.MaxBacklog.Max > 0 && t.MaxBacklog.WhenFull == to.MaxBacklog.WhenFull && to.MaxBacklog.WhenFull != DropOldest {
		t.MaxBacklog.Max = to.MaxBacklog.Max
	}
	return t
}

// Adopt returns l with the values of to that an engine can take over while it runs: Max, Rate, Overrides and Shares. The Max of a limit of
// the cluster stays if the other one would divide its tasks among the shards in another way, see [Set.ShardedBy].
func (l Limit) Adopt(to Limit) Limit {
	if !l.Cluster || l.Per == "" || l.isSharding() == to.isSharding() {
		l.Max = to.Max
	}
	l.Rate, l.Overrides, l.Shares = to.Rate, to.Overrides, to.Shares
	return l
}

// isSharding reports whether Max is that of a limit whose values divide tasks into shards.
func (l Limit) isSharding() bool { return l.Max > 0 && l.Max <= maxSharded }
