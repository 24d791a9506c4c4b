package engine

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"

	"github.com/taskengine/taskengine/task"
)

// TreeTask is a task of a tree, see [Engine.Tree].
type TreeTask struct {
	Task  *task.Task
	Depth int // how many parents it has in the tree: 0 for the root
}

// Tree returns a task and all that is below it: its children, their children, and so on. A task comes before its children, and these come
// by their sets and numbers. A child that is no more in the store is left out, and so are the children of a task that is done, because
// it has forgotten them. The tree may change meanwhile. After an error there is nothing more. The memory it needs grows with the
// depth of the tree only.
func (e *Engine) Tree(ctx context.Context, id task.ID) iter.Seq2[TreeTask, error] {
	return func(yield func(TreeTask, error) bool) {
		root, err := e.store.Get(ctx, id)
		if err != nil {
			yield(TreeTask{}, fmt.Errorf("engine: tree of %v: %w", id, err))
			return
		}
		e.branch(ctx, root, 0, yield)
	}
}

// branch yields t and what is below it, and reports whether to go on.
func (e *Engine) branch(ctx context.Context, t *task.Task, depth int, yield func(TreeTask, error) bool) bool {
	id, family := t.ID, t.Children
	if !yield(TreeTask{e.shown(t), depth}, nil) {
		return false
	}
	if family == nil {
		return true
	}
	for i := range family.Sets {
		s := &family.Sets[i]
		for index := range s.Added {
			child, err := e.getChild(ctx, id, s, index)
			switch {
			case errors.Is(err, task.ErrNotFound):
				continue
			case err != nil:
				yield(TreeTask{}, fmt.Errorf("engine: child %d %q of %v: %w", index, s.Name, id, err))
				return false
			}
			if !e.branch(ctx, child, depth+1, yield) {
				return false
			}
		}
	}
	return true
}

// childOf returns the id of a child of the task parent.
func (e *Engine) childOf(parent task.ID, s *task.ChildSet, index uint32) task.ID {
	return s.Child(parent, index, e.nearShard(parent, e.catalog.isDivided))
}

func (e *Engine) nearShard(parent task.ID, isDivided bool) int {
	if isDivided {
		return int(parent.Shard())
	}
	return -1
}

// getChild returns a child of the task parent. The store may have been divided, or not, when it was added.
func (e *Engine) getChild(ctx context.Context, parent task.ID, s *task.ChildSet, index uint32) (*task.Task, error) {
	child, err := e.store.Get(ctx, e.childOf(parent, s, index))
	if errors.Is(err, task.ErrNotFound) && int(index) >= len(s.Shards) {
		return e.store.Get(ctx, s.Child(parent, index, e.nearShard(parent, !e.catalog.isDivided)))
	}
	return child, err
}

// TreeCancel says how a tree of tasks is cancelled, see [Engine.CancelTree].
type TreeCancel struct {
	Reason string // kept as the error of each task

	// May is asked before a task is cancelled, and may refuse by an error, which CancelTree returns. Several goroutines call
	// it at once. If it is nil, all tasks may be cancelled.
	May func(*task.Task) error

	// Cancelled is called with each task after it was cancelled, by one goroutine. It may be nil.
	Cancelled func(*task.Task)
}

// CancelledTree says what has become of a tree.
type CancelledTree struct {
	Root      *task.Task // after that; nil after an error before it was cancelled
	Cancelled int        // how many tasks were cancelled

	// Missing is how many children were not in the store although their parents have not learned of their ends. A child on
	// its way to another database is one of them. If there are any, CancelTree should be called again.
	Missing int
}

// treeWidth is how many children of one task are cancelled at once: they share commits.
const treeWidth = 64

// CancelTree cancels a task, and all tasks below it that have not ended, also below those that have ended as failed or cancelled before.
// Those in the state error are cancelled, too. Each task is cancelled before its children are looked for, so it adds no others. After
// an error, and with a task that is cancelled already, it can be called again, and goes on with the rest. The memory it needs grows
// with the depth of the tree only.
//
// A task that is done has forgotten its children: those are not cancelled, and if it is the root, CancelTree returns [ErrNotAllowed].
func (e *Engine) CancelTree(ctx context.Context, id task.ID, how TreeCancel) (CancelledTree, error) {
	root, err := e.store.Get(ctx, id)
	if err != nil {
		return CancelledTree{}, fmt.Errorf("engine: cancel the tree of %v: %w", id, err)
	}
	if root.State == task.Done {
		return CancelledTree{}, fmt.Errorf("%w: cannot cancel the tree of a task that is done: it has forgotten its children", ErrNotAllowed)
	}
	c := &treeCancellation{engine: e, how: how}
	after, isNew, err := c.cancel(ctx, root)
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
	tree   CancelledTree // written by the goroutine of the call
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
	after, err = c.engine.Cancel(ctx, task.Ref{ID: t.ID}, c.how.Reason)
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

// below cancels what is below the task parent.
func (c *treeCancellation) below(ctx context.Context, parent task.ID, family *task.Children) error {
	if family == nil {
		return nil
	}
	for i := range family.Sets {
		s := &family.Sets[i]
		for from := uint32(0); from < s.Added; from += treeWidth {
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

// some cancels the children of s from one index to another. It returns the children that are parents themselves.
func (c *treeCancellation) some(ctx context.Context, parent task.ID, s *task.ChildSet, from, to uint32) (all []grown, err error) {
	var done [treeWidth]struct {
		after *task.Task // nil if it is missing
		isNew bool
		err   error
	}
	var wg sync.WaitGroup
	for index := from; index < to; index++ {
		one := &done[index-from]
		wg.Go(func() {
			child, err := c.engine.getChild(ctx, parent, s, index)
			if err == nil {
				one.after, one.isNew, err = c.cancel(ctx, child)
			}
			if err != nil && !errors.Is(err, task.ErrNotFound) {
				one.err = fmt.Errorf("engine: cancel child %d %q of %v: %w", index, s.Name, parent, err)
			}
		})
	}
	wg.Wait()
	for index := from; index < to; index++ {
		switch one := &done[index-from]; {
		case one.err != nil && err == nil:
			err = one.err
		case one.err != nil:
		case one.after == nil:
			if !s.HasEnded(index) {
				c.tree.Missing++
			}
		default:
			c.count(one.after, one.isNew)
			if one.after.Children != nil {
				all = append(all, grown{one.after.ID, one.after.Children})
			}
		}
	}
	return all, err
}
