package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/taskengine/taskengine/engine/internal/core"
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

// pass reads the rows of this node that are processing, and reclaims the ones that it finds unheld
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

const (
	// firstCheck is the first pause before uncertain tasks are read. Each pause is twice as long as
	// the one before, up to longestCheck: an outage may last for hours.
	firstCheck   = time.Second
	longestCheck = 15 * time.Second
	// checkShare limits the time spent reading them to one part in checkShare. It makes no pause longer than longestCheck:
	// reads may be slow because the store is.
	checkShare = 20
)

// uncertainLoop reads the rows of uncertain tasks until there are none.
func (e *Engine) uncertainLoop(ctx context.Context) {
	var cost wakeup.Cost
	for {
		select {
		case <-e.wakes.uncertain.C():
		case <-ctx.Done():
			return
		}
		pause, least := firstCheck, time.Duration(0)
		for remain := 1; remain > 0; pause = min(2*pause, longestCheck) {
			more, err := e.restUncertain(ctx, pause, least)
			if err != nil {
				return
			}
			if more {
				pause = firstCheck / 2
			}
			begin, inVain := time.Now(), 0
			remain, inVain = e.checkUncertain(ctx)
			least = min(checkShare*cost.After(time.Since(begin), inVain == 0), longestCheck)
		}
	}
}

// restUncertain waits for a pause, and not less than least. If more tasks become uncertain meanwhile, it waits for firstCheck
// from then on instead, unless the pause ends before. It reports whether more did.
func (e *Engine) restUncertain(ctx context.Context, pause, least time.Duration) (more bool, err error) {
	begin, whole := time.Now(), max(pause, least)
	select {
	case <-ctx.Done():
		return false, ctx.Err()
	case <-time.After(whole):
		select {
		case <-e.wakes.uncertain.C():
			return true, nil
		default:
			return false, nil
		}
	case <-e.wakes.uncertain.C():
		waited := time.Since(begin)
		return true, wakeup.Sleep(ctx, min(max(firstCheck, least-waited), whole-waited))
	}
}

// maxInVain is how many reads may fail in one round.
const maxInVain = 10

// checkUncertain reads the rows of uncertain tasks, passes them to the shell, and returns how
// many tasks remain uncertain, and how many reads have failed. It reads tasks with a failed last read
// at the end: they may be in a database that does not answer.
func (e *Engine) checkUncertain(ctx context.Context) (remain, inVain int) {
	if e.findHolders(ctx) != nil {
		inVain++
	}
	e.mu.Lock()
	all, late := e.state.Uncertain()
	e.mu.Unlock()
	inVain += e.checkSome(ctx, false, all-late, maxInVain)
	inVain += e.checkSome(ctx, true, late, maxInVain-inVain)
	e.mu.Lock()
	defer e.mu.Unlock()
	remain, _ = e.state.Uncertain()
	return remain, inVain
}

// findHolders finds the tasks that uncertain requests may have replaced: they are uncertain themselves. It ends with the
// first error.
func (e *Engine) findHolders(ctx context.Context) error {
	for {
		e.mu.Lock()
		row := e.state.NextRequest()
		e.mu.Unlock()
		if row == nil {
			return nil
		}
		found, err := e.store.Existing(ctx, row)
		if err != nil {
			return err
		}
		e.tell(func(s *state, now time.Time) { s.FoundHolder(now, row, found[0]) })
	}
}

// checkSome reads the rows of the next n uncertain tasks, of the ones with a failed last read or of the
// others, until most of these reads have failed. It returns how many have.
func (e *Engine) checkSome(ctx context.Context, areLate bool, n, most int) (inVain int) {
	for ; n > 0 && inVain < most; n-- {
		e.mu.Lock()
		id := e.state.NextUncertain(areLate)
		isHeld := e.state.IsHeld(id.Shard())
		e.mu.Unlock()
		if id.IsZero() {
			break
		}
		if isHeld { // its database does not answer: its row is read when that does
			if areLate {
				inVain++
			}
			e.tell(func(s *state, _ time.Time) { s.Unread(id) })
			continue
		}
		t, err := e.store.Get(ctx, id)
		if err != nil && !errors.Is(err, task.ErrNotFound) {
			inVain++
			e.tell(func(s *state, _ time.Time) { s.Unread(id) })
			continue
		}
		handedBack := false
		e.tell(func(s *state, now time.Time) {
			if t == nil && !e.cluster.IsShared() {
				s.Gone(now, id)
			}
			handedBack = s.Resolve(now, id, t, t != nil && e.cluster.IsOurs(t.Owner))
			if t != nil {
				s.changed(now, t)
				s.waiters.ended(t)
			}
		})
		if handedBack {
			e.log.Warn("a task was grabbed by a commit that failed; it is handed back", "task_id", t.ID, "type", t.Type)
		}
	}
	return inVain
}

// EarlierEnd is the end of an attempt that a node has begun which is gone.
type EarlierEnd struct {
	Ref    task.Ref // the id of the task, and its version while the attempt ran
	Type   string
	Result []byte // of the handler
	Err    error  // likewise; see [task.Handler]
}

// EndEarlier ends attempts whose handlers go on when their node dies, and whose node is gone: another one, or the process
// before this one, see [Config.Await]. An end counts if its attempt is not over: if the row of the task is still the one
// that it ran with, and this node has not begun it. The other ends have no effect. The tasks that an end adds, see
// [task.WithTasks], are inserted if and only if the end counts, in the same commit.
//
// It returns how many ends count. An error says that the store could not be read or written, and that no end is known to
// count. To call it again does no harm.
func (e *Engine) EndEarlier(ctx context.Context, ends ...EarlierEnd) (counted int, err error) {
	var saves []core.Save
	for i := range ends {
		save, isOpen, err := e.endOf(ctx, &ends[i])
		if err != nil {
			return 0, fmt.Errorf("engine: end earlier attempts: %w", err)
		}
		if isOpen {
			saves = append(saves, save)
		}
	}
	for len(saves) > 0 {
		n, others, err := e.saveEarlier(ctx, saves)
		if err != nil {
			return 0, fmt.Errorf("engine: end earlier attempts: %w", err)
		}
		counted, saves = counted+n, others
	}
	return counted, nil
}

// saveEarlier makes saves. It returns how many it has made, and the saves in place of those that conflict.
func (e *Engine) saveEarlier(ctx context.Context, saves []core.Save) (counted int, others []core.Save, err error) {
	changes, follow := make([]task.Change, len(saves)), make([][]*task.Task, len(saves))
	var documents [][]task.DocumentChange
	for i := range saves {
		changes[i], follow[i] = saves[i].Change, saves[i].Follow
		if len(saves[i].Documents) > 0 && documents == nil {
			documents = make([][]task.DocumentChange, len(saves))
		}
		if documents != nil {
			documents[i] = saves[i].Documents
		}
	}
	rows, conflicts, err := e.cluster.EndEarlier(ctx, changes, follow, documents)
	if err != nil {
		return 0, nil, err
	}
	for i, t := range rows {
		switch {
		case t == nil && conflicts[i] != nil:
			others = append(others, saves[i].OnConflict(conflicts[i]))
		case t != nil:
			counted++
			if e.config.Observer.Saved != nil {
				e.config.Observer.Saved(e.Now(), changes[i].Ref, t)
			}
		}
	}
	return counted, others, nil
}

// endOf returns the save that an end means, and whether its attempt is open.
func (e *Engine) endOf(ctx context.Context, end *EarlierEnd) (save core.Save, isOpen bool, err error) {
	t, err := e.store.Get(ctx, end.Ref.ID)
	switch {
	case errors.Is(err, task.ErrNotFound):
		return save, false, nil
	case err != nil:
		return save, false, err
	case t.Ref() != end.Ref, t.State != task.Processing, t.Type != end.Type, e.cluster.IsOurs(t.Owner):
		return save, false, nil
	}
	again := e.contents.reencode(t)
	_ = e.contents.decode(t) // for Config.Retry; the change does not depend on it
	v := e.contents.encodeResult(t.Type, e.decided(t, e.verdictOf(ctx, t, end)))
	v.Reencoded = again
	e.decide(func(c *core.Core, now time.Time) { save = c.Earlier(now, t, v) })
	return save, true, nil
}

// verdictOf returns the verdict on an attempt of t that ended so on another node.
func (e *Engine) verdictOf(ctx context.Context, t *task.Task, end *EarlierEnd) task.Verdict {
	v := task.VerdictOf(end.Result, end.Err)
	if n := len(v.Result); n > 0 {
		if most := e.catalog.policyOf(t.Type).ResultLimit(); n > most {
			v = task.VerdictOf(nil, task.ResultTooLarge(t.Type, n, most))
		}
	}
	v.Again = e.byTimebase(v.Again)
	if err := e.checkRerun(ctx, t, &v, false); err != nil {
		return paused(task.VerdictOf(nil, err), err)
	}
	return v
}
