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

	// surveyScan is how many rows one part of a survey reads at most, and surveyTakes how long a
	// survey goes on that finds nothing. A whole round through the store may take many.
	surveyScan  = 10_000
	surveyTakes = overlookEvery / overlookShare
)

// overlookLoop finds what is for this node and what it was not told of: because it became
// the node's only now, because the hint was lost, or because whoever submitted it is no
// node.
func (e *Engine) overlookLoop(ctx context.Context, store storage.Shared) {
	timer := time.NewTimer(overlookEvery)
	defer timer.Stop()
	var ran []task.Ref         // what ran when that was looked at, at this time
	var reconsidered time.Time // others may have it look more often
	var at storage.Place       // where the survey goes on
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
			if begin.Sub(reconsidered) >= overlookEvery {
				at = e.survey(ctx, store, at)
				ran, reconsidered = e.reconsider(ctx, store, ran), begin
			}
			timer.Reset(max(overlookEvery, overlookShare*time.Since(begin)))
		}
	}
}

// sweep tells the core of all that is in the store of what was gained, as far as the core
// keeps it in memory.
func (e *Engine) sweep(ctx context.Context, g *gain) {
	for _, state := range withTime {
		for !e.sweepDue(ctx, state, g.any(), distantFuture) {
			if ctx.Err() != nil {
				return
			}
		}
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
// and with it all that rank behind. When they have waited too long is told by sweepDue.
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

// withTime are the states of rows for which something happens at a time: that they start, or
// that they have waited too long.
var withTime = []task.State{task.Waiting, task.Submitted}

// sweepDue tells of the rows of a state whose time comes before some time, likewise. It
// reports false, after a rest, if the store could not answer.
func (e *Engine) sweepDue(ctx context.Context, state task.State, shards *task.Shards, before time.Time) bool {
	q := storage.DueQuery{State: state, Shards: shards, Before: before, Limit: overlookPage}
	for more := !q.Shards.IsEmpty(); more; {
		page, err := e.store.Due(ctx, q)
		if e.unanswered(ctx, "due tasks", err) {
			return false
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
	return true
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

// seek looks for what the node was not told of where it is most urgent: at the head of each
// leaf, and at what is due.
func (e *Engine) seek(ctx context.Context, store storage.Shared) {
	e.mu.Lock()
	own, now := e.owned, e.clock.now()
	e.mu.Unlock()
	q := storage.OverlookedQuery{Shards: own.Any(), Limit: overlookPage}
	if q.Shards.IsEmpty() {
		return
	}
	for _, state := range withTime {
		if !e.sweepDue(ctx, state, q.Shards, now) {
			return // it is tried again soon
		}
	}
	for {
		found, err := store.Overlooked(ctx, q)
		if e.unanswered(ctx, "what may have been overlooked", err) {
			return // it is tried again soon
		}
		var unknown []task.Leaf
		e.decide(func(c *core.Core, _ time.Time) {
			for _, h := range found.Heads {
				if c.Owns(h.Type, h.Shard) && !c.Knows(h.Trigger) && !c.Behind(h.Trigger) {
					unknown = append(unknown, h.Leaf)
				}
			}
		})
		for _, leaf := range unknown {
			e.sweepLeaf(ctx, leaf, own.Of(leaf.Type))
		}
		if q.After = found.Next; found.Next == (task.Leaf{}) {
			return
		}
	}
}

// survey looks at all that is ready, in parts: the next one goes on from the place that it
// returns. It finds what is behind a head that is known, or far behind rows of other nodes. It
// takes little time, unless it finds something.
func (e *Engine) survey(ctx context.Context, store storage.Shared, at storage.Place) storage.Place {
	q := storage.SubmittedQuery{Shards: e.ownedAny(), After: at, Scan: surveyScan}
	if q.Shards.IsEmpty() {
		return at
	}
	for begin := time.Now(); ; {
		page, next, err := store.Submitted(ctx, q)
		if e.unanswered(ctx, "what may have been overlooked", err) {
			return q.After // it is tried again soon
		}
		found := 0
		var skip *task.Leaf // the rest of it is left to the store
		for some := range slices.Chunk(page, overlookPage) {
			e.decide(func(c *core.Core, now time.Time) {
				for _, h := range some {
					switch {
					case skip != nil && *skip == h.Leaf || !c.Owns(h.Type, h.Shard):
					case c.Behind(h.Trigger):
						skip = &h.Leaf
					case !c.Knows(h.Trigger) && c.Told(now, h):
						found++
					}
				}
			})
		}
		switch {
		case next == storage.Place{}:
			return next
		case skip != nil && *skip == next.Leaf:
			next = storage.Behind(next.Leaf)
		}
		if q.After = next; found == 0 && time.Since(begin) >= surveyTakes {
			return next
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
