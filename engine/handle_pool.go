package engine

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/taskengine/taskengine/engine/internal/shell"
	"github.com/taskengine/taskengine/internal/ratelog"
	"github.com/taskengine/taskengine/internal/workpool"
	"github.com/taskengine/taskengine/task"
)

// handlers has the handlers of the engine and the state of their calls.
type handlers struct {
	calls      map[string]task.Handler // handlers by type; read only
	pools      pools
	workers    *workpool.Pool[*attempt] // their goroutines call the handlers
	badRetries ratelog.Limiter          // Config.Retry panics, or its decision is impossible
	undecoded  ratelog.Limiter          // the contents of a task cannot be decoded
}

// pools holds the handlers that run a limited number of tasks at a time. The core counts
// their slots under the same names.
type pools struct {
	byName map[string]task.Pool    // read only
	of     map[string]string       // names of pools by type; read only
	uses   map[string]task.PoolUse // read only once the background work has begun
}

// newPools returns the pools among the handlers. Pools that share a name get different names.
func newPools(handlers map[string]task.Handler) pools {
	ps := pools{
		byName: make(map[string]task.Pool), of: make(map[string]string),
		uses: make(map[string]task.PoolUse),
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

// use subscribes to the capacities of the pools: each change goes into the inbox. It is
// called before the background work begins.
func (ps *pools) use(in *inbox) {
	for name, p := range ps.byName {
		ps.uses[name] = p.Use(func(c task.Capacity) {
			in.resize(shell.Resize{Pool: name, Capacity: c})
		})
	}
}

// leave ends the subscriptions of use. It is called when the background work has ended.
func (ps *pools) leave() {
	for _, use := range ps.uses {
		use.End()
	}
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
	a.engine.inbox.begin(a.ref)
	return deadline, nil
}
