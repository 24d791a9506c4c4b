package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// watchHeader is the header of a task of relayType that has a task run after another one, which may be in another database.
const watchHeader = "watch"

// watch says that the task To runs after the task Of.
type watch struct {
	To task.ID `json:"to"`
	Of task.ID `json:"of"`

	Gone task.State `json:"gone"` // how the task Of has ended if it is not in the store any more
}

// watchesOf returns the rows of tasks of relayType that have the task of row run after the far ones of others. They are in the shard of row.
func (e *Engine) watchesOf(row *task.Task, after *predecessors) (rows []*task.Task, err error) {
	for _, i := range after.far {
		if e.abilities.relays == nil {
			return nil, errRelayStore
		}
		id := after.ids[i]
		data, err := json.Marshal(watch{To: row.ID, Of: id, Gone: after.goneState(i)})
		if err != nil {
			return nil, fmt.Errorf("encode what a task waits for: %w", err)
		}
		home, now := row.ID.Shard(), e.Now()
		rows = append(rows, &task.Task{
			ID: e.catalog.ids.NextIn(now, home), Type: relayType, Shard: home, Priority: e.catalog.infoOf(relayType).priority,
			Group: task.GroupOf(strconv.Itoa(e.databaseOf(id)), "after"), Headers: map[string]string{watchHeader: string(data)}, ReadyAt: now,
		})
	}
	return rows, nil
}

// follow adds a task to the followers of another one, or reports the end of that. It does nothing if the task was not added, since another one has its key
// or id. If it is done twice, that changes nothing.
func (c *carrier) follow(ctx context.Context) error {
	r, of := c.relay, c.watch.Of
	waits := false
	err := r.home(ctx, func(tx storage.Tx) error {
		t, err := tx.Get(ctx, c.watch.To)
		if waits = err == nil && t.Children.Set(task.AfterSet).IndexOf(of) >= 0; waits {
			return nil
		}
		if err != nil && !errors.Is(err, task.ErrNotFound) {
			return err
		}
		return FinishTx(ctx, tx, nil)
	})
	if err != nil {
		return fmt.Errorf("engine: look for a task that runs after task %v: %w", of, err)
	}
	if !waits {
		return nil
	}
	var over []childEnd
	err = r.store.updateIn(ctx, r.store.databaseOf(of.Shard()), func(tx storage.Tx) error {
		ended, err := r.engine.addFollowersTx(ctx, tx, []task.ID{of}, map[task.ID][]task.ID{of: {c.watch.To}})
		if errors.Is(err, ErrInvalid) { // it has too many: so the one that was to run after it is cancelled
			ended, err = map[task.ID]task.State{of: task.Cancelled}, nil
		}
		state, isOver := ended[of]
		if isOver && state == 0 {
			state = c.watch.Gone
		}
		if isOver {
			over = []childEnd{{To: c.watch.To, Name: task.AfterSet, Of: of, State: state}}
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("engine: have a task run after task %v: %w", of, err)
	}
	return r.home(ctx, func(tx storage.Tx) error {
		if len(over) > 0 {
			if err := r.engine.reportTx(ctx, tx, c.watch.To, over); err != nil {
				return err
			}
		}
		return FinishTx(ctx, tx, nil)
	})
}
