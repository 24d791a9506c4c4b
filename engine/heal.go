package engine

import (
	"context"
	"slices"
	"time"

	"github.com/taskengine/taskengine/engine/internal/core"
	"github.com/taskengine/taskengine/engine/policy"
	"github.com/taskengine/taskengine/engine/task"
	"github.com/taskengine/taskengine/storage"
)

const (
	// healPage is how many rows are healed in one transaction.
	healPage = 1000
	// healScan is how many rows are read at a time to find those that are to be healed.
	healScan = 10_000
	// healShare is what part of the time the healer reads at most.
	healShare = 20
	// healLeases is for how many leases after a change of the members the healer looks again
	// in each: what a node had sent before it died may be written late.
	healLeases = 10
	// healEvery is how often it looks when that is over.
	healEvery = time.Minute
)

// DefaultLease is how long a node is believed to be alive after it has proved it.
const DefaultLease = 4 * time.Second

// healAll decides about the tasks that were running when the store was last used. The
// store belongs to this process alone, so whoever ran them is gone.
func (e *Engine) healAll(ctx context.Context) error {
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
			changes[i] = core.Orphaned(now, e.policyOf(t.Type), t)
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

// heal decides about tasks whose nodes are gone, for as long as ctx lasts. It is the duty
// of one node; two doing it at once waste work and nothing else. A node is gone when it
// was not among the members for half a lease: one that has just joined may not be seen
// yet, and after an outage of the database all of them come back.
func (e *Engine) heal(ctx context.Context, store storage.Shared) error {
	missing := make(map[task.ID]time.Time) // by incarnation, since when
	changed := time.Now()
	for {
		begin := time.Now()
		seen := make(map[task.ID]bool)
		if err := e.healRound(ctx, store, missing, seen); err != nil {
			return err
		}
		rest := healEvery
		if begin.Sub(changed) < healLeases*e.config.Lease {
			rest = e.config.Lease
		}
		rest = max(rest, healShare*time.Since(begin))
		for owner := range missing {
			if !seen[owner] {
				delete(missing, owner)
				continue
			}
			rest = e.config.Lease / 4 // until it is over, or the node is back
		}
		timer := time.NewTimer(rest)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-e.healNow:
			timer.Stop()
			changed = time.Now()
		case <-timer.C:
		}
	}
}

// healRound looks at all that runs once. It notes in seen whose tasks it found that are
// not among the members, and in missing since when. What it found too early it decides about
// at the end: it may take long to find it again.
func (e *Engine) healRound(ctx context.Context, store storage.Shared, missing map[task.ID]time.Time, seen map[task.ID]bool) error {
	var early []*task.Task
	for after, more := (task.ID{}), true; more; more = !after.IsZero() {
		alive := e.aliveIDs()
		if alive == nil {
			return nil // nobody knows who is
		}
		rows, next, err := store.Orphans(ctx, alive, after, healScan)
		if err != nil {
			return err
		}
		var changes []task.Change
		now := time.Now()
		for _, t := range rows {
			seen[t.Owner] = true
			since, ok := missing[t.Owner]
			if !ok {
				missing[t.Owner], since = now, now
			}
			switch {
			case now.Sub(since) >= e.config.Lease/2:
				changes = append(changes, core.Orphaned(now, e.policyOf(t.Type), t))
			case len(early) < healScan:
				early = append(early, t)
			}
		}
		if err := e.recover(ctx, changes); err != nil {
			return err
		}
		after = next
	}
	return e.healEarly(ctx, early, missing)
}

// healEarly decides about rows once their nodes have been missing for long enough.
func (e *Engine) healEarly(ctx context.Context, rows []*task.Task, missing map[task.ID]time.Time) error {
	if len(rows) == 0 {
		return nil
	}
	var latest time.Time
	for _, t := range rows {
		if since := missing[t.Owner]; since.After(latest) {
			latest = since
		}
	}
	if err := sleep(ctx, time.Until(latest.Add(e.config.Lease/2))); err != nil {
		return err
	}
	alive := e.aliveIDs()
	if alive == nil {
		return nil
	}
	var changes []task.Change
	for _, t := range rows {
		if !slices.Contains(alive, t.Owner) {
			changes = append(changes, core.Orphaned(time.Now(), e.policyOf(t.Type), t))
		}
	}
	return e.recover(ctx, changes)
}

// policyOf returns how tasks of a type are treated.
func (e *Engine) policyOf(typ string) policy.Type {
	if p, ok := e.config.Policies.Types[typ]; ok {
		return p
	}
	return policy.DefaultType()
}

// aliveIDs returns the incarnations that are alive, nil if this node is not.
func (e *Engine) aliveIDs() []task.ID {
	e.mu.Lock()
	defer e.mu.Unlock()
	var ids []task.ID
	for _, m := range e.cluster.members {
		ids = append(ids, m.Incarnation)
	}
	return ids
}

// recover makes the changes of tasks whose nodes are gone, and tells those whose they are.
func (e *Engine) recover(ctx context.Context, changes []task.Change) error {
	for len(changes) > 0 {
		page := changes[:min(len(changes), healPage)]
		changes = changes[len(page):]
		rows, err := e.store.Swap(ctx, page...)
		if err != nil {
			return err
		}
		n := 0
		e.decide(func(c *core.Core, now time.Time) {
			for _, t := range rows {
				if t != nil {
					c.Changed(now, t)
					e.waiters.ended(t)
					n++
				}
			}
		})
		e.log.Warn("recovered tasks whose nodes are gone", "tasks", n)
	}
	return nil
}
