package core

import (
	"cmp"
	"slices"
	"time"

	"github.com/taskengine/taskengine/engine/internal/table"
	"github.com/taskengine/taskengine/task"
)

// LimitUse is the use of some limits by the tasks of this node.
type LimitUse struct {
	table.Use
	Open    time.Time   // Use.OpenAt; zero if the rates allow a start now
	Holders []SlotOwner // the tasks that have slots, at most as many as requested, the ones that must end first first
}

// SlotOwner is a task that has a slot.
type SlotOwner struct {
	ID     task.ID
	Type   string
	Weight int
}

// Limits calls fn with every limit in use, see table.Table.Limits.
func (c *Core) Limits(fn func(name, value string, used, held int)) { c.table.Limits(fn) }

// EachFull calls fn with every limit that is full, see table.Table.EachFull.
func (c *Core) EachFull(fn func(table.Full)) { c.table.EachFull(fn) }

// LimitTotal returns the use of a limit, with all its values, by the tasks of this node, or for "" of
// the slots of the node. Its cost does not depend on the number of values.
func (c *Core) LimitTotal(name string) table.Total { return c.table.Total(name) }

// LimitUse returns the use of the limits that match, with at most most holders.
func (c *Core) LimitUse(now time.Time, most int, match func(name, value string) bool) LimitUse {
	u := LimitUse{Use: c.table.Use(c.steady(now), match)}
	if u.OpenAt != 0 {
		u.Open = c.wall(u.OpenAt)
	}
	var held []*run
	for _, r := range c.runs {
		if !r.yielded && r.slot.CountsFor(match) {
			held = append(held, r)
		}
	}
	slices.SortFunc(held, func(a, b *run) int {
		return cmp.Or(a.deadline.Compare(b.deadline), a.ref.ID.Compare(b.ref.ID))
	})
	for _, r := range held[:min(len(held), most)] {
		u.Holders = append(u.Holders, SlotOwner{r.ref.ID, r.kind.name, r.policy.Weight})
	}
	return u
}
