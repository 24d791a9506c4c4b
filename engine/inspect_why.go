package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/taskengine/taskengine/engine/internal/cluster"
	"github.com/taskengine/taskengine/engine/internal/core"
	"github.com/taskengine/taskengine/engine/internal/shell"
	"github.com/taskengine/taskengine/engine/internal/table"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/task"
)

// Reason is one thing that keeps a task from running, or the state of the task.
type Reason struct {
	Code    string    // stable, such as "limit"; see the constants
	Text    string    // for display
	Limit   string    // for CodeLimit, CodeRate and CodePaused: the name of the limit; "" is the node's slots, or the type that is paused
	Value   string    // the value that the limit is per
	Used    int       // of the limit; for CodeChildren: how many of the awaited ones have ended
	Max     int       // of the limit; for CodeChildren: how many it waits for
	Until   time.Time // when the reason ends, if that is known
	Holders []task.ID // some of the tasks of this node that hold the limit; for CodeChildren: some that have not ended, those in error first

	// Cluster says that the limit counts the tasks of all nodes. Used is then the number of slots that the tasks of this node
	// take, Max the number of all nodes together, Held the number of permits of this node, and Waiting the
	// number of permits for which other nodes wait.
	Cluster       bool
	Held, Waiting int

	// Head is the task that is before it, for CodeBehind: the head of its ordering key, or a task that
	// waits for its time. It is zero if there is none at present. HeadState is its state.
	Head      task.ID
	HeadState task.State
}

// The codes of reasons.
const (
	CodeEnded     = "ended"      // the task is done, in error, failed or cancelled
	CodeRunning   = "running"    // its handler runs
	CodeStarting  = "starting"   // its grab is being written
	CodeStuck     = "stuck"      // the handler of its last attempt ran out of time and has not returned
	CodeScheduled = "scheduled"  // it waits for its time
	CodeSignal    = "signal"     // it waits for a signal
	CodeChildren  = "children"   // it waits for children; see Reason.Holders
	CodeAfter     = "after"      // it waits for tasks after which it runs; see Reason.Holders
	CodeRetry     = "retry"      // it waits for its next attempt
	CodePaused    = "paused"     // its type, or a limit, is paused
	CodeNoHandler = "no_handler" // no handler of its type is configured
	CodeNoNode    = "no_node"    // no live node may run it, see policy.Type.Nodes and policy.Limit.Nodes
	CodeLimit     = "limit"      // a limit has no free slot
	CodeRate      = "rate"       // a rate is used up for the moment
	CodeQueue     = "queue"      // other tasks are before it
	CodeBehind    = "behind"     // a task of the same ordering key is before it
	CodeDraining  = "draining"   // the node is stopping
	CodeElsewhere = "elsewhere"  // another node is to start it
	CodeNodeGone  = "node_gone"  // the node that ran it is gone
	CodeNoProof   = "no_proof"   // the node cannot prove that it is alive, so it starts nothing
	CodeHandler   = "handler"    // its handler is down
	CodeDatabase  = "database"   // its database, one of several, does not answer
	CodeKey       = "key"        // this node cannot decode its contents, because it lacks the key
	CodeBus       = "bus"        // hints do not reach the node that is to start it: that node finds it in the store, within about a second
	CodeUnknown   = "unknown"    // of a time that has passed: this node does not know
	CodeUnwritten = "unwritten"  // a change of it is not in the store yet: it is being written, was not answered, or is refused
)

// heldPatience is how long Why waits for a database that does not answer.
const heldPatience = time.Second

// Why returns a task and the reasons why it does not run: the exact blockers, the nearest first,
// from the same data that the engine decides by.
func (e *Engine) Why(ctx context.Context, id task.ID) (*task.Task, []Reason, error) {
	t, reasons, err := e.why(ctx, id)
	if err != nil {
		return nil, nil, err
	}
	return e.shown(t), reasons, nil
}

func (e *Engine) why(ctx context.Context, id task.ID) (*task.Task, []Reason, error) {
	isHeld := false
	e.tell(func(s *state, _ time.Time) { isHeld = s.IsHeld(id.Shard()) })
	if isHeld {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, heldPatience)
		defer cancel()
	}
	t, err := e.store.Get(ctx, id)
	switch {
	case err == nil:
	case isHeld && !errors.Is(err, task.ErrNotFound):
		return nil, nil, fmt.Errorf("engine: the database that keeps the task %v does not answer: none of its tasks is started until it does: %w", id, err)
	default:
		return nil, nil, err
	}
	if !t.State.Live() {
		return t, []Reason{{Code: CodeEnded, Text: endedText(t)}}, nil
	}
	if isBehind(t, e.Now()) {
		return t, e.whyBehind(ctx, t), nil
	}
	var rs []Reason
	isElsewhere := false
	e.decide(func(c *core.Core, now time.Time) {
		w := c.Why(now, t)
		if r, ok := e.unwritten(t); ok {
			rs = append(rs, r)
			return
		}
		r, ok := e.elsewhere(t)
		if isElsewhere = ok; !ok {
			rs = e.withPauses(t, e.withPool(t, w, reasons(now, t, w, e.attemptsOf(t))))
			return
		}
		if t.State != task.Processing {
			rs = e.withPauses(t, append(waits(now, t, w, e.attemptsOf(t)), pausedLimits(t, w)...))
		}
		rs = append(rs, r)
	})
	if isElsewhere {
		rs = e.withBus(rs)
	} else {
		rs = e.withKey(t, rs)
	}
	return t, e.withTasks(ctx, t, e.withChildren(ctx, t, e.withProof(ctx, t, e.withNodes(t, rs)))), nil
}

func endedText(t *task.Task) string {
	text := "it is " + t.State.String() + " since " + t.UpdatedAt.Format(time.RFC3339)
	if t.Turn == task.Head {
		text += ", and the tasks behind it of the same ordering key wait until it is resumed, failed or cancelled"
	}
	if t.Node != "" {
		text += "; its newest attempt ran on node " + t.Node
	}
	if t.LastError != "" {
		text += ": " + t.LastError
	}
	return text
}

// attemptsOf returns how many attempts the policy of this node allows a task, as in " of 10". It returns ""
// if the type is not configured here, or [Config.Retry] has allowed more.
func (e *Engine) attemptsOf(t *task.Task) string {
	p, ok := e.catalog.policies().Types[t.Type]
	if !ok || p.Retry.Exhausted(t.Attempt) {
		return ""
	}
	return " of " + p.Retry.Attempts()
}

func reasons(now time.Time, t *task.Task, w core.Why, attempts string) []Reason {
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
	rs = waits(now, t, w, attempts)
	if w.Held {
		add(Reason{Code: CodeDatabase, Text: "the database that keeps it does not answer"})
	}
	if w.Stopped {
		add(Reason{Code: CodeUnwritten, Text: "no task of type " + t.Type + " is started, because the ends of too many of them cannot be written"})
	}
	if w.Draining {
		add(Reason{Code: CodeDraining, Text: "the node is stopping"})
	}
	if w.NoHandler {
		add(Reason{Code: CodeNoHandler, Text: noHandlerText(t.Type, w.Unknown)})
	}
	if w.Elsewhere {
		add(Reason{Code: CodeNoNode}) // withNodes knows more
		return rs
	}
	if t.State == task.Submitted {
		for i, u := range w.Limits {
			switch {
			case u.Full:
				add(limitReason(u, w.Holders[i]))
			case !u.Before.ID.IsZero():
				add(beforeReason(u, w.Holders[i]))
			case u.IsTurnOf:
				add(turnReason(u, w.Holders[i]))
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

// waits returns the reasons why a task does not run on any node. attempts is the result of attemptsOf.
func waits(now time.Time, t *task.Task, w core.Why, attempts string) (rs []Reason) {
	if names := t.Awaits(); t.State == task.Waiting && names != nil {
		until := ""
		if !t.NextEventAt.IsZero() {
			until = ", until " + t.NextEventAt.Format(time.RFC3339)
		}
		if at := slices.Index(names, task.AwaitsChildren); at >= 0 {
			rs = append(rs, Reason{Code: CodeChildren, Until: t.NextEventAt, Text: "it waits for children" + until}) // withChildren knows more
			names = slices.Delete(slices.Clone(names), at, at+1)
		}
		if slices.Contains(names, task.AfterSet) {
			return append(rs, Reason{Code: CodeAfter, Until: t.NextEventAt, Text: "it waits for tasks after which it runs" + until}) // withTasks knows more
		}
		if len(names) > 0 {
			rs = append(rs, Reason{Code: CodeSignal, Until: t.NextEventAt, Text: "it waits for the signal " + strings.Join(names, " or ") + until})
		}
		return rs
	}
	if t.State == task.Waiting && t.NextEventAt.IsZero() {
		rs = append(rs, Reason{Code: CodeScheduled, Text: "it has no time: it waits until it gets one"})
	}
	if t.State == task.Waiting && t.NextEventAt.After(now) {
		r := Reason{Code: CodeScheduled, Until: t.NextEventAt, Text: "it is scheduled for " + t.NextEventAt.Format(time.RFC3339)}
		if t.Attempt > 0 {
			r.Code, r.Text = CodeRetry, fmt.Sprintf("attempt %d%s follows at %s, after: %s", t.Attempt+1, attempts, t.NextEventAt.Format(time.RFC3339), t.LastError)
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
		return fmt.Sprintf("at least %d others of its type and group are before it", x.Ahead) + ageingText(x.Ageing)
	}
	return fmt.Sprintf("%d others of its type and group are before it", x.Ahead) + ageingText(x.Ageing)
}

// ageingText describes the order of a type with ageing; it returns "" for a type without.
func ageingText(ageing time.Duration) string {
	if ageing == 0 {
		return ""
	}
	return fmt.Sprintf("; with ageing, a level of priority counts like %v of waiting", ageing)
}

// unwritten returns why a task makes no progress if a change of it is not in the store, or if
// that is uncertain. It is called with mu held.
func (e *Engine) unwritten(t *task.Task) (Reason, bool) {
	unwritten := func(format string, args ...any) (Reason, bool) {
		return Reason{Code: CodeUnwritten, Text: fmt.Sprintf(format, args...)}, true
	}
	since := func(r shell.Refusal) string {
		return fmt.Sprintf("tried %d times since %s: %v", r.Tries, r.Since.Format(time.RFC3339), r.Err)
	}
	s := &e.state
	if r, ok := s.StuckSave(t.Ref()); ok {
		return unwritten("the store refuses to write its outcome, %s", since(r))
	}
	if s.Core().HasSlot(t.ID) {
		return Reason{}, false
	}
	switch r, refused := s.RefusedGrab(t.ID); {
	case refused && t.State != task.Processing:
		return unwritten("the store refuses to write that it starts, %s", since(r))
	case t.State == task.Processing && !e.cluster.IsShared() && !e.cluster.IsOurs(t.Owner) && e.config.Await[t.Type] > 0:
		return unwritten("it ran in an earlier process, and its outcome may still arrive; otherwise it runs again %v after the start", e.config.Await[t.Type])
	case t.State == task.Processing && !e.cluster.IsShared() && !e.cluster.IsOurs(t.Owner):
		return unwritten("it ran in an earlier process, and its next state could not be written yet")
	case t.State != task.Processing || !e.cluster.IsOurs(t.Owner):
		return Reason{}, false
	case s.IsSaving(t.Ref()):
		return unwritten("attempt %d has ended, and its outcome is being written", t.Attempt)
	case s.IsUncertain(t.ID):
		return unwritten("the store did not answer whether it was started; it is looked at again")
	}
	return unwritten("it is processing on this node, and nothing of it is under way; it is decided about within a minute")
}

// elsewhere returns why a task does not run on this node if it runs on another node, or another
// node is to start it. It is called with mu held.
func (e *Engine) elsewhere(t *task.Task) (Reason, bool) {
	if e.state.Core().HasSlot(t.ID) {
		return Reason{}, false
	}
	since := t.StartedAt.Format(time.RFC3339)
	switch at, node := e.cluster.Locate(t); at {
	case cluster.RunsThere:
		return Reason{Code: CodeRunning, Text: fmt.Sprintf("attempt %d runs on node %s since %s", t.Attempt, node.Name, since)}, true
	case cluster.RunnerGone:
		return Reason{Code: CodeNodeGone, Text: fmt.Sprintf("attempt %d ran since %s on node %s, which is gone; it is recovered when that is certain", t.Attempt, since, t.Node)}, true
	case cluster.StartsThere:
		if !e.cluster.IsQueueRun(t.Queue()) {
			return Reason{}, false // it owns the shard, as no node runs the type, or the value
		}
		return Reason{Code: CodeElsewhere, Text: "node " + node.Name + " is to start it, and knows why it does not"}, true
	}
	return Reason{}, false
}

// withNodes says of a type or a value that this node does not run why no node does, or that others do.
func (e *Engine) withNodes(t *task.Task, rs []Reason) []Reason {
	for i := range rs {
		if rs[i].Code == CodeNoNode {
			if rs[i].Text = e.cluster.UnplacedValue(t.Queue()); rs[i].Text == "" {
				rs[i].Text = "this node does not match nodes: " + e.catalog.wantedFor(t.Queue())
			}
			continue
		}
		if rs[i].Code != CodeNoHandler {
			continue
		}
		switch text, isMatched := e.cluster.Unplaced(t.Type); {
		case text != "":
			rs[i].Text = text
			if !isMatched {
				rs[i].Code = CodeNoNode
			}
		case !e.config.mayRun(t.Type, e.config.Name, e.config.Labels):
			rs[i].Code, rs[i].Text = CodeNoNode, "this node does not match nodes: "+e.config.nodesOf(t.Type)
		case len(e.cluster.Members()) > 1 && !e.cluster.IsRun(t.Type):
			rs[i].Text += ", and on no other node that is alive"
		}
	}
	return rs
}

// withPauses adds to reasons who paused the type and the limits.
func (e *Engine) withPauses(t *task.Task, rs []Reason) []Reason {
	view, _ := e.limits.get()
	for i := range rs {
		if r := &rs[i]; r.Code == CodePaused && r.Limit == "" {
			if p := e.cluster.PauseOf(t.Type); p.Paused {
				r.Text += pausedBy(p.By, p.At)
			}
		} else if r.Code == CodePaused {
			for _, s := range view.settingsOf(r.Limit, r.Value) {
				if s.Paused {
					r.Text += pausedBy(s.By, s.At)
					break
				}
			}
		}
	}
	return rs
}

// pausedBy ends a sentence about a pause.
func pausedBy(by string, at time.Time) string {
	return fmt.Sprintf(", by %s since %s", cmp.Or(by, "a person"), at.Format(time.RFC3339))
}

// withPool adds the reasons of the task's pool: the task still waits there, or the pool is
// down. It is called with mu held.
func (e *Engine) withPool(t *task.Task, w core.Why, rs []Reason) []Reason {
	name, ok := e.handlers.pools.of[t.Type]
	if !ok {
		return rs
	}
	if a, ok := e.state.attempts[t.ID]; ok && w.Running && !w.Abandoned && !a.hasBegun.Load() {
		return []Reason{{Code: CodeStarting, Text: "it waits for a process of handler " + name}}
	}
	if down := e.state.Capacity(name).Down; down != "" && !w.Running {
		full := policy.PoolName(name)
		rs = slices.DeleteFunc(rs, func(r Reason) bool { return r.Limit == full })
		rs = append([]Reason{{Code: CodeHandler, Text: fmt.Sprintf("handler %s is down: %s", name, down)}}, rs...)
	}
	return rs
}
