package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/engine/internal/core"
	"github.com/taskengine/taskengine/engine/task"
	"github.com/taskengine/taskengine/storage"
)

// ErrLeaseLost is why handlers are cancelled when their node cannot prove any more that
// it is alive: others may think that it is not, and run its tasks.
var ErrLeaseLost = errors.New("the node could not prove that it is alive")

// cluster is what an engine knows of the other nodes. It is guarded by Engine.mu.
type cluster struct {
	members  []coord.Member        // those that are alive, this node included
	left     map[task.ID]time.Time // incarnations that were among them, and since when not; for an hour
	past     []task.ID             // incarnations that this node had before
	gained   []gain                // what is to be looked for in the store
	hints    []task.Hint           // to be published
	look     bool                  // something may have been overlooked
	isJoined bool                  // joined is closed
}

// see notes who is alive now.
func (k *cluster) see(members []coord.Member, now time.Time) {
	left := make(map[task.ID]time.Time)
	for id, at := range k.left {
		if now.Sub(at) < time.Hour {
			left[id] = at
		}
	}
	for _, m := range k.members {
		left[m.Incarnation] = now
	}
	for _, m := range members {
		delete(left, m.Incarnation)
	}
	k.members, k.left = members, left
}

// gain is what became this node's.
type gain struct{ before, now core.Ownership }

// of returns the shards of a type that were gained; nil is all.
func (g *gain) of(typ string) *task.Shards {
	now, before := g.now.Of(typ), g.before.Of(typ)
	switch {
	case before == nil: // it had all
		return new(task.Shards)
	case now == nil:
		return nil
	}
	rest := now.Without(before)
	return &rest
}

// none is the ownership of nothing.
func none() core.Ownership { return core.Ownership{Others: new(task.Shards)} }

// rejoinAfter is how long a node rests that could not prove that it is alive.
const rejoinAfter = time.Second

// join makes the node one of several, if it is to be, and waits until it is.
func (e *Engine) join(ctx, background context.Context) error {
	if e.config.Membership == nil {
		return nil
	}
	store, ok := e.store.(storage.Shared)
	if !ok {
		return errors.New("engine: Config.Membership is set, and the store cannot be shared by nodes")
	}
	e.decide(func(c *core.Core, now time.Time) {
		e.owned = none()
		c.Own(now, e.owned)
	})
	e.duties.Go(func() { e.memberLoop(background) })
	e.duties.Go(func() { e.overlookLoop(background, store) })
	e.duties.Go(func() { e.pausesLoop(background) })
	e.duties.Go(func() {
		e.lead(background, "healer", func(ctx context.Context) error { return e.heal(ctx, store) })
	})
	if e.config.Bus != nil {
		e.duties.Go(func() { e.publishLoop(background) })
		e.duties.Go(func() { e.subscribeLoop(background) })
	}
	select {
	case <-e.joinedFirst:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("engine: join the other nodes: %w", context.Cause(ctx))
	}
}

// memberLoop keeps the node among the members. When it cannot, the node starts nothing
// and what it runs is cancelled; then it joins anew, as another incarnation.
func (e *Engine) memberLoop(ctx context.Context) {
	for {
		err := e.config.Membership.Join(ctx, e.member(), e.joined)
		if ctx.Err() != nil {
			return
		}
		e.log.Error("the node cannot prove that it is alive; it starts nothing, and joins anew", "error", err)
		e.expelled()
		if sleep(ctx, rejoinAfter) != nil {
			return
		}
	}
}

// member returns how the others see this node.
func (e *Engine) member() coord.Member {
	e.mu.Lock()
	defer e.mu.Unlock()
	return coord.Member{
		Incarnation: e.incarnation, Name: e.config.Name, Labels: e.config.Labels, Draining: e.closing,
		Handlers: slices.Sorted(maps.Keys(e.config.Handlers)),
	}
}

// joined is told who is alive.
func (e *Engine) joined(members []coord.Member) {
	e.decide(func(c *core.Core, now time.Time) {
		e.cluster.see(members, time.Now())
		own := assign(e.incarnation, members)
		if e.cluster.isJoined { // else it all is yet to be read
			e.cluster.gained = append(e.cluster.gained, gain{e.owned, own})
		}
		e.owned = own
		c.Own(now, own)
		c.Suspend(now, false)
		if !e.cluster.isJoined {
			e.cluster.isJoined = true
			close(e.joinedFirst)
		}
	})
	signal(e.overlook)
	signal(e.healNow)
}

// expelled sees to it that nothing is started, and that nothing goes on.
func (e *Engine) expelled() {
	e.decide(func(c *core.Core, now time.Time) {
		e.cluster.members, e.cluster.left = nil, nil
		c.Suspend(now, true)
		for _, a := range e.attempts {
			a.stop(ErrLeaseLost)
		}
		e.cluster.past = append(e.cluster.past, e.incarnation)
		e.incarnation = e.ids.Next(time.Now())
		c.Reborn(e.incarnation)
		e.owned = none() // what is told meanwhile may be lost
		c.Own(now, e.owned)
	})
}

// isOurs reports whether an incarnation is, or was, this node's. It is called with mu
// held.
func (e *Engine) isOurs(owner task.ID) bool {
	return owner == e.incarnation || slices.Contains(e.cluster.past, owner)
}

// Members returns the nodes that are alive, sorted by incarnation; nil while this one
// cannot prove that it is, or if it is alone.
func (e *Engine) Members() []coord.Member {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.cluster.members)
}

// IsMember reports whether the node can prove that it is alive, or is alone and need not. If
// not, it starts nothing.
func (e *Engine) IsMember() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.config.Membership == nil || len(e.cluster.members) > 0
}
