package cluster

import (
	"context"
	"time"

	"github.com/taskengine/taskengine/engine/internal/core"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// gain is a change of the ownership of this node.
type gain struct{ before, now core.Ownership }

// of returns the shards of a name of core.Ownership that were gained; nil is all.
func (g *gain) of(name string) *task.Shards {
	now, before := g.now.Of(name), g.before.Of(name)
	switch {
	case before == nil: // all were owned before
		return new(task.Shards)
	case now == nil:
		return nil
	}
	rest := now.Without(before)
	return &rest
}

// ofAny returns the shards that were gained of any type; nil is all.
func (g *gain) ofAny() *task.Shards {
	some := g.of("")
	for _, types := range []map[string]*task.Shards{g.now.Types, g.before.Types} {
		for typ := range types {
			more := g.of(typ)
			if some == nil || more == nil {
				return nil
			}
			both := some.With(more)
			some = &both
		}
	}
	return some
}

// ReadOwned passes all rows that this node has to start from the store to the core, as far as the core
// keeps them in memory, and wakes the healer. It returns early when ctx ends.
func (k *Cluster) ReadOwned(ctx context.Context) {
	k.reheal.Set()
	k.readGained(ctx, &gain{before: none(), now: k.Owned()})
}

// readGained passes all gained rows from the store to the core, as far as the core keeps them in
// memory.
func (k *Cluster) readGained(ctx context.Context, g *gain) {
	for _, state := range timedStates {
		for !k.readDue(ctx, state, g.ofAny(), storage.DistantFuture) {
			if ctx.Err() != nil {
				return
			}
		}
	}
	var after task.Queue
	for {
		var queues []task.Queue
		isRead := k.engine.Read(ctx, "the types of ready tasks", func(ctx context.Context, from storage.Tasks) (err error) {
			queues, err = from.Queues(ctx, after, pollPage)
			return err
		})
		if !isRead {
			if ctx.Err() != nil {
				return
			}
			continue
		}
		typ, isOpen := "", false
		for _, queue := range queues {
			if typ != queue.Type {
				typ, isOpen = queue.Type, k.isOpen(queue.Type)
			}
			if isOpen && !k.engine.Placement(queue).Elsewhere { // the rows of a closed type are read when it is opened
				k.readQueue(ctx, queue, g.of(k.ownedAs(queue)))
			}
			after = queue
		}
		if len(queues) < pollPage {
			return
		}
	}
}

// isOpen reports whether tasks of a type may be started here.
func (k *Cluster) isOpen(typ string) (open bool) {
	k.engine.Decide(func(c *core.Core, _ time.Time) { open = c.IsOpen(typ) })
	return open
}

// readQueue passes the ready rows of a queue to the core, in some shards. If the core leaves one to
// the store, readQueue skips the rows that are then left to the store, too. readDue passes the times
// when they have waited too long.
func (k *Cluster) readQueue(ctx context.Context, queue task.Queue, shards *task.Shards) {
	q := storage.ReadyQuery{Queue: queue, Shards: shards, Limit: pollPage}
	for more := !shards.IsEmpty(); more; {
		var page []task.Trigger
		isRead := k.engine.Read(ctx, "ready tasks", func(ctx context.Context, from storage.Tasks) (err error) {
			page, err = from.Ready(ctx, q)
			return err
		})
		if !isRead {
			more = ctx.Err() == nil
			continue
		}
		if more = len(page) == pollPage; more {
			q.After = &page[len(page)-1].Rank
		}
		k.engine.Decide(func(c *core.Core, now time.Time) {
			var skipTo task.Rank
			for _, tr := range page {
				if tr.Rank.Compare(skipTo) < 0 || c.Observe(now, task.Hint{Trigger: tr, State: task.Submitted}) {
					continue
				}
				skipTo = c.SkipTo(tr)
			}
			if more && q.After.Compare(skipTo) < 0 {
				q.After = &skipTo
				more = skipTo.Priority <= task.LowestPriority
			}
		})
	}
}

// timedStates are the states of rows that wait for a time: to become ready, or to have waited too
// long.
var timedStates = []task.State{task.Waiting, task.Submitted}

// readDue passes the rows of a state to the core, in some shards, with a time before before, until the
// core leaves one to the store. It returns false, after a rest, if the store could not be read.
func (k *Cluster) readDue(ctx context.Context, state task.State, shards *task.Shards, before time.Time) bool {
	q := storage.DueQuery{State: state, Shards: shards, Before: before, Limit: pollPage}
	for more := !shards.IsEmpty(); more; {
		var page []storage.Due
		isRead := k.engine.Read(ctx, "due tasks", func(ctx context.Context, from storage.Tasks) (err error) {
			page, err = from.Due(ctx, q)
			return err
		})
		if !isRead {
			return false
		}
		more = len(page) == pollPage
		k.engine.Decide(func(c *core.Core, _ time.Time) {
			for _, d := range page {
				more = c.ObserveDue(task.Hint{Trigger: d.Trigger, State: state, NextEventAt: d.At}) && more
			}
		})
		if more {
			q.After = page[len(page)-1]
		}
	}
	return true
}
