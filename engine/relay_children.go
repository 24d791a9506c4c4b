package engine

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// reportMost is how many ends of children of one task are delivered in one transaction, at most.
const reportMost = 4096

// How long the first of many ends waits for others: the transaction that delivers them rewrites the parent, which has a bit for each child.
const (
	gatherEach  = 10 * time.Microsecond // for each child of the set that has not ended
	gatherLeast = time.Millisecond      // less is no wait
	gatherMost  = 50 * time.Millisecond
	gatherUpTo  = 1000 // ends: with as many there is no wait
)

// endHeader is the header of a task of relayType that has the end of a task. Lists of tasks have headers and no payloads.
const endHeader = task.EndHeader

// report delivers to its parent the end of the child that c carries, and the ends that other carriers behind c have, and ends
// the attempt.
func (c *carrier) report(ctx context.Context) error {
	for {
		ends, read, more := c.behind(ctx)
		if len(ends) < gatherUpTo && c.gathers(ctx) {
			ends, read, more = c.behind(ctx)
		}
		if err := c.deliverEnds(ctx, ends, read, more); err != nil || !more {
			return err
		}
	}
}

// deliverEnds delivers ends, removes the tasks that carried them and, unless there are more, ends the attempt. An end that is delivered twice
// counts once, so a parent in another database learns of the ends first.
func (c *carrier) deliverEnds(ctx context.Context, ends []childEnd, read []task.Ref, more bool) error {
	r := c.relay
	deliver := func(tx storage.Tx) error { return r.engine.reportTx(ctx, tx, c.end.To, ends) }
	remove := func(tx storage.Tx) error {
		if len(read) > 0 {
			if _, err := tx.Delete(ctx, read...); err != nil {
				return err
			}
		}
		if more {
			return nil
		}
		return FinishTx(ctx, tx, nil)
	}
	there, here := r.store.databaseOf(c.end.To.Shard()), r.store.databaseOf(r.attempt.ref.ID.Shard())
	if there == here { // the rows that were read become durable no later
		return r.home(ctx, func(tx storage.Tx) error {
			if err := deliver(tx); err != nil {
				return err
			}
			return remove(tx)
		})
	}
	err := r.home(ctx, func(tx storage.Tx) error { // when it returns, the rows that were read are durable
		_, err := tx.Get(ctx, r.attempt.ref.ID)
		return err
	})
	if err == nil {
		err = r.store.updateIn(ctx, there, deliver)
	}
	if err != nil {
		return err
	}
	return r.home(ctx, remove)
}

// gathers waits for the ends of more children, if many of them have not ended, and reports whether it has.
func (c *carrier) gathers(ctx context.Context) bool {
	parent, err := c.relay.store.Get(ctx, c.end.To)
	if err != nil {
		return false
	}
	set := parent.Children.Set(c.end.Name)
	if set == nil {
		return false
	}
	wait := min(time.Duration(set.Added-set.Ended())*gatherEach, gatherMost)
	if wait < gatherLeast {
		return false
	}
	select {
	case <-ctx.Done():
	case <-time.After(wait):
	}
	return true
}

// behind returns the end that c carries and, if the store can list them, those that others carry which wait behind c, with the
// rows of these. more says that there are others.
func (c *carrier) behind(ctx context.Context) (ends []childEnd, read []task.Ref, more bool) {
	ends = append(ends, *c.end)
	lister, ok := c.relay.store.Store.(storage.KeyInspector)
	if !ok {
		return ends, nil, false
	}
	page, err := lister.ListKey(ctx, c.relay.attempt.Task.OrderingKey, nil, reportMost)
	if err != nil {
		return ends, nil, false // another database may not answer; then c delivers its own
	}
	for _, t := range page.Behind {
		var end childEnd
		if t.Type != relayType || t.State != task.Submitted || json.Unmarshal([]byte(t.Headers[endHeader]), &end) != nil || end.To != c.end.To {
			continue // its own attempt decides about it
		}
		ends, read = append(ends, end), append(read, t.Ref())
	}
	return ends, read, page.More && len(read) > 0
}

// reportTx reports ends of children to their parent within a transaction. If the parent does not exist any more, or has no such
// children, nothing is done.
func (e *Engine) reportTx(ctx context.Context, tx storage.Tx, to task.ID, ends []childEnd) error {
	t, err := tx.Get(ctx, to)
	if errors.Is(err, task.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	sets := make(map[string]*task.ChildEnds)
	for _, end := range ends {
		index := end.Index
		if end.Name == task.AfterSet {
			at := t.Children.Set(task.AfterSet).IndexOf(end.Of)
			if at < 0 {
				continue // another task had the id
			}
			index = uint32(at)
		}
		s := sets[end.Name]
		if s == nil {
			s = &task.ChildEnds{Name: end.Name}
			sets[end.Name] = s
		}
		s.Ends = append(s.Ends, task.ChildEnd{Index: index, State: end.State})
	}
	var changes []task.Change
	for _, name := range slices.Sorted(maps.Keys(sets)) {
		c := task.Change{Ref: task.Ref{ID: to}, At: e.Now(), OrderingKey: t.OrderingKey, Ends: sets[name]}
		if name == task.AfterSet {
			e.expectCancel(t, ends, &c)
		}
		changes = append(changes, c)
	}
	if len(changes) == 0 {
		return nil
	}
	rows, err := tx.Swap(ctx, changes...)
	if err != nil {
		return err
	}
	for _, after := range rows {
		switch {
		case after == nil || after.Version == t.Version:
		case after.State == task.Cancelled:
			return e.cancelledTx(ctx, tx, t, after)
		default:
			e.wokenTx(tx, t, after)
			return nil
		}
	}
	return nil
}
