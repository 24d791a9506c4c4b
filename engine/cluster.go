package engine

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/engine/internal/cluster"
	"github.com/taskengine/taskengine/engine/internal/core"
	"github.com/taskengine/taskengine/engine/task"
)

// ErrLeaseLost is why handlers are cancelled when their node can no longer prove that it is
// alive: other nodes may take it for dead, and run its tasks.
var ErrLeaseLost = errors.New("the node could not prove that it is alive")

// DefaultLease is how long a node is believed to be alive after it has proved it.
const DefaultLease = 4 * time.Second

// newCluster returns the part of e that deals with other nodes. It is not running yet.
func (e *Engine) newCluster() (*cluster.Cluster, error) {
	c := &e.config
	return cluster.New(cluster.Config{
		Store: c.Store, Membership: c.Membership, Elector: c.Elector, Bus: c.Bus, Lease: c.Lease,
		Name: c.Name, Labels: c.Labels, Handlers: slices.Sorted(maps.Keys(c.Handlers)), IDs: e.ids, Log: c.Log,
		Engine: cluster.Engine{
			Decide: e.decide, Swap: e.swapPieces, Unanswered: e.unanswered, IsOutage: isOutage,
			Orphaned:     func(now time.Time, t *task.Task) task.Change { return core.Orphaned(now, e.policyOf(t.Type), t) },
			IsConfigured: func(typ string) bool { return e.types[typ] != nil },
			IsDraining:   e.isClosing,
			StopAll:      e.stopRunning,
			Running:      e.running,
			GoesOn:       e.goesOn,
			Ended:        e.waiters.ended,
		},
	})
}

// Incarnation returns the id under which this engine owns the tasks it runs: fresh with
// every Open, and whenever it could not prove that it is alive.
func (e *Engine) Incarnation() task.ID { return e.cluster.Incarnation() }

// Members returns the nodes that are alive, sorted by incarnation. It returns nil while this
// node cannot prove that it is alive, and if it was opened without a Membership.
func (e *Engine) Members() []coord.Member { return e.cluster.Members() }

// IsMember reports whether the node is a member of the cluster, so that it can prove that it is
// alive. If not, it starts nothing. A node that was opened without a Membership is a member.
func (e *Engine) IsMember() bool { return e.cluster.IsMember() }

// isClosing reports whether nothing new is accepted, nor begun.
func (e *Engine) isClosing() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.closing
}

// stopRunning ends the contexts of all handlers that run, because the node has lost its lease.
// It is called with mu held.
func (e *Engine) stopRunning() {
	for _, a := range e.attempts {
		a.stop(ErrLeaseLost)
	}
}

// running returns the rows whose handlers run. It is called with mu held.
func (e *Engine) running() (refs []task.Ref) {
	for _, a := range e.attempts {
		refs = append(refs, a.ref)
	}
	return refs
}

// goesOn reports whether the attempt at this version of a row runs, has not been stopped, and has
// not finished the task in a transaction. It is called with mu held.
func (e *Engine) goesOn(ref task.Ref) bool {
	a, ok := e.attempts[ref.ID]
	return ok && a.ref == ref && a.why() == nil && a.finishing.Load() == nil
}

// elsewhere returns why a task does not run on this node if it runs on another node, or another
// node is to start it. It is called with mu held.
func (e *Engine) elsewhere(t *task.Task) (Reason, bool) {
	if e.core.HasSlot(t.ID) {
		return Reason{}, false
	}
	since := t.StartedAt.Format(time.RFC3339)
	switch at, node := e.cluster.Locate(t); at {
	case cluster.RunsThere:
		return Reason{Code: CodeRunning, Text: fmt.Sprintf("attempt %d runs on node %s since %s", t.Attempt, node, since)}, true
	case cluster.RunnerGone:
		return Reason{Code: CodeNodeGone, Text: fmt.Sprintf("attempt %d ran since %s on a node that is gone; what becomes of it is decided when that is certain", t.Attempt, since)}, true
	case cluster.StartsThere:
		return Reason{Code: CodeElsewhere, Text: "node " + node + " is to start it, and knows why it does not"}, true
	}
	return Reason{}, false
}
