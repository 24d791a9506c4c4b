package engine

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/taskengine/taskengine/engine/internal/shell"
	"github.com/taskengine/taskengine/internal/wakeup"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

const (
	// reconcileEvery is the minimum rest between two comparisons of the store with the core.
	reconcileEvery = 20 * time.Second
	// reconcileShare bounds the load: all nodes together spend at most 1/reconcileShare of the
	// time on comparisons.
	reconcileShare = 20
	// reconcilePage is how many processing rows are read at a time.
	reconcilePage = 1000
	// reconcileScan is how many rows of all states are read at a time where several nodes
	// share the store: it has no index of processing rows.
	reconcileScan = 10_000
	// maxUnheld is how many rows are remembered from one pass to the next.
	maxUnheld = 10_000
)

// reconcileLoop compares the rows of this node that are processing in the store with what the
// core has under way. A row is unheld if nothing is under way for it. The core decides about a
// row that was unheld at the same version in two passes in a row. So the engine recovers a task
// that it lost track of, for whatever reason.
func (e *Engine) reconcileLoop(ctx context.Context) {
	r := reconciler{e: e}
	var cost wakeup.Cost
	for rest := reconcileEvery; wakeup.Sleep(ctx, rest) == nil; {
		if err := e.catalog.storeAgain(ctx, e.store); err != nil {
			e.log.Debug("cannot store the rules of types again; it is tried again", "error", err)
		}
		e.findUnlisted(ctx)
		e.cluster.HealRest(ctx)
		begin := time.Now()
		err := r.pass(ctx)
		if err != nil && ctx.Err() == nil {
			e.unanswered(ctx, "processing tasks", err)
		}
		nodes := max(1, len(e.Members()))
		rest = max(reconcileEvery, time.Duration(reconcileShare*nodes)*cost.After(time.Since(begin), err == nil))
	}
}

// findUnlisted reads the tasks that rest in the store if a task was uncertain and found no place
// among the uncertain tasks. It does so until uncertainFor has passed since, because the store
// may apply a request late.
func (e *Engine) findUnlisted(ctx context.Context) {
	var unlisted shell.Unlisted
	are := false
	e.tell(func(s *state, now time.Time) { unlisted, are = s.Unlisted(now) })
	if !are {
		return
	}
	e.cluster.ReadOwned(ctx)
	if ctx.Err() == nil {
		e.tell(func(s *state, _ time.Time) { s.Listed(unlisted) })
	}
}

// reconciler finds the rows of this node that are unheld. It belongs to reconcileLoop.
type reconciler struct {
	e      *Engine
	before map[task.ID]uint64 // versions of the rows that the last pass found unheld
	found  map[task.ID]uint64 // of this pass
}

// pass reads the rows of this node that are processing, and reclaims those that it finds unheld
// for the second time.
func (r *reconciler) pass(ctx context.Context) error {
	r.found = make(map[task.ID]uint64)
	read := r.readOwn
	if store, ok := r.e.store.(storage.Shared); ok {
		read = func(ctx context.Context) error { return r.readShared(ctx, store) }
	}
	if err := read(ctx); err != nil {
		return err // the next pass compares with the earlier findings
	}
	var lost []task.ID
	for id, version := range r.found {
		if r.before[id] == version {
			lost = append(lost, id)
		}
	}
	r.before = r.found
	slices.SortFunc(lost, task.ID.Compare)
	return r.reclaim(ctx, lost)
}

// readOwn reads a store that belongs to this process alone.
func (r *reconciler) readOwn(ctx context.Context) error {
	q := storage.DueQuery{State: task.Processing, Before: storage.DistantFuture, Limit: reconcilePage}
	for {
		page, err := r.e.store.Due(ctx, q)
		if err != nil {
			return err
		}
		refs := make([]task.Ref, len(page))
		for i, d := range page {
			refs[i] = d.Ref
		}
		r.compare(refs)
		if len(page) < reconcilePage {
			return nil
		}
		q.After = page[len(page)-1]
	}
}

// readShared reads a store that several nodes may share.
func (r *reconciler) readShared(ctx context.Context, store storage.Shared) error {
	var after task.ID
	for {
		self := r.e.Incarnation()
		others := slices.DeleteFunc(r.e.cluster.Alive(), func(id task.ID) bool { return id == self })
		rows, next, err := store.Orphans(ctx, others, after, reconcileScan)
		if err != nil {
			return err
		}
		var refs []task.Ref
		for _, t := range rows {
			if t.Owner == self {
				refs = append(refs, t.Ref())
			}
		}
		r.compare(refs)
		if after = next; after.IsZero() {
			return nil
		}
	}
}

// compare keeps the rows that are unheld.
func (r *reconciler) compare(refs []task.Ref) {
	r.e.tell(func(s *state, _ time.Time) {
		var saving map[task.ID]bool
		for _, ref := range refs {
			if s.Core().HasSlot(ref.ID) || s.IsUncertain(ref.ID) || len(r.found) >= maxUnheld {
				continue
			}
			if saving == nil {
				saving = s.Saving()
			}
			if !saving[ref.ID] {
				r.found[ref.ID] = ref.Version
			}
		}
	})
}

// reclaim has the core decide about rows that were unheld in two passes.
func (r *reconciler) reclaim(ctx context.Context, lost []task.ID) error {
	e, reclaimed := r.e, 0
	var first *task.Task
	for _, id := range lost {
		t, err := e.store.Get(ctx, id)
		switch {
		case errors.Is(err, task.ErrNotFound):
			continue
		case err != nil && (storage.IsOutage(err) || ctx.Err() != nil):
			return err
		case err != nil:
			e.unanswered(ctx, "a processing task", err)
			continue
		}
		e.tell(func(s *state, now time.Time) {
			if t.Owner != e.cluster.Incarnation() || t.Version != r.before[id] || t.State != task.Processing || s.Core().HasSlot(id) || s.IsUncertain(id) || s.IsSaving(t.Ref()) {
				return
			}
			s.Core().Reclaim(now, t)
			if reclaimed++; first == nil {
				first = t
			}
		})
	}
	if reclaimed > 0 {
		e.log.Warn("tasks were processing on this node in the store, and nothing of them was under way; they run again, or end in error if they may run at most once",
			"tasks", reclaimed, "first_id", first.ID, "first_type", first.Type)
	}
	return nil
}
