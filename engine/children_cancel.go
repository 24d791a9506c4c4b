package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// TreeCancel says how a tree of tasks is cancelled, see [Engine.CancelTree].
type TreeCancel struct {
	Reason string // kept as the error of each task

	// May is asked before a task is cancelled, which it gets without payload and result unless that is the root, and may refuse by an
	// error, which CancelTree returns. Several goroutines call it at once. If it is nil, all tasks may be cancelled.
	May func(*task.Task) error

	// Cancelled is called with each task after it was cancelled, by one goroutine. It may be nil.
	Cancelled func(*task.Task)
}

// CancelledTree is the outcome of [Engine.CancelTree].
type CancelledTree struct {
	Root      *task.Task // after that; nil after an error before it was cancelled
	Cancelled int        // how many tasks were cancelled

	// Missing is how many children were not in the store although their parents have not learned of their ends. A child on
	// its way to another database is one of them. If there are any, CancelTree should be called again.
	Missing int
}

// Bounds of the children of one task that are cancelled at once.
const (
	treeWidth = 1000            // they share commits
	treeList  = 16              // as few are not listed, but read one by one
	treeReads = 16              // are read one by one at the same time, with their payloads
	treeGrace = time.Second / 2 // how long they may take after the end of the context
)

// CancelTree cancels a task, and all tasks below it that have not ended, also below tasks that had ended before.
// Those in the state error are cancelled, too. Each task is cancelled before its children are looked for, so it adds no others. After
// an error, and with a task that is cancelled already, it can be called again, and goes on with the rest. It begins nothing
// that would not be completed before the deadline of ctx, as far as it knows, and completes within half a second after the end of ctx what it has
// begun: so several calls count each task once, unless the store does not answer. The memory it needs grows with the depth of the tree only.
//
// If the root is done and has no children, CancelTree returns [ErrNotAllowed]. A [task.Task.Tombstone] has none left.
func (e *Engine) CancelTree(ctx context.Context, id task.ID, how TreeCancel) (CancelledTree, error) {
	root, err := e.store.Get(ctx, id)
	if err != nil {
		return CancelledTree{}, fmt.Errorf("engine: cancel the tree of %v: %w", id, err)
	}
	if root.State == task.Done && !root.Children.HaveAny() {
		return CancelledTree{}, fmt.Errorf("%w: cannot cancel the tree of a task that is done and has no children", ErrNotAllowed)
	}
	c := &treeCancellation{engine: e, how: how}
	settled, stop := settling(ctx)
	after, isNew, err := c.cancel(settled, root)
	stop()
	if err != nil {
		return CancelledTree{}, err
	}
	c.tree.Root = after
	c.count(after, isNew)
	return c.tree, c.below(ctx, id, after.Children)
}

// treeCancellation is a run of [Engine.CancelTree].
type treeCancellation struct {
	engine *Engine
	how    TreeCancel

	// The goroutine of the call owns the fields below.

	tree    CancelledTree
	longest time.Duration // that some has taken
}

// cancel cancels one task, unless it has ended. It returns the task after that, and whether it was cancelled by this call.
func (c *treeCancellation) cancel(ctx context.Context, t *task.Task) (after *task.Task, isNew bool, err error) {
	if !t.State.CanBecome(task.Cancelled) {
		return c.engine.shown(t), false, nil
	}
	if c.how.May != nil {
		if err := c.how.May(t); err != nil {
			return nil, false, err
		}
	}
	after, err = c.engine.cancel(ctx, task.Ref{ID: t.ID}, t, c.how.Reason)
	if errors.Is(err, ErrNotAllowed) && after != nil {
		return after, false, nil // it has ended meanwhile
	}
	return after, err == nil, err
}

func (c *treeCancellation) count(after *task.Task, isNew bool) {
	if !isNew {
		return
	}
	c.tree.Cancelled++
	if c.how.Cancelled != nil {
		c.how.Cancelled(after)
	}
}

// below cancels the tasks below parent.
func (c *treeCancellation) below(ctx context.Context, parent task.ID, family *task.Children) error {
	if family == nil {
		return nil
	}
	for i := range family.Sets {
		s := &family.Sets[i]
		if !s.IsOfChildren() {
			continue
		}
		for from := uint32(0); from < s.Added; from += treeWidth {
			if err := c.mayGoOn(ctx); err != nil {
				return fmt.Errorf("engine: cancel the tree of %v: %w", parent, err)
			}
			grown, err := c.some(ctx, parent, s, from, min(from+treeWidth, s.Added))
			if err != nil {
				return err
			}
			for _, b := range grown {
				if err := c.below(ctx, b.id, b.children); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// grown is a task that has children.
type grown struct {
	id       task.ID
	children *task.Children
}

// mayGoOn returns why no more children may be cancelled, or nil.
func (c *treeCancellation) mayGoOn(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if end, ok := ctx.Deadline(); ok && time.Until(end) < 2*c.longest {
		return context.DeadlineExceeded
	}
	return nil
}

// settling returns a context in which what was begun before the end of ctx is completed.
func settling(ctx context.Context) (context.Context, context.CancelFunc) {
	settled, stop := context.WithCancel(context.WithoutCancel(ctx))
	unhook := context.AfterFunc(ctx, func() {
		late := time.AfterFunc(treeGrace, stop)
		context.AfterFunc(settled, func() { late.Stop() })
	})
	return settled, func() { unhook(); stop() }
}

// cutting is a child that is being cancelled.
type cutting struct {
	after *task.Task // nil if it is missing
	isNew bool
	err   error
}

// some cancels the children of s from one index to another. It returns the children that are parents themselves.
func (c *treeCancellation) some(ctx context.Context, parent task.ID, s *task.ChildSet, from, to uint32) (all []grown, err error) {
	defer func(begun time.Time) { c.longest = max(c.longest, time.Since(begun)) }(time.Now())
	settled, stop := settling(ctx)
	defer stop()
	listed := c.list(settled, parent, s, from, to)
	done := make([]cutting, to-from)
	reads := make(chan struct{}, treeReads)
	var wg sync.WaitGroup
	for i := range done {
		read := listed[c.engine.childOf(parent, s, from+uint32(i))]
		wg.Go(func() { c.one(settled, parent, s, from+uint32(i), read, reads, &done[i]) })
	}
	wg.Wait()
	for i := range done {
		switch one := &done[i]; {
		case one.err != nil && err == nil:
			err = one.err
		case one.err != nil:
		case one.after == nil:
			if !s.HasEnded(from + uint32(i)) {
				c.tree.Missing++
			}
		default:
			c.count(one.after, one.isNew)
			if one.after.Children.HaveAny() {
				all = append(all, grown{one.after.ID, one.after.Children})
			}
		}
	}
	return all, err
}

// list returns the children of s from one index to another that have not ended, as a list of the store has them: in one round trip, without
// their Children. Some may be left out.
func (c *treeCancellation) list(ctx context.Context, parent task.ID, s *task.ChildSet, from, to uint32) map[task.ID]*task.Task {
	in, ok := c.engine.store.(storage.Inspector)
	if !ok || to-from < treeList {
		return nil
	}
	first, before := c.engine.childOf(parent, s, from), c.engine.childOf(parent, s, to-1)
	first[len(first)-1], before[len(before)-1] = 0, 0xff // the last byte has the shard, and those before it the index
	all := make(map[task.ID]*task.Task, to-from)
	for next := before; bytes.Compare(next[:], first[:]) > 0; {
		page, err := in.List(ctx, storage.ListQuery{Before: next, Limit: int(to - from), Scan: int(to - from)})
		if err != nil {
			return all // the others are read one by one
		}
		for _, t := range page.Tasks {
			if t.State.CanBecome(task.Cancelled) {
				all[t.ID] = t
			}
		}
		if next = page.Next; next.IsZero() || len(page.Tasks) == 0 {
			break
		}
	}
	return all
}

// one cancels a child, which was read already if read is not nil. It has a place in reads while it reads the child.
func (c *treeCancellation) one(ctx context.Context, parent task.ID, s *task.ChildSet, index uint32, read *task.Task, reads chan struct{}, out *cutting) {
	child, err := read, error(nil)
	if child == nil {
		reads <- struct{}{}
		child, err = c.engine.getChild(ctx, parent, s, index)
		<-reads
	}
	if err == nil {
		child.Payload, child.Result = nil, nil // many of them are in memory at once
		out.after, out.isNew, err = c.cancel(ctx, child)
	}
	if err != nil && !errors.Is(err, task.ErrNotFound) {
		out.err = fmt.Errorf("engine: cancel child %d %q of %v: %w", index, s.Name, parent, err)
	}
}
