package cluster

import (
	"context"
	"sync"
	"time"

	"github.com/taskengine/taskengine/engine/internal/core"
	"github.com/taskengine/taskengine/internal/ratelog"
	"github.com/taskengine/taskengine/internal/wakeup"
	"github.com/taskengine/taskengine/task"
)

// maxHints is how many hints may wait to be published. Further hints are lost: the other nodes find
// the tasks by polling.
const maxHints = 100_000

// outbox keeps hints until they are published.
type outbox struct {
	filled wakeup.Signal

	mu    sync.Mutex
	hints []task.Hint // guarded by mu; at most maxHints
}

// add appends the hints that there is room for.
func (o *outbox) add(hints []task.Hint) {
	o.mu.Lock()
	o.hints = append(o.hints, hints[:min(len(hints), maxHints-len(o.hints))]...)
	o.mu.Unlock()
	o.filled.Set()
}

// take returns all hints, and uses the memory of empty for later ones.
func (o *outbox) take(empty []task.Hint) []task.Hint {
	o.mu.Lock()
	defer o.mu.Unlock()
	full := o.hints
	o.hints = empty[:0]
	return full
}

// Hint publishes the new states of rows, if there are other nodes. It does not wait for that, and may
// be called with the engine's lock held. It does not keep the slice.
func (k *Cluster) Hint(hints []task.Hint) {
	if len(k.view.Load().members) > 1 {
		k.outbox.add(hints)
	}
}

// publishLoop publishes the hints.
func (k *Cluster) publishLoop(ctx context.Context) {
	var hints []task.Hint
	var failures ratelog.Limiter
	for {
		select {
		case <-k.outbox.filled.C():
		case <-ctx.Done():
			return
		}
		hints = k.outbox.take(hints)
		if err := k.bus.Publish(ctx, hints...); err != nil && ctx.Err() == nil && failures.Allow() {
			k.log.Warn("cannot send hints of tasks to their nodes, which find them by polling", "tasks", len(hints), "error", err)
		}
	}
}

// subscribeLoop receives the hints of the other nodes.
func (k *Cluster) subscribeLoop(ctx context.Context) {
	var failures ratelog.Limiter
	for {
		err := k.bus.Subscribe(ctx, k.hear)
		if ctx.Err() != nil {
			return
		}
		if failures.Allow() {
			k.log.Warn("cannot hear the hints of other nodes; it is tried again", "error", err)
		}
		if wakeup.Sleep(ctx, time.Second) != nil {
			return
		}
	}
}

// hear passes hints of other nodes to the core.
func (k *Cluster) hear(hints []task.Hint) {
	poll, repause := false, false
	k.engine.Decide(func(c *core.Core, now time.Time) {
		owned := k.Owned()
		for _, h := range hints {
			switch h.About {
			case task.AboutTask:
				c.Observe(now, h)
			case task.AboutKey:
				c.ObserveKey(now, h.Queue, h.Shard, h.OrderingKey)
			case task.AboutShard:
				poll = poll || owned.HasAny(h.Shard)
			case task.AboutAll:
				poll, repause = true, true
			case task.AboutSettings:
				repause = true
			}
		}
	})
	if poll {
		k.requests.poll()
	}
	if repause {
		k.repause.Set()
	}
}
