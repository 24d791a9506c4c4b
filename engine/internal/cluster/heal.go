package cluster

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/taskengine/taskengine/engine/internal/core"
	"github.com/taskengine/taskengine/internal/ratelog"
	"github.com/taskengine/taskengine/internal/wakeup"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

const (
	// healPage is how many rows are healed in one transaction.
	healPage = 1000
	// healScan is how many rows a read examines to find rows to heal.
	healScan = 10_000
	// healShare limits the time during which the healer reads to one part in healShare.
	healShare = 20
	// healLeases is for how many leases after a change of the members the healer does one round per lease:
	// the store may write requests of a dead node late.
	healLeases = 10
	// healEvery is how often it does a round when that is over.
	healEvery = time.Minute
)

// unhealed are tasks that an earlier process ran, and about which Heal could not decide.
type unhealed struct {
	refs     []task.Ref
	failures ratelog.Limiter
}

// Heal decides about the tasks that ran when the store was last used, if no other node uses it: the
// process that ran them is gone. It must be called before Run. If the store is shared, Heal does
// nothing: the node that is elected for it decides about the tasks of nodes that are gone.
func (k *Cluster) Heal(ctx context.Context) error {
	if k.shared != nil {
		return nil
	}
	healed, begin := 0, time.Now()
	var after storage.Due
	for {
		page, err := k.store.Due(ctx, storage.DueQuery{State: task.Processing, After: after, Before: storage.DistantFuture, Limit: healPage})
		if err != nil {
			return err
		}
		if len(page) == 0 {
			break
		}
		n, err := k.healSome(ctx, page)
		if err != nil {
			return err
		}
		healed += n
		after = page[len(page)-1]
	}
	if healed > 0 {
		k.log.Info("recovered tasks that ran when the engine last stopped", "tasks", healed, "took", time.Since(begin))
	}
	return nil
}

// healSome decides about one page of tasks, and returns about how many it did. It keeps the
// others for HealRest and HealAwaited.
func (k *Cluster) healSome(ctx context.Context, page []storage.Due) (healed int, err error) {
	var changes []task.Change
	for _, d := range page {
		t, err := k.store.Get(ctx, d.ID)
		switch {
		case err == nil && k.engine.Await(t.Type) > 0:
			patience := k.engine.Await(t.Type)
			k.awaited[patience] = append(k.awaited[patience], d.Ref)
		case err == nil:
			changes = append(changes, k.engine.Orphaned(t))
		case storage.IsOutage(err) || ctx.Err() != nil:
			return 0, err
		default:
			k.unhealed.refs = append(k.unhealed.refs, d.Ref)
			k.log.Error("a task that ran when the engine last stopped cannot be read", "task_id", d.ID, "error", err)
		}
	}
	out, err := k.swap(ctx, changes, nil, nil) // the core reads the heads when it starts
	if err != nil {
		return 0, err
	}
	for i, t := range out.rows {
		if t == nil {
			k.unhealed.refs = append(k.unhealed.refs, changes[i].Ref)
		} else {
			healed++
		}
	}
	return healed, nil
}

// HealRest tries again to decide about the tasks that Heal could not read or write. One goroutine
// calls it from time to time, after Heal has returned.
func (k *Cluster) HealRest(ctx context.Context) {
	var left []task.Ref
	for _, ref := range k.unhealed.refs {
		t, err := k.store.Get(ctx, ref.ID)
		switch {
		case errors.Is(err, task.ErrNotFound), err == nil && t.Ref() != ref:
			continue // it has been decided about
		case err == nil:
			err = k.recover(ctx, []task.Change{k.engine.Orphaned(t)})
		}
		if err != nil && k.unhealed.failures.Allow() {
			k.log.Error("a task that ran when the engine last stopped cannot be read or written; it is tried again", "task_id", ref.ID, "error", err)
		}
		left = append(left, ref) // the next call finds out whether the change was made
	}
	k.unhealed.refs = left
}

// recover makes the changes of tasks of dead nodes, and passes the made ones to the core.
func (k *Cluster) recover(ctx context.Context, changes []task.Change) error {
	for page := range slices.Chunk(changes, healPage) {
		out, err := k.swap(ctx, page, nil, nil)
		if err != nil {
			return err
		}
		k.log.Warn("recovered tasks of nodes that are gone", "tasks", k.changed(out, nil))
	}
	return nil
}

// changed passes changed rows that no node ran to the engine, with the rows that followed them and the heads. It returns
// how many rows were changed.
func (k *Cluster) changed(out swapped, follow [][]*task.Task) (n int) {
	k.engine.Decide(func(c *core.Core, now time.Time) {
		for i, t := range out.rows {
			if t == nil {
				continue
			}
			c.Changed(now, t)
			k.engine.Ended(t)
			k.engine.Recovered(t)
			n++
			for j, in := range out.followed[i] {
				k.engine.Inserted(now, follow[i][j], in)
			}
		}
		for _, t := range out.carriers {
			k.engine.Inserted(now, t, storage.Inserted{})
		}
		for _, h := range out.heads {
			c.Promoted(now, h)
		}
	})
	return n
}

// healLoop decides about the tasks of nodes that are gone, whenever this node is elected for it.
func (k *Cluster) healLoop(ctx context.Context) {
	k.Lead(ctx, "healer", func(ctx context.Context) error { return newHealer(k).run(ctx) })
}

// healer decides about tasks of dead nodes. That is the duty of one node; two nodes that do it at once
// waste work and do no harm. One goroutine owns a healer.
type healer struct {
	k       *Cluster
	changed time.Time             // when the members last changed
	missing map[task.ID]time.Time // owners of tasks that are not among the members, and when they count as gone
	seen    map[task.ID]bool      // owners of tasks that the present round has found
	early   []*task.Task          // found in the present round when it was too early to decide
	silent  map[task.ID]time.Time // nodes with silent sessions that are not among the members, and when they count as gone
	cost    wakeup.Cost           // of a round
}

func newHealer(k *Cluster) *healer {
	return &healer{k: k, missing: make(map[task.ID]time.Time), silent: make(map[task.ID]time.Time), changed: time.Now()}
}

// run does one round after another until ctx ends or the store cannot be read or written.
func (h *healer) run(ctx context.Context) error {
	for {
		begin := time.Now()
		h.endSessions(ctx) // first: they may hold locks that the round needs
		if err := h.round(ctx); err != nil {
			return err
		}
		timer := time.NewTimer(h.rest(begin))
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-h.k.reheal.C():
			timer.Stop()
			h.changed = time.Now()
		case <-timer.C:
		}
	}
}

// rest returns how long the healer rests after a round that started at begin. It forgets owners that
// the round found no task of.
func (h *healer) rest(begin time.Time) time.Duration {
	lease := h.k.Lease()
	rest := healEvery
	if len(h.silent) > 0 {
		rest = lease / 4
	}
	if begin.Sub(h.changed) < healLeases*lease {
		rest = min(rest, lease)
	}
	rest = max(rest, healShare*h.cost.After(time.Since(begin), true))
	for owner := range h.missing {
		if !h.seen[owner] {
			delete(h.missing, owner)
			continue
		}
		rest = lease / 4 // until the node is gone for good, or is back
	}
	return rest
}

// round reads all rows once to find the rows of dead nodes. If the members change during the round, it
// goes on from there to the end, and from the start to that place. It decides at the end of the round
// about the rows that it found too early: to find them again may take long.
func (h *healer) round(ctx context.Context) error {
	h.seen, h.early = make(map[task.ID]bool), nil
	var after, stop task.ID // stop is where the members changed
	for wrapped := false; ; {
		select {
		case <-h.k.reheal.C():
			h.changed, h.early = time.Now(), nil
			stop, wrapped = after, false
		default:
		}
		asked := time.Now()
		alive := h.k.Alive()
		if alive == nil {
			return nil // this node does not know which nodes are alive
		}
		rows, next, err := h.orphans(ctx, alive, after)
		if err != nil {
			return err
		}
		if err := h.decide(ctx, rows, asked); err != nil {
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

// orphans returns the next rows of dead nodes. It leaves out databases that do not answer.
func (h *healer) orphans(ctx context.Context, alive []task.ID, after task.ID) (rows []*task.Task, next task.ID, err error) {
	for {
		isRead := h.k.find(ctx, "the tasks of nodes that are gone", func(ctx context.Context, in storage.Finder) error {
			rows, next, err = in.Orphans(ctx, alive, after, healScan)
			return err
		})
		if isRead || ctx.Err() != nil || !errors.Is(err, context.Canceled) {
			return rows, next, err
		} // another database does not answer, or answers again
	}
}

// goneAt returns when a node that is not among the members counts as gone. A node that has left them is gone after half a
// lease: after an outage of the coordinator all nodes come back. A node that this one has not seen may have just joined.
// When a lease has passed and this node still proves that it is alive, it has renewed its own lease after it saw the task,
// and the answer to that had all nodes that had joined before: see [coord.Membership].
func (h *healer) goneAt(v *view, owner task.ID, now time.Time) time.Time {
	if left, ok := v.left[owner]; ok {
		return left.Add(h.k.Lease() / 2)
	}
	return now.Add(h.k.Lease())
}

// decide decides about rows of nodes that had been missing for long enough when this node asked for the live nodes:
// reading the rows may have taken long.
func (h *healer) decide(ctx context.Context, rows []*task.Task, asked time.Time) error {
	now := time.Now()
	v := h.k.view.Load()
	var changes []task.Change
	for _, t := range rows {
		h.seen[t.Owner] = true
		gone, ok := h.missing[t.Owner]
		if !ok {
			gone = h.goneAt(v, t.Owner, now)
			h.missing[t.Owner] = gone
		}
		switch {
		case !asked.Before(gone):
			changes = append(changes, h.k.engine.Orphaned(t))
		case len(h.early) < healScan:
			h.early = append(h.early, t)
		}
	}
	return h.k.recover(ctx, changes)
}

// decideEarly decides about the early rows once their nodes have been missing for long enough.
func (h *healer) decideEarly(ctx context.Context) error {
	if len(h.early) == 0 {
		return nil
	}
	var latest time.Time
	for _, t := range h.early {
		if gone := h.missing[t.Owner]; gone.After(latest) {
			latest = gone
		}
	}
	if err := wakeup.Sleep(ctx, time.Until(latest)); err != nil {
		return err
	}
	alive := h.k.Alive()
	if alive == nil {
		return nil
	}
	var changes []task.Change
	for _, t := range h.early {
		if !slices.Contains(alive, t.Owner) {
			changes = append(changes, h.k.engine.Orphaned(t))
		}
	}
	return h.k.recover(ctx, changes)
}
