package engine

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/engine/internal/cluster"
	"github.com/taskengine/taskengine/engine/internal/core"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// TypeStatus is the state of one type. Nodes is the configured selector, and RunBy the actual nodes.
type TypeStatus struct {
	core.TypeStatus
	Nodes policy.Nodes // which nodes may run it, by the configuration of this node; none is all
	RunBy []string     // names of the live nodes that start its tasks, sorted; a node without a name is called by its incarnation

	// Values describes the nodes that may run the tasks of single values, and the live nodes that do, such as
	// "partner acme: zone=eu (b, c)". It has at most ten keys of policy.Limit.Nodes. It is empty if no limit
	// of the type has any.
	Values []string
}

// Types returns the state of every type that is configured, or was paused or unpaused by
// a person, in the order of their names. The type of tasks that carry signals is among them if one runs, or it is paused, or several
// databases keep the tasks.
func (e *Engine) Types() []TypeStatus { return e.typesNow(false) }

// typesNow is Types. If carries is set, the type of tasks that carry signals is always there.
func (e *Engine) typesNow(carries bool) (types []TypeStatus) {
	e.decide(func(c *core.Core, _ time.Time) {
		for _, s := range c.Types() {
			if s.Name != relayType || carries || e.abilities.divided != nil || s.Running > 0 || s.Paused {
				types = append(types, e.placement(s))
			}
		}
	})
	return types
}

// placement adds where a type runs to its state.
func (e *Engine) placement(s core.TypeStatus) TypeStatus {
	return TypeStatus{TypeStatus: s, Nodes: e.catalog.policyOf(s.Name).Nodes, RunBy: e.cluster.RunBy(s.Name), Values: e.valuesOf(s.Name)}
}

// UnhandledType is a type of which tasks are ready and that no live node runs.
type UnhandledType = cluster.Unhandled

// Unhandled returns the types of which tasks are ready and that no live node runs: none has a handler
// for them, or none that has one matches their Nodes. One of the nodes that share a store looks for
// them every half minute; the others return nil. On a store that is not a [storage.LiveCounter] it
// finds at most a hundred types, and counts at most a hundred tasks of each.
func (e *Engine) Unhandled() []UnhandledType { return e.cluster.Unhandled() }

// Depth is how many tasks of a type are waiting, submitted or in error, in [Depths].
type Depth = cluster.Depth

// Depths is what [Engine.Depths] returns.
type Depths = cluster.Depths

// Depths returns how many tasks of each type are waiting, submitted or in error, and since when the oldest
// submitted one has been ready. It reads nothing: of the nodes that share a store the one with the role
// "monitor" looks every half minute, or less often if the store is slow. On the others, and while the store
// cannot be read, Depths reports false. A task that is tried again has been ready since its first attempt
// was due.
//
// On a store that is a [storage.LiveCounter] the numbers are the counts of the store. Of another store at most
// 10 000 submitted tasks of a type are counted, 10 000 waiting tasks and, without a [storage.KindCounter], 1000 tasks in error of all types,
// and besides the types that are configured or handled at most 100 others. The oldest task is looked for in
// some of the groups of a type if it has very many.
func (e *Engine) Depths() (Depths, bool) { return e.cluster.Depths() }

// Demand is how many tasks of a type there are for handlers to do, in [Engine.Demand].
type Demand = cluster.Demand

// Demand returns how many tasks of a type are ready or run and, with oldest, since when the oldest ready one has been ready, which may
// take a read for each ordering key. It reads that from the store, with the bounds of [Engine.Depths], so any node of a cluster knows it.
// On a store that is no [storage.LiveCounter] the running tasks are those of this node, which is alone with it then.
func (e *Engine) Demand(ctx context.Context, typ string, oldest bool) (Demand, error) {
	return e.cluster.Demand(ctx, typ, oldest)
}

// Roles returns the roles for which this node stands, and whether it has them now: "cleaner" and "monitor",
// and "healer" if nodes share the store. After a node was cut off, two may take themselves for the holder.
func (e *Engine) Roles() map[string]bool { return e.cluster.Roles() }

// Bounds of the reads of AllTypes from a store that is not a [storage.LiveCounter].
const (
	typesOfNewest = 1000   // tasks among which it looks for types
	typesScan     = 20_000 // rows it reads to find them
)

// AllTypes returns the types of Types, and the types of tasks that are in the store, in the order
// of their names. A task may be submitted with any type, so AllTypes adds at most limit types to
// the ones of Types; more reports whether there may be others. A store that is a
// [storage.LiveCounter] knows the types of all tasks. For another store AllTypes finds the types
// of the tasks that are ready, and of the newest thousand that wait, run or are in error.
func (e *Engine) AllTypes(ctx context.Context, limit int) (types []TypeStatus, more bool, err error) {
	types = e.Types()
	known := make(map[string]bool, len(types))
	for _, t := range types {
		known[t.Name] = true
	}
	found, more, err := e.typesOfTasks(ctx, known, limit)
	if err != nil {
		return nil, false, err
	}
	if slices.Contains(found, relayType) {
		types, found = e.typesNow(true), slices.DeleteFunc(found, func(name string) bool { return name == relayType })
	}
	for _, name := range found {
		types = append(types, e.placement(core.TypeStatus{Name: name}))
	}
	slices.SortFunc(types, func(a, b TypeStatus) int { return cmp.Compare(a.Name, b.Name) })
	return types, more, nil
}

// typesOfTasks returns the types of tasks in the store except the known ones.
func (e *Engine) typesOfTasks(ctx context.Context, known map[string]bool, limit int) (names []string, more bool, err error) {
	found := make(map[string]bool)
	switch s := e.store.(type) {
	case storage.LiveCounter:
		counts, err := s.Count(ctx, storage.Filter{})
		if err != nil {
			return nil, false, err
		}
		for of := range counts {
			found[of.Type] = true
		}
	default:
		if more, err = e.typesOfReady(ctx, known, limit, found); err != nil {
			return nil, false, err
		}
		if s, ok := e.store.(storage.Inspector); ok {
			f := storage.Filter{States: []task.State{task.Waiting, task.Processing, task.Error}}
			page, err := s.List(ctx, storage.ListQuery{Filter: f, Limit: typesOfNewest, Scan: typesScan})
			if err != nil {
				return nil, false, err
			}
			for _, t := range page.Tasks {
				found[t.Type] = true
			}
		}
	}
	maps.DeleteFunc(found, func(name string, _ bool) bool { return known[name] })
	names = slices.Sorted(maps.Keys(found))
	if len(names) > limit {
		names, more = names[:limit], true
	}
	return names, more, nil
}

// typesOfReady adds the types of tasks that are ready to found, until there are limit of them
// besides the known ones. It reads one queue of each type.
func (e *Engine) typesOfReady(ctx context.Context, known map[string]bool, limit int, found map[string]bool) (more bool, err error) {
	n := 0
	err = cluster.EachReadyType(ctx, e.store, func(first task.Queue) (bool, error) {
		if known[first.Type] {
			return true, nil
		}
		if n++; n > limit {
			more = true
			return false, nil
		}
		found[first.Type] = true
		return true, nil
	})
	return more, err
}

// BusStatus returns the state of the connection of this node to its bus. It reports false if the node has no bus
// that can fail, see [coord.Reporter].
func (e *Engine) BusStatus() (coord.BusStatus, bool) { return e.cluster.BusStatus() }

// withBus adds to the reasons of a task that another node is to start, or runs, that hints do not reach it.
func (e *Engine) withBus(rs []Reason) []Reason {
	status, ok := e.BusStatus()
	if !ok || status.Down == nil {
		return rs
	}
	for _, r := range rs {
		if r.Code == CodeElsewhere {
			return append(rs, Reason{Code: CodeBus, Text: fmt.Sprintf("hints do not reach that node, so it finds the task in the store, within about a second: %v", status.Down)})
		}
	}
	return rs
}

// ClockOffset is how far the wall clock of a machine is off the clock of its cluster.
type ClockOffset struct {
	Ahead  time.Duration // how far the wall clock is ahead; negative if it is behind
	Within time.Duration // by how much Ahead may be wrong
}

// maxOffset is how far a wall clock may certainly be off before that is reported.
const maxOffset = time.Second

// IsOff reports whether the wall clock is certainly off by more than a second.
func (o ClockOffset) IsOff() bool { return o.Ahead.Abs()-o.Within > maxOffset }

// ClockOffset returns how far the wall clock of this machine is off the clock of the cluster. It
// reports false if the tasks go by the wall clock: see [Engine.Now].
func (e *Engine) ClockOffset() (o ClockOffset, ok bool) {
	if e.base.shared == nil {
		return o, false
	}
	now := e.base.moment()
	shared, within, ok := e.base.shared.ClockAt(now)
	if !ok {
		return o, false
	}
	return ClockOffset{now.Round(0).Sub(shared.Round(0)), within}, true
}

// clockWatch logs that the wall clock is off the clock of the cluster, once, and that it agrees again.
// One goroutine uses it.
type clockWatch struct {
	log   *slog.Logger
	isOff bool // that was logged
}

// look logs the changes of the offset o.
func (w *clockWatch) look(o ClockOffset) {
	switch agrees := o.Ahead.Abs()+o.Within < maxOffset; {
	case o.IsOff() && !w.isOff:
		w.isOff = true
		w.log.Warn("the clock of this machine is not that of the cluster; tasks go by the clock of the cluster and are not affected; "+
			"find out which of the two clocks is wrong, and set it by NTP", "ahead", o.Ahead.Round(time.Millisecond), "within", o.Within.Round(time.Millisecond))
	case agrees && w.isOff:
		w.isOff = false
		w.log.Info("the clock of this machine agrees with that of the cluster again", "ahead", o.Ahead.Round(time.Millisecond), "within", o.Within.Round(time.Millisecond))
	}
}

// shortLock is how long transactions of others may keep locks before they are reported.
const shortLock = 2 * time.Second

// Blockers returns the sessions of the store's databases that have been in a transaction for two seconds or more in which
// they have locked rows or tables of tasks: others wait for these locks. The oldest is the first. The error wraps
// [ErrUnsupported] if transactions of the store do not wait for others.
func (e *Engine) Blockers(ctx context.Context) ([]storage.Blocker, error) {
	in, ok := e.store.(storage.Locker)
	if !ok {
		return nil, fmt.Errorf("engine: sessions that hold locks: %w", ErrUnsupported)
	}
	all, err := in.Blockers(ctx)
	if err != nil {
		return nil, fmt.Errorf("engine: %w", err)
	}
	now := e.Now()
	return slices.DeleteFunc(all, func(b storage.Blocker) bool { return !b.Since.IsZero() && now.Sub(b.Since) < shortLock }), nil
}
