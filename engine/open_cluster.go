package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/taskengine/taskengine/codec"
	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/record"
	"github.com/taskengine/taskengine/engine/internal/cluster"
	"github.com/taskengine/taskengine/engine/internal/core"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// ErrLeaseLost is why handlers are cancelled when their node can no longer prove that it is
// alive: other nodes may take it for dead, and run its tasks.
var ErrLeaseLost = errors.New("the node could not prove that it is alive")

// DefaultLease is how long a node is believed to be alive after it has proved it.
const DefaultLease = 4 * time.Second

// newCluster returns the part of e that deals with other nodes. It is not running yet.
func (e *Engine) newCluster() (*cluster.Cluster, error) {
	c := &e.config
	ids := task.NewIDs(seed()) // other than for tasks: incarnations go by the wall clock, and ids never go back
	places, matched := placesOf(c)
	return cluster.New(cluster.Config{
		Places: places, Matched: matched,
		Store: c.Store, Coordinator: c.Coordinator, Lease: c.Lease,
		Name: c.Name, Labels: c.Labels, Version: c.Version, Handlers: slices.Sorted(maps.Keys(c.Handlers)), Types: slices.Sorted(maps.Keys(c.Policies.Types)), IDs: ids, Log: c.Log,
		Engine: cluster.Engine{
			Decide: e.decide, Unanswered: e.unanswered, Read: e.read,
			Orphaned: func(t *task.Task) task.Change {
				return e.catalog.infoOf(t.Type).rules.Orphaned(e.Now(), t)
			},
			Await:        func(typ string) time.Duration { return c.Await[typ] },
			IsConfigured: func(typ string) bool { return e.catalog.rules().types[typ] != nil },
			Nodes:        c.nodesOf,
			MayRun:       c.mayRun,
			Placement:    func(q task.Queue) core.Placement { return e.catalog.placementOf(q) },
			Wanted:       func(q task.Queue) string { return e.catalog.wantedFor(q) },
			Limit:        e.applyLimits,
			IsDraining:   e.isClosing,
			StopAll:      e.stopRunning,
			Running:      e.running,
			RunningIn:    e.runningIn,
			GoesOn:       e.goesOn,
			IsAway:       func(shard uint16) bool { return e.state.IsHeld(shard) },
			Ended: func(t *task.Task) {
				e.state.changed(e.state.clock.now(), t)
				e.state.waiters.ended(t)
			},
			Recovered: func(t *task.Task) { e.state.Recovered(t) },
			Inserted: func(now time.Time, t *task.Task, in storage.Inserted) {
				if in.Created() {
					e.inserted(now, t)
				}
				e.state.Inserted(now, t, in)
			},
		},
	})
}

// shareAlone has limits of the cluster granted to a node alone, so that their rates stay used up when the
// process restarts, or crashes again and again.
func shareAlone(c *Config) {
	by := &c.Coordinator
	if by.Membership != nil || by.Semaphore != nil || by.Rates != nil {
		return
	}
	for _, l := range c.Policies.Limits {
		if l.Cluster {
			by.Semaphore, by.Rates = cluster.GrantAlone(c.Store)
			return
		}
	}
}

// checkShared returns an error if a limit of the cluster has nothing that grants it.
func checkShared(c *Config) error {
	by := &c.Coordinator
	if (by.Semaphore == nil) != (by.Rates == nil) {
		return errors.New("engine: Semaphore and Rates of Config.Coordinator: set both, or none")
	}
	if by.Semaphore != nil || by.Membership == nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(c.Policies.Limits)) {
		if c.Policies.Limits[name].Cluster {
			return fmt.Errorf("engine: limit %q is one of the cluster: set Semaphore and Rates of Config.Coordinator, which grant it", name)
		}
	}
	return nil
}

// Incarnation returns the id under which this engine owns the tasks it runs: fresh with
// every Open, and whenever it could not prove that it is alive.
func (e *Engine) Incarnation() task.ID { return e.cluster.Incarnation() }

// Members returns the nodes that are alive, sorted by incarnation. It returns nil while this
// node cannot prove that it is alive, and if it was opened without a Membership.
func (e *Engine) Members() []coord.Member { return e.cluster.Members() }

// NodeOf returns the other node that runs a task, or is to start it; false if no other node that is alive does. The task is
// not read again.
func (e *Engine) NodeOf(t *task.Task) (coord.Member, bool) {
	if e.cluster.IsOurs(t.Owner) && t.State == task.Processing {
		return coord.Member{}, false
	}
	at, node := e.cluster.Locate(t)
	return node, at == cluster.RunsThere || at == cluster.StartsThere
}

// Shards returns of how many shards this node starts tasks, of any type.
func (e *Engine) Shards() int {
	owned := e.cluster.Owned()
	any := owned.Any()
	if any == nil {
		return task.ShardCount
	}
	return len(any.List())
}

// Slots returns how many slots the tasks of this node may take at once; 0 is no limit.
func (e *Engine) Slots() int { return e.config.Policies.Slots }

// Advertise makes the URL of the API of this node known to the other nodes, which have it in their lists of members.
func (e *Engine) Advertise(address string) { e.cluster.Advertise(address) }

// IsMember reports whether the node is a member of the cluster, so that it can prove that it is
// alive. If not, it starts nothing. A node that was opened without a Membership is a member.
func (e *Engine) IsMember() bool { return e.cluster.IsMember() }

// HoldsPermits reports whether the node holds its permits of limits of the cluster at this moment, so that it
// may use them. It reports false for ok if the engine has no Semaphore.
func (e *Engine) HoldsPermits() (holds, ok bool) {
	if e.config.Coordinator.Semaphore == nil {
		return false, false
	}
	return e.cluster.HoldsPermits(), true
}

// Lease returns for how long the other nodes believe that this one is alive after it has proved it. That is
// the lease of the Membership, and [Config].Lease while that knows none. It reports false if the
// engine was opened without a Membership.
func (e *Engine) Lease() (lease time.Duration, ok bool) {
	return e.cluster.Lease(), e.cluster.IsShared()
}

// isClosing reports whether nothing new is accepted, nor begun.
func (e *Engine) isClosing() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.state.isClosing
}

// stopRunning ends the contexts of all handlers that run, because the node has lost its lease.
// It is called with mu held.
func (e *Engine) stopRunning() {
	e.catalog.mayBeLost()
	for _, a := range e.state.attempts {
		a.stop(ErrLeaseLost)
	}
}

// running returns the rows with running handlers. It is called with mu held.
func (e *Engine) running() (refs []task.Ref) {
	for _, a := range e.state.attempts {
		refs = append(refs, a.ref)
	}
	return refs
}

// runningIn returns the shards of the rows with running handlers. It is called with mu held.
func (e *Engine) runningIn() (shards task.Shards) {
	for _, a := range e.state.attempts {
		shards.Add(a.Task.Shard)
	}
	return shards
}

// goesOn reports whether the attempt at this version of a row runs, has not been stopped, and has
// not finished the task in a transaction. It is called with mu held.
func (e *Engine) goesOn(ref task.Ref) bool {
	a, ok := e.state.attempts[ref.ID]
	return ok && a.ref == ref && a.why() == nil && a.finishing.Load() == nil
}

// checkCoordination refuses a store if its nodes are members of another cluster than this node. It
// is called before anything else is written: a node alone changes rows that nodes of a cluster rely on.
func checkCoordination(ctx context.Context, c *Config) error {
	shared, ok := c.Store.(storage.Shared)
	if !ok {
		return nil
	}
	own, err := identity(ctx, c.Coordinator.Membership)
	if err == nil {
		err = record.Check(ctx, shared, own)
	}
	if err != nil {
		return fmt.Errorf("engine: %w", err)
	}
	return nil
}

// identity returns the identity of the cluster of a node.
func identity(ctx context.Context, m coord.Membership) (coord.Identity, error) {
	if m == nil {
		return coord.LocalIdentity, nil
	}
	return m.Identity(ctx)
}

// Peers has the ports that an engine shares with nodes that have stores of their own, see [coord.Coordinator].
type Peers struct {
	Settings coord.Config
	Lease    time.Duration  // for which they believe that this node is alive
	Members  []coord.Member // that are alive, this node included; nil if they are not known
}

// Peers returns the ports that the engine shares with nodes that have stores of their own; false if there are none.
func (e *Engine) Peers() (p Peers, ok bool) {
	by := &e.config.Coordinator
	if by.Peers == nil || by.Settings == nil {
		return p, false
	}
	p = Peers{Settings: by.Settings, Lease: by.Peers.Lease(), Members: e.cluster.PeerMembers()}
	if p.Lease <= 0 {
		p.Lease = e.config.Lease
	}
	return p, true
}

// Settings returns the settings of the nodes that share limits with this one: of [Config].Coordinator or, without these, of the
// store, or of the process if the store keeps none. They can be used until the engine is closed.
func (e *Engine) Settings() coord.Config { return e.cluster.Settings() }

// Handles reports whether this node runs a type.
func (e *Engine) Handles(typ string) bool { return e.config.Handlers[typ] != nil }

// Name returns the name of this node.
func (e *Engine) Name() string { return e.config.Name }

// Seal encodes data of a type that is kept outside the store by Config.Codec.
func (e *Engine) Seal(typ string, data []byte) ([]byte, error) {
	return e.contents.encode(typ, codec.Checkpoint, data)
}

// Unseal returns the data for which Seal has returned sealed. Its error wraps [ErrUnreadable].
func (e *Engine) Unseal(typ string, sealed []byte) ([]byte, error) {
	data, err := e.contents.open(typ, codec.Checkpoint, sealed)
	if err != nil {
		return nil, fmt.Errorf("engine: %w: %w", ErrUnreadable, err)
	}
	return data, nil
}
