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

// reportMost is how many ends of children of one task are delivered in one transaction.
const reportMost = 500

// report delivers to its parent the end of the child that c carries, and those that others carry which wait behind c, and ends
// the attempt. What is delivered twice counts once, so a parent in another database learns of the ends first.
func (c *carrier) report(ctx context.Context) error {
	r, to := c.relay, c.relay.row.requests[0].End.To
	others := c.behind(ctx)
	isNear := r.store.databaseOf(to.Shard()) == r.store.databaseOf(r.attempt.ref.ID.Shard())
	if isNear {
		return r.home(ctx, func(tx storage.Tx) error {
			ends, read, err := c.ends(ctx, tx, others)
			if err != nil {
				return err
			}
			if err := r.engine.reportTx(ctx, tx, to, ends); err != nil {
				return err
			}
			return c.delivered(ctx, tx, read)
		})
	}
	var ends []childEnd
	var read []task.Ref
	err := r.home(ctx, func(tx storage.Tx) (err error) { // what it reads is durable
		ends, read, err = c.ends(ctx, tx, others)
		return err
	})
	if err != nil {
		return err
	}
	err = r.store.updateIn(ctx, r.store.databaseOf(to.Shard()), func(tx storage.Tx) error { return r.engine.reportTx(ctx, tx, to, ends) })
	if err != nil {
		return err
	}
	return r.home(ctx, func(tx storage.Tx) error { return c.delivered(ctx, tx, read) })
}

// behind returns the tasks that wait behind c, if the store can list them.
func (c *carrier) behind(ctx context.Context) (ids []task.ID) {
	lister, ok := c.relay.store.Store.(storage.KeyInspector)
	if !ok {
		return nil
	}
	page, err := lister.ListKey(ctx, c.relay.attempt.Task.OrderingKey, nil, reportMost)
	if err != nil {
		return nil // another database may not answer; then c delivers its own
	}
	for _, t := range page.Behind {
		ids = append(ids, t.ID)
	}
	return ids
}

// ends returns the ends of children that c and others carry, as a transaction sees them, and the rows of those others.
func (c *carrier) ends(ctx context.Context, tx storage.Tx, others []task.ID) (ends []childEnd, read []task.Ref, err error) {
	first := c.relay.row.requests[0].End
	ends = append(ends, *first)
	for _, id := range others {
		t, err := tx.Get(ctx, id)
		if errors.Is(err, task.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		var carried []farRequest
		if t.Type != relayType || t.State != task.Submitted || json.Unmarshal(t.Payload, &carried) != nil || len(carried) != 1 ||
			carried[0].End == nil || carried[0].End.To != first.To {
			continue // its own attempt says what it is
		}
		ends, read = append(ends, *carried[0].End), append(read, t.Ref())
	}
	return ends, read, nil
}

// delivered removes tasks that c was faster than, and ends the attempt of c.
func (c *carrier) delivered(ctx context.Context, tx storage.Tx, read []task.Ref) error {
	if len(read) > 0 {
		if _, err := tx.Delete(ctx, read...); err != nil {
			return err
		}
	}
	return FinishTx(ctx, tx, nil)
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
		s := sets[end.Name]
		if s == nil {
			s = &task.ChildEnds{Name: end.Name}
			sets[end.Name] = s
		}
		s.Ends = append(s.Ends, task.ChildEnd{Index: end.Index, State: end.State})
	}
	var changes []task.Change
	for _, name := range slices.Sorted(maps.Keys(sets)) {
		changes = append(changes, task.Change{Ref: task.Ref{ID: to}, At: e.Now(), OrderingKey: t.OrderingKey, Ends: sets[name]})
	}
	rows, err := tx.Swap(ctx, changes...)
	if err != nil {
		return err
	}
	for _, after := range rows {
		if after == nil || after.State != task.Submitted || after.Version == t.Version {
			continue
		}
		was := t.Hint()
		e.tell(func(state *state, now time.Time) { state.ReplaceUncertain(now, was.Ref) }) // the answer to the commit may be lost
		tx.OnCommit(func() {
			e.tell(func(state *state, now time.Time) { state.Replaced(now, &storage.Replacement{Was: was, Row: after}) })
		})
		break
	}
	return nil
}
