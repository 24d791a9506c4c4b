package engine

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/taskengine/taskengine/engine/internal/core"
	"github.com/taskengine/taskengine/engine/policy"
	"github.com/taskengine/taskengine/engine/task"
	"github.com/taskengine/taskengine/internal/wakeup"
)

// pools holds the handlers that run a limited number of tasks at a time. The core counts
// their slots under the same names.
type pools struct {
	byName     map[string]task.Pool     // read only
	of         map[string]string        // names of pools by type; read only
	uses       map[string]task.PoolUse  // read only once the background work has begun
	capacities map[string]task.Capacity // guarded by Engine.mu
}

// newPools returns the pools among the handlers. Pools that share a name get different names.
func newPools(handlers map[string]task.Handler) pools {
	ps := pools{
		byName: make(map[string]task.Pool), of: make(map[string]string),
		uses: make(map[string]task.PoolUse), capacities: make(map[string]task.Capacity),
	}
	names := make(map[task.Pool]string)
	for _, typ := range slices.Sorted(maps.Keys(handlers)) {
		p, ok := handlers[typ].(task.Pool)
		if !ok {
			continue
		}
		name, known := names[p]
		if !known {
			name = p.Name()
			for n := 2; ps.byName[name] != nil; n++ {
				name = fmt.Sprintf("%s#%d", p.Name(), n)
			}
			names[p], ps.byName[name] = name, p
		}
		ps.of[typ] = name
	}
	return ps
}

// use subscribes to the capacities of the pools: each change goes into the inbox, and sets
// wake. It is called before the background work begins.
func (ps *pools) use(in *inbox, wake wakeup.Signal) {
	for name, p := range ps.byName {
		ps.uses[name] = p.Use(func(c task.Capacity) {
			if in.resize(resize{name, c}) {
				wake.Set()
			}
		})
	}
}

// leave ends the subscriptions of use. It is called when the background work has ended.
func (ps *pools) leave() {
	for _, use := range ps.uses {
		use.End()
	}
}

// resize is a change of the capacity of a pool.
type resize struct {
	pool     string
	capacity task.Capacity
}

// resized tells the core the capacity of a pool. It is called with mu held.
func (e *Engine) resized(now time.Time, r resize) {
	e.pools.capacities[r.pool] = r.capacity
	e.core.Resize(now, r.pool, r.capacity.Slots, r.capacity.More)
}

// lateBegin is the shortest wait in a pool after which the time of an attempt runs from the
// end of the wait. Telling the core of each shorter wait is not worth it.
const lateBegin = 10 * time.Millisecond

var _ task.Beginner = (*attempt)(nil)

// Begin implements [task.Beginner].
func (a *attempt) Begin() (deadline time.Time, err error) {
	if why := a.engine.mayNotBegin(a); why != nil {
		return time.Time{}, why
	}
	waited := time.Since(a.made)
	a.hasBegun.Store(true)
	if waited < lateBegin {
		deadline, _ := a.Deadline()
		return deadline, nil
	}
	a.mu.Lock()
	if d := a.Run.Deadline; !d.IsZero() {
		a.Run.Deadline = d.Add(waited)
		if at := a.Task.ExpiresAt; !at.IsZero() && at.Before(a.Run.Deadline) {
			a.Run.Deadline = at
		}
	}
	deadline = a.Run.Deadline
	a.mu.Unlock()
	if a.engine.inbox.begin(a) {
		a.engine.write.Set()
	}
	return deadline, nil
}

// withPool adds the reasons of the task's pool: the task still waits there, or the pool is
// down. It is called with mu held.
func (e *Engine) withPool(t *task.Task, w core.Why, rs []Reason) []Reason {
	name, ok := e.pools.of[t.Type]
	if !ok {
		return rs
	}
	if a, ok := e.attempts[t.ID]; ok && w.Running && !w.Abandoned && !a.hasBegun.Load() {
		return []Reason{{Code: CodeStarting, Text: "it waits for a process of handler " + name}}
	}
	if down := e.pools.capacities[name].Down; down != "" && !w.Running {
		full := policy.PoolName(name)
		rs = slices.DeleteFunc(rs, func(r Reason) bool { return r.Limit == full })
		rs = append([]Reason{{Code: CodeHandler, Text: fmt.Sprintf("handler %s is down: %s", name, down)}}, rs...)
	}
	return rs
}
