package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/taskengine/taskengine/task"
)

// childGroup is in the group of tasks that report ends of children, as the functions of PostgreSQL write it.
const childGroup = "child"

// childEnd is the end of a task, mostly of a child, as a task of relayType carries it.
type childEnd = task.ReportedEnd

// reportOf returns the row of a task of relayType that reports to its parent how a child has ended. It is in the shard of the
// child. Those for one parent have one ordering key, so that one of them delivers what many carry.
func (e *Engine) reportOf(now time.Time, p *task.Parent, child task.ID, to task.State) *task.Task {
	data, err := json.Marshal(childEnd{To: p.ID, Name: p.Name, Index: p.Index, State: to})
	if err != nil {
		panic(err) // a struct of texts and numbers
	}
	home, key := e.signalHome(child, "child\x00"+p.ID.String(), e.shardsAround(child))
	return &task.Task{
		ID: e.catalog.ids.NextIn(now, home), Type: relayType, Shard: home, Priority: e.catalog.infoOf(relayType).priority,
		OrderingKey: key, Group: task.GroupOf(strconv.Itoa(e.databaseOf(p.ID)), childGroup), Headers: map[string]string{endHeader: string(data)}, ReadyAt: now,
	}
}

// databaseOf returns the number of the database that has a task; 0 if the store is one.
func (e *Engine) databaseOf(id task.ID) int {
	if e.abilities.relays == nil {
		return 0
	}
	return e.abilities.relays.databaseOf(id.Shard())
}

// childrenOf returns the rows of children that the attempt of t adds, their requests, and what t gets of them.
func (e *Engine) childrenOf(t *task.Task, sets []task.ChildRequests) (reqs []Request, parents []*task.Parent, adds []task.AddedChildren, err error) {
	if e.abilities.relays == nil {
		return nil, nil, nil, errRelayStore
	}
	count := make(map[string]uint32)
	for _, set := range sets {
		if err := checkChildName(set.Name); err != nil {
			return nil, nil, nil, err
		}
		if len(set.Requests) == 0 {
			continue
		}
		has, shards := count[set.Name], []byte(nil)
		if s := t.Children.Set(set.Name); s != nil {
			has, shards = has+s.Added, s.Shards
		}
		if uint64(has)+uint64(len(set.Requests)) > task.MaxChildren {
			return nil, nil, nil, fmt.Errorf("%w: there would be %d children %q, of %d allowed", ErrTooManyChildren, uint64(has)+uint64(len(set.Requests)), set.Name, task.MaxChildren)
		}
		bound := set.Requests[0].OrderingKey != ""
		if has > 0 && count[set.Name] == 0 && bound != (shards != nil) {
			return nil, nil, nil, errMixedChildren(set.Name)
		}
		add := task.AddedChildren{Name: set.Name, From: has, Count: uint32(len(set.Requests))}
		for i, r := range set.Requests {
			r, p, err := e.numbered(t.ID, set.Name, r, has+uint32(i), bound)
			if err != nil {
				return nil, nil, nil, err
			}
			if bound {
				add.Shards = append(add.Shards, byte(r.ID.Shard()))
			}
			reqs, parents = append(reqs, r), append(parents, p)
		}
		count[set.Name] += add.Count
		adds = append(adds, add)
	}
	names := 0
	if t.Children != nil {
		names = len(t.Children.Sets)
	}
	for name := range count {
		if t.Children.Set(name) == nil {
			names++
		}
	}
	if names > task.MaxChildSets {
		return nil, nil, nil, fmt.Errorf("the children would have %d names, of %d allowed", names, task.MaxChildSets)
	}
	return reqs, parents, adds, nil
}

// numbered returns the request of a child with its id, and the place of the child. isBound says whether the children of the name have ordering keys.
func (e *Engine) numbered(parent task.ID, name string, r Request, index uint32, isBound bool) (Request, *task.Parent, error) {
	switch {
	case len(r.After) > 0:
		return r, nil, fmt.Errorf("child %d of %q has after, which children cannot have: have its parent add it later, or submit a workflow", index, name)
	case !r.ID.IsZero() || r.Key != "":
		return r, nil, fmt.Errorf("child %d of %q has an id or a key of its own: its parent, the name and its number make the id", index, name)
	case isBound != (r.OrderingKey != ""):
		return r, nil, errMixedChildren(name)
	}
	p := &task.Parent{ID: parent, Name: name, Index: index}
	switch r.ID = p.Child(); {
	case isBound:
		r.ID = r.ID.In(task.ShardOf(r.OrderingKey))
	case e.catalog.isDivided:
		r.ID = r.ID.In(parent.Shard())
	}
	return r, p, nil
}

func errMixedChildren(name string) error {
	return fmt.Errorf("some of the children %q have an ordering key, and others have none: give those another name", name)
}

var errKeyOfChild = errors.New("unique.by of its type gives a child a key, so it might not be added: a child has no key")

// checkChildName returns an error if children cannot have a name.
func checkChildName(name string) error {
	if name == "" || len(name) > task.MaxSignalName || !printable(name) || strings.HasPrefix(name, task.ReservedTypes) {
		return fmt.Errorf("%.40q is not a name of children, which is 1 to %d bytes of printable UTF-8 and does not begin with %s", name, task.MaxSignalName, task.ReservedTypes)
	}
	return nil
}

// checkWaits returns an error if a task cannot wait so.
func checkWaits(names []string, waits []task.ChildrenWait) error {
	at := slices.Index(names, task.AwaitsChildren)
	if at < 0 {
		if len(waits) > 0 {
			return errors.New("a wait for children has other names")
		}
		return checkNames(names)
	}
	if len(names) > task.MaxAwaited {
		return fmt.Errorf("%d names of signals are given, of %d allowed with children", len(names)-1, task.MaxAwaited-1)
	}
	if others := slices.Delete(slices.Clone(names), at, at+1); len(others) > 0 {
		if err := checkNames(others); err != nil {
			return err
		}
	}
	switch {
	case len(waits) == 0:
		return errors.New("no name of children is given")
	case len(waits) > task.MaxChildSets:
		return fmt.Errorf("%d names of children are given, of %d allowed", len(waits), task.MaxChildSets)
	}
	seen := make(map[string]bool, len(waits))
	for _, w := range waits {
		if err := checkChildName(w.Name); err != nil {
			return err
		}
		if seen[w.Name] {
			return fmt.Errorf("the children %q are given twice", w.Name)
		}
		seen[w.Name] = true
	}
	return nil
}

// TreeTask is a task of a tree, see [Engine.Tree].
type TreeTask struct {
	Task  *task.Task
	Depth int       // how many parents it has in the tree: 0 for the root
	Place TreePlace // valid until the next task is asked for
}

// TreePlace is the place of a task in a tree: the way to it from the root, with one step for each child. The root has none.
type TreePlace []TreeStep

// TreeStep is a step from a task to one of its children.
type TreeStep struct {
	Set   uint32 // by index into the Sets of the task's Children, to which sets are only appended
	Index uint32 // of the child in the set
}

// Tree returns a task and all that is below it: its children, their children, and so on. A task comes before its children, and these come
// by their sets and numbers. A child that is no more in the store is left out, and so is what is below it. The tree may change meanwhile. After an error there is nothing more. The memory it needs grows with the
// depth of the tree only.
func (e *Engine) Tree(ctx context.Context, id task.ID) iter.Seq2[TreeTask, error] {
	return e.treeFrom(ctx, id, nil, false)
}

// TreeAfter is Tree from behind a task on that it has returned, whether that is still there or not.
func (e *Engine) TreeAfter(ctx context.Context, id task.ID, after TreePlace) iter.Seq2[TreeTask, error] {
	return e.treeFrom(ctx, id, after, true)
}

func (e *Engine) treeFrom(ctx context.Context, id task.ID, after TreePlace, resumes bool) iter.Seq2[TreeTask, error] {
	return func(yield func(TreeTask, error) bool) {
		root, err := e.store.Get(ctx, id)
		if err != nil {
			yield(TreeTask{}, fmt.Errorf("engine: tree of %v: %w", id, err))
			return
		}
		w := &treeWalk{engine: e, ctx: ctx, yield: yield}
		w.branch(root, after, resumes)
	}
}

// treeWalk is a run of [Engine.Tree]. It ends with the call that has its context.
type treeWalk struct {
	engine *Engine
	ctx    context.Context
	yield  func(TreeTask, error) bool
	place  TreePlace // of the task of the branch
}

// branch yields t and what is below it, and reports whether to go on. If resumes is set, t was yielded before, and it goes on behind
// the task that is at after, from t.
func (w *treeWalk) branch(t *task.Task, after TreePlace, resumes bool) bool {
	e, id, family, depth := w.engine, t.ID, t.Children, len(w.place)
	if !resumes && !w.yield(TreeTask{e.shown(t), depth, w.place}, nil) {
		return false
	}
	if family == nil {
		return true
	}
	var from TreeStep
	if len(after) > 0 {
		from = after[0]
	}
	for i := int(from.Set); i < len(family.Sets); i++ {
		s := &family.Sets[i]
		if !s.IsOfChildren() {
			continue
		}
		for index := from.Index; index < s.Added; index++ {
			child, err := e.getChild(w.ctx, id, s, index)
			isOn := len(after) > 0 && after[0] == TreeStep{uint32(i), index}
			switch {
			case errors.Is(err, task.ErrNotFound):
				continue
			case err != nil:
				w.yield(TreeTask{}, fmt.Errorf("engine: child %d %q of %v: %w", index, s.Name, id, err))
				return false
			}
			var rest TreePlace
			if isOn {
				rest = after[1:]
			}
			w.place = append(w.place[:depth], TreeStep{uint32(i), index})
			if !w.branch(child, rest, isOn) {
				return false
			}
		}
		from.Index = 0
	}
	w.place = w.place[:depth]
	return true
}

// childOf returns the id of a child of the task parent.
func (e *Engine) childOf(parent task.ID, s *task.ChildSet, index uint32) task.ID {
	return s.Child(parent, index, e.nearShard(parent, e.catalog.isDivided))
}

// ChildID returns the id of a child of the task parent, among its children s.
func (e *Engine) ChildID(parent task.ID, s *task.ChildSet, index uint32) task.ID {
	return e.childOf(parent, s, index)
}

// Child returns a child of the task parent as [Engine.Get] does.
func (e *Engine) Child(ctx context.Context, parent task.ID, s *task.ChildSet, index uint32) (*task.Task, error) {
	t, err := e.getChild(ctx, parent, s, index)
	if err != nil {
		return nil, err
	}
	return e.decoded(t)
}

// KeepsDone returns for how long the node keeps tasks of a type that are done: 0 is not at all, negative is for ever.
func (e *Engine) KeepsDone(typ string) time.Duration { return e.catalog.policyOf(typ).Retention.Done }

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
