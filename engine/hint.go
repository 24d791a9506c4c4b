package engine

import (
	"context"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/engine/internal/core"
	"github.com/taskengine/taskengine/engine/task"
)

// maxHints is how many hints may wait to be published. Those beyond are lost: the others
// find in the store what they are not told of.
const maxHints = 100_000

// hint keeps hints for the others, if there are any. It is called with mu held.
func (e *Engine) hint(hints []task.Hint) {
	k := &e.cluster
	if e.config.Bus == nil || len(k.members) < 2 {
		return
	}
	k.hints = append(k.hints, hints[:min(len(hints), maxHints-len(k.hints))]...)
	signal(e.announce)
}

// publishLoop tells the others what has become of rows that are theirs.
func (e *Engine) publishLoop(ctx context.Context) {
	var hints []task.Hint
	var told seldom
	for {
		select {
		case <-e.announce:
		case <-ctx.Done():
			return
		}
		e.mu.Lock()
		hints, e.cluster.hints = e.cluster.hints, hints[:0]
		e.mu.Unlock()
		if err := e.config.Bus.Publish(ctx, hints...); err != nil && ctx.Err() == nil && told.due() {
			e.log.Warn("cannot tell other nodes of their tasks; they will find them", "tasks", len(hints), "error", err)
		}
	}
}

// subscribeLoop hears what the others tell.
func (e *Engine) subscribeLoop(ctx context.Context) {
	var told seldom
	for {
		err := e.config.Bus.Subscribe(ctx, e.told)
		if ctx.Err() != nil {
			return
		}
		if told.due() {
			e.log.Warn("cannot hear what other nodes tell; it is tried again", "error", err)
		}
		if sleep(ctx, time.Second) != nil {
			return
		}
	}
}

// told tells the core what others have told.
func (e *Engine) told(hints []task.Hint) {
	look, changed := false, false
	e.decide(func(c *core.Core, now time.Time) {
		for _, h := range hints {
			if shard, all, ok := coord.Woken(h); ok {
				changed = changed || all
				look = look || all && h != coord.Changed() || e.owned.HasAny(shard)
				continue
			}
			c.Told(now, h)
		}
		e.cluster.look = e.cluster.look || look
	})
	if look {
		signal(e.overlook)
	}
	if changed {
		signal(e.changed)
	}
}
