package cluster

import (
	"context"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/engine/internal/core"
	"github.com/taskengine/taskengine/internal/wakeup"
	"github.com/taskengine/taskengine/storage"
)

// rejoinAfter is how long a node rests before it joins again.
const rejoinAfter = time.Second

// memberLoop keeps the node among the members. When it cannot, the node starts nothing and its running
// tasks are cancelled; then it joins again, as another incarnation.
func (k *Cluster) memberLoop(ctx context.Context) {
	release := k.identify()
	defer func() { release() }()
	for {
		err := k.membership.Join(ctx, k.self(), k.see)
		if ctx.Err() != nil {
			return
		}
		k.log.Error("the node cannot prove that it is alive; it starts no tasks, and joins again", "error", err)
		k.expelled()
		release()
		release = k.identify()
		if wakeup.Sleep(ctx, rejoinAfter) != nil {
			return
		}
	}
}

// identify marks the sessions of a shared store as sessions of this node, until release is called.
func (k *Cluster) identify() (release func()) {
	if in, ok := k.shared.(storage.Identified); ok {
		return in.Identify(k.Incarnation())
	}
	return func() {}
}

// self returns this node as the others see it.
func (k *Cluster) self() coord.Member {
	return coord.Member{
		Incarnation: k.Incarnation(), Name: k.config.Name, Labels: k.config.Labels, Handlers: k.config.Handlers,
		Selectors: k.config.Matched, Draining: k.engine.IsDraining(), Address: k.advertised(), Version: k.config.Version,
	}
}

func (k *Cluster) advertised() string {
	if address := k.address.Load(); address != nil {
		return *address
	}
	return ""
}

// Advertise makes the URL of the API of this node known to the other nodes, now and when it joins again. The caller must
// not hold the engine's lock.
func (k *Cluster) Advertise(address string) {
	k.address.Store(&address)
	k.announce()
}

// announce has the other nodes learn what has changed about this one. A node that joins at this moment does so in see.
func (k *Cluster) announce() {
	if k.shared != nil {
		k.membership.Announce(k.self())
	}
	k.announcePeer()
}

// see learns from Join which members are alive.
func (k *Cluster) see(members []coord.Member) {
	before := k.view.Load()
	after := before.withMembers(members, k.config.Places, time.Now())
	k.engine.Decide(func(c *core.Core, now time.Time) {
		k.view.Store(after)
		c.Own(now, after.owned)
		c.Suspend(now, false)
	})
	k.want(before.owned)
	if k.isJoined {
		k.requests.gain(gain{before.owned, after.owned})
	} else { // the core reads everything anyway: it knows nothing yet
		k.isJoined = true
		k.logLease()
		close(k.joined)
	}
	k.reheal.Set()
	if m := after.member(after.incarnation); m != nil && m.Address != k.advertised() {
		k.membership.Announce(k.self())
	}
}

// logLease logs the lease of a node that shares its store.
func (k *Cluster) logLease() {
	switch lease := k.Lease(); {
	case k.shared == nil:
	case lease == k.config.Lease:
		k.log.Info("the node is a member of its cluster", "lease", lease)
	default:
		k.log.Info("the node is a member of its cluster, with another lease than it asked for", "lease", lease, "asked", k.config.Lease)
	}
}

// expelled stops the node from starting tasks, and stops its running ones: other nodes may take this
// one for dead, and run its tasks.
func (k *Cluster) expelled() {
	after := k.view.Load().reborn(k.config.IDs.Next(time.Now()))
	k.engine.Decide(func(c *core.Core, now time.Time) {
		k.view.Store(after) // first: a handler that is stopped may ask whether the node is a member
		c.Suspend(now, true)
		k.engine.StopAll()
		c.Reborn(after.incarnation)
		c.Own(now, after.owned) // hints may be lost from now on
	})
}

// Drain announces to the other nodes that this one starts nothing any more, so that they take over its
// shards. The caller must not hold the engine's lock.
func (k *Cluster) Drain() { k.announce() }
