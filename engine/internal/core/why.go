package core

import (
	"cmp"
	"slices"
	"time"

	"github.com/taskengine/taskengine/engine/internal/table"
	"github.com/taskengine/taskengine/task"
)

// Why says why a live task does not run, as the core would decide now.
type Why struct {
	Running   bool      // it has a slot
	Grabbing  bool      // it has a slot, and its grab is being written
	Abandoned bool      // its run was given up, and its handler has not returned
	Deadline  time.Time // of its run; zero is never
	Paused    bool      // its type is paused
	NoHandler bool      // this node has no handler for its type
	Elsewhere bool      // this node may not run tasks of its value, see Placement
	Unknown   bool      // its type is not configured on this node
	Draining  bool      // the node is shutting down
	Held      bool      // its database does not answer, see Core.Hold
	Stopped   bool      // its type is stopped, see Core.StopType
	table.Explanation
	Holders map[int][]task.ID // see Core.Why
}

// maxHolders is the maximum number of holders of a limit in a Why.
const maxHolders = 5

// Why explains a row that is waiting, submitted or processing. Holders has, for each limit that is
// full or that a task before this one waits for, by the index of the limit, the tasks that have slots
// of it: the oldest first, at most maxHolders.
func (c *Core) Why(now time.Time, t *task.Task) Why {
	k, known := c.kinds[t.Type]
	w := Why{Elsewhere: c.placementOf(t.Queue()).Elsewhere, Draining: c.draining, NoHandler: !known || !k.handled, Unknown: !c.configured(t.Type), Paused: known && k.paused, Stopped: known && k.stopped}
	if r, ok := c.runs[t.ID]; ok {
		w.Running, w.Grabbing, w.Abandoned = true, r.phase < running, r.phase == disowned
		w.Deadline = r.deadline
		return w
	}
	w.Held = c.isHeld(t.ID)
	w.Explanation = c.table.Explain(c.steady(now), t.Queue(), t.Rank())
	for i := range w.Limits {
		if u := &w.Limits[i]; u.OpenAt != 0 {
			u.OpenAt = c.wall(u.OpenAt).UnixNano()
		}
	}
	for i, u := range w.Limits {
		if u.Full || !u.Before.ID.IsZero() {
			if w.Holders == nil {
				w.Holders = make(map[int][]task.ID)
			}
			w.Holders[i] = c.holders(u)
		}
	}
	return w
}

// configured reports whether a type is in the configuration of this node.
func (c *Core) configured(name string) bool {
	_, ok := c.config.Policies.Types[name]
	return ok
}

func (c *Core) holders(u table.Usage) []task.ID {
	var held []*run
	for _, r := range c.runs {
		if !r.yielded && r.slot.Counts(u.Name, u.Value) {
			held = append(held, r)
		}
	}
	slices.SortFunc(held, func(a, b *run) int {
		return cmp.Or(a.deadline.Compare(b.deadline), a.ref.ID.Compare(b.ref.ID))
	})
	ids := make([]task.ID, 0, maxHolders)
	for _, r := range held[:min(len(held), maxHolders)] {
		ids = append(ids, r.ref.ID)
	}
	return ids
}

// TypeStatus is the state of one type on this node.
type TypeStatus struct {
	Name    string
	Handled bool // this node has a handler for it
	Paused  bool
	Running int  // number of tasks with a slot
	Known   bool // it is in the configuration
}

// Types returns the state of each type that is configured, or that was paused or resumed by a user,
// sorted by name.
func (c *Core) Types() []TypeStatus {
	out := make([]TypeStatus, 0, len(c.kinds))
	for name, k := range c.kinds {
		out = append(out, TypeStatus{name, k.handled, k.paused, k.running, c.configured(name)})
	}
	slices.SortFunc(out, func(a, b TypeStatus) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// Block is something that keeps tasks of this node from starting.
type Block struct {
	Type          string // "" for a limit
	Stopped       bool   // of a type: it is stopped, and not paused
	NoHandler     bool   // of a type: this node has no handler for it
	table.Blocked        // of a limit
}

// HasUnnoted reports whether tasks wait for something that EachBlock may return, or types were paused or resumed since its last
// call. It costs next to nothing.
func (c *Core) HasUnnoted() bool { return c.unnoted || c.table.Len() > 0 }

// EachBlock calls fn with what keeps tasks from starting now.
func (c *Core) EachBlock(now time.Time, fn func(Block)) {
	c.unnoted = false
	for name, k := range c.kinds {
		if !k.open() {
			fn(Block{Type: name, NoHandler: !k.handled, Stopped: k.handled && !k.paused})
		}
	}
	c.table.EachBlocked(c.steady(now), func(b table.Blocked) { fn(Block{Blocked: b}) })
}

// Counted returns the limits that count for the tasks of a queue, see table.Table.Counted.
func (c *Core) Counted(now time.Time, q task.Queue) []table.Counted {
	return c.table.Counted(c.steady(now), q)
}

// LimitNodes returns how many limits and values are in use.
func (c *Core) LimitNodes() int { return c.table.Nodes() }
