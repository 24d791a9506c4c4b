package core

import (
	"cmp"
	"slices"
	"time"

	"github.com/taskengine/taskengine/engine/internal/table"
	"github.com/taskengine/taskengine/engine/task"
)

// Why says what keeps a live task from running, read from what the core decides by.
type Why struct {
	Running   bool      // it has a slot
	Grabbing  bool      // it has a slot, and its grab is being written
	Abandoned bool      // it ran out of time and its handler has not returned
	Deadline  time.Time // when its run is out of time; zero is never
	Paused    bool      // its type is paused
	NoHandler bool      // nobody here handles its type
	Unknown   bool      // its type is not configured here
	Draining  bool      // the node is stopping
	table.Explanation
	Holders map[int][]task.ID // for each limit that is full, or has no room for a task before this one, by its index: who holds its slots, the oldest first
}

// maxHolders is how many holders of a limit are named.
const maxHolders = 5

// Why explains a row that is waiting, submitted or processing.
func (c *Core) Why(now time.Time, t *task.Task) Why {
	k, known := c.kinds[t.Type]
	w := Why{Draining: c.draining, NoHandler: !known || !k.handled, Unknown: !c.configured(t.Type), Paused: known && k.paused}
	if r, ok := c.runs[t.ID]; ok {
		w.Running, w.Grabbing, w.Abandoned = true, r.phase < running, r.phase == disowned
		w.Deadline = r.deadline
		return w
	}
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

// configured reports whether the configuration of this node has a type.
func (c *Core) configured(name string) bool {
	_, ok := c.config.Policies.Types[name]
	return ok
}

func (c *Core) holders(u table.Usage) []task.ID {
	var held []*run
	for _, r := range c.runs {
		if r.slot.Counts(u.Name, u.Value) {
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

// TypeStatus is how things stand with one type.
type TypeStatus struct {
	Name    string
	Handled bool // this node has a handler for it
	Paused  bool
	Running int  // tasks with a slot
	Known   bool // it is configured
}

// Types returns how things stand with every type that is configured, or was paused or
// resumed by hand, in the order of their names.
func (c *Core) Types() []TypeStatus {
	out := make([]TypeStatus, 0, len(c.kinds))
	for name, k := range c.kinds {
		out = append(out, TypeStatus{name, k.handled, k.paused, k.running, c.configured(name)})
	}
	slices.SortFunc(out, func(a, b TypeStatus) int { return cmp.Compare(a.Name, b.Name) })
	return out
}
