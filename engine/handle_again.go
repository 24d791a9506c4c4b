package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/taskengine/taskengine/engine/internal/shell"
	"github.com/taskengine/taskengine/filter"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/task"
)

// Classes of the error of an attempt that asked to add tasks, children or signals that are refused, for the rules of the retry policy.
const (
	classRefused = "refused" // they are invalid, and would be the next time
	classBacklog = "backlog" // a backlog has no room
)

// checkRerun returns an error if the task cannot run again as its handler asked for. Otherwise it
// completes the verdict.
func (a *attempt) checkRerun(v *task.Verdict) error { return a.engine.checkRerun(a, a.Task, v, true) }

// checkRerun is that of an attempt of t. If keeps is set, and the sources of a type pause that has no room for the tasks that
// are to be added, a place among those that wait for room is kept for t.
func (e *Engine) checkRerun(ctx context.Context, t *task.Task, v *task.Verdict, keeps bool) error {
	if err := e.checkAgain(t, v); err != nil || v.Rerun == nil {
		return err
	}
	if err := e.checkDocuments(t, v.Rerun); err != nil {
		return err
	}
	if len(v.Rerun.Tasks)+len(v.Rerun.Signals)+len(v.Rerun.Children) == 0 {
		return nil
	}
	rows, err := e.allFollowing(ctx, t, v.Rerun, keeps)
	if err != nil {
		err = fmt.Errorf("the handler asked to add tasks or to send signals with the end of this attempt, which has failed therefore: %w", err)
		switch {
		case errors.Is(err, ErrBacklog):
			err = task.WithClass(classBacklog, err)
		case errors.Is(err, ErrInvalid):
			err = task.WithClass(classRefused, err)
		}
		if e.catalog.policyOf(t.Type).Delivery == policy.AtMostOnce { // the work was done
			err = task.InDoubt(err)
		}
		return err
	}
	v.Rerun.Rows = rows
	return nil
}

// allFollowing returns the rows that are added with the end of an attempt of t, as r asks for, and completes r.
func (e *Engine) allFollowing(ctx context.Context, t *task.Task, r *task.Rerun, keeps bool) (rows []*task.Task, err error) {
	id, reqs := t.ID, r.Tasks
	var parents []*task.Parent
	if len(r.Children) > 0 {
		var children []Request
		if children, parents, r.Adds, err = e.childrenOf(t, r.Children); err != nil {
			return nil, task.Permanent(task.WithClass(classRefused, err))
		}
		reqs, parents = slices.Concat(reqs, children), slices.Concat(make([]*task.Parent, len(reqs)), parents)
	}
	if len(reqs) > 0 {
		if rows, err = e.following(ctx, id, reqs, parents, keeps); err != nil {
			return nil, err
		}
	}
	if len(r.Signals) == 0 {
		return rows, nil
	}
	_, carriers, err := e.carriersOf(id, r.Signals, e.shardsAround(id))
	return append(rows, carriers...), err
}

// shardsAround returns the shards of which it is certain that they are always where the task id is; nil for all.
func (e *Engine) shardsAround(id task.ID) *task.Shards {
	if !e.catalog.isDivided {
		return nil
	}
	shards := new(task.Shards)
	shards.Add(id.Shard())
	return shards
}

// checkAgain returns an error if t cannot run again as its handler asked for, but for the tasks that are to
// be added. Otherwise it completes the verdict.
func (e *Engine) checkAgain(t *task.Task, v *task.Verdict) error {
	if outOfRange(v.Again) { // a store could not find the task again
		return task.Permanent(fmt.Errorf("the handler asked to run again at %v: times must lie between the years 1970 and 9999", v.Again))
	}
	if err := checkWaits(v.Await, v.Children); err != nil {
		return task.Permanent(fmt.Errorf("the handler asked to wait for a signal or for children, which cannot be: %w; the task does not go on", err))
	}
	if v.Rerun == nil {
		return nil
	}
	r := *v.Rerun // the handler may return the same error again
	v.Rerun = &r
	if !v.RunsAgain() {
		r.Payload, r.Checkpoint = nil, nil
		return nil
	}
	if err := e.catalog.checkRerun(t, &r); err != nil {
		return err
	}
	return e.contents.encodeRerun(t.Type, &r)
}

// following returns the rows of tasks that are added with the end of an attempt of the task id. parents has for each the parent
// that it is a child of, or nil; nil is that none is a child. keeps is as for checkRerun.
func (e *Engine) following(ctx context.Context, id task.ID, reqs []Request, parents []*task.Parent, keeps bool) ([]*task.Task, error) {
	shards := e.shardsAround(id)
	reqs, err := e.decorated(ctx, reqs)
	if err != nil {
		return nil, err
	}
	rows, families, err := e.followerRows(ctx, reqs, shards)
	if err != nil {
		return nil, err
	}
	watches, err := e.nearWatches(rows, families, shards)
	if err != nil {
		return nil, err
	}
	for i, p := range parents {
		if p != nil && rows[i].Key != "" {
			return nil, task.Permanent(task.WithClass(classRefused, fmt.Errorf("child %d of %q: %w", p.Index, p.Name, errKeyOfChild)))
		}
		rows[i].Parent = p
	}
	full := e.roomFor(id, rows, false)
	leaving, err := e.leave(id, reqs, rows, shards, true, goneOf(families))
	if err != nil {
		return nil, err
	}
	out, far := rows, []*task.Task(nil)
	if leaving != nil {
		out, far = leaving.rows, leaving.far
		reqs, rows = leaving.reqs[:len(leaving.nearAt)], leaving.rows[:len(leaving.nearAt)]
	}
	out = append(out, watches...)
	if full == nil {
		return out, nil
	}
	existing, err := e.existing(ctx, reqs, rows)
	if err != nil {
		return nil, fmt.Errorf("look for tasks that exist: %w", err)
	}
	fresh := far // another database may not answer now
	for i, other := range existing {
		if other.IsZero() {
			fresh = append(fresh, rows[i])
		}
	}
	if len(fresh) < len(rows)+len(far) || full.CanWait {
		full = e.roomFor(id, fresh, keeps)
	}
	if full != nil {
		return nil, e.refuse(full)
	}
	return out, nil
}

// roomFor returns why the backlogs have no room for rows, or nil. It claims no places, so attempts that end
// at the same moment may together exceed a maximum. If take is set, a place among those that wait for room
// is kept for the task id, where sources pause.
func (e *Engine) roomFor(id task.ID, rows []*task.Task, take bool) (full *shell.Full) {
	if len(e.backlogs.capped) > 0 {
		e.tell(func(s *state, now time.Time) { full = s.RoomFor(now, id, rows, take) })
	}
	return full
}

// lacksRoomFor is roomFor without any effect.
func (e *Engine) lacksRoomFor(id task.ID, rows []*task.Task) (full *shell.Full) {
	e.tell(func(s *state, _ time.Time) { full = s.LacksRoomFor(id, rows) })
	return full
}

// checkRerun returns an error if a task of this row cannot have what r says. Otherwise it sets the
// Group of r.
func (c *catalog) checkRerun(t *task.Task, r *task.Rerun) error {
	if err := r.TooLarge(t.Type, c.infoOf(t.Type).maxPayload); err != nil {
		return err
	}
	if r.Payload == nil {
		return nil
	}
	group, err := c.groupWith(t, *r.Payload)
	if err != nil {
		return task.Permanent(fmt.Errorf("the handler asked to run again with another payload, which cannot be: %w; the task does not run again", err))
	}
	r.Group, r.Search = group, c.searchWith(t, *r.Payload)
	return nil
}

// searchWith returns the search values that a task has with another payload, nil if its type has no search attributes.
func (c *catalog) searchWith(t *task.Task, payload []byte) *[]task.SearchValue {
	switch {
	case c.isCut():
		return &[]task.SearchValue{task.Unread}
	case len(c.search[t.Type]) == 0:
		return nil
	}
	return new(filter.SearchValues(t.Type, c.search[t.Type], t.Headers, payload))
}

// groupWith returns the group that a task has with another payload, nil if its type has no groups. The
// task stays in its shard, also if the tasks of its new value are in another: only permits move then.
func (c *catalog) groupWith(t *task.Task, payload []byte) (*string, error) {
	info := c.infoOf(t.Type)
	if len(info.keys) == 0 {
		return nil, nil
	}
	group, err := groupOf(info.keys, &Request{Type: t.Type, Payload: payload, Key: t.Key, OrderingKey: t.OrderingKey, Headers: t.Headers})
	if err != nil {
		return nil, err
	}
	return &group, nil
}
