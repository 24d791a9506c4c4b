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
		var changes []task.Change
		for _, d := range page {
			t, err := e.store.Get(ctx, d.ID)
			switch {
			case err == nil:
				changes = append(changes, core.Orphaned(now, e.policyOf(t.Type), t))
			case isOutage(err) || ctx.Err() != nil:
				return err
			default: // the reconciler tries it again
				e.unhealed = append(e.unhealed, d.Ref)
				e.log.Error("a task that ran when the engine last stopped cannot be read", "id", d.ID, "error", err)
			}
		}
		rows, err := e.swapPieces(ctx, changes)
		if err != nil {
			return err
		}
		for i, t := range rows {
			if t == nil {
				e.unhealed = append(e.unhealed, changes[i].Ref)
			} else {
				healed++
			}
		}
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
	h := healer{e: e, store: store, missing: make(map[task.ID]time.Time), changed: time.Now()}
	for {
		begin := time.Now()
		if err := h.round(ctx); err != nil {
			return err
		}
		rest := healEvery
		if begin.Sub(h.changed) < healLeases*e.config.Lease {
			rest = e.config.Lease
		}
		rest = max(rest, healShare*time.Since(begin))
		for owner := range h.missing {
			if !h.seen[owner] {
				delete(h.missing, owner)
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
			h.changed = time.Now()
		case <-timer.C:
		}
	}
}

// healer finds and decides about tasks whose nodes are gone. It belongs to heal.
type healer struct {
	e       *Engine
	store   storage.Shared
	changed time.Time             // when the members last changed
	missing map[task.ID]time.Time // owners of tasks that are not among the members, since when
	seen    map[task.ID]bool      // those of them that the last round came upon
	early   []*task.Task          // found in this round when it was too early to decide
}

// round looks at all that runs once; when the members change meanwhile, at all from there
// on and round to there. What it found too early it decides about at the end: it may take
// long to find it again.
func (h *healer) round(ctx context.Context) error {
	h.seen, h.early = make(map[task.ID]bool), nil
	var after, stop task.ID // stop is where the members changed
	for wrapped := false; ; {
		select {
		case <-h.e.healNow:
			h.changed, h.early = time.Now(), nil
			stop, wrapped = after, false
		default:
		}
		alive := h.e.aliveIDs()
		if alive == nil {
			return nil // nobody knows who is
		}
		rows, next, err := h.store.Orphans(ctx, alive, after, healScan)
		if err != nil {
			return err
		}
		if err := h.decide(ctx, rows); err != nil {
			return err
		}
		switch after = next; {
		case after.IsZero() && (stop.IsZero() || wrapped), wrapped && after.Compare(stop) >= 0:
			return h.decideEarly(ctx)
		case after.IsZero():
			wrapped = true
		}
	}
}

// decide decides about those rows whose nodes have been missing for long enough.
func (h *healer) decide(ctx context.Context, rows []*task.Task) error {
	now := time.Now()
	var changes []task.Change
	for _, t := range rows {
		h.seen[t.Owner] = true
		since, ok := h.missing[t.Owner]
		if !ok {
			since = h.e.leftAt(t.Owner, now)
			h.missing[t.Owner] = since
		}
		switch {
		case now.Sub(since) >= h.e.config.Lease/2:
			changes = append(changes, core.Orphaned(now, h.e.policyOf(t.Type), t))
		case len(h.early) < healScan:
			h.early = append(h.early, t)
		}
	}
	return h.e.recover(ctx, changes)
}

// decideEarly decides about the early rows once their nodes have been missing for long
// enough.
func (h *healer) decideEarly(ctx context.Context) error {
	if len(h.early) == 0 {
		return nil
	}
	var latest time.Time
	for _, t := range h.early {
		if since := h.missing[t.Owner]; since.After(latest) {
			latest = since
		}
	}
	if err := sleep(ctx, time.Until(latest.Add(h.e.config.Lease/2))); err != nil {
		return err
	}
	alive := h.e.aliveIDs()
	if alive == nil {
		return nil
	}
	var changes []task.Change
	for _, t := range h.early {
		if !slices.Contains(alive, t.Owner) {
			changes = append(changes, core.Orphaned(time.Now(), h.e.policyOf(t.Type), t))
		}
	}
	return h.e.recover(ctx, changes)
}

// policyOf returns how tasks of a type are treated.
func (e *Engine) policyOf(typ string) policy.Type {
	if p, ok := e.config.Policies.Types[typ]; ok {
		return p
	}
	return policy.DefaultType()
}

// leftAt returns when an incarnation was last among the members that this node saw; now if
// it does not know.
func (e *Engine) leftAt(id task.ID, now time.Time) time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	if at, ok := e.cluster.left[id]; ok {
		return at
	}
	return now
}

// aliveIDs returns the incarnations that are alive, nil if this node is not: what it knows of
// the others may be out of date then.
func (e *Engine) aliveIDs() []task.ID {
	if e.prover != nil && !e.prover.Proves(e.Incarnation()) {
		return nil
	}
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
		rows, err := e.swapPieces(ctx, page)
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
