package engine

import (
	"context"
	"time"

	"github.com/taskengine/taskengine/engine/internal/core"
	"github.com/taskengine/taskengine/engine/task"
	"github.com/taskengine/taskengine/storage"
)

// healPage is how many rows are healed in one transaction.
const healPage = 1000

// heal decides about the tasks that were running when the store was last used. The
// store belongs to this process alone, so whoever ran them is gone.
func (e *Engine) heal(ctx context.Context) error {
	healed, now := 0, e.clock.now()
	var after storage.Due
	for {
		page, err := e.store.Due(ctx, storage.DueQuery{State: task.Processing, After: after, Before: distantFuture, Limit: healPage})
		if err != nil {
			return err
		}
		if len(page) == 0 {
			break
		}
		changes := make([]task.Change, len(page))
		for i, d := range page {
			t, err := e.store.Get(ctx, d.ID)
			if err != nil {
				return err
			}
			changes[i] = core.Orphaned(now, e.core.Policy(t.Type), t)
		}
		if _, err := e.store.Swap(ctx, changes...); err != nil {
			return err
		}
		healed += len(page)
		after = page[len(page)-1]
	}
	if healed > 0 {
		e.log.Info("recovered tasks that ran when the engine last stopped", "tasks", healed, "took", time.Since(now))
	}
	return nil
}
