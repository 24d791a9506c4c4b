package handlers

import (
	"math"
	"strings"
	"sync"

	"github.com/taskengine/taskengine/task"
)

// unlimited is the number of slots of a handler that is no [task.Pool].
const unlimited = math.MaxInt32

var _ task.Pool = (*Split)(nil)

// Name implements [task.Pool].
func (s *Split) Name() string { return s.name }

// Use implements [task.Pool]. The handler of a task is not known before the task is read, so the capacity is the number
// of tasks that fit if they come in proportion to the weights. A task waits in its handler if that has no slot; it has
// not begun.
func (s *Split) Use(changed func(task.Capacity)) task.PoolUse {
	u := &splitUse{split: s, capacities: make([]task.Capacity, len(s.names))}
	u.uses = make([]task.PoolUse, len(s.names))
	for i, name := range s.names {
		u.capacities[i] = task.Capacity{Slots: unlimited}
		if p, ok := s.shares[name].Handler.(task.Pool); ok {
			u.uses[i] = p.Use(func(c task.Capacity) { u.set(i, c) })
		}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.changed = changed
	changed(u.sum())
	return u
}

// splitUse is one use of a Split.
type splitUse struct {
	split *Split
	uses  []task.PoolUse // of its handlers, in the order of names; nil for a handler that is no pool

	mu         sync.Mutex
	capacities []task.Capacity     // guarded by mu: of the handlers, in the same order
	changed    func(task.Capacity) // guarded by mu: nil until Use has reported the first capacity
}

func (u *splitUse) set(i int, c task.Capacity) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.capacities[i] = c
	if u.changed != nil {
		u.changed(u.sum())
	}
}

// sum returns the capacity of the Split. mu must be held.
func (u *splitUse) sum() task.Capacity {
	s := u.split
	slots, most := int64(unlimited), int64(unlimited)
	var down []string
	weighted := 0
	for i, name := range s.names {
		c, weight := u.capacities[i], int64(s.shares[name].Weight)
		if weight == 0 {
			continue
		}
		if weighted++; c.Down != "" { // its tasks are handed back, and the other handlers go on
			down = append(down, name+": "+c.Down)
			continue
		}
		slots = min(slots, int64(c.Slots)*int64(s.total)/weight)
		most = min(most, int64(c.Slots+c.More)*int64(s.total)/weight)
	}
	if len(down) == weighted {
		return task.Capacity{Down: strings.Join(down, "; ")}
	}
	return task.Capacity{Slots: int(slots), More: int(max(0, most-slots))}
}

// Want implements [task.PoolUse].
func (u *splitUse) Want(tasks int) {
	s := u.split
	for i, name := range s.names {
		if weight := s.shares[name].Weight; u.uses[i] != nil && weight > 0 {
			u.uses[i].Want((tasks*weight + int(s.total) - 1) / int(s.total))
		}
	}
}

// End implements [task.PoolUse].
func (u *splitUse) End() {
	for _, use := range u.uses {
		if use != nil {
			use.End()
		}
	}
}
