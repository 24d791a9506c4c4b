package engine

import (
	"fmt"

	"github.com/taskengine/taskengine/engine/task"
)

// checkRerun returns an error if the task cannot run again as its handler asked for. Otherwise it
// completes the verdict.
func (a *attempt) checkRerun(v *task.Verdict) error {
	if outOfRange(v.Again) { // a store could not find the task again
		return task.Permanent(fmt.Errorf("the handler asked to run again at %v: times must lie between the years 1970 and 9999", v.Again))
	}
	if v.Rerun == nil || v.Again.IsZero() {
		v.Rerun = nil
		return nil
	}
	r := *v.Rerun // the handler may return the same error again
	v.Rerun = &r
	return a.engine.catalog.checkRerun(a.Task, &r)
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
	r.Group = group
	return nil
}

// groupWith returns the group that a task has with another payload, nil if its type has no groups.
func (c *catalog) groupWith(t *task.Task, payload []byte) (*string, error) {
	info := c.infoOf(t.Type)
	if len(info.keys) == 0 {
		return nil, nil
	}
	group, err := groupOf(info.keys, &Request{Type: t.Type, Payload: payload, Key: t.Key, OrderingKey: t.OrderingKey, Headers: t.Headers})
	if err != nil {
		return nil, err
	}
	if info.shardedBy != "" && t.OrderingKey == "" {
		is, was := info.shardValue(group), info.shardValue(t.Group)
		if is != was && info.shardOfValue(is) != t.Shard {
			return nil, fmt.Errorf("the value for limit %s would be %.40q instead of %.40q, and this value decides which node runs the task", info.shardedBy, is, was)
		}
	}
	return &group, nil
}
