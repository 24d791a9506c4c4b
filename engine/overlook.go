package engine

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/taskengine/taskengine/engine/internal/core"
	"github.com/taskengine/taskengine/engine/task"
	"github.com/taskengine/taskengine/storage"
)

const (
	// overlookEvery is how often a node looks for what nobody told it of.
	overlookEvery = time.Second
	// overlookShare is what part of the time it spends on that at most.
	overlookShare = 20

	overlookPage = 1000
)

// overlookLoop finds what is for this node and what it was not told of: because it became
// the node's only now, because the hint was lost, or because whoever submitted it is no
// node.
func (e *Engine) overlookLoop(ctx context.Context, store storage.Shared) {
	timer := time.NewTimer(overlookEvery)
	defer timer.Stop()
	var ran []task.Ref // what ran when that was looked at, at this time
	var reconsidered time.Time
	for {
		due := false
		select {
		case <-e.overlook:
		case <-timer.C:
			due = true
		case <-ctx.Done():
			return
		}
		e.mu.Lock()
		gained, look := e.cluster.gained, e.cluster.look || due
		e.cluster.gained, e.cluster.look = nil, false
		e.mu.Unlock()
		begin := time.Now()
		for _, g := range gained {
			e.sweep(ctx, &g)
		}
		if look {
			e.seek(ctx, store)
			if begin.Sub(reconsidered) >= overlookEvery { // others may have it look more often
				ran, reconsidered = e.reconsider(ctx, store, ran), begin
			}
			timer.Reset(max(overlookEvery, overlookShare*time.Since(begin)))
		}
	}
}

// sweep tells the core of all that is in the store of what was gained, as far as the core
// keeps it in memory.
func (e *Engine) sweep(ctx context.Context, g *gain) {
	for _, state := range []task.State{task.Waiting, task.Submitted} {
		e.sweepDue(ctx, state, g)
	}
	var after task.Leaf
	for {
		leaves, err := e.store.Leaves(ctx, after, scanPage)
		if e.unanswered(ctx, "the types of ready tasks", err) {
			if ctx.Err() != nil {
				return
			}
			continue
		}
		typ, open := "", false
		for _, l := range leaves {
			if typ != l.Type {
				typ, open = l.Type, e.isOpen(l.Type)
			}
			if open { // what cannot run is read when it can
				e.sweepLeaf(ctx, l, g.of(l.Type))
			}
			after = l
		}
		if len(leaves) < scanPage {
			return
		}
	}
}

const scanPage = 1000

// isOpen reports whether tasks of a type may be started here.
func (e *Engine) isOpen(typ string) (open bool) {
	e.decide(func(c *core.Core, _ time.Time) { open = c.IsOpen(typ) })
	return open
}

// sweepLeaf tells of the rows of a leaf in some shards, until one is left to the store,
// and with it all that rank behind.
func (e *Engine) sweepLeaf(ctx context.Context, leaf task.Leaf, shards *task.Shards) {
	q := storage.ReadyQuery{Leaf: leaf, Shards: shards, Limit: overlookPage}
	for more := !shards.IsEmpty(); more; {
		page, err := e.store.Ready(ctx, q)
		if e.unanswered(ctx, "ready tasks", err) {
			more = ctx.Err() == nil
			continue
		}
		more = len(page) == overlookPage
		e.decide(func(c *core.Core, now time.Time) {
			for i := range page {
				if !c.Told(now, task.Hint{Trigger: page[i], State: task.Submitted}) {
					more = false
					return
				}
			}
		})
		if more {
			q.After = &page[len(page)-1].Rank
		}
	}
}

// sweepDue tells of the rows of a state that have a time, likewise.
func (e *Engine) sweepDue(ctx context.Context, state task.State, g *gain) {
	q := storage.DueQuery{State: state, Shards: g.any(), Before: distantFuture, Limit: overlookPage}
	for more := !q.Shards.IsEmpty(); more; {
		page, err := e.store.Due(ctx, q)
		if e.unanswered(ctx, "due tasks", err) {
			more = ctx.Err() == nil
			continue
		}
		more = len(page) == overlookPage
		e.decide(func(c *core.Core, _ time.Time) {
			for _, d := range page {
				more = c.ToldDue(task.Hint{Trigger: d.Trigger, State: state, NextEventAt: d.At}) && more
			}
		})
		if more {
			q.After = page[len(page)-1]
		}
	}
}

// any returns the shards that were gained of any type; nil is all.
func (g *gain) any() *task.Shards {
	some := g.of("")
	for typ := range g.now.Types {
		more := g.of(typ)
		if some == nil || more == nil {
			return nil
		}
		union := some.With(more)
		some = &union
	}
	return some
}

// seek looks for what the node was not told of.
func (e *Engine) seek(ctx context.Context, store storage.Shared) {
	e.mu.Lock()
	own := e.owned
	q := storage.OverlookedQuery{Shards: own.Any(), Limit: overlookPage, Before: e.clock.now()}
	e.mu.Unlock()
	if q.Shards.IsEmpty() {
		return
	}
	for {
		found, err := store.Overlooked(ctx, q)
		if e.unanswered(ctx, "what may have been overlooked", err) {
			return // it is tried again soon
		}
		var unknown []task.Trigger
		e.decide(func(c *core.Core, now time.Time) {
			for _, d := range found.Due {
				c.Told(now, task.Hint{Trigger: d.Trigger, State: task.Waiting, NextEventAt: d.At})
			}
			for _, tr := range found.Heads {
				if c.Owns(tr.Type, tr.Shard) && !c.Knows(tr) {
					unknown = append(unknown, tr)
				}
			}
		})
		for _, tr := range unknown {
			e.sweepLeaf(ctx, tr.Leaf, own.Of(tr.Type))
		}
		if q.After = found.Next; found.Next == (task.Leaf{}) {
			return
		}
	}
}

// reconsider stops what runs, and ran at the last look, though the store has it otherwise: it
// was cancelled on another node, or taken for dead. It returns what runs now.
func (e *Engine) reconsider(ctx context.Context, store storage.Shared, before []task.Ref) (running []task.Ref) {
	var long []task.Ref
	e.mu.Lock()
	for _, ref := range before {
		if e.goesOn(ref) {
			long = append(long, ref)
		}
	}
	for _, a := range e.attempts {
		running = append(running, a.ref)
	}
	e.mu.Unlock()
	for page := range slices.Chunk(long, overlookPage) {
		outdated, err := store.Outdated(ctx, page...)
		if e.unanswered(ctx, "what became of running tasks", err) {
			break // it is tried again soon
		}
		for i, ref := range page {
			if outdated[i] {
				e.reread(ctx, ref)
			}
		}
	}
	return running
}

// reread tells the core how a row is that was at another version.
func (e *Engine) reread(ctx context.Context, was task.Ref) {
	t, err := e.store.Get(ctx, was.ID)
	if errors.Is(err, task.ErrNotFound) {
		t = &task.Task{ID: was.ID, Version: was.Version + 1, State: task.Cancelled}
	} else if e.unanswered(ctx, "a task", err) {
		return
	}
	e.decide(func(c *core.Core, now time.Time) {
		if e.goesOn(was) {
			c.Changed(now, t)
			e.waiters.ended(t)
		}
	})
}

// goesOn reports whether an attempt was neither told to stop nor has itself seen to what its
// row is now. It is called with mu held.
func (e *Engine) goesOn(ref task.Ref) bool {
	a, ok := e.attempts[ref.ID]
	return ok && a.ref == ref && a.why() == nil && a.finishing.Load() == nil
}
