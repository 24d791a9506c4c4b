package cluster

import (
	"encoding/binary"
	"slices"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/engine/internal/core"
	"github.com/taskengine/taskengine/task"
)

// assign returns which tasks are for self to start, given the members that are alive. Every node computes
// the same assignment by itself, and when a node comes or goes only its shards move: rendezvous hashing
// (Thaler and Ravishankar 1998). A draining node owns nothing. The shards of a type are divided among the
// nodes that handle it. The shards of a type that no node handles are divided among all nodes, so that
// one of them reports that its tasks wait. Values of a type that have nodes of their own are assigned in
// the same way: places has the keys of their selectors, by type.
func assign(self task.ID, members []coord.Member, places map[string][]string) core.Ownership {
	var able []coord.Member
	handled, matching := make(map[string][]task.ID), make(map[string][]task.ID)
	for _, m := range members {
		if m.Draining {
			continue
		}
		able = append(able, m)
		for _, typ := range m.Handlers {
			handled[typ] = append(handled[typ], m.Incarnation)
		}
		for _, key := range m.Selectors {
			matching[key] = append(matching[key], m.Incarnation)
		}
	}
	all := make([]task.ID, len(able))
	for i, m := range able {
		all[i] = m.Incarnation
	}
	own := core.Ownership{Others: shardsOf(self, all)}
	divide := func(name string, by []task.ID) {
		if len(by) == len(all) {
			return // the same as of others
		}
		if own.Types == nil {
			own.Types = make(map[string]*task.Shards)
		}
		own.Types[name] = shardsOf(self, by)
	}
	for typ, by := range handled {
		divide(typ, by)
	}
	for typ, keys := range places {
		for _, key := range keys {
			by := both(handled[typ], matching[key])
			if len(by) == 0 {
				by = all
			}
			divide(core.OwnedAs(typ, key), by)
		}
	}
	return own
}

// both returns the elements of a that are in b.
func both(a, b []task.ID) (some []task.ID) {
	for _, id := range a {
		if slices.Contains(b, id) {
			some = append(some, id)
		}
	}
	return some
}

// shardsOf returns the shards that self has among nodes; nil is all.
func shardsOf(self task.ID, nodes []task.ID) *task.Shards {
	shards := new(task.Shards)
	switch {
	case !slices.Contains(nodes, self):
		return shards
	case len(nodes) == 1:
		return nil
	}
	for shard := range uint16(task.ShardCount) {
		best := slices.MaxFunc(nodes, func(a, b task.ID) int {
			if x, y := score(a, shard), score(b, shard); x != y {
				if x < y {
					return -1
				}
				return 1
			}
			return a.Compare(b)
		})
		if best == self {
			shards.Add(shard)
		}
	}
	return shards
}

// score is the claim of a node to a shard. The highest claim wins. It is a hash of both by the
// finalizer of SplitMix64 (Steele, Lea and Flood 2014).
func score(node task.ID, shard uint16) uint64 {
	x := binary.BigEndian.Uint64(node[:8]) ^ binary.BigEndian.Uint64(node[8:]) ^ uint64(shard)*0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
