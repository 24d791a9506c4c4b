package cluster

import (
	"slices"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/engine/internal/core"
	"github.com/taskengine/taskengine/task"
)

// view is the knowledge of a node about itself and the other members. It is immutable: when something
// changes, another view takes its place.
type view struct {
	incarnation task.ID               // of this node, the owner of its grabs
	past        []task.ID             // incarnations that this node had before
	members     []coord.Member        // that are alive, this node included, sorted by incarnation; nil while the node cannot prove that it is
	left        map[task.ID]time.Time // incarnations that were members within the last hour, and when the node learned that they had left
	owned       core.Ownership        // the ownership of the core
}

// goneFor is how long a view remembers an incarnation that is no longer a member.
const goneFor = time.Hour

// withMembers returns the view that follows v when the members are these.
func (v *view) withMembers(members []coord.Member, places map[string][]string, now time.Time) *view {
	left := make(map[task.ID]time.Time)
	for id, at := range v.left {
		if now.Sub(at) < goneFor {
			left[id] = at
		}
	}
	for _, m := range v.members {
		left[m.Incarnation] = now
	}
	for _, m := range members {
		delete(left, m.Incarnation)
	}
	return &view{
		incarnation: v.incarnation, past: v.past, members: members, left: left,
		owned: assign(v.incarnation, members, places),
	}
}

// reborn returns the view that follows v when the node has lost its lease: it has another
// incarnation, owns nothing, and knows no member.
func (v *view) reborn(incarnation task.ID) *view {
	return &view{incarnation: incarnation, past: append(slices.Clone(v.past), v.incarnation), owned: none()}
}

// none is the ownership of nothing.
func none() core.Ownership { return core.Ownership{Others: new(task.Shards)} }

// member returns the member with an incarnation, nil if there is none.
func (v *view) member(incarnation task.ID) *coord.Member {
	for i := range v.members {
		if v.members[i].Incarnation == incarnation {
			return &v.members[i]
		}
	}
	return nil
}

// Incarnation returns the id under which the node owns the tasks that it runs.
func (k *Cluster) Incarnation() task.ID { return k.view.Load().incarnation }

// IsOurs reports whether an incarnation is, or was, this node's.
func (k *Cluster) IsOurs(owner task.ID) bool {
	v := k.view.Load()
	return owner == v.incarnation || slices.Contains(v.past, owner)
}

// Owned returns which tasks are for this node to start. The shards in it must not be changed.
func (k *Cluster) Owned() core.Ownership { return k.view.Load().owned }

// IsMember reports whether the node is a member, so that it can prove that it is alive. If not, it
// starts nothing.
func (k *Cluster) IsMember() bool { return len(k.view.Load().members) > 0 }

// Members returns the nodes that are alive and share the store, sorted by incarnation. It returns
// nil while this node cannot prove that it is alive, and if the store is not shared.
func (k *Cluster) Members() []coord.Member {
	if k.shared == nil {
		return nil
	}
	return slices.Clone(k.view.Load().members)
}

// Proves reports whether the node is alive at this moment under an incarnation, so that no other
// node can take it for dead.
func (k *Cluster) Proves(incarnation task.ID) bool {
	return k.membership.Proves(incarnation)
}

// Lease returns how long other nodes believe that this one is alive after it has proved it: the lease of
// the membership, or else the configured one.
func (k *Cluster) Lease() time.Duration {
	if lease := k.membership.Lease(); lease > 0 {
		return lease
	}
	return k.config.Lease
}

// Alive returns the incarnations that are alive. It returns nil if this node cannot prove that it
// is alive itself: then its view of the others may be out of date. If it can, the view that it has
// then is as new as the proof: see [coord.Membership].
func (k *Cluster) Alive() []task.ID {
	incarnation := k.Incarnation()
	if !k.Proves(incarnation) {
		return nil
	}
	v := k.view.Load() // after the proof: a view from before may lack a member
	if v.incarnation != incarnation {
		return nil
	}
	var ids []task.ID
	for _, m := range v.members {
		ids = append(ids, m.Incarnation)
	}
	return ids
}
