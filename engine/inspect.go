package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/taskengine/taskengine/engine/internal/core"
	"github.com/taskengine/taskengine/engine/internal/shell"
	"github.com/taskengine/taskengine/internal/ratelog"
	"github.com/taskengine/taskengine/internal/wakeup"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// ErrUnsupported says that the store cannot do the operation.
var ErrUnsupported = errors.New("the store does not support that")

// ErrUnreadable is wrapped by the errors of tasks that [Config.Codec] cannot decode. They also wrap its error.
var ErrUnreadable = errors.New("the content of the task cannot be decoded")

// Get returns a task, with payload and result, or [task.ErrNotFound]. If [Config.Codec] cannot decode the contents of the task,
// Get returns the task without them, and an error that wraps [ErrUnreadable].
func (e *Engine) Get(ctx context.Context, id task.ID) (*task.Task, error) {
	t, err := e.store.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	return e.decoded(t)
}

// GetAll returns the tasks with these IDs, as [Engine.Get] does, in their order; nil for those that are not there. Stores that can read
// them together do. A task that cannot be decoded is returned without payload and result.
func (e *Engine) GetAll(ctx context.Context, ids ...task.ID) ([]*task.Task, error) {
	all, err := e.rowsOf(ctx, ids)
	if err != nil {
		return nil, err
	}
	for i := range all {
		if all[i] == nil {
			continue
		}
		if _, err := e.decoded(all[i]); err != nil && !errors.Is(err, ErrUnreadable) {
			return nil, err
		}
	}
	return all, nil
}

// rowsOf returns rows as they are stored, in the order of their IDs in ids; nil for those that are not there.
func (e *Engine) rowsOf(ctx context.Context, ids []task.ID) ([]*task.Task, error) {
	found := make(map[task.ID]*task.Task, len(ids))
	if many, ok := e.store.(storage.Getter); ok {
		rows, err := many.GetAll(ctx, ids...)
		if err != nil {
			return nil, err
		}
		for _, t := range rows {
			found[t.ID] = t
		}
	} else {
		for _, id := range ids {
			t, err := e.store.Get(ctx, id)
			if err != nil && !errors.Is(err, task.ErrNotFound) {
				return nil, err
			}
			found[id] = t
		}
	}
	all := make([]*task.Task, len(ids))
	for i, id := range ids {
		all[i] = found[id]
	}
	return all, nil
}

// TooLargeToUndo returns how many of some tasks, which List or Search has returned, have a payload and headers that are too large for a bulk job to keep what
// v replaces. It reads the tasks if v has a payload.
func (e *Engine) TooLargeToUndo(ctx context.Context, v Values, ts []*task.Task) (n int, err error) {
	if v.Payload != nil {
		ids := make([]task.ID, len(ts))
		for i, t := range ts {
			ids[i] = t.ID
		}
		if ts, err = e.rowsOf(ctx, ids); err != nil {
			return 0, fmt.Errorf("engine: read tasks: %w", err)
		}
	}
	for _, t := range ts {
		if t != nil && t.IsTooLargeToUndo(v.Payload != nil, len(v.Headers) > 0) {
			n++
		}
	}
	return n, nil
}

// decoded returns t with its contents decoded. If they cannot be decoded, t lacks them, and the error says why.
func (e *Engine) decoded(t *task.Task) (*task.Task, error) {
	if err := e.contents.decode(t); err != nil {
		return t, fmt.Errorf("engine: task %v: %w: %w", t.ID, ErrUnreadable, err)
	}
	return t, nil
}

// Find returns the task of a type that has a key, among the tasks with an ordering key ("": among tasks without one), with
// payload and result, or [task.ErrNotFound]. A task that cannot be decoded is returned as by [Engine.Get].
func (e *Engine) Find(ctx context.Context, typ, orderingKey, key string) (*task.Task, error) {
	if typ == "" || key == "" {
		return nil, fmt.Errorf("%w: a task is found by its type and its key", ErrInvalid)
	}
	s, ok := e.store.(storage.KeyFinder)
	if !ok {
		return nil, ErrUnsupported
	}
	t, err := s.FindKey(ctx, typ, orderingKey, key)
	if err != nil {
		return nil, unsupported(err)
	}
	return e.decoded(t)
}

// Keyed returns the ids of the tasks of a type that have a key that begins with prefix and is greater than after, and no ordering
// key: in the order of their keys, at most limit. Its cost does not grow with the number of other tasks.
func (e *Engine) Keyed(ctx context.Context, typ, prefix, after string, limit int) ([]storage.KeyHolder, error) {
	s, ok := e.store.(storage.KeyFinder)
	if !ok {
		return nil, ErrUnsupported
	}
	found, err := s.KeysOf(ctx, typ, prefix, after, limit)
	return found, unsupported(err)
}

// listScan is how many rows List reads at most for one page.
const listScan = 200_000

// List returns at most limit tasks, the newest first, without payload and result. They are
// older than the task before; if before is zero, List starts with the newest task. next is
// the value of before for the next page, zero at the end. A page may be short, or empty,
// before the end.
func (e *Engine) List(ctx context.Context, f storage.Filter, before task.ID, limit int) (ts []*task.Task, next task.ID, err error) {
	s, ok := e.store.(storage.Inspector)
	if !ok {
		return nil, task.ID{}, ErrUnsupported
	}
	page, err := s.List(ctx, storage.ListQuery{Filter: f, Before: before, Limit: limit, Scan: listScan})
	return page.Tasks, page.Next, err
}

// Count returns the number of tasks per state and type. It costs little on a store that is
// a [storage.LiveCounter]. Other stores read all rows that they count: there, a user may count
// ended tasks, and monitors should not. f has no Key: tasks are not counted by keys.
func (e *Engine) Count(ctx context.Context, f storage.Filter) (map[storage.StateType]int64, error) {
	if f.Key != "" {
		return nil, fmt.Errorf("%w: tasks are not counted by keys", ErrInvalid)
	}
	s, ok := e.store.(storage.Inspector)
	if !ok {
		return nil, ErrUnsupported
	}
	return s.Count(ctx, f)
}

// Stats holds the counters of an engine since it was opened, and its current state.
type Stats struct {
	core.Stats
	Running   int    // tasks with a slot
	Waiting   int    // triggers in memory
	Timers    int    // tasks in memory that have a time: delayed tasks, retries, queue timeouts
	Stuck     int    // changes that the store refuses even alone, and that are tried again: verdicts of attempts, usually
	Refused   uint64 // writes that the store refused even alone
	LockWaits int    // changes and submits that are tried apart because another transaction may have locked their rows
}

// Stats returns the counters and the current state.
func (e *Engine) Stats() (s Stats) {
	e.tell(func(st *state, _ time.Time) {
		c := st.Core()
		s = Stats{c.Stats(), c.Busy(), c.Waiting(), c.Timers(), st.Stuck(), st.Refused(), st.LockWaits()}
	})
	return s
}

// RanElsewhere says on which other node an attempt of a task ran, or runs.
type RanElsewhere struct {
	Attempt uint32
	Node    string // its name
	IsAlive bool   // another node that is alive has this name
	IsHere  bool   // this node has it as well, so that the attempt may have run here
}

// Elsewhere returns the attempts of a task that ran on other nodes that share the store, the oldest first: attempts in its
// history, the running one, and the one that has finished the task. It returns nil if no others share the store. The
// task is not read again.
func (e *Engine) Elsewhere(t *task.Task) (all []RanElsewhere) {
	if !e.cluster.IsShared() {
		return nil
	}
	add := func(attempt uint32, node string) {
		isHere, isAlive := e.cluster.Named(node)
		if node != "" && (!isHere || isAlive) {
			all = append(all, RanElsewhere{attempt, node, isAlive, isHere})
		}
	}
	for _, a := range t.History {
		add(a.Number, a.Node)
	}
	if t.State == task.Processing || t.State == task.Done { // else its newest attempt is in the history, or was handed back
		add(t.Attempt, t.Node)
	}
	return all
}

// BacklogStatus is the backlog of one type.
type BacklogStatus = shell.BacklogStatus

// backlogStates are the states of the tasks of a backlog.
var backlogStates = []task.State{task.Waiting, task.Submitted}

// Backlogs returns the backlogs of the types that have a maximum, in the order of their names.
func (e *Engine) Backlogs() (all []BacklogStatus) {
	if len(e.backlogs.capped) == 0 {
		return nil
	}
	e.tell(func(s *state, _ time.Time) {
		for _, typ := range e.backlogs.capped {
			status, _ := s.Backlog(typ)
			all = append(all, status)
		}
	})
	return all
}

// How long the engine rests between two counts of the backlogs, where it counts again: at least
// recountEvery, and recountShare times as long as a count takes.
const (
	recountEvery = time.Second
	recountShare = 20
)

// useBacklogs finds the types that have a maximum, and returns their maxima.
func (e *Engine) useBacklogs(types map[string]policy.Type) (map[string]policy.Backlog, error) {
	found := make(map[string]policy.Backlog)
	for name, p := range types {
		if p.MaxBacklog.Max > 0 {
			found[name] = p.MaxBacklog
		}
		if p.MaxBacklog.Max > 0 && p.MaxBacklog.WhenFull == policy.DropOldest {
			e.backlogs.droppers[name] = newDropper(name, p.MaxBacklog)
		}
	}
	e.backlogs.capped = slices.Sorted(maps.Keys(found))
	if _, ok := e.store.(storage.Inspector); !ok && len(found) > 0 {
		return nil, fmt.Errorf("engine: max_backlog of type %s: %w: it does not count tasks", e.backlogs.capped[0], ErrUnsupported)
	}
	return found, nil
}

// countBacklogs counts the backlogs in the store.
func (e *Engine) countBacklogs(ctx context.Context) error {
	if len(e.backlogs.capped) == 0 {
		return nil
	}
	e.tell(func(s *state, _ time.Time) { s.Recount() })
	counts, err := e.Count(ctx, storage.Filter{States: backlogStates, Types: e.backlogs.capped})
	if err != nil {
		return err
	}
	e.tell(func(s *state, now time.Time) { s.Recounted(now, counts) })
	return nil
}

// recountLoop counts the backlogs again and again if others may change the rows, or once the outcome
// of a commit was unknown. Otherwise the counts of the shell are exact.
func (e *Engine) recountLoop(ctx context.Context) {
	if len(e.backlogs.capped) == 0 {
		return
	}
	_, isOpen := e.store.(storage.Ruled) // other programs add tasks
	counts := e.cluster.IsShared() || isOpen
	var failures ratelog.Limiter
	var cost wakeup.Cost
	rest := recountEvery
	for wakeup.Sleep(ctx, rest) == nil {
		if !counts {
			e.tell(func(s *state, _ time.Time) { counts = s.IsMiscounted() })
		}
		rest = recountEvery
		if !counts {
			continue
		}
		begin := time.Now()
		err := e.countBacklogs(ctx)
		if err != nil && !errors.Is(err, context.Canceled) && failures.Allow() {
			e.log.Error("the backlogs cannot be counted; the engine tries again", "error", err)
		}
		rest = max(rest, recountShare*cost.After(time.Since(begin), err == nil))
	}
}
