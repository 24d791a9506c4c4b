package cluster

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/task"
)

// maxNodesNamed is the maximum number of nodes in a message.
const maxNodesNamed = 10

// IsRun reports whether a node that is alive announces that it runs the tasks of a type. It returns
// true while the nodes that are alive are not known.
func (k *Cluster) IsRun(typ string) bool {
	v := k.view.Load()
	return len(v.members) == 0 || v.isRun(typ)
}

// AnnouncedTypes returns the types that nodes that are alive announce, in no order and possibly more than once.
func (k *Cluster) AnnouncedTypes() (types []string) {
	for _, m := range k.view.Load().members {
		types = append(types, m.Handlers...)
	}
	return types
}

// RunBy returns the names of the nodes that start tasks of a type, sorted: nodes that are alive and
// not draining, have a handler for it and match its nodes.
func (k *Cluster) RunBy(typ string) (names []string) { return k.RunByPlace(typ, "") }

// Named returns which nodes have a name that is in a row, see [task.NodeName]: whether this one has it, or had it as an
// incarnation before, and whether another one that is alive has it.
func (k *Cluster) Named(name string) (isOurs, isOther bool) {
	v := k.view.Load()
	isOther = slices.ContainsFunc(v.members, func(m coord.Member) bool {
		return m.Incarnation != v.incarnation && task.NodeName(nameOf(m)) == name
	})
	id, err := task.ParseID(name)
	return name == task.NodeName(k.config.Name) || err == nil && k.IsOurs(id), isOther
}

// RunByPlace is RunBy for the tasks of values with the selector of this key; "" is RunBy.
func (k *Cluster) RunByPlace(typ, key string) (names []string) {
	for _, m := range k.view.Load().members {
		if !m.Draining && slices.Contains(m.Handlers, typ) && (key == "" || slices.Contains(m.Selectors, key)) {
			names = append(names, nameOf(m))
		}
	}
	slices.Sort(names)
	return names
}

// Unplaced says why no node runs a type if the configuration names its nodes: it lists the wanted and
// the live nodes. isMatched reports whether a live node matches, and lacks a handler. The text is "" if
// a node runs the type, if all nodes may, or while the live nodes are not known.
func (k *Cluster) Unplaced(typ string) (text string, isMatched bool) {
	v, want := k.view.Load(), k.engine.Nodes(typ)
	if want == "" || len(v.members) == 0 || v.isRun(typ) {
		return "", false
	}
	if matching := k.matching(v, typ); len(matching) > 0 {
		return fmt.Sprintf("no live node that matches nodes: %s has a handler for type %s; the matching nodes: %s", want, typ, joinShort(matching)), true
	}
	return fmt.Sprintf("no live node matches nodes: %s; nodes that are alive: %s", want, joinShort(v.described())), false
}

// isRun reports whether a member runs the tasks of a type. One that drains counts: it is about to be
// replaced.
func (v *view) isRun(typ string) bool {
	return slices.ContainsFunc(v.members, func(m coord.Member) bool { return slices.Contains(m.Handlers, typ) })
}

// IsQueueRun is IsRun for the tasks of a queue.
func (k *Cluster) IsQueueRun(q task.Queue) bool {
	v := k.view.Load()
	return len(v.members) == 0 || k.isQueueRun(v, q)
}

func (k *Cluster) isQueueRun(v *view, q task.Queue) bool {
	key := k.engine.Placement(q).Nodes
	return slices.ContainsFunc(v.members, func(m coord.Member) bool {
		return slices.Contains(m.Handlers, q.Type) && (key == "" || slices.Contains(m.Selectors, key))
	})
}

// UnplacedValue says why no node runs the tasks of a queue, if that depends on its value. The text is "" if
// one does, or if it does not, and while the nodes that are alive are not known.
func (k *Cluster) UnplacedValue(q task.Queue) string { return k.unplacedValue(k.view.Load(), q) }

func (k *Cluster) unplacedValue(v *view, q task.Queue) string {
	want := k.engine.Wanted(q)
	if want == "" || len(v.members) == 0 || k.isQueueRun(v, q) {
		return ""
	}
	return fmt.Sprintf("no live node that runs type %s matches nodes: %s; nodes that are alive: %s", q.Type, want, joinShort(v.described()))
}

// matching returns the names of the members that may run a type.
func (k *Cluster) matching(v *view, typ string) (names []string) {
	for _, m := range v.members {
		if k.engine.MayRun(typ, m.Name, m.Labels) {
			names = append(names, nameOf(m))
		}
	}
	return names
}

// described returns the names of the members with their labels.
func (v *view) described() (all []string) {
	for _, m := range v.members {
		text := nameOf(m)
		if len(m.Labels) > 0 {
			labels := make([]string, 0, len(m.Labels))
			for _, key := range slices.Sorted(maps.Keys(m.Labels)) {
				labels = append(labels, key+"="+m.Labels[key])
			}
			text += " (" + strings.Join(labels, ", ") + ")"
		}
		all = append(all, text)
	}
	return all
}

// joinShort joins names for a message, sorted and at most maxNodesNamed of them.
func joinShort(all []string) string {
	all = slices.Sorted(slices.Values(all))
	if more := len(all) - maxNodesNamed; more > 0 {
		all = append(all[:maxNodesNamed], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(all, ", ")
}

// nameOf returns the name of a member; one without a name is called by its incarnation.
func nameOf(m coord.Member) string { return cmp.Or(m.Name, m.Incarnation.String()) }
