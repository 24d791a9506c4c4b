package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/taskengine/taskengine/task"
)

// maxChecked is about how many types [attempt.Check] asks at most whether a node runs them.
const maxChecked = 10

var _ task.Checker = (*attempt)(nil)

// Check implements [task.Checker].
func (a *attempt) Check(name string, requests []Request) ([]task.Refusal, error) {
	e := a.engine
	reqs, err := e.decorated(a, slices.Clone(requests))
	if err != nil {
		return nil, err
	}
	c := &endCheck{engine: e, of: a.Task, name: name, all: make([]task.Refusal, len(reqs)), rows: make([]*task.Task, len(reqs))}
	if err := c.fill(reqs); err != nil {
		return nil, fmt.Errorf("engine: check what the attempt of %v is to add: %w", a.ID, err)
	}
	if err := c.lookForTasks(a, reqs); err != nil {
		return nil, fmt.Errorf("engine: check what the tasks run after that the attempt of %v is to add: %w", a.ID, err)
	}
	if err := c.lookForKeys(a, reqs); err != nil {
		return nil, fmt.Errorf("engine: check whether keys are taken: %w", err)
	}
	c.lookForRoom()
	c.lookForTypes(a)
	return c.refusals(), nil
}

// endCheck decides which of the requests of an attempt would be refused. It belongs to the goroutine of the call.
type endCheck struct {
	engine *Engine
	of     *task.Task
	name   string         // of the set of children; "" if they are tasks that are added
	all    []task.Refusal // by the index of the request; the zero value if it is not refused
	rows   []*task.Task   // likewise; nil if it is refused
}

// refuse refuses a request, unless that was done before.
func (c *endCheck) refuse(i int, why task.RefusalReason, text string) {
	if c.all[i].Reason == 0 {
		c.all[i] = task.Refusal{Index: i, Reason: why, Text: text}
		c.rows[i] = nil
	}
}

// refusals returns the refusals in the order of the requests.
func (c *endCheck) refusals() (refused []task.Refusal) {
	for _, r := range c.all {
		if r.Reason != 0 {
			refused = append(refused, r)
		}
	}
	return refused
}

// fill makes the rows of the requests.
func (c *endCheck) fill(reqs []Request) error {
	has, isBound := uint64(0), len(reqs) > 0 && reqs[0].OrderingKey != ""
	if c.name != "" {
		switch err := checkChildName(c.name); {
		case err != nil:
			return fmt.Errorf("%w: %w", ErrInvalid, err)
		case c.engine.abilities.relays == nil:
			return errRelayStore
		}
		if s := c.of.Children.Set(c.name); s != nil && s.Added > 0 {
			has, isBound = uint64(s.Added), s.Shards != nil
		} else if s == nil && c.of.Children != nil && len(c.of.Children.Sets) >= task.MaxChildSets {
			has = task.MaxChildren // a name too many
		}
	}
	for i := range reqs {
		if c.name != "" && has+uint64(i) >= task.MaxChildren {
			c.refuse(i, task.RefusedTooMany, fmt.Sprintf("a task has up to %d children of one name, and %d names", task.MaxChildren, task.MaxChildSets))
			continue
		}
		row, err := c.row(&reqs[i], uint32(has)+uint32(i), isBound)
		var large tooLarge
		switch {
		case errors.As(err, &large):
			c.refuse(i, task.RefusedTooLarge, err.Error())
		case err != nil:
			c.refuse(i, task.RefusedInvalid, err.Error())
		default:
			c.rows[i] = row
		}
	}
	return nil
}

// row returns the row of a request, which gets the id that it would have. index is that of a child.
func (c *endCheck) row(r *Request, index uint32, isBound bool) (row *task.Task, err error) {
	if err := checkReserved(r); err != nil {
		return nil, err
	}
	row = new(task.Task)
	if c.name != "" {
		if *r, row.Parent, err = c.engine.numbered(c.of.ID, c.name, *r, index, isBound); err != nil {
			return nil, err
		}
	}
	shards, of, alone := c.engine.shardsAround(c.of.ID), c.engine.catalog, *r
	if len(r.After) > 0 {
		if err := r.CheckAfter(); err != nil {
			return nil, err
		}
		alone.After, alone.AfterAny, alone.MayFollow = nil, false, nil
	}
	if err := of.fill(row, &alone, shards); err != nil {
		return nil, err
	}
	if c.name != "" && row.Key != "" {
		return nil, errKeyOfChild
	}
	of.settle(row, shards)
	return row, nil
}

// lookForTasks refuses the requests of tasks that are to run after one that is not in the store.
func (c *endCheck) lookForTasks(ctx context.Context, reqs []Request) error {
	for i, row := range c.rows {
		if row == nil {
			continue
		}
		for _, id := range reqs[i].After {
			_, refused, err := c.engine.lookForTask(ctx, row, id, reqs[i].MayFollow)
			if err != nil {
				return err
			}
			if refused != nil {
				c.refuse(i, task.RefusedInvalid, refused.Error())
				break
			}
		}
	}
	return nil
}

// lookForKeys refuses the requests of which the id or the key is taken, by a task or by an earlier request. Children have neither.
func (c *endCheck) lookForKeys(ctx context.Context, reqs []Request) error {
	if c.name != "" {
		return nil
	}
	type unique struct{ typ, order, key string }
	ids, keys := make(map[task.ID]bool), make(map[unique]bool)
	var rows []*task.Task
	var at []int
	for i, row := range c.rows {
		if row == nil || row.Key == "" && reqs[i].ID.IsZero() {
			continue
		}
		key := unique{row.Type, row.OrderingKey, row.Key}
		if ids[row.ID] || row.Key != "" && keys[key] {
			c.refuse(i, task.RefusedKey, "an earlier request has the id or the key")
			continue
		}
		ids[row.ID], keys[key] = true, true
		rows, at = append(rows, row), append(at, i)
	}
	if len(rows) == 0 {
		return nil
	}
	existing, err := c.engine.store.Existing(ctx, rows...)
	if err != nil {
		return err
	}
	for k, id := range existing {
		if id.IsZero() {
			continue
		}
		if err := c.lookAtHolder(ctx, at[k], id); err != nil {
			return err
		}
	}
	return nil
}

// lookAtHolder refuses a request of which a task has the id or the key, unless the task gives it up.
func (c *endCheck) lookAtHolder(ctx context.Context, i int, id task.ID) error {
	holder, err := c.engine.store.Get(ctx, id)
	switch {
	case errors.Is(err, task.ErrNotFound):
		return nil // it was removed meanwhile
	case err != nil:
		return err
	case holder.ID != c.rows[i].ID && holder.Key != c.rows[i].Key:
		return nil // likewise its key
	}
	// The end of an attempt adds tasks on no terms.
	if what, _ := task.Resolve(c.engine.Now(), holder, c.rows[i], new(task.Rules)); what != task.Adds {
		c.refuse(i, task.RefusedKey, fmt.Sprintf("task %v, which is %v, has the id or the key", id, holder.State))
		c.all[i].ID = id
	}
	return nil
}

// lookForRoom refuses the requests of types of which the backlog has no room for all of them.
func (c *endCheck) lookForRoom() {
	e := c.engine
	if len(e.backlogs.capped) == 0 {
		return
	}
	for {
		var left []*task.Task
		for _, row := range c.rows {
			if row != nil {
				left = append(left, row)
			}
		}
		full := e.lacksRoomFor(c.of.ID, left)
		if full == nil {
			return
		}
		text := refusal(full)
		for i, row := range c.rows {
			if row != nil && row.Type == full.Type {
				c.refuse(i, task.RefusedFull, text)
			}
		}
	}
}

// lookForTypes refuses the requests of types that no node is known to run.
func (c *endCheck) lookForTypes(ctx context.Context) {
	isKnown := make(map[string]bool)
	unknown := 0
	for i, row := range c.rows {
		if row == nil {
			continue
		}
		known, asked := isKnown[row.Type]
		if !asked && unknown < maxChecked {
			if known = c.engine.KnowsType(ctx, row.Type); !known {
				unknown++
			}
			isKnown[row.Type] = known
		} else if !asked {
			known = true
		}
		if !known {
			c.refuse(i, task.RefusedUnknown, fmt.Sprintf("no live node has a handler for type %s, which is not configured on this node: the task waits until a node has one", row.Type))
		}
	}
}
