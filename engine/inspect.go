package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/taskengine/taskengine/engine/internal/core"
	"github.com/taskengine/taskengine/engine/internal/table"
	"github.com/taskengine/taskengine/engine/task"
	"github.com/taskengine/taskengine/internal/wakeup"
	"github.com/taskengine/taskengine/storage"
)

// ErrUnsupported says that the store cannot do what was asked for.
var ErrUnsupported = errors.New("the store does not support that")

// Get returns a task, with payload and result, or [task.ErrNotFound].
func (e *Engine) Get(ctx context.Context, id task.ID) (*task.Task, error) {
	return e.store.Get(ctx, id)
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
	return s.List(ctx, f, before, limit, listScan)
}

// Count returns the number of tasks per state and type. It costs little on a store that is
// a [storage.LiveCounter]. Other stores read all rows that they count: there, people may count
// ended tasks, and monitors should not.
func (e *Engine) Count(ctx context.Context, f storage.Filter) (map[storage.StateType]int64, error) {
	s, ok := e.store.(storage.Inspector)
	if !ok {
		return nil, ErrUnsupported
	}
	return s.Count(ctx, f)
}

// Stats holds the counters of an engine since it was opened, and its current state.
type Stats struct {
	core.Stats
	Running int    // tasks with a slot
	Waiting int    // triggers in memory
	Stuck   int    // changes that the store refuses even alone, and that are tried again: verdicts of attempts, usually
	Refused uint64 // writes that the store refused even alone
}

// Stats returns the counters and the current state.
func (e *Engine) Stats() (s Stats) {
	e.decide(func(c *core.Core, _ time.Time) {
		s = Stats{c.Stats(), c.Busy(), c.Waiting(), len(e.stuck), e.health.refusals}
	})
	return s
}

// WaitTasks returns when none of the tasks is live any more: each has ended, or is not
// (or no longer) in the store. It returns the error of ctx if ctx ends first, and the error
// of the engine if the engine fails or is closed. While the store cannot be read it tries
// again.
func (e *Engine) WaitTasks(ctx context.Context, ids ...task.ID) error {
	for _, id := range ids {
		if err := e.waitTask(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

func (e *Engine) waitTask(ctx context.Context, id task.ID) error {
	ended := wakeup.New()
	e.mu.Lock()
	e.waiters.addTask(id, ended)
	e.mu.Unlock()
	defer e.forget(func(w *waiters) { w.removeTask(id, ended) })
	for {
		t, err := e.store.Get(ctx, id)
		switch {
		case errors.Is(err, task.ErrNotFound), err == nil && !t.State.Live():
			return nil
		case err != nil && !e.mayRead(ctx, err):
			return err
		case err != nil:
			continue // it may have ended already
		}
		if err := e.await(ctx, ended); err != nil {
			return err
		}
	}
}

// countRest is how long WaitType lets tasks end before it counts again, and how long a call
// waits that could not read the store.
const countRest = 100 * time.Millisecond

// mayRead rests, and reports whether a read that failed with err is to be repeated.
func (e *Engine) mayRead(ctx context.Context, err error) bool {
	if errors.Is(err, storage.ErrBroken) || errors.Is(err, storage.ErrClosed) || errors.Is(err, ErrUnsupported) || ctx.Err() != nil {
		return false
	}
	e.log.Debug("cannot read awaited tasks from the store; the read is tried again", "error", err)
	return sleep(ctx, countRest) == nil
}

// WaitType returns when no task of the type is live any more. It returns the error of ctx if
// ctx ends first, and the error of the engine if the engine fails or is closed. While the
// store cannot be read it tries again.
func (e *Engine) WaitType(ctx context.Context, typ string) error {
	live := storage.Filter{States: []task.State{task.Waiting, task.Submitted, task.Processing}, Types: []string{typ}}
	ended := wakeup.New()
	e.mu.Lock()
	e.waiters.addType(typ, ended)
	e.mu.Unlock()
	defer e.forget(func(w *waiters) { w.removeType(typ, ended) })
	for {
		counts, err := e.Count(ctx, live)
		switch {
		case err == nil && len(counts) == 0:
			return nil
		case err != nil && !e.mayRead(ctx, err):
			return err
		case err != nil:
			continue // the last of them may have ended already
		}
		if err := e.await(ctx, ended); err != nil {
			return err
		}
		if err := sleep(ctx, countRest); err != nil {
			return err
		}
	}
}

// elsewhereRest is how often a waiting call checks whether a task has ended on another node.
const elsewhereRest = 100 * time.Millisecond

// await returns nil when it is time to read again: ended is set, or another node may have ended
// a task.
func (e *Engine) await(ctx context.Context, ended wakeup.Signal) error {
	var elsewhere <-chan time.Time
	if e.cluster.IsShared() {
		elsewhere = time.After(elsewhereRest)
	}
	select {
	case <-ended.C():
		return nil
	case <-elsewhere:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-e.failed:
		e.mu.Lock()
		defer e.mu.Unlock()
		return e.failure
	case <-e.gone:
		return ErrClosed
	}
}

func (e *Engine) forget(fn func(*waiters)) {
	e.mu.Lock()
	fn(&e.waiters)
	e.mu.Unlock()
}

// waiters holds the wake-ups of calls that wait for tasks to end, by task and by type.
type waiters struct {
	tasks map[task.ID]map[wakeup.Signal]bool
	types map[string]map[wakeup.Signal]bool
}

func (w *waiters) addTask(id task.ID, c wakeup.Signal) {
	if w.tasks == nil {
		w.tasks = make(map[task.ID]map[wakeup.Signal]bool)
	}
	addWaiter(w.tasks, id, c)
}

func (w *waiters) removeTask(id task.ID, c wakeup.Signal) { removeWaiter(w.tasks, id, c) }

func (w *waiters) addType(typ string, c wakeup.Signal) {
	if w.types == nil {
		w.types = make(map[string]map[wakeup.Signal]bool)
	}
	addWaiter(w.types, typ, c)
}

func (w *waiters) removeType(typ string, c wakeup.Signal) { removeWaiter(w.types, typ, c) }

// ended wakes the calls that wait for t, if t has ended.
func (w *waiters) ended(t *task.Task) {
	if t.State.Live() || len(w.tasks)+len(w.types) == 0 {
		return
	}
	for c := range w.tasks[t.ID] {
		c.Set()
	}
	for c := range w.types[t.Type] {
		c.Set()
	}
}

// look wakes the calls that may wait for a task whose row differs from what the core knew. The
// type of the task is not known, so it wakes the calls that wait for any type.
func (w *waiters) look(id task.ID) {
	for c := range w.tasks[id] {
		c.Set()
	}
	for _, ofType := range w.types {
		for c := range ofType {
			c.Set()
		}
	}
}

func addWaiter[K comparable](m map[K]map[wakeup.Signal]bool, k K, c wakeup.Signal) {
	if m[k] == nil {
		m[k] = make(map[wakeup.Signal]bool)
	}
	m[k][c] = true
}

func removeWaiter[K comparable](m map[K]map[wakeup.Signal]bool, k K, c wakeup.Signal) {
	delete(m[k], c)
	if len(m[k]) == 0 {
		delete(m, k)
	}
}

// Reason is one thing that keeps a task from running, or the state of the task.
type Reason struct {
	Code    string    // stable, such as "limit"; see the constants
	Text    string    // for people
	Limit   string    // for CodeLimit and CodeRate: the name of the limit; "" is the node's slots
	Value   string    // the value that the limit is per
	Used    int       // of the limit
	Max     int       // of the limit
	Until   time.Time // when the reason ends, if that is known
	Holders []task.ID // some of the tasks that hold the limit
}

// The codes of reasons.
const (
	CodeEnded     = "ended"      // the task is done, in error, failed or cancelled
	CodeRunning   = "running"    // its handler runs
	CodeStarting  = "starting"   // its grab is being written
	CodeStuck     = "stuck"      // the handler of its last attempt ran out of time and has not returned
	CodeScheduled = "scheduled"  // it waits for its time
	CodeRetry     = "retry"      // it waits for its next attempt
	CodePaused    = "paused"     // its type is paused
	CodeNoHandler = "no_handler" // no handler of its type is configured
	CodeLimit     = "limit"      // a limit has no free slot
	CodeRate      = "rate"       // a rate is used up for the moment
	CodeQueue     = "queue"      // other tasks are before it
	CodeDraining  = "draining"   // the node is stopping
	CodeElsewhere = "elsewhere"  // another node is to start it
	CodeNodeGone  = "node_gone"  // the node that ran it is gone
	CodeHandler   = "handler"    // its handler is down
	CodeUnwritten = "unwritten"  // a change of it is not in the store yet: it is being written, was not answered, or is refused
)

// Why returns a task and what keeps it from running: the exact blockers, the nearest first,
// from the same data that the engine decides by.
func (e *Engine) Why(ctx context.Context, id task.ID) (*task.Task, []Reason, error) {
	t, err := e.store.Get(ctx, id)
	if err != nil {
		return nil, nil, err
	}
	if !t.State.Live() {
		return t, []Reason{{Code: CodeEnded, Text: endedText(t)}}, nil
	}
	var rs []Reason
	e.decide(func(c *core.Core, now time.Time) {
		w := c.Why(now, t)
		if r, ok := e.unwritten(t); ok {
			rs = append(rs, r)
			return
		}
		r, ok := e.elsewhere(t)
		if !ok {
			rs = e.withPool(t, w, reasons(now, t, w))
			return
		}
		if t.State != task.Processing {
			rs = waits(now, t, w)
		}
		rs = append(rs, r)
	})
	return t, rs, nil
}

func endedText(t *task.Task) string {
	text := "it is " + t.State.String() + " since " + t.UpdatedAt.Format(time.RFC3339)
	if t.LastError != "" {
		text += ": " + t.LastError
	}
	return text
}

func reasons(now time.Time, t *task.Task, w core.Why) []Reason {
	var rs []Reason
	add := func(r Reason) { rs = append(rs, r) }
	switch {
	case w.Abandoned:
		add(Reason{Code: CodeStuck, Until: time.Time{}, Text: "its last attempt ran out of time, and the handler has not returned yet"})
		return rs
	case w.Grabbing:
		add(Reason{Code: CodeStarting, Text: "it has a slot and is being started"})
		return rs
	case w.Running:
		add(Reason{Code: CodeRunning, Until: w.Deadline, Text: fmt.Sprintf("attempt %d runs since %s", t.Attempt, t.StartedAt.Format(time.RFC3339))})
		return rs
	}
	rs = waits(now, t, w)
	if w.Draining {
		add(Reason{Code: CodeDraining, Text: "the node is stopping"})
	}
	if w.NoHandler {
		add(Reason{Code: CodeNoHandler, Text: noHandlerText(t.Type, w.Unknown)})
	}
	if t.State == task.Submitted {
		for i, u := range w.Limits {
			switch {
			case u.Full:
				add(limitReason(u, w.Holders[i]))
			case !u.Before.ID.IsZero():
				add(beforeReason(u, w.Holders[i]))
			}
		}
		if w.Ahead > 0 || w.Stored || w.Unlisted {
			add(Reason{Code: CodeQueue, Used: w.Ahead, Text: queueText(w.Explanation)})
		}
	}
	if len(rs) == 0 {
		add(Reason{Code: CodeQueue, Text: "nothing stands in its way: it is about to start, or others have a better claim to the next slot"})
	}
	return rs
}

// waits returns what keeps a task from running on any node.
func waits(now time.Time, t *task.Task, w core.Why) (rs []Reason) {
	if t.State == task.Waiting && t.NextEventAt.After(now) {
		r := Reason{Code: CodeScheduled, Until: t.NextEventAt, Text: "it is scheduled for " + t.NextEventAt.Format(time.RFC3339)}
		if t.Attempt > 0 {
			r.Code, r.Text = CodeRetry, fmt.Sprintf("attempt %d follows at %s, after: %s", t.Attempt+1, t.NextEventAt.Format(time.RFC3339), t.LastError)
		}
		rs = append(rs, r)
	}
	if w.Paused {
		rs = append(rs, Reason{Code: CodePaused, Text: "type " + t.Type + " is paused"})
	}
	return rs
}

// noHandlerText says why this node runs no task of a type.
func noHandlerText(typ string, unknown bool) string {
	if unknown {
		return "type " + typ + " is not configured on this node: types must name it and its handler"
	}
	return "no handler for type " + typ + " is configured on this node"
}

func queueText(x table.Explanation) string {
	switch {
	case x.Unlisted:
		return "its queue is not in memory: its type has more queues than memory holds, or they are still being read from the store; it is read in its turn"
	case x.Stored && x.Ahead == 0:
		return "its queue is being read from the store"
	case x.Stored:
		return fmt.Sprintf("at least %d others of its type and group are before it", x.Ahead)
	}
	return fmt.Sprintf("%d others of its type and group are before it", x.Ahead)
}

// limitName returns the name of a limit in texts for people.
func limitName(u table.Usage) string {
	name := "limit " + u.Name
	if u.Name == "" {
		name = "the node's slots"
	}
	if u.Value != "" {
		name += " for " + u.Value
	}
	return name
}

func limitReason(u table.Usage, holders []task.ID) Reason {
	r := Reason{Code: CodeLimit, Limit: u.Name, Value: u.Value, Used: u.Used, Max: u.Max, Holders: holders}
	r.Text = fmt.Sprintf("%s: %d of %d used", limitName(u), u.Used, u.Max)
	switch {
	case u.OpenAt != 0:
		r.Code, r.Until = CodeRate, time.Unix(0, u.OpenAt).UTC()
		r.Text = limitName(u) + ": its rate is used up until " + r.Until.Format(time.RFC3339Nano)
	case u.Need > 1:
		r.Text += fmt.Sprintf("; it takes %d, and %d are free", u.Need, max(0, u.Max-u.Used))
	}
	return r
}

// beforeReason describes a limit that has room for a task, but not for another task that ranks
// before it.
func beforeReason(u table.Usage, holders []task.ID) Reason {
	r := Reason{Code: CodeQueue, Limit: u.Name, Value: u.Value, Used: u.Used, Max: u.Max, Holders: holders}
	r.Text = fmt.Sprintf("%s: task %v of type %s is before it and takes %d, of which %d are free", limitName(u), u.Before.ID, u.Before.Type, u.Before.Need, max(0, u.Max-u.Used))
	return r
}
